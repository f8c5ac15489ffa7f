/* Attempts that failed: runs of attempts in a row (a spin), and tries for one
 * condition with sleeps between. */
#ifndef IPS_AGENT_PRELOAD_TRIES_H
#define IPS_AGENT_PRELOAD_TRIES_H

#include "agent/preload/wrap.h"

/* preload/io/spin.c. Notes an attempt that failed without waiting. True: it
 * continues a run of failed attempts and needs no record. False: it is the
 * first of a run; if it is recorded, call ips_spin_restart_failure_series after
 * that. */
bool ips_spin_start_or_continue_failures(const struct ips_moment *call,
                                         const struct ips_moment *ret,
                                         uint32_t chan, uint64_t site);
void ips_spin_restart_failure_series(void);
struct ips_spin {
    uint64_t t, cpu;   /* stamp and CPU time of the first attempt's call */
    uint64_t last_cpu; /* CPU time at the return of the last attempt */
    uint64_t site;
    /* CPU time (ns) by which earlier gaps between attempts were shorter than
     * their limit; a later gap may be longer by that much */
    int32_t saved;
    uint32_t chan;
};
extern __thread struct ips_spin ips_spin IPS_IE;
/* Like ips_spin_start_or_continue_failures, for an attempt known to be the
 * first of a run; the caller records the attempt. */
static inline void ips_spin_start_failure_series(struct ips_thread *me,
                                                 const struct ips_moment *call,
                                                 const struct ips_moment *ret,
                                                 uint32_t chan, uint64_t site)
{
    ips_spin = (struct ips_spin){call->t, call->cpu, ret->cpu, site, 0, chan};
    me->spin_count = 1;
}
/* Ends a run of failed attempts, because the attempt of `call` succeeded. To be
 * called before that attempt is recorded. Fewer than IPS_SPIN_LEAST failed
 * attempts do not count as a run. */
#define IPS_SPIN_LEAST 3u
void ips_spin_end_and_record_failures_slow(const struct ips_moment *call);
static inline void
ips_spin_end_and_record_failures(struct ips_thread *me,
                                 const struct ips_moment *call)
{
    if (unlikely(me->spin_count >= IPS_SPIN_LEAST))
        ips_spin_end_and_record_failures_slow(call);
    me->spin_count = 0;
}
/* Discards the run of failed attempts: the thread recorded something else. */
static inline void ips_spin_drop_failure_series(void)
{
    ips_me.spin_count = 0;
}

/* preload/io/retry.c. Counts the try made at `call`, which failed, in the run
 * of tries for the condition `key`. */
void ips_retry_count_failed_try(enum ips_retry_kind kind, uint64_t key,
                                const struct ips_moment *call);
/* Counts a deliberate sleep of the thread (ips_count_child_join: a reaped
 * child), for preload/io/retry.c. */
static inline void ips_count_sleep(void)
{
    if (unlikely(ips_me.extra != NULL))
        ips_me.extra->naps++;
}
static inline void ips_count_child_join(void)
{
    if (unlikely(ips_me.extra != NULL))
        ips_me.extra->joins++;
}
/* Ends the run of tries for `key`, of which one has succeeded. True: earlier
 * tries failed, with sleeps between them; *run describes them. */
bool ips_retry_end_and_get_series_slow(enum ips_retry_kind kind, uint64_t key,
                                       struct ips_retry_series *run);
static inline bool ips_retry_end_and_get_series(enum ips_retry_kind kind,
                                                uint64_t key,
                                                struct ips_retry_series *run)
{
    return unlikely(ips_me.extra && ips_me.extra->retry_next[kind]) &&
           ips_retry_end_and_get_series_slow(kind, key, run);
}
/* Discards the failed tries for `key`: this thread changed the condition. */
void ips_retry_drop_series(enum ips_retry_kind kind, uint64_t key);
/* Writes a BLOCK record with op RETRY. To be called before the successful try,
 * made at `call`, is recorded. */
void ips_retry_write_series_record(const struct ips_retry_series *run,
                                   struct ips_moment call, uint64_t site);

/* Notes the result of a test, made at `call`, whether the process exists. If it
 * ended since earlier tests, with sleeps between, writes a JOIN record. */
void ips_record_or_count_process_test(pid_t pid, bool exists,
                                      struct ips_moment call, uint64_t site);

#endif
