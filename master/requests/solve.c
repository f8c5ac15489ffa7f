/* Computes the answer to a question about requests. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/path/weighting.h"
#include "master/query/machine_share.h"
#include "master/requests/more.h"
#include "master/requests/reported.h"

/* ---- services, from the tables ------------------------------------------- */

/* Returns the length of the local end in "tcp 127.0.0.1:80-127.0.0.1:4000".
 * Addresses contain no '-'. A Unix socket's path may, so its whole name is
 * used. */
static size_t local_end_len(const char *name)
{
    const char *dash = strncmp(name, "tcp ", 4) == 0 ? strchr(name, '-') : NULL;
    return dash ? (size_t)(dash - name) : strlen(name);
}

/* Returns the oldest ancestor with the same program name in an unbroken line,
 * or the process itself. So a server that forks for each connection
 * (PostgreSQL) is one service. */
static uint32_t oldest_ancestor_of_same_program(const struct machine_tables *t,
                                                uint32_t process)
{
    for (uint32_t left = t->proc_count; left > 0; left--) {
        int64_t up = t->procs[process]->parent;
        if (up < 0 || up >= t->proc_count ||
            !machine_share_same_program(t->procs[up]->name,
                                        t->procs[process]->name))
            break;
        process = (uint32_t)up;
    }
    return process;
}

/* Whether a connection called `name` belongs to service `s`. Every Unix
 * connection has its own name, so all those of one program form one service. */
static bool is_connection_of_service(const struct machine_share *p,
                                     const struct request_service *s,
                                     const char *name, size_t len,
                                     uint32_t family)
{
    bool tcp = strncmp(name, "tcp ", 4) == 0;
    if (s->machine != p->number || tcp != (strncmp(s->name, "tcp ", 4) == 0))
        return false;
    if (tcp)
        return s->name_len == len && strncmp(s->name, name, len) == 0;
    return s->family == family;
}

static uint32_t find_or_add_service(struct requests_data *d,
                                    const struct machine_share *p,
                                    const char *name, uint32_t process)
{
    size_t len = local_end_len(name);
    uint32_t family = oldest_ancestor_of_same_program(&p->t, process);
    for (uint32_t i = d->service_count; i > 0; i--) {
        if (is_connection_of_service(p, &d->service[i - 1], name, len, family))
            return i - 1;
    }
    d->service[d->service_count] =
        (struct request_service){.machine = p->number,
                                 .name = name,
                                 .name_len = len,
                                 .process = process,
                                 .family = family};
    return d->service_count++;
}

static int compare_channels_by_end_and_receives(const void *a, const void *b)
{
    const Ips__ChannelRow *x = *(Ips__ChannelRow *const *)a;
    const Ips__ChannelRow *y = *(Ips__ChannelRow *const *)b;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    /* If several processes share an end, the one with more received messages
     * comes first. */
    return (x->recv_messages < y->recv_messages) -
           (x->recv_messages > y->recv_messages);
}

static void add_services_and_ends(struct requests_data *d,
                                  const struct machine_share *p)
{
    const struct machine_tables *t = &p->t;
    for (uint32_t i = 0; i < t->channel_count; i++) {
        const Ips__ChannelRow *c = t->channels[i];
        if (!c->serves || c->process >= t->proc_count)
            continue;
        bool first = i == 0 || t->channels[i - 1]->end != c->end;
        if (c->recv_messages && !d->serving[p->number][c->process])
            d->serving[p->number][c->process] = true;
        if (c->peer_process >= 0 && c->peer_process < t->proc_count)
            d->client[p->number][c->peer_process] = true;
        if (!first)
            continue;
        uint32_t s = find_or_add_service(d, p, c->name, c->process);
        d->service[s].connections++;
        d->ends[d->end_count] = (struct ips_served_end){p->number, c->end, s};
        d->end_process[d->end_count++] = c->process;
    }
}

static bool count_service_processes(struct requests_data *d,
                                    const struct machine_share *p)
{
    for (uint32_t s = 0; s < d->service_count; s++) {
        bool *seen = calloc((size_t)p->t.proc_count + 1, 1);
        if (!seen)
            return false;
        for (uint32_t i = 0; i < d->end_count; i++) {
            if (d->ends[i].service != s || d->ends[i].machine != p->number)
                continue;
            d->service[s].processes += !seen[d->end_process[i]];
            seen[d->end_process[i]] = true;
        }
        free(seen);
    }
    return true;
}

