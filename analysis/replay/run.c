/*
 * The event loop of the replay. An event is the end of a chain's work, or the
 * arrival for which a blocked chain waits. A message for which no chain waits
 * is no event, and nor is a node that is reached without work.
 *
 * Before a machine's chains change, the machine is advanced to the event's
 * time, because its rate is valid only until then. The virtual clock advances
 * by as many whole units as fit, and the machine's time by exactly the time of
 * these units (struct rp_machine). So the machine's time may stay behind the
 * event by less than one virtual unit, which the next advance includes:
 * rounding loses nothing.
 */
#include "analysis/replay/run.h"

#include <stdlib.h>

#define NOWHERE UINT32_MAX
#define AHEAD 24u /* prefetch distance in nodes */
/* The functions of the hot path are inlined into one. */
#define RP_HOT static inline __attribute__((always_inline))

/* ---- scheduling events -------------------------------------------------- */

void rp_schedule_arrival_at_chain(struct rp *r, uint32_t c, uint64_t t)
{
    uint32_t leaf = r->arrived;
    r->arrived = RP_NO_LEAF;
    if (leaf == RP_NO_LEAF)
        leaf = rp_tree_alloc_leaf(&r->pending_arrivals);
    if (leaf == RP_NO_LEAF)
        r->no_memory = true;
    else
        rp_tree_set_leaf(&r->pending_arrivals, leaf, t, c);
}

/* ---- a machine's virtual clock --------------------------------------------
 */

/* Returns the virtual time of the machine's next completion. */
RP_HOT uint64_t next_completion_virtual_time(const struct rp_machine *m)
{
    return rp_tree_first_key(&m->active);
}

/* Computes when the virtual clock will have advanced by dv: at *t0 + *rem /
 * den. */
RP_HOT void compute_time_after_virtual_step(const struct rp_machine *m,
                                            uint64_t dv, uint64_t *t0,
                                            uint64_t *rem)
{
    uint64_t x;
    if (m->num == m->den) {
        *t0 = m->t0 + dv;
        *rem = m->rem;
    } else if (!__builtin_mul_overflow(dv, m->num, &x) &&
               !__builtin_add_overflow(x, m->rem, &x)) {
        uint64_t q = m->shift < RP_NO_SHIFT ? x >> m->shift : x / m->den;
        *t0 = m->t0 + q;
        *rem = x - q * m->den;
    } else {
        ips_u128 wide = (ips_u128)dv * m->num + m->rem;
        *t0 = m->t0 + (uint64_t)(wide / m->den);
        *rem = (uint64_t)(wide % m->den);
    }
}

/* Returns how far the virtual clock advances until t, which must be later than
 * t0 + rem / den. */
RP_HOT uint64_t compute_virtual_step_until_time(const struct rp_machine *m,
                                                uint64_t t)
{
    uint64_t x;
    if (m->num == m->den)
        return t - m->t0 - (m->rem != 0);
    if (!__builtin_mul_overflow(t - m->t0, m->den, &x))
        return (x - m->rem) / m->num;
    return (uint64_t)(((ips_u128)(t - m->t0) * m->den - m->rem) / m->num);
}

static void advance_virtual_clock_of_machine(struct rp_machine *m, uint64_t t)
{
    if (t <= m->label_t)
        return;
    m->label_t = t;
    if (m->count == 0 || m->is_stopped) {
        m->t0 = t;
        m->rem = 0;
        return;
    }
    /* The clock must not pass the next completion or the end of the turn, which
     * may be a fraction of a unit before t. */
    uint64_t dv = ips_min_u64(
        compute_virtual_step_until_time(m, t),
        ips_min_u64(next_completion_virtual_time(m), m->turn_v) - m->v0);
    uint64_t t0, rem;
    compute_time_after_virtual_step(m, dv, &t0, &rem);
    m->t0 = t0;
    m->rem = rem;
    m->v0 += dv;
}

void rp_advance_virtual_clock_of_machine(struct rp_machine *m, uint64_t t)
{
    advance_virtual_clock_of_machine(m, t);
}

void rp_time_after_virtual_step(const struct rp_machine *m, uint64_t dv,
                                uint64_t *t0, uint64_t *rem)
{
    compute_time_after_virtual_step(m, dv, t0, rem);
}

/* Recomputes machine i's next completion after its chains or its load
 * changed. */
RP_HOT void update_next_completion(struct rp *r, uint32_t i)
{
    struct rp_machine *m = &r->machine[i];
    if (i >= r->first_core) {
        rp_cores_update_next_event(r, i);
        return;
    }
    if (m->count == 0) {
        rp_tree_set_leaf(&r->completions, i, RP_NEVER, i);
        return;
    }
    m->num = rp_time_per_work_num(&m->is, m->count);
    compute_time_after_virtual_step(m, next_completion_virtual_time(m) - m->v0,
                                    &m->next_t0, &m->next_rem);
    rp_tree_set_leaf(&r->completions, i,
                     ips_max_u64(m->next_t0 + (m->next_rem != 0), m->label_t),
                     i);
}

