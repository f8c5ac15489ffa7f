"""Tables, TSV and JSON of one answer say the same: every cell of every table is its
JSON field in the unit of that field, every row is there in all three, and so are the
single values above the tables. The run is told to the ns (told.py), so all three are
of the same figures. The tables below say which key a column or a line shows."""
import re

import pytest

from conftest import Cluster
from told import MS, US, Lock, Told

pytestmark = pytest.mark.quick


# ---- a run that has something of everything ---------------------------------

class Program(Told):
    """On m1 clerks that stand in line for a lock, a server with clients, a sleeper;
    on m2 one that m1's main talks with."""

    def __init__(self, more=0):
        Told.__init__(self, cores=2)
        main, there = self.root("main"), self.root("there", machine=1)
        self.code(main)
        self.code(there)
        near, far = main.connect(there)
        for i in range(5):
            main.work(3 * MS, 0x11000 + 16 * i)
            far.receive(5000, near.send(5000), 40 * US)
            there.work(2 * MS, 0x12000)
            near.receive(70, far.send(70), 30 * US)
        there.end()
        self.clerks(main.fork("clerk"), main)
        self.service(main)
        sleeper = main.fork("sleeper")
        sleeper.sleep(7 * MS + more)
        sleeper.end()
        main.join(sleeper)
        main.end()

    def clerks(self, process, main):
        lock = Lock()
        threads = [process, process.thread("clerk")]
        for _ in range(4):
            for thread in threads:
                thread.work(100 * US, 0x13000)
                thread.acquire(lock)
                thread.work(2 * MS, 0x13010)
                thread.release(lock)
                thread.queue(MS)
        threads[1].end()
        process.join(threads[1])
        process.end()
        main.join(process)

    def service(self, main):
        server = main.fork("server")
        clients = [main.fork("client") for _ in range(2)]
        ends = [client.connect(server) for client in clients]
        for _ in range(6):
            sent = [near.send(100) for near, _ in ends]
            for at, (near, far) in zip(sent, ends):
                far.receive(100, at, 10 * US)
                server.work(MS, 0x14000)
                near.receive(200, far.send(200), 10 * US)
        for thread in (*clients, server):
            thread.end()
        for thread in sorted((*clients, server), key=lambda t: t.over):
            main.join(thread)


@pytest.fixture(name="run", scope="module")
def a_run(build):
    c = Cluster(build, ["m1", "m2"])
    for name, more in (("r", 0), ("s", 0), ("t", 2 * MS)):
        Program(more).write(c, name)
    yield c
    c.close()


# ---- what people read --------------------------------------------------------

def scaled(value, unit):
    digits = 3 if value < 9.9995 else 2 if value < 99.995 else \
        1 if value < 999.95 else 0
    return f"{value:.{digits}f} {unit}"


def time_text(ns):
    if ns < 1000:
        return f"{ns} ns" if ns else "0"
    for size, unit in ((10**3, "us"), (10**6, "ms")):
        if ns < 999.95 * size:
            return scaled(ns / size, unit)
    return scaled(ns / 10**9, "s")


def bytes_text(n):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024:
            return f"{n} B" if unit == "B" else scaled(n, unit)
        n /= 1024
    raise AssertionError("more than a test has")


def real_text(value):
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"


# Keys whose name does not end in their unit.
SHARES = {"share", "on_path", "of_path", "use", "taken", "gain_share", "self_share",
          "faster_by", "busy_share", "run_delay_share", "estimate_of_elapsed"}
BYTES = {"bytes_out", "bytes_in", "bytes", "pool_used_bytes", "pool_size_bytes",
         "bytes_per_s"}


