/*
 * The certificate for people: before the answer, the lines that say what limits
 * it; after the answer, one line that sums the certificate up. With -v,
 * everything is printed.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/out.h"
#include "client/base/units.h"
#include "proto/message.h"

/* the load of other programs is reported from this value on, in 1/1000 cores */
#define OTHERS_MILLI 250

static bool is_known_nonzero(uint64_t n)
{
    return n && n != UINT64_MAX;
}

/* Writes items either into one line, as "; 3 text", or (verbose) each on a line
 * of its own. */
struct writer {
    FILE *f;
    bool verbose;
    bool begun; /* true: the output line is not empty */
};

static void write_formatted_item(struct writer *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void write_formatted_item(struct writer *w, const char *fmt, ...)
{
    va_list ap;
    fputs(w->verbose ? "  " : w->begun ? "; " : "", w->f);
    w->begun = true;
    va_start(ap, fmt);
    vfprintf(w->f, fmt, ap);
    va_end(ap);
    if (w->verbose)
        fputc('\n', w->f);
}

static void write_text_item(struct writer *w, const char *before,
                            const char *text)
{
    struct ipsq_cell cell = ipsq_text_cell(text);
    char *clean = ipsq_cell_text(IPSQ_TEXT, &cell);
    write_formatted_item(w, "%s%s", before, clean);
    free(clean);
}

/* Adds a count with its noun: "34,298 events". */
static void add_count(struct writer *w, uint64_t n, const char *what)
{
    char text[IPSQ_UNIT_BYTES];
    if (n == UINT64_MAX)
        return;
    ipsq_format_with_commas(n, text);
    write_formatted_item(w, "%s %s%s", text, what, n == 1 ? "" : "s");
}

/* Adds a list of names: "one, two". */
static void add_names(struct writer *w, const char *what, char **item,
                      size_t count)
{
    struct ipsq_cell cell = ipsq_list_cell(item, count);
    char *text = ipsq_cell_text(IPSQ_LIST, &cell);
    if (count)
        write_formatted_item(w, "%s: %s", what, text);
    free(text);
}

bool ipsq_format_overhead_text(char out[IPSQ_OVERHEAD_BYTES],
                               const Ips__Certificate *c)
{
    double percent = (double)c->dilation_ppm / 1e4;
    if (!is_known_nonzero(c->overhead_ns) || c->dilation_ppm == UINT64_MAX)
        return false;
    if (percent < 0.05)
        snprintf(out, IPSQ_OVERHEAD_BYTES,
                 "recording overhead below 0.1%% CPU");
    else
        snprintf(out, IPSQ_OVERHEAD_BYTES, "recording overhead %.1f%% CPU",
                 percent);
    return true;
}

static void add_overhead(struct writer *w, const Ips__Certificate *c)
{
    char probe[IPSQ_UNIT_BYTES], overhead[IPSQ_UNIT_BYTES], share[48] = "";
    char line[IPSQ_OVERHEAD_BYTES];
    double percent = (double)c->dilation_ppm / 1e4;
    if (!w->verbose && ipsq_format_overhead_text(line, c))
        write_formatted_item(w, "%s", line);
    if (!w->verbose || !is_known_nonzero(c->overhead_ns))
        return;
    ipsq_format_ns(c->overhead_ns, overhead);
    ipsq_format_ns(c->probe_ns, probe);
    if (c->dilation_ppm != UINT64_MAX)
        snprintf(share, sizeof(share), ", %.2f%% of the program's", percent);
    write_formatted_item(w, "recording overhead: %s CPU%s; %s a call", overhead,
                         share, probe);
}

/* Reports whether the path could change if threads took locks in another
 * order. */
static void add_possible_effect_of_lock_order(struct writer *w,
                                              const Ips__Certificate *c)
{
    char spin[IPSQ_UNIT_BYTES];
    if (!w->verbose) {
        if (is_known_nonzero(c->any_on_path))
            write_formatted_item(w, "another lock order could change the path");
        return;
    }
    if (is_known_nonzero(c->any))
        write_formatted_item(
            w,
            "waits for locks and similar resources: %" PRIu64
            ", on the path: %" PRIu64 "%s",
            c->any, c->any_on_path,
            c->any_on_path ? " (another order could change the path)" : "");
    if (is_known_nonzero(c->any_unmatched))
        write_formatted_item(
            w,
            "waits for locks and similar resources, release not recorded: "
            "%" PRIu64,
            c->any_unmatched);
    if (is_known_nonzero(c->spin_ns)) {
        ipsq_format_ns(c->spin_ns, spin);
        write_formatted_item(w, "%s CPU spent spinning, in no total", spin);
    }
}

static void add_loads_of_other_programs(struct writer *w,
                                        const Ips__Certificate *c)
{
    for (size_t i = 0; i < c->n_loads; i++) {
        const Ips__MachineLoad *l = c->loads[i];
        if (l->milli < l->own_milli + OTHERS_MILLI)
            continue;
        write_formatted_item(w, "other programs wanted %.1f cores of %s",
                             (double)(l->milli - l->own_milli) / 1e3,
                             l->machine);
    }
}

static void add_unexplained_times(struct writer *w, const Ips__Certificate *c)
{
    char ns[IPSQ_UNIT_BYTES];
    if (is_known_nonzero(c->run_delay_unknown_ns)) {
        ipsq_format_ns(c->run_delay_unknown_ns, ns);
        write_formatted_item(
            w,
            "threads were off the CPU for %s between waits; whether they "
            "waited for a CPU is not known",
            ns);
    }
    if (is_known_nonzero(c->unattributed_cpu_ns)) {
        ipsq_format_ns(c->unattributed_cpu_ns, ns);
        write_formatted_item(
            w,
            "%s of the CPU time that the kernel counted is in no thread's "
            "record",
            ns);
    }
}

static void write_path_length_of_scenarios(struct writer *w,
                                           const Ips__Certificate *c)
{
    for (size_t i = 0; i < c->n_lanes; i++) {
        char ns[IPSQ_UNIT_BYTES];
        ipsq_format_ns(c->lanes[i]->t_max_ns, ns);
        write_formatted_item(
            w, "longest path with %s: %s%s", c->lanes[i]->lane, ns,
            c->lanes[i]->same_order ? "" : " (through other events)");
    }
}

/* Reports how much CPU time the agent estimated after short waits, without
 * reading the CPU clock, and how wrong the estimates were. */
static void add_cpu_estimates(struct writer *w, const Ips__Certificate *c)
{
    char mean[IPSQ_UNIT_BYTES], most[IPSQ_UNIT_BYTES];
    if (!is_known_nonzero(c->guessed_cpu_ns) || !c->guesses_settled ||
        !c->cpu_ns)
        return;
    ipsq_format_ns(c->guess_off_ns / c->guesses_settled, mean);
    ipsq_format_ns(c->guess_off_max_ns, most);
    write_formatted_item(
        w,
        "%.2f%% of the CPU time was estimated instead of read; %" PRIu64
        " later readings of the clock showed errors of %s on average and %s at "
        "most",
        100.0 * (double)c->guessed_cpu_ns / (double)c->cpu_ns,
        c->guesses_settled, mean, most);
}

static void add_unmatched_receives_and_waits(struct writer *w,
                                             const Ips__Certificate *c)
{
    if (is_known_nonzero(c->unmatched))
        write_formatted_item(
            w, "receives whose send was not recorded: %" PRIu64, c->unmatched);
    if (is_known_nonzero(c->ambiguous))
        write_formatted_item(w, "receives that several sends explain: %" PRIu64,
                             c->ambiguous);
    if (is_known_nonzero(c->pending))
        write_formatted_item(
            w, "receives on channels that are still open: %" PRIu64,
            c->pending);
    if (is_known_nonzero(c->external))
        write_formatted_item(
            w,
            "waits for something not recorded (disk, timer, unrecorded peer): "
            "%" PRIu64,
            c->external);
    if (is_known_nonzero(c->idle))
        write_formatted_item(w, "timed waits that ran out: %" PRIu64, c->idle);
}

static void add_details(struct writer *w, const Ips__Certificate *c)
{
    char took[IPSQ_UNIT_BYTES];
    add_names(w, "machines", c->machines, c->n_machines);
    add_names(w, "machines missing", c->missing_machines,
              c->n_missing_machines);
    for (size_t i = 0; i < c->n_lost; i++)
        write_formatted_item(w, "events lost (%s): %" PRIu64, c->lost[i]->name,
                             c->lost[i]->count);
    add_unmatched_receives_and_waits(w, c);
    if (c->category) {
        ipsq_format_ns(c->took_ns, took);
        write_formatted_item(w, "answered in %s from %s (category %" PRIu32 ")",
                             took, c->plan, c->category);
    }
    if (c->engine && *c->engine)
        write_text_item(w, "computed by: ", c->engine);
    if (c->message_times && *c->message_times)
        write_text_item(w, "message times: ", c->message_times);
    if (c->clock && *c->clock)
        write_text_item(w, "comparison of the machines' clocks: ", c->clock);
    add_overhead(w, c);
    add_cpu_estimates(w, c);
    add_possible_effect_of_lock_order(w, c);
    add_unexplained_times(w, c);
    add_loads_of_other_programs(w, c);
    write_path_length_of_scenarios(w, c);
    for (size_t i = 0; i < c->n_details; i++)
        write_text_item(w, "note: ", c->details[i]);
}

/* Writes "BEFORE: TEXT" as a line. `more`: number of further items of this kind
 * that are not shown. */
static void put_limitation_line(FILE *f, const char *before, const char *text,
                                size_t more)
{
    struct ipsq_cell cell = ipsq_text_cell(text);
    char *clean = ipsq_cell_text(IPSQ_TEXT, &cell);
    fprintf(f, "%s: %s", before, clean);
    if (more)
        fprintf(f, " (and %zu more: -v)", more);
    fputc('\n', f);
    free(clean);
}

#define UNTRACED_BYTES 512
/* Formats "2 processes on m1, linked statically: /usr/bin/x (pid 77)";
 * returns `out`. */
static char *format_untraced_processes_in_words(char out[UNTRACED_BYTES],
                                                const Ips__Untraced *u)
{
    char count[IPSQ_UNIT_BYTES], pid[32] = "";
    ipsq_format_with_commas(u->count, count);
    if (u->pid)
        snprintf(pid, sizeof(pid), " (pid %" PRIu32 ")", u->pid);
    snprintf(out, UNTRACED_BYTES, "%s process%s on %.100s, %s%s%.250s%s", count,
             u->count == 1 ? "" : "es", u->machine,
             ipsq_describe_untraced_cause(u->cause), *u->program ? ": " : "",
             u->program, pid);
    return out;
}

void ipsq_certificate_write_limitations(FILE *f, const Ips__Certificate *cert,
                                        bool verbose)
{
    const Ips__Certificate *c = ipsq_certificate_or_placeholder(cert);
    /* The last item of `unseen` is the same for all runs, so it is shown with
     * -v only. */
    size_t unseen = c->n_unseen - (c->n_unseen > 0 && !verbose);
    size_t most = verbose ? SIZE_MAX : 1;
    for (size_t i = 0; i < c->n_gaps && i < most; i++)
        put_limitation_line(f, "INCOMPLETE", c->gaps[i],
                            verbose ? 0 : c->n_gaps - 1);
    for (size_t i = 0; i < c->n_untraced && i < most; i++) {
        char text[UNTRACED_BYTES];
        put_limitation_line(
            f, "not recorded",
            format_untraced_processes_in_words(text, c->untraced[i]),
            verbose ? 0 : c->n_untraced - 1);
    }
    for (size_t i = 0; i < unseen && i < most; i++)
        put_limitation_line(f, "not seen", c->unseen[i],
                            verbose ? 0 : unseen - 1);
}

void ipsq_certificate_write_text(FILE *f, const Ips__Certificate *cert,
                                 bool verbose)
{
    const Ips__Certificate *c = ipsq_certificate_or_placeholder(cert);
    struct writer w = {.f = f, .begun = true};
    for (size_t i = 0; i < c->n_notes; i++)
        put_limitation_line(f, "note", c->notes[i], 0);
    fputs(verbose ? "certificate: " : "", f);
    fputs(c->complete ? "complete" : "INCOMPLETE", f);
    add_count(&w, c->events, "event");
    if (verbose) {
        fputc('\n', f);
        w.verbose = true;
        add_details(&w, c);
        return;
    }
    add_overhead(&w, c);
    add_count(&w, c->n_machines, "machine");
    add_loads_of_other_programs(&w, c);
    add_possible_effect_of_lock_order(&w, c);
    fputc('\n', f);
}
