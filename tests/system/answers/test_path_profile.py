"""What the critical path tells: procedures, lines and threads, sequences, all
work beside it, windows; of a program whose path is known, sampled and exact, on
one machine and on two. EVIDENCE-OF: IPS-12, IPS-13
"""
import collections
import json

import pytest

EXACT = ("--procedures=exact", "--budget", "100")
SAMPLED = ("--rate", "1")
EVERY = "machine,process,thread,procedure,line,message,external"


def by_name(rows):
    found = collections.defaultdict(int)
    for row in rows:
        found[row["procedure"]] += row["ns"]
    return found


def check_sums(a):
    """Every list and what lies between is the whole path (or window)."""
    whole = a.get("window_ns", a["t_max_ns"])
    between = sum(r["ns"] for r in a["shares"]["messages"] +
                  a["shares"]["externals"])
    for name in ("machines", "processes", "threads", "procedures", "lines"):
        assert sum(r["ns"] for r in a["shares"][name]) + between == whole, name
        for row in a["shares"][name]:
            assert row["share"] == pytest.approx(row["ns"] / whole)
    assert sum(s["ns"] for s in a["segments"]) == whole


def check_whole(a):
    """Nothing of it has more on the path than in all, and the sums close."""
    whole = sum(r["ns"] for r in a["whole"]["machines"])
    for name in ("machines", "processes", "threads", "procedures", "lines"):
        rows = a["whole"][name]
        assert sum(r["ns"] for r in rows) == whole, name
        off = sum(r["ns"] for r in a["shares"]["procedures"]
                  if r["procedure"] == "[off the CPU]")
        assert sum(r["path_ns"] for r in rows) == \
            sum(r["ns"] for r in a["shares"][name]) - off, name
    for name in ("machines", "processes", "threads"):
        assert all(r["path_ns"] <= r["ns"] for r in a["whole"][name])
    return whole


def profile(c, *words):
    a = c.json("path", "r", "--by", EVERY, "--whole", "--sequences", *words)
    check_sums(a)
    check_whole(a)
    return a


@pytest.fixture(scope="module")
def build_program(build):
    return build.program("i_path")


def test_what_is_off_the_path_is_not_in_its_profile(cluster, build_program):
    """ask and answer are the path, aside is not, though the same thread does
    it between two answers. Would catch: samples laid on the arc before or
    after theirs, the path's profile made of all samples of its threads, sums
    that do not close, sequences that miss the loop."""
    c = cluster()
    c.ipsrun([build_program, "both", 150, 1], name="r", options=SAMPLED,
             check=True)
    c.wait_closed("r")
    a = profile(c)
    assert sum(r["ns"] for r in a["whole"]["machines"]) == a["total_cpu_ns"]
    path = by_name(a["shares"]["procedures"])
    work = by_name(a["whole"]["procedures"])
    assert path["ask"] > path["answer"] > 0.1 * path["ask"]
    assert work["aside"] > 0.3 * work["answer"]
    assert path["aside"] < 0.2 * work["aside"]
    assert path["ask"] + path["answer"] > 0.9 * a["t_max_ns"]
    rows = {r["procedure"]: r for r in a["shares"]["procedures"]}
    assert rows["ask"]["samples"] > 20
    assert rows["ask"]["ns_low"] < rows["ask"]["ns"] < rows["ask"]["ns_high"]
    assert rows["main"]["ns"] == 0 or rows["main"]["ns"] < rows["ask"]["ns"]
    # "main" calls everything, in parent and child.
    assert rows["main"]["total_ns"] > 0.9 * a["t_max_ns"]
    assert rows["ask"]["file"].endswith("/i_path.c")
    lines = [r for r in a["shares"]["lines"] if r["procedure"] == "ask"]
    assert lines and all(r["line"] > 0 for r in lines)
    best = a["sequences"][0]
    # On a busy machine some turns have a sample in read() or write(), and in some
    # the answer was there before it was read.
    assert set(best["procedures"]) == {"answer", "ask"}
    assert best["count"] > 60 and best["share"] > 0.7
    assert len(set(best["objects"])) == 2
    done = [s["procedures"] for s in a["whole"]["sequences"]]
    assert ["answer", "aside"] in done or ["aside", "answer"] in done
    # Both engines, and the question again: the same to the last ns.
    for engine in ("central", "contract"):
        other = profile(c, "--engine", engine)
        assert other["shares"] == a["shares"]
        assert other["sequences"] == a["sequences"]
        assert other["whole"] == a["whole"]
    # In other weightings the rest of the path is no CPU time: it is said.
    for weighting in ("sched", "wall"):
        other = profile(c, "--weighting", weighting)
        found = by_name(other["shares"]["procedures"])
        assert found["aside"] < 0.2 * work["aside"]
        assert found["ask"] <= work["ask"] * 1.01
    table = c.ipsq("path", "r", "--sequences", "--whole").stdout
    assert "by procedure" in table and "i_path.c:" in table
    assert "all work by procedure" in table and " -> " in table
    # Not asked for: the lists of the table by default.
    plain = c.json("path", "r")
    lists = ("machines", "processes", "procedures", "messages", "externals")
    assert set(plain["shares"]) == {*lists, *(f"{x}_left_out" for x in lists)}
    few = c.json("path", "r", "--top", "1", "--whole", "--sequences")
    for name in lists:
        assert plain["shares"][f"{name}_left_out"] == 0
        assert few["shares"][name] == plain["shares"][name][:1]
        assert few["shares"][f"{name}_left_out"] == \
            max(0, len(plain["shares"][name]) - 1)
    for key in ("processes", "sequences"):
        assert few["whole"][f"{key}_left_out"] == len(a["whole"][key]) - 1
    gone = len(plain["shares"]["procedures"]) - 1
    assert f"\n{gone} more left out" in c.ipsq("path", "r", "--top", "1").stdout
    ranking = c.json("whatif", "r", "--top", "1")
    assert ranking["ranking_left_out"] == ranking["candidates"] - 1
    assert by_name(plain["shares"]["procedures"]) == path


