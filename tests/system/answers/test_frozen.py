"""Answers of IPS about fixed runs, compared exactly: figures and texts that no other
test works out. tests/frozen/RUN/COMMAND.txt has the answers; `tests/freeze` writes
them anew, and git shows what has changed. What is not fixed is left out
(frozen_questions.NOT_FIXED). So that no wrong answer is frozen, paths, slack, next
paths and what-ifs are also computed by the oracles, and CPU times, waits and
messages are held against what the runs were made of."""
import concurrent.futures
import difflib
import itertools
import os
import pathlib
import shutil
import statistics
import sys

import pytest

import frozen_elf
import frozen_questions as fq
import frozen_runs
import frozen_screens
from conftest import ROOT, Cluster

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "oracle"))
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
        frozen_elf.write(program, "shop.c", frozen_elf.NAMES,
                         frozen_elf.LINES)
        for name, make in frozen_runs.RUNS.items():
            self.runs[name] = make(str(program))
            self.runs[name].write(cluster, name)
        for name, run in fq.RUNS.items():
            run.goal = run.goal and self.object(name, run.goal)
        for name, run in self.runs.items():
            cluster.wait_closed(name, len({t.machine for t in run.threads}))

    def object(self, name, comm):
        """The last process of that name, as IPS calls it."""
        for t in reversed(self.runs[name].threads):
            if t.comm == comm and t.pid == t.tid:
                return f"/m{t.machine + 1}/{comm}.{t.pid}"
        raise KeyError(comm)

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
    if FREEZE:
        shutil.rmtree(WHERE / where, ignore_errors=True)
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
    compare(there, name, fq.questions(name, run), run.tsv)


def test_answers_of_several(there):
    """Would catch: a change of what is said of several runs, and of the machines."""
    compare(there, "several", fq.SERIES)


def test_answers_with_message_times(there):
    """Would catch: a change of what is said with measured message times, and of the
    table itself."""
    times = there.cluster.root / "times"
    times.write_text(fq.TIMES)
    c = there.cluster
    assert c.ipsq("calibrate", "--import", times).returncode == 0
    there.asked = {}
    try:
        compare(there, "calibrated/table", {"calibrate": [
            ("--show",), ("--export", "-")]})
        for name, questions in fq.CALIBRATED.items():
            compare(there, f"calibrated/{name}", {
                command: [(name, *words) for words in some]
                for command, some in questions.items()})
    finally:
        there.asked = {}
        assert c.ipsq("calibrate", "--forget").returncode == 0


@pytest.mark.parametrize("size", frozen_screens.SIZES)
def test_screens(there, size):
    """Would catch: a table wider than the terminal, or cut with --wide; a number that is cut;
    colours without being asked for; and any other change of what a person sees."""
    columns, rows = frozen_screens.SIZES[size]
    text = ""
    for words in frozen_screens.QUESTIONS:
        seen = frozen_screens.screen(there.cluster, words, columns, rows)
        whole = there.cluster.ipsq(*words)
        if "--wide" in words:
            rows_of = [line for line in whole.stdout.splitlines() if "  " in line]
            assert rows_of and [row for row in rows_of if row not in seen] == []
        else:
            assert frozen_screens.too_wide(seen, columns) == [], words
        cut = frozen_screens.cut_figures(seen, whole.stdout + whole.stderr)
        assert not cut and "\x1b" not in seen, words
        text += f"$ ipsq {' '.join(words)}\n" + \
            fq.clean_text(seen, there.cluster.root) + "\n"
    file = WHERE / "screens" / f"{size}.txt"
    if FREEZE:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    old = file.read_text() if file.exists() else ""
    assert old == text, "\n".join(difflib.unified_diff(
        old.splitlines(), text.splitlines(), f"frozen/screens/{size}", "now", lineterm="", n=1))


def test_colours_and_characters(there):
    """Would catch: no colours where they are wanted, or where they are not (a pipe, NO_COLOR, a
    terminal that has none); characters that the locale does not have."""
    words = ("ls", "farm")
    plain = frozen_screens.screen(there.cluster, words, 80, 24)
    gay = frozen_screens.screen(there.cluster, words, 80, 24, NO_COLOR="")
    assert "\x1b[1mOBJECT" in gay and "\x1b" not in plain
    assert "\x1b" not in frozen_screens.screen(there.cluster, words, 80, 24, NO_COLOR="", TERM="dumb")
    assert "\x1b" not in there.cluster.ipsq(*words).stdout
    phases = ("phases", "shop")
    assert "█" in frozen_screens.screen(there.cluster, phases, 60, 24)
    assert frozen_screens.screen(there.cluster, phases, 60, 24, LANG="C").isascii()


