/* ipsrun's options: what each one stores and nothing else, the bounds of every
 * value, and what is said of a wrong one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/ipsrun/ipsrun.h"
#include "agent/pool/format.h"
#include "common/address.h"

#define WORDS 40
static char said[8192]; /* on standard error and output, both */

static int parse(struct ipsrun_options *o, const char *const *words)
{
    static char copies[WORDS][700];
    static char *argv[WORDS];
    FILE *to = tmpfile();
    int argc = 1, kept[2] = {dup(1), dup(2)};
    argv[0] = copies[0];
    strcpy(copies[0], "ipsrun");
    for (; words[argc - 1]; argc++) {
        snprintf(copies[argc], sizeof(copies[argc]), "%s", words[argc - 1]);
        argv[argc] = copies[argc];
    }
    argv[argc] = NULL;
    fflush(NULL);
    for (int i = 0; i < 2; i++)
        dup2(fileno(to), 1 + i);
    optind = 0; /* getopt forgets what it read before; then it begins at 1 */
    assert_int_equal(getopt(1, argv, "+"), -1);
    int status = ipsrun_parse_options(o, argc, argv);
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        dup2(kept[i], 1 + i);
        close(kept[i]);
    }
    rewind(to);
    said[fread(said, 1, sizeof(said) - 1, to)] = '\0';
    fclose(to);
    return status;
}
#define PARSE(o, ...) parse(o, (const char *const[]){__VA_ARGS__, NULL})

static int begin(void **state)
{
    (void)state;
    return setenv("IPS_POOL_ROOT", "/dev/shm/a-pool", 1) ||
           setenv("IPS_STATE", "/tmp/a-state", 1) ||
           setenv("IPS_MACHINE", "a-machine", 1);
}

static void check_defaults(const struct ipsrun_options *o)
{
    assert_null(o->name);
    assert_null(o->join);
    assert_string_equal(o->tags, "");
    assert_string_equal(o->pool, "/dev/shm/a-pool");
    assert_string_equal(o->state, "/tmp/a-state");
    assert_string_equal(o->master, "unix:/tmp/a-state/master.sock");
    assert_string_equal(o->machine, "a-machine");
    assert_int_equal(o->procedures, IPS_PROCEDURES_SAMPLE);
    assert_int_equal(o->sample_us, 10000);
    assert_int_equal(o->budget_ppm, 20000);
    assert_int_equal(o->on_full, IPS_ON_FULL_DROP);
    assert_int_equal(o->quota_bytes, 0);
    assert_int_equal(o->cpu_mode, IPS_CPU_FAST);
    assert_int_equal(o->locks, IPS_LOCKS_CONTENDED);
    assert_false(o->receive_stamps || o->no_delays || o->quiet ||
                 o->no_daemons || o->exec || o->insecure || o->state_given ||
                 o->master_set);
}

/* Would catch: a default that is another one; an option of the command taken
 * for ipsrun's. */
static void test_ipsrun_options__none(void **state)
{
    struct ipsrun_options o;
    (void)state;
    assert_int_equal(PARSE(&o, "command", "--quiet", "-x"), -1);
    assert_string_equal(said, "");
    check_defaults(&o);
    assert_string_equal(o.command[0], "command");
    assert_string_equal(o.command[1], "--quiet");
    assert_string_equal(o.command[2], "-x");
    assert_null(o.command[3]);
    assert_int_equal(PARSE(&o, "--", "--quiet"), -1);
    check_defaults(&o);
    assert_string_equal(o.command[0], "--quiet");
}

