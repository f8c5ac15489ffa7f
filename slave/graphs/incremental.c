/* Starts, continues and drops incremental builds; see graphs/incremental.h. */
#include "slave/graphs/incremental.h"

#include <stdio.h>
#include <string.h>

#include "common/large.h"
#include "common/log.h"
#include "slave/graphs/graphs.h"

void slave_incremental_free(struct slave_incremental *w)
{
    ips_build_incremental_free(w->build);
    w->build = NULL;
}

/* If `w` belongs to another run or archive than the snapshot, drops its state
 * and begins an empty state for the snapshot's run. */
static void reset_if_other_run(struct slave_incremental *w,
                               const struct slave_snapshot *s,
                               const struct slave_records *r)
{
    if (strcmp(w->run, s->run) == 0 && w->dev == r->dev && w->ino == r->ino &&
        w->first == r->first)
        return;
    slave_incremental_free(w);
    *w = (struct slave_incremental){
        .dev = r->dev, .ino = r->ino, .first = r->first};
    snprintf(w->run, sizeof(w->run), "%s", s->run);
}

bool slave_incremental_fits_memory(const struct ips_build_input *in)
{
    struct ips_large_use use = ips_large_get_use();
    uint64_t bytes = 0, room = ips_sub_sat(use.limit / 2, use.memory);
    for (uint32_t i = 0; i < in->stream_count; i++)
        for (uint32_t k = 0; k < in->streams[i].chunk_count; k++)
            bytes += in->streams[i].chunks[k].len;
    return bytes <= room / 6;
}

static bool has_snapshot_grown_since_last_try(const struct slave_incremental *w,
                                              const struct slave_snapshot *s)
{
    return s->archive_bytes >= SLAVE_INCREMENTAL_MIN_BYTES &&
           s->archive_bytes >= w->tried + w->tried / 4;
}

bool slave_incremental_is_memory_short(void)
{
    struct ips_large_use use = ips_large_get_use();
    return use.memory > use.limit / 2 || use.files > 0;
}

int slave_incremental_build_or_whole_build(struct slave_incremental *w,
                                           const struct slave_snapshot *s,
                                           const struct slave_records *records,
                                           const struct ips_build_input *in,
                                           bool begin, struct ips_built *out,
                                           struct ips_build_effort *took,
                                           struct ips_err *err)
{
    int rc = 0;
    bool done = false;
    *took = (struct ips_build_effort){.whole = true};
    if (s->closed && strcmp(w->run, s->run) == 0)
        slave_incremental_free(w);
    if (!s->closed && (begin || w->build))
        reset_if_other_run(w, s, records);
    if (!s->closed && w->build)
        rc = ips_build_new_records_if_possible(&w->build, in, out, took, &done,
                                               err);
    if (rc == 0 && !done && !s->closed && begin &&
        !slave_incremental_is_memory_short() &&
        has_snapshot_grown_since_last_try(w, s) &&
        slave_incremental_fits_memory(in)) {
        w->tried = s->archive_bytes;
        rc = ips_build_new_records_or_whole_run(&w->build, in, IPS_BUILD_LAG_NS,
                                                out, took, err);
        done = true;
        ips_log_debug("run %s: its build %s", s->run,
                      w->build ? "can go on" : "cannot go on");
    }
    if (rc == 0 && !done && out) {
        rc = ips_build(in, out, err);
        took->records = rc < 0 ? 0 : out->counts.events;
        took->nodes = rc < 0 ? 0 : out->g.node_count;
    }
    if (w->build && slave_incremental_is_memory_short())
        slave_incremental_free(w);
    return rc;
}
