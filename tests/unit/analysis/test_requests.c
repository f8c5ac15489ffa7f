/* Requests found in graphs made by hand, and what must hold in any graph.
 * EVIDENCE-OF: IPS-13 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/explain/requests.h"
#include "tests/support/random_graph.h"

struct row {
    enum ips_node_kind kind;
    uint64_t w;
    enum ips_xkind xkind;
    uint32_t xpred, site; /* site: end + 1, 0 none */
    uint64_t xlen;
};

#define START IPS_NODE_START, 0, IPS_X_NONE, 0, 0, 0
#define SEND(w, end) IPS_NODE_SEND, w, IPS_X_NONE, 0, (end) + 1, 0
#define RECV(w, from, end) IPS_NODE_RECV, w, IPS_X_DATA, from, (end) + 1, 0
#define OUTSIDE(w, ns, end) IPS_NODE_RECV, w, IPS_X_EXTERNAL, 0, (end) + 1, ns
#define AFTER(w, from) IPS_NODE_RECV, w, IPS_X_DATA, from, 0, 0
#define STOP(w) IPS_NODE_END, w, IPS_X_NONE, 0, 0, 0
enum { NO_END = 98, MESSAGE_NS = 2 };

static struct ips_requests find(const struct row *row, uint32_t n,
                                const struct ips_served_end *ends,
                                uint32_t end_count)
{
    struct ips_scenario lane = {.message_time = {MESSAGE_NS, 0, 1, 1}};
    struct ips_requests out;
    struct ips_graph g;
    struct ips_est est;
    assert_int_equal(0, ips_graph_alloc(&g, n, n, NULL));
    g.chain_count = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (row[i].kind == IPS_NODE_START)
            g.chains[g.chain_count++].first = i;
        g.chains[g.chain_count - 1].count++;
        g.kind[i] = (uint8_t)row[i].kind;
        g.w[i] = row[i].w;
        g.xkind[i] = (uint8_t)row[i].xkind;
        g.xpred[i] = row[i].xkind == IPS_X_DATA       ? row[i].xpred
                     : row[i].xkind == IPS_X_EXTERNAL ? i - 1
                                                      : IPS_NO_NODE;
        g.xlen[i] = row[i].xlen;
        g.site[i] = row[i].site - 1;
    }
    assert_int_equal(0, ips_graph_check_invariants(&g, NULL));
    assert_int_equal(
        0, ips_longest_path_compute_ests(&g, &lane, NULL, &est, NULL));
    assert_int_equal(
        0, ips_requests_find(&g, &lane, &est, ends, end_count, &out, NULL));
    ips_est_release(&est);
    ips_graph_release(&g);
    return out;
}

static void same(const struct ips_request *r, const uint64_t *want)
{
    const uint64_t got[] = {r->arrived_ns, r->accepted_ns, r->finished_ns,
                            r->queued,     r->untaken,     r->own,
                            r->elsewhere,  r->message,     r->external};
    for (size_t i = 0; i < sizeof(got) / sizeof(*got); i++)
        assert_int_equal(got[i], want[i]);
    assert_int_equal(ips_request_ns(r), r->queued + r->untaken + r->own +
                                            r->elsewhere + r->message +
                                            r->external);
}

#define FIND(row, ends)                                                        \
    find(row, sizeof(row) / sizeof(*(row)), ends,                              \
         sizeof(ends) / sizeof(*(ends)))

static const struct ips_served_end two[] = {{0, 0, 0}, {0, 1, 0}};

/* Two clients, one server: the second asks at 6 and is heard at 17. Catches:
 * the time in the queue counted as the server's work for it, or from when it
 * was received instead of when it was there. */
