/* Command lines, and which run a word names. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/command.h"
#include "client/base/session.h"

#define WORDS_MAX 20

/* `line` in words at its spaces. */
static int parse(const char *line, struct ipsq_options *o, struct ips_err *err)
{
    static char copy[256];
    char *argv[WORDS_MAX + 1] = {0}, *save = NULL;
    int argc = 0;
    snprintf(copy, sizeof(copy), "%s", line);
    for (char *w = strtok_r(copy, " ", &save); w && argc < WORDS_MAX;
         w = strtok_r(NULL, " ", &save))
        argv[argc++] = w;
    return ipsq_options_parse(o, argc, argv, err);
}

/* Options before and after the command, with = and without. */
static void test_options__good(void **state)
{
    (void)state;
    struct ipsq_options o;
    assert_int_equal(0, parse("ipsq", &o, NULL));
    assert_null(o.command);
    assert_int_equal(o.format, IPSQ_TABLE);
    assert_string_equal(o.engine, "auto");
    assert_int_equal(
        0, parse("ipsq --state /s path r1 --format=json --top 5 --engine "
                 "central --external=off --mtime 20us+0.5",
                 &o, NULL));
    assert_string_equal(o.command, "path");
    assert_int_equal(o.arg_count, 1);
    assert_string_equal(o.args[0], "r1");
    assert_string_equal(o.state, "/s");
    assert_int_equal(o.format, IPSQ_JSON);
    assert_int_equal(o.top, 5);
    assert_string_equal(o.engine, "central");
    assert_int_equal(o.external, 2);
    assert_int_equal(o.message_time_base_ns, 20000);
    assert_int_equal(o.message_time_per_byte_q32, 1ULL << 31);
    assert_true(o.options_set & IPSQ_HAS(TOP));
    assert_false(o.options_set & IPSQ_HAS(FROM));
    assert_int_equal(
        0, parse("ipsq events --from 1ms --to 2ms -- --odd", &o, NULL));
    assert_string_equal(o.args[0], "--odd");
    assert_int_equal(o.from_ns, 1000000);
    assert_int_equal(o.to_ns, 2000000);
    assert_int_equal(0, parse("ipsq path --help", &o, NULL));
    assert_true(o.help);
    assert_int_equal(0, parse("ipsq --version", &o, NULL));
    assert_true(o.version);
}

static void test_options__bad(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "ipsq path --format xml",
        "ipsq path --format",
        "ipsq path --nosuch",
        "ipsq path -x",
        "ipsq path --top 0",
        "ipsq path --top -1",
        "ipsq path --top 5x",
        "ipsq path --top 1.5",
        "ipsq path --engine pdm",
        "ipsq path --weighting gpu",
        "ipsq path --external yes",
        "ipsq path --mtime fast",
        "ipsq ls --object m1",
        "ipsq ls --level cpu",
        "ipsq events --from x",
        "ipsq events --to 0",
        "ipsq events --from 2s --to 1s",
        "ipsq events --from 2s --to 2s",
        "ipsq path a b c",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct ipsq_options o;
        struct ips_err err = {0};
        if (parse(bad[i], &o, &err) != IPS_E_USAGE)
            fail_msg("'%s' was taken", bad[i]);
        assert_true(strlen(err.msg) > 10);
    }
}

/* An unknown weighting must not be taken for the default, nor a goal that is
 * no object be sent on. */
static void test_options__weightings(void **state)
{
    (void)state;
    struct ipsq_options o;
    struct ips_err err;
    assert_int_equal(0, parse("ipsq path --weighting cpu", &o, &err));
    assert_int_equal(0, parse("ipsq path --weighting sched", &o, &err));
    assert_int_equal(
        0, parse("ipsq path --weighting wall --goal /m/p.1", &o, &err));
    assert_string_equal("wall", o.weighting);
    assert_string_equal("/m/p.1", o.goal);
    assert_int_equal(IPS_E_USAGE,
                     parse("ipsq path --weighting moon", &o, &err));
    assert_int_equal(IPS_E_USAGE, parse("ipsq path --goal p.1", &o, &err));
}

/* Each command's usage names each option that it takes, and none that it does
 * not: would catch one that nobody is told of. */
