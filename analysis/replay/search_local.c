/* Local search for a placement: moves and swaps of items, from several
 * starts. */
#include <stdlib.h>
#include <string.h>

#include "analysis/replay/search_run.h"

/* local search ends after this many successive starts without a new map */
#define STALE_STARTS 64
#define ONE_MACHINE_STARTS 4

/* Returns a random number below `limit` (splitmix64). */
static uint32_t random_below(struct search *s, uint32_t limit)
{
    uint64_t z = s->rng += 0x9e3779b97f4a7c15ULL;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return (uint32_t)((z ^ z >> 31) % limit);
}

static bool is_better_value(const struct ips_placement_value *a,
                            const struct ips_placement_value *b)
{
    return a->makespan_ns != b->makespan_ns ? a->makespan_ns < b->makespan_ns
                                            : a->second < b->second;
}

/* ---- local search ------------------------------------------------------- */

/* Moves the item to the machine that gives the best map, if that map is better
 * than the current one. Sets *better to whether it moved. */
static int move_item_to_best_machine(struct search *s, uint32_t item,
                                     bool *better, struct ips_err *err)
{
    uint32_t stay = s->map[item];
    *better = false;
    for (uint32_t k = 0; k < s->open_count; k++) {
        struct ips_placement_value worth;
        uint32_t m = s->open[k];
        if (m == stay)
            continue;
        uint32_t old = s->map[item];
        s->map[item] = m;
        int rc = search_get_or_evaluate_current_map(s, &worth, err);
        if (rc)
            return rc;
        if (is_better_value(&worth, &s->worth)) {
            s->worth = worth;
            *better = true;
        } else {
            s->map[item] = old;
        }
    }
    return 0;
}

static int swap_items_if_better(struct search *s, uint32_t a, uint32_t b,
                                bool *better, struct ips_err *err)
{
    struct ips_placement_value worth;
    uint32_t of_a = s->map[a], of_b = s->map[b];
    *better = false;
    if (of_a == of_b)
        return 0;
    s->map[a] = of_b;
    s->map[b] = of_a;
    int rc = search_get_or_evaluate_current_map(s, &worth, err);
    if (rc)
        return rc;
    *better = is_better_value(&worth, &s->worth);
    if (*better) {
        s->worth = worth;
    } else {
        s->map[a] = of_a;
        s->map[b] = of_b;
    }
    return 0;
}

/* Moves items until no move of any item improves the map. */
static int move_items_until_no_gain(struct search *s, struct ips_err *err)
{
    uint32_t in_vain = 0;
    for (uint32_t k = 0; in_vain < s->free_count;
         k = k + 1 == s->free_count ? 0 : k + 1) {
        bool better;
        int rc = move_item_to_best_machine(s, s->order[k], &better, err);
        if (rc)
            return rc;
        in_vain = better ? 0 : in_vain + 1;
    }
    return 0;
}

static int make_first_improving_swap(struct search *s, bool *better,
                                     struct ips_err *err)
{
    *better = false;
    for (uint32_t a = 0; a < s->free_count && !*better; a++)
        for (uint32_t b = a + 1; b < s->free_count && !*better; b++) {
            int rc =
                swap_items_if_better(s, s->order[a], s->order[b], better, err);
            if (rc)
                return rc;
        }
    return 0;
}

/* Improves s->map until no move and no swap is better. */
static int improve_map_to_local_optimum(struct search *s, struct ips_err *err)
{
    s->out->starts++;
    int rc = search_get_or_evaluate_current_map(s, &s->worth, err);
    bool better = true;
    while (rc == 0 && better) {
        rc = move_items_until_no_gain(s, err);
        if (rc == 0)
            rc = make_first_improving_swap(s, &better, err);
    }
    return rc;
}

/* ---- maps from which the search starts ---------------------------------- */

static void reset_map_to_fixed_and_one_machine(struct search *s,
                                               uint32_t otherwise)
{
    for (uint32_t i = 0; i < s->items; i++) {
        uint32_t fixed = search_fixed_machine_of(s, i);
        s->map[i] = fixed == IPS_SEARCH_FREE ? otherwise : fixed;
    }
}

