"""The tables of a run and what is asked of them: sums that must agree on real
programs, questions in SQL over several machines, selection and order.

Nothing here depends on how long something takes: sums are exact, or one figure
cannot be above another.
"""
import contextlib
import json
import os
import pathlib
import resource

import pytest

import wire
from conftest import Cluster, wait_until

pytestmark = pytest.mark.quick

# The last for CPU time that samples are taken of.
PIPELINE = "seq 1 30000 | sort -rn | uniq | wc -l; head -c 200000 /dev/zero | md5sum; " \
           "awk 'BEGIN { for (i = 0; i < 4000000; i++) x += i }'"
LEVELS = ("run", "machine", "process", "thread")


@pytest.fixture(name="run", scope="module")
def a_run(build):
    """A pipeline on each of two machines, as one run; nobody changes it."""
    c = Cluster(build, ["m1", "m2"])
    c.ipsrun(["sh", "-c", PIPELINE], name="one", check=True)
    c.ipsrun(["sh", "-c", PIPELINE], join="one", machine=1, check=True)
    c.wait_closed("one", 2)
    yield c
    c.close()


def rows(cluster, level, *words):
    return rows_of(cluster, "one", level, *words)


def rows_of(cluster, run, level, *words):
    return cluster.json("metrics", run, "--level", level, *words)["metrics"]


def test_sums(run):
    """Would catch: CPU or waits lost or counted twice between the levels; parts
    of a life that do not make it up, or of which most is the rest; queueing after a
    wake-up counted as blocked too; more CPU seen than the kernel told the
    parents, or less by more than what starts and ends a process.
    EVIDENCE-OF: IPS-3, IPS-8"""
    tables = {level: rows(run, level) for level in LEVELS}
    assert len(tables["machine"]) == 2 and len(tables["process"]) >= 14
    for key in ("cpu_ns", "wait_ns", "blocked_ns", "lifetimes_ns"):
        sums = {level: sum(r[key] for r in tables[level]) for level in LEVELS}
        assert len(set(sums.values())) == 1, (key, sums)
    for level in LEVELS:
        for row in (r for r in tables[level] if r["elapsed_ns"]):
            for rate, key in (("message_rate", "messages_out"),
                              ("byte_rate", "bytes_out")):
                assert row[rate] * row["elapsed_ns"] == pytest.approx(
                    row[key] * 1e9), (row, rate)
    for row in tables["thread"]:
        parts = row["cpu_ns"] + row["blocked_ns"] + (row["wait_cpu_ns"] or 0) + \
            row["other_ns"]
        assert parts == row["elapsed_ns"] + row["excess_ns"], row
        # Clocks of two kinds: their grain, and no more.
        assert row["excess_ns"] <= row["elapsed_ns"] / 4 + 50_000_000, row
        # What was blocked, ran or queued is not the rest, whatever else ran.
        assert row["other_ns"] <= row["elapsed_ns"] / 4 + 50_000_000, row
    waits = run.json("metrics", "one", "--level", "thread")["waits"]
    assert sum(w["ns"] for w in waits) == sum(r["wait_ns"]
                                              for r in tables["thread"])
    told = [r for r in tables["process"] if r["rusage_cpu_ns"] is not None]
    assert len(told) >= 12  # all but the shells that nobody measured waits for
    for row in told:
        # The kernel counts what comes before and after our first and last look.
        assert abs(row["rusage_own_cpu_ns"] -
                   row["rusage_cpu_ns"]) <= 20_000_000, row
    machines = sum(r["rusage_cpu_ns"] for r in tables["machine"])
    assert machines == sum(r["rusage_cpu_ns"] for r in told)
    assert tables["run"][0]["rusage_cpu_ns"] == machines
    listed = run.json("ls", "one")
    assert sum(p["cpu_ns"] for p in listed["processes"]) == \
        tables["run"][0]["cpu_ns"]


