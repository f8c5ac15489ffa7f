"""Random programs of a seed whose answers are frozen: processes and threads of some
machines that send, receive, poll, lock, read and queue."""
from frozen_elf import MAIN, at, code, join_all
from frozen_pool import EPOLL, Draw, Frozen
from told import US, Lock


class Program:
    """Threads that do one of many things each turn, who is behind goes first."""

    def __init__(self, seed, machines, threads, number, program):
        self.draw = Draw(seed)
        self.run = Frozen(cores=2, command=f"random {seed}", number=number)
        self.mains = [self.run.root(f"p{m}", machine=m) for m in range(machines)]
        self.all, self.made = [], []
        for main in self.mains:
            code(main, program)
            for k in range(threads):
                t = main.thread(f"t{k}") if k % 2 else main.fork(f"f{k}")
                self.made.append((main, t))
                self.all.append(t)
        self.locks = {t.pid: Lock(0x1000) for t in self.all}
        self.ends = {id(t): [] for t in self.all}
        self.parked = {}
        for k in range(2 * len(self.all)):
            a, b = self.pick(self.all), self.pick(self.all)
            if a is not b:
                x, y = a.connect(b)
                x.peer, y.peer = y, x
                for e in (x, y):
                    e.coming = []
                    self.ends[id(e.thread)].append(e)

    def pick(self, some):
        return some[self.draw(len(some))]

    def take(self, end):
        sent, size = end.coming.pop(0)
        transit = (20 + self.draw(80)) * US
        if self.draw(2) and end.thread.now < sent + transit:
            end.thread.block(EPOLL, sent + transit - end.thread.now, end.id)
        end.receive(size, sent, transit)

    def send(self, end):
        size = 1 + self.draw(2000)
        end.peer.coming.append((end.send(size), size))
        if self.parked.get(id(end.peer.thread)) is end.peer:
            del self.parked[id(end.peer.thread)]
            self.take(end.peer)

    def turn(self, t):
        what = self.draw(10)
        t.stack = at((self.draw(7), self.draw(9)), MAIN)
        ends = self.ends[id(t)]
        if what < 4 or not ends:
            t.work((50 + self.draw(900)) * US, *at(self.draw(7), MAIN))
        elif what < 7:
            self.send(self.pick(ends))
        elif what < 8:
            end = self.pick([e for e in ends if e.coming] or ends)
            if end.coming:
                self.take(end)
            elif len(self.parked) < len(self.all) - 1:
                self.parked[id(t)] = end
        elif what == 8:
            t.locked(self.locks[t.pid], (30 + self.draw(300)) * US)
        elif self.draw(2):
            t.read((60 + self.draw(500)) * US)
        else:
            t.queue((10 + self.draw(100)) * US)

    def make(self, turns):
        for _ in range(turns):
            self.turn(min((t for t in self.all if id(t) not in self.parked),
                          key=lambda t: t.now))
        while self.parked:
            self.send(next(iter(self.parked.values())).peer)
        for t in self.all:
            for end in self.ends[id(t)]:
                while end.coming:
                    self.take(end)
        for main, t in self.made:
            t.end()
        for main in self.mains:
            join_all(main, [t for m, t in self.made if m is main])
        return self.run
