#!/usr/bin/python3
"""The replay with processor sharing, simulated with exact fractions.

usage: replay_graph FIRST COUNT | tests/oracle/replay_oracle.py

Written from the definition: with k active threads on a machine of n cores,
speed s and background load b, each proceeds at s * min(1, n / (k + b)). No
virtual time and no heap: at every event the work left of every active thread is
brought up to date, and the nearest next event is looked for among all. Transfers that share a
medium divide it: with k of them each takes 1/k of it at a time. A wait behind
an arc's work begins when that is done. A lock has units; when nothing else
happens at a moment that takes no time, what is free goes to those that ask for
it, first come, first served, then by thread; and again. Where all that is left
waits, the locks that somebody asks for are taken as they were recorded (their
RESOURCE arcs), and it begins anew; at the third time, all locks are.

With turns, a machine that has load at any time is cores with a line each
(class Core), as analysis/replay/replay.h says.

The C side rounds times to 2^-8 .. 2^-24 ns, and two may come for a lock at one
moment, or a turn end as work does: of a graph where that is so differences are
forgiven, which few need (1 in 20000 does; with turns more); else the status is 1.

Reads the lines that tests/programs/tools/replay_graph.c prints, and says where the C
answer differs; status 1 where one did.
"""
import json
import math
import sys
from fractions import Fraction

DATA, EXTERNAL, IDLE, RESOURCE = 1, 4, 5, 7
# Times told are rounded up, but for what is less than 1/256 above a whole ns;
# and the C side computes in units of 2^-bits ns, mostly 2^-24, a few of which it may be
# off, and one more for each turn beside load.
FORGIVEN = Fraction(1, 256)
UNSURE = Fraction(1, 1024)
UNITS = 8


class Stalled(Exception):
    pass


class Core:
    """One of the n cores of a machine with load, where loads have turns."""

    def __init__(self, machine, index, turn, speed):
        self.machine, self.index = machine, index
        self.speed = speed
        self.turn = turn
        self.whole = max(1, math.floor(turn * speed))  # work of a turn
        self.left = Fraction(self.whole)  # of it, for each that is here
        self.back = None       # when the loads' turn ends, if they have it
        self.load = Fraction(0)
        self.here = set()      # threads
        self.since = Fraction(0)  # without threads; or load came or went
        self.looks = True      # and will look for a thread

    def share(self, b, n):
        """Its part of the machine's load: whole ones in turn, then the rest."""
        whole = math.floor(b)
        mine = Fraction(len(range(self.index, whole, n)))
        return mine + (b - whole if self.index == whole % n else 0)

    def set_load(self, b, n, now):
        was, self.load = self.load, self.share(b, n)
        if self.back is None and bool(was) != bool(self.load):
            self.since, self.looks = now, True
            self.left = Fraction(self.whole)

    def crowd(self):
        return len(self.here) + self.load

    def free(self):
        return not self.here and not self.load and self.back is None

    def rate(self):
        return self.speed / len(self.here) if self.back is None else Fraction(0)

    def next(self, cores):
        """When a turn ends, or it looks for a thread; None: never."""
        if self.back is not None:
            return self.back
        if self.here:
            return None if not self.load else self.left / self.rate()
        return self.since + self.turn if self.looks and cores > 1 else None

    def come(self, thread, now):
        if not self.here and self.back is None and 0 < self.load <= 1:
            self.left = min(Fraction(self.whole), self.left +
                            (now - self.since) * self.speed / 4)
        self.here.add(thread)
        thread.core = self

    def go(self, thread, now):
        self.here.remove(thread)
        if not self.here:
            self.since, self.looks = now, True


class Thread:
    def __init__(self, number, first, nodes, machine):
        self.number = number
        self.first = first
        self.nodes = nodes
        self.machine = machine
        self.at = 0            # the node that it goes to
        self.left = None       # work before that, None: done
        self.done = Fraction(0)
        self.run = self.blocked = Fraction(0)
        self.asked = None      # lock that it is in line for
        self.core = None       # where it has work, or had
        self.ran = None        # when it last had