def test_kernel_agrees(cluster):
    """The program's CPU against what wait4 told us about all of it. Would
    catch: the CPU of whole processes missing, or counted twice."""
    c = cluster(("m1",))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    c.ipsrun(["sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done &"
              "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; wait"],
             name="one", check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    kernel = (after.ru_utime + after.ru_stime - before.ru_utime -
              before.ru_stime) * 1e9
    c.wait_closed("one")
    cpu = c.json("metrics", "one", "--level", "run")["metrics"][0]["cpu_ns"]
    # ipsrun's own start is the kernel's alone; ours can be no more.
    assert 0.3 * kernel <= cpu <= kernel + 20_000_000


def check_marginals(answer):
    for name, cells in (("machine", answer["machine_matrix"]),
                        ("process", answer["process_matrix"])):
        totals = {t["object"]: t for t in answer[f"{name}_totals"]}
        for side, end in (("from", "out"), ("to", "in")):
            for unit in ("messages", "bytes"):
                got = {}
                for cell in cells:
                    got[cell[side]] = got.get(cell[side], 0) + cell[unit]
                for who, total in totals.items():
                    want = sum(got.values()) if who == "all" else \
                        got.get(who, 0)
                    assert total[f"{unit}_{end}"] == want, (name, who, unit)
    for row in answer["metrics"]:
        total = {t["object"]: t for t in answer["process_totals"]}.get(
            row["object"])
        for key in ("messages_out", "bytes_out", "messages_in", "bytes_in"):
            assert row[key] == (total[key] if total else 0), (row["object"], key)


def test_marginals(run):
    """Would catch totals that are not those of rows and columns.
    EVIDENCE-OF: IPS-3"""
    check_marginals(run.json("metrics", "one", "--level", "process"))


def test_sql(run):
    """Rows of both machines and of this run alone; the sums of `metrics`.
    Would catch: another run's rows, a machine left out or named wrongly, numbers
    that are texts in JSON.
    EVIDENCE-OF: IPS-8, IPS-9"""
    run.ipsrun(["true"], name="other", check=True)
    run.wait_closed("other")
    assert run.json("ls", "other")["processes"]  # its tables are made
    answer = run.json("sql", "one", "SELECT process, cpu_ns, rusage_cpu_ns, "
                      "1.5 AS x FROM processes ORDER BY process")
    listed = {(p["object"].split("/")[1], p["name"]): p["cpu_ns"]
              for p in run.json("ls", "one")["processes"]}
    assert {(r["machine"], r["process"]): r["cpu_ns"]
            for r in answer["rows"]} == listed
    assert all(r["x"] == 1.5 for r in answer["rows"])
    assert [r["machine"] for r in answer["rows"]] == \
        sorted(r["machine"] for r in answer["rows"])
    assert answer["certificate"]["category"] == 2
    top = run.json("sql", "one", "SELECT process, cpu_ns FROM processes",
                   "--sort", "cpu_ns", "--top", "3")
    assert [r["cpu_ns"] for r in top["rows"]] == \
        sorted(listed.values(), reverse=True)[:3]
    assert top["rows_left_out"] == len(listed) - 3
    procedures = run.json("sql", "one", "SELECT sum(self_ns) AS ns FROM "
                          "procedures")["rows"]
    told = run.json("metrics", "one", "--level", "procedure")["metrics"]
    assert sum(r["ns"] or 0 for r in procedures) == sum(r["cpu_ns"]
                                                        for r in told)
    lines = run.ipsq("sql", "one", "SELECT count(*) AS n FROM threads",
                     "--format", "tsv").stdout.splitlines()
    assert "machine\tn" in lines


def test_sql_refuses(run):
    """Would catch: an error that is not the question's, or that no status
    tells; a slave that does not survive the question."""
    for text, why in (("SELECT nope FROM threads", "no such column: nope"),
                      ("SELEC 1", "syntax error"),
                      ("", "the views are"),
                      ("DROP TABLE run", "not allowed"),
                      ("SELECT * FROM run", "not allowed"),
                      ("ATTACH '/tmp/x' AS x", "not allowed"),
                      ("SELECT pid, pid FROM processes", "two columns")):
        done = run.ipsq("sql", "one", text)
        assert done.returncode == 2 and why in done.stderr, (text, done.stderr)
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) "
    done = run.ipsq("sql", "one", endless + "SELECT x FROM c", "--top", "1",
                    "--format", "json")
    answer = json.loads(done.stdout)
    assert done.returncode == 3 and answer["rows_left_out"] == 199_999
    assert not answer["certificate"]["complete"]
    assert any("100000 rows" in n for n in answer["certificate"]["gaps"])
    assert run.json("sql", "one", "SELECT 1 AS one")["rows"] == \
        [{"machine": "m1", "one": 1}, {"machine": "m2", "one": 1}]


