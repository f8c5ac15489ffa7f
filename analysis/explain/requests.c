#include "analysis/explain/requests.h"

#include <stdlib.h>
#include <string.h>

/* A send or receive on a connection end that a service accepted. */
struct end_event {
    uint32_t end, node;
    uint64_t at;
    bool send;
};

/* A period in which a thread worked on a request of a service. */
struct working_period {
    uint32_t chain, service, request;
    uint64_t from, to;
    uint64_t last_to; /* greatest `to` of the chain's periods up to and
                         including this one */
};

/* How long request `of` was queued behind one other request. Entries are valid
 * only while `of` is the current request. */
struct queued_behind {
    uint32_t of;
    uint64_t ns;
};

struct finding {
    const struct ips_graph *g;
    const struct ips_scenario *scenario;
    const struct ips_est *est;
    const struct ips_served_end *ends;
    uint32_t end_count;
    struct end_event *touch;
    uint64_t touches;
    struct working_period *period; /* sorted by chain, then by `from` */
    uint64_t period_count;
    uint64_t *first_period; /* [chain_count + 1] first period of each chain */
    struct queued_behind
        *behind; /* [out->count], indexed by the request in front */
    struct ips_requests *out;
    uint32_t capacity;
    struct ips_err *err;
};

static int no_memory(struct finding *f)
{
    return ips_err_set(f->err, IPS_E_NO_MEMORY, "no memory for requests");
}

/* ---- sends and receives -------------------------------------------------- */

static uint32_t find_index_of_served_end(const struct finding *f,
                                         uint32_t machine, uint32_t end)
{
    uint32_t low = 0, high = f->end_count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        const struct ips_served_end *e = &f->ends[mid];
        if (e->machine < machine || (e->machine == machine && e->end < end))
            low = mid + 1;
        else
            high = mid;
    }
    bool found = low < f->end_count && f->ends[low].machine == machine &&
                 f->ends[low].end == end;
    return found ? low : UINT32_MAX;
}

static int compare_events_by_channel_end(const void *a, const void *b)
{
    const struct end_event *x = a, *y = b;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

/* Whether the node received bytes. An end of file brings no bytes. */
static bool is_receive(const struct ips_graph *g, uint32_t i)
{
    return g->kind[i] == IPS_NODE_RECV && g->xkind[i] != IPS_X_LIFETIME;
}

static int collect_and_sort_events_of_served_ends(struct finding *f)
{
    const struct ips_graph *g = f->g;
    uint64_t room = 0;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const struct ips_chain *chain = &g->chains[c];
        for (uint32_t i = chain->first; i < chain->first + chain->count; i++) {
            bool send = g->kind[i] == IPS_NODE_SEND;
            if (g->site[i] == UINT32_MAX || (!send && !is_receive(g, i)))
                continue;
            uint32_t end =
                find_index_of_served_end(f, chain->machine, g->site[i]);
            if (end == UINT32_MAX)
                continue;
            if (f->touches == room) {
                room = room * 2 + 1024;
                struct end_event *more =
                    realloc(f->touch, room * sizeof(*more));
                if (!more)
                    return no_memory(f);
                f->touch = more;
            }
            f->touch[f->touches++] =
                (struct end_event){end, i, f->est->est[i], send};
        }
    }
    if (f->touches)
        qsort(f->touch, f->touches, sizeof(*f->touch),
              compare_events_by_channel_end);
    return 0;
}

/* ---- turns of a connection ---------------------------------------------- */

/* Returns when the data that node i received had arrived. */
static uint64_t arrival_time_of_receive(const struct finding *f, uint32_t i)
{
    const struct ips_graph *g = f->g;
    uint64_t at = f->est->est[i];
    if (g->xkind[i] != IPS_X_DATA || g->xpred[i] == IPS_NO_NODE)
        return at;
    uint64_t sent = f->est->est[g->xpred[i]];
    return ips_min_u64(
        at, ips_add_sat(sent, ips_message_time_compute_message_ns(
                                  &f->scenario->message_time, g->xlen[i])));
}

