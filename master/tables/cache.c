#include "master/tables/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/query/certificate.h"
#include "master/query/gather.h"
#include "master/query/machine_share.h"
#include "master/tables/tables.h"

struct cached_tables {
    /* number of users: questions, and the master while these are the cached
     * tables */
    unsigned refs;
    char run[QUERY_RUN_BYTES];
    uint64_t events, created_real_ns;
    unsigned want;
    struct machine_share *machines; /* [count] the run's machines, all active */
    uint32_t count;
    uint64_t ambiguous, untraced_ends;
    /* rows made from the tables; NULL: not needed so far, or too many */
    struct tables *tables;
};

static void drop_reference_to_cached_tables(struct cached_tables *k)
{
    if (!k || --k->refs > 0)
        return;
    struct query q = {.machines = k->machines, .machine_count = k->count};
    machine_shares_release(&q);
    tables_free(k->tables);
    free(k);
}

static void end_use_of_cached_tables(struct query *q)
{
    drop_reference_to_cached_tables(q->table_cache);
    q->table_cache = NULL;
}

/* ---- using the cached tables ------------------------------------------ */

static bool all_machines_connected(const struct master *m,
                                   const struct cached_tables *k)
{
    uint64_t now = master_now_ns();
    for (uint32_t i = 0; i < k->count; i++) {
        const struct slave *s = roster_find(&m->roster, k->machines[i].machine);
        if (!s || !s->peer || !roster_is_slave_alive(s, now))
            return false;
    }
    return true;
}

/* Makes `to` a machine share of the question that borrows the cached tables of
 * `from`. `matched`: the question wants joined ends. Otherwise its certificate
 * must not count joins that another question asked for. */
static void borrow_cached_tables_of_machine(struct query *q, bool matched,
                                            struct machine_share *to,
                                            const struct machine_share *from)
{
    *to = (struct machine_share){.state = MACHINE_ACTIVE,
                                 .slave =
                                     roster_find(&q->m->roster, from->machine),
                                 .expected = true,
                                 .sync = from->sync,
                                 .peers = matched ? from->peers : NULL,
                                 .t = from->t,
                                 .peer = from->peer,
                                 .peer_count = from->peer_count,
                                 .number = from->number,
                                 .round_trip_ns = from->round_trip_ns,
                                 .borrows = true};
    snprintf(to->machine, sizeof(to->machine), "%s", from->machine);
}

static bool lend_cached_tables_to_query(struct query *q,
                                        struct cached_tables *k, bool matched)
{
    struct machine_share *parts = calloc((size_t)k->count + 1, sizeof(*parts));
    struct machine_share **active =
        calloc((size_t)k->count + 1, sizeof(*active));
    if (!parts || !active) {
        free(parts);
        free(active);
        return false;
    }
    machine_shares_release(q);
    gather_release(q);
    for (uint32_t i = 0; i < k->count; i++) {
        borrow_cached_tables_of_machine(q, matched, &parts[i], &k->machines[i]);
        active[i] = &parts[i];
    }
    q->machines = parts;
    q->machine_count = k->count;
    q->gather = (struct gather){.want = k->want,
                                .active = active,
                                .count = k->count,
                                .ambiguous = matched ? k->ambiguous : 0,
                                .untraced_ends = k->untraced_ends};
    q->table_cache = k;
    q->let_go = end_use_of_cached_tables;
    k->refs++;
    return true;
}

bool table_cache_lend_if_current(struct query *q, unsigned want)
{
    struct cached_tables *k = q->m->table_cache;
    struct catalogue_run_sum known = {0};
    struct ips_err err = {0};
    if (!k || (want & ~k->want) || q->restarts > 0 ||
        query_wants_windowed_tables(q) || strcmp(k->run, q->run) != 0 ||
        !all_machines_connected(q->m, k) ||
        catalogue_sum_run(q->m->catalogue, q->run, &known, &err) < 0 ||
        known.open || known.events != k->events ||
        known.created_real_ns != k->created_real_ns ||
        !lend_cached_tables_to_query(q, k, want & GATHER_PEERS))
        return false;
    q->from_cache = true;
    return true;
}

