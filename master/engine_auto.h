/*
 * Which engine `auto` takes, and why in words. Pure but for the memory limit.
 *
 * central   one machine and few nodes: it costs nothing and checks itself
 * contract  three round trips, whatever the program; but all crossing messages
 *           come to the master, through its link and its memory
 * cm-sync   the values go between the slaves, so the master's link and memory
 *           do not matter; but as many round trips as messages in a row, and
 *           some more to connect and to walk back
 *
 * How many messages follow each other in a row is not known beforehand; the
 * model takes twice the crossing messages of one machine (tests/bench/
 * bench_engines: from 1/100 of that for all-to-all to 7 times that for a
 * pipeline).
 * Source: IPS-11, ALGORITHMS 3 `auto`.
 */
#ifndef IPS_MASTER_ENGINE_AUTO_H
#define IPS_MASTER_ENGINE_AUTO_H

#include <stddef.h>
#include <stdint.h>

struct auto_facts {
    uint32_t machines;
    uint64_t nodes;
    uint64_t crossing;     /* receives of what other machines sent */
    uint64_t crossing_out; /* sends that other machines may await */
    uint64_t round_trip_ns;
    uint64_t memory_bytes; /* that the master may use */
};

#define AUTO_TINY_NODES 10000u

/* The engine's name; `why` gets the reason with its figures. */
const char *engine_auto(const struct auto_facts *f, char *why, size_t cap);

/* Half of what is available now, or of the control group's limit if less. */
uint64_t engine_auto_memory(void);

#endif
