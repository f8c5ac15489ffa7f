#include "analysis/replay/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/graph/path.h"
#include "analysis/replay/run.h"
#include "common/large.h"

#define STALL_NAMED 10
/* all internal times are below this many units */
#define TIMES_LIMIT (1ULL << 61)

void ips_replay_release(struct ips_replay *r)
{
    ips_free_large(r->reach);
    ips_free_large(r->weight);
    free(r->chain);
    free(r->idle_ns);
    ips_free_large(r->giver);
    free(r->taken_block);
    free(r->piece_worker);
    memset(r, 0, sizeof(*r));
    r->end = IPS_NO_NODE;
}

struct ips_ratio rp_ratio_in_lowest_terms(struct ips_ratio from,
                                          uint32_t otherwise)
{
    if (from.den == 0)
        return (struct ips_ratio){otherwise, 1};
    uint32_t a = from.num, b = from.den;
    while (b) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return (struct ips_ratio){from.num / a, from.den / a};
}

/* ---- checks of the request ---------------------------------------------- */

static int check_load(struct ips_ratio load, uint32_t m, struct ips_err *err)
{
    if (load.den > IPS_REPLAY_RATIO_MAX || load.num > IPS_REPLAY_RATIO_MAX)
        return ips_err_set(err, IPS_E_LIMIT,
                           "machine %u: load %u/%u, parts of at most %u", m,
                           load.num, load.den, IPS_REPLAY_RATIO_MAX);
    return 0;
}

static int check_machine(const struct ips_replay_machine *m, uint32_t i,
                         struct ips_err *err)
{
    if (m->cores == 0 || m->cores > IPS_REPLAY_CORES_MAX)
        return ips_err_set(err, IPS_E_USAGE,
                           "machine %u: %u cores; it has 1 to %u", i, m->cores,
                           IPS_REPLAY_CORES_MAX);
    if (m->speed.den && m->speed.num == 0)
        return ips_err_set(err, IPS_E_USAGE,
                           "machine %u: speed 0, nothing would ever end", i);
    if (m->speed.den > IPS_REPLAY_RATIO_MAX ||
        m->speed.num > IPS_REPLAY_RATIO_MAX)
        return ips_err_set(err, IPS_E_LIMIT,
                           "machine %u: speed %u/%u, parts of at most %u", i,
                           m->speed.num, m->speed.den, IPS_REPLAY_RATIO_MAX);
    if (m->turn_ns > IPS_REPLAY_TURN_MAX)
        return ips_err_set(err, IPS_E_LIMIT,
                           "machine %u: a turn of more than %llu ns", i,
                           (unsigned long long)IPS_REPLAY_TURN_MAX);
    return check_load(m->load, i, err);
}

