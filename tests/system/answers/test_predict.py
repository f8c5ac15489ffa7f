"""`ipsq predict`: the golden rows of a replay through agent, slaves, master and
client, exact to the nanosecond, and questions that are refused.

EVIDENCE-OF: DPM-6 DPM-7 DPM-9 DPM-10 DRO-5."""
import itertools
import json
import subprocess

import pytest

from conftest import Cluster, wait_until

UNIT = 10**9  # tests/programs/golden.c
PER_BYTE = "0,1000000000"  # of message time, so that the bytes give MTIME
numbers = itertools.count()


@pytest.fixture(scope="module")
def duo(build):
    c = object.__new__(Cluster)
    try:
        c.__init__(build, ["m1", "m2"])
        yield c
    finally:
        c.close()


def golden(c, name, parts=(None,), unit=UNIT):
    """Of several machines each has a clock of its own."""
    run = f"predict-{name}-{next(numbers)}"
    for i, only in enumerate(parts):
        how = {"name": run} if i == 0 else {"join": run}
        words = ["--only", only, "--clock", str(10**12 * (i + 1))] \
            if only else []
        words += ["--unit", str(unit)]
        c.ipsrun([c.build.program("golden"), name, *words], machine=i,
                 check=True, **how)
    c.wait_closed(run, machines=len(parts))
    return run


def placed(machines, where):
    """Tasks by name; the program that makes them is kept out of their way."""
    return ["--machines", f"spare:cores=64;{machines}", "--map",
            "*=spare," + ",".join(f"/*/golden.*/{task}={machine}"
                                  for task, machine in where.items())]


# graph, chains, machine, message time, makespan in thousandths of a unit
ROWS = [
    ("G4", "Pcd", "cores=1", PER_BYTE, 34000),
    ("G4", "Pcd", "cores=2", PER_BYTE, 23000),
    ("G5", "AB", "cores=1", PER_BYTE, 19000),
    ("G5", "AB", "cores=2", PER_BYTE, 17000),
    ("G5", "AB", "cores=1,load=1,turn=0s", PER_BYTE, 32500),
    ("G5", "AB", "cores=1,speed=2", PER_BYTE, 12000),
    ("G5", "AB", "cores=1", "0", 18000),
    ("G6", "ABC", "cores=1", PER_BYTE, 22000),
    ("G6", "ABC", "cores=2", PER_BYTE, 15500),
]


@pytest.fixture(scope="module")
def graphs(duo):
    return {name: golden(duo, name) for name in ("G4", "G5", "G6")}


@pytest.mark.quick
@pytest.mark.parametrize("name,chains,machine,mtime,makespan", ROWS)
def test_golden(duo, graphs, name, chains, machine, mtime, makespan):
    """Would catch a thread on another machine than it was mapped to, a rate
    that is wrong, and a rounding anywhere on the way: one ns is enough."""
    answer = duo.json("predict", graphs[name], "--mtime", mtime,
                      *placed(f"one:{machine}", dict.fromkeys(chains, "one")))
    assert answer["makespan_ns"] == makespan * UNIT // 1000
    path = [r for r in answer["path"] if r["kind"] in
            ("machine", "message", "external")]
    assert sum(r["ns"] for r in path) == answer["makespan_ns"]


@pytest.mark.quick
def test_turns(duo, graphs):
    """What is not said is 2.6 ms; what one core gives G5 beside a load by turns is
    its work and the whole turns of the load that come before its end. Would catch
    a turn that gets lost on its way, or is taken where nobody asked for turns."""
    asked = [duo.json("predict", graphs["G5"], "--mtime", "0", *placed(
        f"one:cores=1,load=1{turn}", {"A": "one", "B": "one"}))
        for turn in ("", ",turn=2.6ms", ",turn=0s", f",turn={7 * UNIT}ns")]
    work = 18 * UNIT
    makespan = [answer["makespan_ns"] for answer in asked]
    assert makespan[0] == makespan[1] != makespan[2]
    assert makespan[3] > work and (makespan[3] - work) % (7 * UNIT) == 0


def place_all(graphs, name, machines, where, *more):
    return [graphs[name], "--mtime", PER_BYTE, *placed(machines, where), *more]


