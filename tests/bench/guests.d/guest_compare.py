"""Results of test suites, and what differs between bare and recorded runs."""
import os
import re

WORDS = {"OK": "PASS", "ok": "PASS", "not ok": "FAIL", "FAILED": "FAIL",
         "SKIPPED": "SKIP", "DISABLED": "SKIP", "err": "FAIL",
         "exception": "FAIL", "timeout": "FAIL", "skip": "SKIP",
         "ignore": "SKIP"}


def numbered(pairs):
    """{name: result}; a name that comes again gets a number."""
    found = {}
    for name, word in pairs:
        key, count = name, 1
        while key in found:
            count += 1
            key = f"{name} #{count}"
        found[key] = WORDS.get(word, word)
    return found


def automake(top, _output):
    found = []
    for folder, _, files in sorted(os.walk(top)):
        for name in sorted(files):
            if not name.endswith(".trs"):
                continue
            path = os.path.join(folder, name)
            with open(path, errors="replace") as f:
                words = re.findall(r"^:test-result: *(\S+)(.*)", f.read(), re.M)
            test = os.path.relpath(path, top)[:-4]
            found += [(test + more.rstrip(), word) for word, more in words]
    return numbered(found)


def tap(_top, output):
    found = []
    for word, name, note in re.findall(
            r"^(ok|not ok) \d+ *-? *([^#\n]*)(#.*)?$", output, re.M):
        skipped = re.match(r"# *(SKIP|TODO)", note or "", re.I)
        found.append((name.strip(), "skip" if skipped else word))
    return numbered(found)


def tinytest(_top, output):
    """A test is "NAME: OK", with its own output in between."""
    starts = list(re.finditer(r"^([a-z_0-9]+/[\w/+,.:-]+): ", output, re.M))
    found = []
    for i, start in enumerate(starts):
        end = starts[i + 1].start() if i + 1 < len(starts) else len(output)
        words = re.findall(r"(OK|SKIPPED|DISABLED)$|^  \[\S+ (FAILED)\]$",
                           output[start.end():end], re.M)
        found.append((start[1], "".join(words[-1]) if words else "none"))
    return numbered(found)


def redis(_top, output):
    plain = re.sub(r"\x1b\[[\d;]*m", "", output)
    found = []
    for word, name in re.findall(
            r"^\[(ok|err|exception|timeout|skip|ignore)\]: (.*)$", plain, re.M):
        name = re.sub(r" \(\d+ ms\)$", "", name)
        found.append((re.sub(r" in tests/\S+\.tcl.*$", "", name), word))
    return numbered(found)


PARSERS = {"automake": automake, "tap": tap, "tinytest": tinytest,
           "redis": redis}


class Run:
    """One run of a stressor or suite: exit status, {test: result}, and
    {file: content} of the files left behind."""

    def __init__(self, status, results, files):
        self.status, self.results, self.files = status, results, files

    def facts(self):
        """All that is compared, as {(kind, name): value}."""
        return {("exit status", ""): self.status,
                **{("test", name): word for name, word in self.results.items()},
                **{("file", name): "left" for name in self.files}}

    def contents(self):
        return {("content", name): text for name, text in self.files.items()}


def differing(one, other):
    """The facts that two runs do not share. A content counts only where both
    runs have the file."""
    a, b = one.facts(), other.facts()
    found = {key for key in a.keys() | b.keys() if a.get(key) != b.get(key)}
    a, b = one.contents(), other.contents()
    return found | {key for key in a.keys() & b.keys() if a[key] != b[key]}


def compare(bare, recorded, again):
    """(differences, wavering): facts in which `recorded` differs from two bare
    runs that agree, and facts in which the two bare runs differ."""
    wavering = differing(bare, again)
    return differing(bare, recorded) - wavering, wavering


def value(run, key):
    kind, name = key
    found = (run.contents() if kind == "content" else run.facts()).get(key)
    if kind == "exit status" and found is None:
        return "time-out"
    return "none" if found is None else str(found)[:12]
