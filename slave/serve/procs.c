/* Answers ProceduresAsk: sends CPU time by procedure, in pages, for all
 * processes together or for each process.
 */
#include <stdlib.h>
#include <string.h>

#include "common/large.h"
#include "slave/build/chain_index.h"
#include "slave/profile/code_window.h"
#include "slave/serve/procs.h"

void slave_procs_release(struct slave_graph_ask *j)
{
    if (!j->procs)
        return;
    slave_proc_table_release(&j->procs->t);
    ips_free_large(j->procs->texts);
    ips_free_large(j->procs);
}

/* Sets the table's totals to the CPU time of the asked object's threads in the
 * window, and scales the rows to this time. CPU time that no sample represents
 * is unsampled. */
static int set_window_cpu_totals_and_scale_rows(struct slave_graphs *gs,
                                                struct slave_graph_ask *j,
                                                const Ips__ProceduresAsk *ask,
                                                const uint64_t edges[2])
{
    const struct ips_built *b = &j->graph->b;
    struct slave_proc_totals *t = &j->procs->t.totals;
    uint32_t *row = calloc((size_t)b->g.chain_count + 1, sizeof(*row));
    struct slave_series s;
    struct slave_input in;
    if (!row)
        return ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
    for (uint32_t c = 0; c < b->g.chain_count; c++)
        if (!slave_is_chain_of_object(b, ask->machine, ask->object, c))
            row[c] = IPS_NONE;
    const struct slave_series_ask how = {
        .edges = edges, .bins = 1, .row = row, .rows = 1};
    int rc =
        slave_input_fill_from_snapshot(gs, j->graph->snap, &in, &j->job.err);
    if (rc == 0)
        rc = slave_series_make(&in.in, b, &how, &s, &j->job.err);
    slave_input_release(gs, &in);
    free(row);
    if (rc < 0)
        return rc;
    /* A sampling period may lie partly in this window while its sample lies in
     * another. So one period for each thread does not count as unsampled. */
    t->unsampled_ns = ips_sub_sat(
        s.cpu_ns[0],
        ips_add_sat(t->sampled_ns,
                    t->samples ? t->asked_ns / t->samples * t->threads : 0));
    t->cpu_ns = ips_max_u64(s.cpu_ns[0], t->exact_ns);
    slave_proc_table_scale_to_cpu(&j->procs->t, t->cpu_ns);
    slave_series_release(&s);
    return 0;
}

static int make_window_proc_table(struct slave_graphs *gs,
                                  struct slave_graph_ask *j,
                                  const Ips__ProceduresAsk *ask,
                                  enum slave_proc_by by)
{
    const struct ips_built *b = &j->graph->b;
    const uint64_t edges[2] = {
        ask->from_ns ? ips_add_sat(b->first_ns, ask->from_ns) : 0,
        ask->to_ns ? ips_add_sat(b->first_ns, ask->to_ns) : UINT64_MAX};
    struct slave_profile_cache costs;
    if (edges[0] >= edges[1])
        return ips_err_set(&j->job.err, IPS_E_PROTOCOL, "an empty window");
    int rc = slave_make_profile_of_time_window(
        j->graph->profile_cache, b, edges[0], edges[1], &costs, &j->job.err);
    if (rc < 0)
        return rc;
    rc = slave_proc_table_make(&costs, b, ask->machine, ask->object, by,
                               &j->procs->t, &j->job.err);
    slave_arc_profile_free(&costs);
    return rc < 0 ? rc
                  : set_window_cpu_totals_and_scale_rows(gs, j, ask, edges);
}

/* Adds up the calls of all rows, unless the rows are lines: a procedure's calls
 * cannot be divided among its lines. */
static void sum_calls_unless_rows_are_lines(struct proc_answer *p, bool by_line)
{
    for (uint32_t i = 0; i < p->t.row_count && !by_line; i++) {
        if (p->t.rows[i].calls == UINT64_MAX)
            continue;
        p->calls = ips_add_sat(p->calls, p->t.rows[i].calls);
        p->called++;
    }
}

