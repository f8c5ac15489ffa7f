/* Parses the options of ips-slave. `records` has one entry for each option;
 * --help prints them. */
#include "slave/options.h"

#include "common/address.h"
#include "proto/tls.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    OPT_POOL = 256,
    OPT_STATE,
    OPT_MACHINE,
    OPT_MASTER,
    OPT_TLS,
    OPT_INSECURE,
    OPT_LISTEN,
    OPT_PRIVATE,
    OPT_IDLE,
    OPT_ARCHIVE_MAX,
    OPT_ARCHIVE_AGE,
    OPT_MEMORY,
    OPT_VERSION
};

static const struct record {
    const char *name, *arg, *help;
    int code;
} records[] = {
    {"pool", "DIR",
     "pool to drain\n(default $IPS_POOL_ROOT, else /dev/shm/ips-UID)",
     OPT_POOL},
    {"state", "DIR",
     "where results are kept\n(default $IPS_STATE, else $XDG_STATE_HOME/ips)",
     OPT_STATE},
    {"machine", "NAME",
     "name of this machine\n(default $IPS_MACHINE, else the host name)",
     OPT_MACHINE},
    {"master", "ADDR",
     "master's address, unix:PATH, tcp:HOST:PORT or\n"
     "tls:HOST:PORT (default unix:STATE/master.sock)",
     OPT_MASTER},
    {"tls", "DIR",
     "keys for tls: addresses, as deploy/keys makes\n"
     "them (default $IPS_TLS)",
     OPT_TLS},
    {"insecure", NULL,
     "allow tcp: addresses that are not loopback: others\n"
     "on the network can read and change everything",
     OPT_INSECURE},
    {"listen", "ADDR",
     "address for other slaves, unix:PATH,\n"
     "tcp:HOST:PORT, tls:HOST:PORT or \"none\" (default\n"
     "unix:STATE/slave-MACHINE/peers.sock; with\n--private none)",
     OPT_LISTEN},
    {"private", NULL, "end when every run is archived and no question is\nopen",
     OPT_PRIVATE},
    {"idle", "SECONDS",
     "with --private: how long to wait for questions\n"
     "(default 10; 2 after a run)",
     OPT_IDLE},
    {"archive-max", "BYTES",
     "remove the oldest closed runs above this size\n"
     "(default 4G; K, M, G, T; 0 no limit)",
     OPT_ARCHIVE_MAX},
    {"archive-age", "DAYS",
     "remove closed runs older than this\n(default 30; 0 no limit)",
     OPT_ARCHIVE_AGE},
    {"memory", "BYTES",
     "memory limit for graphs; beyond it files are used\n"
     "(default a quarter of the machine's memory; K, M,\n"
     "G, T; 0 no limit)",
     OPT_MEMORY},
    {"foreground", NULL, "accepted; it always stays in the foreground", 'f'},
    {"help", NULL, "print this and exit", 'h'},
    {"version", NULL, "print the version and exit", OPT_VERSION},
};
#define RECORDS (sizeof(records) / sizeof(*records))

/* Prints `text`, with its second and later lines aligned below the first. */
static void print_aligned_text(const char *text)
{
    for (; *text; text++)
        if (*text == '\n')
            printf("\n%29s", "");
        else
            putchar(*text);
    putchar('\n');
}

static void print_help(void)
{
    printf("usage: ips-slave [OPTION]...\n\n"
           "Drains this machine's data pool into an archive and answers the "
           "master.\n\n");
    for (size_t i = 0; i < RECORDS; i++) {
        char left[48];
        snprintf(left, sizeof(left), "%s--%s%s%s",
                 records[i].code == 'f'   ? "-f, "
                 : records[i].code == 'h' ? "-h, "
                                          : "    ",
                 records[i].name, records[i].arg ? " " : "",
                 records[i].arg ? records[i].arg : "");
        printf("  %-26s ", left);
        print_aligned_text(records[i].help);
    }
}

