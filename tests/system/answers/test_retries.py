"""The table of tries: each kind of try that fails until something happens, with each way
to nap between, ended by a thread and by a process.

The program (tests/programs/interposed/i_retry.c) has one cell for each. Whoever ends the
wait has computed for MS, and who tried computes for MS afterwards: the longest path has
both, and no nap."""
import shutil
import subprocess

import pytest

MS = 20


def cells(program):
    done = subprocess.run([program, "list"], check=True, capture_output=True, text=True)
    return [line.split() for line in done.stdout.splitlines()]


WAYS = ("tcp", "unix", "abstract", "waitpid", "wait-1", "waitid", "recv", "pipe", "trylock",
        "tryrdlock", "sem", "flock", "setlk", "stat", "access", "open", "directory",
        "gone", "moved", "lockdir", "lockfile", "lockname", "kill0", "proc")


def asleep(path):
    return sum(s["ns"] for s in path["segments"] if s["kind"] == "external")


@pytest.mark.parametrize("way", WAYS)
def test_who_let_it_succeed(cluster, build, way):
    """Would catch: naps between tries that weigh as sleeps, so that the path runs through
    them and past the work that they waited for; a try without the arc from the event that
    let it succeed; a path in wall that is not as long as the run."""
    program, c, wrong = build.program("i_retry"), cluster(), []
    of_way = [cell for cell in cells(program) if cell[0] == way]
    assert of_way
    for i, cell in enumerate(of_way):
        c.ipsrun([program, *cell, str(MS)], name="c%d" % i, check=True)
    for i, cell in enumerate(of_way):
        run = "c%d" % i
        c.wait_closed(run)
        for weighting in ("cpu", "sched"):
            path = c.json("path", run, "--weighting", weighting)
            ns, elapsed = path["t_max_ns"], path["elapsed_ns"]
            # a nap is 2 ms; a page or a name that comes from the disk takes less
            if asleep(path) >= 1e6 or not 1.95e6 * MS <= ns <= elapsed:
                wrong.append((*cell, weighting, ns, asleep(path), elapsed))
        wall = c.json("path", run, "--weighting", "wall")
        if not 0.9 * wall["elapsed_ns"] <= wall["t_max_ns"] <= wall["elapsed_ns"]:
            wrong.append((*cell, "wall", wall["t_max_ns"], wall["elapsed_ns"]))
    assert not wrong


# The one that makes the file computes only after the other has begun to nap. Of the commands
# none but compute_ms computes.
SHELL = """
cd "$1"
(until test -e begun; do sleep 0.002; done; "$2" %d; > ready) &
until test -e ready; do > begun; sleep 0.01; done
"$2" %d
wait
"""


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_a_shell_naps_by_a_child(cluster, build, tmp_path, shell):
    """Would catch: the sleeps of a shell's `until test -e FILE; do sleep N; done` on the path,
    which are those of its children; a path that does not go through who made the file."""
    if not shutil.which(shell):
        pytest.skip(f"no {shell}")
    c = cluster()
    script = SHELL % (MS * 5, MS)
    c.ipsrun([shell, "-c", script, shell, str(tmp_path), build.program("compute_ms")],
             name="r", check=True)
    c.wait_closed("r")
    path = c.json("path", "r")
    # On a busy machine a nap before the first failed try may be on the path.
    assert asleep(path) < MS * 1e6
    assert 5.9e6 * MS <= path["t_max_ns"] <= path["elapsed_ns"]