static void queue(void **state)
{
    static const struct row row[] = {
        {START},         {SEND(5, NO_END)}, {AFTER(0, 9)},
        {STOP(0)},                                         /* 0 to 3 */
        {START},         {SEND(6, NO_END)}, {STOP(0)},     /* 4 to 6 */
        {START},         {RECV(0, 1, 0)},   {SEND(10, 0)}, /* 7 to 9 */
        {RECV(0, 5, 1)}, {SEND(10, 1)},     {STOP(0)},     /* 10 to 12 */
    };
    (void)state;
    struct ips_requests q = FIND(row, two);
    assert_int_equal(q.count, 2);
    same(&q.r[0], (uint64_t[]){7, 7, 17, 0, 0, 10, 0, 0, 0});
    same(&q.r[1], (uint64_t[]){8, 17, 27, 9, 0, 10, 0, 0, 0});
    assert_int_equal(q.r[1].behind, 0);
    assert_int_equal(q.r[1].behind_ns, 9);
    assert_int_equal(q.r[0].behind, IPS_NO_REQUEST);
    assert_int_equal(q.pipelined + q.unanswered + q.idle_ends, 0);
    ips_requests_release(&q);
    /* Of two services nobody queues behind the other's. */
    static const struct ips_served_end apart[] = {{0, 0, 0}, {0, 1, 1}};
    q = FIND(row, apart);
    same(&q.r[1], (uint64_t[]){8, 17, 27, 0, 9, 10, 0, 0, 0});
    ips_requests_release(&q);
    /* Nor is anything a request where nobody serves. */
    static const struct ips_served_end other[] = {{0, 7, 0}, {1, 0, 0}};
    q = FIND(row, other);
    assert_int_equal(q.count, 0);
    assert_int_equal(q.idle_ends, 2);
    ips_requests_release(&q);
}

/* Three read together, then answered together, as an event loop does. Catches:
 * time counted twice where requests are in work at once. */
static void in_a_batch(void **state)
{
    static const struct row row[] = {
        {START},      {SEND(1, NO_END)}, {SEND(0, NO_END)},
        {STOP(0)},                                        /* 0 to 3 */
        {START},      {RECV(9, 1, 0)},   {RECV(2, 2, 1)}, /* 4 to 6 */
        {SEND(4, 0)}, {SEND(1, 1)},      {STOP(0)},       /* 7 to 9 */
    };
    (void)state;
    struct ips_requests q = FIND(row, two);
    assert_int_equal(q.count, 2);
    same(&q.r[0], (uint64_t[]){3, 9, 15, 0, 6, 6, 0, 0, 0});
    same(&q.r[1], (uint64_t[]){3, 11, 16, 2, 6, 5, 0, 0, 0});
    ips_requests_release(&q);
}

/* Two that overlap are in work while a third of the service waits for the same
 * thread. Catches: time behind both counted twice, so that it queued for longer
 * than it waited. */
static void behind_two_at_once(void **state)
{
    static const struct row row[] = {
        {START},           {SEND(0, NO_END)}, {SEND(0, NO_END)},
        {SEND(1, NO_END)}, {STOP(0)},                          /* 0 to 4 */
        {START},           {RECV(2, 1, 0)},   {RECV(2, 2, 1)}, /* 5 to 7 */
        {SEND(10, 0)},     {SEND(10, 1)},     {RECV(1, 3, 2)}, /* 8 to 10 */
        {SEND(5, 2)},      {STOP(0)},                          /* 11 to 12 */
    };
    static const struct ips_served_end three[] = {
        {0, 0, 0}, {0, 1, 0}, {0, 2, 0}};
    (void)state;
    struct ips_requests q = FIND(row, three);
    assert_int_equal(q.count, 3);
    same(&q.r[2], (uint64_t[]){3, 25, 30, 21, 1, 5, 0, 0, 0});
    assert_int_equal(q.r[2].behind, 0);
    assert_int_equal(q.r[2].behind_ns, 11); /* in two arcs of its thread */
    ips_requests_release(&q);
}

/* The server asks a back end, which is a service of its own. Catches: the back
 * end's work taken for the server's, and messages lost. */