static int add_request(struct finding *f, uint32_t end, uint32_t first,
                       uint32_t last)
{
    struct ips_requests *out = f->out;
    if (out->count == f->capacity) {
        f->capacity = f->capacity * 2 + 256;
        struct ips_request *more = realloc(out->r, f->capacity * sizeof(*more));
        if (!more)
            return no_memory(f);
        out->r = more;
    }
    out->r[out->count++] =
        (struct ips_request){.end = end,
                             .first = first,
                             .last = last,
                             .arrived_ns = arrival_time_of_receive(f, first),
                             .accepted_ns = f->est->est[first],
                             .finished_ns = f->est->est[last],
                             .behind = IPS_NO_REQUEST};
    return 0;
}

/* Adds the turns of one channel end as requests; `t` has the sends and
 * receives of the end in order of time. A pipelined end gets no requests and
 * is counted. */
static int add_requests_of_end(struct finding *f, const struct end_event *t,
                               uint64_t count)
{
    uint32_t before = f->out->count, first = UINT32_MAX, last = UINT32_MAX;
    for (uint64_t i = 0; i < count; i++) {
        if (t[i].send) {
            if (first != UINT32_MAX)
                last = t[i].node;
            continue;
        }
        if (last != UINT32_MAX) {
            int rc = add_request(f, t->end, first, last);
            if (rc < 0)
                return rc;
            first = last = UINT32_MAX;
            /* If this message was sent before the previous request was
             * answered, the connection is pipelined. */
            uint32_t from = f->g->xpred[t[i].node];
            if (from != IPS_NO_NODE && f->g->xkind[t[i].node] == IPS_X_DATA &&
                f->est->est[from] < f->out->r[f->out->count - 1].finished_ns) {
                f->out->count = before;
                f->out->pipelined++;
                f->out->pipelined_end[t->end] = true;
                return 0;
            }
        }
        if (first == UINT32_MAX)
            first = t[i].node;
    }
    if (last != UINT32_MAX)
        return add_request(f, t->end, first, last);
    f->out->unanswered += first != UINT32_MAX;
    f->out->idle_ends += f->out->count == before && first == UINT32_MAX;
    return 0;
}

static int by_finish(const void *a, const void *b)
{
    const struct ips_request *x = a, *y = b;
    if (x->finished_ns != y->finished_ns)
        return x->finished_ns < y->finished_ns ? -1 : 1;
    return (x->last > y->last) - (x->last < y->last);
}

static int find_requests(struct finding *f)
{
    uint32_t used = 0;
    for (uint64_t i = 0, n; i < f->touches; i += n) {
        n = 1;
        while (i + n < f->touches && f->touch[i + n].end == f->touch[i].end)
            n++;
        int rc = add_requests_of_end(f, &f->touch[i], n);
        if (rc < 0)
            return rc;
        used++;
    }
    f->out->idle_ends += f->end_count - used;
    if (f->out->count)
        qsort(f->out->r, f->out->count, sizeof(*f->out->r), by_finish);
    return 0;
}

/* ---- which thread works on which request -------------------------------- */

static int by_chain(const void *a, const void *b)
{
    const struct working_period *x = a, *y = b;
    if (x->chain != y->chain)
        return x->chain < y->chain ? -1 : 1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->request > y->request) - (x->request < y->request);
}

/* The thread that received a request works on it until the answer. If another
 * thread answers, that thread works on the request too. For simplicity both get
 * a period over the whole time from receive to answer. */
