#include "master/tables/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/query/certificate.h"
#include "master/query/gather.h"
#include "master/query/machine_share.h"
#include "master/tables/tables.h"

struct kept {
    unsigned refs; /* questions, and the master while it is the last one */
    char run[QUERY_RUN_BYTES];
    uint64_t events;
    unsigned want;
    struct part *parts; /* [count], all active */
    uint32_t count;
    uint64_t ambiguous, untraced_ends;
    struct tables *tables; /* NULL: nobody wanted them, or too many */
};

static void drop(struct kept *k)
{
    if (!k || --k->refs > 0)
        return;
    struct query q = {.parts = k->parts, .part_count = k->count};
    parts_release(&q);
    tables_free(k->tables);
    free(k);
}

static void let_go(struct query *q)
{
    drop(q->kept);
    q->kept = NULL;
}

/* ---- taking ----------------------------------------------------------- */

static bool all_connected(const struct master *m, const struct kept *k)
{
    uint64_t now = master_now_ns();
    for (uint32_t i = 0; i < k->count; i++) {
        const struct slave *s = roster_find(&m->roster, k->parts[i].machine);
        if (!s || !s->peer || !roster_alive(s, now))
            return false;
    }
    return true;
}

/* Makes a part of the question's own, whose tables are the kept ones.
 * `matched`: the question wants the ends matched. Else its certificate must not
 * count a match that another question asked for. */
static void borrow(struct query *q, bool matched, struct part *to,
                   const struct part *from)
{
    *to = (struct part){.state = PART_ACTIVE,
                        .slave = roster_find(&q->m->roster, from->machine),
                        .expected = true,
                        .sync = from->sync,
                        .settled = matched ? from->settled : NULL,
                        .t = from->t,
                        .peer = from->peer,
                        .peer_count = from->peer_count,
                        .number = from->number,
                        .round_trip_ns = from->round_trip_ns,
                        .borrows = true};
    snprintf(to->machine, sizeof(to->machine), "%s", from->machine);
}

static bool lend(struct query *q, struct kept *k, bool matched)
{
    struct part *parts = calloc((size_t)k->count + 1, sizeof(*parts));
    struct part **active = calloc((size_t)k->count + 1, sizeof(*active));
    if (!parts || !active) {
        free(parts);
        free(active);
        return false;
    }
    parts_release(q);
    gather_release(q);
    for (uint32_t i = 0; i < k->count; i++) {
        borrow(q, matched, &parts[i], &k->parts[i]);
        active[i] = &parts[i];
    }
    q->parts = parts;
    q->part_count = k->count;
    q->gather = (struct gather){.want = k->want,
                                .active = active,
                                .count = k->count,
                                .ambiguous = matched ? k->ambiguous : 0,
                                .untraced_ends = k->untraced_ends};
    q->kept = k;
    q->let_go = let_go;
    k->refs++;
    return true;
}

bool kept_take(struct query *q, unsigned want)
{
    struct kept *k = q->m->kept;
    struct catalogue_known known = {0};
    struct ips_err err = {0};
    if (!k || (want & ~k->want) || q->restarts > 0 || query_windowed(q) ||
        strcmp(k->run, q->run) != 0 || !all_connected(q->m, k) ||
        catalogue_known(q->m->catalogue, q->run, &known, &err) < 0 ||
        known.open || known.events != k->events ||
        !lend(q, k, want & GATHER_PEERS))
        return false;
    q->borrowed = true;
    return true;
}

void kept_or_gather(struct query *q, unsigned want,
                    void (*after)(struct query *q))
{
    if (!kept_take(q, want)) {
        gather_start(q, want, after);
        return;
    }
    q->borrowed = false;
    q->in_graph = true;
    after(q);
}

/* ---- giving ----------------------------------------------------------- */

static bool may_keep(const struct query *q, uint64_t *events)
{
    size_t bytes = 0;
    *events = 0;
    if (q->gather.count == 0 || q->kept || query_windowed(q) ||
        query_incomplete(q) || certificate_open(q))
        return false;
    for (uint32_t i = 0; i < q->part_count; i++)
        bytes += q->parts[i].kept_bytes;
    for (uint32_t i = 0; i < q->gather.count; i++)
        *events =
            ips_add_sat(*events, q->gather.active[i]->sync->state->events);
    return bytes <= KEPT_BYTES_MOST;
}

/* The same run's, with more of it. */
static bool better(const struct kept *k, const struct query *q, uint64_t events)
{
    return k && strcmp(k->run, q->run) == 0 && k->events == events &&
           (k->want & q->gather.want) == q->gather.want;
}

void kept_give(struct query *q)
{
    uint64_t events;
    struct kept *k;
    if (!may_keep(q, &events) || better(q->m->kept, q, events) ||
        !(k = calloc(1, sizeof(*k))))
        return;
    k->parts = calloc((size_t)q->gather.count + 1, sizeof(*k->parts));
    if (!k->parts) {
        free(k);
        return;
    }
    k->refs = 1;
    k->events = events;
    k->want = q->gather.want;
    k->ambiguous = q->gather.ambiguous;
    k->untraced_ends = q->gather.untraced_ends;
    snprintf(k->run, sizeof(k->run), "%s", q->run);
    for (uint32_t i = 0; i < q->gather.count; i++) {
        struct part *p = q->gather.active[i], *own = &k->parts[k->count++];
        *own = *p;
        own->slave = NULL;
        own->own = NULL;
        own->ask_id = 0;
        p->kept = NULL; /* the question's part borrows them now */
        p->kept_count = p->kept_cap = 0;
        p->kept_bytes = 0;
        p->borrows = true;
    }
    drop(q->m->kept);
    q->m->kept = q->kept = k;
    q->let_go = let_go;
    k->refs++;
}

/* ---- rows ------------------------------------------------------------- */

struct tables *kept_tables(struct query *q)
{
    if (!q->kept || !tables_fit(q))
        return tables_new();
    if (!q->kept->tables)
        q->kept->tables = tables_new();
    return q->kept->tables;
}

void kept_tables_done(struct query *q, struct tables *t)
{
    if (!t || (q->kept && q->kept->tables == t && !t->a.failed))
        return;
    if (q->kept && q->kept->tables == t)
        q->kept->tables = NULL;
    tables_free(t);
}

void kept_release(struct master *m)
{
    drop(m->kept);
    m->kept = NULL;
}
