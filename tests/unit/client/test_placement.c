/*
 * The options of `ipsq predict` for machines, maps, networks and moves
 * (client/base/placement.h): what each text means, field by field, and in which
 * words it is refused. Would catch: a value that is another field's, blanks or
 * comments taken for names, a limit off by one, an entry lost between two
 * separators, and (by the blocks that are left) memory that is not given back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <unistd.h>

#include "client/base/placement.h"
#include "tests/support/live_blocks.h"

#define MAP_BYTES (16u << 20) /* of a file, at most */

typedef int parse(struct ipsq_placing *p, const char *spec,
                  struct ips_err *err);

static struct ipsq_placing p;
static char got[2000];

static void add(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void add(const char *format, ...)
{
    size_t at = strlen(got);
    va_list args;
    va_start(args, format);
    vsnprintf(got + at, sizeof(got) - at, format, args);
    va_end(args);
}

/* "name cores speed load taken recorded turn|" of each machine, and so on. */
static void describe(void)
{
    got[0] = '\0';
    for (size_t i = 0; i < p.machine_count; i++) {
        const Ips__PredictMachine *m = p.machine[i];
        add("%s %u %u/%u %u/%u %u/%u %d %d:%llu|", m->name, m->cores,
            m->speed_num, m->speed_den, m->load_num, m->load_den, m->taken_num,
            m->taken_den, m->load_recorded, m->turn_said,
            (unsigned long long)m->turn_ns);
    }
    for (size_t i = 0; i < p.placement_count; i++)
        add("%s=%s|", p.placement[i]->what, p.placement[i]->machine);
    for (size_t i = 0; i < p.net_count; i++) {
        const Ips__PredictNet *n = p.net[i];
        add("%s>%s %d %d %llu %llu x%u/%u @%s|", n->from, n->to, n->both,
            n->given, (unsigned long long)n->base_ns,
            (unsigned long long)n->per_byte_q32, n->scale_num, n->scale_den,
            n->medium);
    }
    for (size_t i = 0; i < p.move_count; i++)
        add("%s@%llu=%s|", p.move[i]->what,
            (unsigned long long)p.move[i]->at_ns, p.move[i]->machine);
}

static void means(parse *of, const char *spec, const char *want)
{
    struct ips_err err = {0};
    long blocks = live_blocks();
    if (of(&p, spec, &err) < 0)
        fail_msg("%s: %s", spec, err.msg);
    describe();
    ipsq_placing_release(&p);
    if (strcmp(got, want) != 0)
        fail_msg("%s: %s", spec, got);
    assert_int_equal(live_blocks(), blocks);
}

static void refused(parse *of, const char *spec, const char *want)
{
    struct ips_err err = {0};
    long blocks = live_blocks();
    int rc = of(&p, spec, &err);
    if (rc != IPS_E_USAGE || strncmp(err.msg, want, strlen(want)) != 0)
        fail_msg("%s: %d %s", spec, rc, err.msg);
    ipsq_placing_release(&p);
    assert_int_equal(live_blocks(), blocks);
}

static void test_placement__machines(void **state)
{
    parse *of = ipsq_placing_parse_machines;
    (void)state;
    means(of, "", "");
    means(of, "one", "one 0 0/0 0/0 0/0 0 0:0|");
    means(of, " one : cores=2 , speed=1.5 ,, load=0.25; two:load=25%,turn=3ms ",
          "one 2 15/10 25/100 0/0 0 0:0|two 0 0/0 0/0 2500/10000 0 "
          "1:3000000|");
    means(of, "a:load=recorded,\n\r\nb:cores=4294967295;;",
          "a 0 0/0 0/0 0/0 1 0:0|b 4294967295 0/0 0/0 0/0 0 0:0|");
    means(of, "a:load=99.9%", "a 0 0/0 0/0 9990/10000 0 0:0|");
    refused(of, "a;:cores=2",
            "--machines: a machine without a name; the form is "
            "'one:cores=2,speed=1.5,load=0;two:cores=4'");
    refused(of, "a:cores=0", "machine a: cores=0: ");
    refused(of, "a:cores=4294967296",
            "machine a: cores=4294967296: "
            "4294967296 cores");
    refused(of, "b:speed=fast", "machine b: speed=fast: ");
    refused(of, "b:load=100%", "machine b: load=100%: must be below 100%");
    refused(of, "b:turn=soon", "machine b: turn=soon: ");
    refused(of, "b:memory=3",
            "machine b: memory=3: not one of cores=N, speed=X, load=B, "
            "load=P%, load=recorded, turn=TIME");
}

static void test_placement__most_machines(void **state)
{
    char spec[4 * (IPSQ_MACHINES_MAX + 1) + 1];
    struct ips_err err = {0};
    (void)state;
    for (size_t i = 0; i <= IPSQ_MACHINES_MAX; i++)
        memcpy(spec + 2 * i, "m;", 3);
    refused(ipsq_placing_parse_machines, spec, "more than 1000 machines");
    spec[2 * (IPSQ_MACHINES_MAX)] = '\0';
    assert_int_equal(ipsq_placing_parse_machines(&p, spec, &err), 0);
    assert_int_equal(p.machine_count, IPSQ_MACHINES_MAX);
    ipsq_placing_release(&p);
}

static void test_placement__maps(void **state)
{
    parse *of = ipsq_placing_parse_map;
    (void)state;
    means(of, "a.3=one", "a.3=one|");
    means(of, " a.3 = one ,,\tb* = two,", "a.3=one|b*=two|");
    means(of, "# a=x, b=y\nc=z,#d=w\n", "c=z|#d=w|");
    means(of, "a=b=c", "a=b=c|");
    refused(of, "a=one,b", "--map: 'b' is not of the form PROCESS=MACHINE");
    refused(of, "a= ,b=x", "--map: 'a= ' is not of the form PROCESS=MACHINE");
    refused(of, " =one", "--map: ' =one' is not of the form PROCESS=MACHINE");
}

/* As many as there may be, but for one. */
static void test_placement__most_entries(void **state)
{
    struct ips_err err = {0};
    (void)state;
    p.placement = calloc(IPSQ_PLACES_MAX, sizeof(*p.placement));
    assert_non_null(p.placement);
    for (; p.placement_count < IPSQ_PLACES_MAX - 1; p.placement_count++) {
        p.placement[p.placement_count] = calloc(1, sizeof(Ips__PredictPlace));
        assert_non_null(p.placement[p.placement_count]);
    }
    assert_int_equal(ipsq_placing_parse_map(&p, "a=b", &err), 0);
    assert_int_equal(p.placement_count, IPSQ_PLACES_MAX);
    assert_int_equal(ipsq_placing_parse_map(&p, "a=b", &err), IPS_E_USAGE);
    assert_string_equal(err.msg, "the map has more than 100000 entries");
    ipsq_placing_release(&p);
}

/* A file of so many bytes, which begins so; the rest is blank. */
static void make_file(const char *path, const char *begin, size_t bytes)
{
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(begin, f) >= 0);
    for (size_t i = strlen(begin); i < bytes; i++)
        putc(' ', f);
    assert_int_equal(fclose(f), 0);
}

