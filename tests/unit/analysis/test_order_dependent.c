/* Where behaviour depends on order: each pattern by hand, beside a program of
 * the same look whose order was forced; programs without any; and what had to
 * be before what against a full closure of random graphs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/explain/order_dependent.h"
#include "analysis/graph/path.h"
#include "tests/support/random_graph.h"

/* ---- programs by hand -----------------------------------------------------
 * Steps in the order of their times: each makes one node of a chain.
 */

#define CHAINS 6u
#define STEPS 64u
#define SITE(n) (100u + (n))

struct step {
    uint32_t chain;
    uint8_t kind, xkind;
    int from; /* step, -1 none */
    uint32_t site;
    uint64_t xlen;
};
struct program {
    struct step step[STEPS];
    int count;
    uint32_t process[CHAINS]; /* 0: a process of its own */
    uint64_t choices[CHAINS], empty[CHAINS];
    bool polls_unknown;
    uint64_t steps;
};

static int put(struct program *p, struct step s)
{
    p->step[p->count] = s;
    return p->count++;
}
static int start(struct program *p, uint32_t chain, int fork)
{
    return put(p, (struct step){.chain = chain,
                                .kind = IPS_NODE_START,
                                .xkind = fork < 0 ? IPS_X_NONE : IPS_X_LIFETIME,
                                .from = fork});
}
static int node(struct program *p, uint32_t chain, enum ips_node_kind kind)
{
    return put(p, (struct step){.chain = chain, .kind = kind, .from = -1});
}
static int send(struct program *p, uint32_t chain)
{
    return node(p, chain, IPS_NODE_SEND);
}
static int take(struct program *p, uint32_t chain, int from, uint32_t site)
{
    return put(p, (struct step){chain, IPS_NODE_RECV, IPS_X_DATA, from,
                                SITE(site), 8});
}
static int accept_of(struct program *p, uint32_t chain, int from, uint32_t site)
{
    return put(p, (struct step){chain, IPS_NODE_RECV, IPS_X_DATA, from,
                                SITE(site), 0});
}
static int cross(struct program *p, uint32_t chain, uint8_t kind, uint8_t xkind,
                 int from, uint64_t xlen)
{
    return put(p, (struct step){chain, kind, xkind, from, UINT32_MAX, xlen});
}

/* Every chain begins and ends; their ENDs last where they have none. */
static void make(const struct program *p, struct ips_graph *g)
{
    uint32_t count[CHAINS] = {0}, chains = 0, at = 0, place[STEPS];
    for (int i = 0; i < p->count; i++) {
        count[p->step[i].chain]++;
        if (p->step[i].chain >= chains)
            chains = p->step[i].chain + 1;
    }
    assert_int_equal(
        0, ips_graph_alloc(g, (uint32_t)p->count + chains, chains, NULL));
    for (uint32_t c = 0; c < chains; c++) {
        g->chains[c] = (struct ips_chain){
            .first = at,
            .count = count[c] + 1,
            .process = p->process[c] ? p->process[c] : 100 + c};
        for (int i = 0; i < p->count; i++)
            if (p->step[i].chain == c)
                place[i] = at++;
        at++;
    }
    for (int i = 0; i < p->count; i++) {
        const struct step *s = &p->step[i];
        uint32_t n = place[i];
        g->kind[n] = s->kind;
        g->xkind[n] = s->xkind;
        g->xpred[n] = s->from < 0 ? IPS_NO_NODE : place[s->from];
        g->xlen[n] = s->xlen;
        g->site[n] = s->site ? s->site : UINT32_MAX;
        g->t_ns[n] = (uint64_t)i + 1;
    }
    for (uint32_t c = 0; c < chains; c++) {
        uint32_t end = g->chains[c].first + count[c];
        if (g->kind[end - 1] == IPS_NODE_END) { /* ended by the program */
            g->kind[end - 1] = IPS_NODE_AUX;
            for (uint32_t i = 0; i < g->node_count; i++)
                if (g->xpred[i] == end - 1)
                    g->xpred[i] = end;
            g->t_ns[end] = g->t_ns[end - 1];
        } else {
            g->t_ns[end] = STEPS + c;
        }
        g->kind[end] = IPS_NODE_END;
    }
    assert_int_equal(0, ips_graph_check_invariants(g, NULL));
}

