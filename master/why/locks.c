/* Contended locks: finds which threads wait and which hold the lock, and the
 * gain without these waits (why/facts.h). */
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/query/machine_share.h"
#include "master/why/facts.h"

static int set_why_no_memory_error(struct why_solving *y)
{
    return ips_err_set(y->s.err, IPS_E_NO_MEMORY, "no memory to find out why");
}

/* Returns the CPU time for contended locks in the arc into `node`. */
static uint64_t lock_cpu_ns_of_arc(const struct why_solving *y, uint32_t node)
{
    return y->lock_cpu ? y->lock_cpu[node] : 0;
}

/* Returns a lower limit of the run's length without lock contention: the
 * largest, over the machines, of CPU time divided by cores. */
static uint64_t run_lower_bound_without_locks_ns(const struct why_solving *y)
{
    const struct ips_graph *g = y->s.g;
    uint64_t least = 0;
    for (uint32_t m = 0; m < y->s.q->gather.count; m++) {
        uint64_t cores = y->s.q->gather.active[m]->sync->cores, cpu = 0;
        for (uint32_t c = 0; c < g->chain_count; c++) {
            if (g->chains[c].machine != m)
                continue;
            for (uint32_t i = 1; i < g->chains[c].count; i++)
                cpu +=
                    ips_sub_sat(y->cpu[g->chains[c].first + i],
                                lock_cpu_ns_of_arc(y, g->chains[c].first + i));
        }
        least = ips_max_u64(least, cpu / (cores ? cores : 1));
    }
    return least;
}

/* Sets *t_max to the length of the path without waits for locks and without the
 * CPU time to take and release contended ones. */
static int path_length_without_locks(struct why_solving *y, uint64_t *t_max)
{
    const struct ips_graph *g = y->s.g;
    struct ips_graph cut = *g;
    struct ips_est est = {0};
    size_t n = (size_t)g->node_count + 1;
    cut.xpred = malloc(n * sizeof(*cut.xpred));
    cut.xkind = malloc(n);
    cut.w = malloc(n * sizeof(*cut.w));
    int rc = cut.xpred && cut.xkind && cut.w ? 0 : set_why_no_memory_error(y);
    for (uint32_t i = 0; rc == 0 && i < g->node_count; i++) {
        bool lock = y->resource_kind[i] == IPS_THING_LOCK;
        cut.xpred[i] = lock ? IPS_NO_NODE : g->xpred[i];
        cut.xkind[i] = lock ? IPS_X_NONE : g->xkind[i];
        cut.w[i] = ips_sub_sat(g->w[i], lock_cpu_ns_of_arc(y, i));
    }
    if (rc == 0)
        rc = ips_longest_path_compute_ests(&cut, &y->s.scenario, NULL, &est,
                                           y->s.err);
    if (rc == 0)
        *t_max = est.t_max;
    ips_est_release(&est);
    free(cut.xpred);
    free(cut.xkind);
    free(cut.w);
    return rc;
}

/* Waits for locks where the holder's samples do not show what the holder did
 * under the lock: the sum of these waits, and votes for the call sites that
 * released the locks. */
struct holds {
    struct why_ballot giver;
    uint64_t unknown_ns;
};

/* for arc_is_within_hold(): at most 1/HOLD_BEFORE of the arc into a release may
 * be from before the lock was taken */
#define HOLD_BEFORE 4u
/* If the arc into the release is shorter than 1 / HOLD_SEEN of the wait, the
 * holder slept for most of the hold, and the arc shows nothing of it. */
#define HOLD_SEEN 16u

/* Whether the arc into `release` is within the hold of the lock, so that its
 * samples show where the lock was held. The waiter, whose wait ends at node
 * `got`, asked for the lock while it was held. So only the part of the arc
 * before that moment may be outside the hold. An acquisition of a lock at the
 * start of the arc proves nothing, because that lock may have been released
 * before the end of the arc. */
static bool arc_is_within_hold(const struct why_solving *y, uint32_t release,
                               uint32_t got)
{
    const uint64_t *at = y->wall.est;
    uint64_t asked = ips_sub_sat(at[got], y->s.g->wait[got]);
    return ips_sub_sat(asked, at[release - 1]) <=
           y->s.g->w[release] / HOLD_BEFORE;
}

/* Votes for the code that held the lock: node `release` ended the wait at node
 * `got`. If the arc into `release` is within the hold, the arc's samples show
 * where the lock was held. Otherwise only the end of the arc is part of the
 * hold, and it is not known which samples belong to it; or the holder slept. */
static int vote_for_lock_holder_or_releaser_code(struct why_solving *y,
                                                 uint32_t release, uint32_t got,
                                                 struct holds *h)
{
    uint64_t wait = y->s.g->wait[got];
    if (arc_is_within_hold(y, release, got) &&
        y->s.g->w[release] >= wait / HOLD_SEEN) {
        why_vote_procedures(y, release, wait, y->votes[WHY_F_LOCK].procedure);
        return 0;
    }
    h->unknown_ns = ips_add_sat(h->unknown_ns, wait);
    return why_vote_lock_releaser(y, &h->giver, got, wait);
}

/* Counts the waits for locks, and votes for the processes that wait and those
 * that hold the lock. */
