/* Answers SeriesAsk: sends CPU time, messages and waits over time, in bins that
 * the master chose. */
#include <stdlib.h>
#include <string.h>

#include "common/large.h"
#include "slave/profile/code_window.h"
#include "slave/serve/graph.h"

#define EDGES_MAX 4097u
#define TOPS_MAX 64u
/* maximum product of the number of bins and the number of processes */
#define CELLS_MAX (1u << 24)

struct series_answer {
    struct slave_series s;
    /* [4][bins] CPU ns, messages, bytes and wait ns, summed over all rows */
    uint64_t *sum;
    struct slave_proc_names names;
    struct slave_top_procedure *top;
    uint32_t top_count;
    uint32_t *row; /* [chains] process of each chain */
    char *texts;
};

void slave_series_answer_release(struct slave_graph_ask *j)
{
    struct series_answer *a = j->series;
    if (!a)
        return;
    slave_series_release(&a->s);
    slave_proc_names_release(&a->names);
    free(a->sum);
    ips_free_large(a->top);
    free(a->row);
    free(a->texts);
    free(a);
    j->series = NULL;
}

static int check_series_request(const Ips__SeriesAsk *ask, struct ips_err *err)
{
    bool fine =
        ask->n_edge >= 2 && ask->n_edge <= EDGES_MAX && ask->tops <= TOPS_MAX;
    for (size_t i = 1; fine && i < ask->n_edge; i++)
        fine = ask->edge[i] > ask->edge[i - 1];
    return fine ? 0
                : ips_err_set(err, IPS_E_PROTOCOL,
                              "series with %zu edges, %u tops", ask->n_edge,
                              ask->tops);
}

/* Makes the series: one row for each process if the request asks for the top
 * procedures (`tops`), else one row for all processes together. */
static int compute_series_of_request(struct slave_graphs *gs,
                                     struct slave_graph_ask *j,
                                     const Ips__SeriesAsk *ask)
{
    struct series_answer *a = j->series;
    const struct ips_built *b = &j->graph->b;
    struct slave_input in;
    struct slave_series_ask how = {
        .edges = ask->edge, .bins = (uint32_t)ask->n_edge - 1, .rows = 1};
    if (ask->tops) {
        a->row = calloc((size_t)b->g.chain_count + 1, sizeof(*a->row));
        if (!a->row)
            return ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
        for (uint32_t c = 0; c < b->g.chain_count; c++)
            a->row[c] = b->g.chains[c].process;
        how.row = a->row;
        how.rows = b->proc_count;
    }
    if ((uint64_t)how.rows * how.bins > CELLS_MAX)
        return ips_err_set(&j->job.err, IPS_E_LIMIT,
                           "%u processes in %u time intervals: more than %u "
                           "values",
                           how.rows, how.bins, CELLS_MAX);
    int rc =
        slave_input_fill_from_snapshot(gs, j->graph->snap, &in, &j->job.err);
    if (rc == 0)
        rc = slave_series_make(&in.in, b, &how, &a->s, &j->job.err);
    slave_input_release(gs, &in);
    return rc < 0 ? ips_err_wrap(&j->job.err, rc, "run %s", j->graph->snap->run)
                  : 0;
}

static int sum_series_over_rows(struct slave_graph_ask *j)
{
    struct series_answer *a = j->series;
    const uint64_t *from[] = {a->s.cpu_ns, a->s.messages, a->s.bytes,
                              a->s.wait_ns};
    uint32_t n = a->s.bins;
    a->sum = calloc((size_t)4 * n, sizeof(*a->sum));
    if (!a->sum)
        return ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
    for (int k = 0; k < 4; k++)
        for (size_t i = 0; i < (size_t)a->s.rows * n; i++)
            a->sum[(size_t)k * n + i % n] += from[k][i];
    return 0;
}

/* Adds, for each bin in which CPU was used, a row with the process that used
 * most CPU in the bin. Returns the number of rows. */
static size_t append_top_process_of_each_bin(const struct series_answer *a,
                                             Ips__SeriesTop *row)
{
    size_t count = 0;
    for (uint32_t bin = 0; bin < a->s.bins; bin++) {
        uint32_t best = IPS_NONE;
        uint64_t most = 0;
        for (uint32_t p = 0; p < a->s.rows; p++) {
            uint64_t ns = a->s.cpu_ns[(size_t)p * a->s.bins + bin];
            if (ns > most) {
                most = ns;
                best = p;
            }
        }
        if (best == IPS_NONE)
            continue;
        ips__series_top__init(&row[count]);
        row[count].bin = bin;
        row[count].of_process = true;
        row[count].process = best;
        row[count++].ns = most;
    }
    return count;
}

