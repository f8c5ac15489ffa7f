/* Gets graphs from memory, file or records; see graphs.h. */
#include "slave/graphs/graphs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "slave/archive/archive.h"
#include "slave/base/wordhash.h"
#include "slave/graphs/waits.h"
#include "slave/store/sql.h"

uint64_t slave_snapshot_compute_key(const struct slave_snapshot *s)
{
    uint64_t h = slave_hash_bytes(s->archive_bytes, s->control.run,
                                  sizeof(s->control.run));
    for (int i = 0; i < IPS_LOST_COUNT; i++) {
        const uint64_t lost = s->control.lost[i];
        h = slave_hash_bytes(h, &lost, sizeof(lost));
    }
    for (uint32_t i = 0; i < s->stream_count; i++) {
        const struct slave_stream_row *r = &s->streams[i];
        const uint64_t part[] = {
            r->number,    r->records,          r->dead,        r->dead_status,
            r->dead_t_ns, s->control.root_pid, r->head.begun.t};
        h = slave_hash_bytes(h, part, sizeof(part));
        h = slave_hash_bytes(h, r->lost, sizeof(r->lost));
    }
    return h;
}

void slave_snapshot_free(struct slave_snapshot *s)
{
    if (!s)
        return;
    if (s->archive_fd >= 0)
        close(s->archive_fd);
    free(s->streams);
    free(s->unrecorded);
    free(s);
}

void slave_graphs_init(struct slave_graphs *gs, const char *db,
                       const char *helper)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *gs = (struct slave_graphs){.permille = 1000};
    /* Generations count up from the current time in us, so they are larger than
     * those of an earlier slave. */
    gs->next_generation =
        (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
    snprintf(gs->db, sizeof(gs->db), "%s", db);
    snprintf(gs->helper, sizeof(gs->helper), "%s", helper);
}

/* Frees the graph's data, whether built or mapped, but not its snapshot. */
static void free_graph_data(struct slave_graph *g)
{
    slave_joins_clear_cache(&g->joins);
    if (g->file.map)
        slave_graphfile_release(&g->file);
    else
        ips_built_release(&g->b);
    memset(&g->b, 0, sizeof(g->b));
    if (g->has_est)
        ips_est_release(&g->est);
    g->has_est = false;
    ips_view_release(&g->view);
    slave_profile_cache_free(g->profile_cache);
    g->profile_cache = NULL;
    slave_waits_free(g->waits);
    g->waits = NULL;
    free(g->joined);
    g->joined = NULL;
    ips_message_time_map_release(&g->message_times);
    free(g->peers);
    g->peers = NULL;
    g->peer_count = 0;
    g->peers_set = false;
}

static void write_graph_file_if_run_closed(struct slave_graph *g)
{
    struct ips_err err = {0};
    uint64_t bytes = 0;
    const struct slave_graphfile_peers_joins more = {
        .peers = g->peers,
        .peer_count = g->peer_count,
        .joins = g->joins,
        .join_bound = g->join_bound};
    g->needs_write = false;
    if (g->snap->closed &&
        slave_graphfile_write(g->snap->dir, g->snap->key, &g->b, &more, &bytes,
                              &err) < 0 &&
        /* the directory is missing if the run was removed meanwhile */
        access(g->snap->dir, F_OK) == 0)
        ips_log_warn("run %s: cannot keep its graph: %s", g->snap->run,
                     err.msg);
}

void slave_graphs_write_pending_files(struct slave_graphs *gs)
{
    for (struct slave_graph *g = gs->list; g; g = g->next)
        if (g->needs_write)
            write_graph_file_if_run_closed(g);
}

static void write_and_free_graph(struct slave_graph *g)
{
    if (g->needs_write)
        write_graph_file_if_run_closed(g);
    free_graph_data(g);
    slave_snapshot_free(g->snap);
    free(g);
}

