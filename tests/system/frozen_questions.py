"""The questions about each frozen run (test_frozen.py), and the answers as text that
does not change and that an engineer can compare: an object a line, certificates only where
they differ from that of the run's first answer."""
import json
import re
import zlib

ALL_BY = "machine,process,thread,procedure,line,message,external"
ENGINES = ("contract", "central", "cm-sync", "cm-async")
WEIGHTINGS = ("cpu", "sched", "wall")

# ---- what is left out -------------------------------------------------------

# Keys of JSON whose values are not fixed, and why.
NOT_FIXED = {
    "took_ns": "how long the answer took",
    "uptime_ns": "when the master started",
    "last_seen_ns": "when a slave last sent something",
    "records_read": "whether an earlier answer had read them",
    "kept_answers": "how many questions came before",
    "questions": "what else is being asked",
    "computations": "what else is being asked",
    "clients": "what else is being asked",
    "pool_size_bytes": "room of the machine",
    "pool_used_bytes": "what is not yet removed from the pool",
    "version": "of the build",
    "loads": "other programs of the machine",
    "cost_bytes": "numbers of requests, which are longer the later they are",
    "cost_messages": "what the slaves had from earlier questions",
}
# In cm-sync and cm-async slaves send values that later ones replace: how often depends
# on which slave is first.
OF_WHO_IS_FIRST = ("cost_rounds", "cost_values", "cost_relayed")
# The master answers `ls` and `metrics` of a run that it has looked at before.
OWN_TABLE = "the master's own table"
# The same in texts: (pattern, replacement, reason).
NOT_FIXED_TEXT = [
    (r"answered in [0-9.]+ ?[a-z]+ from", "answered in TIME from",
     "how long the answer took"),
    (r"(#(certificate\t)?took_ns\t)[0-9]+", r"\1TIME",
     "how long the answer took"),
    (r"an answer that was kept, made from |a copy of (?=the slaves' tables)", "",
     "whether the same was asked before"),
    (r"the master's own table \(category 1\)", "the slaves' tables (category 2)",
     "whether the master had looked at it before"),
    (r"round trip [0-9]+ us, (.*about) [0-9]+ us, (.*about) [0-9]+",
     r"round trip TIME, \1 TIME, \2 TIME", "how quick the machines are"),
    (r"exchanged +[0-9]+ values in .*", "exchanged VALUES",
     "who of the slaves is first"),
    (r"#cost_(bytes|values|messages|rounds|relayed)\t[0-9]+", r"#cost_\1\tCOST",
     "who of the slaves is first"),
    (r"; other programs wanted [0-9.]+ cores of m\d", "",
     "other programs of the machine"),
    (r"(?m)^(up|clients|kept answers|version) {3,}.*", r"\1",
     "of the daemons, not of runs"),
    (r"(?m)^(m\d +yes) .*iB +.*", r"\1",
     "of the daemons, not of runs"),
]


class Number(str):
    """As it was printed."""


