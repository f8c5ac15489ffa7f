/*
 * Combines CPU time by code location (slave/symbols/procs.h) with names
 * (slave/symbols/symbols.h) to a table of the CPU time of each process by
 * procedure or by line. Pure.
 *
 * There is one row for each (process, procedure, module, file, line). `self` is
 * the time in which this procedure was the innermost one of the stack (an
 * inlined procedure is one of its own); `total` is the time in which it was
 * anywhere in the stack, counted once even in recursion.
 */
#ifndef IPS_SLAVE_PROFILE_PROC_TABLE_H
#define IPS_SLAVE_PROFILE_PROC_TABLE_H

#include "slave/profile/proc_names.h"

struct slave_proc_row {
    uint32_t process;
    uint32_t symbol; /* the procedure or line: index into names.symbols */
    uint64_t self_ns, total_ns, samples;
    /* the shares of self_ns and total_ns that come from samples */
    uint64_t sampled_self_ns, sampled_total_ns;
    /* number of calls; IPS_CPU_UNKNOWN: not counted */
    uint64_t calls;
    /* time in ns of CLOCK_MONOTONIC_RAW from which on calls were only counted
     * and not timed; 0: always timed */
    uint64_t counted_from_ns;
    bool exact;
};
struct slave_proc_totals {
    uint64_t cpu_ns, sampled_ns, unsampled_ns, samples, asked_ns, exact_ns;
    uint64_t threads, exact_threads;
    double squares;
};
struct slave_proc_table {
    struct slave_proc_row *rows;
    uint32_t row_count, row_capacity;
    struct slave_proc_names names;
    struct slave_proc_totals totals;
};

/* Makes the table of the threads that match the pattern `object`
 * (slave_is_chain_of_object). `costs` must outlive the table. Samples
 * are scaled to the CPU time of these threads (slave_proc_table_scale_to_cpu),
 * unless the costs are those of a window. */
int slave_proc_table_make(const struct slave_profile_cache *costs,
                          const struct ips_built *b, const char *machine,
                          const char *object, enum slave_proc_by by,
                          struct slave_proc_table *out,
                          struct ips_err *err) IPS_MUST_USE;
/* Scales the table's sampled times, so that with the exact and the unsampled
 * time they add up to `cpu_ns`, the CPU time of the table's threads (with
 * spinning). Every sample is scaled by the same factor. */
void slave_proc_table_scale_to_cpu(struct slave_proc_table *t, uint64_t cpu_ns);
/* Merges the rows of all processes: rows of one symbol become one row, with the
 * first row's process. O(rows). */
int slave_proc_table_merge_processes(struct slave_proc_table *t,
                                     struct ips_err *err) IPS_MUST_USE;
void slave_proc_table_release(struct slave_proc_table *t);

#endif
