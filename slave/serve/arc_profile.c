/* Answers PortionsAsk: divides the time of every arc of a graph by procedure.
 * The replies have the symbols first, then callers and lock times if they were
 * asked for, then the shares of the arc into each node. If the request has a
 * window (window.h), only the parts of arcs in the window count, and the
 * replies also have the times of nodes relative to the window. */
#include <stdlib.h>
#include <string.h>

#include "slave/build/internal.h"
#include "slave/profile/callers.h"
#include "slave/profile/window.h"
#include "slave/serve/procs.h"
#include "slave/symbols/arc_procs.h"

/* maximum number of symbols in a reply; a symbol has at most 5.1 KB */
#define PIECE_SYMBOLS 1024u

struct arc_profile {
    struct slave_proc_names names;
    struct slave_arc_pool_profiles mixes;
    uint32_t sent_symbols;
    struct slave_callers callers; /* callers and lock times; empty unless the
                                     request asks for them */
    uint32_t sent_callers;
    bool sent_locks;
    uint32_t *locks; /* four columns of lock times in the reply, one after the
                        other */
    uint64_t *lock_ns;
    /* the next arc to send leads to `node`, of chain `chain` */
    uint32_t chain, node;
    char *texts; /* symbol texts of the page */
    B_ARRAY(uint32_t) of_node;
    B_ARRAY(uint32_t) of_symbol;
    B_ARRAY(uint64_t) ns;
    uint32_t begun; /* index in `ns` of the current arc's first share */
    /* windowed: the request has a window; cpu: only CPU time is wanted */
    bool windowed, cpu;
    struct slave_arc_clip cut;
    /* Set only if `windowed`: the nodes after the window's start, and the ns
     * from the window's end and start to each node (see PortionsAnswer). */
    B_ARRAY(uint32_t) window_node;
    B_ARRAY(uint64_t) ns_after_window_end;
    B_ARRAY(uint64_t) ns_after_window_start;
    int rc;
    struct ips_err *err;
};

void slave_arc_profile_release(struct slave_graph_ask *j)
{
    struct arc_profile *p = j->arc_profile;
    if (!p)
        return;
    slave_proc_names_release(&p->names);
    slave_arc_pool_profiles_release(&p->mixes);
    slave_callers_release(&p->callers);
    free(p->locks);
    free(p->lock_ns);
    ips_free_large(p->texts);
    ips_free_large(p->of_node.v);
    ips_free_large(p->of_symbol.v);
    ips_free_large(p->ns.v);
    ips_free_large(p->window_node.v);
    ips_free_large(p->ns_after_window_end.v);
    ips_free_large(p->ns_after_window_start.v);
    slave_arc_clip_release(&p->cut);
    ips_free_large(p);
    j->arc_profile = NULL;
}

static int prepare_data_of_arc_profile(struct slave_graph_ask *j,
                                       struct slave_graphs *gs)
{
    int rc =
        slave_graph_make_profile_cache_if_missing(gs, j->graph, &j->job.err);
    if (rc < 0)
        return rc;
    struct arc_profile *p = j->arc_profile = calloc(1, sizeof(*p));
    if (!p)
        return ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
    p->err = &j->job.err;
    rc = slave_proc_names_number_procedures(
        j->graph->profile_cache, SLAVE_BY_PROCEDURE, &p->names, p->err);
    if (rc == 0)
        rc = slave_arc_pool_profiles_make(j->graph->profile_cache, &p->names,
                                          &p->mixes, p->err);
    const Ips__PortionsAsk *ask = slave_graph_get_request(j)->portions;
    if (rc == 0 && ask->callers)
        rc = slave_callers_make_pairs_and_lock_times(
            j->graph->profile_cache, &p->names, &p->callers, p->err);
    p->windowed = ask->lane != NULL;
    p->cpu = ask->cpu;
    if (rc < 0 || !p->windowed)
        return rc;
    const struct ips_scenario scenario = slave_scenario_from_wire(ask->lane);
    return slave_arc_clip_init(&p->cut, &j->graph->profile_cache->p.arcs,
                               &j->graph->b, &scenario, ask->from_ns,
                               ask->to_ns, p->err);
}

