"""Unmodified programs of Debian packages, as `distributed` has ours: they know nothing of
IPS or of these experiments."""
import random
import shlex

import lab
from lab import distributed


class Redis(distributed.Program):
    """A server, and its own load generator."""
    name = "redis"
    defaults = {"requests": 20000, "clients": 4}

    def prepare(self):
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
        self.labels = ["xz"]
        self.text = self.directory / f"text-{self.bytes}"
        if not self.text.exists():
            draw = random.Random(self.bytes)
            words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(2, 9)))
                     for _ in range(3000)]
            text = " ".join(draw.choices(words, k=self.bytes // 5))
            self.text.write_text(text[:self.bytes])

    def argv(self, label, at):
        text = shlex.quote(str(self.text))
        return ["sh", "-c", f"xz -{self.level} -k -f -T{self.threads} "
                f"--block-size=524288 -c {text} >{text}.xz"]

    def patterns(self, label, pid):
        return ["*"]

    def check(self, outputs):
        lab.subprocess.run(["xz", "-t", f"{self.text}.xz"], check=True)


PROGRAMS = {kind.name: kind for kind in (Redis, Make, Xz)}
