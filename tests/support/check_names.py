"""The names of the product, for tests/lint: refuses this project's private words as names of
files, functions, types and members, and functions of one word. Prose is free.

A private word is one that only people of this project understand (PRIVATE, with the word that
the field uses). A word of ANYWHERE is refused as any part of a name, the others as the
whole name, with or without the prefix of a program.

A function is verb and object: `take_block`, not `take`. One word says neither what it
does it to nor which of several it is, and a search for it finds all of them.

Prints a line for each fault; exit status 1 if there is one.
"""
import fnmatch
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ("agent", "analysis", "client", "common", "master", "proto", "slave")

PRIVATE = {
    "ahead": "precomputation", "again": "restart", "answers": "answer cache",
    "any": "order-dependent", "arrival": "receive timestamp", "beside": "concurrent activity",
    "borrowed": "from the cache", "bracket": "marked span", "brackets": "marked spans",
    "costs": "profile cache", "crew": "lock queue", "crews": "lock queues",
    "crowd": "oversubscription", "crowds": "oversubscription", "enough": "needed sections",
    "find": "fetch, look up", "follow": "live tables", "forget": "remove, reset",
    "found": "result", "give": "set", "growing": "incremental graph",
    "handover": "record queue", "held": "lock hold", "inner": "waiter, nested",
    "kept": "cached", "lane": "scenario", "lanes": "scenarios", "level": "scheduling class",
    "line": "CPU baseline", "live": "process liveness", "longest": "top segments",
    "look": "fetch, inspect", "part": "machine's share", "parts": "machines' shares",
    "past": "after the window's end", "place": "call site, slot, thread",
    "places": "call sites, slots, threads", "pop": "POP efficiencies",
    "portion": "share of an arc", "portions": "arc profile", "price": "probe cost",
    "prices": "probe costs", "room": "capacity, pool quota", "says": "finding text",
    "select": "top N", "settle": "segment reclaim", "settled": "decided",
    "since": "after the window's start", "spares": "spare segments",
    "stands": "window node", "stop": "job control", "stretch": "window", "take": "segment reader",
    "tell": "send, report", "thing": "resource kind, entity",
    "things": "resource kinds, entities", "together": "as a group", "told": "reported, marked",
    "undisturbed": "EINTR handling", "unkept": "not cached", "unseen": "unrecorded",
    "view": "guarded mapping", "weigh": "apply the weighting", "yielded": "released",
}
ANYWHERE = {"ahead", "beside", "bracket", "brackets", "crew", "crews", "crowd", "crowds",
            "growing", "handover", "lane", "lanes", "portion", "portions", "price", "prices",
            "settle", "spares", "stands", "tell", "thing", "things", "told", "undisturbed",
            "unkept", "unseen", "weigh"}
PREFIX = re.compile(r"^(?:ips|ipsq|slave|master|b)_")

# Names that have such a word in another sense, and one-word functions that others call by
# this name: (name, files, sense).
ALLOWED = [
    ("main", "*", "the C library calls it"),
    ("find", "agent/preload/*", "to look a symbol up, as the loader does"),
    ("stop", "*/base/work*", "asks a thread or a job to end"),
    ("stop", "slave/store/sql.c", "asks a job to end"),
    ("level", "client/base/options.h", "the option --level"),
    ("forget", "client/base/options.h", "the option --forget"),
    ("view", "analysis/graph/view.?", "a graph as one scenario weighs it"),
    ("ips_view", "analysis/graph/view.h", "a graph as one scenario weighs it"),
    ("view", "slave/graphs/*", "struct ips_view"),
    ("view", "slave/profile/*", "struct ips_view"),
    ("view", "slave/serve/*", "struct ips_view"),
]

