"""Delays of single calls in unmodified programs (tests/programs/delay), and what
a recorded graph says of them. Shares no code with the C engines.

    log = Log(path)                   the library's log, an empty one
    env = log.environment(library, "program=sort,call=write,us=1000")
    log.entries()                     what it did: [Entry]
    model = Model(nodes)              of `ipsq graph`, weighting wall
    model.nodes_of(entries)           {node: ns of delay before it}
    model.longest({node: ns})         Path with these delays in it
"""
import bisect
import collections
import mmap
import os
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "oracle"))
import path_oracle  # noqa: E402

ROOM = 1 << 25
ENTRY = struct.Struct("<iiIiQQQQQQ16s")  # as in tests/programs/delay/delay.c
Entry = collections.namedtuple("Entry", "pid tid call forks number at elapsed "
                               "cpu site arg program")
CALLS = [line[5:-1] for line in
         (pathlib.Path(__file__).parents[1] / "programs" / "delay" / "calls.h")
         .read_text().splitlines() if line.startswith("CALL(")]


class Log:
    def __init__(self, path):
        self.path = str(path)
        self.clear()

    def clear(self):
        with open(self.path, "wb") as f:
            f.truncate(ROOM)
        os.chmod(self.path, 0o666)  # servers change their user

    def environment(self, library, what):
        return {"LD_PRELOAD": str(library), "DELAY": what,
                "DELAY_LOG": self.path}

    def entries(self):
        """In order of time. Raises where there was more than there is room for."""
        with open(self.path, "rb") as f, \
                mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as m:
            (used,) = struct.unpack_from("<Q", m)
            if 8 + used * ENTRY.size > len(m):
                raise RuntimeError(f"{self.path}: {used} entries")
            found = [Entry(*ENTRY.unpack_from(m, 8 + i * ENTRY.size))
                     for i in range(used)]
        return sorted((e._replace(call=CALLS[e.call],
                                  program=e.program.split(b"\0")[0].decode())
                       for e in found), key=lambda e: e.at)


# ns; the nodes whose own arc is on the path
Path = collections.namedtuple("Path", "ns own")


class Model:
    """The graph in weighting wall: a chain's first node is worth the time until
    it began, and the path ends at the goal, the END of the first process."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.order = path_oracle.topological(nodes)
        first = min(nodes)
        self.goal = max(i for i, n in nodes.items() if n["kind"] == "END" and
                        (n["machine"], n["tid"]) ==
                        (nodes[first]["machine"], nodes[first]["tid"]))
        self.threads = collections.defaultdict(list)
        for i in sorted(nodes):
            n = nodes[i]
            self.threads[n["pid"], n["tid"]].append((n["t_ns"], i))

    def nodes_of(self, entries):
        """The delay before each node: that of calls since the node before."""
        found = collections.Counter()
        for e in entries:
            thread = self.threads.get((e.pid, e.tid), ())
            at = bisect.bisect_left(thread, (e.at, 0))
            if at < len(thread):
                found[thread[at][1]] += e.elapsed
        return found

    def longest(self, delays=()):
        delays = dict(delays)
        est, how = {}, {}
        for i in self.order:
            n = self.nodes[i]
            own = (n["arc_wall_ns"] or 0) + delays.get(i, 0)
            best, by = own, "first"
            if n["pred"] is not None:
                best, by = est[n["pred"]] + own, "own"
            if n["xpred"] is not None:
                other = est[n["xpred"]] + (n["xarc_wall_ns"] or 0)
                if other > best:
                    best, by = other, "cross"
            est[i], how[i] = best, by
        own, i = set(), self.goal
        while True:
            if how[i] == "own":
                own.add(i)
            if how[i] == "first":
                break
            i = self.nodes[i]["pred" if how[i] == "own" else "xpred"]
        return Path(est[self.goal], own)

    def arc(self, i):
        return self.nodes[i]["arc_wall_ns"] or 0

    @staticmethod
    def on(own, delays):
        """What of the delays lies on a path with these nodes' own arcs."""
        return sum(ns for i, ns in delays.items() if i in own)


def own_of_answer(nodes, answer):
    """The nodes whose own arc is on the path that `ipsq path` gave."""
    own = set()
    for s in answer["segments"]:
        i = s["to_node"]
        while s["kind"] == "compute" and i != s["from_node"]:
            if nodes[i]["pred"] is not None:
                own.add(i)
            i = nodes[i]["pred"]
    return own
