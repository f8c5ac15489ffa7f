"""`tests/bench/run inject`: delays in unmodified programs (issue 4), against what
the recorded graph says of them.

A place is a process of a program, a function of the C library, and ten (fewer where
there are fewer) calls of it in a row. They are drawn with the seed from what runs
of the programs were seen to call: some of each program's off the path. Each is
delayed by 1, 5 and 20 ms a call in interleaved runs, all of them recorded: busy on
the path; asleep off it, as on two cores a busy delay would take one from the path,
and no graph says that.

  predicted  the growth of the longest path of runs without delays, when what the
             delays really took is put before the same calls in their graphs
             (weighting wall, delays.py: it shares no code with IPS's engines)
  grown      elapsed with the delay less the median of the round's without, median
  noise      the same of runs without delays, 97.5% of what they give by chance
  blamed     what of the delays lies on IPS's own path of the delayed run, in the arcs
             before these calls; beside it, what the prediction says

A row holds where `grown` is within the noise or 10% of the delay of what was
predicted, and `blamed`, too. The programs run before all others of the machine (real-time
priority), so that these do not decide.
"""
import collections
import json
import os
import random
import shutil
import statistics
import subprocess
import tempfile

import delays
import path_oracle
from inject_programs import SCENARIOS
from measure import Place

EACH_ON, EACH_OFF = 3, 3  # places of a program, where it has such
CALLS_EACH = 10
DELAYS_US = (1000, 5000, 20000)
LEAST_NS = DELAYS_US[0] * 1000
PLAIN = 4  # runs without delays in each round
DRAWS = 100  # more find no place off the path of a program that has none
NOTED = 3  # runs without delays whose graphs predict
SEED = 4
TIMED = "echo $EPOCHREALTIME >times; %s\necho $EPOCHREALTIME >>times"

# arg: which of the scenario's, from 1; thread: by its first such call
Site = collections.namedtuple("Site", "program forks arg call thread")
Spot = collections.namedtuple("Spot", "site first count how")
Run = collections.namedtuple("Run", "elapsed entries nodes answer")