# ---- against what is worked out elsewhere -------------------------------------

def graph_of(there, name):
    nodes = path_oracle.index(there.json("graph", name)["nodes"])
    of = {}  # (machine, pid) -> processes, as IPS calls them
    for row in there.json("ls", name)["processes"]:
        machine = row["object"].split("/")[1]
        of.setdefault((machine, row["pid"]), []).append(row["object"])
    return nodes, of


@pytest.mark.parametrize("name", fq.RUNS)
def test_paths_by_the_oracle(there, name):
    """Would catch: a wrong path, of whatever engine and weighting, that was frozen."""
    nodes, _ = graph_of(there, name)
    several = len({n["machine"] for n in nodes.values()}) > 1
    solved = 0
    for words in fq.paths(fq.RUNS[name]):
        answer = there.json("path", name, *words)
        if any(w in words for w in ("--external", "--from", "--top", "--by")) \
                or several and answer["weighting"] == "wall":
            continue
        truth = path_oracle.solve(nodes, answer["weighting"], goal_of(answer))
        assert path_oracle.differences(truth, answer) == [], words
        solved += 1
    assert solved >= 3
    for words in fq.paths(fq.RUNS[name]):
        answer = there.json("path", name, *words)
        if "segments" in answer and "--top" not in words:
            assert sum(s["ns"] for s in answer["segments"]) == \
                answer["window_ns" if "--from" in words else "t_max_ns"], words


@pytest.mark.parametrize("name", fq.RUNS)
def test_slack_and_whatif_by_the_oracle(there, name):
    """Would catch: wrong slack, next paths and gains that were frozen."""
    nodes, of = graph_of(there, name)
    graph = whatif_oracle.Graph(nodes)
    path = there.json("path", name, "--sequences", "--slack", "--next", "4")
    assert graph.t_max() == path["t_max_ns"]
    slack = graph.slack_of_processes()
    alone = {objects[0]: who for who, objects in of.items()
             if len(objects) == 1}
    rows = [r for r in path["slacks"] if r["kind"] == "process" and
            r["object"] in alone]
    for row in rows:
        assert row["slack_ns"] == slack[alone[row["object"]]], row
    if len(alone) == len(of) <= 6:
        want = graph.next_by_process(4)
        assert [row["ns"] for row in path["next"]] == [ns for ns, _ in want]
    gains = [r for r in there.json("whatif", name)["ranking"]
             if r["kind"] == "process" and r["object"] in alone]
    for row in gains:
        who = alone[row["object"]]
        want = graph.without(
            lambda i, cross: not cross and graph.process(i) == who,
            round(100 * row["faster_by"]))
        # Gains are rounded down, arc by arc and procedure.
        assert 0 <= row["t_max_ns"] - want < len(nodes), row
    assert rows and (gains or name == "twins")


@pytest.mark.parametrize("name", fq.RUNS)
def test_figures_by_what_the_runs_are_made_of(there, name):
    """Would catch: CPU times, waits, messages and bytes that are not those of the
    records, waits that are not blamed on something as long, and idle time that is
    not all of the cores'."""
    threads = there.runs[name].threads
    run, = (r for r in there.json("metrics", name, "--level", "run")["metrics"])
    last = {(t.machine, t.pidns, t.pid, t.tid): t for t in threads}
    assert run["cpu_ns"] == \
        sum(t.cpu - t.burnt for t in last.values())
    assert run["messages_out"] == sum(t.sent for t in threads)
    assert run["bytes_out"] == sum(t.sent_bytes for t in threads)
    assert run["bytes_in"] == sum(t.got_bytes for t in threads)
    assert run["wait_ns"] == sum(t.waited for t in threads)
    waits = there.json("waits", name)
    assert waits["total_ns"] + waits["left_out_ns"] == run["wait_ns"]
    blamed = {}
    for row in waits["blame"]:
        blamed[row["group"]] = blamed.get(row["group"], 0) + row["ns"]
    for group, row in enumerate(waits["waits"]):
        assert row["total_ns"] == blamed[group], row
    for m in waits["machines"]:
        assert sum(row["ns"] for row in waits["idle"]
                   if row["machine"] == m["machine"]) == \
            m["cores"] * m["elapsed_ns"]


PARTS = ("queued", "untaken", "own", "elsewhere", "message", "external")


