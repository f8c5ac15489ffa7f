/*
 * Models each core separately on machines with load and turns (turn_ns of the
 * machine). replay.h has the rules. Each core is a machine with one core in
 * rp.machine. Its virtual clock advances as if there were no load, and stops
 * while its loads have their turn. So the end of the chains' turn, `turn_v`, is
 * a virtual time like completions, and is compared with them exactly.
 *
 * A chain's `machine` is the number of the machine itself, not of a core. Only
 * speed, load, count and idle time of that machine's own entry are used.
 */
#include <stdlib.h>

#include "analysis/replay/run.h"

/* While a core with at most one load has no chain, the chains' turn grows by
 * 1/2^FORGIVEN_SHIFT of that time. Measured: docs/papers.md. */
#define FORGIVEN_SHIFT 2u

/* ---- load and turn of a core -------------------------------------------- */

/* Returns the share of a machine's load b that its core j of n cores has. */
static struct ips_ratio share_of_machine_load_for_core(struct ips_ratio b,
                                                       uint32_t n, uint32_t j)
{
    uint32_t whole = b.num / b.den, rest = b.num % b.den;
    struct ips_ratio is = {whole / n + (j < whole % n), 1};
    if (j == whole % n && rest) {
        is.num = is.num * b.den + rest;
        is.den = b.den;
    }
    return is;
}

static uint64_t multiply_by_ratio(uint64_t x, struct ips_ratio by)
{
    return (uint64_t)((ips_u128)x * by.num / by.den);
}

/* Returns the length of the chains' turn in ns of work at speed 1. */
static uint64_t chains_turn_length_as_work_ns(const struct rp_machine *core)
{
    return ips_max_u64(multiply_by_ratio(core->is.turn_ns, core->is.speed), 1);
}

static void set_end_of_chains_turn(const struct rp *r, struct rp_machine *core)
{
    core->turn_v =
        core->is.load.num
            ? core->v0 + (chains_turn_length_as_work_ns(core) << r->bits)
            : RP_NEVER;
}

/* ---- initialisation ----------------------------------------------------- */

static bool machine_has_turns_and_load(const struct ips_replay_ask *ask,
                                       uint32_t m)
{
    const struct ips_ratio *b = &ask->machine[m].load;
    bool is = b->den && b->num, turns = ask->machine[m].turn_ns != 0;
    for (uint32_t k = 0; turns && !is && k < ask->load_count; k++)
        is = ask->load[k].machine == m && ask->load[k].load.den &&
             ask->load[k].load.num;
    return turns && is;
}

int rp_cores_assign_numbers(struct rp *r, struct ips_err *err)
{
    uint64_t cores = 0;
    bool turns = false;
    for (uint32_t m = 0; m < r->machines; m++)
        turns = turns || machine_has_turns_and_load(r->ask, m);
    r->first_core = r->end_core = r->machines + r->media;
    if (!turns)
        return 0;
    r->core_of = calloc(r->machines, sizeof(*r->core_of));
    if (!r->core_of)
        return ips_err_set(err, IPS_E_NO_MEMORY, "replay on %u machines",
                           r->machines);
    for (uint32_t m = 0; m < r->machines; m++) {
        r->core_of[m] = RP_NO_CORE;
        if (!machine_has_turns_and_load(r->ask, m))
            continue;
        r->core_of[m] = r->first_core + (uint32_t)cores;
        cores += r->ask->machine[m].cores;
        if (cores > IPS_REPLAY_LINES_MAX)
            return ips_err_set(err, IPS_E_LIMIT,
                               "machines with load have more than %u cores",
                               IPS_REPLAY_LINES_MAX);
    }
    r->end_core += (uint32_t)cores;
    return 0;
}

int rp_cores_alloc_placing_list(struct rp *r, struct ips_err *err)
{
    if (r->first_core == r->end_core)
        return 0;
    r->placing = calloc((size_t)r->chains + 1, sizeof(*r->placing));
    return r->placing ? 0
                      : ips_err_set(err, IPS_E_NO_MEMORY, "replay of %u chains",
                                    r->chains);
}

