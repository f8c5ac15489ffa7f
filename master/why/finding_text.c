/* Writes the texts of findings (why.h). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/types.h"
#include "master/why/why.h"

const char *why_format_ns(struct arena *a, uint64_t ns)
{
    if (ns >= 1000000000u)
        return arena_printf(a, "%.2f s", (double)ns / 1e9);
    if (ns >= 1000000u)
        return arena_printf(a, "%.2f ms", (double)ns / 1e6);
    if (ns >= 1000u)
        return arena_printf(a, "%.2f us", (double)ns / 1e3);
    return arena_printf(a, "%" PRIu64 " ns", ns);
}

const char *why_window_text(const struct why_facts *f, struct arena *a)
{
    const char *phase =
        f->window_phase ? arena_printf(a, "phase %u, ", f->window_phase) : "";
    return arena_printf(a, "%s%s to %s after the run's start", phase,
                        why_format_ns(a, f->from_ns),
                        f->to_ns ? why_format_ns(a, f->to_ns) : "its end");
}

const char *why_quote_for_shell(struct arena *a, const char *text)
{
    size_t len = strlen(text);
    char *out = arena_alloc(a, len * 4 + 3);
    if (!out)
        return "''";
    char *to = out;
    *to++ = '\'';
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\'') {
            memcpy(to, "'\\''", 4);
            to += 4;
        } else {
            *to++ = text[i];
        }
    }
    *to++ = '\'';
    return out;
}

static const char *percent_text(struct arena *a, uint64_t ns, uint64_t whole)
{
    return arena_printf(a, "%.0f%%", why_share_ppm(ns, whole) / 1e4);
}

static const char *object_text_of(const struct why_location *p)
{
    return p->object && *p->object ? p->object : "the program";
}

static const char *other_object_text_of(const struct why_finding *x)
{
    return x->other && *x->other ? x->other : "another thread";
}

/* Returns " in f (file:12)", or "" if the procedure is not known. */
static const char *in_procedure_text(struct arena *a,
                                     const struct why_location *p)
{
    if (!p->procedure || !*p->procedure)
        return "";
    if (p->file && *p->file && p->source_line)
        return arena_printf(a, " in %s (%s:%u)", p->procedure, p->file,
                            p->source_line);
    return arena_printf(a, " in %s (%s)", p->procedure,
                        p->module && *p->module ? p->module : "?");
}

/* ---- text of each kind --------------------------------------------------- */

struct text_writer {
    const struct why_facts *f;
    struct arena *a;
    struct why_finding *x;
    const struct why_amount *m;
    const char *ns, *share, *where, *waits, *run;
};

/* Reports a lock that only samples show, because it is inside the C library or
 * its waits are too short to be recorded. */
static void write_sampled_lock_text(const struct text_writer *s)
{
    struct why_finding *x = s->x;
    const struct why_lock_cost *c = s->m->lock;
    x->text =
        c->library
            ? arena_printf(s->a,
                           "Lock contention: threads of %s wait for a lock "
                           "inside the C library%s, called%s.",
                           object_text_of(&x->location), s->where, s->waits)
            : arena_printf(s->a,
                           "Lock contention: threads of %s want the same lock "
                           "at the same time%s.",
                           object_text_of(&x->location), s->where);
    x->evidence = arena_printf(
        s->a,
        "%s of the path's CPU time to take and give it (about %" PRIu64
        " samples)%s",
        why_format_ns(s->a, c->ns), c->samples,
        c->unknown_ns ? arena_printf(s->a, ", %s asleep meanwhile",
                                     why_format_ns(s->a, c->unknown_ns))
                      : "");
}

static void write_lock_text(const struct text_writer *s)
{
    struct why_finding *x = s->x;
    const struct why_lock_cost *c = s->m->lock;
    x->supposes = "no lock makes a thread wait, and the work is spread over "
                  "the cores";
    if (s->m->count == 0 && c) {
        write_sampled_lock_text(s);
        x->command =
            arena_printf(s->a, "ipsq procedures %s --sort total_ns", s->run);
        return;
    }
    x->text = arena_printf(
        s->a, "Lock contention: %s waits for a lock that %s holds%s.",
        other_object_text_of(x), object_text_of(&x->location), s->where);
    x->evidence = arena_printf(
        s->a, "%" PRIu64 " waits for locks, %s over all threads%s%s%s",
        s->m->count, why_format_ns(s->a, s->m->other_ns),
        *s->waits ? ", most" : "", s->waits,
        c && c->ns
            ? arena_printf(s->a,
                           "; %s of the path's CPU time to take and give them",
                           why_format_ns(s->a, c->ns))
            : "");
    x->command = arena_printf(s->a, "ipsq waits %s --by place", s->run);
}