static int report_option_error(const char *what, const char *value)
{
    fprintf(stderr, "ips-slave: %s: %s\nTry 'ips-slave --help'.\n", what,
            value);
    return -1;
}

/* Parses a number, optionally followed by K, M, G or T. */
static int parse_bytes(const char *text, uint64_t *out)
{
    static const char units[] = "KMGT";
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno || end == text || text[0] == '-')
        return -1;
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (unit) {
        unsigned shift = 10 * (unsigned)(unit - units + 1);
        if (v > UINT64_MAX >> shift)
            return -1;
        v <<= shift;
        end++;
    }
    *out = v;
    return *end ? -1 : 0;
}

static int parse_duration_in_unit(const char *text, double unit, double *out)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (errno || end == text || *end || !(v >= 0) || v * unit > 1e10)
        return -1;
    *out = v * unit;
    return 0;
}

static int copy_value(char *out, size_t len, const char *value,
                      const char *what)
{
    int n = snprintf(out, len, "%s", value);
    if (n <= 0 || (size_t)n >= len)
        return report_option_error(what, n ? "too long" : "empty");
    return 0;
}

static int apply_slave_option(struct slave_options *opt, int code,
                              const char *value)
{
    double seconds;
    struct ips_err err = {0};
    switch (code) {
    case OPT_POOL:
        return copy_value(opt->pool, sizeof(opt->pool), value, "--pool");
    case OPT_STATE:
        return copy_value(opt->state, sizeof(opt->state), value, "--state");
    case OPT_MACHINE:
        if (strchr(value, '/'))
            return report_option_error("--machine may not hold a slash", value);
        return copy_value(opt->machine, sizeof(opt->machine), value,
                          "--machine");
    case OPT_MASTER:
        return copy_value(opt->master, sizeof(opt->master), value, "--master");
    case OPT_TLS:
        return ips_tls_load_keys(value, &err) < 0
                   ? report_option_error("--tls", err.msg)
                   : 0;
    case OPT_INSECURE:
        ips_address_allow_insecure(true);
        return 0;
    case OPT_LISTEN:
        return copy_value(opt->listen, sizeof(opt->listen), value, "--listen");
    case OPT_PRIVATE:
        opt->is_private = true;
        return 0;
    case OPT_IDLE:
        if (parse_duration_in_unit(value, 1, &seconds) < 0)
            return report_option_error("--idle is not a number of seconds",
                                       value);
        opt->idle_ns = (uint64_t)(seconds * 1e9);
        opt->idle_given = true;
        return 0;
    case OPT_ARCHIVE_MAX:
        if (parse_bytes(value, &opt->archive_max_bytes) < 0)
            return report_option_error("--archive-max is not a number of bytes",
                                       value);
        return 0;
    case OPT_ARCHIVE_AGE:
        if (parse_duration_in_unit(value, 86400, &seconds) < 0)
            return report_option_error("--archive-age is not a number of days",
                                       value);
        opt->archive_age_s = (uint64_t)seconds;
        return 0;
    case OPT_MEMORY:
        if (parse_bytes(value, &opt->memory_bytes) < 0)
            return report_option_error("--memory is not a number of bytes",
                                       value);
        return 0;
    case 'f':
        opt->foreground = true;
        return 0;
    default: /* unknown option: getopt has printed the error */
        fprintf(stderr, "Try 'ips-slave --help'.\n");
        return -1;
    }
}

static uint64_t quarter_of_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || size <= 0)
        return (uint64_t)1 << 30;
    return (uint64_t)pages / 4 * (uint64_t)size;
}

/* Makes a path absolute, so that it names the same file for every process that
 * gets it, in logs, locks and IPS_POOL. */
static int make_absolute(char path[IPS_PATH_BYTES])
{
    char cwd[IPS_PATH_BYTES], full[2 * IPS_PATH_BYTES];
    if (path[0] == '/')
        return 0;
    if (!getcwd(cwd, sizeof(cwd)))
        return report_option_error("current directory", strerror(errno));
    snprintf(full, sizeof(full), "%s/%s", cwd, path);
    return copy_value(path, IPS_PATH_BYTES, full, "path");
}

