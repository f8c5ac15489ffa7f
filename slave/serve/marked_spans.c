/* BracketsAsk: stretches of threads' time that the program told of. */
#include <stdlib.h>
#include <string.h>

#include "slave/graphs/marked_spans.h"
#include "slave/serve/graph.h"

struct brackets_answer {
    struct slave_brackets r;
    char *names[SLAVE_BRACKET_NAMES];
    uint32_t sent;
    uint32_t *name, *first, *last; /* [IPS_PIECE_ITEMS] */
    uint64_t *first_ns, *last_ns;
};

void slave_brackets_answer_release(struct slave_graph_ask *j)
{
    struct brackets_answer *a = j->brackets;
    if (!a)
        return;
    slave_brackets_release(&a->r);
    free(a->name);
    free(a->first);
    free(a->last);
    free(a->first_ns);
    free(a->last_ns);
    free(a);
    j->brackets = NULL;
}

static int make_room(struct slave_graph_ask *j)
{
    struct brackets_answer *a = j->brackets = calloc(1, sizeof(*a));
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

static int begin(struct slave_graph_ask *j, struct slave_graphs *gs,
                 const Ips__BracketsAsk *ask)
{
    struct slave_input in;
    int rc = make_room(j);
    if (rc == 0)
        rc = slave_input_make(gs, j->graph->snap, &in, &j->job.err);
    if (rc < 0)
        return rc;
    rc = slave_brackets_make(&in.in, &j->graph->b,
                             ask->tasks ? SLAVE_BY_TASK : SLAVE_BY_MARK,
                             ask->name, &j->brackets->r, &j->job.err);
    slave_input_release(gs, &in);
    return rc < 0 ? ips_err_wrap(&j->job.err, "run %s", j->graph->snap->run)
                  : 0;
}

static void page(struct brackets_answer *a, Ips__BracketsAnswer *out)
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
        const struct slave_bracket *r = &a->r.row[a->sent];
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

void slave_step_brackets(struct slave_job *job, struct slave_graphs *gs)
{
    struct slave_graph_ask *j = slave_graph_of(job);
    const Ips__BracketsAsk *ask = slave_graph_request(j)->brackets;
    Ips__BracketsAnswer *out = &j->answer.brackets;
    ips__brackets_answer__init(out);
    int rc = slave_graph_same(j, gs, ask->generation);
    if (rc == 0 && !j->brackets)
        rc = begin(j, gs, ask);
    if (rc < 0) {
        slave_job_fail(job);
        return;
    }
    page(j->brackets, out);
    job->finished = j->brackets->sent == j->brackets->r.count;
    job->reply.answer_case = IPS__REPLY__ANSWER_BRACKETS;
    job->reply.brackets = out;
}
