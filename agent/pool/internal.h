/* Shared by the files of the pool library; not to be included elsewhere. */
#ifndef IPS_AGENT_POOL_INTERNAL_H
#define IPS_AGENT_POOL_INTERNAL_H

#include "agent/pool/pool.h"
#include "common/paths.h"

/* Reads /proc/sys/kernel/random/boot_id. */
int ips_pool_boot_id(char out[40], struct ips_err *err) IPS_MUST_USE;

/* Fills `clock` of this boot and the probe costs measured on it: from
 * POOL/clock, or else by measuring (100 ms) and storing them there. */
int ips_pool_load_or_measure_clock(const char *pool_root, const char *boot_id,
                                   struct ips_clock *clock,
                                   struct ips_measured *measured,
                                   bool (*measure)(const struct ips_clock *,
                                                   struct ips_measured *),
                                   struct ips_err *err) IPS_MUST_USE;

#endif
