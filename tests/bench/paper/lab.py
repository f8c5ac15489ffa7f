"""Machines for the experiments of tests/bench/paper, made of this one.

    with Lab(build, [Spec("a", "0"), Spec("b", "1", hogs=2)]) as lab:
        run = lab.measure(program, place)      # under IPS: Run(name, elapsed, ...)
        ns = lab.plain(program, place)         # the same program without it
        lab.ask("predict", run.name, "--map", lab.map_of(run, place))

A machine is a network namespace with an address (deploy/hosts), a slave, a pool, the
processors that it has ("0", "0,1": by affinity, which all that runs there inherits and
IPS records as its cores), load programs on these, and perhaps a limit of its link (a
token bucket each way). Machines may share processors; then only what is independent of
load may be asked of them. Quotas of a cgroup are not used: what runs for less than a
quota's period runs at full speed, so they make no slower machine for the messages of
these programs.

`place` maps each process (label) of a program to a machine's name. Elapsed time is from
just before the main process (the last that is started) is executed until the last
process is reaped, by one clock, waited for without polling. What is measured can be
preferred to all else that runs here (a cgroup of its own with the greatest share): --prefer, on unless it is not
permitted; load programs are in the same group, and compete as they should.

Slaves and master are in the network of none but their machine; all is gone at the end.
Needs root."""
import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "system"), str(ROOT / "tests" / "bench")]
import conftest  # noqa: E402
import distributed  # noqa: E402
import measure  # noqa: E402

# rate: what its link carries each way, as tc says it, None for no limit
Spec = collections.namedtuple("Spec", "name cpus hogs rate",
                              defaults=("0", 0, None))
# elapsed in ns; pid and machine of each label
Run = collections.namedtuple("Run", "name program elapsed pid place outputs")
LIMIT_S = 270  # a program that runs longer is killed

GROUPS = pathlib.Path("/sys/fs/cgroup/cpu")  # version 1
HOG = ["/usr/bin/python3", "-c", "while True: pass"]


class Group:
    """A cgroup with the greatest share of the processors, as a context: we are
    in it, and so is all that we start - IPS's daemons, too, which else would not
    get to their work while others keep the machine busy (they ask for what is
    left over)."""

    def __init__(self, wanted):
        self.path = GROUPS / f"ips-paper-{os.getpid()}" if wanted else None

    def __enter__(self):
        try:
            if self.path:
                self.path.mkdir()
                (self.path / "cpu.shares").write_text("262144")
                (self.path / "cgroup.procs").write_text(str(os.getpid()))
        except OSError as error:
            print(f"nothing is preferred: {error}", file=sys.stderr)
            self.path = None
        return self

    def __exit__(self, *unused):
        if self.path:
            (GROUPS / "cgroup.procs").write_text(str(os.getpid()))
            conftest.wait_until("the group is empty", lambda: not (
                self.path / "cgroup.procs").read_text(), 20)
            self.path.rmdir()
            self.path = None


class Host:
    """As conftest.Host, with processors."""

    def __init__(self, prefix, number, address, cpus):
        self.prefix, self.number = prefix, number
        self.address, self.cpus = address, cpus

    def command(self, argv):
        return [str(ROOT / "deploy" / "hosts"), "run", str(self.number),
                "--prefix", self.prefix, "--", "taskset", "-c", self.cpus,
                *map(str, argv)]


def tc(space, device, rate):
    """A token bucket before the device, or none (rate None)."""
    how = ["replace", "dev", device, "root", "tbf", "rate", rate, "burst", "2kb",
           "latency", "2s"] if rate else ["del", "dev", device, "root"]
    subprocess.run(["ip", "netns", "exec", space, "tc", "qdisc", *how],
                   check=True)