static void test_placement__map_files(void **state)
{
    char path[] = "/tmp/ips-test-placement-XXXXXX", text[200];
    struct ips_err err = {0};
    int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    close(fd);
    make_file(path, "# whose\r\na = one\r\n\r\nb=two,c=one", 0);
    means(ipsq_placing_parse_map, path, "a=one|b=two|c=one|");
    make_file(path, "a=one\n", MAP_BYTES);
    means(ipsq_placing_parse_map, path, "a=one|");
    make_file(path, "a=one\n", MAP_BYTES + 1);
    snprintf(text, sizeof(text), "--map %s: longer than 16777216 bytes", path);
    refused(ipsq_placing_parse_map, path, text);
    unlink(path);
    assert_true(ipsq_placing_parse_map(&p, path, &err) < 0);
    snprintf(text, sizeof(text),
             "--map '%s' is neither PROCESS=MACHINE nor a readable file", path);
    assert_int_equal(strncmp(err.msg, text, strlen(text)), 0);
}

static void test_placement__networks(void **state)
{
    static const char form[] =
        "is not of the form FROM>TO=TIME, FROM<>TO=TIME; TIME is BASE+PER_BYTE "
        "or xN, optionally followed by @MEDIUM";
    parse *of = ipsq_placing_parse_network;
    char text[300];
    (void)state;
    means(of, "one>two=100us+8ns@bus",
          "one>two 0 1 100000 34359738368 x0/0 @bus|");
    means(of, " one <> two = x0.5 ;\n*>*=@air;",
          "one>two 1 0 0 0 x5/10 @|*>* 0 0 0 0 x0/0 @air|");
    means(of, "a>b=7ns", "a>b 0 1 7 0 x0/0 @|");
    static const char *const bad[] = {"a",       "a=7ns",   "a=7ns>b", ">b=7ns",
                                      "<>b=7ns", "a> =7ns", "a>=7ns"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        snprintf(text, sizeof(text), "--network: '%s", bad[i]);
        refused(of, bad[i],
                strchr(bad[i], ' ') || bad[i][1] == '>' || bad[i][0] == '<'
                    ? "--network: '"
                    : text);
    }
    snprintf(text, sizeof(text), "--network: 'a' %s", form);
    refused(of, "a", text);
    refused(of, "a>b=1us@", "--network: a medium without a name");
    refused(of, "a>b=", "--network: '' is not of the form");
    refused(of, "a>b=soon", "");
    refused(of, "a>b=xfast", "");
}

static void test_placement__moves(void **state)
{
    parse *of = ipsq_placing_parse_moves;
    (void)state;
    means(of, "a.3@1.5s=two", "a.3@1500000000=two|");
    means(of, " a @ 1us = two ,,b*@20ms=one\n", "a@1000=two|b*@20000000=one|");
    means(of, "a@1s=x@y", "a@1000000000=x@y|");
    static const char *const bad[] = {"a=one", "@1s=one", "a@1s=", "a@1s",
                                      "a=x@1s"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char text[100];
        snprintf(text, sizeof(text),
                 "--move: '%s' is not of the form PROCESS@TIME=MACHINE",
                 bad[i]);
        refused(of, bad[i], text);
    }
    refused(of, "a@soon=one", "'soon' is not a duration");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_placement__machines),
        cmocka_unit_test(test_placement__most_machines),
        cmocka_unit_test(test_placement__maps),
        cmocka_unit_test(test_placement__most_entries),
        cmocka_unit_test(test_placement__map_files),
        cmocka_unit_test(test_placement__networks),
        cmocka_unit_test(test_placement__moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