void rp_cores_release(struct rp *r)
{
    free(r->core_of);
    free(r->placing);
}

void rp_cores_init_from_machines(struct rp *r)
{
    for (uint32_t m = 0; r->core_of && m < r->machines; m++) {
        const struct ips_replay_machine *is = &r->machine[m].is;
        for (uint32_t j = 0; r->core_of[m] != RP_NO_CORE && j < is->cores;
             j++) {
            struct rp_machine *core = &r->machine[r->core_of[m] + j];
            core->is = (struct ips_replay_machine){
                1, is->speed,
                share_of_machine_load_for_core(is->load, is->cores, j),
                is->turn_ns};
            core->num = is->speed.den;
            core->den = is->speed.num;
            core->shift = rp_shift_for_power_of_two(core->den);
            core->of = m;
        }
    }
}

void rp_cores_start_first_turns(struct rp *r)
{
    for (uint32_t i = r->first_core; i < r->end_core; i++)
        set_end_of_chains_turn(r, &r->machine[i]);
}

/* Returns the longest turn, in ns, that loads have on the first core of machine
 * m. */
static ips_u128 longest_turn_of_loads_ns(const struct rp *r, uint32_t m)
{
    const struct ips_replay_machine *is = &r->machine[m].is;
    uint64_t most = multiply_by_ratio(
        is->turn_ns, share_of_machine_load_for_core(is->load, is->cores, 0));
    for (uint32_t k = 0; k < r->ask->load_count; k++) {
        if (r->ask->load[k].machine != m)
            continue;
        struct ips_ratio b = rp_ratio_in_lowest_terms(r->ask->load[k].load, 0);
        most = ips_max_u64(
            most, multiply_by_ratio(is->turn_ns, share_of_machine_load_for_core(
                                                     b, is->cores, 0)));
    }
    return most;
}

ips_u128 rp_cores_upper_bound_of_work_time(const struct rp *r, uint32_t m,
                                           uint64_t total)
{
    if (!r->core_of || r->core_of[m] == RP_NO_CORE)
        return 0;
    const struct rp_machine *core = &r->machine[r->core_of[m]];
    /* The first core has the most whole loads; another core may have a
     * fraction of a load more, so its turn of loads is longer by less than
     * one turn_ns. */
    ips_u128 turns =
        (ips_u128)(total / chains_turn_length_as_work_ns(core)) + 1;
    return (ips_u128)total * core->is.speed.den / core->is.speed.num + 1 +
           turns * (longest_turn_of_loads_ns(r, m) + core->is.turn_ns);
}

/* ---- chains that join and leave a core ---------------------------------- */

static void put_chain_and_work_on_core(struct rp *r, uint32_t i, uint32_t c,
                                       uint64_t w_v, uint64_t now)
{
    struct rp_machine *core = &r->machine[i], *m = &r->machine[core->of];
    if (core->count == 0 && !core->is_stopped && core->is.load.num &&
        core->is.load.num <= core->is.load.den) {
        uint64_t idle = (now - core->idle_since) >> FORGIVEN_SHIFT;
        core->turn_v = ips_min_u64(
            core->turn_v + multiply_by_ratio(idle, core->is.speed),
            core->v0 + (chains_turn_length_as_work_ns(core) << r->bits));
    }
    if (!core->hole) {
        if (m->count == 0)
            m->idle_t += now - m->idle_since;
        m->count++;
    }
    r->chain[c].core = i;
    rp_add_virtual_work(r, i, c, w_v, now);
}

void rp_cores_add_work_or_place_later(struct rp *r, uint32_t c, uint64_t w,
                                      uint64_t now)
{
    struct rp_chain *cur = &r->chain[c];
    bool here =
        cur->core != RP_NO_CORE && r->machine[cur->core].of == cur->machine;
    if (!here)
        cur->core = RP_NO_CORE;
    if (here && cur->ran_t == now) {
        put_chain_and_work_on_core(r, cur->core, c, w << r->bits, now);
        return;
    }
    cur->want_w = w;
    r->placing[r->place_count++] = c;
}