static struct ips_order_dependence look(const struct program *p)
{
    struct ips_graph g;
    struct ips_order_dependence o;
    make(p, &g);
    struct ips_order_ask ask = {.g = &g,
                                .choices = p->polls_unknown ? NULL : p->choices,
                                .empty = p->polls_unknown ? NULL : p->empty,
                                .steps = p->steps ? p->steps : 1u << 20};
    assert_int_equal(0, ips_find_order_dependence(&ask, &o, NULL));
    ips_graph_release(&g);
    return o;
}

/* Exactly `count` nodes of one pattern, and nothing else; 0: nothing at all. */
static void holds(const char *what, const struct program *p,
                  enum ips_order_pattern pattern, uint64_t count,
                  uint32_t chains)
{
    struct ips_order_dependence o = look(p);
    for (int k = 0; k < IPS_ORDER_PATTERN_COUNT; k++) {
        uint64_t wanted = k == (int)pattern ? count : 0;
        if (o.count[k] != wanted ||
            o.chains[k] != (k == (int)pattern ? chains : 0))
            fail_msg("%s: %llu %s of %u threads, by hand %llu", what,
                     (unsigned long long)o.count[k],
                     ips_order_pattern_name((enum ips_order_pattern)k),
                     o.chains[k], (unsigned long long)wanted);
    }
    assert_int_equal(pattern == IPS_ORDER_EMPTY ? 0 : count, o.marked);
    assert_int_equal(0, o.unchecked);
    assert_int_equal(!p->polls_unknown, o.sources_known);
    ips_order_dependence_release(&o);
}
static void nothing(const char *what, const struct program *p)
{
    holds(what, p, IPS_ORDER_READERS, 0, 0);
}

static void begin(struct program *p, uint32_t chains)
{
    memset(p, 0, sizeof(*p));
    for (uint32_t c = 0; c < chains; c++) {
        start(p, c, -1);
        p->choices[c] = 3; /* as if all polled: that alone is nothing */
    }
}

/* EVIDENCE-OF: DPM-14: programs whose order is forced are not marked: a ring, a
 * pipeline, a request loop through a proxy, although all of them poll. Would
 * catch a pattern that sees only who sent, not what had to be first. */
static void test_order__forced(void **state)
{
    struct program p;
    (void)state;
    begin(&p, 4);
    int token = send(&p, 0);
    for (uint32_t k = 1; k <= 8; k++) {
        take(&p, k % 4, token, k % 4);
        token = send(&p, k % 4);
    }
    nothing("ring", &p);
    begin(&p, 3);
    for (int k = 0; k < 3; k++) {
        int a = send(&p, 0);
        take(&p, 1, a, 1);
        int b = send(&p, 1);
        take(&p, 2, b, 2);
    }
    nothing("pipeline", &p);
    begin(&p, 3);
    for (int k = 0; k < 3; k++) {
        int ask = send(&p, 0);
        take(&p, 1, ask, 1);
        int on = send(&p, 1);
        take(&p, 2, on, 3);
        int back = send(&p, 2);
        take(&p, 1, back, 2);
        int answer = send(&p, 1);
        take(&p, 0, answer, 4);
    }
    nothing("request loop", &p);
}

/* Two clients that know nothing of each other at a server that polls: each of
 * its turns from one to the other could have been the other way about. The same
 * receives by one that does not poll are a fixed order, and where nobody knows
 * of polls nothing is claimed. */
static void test_order__sources(void **state)
{
    struct program p;
    (void)state;
    begin(&p, 3);
    int a = send(&p, 0), b = send(&p, 1), c = send(&p, 0), d = send(&p, 0);
    take(&p, 2, a, 1);
    take(&p, 2, b, 2);
    take(&p, 2, c, 1);
    take(&p, 2, d, 1);
    holds("server", &p, IPS_ORDER_SOURCES, 2, 1);
    p.choices[2] = 0;
    nothing("fixed order", &p);
    p.polls_unknown = true;
    nothing("polls unknown", &p);
    begin(&p, 3); /* B asks only when A is answered */
    a = send(&p, 0);
    take(&p, 2, a, 1);
    int answer = send(&p, 2);
    take(&p, 0, answer, 3);
    int go = send(&p, 0);
    take(&p, 1, go, 4);
    b = send(&p, 1);
    take(&p, 2, b, 2);
    nothing("one after the other", &p);
}

