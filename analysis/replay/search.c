#include "analysis/replay/search_run.h"

#include <stdlib.h>
#include <string.h>

#include "common/types.h"

#define ALL_MOST (1u << 24) /* if there are more maps, local search is used */

void ips_search_release(struct ips_placement_search *s)
{
    for (uint32_t k = 0; k < s->count; k++)
        free(s->best[k].machine);
    free(s->best);
    memset(s, 0, sizeof(*s));
}

/* ---- list of the best maps ---------------------------------------------- */

static uint32_t count_used_machines(struct search *s, const uint32_t *map)
{
    uint32_t used = 0;
    memset(s->renamed, 0, s->machines * sizeof(*s->renamed));
    for (uint32_t i = 0; i < s->items; i++)
        used += s->renamed[map[i]]++ == 0;
    return used;
}

static bool is_map_better(const struct search *s,
                          const struct ips_search_map *a,
                          const struct ips_search_map *b)
{
    if (a->makespan_ns != b->makespan_ns)
        return a->makespan_ns < b->makespan_ns;
    if (a->used != b->used)
        return a->used < b->used;
    for (uint32_t i = 0; i < s->items; i++)
        if (a->machine[i] != b->machine[i])
            return a->machine[i] < b->machine[i];
    return false;
}

/* Inserts a copy of a new map into the list of the `top` best maps if it is
 * good enough. */
static int insert_map_if_among_best(struct search *s, uint32_t *map,
                                    uint64_t makespan_ns, struct ips_err *err)
{
    struct ips_placement_search *out = s->out;
    struct ips_search_map one = {makespan_ns, count_used_machines(s, map), map};
    uint32_t at = out->count;
    while (at > 0 && is_map_better(s, &one, &out->best[at - 1]))
        at--;
    if (at == s->ask->top)
        return 0;
    uint32_t *room = out->count == s->ask->top
                         ? out->best[--out->count].machine
                         : malloc(s->items * sizeof(*room));
    if (!room)
        return ips_err_set(err, IPS_E_NO_MEMORY, "a map of %u", s->items);
    memcpy(room, map, s->items * sizeof(*room));
    memmove(&out->best[at + 1], &out->best[at],
            (out->count - at) * sizeof(*out->best));
    one.machine = room;
    out->best[at] = one;
    out->count++;
    return 0;
}

/* Asks the caller for the value of `map`, which must be canonical and new, and
 * decides whether the search ends (SEARCH_STOP). */
static int evaluate_and_rank_map_or_stop(struct search *s, uint32_t *map,
                                         struct ips_placement_value *worth,
                                         struct ips_err *err)
{
    struct ips_placement_search *out = s->out;
    if (out->evaluations == s->ask->evaluations) {
        out->end = IPS_SEARCH_BUDGET;
        return SEARCH_STOP;
    }
    int rc = s->ask->value(s->ask->ctx, map, worth, err);
    if (rc < 0)
        return rc;
    out->evaluations++;
    rc = insert_map_if_among_best(s, map, worth->makespan_ns, err);
    if (rc < 0)
        return rc;
    uint64_t best_ns = out->best[0].makespan_ns;
    if (s->ask->progress &&
        !s->ask->progress(s->ask->ctx, out->evaluations, best_ns)) {
        out->end = IPS_SEARCH_STOPPED;
        return SEARCH_STOP;
    }
    if (s->ask->bound_ns && best_ns <= s->ask->bound_ns &&
        out->count == s->ask->top) {
        out->end = IPS_SEARCH_BOUND;
        return SEARCH_STOP;
    }
    return 0;
}

/* ---- trying all maps ----------------------------------------------------- */

/* Whether a canonical map may place `item` on `machine`. A map is canonical if
 * it uses the machines of each class of like machines in ascending order, when
 * the items are taken in their order. */
