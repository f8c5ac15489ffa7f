"""The strace matcher itself, on canned logs: would catch a matcher that agrees
with the recorder because it reads the log wrongly. The answers below were
worked out by hand from the lines."""

import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "oracle"))

import strace_compare as sc  # noqa: E402
import strace_model as sm  # noqa: E402

pytestmark = pytest.mark.quick


def model(text):
    """Lines without stamps: `TID call`. Adds what strace would."""
    lines = []
    for n, line in enumerate(text.strip().splitlines()):
        tid, rest = line.strip().split(" ", 1)
        lines.append("%s 1700000000.%06d %s" % (tid, n, rest))
    return sm.build(sm.parse(lines))


def ops(m, tid):
    return [(o.kind, o.bytes) for o in m.ops.get(tid, [])]


def test_result_shapes():
    """Every way strace ends a line."""
    items = sm.parse([
        '7 1.0 read(0<pipe:[9]>, "a) = 5 <0.1>"..., 8) = 7 <0.000010>',
        '7 1.1 read(0<pipe:[9]>, 0x7ffc, 8) = -1 EAGAIN (Resource temporarily'
        ' unavailable) <0.000010>',
        '7 1.2 fcntl(3<pipe:[9]>, F_GETFL) = 0x802 (flags O_RDWR|O_NONBLOCK)'
        ' <0.000010>',
        '7 1.3 read(0<pipe:[9]>,  <unfinished ...>',
        '8 1.4 +++ killed by SIGKILL (core dumped) +++',
        '7 1.5 <... read resumed>0x1, 8)       = ? ERESTARTSYS (To be'
        ' restarted if SA_RESTART is set) <0.5>',
        '7 1.6 --- SIGCHLD {si_signo=SIGCHLD} ---',
        '7 1.7 accept4(4<TCP:[127.0.0.1:80]>, {sa_family=AF_INET, '
        'sin_port=htons(5)}, [16], 0) = 5<TCP:[127.0.0.1:80->127.0.0.1:5]>'
        ' <0.1>',
        '7 1.8 exit_group(0)   = ?',
        '7 1.9 +++ exited with 3 +++'])
    got = [(i.ret, i.err) for i in items if isinstance(i, sm.Call)]
    assert got == [(7, None), (-1, "EAGAIN"), (0x802, None),
                   (None, "ERESTARTSYS"), (5, None), (None, None)]
    assert items[0].args.endswith("..., 8")
    assert items[3].args == "0<pipe:[9]>,0x1, 8"
    deaths = [i.status for i in items if isinstance(i, sm.Death)]
    assert deaths == [("signal", "SIGKILL"), ("exit", 3)]


def test_handlers_are_passed_over():
    """Would catch: a call held to have begun after a handler that in truth ran
    between the recorder's stamp and the call."""
    calls = sm.parse([
        "7 1.0 close(3<pipe:[9]>) = 0 <0.1>",
        "7 1.1 --- SIGCHLD {si_signo=SIGCHLD} ---",
        "7 1.2 wait4(-1, NULL, WNOHANG, NULL) = 8 <0.1>",
        "7 1.3 --- SIGALRM {si_signo=SIGALRM} ---",
        "7 1.4 close(5<pipe:[9]>) = 0 <0.1>",
        "7 1.5 rt_sigreturn({mask=[]}) = 0 <0.1>",
        "7 1.6 rt_sigreturn({mask=[]}) = 0 <0.1>",
        "7 1.7 close(4<pipe:[9]>) = 0 <0.1>"])
    first, wait, inner, last = calls
    assert (inner.since, inner.until) == (2, float("inf"))
    assert (wait.since, wait.until) == (0, 4)
    assert (first.since, first.until) == (None, 7)
    assert last.since == 0


def test_garbage_is_refused():
    with pytest.raises(sm.ParseError):
        sm.parse(["strace: something unexpected"])
    with pytest.raises(sm.ParseError):
        sm.parse(["7 1.0 <... read resumed>) = 3 <0.1>"])


