/* The shell's focus: words of a line, zooming, what a command is given.
 * EVIDENCE-OF: IPS-18 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/shell/focus.h"

/* The words of `line`, parted by '|'; "!" and what is wrong. */
static const char *split(const char *line)
{
    static char all[IPSQ_LINE_BYTES + IPSQ_WORDS_MAX];
    struct ipsq_words w;
    struct ips_err err;
    *all = '\0';
    if (ipsq_words_split(line, &w, &err) < 0) {
        assert_int_equal(err.code, IPS_E_USAGE);
        return "!";
    }
    assert_null(w.word[w.count]);
    for (int i = 0; i < w.count; i++) {
        strcat(all, i ? "|" : "");
        strcat(all, w.word[i]);
    }
    return all;
}

/* Catches: quotes that part or join the wrong words, an end that is lost. */
static void words(void **state)
{
    (void)state;
    assert_string_equal(split(""), "");
    assert_string_equal(split("  path  r1 \n"), "path|r1");
    assert_string_equal(split("whatif --message 'a b->c' x"),
                        "whatif|--message|a b->c|x");
    assert_string_equal(split("sql \"select \\\"a\\\"\"''"),
                        "sql|select \"a\"");
    assert_string_equal(split("a '' b"), "a||b");
    assert_string_equal(split("a\\ b 'c\\d'"), "a b|c\\d");
    assert_string_equal(split("ls # of all"), "ls");
    assert_string_equal(split("ls a#b"), "ls|a#b");
    assert_string_equal(split("ls 'a"), "!");
    assert_string_equal(split("ls \"a"), "!");
    char many[2 * IPSQ_WORDS_MAX + 3];
    for (int i = 0; i <= IPSQ_WORDS_MAX; i++)
        memcpy(many + 2 * i, "w ", 3);
    assert_string_equal(split(many), "!");
    many[2 * IPSQ_WORDS_MAX] = '\0';
    assert_string_not_equal(split(many), "!");
    static char longest[IPSQ_LINE_BYTES + 1];
    memset(longest, 'x', IPSQ_LINE_BYTES);
    assert_string_equal(split(longest), "!");
    longest[IPSQ_LINE_BYTES - 1] = '\0';
    assert_string_equal(split(longest), longest);
}

static const char *text(const struct ipsq_focus *f)
{
    static char out[IPSQ_LINE_BYTES];
    ipsq_focus_prompt_text(f, out, sizeof(out));
    return out;
}

/* Catches: a step that leaves part of the last place, or steps over one. */
static void zoom_and_up(void **state)
{
    struct ipsq_focus f = {0};
    struct ips_err err;
    (void)state;
    assert_string_equal(text(&f), "ipsq");
    assert_false(ipsq_focus_widen(&f));
    strcpy(f.run, "r1");
    assert_true(ipsq_focus_write_full_object_name(&f, "m1", f.object));
    assert_string_equal(f.object, "/m1");
    char below[IPSQ_FOCUS_BYTES];
    assert_true(ipsq_focus_write_full_object_name(&f, "a.7/7/", below));
    strcpy(f.object, below);
    assert_string_equal(text(&f), "ipsq r1:/m1/a.7/7");
    assert_true(ipsq_focus_set_window_if_word_is_one(&f, "1.5s..2s", &err));
    assert_int_equal(err.code, 0);
    assert_string_equal(text(&f), "ipsq r1:/m1/a.7/7@1.5s..2s");
    assert_true(ipsq_focus_set_window_if_word_is_one(&f, "250ms..", &err));
    assert_string_equal(text(&f), "ipsq r1:/m1/a.7/7@250ms..");
    static const char *const up[] = {"ipsq r1:/m1/a.7/7", "ipsq r1:/m1/a.7",
                                     "ipsq r1:/m1", "ipsq r1", "ipsq"};
    for (size_t i = 0; i < IPSQ_COUNT_OF(up); i++) {
        assert_true(ipsq_focus_widen(&f));
        assert_string_equal(text(&f), up[i]);
    }
    assert_false(ipsq_focus_widen(&f));
    assert_true(ipsq_focus_write_full_object_name(&f, "/", below));
    assert_string_equal(below, "");
    static char longest[IPSQ_FOCUS_BYTES + 1];
    memset(longest, 'x', IPSQ_FOCUS_BYTES);
    assert_false(ipsq_focus_write_full_object_name(&f, longest, below));
}