static void test_ipsrun_options__each(void **state)
{
    struct ipsrun_options o;
    char here[PATH_MAX], want[PATH_MAX + 100];
    (void)state;
    assert_int_equal(
        PARSE(&o, "--name", "a run", "--tag", "k=v", "--tag=long=a=b", "--pool",
              "/p", "--machine", "m", "--state", "/s", "--master", "unix:/x",
              "--procedures=exact", "--rate", "7", "--budget", "0.05",
              "--on-full=ring", "--quota", "3M", "--cpu=clock", "--locks=all",
              "--arrivals", "--run-delay=off", "--quiet", "--exec",
              "--no-daemons", "c"),
        -1);
    assert_string_equal(said, "");
    assert_string_equal(o.name, "a run");
    assert_memory_equal(o.tags, "k=v\0long=a=b\0", 14);
    assert_string_equal(o.pool, "/p");
    assert_string_equal(o.machine, "m");
    assert_string_equal(o.state, "/s");
    assert_string_equal(o.master, "unix:/x");
    assert_int_equal(o.procedures, IPS_PROCEDURES_EXACT);
    assert_int_equal(o.sample_us, 7000);
    assert_int_equal(o.budget_ppm, 500);
    assert_int_equal(o.on_full, IPS_ON_FULL_RING);
    assert_int_equal(o.quota_bytes, 3u << 20);
    assert_int_equal(o.cpu_mode, IPS_CPU_CLOCK);
    assert_int_equal(o.locks, IPS_LOCKS_ALL);
    assert_true(o.receive_stamps && o.no_delays && o.quiet && o.no_daemons &&
                o.exec && o.state_given && o.master_set);
    assert_false(o.insecure);
    assert_string_equal(o.command[0], "c");
    /* each of the flags alone */
    assert_int_equal(PARSE(&o, "--join", "other", "--quiet", "c"), -1);
    assert_string_equal(o.join, "other");
    assert_true(o.quiet && !o.exec && !o.no_daemons && !o.receive_stamps);
    assert_int_equal(PARSE(&o, "--exec", "--run-delay=on", "c"), -1);
    assert_true(o.exec && !o.quiet && !o.no_daemons && !o.no_delays);
    assert_int_equal(PARSE(&o, "--no-daemons", "--cpu=exact", "c"), -1);
    assert_true(o.no_daemons && !o.quiet && !o.exec);
    assert_int_equal(o.cpu_mode, IPS_CPU_EXACT);
    assert_int_equal(PARSE(&o, "--on-full=block", "--procedures=off", "c"), -1);
    assert_int_equal(o.on_full, IPS_ON_FULL_BLOCK);
    assert_int_equal(o.procedures, IPS_PROCEDURES_OFF);
    /* paths become absolute */
    assert_non_null(getcwd(here, sizeof(here)));
    assert_int_equal(PARSE(&o, "--pool", "below", "--state=b/c", "c"), -1);
    snprintf(want, sizeof(want), "%s/below", here);
    assert_string_equal(o.pool, want);
    snprintf(want, sizeof(want), "%s/b/c", here);
    assert_string_equal(o.state, want);
    assert_true(o.state_given && !o.master_set);
    snprintf(want, sizeof(want), "unix:%s/b/c/master.sock", here);
    assert_string_equal(o.master, want);
}

/* Would catch: a bound that is one off, a unit that is another one. */
static void test_ipsrun_options__bounds(void **state)
{
    static const struct {
        const char *option, *value;
        uint64_t stored; /* 0: refused */
    } cases[] = {
        {"--rate", "1", 1000},
        {"--rate", "100", 100000},
        {"--rate", "0", 0},
        {"--rate", "101", 0},
        {"--rate", "", 0},
        {"--rate", " 5", 0},
        {"--rate", "+5", 0},
        {"--rate", "5x", 0},
        {"--rate", "9", 9000},
        {"--budget", "0.001", 10},
        {"--budget", "0.0009", 0},
        {"--budget", "100", 1000000},
        {"--budget", "100.01", 0},
        {"--budget", "9.99996", 100000},
        {"--budget", "2.5%", 0},
        {"--budget", "nan", 0},
        {"--budget", "", 0},
        {"--quota", "256K", 256u << 10},
        {"--quota", "255K", 0},
        {"--quota", "262144", 262144},
        {"--quota", "262143", 0},
        {"--quota", "1M", 1u << 20},
        {"--quota", "2G", 2ull << 30},
        {"--quota", "8589934591G", 8589934591ull << 30},
        {"--quota", "8589934592G", 0},
        {"--quota", "1T", 0},
        {"--quota", "1MB", 0},
        {"--quota", "0", 0},
        {"--quota", "-1M", 0},
        {"--quota", "9", 0},
        {"--quota", "", 0},
    };
    struct ipsrun_options o;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int status = PARSE(&o, cases[i].option, cases[i].value, "c");
        assert_int_equal(status, cases[i].stored ? -1 : IPSRUN_USAGE);
        const uint64_t is = cases[i].option[2] == 'r'   ? o.sample_us
                            : cases[i].option[2] == 'b' ? o.budget_ppm
                                                        : o.quota_bytes;
        if (cases[i].stored)
            assert_int_equal(is, cases[i].stored);
        else
            assert_non_null(strstr(said, cases[i].option));
    }
}

static const char *of(char c, size_t n)
{
    static char text[700];
    memset(text, c, n);
    text[n] = '\0';
    return text;
}

