#include "master/tables/tables.h"

#include <stdlib.h>
#include <string.h>

#include "common/object.h"
#include "common/types.h"
#include "master/base/top_n.h"
#include "master/tables/metrics.h"

struct tables *tables_new(void)
{
    struct tables *t = calloc(1, sizeof(*t));
    if (t)
        ips__metrics_answer__init(&t->metrics);
    return t;
}

void tables_free(struct tables *t)
{
    if (t)
        arena_release(&t->a);
    free(t);
}

bool tables_have_few_enough_objects(const struct query *q)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < q->gather.count; i++)
        n += (uint64_t)q->gather.active[i]->t.proc_count +
             q->gather.active[i]->t.thread_count;
    return n <= TABLES_OBJECTS_MOST;
}

/* ---- rows of metrics -------------------------------------------------- */

static size_t count_waits(const Ips__MetricsAnswer *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_rows; i++)
        n += m->rows[i]->n_waits;
    return n;
}

/* Lists the waits of all metrics rows in m->waits, and sets t->first_wait. */
static void list_waits_as_rows(struct tables *t)
{
    Ips__MetricsAnswer *m = &t->metrics;
    size_t n = count_waits(m);
    t->first_wait = arena_alloc(&t->a, (m->n_rows + 1) * sizeof(size_t));
    m->waits = arena_alloc(&t->a, (n + 1) * sizeof(*m->waits));
    Ips__WaitRow *row = arena_alloc(&t->a, (n + 1) * sizeof(*row));
    if (!t->first_wait || !m->waits || !row)
        return;
    for (size_t i = 0; i < m->n_rows; i++) {
        const Ips__MetricsRow *r = m->rows[i];
        t->first_wait[i] = m->n_waits;
        for (size_t k = 0; k < r->n_waits; k++, row++) {
            ips__wait_row__init(row);
            row->object = r->object;
            row->cause = r->waits[k]->cause;
            row->ns = r->waits[k]->ns;
            row->count = r->waits[k]->count;
            m->waits[m->n_waits++] = row;
        }
    }
    t->first_wait[m->n_rows] = m->n_waits;
}

/* Marks values that exist only for the whole run as unmeasured
 * (docs/metrics.md). */
static void mark_whole_run_values_unmeasured(Ips__MetricsAnswer *m)
{
    for (size_t i = 0; i < m->n_rows; i++) {
        Ips__MetricsRow *r = m->rows[i];
        r->wait_cpu_ns = r->wait_cpu_unknown_ns = r->blocked_ns =
            r->rusage_cpu_ns = r->rusage_own_cpu_ns = r->rusage_processes =
                IPS_UNMEASURED;
        r->load = IPS_UNMEASURED_REAL;
        r->pop_threads = 0;
        if (strcmp(r->level, "thread") != 0)
            continue; /* messages in a window are unknown only for threads */
        r->messages_out = r->bytes_out = r->messages_in = r->bytes_in =
            r->message_bytes_mean = IPS_UNMEASURED;
        r->message_rate = r->byte_rate = IPS_UNMEASURED_REAL;
    }
}

int tables_make_metrics(struct tables *t, const struct query *q,
                        struct ips_err *err)
{
    if (t->has_metrics)
        return 0;
    int rc = metrics_make_rows_and_matrices(
        q->gather.active, q->gather.count, query_is_missing_a_machine(q), "",
        NULL, &t->a, &t->metrics, NULL, err);
    if (rc == 0 && query_wants_windowed_tables(q))
        mark_whole_run_values_unmeasured(&t->metrics);
    if (rc == 0)
        list_waits_as_rows(t);
    if (rc == 0 && t->a.failed)
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    t->has_metrics = rc == 0;
    return rc;
}

static bool is_level_selected(const bool at_level[METRICS_LEVELS],
                              const Ips__MetricsRow *row)
{
    static const char first[METRICS_LEVELS] = {'r', 'm', 'p', 't'};
    unsigned i = 0;
    while (i < METRICS_LEVELS - 1 && first[i] != *row->level)
        i++;
    return at_level[i];
}

static void select_rows_and_waits(const struct tables *t, const char *object,
                                  const bool at_level[METRICS_LEVELS],
                                  Ips__MetricsAnswer *out, bool *found)
{
    const Ips__MetricsAnswer *from = &t->metrics;
    for (size_t i = 0; i < from->n_rows; i++) {
        Ips__MetricsRow *row = from->rows[i];
        if (*object && !ips_object_matches_pattern(object, row->object))
            continue;
        *found = true;
        if (!is_level_selected(at_level, row))
            continue;
        out->rows[out->n_rows++] = row;
        for (size_t w = t->first_wait[i]; w < t->first_wait[i + 1]; w++)
            out->waits[out->n_waits++] = from->waits[w];
    }
}

