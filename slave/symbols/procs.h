/*
 * CPU time by code: samples, counters and entries/exits of procedures become
 * costs by thread and call stack of code locations (codemap.h). Pure: names
 * come later (symbols.h), so equal input gives equal output wherever the files
 * are.
 *
 * Sampled: each sampling period of a thread's CPU has one sample at a moment
 * drawn within it (agent/preload/sample/pace.h), so a sample always weighs one
 * period. The CPU time since the preceding sample would be a biased weight: it
 * depends on the moment within the period, and the program's position may
 * depend on that moment, too. A sample after a gap of three periods or more
 * weighs all whole periods of the gap (the kernel's ticks were late, or there
 * was no space in between), but not after a LOST record. `unsampled` of a
 * thread is the CPU time that no sample represents. It has three parts: the CPU
 * time before the thread's sampling timers existed, for example in the
 * program's loader (a SAMPLE record without frames says when they started); the
 * CPU time after its last record; and, if samples are missing, the amount by
 * which the rest exceeds the sum of the weights plus one period. A thread
 * shorter than a period has a sample or none by chance; the sum over many
 * threads is right, so a table scales the weights to the CPU of all its threads
 * (proc_table.h).
 *
 * Exact: for a thread with ENTER records the call stack is tracked. Its samples
 * do not count, and `unsampled` is the time outside instrumented code. An EXIT
 * ends all calls entered since its ENTER (longjmp, exceptions, lost records);
 * an EXIT without an ENTER is ignored; calls still open when the thread ends,
 * end there. COUNT adds calls of the thread that it names; a COUNT of 0 calls
 * means that from then on the procedure was only counted: its time belongs to
 * its caller.
 *
 * Source: IPS-2, IPS-7.
 */
#ifndef IPS_SLAVE_SYMBOLS_PROCS_H
#define IPS_SLAVE_SYMBOLS_PROCS_H

#include "slave/symbols/arc_procs.h"
#include "slave/symbols/codemap.h"

/* a call stack: frames[first .. first + count), innermost first */
struct ips_stack {
    uint32_t first, count;
    bool spins; /* its samples are in a loop that waits for memory to change */
};
struct ips_sampled { /* samples of one thread in one call stack */
    uint32_t chain, stack;
    uint64_t ns, samples;
    /* sum of the squared weights of the samples, in ns^2; the square of a late
     * sample counts IPS_LATE_SQUARES times */
    double squares;
};
/* Late samples (IPS_REC_F_LATE) are not independent: all may find the program
 * at the same place. So the confidence interval is as wide as if there were
 * only a quarter as many late samples. */
#define IPS_LATE_SQUARES 4.0
struct ips_exact { /* calls of one thread to one procedure */
    uint32_t chain, code_location;
    uint64_t self_ns, total_ns, calls;
    /* time, on this machine's CLOCK_MONOTONIC_RAW, from which on calls were
     * only counted; 0: entries and exits were recorded throughout */
    uint64_t counted_from_ns;
    bool timed; /* self_ns and total_ns were measured */
};
/* CPU time of one thread; there is one row for each chain */
struct ips_thread_cost {
    uint64_t samples, sampled_ns, unsampled_ns;
    /* sum over the samples of the sampling period that was requested, in ns */
    uint64_t asked_ns;
    /* all CPU of the thread, including time spent spinning */
    uint64_t cpu_ns;
    /* CPU time of the thread while its sampling timers existed */
    uint64_t timed_ns;
    bool timers; /* a record says when the thread's timers started */
    bool exact;
};

struct ips_procs {
    struct ips_codemap map;
    uint32_t *frames;
    uint32_t frame_count, frame_capacity;
    struct ips_stack *stacks;
    uint32_t stack_count, stack_capacity;
    struct ips_sampled *sampled;
    uint32_t sampled_count, sampled_capacity;
    struct ips_exact *exact;
    uint32_t exact_count, exact_capacity;
    struct ips_thread_cost *threads;
    uint32_t thread_count;
    /* the same CPU time, assigned to the arcs of the graph */
    struct slave_arcs arcs;
    /* true: all this is the CPU time of a window only, except cpu_ns of
     * `threads`, which covers the whole run */
    bool of_window;
};

/* Makes the CPU time by code of the run whose records are `in`; `b` is the
 * graph built from `in`. O(records). */
int ips_procs_make_profile_by_code_location(const struct ips_build_input *in,
                                            const struct ips_built *b,
                                            struct ips_procs *out,
                                            struct ips_err *err) IPS_MUST_USE;
void ips_procs_release(struct ips_procs *p);

#endif