class Replay:
    def __init__(self, ask, kept=()):
        self.ask = ask
        self.free = list(ask.get("locks", []))
        self.takes = {i: k for i, k in ask.get("takes", []) if k not in kept}
        self.gives = {i: k for i, k in ask.get("gives", []) if k not in kept}
        self.given = {}        # lock: nodes that gave it a unit
        self.taken = 0
        self.machines = [[Fraction(m[0]), Fraction(m[1], m[2]),
                          Fraction(m[3], m[4])] for m in ask["machines"]]
        self.moves = dict(map(tuple, ask["moves"]))
        self.loads = list(ask["loads"])
        self.threads, self.node = [], []
        for number, nodes in enumerate(ask["chains"]):
            first = len(self.node)
            self.threads.append(Thread(number, first, nodes,
                                       ask["map"][number]))
            self.node += nodes
        self.reach = [None] * len(self.node)
        self.work_end = [None] * len(self.node)
        self.where = [None] * len(self.node)
        self.media = ask.get("media", 0)
        self.bursts = ask.get("bursts") or [0] * self.media
        self.saved = [(Fraction(burst), Fraction(0)) for burst in self.bursts]
        self.begun = [None] * self.media
        self.waits = ask.get("waits") or [0] * len(self.node)
        if ask["external"] != "all":
            self.waits = [0] * len(self.node)
        self.receives = {}     # nodes by the node that sends
        for i, (_, kind, x, _) in enumerate(self.node):
            if kind == DATA and x >= 0:
                self.receives.setdefault(x, []).append(i)
        self.of = [t.number for t in self.threads for _ in t.nodes]
        self.transfers = {}    # first receiving node: [medium, left, rest, all]
        self.come = {}         # receiving node by a medium: when, or None
        self.idle = [Fraction(0)] * (len(self.machines) + self.media)
        self.now = Fraction(0)
        self.cores = {}        # of a machine, where there are turns
        self.near = False      # what a rounded time may have otherwise
        for m, (n, speed, load) in enumerate(self.machines):
            turn = ask["machines"][m][5]
            if turn and (load or any(
                    of == m and num for _, of, num, _ in self.loads)):
                self.cores[m] = [Core(m, i, turn, speed)
                                 for i in range(int(n))]
                for core in self.cores[m]:
                    core.set_load(load, int(n), self.now)

    def cross_time(self, i, to):
        """Nanoseconds of node i's cross arc, None where it is absent."""
        _, kind, x, length = self.node[i]
        external = self.ask["external"]
        if x < 0 or kind == 0 or i in self.takes \
                or kind == RESOURCE and self.ask["any_off"] \
                or kind == EXTERNAL and external == "off" \
                or kind == IDLE and external != "all":
            return None
        if kind in (EXTERNAL, IDLE):
            return length
        if kind != DATA:
            return 0
        if self.reach[x] is None:
            return 0  # asked again when it is known from where
        return self.message(self.where[x] * len(self.machines) + to, length)

    def message(self, pair, length):
        """Nanoseconds of a message: by its pair's curve, if it has one."""
        if not self.ask.get("curves") or not self.ask["curves"][pair]:
            base, per_byte = self.ask["mtime"][pair]
            return base + (length * per_byte >> 32)
        return self.by_curve(self.ask["curves"][pair], length)

    def on_wire(self, pair, length):
        """Nanoseconds that a message has its medium for, alone."""
        if self.ask.get("wires") and self.ask["wires"][pair]:
            return self.by_curve(self.ask["wires"][pair], length)
        return self.message(pair, length) - self.message(pair, 0)

    def by_curve(self, curve, length):
        slope, *points = curve
        if length <= points[0][0]:
            return points[0][1]
        for (a, t), (b, u) in zip(points, points[1:]):
            if length <= b:
                return t + (u - t) * (length - a) // (b - a)
        return points[-1][1] + ((length - points[-1][0]) * slope >> 32)

    def arrival(self, t):
        """When what thread t waits for is there; None: not known."""
        i = t.first + t.at
        waited = self.work_end[i] + self.waits[i]
        way = self.cross_time(i, t.machine)
        if way is None:
            return waited
        if i in self.come:
            come = self.come[i]
            return None if come is None else max(waited, come)
        sent = self.reach[self.node[i][2]]
        return None if sent is None else max(waited, sent + way)

    def send(self, x):
        """Node x is reached: what it sends by a medium is on its way."""
        pieces = {}  # what a thread receives of it is one message
        for i in self.receives.get(x, []) if self.media else []:
            pieces.setdefault(self.of[i], []).append(i)
        for thread, receives in pieces.items():
            pair = self.where[x] * len(self.machines) \
                + self.threads[thread].machine
            base = self.message(pair, 0)
            work = max(self.on_wire(pair, self.node[i][3]) for i in receives)
            medium = self.ask["medium"][pair]
            if medium < 0 or not work:
                continue
            left = self.unsaved(medium, work)
            self.come.update(dict.fromkeys(receives))
            if left:
                self.transfers[receives[0]] = [medium, left, base, receives]
            else:
                self.come.update(dict.fromkeys(receives, self.now + base))

    def unsaved(self, medium, work):
        """What is left of a transfer that begins now, when it has had what an
        idle medium has saved; a medium that is busy has nothing. Of two that begin
        at one moment the first has it, and which that is is nobody's to say."""
        saved, since = self.saved[medium]
        self.near = self.near or bool(self.bursts[medium] and
                                      self.begun[medium] is not None and
                                      self.now - self.begun[medium] < UNSURE)
        self.begun[medium] = self.now
        if self.transfer_rates()[medium]:
            return Fraction(work)
        saved = min(Fraction(self.bursts[medium]), saved + self.now - since)
        self.saved[medium] = max(saved - work, Fraction(0)), self.now
        return max(work - saved, Fraction(0))

    def transfer_rates(self):
        """Of each medium: how many divide it."""
        count = [0] * self.media
        for medium, *_ in self.transfers.values():
            count[medium] += 1
        return count

    def settle(self):
        """All that happens at this moment and takes no time."""
        more = True
        while more:
            more = False
            for t in self.threads:
                while t.at < len(t.nodes):
                    i = t.first + t.at
                    if t.left is None:  # comes to the arc before i
                        t.machine = self.moves.get(i, t.machine)
                        t.left = Fraction(t.nodes[t.at][0])
                    if t.left > 0:
                        break
                    if self.work_end[i] is None:
                        self.work_end[i] = t.done = self.now
                    if i in self.takes and t.asked is None:
                        t.asked = self.takes[i]
                    if t.asked is not None and t.asked >= 0:
                        break
                    come = self.arrival(t)
                    if come is None or come > self.now:
                        break
                    if t.at:
                        t.blocked += self.now - t.done
                    self.reach[i] = self.now
                    self.where[i] = t.machine
                    self.send(i)
                    if i in self.gives:
                        self.free[self.gives[i]] += 1
                        self.given.setdefault(self.gives[i], []).append(i)
                    t.asked = None
                    t.at += 1
                    t.left = None
                    more = True

    def line(self, lock):
        return sorted((t for t in self.threads if t.asked == lock),
                      key=lambda t: (t.done, t.number))

    def grant(self):
        """What is free goes to those in line. False: nothing does."""
        some = False
        for lock, units in enumerate(self.free):
            for t in self.line(lock)[:units]:
                i = t.first + t.at
                t.asked = -1  # has it
                self.free[lock] -= 1
                self.taken += 1
                some = True
        return some

    def may_have_given(self, x, i):
        """Did node i wait for the unit that x gave? x -1: it did not wait."""
        if x < 0:
            return self.reach[i] - self.work_end[i] < UNSURE
        return x in self.given.get(self.takes[i], []) \
            and abs(self.reach[i] - self.reach[x]) < UNSURE

    def close_call(self):
        """Did two ask for one lock at the same moment, as far as times that are
        rounded tell? Then either may have been first."""
        asked = {}
        for i, lock in self.takes.items():
            asked.setdefault(lock, []).append(self.work_end[i])
        return any(b - a < UNSURE for times in map(sorted, asked.values())
                   for a, b in zip(times, times[1:]))

    def place(self):
        """Threads that have work again come to their cores."""
        for t in self.threads:
            if t.machine not in self.cores or t.at == len(t.nodes) \
                    or not t.left or t.core and t in t.core.here:
                continue
            cores = self.cores[t.machine]
            had = t.core if t.core in cores else None
            if had and t.ran == self.now:
                choice = had
            elif had and had.free():
                choice = had
            elif any(core.free() for core in cores):
                choice = next(core for core in cores if core.free())
            elif had and had.crowd() == min(core.crowd() for core in cores):
                choice = had
            else:
                choice = min(cores, key=lambda core: (
                    core.crowd(), len(core.here), core.index))
            choice.come(t, self.now)

    def keep(self):
        """Those that have work again at once did not go."""
        for t in self.threads:
            if t.at < len(t.nodes) and t.left and t.core and t.ran == self.now \
                    and t.core.machine == t.machine and t not in t.core.here:
                t.core.come(t, self.now)

    def leave(self):
        for cores in self.cores.values():
            for core in cores:
                for t in [t for t in core.here if not t.left]:
                    t.ran = self.now
                    core.go(t, self.now)

    def turns(self):
        """What cores do of themselves, by number."""
        for cores in self.cores.values():
            for core in cores:
                when = core.next(len(cores))
                if core.back is not None:
                    if when == self.now:
                        core.back = None
                        core.left = Fraction(core.whole)
                        core.since, core.looks = self.now, True
                elif core.here:
                    if when == 0:
                        takes = math.floor(core.turn * core.load)
                        core.left = Fraction(core.whole)
                        core.back = self.now + takes if takes else None
                elif when == self.now:
                    core.looks = False
                    crowded = [c for c in cores
                               if c.here and c.crowd() > core.crowd() + 1]
                    if crowded:
                        busiest = max(crowded, key=lambda c: (
                            c.crowd(), -c.index))
                        t = min(busiest.here, key=lambda t: t.number)
                        busiest.go(t, self.now)
                        core.come(t, self.now)

    def moments(self):
        """Of what comes next of cores: all, for step(). Two that are near each
        other, and of one machine, may come otherwise of rounded times."""
        for cores in self.cores.values():
            some = []
            for core in cores:
                when = core.next(len(cores))
                if when is not None and core.here and core.back is None:
                    when += self.now
                some += [when] if when is not None else []
                some += sorted({self.now + t.left / core.rate()
                                for t in core.here if core.back is None})
            some.sort()
            self.near = self.near or any(
                b - a < UNSURE for a, b in zip(some, some[1:]))
            yield from some

    def rates(self):
        active = [[] for _ in self.machines]
        for t in self.threads:
            if t.at < len(t.nodes) and t.left:
                active[t.machine].append(t)
        even = [s * min(Fraction(1), n / (len(who) + b)) if who else None
                for (n, s, b), who in zip(self.machines, active)]
        return active, {t: t.core.rate() if m in self.cores else even[m]
                        for m, who in enumerate(active) for t in who}

    def step(self):
        """To the next moment at which something happens. False: none."""
        active, rate = self.rates()
        times = [self.now + t.left / rate[t]
                 for who in active for t in who if rate[t]]
        if any(t.at < len(t.nodes) for t in self.threads):
            times += self.moments()
        for t in self.threads:
            if t.at < len(t.nodes) and t.left == 0 and t.asked is None:
                come = self.arrival(t)
                if come is not None:
                    times.append(come)
        shared = self.transfer_rates()
        times += [self.now + left * shared[medium]
                  for medium, left, *_ in self.transfers.values()]
        if not times:
            return False
        then = min(times)
        if self.loads and self.loads[0][0] <= then:
            then = max(self.now, Fraction(self.loads[0][0]))
        for m, who in enumerate(active):
            if not who:
                self.idle[m] += then - self.now
            for t in who:
                t.left -= (then - self.now) * rate[t]
                t.run += (then - self.now) * rate[t] / self.machines[m][1]
        for cores in self.cores.values():
            for core in cores:
                if core.here and core.load:
                    core.left -= (then - self.now) * core.rate()
        for medium, count in enumerate(shared):
            if not count:
                self.idle[len(self.machines) + medium] += then - self.now
        for i, transfer in list(self.transfers.items()):
            transfer[1] -= (then - self.now) / shared[transfer[0]]
            if not transfer[1]:
                self.come.update(
                    dict.fromkeys(transfer[3], then + transfer[2]))
                del self.transfers[i]
                self.saved[transfer[0]] = Fraction(0), then
        self.now = then
        while self.loads and self.loads[0][0] <= self.now:
            _, m, num, den = self.loads.pop(0)
            self.machines[m][2] = Fraction(num, den)
            for core in self.cores.get(m, []):
                core.set_load(Fraction(num, den), int(self.machines[m][0]),
                              self.now)
        self.leave()
        return True

    def solve(self):
        more = True
        while more:
            self.settle()
            while self.grant():
                self.settle()
            self.keep()
            self.turns()
            self.place()
            more = self.step()
        if None in self.reach:
            raise Stalled("nodes never reached")
        return self


