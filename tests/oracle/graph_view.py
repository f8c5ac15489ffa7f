"""`ipsq graph` as the matcher's View: what IPS says happened, for comparison
with strace (strace_compare)."""

from strace_compare import View, ViewOp


def chains(nodes):
    """{(pid, tid): [[node, ...], ...]}: chains in order of id. A tid has more
    than one chain only where its number was used again."""
    out = {}
    for node in sorted(nodes, key=lambda n: n["id"]):
        found = out.setdefault((node["pid"], node["tid"]), [])
        if node["pred"] is None:
            found.append([])
        found[-1].append(node)
    return out


def view(nodes, parents):
    """`parents`: {pid: parent pid or None} from `ipsq ls`."""
    out = View()
    out.parent = dict(parents)
    by_id = {n["id"]: n for n in nodes}
    number = {}  # id of SEND or FORK -> ordinal among its thread's of that kind
    for (pid, tid), found in chains(nodes).items():
        out.pid_of[tid] = pid
        count = {}
        for node in (n for chain in found for n in chain):
            kind = node["kind"].lower()
            number[node["id"]] = count.get(kind, 0)
            count[kind] = number[node["id"]] + 1
    for (pid, tid), found in chains(nodes).items():
        for node in (n for chain in found for n in chain):
            _add(out, tid, node, by_id, number)
    return out


def _add(out, tid, node, by_id, number):
    kind = node["kind"].lower()
    cross = by_id.get(node["xpred"]) if node["xpred"] is not None else None
    label = "node %d" % node["id"]
    if node["xkind"] in ("signal", "resource"):
        return  # locks and signals: strace's model has none
    if kind == "start":
        if cross is not None:
            out.born.setdefault(tid, (cross["tid"], number[cross["id"]]))
    elif kind == "join":
        if cross is not None and cross["tid"] == cross["pid"]:
            out.joins.setdefault(tid, []).append(cross["pid"])
    elif kind == "aux" and cross is not None:
        before = by_id[node["pred"]]
        if node["xkind"] == "room":
            out.rooms.append(((tid, number[before["id"]]),
                              (cross["tid"], number[cross["id"]])))
        elif before["kind"].lower() == "fork":
            out.returns[tid, number[before["id"]]] = cross["pid"]
        elif node["xkind"] == "lifetime":
            out.ops.setdefault(tid, []).append(
                ViewOp("broken", 0, node.get("channel"), (cross["pid"],),
                       label))
    elif kind == "send":
        out.ops.setdefault(tid, []).append(
            ViewOp("out", None, node.get("channel"), None, label))
    elif kind == "recv":
        src = None
        if node["bytes"]:
            kind = "recv"
        elif node["xkind"] == "lifetime":
            kind = "eof"
        elif node["xkind"] == "data":
            kind = "accept"
        else:
            kind = "in"  # end-of-file or accept without a cause
        if cross is not None:
            src = (cross["pid"],) if kind == "eof" else \
                (cross["tid"], number[cross["id"]])
        out.ops.setdefault(tid, []).append(
            ViewOp(kind, node["bytes"] or 0, node.get("channel"), src, label))


def view_of_events(events):
    """`ipsq events`: transfers with the bytes of sends, which the graph's nodes
    do not carry; no arcs, no processes."""
    out = View()
    out.has_arcs = out.has_processes = False
    for event in events:
        channel, detail = event["channel"] or "", event["detail"] or ""
        if event["type"] not in ("send", "receive") or \
                channel.startswith("udp"):
            continue
        failed = ": " in detail
        kind = "send" if event["type"] == "send" else "recv"
        if detail.startswith("connect"):
            if failed and "EINPROGRESS" not in detail:
                continue
            kind = "connect"
        elif "EPIPE" in detail or "ECONNRESET" in detail:
            kind = "broken"
        elif failed or event["bytes"] < 0:
            continue
        elif detail == "accept":
            kind = "accept"
        elif event["bytes"] == 0:
            if kind == "send":
                continue
            kind = "eof"
        moved = event["bytes"] if kind in ("send", "recv") else 0
        out.pid_of[event["tid"]] = event["pid"]
        out.ops.setdefault(event["tid"], []).append(
            ViewOp(kind, moved, channel, None, detail))
    return out