void slave_graphs_release(struct slave_graphs *gs)
{
    while (gs->list) {
        struct slave_graph *g = gs->list;
        gs->list = g->next;
        write_and_free_graph(g);
    }
    slave_incremental_free(&gs->incremental);
    slave_live_tables_free(&gs->live_tables);
    slave_records_drop(&gs->records, NULL);
    slave_symbol_failures_release(&gs->failures);
    slave_store_close(gs->store);
    gs->store = NULL;
}

static bool is_memory_limit_exceeded(void)
{
    struct ips_large_use use = ips_large_get_use();
    return use.memory > use.limit || use.files > use.limit - use.memory;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Afterwards slave_graphs_acquire_by_generation() and
 * slave_graphs_get_or_build() do not find the graph any more; it is freed when
 * its last user releases it. */
static void hide_graph_from_lookups(struct slave_graph *g)
{
    g->generation = g->snap->key = 0;
    g->needs_write = false;
}
static bool is_hidden(const struct slave_graph *g)
{
    return g->generation == 0;
}

/* Returns true if a question uses the graph now or probably will soon.
 * `number`: its position in the list by last use; 1 is the latest. */
static bool is_in_use_or_recent(const struct slave_graph *g, unsigned number,
                                uint64_t now)
{
    return g->refs != 0 || (!is_hidden(g) && number <= SLAVE_GRAPHS_RECENT &&
                            now - g->used_ns < SLAVE_GRAPHS_RECENT_NS);
}

/* Drops the least recently used graphs until the limits on count, nodes and
 * memory are met; keeps graphs that are in use or were used recently. */
static void evict_lru_graphs_over_limits(struct slave_graphs *gs)
{
    unsigned kept = 0;
    uint64_t nodes = 0, now = now_ns();
    for (struct slave_graph **p = &gs->list; *p;) {
        struct slave_graph *g = *p;
        nodes += g->b.g.node_count;
        bool over = ++kept > SLAVE_GRAPHS_MAX || is_hidden(g) ||
                    (kept > 1 && (nodes > SLAVE_GRAPHS_MAX_NODES ||
                                  is_memory_limit_exceeded()));
        if (over && !is_in_use_or_recent(g, kept, now)) {
            *p = g->next;
            nodes -= g->b.g.node_count;
            kept--;
            write_and_free_graph(g);
            continue;
        }
        p = &g->next;
    }
}

/* Drops the least recently used graphs until half of the memory limit is free
 * for a build; keeps graphs that are in use or were used recently. */
static void free_memory_for_build(struct slave_graphs *gs)
{
    struct slave_graph **p, **last;
    uint64_t now = now_ns();
    do {
        struct ips_large_use use = ips_large_get_use();
        unsigned number = 0;
        last = NULL;
        for (p = &gs->list; *p && use.memory > use.limit / 2; p = &(*p)->next)
            last = is_in_use_or_recent(*p, ++number, now) ? last : p;
        if (last) {
            struct slave_graph *g = *last;
            *last = g->next;
            write_and_free_graph(g);
        }
    } while (last);
}

/* Drops all other graphs of the run of `newest` that no job uses. A client that
 * still asks for one of them gets IPS_E_BUSY. */
static void drop_other_unused_graphs_of_run(struct slave_graphs *gs,
                                            const struct slave_graph *newest)
{
    for (struct slave_graph **p = &gs->list; *p;) {
        struct slave_graph *g = *p;
        if (g == newest || g->refs != 0 ||
            strcmp(g->snap->run, newest->snap->run) != 0) {
            p = &g->next;
            continue;
        }
        *p = g->next;
        write_and_free_graph(g);
    }
}

static void put_graph_first_and_set_use_time(struct slave_graphs *gs,
                                             struct slave_graph *g)
{
    g->used_ns = now_ns();
    for (struct slave_graph **p = &gs->list; *p; p = &(*p)->next)
        if (*p == g) {
            *p = g->next;
            break;
        }
    g->next = gs->list;
    gs->list = g;
}

void slave_graphs_release_graph_and_evict(struct slave_graphs *gs,
                                          struct slave_graph *g)
{
    if (g)
        g->refs--;
    evict_lru_graphs_over_limits(gs);
}

int slave_graphs_acquire_by_generation(struct slave_graphs *gs, const char *run,
                                       uint64_t generation,
                                       struct slave_graph **out,
                                       struct ips_err *err)
{
    for (struct slave_graph *g = gs->list; g; g = g->next)
        if (g->generation == generation && !is_hidden(g) &&
            strcmp(g->snap->run, run) == 0) {
            g->refs++;
            put_graph_first_and_set_use_time(gs, g);
            *out = g;
            return 0;
        }
    return ips_err_set(err, IPS_E_BUSY,
                       "run %s: graph %llu was dropped (the slave restarted or "
                       "built many other graphs): ask again",
                       run, (unsigned long long)generation);
}

int slave_graphs_verify_section_or_remove_file(struct slave_graph *g,
                                               enum slave_graphfile_part part,
                                               struct ips_err *err)
{
    char path[IPS_PATH_BYTES + 16];
    if (slave_graphfile_check_part(&g->file, &g->b.g, part))
        return 0;
    snprintf(path, sizeof(path), "%s/graph", g->snap->dir);
    (void)unlink(path);
    hide_graph_from_lookups(g);
    return ips_err_set(err, IPS_E_BUSY,
                       "run %s: the file of its graph was damaged and has been "
                       "removed: ask again to build the graph from the records",
                       g->snap->run);
}

/* ---- building ---- */

void slave_input_release(struct slave_graphs *gs, struct slave_input *in)
{
    slave_records_keep_or_free(&gs->records, in->records);
    free(in->streams);
    atomic_store_explicit(&gs->permille, 1000, memory_order_relaxed);
}

void slave_input_fill_stream_from_row(struct ips_stream_in *to,
                                      const struct slave_stream_row *r)
{
    to->head = r->head;
    to->begun = r->head.begun;
    to->head.begun = (struct ips_current_call){.t = 0};
    memcpy(to->lost, r->lost, sizeof(r->lost));
    to->dead = r->dead;
    to->dead_status = r->dead_status;
    to->dead_t_ns = r->dead_t_ns;
}

int slave_input_fill_from_snapshot(struct slave_graphs *gs,
                                   const struct slave_snapshot *s,
                                   struct slave_input *in, struct ips_err *err)
{
    *in = (struct slave_input){0};
    atomic_store_explicit(&gs->permille, 0, memory_order_relaxed);
    in->streams = calloc((size_t)s->stream_count + 1, sizeof(*in->streams));
    int rc = in->streams
                 ? slave_records_get_or_unpack(&gs->records, s, &gs->permille,
                                               &in->records, err)
                 : ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; rc == 0 && i < s->stream_count; i++) {
        const struct slave_stream_row *r = &s->streams[i];
        struct ips_stream_in *to = &in->streams[i];
        slave_input_fill_stream_from_row(to, r);
        to->chunk_count = slave_records_get_chunks(
            in->records, r->number, s->archive_bytes, &to->chunks);
        if (to->chunk_count)
            to->types = in->records->streams[r->number].types;
    }
    in->in = (struct ips_build_input){.control = &s->control,
                                      .streams = in->streams,
                                      .stream_count = s->stream_count,
                                      .permille = &gs->permille};
    if (rc < 0) {
        slave_input_release(gs, in);
        *in = (struct slave_input){0};
    }
    return rc;
}

