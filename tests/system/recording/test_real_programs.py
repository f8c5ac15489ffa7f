"""Unmodified programs from Debian, each under ipsrun: what the program does is
unchanged, everything both ends recorded is matched, and the graph is the one
that strace saw.

Would catch: a wrapper that changes or misses bytes, a match to the wrong send,
a process or thread not followed, CPU that is lost or counted twice, engines
that differ, a path longer than the run.
"""

import pytest

import oracle
import programs
import recorder as rec

import graph_view  # noqa: E402  (recorder puts tests/oracle on the path)
import strace_compare  # noqa: E402

pytestmark = pytest.mark.skipif(bool(programs.missing()),
                                reason="not here: %s" % programs.missing())

ROOT_EXIT_NS = 500000
NAMES = sorted(programs.ALL)


@pytest.fixture(scope="module")
def recorder(build):
    made = rec.Recorder(build)
    yield made
    made.close()


class Case:
    """One program run bare, recorded, and recorded under strace; made when
    first asked for, kept for the file's other tests."""

    def __init__(self, recorder, logs, name, book=programs.ALL):
        self.recorder, self.logs, self.name = recorder, logs, name
        self.book, self.kept = book, {}

    def make(self, small):
        return self.book[self.name](programs.new_directory(), small)

    def keep(self, key, make):
        if key not in self.kept:
            self.kept[key] = make()
        return self.kept[key]

    def run(self, small, how):
        prog = self.make(small)
        try:
            if how == "bare":
                done = rec.execute(prog.argv, self.recorder.env)
            else:
                log = self.logs / (self.name + ".log") \
                    if how == "strace" else None
                done = self.recorder.record(prog.argv, self.name, log)
        finally:
            prog.clean()
        done.normal = prog.normal(done.out)
        return done

    @property
    def bare(self):
        return self.keep("bare", lambda: self.run(False, "bare"))

    @property
    def recorded(self):
        return self.keep("rec", lambda: self.run(False, "recorded"))

    @property
    def traced(self):
        return self.keep("strace", lambda: self.run(True, "strace"))

    def nodes(self, done):
        return self.keep("nodes " + done.run,
                         lambda: self.recorder.graph(done.run))

    def path(self, done, engine, *options):
        return self.keep(("path", done.run, engine, options),
                         lambda: self.recorder.path(done.run, engine,
                                                    *options))


@pytest.fixture(scope="module")
def cases(recorder, tmp_path_factory):
    kept = {}
    logs = tmp_path_factory.mktemp("logs")

    def get(name):
        if name not in kept:
            kept[name] = Case(recorder, logs, name)
        return kept[name]
    return get


@pytest.mark.parametrize("name", NAMES)
def test_same_output_and_status(cases, name):
    case = cases(name)
    assert case.bare.status == 0, case.bare.err
    assert case.recorded.status == case.bare.status, case.recorded.err
    assert case.recorded.normal == case.bare.normal
    assert case.recorded.err == case.bare.err


@pytest.mark.parametrize("name", NAMES)
def test_every_byte_is_matched(cases, name):
    """EVIDENCE-OF: every byte that both ends traced is matched."""
    case = cases(name)
    cert = case.path(case.recorded, "central")["certificate"]
    assert cert["events"] > 0
    assert not any(n for n in lost_counts(cert)), cert
    assert cert["unmatched"] == 0 and cert["pending"] == 0, cert
    assert cert["untraced_processes"] == 0, cert


def lost_counts(cert):
    lost = cert["lost"]
    return lost.values() if isinstance(lost, dict) else \
        [c["count"] for c in lost]


@pytest.mark.parametrize("name", NAMES)
def test_path_is_right(cases, name):
    """All engines give the path that an oracle in another language finds on
    the exported graph, in every weighting; without message times and external arcs it is no longer
    than the run lasted."""
    case = cases(name)
    done = case.recorded
    answers = oracle.check_weightings(
        case.nodes(done),
        lambda *options: case.recorder.ask("path", done.run, *options))
    answers = [answers[e] for e in ("contract", "central")]
    for key in ("segments", "shares", "parallelism_factor", "p_max"):
        assert answers[0][key] == answers[1][key], key
    off = [case.path(done, e, "--external", "off") for e in
           ("contract", "central")]
    assert off[0]["t_max_ns"] == off[1]["t_max_ns"]
    print("%s: t_max %d ns, elapsed %d ns" % (
        name, off[0]["t_max_ns"], off[0]["elapsed_ns"]))
    # What waits cost is guessed (agent/record/cpu.h): the path picks the greatest.
    assert 0 < off[0]["t_max_ns"] <= 1.05 * off[0]["elapsed_ns"]
    assert off[0]["elapsed_ns"] <= done.elapsed_ns


def parents_of(recorder, run):
    """{pid: parent pid} by `ipsq ls`."""
    return {p["pid"]: p["parent_pid"] for p in
            recorder.ask("ls", run)["processes"]}


