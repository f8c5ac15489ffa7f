"""Naps between tries of a flag in memory, which no record shows, and naps that are none.

The program (tests/programs/interposed/i_flag.c) naps until another thread or process, which
computes for MS, sets a flag, and then computes for MS itself. What it waited for has no arc,
so an answer has to admit that the path may be longer."""
import itertools
import json

import pytest

MS = 50
NAPS = ("usleep", "nanosleep", "clock_nanosleep", "thrd_sleep", "poll", "ppoll", "select",
        "pselect")


def answer(c, *words):
    done = c.ipsq(*words, "--format", "json")
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def record(c, build, what, nap, where, ms):
    run = "-".join((what, nap, where))
    c.ipsrun([build.program("i_flag"), what, nap, where, str(ms)], name=run, check=True)
    return run


def asleep(path):
    return sum(s["ns"] for s in path["segments"] if s["kind"] == "external")


TRIES = [*itertools.product(("flag",), NAPS, ("thread", "process")),
         ("locked", "usleep", "thread"), ("locked", "poll", "process")]


def test_tries_of_a_flag(cluster, build):
    """Would catch: the naps on the path as sleeps, or a path without them and without the
    work that they waited for which is called complete; a bound that is too small; a path in
    wall that is not as long as the run; engines that do not agree."""
    c, wrong = cluster(), []
    runs = [record(c, build, *cell, MS) for cell in TRIES]
    for run in runs:
        c.wait_closed(run)
        for more in (["--weighting", "cpu"], ["--weighting", "sched"],
                     ["--weighting", "cpu", "--engine", "central"]):
            a = answer(c, "path", run, *more)
            gaps, ns = a["certificate"]["gaps"], a["t_max_ns"]
            # On a busy machine one that took long may be a sleep like another.
            if 2 * asleep(a) > a["certificate"]["unended_ns"] or ns + a["certificate"]["unended_ns"] < 1.5e6 * MS or \
                    not any("too short by up to" in g for g in gaps):
                wrong.append((run, more, ns, asleep(a), a["certificate"]))
        a = answer(c, "path", run, "--weighting", "wall")
        if not 0.9 * a["elapsed_ns"] <= a["t_max_ns"] <= a["elapsed_ns"] or \
                a["certificate"]["complete"]:
            wrong.append((run, "wall", a["t_max_ns"], a["elapsed_ns"], a["certificate"]))
    assert not wrong


@pytest.mark.parametrize("where", ["thread", "process"])
def test_why_is_not_sure_of_them(cluster, build, where):
    """Would catch: a cause called certain where half of the path is a wait for a flag."""
    c = cluster()
    run = record(c, build, "flag", "usleep", where, 2 * MS)
    c.wait_closed(run)
    a = answer(c, "why", run)
    assert not a["certificate"]["complete"] and a["sure"] != "high"
    assert not [f for f in a["findings"] if f["sure"] == "high"]


OTHERS = [*itertools.product(("tick", "record"), ("usleep", "poll"), ("-",)),
          *itertools.product(("once", "twice"), ("usleep", "nanosleep", "select"), ("-",))]


def test_other_naps(cluster, build):
    """Would catch: a thread that paces itself, and computes or moves bytes between its naps,
    taken for one that tries a flag; one or two sleeps taken for tries."""
    c, wrong = cluster(), []
    for cell in OTHERS:
        run = record(c, build, *cell, 10 if cell[0] in ("tick", "record") else MS)
        c.wait_closed(run)
        for more in (["--weighting", "cpu"], ["--weighting", "wall"]):
            a = answer(c, "path", run, *more)
            naps = {"once": MS, "twice": 2 * MS}.get(cell[0], 80)
            if not a["certificate"]["complete"] or a["t_max_ns"] < 0.99e6 * naps or \
                    a["certificate"]["unended_ns"]:
                wrong.append((run, more, a["t_max_ns"], a["certificate"]))
    assert not wrong
