"""What a program did, from `strace -f` alone.

The independent observer of the matching tests: it knows nothing of IPS, reads
the log that strace wrote of one execution and says which processes and threads
there were, how many bytes went through each end of each channel, and for every
receive which send, close or connect it depends on.

Written from the manual of strace(1) and the kernel's documented semantics, not
from the slave's source: an oracle that shared code with it would share its
mistakes.

Use:
    strace_model.command(log) + [program...]     # how to call strace
    model = strace_model.load(log)

Order is strace's own: a call lies between the line where it was entered and the
line where it returned. Two operations on one end by different threads whose
lines overlap cannot be ordered by strace; what depends on their order is marked
`ambiguous` and left out of comparisons, counted.
"""

import os
import re

from strace_fds import FD as _FD, Descriptors
from strace_log import Call, Death, ParseError, SYSCALLS, command, parse
from strace_types import Model, Object, Op, Proc, Release

__all__ = ["Call", "Death", "Model", "Op", "ParseError", "Proc", "Release",
           "SYSCALLS", "build", "command", "load", "parse"]


# ---- calls -> model ------------------------------------------------------

_RECV = {"read", "readv", "preadv", "preadv2", "recvfrom", "recvmsg",
         "recvmmsg"}
_SEND = {"write", "writev", "pwritev", "pwritev2", "sendto", "sendmsg",
         "sendmmsg", "vmsplice"}
_CREATE = {"clone", "clone3", "fork", "vfork"}


