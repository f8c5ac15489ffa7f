"""Shows "the replay against an exact-rational simulator", in short form:
tests/bench/replay-graphs does it over 10^5 graphs. A few hundred random graphs
on random machines (cores, speeds, loads that change, chains that move, message
times by pair, media that transfers share, locks), as they are and contracted, replayed in C and in fractions: every node's time, the machines'
idle times, every chain's account, and the relabelled graph."""
import collections
import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "oracle"))
import crew_oracle  # noqa: E402
import queue_oracle  # noqa: E402
import replay_oracle  # noqa: E402

GRAPHS = 400
QUEUES = 40
LONG_FORM = pathlib.Path(__file__).parents[2] / "bench" / "replay-graphs"


def asked(build, first, count, *limits, program="replay_graph"):
    done = subprocess.run(
        [build.program(program), str(first), str(count), *limits],
        check=True, text=True, stdout=subprocess.PIPE)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_replay_agrees_with_fractions(build):
    """Would catch any error of the C replay's arithmetic, of its order of
    events, and of its accounts: the oracle has neither virtual time nor heaps."""
    graphs = asked(build, 1, GRAPHS)
    bursts = wires = shared = media = waits = kept = inline = 0
    for ask in graphs:
        assert list(replay_oracle.differences(dict(ask))) == [], ask["seed"]
        media += ask["media"] > 0
        bursts += any(ask["bursts"])
        wires += any(ask["wires"])
        waits += any(ask.get("waits", []))
        kept += ask["kept"] > 0
        inline += sum(x >= 0 for x in ask["giver"])
        shared += sum(account[3] > 0 for account in ask["account"])
    assert len(graphs) == GRAPHS
    assert shared > GRAPHS  # the graphs are worth the trouble
    assert media > GRAPHS / 10 and waits > GRAPHS / 10
    assert bursts > GRAPHS / 40 and wires > GRAPHS / 40
    assert kept > GRAPHS / 20 and inline > GRAPHS / 4


@pytest.mark.quick
def test_replay_seeds_that_differed(build):
    """What the long form found: a thousand turns, each a unit late (5752); a message that
    a medium lets pass at the very begin, which came a unit late (11848); two at one moment
    for what one medium had saved (22451), of which nobody can say who has it."""
    for seed in 5752, 11848:
        ask, = asked(build, seed, 1)
        assert list(replay_oracle.differences(ask)) == [], seed
    ask, = asked(build, 22451, 1)
    assert replay_oracle.unsure(ask)


@pytest.mark.quick
def test_replay_oracle_notices(build):
    """The oracle itself must not call a wrong answer right: one figure of an
    answer changed by 2 ns (sums of rounded times: by more) is always noticed."""
    graphs, noticed = asked(build, 1, 20), collections.Counter()
    assert len(graphs) == 20
    for ask in graphs:
        for key in "reach", "weight", "idle", "contracted":
            if not ask.get(key):
                continue
            wrong = json.loads(json.dumps(ask))
            at = ask["seed"] % len(wrong[key])
            if wrong[key][at] < 0:
                continue  # not kept
            wrong[key][at] += 2
            assert list(replay_oracle.differences(wrong)), (ask["seed"], key)
            noticed[key] += 1
        for column in range(5):
            wrong = json.loads(json.dumps(ask))
            wrong["account"][0][column] += len(ask["reach"])
            assert list(replay_oracle.differences(wrong)), ask["seed"]
        waited = [i for i, x in enumerate(ask["giver"]) if x >= 0]
        for i in waited[:1]:
            giver = list(ask["giver"])
            giver[i] = i - 1
            wrong = dict(ask, giver=giver)
            assert list(replay_oracle.differences(wrong)), ask["seed"]
            noticed["giver"] += 1
        wrong = dict(ask, makespan=ask["makespan"] + 1)
        assert list(replay_oracle.differences(wrong)), ask["seed"]
    print(noticed)
    assert min(noticed[key] for key in ("reach", "weight", "idle", "contracted",
                                        "giver")) >= 3, noticed


