/*
 * Writes GUESSED: how much of the thread's CPU time was guessed, and how wrong
 * the guesses were. It is written before END and, so that queries about a run
 * in progress have it, too, after readings of the clock. Also writes CALLS:
 * calls on files that left no record, and agent work without a probe cost.
 */
#include "agent/record/cpu.h"
#include "agent/record/fast.h"
#include "agent/record/sys.h"

/* Limits of the time (ns) that is counted as agent work: longer work was
 * interrupted. SWITCHED_NS_MAX applies if the thread may have been switched
 * out. */
#define TAKEN_NS_MAX 500000u
#define SWITCHED_NS_MAX 20000u

static bool may_write_overhead_records(void)
{
    const struct ips_stream *s = &ips_me.stream;
    return ips_core.main_stream && !ips_sys_quiet && !ips_me.in_vfork &&
           s->state == IPS_STREAM_BEGUN && s->generation == ips_core.generation;
}

__attribute__((cold)) void ips_write_guessed_cpu_record(uint64_t t)
{
    struct ips_cpu *c = &ips_me.cpu;
    if (!may_write_overhead_records())
        return;
    /* Stored first, so that a signal handler in between does not write the same
     * record. */
    c->guessed_t = t;
    c->guessed_said = c->guess.corrected_ns;
    struct ips_rec_guessed *rec =
        ips_rec_begin_at(IPS_REC_GUESSED, sizeof(*rec), t);
    if (!rec)
        return;
    rec->h.a = c->guess.corrected_ns;
    rec->guessed_ns = c->guess.all_ns;
    rec->off_ns = c->guess.off_sum_ns;
    rec->off_max_ns = c->guess.off_max_ns;
    ips_rec_publish(rec);
}

void ips_write_unreported_guessed_cpu(void)
{
    if (ips_me.cpu.guess.corrected_ns != ips_me.cpu.guessed_said)
        ips_write_guessed_cpu_record(ips_core_stamp_now());
}

uint64_t ips_unreported_agent_ns(void)
{
    const struct ips_control *c = ips_core.control;
    uint64_t ps = ips_me.opens * ips_probe_cost_ps(c, IPS_PROBE_OPEN) +
                  ips_me.passes * ips_probe_cost_ps(c, IPS_PROBE_PASS) +
                  ips_me.locks * ips_probe_cost_ps(c, IPS_PROBE_LOCK);
    return ips_me.beyond_ns + ps / 1000;
}

void ips_reset_overhead_counts(void)
{
    ips_me.file_calls = ips_me.beyond_ns = 0;
    ips_me.opens = ips_me.passes = 0;
    ips_me.locks = 0;
}

/* Writes CALLS for the calling thread only; each thread writes its own. */
__attribute__((cold)) void ips_write_calls_record_if_enough(uint32_t least)
{
    if (!may_write_overhead_records())
        return;
    uint32_t calls = ips_me.file_calls;
    uint64_t beyond_ns = ips_unreported_agent_ns();
    if (calls < least && beyond_ns < IPS_BEYOND_LEAST_NS)
        return;
    /* Counts that a signal handler adds between the reads above and this reset
     * are lost. */
    ips_reset_overhead_counts();
    struct ips_rec_calls *rec =
        ips_rec_begin_at(IPS_REC_CALLS, sizeof(*rec), ips_core_stamp_now());
    if (!rec)
        return;
    rec->h.a = (uint32_t)ips_min_u64(beyond_ns, UINT32_MAX);
    rec->calls = calls;
    ips_rec_publish(rec);
}

void ips_agent_work_add_to_overhead(const struct ips_agent_work *apart,
                                    uint64_t priced_ps)
{
    /* If the same mark is still in the rseq area, the thread was never switched
     * out. */
    bool stayed =
        !ips_core.cpu_marks || (apart->mark == *ips_cpu_mark_address() &&
                                ips_me.cpu_next == apart->mark_number &&
                                ips_cpu_own_slot_at_mark(apart->mark));
    uint64_t took =
        ips_min_u64(ips_stamps_to_ns(ips_core_stamp_now() - apart->t),
                    stayed ? TAKEN_NS_MAX : SWITCHED_NS_MAX);
    took = ips_sub_sat(took, ips_me.said_ns - apart->said_ns);
    /* Replaces what nested work has added, so that it counts once. If beyond_ns
     * is less than at the start, a CALLS was written meanwhile. */
    if (ips_me.beyond_ns >= apart->beyond_ns)
        ips_me.beyond_ns = apart->beyond_ns;
    ips_me.beyond_ns += (uint32_t)ips_sub_sat(took, priced_ps / 1000);
}
