/* Lower bounds of the makespan that no placement can beat. Internal times are
 * in units of 2^-8 ns, rates in units of 2^-20. Every rounding makes the bound
 * lower, so it stays valid. */
#include <stdlib.h>
#include <string.h>

#include "analysis/graph/kernel.h"
#include "analysis/replay/search.h"
#include "analysis/whatif/order.h"

#define BITS 8u
#define RATE_BITS 20u

struct bound {
    const struct ips_graph *g;
    const struct ips_scenario *scenario;
    const struct ips_replay_ask *ask;
    const struct ips_search_ask *of;
    const uint32_t *item; /* [chains] item of each chain */
    bool *there; /* [machines] true: at least one item may run on the machine */
    /* [machines] the machine's least load at any time */
    struct ips_ratio *load;
    /* Lines whose least value is at or below every message time: `near` for
     * messages within a machine, `all` for all pairs of machines. */
    struct ips_message_time *near, *all;
    uint32_t near_count, all_count;
    uint64_t *work;   /* [items] ns of work that must be done */
    uint32_t *chains; /* [items] number of the item's chains that have work in
                         `work` */
    uint8_t *needed; /* [nodes] 1: the node leads to an END at which the run may
                        be over */
    uint64_t *w, *xlen; /* [nodes] weights in units of 2^-8 ns */
    struct ips_search_compute_bound *out;
};

/* Returns the work per time of `k` chains together on machine m, which has n
 * cores and load b, rounded up: speed * k * min(1, n / (k + b)). The result
 * grows with k. */
static uint64_t rate_of_chains_on_machine(const struct bound *b, uint32_t m,
                                          uint64_t k)
{
    const struct ips_replay_machine *is = &b->ask->machine[m];
    struct ips_ratio load = b->load[m];
    ips_u128 speed_num = is->speed.den ? is->speed.num : 1;
    ips_u128 speed_den = is->speed.den ? is->speed.den : 1;
    ips_u128 want = (ips_u128)k * load.den + load.num;
    ips_u128 have = (ips_u128)is->cores * load.den;
    ips_u128 den = (want > have ? want : have) * speed_den;
    ips_u128 num = (have * speed_num * k) << RATE_BITS;
    return (uint64_t)((num + den - 1) / den);
}

static uint32_t fixed_machine_of_item(const struct bound *b, uint32_t item)
{
    return b->of->fixed ? b->of->fixed[item] : IPS_SEARCH_FREE;
}

/* Returns the rate of the machine that is best for `k` chains of the item. */
static uint64_t best_rate(const struct bound *b, uint32_t item, uint64_t k)
{
    uint32_t fixed = fixed_machine_of_item(b, item);
    if (fixed != IPS_SEARCH_FREE)
        return rate_of_chains_on_machine(b, fixed, k);
    uint64_t best = 0;
    for (uint32_t m = 0; m < b->ask->machine_count; m++)
        if (!b->of->closed || !b->of->closed[m])
            best = ips_max_u64(best, rate_of_chains_on_machine(b, m, k));
    return best;
}

static struct ips_ratio ratio_or_zero_if_undefined(struct ips_ratio r)
{
    return r.den ? r : (struct ips_ratio){0, 1};
}

static void mark_usable_machines(struct bound *b)
{
    for (uint32_t m = 0; m < b->ask->machine_count; m++)
        b->there[m] = !b->of->closed || !b->of->closed[m];
    for (uint32_t i = 0; i < b->of->item_count; i++)
        if (fixed_machine_of_item(b, i) != IPS_SEARCH_FREE)
            b->there[fixed_machine_of_item(b, i)] = true;
}

static void find_least_loads(struct bound *b)
{
    for (uint32_t m = 0; m < b->ask->machine_count; m++)
        b->load[m] = ratio_or_zero_if_undefined(b->ask->machine[m].load);
    for (uint32_t k = 0; k < b->ask->load_count; k++) {
        struct ips_ratio is = ratio_or_zero_if_undefined(b->ask->load[k].load);
        struct ips_ratio *least = &b->load[b->ask->load[k].machine];
        if ((uint64_t)is.num * least->den < (uint64_t)least->num * is.den)
            *least = is;
    }
}

/* ---- lower bounds of message times -------------------------------------- */

static bool is_line_at_or_above(const struct ips_message_time *a,
                                const struct ips_message_time *b)
{
    return a->base_ns >= b->base_ns && a->per_byte_q32 >= b->per_byte_q32 &&
           a->scale_num == b->scale_num && a->scale_den == b->scale_den;
}

/* Adds `way`, the message time of a pair of machines, to the list if it may be
 * the least for some length. Removes entries that the new one makes
 * superfluous. */