int tables_copy_requested_metrics(const struct tables *t, const char *object,
                                  const char *level, struct arena *a,
                                  Ips__MetricsAnswer *out, struct ips_err *err)
{
    const Ips__MetricsAnswer *from = &t->metrics;
    const char *within = strcmp(object, "/") == 0 ? "" : object;
    bool at_level[METRICS_LEVELS], found = false;
    int rc = metrics_parse_levels(within, level, at_level, err);
    if (rc < 0)
        return rc;
    *out = *from;
    out->n_rows = out->n_waits = out->n_process_matrix = 0;
    out->rows = arena_alloc(a, (from->n_rows + 1) * sizeof(*out->rows));
    out->waits = arena_alloc(a, (from->n_waits + 1) * sizeof(*out->waits));
    out->process_matrix = arena_alloc(a, (from->n_process_matrix + 1) *
                                             sizeof(*out->process_matrix));
    if (!out->rows || !out->waits || !out->process_matrix)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    select_rows_and_waits(t, within, at_level, out, &found);
    if (!found)
        return ips_err_set(err, IPS_E_NOT_FOUND, "no object %s in this run",
                           object);
    for (size_t i = 0; i < from->n_process_matrix; i++)
        if (metrics_cell_involves(within, from->process_matrix[i]))
            out->process_matrix[out->n_process_matrix++] =
                from->process_matrix[i];
    return 0;
}

/* ---- selecting rows for an answer ------------------------------------- */

/* Reduces one of the answer's lists other than the rows to the `top` entries
 * with the largest `field`, which are those that the client shows. Changes
 * `list` and `count`, and returns the number of omitted entries. */
static uint64_t cut_list_to_top(const Ips__Select *ask, struct arena *a,
                                const ProtobufCMessageDescriptor *row,
                                const char *field, void *list, size_t *count)
{
    Ips__Select most = IPS__SELECT__INIT;
    uint64_t left[SELECT_LEVELS] = {0};
    struct top_n s;
    void **rows, **chosen = NULL;
    most.top = ask->top;
    memcpy(&rows, list, sizeof(rows));
    if (!top_n_init(&s, &most, row, NULL, field))
        return 0;
    *count = top_n_select_rows(&s, a, rows, *count, &chosen, left);
    memcpy(list, &chosen, sizeof(chosen));
    return left[0];
}

void tables_cut_metrics_to_top(const Ips__Select *ask, struct arena *a,
                               Ips__MetricsAnswer *m, Ips__LeftOut *left)
{
    uint64_t *rows = arena_alloc(a, SELECT_LEVELS * sizeof(*rows));
    void **chosen = NULL;
    struct top_n s;
    ips__left_out__init(left);
    if (!rows ||
        !top_n_init(&s, ask, &ips__metrics_row__descriptor, NULL, "cpu_ns")) {
        m->n_waits = 0;
        return;
    }
    m->n_rows = top_n_select_rows(&s, a, (void *const *)m->rows, m->n_rows,
                                  &chosen, rows);
    m->rows = (Ips__MetricsRow **)chosen;
    left->rows = rows;
    left->n_rows = 1;
    left->waits = cut_list_to_top(ask, a, &ips__wait_row__descriptor, "ns",
                                  &m->waits, &m->n_waits);
    left->machine_matrix =
        cut_list_to_top(ask, a, &ips__matrix_cell__descriptor, "bytes",
                        &m->machine_matrix, &m->n_machine_matrix);
    left->process_matrix =
        cut_list_to_top(ask, a, &ips__matrix_cell__descriptor, "bytes",
                        &m->process_matrix, &m->n_process_matrix);
    left->machine_totals =
        cut_list_to_top(ask, a, &ips__matrix_total__descriptor, "bytes_out",
                        &m->machine_totals, &m->n_machine_totals);
    left->process_totals =
        cut_list_to_top(ask, a, &ips__matrix_total__descriptor, "bytes_out",
                        &m->process_totals, &m->n_process_totals);
    m->left_out = left;
}

static void limit_row_count(size_t *count, size_t most, uint64_t *sum)
{
    if (*count > most) {
        *sum += *count - most;
        *count = most;
    }
}

uint64_t tables_cut_metrics_to_limits(struct arena *a, Ips__MetricsAnswer *m)
{
    uint64_t sum = 0;
    size_t n = m->n_process_totals;
    limit_row_count(&m->n_rows, METRICS_MAX_ROWS, &sum);
    limit_row_count(&m->n_machine_matrix, METRICS_MAX_CELLS, &sum);
    limit_row_count(&m->n_process_matrix, METRICS_MAX_CELLS, &sum);
    if (n <= METRICS_MAX_CELLS + 1)
        return sum;
    Ips__MatrixTotal **kept =
        arena_alloc(a, (METRICS_MAX_CELLS + 1) * sizeof(*kept));
    if (!kept)
        return sum;
    memcpy(kept, m->process_totals, METRICS_MAX_CELLS * sizeof(*kept));
    /* the total of all processes must stay */
    kept[METRICS_MAX_CELLS] = m->process_totals[n - 1];
    m->process_totals = kept;
    limit_row_count(&m->n_process_totals, METRICS_MAX_CELLS + 1, &sum);
    return sum;
}
