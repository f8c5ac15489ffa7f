/*
 * Finds a common caller of the sampled part of the quiet path: of the
 * procedures whose callees, direct or indirect, take at least half of it, the
 * one nearest to the leaves. If the cost is spread over many procedures, this
 * caller is the one to look at.
 *
 * A procedure's time on the path is attributed to a caller in the same
 * proportion in which that caller was on the stack of all its samples
 * (slave/profile/callers.h). Nearest means the smallest mean number of calls
 * between the caller and the sampled procedure, weighted by time.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/tables/procs.h"
#include "master/why/facts.h"

/* time in a procedure and its callees; `steps`: number of calls between the
 * procedure and the sampled one, weighted by time */
struct time_under_caller {
    double ns, steps;
};

static int set_why_no_memory_error(struct why_solving *y)
{
    return ips_err_set(y->s.err, IPS_E_NO_MEMORY, "no memory to find out why");
}

/* Adds the time of the path, in ns, to path[procedure]. Returns the sum. */
static uint64_t sum_path_by_procedure(const struct why_solving *y,
                                      uint64_t *path)
{
    const struct entities *t = &y->d->w.t;
    uint64_t sum = 0;
    for (uint32_t k = 0; k < t->f.count; k++) {
        const struct entity_feature *x = &t->feature[k];
        if (x->kind != ENTITY_PROCEDURE)
            continue;
        path[x->procedure] = ips_add_sat(path[x->procedure], y->s.share[k]);
        sum = ips_add_sat(sum, y->s.share[k]);
    }
    return sum;
}

/* Adds up the time of all pairs (leaf, caller). A first pass fills `seen`, the
 * ns of all samples in each leaf. If `only` is ENTITY_NONE, out[] has the sums
 * of all callers, by caller; else those of the caller `only`, by leaf. */
static void sum_path_time_under_callers(const struct why_solving *y,
                                        const uint64_t *path, uint32_t only,
                                        double *seen,
                                        struct time_under_caller *out)
{
    const struct entities *t = &y->d->w.t;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t p = 0; p < t->machine_count; p++) {
            const struct arc_profile *w = &y->d->w.arc_profile[p];
            for (uint64_t i = 0; i < w->callers; i++) {
                uint32_t leaf =
                    entities_find_procedure(t, &w->symbol[w->leaf[i]]);
                uint32_t by =
                    entities_find_procedure(t, &w->symbol[w->caller[i]]);
                if (leaf == ENTITY_NONE || by == ENTITY_NONE)
                    continue;
                if (pass == 0) {
                    seen[leaf] += leaf == by ? (double)w->caller_ns[i] : 0;
                } else if (path[leaf] && seen[leaf] > 0) {
                    double scale = (double)path[leaf] / seen[leaf];
                    uint32_t to = only == ENTITY_NONE ? by
                                  : by == only        ? leaf
                                                      : ENTITY_NONE;
                    if (to == ENTITY_NONE)
                        continue;
                    out[to].ns += (double)w->caller_ns[i] * scale;
                    out[to].steps += (double)w->caller_steps[i] * scale;
                }
            }
        }
    }
}

static bool is_entry_procedure(const char *name)
{
    static const char *const names[] = {"main",
                                        "_start",
                                        "__libc_start_main",
                                        "__libc_start_call_main",
                                        "start_thread",
                                        "clone3",
                                        "clone",
                                        "__clone"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        if (strcmp(name, names[i]) == 0 ||
            strncmp(name, "__libc_start_main", 17) == 0)
            return true;
    }
    return false;
}

/* Chooses the common caller and sets facts.common. Returns the number of the
 * procedure, or ENTITY_NONE. */
static uint32_t choose_common_caller(struct why_solving *y,
                                     const struct time_under_caller *under,
                                     uint64_t sampled)
{
    uint32_t best = ENTITY_NONE;
    const struct entities *t = &y->d->w.t;
    struct why_common *c = &y->d->facts.common;
    double nearest = INFINITY, low, high;
    for (uint32_t i = 0; i < t->procedure_count; i++) {
        const struct time_under_caller *u = &under[i];
        if (u->ns * 1e6 < (double)sampled * WHY_COMMON_PPM ||
            u->steps / u->ns >= nearest ||
            is_entry_procedure(t->procedure[i].name) ||
            why_is_recording_library(y, i))
            continue;
        nearest = u->steps / u->ns;
        best = i;
        c->ns = ips_min_u64((uint64_t)u->ns, sampled);
        why_set_procedure_location(y, i, c->ns, &c->location);
    }
    if (best == ENTITY_NONE)
        return best;
    uint64_t every = y->d->facts.sample_ns;
    c->of_ns = sampled;
    procs_wilson_interval((double)c->ns / (double)sampled,
                          every ? (double)sampled / (double)every : 0, &low,
                          &high);
    c->low_ns = ips_min_u64(c->ns, (uint64_t)(low * (double)sampled));
    c->high_ns = ips_max_u64(c->ns, (uint64_t)(high * (double)sampled));
    return best;
}

