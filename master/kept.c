#include "master/kept.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/certificate.h"
#include "master/gather.h"
#include "master/part.h"

struct kept {
    char run[QUERY_RUN_BYTES];
    uint64_t events;
    struct part *parts; /* NULL: nothing, or lent */
    uint32_t part_count;
    struct gather gather;
};

static void forget(struct kept *k)
{
    struct query q = {
        .parts = k->parts, .part_count = k->part_count, .gather = k->gather};
    parts_release(&q);
    gather_release(&q);
    memset(k, 0, sizeof(*k));
}

struct known {
    uint64_t events;
    bool open;
};

static void on_known(const struct catalogue_row *row, void *arg)
{
    struct known *k = arg;
    k->events = ips_add_sat(k->events, row->events);
    k->open = k->open || row->open;
}

static bool all_connected(const struct master *m, const struct kept *k)
{
    uint64_t now = master_now_ns();
    for (uint32_t i = 0; i < k->gather.count; i++) {
        const struct slave *s =
            roster_find(&m->roster, k->gather.active[i]->machine);
        if (!s || !roster_alive(s, now))
            return false;
    }
    return true;
}

bool kept_take(struct query *q)
{
    struct kept *k = q->m->kept;
    struct known known = {0};
    struct ips_err err = {0};
    if (!k || !k->parts || q->parts || strcmp(k->run, q->run) != 0 ||
        !all_connected(q->m, k) ||
        catalogue_each(q->m->catalogue, q->run, on_known, &known, &err) < 0 ||
        known.open || known.events != k->events)
        return false;
    q->parts = k->parts;
    q->part_count = k->part_count;
    q->gather = k->gather;
    q->borrowed = true;
    memset(k, 0, sizeof(*k)); /* lent */
    return true;
}

static bool may_keep(const struct query *q, uint64_t *events)
{
    size_t bytes = 0;
    *events = 0;
    if (q->gather.count == 0 || query_incomplete(q) || certificate_open(q))
        return false;
    for (uint32_t i = 0; i < q->part_count; i++)
        bytes += q->parts[i].kept_bytes;
    for (uint32_t i = 0; i < q->gather.count; i++)
        *events =
            ips_add_sat(*events, q->gather.active[i]->sync->state->events);
    return bytes <= KEPT_BYTES_MOST;
}

void kept_give(struct query *q)
{
    uint64_t events;
    if (!may_keep(q, &events))
        return;
    if (!q->m->kept)
        q->m->kept = calloc(1, sizeof(*q->m->kept));
    struct kept *k = q->m->kept;
    if (!k)
        return;
    forget(k);
    snprintf(k->run, sizeof(k->run), "%s", q->run);
    k->events = events;
    k->parts = q->parts;
    k->part_count = q->part_count;
    k->gather = q->gather;
    for (uint32_t i = 0; i < k->part_count; i++)
        k->parts[i].slave = NULL;
    q->parts = NULL;
    q->part_count = 0;
    memset(&q->gather, 0, sizeof(q->gather));
}

void kept_release(struct master *m)
{
    if (m->kept)
        forget(m->kept);
    free(m->kept);
    m->kept = NULL;
}
