/* Each option of ipsq sets its own field and no other, at its least and its
 * greatest value; one beyond is refused. Catches: an option that sets another's
 * field, or that is not known to be given; a limit that is off by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/command.h"
#include "client/base/units.h"

#define WORDS_MAX 80

static char copy[2048];

static int parse(const char *line, struct ipsq_options *o, struct ips_err *err)
{
    char *argv[WORDS_MAX + 1] = {0}, *save = NULL;
    int argc = 0;
    snprintf(copy, sizeof(copy), "ipsq path %s", line);
    for (char *w = strtok_r(copy, " ", &save); w && argc < WORDS_MAX;
         w = strtok_r(NULL, " ", &save))
        argv[argc++] = w;
    return ipsq_options_parse(o, argc, argv, err);
}

/* ---- its own field ------------------------------------------------------- */

#define AT(field)                                                              \
    offsetof(struct ipsq_options, field),                                      \
        sizeof(((struct ipsq_options *)0)->field)

static const struct {
    const char *words;
    uint64_t has;
    size_t at, size;
    uint64_t value;
} own[] = {
    {"--top 1", IPSQ_HAS(TOP), AT(top), 1},
    {"--top 18446744073709551615", IPSQ_HAS(TOP), AT(top), UINT64_MAX},
    {"--from 0", IPSQ_HAS(FROM), AT(from_ns), 0},
    {"--from 1us", IPSQ_HAS(FROM), AT(from_ns), 1000},
    {"--to 1", IPSQ_HAS(TO), AT(to_ns), 1},
    {"--phase 1", IPSQ_HAS(PHASE), AT(phase), 1},
    {"--phase 4294967295", IPSQ_HAS(PHASE), AT(phase), UINT32_MAX},
    {"--next 1", IPSQ_HAS(NEXT), AT(next), 1},
    {"--next 1000", IPSQ_HAS(NEXT), AT(next), 1000},
    {"--max-wall 1s", IPSQ_HAS(MAX_WALL), AT(max_wall_ns), 1000000000},
    {"--max-cpu 2s", IPSQ_HAS(MAX_CPU), AT(max_cpu_ns), 2000000000},
    {"--max-path 3ms", IPSQ_HAS(MAX_PATH), AT(max_path_ns), 3000000},
    {"--max-lost 0", IPSQ_HAS(MAX_LOST), AT(max_lost), 0},
    {"--max-lost 7", IPSQ_HAS(MAX_LOST), AT(max_lost), 7},
    {"--rounds 1", IPSQ_HAS(ROUNDS), AT(rounds), 1},
    {"--tries 1", IPSQ_HAS(TRIES), AT(tries), 1},
    {"--seed 0", IPSQ_HAS(SEED), AT(seed), 0},
    {"--seed 9", IPSQ_HAS(SEED), AT(seed), 9},
    {"--system-share 0", IPSQ_HAS(SYSTEM_SHARE), AT(system_ppm), 0},
    {"--system-share 99.9999%", IPSQ_HAS(SYSTEM_SHARE), AT(system_ppm), 999999},
    {"--faster 100%", IPSQ_HAS(FASTER), AT(faster_ppm), 1000000},
    {"--gone", IPSQ_HAS(GONE), AT(faster_ppm), 1000000},
    {"--mtime 1h", 0, 0, 0, 0}, /* no such unit */
    {"--mtime 3600s", IPSQ_HAS(MTIME), AT(message_time_base_ns), 3600000000000},
    {"--external reply", IPSQ_HAS(EXTERNAL), AT(external), 0},
    {"--external all", IPSQ_HAS(EXTERNAL), AT(external), 1},
    {"--external off", IPSQ_HAS(EXTERNAL), AT(external), 2},
    {"--sites", IPSQ_HAS(SITES), AT(sites), 1},
    {"--stacks", IPSQ_HAS(STACKS), AT(stacks), 1},
    {"--rank", IPSQ_HAS(RANK), AT(rank), 1},
    {"--slack", IPSQ_HAS(SLACK), AT(slack), 1},
    {"--fresh", IPSQ_HAS(FRESH), AT(fresh), 1},
    {"--sequences", IPSQ_HAS(SEQUENCES), AT(sequences), 1},
    {"--whole", IPSQ_HAS(WHOLE), AT(whole), 1},
    {"--pop", IPSQ_HAS(POP), AT(pop_efficiencies), 1},
    {"--per machine", IPSQ_HAS(PER), AT(per_machine), 1},
    {"--search", IPSQ_HAS(SEARCH), AT(search), 1},
    {"--show", IPSQ_HAS(SHOW), AT(show), 1},
    {"--force", IPSQ_HAS(FORCE), AT(force), 1},
    {"--replace", IPSQ_HAS(REPLACE), AT(replace), 1},
    {"--forget", IPSQ_HAS(FORGET), AT(forget), 1},
    {"--shared-medium", IPSQ_HAS(SHARED_MEDIUM), AT(shared_medium), 1},
    {"--help", 0, AT(help), 1},
    {"--version", 0, AT(version), 1},
};