static void write_hang_text(const struct text_writer *s)
{
    const struct why_hang *h = &s->f->hang;
    struct why_finding *x = s->x;
    const char *one = h->threads == 1 ? "a thread waits for what it has itself"
                                      : arena_printf(s->a,
                                                     "%u threads wait for "
                                                     "each other",
                                                     h->threads);
    x->text = h->circle
                  ? arena_printf(s->a, "Deadlock in %s: %s%s.",
                                 object_text_of(&x->location), one,
                                 in_procedure_text(s->a, &x->location))
                  : arena_printf(s->a,
                                 "Nothing moves in %s: every thread waits, and "
                                 "none is left that could wake another%s.",
                                 object_text_of(&x->location),
                                 in_procedure_text(s->a, &x->location));
    x->evidence = arena_printf(
        s->a, "for %s%s; times are since the run's start: %s",
        why_format_ns(s->a, h->ns),
        h->alive ? " up to now" : " until it was killed", h->waits);
    x->supposes = "they do not wait";
    x->command = arena_printf(s->a, "ipsq waits %s --by place", s->run);
}

static void write_chatty_text(const struct text_writer *s)
{
    struct why_finding *x = s->x;
    uint64_t count = s->m->count ? s->m->count : 1;
    x->text = arena_printf(
        s->a,
        "%s and %s exchange many small messages; fewer, larger ones would take "
        "less time.",
        object_text_of(&x->location), other_object_text_of(x));
    x->evidence =
        arena_printf(s->a,
                     "%" PRIu64 " messages on the path, %" PRIu64
                     " bytes on average, one every %s",
                     s->m->count, s->m->bytes / count,
                     why_format_ns(s->a, s->f->chatty_path_ns / count));
    x->supposes = "ten messages are sent as one";
    x->command = arena_printf(
        s->a, "ipsq whatif %s --message %s --weighting wall", s->run,
        why_quote_for_shell(s->a, arena_printf(s->a, "%s -> %s",
                                               object_text_of(&x->location),
                                               other_object_text_of(x))));
}

static bool is_about_spinning(const struct text_writer *s)
{
    return s->m->yields || s->m->reads_memory;
}

static void write_imbalance_text(const struct text_writer *s)
{
    struct why_finding *x = s->x;
    bool threads = x->other && x->location.object &&
                   strcmp(x->other, x->location.object) == 0;
    x->text = arena_printf(
        s->a,
        "Uneven work: %s%s %s%s while others like it wait or have finished.",
        threads ? "a thread of " : "", object_text_of(&x->location),
        is_about_spinning(s) ? "spins" : "is still working", s->where);
    x->evidence = arena_printf(
        s->a,
        "%s of the path, with at most half of the cores busy while %s%s could "
        "work",
        s->ns, threads ? "other threads of " : "", other_object_text_of(x));
    x->supposes = "that part of the work is spread evenly over them";
    x->command =
        threads
            ? arena_printf(
                  s->a, "ipsq metrics %s --object %s --level thread", s->run,
                  why_quote_for_shell(s->a, object_text_of(&x->location)))
            : arena_printf(s->a, "ipsq metrics %s --level process", s->run);
}

static void write_slow_peer_text(const struct text_writer *s)
{
    struct why_finding *x = s->x;
    /* Sender and receiver are threads of one process: only their procedures
     * differ. */
    bool threads = x->other && x->location.object &&
                   strcmp(x->other, x->location.object) == 0;
    x->text = arena_printf(
        s->a,
        "%s%s is slow to %s: it computes%s while %s%s is blocked %s %s%s.",
        threads ? "A thread of " : "", object_text_of(&x->location),
        s->m->awaits_space ? "read" : "send", s->where,
        threads ? "another thread of " : "", other_object_text_of(x),
        s->m->awaits_space ? "writing to" : "receiving from",
        s->m->awaits_others ? "other threads" : "it", threads ? s->waits : "");
    x->evidence =
        arena_printf(s->a, "%s of the path, with most cores idle", s->ns);
    x->supposes = s->m->awaits_space ? "the reader computes half as long"
                                     : "the sender computes half as long";
    x->command = arena_printf(
        s->a, "ipsq whatif %s --process %s --faster 50%% --weighting wall",
        s->run, why_quote_for_shell(s->a, object_text_of(&x->location)));
}

