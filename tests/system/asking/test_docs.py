"""The documents against the tree: what they name is there."""
import re

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


@pytest.mark.quick
def test_a_newcomer_reads_it():
    """Would catch: pages that grow past what somebody reads in the first hour."""
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120
    assert len((ROOT / "CONTRIBUTING.md").read_text().splitlines()) <= 60


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