class _Builder(Descriptors):
    def __init__(self, items):
        super().__init__()
        self.items = items
        self.model = Model()
        self.writes = {}     # key of the writing end -> [Op]
        self.reads = {}      # Object that reads -> [Op]
        self.accepts = []
        self.creator = {}    # child tid -> Call
        self.counts = {}     # (tid, kind) -> ordinal
        self.sigpipe = {}    # tid -> the call that its death ended
        self.dying = {}      # pid -> Release of its exit
        self.last_call = {}  # tid -> its last call that returned; None: exit

    # -- order

    def build(self):
        actions = []
        last = {}
        for item in self.items:
            if isinstance(item, Death):
                if item.status == ("signal", "SIGPIPE"):
                    self.sigpipe[item.tid] = last.get(item.tid)
            else:
                last[item.tid] = item
            if isinstance(item, Death):
                actions.append(((item.line, 0), self.on_death, item))
                continue
            if item.name in _CREATE and item.ret is not None and item.ret > 0:
                self.creator[item.ret] = item
            actions.append(((item.enter, 0), self.on_enter, item))
            if item.leave is not None:
                actions.append(((item.leave, 1), self.on_leave, item))
        actions.sort(key=lambda a: a[0])
        for (line, _), action, item in actions:
            self.line = line
            action(item)
        self.match()
        return self.model

    # -- processes and threads

    def ensure(self, tid):
        """First sight of a thread: its creator says what it is."""
        if tid in self.model.pid_of:
            return
        call = self.creator.get(tid)
        if call is None:  # started by strace
            self.tables[tid] = {}
            self.new_proc(tid, None)
            return
        self.ensure(call.tid)
        parent = self.model.pid_of[call.tid]
        flags = call.args
        if "CLONE_THREAD" in flags:
            self.model.pid_of[tid] = parent
            self.model.procs[parent].threads.append(tid)
        else:
            proc = self.new_proc(tid, call)
            proc.ppid = parent
            proc.how = "vfork" if (call.name == "vfork" or
                                   "CLONE_VFORK" in flags) else "fork"
            proc.comm = self.model.procs[parent].comm
        if "CLONE_FILES" in flags:
            self.tables[tid] = self.tables[call.tid]
        else:
            self.tables[tid] = {fd: list(entry) for fd, entry
                                in self.tables[call.tid].items()}
            for obj, _ in self.tables[tid].values():
                obj.refs += 1

    def new_proc(self, pid, call):
        proc = Proc(pid)
        proc.start = self.line
        if call is not None:
            proc.by_tid = call.tid
        if pid in self.model.procs:
            self.model.notes.append("pid %d was used twice" % pid)
        self.model.procs[pid] = proc
        self.model.pid_of[pid] = pid
        return proc

    # -- calls

    def on_enter(self, call):
        self.ensure(call.tid)
        tid = call.tid
        pid = self.model.pid_of[tid]
        if call.name == "close" and call.ret == 0:
            fd, text = self.fd(call.args)
            self.lookup(tid, fd, text)
            self.drop(tid, fd, self.release(call, "close"))
        elif call.name == "shutdown" and call.ret == 0:
            obj = self.lookup(tid, *self.fd(call.args))
            if obj is not None and ("SHUT_WR" in call.args or
                                    "SHUT_RDWR" in call.args):
                self.end_sending(obj, self.release(call, "shutdown"))
        elif call.name in ("exit_group", "exit"):
            self.last_call[tid] = None
            if call.name == "exit_group" or \
                    len(self.model.procs[pid].threads) == 1:
                self.leave_process(pid, self.release(call, "exit"))
        elif call.name == "connect" and self.connected(call):
            # At entry: the other side may accept before we return.
            obj = self.lookup(tid, *self.fd(call.args))
            if obj is not None and obj.connect is None and \
                    obj.kind in ("tcp", "unix"):
                obj.connect = self.op(call, "connect", obj, 0)
                self.bind_connected(call, obj)

    def bind_connected(self, call, obj):
        """A TCP socket that was bound first: strace shows its own address for
        good, so the peer is the one that it was connected to."""
        m = re.match(r"\d+<TCP:\[([0-9.]+:\d+)\]>, .*sin_port=htons\((\d+)\),"
                     r' sin_addr=inet_addr\("([0-9.]+)"\)', call.args)
        if m and not m.group(1).startswith("0.0.0.0:"):
            self.bind(obj, self.identify("TCP:[%s->%s:%s]" % (
                m.group(1), m.group(3), m.group(2))))

    @staticmethod
    def connected(call):
        return call.ret == 0 or call.err == "EINPROGRESS"

    @staticmethod
    def fd(args):
        m = _FD.match(args)
        return (int(m.group(1)), m.group(2)) if m else (-1, None)

    def release(self, call, how):
        """It closes from where the thread was seen last before the call: IPS
        orders closes by stamps taken before them."""
        first = call.since
        if first is None:
            creator = self.creator.get(call.tid)
            first = creator.enter if creator else call.enter
        return Release(call.tid, self.model.pid_of[call.tid], first,
                       call.leave if call.leave is not None else float("inf"),
                       how)

    def leave_process(self, pid, release):
        proc = self.model.procs[pid]
        # Descriptors close somewhere between exit_group and the end.
        release = self.dying.setdefault(pid, release)
        release.last = float("inf")
        seen = set()
        for tid in proc.threads:
            table = self.tables.get(tid, {})
            if id(table) in seen:
                continue
            seen.add(id(table))
            for fd in list(table):
                self.drop(tid, fd, release)

    def on_death(self, death):
        if death.tid not in self.model.pid_of and death.tid not in self.creator:
            return  # made by a call that never returned, and never ran
        self.ensure(death.tid)
        pid = self.model.pid_of[death.tid]
        proc = self.model.procs[pid]
        last = self.last_call.get(death.tid)
        if last:
            self.model.cut[death.tid] = last
        if death.status[0] == "exec":
            return
        if death.tid == pid:
            proc.status, proc.end = death.status, death.line
            self.leave_process(pid, Release(pid, pid, death.line, death.line,
                                            "death"))
            self.dying[pid].last = death.line

    def on_leave(self, call):
        name, tid = call.name, call.tid
        self.ensure(tid)
        self.last_call[tid] = call
        pid = self.model.pid_of[tid]
        if name in _CREATE:
            if call.ret is not None and call.ret > 0:
                self.ensure(call.ret)
                forks = self.model.forks.setdefault(tid, [])
                child = self.model.procs.get(call.ret)
                if child is not None:
                    child.fork_k = len(forks)
                forks.append((call.ret, "CLONE_THREAD" in call.args, call))
            return
        if call.err in ("EPIPE", "ECONNRESET") and (name in _RECV or
                                                    name in _SEND):
            self.on_broken(call)
        if call.ret is None or (call.ret < 0 and name != "connect"):
            return
        if name in ("wait4", "waitid"):
            self.on_wait(call)
        elif name in ("execve", "execveat"):
            self.on_exec(call, pid)
        elif name in ("pipe", "pipe2"):
            self.on_pair(call, ("r", "w"))
        elif name == "socketpair":
            self.on_pair(call, (None, None))
        elif name == "socket":
            self.on_socket(call)
        elif name in ("accept", "accept4"):
            self.on_accept(call)
        elif name in ("dup", "dup2", "dup3"):
            self.on_dup(call, "O_CLOEXEC" in call.args)
        elif name == "fcntl":
            self.on_fcntl(call)
        elif name == "ioctl":
            if "FIOCLEX" in call.args or "FIONCLEX" in call.args:
                self.set_cloexec(call, "FIOCLEX" in call.args)
        elif name == "close_range":
            self.on_close_range(call, pid)
        elif name == "connect" and call.ret == 0:
            self.lookup(tid, *self.fd(call.args))
        elif name in _RECV or name in _SEND:
            self.on_transfer(call)
        elif name in ("sendfile", "splice", "tee"):
            self.on_splice(call)
        elif name in ("mknod", "mknodat"):
            m = re.search(r'(?:AT_FDCWD<(/[^>]*)>, )?"([^"]*)", S_IFIFO',
                          call.args)
            if m:
                self.fifos.add(os.path.normpath(
                    os.path.join(m.group(1) or "/", m.group(2))))
        elif name in ("open", "openat"):
            self.on_open(call)
        elif name == "getsockname":
            self.lookup(tid, *self.fd(call.args))

    def on_wait(self, call):
        child = call.ret
        if call.name == "waitid":
            m = re.search(r"si_pid=(\d+)", call.args)
            child = int(m.group(1)) if m else 0
            if "WNOWAIT" in call.args:
                return
        elif "WIFSTOPPED" in call.args or "WIFCONTINUED" in call.args:
            return
        if child > 0:
            self.model.joins.setdefault(call.tid, []).append((child, call))
            if child in self.model.procs:
                self.model.procs[child].waited_by = call.tid

    def on_exec(self, call, pid):
        proc = self.model.procs[pid]
        # Threads die in exec and the table is no longer shared.
        table = {fd: entry for fd, entry in self.tables[call.tid].items()}
        self.tables[call.tid] = table
        proc.threads = [pid]
        release = self.release(call, "exec")
        for fd in [fd for fd, entry in table.items() if entry[1]]:
            self.drop(call.tid, fd, release)
        m = re.search(r'"([^"]*)"', call.args)
        proc.comm = m.group(1) if m else "?"
        proc.execs.append(proc.comm)
        proc.exec_lines.append(call.leave)

    def on_pair(self, call, sides):
        # pipe2([3<pipe:[7]>, 4<pipe:[7]>], O_CLOEXEC)
        cloexec = "CLOEXEC" in call.args
        found = [m for m in _FD.finditer(call.args[call.args.rfind(", [") + 1
                 if call.name == "socketpair" else 0:]) if m.group(2)]
        if len(found) < 2:
            self.model.notes.append("line %d: %s without its descriptors: %s"
                                    % (call.leave + 1, call.name, call.args))
            return
        for m, side in zip(found[:2], sides):
            named = self.identify(m.group(2))
            if named is None:
                continue
            if named[0] == "pipe":
                self.objects[named[1] + (side,)] = Object("pipe", side,
                                                          named[1])
                obj = self.objects[named[1] + (side,)]
            else:
                obj = self.socket_object(call, named)
            self.put(call.tid, int(m.group(1)), obj, cloexec)

    def on_open(self, call):
        """Descriptors of a FIFO's side are one end, whoever opened them."""
        named = self.identify(call.retfd[1:-1]) if call.retfd else None
        if named is None:
            self.drop(call.tid, call.ret, None)
            return
        side = "w" if "O_WRONLY" in call.args else "r"
        if "O_RDWR" in call.args:
            self.model.notes.append("line %d: a FIFO opened both ways"
                                    % (call.leave + 1))
        self.put(call.tid, call.ret, self.find(named, side),
                 "O_CLOEXEC" in call.args)

    def on_socket(self, call):
        named = self.identify(call.retfd[1:-1]) if call.retfd else None
        if named is None:
            self.drop(call.tid, call.ret, None)
            return
        self.put(call.tid, call.ret, self.socket_object(call, named),
                 "SOCK_CLOEXEC" in call.args)

    def socket_object(self, call, named):
        """strace's name says UNIX for datagrams and packets alike."""
        obj = Object("dgram" if "SOCK_DGRAM" in call.args else named[0])
        self.bind(obj, named)
        return obj

    def on_accept(self, call):
        named = self.identify(call.retfd[1:-1]) if call.retfd else None
        if named is None:
            return
        obj = Object(named[0])
        self.bind(obj, named)
        self.put(call.tid, call.ret, obj, "SOCK_CLOEXEC" in call.args)
        self.accepts.append((self.op(call, "accept", obj, 0), obj))

    def on_dup(self, call, cloexec):
        fd, text = self.fd(call.args)
        obj = self.lookup(call.tid, fd, text)
        if call.ret == fd:
            return
        release = self.release(call, "dup over")
        self.drop(call.tid, call.ret, release)
        if obj is not None:
            self.put(call.tid, call.ret, obj, cloexec)

    def on_fcntl(self, call):
        if "F_DUPFD" in call.args:
            self.on_dup(call, "F_DUPFD_CLOEXEC" in call.args)
        elif "F_SETFD" in call.args:
            self.set_cloexec(call, "FD_CLOEXEC" in call.args)

    def set_cloexec(self, call, on):
        fd, text = self.fd(call.args)
        self.lookup(call.tid, fd, text)
        entry = self.tables[call.tid].get(fd)
        if entry is not None:
            entry[1] = on

    def on_close_range(self, call, pid):
        m = re.match(r"(\d+)[^,]*, (\d+)", call.args)
        if not m:
            return
        table = self.tables[call.tid]
        release = self.release(call, "close")
        for fd in [fd for fd in table
                   if int(m.group(1)) <= fd <= int(m.group(2))]:
            if "CLOSE_RANGE_CLOEXEC" in call.args:
                table[fd][1] = True
            else:
                self.drop(call.tid, fd, release)

    # -- transfers

    def op(self, call, kind, obj, nbytes):
        pid = self.model.pid_of[call.tid]
        op = Op(call.tid, pid, kind, obj.key, nbytes, call.enter, call.leave,
                call)
        op.image = len(self.model.procs[pid].execs)
        op.stream = obj.kind != "dgram"
        slot = (call.tid, kind)
        op.k = self.counts.get(slot, 0)
        self.counts[slot] = op.k + 1
        self.model.ops.setdefault(call.tid, []).append(op)
        return op

    def on_transfer(self, call):
        name = call.name
        obj = self.lookup(call.tid, *self.fd(call.args))
        received = name in _RECV or (name == "vmsplice" and obj is not None
                                     and obj.side == "r")
        if "SCM_RIGHTS" in call.args and received:
            self.on_rights(call)
        if obj is None or obj.key is None:
            return
        if received and "MSG_PEEK" in call.args:
            return
        nbytes = call.ret
        if name in ("recvmmsg", "sendmmsg"):
            nbytes = sum(int(n) for n in
                         re.findall(r"msg_len=(\d+)", call.args))
        if received:
            self.receive(call, obj, nbytes)
        elif nbytes > 0:
            self.send(call, obj, nbytes)

    def on_broken(self, call):
        obj = self.lookup(call.tid, *self.fd(call.args))
        if obj is None or obj.key is None or \
                self.sigpipe.get(call.tid) == call:
            return
        op = self.op(call, "broken", obj, 0)
        other = self.sender_object(obj) if obj.kind != "pipe" else \
            self.objects.get(obj.key + ("r",))
        if other is not None and other.gone is not None:
            op.src = other.gone
        elif other is not None:
            other.broken.append(op)

    def on_rights(self, call):
        m = re.search(r"cmsg_type=SCM_RIGHTS, cmsg_data=\[(.*?)\]\}", call.args)
        if not m:
            return
        for fd in _FD.finditer(m.group(1)):
            if fd.group(2):
                named = self.identify(fd.group(2))
                if named is not None:
                    self.put(call.tid, int(fd.group(1)), self.find(named),
                             "MSG_CMSG_CLOEXEC" in call.args)

    def on_splice(self, call):
        """sendfile(out, in, ...), splice(in, off, out, ...), tee(in, out)"""
        args = call.args
        parts = [m for m in re.finditer(r"(?:^|, )" + _FD.pattern, args)]
        fds = [(int(m.group(1)), m.group(2)) for m in parts]
        if call.name == "sendfile":
            out, into = fds[0], fds[1]
        elif call.name == "tee":
            into, out = None, fds[1]
        else:
            into = fds[0]
            # the offset between may be NULL or [n]: take the next decorated
            rest = [f for f in fds[1:] if f[1] is not None]
            out = rest[0] if rest else (-1, None)
        if into is not None:
            obj = self.lookup(call.tid, *into) if into[1] else None
            if obj is not None and obj.key is not None:
                self.receive(call, obj, call.ret)
        obj = self.lookup(call.tid, *out) if out[1] else None
        if obj is not None and obj.key is not None and call.ret > 0:
            self.send(call, obj, call.ret)

    def send(self, call, obj, nbytes):
        op = self.op(call, "send", obj, nbytes)
        self.writes.setdefault(obj.key, []).append(op)

    def receive(self, call, obj, nbytes):
        if nbytes == 0:
            m = re.search(r", (\d+)$", call.args) if call.name == "read" \
                else None
            if (m and int(m.group(1)) == 0) or obj.kind == "dgram":
                return
            op = self.op(call, "eof", obj, 0)
            writer = self.sender_object(obj)
            if writer is None:
                return
            if writer.released is not None:
                op.src = writer.released
            else:
                writer.eofs.append(op)
            return
        op = self.op(call, "recv", obj, nbytes)
        self.reads.setdefault(obj, []).append(op)

    def sender_object(self, obj):
        if obj.kind == "pipe":
            return self.objects.get(obj.key + ("w",))
        if obj.peer is None:
            return None
        slot = obj.peer[:3] if obj.kind == "tcp" else obj.peer
        return self.objects.get(slot)

    # -- arcs

    def match(self):
        for obj, reads in self.reads.items():
            # The peer is looked up last: a receive may begin before the other
            # side has accepted, when strace cannot name it yet.
            key = obj.key if obj.kind == "pipe" else obj.peer
            if key is None or not reads[0].stream:
                continue
            writes = self.writes.get(key, [])
            self.position(writes)
            self.position(reads)
            at = 0
            for op in reads:
                while at < len(writes) and writes[at].end_pos < op.end_pos:
                    at += 1
                if at < len(writes):
                    op.src = writes[at]
                    op.ambiguous = op.ambiguous or writes[at].ambiguous
        connects = {}
        for ops in self.model.ops.values():
            for op in ops:
                if op.kind == "connect" and op.key is not None:
                    connects[op.key] = op
        for op, obj in self.accepts:
            if obj.peer is not None:
                op.src = connects.get(obj.peer)

    @staticmethod
    def position(ops):
        """Running byte positions; an operation that overlaps another thread's
        on the same end could have come before or after it. It lasts till the
        thread is next seen: IPS orders by stamps taken after the return."""
        ops.sort(key=lambda op: op.last)
        total = 0
        for i, op in enumerate(ops):
            total += op.bytes
            op.end_pos = total
            for other in ops[max(0, i - 64):i]:
                if other.tid != op.tid and other.call.until > op.first:
                    op.ambiguous = other.ambiguous = True


def build(items):
    return _Builder(items).build()


def load(path):
    with open(path, errors="surrogateescape") as f:
        return build(parse(f))
