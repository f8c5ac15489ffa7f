/* Options of ipsrun. docs/ipsrun.1 describes them too; a test compares the two.
 */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/ipsrun/ipsrun.h"
#include "agent/pool/format.h"
#include "common/address.h"
#include "common/ipsrun_values.h"
#include "common/nearest.h"

static const char help[] =
    "usage: ipsrun [options] [--] COMMAND [ARGUMENT...]\n"
    "Runs COMMAND as a measured program. Its output, exit status, signals and\n"
    "terminal are its own. Ask about the run with ipsq. On a terminal, one "
    "line at\n"
    "the end says how the command ended and what was recorded.\n"
    "\n"
    "  --name NAME         name of the run (default: command, time, random)\n"
    "  --join RUN          be part of RUN, which was started here or, with\n"
    "                      --master, on another machine (waits for it a "
    "while)\n"
    "  --tag K=V           note kept with the run; may be repeated\n"
    "  --pool DIR          data pool (default: $IPS_POOL_ROOT,\n"
    "                      else /dev/shm/ips-UID)\n"
    "  --machine NAME      name of this machine (default: $IPS_MACHINE,\n"
    "                      else the host name)\n"
    "  --state DIR         results and logs (default: $IPS_STATE,\n"
    "                      else $XDG_STATE_HOME/ips, else ~/.local/state/ips)\n"
    "  --master ADDR       address of the master: unix:PATH, tcp:HOST:PORT or\n"
    "                      tls:HOST:PORT (default: unix:STATE/master.sock)\n"
    "  --insecure          allow a tcp: address that is not loopback: others "
    "on\n"
    "                      the network can read and change everything\n"
    "  --procedures=WHAT   which procedures the time goes to: off, sample\n"
    "                      (default) or exact\n"
    "  --rate MS           CPU time of a thread between two samples, 1 to 100\n"
    "                      milliseconds (default: 10)\n"
    "  --budget PERCENT    of a thread's CPU time that --procedures=exact may\n"
    "                      take (default: 2)\n"
    "  --on-full=WHAT      when the pool is full: drop (count what is lost; "
    "the\n"
    "                      default), block (wait for the slave), ring (keep "
    "the\n"
    "                      newest)\n"
    "  --quota SIZE        room for this run in the pool: bytes, or with K, M, "
    "G\n"
    "                      (default: what is left of a quarter of the tmpfs)\n"
    "  --cpu=HOW           CPU time of threads: fast (default), exact (the\n"
    "                      clock is read after every block) or clock (at\n"
    "                      every event)\n"
    "  --locks=WHICH       record contended locks only (the default) or all: "
    "then\n"
    "                      ipsq predict also knows locks for which no thread\n"
    "                      waited\n"
    "  --arrivals          record when a datagram arrived, if it is read "
    "later\n"
    "                      (UDP; about 1 microsecond each)\n"
    "  --run-delay=HOW     on (default) or off: read how long threads queued "
    "for a\n"
    "                      core (some microseconds, every 2 ms at most)\n"
    "  --attach PID        not supported; prints what to do instead\n"
    "  --quiet             print neither the run's name nor the line at the "
    "end\n"
    "                      (also -q)\n"
    "  --exec              replace ipsrun with COMMAND on a terminal, too: no "
    "line\n"
    "                      at the end\n"
    "  --no-daemons        start neither slave nor master\n"
    "  --version           print the version\n"
    "  --help              print this\n";

enum {
    OPT_NAME = 256,
    OPT_JOIN,
    OPT_TAG,
    OPT_POOL,
    OPT_MACHINE,
    OPT_STATE,
    OPT_MASTER,
    OPT_INSECURE,
    OPT_PROCEDURES,
    OPT_RATE,
    OPT_BUDGET,
    OPT_ON_FULL,
    OPT_QUOTA,
    OPT_CPU,
    OPT_LOCKS,
    OPT_ARRIVALS,
    OPT_RUN_DELAY,
    OPT_ATTACH,
    OPT_QUIET,
    OPT_NO_DAEMONS,
    OPT_EXEC,
    OPT_VERSION,
    OPT_HELP,
};

