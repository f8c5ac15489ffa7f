/*
 * Incremental build: builds the graph of a run that is still being recorded,
 * and keeps its state from one query to the next. The result of each call
 * equals, bit for bit, that of ips_build() for the same records. But if the
 * run has only continued sending, receiving and waiting, a call reads only the
 * records that came since the last call, and makes again only the nodes that
 * these can change.
 *
 * Invariants of the kept state:
 * - Each chain has its own range of node numbers, with spare ones after its
 *   last node. So the number of a node does not change when the chain grows.
 *   The result is a copy without the spare numbers.
 * - Each chain has a border. Nodes before it are final: no later record
 *   changes their columns. A node is final only if the source of its cross arc
 *   is final, no receive before it still waits for its send, no later reading
 *   of the run delay can change it, and it is older than lag_ns.
 * - For nodes after the border, the state has the columns as the records made
 *   them, before arcs, coordinates and times were corrected ("raw"). Every
 *   pass after `node` runs again for these nodes.
 * - If a final node would have to change, the call builds the whole run again:
 *   a send whose coordinate or a node whose time would have to move, or a new
 *   receive that may have made the space for a final send. The call also does
 *   this for a record that names, starts or ends something or changes an
 *   earlier decision (b_can_add_incrementally()), for a new stream, for records
 *   that do not continue those of the last call, and for a chain without spare
 *   space.
 *
 * For some runs each call is a whole build: runs that keep using ends that
 * several threads write or read, runs with a clock that ran backwards or with
 * weights near the limit of the path algorithms, and runs that have ended.
 *
 * Memory: 90 bytes for each node and 64 for each send, in addition to the
 * result; allocated by common/large.h.
 */
#ifndef IPS_SLAVE_BUILD_INCREMENTAL_GROW_H
#define IPS_SLAVE_BUILD_INCREMENTAL_GROW_H

#include "slave/build/build.h"

struct b_incremental;

/* How much work one call did. */
struct ips_build_effort {
    uint64_t records; /* records read */
    uint64_t nodes;   /* nodes made, or made again */
    bool whole;
};

/* Continues the build with the records of `in` that came since the last call.
 * *done true: *out (if not NULL) is the result. *done false: `in` does not
 * continue the records of the last call in a way that the state allows; *kept
 * was freed and is NULL, also on failure. */
int ips_build_new_records_if_possible(struct b_incremental **kept,
                                      const struct ips_build_input *in,
                                      struct ips_built *out,
                                      struct ips_build_effort *took, bool *done,
                                      struct ips_err *err) IPS_MUST_USE;
/* the usual lag_ns of ips_build_new_records_or_whole_run() */
#define IPS_BUILD_LAG_NS 5000000u
/* Like ips_build_new_records_if_possible(), but builds the whole run if that is
 * not possible. *kept: NULL at first; afterwards the kept state or NULL, also
 * on failure. `in->waits` must be NULL. Nodes less than lag_ns older than the
 * newest record are not final yet. A smaller lag is quicker, until it forces
 * whole builds. */
int ips_build_new_records_or_whole_run(struct b_incremental **kept,
                                       const struct ips_build_input *in,
                                       uint64_t lag_ns, struct ips_built *out,
                                       struct ips_build_effort *took,
                                       struct ips_err *err) IPS_MUST_USE;
void ips_build_incremental_free(struct b_incremental *kept);

/*
 * Tables alone: processes, threads with their waits, ends and traffic, bit for
 * bit those of ips_build(), without a graph. Final nodes are dropped
 * (build/incremental/slide.c), so the memory does not grow with the length of
 * the run. It is proportional to the nodes that are not final: those of some
 * ms, and sends whose bytes were not read yet.
 */
/* Builds the tables from the start of the run. If *kept is NULL afterwards,
 * later records cannot be added to these tables. */
int ips_build_tables_of_whole_run(struct b_incremental **kept,
                                  const struct ips_build_input *in,
                                  uint64_t lag_ns,
                                  struct ips_build_effort *took,
                                  struct ips_err *err) IPS_MUST_USE;
/* `news` has the same streams, in the same order, with only the records that
 * came since the last call; they may be freed afterwards. *done true: the
 * tables include them. *done false: the tables cannot be continued, and *kept
 * is NULL, also on failure. `types` of the streams is ignored. */
int ips_add_new_records_to_tables(struct b_incremental **kept,
                                  const struct ips_build_input *news,
                                  struct ips_build_effort *took, bool *done,
                                  struct ips_err *err) IPS_MUST_USE;
/* Returns the tables; only procs, threads, ends, traffic, first_ns and
 * g.chain_count are valid, until the next call. */
const struct ips_built *
ips_get_incremental_tables(const struct b_incremental *kept);

#endif
