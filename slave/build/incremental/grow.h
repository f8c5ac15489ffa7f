/*
 * Incremental build: the graph of a run that is still being written, kept from
 * one question to the next. The result of each call is, bit for bit, what
 * ips_build() makes of the same records. But if the run has only continued
 * sending, receiving and waiting, a call reads only the records that came since
 * the last call, and makes again only the nodes that they can change.
 *
 * Invariants of the kept state:
 * - Each chain has its own range of places, with spare space after its last
 *   node, so the number of a node never changes here. The result is a copy
 *   without the spare space.
 * - Each chain has a border. Nodes before it are final: their columns are those
 *   of the result, whatever comes. A node is final only if the source of its
 *   cross arc is final; if all bytes that it sent or read have their other
 *   side, except for old ones; if no later reading of the run delay can reach
 *   it; and if it is older than `lag`.
 * - For nodes after the border, the columns are kept as the records made them,
 *   before arcs, coordinates and times were corrected ("raw"). Every pass after
 *   `node` runs again for them.
 * - Whatever would change a final node is noticed and forces a whole build: a
 *   send that would have to give way, a time that would have to bend, a receive
 *   between two that a send waited for. So does every record that names, begins
 *   or ends something or that decides about the past (may_continue() in
 *   build/scan.c), another stream, an earlier archive, and a chain without
 *   spare space.
 *
 * Some runs are never kept, so that each call is a whole build: runs in which
 * ends that several threads write or read are in use again and again, runs with
 * a clock that ran backwards or with weights near the kernels' limit, and runs
 * that have ended.
 *
 * Memory: 90 bytes per node and 64 per send beside the result, from
 * common/large.h.
 */
#ifndef IPS_SLAVE_BUILD_INCREMENTAL_GROW_H
#define IPS_SLAVE_BUILD_INCREMENTAL_GROW_H

#include "slave/build/build.h"

struct b_incremental;

/* The effort of one call. */
struct ips_build_effort {
    uint64_t records; /* records read */
    uint64_t nodes;   /* nodes made, or made again */
    bool whole;
};

/* *done true: the result is in *out (if not NULL), made from the records that
 * came since the last call. *done false: the kept state is not a prefix of `in`
 * and was freed, also on failure. */
int ips_build_further(struct b_incremental **kept,
                      const struct ips_build_input *in, struct ips_built *out,
                      struct ips_build_effort *took, bool *done,
                      struct ips_err *err) IPS_MUST_USE;
/* The same, with a whole build where that fails to continue. *kept: NULL at
 * first; afterwards the kept state or NULL, also on failure. `in->waits` must
 * be NULL. Nodes less than lag_ns older than the newest record are not final
 * yet. A smaller lag is quicker, until it forces whole builds. */
#define IPS_BUILD_LAG_NS 5000000u
int ips_build_on(struct b_incremental **kept, const struct ips_build_input *in,
                 uint64_t lag_ns, struct ips_built *out,
                 struct ips_build_effort *took,
                 struct ips_err *err) IPS_MUST_USE;
void ips_build_incremental_free(struct b_incremental *kept);

/*
 * Tables alone: processes, threads with their waits, ends and traffic, bit for
 * bit those of ips_build(), without a graph. Final nodes are dropped
 * (build/incremental/slide.c), so memory grows with what is not final, not with
 * the length of the run: bytes that have not been read yet, and some ms of
 * nodes.
 */
/* Builds the tables from the start of the run. *kept NULL: these records cannot
 * be continued in this way. */
int ips_tables_begin(struct b_incremental **kept,
                     const struct ips_build_input *in, uint64_t lag_ns,
                     struct ips_build_effort *took,
                     struct ips_err *err) IPS_MUST_USE;
/* `news` has the same streams, in the same order, with only the records that
 * came since the last call; the call does not use them after it returns. *done
 * true: the tables include them. Otherwise the tables cannot be continued, and
 * *kept is NULL, also on failure. `types` of the streams is ignored. */
int ips_tables_further(struct b_incremental **kept,
                       const struct ips_build_input *news,
                       struct ips_build_effort *took, bool *done,
                       struct ips_err *err) IPS_MUST_USE;
/* Returns procs, threads, ends, traffic, first_ns and g.chain_count, without
 * nodes. Valid until the next call. */
const struct ips_built *ips_tables(const struct b_incremental *kept);

#endif