/* Checks --listen, or sets its default: a socket in the slave's state
 * directory. If that path is too long for a socket, the slave starts without
 * listening. */
static int check_or_default_listen(struct slave_options *opt)
{
    struct ips_err err = {0};
    if (opt->listen[0]) {
        if (strcmp(opt->listen, "none") != 0 &&
            ips_address_check(opt->listen, &err) < 0)
            return report_option_error("--listen", err.msg);
        return 0;
    }
    /* A private slave does not listen: it is usually alone, and must not take
     * another slave's socket. */
    int n = opt->is_private ? -1
                            : snprintf(opt->listen, sizeof(opt->listen),
                                       "unix:%s/slave-%s/peers.sock",
                                       opt->state, opt->machine);
    if (n < 0 || (size_t)n >= sizeof(opt->listen) ||
        ips_address_check(opt->listen, &err) < 0)
        snprintf(opt->listen, sizeof(opt->listen), "none");
    return 0;
}

/* Checks that this machine has the keys for `address`. Without them no peer at
 * a tls: address would accept this slave. */
static int check_tls_keys(const char *address, const char *machine)
{
    struct ips_err err = {0};
    if (strncmp(address, "tls:", 4) == 0 &&
        ips_tls_check_own_role(address, IPS__HELLO__ROLE__SLAVE, machine,
                               &err) < 0)
        return report_option_error(address, err.msg);
    return 0;
}

static int fill_defaults_and_validate(struct slave_options *opt)
{
    struct ips_err err = {0};
    int rc = 0;
    if (!opt->pool[0])
        rc = ips_path_default_pool_root(opt->pool, &err);
    if (rc == 0 && !opt->state[0])
        rc = ips_path_default_state_directory(opt->state, &err);
    if (make_absolute(opt->pool) < 0 || make_absolute(opt->state) < 0)
        return -1;
    if (rc == 0 && !opt->master[0])
        rc = ips_path_default_master_address(opt->state, opt->master, &err);
    if (!opt->machine[0])
        ips_default_machine_name(opt->machine, sizeof(opt->machine));
    if (rc < 0)
        return report_option_error("cannot start", err.msg);
    if (strchr(opt->machine, '/') || opt->machine[0] == '.')
        return report_option_error("not a machine's name", opt->machine);
    if (check_tls_keys(opt->master, opt->machine) < 0 ||
        check_or_default_listen(opt) < 0)
        return -1;
    return check_tls_keys(opt->listen, opt->machine);
}

enum slave_options_result slave_options_parse(int argc, char **argv,
                                              struct slave_options *opt)
{
    struct option options[RECORDS + 1] = {0};
    for (size_t i = 0; i < RECORDS; i++)
        options[i] = (struct option){records[i].name, records[i].arg != NULL,
                                     NULL, records[i].code};
    *opt = (struct slave_options){.idle_ns = 10 * SLAVE_SECOND_NS,
                                  .archive_max_bytes = (uint64_t)4 << 30,
                                  .archive_age_s = 30 * 86400,
                                  .memory_bytes = quarter_of_memory()};
    int code;
    while ((code = getopt_long(argc, argv, "fh", options, NULL)) != -1) {
        if (code == 'h') {
            print_help();
            return SLAVE_EXIT_OK;
        }
        if (code == OPT_VERSION) {
            printf("ips-slave %s\n", IPS_VERSION);
            return SLAVE_EXIT_OK;
        }
        if (apply_slave_option(opt, code, optarg) < 0)
            return SLAVE_EXIT_USAGE;
    }
    if (optind < argc) {
        report_option_error("takes no argument", argv[optind]);
        return SLAVE_EXIT_USAGE;
    }
    return fill_defaults_and_validate(opt) < 0 ? SLAVE_EXIT_USAGE : SLAVE_RUN;
}