static void add_message_line_if_lower(struct ips_message_time *ways,
                                      uint32_t *count,
                                      const struct ips_message_time *way)
{
    uint32_t kept = 0;
    for (uint32_t k = 0; k < *count; k++)
        if (is_line_at_or_above(way, &ways[k]))
            return;
    for (uint32_t k = 0; k < *count; k++)
        if (!is_line_at_or_above(&ways[k], way))
            ways[kept++] = ways[k];
    ways[kept++] = *way;
    *count = kept;
}

/* Returns a line that is nowhere above the pair's message time. */
static struct ips_message_time
lower_line_of_pair(const struct ips_replay_ask *ask, size_t pair)
{
    struct ips_message_time way = ask->message_time[pair];
    if (ask->curve && ask->curve[pair]) {
        struct ips_message_time line =
            ips_curve_lower_bound_line(ask->curve[pair]);
        way.base_ns = line.base_ns;
        way.per_byte_q32 = line.per_byte_q32;
    }
    return way;
}

static void find_least_message_lines(struct bound *b)
{
    size_t n = b->ask->machine_count;
    struct ips_message_time way;
    if (!b->ask->message_time) {
        b->near[0] = b->all[0] = b->scenario->message_time;
        b->near_count = b->all_count = 1;
        return;
    }
    for (size_t p = 0; p < n * n; p++) {
        if (!b->there[p / n] || !b->there[p % n])
            continue;
        way = lower_line_of_pair(b->ask, p);
        add_message_line_if_lower(b->all, &b->all_count, &way);
        if (p / n == p % n)
            add_message_line_if_lower(b->near, &b->near_count, &way);
    }
}

static uint64_t
least_time_over_message_lines(const struct ips_message_time *ways,
                              uint32_t count, uint64_t len)
{
    uint64_t least = ips_message_time_compute_message_ns(&ways[0], len);
    for (uint32_t k = 1; k < count; k++)
        least = ips_min_u64(least,
                            ips_message_time_compute_message_ns(&ways[k], len));
    return least;
}

static uint64_t least_message_ns_between_items(const struct bound *b,
                                               uint32_t from, uint32_t to,
                                               uint64_t len)
{
    uint32_t f = fixed_machine_of_item(b, from),
             t = fixed_machine_of_item(b, to);
    if (b->ask->message_time && f != IPS_SEARCH_FREE && t != IPS_SEARCH_FREE)
        return ips_replay_compute_message_ns(
            b->ask, (size_t)f * b->ask->machine_count + t, len);
    if (from == to)
        return least_time_over_message_lines(b->near, b->near_count, len);
    return least_time_over_message_lines(b->all, b->all_count, len);
}

/* ---- the three bounds --------------------------------------------------- */

/* Marks the nodes from which a path leads to an END at which the run may be
 * over. */
static int mark_nodes_that_lead_to_end(struct bound *b, struct ips_err *err)
{
    const struct ips_graph *g = b->g;
    struct ips_computation_order order;
    struct ips_cross_arc_weighting arcs;
    int rc = ips_computation_order_make(g, b->scenario, &order, err);
    if (rc < 0)
        return rc;
    ips_cross_arc_weighting_init(&arcs, b->scenario);
    for (uint64_t r = order.run_count; r-- > 0;) {
        const struct ips_chain_run *run = &order.run[r];
        uint32_t first = g->chains[run->chain].first;
        for (uint32_t i = run->first + run->count; i-- > run->first;) {
            b->needed[i] |= ips_may_end_path(g, b->scenario, i);
            if (b->needed[i] && i > first)
                b->needed[i - 1] = 1;
            if (b->needed[i] && ips_has_local_cross_arc(g, &arcs, i))
                b->needed[g->xpred[i]] = 1;
        }
    }
    ips_computation_order_release(&order);
    return 0;
}

static uint64_t ns_to_internal_units(uint64_t ns)
{
    return ns > UINT64_MAX >> BITS ? UINT64_MAX : ns << BITS;
}

/* Sets the weights of chain c's arcs, at the rate of the best machine, and the
 * least times of its messages. Adds the chain's work to that of its item. */
static void compute_least_weights_and_work_of_chain(struct bound *b, uint32_t c)
{
    const struct ips_graph *g = b->g;
    const struct ips_chain *is = &g->chains[c];
    uint32_t item = b->item[c];
    uint64_t best = best_rate(b, item, 1);
    bool works = false;
    for (uint32_t i = is->first; i < is->first + is->count; i++) {
        ips_u128 w = ((ips_u128)g->w[i] << (BITS + RATE_BITS)) / best;
        b->w[i] = w > UINT64_MAX ? UINT64_MAX : (uint64_t)w;
        uint64_t x = g->xlen[i];
        if (g->xpred[i] != IPS_NO_NODE && g->xkind[i] == IPS_X_DATA)
            x = least_message_ns_between_items(
                b, b->item[ips_chain_of(g, g->xpred[i])], item, x);
        b->xlen[i] = ns_to_internal_units(x);
        if (i > is->first && b->needed[i] && g->w[i]) {
            b->work[item] = ips_add_sat(b->work[item], g->w[i]);
            works = true;
        }
    }
    b->chains[item] += works;
}