RP_HOT void add_work_item_to_machine(struct rp *r, uint32_t i, uint32_t id,
                                     uint64_t w_v, uint64_t now)
{
    struct rp_machine *m = &r->machine[i];
    uint32_t leaf = m->hole ? rp_item_leaf(&m->active.at[1])
                            : rp_tree_alloc_leaf(&m->active);
    if (leaf == RP_NO_LEAF) {
        r->no_memory = true;
        return;
    }
    advance_virtual_clock_of_machine(m, now);
    if (m->count == 0)
        m->idle_t += now - m->idle_since;
    m->count += !m->hole;
    m->hole = false;
    rp_tree_set_leaf(&m->active, leaf, m->v0 + w_v, id);
    if (i != r->busy)
        update_next_completion(r, i);
}

RP_HOT void add_work_to_machine(struct rp *r, uint32_t i, uint32_t id,
                                uint64_t w, uint64_t now)
{
    add_work_item_to_machine(r, i, id, w << r->bits, now);
}

void rp_add_virtual_work(struct rp *r, uint32_t i, uint32_t id, uint64_t w_v,
                         uint64_t now)
{
    add_work_item_to_machine(r, i, id, w_v, now);
}

/* Starts w ns of work of chain c on its machine. */
RP_HOT void start_work_of_chain(struct rp *r, uint32_t c, uint64_t w,
                                uint64_t now)
{
    r->chain[c].work_ns += w;
    if (r->core_of && r->core_of[r->chain[c].machine] != RP_NO_CORE)
        rp_cores_add_work_or_place_later(r, c, w, now);
    else
        add_work_to_machine(r, r->chain[c].machine, c, w, now);
}

/* Removes the completed entry of m->active (see `hole`) unless new work has
 * replaced it, and recomputes the machine's next event. */
RP_HOT void remove_completed_work_unless_replaced(struct rp *r,
                                                  struct rp_machine *m,
                                                  uint64_t now)
{
    if (m->hole) {
        m->hole = false;
        m->count--;
        rp_tree_free_leaf(&m->active, rp_item_leaf(&m->active.at[1]));
        if (m->count == 0)
            m->idle_since = now;
        if (m >= r->machine + r->first_core)
            rp_cores_update_after_chain_left(r, (uint32_t)(m - r->machine),
                                             now);
    }
    update_next_completion(r, (uint32_t)(m - r->machine));
}

/* ---- running chains ----------------------------------------------------- */

void rp_add_work_of_chain_to_run_time(struct rp *r, uint32_t c)
{
    struct rp_chain *cur = &r->chain[c];
    const struct ips_ratio *s = &r->machine[cur->machine].is.speed;
    r->out->chain[c].run_ns +=
        (uint64_t)((ips_u128)cur->work_ns * s->den / s->num);
    cur->work_ns = 0;
}

static void move_chain_to_next_machine(struct rp *r, uint32_t c)
{
    struct rp_chain *cur = &r->chain[c];
    const struct ips_replay_ask *ask = r->ask;
    rp_add_work_of_chain_to_run_time(r, c);
    cur->machine = ask->move[cur->move++].machine;
    cur->move_node = IPS_NO_NODE;
    if (cur->move < ask->move_count && ask->move[cur->move].node < cur->end)
        cur->move_node = ask->move[cur->move].node;
}

/* Returns how long node i's cross arc takes if chain c receives it, in units of
 * _t. */
RP_HOT uint64_t cross_arc_time(const struct rp *r, uint32_t c, uint32_t i)
{
    const struct ips_graph *g = r->g;
    uint8_t mode = r->arcs.mode[g->xkind[i]];
    if (mode == IPS_ARC_ZERO)
        return 0;
    if (mode == IPS_ARC_XLEN)
        return g->xlen[i] << r->bits;
    return rp_compute_message_ns(r, rp_machine_pair_index(r, g->xpred[i], c),
                                 g->xlen[i])
           << r->bits;
}

/* Returns true if chain c can reach its node `pos` now, because the node's
 * cross arc is absent or has arrived; else the chain waits from now on. */
