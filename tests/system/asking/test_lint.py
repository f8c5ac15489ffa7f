"""The order of the house: each rule of tests/support/check_folders.py notices a breach.

Would catch: a check that finds nothing whatever it is given.
"""
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT

pytestmark = pytest.mark.quick

TABLE = """\
set(IPS_FOLDERS_slave base drain)
set(IPS_BELOW_common)
set(IPS_BELOW_slave common)
set(IPS_BELOW_master common)
"""
SOUND = {"CMakeLists.txt": TABLE, "common/err.h": "", "slave/base/map.h": "",
         "slave/drain/drain.c": '#include "common/err.h"\n#include "slave/base/map.h"\n',
         "slave/main.c": '#include "slave/base/map.h"\n', "master/query.h": "",
         **{f"{folder}/README.md": "# It\n" for folder in
            ("common", "slave", "slave/base", "slave/drain", "master")}}


def faults(top, files):
    """What the check says of a tree of these files."""
    shutil.rmtree(top, ignore_errors=True)
    for name, text in files.items():
        if text is None:  # not there
            continue
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    check = top / "tests" / "support" / "check_folders.py"
    check.parent.mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "support" / "check_folders.py", check)
    done = subprocess.run([sys.executable, check], stdout=subprocess.PIPE, text=True)
    assert done.returncode == (1 if done.stdout.strip() else 0)
    return done.stdout.split("\n")[:-1] if done.stdout.strip() else []


@pytest.mark.parametrize("file, text, says", [
    ("slave/base/map.c", '#include "slave/drain/drain.h"\n', "slave/base/map.c: includes"),
    ("slave/drain/x.c", '#include "master/query.h"\n', "slave/drain/x.c: includes"),
    ("common/x.c", '# include "slave/base/map.h"\n', "common/x.c: includes"),
    ("slave/drain/x.c", '#include "slave/nowhere/x.h"\n', "slave/drain/x.c: includes"),
    ("slave/nowhere/x.c", '#include "common/err.h"\n#include "slave/base/map.h"\n',
     "slave/nowhere/x.c: includes"),
    ("common/long.c", "\n" * 701, "common/long.c: 701 lines"),
    ("master/README.md", None, "master: no README.md"),
    ("slave/drain/README.md", None, "slave/drain: no README.md"),
    ("slave/base/README.md", "x\n" * 41, "slave/base/README.md: 41 lines"),
])
def test_breaches_are_noticed(tmp_path, file, text, says):
    assert faults(tmp_path / "tree", SOUND) == []
    found = faults(tmp_path / "tree", {**SOUND, file: text})
    assert len(found) == 1 and found[0].startswith(says)


def test_a_large_folder_is_noticed(tmp_path):
    many = {f"slave/base/f{i}.h": "" for i in range(44)}
    assert faults(tmp_path / "tree", {**SOUND, **many})[0].startswith("slave/base: 46 files")
