"""A run that IPS recorded as time-independent traces of SMPI, a rank for each thread: from
the lines of `ipsq graph` alone.

What a thread computed between two nodes is `compute` of as many flops as nanoseconds
(hosts make 1e9 a second). Where a node depends on another thread's, that one's thread
sends the bytes and this one receives them, with a tag of its own, so that the order is the
recorded one; a message that is read in pieces is received at the first of them."""
import collections
import json

import lab


def ranks_of(lines):
    """([(machine, pid, tid)], [[line of the trace]]), in the order of the graph."""
    nodes = [json.loads(line) for line in lines]
    nodes = [n for n in nodes if n.get("kind")]
    place = {}
    for n in nodes:
        place.setdefault((n["machine"], n["pid"], n["tid"]), len(place))
    of = {n["id"]: place[n["machine"], n["pid"], n["tid"]] for n in nodes}
    sends, receives = collections.defaultdict(list), {}
    for tag, n in enumerate(nodes):
        if n["xarc_wall_ns"]:
            raise ValueError(f"node {n['id']} waits for something that is not traced")
        source, target = n["xpred"], of[n["id"]]
        if source is None or of[source] == target:
            continue
        if any(to == target for to, *_ in sends[source]):
            continue  # the rest of a message
        sends[source].append((target, tag, n["bytes"] or 0))
        receives[n["id"]] = (of[source], tag, n["bytes"] or 0)
    out = [[] for _ in place]
    for n in nodes:
        lines = out[of[n["id"]]]
        if n["arc_cpu_ns"]:
            lines.append(f"compute {n['arc_cpu_ns']}")
        if n["id"] in receives:
            lines.append("recv {} {} {} 6".format(*receives[n["id"]]))
        lines += [f"send {to} {tag} {count} 6"
                  for to, tag, count in sends.get(n["id"], ())]
    return list(place), out


NAMES = ("a", "b", "c", "d")  # machines that it is recorded on
SIZES = {"exchange": {"rounds": 100}, "pipeline": {"items": 300}, "matrix": {},
         "files": {"clients": "srsr"}, "julia": {"workers": 3}}
NETWORK = "50us+8ns"


def ask(l, run, machines, of, bus):
    """What `ipsq predict` says of the run with machine m's processes on of[m]."""
    pairs = [f"{x}>{y}={NETWORK}{'@bus' if bus else ''}"
             for x in machines for y in machines if x != y]
    return l.ask("predict", run.name, "--machines",
                 ";".join(f"{m}:cores=1,load=0" for m in machines), "--map",
                 ",".join(f"/{m}/*={to}" for m, to in of.items()), "--mtime", "0",
                 *(["--network", ";".join(pairs)] if pairs else []))["makespan_ns"]


def compared(l, args, where, write, theirs, ours):
    """[{program, ranks, hosts, bus, smpi, ours, predict}]: of each run, recorded once,
    what SMPI's replay of its traces, ours of the same, and `ipsq predict` say."""
    rows = []
    for name, sizes in SIZES.items():
        if args.short and name != "matrix":
            continue
        program = lab.distributed.PROGRAMS[name](
            l.build.program(""), l.directory, **sizes)
        run = l.measure(program, {label: NAMES[i % len(NAMES)] for i, label in
                                  enumerate(program.labels)})
        graph = l.cluster.ipsq("graph", run.name, "--format", "jsonl").stdout
        ranks, trace = ranks_of(graph.splitlines())
        directory = where / f"recorded-{name}"
        directory.mkdir()
        listed = write(directory, trace)
        for hosts, bus in ((4, False), (4, True), (2, False), (2, True), (1, False)):
            at = [NAMES.index(machine) % hosts for machine, _, _ in ranks]
            what = (directory, listed, at, hosts, bus)
            smpi, own = theirs(*what), ours(l.build.top, *what, 1)
            rows.append({
                "program": name, "ranks": len(ranks), "hosts": hosts, "bus": bus,
                "smpi": smpi, "ours": own, "predict": ask(
                    l, run, NAMES[:hosts],
                    {m: NAMES[NAMES.index(m) % hosts] for m in set(
                        run.place.values())}, bus)})
    return rows


def tell(results, rows):
    def off(of, value):
        found = sorted(value(r) / r["smpi"]["ns"] - 1 for r in of)
        return f"{found[0]:+.3%} .. {found[-1]:+.3%}"

    told = []
    for name in dict.fromkeys(r["program"] for r in rows):
        of = [r for r in rows if r["program"] == name]
        told.append([
            name, of[0]["ranks"], f"{of[0]['ours']['actions']:.0f}", len(of),
            f"{min(r['smpi']['ns'] for r in of) / 1e6:.1f} .. "
            f"{max(r['smpi']['ns'] for r in of) / 1e6:.1f}",
            off(of, lambda r: r["ours"]["ns"]), off(of, lambda r: r["predict"])])
    results.say("\nRuns of our programs that IPS recorded on four machines, their graph "
                "written as SMPI's traces; on four hosts, two and one, each message with "
                f"its own bandwidth and on a bus ({NETWORK} a byte); from SMPI's:\n")
    results.say(lab.table(
        ["program", "threads", "actions", "combinations", "SMPI predicts (ms)",
         "our replay of the traces", "ipsq predict of the run"], told))