@pytest.mark.parametrize("name", fq.RUNS)
def test_figures_that_add_up(there, name):
    """Would catch: threads' times that are not those of the records; phases,
    procedures, estimates and requests whose parts are not the whole."""
    made = there.runs[name]
    lives = {}
    for t in made.threads:  # a program executed goes on as the same thread
        key = t.machine, t.pidns, t.pid, t.tid
        begun, _, _ = lives.get(key, (t.begun, 0, 0))
        lives[key] = begun, t.over, t.cpu - t.burnt
    rows = there.json("ls", name)["threads"]
    assert sorted((r["elapsed_ns"], r["cpu_ns"]) for r in rows
                  if r["tid"]) == sorted(
        (over - begun, cpu) for begun, over, cpu in lives.values())
    cpu = sum(cpu for _, _, cpu in lives.values())
    phases = there.json("phases", name)
    burnt = sum(t.burnt for t in made.threads)  # by spinning: of no thread's sum
    for part in "phases", "bins":
        assert sum(p["cpu_ns"] for p in phases[part]) == cpu + burnt
        assert sum(p["messages"] for p in phases[part]) == \
            sum(t.sent for t in made.threads)
        assert sum(p["bytes"] for p in phases[part]) == \
            sum(t.sent_bytes for t in made.threads)
    if made.sampled or made.exact:
        a = there.json("procedures", name)
        assert a["cpu_ns"] == cpu
        assert cpu + burnt == \
            a["sampled_ns"] + a["exact_ns"] + a["unsampled_ns"] == \
            sum(r["self_ns"] for r in a["procedures"])
        assert a["samples"] == sum(r["samples"] for r in a["procedures"])
    a, path = there.json("estimate", name), there.json("path", name)
    assert a["estimate_ns"] == path["t_max_ns"] == \
        a["compute_ns"] + a["message_ns"] + a["external_ns"]
    for row in there.json("requests", name)["slowest"]:
        assert row["ns"] == sum(row[f"{p}_ns"] for p in PARTS)


def chance_of(first, second):
    """How often lengths that are dealt to the sides at random are as far apart, by
    Welch's t with a spread of no less than a hundredth of the mean."""
    values, n = first + second, len(first)
    least = (statistics.mean(values) / 100) ** 2

    def apart(chosen):
        sides = [[v for k, v in enumerate(values) if (k in chosen) == side]
                 for side in (True, False)]
        spread = sum(max(statistics.variance(s), least) / len(s) for s in sides)
        return abs(statistics.mean(sides[0]) - statistics.mean(sides[1])) / \
            spread ** 0.5

    seen = apart(set(range(n))) * (1 - 1e-9)
    ways = [apart(set(c)) for c in itertools.combinations(range(len(values)), n)]
    return sum(far >= seen for far in ways) / len(ways)


@pytest.mark.parametrize("sides", [(fq.BEFORE, fq.AFTER), fq.MIXED],
                         ids=["apart", "mixed"])
def test_chance_by_all_ways(there, sides):
    """Would catch: a p-value of other ways, another spread or the other side's
    number of runs; a difference that is not that of the means."""
    a = there.json("diff", *sides)
    lengths = [[r["path_ns"] for r in a["runs"] if r["side"] == side]
               for side in (1, 2)]
    assert [len(s) for s in lengths] == [len(s.split(",")) for s in sides]
    assert a["p"] == pytest.approx(chance_of(*lengths), abs=1e-12)
    means = [statistics.mean(s) for s in lengths]
    assert abs(a["longer_ns"] - a["shorter_ns"] - (means[1] - means[0])) <= 1
    assert a["differ"] == (a["p"] <= 0.05)


def test_requests_by_what_they_are_made_of(there):
    """Would catch: another number of requests, and times and quantiles that are not
    those of the brackets; a wait behind a bracket's end that is said to be in it."""
    bills = sorted(100_000 + k * 1000 for k in range(14))
    (s,) = there.json("requests", "marks", "--by", "mark:bill")["services"]
    assert s["requests"] == 14 and s["max_ns"] == bills[-1]
    assert s["mean_ns"] == sum(bills) // 14
    # By nearest rank: the 7th of 14, the 13th, the last.
    assert [s[f"p{q}_ns"] for q in (50, 90, 99)] == [bills[6], bills[12], bills[13]]
    a = there.json("requests", "marks")  # half of the orders and no bill waits
    rows = a["typical"] + [r for r in a["more"] if "bill" in r["service"]]
    assert rows and not any(r["cause"] for r in rows), rows
    s, own = there.json("requests", "shop")["services"]
    assert own["requests"] == own["connections"] * 9 == 9
    assert s["requests"] == 36 and s["connections"] == 3


def test_all_is_asked(there):
    """Would catch: files of runs and questions that are not asked any more; so much
    frozen that no engineer reads what has changed."""
    files = list(WHERE.rglob("*.txt"))
    runs = {f.relative_to(WHERE).parts[0] for f in files}
    assert runs == {*fq.RUNS, "several", "calibrated", "screens"}
    assert len(files) > 150
    assert sum(f.stat().st_size for f in files) < 1_600_000
