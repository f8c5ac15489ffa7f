/* POOL/clock: which counter the stamps come from, how to convert them to ns,
 * and the probe costs. ipsrun determines these once per boot. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/pool/counter.h"
#include "agent/pool/internal.h"
#include "common/types.h"

#define BRACKETS 200
/* Time between the two readings of a calibration. A longer time is more
 * precise; less than 10 ms would be too imprecise. */
#define APART_NS 50000000

static uint64_t read_monotonic_raw_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#if IPS_HAVE_COUNTER
static uint64_t read_counter(void)
{
    return ips_counter_read();
}

static bool file_line_has_words(const char *path, const char *line_start,
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

/* Does the kernel's own clock use the counter, and does the counter run at one
 * rate on every core and in every sleep state? Then the agent may use it, too.
 */
static bool is_counter_usable(void)
{
    static const char *const none[] = {NULL};
    bool good =
        file_line_has_words("/sys/devices/system/clocksource/clocksource0/"
                            "current_clocksource",
                            IPS_COUNTER_CLOCKSOURCE, none);
#if defined(__x86_64__)
    static const char *const flags[] = {" constant_tsc", " nonstop_tsc", NULL};
    good = good && file_line_has_words("/proc/cpuinfo", "flags", flags);
#endif
    return good;
}

/* Reads the raw clock between two readings of the counter. Does so many times,
 * and keeps the result whose counter readings are closest together. */
static void read_counter_and_clock(uint64_t *at_counter, uint64_t *at_ns)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < BRACKETS; i++) {
        uint64_t a = read_counter(), ns = read_monotonic_raw_ns(),
                 b = read_counter();
        if (b - a < best) {
            best = b - a;
            *at_counter = a + (b - a) / 2;
            *at_ns = ns;
        }
    }
}

#if defined(__x86_64__)
/* Returns the ns per count, times 2^32, with the factor that the kernel itself
 * uses (kernel/time: clocks_calc_mult_shift for up to 600 s). The kernel's
 * factor has about 23 bits, so CLOCK_MONOTONIC_RAW runs up to 70 ns a second
 * off the rate of `khz`. */
static uint64_t compute_clock_mult_as_kernel_does(uint64_t khz)
{
    uint64_t mult = 0;
    uint32_t bits = 32, shift = 32;
    for (uint64_t over = (600000 * khz) >> 32; over; over >>= 1)
        bits--;
    for (; shift > 0; shift--) {
        mult = (((uint64_t)1000000 << shift) + khz / 2) / khz;
        if (mult >> bits == 0)
            break;
    }
    return mult << (32 - shift);
}
#endif

/* Returns the ns per count, times 2^32, from `counts` in `ns`; 0 if that is
 * implausible. */
static uint64_t compute_counter_mult(uint64_t counts, uint64_t ns)
{
#if defined(__aarch64__)
    /* Use the rate that the firmware states; the measurement only confirms it.
     */
    uint64_t hz = ips_counter_hz();
    uint64_t mult = hz ? (uint64_t)(((ips_u128)1000000000 << 32) / hz) : 0;
    uint64_t expect = (uint64_t)(((ips_u128)counts * mult) >> 32);
    uint64_t off = expect > ns ? expect - ns : ns - expect;
    return off < ns / 100 ? mult : 0;
#else
    /* The kernel keeps the rate in whole kHz. */
    uint64_t khz = (uint64_t)(((ips_u128)counts * 1000000 + ns / 2) / ns);
    return khz < 1000 ? 0 : compute_clock_mult_as_kernel_does(khz);
#endif
}

static bool calibrate_clock(struct ips_clock *clock)
{
    uint64_t c0 = 0, n0 = 0, c1 = 0, n1 = 0;
    if (!is_counter_usable())
        return false;
    read_counter_and_clock(&c0, &n0);
    struct timespec pause = {0, APART_NS};
    nanosleep(&pause, NULL);
    read_counter_and_clock(&c1, &n1);
    if (c1 <= c0 || n1 <= n0)
        return false;
    uint64_t mult = compute_counter_mult(c1 - c0, n1 - n0);
    if (mult == 0)
        return false;
    *clock = (struct ips_clock){IPS_CLOCK_TSC, 0, c0, n0, mult};
    return true;
}
#else
static uint64_t read_counter(void)
{
    return read_monotonic_raw_ns();
}

