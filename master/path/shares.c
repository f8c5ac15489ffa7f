#include "master/path/shares.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/graph/path.h"
#include "common/types.h"

static uint64_t process_key(struct path_thread p)
{
    return (uint64_t)p.machine << 32 | p.process;
}

static int compare_keys(const void *left, const void *right)
{
    const struct share_row *x = left, *y = right;
    if (x->a != y->a)
        return x->a < y->a ? -1 : 1;
    return (x->b > y->b) - (x->b < y->b);
}

static int compare_shares_by_ns(const void *left, const void *right)
{
    const struct share_row *x = left, *y = right;
    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    return compare_keys(left, right);
}

/* ---- adding; a row with `count` 0 is a free slot of the hash table ---- */

static struct share_row *find_row_slot(struct share_row *row, size_t room,
                                       uint64_t a, uint64_t b)
{
    uint64_t mixed = (a * 0x9e3779b97f4a7c15u + b) * 0xd6e8feb86659fd93u;
    size_t at = (size_t)(mixed >> 32) & (room - 1);
    while (row[at].count && (row[at].a != a || row[at].b != b))
        at = (at + 1) & (room - 1);
    return &row[at];
}

static bool grow_row_table(struct shares *s, enum share_list list)
{
    size_t room = s->capacity[list] ? 2 * s->capacity[list] : 64;
    struct share_row *from = s->row[list], *to = calloc(room, sizeof(*to));
    if (!to)
        return false;
    for (size_t i = 0; i < s->capacity[list]; i++)
        if (from[i].count)
            *find_row_slot(to, room, from[i].a, from[i].b) = from[i];
    free(from);
    s->row[list] = to;
    s->capacity[list] = room;
    return true;
}

static int add_to_share_row(struct shares *s, enum share_list list,
                            const struct share_row *more, struct ips_err *err)
{
    if (s->count[list] >= s->capacity[list] / 2 && !grow_row_table(s, list))
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for shares");
    struct share_row *row =
        find_row_slot(s->row[list], s->capacity[list], more->a, more->b);
    s->count[list] += row->count == 0;
    row->a = more->a;
    row->b = more->b;
    row->ns += more->ns;
    row->count += more->count;
    return 0;
}

/* Adds computing only to its thread; shares_rank_and_check_sum() sums the
 * threads by process and machine. Lifetime, capacity, signal and resource arcs
 * do not count as messages; they have no weight. */
int shares_add_pieces(struct shares *s, const struct path_piece *p,
                      struct path_thread before, uint64_t count,
                      struct ips_err *err)
{
    bool computed = p->kind == IPS_SEG_COMPUTE, data = p->xkind == IPS_X_DATA;
    bool crosses = !computed && !p->elsewhere;
    struct share_row row = {.a = process_key(before),
                            .b = process_key(p->at),
                            .ns = p->ns,
                            .count = count};
    s->messages += crosses && data ? count : 0;
    s->resources += crosses && p->xkind == IPS_X_RESOURCE ? count : 0;
    if (computed) {
        row.a = process_key(p->at);
        row.b = p->at.tid;
        return add_to_share_row(s, SHARE_THREAD, &row, err);
    }
    if (p->xkind == IPS_X_EXTERNAL || p->xkind == IPS_X_IDLE) {
        row.b = p->xkind == IPS_X_EXTERNAL ? SHARE_EXTERNAL : SHARE_IDLE;
        return add_to_share_row(s, SHARE_OUTSIDE, &row, err);
    }
    return p->ns > 0 || data ? add_to_share_row(s, SHARE_MESSAGE, &row, err)
                             : 0;
}

int shares_add_next_piece(struct shares *s, const struct path_piece *p,
                          struct ips_err *err)
{
    struct path_thread before = s->at;
    s->at = p->at;
    return shares_add_pieces(s, p, before, 1, err);
}

/* ---- ranked lists ---- */

