"""Shows "waits and idle time against an oracle that has neither heaps nor
stacks": some hundred random graphs with random times, waits and windows, a
third of them damaged as records of machines whose clocks are apart may be."""
import json
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "oracle"))
import waits_oracle  # noqa: E402

GRAPHS = 150


def asked(build, first, count):
    done = subprocess.run(
        [build.program("waits_graph"), str(first), str(count)],
        check=True, text=True, stdout=subprocess.PIPE)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.quick
def test_waits_agree_with_the_oracle(build):
    """EVIDENCE-OF: IPS-15. Would catch any error in following chains of waits,
    in what an interval is blamed on, and in the account of a machine's cores."""
    graphs = asked(build, 1, GRAPHS)
    assert len(graphs) == GRAPHS
    followed = 0
    for ask in graphs:
        assert list(waits_oracle.differences(ask)) == [], ask["seed"]
        followed += sum(len(parts) > 3 for parts in ask["blame"])
    assert followed > GRAPHS  # the graphs are worth the trouble


@pytest.mark.quick
def test_waits_oracle_notices(build):
    """The oracle itself must not call a wrong answer right: a ns of blame put
    elsewhere, or a few hundred of idle time, is always noticed."""
    for ask in asked(build, 1, 20):
        wrong = json.loads(json.dumps(ask))
        some = next(parts for parts in wrong["blame"] if parts)
        some[0][4] += 1
        assert list(waits_oracle.differences(wrong)), ask["seed"]
        wrong = json.loads(json.dumps(ask))
        what = wrong["idle"][0][5]
        what["running"] += 1
        assert list(waits_oracle.differences(wrong)), ask["seed"]
        what["others"] += 100000
        what["running"] -= 100001
        assert list(waits_oracle.differences(wrong)), ask["seed"]