static int check_map_moves_and_loads(const struct ips_graph *g,
                                     const struct ips_replay_ask *ask,
                                     struct ips_err *err)
{
    uint32_t n = ask->machine_count;
    for (uint32_t c = 0; ask->map && c < g->chain_count; c++)
        if (ask->map[c] >= n)
            return ips_err_set(err, IPS_E_USAGE,
                               "chain %u is mapped to machine %u of %u", c,
                               ask->map[c], n);
    for (uint32_t k = 0; k < ask->move_count; k++) {
        if (ask->move[k].machine >= n || ask->move[k].node >= g->node_count)
            return ips_err_set(
                err, IPS_E_USAGE, "move %u: node %u of %u to machine %u of %u",
                k, ask->move[k].node, g->node_count, ask->move[k].machine, n);
        if (k && ask->move[k - 1].node >= ask->move[k].node)
            return ips_err_set(err, IPS_E_USAGE,
                               "move %u: moves must be sorted by node, with at "
                               "most one per node",
                               k);
    }
    for (uint32_t k = 0; k < ask->load_count; k++) {
        if (ask->load[k].machine >= n)
            return ips_err_set(err, IPS_E_USAGE,
                               "load change %u: machine %u of %u", k,
                               ask->load[k].machine, n);
        if (k && ask->load[k - 1].at_ns > ask->load[k].at_ns)
            return ips_err_set(err, IPS_E_USAGE,
                               "load change %u is earlier than the one before",
                               k);
        int rc = check_load(ask->load[k].load, ask->load[k].machine, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int check_media(const struct ips_replay_ask *ask, struct ips_err *err)
{
    size_t pairs = (size_t)ask->machine_count * ask->machine_count;
    if (ask->medium_count > IPS_REPLAY_MACHINES_MAX)
        return ips_err_set(err, IPS_E_LIMIT, "%u shared media",
                           ask->medium_count);
    for (uint32_t m = 0; ask->burst_ns && m < ask->medium_count; m++)
        if (ask->burst_ns[m] > IPS_REPLAY_TURN_MAX)
            return ips_err_set(err, IPS_E_USAGE, "a burst of more than 10 s");
    for (size_t p = 0; ask->medium_count && p < pairs; p++)
        if (ask->medium[p] != IPS_REPLAY_NO_MEDIUM &&
            ask->medium[p] >= ask->medium_count)
            return ips_err_set(err, IPS_E_USAGE, "medium %u of %u",
                               ask->medium[p], ask->medium_count);
    return 0;
}

static int check_locks(const struct ips_graph *g,
                       const struct ips_replay_locks *l, struct ips_err *err)
{
    if (l->lock_count > IPS_REPLAY_LOCKS_MAX)
        return ips_err_set(err, IPS_E_LIMIT, "%u locks", l->lock_count);
    for (uint32_t k = 0; k < l->event_count; k++) {
        const struct ips_replay_lock_event *e = &l->event[k];
        if (e->lock >= l->lock_count || e->node >= g->node_count ||
            (k && l->event[k - 1].node >= e->node))
            return ips_err_set(err, IPS_E_USAGE,
                               "lock event %u: node %u of %u, lock %u of %u; "
                               "nodes and locks must exist, and the events "
                               "must be sorted by node",
                               k, e->node, g->node_count, e->lock,
                               l->lock_count);
        if (g->kind[e->node] == IPS_NODE_START ||
            (!e->gives && g->xkind[e->node] != IPS_X_NONE &&
             g->xkind[e->node] != IPS_X_RESOURCE))
            return ips_err_set(err, IPS_E_USAGE,
                               "node %u takes lock %u, and awaits something "
                               "else",
                               e->node, e->lock);
    }
    return 0;
}

static int check_replay_request(const struct ips_graph *g,
                                const struct ips_scenario *scenario,
                                const struct ips_replay_ask *ask,
                                struct ips_err *err)
{
    if (scenario->weighting != IPS_WEIGH_CPU)
        return ips_err_set(err, IPS_E_USAGE,
                           "only CPU times can be replayed: the weighting "
                           "`cpu` is needed");
    if (g->in_count)
        return ips_err_set(err, IPS_E_USAGE,
                           "%u remote references: the merged graph is needed",
                           g->in_count);
    if (scenario->has_goal && scenario->goal >= g->node_count)
        return ips_err_set(err, IPS_E_USAGE, "the goal is not in the graph");
    if (ask->machine_count == 0 ||
        ask->machine_count > IPS_REPLAY_MACHINES_MAX ||
        g->chain_count > RP_NO_CHAIN - IPS_REPLAY_MACHINES_MAX - 1)
        return ips_err_set(err, IPS_E_LIMIT, "%u machines and %u chains",
                           ask->machine_count, g->chain_count);
    for (uint32_t m = 0; m < ask->machine_count; m++) {
        int rc = check_machine(&ask->machine[m], m, err);
        if (rc < 0)
            return rc;
    }
    for (uint32_t c = 0; c < g->chain_count; c++)
        if (g->w[g->chains[c].first] != 0)
            return ips_err_set(err, IPS_E_USAGE,
                               "a reduced graph: chain %u begins with a value",
                               c);
    int rc = check_media(ask, err);
    if (rc == 0 && ask->locks)
        rc = check_locks(g, ask->locks, err);
    if (rc == 0 && ask->queues && (ask->move_count || ask->relabel))
        rc = ips_err_set(err, IPS_E_USAGE,
                         "a replay with work queues can neither have moves "
                         "nor compute weights");
    return rc < 0 ? rc : check_map_moves_and_loads(g, ask, err);
}

/* ---- upper bound of the replay's time ----------------------------------- */

/* Returns the time in ns that `total` ns of work take on machine m if only one
 * chain at a time runs there. */
static ips_u128 time_of_one_chain_at_a_time(const struct ips_replay_machine *m,
                                            uint64_t total)
{
    return (ips_u128)total * rp_time_per_work_num(m, 1) /
               ips_max_u64(rp_time_per_work_den(m), 1) +
           1;
}

/* Returns an upper bound of the total time of `count` messages with `bytes`
 * bytes, whatever machines they are between: each message takes the greatest
 * base_ns, each byte the slowest pair's rate. Rounding adds 1 ns a message. */
static uint64_t compute_bound_of_message_times(const struct rp *r,
                                               uint64_t count, uint64_t bytes)
{
    uint64_t bases = 0, all_bytes = 0;
    const struct ips_replay_ask *ask = r->ask;
    size_t pairs = ask->message_time ? (size_t)r->machines * r->machines : 1;
    for (size_t p = 0; p < pairs; p++) {
        struct ips_message_time base =
            ask->message_time ? ask->message_time[p] : r->arcs.message_time;
        if (ask->message_time && ask->curve && ask->curve[p]) {
            struct ips_message_time line =
                ips_curve_upper_bound_line(ask->curve[p]);
            base.base_ns = line.base_ns;
            base.per_byte_q32 = line.per_byte_q32;
        }
        if (ask->wire && ask->wire[p]) {
            struct ips_message_time line =
                ips_curve_upper_bound_line(ask->wire[p]);
            base.base_ns = ips_add_sat(base.base_ns, line.base_ns);
            base.per_byte_q32 =
                ips_add_sat(base.per_byte_q32, line.per_byte_q32);
        }
        struct ips_message_time byte = base;
        ips_u128 wide = (ips_u128)base.base_ns * count;
        base.base_ns = wide > UINT64_MAX ? UINT64_MAX : (uint64_t)wide;
        byte.base_ns = 0;
        bases =
            ips_max_u64(bases, ips_message_time_compute_message_ns(&base, 0));
        all_bytes = ips_max_u64(
            all_bytes, ips_message_time_compute_message_ns(&byte, bytes));
    }
    return ips_add_sat(ips_add_sat(bases, all_bytes), count);
}

struct arc_sums {
    /* sum of the cross arcs that have fixed times (no message times) */
    uint64_t waits_ns;
    /* number of messages; sum of their bytes, saturating */
    uint64_t messages, bytes;
};

static inline uint64_t value_if_true_else_zero(bool is, uint64_t n)
{
    return n & -(uint64_t)is;
}

/* Adds up the times and bytes of the cross arcs. Sets *resources to the number
 * of RESOURCE arcs, without barriers, that the replay keeps as recorded. Avoids
 * branches on a node's kind, because it visits every node. */
static struct arc_sums sum_cross_arc_times_and_bytes(const struct rp *r,
                                                     uint64_t *resources)
{
    const struct ips_graph *g = r->g;
    ips_u128 waits = 0, bytes = 0;
    uint64_t messages = 0, any = 0;
    for (uint32_t i = 0; i < g->node_count; i++) {
        bool is = (g->xpred[i] != IPS_NO_NODE) & !rp_takes_lock_unit(r, i);
        uint8_t mode = r->arcs.mode[g->xkind[i]];
        bool message = is & (mode == IPS_ARC_MTIME);
        waits +=
            value_if_true_else_zero(is & (mode == IPS_ARC_XLEN), g->xlen[i]);
        bytes += value_if_true_else_zero(message, g->xlen[i]);
        messages += message;
        any += is & (mode != IPS_ARC_ABSENT) & (g->xkind[i] == IPS_X_RESOURCE) &
               (g->xlen[i] != IPS_THING_BARRIER);
    }
    *resources = any;
    return (struct arc_sums){waits > UINT64_MAX ? UINT64_MAX : (uint64_t)waits,
                             messages,
                             bytes > UINT64_MAX ? UINT64_MAX : (uint64_t)bytes};
}

/* Sets `bits`, the precision of internal times. At any time before the end some
 * chain works or some message is in transit. So the sum of all work and all
 * arcs bounds the replay's time, and `bits` is chosen so that this bound
 * fits. */
static int choose_time_precision_bits(struct rp *r, struct ips_err *err)
{
    uint64_t total = ips_graph_sum_chain_arcs(r->g);
    struct arc_sums sums = sum_cross_arc_times_and_bytes(r, &r->out->resources);
    uint64_t arcs = ips_add_sat(
        sums.waits_ns,
        compute_bound_of_message_times(r, sums.messages, sums.bytes));
    ips_u128 slowest = total;
    for (uint32_t m = 0; m < r->machines; m++) {
        struct ips_replay_machine is = r->machine[m].is;
        ips_u128 takes = rp_cores_upper_bound_of_work_time(r, m, total);
        slowest = takes > slowest ? takes : slowest;
        takes = time_of_one_chain_at_a_time(&is, total);
        slowest = takes > slowest ? takes : slowest;
        for (uint32_t k = 0; k < r->ask->load_count; k++) {
            if (r->ask->load[k].machine != m)
                continue;
            is.load = rp_ratio_in_lowest_terms(r->ask->load[k].load, 0);
            takes = time_of_one_chain_at_a_time(&is, total);
            slowest = takes > slowest ? takes : slowest;
        }
    }
    ips_u128 bound = slowest + arcs + 1;
    if (bound >= TIMES_LIMIT >> RP_BITS_MIN)
        return ips_err_set(err, IPS_E_LIMIT,
                           "the replay could take more than 2^53 ns (104 "
                           "days): damaged weights, or too slow machines");
    r->bits = RP_BITS_MAX;
    while (bound << r->bits >= TIMES_LIMIT)
        r->bits--;
    r->out->bits = r->bits;
    return 0;
}

/* ---- initialisation ----------------------------------------------------- */

static int no_memory(const struct ips_graph *g, struct ips_err *err)
{
    return ips_err_set(err, IPS_E_NO_MEMORY, "replay of %u nodes, %u chains",
                       g->node_count, g->chain_count);
}

/* initial capacity of a tree; most machines have few chains at a time */
#define TREE_ROOM 4u

static bool alloc_trees(struct rp *r)
{
    uint32_t machines = r->end_core;
    bool all = rp_tree_init(&r->pending_arrivals, TREE_ROOM) &&
               rp_tree_init(&r->completions, machines);
    for (uint32_t m = 0; all && m < machines; m++)
        all = rp_tree_init(&r->machine[m].active, TREE_ROOM);
    return all;
}

static int alloc_replay_state(struct rp *r, struct ips_err *err)
{
    const struct ips_graph *g = r->g;
    struct ips_replay *out = r->out;
    size_t nodes = (size_t)g->node_count + 1, chains = (size_t)r->chains + 1;
    size_t machines = (size_t)r->machines + r->media;
    int rc = rp_cores_assign_numbers(r, err);
    if (rc < 0)
        return rc;
    out->reach = ips_alloc_large(nodes, sizeof(*out->reach));
    out->weight =
        r->ask->relabel ? ips_calloc_large(nodes, sizeof(*out->weight)) : NULL;
    out->chain = calloc(chains, sizeof(*out->chain));
    out->idle_ns = calloc(machines, sizeof(*out->idle_ns));
    if (r->machines > 1)
        r->at_machine = ips_alloc_large(nodes, sizeof(*r->at_machine));
    r->chain = calloc(chains, sizeof(*r->chain));
    r->machine = calloc(r->end_core, sizeof(*r->machine));
    r->ready = calloc(chains, sizeof(*r->ready));
    if (!out->reach || (r->ask->relabel && !out->weight) || !out->chain ||
        !out->idle_ns || (r->machines > 1 && !r->at_machine) || !r->chain ||
        !r->machine || !r->ready || !alloc_trees(r))
        return no_memory(g, err);
    rc = r->media ? rp_media_alloc(r, err) : 0;
    if (rc == 0)
        rc = rp_cores_alloc_placing_list(r, err);
    if (rc == 0 && r->ask->locks)
        rc = rp_locks_alloc_and_init(r, err);
    if (rc == 0 && r->ask->queues)
        rc = rp_queues_alloc(r, err);
    if (rc < 0)
        return rc;
    r->reach = out->reach;
    r->weight = out->weight;
    memset(r->reach, 0xff, nodes * sizeof(*r->reach)); /* RP_UNKNOWN, and no
                                                          chain waits */
    return 0;
}

static void release_replay(struct rp *r)
{
    rp_media_release(r);
    rp_locks_release(r);
    rp_queues_release(r);
    ips_free_large(r->at_machine);
    free(r->chain);
    rp_cores_release(r);
    for (uint32_t m = 0; r->machine && m < r->end_core; m++)
        rp_tree_release(&r->machine[m].active);
    free(r->machine);
    rp_tree_release(&r->pending_arrivals);
    rp_tree_release(&r->completions);
    free(r->ready);
}

static int init_machines_and_precision(struct rp *r, struct ips_err *err)
{
    for (uint32_t i = 0; i < r->machines; i++) {
        struct rp_machine *m = &r->machine[i];
        m->is = r->ask->machine[i];
        m->is.speed = rp_ratio_in_lowest_terms(m->is.speed, 1);
        m->is.load = rp_ratio_in_lowest_terms(m->is.load, 0);
        m->num = rp_time_per_work_num(&m->is, 0);
        m->den = rp_time_per_work_den(&m->is);
        m->shift = rp_shift_for_power_of_two(m->den);
    }
    for (uint32_t i = r->machines; i < r->machines + r->media; i++) {
        struct rp_machine *m = &r->machine[i];
        m->is = (struct ips_replay_machine){1, {1, 1}, {0, 1}, 0};
        m->num = m->den = 1;
        m->shift = 0;
    }
    for (uint32_t i = 0; i < r->first_core; i++)
        r->machine[i].turn_v = RP_NEVER;
    rp_cores_init_from_machines(r);
    return choose_time_precision_bits(r, err);
}

/* Sets every chain's machine and first move. */
static void init_chain_machines_and_moves(struct rp *r)
{
    const struct ips_graph *g = r->g;
    const struct ips_replay_ask *ask = r->ask;
    uint32_t k = 0;
    for (uint32_t c = 0; c < r->chains; c++) {
        struct rp_chain *cur = &r->chain[c];
        cur->pos = cur->first = g->chains[c].first;
        cur->end = cur->pos + g->chains[c].count;
        cur->machine = ask->map ? ask->map[c] : 0;
        if (k < ask->move_count && ask->move[k].node == cur->pos)
            cur->machine = ask->move[k++].machine;
        cur->core = RP_NO_CORE;
        cur->move = k;
        cur->move_node = IPS_NO_NODE;
        if (k < ask->move_count && ask->move[k].node < cur->end)
            cur->move_node = ask->move[k].node;
        while (k < ask->move_count && ask->move[k].node < cur->end)
            k++;
    }
}

/* ---- results ------------------------------------------------------------ */

static int check_no_chain_stalled(const struct rp *r, struct ips_err *err)
{
    char named[512] = "";
    uint32_t count = 0;
    for (uint32_t c = 0; c < r->chains; c++) {
        uint32_t i = r->chain[c].pos;
        if (i == r->chain[c].end)
            continue;
        size_t at = strlen(named);
        if (count++ < STALL_NAMED)
            snprintf(named + at, sizeof(named) - at,
                     "%s node %u of %u.%u awaits node %u", at ? "," : "", i,
                     r->g->chains[c].pid, r->g->chains[c].tid, r->g->xpred[i]);
    }
    if (count == 0)
        return 0;
    return ips_err_set(
        err, IPS_E_STALLED,
        "a cycle or a missing send holds up %u of %u chains:%s%s", count,
        r->chains, named, count > STALL_NAMED ? ", ..." : "");
}

static void fill_replay_results(struct rp *r,
                                const struct ips_scenario *scenario)
{
    const struct ips_graph *g = r->g;
    struct ips_replay *out = r->out;
    uint64_t last_t = 0;
    for (uint32_t c = 0; c < r->chains; c++)
        last_t = ips_max_u64(last_t, r->reach[r->chain[c].end - 1]);
    for (uint32_t m = 0; m < r->machines + r->media; m++)
        out->idle_ns[m] = rp_internal_time_to_ns(
            r, r->machine[m].idle_t + last_t - r->machine[m].idle_since);
    for (uint32_t i = 0; i < g->node_count; i++)
        out->reach[i] = rp_internal_time_to_ns(r, out->reach[i]);
    struct ips_est e = {.est = out->reach, .end = IPS_NO_NODE};
    for (uint32_t c = 0; c < r->chains; c++) {
        struct ips_replay_chain *of = &out->chain[c];
        rp_add_work_of_chain_to_run_time(r, c);
        of->start_ns = out->reach[g->chains[c].first];
        of->end_ns = out->reach[r->chain[c].end - 1];
        of->blocked_ns = r->chain[c].blocked_ns;
        /* A chain is active for at least as long as its work takes; the minimum
         * only corrects rounding. */
        uint64_t active = of->end_ns - of->start_ns - of->blocked_ns;
        of->run_ns = ips_min_u64(of->run_ns, active);
        of->queued_ns = active - of->run_ns;
        ips_est_update_path_end_from_chain(&e, g, scenario, c);
    }
    out->last_ns = rp_internal_time_to_ns(r, last_t);
    out->makespan_ns = e.t_max;
    out->end = e.end;
}

/* After ATTEMPTS - 1 stalled attempts all locks keep the recorded order, in
 * which the program did not deadlock. */
#define ATTEMPTS 4

static uint32_t mark_locks_to_keep_in_recorded_order(const struct rp *r,
                                                     bool *kept, int number)
{
    uint32_t more = rp_mark_and_count_awaited_locks(r, kept);
    for (uint32_t k = 0;
         more && number == ATTEMPTS - 2 && k < r->ask->locks->lock_count; k++)
        more += !kept[k];
    if (more && number == ATTEMPTS - 2)
        memset(kept, 1, r->ask->locks->lock_count);
    return more;
}

/* Runs one attempt of the replay. If waits for locks stall it, sets *again to
 * the number of locks that the next attempt has to keep in recorded order in
 * addition; else to 0. */
static int attempt_replay(const struct ips_graph *g,
                          const struct ips_scenario *scenario,
                          const struct ips_replay_ask *ask, bool *kept,
                          int number, struct ips_replay *out, uint32_t *again,
                          struct ips_err *err)
{
    struct rp r = {.g = g,
                   .ask = ask,
                   .out = out,
                   .machines = ask->machine_count,
                   .chains = g->chain_count,
                   .media = ask->medium_count,
                   .order_kept = kept};
    memset(out, 0, sizeof(*out));
    out->end = IPS_NO_NODE;
    *again = 0;
    ips_cross_arc_weighting_init(&r.arcs, scenario);
    if (ask->message_time) /* even if the scenario's message time is 0, those of
                       the pairs may not be */
        r.arcs.mode[IPS_X_DATA] = IPS_ARC_MTIME;
    int rc = alloc_replay_state(&r, err);
    if (rc == 0)
        rc = init_machines_and_precision(&r, err);
    if (rc == 0) {
        init_chain_machines_and_moves(&r);
        if (ask->queues)
            rp_queues_init_state(&r);
        rp_cores_start_first_turns(&r);
        rp_run_event_loop(&r);
        rc = r.no_memory ? no_memory(g, err) : check_no_chain_stalled(&r, err);
    }
    if (rc == 0)
        fill_replay_results(&r, scenario);
    else
        ips_replay_release(out);
    if (rc == IPS_E_STALLED)
        *again = mark_locks_to_keep_in_recorded_order(&r, kept, number);
    release_replay(&r);
    return rc;
}

int ips_replay(const struct ips_graph *g, const struct ips_scenario *scenario,
               const struct ips_replay_ask *ask, struct ips_replay *out,
               struct ips_err *err)
{
    uint32_t locks = ask->locks ? ask->locks->lock_count : 0, again = 0,
             all = 0;
    memset(out, 0, sizeof(*out));
    out->end = IPS_NO_NODE;
    int rc = check_replay_request(g, scenario, ask, err);
    if (rc < 0)
        return rc;
    bool *kept = calloc((size_t)locks + 1, sizeof(*kept));
    if (!kept)
        return no_memory(g, err);
    for (int number = 0; number < ATTEMPTS; number++) {
        struct ips_err why = {0};
        rc = attempt_replay(g, scenario, ask, kept, number, out, &again, &why);
        all += again;
        /* Callers check only *err, so the error of an earlier attempt must
         * not remain there. */
        if (err && (rc < 0 || number > 0))
            *err = why;
        if (!again)
            break;
    }
    out->kept_count = all;
    free(kept);
    return rc;
}
