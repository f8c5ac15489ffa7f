"""On a terminal ipsrun stays as the command's parent. Each test plays the same script in an
interactive shell on a pseudo-terminal, once with the command bare and once under ipsrun: what the
shell and the command print must be the same, but for ipsrun's own two lines."""
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

from conftest import clean_env

LONGEST_S = 60
PROMPT = "READY> "
RECORDED = "ipsrun --no-daemons -- "

# Says that it is ready, then each signal that reaches it; ends with 7 on "end" or SIGTERM.
TOLD = r"""
import os, signal, sys, time
def on(number, frame):
    os.write(1, f"got {signal.Signals(number).name}\n".encode())  # whole, beside the shell's output
    if number == signal.SIGTERM:
        time.sleep(0.3)  # would a second one come?
        sys.exit(7)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, on)
print("begun", flush=True)
while True:
    time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def pool():
    """One for all: what calls cost is measured once."""
    path = tempfile.mkdtemp(prefix="ips-test-parent-", dir="/dev/shm")
    yield path
    shutil.rmtree(path)


class Shell:
    """bash with job control on a terminal of its own."""

    def __init__(self, tmp_path, build, pool):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            env = clean_env(IPS_POOL_ROOT=pool, IPS_STATE=str(tmp_path / "state"),
                            PATH=os.path.dirname(build.bin("ipsrun")) + ":" + os.environ["PATH"],
                            PS1=PROMPT, TERM="dumb", PAGER="cat", HISTFILE="")
            os.execvpe("bash", ["bash", "--norc", "--noediting", "-i"], env)
        self.all = ""
        self.until(re.escape(PROMPT))
        self.type("stty -echo\n")
        self.until(re.escape(PROMPT))

    def until(self, pattern):
        end = time.monotonic() + LONGEST_S
        while not (found := re.search(pattern, self.all)):
            left = end - time.monotonic()
            ready = left > 0 and select.select([self.fd], [], [], left)[0]
            assert ready, f"no {pattern!r} in {self.all!r}"
            self.all += os.read(self.fd, 65536).decode()
        before = self.all[:found.end()]
        self.all = self.all[found.end():]
        return before

    def type(self, text):
        os.write(self.fd, text.encode())

    def ask(self, line, until=re.escape(PROMPT)):
        self.type(line + "\n")
        return self.until(until)

    def close(self):
        subprocess.run(["pkill", "-KILL", "-s", str(self.pid)], check=False)  # its session
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def plain(text):
    """Without ipsrun's lines, job numbers of processes, and the words that start it."""
    text = re.sub(r"ipsrun: [^\n]*\n", "", text.replace("\r", "").replace(PROMPT, ""))
    text = text.replace(RECORDED, "").replace("^C", "").replace("^Z", "")
    text = re.sub(r"\[(\d+)\] \d+\n", r"[\1] PID\n", text.replace("^\\", ""))
    return re.sub(r"\s+", " ", text.replace(" (core dumped)", "")).strip()


def events(text):
    """Without what the shell says of its jobs, which it may say sooner or later."""
    return re.findall(r"got SIG\w+|status \d+", text)


def both(tmp_path, build, pool, play):
    """What `play`, given a shell and what stands before a command, returns: bare, recorded."""
    said = []
    for number, before in enumerate(("", RECORDED)):
        room = tmp_path / str(number)
        room.mkdir()
        (room / "told.py").write_text(TOLD)
        shell = Shell(room, build, pool)
        try:
            shell.ask(f"cd {room}")
            said.append(play(shell, before))
        finally:
            shell.close()
    return said


def check(tmp_path, build, pool, play):
    bare, recorded = both(tmp_path, build, pool, play)
    assert plain(recorded) == plain(bare)
    assert len(re.findall("ipsrun: run ", recorded)) == 1, recorded
    return recorded


@pytest.mark.parametrize("command, words", [
    ("true", "exit 0"), ("sh -c 'exit 3'", "exit 3"), ("nosuchcommand-", None),
    ("sh -c 'kill -TERM $$'", "ended by SIGTERM"), ("sh -c 'kill -SEGV $$'", "ended by SIGSEGV"),
    ("sh -c 'kill -KILL $$'", "ended by SIGKILL")])