static int sum_threads_by_process_and_machine(struct shares *s,
                                              struct ips_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < s->capacity[SHARE_THREAD] && rc == 0; i++) {
        struct share_row row = s->row[SHARE_THREAD][i];
        row.b = SHARE_NONE;
        if (row.count)
            rc = add_to_share_row(s, SHARE_PROCESS, &row, err);
        row.a &= ~(uint64_t)UINT32_MAX;
        if (row.count && rc == 0)
            rc = add_to_share_row(s, SHARE_MACHINE, &row, err);
    }
    return rc;
}

static void make_ranked_list(struct shares *s, enum share_list list)
{
    struct share_row *row = s->row[list];
    size_t n = 0;
    for (size_t i = 0; i < s->capacity[list]; i++)
        if (row[i].count)
            row[n++] = row[i];
    s->capacity[list] = 0;
    if (n > 0)
        qsort(row, n, sizeof(*row), compare_shares_by_ns);
    for (size_t i = 0; i < n; i++) {
        row[i].rank = (uint32_t)i;
        row[i].stable = true;
        row[i].ns_low = row[i].ns_high = row[i].ns;
    }
}

static uint64_t sum_list_ns(const struct shares *s, enum share_list list)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < s->count[list]; i++)
        sum = ips_add_sat(sum, s->row[list][i].ns);
    return sum;
}

void shares_release(struct shares *s)
{
    for (int i = 0; i < SHARE_LISTS; i++)
        free(s->row[i]);
    memset(s, 0, sizeof(*s));
}

int shares_rank_and_check_sum(struct shares *s, uint64_t t_max,
                              struct ips_err *err)
{
    int rc = sum_threads_by_process_and_machine(s, err);
    for (int i = 0; i < SHARE_LISTS && rc == 0; i++)
        make_ranked_list(s, (enum share_list)i);
    if (rc == 0) {
        uint64_t between = ips_add_sat(sum_list_ns(s, SHARE_MESSAGE),
                                       sum_list_ns(s, SHARE_OUTSIDE));
        uint64_t machine = sum_list_ns(s, SHARE_MACHINE);
        uint64_t process = sum_list_ns(s, SHARE_PROCESS);
        if (ips_add_sat(machine, between) != t_max ||
            ips_add_sat(process, between) != t_max ||
            ips_add_sat(sum_list_ns(s, SHARE_THREAD), between) != t_max)
            rc = ips_err_set(
                err, IPS_E_CORRUPT,
                "the pieces of the path sum to %llu ns, not to its length "
                "of %llu ns: a bug in IPS",
                (unsigned long long)ips_add_sat(machine, between),
                (unsigned long long)t_max);
    }
    if (rc < 0)
        shares_release(s);
    return rc;
}

static void update_list_stability_by_scenario(struct shares *main,
                                              const struct shares *scenario,
                                              enum share_list list, bool *same)
{
    size_t n = scenario->count[list], mains = main->count[list];
    struct share_row *by_key = malloc((n + 1) * sizeof(*by_key));
    /* no memory for the comparison: report the rows as not stable */
    if (!by_key) {
        *same = false;
        for (size_t i = 0; i < mains; i++)
            main->row[list][i].stable = false;
        return;
    }
    if (n > 0) {
        memcpy(by_key, scenario->row[list], n * sizeof(*by_key));
        qsort(by_key, n, sizeof(*by_key), compare_keys);
    }
    *same = *same && n == mains;
    for (size_t i = 0; i < mains; i++) {
        struct share_row *row = &main->row[list][i];
        const struct share_row *other =
            n ? bsearch(row, by_key, n, sizeof(*by_key), compare_keys) : NULL;
        uint64_t ns = other ? other->ns : 0;
        row->ns_low = ips_min_u64(row->ns_low, ns);
        row->ns_high = ips_max_u64(row->ns_high, ns);
        if (!other || other->rank != row->rank) {
            row->stable = false;
            *same = false;
        }
    }
    free(by_key);
}

void shares_update_stability_by_scenarios(struct shares *main,
                                          struct shares *const *scenarios,
                                          size_t scenario_count,
                                          bool *same_order)
{
    for (size_t i = 0; i < scenario_count; i++) {
        same_order[i] = true;
        for (int list = 0; list < SHARE_LISTS; list++)
            update_list_stability_by_scenario(
                main, scenarios[i], (enum share_list)list, &same_order[i]);
    }
}