PIPELINE = """
10 execve("/bin/sh", ["sh"], 0x1 /* 3 vars */) = 0 <0.1>
10 pipe2([3<pipe:[70]>, 4<pipe:[70]>], 0) = 0 <0.1>
10 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD) = 11 <0.1>
10 close(4<pipe:[70]>) = 0 <0.1>
10 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD <unfinished ...>
12 dup2(3<pipe:[70]>, 0</dev/null<char 1:3>>) = 0<pipe:[70]> <0.1>
10 <... clone resumed>) = 12 <0.1>
12 close(3<pipe:[70]>) = 0 <0.1>
10 close(3<pipe:[70]>) = 0 <0.1>
11 dup2(4<pipe:[70]>, 1<pipe:[5]>) = 1<pipe:[70]> <0.1>
11 close(4<pipe:[70]>) = 0 <0.1>
11 execve("/bin/seq", ["seq"], 0x1 /* 3 vars */) = 0 <0.1>
12 read(0<pipe:[70]>,  <unfinished ...>
11 write(1<pipe:[70]>, "ab"..., 10) = 10 <0.1>
12 <... read resumed>"ab"..., 6) = 6 <0.1>
11 write(1<pipe:[70]>, "ab"..., 3) = 3 <0.1>
12 read(0<pipe:[70]>, "ab"..., 4) = 4 <0.1>
12 read(0<pipe:[70]>, "ab"..., 4) = 3 <0.1>
12 read(0<pipe:[70]>,  <unfinished ...>
11 exit_group(0) = ?
12 <... read resumed>"", 4) = 0 <0.1>
11 +++ exited with 0 +++
10 wait4(-1, [{WIFEXITED(s) && WEXITSTATUS(s) == 0}], 0, NULL) = 11 <0.1>
12 exit_group(3) = ?
12 +++ exited with 3 +++
10 wait4(-1, [{WIFEXITED(s) && WEXITSTATUS(s) == 3}], 0, NULL) = 12 <0.1>
10 exit_group(0) = ?
10 +++ exited with 0 +++
"""


def test_pipeline():
    m = model(PIPELINE)
    assert not m.notes
    assert {p: (q.ppid, q.comm, q.status, q.fork_k)
            for p, q in m.procs.items()} == {
        10: (None, "/bin/sh", ("exit", 0), None),
        11: (10, "/bin/seq", ("exit", 0), 0),
        12: (10, "/bin/sh", ("exit", 3), 1)}
    assert [c for c, _ in m.joins[10]] == [11, 12]
    assert ops(m, 11) == [("send", 10), ("send", 3)]
    reads = m.ops[12]
    assert ops(m, 12) == [("recv", 6), ("recv", 4), ("recv", 3), ("eof", 0)]
    assert [r.src.k for r in reads[:3]] == [0, 0, 1]
    assert reads[3].src.pid == 11 and reads[3].src.how == "exit"
    assert not any(r.ambiguous for r in reads)
    key = ("pipe", 70)
    assert m.bytes_by_end() == {(key, "send"): 13, (key, "recv"): 13}


def test_close_on_exec_and_parent_hold_the_end():
    """End-of-file is due to whoever closed last: here the parent, after the
    writer was gone."""
    m = model("""
10 execve("/bin/a", ["a"], 0x1) = 0 <0.1>
10 pipe2([3<pipe:[70]>, 4<pipe:[70]>], O_CLOEXEC) = 0 <0.1>
10 vfork( <unfinished ...>
11 execve("/bin/b", ["b"], 0x1) = 0 <0.1>
10 <... vfork resumed>) = 11 <0.1>
11 exit_group(0) = ?
11 +++ exited with 0 +++
10 close(4<pipe:[70]>) = 0 <0.1>
10 read(3<pipe:[70]>, "", 4) = 0 <0.1>
""")
    (eof,) = m.ops[10]
    assert (eof.kind, eof.src.pid, eof.src.how) == ("eof", 10, "close")
    assert m.procs[11].how == "vfork"
    m = model("""
10 execve("/bin/a", ["a"], 0x1) = 0 <0.1>
10 pipe2([3<pipe:[70]>, 4<pipe:[70]>], O_CLOEXEC) = 0 <0.1>
10 fork() = 11 <0.1>
10 close(4<pipe:[70]>) = 0 <0.1>
11 execve("/bin/b", ["b"], 0x1) = 0 <0.1>
10 read(3<pipe:[70]>, "", 4) = 0 <0.1>
""")
    (eof,) = m.ops[10]
    assert (eof.src.pid, eof.src.how) == (11, "exec")