RP_HOT bool cross_arc_arrived_or_wait(struct rp *r, uint32_t c, uint64_t now)
{
    const struct ips_graph *g = r->g;
    struct rp_chain *cur = &r->chain[c];
    uint32_t i = cur->pos;
    if (rp_takes_lock_unit(r, i)) {
        rp_insert_chain_into_lock_waiters(r, c);
        return false;
    }
    if (!ips_has_local_cross_arc(g, &r->arcs, i))
        return true;
    uint64_t from = r->reach[g->xpred[i]];
    if (from >= RP_UNKNOWN) {
        cur->next = (uint32_t)from;
        r->reach[g->xpred[i]] = RP_UNKNOWN | c;
        return false;
    }
    uint64_t t;
    if (!rp_arrives_through_medium(r, i)) {
        t = from + cross_arc_time(r, c, i);
    } else if (r->arrive[i] < RP_UNKNOWN) {
        t = rp_medium_arrival_time(r, i);
    } else {
        /* low bit: tells rp_schedule_arrival_after_transfer() that a chain
         * waits */
        r->arrive[i] |= 1;
        return false;
    }
    if (t <= now)
        return true;
    rp_schedule_arrival_at_chain(r, c, t);
    return false;
}

bool rp_cross_arc_arrived_or_wait(struct rp *r, uint32_t c, uint64_t now)
{
    return cross_arc_arrived_or_wait(r, c, now);
}

/* Handles the end of chain c's work before its node `pos`. Returns true if the
 * node can be reached now, false if the chain waits. */
RP_HOT bool finish_work_and_reach_node_or_wait(struct rp *r, uint32_t c,
                                               uint64_t now)
{
    struct rp_chain *cur = &r->chain[c];
    cur->done_t = now;
    if (r->queues && rp_queue_is_piece_start(r, cur->pos)) {
        uint32_t next = rp_queue_choose_next_node_or_wait(r, c);
        if (next == IPS_NO_NODE)
            return false;
        cur->pos = next;
    }
    return cross_arc_arrived_or_wait(r, c, now);
}

static void schedule_or_ready_waiting_chains(struct rp *r, uint64_t list,
                                             uint64_t now)
{
    for (uint32_t c = (uint32_t)list; c != RP_NO_CHAIN; c = r->chain[c].next) {
        uint32_t i = r->chain[c].pos;
        bool by_medium = rp_arrives_through_medium(r, i);
        if (by_medium && r->arrive[i] >= RP_UNKNOWN) {
            r->arrive[i] |= 1;
            continue;
        }
        uint64_t way = by_medium ? rp_medium_arrival_time(r, i) - now
                                 : cross_arc_time(r, c, i);
        if (way)
            rp_schedule_arrival_at_chain(r, c, now + way);
        else
            r->ready[r->ready_count++] = c;
    }
}

/* Prefetches the columns some nodes after i. Chains take turns, each at its own
 * position in all columns, which is too much for the hardware prefetcher. */
RP_HOT void prefetch_nodes_after(const struct rp *r, uint32_t i)
{
    const struct ips_graph *g = r->g;
    /* may be beyond the array, because a prefetch is only a hint */
    size_t ahead = (size_t)i + AHEAD;
    __builtin_prefetch(&g->w[ahead]);
    __builtin_prefetch(&g->xlen[ahead]);
    __builtin_prefetch(&g->xpred[ahead]);
    __builtin_prefetch(&g->xkind[ahead]);
    __builtin_prefetch(&r->reach[ahead], 1);
}

/* Lets the chain reach its node i: stores the time, and handles what depends on
 * the node (its messages, lock unit and waiting chains). */
RP_HOT void reach_node(struct rp *r, struct rp_chain *cur, uint32_t i,
                       uint64_t now)
{
    uint64_t waiting = r->reach[i];
    prefetch_nodes_after(r, i);
    if (r->weight && i > cur->first)
        r->weight[i] = rp_internal_time_to_ns(r, cur->done_t) -
                       rp_internal_time_to_ns(r, r->reach[i - 1]);
    r->reach[i] = now;
    if (r->at_machine)
        r->at_machine[i] = (uint16_t)cur->machine;
    if (r->media)
        rp_start_transfers_of_node(r, i, now);
    if (rp_gives_lock_unit(r, i))
        rp_return_lock_unit(r, i);
    if (r->queues)
        rp_schedule_result_if_node_sends_it(r, i, now);
    if ((uint32_t)waiting != RP_NO_CHAIN)
        schedule_or_ready_waiting_chains(r, waiting, now);
}

RP_HOT void run_chain_until_work_or_wait(struct rp *r, uint32_t c, uint64_t now)
{
    struct rp_chain *cur = &r->chain[c];
    for (;;) {
        reach_node(r, cur, cur->pos++, now);
        if (cur->pos == cur->end)
            return;
        if (cur->pos == cur->move_node)
            move_chain_to_next_machine(r, c);
        uint64_t w = r->g->w[cur->pos];
        if (w) {
            start_work_of_chain(r, c, w, now);
            return;
        }
        if (!finish_work_and_reach_node_or_wait(r, c, now))
            return;
    }
}