def cell_text(key, value, plain=False):
    """As a person reads it; `plain`: numbers as they are."""
    if value is None or value in ("", []):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (str, list)):
        return value if isinstance(value, str) else ",".join(value)
    if plain:
        return str(value)
    if key in SHARES:
        return f"{100 * value:.1f}%"
    if key == "ns" or "_ns" in key or key.startswith("ns_"):
        return time_text(value)
    if key in BYTES:
        return bytes_text(value)
    return real_text(value) if key in REALS else str(value)


REALS = {"parallelism", "p_path", "p_max", "rho", "message_rate", "rate", "bound",
         "speed", "load", "p", "cores_used", "messages_per_s", "threads_waiting"}
# The keys that each title may stand for; other titles are a key in capitals, or
# one with "_ns".
TITLES = {
    "MISSING": "missing_machines", "COMPUTING": "computations", "ASKED": "questions",
    "POOL USED": "pool_used_bytes", "OF": "pool_size_bytes", "WAIT": "wait_ns",
    "QUEUED": "wait_cpu_ns queued_ns", "P VALUE": "p", "UTILISATION": "rho", "SENT": "messages_out",
    "RECEIVED": "messages_in", "BYTES": "bytes_out bytes_in bytes",
    "WAITED FOR": "cause", "WAITING FOR": "cause",
    "SHARE": "share self_share", "TIME": "ns cpu_ns measured_ns",
    "TIMES": "count", "PIECES": "count", "FROM": "from ns_low from_ns",
    "TO": "to ns_high to_ns", "SELF": "ns self_ns", "LOW": "ns_low self_low_ns "
    "total_low_ns", "HIGH": "ns_high self_high_ns total_high_ns", "ON PATH":
    "path_ns share_ns", "OF IT": "on_path", "OF PATH": "share gain_share",
    "LENGTH": "ns length_ns", "SHORTER BY": "short_ns", "LOCKS": "any",
    "AT MOST": "bound_ns", "PATH THEN": "t_max_ns", "WHAT": "object name text what",
    "BUSY": "busy_share busy_ns", "ON": "machine", "ORDER": "pattern",
    "PROCESSES": "process_count processes processes_started", "WAITED": "total_ns ns", "FOR": "cause",
    "WHO": "object", "CORES WERE": "what", "CORES": "cores cores_used",
    "MESSAGES/S": "messages_per_s message_rate", "BYTES/S": "bytes_per_s", "WAITING":
    "threads_waiting", "MOST CPU": "process", "IN": "procedure", "TIME NS": "t_ns",
    "CPU NS": "cpu_ns", "LEFT OUT": "pipelined", "/S": "rate",
    "MEDIAN": "p50_ns", "90%": "p90_ns", "99%": "p99_ns", "LONGEST":
    "max_ns longest_ns", "AT MOST /S": "bound", "REQUESTS": "requests which",
    "COUNT": "requests count measured", "ACCEPT DELAY": "untaken_ns", "BACK ENDS": "elsewhere_ns", "SERVED":
    "own_ns", "MESSAGES": "messages message_ns", "NOT RECORDED": "external_ns",
    "MOST OF IT IN": "most", "SLOWEST 1%": "slow_ns", "40% TO 60%": "median_ns",
    "ARRIVED": "arrival_ns", "TOOK": "ns", "BEHIND THE ONE OF": "behind_arrival_ns",
    "THAT TOOK": "behind_took_ns", "A REQUEST": "demand_ns", "IN USE": "use",
    "OF ALL": "share", "FIRST": "first_ns", "SECOND": "second_ns", "PATH":
    "wall_ns path_ns", "ALONE": "own_ns", "LIMIT": "limit_ns limit",
    "FASTER BY": "faster_by"}
# Shown as a sentence, put together, or other at each look.
MADE_UP = {"CREATED", "LAST SEEN", "PLACE", "WHERE", "MEANWHILE", "THROUGH", "STEPS",
           "CHANGE", "95% INTERVAL"}


def keys_for(title):
    name = title.lower().replace(" ", "_")
    return TITLES[title].split() if title in TITLES else [title, name, f"{name}_ns"]


