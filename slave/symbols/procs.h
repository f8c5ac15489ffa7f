/*
 * What the threads of a run spent in which code: samples, counters and
 * entries/exits of procedures become costs by thread and stack of places
 * (codemap.h). Pure: names come later (symbols.h), so equal input gives equal
 * output wherever the files are.
 *
 * Sampled: each period of a thread's CPU has one sample at a moment drawn in it
 * (agent/preload/sample/pace.h), so a sample weighs a period, whatever it
 * found. The CPU since the sample before is no weight: it depends on where in
 * the period the moment was, and so may the program. A sample after a gap of
 * three periods and more weighs all whole ones of the gap, as there were ticks
 * of the kernel or no room in between; not after a LOST record. `unsampled` of
 * a thread is its CPU before its timers were there (a SAMPLE without frames
 * says when; an image's loader, say) and after the last record, and what is
 * beyond its weights and one period more: samples that should have been there.
 * A thread shorter than a period has a sample or none by chance: the sum over
 * many threads is right, so a table scales the weights to the CPU of all its
 * threads (proc_table.h). Exact: of a thread with ENTER records the call stack
 * is kept; its samples do not count, and `unsampled` is what was spent outside
 * instrumented code. An EXIT ends all that was entered since its ENTER
 * (longjmp, exceptions, lost records); one that was never entered is ignored;
 * what is entered when the thread ends, ends there. COUNT adds calls, of the
 * thread that it names; one of 0 calls says that the procedure fell back to
 * counting from then on: its time is its caller's.
 *
 * Source: IPS-2, IPS-7.
 */
#ifndef IPS_SLAVE_SYMBOLS_PROCS_H
#define IPS_SLAVE_SYMBOLS_PROCS_H

#include "slave/symbols/arc_procs.h"
#include "slave/symbols/codemap.h"

struct ips_stack { /* frames[first .. first + count): innermost first */
    uint32_t first, count;
};
struct ips_sampled { /* of one thread in one stack */
    uint32_t chain, stack;
    uint64_t ns, samples;
    double squares; /* sum of the weights' squares, ns^2; late ones count
                       IPS_LATE_SQUARES times */
};
/* A late sample (IPS_REC_F_LATE) may be where the program always is then: the
 * interval is as wide as if there were a quarter of them. */
#define IPS_LATE_SQUARES 4.0
struct ips_exact { /* of one thread in one procedure */
    uint32_t chain, code_location;
    uint64_t self_ns, total_ns, calls;
    uint64_t counted_from_ns; /* local raw; 0: entries and exits throughout */
    bool timed;               /* self and total were measured */
};
struct ips_thread_cost { /* by chain */
    uint64_t samples, sampled_ns, unsampled_ns;
    uint64_t asked_ns; /* sum of the periods asked for */
    uint64_t cpu_ns;   /* all of it, what it span included */
    uint64_t timed_ns; /* CPU while its timers were there */
    bool timers;       /* a record says when they were */
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
    struct slave_arcs arcs; /* the same, by arcs */
    bool of_window; /* of some of the run: the CPU of threads is that of all */
};

/* `b` is the build of `in`. O(records). */
int ips_procs_make(const struct ips_build_input *in, const struct ips_built *b,
                   struct ips_procs *out, struct ips_err *err) IPS_MUST_USE;
void ips_procs_release(struct ips_procs *p);

#endif
