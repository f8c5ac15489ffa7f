/* The calls of an incremental build (build/incremental/grow.h). */
#include "slave/build/incremental/state.h"

void g_add_or_subtract_counts(struct ips_build_counts *a,
                              const struct ips_build_counts *b, bool minus)
{
    uint64_t *x = (uint64_t *)(void *)a;
    const uint64_t *y = (const uint64_t *)(const void *)b;
    for (size_t i = 0; i < sizeof(*a) / sizeof(*x); i++)
        x[i] = minus ? x[i] - y[i] : x[i] + y[i];
}

void ips_build_incremental_free(struct b_incremental *k)
{
    if (!k)
        return;
    for (uint32_t c = 0; k->chains && c < k->built.g.chain_count; c++) {
        ips_free_large(k->chains[c].raw.memory);
        ips_free_large(k->chains[c].windows.v);
    }
    for (uint32_t i = 0; k->ends && i < k->built.end_count; i++)
        ips_free_large(k->ends[i].reads.v);
    ips_free_large(k->chains);
    ips_free_large(k->ends);
    ips_free_large(k->streams);
    ips_free_large(k->rows);
    ips_free_large(k->procs);
    ips_free_large(k->end_rows);
    ips_free_large(k->traffic);
    ips_free_large(k->traffic_last);
    ips_free_large(k->let_go);
    ips_free_large(k->used);
    ips_free_large(k->names);
    ips_free_large(k->spun.v);
    ips_free_large(k->roomless.v);
    ips_free_large(k->bent.v);
    g_free_columns(k);
    b_free_build(&k->b);
    ips_built_release(&k->built);
    ips_free_large(k);
}

/* ---- reports of the passes ---- */

void b_incremental_add_delay_window(struct build *b, uint32_t c,
                                    const struct b_delay_span *w)
{
    struct g_chain *x = &b->incremental->chains[c];
    if (w->node < x->raw.from) /* the window begins before the nodes with saved
                                  columns, so the border cannot be there */
        return;
    if (B_MORE(x->windows, NULL) < 0)
        b->broken = true;
    else
        x->windows.v[x->windows.n++] = *w;
}

void b_incremental_add_lowered(struct build *b, uint32_t node, uint32_t by)
{
    struct b_incremental *k = b->incremental;
    if (k->bent.n >= G_BENT_MOST || B_MORE(k->bent, NULL) < 0)
        b->broken = true;
    else
        k->bent.v[k->bent.n++] = (struct g_bent){node, by};
}

void b_incremental_note_close_of_traffic_end(struct build *b, uint32_t traffic)
{
    struct b_incremental *k = b->incremental;
    if (k->let_go && traffic < k->traffic_count)
        k->let_go[traffic] = 1;
}

void b_incremental_add_preempted(struct build *b, const struct b_send *send,
                                 uint64_t slept)
{
    struct b_incremental *k = b->incremental;
    if (B_MORE(k->roomless, NULL) < 0)
        b->broken = true;
    else
        k->roomless.v[k->roomless.n++] = (struct g_preempted_send){
            .node = send->node, .chain = send->chain, .slept = slept};
}

struct b_read *b_incremental_append_receive_slot(struct build *b, uint32_t end)
{
    struct g_end *e = &b->incremental->ends[end];
    if (B_MORE(e->reads, b->err) < 0)
        return NULL;
    return &e->reads.v[e->reads.n++];
}

bool b_incremental_find_traffic_row(const struct build *b, uint32_t end,
                                    uint32_t proc, uint32_t *row)
{
    for (uint32_t i = 0; i < b->out->traffic_count; i++)
        if (b->out->traffic[i].end == end &&
            b->out->traffic[i].process == proc) {
            *row = i;
            return true;
        }
    return false;
}

bool b_incremental_makes_only_tables(const struct build *b)
{
    return b->incremental->tables;
}

const struct ips_spun *b_incremental_get_final_spins(const struct build *b,
                                                     uint32_t *count)
{
    *count = b->incremental ? b->incremental->spun.n : 0;
    return *count ? b->incremental->spun.v : NULL;
}