@pytest.mark.parametrize("name", NAMES)
def test_graph_is_what_strace_saw(cases, name):
    """EVIDENCE-OF: processes, threads, bytes per channel and every cross arc
    against strace of the same execution."""
    case = cases(name)
    done = case.traced
    assert done.status == 0, done.err
    assert not done.model.notes
    view = graph_view.view(case.nodes(done),
                           parents_of(case.recorder, done.run))
    result = strace_compare.compare(done.model, view)
    print(name, result.summary())
    assert not result.differences, "%s\n%s\n%s" % (
        result.summary(), "\n".join(result.differences[:40]),
        case.recorder.ask("path", done.run)["certificate"])
    moved = graph_view.view_of_events(case.recorder.events(done.run))
    by_event = strace_compare.compare(done.model, moved)
    assert not by_event.differences, "\n".join(by_event.differences[:40])
    assert by_event.ends > 0
    assert {program for program, _ in result.silent} <= programs.SILENT
    assert result.compared > 10
    assert result.excluded <= result.compared // 10


def root_base(recorder, run):
    """CPU that ipsrun had used when it became the program."""
    (root,) = [pid for pid, parent in parents_of(recorder, run).items()
               if parent is None]
    return next(e["cpu_ns"] for e in recorder.events(run)
                if e["type"] == "start" and e["pid"] == root)


@pytest.mark.parametrize("name", [n for n in NAMES
                                  if n not in programs.ORPHANS])
def test_cpu_is_what_wait4_says(cases, name):
    """The run's CPU, all threads of all processes together, with what the certificate says
    belongs to none of them (our own short-lived threads'), within 4% of the
    kernel's own figure for the tree; the exit of the root itself apart, which
    nobody of ours waits for (0.3 ms on an idle machine)."""
    case = cases(name)
    # A hypervisor's short pauses, over which a mark stands, are taken for CPU
    # time: where that is too much, once more.
    for left in (2, 1, 0):
        done = case.recorded
        base = root_base(case.recorder, done.run)
        answer = case.path(done, "central")
        unsaid = answer["certificate"]["unattributed_cpu_ns"]
        assert unsaid < answer["total_cpu_ns"] / 8
        total = answer["total_cpu_ns"] + unsaid + base
        print("%s: %d ns, wait4 %d ns, %+.3f%%" % (
            name, total, done.cpu_ns, 100 * (total / done.cpu_ns - 1)))
        good = abs(total - done.cpu_ns) <= done.cpu_ns / 25 + ROOT_EXIT_NS
        if good:
            break
        case.kept.pop("rec")
    assert good


def test_redis_crossings(recorder):
    """A request and its answer are two crossings: ten thousand requests of one
    client put most of the 20,000 on the path."""
    # 19,010 to 19,830 of runs on a loaded machine, as with --cpu=exact. Where
    # errors of guessed waits came to lie in one arc (before agent/record/cpu_guess.h)
    # the path stayed in one process: 17,600 to 18,400 there; that they do not
    # is held by unit/test_cpu_guess. Also where the machine takes the CPU away
    # in the middle of sends: then once more, and 18,000 are enough.
    most = 0
    for left in (2, 1, 0):
        prog = programs.redis(programs.new_directory(), 1, 10000)
        done = recorder.record(prog.argv, "redis-10000-%d" % left)
        prog.clean()
        assert done.status == 0, done.err
        crossings = [sum(s["kind"] == "message" and s["arc"] == "data"
                         for s in recorder.path(done.run, engine)["segments"])
                     for engine in ("contract", "central")]
        assert crossings[0] == crossings[1]
        if crossings[0] >= 19000:
            return
        most = max(most, crossings[0])
    assert most >= 18000


def test_sort_writes_after_end_of_file(recorder):
    """sort can write nothing before it has read all: its first send comes after
    its end-of-file, which hangs on the end of its writer."""
    prog = programs.pipeline(programs.new_directory(),
                             "seq 20000 | sort | uniq | cksum")
    done = recorder.record(prog.argv, "sort-uniq")
    prog.clean()
    assert done.status == 0, done.err
    nodes = recorder.graph(done.run)
    by_id = {n["id"]: n for n in nodes}
    named = {p["name"].split(".")[0]: p["pid"] for p in
             recorder.ask("ls", done.run)["processes"]}
    (chain,) = graph_view.chains(nodes)[named["sort"], named["sort"]]
    eofs = [i for i, n in enumerate(chain) if n["kind"].lower() == "recv"
            and n["xkind"] == "lifetime"]
    sends = [i for i, n in enumerate(chain) if n["kind"].lower() == "send"]
    assert len(eofs) == 1 and sends and eofs[0] < sends[0]
    cause = by_id[chain[eofs[0]]["xpred"]]
    assert cause["pid"] == named["seq"]
