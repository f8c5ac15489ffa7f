"""What a user gets who misspells something, or has nothing to ask about: an error
that names what is wrong, and the name that was meant."""
import os
import signal
import subprocess

import pytest

from conftest import clean_env

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def run(shared):
    shared.ipsrun(["sh", "-c", "seq 100 | sort | tail -1"], name="pipeline",
                  check=True)
    shared.wait_closed("pipeline")
    return shared


def objects(c):
    return [row["object"] for row in c.json("ls", "pipeline")["threads"]]


@pytest.mark.parametrize("words", [
    ("events",), ("ls",), ("metrics",), ("procedures",), ("waits",)])
def test_an_object_that_is_not_there(run, words):
    """Would catch an empty answer for one that is complete."""
    sort = next(o for o in objects(run) if "/sort." in o)
    process = sort.rsplit("/", 1)[0]
    for wrong in ("/m2", "/m1/nosuch", "/m1/sort", f"{process}/0",
                  f"{process}/nosuch"):
        if words == ("waits",) and wrong == "/m1/sort":
            continue  # takes programs
        done = run.ipsq(*words, "pipeline", "--object", wrong)
        assert done.returncode == 1 and not done.stdout, (wrong, done.stdout)
        assert wrong in done.stderr, done.stderr
    for right in ("/", "/m1", "/m*/sort.*", process, sort, f"{process}/sort"):
        if words[0] in ("events", "waits"):
            done = run.ipsq(*words, "pipeline", "--object", right)
            assert done.returncode == 0, (right, done.stderr)


def test_a_waiting_procedure_that_is_not_there(run):
    """Would catch an empty table for a procedure in which nobody waited."""
    done = run.ipsq("waits", "pipeline", "--object", "/*/*/*/nosuch")
    assert done.returncode == 1 and not done.stdout
    assert "nosuch" in done.stderr


@pytest.mark.parametrize("words,meant", [
    (("metrcis",), "metrics"),
    (("help", "evnts"), "events"),
    (("ls", "--objcet", "/"), "--object"),
    (("ls", "--objcet=/"), "--object"),
    (("ls", "pipelien"), "pipeline"),
    (("diff", "pipelien", "pipeline"), "pipeline"),
    (("ls", "pipeline", "--object", "/n1"), "/m1"),
    (("events", "pipeline", "--object", "/m1/sotr"), None),
    (("why", "pipeline", "--goal", "OBJECT"), "OBJECT"),
    (("events", "pipeline", "--object", "OBJECT"), "OBJECT"),
    (("metrics", "pipeline", "--object", "OBJECT"), "OBJECT"),
    (("procedures", "pipeline", "--object", "OBJECT"), "OBJECT"),
    (("waits", "pipeline", "--object", "OBJECT"), "OBJECT"),
    (("whatif", "pipeline", "--process", "srot"), "sort"),
    (("whatif", "pipeline", "--process", "OBJECT"), "OBJECT"),
    (("whatif", "pipeline", "--process", "nothing-like-it"), None),
    (("predict", "pipeline", "--map", "srot=m1"), "sort"),
    (("predict", "pipeline", "--map", "OBJECT=m1"), "OBJECT"),
    (("predict", "pipeline", "--map", "sort=n1"), "m1"),
    (("predict", "pipeline", "--move", "srot@1ms=m1"), "sort"),
    (("predict", "pipeline", "--move", "sort@1ms=n1"), "m1"),
    (("ls", "--format", "jsn"), "json"),
    (("metrics", "--level", "proces"), "process"),
    (("path", "--weighting", "wal"), "wall"),
    (("path", "--engine", "cm-snyc"), "cm-sync"),
    (("path", "--external", "repyl"), "reply"),
    (("path", "--by", "machine,proces"), "process"),
    (("waits", "--by", "caues"), "cause"),
    (("why", "--for", "latecny"), "latency"),
    (("completion", "bahs"), "bash"),
    (("waits", "--by", "connection"), None),
    (("nothing-like-it",), None),
    (("ls", "nothing-like-it"), None),
])
def test_the_name_that_was_meant(run, words, meant):
    """Would catch a misspelt name without the right one, and a suggestion for what
    is like nothing."""
    sort = next(o for o in objects(run) if "/sort." in o).rsplit("/", 1)[0]
    wrong = sort.replace("/sort.", "/srot.")
    done = run.ipsq(*(w.replace("OBJECT", wrong) for w in words))
    assert done.returncode in (1, 2) and not done.stdout
    if meant:
        meant = sort if meant == "OBJECT" else meant
        assert f"; did you mean '{meant}'?" in done.stderr, done.stderr
    else:
        assert "did you mean" not in done.stderr, done.stderr


