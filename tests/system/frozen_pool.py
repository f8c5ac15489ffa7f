"""Pools of runs that never ran, with every kind of record: told.py's threads, and
what its writer in C has no word for. Written here, by agent/pool/format.h's layout, so
that a run's pids, stamps, machine and command are the same wherever it is written.

    run = Frozen(cores=2, command="shop 3")
    main = run.root("shop")
    main.work(5 * MS)
    main.end()
    run.write(cluster, "shop")        # does not wait for the daemons
"""
import os
import struct

from told import MS, Told, Thread

BEGIN = 1_000_000_000  # stamp of a run's time 0
FIRST_PID = 5_000_000  # more than any kernel gives
REAL = 1_700_000_000_000_000_000  # created_real_ns of the first run
# agent/pool/events.def
(START, END, BLOCK, RESUME, ENTER, EXIT, SEND, RECV, RECVCALL, QUEUE, FORK,
 JOIN, EXEC, EXECFAIL, SAMPLE, COUNT, LOST, MARK, CHAN, CLOSE, DGRAM, THREADCPU,
 NAME, MODULE, STACK, ACQUIRE, RELEASE, KILL, SIGNAL, UNSEEN, ENTER_SHORT,
 EXIT_SHORT, MARK_SHORT, SEND_SHORT, RECV_SHORT, RUNDELAY, GUESSED,
 ACQUIRE_SHORT, RELEASE_SHORT, CALLS, PAGEFAULT) = range(1, 42)
# agent/pool/format.h
PIPE, UNIX, TCP, UDP, USER = 1, 2, 4, 5, 6
POLL, EPOLL, EVENTFD, TERMINAL, RESOLVE, SPIN = 16, 18, 21, 27, 24, 28
CONNECT, ACCEPT = 1, 2
COND, SEMAPHORE, RDLOCK, WRLOCK, FLOCK = 4, 6, 2, 3, 10
CLOSE_FD, UNKNOWN = 1, 2**64 - 1
IMAGE, TASK_SEGMENT = 3, 1
CLOCK = struct.pack("<IIQQQ", 2, 0, 0, 0, 1 << 32)
SEGMENT_BYTES = 1 << 16
NETNS, BOOT = 4026531840, "00000000-0000-4000-8000-000000000001"


def text(words, most=512):
    data = words.encode()[:most] + b"\0"
    return data + bytes(-len(data) % 8)


def address(host, port):
    return struct.pack("<HH16s", 10, port, bytes(10) + b"\xff\xff\x0a\0\0" +
                       bytes([host]))


NO_ADDRESS = bytes(20)


