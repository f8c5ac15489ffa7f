/* Answers BracketsAsk: sends the spans of threads' time that the program
 * marked. */
#include <stdlib.h>
#include <string.h>

#include "slave/graphs/marked_spans.h"
#include "slave/serve/graph.h"

struct marked_spans_answer {
    struct slave_marked_spans r;
    char *names[SLAVE_MARKED_SPAN_NAMES];
    uint32_t sent;
    uint32_t *name, *first, *last; /* [IPS_PIECE_ITEMS] columns of the reply */
    uint64_t *first_ns, *last_ns;
};

void slave_marked_spans_answer_release(struct slave_graph_ask *j)
{
    struct marked_spans_answer *a = j->marked_spans;
    if (!a)
        return;
    slave_marked_spans_release(&a->r);
    free(a->name);
    free(a->first);
    free(a->last);
    free(a->first_ns);
    free(a->last_ns);
    free(a);
    j->marked_spans = NULL;
}

static int allocate_marked_spans_answer(struct slave_graph_ask *j)
{
    struct marked_spans_answer *a = j->marked_spans = calloc(1, sizeof(*a));
    if (a) {
        a->name = calloc(IPS_PIECE_ITEMS, sizeof(*a->name));
        a->first = calloc(IPS_PIECE_ITEMS, sizeof(*a->first));
        a->last = calloc(IPS_PIECE_ITEMS, sizeof(*a->last));
        a->first_ns = calloc(IPS_PIECE_ITEMS, sizeof(*a->first_ns));
        a->last_ns = calloc(IPS_PIECE_ITEMS, sizeof(*a->last_ns));
    }
    bool fine =
        a && a->name && a->first && a->last && a->first_ns && a->last_ns;
    return fine ? 0
                : ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
}

static int find_marked_spans_of_request(struct slave_graph_ask *j,
                                        struct slave_graphs *gs,
                                        const Ips__BracketsAsk *ask)
{
    struct slave_input in;
    int rc = allocate_marked_spans_answer(j);
    if (rc == 0)
        rc = slave_input_fill_from_snapshot(gs, j->graph->snap, &in,
                                            &j->job.err);
    if (rc < 0)
        return rc;
    rc = slave_marked_spans_make(&in.in, &j->graph->b,
                                 ask->tasks ? SLAVE_BY_TASK : SLAVE_BY_MARK,
                                 ask->name, &j->marked_spans->r, &j->job.err);
    slave_input_release(gs, &in);
    return rc < 0 ? ips_err_wrap(&j->job.err, rc, "run %s", j->graph->snap->run)
                  : 0;
}

static void fill_marked_spans_page(struct marked_spans_answer *a,
                                   Ips__BracketsAnswer *out)
{
    size_t n = 0;
    if (a->sent == 0) {
        for (uint32_t i = 0; i < a->r.name_count; i++)
            a->names[i] = a->r.name[i];
        out->names = a->names;
        out->n_names = a->r.name_count;
        out->unended = a->r.unended;
    }
    for (; n < IPS_PIECE_ITEMS && a->sent < a->r.count; n++, a->sent++) {
        const struct slave_marked_span *r = &a->r.row[a->sent];
        a->name[n] = r->name;
        a->first[n] = r->first;
        a->last[n] = r->last;
        a->first_ns[n] = r->first_ns;
        a->last_ns[n] = r->last_ns;
    }
    out->n_name = out->n_first = out->n_last = n;
    out->n_first_ns = out->n_last_ns = n;
    out->name = a->name;
    out->first = a->first;
    out->last = a->last;
    out->first_ns = a->first_ns;
    out->last_ns = a->last_ns;
}

void slave_answer_marked_spans_request(struct slave_job *job,
                                       struct slave_graphs *gs)
{
    struct slave_graph_ask *j = slave_graph_ask_of_job(job);
    const Ips__BracketsAsk *ask = slave_graph_get_request(j)->brackets;
    Ips__BracketsAnswer *out = &j->answer.marked_spans;
    ips__brackets_answer__init(out);
    int rc = slave_graph_use_generation_and_verify(j, gs, ask->generation);
    if (rc == 0 && !j->marked_spans)
        rc = find_marked_spans_of_request(j, gs, ask);
    if (rc < 0) {
        slave_job_fail(job);
        return;
    }
    fill_marked_spans_page(j->marked_spans, out);
    job->finished = j->marked_spans->sent == j->marked_spans->r.count;
    job->reply.answer_case = IPS__REPLY__ANSWER_BRACKETS;
    job->reply.brackets = out;
}