# $1: the program that computes. Each waits for LONG by tries with sleeps between, and
# computes for SHORT then.
LOOPS = {
    "while -e": "> f; ( $1 LONG; rm f ) & while [ -e f ]; do sleep 0.01; done; $1 SHORT; wait",
    "set -C": "> f; ( $1 LONG; rm f ) & until ( set -C; > f ) 2> e; do sleep 0.01; done\n"
              "$1 SHORT; wait",
    "mkdir": "mkdir d; ( $1 LONG; rmdir d; exec sleep 9 ) &\n"
             "until mkdir d 2> e; do sleep 0.01; done; $1 SHORT; kill $!",
    "kill -0": "$1 LONG & p=$!; ( while kill -0 $p 2> e; do sleep 0.01; done; $1 SHORT ) & wait",
    "/proc": "$1 LONG & p=$!; ( while [ -d /proc/$p ]; do sleep 0.01; done; $1 SHORT ) & wait",
    "tail --pid": "> e; $1 LONG & tail --pid=$! -s 0.01 -f e; $1 SHORT",
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_of_a_shell(cluster, build, tmp_path, name):
    """Would catch: a loop of a shell that ends when something is gone, or when a command no
    longer fails, whose sleeps are on the path."""
    c = cluster()
    script = LOOPS[name].replace("LONG", str(MS * 10)).replace("SHORT", str(MS))
    c.ipsrun(["bash", "-c", "cd \"$2\"; " + script, "bash", build.program("compute_ms"),
              str(tmp_path)], name="r", check=True)
    c.wait_closed("r")
    path = c.json("path", "r")
    assert asleep(path) < MS * 1e6
    assert 10.9e6 * MS <= path["t_max_ns"] <= path["elapsed_ns"]


# $1 computes. Nothing of these waits for the other: the sleeps are work by the clock.
PERIODIC = {
    "one who looks before its work":
        "job() { for i in 1 2 3 4 5; do [ -f $1 ]; > $1; $C SHORT; [ -f $1 ] && rm $1; sleep 0.05\n"
        "done; }\njob a & sleep 0.02; job b; wait",
    "ends its own child":
        "sleep 9 & p=$!; for i in 1 2 3 4 5; do kill -0 $p; sleep 0.05; done; kill $p\n"
        "wait $p; kill -0 $p || $C SHORT",
    "looks at both ends":
        "> a; [ -f a ]; for i in 1 2 3 4 5; do $C SHORT; sleep 0.05; done; rm a; ! [ -f a ]",
}


@pytest.mark.parametrize("name", PERIODIC)
def test_periodic_work_with_files(cluster, build, tmp_path, name):
    """Would catch: sleeps of a program that looks at files, but waits for none, taken for naps
    between tries, so that the path is too short."""
    c = cluster()
    script = "C=$1; cd \"$2\"; " + PERIODIC[name].replace("SHORT", str(MS // 4))
    c.ipsrun(["bash", "-c", script, "bash", build.program("compute_ms"), str(tmp_path)],
             name="r", check=True)
    c.wait_closed("r")
    path = c.json("path", "r")
    assert asleep(path) > 4 * 50e6


def test_a_command_that_no_longer_fails(cluster, build, tmp_path):
    """Nothing tells why grep found the word this time. Would catch: an answer that is
    complete and sure although it does not know whom the shell waited for; naps of such a
    loop that weigh as sleeps."""
    c = cluster()
    script = ("cd \"$2\"; > log; ( $1 %d; echo ready > log; sleep 9 ) &\n"
              "until grep -q ready log; do sleep 0.01; done; $1 %d; kill $!" % (MS * 5, MS * 5))
    c.ipsrun(["bash", "-c", script, "bash", build.program("compute_ms"), str(tmp_path)],
             name="r", check=True)
    c.wait_closed("r")
    path = c.json("path", "r", status=(3,))
    assert any("what ended some waits is not known" in g for g in path["certificate"]["gaps"])
    assert asleep(path) < MS * 1e6
    why = c.json("why", "r", status=(0, 3))
    outside = [f["sure"] for f in why["findings"] if f["kind"] == "outside"]
    assert outside and "high" not in outside


@pytest.mark.quick
def test_the_table_is_whole(build):
    """Would catch: cells that nobody runs, because their way is not in the list above."""
    found = cells(build.program("i_retry"))
    assert {cell[0] for cell in found} == set(WAYS)
    assert len(found) > 60