/* Who of two takes a job from a queue is order, though a lock says who may; not
 * so where the one is told to by the other. Two writers alike. */
static void test_order__queues(void **state)
{
    struct program p;
    (void)state;
    begin(&p, 3);
    int a = send(&p, 0), b = send(&p, 0), c = send(&p, 0);
    take(&p, 1, a, 1);
    take(&p, 2, b, 1);
    take(&p, 1, c, 1);
    holds("work queue", &p, IPS_ORDER_READERS, 2, 2);
    begin(&p, 3);
    a = send(&p, 0);
    b = send(&p, 0);
    take(&p, 1, a, 1);
    int let_go = node(&p, 1, IPS_NODE_AUX);
    cross(&p, 2, IPS_NODE_AUX, IPS_X_RESOURCE, let_go, IPS_THING_LOCK);
    take(&p, 2, b, 1);
    struct ips_order_dependence o = look(&p);
    assert_int_equal(1, o.count[IPS_ORDER_READERS]);
    assert_int_equal(1, o.count[IPS_ORDER_RESOURCES]);
    assert_int_equal(2, o.marked);
    assert_int_equal(3, o.arcs);
    ips_order_dependence_release(&o);
    begin(&p, 3);
    a = send(&p, 0);
    b = send(&p, 0);
    take(&p, 1, a, 1);
    int told = send(&p, 1);
    take(&p, 2, told, 2);
    take(&p, 2, b, 1);
    p.choices[2] = 0; /* it would be free to take the job first */
    nothing("told to", &p);
    begin(&p, 3);
    a = send(&p, 0);
    b = send(&p, 1);
    take(&p, 2, a, 1);
    take(&p, 2, b, 1);
    holds("two writers", &p, IPS_ORDER_WRITERS, 1, 3);
    begin(&p, 3);
    a = send(&p, 0);
    told = send(&p, 0);
    take(&p, 1, told, 2);
    b = send(&p, 1);
    take(&p, 2, a, 1);
    take(&p, 2, b, 1);
    nothing("writers in turn", &p);
}

/* Connections of two clients come in any order; not where the second client
 * connects because the first was served. */
static void test_order__accepts(void **state)
{
    struct program p;
    (void)state;
    begin(&p, 3);
    int a = send(&p, 0), b = send(&p, 1);
    accept_of(&p, 2, a, 1);
    accept_of(&p, 2, b, 2);
    holds("two clients", &p, IPS_ORDER_ACCEPTS, 1, 1);
    begin(&p, 3);
    a = send(&p, 0);
    accept_of(&p, 2, a, 1);
    int answer = send(&p, 2);
    take(&p, 1, answer, 3);
    b = send(&p, 1);
    accept_of(&p, 2, b, 2);
    nothing("served first", &p);
    begin(&p, 4); /* two servers with a client each: no order at all */
    a = send(&p, 0);
    b = send(&p, 1);
    accept_of(&p, 2, a, 1);
    accept_of(&p, 3, b, 2);
    nothing("two servers", &p);
}

/* Two children; their ends are taken in the other order than they were begun:
 * as they ended. Not so where they were taken in order, where the one's end
 * waited for the other's, or where the one taken last had ended first. Threads
 * are joined by name. */
static void test_order__children(void **state)
{
    for (int how = 0; how < 5; how++) {
        struct program p = {0};
        start(&p, 0, -1);
        int one = node(&p, 0, IPS_NODE_FORK), two = node(&p, 0, IPS_NODE_FORK);
        start(&p, 1, one);
        start(&p, 2, two);
        int first, second;
        if (how == 3) { /* waits for the second by name */
            first = node(&p, 1, IPS_NODE_END);
            second = node(&p, 2, IPS_NODE_END);
        } else if (how == 2) {
            second = node(&p, 2, IPS_NODE_END);
            cross(&p, 1, IPS_NODE_RECV, IPS_X_LIFETIME, second, 0);
            first = node(&p, 1, IPS_NODE_END);
        } else {
            second = node(&p, 2, IPS_NODE_END);
            first = node(&p, 1, IPS_NODE_END);
        }
        if (how == 4)
            p.process[0] = p.process[1] = p.process[2] = 7;
        cross(&p, 0, IPS_NODE_JOIN, IPS_X_LIFETIME, how == 1 ? first : second,
              0);
        cross(&p, 0, IPS_NODE_JOIN, IPS_X_LIFETIME, how == 1 ? second : first,
              0);
        if (how == 0)
            holds("as they ended", &p, IPS_ORDER_CHILDREN, 1, 1);
        else
            nothing("children in order", &p);
    }
    (void)state;
}