/* Returns true if another graph of the run is in memory: then a client has
 * asked about the run before, and will probably ask again. */
static bool has_other_graph_of_run(const struct slave_graphs *gs,
                                   const struct slave_graph *g)
{
    const struct slave_graph *o = gs->list;
    while (o && (o == g || strcmp(o->snap->run, g->snap->run) != 0))
        o = o->next;
    return o != NULL;
}

int slave_graphs_advance_incremental_build(struct slave_graphs *gs,
                                           const struct slave_snapshot *s,
                                           struct ips_err *err)
{
    struct slave_input in;
    struct ips_build_effort took;
    int rc = slave_input_fill_from_snapshot(gs, s, &in, err);
    if (rc == 0)
        rc = slave_incremental_build_or_whole_build(
            &gs->incremental, s, in.records, &in.in, true, NULL, &took, err);
    if (rc == 0)
        ips_log_debug("run %s: %llu records read before they were asked for",
                      s->run, (unsigned long long)took.records);
    slave_input_release(gs, &in);
    return rc;
}

static int build_graph(struct slave_graphs *gs, struct slave_graph *g,
                       struct ips_err *err)
{
    struct slave_input in;
    struct ips_wait_rows rows = {0};
    ips_large_restart_peaks();
    int rc = slave_input_fill_from_snapshot(gs, g->snap, &in, err);
    /* only a whole build can make waits; a closed run always gets one */
    if (g->snap->waits && g->snap->closed)
        in.in.waits = &rows;
    if (rc == 0) {
        ips_log_debug("run %s: built from %u streams", g->snap->run,
                      g->snap->stream_count);
        rc = slave_incremental_build_or_whole_build(
            &gs->incremental, g->snap, in.records, &in.in,
            has_other_graph_of_run(gs, g), &g->b, &g->effort, err);
        gs->builds++;
    }
    if (rc == 0 && in.in.waits)
        rc = slave_graph_make_waits_from_rows(gs, g, &in, &rows, err);
    slave_input_release(gs, &in);
    ips_wait_rows_release(&rows);
    g->built_in = ips_large_get_use();
    return rc < 0 ? ips_err_wrap(err, rc, "run %s", g->snap->run) : 0;
}

