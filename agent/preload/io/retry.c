/*
 * Records repeated tries with sleeps between them, for example a connect that
 * is refused until the server listens, or a wait for a child with WNOHANG. If
 * the last try succeeds, a BLOCK record with op RETRY is written just before
 * the record of that try. It lasts from the call of the first failed try to the
 * call of the successful one; `result` is the number of failed tries. Tries
 * without a sleep between leave no RETRY (they are spinning:
 * agent/preload/io/spin.c), nor do tries that never succeed.
 *
 * State: for each thread, some series of tries of each kind (ips_extra),
 * allocated at the first failed try. Tries in a signal handler may end a run
 * early.
 */
#include "agent/preload/tries.h"
#include "agent/preload/wrap.h"

/* Returns the number of sleeps of this thread so far. For paths and processes,
 * waits for children count as well, because a shell sleeps by running
 * sleep(1). */
static uint32_t get_sleep_count_of_thread(const struct ips_extra *extra,
                                          enum ips_retry_kind kind)
{
    return extra->naps + (kind >= IPS_RETRY_PATH ? extra->joins : 0);
}

/* Most sleeps between two tries of one series: a thread that sleeps more often
 * in between does other, periodic work. Each command that a shell runs counts
 * as a sleep. */
#define NAPS_OF_TRY 16u

static struct ips_retry_series *find_retry_series(struct ips_extra *extra,
                                                  enum ips_retry_kind kind,
                                                  uint64_t key)
{
    struct ips_retry_series *v = extra->retry[kind];
    for (uint32_t i = 0; i < IPS_RETRY_SERIES; i++)
        if (v[i].count && v[i].key == key)
            return &v[i];
    return NULL;
}

/* Notes a failed try in its series. Sleeps count from the first failed try on;
 * earlier ones do not matter. */
void ips_retry_count_failed_try(enum ips_retry_kind kind, uint64_t key,
                                const struct ips_moment *call)
{
    struct ips_extra *extra = ips_extra_get_or_map();
    if (!extra)
        return;
    struct ips_retry_series *run = find_retry_series(extra, kind, key);
    const uint32_t naps = get_sleep_count_of_thread(extra, kind);
    if (run && naps - run->naps > NAPS_OF_TRY)
        run->count = 0; /* too many sleeps: it did not wait all the time, so a
                           new series starts */
    if (!run || !run->count) {
        uint32_t slot = extra->retry_next[kind] % IPS_RETRY_SERIES;
        /* not 0, which means that there was no series so far */
        extra->retry_next[kind] = (uint8_t)(slot + 1);
        run = run ? run : &extra->retry[kind][slot];
        run->key = key;
        run->first = call->t;
        run->cpu = call->cpu;
        run->naps = naps;
        run->count = run->spaced = 0;
    }
    run->last = call->t;
    run->count += run->count < UINT32_MAX;
    run->spaced += run->naps != naps;
    run->naps = naps;
}

bool ips_retry_end_and_get_series_slow(enum ips_retry_kind kind, uint64_t key,
                                       struct ips_retry_series *run)
{
    struct ips_extra *extra = ips_me.extra;
    struct ips_retry_series *found = find_retry_series(extra, kind, key);
    if (!found)
        return false;
    *run = *found;
    found->count = 0;
    /* A thread that finds a file or process, and later finds it gone, has
     * waited for that only if it tested again after a sleep. */
    const uint32_t naps = get_sleep_count_of_thread(extra, kind) - run->naps;
    return naps <= NAPS_OF_TRY &&
           (run->spaced > 0 || (kind < IPS_RETRY_GONE && naps > 0));
}

void ips_retry_drop_series(enum ips_retry_kind kind, uint64_t key)
{
    struct ips_retry_series *found =
        ips_me.extra ? find_retry_series(ips_me.extra, kind, key) : NULL;
    if (found)
        found->count = 0;
}

void ips_retry_write_series_record(const struct ips_retry_series *run,
                                   struct ips_moment call, uint64_t site)
{
    const struct ips_moment first = {.t = run->first, .cpu = run->cpu};
    ips_record_io_call(IPS_REC_BLOCK, 0, IPS_OP_RETRY, first, call, run->count,
                       0, site, 0);
}

void ips_record_or_count_process_test(pid_t pid, bool exists,
                                      struct ips_moment call, uint64_t site)
{
    struct ips_retry_series run;
    if (exists) {
        ips_retry_count_failed_try(IPS_RETRY_PROCESS, (uint64_t)pid, &call);
    } else if (ips_retry_end_and_get_series(IPS_RETRY_PROCESS, (uint64_t)pid,
                                            &run)) {
        ips_retry_write_series_record(&run, call, site);
        ips_record_join(IPS_JOIN_GONE, (uint32_t)pid, 0, call, ~0ull, 0, site);
    }
}
