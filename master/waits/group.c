/* Groups waits and finds what caused them. Runs in the worker thread. */
#include <stdlib.h>
#include <string.h>

#include "analysis/graph/idmap.h"
#include "common/types.h"
#include "master/waits/waits.h"

struct grouping {
    const struct waits *w;
    const struct waits_choice *c;
    struct waits_groups *out;
    /* Three maps, one after the other, find the group of a wait: call_sites
     * maps (waiter, call site) to a number a, causes maps (a, cause and
     * lateness) to a number b, and groups maps (b, peer) to the group. */
    struct ips_idmap call_sites, causes, groups;
    uint32_t group_capacity;
    /* numbers the causes of waits (doers): maps (process, kind and what) to a
     * number */
    struct ips_idmap doers;
    struct ips_idmap blames; /* (group, doer) -> index in out->blame */
    uint64_t blame_capacity;
    uint32_t group; /* the group being filled */
    bool failed;    /* set when memory ran out */
};

void waits_groups_release(struct waits_groups *g)
{
    free(g->group);
    free(g->blame);
    memset(g, 0, sizeof(*g));
}

/* Returns the number of the pair (a, b); a new pair gets the number `next`.
 * Returns WAITS_NONE if memory runs out. */
static uint32_t find_or_add_pair_number(struct ips_idmap *m, uint32_t a,
                                        uint32_t b, uint32_t next)
{
    uint64_t key = (uint64_t)a << 32 | b;
    if (!ips_idmap_reserve_one_key(m))
        return WAITS_NONE;
    uint64_t at = ips_idmap_find_slot(m, key);
    if (ips_idmap_slot_is_used(m, at))
        return m->value[at];
    ips_idmap_fill_slot(m, at, key, next);
    return next;
}

static uint32_t idmap_entry_count(const struct ips_idmap *m)
{
    return (uint32_t)m->count;
}

/* ---- finding the group of a wait ---------------------------------------- */

/* Returns the process of the thread that ended the wait; WAITS_NONE: no
 * recorded thread did. */
static uint32_t peer_process_of_wait(const struct waits *w,
                                     const struct ips_wait *x)
{
    uint32_t i = x->arc, u = w->g->xpred[i];
    if (!x->of_node || u == IPS_NO_NODE || w->g->xkind[i] == IPS_X_NONE ||
        w->g->xkind[i] == IPS_X_EXTERNAL || w->g->xkind[i] == IPS_X_IDLE)
        return WAITS_NONE;
    return waits_process_of_chain(w, ips_chain_of(w->g, u));
}

static struct waits_make_groups
group_key_of_wait(const struct grouping *k, uint64_t number, uint32_t chain)
{
    const struct waits *w = k->w;
    const struct ips_wait *x = &w->wait[number];
    struct waits_make_groups g = {.process = WAITS_NONE,
                                  .chain = WAITS_NONE,
                                  .call_site = WAITS_NONE,
                                  .cause = WAITS_NONE,
                                  .peer = WAITS_NONE};
    switch (k->c->by) {
    case WAITS_BY_PLACE:
        g.process = waits_process_of_chain(w, chain);
        g.call_site = w->call_site_of[number];
        g.cause = x->cause;
        g.peer = peer_process_of_wait(w, x);
        g.late = ips_wait_late_side(w->g, x);
        break;
    case WAITS_BY_CAUSE:
        g.cause = x->cause;
        break;
    case WAITS_BY_PEER:
        g.peer = peer_process_of_wait(w, x);
        break;
    case WAITS_BY_THREAD:
        g.chain = chain;
        g.process = waits_process_of_chain(w, chain);
        break;
    case WAITS_BY_PROCESS:
        g.process = waits_process_of_chain(w, chain);
        break;
    }
    return g;
}