bool requests_find_services_and_ends(struct query *q)
{
    struct requests_data *d = requests_data_of(q);
    size_t room = 1;
    for (uint32_t i = 0; i < q->gather.count; i++)
        room += q->gather.active[i]->t.channel_count;
    d->service = calloc(room, sizeof(*d->service));
    d->ends = calloc(room, sizeof(*d->ends));
    d->end_process = calloc(room, sizeof(*d->end_process));
    d->serving = calloc((size_t)q->gather.count + 1, sizeof(*d->serving));
    d->client = calloc((size_t)q->gather.count + 1, sizeof(*d->client));
    if (!d->service || !d->ends || !d->end_process || !d->serving || !d->client)
        return false;
    for (uint32_t i = 0; i < q->gather.count; i++) {
        struct machine_share *p = q->gather.active[i];
        d->serving[i] = calloc((size_t)p->t.proc_count + 1, 1);
        d->client[i] = calloc((size_t)p->t.proc_count + 1, 1);
        if (!d->serving[i] || !d->client[i])
            return false;
        if (p->t.channel_count)
            qsort(p->t.channels, p->t.channel_count, sizeof(*p->t.channels),
                  compare_channels_by_end_and_receives);
        add_services_and_ends(d, p);
        if (!count_service_processes(d, p))
            return false;
    }
    return true;
}

void requests_release(struct query *q)
{
    struct requests_data *d = requests_data_of(q);
    for (uint32_t i = 0; i < q->gather.count; i++) {
        if (d->serving)
            free(d->serving[i]);
        if (d->client)
            free(d->client[i]);
    }
    free(d->serving);
    free(d->client);
    free(d->service);
    free(d->ends);
    free(d->end_process);
    free(d->by_service);
    free(d->chain_ns);
    free(d->outside_cpu);
    free(d->outside_wait);
    d->outside_cpu = d->outside_wait = NULL;
    requests_release_reported(d);
    waits_release(&d->waits);
    free(d->more);
    free(d->typical);
    d->more = d->typical = NULL;
    ips_lock_holds_release(&d->lock_holds);
    ips_requests_release(&d->result);
    d->serving = d->client = NULL;
    d->service = NULL;
    d->ends = NULL;
    d->end_process = d->by_service = NULL;
    d->chain_ns = NULL;
    d->service_count = d->end_count = 0;
}

/* ---- requests, from the graph -------------------------------------------- */

static int merge_wall_graph_and_find_path(struct query *q)
{
    struct path_data *d = path_data_of(q);
    if (!engine_make_graphs(q))
        return d->err.code;
    for (uint32_t i = 0; i < q->gather.count; i++) {
        struct machine_share *p = q->gather.active[i];
        uint32_t sent = engine_data_of_machine(p)->g.node_count;
        if (sent == p->sync->nodes &&
            (sent == 0 || engine_data_of_machine(p)->g.site))
            continue;
        d->blame = p;
        return ips_err_set(&d->err, IPS_E_PROTOCOL,
                           "promised %" PRIu64 " nodes with their channels and "
                           "sent %u",
                           p->sync->nodes, sent);
    }
    int rc = weighting_switch_and_merge_views(q, IPS_WEIGH_WALL);
    if (rc < 0)
        return rc;
    struct ips_scenario scenario = weighting_scenario_with_merged_goal(
        q, &d->scenarios[SCENARIO_MAIN].scenario);
    return ips_longest_path_compute_ests(&d->merged, &scenario, NULL, &d->est,
                                         &d->err);
}

static bool request_is_in_window(const struct requests_data *d,
                                 const struct ips_request *r)
{
    const struct path_window *w = &d->path.window;
    return r->arrived_ns >= w->from_ns &&
           (!w->to_ns || r->arrived_ns < w->to_ns);
}

