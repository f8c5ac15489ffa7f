/*
 * Which procedures have the most of all machines' CPU time, where a procedure
 * is on several and none of them knows its sum: from a digest of every
 * machine's rows - a key, self, total, a tenth of a row's size - the keys of
 * those that must be told. Exact: all of the first `top` by (self, total), and
 * all that are equal to the last of them, since texts decide between these.
 * Pure.
 */
#ifndef IPS_MASTER_PROCS_FIRST_H
#define IPS_MASTER_PROCS_FIRST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct procs_digest {
    uint64_t key; /* ips_procedure_key */
    uint64_t self_ns, total_ns;
};

/* Adds up those of equal key; returns how many are left, in order of key. */
size_t procs_digest_merge(struct procs_digest *v, size_t count);
/* Of merged ones, at the begin of v, in order of key, those to be told. */
size_t procs_digest_first(struct procs_digest *v, size_t count, uint64_t top);
/* v in order of key. */
bool procs_digest_has(const struct procs_digest *v, size_t count, uint64_t key);

#endif
