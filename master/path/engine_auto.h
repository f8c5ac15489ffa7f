/*
 * Chooses the engine for `auto`, and gives the reason in words. Pure except
 * for the memory limit.
 *
 *  - central: for one machine and few nodes; it is cheap and checks itself.
 *  - contract: three round trips for any program. But some data of every arc,
 *    also of arcs within one machine, must pass the master's link and fit in
 *    its memory.
 *  - cm-sync: the values go between the slaves, so the master's link and
 *    memory do not limit it. But it needs as many round trips as there are
 *    messages in a row, plus some to connect and to walk back.
 *
 * The number of messages in a row is not known in advance. The model uses the
 * number of crossing messages per thread: threads run in parallel, and each
 * waits for its own messages. Measurements (tests/bench/run links, 64 threads
 * on 4 slaves, 10^6 nodes, docs/benchmarks.md) show that number for ping-pong,
 * master and random; half of it for ring and stencil; almost none for
 * all-to-all and pipeline. The time of contract is known and that of cm-sync
 * is not, so cm-sync is chosen only if its worst case is faster. The speed of
 * the links is the one that `ipsq calibrate` measured between the run's
 * machines, else 1 Gbit/s. Source: IPS-11, ALGORITHMS 3 `auto`.
 */
#ifndef IPS_MASTER_PATH_ENGINE_AUTO_H
#define IPS_MASTER_PATH_ENGINE_AUTO_H

#include <stddef.h>
#include <stdint.h>

struct auto_facts {
    uint32_t machines;
    uint64_t threads; /* number of threads on all machines */
    uint64_t nodes;
    /* number of receives of messages from other machines */
    uint64_t crossing;
    uint64_t crossing_out; /* sends whose receiver may be on another machine */
    /* upper bound of the number of nodes in the joins of all machines */
    uint64_t join_bound;
    uint64_t round_trip_ns;
    uint64_t memory_bytes;      /* memory that the master may use, in bytes */
    uint64_t link_bytes_per_us; /* rate of the slowest link; 0: not known */
};

#define AUTO_TINY_NODES 10000u

/* Estimated times in ns that the engines need, with several machines. */
struct auto_estimates {
    uint64_t contract_ns, cm_ns;
};
void engine_auto_estimate_engine_times(const struct auto_facts *f,
                                       struct auto_estimates *out);

/* Returns the name of the engine; `why` receives the reason with its figures.
 */
const char *engine_auto_choose(const struct auto_facts *f, char *why,
                               size_t cap);

/* Returns half of the memory that is available now, or of the control group's
 * limit if that is less, in bytes. */
uint64_t engine_auto_usable_memory(void);

#endif