def split(line):
    return re.split(r" {2,}", line.strip())


def is_header(line):
    if re.fullmatch(r" *machine( +[a-z_]+)+", line):  # of sql: as it was asked for
        return True
    return re.fullmatch(r" *[A-Z0-9#%/][A-Z0-9#%/ ]*", line) is not None and \
        len(split(line)) > 1


def tables_in(text):
    """[(titles, [cells])] in order."""
    found, inside = [], False
    for line in text.splitlines():
        if is_header(line):
            found.append((split(line), []))
            inside = True
        elif not line or not inside or line.endswith("left out") or \
                len(split(line)) != len(found[-1][0]):
            inside = False
        else:
            found[-1][1].append(split(line))
    return found


def arrays_in(value, name=""):
    """[(name, rows)] of all tables that have any, in their order."""
    found = []
    for key, inner in value.items():
        if key == "certificate":
            continue
        if isinstance(inner, dict):
            found += arrays_in(inner, f"{name}{key}.")
        elif isinstance(inner, list) and inner and isinstance(inner[0], dict):
            found.append((name + key, inner))
    return found


def columns_of(titles, row):
    """The key that each title shows, None where it is made up: in their order. Or
    nothing, if the row is of another table."""
    found, left = [], list(row)
    for title in titles:
        if title in MADE_UP:
            found.append(None)
            continue
        key = next((k for k in left if k in keys_for(title)), None)
        if key is None:
            return None
        found.append(key)
        left.remove(key)
    return found


def shown(titles, keys, row, plain):
    return [None if key is None else cell_text(key, row[key], plain)
            for key in keys]


def agrees(titles, cells, rows, plain):
    """Every row of the table, in order; how many cells were compared."""
    keys = columns_of(titles, rows[0])
    if keys is None:
        return 0
    want, compared = iter(rows), 0
    for line in cells:
        for row in want:
            told = shown(titles, keys, row, plain)
            if all(a is None or a == b for a, b in zip(told, line)):
                compared += len(line) - told.count(None)
                break
        else:
            return 0
    return compared


QUESTIONS = (
    ("runs",), ("status",), ("ls", "r"),
    ("metrics", "r", "--level", "run"), ("metrics", "r", "--level", "thread"),
    ("metrics", "r", "--level", "procedure"), ("metrics", "r", "--pop"),
    ("path", "r"), ("path", "r", "--weighting", "wall"),
    ("path", "r", "--by", "machine,process,thread,procedure,message,external",
     "--slack", "--next", 2, "--whole", "--sequences"),
    ("whatif", "r"), ("whatif", "r", "--procedure", "told+0x13010", "--gone"),
    ("predict", "r"), ("waits", "r"), ("waits", "r", "--by", "place"),
    ("procedures", "r"), ("phases", "r"), ("events", "r", "--top", 40),
    ("requests", "r"), ("bottleneck", "r"), ("estimate", "r"),
    ("why", "r"), ("why", "r", "--for", "latency"), ("why", "r,s"),
    ("diff", "r", "s"), ("check", "r", "--max-wall", "10s"),
    ("sql", "r", "SELECT process, cpu_ns FROM processes"))


# Tables of JSON of which people are shown something else: the pieces as a sentence
# beside each wait or finding, a picture, the longest in words.
UNSHOWN = {"blame", "findings", "nearest", "cpu_phases", "message_phases", "bins",
           "typical", "machine_totals", "process_totals", "machines"}
# Tables of which people see a part: so many rows.
PARTLY = {"segments": 10, "path": 10, "ranking": 16, "idle": 12}


def name_of(words):
    return " ".join(map(str, words))


def in_one(arrays, objects):
    """The three lists of ls as one, each object below the one that it is in."""
    rows = [row for _, more in arrays for row in more]
    return [("", sorted(rows, key=lambda row: objects.index(row["object"])))]


