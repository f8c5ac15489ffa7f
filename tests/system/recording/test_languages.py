"""Programs in other languages run unharmed: Python, Node, Java, Perl, bash,
PHP. The small programs of tests/programs/languages ask three worker processes
and two threads for squares.

Would catch: a runtime that fails, prints or returns something else under the
agent; processes or threads not seen; messages lost or left without a sender.
"""
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from conftest import ROOT, clean_env
from oracle import check_weightings

SOURCES = ROOT / "tests" / "programs" / "languages"
# of a language: command, processes at least, threads at least, of both
LANGUAGES = {
    "python": (["/usr/bin/python3", "fan.py"], 4, 5),
    "node": (["node", "fan.js"], 4, 6),
    "java": (["java", "-cp", "{classes}", "Fan"], 4, 6),
    "perl": (["perl", "fan.pl"], 4, 6),
    "bash": (["bash", "fan.sh"], 8, 8),
    "php": (["php", "fan.php"], 5, 5),
}


@pytest.fixture(scope="module")
def classes():
    """The directory of the compiled Java program."""
    where = pathlib.Path(tempfile.mkdtemp(prefix="ips-java-"))
    subprocess.run(["ecj", "-proc:none", "-source", "11", "-target", "11", "-d", where,
                    SOURCES / "Fan.java"], check=True, capture_output=True)
    yield where
    shutil.rmtree(where)


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_runs_unharmed(shared, request, language):
    command, processes, threads = LANGUAGES[language]
    if language == "java":
        classes = request.getfixturevalue("classes")
        command = [a.format(classes=classes) for a in command]
    bare = subprocess.run(command, cwd=SOURCES, env=clean_env(),
                          stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=180)
    assert bare.returncode == 7 and "processes 70210\n" in bare.stdout, bare
    c = shared
    done = c.ipsrun(command, name=language, cwd=SOURCES)
    assert (done.returncode, done.stdout, done.stderr) == \
        (bare.returncode, bare.stdout, bare.stderr)
    c.wait_closed(language)
    answer = c.json("path", language)
    cert = answer["certificate"]
    assert cert["complete"] and not cert["lost"], cert
    assert cert["unmatched"] == 0 and cert["pending"] == 0, cert
    assert cert["untraced_processes"] == 0, cert
    rows = c.json("ls", language)["processes"]
    assert len(rows) >= processes, rows
    assert sum(r["parent_pid"] is None for r in rows) == 1, rows
    nodes = c.graph(language)
    assert len({(n["pid"], n["tid"]) for n in nodes}) >= threads, rows
    check_weightings(nodes, lambda *options: c.json("path", language, *options))
    off = c.json("path", language, "--external", "off")
    assert 0 < off["t_max_ns"] <= off["elapsed_ns"]