static struct waits_make_groups *
find_or_add_wait_group(struct grouping *k, struct waits_make_groups key)
{
    struct waits_groups *o = k->out;
    uint32_t waiter = key.chain == WAITS_NONE ? key.process : key.chain;
    /* Groups by cause or peer have neither waiter nor call site. The map cannot
     * hold the key (NONE, NONE): with it, every wait would become a group of
     * its own. */
    if (waiter == WAITS_NONE)
        waiter = 0;
    uint32_t a = find_or_add_pair_number(&k->call_sites, waiter, key.call_site,
                                         idmap_entry_count(&k->call_sites));
    uint32_t b = find_or_add_pair_number(
        &k->causes, a, (key.cause & 0xffffu) | (uint32_t)key.late << 16,
        idmap_entry_count(&k->causes));
    uint32_t at = find_or_add_pair_number(&k->groups, b, key.peer, o->count);
    k->failed |= a == WAITS_NONE || b == WAITS_NONE || at == WAITS_NONE;
    if (k->failed)
        return NULL;
    if (at == o->count) {
        if (o->count == k->group_capacity) {
            uint32_t room = k->group_capacity * 2 + 64;
            void *more = realloc(o->group, room * sizeof(*o->group));
            if (!more) {
                k->failed = true;
                return NULL;
            }
            o->group = more;
            k->group_capacity = room;
        }
        o->group[o->count++] = key;
    }
    k->group = at;
    return &o->group[at];
}

/* ---- adding up causes (blame) ------------------------------------------- */

static void add_blame(struct grouping *k, enum ips_blame_kind kind,
                      uint32_t process, uint32_t what, uint64_t ns)
{
    struct waits_groups *o = k->out;
    if (ns == 0)
        return;
    uint32_t doer = find_or_add_pair_number(
        &k->doers, process, (uint32_t)kind << 28 | (what & 0xfffffffu),
        idmap_entry_count(&k->doers));
    uint32_t at = doer == WAITS_NONE
                      ? WAITS_NONE
                      : find_or_add_pair_number(&k->blames, k->group, doer,
                                                (uint32_t)o->blame_count);
    if (at != WAITS_NONE && at == o->blame_count) {
        if (o->blame_count == k->blame_capacity) {
            uint64_t room = k->blame_capacity * 2 + 256;
            void *more = realloc(o->blame, room * sizeof(*o->blame));
            if (!more) {
                k->failed = true;
                return;
            }
            o->blame = more;
            k->blame_capacity = room;
        }
        o->blame[o->blame_count++] = (struct waits_blame){
            .group = k->group, .kind = kind, .process = process, .what = what};
    }
    k->failed |= at == WAITS_NONE;
    if (!k->failed)
        o->blame[at].ns += ns;
}

/* Returns the index in the profile of the first entry of node `own` or a later
 * node. */
