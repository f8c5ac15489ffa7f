"""The documents against the tree: what they name is there."""
import itertools
import re
import subprocess

import pytest

from conftest import ROOT

DIRS = "|".join(["agent", "analysis", "client", "common", "deploy", "docs",
                 "master", "proto", "slave", "tests"])
NAMED = re.compile(rf"`((?:{DIRS})/[\w./-]+)`")


@pytest.mark.quick
@pytest.mark.parametrize("name", ["README.md", "NEWS.md", "docs/paper-map.md", "docs/HACKING.md",
                                  "CONTRIBUTING.md", "docs/tutorial.md", "docs/concepts.md",
                                  "docs/troubleshooting.md", "docs/limits.md"])
def test_named_files_are_there(name):
    text = (ROOT / name).read_text()
    missing = [path for path in NAMED.findall(text)
               if not (ROOT / path).exists()]
    assert missing == []


# Files of these kinds are named by their path from the top; `*`, `[ch]` as in a shell.
PATH = re.compile(r"[\w./*\[\]-]+\.(?:c|h|\[ch\]|S|def|py|md|proto|map|ld|txt|ini|1)")
PAGES = [ROOT / "docs" / "HACKING.md", *sorted((ROOT / "docs" / "design").glob("*.md"))]


def named_paths(text):
    """Each word in backticks that is a path, outside of blocks of code."""
    text = re.sub(r"(?m)^    (?! ).*$", "", text)
    words = itertools.chain(*(quoted.split() for quoted in re.findall(r"`([^`]+)`", text)))
    return [word for word in words if PATH.fullmatch(word) and not word.startswith("-")]


def is_there(path):
    """Not in the folders that a build makes."""
    return any(p.is_file() for p in ROOT.glob(path))


@pytest.mark.quick
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_of_the_source_are_there(page):
    """Would catch: a file that was moved, renamed or deleted, and is still described."""
    paths = named_paths(page.read_text())
    assert paths
    assert [path for path in paths if not is_there(path)] == []


@pytest.mark.quick
def test_paths_are_recognised():
    """Would catch: a pattern of test_paths_of_the_source_are_there that passes over names."""
    text = "`docs/HACKING.md` and `no/such.[ch]`, `python3 no/such.py X`, `b_store_remote_data()`, `x.so`"
    assert named_paths(text) == ["docs/HACKING.md", "no/such.[ch]", "no/such.py"]
    assert is_there("proto/frame.[ch]") and not is_there("no/such.[ch]")


READMES = [ROOT / "README.md", *(p for top in DIRS.split("|") for p in (ROOT / top).rglob("README.md"))]
SOURCES = ("c", "h", "def", "S", "py", "proto", "txt")
# What only looks like a function: libraries and programs that CMake names.
FUNCTION = re.compile(r"`([a-z]\w*)\(\)`|`([a-z][a-z0-9]*(?:_[a-z0-9]+){2,})`")
IN_FILE = re.compile(r"`([\w./]+\.[ch])`,\s+`(\w+)\(\)`((?:\s+(?:and|or)\s+`\w+\(\)`)*)")


@pytest.mark.quick
def test_functions_that_are_named_are_there():
    """Would catch: a function that was renamed, and that a README, HACKING or docs/design
    still names by its old name."""
    words = set()
    for top in DIRS.split("|"):
        for end in SOURCES:
            for path in (ROOT / top).rglob("*." + end):
                words |= set(re.findall(r"\w+", path.read_text(errors="replace")))
    gone = [f"{page.relative_to(ROOT)}: {name}" for page in PAGES + READMES
            for found in FUNCTION.findall(page.read_text())
            for name in found if name and name not in words]
    assert gone == []


@pytest.mark.quick
def test_functions_are_in_the_file_that_is_named():
    """Would catch: a function that was moved, and that a README still finds in its old file."""
    wrong, count = [], 0
    for page in PAGES + READMES:
        for file, first, more in IN_FILE.findall(page.read_text()):
            there = [p for p in (page.parent / file, ROOT / file) if p.is_file()]
            source = there[0].read_text() if there else ""
            for name in [first, *re.findall(r"\w{4,}", more)]:
                count += 1
                if not re.search(rf"\b{name}\b", source):
                    wrong.append(f"{page.relative_to(ROOT)}: {file}, {name}()")
    assert wrong == [] and count > 50


@pytest.mark.quick
def test_sections_that_are_referred_to_are_there():
    """Would catch: a comment that refers to a page or section of docs/design that is gone."""
    done = subprocess.run(["grep", "-rIhzoE", r'design/[a-z-]+\.md\)?,[[:space:]*]+"[^"]+"', "agent",
                           "analysis", "client", "common", "docs", "master", "proto", "slave",
                           "tests/unit", "tests/oracle"],
                          cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = re.findall(r'design/([a-z-]+\.md)\)?,[\s*]+"([^"]+)"', done.stdout)
    assert len(found) > 3
    for name, section in found:
        heading = "## " + re.sub(r"[\s*]+", " ", section)
        lines = (ROOT / "docs" / "design" / name).read_text().splitlines()
        assert heading in lines, f"{name}: {heading}"


@pytest.mark.quick
def test_a_newcomer_reads_it():
    """Would catch: pages that grow past what a newcomer reads in the first hour."""
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120
    assert len((ROOT / "CONTRIBUTING.md").read_text().splitlines()) <= 60
    assert len((ROOT / "docs" / "HACKING.md").read_text().splitlines()) <= 300


@pytest.mark.quick
def test_every_claim_with_evidence_is_in_the_map():
    """EVIDENCE-OF of a paper's claim, and the map names that very file."""
    table = (ROOT / "docs" / "paper-map.md").read_text()
    rows = {row.split("|")[1].strip(): row
            for row in table.splitlines() if row.startswith("| ")}
    for path in (ROOT / "tests").rglob("test_*.*"):
        if path.suffix not in (".py", ".c") or path.name == "test_docs.py":
            continue
        # the sentence that begins with the mark, over its line ends
        for words in re.findall(r"EVIDENCE-OF:((?:[\s*,]*(?:IPS|DPM)-\d+)+)",
                                path.read_text()):
            for claim in re.findall(r"(?:IPS|DPM)-\d+", words):
                assert str(path.relative_to(ROOT)) in rows.get(claim, ""), \
                    f"{claim}: {path.name}"