def test_status(tmp_path, build, pool, command, words):
    """Would catch a status or a death that the shell does not learn, or a last line that does not
    say it."""
    if words is None:
        recorded = both(tmp_path, build, pool, lambda s, b: s.ask(f"{b}{command}; echo status $?"))[1]
        assert "status 127" in recorded and ": exit 127, " in recorded
        return
    recorded = check(tmp_path, build, pool, lambda s, b: s.ask(f"{b}{command}; echo status $?"))
    assert re.search(rf"ipsrun: \S+: {words}, [\d.]+ m?s\. Next: ipsq why \S+\r?\n", recorded)


@pytest.mark.parametrize("key, ends", [("\x03", "status 130"), ("\x1c", "status 131")])
def test_keys_end_the_command(tmp_path, build, pool, key, ends):
    """^C and ^\\ end a command that does not handle them."""
    def play(shell, before):
        shell.ask(f"{before}sh -c 'echo begun; exec sleep 60'", "begun\r?\n")
        shell.type(key)
        said = shell.until(re.escape(PROMPT))
        return "ipsrun: run x\n" * bool(before) + said + shell.ask("echo status $?")
    assert ends in check(tmp_path, build, pool, play)


@pytest.mark.parametrize("key, name", [("\x03", "SIGINT"), ("\x1c", "SIGQUIT")])
def test_keys_that_the_command_handles(tmp_path, build, pool, key, name):
    """The command gets ^C once, not twice, and decides itself when to end. Would catch a signal of
    the terminal that is passed on, too; a parent that dies of it."""
    def play(shell, before):
        said = shell.ask(f"{before}python3 told.py", "begun\r?\n")
        for _ in range(3):
            shell.type(key)
            said += shell.until(f"got {name}\r?\n")
        shell.type("\x1a")
        said += shell.until(re.escape(PROMPT))
        said += shell.ask("bg") + shell.ask("kill -TERM %1", "got SIGTERM")
        return said + shell.ask("wait $!; echo status $?", r"status \d+")
    bare, recorded = both(tmp_path, build, pool, play)
    assert events(recorded) == events(bare) == ["got " + name] * 3 + ["got SIGTERM", "status 7"]


def test_stop_and_go_on(tmp_path, build, pool):
    """^Z, bg, fg and kill -CONT as bare. Would catch a parent that goes on waiting while its
    command is stopped: the shell would hang."""
    def play(shell, before):
        said = shell.ask(f"{before}python3 told.py", "begun\r?\n")
        shell.type("\x1a")
        said += shell.until(re.escape(PROMPT)) + shell.ask("jobs") + shell.ask("bg")
        said += shell.ask("kill -USR1 %1", "got SIGUSR1")
        shell.type("fg\n")
        time.sleep(0.2)
        shell.type("\x1a")
        said += shell.until("Stopped[^\n]*\n")
        said += shell.ask("jobs") + shell.ask("kill -CONT $!; sleep 0.3; jobs")
        said += shell.ask("kill -TERM $!; wait $!; echo status $?", r"status \d+")
        return said
    recorded = check(tmp_path, build, pool, play)
    assert "status 7" in recorded


@pytest.mark.parametrize("name", ["TERM", "HUP", "INT", "USR1", "QUIT", "ALRM"])
@pytest.mark.parametrize("handled", [True, False])
def test_kill(tmp_path, build, pool, name, handled):
    """A signal sent to ipsrun alone, from a script that has no job control, reaches the command
    once. Would catch one that ends ipsrun and leaves the command behind, or is lost."""
    if handled and name == "ALRM":
        return  # told.py does not handle it

    def play(shell, before):
        command = "python3 told.py" if handled else "python3 -c " \
            "'import signal, time; signal.signal(signal.SIGINT, signal.SIG_DFL); " \
            "signal.signal(signal.SIGQUIT, signal.SIG_DFL); print(\"begun\", flush=True); " \
            "time.sleep(60)'"
        said = shell.ask(f"{before}{command} &", "begun\r?\n")
        said += shell.ask(f"kill -{name} $!", f"got SIG{name}\r?\n" if handled else "")
        if handled and name != "TERM":
            shell.type("kill -TERM $!\n")
        return said + shell.ask("wait $!; echo status $?", r"status \d+")
    bare, recorded = both(tmp_path, build, pool, play)
    assert events(recorded) == events(bare), recorded