static int make_working_periods(struct finding *f)
{
    struct ips_requests *out = f->out;
    uint32_t chains = f->g->chain_count;
    f->period = malloc(((size_t)out->count * 2 + 1) * sizeof(*f->period));
    f->behind = malloc(((size_t)out->count + 1) * sizeof(*f->behind));
    f->first_period = calloc((size_t)chains + 1, sizeof(*f->first_period));
    if (!f->period || !f->first_period || !f->behind)
        return no_memory(f);
    memset(f->behind, 0xff, ((size_t)out->count + 1) * sizeof(*f->behind));
    for (uint32_t i = 0; i < out->count; i++) {
        const struct ips_request *r = &out->r[i];
        uint32_t one = ips_chain_of(f->g, r->first);
        uint32_t other = ips_chain_of(f->g, r->last);
        struct working_period s = {.chain = one,
                                   .service = f->ends[r->end].service,
                                   .request = i,
                                   .from = r->accepted_ns,
                                   .to = r->finished_ns};
        f->period[f->period_count++] = s;
        s.chain = other;
        if (other != one)
            f->period[f->period_count++] = s;
    }
    if (f->period_count)
        qsort(f->period, f->period_count, sizeof(*f->period), by_chain);
    for (uint64_t i = 0; i < f->period_count; i++) {
        struct working_period *s = &f->period[i];
        s->last_to = s->to;
        if (i && s[-1].chain == s->chain)
            s->last_to = ips_max_u64(s->to, s[-1].last_to);
        f->first_period[s->chain + 1] = i + 1;
    }
    for (uint32_t c = 0; c < chains; c++)
        f->first_period[c + 1] =
            ips_max_u64(f->first_period[c + 1], f->first_period[c]);
    return 0;
}

static void add_time_queued_behind_request(const struct finding *f,
                                           struct ips_request *r,
                                           uint32_t front, uint64_t ns)
{
    struct queued_behind *b = &f->behind[front];
    uint32_t self = (uint32_t)(r - f->out->r);
    if (b->of != self)
        *b = (struct queued_behind){.of = self};
    b->ns += ns;
    if (b->ns > r->behind_ns) {
        r->behind_ns = b->ns;
        r->behind = front;
    }
}

/* Returns how many ns of [from, to) `chain` worked on other requests of r's
 * service. Where several requests overlap, the one that began first gets the
 * time. Also records in f->behind how long `r` was queued behind each of
 * them. */
static uint64_t sum_ns_on_others_and_record_queueing(const struct finding *f,
                                                     struct ips_request *r,
                                                     uint32_t chain,
                                                     uint64_t from, uint64_t to)
{
    uint64_t low = f->first_period[chain], high = f->first_period[chain + 1],
             sum = 0;
    uint64_t end = high;
    uint32_t self = (uint32_t)(r - f->out->r);
    /* binary search for the first period that ends after `from` */
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;
        if (f->period[mid].last_to <= from)
            low = mid + 1;
        else
            high = mid;
    }
    for (uint64_t i = low; i < end && f->period[i].from < to; i++) {
        const struct working_period *s = &f->period[i];
        uint64_t a = ips_max_u64(s->from, from), b = ips_min_u64(s->to, to);
        if (s->request == self || a >= b ||
            s->service != f->ends[r->end].service)
            continue;
        sum += b - a;
        from = b;
        add_time_queued_behind_request(f, r, s->request, b - a);
    }
    return sum;
}

/* ---- a request's path --------------------------------------------------- */

/* A step of the walk back from a request's end. The part before the request's
 * arrival is cut off. */
struct step {
    uint32_t node, chain; /* the step ends at this node */
    uint64_t from, to;
    bool crossed;
};

/* Sets *s to the step over one arc back from *node. *node becomes the node
 * before the arc, or IPS_NO_NODE after the step before a chain's first node.
 * False: the arrival is reached. */
static bool step_back_along_request(const struct ips_graph *g,
                                    const struct ips_est *est,
                                    const struct ips_request *r, uint32_t *node,
                                    struct step *s)
{
    uint32_t i = *node;
    if (i == IPS_NO_NODE || est->est[i] <= r->arrived_ns)
        return false;
    *s = (struct step){.node = i,
                       .chain = ips_chain_of(g, i),
                       .to = est->est[i],
                       .crossed = est->crossed[i]};
    if (s->crossed)
        *node = g->xpred[i];
    else
        *node = i == g->chains[s->chain].first ? IPS_NO_NODE : i - 1;
    uint64_t from = *node == IPS_NO_NODE ? 0 : est->est[*node];
    s->from = ips_max_u64(from, r->arrived_ns);
    return true;
}

