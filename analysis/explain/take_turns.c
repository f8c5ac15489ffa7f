/* Finds the roles whose threads take turns (concurrent_activity.h). */
#include <stdlib.h>

#include "analysis/explain/concurrent_changes.h"
#include "analysis/whatif/whatif.h"
#include "common/types.h"

struct role_sums {
    uint64_t all, most; /* work of the role's threads, and of the busiest, ns */
    uint64_t covered;   /* time in which at least one thread works, ns */
    uint64_t from; /* when `busy`, the number of working threads, last became
                      positive */
    uint32_t busy;
    /* time that the role's threads wait, and the part of it at barriers, ns */
    uint64_t waited, at_barriers;
};

/* Sets `covered` of each role. `busy` [chains] is scratch, all false. */
static void sum_time_in_which_roles_work(const struct ips_concurrent_ask *ask,
                                         const struct change *change,
                                         size_t changes, struct role_sums *sums,
                                         bool *busy)
{
    for (size_t i = 0; i < changes; i++) {
        const struct change *x = &change[i];
        struct role_sums *r = &sums[ask->role[x->chain]];
        const bool now = x->state == BUSY;
        if (x->state >= STATES || !ask->worker[x->chain] ||
            busy[x->chain] == now)
            continue;
        busy[x->chain] = now;
        if (now && r->busy++ == 0)
            r->from = x->t;
        else if (!now && --r->busy == 0)
            r->covered = ips_add_sat(r->covered, ips_sub_sat(x->t, r->from));
    }
}

/* The threads of a role take turns if less than this share of their work
 * overlapped, in ppm. 100% is the work of all threads but the busiest: that
 * much could have overlapped. */
#define TURNS_PPM 100000u

/* Adds the waits of chain `c`: a thread waits from the end of an arc to the EST
 * of its node. */
static void add_waits_of_chain(const struct ips_concurrent_ask *ask, uint32_t c,
                               struct role_sums *r)
{
    const struct ips_chain *chain = &ask->g->chains[c];
    const uint64_t *est = ask->est->est;
    for (uint32_t i = chain->first + 1; i < chain->first + chain->count; i++) {
        uint64_t ns = ips_sub_sat(est[i], est[i - 1] + ask->g->w[i]);
        bool barrier = ask->g->xkind[i] == IPS_X_RESOURCE &&
                       ask->resource_kind[i] == IPS_THING_BARRIER;
        r->waited = ips_add_sat(r->waited, ns);
        r->at_barriers = ips_add_sat(r->at_barriers, barrier ? ns : 0);
    }
}

int ips_find_roles_whose_threads_take_turns(
    const struct ips_concurrent_ask *ask, const struct change *change,
    size_t changes, const uint64_t *works, bool *take_turns,
    struct ips_err *err)
{
    struct role_sums *sums = calloc(ask->role_count + 1u, sizeof(*sums));
    bool *busy = calloc(ask->g->chain_count + 1u, sizeof(*busy));
    int rc = sums && busy
                 ? 0
                 : ips_err_set(err, IPS_E_NO_MEMORY,
                               "no memory to analyse concurrent activity");
    for (uint32_t c = 0; c < ask->g->chain_count && rc == 0; c++) {
        struct role_sums *r = &sums[ask->role[c]];
        if (!ask->worker[c])
            continue;
        add_waits_of_chain(ask, c, r);
        r->all = ips_add_sat(r->all, works[c]);
        r->most = ips_max_u64(r->most, works[c]);
    }
    if (rc == 0)
        sum_time_in_which_roles_work(ask, change, changes, sums, busy);
    for (uint32_t r = 0; r < ask->role_count && rc == 0; r++) {
        const uint64_t others = sums[r].all - sums[r].most;
        take_turns[r] = sums[r].at_barriers <= sums[r].waited / 2 &&
                        ips_sub_sat(sums[r].all, sums[r].covered) <
                            ips_scale_by_ppm(others, TURNS_PPM);
    }
    free(sums);
    free(busy);
    return rc;
}