VALUED = """
#include <signal.h>
#include <stdio.h>
int main(void)
{
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    puts("begun");
    fflush(stdout);
    sigwaitinfo(&set, &info);
    printf("value %d\\n", info.si_code == SI_QUEUE ? info.si_value.sival_int : -1);
    return 0;
}
"""


def test_a_signal_with_a_value(tmp_path, build, pool):
    """Would catch a value that is lost where the signal is passed on."""
    subprocess.run(["gcc", "-xc", "-", "-o", tmp_path / "valued"], input=VALUED, text=True,
                   check=True)
    shell = Shell(tmp_path, build, pool)
    try:
        shell.ask(f"{RECORDED}{tmp_path}/valued &", "begun\r?\n")
        shell.ask("/bin/kill -q 42 -USR1 $!", "value 42")
    finally:
        shell.close()


def test_kill_9(tmp_path, build, pool):
    """SIGKILL cannot be passed on, yet the command does not outlive it."""
    shell = Shell(tmp_path, build, pool)
    try:
        said = shell.ask(f"{RECORDED}sh -c 'echo begun $$; exec sleep 600' &", r"begun \d+\r?\n")
        command = int(said.split()[-1])
        shell.ask("kill -9 $!; wait $!; echo status $?", "status 137")
        end = time.monotonic() + LONGEST_S
        while os.path.exists(f"/proc/{command}"):
            assert time.monotonic() < end, "the command lives"
            time.sleep(0.02)
    finally:
        shell.close()


def test_ends_of_pipes(tmp_path, build, pool):
    """The parent holds no end of the command's pipes. Would catch a reader that waits for an end
    of file although the command has closed its standard output."""
    def play(shell, before):
        program = "exec >&-; sleep 0.2; until [ -e seen ]; do sleep 0.05; done; echo late >&2"
        return shell.ask(f"{before}sh -c '{program}' | {{ cat; touch seen; }}; echo both ended")
    check(tmp_path, build, pool, play)


def test_lost_terminal(tmp_path, build, pool):
    """A terminal that goes away ends the command as bare."""
    shell = Shell(tmp_path, build, pool)
    said = shell.ask(f"{RECORDED}sh -c 'echo begun $$; exec sleep 600'", r"begun \d+\r?\n")
    command = int(said.split()[-1])
    os.close(shell.fd)
    os.waitpid(shell.pid, 0)
    end = time.monotonic() + LONGEST_S
    while os.path.exists(f"/proc/{command}"):
        assert time.monotonic() < end, "the command lives"
        time.sleep(0.02)


@pytest.mark.parametrize("option", ["--quiet", "-q", "--exec"])
def test_becomes_the_command(tmp_path, build, pool, option):
    """With --quiet, -q or --exec there is no parent and no last line."""
    shell = Shell(tmp_path, build, pool)
    try:
        said = shell.ask(f"ipsrun --no-daemons {option} sh -c 'echo parent $PPID'; echo shell $$")
        assert re.search(r"parent (\d+)", said)[1] == re.search(r"shell (\d+)", said)[1]
        assert "Next:" not in said
    finally:
        shell.close()


def test_what_the_last_line_says(tmp_path, build, pool):
    """Processes, what was not recorded and why, and the next command as it must be typed."""
    tmp = str(tmp_path)
    shell = Shell(tmp_path, build, pool)
    try:
        static = tmp_path / "still"
        subprocess.run(["gcc", "-static", "-o", static, "-xc", "-"], check=True, text=True,
                       input="int main(void) { return 0; }")
        said = shell.ask(f"ipsrun --name r1 --state {tmp}/state sh -c '{static}; seq 9 | tail -1'")
        line = re.search(r"ipsrun: r1: (exit 0, [^\n]*)", said)[1].rstrip("\r")
        assert re.fullmatch(
            r"exit 0, [\d.]+ m?s, 3 processes, recording overhead [\d.]+% CPU; 1 process not recorded "
            rf"\(still: linked statically\); INCOMPLETE\. Next: ipsq why r1 --state {tmp}/state",
            line), line
        shell.ask("export IPS_STATE=$PWD; cd /")
        assert "ipsq: " not in shell.ask(line.split("Next: ")[1] + " | tail -1")
    finally:
        shell.close()
