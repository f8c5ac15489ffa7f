/*
 * Finds the chain of a built graph for the header of a stream, and decides
 * whether a chain belongs to a named object. Answers about records need this
 * beside the graph, because a graph may come from a file that does not know the
 * streams.
 */
#ifndef IPS_SLAVE_BUILD_CHAIN_INDEX_H
#define IPS_SLAVE_BUILD_CHAIN_INDEX_H

#include "slave/build/build.h"

/* Returns the chains ordered by (pid, tid, start); the caller frees the array.
 * NULL: out of memory. */
uint32_t *slave_chain_index(const struct ips_built *b);

/* Returns the chain of a stream: the chain with its pid and tid. If there are
 * several, the last one that began before the stream did, because an image
 * after an exec continues a chain. IPS_NONE: no chain. */
uint32_t slave_chain_of(const struct ips_built *b, const uint32_t *index,
                        const struct ips_segment_header *head,
                        uint64_t stamp_ns);

/* Returns the streams of a run ordered by chain, and within a chain by time.
 * Streams without a chain (IPS_NONE) come last. Freed by ips_free_large().
 * NULL: out of memory. */
struct slave_stream_place {
    uint32_t chain, stream;
    uint64_t begin_ns;
};
struct slave_stream_place *slave_stream_order(const struct ips_build_input *in,
                                              const struct ips_built *b,
                                              struct ips_err *err);

/* Does `object` ("", "/", "/machine", ".../process", ".../thread", by number or
 * name) contain this chain of this machine? `chain` IPS_NONE: a stream without
 * a chain. */
bool slave_chain_in(const struct ips_built *b, const char *machine,
                    const char *object, uint32_t chain);

#endif
