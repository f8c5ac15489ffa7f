#include "master/tables/summary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "master/tables/metrics.h"

static int compare_cells_by_bytes(const void *a, const void *b)
{
    const Ips__MatrixCell *x = *(Ips__MatrixCell *const *)a;
    const Ips__MatrixCell *y = *(Ips__MatrixCell *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    int c = strcmp(x->from, y->from);
    return c ? c : strcmp(x->to, y->to);
}

static int compare_totals_by_bytes(const void *a, const void *b)
{
    const Ips__MatrixTotal *x = *(Ips__MatrixTotal *const *)a;
    const Ips__MatrixTotal *y = *(Ips__MatrixTotal *const *)b;
    uint64_t p = x->bytes_out + x->bytes_in, q = y->bytes_out + y->bytes_in;
    if (p != q)
        return p < q ? 1 : -1;
    return strcmp(x->object, y->object);
}

/* Keeps only the largest rows if there are too many; the total stays last. */
static void cut_process_rows(struct summary *s)
{
    Ips__MetricsAnswer *a = &s->answer;
    size_t pairs = a->n_process_matrix, rows = a->n_process_totals;
    if (pairs > SUMMARY_PAIRS) {
        qsort(a->process_matrix, pairs, sizeof(*a->process_matrix),
              compare_cells_by_bytes);
        a->n_process_matrix = SUMMARY_PAIRS;
        certificate_add_detail(
            &s->a, &s->certificate,
            arena_printf(
                &s->a,
                "the %d of %zu pairs of processes with the most bytes: "
                "--level process lists all",
                SUMMARY_PAIRS, pairs));
    }
    if (rows > SUMMARY_PAIRS + 1) {
        Ips__MatrixTotal *all = a->process_totals[rows - 1];
        qsort(a->process_totals, rows - 1, sizeof(*a->process_totals),
              compare_totals_by_bytes);
        a->process_totals[SUMMARY_PAIRS] = all;
        a->n_process_totals = SUMMARY_PAIRS + 1;
    }
}

int summary_make(struct query *q, struct summary *s, struct ips_err *err)
{
    uint64_t left_out = 0;
    memset(s, 0, sizeof(*s));
    ips__metrics_answer__init(&s->answer);
    int rc = metrics_make_rows_and_matrices(
        q->gather.active, q->gather.count, query_is_missing_a_machine(q), "",
        "", &s->a, &s->answer, &left_out, err);
    if (rc < 0)
        return rc;
    certificate_fill(q, &s->a, &s->certificate);
    cut_process_rows(s);
    s->answer.certificate = &s->certificate.msg;
    return s->a.failed ? ips_err_set(err, IPS_E_NO_MEMORY, "no memory") : 0;
}

int summary_store_unless_machines_missing(struct query *q,
                                          const struct summary *s,
                                          struct ips_err *err)
{
    if (query_is_missing_a_machine(q))
        return 0;
    return catalogue_store_metrics_answer(
        q->m->catalogue, q->run, s->certificate.msg.events, &s->answer, err);
}

void summary_release(struct summary *s)
{
    arena_release(&s->a);
}
