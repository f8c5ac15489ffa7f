"""Lines of a log of `strace -f -ttt -T -yy` -> calls and deaths."""

import re

SYSCALLS = (
    "read,readv,preadv,preadv2,write,writev,pwritev,pwritev2,"
    "sendto,sendmsg,sendmmsg,recvfrom,recvmsg,recvmmsg,sendfile,splice,tee,"
    "vmsplice,open,openat,mknod,mknodat,socket,socketpair,pipe,pipe2,"
    "connect,accept,accept4,shutdown,"
    "close,close_range,dup,dup2,dup3,fcntl,ioctl,getsockname,"
    "clone,clone3,fork,vfork,execve,execveat,exit,exit_group,wait4,waitid,"
    "rt_sigreturn")


def command(log):
    """argv prefix that writes what load() reads. `-s 8` also limits arrays:
    less would hide pipe2's descriptors; -yy names every descriptor."""
    return ["strace", "-f", "-ttt", "-T", "-yy", "-s", "8", "-o", str(log),
            "-e", "trace=" + SYSCALLS]


# ---- lines -> calls ------------------------------------------------------

class Call:
    """One system call of one thread. `enter` and `leave` are line numbers,
    `leave` None where it never returned; `ret` None then too. `until` is the
    line of the thread's next doing: in between it runs in user space, where IPS
    takes its stamp of the return, and nothing says when. `since` is the line
    where the thread was seen last before, None at its first call: the stamp of
    the entry lies in between. A signal handler may run in both gaps, so its
    calls are passed over."""
    __slots__ = ("tid", "name", "args", "ret", "retfd", "err", "since",
                 "enter", "leave", "until", "time")

    def __init__(self, tid, name, enter, time):
        self.tid, self.name, self.enter, self.time = tid, name, enter, time
        self.args, self.ret, self.retfd, self.err = "", None, None, None
        self.leave = self.since = None
        self.until = float("inf")


class Death:
    """A thread is gone. status: ("exit", n), ("signal", name), ("exec", n)"""
    __slots__ = ("tid", "line", "status")

    def __init__(self, tid, line, status):
        self.tid, self.line, self.status = tid, line, status


_LINE = re.compile(r"^(\d+)\s+(\d+\.\d+)\s(.*)$")
_RESUMED = re.compile(r"^<\.\.\. (\w+) resumed>(.*)$", re.S)
_START = re.compile(r"^(\w+)\((.*)$", re.S)
_RESULT = re.compile(r"^(.*)\)\s+= (\?|-?\d+|0x[0-9a-f]+)(<.*?>)?"
                     r"(?: ([A-Z][A-Z0-9_]+)\b.*?)?(?: \(.*\))?"
                     r"(?: <(?:\d+\.\d+|unavailable)>)?$", re.S)
_DEATH = re.compile(r"^\+\+\+ (exited with (\d+)|killed by (\w+).*|"
                    r"superseded by execve in pid (\d+)) \+\+\+$")
_UNFINISHED = re.compile(r"^(.*?)\s*<unfinished \.\.\.>(?:\)\s+= \?)?$", re.S)


class ParseError(Exception):
    pass


def parse(lines):
    """Lines of `strace -f -ttt -T -o` -> list of Call and Death, in order of
    their first line."""
    out = []
    last = {}       # tid -> its Call before
    handlers = {}   # tid -> its Call before each signal, the outermost first
    open_call = {}  # tid -> Call waiting for its `resumed`
    for number, line in enumerate(lines):
        line = line.rstrip("\n")
        m = _LINE.match(line)
        if not m:
            if line.strip():
                raise ParseError("line %d: %r" % (number + 1, line[:200]))
            continue
        tid, time, rest = int(m.group(1)), float(m.group(2)), m.group(3)
        if rest.startswith("---"):
            handlers.setdefault(tid, []).append(last.get(tid))
            continue
        if rest.startswith(("???", "<... ??? ", "<... rt_sigreturn ")):
            continue  # the 2nd: a thread killed as it entered a call
        if rest.startswith("rt_sigreturn("):
            before = handlers.get(tid) and handlers[tid].pop()
            if before is not None:
                last[tid] = before
            continue
        death = _DEATH.match(rest)
        if death:
            if death.group(2) is not None:
                status = ("exit", int(death.group(2)))
            elif death.group(3) is not None:
                status = ("signal", death.group(3))
            else:
                status = ("exec", int(death.group(4)))
            open_call.pop(tid, None)
            if tid in last:
                last[tid].until = number
            out.append(Death(tid, number, status))
            continue
        resumed = _RESUMED.match(rest)
        if resumed:
            call = open_call.pop(tid, None)
            if call is None or call.name != resumed.group(1):
                # A thread that executed takes the leader's tid: its execve is
                # resumed there.
                call = _steal(open_call, resumed.group(1))
                if call is None:
                    raise ParseError("line %d: resumed without a start: %r"
                                     % (number + 1, line[:200]))
                call.tid = tid
            rest = resumed.group(2)
        else:
            start = _START.match(rest)
            if not start:
                raise ParseError("line %d: %r" % (number + 1, line[:200]))
            call = Call(tid, start.group(1), number, time)
            if tid in last:
                last[tid].until = number
                call.since = last[tid].leave
            last[tid] = call
            out.append(call)
            rest = start.group(2)
        unfinished = _UNFINISHED.match(rest)
        if unfinished:
            call.args += unfinished.group(1)
            open_call[tid] = call
            continue
        result = _RESULT.match(rest)
        if not result:
            raise ParseError("line %d: no result: %r"
                             % (number + 1, line[:200]))
        call.args += result.group(1)
        if result.group(2) != "?":
            call.ret = int(result.group(2), 0)
            call.retfd = result.group(3)
        call.err = result.group(4)
        call.leave = number
    return without_own_tables(out)


def without_own_tables(items):
    """Without the threads that IPS itself makes (agent/record/own_table.h): clones without
    thread-local variables of their own. The C library's have some."""
    def is_ours(call):
        return isinstance(call, Call) and call.name == "clone" and \
            "CLONE_THREAD" in call.args and "CLONE_SETTLS" not in call.args

    gone, alive = set(), {}
    for call in filter(is_ours, items):
        gone.add(id(call))
        if call.ret is not None and call.ret > 0:
            alive.setdefault(call.ret, []).append(call.enter)
    for item in items:
        line = item.line if isinstance(item, Death) else item.enter
        begun = alive.get(item.tid)
        if begun and line > begun[0]:
            gone.add(id(item))
            if isinstance(item, Death):
                begun.pop(0)
    return [item for item in items if id(item) not in gone]


def _steal(open_call, name):
    for tid, call in list(open_call.items()):
        if call.name == name == "execve":
            return open_call.pop(tid)
    return None