@pytest.mark.quick
@pytest.mark.parametrize("network,makespan", [
    ("one>two=5s", 17), ("one<>two=x2", 22), ("two>one=99s", 17),
    ("o*>t?o=x0", 12), ("*>*=x0;one>two=1s", 13), ("one>two=3s+1s", 20)])
def test_network(duo, graphs, network, makespan):
    """G5 with A and B apart. Would catch a network that is taken the wrong way
    round, or for other machines, and an order of entries that is lost."""
    answer = duo.json("predict", *place_all(
        graphs, "G5", "one:cores=1;two:cores=1", {"A": "one", "B": "two"},
        "--network", network))
    assert answer["makespan_ns"] == makespan * UNIT


@pytest.mark.quick
def test_medium(duo, graphs):
    """G6: A on one sends a at 1 and b at 2, both of 2 bytes, to B and C. Each
    alone takes 2; on one medium a is there at 4 and b at 5 instead of 4, and
    C's 10 and 1 follow: 16. It is busy from 1 to 5. Would catch a medium that
    is not shared, or that c takes, too, which stays on two."""
    for at, makespan in (("", 15), ("@bus", 16)):
        answer = duo.json("predict", *place_all(
            graphs, "G6", "one:cores=9;two:cores=9",
            {"A": "one", "B": "two", "C": "two"},
            "--network", f"one<>two=0+1s{at}"))
        assert answer["makespan_ns"] == makespan * UNIT
        if at:
            assert answer["media"] == [{
                "medium": "bus", "busy_ns": 4 * UNIT, "busy_share": 4 / 16}]
        else:
            assert answer["media"] == []


@pytest.mark.quick
@pytest.mark.parametrize("parts", [(None,), ("C", "S")])
@pytest.mark.parametrize("unit_ms,mtime,held", [
    (10, "0", True), (5, "0", False), (60, "0", False), (10, "20ms", True),
    (10, "50ms", False)])
def test_held_messages(duo, parts, unit_ms, mtime, held):
    """G2: request and reply are 5 units each on their way, and who gets them sleeps.
    That is as long as TCP holds messages back where it is 50 ms, by one clock and
    by two that are 1000 s apart: 5 behind each receive, 23 in all; 13 without, and
    what MTIME says is no part of it. Would catch waits of TCP that are forgotten,
    counted twice, seen in messages that are quicker or slower than it makes them
    (25 and 300 ms), and clocks that are taken for one."""
    unit = unit_ms * 10**6
    run = golden(duo, "G2", parts, unit)
    said = duo.json("predict", run, "--mtime", mtime, "--machines",
                    "here:cores=64", "--map", "*=here")
    own = 2 * int(mtime.rstrip("ms")) * 10**6
    assert said["makespan_ns"] == (23 * unit if held else 13 * unit + own)
    assert any("TCP delays data" in text for text in said["assumed"]) == held


@pytest.mark.quick
@pytest.mark.parametrize("moves,makespan,slow_ns", [
    ("B@11s=slow", 23, 12), ("B@14s=slow", 20, 6), ("B@0s=slow", 23, 16),
    ("B@14s=slow,B@15500ms=one", 18.5, 3), ("B@18s=slow", 17, 0)])
def test_moves(duo, graphs, moves, makespan, slow_ns):
    """G5 on a core for each; B waits until 11 as recorded, and then computes 6:
    moved to half the speed from the receive on, in the middle of it, from the
    beginning, away and back, and after its end. Would catch a move at another
    time, of another thread, and work that is lost where an arc is cut."""
    moves = ",".join("/*/golden.*/" + m for m in moves.split(","))
    answer = duo.json("predict", *place_all(
        graphs, "G5", "one:cores=2;slow:cores=1,speed=0.5",
        {"A": "one", "B": "one"}, "--move", moves))
    assert answer["makespan_ns"] == makespan * UNIT
    assert any("had ended by then" in a for a in answer["assumed"]) == \
        (slow_ns == 0)
    cpu = {m["machine"]: m["cpu_ns"] for m in answer["machines"]}
    assert cpu.get("slow", 0) == slow_ns * UNIT
    assert cpu["one"] == (18 - slow_ns / 2) * UNIT


