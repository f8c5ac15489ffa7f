#!/usr/bin/python3
"""Slack, next paths and what-if, computed again from `ipsq graph RUN --format
jsonl`. Shares no code and no method with the C engines: tails come from the
reversed topological order, next paths from k-best lists kept at every node,
and a what-if is a graph whose weights are really changed, solved again.

As a module: nodes as path_oracle.read() gives them.
"""
import collections
import heapq

import path_oracle


class Graph:
    """Arcs both ways. `weight` (node, cross?) -> ns may be changed."""

    def __init__(self, nodes, idle=False):
        self.nodes = nodes
        self.order = path_oracle.topological(nodes)
        self.weight = {}
        self.ins = {i: [] for i in nodes}
        self.outs = {i: [] for i in nodes}
        for i, node in nodes.items():
            for ref, arc in (("pred", "arc_cpu_ns"), ("xpred", "xarc_cpu_ns")):
                if node[ref] is None:
                    continue
                if ref == "xpred" and node["xkind"] == "idle" and not idle:
                    continue  # absent from the default lane
                key = (i, ref == "xpred")
                self.weight[key] = node[arc]
                self.ins[i].append((node[ref], key))
                self.outs[node[ref]].append((i, key))
        self.ends = [i for i in nodes if nodes[i]["kind"] == "END"]

    def est(self):
        value = {}
        for i in self.order:
            value[i] = max((value[u] + self.weight[key]
                            for u, key in self.ins[i]), default=0)
        return value

    def t_max(self):
        value = self.est()
        return max(value[i] for i in self.ends)

    def tail(self):
        value = {}
        for i in reversed(self.order):
            value[i] = max((value[v] + self.weight[key]
                            for v, key in self.outs[i] if v in value),
                           default=0)
        return value

    def slacks(self):
        """(node, cross?) -> slack of the arc into it."""
        est, tail, longest = self.est(), self.tail(), self.t_max()
        return {key: longest - est[u] - self.weight[key] - tail[i]
                for i in self.nodes for u, key in self.ins[i]}

    def process(self, i):
        return self.nodes[i]["machine"], self.nodes[i]["pid"]

    def slack_of_processes(self):
        out = {}
        for (i, cross), slack in self.slacks().items():
            if not cross:
                who = self.process(i)
                out[who] = min(slack, out.get(who, slack))
        return out

    def without(self, chosen, percent=100):
        """t_max when arcs with chosen(node, cross?) lose so much of their
        weight, rounded down."""
        old = dict(self.weight)
        for key, w in old.items():
            if chosen(*key):
                self.weight[key] = w - w * percent // 100
        longest = self.t_max()
        self.weight = old
        return longest

    def next_by_process(self, k):
        """The longest path of each set of processes: (ns, [process, ...]),
        longest first. The best of every set is kept at each node: for small
        graphs."""
        behind = {}
        found = {}
        for i in reversed(self.order):
            here = collections.defaultdict(int)
            who = self.process(i)
            for v, key in self.outs[i]:
                for group, ns in behind[v].items():
                    group = group | {who}
                    here[group] = max(here[group], ns + self.weight[key])
            if self.nodes[i]["kind"] == "END":
                here[frozenset([who])] = max(here[frozenset([who])], 0)
            behind[i] = dict(here)
            if not self.ins[i]:
                for group, ns in here.items():
                    found[group] = max(found.get(group, 0), ns)
        best = heapq.nlargest(k, found.items(), key=lambda item: item[1])
        return [(ns, sorted(group)) for group, ns in best]
