/* Shared by synth*.c: which thread pairs talk, and where their ends are. */
#ifndef IPS_TESTS_BENCH_NATIVE_SYNTH_PRIVATE_H
#define IPS_TESTS_BENCH_NATIVE_SYNTH_PRIVATE_H

#include "tests/bench/native/synth.h"

/* The one process of slave m; its threads have tids from here on. A pid that no
 * kernel gives out, so its segments are those of a dead process. */
#define SYNTH_PID(m) (0x40000000u + (m)*SYNTH_THREADS_MAX)

int synth_check(const struct synth_options *o, struct ips_err *err);

/* Every pair of threads that talks has one connection with an end at each of
 * them. Ends of a slave are numbered in order of (thread, peer); so its
 * threads' channel ids are the ends' numbers plus 1. */
struct synth_ends {
    uint32_t threads, slaves;
    uint32_t *end_of; /* [thread * threads + peer], IPS_NO_NODE: no channel */
    uint32_t *end_count; /* [slaves] */
    uint32_t *nodes;     /* [threads] nodes of each chain */
    uint32_t *recvs;     /* [threads] receives from other slaves */
    uint32_t *sends;     /* [thread * threads + peer] */
};
/* Walks once to learn them. */
int synth_ends_init(struct synth_ends *e, const struct synth_options *opt,
                    struct ips_err *err);
void synth_ends_release(struct synth_ends *e);

#endif
