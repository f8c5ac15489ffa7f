/*
 * Spinning: a thread that asks again and again for what is not there yet.
 *
 * An attempt is fruitless where it could not wait and got nothing: a receive or
 * accept that fails with EAGAIN, a poll, select or epoll of timeout 0 that
 * returns 0. Attempts in a row are one run: nothing else recorded by this
 * thread between, and no more than GAP_NS of its CPU from the return of one to
 * the call of the next, so that a loop that works between its polls is none;
 * what gaps took less than that is saved, up to SAVED_NS, for those that an
 * interrupt falls into. Of a run the first attempt is recorded as ever, the
 * others are not: a spinning thread does not fill the pool. Where a run of
 * LEAST or more ends in success, BLOCK op SPIN says so just before the record
 * of that: from the first attempt's call to the successful one's, `result`
 * attempts. A run that ends otherwise leaves nothing: it was no wait.
 *
 * State: of the thread (ips_spin). A signal handler's own attempts may end a
 * run early.
 */
#include "agent/preload/wrap.h"

#define GAP_NS 10000
#define SAVED_NS 200000

__thread struct ips_spin ips_spin;

static bool goes_on(const struct ips_moment *call)
{
    struct ips_spin *spin = &ips_spin;
    if (!ips_me.spin_count)
        return false;
    uint64_t gap = ips_sub_sat(call->cpu, spin->last_cpu);
    int32_t left = spin->saved + GAP_NS;
    if (gap > (uint64_t)left)
        return false;
    left -= (int32_t)gap;
    spin->saved = left < SAVED_NS ? left : SAVED_NS;
    return true;
}

/* The first attempt's own record ends what was before, not itself. */
void ips_spin_recorded(void)
{
    ips_me.spin_count = 1;
}

bool ips_spin_failed(const struct ips_moment *call,
                     const struct ips_moment *ret, uint32_t chan, uint64_t site)
{
    bool more = goes_on(call);
    if (!more) {
        ips_spin_first(&ips_me, call, ret, chan, site);
        return false;
    }
    ips_me.spin_count++;
    ips_spin.last_cpu = ret->cpu;
    return true;
}

void ips_spin_ended_slow(const struct ips_moment *call)
{
    uint32_t count = ips_me.spin_count;
    bool in_a_row = goes_on(call);
    ips_me.spin_count = 0;
    if (!in_a_row || count < IPS_SPIN_LEAST)
        return;
    const struct ips_moment first = {.t = ips_spin.t, .cpu = ips_spin.cpu};
    ips_record_io(IPS_REC_BLOCK, ips_spin.chan, IPS_OP_SPIN, first, *call,
                  count, 0, ips_spin.site, 0);
}