COMMENT_OR_STRING = re.compile(
    r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
ATTRIBUTE = re.compile(r"__attribute__\(\((?:[^()]|\([^()]*\))*\)\)")
TYPE = re.compile(r"\b(?:struct|union|enum)\s+([A-Za-z_]\w*)\s*\{")
TYPEDEF = re.compile(r"^typedef\b[^;{}]*?(?:\(\*(\w+)\)[^;]*|\b(\w+)\s*(?:(?:\[|\((?!\*))[^;]*)?);",
                     re.M)
BODY = re.compile(r"\b(?:struct|union)\b(?:\s+\w+)?\s*\{")
# A function's name, also where it returns a pointer to a function.
FUNCTION = re.compile(r"\(\s*\*\s*(\w+)\s*\(|\b([A-Za-z_]\w*)\s*\((?!\s*\*)")
# Functions that stand in for the C library's have its names.
STAND_INS = re.compile(r"\b(?:IPS_EXPORT|HIDDEN)\b")


def blank(match):
    """The text without its letters: offsets and lines stay."""
    return re.sub(r"[^\n]", " ", match.group())


def code_of(text):
    text = COMMENT_OR_STRING.sub(blank, text)
    return ATTRIBUTE.sub(blank, DIRECTIVE.sub(blank, text))


def functions(code):
    """(name, offset) of each function that is defined: its brace is at a line's begin."""
    for brace in re.finditer(r"^\{", code, re.M):
        begin = max(code.rfind(c, 0, brace.start()) for c in ";}")
        head = code[begin + 1:brace.start()]
        name = FUNCTION.search(head)
        if name and "=" not in head[:name.start()] and not STAND_INS.search(head):
            yield name.group(name.lastindex), begin + 1 + name.start(name.lastindex)


def end_of(code, at):
    """Behind the brace that closes the one at `at`."""
    depth = 0
    for brace in re.finditer(r"[{}]", code[at:]):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return at + brace.end()
    return len(code)


def flat(code, begin, end):
    """The text of a struct's body with what is nested in it, and all brackets, blanked."""
    body = code[begin:end]
    for inner in BODY.finditer(body):
        until = end_of(body, inner.end() - 1)
        body = body[:inner.start()] + " x " + re.sub(
            r"[^\n]", " ", body[inner.start() + 3:until]) + body[until:]
    body = re.sub(r"\{[^{}]*\}|\[[^\]]*\]", blank, body)
    return re.sub(r"\(\s*\*\s*(?:const\s+)?(\w+)\s*\)(?:\s*\([^;]*\))?",
                  lambda m: " " * (m.start(1) - m.start()) + m.group(1) +
                  re.sub(r"[^\n]", " ", m.group()[m.end(1) - m.start():]), body)


def members(code):
    for struct in BODY.finditer(code):
        begin = struct.end()
        body = flat(code, begin, end_of(code, begin - 1) - 1)
        body = re.sub(r"\([^()]*\)", blank, body)
        for statement in re.finditer(r"[^;]+", body):
            for part in re.finditer(r"[^,]+", statement.group()):
                name = re.search(r"([A-Za-z_]\w*)\s*(?::[^:]*)?$", part.group())
                if name:
                    yield name.group(1), begin + statement.start() + part.start() + name.start(1)


def names(path, text):
    """(kind, name, line) of all that a file names."""
    yield "file", pathlib.PurePath(path).stem, 1
    if not path.endswith((".c", ".h")):
        return
    code = code_of(text)
    found = [("function", *f) for f in functions(code)]
    found += [("type", t.group(1), t.start(1)) for t in TYPE.finditer(code)]
    found += [("type", t.group(1) or t.group(2), t.start()) for t in TYPEDEF.finditer(code)]
    found += [("member", *m) for m in members(code)]
    for kind, name, at in found:
        yield kind, name, code.count("\n", 0, at) + 1


def private(name):
    """The private word that a name is, or has as a part; or None."""
    whole = PREFIX.sub("", name.lower())
    if whole in PRIVATE:
        return whole
    return next((p for p in re.split(r"[_-]", whole) if p in ANYWHERE), None)


def allowed(name, path):
    return any(name == n and fnmatch.fnmatch(path, files) for n, files, _ in ALLOWED)


def faults(path, text):
    for kind, name, line in names(path, text):
        if allowed(name, path):
            continue
        word = private(name)
        if word:
            yield (f"{path}:{line}: {kind} {name}: '{word}' is a private word, "
                   f"the field's is {PRIVATE[word]}")
        elif kind == "function" and "_" not in name:
            yield f"{path}:{line}: function {name}: one word, not verb and object"


def files():
    """Paths of the checkout, or of a tree that is none."""
    try:
        out = subprocess.run(["git", "ls-files", "--", *ROOMS], cwd=ROOT, check=True, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        return [f for f in out.splitlines() if (ROOT / f).exists()]
    except (OSError, subprocess.CalledProcessError):
        return [str(p.relative_to(ROOT)) for room in ROOMS
                for p in sorted((ROOT / room).rglob("*")) if p.is_file()]


def main():
    found = [fault for path in files()
             for fault in faults(path, (ROOT / path).read_text(errors="replace"))]
    print("\n".join(found))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
