/*
 * The pool's functions for ipsrun, which makes a run, and the slave, which
 * reads segments. Their input is untrusted: another process may be writing it,
 * or a hostile user may have prepared it. No function here asserts on data that
 * it reads.
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

/* Results that ipsrun measures once per boot, before the first run, and stores
 * in POOL/clock. */
enum ips_marks { /* do marks show every thread switch on this machine?
                    (agent/record/cpu.h) */
                 IPS_MARKS_UNTRIED = 0,
                 IPS_MARKS_WORK = 1,
                 IPS_MARKS_FAIL =
                     2, /* no: the agent reads the CPU clock instead */
};
struct ips_probe_measurements {
    enum ips_marks marks;
    uint64_t cost_ps[IPS_PROBE_COSTS]; /* enum ips_probe */
};

struct ips_run_options {
    const char *pool_root; /* e.g. /dev/shm/ips-0; made if missing */
    const char *run;       /* run name: [A-Za-z0-9._-]{1,63} */
    const char *machine;
    const char *command;
    const char *tags;    /* NUL separated list, may be NULL */
    bool join;           /* if the run exists already, join it */
    uint32_t procedures; /* enum ips_procedures */
    uint32_t sample_us;
    uint32_t budget_ppm;
    uint32_t on_full;     /* enum ips_on_full */
    uint64_t quota_bytes; /* upper bound; 0 = the pool's own limit */
    enum ips_cpu_mode cpu_mode;
    bool receive_stamps; /* write QUEUE records: when datagrams arrived */
    bool delays;         /* write RUNDELAY records: waiting for a CPU */
    enum ips_locks locks;
    /* Measures the probe costs; NULL: the costs stay unknown (0). */
    bool (*measure)(const struct ips_clock *clock,
                    struct ips_probe_measurements *out);
    bool plain; /* ignore the test options in the environment */
};

/* Makes the pool root. If it exists, checks that it is a directory that belongs
 * to us and that no other user may write: any user may create names in
 * /dev/shm. Returns IPS_E_REFUSED if the check fails. */
int ips_pool_make_or_check_root(const char *pool_root,
                                struct ips_err *err) IPS_MUST_USE;

/* Writes POOL/clock with the given contents, without measuring anything. */
int ips_pool_store_clock_and_probe_costs(
    const char *pool_root, const struct ips_clock *clock,
    const struct ips_probe_measurements *measured,
    struct ips_err *err) IPS_MUST_USE;

/* Makes POOL/RUN/control and writes the path of the run's directory into `dir`.
 * Once per boot, first calibrates the clock and measures the probe costs, and
 * stores both in POOL/clock. Returns IPS_E_BUSY if the run exists already and
 * `join` is false. */
int ips_pool_make_or_join_run(const struct ips_run_options *opt, char *dir,
                              size_t dir_len, struct ips_err *err) IPS_MUST_USE;

/* Checks POOL/RUN/control and returns a copy of it; release it with
 * ips_control_free. A mapping of the file instead would raise SIGBUS in the
 * slave if a process of the run truncated the file. Texts in the copy always
 * end with NUL. */
int ips_control_read_and_check_copy(const char *dir,
                                    const struct ips_control **out,
                                    struct ips_err *err) IPS_MUST_USE;
void ips_control_free(const struct ips_control *control);

/* Adds `bytes` (a segment's st_blocks * 512, when it is unlinked) to
 * released_bytes. Only the holder of slave.lock may call it. */
int ips_control_add_released_bytes(const char *dir, uint64_t bytes,
                                   struct ips_err *err) IPS_MUST_USE;

/* Adds `bytes` of new spare segments to spare_bytes. Only the holder of
 * slave.lock may call it. */
int ips_control_add_spare_bytes(const char *dir, uint64_t bytes,
                                struct ips_err *err) IPS_MUST_USE;

/* Stores slave_pid and slave_list in `control`, by which programs recognise the
 * caller as the slave. The caller must be in the initial pid namespace. Only
 * the holder of slave.lock may call it; the calling thread must live as long as
 * the slave. */
int ips_control_store_slave_identity(const char *dir,
                                     struct ips_err *err) IPS_MUST_USE;

/* Spare segments (agent/pool/format.h). ips_spare_segment_format_name writes
 * the file name of spare segment `n`. ips_spare_segment_make makes spare
 * segment `n`, with a copy of `control`, in the run's directory `dirfd`. It
 * returns the file's descriptor and stores its allocated size in *bytes; it
 * returns -1 if there is no space or the file exists already. */
void ips_spare_segment_format_name(char out[32], unsigned n);
int ips_spare_segment_make(int dirfd, unsigned n,
                           const struct ips_control *control,
                           uint64_t *bytes) IPS_MUST_USE;

/* Lock files of a pool root. The one slave that drains the pool holds
 * `slave.lock` (flock). `pool.lock` makes the creation of a run and a private
 * slave's decision to end exclude each other (docs/design/pool.md, "Private
 * daemons"). */
#define IPS_POOL_SLAVE_LOCK "slave.lock"
#define IPS_POOL_LOCK "pool.lock"

/* --- reading segments (slave) ---------------------------------------- */

/* Zeroes the records of a CLOSED segment and stores DRAINED, so that the writer
 * may use the segment again. `fd` is open for writing. The caller has already
 * zeroed the bytes before `zero_to` (0: none). */
int ips_segment_zero_and_set_drained(int fd, size_t zero_to,
                                     struct ips_err *err) IPS_MUST_USE;

/* Checks the record at `rec`, of which `avail` bytes are readable. Returns its
 * length if it is well formed (it fits, is large enough for its type, and its
 * text ends with NUL), else 0. */
size_t ips_rec_check_and_get_length(const void *rec, size_t avail);

static inline uint32_t ips_rec_type(const struct ips_rec_head *h)
{
    return h->word & 0xffu;
}
static inline uint32_t ips_rec_flags(const struct ips_rec_head *h)
{
    return h->word >> 16;
}

/* Returns the call's return address, which follows the `own` bytes of a FORK,
 * JOIN, KILL or CLOSE, or 0 if the record has none. The record must have passed
 * ips_rec_check_and_get_length(). */
static inline uint64_t ips_rec_site(const struct ips_rec_head *h, size_t own)
{
    uint64_t site = 0;
    if ((h->word >> 8 & 0xffu) * 8 >= own + IPS_REC_SITE_BYTES)
        memcpy(&site, (const unsigned char *)h + own, sizeof(site));
    return site;
}

/* Converts a stamp to ns of this machine's CLOCK_MONOTONIC_RAW. */
uint64_t ips_clock_convert_stamp_to_ns(const struct ips_clock *clock,
                                       uint64_t stamp);

#endif
