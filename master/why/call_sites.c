/* Finds the call sites and causes of the graph's waits, from the slaves' wait
 * rows (master/waits/waits.h). */
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/why/facts.h"

static int compare_waits_by_call_site(const void *a, const void *b)
{
    const struct why_wait *p = a, *q = b;
    if (p->machine != q->machine)
        return p->machine < q->machine ? -1 : 1;
    if (p->of != q->of)
        return p->of < q->of ? -1 : 1;
    return (p->why > q->why) - (p->why < q->why);
}

static void merge_votes(struct why_ballot *b)
{
    size_t kept = 0;
    if (b->count)
        qsort(b->wait, b->count, sizeof(*b->wait), compare_waits_by_call_site);
    for (size_t i = 0; i < b->count; i++) {
        if (kept &&
            compare_waits_by_call_site(&b->wait[kept - 1], &b->wait[i]) == 0)
            b->wait[kept - 1].ns += b->wait[i].ns;
        else
            b->wait[kept++] = b->wait[i];
    }
    b->count = kept;
}

/* Sets *at to the index of the longest wait in the arc into `node`. Returns
 * false if the arc has none. */
static bool find_longest_wait_of_arc(const struct waits_rows *r, uint32_t node,
                                     uint64_t *at)
{
    uint64_t low = 0, high = r->count;
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;
        if (r->node[mid] < node)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == r->count || r->node[low] != node)
        return false;
    *at = low;
    for (uint64_t i = low; i < r->count && r->node[i] == node; i++) {
        if (r->ns[i] > r->ns[*at])
            *at = i;
    }
    return true;
}

static bool is_one_of(const char *const *causes, const char *cause)
{
    while (*causes && strcmp(*causes, cause) != 0)
        causes++;
    return *causes != NULL;
}

/* Returns the index of the first wait row of the arc into `node`, and sets *end
 * to the index after the last; both are 0 if there are none. Sets *part to the
 * number of the node's machine. */
static uint64_t find_wait_rows_of_arc(const struct why_solving *y,
                                      uint32_t node, uint32_t *part,
                                      uint64_t *end)
{
    *part = y->s.g->chains[ips_chain_of(y->s.g, node)].machine;
    const struct waits_rows *r = &y->d->waits.machine[*part];
    uint32_t own = node - y->d->w.path.node_base[*part];
    uint64_t at;
    *end = 0;
    if (!find_longest_wait_of_arc(r, own, &at))
        return 0;
    for (*end = at; *end < r->count && r->node[*end] == own;)
        ++*end;
    while (at > 0 && r->node[at - 1] == own)
        at--;
    return at;
}

/* Returns the ns of sleep in the arc into `node` whose cause is one of
 * `causes`, without the wait that the node's own cross arc ended. */
static uint64_t sleep_ns_for_causes(const struct why_solving *y, uint32_t node,
                                    const char *const *causes)
{
    uint32_t part;
    uint64_t end, ns = 0, at = find_wait_rows_of_arc(y, node, &part, &end);
    const struct waits_rows *r = &y->d->waits.machine[part];
    const struct ips_clock_map *clock =
        &engine_data_of_machine(y->s.q->gather.active[part])->clock;
    for (; at < end; at++) {
        if (!r->of_node[at] && is_one_of(causes, y->d->waits.cause[r->why[at]]))
            ns = ips_add_sat(
                ns, why_ns_in_window(y, ips_clock_map_ns(clock, r->end_ns[at]),
                                     r->ns[at]));
    }
    return ns;
}

uint64_t why_sleep_ns_with_unexplained_end(const struct why_solving *y,
                                           uint32_t node)
{
    uint32_t part;
    uint64_t end, ns = 0, at = find_wait_rows_of_arc(y, node, &part, &end);
    for (; at < end; at++)
        ns = ips_add_sat(ns, y->d->waits.machine[part].unended_ns[at]);
    return ns;
}

uint64_t why_arc_sleep_ns_for_outside_events(const struct why_solving *y,
                                             uint32_t node)
{
    static const char *const causes[] = {"timer", "resolve", "terminal", NULL};
    return sleep_ns_for_causes(y, node, causes);
}

uint64_t why_sleep_ns_for_signal_child_or_spin(const struct why_solving *y,
                                               uint32_t node)
{
    static const char *const causes[] = {"signal", "child", "spin", NULL};
    return sleep_ns_for_causes(y, node, causes);
}

static int append_vote_for_longest_wait_of_arc(const struct why_solving *y,
                                               struct why_ballot *b,
                                               uint32_t node, uint64_t ns,
                                               bool giver)
{
    uint32_t part = y->s.g->chains[ips_chain_of(y->s.g, node)].machine;
    const struct waits_rows *r = &y->d->waits.machine[part];
    uint64_t at;
    if (!find_longest_wait_of_arc(r, node - y->d->w.path.node_base[part], &at))
        return 0;
    if (b->count == b->cap) {
        merge_votes(b);
        if (b->count * 2 >= b->cap) {
            size_t cap = b->cap * 2 + 256;
            struct why_wait *more = realloc(b->wait, cap * sizeof(*more));
            if (!more)
                return ips_err_set(y->s.err, IPS_E_NO_MEMORY,
                                   "no memory to find out why");
            b->wait = more;
            b->cap = cap;
        }
    }
    b->wait[b->count++] = (struct why_wait){
        part, giver ? r->giver[at] : r->of[at], r->why[at], ns};
    return 0;
}

int why_vote_for_wait_call_site(const struct why_solving *y,
                                struct why_ballot *b, uint32_t node,
                                uint64_t ns)
{
    return append_vote_for_longest_wait_of_arc(y, b, node, ns, false);
}

int why_vote_lock_releaser(const struct why_solving *y, struct why_ballot *b,
                           uint32_t node, uint64_t ns)
{
    return append_vote_for_longest_wait_of_arc(y, b, node, ns, true);
}

const char *why_set_most_voted_wait(const struct why_solving *y,
                                    struct why_ballot *b,
                                    struct why_location *out)
{
    const struct why_wait *best = NULL;
    merge_votes(b);
    for (size_t i = 0; i < b->count; i++) {
        if (!best || b->wait[i].ns > best->ns)
            best = &b->wait[i];
    }
    if (!best)
        return "";
    const Ips__WaitPlace *p =
        y->d->waits.machine[best->machine].call_site[best->of];
    out->procedure = p->procedure;
    out->module = p->module;
    out->file = p->file;
    out->source_line = p->line;
    out->procedure_ns = best->ns;
    return y->d->waits.cause[best->why];
}
