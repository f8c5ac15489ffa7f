"""Random programs whose dependencies are known: plans for
tests/programs/random_program.

A plan is one sequence of events, each of which emits operations to the threads
that take part. Every wait comes after what ends it, or in the same event, so
any run of the threads, each in its own order, comes to its end. `Plan.wait`
holds what the plan itself says about who depends on whom (random_truth.py has
the rest, which follows from the log):

    effect (thread, operation), cause (thread, operation), xkind, must

must: the waiter was asleep when it was let go (AWAIT), so the arc must be
there; else it may be there, and then it is this one.
"""
import collections
import pathlib
import random
import re

HEADER = pathlib.Path(__file__).parents[1].joinpath(
    "programs", "random_program", "words.h")


def _words(name):
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    body = re.search(r"enum %s \{(.*?)\}" % name, text, re.S).group(1)
    return [w.strip() for w in body.split(",") if w.strip()]


KINDS = _words("channel_kind")
OPS = _words("operation")
STREAMS = ("PIPE", "UNIX_PAIR", "UNIX_STREAM", "TCP")
DATAGRAMS = ("UDP", "UNIX_DGRAM")
BY_NAME = ("UNIX_STREAM", "TCP")
MAX_THREADS, MAX_CHANNELS, MAX_QUEUES = 24, 40, 16
IN_FLIGHT = 16384  # bytes that any stream holds without its reader
FIRST_SIGNAL, LAST_SIGNAL = 36, 62  # none of the C library's, none twice

Wait = collections.namedtuple("Wait", "effect cause xkind must")


class Thread:
    def __init__(self, number, process, main):
        self.number, self.process, self.main = number, process, main
        self.ops, self.alive, self.born = [], True, None
        self.ended_by = None  # (thread, op) of its join or wait

    def __repr__(self):
        return "T%d" % self.number


class Process:
    def __init__(self, number, parent):
        self.number, self.parent = number, parent
        self.threads, self.uses, self.sigchld = [], set(), False
        self.may_exec, self.execs = True, False
        self.children = []

    @property
    def main(self):
        return self.threads[0]

    @property
    def alive(self):
        return self.main.alive


class Channel:
    def __init__(self, number, kind, writer, reader):
        self.number, self.kind = number, kind
        self.writer, self.reader = writer, reader
        self.unread = []  # bytes of sends that no receive was planned for
        self.open, self.joined = True, kind not in BY_NAME