def check_table(words, titles, cells, left):
    """Takes the table's rows from those that are left."""
    plain = words[0] in ("events", "sql")
    if words[0] == "ls":
        cells = [line for line in cells if line[0] != "/"]
        left[:] = in_one(left, [line[0] for line in cells])
    for at, (name, rows) in enumerate(left):
        compared = agrees(titles, cells, rows, plain)
        if compared:
            assert len(cells) in (len(rows), PARTLY.get(name)), (words, name)
            del left[at]
            return compared
    raise AssertionError(f"{words}: no table of JSON is {titles}: {cells}")


@pytest.mark.parametrize("words", QUESTIONS, ids=name_of)
def test_a_table_is_its_json(run, words):
    """Would catch a column that shows another field, a time in another unit, a share
    that is not a percentage, a row or a table that people do not get."""
    answer = run.json(*words, status=(0, 3))
    tables = [(titles, cells) for titles, cells in tables_in(run.ipsq(*words).stdout)
              if titles[0] != "FIGURE"]
    left = arrays_in(answer)
    assert tables or words[0] in ("why", "estimate"), words
    compared = sum(check_table(words, *table, left) for table in tables)
    print(words, compared)
    names = {name.split(".")[-1] for name, _ in left}
    assert names - ({"figures"} if words[0] == "diff" else set()) <= UNSHOWN, words


# The key that each line above the tables shows.
LINES = {
    "run": "run", "weighting": "weighting", "goal": "goal",
    "critical path": "t_max_ns", "elapsed": "elapsed_ns", "total CPU": "total_cpu_ns",
    "on CPU": "on_cpu_ns", "waiting for a CPU": "run_delay_ns", "share of it":
    "run_delay_share", "unattributed": "other_ns", "utilisation": "rho",
    "segments": "segment_count", "gain": "gain_ns", "at most": "bound_ns",
    "path then": "t_max_then_ns", "makespan": "makespan_ns", "path, unshared":
    "t_max_ns", "parallelism": "p", "unshared": "p_path", "valid":
    "valid", "waited": "total_ns", "waits": "wait_count", "for late senders":
    "late_sender_ns", "for late receivers": "late_receiver_ns", "cpu": "cpu_ns",
    "samples": "samples", "one each": "period_ns", "asked for": "asked_period_ns",
    "to": "to_ns", "bins of": "bin_ns", "cores": "cores", "service": "service",
    "requests /s": "rate", "at most /s": "bound", "on a dedicated system":
    "estimate_ns", "of it computing": "compute_ns", "messages": "message_ns",
    "waiting for something not recorded": "external_ns", "messages on the path": "messages",
    "estimate of elapsed": "estimate_of_elapsed", "within limits": "within",
    "complete": "complete", "ideal time": "own_ns", "sure": "sure", "because": "sure_why", "runs": "run_count", "verdict": "verdict"}


def lines_in(text):
    """(label, value) of the lines above the first empty one."""
    for line in text.splitlines():
        if not line:
            return
        for label in sorted(LINES, key=len, reverse=True):
            if re.match(rf"(  )?{re.escape(label)} ", line):
                yield label, line.strip()[len(label):].strip()
                break


def test_lines_above_are_their_json(run):
    """Would catch a line that has another field's value, or another unit."""
    seen = set()
    for words in QUESTIONS:
        answer = run.json(*words, status=(0, 3))
        text = run.ipsq(*words).stdout
        if words[0] in ("status", "diff"):
            continue
        for label, value in lines_in(text):
            key = LINES[label]
            if (words[0], label) == ("path", "parallelism"):
                continue  # a sentence
            if words[0] == "predict" and label == "at most":
                key = "p_max"
            seen.add(label)
            assert value == cell_text(key, answer[key]), (words, label)
    assert set(LINES) - seen <= {"runs", "verdict"}, set(LINES) - seen


def signed(text_of, first, second):
    return ("-" if second < first else "+") + text_of(abs(second - first))


