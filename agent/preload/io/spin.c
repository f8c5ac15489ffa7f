/*
 * Spinning: a thread repeatedly asks for something that is not ready yet.
 *
 * An attempt failed if it could not wait and got nothing: a receive or accept
 * that fails with EAGAIN, or a poll, select or epoll with timeout 0 that
 * returns 0. Consecutive attempts form one run if this thread recorded nothing
 * else between them and used at most GAP_NS of CPU from the return of one to
 * the call of the next. So a loop that works between its polls is not spinning.
 * The CPU time that shorter gaps leave of GAP_NS is saved, up to SAVED_NS, for
 * a longer gap, for example one into which an interrupt falls.
 *
 * Only the first attempt of a run is recorded (a failed poll never is), so a
 * spinning thread does not fill the pool. If a run of IPS_SPIN_LEAST or more
 * failed attempts ends in success, a BLOCK record with op SPIN is written just
 * before the record of the success. It lasts from the call of the first attempt
 * to the call of the successful one; `result` is the number of failed attempts.
 * A run that ends otherwise leaves no SPIN, because it was no wait.
 *
 * State: one run for each thread (ips_spin). Attempts in a signal handler may
 * end a run early.
 */
#include "agent/preload/tries.h"
#include "agent/preload/wrap.h"

#define GAP_NS 10000
#define SAVED_NS 200000

__thread struct ips_spin ips_spin;

/* Whether an attempt made at `call` continues the run of failed attempts. If
 * so, updates the CPU time that later gaps may use. */
static bool check_and_continue_failure_series(const struct ips_moment *call)
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

/* To be called after the first failed attempt of a run was recorded: the record
 * has ended the run, and this starts it again. */
void ips_spin_restart_failure_series(void)
{
    ips_me.spin_count = 1;
}

bool ips_spin_start_or_continue_failures(const struct ips_moment *call,
                                         const struct ips_moment *ret,
                                         uint32_t chan, uint64_t site)
{
    bool more = check_and_continue_failure_series(call);
    if (!more) {
        ips_spin_start_failure_series(&ips_me, call, ret, chan, site);
        return false;
    }
    ips_me.spin_count++;
    ips_spin.last_cpu = ret->cpu;
    return true;
}

void ips_spin_end_and_record_failures_slow(const struct ips_moment *call)
{
    uint32_t count = ips_me.spin_count;
    bool in_a_row = check_and_continue_failure_series(call);
    ips_me.spin_count = 0;
    if (!in_a_row || count < IPS_SPIN_LEAST)
        return;
    const struct ips_moment first = {.t = ips_spin.t, .cpu = ips_spin.cpu};
    ips_record_io_call(IPS_REC_BLOCK, ips_spin.chan, IPS_OP_SPIN, first, *call,
                       count, 0, ips_spin.site, 0);
}