class Plan:
    """`events`: how many; `only`: names of the events to take (None: all);
    `skip`: numbers of events that are left out (for shrinking)."""

    def __init__(self, seed, events=40, only=None, skip=()):
        self.seed, self.random = seed, random.Random(seed)
        self.threads, self.processes, self.channels = [], [], []
        self.wait, self.objects, self.signal = [], 0, FIRST_SIGNAL
        self.fifos = self.queues = 0
        self.shared = False  # memory that processes share
        self.handed_on = False  # a mutex: who unlocked last is a guess
        self.locks = {}  # pair of threads -> mutexes only they use
        self.closes = []  # thread, its operation: ends that were closed
        root = self._process(None)
        self._op(root.main, "SETUP")
        chances = dict(EVENTS)
        if only or seed % 4 == 0:
            chances.update(RARE)
        names = [n for n in chances if only is None or n in only]
        weights = [chances[n] for n in names]
        for i in range(events):
            name = self.random.choices(names, weights)[0]
            keep = self.random
            self.random = random.Random("%s/%d" % (seed, i))
            if i not in skip:
                getattr(self, "_do_" + name)()
            self.random = keep
        self._finish()

    # --- the pieces ------------------------------------------------------

    def _op(self, thread, name, *args):
        """Appends an operation; its number in its thread."""
        assert thread.alive and name in OPS
        thread.ops.append([name, *args])
        return len(thread.ops) - 1

    def _process(self, parent):
        process = Process(len(self.processes), parent)
        self.processes.append(process)
        if parent:
            parent.children.append(process)
        self._thread(process)
        return process

    def _thread(self, process):
        thread = Thread(len(self.threads), process, not process.threads)
        process.threads.append(thread)
        self.threads.append(thread)
        return thread

    def _alive(self, process=None):
        return [t for t in self.threads
                if t.alive and process in (None, t.process)]

    def _pick(self, count, process=None):
        """`count` different threads, or None."""
        found = self._alive(process)
        return self.random.sample(found, count) if len(found) >= count else None

    def _siblings(self, count):
        """`count` threads of one process, or None."""
        found = [p for p in self.processes if len(self._alive(p)) >= count]
        return self._pick(count, self.random.choice(found)) if found else None

    def _expect(self, effect, cause, xkind, must=True):
        (et, eo), (ct, co) = effect, cause
        self.wait.append(Wait((et.number, eo), (ct.number, co), xkind, must))

    def _coin(self, chance=0.5):
        return self.random.random() < chance

    def _object(self):
        self.objects = (self.objects + 1) % 128
        return self.objects

    # --- events: work ----------------------------------------------------

    def _do_compute(self):
        self._op(self._pick(1)[0], "COMPUTE", self.random.randint(10, 3000))

    def _do_sleep(self):
        self._op(self._pick(1)[0], "SLEEP", self.random.randint(300, 5000))

    def _do_hide(self):
        self._op(self._pick(1)[0], "HIDE", self.random.randint(100, 3000))

    # --- events: threads and processes -----------------------------------

    def _do_create(self):
        if len(self.threads) < MAX_THREADS:
            by, = self._pick(1)
            new = self._thread(by.process)
            new.born = (by.number, self._op(by, "CREATE", new.number))

    def _do_fork(self):
        if len(self.threads) < MAX_THREADS:
            by, = self._pick(1)
            for thread, op in self.closes:  # its copy would be the last
                if thread.process is by.process and thread is not by:
                    self._op(by, "AFTER", thread.number, op)
            new = self._process(by.process).main
            how = self.random.choice(["FORK", "FORK", "SPAWN"])
            new.born = (by.number, self._op(by, how, new.number))
            self._op(new, "TRIM", 0, 0)  # _finish says what to keep
            if how == "FORK" and self._coin(0.3):
                new.process.execs = True
                self._op(new, "EXEC")

    def _do_exec(self):
        found = [p for p in self.processes if len(self._alive(p)) == 1 and
                 p.may_exec]
        if found and self._coin(0.5):
            process = self.random.choice(found)
            process.execs = True
            self._op(process.main, "EXEC")
            self.locks = {pair: o for pair, o in self.locks.items()
                          if process.main not in pair}

    def _do_end(self):
        found = [t for t in self._alive() if not t.main]
        if found and self._coin(0.7):
            self._end_thread(self.random.choice(found))
            return
        found = [p for p in self.processes if p.parent and p.alive and
                 not any(c.alive for c in p.children)]
        if found:
            self._end_process(self.random.choice(found))

    def _end_thread(self, thread):
        self._read_rest(thread)
        thread.alive = False
        by, = self._pick(1, thread.process)
        thread.ended_by = (by.number, self._op(by, "JOIN", thread.number))

    def _end_process(self, process):
        for child in process.children:
            if child.alive:
                self._end_process(child)
        for thread in process.threads:
            if thread.alive and not thread.main:
                self._end_thread(thread)
        self._read_rest(process.main)
        process.main.alive = False
        if process.parent is None:
            return
        by, = self._pick(1, process.parent)
        if not process.parent.sigchld and self._coin(0.4):
            process.parent.sigchld = True
            self._op(by, "SIGWAIT", 17)
        main = process.main
        if self._coin(0.4):
            self._op(by, "PIDFD_POLL", main.number, self.random.randrange(3))
        main.ended_by = (by.number, self._op(by, "WAIT", main.number))

    # --- events: channels ------------------------------------------------

    def _channel(self, kinds):
        """An open channel of these kinds with both threads alive, or a new one,
        connected; None where there can be none."""
        found = [c for c in self.channels if c.kind in kinds and c.open and
                 c.writer.alive and c.reader.alive]
        if found and (self._coin(0.7) or len(self.channels) >= MAX_CHANNELS):
            return self.random.choice(found)
        pair = self._pick(2)
        if not pair or len(self.channels) >= MAX_CHANNELS:
            return None
        c = Channel(len(self.channels), self.random.choice(kinds), *pair)
        self.channels.append(c)
        self._use(c)
        if not c.joined:
            self._connect(c)
        return c

    def _use(self, c):
        c.reader.process.uses.add((c.number, 0))
        c.writer.process.uses.add((c.number, 0 if c.kind == "EVENTFD" else 1))
        # its writer asks the reader's socket for the address
        if c.kind in BY_NAME + DATAGRAMS:
            c.writer.process.uses.add((c.number, 0))

    def _connect(self, c):
        c.joined = True
        if self._coin():
            self._op(c.writer, "AWAIT", c.reader.number, len(c.reader.ops))
            self._op(c.reader, "ACCEPT", c.number)
            self._op(c.writer, "CONNECT", c.number)
        else:
            self._op(c.writer, "CONNECT", c.number)
            self._op(c.reader, "ACCEPT", c.number)

    def _receive(self, c, bytes_):
        chunk = self.random.choice([bytes_, 65536, max(1, bytes_ // 3),
                                    max(1, bytes_ // 2 + 1)])
        chunk = min(65536, max(chunk, bytes_ // 6, 1))
        return self._op(c.reader, "RECEIVE", c.number, bytes_, chunk,
                        self.random.randrange(4))

    def _read_some(self, c):
        """Plans a receive of some or all that is unread."""
        if c.kind in DATAGRAMS:
            self._op(c.reader, "RECEIVE", c.number, 0, 2000,
                     self.random.randrange(4))
            c.unread.pop(0)
            return
        total = sum(c.unread)
        n = total if self._coin(0.6) else self.random.randint(1, total)
        self._receive(c, n)
        c.unread = [total - n] if total > n else []

    def _read_rest(self, thread):
        for c in self.channels:
            while c.reader is thread and c.unread:
                self._read_some(c)

    def _do_send(self):
        c = self._channel(STREAMS)
        if not c:
            return
        n = self.random.choice([1, 8, 100, 1000, 4096, 8000])
        if sum(c.unread) + n > IN_FLIGHT:
            self._read_some(c)
            return
        if not c.unread and self._coin(0.4):  # the reader sleeps
            self._op(c.writer, "AWAIT", c.reader.number, len(c.reader.ops))
            self._receive(c, n)
        else:
            c.unread.append(n)
        self._op(c.writer, "SEND", c.number, n, self.random.randrange(2))

    def _do_receive(self):
        found = [c for c in self.channels if c.unread and c.reader.alive]
        if found:
            self._read_some(self.random.choice(found))

    def _do_both(self):
        """A thread reads two channels as they come."""
        found = collections.defaultdict(list)
        for c in self.channels:
            if c.kind in STREAMS and c.unread and c.reader.alive:
                found[c.reader].append(c)
        found = [cs for cs in found.values() if len(cs) > 1]
        if found:
            a, b = self.random.sample(self.random.choice(found), 2)
            self._op(a.reader, "RECEIVE_BOTH", a.number, sum(a.unread),
                     b.number, sum(b.unread))
            a.unread, b.unread = [], []

    def _do_bulk(self):
        """More than the channel holds: the writer waits for the reader."""
        c = self._channel(("PIPE", "UNIX_PAIR", "UNIX_STREAM"))
        if c:
            n = self.random.randint(300000, 500000)
            total = sum(c.unread) + n
            c.unread = []
            op = self._op(c.writer, "SEND", c.number, n, 0)
            self._op(c.reader, "AWAIT", c.writer.number, op)
            self._op(c.reader, "RECEIVE", c.number, total, 65536,
                     self.random.randrange(4))

    def _do_datagram(self):
        c = self._channel(DATAGRAMS)
        if not c:
            return
        if len(c.unread) > 5:
            self._read_some(c)
        if not c.unread and self._coin():
            self._op(c.writer, "AWAIT", c.reader.number, len(c.reader.ops))
            self._op(c.reader, "RECEIVE", c.number, 0, 2000,
                     self.random.randrange(4))
        else:
            c.unread.append(1)
        self._op(c.writer, "SEND_DATAGRAM", c.number,
                 self.random.randint(20, 1500))

    def _do_close(self):
        """The writer ends the channel and the reader sees it."""
        found = [c for c in self.channels if c.kind in STREAMS and c.open and
                 c.writer.alive and c.reader.alive]
        if not found:
            return
        c = self.random.choice(found)
        c.open = False
        while c.unread:
            self._read_some(c)
        if c.kind != "PIPE" and self._coin(0.4):
            self._op(c.writer, "SHUTDOWN", c.number)
        else:
            closers = [c.writer] + self._holders(c, 1)
            self.random.shuffle(closers)
            for thread in closers:
                self._close(thread, c, 1)
        self._op(c.reader, "RECEIVE", c.number, 0, 100,
                 self.random.randrange(4))

    def _do_broken(self):
        """The reader goes away and the writer sees that."""
        found = [c for c in self.channels if c.open and c.writer.alive and
                 c.kind in ("PIPE", "UNIX_PAIR", "UNIX_STREAM") and
                 c.reader.alive]
        if not found:
            return
        c = self.random.choice(found)
        c.open = False
        while c.unread:
            self._read_some(c)
        for thread in [c.reader] + self._holders(c, 0):
            op = self._close(thread, c, 0)
            if thread is not c.writer:
                self._op(c.writer, "AFTER", thread.number, op)
        for p in self.processes[1:]:
            if p.alive and p.main is not c.writer:
                self._op(c.writer, "AFTER", p.main.number, 0)  # its TRIM
        self._op(c.writer, "SEND_BROKEN", c.number)

    def _do_death(self):
        """A writer's process ends, and the reader sees the end of file."""
        found = [c for c in self.channels if c.kind in STREAMS and c.open and
                 c.writer.alive and c.reader.alive and
                 c.writer.process.parent and
                 c.reader.process not in self._line(c.writer.process)]
        if not found:
            return
        c = self.random.choice(found)
        c.open = False
        while c.unread:
            self._read_some(c)
        for thread in self._holders(c, 1):
            if thread.process not in self._line(c.writer.process):
                self._close(thread, c, 1)
        self._end_process(c.writer.process)
        self._op(c.reader, "RECEIVE", c.number, 0, 100,
                 self.random.randrange(4))

    def _close(self, thread, c, side):
        """Closes an end, once the children that need it have been born."""
        for child in thread.process.children:
            if child.main is not thread:
                self._op(thread, "AFTER", child.main.number, 0)
        self.closes.append((thread, self._op(thread, "CLOSE", c.number, side)))
        return self.closes[-1][1]

    def _line(self, process):
        """A process and its descendants."""
        out = [process]
        for child in process.children:
            out += self._line(child)
        return out

    def _holders(self, c, side):
        """A thread of each other process that holds an end. A connection is
        its maker's, and what that forks lets go of it at once."""
        if c.kind in BY_NAME:
            return []
        owner = (c.writer if side else c.reader).process
        return [self._pick(1, p)[0] for p in self.processes
                if p.alive and p is not owner and
                (p.parent is None or (c.number, side) in self._keep(p))]

    def _keep(self, process):
        """Ends that a process keeps: its own and its descendants'."""
        out = set(process.uses)
        for child in process.children:
            out |= self._keep(child)
        return out

    def _do_eventfd(self):
        c = self._channel(("EVENTFD",))
        if c:
            read = len(c.reader.ops)
            self._op(c.writer, "AWAIT", c.reader.number, read)
            self._op(c.reader, "EVENTFD_READ", c.number)
            write = self._op(c.writer, "EVENTFD_WRITE", c.number)
            self._expect((c.reader, read), (c.writer, write), "resource")

    # --- events: signals -------------------------------------------------

    def _do_signal(self):
        pair = self._pick(2)
        if pair and self.signal <= LAST_SIGNAL:
            by, to = pair
            op = self._op(to, self.random.choice(["SIGWAIT", "SIGSUSPEND"]),
                          self.signal)
            self._op(by, "AWAIT", to.number, op)
            kill = self._op(by, "KILL", to.number, self.signal,
                            self.random.randrange(3))
            self._expect((to, op), (by, kill), "signal")
            self.signal += 1

    def _do_stop(self):
        """A process of one thread stops itself. Its parent's SIGCHLD is not of
        that, unless it forgets so in an exec."""
        found = [p for p in self.processes if p.parent and p.alive and
                 len(self._alive(p)) == 1 and not p.parent.execs]
        if not found:
            return
        process = self.random.choice(found)
        others = [t for t in self._alive() if t.process is not process]
        process.parent.may_exec = False
        by, to = self.random.choice(others), self._alive(process)[0]
        stop = self._op(to, "STOP")
        self._op(by, "AFTER", to.number, stop - 1)
        cont = self._op(by, "GO_ON", process.main.number)
        self._expect((to, stop), (by, cont), "signal")

    def _do_fifo(self):
        """Both ends are opened, either first."""
        pair = self._pick(2)
        if not pair:
            return
        waiter, opener = pair
        side, self.fifos = self.random.randrange(2), self.fifos + 1
        waited = self._op(waiter, "FIFO_OPEN", self.fifos, side)
        self._op(opener, "AWAIT", waiter.number, waited)
        opened = self._op(opener, "FIFO_OPEN", self.fifos, 1 - side)
        self._expect((waiter, waited), (opener, opened), "resource")
        self._expect((opener, opened), (waiter, waited), "resource", False)

    # --- events: locks ---------------------------------------------------

    def _hold(self, holder, waiter, take, wait, give, give_back, *args):
        """`holder` takes what `waiter` then waits for; the operation by which
        that gives it back."""
        lock = self._op(holder, take, *args)
        self._op(waiter, "AFTER", holder.number, lock)
        waited = self._op(waiter, wait, *args)
        self._op(holder, "AWAIT", waiter.number, waited)
        if self._coin():
            self._op(holder, "COMPUTE", self.random.randint(10, 2000))
        gave = self._op(holder, give, *args)
        self._expect((waiter, waited), (holder, gave), "resource")
        return self._op(waiter, give_back, *args)

    def _do_mutex(self):
        pair = self._siblings(2)
        if not pair:
            return
        holder, waiter = pair
        key = frozenset(pair)
        if key not in self.locks or self._coin():
            self.locks[key] = self._object(), None
        o, before = self.locks[key]  # the last unlock of it
        if before and before[0] is not holder:  # else it might come first
            self._op(holder, "AFTER", before[0].number, before[1])
        back = self._hold(holder, waiter, "LOCK", "LOCK", "UNLOCK",
                          "UNLOCK", o)
        self.locks[key] = o, (waiter, back)

    def _do_rwlock(self):
        pair = self._siblings(2)
        if pair:
            take, wait = self.random.choice([
                ("WRITE_LOCK", "READ_LOCK"), ("READ_LOCK", "WRITE_LOCK"),
                ("WRITE_LOCK", "WRITE_LOCK")])
            self._hold(*pair, take, wait, "RW_UNLOCK", "RW_UNLOCK",
                       self._object())

    def _do_filelock(self):
        """flock between any two threads (each has its description), fcntl
        between processes."""
        pair = self._pick(2)
        if pair:
            how = int(pair[0].process is not pair[1].process and self._coin())
            self._hold(*pair, "FILE_LOCK", "FILE_LOCK", "FILE_UNLOCK",
                       "FILE_UNLOCK", self._object(), how)

    def _post(self, pair, wait, post, o):
        waiter, poster = pair
        must = self._coin(0.7)
        waited = self._op(waiter, wait, o)
        if must:
            self._op(poster, "AWAIT", waiter.number, waited)
        posted = self._op(poster, post, o)
        self._expect((waiter, waited), (poster, posted), "resource", must)

    def _do_semaphore(self):
        pair = self._siblings(2)
        if pair:
            self._post(pair, "SEM_WAIT", "SEM_POST", self._object())

    def _do_shared(self):
        """Between processes, in memory that they share."""
        pair = self._pick(2)
        if not pair:
            return
        self.shared = True
        if self._coin():
            self._post(pair, "SHARED_WAIT", "SHARED_POST", self._object())
        else:
            self._hold(*pair, "SHARED_LOCK", "SHARED_LOCK", "SHARED_UNLOCK",
                       "SHARED_UNLOCK", self._object())

    def _do_message(self):
        """A message is waited for, or room for one."""
        pair = self._pick(2)
        if not pair or self.queues >= MAX_QUEUES:
            return
        (waiter, other), q = pair, self.queues
        self.queues += 1
        if self._coin():
            self._post(pair, "MESSAGE_TAKE", "MESSAGE_PUT", q)
            return
        full = self._op(other, "MESSAGE_PUT", q)
        self._op(waiter, "AFTER", other.number, full)
        waited = self._op(waiter, "MESSAGE_PUT", q)
        self._op(other, "AWAIT", waiter.number, waited)
        took = self._op(other, "MESSAGE_TAKE", q)
        self._expect((waiter, waited), (other, took), "resource")

    def _do_condition(self):
        count = self.random.choice([1, 1, 2, 3])
        threads = self._siblings(count + 1)
        if not threads:
            return
        by, *waiters = threads
        c, waits, unlocks = self._object(), [], []
        self.handed_on |= count > 1
        for i, waiter in enumerate(waiters):
            if i:
                self._op(waiter, "AWAIT", *waits[-1])
            self._op(waiter, "LOCK", c)
            waits.append((waiter.number, self._op(waiter, "COND_WAIT", c, c)))
        for wait in waits:
            self._op(by, "AWAIT", *wait)
        name = "COND_SIGNAL" if count == 1 and self._coin() else \
            "COND_BROADCAST"
        first = self._coin(0.3)  # signal without the mutex
        if first:
            signal = self._op(by, name, c)
        else:
            self._op(by, "LOCK", c)
            signal = self._op(by, name, c)
            if self._coin():
                self._op(by, "COMPUTE", self.random.randint(10, 2000))
            unlocks.append((by, self._op(by, "UNLOCK", c)))
        for waiter in waiters:
            unlocks.append((waiter, self._op(waiter, "UNLOCK", c)))
        for waiter, wait in zip(waiters, waits):
            effect = waiter, wait[1]
            self._expect(effect, (by, signal), "resource")
            for unlock in unlocks:  # the mutex, on the way out
                if unlock[0] is not waiter:
                    self._expect(effect, unlock, "resource", must=False)

    def _do_barrier(self):
        threads = self._siblings(self.random.choice([2, 2, 3, 4]))
        if not threads:
            return
        o, at = self._object(), []
        self._op(threads[0], "BARRIER_INIT", o, len(threads))
        for i, thread in enumerate(threads):
            if i:
                self._op(thread, "AWAIT", at[-1][0].number, at[-1][1])
            at.append((thread, self._op(thread, "BARRIER_WAIT", o)))
        for before, here in zip(at, at[1:]):
            self._expect(here, before, "resource")
        for here in at[:-1]:
            self._expect(here, at[-1], "resource")

    # --- the end ---------------------------------------------------------

    def _finish(self):
        root = self.processes[0]
        self._end_process(root)
        for process in self.processes[1:]:
            bits = [0, 0]
            for channel, side in self._keep(process):
                bit = 2 * channel + side
                bits[bit // 48] |= 1 << bit % 48
            assert process.main.ops[0][0] == "TRIM"
            process.main.ops[0][1:] = bits

    def text(self):
        lines = ["%d %d %d %d" % (len(self.threads), len(self.channels),
                                  self.shared, self.queues),
                 " ".join(str(KINDS.index(c.kind)) for c in self.channels)]
        for thread in self.threads:
            lines.append(str(len(thread.ops)))
            for name, *args in thread.ops:
                args = list(args) + [0] * (4 - len(args))
                lines.append(" ".join(map(str, [OPS.index(name)] + args)))
        return "\n".join(lines) + "\n"

    def say(self, thread, op):
        """An operation, for people."""
        if not isinstance(op, int):
            return "T%s %s" % (thread, op)
        return "T%d op %d %s" % (
            thread, op, " ".join(map(str, self.threads[thread].ops[op])))


EVENTS = {  # what a plan is made of, and how often
    "compute": 6, "sleep": 2, "hide": 2, "create": 8, "fork": 5, "exec": 2,
    "end": 4, "send": 14, "receive": 6, "both": 6, "bulk": 2, "datagram": 6,
    "close": 3, "broken": 2, "death": 2, "eventfd": 3, "signal": 5,
    "mutex": 5, "rwlock": 3, "semaphore": 4, "condition": 4, "barrier": 3,
    "filelock": 3, "fifo": 3, "stop": 2, "message": 4,
}
RARE = {"shared": 4}  # plans with these are told that memory is shared