static void test_limits__its_own_field(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++) {
        struct ipsq_options o, want;
        struct ips_err err = {0};
        uint64_t value = 0;
        int rc = parse(own[i].words, &o, &err);
        assert_int_equal(rc, own[i].size ? 0 : IPS_E_USAGE);
        if (!own[i].size)
            continue;
        assert_int_equal(parse("", &want, &err), 0);
        assert_int_equal(o.options_set, own[i].has);
        memcpy(&value, (uint8_t *)&o + own[i].at, own[i].size);
        if (value != own[i].value)
            fail_msg("%s: %llu", own[i].words, (unsigned long long)value);
        memcpy((uint8_t *)&want + own[i].at, (uint8_t *)&o + own[i].at,
               own[i].size);
        want.options_set = o.options_set;
        if (memcmp(&o, &want, sizeof(o)) != 0)
            fail_msg("%s sets something else, too", own[i].words);
    }
}

/* ---- texts --------------------------------------------------------------- */

static void test_limits__texts(void **state)
{
    static const struct {
        const char *words;
        size_t at;
        const char *text;
    } text[] = {
#define TEXT(field) offsetof(struct ipsq_options, field)
        {"--master a", TEXT(master), "a"},
        {"--state b", TEXT(state), "b"},
        {"--goal /c", TEXT(goal), "/c"},
        {"--object /d", TEXT(object), "/d"},
        {"--level run", TEXT(level), "run"},
        {"--level machine", TEXT(level), "machine"},
        {"--level process", TEXT(level), "process"},
        {"--level thread", TEXT(level), "thread"},
        {"--level procedure", TEXT(level), "procedure"},
        {"--engine contract", TEXT(engine), "contract"},
        {"--engine cm-async", TEXT(engine), "cm-async"},
        {"--engine cm-sync", TEXT(engine), "cm-sync"},
        {"--for latency", TEXT(answer), "latency"},
        {"--sort -cpu_ns", TEXT(sort), "-cpu_ns"},
        {"--by process,line", TEXT(by), "process,line"},
        {"--export e", TEXT(export_file), "e"},
        {"--import f", TEXT(import_file), "f"}};
    (void)state;
    for (size_t i = 0; i < sizeof(text) / sizeof(*text); i++) {
        struct ipsq_options o;
        const char *got;
        assert_int_equal(parse(text[i].words, &o, NULL), 0);
        memcpy(&got, (uint8_t *)&o + text[i].at, sizeof(got));
        assert_string_equal(got, text[i].text);
    }
    struct ipsq_options o;
    assert_int_equal(parse("--by process,line", &o, NULL), 0);
    assert_int_equal(o.by_mask, IPSQ_IS_BY(PROCESS) | IPSQ_IS_BY(LINE));
    assert_int_equal(parse("--by thread --by machine", &o, NULL), 0);
    assert_int_equal(o.by_mask, IPSQ_IS_BY(THREAD) | IPSQ_IS_BY(MACHINE));
    assert_int_equal(parse("--by mark:a,b", &o, NULL), IPS_E_USAGE);
    assert_int_equal(parse("--by process,", &o, NULL), IPS_E_USAGE);
}

