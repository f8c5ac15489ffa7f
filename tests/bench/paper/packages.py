"""Unmodified programs of Debian packages, as `distributed` has ours: they know nothing of
IPS or of these experiments."""
import bz2
import random
import shlex
import shutil

import lab
from lab import distributed


def need(*commands):
    """SystemExit where one of them is not installed."""
    missing = [c for c in commands if not shutil.which(c)]
    if missing:
        raise SystemExit(f"{', '.join(missing)}: not installed; "
                         "`deploy/deps --bench` installs it, or leave its "
                         "program out (--only)")


def text_of(count):
    """So many bytes of words, always the same."""
    draw = random.Random(count)
    words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(2, 9)))
             for _ in range(3000)]
    return " ".join(draw.choices(words, k=count // 5))[:count]


class Redis(distributed.Program):
    """A server, and its own load generator."""
    name = "redis"
    defaults = {"requests": 20000, "clients": 4}

    def prepare(self):
        need("redis-server", "redis-benchmark", "redis-cli")
        self.labels = ["server", "bench"]

    def argv(self, label, at):
        host, port = at["server"].split(":")
        if label == "server":
            return ["redis-server", "--bind", host, "--port", port, "--save", "",
                    "--appendonly", "no", "--protected-mode", "no", "--dir",
                    str(self.directory)]
        to = f"-h {host} -p {port}"
        return ["sh", "-c", f"redis-benchmark {to} -q -c {self.clients} -n "
                f"{self.requests} -t set,lpush && redis-cli {to} shutdown nosave"]

    def up(self, label, address):
        return "Ready to accept" if label == "server" else None

    def patterns(self, label, pid):
        return [pid] if label == "server" else \
            [pid, "redis-benchmark*", "redis-cli*"]

    def check(self, outputs):
        assert outputs["bench"].count("requests per second") == 2


class Make(distributed.Program):
    """Compilations of different lengths, then all is linked."""
    name = "make"
    defaults = {"files": 8, "functions": 60, "jobs": 2}

    def prepare(self):
        need("make", "gcc")
        self.labels = ["make"]
        self.where = self.directory / "make"
        if self.where.exists():
            return
        self.where.mkdir()
        objects = [f"f{i}.o" for i in range(self.files)]
        for i in range(self.files):
            (self.where / f"f{i}.c").write_text("".join(
                f"int f{i}_{k}(int *a, int n) {{ int s = {k}; for (int i = 0; "
                "i < n; i++) { if (a[i] > s) s += a[i] * 3; else s ^= a[i] << "
                "2; } return s; }\n"
                for k in range(self.functions * (1 + i % 3))) + (
                    "int main(void) { return 0; }\n" if i == 0 else ""))
        (self.where / "Makefile").write_text(
            f"program: {' '.join(objects)}\n\tgcc -o $@ $^\n"
            "%.o: %.c\n\tgcc -O2 -c -o $@ $<\n")

    def argv(self, label, at):
        where = shlex.quote(str(self.where))
        return ["sh", "-c", f"make -s -C {where} -B -j{self.jobs}"]

    def patterns(self, label, pid):
        return ["*"]

    def check(self, outputs):
        assert (self.where / "program").exists()


class Xz(distributed.Program):
    """Threads of one process compress blocks of a text."""
    name = "xz"
    defaults = {"bytes": 6000000, "threads": 2, "level": 1}

    def prepare(self):
        need("xz")
        self.labels = ["xz"]
        self.text = self.directory / f"text-{self.bytes}"
        if not self.text.exists():
            self.text.write_text(text_of(self.bytes))

    def argv(self, label, at):
        text = shlex.quote(str(self.text))
        return ["sh", "-c", f"xz -{self.level} -k -f -T{self.threads} "
                f"--block-size=524288 -c {text} >{text}.xz"]

    def patterns(self, label, pid):
        return ["*"]

    def check(self, outputs):
        lab.subprocess.run(["xz", "-t", f"{self.text}.xz"], check=True)


class Pipes(distributed.Program):
    """A pipeline of the shell's, each of its stages a command of its own: no
    queue, who does what is fixed."""
    name = "pipes"
    defaults = {"bytes": 6000000}

    def prepare(self):
        need("bzip2", "gzip", "tr", "sha256sum")
        self.labels = ["pipes"]
        self.packed = self.directory / f"packed-{self.bytes}.bz2"
        if not self.packed.exists():
            self.packed.write_bytes(bz2.compress(
                text_of(self.bytes).encode(), 1))

    def argv(self, label, at):
        return ["sh", "-c", f"bzip2 -dc {shlex.quote(str(self.packed))} | "
                "tr a-y b-z | gzip -2 | sha256sum"]

    def patterns(self, label, pid):
        return ["*"]

    def check(self, outputs):
        alone = lab.subprocess.run(self.argv("pipes", {}), check=True,
                                   capture_output=True, text=True)
        assert outputs["pipes"] == alone.stdout


class Rsync(distributed.Program):
    """A daemon, and a client that fetches files of it, compressed: three processes
    that stream to each other, each with work of its own."""
    name = "rsync"
    defaults = {"files": 4, "bytes": 2000000}

    def prepare(self):
        need("rsync")
        self.labels = ["server", "client"]
        self.here = self.directory / "rsync"
        self.tree = self.here / f"{self.files}-{self.bytes}"
        if self.tree.exists():
            return
        self.tree.mkdir(parents=True)
        for i in range(self.files):
            (self.tree / f"f{i}").write_text(text_of(self.bytes + i))
        (self.here / "conf").write_text(
            f"pid file = {self.here}/pid\nuse chroot = no\nreverse lookup = no\n"
            f"uid = 0\ngid = 0\n[files]\npath = {self.tree}\n")

    def argv(self, label, at):
        host, port = at["server"].split(":")
        here = shlex.quote(str(self.here))
        if label == "server":
            # ended by a signal, as the client sees to: its status says nothing
            return ["sh", "-c", "rsync --daemon --no-detach "
                    f"--config={here}/conf --address={host} --port={port} "
                    "--log-file=/dev/stdout; :"]
        return ["sh", "-c", f"rm -rf {here}/got; rsync -r -z --zc=zlib --zl=3 "
                f"rsync://{host}:{port}/files/ {here}/got && "
                f"kill $(cat {here}/pid)"]

    def up(self, label, address):
        return "listening on port" if label == "server" else None

    def patterns(self, label, pid):
        return [pid, "MACHINE/rsync*"] + (["MACHINE/sh*"] if label == "client"
                                          else [])

    def check(self, outputs):
        lab.subprocess.run(["diff", "-r", str(self.tree),
                            str(self.here / "got")], check=True)


PROGRAMS = {kind.name: kind for kind in (Redis, Make, Xz, Pipes, Rsync)}
