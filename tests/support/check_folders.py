"""The order of folders, for tests/lint: which folder may include which, how large folders
and files may be, and that each folder has a short README.md. The table is in CMakeLists.txt
(IPS_FOLDERS_*, IPS_BELOW_*).

Prints a line for each fault; exit status 1 if there is one.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_FILES, MOST_LINES, MOST_README_LINES = 45, 700, 40
CODE = {".c", ".h", ".S", ".def", ".py", ".sh", ".cmake", "", ".proto"}
DATA = ("tests/frozen/", "tests/fuzz/corpus/", "docs/")


def files():
    """Paths of the checkout, or of a tree that is none."""
    try:
        out = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        return [f for f in out.splitlines() if (ROOT / f).exists()]
    except (OSError, subprocess.CalledProcessError):
        return [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file() and
                p.relative_to(ROOT).parts[0] not in ("build", ".git")]


def table():
    """{room: [its folders, lowest first]}, {room: [rooms that it may include]}"""
    text = (ROOT / "CMakeLists.txt").read_text()
    sets = {name: words.split() for name, words in
            re.findall(r"^set\(IPS_(FOLDERS_\w+|BELOW_\w+)\s*([^)]*)\)", text, re.M)}
    folders = {name[8:]: words for name, words in sets.items() if name[:8] == "FOLDERS_"}
    below = {name[6:]: words for name, words in sets.items() if name[:6] == "BELOW_"}
    return folders, below


def includes(path):
    text = (ROOT / path).read_text(errors="replace")
    return re.findall(r'^\s*#\s*include\s+"([a-z_]+/[^"]+)"', text, re.M)


def may_include(path, header, folders, below):
    """Both are paths from the top; a folder that is not in the table may nothing."""
    room, _, inside = path.rpartition("/")[0].partition("/")
    other, _, theirs = header.rpartition("/")[0].partition("/")
    if other != room:
        return other in below[room]
    order = folders.get(room, [])
    # The room's own files, main.c and the like, are above its folders.
    place = {folder: i for i, folder in enumerate([*order, ""])}
    if inside not in place:
        return False
    return theirs in place and place[theirs] <= place[inside]


def wrong_includes(paths):
    folders, below = table()
    for path in paths:
        if path.split("/")[0] not in below or not path.endswith((".c", ".h", ".S", ".def")):
            continue
        for header in includes(path):
            if header.endswith(".pb-c.h"):
                continue
            if not may_include(path, header, folders, below):
                yield f"{path}: includes {header} of a folder above its own"


def large(paths):
    count = {}
    for path in paths:
        folder = path.rpartition("/")[0]
        count[folder] = count.get(folder, 0) + 1
        if pathlib.PurePath(path).suffix in CODE and not path.startswith(DATA):
            lines = (ROOT / path).read_bytes().count(b"\n")
            if lines > MOST_LINES:
                yield f"{path}: {lines} lines, more than {MOST_LINES}"
    for folder, n in sorted(count.items()):
        if n > MOST_FILES and not (folder + "/").startswith(DATA):
            yield f"{folder}: {n} files, more than {MOST_FILES}"


def readmes():
    """Every room and every folder of the table opens with a README.md that is short."""
    folders, below = table()
    for room in sorted({*folders, *below}):
        for folder in [room, *(f"{room}/{inside}" for inside in folders.get(room, []))]:
            readme = ROOT / folder / "README.md"
            lines = readme.read_bytes().count(b"\n") if readme.is_file() else 0
            if lines == 0:
                yield f"{folder}: no README.md"
            elif lines > MOST_README_LINES:
                yield f"{folder}/README.md: {lines} lines, more than {MOST_README_LINES}"


def main():
    paths = files()
    faults = [*wrong_includes(paths), *large(paths), *readmes()]
    print("\n".join(faults))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