/* ---- continuing the same run ---- */

static bool same_control(const struct ips_control *a,
                         const struct ips_control *b)
{
    struct ips_control x = *a, y = *b;
    /* ignore counters that change while the run goes on; a change of them does
     * not require a whole build */
    memset(x.lost, 0, sizeof(x.lost));
    memset(y.lost, 0, sizeof(y.lost));
    x.used_bytes = y.used_bytes = 0;
    x.spare_bytes = y.spare_bytes = 0;
    x.released_bytes = y.released_bytes = 0;
    x.has_pty_master = y.has_pty_master = 0;
    /* If only padding differs, the result is a needless whole build. */
    /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
    return memcmp(&x, &y, sizeof(x)) == 0;
}

static bool same_stream(const struct ips_stream_in *a,
                        const struct ips_stream_in *b)
{
    /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): as above */
    return memcmp(&a->head, &b->head, sizeof(a->head)) == 0 &&
           a->dead == b->dead && a->dead_status == b->dead_status &&
           a->dead_t_ns == b->dead_t_ns;
}

/* Replaces the input of the last call by `in`. False: `in` is not the same run
 * with the same streams, and nothing was replaced. */
static bool replace_input_if_continued(struct b_incremental *k,
                                       const struct ips_build_input *in)
{
    bool same = in->control && in->stream_count == k->in.stream_count &&
                in->machine == k->in.machine && !in->waits &&
                same_control(&k->control, in->control);
    for (uint32_t i = 0; same && i < in->stream_count; i++) {
        const struct b_stream *s = &k->b.streams[i];
        const struct ips_stream_in *now = in->streams + (s->in - k->streams);
        bool open = k->chains[s->chain].goes_on && s->next == IPS_NONE;
        same = same_stream(s->in, now) &&
               (open || now->chunk_count == s->in->chunk_count);
    }
    if (!same)
        return false;
    k->control = *in->control;
    g_memcpy(k->streams, in->streams, in->stream_count * sizeof(*in->streams));
    return true;
}

/* ---- new records ---- */

/* Whether a thread sent (received) at the end for the first time while another
 * thread receives (sends) there. Then a whole build may order the traffic rows
 * differently. */
static bool is_end_newly_used_by_second_thread(const struct b_end *e,
                                               const struct g_end *x)
{
    bool sends = !x->sends && e->sends.n,
         reads = !x->read_count && e->read_count;
    return (sends || reads) && e->send_op_chain != e->read_chain;
}

/* Whether only records came that the incremental build can add. */
static bool has_only_expected_changes(const struct b_incremental *k)
{
    const struct build *b = &k->b;
    if (b->events.n != k->event_count || b->dgrams.n != k->dgram_count ||
        b->holds.n != k->hold_count)
        return false;
    for (uint32_t i = 0; i < k->built.end_count; i++) {
        const struct b_end *e = &b->ends[i];
        const struct g_end *x = &k->ends[i];
        if (x->shut ? e->sends.n != x->sends || e->read_count != x->read_count
                    : e->send_many || e->read_many ||
                          is_end_newly_used_by_second_thread(e, x))
            return false;
    }
    for (uint32_t i = 0; i < k->traffic_count; i++)
        if (k->let_go[i] && b->traffic_last.v[i] != k->used[i])
            return false;
    return true;
}