/* Locks, not barriers; signals, not a child's end; polls in vain. */
static void test_order__plain(void **state)
{
    struct program p;
    (void)state;
    begin(&p, 2);
    int let_go = node(&p, 0, IPS_NODE_AUX);
    cross(&p, 1, IPS_NODE_AUX, IPS_X_RESOURCE, let_go, IPS_THING_LOCK);
    holds("lock", &p, IPS_ORDER_RESOURCES, 1, 2);
    begin(&p, 2);
    let_go = node(&p, 0, IPS_NODE_AUX);
    cross(&p, 1, IPS_NODE_AUX, IPS_X_RESOURCE, let_go, IPS_THING_BARRIER);
    nothing("barrier", &p);
    begin(&p, 2);
    int kill = node(&p, 0, IPS_NODE_AUX);
    cross(&p, 1, IPS_NODE_AUX, IPS_X_SIGNAL, kill, 0);
    holds("signal", &p, IPS_ORDER_SIGNALS, 1, 1);
    memset(&p, 0, sizeof(p));
    start(&p, 0, -1);
    int fork = node(&p, 0, IPS_NODE_FORK);
    start(&p, 1, fork);
    int end = node(&p, 1, IPS_NODE_END);
    cross(&p, 0, IPS_NODE_AUX, IPS_X_SIGNAL, end, 0);
    nothing("a child's end", &p);
    begin(&p, 2);
    p.empty[1] = 4;
    holds("polls in vain", &p, IPS_ORDER_EMPTY, 4, 1);
}

/* What is not looked into for want of steps is told, and shown as free. */
static void test_order__unchecked(void **state)
{
    struct program p;
    (void)state;
    begin(&p, 3);
    int a = send(&p, 0), b = send(&p, 0);
    take(&p, 1, a, 1);
    int told = send(&p, 1);
    take(&p, 2, told, 2);
    take(&p, 2, b, 1);
    p.choices[2] = 0;
    p.steps = 1;
    struct ips_order_dependence o = look(&p);
    assert_int_equal(1, o.unchecked);
    assert_int_equal(1, o.count[IPS_ORDER_READERS]);
    ips_order_dependence_release(&o);
    struct ips_graph g;
    make(&p, &g);
    g.xkind[1] = IPS_X_DATA; /* a cycle: the send needs what it brings about */
    g.xpred[1] = g.node_count - 2;
    struct ips_order_ask ask = {.g = &g, .steps = 1000};
    assert_int_equal(IPS_E_STALLED, ips_find_order_dependence(&ask, &o, NULL));
    assert_null(o.of_chain);
    ips_graph_release(&g);
}

/* ---- any graph ------------------------------------------------------------
 */

#define MOST 700u
static uint8_t before[MOST][MOST]; /* [then][first] */

static void close_all(const struct ips_graph *g)
{
    bool more = true;
    memset(before, 0, sizeof(before));
    while (more) {
        more = false;
        for (uint32_t i = 0; i < g->node_count; i++) {
            uint32_t c = ips_chain_of(g, i), x = g->xpred[i];
            uint32_t from[2] = {
                i > g->chains[c].first ? i - 1 : i,
                x != IPS_NO_NODE && g->xkind[i] != IPS_X_RESOURCE ? x : i};
            more |= !before[i][i];
            before[i][i] = 1;
            for (int k = 0; k < 2; k++)
                for (uint32_t a = 0; a < g->node_count; a++)
                    if (before[from[k]][a] && !before[i][a])
                        before[i][a] = more = true;
        }
    }
}

