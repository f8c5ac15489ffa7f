/* Computes, without a replay, a lower bound of the time that a replay
 * predicts. */
#include <stdint.h>
#include <stdlib.h>

#include "common/types.h"
#include "master/predict/predict.h"

struct unit_taker {
    /* thread (chain) that took a unit of the lock; UINT32_MAX: none */
    uint32_t chain;
    uint64_t at_ns; /* CPU time of that chain when it took the unit */
};
struct lock_hold_sums {
    const struct ips_replay_locks *locks;
    struct unit_taker *taker; /* [lock_count] the thread that holds each lock */
    /* [lock_count] CPU time while holding the lock; IPS_UNMEASURED: a thread
     * released the lock that another had taken */
    uint64_t *hold_ns;
    uint32_t next; /* index of the next lock event */
};

static void add_lock_hold_times(struct lock_hold_sums *h, uint32_t chain,
                                uint32_t node, uint64_t cpu_ns)
{
    for (; h->next < h->locks->event_count &&
           h->locks->event[h->next].node == node;
         h->next++) {
        const struct ips_replay_lock_event *e = &h->locks->event[h->next];
        struct unit_taker *t = &h->taker[e->lock];
        uint64_t *held = &h->hold_ns[e->lock];
        if (!e->gives)
            *t = (struct unit_taker){chain, cpu_ns};
        else if (t->chain != chain)
            *held = IPS_UNMEASURED;
        else if (*held != IPS_UNMEASURED)
            *held += cpu_ns - t->at_ns;
        if (e->gives)
            t->chain = UINT32_MAX;
    }
}

/* Returns the CPU time of the chain that has the most. Also sums the hold times
 * of locks if `h` is not NULL. */
static uint64_t max_chain_cpu_and_sum_lock_holds(
    const struct predict_run *run, const struct predict_setup *setup,
    const uint32_t *place, struct lock_hold_sums *h)
{
    const struct ips_graph *g = &run->replay.g;
    uint64_t longest = 0;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const struct ips_chain *is = &g->chains[c];
        uint64_t cpu = 0;
        for (uint32_t i = is->first + 1; i < is->first + is->count; i++) {
            uint32_t m = place ? place[i] : setup->map[c];
            cpu += predict_cpu_ns_at_speed(&setup->machine[m], g->w[i]);
            if (h)
                add_lock_hold_times(h, c, i, cpu);
        }
        longest = ips_max_u64(longest, cpu);
    }
    return longest;
}

int predict_compute_makespan_lower_bound(const struct predict_run *run,
                                         const struct predict_setup *setup,
                                         const uint32_t *place,
                                         const struct ips_replay_locks *locks,
                                         uint64_t *least_ns,
                                         struct ips_err *err)
{
    uint32_t n = locks ? locks->lock_count : 0;
    struct lock_hold_sums h = {.locks = locks};
    h.taker = calloc((size_t)n + 1, sizeof(*h.taker));
    h.hold_ns = calloc((size_t)n + 1, sizeof(*h.hold_ns));
    int rc = h.taker && h.hold_ns
                 ? 0
                 : ips_err_set(err, IPS_E_NO_MEMORY, "%u locks", n);
    for (uint32_t k = 0; rc == 0 && k < n; k++)
        h.taker[k].chain = UINT32_MAX;
    if (rc == 0)
        *least_ns =
            max_chain_cpu_and_sum_lock_holds(run, setup, place, n ? &h : NULL);
    for (uint32_t k = 0; rc == 0 && k < n; k++)
        if (locks->units[k] && h.hold_ns[k] != IPS_UNMEASURED)
            *least_ns = ips_max_u64(*least_ns, h.hold_ns[k] / locks->units[k]);
    free(h.taker);
    free(h.hold_ns);
    return rc;
}