struct slave_store *slave_graphs_get_or_open_store(struct slave_graphs *gs,
                                                   struct ips_err *err)
{
    if (!gs->store && gs->db[0] &&
        slave_store_open(gs->db, &gs->store, err) < 0)
        gs->store = NULL;
    return gs->store;
}

/* Stores the build's tables (IRT: processes, threads, waits, channels, traffic)
 * in the database, unless they are stored already. A failure is only logged. */
static void store_summary_tables_if_outdated(struct slave_graphs *gs,
                                             const struct slave_graph *g)
{
    struct ips_err err = {0};
    int rc = 0;
    if (!gs->db[0] || !g->snap->run_id)
        return;
    if (!slave_graphs_get_or_open_store(gs, &err))
        rc = err.code;
    struct slave_irt_row has;
    if (rc == 0 &&
        slave_store_get_summary_tables_state(gs->store, g->snap->run_id,
                                             &has) &&
        has.key == g->snap->key)
        return;
    if (rc == 0)
        rc = slave_store_replace_summary_tables(gs->store, g->snap->run_id,
                                                g->snap->key, &g->b, &err);
    if (rc < 0)
        ips_log_warn("run %s: IRT not stored: %s", g->snap->run, err.msg);
}

static bool load_graph_from_file(struct slave_graph *g)
{
    struct ips_err err = {0};
    struct slave_graphfile_peers_joins more;
    if (!g->snap->closed)
        return false;
    int rc = slave_graphfile_map_and_check(g->snap->dir, g->snap->key, &g->file,
                                           &g->b, &more, &err);
    if (rc < 0) {
        if (rc != IPS_E_NOT_FOUND)
            ips_log_info("run %s: built again: %s", g->snap->run, err.msg);
        return false;
    }
    g->peers = calloc((size_t)more.peer_count + 1, sizeof(*g->peers));
    if (!g->peers) {
        free_graph_data(g);
        return false;
    }
    if (more.peer_count)
        memcpy(g->peers, more.peers, more.peer_count * sizeof(*g->peers));
    g->peer_count = more.peer_count;
    g->peers_set = true;
    g->joins = more.joins;
    g->join_bound = more.join_bound;
    return true;
}

