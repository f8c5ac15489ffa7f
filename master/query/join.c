#include "master/query/join.h"

#include <stdlib.h>
#include <string.h>

/* At most so many ends with the same key are tried as the other side of one
 * end. This bounds the time for input that was crafted to be slow. */
#define SEARCH_MAX 256
#define NAMED_MAX 4096

/* Ends with the same (kind, local, remote): a range of the sorted order. */
struct group {
    uint32_t first, count;
};

static int compare_bytes(const uint8_t *a, uint32_t a_len, const uint8_t *b,
                         uint32_t b_len)
{
    uint32_t n = a_len < b_len ? a_len : b_len;
    int c = n ? memcmp(a, b, n) : 0;
    return c ? c : (a_len > b_len) - (a_len < b_len);
}

/* Compares `a` with the key (kind, local, remote). */
static int compare_key(const struct join_end *a, uint32_t kind,
                       const uint8_t *local, uint32_t local_len,
                       const uint8_t *remote, uint32_t remote_len)
{
    if (a->kind != kind)
        return a->kind < kind ? -1 : 1;
    int c = compare_bytes(a->local, a->local_len, local, local_len);
    return c ? c : compare_bytes(a->remote, a->remote_len, remote, remote_len);
}

static int compare_ends(const void *left, const void *right, void *arg)
{
    const struct join_end *ends = arg;
    const struct join_end *a = &ends[*(const uint32_t *)left];
    const struct join_end *b = &ends[*(const uint32_t *)right];
    int c = compare_key(a, b->kind, b->local, b->local_len, b->remote,
                        b->remote_len);
    if (c)
        return c;
    if (a->machine != b->machine)
        return a->machine < b->machine ? -1 : 1;
    if (a->ordinal != b->ordinal)
        return a->ordinal < b->ordinal ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

/* Whether the ends are on different machines, and one may have connected and
 * the other accepted. An end whose creation was not recorded fits both roles.
 */
static bool machines_and_roles_fit(const struct join_end *a,
                                   const struct join_end *b)
{
    return a->machine != b->machine && !(a->connected && b->connected) &&
           !(a->accepted && b->accepted);
}

/* Whether each end received what the other sent. The totals of an open end are
 * not final and always fit. */
static bool byte_totals_match(const struct join_end *a,
                              const struct join_end *b)
{
    if (!a->closed || !b->closed)
        return true;
    return a->sent_bytes == b->recv_bytes && b->sent_bytes == a->recv_bytes;
}

struct joiner {
    struct join_end *ends;
    uint32_t *order;
    uint64_t ambiguous;
};

static struct join_end *end_at_sorted_position(const struct joiner *j,
                                               uint32_t position)
{
    return &j->ends[j->order[position]];
}

static void pair_ends(struct joiner *j, uint32_t a, uint32_t b, bool doubtful)
{
    end_at_sorted_position(j, a)->peer = j->order[b];
    end_at_sorted_position(j, b)->peer = j->order[a];
    j->ambiguous += doubtful;
}

static bool is_end_unpaired(const struct joiner *j, uint32_t position)
{
    return end_at_sorted_position(j, position)->peer == JOIN_NONE;
}

static void join_remaining_ends(struct joiner *j, struct group a,
                                struct group b, bool by_totals)
{
    uint32_t free_from = b.first, end = b.first + b.count;
    for (uint32_t k = a.first; k < a.first + a.count; k++) {
        while (free_from < end && !is_end_unpaired(j, free_from))
            free_from++;
        for (uint32_t m = free_from, tries = 0;
             m < end && is_end_unpaired(j, k) && tries < SEARCH_MAX;
             m++, tries++) {
            const struct join_end *x = end_at_sorted_position(j, k),
                                  *y = end_at_sorted_position(j, m);
            if (is_end_unpaired(j, m) && machines_and_roles_fit(x, y) &&
                (!by_totals ||
                 (x->closed && y->closed && byte_totals_match(x, y))))
                pair_ends(j, k, m, true);
        }
    }
}

/* Joins the ends of two groups with swapped keys: the local endpoint of each
 * group is the remote endpoint of the other. */
static void join_ends_of_two_groups(struct joiner *j, struct group a,
                                    struct group b)
{
    uint32_t least = a.count < b.count ? a.count : b.count;
    for (uint32_t k = 0; k < least; k++) {
        const struct join_end *x = end_at_sorted_position(j, a.first + k);
        const struct join_end *y = end_at_sorted_position(j, b.first + k);
        if (machines_and_roles_fit(x, y) && byte_totals_match(x, y))
            pair_ends(j, a.first + k, b.first + k, false);
    }
    /* Where the ordinals contradict the totals, join closed ends by their
     * totals. */
    join_remaining_ends(j, a, b, true);
    /* The rest match only in their endpoints, since records were lost or bytes
     * were never read: join them in order. */
    join_remaining_ends(j, a, b, false);
}

/* Whether x may have sent to y, or y to x, over a user channel that both name.
 */
static bool may_have_exchanged_bytes(const struct join_end *x,
                                     const struct join_end *y)
{
    return x->machine != y->machine &&
           ((x->sent_bytes > 0 && y->recv_bytes > 0) ||
            (y->sent_bytes > 0 && x->recv_bytes > 0) ||
            (x->sent_bytes + x->recv_bytes == 0) ||
            (y->sent_bytes + y->recv_bytes == 0));
}

/* Joins ends of one user channel: first those with matching totals, then the
 * others in order. */
static void join_ends_of_user_channel(struct joiner *j, struct group g)
{
    if (g.count > NAMED_MAX) {
        j->ambiguous += g.count;
        return;
    }
    for (int strict = 1; strict >= 0; strict--) {
        for (uint32_t k = g.first; k < g.first + g.count; k++) {
            uint32_t found = JOIN_NONE, fits = 0;
            for (uint32_t m = g.first;
                 is_end_unpaired(j, k) && m < g.first + g.count; m++) {
                const struct join_end *x = end_at_sorted_position(j, k),
                                      *y = end_at_sorted_position(j, m);
                if (m == k || !is_end_unpaired(j, m) ||
                    !may_have_exchanged_bytes(x, y))
                    continue;
                if (strict && (x->sent_bytes != y->recv_bytes ||
                               y->sent_bytes != x->recv_bytes))
                    continue;
                found = fits++ ? found : m;
            }
            if (found != JOIN_NONE)
                pair_ends(j, k, found, fits > 1);
        }
    }
}

/* Finds the ends whose key is the swapped key of `like`. */
static struct group find_group_with_swapped_key(const struct joiner *j,
                                                uint32_t count,
                                                const struct join_end *like)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (compare_key(end_at_sorted_position(j, mid), like->kind,
                        like->remote, like->remote_len, like->local,
                        like->local_len) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    struct group g = {.first = low};
    while (low < count &&
           compare_key(end_at_sorted_position(j, low), like->kind, like->remote,
                       like->remote_len, like->local, like->local_len) == 0)
        low++;
    g.count = low - g.first;
    return g;
}

static struct group find_group_from_position(const struct joiner *j,
                                             uint32_t count, uint32_t first)
{
    struct group g = {.first = first, .count = 1};
    const struct join_end *e = end_at_sorted_position(j, first);
    while (first + g.count < count) {
        const struct join_end *next =
            end_at_sorted_position(j, first + g.count);
        bool same = e->named
                        ? next->named && next->kind == e->kind &&
                              compare_bytes(next->local, next->local_len,
                                            e->local, e->local_len) == 0
                        : compare_key(next, e->kind, e->local, e->local_len,
                                      e->remote, e->remote_len) == 0;
        if (!same)
            break;
        g.count++;
    }
    return g;
}

int join_ends(struct join_end *ends, uint32_t count, uint64_t *ambiguous,
              struct ips_err *err)
{
    struct joiner j = {.ends = ends};
    j.order = malloc(((size_t)count + 1) * sizeof(*j.order));
    if (!j.order)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory to join %u ends",
                           count);
    for (uint32_t i = 0; i < count; i++) {
        j.order[i] = i;
        ends[i].peer = JOIN_NONE;
    }
    qsort_r(j.order, count, sizeof(*j.order), compare_ends, ends);
    for (uint32_t i = 0; i < count;) {
        struct group a = find_group_from_position(&j, count, i);
        if (end_at_sorted_position(&j, i)->named) {
            join_ends_of_user_channel(&j, a);
        } else {
            struct group b = find_group_with_swapped_key(
                &j, count, end_at_sorted_position(&j, i));
            /* Join each pair of groups once; an end is not its own peer. */
            if (b.count > 0 && a.first < b.first)
                join_ends_of_two_groups(&j, a, b);
        }
        i += a.count;
    }
    *ambiguous = j.ambiguous;
    free(j.order);
    return 0;
}
