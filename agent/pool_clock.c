/* The clock of a boot: which counter the stamps are, how it converts, and what
 * one record costs here. Measured once per boot, kept in POOL/clock. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/counter.h"
#include "agent/pool_inside.h"
#include "common/types.h"

#define BRACKETS 200
#define APART_NS 50000000 /* >= 10 ms; the longer, the finer */

static uint64_t raw_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#if IPS_HAVE_COUNTER
static uint64_t counter(void)
{
    return ips_counter();
}

static bool file_has(const char *path, const char *line_start,
                     const char *const *words)
{
    FILE *f = fopen(path, "re");
    char line[8192];
    bool good = false;
    while (f && fgets(line, sizeof(line), f)) {
        if (strncmp(line, line_start, strlen(line_start)) != 0)
            continue;
        good = true;
        for (; *words; words++)
            good = good && strstr(line, *words);
        break;
    }
    if (f)
        fclose(f);
    return good;
}

/* The kernel's own clock runs on it, at one rate, on every core, in every
 * sleep state: then so may we. */
static bool counter_usable(void)
{
    static const char *const none[] = {NULL};
    bool good = file_has("/sys/devices/system/clocksource/clocksource0/"
                         "current_clocksource",
                         IPS_COUNTER_CLOCKSOURCE, none);
#if defined(__x86_64__)
    static const char *const flags[] = {" constant_tsc", " nonstop_tsc", NULL};
    good = good && file_has("/proc/cpuinfo", "flags", flags);
#endif
    return good;
}

/* A raw reading between two counter readings, the tightest of many. */
static void bracket(uint64_t *at_counter, uint64_t *at_ns)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < BRACKETS; i++) {
        uint64_t a = counter(), ns = raw_ns(), b = counter();
        if (b - a < best) {
            best = b - a;
            *at_counter = a + (b - a) / 2;
            *at_ns = ns;
        }
    }
}

/* ns per count, times 2^32, from `counts` in `ns`; 0 = absurd. */
static uint64_t measured_rate(uint64_t counts, uint64_t ns)
{
#if defined(__aarch64__)
    /* Stated, so measured only to believe it. */
    uint64_t hz = ips_counter_hz();
    uint64_t mult = hz ? (uint64_t)(((ips_u128)1000000000 << 32) / hz) : 0;
    uint64_t expect = (uint64_t)(((ips_u128)counts * mult) >> 32);
    uint64_t off = expect > ns ? expect - ns : ns - expect;
    return off < ns / 100 ? mult : 0;
#else
    /* The kernel keeps the rate in whole kHz. */
    uint64_t khz = (uint64_t)(((ips_u128)counts * 1000000 + ns / 2) / ns);
    return khz < 1000 ? 0 : (((uint64_t)1000000 << 32) + khz / 2) / khz;
#endif
}

static bool calibrate(struct ips_clock *clock)
{
    uint64_t c0 = 0, n0 = 0, c1 = 0, n1 = 0;
    if (!counter_usable())
        return false;
    bracket(&c0, &n0);
    struct timespec pause = {0, APART_NS};
    nanosleep(&pause, NULL);
    bracket(&c1, &n1);
    if (c1 <= c0 || n1 <= n0)
        return false;
    uint64_t mult = measured_rate(c1 - c0, n1 - n0);
    if (mult == 0)
        return false;
    *clock = (struct ips_clock){IPS_CLOCK_TSC, 0, c0, n0, mult};
    return true;
}
#else
static uint64_t counter(void)
{
    return raw_ns();
}

static bool calibrate(struct ips_clock *clock)
{
    (void)clock;
    return false;
}
#endif

static uint64_t cpu_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* What a wrapper does around one call: two stamps, two readings of the
 * thread's CPU, one record. Median of batches, so that one interruption does
 * not count. */
static uint64_t measure_probe(void)
{
    enum { BATCH = 100, BATCHES = 21 };
    static volatile uint64_t word[9]; /* the record */
    uint64_t took[BATCHES];
    for (int b = 0; b < BATCHES; b++) {
        uint64_t start = raw_ns();
        for (int i = 0; i < BATCH; i++) {
            word[1] = counter();
            word[2] = cpu_ns();
            word[3] = counter();
            word[4] = cpu_ns();
            for (int w = 5; w < 9; w++)
                word[w] = 0;
            word[0] = 1;
        }
        took[b] = (raw_ns() - start) / BATCH * word[0];
    }
    for (int i = 1; i < BATCHES; i++)
        for (int j = i; j > 0 && took[j] < took[j - 1]; j--) {
            uint64_t t = took[j];
            took[j] = took[j - 1];
            took[j - 1] = t;
        }
    return took[BATCHES / 2];
}

int ips_pool_boot_id(char out[40], struct ips_err *err)
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    bool got = f && fgets(out, 40, f);
    if (f)
        fclose(f);
    if (!got)
        return ips_err_errno(err, "boot id");
    out[strcspn(out, "\n")] = '\0';
    return 0;
}

/* One line: version, boot id, kind, counter0, raw0, mult, probe. */
static bool read_kept(const char *path, const char *boot_id,
                      struct ips_clock *clock, uint64_t *probe_ns)
{
    FILE *f = fopen(path, "re");
    char boot[40] = "";
    unsigned version = 0, kind = 0;
    unsigned long long c0 = 0, n0 = 0, mult = 0, probe = 0;
    bool good = f && fscanf(f, "%u %39s %u %llu %llu %llu %llu", &version, boot,
                            &kind, &c0, &n0, &mult, &probe) == 7;
    if (f)
        fclose(f);
    if (!good || version != IPS_POOL_VERSION || strcmp(boot, boot_id) != 0 ||
        (kind != IPS_CLOCK_RAW && kind != IPS_CLOCK_TSC) || mult == 0)
        return false;
    *clock = (struct ips_clock){kind, 0, c0, n0, mult};
    *probe_ns = probe;
    return true;
}

int ips_pool_clock(const char *pool_root, const char *boot_id,
                   struct ips_clock *clock, uint64_t *probe_ns,
                   struct ips_err *err)
{
    char path[IPS_PATH_BYTES + 16], fresh[IPS_PATH_BYTES + 40];
    snprintf(path, sizeof(path), "%s/clock", pool_root);
    if (read_kept(path, boot_id, clock, probe_ns))
        return 0;
    memset(clock, 0, sizeof(*clock));
    if (!calibrate(clock)) {
        clock->kind = IPS_CLOCK_RAW;
        clock->counter0 = clock->raw0_ns = raw_ns();
        clock->mult_q32 = (uint64_t)1 << 32;
    }
    *probe_ns = measure_probe();
    snprintf(fresh, sizeof(fresh), "%s.%d", path, (int)getpid());
    FILE *f = fopen(fresh, "wxe");
    if (!f)
        return ips_err_errno(err, "%s", fresh);
    fprintf(f, "%d %s %u %llu %llu %llu %llu\n", IPS_POOL_VERSION, boot_id,
            clock->kind, (unsigned long long)clock->counter0,
            (unsigned long long)clock->raw0_ns,
            (unsigned long long)clock->mult_q32, (unsigned long long)*probe_ns);
    bool failed = ferror(f) != 0;
    failed = fclose(f) != 0 || failed;
    if (!failed && rename(fresh, path) == 0)
        return 0;
    int rc = ips_err_errno(err, "%s", path);
    unlink(fresh);
    return rc;
}
