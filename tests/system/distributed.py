"""The distributed programs of tests/programs (net, farm, stages, files, tsp), each as
its processes: what they are called, how they are started, what they must print.

    p = PROGRAMS["julia"](directory, workers=2)     # its sizes are arguments
    p.labels            # its processes in the order of their start; the last
                        # ends when all is done ("main")
    p.argv("worker-1", at)   # its command line; at[label] is its address
    p.check({label: what it printed})               # AssertionError if wrong

    run_here(p, where)  # all of them on loopback, not measured: their output

They know nothing of IPS; who starts them on which machine and measures them is the
caller's business. `bin` is where the programs are."""
import pathlib
import random
import re
import subprocess

from tsp import free_ports


class Program:
    name = ""

    def __init__(self, bin, directory, **sizes):
        self.bin, self.directory = pathlib.Path(bin), pathlib.Path(directory)
        self.sizes = dict(self.defaults, **sizes)
        self.labels = []
        for key, value in self.sizes.items():
            setattr(self, key, value)
        self.prepare()

    def prepare(self):
        """Sets self.labels; makes files."""

    def program(self, name, *words):
        return [str(self.bin / name), *map(str, words)]

    def printed(self, *argv):
        return subprocess.run(self.program(*argv), check=True, text=True,
                              stdout=subprocess.PIPE).stdout

    def up(self, label, address):
        """What it prints when it can be called, or None: then the next process
        does not wait for it."""
        listens = "--listen" in self.argv(label, dict.fromkeys(self.labels, ""))
        return f"listening {address}" if listens else None

    def patterns(self, label, pid):
        """Its processes, as `ipsq predict --map` names them."""
        return [pid]

    @property
    def main(self):
        return self.labels[-1]


class Farm(Program):
    """A master and workers; subclasses say what of."""

    def prepare(self):
        self.labels = [f"worker-{i}" for i in range(self.workers)] + ["master"]

    def options(self):
        return []

    def argv(self, label, at):
        if label != "master":
            return self.program(f"{self.name}-worker", "--listen", at[label])
        return self.program(f"{self.name}-master", "--workers", ",".join(
            at[w] for w in self.labels[:-1]), *self.options())

    def check(self, outputs):
        assert outputs["master"] == self.printed(
            f"{self.name}-master", *self.options())


class Julia(Farm):
    name = "julia"
    defaults = {"workers": 2, "side": 120, "lines": 8, "limit": 200}

    def options(self):
        return ["--side", self.side, "--lines", self.lines, "--limit",
                self.limit]


class Jobs(Farm):
    name = "jobs"
    defaults = {"workers": 2, "jobs": 40, "work": 300, "window": 1}

    def options(self):
        return ["--jobs", self.jobs, "--work", self.work, "--window",
                self.window]


class Search(Farm):
    name = "search"
    defaults = {"workers": 2, "bytes": 300000, "chunk": 16384, "rounds": 2}
    pattern = "abba"

    def prepare(self):
        super().prepare()
        draw = random.Random(self.bytes)
        self.text = "".join(draw.choice("abc") for _ in range(self.bytes))
        self.file = self.directory / "text"
        self.file.write_text(self.text)

    def options(self):
        return ["--file", self.file, "--pattern", self.pattern, "--chunk",
                self.chunk, "--rounds", self.rounds]

    def check(self, outputs):
        at = [m.start() for m in
              re.finditer(f"(?={self.pattern})", self.text)]
        assert outputs["master"] == f"places {len(at)} sum {sum(at)}\n"


class Pipeline(Program):
    name = "pipeline"
    defaults = {"works": (100, 300, 150), "items": 50, "bytes": 1000}

    def prepare(self):
        # A stage calls the next, so the last comes up first; it ends last,
        # too, but it is the source's start that begins the work.
        self.labels = [f"stage-{i}" for i in
                       reversed(range(len(self.works)))] + ["source"]

    def argv(self, label, at):
        if label == "source":
            return self.program("pipeline-source", "--next", at["stage-0"],
                                "--items", self.items, "--bytes", self.bytes)
        i = int(label.split("-")[1])
        following = ["--next", at[f"stage-{i + 1}"]] \
            if i + 1 < len(self.works) else []
        return self.program("pipeline-stage", "--listen", at[label], *following,
                            "--work", self.works[i])

    def check(self, outputs):
        assert outputs[f"stage-{len(self.works) - 1}"].splitlines()[-1:] == \
            self.printed("pipeline-source", "--known", "--works", ",".join(
                map(str, self.works)), "--items", self.items).splitlines()


class Exchange(Program):
    name = "exchange"
    defaults = {"peers": 4, "rounds": 10, "bytes": 1000, "work": 500}

    def up(self, label, address):
        return f"listening {address}"

    def prepare(self):
        # the higher ranks call the lower ones
        self.labels = [f"rank-{i}" for i in range(self.peers)]

    def options(self):
        return ["--rounds", self.rounds, "--bytes", self.bytes, "--work",
                self.work]

    def argv(self, label, at):
        return self.program("exchange", "--rank", label.split("-")[1], "--peers",
                            ",".join(at[x] for x in self.labels),
                            *self.options())

    def check(self, outputs):
        assert outputs["rank-0"].splitlines()[1:] == self.printed(
            "exchange", "--known", self.peers, *self.options()).splitlines()


