#!/usr/bin/python3
"""The longest path, computed again from `ipsq graph RUN --format jsonl`.

Shares no code and no method with the C engines: it sorts the nodes
topologically first, and reads the winner of a node off the values afterwards.
The rules are those of the design: EST(v) = max(EST(pred) + arc, EST(xpred) +
xarc); on a tie the chain arc wins; among equal ENDs the lowest id.

As a command:
    path_oracle.py [GRAPH.jsonl]              prints its own answer as JSON
    path_oracle.py GRAPH.jsonl PATH.json      compares with `ipsq path --format
                                              json`; exit 1 and the differences

As a module: read(lines) -> nodes; solve(nodes) -> Answer (nodes as read, or a
list of dicts); differences(answer, path_json) -> list of sentences.
"""
import collections
import fractions
import json
import sys

KEYS = ("id", "machine", "pid", "tid", "kind", "pred", "arc_cpu_ns",
        "arc_sched_ns", "arc_wall_ns", "xpred", "xarc_cpu_ns", "xarc_sched_ns",
        "xarc_wall_ns", "xkind")


class BadGraph(ValueError):
    """The graph breaks a rule, or has a cycle."""


class Answer:
    """t_max_ns, total_cpu_ns, parallelism (a Fraction or None), end (id or
    None), segments [{kind, arc, from_node, to_node, ns}], by_machine {name:
    ns}, messages (crossings on the path)."""

    def __init__(self):
        self.t_max_ns = 0
        self.total_cpu_ns = 0
        self.parallelism = None
        self.end = None
        self.segments = []
        self.by_machine = {}
        self.messages = 0

    @property
    def t_max(self):
        return self.t_max_ns

    def as_json(self):
        out = dict(vars(self))
        if self.parallelism is not None:
            out["parallelism"] = float(self.parallelism)
        return out


def read(lines):
    """Nodes by id, checked, of JSON lines."""
    return index(json.loads(line) for line in lines if line.strip())


def index(rows):
    """Nodes by id, checked: every key there, every reference answered."""
    nodes = {}
    for number, node in enumerate(rows, 1):
        missing = [key for key in KEYS if key not in node]
        if missing:
            raise BadGraph(f"node {number}: no {', '.join(missing)}")
        if node["id"] in nodes:
            raise BadGraph(f"node {number}: node {node['id']} twice")
        nodes[node["id"]] = node
    successor = {}
    for node in nodes.values():
        for ref, weight in (("pred", "arc_cpu_ns"), ("xpred", "xarc_cpu_ns")):
            other = node[ref]
            if other is None:
                continue
            if other not in nodes:
                raise BadGraph(f"node {node['id']}: {ref} {other} is not there")
            if not isinstance(node[weight], int) or node[weight] < 0:
                raise BadGraph(f"node {node['id']}: {weight} {node[weight]!r}")
        if node["pred"] is not None:
            if node["pred"] in successor:
                raise BadGraph(f"node {node['pred']} has two chain successors")
            successor[node["pred"]] = node["id"]
    return nodes


def weighted(nodes, weighting):
    """The same nodes, with the arcs of `weighting` as theirs. In `wall` a first
    node's arc is the time until its thread began, where nobody began it."""
    if weighting == "cpu":
        return nodes
    arc, xarc = f"arc_{weighting}_ns", f"xarc_{weighting}_ns"
    out = {}
    for i, node in nodes.items():
        begin = node[arc] if node["pred"] is None else None
        if node[arc] is None and node["pred"] is not None:
            raise BadGraph(f"node {i}: no {arc}")
        out[i] = dict(node, arc_cpu_ns=node[arc], xarc_cpu_ns=node[xarc],
                      begin_ns=begin or 0)
    return out


def without_recording(nodes, weighting="cpu"):
    """The same nodes in `weighting` (cpu or sched), every chain arc without what
    recording cost in it."""
    out = {}
    for i, node in weighted(nodes, weighting).items():
        arc, probe = node["arc_cpu_ns"], node["arc_probe_ns"]
        if node["pred"] is not None and not 0 <= probe <= arc:
            raise BadGraph(f"node {i}: recording took {probe} of {arc} ns")
        out[i] = node if node["pred"] is None else \
            dict(node, arc_cpu_ns=arc - probe)
    return out


def in_arcs(node):
    """The chain arc first: (kind, from, weight)."""
    arcs = []
    if node["pred"] is not None:
        arcs.append(("chain", node["pred"], node["arc_cpu_ns"]))
    if node["xpred"] is not None:
        arcs.append(("cross", node["xpred"], node["xarc_cpu_ns"]))
    return arcs


def topological(nodes):
    """Ids, every node after what it depends on."""
    waiting = {i: len(in_arcs(node)) for i, node in nodes.items()}
    after = collections.defaultdict(list)
    for i, node in nodes.items():
        for _, origin, _ in in_arcs(node):
            after[origin].append(i)
    queue = collections.deque(sorted(i for i, n in waiting.items() if n == 0))
    order = []
    while queue:
        i = queue.popleft()
        order.append(i)
        for j in after[i]:
            waiting[j] -= 1
            if waiting[j] == 0:
                queue.append(j)
    if len(order) < len(nodes):
        stuck = sorted(i for i, n in waiting.items() if n)[:10]
        raise BadGraph(f"a cycle holds up {len(nodes) - len(order)} nodes: "
                       f"{stuck}")
    return order


