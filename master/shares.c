#include "master/shares.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/path.h"
#include "common/types.h"

static uint64_t process_key(struct place p)
{
    return (uint64_t)p.part << 32 | p.process;
}

static uint64_t machine_key(struct place p)
{
    return (uint64_t)p.part << 32;
}

static int compare_keys(const void *left, const void *right)
{
    const struct share_row *x = left, *y = right;
    if (x->a != y->a)
        return x->a < y->a ? -1 : 1;
    return (x->b > y->b) - (x->b < y->b);
}

static int compare_sizes(const void *left, const void *right)
{
    const struct share_row *x = left, *y = right;
    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    return compare_keys(left, right);
}

static struct share_row row_of(const struct path_piece *p, enum share_list list)
{
    struct share_row row = {.ns = p->ns, .count = 1};
    if (list == SHARE_MACHINE) {
        row.a = machine_key(p->at);
    } else if (list == SHARE_PROCESS) {
        row.a = process_key(p->at);
    } else if (list == SHARE_THREAD) {
        row.a = process_key(p->at);
        row.b = p->at.tid;
    } else {
        row.a = process_key(p->came);
        row.b = p->xkind == IPS_X_EXTERNAL ? SHARE_EXTERNAL
                : p->xkind == IPS_X_IDLE   ? SHARE_IDLE
                                           : process_key(p->at);
    }
    return row;
}

/* Lifetime, room, signal and resource arcs are no messages; they weigh nothing.
 */
static bool belongs(const struct path_piece *p, enum share_list list)
{
    bool outside = p->xkind == IPS_X_EXTERNAL || p->xkind == IPS_X_IDLE;
    if (p->kind == IPS_SEG_COMPUTE)
        return list != SHARE_MESSAGE && list != SHARE_OUTSIDE;
    if (outside)
        return list == SHARE_OUTSIDE;
    return list == SHARE_MESSAGE && (p->ns > 0 || p->xkind == IPS_X_DATA);
}

static size_t compress(struct share_row *row, size_t n)
{
    size_t kept = 0;
    if (n > 0)
        qsort(row, n, sizeof(*row), compare_keys);
    for (size_t i = 0; i < n; i++) {
        struct share_row *last = kept ? &row[kept - 1] : NULL;
        if (last && compare_keys(last, &row[i]) == 0) {
            last->ns += row[i].ns;
            last->count += row[i].count;
        } else {
            row[kept++] = row[i];
        }
    }
    return kept;
}

static int make_list(const struct path_piece *pieces, uint64_t count,
                     enum share_list list, struct shares *out,
                     struct ips_err *err)
{
    size_t n = 0;
    for (uint64_t i = 0; i < count; i++)
        n += belongs(&pieces[i], list);
    struct share_row *row = calloc(n + 1, sizeof(*row));
    if (!row)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for shares");
    n = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (belongs(&pieces[i], list))
            row[n++] = row_of(&pieces[i], list);
    }
    n = compress(row, n);
    if (n > 0)
        qsort(row, n, sizeof(*row), compare_sizes);
    for (size_t i = 0; i < n; i++) {
        row[i].rank = (uint32_t)i;
        row[i].stable = true;
        row[i].ns_low = row[i].ns_high = row[i].ns;
    }
    out->row[list] = row;
    out->count[list] = n;
    return 0;
}

static uint64_t sum_of(const struct shares *s, enum share_list list)
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

int shares_make(const struct path_piece *pieces, uint64_t count, uint64_t t_max,
                struct shares *out, struct ips_err *err)
{
    int rc = 0;
    memset(out, 0, sizeof(*out));
    for (int i = 0; i < SHARE_LISTS && rc == 0; i++)
        rc = make_list(pieces, count, (enum share_list)i, out, err);
    if (rc == 0) {
        uint64_t between =
            ips_add_sat(sum_of(out, SHARE_MESSAGE), sum_of(out, SHARE_OUTSIDE));
        uint64_t machine = sum_of(out, SHARE_MACHINE);
        uint64_t process = sum_of(out, SHARE_PROCESS);
        if (ips_add_sat(machine, between) != t_max ||
            ips_add_sat(process, between) != t_max ||
            ips_add_sat(sum_of(out, SHARE_THREAD), between) != t_max)
            rc = ips_err_set(err, IPS_E_CORRUPT,
                             "the path's pieces sum to %llu ns, not to its "
                             "length %llu: a bug of IPS",
                             (unsigned long long)ips_add_sat(machine, between),
                             (unsigned long long)t_max);
    }
    for (uint64_t i = 0; i < count; i++) {
        bool cross = pieces[i].kind != IPS_SEG_COMPUTE && !pieces[i].elsewhere;
        out->messages += cross && pieces[i].xkind == IPS_X_DATA;
        out->resources += cross && pieces[i].xkind == IPS_X_RESOURCE;
    }
    if (rc < 0)
        shares_release(out);
    return rc;
}

static void compare_list(struct shares *main, const struct shares *lane,
                         enum share_list list, bool *same)
{
    size_t n = lane->count[list], mains = main->count[list];
    struct share_row *by_key = malloc((n + 1) * sizeof(*by_key));
    if (!by_key) { /* nothing is claimed that was not looked at */
        *same = false;
        for (size_t i = 0; i < mains; i++)
            main->row[list][i].stable = false;
        return;
    }
    if (n > 0) {
        memcpy(by_key, lane->row[list], n * sizeof(*by_key));
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

void shares_compare(struct shares *main, struct shares *const *lanes,
                    size_t lane_count, bool *same_order)
{
    for (size_t i = 0; i < lane_count; i++) {
        same_order[i] = true;
        for (int list = 0; list < SHARE_LISTS; list++)
            compare_list(main, lanes[i], (enum share_list)list, &same_order[i]);
    }
}
