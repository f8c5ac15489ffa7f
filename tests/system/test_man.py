"""The man pages against --help: every option of one is in the other."""
import re
import subprocess

import pytest

from conftest import ROOT, clean_env

PROGRAMS = ["ipsrun", "ips-slave", "ips-master", "ipsq"]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


def options_of_help(build, program):
    done = subprocess.run([build.bin(program), "--help"], capture_output=True,
                          text=True, env=clean_env(), check=True)
    return set(OPTION.findall(done.stdout))


def man_text(program):
    """The page as text; in the source a hyphen may be escaped, and every line
    of another program's options would be quoted as PROG --option."""
    source = (ROOT / "docs" / f"{program}.1").read_text()
    return source.replace("\\-", "-").replace("\\fB", "").replace(
        "\\fI", "").replace("\\fR", "").replace("\\fP", "")


@pytest.mark.quick
@pytest.mark.parametrize("program", PROGRAMS)
def test_options(build, program):
    helped = options_of_help(build, program)
    text = man_text(program)
    written = set(OPTION.findall(text))
    assert len(helped) >= 2
    assert helped - written == set(), "in --help, not in the man page"
    assert written - helped == set(), "in the man page, not in --help"


@pytest.mark.quick
@pytest.mark.parametrize("program", PROGRAMS)
def test_page_is_a_page(program):
    text = man_text(program)
    for section in ("NAME", "SYNOPSIS", "OPTIONS", "EXIT STATUS"):
        assert re.search(rf"^\.SH \"?{section}", text, re.M), section


@pytest.mark.quick
def test_commands_of_ipsq(build):
    """Every command that ipsq has is in its page."""
    done = subprocess.run([build.bin("ipsq"), "--help"], capture_output=True,
                          text=True, env=clean_env(), check=True)
    text = man_text("ipsq")
    for command in ("status", "runs", "why", "ls", "metrics", "path", "whatif",
                    "predict", "waits",
                    "requests", "bottleneck", "procedures", "phases", "diff", "sql",
                    "events", "graph", "check", "shell"):
        assert re.search(rf"^\s+{command}\b", done.stdout, re.M), command
        assert re.search(rf"\b{command}\b", text), command