/* Catches: a wrong time taken, or the focus changed by one. */
static void windows(void **state)
{
    struct ipsq_focus f = {.run = "r", .from = "1s"};
    struct ips_err err;
    (void)state;
    assert_false(ipsq_focus_set_window_if_word_is_one(&f, "/m1", &err));
    assert_false(ipsq_focus_set_window_if_word_is_one(&f, "/m1/..", &err));
    assert_false(ipsq_focus_set_window_if_word_is_one(&f, "worker", &err));
    static const char *const wrong[] = {"..", "2s..1s", "1s..1s", "x..2s",
                                        "1s..x"};
    for (size_t i = 0; i < IPSQ_COUNT_OF(wrong); i++) {
        assert_true(ipsq_focus_set_window_if_word_is_one(&f, wrong[i], &err));
        assert_int_equal(err.code, IPS_E_USAGE);
        assert_string_equal(f.from, "1s");
    }
}

/* What `line` becomes with the focus, parted by blanks. */
static const char *applied(const struct ipsq_focus *f, const char *line,
                           unsigned unused)
{
    static char all[2 * IPSQ_LINE_BYTES];
    static char format[] = "--format=json";
    char *before[] = {format, NULL};
    struct ipsq_words w;
    struct ips_err err;
    char *argv[IPSQ_ARGV_MAX + 1];
    unsigned found;
    assert_int_equal(ipsq_words_split(line, &w, &err), 0);
    int argc = ipsq_focus_build_argv(f, before, &w, argv, &found);
    assert_null(argv[argc]);
    assert_int_equal(found, unused);
    *all = '\0';
    assert_string_equal(argv[1], "--format=json");
    for (int i = 2; i < argc; i++) {
        strcat(all, i > 2 ? " " : "");
        strcat(all, argv[i]);
    }
    return all;
}

/* Catches: a command asked about something else than the prompt says; what the
 * line says itself overruled; options where the command has no use for them. */
static void what_is_added(void **state)
{
    (void)state;
    struct ipsq_focus f = {.run = "r1", .object = "/m1", .from = "1s"};
    assert_string_equal(applied(&f, "events", 0),
                        "events r1 --object /m1 --from 1s");
    assert_string_equal(applied(&f, "--top 3 events", 0),
                        "--top 3 events r1 --object /m1 --from 1s");
    assert_string_equal(applied(&f, "events r2 --object /m2 --to 9s", 0),
                        "events r2 --object /m2 --to 9s");
    assert_string_equal(applied(&f, "path", IPSQ_UNUSED_OBJECT),
                        "path r1 --from 1s");
    assert_string_equal(applied(&f, "ls", 0), "ls r1 --object /m1 --from 1s");
    assert_string_equal(
        applied(&f, "whatif --object /m1/a --gone", IPSQ_UNUSED_OBJECT),
        "whatif r1 --object /m1/a --gone --from 1s");
    assert_string_equal(applied(&f, "why", IPSQ_UNUSED_OBJECT),
                        "why r1 --from 1s");
    assert_string_equal(
        applied(&f, "estimate", IPSQ_UNUSED_OBJECT | IPSQ_UNUSED_TIME),
        "estimate r1");
    assert_string_equal(applied(&f, "runs", 0), "runs");
    assert_string_equal(applied(&f, "help path", 0), "help path");
    assert_string_equal(applied(&f, "path --help", 0), "path --help");
    assert_string_equal(applied(&f, "nosuch a", 0), "nosuch a");
    assert_string_equal(applied(&f, "path --nosuch", 0), "path --nosuch");
    struct ips_err err;
    assert_int_equal(ipsq_focus_set_phase(&f, "x", &err), IPS_E_USAGE);
    assert_int_equal(ipsq_focus_set_phase(&f, "2", &err), 0);
    assert_string_equal(text(&f), "ipsq r1:/m1@phase 2");
    assert_string_equal(applied(&f, "path", IPSQ_UNUSED_OBJECT),
                        "path r1 --phase 2");
    assert_string_equal(applied(&f, "path --from 1s", IPSQ_UNUSED_OBJECT),
                        "path r1 --from 1s");
    assert_true(ipsq_focus_set_window_if_word_is_one(&f, "1s..", &err));
    assert_string_equal(text(&f), "ipsq r1:/m1@1s..");
    assert_int_equal(ipsq_focus_set_phase(&f, "2", &err), 0);
    assert_true(ipsq_focus_widen(&f));
    assert_string_equal(text(&f), "ipsq r1:/m1");
    struct ipsq_focus none = {0};
    assert_string_equal(applied(&none, "events", 0), "events");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),
        cmocka_unit_test(zoom_and_up),
        cmocka_unit_test(windows),
        cmocka_unit_test(what_is_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
