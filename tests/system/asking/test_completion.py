"""Completion in bash, zsh and fish: the scripts of `ipsq completion`, fed with the words
before the cursor as each shell does it, without a terminal."""
import os
import re
import shutil
import socket
import subprocess

import pytest

from conftest import ROOT, clean_env, processes_of

SHELLS = ["bash", "zsh", "fish"]

BASH = """
source <(ipsq completion bash)
COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_ipsq
[[ ${{#COMPREPLY[@]}} -eq 0 ]] || printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """
compdef() {{ }}
_describe() {{ print -rl -- "${{(@P)@[-1]}}" | sed 's/\\([^\\\\]\\):.*/\\1/; s/\\\\:/:/g' }}
_files() {{ print -r -- FILES }}
_normal() {{ print -r -- "COMMAND $words[*]" }}
compset() {{ }}
source <(ipsq completion zsh)
words=({words}) CURRENT=$#words
_ipsq
"""
FISH = """
ipsq completion fish | source
complete -C {line}
"""


def quoted(word):
    return "'" + word.replace("'", "'\\''") + "'"


@pytest.fixture(params=SHELLS)
def shell(request):
    if not shutil.which(request.param):
        pytest.skip(f"{request.param} is not installed")
    return request.param


class Completer:
    def __init__(self, build, shell, **env):
        self.shell, self.env = shell, clean_env(
            PATH=f"{build.top}/bin:{os.environ['PATH']}", **env)

    def script(self, line):
        # bash makes words of their own of = and :.
        split = r"[=:]|[^\s=:]+" if self.shell == "bash" else r"\S+"
        words = re.findall(split, line)
        if line.endswith(" "):
            words.append("")
        words = " ".join(map(quoted, words))
        return {"bash": BASH, "zsh": ZSH, "fish": FISH}[self.shell].format(
            words=words, line=quoted(line))

    def __call__(self, line):
        command = {"bash": ["bash", "--norc", "-c"], "zsh": ["zsh", "-f", "-c"],
                   "fish": ["fish", "--no-config", "-c"]}[self.shell]
        done = subprocess.run([*command, self.script(line)], text=True,
                              capture_output=True, env=self.env)
        assert done.stderr == ""
        return [word.split("\t")[0] for word in done.stdout.splitlines()]

    def values(self, line):
        """Candidates for a value; bash has what follows the = alone."""
        kept = "" if self.shell == "bash" else line.split()[-1].split("=")[0] + "="
        return [word.removeprefix(kept) for word in self(line)]


@pytest.mark.quick
def test_tables(build, shell, tmp_path):
    """Would catch: a command, an option or a value that help lists and completion does
    not offer, or that completion offers to a command that refuses it."""
    complete = Completer(build, shell, IPS_STATE=tmp_path)
    help_text = subprocess.run([build.bin("ipsq"), "--help"], text=True,
                               capture_output=True, check=True).stdout
    commands = re.findall(r"(?m)^  ([a-z]+)  ",
                          help_text[:help_text.index("options of all")])
    assert sorted(complete("ipsq ")) == sorted(commands) and len(commands) > 20
    assert sorted(complete("ipsq pre")) == ["predict"]
    own = subprocess.run([build.bin("ipsq"), "waits", "--help"], text=True,
                         capture_output=True, check=True).stdout
    options = set(re.findall(r"(?m)^  (--[a-z-]+)", own))
    common = {"--master", "--tls", "--insecure", "--state", "--format", "--json",
              "--tsv", "--verbose", "--wide", "--help"}
    assert set(complete("ipsq waits --")) == options | common
    assert set(complete("ipsq --")) == common
    assert sorted(complete("ipsq waits --format ")) == ["json", "table", "tsv"]
    assert sorted(complete("ipsq events --format j")) == ["json", "jsonl"]
    assert complete.values("ipsq path --weighting=sc") == ["sched"]
    assert sorted(complete("ipsq waits --by p")) == ["peer", "place", "process"]
    assert complete("ipsq path --by machine,thr") == ["machine,thread"]
    assert complete("ipsq waits --sort lo") == ["longest_ns"]
    assert complete.values("ipsq waits --sort=lo") == ["longest_ns"]
    assert complete("ipsq waits --sort -m") == ["-mean_ns"]
    assert complete("ipsq path --sort ") == []
    assert complete("ipsq completion f") == ["fish"]
    assert complete("ipsq waits --nosuch=") == []
    assert complete("ipsq nosuch ") == []


@pytest.mark.quick
def test_ipsrun(build, shell, tmp_path):
    """Would catch: an option of ipsrun that is not offered, and options of ipsrun
    offered to the command that it runs."""
    complete = Completer(build, shell, IPS_STATE=tmp_path)
    text = subprocess.run([build.bin("ipsrun"), "--help"], text=True,
                          capture_output=True, check=True).stdout
    options = set(re.findall(r"(?m)^  (--[a-z-]+)", text))
    assert set(complete("ipsrun --")) == options and "--join" in options
    assert complete("ipsrun --name x --quie") == ["--quiet"]
    assert "--quiet" not in complete("ipsrun cat --quie")
    (tmp_path / "a-directory").mkdir()
    files = ["FILES"] if shell == "zsh" else [f"{tmp_path}/a-directory"]
    for line in (f"ipsrun --pool {tmp_path}/a-d", f"ipsq --state {tmp_path}/a-d",
                 f"ipsq predict --map {tmp_path}/a-d"):
        assert [f.rstrip("/") for f in complete(line)] == files
    for line in (f"ipsrun --pool={tmp_path}/a-d", f"ipsq --state={tmp_path}/a-d"):
        assert [f.rstrip("/") for f in complete.values(line)] == files
    if shell != "zsh":
        assert [f.rstrip("/") for f in complete(
            f"ipsrun --quiet -- ls -l {tmp_path}/a-d")] == files
    for before in ("--name x", "--", "--cpu=exact --"):
        found = complete(f"ipsrun {before} base6")
        assert found == (["COMMAND base6"] if shell == "zsh" else ["base64"])


@pytest.mark.quick
def test_ipsrun_values(build, shell, tmp_path):
    """Would catch: a value that ipsrun takes and completion does not offer, or that it
    offers and ipsrun refuses; values after the = alone, or after a blank alone."""
    complete = Completer(build, shell, IPS_STATE=tmp_path)
    text = subprocess.run([build.bin("ipsrun"), "--help"], text=True,
                          capture_output=True, check=True).stdout
    options = re.findall(r"(?m)^  (--[a-z-]+)=[A-Z]+", text)
    assert len(options) >= 5
    for option in options:
        refusal = subprocess.run([build.bin("ipsrun"), f"{option}=?", "true"],
                                 text=True, capture_output=True).stderr
        values = re.search(rf"{option}=\?: (.*)", refusal)[1]
        values = sorted(re.split(", | or ", values))
        assert sorted(complete(f"ipsrun {option} ")) == values
        assert sorted(complete.values(f"ipsrun {option}=")) == values
    assert complete.values("ipsrun --quiet --procedures=e") == ["exact"]
    assert complete("ipsrun --cpu c") == ["clock"]
    assert complete("ipsrun --rate ") == complete("ipsrun --rate=1") == []
    assert complete("ipsrun --quiet=") == complete("ipsrun --nosuch=") == []


def test_names(cluster, shell, build):
    """Would catch: runs and objects that the master knows and completion does not offer,
    objects of another run, and a master named on the line that is not the one asked."""
    c = cluster(["m1"])
    for name, program in (("first", "cat"), ("second", "sleep")):
        c.ipsrun([program, "0"] if program == "sleep" else [program, "/dev/null"],
                 name=name, check=True)
        c.wait_closed(name)
    complete = Completer(build, shell)
    ask = f"ipsq --master {c.address}"
    assert sorted(complete(f"{ask} path ")) == ["first", "second"]
    assert complete(f"{ask} path fi") == ["first"]
    assert complete(f"{ask} diff first,se") == ["first,second"]
    assert complete(f"{ask} diff first sec") == ["second"]
    assert complete(f"{ask} path first sec") == []
    assert complete(f"{ask} calibrate m") == ["m1"]
    assert complete(f"ipsrun --master {c.address} --join fi") == ["first"]
    assert complete.values(f"ipsrun --master {c.address} --join=se") == ["second"]
    objects = complete(f"{ask} ls first --object /m1/")
    assert any(re.fullmatch(r"/m1/cat\.\d+", o) for o in objects)
    assert not any("sleep" in o for o in objects)
    assert any("sleep" in o for o in complete(f"{ask} ls --object /m1/"))
    assert complete.values(f"{ask} ls first --object=/m1/c") == \
        [o for o in objects if o.startswith("/m1/c")]


SORTS = ["ls", "metrics", "metrics --level procedure", "metrics --level thread --json",
         "procedures", "procedures --by process", "procedures --format=tsv",
         "procedures --by=machine --json", "waits", "waits --by peer"]


def test_sort(cluster, shell, build):
    """Would catch: a column that --sort accepts and completion does not offer, or the
    reverse: of another level, of another --by, or of tables alone."""
    c = cluster(["m1"])
    c.ipsrun(["awk", "BEGIN { while (n < 2000000) n++ }"], name="one",
             options=["--rate", "1"], check=True)
    c.wait_closed("one")
    complete = Completer(build, shell)
    ask = f"ipsq --master {c.address}"
    for line in SORTS:
        refusal = c.ipsq(*line.split(), "--sort", "?")
        assert refusal.returncode == 2
        accepted = re.search(r"--sort '\?' is not one of (.*)", refusal.stderr)[1]
        accepted = sorted(accepted.split(", "))
        assert sorted(complete(f"{ask} {line} one --sort ")) == accepted, line
        assert sorted(complete(f"{ask} {line} one --sort -c")) == \
            [f"-{name}" for name in accepted if name.startswith("c")], line
    with_sort = {line.split()[0] for line in SORTS} | {"sql"}
    for command in complete("ipsq "):
        if "--sort" in complete(f"ipsq {command} --sor"):
            with_sort.remove(command)
    assert with_sort == set()
    assert complete(f"{ask} sql one --sort m") == ["machine"]
    assert c.ipsq("sql", "one", "select 1", "--sort", "machine").returncode == 0


@pytest.mark.quick
def test_nothing_starts(build, tmp_path):
    """Would catch: completion that starts daemons, prints errors, or waits for a master
    that does not answer."""
    def ask(*words):
        return subprocess.run([build.bin("ipsq"), "complete", "ipsq", *words],
                              capture_output=True, text=True,
                              env=clean_env(IPS_STATE=tmp_path / "state"))
    silent = (0, "", "")
    done = ask("path", "")
    assert (done.returncode, done.stdout, done.stderr) == silent
    assert not (tmp_path / "state").exists() and not processes_of(tmp_path)
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(tmp_path / "mute"))
        mute.listen()
        done = ask("--master", f"unix:{tmp_path}/mute", "path", "")
        assert (done.returncode, done.stdout, done.stderr) == silent
    done = ask("--master", "nonsense", "path", "")
    assert (done.returncode, done.stdout, done.stderr) == silent


@pytest.mark.quick
def test_scripts(build):
    """Would catch: a script that the build changes while it makes a C string of it."""
    for shell, name in (("bash", "ipsq.bash"), ("zsh", "_ipsq"), ("fish", "ipsq.fish")):
        done = subprocess.run([build.bin("ipsq"), "completion", shell],
                              capture_output=True, text=True)
        assert done.stdout == (ROOT / "client/completion" / name).read_text()
    done = subprocess.run([build.bin("ipsq"), "completion", "bsh"],
                          capture_output=True, text=True)
    assert done.returncode == 2 and "did you mean 'bash'?" in done.stderr