class FrozenThread(Thread):
    """told.Thread, whose lines are records, and more verbs."""

    stack = ()  # of what follows, innermost first; for the sites of calls
    pidns = 0
    image = None  # stamp: of its own where it has executed another program
    status = 0
    lost_here = ()  # records, by cause
    waited = sent = sent_bytes = got_bytes = burnt = 0  # what it was made of

    def record(self, kind, a, at, body=b"", flags=0):
        body += bytes(-len(body) % 8)
        words = 2 + len(body) // 8
        self.lines.append(struct.pack(
            "<IIQ", kind | words << 8 | flags << 16, a, BEGIN + at) + body)

    # ---- the words of told.py

    def _put(self, word, *values):
        getattr(self, "_put_" + word)(*values)

    def _put_io(self, kind, channel, op, at, ret, cpu, cpu_ret, size, err=0,
                ready=0):
        self.waited += ret - at if kind != SEND else 0
        self.sent += kind == SEND
        self.sent_bytes += size if kind == SEND else 0
        self.got_bytes += size if kind == RECV else 0
        self.record(kind, channel, at, struct.pack(
            "<QQQqQHHI", BEGIN + ret, cpu, cpu_ret, size, self.site(), op, err,
            ready))
        if self.stack and ret - at > 50_000:
            self.record(STACK, len(self.stack), at,
                        struct.pack(f"<{len(self.stack)}Q", *self.stack))

    def _put_chan(self, number, host, port, other, its_port, flags):
        self.channel(number, TCP, 3, flags, ino=port << 16 | its_port,
                     local=address(host, port), remote=address(other, its_port))

    def _put_fork(self, kind, at, cpu, pid, seq, err=0):
        self.record(FORK, pid, at, struct.pack(
            "<QQQQII", BEGIN + at, cpu, cpu, seq, kind, err))

    def _put_join(self, kind, at, ret, cpu, pid, seq):
        self.waited += ret - at
        self.record(JOIN, pid, at, struct.pack(
            "<QQQQQII", BEGIN + ret, cpu, cpu, seq, self.child_cpu, 0, kind))
        self.child_cpu = UNKNOWN

    child_cpu = UNKNOWN

    def _put_sync(self, kind, what, at, ret, cpu, lock, value=None, err=0):
        if value is None:
            value = int(kind == RELEASE or what == 5 and at == ret)
        self.waited += ret - at
        self.record(kind, what, at, struct.pack(
            "<QQQQQQQiI", BEGIN + ret, cpu, cpu, 0, 0, lock, self.site(), value,
            err))

    def _put_mark(self, at, cpu, words):
        self.record(MARK, len(words), at, struct.pack("<Q", cpu) + text(words))

    def _put_module(self, at, start, end, path, bias=0):
        self.record(MODULE, len(path), at, struct.pack(
            "<QQQ20sBB2x", start, end, bias, b"", 0, 0) + text(path))

    def _put_sample(self, at, cpu, *frames):
        self.told.sampled = True
        self.record(SAMPLE, len(frames), at, struct.pack(
            f"<QQ{len(frames)}Q", cpu, MS, *frames))

    def _put_delay(self, at, ns):
        self.told.delays = True
        self.record(RUNDELAY, 0, at, struct.pack("<Q", ns))

    def _put_end(self, at, cpu):
        kind = 1
        if self.kind == 5:
            kind = 5
        elif self.pid == self.tid:
            kind = 3
        self.record(END, kind, at, struct.pack("<QQ", cpu, self.status))

    # ---- more verbs

    def site(self):
        return self.stack[0] if self.stack else 0

    def channel(self, number, kind, side, flags=0, ino=0, peer_ino=0, name=0,
                local=NO_ADDRESS, remote=NO_ADDRESS):
        self.record(CHAN, number, self.now, struct.pack(
            "<IBBBBQQQQQQQQI20s20sI", number, kind, side, flags, 0, 1, ino,
            peer_ino, 0, NETNS + self.machine, 0, 0, name, 0, local, remote, 0))
        return number

    def send(self, number, size):
        self._io(SEND, number, 0, self.now, size)
        return self.now

    def receive(self, number, size, at):
        """The message comes at `at`; what is there already does not block."""
        self._io(RECV, number, 0, at, size)

    def block(self, op, ns, ready=0, channel=0, size=1):
        """Waits in `op`; `ready`: the channel that ended it; `size`: its result."""
        begun, self.now = self.now, self.now + ns
        self._put_io(BLOCK, channel, op, begun, self.now, self.cpu, self.cpu,
                     size, ready=ready)

    def connected(self, end, server_end, taken):
        """This thread's connect and the server's accept, that comes at `taken`."""
        self._put_io(SEND, end.id, CONNECT, self.now, self.now + 10_000, self.cpu,
                     self.cpu + 10_000, 0)
        self.sent -= 1
        self.now, self.cpu = self.now + 10_000, self.cpu + 10_000
        server = server_end.thread
        server._io(RECV, server_end.id, ACCEPT, max(self.now, taken), 0)

    def short(self, kind, number, size, took):
        """A message on the line of the last long one: all of it on the CPU."""
        self.record(kind, number, self.now,
                    struct.pack("<IIQ", took, size, self.site()))
        self.now, self.cpu = self.now + took, self.cpu + took
        self.sent += kind == SEND_SHORT
        self.sent_bytes += size if kind == SEND_SHORT else 0
        self.got_bytes += size if kind == RECV_SHORT else 0

    def placed_mark(self, words, place):
        """A mark whose text has a place; repeat_mark() is the same again."""
        self.record(MARK, len(words), self.now, struct.pack("<Q", self.cpu) +
                    text(words), (place + 1) << 2)

    def repeat_mark(self, place):
        self.record(MARK_SHORT, place, self.now)

    def enter_short(self, procedure):
        self.record(ENTER_SHORT, procedure & 0xffffffff, self.now)

    def leave_short(self, procedure):
        self.record(EXIT_SHORT, procedure & 0xffffffff, self.now)

    def cpu_of(self, thread):
        """Its CPU time, as the process read it at its exit."""
        self.record(THREADCPU, thread.tid, self.now, struct.pack("<Q", thread.cpu))

    def failed(self, path, error):
        """Wants to be another program, and stays what it is."""
        for kind, a in (EXEC, len(path)), (EXECFAIL, error):
            self.record(kind, a, self.now,
                        struct.pack("<Q", self.cpu) + text(path, 256))

    def spin(self, until, times):
        """Tries so often, and burns CPU, for what the next record has got."""
        begun, cpu = self.now, self.cpu
        self.now, self.cpu = until, cpu + until - begun
        self.burnt += until - begun
        self._put_io(BLOCK, 0, SPIN, begun, until, cpu, self.cpu, times)

    def close(self, number):
        self.record(CLOSE, number, self.now, struct.pack(
            "<QIIQQ", self.cpu, number, CLOSE_FD, UNKNOWN, UNKNOWN))

    def datagram(self, number, payload, port, peer):
        """Names the next record's peer: (host, port)."""
        self.record(DGRAM, number, self.now, struct.pack(
            "<QQ20s20s", payload, 0, address(self.machine + 1, port),
            address(*peer)))

    def queued(self, at):
        """When the kernel had what the next record receives."""
        self.told.arrivals = 1
        self.record(QUEUE, 0, at)

    def name(self, words):
        self.record(NAME, len(words), self.now,
                    struct.pack("<Q", self.cpu) + text(words))

    def unseen(self, words):
        self.record(UNSEEN, len(words), self.now,
                    struct.pack("<Q", self.cpu) + text(words))

    def lost(self, cause, count):
        self.record(LOST, cause, self.now, struct.pack("<Q", count))

    def guessed(self, times, ns, off, most):
        self.record(GUESSED, times, self.now, struct.pack("<QQQ", ns, off, most))

    def calls(self, count, beyond_ns):
        self.record(CALLS, beyond_ns, self.now, struct.pack("<Q", count))

    def enter(self, procedure):
        self.told.exact = True
        self.record(ENTER, 0, self.now,
                    struct.pack("<QQ", self.cpu, procedure))

    def leave(self, procedure):
        self.record(EXIT, 0, self.now, struct.pack("<QQ", self.cpu, procedure))

    def count(self, procedure, calls):
        self.record(COUNT, 0, self.now, struct.pack("<QQ", procedure, calls))

    def kill(self, number, other, how=1):
        self.record(KILL, number, self.now, struct.pack(
            "<QiiiIQQ", self.cpu, other.pid, other.tid if how == 3 else 0, 0,
            how, 0, BEGIN + self.now))

    def signal(self, number, sender_pid, how=16, code=0):
        self.record(SIGNAL, number, self.now, struct.pack(
            "<QiiiIQQ", self.cpu, sender_pid, 0, code, how, 0, BEGIN + self.now))

    def free(self, what, lock, ns):
        """Takes a lock that is free, as --locks=all records it."""
        self.told.locks = 1
        for kind in ACQUIRE_SHORT, RELEASE_SHORT:
            self.record(kind, what, self.now, struct.pack("<QQ", self.cpu, lock))
            if kind == ACQUIRE_SHORT:
                self.work(ns)

    def wait_for(self, what, lock, at, value=0, err=0):
        begun, self.now = self.now, max(self.now, at)
        self._put_sync(ACQUIRE, what, begun, self.now, self.cpu, lock, value,
                       err)

    def let_go(self, what, lock, value=1):
        self._put_sync(RELEASE, what, self.now, self.now, self.cpu, lock, value)
        return self.now

    def execute(self, path):
        """Its process is another program's from here on."""
        self.record(EXEC, len(path), self.now,
                    struct.pack("<Q", self.cpu) + text(path, 256))
        image = self.told._add(self.pid, self.tid, IMAGE, path.split("/")[-1],
                               None, 0, self.machine)
        image.parent, image.pidns = self.parent, self.pidns
        image.now = image.begun = self.now + 1000
        self.over = self.now
        image.cpu = self.cpu
        image.image = BEGIN + image.begun
        return image


