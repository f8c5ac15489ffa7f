"""The order of the house and its names: each rule of tests/support/check_folders.py and
check_names.py notices a breach.

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


def faults(top, files, check_name="check_folders.py"):
    """What the check says of a tree of these files."""
    shutil.rmtree(top, ignore_errors=True)
    for name, text in files.items():
        if text is None:  # not there
            continue
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    check = top / "tests" / "support" / check_name
    check.parent.mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "support" / check_name, check)
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


# Private words where they are no names, and the other senses that the table allows.
PROSE = """\
/* take() of a lane; struct thing { int told; }; */
#define WEIGH(crew) "static int take(void)\\n{"
static const char *const keys[] = {"lane", "told", "struct thing {"};
struct row {
    const char *taker; /* told; a lane */
    int (*take_block)(int lane, int thing), stopped : 1, rest;
    struct { int count; } *parts_of[3];
};
int count_rows(int lane, int told)
{
    int crew = lane ? told : 0;
    return crew; // thing
}
"""
NAMED = {"slave/drain/row.c": PROSE, "slave/base/work.c": "struct work {\n    bool stop;\n};\n",
         "client/main.c": "int main(void)\n{\n}\n", "tests/unit/take.c": "int take;\n",
         "agent/preload/start/find.c": "IPS_EXPORT int close(int fd)\n{\n}\n"}


@pytest.mark.parametrize("file, text, says", [
    ("slave/drain/take.c", "", ":1: file take: 'take'"),
    ("slave/drain/lane_sums.h", "", ":1: file lane_sums: 'lane'"),
    ("master/README/told.md", "", ":1: file told: 'told'"),
    ("common/find.c", "", ":1: file find: 'find'"),
    ("slave/drain/x.c", "\nint slave_take(void)\n{\n}\n", ":2: function slave_take: 'take'"),
    ("slave/drain/x.c", "static int\nmake_lane(int a)\n{\n}\n", ":2: function make_lane: 'lane'"),
    ("slave/drain/x.c", "static void put(int a,\n                int b)\n{\n}\n",
     ":1: function put: one word"),
    ("slave/drain/x.h", "static inline int count(void)\n{\n}\n", ":1: function count: one word"),
    ("slave/drain/x.c", "static __attribute__((noinline)) int (*add(int a))(void)\n{\n}\n",
     ":1: function add: one word"),
    ("slave/drain/x.c", "struct ips_thing {\n    int a;\n};\n", ":1: type ips_thing: 'thing'"),
    ("slave/drain/x.c", "enum lane_id { A, B };\n", ":1: type lane_id: 'lane'"),
    ("slave/drain/x.c", "typedef int ips_place;\n", ":1: type ips_place: 'place'"),
    ("slave/drain/x.c", "typedef int (*take)(void);\n", ":1: type take: 'take'"),
    ("slave/drain/x.h", "struct row {\n    int a;\n    int b, told;\n};\n",
     ":3: member told: 'told'"),
    ("slave/drain/x.h", "struct row {\n    const int *part[2];\n};\n", ":2: member part: 'part'"),
    ("slave/drain/x.h", "struct row {\n    unsigned any : 1;\n};\n", ":2: member any: 'any'"),
    ("slave/drain/x.h", "struct row {\n    int (*take)(int a, int b);\n};\n",
     ":2: member take: 'take'"),
    ("slave/drain/x.h", "struct row {\n    struct {\n        int stands;\n    } a;\n};\n",
     ":3: member stands: 'stands'"),
    ("slave/drain/x.h", "struct row {\n    bool stop;\n};\n", ":2: member stop: 'stop'"),
])
def test_private_words_are_refused_as_names(tmp_path, file, text, says):
    assert faults(tmp_path / "tree", NAMED, "check_names.py") == []
    found = faults(tmp_path / "tree", {**NAMED, file: text}, "check_names.py")
    assert len(found) == 1 and found[0].startswith(file + says)
