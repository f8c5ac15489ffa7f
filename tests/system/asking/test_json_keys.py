"""docs/ipsq-json.md against what ipsq prints, and docs/metrics.md against the tables
that it describes: programs are written by these pages.

What is asked is asked of one run, a pipeline on each of two machines."""
import re

import pytest

from conftest import ROOT, Cluster
from test_calibrate import table
from test_tables import PIPELINE

pytestmark = pytest.mark.quick

ALL_BY = "machine,process,thread,procedure,line,message,external"
WINDOW = ("--from", "1ms", "--to", "100s")
# By section of the page: questions that together have all keys of it.
QUESTIONS = {
    "status": [()],
    "runs": [(), ("--top", 1)],
    "ls": [("one",), ("one", *WINDOW)],
    "metrics": [("one", "--level", "thread"), ("one", "--pop"),
                ("one", "--level", "procedure"), ("one", *WINDOW)],
    "path": [("one", "--by", ALL_BY, "--sequences", "--whole", "--slack",
              "--next", 3, *WINDOW), ("one", "--weighting", "wall")],
    "whatif": [("one", *WINDOW), ("one", "--object", "/m1", "--gone")],
    "predict": [("one",), ("one", "--search", "--machines", "a;b", "--tries", 9),
                ("one", "--map", "*=m1", "--network", "m1>m2=1us@bus")],
    "why": [("one",), ("one,two",), ("one", "--from", "1ms")],
    "waits": [("one", "--stacks")],
    "procedures": [("one",), ("one", "--by", "line")],
    "phases": [("one",)],
    "diff": [("one", "two"), ("one", "two", "--top", 1, "--to", "100s")],
    "events": [("one", "--top", 50, "--stacks")],
    "graph": [("one",)],
    "requests": [("one",)],
    "bottleneck": [("one",)],
    "estimate": [("one",), ("one", "--shared-medium")],
    "calibrate": [("--show",)],
    "summary": [("one",)],
    "check": [("one", "--max-wall", "1000s", "--max-lost", 0)],
}


@pytest.fixture(name="run", scope="module")
def a_run(build, tmp_path_factory):
    c = Cluster(build, ["m1", "m2"])
    c.ipsrun(["sh", "-c", PIPELINE], name="one", check=True)
    c.ipsrun(["sh", "-c", PIPELINE], join="one", machine=1, check=True)
    c.ipsrun(["sh", "-c", "seq 9 | cat"], name="two", check=True)
    c.wait_closed("one", 2)
    c.wait_closed("two")
    times = tmp_path_factory.mktemp("times") / "times"
    times.write_text(table(("m1", "m2", 1)))
    assert c.ipsq("calibrate", "--import", times).returncode == 0
    yield c
    c.close()


def sections(page):
    """Text by heading."""
    parts = re.split(r"(?m)^## (.+)$", (ROOT / "docs" / page).read_text())
    return dict(zip(parts[1::2], parts[2::2]))


def words_of(text):
    """All that stands as code, without what marks a list."""
    return {w.removesuffix("[]") for w in re.findall(r"`([^`\s]+)`", text)}


def keys_told(text):
    """The first column of the tables of keys."""
    found, inside = set(), False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
        elif line.startswith("| key |"):
            inside = True
        elif inside:
            found |= words_of(line.split("|")[1])
    return found


def keys_of(value):
    """Of all objects in it; what the certificate has is told apart."""
    if isinstance(value, list):
        return set().union(*map(keys_of, value))
    if not isinstance(value, dict):
        return set()
    found = set(value)
    for key, inner in value.items():
        if key != "certificate":
            found |= keys_of(inner)
    return found


def test_commands_are_told(build, run):
    """Would catch a command of which the page says nothing."""
    text = run.ipsq("--help").stdout
    commands = set(re.findall(r"(?m)^  ([a-z]+)  ", text))
    assert {"path", "check"} <= commands
    local = {"shell", "completion", "help", "version"}
    assert commands - local - {"sql"} == set(QUESTIONS)
    assert set(QUESTIONS) | {"sql"} <= set(sections("ipsq-json.md"))


@pytest.mark.parametrize("command", sorted(QUESTIONS))
def test_keys(run, command):
    """Would catch a key that the page does not have, in whatever row; and one of its
    tables that is not there ("every key is always present")."""
    pages = sections("ipsq-json.md")
    printed, certificates = set(), []
    for words in QUESTIONS[command]:
        answer = run.json(command, *words, status=(0, 3))
        printed |= keys_of(answer)
        certificates += [answer["certificate"]] if "certificate" in answer else []
    told = words_of(pages[command])
    told |= {f"{key}_left_out" for key in told}  # as the head of the page says
    assert printed - told == set(), "not on the page"
    assert keys_told(pages[command]) - printed == set(), "not printed"
    for one in certificates:
        assert keys_of(one) <= words_of(pages["certificate"])
        assert keys_told(pages["certificate"]) <= set(one), "not printed"


# ---- docs/metrics.md ---------------------------------------------------------

LEVELS = ("run", "machine", "process", "thread", "procedure")
# Where the page says "-": a kernel that tells no run delay; what was not counted.
MAY_BE_NULL = {"wait_cpu_ns", "load", "calls"}


def levels_told():
    """{key: levels at which it is defined}, by the page's table."""
    found = {}
    for line in sections("metrics.md")["Levels"].splitlines():
        cells = [c.strip() for c in line.split("|")[1:-1]]
        if len(cells) == 9 and cells[0].startswith("`"):
            for key in words_of(cells[0]):
                found[key] = {level for level, cell in
                              zip(LEVELS, cells[3:8]) if cell}
    return found


def test_metrics_by_level(run):
    """Would catch a metric that is told at a level at which the page has none, or is
    missing where it has one. EVIDENCE-OF: IPS-3"""
    told = levels_told()
    assert len(told) > 30
    for level in LEVELS:
        rows = run.json("metrics", "one", "--level", level)["metrics"]
        assert rows
        got = {key for row in rows for key, value in row.items()
               if value is not None}
        want = {key for key, where in told.items() if level in where}
        # Of several machines nobody knows who lived at the same time.
        want -= {"processes_alive_max"} if level == "run" else set()
        assert want - got - MAY_BE_NULL == set(), (level, "missing")
        assert (set(told) & got) - want == set(), (level, "not defined here")


def test_views_of_sql(run):
    """Would catch a view, or a column of one, that the page does not have, or that
    is not there. EVIDENCE-OF: IPS-8"""
    told = {}
    for line in sections("metrics.md")["SQL"].splitlines():
        cells = line.split("|")
        if len(cells) == 5 and cells[1].strip().startswith("`"):
            (view,) = words_of(cells[1])
            # What stands in brackets are values.
            told[view] = words_of(re.sub(r"\([^)]*\)", "", cells[3]))
    done = run.ipsq("sql", "one", "")
    assert done.returncode == 2
    there = {name: set(columns.replace(",", " ").split()) for name, columns in
             re.findall(r"(\w+) ?\(([\w, \n]+)\)", done.stderr)}
    assert there == told
    for view, columns in told.items():
        rows = run.json("sql", "one", f"SELECT * FROM {view}")["rows"]
        assert rows and set(rows[0]) == columns | {"machine"}, view