def test_overlapping_writers_are_ambiguous():
    m = model("""
10 execve("/bin/a", ["a"], 0x1) = 0 <0.1>
10 pipe2([3<pipe:[70]>, 4<pipe:[70]>], 0) = 0 <0.1>
10 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD} => {parent_tid=[11]}, 88) = 11 <0.1>
10 write(4<pipe:[70]>, "a", 1) = 1 <0.1>
10 write(4<pipe:[70]>, "ab"..., 5 <unfinished ...>
11 write(4<pipe:[70]>, "ab"..., 7) = 7 <0.1>
10 <... write resumed>) = 5 <0.1>
11 write(4<pipe:[70]>, "a", 1) = 1 <0.1>
10 read(3<pipe:[70]>, "a", 1) = 1 <0.1>
10 read(3<pipe:[70]>, "ab"..., 9) = 9 <0.1>
10 read(3<pipe:[70]>, "ab"..., 9) = 4 <0.1>
""")
    assert m.procs[10].threads == [10, 11]
    reads = [o for o in m.ops[10] if o.kind == "recv"]
    # 11's second write began while 10 may not have taken its stamp
    assert [r.ambiguous for r in reads] == [False, True, True]
    assert reads[2].src.tid == 11 and reads[2].src.k == 1


def test_tcp_accept_before_connect_returns_and_reuse():
    """The same four-tuple twice is two connections; the accept hangs on the
    connect though that returned later; a v4-mapped listener is one endpoint."""
    one = """
10 socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 6<TCP:[500]> <0.1>
10 connect(6<TCP:[500]>, {sa_family=AF_INET}, 16 <unfinished ...>
20 accept4(5<TCPv6:[[::]:80]>, NULL, NULL, SOCK_CLOEXEC) = 7<TCPv6:[[::ffff:127.0.0.1]:80->[::ffff:127.0.0.1]:40]> <0.1>
10 <... connect resumed>) = 0 <0.1>
10 sendto(6<TCP:[127.0.0.1:40->127.0.0.1:80]>, "ab"..., 9, 0, NULL, 0) = 9 <0.1>
20 recvfrom(7<TCPv6:[[::ffff:127.0.0.1]:80->[::ffff:127.0.0.1]:40]>, "ab"..., 99, MSG_PEEK, NULL, NULL) = 9 <0.1>
20 recvfrom(7<TCPv6:[[::ffff:127.0.0.1]:80->[::ffff:127.0.0.1]:40]>, "ab"..., 99, 0, NULL, NULL) = 9 <0.1>
10 shutdown(6<TCP:[127.0.0.1:40->127.0.0.1:80]>, SHUT_WR) = 0 <0.1>
20 recvfrom(7<TCPv6:[[::ffff:127.0.0.1]:80->[::ffff:127.0.0.1]:40]>, "", 99, 0, NULL, NULL) = 0 <0.1>
20 close(7<TCPv6:[500]>) = 0 <0.1>
10 close(6<TCP:[500]>) = 0 <0.1>
"""
    m = model("""
10 execve("/bin/a", ["a"], 0x1) = 0 <0.1>
10 fork() = 20 <0.1>
""" + one.strip() + "\n" + one.strip())
    assert not m.notes
    got = m.ops[20]
    assert [o.kind for o in got] == ["accept", "recv", "eof"] * 2
    for i, conn in enumerate((0, 1)):
        accept, recv, eof = got[3 * i:3 * i + 3]
        assert accept.src.kind == "connect" and accept.src.k == conn
        assert recv.key == ("tcp", "127.0.0.1:80", "127.0.0.1:40", conn)
        assert recv.src.k == conn and recv.src.tid == 10
        assert eof.src.how == "shutdown" and eof.src.pid == 10


