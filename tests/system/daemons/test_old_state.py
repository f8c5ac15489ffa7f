"""What a state directory holds of before: very many runs, and those of another version."""
import json
import sqlite3

RUNS = 10000  # rows of one list


def test_a_run_older_than_the_list(cluster):
    """Would catch: a run that cannot be asked about since so many came later, and a list that
    leaves runs out without a word."""
    c = cluster()
    c.ipsrun(["true"], name="old", check=True)
    c.wait_closed("old")
    c.stop_master()
    with sqlite3.connect(c.state / "master" / "master.db") as db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(run_machine)")]
        row = dict(zip(columns, db.execute("SELECT * FROM run_machine").fetchone()))
        marks = ",".join("?" * len(columns))
        for i in range(RUNS):
            later = {**row, "run": f"later{i}", "machine": "gone",
                     "created_real_ns": row["created_real_ns"] + 1 + i}
            db.execute(f"INSERT INTO run_machine VALUES ({marks})", list(later.values()))
    c.start_master()
    c.wait_connected()
    done = c.ipsq("ls", "old", "--format", "json")
    assert done.returncode == 0, done.stderr
    listed = c.json("runs", status=(0, 3))
    assert len(listed["runs"]) == RUNS and listed["runs_left_out"] == 1
    assert listed["runs"][0]["run"] == f"later{RUNS - 1}"


def test_an_archive_of_another_version(cluster):
    """Would catch: tables of another layout that are read as ours; an error that does not say
    what to do."""
    c = cluster()
    c.ipsrun(["true"], name="r", check=True)
    c.wait_closed("r")
    machine = c.machines[0]
    machine.stop_slave()
    c.stop_master()
    [path] = machine.state.rglob("slave.db")
    with sqlite3.connect(path) as db:
        db.execute("UPDATE meta SET value = value + 1 WHERE key = 'schema'")
    machine.start_slave()
    assert machine.slave.wait(60) != 0
    assert "another version of IPS" in machine.log.read_text()
    with sqlite3.connect(c.state / "master" / "master.db") as db:
        db.execute("PRAGMA user_version = 99")
    c.start_master()
    assert c.master.wait(60) != 0
    assert "use the newer program, or another --state" in c.log.read_text()


def test_tables_of_an_older_build(cluster):
    """Would catch: tables of an older layout that are read as today's, and tables that stay
    empty: they are made anew from the records."""
    c = cluster()
    c.ipsrun(["sh", "-c", "seq 1000 | sort >/dev/null"], name="r", check=True)
    c.wait_closed("r")
    before = c.json("sql", "r", "SELECT process, cpu_ns FROM processes ORDER BY process")["rows"]
    machine = c.machines[0]
    machine.stop_slave()
    [path] = machine.state.rglob("slave.db")
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone()[0] > 2
        for table in ("process", "thread", "wait", "channel", "traffic", "procedure"):
            db.execute(f"DROP TABLE {table}")
            db.execute(f"CREATE TABLE {table} (an_older_column)")
        db.execute("PRAGMA user_version = 2")
    machine.start_slave()
    c.wait_connected()
    after = c.json("sql", "r", "SELECT process, cpu_ns FROM processes ORDER BY process")["rows"]
    assert before and after == before


def test_damaged_databases(cluster):
    """Would catch: an error that does not say what to do; advice that does not help."""
    c = cluster()
    c.ipsrun(["true"], name="r", check=True)
    c.wait_closed("r")
    machine = c.machines[0]
    machine.stop_slave()
    c.stop_master()
    [archive] = machine.state.rglob("slave.db")
    kept = archive.read_bytes()
    archive.write_bytes(b"no database" * 2000)
    machine.start_slave()
    assert machine.slave.wait(60) != 0
    assert "slave.db is damaged. Copy its directory back" in machine.log.read_text()
    archive.write_bytes(kept)
    catalogue = c.state / "master" / "master.db"
    catalogue.write_bytes(b"no database" * 2000)
    c.start_master()
    assert c.master.wait(60) != 0
    assert "remove the file and start it again" in c.log.read_text()
    catalogue.unlink()
    c.start_master()
    machine.start_slave()
    c.wait_connected()
    assert c.json("ls", "r")["certificate"]["complete"]
