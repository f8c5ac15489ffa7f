/*
 * The slaves, by machine name. A machine has one slave: a second one of the
 * same name is refused as long as the first is alive. A slave that went away
 * stays in the list, so that status can show it and answers can name it.
 * Decides; sends nothing and closes nothing. Time is an argument (ns of
 * CLOCK_MONOTONIC).
 */
#ifndef IPS_MASTER_BASE_ROSTER_H
#define IPS_MASTER_BASE_ROSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/paths.h"
#include "proto/frame.h"

#define ROSTER_NAME_BYTES 64
#define ROSTER_MISSING_NS 3000000000ULL /* silence: not alive */
#define ROSTER_MAX_SLAVES 1024

struct ips_peer;

struct slave {
    struct slave *next;
    char machine[ROSTER_NAME_BYTES];
    char boot_id[40];
    char version[32];
    uint32_t cores;
    uint32_t computations; /* it takes part in, as last reported */
    uint32_t questions;    /* it has in hand, the same */
    uint64_t building_for; /* request it builds a graph for, the same */
    uint32_t built_permille;
    char peers[IPS_PATH_BYTES]; /* address for other slaves, "" none */
    struct ips_peer *peer;      /* NULL: not connected */
    uint64_t seen_ns;
    uint64_t runs;
    uint64_t pool_used_bytes, pool_size_bytes;
    char trouble[200]; /* why it cannot archive; "" it can */
};

struct roster {
    struct slave *first; /* by machine name */
    uint32_t count;
};

void roster_release(struct roster *r);

/* A slave said Hello on `peer`. IPS_E_REFUSED with the text for it where its
 * name is taken by a living slave, or is no name. Where an older connection is
 * replaced, *old is it (for the caller to close), else NULL. */
int roster_admit(struct roster *r, const Ips__Hello *hello,
                 struct ips_peer *peer, uint64_t now_ns, struct ips_peer **old,
                 struct slave **out, struct ips_err *err) IPS_MUST_USE;

/* The slave connected by `peer`, or NULL. */
struct slave *roster_of(const struct roster *r, const struct ips_peer *peer);
struct slave *roster_find(const struct roster *r, const char *machine);

void roster_heard(struct slave *s, const Ips__Report *report, uint64_t now_ns);
void roster_gone(struct slave *s);

/* Connected and heard of within ROSTER_MISSING_NS. */
bool roster_alive(const struct slave *s, uint64_t now_ns);

/* May `text` name a machine: not empty, printable, no '/' or space, fits. */
bool roster_name_ok(const char *text);

#endif