static int count_lock_waits_and_vote_for_holders(struct why_solving *y,
                                                 struct why_amount *a,
                                                 struct holds *h)
{
    struct why_ballot ballot = {0};
    int rc = 0;
    const struct ips_graph *g = y->s.g;
    struct why_votes *v = &y->votes[WHY_F_LOCK];
    memset(v->process, 0, y->processes * sizeof(*v->process));
    memset(v->waiter, 0, y->processes * sizeof(*v->waiter));
    memset(v->procedure, 0, y->procedures * sizeof(*v->procedure));
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t end = g->chains[c].first + g->chains[c].count;
        for (uint32_t i = g->chains[c].first; i < end; i++) {
            if (g->wait[i] == 0 || y->resource_kind[i] != IPS_THING_LOCK ||
                g->xpred[i] == IPS_NO_NODE)
                continue;
            uint32_t holder = ips_chain_of(g, g->xpred[i]);
            v->process[y->process_of[holder]] += g->wait[i];
            v->waiter[y->process_of[c]] += g->wait[i];
            if (rc == 0 && g->xpred[i] != g->chains[holder].first)
                rc =
                    vote_for_lock_holder_or_releaser_code(y, g->xpred[i], i, h);
            a->count++;
            a->other_ns = ips_add_sat(a->other_ns, g->wait[i]);
            if (rc == 0)
                rc = why_vote_for_wait_call_site(y, &ballot, i, g->wait[i]);
        }
    }
    a->cause = why_set_most_voted_wait(y, &ballot, &a->wait_at);
    free(ballot.wait);
    return rc;
}

/* Sets a->location to the code that holds the locks or, if that is not known
 * for most of the waits, to the code that releases them. */
static void set_location_of_hold_or_release(struct why_solving *y,
                                            struct why_amount *a,
                                            struct holds *h)
{
    const struct why_votes *v = &y->votes[WHY_F_LOCK];
    why_set_most_voted_location(y, v, &a->location);
    /* procedure_ns counts ns of waits, not of the path, so clear it. */
    uint64_t seen = a->location.procedure_ns;
    a->location.procedure_ns = 0;
    if (h->unknown_ns <= seen)
        return;
    const char *object = a->location.object;
    a->location = (struct why_location){0};
    (void)why_set_most_voted_wait(y, &h->giver, &a->location);
    bool known = a->location.procedure && *a->location.procedure;
    if (!known && a->lock)
        a->location = a->lock->giver;
    a->location.object = object;
    a->location.procedure_ns = 0;
}

/* Sets the locations for a lock inside the C library. Only its cost is known,
 * from samples. */
static void set_location_of_library_lock(struct why_solving *y,
                                         struct why_amount *a)
{
    const struct entities *t = &y->d->w.t;
    uint64_t *votes = y->votes[WHY_F_LOCK].process;
    memset(votes, 0, y->processes * sizeof(*votes));
    for (uint32_t k = 0; k < t->f.count; k++) {
        const struct entity_feature *x = &t->feature[k];
        if (x->kind == ENTITY_PROCEDURE)
            votes[x->process] +=
                ips_scale_by_ppm(y->s.share[k], y->lock_ppm[x->procedure]);
    }
    a->location = a->lock->site;
    a->location.procedure_ns = 0;
    a->wait_at = a->lock->caller;
    if (y->processes)
        a->location.object = a->other =
            why_process_name(y, why_index_of_most_votes(votes, y->processes));
}

int why_fill_lock_amount(struct why_solving *y)
{
    struct why_amount *a = &y->d->facts.amount[WHY_LOCK];
    uint64_t without = 0, t_max = y->d->w.path.est.t_max;
    /* Length with the program's own threads on the existing cores. */
    uint64_t own = ips_add_sat(t_max, y->concurrent.oversubscription_ns);
    /* fill_amounts_of_all_features() computed this gain from the moments in
     * which threads waited for the lock. Removing the lock arcs alone may gain
     * less, because an event loop keeps its order even without them. */
    uint64_t gain = a->gain_ns;
    *a = (struct why_amount){.lock = a->lock};
    struct holds holds = {0};
    int rc = count_lock_waits_and_vote_for_holders(y, a, &holds);
    if (rc < 0 || (a->count == 0 && !a->lock)) {
        free(holds.giver.wait);
        return rc;
    }
    const struct why_votes *v = &y->votes[WHY_F_LOCK];
    uint64_t cost = a->lock ? a->lock->ns : 0;
    a->ns = ips_add_sat(y->ns[WHY_F_LOCK], cost);
    if (a->lock &&
        (a->count == 0 || (a->lock->library && cost > y->ns[WHY_F_LOCK]))) {
        set_location_of_library_lock(y, a);
        a->count = 0;
    } else {
        set_location_of_hold_or_release(y, a, &holds);
        a->other = why_process_name(
            y, why_index_of_most_votes(v->waiter, y->processes));
    }
    free(holds.giver.wait);
    rc = path_length_without_locks(y, &without);
    uint64_t cut = ips_sub_sat(t_max, without);
    a->gain_ns =
        ips_min_u64(ips_max_u64(cut, gain),
                    ips_sub_sat(own, run_lower_bound_without_locks_ns(y)));
    a->bound_ns = ips_max_u64(cut, a->gain_ns);
    /* The path runs through the holder's actions, which may include sleep that
     * a->ns does not contain. So the time of the lock is at least the gain. */
    a->ns = ips_max_u64(a->ns, a->gain_ns);
    if (a->lock && a->lock->library) {
        a->ns = ips_add_sat(a->ns, a->lock->unknown_ns);
        a->gain_ns = ips_add_sat(a->gain_ns, a->lock->unknown_ns);
        a->bound_ns = ips_add_sat(a->bound_ns, a->lock->unknown_ns);
        /* unknown_ns was measured on the wall path and the rest on the quiet
         * path, so the sum may be longer than the wall path. */
        a->gain_ns = ips_min_u64(a->gain_ns, y->d->facts.t_max_wall_ns);
    }
    bool by_samples = a->lock && (a->count == 0 || cost > a->gain_ns / 2);
    if (by_samples && y->d->facts.sample_ns)
        a->samples = ips_max_u64(a->lock->samples, 1);
    return rc;
}