static void write_sequential_children_text(const struct text_writer *s)
{
    struct why_finding *x = s->x;
    x->text = arena_printf(
        s->a,
        "Sequential processes: %s starts %" PRIu64 " processes like %s one "
        "after another, and nothing else runs meanwhile.",
        other_object_text_of(x), s->m->count, object_text_of(&x->location));
    x->evidence =
        arena_printf(s->a, "%s of the path, with most cores idle", s->ns);
    x->supposes = "they are independent and run at the same time on all cores";
    x->command = arena_printf(
        s->a, "ipsq path %s --weighting wall --by process", s->run);
}

static void write_queueing_service_text(const struct text_writer *s)
{
    struct why_finding *x = s->x;
    x->text = arena_printf(
        s->a,
        "%s serves one request at a time%s: messages on other connections, for "
        "example from %s, wait for that thread while cores are idle.",
        object_text_of(&x->location), s->where, other_object_text_of(x));
    x->evidence =
        arena_printf(s->a, "%s of the path, with most cores idle", s->ns);
    x->supposes = "as many threads or processes serve as there are cores";
    x->command = arena_printf(s->a, "ipsq requests %s", s->run);
}

static void write_serial_text(const struct text_writer *s)
{
    struct why_finding *x = s->x;
    if (s->m->count) {
        write_sequential_children_text(s);
        return;
    }
    x->text =
        arena_printf(s->a, "Serial section: one thread of %s %s%s while %s%s.",
                     object_text_of(&x->location),
                     is_about_spinning(s) ? "spins" : "works", s->where,
                     x->other && x->location.object &&
                             strcmp(x->other, x->location.object) == 0
                         ? "its other threads wait"
                         : other_object_text_of(x),
                     x->other && x->location.object &&
                             strcmp(x->other, x->location.object) == 0
                         ? ""
                         : " waits");
    x->evidence =
        arena_printf(s->a, "%s of the path, with most cores idle", s->ns);
    x->supposes = "that work is spread over the threads that wait";
    x->command = arena_printf(
        s->a, "ipsq path %s --weighting wall --by thread --by procedure",
        s->run);
}

/* Describes what the program does during most of a phase's path. */
static const char *phase_activity_text(const struct text_writer *s)
{
    const struct why_phase *p = s->m->phase;
    if (why_share_ppm(p->outside_ns, s->m->ns) >= WHY_HALF_PPM)
        return arena_printf(s->a, "%s waits for something not recorded",
                            object_text_of(&s->x->location));
    return arena_printf(s->a, "mostly %s%s", object_text_of(&s->x->location),
                        s->where);
}

static void write_phase_text(const struct text_writer *s)
{
    struct why_finding *x = s->x;
    const struct why_phase *p = s->m->phase;
    x->text = arena_printf(
        s->a,
        "Phase %u of %u (%s to %s after the start) takes most of the time, and "
        "fewer cores are busy in it than in the rest: %s.",
        p->number, p->phases, why_format_ns(s->a, p->from_ns),
        why_format_ns(s->a, p->to_ns), phase_activity_text(s));
    x->evidence = arena_printf(
        s->a, "%s of the path (%s); %.1f cores busy, %.1f in other phases",
        s->ns, s->share, (double)p->busy_ppm / 1e6,
        (double)p->others_ppm / 1e6);
    x->supposes = "as many cores are busy in it as in the other phases";
    x->command =
        arena_printf(s->a, "ipsq why %s --phase %u", s->f->run, p->number);
}

/* A process of which nearly all of the waits are is named alone. */
#define NEARLY_ALL_PPM 900000u

/* Returns "P waits", or "P (60%) and other processes wait" if the waits are not
 * nearly all P's. */
static char *who_waits_text(const struct text_writer *s)
{
    const char *object = object_text_of(&s->x->location);
    uint32_t ppm = s->m->object_ppm;
    if (ppm > 0 && ppm < 10000)
        return arena_printf(s->a, "%s (less than 1%%) and other processes wait",
                            object);
    return ppm == 0 || ppm >= NEARLY_ALL_PPM
               ? arena_printf(s->a, "%s waits", object)
               : arena_printf(s->a, "%s (%u%%) and other processes wait",
                              object, (ppm + 5000) / 10000);
}

