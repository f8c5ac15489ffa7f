#include "master/requests/reported.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "master/query/machine_share.h"

struct reported_row {
    uint32_t service, first, last; /* first, last: nodes of the merged graph */
    uint64_t first_ns, last_ns;
    uint32_t chain; /* the chain in the merged graph, set in the worker */
};
struct reported_requests {
    struct arena a; /* owns the names */
    struct reported_row *row;
    uint32_t count;
    size_t capacity;
    uint64_t unended;
    struct reported_machine {
        /* index in requests_data.service of the machine's first mark name (its
         * other names follow); number of names */
        uint32_t service, names;
    } * machine;
    void (*after)(struct query *q);
};

int requests_parse_by_option(struct requests_data *d, const char *by,
                             struct ips_err *err)
{
    const char *name = strchr(by, ':');
    size_t len = name ? (size_t)(name - by) : strlen(by);
    bool marks = len == 4 && strncmp(by, "mark", 4) == 0;
    bool tasks = len == 4 && strncmp(by, "task", 4) == 0;
    d->by = by;
    d->reported_name = name ? name + 1 : "";
    d->reported_by = marks ? REQUESTS_BY_MARK : REQUESTS_BY_TASK;
    if (marks || tasks) {
        if (!name || (*d->reported_name && !strchr(d->reported_name, ' ')))
            return 0;
        return ips_err_set(
            err, IPS_E_USAGE,
            "--by %.80s: the name must be one word, as in mark:order", by);
    }
    d->reported_by = REQUESTS_BY_CONNECTION;
    if (!*by || strcmp(by, "connection") == 0)
        return 0;
    return ips_err_set(
        err, IPS_E_USAGE,
        "--by %.80s: expected connection, mark, mark:NAME, task or "
        "task:NAME",
        by);
}

/* ---- fetching the marked requests ------------------------------------- */

static int add_services_of_names(struct requests_data *d,
                                 struct machine_share *p,
                                 const Ips__BracketsAnswer *a,
                                 struct ips_err *err)
{
    struct reported_requests *t = d->reported;
    struct reported_machine *of = &t->machine[p->number];
    if (a->n_names == 0)
        return 0;
    if (of->names || a->n_names > REQUESTS_NAMES_MAX)
        return ips_err_set(err, IPS_E_PROTOCOL, "names of requests");
    struct request_service *more = realloc(
        d->service, (d->service_count + a->n_names + 1) * sizeof(*d->service));
    if (!more)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for requests");
    d->service = more;
    of->service = d->service_count;
    of->names = (uint32_t)a->n_names;
    for (size_t i = 0; i < a->n_names; i++) {
        char *name = arena_printf(&t->a, "%s", a->names[i]);
        d->service[d->service_count++] = (struct request_service){
            .machine = p->number, .name = name, .name_len = strlen(name)};
    }
    return t->a.failed
               ? ips_err_set(err, IPS_E_NO_MEMORY, "no memory for requests")
               : 0;
}

static bool reserve_reported_rows(struct reported_requests *t, size_t more)
{
    if (t->count + more <= t->capacity)
        return true;
    size_t room =
        t->capacity * 2 > t->count + more ? t->capacity * 2 : t->count + more;
    struct reported_row *bigger = realloc(t->row, room * sizeof(*bigger));
    if (bigger) {
        t->row = bigger;
        t->capacity = room;
    }
    return bigger != NULL;
}

static int store_received_marked_spans(struct query *q, struct machine_share *p,
                                       const Ips__Reply *reply,
                                       struct ips_err *err)
{
    struct requests_data *d = requests_data_of(q);
    struct reported_requests *t = d->reported;
    if (reply->answer_case != IPS__REPLY__ANSWER_BRACKETS)
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to BracketsAsk");
    const Ips__BracketsAnswer *a = reply->brackets;
    size_t n = a->n_name;
    if (a->n_first != n || a->n_first_ns != n || a->n_last != n ||
        a->n_last_ns != n)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "requests: arrays differ in length");
    int rc = add_services_of_names(d, p, a, err);
    if (rc < 0)
        return rc;
    if (n > REQUESTS_TOLD_MAX - t->count)
        return ips_err_set(err, IPS_E_LIMIT, "it tells of too many requests");
    if (!reserve_reported_rows(t, n))
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for requests");
    t->unended += a->unended;
    for (size_t i = 0; i < n; i++) {
        uint32_t base = (uint32_t)engine_data_of_machine(p)->base;
        if (a->name[i] >= t->machine[p->number].names ||
            a->first[i] >= p->sync->nodes || a->last[i] >= p->sync->nodes)
            return ips_err_set(err, IPS_E_PROTOCOL,
                               "request %zu has no name or no node", i);
        t->row[t->count++] = (struct reported_row){
            .service = t->machine[p->number].service + a->name[i],
            .first = base + a->first[i],
            .last = base + a->last[i],
            .first_ns = a->first_ns[i],
            .last_ns = a->last_ns[i]};
    }
    if (!reply->last)
        query_widen_reply_window(q, p);
    return 0;
}

/* To be called when all slaves have answered. Calls t->after, or fails the
 * question if no machine has a request of the kind that the question asks for.
 */
