/*
 * A build that goes on: the graph of a run that is still written, kept from one
 * question to the next. The result of each call is, bit for bit, what
 * ips_build() makes of the same records; but where a run has only gone on
 * sending, receiving and waiting, what is read is the records that came since
 * the last call, and what is made again is the nodes that they can change.
 *
 * Invariants of what is kept:
 *   - Nodes have places of their own, chain by chain, with room behind each
 *     chain's last node: a node's number here never changes. What is handed
 *     out is a copy without the room.
 *   - Each chain has a border. What is before it is final: its columns are
 *     those of the result, whatever comes. A node is final only where what its
 *     cross arc comes from is; no bytes it sent or read are without the other
 *     side, but old ones; no later reading of the run delay can reach it; and
 *     it is older than `lag`.
 *   - Of nodes behind the border the columns are kept as the records made
 *     them, before arcs, coordinates and times were put right ("raw"), and
 *     every pass behind `node` is done again for them.
 *   - Whatever would change what is final is noticed, and costs a whole build:
 *     a send that would have to give way, a time that would have to bend, a
 *     receive between two that a send waited for. So is every record that
 *     names, begins or ends something or decides for the past (may_follow() in
 *     build/scan.c), another stream, an earlier archive, a chain without room.
 *
 * Not kept at all, each call a whole build: runs in which ends that several
 * threads write or read are in use again and again, runs with a clock that ran
 * backwards, with weights near the kernels' limit, and those that have ended.
 *
 * Memory: 90 bytes a node and 64 a send beside the result, from common/large.h.
 */
#ifndef IPS_SLAVE_BUILD_INCREMENTAL_GROW_H
#define IPS_SLAVE_BUILD_INCREMENTAL_GROW_H

#include "slave/build/build.h"

struct b_incremental;

/* What a call took. */
struct ips_build_effort {
    uint64_t records; /* read */
    uint64_t nodes;   /* made, or made again */
    bool whole;
};

/* *done: *out (where not NULL) is there, made of what came since. Else what is
 * kept is not a beginning of `in` and is forgotten, also on failure. */
int ips_build_further(struct b_incremental **kept,
                      const struct ips_build_input *in, struct ips_built *out,
                      struct ips_build_effort *took, bool *done,
                      struct ips_err *err) IPS_MUST_USE;
/* The same, and otherwise a whole build. *kept: NULL at first; what is kept, or
 * NULL, afterwards, also on failure. `in->waits` must be NULL. Nodes younger
 * than lag_ns when all records seen end are not final yet: less is quicker,
 * until it costs whole builds. */
#define IPS_BUILD_LAG_NS 5000000u
int ips_build_on(struct b_incremental **kept, const struct ips_build_input *in,
                 uint64_t lag_ns, struct ips_built *out,
                 struct ips_build_effort *took,
                 struct ips_err *err) IPS_MUST_USE;
void ips_build_incremental_free(struct b_incremental *kept);

/*
 * Tables alone: processes, threads with their waits, ends, traffic - bit for
 * bit those of ips_build() - without a graph that somebody could ask for. Then
 * what is final goes (build/incremental/slide.c), and memory is that of what is
 * not, however long the run: bytes that nobody has read yet, and some ms of
 * nodes.
 */
/* From the run's begin to now. *kept NULL: these records cannot go on so. */
int ips_tables_begin(struct b_incremental **kept,
                     const struct ips_build_input *in, uint64_t lag_ns,
                     struct ips_build_effort *took,
                     struct ips_err *err) IPS_MUST_USE;
/* `news` has the same streams, in the same order, with the records that came
 * since alone; they are not looked at later. *done: the tables have them; else
 * they cannot go on, and *kept is NULL, also on failure. Streams' `types` are
 * not looked at. */
int ips_tables_further(struct b_incremental **kept,
                       const struct ips_build_input *news,
                       struct ips_build_effort *took, bool *done,
                       struct ips_err *err) IPS_MUST_USE;
/* procs, threads, ends, traffic, first_ns and g.chain_count; not its nodes.
 * Until the next call. */
const struct ips_built *ips_tables(const struct b_incremental *kept);

#endif
