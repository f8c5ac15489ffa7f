#include "analysis/explain/order_dependent.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/whatif/order.h"
#include "common/large.h"
#include "common/types.h"

struct reception {    /* a receive of a message from another node of the
                         graph */
    uint64_t channel; /* machine and channel end of the receiver */
    uint64_t t_ns;
    uint32_t node, chain;
    uint32_t sent, sender; /* node and chain of the message's send */
    bool accept;
};
/* The question whether node `first` had to be passed before node `then`. If the
 * answer is no, `node` shows the pattern. */
struct question {
    uint32_t chain; /* the chain of `first` */
    uint32_t first, then, node;
    uint32_t concerned[3]; /* chains that the pattern concerns */
    enum ips_order_pattern pattern;
};
struct order_search {
    const struct ips_order_ask *ask;
    const struct ips_graph *g;
    struct ips_order_dependence *out;
    struct ips_err *err;
    /* sorted by node, so the receives of a chain are adjacent */
    struct reception *reception;
    uint32_t reception_count, reception_capacity;
    struct question *question;
    uint32_t question_count, question_capacity;
    uint32_t
        *known; /* [nodes] for the chain whose questions are being answered: 1 +
                   its last node that had to come before this node; 0: none */
    uint8_t *mark; /* [nodes] 1: the node shows a pattern */
};

const char *ips_order_pattern_name(enum ips_order_pattern pattern)
{
    static const char *const names[IPS_ORDER_PATTERN_COUNT] = {
#define X(name, text) [IPS_ORDER_##name] = text,
        IPS_ORDER_PATTERNS(X)
#undef X
    };
    return names[pattern];
}

void ips_order_dependence_release(struct ips_order_dependence *o)
{
    free(o->of_chain);
    memset(o, 0, sizeof(*o));
}

static void count_and_mark_node(struct order_search *l,
                                enum ips_order_pattern pattern, uint32_t node)
{
    l->out->count[pattern]++;
    l->mark[node] = 1;
}

static void mark_and_count_chain_once_for_pattern(
    struct order_search *l, enum ips_order_pattern pattern, uint32_t chain)
{
    uint32_t bit = 1u << pattern, *of = &l->out->of_chain[chain];
    l->out->chains[pattern] += !(*of & bit);
    *of |= bit;
}

/* Makes room for one more entry, doubling the capacity. */
static int reserve_one(struct order_search *l, void **array, uint32_t count,
                       uint32_t *room, size_t size)
{
    if (count < *room)
        return 0;
    uint32_t wanted = *room ? *room * 2 : 1024;
    void *grown = ips_resize_large(*array, *room * size, wanted * size);
    if (!grown)
        return ips_err_set(l->err, IPS_E_NO_MEMORY, "%u pairs of receives",
                           wanted);
    *array = grown;
    *room = wanted;
    return 0;
}

static int add_order_question(struct order_search *l, struct question q)
{
    void *array = l->question;
    int rc = reserve_one(l, &array, l->question_count, &l->question_capacity,
                         sizeof(*l->question));
    l->question = array;
    if (rc < 0)
        return rc;
    q.chain = ips_chain_of(l->g, q.first);
    l->question[l->question_count++] = q;
    return 0;
}

/* ---- questions about receives ------------------------------------------- */

static int collect_receptions(struct order_search *l)
{
    const struct ips_graph *g = l->g;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const struct ips_chain *is = &g->chains[c];
        for (uint32_t i = is->first; i < is->first + is->count; i++) {
            if (g->kind[i] != IPS_NODE_RECV || g->xkind[i] != IPS_X_DATA ||
                g->xpred[i] == IPS_NO_NODE)
                continue;
            void *array = l->reception;
            int rc = reserve_one(l, &array, l->reception_count,
                                 &l->reception_capacity, sizeof(*l->reception));
            l->reception = array;
            if (rc < 0)
                return rc;
            uint32_t site = g->site ? g->site[i] : UINT32_MAX;
            l->reception[l->reception_count++] = (struct reception){
                .channel = (uint64_t)is->machine << 32 | site,
                .t_ns = g->t_ns ? g->t_ns[i] : 0,
                .node = i,
                .chain = c,
                .sent = g->xpred[i],
                .sender = ips_chain_of(g, g->xpred[i]),
                .accept = g->xlen[i] == 0};
        }
    }
    return 0;
}

