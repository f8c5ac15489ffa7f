"""`ipsq why` names what is wrong with a program, and nothing where nothing is:
programs with each problem that it knows, singly and in pairs, whose amounts are
counts of work (tests/programs/why). Findings are of the program itself, however
busy the machine is; that it is busy may be said beside them, and is left out
here. The rules themselves: tests/unit/master/test_why.c.

EVIDENCE-OF: IPS-17."""
import os
import re
import shlex
import subprocess
import time

import pytest

from test_calibrate import import_table

CORES = len(os.sched_getaffinity(0))
KIND = {"procedure": "procedure", "serial": "serial-section",
        "late": "late-sender", "imbalance": "load-imbalance",
        "chatty": "chatty-messages", "locks": "lock-contention",
        "cores": "too-few-cores", "outside": "outside", "spread": "spread"}
# Work that could be done by others meanwhile is none where there is one core.
PARALLEL = {"serial", "late", "imbalance", "locks"}
PAIRS = [("procedure", "outside"), ("locks", "serial")]  # all: test_why_pairs.py


def ask(cluster, build, *problems):
    c = cluster()
    c.ipsrun([build.program("why-problems"), *problems], name="r", check=True,
             options=["--procedures=sample", "--rate", "1"])
    c.wait_closed("r")
    answer = c.json("why", "r", status=(0, 3))
    found = [f for f in answer["findings"] if f["kind"] != "busy-machine"]
    return c, answer, found


def need_cores(*problems):
    if CORES < 2 and PARALLEL & set(problems):
        pytest.skip("on one core nobody could do it meanwhile")


@pytest.mark.parametrize("problem", sorted(KIND))
def test_named_first(cluster, build, problem):
    """Would catch a problem that is not seen, or called by another's name; and
    another caller of all that is spread than the one that it has."""
    need_cores(problem)
    _, answer, found = ask(cluster, build, problem)
    assert [f["kind"] for f in found][:1] == [KIND[problem]], (
        [(f["kind"], f["gain_ns"], f["path_ns"], f["sure"]) for f in answer["findings"]], answer)
    if problem == "spread":  # sixty leaves with one caller
        assert answer["common_procedure"] == "work_over", answer
        assert answer["common_low_ns"] <= answer["common_ns"] \
            <= answer["common_high_ns"] <= answer["common_of_ns"]


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_pairs_among_the_first(cluster, build, pair):
    """Would catch one problem that hides another of the same program."""
    need_cores(*pair)
    _, answer, found = ask(cluster, build, *pair)
    assert {KIND[p] for p in pair} <= {f["kind"] for f in found[:3]}, answer


def test_chatty_with_measured_message_times(cluster, build, tmp_path):
    """Would catch message times taken for lengths: then no message is short, or
    the mean length is as many bytes as a message took ns."""
    c, _, found = ask(cluster, build, "chatty")
    said = [f["evidence"] for f in found if f["kind"] == KIND["chatty"]]
    import_table(c, tmp_path, ("m1", "m1", 1))
    answer = c.json("why", "r", "--fresh", status=(0, 3))
    again = [f["evidence"] for f in answer["findings"]
             if f["kind"] == KIND["chatty"]]
    length = re.search("[0-9]+ bytes on average", said[0]).group()
    assert again and length in again[0], (said, answer)


def test_several_that_sleep(cluster):
    """Would catch all waits of the path credited to the process that waits longest."""
    c = cluster()
    c.ipsrun(["sh", "-c", "sleep 0.3; sleep 0.15; sleep 0.15"], name="r", check=True)
    c.wait_closed("r")
    answer = c.json("why", "r", status=(0, 3))
    says, = [f["says"] for f in answer["findings"] if f["kind"] == "outside"]
    assert re.match(r"/m1/sleep\.\d+ \(\d\d%\) and other processes wait, mostly for a timer", says), says


def test_other_programs_are_no_lack_of_cores(cluster, build):
    """Would catch "too many processes" said of a single one, beside other programs."""
    others = []
    try:
        for _ in range(CORES + 1):
            others.append(subprocess.Popen(["sh", "-c", "while :; do :; done"]))
        c = cluster()
        c.ipsrun([build.program("compute_ms"), "300"], name="r", check=True)
        c.wait_closed("r")
        answer = c.json("why", "r", status=(0, 3))
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert "too-few-cores" not in {f["kind"] for f in answer["findings"]}, answer


def test_healthy(cluster, build):
    """Would catch a false alarm: equal work of two processes in procedures of
    equal cost, no waits (but for one core, which two want)."""
    _, answer, found = ask(cluster, build, "healthy")
    assert [f["kind"] for f in found] == \
        (["too-few-cores"] if CORES < 2 else []), answer


def test_two_machines(cluster, build):
    """Would catch a finding about the wrong machine, or none where messages
    cross: a client waits for a server that works four times as long."""
    need_cores("late")
    c = cluster(["m1", "m2"])
    how = {"options": ["--procedures=sample", "--rate", "1"]}
    server = c.popen([build.program("why-problems"), "serve"], name="r",
                     machine=1, stdout=-1, text=True, **how)
    port = server.stdout.readline().split()[1]
    c.ipsrun([build.program("why-problems"), "ask", port], join="r", machine=0,
             check=True, **how)
    assert server.wait(60) == 0
    c.wait_closed("r", machines=2)
    answer = c.json("why", "r", status=(0, 3))
    late = [f for f in answer["findings"] if f["kind"] == "late-sender"]
    assert len(late) == 1, answer
    assert late[0]["object"].startswith("/m2/")
    assert late[0]["other"].startswith("/m1/")
    assert late[0]["procedure"] == "answer_question"


