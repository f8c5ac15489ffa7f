"""Runs that never ran: what each thread did and when is told (in ns), and the
records of it written as the agents would have (tests/programs/told_run.c). No clock
is read and nothing is scheduled, so what is to be found in them is known exactly.

    told = Told(cores=2)
    main = told.root("main")
    child = main.fork("child")        # at main's time
    child.work(5 * MS)                # on a core
    child.end()
    main.join(child)                  # waits until the child's end
    main.end()
    told.write(cluster, "r")

Each thread has its own time; who waits goes on when the other one let it."""
import subprocess

MS = 1_000_000
US = 1000
PID = 0x7f000000  # nobody's
# agent/pool/format.h
ROOT, FORK, THREAD, TASK = 1, 2, 4, 5
BLOCK, SEND, RECV, ACQUIRE, RELEASE = 3, 7, 8, 26, 27
FORK_FORK, FORK_THREAD, FORK_TASK = 1, 6, 7
JOIN_WAIT, JOIN_THREAD = 1, 2
MUTEX, BARRIER, SLEEP, DISK = 1, 5, 19, 26
CODE, CODE_END = 0x10000, 0x100000  # where procedures are, if any are told
CONNECTED, ACCEPTED = 1, 2


class Thread:
    def __init__(self, told, pid, tid, kind, comm, parent=None, seq=0,
                 machine=0):
        self.told, self.pid, self.tid = told, pid, tid
        self.comm = comm
        self.machine = parent.machine if parent else machine
        self.now = self.begun = parent.now if parent else 0
        self.cpu, self.lines, self.over = 0, [], None
        self.delayed = 0
        self.seq = seq
        self.head = "thread %d %d %d %d %d %d %d %s" % (
            pid, tid, kind, self.now, parent.pid if parent else 0,
            parent.tid if parent else 0, seq, comm)

    def _put(self, *words):
        self.lines.append(" ".join(str(w) for w in words))

    def work(self, ns, *stack):
        """In the procedure stack[0], which the next ones called."""
        self.now += ns
        self.cpu += ns
        if stack:
            self._put("sample", self.now, self.cpu, *stack)

    def queue(self, ns):
        """Could run, but others have the cores."""
        self.now += ns
        self.delayed += ns
        self._put("delay", self.now, self.delayed)

    def until(self, at):
        """Works until then."""
        self.work(at - self.now)

    def mark(self, text):
        self._put("mark", self.now, self.cpu, text)

    def _io(self, kind, channel, op, at, size):
        begun, self.now = self.now, max(self.now, at)
        self._put("io", kind, channel, op, begun, self.now, self.cpu, self.cpu,
                  size)

    def sleep(self, ns):
        self._io(BLOCK, 0, SLEEP, self.now + ns, 0)

    def read(self, ns):
        """Waits so long for a file."""
        self._io(BLOCK, 0, DISK, self.now + ns, 0)

    def fork(self, comm):
        """A child process, begun now."""
        return self.told._begin(self, comm, FORK)

    def thread(self, comm):
        """Another thread of this process, begun now."""
        return self.told._begin(self, comm, THREAD)

    def task(self, name):
        """A task of the API, begun now."""
        return self.told._begin(self, name, TASK)

    def join(self, other):
        begun, self.now = self.now, max(self.now, other.over)
        thread = other.pid == self.pid
        self._put("join", JOIN_THREAD if thread else JOIN_WAIT, begun, self.now,
                  self.cpu, 0 if thread else other.pid, other.seq)

    def arrive(self, at, address):
        """At a barrier, that opens then."""
        begun, self.now = self.now, at
        self._put("sync", ACQUIRE, BARRIER, begun, at, self.cpu, address)

    def connect(self, server):
        """A connection to a server's thread: the two ends."""
        port = self.told._port()
        return End(self, port, server, 80, CONNECTED), \
            End(server, 80, self, port, ACCEPTED)

    def acquire(self, lock):
        if lock.free > self.now:
            begun, self.now = self.now, lock.free
            self._put("sync", ACQUIRE, MUTEX, begun, self.now, self.cpu,
                      lock.address)

    def release(self, lock):
        self._put("sync", RELEASE, MUTEX, self.now, self.now, self.cpu,
                  lock.address)
        lock.free = self.now

    def locked(self, lock, ns):
        """Works so long with the lock: `lock` is a Lock."""
        self.acquire(lock)
        self.work(ns)
        self.release(lock)

    def end(self):
        self._put("end", self.now, self.cpu)
        self.over = self.now


class Lock:
    def __init__(self, address=0x1000):
        self.address, self.free = address, 0


class End:
    """Of a connection. Messages come in the order in which they were sent."""

    def __init__(self, thread, port, peer, peer_port, flags):
        self.thread = thread
        self.id = thread.told.channel()
        thread._put("chan", self.id, thread.machine + 1, port,
                    peer.machine + 1, peer_port, flags)

    def send(self, size):
        """When it was sent."""
        self.thread._io(SEND, self.id, 0, self.thread.now, size)
        return self.thread.now

    def receive(self, size, sent, transit=0):
        self.thread._io(RECV, self.id, 0, sent + transit, size)


class Told:
    def __init__(self, cores=2):
        self.cores, self.threads = cores, []
        self.ports, self.forks, self.channels = 4000, 0, 0
        self.first_pid = PID

    def _port(self):
        self.ports += 1
        return self.ports

    def channel(self):
        """A number that no other channel of its process has."""
        self.channels += 1
        return self.channels

    def _add(self, *how):
        self.threads.append(Thread(self, *how))
        return self.threads[-1]

    def root(self, comm, machine=0):
        """The first thread of a machine."""
        self.forks += 1
        number = self.first_pid + self.forks
        return self._add(number, number, ROOT, comm, None, 0, machine)

    def code(self, root):
        """Its procedures are told, and of those that it begins."""
        root._put("module", root.now, CODE, CODE_END, "/told")

    def _begin(self, parent, comm, kind):
        self.forks += 1
        number = self.first_pid + self.forks
        pid = number if kind == FORK else parent.pid
        how = {FORK: FORK_FORK, THREAD: FORK_THREAD, TASK: FORK_TASK}[kind]
        parent._put("fork", how, parent.now, parent.cpu,
                    pid if kind == FORK else 0, self.forks)
        return self._add(pid, number, kind, comm, parent, self.forks)

    def write(self, cluster, run, wait=True):
        machines = {t.machine for t in self.threads}
        for number in machines:
            m = cluster.machines[number]
            lines = [line for t in self.threads if t.machine == number
                     for line in [t.head, *t.lines]]
            subprocess.run([cluster.build.program("told_run"), m.pool, run,
                            m.name, str(self.cores)],
                           input="\n".join(lines) + "\n", text=True, check=True)
        if wait:
            cluster.wait_closed(run, machines=len(machines))
