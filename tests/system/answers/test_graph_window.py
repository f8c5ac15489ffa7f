"""`ipsq graph` of a window or a phase: the nodes that stand in it and those one of
whose arcs meets it, with what of each arc is cut off; each machine by its own clock.

EVIDENCE-OF: IPS-16."""
import pytest

from test_phases import MS, write_run

SHIFT = 10_800_000 * MS + 12345


def side(t, begin, end):
    return "before" if t <= begin and begin else "in" if t <= end else "after"


def cut(begin, end):
    """By the definition, for the two ends of an arc."""
    return {("in", "in"): "none", ("in", "after"): "end",
            ("before", "in"): "begin", ("before", "after"): "both",
            ("after", "in"): "begin", ("in", "before"): "end"}.get(
                (begin, end), "all")


@pytest.mark.quick
def test_nodes_and_cut_arcs(cluster):
    """Would catch a node that is left out, or told though neither it nor an arc of
    it lies in the window; an arc called whole that is cut, or cut elsewhere; ids,
    weights or times that are not those of the whole graph; a window that is
    another one on the machine whose clock is 3 hours ahead. (Seen to fail with a
    window that has its first moment.)"""
    there = cluster(("m1", "m2"))
    write_run(there, "run", SHIFT)
    whole = there.json("graph", "run")
    assert (whole["from_ns"], whole["to_ns"], whole["phase"]) == (None,) * 3
    assert {n["arc_cut"] for n in whole["nodes"]} == {None}
    nodes = whole["nodes"]
    first = {m: min(e["t_ns"] for e in
                    there.json("events", "run", "--object", f"/{m}")["events"])
             for m in ("m1", "m2")}
    seen = set()
    for begin, end in ((150, 250), (200, 201), (330, 400), (430, 0)):
        words = ["--from", f"{begin}ms"] if begin else []
        words += ["--to", f"{end}ms"] if end else []
        a = there.json("graph", "run", *words)
        assert a["from_ns"] == begin * MS
        assert a["to_ns"] == (end * MS if end else None)
        at = [side(n["t_ns"] - first[n["machine"]], begin * MS,
                   end * MS or 1 << 62) for n in nodes]
        want = []
        for n in nodes:
            arcs = [None if p is None else cut(at[p], at[n["id"]])
                    for p in (n["pred"], n["xpred"])]
            if at[n["id"]] == "in" or {*arcs} - {None, "all"}:
                want.append({**n, "arc_cut": arcs[0], "xarc_cut": arcs[1]})
                seen |= {*arcs}
        assert a["nodes"] == want, words
    assert {"none", "begin", "end", "both"} <= seen, seen


def test_phases(cluster):
    """Would catch a phase that is another window than `ipsq phases` tells, a node
    that is in no phase or stands in two, and an answer that does not say which."""
    there = cluster(("m1", "m2"))
    write_run(there, "run", SHIFT)
    stands = []
    for p in there.json("phases", "run")["phases"]:
        a = there.json("graph", "run", "--phase", p["phase"])
        assert a["phase"] == p["phase"]
        assert [a["from_ns"], a["to_ns"]] == [p["from_ns"], p["to_ns"]]
        stands += [n["id"] for n in a["nodes"]
                   if not {n["arc_cut"], n["xarc_cut"]} & {"end", "both", "all"}]
    text = there.ipsq("graph", "run", "--phase", 3).stdout
    assert text.startswith(f"phase{'':11}3\n"), text[:200]
    everything = [n["id"] for n in there.json("graph", "run")["nodes"]]
    assert sorted(stands) == everything
