"""Sleeps for pages from the disk, which are no calls, are disk time."""
import pathlib

import pytest

from test_interposer import program, trace  # noqa: F401 (a fixture)
from test_signals import Graph

pytestmark = pytest.mark.quick


def touch(build, trace, tmp_path, how):
    """How long i_page_faults slept in the touches, and how long it waited for a
    CPU there, as it measured itself; how long it waited for the outside by the graph."""
    file = tmp_path / "pages"
    r = trace([program(build, "i_page_faults"), how, str(file)], status=0)
    faults, asleep, delay = map(
        int, pathlib.Path(str(file) + ".told").read_text().split())
    if faults < 100:
        pytest.skip("the files of this directory stay in memory")
    files = sum(b["t_ret"] - b["t"] - (b["cpu_ret"] - b["cpu"]) for b in r.of("BLOCK", op="DISK"))
    waits = sum(z["xarc_cpu_ns"] for _, z in Graph(build, r).arcs("external"))
    return asleep, delay, waits - files


@pytest.mark.parametrize("how", ["plain", "calls", "busy", "thread"])
def test_sleeps_for_pages(build, trace, tmp_path, how):
    """Would catch: time asleep in page faults that nothing explains, or more of it than
    there was; found only at samples, at calls or at the thread's end."""
    asleep, delay, waits = touch(build, trace, tmp_path, how)
    # Time off the CPU that may have been a wait for it is not said to be the disk's.
    assert 0.7 * asleep - delay - 20_000_000 <= waits <= 1.3 * asleep + 20_000_000


def test_faults_within_calls(build, trace, tmp_path):
    """Would catch: a sleep for pages in a call that counts twice, as one of the call and
    as one outside of calls."""
    asleep, _, waits = touch(build, trace, tmp_path, "within")
    assert waits <= 0.3 * asleep + 10_000_000


def test_other_sleeps(build, trace, tmp_path):
    """Would catch: sleeps in system calls that are not wrapped taken for page faults,
    because there was a page fault, too."""
    asleep, _, waits = touch(build, trace, tmp_path, "futex")
    assert waits <= 0.2 * asleep
