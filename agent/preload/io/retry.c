/*
 * Tries of one condition with naps between: a connect that is refused until the
 * server listens, a wait for a child with WNOHANG. Where the last one succeeds,
 * BLOCK op RETRY says so just before the record of that: from the first failed
 * try's call to the successful one's, `result` failed tries. Tries without a
 * nap between leave nothing (agent/preload/io/spin.c), nor do tries that never
 * succeed.
 *
 * State: of the thread, one run of tries of each kind (ips_extra). A failed try
 * costs a look at it; who never failed has none. A signal handler's own tries
 * may end a run early.
 */
#include "agent/preload/wrap.h"

/* A shell naps by a child that does. */
static uint32_t naps_for(const struct ips_extra *extra,
                         enum ips_retry_kind kind)
{
    return extra->naps + (kind == IPS_RETRY_PATH ? extra->joins : 0);
}

/* Naps are counted from the first failed try on: before it, nobody asks. */
void ips_retry_failed(enum ips_retry_kind kind, uint64_t key,
                      struct ips_moment call)
{
    struct ips_extra *extra = ips_extra();
    if (!extra)
        return;
    struct ips_retry *run = &extra->retry[kind];
    if (!run->count || run->key != key)
        *run = (struct ips_retry){.key = key,
                                  .first = call.t,
                                  .cpu = call.cpu,
                                  .naps = naps_for(extra, kind)};
    run->last = call.t;
    run->count += run->count < UINT32_MAX;
}

bool ips_retry_ended_slow(enum ips_retry_kind kind, uint64_t key,
                          struct ips_retry *run)
{
    struct ips_extra *extra = ips_me.extra;
    *run = extra->retry[kind];
    if (run->key != key)
        return false;
    extra->retry[kind].count = 0;
    return run->naps != naps_for(extra, kind);
}

void ips_retry_record(const struct ips_retry *run, struct ips_moment call,
                      uint64_t site)
{
    const struct ips_moment first = {.t = run->first, .cpu = run->cpu};
    ips_record_io(IPS_REC_BLOCK, 0, IPS_OP_RETRY, first, call, run->count, 0,
                  site, 0);
}
