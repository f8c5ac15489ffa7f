/*
 * The pool seen from outside the measured program: making a run (ipsrun),
 * reading segments (slave). Untrusted input: another process is writing, or a
 * hostile user prepared it. Nothing here asserts on what it reads.
 */
#ifndef IPS_AGENT_POOL_POOL_H
#define IPS_AGENT_POOL_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "agent/pool/format.h"
#include "common/err.h"

/* --- making a run (ipsrun) ------------------------------------------- */

/* Learnt once per boot before the first run, kept in POOL/clock. */
enum ips_marks { /* do marks tell of every switch here? agent/record/cpu.h */
                 IPS_MARKS_UNTRIED = 0,
                 IPS_MARKS_WORK = 1,
                 IPS_MARKS_FAIL = 2, /* the clock is read instead */
};
struct ips_measured {
    enum ips_marks marks;
    uint64_t cost_ps[IPS_PROBE_COSTS]; /* enum ips_probe */
};

struct ips_run_options {
    const char *pool_root; /* e.g. /dev/shm/ips-0; made if missing */
    const char *run;       /* run name: [A-Za-z0-9._-]{1,63} */
    const char *machine;
    const char *command;
    const char *tags;    /* NUL separated list, may be NULL */
    bool join;           /* the run may exist already: use it */
    uint32_t procedures; /* enum ips_procedures */
    uint32_t sample_us;
    uint32_t budget_ppm;
    uint32_t on_full;     /* enum ips_on_full */
    uint64_t quota_bytes; /* at most this; 0 = what the pool gives */
    enum ips_cpu_mode cpu_mode;
    bool receive_stamps; /* QUEUE records of datagrams */
    bool delays;         /* RUNDELAY records */
    enum ips_locks locks;
    /* How to learn it; NULL = costs are not known (0). */
    bool (*measure)(const struct ips_clock *clock, struct ips_measured *out);
    bool plain; /* the environment's test options do not count */
};

/* Makes the pool root, or checks that it is a directory of ours that nobody
 * else may write: /dev/shm is everybody's. IPS_E_REFUSED where it is not. */
int ips_pool_make_root(const char *pool_root, struct ips_err *err) IPS_MUST_USE;

/* Writes POOL/clock, as if it had been measured. */
int ips_pool_clock_store(const char *pool_root, const struct ips_clock *clock,
                         const struct ips_measured *measured,
                         struct ips_err *err) IPS_MUST_USE;

/* Makes POOL/RUN/control (calibrating the clock and the probe's cost once per
 * boot, kept in POOL/clock). Writes the run's directory into `dir`. */
int ips_pool_make_run(const struct ips_run_options *opt, char *dir,
                      size_t dir_len, struct ips_err *err) IPS_MUST_USE;

/* Checks POOL/RUN/control and gives a copy of it; release it with
 * ips_control_unmap. A copy, since whoever may write the file may also cut it
 * off, and a mapping would then be a SIGBUS in the slave. Texts are NUL ended
 * in the copy whatever the file says. */
int ips_control_map(const char *dir, const struct ips_control **out,
                    struct ips_err *err) IPS_MUST_USE;
void ips_control_unmap(const struct ips_control *control);

/* Adds `bytes` (a segment's st_blocks * 512, when it is unlinked) to
 * released_bytes. For the holder of slave.lock alone. */
int ips_control_release(const char *dir, uint64_t bytes,
                        struct ips_err *err) IPS_MUST_USE;

/* The same for spare_bytes: segments that were made ahead. */
int ips_control_spare(const char *dir, uint64_t bytes,
                      struct ips_err *err) IPS_MUST_USE;

/* Says in `control` how programs know the caller, who is in the initial pid
 * namespace. For the holder of slave.lock alone; the calling thread has to live
 * as long as it does. */
int ips_control_sign(const char *dir, struct ips_err *err) IPS_MUST_USE;

/* Spare segments (agent/pool/format.h). The name of the nth; makes it in a
 * run's directory, with its `control`, and gives its descriptor and the bytes
 * that it takes; -1: there is no room, or it is there already. */
void ips_spare_name(char out[32], unsigned n);
int ips_spare_make(int dirfd, unsigned n, const struct ips_control *control,
                   uint64_t *bytes) IPS_MUST_USE;

/* Locks of a pool root. `slave.lock` is held (flock) by the one slave that
 * drains the pool; `pool.lock` orders run creation against a private slave's
 * decision to end (docs/design/pool.md, "Private daemons"). */
#define IPS_POOL_SLAVE_LOCK "slave.lock"
#define IPS_POOL_LOCK "pool.lock"

/* --- reading segments (slave) ---------------------------------------- */

/* Zeroes the records of a CLOSED segment and stores DRAINED: the writer may
 * use it again. `fd` is open for writing; no mapping is needed. What lies
 * before `zero_to` the caller has zeroed (0: nothing). */
int ips_segment_set_drained(int fd, size_t zero_to,
                            struct ips_err *err) IPS_MUST_USE;

/* Checks one record in archive or pool memory of `avail` bytes: the length of
 * a well-formed record (fits, right size for its type, texts NUL-ended), or 0.
 */
size_t ips_rec_check(const void *rec, size_t avail);

static inline uint32_t ips_rec_type(const struct ips_rec_head *h)
{
    return h->word & 0xffu;
}
static inline uint32_t ips_rec_flags(const struct ips_rec_head *h)
{
    return h->word >> 16;
}

/* The word behind a FORK, JOIN, KILL or CLOSE of `own` bytes that was checked;
 * 0 where it has none. */
static inline uint64_t ips_rec_site(const struct ips_rec_head *h, size_t own)
{
    uint64_t site = 0;
    if ((h->word >> 8 & 0xffu) * 8 >= own + IPS_REC_SITE_BYTES)
        memcpy(&site, (const unsigned char *)h + own, sizeof(site));
    return site;
}

/* Stamp to ns of this machine's CLOCK_MONOTONIC_RAW. */
uint64_t ips_clock_ns(const struct ips_clock *clock, uint64_t stamp);

#endif