/* Adds this question about two receives of a thread: did the send of b's
 * message depend on receive `a`? If not, `b` could have been first. Adds
 * nothing if both messages have the same sender or channel. */
static int add_question_on_pair_unless_same_source(
    struct order_search *l, const struct reception *a,
    const struct reception *b, enum ips_order_pattern pattern)
{
    if (a->sender == b->sender || a->channel == b->channel)
        return 0;
    return add_order_question(
        l, (struct question){.first = a->node,
                             .then = b->sent,
                             .node = b->node,
                             .concerned = {b->chain, b->chain, b->chain},
                             .pattern = pattern});
}

/* Adds questions about successive receives of each thread, in the thread's
 * order. */
static int add_questions_on_receives_of_threads(struct order_search *l)
{
    const struct reception *last_accept = NULL;
    int rc = 0;
    for (uint32_t k = 0; k < l->reception_count && rc == 0; k++) {
        const struct reception *is = &l->reception[k];
        const struct reception *before = k ? is - 1 : NULL;
        if (!before || before->chain != is->chain)
            before = last_accept = NULL;
        if (is->accept) {
            if (last_accept)
                rc = add_question_on_pair_unless_same_source(l, last_accept, is,
                                                             IPS_ORDER_ACCEPTS);
            last_accept = is;
        } else if (before && l->out->sources_known &&
                   l->ask->choices[is->chain]) {
            rc = add_question_on_pair_unless_same_source(l, before, is,
                                                         IPS_ORDER_SOURCES);
        }
    }
    return rc;
}

