/* Records -> graph: the order of the passes (build_internal.h). */
#include "slave/build_internal.h"

int b_grow(void **v, uint32_t n, uint32_t *room, size_t size,
           struct ips_err *err)
{
    if (n >= UINT32_MAX / 2)
        return ips_err_set(err, IPS_E_LIMIT, "more than %u records of a kind",
                           n);
    uint32_t more = *room ? *room * 2 : 64;
    if (more <= n)
        more = n + 1;
    void *grown = realloc(*v, (size_t)more * size);
    if (!grown)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u records", more);
    *v = grown;
    *room = more;
    return 0;
}

void *b_calloc(size_t count, size_t size, struct ips_err *err)
{
    void *v = calloc(count ? count : 1, size);
    if (!v)
        ips_err_set(err, IPS_E_NO_MEMORY, "%zu elements of %zu bytes", count,
                    size);
    return v;
}

static int run_passes(struct build *b)
{
    int rc = b_scan(b);
    if (rc == 0)
        rc = b_processes(b);
    if (rc == 0)
        rc = b_links(b);
    if (rc == 0)
        rc = b_signals(b);
    if (rc < 0)
        return rc;
    b_states(b);
    rc = b_untraced(b);
    if (rc == 0)
        rc = b_ends(b);
    if (rc == 0)
        rc = b_peers(b);
    if (rc == 0)
        rc = b_sync_match(b);
    if (rc == 0)
        rc = b_nodes(b);
    if (rc == 0)
        rc = b_holders(b);
    if (rc == 0)
        rc = b_match(b);
    if (rc == 0)
        rc = b_datagrams(b);
    if (rc < 0)
        return rc;
    b_events(b);
    b_lifetimes(b);
    b_signal_arcs(b);
    b_sync_arcs(b);
    b_settle(b);
    b_causal(b);
    rc = b_weights(b);
    if (rc == 0)
        rc = b_break_cycles(b);
    if (rc == 0)
        rc = b_far_ends(b);
    if (rc == 0)
        rc = b_wall(b);
    if (rc == 0)
        rc = b_tables(b);
    return rc == 0 ? b_more(b) : rc;
}

static void release_build(struct build *b)
{
    free(b->streams);
    free(b->images);
    free(b->procs);
    free(b->chains);
    free(b->forks.v);
    free(b->joins.v);
    free(b->syncs.v);
    free(b->spins.v);
    free(b->cpus.v);
    free(b->unseens.v);
    free(b->chans.v);
    free(b->kills.v);
    free(b->takings.v);
    free(b->ends);
    free(b->ops.v);
    free(b->dgrams.v);
    free(b->events.v);
    free(b->exts.v);
    free(b->holds.v);
    free(b->releases.v);
    free(b->outs.v);
    free(b->traffic_last.v);
    free(b->flows);
    free(b->cpu_at);
    free(b->slept);
    free(b->off);
    free(b->shift);
    free(b->delays.v);
    free(b->notes);
}

int ips_build(const struct ips_build_input *in, struct ips_built *out,
              struct ips_err *err)
{
    memset(out, 0, sizeof(*out));
    ips_graph_init(&out->g);
    struct build b = {.in = in, .out = out, .err = err};
    int rc = b_waits_begin(&b);
    if (rc == 0)
        rc = run_passes(&b);
    if (rc == 0)
        rc = b_waits_finish(&b);
    release_build(&b);
    if (rc < 0) {
        ips_built_release(out);
        return ips_err_wrap(err, "build of %u streams", in->stream_count);
    }
    return 0;
}

void ips_built_release(struct ips_built *b)
{
    ips_graph_release(&b->g);
    free(b->procs);
    free(b->threads);
    free(b->ends);
    free(b->traffic);
    free(b->untraced);
    free(b->unseen);
    free(b->spun);
    if (b->more) {
        free(b->more->exts);
        free(b->more->outs);
        free(b->more->base_peer);
        free(b->more);
    }
    memset(b, 0, sizeof(*b));
}
