"""Locks and their like: who waited, who let go. tests/programs/interposed/i_sync.c has one
case for each call that can wait, with a waiter that really sleeps (or spins)
and the main thread, which lets it go: the graph must have that arc and no
other, and the program must not notice us."""
import collections
import itertools
import json
import subprocess

import pytest

from conftest import Cluster, clean_env

THREADS = """
    mutex mutex-recursive mutex-errorcheck mutex-adaptive mutex-robust
    mutex-inherit mutex-timed mutex-clock mutex-try mutex-try-slowly
    mtx mtx-recursive mtx-timed
    cond cond-timed cond-clock cond-broadcast cnd cnd-timed cnd-broadcast
    read read-timed read-clock write write-write write-timed write-clock
    sem sem-timed sem-clock sem-handler sem-named sem-try spin once once11
    stream stream-try futex""".split()
PROCESSES = """
    process-mutex process-mutex-robust process-mutex-inherit process-cond
    process-read process-write process-sem process-sem-named
    process-futex""".split()
NUMBER = itertools.count()


@pytest.fixture(scope="module")
def cluster(build):
    with_daemons = Cluster(build, ["m1"])
    yield with_daemons
    with_daemons.close()


def record(cluster, program, case, *options):
    """Runs a case bare and recorded, which must not differ; its run's name."""
    argv = [cluster.build.program(program), case]
    bare = subprocess.run(argv, env=clean_env(), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=180)
    run = f"{case}.{next(NUMBER)}"
    seen = cluster.ipsrun(argv, name=run, options=options)
    assert (seen.stdout, seen.stderr, seen.returncode) == \
        (bare.stdout, bare.stderr, bare.returncode)
    assert bare.returncode == 0
    cluster.wait_closed(run)
    return run


def check_length(answer):
    """No path of CPU time is longer than the run - but for what waits were
    guessed to cost (agent/record/cpu.h), which the path picks the greatest of."""
    assert answer["t_max_ns"] <= 1.05 * answer["elapsed_ns"]


class Arcs:
    """The resource arcs of a run: (releasing thread, waiting thread), where
    the main thread of the command is "main" and all others are "other"."""

    def __init__(self, nodes):
        self.nodes = {n["id"]: n for n in nodes}
        born = [n for n in nodes if n["kind"] == "START"]
        self.main = [n["tid"] for n in born if n["xpred"] is None][0]
        self.arcs = [(self.nodes[n["xpred"]], n) for n in nodes
                     if n["xkind"] == "resource"]
        self.pairs = sorted((self.name(a), self.name(b)) for a, b in self.arcs)

    def name(self, node):
        return "main" if node["tid"] == self.main else "other"


@pytest.mark.parametrize("case", THREADS)
def test_who_let_the_thread_go(cluster, case):
    """Would catch a call that is not wrapped, an object that waiter and
    releaser name differently, and a release unseen because nobody looked as if
    waiting."""
    run = record(cluster, "i_sync", case)
    arcs = Arcs(cluster.graph(run))
    assert arcs.pairs == [("main", "other")], cluster.ipsq("events", run).stdout
    assert all(n["kind"] == "AUX" for arc in arcs.arcs for n in arc)


@pytest.mark.parametrize("case", PROCESSES)
def test_who_let_the_process_go(cluster, case):
    """Would catch shared objects that are known by address, which differs
    between processes (and within one image is somebody else's)."""
    arcs = Arcs(cluster.graph(record(cluster, "i_sync", case)))
    assert arcs.pairs == [("main", "other")]
    (release, wait), = arcs.arcs
    assert release["pid"] != wait["pid"]


def test_mutex_after_the_signal(cluster):
    """A waiter for a condition waits for the signal and then for the mutex: the
    signaller let go of both, and the later one counts. Would catch a wait that
    ends with the signal though the signaller went on for long."""
    run = record(cluster, "i_sync", "cond-late")
    arcs = Arcs(cluster.graph(run))
    assert arcs.pairs == [("main", "other")] * 2
    (signal, first), (unlock, second) = arcs.arcs
    assert signal["id"] < unlock["id"] and first["id"] + 1 == second["id"]


