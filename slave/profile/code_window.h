/*
 * Finds the procedures that ran within windows of time, from samples and
 * recorded entries. The run's profile cache must have been made. Pure. Source:
 * IPS-16 (a phase as the focus of other questions).
 */
#ifndef IPS_SLAVE_PROFILE_CODE_WINDOW_H
#define IPS_SLAVE_PROFILE_CODE_WINDOW_H

#include "slave/graphs/series.h"
#include "slave/profile/arc_sum.h"
#include "slave/profile/proc_names.h"

struct slave_top_procedure {
    uint32_t bin, symbol; /* symbol: index into the names' symbols */
    uint64_t ns;
};
/* Finds, for each bin, the `most` procedures with the greatest self time, the
 * greatest first. The rows in *out are in the order of bins. Bin i is the time
 * from edges[i] to edges[i + 1]. A sample counts with its whole weight in the
 * bin in which it was taken. Free *out with ips_free_large. */
int slave_window_find_top_procedures_of_bins(
    const struct slave_profile_cache *costs, const struct ips_built *b,
    const struct slave_proc_names *names, const uint64_t *edges, uint32_t bins,
    uint32_t most, struct slave_top_procedure **out, uint32_t *count,
    struct ips_err *err) IPS_MUST_USE;

/* Makes a profile (CPU time by code location) of one window from the samples,
 * entries and exits in it, for slave_proc_table_make. The window is from <= t <
 * to, in ns of this machine's CLOCK_MONOTONIC_RAW. Thread rows count only the
 * window's samples. Free with slave_arc_profile_free; `costs` must outlive
 * *out. */
int slave_make_profile_of_time_window(const struct slave_profile_cache *costs,
                                      const struct ips_built *b,
                                      uint64_t from_ns, uint64_t to_ns,
                                      struct slave_profile_cache *out,
                                      struct ips_err *err) IPS_MUST_USE;

#endif
