"""Shows "phases against an exact search": random series with steps, cut in C
with integers and tables and by an independent search in floating point.
EVIDENCE-OF: IPS-16"""
import json
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "oracle"))
import phases_oracle  # noqa: E402

SERIES = 60


def asked(build, first, count):
    done = subprocess.run(
        [build.program("phase_series"), str(first), str(count)],
        check=True, text=True, stdout=subprocess.PIPE)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.quick
def test_phases_are_the_cheapest(build):
    """Would catch a wrong level, a wrong logarithm, a search that misses the
    best cut, and neighbours left apart that are alike, or merged that are
    not."""
    answers = asked(build, 1, SERIES)
    for number, answer in enumerate(answers):
        assert phases_oracle.differences(answer) == [], number
    assert len(answers) == SERIES
    assert sum(len(answer["cut"]) > 1 for answer in answers) > SERIES // 3
    assert any(answer["cut"] != answer["found"] for answer in answers)


@pytest.mark.quick
def test_phases_oracle_notices(build):
    """The oracle itself must not call a wrong answer right: a boundary that is
    moved, one too many, and a cost that is off."""
    noticed = 0
    for answer in asked(build, 1, 20):
        ends = answer["cut"]
        wrong = dict(answer, cost=answer["cost"] + 0.01)
        assert phases_oracle.differences(wrong)
        if len(ends) < 2:
            continue
        wrong = dict(answer, cut=ends[1:], found=ends[1:])
        assert phases_oracle.differences(wrong)
        noticed += 1
    assert noticed > 3
