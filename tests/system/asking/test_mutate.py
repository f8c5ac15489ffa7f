"""The drawing of mutations (tests/mutate): where a fault is put, and by which seed."""
import itertools
import subprocess
import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests" / "support"))
import mutants  # noqa: E402

pytestmark = pytest.mark.quick

CODE = r"""
#include "agent/record/stream.h"
#define LIMIT (1 + 2 < 3) /* a < b */
#define LONGER                                                                 \
    do_this(1, 2);

/* if (a < 1) return 1 - 2; */
enum { SIZE = 64 };
struct __attribute__((aligned(64))) row {
    char text[32];
};
static const uint64_t table[2] = {11, 12};
_Static_assert(sizeof(struct row) == 64, "1 < 2");
#if defined(__aarch64__)
static int elsewhere(void) { return 40 < 41; }
#elif defined(__x86_64__)
static int here(void) { return 50; }
#endif

int one(struct row *r, int a, int b, struct err *err)
{
    int rc = start(r, a, b), n = 3; // a < 4 && b
    char name[17];
    r->copy = malloc(strlen(name) + 1);
    static const char *const text = "1 < 2 && 3", c = '<';
    if ((rc = begin(r)) < 0)
        return rc;
    if (a < b && !r->closed)
        r->total += a - (b * 2);
    for (int i = 0; i < n; i++) {
        r->ms = read_ns(r) / 1000000;
        r->v[i] = -b;
    }
    if (a == 7)
        finish(r,
               a);
    free(r);
    printf("%d of %d", a, b);
    ips_log_info("of %d, %d", a - 1, b);
    struct row *other = r + 1;
    __asm__ volatile("nop" : : "r"(a - b), "r"(2));
    if (c == '>')
        return 0;
    return b - 1 ? 1 : -1;
}
"""


def changes(code=CODE):
    """{(kind, changed line before, after)} of all that is possible."""
    return {(m.kind, *mutants.changed_lines(m, code))
            for m in mutants.Code("agent/x.c", code).found}


def drawn(seed, count=40):
    lines = mutants.possible({"agent/x.c": CODE, "slave/y.c": CODE})
    return list(itertools.islice(mutants.draw(lines, seed), count))


@pytest.mark.parametrize("kind, old, new", [
    ("flipped comparison", "if (a == 7)", "if (a != 7)"),
    ("flipped comparison", "if ((rc = begin(r)) < 0)", "if ((rc = begin(r)) >= 0)"),
    ("off by one", "if (a == 7)", "if (a == 8)"),
    ("off by one", "r->v[i] = -b;", "r->v[i - 1] = -b;"),
    ("off by one", "for (int i = 0; i < n; i++) {", "for (int i = 0; i <= n; i++) {"),
    ("off by one", "static const uint64_t table[2] = {11, 12};",
     "static const uint64_t table[2] = {11, 13};"),
    ("off by one", "static int here(void) { return 50; }",
     "static int here(void) { return 49; }"),
    ("off by one", "return b - 1 ? 1 : -1;", "return b - 2 ? 1 : -1;"),
    ("off by one", "return b - 1 ? 1 : -1;", "return b - 1 ? 1 : -0;"),
    ("off by one", "return 0;", "return -1;"),
    ("off by one", "r->copy = malloc(strlen(name) + 1);",
     "r->copy = malloc(strlen(name) + 0);"),
    ("dropped condition", "if (a < b && !r->closed)", "if (a < b)"),
    ("dropped condition", "if (a < b && !r->closed)", "if (!r->closed)"),
    ("dropped condition", "if (a < b && !r->closed)", "if (a < b && r->closed)"),
    ("swapped operand", "r->total += a - (b * 2);", "r->total += (b * 2) - a;"),
    ("swapped operand", 'printf("%d of %d", a, b);', 'printf("%d of %d", b, a);'),
    ("wrong unit", "r->ms = read_ns(r) / 1000000;", "r->ms = read_ns(r) / 1000;"),
    ("removed update", "r->total += a - (b * 2);", ";"),
    ("removed update", "finish(r,", ";"),
    ("ignored error", "if ((rc = begin(r)) < 0)", "if (((rc = begin(r)) < 0) && 0)"),
])
def test_each_kind(kind, old, new):
    assert (kind, old, new) in changes()


def test_what_is_never_changed():
    """Comments, texts, preprocessor lines, types, assertions, logs, other machines' code."""
    for kind, old, new in changes():
        assert not old.startswith(("#", "/*", "do_this", "enum", "char", "_Static_assert",
                                   "ips_log", "__asm__", "free")), (kind, old, new)
        for text in ('"1 < 2 && 3"', "'<'", "40 < 41", "table[2]", '"%d of %d"',
                     "// a < 4 && b"):
            assert new == ";" or (text in old) == (text in new), (kind, old, new)
        assert not new.endswith(("? 2 : -1;", ": -2;", "+ 2);")), new
        if "= start(r" in old or "*other" in old:
            assert kind != "removed update", old


def test_lines_keep_their_numbers():
    for mutation in mutants.Code("agent/x.c", CODE).found:
        after = mutants.apply(mutation, CODE)
        assert after != CODE
        assert after.count("\n") == CODE.count("\n"), mutation


def test_the_seed_alone_decides():
    """And no mutation is drawn twice."""
    assert drawn(5) == drawn(5)
    assert drawn(5) != drawn(6)
    assert len(set(drawn(5))) == 40
    assert {m.file for m in drawn(5)} == {"agent/x.c", "slave/y.c"}


def test_equivalents_are_known_by_their_text(tmp_path):
    text = "# why\n\nslave/a.c\n- if (a < b)\n+ if (a <= b)\na is never b,\n  as said\n"
    assert mutants.read_equivalents(text) == {
        ("slave/a.c", "if (a < b)", "if (a <= b)"): "a is never b, as said"}
    mutants.read_equivalents((ROOT / "tests/equivalent-mutants.txt").read_text())


def test_usage():
    script = ROOT / "tests" / "mutate"
    for wrong in ([], ["3"], ["x", "1"], ["--at", "a.c", "--list"], ["--area", "x", "1", "1"]):
        assert subprocess.run([script, *wrong], capture_output=True).returncode == 2, wrong
    assert b"usage" in subprocess.run([script, "--help"], capture_output=True).stdout