static int by_channel(const void *a, const void *b)
{
    const struct reception *x = a, *y = b;
    if (x->channel != y->channel)
        return x->channel < y->channel ? -1 : 1;
    if (x->t_ns != y->t_ns)
        return x->t_ns < y->t_ns ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

/* Adds questions about successive receives of each channel, in order of its
 * machine's clock. Leaves the receives sorted by channel. */
static int add_questions_of_channels(struct order_search *l)
{
    if (!l->g->site || !l->g->t_ns || l->reception_count == 0)
        return 0;
    qsort(l->reception, l->reception_count, sizeof(*l->reception), by_channel);
    int rc = 0;
    for (uint32_t k = 1; k < l->reception_count && rc == 0; k++) {
        const struct reception *a = &l->reception[k - 1], *b = &l->reception[k];
        if (a->channel != b->channel || (uint32_t)a->channel == UINT32_MAX)
            continue;
        if (a->chain != b->chain)
            rc = add_order_question(
                l,
                (struct question){.first = a->node,
                                  .then = b->node,
                                  .node = b->node,
                                  .concerned = {a->chain, b->chain, b->chain},
                                  .pattern = IPS_ORDER_READERS});
        if (rc == 0 && a->sender != b->sender)
            rc = add_order_question(
                l,
                (struct question){.first = a->sent,
                                  .then = b->sent,
                                  .node = b->node,
                                  .concerned = {a->sender, b->sender, b->chain},
                                  .pattern = IPS_ORDER_WRITERS});
    }
    return rc;
}

/* ---- waits for children ------------------------------------------------- */

/* Returns the node that started chain c, or IPS_NO_NODE. */
static uint32_t node_that_started_chain(const struct ips_graph *g, uint32_t c)
{
    uint32_t first = g->chains[c].first;
    return g->xkind[first] == IPS_X_LIFETIME ? g->xpred[first] : IPS_NO_NODE;
}

static bool same_process(const struct ips_graph *g, uint32_t a, uint32_t b)
{
    return g->chains[a].machine == g->chains[b].machine &&
           g->chains[a].process == g->chains[b].process;
}

/* Returns the chain of the child process whose end node i, a JOIN, waited for,
 * if chain c forked the child; else UINT32_MAX. */
static uint32_t chain_of_child_joined_at_node(const struct ips_graph *g,
                                              uint32_t c, uint32_t i)
{
    if (g->kind[i] != IPS_NODE_JOIN || g->xkind[i] != IPS_X_LIFETIME ||
        g->xpred[i] == IPS_NO_NODE)
        return UINT32_MAX;
    uint32_t child = ips_chain_of(g, g->xpred[i]),
             fork = node_that_started_chain(g, child);
    const struct ips_chain *is = &g->chains[c];
    if (same_process(g, child, c) || fork < is->first ||
        fork >= is->first + is->count)
        return UINT32_MAX;
    return child;
}

static int add_questions_on_child_end_order(struct order_search *l)
{
    const struct ips_graph *g = l->g;
    int rc = 0;
    for (uint32_t c = 0; c < g->chain_count && rc == 0; c++) {
        const struct ips_chain *is = &g->chains[c];
        uint32_t before = UINT32_MAX, before_end = 0;
        for (uint32_t i = is->first; i < is->first + is->count && rc == 0;
             i++) {
            uint32_t child = chain_of_child_joined_at_node(g, c, i),
                     end = g->xpred[i];
            if (child == UINT32_MAX)
                continue;
            if (before != UINT32_MAX &&
                node_that_started_chain(g, before) >
                    node_that_started_chain(g, child) &&
                (!g->t_ns || g->t_ns[before_end] <= g->t_ns[end]))
                rc = add_order_question(
                    l, (struct question){.first = before_end,
                                         .then = end,
                                         .node = i,
                                         .concerned = {c, c, c},
                                         .pattern = IPS_ORDER_CHILDREN});
            before = child;
            before_end = end;
        }
    }
    return rc;
}

/* ---- answering the questions -------------------------------------------- */

static int by_chain(const void *a, const void *b)
{
    const struct question *x = a, *y = b;
    return (x->chain > y->chain) - (x->chain < y->chain);
}

/* Sets known[i] to 1 + the last node of chain c that is i or had to be passed
 * before i; to 0 if there is none. */
static void compute_last_node_of_chain_before_each_node(
    struct order_search *l, const struct ips_computation_order *order,
    uint32_t c)
{
    const struct ips_graph *g = l->g;
    for (uint64_t r = 0; r < order->run_count; r++) {
        const struct ips_chain_run *run = &order->run[r];
        uint32_t first = g->chains[run->chain].first;
        uint32_t last = run->first > first ? l->known[run->first - 1] : 0;
        for (uint32_t i = run->first; i < run->first + run->count; i++) {
            uint32_t x = g->xpred[i];
            if (run->chain == c)
                last = i + 1;
            else if (x != IPS_NO_NODE && g->xkind[i] != IPS_X_RESOURCE)
                last = last > l->known[x] ? last : l->known[x];
            l->known[i] = last;
        }
    }
}

static void mark_node_and_chains_of_question(struct order_search *l,
                                             const struct question *q)
{
    count_and_mark_node(l, q->pattern, q->node);
    for (int k = 0; k < 3; k++)
        mark_and_count_chain_once_for_pattern(l, q->pattern, q->concerned[k]);
}

static int answer_all_order_questions(struct order_search *l)
{
    static const struct ips_scenario scenario = {.order_dependent_off = true,
                                                 .external = IPS_EXTERNAL_ALL};
    const struct ips_graph *g = l->g;
    struct ips_computation_order order;
    if (l->question_count == 0)
        return 0;
    qsort(l->question, l->question_count, sizeof(*l->question), by_chain);
    int rc = ips_computation_order_make(g, &scenario, &order, l->err);
    if (rc < 0)
        return rc;
    l->known = ips_calloc_large((size_t)g->node_count + 1, sizeof(*l->known));
    if (!l->known) {
        ips_computation_order_release(&order);
        return ips_err_set(l->err, IPS_E_NO_MEMORY, "%u nodes", g->node_count);
    }
    uint64_t steps = 0;
    uint32_t of = UINT32_MAX;
    for (uint32_t k = 0; k < l->question_count; k++) {
        const struct question *q = &l->question[k];
        if (q->chain != of && steps + g->node_count <= l->ask->steps) {
            steps += g->node_count;
            of = q->chain;
            compute_last_node_of_chain_before_each_node(l, &order, of);
        }
        if (q->chain != of)
            l->out->unchecked++;
        if (q->chain != of || l->known[q->then] <= q->first)
            mark_node_and_chains_of_question(l, q);
    }
    ips_computation_order_release(&order);
    return 0;
}

/* ---- patterns that need no questions ------------------------------------ */

/* Whether the signal that node `sent` sent to chain c is a SIGCHLD: `sent`
 * is one of the last two nodes of a child process of c's process. */
static bool is_signal_from_ended_child(const struct ips_graph *g, uint32_t c,
                                       uint32_t sent)
{
    uint32_t child = ips_chain_of(g, sent),
             fork = node_that_started_chain(g, child);
    const struct ips_chain *is = &g->chains[child];
    return sent + 2 >= is->first + is->count && fork != IPS_NO_NODE &&
           !same_process(g, child, c) &&
           same_process(g, ips_chain_of(g, fork), c);
}

static void mark_and_count_question_free_patterns(struct order_search *l)
{
    const struct ips_graph *g = l->g;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const struct ips_chain *is = &g->chains[c];
        if (l->ask->empty && l->ask->empty[c]) {
            l->out->count[IPS_ORDER_EMPTY] += l->ask->empty[c];
            mark_and_count_chain_once_for_pattern(l, IPS_ORDER_EMPTY, c);
        }
        for (uint32_t i = is->first; i < is->first + is->count; i++) {
            uint32_t x = g->xpred[i];
            if (x == IPS_NO_NODE)
                continue;
            l->out->arcs++;
            if (g->xkind[i] == IPS_X_RESOURCE &&
                g->xlen[i] != IPS_THING_BARRIER) {
                count_and_mark_node(l, IPS_ORDER_RESOURCES, i);
                mark_and_count_chain_once_for_pattern(l, IPS_ORDER_RESOURCES,
                                                      c);
                mark_and_count_chain_once_for_pattern(l, IPS_ORDER_RESOURCES,
                                                      ips_chain_of(g, x));
            } else if (g->xkind[i] == IPS_X_SIGNAL &&
                       !is_signal_from_ended_child(g, c, x)) {
                count_and_mark_node(l, IPS_ORDER_SIGNALS, i);
                mark_and_count_chain_once_for_pattern(l, IPS_ORDER_SIGNALS, c);
            }
        }
    }
}