/* Groups the requests of the window by service, in d->by_service. */
static bool group_windowed_requests_by_service(struct requests_data *d)
{
    const struct ips_requests *f = &d->result;
    d->by_service = calloc((size_t)f->count + 1, sizeof(*d->by_service));
    if (!d->by_service)
        return false;
    for (uint32_t i = 0; i < f->count; i++)
        d->service[d->ends[f->r[i].end].service].count +=
            request_is_in_window(d, &f->r[i]);
    uint32_t at = 0;
    for (uint32_t s = 0; s < d->service_count; s++) {
        d->service[s].first = at;
        at += d->service[s].count;
        d->service[s].count = 0;
    }
    for (uint32_t i = 0; i < f->count; i++) {
        struct request_service *s = &d->service[d->ends[f->r[i].end].service];
        if (request_is_in_window(d, &f->r[i]))
            d->by_service[s->first + s->count++] = i;
    }
    return true;
}

/* the requests whose indexes compare_requests_by_duration() compares; used only
 * in the worker's thread */
static const struct ips_request *sorting;

static int compare_requests_by_duration(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    uint64_t x = ips_request_ns(&sorting[i]), y = ips_request_ns(&sorting[k]);
    if (x != y)
        return x < y ? -1 : 1;
    return (i > k) - (i < k);
}

static int sum_lock_holds_in_busiest_service_span(struct query *q)
{
    struct requests_data *d = requests_data_of(q);
    const struct ips_graph *g = &d->path.merged;
    bool *lock = calloc((size_t)g->node_count + 1, sizeof(*lock));
    uint64_t *name = calloc((size_t)g->node_count + 1, sizeof(*name));
    if (!lock || !name) {
        free(lock);
        free(name);
        return ips_err_set(&d->path.err, IPS_E_NO_MEMORY,
                           "no memory for requests");
    }
    /* Only the graphs as received from the slaves have the kind of a resource,
     * in xlen. In the `wall` graphs xlen is the arc's length. */
    for (uint32_t p = 0; p < q->gather.count; p++) {
        const struct engine_machine *e =
            engine_data_of_machine(q->gather.active[p]);
        for (uint32_t i = 0; i < e->g.node_count; i++)
            lock[e->base + i] = e->g.xkind[i] == IPS_X_RESOURCE &&
                                e->g.xlen[i] == IPS_THING_LOCK &&
                                requests_busiest_span_contains_time(
                                    d, d->path.est.est[e->base + i]);
        /* Locks of different machines are distinct. */
        const struct waits_rows *r = &d->waits.machine[p];
        for (uint64_t i = 0; i < r->lock_count; i++) {
            const struct waits_lock_row *l = &r->lock_row[i];
            if (!l->gives && l->after == 0 && l->node < e->g.node_count)
                name[e->base + l->node] = (uint64_t)p << 32 | (l->lock + 1u);
        }
    }
    int rc = ips_sum_lock_holds_by_lock(g, &d->path.est, lock, name,
                                        &d->lock_holds, &d->path.err);
    free(lock);
    free(name);
    return rc;
}

void requests_solve(struct query *q)
{
    struct requests_data *d = requests_data_of(q);
    struct ips_err *err = &d->path.err;
    int rc = merge_wall_graph_and_find_path(q);
    if (rc < 0)
        return;
    struct ips_scenario scenario = weighting_scenario_with_merged_goal(
        q, &d->path.scenarios[SCENARIO_MAIN].scenario);
    if (d->reported)
        rc = requests_compute_marked_requests(q, &scenario, err);
    else
        rc = ips_requests_find(&d->path.merged, &scenario, &d->path.est,
                               d->ends, d->end_count, &d->result, err);
    if (rc < 0)
        return;
    d->chain_ns =
        calloc((size_t)d->path.merged.chain_count + 1, sizeof(*d->chain_ns));
    if (!d->chain_ns || !group_windowed_requests_by_service(d)) {
        ips_err_set(err, IPS_E_NO_MEMORY, "no memory for requests");
        return;
    }
    sorting = d->result.r;
    for (uint32_t s = 0; s < d->service_count; s++) {
        const struct request_service *v = &d->service[s];
        if (v->count)
            qsort(d->by_service + v->first, v->count, sizeof(*d->by_service),
                  compare_requests_by_duration);
    }
    rc = requests_compare_slowest_with_median(q, err);
    if (rc == 0)
        rc = requests_find_busiest_service_and_outside_ns(q, err);
    if (rc == 0)
        rc = sum_lock_holds_in_busiest_service_span(q);
    (void)rc; /* on failure err has the reason */
}
