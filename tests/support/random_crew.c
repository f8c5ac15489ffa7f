#include "tests/support/random_crew.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/random_graph.h"

#define NODES (RCREW_PIECES * 4u + RCREW_WORKERS * 8u)

struct laying {
    struct rcrew *p;
    enum rcrew_flaw flaw;
    uint32_t next;
    uint32_t inner[RCREW_PIECES]; /* node that takes lock 1 */
    uint32_t tail[RCREW_WORKERS]; /* ... lock 0 for the last time */
    uint64_t before;              /* work of the next node */
};

static uint64_t work(uint64_t *s, uint32_t max)
{
    return rg_below(s, 8) ? rg_below(s, max + 1) : 0;
}

/* Until it can be told from turns of one's own. */
static bool told(const struct rcrew *p)
{
    uint32_t count[RCREW_WORKERS] = {0}, least = UINT32_MAX, most = 0;
    uint32_t locks[RCREW_WORKERS] = {0}, fewest = UINT32_MAX, taken = 0;
    for (uint32_t k = 0; k < p->pieces; k++) {
        count[p->had[k]]++;
        locks[p->had[k]] += 1 + p->piece[k].shares;
    }
    for (uint32_t v = 0; v < p->workers; v++) {
        least = ips_min_u32(least, count[v]);
        most = ips_max_u32(most, count[v]);
        fewest = ips_min_u32(fewest, locks[v]);
        taken = ips_max_u32(taken, locks[v]);
    }
    for (uint32_t by = 2; by <= most; by++) {
        bool divides = true;
        for (uint32_t v = 0; v < p->workers; v++)
            divides = divides && count[v] % by == 0;
        if (divides)
            return false;
    }
    return least > 0 && most - least >= 2 && taken - fewest >= 2;
}

static void draw(struct rcrew *p, uint64_t *s, uint32_t max,
                 enum rcrew_flaw flaw)
{
    p->workers = 2 + rg_below(s, RCREW_WORKERS - 1);
    p->pieces = 4 * p->workers + 2;
    p->pieces += rg_below(s, RCREW_PIECES - p->pieces + 1);
    p->none = work(s, max / 32);
    for (uint32_t v = 0; v < p->workers; v++) {
        p->fork[v] = work(s, max / 4);
        p->connect[v] = work(s, max);
        p->end[v] = work(s, max / 16);
    }
    for (uint32_t k = 0; k < p->pieces; k++)
        p->piece[k] = (struct rcrew_piece){
            .inside = work(s, max / 8),
            .work = work(s, rg_below(s, 4) ? max : 8 * max),
            .shared = work(s, max / 8),
            .behind = work(s, max / 16),
            .shares = flaw == RCREW_TWICE ||
                      (flaw == RCREW_GOOD && rg_below(s, 2) == 0)};
    do {
        for (uint32_t k = 0; k < p->pieces; k++)
            p->had[k] =
                flaw == RCREW_EVEN ? k % p->workers : rg_below(s, p->workers);
    } while (flaw != RCREW_EVEN && !told(p));
}

static uint32_t put(struct laying *l, uint8_t kind, uint64_t w)
{
    struct ips_graph *g = &l->p->g;
    g->kind[l->next] = kind;
    g->w[l->next] = l->before + w;
    l->before = 0;
    return l->next++;
}

static void depend(struct laying *l, uint32_t i, uint32_t on, uint8_t xkind)
{
    l->p->g.xpred[i] = on;
    l->p->g.xkind[i] = xkind;
}

/* Takes a lock, and gives it back after `w`; the first of the two. */
static uint32_t hold(struct laying *l, uint32_t lock, uint64_t w)
{
    struct rcrew *p = l->p;
    uint32_t take = put(l, IPS_NODE_AUX, 0), give = put(l, IPS_NODE_AUX, w);
    p->event[p->locks.event_count++] =
        (struct ips_replay_lock_event){take, lock, false};
    p->event[p->locks.event_count++] =
        (struct ips_replay_lock_event){give, lock, true};
    return take;
}