class Frozen(Told):
    """A run, as its agents would have recorded it."""

    def __init__(self, cores=2, command="frozen", tags=(), number=0):
        super().__init__(cores)
        self.command, self.tags, self.number = command, tags, number
        self.first_pid = FIRST_PID
        self.sampled = self.exact = self.delays = False
        self.arrivals = self.locks = 0
        self.probe_ps, self.lost = {}, ()
        self.on_full = self.cpu_mode = 0

    def _add(self, pid, tid, kind, comm, parent, seq, machine=0):
        t = FrozenThread(self, pid, tid, kind, comm, parent, seq, machine)
        t.kind, t.parent = kind, parent
        t.pidns = parent.pidns if parent else 0
        self.threads.append(t)
        return t

    def image_of(self, thread):
        """The stamp of the thread's image: that of its process' first."""
        if thread.image:
            return thread.image
        if thread.parent and thread.parent.pid == thread.pid and \
                thread.parent.pidns == thread.pidns:
            return self.image_of(thread.parent)
        return BEGIN + thread.begun

    def start_of(self, thread):
        parent = thread.parent
        body = struct.pack(
            "<QQIIQQ", thread.cpu if thread.kind == IMAGE else 0, thread.seq,
            parent.pid if parent else 0, parent.tid if parent else 0,
            self.image_of(parent) if parent and thread.kind != IMAGE else 0, 0)
        return struct.pack("<IIQ", START | (2 + len(body) // 8) << 8,
                           thread.kind, BEGIN + thread.begun) + body

    def segments(self, thread):
        """The thread's records in segments, that hold 60 KB each."""
        parts, room = [b""], SEGMENT_BYTES - 256 - 4096
        for record in [self.start_of(thread), *thread.lines]:
            if len(parts[-1]) + len(record) > room:
                parts.append(b"")
            parts[-1] += record
        for seq, data in enumerate(parts):
            head = struct.pack(
                "<QIIIIIIQQQII16s", 0x3147455353504900, 3, 256, SEGMENT_BYTES,
                seq, thread.pid, thread.tid, thread.pidns,
                self.image_of(thread), BEGIN + thread.begun, os.getuid(),
                TASK_SEGMENT if thread.kind == 5 else 0,
                thread.comm.encode()[:15]) + CLOCK + struct.pack("<II", 2, 0) + \
                struct.pack(f"<{len(thread.lost_here)}Q", *thread.lost_here)
            yield (head.ljust(256, b"\0") + data).ljust(SEGMENT_BYTES, b"\0")

    def control(self, run, machine, root_pid):
        probes = [self.probe_ps.get(i, 0) for i in range(21)]
        lost = list(self.lost) + [0] * (8 - len(self.lost))
        tags = b"".join(t.encode() + b"\0" for t in self.tags)
        procedures = 2 if self.exact else 1 if self.sampled else 0
        return struct.pack(
            "<QII64s64s40s512s", 0x314c525443535049, 3, 0, run.encode(),
            machine.encode(), BOOT.encode(), self.command.encode()) + \
            CLOCK + struct.pack(
                "<QQQQIIII256s4q", BEGIN, REAL + self.number * 10**9, 2**64 - 1,
                probes[1] // 1000, root_pid, self.cores, SEGMENT_BYTES,
                os.getuid(), tags, 0, 0, 0, 0) + struct.pack(
                "<Q8QQ6I8Q", 0, *lost, 0, procedures,
                1000 if self.sampled else 0, self.cpu_mode, self.on_full,
                0, 0, *probes[:8]) + struct.pack(
                "<II3QIIQQQ9QII", self.arrivals, int(self.delays), *probes[8:11],
                self.locks, 0, 0, probes[11], 0, *probes[12:], 0, 0)

    def write(self, cluster, run, wait=False):
        """Whole when it comes into the pool."""
        machines = sorted({t.machine for t in self.threads})
        for number in machines:
            m = cluster.machines[number]
            mine = [t for t in self.threads if t.machine == number]
            made = m.pool.parent / f"{m.name}.{run}"
            made.mkdir(mode=0o700)
            for k, thread in enumerate(mine):
                for seq, data in enumerate(self.segments(thread)):
                    name = f"{thread.pid}.{thread.tid}.{k:x}{seq:04x}.seg"
                    (made / name).write_bytes(data)
            control = bytearray(self.control(
                run, m.name, self.threads[0].pid
                if self.threads[0].machine == number else 0))
            struct.pack_into("<I", control, 12, len(control))
            (made / "control").write_bytes(control)
            made.rename(m.pool / run)
        if wait:
            cluster.wait_closed(run, machines=len(machines))
        return len(machines)


class Draw:
    """Numbers of a seed, the same with every Python."""

    def __init__(self, seed):
        self.state = seed

    def __call__(self, below):
        self.state = (self.state * 6364136223846793005 +
                      1442695040888963407) % 2**64
        return (self.state >> 33) % below