class Matrix(Program):
    name = "matrix"
    defaults = {"mesh": 2, "side": 120}

    def prepare(self):
        # below and left before above and right
        q = range(self.mesh)
        self.labels = [f"node-{i}-{j}" for i in reversed(q) for j in q] + \
            ["master"]

    def argv(self, label, at):
        size = ["--mesh", self.mesh, "--side", self.side]
        q = range(self.mesh)
        if label == "master":
            return self.program(
                "matrix-master", *size,
                "--top", ",".join(at[f"node-0-{j}"] for j in q),
                "--edge", ",".join(at[f"node-{i}-0"] for i in q))
        i, j = map(int, label.split("-")[1:])
        down = ["--down", at[f"node-{i + 1}-{j}"]] if i + 1 < self.mesh else []
        left = ["--left", at[f"node-{i}-{j - 1}"]] if j else []
        return self.program("matrix-node", *size, "--listen", at[label], "--row",
                            i, "--column", j, *down, *left)

    def check(self, outputs):
        last = outputs["master"].splitlines()[-1]
        assert last.endswith(" right")
        assert last + "\n" == self.printed("matrix-master", "--alone", "--side",
                                           self.side)


class Files(Program):
    """`clients`: a letter for each: s sequential, r random accesses."""
    name = "files"
    defaults = {"clients": "sr", "blocks": 20, "rounds": 2, "work": 200,
                "buffers": 33, "works": (20, 30, 40, 80)}

    def prepare(self):
        self.labels = ["disk", "buffer", "directory", "requests"] + [
            f"client-{i}" for i in range(len(self.clients))]

    def of_client(self, i):
        return ["--number", i, "--blocks", self.blocks, "--rounds", self.rounds,
                "--work", self.work] + \
            (["--random"] if self.clients[i] == "r" else [])

    def argv(self, label, at):
        requests, directory, buffer, disk = self.works
        if label.startswith("client"):
            i = int(label.split("-")[1])
            return self.program("files-client", *self.of_client(i), "--service",
                                at["requests"])
        words = {"disk": ["--work", disk],
                 "buffer": ["--disk", at["disk"], "--work", buffer, "--buffers",
                            self.buffers],
                 "directory": ["--work", directory],
                 "requests": ["--directory", at["directory"], "--buffer",
                              at["buffer"], "--work", requests, "--clients",
                              len(self.clients)]}[label]
        return self.program(f"files-{label}", "--listen", at[label], *words)

    def check(self, outputs):
        total = 0
        for i in range(len(self.clients)):
            total += int(self.printed("files-client", "--known", *map(
                str, self.of_client(i))).split()[1], 16)
            assert outputs[f"client-{i}"] == f"client {i}: all as written\n"
        assert outputs["disk"].splitlines()[1:] == \
            [f"disk sum {total % 2**64:016x}"]


class Tsp(Program):
    name = "tsp"
    defaults = {"servers": 2, "version": "plain", "cities": 10, "low": 6,
                "seed": 3}

    def prepare(self):
        self.labels = [f"server-{i}" for i in range(self.servers)] + \
            ["controller"]

    def argv(self, label, at):
        if label != "controller":
            return self.program("tsp-server", "--listen", at[label])
        return self.program(
            "tsp-controller", "--version", self.version, "--cities",
            self.cities, "--low", self.low, "--seed", self.seed, "--servers",
            ",".join(at[x] for x in self.labels[:-1]))

    def check(self, outputs):
        assert outputs["controller"] == self.printed(
            "tsp-exact", "--cities", self.cities, "--seed", self.seed)


class Locks(Program):
    """Threads of one process."""
    name = "locks"
    defaults = {"threads": 4, "turns": 50, "own": 100, "inside": 50,
                "locks": 2, "barrier": 25}

    def prepare(self):
        self.labels = ["locks"]

    def argv(self, label, at):
        return self.program("locks", *(word for key in self.defaults for word in
                                       (f"--{key}", self.sizes[key])))

    def check(self, outputs):
        assert outputs["locks"] == self.printed(
            *map(str, ["locks", *self.argv("locks", {})[1:], "--alone"]))


PROGRAMS = {kind.name: kind for kind in (
    Julia, Jobs, Search, Pipeline, Exchange, Matrix, Files, Tsp, Locks)}


def start(program, popen, addresses):
    """Starts each process by popen(label, argv) -> Popen with text pipes, in an
    order in which nobody calls one that is not up; returns {label: (Popen,
    what it has printed)}."""
    at = dict(zip(program.labels, addresses))
    started = {}
    for label in program.labels:
        proc = popen(label, program.argv(label, at))
        said, up = "", program.up(label, at[label])
        while up and up not in said:
            line = proc.stdout.readline()
            assert line, (label, said)
            said += line
        started[label] = (proc, said)
    return started


def finish(program, started, timeout=270, checked=True):
    """Waits for all; their output, checked."""
    outputs = {}
    for label in reversed(program.labels):
        proc, said = started[label]
        out, err = proc.communicate(timeout=timeout)
        assert proc.returncode == 0, (label, proc.returncode, out, err)
        outputs[label] = said + out
    if checked:
        program.check(outputs)
    return outputs


def run_here(program, timeout=270):
    started = {}

    def popen(label, argv):
        started[label] = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        return started[label]
    try:
        return finish(program, start(program, popen, [
            f"127.0.0.1:{port}" for port in free_ports(len(program.labels))]),
            timeout)
    finally:
        for proc in started.values():
            if proc.poll() is None:
                proc.kill()
                proc.communicate()