static void lay_worker(struct laying *l, uint32_t v)
{
    struct rcrew *p = l->p;
    uint32_t other = l->flaw == RCREW_TWICE ? 0 : 1;
    uint32_t by = l->flaw == RCREW_MAKER && v == 1 ? p->g.chains[1].first : v;
    depend(l, put(l, IPS_NODE_START, 0), by + 1, IPS_X_LIFETIME);
    l->before = p->connect[v];
    for (uint32_t k = 0; k < p->pieces; k++) {
        if (p->had[k] != v)
            continue;
        p->taking[k] = hold(l, 0, p->piece[k].inside);
        l->before = p->piece[k].work;
        if (p->piece[k].shares)
            l->inner[k] = hold(l, other, p->piece[k].shared);
        l->before += p->piece[k].behind;
    }
    l->tail[v] = hold(l, 0, p->none);
    put(l, IPS_NODE_END, p->end[v]);
}

static void lay_chains(struct laying *l)
{
    struct rcrew *p = l->p;
    for (uint32_t c = 0; c <= p->workers; c++) {
        struct ips_chain *is = &p->g.chains[c];
        *is = (struct ips_chain){.first = l->next, .tid = c + 1};
        if (c) {
            lay_worker(l, c - 1);
        } else {
            put(l, IPS_NODE_START, 0);
            for (uint32_t v = 0; v < p->workers; v++)
                put(l, IPS_NODE_FORK, p->fork[v]);
            for (uint32_t v = 0; v < p->workers; v++)
                put(l, IPS_NODE_JOIN, 0);
            put(l, IPS_NODE_END, 0);
        }
        is->count = l->next - is->first;
    }
}

/* When each lock was taken, and of whom. */
static void order(struct laying *l)
{
    struct rcrew *p = l->p;
    uint32_t last[2] = {IPS_NO_NODE, IPS_NO_NODE};
    uint64_t now = 0; /* in steps of 2 */
    for (uint32_t k = 0; k < p->pieces + p->workers; k++) {
        bool tail = k >= p->pieces;
        uint32_t i = tail ? l->tail[k - p->pieces] : p->taking[k];
        if (last[0] != IPS_NO_NODE)
            depend(l, i, last[0], IPS_X_RESOURCE);
        last[0] = i + 1;
        p->when[i] = now += 2;
        if (tail || !p->piece[k].shares)
            continue;
        uint32_t lock = l->flaw == RCREW_TWICE ? 0 : 1;
        i = l->inner[k];
        if (last[lock] != IPS_NO_NODE)
            depend(l, i, last[lock], IPS_X_RESOURCE);
        last[lock] = i + 1;
        p->when[i] = now += 2;
    }
    for (uint32_t v = 0; v < p->workers; v++) {
        const struct ips_chain *c = &p->g.chains[v + 1];
        depend(l, 1 + p->workers + v, c->first + c->count - 1, IPS_X_LIFETIME);
    }
}

static void spoil(struct laying *l)
{
    struct rcrew *p = l->p;
    uint32_t a = 0, b = 1;
    while (p->had[b] == p->had[a])
        b++;
    if (l->flaw == RCREW_EARLY)
        p->when[l->tail[p->had[0]]] = p->when[p->taking[p->pieces - 1]] - 1;
    if (l->flaw == RCREW_MESSAGE)
        depend(l, p->taking[b] + 1, p->taking[a] + 1, IPS_X_DATA);
}

void rcrew_make(uint64_t seed, uint32_t weight_max, enum rcrew_flaw flaw,
                struct rcrew *out)
{
    struct laying l = {.p = out, .flaw = flaw};
    uint64_t s = seed;
    memset(out, 0, sizeof(*out));
    draw(out, &s, weight_max, flaw);
    ips_graph_init(&out->g);
    out->event = calloc(NODES, sizeof(*out->event));
    out->when = calloc(NODES, sizeof(*out->when));
    if (!out->event || !out->when ||
        ips_graph_alloc(&out->g, NODES, out->workers + 1, NULL) < 0)
        abort();
    out->units[0] = out->units[1] = 1;
    out->locks.lock_count = 2;
    out->locks.units = out->units;
    out->locks.event = out->event;
    lay_chains(&l);
    ips_graph_shrink(&out->g, l.next);
    order(&l);
    spoil(&l);
}

void rcrew_release(struct rcrew *p)
{
    ips_graph_release(&p->g);
    free(p->event);
    free(p->when);
}