def test_socketpair_rights_and_splice():
    m = model("""
10 execve("/bin/a", ["a"], 0x1) = 0 <0.1>
10 socketpair(AF_UNIX, SOCK_STREAM, 0, [3<UNIX-STREAM:[13->14]>, 4<UNIX-STREAM:[14->13]>]) = 0 <0.1>
10 fork() = 11 <0.1>
10 close(4<UNIX-STREAM:[14->13]>) = 0 <0.1>
11 close(3<UNIX-STREAM:[13->14]>) = 0 <0.1>
10 pipe2([5<pipe:[70]>, 6<pipe:[70]>], 0) = 0 <0.1>
10 sendmsg(3<UNIX-STREAM:[13->14]>, {msg_name=NULL, msg_control=[{cmsg_len=20, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, cmsg_data=[6<pipe:[70]>]}], msg_flags=0}, 0) = 1 <0.1>
11 recvmsg(4<UNIX-STREAM:[14->13]>, {msg_name=NULL, msg_control=[{cmsg_len=20, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, cmsg_data=[8<pipe:[70]>]}], msg_flags=0}, 0) = 1 <0.1>
10 close(6<pipe:[70]>) = 0 <0.1>
11 sendfile(8<pipe:[70]>, 9</etc/passwd>, NULL, 99) = 42 <0.1>
10 splice(5<pipe:[70]>, NULL, 3<UNIX-STREAM:[13->14]>, NULL, 99, 0) = 42 <0.1>
11 exit_group(0) = ?
11 +++ killed by SIGKILL +++
10 read(5<pipe:[70]>, "", 9) = 0 <0.1>
10 recvfrom(3<UNIX-STREAM:[13]>, "", 9, 0, NULL, NULL) = 0 <0.1>
""")
    assert not m.notes
    assert ops(m, 10) == [("send", 1), ("recv", 42), ("send", 42), ("eof", 0),
                          ("eof", 0)]
    assert m.ops[10][1].src is m.ops[11][1]
    assert [o.src.pid for o in m.ops[10][3:]] == [11, 11]
    assert m.procs[11].status == ("signal", "SIGKILL")


@pytest.mark.skipif(subprocess.call(["which", "strace"],
                                    stdout=subprocess.DEVNULL) != 0,
                    reason="no strace here")
def test_live(tmp_path):
    """A real log of this machine's strace parses whole, and bytes agree."""
    log = tmp_path / "log"
    got = subprocess.run(
        sm.command(log) + ["sh", "-c", "seq 20000 | sort -n | tail -n 1"],
        stdout=subprocess.PIPE, check=True, text=True)
    assert got.stdout == "20000\n"
    m = sm.load(log)
    assert not m.notes
    assert [p.comm.rsplit("/", 1)[1] for p in m.procs.values()] == \
        ["sh", "seq", "sort", "tail"]
    total = m.bytes_by_end()
    pipes = sorted({key for key, _ in total if key[0] == "pipe"})
    inner = [k for k in pipes if (k, "recv") in total]
    assert len(inner) == 2
    for key in inner:
        assert total[key, "send"] == total[key, "recv"] == 108894
    for op in m.of_kind("recv"):
        assert op.src is not None or op.key not in inner
    assert sum(1 for _ in m.of_kind("eof")) >= 2


# ---- the comparison itself ------------------------------------------------

def seen_by(m):
    """A View that agrees with the model in everything."""
    view = sc.View()
    view.pid_of = dict(m.pid_of)
    view.parent = {p: q.ppid for p, q in m.procs.items()}
    for tid, forks in m.forks.items():
        for k, (child, _, _) in enumerate(forks):
            view.born[child] = (tid, k)
    view.joins = {t: [c for c, _ in j] for t, j in m.joins.items()}
    for tid, ops in m.ops.items():
        for op in ops:
            src = None
            if op.kind in ("recv", "accept") and op.src is not None:
                outs = [o for o in m.ops[op.src.tid]
                        if o.kind in ("send", "connect")]
                src = (op.src.tid, outs.index(op.src))
            elif op.kind == "eof" and op.src is not None:
                src = (op.src.pid,)
            view.ops.setdefault(tid, []).append(
                sc.ViewOp(op.kind, op.bytes, "name of %s" % (op.key,), src))
    return view


def test_compare_equal():
    m = model(PIPELINE)
    result = sc.compare(m, seen_by(m))
    assert result.differences == []
    assert result.arcs == {"process": 3, "recv": 3, "eof": 1, "start": 2,
                           "join": 2}
    assert result.ends == 2 and result.total_bytes == 26


def spoil_arc(view):
    view.ops[12][2].src = (11, 0)


def spoil_eof(view):
    view.ops[12][3].src = (10,)


def spoil_lost_send(view):
    del view.ops[11][1]


def spoil_bytes(view):
    view.ops[11][1].bytes = 4


def spoil_extra(view):
    view.ops[11].append(sc.ViewOp("send", 1, "name of ('pipe', 70)"))


def spoil_channel(view):
    view.ops[12][1].channel = "another"


def spoil_process(view):
    del view.parent[11]


def spoil_parent(view):
    view.parent[12] = 11


def spoil_birth(view):
    view.born[12] = (10, 0)


def spoil_join(view):
    view.joins[10].reverse()


@pytest.mark.parametrize("spoil", [
    spoil_arc, spoil_eof, spoil_lost_send, spoil_bytes, spoil_extra,
    spoil_channel, spoil_process, spoil_parent, spoil_birth, spoil_join])