# --- entries and exits, against a computation apart ------------------------

def self_times(events, names):
    """(pid, tid) -> [(begin, end, name)]: whose the CPU clock was when."""
    stack = collections.defaultdict(list)
    since = {}
    found = collections.defaultdict(list)
    for e in events:
        key = (e["pid"], e["tid"])
        if e["type"] not in ("enter", "exit"):
            continue
        if stack[key]:
            found[key].append((since[key], e["cpu_ns"], stack[key][-1]))
        since[key] = e["cpu_ns"]
        if e["type"] == "enter":
            stack[key].append(names[int(e["detail"], 16)])
        else:
            stack[key].pop()
    return found


def arcs_on_clock(nodes, bases):
    """node id -> (begin, end) on its thread's CPU clock; nothing spins."""
    at, place = {}, {}
    for n in nodes:
        key = (n["pid"], n["tid"])
        if n["pred"] is None:
            at[key] = bases.get(key, 0)
            continue
        begin = at[key]
        at[key] += n["arc_cpu_ns"]
        place[n["id"]] = (begin, at[key])
    return place


def overlaps(nodes, place, spans):
    """What procedures have of the arcs of these nodes."""
    found = collections.Counter()
    for n in nodes:
        if n["id"] not in place:
            continue
        begin, end = place[n["id"]]
        for low, high, name in spans[(n["pid"], n["tid"])]:
            found[name] += max(0, min(end, high) - max(begin, low))
    return +found