# Each row is one step in which SQLite looks at no limit: some 10^13 bytes are compared.
SLOW = ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x < 100000) "
        "SELECT x, " + " + ".join(f"instr(hex(zeroblob(524000)), hex(zeroblob(262000)) || (x+{i}))"
                                  for i in range(40)) + " AS at FROM c")


def helpers(machine):
    """The processes that answer questions in SQL there."""
    children = pathlib.Path(f"/proc/{machine.slave.pid}/task").glob("*/children")
    found = []
    for pid in " ".join(f.read_text() for f in children).split():
        with contextlib.suppress(OSError):
            if b"--sql" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                found.append(int(pid))
    return found


@pytest.mark.slow
def test_sql_that_hangs(run):
    """A question that is stopped within a step of it. Would catch: one that goes on past its
    limit, a limit that is not named, a slave that answers no more."""
    done = run.ipsq("sql", "one", SLOW, "--format", "json")
    answer = json.loads(done.stdout)
    assert done.returncode == 3 and not answer["certificate"]["complete"]
    assert answer["rows"] == []
    for m in run.machines:
        gap, = (g for g in answer["certificate"]["gaps"] if f"machine {m.name}:" in g)
        assert "longer than 10 s" in gap and "LIMIT" in gap
    assert run.json("sql", "one", "SELECT 1 AS one")["rows"] == \
        [{"machine": "m1", "one": 1}, {"machine": "m2", "one": 1}]


def open_files(pid):
    """What a process has open; it may open and close files meanwhile."""
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            pass
    return found


def only_tables(files):
    return any("slave.db" in f for f in files) and \
        not any("socket:" in f or "lock" in f for f in files)


def test_sql_holds_nobody_up(run):
    """While a question in SQL goes on for minutes, others about that run and another are
    answered; when its asker goes, it ends. Would catch: a slave or a master that waits for it,
    a helper that has the slave's files and sockets, or that stays."""
    run.ipsrun(["true"], name="beside", check=True)
    run.wait_closed("beside")
    asker = wire.Peer.connect(run.state / "master.sock")
    asker.hello(wire.CLIENT)
    asker.ask(1, b"one", wire.SQL, wire.message((1, SLOW.encode()), (3, 600 * 10**9)))
    for m in run.machines:
        wait_until("it is being answered", lambda m=m: len(helpers(m)) == 1)
        pid, = helpers(m)
        wait_until("it has its tables, and nothing else of the slave's",
                   lambda pid=pid: only_tables(open_files(pid)))
    assert run.json("sql", "one", "SELECT count(*) AS n FROM processes")["rows"]
    assert run.json("path", "one", "--fresh")["segments"] is not None
    assert run.json("ls", "beside")["processes"]
    assert [len(helpers(m)) for m in run.machines] == [1, 1]
    asker.close()
    for m in run.machines:
        wait_until("it is ended", lambda m=m: not helpers(m))
    assert run.json("sql", "one", "SELECT 1 AS one")["rows"]


