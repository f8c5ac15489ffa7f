/* Builds the graph from the records: runs the passes in order
 * (build/internal.h). */
#include "slave/build/internal.h"

int b_array_reserve(void **v, uint32_t n, uint32_t *room, size_t size,
                    struct ips_err *err)
{
    if (n >= UINT32_MAX / 2)
        return ips_err_set(err, IPS_E_LIMIT, "more than %u records of a kind",
                           n);
    uint32_t more = *room ? *room * 2 : 64;
    if (more <= n)
        more = n + 1;
    void *grown = ips_resize_large(*v, n * size, (size_t)more * size);
    if (!grown)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u records", more);
    *v = grown;
    *room = more;
    return 0;
}

void *b_calloc(size_t count, size_t size, struct ips_err *err)
{
    void *v = ips_calloc_large(count ? count : 1, size);
    if (!v)
        ips_err_set(err, IPS_E_NO_MEMORY, "%zu elements of %zu bytes", count,
                    size);
    return v;
}

int b_run_passes(struct build *b)
{
    b_set_progress(b, B_BUILT_READ);
    int rc = b_scan_all_streams(b);
    if (rc == 0)
        rc = b_make_processes_and_chains(b);
    if (rc == 0)
        rc = b_link_forks_and_joins(b);
    if (rc < 0)
        return rc;
    b_find_process_ends(b);
    rc = b_find_signal_causes(b);
    if (rc == 0)
        rc = b_list_unrecorded_processes(b);
    b->careful = b->out->untraced_count > 0;
    if (rc == 0)
        rc = b_make_channel_ends(b);
    if (rc == 0)
        rc = b_join_local_peers(b);
    if (rc == 0)
        rc = b_match_sync_records(b);
    if (rc == 0)
        rc = b_match_awaited_files(b);
    if (rc == 0)
        rc = b_find_child_tries(b);
    if (rc == 0)
        b_exclude_naps_before_own_trigger(b);
    if (rc == 0)
        rc = b_make_nodes(b);
    if (rc == 0)
        rc = b_find_end_releases(b);
    if (b->incremental)
        b_incremental_save_counts_and_arcs(b, false);
    if (rc == 0)
        rc = b_append_unfinished_sends_that_arrived(b);
    if (rc == 0)
        rc = b_match_streams(b);
    b_set_progress(b, B_BUILT_MATCH);
    if (rc == 0)
        rc = b_match_datagrams(b);
    if (rc < 0)
        return rc;
    b_make_eof_and_accept_arcs(b);
    rc = b_make_poll_arcs(b);
    if (rc < 0)
        return rc;
    b_restore_packet_bytes(b);
    b_make_lifetime_arcs(b);
    b_make_signal_arcs(b);
    b_make_job_stop_arcs(b);
    b_make_sync_arcs(b);
    b_make_awaited_file_arcs(b);
    b_make_child_try_arcs(b);
    if (b->incremental)
        b_incremental_save_counts_and_arcs(b, true);
    b_set_coords_of_end_nodes(b);
    b_limit_coords_by_clock(b);
    rc = b_mark_ends_with_remote_peers(b);
    if (rc == 0)
        rc = b_make_weights(b);
    b_set_progress(b, B_BUILT_WEIGHTS);
    if (rc == 0)
        rc = b->incremental ? 0 : b_break_cycles(b);
    if (rc == 0)
        rc = b_make_times_fit_arcs(b);
    if (rc == 0)
        rc = b_fill_names_and_root(b);
    if (rc == 0)
        rc = b_list_waits_without_waker(b);
    b_set_progress(b, B_BUILT_ALL);
    /* an incremental build calls ips_built_set_peers_and_remake_arcs() for each
     * copy of its result */
    if (rc < 0 || b->incremental)
        return rc;
    rc = b_store_remote_data(b, b->out);
    return rc < 0
               ? rc
               : ips_built_set_peers_and_remake_arcs(b->out, NULL, 0, b->err);
}