@pytest.mark.quick
def test_percentage(duo, graphs):
    """Half of the cycles taken: G5 on one core takes twice as long but for the
    message, 12 + 5 and what B has of the core. The CPU time stays."""
    answer = duo.json("predict", *place_all(
        graphs, "G5", "one:cores=1,load=50%", {"A": "one", "B": "one"}))
    # As at speed 1/2: A 6 and B 2 at 1/4 each: B done at 8, A has 4 left at
    # 1/2: 16; A's 4 alone: 24; B comes at 21 and shares until 27, and has
    # 6 - 1.5 left then: 36.
    assert answer["makespan_ns"] == 36 * UNIT
    one = next(m for m in answer["machines"] if m["machine"] == "one")
    assert one["cpu_ns"] == 18 * UNIT and one["taken"] == 0.5


@pytest.mark.quick
def test_map_of_a_file(duo, graphs, tmp_path):
    """The lines of a file are the map that they are in one word, remarks and several
    a line with them. Would catch a file of which lines are lost, or taken in
    another order: the last that fits decides."""
    file = tmp_path / "map"
    file.write_text("# all out of the way\n*=spare\n\n"
                    "/*/golden.*/A=two,/*/golden.*/B=one\n/*/golden.*/A=one\n")
    machines = "spare:cores=64;one:cores=1;two:cores=1"
    for more, makespan in (([], 19), (["--map", "/*/golden.*/B=two"], 17)):
        answer = duo.json("predict", graphs["G5"], "--mtime", PER_BYTE,
                          "--machines", machines, "--map", file, *more)
        assert answer["makespan_ns"] == makespan * UNIT


@pytest.mark.quick
def test_the_same_twice(duo, graphs):
    """Would catch a replay that depends on anything but the question."""
    words = place_all(graphs, "G6", "one:cores=1,load=0.7;two:cores=2,speed=1.3",
                      {"A": "one", "B": "two", "C": "two"}, "--network",
                      "one<>two=1us+1s@bus")
    first, again = (duo.json("predict", *words) for _ in range(2))
    for answer in (first, again):
        for key in ("took_ns", "certificate"):
            answer.pop(key)
    assert first == again


REFUSED = [
    (["--map", "*=nowhere"], "no such machine; there are m1"),
    (["--map", "nobody=m1"], "no such process"),
    (["--map", "golden"], "nor a readable file"),
    (["--map", "golden="], "not of the form PROCESS=MACHINE"),
    (["--machines", "one:cores=2"], "no process is on machine one"),
    (["--machines", "one:cores=0", "--map", "*=one"], "not a positive number"),
    (["--machines", "one:kores=2", "--map", "*=one"], "not one of cores=N"),
    (["--machines", "one:load=much", "--map", "*=one"],
     "machine one: load=much: 'much' is not a number"),
    (["--machines", "one:speed=0", "--map", "*=one"], "speed must be above 0"),
    (["--machines", "one:load=100%", "--map", "*=one"], "below 100%"),
    (["--machines", "one:turn=11s", "--map", "*=one"], "at most 10 s"),
    (["--machines", "one;one", "--map", "*=one"], "given twice"),
    (["--machines", "one:load=recorded", "--map", "*=one"],
     "only to machines of the run"),
    (["--network", "m1>x=5us"], "no such machines"),
    (["--network", "m1=5us"], "not of the form FROM>TO"),
    (["--move", "golden=m1"], "not of the form PROCESS@TIME"),
    (["--move", "golden@1s=x"], "no such machine"),
    (["--move", "golden@1000s=x"], "no such machine"),
    (["--move", "nobody@1s=m1"], "no such process"),
]


@pytest.mark.quick
@pytest.mark.parametrize("words,says", REFUSED,
                         ids=[" ".join(w) for w, _ in REFUSED])
def test_refused(duo, graphs, words, says):
    """Would catch a question that is answered though it means nothing, and an
    error that does not say what is wrong."""
    done = duo.ipsq("predict", graphs["G5"], *words)
    assert done.returncode in (1, 2) and says in done.stderr