def test_exact_shares_are_those_of_the_graph_and_the_events(cluster, build):
    """`ipsq graph` and `ipsq events` are put together here, apart from IPS:
    the same procedures have the same ns of the path, and of all. Would catch:
    an entry laid on the wrong arc or clock, an arc counted twice."""
    c = cluster()
    done = c.ipsrun([build.program("i_path_exact"), "both", 40, 0.5], name="r",
                    options=EXACT, check=True)
    c.wait_closed("r")
    names = {}
    for line in done.stdout.splitlines():
        name, address = line.split()
        names[int(address, 16)] = name
    events = [json.loads(line) for line in
              c.ipsq("events", "r", "--format", "jsonl").stdout.splitlines()]
    nodes = c.graph("r")
    ids = {n["id"]: n for n in nodes}
    roots = {(n["pid"], n["tid"]) for n in nodes
             if n["kind"] == "START" and n["xpred"] is None}
    bases = {}
    for e in events:
        key = (e["pid"], e["tid"])
        if e["type"] == "start" and key in roots:
            bases.setdefault(key, e["cpu_ns"])
    place = arcs_on_clock(nodes, bases)
    spans = self_times(events, names)
    a = profile(c)
    on_path = []
    for s in a["segments"]:
        at = s["to_node"]
        while s["kind"] == "compute" and at != s["from_node"]:
            on_path.append(ids[at])
            at = ids[at]["pred"]
    exact = {r["procedure"]: r["ns"] for r in a["shares"]["procedures"]
             if r["exact"] and r["ns"]}
    assert exact == overlaps(on_path, place, spans)
    exact = {r["procedure"]: r["ns"] for r in a["whole"]["procedures"]
             if r["exact"] and r["ns"]}
    truth = overlaps(nodes, place, spans)
    assert exact == truth
    assert set(truth) == {"ask", "answer", "aside"}


# --- two machines ----------------------------------------------------------

def test_a_path_over_two_machines(cluster, build_program):
    """Each machine tells its pieces, the master puts them together. Would
    catch: procedures of one machine alone, steps out of the path's order,
    nodes of the wrong machine's numbering."""
    c = cluster(["m1", "m2"])
    server = c.popen([build_program, "serve", 1], name="r", options=SAMPLED,
                     machine=1, stdout=-1, text=True)
    port = next(line.split()[1] for line in server.stdout
                if line.startswith("port "))
    c.ipsrun([build_program, "call", port, 60, 1], join="r", options=SAMPLED,
             machine=0, check=True)
    assert server.wait(120) == 0
    c.wait_closed("r", machines=2)
    a = profile(c)
    path = by_name(a["shares"]["procedures"])
    # On a busy machine a part of the path is in read() and write(), see above.
    assert path["ask"] + path["answer"] > 0.65 * a["t_max_ns"]
    assert {r["object"] for r in a["shares"]["machines"]} == {"/m1", "/m2"}
    best = a["sequences"][0]
    pairs = set(zip(best["objects"], best["procedures"]))
    assert [(o.split("/")[1], p) for o, p in sorted(pairs)] == \
        [("m1", "ask"), ("m2", "answer")]
    assert best["count"] > 20
    # Windows side by side have all of it; each its own shares.
    cuts = ["0", "0.05s", "0.1s", "0.3s", "1000s"]
    parts = [profile(c, "--from", x, "--to", y)
             for x, y in zip(cuts, cuts[1:])]
    assert sum(p["window_ns"] for p in parts) == a["t_max_ns"]
    assert sum(p["messages"] for p in parts) == a["messages"]
    assert all(p["window_ns"] < a["t_max_ns"] for p in parts)
    whole = [sum(r["ns"] for r in p["whole"]["machines"]) for p in parts]
    assert sum(whole) == a["total_cpu_ns"]
    asks = [by_name(p["shares"]["processes"] and
                    p["shares"]["procedures"])["ask"] for p in parts]
    assert 0 < max(asks) < path["ask"]


def test_without_procedures(cluster, build_program):
    """Nothing was sampled: it is said, and the path is there all the same.
    Would catch: an answer that fails or makes procedures up."""
    c = cluster()
    c.ipsrun([build_program, "both", 3, 0.1], name="r",
             options=["--procedures=off"], check=True)
    c.wait_closed("r")
    a = profile(c)
    assert [r["procedure"] for r in a["shares"]["procedures"]] == \
        ["[unsampled]"]
    assert "by procedure" not in c.ipsq("path", "r").stdout
    late = c.json("path", "r", "--from", "1000s", status=(0, 3))
    assert late["window_ns"] == 0
    for words, what in [(["--by", "colour"], "not one of"),
                        (["--by", "line,"], "not one of"),
                        (["--from", "2s", "--to", "1s"], "before")]:
        done = c.ipsq("path", "r", *words)
        assert done.returncode == 2 and what in done.stderr, words
    done = c.ipsq("procedures", "r", "--by", "thread")
    assert done.returncode == 2 and "procedures takes procedure" in done.stderr