def test_selection(run):
    """Would catch: a pattern that selects too much or too little, an order that
    is not the column's, rows left out without a word, machines mixed up."""
    sorts = run.json("ls", "one", "--object", "/m?/sort.*")
    assert len(sorts["machines"]) == 0
    assert [p["name"].split(".")[0] for p in sorts["processes"]] == ["sort"] * 2
    assert all("/sort." in t["object"] for t in sorts["threads"])
    one = rows(run, "process", "--object", "/m1/*")
    assert one and all(r["object"].startswith("/m1/") for r in one)
    everybody = rows(run, "process")
    least = rows(run, "process", "--sort", "-cpu_ns")
    assert [r["cpu_ns"] for r in least] == sorted(r["cpu_ns"] for r in everybody)
    per = run.json("metrics", "one", "--level", "process", "--per", "machine",
                   "--top", "2")
    assert [r["object"].split("/")[1] for r in per["metrics"]] == \
        ["m1", "m1", "m2", "m2"]
    assert per["metrics_left_out"] == len(everybody) - 4
    for machine in ("m1", "m2"):
        best = sorted((r["cpu_ns"] for r in everybody
                       if r["object"].startswith(f"/{machine}/")),
                      reverse=True)
        assert [r["cpu_ns"] for r in per["metrics"]
                if r["object"].startswith(f"/{machine}/")] == best[:2]
    shown = run.ipsq("ls", "one", "--top", "2").stdout
    assert "more left out" in shown
    every, newest = run.json("runs"), run.json("runs", "--top", "1")
    assert len(newest["runs"]) == 1 and every["runs_left_out"] == 0
    assert newest["runs_left_out"] == len(every["runs"]) - 1
    wrong = run.ipsq("ls", "one", "--sort", "nothing")
    assert wrong.returncode == 2 and "is not one of object, level" in wrong.stderr
    machines = run.json("procedures", "one", "--by", "machine")["procedures"]
    assert {r["object"] for r in machines if r["object"]} <= {"/m1", "/m2"}


WINDOWED = ("cpu_ns", "wait_ns", "lifetimes_ns", "processes_started")


def windows_of(run):
    """Three windows side by side that cover the run, cut in uneven places."""
    most = max(p["start_ns"] + p["elapsed_ns"] for p in run.json("ls", "one")["processes"])
    a, b = most // 3 + 1, most * 2 // 3 + 7
    return (("--to", f"{a}ns"), ("--from", f"{a}ns", "--to", f"{b}ns"),
            ("--from", f"{b}ns"))


def test_windows(run):
    """Would catch: what lies in two windows, or in none; waits or lives that are
    not cut; a figure shown in a window that is of the whole run.
    EVIDENCE-OF: IPS-3"""
    windows = windows_of(run)
    empty = run.ipsq("procedures", "one", "--from", "1000s")
    assert empty.returncode == 1 and "in that window" in empty.stderr
    for level in ("run", "thread"):
        whole = run.json("metrics", "one", "--level", level)
        parts = [run.json("metrics", "one", "--level", level, *w) for w in windows]
        for key in WINDOWED[:3] if level == "thread" else WINDOWED:
            sums = {}
            for row in (r for p in parts for r in p["metrics"]):
                sums[row["object"]] = sums.get(row["object"], 0) + row[key]
            assert sums == {r["object"]: r[key] for r in whole["metrics"]}, key
        sums = {}
        for row in (r for p in parts for r in p["waits"]):
            old = sums.get((row["object"], row["cause"]), (0, 0))
            sums[row["object"], row["cause"]] = (old[0] + row["ns"],
                                                 old[1] + row["count"])
        assert sums == {(r["object"], r["cause"]): (r["ns"], r["count"])
                        for r in whole["waits"]}
    row = parts[0]["metrics"][0]
    for key in ("blocked_ns", "wait_cpu_ns", "other_ns", "messages_out",
                "rusage_cpu_ns", "load"):
        assert row[key] is None, key
    assert parts[0]["certificate"]["category"] == 3
    listed = [run.json("ls", "one", *w)["processes"] for w in windows]
    whole = {p["object"]: p["cpu_ns"] for p in run.json("ls", "one")["processes"]}
    for name, cpu in whole.items():
        assert cpu == sum(p["cpu_ns"] for part in listed for p in part
                          if p["object"] == name)
    wrong = run.ipsq("metrics", "one", "--pop", *windows[0])
    assert wrong.returncode == 2 and "cannot be used with a window" in wrong.stderr


