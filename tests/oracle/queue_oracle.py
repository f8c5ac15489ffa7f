#!/usr/bin/python3
"""Work queues, by a simulation of the program itself with exact fractions.

usage: queue_graph FIRST COUNT | tests/oracle/queue_oracle.py

Here is no graph: dispatcher and workers are programs (generators) that compute,
send and receive, and a dispatcher takes what came first. With k that compute on
a machine of n cores, speed s and load b each has s * min(1, n / (k + b)). The C
side had a graph of such a program, with results taken in a random order, and
had to find out that it was one, and what it would do elsewhere.

At one moment all that takes no time comes first, then the dispatcher takes the
result that was there first; of those of one moment the first thread's. The C
side rounds times to 2^-8 ns and finer; two moments that near are forgiven.
"""
import json
import sys
from fractions import Fraction

WORK, GET, TAKE, END = range(4)
UNSURE = Fraction(1, 512)


class Machines:
    """Programs (generators that yield what they want, and of what) on machines
    whose cores they share."""

    def __init__(self, ask, count):
        self.ask, self.count = ask, count
        self.now = Fraction(0)
        self.near = False
        self.ends = [None] * count
        self.wants, self.what = [None] * count, [None] * count
        self.left = [Fraction(0)] * count
        self.made = [True] * count
        self.run = []  # to be set

    def go(self, c, value=None):
        """Thread c, until it waits or computes."""
        try:
            kind, amount = self.run[c].send(value)
            while kind == WORK and not amount:
                kind, amount = self.run[c].send(None)
        except StopIteration:
            kind, amount = END, None
            self.ends[c] = self.now
        self.wants[c], self.what[c] = kind, amount
        self.left[c] = Fraction(amount or 0) if kind == WORK else Fraction(0)
        self.asks(c, kind, amount)

    def asks(self, c, kind, what):
        """Thread c waits now."""

    def ready(self, c):
        """Has what thread c waits for come?"""

    def events(self):
        """When something is there that somebody may wait for."""
        return []

    def settle(self):
        """All that takes no time, once; was there any?"""
        some = False
        for c in range(self.count):
            if self.wants[c] == WORK and not self.left[c]:
                self.go(c)
                some = True
            elif self.ready(c):
                self.go(c)
                some = True
        return some

    def step(self):
        computing = [[] for _ in self.ask["machines"]]
        for c in range(self.count):
            if self.wants[c] == WORK:
                computing[self.ask["map"][c]].append(c)
        rate, times = {}, [t for t in self.events() if t > self.now]
        for (n, num, den, load, parts), who in zip(self.ask["machines"],
                                                   computing):
            for c in who:
                rate[c] = Fraction(num, den) * min(
                    Fraction(1), n / (len(who) + Fraction(load, parts)))
                times.append(self.now + self.left[c] / rate[c])
        if not times:
            return False
        then = min(times)
        self.near = self.near or any(0 < t - then < UNSURE for t in times)
        for c, r in rate.items():
            self.left[c] -= (then - self.now) * r
        self.now = then
        return True

    def solve(self):
        for c in [c for c, made in enumerate(self.made) if made]:
            self.go(c)
        more = True
        while more:
            while self.settle():
                pass
            more = self.step()
        return self


class Program(Machines):
    def __init__(self, ask):
        super().__init__(ask, ask["workers"] + 1)
        self.dispatcher = ask["dispatcher"]
        self.workers = [c for c in range(self.count) if c != self.dispatcher]
        self.inbox = {c: [] for c in self.workers}  # [when, what] in order
        self.results = {c: [] for c in self.workers}
        self.took = []
        self.run = [self.dispatch() if c == self.dispatcher else self.work(c)
                    for c in range(self.count)]

    def way(self, a, b, length):
        machine = self.ask["map"]
        base, per_byte = self.ask["mtime"][
            machine[a] * len(self.ask["machines"]) + machine[b]]
        return base + (length * per_byte >> 32)

    def send(self, to, what, length):
        when = self.now if length is None else \
            self.now + self.way(self.dispatcher, to, length)
        self.inbox[to].append([when, what])

    def dispatch(self):
        ask, given = self.ask, 0
        pieces = ask["pieces"]
        yield WORK, ask["connect"][self.dispatcher]
        for _ in range(ask["window"]):
            for c in self.workers:
                self.send(c, given, pieces[given][5])
                given += 1
        yield WORK, ask["ready"]
        for after, rest in ask["turns"]:
            who, piece = yield TAKE, None
            self.took.append((piece, self.now))
            _, _, taking, taken, receives, *_ = pieces[piece]
            if receives == 2:
                yield WORK, taking
            yield WORK, taken
            if given < len(pieces):
                self.send(who, given, pieces[given][5])
                given += 1
            elif ask["stops"]:
                self.send(who, None, ask["stop_bytes"])
            else:
                continue
            yield WORK, after
            yield WORK, rest
        if not ask["stops"]:
            for c in self.workers:
                self.send(c, None, None)

    def work(self, c):
        yield WORK, self.ask["connect"][c]
        while True:
            piece = yield GET, None
            if piece is None:
                break
            work, behind, *_, length = self.ask["pieces"][piece]
            yield WORK, work
            line = self.results[c]
            when = self.now + self.way(c, self.dispatcher, length)
            line.append([max([when] + [w for w, _ in line]), piece])
            yield WORK, behind
        yield WORK, self.ask["end"]

    def events(self):
        return [when for line in [*self.inbox.values(), *self.results.values()]
                for when, _ in line]

    def settle(self):
        some = super().settle()
        for c, inbox in self.inbox.items():
            if self.wants[c] == GET and inbox and inbox[0][0] <= self.now:
                self.go(c, inbox.pop(0)[1])
                some = True
        d = self.dispatcher
        there = sorted((line[0][0], c) for c, line in self.results.items()
                       if line and line[0][0] <= self.now)
        if some or self.wants[d] != TAKE or not there:
            return some
        self.near = self.near or any(
            0 < b[0] - a[0] < UNSURE for a, b in zip(there, there[1:]))
        c = there[0][1]
        self.go(d, (c, self.results[c].pop(0)[1]))
        return True


def wrong_times(pairs):
    """Of (told, exact), in words."""
    return ["%d, not %.4f" % (told, exact) for told, exact in pairs
            if not -UNSURE <= told - exact + UNSURE < 1 + 3 * UNSURE]


def differences(ask):
    """What the C answer has wrong, in words; and whether times were too near to
    tell."""
    p = Program(ask).solve()
    if [piece for piece, _ in p.took] != [piece for piece, _ in ask["took"]]:
        return ["results taken in the order %s, not %s" % (
            [piece for piece, _ in ask["took"]],
            [piece for piece, _ in p.took])], p.near
    return wrong_times(
        list(zip([t for _, t in ask["took"]], [t for _, t in p.took])) +
        list(zip(ask["ends"], p.ends)) +
        [(ask["makespan"], max(p.ends))]), p.near


def main(differ):
    graphs = wrong = near = 0
    for line in sys.stdin:
        ask = json.loads(line)
        graphs += 1
        found, unsure = differ(ask)
        near += bool(found) and unsure
        for text in found if not unsure else []:
            wrong += 1
            print("seed %d: %s" % (ask["seed"], text))
    print("%d programs, %d differences, %d close calls" % (graphs, wrong, near))
    return 1 if wrong or not graphs or near > 1 + graphs // 500 else 0


if __name__ == "__main__":
    sys.exit(main(differences))
