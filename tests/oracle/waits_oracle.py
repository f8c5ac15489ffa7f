"""Waits and idle time once more, from their definitions (analysis/explain/waits.h,
analysis/explain/idle.h) and by the simplest means: recursion over intervals, and a sum
in fractions over every moment at which anything changes. Input: what
tests/programs/waits_graph prints. Blame is compared to the ns; idle time within
a ns for each moment something changed, since C rounds at each, and its sum to
the ns.
"""
import collections
import fractions
import sys

sys.setrecursionlimit(100000)
NOT_FOLLOWED = ("none", "external", "idle")
NO_CAUSE = 255


class Graph:
    def __init__(self, ask):
        self.node, self.chain_of, self.first = [], [], []
        for number, chain in enumerate(ask["chains"]):
            self.first.append(len(self.node))
            latest = 0
            for w, at, wait, delay, xkind, xpred in chain:
                latest = max(latest, at)
                begun = len(self.node) > self.first[-1]
                asleep = max(0, latest - wait)
                if begun:
                    asleep = max(asleep, self.node[-1]["at"])
                self.node.append(dict(
                    w=w, at=latest, asleep=asleep, delay=delay,
                    idle=xkind == "none", follow=xpred if xkind not in NOT_FOLLOWED else -1,
                    waits=[]))
                self.chain_of.append(number)
        self.waits = [dict(arc=arc, cause=cause, of_node=of_node, ns=ns,
                           end=end) for arc, cause, of_node, ns, end
                      in ask["waits"]]
        for x in self.waits:
            self.node[x["arc"]]["waits"].append(x)
        for number, node in enumerate(self.node):
            if node["idle"] and not any(x["of_node"] for x in node["waits"]):
                node["asleep"] = node["at"]  # for nothing
            self.lay(number, node)

    def is_first(self, number):
        return number == self.first[self.chain_of[number]]

    def lay(self, number, node):
        top = node["at"]
        for x in reversed(node["waits"]):
            if x["of_node"]:
                x["to"] = top
                top = x["from"] = max(node["asleep"], top - x["ns"])
        low = (node["asleep"] if self.is_first(number)
               else self.node[number - 1]["at"])
        for x in node["waits"]:
            if not x["of_node"]:
                x["from"] = min(max(x["end"] - x["ns"], low, 0), node["asleep"])
                x["to"] = max(x["from"], min(x["end"], node["asleep"]))
                x["to"] = min(x["to"], x["from"] + x["ns"])
                low = x["to"]

    def awake(self, number):
        """Length of the arc's active time, CPU and queue in it."""
        node = self.node[number]
        length = node["asleep"] - self.node[number - 1]["at"] - sum(
            x["to"] - x["from"] for x in node["waits"] if not x["of_node"])
        cpu = min(node["w"], length)
        return length, cpu, min(node["delay"], length - cpu)

    # ---- blame: lists of (kind, chain, node, cause, ns)

    def asleep(self, number, cause, lo, hi):
        node = self.node[number]
        if node["follow"] >= 0:
            return self.doing(node["follow"], lo, hi)
        return [("WAITED", self.chain_of[number], number, cause, hi - lo)]

    def arc(self, number, lo, hi):
        """What was done in the arc into a node, from lo to hi."""
        node, chain = self.node[number], self.chain_of[number]
        out = []
        a, b = max(lo, node["asleep"]), min(hi, node["at"])
        if a < b:
            cause = next((x["cause"] for x in node["waits"] if x["of_node"]),
                         NO_CAUSE)
            out += self.asleep(number, cause, a, b)
        active = max(0, min(hi, node["asleep"])
                     - max(lo, self.node[number - 1]["at"]))
        for x in node["waits"]:
            a, b = max(lo, x["from"]), min(hi, x["to"])
            if not x["of_node"] and a < b:
                out.append(("WAITED", chain, number, x["cause"], b - a))
                active -= b - a
        length, cpu, delay = self.awake(number)
        if active:
            cpu, delay = cpu * active // length, delay * active // length
            for kind, ns in (("COMPUTE", cpu), ("RUNNABLE", delay),
                             ("OFF_CPU", active - cpu - delay)):
                out.append((kind, chain, number, 0, ns))
        return out

    def doing(self, number, lo, hi):
        """Of the chain of a node, up to that node, from lo to hi."""
        chain, at = self.chain_of[number], self.node[number]["at"]
        out = []
        if at < hi:
            out.append(("DELIVERY", chain, number, 0, hi - max(at, lo)))
        hi = min(hi, at)
        first = self.first[chain]
        for i in range(first + 1, number + 1):
            a = max(lo, self.node[i - 1]["at"])
            b = min(hi, self.node[i]["at"])
            if a < b:
                out += self.arc(i, a, b)
        b = min(hi, self.node[first]["at"])
        if lo < b:
            if self.node[first]["follow"] >= 0:
                out += self.doing(self.node[first]["follow"], lo, b)
            else:
                out.append(("NOT_BEGUN", chain, first, 0, b - lo))
        return out

    def blame(self, x, lo=0, hi=float("inf")):
        out = []
        end = self.node[x["arc"]]["at"] if x["of_node"] else x["to"]
        if lo <= end < hi:
            out.append(("WOKEN", self.chain_of[x["arc"]], x["arc"], 0,
                        x["ns"] - (x["to"] - x["from"])))
        a, b = max(lo, x["from"]), min(hi, x["to"])
        if a < b and x["of_node"]:
            out += self.asleep(x["arc"], x["cause"], a, b)
        elif a < b:
            out.append(("WAITED", self.chain_of[x["arc"]], x["arc"],
                        x["cause"], b - a))
        return out

    # ---- idle

    def spans(self, chain, last):
        """(from, to, cause or None, cpu share, queue share)"""
        for i in range(self.first[chain] + 1, last):
            node = self.node[i]
            length, cpu, delay = self.awake(i)
            at = self.node[i - 1]["at"]
            fixed = sorted((x["from"], x["to"], x["cause"])
                           for x in node["waits"] if x["from"] < x["to"])
            for a, b, cause in fixed + [(node["at"], node["at"], None)]:
                for lo, hi, awake in ((at, min(a, node["asleep"]), True),
                                      (max(at, node["asleep"]), a, False)):
                    if lo < hi and awake:
                        yield (lo, hi, None, fractions.Fraction(cpu, length),
                               fractions.Fraction(delay, length))
                    elif lo < hi:
                        yield lo, hi, NO_CAUSE, 0, 0
                if a < b:
                    yield a, b, cause, 0, 0
                at = max(at, b)

    def idle(self, machines, machine, cores, start, stop, spinning):
        chains = [c for c, m in enumerate(machines) if m == machine]
        ends = self.first[1:] + [len(self.node)]
        spans = [span for c in chains for span in self.spans(c, ends[c])]
        begin = [self.node[self.first[c]]["at"] for c in chains]
        end = [self.node[ends[c] - 1]["at"] for c in chains]
        moments = sorted({start, stop, *begin, *end,
                          *(t for span in spans for t in span[:2])})
        out, backlog = collections.Counter(), fractions.Fraction(0)
        for a, b in zip(moments, moments[1:]):
            if a < start or b > stop:
                continue
            now = [span for span in spans if span[0] <= a and b <= span[1]]
            room = fractions.Fraction(cores * (b - a))
            waits = [min(s[2], 31) for s in now if s[2] is not None]
            spin = [c for c in waits if spinning >> c & 1]
            waits = [c for c in waits if not spinning >> c & 1]
            awake = [s for s in now if s[2] is None]
            cpu = sum(s[3] for s in awake) * (b - a) + backlog
            queue = sum(s[4] for s in awake) * (b - a)
            off = sum(1 - s[3] - s[4] for s in awake) * (b - a)
            for what, want in (("running", cpu), ("spun", len(spin) * (b - a)),
                               ("others", queue), ("unknown", off)):
                got = min(room, want)
                out[what] += got
                room -= got
                if what == "running":
                    backlog = want - got
            if not chains or a < min(begin):
                out["before"] += room
            elif a >= max(end):
                out["after"] += room
            elif not waits:
                out["nobody"] += room
            for c in waits if begin and min(begin) <= a < max(end) else ():
                out[str(c)] += room / len(waits)
        return out, len(moments)