def test_waiting_for_a_condition_lets_the_mutex_go(cluster):
    """Would catch that pthread_cond_wait is an unlock too."""
    arcs = Arcs(cluster.graph(record(cluster, "i_sync", "cond-lets")))
    assert ("main", "other") in arcs.pairs  # the mutex
    assert ("other", "main") in arcs.pairs  # the condition


@pytest.mark.parametrize("case", ["barrier", "process-barrier"])
def test_barrier(cluster, case):
    """The arrivals are a chain that ends at the last one, and who came earlier
    leaves after it."""
    arcs = Arcs(cluster.graph(record(cluster, "i_sync", case)))
    assert arcs.pairs == [("main", "other"), ("other", "main")]
    up, = [a for a in arcs.arcs if arcs.name(a[1]) == "main"]
    down, = [a for a in arcs.arcs if arcs.name(a[1]) == "other"]
    assert down[0]["id"] == up[1]["id"]  # the last arrival
    assert down[1]["id"] == up[0]["id"] + 1


def test_nobody_waits(cluster):
    """A million calls that do not wait leave no record: the run stays small,
    and no lane without resource arcs is computed."""
    run = record(cluster, "i_sync", "uncontended")
    answer = cluster.json("path", run)
    assert Arcs(cluster.graph(run)).arcs == []
    assert answer["certificate"]["events"] < 100
    assert answer["certificate"]["any"] == 0
    assert "resource arcs off" not in [
        lane["lane"] for lane in answer["certificate"]["lanes"]]


def test_all_locks(cluster):
    """With --locks=all one thread's takings and givings back are recorded, each
    once, though nobody waits; a recursive mutex's inner ones are none, and a wait
    for a condition, which runs out, is one of each. Would catch a call that is
    forgotten, or told twice, and a graph that is another because of them."""
    run = record(cluster, "i_sync", "free", "--locks=all")
    rows = cluster.json("events", run)["events"]
    kinds = {"mutex": 70, "rwlock, to read": 10, "rwlock, to write": 10,
             "semaphore": 20, "spin lock": 20}
    seen = collections.Counter((e["type"], e["detail"].partition(":")[0])
                               for e in rows)
    # A mutex that a wait for a condition has given back looks waited for.
    assert {key: seen[key] for key in seen if key[1] in kinds} == {
        (does, kind): count for kind, count in kinds.items()
        for does in ("acquire", "release")}
    assert Arcs(cluster.graph(run)).arcs == []
    for locks, name in (("all", run), ("contended",
                                       record(cluster, "i_sync", "free"))):
        answer = cluster.json("predict", name, "--map", "*=two", "--machines",
                              "two:cores=2")
        assert answer["locks"] == locks
        assert any("only contended locks were" in said
                   for said in answer["assumed"]) == (locks == "contended")


def test_all_locks_of_one_thread(cluster):
    """Would catch: a stream's lock that is taken on record and given back without."""
    rows = cluster.json("events", record(cluster, "i_sync", "alone", "--locks=all"))["events"]
    seen = collections.Counter(e["type"] for e in rows)
    assert seen["acquire"] == seen["release"] == 0


def test_spinning_is_no_work(cluster):
    """The CPU of a spin lock's waiter, milliseconds of it, is in no sum."""
    run = record(cluster, "i_sync", "spin")
    answer = cluster.json("path", run)
    spin = answer["certificate"]["spin_ns"]
    nodes = cluster.graph(run)
    arcs = Arcs(nodes)
    other = sum(n["arc_cpu_ns"] or 0 for n in nodes
                if arcs.name(n) == "other")
    assert spin > other