def test_words_of_the_prompt(run):
    """Would catch a misspelt word of the prompt's own without the right one."""
    done = run.ipsq("shell", typed="zomo /m1\n")
    assert "did you mean 'zoom'?" in done.stderr and done.returncode == 2
    done = run.ipsq("shell", typed="format jsn\n")
    assert "did you mean 'json'?" in done.stderr and done.returncode == 2


def test_short_forms_of_formats(run):
    """Would catch: --json or --tsv that prints another format, or does not win over
    a --format before it."""
    for name in ("json", "tsv"):
        long = run.ipsq("runs", "--format", name)
        short = run.ipsq("runs", "--format", "table", f"--{name}")
        assert long.returncode == short.returncode == 0
        assert long.stdout == short.stdout and long.stdout
    done = run.ipsq("help", "--json")
    assert done.returncode == 2 and "help has no output format json" in done.stderr


def test_the_option_of_ipsrun_that_was_meant(build):
    """As above."""
    for words, says in ((("--jion", "r"), "did you mean '--join'?"),
                        (("--quota",), "--quota needs a value"),
                        (("-x",), "no such option: -x")):
        done = subprocess.run([build.bin("ipsrun"), *words], text=True,
                              env=clean_env(), capture_output=True, timeout=60)
        assert done.returncode == 2 and says in done.stderr, done.stderr


COMMANDS = [("ls",), ("metrics",), ("path",), ("why",), ("whatif",),
            ("waits",), ("events",), ("phases",), ("graph",),
            ("estimate",), ("sql", "SELECT 1"), ("check", "--max-lost", "0"),
            ("requests",), ("procedures",),
            ("predict", "--machines", "a:cores=2", "--map", "*=a")]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda w: w[0])
def test_the_newest_run_is_named(run, words):
    """Would catch an answer about a run that nobody named and that is named
    nowhere; and a line about it where the user did name it."""
    done = run.ipsq(*words)
    assert "ipsq: run pipeline, the newest\n" in done.stderr
    named = run.ipsq(words[0], "pipeline", *words[1:])
    assert "newest" not in named.stderr
    assert named.returncode == done.returncode


PRINTS = [w for w in COMMANDS if w[0] not in ("procedures", "requests")] + [
    ("runs",), ("status",), ("help",), ("help", "why"), ("version",),
    ("ls", "pipeline", "--format", "json")]


@pytest.mark.parametrize("words", PRINTS, ids=" ".join)
@pytest.mark.parametrize("ignored", [False, True])
def test_into_a_closed_pipe(run, words, ignored):
    """Ended by SIGPIPE, also where it was ignored by who started ipsq. Would catch
    "Broken pipe" on the terminal of who types `ipsq why | head`, and a command
    that takes no notice."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [run.build.bin("ipsq"), "--master", run.address, *words],
            stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE,
            text=True, env=clean_env(), restore_signals=not ignored,
            timeout=120)
    finally:
        os.close(writer)
    assert done.returncode == -signal.SIGPIPE, done.stderr
    assert "pipe" not in done.stderr.replace("pipeline", ""), done.stderr