def summed(parts):
    out = collections.Counter()
    for kind, chain, node, cause, ns in parts:
        out[kind, chain, node, cause] += ns
    return {key: ns for key, ns in out.items() if ns}


def differences(ask):
    """In words, each way in which C's answer is not the oracle's."""
    g = Graph(ask)
    for number, (x, parts) in enumerate(zip(g.waits, ask["blame"])):
        if sum(part[4] for part in parts) != x["ns"]:
            yield f"wait {number}: the parts do not add up"
        right = summed(g.blame(x))
        if summed(parts) != right:
            yield f"wait {number}: {summed(parts)} should be {right}"
        ns = sum(p[4] for p in g.blame(x, ask["from"], ask["to"]))
        if ask["windowed"][number] != ns:
            yield f"wait {number}: in the window not {ns}"
    for machine, cores, start, stop, spinning, got in ask["idle"]:
        right, moments = g.idle(ask["machine"], machine, cores, start, stop,
                                spinning)
        if sum(got.values()) != cores * (stop - start):
            yield f"machine {machine}: cores are not accounted for"
        for what in set(got) | set(right):
            apart = abs(got.get(what, 0) - right[what])
            # C's roundings: of each moment, and of those it has saved up.
            if not (apart == 0 or what != "before" and apart <= moments + 1):
                yield (f"machine {machine}: {what} {got.get(what, 0)}, not "
                       f"{float(right[what])}")
