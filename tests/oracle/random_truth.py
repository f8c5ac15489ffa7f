"""What really happened in a random program (random_program.py), from its plan
and its log, against what `ipsq graph` says: arc by arc.

A node belongs to the operation in whose log entries its time lies. The bytes
of each call, the order of closes and the senders of signals are in the log; all
else is in the plan. Nothing here is taken from the agent or from the slave.
"""
import collections
import pathlib
import struct

from random_program import BY_NAME, STREAMS

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
        self.unseen_mays = 0  # waits that may have been, without an arc
        if self.errors:
            return
        self._births()
        self._streams()
        self._broken()
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
        if node["xkind"] == xkind and node["xpred"] in causes:
            self.explained.add(node["id"])
        else:
            self.explained.add(node["id"])  # one complaint is enough
            self._fail(effect, expected, self._arc(node))

    def _ids(self, place, *kinds):
        return {n["id"] for n in self.graph.nodes_at(place, *kinds)}

    def _only(self, place, *kinds):
        found = self.graph.nodes_at(place, *kinds)
        if len(found) > 1:
            self._fail(place, "one %s" % " or ".join(kinds), "; ".join(
                "node %d at %d, %s" % (n["id"], n["t_ns"], self._arc(n))
                for n in found))
        return found[0] if len(found) == 1 else None

    def _last_end(self, thread, or_before=False):
        """END of a thread; or_before: or the node before it, where the exit
        still went on when it was seen (docs/design/build.md, "Sends and causality")."""
        ends = self.graph.nodes_at(Place(thread, "end"), "END")
        return {n["id"] for n in ends} | \
            {n["pred"] for n in ends if or_before}

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
                for i, o in enumerate(t.ops) if o[0] in names and
                (o[1] == c.number or
                 o[0] == "RECEIVE_BOTH" and o[3] == c.number)]

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
            out += [(place, e, n) for e, n in zip(entries, nodes)
                    if call != "read" or e.extra == c.number]
        return out

    def _streams(self):
        for c in self.plan.channels:
            if c.kind == "EVENTFD":
                continue
            writes = self._calls(c, ("SEND", "SEND_DATAGRAM"), "write", "SEND")
            reads = self._calls(c, ("RECEIVE", "RECEIVE_BOTH"), "read", "RECV")
            if c.kind in ("UDP", "UNIX_DGRAM"):
                self._datagrams(writes, reads)
                continue
            ends, at = [], 0
            for place, entry, node in writes:
                at += entry.result
                ends.append((at, place, node))
            self._polls(c, ends, reads)
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

    def _polls(self, c, ends, reads):
        """What ended a poll before a receive: the send of the first byte that had not
        been received, or the end of the channel. One that only lost its core has no arc."""
        at, seen = 0, set()
        for place, entry, read in reads:
            for node in self.graph.nodes_at(place, "POLL") if read else ():
                if node["id"] in seen or node["id"] > read["id"] or \
                        node["channel"] != read["channel"]:
                    continue
                seen.add(node["id"])
                if node["xpred"] is None:
                    continue
                later = [(cause, send) for end, cause, send in ends if end > at]
                if later:
                    cause, send = later[0]
                    self._check(place, node, "data", {send and send["id"]},
                                "POLL: data from SEND in %s, byte %d" % (
                                    self.plan.say(*cause), at + 1), must=False)
                else:
                    self._end_of_file(c, place, entry, node)
            at += entry.result

    def _datagrams(self, writes, reads):
        for (place, entry, node), (cause, sent, send) in zip(reads, writes):
            assert entry.result == sent.result
            self._check(place, node, "data", {send and send["id"]},
                        "data from SEND in " + self.plan.say(*cause))

    def _end_of_file(self, c, place, entry, node):
        """From the shutdown, or the last close of the writing end that began
        before the receive returned."""
        ended = [Place(t.number, op) for t, op in self._ops_on(c, "SHUTDOWN")]
        self._gone(place, node, ended or self._last_closers(c, 1, entry.after))

    def _gone(self, place, node, ended):
        causes = set()
        for p in ended:
            causes |= self._last_end(p.thread, True) if p.op == "end" \
                else self._ids(p, "AUX")
        self._check(place, node, "lifetime", causes,
                    "the end of the channel: lifetime from " +
                    " or ".join(self.plan.say(*p) for p in ended))

    def _last_closers(self, c, side, before):
        """Places of the last close of an end before a time, and of those that
        may have come after it."""
        found = []  # (began, over, place)
        owner = (c.writer if side else c.reader).process
        for t, log in enumerate(self.logs):
            for e in log.entries:
                mine = e.call == "close" and e.extra == 2 * c.number + side \
                    and e.result == 0
                # A connection is its maker's; a child that was born at the time
                # may have taken it along, or a descriptor of another number.
                extra = c.kind in BY_NAME and self._line_has(owner, t) and \
                    (mine or e.call == "range")
                mine = mine and (c.kind not in BY_NAME or
                                 self.plan.threads[t].process is owner)
                if (mine or extra) and e.before < before:
                    found.append((e.before, 0 if extra else e.after,
                                  Place(t, e.op)))
        if not any(p.thread in [t.number for t in owner.threads]
                   for _, over, p in found if over):
            main, waited = owner.main, NEVER
            if main.ended_by:
                waited = self.logs[main.ended_by[0]].of(main.ended_by[1])[-1] \
                    .after
            found.append((self.logs[main.number].entries[-1].after, waited,
                          Place(main.number, "end")))
        begun = max((over, began) for began, over, _ in found)[1]
        return [p for began, over, p in found
                if max(began, over) >= begun]

    def _line_has(self, owner, thread):
        """Is a thread's process a child of `owner`?"""
        return self.plan.threads[thread].process.parent is owner

    def _broken(self):
        for c in self.plan.channels:
            for t, op in self._ops_on(c, "SEND_BROKEN"):
                place = Place(t.number, op)
                last = self.logs[t.number].of(op, "write")[-1]
                self._gone(place, self._only(place, "AUX"),
                           self._last_closers(c, 0, last.after))

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
        """A send that waited for room depends on the receive that made it, or
        on the last one that was over when it returned (ALGORITHMS 1: where the
        two differ, that one was under way). A pipe holds 64 KiB, a Unix socket
        less than 256: the first receive that left no more is the earliest."""
        for c in self.plan.channels:
            if c.kind not in STREAMS:
                continue
            reads, at = [], 0
            for _, e, n in self._calls(c, ("RECEIVE", "RECEIVE_BOTH"), "read",
                                       "RECV"):
                at += e.result
                reads.append((at, e, n))
            holds, sent = (1 << 16 if c.kind == "PIPE" else 1 << 18), 0
            for place, e, _ in self._calls(c, ("SEND",), "write", "SEND"):
                sent += e.result
                room = [n for n in self.graph.nodes_at(place, "AUX")
                        if n["xkind"] == "room" and
                        e.before <= n["t_ns"] <= e.after]
                if not room and e.result < 300000:
                    continue
                first = sum(at < sent - holds for at, _, _ in reads)
                first = 0 if c.kind == "TCP" else max(0, first - 1)
                self._check(place, room[0] if room else None, "room",
                            {n["id"] for _, r, n in reads[first:] if n and
                             r.before <= e.after},
                            "room from a receive that left little unread")

    # --- what the plan knows ---------------------------------------------

    def _waits(self):
        # A request for a file's lock that was preempted looks like one that
        # waited.
        self.unseen_mays += sum(o[0] == "FILE_LOCK" for t in self.plan.threads
                                for o in t.ops)
        for w in sorted(self.plan.wait, key=lambda w: not w.must):
            effect, cause = Place(*w.effect), Place(*w.cause)
            causes = self._ids(cause, "AUX")
            if self.plan.threads[cause.thread].ops[cause.op][0] == \
                    "BARRIER_WAIT":
                causes = {min(causes, default=None)}  # the arrival
            mine = [n for n in self.graph.nodes_at(effect, "AUX")
                    if n["id"] not in self.explained]
            found = [n for n in mine if n["xkind"] == w.xkind and
                     n["xpred"] in causes]
            found += [n for n in mine if w.must and n["xpred"] is not None]
            self.unseen_mays += not found
            if found or w.must:
                self._check(effect, (found + mine + [None])[0], w.xkind, causes,
                            "%s from AUX in %s" % (
                                w.xkind, self.plan.say(*cause)), w.must)

    def _sigchld(self):
        """The log has the child's number; of a pidfd the plan."""
        main = {self.logs[p.main.number].pid: p.main.number
                for p in self.plan.processes}
        for t in self.plan.threads:
            for op, o in enumerate(t.ops):
                if o[:2] == ["SIGWAIT", 17] or o[0] == "PIDFD_POLL":
                    place = Place(t.number, op)
                    child = o[1] if o[0] == "PIDFD_POLL" else \
                        main[self.logs[t.number].of(op)[0].extra]
                    self._check(place, self._only(place, "AUX"), "signal",
                                self._last_end(child, True),
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


def judge_certificate(answer, judge):
    """What a path's certificate says of a plan that leaves nothing open."""
    wrong, c, shared = [], answer["certificate"], judge.plan.shared
    allowed = {"any_unmatched": judge.unseen_mays,
               "ambiguous": 1 << 30 if judge.plan.handed_on else 0}
    for key in ("unmatched", "ambiguous", "pending", "any_unmatched",
                "untraced_processes"):
        if c[key] > allowed.get(key, 0):
            wrong.append("certificate: %s is %d" % (key, c[key]))
    for key in ("lost", "missing_machines"):
        if c[key]:
            wrong.append("certificate: %s: %s" % (key, c[key]))
    wrong += ["certificate: unseen: " + text for text in c["unseen"]
              if not text.startswith("raw futexes and runtimes") and
              not (shared and "memory" in text)]
    # A datagram's sender that was taken off its core may have waited for a place.
    datagrams = any(o[0] == "SEND_DATAGRAM" for t in judge.plan.threads for o in t.ops)
    gaps = [text for text in c["gaps"]
            if not (datagrams and text.startswith("the path may be too short"))]
    if gaps and not shared:
        wrong.append("certificate: not complete: %s" % gaps)
    return wrong