static void check_and_finish_reported_requests(struct query *q)
{
    struct requests_data *d = requests_data_of(q);
    const struct reported_requests *t = d->reported;
    struct ips_err err = {0};
    if (t->count || !*d->by || t->unended) {
        t->after(q);
        return;
    }
    if (d->reported_by == REQUESTS_BY_TASK)
        ips_err_set(&err, IPS_E_NOT_FOUND,
                    "run %s: no task%s%.80s of the API (ips_task_start)",
                    q->run, *d->reported_name ? " " : "", d->reported_name);
    else
        ips_err_set(&err, IPS_E_NOT_FOUND,
                    "run %s: no thread set ips_mark(\"begin %.80s\"): `ipsq "
                    "events %s` shows its marks",
                    q->run, *d->reported_name ? d->reported_name : "NAME",
                    q->run);
    query_fail(q, &err);
}

void requests_fetch_marked_spans(struct query *q,
                                 void (*after)(struct query *q))
{
    struct requests_data *d = requests_data_of(q);
    struct ips_err err = {0};
    uint32_t n = q->gather.count;
    requests_release_reported(d);
    struct reported_requests *t = d->reported = calloc(1, sizeof(*t));
    if (t)
        t->machine = calloc((size_t)n + 1, sizeof(*t->machine));
    if (!t || !t->machine) {
        ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
        query_fail(q, &err);
        return;
    }
    t->after = after;
    query_open_round(q, store_received_marked_spans,
                     check_and_finish_reported_requests);
    for (uint32_t i = 0; i < n; i++) {
        struct machine_share *p = q->gather.active[i];
        Ips__BracketsAsk ask = IPS__BRACKETS_ASK__INIT;
        Ips__Request request = IPS__REQUEST__INIT;
        ask.generation = p->sync->generation;
        ask.tasks = d->reported_by == REQUESTS_BY_TASK;
        ask.name = ips_unconst_text(d->reported_name);
        ask.window = ENGINE_WINDOW;
        request.ask_case = IPS__REQUEST__ASK_BRACKETS;
        request.brackets = &ask;
        query_send_request_to_slave(q, p, &request, true);
        p->window = ENGINE_WINDOW;
    }
    query_close_round(q);
}

/* ---- making requests of them, in the worker --------------------------- */

static int compare_rows_by_service_and_chain(const void *a, const void *b)
{
    const struct reported_row *x = a, *y = b;
    if (x->service != y->service)
        return x->service < y->service ? -1 : 1;
    return (x->chain > y->chain) - (x->chain < y->chain);
}

/* Adds to d->ends one entry for each thread of each service; it takes the place
 * of a connection's end. Fills told[] with the marked requests, each with the
 * entry of its thread. */
static int make_ends_and_marked_requests(struct query *q,
                                         struct ips_marked_request *told,
                                         struct ips_err *err)
{
    struct requests_data *d = requests_data_of(q);
    const struct ips_graph *g = &d->path.merged;
    struct reported_requests *t = d->reported;
    d->ends = calloc((size_t)t->count + 1, sizeof(*d->ends));
    d->end_process = calloc((size_t)t->count + 1, sizeof(*d->end_process));
    if (!d->ends || !d->end_process)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for requests");
    for (uint32_t i = 0; i < t->count; i++) {
        struct reported_row *r = &t->row[i];
        if (r->first >= g->node_count)
            return ips_err_set(err, IPS_E_CORRUPT, "a request of no thread");
        r->chain = ips_chain_of(g, r->first);
    }
    if (t->count)
        qsort(t->row, t->count, sizeof(*t->row),
              compare_rows_by_service_and_chain);
    for (uint32_t i = 0; i < t->count; i++) {
        const struct reported_row *r = &t->row[i];
        struct request_service *s = &d->service[r->service];
        uint32_t process = g->chains[r->chain].process;
        if (i == 0 || compare_rows_by_service_and_chain(r - 1, r) != 0) {
            bool other = d->end_count == 0 ||
                         d->ends[d->end_count - 1].service != r->service ||
                         d->end_process[d->end_count - 1] != process;
            if (s->connections++ == 0)
                s->process = process;
            s->processes += other;
            d->end_process[d->end_count] = process;
            d->ends[d->end_count] =
                (struct ips_served_end){s->machine, d->end_count, r->service};
            d->end_count++;
        }
        told[i] = (struct ips_marked_request){.end = d->end_count - 1,
                                              .begin = {r->first, r->first_ns},
                                              .finish = {r->last, r->last_ns}};
    }
    return 0;
}

int requests_compute_marked_requests(struct query *q,
                                     const struct ips_scenario *scenario,
                                     struct ips_err *err)
{
    struct requests_data *d = requests_data_of(q);
    uint32_t count = d->reported->count;
    struct ips_marked_request *told = calloc((size_t)count + 1, sizeof(*told));
    free(d->ends);
    free(d->end_process);
    d->ends = NULL;
    d->end_process = NULL;
    d->end_count = 0;
    int rc = told ? make_ends_and_marked_requests(q, told, err)
                  : ips_err_set(err, IPS_E_NO_MEMORY, "no memory for requests");
    if (rc == 0)
        rc = ips_requests_make_from_marks(&d->path.merged, scenario,
                                          &d->path.est, d->ends, d->end_count,
                                          told, count, &d->result, err);
    if (rc == 0)
        d->result.unanswered = d->reported->unended > UINT32_MAX
                                   ? UINT32_MAX
                                   : (uint32_t)d->reported->unended;
    free(told);
    return rc;
}

void requests_release_reported(struct requests_data *d)
{
    if (!d->reported)
        return;
    arena_release(&d->reported->a);
    free(d->reported->row);
    free(d->reported->machine);
    free(d->reported);
    d->reported = NULL;
}