static void compute_work_bounds(struct bound *b)
{
    uint64_t total = 0, chains = 0;
    ips_u128 rates = 0;
    b->out->item = IPS_SEARCH_FREE;
    for (uint32_t i = 0; i < b->of->item_count; i++) {
        total = ips_add_sat(total, b->work[i]);
        chains += b->chains[i];
        if (b->work[i] == 0)
            continue;
        uint64_t ns = (uint64_t)(((ips_u128)b->work[i] << RATE_BITS) /
                                 best_rate(b, i, b->chains[i]));
        if (b->out->item == IPS_SEARCH_FREE || ns > b->out->item_ns) {
            b->out->item_ns = ns;
            b->out->item = i;
        }
    }
    for (uint32_t m = 0; m < b->ask->machine_count; m++)
        if (b->there[m])
            rates += rate_of_chains_on_machine(b, m, chains);
    if (total)
        b->out->capacity_ns =
            (uint64_t)(((ips_u128)total << RATE_BITS) / rates);
}

static int compute_path_bound(struct bound *b, struct ips_err *err)
{
    struct ips_graph g = *b->g; /* borrows all columns but w and xlen */
    struct ips_scenario scenario = *b->scenario;
    struct ips_est e;
    g.w = b->w;
    g.xlen = b->xlen;
    scenario.message_time = (struct ips_message_time){0, 1ULL << 32, 1, 1};
    int rc = ips_longest_path_compute_ests(&g, &scenario, NULL, &e, err);
    if (rc < 0)
        return rc;
    b->out->path_ns = e.t_max >> BITS;
    ips_est_release(&e);
    return 0;
}

static int alloc_bound_arrays(struct bound *b, struct ips_err *err)
{
    size_t nodes = (size_t)b->g->node_count + 1;
    size_t items = b->of->item_count, machines = b->ask->machine_count;
    b->there = calloc(machines, sizeof(*b->there));
    b->load = calloc(machines, sizeof(*b->load));
    b->near = calloc(machines + 1, sizeof(*b->near));
    b->all = calloc(machines * machines + 1, sizeof(*b->all));
    b->work = calloc(items, sizeof(*b->work));
    b->chains = calloc(items, sizeof(*b->chains));
    b->needed = calloc(nodes, 1);
    b->w = calloc(nodes, sizeof(*b->w));
    b->xlen = calloc(nodes, sizeof(*b->xlen));
    if (!b->there || !b->load || !b->near || !b->all || !b->work ||
        !b->chains || !b->needed || !b->w || !b->xlen)
        return ips_err_set(err, IPS_E_NO_MEMORY, "a bound of %u nodes",
                           b->g->node_count);
    return 0;
}

static int check_bound_request(const struct ips_graph *g,
                               const struct ips_replay_ask *ask,
                               const uint32_t *item,
                               const struct ips_search_ask *of,
                               struct ips_err *err)
{
    if (ask->move_count || ask->machine_count != of->machine_count)
        return ips_err_set(err, IPS_E_USAGE,
                           "a bound of maps without moves, of %u machines",
                           of->machine_count);
    for (uint32_t c = 0; c < g->chain_count; c++)
        if (item[c] >= of->item_count)
            return ips_err_set(err, IPS_E_USAGE, "chain %u is of item %u of %u",
                               c, item[c], of->item_count);
    return 0;
}

int ips_search_compute_bound(const struct ips_graph *g,
                             const struct ips_scenario *scenario,
                             const struct ips_replay_ask *ask,
                             const uint32_t *item,
                             const struct ips_search_ask *of,
                             struct ips_search_compute_bound *out,
                             struct ips_err *err)
{
    struct bound b = {.g = g,
                      .scenario = scenario,
                      .ask = ask,
                      .of = of,
                      .item = item,
                      .out = out};
    memset(out, 0, sizeof(*out));
    int rc = check_bound_request(g, ask, item, of, err);
    if (rc < 0)
        return rc;
    rc = alloc_bound_arrays(&b, err);
    if (rc == 0)
        rc = mark_nodes_that_lead_to_end(&b, err);
    if (rc == 0) {
        mark_usable_machines(&b);
        find_least_loads(&b);
        find_least_message_lines(&b);
        for (uint32_t c = 0; c < g->chain_count; c++)
            compute_least_weights_and_work_of_chain(&b, c);
        compute_work_bounds(&b);
        rc = compute_path_bound(&b, err);
    }
    out->ns =
        ips_max_u64(out->path_ns, ips_max_u64(out->capacity_ns, out->item_ns));
    free(b.there);
    free(b.load);
    free(b.near);
    free(b.all);
    free(b.work);
    free(b.chains);
    free(b.needed);
    free(b.w);
    free(b.xlen);
    return rc;
}