def values(nodes):
    """EST of every node, pushed forwards in topological order."""
    est = {}
    for i in topological(nodes):
        node = nodes[i]
        # A node that nothing leads into, or a START (its chain begins at 0).
        best = node.get("begin_ns", 0)
        for _, origin, weight in in_arcs(node):
            best = max(best, est[origin] + weight)
        est[i] = best
    return est


def winning_arc(node, est):
    """The arc the path took into a node; None where it begins there."""
    here = est[node["id"]]
    if node["pred"] is None:
        # The chain's own beginning counts as a chain arc.
        if here == node.get("begin_ns", 0):
            return None
    elif est[node["pred"]] + node["arc_cpu_ns"] == here:
        return "chain", node["pred"], node["arc_cpu_ns"]
    if node["xpred"] is None:
        raise BadGraph(f"node {node['id']}: no arc explains its value {here}")
    return "cross", node["xpred"], node["xarc_cpu_ns"]


def walk(nodes, est, end):
    """Segments from START to END; a run of chain arcs is one."""
    backwards = []
    i = end
    while True:
        arc = winning_arc(nodes[i], est)
        if arc is None:
            begin = nodes[i].get("begin_ns", 0)
            if begin:  # a piece of its own: no arc of the thread
                backwards.append({"kind": "compute", "arc": None,
                                  "from_node": None, "to_node": i,
                                  "ns": begin})
            break
        how, origin, weight = arc
        last = backwards[-1] if backwards else None
        if how == "chain":
            if last and last["kind"] == "compute":
                last["from_node"] = origin
                last["ns"] += weight
            else:
                backwards.append({"kind": "compute", "arc": None,
                                  "from_node": origin, "to_node": i,
                                  "ns": weight})
        else:
            xkind = nodes[i]["xkind"]
            outside = xkind in ("external", "idle")
            backwards.append({"kind": "external" if outside else "message",
                              "arc": xkind, "from_node": origin, "to_node": i,
                              "ns": weight})
        i = origin
    return backwards[::-1]


def solve(nodes, weighting="cpu", goal=None):
    """`goal`: the machine and pid of a process; the path ends with the last of
    its threads' ENDs (of equal t_ns the first)."""
    if not isinstance(nodes, dict):
        nodes = index(nodes)
    nodes = weighted(nodes, weighting)
    answer = Answer()
    est = values(nodes)
    answer.total_cpu_ns = sum(node["arc_cpu_ns"] for node in nodes.values()
                              if node["pred"] is not None)
    ends = [i for i, node in nodes.items() if node["kind"].upper() == "END"]
    if not ends:
        return answer
    if goal is not None:
        ends = [i for i in ends
                if (nodes[i]["machine"], nodes[i]["pid"]) == goal]
        answer.end = max(sorted(ends), key=lambda i: nodes[i]["t_ns"])
    else:
        answer.end = max(sorted(ends), key=lambda i: est[i])
    answer.t_max_ns = est[answer.end]
    if answer.t_max_ns:
        answer.parallelism = fractions.Fraction(answer.total_cpu_ns,
                                                answer.t_max_ns)
    answer.segments = walk(nodes, est, answer.end)
    shares = collections.Counter()
    for segment in answer.segments:
        if segment["kind"] == "compute":
            shares[nodes[segment["to_node"]]["machine"]] += segment["ns"]
        elif segment["kind"] == "message":
            answer.messages += 1
    answer.by_machine = dict(shares)
    return answer


def differences(answer, path):
    """What `ipsq path --format json` says otherwise; [] where it agrees."""
    found = []
    for key in ("t_max_ns", "total_cpu_ns"):
        if path[key] != getattr(answer, key):
            found.append(f"{key}: ipsq {path[key]}, oracle "
                         f"{getattr(answer, key)}")
    if (path["parallelism_factor"] is None) != (answer.parallelism is None) or (
            answer.parallelism is not None and
            abs(path["parallelism_factor"] - float(answer.parallelism)) > 1e-9):
        found.append(f"parallelism: ipsq {path['parallelism_factor']}, oracle "
                     f"{answer.parallelism}")
    theirs = [(s["kind"], s["from_node"], s["to_node"], s["ns"])
              for s in path["segments"]]
    ours = [(s["kind"], s["from_node"], s["to_node"], s["ns"])
            for s in answer.segments]
    if len(theirs) != len(ours):
        found.append(f"segments: ipsq {len(theirs)}, oracle {len(ours)}")
    for k, (a, b) in enumerate(zip(theirs, ours)):
        if a != b:
            found.append(f"segment {k}: ipsq {a}, oracle {b}")
            break
    shares = {s["object"].lstrip("/"): s["ns"]
              for s in path["shares"]["machines"]}
    for machine, ns in answer.by_machine.items():
        if ns and shares.get(machine) != ns:
            found.append(f"share of {machine}: ipsq {shares.get(machine)}, "
                         f"oracle {ns}")
    return found


def main(arguments):
    if len(arguments) > 2 or "--help" in arguments:
        print(__doc__)
        return 0 if "--help" in arguments else 2
    if arguments:
        with open(arguments[0], encoding="utf-8") as file:
            answer = solve(read(file))
    else:
        answer = solve(read(sys.stdin))
    if len(arguments) < 2:
        print(json.dumps(answer.as_json(), indent=1))
        return 0
    with open(arguments[1], encoding="utf-8") as file:
        found = differences(answer, json.load(file))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (BadGraph, OSError, json.JSONDecodeError) as error:
        print(f"path_oracle: {error}", file=sys.stderr)
        sys.exit(1)
