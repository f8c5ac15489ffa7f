/*
 * The run whose build goes on with what came since (build/incremental/grow.h):
 * one at a time, the open run that was asked about last. Belongs to the graphs
 * (graphs.h).
 *
 * Begun when an open run of SLAVE_GROWING_BYTES is asked about again, or while
 * nobody waits (serve/precompute.h): a whole build that can go on takes half as
 * long again as one that cannot. Where it does not come to be, or ends, it is
 * not begun again before the archive has grown by a quarter. It goes when half
 * of the memory (common/large.h) is used: then each question is a whole build.
 *
 * Invariant: what is kept was read from the archive that lies there now -
 * another file of that name has another inode or another first block.
 *
 * Thread: the worker's.
 */
#ifndef IPS_SLAVE_GRAPHS_INCREMENTAL_H
#define IPS_SLAVE_GRAPHS_INCREMENTAL_H

#include "slave/build/incremental/grow.h"
#include "slave/graphs/records.h"

/* Of an archive; less is built before anybody notices. */
#define SLAVE_GROWING_BYTES (16u << 10)

struct slave_incremental {
    struct b_incremental *build; /* NULL: none */
    char run[64];
    uint64_t dev, ino, first; /* of its archive; check of the first block */
    uint64_t tried;           /* archive's bytes when it was last begun */
};

/* ips_build() by the shortest way. `begin`: may be begun here. out NULL:
 * nobody wants the graph yet; then nothing is done where nothing goes on and
 * none is begun. */
int slave_incremental_build(struct slave_incremental *w,
                            const struct slave_snapshot *s,
                            const struct slave_records *records,
                            const struct ips_build_input *in, bool begin,
                            struct ips_built *out,
                            struct ips_build_effort *took,
                            struct ips_err *err) IPS_MUST_USE;
void slave_incremental_free(struct slave_incremental *w);

/* Of anything that is kept and goes on: it takes some six times the records'
 * own size; then no array has to go to a file. */
bool slave_incremental_fits(const struct ips_build_input *in);
/* Half of the memory is used, or files are: nothing is kept. */
bool slave_incremental_full(void);

#endif