static bool calibrate_clock(struct ips_clock *clock)
{
    (void)clock;
    return false;
}
#endif

int ips_pool_read_boot_id(char out[40], struct ips_err *err)
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

/* Reads POOL/clock, one line: version, boot id, kind, counter0, raw0, mult,
 * marks, the costs. Returns false if it is missing, invalid or of another boot.
 */
static bool read_clock_file(const char *path, const char *boot_id,
                            struct ips_clock *clock,
                            struct ips_probe_measurements *m)
{
    FILE *f = fopen(path, "re");
    char boot[40] = "";
    unsigned version = 0, kind = 0, marks = 0;
    unsigned long long c0 = 0, n0 = 0, mult = 0, cost;
    bool good = f && fscanf(f, "%u %39s %u %llu %llu %llu %u", &version, boot,
                            &kind, &c0, &n0, &mult, &marks) == 7;
    for (int i = 0; i < IPS_PROBE_COSTS; i++) {
        good = good && fscanf(f, "%llu", &cost) == 1;
        m->cost_ps[i] = good ? cost : 0;
    }
    if (f)
        fclose(f);
    if (!good || version != IPS_POOL_VERSION || strcmp(boot, boot_id) != 0 ||
        (kind != IPS_CLOCK_RAW && kind != IPS_CLOCK_TSC) || mult == 0 ||
        marks > IPS_MARKS_FAIL)
        return false;
    *clock = (struct ips_clock){kind, 0, c0, n0, mult};
    m->marks = (enum ips_marks)marks;
    return true;
}

static int write_clock_file(const char *path, const char *boot_id,
                            const struct ips_clock *clock,
                            const struct ips_probe_measurements *m,
                            struct ips_err *err)
{
    char fresh[IPS_PATH_BYTES + 40];
    snprintf(fresh, sizeof(fresh), "%s.%d", path, (int)getpid());
    FILE *f = fopen(fresh, "wxe");
    if (!f)
        return ips_err_errno(err, "%s", fresh);
    fprintf(f, "%d %s %u %llu %llu %llu %u", IPS_POOL_VERSION, boot_id,
            clock->kind, (unsigned long long)clock->counter0,
            (unsigned long long)clock->raw0_ns,
            (unsigned long long)clock->mult_q32, (unsigned)m->marks);
    for (int i = 0; i < IPS_PROBE_COSTS; i++)
        fprintf(f, " %llu", (unsigned long long)m->cost_ps[i]);
    fputc('\n', f);
    bool failed = ferror(f) != 0;
    failed = fclose(f) != 0 || failed;
    if (!failed && rename(fresh, path) == 0)
        return 0;
    int rc = ips_err_errno(err, "%s", path);
    unlink(fresh);
    return rc;
}

int ips_pool_load_or_measure_clock_and_costs(
    const char *pool_root, const char *boot_id, struct ips_clock *clock,
    struct ips_probe_measurements *measured,
    bool (*measure)(const struct ips_clock *, struct ips_probe_measurements *),
    struct ips_err *err)
{
    char path[IPS_PATH_BYTES + 16];
    snprintf(path, sizeof(path), "%s/clock", pool_root);
    bool kept = read_clock_file(path, boot_id, clock, measured);
    /* If the file has no costs, a program that does not measure them wrote it:
     * measure them now. */
    if (kept && (!measure || measured->cost_ps[IPS_PROBE_CALL]))
        return 0;
    if (!kept) {
        memset(clock, 0, sizeof(*clock));
        memset(measured, 0, sizeof(*measured));
        if (!calibrate_clock(clock)) {
            clock->kind = IPS_CLOCK_RAW;
            clock->counter0 = clock->raw0_ns = read_monotonic_raw_ns();
            clock->mult_q32 = (uint64_t)1 << 32;
        }
    }
    if (measure && !measure(clock, measured))
        memset(measured, 0, sizeof(*measured));
    return write_clock_file(path, boot_id, clock, measured, err);
}

int ips_pool_store_clock_and_probe_costs(
    const char *pool_root, const struct ips_clock *clock,
    const struct ips_probe_measurements *measured, struct ips_err *err)
{
    char path[IPS_PATH_BYTES + 16], boot_id[40];
    int rc = ips_pool_read_boot_id(boot_id, err);
    snprintf(path, sizeof(path), "%s/clock", pool_root);
    return rc < 0 ? rc : write_clock_file(path, boot_id, clock, measured, err);
}
