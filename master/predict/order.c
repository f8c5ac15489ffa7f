/* Finds where the run's behaviour depended on order, so that it may differ on
 * other machines from what the replay assumes. Uses the graph and the threads'
 * polls (DPM-14). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "master/predict/query.h"
#include "master/query/machine_share.h"

/* Limit for the nodes visited to determine which events had to precede which.
 * The limit is reached after some seconds. */
#define STEPS (1ULL << 30)
#define NAMED 10u

static const char *const words[IPS_ORDER_PATTERN_COUNT] = {
    [IPS_ORDER_READERS] =
        "messages of one channel went to whichever thread asked first: "
        "elsewhere its readers share the work otherwise",
    [IPS_ORDER_WRITERS] = "messages of several senders came by one channel: "
                          "elsewhere they may come in another order",
    [IPS_ORDER_SOURCES] =
        "messages were taken from whichever of several senders was first",
    [IPS_ORDER_ACCEPTS] =
        "connections were accepted in the order in which they came",
    [IPS_ORDER_CHILDREN] = "children's ends were taken as they ended, not as "
                           "they were begun",
    [IPS_ORDER_EMPTY] = "polls gave up or tried in vain: what is done "
                        "instead depends on when the others come",
    [IPS_ORDER_RESOURCES] = "waits for locks and the like: who had them first "
                            "was incidental; the replay keeps it",
    [IPS_ORDER_SIGNALS] = "signals were taken at whatever was being done",
};

int predict_find_order_dependence(struct query *q, struct ips_err *err)
{
    struct predict_query *d = predict_query_of(q);
    const struct ips_graph *g = d->run.whole;
    size_t chains = (size_t)g->chain_count + 1;
    uint64_t *choices = calloc(chains, sizeof(*choices));
    uint64_t *empty = calloc(chains, sizeof(*empty));
    int rc = 0;
    if (!choices || !empty)
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "%u threads", g->chain_count);
    uint32_t c = 0;
    for (uint32_t i = 0; i < q->gather.count && rc == 0; i++) {
        const struct machine_share *p = q->gather.active[i];
        for (uint32_t k = 0; c < g->chain_count && g->chains[c].machine == i;
             k++, c++) {
            if (k >= p->t.thread_count)
                continue;
            choices[c] = p->t.threads[k]->choices;
            empty[c] = p->t.threads[k]->empty_polls;
        }
    }
    struct ips_order_ask ask = {
        .g = g, .choices = choices, .empty = empty, .steps = STEPS};
    if (rc == 0)
        rc = ips_find_order_dependence(&ask, &d->order, err);
    free(choices);
    free(empty);
    return rc;
}

/* Lists the processes in which a pattern of order dependence occurs. The
 * threads of a process are adjacent. */
static void list_order_dependent_processes(const struct predict_query *d,
                                           struct arena *a,
                                           enum ips_order_pattern pattern,
                                           Ips__PredictOrder *to)
{
    const struct ips_graph *g = d->run.whole;
    uint32_t machine = UINT32_MAX, process = UINT32_MAX;
    to->processes = arena_alloc(a, NAMED * sizeof(*to->processes));
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const struct ips_chain *is = &g->chains[c];
        if (!(d->order.of_chain[c] & 1u << pattern) ||
            (is->machine == machine && is->process == process))
            continue;
        machine = is->machine;
        process = is->process;
        if (to->process_count++ < NAMED && to->processes)
            to->processes[to->n_processes++] =
                arena_printf(a, "/%s/%s", d->run.own[machine].name,
                             d->run.thread[c].process);
    }
}

void predict_fill_answer_with_order_dependence(struct query *q, struct arena *a,
                                               struct certificate *c,
                                               Ips__PredictAnswer *out)
{
    const struct predict_query *d = predict_query_of(q);
    const struct ips_order_dependence *o = &d->order;
    Ips__PredictOrder *rows =
        arena_alloc(a, IPS_ORDER_PATTERN_COUNT * sizeof(*rows));
    out->order = arena_alloc(a, IPS_ORDER_PATTERN_COUNT * sizeof(*out->order));
    for (int k = 0; rows && out->order && k < IPS_ORDER_PATTERN_COUNT; k++) {
        Ips__PredictOrder *to = &rows[out->n_order];
        if (o->count[k] == 0)
            continue;
        ips__predict_order__init(to);
        to->pattern =
            ips_unconst_text(ips_order_pattern_name((enum ips_order_pattern)k));
        to->count = o->count[k];
        to->threads = o->chains[k];
        to->text = ips_unconst_text(words[k]);
        list_order_dependent_processes(d, a, (enum ips_order_pattern)k, to);
        out->order[out->n_order++] = to;
    }
    out->valid = ips_unconst_text(out->n_order ? "marked" : "yes");
    out->arcs = o->arcs;
    out->marked_arcs = o->marked;
    out->order_unchecked = o->unchecked;
    if (out->n_order)
        certificate_add_note(
            a, c,
            arena_printf(a,
                         "%" PRIu64 " of %" PRIu64
                         " dependencies between threads and %" PRIu64
                         " polls that found nothing depended on timing: on "
                         "other machines the program may behave differently "
                         "(valid: marked)",
                         o->marked, o->arcs, o->count[IPS_ORDER_EMPTY]));
    else
        certificate_add_detail(
            a, c,
            arena_printf(
                a, "nothing in this run depended on timing (valid: yes)"));
}
