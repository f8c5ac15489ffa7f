"""Reads the data pool's segments (agent/pool/format.h, docs/pool-format.md) without
IPS: a second reader of the same format, so that what the agent recorded can be
compared with strace before any daemon has touched it.

    view, facts = pool_reader.view(run_directory)
"""

import os
import socket
import struct

from strace_compare import View, ViewOp

MAGIC = 0x3147455353504900
(START, END, BLOCK, RESUME, ENTER, EXIT, SEND, RECV, RECVCALL, QUEUE, FORK,
 JOIN, EXEC, EXECFAIL, SAMPLE, COUNT, LOST, MARK, CHAN, CLOSE, DGRAM, THREADCPU,
 NAME, MODULE, STACK, ACQUIRE, RELEASE, KILL, SIGNAL, UNSEEN,
 ENTER_SHORT, EXIT_SHORT, MARK_SHORT, SEND_SHORT, RECV_SHORT,
 RUNDELAY, GUESSED, ACQUIRE_SHORT, RELEASE_SHORT, CALLS, PAGEFAULT) = range(1, 42)
NAMES = dict(enumerate(
    "START END BLOCK RESUME ENTER EXIT SEND RECV RECVCALL QUEUE FORK JOIN EXEC "
    "EXECFAIL SAMPLE COUNT LOST MARK CHAN CLOSE DGRAM THREADCPU NAME MODULE "
    "STACK ACQUIRE RELEASE KILL SIGNAL UNSEEN "
    "ENTER_SHORT EXIT_SHORT MARK_SHORT SEND_SHORT RECV_SHORT RUNDELAY "
    "GUESSED ACQUIRE_SHORT RELEASE_SHORT CALLS PAGEFAULT".split(),
    1))
RESERVED = 0xff
LOST_CAUSES = ["pool full", "quota", "nested", "torn", "no segment",
               "no channel", "6", "7"]
OP_CONNECT, OP_ACCEPT = 1, 2
BROKEN = (32, 104)  # EPIPE, ECONNRESET
KINDS = {1: "pipe", 2: "unix", 3: "dgram", 4: "tcp", 5: "udp", 6: "user",
         7: "unix listen", 8: "tcp listen"}


class Bad(Exception):
    pass


class Segment:
    def __init__(self, path):
        self.path = path
        with open(path, "rb") as f:
            self.data = f.read()
        if len(self.data) < 256:
            raise Bad("%s: short" % path)
        (magic, self.version, self.header, self.size, self.seq, self.pid,
         self.tid, self.pidns, self.image, self.stream, self.uid, self.flags,
         comm) = struct.unpack_from("<QIIIIIIQQQII16s", self.data, 0)
        if magic != MAGIC or self.version != 3 or self.header != 256:
            raise Bad("%s: magic %x version %d header %d"
                      % (path, magic, self.version, self.header))
        self.comm = comm.split(b"\0")[0].decode(errors="replace")
        self.clock = struct.unpack_from("<IIQQQ", self.data, 80)
        self.state, self.abandoned = struct.unpack_from("<II", self.data, 112)
        self.lost = struct.unpack_from("<8Q", self.data, 120)

    def records(self):
        """Short ones come as the ENTER, EXIT, MARK, SEND or RECV they are."""
        at = self.header
        long = mark = io = None
        texts = {}
        while at + 16 <= len(self.data):
            word, a, t = struct.unpack_from("<IIQ", self.data, at)
            if word == 0:
                return
            size = (word >> 8 & 0xff) * 8
            if word & 0xff != RESERVED:
                if size < 16 or at + size > len(self.data):
                    raise Bad("%s: bad record at %d: %08x"
                              % (self.path, at, word))
                r = Record(word & 0xff, a, t, self.data[at:at + size])
                r.late = r.kind == SAMPLE and bool(word >> 17 & 1)
                if r.kind in (ENTER, EXIT):
                    long = r
                elif r.kind in (ENTER_SHORT, EXIT_SHORT):
                    r = self.whole(r, long)
                elif r.kind in (SEND, RECV):
                    io = r
                elif r.kind in (SEND_SHORT, RECV_SHORT):
                    r = self.whole_io(r, io, word)
                elif r.kind == MARK and word >> 18 & 0x3f:
                    mark = r
                    texts[word >> 18 & 0x3f] = r.data[24:]
                elif r.kind == MARK_SHORT:
                    if mark is None or r.t < mark.t or a not in texts:
                        raise Bad("%s: a short mark with no long one before it"
                                  % self.path)
                    r = Record(MARK, 0, r.t, bytes(16) + struct.pack(
                        "<Q", self.cpu_on(mark.t, mark.cpu, r.t)) + texts[a])
                if r.kind != SAMPLE or r.frames:  # else: they begin here
                    yield r
            elif size < 16:
                raise Bad("%s: bad reservation at %d" % (self.path, at))
            at += size

    def cpu_on(self, t0, cpu0, t):
        since = t - t0
        if self.clock[0] == 1:
            since = since * self.clock[4] >> 32
        return cpu0 + since

    def whole_io(self, r, io, word):
        if io is None or r.t < io.t_ret:
            raise Bad("%s: a short send or receive with no long one before it"
                      % self.path)
        took, result, site = struct.unpack_from("<IIQ", r.data, 16)
        cpu = [self.cpu_on(io.t_ret, io.cpu_ret, t)
               for t in (r.t, r.t + took)]
        return Record(SEND if r.kind == SEND_SHORT else RECV, r.a, r.t,
                      bytes(16) + struct.pack(
                          "<QQQqQHHI", r.t + took, *cpu, result, site,
                          word >> 18 & 0x1f, 0, 0))

    def whole(self, r, long):
        if long is None or r.t < long.t:
            raise Bad("%s: a short entry or exit with no long one before it"
                      % self.path)
        return Record(ENTER if r.kind == ENTER_SHORT else EXIT, 0, r.t,
                      bytes(16) + struct.pack(
                          "<QQ", self.cpu_on(long.t, long.cpu, r.t),
                          long.procedure >> 32 << 32 | r.a))