def solved(ask):
    """The replay, and how many locks keep the recorded order in it."""
    kept = set()
    for attempt in range(4):
        r = Replay(ask, kept)
        try:
            return r.solve(), len(kept)
        except Stalled:
            awaited = {t.asked for t in r.threads if t.asked is not None}
            if not awaited:
                raise
            kept |= awaited if attempt < 2 else set(range(len(ask["locks"])))
    raise Stalled("as recorded, too")


def unsure(ask):
    r = solved(ask)[0]
    return bool(ask.get("locks")) and r.close_call() or r.near


def near(ask, told, exact):
    turns = max(2 * told // m[5] if m[5] else 0 for m in ask["machines"])
    turns = min(turns, 4096)
    off = max(UNSURE, Fraction(UNITS + turns, 1 << ask["bits"]))
    return -off <= told - exact + FORGIVEN < 1 + 2 * off


def differences(ask):
    """What the C answer in `ask` has wrong, in words."""
    r, kept = solved(dict(ask, waits=None))
    if (kept, r.taken) != (ask.get("kept", 0), ask.get("taken", 0)):
        yield "%d units taken, %d locks kept, not %d, %d" % (
            ask["taken"], ask["kept"], r.taken, kept)
        return
    for i, exact in enumerate(r.reach):
        if not near(ask, ask["reach"][i], exact):
            yield "node %d reached at %d, not %.4f" % (
                i, ask["reach"][i], exact)
    ends = [t.first + len(t.nodes) - 1 for t in r.threads]
    if ask["makespan"] != max(ask["reach"][i] for i in ends):
        yield "makespan is not the last END"
    for m, exact in enumerate(r.idle):
        if not near(ask, ask["idle"][m], exact):
            yield "machine %d idle %d, not %.4f" % (m, ask["idle"][m], exact)
    yield from contracted_differences(ask, r)
    yield from account_differences(ask, r)
    yield from weight_differences(ask, r)


def contracted_differences(ask, r):
    """Of the graph that is made for a replay: with waits, where there are any;
    what it keeps is reached when it is in the whole one."""
    if ask.get("waits"):
        r = solved(ask)[0]
    for i, told in enumerate(ask.get("contracted", [])):
        if told >= 0 and not near(ask, told, r.reach[i]):
            yield "node %d of the contracted graph reached at %d, not %.4f" % (
                i, told, r.reach[i])


def account_differences(ask, r):
    """Blocks are differences of rounded times, summed up: each may be one off."""
    for t in r.threads:
        start, end, run, queued, blocked = ask["account"][t.number]
        last = t.first + len(t.nodes) - 1
        slack = len(t.nodes) + 1
        if start != ask["reach"][t.first] or end != ask["reach"][last] \
                or run + queued + blocked != end - start \
                or abs(blocked - t.blocked) > slack \
                or abs(run - t.run) > slack:
            yield "chain %d: %s, not run %.3f, blocked %.3f" % (
                t.number, ask["account"][t.number], t.run, t.blocked)


def weight_differences(ask, r):
    """The relabelled graph: each arc to 1 ns, its longest path the replay."""
    for t in r.threads:
        for k in range(len(t.nodes)):
            i = t.first + k
            begin = r.reach[i - 1] if k else 0
            weight = ask["weight"][i]
            exact = r.work_end[i] - begin if k else 0
            if abs(weight - exact) >= (1 + 2 * UNSURE if k else 1):
                yield "arc to %d relabelled %d, not %.4f" % (
                    i, weight, exact)
            longest = (ask["reach"][i - 1] if k else 0) + weight
            way = r.cross_time(i, r.where[i])
            if i in r.takes:
                x = ask["giver"][i]
                if not r.may_have_given(x, i):
                    yield "node %d has its unit of node %d" % (i, x)
                elif x >= 0:
                    longest = max(longest, ask["reach"][x])
            if i in r.come:
                longest = max(longest, ask["reach"][i])  # as long as it takes
            elif way is not None:
                longest = max(longest, ask["reach"][r.node[i][2]] + way)
            if longest != ask["reach"][i]:
                yield "longest path of the relabelled graph to %d: %d" % (
                    i, longest)


def main():
    graphs = nodes = wrong = forgiven = 0
    for line in sys.stdin:
        ask = json.loads(line)
        graphs += 1
        nodes += len(ask["reach"])
        found = list(differences(ask))
        if found and unsure(ask):
            forgiven += 1
            continue
        for text in found:
            wrong += 1
            print("seed %d: %s" % (ask["seed"], text))
    print("%d graphs, %d nodes, %d differences, %d close calls" % (
        graphs, nodes, wrong, forgiven))
    return 1 if wrong or not graphs or forgiven > 1 + graphs // 500 else 0


if __name__ == "__main__":
    sys.exit(main())
