"""Procedures by sampling, as the agent records them (before any daemon): that
samples come at the rate asked for, say where the time goes and who called, and
that no program can tell that it is sampled."""
import collections
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

from conftest import clean_env

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "oracle"))

import pool_reader as pool  # noqa: E402

HZ_NS = 10_000_000  # CONFIG_HZ may be 100: samples are no closer than a tick


class Run:
    """What a command printed, and what is in the pool."""

    def __init__(self, done, directory):
        self.status, self.out, self.err = \
            done.returncode, done.stdout, done.stderr
        self.streams = [[rec for seg in segs for rec in seg.records()]
                        for segs in pool.streams(directory)]

    def records(self, *kinds):
        return [r for s in self.streams for r in s if r.kind in kinds]

    def places(self):
        """{name: (start, end)} of what i_procedures printed."""
        rows = [line.split() for line in self.out.splitlines()]
        return {r[0]: (int(r[1], 16), int(r[2], 16)) for r in rows
                if len(r) == 3}

    def names(self, frames):
        """The procedures that a stack goes through, innermost first."""
        where = self.places()
        found = []
        for i, frame in enumerate(frames):
            pc = frame - (1 if i else 0)
            found += [n for n, (a, b) in where.items() if a <= pc < b]
        return found


@pytest.fixture
def sample(build):
    """sample(argv, *options) runs it recorded, at --rate 1 unless said."""
    root = pathlib.Path(tempfile.mkdtemp(prefix="ips-test-", dir="/dev/shm"))
    count = iter(range(1000))

    def run(argv, *options, timeout=60, env=None):
        name = f"r{next(count)}"
        options = options or ("--rate", "1")
        done = subprocess.run(
            [build.bin("ipsrun"), "--pool", str(root / "pool"), "--name", name,
             "--no-daemons", "--quiet", *options, "--", *map(str, argv)],
            env=clean_env(**(env or {})), stdin=subprocess.DEVNULL, text=True,
            capture_output=True, timeout=timeout)
        return Run(done, root / "pool" / name)

    yield run
    shutil.rmtree(root, ignore_errors=True)


def test_shares_and_rate(build, sample):
    """hot_three takes 3/4 of the CPU and is called by caller_three alone. Would
    catch a timer on the wrong clock, samples that are lost or doubled, a wrong
    pc, and an unwinder that skips or invents a caller."""
    r = sample([build.program("i_procedures"), "hot", "1000"], "--rate", "4")
    assert r.status == 0, r.err
    samples = r.records(pool.SAMPLE)
    cpu = r.records(pool.END)[-1].cpu
    assert all(s.period == 4_000_000 for s in samples)
    # Not more than were asked for, not fewer than the slowest tick gives.
    assert 0.7 * cpu / HZ_NS < len(samples) <= 1 + 1.1 * cpu / 4_000_000
    assert [s.cpu for s in samples] == sorted(s.cpu for s in samples)
    leaf = collections.Counter(r.names(s.frames[:1])[0] for s in samples
                               if r.names(s.frames[:1]))
    n = leaf["hot_three"] + leaf["hot_one"]
    assert n > 0.9 * len(samples)
    sd = (0.75 * 0.25 / n) ** 0.5
    assert abs(leaf["hot_three"] / n - 0.75) < 5 * sd
    for s in samples:
        names = r.names(s.frames)
        if names[:1] == ["hot_three"]:
            assert names == ["hot_three", "caller_three"]
        if names[:1] == ["hot_one"]:
            assert names == ["hot_one", "caller_one"]


def test_stack_of_a_wait(build, sample):
    """A read that blocks inside a comparison of qsort: its STACK follows its
    record and names the chain through the C library, which has no frame
    pointers. Would catch a stack of the wrong record, or one that begins in
    the wrapper."""
    r = sample([build.program("i_procedures"), "deep"])
    assert r.status == 0, r.err
    stream = next(s for s in r.streams
                  if any(x.kind == pool.RECV for x in s))
    at = next(i for i, x in enumerate(stream) if x.kind == pool.RECV)
    stack = next(x for x in stream[at:] if x.kind == pool.STACK)
    assert stack.t == stream[at].t
    assert stack.frames[0] == stream[at].site
    names = [n for i, n in enumerate(r.names([0, *stack.frames]))]
    assert names == ["chain_wait", "chain_compare", "chain_sort"]


def test_modules(build, sample):
    """Every frame lies in a module that was written before it, with the build
    id that readelf finds. Would catch a missing module or a wrong bias."""
    r = sample([build.program("i_procedures"), "hot", "100"])
    known = []
    for rec in r.streams[-1]:
        if rec.kind == pool.MODULE:
            known.append(rec)
        elif rec.kind == pool.SAMPLE:
            assert all(any(m.start <= f < m.end for m in known)
                       for f in rec.frames)
    own = next(m for m in known if m.text.endswith("/i_procedures"))
    notes = subprocess.run(["readelf", "-n", own.text], text=True,
                           capture_output=True, check=True).stdout
    assert len(own.build_id) == 40 and own.build_id in notes
    symbols = subprocess.run(["readelf", "-sW", own.text], text=True,
                             capture_output=True, check=True).stdout
    value = next(int(line.split()[1], 16) for line in symbols.splitlines()
                 if line.endswith(" hot_three"))
    assert r.places()["hot_three"][0] - own.bias == value


def test_off(build, sample):
    """--procedures=off: no timer, so no sample; the output is the same."""
    r = sample([build.program("i_procedures"), "hot", "100"],
               "--procedures=off")
    assert r.status == 0
    assert not r.records(pool.SAMPLE, pool.STACK)