def test_differences_are_their_json(run):
    """Would catch a change that is not the second less the first, or has another sign
    or unit; in each direction."""
    counts = {"messages", "messages on it", "processes"}
    for words in ("diff", "r", "t"), ("diff", "t", "r"):
        answer, compared = run.json(*words), 0
        tables = tables_in(run.ipsq(*words).stdout)
        parts = [row for name in ("path", "processes", "cpu") for row in answer[name]]
        for titles, cells in tables[:3]:
            for line in cells:
                row = dict(zip(titles, line))
                told = next(p for p in parts if p["name"] == row["WHAT"])
                change = signed(time_text, told["first_ns"], told["second_ns"])
                assert row["CHANGE"] == change, row
                compared += change[1:] != "0"
        assert compared == 2
        figures = next(cells for titles, cells in tables if titles[0] == "FIGURE")
        assert len(figures) == len(answer["figures"]) > 10
        for line, told in zip(figures, answer["figures"]):
            text_of = real_text if told["figure"] in counts else \
                bytes_text if told["figure"] == "bytes sent" else time_text
            first, second = told["first"], told["second"]
            assert line == [told["figure"], text_of(first), text_of(second),
                            signed(text_of, first, second), "-"]
        assert {line[0] for line in figures if line[3][1] not in "0"} == \
            {"elapsed", "critical path", "waiting: timer", "waiting: child"}


# ---- TSV -----------------------------------------------------------------------

def tsv_text(value):
    """A value of JSON as TSV has it: numbers with all their digits."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, list) else str(value)


def same(text, value):
    if isinstance(value, float):
        return float(text) == value
    return text == tsv_text(value)


def tsv_in(text):
    """({key: value}, [(name, keys, rows)])"""
    values, tables, name = {}, [], ""
    for line in text.splitlines():
        cells = line.split("\t")
        if line.startswith("#") and len(cells) > 1:
            values[".".join(cells[:-1])[1:]] = cells[-1]
        elif line.startswith("#"):
            name = line[1:]
        elif name is None:
            tables[-1][2].append(cells)
            continue
        else:
            tables.append((name, cells, []))
            name = None
    return values, tables


# other at each look
ANEW = {"last_seen_ns", "pool_used_bytes", "took_ns", "uptime_ns"}


@pytest.mark.parametrize("words", QUESTIONS, ids=name_of)
def test_tsv_is_json(run, words):
    """Would catch a row or a column that only one of the two has, or a number that
    was shortened."""
    answer = run.json(*words, status=(0, 3))
    values, tables = tsv_in(run.ipsq(*words, "--format", "tsv").stdout)
    arrays = arrays_in(answer)
    if words[0] == "ls":  # one table in TSV, with a row for the run
        assert tables[0][2].pop(0)[0] == "/"
        arrays = in_one(arrays, [cells[0] for cells in tables[0][2]])
    tables = [table for table in tables if table[2]]
    compared = 0
    assert len(tables) == len(arrays), words
    for (name, keys, lines), (path, rows) in zip(tables, arrays):
        assert name in ("", path.split(".")[-1]) and keys == list(rows[0]), words
        assert len(lines) == len(rows), (words, path)
        for line, row in zip(lines, rows):
            assert len(line) == len(keys)
            for key, text in zip(keys, line):
                assert key in ANEW or same(text, row[key]), (words, path, key)
                compared += 1
    certificate = answer.get("certificate", {})
    for key, value in (*answer.items(), *(("certificate." + key, value)
                                          for key, value in certificate.items())):
        if key == "certificate.lost":
            value = sum(cause["count"] for cause in value)
        if key not in values or key.split(".")[-1] in ANEW or \
                key.endswith(("plan", "certificate.category")):  # another at each look
            continue
        assert same(values[key], value), (words, key)
        compared += 1
    assert compared > (15 if certificate else 0)