class Lab:
    def __init__(self, build, specs, prefer=True, daemons=True):
        self.build = conftest.Build(pathlib.Path(build).resolve())
        self.specs = {spec.name: spec for spec in specs}
        self.prefix = "p" + uuid.uuid4().hex[:8]
        self.group = Group(prefer)
        self.daemons = daemons
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="ips-paper-"))
        self.cluster, self.hogs, self.number = None, [], 0
        self.rates = {}

    def __enter__(self):
        try:
            self.set_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def set_up(self):
        done = subprocess.run(
            [str(ROOT / "deploy" / "hosts"), "up", str(len(self.specs)),
             "--prefix", self.prefix], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        self.hosts = {}
        for i, (line, spec) in enumerate(zip(done.stdout.splitlines(),
                                             self.specs.values())):
            self.hosts[spec.name] = Host(self.prefix, i + 1, line.split()[1],
                                         spec.cpus)
            self.link(spec.name, spec.rate)
        self.group.__enter__()
        for spec in self.specs.values():
            self.load(spec.name, spec.hogs)
        if self.daemons:
            self.cluster = object.__new__(conftest.Cluster)
            self.cluster.__init__(self.build, list(self.specs),
                                  list(self.hosts.values()))

    def __exit__(self, *unused):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # to the end of this
        self.unload()
        if self.cluster:
            self.cluster.close()
        subprocess.run([str(ROOT / "deploy" / "hosts"), "down", "--prefix",
                        self.prefix])
        self.group.__exit__()
        subprocess.run(["rm", "-rf", str(self.directory)])

    def load(self, machine, count):
        """More load programs on a machine; where in it they run is the kernel's
        choice, as it is of what is measured."""
        for _ in range(count):
            self.hogs.append(subprocess.Popen(
                ["taskset", "-c", self.specs[machine].cpus, *HOG],
                stdin=subprocess.DEVNULL))

    def link(self, machine, rate):
        """From now on its link carries so much each way; None: all it can."""
        number = self.hosts[machine].number
        if rate == self.rates.get(machine):
            return
        tc(f"{self.prefix}-{number}", "eth0", rate)
        tc(f"{self.prefix}-net", f"port{number}", rate)
        self.rates[machine] = rate

    def unload(self):
        for hog in self.hogs:
            hog.kill()
            hog.wait()
        self.hogs = []

    # --- programs --------------------------------------------------------

    def rest(self, seconds=10):
        """Until our daemons have done with the run before, or for so long: slaves make
        its graph ahead, on the processors that the next run is measured on."""
        if not self.cluster:
            return
        daemons = [d for d in (self.cluster.master, *(
            m.slave for m in self.cluster.machines)) if d]
        until, used = time.monotonic() + seconds, None
        while time.monotonic() < until:
            before, used = used, sum(cpu_of(d.pid) for d in daemons)
            if before is not None and used - before < 0.02:
                return
            time.sleep(0.1)

    def run(self, program, place, ipsrun, checked=True):
        """Starts all processes by ipsrun(label, first) + argv; (elapsed, pids,
        outputs). `last_cpu` is then what each has used since it was executed, in
        ns: by its resource usage, which has all threads that it ever had and the
        children that it waited for."""
        started = {}

        def before(label):
            return self.directory / f"cpu-{label}"

        def popen(label, argv):
            inner = [*ipsrun(label), *map(str, argv)]
            # no process is made for these: `times` is what becomes the program
            note = f"times >{before(label)}; " + (
                f"echo $EPOCHREALTIME >{self.directory}/stamp; "
                if label == program.main else "")
            started[label] = subprocess.Popen(
                self.hosts[place[label]].command(
                    ["bash", "-c", f'{note}exec "$@"', "-", *inner]),
                env=conftest.clean_env(), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            return started[label]

        def kill():
            for proc in started.values():
                if proc.returncode is None:
                    proc.kill()

        watch = threading.Timer(LIMIT_S, kill)
        try:
            all = distributed.start(program, popen, [
                f"{self.hosts[place[label]].address}:{7000 + i}"
                for i, label in enumerate(program.labels)])
            watch.start()
            used = {label: reap(proc) for label, (proc, _) in all.items()}
            end = time.time()
            outputs = distributed.finish(program, all, checked=checked)
        finally:
            watch.cancel()
            kill()
            for proc in started.values():
                proc.communicate()
        self.last_cpu = {label: round(1e9 * (seconds - cpu_before(before(label))))
                         for label, seconds in used.items()}
        stamp = float((self.directory / "stamp").read_text())
        return (round((end - stamp) * 1e9),
                {label: proc.pid for label, proc in started.items()}, outputs)

    def plain(self, program, place, checked=False):
        self.rest()
        return self.run(program, place, lambda label: [], checked)[0]

    def measure(self, program, place, options=("--procedures=off",),
                wait=True):
        c = self.cluster
        self.number += 1
        name = f"{program.name}-{self.number}"
        first = program.labels[0]

        def ipsrun(label):
            where = next(m for m in c.machines if m.name == place[label])
            return [c.build.bin("ipsrun"), "--pool", where.pool, "--machine",
                    where.name, "--state", where.state, "--master", c.address,
                    "--quiet", "--name" if label == first else "--join", name,
                    *options, "--"]

        self.rest()
        elapsed, pid, outputs = self.run(program, place, ipsrun)
        run = Run(name, program, elapsed, pid, dict(place), outputs)
        if wait:
            self.settle(run)
        return run

    def settle(self, run):
        """Until all of the run is taken in; under load programs that are
        preferred the slaves would not get there."""
        self.cluster.wait_closed(run.name, machines=len(set(run.place.values())))

    # --- questions -------------------------------------------------------

    def ask(self, *words):
        return self.cluster.json(*words, status=(0, 3))

    def calibrate(self, *words):
        """Message times, of all pairs or as `words` say, measured by the slaves:
        the answer. Waits until the machine is idle, unless --force is among them;
        the load average may then still have what we ran before, so that ipsq is
        told not to look at it."""
        if "--force" not in words:
            wait_idle()
            words = (*words, "--force")
        answer = self.cluster.json("calibrate", *words, status=(0, 3))
        if answer["failed"]:
            raise SystemExit("calibrate: " + "; ".join(
                f["failed"] for f in answer["failed"]))
        return answer

    def table(self):
        """Message times as they are now, as text."""
        return self.cluster.ipsq("calibrate", "--export", "-").stdout

    def use_table(self, text):
        file = self.directory / "message-times"
        file.write_text(text)
        done = self.cluster.ipsq("calibrate", "--import", file, "--replace")
        assert done.returncode == 0, done.stderr

    def map_of(self, run, place):
        """--map that moves each process of the run to place[label]; MACHINE in a
        pattern is the one where the label's processes were."""
        return ",".join(
            f"{what}={place[label]}".replace("MACHINE", "/" + run.place[label])
            for label in run.pid
            for what in run.program.patterns(label, run.pid[label]))


def reap(proc):
    """Waits for a child, without polling (Popen.wait with a time limit looks every
    50 ms, and so would be what we measure); seconds of CPU time that it used."""
    _, status, usage = os.wait4(proc.pid, 0)
    proc.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def cpu_of(pid):
    """Seconds of CPU time that a process has had; 0 of one that is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            words = file.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def cpu_before(file):
    """Seconds, as bash's `times` wrote them: its own user and system time."""
    parts = [word.rstrip("s").split("m")
             for word in file.read_text().splitlines()[0].split()]
    return sum(60 * int(minutes) + float(seconds) for minutes, seconds in parts)


def idle_share(seconds=2):
    """Of the processors' time, while we sleep."""
    def idle():
        with open("/proc/stat") as file:
            return sum(map(int, file.readline().split()[4:6]))
    before, begun = idle(), time.monotonic()
    time.sleep(seconds)
    ticks = (time.monotonic() - begun) * os.sysconf("SC_CLK_TCK")
    return (idle() - before) / ticks / os.cpu_count()


def wait_idle(seconds=240):
    """Until nine tenths of the processors' time are idle."""
    until = time.monotonic() + seconds
    while (share := idle_share()) < 0.9:
        if time.monotonic() > until:
            raise SystemExit(f"the machine is not idle ({share:.0%} of its time), and "
                             "message times are measured on an idle one: wait until "
                             "nothing else runs here, or use --force")
        print(f"waiting until the machine is idle: {share:.0%}", file=sys.stderr,
              flush=True)


def machines(specs):
    """--machines of these."""
    return ";".join(f"{s.name}:cores={len(s.cpus.split(','))},load={s.hogs}"
                    for s in specs)


# --- figures ---------------------------------------------------------------

def median(values):
    return statistics.median(values)


def interval(values):
    low, high = measure.interval(values)
    return low, high


def spread(values):
    return (max(values) - min(values)) / median(values)


def spreads(groups):
    """As words: the spread of the groups' medians; what it would be (median and 95%
    of 1000 deals) if the same values were dealt out to the groups at random, so that
    it is chance; and that of all single values."""
    pool = [v for group in groups for v in group]
    dealt = []
    for _ in range(1000):
        random.shuffle(pool)
        rest = iter(pool)
        dealt.append(spread([median([next(rest) for _ in group])
                             for group in groups]))
    dealt.sort()
    return (f"{spread([median(g) for g in groups]):.1%}",
            f"{dealt[500]:.1%}, to {dealt[950]:.1%}", f"{spread(pool):.0%}")


def ratio(above, below, rounds=1000):
    """Words: the medians' ratio less 1, and the bootstrap's 95% of it."""
    told = sorted(median(random.choices(above, k=len(above))) /
                  median(random.choices(below, k=len(below)))
                  for _ in range(rounds))
    return (percent(median(above) / median(below) - 1),
            f"{percent(told[rounds // 40] - 1)} .. "
            f"{percent(told[-1 - rounds // 40] - 1)}")


def percent(x):
    return f"{100 * x:+.1f}%"


def table(head, rows):
    """Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |"
                              for row in rows])


class Results:
    """What an experiment found: JSON in the build directory, tables and where
    it was measured on standard output, and with --docs in docs/papers.md, too,
    between the experiment's marks."""

    def __init__(self, args, name):
        self.args, self.name, self.text = args, name, ""
        self.path = pathlib.Path(args.build) / "paper" / (
            name + ("-short" if args.short else "") + ".json")
        self.path.parent.mkdir(exist_ok=True)
        self.begun, self.stolen = time.monotonic(), stolen()
        self.data = {"experiment": name, "complete": False, "options": {
            k: str(v) for k, v in vars(args).items()},
            "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "cores": os.cpu_count(), "load_before": os.getloadavg()}

    def say(self, text="", docs=True):
        print(text, flush=True)
        if docs:
            self.text += text + "\n"

    def plot(self, *words):
        """As `plot`; shown where it is said."""
        name = plot(self.args, *words)
        if name:
            self.text += f"\n![{words[1]}](figures/{name})\n"

    def save(self, **more):
        self.data.update(more, load_after=os.getloadavg())
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.data, indent=1))
        part.rename(self.path)

    def close(self):
        taken = time.monotonic() - self.begun
        self.save(complete=True, seconds=round(taken))
        before, after = (self.data[k][0] for k in ("load_before", "load_after"))
        self.say(f"\n{self.data['when'][:16].replace('T', ' ')}, {taken:.0f} s; load "
                 f"average {before:.1f} before, {after:.1f} after (with our own load "
                 "programs); the hypervisor withheld "
                 f"{(stolen() - self.stolen) / taken / os.cpu_count():.1%} of the "
                 "processors.")
        print(f"kept in {self.path}", flush=True)
        if self.args.docs:
            into_docs(DOCS, self.name, self.text)


DOCS = ROOT / "docs" / "papers.md"


def stolen():
    """Seconds that the processors together were withheld, since the boot."""
    with open("/proc/stat") as file:
        return int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")


def into_docs(file, name, text):
    """Puts the text between the marks of `name`; the rest stays as it is."""
    begin, end = f"<!-- measured: {name} -->", f"<!-- end: {name} -->"
    before, mark, rest = file.read_text().partition(begin)
    old, other, after = rest.partition(end)
    if not mark or not other:
        raise SystemExit(f"{file} has no lines {begin} and {end}")
    part = file.with_suffix(".part")
    part.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}")
    part.rename(file)