@pytest.mark.quick
def test_queues_agree_with_their_programs(build):
    """Programs with a work queue, of which the C side has a graph with results
    taken in a random order: in what order they are taken elsewhere, when, and
    when each thread ends is as in a simulation of the program itself. Would
    catch a queue that is not found, work that stays with who had it, a result
    that passes an earlier one of its worker, and one that is taken before all
    of its moment are there. (600 of them have no close call.) And the
    simulation must not call a wrong answer right."""
    graphs, moved, noticed = asked(build, 1, QUEUES, program="queue_graph"), 0, 0
    assert [ask["seed"] for ask in graphs] == list(range(1, QUEUES + 1))
    for ask in graphs:
        assert queue_oracle.differences(ask)[0] == [], ask["seed"]
        moved += len(ask["took"])
        took = ask["took"]
        if ask["seed"] > 5:
            continue
        for wrong in ({"makespan": ask["makespan"] + 3},
                      {"took": [took[1], took[0], *took[2:]]},
                      {"took": [[took[0][0], took[0][1] + 3], *took[1:]]}):
            assert queue_oracle.differences(dict(ask, **wrong))[0]
            noticed += 1
    assert noticed == 5 * 3 and moved > QUEUES


@pytest.mark.quick
def test_crews_agree_with_their_programs(build):
    """Programs whose threads take pieces under a lock, of which the C side has a
    graph with pieces taken in a random order: who takes each elsewhere, when,
    and when each thread ends is as in a simulation of the program itself. Would
    catch a piece that stays with who had it, a lock that goes past the line, and
    one that is given before all who ask at that moment are there. (1000 of them
    have no close call.) And the simulation must not call a wrong answer right."""
    graphs, moved, noticed = asked(build, 1, QUEUES, program="crew_graph"), 0, 0
    assert [ask["seed"] for ask in graphs] == list(range(1, QUEUES + 1))
    for ask in graphs:
        assert crew_oracle.differences(ask)[0] == [], ask["seed"]
        moved += len(ask["had"])
        had = ask["had"]
        if ask["seed"] > 5:
            continue
        other = [[1 - min(had[0][0], 1), had[0][1]], *had[1:]]
        for wrong in ({"makespan": ask["makespan"] + 3}, {"had": other},
                      {"had": [[had[0][0], had[0][1] + 3], *had[1:]]}):
            assert crew_oracle.differences(dict(ask, **wrong))[0]
            noticed += 1
    assert noticed == 5 * 3 and moved > QUEUES


@pytest.mark.quick
def test_replay_graphs_are_made_smaller(build):
    """What the long form does with a graph that differs. Would catch a limit
    that is not obeyed, and a search for the least that stops too early."""
    graphs = asked(build, 1, 40, "steps=4", "chains=2", "machines=1",
                   "moves=0", "loads=0", "cores=1", "weight=3", "turns=0")
    assert len(graphs) == 40
    for ask in graphs:
        assert len(ask["machines"]) == 1 and ask["machines"][0][0] == 1
        assert not ask["moves"] and not ask["loads"]
        assert len(ask["reach"]) <= 2 * 2 + 4 * 3
        assert max(node[0] for chain in ask["chains"] for node in chain) <= 3
    loader = importlib.machinery.SourceFileLoader("long_form", str(LONG_FORM))
    spec = importlib.util.spec_from_loader("long_form", loader)
    long_form = importlib.util.module_from_spec(spec)
    loader.exec_module(long_form)
    tried = []

    def fails(limits):
        tried.append(limits)
        return limits.get("steps", 9999) >= 17 and limits.get("cores", 9) >= 2

    assert long_form.shrink(fails) == {
        "steps": 17, "cores": 2, "chains": 1, "machines": 1, "moves": 0,
        "loads": 0, "media": 0, "waits": 0, "locks": 0, "turns": 0,
        "weight": 1}
    assert len(tried) < 120