def test_matrices_of_windows(run):
    """Would catch a message counted in two windows or in none, or where it was
    received; rows and columns that are not the totals, and those not the
    objects' own figures, in a window.
    EVIDENCE-OF: IPS-3"""
    whole = run.json("metrics", "one", "--level", "process")
    parts = [run.json("metrics", "one", "--level", "process", *w)
             for w in windows_of(run)]
    for part in parts:
        check_marginals(part)
    for name in ("machine_matrix", "process_matrix"):
        sums = {}
        for cell in (c for p in parts for c in p[name]):
            old = sums.get((cell["from"], cell["to"]), (0, 0))
            sums[cell["from"], cell["to"]] = (old[0] + cell["messages"],
                                              old[1] + cell["bytes"])
        assert whole[name] and sums == \
            {(c["from"], c["to"]): (c["messages"], c["bytes"])
             for c in whole[name]}, name


def test_phase_is_a_window(run):
    """Would catch a command that takes --phase for something else than the
    stretch of time that `phases` tells, or phases with something between."""
    phases = run.json("phases", "one")["phases"]
    for phase in phases[:2]:
        assert run.json("waits", "one", "--phase", phase["phase"])["waits"] == \
            run.json("waits", "one", "--from", f"{phase['from_ns']}ns",
                     "--to", f"{phase['to_ns']}ns")["waits"]
    whole = rows(run, "run")[0]["cpu_ns"]
    parts = [rows(run, "run", "--phase", p["phase"])[0]["cpu_ns"] for p in phases]
    assert 0 < sum(parts) <= whole
    assert run.json("ls", "one", "--phase", 1)["processes"]


LISTINGS = (
    (("ls", "one"), "processes", ("cpu_ns", "object", "pid", "-start_ns", "end")),
    (("ls", "one", "--object", "/m?/s*"), "threads", ("cpu_ns", "-tid", "name")),
    (("metrics", "one", "--level", "process"), "metrics",
     ("cpu_ns", "-response", "object", "excess_ns", "messages_in")),
    (("metrics", "one", "--level", "thread", "--object", "/m1/*"), "metrics",
     ("-wait_ns", "load")),
    (("metrics", "one", "--level", "procedure"), "metrics", ("cpu_ns", "-procedure")),
    (("procedures", "one", "--by", "process"), "procedures", ("self_ns", "-module")),
    (("sql", "one", "SELECT process, cpu_ns, parent FROM processes"), "rows",
     ("cpu_ns", "-parent")),
)


def in_order(rows, column):
    back = column.startswith("-")
    key = column.lstrip("-")
    there = [r for r in rows if r[key] not in (None, "")]
    numbers = not any(isinstance(r[key], str) for r in there)
    there.sort(key=lambda r: r[key], reverse=numbers != back)
    return there + [r for r in rows if r[key] in (None, "")]


def test_every_listing(run):
    """Every command that lists: --sort, --top and --per machine against all its
    rows put in order here. Would catch a --top of which the slaves or the master
    leave out what the order shows first, a wrong number left out, and machines
    that share a --top."""
    for words, table, columns in LISTINGS:
        everything = run.json(*words)[table]
        assert everything, words
        for column in columns:
            answer = run.json(*words, "--sort", column, "--top", 3)
            want = in_order(everything, column)[:3]
            key = column.lstrip("-")
            assert [r[key] for r in answer[table]] == [r[key] for r in want], \
                (words, column)
            assert answer[f"{table}_left_out"] == len(everything) - len(want)
        key = columns[0].lstrip("-")
        per = run.json(*words, "--sort", columns[0], "--top", 2, "--per", "machine")
        where = "object" if "object" in everything[0] else "machine"
        for machine in ("m1", "m2"):
            def own(rows, machine=machine):
                return [r for r in rows if (r[where] or "").strip("/").split("/")[0] == machine]
            assert [r[key] for r in own(per[table])] == \
                [r[key] for r in in_order(own(everything), columns[0])[:2]]
        assert per[f"{table}_left_out"] == len(everything) - len(per[table])