static void back_end(void **state)
{
    static const struct row row[] = {
        {START},        {SEND(5, NO_END)}, {STOP(0)},         /* 0 to 2 */
        {START},        {RECV(0, 1, 0)},   {SEND(3, NO_END)}, /* 3 to 5 */
        {AFTER(0, 10)}, {SEND(1, 0)},      {STOP(0)},         /* 6 to 8 */
        {START},        {SEND(20, 1)},     {STOP(0)},         /* 9 to 11 */
    };
    struct row own[sizeof(row) / sizeof(*row) + 1];
    (void)state;
    memcpy(own, row, sizeof(row));
    own[10] = (struct row){RECV(0, 5, 1)};
    own[11] = (struct row){SEND(20, 1)};
    own[12] = (struct row){STOP(0)};
    own[6] = (struct row){AFTER(0, 11)};
    static const struct ips_served_end ends[] = {{0, 0, 0}, {0, 1, 1}};
    struct ips_requests q = FIND(own, ends);
    assert_int_equal(q.count, 2);
    same(&q.r[0], (uint64_t[]){12, 12, 32, 0, 0, 20, 0, 0, 0});
    same(&q.r[1], (uint64_t[]){7, 7, 35, 0, 0, 4, 20, 4, 0});
    ips_requests_release(&q);
}

/* Catches: a greeting or the end of the records taken for a request; an answer
 * in two pieces, or a request in two, taken for two. */
static void turns(void **state)
{
    static const struct row row[] = {
        {START},           {SEND(5, NO_END)}, {SEND(1, NO_END)}, /* 0 to 2 */
        {AFTER(0, 9)},     {SEND(0, NO_END)}, {STOP(0)},         /* 3 to 5 */
        {START},           {SEND(1, 0)},      {RECV(0, 1, 0)},   /* 6 to 8 */
        {SEND(4, NO_END)},                                       /* 9 */
        {RECV(0, 2, 0)},   {SEND(1, 0)},      {SEND(2, 0)},      /* 10 to 12 */
        {RECV(0, 4, 0)},   {STOP(0)},                            /* 13 to 14 */
    };
    (void)state;
    static const struct ips_served_end ends[] = {{0, 0, 0}};
    struct ips_requests q = FIND(row, ends);
    assert_int_equal(q.count, 0); /* 4 is sent at 13, the answer was at 14 */
    assert_int_equal(q.pipelined, 1);
    ips_requests_release(&q);
    struct row later[sizeof(row) / sizeof(*row)];
    memcpy(later, row, sizeof(row));
    later[4].w = 1; /* at 14: the last answer is there */
    q = FIND(later, ends);
    assert_int_equal(q.count, 1);
    same(&q.r[0], (uint64_t[]){7, 7, 14, 0, 0, 7, 0, 0, 0});
    assert_int_equal(q.pipelined, 0);
    assert_int_equal(q.unanswered, 1);
    ips_requests_release(&q);
}

/* Catches: a wait for outside within a request counted as work; one before it
 * counted at all. */
static void outside(void **state)
{
    static const struct row row[] = {
        {START},      {OUTSIDE(1, 50, 0)}, {OUTSIDE(3, 7, NO_END)},
        {SEND(2, 0)}, {STOP(0)},
    };
    (void)state;
    static const struct ips_served_end ends[] = {{0, 0, 0}};
    struct ips_requests q = FIND(row, ends);
    assert_int_equal(q.count, 1);
    same(&q.r[0], (uint64_t[]){50, 50, 59, 0, 0, 2, 0, 0, 7});
    ips_requests_release(&q);
}

/* Which request of r's service `chain` is at; where several are in work, the
 * one that was taken first. IPS_NO_REQUEST: none. */
static uint32_t at_request(const struct ips_graph *g,
                           const struct ips_served_end *ends,
                           const struct ips_requests *q, uint32_t self,
                           uint32_t chain, uint64_t t)
{
    uint32_t best = IPS_NO_REQUEST;
    for (uint32_t i = 0; i < q->count; i++) {
        const struct ips_request *x = &q->r[i];
        bool mine = ips_chain_of(g, x->first) == chain ||
                    ips_chain_of(g, x->last) == chain;
        if (i != self && mine && x->accepted_ns <= t && t < x->finished_ns &&
            ends[x->end].service == ends[q->r[self].end].service &&
            (best == IPS_NO_REQUEST || x->accepted_ns < q->r[best].accepted_ns))
            best = i;
    }
    return best;
}

