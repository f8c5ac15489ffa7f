/* What no replay can be shorter than, worked out beside it. */
#include <stdint.h>
#include <stdlib.h>

#include "common/types.h"
#include "master/predict/predict.h"

struct taken {
    uint32_t chain; /* that took a unit, or UINT32_MAX */
    uint64_t at_ns; /* of that chain's CPU time */
};
struct holding {
    const struct ips_replay_locks *locks;
    struct taken *taken; /* [lock_count] */
    uint64_t *held_ns;   /* [lock_count] CPU time under hold; IPS_UNMEASURED:
                            given back by others than took it */
    uint32_t next;       /* lock event */
};

static void hold(struct holding *h, uint32_t chain, uint32_t node,
                 uint64_t cpu_ns)
{
    for (; h->next < h->locks->event_count &&
           h->locks->event[h->next].node == node;
         h->next++) {
        const struct ips_replay_lock_event *e = &h->locks->event[h->next];
        struct taken *t = &h->taken[e->lock];
        uint64_t *held = &h->held_ns[e->lock];
        if (!e->gives)
            *t = (struct taken){chain, cpu_ns};
        else if (t->chain != chain)
            *held = IPS_UNMEASURED;
        else if (*held != IPS_UNMEASURED)
            *held += cpu_ns - t->at_ns;
        if (e->gives)
            t->chain = UINT32_MAX;
    }
}

/* The CPU time of the longest chain. */
static uint64_t longest_chain(const struct predict_run *run,
                              const struct predict_setup *setup,
                              const uint32_t *place, struct holding *h)
{
    const struct ips_graph *g = &run->replay.g;
    uint64_t longest = 0;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const struct ips_chain *is = &g->chains[c];
        uint64_t cpu = 0;
        for (uint32_t i = is->first + 1; i < is->first + is->count; i++) {
            uint32_t m = place ? place[i] : setup->map[c];
            cpu += predict_at_speed(&setup->machine[m], g->w[i]);
            if (h)
                hold(h, c, i, cpu);
        }
        longest = ips_max_u64(longest, cpu);
    }
    return longest;
}

int predict_least(const struct predict_run *run,
                  const struct predict_setup *setup, const uint32_t *place,
                  const struct ips_replay_locks *locks, uint64_t *least_ns,
                  struct ips_err *err)
{
    uint32_t n = locks ? locks->lock_count : 0;
    struct holding h = {.locks = locks};
    h.taken = calloc((size_t)n + 1, sizeof(*h.taken));
    h.held_ns = calloc((size_t)n + 1, sizeof(*h.held_ns));
    int rc = h.taken && h.held_ns
                 ? 0
                 : ips_err_set(err, IPS_E_NO_MEMORY, "%u locks", n);
    for (uint32_t k = 0; rc == 0 && k < n; k++)
        h.taken[k].chain = UINT32_MAX;
    if (rc == 0)
        *least_ns = longest_chain(run, setup, place, n ? &h : NULL);
    for (uint32_t k = 0; rc == 0 && k < n; k++)
        if (locks->units[k] && h.held_ns[k] != IPS_UNMEASURED)
            *least_ns = ips_max_u64(*least_ns, h.held_ns[k] / locks->units[k]);
    free(h.taken);
    free(h.held_ns);
    return rc;
}