/* ---- machines that are alike -------------------------------------------- */

static bool same_ratio(struct ips_ratio a, struct ips_ratio b)
{
    return (uint64_t)a.num * b.den == (uint64_t)b.num * a.den;
}

static bool same_curve(const struct ips_curve *a, const struct ips_curve *b)
{
    if (a == b || !a || !b)
        return a == b;
    return a->count == b->count && a->beta_q32 == b->beta_q32 &&
           memcmp(a->bytes, b->bytes, a->count * sizeof(*a->bytes)) == 0 &&
           memcmp(a->ns, b->ns, a->count * sizeof(*a->ns)) == 0;
}

static bool same_message_time(const struct ips_replay_ask *ask, size_t x,
                              size_t y)
{
    const struct ips_message_time *a = &ask->message_time[x],
                                  *b = &ask->message_time[y];
    return is_line_at_or_above(a, b) && is_line_at_or_above(b, a) &&
           (!ask->curve || same_curve(ask->curve[x], ask->curve[y]));
}

/* Whether a and b change their loads at the same times to the same values. */
static bool machines_have_same_load_changes(const struct ips_replay_ask *ask,
                                            uint32_t a, uint32_t b)
{
    uint32_t i = 0, k = 0, n = ask->load_count;
    for (;; i++, k++) {
        while (i < n && ask->load[i].machine != a)
            i++;
        while (k < n && ask->load[k].machine != b)
            k++;
        if (i == n || k == n)
            return i == n && k == n;
        if (ask->load[i].at_ns != ask->load[k].at_ns ||
            !same_ratio(ratio_or_zero_if_undefined(ask->load[i].load),
                        ratio_or_zero_if_undefined(ask->load[k].load)))
            return false;
    }
}

/* Whether two pairs of machines have equal message times and the same medium.
 */
static bool are_machine_pairs_alike(const struct ips_replay_ask *ask, size_t x,
                                    size_t y)
{
    return (!ask->message_time || same_message_time(ask, x, y)) &&
           (!ask->wire || same_curve(ask->wire[x], ask->wire[y])) &&
           (!ask->medium_count || ask->medium[x] == ask->medium[y]);
}

static bool machines_have_same_times_and_media(const struct ips_replay_ask *ask,
                                               uint32_t a, uint32_t b)
{
    size_t n = ask->machine_count;
    for (size_t m = 0; m < n; m++) {
        if (m != a && m != b &&
            (!are_machine_pairs_alike(ask, a * n + m, b * n + m) ||
             !are_machine_pairs_alike(ask, m * n + a, m * n + b)))
            return false;
    }
    return are_machine_pairs_alike(ask, a * n + a, b * n + b) &&
           are_machine_pairs_alike(ask, a * n + b, b * n + a);
}

static bool are_machines_alike(const struct ips_replay_ask *ask, uint32_t a,
                               uint32_t b)
{
    const struct ips_replay_machine *x = &ask->machine[a],
                                    *y = &ask->machine[b];
    struct ips_ratio one = {1, 1};
    return x->cores == y->cores && x->turn_ns == y->turn_ns &&
           same_ratio(x->speed.den ? x->speed : one,
                      y->speed.den ? y->speed : one) &&
           same_ratio(ratio_or_zero_if_undefined(x->load),
                      ratio_or_zero_if_undefined(y->load)) &&
           machines_have_same_load_changes(ask, a, b) &&
           machines_have_same_times_and_media(ask, a, b);
}

void ips_search_find_alike_machines(const struct ips_replay_ask *ask,
                                    const struct ips_search_ask *of,
                                    uint32_t *alike_to)
{
    for (uint32_t m = 0; m < ask->machine_count; m++)
        alike_to[m] = of->closed && of->closed[m] ? m : IPS_SEARCH_FREE;
    for (uint32_t i = 0; of->fixed && i < of->item_count; i++)
        if (of->fixed[i] != IPS_SEARCH_FREE)
            alike_to[of->fixed[i]] = of->fixed[i];
    for (uint32_t m = 0; m < ask->machine_count; m++) {
        if (alike_to[m] != IPS_SEARCH_FREE)
            continue;
        alike_to[m] = m;
        for (uint32_t k = m + 1; k < ask->machine_count; k++)
            if (alike_to[k] == IPS_SEARCH_FREE && are_machines_alike(ask, m, k))
                alike_to[k] = m;
    }
}