# A parent whose select() runs out, then goes on by itself; and one that polls
# for its child until that answers: the polling is no time of its own.
TIMER = "import os, select; select.select([os.pipe()[0]], [], [], 0.2)"
POLLS = """
import os, select, time
r, w = os.pipe()
if os.fork() == 0:
    while time.process_time() < 0.15:
        pass
    os.write(w, b"x")
    os._exit(0)
while not select.select([r], [], [], 0.02)[0]:
    pass
os.read(r, 1)
os.wait()
"""


@pytest.mark.quick
def test_timed_waits(duo):
    """Would catch timers that take no time in a replay (a run with them came
    out too short), and a poll for a child that counts as a timer: on faster
    machines the child answers sooner, and the polling ends."""
    for name, source, times in (("timer", TIMER, True), ("polls", POLLS, False)):
        run = f"predict-{name}-{next(numbers)}"
        duo.ipsrun(["/usr/bin/python3", "-S", "-c", source], name=run,
                   check=True)
        duo.wait_closed(run)
        answer = duo.json("predict", run, "--map", "*=fast", "--machines",
                          "fast:cores=4,speed=1000", status=(0, 3))
        idle = [r["ns"] for r in answer["path"] if r["kind"] == "external" and
                r["object"].endswith("-> idle")]
        assert sum(idle) > 150 * 10**6 if times else idle == []
        assert answer["own_command_ns"] > 150 * 10**6


@pytest.mark.quick
def test_property_10(duo):
    """Of any run: with a core for each thread the replay is the longest path,
    whatever the message time, and on one core with messages and the outside
    taking nothing it is all CPU time; to the ns. And no replay is shorter than
    the path. Would catch a thread or an arc that the contraction loses, and
    work that is lost between a run and its replay."""
    run = f"predict-any-{next(numbers)}"
    duo.ipsrun(["sh", "-c", "seq 3000 | sort -r | tail -5 & seq 5 | wc -l; wait; "
                "sleep 0.05"], name=run, check=True)
    duo.wait_closed(run)
    many = ["--map", "*=many", "--machines", "many:cores=64"]
    for more in (["--external", "reply", "--mtime", "10us"],
                 ["--external", "off", "--mtime", "1ms+20"]):
        path = duo.json("path", run, *more)
        answer = duo.json("predict", run, *more, *many)
        assert answer["makespan_ns"] == answer["t_max_ns"]
        assert answer["p_max"] == pytest.approx(path["p_max"], rel=1e-12)
        # A replay's waits for disks and timers are without the delay after.
        assert answer["t_max_ns"] == path["t_max_ns"] or \
            "reply" in more and answer["t_max_ns"] <= path["t_max_ns"]
    shared = duo.json("predict", run, *more, "--map", "*=one",
                      "--machines", "one:cores=1,load=0.3")
    assert shared["makespan_ns"] >= shared["t_max_ns"] == path["t_max_ns"]
    answer = duo.json("predict", run, "--external", "off", "--map", "*=one",
                      "--machines", "one:cores=1")
    assert answer["makespan_ns"] == answer["total_cpu_ns"] == \
        path["total_cpu_ns"]
    assert answer["machines"][0]["idle_ns"] == 0 and answer["rho"] == 1