/* ---- one beyond ---------------------------------------------------------- */

static void test_limits__beyond(void **state)
{
    static const struct {
        const char *words, *says;
    } bad[] = {{"--top 18446744073709551616", "--top"},
               {"--phase 0", "--phase"},
               {"--phase 4294967296", "--phase 4294967296: no such phase"},
               {"--next 0", "--next"},
               {"--next 1001", "--next 1001: 1 to 1000"},
               {"--mtime 3600.000000001s", "more than an hour"},
               {"--to 0", "--to 0: a window must end after it begins"},
               {"--from 5ns --to 5ns", "--from must be before --to"},
               {"--phase 1 --to 5ns", "--phase cannot be combined"},
               {"--phase 1 --from 5ns", "--phase cannot be combined"},
               {"--rounds 0", "--rounds"},
               {"--tries 0", "--tries"},
               {"--system-share 100%", "--system-share"},
               {"--faster 0%", "--faster"},
               {"--faster 100.0001%", "--faster"},
               {"--level cpu", "--level"},
               {"--per thread", "--per"},
               {"--format jsonl2", "--format"},
               {"--max-lost -1", "--max-lost"},
               {"--goal c", "'c' is not of the form"},
               {"--object d", "'d' is not of the form"},
               {"--nosuch", "no such option: '--nosuch'"},
               {"--top", "'--top' needs a value"},
               {"a b c", "too many words: 'c'"},
               {"a b -- c", "too many words: 'c'"}};
    struct ipsq_options o;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct ips_err err = {0};
        if (parse(bad[i].words, &o, &err) != IPS_E_USAGE)
            fail_msg("'%s' was taken", bad[i].words);
        if (!strstr(err.msg, bad[i].says))
            fail_msg("'%s': %s", bad[i].words, err.msg);
    }
    /* A window from its last ns on, and before its begin. */
    assert_int_equal(parse("--from 4ns --to 5ns", &o, NULL), 0);
    assert_int_equal(parse("a b", &o, NULL), 0);
    assert_int_equal(o.arg_count, 2);
}

/* ---- several times ------------------------------------------------------- */

/* `word` so many times, each with a value of its own. */
static int times(const char *word, unsigned count, struct ipsq_options *o)
{
    char line[2000];
    size_t at = 0;
    line[0] = '\0';
    for (unsigned i = 0; i < count; i++)
        at +=
            (size_t)snprintf(line + at, sizeof(line) - at, " %s=v%u", word, i);
    return parse(line, o, NULL);
}

static void test_limits__several_times(void **state)
{
    static const struct {
        const char *word;
        size_t count, list;
    } spec[] = {
#define SPEC(name)                                                             \
    {"--" #name, offsetof(struct ipsq_options, name##_count),                  \
     offsetof(struct ipsq_options, name)}
        SPEC(machines), SPEC(map), SPEC(network), SPEC(move)};
    struct ipsq_options o;
    (void)state;
    for (size_t i = 0; i < sizeof(spec) / sizeof(*spec); i++) {
        unsigned count;
        const char *list[IPSQ_SPECS_MAX];
        assert_int_equal(times(spec[i].word, IPSQ_SPECS_MAX, &o), 0);
        memcpy(&count, (uint8_t *)&o + spec[i].count, sizeof(count));
        memcpy(list, (uint8_t *)&o + spec[i].list, sizeof(list));
        assert_int_equal(count, IPSQ_SPECS_MAX);
        assert_string_equal(list[0], "v0");
        assert_string_equal(list[IPSQ_SPECS_MAX - 1], "v15");
        assert_int_equal(times(spec[i].word, IPSQ_SPECS_MAX + 1, &o),
                         IPS_E_USAGE);
    }
    assert_int_equal(times("--procedure", IPSQ_EDITS_MAX, &o), 0);
    assert_int_equal(o.edit_count, IPSQ_EDITS_MAX);
    assert_string_equal(o.edit[63].procedure, "v63");
    assert_int_equal(times("--procedure", IPSQ_EDITS_MAX + 1, &o), IPS_E_USAGE);
}

