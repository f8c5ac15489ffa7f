/* Answers ProfileAsk: the CPU time, within a window, of pieces of chains (runs
 * of successive arcs) or of whole chains, by procedure, and as a sequence of
 * steps (successive arcs spent in one procedure). */
#include <stdlib.h>
#include <string.h>

#include "slave/build/internal.h"
#include "slave/profile/arc_sum.h"
#include "slave/profile/window.h"
#include "slave/serve/procs.h"

/* maximum number of procedures (codes) in a reply; each has at most 5.1 KB */
#define PIECE_CODES 1024u

struct procedure_step {
    /* code: 1 + index of the procedure in `codes`; 0: unsampled */
    uint32_t piece, code;
    uint64_t ns;
};

struct profile {
    struct slave_arc_sum sum;
    /* profile made from `sum`, from which the rows of the answer are made */
    struct slave_profile_cache profile_cache;
    bool have_costs;
    struct slave_proc_names names; /* procedure names, for the steps */
    struct slave_arc_pool_profiles mixes;
    /* the window to which the times of arcs are cut */
    struct slave_arc_clip cut;
    uint64_t *piece_ns, *piece_weight_ns;
    uint32_t piece_count;
    B_ARRAY(struct procedure_step) steps;
    B_ARRAY(uint32_t) codes; /* symbol number of each procedure in the answer */
    /* [symbols] 1 + index of each symbol in `codes`; 0: not in there yet */
    uint32_t *code_of;
    uint32_t sent_codes, sent_pieces, sent_steps;
    char *texts;
    /* [2 * IPS_PIECE_ITEMS] columns of steps in a reply */
    uint32_t *step_columns;
    uint64_t *step_ns;
    Ips__ProcedureTotals totals;
    uint64_t alike_ns, delay_ns;
};

void slave_profile_release(struct slave_graph_ask *j)
{
    struct profile *p = j->profile;
    if (!p)
        return;
    slave_arc_sum_release(&p->sum);
    if (p->have_costs)
        slave_arc_profile_free(&p->profile_cache);
    slave_proc_names_release(&p->names);
    slave_arc_pool_profiles_release(&p->mixes);
    slave_arc_clip_release(&p->cut);
    ips_free_large(p->piece_ns);
    ips_free_large(p->piece_weight_ns);
    ips_free_large(p->steps.v);
    ips_free_large(p->codes.v);
    ips_free_large(p->code_of);
    ips_free_large(p->texts);
    ips_free_large(p->step_columns);
    ips_free_large(p->step_ns);
    ips_free_large(p);
    j->profile = NULL;
}

/* ---- computing the profile ---- */

static int intern_symbol_code(struct profile *p, uint32_t symbol,
                              uint32_t *code, struct ips_err *err)
{
    *code = 0;
    if (symbol == IPS_NONE)
        return 0;
    if (!p->code_of[symbol]) {
        int rc = B_MORE(p->codes, err);
        if (rc < 0)
            return rc;
        p->codes.v[p->codes.n++] = symbol;
        p->code_of[symbol] = p->codes.n;
    }
    *code = p->code_of[symbol];
    return 0;
}

/* Adds the arc that leads to `node`, with `ns` of CPU time, to the last step if
 * the arc has the same piece and procedure; else adds a new step. */
static int add_arc_to_last_or_new_step(struct slave_graph_ask *j,
                                       uint32_t piece, uint32_t chain,
                                       uint32_t node, uint64_t ns)
{
    struct profile *p = j->profile;
    uint32_t code;
    uint32_t symbol =
        slave_arc_find_main_procedure(j->graph->profile_cache, &p->names,
                                      &p->mixes, &j->graph->b.g, chain, node);
    int rc = intern_symbol_code(p, symbol, &code, &j->job.err);
    struct procedure_step *last =
        p->steps.n ? &p->steps.v[p->steps.n - 1] : NULL;
    if (rc == 0 && last && last->piece == piece && last->code == code) {
        last->ns += ns;
        return 0;
    }
    if (rc == 0)
        rc = B_MORE(p->steps, &j->job.err);
    if (rc == 0)
        p->steps.v[p->steps.n++] = (struct procedure_step){piece, code, ns};
    return rc;
}

/* Computes the piece's weight in the window, in ns and at most its limit in the
 * request; stores and returns it. If the request has no scenario (`lane`),
 * returns the limit (UINT64_MAX: none) and stores nothing. */
