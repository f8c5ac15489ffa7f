/* Makes the CPU time of a graph by code location, with names, when it is first
 * needed, and keeps it with the graph. */
#include <stdlib.h>

#include "common/large.h"
#include "common/log.h"
#include "slave/profile/proc_table.h"

int slave_graph_fill_symbol_names_of_map(struct slave_graphs *gs,
                                         const struct slave_graph *g,
                                         const struct ips_codemap *map,
                                         struct slave_symbols *names,
                                         struct ips_err *err)
{
    struct ips_err db = {0};
    const struct slave_symbol_source from = {
        .helper = gs->helper,
        .store = slave_graphs_get_or_open_store(gs, &db),
        .failures = &gs->failures,
        .run = g->snap->run,
        .created_raw_ns = g->snap->control.created_raw_ns,
        .created_real_ns = g->snap->control.created_real_ns};
    if (db.code)
        ips_log_warn("cannot keep symbols: %s", db.msg);
    return slave_symbols_fill_names(names, map, &from, err);
}

/* Stores the procedure rows of the whole run in the database. A failure is only
 * logged. */
static void store_procedure_rows_unless_stored(struct slave_graphs *gs,
                                               const struct slave_graph *g)
{
    struct slave_proc_table t;
    struct ips_err err = {0};
    struct slave_irt_row has;
    if (!g->snap->run_id || !slave_graphs_get_or_open_store(gs, &err) ||
        !slave_store_get_summary_tables_state(gs->store, g->snap->run_id,
                                              &has) ||
        has.key != g->snap->key || has.procedures)
        return; /* the rows cannot be stored, or are stored already */
    int rc = slave_proc_table_make(g->profile_cache, &g->b, "", "",
                                   SLAVE_BY_PROCEDURE, &t, &err);
    if (rc == 0) {
        struct slave_procedure_row *rows =
            calloc((size_t)t.row_count + 1, sizeof(*rows));
        for (uint32_t i = 0; rows && i < t.row_count; i++) {
            const struct slave_proc_row *r = &t.rows[i];
            const struct slave_proc_symbol *s = &t.names.symbols[r->symbol];
            rows[i] = (struct slave_procedure_row){
                .process = r->process,
                .process_name = g->b.procs[r->process].name,
                .name = s->name,
                .name_len = s->name_len,
                .module = s->module,
                .file = s->file,
                .file_len = s->file_len,
                .source_line = s->source_line,
                .self_ns = r->self_ns,
                .total_ns = r->total_ns,
                .samples = r->samples,
                .calls = r->calls,
                .exact = r->exact};
        }
        if (rows)
            rc = slave_store_replace_procedures(gs->store, g->snap->run_id,
                                                g->snap->key, rows, t.row_count,
                                                &err);
        ips_free_large(rows);
        slave_proc_table_release(&t);
    }
    if (rc < 0)
        ips_log_warn("run %s: procedures not stored: %s", g->snap->run,
                     err.msg);
}

int slave_graph_make_profile_cache_if_missing(struct slave_graphs *gs,
                                              struct slave_graph *g,
                                              struct ips_err *err)
{
    /* build input; stays empty if the run has no samples, entries or counts */
    struct slave_input in = {0};
    if (g->profile_cache) {
        store_procedure_rows_unless_stored(gs, g);
        return 0;
    }
    struct slave_profile_cache *c = calloc(1, sizeof(*c));
    if (!c)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    int rc = g->b.counts.code
                 ? slave_input_fill_from_snapshot(gs, g->snap, &in, err)
                 : 0;
    if (rc == 0)
        rc = ips_procs_make_profile_by_code_location(&in.in, &g->b, &c->p, err);
    slave_input_release(gs, &in);
    /* drop the records of a closed run: usually nothing else needs them */
    if (g->snap->closed)
        slave_records_drop(&gs->records, g->snap->run);
    if (rc == 0)
        rc = slave_graph_fill_symbol_names_of_map(gs, g, &c->p.map, &c->names,
                                                  err);
    if (rc < 0) {
        slave_profile_cache_free(c);
        return ips_err_wrap(err, rc, "run %s", g->snap->run);
    }
    g->profile_cache = c;
    store_procedure_rows_unless_stored(gs, g);
    return 0;
}

void slave_profile_cache_free(struct slave_profile_cache *c)
{
    if (!c)
        return;
    ips_procs_release(&c->p);
    slave_symbols_release(&c->names);
    ips_free_large(c);
}