void rp_cores_update_after_chain_left(struct rp *r, uint32_t i, uint64_t now)
{
    struct rp_machine *core = &r->machine[i], *m = &r->machine[core->of];
    if (core->count == 0)
        core->empty_since = now;
    if (--m->count == 0)
        m->idle_since = now;
}

static bool core_is_free(const struct rp_machine *core)
{
    return core->count == 0 && core->is.load.num == 0 && !core->is_stopped;
}

/* Compares the number of chains plus load of two cores: returns 1 if a has more
 * than b, 0 if equal, -1 if less. */
static int compare_cores_by_chains_and_load(const struct rp_machine *a,
                                            const struct rp_machine *b)
{
    uint64_t x =
        ((uint64_t)a->count * a->is.load.den + a->is.load.num) * b->is.load.den;
    uint64_t y =
        ((uint64_t)b->count * b->is.load.den + b->is.load.num) * a->is.load.den;
    return (x > y) - (x < y);
}

/* Whether a's chains plus load exceed b's by more than one. */
static bool is_fuller_by_more_than_one_chain(const struct rp_machine *a,
                                             const struct rp_machine *b)
{
    ips_u128 x = (ips_u128)a->count * a->is.load.den + a->is.load.num;
    ips_u128 y = (ips_u128)(b->count + 1) * b->is.load.den + b->is.load.num;
    return x * b->is.load.den > y * a->is.load.den;
}

static uint32_t choose_core_for_chain(const struct rp *r,
                                      const struct rp_chain *cur)
{
    uint32_t first = r->core_of[cur->machine], best = first;
    uint32_t end = first + r->machine[cur->machine].is.cores;
    if (cur->core != RP_NO_CORE && core_is_free(&r->machine[cur->core]))
        return cur->core;
    for (uint32_t i = first; i < end; i++) {
        const struct rp_machine *core = &r->machine[i],
                                *than = &r->machine[best];
        if (core_is_free(core))
            return i;
        int more = compare_cores_by_chains_and_load(core, than);
        if (more < 0 || (more == 0 && core->count < than->count))
            best = i;
    }
    if (cur->core == RP_NO_CORE)
        return best;
    bool less = compare_cores_by_chains_and_load(&r->machine[best],
                                                 &r->machine[cur->core]) < 0;
    return less ? best : cur->core;
}

static int compare_chain_numbers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void rp_cores_place_waiting_chains(struct rp *r)
{
    uint32_t count = r->place_count;
    r->place_count = 0;
    if (count > 1)
        qsort(r->placing, count, sizeof(*r->placing), compare_chain_numbers);
    for (uint32_t k = 0; k < count; k++) {
        struct rp_chain *cur = &r->chain[r->placing[k]];
        put_chain_and_work_on_core(r, choose_core_for_chain(r, cur),
                                   r->placing[k], cur->want_w << r->bits,
                                   r->now);
    }
}

/* ---- events on a core --------------------------------------------------- */

void rp_cores_update_next_event(struct rp *r, uint32_t i)
{
    struct rp_machine *core = &r->machine[i];
    uint64_t t = RP_NEVER;
    if (core->is_stopped) {
        t = core->resume_t;
    } else if (core->count) {
        uint64_t v =
            ips_min_u64(rp_tree_first_key(&core->active), core->turn_v);
        core->num = (uint64_t)core->count * core->is.speed.den;
        rp_time_after_virtual_step(core, v - core->v0, &core->next_t0,
                                   &core->next_rem);
        t = core->next_t0 + (core->next_rem != 0);
    } else if (core->empty_since != RP_NEVER &&
               r->machine[core->of].is.cores > 1) {
        t = core->empty_since + (core->is.turn_ns << r->bits);
    }
    rp_tree_set_leaf(&r->completions, i,
                     t == RP_NEVER ? t : ips_max_u64(t, core->label_t), i);
}