def test_compare_sees_each_error(spoil):
    m = model(PIPELINE)
    view = seen_by(m)
    spoil(view)
    assert sc.compare(m, view).differences, spoil.__name__


@pytest.mark.parametrize("how, missing", [
    ("12 exit(0) = ?", True), ("", False),
    ('12 write(4<pipe:[70]>, "bc", 2) = 2 <0.1>', True)])
def test_compare_forgives_the_call_of_a_thread_that_was_ended(how, missing):
    """Its record may not have been written; what came before, or before an end of
    its own, must be there."""
    m = model(f"""
10 execve("/bin/a", ["a"], 0x1) = 0 <0.1>
10 pipe2([3<pipe:[70]>, 4<pipe:[70]>], 0) = 0 <0.1>
10 clone(child_stack=0x1, flags=CLONE_VM|CLONE_THREAD|CLONE_FILES|CLONE_SETTLS) = 12 <0.1>
12 write(4<pipe:[70]>, "a", 1) = 1 <0.1>
{how}
10 exit_group(0) = ?
12 +++ exited with 0 +++
10 +++ exited with 0 +++
""".replace("\n\n", "\n"))
    view = seen_by(m)
    del view.ops[12][0]
    assert bool(sc.compare(m, view).differences) == missing


def test_broken_pipe():
    """A write that fails hangs on the reader's last close; one that kills its
    caller is no operation, for nothing runs after it."""
    m = model("""
10 execve("/bin/a", ["a"], 0x1) = 0 <0.1>
10 pipe2([3<pipe:[70]>, 4<pipe:[70]>], 0) = 0 <0.1>
10 fork() = 11 <0.1>
10 close(3<pipe:[70]>) = 0 <0.1>
11 exit_group(0) = ?
11 +++ exited with 0 +++
10 write(4<pipe:[70]>, "a", 1) = -1 EPIPE (Broken pipe) <0.1>
10 write(4<pipe:[70]>, "a", 1) = -1 EPIPE (Broken pipe) <0.1>
10 --- SIGPIPE {si_signo=SIGPIPE, si_code=SI_USER, si_pid=10} ---
10 +++ killed by SIGPIPE +++
""")
    (broken,) = m.ops[10]
    assert broken.kind == "broken" and broken.src.pids == {11}


def test_thread_that_never_ran():
    """The process ends while one of its threads makes another."""
    m = model("""
10 execve("/bin/a", ["a"], 0x1) = 0 <0.1>
10 clone(child_stack=0x1, flags=CLONE_VM|CLONE_THREAD|CLONE_SETTLS) = 11 <0.1>
11 clone(child_stack=0x1, flags=CLONE_VM|CLONE_THREAD <unfinished ...>
10 exit_group(0) = ?
11 <... clone resumed> <unfinished ...>) = ?
12 +++ exited with 0 +++
11 +++ exited with 0 +++
10 +++ exited with 0 +++
""")
    assert m.pid_of == {10: 10, 11: 10} and list(m.procs) == [10]


def test_compare_sees_room_and_vfork():
    m = model("""
10 execve("/bin/a", ["a"], 0x1) = 0 <0.1>
10 pipe2([3<pipe:[70]>, 4<pipe:[70]>], 0) = 0 <0.1>
10 vfork( <unfinished ...>
11 execve("/bin/b", ["b"], 0x1) = 0 <0.1>
10 <... vfork resumed>) = 11 <0.1>
10 write(4<pipe:[70]>, "ab"..., 70000 <unfinished ...>
11 read(3<pipe:[70]>, "ab"..., 65536) = 65536 <0.1>
10 <... write resumed>) = 70000 <0.1>
10 close(4<pipe:[70]>) = 0 <0.1>
11 read(3<pipe:[70]>, "ab"..., 65536) = 4000 <0.1>
11 read(3<pipe:[70]>, "ab"..., 65536) = 464 <0.1>
""")
    view = seen_by(m)
    view.returns = {(10, 0): 11}
    view.rooms = [((10, 0), (11, 0))]
    assert sc.compare(m, view).differences == []
    view.rooms = [((10, 0), (11, 1))]  # may have been called before the send returned
    assert sc.compare(m, view).differences == []
    view.rooms = [((10, 0), (11, 2))]  # was called when the send had returned
    assert len(sc.compare(m, view).differences) == 1
    view.rooms, view.returns = [], {}
    assert len(sc.compare(m, view).differences) == 1