/* By the definition, with every pair of a channel or thread gone through. */
static void count_slowly(const struct ips_graph *g, uint64_t *readers,
                         uint64_t *writers, uint64_t *sources)
{
    *readers = *writers = *sources = 0;
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (g->kind[i] != IPS_NODE_RECV || g->xkind[i] != IPS_X_DATA ||
            g->xpred[i] == IPS_NO_NODE)
            continue;
        uint32_t c = ips_chain_of(g, i), last = IPS_NO_NODE, turn = IPS_NO_NODE;
        for (uint32_t k = 0; k < g->node_count; k++) {
            uint32_t of = ips_chain_of(g, k);
            if (g->kind[k] != IPS_NODE_RECV || g->xkind[k] != IPS_X_DATA ||
                g->xpred[k] == IPS_NO_NODE)
                continue;
            if (of == c && k < i)
                turn = k;
            bool earlier =
                g->t_ns[k] != g->t_ns[i] ? g->t_ns[k] < g->t_ns[i] : k < i;
            if (g->site[k] != g->site[i] || !earlier ||
                g->chains[of].machine != g->chains[c].machine)
                continue;
            if (last == IPS_NO_NODE || g->t_ns[k] > g->t_ns[last] ||
                (g->t_ns[k] == g->t_ns[last] && k > last))
                last = k;
        }
        uint32_t sent = g->xpred[i], sender = ips_chain_of(g, sent);
        if (last != IPS_NO_NODE) {
            *readers += ips_chain_of(g, last) != c && !before[i][last];
            *writers += ips_chain_of(g, g->xpred[last]) != sender &&
                        !before[sent][g->xpred[last]];
        }
        if (turn != IPS_NO_NODE && g->xlen[i] != 0)
            *sources += g->site[turn] != g->site[i] &&
                        ips_chain_of(g, g->xpred[turn]) != sender &&
                        !before[sent][turn];
    }
}

/* What had to be before what, against the closure of all arcs. Would catch a
 * pass that stops at the end of a run, and pairs that are not neighbours. */
static void test_order__against_closure(void **state)
{
    uint64_t seen[3] = {0}, pairs = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct rg_options opt = rg_options_of(seed);
        struct rg r;
        struct ips_est e;
        struct ips_scenario lane = {.external = IPS_EXTERNAL_ALL};
        struct ips_order_dependence o;
        uint64_t s = seed, choices[512], wanted[3];
        opt.unmatched = false;
        opt.steps = 20 + opt.steps / 4;
        rg_make(&opt, &r);
        struct ips_graph *g = &r.whole;
        if (g->node_count <= MOST && g->chain_count <= 512) {
            assert_int_equal(
                0, ips_longest_path_compute_ests(g, &lane, NULL, &e, NULL));
            for (uint32_t i = 0; i < g->node_count; i++) {
                g->site[i] = rg_below(&s, 3);
                g->t_ns[i] = e.est[i];
            }
            for (uint32_t c = 0; c < g->chain_count; c++)
                choices[c] = 1;
            close_all(g);
            count_slowly(g, &wanted[0], &wanted[1], &wanted[2]);
            struct ips_order_ask ask = {
                .g = g, .choices = choices, .steps = UINT64_MAX};
            assert_int_equal(0, ips_find_order_dependence(&ask, &o, NULL));
            assert_int_equal(wanted[0], o.count[IPS_ORDER_READERS]);
            assert_int_equal(wanted[1], o.count[IPS_ORDER_WRITERS]);
            assert_int_equal(wanted[2], o.count[IPS_ORDER_SOURCES]);
            for (int k = 0; k < 3; k++)
                seen[k] += wanted[k];
            pairs += o.arcs;
            ips_order_dependence_release(&o);
            ips_est_release(&e);
        }
        rg_release(&r);
    }
    assert_true(seen[0] > 100 && seen[1] > 100 && seen[2] > 100);
    assert_true(pairs > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order__forced),
        cmocka_unit_test(test_order__sources),
        cmocka_unit_test(test_order__queues),
        cmocka_unit_test(test_order__accepts),
        cmocka_unit_test(test_order__children),
        cmocka_unit_test(test_order__plain),
        cmocka_unit_test(test_order__unchecked),
        cmocka_unit_test(test_order__against_closure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