static uint64_t compute_and_store_piece_weight(struct slave_graph_ask *j,
                                               uint32_t piece, uint32_t chain,
                                               uint32_t from, uint32_t to)
{
    const Ips__ProfileAsk *ask = slave_graph_get_request(j)->profile;
    uint64_t ns = 0;
    if (!ask->lane)
        return piece < ask->n_most ? ask->most[piece] : UINT64_MAX;
    for (uint32_t node = from + 1; node <= to; node++) {
        const struct slave_arc_clip *cut = &j->profile->cut;
        ns = ips_add_sat(ns, slave_arc_clip_chain_arc_ns(cut, chain, node));
        j->profile->delay_ns = ips_add_sat(
            j->profile->delay_ns, slave_arc_clip_run_delay_ns(cut, node));
    }
    if (piece < ask->n_most)
        ns = ips_min_u64(ns, ask->most[piece]);
    j->profile->piece_weight_ns[piece] = ns;
    return ns;
}

/* If the piece has more CPU time than `most`, returns true and prepares `share`
 * to divide `most` among its arcs. */
static bool init_split_of_limit_among_arcs_if_cpu_over(
    const struct slave_graph_ask *j, uint32_t piece, uint32_t chain,
    uint32_t from, uint32_t to, uint64_t most,
    struct slave_proportional_split *share)
{
    const struct slave_arc_clip *c = &j->profile->cut;
    uint64_t cpu = 0;
    for (uint32_t node = from + 1; most != UINT64_MAX && node <= to; node++)
        cpu = ips_add_sat(cpu, slave_arc_cpu_ns_in_window(c->arcs, c->g, chain,
                                                          node, c->local));
    if (cpu <= most)
        return false;
    slave_proportional_split_init(share, most, cpu, piece);
    return true;
}

/* Adds a piece: the chain arcs from node `from` to node `to`, which are of one
 * chain. */
static int add_chain_arcs_of_piece(struct slave_graph_ask *j, uint32_t piece,
                                   uint32_t chain, uint32_t from, uint32_t to)
{
    struct profile *p = j->profile;
    const struct slave_arc_clip *c = &p->cut;
    struct slave_proportional_split share;
    bool steps = slave_graph_get_request(j)->profile->steps;
    uint64_t most = compute_and_store_piece_weight(j, piece, chain, from, to);
    bool less = init_split_of_limit_among_arcs_if_cpu_over(
        j, piece, chain, from, to, most, &share);
    int rc = 0;
    for (uint32_t node = from + 1; rc == 0 && node <= to; node++) {
        uint64_t ns =
            less ? slave_proportional_split_compute_share(
                       &share, slave_arc_cpu_ns_in_window(c->arcs, c->g, chain,
                                                          node, c->local))
                 : slave_arc_sum_add_window_cpu_of_arc(&p->sum, chain, node,
                                                       c->local);
        if (less)
            slave_arc_sum_add_given_ns(&p->sum, chain, node, ns, c->local);
        p->piece_ns[piece] += ns;
        if (steps && ns)
            rc = add_arc_to_last_or_new_step(j, piece, chain, node, ns);
    }
    return rc;
}

/* Adds a piece that consists only of the cross arc into `node`. Its piece_ns is
 * 1 if the node is in the window, else 0. */
static void add_cross_piece(struct slave_graph_ask *j, uint32_t piece,
                            uint32_t node)
{
    const Ips__ProfileAsk *ask = slave_graph_get_request(j)->profile;
    struct profile *p = j->profile;
    p->piece_ns[piece] = slave_arc_clip_contains_node(&p->cut, node);
    if (ask->lane && piece < ask->n_most)
        p->piece_weight_ns[piece] =
            slave_arc_clip_cross_arc_ns(&p->cut, node, ask->most[piece]);
}

/* Adds the pieces of the request. Refuses invalid pieces, and pieces that
 * overlap, because each arc may count only once. */
static int check_and_add_requested_pieces(struct slave_graph_ask *j,
                                          const Ips__ProfileAsk *ask)
{
    const struct ips_graph *g = &j->graph->b.g;
    uint8_t *seen = b_calloc(g->node_count, 1, &j->job.err);
    int rc = seen ? 0 : IPS_E_NO_MEMORY;
    for (uint32_t i = 0; rc == 0 && i < ask->n_to; i++) {
        uint32_t from = ask->from[i], to = ask->to[i];
        bool fine = from <= to && to < g->node_count;
        uint32_t chain = fine ? ips_chain_of(g, to) : 0;
        fine = fine && from >= g->chains[chain].first;
        for (uint32_t n = from + 1; fine && n <= to; n++) {
            fine = !seen[n];
            seen[n] = 1;
        }
        if (!fine)
            rc = ips_err_set(&j->job.err, IPS_E_PROTOCOL,
                             "piece %u, nodes %u to %u, is none of one chain "
                             "and its own",
                             i, from, to);
        else if (from == to)
            add_cross_piece(j, i, to);
        else
            rc = add_chain_arcs_of_piece(j, i, chain, from, to);
    }
    ips_free_large(seen);
    return rc;
}

