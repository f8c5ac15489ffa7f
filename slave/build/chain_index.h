/*
 * Finds the chain of a built graph for the header of a stream, and decides
 * whether a chain belongs to a named object. Queries that read records need
 * this, because a graph that was loaded from a file does not know its streams.
 */
#ifndef IPS_SLAVE_BUILD_CHAIN_INDEX_H
#define IPS_SLAVE_BUILD_CHAIN_INDEX_H

#include "slave/build/build.h"

/* Returns the numbers of all chains, ordered by (pid, tid, start), in an array
 * that the caller frees with free(). NULL: out of memory. */
uint32_t *slave_list_chains_sorted_by_thread(const struct ips_built *b);

/* Returns the chain of the stream with header `head`, which began at stamp_ns:
 * of the chains with the same pid and tid, the last one that began before the
 * stream did (an image after an exec continues a chain). `index`: from
 * slave_list_chains_sorted_by_thread(). IPS_NONE: there is no such chain. */
uint32_t slave_chain_of_stream(const struct ips_built *b, const uint32_t *index,
                               const struct ips_segment_header *head,
                               uint64_t stamp_ns);

/* A stream of a run, with its chain and start. */
struct slave_stream_with_chain {
    uint32_t chain, stream;
    uint64_t begin_ns;
};
/* Returns the streams of a run ordered by chain, and within a chain by time.
 * Streams without a chain (IPS_NONE) come last. Freed by ips_free_large().
 * NULL: out of memory. */
struct slave_stream_with_chain *
slave_list_streams_sorted_by_chain(const struct ips_build_input *in,
                                   const struct ips_built *b,
                                   struct ips_err *err);

/* Whether `object` ("", "/", "/machine", ".../process", ".../thread", by number
 * or name) contains this chain of this machine. A stream without a chain
 * (`chain` IPS_NONE) is only in "", "/" and "/machine". */
bool slave_is_chain_of_object(const struct ips_built *b, const char *machine,
                              const char *object, uint32_t chain);

#endif
