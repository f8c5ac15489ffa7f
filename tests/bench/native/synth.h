/*
 * Synthetic runs for benches and for tests that need a large, known program: a
 * fixed number of threads that send and receive messages in a pattern, over a
 * number of machines ("slaves"). The same options give the same run, byte for
 * byte.
 *
 * One walk gives every form of it, so all forms tell of the same program:
 *   synth_walk     each operation in an order that respects cause and effect
 *   synth_graphs   one ips_graph a slave with its remote ins and outs, the
 * table of who is whose peer, and the merged graph synth_records  the records
 * of one slave's threads, segment by segment, as the agent writes them
 * (synth_pool: into a run directory)
 *
 * The walk computes the longest path (MTIME 0) as it goes, which is one more
 * answer to hold the engines against: synth.t_max. A build of the records
 * gives the slave's graph bit for bit (kind, w, xpred, in, out).
 */
#ifndef IPS_TESTS_BENCH_NATIVE_SYNTH_H
#define IPS_TESTS_BENCH_NATIVE_SYNTH_H

#include "analysis/graph/contract.h"
#include "analysis/graph/graph.h"

#define SYNTH_PATTERNS(X)                                                      \
    X(PINGPONG, "pingpong", "threads 2k and 2k+1 ask and answer in turns")     \
    X(RING, "ring", "each round all send right and receive from the left")     \
    X(MASTER, "master", "thread 0 gives tasks and takes results, any order")   \
    X(RANDOM, "random", "each round a random permutation, read up to 3 later") \
    X(ALL, "all", "each round everybody sends to everybody")                   \
    X(STENCIL, "stencil", "a grid; each round all four neighbours exchange")   \
    X(PIPELINE, "pipeline", "each round one item goes through all threads")
enum synth_pattern {
#define X(name, word, text) SYNTH_##name,
    SYNTH_PATTERNS(X)
#undef X
        SYNTH_PATTERN_COUNT
};
extern const char *const synth_pattern_names[SYNTH_PATTERN_COUNT];

#define SYNTH_THREADS_MAX 1024u

struct synth_options {
    enum synth_pattern pattern;
    uint64_t seed;
    uint32_t nodes;   /* stops at the end of the round that reaches them */
    uint32_t slaves;  /* 1..threads */
    uint32_t threads; /* 2..SYNTH_THREADS_MAX, over all slaves */
    bool cyclic;      /* thread t on slave t % slaves; else in blocks */
    uint32_t len_min, len_max;   /* bytes of a message, at least 1 */
    uint32_t work_min, work_max; /* CPU ns before an operation, at least 400 */
    bool forms; /* records: long or short as an agent chooses, not all long */
};
/* 10^6 nodes of `pattern`, 64 threads, 1 slave, 1..1000 bytes, 500..20000 ns.
 */
struct synth_options synth_default(enum synth_pattern pattern);

/* The slave of a thread. */
uint32_t synth_slave_of(const struct synth_options *opt, uint32_t thread);

/* Costs of calls and of the way, ns, in the times of the records. */
#define SYNTH_SEND_NS 200u
#define SYNTH_RECV_NS 100u
#define SYNTH_WAY_NS 1000u /* at least */

enum synth_kind { SYNTH_START, SYNTH_SEND, SYNTH_RECV, SYNTH_END };
struct synth_op {
    enum synth_kind kind;
    uint32_t thread, index; /* node `index` of the thread's chain */
    uint32_t peer;          /* SEND: to; RECV: from */
    uint32_t from_index;    /* RECV: the send's index in the peer's chain */
    uint32_t len;
    uint64_t pos;      /* bytes on this direction, this message included */
    uint64_t work_ns;  /* arc from the node before */
    uint64_t cpu;      /* coordinate: sum of work */
    uint64_t t, t_ret; /* clock at the call and the return; END: t */
    uint64_t est;      /* longest path to here, MTIME 0 */
};
typedef void synth_sink(void *arg, const struct synth_op *op);

/* 0, or a negative code where the options are out of range or memory short. */
int synth_walk(const struct synth_options *opt, synth_sink *sink, void *arg,
               struct ips_err *err) IPS_MUST_USE;

struct synth {
    uint32_t slaves;
    struct ips_graph *part;      /* [slaves] */
    struct ips_peer_end **peer;  /* [slaves][end_count]; part IPS_NO_NODE where
                                    both ends are on this machine */
    uint32_t *end_count;         /* [slaves] */
    uint32_t *base;              /* [slaves] first node in `whole` */
    struct ips_graph whole;      /* merged; empty unless asked for */
    uint64_t t_max;              /* MTIME 0 */
    uint32_t messages, crossing; /* all; those between slaves */
};
int synth_graphs(const struct synth_options *opt, bool whole, struct synth *out,
                 struct ips_err *err) IPS_MUST_USE;
void synth_release(struct synth *s);

/* Takes each segment of a thread in turn: `data` (header and records, zeroed
 * behind `used`) is the callee's to read until it returns. */
typedef void synth_segment_sink(void *arg, uint32_t thread, uint32_t seq,
                                const void *data, size_t used);
int synth_records(const struct synth_options *opt, uint32_t slave,
                  uint32_t segment_bytes, synth_segment_sink *sink, void *arg,
                  struct ips_err *err) IPS_MUST_USE;
/* Makes POOL/RUN with its control and all segments of `slave`, closed, of a
 * process that is gone. POOL exists. */
int synth_pool(const struct synth_options *opt, uint32_t slave,
               const char *pool, const char *run,
               struct ips_err *err) IPS_MUST_USE;

#endif