@pytest.mark.quick
def test_messages_cpu(duo, graphs, tmp_path):
    """G5 over two machines, with a table in which a message costs its ends 2 units of
    CPU between them and 0.5 inside m1. Would catch a prediction that keeps what
    messages cost where they were, that changes it of what stays there, or a search
    that does (its bound is of one graph)."""
    table = tmp_path / "times"
    table.write_text("ips-message-times 1\n" + "".join(
        f"pair {a} {b} tcp 2026-11-22T07:00:00Z test\n"
        f"point 1 0 - - - {cpu}\n" for a, b, cpu in (
            ("m1", "m2", 2 * UNIT), ("m1", "m1", UNIT // 2))))
    assert duo.ipsq("calibrate", "--import", table).returncode == 0
    both = golden(duo, "G5", ("A", "B"))
    try:
        for where, less in (({"A": "m1", "B": "m2"}, 0),
                            ({"A": "m1", "B": "m1"}, 3 * UNIT // 2)):
            answer = duo.json("predict", both, *placed("m1:cores=9", where))
            assert answer["recorded_cpu_ns"] - answer["total_cpu_ns"] == less
            assert any("a thread slept for" in t
                       for t in answer["assumed"]) == bool(less)
        answer = duo.json("predict", both, "--search", "--machines",
                          "m1:cores=9")
        assert answer["recorded_cpu_ns"] == answer["total_cpu_ns"]
    finally:
        assert duo.ipsq("calibrate", "--forget").returncode == 0


@pytest.mark.quick
def test_measured_times(duo, graphs, tmp_path):
    """G5 with a table of message times, 1 a byte from m1 to m2 and 10 inside m1,
    and no --mtime: between these machines; inside m1; and between machines that
    nobody measured, with what is taken instead. Would catch a prediction that
    keeps the times of the machines it was measured on, takes a pair the wrong
    way or its line instead of its curve, or does not say what it assumed."""
    table = tmp_path / "times"
    table.write_text("ips-message-times 1\n" + "".join(
        f"pair {a} {b} {over} 2026-11-22T07:00:00Z test\n" + "".join(
            f"point {n} {ns}\n" for n, ns in points)
        for a, b, over, points in (
            ("m1", "m2", "tcp", [(n, n * UNIT) for n in (1, 5, 9)]),
            # At 5 bytes, m's, their line is at 6.5.
            ("m1", "m1", "unix",
             [(1, 2 * UNIT), (5, 10 * UNIT), (9, 11 * UNIT)]))))
    assert duo.ipsq("calibrate", "--import", table).returncode == 0
    both = golden(duo, "G5", ("A", "B"))
    try:
        for where, makespan, says in (
                ({"A": "m1", "B": "m2"}, 17, None),
                ({"A": "m1", "B": "m1"}, 22, None),
                ({"A": "one", "B": "two"}, 17,
                 "take the times measured from m1 to m2: their own")):
            answer = duo.json(
                "predict", both,
                *placed("one:cores=9;two:cores=9;m1:cores=9", where))
            assert answer["makespan_ns"] == makespan * UNIT
            assert "calibrate" in answer["certificate"]["message_times"]
            said = [t for t in answer["assumed"] if "one>two" in t]
            assert len(said) == (says is not None), answer["assumed"]
            assert all(says in t for t in said), said
        # Of no pair like it: said, and no time.
        table.write_text("ips-message-times 1\npair m1 m1 unix "
                         f"2026-11-22T07:00:00Z test\npoint 1 {UNIT}\n")
        assert duo.ipsq("calibrate", "--import", table,
                        "--replace").returncode == 0
        answer = duo.json("predict", both, *placed(
            "one:cores=9;two:cores=9", {"A": "one", "B": "two"}))
        assert answer["makespan_ns"] == 12 * UNIT
        assert any("no similar ones were measured" in t and "one>two" in t
                   for t in answer["assumed"])
    finally:
        assert duo.ipsq("calibrate", "--forget").returncode == 0


QUEUE = """
import os, select
pieces, results = ([os.pipe() for _ in range(2)] for _ in range(2))
for (get, _), (_, put) in zip(pieces, results):
    if os.fork() == 0:
        while (piece := os.read(get, 8)) != b"stop----":
            sum(range(20000 * (1 + int(piece) % 7)))
            os.write(put, piece)
        os._exit(0)
left, poll = list(range(12)), select.poll()
worker = {get: put for (get, _), (_, put) in zip(results, pieces)}
for get, put in worker.items():
    poll.register(get, select.POLLIN)
    os.write(put, b"%8d" % left.pop(0))
for _ in range(12):
    get = poll.poll()[0][0]
    os.read(get, 8)
    if left:
        os.write(worker[get], b"%8d" % left.pop(0))
for put in worker.values():
    os.write(put, b"stop----")
for _ in pieces:
    os.wait()
"""


@pytest.mark.quick
def test_work_queue(duo):
    """Two workers whose results are taken as they come: if it shows in the run
    that they could have come otherwise (which by chance it may not), their
    queue is settled. Its figures are of one graph: with a core for each thread
    and messages that take nothing the replay is the longest path, on one core
    it is all CPU time; and the path is the makespan. Not with --move. Would
    catch a queue that is not found in a real program's graph, and nodes or
    portions of the path that keep the recorded numbers."""
    run = f"predict-queue-{next(numbers)}"
    duo.ipsrun(["/usr/bin/python3", "-c", QUEUE], name=run, check=True)
    duo.wait_closed(run)
    off = ["--external", "off", "--mtime", "0"]
    total = duo.json("path", run)["total_cpu_ns"]
    for cores in 1, 3:
        answer = duo.json("predict", run, *off, "--map", "*=one", "--machines",
                          f"one:cores={cores}")
        any_order = "sources" in {row["pattern"] for row in answer["order"]}
        assert answer["queues"] == ("settled" if any_order else "none")
        assert answer["pieces"] == (10 if any_order else 0)
        assert answer["pieces_anew"] <= answer["pieces"]
        assert answer["total_cpu_ns"] == total
        assert answer["makespan_ns"] == (
            total if cores == 1 else answer["t_max_ns"])
        of_path = [r["ns"] for r in answer["path"] if r["kind"] == "machine"]
        assert sum(of_path) == answer["makespan_ns"]
    answer = duo.json("predict", run, *off, "--move", "*@1ms=other",
                      "--machines", "other:cores=1")
    assert answer["queues"] == ("recorded" if any_order else "none")


@pytest.mark.quick
def test_threads_take_work(duo):
    """tests/programs/takers.c: three threads take 41 pieces under a mutex. With
    --locks=all the run shows that they do; without, or where each has pieces of
    his own (tests/programs/stages/locks.c), nothing is settled. On one core it is
    all CPU time, whoever takes what; where one thread's core has a quarter of
    the speed, the others take more of its pieces, and it ends sooner than with
    the pieces it had (--search keeps them). Would catch takings that reach the
    replay without their times, and an order that the path or the accounts do
    not have."""
    for _ in range(9):  # by chance each may have taken as many
        run = f"predict-takers-{next(numbers)}"
        # Pieces so large that what a thread's end takes is little beside one.
        done = duo.ipsrun([duo.build.program("takers"), "3", "41", "2000"], name=run,
                          check=True, options=["--locks=all"])
        had = sorted(map(int, done.stdout.split()))
        if had[-1] - had[0] >= 2:
            break
    assert len(had) == 3 and had[-1] - had[0] >= 2, had
    duo.wait_closed(run)
    off = ["--external", "off", "--mtime", "0"]
    total = duo.json("path", run)["total_cpu_ns"]
    answer = duo.json("predict", run, *off, "--map", "*=one", "--machines",
                      "one:cores=1")
    assert answer["queues"] == "settled"
    assert answer["pieces"] == 41
    assert answer["makespan_ns"] == answer["total_cpu_ns"] == total
    of_path = [r["ns"] for r in answer["path"] if r["kind"] == "machine"]
    assert sum(of_path) == total
    thread = duo.json("ls", run)["threads"][-1]["object"]
    slow = [*off, "--map", f"*=quick,{thread}=slow", "--machines",
            "quick:cores=3;slow:cores=1,speed=0.25"]
    settled = duo.json("predict", run, *slow)
    kept = duo.json("predict", run, *slow, "--move", f"{thread}@0s=slow")
    assert kept["queues"] == "recorded"
    assert settled["makespan_ns"] < kept["makespan_ns"]
    assert settled["pieces_anew"] > 0
    # its begin, and its end
    assert any(x.startswith("2 begins and ends") for x in settled["assumed"])
    assert "begins and ends" not in " ".join(answer["assumed"])
    run = f"predict-takers-{next(numbers)}"
    duo.ipsrun([duo.build.program("locks"), "--turns", "20"], name=run,
               check=True, options=["--locks=all"])
    duo.wait_closed(run)
    assert duo.json("predict", run, *off)["queues"] == "none"


@pytest.mark.quick
def test_locks(duo):
    """tests/programs/lock_pool.c: A has the mutex from 3 to 9 ms, B asks for it
    at 6, has it from 9 to 12, and ends at 14. On a machine of 2/5 the speed A
    asks at 7.5 only: B has had it since 6, gives it back at 9 and ends at 11; A
    goes on then, 6 at that speed, and 1: 26.5. (In the order that was seen B
    would wait until 22.5, and end at 27.5.)
    Would catch an order that is replayed as it was seen, a holder that is not
    known because it did not wait, a release that nobody waited for, and a path
    that is not the makespan."""
    run = f"predict-locks-{next(numbers)}"
    subprocess.run([duo.build.program("lock_pool"), duo.machines[0].pool, run],
                   check=True)
    duo.wait_closed(run)
    ms = UNIT // 1000
    pid = 0x7f000000
    slow = ["--machines", "slow:cores=2,speed=0.4"]
    for where, makespan in (([], 14), ([*slow, "--map", f"/*/*/{pid}=slow"],
                                       26.5)):
        answer = duo.json("predict", run, "--mtime", "0", *where)
        assert answer["makespan_ns"] == makespan * ms
        assert answer["own_makespan_ns"] == 14 * ms
        path = [r for r in answer["path"] if r["kind"] == "machine"]
        assert sum(r["ns"] for r in path) == answer["makespan_ns"]
        said = " ".join(answer["assumed"])
        assert "which thread gets a lock next, 2 times" in said
        assert "recorded order" not in said


@pytest.mark.quick
@pytest.mark.parametrize("locks, makespan, times", [
    ("free", 10, 0), ("all", 14, 2), ("writer", 14, 4), ("readers", 10, 4)])
def test_locks_that_nobody_waited_for(duo, locks, makespan, times):
    """tests/programs/lock_pool.c: on its one core B runs when A has ended, and
    nobody waits. On two cores A has the mutex from 3 to 9 ms and B, which asks at
    4, until 12, and ends at 14; of a run in which only what somebody waited for
    was recorded nothing is known of that, and the answer says so. Where it is a lock
    for readers and writers, two readers have it together. Would catch
    records of --locks=all that the replay does not get, or puts elsewhere."""
    run = f"predict-free-{next(numbers)}"
    subprocess.run([duo.build.program("lock_pool"), duo.machines[0].pool, run,
                    locks], check=True)
    duo.wait_closed(run)
    ms = UNIT // 1000
    for cores, then in ((2, makespan), (1, 19)):
        answer = duo.json("predict", run, "--mtime", "0", "--machines",
                          f"it:cores={cores}", "--map", "*=it")
        assert answer["makespan_ns"] == then * ms
        said = " ".join(answer["assumed"])
        assert ("only contended locks were recorded" in said) == (locks == "free")
        assert said.count("the replay decides again") == (times > 0), said
        if times:
            assert f"which thread gets a lock next, {times} times" in said
        assert answer["locks"] == ("contended" if locks == "free" else "all")


@pytest.mark.quick
def test_recorded_load(duo, graphs):
    """A run that is on until the machine's load was looked at: load=recorded is
    what others had of it, and said to be that; of a pool that came whole (no
    process of it lived here) it is fitted, and said to be that. Would catch a
    load that nobody records, a program's own threads in it, and one that is told
    for the other."""
    run = f"predict-load-{next(numbers)}"
    proc = duo.popen(["cat"], name=run, stdin=subprocess.PIPE)

    def loads():
        done = duo.ipsq("path", run, "--format", "json")
        return done.stdout and json.loads(done.stdout)["certificate"]["loads"]

    wait_until("the load is recorded", loads)
    proc.stdin.close()
    assert proc.wait(120) == 0
    duo.wait_closed(run)
    asked = ["--machines", "m1:load=recorded"]
    answer = duo.json("predict", run, *asked, status=(0, 3))
    (load,) = answer["certificate"]["loads"]
    assert load["machine"] == "m1" and load["samples"] >= 1
    m1 = next(m for m in answer["machines"] if m["machine"] == "m1")
    others = max(0, load["load"] - load["own_load"])
    assert m1["load"] == pytest.approx(others, abs=0.011)
    assert any("load average while the run was on" in t
               for t in answer["assumed"])
    whole = f"predict-locks-{next(numbers)}"
    subprocess.run([duo.build.program("lock_pool"), duo.machines[0].pool, whole],
                   check=True)
    duo.wait_closed(whole)
    answer = duo.json("predict", whole, *asked)
    assert answer["certificate"]["loads"] == []
    assert any("load average was not recorded" in t for t in answer["assumed"])
