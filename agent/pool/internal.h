/* Shared by the files of the pool library; not to be included elsewhere. */
#ifndef IPS_AGENT_POOL_INTERNAL_H
#define IPS_AGENT_POOL_INTERNAL_H

#include "agent/pool/pool.h"
#include "common/paths.h"

/* Reads /proc/sys/kernel/random/boot_id into `out`, without its newline. */
int ips_pool_read_boot_id(char out[40], struct ips_err *err) IPS_MUST_USE;

/* Fills `clock` with this boot's clock and `measured` with the probe costs:
 * from POOL/clock, or else by calibrating the clock (50 ms) and calling
 * `measure` (NULL: the costs stay 0), and then stores both in POOL/clock. */
int ips_pool_load_or_measure_clock_and_costs(
    const char *pool_root, const char *boot_id, struct ips_clock *clock,
    struct ips_probe_measurements *measured,
    bool (*measure)(const struct ips_clock *, struct ips_probe_measurements *),
    struct ips_err *err) IPS_MUST_USE;

#endif