static void test_options__usages(void **state)
{
    (void)state;
    static const char *const names[] = {
#define X(id, name, value, help) name,
        IPSQ_OPTIONS(X)
#undef X
    };
    const uint64_t common = IPSQ_HAS(MASTER) | IPSQ_HAS(STATE) |
                            IPSQ_HAS(FORMAT) | IPSQ_HAS(TOP) | IPSQ_HAS(FRESH);
    const uint64_t what = IPSQ_HAS(OBJECT) | IPSQ_HAS(PROCEDURE) |
                          IPSQ_HAS(PROCESS) | IPSQ_HAS(MESSAGE);
    for (int c = 0; ipsq_commands[c]; c++) {
        const struct ipsq_command *k = ipsq_commands[c];
        for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
            char word[40];
            snprintf(word, sizeof(word), "--%s", names[i]);
            const char *at = strstr(k->usage, word);
            while (at && at[strlen(word)] != ' ' && at[strlen(word)] != ']' &&
                   at[strlen(word)] != '\0' && at[strlen(word)] != '\n')
                at = strstr(at + 1, word);
            bool takes = k->options >> i & 1;
            if (takes && what >> i & 1 && strstr(k->usage, "WHAT..."))
                continue;
            if (!(common >> i & 1) && takes != (at != NULL))
                fail_msg("ipsq %s: usage %s %s", k->name,
                         takes ? "lacks" : "has", word);
        }
    }
}

static void test_options__pick_run(void **state)
{
    (void)state;
    static const char *const names[] = {"tsp-2", "tsp-10", "redis", "tsp-1"};
    Ips__RunRow row[4], *rows[4];
    const char *run;
    struct ips_err err;
    for (int i = 0; i < 4; i++) {
        row[i] = (Ips__RunRow)IPS__RUN_ROW__INIT;
        row[i].run = ips_unconst_text(names[i]);
        rows[i] = &row[i];
    }
    assert_int_equal(0, ipsq_find_run_in_rows(rows, 4, NULL, &run, &err));
    assert_string_equal(run, "tsp-2"); /* the newest */
    assert_int_equal(0, ipsq_find_run_in_rows(rows, 4, "r", &run, &err));
    assert_string_equal(run, "redis");
    /* A whole name wins over longer ones that begin with it. */
    assert_int_equal(0, ipsq_find_run_in_rows(rows, 4, "tsp-1", &run, &err));
    assert_string_equal(run, "tsp-1");
    assert_int_equal(IPS_E_NOT_FOUND,
                     ipsq_find_run_in_rows(rows, 4, "tsp", &run, &err));
    assert_non_null(strstr(err.msg, "tsp-2 or"));
    assert_int_equal(IPS_E_NOT_FOUND,
                     ipsq_find_run_in_rows(rows, 4, "x", &run, &err));
    assert_int_equal(IPS_E_NOT_FOUND,
                     ipsq_find_run_in_rows(rows, 4, "", &run, &err));
    assert_int_equal(IPS_E_NOT_FOUND,
                     ipsq_find_run_in_rows(rows, 0, NULL, &run, &err));
    assert_int_equal(IPS_E_NOT_FOUND,
                     ipsq_find_run_in_rows(rows, 0, "x", &run, &err));
}

/* Edits: what narrows, what begins another, and whom a speed is for. */
static void test_options__edits(void **state)
{
    (void)state;
    struct ipsq_options o;
    assert_int_equal(0, parse("ipsq whatif r --procedure f --process p "
                              "--procedure g --faster 30% --message a->b "
                              "--gone --object /m1",
                              &o, NULL));
    assert_int_equal(o.edit_count, 4);
    assert_string_equal(o.edit[0].procedure, "f");
    assert_string_equal(o.edit[0].process, "p");
    assert_int_equal(o.edit[0].ppm, 300000);
    assert_string_equal(o.edit[1].procedure, "g");
    assert_null(o.edit[1].process);
    assert_int_equal(o.edit[1].ppm, 300000);
    assert_string_equal(o.edit[2].message, "a->b");
    assert_int_equal(o.edit[2].ppm, 1000000);
    assert_string_equal(o.edit[3].object, "/m1");
    assert_int_equal(o.edit[3].ppm, 0);
    assert_int_equal(0, parse("ipsq whatif --rank --faster 2x", &o, NULL));
    assert_int_equal(o.edit_count, 0);
    assert_int_equal(o.faster_ppm, 500000);
    assert_true(o.rank);
    assert_int_equal(0, parse("ipsq path --slack --next 7", &o, NULL));
    assert_true(o.slack);
    assert_int_equal(o.next, 7);
    struct ips_err err;
    assert_int_equal(IPS_E_USAGE, parse("ipsq path --next 0", &o, &err));
    assert_int_equal(IPS_E_USAGE, parse("ipsq path --next 1001", &o, &err));
    assert_int_equal(IPS_E_USAGE, parse("ipsq whatif --faster 3", &o, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options__edits),
        cmocka_unit_test(test_options__good),
        cmocka_unit_test(test_options__bad),
        cmocka_unit_test(test_options__weightings),
        cmocka_unit_test(test_options__usages),
        cmocka_unit_test(test_options__pick_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
