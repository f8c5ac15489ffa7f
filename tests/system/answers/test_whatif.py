"""`ipsq whatif` and `ipsq path --slack --next`, from real runs through agent,
slaves and master, against an oracle that shares nothing with them
(tests/oracle/whatif_oracle.py), and with procedures that the test compiles.

EVIDENCE-OF: IPS-12."""
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "oracle"))
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))
import path_oracle  # noqa: E402
import whatif_oracle  # noqa: E402
import whatif_real  # noqa: E402

# A parent that hands rounds of work to two children over pipes and waits for
# both: `slow` in one decides (by far: a core that is stolen counts as CPU time),
# `quick` in the other is off the path, `combine`
# in the parent is on it whatever happens.
SOURCE = r"""
#include <stdlib.h>
#include <time.h>
#include <sys/wait.h>
#include <unistd.h>
static long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
/* Burns so many ms of CPU in the procedure itself. */
#define PROCEDURE(name, ms) \
    static __attribute__((noinline)) void name(void) \
    { \
        volatile double x = 0; \
        for (long begin = now(); now() - begin < ms * 1000000;) \
            for (int i = 0; i < 20000; i++) \
                x = x * 1.0000001 + 0.5; \
    }
PROCEDURE(slow, 30)
PROCEDURE(quick, 5)
PROCEDURE(combine, 4)
static void serve(int in, int out, void (*work)(void))
{
    char c;
    while (read(in, &c, 1) == 1) {
        work();
        if (write(out, &c, 1) != 1)
            abort();
    }
    _exit(0);
}
int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 20, to[2][2], from[2][2];
    void (*work[2])(void) = {slow, quick};
    for (int i = 0; i < 2; i++) {
        if (pipe(to[i]) || pipe(from[i]))
            abort();
        if (fork() == 0) {
            close(to[i][1]);
            close(from[i][0]);
            if (i)
                close(to[0][1]);
            serve(to[i][0], from[i][1], work[i]);
        }
        close(to[i][0]);
        close(from[i][1]);
    }
    while (rounds--) {
        char c = 'x';
        for (int i = 0; i < 2; i++)
            if (write(to[i][1], &c, 1) != 1)
                abort();
        for (int i = 0; i < 2; i++)
            if (read(from[i][0], &c, 1) != 1)
                abort();
        combine();
    }
    close(to[0][1]);
    close(to[1][1]);
    while (wait(NULL) > 0)
        ;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    top = tmp_path_factory.mktemp("whatif")
    (top / "rounds.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O2", "-g", "rounds.c", "-o", "rounds"], cwd=top,
                   check=True)
    return top / "rounds"


def names(nodes, answer):
    """(machine, pid) -> "/machine/name.pid", as the answer calls them."""
    objects = {r["object"] for r in answer["slacks"] if r["kind"] == "process"}
    return {(o.split("/")[1], int(o.rsplit(".", 1)[1])): o for o in objects}


def check_against_oracle(c, run):
    """Slack of every process, next paths and every process gone: to the ns; a
    process that is faster to a ns for each node."""
    nodes = path_oracle.index(c.graph(run))
    graph = whatif_oracle.Graph(nodes)
    answer = c.json("path", run, "--slack", "--next", "8", status=(0, 3))
    assert answer["t_max_ns"] == graph.t_max()
    called = names(nodes, answer)
    slacks = {r["object"]: r["slack_ns"] for r in answer["slacks"]
              if r["kind"] == "process"}
    truth = graph.slack_of_processes()
    assert slacks == {called[who]: slack for who, slack in truth.items()}
    if len(called) <= 8:
        expected = [(ns, sorted(called[who] for who in group))
                    for ns, group in graph.next_by_process(8)]
        given = [(p["ns"], sorted(p["objects"])) for p in answer["next"]]
        assert [ns for ns, _ in given] == [ns for ns, _ in expected]
        assert sorted(given) == sorted(expected) or \
            len({ns for ns, _ in given}) < len(given)
    assert answer["next_complete"]
    for who, name in called.items():
        for words, part in (["--gone"], 100), (["--faster", "30%"], 30):
            a = c.json("whatif", run, "--process", name, *words,
                       status=(0, 3))
            then = graph.without(
                lambda i, cross: not cross and graph.process(i) == who, part)
            # Gains are rounded down: of an arc, and of each procedure's part
            # of it where samples divide it.
            over = a["t_max_then_ns"] - then
            assert 0 <= over < (1 if part == 100 else len(nodes)), (name, words)
            assert a["gain_ns"] + a["t_max_then_ns"] == graph.t_max()
            assert a["gain_ns"] <= a["bound_ns"]
    return answer


def test_as_the_oracle_says(cluster, program):
    """Would catch an arc of the master's graph in the wrong process, a slack
    or a gain beside what the recorded graph gives, groups of paths that are
    not the longest."""
    c = cluster()
    c.ipsrun([program, "3"], name="r", check=True)
    c.wait_closed("r")
    answer = check_against_oracle(c, "r")
    assert len([r for r in answer["slacks"] if r["kind"] == "process"]) == 3


def test_procedures(cluster, program):
    """`slow` decides, `quick` is off the path, `slow` gone hands the path to
    `quick`, `combine` is on every path. Would catch a share taken for a gain,
    procedures of one process booked to another, edits that do not add up, a
    ranking out of order."""
    c = cluster()
    c.ipsrun([program, "40"], name="r", options=["--rate", "1"], check=True)
    c.wait_closed("r")
    for words, meant in ((["--procedure", "slwo"], "slow"),
                         (["--procedure", "slow", "--process", "ruonds"], "rounds")):
        done = c.ipsq("whatif", "r", *words)
        assert done.returncode == 1, done.stderr
        assert f"; did you mean '{meant}'?" in done.stderr, done.stderr

    def ask(*words):
        return c.json("whatif", "r", *words, status=(0, 3))
    whole = c.json("path", "r", "--slack", "--next", "3", "--by", "procedure",
                   status=(0, 3))
    found = {r["object"]: r for r in whole["slacks"]
             if r["kind"] == "procedure"}
    total = {name: found[name]["total_ns"]
             for name in ("slow", "quick", "combine")}
    assert found["slow"]["slack_ns"] == 0 < found["slow"]["path_ns"]
    assert found["combine"]["slack_ns"] == 0
    assert found["quick"]["slack_ns"] > 0 == found["quick"]["path_ns"]
    # What a procedure has and what it gains.
    gone = {name: ask("--procedure", name, "--gone") for name in total}
    assert gone["quick"]["gain_ns"] == gone["quick"]["bound_ns"] == 0
    assert gone["combine"]["gain_ns"] > 0.98 * gone["combine"]["bound_ns"]
    assert gone["combine"]["gain_ns"] > 0.8 * total["combine"]
    assert gone["slow"]["bound_ns"] > 0.8 * total["slow"]
    left = gone["slow"]["bound_ns"] - gone["slow"]["gain_ns"]
    assert 0.7 * total["quick"] < left < 1.3 * total["quick"]
    # Both at once; two speeds in one question.
    both = ask("--procedure", "slow", "--procedure", "quick", "--gone")
    assert [e["faster_by"] for e in both["edits"]] == [1, 1, None]
    assert both["edits"][2]["gain_ns"] == both["gain_ns"]
    assert both["gain_ns"] > gone["slow"]["gain_ns"] + 0.7 * total["quick"]
    two = ask("--procedure", "combine", "--faster", "2x", "--procedure",
              "sl*", "--process", "rounds", "--faster", "10%")
    assert [e["faster_by"] for e in two["edits"][:2]] == [0.5, 0.1]
    alone = sum(e["gain_ns"] for e in two["edits"][:2])
    assert 0.98 * alone < two["gain_ns"] <= two["bound_ns"]
    # What would help most.
    rank = ask("--rank", "--faster", "50%")["ranking"]
    gains = [r["gain_ns"] for r in rank]
    assert gains == sorted(gains, reverse=True) and gains[-1] > 0
    for r in rank:
        assert r["gain_ns"] <= r["bound_ns"] <= r["share_ns"] <= r["total_ns"]
        assert r["faster_by"] == 0.5
    first = [r["object"] for r in rank if r["kind"] == "procedure"]
    assert first[:2] == ["slow", "combine"] and "quick" not in first
    # Of two windows side by side each has its own, and both have all. An arc that is
    # cut is divided among procedures twice, by the samples on either side.
    graph = c.graph("r")
    at = min(n["t_ns"] for n in graph) + 200_000_000
    time_of = {n["id"]: n["t_ns"] for n in graph}
    cut = sum(n["arc_cpu_ns"] for n in graph
              if n["pred"] is not None and time_of[n["pred"]] < at < n["t_ns"])
    sides = [("--to", "200ms"), ("--from", "200ms")]
    for words in (("--object", "/m1"), ("--procedure", "slow")):
        parts = [ask(*words, "--gone", *side) for side in sides]
        rows = [a["edits"][0] for a in parts]
        all_of_it = ask(*words, "--gone")["edits"][0]
        for key in ("total_ns", "share_ns"):
            apart = sum(r[key] for r in rows) - all_of_it[key]
            assert abs(apart) <= (0 if words[0] == "--object" else 100 + cut), key
        for a, side in zip(parts, sides):
            assert a["window_ns"] == \
                c.json("path", "r", *side, status=(0, 3))["window_ns"]
            assert a["gain_ns"] <= a["bound_ns"] <= a["window_ns"]
    # The next paths by procedure.
    assert whole["next"][0]["ns"] == whole["t_max_ns"]
    assert any(o.endswith(" slow") for o in whole["next"][0]["objects"])
    assert not any(o.endswith(" quick") for o in whole["next"][0]["objects"])


def test_wrong_questions(cluster, program):
    """Every question that cannot be answered says why and what to do."""
    c = cluster()
    c.ipsrun([program, "1"], name="r", options=["--procedures=off"],
             check=True)
    c.wait_closed("r")
    for words, status, text in (
            (["--process", "nobody"], 1, "ipsq ls r"),
            (["--procedure", "f"], 1, "ipsrun --procedures=sample"),
            (["--message", "rounds"], 2, "FROM -> TO"),
            (["--message", "a -> b"], 1, "messages a -> b"),
            (["--process", "rounds", "--faster", "130%"], 2, "up to 100%"),
            (["--process", "rounds", "--faster", "0.5x"], 2, "2x"),
            (["--procedure", "f", "--message", "a->b"], 2, "two edits"),
            (["--object", "m1"], 2, "not of the form /machine")):
        done = c.ipsq("whatif", "r", *words)
        assert done.returncode == status, (words, done)
        assert text in done.stderr, (words, done.stderr)
    done = c.ipsq("whatif", "r")
    assert "procedures were not recorded" in done.stdout
    assert "GAIN" in done.stdout and "/m1/rounds." in done.stdout
    messages = c.json("whatif", "r", "--message", "rounds -> rounds",
                      "--mtime", "1ms", status=(0, 3))
    assert messages["gain_ns"] > 10**6


def test_edits_of_real_programs(cluster):
    """The edits of `tests/bench/run whatif`, which holds them against programs
    really edited (docs/benchmarks.md); here only what does not depend on time:
    procedures that wait for others by construction gain nothing or nearly,
    those on the path what they have of it or less. Would catch a procedure of
    one process or thread booked to another, or a wait that is not followed."""
    c = cluster()
    for program in dict.fromkeys(e[0] for e in whatif_real.EDITS):
        # What a pause of the machine holds up may be on the path: then again.
        for n in range(3):
            run = f"{program}-{n}"
            c.ipsrun(whatif_real.command(str(c.build.top), program, scale=0.25),
                     name=run, options=["--rate", "1"], check=True)
            c.wait_closed(run)
            wrong = wrong_gains(c, program, run)
            if not wrong:
                break
        assert not wrong


def wrong_gains(c, program, run):
    """The edits whose gain is not as the program was built."""
    known = {r["procedure"] for r in c.json("procedures", run)["procedures"]}
    wrong = []
    for of, procedure, percent, on_path in whatif_real.EDITS:
        if of != program or procedure not in known:
            continue  # no sample fell into it
        speed = ["--gone"] if percent == 100 else ["--faster", f"{percent}%"]
        a = c.json("whatif", run, "--procedure", procedure, *speed,
                   status=(0, 3))
        assert a["gain_ns"] <= a["bound_ns"] + 1
        if on_path:
            assert a["gain_ns"] > 0, (program, procedure)
        elif a["gain_ns"] >= 0.05 * a["t_max_ns"]:
            wrong.append((procedure, a["gain_ns"], a["t_max_ns"]))
    return wrong


def test_weightings_and_goal(cluster, program):
    """Weightings and a goal go into the what-if: would catch a lane that is
    not the weighting's, tails and next paths from ENDs that are not the
    goal."""
    c = cluster()
    c.ipsrun([program, "10"], name="r", options=["--rate", "1"], check=True)
    c.wait_closed("r")
    length = {}
    for weighting in ("cpu", "sched", "wall"):
        a = c.json("whatif", "r", "--process", "rounds", "--gone",
                   "--weighting", weighting, status=(0, 3))
        assert a["weighting"] == weighting
        assert 0 < a["gain_ns"] <= a["bound_ns"]
        length[weighting] = a["t_max_ns"]
    assert length["cpu"] <= length["sched"]
    # The path up to the end of the process off the path: `quick`, which ends
    # before its parent does.
    quick = min((r for r in c.json("path", "r", "--slack", status=(0, 3))
                 ["slacks"] if r["kind"] == "process"),
                key=lambda r: r["path_ns"])["object"]
    path = c.json("path", "r", "--slack", "--next", "2", "--goal", quick,
                  status=(0, 3))
    a = c.json("whatif", "r", "--process", "rounds", "--gone", "--goal", quick,
               status=(0, 3))
    assert a["goal"] == path["goal"] == quick
    assert a["t_max_ns"] == path["t_max_ns"] == path["next"][0]["ns"]
    shares = {s["object"]: s["ns"] for s in path["shares"]["processes"]}
    for row in path["slacks"]:
        if row["kind"] == "process":
            assert row["path_ns"] == shares.get(row["object"], 0)