static int make_procedure_table_of_request(struct slave_graph_ask *j,
                                           struct slave_graphs *gs)
{
    const Ips__ProceduresAsk *ask = slave_graph_get_request(j)->procedures;
    enum slave_proc_by by =
        strcmp(ask->by, "line") == 0 ? SLAVE_BY_LINE : SLAVE_BY_PROCEDURE;
    int rc =
        slave_graph_make_profile_cache_if_missing(gs, j->graph, &j->job.err);
    if (rc < 0)
        return rc;
    j->procs = calloc(1, sizeof(*j->procs));
    if (!j->procs)
        return ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
    if (ask->from_ns || ask->to_ns)
        rc = make_window_proc_table(gs, j, ask, by);
    else
        rc = slave_proc_table_make(j->graph->profile_cache, &j->graph->b,
                                   ask->machine, ask->object, by, &j->procs->t,
                                   &j->job.err);
    if (rc == 0 && strcmp(ask->by, "process") != 0)
        rc = slave_proc_table_merge_processes(&j->procs->t, &j->job.err);
    if (rc == 0)
        sum_calls_unless_rows_are_lines(j->procs, by == SLAVE_BY_LINE);
    return rc;
}

char *slave_procs_copy_text_and_advance(char **at, const char *text,
                                        uint32_t len)
{
    char *start = *at;
    memcpy(start, text, len);
    start[len] = '\0';
    *at += len + 1;
    return start;
}

static void fill_procedure_row(Ips__ProcedureRow *r,
                               const struct slave_graph_ask *j,
                               const struct slave_proc_row *from, char **texts)
{
    const struct slave_proc_symbol *s =
        &j->procs->t.names.symbols[from->symbol];
    ips__procedure_row__init(r);
    r->procedure =
        slave_procs_copy_text_and_advance(texts, s->name, s->name_len);
    r->file = slave_procs_copy_text_and_advance(texts, s->file, s->file_len);
    r->module = ips_unconst_text(s->module);
    r->line = s->source_line;
    r->self_ns = from->self_ns;
    r->total_ns = from->total_ns;
    r->samples = from->samples;
    r->calls = from->calls;
    r->exact = from->exact;
    if (from->counted_from_ns)
        r->counted_from_ns = ips_max_u64(
            1, ips_sub_sat(from->counted_from_ns, j->graph->b.first_ns));
    r->process = from->process;
}

int slave_procs_fill_page(struct slave_graph_ask *j, Ips__ProcedureRow ***rows,
                          size_t *count)
{
    const struct slave_proc_table *t = &j->procs->t;
    uint32_t left = t->row_count - j->at;
    uint32_t n = left < PIECE_ROWS ? left : PIECE_ROWS;
    size_t bytes = 1;
    for (uint32_t i = 0; i < n; i++) {
        const struct slave_proc_symbol *s =
            &t->names.symbols[t->rows[j->at + i].symbol];
        bytes += (size_t)s->name_len + s->file_len + 2;
    }
    ips_free_large(j->procs->texts);
    char *texts = j->procs->texts = malloc(bytes);
    Ips__ProcedureRow *r = slave_graph_reallocate_answer_rows(j, n, sizeof(*r));
    if (!r || !texts)
        return ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < n; i++)
        fill_procedure_row(&r[i], j, &t->rows[j->at + i], &texts);
    *rows = (Ips__ProcedureRow **)(void *)j->ptrs;
    *count = n;
    j->at += n;
    return 0;
}

static void fill_procedure_totals(Ips__ProcedureTotals *out,
                                  const struct slave_proc_totals *t)
{
    ips__procedure_totals__init(out);
    out->cpu_ns = t->cpu_ns;
    out->sampled_ns = t->sampled_ns;
    out->unsampled_ns = t->unsampled_ns;
    out->samples = t->samples;
    out->asked_ns = t->asked_ns;
    out->squares = t->squares;
    out->threads = t->threads;
    out->exact_threads = t->exact_threads;
    out->exact_ns = t->exact_ns;
}

void slave_answer_procedures_request(struct slave_job *job,
                                     struct slave_graphs *gs)
{
    struct slave_graph_ask *j = slave_graph_ask_of_job(job);
    Ips__ProceduresAnswer *a = &j->answer.procedures;
    int rc = slave_graph_use_generation_and_verify(
        j, gs, slave_graph_get_request(j)->procedures->generation);
    if (rc == 0 && !j->procs)
        rc = make_procedure_table_of_request(j, gs);
    ips__procedures_answer__init(a);
    if (rc == 0)
        rc = slave_procs_fill_page(j, &a->rows, &a->n_rows);
    if (rc < 0) {
        slave_job_fail(job);
        return;
    }
    job->finished = j->at >= j->procs->t.row_count;
    if (job->finished) {
        fill_procedure_totals(&j->procs->totals, &j->procs->t.totals);
        j->procs->totals.calls = j->procs->calls;
        j->procs->totals.called = j->procs->called;
        a->totals = &j->procs->totals;
    }
    job->reply.answer_case = IPS__REPLY__ANSWER_PROCEDURES;
    job->reply.procedures = a;
}
