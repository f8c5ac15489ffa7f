"""Tables, TSV and JSON of one answer say the same: every cell of every table is its
JSON field in the unit of that field, every row is there in all three, and so are the
single values above the tables. The run is told to the ns (told.py), so all three are
of the same figures. Which key a column or a line shows is written down here."""
import math
import re

import pytest

from conftest import Cluster
from told import MS, US, Lock, Told

pytestmark = pytest.mark.quick


# ---- a run that has something of everything ---------------------------------

class Program(Told):
    """On m1 clerks that stand in line for a lock, a server with clients, a sleeper;
    on m2 one that m1's main talks with."""

    def __init__(self):
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
        sleeper.sleep(7 * MS)
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
    for name in ("r", "s"):
        Program().write(c, name)
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


# Keys whose unit the name does not end in.
SHARES = {"share", "on_path", "use", "taken", "gain_share", "of_path", "self_share",
          "run_delay_share", "estimate_of_elapsed", "system_share"}
BYTES = {"bytes_out", "bytes_in", "bytes", "pool_used_bytes", "pool_size_bytes"}
PLAIN_BYTES = {"events", "waits"}  # tables whose bytes stand as they are


def cell_text(table, key, value):
    """As a person reads it."""
    if value is None or value in ("", []):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ",".join(value)
    if isinstance(value, str):
        return value
    if key in SHARES:
        return f"{100 * value:.1f}%"
    if isinstance(value, float) and not key.endswith("_ns"):
        return real_text(value)
    if key == "ns" or "_ns" in key or key.startswith("ns_"):
        return time_text(value)
    if key in BYTES and table not in PLAIN_BYTES:
        return bytes_text(value)
    return str(value)


def split(line):
    return re.split(r" {2,}", line.strip())


def is_header(line):
    return len(line) > 3 and not re.search(r"[a-z]", line) and \
        re.match(r"[ A-Z#%/0-9]*[A-Z][ A-Z#%/0-9]*$", line) is not None


def tables_in(text):
    """[(titles, [cells])] in order."""
    found, inside = [], False
    for line in text.splitlines():
        if is_header(line):
            found.append((split(line), []))
            inside = True
        elif not line.strip() or line.endswith("left out)"):
            inside = False
        elif inside:
            found[-1][1].append(split(line))
    return found


def arrays_in(answer):
    """[(name, rows)] that have any, in the order of the tables."""
    return [(key, value) for key, value in answer.items()
            if key != "certificate" and isinstance(value, list) and value and
            isinstance(value[0], dict)]


QUESTIONS = (
    ("runs",), ("status",), ("ls", "r"),
    ("metrics", "r", "--level", "run"), ("metrics", "r", "--level", "thread"),
    ("metrics", "r", "--level", "procedure"), ("metrics", "r", "--pop"),
    ("path", "r"), ("path", "r", "--weighting", "wall"),
    ("path", "r", "--by", "machine,process,thread,procedure,message,external",
     "--slack", "--next", 2, "--whole", "--sequences"),
    ("whatif", "r"), ("whatif", "r", "--object", "/m1/server*", "--gone"),
    ("predict", "r"), ("waits", "r"), ("waits", "r", "--by", "place"),
    ("procedures", "r"), ("phases", "r"), ("events", "r", "--top", 40),
    ("requests", "r"), ("bottleneck", "r"), ("estimate", "r"),
    ("why", "r"), ("why", "r", "--for", "latency"), ("why", "r,s"),
    ("diff", "r", "s"), ("check", "r", "--max-wall", "10s"),
    ("sql", "r", "SELECT process, cpu_ns FROM processes"))


if __name__ == "__main__":
    import pathlib
    from conftest import Build
    c = Cluster(Build(pathlib.Path("build/release").resolve()), ["m1", "m2"])
    for name in ("r", "s"):
        Program().write(c, name)
    import json
    for words in QUESTIONS:
        print("=====", *words)
        print(c.ipsq(*words).stdout)
        done = c.ipsq(*words, "--format", "json")
        a = json.loads(done.stdout)
        tables = tables_in(c.ipsq(*words).stdout)
        for titles, rows in tables:
            print("  T", titles, len(rows))
        for name, rows in arrays_in(a):
            print("  J", name, len(rows), list(rows[0]))
    print("----TSV"); print(c.ipsq("path","r","--format","tsv").stdout)
    c.close()