def repetitions(args, share=1.0):
    """0, 1, ... up to --runs; but no more begins when --seconds, the `share` of it
    that this part of the experiment has, are over."""
    begun = time.monotonic()
    for i in range(args.runs):
        taken = time.monotonic() - begun
        if i and args.seconds and taken + taken / i / 2 > args.seconds * share:
            print(f"{i} repetitions of {args.runs}: the time is over",
                  file=sys.stderr, flush=True)
            return
        print(f"repetition {i + 1} of {args.runs} at most, {taken:.0f} s",
              file=sys.stderr, flush=True)
        yield i


def plot(args, name, title, x, y, lines, style="linespoints"):
    """docs/figures/NAME.svg by gnuplot, where --docs: {label: [(x, y)]}, or
    [(x, y, low, high)] for points with their intervals. The file's name."""
    if not args.docs:
        return None
    if not shutil.which("gnuplot"):
        raise SystemExit("no gnuplot here: deploy/deps --bench installs it")
    where = ROOT / "docs" / "figures"
    where.mkdir(exist_ok=True)
    data, curves = "", []
    for label, points in lines.items():
        how = f"using 1:2 with {style}" if len(points[0]) == 2 else \
            "using 1:2:3:4 with yerrorlines"
        curves.append(f"'-' {how} title '{label}'")
        data += "".join(" ".join(map(str, p)) + "\n" for p in points) + "e\n"
    script = (f"set terminal svg size 560,320 font 'sans,10' dynamic\n"
              f"set output '{where / (name + '.svg')}'\nset title '{title}'\n"
              f"set xlabel '{x}'\nset ylabel '{y}'\nset yrange [0:*]\n"
              f"set offsets graph 0.02, graph 0.02\n"
              f"set key outside right\nset grid\nplot {', '.join(curves)}\n")
    subprocess.run(["gnuplot"], input=script + data, text=True, check=True)
    return name + ".svg"


def options(doc, **more):
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--runs", type=int, default=more.pop("runs", 10),
                        help="repetitions, at most (%(default)s)")
    parser.add_argument("--seconds", type=float, default=0, help="begin no more "
                        "repetitions after these; 0: all of them (0)")
    parser.add_argument("--short", action="store_true",
                        help="the form of the tests: small, one run")
    parser.add_argument("--no-prefer", dest="prefer", action="store_false",
                        help="do not prefer the programs to what else runs here")
    parser.add_argument("--docs", action="store_true",
                        help="put tables and figures (gnuplot) in docs/papers.md, "
                        "docs/figures, too")
    parser.add_argument("--force", action="store_true", help="calibrate even "
                        "where the machine is not idle")
    parser.add_argument("--seed", type=int, default=1, help="of all draws (1)")
    for name, how in more.items():
        parser.add_argument("--" + name.replace("_", "-"), **how)
    args = parser.parse_args()
    if args.short:
        args.runs = 1
    random.seed(args.seed)
    # ended from outside, too, the machines are taken away
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit(143))
    return args


def shuffled(items):
    return random.sample(items, len(items))
