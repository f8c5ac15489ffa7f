/*
 * The records of a synthetic run (synth.h) in memory, as a build reads them:
 * a stream a thread, in order of the threads' first segments, a chunk a
 * segment.
 */
#ifndef IPS_TESTS_BENCH_NATIVE_SYNTH_STREAMS_H
#define IPS_TESTS_BENCH_NATIVE_SYNTH_STREAMS_H

#include "slave/build/build.h"
#include "tests/bench/native/synth.h"

struct synth_streams {
    struct ips_stream_in in[SYNTH_THREADS_MAX];
    struct ips_chunk *chunk[SYNTH_THREADS_MAX]; /* what in[].chunks is */
    uint32_t stream_of[SYNTH_THREADS_MAX];      /* by thread, + 1 */
    uint32_t count;
    bool no_memory;
};

/* All of one slave; NULL: the options are wrong or memory is short, see err. */
struct synth_streams *synth_streams(const struct synth_options *opt,
                                    uint32_t slave, uint32_t segment_bytes,
                                    struct ips_err *err);
void synth_streams_free(struct synth_streams *s);

#endif