/* Runs the local search from the map in which the items, heaviest first, are
 * each placed on the machine that would then finish its work soonest. */
static int search_from_heaviest_first_map(struct search *s, struct ips_err *err)
{
    uint64_t *work = calloc(s->machines, sizeof(*work));
    if (!work)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u machines", s->machines);
    const uint64_t *weight = s->ask->weight, *capacity = s->ask->capacity;
    reset_map_to_fixed_and_one_machine(s, 0);
    for (uint32_t i = 0; i < s->items; i++)
        if (search_fixed_machine_of(s, i) != IPS_SEARCH_FREE)
            work[s->map[i]] = ips_add_sat(work[s->map[i]], weight[i]);
    for (uint32_t k = 0; k < s->free_count; k++) {
        uint64_t w = weight[s->order[k]];
        uint32_t to = s->open[0];
        for (uint32_t i = 1; i < s->open_count; i++) {
            uint32_t m = s->open[i];
            if ((ips_u128)ips_add_sat(work[m], w) * capacity[to] <
                (ips_u128)ips_add_sat(work[to], w) * capacity[m])
                to = m;
        }
        s->map[s->order[k]] = to;
        work[to] = ips_add_sat(work[to], w);
    }
    free(work);
    return improve_map_to_local_optimum(s, err);
}

/* Runs the local search from maps with all free items on one machine, the
 * machines of greatest capacity first, and one of several machines that are
 * alike. */
static int search_from_one_machine_maps(struct search *s, struct ips_err *err)
{
    uint8_t *tried = calloc(s->machines, 1);
    if (!tried)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u machines", s->machines);
    int rc = 0;
    for (uint32_t k = 0; k < ONE_MACHINE_STARTS && rc == 0; k++) {
        uint32_t best = IPS_SEARCH_FREE;
        for (uint32_t m = 0; m < s->machines; m++)
            if (!search_machine_is_closed(s->ask, m) && !tried[m] &&
                s->before[m] == IPS_SEARCH_FREE &&
                (best == IPS_SEARCH_FREE ||
                 s->ask->capacity[m] > s->ask->capacity[best]))
                best = m;
        if (best == IPS_SEARCH_FREE)
            break;
        tried[best] = 1;
        reset_map_to_fixed_and_one_machine(s, best);
        rc = improve_map_to_local_optimum(s, err);
    }
    free(tried);
    return rc;
}

/* Sets s->map to the best map with some items moved at random. Every fourth
 * time, places all free items at random instead. */
static void place_items_of_best_map_at_random(struct search *s)
{
    uint32_t often = 2 + random_below(s, s->free_count / 4 + 1);
    memcpy(s->map, s->out->best[0].machine, s->items * sizeof(*s->map));
    if (s->out->starts % 4 == 3) {
        for (uint32_t k = 0; k < s->free_count; k++)
            s->map[s->order[k]] = s->open[random_below(s, s->open_count)];
        return;
    }
    while (often--)
        s->map[s->order[random_below(s, s->free_count)]] =
            s->open[random_below(s, s->open_count)];
}

int search_local(struct search *s, struct ips_err *err)
{
    int rc = 0;
    if (s->ask->start_map) {
        memcpy(s->map, s->ask->start_map, s->items * sizeof(*s->map));
        rc = improve_map_to_local_optimum(s, err);
    }
    if (rc == 0)
        rc = search_from_heaviest_first_map(s, err);
    if (rc == 0)
        rc = search_from_one_machine_maps(s, err);
    for (uint32_t stale = 0;
         rc == 0 && stale < STALE_STARTS && s->free_count;) {
        uint64_t before = s->out->evaluations;
        place_items_of_best_map_at_random(s);
        rc = improve_map_to_local_optimum(s, err);
        stale = s->out->evaluations == before ? stale + 1 : 0;
    }
    if (rc == 0)
        s->out->end = IPS_SEARCH_SETTLED;
    return rc;
}
