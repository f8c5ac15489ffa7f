/*
 * Costs by code (procs.h) and names (symbols.h) put together: what each
 * process spent in which procedure, or at which line. Pure.
 *
 * A row is one (process, procedure, module, file, line). `self` is what the
 * innermost procedure of a stack spent, inlined ones counted as procedures;
 * `total` what was spent while it was in the stack, once however often.
 */
#ifndef IPS_SLAVE_PROFILE_PROC_TABLE_H
#define IPS_SLAVE_PROFILE_PROC_TABLE_H

#include "slave/profile/proc_names.h"

struct slave_proc_row {
    uint32_t process;
    uint32_t symbol; /* of names.symbols */
    uint64_t self_ns, total_ns, samples;
    uint64_t sampled_self_ns, sampled_total_ns; /* of these, by samples */
    uint64_t calls;           /* IPS_CPU_UNKNOWN: not counted */
    uint64_t counted_from_ns; /* local raw; 0 not so */
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

/* Of the threads that `object` holds (slave_chain_in). The costs must outlive
 * the table. Samples are scaled to the CPU of these threads
 * (slave_proc_table_fit), but of a part of a run. */
int slave_proc_table_make(const struct slave_profile_cache *costs,
                          const struct ips_built *b, const char *machine,
                          const char *object, enum slave_proc_by by,
                          struct slave_proc_table *out,
                          struct ips_err *err) IPS_MUST_USE;
/* The threads of the table used `cpu_ns`, what they span included: all but what
 * is unsampled is what samples stand for, each for as much. */
void slave_proc_table_fit(struct slave_proc_table *t, uint64_t cpu_ns);
/* Of all processes together: rows of one symbol become one, of the first's
 * process. O(rows). */
int slave_proc_table_merge(struct slave_proc_table *t,
                           struct ips_err *err) IPS_MUST_USE;
void slave_proc_table_release(struct slave_proc_table *t);

#endif
