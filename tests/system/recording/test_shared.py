"""Streams that processes write or read which are not recorded: of each receive
it is known who sent it, or it has no arc (tests/programs/interposed/i_shared.c).
"""
import pathlib
import subprocess
import tempfile

import pytest

PROGRAM = pathlib.Path(__file__).parents[2] / "programs/interposed/i_shared.c"
KINDS = ("pipe", "fifo", "pair", "packets")


@pytest.fixture(scope="module")
def other():
    """The same program, linked statically: it is not recorded."""
    with tempfile.TemporaryDirectory() as where:
        program = pathlib.Path(where) / "other"
        subprocess.run(["gcc", "-O1", "-w", "-D_GNU_SOURCE", "-static", PROGRAM,
                        "-o", program], check=True)
        yield program


def matches(c, kind, other, turns):
    """Of each receive of the recorded reader, which send of the recorded writer
    it hangs on, None where it has no arc; and the certificate."""
    own = c.build.program("i_shared")
    done = c.ipsrun([own, kind, other or own, *turns], name="r", check=True)
    writer, reader = map(int, done.stdout.split())
    c.wait_closed("r")
    nodes = {n["id"]: n for n in c.graph("r")}
    receives = sorted((n for n in nodes.values()
                       if n["kind"] == "RECV" and n["pid"] == reader and
                       n["bytes"] == 10), key=lambda n: n["id"])
    ends = {n["channel"] for n in receives}
    if kind in ("pair", "packets"):
        ends = {" ".join(("unix", "-".join(reversed(e[5:].split("-")))))
                for e in ends}
    sends = sorted(n["id"] for n in nodes.values()
                   if n["kind"] == "SEND" and n["pid"] == writer and
                   n["channel"] in ends)
    assert all(n["xkind"] in ("data", None) for n in receives)
    return [sends.index(n["xpred"]) if n["xkind"] else None
            for n in receives], c.json("path", "r", status=(0, 3))["certificate"]


def expected(turns):
    """The same of turns in which every message is read before the next."""
    sends, out = 0, []
    for writer, reader in turns:
        if reader == "r":
            out.append(sends if writer == "r" else None)
        sends += writer == "r"
    return out


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("turns", [
    "or rr rr rr", "rr or or rr rr", "rr rr rr or", "rr oo rr or rr",
    "rr ro rr rr", "ro rr rr rr ro", "rr rr ro ro rr or rr ro rr"])
def test_turns(cluster, other, kind, turns):
    """Would catch: positions that count on where somebody else wrote or read,
    so that receives hang on sends of other turns; receives whose send is known
    for sure and that lose it; a receive from who is not recorded that has a
    sender."""
    found, certificate = matches(cluster(), kind, other, turns.split())
    assert found == expected(turns.split())
    assert certificate["unmatched"] >= found.count(None)


@pytest.mark.parametrize("turns,known", [
    # of three that lie there one is somebody else's: nobody knows which
    ("r_ o_ r_ _r _r _r rr rr", [None, None, None, 2, 3]),
    # the first turn is certain as soon as the reader sleeps again
    ("rr rr r_ o_ r_ _r _r _r rr", [0, None, None, None, None, 4]),
    # of three one is taken by somebody else
    ("rr rr r_ r_ r_ _r _o _r rr rr", [0, None, None, None, 5, 6])])
def test_what_is_not_certain(cluster, other, turns, known):
    """Would catch: a guess; an uncertain part that takes what comes after it
    with it."""
    found, certificate = matches(cluster(), "pipe", other, turns.split())
    assert found == known
    assert certificate["unmatched"] >= found.count(None)


def test_all_recorded(cluster):
    """Would catch: turns of the same kind that lose arcs though all processes
    are recorded."""
    turns = "rr r_ r_ _r _r rr".split()
    found, certificate = matches(cluster(), "pipe", None, turns)
    assert found == [0, 1, 2, 3]
    assert certificate["unmatched"] == 0
