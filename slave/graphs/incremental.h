/*
 * Keeps the build state of one open run, the run asked about last, so that the
 * next build of its graph reads only the records that came since
 * (build/incremental/grow.h). Part of graphs.h.
 *
 * The first question about an open run does not start an incremental build,
 * because its beginning takes 1.5 times as long as a normal build. The second
 * question starts one, or precomputing does while no request waits
 * (serve/precompute.h), if the archive has at least
 * SLAVE_INCREMENTAL_MIN_BYTES. After an incremental build fails or ends, the
 * slave starts another only when the archive has grown by a quarter. It drops
 * the incremental build when half of the memory limit (common/large.h) is used;
 * then each question needs a whole build.
 *
 * Invariant: the state kept from one question to the next was read from the
 * archive that exists now: another file of that name would have another inode
 * or another first block.
 *
 * Runs on the worker thread.
 */
#ifndef IPS_SLAVE_GRAPHS_INCREMENTAL_H
#define IPS_SLAVE_GRAPHS_INCREMENTAL_H

#include "slave/build/incremental/grow.h"
#include "slave/graphs/records.h"

/* minimum archive size for an incremental build; a whole build of a smaller
 * archive is fast */
#define SLAVE_INCREMENTAL_MIN_BYTES (16u << 10)

struct slave_incremental {
    /* state of the incremental build; NULL: none */
    struct b_incremental *build;
    char run[64];
    /* device and inode of the run's archive, and checksum of its first block */
    uint64_t dev, ino, first;
    /* size of the archive when an incremental build was last started */
    uint64_t tried;
};

/* Builds the same graph as ips_build(), with the least work: continues the
 * incremental build if there is one of this run, else builds everything.
 * `begin`: an incremental build may be started here. `out` NULL: only continues
 * or starts an incremental build, without making a graph. */
int slave_incremental_build_or_whole_build(struct slave_incremental *w,
                                           const struct slave_snapshot *s,
                                           const struct slave_records *records,
                                           const struct ips_build_input *in,
                                           bool begin, struct ips_built *out,
                                           struct ips_build_effort *took,
                                           struct ips_err *err) IPS_MUST_USE;
void slave_incremental_free(struct slave_incremental *w);

/* Whether an incremental build of this input fits in memory: it takes about six
 * times the size of the records, and its arrays must not go to files. */
bool slave_incremental_fits_memory(const struct ips_build_input *in);
/* Whether memory is short: half of the limit is used, or arrays are in files.
 * Then no incremental build or table state is kept. */
bool slave_incremental_is_memory_short(void);

#endif
