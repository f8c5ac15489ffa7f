"""`--top` of procedures: the rows shown are the first of the whole list, with the
number left out and the totals right - of one machine and of several, by process,
machine, procedure and line, in any order of the columns. Would catch a master that
cuts before it has added up the machines' rows, or that orders ties in another way
than the client."""
import pytest
from conftest import Cluster

COUNT = 40  # processes a machine, ten procedures in each: full of ties


@pytest.fixture(scope="module")
def run(build):
    c = Cluster(build, ["m1", "m2"])
    for machine in (0, 1):
        c.ipsrun([str(build.top / "tests" / "bench_tables"),
                  str(COUNT + machine)], machine=machine,
                 options=["--procedures=exact"], check=True,
                 **({"join": "r"} if machine else {"name": "r"}))
    c.wait_closed("r", machines=2)
    yield c
    c.close()


def of_list(answer, rows, name):
    return (answer[rows], answer[f"{name}_left_out"],
            {k: v for k, v in answer.items()
             if k not in (rows, f"{name}_left_out", "certificate")})


def check(run, words, rows, name):
    """The answer with --top is the begin of the one without, which is sorted."""
    whole, none, totals = of_list(run.json(*words), rows, name)
    assert none == 0 and len(whole) > 4
    for top in (1, 3, len(whole) - 1, len(whole), len(whole) + 5):
        some, left_out, same = of_list(
            run.json(*words, "--top", str(top)), rows, name)
        assert some == whole[:top], (words, top)
        assert left_out == max(0, len(whole) - top), (words, top)
        assert same == totals


SORTS = ("self_ns", "-self_ns", "total_ns", "-calls", "samples", "procedure",
         "-procedure", "self_share", "exact")


@pytest.mark.parametrize("where", ["/", "/m2"])
@pytest.mark.parametrize("by", ["procedure", "process", "machine", "line"])
def test_procedures(run, by, where):
    check(run, ("procedures", "r", "--by", by, "--object", where, "--sort",
                SORTS[len(by + where) % len(SORTS)]), "procedures",
          "procedures")
    whole = run.json("procedures", "r", "--by", by, "--object", where)
    rows = [r for r in whole["procedures"] if r["procedure"] != "[unsampled]"]
    for count in (1, 2, 5):
        top = run.json("procedures", "r", "--by", by, "--object", where,
                       "--top", str(count))
        assert [r for r in top["procedures"]
                if r["procedure"] != "[unsampled]"] == rows[:count]
        assert top["procedures_left_out"] == len(rows) - count
        assert top["procedure_count"] == whole["procedure_count"] == len(rows)


@pytest.mark.parametrize("sort", ["cpu_ns", "-total_ns", "-calls", "process",
                                  "procedure", "object"])
def test_metrics(run, sort):
    check(run, ("metrics", "r", "--level", "procedure", "--sort", sort),
          "metrics", "metrics")


@pytest.mark.parametrize("sort", ["cpu_ns", "-cpu_ns", "calls"])
def test_each_machine(run, sort):
    """--per machine: so many of each, machines in the order of the whole list."""
    words = ("metrics", "r", "--level", "procedure", "--sort", sort, "--per",
             "machine")
    whole = run.json(*words)["metrics"]
    some = run.json(*words, "--top", "3")
    want, count = [], {}
    for row in whole:
        machine = row["object"].split("/")[1]
        count[machine] = count.get(machine, 0) + 1
        want += [row] if count[machine] <= 3 else []
    assert some["metrics"] == want and len(count) == 2
    assert some["metrics_left_out"] == len(whole) - 6