/* Adds the time of a step to the parts of r's time: for the request's own
 * thread (`own`) to own, queued and untaken, for another thread to queued
 * and elsewhere. */
static void add_step_to_request_time(struct finding *f, struct ips_request *r,
                                     const struct step *s, bool own)
{
    uint64_t from = s->from, to = s->to;
    if (own && to > r->accepted_ns) {
        r->own += to - ips_max_u64(from, r->accepted_ns);
        to = ips_max_u64(from, r->accepted_ns);
    }
    uint64_t queued =
        sum_ns_on_others_and_record_queueing(f, r, s->chain, from, to);
    r->queued += queued;
    *(own ? &r->untaken : &r->elsewhere) += to - from - queued;
}

/* Sets *s to the step from the request's last node to the end of the request.
 * Returns false if the request ends at that node. The end is later than the
 * node only if the program marked it. */
static bool get_step_after_last_node_if_any(const struct ips_graph *g,
                                            const struct ips_est *est,
                                            const struct ips_request *r,
                                            struct step *s)
{
    if (est->est[r->last] >= r->finished_ns)
        return false;
    *s = (struct step){.node = r->last,
                       .chain = ips_chain_of(g, r->last),
                       .from = ips_max_u64(est->est[r->last], r->arrived_ns),
                       .to = r->finished_ns};
    return true;
}

static void split_request_time_into_categories(struct finding *f,
                                               struct ips_request *r)
{
    uint32_t one = ips_chain_of(f->g, r->first);
    uint32_t other = ips_chain_of(f->g, r->last), node = r->last;
    struct step s;
    if (get_step_after_last_node_if_any(f->g, f->est, r, &s))
        add_step_to_request_time(f, r, &s, true);
    while (step_back_along_request(f->g, f->est, r, &node, &s)) {
        uint8_t x = f->g->xkind[s.node];
        if (s.crossed && (x == IPS_X_EXTERNAL || x == IPS_X_IDLE))
            r->external += s.to - s.from;
        else if (s.crossed)
            r->message += s.to - s.from;
        else
            add_step_to_request_time(f, r, &s,
                                     s.chain == one || s.chain == other);
    }
}

static void report_step(const struct ips_graph *g, const struct ips_est *est,
                        const struct step *s, uint32_t arc,
                        void (*to)(void *arg, const struct ips_request_step *s),
                        void *arg)
{
    uint32_t before = s->crossed ? g->xpred[arc] : arc - 1;
    const struct ips_request_step out = {
        .chain = s->chain,
        .arc = arc,
        .from = s->from,
        .to = s->to,
        .whole = ips_sub_sat(est->est[arc], est->est[before]),
        .crossed = s->crossed};
    if (s->to > s->from)
        to(arg, &out);
}

void ips_request_report_steps_backwards(
    const struct ips_graph *g, const struct ips_est *est,
    const struct ips_request *r,
    void (*to)(void *arg, const struct ips_request_step *s), void *arg)
{
    uint32_t node = r->last;
    struct step s;
    if (get_step_after_last_node_if_any(g, est, r, &s))
        report_step(g, est, &s, r->last + 1, to, arg);
    while (step_back_along_request(g, est, r, &node, &s)) {
        if (s.crossed || s.node != g->chains[s.chain].first)
            report_step(g, est, &s, s.node, to, arg);
    }
}

void ips_request_add_ns_by_chain(const struct ips_graph *g,
                                 const struct ips_est *est,
                                 const struct ips_request *r, uint64_t *ns)
{
    uint32_t node = r->last;
    struct step s;
    if (get_step_after_last_node_if_any(g, est, r, &s))
        ns[s.chain] += s.to - s.from;
    while (step_back_along_request(g, est, r, &node, &s)) {
        if (!s.crossed)
            ns[s.chain] += s.to - s.from;
    }
}

/* The last steps of ips_requests_find() and ips_requests_make_from_marks():
 * accounts for the time of every request, and frees the scratch arrays. If `rc`
 * is an error, or one occurs, releases f->out. Returns 0 or the error. */