/* The next moment after `t` at which at_request() may have another answer. */
static uint64_t next_change(const struct ips_requests *q, uint64_t t,
                            uint64_t to)
{
    for (uint32_t i = 0; i < q->count; i++) {
        if (q->r[i].accepted_ns > t)
            to = ips_min_u64(to, q->r[i].accepted_ns);
        if (q->r[i].finished_ns > t)
            to = ips_min_u64(to, q->r[i].finished_ns);
    }
    return to;
}

/* Divides [from, to), when `chain` had it, into the parts of `sum`. */
static void divide(const struct ips_graph *g, const struct ips_served_end *ends,
                   const struct ips_requests *q, uint32_t self, uint32_t chain,
                   uint64_t from, uint64_t to, struct ips_request *sum,
                   uint64_t *behind)
{
    const struct ips_request *r = &q->r[self];
    bool own =
        ips_chain_of(g, r->first) == chain || ips_chain_of(g, r->last) == chain;
    for (uint64_t t = from, next; t < to; t = next) {
        next = next_change(q, t, to);
        uint32_t other = own && t >= r->accepted_ns
                             ? IPS_NO_REQUEST
                             : at_request(g, ends, q, self, chain, t);
        if (other != IPS_NO_REQUEST) {
            sum->queued += next - t;
            behind[other] += next - t;
            sum->behind_ns = ips_max_u64(sum->behind_ns, behind[other]);
        } else if (!own) {
            sum->elsewhere += next - t;
        } else if (t >= r->accepted_ns) {
            sum->own += next - t;
        } else {
            sum->untaken += next - t;
        }
    }
}

/* The parts of a request's time by their definitions, moment by moment. */
static void check_parts(const struct ips_graph *g, const struct ips_est *est,
                        const struct ips_served_end *ends,
                        const struct ips_requests *q, uint32_t self)
{
    const struct ips_request *r = &q->r[self];
    struct ips_request sum = {0};
    uint64_t *behind = calloc(q->count, sizeof(*behind));
    if (est->est[r->last] < r->finished_ns)
        divide(g, ends, q, self, ips_chain_of(g, r->last),
               ips_max_u64(est->est[r->last], r->arrived_ns), r->finished_ns,
               &sum, behind);
    for (uint32_t i = r->last;
         i != IPS_NO_NODE && est->est[i] > r->arrived_ns;) {
        uint32_t chain = ips_chain_of(g, i);
        uint32_t before = est->crossed[i]               ? g->xpred[i]
                          : i == g->chains[chain].first ? IPS_NO_NODE
                                                        : i - 1;
        uint64_t from = before == IPS_NO_NODE ? 0 : est->est[before];
        from = ips_max_u64(from, r->arrived_ns);
        if (!est->crossed[i])
            divide(g, ends, q, self, chain, from, est->est[i], &sum, behind);
        else if (g->xkind[i] == IPS_X_EXTERNAL || g->xkind[i] == IPS_X_IDLE)
            sum.external += est->est[i] - from;
        else
            sum.message += est->est[i] - from;
        i = before;
    }
    assert_int_equal(sum.queued, r->queued);
    assert_int_equal(sum.untaken, r->untaken);
    assert_int_equal(sum.own, r->own);
    assert_int_equal(sum.elsewhere, r->elsewhere);
    assert_int_equal(sum.message, r->message);
    assert_int_equal(sum.external, r->external);
    assert_int_equal(sum.behind_ns, r->behind_ns);
    if (r->behind != IPS_NO_REQUEST)
        assert_int_equal(behind[r->behind], r->behind_ns);
    free(behind);
}

/* The number of those that queued. */
static uint32_t check_sums(const struct ips_graph *g, const struct ips_est *est,
                           const struct ips_served_end *ends,
                           const struct ips_requests *q)
{
    uint32_t queued = 0;
    uint64_t *ns = calloc(g->chain_count, sizeof(*ns));
    for (uint32_t i = 0; i < q->count; i++) {
        const struct ips_request *x = &q->r[i];
        uint64_t in_chains = 0;
        assert_true(x->arrived_ns <= x->accepted_ns &&
                    x->accepted_ns <= x->finished_ns);
        assert_true(x->queued <= ips_request_ns(x));
        check_parts(g, est, ends, q, i);
        assert_int_equal(ips_request_ns(x), x->queued + x->untaken + x->own +
                                                x->elsewhere + x->message +
                                                x->external);
        assert_true((x->behind == IPS_NO_REQUEST) == (x->queued == 0));
        assert_true(x->behind_ns <= x->queued && x->behind != i);
        assert_true(!i || q->r[i - 1].finished_ns <= x->finished_ns);
        memset(ns, 0, g->chain_count * sizeof(*ns));
        ips_request_add_ns_by_chain(g, est, x, ns);
        for (uint32_t c = 0; c < g->chain_count; c++)
            in_chains += ns[c];
        assert_int_equal(in_chains,
                         x->queued + x->untaken + x->own + x->elsewhere);
        queued += x->queued > 0;
    }
    free(ns);
    return queued;
}

