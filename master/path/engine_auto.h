/*
 * Which engine `auto` takes, and why in words. Pure but for the memory limit.
 *
 * central   one machine and few nodes: it costs nothing and checks itself
 *
 * contract  three round trips, whatever the program; but something of every
 *           arc, also of one within a machine, comes to the master, through
 *           its link and its memory
 *
 * cm-sync   the values go between the slaves, so the master's link and memory
 *           do not matter; but as many round trips as messages in a row, and
 *           some more to connect and to walk back
 *
 * How many messages follow each other in a row is not known beforehand. The
 * model takes the crossing messages of one thread: threads go on side by side,
 * each waits for its own. Measured (tests/bench/run links, 64 threads on 4
 * slaves, 10^6 nodes, docs/benchmarks.md): ping-pong, master and random just
 * that and more, ring and stencil half, all-to-all and pipeline next to
 * nothing. So cm-sync is taken where it is quicker at the worst, as contract's
 * time is known and cm-sync's is not. The speed of the links is what
 * `ipsq calibrate` measured between the run's machines, else 1 Gbit/s.
 * Source: IPS-11, ALGORITHMS 3 `auto`.
 */
#ifndef IPS_MASTER_PATH_ENGINE_AUTO_H
#define IPS_MASTER_PATH_ENGINE_AUTO_H

#include <stddef.h>
#include <stdint.h>

struct auto_facts {
    uint32_t machines;
    uint64_t threads; /* of all machines */
    uint64_t nodes;
    uint64_t crossing;     /* receives of what other machines sent */
    uint64_t crossing_out; /* sends that other machines may await */
    uint64_t join_bound;   /* nodes that all joins tell of, at most */
    uint64_t round_trip_ns;
    uint64_t memory_bytes;      /* that the master may use */
    uint64_t link_bytes_per_us; /* of the slowest; 0: not known */
};

#define AUTO_TINY_NODES 10000u

/* What several machines would take, ns. */
struct auto_estimates {
    uint64_t contract_ns, cm_ns;
};
void engine_auto_estimate(const struct auto_facts *f,
                          struct auto_estimates *out);

/* The engine's name; `why` gets the reason with its figures. */
const char *engine_auto(const struct auto_facts *f, char *why, size_t cap);

/* Half of what is available now, or of the control group's limit if less. */
uint64_t engine_auto_memory(void);

#endif
