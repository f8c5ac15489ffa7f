"""What strace_model.py builds: processes, transfers, closes."""


class Object:
    """An open file description that is an end of a channel.

    key: ("pipe", ino) | ("unix", ino) | ("tcp", local, remote, generation) |
         None until it is known (a socket that is not connected yet)
    A pipe has two objects, one a side, of equal key.
    """
    __slots__ = ("kind", "side", "key", "peer", "refs", "released", "gone",
                 "eofs", "broken",
                 "connect", "last_release", "closers")

    def __init__(self, kind, side=None, key=None):
        self.kind, self.side, self.key = kind, side, key
        self.peer = None      # key of the other end of a socket
        self.refs = 0         # descriptors in all tables
        self.released = None  # Release that ended the sending side
        self.gone = None      # Release of the last descriptor
        self.broken = []      # failed sends at the peer that await `gone`
        self.eofs = []        # end-of-file receives that await `released`
        self.connect = None   # Op of the connect
        self.last_release = None
        self.closers = set()  # pids that closed one of the descriptors


class Release:
    """Something that closed: line interval, process, how."""
    __slots__ = ("tid", "pid", "first", "last", "how", "pids", "before")

    def __init__(self, tid, pid, first, last, how):
        self.tid, self.pid, self.first, self.last = tid, pid, first, last
        self.how = how
        self.pids = {pid}  # more where strace cannot tell which was last
        self.before = set()  # that closed the same before


class Op:
    """One transfer. kind: send recv eof connect accept; broken: a call that
    failed because the other end was gone."""
    __slots__ = ("tid", "pid", "kind", "key", "bytes", "first", "last", "src",
                 "ambiguous", "k", "call", "stream", "end_pos", "image")

    def __init__(self, tid, pid, kind, key, nbytes, first, last, call):
        self.tid, self.pid, self.kind, self.key = tid, pid, kind, key
        self.bytes, self.first, self.last, self.call = nbytes, first, last, call
        self.src = None        # Op (send, connect) or Release (eof)
        self.ambiguous = False
        self.k = None          # ordinal among its thread's ops of this kind
        self.end_pos = None
        self.stream = True
        self.image = 0         # how many execs its process had done

    def __repr__(self):
        return "<%s %d.%d #%s %s %s lines %s-%s>" % (
            self.kind, self.pid, self.tid, self.k, self.key, self.bytes,
            self.first + 1, self.last + 1)


class Proc:
    __slots__ = ("pid", "ppid", "how", "comm", "execs", "exec_lines",
                 "status", "threads", "by_tid", "fork_k", "start", "end", "waited_by")

    def __init__(self, pid):
        self.pid = pid
        self.ppid = None      # None: strace started it
        self.how = None       # fork vfork clone (with CLONE_VM)
        self.comm = None
        self.execs = []       # programs, in order
        self.exec_lines = []  # where each execve returned
        self.status = None
        self.threads = [pid]
        self.by_tid = None    # thread that created it
        self.fork_k = None    # its ordinal among that thread's creations
        self.start = self.end = None
        self.waited_by = None


class Model:
    """The answer. Lists are in program order of each thread."""

    def __init__(self):
        self.procs = {}    # pid -> Proc
        self.pid_of = {}   # tid -> pid
        self.ops = {}      # tid -> [Op]
        self.forks = {}    # tid -> [(child id, is_thread, Call)]
        self.joins = {}    # tid -> [(child pid, Call)]
        self.cut = {}      # tid of a thread that another one, or a signal,
                           # ended -> its last call that returned
        self.notes = []    # what this parser could not follow

    def of_kind(self, kind):
        for ops in self.ops.values():
            for op in ops:
                if op.kind == kind:
                    yield op

    def bytes_by_end(self):
        """{(key, "send"|"recv"): bytes} of streams that moved any."""
        total = {}
        for ops in self.ops.values():
            for op in ops:
                if op.kind in ("send", "recv"):
                    slot = (op.key, op.kind)
                    total[slot] = total.get(slot, 0) + op.bytes
        return total