int ips_find_order_dependence(const struct ips_order_ask *ask,
                              struct ips_order_dependence *out,
                              struct ips_err *err)
{
    const struct ips_graph *g = ask->g;
    struct order_search l = {.ask = ask, .g = g, .out = out, .err = err};
    memset(out, 0, sizeof(*out));
    out->sources_known = ask->choices && g->site;
    out->of_chain = calloc((size_t)g->chain_count + 1, sizeof(*out->of_chain));
    l.mark = ips_calloc_large((size_t)g->node_count + 1, 1);
    int rc = 0;
    if (!out->of_chain || !l.mark)
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "%u nodes", g->node_count);
    if (rc == 0)
        rc = collect_receptions(&l);
    if (rc == 0)
        rc = add_questions_on_receives_of_threads(&l);
    if (rc == 0)
        rc = add_questions_of_channels(&l);
    if (rc == 0)
        rc = add_questions_on_child_end_order(&l);
    if (rc == 0)
        rc = answer_all_order_questions(&l);
    if (rc == 0)
        mark_and_count_question_free_patterns(&l);
    for (uint32_t i = 0; rc == 0 && i < g->node_count; i++)
        out->marked += l.mark[i];
    ips_free_large(l.reception);
    ips_free_large(l.question);
    ips_free_large(l.known);
    ips_free_large(l.mark);
    if (rc < 0)
        ips_order_dependence_release(out);
    return rc;
}