static int add_each_chain_as_piece(struct slave_graph_ask *j)
{
    const struct ips_graph *g = &j->graph->b.g;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < g->chain_count; i++)
        rc = add_chain_arcs_of_piece(j, i, i, g->chains[i].first,
                                     g->chains[i].first + g->chains[i].count -
                                         1);
    return rc;
}

static int prepare_names_and_memory_for_steps(struct slave_graph_ask *j)
{
    struct profile *p = j->profile;
    int rc = slave_proc_names_number_procedures(
        j->graph->profile_cache, SLAVE_BY_PROCEDURE, &p->names, &j->job.err);
    if (rc == 0)
        rc = slave_arc_pool_profiles_make(j->graph->profile_cache, &p->names,
                                          &p->mixes, &j->job.err);
    if (rc < 0)
        return rc;
    p->code_of =
        b_calloc(p->names.symbol_count, sizeof(*p->code_of), &j->job.err);
    p->step_columns =
        b_calloc(2 * IPS_PIECE_ITEMS, sizeof(*p->step_columns), &j->job.err);
    p->step_ns = b_calloc(IPS_PIECE_ITEMS, sizeof(*p->step_ns), &j->job.err);
    return p->code_of && p->step_columns && p->step_ns ? 0 : IPS_E_NO_MEMORY;
}

static void fill_profile_totals(struct slave_graph_ask *j)
{
    struct profile *p = j->profile;
    struct slave_arc_totals t;
    Ips__ProcedureTotals *out = &p->totals;
    ips__procedure_totals__init(out);
    slave_arc_sum_compute_totals(&p->sum, &t);
    out->cpu_ns = t.ns;
    out->sampled_ns = t.sampled_ns + t.exact_ns;
    out->exact_ns = t.exact_ns;
    out->unsampled_ns = t.unsampled_ns;
    out->samples = t.samples;
    out->squares = t.squares;
    p->alike_ns = t.alike_ns;
}

static int make_profile_totals_and_table(struct slave_graph_ask *j,
                                         const Ips__ProfileAsk *ask)
{
    struct profile *p = j->profile;
    int rc =
        slave_arc_sum_make_profile(&p->sum, &p->profile_cache, &j->job.err);
    p->have_costs = rc == 0;
    if (rc < 0)
        return rc;
    fill_profile_totals(j);
    j->procs = calloc(1, sizeof(*j->procs));
    if (!j->procs)
        return ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
    if (!*ask->by)
        return 0;
    return slave_proc_table_make(
        &p->profile_cache, &j->graph->b, "", "",
        strcmp(ask->by, "line") == 0 ? SLAVE_BY_LINE : SLAVE_BY_PROCEDURE,
        &j->procs->t, &j->job.err);
}

static int compute_and_store_profile(struct slave_graph_ask *j,
                                     struct slave_graphs *gs,
                                     const Ips__ProfileAsk *ask)
{
    const struct ips_built *b = &j->graph->b;
    const struct ips_scenario scenario = slave_scenario_from_wire(ask->lane);
    if (ask->n_from != ask->n_to || ask->n_to > UINT32_MAX ||
        (ask->n_most && (ask->n_most != ask->n_to || ask->whole)))
        return ips_err_set(&j->job.err, IPS_E_PROTOCOL,
                           "%zu begins of pieces, %zu ends, %zu limits",
                           ask->n_from, ask->n_to, ask->n_most);
    int rc =
        slave_graph_make_profile_cache_if_missing(gs, j->graph, &j->job.err);
    struct profile *p = rc == 0 ? calloc(1, sizeof(*p)) : NULL;
    if (rc < 0)
        return rc;
    if (!p)
        return ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
    j->profile = p;
    p->piece_count = ask->whole ? b->g.chain_count : (uint32_t)ask->n_to;
    p->piece_ns = b_calloc(p->piece_count, sizeof(*p->piece_ns), &j->job.err);
    p->piece_weight_ns =
        b_calloc(p->piece_count, sizeof(*p->piece_weight_ns), &j->job.err);
    if (!p->piece_ns || !p->piece_weight_ns)
        return IPS_E_NO_MEMORY;
    rc = slave_arc_clip_init(&p->cut, &j->graph->profile_cache->p.arcs, b,
                             &scenario, ask->from_ns, ask->to_ns, &j->job.err);
    if (rc == 0 && ask->steps)
        rc = prepare_names_and_memory_for_steps(j);
    if (rc == 0)
        rc = slave_arc_sum_init(&p->sum, j->graph->profile_cache, b,
                                &j->job.err);
    if (rc == 0)
        rc = ask->whole ? add_each_chain_as_piece(j)
                        : check_and_add_requested_pieces(j, ask);
    return rc == 0 ? make_profile_totals_and_table(j, ask) : rc;
}