/* In every chain a request from a moment in its first half to one in its
 * second. Catches: a moment between nodes told as a node, a last piece that is
 * left out or told twice. */
static void check_told(const struct ips_graph *g,
                       const struct ips_scenario *lane,
                       const struct ips_est *est)
{
    struct ips_marked_request *told = calloc(g->chain_count, sizeof(*told));
    struct ips_served_end *ends = calloc(g->chain_count, sizeof(*ends));
    struct ips_requests q;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t first = g->chains[c].first, n = g->chains[c].count;
        told[c] = (struct ips_marked_request){
            c, {first + n / 4, c}, {first + n / 2 + n / 4, 3 * c}};
        ends[c] = (struct ips_served_end){g->chains[c].machine, c, c % 2};
    }
    assert_int_equal(0, ips_requests_make_from_marks(g, lane, est, ends,
                                                     g->chain_count, told,
                                                     g->chain_count, &q, NULL));
    assert_int_equal(q.count, g->chain_count);
    for (uint32_t i = 0; i < q.count; i++) {
        const struct ips_marked_request *t = &told[q.r[i].end];
        uint64_t begin = est->est[t->begin.node];
        assert_true(q.r[i].arrived_ns >= begin);
        assert_true(q.r[i].arrived_ns - begin <= t->begin.ns);
        assert_true(q.r[i].finished_ns >= est->est[t->finish.node]);
    }
    (void)check_sums(g, est, ends, &q);
    ips_requests_release(&q);
    if (g->chain_count > 1) {
        told[0].finish.node = g->chains[1].first;
        assert_int_equal(IPS_E_CORRUPT, ips_requests_make_from_marks(
                                            g, lane, est, ends, g->chain_count,
                                            told, 1, &q, NULL));
    }
    free(told);
    free(ends);
}

/* Any graph, any ends: the parts add up, what is in threads is what is told of
 * them, requests are in order and do not begin before they arrive. */
static void parts_add_up(void **state)
{
    uint64_t found = 0, queued = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct rg_options o = rg_options_of(seed);
        struct ips_scenario lane = {.message_time = {seed % 5, 0, 1, 1}};
        struct ips_served_end ends[RG_MACHINES * 4];
        struct ips_requests q;
        struct ips_est est;
        struct rg r;
        uint64_t random = seed;
        rg_make(&o, &r);
        struct ips_graph *g = &r.whole;
        for (uint32_t i = 0; i < g->node_count; i++)
            g->site[i] = rg_below(&random, 5);
        for (uint32_t i = 0; i < RG_MACHINES * 4; i++)
            ends[i] = (struct ips_served_end){i / 4, i % 4, i % 3};
        assert_int_equal(
            0, ips_longest_path_compute_ests(g, &lane, NULL, &est, NULL));
        assert_int_equal(0, ips_requests_find(g, &lane, &est, ends,
                                              RG_MACHINES * 4, &q, NULL));
        queued += check_sums(g, &est, ends, &q);
        check_told(g, &lane, &est);
        found += q.count;
        ips_requests_release(&q);
        ips_est_release(&est);
        rg_release(&r);
    }
    assert_true(found > 1000 && queued > 100); /* else nothing was shown */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queue),
        cmocka_unit_test(in_a_batch),
        cmocka_unit_test(behind_two_at_once),
        cmocka_unit_test(back_end),
        cmocka_unit_test(turns),
        cmocka_unit_test(outside),
        cmocka_unit_test(parts_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
