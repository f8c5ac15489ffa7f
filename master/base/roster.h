/*
 * The slaves, by machine name. A machine has one slave: a second slave with
 * the same name is refused while the first is alive. A slave that disconnected
 * stays in the list, so that `status` can show it and answers can name it.
 * This module only decides: the caller sends and closes. Times are arguments
 * (ns of CLOCK_MONOTONIC).
 */
#ifndef IPS_MASTER_BASE_ROSTER_H
#define IPS_MASTER_BASE_ROSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/paths.h"
#include "proto/frame.h"

#define ROSTER_NAME_BYTES 64
/* a slave that is silent for longer is not alive */
#define ROSTER_MISSING_NS 3000000000ULL
#define ROSTER_MAX_SLAVES 1024

struct ips_peer;

struct slave {
    struct slave *next;
    char machine[ROSTER_NAME_BYTES];
    char boot_id[40];
    char version[32];
    uint32_t cores;
    /* number of computations in which the slave takes part, according to its
     * last report */
    uint32_t computations;
    /* number of questions that the slave answers now, by its last report */
    uint32_t questions;
    /* request for which the slave builds a graph, by its last report */
    uint64_t building_for;
    uint32_t built_permille;
    char peers[IPS_PATH_BYTES]; /* address for other slaves; "": none */
    /* the slave's connection; NULL: not connected */
    struct ips_peer *peer;
    uint64_t seen_ns;
    uint64_t runs;
    uint64_t pool_used_bytes, pool_size_bytes;
    char trouble[200]; /* why the slave cannot write its archive; "": it can */
};

struct roster {
    struct slave *first; /* list of slaves, sorted by machine name */
    uint32_t count;
};

void roster_release(struct roster *r);

/* To be called when a slave sent Hello on `peer`. Sets *out to the entry of its
 * machine, which is connected by `peer` from now on. If the slave replaces an
 * older connection, *old is that connection and the caller closes it; else *old
 * is NULL. IPS_E_REFUSED, with the text for the slave: a living slave has its
 * name, or the name is invalid. IPS_E_LIMIT: too many machines. */
int roster_admit(struct roster *r, const Ips__Hello *hello,
                 struct ips_peer *peer, uint64_t now_ns, struct ips_peer **old,
                 struct slave **out, struct ips_err *err) IPS_MUST_USE;

/* Returns the slave that is connected by `peer`, or NULL. */
struct slave *roster_find_by_peer(const struct roster *r,
                                  const struct ips_peer *peer);
struct slave *roster_find(const struct roster *r, const char *machine);

void roster_store_report(struct slave *s, const Ips__Report *report,
                         uint64_t now_ns);
void roster_mark_disconnected(struct slave *s);

/* Whether the slave is connected and sent something within the last
 * ROSTER_MISSING_NS. */
bool roster_is_slave_alive(const struct slave *s, uint64_t now_ns);

/* Whether `text` can be a machine name: not empty, printable, without '/' and
 * spaces, and short enough. */
bool roster_is_valid_machine_name(const char *text);

#endif
