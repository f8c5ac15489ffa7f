"""The man pages against --help: every option of one is in the other."""
import re
import subprocess

import pytest

from conftest import ROOT, clean_env

PROGRAMS = ["ipsrun", "ips-slave", "ips-master", "ipsq"]
COMMON = {"--master", "--tls", "--insecure", "--state", "--format", "--json",
          "--tsv", "--verbose", "--wide"}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


def options_of_help(build, program):
    done = subprocess.run([build.bin(program), "--help"], capture_output=True,
                          text=True, env=clean_env(), check=True)
    own = [ipsq_help(build, name, "--help") for name in commands_of(build)] \
        if program == "ipsq" else []
    return set(OPTION.findall("\n".join([done.stdout, *own])))


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


def ipsq_help(build, *words):
    return subprocess.run([build.bin("ipsq"), *words], capture_output=True,
                          text=True, env=clean_env(), check=True).stdout


def commands_of(build):
    text = ipsq_help(build, "--help")
    return re.findall(r"(?m)^  ([a-z]+)  ", text[:text.index("\noptions of all")])


@pytest.mark.quick
def test_commands_of_ipsq(build):
    """Would catch a command that ipsq has and its page has not, or the other way
    round."""
    page = man_text("ipsq").split(".SH COMMANDS")[1].split(".SH ")[0]
    written = re.findall(r"(?m)^\.TP\n\.BR? \"?([a-z]+)", page)
    assert sorted(written) == sorted(commands_of(build))


@pytest.mark.quick
def test_who_takes_an_option(build):
    """Where the page says of which commands an option is, these are the ones that
    take it, by their help. Would catch an option that is given to a command and
    not to its page."""
    takes, commands = {}, set(commands_of(build))
    for command in commands:
        text = ipsq_help(build, "help", command)
        for option in re.findall(r"(?m)^  (--[a-z-]+)", text):
            takes.setdefault(option, set()).add(command)
    page = man_text("ipsq").split(".SH OPTIONS")[1].split(".SH ")[0]
    told = {}
    for entry in page.split(".TP\n")[1:]:
        head = re.match(r"(?:\.(?:TQ|BI? .*)\n)*", entry)[0]
        options = re.findall(r"--[a-z-]+", head)
        text = entry.replace("\n", " ")
        # "For A, B and C." or "For A, as the next three."
        found = re.findall(r"For ((?:\.BR? \S+ (?:[,.:;] ?)?(?:and )?)+)", text)
        named = {w for part in found for w in re.findall(r"\.BR? (\w+)", part)}
        for option in options:
            told[option] = told.get(option, set()) | named & commands
    common = COMMON | {"--help", "--version"}
    assert set(told) - common == set(takes) - common
    wrong = {option: (sorted(takes[option]), sorted(named))
             for option, named in told.items()
             if option not in common and named and named != takes[option]}
    assert wrong == {}


@pytest.mark.quick
def test_help_fits_a_terminal(build):
    """No line of any --help is wider than 80 columns. Would catch: a usage or a
    summary that is."""
    asked = [[p] for p in PROGRAMS] + [["ipsq", c] for c in commands_of(build)]
    assert len(asked) > 20
    wide = []
    for words in asked:
        done = subprocess.run([build.bin(words[0]), *words[1:], "--help"],
                              capture_output=True, text=True, env=clean_env(),
                              check=True)
        wide += [(words, line) for line in done.stdout.splitlines()
                 if len(line) > 80]
    assert wide == []


@pytest.mark.quick
def test_help_is_short(build):
    """At most 40 lines for all of ipsq, and two examples for each command that name
    it. Would catch: a list that nobody reads, a command without an example, an
    example that the command refuses."""
    assert len(ipsq_help(build, "--help").splitlines()) <= 40
    for name in commands_of(build):
        text = ipsq_help(build, name, "--help")
        examples = re.search(r"\nexamples:\n((?:  ipsq .*\n){2})\n", text)
        assert examples, name
        assert all(f"ipsq {name}" in line or name == "version"
                   for line in examples[1].splitlines()), name
        takes = re.findall(r"(?m)^  (--[a-z-]+)", text.split("\noptions:\n")[-1])
        assert set(OPTION.findall(examples[1])) <= {*takes, *COMMON, "--version"}, name


@pytest.mark.quick
def test_help_explains_terms(build):
    """Each of at most 60 terms of the glossary, whole. Would catch: a paragraph that the
    build loses or cuts, and a misspelt term without a suggestion."""
    text = (ROOT / "docs" / "glossary.md").read_text()
    terms = re.findall(r"(?m)^\*\*(.+?)\*\* - ((?:.+\n)+)", text)
    assert 30 < len(terms) <= 60
    for term, means in terms:
        assert ipsq_help(build, "help", term).split() == means.split(), term
    done = subprocess.run([build.bin("ipsq"), "help", "critical", "pth"],
                          capture_output=True, text=True, env=clean_env())
    assert done.returncode == 2 and "did you mean 'critical path'?" in done.stderr