/* Runs the passes after pass `node`, for the nodes after the borders. */
static int run_passes_after_nodes(struct b_incremental *k)
{
    struct build *b = &k->b;
    struct ips_graph *g = &k->built.g;
    uint64_t newest = g_newest_record_ns(k);
    for (uint32_t c = 0; c < g->chain_count; c++)
        k->chains[c].old = g_first_young_node(k, c, newest);
    int rc = g_match_open_sends_and_receives(k);
    g_add_or_subtract_counts(&k->built.counts, &k->matched, false);
    if (rc < 0 || b->broken)
        return rc;
    b_set_coords_of_end_nodes(b);
    b_limit_coords_by_clock(b);
    rc = b_mark_ends_with_remote_peers(b);
    if (rc == 0)
        rc = k->tables ? g_make_table_weights(k) : b_make_weights(b);
    b->broken |= b->backwards;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t from = b_first_open_node(b, c),
                 end = g->chains[c].first + g->chains[c].count;
        memset(g->delay + from, 0, (end - from) * sizeof(*g->delay));
        k->chains[c].windows.n = 0;
    }
    if (rc == 0 && !b->broken && k->tables)
        b_distribute_run_delays(b); /* tables need no other part of
                                       b_make_times_fit_arcs() */
    if (rc == 0 && !b->broken && !k->tables)
        rc = b_make_times_fit_arcs(b);
    if (rc == 0 && !b->broken)
        rc = b_fill_names_and_root(b);
    return rc == 0 && !b->broken && !k->tables ? b_list_waits_without_waker(b)
                                               : rc;
}

static void count_new_records_and_nodes(const struct b_incremental *k,
                                        uint64_t events,
                                        struct ips_build_effort *took)
{
    const struct ips_graph *g = &k->built.g;
    took->records = k->built.counts.events - events;
    took->nodes = 0;
    for (uint32_t c = 0; c < g->chain_count; c++)
        took->nodes += g->chains[c].first + g->chains[c].count -
                       b_first_open_node(&k->b, c);
}

/* Continues the build. *out (if not NULL) is valid if the function returns 0
 * and b->broken is false. */
static int continue_build(struct b_incremental *k, struct ips_built *out,
                          struct ips_build_effort *took)
{
    struct build *b = &k->b;
    uint64_t events = k->counts.events;
    g_restore_saved_rows_and_counts(k);
    k->roomless.n = k->bent.n = 0;
    int rc = g_scan_new_records(k);
    if (rc == 0 && !b->broken)
        rc = g_make_nodes_of_new_records(k);
    /* Only a whole build makes the arcs of polls, so a new poll forces one. */
    b->broken |= b->polls.n > 0;
    if (rc < 0 || b->broken || !has_only_expected_changes(k)) {
        b->broken = true;
        return rc;
    }
    rc = run_passes_after_nodes(k);
    if (rc < 0 || b->broken)
        return rc;
    count_new_records_and_nodes(k, events, took);
    return out ? g_copy_result(k, out) : 0;
}

/* ---- one call of an incremental build ---- */

static int start_build(struct b_incremental **kept,
                       const struct ips_build_input *in, uint64_t lag_ns,
                       bool tables, struct ips_err *err)
{
    struct b_incremental *k = b_calloc(1, sizeof(*k), err);
    if (!k)
        return IPS_E_NO_MEMORY;
    *kept = k;
    k->lag_ns = lag_ns;
    k->tables = tables;
    k->in = *in;
    k->control = *in->control;
    k->streams = b_calloc(in->stream_count, sizeof(*k->streams), err);
    if (!k->streams)
        return IPS_E_NO_MEMORY;
    if (in->stream_count)
        g_memcpy(k->streams, in->streams,
                 in->stream_count * sizeof(*k->streams));
    k->in.control = &k->control;
    k->in.streams = k->streams;
    ips_graph_init(&k->built.g);
    k->b = (struct build){
        .in = &k->in, .out = &k->built, .err = err, .incremental = k};
    return b_run_passes(&k->b);
}

static int build_without_state(const struct ips_build_input *in,
                               struct ips_built *out,
                               struct ips_build_effort *took,
                               struct ips_err *err)
{
    int rc = out ? ips_build(in, out, err) : 0;
    took->records = rc < 0 || !out ? 0 : out->counts.events;
    took->nodes = rc < 0 || !out ? 0 : out->g.node_count;
    return rc;
}

/* Builds the whole run. If the build cannot be continued later, *kept is NULL
 * afterwards. */