static int account_requests_and_free_scratch(struct finding *f, int rc)
{
    struct ips_requests *out = f->out;
    if (rc == 0)
        rc = make_working_periods(f);
    for (uint32_t i = 0; rc == 0 && i < out->count; i++)
        split_request_time_into_categories(f, &out->r[i]);
    free(f->period);
    free(f->first_period);
    free(f->behind);
    if (rc < 0)
        ips_requests_release(out);
    return rc;
}

int ips_requests_find(const struct ips_graph *g,
                      const struct ips_scenario *scenario,
                      const struct ips_est *est,
                      const struct ips_served_end *ends, uint32_t end_count,
                      struct ips_requests *out, struct ips_err *err)
{
    struct finding f = {.g = g,
                        .scenario = scenario,
                        .est = est,
                        .ends = ends,
                        .end_count = end_count,
                        .out = out,
                        .err = err};
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 1; i < end_count; i++) {
        if (ends[i - 1].machine > ends[i].machine ||
            (ends[i - 1].machine == ends[i].machine &&
             ends[i - 1].end >= ends[i].end))
            return ips_err_set(err, IPS_E_USAGE, "served ends not in order");
    }
    out->pipelined_end = calloc((size_t)end_count + 1, 1);
    if (!out->pipelined_end)
        return no_memory(&f);
    int rc = collect_and_sort_events_of_served_ends(&f);
    if (rc == 0)
        rc = find_requests(&f);
    free(f.touch);
    return account_requests_and_free_scratch(&f, rc);
}

static uint64_t est_of_moment_ns(const struct ips_graph *g,
                                 const struct ips_est *est, uint32_t chain,
                                 const struct ips_moment *m)
{
    const struct ips_chain *c = &g->chains[chain];
    uint64_t at = est->est[m->node];
    if (m->node + 1 == c->first + c->count)
        return at;
    return ips_min_u64(ips_add_sat(at, m->ns),
                       ips_max_u64(at, est->est[m->node + 1]));
}

static int add_marked_request(struct finding *f,
                              const struct ips_marked_request *t)
{
    const struct ips_graph *g = f->g;
    bool there = t->begin.node < g->node_count &&
                 t->finish.node < g->node_count && t->end < f->end_count;
    uint32_t chain = there ? ips_chain_of(g, t->begin.node) : 0;
    if (!there || t->finish.node < t->begin.node ||
        ips_chain_of(g, t->finish.node) != chain)
        return ips_err_set(f->err, IPS_E_CORRUPT,
                           "a request that ends in another thread");
    int rc = add_request(f, t->end, t->begin.node, t->finish.node);
    if (rc < 0)
        return rc;
    struct ips_request *r = &f->out->r[f->out->count - 1];
    r->arrived_ns = r->accepted_ns =
        est_of_moment_ns(g, f->est, chain, &t->begin);
    r->finished_ns = ips_max_u64(
        r->arrived_ns, est_of_moment_ns(g, f->est, chain, &t->finish));
    return 0;
}

int ips_requests_make_from_marks(
    const struct ips_graph *g, const struct ips_scenario *scenario,
    const struct ips_est *est, const struct ips_served_end *ends,
    uint32_t end_count, const struct ips_marked_request *told, uint32_t count,
    struct ips_requests *out, struct ips_err *err)
{
    struct finding f = {.g = g,
                        .scenario = scenario,
                        .est = est,
                        .ends = ends,
                        .end_count = end_count,
                        .out = out,
                        .err = err};
    memset(out, 0, sizeof(*out));
    out->pipelined_end = calloc((size_t)end_count + 1, 1);
    int rc = out->pipelined_end ? 0 : no_memory(&f);
    for (uint32_t i = 0; rc == 0 && i < count; i++)
        rc = add_marked_request(&f, &told[i]);
    if (rc == 0 && out->count)
        qsort(out->r, out->count, sizeof(*out->r), by_finish);
    return account_requests_and_free_scratch(&f, rc);
}

void ips_requests_release(struct ips_requests *r)
{
    free(r->r);
    free(r->pipelined_end);
    memset(r, 0, sizeof(*r));
}