static void test_limits__lengths(void **state)
{
    struct ipsq_options o;
    struct ips_err err = {0};
    char line[400] = "--lengths 1";
    (void)state;
    for (unsigned i = 2; i <= IPSQ_LENGTHS_MAX; i++)
        snprintf(line + strlen(line), sizeof(line) - strlen(line), ",%uk", i);
    assert_int_equal(parse(line, &o, &err), 0);
    assert_int_equal(o.length_count, IPSQ_LENGTHS_MAX);
    assert_int_equal(o.lengths[0], 1);
    assert_int_equal(o.lengths[1], 2048);
    assert_int_equal(o.lengths[IPSQ_LENGTHS_MAX - 1], 32 * 1024);
    strcat(line, ",5");
    assert_int_equal(parse(line, &o, &err), IPS_E_USAGE);
    assert_int_equal(parse("--lengths 1,,2", &o, &err), IPS_E_USAGE);
    assert_int_equal(parse("--lengths 4 --lengths 5,6", &o, &err), 0);
    assert_int_equal(o.length_count, 2); /* the last one said */
    assert_int_equal(o.lengths[0], 5);
}

/* ---- numbers ------------------------------------------------------------- */

static void test_limits__numbers(void **state)
{
    static const struct {
        const char *text;
        uint32_t num, den; /* 0: refused */
    } ratio[] = {
        {"9999", 9999, 1}, {"10000", 0, 0},        {"0.9999", 9999, 10000},
        {"0.99999", 0, 0}, {"1.3750", 1375, 1000}, {"12.345", 0, 0},
        {"0", 0, 1},       {"1.", 1, 1},           {".5", 5, 10},
        {"1e1", 0, 0}};
    uint64_t n;
    struct ips_err err;
    (void)state;
    for (size_t i = 0; i < sizeof(ratio) / sizeof(*ratio); i++) {
        uint32_t num = 7, den = 7;
        int rc =
            ipsq_parse_decimal_as_fraction(ratio[i].text, &num, &den, &err);
        if (rc != (ratio[i].den ? 0 : IPS_E_USAGE) ||
            (rc == 0 && (num != ratio[i].num || den != ratio[i].den)))
            fail_msg("'%s': %d, %u / %u", ratio[i].text, rc, num, den);
    }
    assert_int_equal(ipsq_parse_duration("4611686018.427387903s", &n, &err), 0);
    assert_int_equal(n, (1ULL << 62) - 1);
    assert_int_equal(ipsq_parse_duration("4611686018.427387904s", &n, &err),
                     IPS_E_USAGE);
    assert_int_equal(ipsq_parse_duration("18446744073709551616", &n, &err),
                     IPS_E_USAGE);
    assert_int_equal(ipsq_parse_bytes("1099511627776", &n, &err), 0);
    assert_int_equal(n, 1ULL << 40);
    assert_int_equal(ipsq_parse_bytes("1099511627777", &n, &err), IPS_E_USAGE);
    assert_int_equal(ipsq_parse_bytes("1099511627776m", &n, &err), 0);
    assert_int_equal(n, 1ULL << 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits__its_own_field),
        cmocka_unit_test(test_limits__texts),
        cmocka_unit_test(test_limits__beyond),
        cmocka_unit_test(test_limits__several_times),
        cmocka_unit_test(test_limits__lengths),
        cmocka_unit_test(test_limits__numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