static void write_waiting_for_cpu_text(const struct text_writer *s)
{
    struct why_finding *x = s->x;
    if (x->kind == WHY_CORES)
        x->text = arena_printf(s->a,
                               "Too few cores: up to %u threads are ready to "
                               "run on %u cores.",
                               s->m->threads, s->m->cores);
    else
        x->text = arena_printf(
            s->a,
            "%s for CPU used by other programs, or may not use all of the %u "
            "cores.",
            who_waits_text(s), s->m->cores);
    x->evidence =
        arena_printf(s->a, "%s of the path ready to run, waiting for a CPU",
                     why_format_ns(s->a, s->m->other_ns));
    x->supposes = x->kind == WHY_CORES ? "a core for each thread"
                                       : "nothing else runs there";
    x->command = arena_printf(s->a, "ipsq path %s --weighting wall", s->run);
}

/* A cause of waits: its text, and its name in JSON if that differs. */
struct cause {
    const char *name, *text, *json;
};

static struct cause find_cause_wording(const char *name)
{
    static const struct cause known[] = {
        {"peer", "a program or machine that is not recorded",
         "a program or machine that was not traced"},
        {"child", "a child process that is not recorded",
         "a child that was not traced"},
        {"timer", "a timer or sleep", NULL},
        {"signal", "a signal", NULL},
        {"event", "an event", NULL},
        {"idle", "more work", "something to do"},
        {"resolve", "the resolver", NULL},
        {"disk", "the disk", NULL},
        {"lock", "a lock whose release was not recorded",
         "a lock, nobody saw it let go"},
        {"file lock", "a file lock whose release was not recorded",
         "a file lock, nobody saw it let go"},
        {"terminal", "the terminal", NULL}};
    for (size_t i = 0; name && i < sizeof(known) / sizeof(*known); i++) {
        if (strcmp(known[i].name, name) == 0)
            return known[i];
    }
    return (struct cause){name, name ? name : "", NULL};
}

static void write_external_wait_text(const struct text_writer *s)
{
    struct why_finding *x = s->x;
    struct cause found = find_cause_wording(s->m->cause);
    const char *cause = found.text;
    x->other = found.json ? found.json : *cause ? cause : NULL;
    x->text = arena_printf(
        s->a, "%s%s%s%s%s.", who_waits_text(s), *cause ? ", mostly for " : "",
        cause, s->waits, *cause ? "" : "; what ends the wait was not recorded");
    x->evidence = arena_printf(s->a, "%s of the path (%s)", s->ns, s->share);
    x->supposes = "these waits end at once";
    x->command = arena_printf(
        s->a, "ipsq path %s --weighting wall --by external", s->run);
}

static void write_transit_text(const struct text_writer *s)
{
    struct why_finding *x = s->x;
    uint64_t count = s->m->count ? s->m->count : 1;
    x->text = arena_printf(
        s->a,
        "Messages between %s and %s take long to arrive: the network or "
        "something on the way is slow.",
        object_text_of(&x->location), other_object_text_of(x));
    x->evidence = arena_printf(
        s->a,
        "%s of the path in %" PRIu64 " message%s of %" PRIu64
        " bytes on average, %s each",
        s->ns, s->m->count, count == 1 ? "" : "s", s->m->bytes / count,
        why_format_ns(s->a, s->m->ns / count));
    x->supposes = "messages take half as long";
    x->command = arena_printf(
        s->a, "ipsq path %s --weighting wall --by message", s->run);
}

/* Reports a procedure that, with its callees, takes most of the requests'
 * time. */
static void write_expensive_requests_text(const struct text_writer *s)
{
    struct why_finding *x = s->x;
    const char *each =
        why_format_ns(s->a, s->f->common.of_ns / ips_max_u64(s->f->asked, 1));
    x->text = arena_printf(
        s->a,
        "Each request to %s is expensive (%s), mostly%s and what it calls. Do "
        "less for each request (an index, a cache, another plan); no single "
        "procedure is worth optimising.",
        object_text_of(&x->location), each, s->where);
    x->evidence = arena_printf(s->a,
                               "%s of the path (%s); %" PRIu64
                               " requests, %s of the path for each",
                               s->ns, s->share, s->f->asked, each);
    x->supposes = "it takes half as long, with what it calls";
    x->command =
        arena_printf(s->a, "ipsq procedures %s --sort total_ns", s->run);
}