def test_turns_end_to_end(cluster):
    """Two threads take turns by semaphores: most waits have their post (a post
    that looked in the very moment before somebody slept may miss him), the
    path crosses them, both engines say the same, and no path is longer
    than the run."""
    run = record(cluster, "i_sync", "turns")
    answer = cluster.json("path", run)
    sure = answer["certificate"]
    assert sure["any"] > 0 and sure["any_unmatched"] <= 1 + sure["any"] // 4
    assert sure["any_on_path"] <= sure["any"]
    # the waits themselves may take more CPU than what ends them, but not more time
    wall = cluster.json("path", run, "--weighting", "wall")["certificate"]
    assert 0 < wall["any_on_path"] <= wall["any"]
    check_length(answer)
    assert "resource arcs off" in [lane["lane"] for lane in sure["lanes"]]
    other = cluster.json("path", run, "--engine", "contract")
    assert other["t_max_ns"] == answer["t_max_ns"]
    assert [lane["t_max_ns"] for lane in other["certificate"]["lanes"]] == \
        [lane["t_max_ns"] for lane in sure["lanes"]]
    off, = [lane["t_max_ns"] for lane in sure["lanes"]
            if lane["lane"] == "resource arcs off"]
    assert off <= answer["t_max_ns"]
    said = cluster.ipsq("path", run, "-v").stdout
    assert "waits for locks" in said and "resource arcs off" in said


def test_the_owner_of_a_robust_mutex_dies(cluster):
    """Its end is what the waiter waited for."""
    nodes = cluster.graph(record(cluster, "i_sync", "mutex-dead"))
    by_id = {n["id"]: n for n in nodes}
    wait, = [n for n in nodes
             if n["kind"] == "AUX" and n["xkind"] == "lifetime"]
    end = by_id[wait["xpred"]]
    assert end["kind"] == "END" and end["tid"] not in (wait["tid"], end["pid"])


def test_many_threads(cluster):
    """Four threads and one mutex, with a barrier now and then: the path exists
    (no cycle of arcs), is no longer than the run, and is the same by both
    engines."""
    run = record(cluster, "i_sync", "many")
    answer = cluster.json("path", run)
    check_length(answer)
    other = cluster.json("path", run, "--engine", "contract")
    assert other["t_max_ns"] == answer["t_max_ns"]


def test_events_show_them(cluster):
    """`ipsq events` has the wait's two ends and the release, with the object's
    kind."""
    run = record(cluster, "i_sync", "write")
    rows = cluster.ipsq("events", run, "--format", "tsv").stdout.splitlines()
    kinds = collections.Counter(
        word for row in rows for word in row.split("\t")
        if word in ("acquire-call", "acquire", "release"))
    assert kinds == {"acquire-call": 1, "acquire": 1, "release": 1}
    assert "rwlock, to write 0x" in "".join(rows)


@pytest.mark.parametrize("case", ["results", "cancelled"])
def test_nothing_is_different(cluster, case):
    """Results and errno of 65 calls, errors and dead owners among them;
    cancellation inside waits. Would catch a trylock that does what the lock
    would not have done."""
    record(cluster, "i_sync_result", case)


@pytest.mark.parametrize("case", ["results", "cancelled"])
def test_nothing_is_different_with_all_locks(cluster, case):
    """The same where every taking and giving back is recorded."""
    record(cluster, "i_sync_result", case, "--locks=all")


def test_threads_end_though_nobody_joins(cluster):
    """A detached thread and a main thread that left by pthread_exit have their
    END: the run is closed and nothing is pending."""
    run = record(cluster, "i_sync_result", "main-leaves")
    nodes = cluster.graph(run)
    assert sum(n["kind"] == "END" for n in nodes) == 3
    events = [json.loads(line) for line in cluster.ipsq(
        "events", run, "--format", "jsonl").stdout.splitlines()]
    ends = {e["tid"] for e in events if e["type"] == "end"}
    assert len(ends) == 3  # each thread said so itself
    assert not cluster.json("path", run)["open"]