void b_free_build(struct build *b)
{
    ips_free_large(b->streams);
    ips_free_large(b->images);
    ips_free_large(b->procs);
    ips_free_large(b->chains);
    ips_free_large(b->forks.v);
    ips_free_large(b->joins.v);
    ips_free_large(b->syncs.v);
    ips_free_large(b->spins.v);
    ips_free_large(b->retries.v);
    ips_free_large(b->child_tries.v);
    ips_free_large(b->mades.v);
    ips_free_large(b->nap_runs.v);
    ips_free_large(b->unended.v);
    ips_free_large(b->vains.v);
    ips_free_large(b->unfinished_sends.v);
    ips_free_large(b->packets.v);
    ips_free_large(b->polls.v);
    ips_free_large(b->cpus.v);
    ips_free_large(b->unseens.v);
    ips_free_large(b->chans.v);
    ips_free_large(b->kills.v);
    ips_free_large(b->takings.v);
    ips_free_large(b->job_stops.v);
    ips_free_large(b->job_stopped.v);
    ips_free_large(b->ends);
    ips_free_large(b->plain);
    for (uint32_t i = 0; i < b->slabs.n; i++)
        ips_free_large(b->slabs.v[i]);
    ips_free_large(b->slabs.v);
    ips_free_large(b->blocks.v);
    ips_free_large(b->long_reads.v);
    ips_free_large(b->reads);
    ips_free_large(b->dgrams.v);
    ips_free_large(b->events.v);
    ips_free_large(b->exts.v);
    ips_free_large(b->holds.v);
    ips_free_large(b->releases.v);
    ips_free_large(b->outs.v);
    ips_free_large(b->traffic_last.v);
    ips_free_large(b->flows);
    ips_free_large(b->cpu_at);
    ips_free_large(b->off);
    ips_free_large(b->far);
    ips_free_large(b->arcs.v);
    ips_free_large(b->fitted.v);
    ips_free_large(b->asked);
    ips_free_large(b->used);
    ips_free_large(b->uses.v);
    ips_free_large(b->early);
    ips_free_large(b->delays.v);
    ips_free_large(b->notes);
    ips_free_large(b->from);
    ips_free_large(b->coord);
}

int ips_build(const struct ips_build_input *in, struct ips_built *out,
              struct ips_err *err)
{
    memset(out, 0, sizeof(*out));
    ips_graph_init(&out->g);
    struct build b = {.in = in, .out = out, .err = err};
    int rc = b_init_wait_notes_if_wanted(&b);
    if (rc == 0)
        rc = b_run_passes(&b);
    if (rc == 0)
        rc = b_drop_and_sort_wait_rows(&b);
    if (rc == 0 && in->waits)
        rc = b_make_lock_rows(&b);
    b_free_build(&b);
    if (rc < 0) {
        ips_built_release(out);
        return ips_err_wrap(err, rc, "build of %u streams", in->stream_count);
    }
    return 0;
}

uint64_t ips_find_latest_start_or_end_ns(const struct ips_built *b)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < b->proc_count; i++)
        last = ips_max_u64(
            last, ips_max_u64(b->procs[i].start_ns, b->procs[i].end_ns));
    for (uint32_t i = 0; i < b->g.chain_count; i++)
        last = ips_max_u64(
            last, ips_max_u64(b->threads[i].start_ns, b->threads[i].end_ns));
    return last;
}

void ips_built_release(struct ips_built *b)
{
    ips_graph_release(&b->g);
    ips_free_large(b->procs);
    ips_free_large(b->threads);
    ips_free_large(b->ends);
    ips_free_large(b->traffic);
    ips_free_large(b->untraced);
    ips_free_large(b->unrecorded);
    ips_free_large(b->spun);
    ips_free_large(b->unended);
    if (b->more) {
        ips_free_large(b->more->exts);
        ips_free_large(b->more->outs);
        ips_free_large(b->more->base_peer);
        ips_free_large(b->more);
    }
    memset(b, 0, sizeof(*b));
}