void rp_continue_chain(struct rp *r, uint32_t c, uint64_t now)
{
    struct rp_chain *cur = &r->chain[c];
    if (cur->pos != cur->first)
        cur->blocked_ns += rp_internal_time_to_ns(r, now) -
                           rp_internal_time_to_ns(r, cur->done_t);
    run_chain_until_work_or_wait(r, c, now);
}

void rp_continue_ready_chains(struct rp *r, uint64_t now)
{
    while (r->ready_count)
        rp_continue_chain(r, r->ready[--r->ready_count], now);
}

RP_HOT void finish_work_or_turn_of_machine(struct rp *r, uint32_t i,
                                           uint64_t now)
{
    struct rp_machine *m = &r->machine[i];
    if (i >= r->first_core && rp_cores_switch_turn_or_pull_chain(r, i, now))
        return;
    uint32_t c = rp_item_id(&m->active.at[1]);
    m->v0 = next_completion_virtual_time(m);
    m->t0 = m->next_t0;
    m->rem = m->next_rem;
    m->label_t = now;
    m->hole = true;
    r->busy = i;
    if (i >= r->first_core)
        r->chain[c].ran_t = now;
    if (i >= r->machines && i < r->first_core)
        /* for a medium, c is the receiving node */
        rp_schedule_arrival_after_transfer(r, c, i - r->machines, now);
    else if (finish_work_and_reach_node_or_wait(r, c, now))
        run_chain_until_work_or_wait(r, c, now);
    rp_continue_ready_chains(r, now);
    r->busy = NOWHERE;
    remove_completed_work_unless_replaced(r, m, now);
}

/* Handles an awaited arrival: a chain continues, or a queue's result arrives.
 */
static void continue_chain_or_insert_result(struct rp *r, uint64_t now)
{
    uint32_t c = rp_item_id(&r->pending_arrivals.at[1]);
    r->arrived = rp_item_leaf(&r->pending_arrivals.at[1]);
    if (c < r->chains)
        rp_continue_chain(r, c, now);
    else
        rp_insert_arrived_result(r, c - r->chains, now);
    rp_continue_ready_chains(r, now);
    if (r->arrived != RP_NO_LEAF)
        rp_tree_free_leaf(&r->pending_arrivals, r->arrived);
    r->arrived = RP_NO_LEAF;
}

static void apply_load_change_to_machine(struct rp *r,
                                         const struct ips_replay_load *load)
{
    struct rp_machine *m = &r->machine[load->machine];
    if (r->core_of && r->core_of[load->machine] != RP_NO_CORE) {
        m->is.load = rp_ratio_in_lowest_terms(load->load, 0);
        rp_cores_apply_changed_machine_load(r, load->machine,
                                            load->at_ns << r->bits);
        return;
    }
    advance_virtual_clock_of_machine(m, load->at_ns << r->bits);
    uint64_t den = rp_time_per_work_den(&m->is);
    m->is.load = rp_ratio_in_lowest_terms(load->load, 0);
    m->den = rp_time_per_work_den(&m->is);
    m->shift = rp_shift_for_power_of_two(m->den);
    m->rem = (uint64_t)((ips_u128)m->rem * m->den / den);
    update_next_completion(r, load->machine);
}

void rp_run_event_loop(struct rp *r)
{
    r->busy = NOWHERE;
    r->arrived = RP_NO_LEAF;
    for (uint32_t c = 0; c < r->chains; c++) {
        if (finish_work_and_reach_node_or_wait(r, c, 0)) {
            rp_continue_chain(r, c, 0);
            rp_continue_ready_chains(r, 0);
        }
    }
    while (!r->no_memory) {
        uint64_t come = rp_tree_first_key(&r->pending_arrivals);
        uint64_t done = rp_tree_first_key(&r->completions);
        uint64_t next = ips_min_u64(come, done);
        if (r->due_count && next > r->now) {
            rp_grant_free_units_and_continue_chains(r);
            continue;
        }
        if (r->queue_due && next > r->now) {
            rp_queue_let_dispatchers_take_results(r);
            continue;
        }
        if (r->place_count && next > r->now) {
            rp_cores_place_waiting_chains(r);
            continue;
        }
        if (next == RP_NEVER)
            break;
        if (r->load_next < r->ask->load_count &&
            r->ask->load[r->load_next].at_ns <= next >> r->bits) {
            apply_load_change_to_machine(r, &r->ask->load[r->load_next++]);
            continue;
        }
        r->out->events++;
        r->now = next;
        if (come <= done)
            continue_chain_or_insert_result(r, next);
        else
            finish_work_or_turn_of_machine(r, rp_item_id(&r->completions.at[1]),
                                           next);
    }
}