static void start_turn_of_loads_on_core(struct rp *r, struct rp_machine *core,
                                        uint64_t now)
{
    uint64_t takes = multiply_by_ratio(core->is.turn_ns, core->is.load);
    core->v0 = core->turn_v;
    core->t0 = core->next_t0;
    core->rem = core->next_rem;
    core->label_t = now;
    if (takes == 0) {
        set_end_of_chains_turn(r, core);
        return;
    }
    core->is_stopped = true;
    core->resume_t = now + (takes << r->bits);
}

static void start_turn_of_chains_on_core(struct rp *r, struct rp_machine *core,
                                         uint64_t now)
{
    core->is_stopped = false;
    core->label_t = core->t0 = core->empty_since = core->idle_since = now;
    core->rem = 0;
    set_end_of_chains_turn(r, core);
}

/* Returns the core's chain with the lowest number. Not the chain with the least
 * work left, because that work depends on how arcs were merged (graph.h). */
static struct rp_item
find_lowest_numbered_chain_of_core(const struct rp_machine *core)
{
    struct rp_item best = {.key = RP_NEVER};
    for (uint32_t k = 0; k < core->active.used; k++) {
        const struct rp_item *it = &core->active.at[core->active.capacity + k];
        if (it->key != RP_NEVER &&
            (best.key == RP_NEVER || rp_item_id(it) < rp_item_id(&best)))
            best = *it;
    }
    return best;
}

/* Called when core i has had no chain for turn_ns. Moves a chain to it from the
 * core with the most chains plus load, if that sum exceeds core i's load by
 * more than one. */
static void pull_chain_from_busiest_core_if_uneven(struct rp *r, uint32_t i,
                                                   uint64_t now)
{
    struct rp_machine *to = &r->machine[i], *from = NULL;
    uint32_t first = r->core_of[to->of];
    to->empty_since = RP_NEVER;
    for (uint32_t k = first; k < first + r->machine[to->of].is.cores; k++) {
        struct rp_machine *core = &r->machine[k];
        if (core->count &&
            (!from || compare_cores_by_chains_and_load(core, from) > 0))
            from = core;
    }
    if (!from || !is_fuller_by_more_than_one_chain(from, to)) {
        rp_cores_update_next_event(r, i);
        return;
    }
    rp_advance_virtual_clock_of_machine(from, now);
    struct rp_item it = find_lowest_numbered_chain_of_core(from);
    uint32_t c = rp_item_id(&it);
    rp_tree_free_leaf(&from->active, rp_item_leaf(&it));
    if (--from->count == 0)
        from->idle_since = now;
    rp_cores_update_after_chain_left(r, (uint32_t)(from - r->machine), now);
    rp_cores_update_next_event(r, (uint32_t)(from - r->machine));
    put_chain_and_work_on_core(r, i, c, it.key - from->v0, now);
}

bool rp_cores_switch_turn_or_pull_chain(struct rp *r, uint32_t i, uint64_t now)
{
    struct rp_machine *core = &r->machine[i];
    if (core->is_stopped) {
        start_turn_of_chains_on_core(r, core, now);
    } else if (core->count == 0) {
        pull_chain_from_busiest_core_if_uneven(r, i, now);
        return true;
    } else if (core->turn_v < rp_tree_first_key(&core->active)) {
        start_turn_of_loads_on_core(r, core, now);
    } else {
        return false;
    }
    rp_cores_update_next_event(r, i);
    return true;
}

void rp_cores_apply_changed_machine_load(struct rp *r, uint32_t m, uint64_t now)
{
    const struct ips_replay_machine *is = &r->machine[m].is;
    for (uint32_t j = 0; j < is->cores; j++) {
        uint32_t i = r->core_of[m] + j;
        struct rp_machine *core = &r->machine[i];
        struct ips_ratio was = core->is.load;
        rp_advance_virtual_clock_of_machine(core, now);
        core->is.load = share_of_machine_load_for_core(is->load, is->cores, j);
        if (core->is_stopped)
            continue;
        if ((was.num == 0) != (core->is.load.num == 0)) {
            core->idle_since = core->empty_since = now;
            set_end_of_chains_turn(r, core);
        }
        rp_cores_update_next_event(r, i);
    }
}
