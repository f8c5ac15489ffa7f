"""What really happened in a random program (random_program.py), from its plan and
its log, against what `ipsq graph` says: arc by arc.

A node belongs to the operation in whose log entries its time lies. The bytes of
each call, the order of closes and the senders of signals are in the log; all else
is in the plan. Nothing here is taken from the agent or from the slave.
"""
import collections
import pathlib
import struct

ENTRY = struct.Struct("=IIQQqq")
HEADER = struct.Struct("=QQQQ")
CALLS = ("op", "read", "write", "poll", "close", "range")
NEVER = 1 << 62

Entry = collections.namedtuple("Entry", "op call before after result extra")
Place = collections.namedtuple("Place", "thread op")  # op: or "start", "end"
Arc = collections.namedtuple("Arc", "effect kind xkind cause text")


class Log:
    """One thread's."""

    def __init__(self, path):
        data = pathlib.Path(path).read_bytes()
        self.pid, self.tid, count, _ = HEADER.unpack_from(data)
        raw = [ENTRY.unpack_from(data, HEADER.size + i * ENTRY.size)
               for i in range(count)]
        self.entries = []
        for i, (op, call, before, after, result, extra) in enumerate(raw):
            if not after:  # it did not return: an exec
                after = raw[i + 1][2] if i + 1 < count else NEVER
            self.entries.append(Entry(op, CALLS[call], before, after, result,
                                      extra))

    def of(self, op, call=None):
        return [e for e in self.entries
                if e.op == op and call in (None, e.call)]

    def op_at(self, t_ns):
        """The operation whose entries enclose a time, None between two."""
        first, last = {}, {}
        for e in self.entries:
            first.setdefault(e.op, e.before)
            last[e.op] = e.after
        for op, before in first.items():
            if before <= t_ns <= last[op]:
                return op
        if not first or t_ns < min(first.values()):
            return "start"
        return "end" if t_ns > max(last.values()) else None


def read_logs(directory, plan):
    return [Log("%s/T%d" % (directory, t.number)) for t in plan.threads]


class Graph:
    """The nodes of a run by the threads of a plan."""

    def __init__(self, nodes, plan, logs):
        self.plan, self.logs = plan, logs
        self.by_id = {n["id"]: n for n in nodes}
        self.errors, self.place = [], {}
        known = {(log.pid, log.tid): i for i, log in enumerate(logs)}
        seen = collections.Counter()
        for n in nodes:
            thread = known.get((n["pid"], n["tid"]))
            if thread is None:
                self.errors.append("a thread that is not the plan's: pid %d, "
                                   "tid %d" % (n["pid"], n["tid"]))
                continue
            seen[thread] += n["pred"] is None
            op = {"START": "start", "END": "end"}.get(n["kind"]) or \
                logs[thread].op_at(n["t_ns"])
            self.place[n["id"]] = Place(thread, op)
        for i in range(len(logs)):
            if seen[i] != 1:
                self.errors.append("T%d has %d chains" % (i, seen[i]))
        self.errors = sorted(set(self.errors))

    def nodes_at(self, place, *kinds):
        return [n for i, n in sorted(self.by_id.items())
                if self.place.get(i) == place and n["kind"] in kinds]

    def say(self, node):
        place = self.place.get(node["id"])
        where = self.plan.say(*place) if place else "nowhere"
        return "%s in %s (node %d)" % (node["kind"], where, node["id"])