static bool may_place_item_on(const struct search *s, uint32_t item,
                              uint32_t machine)
{
    uint32_t fixed = search_fixed_machine_of(s, item),
             before = s->before[machine];
    if (fixed != IPS_SEARCH_FREE)
        return machine == fixed;
    if (search_machine_is_closed(s->ask, machine))
        return false;
    return before == IPS_SEARCH_FREE || s->users[before] > 0;
}

/* Returns the first machine, from `m` on, on which `item` may run; s->machines
 * if there is none. */
static uint32_t next_machine_for_item(const struct search *s, uint32_t item,
                                      uint32_t m)
{
    while (m < s->machines && !may_place_item_on(s, item, m))
        m++;
    return m;
}

/* Sets s->map to the first canonical map (`first`) or to the one after the
 * current s->map. Returns false if there is none. s->users (items on each
 * machine) must not change between calls. */
static bool advance_to_first_or_next_canonical_map(struct search *s, bool first)
{
    uint32_t i = first ? 0 : s->items - 1, from = 0;
    if (first)
        memset(s->users, 0, s->machines * sizeof(*s->users));
    for (bool back = !first;; back = false) {
        if (back) {
            s->users[s->map[i]]--;
            from = s->map[i] + 1;
        }
        uint32_t m = next_machine_for_item(s, i, from);
        while (m == s->machines) {
            if (i-- == 0)
                return false;
            s->users[s->map[i]]--;
            m = next_machine_for_item(s, i, s->map[i] + 1);
        }
        s->map[i] = m;
        s->users[m]++;
        from = 0;
        if (++i == s->items)
            return true;
    }
}

/* Whether there are few enough maps to try them all. */
static bool can_try_all_maps(struct search *s)
{
    uint64_t count = 0;
    for (bool more = advance_to_first_or_next_canonical_map(s, true); more;
         more = advance_to_first_or_next_canonical_map(s, false))
        if (++count > s->ask->evaluations || count > ALL_MOST)
            return false;
    return true;
}

static int evaluate_all_maps(struct search *s, struct ips_err *err)
{
    for (bool more = advance_to_first_or_next_canonical_map(s, true); more;
         more = advance_to_first_or_next_canonical_map(s, false)) {
        int rc = evaluate_and_rank_map_or_stop(s, s->map, &s->worth, err);
        if (rc)
            return rc;
    }
    s->out->end = IPS_SEARCH_ALL;
    return 0;
}

/* ---- table of evaluated maps -------------------------------------------- */

static void compute_canonical_form_of_map(struct search *s, const uint32_t *map)
{
    memset(s->renamed, 0xff, s->machines * sizeof(*s->renamed));
    /* users[class]: the lowest machine of the class of like machines that is
     * not used yet */
    for (uint32_t m = 0; m < s->machines; m++)
        s->users[m] = m;
    for (uint32_t i = 0; i < s->items; i++) {
        uint32_t m = map[i], class = s->ask->alike ? s->ask->alike[m] : m;
        if (s->renamed[m] == IPS_SEARCH_FREE) {
            s->renamed[m] = s->users[class];
            s->users[class] = s->next[s->users[class]];
        }
        s->canon[i] = s->renamed[m];
    }
}

static uint32_t find_slot_of_map(const struct search *s, const uint32_t *map)
{
    uint64_t h = 0xcbf29ce484222325ULL;
    for (uint32_t i = 0; i < s->items; i++)
        h = (h ^ map[i]) * 0x100000001b3ULL;
    uint32_t mask = s->table_capacity - 1, at = (uint32_t)(h >> 20) & mask;
    for (; s->table[at]; at = (at + 1) & mask) {
        const uint16_t *is = s->maps + (size_t)(s->table[at] - 1) * s->items;
        uint32_t i = 0;
        while (i < s->items && is[i] == map[i])
            i++;
        if (i == s->items)
            break;
    }
    return at;
}