def test_slow_reader(cluster):
    """A writer that finds no room waits for who reads late. Would catch: the wait told the
    other way round, as one of the reader for its messages."""
    need_cores("late")
    c = cluster()
    writer = "import os\nfor i in range(200): os.write(1, bytes(65536))"
    reader = ("import os\nwhile os.read(0, 65536):\n"
              "    sum(range(60000))")
    c.ipsrun(["sh", "-c", f"/usr/bin/python3 -c '{writer}' | /usr/bin/python3 -c '{reader}'"],
             name="r", check=True)
    c.wait_closed("r")
    answer = c.json("why", "r", status=(0, 3))
    late = [f for f in answer["findings"] if f["kind"].startswith("late-")]
    assert [f["kind"] for f in late] == ["late-receiver"], answer
    rows = {f"/m1/{r['name']}": r for r in c.json("ls", "r")["processes"]}
    assert "os.read" in rows[late[0]["object"]]["command"]
    assert "os.write" in rows[late[0]["other"]]["command"]
    assert "slow to read" in late[0]["says"] and "blocked writing" in late[0]["says"]


def test_our_own_code(cluster):
    """A program that hardly does anything but calls that are recorded. Would catch: a
    function of ours named as the program's, or as what is to be changed."""
    c = cluster()
    loops = {
        "calls": ["perl", "-e",
                  "pipe R, W; for (1..300000) { syswrite W, 'x'; sysread R, $x, 1 }"],
        "locks": ["/usr/bin/python3", "-c", "import threading\nlock = threading.Lock()\n"
                  "for _ in range(8000000): lock.acquire(), lock.release()"]}
    for name, command in loops.items():
        c.ipsrun(command, name=name, options=["--procedures=sample", "--rate", "1"],
                 check=True)
        c.wait_closed(name)
        rows = c.json("procedures", name, "--top", 1000)["procedures"]
        ours = [r for r in rows if r["procedure"] == "[recording]"]
        # A sample that comes around a system call is the call's.
        assert len(ours) <= 1 and (ours or name == "calls"), rows
        assert all(r["self_ns"] == r["total_ns"] > 0 for r in ours)
        assert not [r for r in rows if r["module"] == "libips-preload.so" and r not in ours]
        answer = c.json("why", name, status=(0, 3))
        assert answer["findings"] or answer["nearest"]
        assert not [f for f in answer["findings"] if f["procedure"] == "[recording]"], answer


def test_commands_that_show_more(cluster, build):
    """Would catch a command in the answer that ipsq does not take."""
    c, answer, found = ask(cluster, build, "chatty", "procedure", "locks",
                           "outside")
    assert found
    for finding in answer["findings"]:
        words = shlex.split(finding["command"])
        assert words[0] == "ipsq"
        done = c.ipsq(*words[1:])
        assert done.returncode in (0, 3), (words, done.stderr)
    text = c.ipsq("why", "r")
    assert found[0]["says"] in text.stdout
    refused = c.ipsq("why", "r", "--for", "beauty")
    assert refused.returncode == 2 and "turnaround" in refused.stderr


def test_until_a_joined_command_began(cluster, tmp_path):
    """What passed until a command was joined that the path begins with is in the
    sums, as outside. Would catch: sums that lack it, and so do not add up."""
    c = cluster()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = c.popen(["cat", fifo], name="r")
    time.sleep(0.4)
    c.ipsrun(["sh", "-c", f"echo x > {fifo}"], join="r", check=True)
    assert reader.wait() == 0
    c.wait_closed("r")
    a = c.json("why", "r", status=(0, 3))
    parts = [a[k] for k in ("on_cpu_ns", "run_delay_ns", "outside_ns",
                            "crossing_ns", "other_ns")]
    assert sum(parts) == a["wall_ns"], a
    assert a["outside_ns"] > 0.3e9, a


def test_told_to_end_by_nobody_traced(cluster):
    """A daemon sleeps until a signal that nobody traced sends: in the sums that
    is outside, as a sleep is. Would catch: the whole run called unexplained."""
    c = cluster()
    daemon = c.popen(
        ["/usr/bin/python3", "-c",
         "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [15]); "
         "print('up', flush=True); signal.sigwait([15])"],
        name="r", stdout=subprocess.PIPE)
    daemon.stdout.readline()
    time.sleep(0.5)
    daemon.terminate()
    assert daemon.wait() == 0
    c.wait_closed("r")
    a = c.json("why", "r", status=(0, 3))
    assert a["outside_ns"] > 0.4e9 > a["other_ns"], a
    # What else it waited for - a disk, as it began - is not that sleep.
    assert all(f["gain_ns"] < 0.4e9 for f in a["findings"]
               if f["kind"] == "outside"), a


def test_stages_of_a_pipeline_are_not_alike(cluster, tmp_path):
    """Two programs of one name, the second reads what the first writes. Would
    catch: work of the first called uneven, as if the second could do it."""
    (tmp_path / "stage.py").write_text(
        "import sys, time\n"
        "busy = float(sys.argv[1])\n"
        "for line in sys.stdin if busy < 0.05 else ['x'] * 10:\n"
        "    end = time.thread_time() + busy\n"
        "    while time.thread_time() < end:\n"
        "        pass\n"
        "    print(line, flush=True)\n")
    c = cluster()
    c.ipsrun(["sh", "-c", "python3 %s/stage.py 0.06 | python3 %s/stage.py 0.01"
              % (tmp_path, tmp_path)], name="r", check=True)
    c.wait_closed("r")
    a = c.json("why", "r", status=(0, 3))
    assert "load-imbalance" not in [f["kind"] for f in a["findings"]], a
    assert "late-sender" in [f["kind"] for f in a["findings"]], a