static void write_procedure_text(const struct text_writer *s)
{
    struct why_finding *x = s->x;
    if (s->m == &s->f->common.amount) {
        write_expensive_requests_text(s);
        return;
    }
    x->text = s->m->yields
                  ? arena_printf(s->a,
                                 "%s spins%s: it calls sched_yield() again and "
                                 "again, as threads do that wait until another "
                                 "one changes something in memory.",
                                 object_text_of(&x->location), s->where)
              : s->m->reads_memory
                  ? arena_printf(s->a,
                                 "%s spins%s: it reads memory again and again "
                                 "until another thread changes it.",
                                 object_text_of(&x->location), s->where)
                  : arena_printf(s->a, "%s spends its time%s.",
                                 object_text_of(&x->location), s->where);
    x->evidence =
        s->m == &s->f->spinning
            ? arena_printf(s->a,
                           "%s of CPU time, most of it not on the path; "
                           "about %" PRIu64 " samples",
                           s->ns, s->m->samples)
        : s->m->samples
            ? arena_printf(s->a,
                           "%s of the path (%s); about %" PRIu64 " samples",
                           s->ns, s->share, s->m->samples)
            : arena_printf(s->a, "%s of the path (%s)", s->ns, s->share);
    x->supposes = is_about_spinning(s)
                      ? "what it waits for comes after half the time"
                      : "it takes half as long";
    x->command = arena_printf(
        s->a, "ipsq path %s --weighting wall --by procedure --by line", s->run);
}

static void write_cost_over_many_procedures_text(const struct text_writer *s)
{
    struct why_finding *x = s->x;
    x->text =
        "The cost is spread over many procedures; no single one is worth "
        "optimising. Look for a common cause: a caller, a library, a data "
        "structure.";
    x->evidence = arena_printf(
        s->a,
        "half of the path's CPU time is in %u procedures; the top %u have %s",
        s->f->half_count, WHY_SPREAD_TOP,
        percent_text(s->a, s->f->top_ns, s->f->sampled_ns));
    x->supposes = "";
    x->command = arena_printf(
        s->a, "ipsq path %s --weighting wall --by procedure --sequences",
        s->run);
}

const char *why_run_and_window_options(const struct why_facts *f,
                                       struct arena *a)
{
    if (!f->windowed)
        return f->run;
    if (f->window_phase)
        return arena_printf(a, "%s --phase %u", f->run, f->window_phase);
    const char *from =
        f->from_ns ? arena_printf(a, " --from %" PRIu64 "ns", f->from_ns) : "";
    const char *to =
        f->to_ns ? arena_printf(a, " --to %" PRIu64 "ns", f->to_ns) : "";
    return arena_printf(a, "%s%s%s", f->run, from, to);
}

void why_write_texts_of_one_finding(const struct why_facts *f, struct arena *a,
                                    struct why_finding *x,
                                    const struct why_amount *amount)
{
    static void (*const say[])(const struct text_writer *s) = {
        [WHY_HANG] = write_hang_text,
        [WHY_LOCK] = write_lock_text,
        [WHY_CHATTY] = write_chatty_text,
        [WHY_IMBALANCE] = write_imbalance_text,
        [WHY_LATE] = write_slow_peer_text,
        [WHY_SERIAL] = write_serial_text,
        [WHY_QUEUE] = write_queueing_service_text,
        [WHY_CORES] = write_waiting_for_cpu_text,
        [WHY_BUSY] = write_waiting_for_cpu_text,
        [WHY_PHASE] = write_phase_text,
        [WHY_OUTSIDE] = write_external_wait_text,
        [WHY_TRANSIT] = write_transit_text,
        [WHY_PROCEDURE] = write_procedure_text,
        [WHY_SPREAD] = write_cost_over_many_procedures_text};
    const struct text_writer s = {
        .f = f,
        .a = a,
        .x = x,
        .m = amount,
        .ns = why_format_ns(a, x->ns),
        .share = percent_text(a, x->ns, why_time_without_other_programs_ns(f)),
        .where = in_procedure_text(a, &x->location),
        .waits = in_procedure_text(a, &x->wait_at),
        .run = why_run_and_window_options(f, a)};
    say[x->kind](&s);
}