static int grow_map_table_if_full(struct search *s, struct ips_err *err)
{
    if (s->known_count < s->known_capacity)
        return 0;
    uint32_t room = s->known_capacity ? s->known_capacity * 2 : 256;
    struct ips_placement_value *known =
        realloc(s->known, room * sizeof(*known));
    if (known)
        s->known = known;
    uint16_t *maps = realloc(s->maps, (size_t)room * s->items * sizeof(*maps));
    if (maps)
        s->maps = maps;
    uint32_t *table = calloc((size_t)room * 2, sizeof(*table));
    if (!known || !maps || !table) {
        free(table);
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u maps of %u", room,
                           s->items);
    }
    free(s->table);
    s->table = table;
    s->table_capacity = room * 2;
    s->known_capacity = room;
    for (uint32_t k = 0; k < s->known_count; k++) {
        const uint16_t *is = s->maps + (size_t)k * s->items;
        for (uint32_t i = 0; i < s->items; i++)
            s->canon[i] = is[i];
        s->table[find_slot_of_map(s, s->canon)] = k + 1;
    }
    return 0;
}

int search_get_or_evaluate_current_map(struct search *s,
                                       struct ips_placement_value *worth,
                                       struct ips_err *err)
{
    int rc = grow_map_table_if_full(s, err);
    if (rc < 0)
        return rc;
    compute_canonical_form_of_map(s, s->map);
    uint32_t at = find_slot_of_map(s, s->canon);
    if (s->table[at]) {
        *worth = s->known[s->table[at] - 1];
        return 0;
    }
    uint32_t k = s->known_count;
    for (uint32_t i = 0; i < s->items; i++)
        s->maps[(size_t)k * s->items + i] = (uint16_t)s->canon[i];
    rc = evaluate_and_rank_map_or_stop(s, s->canon, worth, err);
    if (rc == 0) {
        s->known[k] = *worth;
        s->table[at] = ++s->known_count;
    }
    return rc;
}

/* ---- checks and setup --------------------------------------------------- */

static int check_start_machine_is_open(const struct ips_search_ask *ask,
                                       uint32_t item, struct ips_err *err)
{
    uint32_t m = ask->start_map ? ask->start_map[item] : 0;
    while (!ask->start_map && m + 1 < ask->machine_count &&
           search_machine_is_closed(ask, m))
        m++;
    if (search_machine_is_closed(ask, m))
        return ips_err_set(err, IPS_E_USAGE,
                           "item %u may not be on machine %u, and is not fixed "
                           "to it",
                           item, m);
    return 0;
}

static int check_fixed_and_alike_machines(const struct ips_search_ask *ask,
                                          struct ips_err *err)
{
    for (uint32_t i = 0; i < ask->item_count; i++) {
        uint32_t fixed = ask->fixed ? ask->fixed[i] : IPS_SEARCH_FREE;
        uint32_t given = ask->start_map ? ask->start_map[i] : 0;
        if (given >= ask->machine_count ||
            (fixed != IPS_SEARCH_FREE && fixed >= ask->machine_count))
            return ips_err_set(err, IPS_E_USAGE,
                               "item %u is on no machine of %u", i,
                               ask->machine_count);
        if (ask->start_map && fixed != IPS_SEARCH_FREE && fixed != given)
            return ips_err_set(err, IPS_E_USAGE,
                               "item %u is fixed to machine %u and given on %u",
                               i, fixed, given);
        int rc = fixed == IPS_SEARCH_FREE
                     ? check_start_machine_is_open(ask, i, err)
                     : 0;
        if (rc < 0)
            return rc;
    }
    for (uint32_t m = 0; ask->alike && m < ask->machine_count; m++) {
        uint32_t class = ask->alike[m];
        if (class > m || ask->alike[class] != class ||
            search_machine_is_closed(ask, class) !=
                search_machine_is_closed(ask, m))
            return ips_err_set(err, IPS_E_USAGE,
                               "machine %u is alike to %u, which is not the "
                               "lowest of its kind",
                               m, class);
    }
    return 0;
}