def clean_value(value, key=None):
    if key in NOT_FIXED:
        return None
    if isinstance(value, dict):
        by_turns = str(value.get("engine")).startswith("cm-")
        if value.get("plan") == OWN_TABLE:
            value = dict(value, plan="the slaves' tables", category=2, notes=[])
        return {k: None if by_turns and k in OF_WHO_IS_FIRST else
                clean_value(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [clean_value(v) for v in value]
    return value


def clean_text(text, root):
    text = text.replace(str(root), "ROOT")
    for pattern, instead, _ in NOT_FIXED_TEXT:
        text = re.sub(pattern, instead, text)
    return text


# ---- layout ------------------------------------------------------------------

MOST_LINES = 14  # of a table as people read it
MOST_ROWS = 8  # of a list; the sums of the others, and a check of them, follow


def short(text):
    """The first MOST_LINES lines of a table, and a check of the others."""
    out, rows = [], []
    for row in [*text.splitlines(), ""]:
        if row:
            rows.append(row)
            continue
        more = rows[MOST_LINES:]
        if more:
            check = zlib.crc32("\n".join(more).encode())
            rows[MOST_LINES:] = [f"and {len(more)} more, check {check:08x}"]
        out += [*rows, ""]
        rows = []
    return "\n".join(out)


def line(value):
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {line(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(line, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def rows_of(items, indent):
    """Objects with the same keys: a line of keys and a line each; others."""
    keys = isinstance(items[0], dict) and list(items[0])
    table = keys and all(isinstance(x, dict) and list(x) == keys for x in items)
    out = [" | ".join(keys)] if table else []
    out += [" | ".join("-" if v is None else line(v) for v in x.values())
            if table else line(x)
            for x in items[:MOST_ROWS]]
    more = items[MOST_ROWS:]
    if more:
        sums = {k: sum(x[k] or 0 for x in more) for k in (keys if table else ())
                if {type(x[k]) for x in more} in ({int}, {int, type(None)})}
        out.append(f"and {len(more)} more, sums {line(sums)}, check "
                   f"{zlib.crc32(line(more).encode()):08x}")
    return "\n" + "\n".join(indent + row for row in out)


def lay(value, indent=""):
    """Lines `key: value`; what does not fit into one has lines of its own below."""
    out = []
    for key, item in value.items():
        whole = line(item)
        if isinstance(item, dict) and item and len(whole) > 60:
            whole = "\n" + "\n".join(lay(item, indent + "  "))
        elif isinstance(item, list) and len(whole) > 60:
            whole = rows_of(item, indent + "  ")
        out.append(f"{indent}{key}:{'' if whole[0] == chr(10) else ' '}{whole}")
    return out


def less(answer, before):
    """Without what `before` says, too; `as_before`: how many keys that are."""
    out, same = {}, 0
    for key, value in answer.items():
        old = before.get(key, ABSENT)
        if value == old:
            same += 1
        elif isinstance(value, dict) and isinstance(old, dict):
            out[key] = less(value, old)
        else:
            out[key] = value
    return dict(out, as_before=same) if same else out


ABSENT = object()


class Asked:
    """An answer: status, standard output and error, and the JSON that it was."""

    def __init__(self, words, done, root):
        self.words, self.status = words, done.returncode
        self.error = clean_text(done.stderr, root)
        self.text = clean_text(done.stdout, root)
        self.json = self.exact = None
        if "json" in words and done.stdout.startswith("{"):
            self.json = json.loads(self.text, parse_float=Number)
            self.exact = json.loads(done.stdout)

    def shown(self, before):
        """`before`: the first answer of the file, cleaned."""
        out = "$ ipsq " + " ".join(
            f"'{w}'" if re.search(r"[ ;<>*#]", w) else w for w in self.words)
        out += f"\n[{self.status}]\n" if self.status else "\n"
        if self.error:
            out += "".join(f"! {x}\n" for x in self.error.splitlines())
        if self.json is None:
            return out + short(self.text)
        return out + "\n".join(lay(less(self.cleaned(), before))) + "\n"

    def cleaned(self):
        return clean_value(self.json)


# ---- the questions ---------------------------------------------------------

class Run:
    """How a run is asked about: a window in it, a process and a procedure."""

    def __init__(self, start, stop, process, procedure="sum", message=None,
                 more=(), tsv=False, goal=None, only=None):
        self.window = ("--from", start, "--to", stop)
        self.process, self.procedure = process, procedure
        self.message, self.more, self.tsv = message, dict(more), tsv
        self.goal, self.only = goal, only


def whatifs(run):
    yield ()
    yield ("--process", run.process, "--gone")
    yield ("--procedure", run.procedure, "--faster", "2x", "--top", "5")
    yield ("--weighting", "wall", "--procedure", "pa*", "--faster", "30%")
    yield ("--weighting", "sched", "--rank", "--top", "3", *run.window)
    if run.message:
        yield ("--message", run.message, "--gone")


def paths(run):
    yield ("--engine", "contract")
    for engine in ENGINES[1:]:
        yield ("--engine", engine)
    yield ()
    yield ("--weighting", "sched", "--by", "process")
    yield ("--weighting", "wall", "--by", ALL_BY)
    yield ("--weighting", "wall", "--slack", "--engine", "cm-sync")
    yield ("--weighting", "wall", *run.window, "--by", "line", "--whole")
    yield ("--by", ALL_BY, "--whole", "--top", "4")
    yield ("--sequences", "--slack", "--next", "4")
    yield ("--external", "off", "--mtime", "10us+1ns")
    yield ("--external", "all", "--mtime", "none")
    yield (*run.window, "--by", "procedure,thread")
    if run.goal:
        yield ("--goal", run.goal, "--weighting", "wall")
        yield ("--goal", run.goal, "--engine", "cm-async")


def questions(name, run):
    """{command: [words behind the run's name]}"""
    w = run.window
    found = {
        "ls": [(), w, ("--sort", "cpu_ns", "--top", "1"),
               ("--object", "/m1/*/*", "--sort", "-elapsed_ns", "--per",
                "machine")],
        "metrics": [("--level", level) for level in (
            "run", "machine", "process", "thread", "procedure")] +
                   [w, ("--pop",),
                    ("--level", "thread", "--sort", "wait_ns", "--top", "2")],
        "path": list(paths(run)),
        "waits": [(), ("--by", "cause"), ("--by", "peer", *w),
                  ("--by", "thread", "--top", "3"),
                  ("--stacks", "--sort", "count")],
        "phases": [(), w],
        "events": [("--top", "25", "--stacks"), ("--sites", *w, "--top", "15")],
        "graph": [()],
        "procedures": [(), ("--by", "line"), (*w, "--sort", "total_ns"),
                       ("--by", "process"), ("--object", "/m1", "--top", "2")],
        "whatif": list(whatifs(run)),
        "predict": [(), ("--machines", "a:cores=1;b:speed=2", "--map", "*=a"),
                    ("--machines", "a:cores=2;b", "--map", run.process + "=b",
                     "--network", "a<>b=100us+8ns@bus"),
                    ("--machines", "a;b:load=0.5", "--search", "--tries", "12",
                     "--seed", "3"),
                    ("--move", run.process + "@2ms=m1", "--external", "all")],
        "estimate": [(), ("--shared-medium", "--mtime", "20us+2ns"),
                     ("--system-share", "5%")],
        "why": [(), ("--for", "latency"), ("--for", "throughput"), w,
                ("--mtime", "none", "--top", "2")],
        "requests": [(), ("--top", "3", *w)],
        "bottleneck": [(), ("--mtime", "20us+2ns", *w)],
        "check": [("--max-wall", "10ms", "--max-cpu", "20ms", "--max-path",
                   "10ms", "--max-lost", "0"), (*w, "--max-wall", "1s")],
        "sql": [("SELECT * FROM processes",), ("SELECT * FROM waits",), ("SELECT * FROM run_info",),
                ("SELECT * FROM channels",), ("SELECT * FROM traffics",),
                ("SELECT process, procedure, self_ns, calls FROM procedures",
                 "--top", "9"),
                ("SELECT * FROM threads", "--sort", "cpu_ns", "--top", "3")],
    }
    for command, more in run.more.items():
        found[command] = found.get(command, []) + list(more)
    return {command: [(name, *words) for words in some]
            for command, some in found.items()
            if command in (run.only or found)}


RUNS = {
    "bare": Run("1ms", "4ms", "bare*", only=(
        "ls", "metrics", "path", "waits", "phases", "why", "procedures")),
    "locks": Run("10ms", "30ms", "locks*", "encode"),
    "tree": Run("3ms", "15ms", "b.*", "parse", "a*->b*", goal="b"),
    "shop": Run("5ms", "20ms", "server*", "lookup", "client*->server*",
                more={"diff": [("shop-slow",)],
                                "why": [("--phase", "1")]}),
    "chain": Run("4ms", "12ms", "back*", "serve", "front*->back*", tsv=True,
                 goal="back"),
    "marks": Run("4ms", "20ms", "marks*", "serve", more={
        "requests": [("--by", "mark:step"), ("--by", "mark:bill"),
                     ("--by", "task:job"), ("--by", "mark"), ("--by", "task")],
        "bottleneck": [("--by", "mark:bill"), ("--by", "task")]}),
    "phases": Run("60ms", "140ms", "right*", "encode", more={
        "phases": [("--phase", "2")], "path": [("--phase", "2")],
        "why": [("--phase", "2")], "waits": [("--phase", "3")]}),
    "farm": Run("5ms", "15ms", "worker*", "sum", "boss*->worker*"),
    "twins": Run("500us", "3ms", "twin*"),
    "kinds": Run("100us", "5ms", "by3*", "encode", goal="by2", only=(
        "ls", "metrics", "path", "waits", "events", "graph", "procedures", "why",
        "predict", "requests", "check", "sql")),
    "random-one": Run("5ms", "30ms", "f*", "parse"),
    "random-three": Run("500us", "3ms", "f2*", "encode"),
}
BEFORE = ",".join(f"before{k}" for k in range(1, 6))
AFTER = ",".join(f"after{k}" for k in range(1, 6))
# Sides that differ by chance, one larger than the other.
MIXED = ("before1,before2,before3,after4,after5",
         "before4,before5,after1,after2,after3,bare")
# Questions about several runs.
SERIES = {
    "diff": [(BEFORE, AFTER), (AFTER, BEFORE, "--top", "2"),
             ("before1", "after1"), (BEFORE, AFTER, "--from", "1ms", "--to",
                                     "8ms"), ("before1,before2", "after3"),
             MIXED],
    "why": [(BEFORE,), (AFTER, "--top", "3"), (BEFORE + "," + AFTER,)],
    "runs": [(), ("--top", "3")],
    "status": [()],
    "ls": [("nosuch",)], "path": [("before1", "--phase", "9")],
}
# With message times as a table has them.
CALIBRATED = {
    "chain": {"path": [(), ("--weighting", "wall"), ("--slack",)],
              "estimate": [(), ("--shared-medium",)], "why": [()],
              "predict": [(), ("--machines", "a;b", "--map", "front*=b"),
                          ("--map", "back*=m1")],
              "bottleneck": [()], "requests": [()], "whatif": [()]},
    "farm": {"path": [(), ("--next", "3")], "estimate": [()],
             "predict": [("--map", "worker*=m1"),
                         ("--machines", "a:cores=4;b", "--search", "--tries",
                          "9")]},
    "random-three": {"path": [(), ("--engine", "cm-async")], "waits": [()],
                     "estimate": [()]},
}
TIMES = """\
ips-message-times 1
pair m1 m2 tcp 2026-01-02T03:04:05Z by hand
point 1 21340 20110 24050 200 6900
point 1448 35000 34000 39000 200 7000
point 65536 588000 571000 640200 200 30000
pair m2 m1 tcp 2026-01-02T03:04:05Z by hand
doubt m1 was not idle
point 1 24000
point 1000 30000
pair m2 m3 tcp 2026-01-03T03:04:05Z by hand
point 1 50000
point 1000 49000
point 4000 90000
pair m1 m1 tcp 2026-01-02T03:04:05Z by hand
point 1 5000
wake m1 2400 2026-01-02T03:04:05Z by hand
"""