static uint64_t find_first_profile_entry_of_node(const struct arc_profile *p,
                                                 uint32_t own)
{
    uint64_t low = 0, high = p->count;
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;
        if (p->node[mid] < own)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Distributes `ns` of the arc into `node` over procedures, in proportion to
 * the arc's profile. */
static void distribute_blame_over_procedures(struct grouping *k, uint32_t part,
                                             uint32_t process, uint32_t node,
                                             uint64_t ns)
{
    const struct waits *w = k->w;
    const struct arc_profile *p = &w->arc_profile[part];
    uint32_t own = node - w->node_base[part];
    uint64_t weight = w->g->w[node], gone = 0, given = 0;
    for (uint64_t i = find_first_profile_entry_of_node(p, own);
         i < p->count && p->node[i] == own; i++) {
        gone = ips_min_u64(ips_add_sat(gone, p->ns[i]), weight);
        uint64_t up_to = weight ? (uint64_t)((ips_u128)ns * gone / weight) : 0;
        add_blame(k, IPS_BLAME_COMPUTE, process,
                  w->symbol_number[part][p->of[i]], up_to - given);
        given = up_to;
    }
    add_blame(k, IPS_BLAME_COMPUTE, process, WAITS_NONE, ns - given);
}

static void add_blame_piece_to_group(void *arg, const struct ips_blame *b)
{
    struct grouping *k = arg;
    const struct ips_chain *c = &k->w->g->chains[b->chain];
    uint32_t process = waits_process_of_chain(k->w, b->chain);
    if (b->kind == IPS_BLAME_CUT)
        k->out->cut_ns += b->ns;
    if (b->kind == IPS_BLAME_COMPUTE)
        distribute_blame_over_procedures(k, c->machine, process, b->node,
                                         b->ns);
    else
        add_blame(k, b->kind, process,
                  b->kind == IPS_BLAME_WAITED && b->cause < k->w->cause_count
                      ? b->cause
                      : WAITS_NONE,
                  b->ns);
}

/* ---- grouping all waits ------------------------------------------------- */

static bool is_wait_chosen(const struct waits_choice *c, uint32_t chain,
                           uint32_t place)
{
    return (!c->chain || c->chain[chain]) &&
           (!c->call_site || c->call_site[place]);
}

static int blame_wait_and_add_to_its_group(struct grouping *k,
                                           struct ips_blamer *b,
                                           uint64_t number, uint32_t chain,
                                           uint64_t from, uint64_t to,
                                           struct ips_err *err)
{
    const struct ips_wait *x = &k->w->wait[number];
    struct waits_groups *o = k->out;
    bool whole = k->c->from_ns == 0 && k->c->to_ns == UINT64_MAX;
    uint64_t end = x->of_node ? k->w->laid.at[x->arc] : x->to;
    if (!whole && (x->from >= to || end < from))
        return 0;
    struct waits_make_groups *g =
        find_or_add_wait_group(k, group_key_of_wait(k, number, chain));
    uint64_t ns;
    if (!g)
        return 0;
    int rc = ips_blame_wait(b, x, whole ? 0 : from, whole ? UINT64_MAX : to,
                            &ns, err);
    g = &o->group[k->group];
    g->count++;
    g->total_ns += ns;
    if (ns > g->longest_ns || g->count == 1) {
        g->longest_ns = ns;
        g->longest_wait = number;
    }
    uint32_t cause =
        x->cause < k->w->cause_count ? x->cause : IPS_IDLE_NO_CAUSE;
    enum ips_lateness late = ips_wait_late_side(k->w->g, x);
    o->waits++;
    o->total_ns += ns;
    o->cause_ns[cause] += ns;
    o->cause_count[cause]++;
    o->late_sender_ns += late == IPS_LATE_SENDER ? ns : 0;
    o->late_receiver_ns += late == IPS_LATE_RECEIVER ? ns : 0;
    return rc;
}

static int compare_blame_by_group_and_ns(const void *va, const void *vb)
{
    const struct waits_blame *a = va, *b = vb;
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    if (a->ns != b->ns)
        return a->ns > b->ns ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    return (a->what > b->what) - (a->what < b->what);
}

static void sort_blame_and_set_ranges(struct waits_groups *o)
{
    if (o->blame_count)
        qsort(o->blame, o->blame_count, sizeof(*o->blame),
              compare_blame_by_group_and_ns);
    for (uint64_t i = 0; i < o->blame_count; i++) {
        struct waits_make_groups *g = &o->group[o->blame[i].group];
        if (g->blame_count++ == 0)
            g->first = (uint32_t)i;
    }
}

int waits_make_groups(const struct waits *w, const struct waits_choice *choice,
                      struct waits_groups *out, struct ips_err *err)
{
    struct grouping k = {.w = w, .c = choice, .out = out};
    struct ips_blamer b = {.w = &w->laid,
                           .put = add_blame_piece_to_group,
                           .arg = &k,
                           .budget = WAITS_STEPS};
    uint64_t from = ips_add_sat(choice->from_ns, w->scale_ns);
    uint64_t to = ips_add_sat(choice->to_ns, w->scale_ns);
    int rc = 0;
    uint32_t chain = 0;
    memset(out, 0, sizeof(*out));
    for (uint64_t i = 0; i < w->count && rc == 0 && !k.failed; i++) {
        const struct ips_chain *c = &w->g->chains[chain];
        if (w->wait[i].arc - c->first >= c->count)
            chain = ips_chain_of(w->g, w->wait[i].arc);
        if (is_wait_chosen(choice, chain, w->call_site_of[i]))
            rc = blame_wait_and_add_to_its_group(&k, &b, i, chain, from, to,
                                                 err);
    }
    ips_blamer_release(&b);
    ips_idmap_release(&k.call_sites);
    ips_idmap_release(&k.causes);
    ips_idmap_release(&k.groups);
    ips_idmap_release(&k.doers);
    ips_idmap_release(&k.blames);
    if (k.failed && rc == 0)
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "no memory for waits");
    if (rc < 0)
        waits_groups_release(out);
    else
        sort_blame_and_set_ranges(out);
    return rc;
}