def before_all_others():
    """In the new child, where that is allowed; else it runs as all do."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError:
        pass


def by_site(entries):
    """{Site: its calls in order}, of processes that nothing else looks like."""
    threads = collections.defaultdict(dict)
    owners = collections.defaultdict(set)
    found = collections.defaultdict(list)
    for e in entries:
        known = threads[e.pid, e.call]
        thread = known.setdefault(e.tid, len(known))
        site = Site(e.program, e.forks, e.arg, e.call, thread)
        owners[site[:3]].add(e.pid)
        found[site].append(e)
    # What has an argument of its own is also seen where none is asked for.
    return {site: calls for site, calls in found.items()
            if len(owners[site[:3]]) == 1 and
            (site.arg or not any(other[:2] == site[:2] and other[2]
                                 for other in owners))}


class Case:
    """A program, its runs and its places."""

    def __init__(self, kind, place, library):
        self.place, self.library = place, library
        self.directory = tempfile.mkdtemp(prefix="ips-bench-")
        os.chmod(self.directory, 0o755)
        self.program = kind(self.directory)
        self.log = delays.Log(os.path.join(self.directory, "delay.log"))
        self.number = 0
        self.plain, self.delayed = [], collections.defaultdict(list)
        self.noted, self.spots = [], []

    def run(self, what, look=True):
        name = "%s-%d" % (type(self.program).__name__, self.number)
        self.number += 1
        self.log.clear()
        self.program.begin()
        command = self.place.ipsrun("bash", "-c", TIMED % self.program.command,
                                    options=("--name", name,
                                             "--procedures=off"))
        subprocess.run(command, check=True, cwd=self.directory, env=dict(
            self.place.env, **self.log.environment(self.library, what)),
            preexec_fn=before_all_others, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
        with open(os.path.join(self.directory, "times")) as f:
            begin, end = map(float, f.read().split())
        elapsed = (end - begin) * 1e9
        self.place.settle()
        if not look:
            return Run(elapsed, None, None, None)
        nodes = path_oracle.read(self.place.ipsq_any(
            "graph", name, "--format", "jsonl").splitlines())
        answer = json.loads(self.place.ipsq_any(
            "path", name, "--weighting", "wall", "--by", "machine", "--format",
            "json"))
        return Run(elapsed, self.log.entries(), nodes, answer)

    def note(self):
        """A run in which every call is noted: [(calls by site, model, path)]."""
        run = self.run("program=*,arg=" + "|".join(self.program.args) if
                       self.program.args else "program=*")
        model = delays.Model(run.nodes)
        path = model.longest()
        if path.ns != run.answer["t_max_ns"] or \
                path.own != delays.own_of_answer(run.nodes, run.answer):
            print(f"{self.program.name}: ipsq path and the oracle differ: "
                  f"{run.answer['t_max_ns']} {path.ns}")
        self.noted.append((by_site(run.entries), model, path))

    def draw(self, seed):
        """EACH_OFF spots where 1 ms a call makes the path longer by a tenth of
        that at most, and EACH_ON where it does by nine tenths."""
        draw = random.Random(f"{self.program.name} {seed}")
        sites, model, path = self.noted[0]
        only = self.program.only
        known = sorted(site for site in sites if site.program not in (
            "ipsrun", "bash") and site.program == (only or site.program) and all(site in n[0] and len(n[0][site]) >=
                                    min(len(sites[site]), CALLS_EACH)
                                    for n in self.noted))
        left = {"on": EACH_ON, "off": EACH_OFF}
        for _ in range(DRAWS):
            if not known or not any(left.values()):
                break
            (site,) = draw.choices(known, [min(len(sites[s]), CALLS_EACH)
                                           for s in known])
            calls = sites[site]
            count = min(len(calls), CALLS_EACH)
            least = min(len(n[0][site]) for n in self.noted)
            first = draw.randrange(1, least - count + 2) if least >= count \
                else 1
            spot = Spot(site, first, count, "busy")
            kind = self.kind(spot)
            if kind == "off":
                spot = spot._replace(how="sleep")
            if left.get(kind) and not any(
                    s.site == site for s, _ in self.spots):
                left[kind] -= 1
                self.spots.append((spot, kind))

    def kind(self, spot):
        """By all noted runs; None where they disagree."""
        kinds = set()
        for sites, model, path in self.noted:
            calls = [e._replace(elapsed=LEAST_NS) for e in sites[spot.site]
                     if spot.first <= e.number < spot.first + spot.count]
            total = LEAST_NS * len(calls)
            grown = model.longest(model.nodes_of(calls)).ns - path.ns
            kinds.add("on" if grown >= 0.9 * total else
                      "off" if grown <= 0.1 * total else None)
        return kinds.pop() if len(kinds) == 1 else None

    def what(self, spot, us):
        site = spot.site
        words = {"program": site.program, "call": site.call,
                 "forks": site.forks, "thread": site.thread,
                 "first": spot.first, "count": spot.count, "us": us, "how": spot.how}
        if site.arg:
            words["arg"] = self.program.args[site.arg - 1]
        return ",".join(f"{k}={v}" for k, v in words.items())

    def round(self):
        plain = []
        kinds = [None] * PLAIN + [(s, us) for s, _ in self.spots
                                for us in DELAYS_US]
        for kind in random.sample(kinds, len(kinds)):
            if kind is None:
                plain.append(self.run("program=none", False).elapsed)
            else:
                self.delayed[kind].append(self.weigh(
                    kind[0], self.run(self.what(*kind))))
        self.plain.append(plain)

    def weigh(self, spot, run):
        """(elapsed, delay, predicted growth, predicted blame, blame), in ns, of
        one run; the graph is let go."""
        took = {e.number: e.elapsed for e in run.entries}
        grown, blame = [], []
        for sites, model, path in self.noted:
            calls = [e._replace(elapsed=took[e.number])
                     for e in sites[spot.site] if e.number in took]
            nodes = model.nodes_of(calls)
            then = model.longest(nodes)
            grown.append(then.ns - path.ns)
            blame.append(model.on(then.own, nodes))
        model = delays.Model(run.nodes)
        nodes = {i: min(ns, model.arc(i))
                 for i, ns in model.nodes_of(run.entries).items()}
        own = delays.own_of_answer(run.nodes, run.answer)
        return (run.elapsed, sum(took.values()), statistics.median(grown),
                statistics.median(blame), model.on(own, nodes))

    def noise(self, runs):
        """Of runs without delays, as if one in a round had some."""
        def difference():
            plain = random.choice(self.plain)
            at = random.randrange(len(plain))
            return plain[at] - statistics.median(plain[:at] + plain[at + 1:])
        medians = sorted(abs(statistics.median(
            difference() for _ in range(runs))) for _ in range(2000))
        return medians[int(0.975 * len(medians))]

    def tell(self):
        """Prints the rows; (held, rows) by kind."""
        base = [statistics.median(plain) for plain in self.plain]
        held = collections.Counter()
        for spot, kind in self.spots:
            site = spot.site
            arg = f" {self.program.args[site.arg - 1]}" if site.arg else ""
            print(f"{self.program.name}: {site.program}{arg}, {site.call} "
                  f"{spot.first} to {spot.first + spot.count - 1}"
                  f"{', forked' if site.forks else ''}, {spot.how}: {kind} "
                  "the path")
            for us in DELAYS_US:
                rows = self.delayed[spot, us]
                noise = self.noise(len(rows))
                grown = statistics.median(row[0] - plain for row, plain in
                                          zip(rows, base))
                _, total, said, blame, blamed = (
                    statistics.median(column) for column in zip(*rows))
                near = max(noise, 0.1 * total)
                grows = abs(grown - said) <= near
                blames = abs(blamed - blame) <= near
                held[kind, grows and blames] += 1
                print(f"  {us // 1000:>3} ms {total / 1e6:>8.1f}"
                      f"{said / 1e6:>10.1f}{grown / 1e6:>8.1f}"
                      f"{noise / 1e6:>7.1f}{blame / 1e6:>10.1f}"
                      f"{blamed / 1e6:>8.1f}  {'' if grows else 'growth '}"
                      f"{'' if blames else 'blame '}"
                      f"{'holds' if grows and blames else 'FAILS'}",
                      flush=True)
        return held

    def close(self):
        shutil.rmtree(self.directory, ignore_errors=True)


def make_cases(place, library):
    cases = []
    for kind in SCENARIOS:
        missing = [n for n in kind.needs if not shutil.which(n)]
        if missing:
            print(f"{kind.name} is left out, not here: {missing} "
                  f"(deploy/deps --bench)")
            continue
        cases.append(Case(kind, place, library))
    return cases


def bench(build, runs, seed=SEED, only=None):
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    library = os.path.join(build, "bin", "programs", "delay.so")
    held = collections.Counter()
    with Place(build) as place:
        place.run(place.ipsrun("true"))  # the daemons stay, and stay behind
        cases = make_cases(place, library)
        cases = [c for c in cases if not only or only in c.program.name]
        print(f"seed {seed}; ms: delay of a call, of all; growth as predicted, "
              "measured; its noise; blame as predicted, measured", flush=True)
        try:
            for case in cases:
                for _ in range(NOTED):
                    case.note()
                case.draw(seed)
                for _ in range(runs):
                    case.round()
                held += case.tell()
        finally:
            for case in cases:
                case.close()
    for kind in ("on", "off"):
        good, bad = held[kind, True], held[kind, False]
        print(f"{kind} the path: {good} of {good + bad} rows hold")