static char *copy_name_text_and_advance(char **at, const char *text,
                                        uint32_t len)
{
    char *start = *at;
    memcpy(start, text, len);
    start[len] = '\0';
    *at += len + 1;
    return start;
}

static int fill_rows_of_top_procedures(struct series_answer *a,
                                       Ips__SeriesTop *row, struct ips_err *err)
{
    size_t bytes = 1;
    for (uint32_t i = 0; i < a->top_count; i++)
        bytes += a->names.symbols[a->top[i].symbol].name_len + 1u;
    char *texts = a->texts = malloc(bytes);
    if (!texts)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < a->top_count; i++) {
        const struct slave_proc_symbol *s = &a->names.symbols[a->top[i].symbol];
        ips__series_top__init(&row[i]);
        row[i].bin = a->top[i].bin;
        row[i].procedure =
            copy_name_text_and_advance(&texts, s->name, s->name_len);
        row[i].module = ips_unconst_text(s->module);
        row[i].ns = a->top[i].ns;
    }
    return 0;
}

static int add_top_rows_to_answer(struct slave_graph_ask *j,
                                  struct slave_graphs *gs,
                                  const Ips__SeriesAsk *ask,
                                  Ips__SeriesAnswer *out)
{
    struct series_answer *a = j->series;
    int rc =
        slave_graph_make_profile_cache_if_missing(gs, j->graph, &j->job.err);
    if (rc == 0)
        rc = slave_proc_names_number_procedures(j->graph->profile_cache,
                                                SLAVE_BY_PROCEDURE, &a->names,
                                                &j->job.err);
    if (rc == 0)
        rc = slave_window_find_top_procedures_of_bins(
            j->graph->profile_cache, &j->graph->b, &a->names, ask->edge,
            a->s.bins, ask->tops, &a->top, &a->top_count, &j->job.err);
    if (rc < 0)
        return rc;
    Ips__SeriesTop *row = slave_graph_reallocate_answer_rows(
        j, (size_t)a->s.bins + a->top_count, sizeof(*row));
    if (!row)
        return IPS_E_NO_MEMORY;
    size_t count = append_top_process_of_each_bin(a, row);
    rc = fill_rows_of_top_procedures(a, row + count, &j->job.err);
    out->tops = (Ips__SeriesTop **)(void *)j->ptrs;
    out->n_tops = count + a->top_count;
    return rc;
}

static void fill_series_answer(const struct series_answer *a,
                               Ips__SeriesAnswer *out)
{
    size_t n = a->s.bins;
    out->n_cpu_ns = out->n_messages = out->n_bytes = out->n_wait_ns = n;
    out->cpu_ns = a->sum;
    out->messages = a->sum + n;
    out->bytes = a->sum + 2 * n;
    out->wait_ns = a->sum + 3 * n;
}

void slave_answer_series_request(struct slave_job *job, struct slave_graphs *gs)
{
    struct slave_graph_ask *j = slave_graph_ask_of_job(job);
    const Ips__SeriesAsk *ask = slave_graph_get_request(j)->series;
    Ips__SeriesAnswer *out = &j->answer.series;
    ips__series_answer__init(out);
    int rc = slave_graph_use_generation_and_verify(j, gs, ask->generation);
    if (rc == 0)
        rc = check_series_request(ask, &job->err);
    if (rc == 0 && !(j->series = calloc(1, sizeof(*j->series))))
        rc = ips_err_set(&job->err, IPS_E_NO_MEMORY, "out of memory");
    if (rc == 0)
        rc = compute_series_of_request(gs, j, ask);
    if (rc == 0)
        rc = sum_series_over_rows(j);
    if (rc == 0 && ask->tops)
        rc = add_top_rows_to_answer(j, gs, ask, out);
    if (rc < 0) {
        slave_job_fail(job);
        return;
    }
    fill_series_answer(j->series, out);
    job->reply.answer_case = IPS__REPLY__ANSWER_SERIES;
    job->reply.series = out;
    job->finished = true;
}