static int fill_symbols_page(struct slave_graph_ask *j, Ips__PortionsAnswer *a)
{
    struct arc_profile *p = j->arc_profile;
    uint32_t left = p->names.symbol_count - p->sent_symbols;
    uint32_t n = left < PIECE_SYMBOLS ? left : PIECE_SYMBOLS;
    const struct slave_proc_symbol *from = p->names.symbols + p->sent_symbols;
    size_t bytes = 1;
    for (uint32_t i = 0; i < n; i++)
        bytes += (size_t)from[i].name_len + from[i].file_len + 2;
    ips_free_large(p->texts);
    char *texts = p->texts = malloc(bytes);
    Ips__PortionSymbol *rows =
        slave_graph_reallocate_answer_rows(j, n, sizeof(*rows));
    if (!texts || !rows)
        return ips_err_set(p->err, IPS_E_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < n; i++) {
        ips__portion_symbol__init(&rows[i]);
        rows[i].name = slave_procs_copy_text_and_advance(&texts, from[i].name,
                                                         from[i].name_len);
        rows[i].file = slave_procs_copy_text_and_advance(&texts, from[i].file,
                                                         from[i].file_len);
        rows[i].module = ips_unconst_text(from[i].module);
        rows[i].line = from[i].source_line;
    }
    a->symbols = (Ips__PortionSymbol **)(void *)j->ptrs;
    a->n_symbols = n;
    p->sent_symbols += n;
    return 0;
}

static void fill_callers_page(struct arc_profile *p, Ips__PortionsAnswer *a)
{
    struct slave_callers *c = &p->callers;
    uint32_t at = p->sent_callers, left = c->count - at;
    uint32_t n = left < IPS_PIECE_ITEMS / 2 ? left : IPS_PIECE_ITEMS / 2;
    a->n_caller_leaf = a->n_caller = a->n_caller_ns = a->n_caller_steps = n;
    a->caller_leaf = c->leaf + at;
    a->caller = c->caller + at;
    a->caller_ns = c->ns + at;
    a->caller_steps = c->steps + at;
    p->sent_callers += n;
}

/* Sends the lock times in one page, and at most IPS_PIECE_ITEMS / 2 of them:
 * there are only a few for each procedure that takes a lock. */
static int fill_lock_times_page(struct arc_profile *p, Ips__PortionsAnswer *a)
{
    const struct slave_callers *c = &p->callers;
    const uint32_t n = ips_min_u32(c->lock_count, IPS_PIECE_ITEMS / 2);
    p->locks = calloc((size_t)n * 4 + 1, sizeof(*p->locks));
    p->lock_ns = calloc((size_t)n + 1, sizeof(*p->lock_ns));
    if (!p->locks || !p->lock_ns)
        return ips_err_set(p->err, IPS_E_NO_MEMORY, "out of memory");
    a->lock_leaf = p->locks;
    a->lock_site = p->locks + n;
    a->lock_caller = p->locks + 2 * (size_t)n;
    a->lock_how = p->locks + 3 * (size_t)n;
    a->lock_ns = p->lock_ns;
    for (uint32_t i = 0; i < n; i++) {
        a->lock_leaf[i] = c->lock[i].leaf;
        a->lock_site[i] = c->lock[i].site;
        a->lock_caller[i] = c->lock[i].caller;
        a->lock_how[i] = c->lock[i].how;
        a->lock_ns[i] = c->lock[i].ns;
    }
    a->n_lock_leaf = a->n_lock_site = a->n_lock_caller = n;
    a->n_lock_how = a->n_lock_ns = n;
    p->sent_locks = true;
    return 0;
}

static void append_share_of_arc(struct arc_profile *p, uint32_t symbol,
                                uint64_t ns)
{
    p->rc = B_MORE(p->of_node, p->err);
    if (p->rc == 0)
        p->rc = B_MORE(p->of_symbol, p->err);
    if (p->rc == 0)
        p->rc = B_MORE(p->ns, p->err);
    if (p->rc < 0)
        return;
    p->of_node.v[p->of_node.n++] = p->node;
    p->of_symbol.v[p->of_symbol.n++] = symbol;
    p->ns.v[p->ns.n++] = ns;
}

/* Callback of slave_arc_split_by_procedure: adds a procedure's share of the
 * current arc. Several calls for one procedure add up to one share. */
static void append_or_add_to_share_of_arc(void *arg, uint32_t symbol,
                                          uint64_t ns)
{
    struct arc_profile *p = arg;
    if (symbol == IPS_NONE || ns == 0 || p->rc < 0)
        return;
    for (uint32_t i = p->begun; i < p->ns.n; i++) {
        if (p->of_symbol.v[i] == symbol) {
            p->ns.v[i] += ns;
            return;
        }
    }
    append_share_of_arc(p, symbol, ns);
}

/* Adds the shares of the current arc in the window: its CPU time there, split
 * by procedure by the samples in the window, and the rest without a symbol. */