def test_messages_in_sql(run):
    """Would catch messages of a process that are not those of its threads, or
    not what it did on its channels."""
    sides = ("messages_out", "bytes_out", "messages_in", "bytes_in")
    sums = ", ".join(f"sum({s}) AS {s}" for s in sides)
    threads, processes = (
        run.json("sql", "one", f"SELECT process, {sums} FROM {view} GROUP BY process "
                 "ORDER BY process")["rows"] for view in ("threads", "processes"))
    assert threads == processes
    assert sum(r["messages_out"] for r in processes) > 0
    metrics = {r["object"]: r for r in rows(run, "process")}
    by_thread = {}
    for row in rows(run, "thread"):
        name = row["object"].rsplit("/", 1)[0]
        for side in sides:
            by_thread[name, side] = by_thread.get((name, side), 0) + row[side]
    for row in processes:
        name = f"/{row['machine']}/{row['process']}"
        assert name in metrics
        assert all(row[side] == by_thread[name, side] for side in sides)


def test_category_1(run):
    """Would catch a table that is never kept, or is not what was computed."""
    first = run.json("metrics", "one")

    def by_the_master():
        answer = run.json("metrics", "one")
        return answer["certificate"]["category"] == 1 and answer

    kept = wait_until("the master's own table", by_the_master)
    for key in ("metrics", "waits", "machine_matrix", "process_matrix",
                "machine_totals", "process_totals"):
        assert kept[key] == first[key]
    assert run.json("path", "one")["certificate"]["category"] == 3


def test_pop(cluster, build):
    """Would catch efficiencies of a program that has none, and others than the
    definitions give of the threads of one that has: two at work, and main."""
    c = cluster(("m1",))
    c.ipsrun(["sh", "-c", "for i in 1 2 3 4 5; do seq 1 30000 | sort -rn | wc -l; done"],
             name="one", check=True)
    c.wait_closed("one")
    assert c.json("metrics", "one", "--pop")["pop"] == []
    assert "no POP efficiencies" in c.ipsq("metrics", "one", "--pop").stdout
    wrong = c.ipsq("metrics", "one", "--pop", "--level", "thread")
    assert wrong.returncode == 2 and "whole run" in wrong.stderr
    c.ipsrun([build.program("hogs"), "2", "300"], name="two", check=True)
    c.wait_closed("two")
    (pop,) = c.json("metrics", "two", "--pop")["pop"]
    threads = rows_of(c, "two", "thread")
    elapsed = rows_of(c, "two", "run")[0]["elapsed_ns"]
    cpu = sorted((t["cpu_ns"] for t in threads
                  if t["elapsed_ns"] >= elapsed / 2), reverse=True)
    n = pop["threads"]
    assert n == len(cpu) >= 2 and pop["cpu_max_ns"] == cpu[0]
    ideal = c.json("path", "two", "--mtime", "0")["t_max_ns"]
    assert pop["ideal_ns"] == ideal
    for key, want in (("parallel", sum(cpu) / n / elapsed),
                      ("load_balance", sum(cpu) / n / cpu[0]),
                      ("communication", cpu[0] / elapsed),
                      ("serialisation", cpu[0] / ideal),
                      ("transfer", ideal / elapsed)):
        assert pop[key] == pytest.approx(want, rel=1e-9), key


def test_command_of_a_fork_child(cluster):
    """A child that executes nothing has the command that its parent had then. Would catch:
    the one that the parent executed later."""
    c = cluster()
    script = "(for i in 1 2; do :; done; sleep 0.05; true) & exec sleep 0.1"
    c.ipsrun(["bash", "-c", script], name="r", check=True)
    c.wait_closed("r")
    commands = sorted(r["command"] for r in c.json("ls", "r")["processes"])
    assert commands == [f"bash -c {script}", "sleep 0.05", "sleep 0.1"]
