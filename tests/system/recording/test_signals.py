"""Signals: handlers behave as without us - whatever way they were set, asked
back, inherited, jumped out of - and who sent what is an arc of the graph.

Each program runs bare and under ipsrun without daemons: same output, same
status (the `trace` fixture compares). The graph is built from the pool.
"""
import json
import shutil
import signal
import subprocess

import pytest

from test_interposer import program, trace  # noqa: F401 (a fixture)

pytestmark = pytest.mark.quick

USR1, CHLD = int(signal.SIGUSR1), int(signal.SIGCHLD)
BY_PROCESS, BY_QUEUE, BY_THREAD, HANDLER, WAIT, FD, PIDFD, CANCELLED = \
    1, 2, 3, 16, 17, 18, 19, 20
CANCEL = 32  # the signal of pthread_cancel


class Graph:
    """The graph of a finished run, from its segments."""

    def __init__(self, build, records):
        lines = subprocess.run(
            [str(build.top / "tests" / "poolgraph"), records.directory],
            check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        self.nodes = [json.loads(line) for line in lines[:-1]]
        self.tail = json.loads(lines[-1])
        self.by_id = {n["id"]: n for n in self.nodes}

    def arcs(self, xkind):
        """[(node it comes from, node it leads to)]"""
        return [(self.by_id[n["xpred"]], n) for n in self.nodes
                if n["xkind"] == xkind and n["xpred"] is not None]


def test_actions(build, trace):
    """What sigaction, signal, sysv_signal, sigset, siginterrupt set and give
    back; masks, SA_SIGINFO, SA_NODEFER, SA_RESETHAND, SA_ONSTACK; errors; fork
    and vfork children.

    Would catch: our stub or flag shown to the program, a mask or flag lost, a
    vfork child changing its parent's handlers, errno of a handler kept."""
    r = trace([program(build, "i_signal"), "actions"], status=0)
    assert r.count("SIGNAL", how=HANDLER, a=USR1) >= 16


def test_handlers_that_never_return(build, trace):
    """longjmp and exit out of a handler, a fault's handler, more handlers than
    there are stubs.

    Would catch: a frame of ours left behind, a fault signal taken over, a
    handler lost where no stub is free."""
    r = trace([program(build, "i_signal"), "never"], status=14)
    assert r.count("SIGNAL", a=int(signal.SIGSEGV)) == 0
    assert r.count("SIGNAL", a=USR1) == 3
    assert r.count("KILL", a=int(signal.SIGUSR2)) == 160


def test_kills_are_arcs(build, trace):
    """kill, sigqueue, tgkill, raw system calls and a pidfd; taken by a handler
    in sigsuspend, sigwait, sigwaitinfo and a read of a signalfd.

    Would catch: a call not wrapped; the sender or receiver not told; the arc
    from the wrong kill."""
    r = trace([program(build, "i_signal"), "kills"], status=0)
    assert [k["how"] for k in r.of("KILL")] == \
        [BY_PROCESS, BY_QUEUE, BY_THREAD, BY_PROCESS, BY_PROCESS]
    taken = r.of("SIGNAL", a=USR1)
    assert [s["how"] for s in taken] == [HANDLER, WAIT, WAIT, WAIT, FD]
    graph = Graph(build, r)
    arcs = graph.arcs("signal")
    assert [n["pid"] for _, n in arcs] == [s["pid"] for s in taken] == \
        [k["to"] for k in r.of("KILL")]
    assert {k["pid"] for k, _ in arcs} == {r.of("KILL")[0]["pid"]}
    assert [k["t_ns"] for k, _ in arcs] == [k["t"] for k in r.of("KILL")]
    # The parent's sleeps are the only ones that are nobody's doing.
    assert graph.tail["counts"]["external"] == 5


def test_threads_are_told_apart(build, trace):
    """pthread_kill of one of two threads: its sleep ends by that arc.

    Would catch: the thread's id not known; the sleep called external."""
    r = trace([program(build, "i_signal"), "threads"], status=0)
    sleepers = [b["tid"] for b in r.of("BLOCK", op="SLEEP", err=4)]
    assert [k["thread"] for k in r.of("KILL")][:2] == sleepers
    graph = Graph(build, r)
    assert [n["tid"] for _, n in graph.arcs("signal")
            if n["tid"] != n["pid"]] == sleepers
    assert graph.tail["counts"]["external"] == 2  # main's own two


def test_cancelled_threads_hang_on_who_cancelled(build, trace):
    """Cancelled in a read, a poll, a wait for a condition, a semaphore and a sleep; and
    one that returns although it was cancelled, and one that had ended.

    Would catch: the end of a cancelled thread that nothing explains, so that the work
    which led to it is not on the path; a cancellation that had no effect taken for one."""
    r = trace([program(build, "i_cancel")], status=0)
    kills = sorted(r.of("KILL", a=CANCEL), key=lambda k: k["t"])
    taken = r.of("SIGNAL", a=CANCEL)
    assert len(kills) == 7
    assert [s["how"] for s in taken] == [CANCELLED] * 5
    arcs = Graph(build, r).arcs("signal")
    assert [(k["tid"], n["tid"]) for k, n in arcs] == \
        [(k["tid"], k["thread"]) for k in kills[:5]]
    assert [n["tid"] for _, n in arcs] == [s["tid"] for s in taken]


def test_child_to_handler(build, trace):
    """A server that sleeps in sigsuspend until SIGCHLD.

    Would catch: the end of the child not the cause of the signal."""
    r = trace([program(build, "i_signal"), "children"], status=0)
    graph = Graph(build, r)
    arcs = graph.arcs("signal")
    children = [s["to"] for s in r.of("SIGNAL", a=CHLD)]
    assert [k["pid"] for k, _ in arcs] == children and len(children) == 3
    # Seen while the exit still went on, it hangs on the node before END.
    for k, _ in arcs:
        chain = [n for n in graph.nodes if n["pid"] == k["pid"]]
        assert chain[-1]["kind"] == "END" and k in chain[-2:]


def test_stopped_processes(build, trace):
    """A process that is stopped while it computes, while it reads, and by
    itself: each of its threads goes on by the arc from who sent SIGCONT, to the
    process or its group; its parent is told of the stop by who sent that.

    Would catch: a stop that is nobody's doing, is CPU time or a wait for the
    byte that lay there; a wait with WUNTRACED unseen; a thread left out."""
    r = trace([program(build, "i_signal"), "stops"], status=0)
    kills, conts = (sorted(r.of("KILL", a=int(s)), key=lambda k: k["t"])
                    for s in (signal.SIGSTOP, signal.SIGCONT))
    children = [j["a"] for j in sorted(r.of("JOIN"), key=lambda j: j["t"]) if j["a"]]
    assert [abs(k["to"]) for k in conts] == children and len(children) == 3
    graph = Graph(build, r)
    arcs = graph.arcs("signal")
    for child, cont in zip(children, conts):
        let_go = [n["tid"] for k, n in arcs
                  if k["t_ns"] == cont["t"] and n["pid"] == child]
        assert len(set(let_go)) == len(let_go) == 2
        cpu = sum(n["arc_cpu_ns"] or 0 for n in graph.nodes
                  if n["tid"] == child)
        assert cpu < 50000000  # so long was it stopped
    parent = conts[0]["pid"]
    assert sorted(k["t_ns"] for k, n in arcs if n["pid"] == parent and
                  k["t_ns"] in [s["t"] for s in kills]) == [s["t"] for s in kills]
    told = [s["to"] for s in r.of("SIGNAL", how=WAIT, a=CHLD)]
    assert set(told) == set(children)


PIDFDS = """
import os, select
def wait(how, fd):
    if how == 0:
        p = select.poll(); p.register(fd, select.POLLIN); return p.poll()
    if how == 1:
        return select.select([fd], [], [])
    p = select.epoll(); p.register(fd, select.EPOLLIN); return p.poll()
for how in range(3):
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(r, 1)
        os._exit(0)
    fd = os.pidfd_open(pid)
    os.write(w, b"x")
    print(len(wait(how, fd)), os.waitpid(pid, 0)[1])
    for d in (fd, r, w):
        os.close(d)
"""


def test_polls_of_pidfds(build, trace):
    """poll, select and epoll of a pidfd hang on the end of the process.

    Would catch: a pidfd taken for a file; the wait left to nobody."""
    r = trace(["/usr/bin/python3", "-c", PIDFDS], status=0)
    children = [j["a"] for j in r.of("JOIN")]
    taken = r.of("SIGNAL", how=PIDFD)
    assert [s["to"] for s in taken] == children and len(children) == 3
    arcs = Graph(build, r).arcs("signal")
    assert [k["pid"] for k, _ in arcs] == children
    assert len({n["pid"] for _, n in arcs}) == 1


PYTHON = """
import os, signal, time
got = []
signal.signal(signal.SIGUSR1, lambda n, f: got.append(n))
print(signal.getsignal(signal.SIGUSR1) is not None)
signal.siginterrupt(signal.SIGUSR1, False)
pid = os.fork()
if pid == 0:
    time.sleep(0.02); os.kill(os.getppid(), signal.SIGUSR1); os._exit(0)
signal.pause(); print(got)
os.waitpid(pid, 0)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
os.kill(os.getpid(), signal.SIGUSR2)
print(signal.sigwaitinfo([signal.SIGUSR2]).si_pid == os.getpid())
print(signal.signal(signal.SIGTERM, signal.SIG_IGN) == signal.SIG_DFL)
"""
BASH = """
trap 'n=1' CHLD; sleep 0.02 & wait; echo "child $n"; trap - CHLD
trap 'echo usr1' USR1; trap
kill -USR1 $$; (sleep 0.02; kill -USR1 $$) & wait; wait
trap - USR1; trap '' TERM; trap; kill -TERM $$; sh -c 'kill -TERM $$'
bash -c 'trap "exit 5" INT; kill -INT $$; sleep 5'; echo $?
timeout 0.05 sleep 5; echo $?
"""
PERL = r"""
$SIG{USR1} = sub { print "usr1\n" }; kill USR1 => $$;
$SIG{ALRM} = sub { die "alarm\n" };
eval { alarm 1; select(undef, undef, undef, 5); }; print $@;
local $SIG{__WARN__}; $SIG{CHLD} = 'IGNORE'; system "true"; print "$?\n";
"""


@pytest.mark.parametrize("argv", [
    ["/usr/bin/python3", "-u", "-c", PYTHON],
    ["bash", "-c", BASH],
    ["perl", "-e", PERL],
], ids=lambda a: a[0].rpartition("/")[2])
def test_languages(build, trace, argv):
    """Would catch: a runtime that compares what sigaction gives back with what
    it set, or whose handlers need what we took away."""
    if not shutil.which(argv[0]):
        pytest.skip(argv[0])
    r = trace(argv, lost=["NESTED"])  # bash jumps out of handlers
    assert r.count("SIGNAL", how=HANDLER, a=USR1) >= 1
