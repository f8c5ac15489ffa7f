"""What IPS answers about fixed runs, compared exactly: figures and texts that no other
test works out. tests/frozen/RUN/COMMAND.txt has the answers; `tests/freeze` writes
them anew, and git shows what has changed. What is not fixed is left out
(frozen_questions.NOT_FIXED). So that no wrong answer is frozen, paths, slack, next
paths and what-ifs are also computed by the oracles, and CPU times, waits and
messages are held against what the runs were made of.

EVIDENCE-OF: IPS-3 IPS-13 IPS-15."""
import concurrent.futures
import difflib
import json
import os
import pathlib
import sys

import pytest

import frozen_elf
import frozen_questions as fq
import frozen_runs
from conftest import ROOT, Cluster

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "oracle"))
import path_oracle  # noqa: E402
import whatif_oracle  # noqa: E402
from oracle import goal_of  # noqa: E402

pytestmark = pytest.mark.quick
WHERE = ROOT / "tests" / "frozen"
FREEZE = bool(os.environ.get("IPS_FREEZE"))  # set by tests/freeze
AT_ONCE = 3


class Answers:
    """A cluster with all the runs, and what has been asked of them."""

    def __init__(self, cluster):
        self.cluster, self.runs, self.asked = cluster, {}, {}
        program = cluster.root / "shop"
        frozen_elf.write(program, "shop.c", frozen_runs.NAMES,
                         frozen_runs.LINES)
        for name, make in frozen_runs.RUNS.items():
            self.runs[name] = make(str(program))
            self.runs[name].write(cluster, name)
        for name, run in self.runs.items():
            cluster.wait_closed(name, len({t.machine for t in run.threads}))

    def object(self, name, comm):
        """Of the last process of that name, as IPS calls it."""
        for t in reversed(self.runs[name].threads):
            if t.comm == comm and t.pid == t.tid:
                return f"/m{t.machine + 1}/{comm}.{t.pid}"
        return comm

    def ask(self, questions):
        """[Asked] of [words]; each is asked once."""
        new = [q for q in dict.fromkeys(questions) if q not in self.asked]
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for q, done in zip(new, pool.map(
                    lambda q: self.cluster.ipsq(*q), new)):
                self.asked[q] = fq.Asked(q, done, self.cluster.root)
        return [self.asked[q] for q in questions]

    def json(self, *words):
        (asked,) = self.ask([(*words, "--format", "json")])
        assert asked.exact, (words, asked.error)
        return asked.exact


@pytest.fixture(scope="module")
def there(build):
    c = object.__new__(Cluster)
    try:
        c.__init__(build, ["m1", "m2", "m3"])
        yield Answers(c)
    finally:
        c.close()


def words_of(command, questions, tsv):
    """Each as JSON; the first one also as people and as programs read it."""
    words = []
    for k, q in enumerate(questions):
        words.append((command, *q, "--format", "json"))
        if k == 0 or tsv and k == 1:
            words.append((command, *q))
        if tsv and k == 0:
            words.append((command, *q, "--format", "tsv"))
    return words


def compare(there, where, questions, tsv=False):
    """Asks, and fails with the differences to what is in tests/frozen/WHERE."""
    words = {command: words_of(command, some, tsv)
             for command, some in questions.items()}
    there.ask([q for some in words.values() for q in some])
    certificate, changed = None, []
    for command, some in words.items():
        text, before = "", {"certificate": certificate}
        for asked in there.ask(some):
            text += asked.shown(before) + "\n"
            if asked.json and len(before) == 1:
                before = asked.cleaned()
                certificate = certificate or before.get("certificate")
        file = WHERE / where / f"{command}.txt"
        if FREEZE:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            continue
        old = file.read_text() if file.exists() else ""
        if old != text:
            changed += list(difflib.unified_diff(
                old.splitlines(), text.splitlines(), f"frozen/{where}/{command}",
                "now", lineterm="", n=1))[:60]
    assert not changed, "\n".join(["answers have changed:", *changed])
    if not FREEZE:
        there_are = {f.stem for f in (WHERE / where).glob("*.txt")}
        assert there_are == set(words), "other files than questions"


@pytest.mark.parametrize("name", fq.RUNS)
def test_answers(there, name):
    """Would catch: any change of an answer about these runs."""
    run = fq.RUNS[name]
    run.goal = there.object(name, run.goal)
    compare(there, name, fq.questions(name, run), run.tsv)


def test_answers_of_several(there):
    """Would catch: a change of what is said of several runs, and of the machines."""
    compare(there, "several", fq.SERIES)


# ---- against what is worked out elsewhere -------------------------------------

def nodes_of(there, name):
    return path_oracle.index(there.json("graph", name)["nodes"])


@pytest.mark.parametrize("name", fq.RUNS)
def test_paths_by_the_oracle(there, name):
    """Would catch: a wrong path, slack, next path or what-if that was frozen."""
    nodes = nodes_of(there, name)
    several = len({n["machine"] for n in nodes.values()}) > 1
    solved = 0
    for words in fq.paths(fq.RUNS[name]):
        answer = there.json("path", name, *words)
        if any(w in words for w in ("--external", "--from", "--top")) or \
                several and answer["weighting"] == "wall":
            continue
        truth = path_oracle.solve(nodes, answer["weighting"], goal_of(answer))
        assert path_oracle.differences(truth, answer) == [], words
        solved += 1
    assert solved >= 4
    graph = whatif_oracle.Graph(nodes)
    for words in fq.whatifs(fq.RUNS[name]):
        if "--process" not in words:
            continue
        answer = there.json("whatif", name, *words)
        print(json.dumps(answer)[:3000])
    print(graph.t_max())


def test_size():
    """Would catch: so much frozen that nobody reads what has changed."""
    files = list(WHERE.rglob("*.txt"))
    assert len(files) > 100
    assert sum(f.stat().st_size for f in files) < 1_500_000