static void add_windowed_arc_shares(struct slave_graph_ask *j)
{
    struct arc_profile *p = j->arc_profile;
    const struct ips_graph *g = &j->graph->b.g;
    uint64_t left = slave_arc_clip_chain_arc_ns(&p->cut, p->chain, p->node);
    uint64_t cpu =
        ips_min_u64(left, slave_arc_cpu_ns_in_window(p->cut.arcs, g, p->chain,
                                                     p->node, p->cut.local));
    if (cpu)
        slave_arc_split_by_procedure(
            j->graph->profile_cache, &p->names, &p->mixes, g, p->chain, p->node,
            cpu, p->cut.local, append_or_add_to_share_of_arc, p);
    if (p->cpu)
        left = cpu;
    for (uint32_t i = p->begun; i < p->ns.n; i++)
        left = ips_sub_sat(left, p->ns.v[i]);
    if (left && p->rc == 0)
        append_share_of_arc(p, IPS_NONE, left);
}

static void append_node_ns_after_window_edges(struct arc_profile *p)
{
    uint64_t past, since;
    slave_arc_clip_get_node_ns_past_edges(&p->cut, p->node, &past, &since);
    if (since == 0 || p->rc < 0)
        return;
    p->rc = B_MORE(p->window_node, p->err);
    if (p->rc == 0)
        p->rc = B_MORE(p->ns_after_window_end, p->err);
    if (p->rc == 0)
        p->rc = B_MORE(p->ns_after_window_start, p->err);
    if (p->rc < 0)
        return;
    p->window_node.v[p->window_node.n++] = p->node;
    p->ns_after_window_end.v[p->ns_after_window_end.n++] = past;
    p->ns_after_window_start.v[p->ns_after_window_start.n++] = since;
}

static int fill_arc_shares_page(struct slave_graph_ask *j,
                                Ips__PortionsAnswer *a)
{
    struct arc_profile *p = j->arc_profile;
    const struct ips_graph *g = &j->graph->b.g;
    p->of_node.n = p->of_symbol.n = p->ns.n = 0;
    p->window_node.n = p->ns_after_window_end.n = p->ns_after_window_start.n =
        0;
    while (p->rc == 0 && p->node < g->node_count &&
           p->ns.n + p->window_node.n < IPS_PIECE_ITEMS) {
        const struct ips_chain *c = &g->chains[p->chain];
        if (p->node >= c->first + c->count) {
            p->chain++;
            continue;
        }
        p->begun = p->ns.n;
        if (p->windowed)
            append_node_ns_after_window_edges(p);
        if (p->windowed && p->node > c->first)
            add_windowed_arc_shares(j);
        else if (p->node > c->first && g->w[p->node])
            slave_arc_split_by_procedure(j->graph->profile_cache, &p->names,
                                         &p->mixes, g, p->chain, p->node,
                                         g->w[p->node], SLAVE_WINDOW_ALL,
                                         append_or_add_to_share_of_arc, p);
        p->node++;
    }
    a->n_node = a->n_symbol = a->n_ns = p->ns.n;
    a->node = p->of_node.v;
    a->symbol = p->of_symbol.v;
    a->ns = p->ns.v;
    a->n_stands_node = a->n_past_ns = a->n_since_ns = p->window_node.n;
    a->stands_node = p->window_node.v;
    a->past_ns = p->ns_after_window_end.v;
    a->since_ns = p->ns_after_window_start.v;
    return p->rc;
}

void slave_answer_arc_profile_request(struct slave_job *job,
                                      struct slave_graphs *gs)
{
    struct slave_graph_ask *j = slave_graph_ask_of_job(job);
    Ips__PortionsAnswer *a = &j->answer.arc_profile;
    int rc = slave_graph_use_generation_and_verify(
        j, gs, slave_graph_get_request(j)->portions->generation);
    if (rc == 0 && !j->arc_profile)
        rc = prepare_data_of_arc_profile(j, gs);
    ips__portions_answer__init(a);
    if (rc == 0 &&
        j->arc_profile->sent_symbols < j->arc_profile->names.symbol_count)
        rc = fill_symbols_page(j, a);
    else if (rc == 0 &&
             j->arc_profile->sent_callers < j->arc_profile->callers.count)
        fill_callers_page(j->arc_profile, a);
    else if (rc == 0 && !j->arc_profile->sent_locks &&
             j->arc_profile->callers.lock_count)
        rc = fill_lock_times_page(j->arc_profile, a);
    else if (rc == 0)
        rc = fill_arc_shares_page(j, a);
    if (rc < 0) {
        slave_job_fail(job);
        return;
    }
    job->finished =
        j->arc_profile->sent_symbols == j->arc_profile->names.symbol_count &&
        j->arc_profile->node >= j->graph->b.g.node_count;
    job->reply.answer_case = IPS__REPLY__ANSWER_PORTIONS;
    job->reply.portions = a;
}