static int build_whole(struct b_incremental **kept,
                       const struct ips_build_input *in, uint64_t lag_ns,
                       bool tables, struct ips_built *out,
                       struct ips_build_effort *took, struct ips_err *err)
{
    if (!in->control || in->waits)
        return build_without_state(in, out, took, err);
    struct ips_err ignored;
    int rc = start_build(kept, in, lag_ns, tables, &ignored);
    struct b_incremental *k = *kept;
    bool fine = rc == 0 && !k->b.broken && !k->b.backwards;
    if (fine) {
        count_new_records_and_nodes(k, 0, took);
        rc = out ? g_copy_result(k, out) : 0;
        fine = rc == 0;
    }
    if (fine && k->built.open && !k->b.polls.n && !k->b.packets.n &&
        !k->b.unfinished_sends.n && !k->b.doubtful && g_init_state(k) == 0 &&
        !k->b.broken && g_finalize_nodes_before_borders(k) == 0 && !k->b.broken)
        return 0;
    ips_build_incremental_free(k);
    *kept = NULL;
    return fine ? 0 : build_without_state(in, out, took, err);
}

int ips_build_new_records_if_possible(struct b_incremental **kept,
                                      const struct ips_build_input *in,
                                      struct ips_built *out,
                                      struct ips_build_effort *took, bool *done,
                                      struct ips_err *err)
{
    struct b_incremental *k = *kept;
    int rc = 0;
    *took = (struct ips_build_effort){0};
    *done = false;
    if (k && replace_input_if_continued(k, in)) {
        k->b.err = err;
        rc = continue_build(k, out, took);
        *done = rc == 0 && !k->b.broken;
    }
    if (!*done || g_finalize_nodes_before_borders(k) < 0 || k->b.broken) {
        ips_build_incremental_free(k);
        *kept = NULL;
    }
    return rc;
}

int ips_build_new_records_or_whole_run(struct b_incremental **kept,
                                       const struct ips_build_input *in,
                                       uint64_t lag_ns, struct ips_built *out,
                                       struct ips_build_effort *took,
                                       struct ips_err *err)
{
    struct ips_err ignored;
    bool done;
    int rc =
        ips_build_new_records_if_possible(kept, in, out, took, &done, &ignored);
    if (rc == 0 && done)
        return 0;
    rc = build_whole(kept, in, lag_ns, false, out, took, err);
    took->whole = true;
    return rc;
}

/* ---- tables alone ---- */

/* Drops the pointers to records that were read, because the caller may free the
 * records. */
static void clear_record_pointers(struct b_incremental *k)
{
    for (uint32_t i = 0; i < k->in.stream_count; i++) {
        k->streams[i].chunks = NULL;
        k->streams[i].chunk_count = 0;
        k->streams[i].types = NULL;
    }
    for (uint32_t c = 0; c < k->built.g.chain_count; c++) {
        k->chains[c].walk.chunk = 0;
        k->chains[c].bytes = 0;
    }
}

int ips_build_tables_of_whole_run(struct b_incremental **kept,
                                  const struct ips_build_input *in,
                                  uint64_t lag_ns,
                                  struct ips_build_effort *took,
                                  struct ips_err *err)
{
    *took = (struct ips_build_effort){0};
    int rc = build_whole(kept, in, lag_ns, true, NULL, took, err);
    took->whole = true;
    if (!*kept)
        return rc;
    clear_record_pointers(*kept);
    (*kept)->b.tables = true;
    return rc;
}

int ips_add_new_records_to_tables(struct b_incremental **kept,
                                  const struct ips_build_input *news,
                                  struct ips_build_effort *took, bool *done,
                                  struct ips_err *err)
{
    int rc =
        ips_build_new_records_if_possible(kept, news, NULL, took, done, err);
    /* if *kept is NULL, the tables were freed with it */
    *done &= *kept != NULL;
    if (*kept)
        clear_record_pointers(*kept);
    return rc;
}

const struct ips_built *
ips_get_incremental_tables(const struct b_incremental *kept)
{
    return &kept->built;
}
