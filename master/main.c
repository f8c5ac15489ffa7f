/* ips-master: the daemon that asks the slaves and answers the clients. */
#include <event2/event.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/address.h"
#include "common/log.h"
#include "master/base/master.h"
#include "proto/tls.h"

static const char usage[] =
    "usage: ips-master [--listen ADDR] [--tls DIR] [--insecure] [--state DIR]\n"
    "                  [--private] [--idle N] [--foreground]\n"
    "\n"
    "Coordinates the slaves of all machines, computes what needs several "
    "machines,\n"
    "and answers ipsq.\n"
    "\n"
    "  --listen ADDR     unix:PATH, tcp:HOST:PORT on loopback, or\n"
    "                    tls:HOST:PORT (default unix:STATE/master.sock)\n"
    "  --tls DIR         keys for tls: addresses, as deploy/keys makes them\n"
    "                    (default $IPS_TLS)\n"
    "  --insecure        allow tcp: addresses that are not loopback: others "
    "on\n"
    "                    the network can read and change everything\n"
    "  --state DIR       directory of the catalogue (default: $IPS_STATE,\n"
    "                    else $XDG_STATE_HOME/ips or ~/.local/state/ips)\n"
    "  --private         end when no slave and no client has been connected\n"
    "                    for --idle seconds\n"
    "  --idle SECONDS    seconds before a private master ends (default 10)\n"
    "  -f, --foreground  accepted; it always stays in the foreground\n"
    "  -h, --help        print this\n"
    "      --version     print the version\n"
    "\n"
    "It logs to standard error. IPS_LOG sets the level: error, warn, info or "
    "debug.\n"
    "It stays in the foreground: a service manager starts it, or ipsrun if it\n"
    "needs a private one.\n";

struct options {
    struct master_options master;
    char state[IPS_PATH_BYTES];
};

static int parse_idle_seconds(const char *text, unsigned *out)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || value == 0 || value > 86400) {
        fprintf(stderr, "ips-master: --idle %s: 1 to 86400 seconds\n", text);
        return -1;
    }
    *out = (unsigned)value;
    return 0;
}

/* Returns 0: continue; 1: exit with status 0; -1: wrong usage. */
static int parse_options(int argc, char **argv, struct options *o)
{
    enum {
        OPT_LISTEN = 256,
        OPT_TLS,
        OPT_INSECURE,
        OPT_STATE,
        OPT_PRIVATE,
        OPT_IDLE,
        OPT_VERSION
    };
    static const struct option longs[] = {
        {"listen", required_argument, NULL, OPT_LISTEN},
        {"tls", required_argument, NULL, OPT_TLS},
        {"insecure", no_argument, NULL, OPT_INSECURE},
        {"state", required_argument, NULL, OPT_STATE},
        {"private", no_argument, NULL, OPT_PRIVATE},
        {"idle", required_argument, NULL, OPT_IDLE},
        {"foreground", no_argument, NULL, 'f'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, OPT_VERSION},
        {0}};
    struct ips_err err = {0};
    for (int c; (c = getopt_long(argc, argv, "fh", longs, NULL)) != -1;) {
        switch (c) {
        case OPT_LISTEN:
            o->master.listen = optarg;
            break;
        case OPT_TLS:
            if (ips_tls_load_keys(optarg, &err) < 0) {
                fprintf(stderr, "ips-master: --tls: %s\n", err.msg);
                return -1;
            }
            break;
        case OPT_INSECURE:
            ips_address_allow_insecure(true);
            break;
        case OPT_STATE:
            o->master.state = optarg;
            break;
        case OPT_PRIVATE:
            o->master.private_mode = true;
            break;
        case OPT_IDLE:
            if (parse_idle_seconds(optarg, &o->master.idle_s) < 0)
                return -1;
            break;
        case 'f':
            break;
        case 'h':
            fputs(usage, stdout);
            return 1;
        case OPT_VERSION:
            puts("ips-master " IPS_VERSION);
            return 1;
        default:
            fputs("ips-master --help shows the options\n", stderr);
            return -1;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "ips-master: unexpected argument '%s'\n", argv[optind]);
        return -1;
    }
    return 0;
}

static void log_signal_and_break_event_loop(evutil_socket_t number, short what,
                                            void *arg)
{
    (void)what;
    ips_log_info("signal %d: ending", (int)number);
    event_base_loopbreak(arg);
}

static int add_signal_handlers(struct event_base *base, struct event *stop[2],
                               struct ips_err *err)
{
    stop[0] =
        evsignal_new(base, SIGTERM, log_signal_and_break_event_loop, base);
    stop[1] = evsignal_new(base, SIGINT, log_signal_and_break_event_loop, base);
    if (!stop[0] || !stop[1] || event_add(stop[0], NULL) < 0 ||
        event_add(stop[1], NULL) < 0)
        return ips_err_set(err, IPS_E_NO_MEMORY, "signals: no memory");
    return 0;
}

/* Each piece of a slave's answer is unpacked into arrays of some MB, which are
 * freed soon. By default the C library returns such blocks to the kernel each
 * time, and the kernel must clear the pages again for the next piece. */
static void configure_malloc(void)
{
    mallopt(M_MMAP_THRESHOLD, 16 << 20);
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

static int run_master_until_stopped(const struct options *o,
                                    struct ips_err *err)
{
    struct master m = {0};
    struct event *stop[2] = {NULL, NULL};
    struct event_base *base = NULL;
    int rc = 0;
    if (!(base = event_base_new()))
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "event loop: no memory");
    if (rc == 0)
        rc = add_signal_handlers(base, stop, err);
    if (rc == 0)
        rc = master_start(&m, base, &o->master, err);
    if (rc == 0) {
        ips_log_info("listening on %s", m.address);
        event_base_dispatch(base);
    }
    if (m.base)
        master_release(&m);
    for (int i = 0; i < 2; i++) {
        if (stop[i])
            event_free(stop[i]);
    }
    if (base)
        event_base_free(base);
    return rc;
}

int main(int argc, char **argv)
{
    struct options o = {.master = {.idle_s = 10}};
    struct ips_err err = {0};
    int rc = parse_options(argc, argv, &o);
    if (rc != 0)
        return rc > 0 ? 0 : 2;
    ips_log_init("master");
    configure_malloc();
    signal(SIGPIPE, SIG_IGN);
    /* a write beyond RLIMIT_FSIZE then fails like one to a full disk */
    signal(SIGXFSZ, SIG_IGN);
    if (!o.master.state) {
        rc = ips_path_default_state_directory(o.state, &err);
        o.master.state = o.state;
    }
    if (rc == 0)
        rc = run_master_until_stopped(&o, &err);
    if (rc < 0)
        fprintf(stderr, "ips-master: %s\n", err.msg);
    return rc == 0 ? 0 : rc == IPS_E_USAGE || rc == IPS_E_REFUSED ? 2 : 1;
}