class Judge:
    """Compares; `errors` is what is wrong, a line each."""

    def __init__(self, plan, logs, nodes):
        self.plan, self.logs = plan, logs
        self.graph = Graph(nodes, plan, logs)
        self.errors = list(self.graph.errors)
        self.explained = set()  # ids of nodes whose arc is right
        self.musts = self.mays = 0
        if self.errors:
            return
        self._births()
        self._streams()
        self._connections()
        self._waits()
        self._sigchld()
        self._sleeps()
        self._rooms()
        self._rest()

    # --- how an arc is checked -------------------------------------------

    def _fail(self, effect, expected, found):
        self.errors.append("%s\n    expected: %s\n    found:    %s" % (
            self.plan.say(*effect) if isinstance(effect, Place) else effect,
            expected, found))

    def _arc(self, node):
        cause = self.graph.by_id.get(node["xpred"])
        if cause is None:
            return "no arc"
        return "%s from %s" % (node["xkind"], self.graph.say(cause))

    def _check(self, effect, node, xkind, causes, expected, must=True):
        """`node` depends on one of the nodes `causes`, by their ids."""
        self.musts += must
        self.mays += not must
        if node is None:
            if must:
                self._fail(effect, expected, "no such node")
            return
        if node["xpred"] is None and not must:
            return
        if node["xkind"] == xkind and node["xpred"] in causes:
            self.explained.add(node["id"])
        else:
            self.explained.add(node["id"])  # one complaint is enough
            self._fail(effect, expected, self._arc(node))

    def _ids(self, place, *kinds):
        return {n["id"] for n in self.graph.nodes_at(place, *kinds)}

    def _only(self, place, *kinds):
        found = self.graph.nodes_at(place, *kinds)
        return found[0] if len(found) == 1 else None

    def _last_end(self, thread):
        return self._ids(Place(thread, "end"), "END")

    # --- lifetimes -------------------------------------------------------

    def _births(self):
        for t in self.plan.threads:
            start = self._only(Place(t.number, "start"), "START")
            if t.born is None:
                if start is None or start["xpred"] is not None:
                    self._fail(Place(t.number, "start"), "START, no arc",
                               start and self._arc(start) or "none")
                continue
            born = Place(*t.born)
            self._check(Place(t.number, "start"), start, "lifetime",
                        self._ids(born, "FORK"),
                        "lifetime from FORK in " + self.plan.say(*born))
            if self.plan.threads[born.thread].ops[born.op][0] == "SPAWN":
                self._spawn(born, t)
            if t.ended_by:
                join = Place(*t.ended_by)
                self._check(join, self._only(join, "JOIN"), "lifetime",
                            self._last_end(t.number),
                            "JOIN: lifetime from END of T%d" % t.number)

    def _spawn(self, born, child):
        aux = self._only(born, "AUX")
        self._check(born, aux, "lifetime",
                    self._ids(Place(child.number, "start"), "AUX", "START"),
                    "AUX: lifetime from T%d's beginning" % child.number)

    # --- data ------------------------------------------------------------

    def _ops_on(self, c, *names):
        """(thread, op) of all operations on a channel, in their order."""
        return [(t, i) for t in self.plan.threads
                for i, o in enumerate(t.ops)
                if o[0] in names and o[1] == c.number]

    def _calls(self, c, names, call, kind):
        """[(place, entry, node)] of the calls on a channel that moved bytes or
        saw the end, the k-th of an operation with its k-th node of `kind`."""
        out = []
        for t, op in self._ops_on(c, *names):
            place = Place(t.number, op)
            entries = self.logs[t.number].of(op, call)
            nodes = self.graph.nodes_at(place, kind)
            if len(entries) != len(nodes):
                self._fail(place, "%d %s nodes" % (len(entries), kind),
                           "%d" % len(nodes))
                nodes = [None] * len(entries)
            out += zip([place] * len(entries), entries, nodes)
        return out

    def _streams(self):
        for c in self.plan.channels:
            if c.kind == "EVENTFD":
                continue
            writes = self._calls(c, ("SEND", "SEND_DATAGRAM"), "write", "SEND")
            reads = self._calls(c, ("RECEIVE",), "read", "RECV")
            if c.kind in ("UDP", "UNIX_DGRAM"):
                self._datagrams(writes, reads)
                continue
            ends, at = [], 0
            for place, entry, node in writes:
                at += entry.result
                ends.append((at, place, node))
            at = 0
            for place, entry, node in reads:
                at += entry.result
                if entry.result == 0:
                    self._end_of_file(c, place, entry, node)
                    continue
                _, cause, send = next(e for e in ends if e[0] >= at)
                self._check(place, node, "data", {send and send["id"]},
                            "data from SEND in %s, to byte %d" % (
                                self.plan.say(*cause), at))

    def _datagrams(self, writes, reads):
        for (place, entry, node), (cause, sent, send) in zip(reads, writes):
            assert entry.result == sent.result
            self._check(place, node, "data", {send and send["id"]},
                        "data from SEND in " + self.plan.say(*cause))

    def _end_of_file(self, c, place, entry, node):
        """From the shutdown, or the last close of the writing end that began
        before the receive returned. Closes that overlap: either."""
        ended = [Place(t.number, op) for t, op in self._ops_on(c, "SHUTDOWN")]
        if not ended:
            ended = self._last_closers(c, entry.after)
        causes = set().union(*(self._ids(p, "AUX", "END") for p in ended))
        self._check(place, node, "lifetime", causes,
                    "end-of-file: lifetime from AUX in " +
                    " or ".join(self.plan.say(*p) for p in ended))

    def _last_closers(self, c, before):
        found = [(e, Place(t, e.op)) for t, log in enumerate(self.logs)
                 for e in log.entries
                 if e.call == "close" and e.extra == 2 * c.number + 1 and
                 e.result == 0 and e.before < before]
        latest = max(e.after for e, _ in found)
        begun = [e for e, _ in found if e.after == latest][0].before
        return [p for e, p in found if e.after >= begun]

    def _connections(self):
        for c in self.plan.channels:
            for t, op in self._ops_on(c, "ACCEPT"):
                cause, = [Place(s.number, o)
                          for s, o in self._ops_on(c, "CONNECT")]
                place = Place(t.number, op)
                self._check(place, self._only(place, "RECV"), "data",
                            self._ids(cause, "SEND"),
                            "data from SEND in " + self.plan.say(*cause))

    def _rooms(self):
        """A send that waited for room depends on a receive from that channel
        that had begun when it returned; and not on one before the last of
        those that were over by then."""
        for node in self.graph.by_id.values():
            if node["xkind"] != "room":
                continue
            place = self.graph.place[node["id"]]
            t, op = place
            name, number = self.plan.threads[t].ops[op][:2] \
                if isinstance(op, int) else (None, None)
            if name != "SEND":
                continue
            c = self.plan.channels[number]
            after = min(e.after for e in self.logs[t].of(op, "write")
                        if e.before <= node["t_ns"] <= e.after)
            reads = [(e, n) for _, e, n in
                     self._calls(c, ("RECEIVE",), "read", "RECV")]
            over = [e.before for e, _ in reads if e.after <= after]
            begun = max(over, default=0)
            self._check(place, node, "room",
                        {n["id"] for e, n in reads if n and
                         begun <= e.before <= after},
                        "room from the last receive before %d" % after)

    # --- what the plan knows ---------------------------------------------

    def _waits(self):
        for w in self.plan.wait:
            effect, cause = Place(*w.effect), Place(*w.cause)
            nodes = self.graph.nodes_at(effect, "AUX")
            mine = [n for n in nodes if n["xkind"] == w.xkind and
                    self.graph.place.get(n["xpred"]) == cause]
            mine = mine or [n for n in nodes if n["xpred"] is not None and
                            n["id"] not in self.explained] or nodes
            if not w.must and (not mine or mine[0]["xpred"] is None):
                continue
            self._check(effect, mine[0] if mine else None, w.xkind,
                        self._ids(cause, "AUX"),
                        "%s from AUX in %s" % (w.xkind, self.plan.say(*cause)),
                        w.must)

    def _sigchld(self):
        """The log has the child's number."""
        main = {self.logs[p.main.number].pid: p.main.number
                for p in self.plan.processes}
        for t in self.plan.threads:
            for op, o in enumerate(t.ops):
                if o[:2] == ["SIGWAIT", 17]:
                    place = Place(t.number, op)
                    child = main[self.logs[t.number].of(op)[0].extra]
                    self._check(place, self._only(place, "AUX"), "signal",
                                self._last_end(child),
                                "signal from END of T%d" % child)

    def _sleeps(self):
        for t in self.plan.threads:
            for op, o in enumerate(t.ops):
                if o[0] == "SLEEP":
                    place = Place(t.number, op)
                    nodes = self.graph.nodes_at(place, "AUX")
                    self._check(place, nodes[-1] if nodes else None,
                                "external", {n["id"] for n in nodes[:1]},
                                "external from its own AUX")

    def _rest(self):
        for node in self.graph.by_id.values():
            if node["xpred"] is not None and node["id"] not in self.explained:
                self._fail(self.graph.say(node), "no arc", self._arc(node))


def judge_certificate(answer):
    """What a path's certificate says of a plan that leaves nothing open."""
    wrong, c = [], answer["certificate"]
    for key in ("unmatched", "ambiguous", "pending", "any_unmatched",
                "untraced_processes"):
        if c[key]:
            wrong.append("certificate: %s is %s" % (key, c[key]))
    for key in ("lost", "missing_machines"):
        if c[key]:
            wrong.append("certificate: %s: %s" % (key, c[key]))
    wrong += ["certificate: unseen: " + text for text in c["unseen"]
              if not text.startswith("raw futexes and runtimes")]
    if not c["complete"]:
        wrong.append("certificate: not complete: %s" % c["notes"])
    return wrong