/* ---- gain of the common caller ------------------------------------------ */

/* Returns the process with the greatest entry in by_process, and sets
 * a->location to the common caller in that process. */
static uint32_t set_common_caller_and_find_process(struct why_solving *y,
                                                   const uint64_t *by_process,
                                                   struct why_amount *a)
{
    uint32_t best = 0;
    for (uint32_t p = 1; p < y->processes; p++)
        best = by_process[p] > by_process[best] ? p : best;
    a->location = y->d->facts.common.location;
    a->location.object = why_process_name(y, best);
    return best;
}

static bool process_receives_requests(const struct why_solving *y,
                                      uint32_t process)
{
    for (uint32_t c = 0; c < y->s.g->chain_count; c++) {
        if (y->process_of[c] == process && y->serves[c])
            return true;
    }
    return false;
}

/* Fills facts.common.amount: the gain if all the path's time in `under` took
 * half as long. */
static int fill_gain_of_common_caller(struct why_solving *y,
                                      const uint64_t *path,
                                      const struct time_under_caller *under)
{
    const struct entities *t = &y->d->w.t;
    struct why_amount *a = &y->d->facts.common.amount;
    struct ips_edit *edit = calloc((size_t)t->f.count + 1, sizeof(*edit));
    uint64_t *votes = calloc((size_t)y->processes + 1, sizeof(*votes));
    uint32_t n = 0;
    int rc = edit && votes ? 0 : set_why_no_memory_error(y);
    for (uint32_t k = 0; rc == 0 && k < t->f.count; k++) {
        const struct entity_feature *x = &t->feature[k];
        if (x->kind != ENTITY_PROCEDURE || path[x->procedure] == 0)
            continue;
        double part = under[x->procedure].ns / (double)path[x->procedure];
        uint32_t ppm = (uint32_t)(fmin(part, 1) * WHY_HALF_PPM);
        if (ppm == 0)
            continue;
        edit[n++] = (struct ips_edit){k, ppm};
        uint64_t ns = ips_scale_by_ppm(y->s.share[k], 2 * ppm);
        votes[x->process] += ns;
        a->ns = ips_add_sat(a->ns, ns);
    }
    for (uint32_t p = 0; rc == 0 && p < y->procedures; p++) {
        double part = path[p] ? under[p].ns / (double)path[p] : 0;
        for (int k = WHY_F_LOCK; k <= WHY_F_OTHER; k++)
            a->named_ns +=
                (uint64_t)(fmin(part, 1) * (double)y->votes[k].procedure[p]);
    }
    if (rc == 0 && a->ns &&
        !process_receives_requests(
            y, set_common_caller_and_find_process(y, votes, a)))
        *a = (struct why_amount){0};
    if (rc == 0 && a->ns)
        rc =
            why_compute_gain(y, &y->s.base, edit, n, &a->gain_ns, &a->bound_ns);
    a->samples = y->d->facts.sample_ns ? a->ns / y->d->facts.sample_ns : 0;
    free(edit);
    free(votes);
    return rc;
}

int why_find_common_caller(struct why_solving *y)
{
    size_t n = (size_t)y->procedures + 1;
    uint64_t *path = calloc(n, sizeof(*path));
    double *seen = calloc(n, sizeof(*seen));
    struct time_under_caller *under = calloc(n, sizeof(*under));
    int rc = path && seen && under ? 0 : set_why_no_memory_error(y);
    if (rc == 0) {
        uint64_t sampled = sum_path_by_procedure(y, path);
        sum_path_time_under_callers(y, path, ENTITY_NONE, seen, under);
        uint32_t best =
            sampled ? choose_common_caller(y, under, sampled) : ENTITY_NONE;
        if (best != ENTITY_NONE) {
            memset(seen, 0, n * sizeof(*seen));
            memset(under, 0, n * sizeof(*under));
            sum_path_time_under_callers(y, path, best, seen, under);
            rc = fill_gain_of_common_caller(y, path, under);
        }
    }
    free(path);
    free(seen);
    free(under);
    return rc;
}