int slave_graphs_get_or_build(struct slave_graphs *gs,
                              struct slave_snapshot *snap,
                              struct slave_graph **out, struct ips_err *err)
{
    for (struct slave_graph *g = gs->list; g; g = g->next)
        if (g->snap->key == snap->key && strcmp(g->snap->run, snap->run) == 0) {
            g->snap->closed |= snap->closed;
            slave_snapshot_free(snap);
            g->refs++;
            put_graph_first_and_set_use_time(gs, g);
            *out = g;
            return 0;
        }
    struct slave_graph *g = calloc(1, sizeof(*g));
    if (!g) {
        slave_snapshot_free(snap);
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    }
    g->snap = snap;
    int rc = 0;
    if (!load_graph_from_file(g)) {
        free_memory_for_build(gs);
        rc = build_graph(gs, g, err);
    }
    if (rc == 0)
        store_summary_tables_if_outdated(gs, g);
    if (rc < 0) {
        write_and_free_graph(g);
        return rc;
    }
    g->generation = gs->next_generation++;
    g->refs = 1;
    put_graph_first_and_set_use_time(gs, g);
    drop_other_unused_graphs_of_run(gs, g);
    evict_lru_graphs_over_limits(gs);
    *out = g;
    return 0;
}

/* ---- peers ---- */

static bool graph_has_these_peers(const struct slave_graph *g,
                                  const struct ips_peer_row *rows,
                                  uint32_t count)
{
    if (!g->peers_set || g->peer_count != count)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const struct ips_peer_row *a = &g->peers[i], *b = &rows[i];
        if (a->end != b->end || a->traced != b->traced ||
            a->peer_sent_bytes != b->peer_sent_bytes ||
            a->peer_closed != b->peer_closed)
            return false;
    }
    return true;
}

int slave_graph_set_peers_and_remake_arcs(struct slave_graphs *gs,
                                          struct slave_graph *g,
                                          const struct ips_peer_row *rows,
                                          uint32_t count, struct ips_err *err)
{
    int rc = 0;
    if (graph_has_these_peers(g, rows, count))
        return 0;
    /* Until the peers are set for the first time, other answers read only the
     * graph's tables, which do not change here. */
    if (g->peers_set && g->refs > 1) {
        hide_graph_from_lookups(g);
        return ips_err_set(err, IPS_E_BUSY,
                           "run %s: the peers of its channel ends changed "
                           "while other answers read its graph: ask again",
                           g->snap->run);
    }
    struct ips_peer_row *kept = calloc((size_t)count + 1, sizeof(*kept));
    if (!kept)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < count; i++) {
        /* Copy field by field, so that the padding stays zero: it is written to
         * the graph's file, too. */
        kept[i].end = rows[i].end;
        kept[i].traced = rows[i].traced;
        kept[i].peer_sent_bytes = rows[i].peer_sent_bytes;
        kept[i].peer_closed = rows[i].peer_closed;
    }
    slave_joins_clear_cache(&g->joins);
    /* a mapped file lacks data that ips_built_set_peers_and_remake_arcs needs:
     * build again */
    if (g->file.map) {
        free_graph_data(g);
        rc = build_graph(gs, g, err);
    }
    if (rc == 0)
        rc = ips_built_set_peers_and_remake_arcs(&g->b, kept, count, err);
    g->join_bound = 0;
    if (rc < 0) {
        free(kept);
        hide_graph_from_lookups(g);
        return rc;
    }
    if (g->has_est)
        ips_est_release(&g->est);
    g->has_est = false;
    ips_view_release(&g->view);
    free(g->peers);
    g->peers = kept;
    g->peer_count = count;
    g->peers_set = true;
    g->needs_write = true;
    if (g->b.g.node_count < SLAVE_GRAPHS_WRITE_LATER_NODES)
        write_graph_file_if_run_closed(g);
    return 0;
}