class Record:
    def __init__(self, kind, a, t, data):
        self.kind, self.a, self.t, self.data = kind, a, t, data
        if kind in (SEND, RECV, RECVCALL, BLOCK):
            (self.t_ret, self.cpu, self.cpu_ret, self.result, self.site,
             self.op, self.err, self.ready) = \
                struct.unpack_from("<QQQqQHHI", data, 16)
        elif kind == START:
            self.cpu, self.fork_seq, self.ppid, self.ptid, self.parent = \
                struct.unpack_from("<QQIIQ", data, 16)
        elif kind == END:
            self.cpu, self.status = struct.unpack_from("<QQ", data, 16)
        elif kind == FORK:
            (self.t_ret, self.cpu, self.cpu_ret, self.fork_seq, self.how,
             self.err) = struct.unpack_from("<QQQQII", data, 16)
        elif kind == JOIN:
            (self.t_ret, self.cpu, self.cpu_ret, self.seq, self.child_cpu,
             self.status, self.how) = struct.unpack_from("<QQQQQII", data, 16)
        elif kind == CHAN:
            self.fd, self.chan, self.side, self.flags = \
                struct.unpack_from("<IBBB", data, 16)
            (self.dev, self.ino, self.peer_ino, self.cookie, self.netns,
             self.sent_before, self.recv_before, self.name_hash,
             self.peer_pid) = struct.unpack_from("<8QI", data, 24)
            self.local = _address(data, 92)
            self.remote = _address(data, 112)
        elif kind == CLOSE:
            self.cpu, self.fd, self.how, self.sent, self.recv = \
                struct.unpack_from("<QIIQQ", data, 16)
        elif kind in (EXEC, EXECFAIL):
            self.cpu, = struct.unpack_from("<Q", data, 16)
            self.text = data[24:].split(b"\0")[0].decode(errors="replace")
        elif kind in (NAME, MARK):
            self.cpu, = struct.unpack_from("<Q", data, 16)
            self.text = data[24:].split(b"\0")[0].decode(errors="replace")
        elif kind in (THREADCPU, PAGEFAULT):
            self.cpu, = struct.unpack_from("<Q", data, 16)
        elif kind == RUNDELAY:
            self.delay, = struct.unpack_from("<Q", data, 16)
        elif kind == SAMPLE:
            self.cpu, self.period = struct.unpack_from("<QQ", data, 16)
            self.frames = struct.unpack_from("<%dQ" % a, data, 32)
        elif kind == STACK:
            self.frames = struct.unpack_from("<%dQ" % a, data, 16)
        elif kind == MODULE:
            self.start, self.end, self.bias = \
                struct.unpack_from("<QQQ", data, 16)
            self.build_id = data[40:40 + data[60]].hex()
            self.gone = data[61]
            self.text = data[64:64 + a].decode(errors="replace")
        elif kind in (ENTER, EXIT):
            self.cpu, self.procedure = struct.unpack_from("<QQ", data, 16)
        elif kind == COUNT:
            self.procedure, self.calls = struct.unpack_from("<QQ", data, 16)
        elif kind == LOST:
            self.count, = struct.unpack_from("<Q", data, 16)

    def channel_name(self):
        kind = KINDS.get(self.chan, str(self.chan))
        if kind in ("tcp", "udp"):
            return "%s %s-%s" % (kind, self.local, self.remote)
        return "%s %d" % (kind, self.ino)

    def __repr__(self):
        rest = {k: v for k, v in vars(self).items()
                if k not in ("kind", "data", "a", "t")}
        return "%s a=%d t=%d %s" % (NAMES.get(self.kind, self.kind), self.a,
                                    self.t, rest)


def _address(data, at):
    family, port = struct.unpack_from("<HH", data, at)
    raw = data[at + 4:at + 20]
    if family == 0:
        return "-"
    if raw[:12] == b"\0" * 10 + b"\xff\xff":
        return "%s:%d" % (socket.inet_ntop(socket.AF_INET, raw[12:]), port)
    return "[%s]:%d" % (socket.inet_ntop(socket.AF_INET6, raw), port)


def made(path):
    with open(path, "rb") as f:
        return any(f.read(8))


