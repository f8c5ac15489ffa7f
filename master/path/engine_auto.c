#include "master/path/engine_auto.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"

/* Costs measured between network namespaces, 10^6 nodes (tests/bench/run links;
 * docs/benchmarks.md). CROSSING: per message between machines; LOCAL: per arc
 * within a machine that joins may contain. _BYTES: bytes on the wire, including
 * the value sent back. _NS: CPU time of the master from receiving the frames to
 * sending the values. NODE_NS: CPU time per node of the slave that makes the
 * joins. */
#define CROSSING_BYTES 20u
#define LOCAL_BYTES 4u
#define CROSSING_NS 120u
#define LOCAL_NS 40u
#define NODE_NS 60u
/* bytes of memory at the master for each node in the joins */
#define NODE_HELD_BYTES 50u
/* Costs of the cm engines. VALUE: per remote value between slaves, including
 * the agreement on the links: bytes, and CPU time at both ends. ROUND_NS: per
 * message in a row, the time to wake the receiver in addition to the round
 * trip. */
#define CM_VALUE_BYTES 10u
#define CM_VALUE_NS 500u
#define CM_ROUND_NS 40000u
#define CONTRACT_TRIPS 3u /* number of round trips: joins, values, pieces */
/* number of round trips to connect, agree on links, start, end and walk back */
#define CM_TRIPS 8u
#define LINK_BYTES_PER_US 125u /* 1 Gbit/s, if not calibrated */

static uint64_t add_sat(uint64_t a, uint64_t b)
{
    return ips_add_sat(a, b);
}

/* Returns a * b / c; UINT64_MAX if that is too large. */
static uint64_t multiply_divide_saturated(uint64_t a, uint64_t b, uint64_t c)
{
    ips_u128 x = (ips_u128)a * b / c;
    return x > UINT64_MAX ? UINT64_MAX : (uint64_t)x;
}

/* Returns an upper bound of the number of nodes in the joins. */
static uint64_t join_node_upper_bound(const struct auto_facts *f)
{
    return ips_max_u64(f->join_bound, add_sat(f->crossing, f->crossing_out));
}

void engine_auto_estimate_engine_times(const struct auto_facts *f,
                                       struct auto_estimates *out)
{
    uint64_t machines = ips_max_u64(f->machines, 1);
    uint64_t rate =
        f->link_bytes_per_us ? f->link_bytes_per_us : LINK_BYTES_PER_US;
    uint64_t kept = join_node_upper_bound(f);
    uint64_t local = (kept - add_sat(f->crossing, f->crossing_out)) / 2;
    uint64_t wire =
        add_sat(multiply_divide_saturated(f->crossing, CROSSING_BYTES, 1),
                multiply_divide_saturated(local, LOCAL_BYTES, 1));
    uint64_t cpu =
        add_sat(multiply_divide_saturated(kept, NODE_NS, machines),
                add_sat(multiply_divide_saturated(f->crossing, CROSSING_NS, 1),
                        multiply_divide_saturated(local, LOCAL_NS, 1)));
    out->contract_ns =
        add_sat(multiply_divide_saturated(f->round_trip_ns, CONTRACT_TRIPS, 1),
                add_sat(multiply_divide_saturated(wire, 1000, rate), cpu));
    uint64_t rounds = f->crossing / ips_max_u64(f->threads, 1);
    uint64_t bytes =
        multiply_divide_saturated(f->crossing, CM_VALUE_BYTES, machines);
    out->cm_ns = add_sat(
        add_sat(multiply_divide_saturated(add_sat(rounds, CM_TRIPS),
                                          f->round_trip_ns, 1),
                multiply_divide_saturated(rounds, CM_ROUND_NS, 1)),
        add_sat(multiply_divide_saturated(bytes, 1000, rate),
                multiply_divide_saturated(f->crossing, CM_VALUE_NS, machines)));
}

const char *engine_auto_choose(const struct auto_facts *f, char *why,
                               size_t cap)
{
    if (f->machines == 1 && f->nodes <= AUTO_TINY_NODES) {
        snprintf(why, cap,
                 "1 machine, %" PRIu64 " nodes: small enough to "
                 "compute twice",
                 f->nodes);
        return "central";
    }
    if (f->machines == 1) {
        snprintf(why, cap,
                 "1 machine, %" PRIu64 " nodes, reduced where they "
                 "are",
                 f->nodes);
        return "contract";
    }
    struct auto_estimates cost;
    engine_auto_estimate_engine_times(f, &cost);
    uint64_t contract = cost.contract_ns, cm = cost.cm_ns;
    uint64_t held =
        multiply_divide_saturated(join_node_upper_bound(f), NODE_HELD_BYTES, 1);
    int n = snprintf(why, cap,
                     "%u machines, %" PRIu64
                     " messages between them, round trip %" PRIu64
                     " us, %" PRIu64 " MB/s%s: ",
                     f->machines, f->crossing, f->round_trip_ns / 1000,
                     f->link_bytes_per_us ? f->link_bytes_per_us
                                          : (uint64_t)LINK_BYTES_PER_US,
                     f->link_bytes_per_us ? "" : " supposed");
    size_t at = n < 0 || (size_t)n >= cap ? cap : (size_t)n;
    if (held > f->memory_bytes) {
        snprintf(why + at, cap - at,
                 "contract would need %" PRIu64 " MiB here, %" PRIu64
                 " are free",
                 held >> 20, f->memory_bytes >> 20);
        return "cm-sync";
    }
    snprintf(why + at, cap - at, "about %" PRIu64 " us, %s about %" PRIu64,
             ips_min_u64(contract, cm) / 1000,
             contract <= cm ? "cm-sync" : "contract",
             ips_max_u64(contract, cm) / 1000);
    return contract <= cm ? "contract" : "cm-sync";
}

static uint64_t read_number_after_key(const char *path, const char *key)
{
    char line[256];
    uint64_t found = UINT64_MAX;
    FILE *f = fopen(path, "re");
    while (f && found == UINT64_MAX && fgets(line, sizeof(line), f)) {
        const char *at = key ? strstr(line, key) : line;
        if (!at)
            continue;
        at += key ? strlen(key) : 0;
        at += strspn(at, " \t");
        if (*at >= '0' && *at <= '9')
            found = strtoull(at, NULL, 10);
    }
    if (f)
        fclose(f);
    return found;
}

uint64_t engine_auto_usable_memory(void)
{
    uint64_t free_kib = read_number_after_key("/proc/meminfo", "MemAvailable:");
    uint64_t group = read_number_after_key("/sys/fs/cgroup/memory.max", NULL);
    uint64_t bytes =
        free_kib > UINT64_MAX / 1024 ? UINT64_MAX : free_kib * 1024;
    return ips_min_u64(bytes, group) / 2;
}