static void test_ipsrun_options__lengths(void **state)
{
    struct ipsrun_options o;
    char tag[1000], path[1000];
    (void)state;
    assert_int_equal(PARSE(&o, "--machine", of('m', 63), "c"), -1);
    assert_string_equal(o.machine, of('m', 63));
    assert_int_equal(PARSE(&o, "--machine", of('m', 64), "c"), IPSRUN_USAGE);
    assert_string_equal(said, "ipsrun: --machine: 1 to 63 bytes, no '/'\n"
                              "Try 'ipsrun --help'.\n");
    assert_int_equal(PARSE(&o, "--machine", "", "c"), IPSRUN_USAGE);
    assert_int_equal(PARSE(&o, "--machine", "a/b", "c"), IPSRUN_USAGE);
    assert_int_equal(PARSE(&o, "--master", "", "c"), IPSRUN_USAGE);
    assert_int_equal(PARSE(&o, "--master", of('x', IPS_PATH_BYTES), "c"),
                     IPSRUN_USAGE);
    assert_non_null(strstr(said, "--master: 1 to"));
    assert_int_equal(PARSE(&o, "--master", "x", "c"), IPSRUN_USAGE);
    assert_non_null(strstr(said, "ipsrun: --master: "));
    /* all tags, their NULs and the empty one that ends them: 256 bytes */
    snprintf(tag, sizeof(tag), "k=%s", of('v', 252));
    assert_int_equal(PARSE(&o, "--tag", tag, "c"), -1);
    assert_string_equal(o.tags, tag);
    snprintf(tag, sizeof(tag), "k=%s", of('v', 253));
    assert_int_equal(PARSE(&o, "--tag", tag, "c"), IPSRUN_USAGE);
    assert_string_equal(said, "ipsrun: all tags together are longer than 254 "
                              "bytes\nTry 'ipsrun --help'.\n");
    snprintf(tag, sizeof(tag), "k=%s", of('v', 248));
    assert_int_equal(PARSE(&o, "--tag", "a=", "--tag", tag, "c"), -1);
    snprintf(tag, sizeof(tag), "k=%s", of('v', 250));
    assert_int_equal(PARSE(&o, "--tag", "a=", "--tag", tag, "c"), IPSRUN_USAGE);
    assert_int_equal(PARSE(&o, "--tag", "=v", "c"), IPSRUN_USAGE);
    assert_int_equal(PARSE(&o, "--tag", "v", "c"), IPSRUN_USAGE);
    assert_non_null(strstr(said, "--tag v: must be KEY=VALUE"));
    snprintf(path, sizeof(path), "/%s", of('p', IPS_PATH_BYTES - 2));
    assert_int_equal(PARSE(&o, "--pool", path, "c"), -1);
    assert_string_equal(o.pool, path);
    snprintf(path, sizeof(path), "/%s", of('p', IPS_PATH_BYTES - 1));
    assert_int_equal(PARSE(&o, "--pool", path, "c"), IPSRUN_USAGE);
    assert_non_null(strstr(said, "--pool: path longer than"));
    assert_int_equal(PARSE(&o, "--state", "", "c"), IPSRUN_USAGE);
    assert_non_null(strstr(said, "--state: empty path"));
}

static void test_ipsrun_options__messages(void **state)
{
    static const struct {
        const char *words[4], *message;
    } cases[] = {
        {{"--procedures=all", "c"}, "--procedures=all: off, sample or exact"},
        {{"--on-full=", "c"}, "--on-full=: drop, block or ring"},
        {{"--cpu=no", "c"}, "--cpu=no: fast, exact or clock"},
        {{"--locks=none", "c"}, "--locks=none: contended or all"},
        {{"--run-delay=1", "c"}, "--run-delay=1: on or off"},
        {{"--name"}, "option --name needs a value"},
        {{"--name=a", "--join=b", "c"},
         "--name makes a run, --join takes one: give one of them"},
        {{"--quiet"}, "no command given"},
        {{"--", NULL}, "no command given"},
        {{"-x", "c"}, "no such option: -x"},
        {{"--nonsense=7", "c"}, "no such option: --nonsense=7"},
        {{"--attach", "12", "c"}, "--attach 12 is not supported"},
    };
    struct ipsrun_options o;
    char begins[200];
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(parse(&o, cases[i].words), IPSRUN_USAGE);
        int n =
            snprintf(begins, sizeof(begins), "ipsrun: %s", cases[i].message);
        assert_memory_equal(said, begins, (size_t)n);
        assert_non_null(strstr(said, "\nTry 'ipsrun --help'.\n"));
    }
    assert_int_equal(PARSE(&o, "--quite", "c"), IPSRUN_USAGE);
    assert_non_null(strstr(said, "--quiet"));
    assert_int_equal(PARSE(&o, "--version", "--nonsense"), 0);
    assert_string_equal(said, "ipsrun " IPS_VERSION "\n");
    assert_int_equal(PARSE(&o, "--help"), 0);
    assert_memory_equal(said, "usage: ipsrun [options]", 23);
}

/* Would catch: an address that others can reach allowed without being asked
 * for. */
static void test_ipsrun_options__insecure(void **state)
{
    struct ipsrun_options o;
    (void)state;
    ips_address_allow_insecure(false);
    assert_int_equal(PARSE(&o, "--master=tcp:192.0.2.1:7", "c"), IPSRUN_USAGE);
    assert_int_equal(PARSE(&o, "--insecure", "--master=tcp:192.0.2.1:7", "c"),
                     -1);
    assert_true(o.insecure && o.master_set);
    assert_string_equal(o.master, "tcp:192.0.2.1:7");
    ips_address_allow_insecure(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ipsrun_options__none),
        cmocka_unit_test(test_ipsrun_options__each),
        cmocka_unit_test(test_ipsrun_options__bounds),
        cmocka_unit_test(test_ipsrun_options__lengths),
        cmocka_unit_test(test_ipsrun_options__messages),
        cmocka_unit_test(test_ipsrun_options__insecure),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
