/*
 * From a stream's header back to its chain of a built graph, and from a chain
 * to the object it is: what answers about records need beside the graph,
 * which may come from a file and then knows of no streams.
 */
#ifndef IPS_SLAVE_BUILD_CHAIN_INDEX_H
#define IPS_SLAVE_BUILD_CHAIN_INDEX_H

#include "slave/build/build.h"

/* Chains by (pid, tid, start). NULL: no memory. The caller frees it. */
uint32_t *slave_chain_index(const struct ips_built *b);

/* The chain of a stream: its (pid, tid), and of several the last that began
 * before it did - an image after exec continues a chain. IPS_NONE: none. */
uint32_t slave_chain_of(const struct ips_built *b, const uint32_t *index,
                        const struct ips_segment_header *head,
                        uint64_t stamp_ns);

/* The streams of a run by chain, and of one chain in the order of time; those
 * of no chain (IPS_NONE) last. NULL: no memory. For ips_free_large(). */
struct slave_stream_place {
    uint32_t chain, stream;
    uint64_t begin_ns;
};
struct slave_stream_place *slave_stream_order(const struct ips_build_input *in,
                                              const struct ips_built *b,
                                              struct ips_err *err);

/* Does `object` ("", "/", "/machine", ".../process", ".../thread" by number or
 * name) hold this chain of this machine? IPS_NONE: a stream in no chain. */
bool slave_chain_in(const struct ips_built *b, const char *machine,
                    const char *object, uint32_t chain);

#endif