static int check_search_request(const struct ips_search_ask *ask,
                                struct ips_err *err)
{
    if (ask->item_count == 0 || ask->machine_count == 0 ||
        ask->machine_count > IPS_REPLAY_MACHINES_MAX || ask->top == 0 ||
        ask->top > IPS_SEARCH_TOP_MAX || ask->evaluations == 0 ||
        ask->evaluations > UINT32_MAX / 4)
        return ips_err_set(err, IPS_E_LIMIT,
                           "%u items, %u machines, the best %u of %llu maps",
                           ask->item_count, ask->machine_count, ask->top,
                           (unsigned long long)ask->evaluations);
    return check_fixed_and_alike_machines(ask, err);
}

/* Lists the free items, heaviest first, of equal weights the lower item
 * first. Uses a binary insertion sort, because qsort_r is not in C11. */
static void list_free_items_by_weight(struct search *s)
{
    const uint64_t *weight = s->ask->weight;
    for (uint32_t i = 0; i < s->items; i++) {
        if (search_fixed_machine_of(s, i) != IPS_SEARCH_FREE)
            continue;
        uint32_t low = 0, high = s->free_count;
        while (low < high) {
            uint32_t mid = low + (high - low) / 2;
            if (weight[s->order[mid]] >= weight[i])
                low = mid + 1;
            else
                high = mid;
        }
        memmove(&s->order[low + 1], &s->order[low],
                (s->free_count - low) * sizeof(*s->order));
        s->order[low] = i;
        s->free_count++;
    }
}

static int init_search(struct search *s, struct ips_err *err)
{
    size_t items = s->items, machines = s->machines;
    s->order = malloc(items * sizeof(*s->order));
    s->open = malloc(machines * sizeof(*s->open));
    s->canon = malloc(items * sizeof(*s->canon));
    s->map = malloc(items * sizeof(*s->map));
    s->before = malloc(machines * sizeof(*s->before));
    s->next = malloc(machines * sizeof(*s->next));
    s->users = malloc(machines * sizeof(*s->users));
    s->renamed = malloc(machines * sizeof(*s->renamed));
    s->out->best = calloc(s->ask->top + 1, sizeof(*s->out->best));
    if (!s->order || !s->open || !s->canon || !s->map || !s->before ||
        !s->next || !s->users || !s->renamed || !s->out->best)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u items on %u machines",
                           s->items, s->machines);
    list_free_items_by_weight(s);
    memset(s->next, 0xff, machines * sizeof(*s->next));
    /* Links the machines of each class of like machines in ascending order.
     * `renamed` is scratch here: renamed[class] is the last machine of the
     * class so far. */
    for (uint32_t m = 0; m < s->machines; m++) {
        uint32_t class = s->ask->alike ? s->ask->alike[m] : m;
        s->before[m] = class == m ? IPS_SEARCH_FREE : s->renamed[class];
        if (class != m)
            s->next[s->renamed[class]] = m;
        s->renamed[class] = m;
        if (!search_machine_is_closed(s->ask, m))
            s->open[s->open_count++] = m;
    }
    return 0;
}

int ips_placement_search(const struct ips_search_ask *ask,
                         struct ips_placement_search *out, struct ips_err *err)
{
    struct search s = {.ask = ask,
                       .out = out,
                       .items = ask->item_count,
                       .machines = ask->machine_count,
                       .rng = ask->seed};
    memset(out, 0, sizeof(*out));
    int rc = check_search_request(ask, err);
    if (rc < 0)
        return rc;
    rc = init_search(&s, err);
    if (rc == 0)
        rc = !ask->local_only && can_try_all_maps(&s)
                 ? evaluate_all_maps(&s, err)
                 : search_local(&s, err);
    free(s.order);
    free(s.open);
    free(s.canon);
    free(s.map);
    free(s.before);
    free(s.next);
    free(s.users);
    free(s.renamed);
    free(s.known);
    free(s.maps);
    free(s.table);
    if (rc < 0)
        ips_search_release(out);
    return rc < 0 ? rc : 0;
}