static const struct option longs[] = {
    {"name", required_argument, NULL, OPT_NAME},
    {"join", required_argument, NULL, OPT_JOIN},
    {"tag", required_argument, NULL, OPT_TAG},
    {"pool", required_argument, NULL, OPT_POOL},
    {"machine", required_argument, NULL, OPT_MACHINE},
    {"state", required_argument, NULL, OPT_STATE},
    {"master", required_argument, NULL, OPT_MASTER},
    {"insecure", no_argument, NULL, OPT_INSECURE},
    {"procedures", required_argument, NULL, OPT_PROCEDURES},
    {"rate", required_argument, NULL, OPT_RATE},
    {"budget", required_argument, NULL, OPT_BUDGET},
    {"on-full", required_argument, NULL, OPT_ON_FULL},
    {"quota", required_argument, NULL, OPT_QUOTA},
    {"cpu", required_argument, NULL, OPT_CPU},
    {"locks", required_argument, NULL, OPT_LOCKS},
    {"arrivals", no_argument, NULL, OPT_ARRIVALS},
    {"run-delay", required_argument, NULL, OPT_RUN_DELAY},
    {"attach", required_argument, NULL, OPT_ATTACH},
    {"quiet", no_argument, NULL, OPT_QUIET},
    {"no-daemons", no_argument, NULL, OPT_NO_DAEMONS},
    {"exec", no_argument, NULL, OPT_EXEC},
    {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static int print_usage_failure(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));
static int print_usage_failure(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("ipsrun: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputs("\nTry 'ipsrun --help'.\n", stderr);
    va_end(ap);
    return IPSRUN_USAGE;
}

static int append_tag_option(struct ipsrun_options *o, const char *tag)
{
    const char *equal = strchr(tag, '=');
    if (!equal || equal == tag)
        return print_usage_failure("--tag %s: must be KEY=VALUE", tag);
    size_t at = 0, n = strlen(tag) + 1;
    while (o->tags[at])
        at += strlen(o->tags + at) + 1;
    if (at + n + 1 > sizeof(o->tags))
        return print_usage_failure(
            "all tags together are longer than %zu bytes", sizeof(o->tags) - 2);
    memcpy(o->tags + at, tag, n);
    return -1;
}

/* Stores the absolute form of `path` in `out`, because the daemons and the
 * run's programs may work in other directories. Returns -1, or prints a message
 * and returns the exit status. */
static int store_absolute_path(char out[IPS_PATH_BYTES], const char *option,
                               const char *path)
{
    char here[IPS_PATH_BYTES];
    int n;
    if (*path == '\0')
        return print_usage_failure("%s: empty path", option);
    if (*path == '/')
        n = snprintf(out, IPS_PATH_BYTES, "%s", path);
    else if (getcwd(here, sizeof(here)))
        n = snprintf(out, IPS_PATH_BYTES, "%s/%s", here, path);
    else
        return print_usage_failure(
            "%s %s: the current directory has no usable path", option, path);
    if (n < 0 || n >= IPS_PATH_BYTES)
        return print_usage_failure("%s: path longer than %d bytes", option,
                                   IPS_PATH_BYTES - 1);
    return -1;
}

_Static_assert(IPS_PROCEDURES_OFF == 0 && IPS_PROCEDURES_SAMPLE == 1 &&
                   IPS_PROCEDURES_EXACT == 2 && IPS_ON_FULL_DROP == 0 &&
                   IPS_ON_FULL_BLOCK == 1 && IPS_ON_FULL_RING == 2 &&
                   IPS_CPU_FAST == 0 && IPS_CPU_EXACT == 1 &&
                   IPS_CPU_CLOCK == 2 && IPS_LOCKS_CONTENDED == 0 &&
                   IPS_LOCKS_ALL == 1,
               "the order of common/ipsrun_values.h");

/* Stores the position of `text` among the values of `option` in *index and
 * returns -1; or prints a message and returns the exit status. */
static int find_value_index_or_print_usage(const char *option, const char *text,
                                           uint32_t *index)
{
    const char *const *values = ipsrun_values_of_option(option);
    char all[64] = "";
    for (uint32_t i = 0; values[i]; i++) {
        size_t at = strlen(all);
        if (strcmp(text, values[i]) == 0) {
            *index = i;
            return -1;
        }
        const char *separator = values[i + 1] ? ", " : " or ";
        snprintf(all + at, sizeof(all) - at, "%s%s", i ? separator : "",
                 values[i]);
    }
    return print_usage_failure("--%s=%s: %s", option, text, all);
}

static int parse_rate(struct ipsrun_options *o, const char *text)
{
    char *end;
    long ms = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || ms < 1 || ms > 100)
        return print_usage_failure("--rate %s: 1 to 100 milliseconds", text);
    o->sample_us = (uint32_t)ms * 1000;
    return -1;
}

static int parse_budget(struct ipsrun_options *o, const char *text)
{
    char *end;
    double percent = strtod(text, &end);
    if (*text < '0' || *text > '9' || *end != '\0' || !(percent >= 0.001) ||
        percent > 100)
        return print_usage_failure("--budget %s: 0.001 to 100 percent", text);
    o->budget_ppm = (uint32_t)(percent * 10000 + 0.5);
    return -1;
}

/* With a smaller quota a thread has no space for its first record. */
#define QUOTA_LEAST_BYTES (256u << 10)

static int parse_quota(struct ipsrun_options *o, const char *text)
{
    char *end;
    unsigned long long n = strtoull(text, &end, 10);
    const char *unit = *end ? strchr("KMG", *end) : NULL;
    unsigned shift = !unit ? 0 : *unit == 'K' ? 10 : *unit == 'M' ? 20 : 30;
    if (text[0] < '0' || text[0] > '9' || (*end && (!unit || end[1])) ||
        n > UINT64_MAX >> 31 || n << shift < QUOTA_LEAST_BYTES)
        return print_usage_failure(
            "--quota %s: a number of bytes, or with K, M or G; at "
            "least 256K",
            text);
    o->quota_bytes = n << shift;
    return -1;
}

/* Stores the value of one option in *o. Returns -1 to continue with the next
 * option, or an exit status to end with. */
static int apply_ipsrun_option(struct ipsrun_options *o, int option,
                               const char *value)
{
    uint32_t which = 0;
    int n = 0;
    switch (option) {
    case OPT_NAME:
        o->name = value;
        return -1;
    case OPT_JOIN:
        o->join = value;
        return -1;
    case OPT_TAG:
        return append_tag_option(o, value);
    case OPT_POOL:
        return store_absolute_path(o->pool, "--pool", value);
    case OPT_STATE:
        return store_absolute_path(o->state, "--state", value);
    case OPT_MACHINE:
        n = snprintf(o->machine, sizeof(o->machine), "%s", value);
        if (n < 1 || n >= (int)sizeof(o->machine) || strchr(value, '/'))
            return print_usage_failure("--machine: 1 to %zu bytes, no '/'",
                                       sizeof(o->machine) - 1);
        return -1;
    case OPT_MASTER:
        n = snprintf(o->master, sizeof(o->master), "%s", value);
        if (n < 1 || n >= (int)sizeof(o->master))
            return print_usage_failure("--master: 1 to %zu bytes",
                                       sizeof(o->master) - 1);
        return -1;
    case OPT_INSECURE:
        o->insecure = true;
        ips_address_allow_insecure(true);
        return -1;
    case OPT_PROCEDURES:
        return find_value_index_or_print_usage("procedures", value,
                                               &o->procedures);
    case OPT_RATE:
        return parse_rate(o, value);
    case OPT_BUDGET:
        return parse_budget(o, value);
    case OPT_ON_FULL:
        return find_value_index_or_print_usage("on-full", value, &o->on_full);
    case OPT_QUOTA:
        return parse_quota(o, value);
    case OPT_CPU:
        n = find_value_index_or_print_usage("cpu", value, &which);
        o->cpu_mode = (enum ips_cpu_mode)which;
        return n;
    case OPT_LOCKS:
        n = find_value_index_or_print_usage("locks", value, &which);
        o->locks = (enum ips_locks)which;
        return n;
    case OPT_ARRIVALS:
        o->receive_stamps = true;
        return -1;
    case OPT_RUN_DELAY:
        n = find_value_index_or_print_usage("run-delay", value, &which);
        o->no_delays = which == 1; /* the second value of --run-delay: off */
        return n;
    case OPT_ATTACH:
        return print_usage_failure(
            "--attach %s is not supported: a process can only be "
            "recorded from its start. Restart it under ipsrun (a "
            "service: put 'ipsrun --' before its command); its "
            "children are recorded, too.",
            value);
    case 'q':
    case OPT_QUIET:
        o->quiet = true;
        return -1;
    case OPT_NO_DAEMONS:
        o->no_daemons = true;
        return -1;
    case OPT_EXEC:
        o->exec = true;
        return -1;
    case OPT_VERSION:
        puts("ipsrun " IPS_VERSION);
        return 0;
    case OPT_HELP:
        fputs(help, stdout);
        return 0;
    default: /* print_option_error() prints the message */
        return IPSRUN_USAGE;
    }
}

/* Prints a message about an unknown option or one without its value; `word` is
 * the option as typed. Returns the exit status. */
static int print_option_error(int option, const char *word)
{
    struct ips_nearest near;
    char typed[64], name[64];
    if (option == ':')
        return print_usage_failure("option %s needs a value", word);
    snprintf(typed, sizeof(typed), "%.*s", (int)strcspn(word, "="), word);
    ips_nearest_start_search(&near, typed);
    for (const struct option *o = longs; strlen(typed) > 2 && o->name; o++) {
        snprintf(name, sizeof(name), "--%s", o->name);
        ips_nearest_consider_candidate(&near, name);
    }
    return print_usage_failure("no such option: %s%s", word,
                               ips_nearest_format_suggestion(&near));
}

static int fill_missing_options(struct ipsrun_options *o)
{
    struct ips_err err = {0};
    char path[IPS_PATH_BYTES];
    int rc = 0;
    if (!*o->pool && (rc = ips_path_default_pool_root(path, &err)) == 0 &&
        store_absolute_path(o->pool, "IPS_POOL_ROOT", path) >= 0)
        return IPSRUN_USAGE;
    o->state_given = *o->state != '\0';
    if (rc == 0 && !*o->state &&
        (rc = ips_path_default_state_directory(path, &err)) == 0 &&
        store_absolute_path(o->state, "IPS_STATE", path) >= 0)
        return IPSRUN_USAGE;
    o->master_set = *o->master != '\0';
    if (*o->master && ips_address_check(o->master, &err) < 0)
        return print_usage_failure("--master: %s", err.msg);
    if (rc == 0 && !*o->master)
        rc = ips_path_default_master_address(o->state, o->master, &err);
    if (!*o->machine)
        ips_default_machine_name(o->machine, sizeof(o->machine));
    return rc < 0 ? print_usage_failure("%s", err.msg) : -1;
}

int ipsrun_parse_options(struct ipsrun_options *o, int argc, char **argv)
{
    *o = (struct ipsrun_options){.procedures = IPS_PROCEDURES_SAMPLE,
                                 .sample_us = 10000,
                                 .budget_ppm = 20000};
    opterr = 0;
    for (;;) {
        int word = optind, option = getopt_long(argc, argv, "+:q", longs, NULL);
        if (option == -1)
            break;
        int status = option == '?' || option == ':'
                         ? print_option_error(option, argv[word])
                         : apply_ipsrun_option(o, option, optarg);
        if (status >= 0)
            return status;
    }
    if (o->name && o->join)
        return print_usage_failure(
            "--name makes a run, --join takes one: give one of them");
    if (optind >= argc)
        return print_usage_failure("no command given");
    o->command = argv + optind;
    return fill_missing_options(o);
}