def streams(directory):
    """[(segments of one stream in order)], by start of the stream. Without those
    whose process ended while they were made: their magic is stored last."""
    found = {}
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        if name.endswith(".seg") and made(path):
            seg = Segment(path)
            found.setdefault((seg.stream, seg.pid, seg.tid, seg.image),
                             []).append(seg)
    return [sorted(found[key], key=lambda s: s.seq) for key in sorted(found)]


class Facts:
    def __init__(self):
        self.records = 0
        self.starts_cpu = []
        self.lost = {}
        self.cpu = {}        # pid -> CPU ns of its last records, all threads
        self.child_cpu = {}  # pid -> rusage by the parent's wait
        self.kinds = {}      # (pid, type) -> count


def view(directory):
    out, facts = View(), Facts()
    out.has_arcs = False
    forks = {}    # (pid, image, fork_seq) -> (tid, k)
    starts = []
    nameless, waits = [], []
    channels = {} # (pid, image, channel id) -> CHAN
    count = {}    # tid -> forks so far
    last = {}     # (pid, tid) -> greatest cpu
    for segments in streams(directory):
        first = segments[0]
        pid, tid = first.pid, first.tid
        out.pid_of[tid] = pid
        for seg in segments:
            for i, n in enumerate(seg.lost):
                if n:
                    cause = LOST_CAUSES[i]
                    facts.lost[cause] = facts.lost.get(cause, 0) + n
            for rec in seg.records():
                facts.records += 1
                slot = (pid, NAMES.get(rec.kind, "?"))
                facts.kinds[slot] = facts.kinds.get(slot, 0) + 1
                cpu = getattr(rec, "cpu_ret", getattr(rec, "cpu", 0))
                if rec.kind == THREADCPU:
                    last[pid, rec.a] = max(last.get((pid, rec.a), 0), cpu)
                else:
                    last[pid, tid] = max(last.get((pid, tid), 0), cpu)
                if rec.kind == START:
                    starts.append((pid, tid, rec))
                    facts.starts_cpu.append(rec.cpu if rec.a == 1 else 2**63)
                elif rec.kind == FORK and rec.err == 0:
                    k = count.get(tid, 0)
                    count[tid] = k + 1
                    forks[pid, first.image, rec.fork_seq] = (tid, k)
                    if rec.a:
                        out.born.setdefault(rec.a, (tid, k))
                    elif rec.how in (4, 5):  # popen, system
                        nameless.append((rec.t, pid, first.image,
                                         rec.fork_seq, tid, k))
                elif rec.kind == JOIN and rec.how in (1, 3):
                    waits.append((rec, pid, first.image, tid))
                elif rec.kind == CHAN:
                    channels[pid, first.image, rec.a] = rec
                elif rec.kind in (SEND, RECV) or \
                        (rec.kind == RECVCALL and rec.err in BROKEN):
                    out.ops.setdefault(tid, []).append(
                        (pid, first.image, rec))
    for pid, tid, rec in sorted(starts, key=lambda s: s[2].t):
        if rec.a == 1:
            out.parent[pid] = None
        elif rec.a in (2, 3):
            out.parent.setdefault(pid, rec.ppid)
        if rec.a in (2, 4):
            out.born.setdefault(tid, forks.get((rec.ppid or pid, rec.parent,
                                                rec.fork_seq)))
    # Children whose pid nobody learnt: by parent and order.
    named = {}
    for t, pid, image, seq, tid, k in sorted(nameless):
        for child, parent in out.parent.items():
            if parent == pid and child not in out.born:
                out.born[child] = (tid, k)
                named[pid, image, seq] = child
                break
    for rec, pid, image, tid in waits:
        child = rec.a or named.get((pid, image, rec.seq))
        if child:
            out.joins.setdefault(tid, []).append(child)
            facts.child_cpu[child] = rec.child_cpu
    for tid, ops in out.ops.items():
        out.ops[tid] = [op for op in (_op(o, channels) for o in ops)
                        if op is not None]
    for (pid, tid), cpu in last.items():
        facts.cpu[pid] = facts.cpu.get(pid, 0) + cpu
    return out, facts


def _op(item, channels):
    pid, image, rec = item
    chan = channels.get((pid, image, rec.a))
    name = chan.channel_name() if chan is not None else "channel %d" % rec.a
    kind = KINDS.get(chan.chan, "?") if chan is not None else "?"
    if kind in ("dgram", "udp"):
        return None
    label = "%s op %d err %d" % (NAMES[rec.kind], rec.op, rec.err)
    if rec.err in BROKEN and rec.op != OP_CONNECT:
        return ViewOp("broken", 0, name, None, label)
    if rec.kind == SEND:
        if rec.op == OP_CONNECT:
            return ViewOp("connect", 0, name, None, label)
        return ViewOp("send", rec.result, name, None, label) \
            if rec.result > 0 else None
    if rec.op == OP_ACCEPT:
        return ViewOp("accept", 0, name, None, label)
    return ViewOp("recv" if rec.result > 0 else "eof", max(rec.result, 0),
                  name, None, label)
