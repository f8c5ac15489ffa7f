"""The prompt of ipsq, driven through a pseudo-terminal as a person would, and
`ipsq check` as a script would.

EVIDENCE-OF: IPS-18."""
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest

from conftest import clean_env

pytestmark = pytest.mark.quick

LONGEST_S = 60


class Terminal:
    """`ipsq` on a terminal of its own."""

    def __init__(self, c, **env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(c.build.bin("ipsq"),
                      ["ipsq", "--master", c.address, "--state",
                       str(c.state)],
                      clean_env(**{"TERM": "dumb", "PAGER": "cat", **env}))
        self.seen = ""

    def until(self, pattern):
        """What was printed up to what matches; that is taken."""
        end = time.monotonic() + LONGEST_S
        while not (found := re.search(pattern, self.seen)):
            left = end - time.monotonic()
            ready = left > 0 and select.select([self.fd], [], [], left)[0]
            assert ready, f"no {pattern!r} in {self.seen!r}"
            try:
                self.seen += os.read(self.fd, 65536).decode()
            except OSError:  # the other end is closed
                raise AssertionError(f"ended before {pattern!r}: {self.seen!r}")
        before = self.seen[:found.start()]
        self.seen = self.seen[found.end():]
        return before

    def type(self, text):
        os.write(self.fd, text.encode())

    def ask(self, line, prompt):
        self.type(line + "\n")
        return self.until(prompt)

    def end(self, text):
        """The exit status, once all is printed. What ends the shell is typed
        again while it has not, after what clears the line: the prompt stands
        before the terminal is raw, and what an end of file is until then is a
        character of the line afterwards."""
        deadline = time.monotonic() + LONGEST_S
        self.type(text)
        try:
            while True:
                if select.select([self.fd], [], [], 2)[0]:
                    got = os.read(self.fd, 65536)
                    if not got:
                        break
                    self.seen += got.decode(errors="replace")
                    continue
                if time.monotonic() > deadline:
                    os.kill(self.pid, signal.SIGKILL)
                self.type("\x15" + text)
        except OSError:  # closed
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        assert os.WIFEXITED(status), self.seen
        return os.WEXITSTATUS(status)


@pytest.fixture
def two_runs(cluster):
    c = cluster(["m1"])
    c.ipsrun(["sh", "-c", "echo x | cat"], name="first", check=True)
    c.ipsrun(["true"], name="second", check=True)
    c.wait_closed("first")
    c.wait_closed("second")
    return c


def test_session(two_runs):
    """Would catch: a focus that is shown but not used, a command's failure that
    ends the shell, history and completion that do nothing."""
    t = Terminal(two_runs)
    t.until("ipsq> ")
    assert re.search(r"(?m)^second\s", t.ask("runs", "ipsq> "))
    t.ask("run fir", "ipsq first> ")
    assert "sh -c" in t.ask("ls", "ipsq first> ")
    t.ask("zoom /m1", "ipsq first:/m1> ")
    cat = re.search(r"/m1/(cat\.\d+)\s", t.ask("ls", "ipsq first:/m1> "))[1]
    t.ask(f"zoom {cat}", rf"ipsq first:/m1/{re.escape(cat)}> ")
    only = t.ask("ls", r"ipsq first:\S+> ")
    assert "cat." in only and "/m1/sh." not in only
    assert "cannot be restricted" in t.ask("path", r"ipsq first:\S+> ")
    t.ask("up", "ipsq first:/m1> ")
    assert "no object" in t.ask("zoom nothere", "ipsq first:/m1> ")
    t.ask("zoom 1s..2s", r"ipsq first:/m1@1s..2s> ")
    assert "must end after it begins" in t.ask("zoom 2s..1s", r"ipsq first:/m1@1s..2s> ")
    t.ask("up", "ipsq first:/m1> ")
    assert "no such command" in t.ask("nosuch", "ipsq first:/m1> ")
    assert "zoom nothere" in t.ask("history", "ipsq first:/m1> ")
    assert "zoom OBJECT" in t.ask("help", "ipsq first:/m1> ")
    assert '"run": "second"' in t.ask("ls second --format json",
                                      "ipsq first:/m1> ")
    t.ask("format json", "ipsq first:/m1> ")
    assert '"run": "first"' in t.ask("ls", "ipsq first:/m1> ")
    t.ask("status >", "ipsq first:/m1> ")  # wrong usage, status 2
    assert t.end("quit\n") == 2


def test_completion(two_runs):
    """Would catch: names offered that are none, or not below the focus."""
    t = Terminal(two_runs)
    t.until("ipsq> ")
    t.type("run fir\t\n")
    t.until("ipsq first> ")
    t.type("zoom /m\t")
    t.until("/m1")
    t.type("\n")
    t.until("ipsq first:/m1> ")
    t.type("zoom ca\t")
    t.until(r"cat\.\d+")
    t.type("/\t")
    t.until(r"/\d+")
    t.type("\n")
    t.until(r"ipsq first:/m1/cat\.(\d+)/\1> ")
    t.type("procedures --obj\t")
    t.until("--object ")
    t.type("\x03")  # an interrupt leaves the line, not the shell
    t.until(r"ipsq first:/m1/cat\.(\d+)/\1> ")
    assert t.end("\x04") == 0


def test_pager(two_runs, tmp_path):
    """Would catch an answer that goes past the user's pager, a pager where none is
    wanted or nobody is at the terminal, and a shell that is left with the pager."""
    paged = tmp_path / "paged"
    t = Terminal(two_runs, PAGER=f"tee {paged} | sed 's/^/> /'")
    t.until("ipsq> ")
    t.ask("run first", "ipsq first> ")
    assert re.search(r"(?m)^> .*/m1/cat\.\d+", t.ask("ls", "ipsq first> "))
    assert "/m1/cat." in paged.read_text()
    assert "no such command" in t.ask("nosuch", "ipsq first> ")
    assert t.end("quit\n") == 2
    paged.unlink()
    for env in ({"PAGER": ""}, {"PAGER": "cat"}):
        t = Terminal(two_runs, **env)
        t.until("ipsq> ")
        assert "second" in t.ask("runs", "ipsq> ")
        assert t.end("\x04") == 0
    # Who leaves the pager at the first line has seen enough.
    t = Terminal(two_runs, PAGER="head -1")
    t.until("ipsq> ")
    assert t.ask("runs", "ipsq> ").count("m1") <= 1
    assert "usage" in t.ask("help ls", "ipsq> ").lower()
    assert t.end("\x04") == 0


def test_history_is_kept(two_runs):
    """Would catch: lines of one session not there in the next."""
    t = Terminal(two_runs)
    t.until("ipsq> ")
    t.ask("status", "ipsq> ")
    assert t.end("quit\n") == 0
    t = Terminal(two_runs)
    t.until("ipsq> ")
    t.type("\x10\x10")  # up twice: past "quit"
    t.until("status")
    t.type("\n")
    t.until(r"(?s)\nm1 .*ipsq> ")  # the line was drawn with its prompt before
    assert t.end("\x04") == 0
    file = two_runs.state / "history"
    assert file.stat().st_mode & 0o777 == 0o600


def test_interrupt_ends_the_command_alone(cluster):
    """The master is stopped, so an answer never comes. Would catch: an
    interrupt that ends the shell, or one that ends nothing."""
    c = cluster(["m1"])
    c.ipsrun(["true"], name="r", check=True)
    c.wait_closed("r")
    t = Terminal(c, TERM="xterm")
    t.until("ipsq> ")
    c.master.send_signal(signal.SIGSTOP)
    try:
        t.type("ls\n")
        t.until(r"waiting for the answer")  # it has begun
        t.type("\x03")
        t.until("ipsq> ")
    finally:
        c.master.send_signal(signal.SIGCONT)
    assert "true" in t.ask("ls r", "ipsq> ")
    assert t.end("\x04") == 0


def test_from_a_script(two_runs):
    """Would catch: a prompt or a banner in what a script reads, and a status
    that is not the last command's."""
    done = two_runs.ipsq("shell", typed="run first\nformat json\nls\n")
    assert done.returncode == 0
    assert done.stdout.startswith("{") and '"run": "first"' in done.stdout
    done = two_runs.ipsq("shell", typed="format json\nhelp ls\nversion\n")
    assert done.returncode == 0 and "usage: ipsq ls" in done.stdout
    done = two_runs.ipsq("shell", typed="nosuch\n# nothing\n")
    assert done.returncode == 2 and done.stdout == ""
    done = two_runs.ipsq("shell", typed="nosuch\nrun first\n")
    assert done.returncode == 0
    done = two_runs.ipsq()
    assert done.returncode == 2 and "usage:" in done.stderr


def test_from_a_file(two_runs, tmp_path):
    """Would catch: lines that are read again, because a command's child leaves
    the file where its own copy of what was read ahead ends (it went on for ever),
    and a command that cannot read what follows it."""
    script = tmp_path / "script"
    script.write_text("version\nfocus\n" + f"# {'x' * 5000}\n" +
                      "version\nfocus\n" * 2)
    with script.open() as typed:
        done = subprocess.run(
            [two_runs.build.bin("ipsq"), "--master", two_runs.address, "shell"],
            env=clean_env(), stdin=typed, capture_output=True, text=True,
            timeout=120)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert len(lines) == 6 and lines[:2] * 3 == lines, lines
    table = two_runs.ipsq("calibrate", "--export", "-").stdout
    script.write_text(f"calibrate --import -\n{table}")
    with script.open() as typed:
        done = subprocess.run(
            [two_runs.build.bin("ipsq"), "--master", two_runs.address, "shell"],
            env=clean_env(), stdin=typed, capture_output=True, text=True,
            timeout=120)
    assert "no such command" not in done.stderr, done.stderr


def test_check(two_runs):
    """Would catch: a limit passed that a script does not hear of."""
    c = two_runs
    run = c.json("metrics", "first")["metrics"][0]
    wide = c.json("check", "first", "--max-wall", "1000s", "--max-cpu", "1000s",
                  "--max-path", "1000s", "--max-lost", "0")
    assert wide["within"] == "yes" and wide["complete"]
    what = {row["what"]: row for row in wide["limits"]}
    assert list(what) == ["wall", "cpu", "path", "lost"]
    assert what["wall"]["measured_ns"] == run["elapsed_ns"]
    assert what["cpu"]["measured_ns"] == run["cpu_ns"]
    assert what["path"]["measured_ns"] == c.json("path", "first")["t_max_ns"]
    assert what["lost"]["measured"] == 0
    for limit in ["--max-wall", "--max-cpu", "--max-path"]:
        least = what[limit[6:]]["measured_ns"]
        assert c.json("check", "first", limit, str(least))["within"] == "yes"
        over = c.json("check", "first", limit, str(least - 1),
                      "--max-lost", "0", status=(4,))
        assert over["within"] == "no"
        assert [row["within"] for row in over["limits"]] == ["no", "yes"]
    assert c.ipsq("check", "first").returncode == 2
    assert c.ipsq("check", "first", "--max-lost", "x").returncode == 2
    assert c.ipsq("ls", "first", "--max-lost", "1").returncode == 2