void table_cache_lend_or_gather(struct query *q, unsigned want,
                                void (*after)(struct query *q))
{
    if (!table_cache_lend_if_current(q, want)) {
        gather_start(q, want, after);
        return;
    }
    q->from_cache = false;
    q->in_graph = true;
    after(q);
}

/* ---- storing tables --------------------------------------------------- */

/* Whether the tables may be cached; sets *run as catalogue_sum_run() does. */
static bool may_cache(const struct query *q, struct catalogue_run_sum *run)
{
    size_t bytes = 0;
    *run = (struct catalogue_run_sum){0};
    if (q->gather.count == 0 || q->table_cache ||
        query_wants_windowed_tables(q) || query_is_missing_a_machine(q) ||
        certificate_run_is_open(q))
        return false;
    for (uint32_t i = 0; i < q->machine_count; i++)
        bytes += q->machines[i].message_bytes;
    for (uint32_t i = 0; i < q->gather.count; i++) {
        const Ips__RunState *state = q->gather.active[i]->sync->state;
        run->events = ips_add_sat(run->events, state->events);
        run->created_real_ns =
            ips_max_u64(run->created_real_ns, state->created_real_ns);
    }
    return bytes <= KEPT_BYTES_MOST;
}

/* Whether the cache already has the same run's tables with at least as much
 * data. */
static bool has_as_much_cached(const struct cached_tables *k,
                               const struct query *q,
                               const struct catalogue_run_sum *run)
{
    return k && strcmp(k->run, q->run) == 0 && k->events == run->events &&
           k->created_real_ns == run->created_real_ns &&
           (k->want & q->gather.want) == q->gather.want;
}

void table_cache_store_if_cacheable(struct query *q)
{
    struct catalogue_run_sum run;
    struct cached_tables *k;
    if (!may_cache(q, &run) || has_as_much_cached(q->m->table_cache, q, &run) ||
        !(k = calloc(1, sizeof(*k))))
        return;
    k->machines = calloc((size_t)q->gather.count + 1, sizeof(*k->machines));
    if (!k->machines) {
        free(k);
        return;
    }
    k->refs = 1;
    k->events = run.events;
    k->created_real_ns = run.created_real_ns;
    k->want = q->gather.want;
    k->ambiguous = q->gather.ambiguous;
    k->untraced_ends = q->gather.untraced_ends;
    snprintf(k->run, sizeof(k->run), "%s", q->run);
    for (uint32_t i = 0; i < q->gather.count; i++) {
        struct machine_share *p = q->gather.active[i],
                             *own = &k->machines[k->count++];
        *own = *p;
        own->slave = NULL;
        own->own = NULL;
        own->ask_id = 0;
        /* from now on the cache owns the messages, and the question's machine
         * share borrows them */
        p->messages = NULL;
        p->message_count = p->message_cap = 0;
        p->message_bytes = 0;
        p->borrows = true;
    }
    drop_reference_to_cached_tables(q->m->table_cache);
    q->m->table_cache = q->table_cache = k;
    q->let_go = end_use_of_cached_tables;
    k->refs++;
}

/* ---- rows made from the tables ---------------------------------------- */

struct tables *table_cache_get_cached_or_new_tables(struct query *q)
{
    if (!q->table_cache || !tables_have_few_enough_objects(q))
        return tables_new();
    if (!q->table_cache->tables)
        q->table_cache->tables = tables_new();
    return q->table_cache->tables;
}

void table_cache_free_tables_unless_cached(struct query *q, struct tables *t)
{
    if (!t || (q->table_cache && q->table_cache->tables == t && !t->a.failed))
        return;
    if (q->table_cache && q->table_cache->tables == t)
        q->table_cache->tables = NULL;
    tables_free(t);
}

void table_cache_release(struct master *m)
{
    drop_reference_to_cached_tables(m->table_cache);
    m->table_cache = NULL;
}
