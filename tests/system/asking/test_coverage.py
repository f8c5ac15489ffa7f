"""docs/coverage.md against the tests: every row names tests, and each of them is
there. Would catch: a row whose test was renamed or deleted, a row without one."""
import re

import pytest

from conftest import ROOT

TESTS = ROOT / "tests"
NAMED = re.compile(r"`((?:test|fuzz)_\w+(?:\.py)?)(?:::(\w+)|/(\w+))?")


def rows():
    for line in (ROOT / "docs" / "coverage.md").read_text().splitlines():
        cells = [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 4 and not set(cells[0]) <= {"-"} and \
                cells[0] != "call or behaviour":
            yield cells


def missing(name, case, unit_case):
    if name.endswith(".py"):
        path = next((TESTS / "system").rglob(name), TESTS / name)
        wanted = f"def {case}(" if case else ""
    else:
        path = next(TESTS.rglob(f"{name}.c"), TESTS / name)
        # test_x/case stands for test_x__case
        wanted = unit_case or ""
        if wanted and not wanted.startswith("test_"):
            wanted = f"{name}__{wanted}"
        wanted = wanted and f"{wanted}("
    return not path.exists() or wanted not in path.read_text()


@pytest.mark.quick
def test_every_row_has_its_tests():
    table = list(rows())
    assert len(table) > 100
    for cells in table:
        named = NAMED.findall(cells[3])
        assert named, f"no test: {cells[0]}"
        for one in named:
            assert not missing(*one), f"{cells[0]}: {one}"
