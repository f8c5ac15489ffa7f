#!/usr/bin/python3
"""Threads that take pieces of work under a lock, by a simulation of the program
itself with exact fractions.

usage: crew_graph FIRST COUNT | tests/oracle/crew_oracle.py

Here is no graph: the threads are programs (generators) that compute, take
locks, and count pieces under lock 0. The C side had a graph of such a program,
with pieces taken in a random order, and had to find out that it was one, and
what it would do elsewhere.

At one moment all that takes no time comes first; then locks that are free go to
who asked first, of one moment to the first thread. Times that are nearer than
the C side's fractions of a ns are forgiven, as in queue_oracle.py.
"""
import json
import sys
from fractions import Fraction

import queue_oracle

WORK, LOCK, JOIN, END = range(4)
UNSURE = queue_oracle.UNSURE


class Crew(queue_oracle.Machines):
    def __init__(self, ask):
        super().__init__(ask, ask["workers"] + 1)
        self.next, self.had = 0, []
        self.locked, self.lines = [False, False], [[], []]
        self.made = [True] + [False] * ask["workers"]
        self.run = [self.main()] + [self.work(v) for v in range(ask["workers"])]

    def main(self):
        for v, fork in enumerate(self.ask["fork"]):
            yield WORK, fork
            self.made[v + 1] = True
            self.go(v + 1)
        for v in range(self.ask["workers"]):
            yield JOIN, v + 1

    def hold(self, lock, ns):
        yield LOCK, lock
        yield WORK, ns
        self.locked[lock] = False

    def work(self, v):
        yield WORK, self.ask["connect"][v]
        while True:
            yield LOCK, 0
            piece, self.next = self.next, self.next + 1
            if piece >= len(self.ask["pieces"]):
                break
            self.had.append((v, self.now))
            inside, work, shares, shared, behind = self.ask["pieces"][piece]
            yield WORK, inside
            self.locked[0] = False
            yield WORK, work
            if shares:
                yield from self.hold(1, shared)
            yield WORK, behind
        yield WORK, self.ask["none"]
        self.locked[0] = False
        yield WORK, self.ask["end"][v]

    def asks(self, c, kind, what):
        if kind == LOCK:
            line = self.lines[what]
            self.near = self.near or any(0 < self.now - t < UNSURE
                                         for t, _ in line)
            line.append((self.now, c))
            line.sort()

    def settle(self):
        if super().settle():
            return True
        free = [k for k, line in enumerate(self.lines)
                if line and not self.locked[k]]
        had = [(k, self.lines[k].pop(0)[1]) for k in free]
        for k, _ in had:
            self.locked[k] = True
        for _, c in had:
            self.go(c)
        return bool(had)

    def ready(self, c):
        return self.wants[c] == JOIN and self.ends[self.what[c]] is not None


def differences(ask):
    """What the C answer has wrong, in words; and whether times were too near to
    tell."""
    p = Crew(ask).solve()
    if [v for v, _ in p.had] != [v for v, _ in ask["had"]]:
        return ["pieces had by %s, not %s" % (
            [v for v, _ in ask["had"]], [v for v, _ in p.had])], p.near
    return queue_oracle.wrong_times(
        list(zip([t for _, t in ask["had"]], [t for _, t in p.had])) +
        list(zip(ask["ends"], p.ends)) +
        [(ask["makespan"], max(p.ends))]), p.near


if __name__ == "__main__":
    sys.exit(queue_oracle.main(differences))