/* ---- sending: each reply has one kind of list ---- */

static int fill_procedure_names_page(struct slave_graph_ask *j,
                                     Ips__ProfileAnswer *a)
{
    struct profile *p = j->profile;
    uint32_t n = (uint32_t)ips_min_u64(p->codes.n - p->sent_codes, PIECE_CODES);
    size_t bytes = 1;
    for (uint32_t i = 0; i < n; i++) {
        const struct slave_proc_symbol *s =
            &p->names.symbols[p->codes.v[p->sent_codes + i]];
        bytes += (size_t)s->name_len + s->file_len + 2;
    }
    ips_free_large(p->texts);
    char *texts = p->texts = malloc(bytes);
    Ips__Code *rows = slave_graph_reallocate_answer_rows(j, n, sizeof(*rows));
    if (!rows || !texts)
        return ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < n; i++) {
        const struct slave_proc_symbol *s =
            &p->names.symbols[p->codes.v[p->sent_codes + i]];
        ips__code__init(&rows[i]);
        rows[i].procedure =
            slave_procs_copy_text_and_advance(&texts, s->name, s->name_len);
        rows[i].file =
            slave_procs_copy_text_and_advance(&texts, s->file, s->file_len);
        rows[i].module = ips_unconst_text(s->module);
        rows[i].line = s->source_line;
    }
    a->codes = (Ips__Code **)(void *)j->ptrs;
    a->n_codes = n;
    p->sent_codes += n;
    return 0;
}

static void fill_chain_piece_times_page(struct profile *p, bool weighed,
                                        Ips__ProfileAnswer *a)
{
    a->piece_ns = p->piece_ns + p->sent_pieces;
    a->n_piece_ns =
        ips_min_u64(p->piece_count - p->sent_pieces, IPS_PIECE_ITEMS);
    if (weighed) {
        a->piece_weight_ns = p->piece_weight_ns + p->sent_pieces;
        a->n_piece_weight_ns = a->n_piece_ns;
    }
    p->sent_pieces += (uint32_t)a->n_piece_ns;
}

static void fill_step_page(struct profile *p, Ips__ProfileAnswer *a)
{
    size_t n = ips_min_u64(p->steps.n - p->sent_steps, IPS_PIECE_ITEMS);
    for (size_t i = 0; i < n; i++) {
        const struct procedure_step *s = &p->steps.v[p->sent_steps + i];
        p->step_columns[i] = s->piece;
        p->step_columns[IPS_PIECE_ITEMS + i] = s->code;
        p->step_ns[i] = s->ns;
    }
    a->step_piece = p->step_columns;
    a->step_code = p->step_columns + IPS_PIECE_ITEMS;
    a->step_ns = p->step_ns;
    a->n_step_piece = a->n_step_code = a->n_step_ns = n;
    p->sent_steps += (uint32_t)n;
}

static int fill_next_page_of_profile(struct slave_graph_ask *j,
                                     Ips__ProfileAnswer *a)
{
    struct profile *p = j->profile;
    if (j->at < j->procs->t.row_count)
        return slave_procs_fill_page(j, &a->rows, &a->n_rows);
    if (p->sent_codes < p->codes.n)
        return fill_procedure_names_page(j, a);
    if (p->sent_pieces < p->piece_count) {
        fill_chain_piece_times_page(
            p, slave_graph_get_request(j)->profile->lane != NULL, a);
    } else if (p->sent_steps < p->steps.n) {
        fill_step_page(p, a);
    } else {
        a->totals = &p->totals;
        a->alike_ns = p->alike_ns;
        a->delay_ns = p->delay_ns;
    }
    return 0;
}

void slave_answer_profile_request(struct slave_job *job,
                                  struct slave_graphs *gs)
{
    struct slave_graph_ask *j = slave_graph_ask_of_job(job);
    const Ips__ProfileAsk *ask = slave_graph_get_request(j)->profile;
    Ips__ProfileAnswer *a = &j->answer.profile;
    int rc = slave_graph_use_generation_and_verify(j, gs, ask->generation);
    if (rc == 0 && !j->procs)
        rc = compute_and_store_profile(j, gs, ask);
    ips__profile_answer__init(a);
    if (rc == 0)
        rc = fill_next_page_of_profile(j, a);
    if (rc < 0) {
        slave_job_fail(job);
        return;
    }
    job->finished = a->totals != NULL;
    job->reply.answer_case = IPS__REPLY__ANSWER_PROFILE;
    job->reply.profile = a;
}
