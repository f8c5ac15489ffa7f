#include "master/query/certificate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/pool/format.h"
#include "common/types.h"
#include "master/query/machine_share.h"

static const char *const lost_names[IPS_LOST_COUNT] = {
#define X(name, number, text) [number] = (text),
    IPS_LOST_CAUSES(X)
#undef X
};

void certificate_add_note(struct arena *a, struct certificate *c,
                          const char *text)
{
    if (arena_reserve_array_slot(a, &c->msg.notes, c->msg.n_notes, &c->note_cap,
                                 sizeof(char *)))
        c->msg.notes[c->msg.n_notes++] = arena_printf(a, "%s", text);
}

void certificate_add_detail(struct arena *a, struct certificate *c,
                            const char *text)
{
    if (arena_reserve_array_slot(a, &c->msg.details, c->msg.n_details,
                                 &c->detail_cap, sizeof(char *)))
        c->msg.details[c->msg.n_details++] = arena_printf(a, "%s", text);
}

void certificate_add_gap_and_mark_incomplete(struct arena *a,
                                             struct certificate *c,
                                             const char *text)
{
    c->msg.complete = false;
    if (arena_reserve_array_slot(a, &c->msg.gaps, c->msg.n_gaps, &c->gap_cap,
                                 sizeof(char *)))
        c->msg.gaps[c->msg.n_gaps++] = arena_printf(a, "%s", text);
}

void certificate_set_category_and_source(const struct query *q, struct arena *a,
                                         struct certificate *c,
                                         uint32_t category, const char *plan)
{
    c->msg.category = category;
    c->msg.plan =
        arena_printf(a, "%s%s", q->from_cache ? "a copy of " : "", plan);
    c->msg.took_ns = ips_sub_sat(master_now_ns(), q->begun_ns);
}

bool certificate_run_is_open(const struct query *q)
{
    for (uint32_t i = 0; i < q->gather.count; i++) {
        if (q->gather.active[i]->sync->state->open)
            return true;
    }
    return false;
}

bool certificate_has_live_process(const struct query *q)
{
    for (uint32_t i = 0; i < q->gather.count; i++) {
        if (q->gather.active[i]->sync->state->goes_on)
            return true;
    }
    return false;
}

bool certificate_is_cause_lack_of_space(const char *cause)
{
    return strcmp(cause, lost_names[IPS_LOST_POOL_FULL]) == 0 ||
           strcmp(cause, lost_names[IPS_LOST_QUOTA]) == 0 ||
           strcmp(cause, lost_names[IPS_LOST_OVERWRITTEN]) == 0;
}

/* Further rows of the list of losses, after the known causes. OTHER: causes
 * that only newer agents know, counted together; DAMAGED: damaged segments. */
enum { OTHER = IPS_LOST_COUNT, DAMAGED, CAUSES };

static void append_lost_count_and_gap(struct arena *a, struct certificate *c,
                                      size_t cause, uint64_t n)
{
    const char *name = cause == DAMAGED ? "damaged segments"
                       : cause == OTHER ? "other"
                                        : lost_names[cause];
    Ips__Count *row = arena_alloc(a, sizeof(*row));
    if (!row)
        return;
    ips__count__init(row);
    row->name = arena_printf(a, "%s", name);
    row->count = n;
    c->msg.lost[c->msg.n_lost++] = row;
    certificate_add_gap_and_mark_incomplete(
        a, c,
        cause == DAMAGED ? arena_printf(a,
                                        "%" PRIu64 " damaged or missing "
                                        "segment%s could not be read",
                                        n, n == 1 ? "" : "s")
                         : arena_printf(a, "%" PRIu64 " event%s lost: %s", n,
                                        n == 1 ? " was" : "s were", name));
}

static void fill_lost(const struct query *q, struct arena *a,
                      struct certificate *c)
{
    uint64_t lost[CAUSES] = {0};
    for (uint32_t i = 0; i < q->gather.count; i++) {
        const Ips__RunState *s = q->gather.active[i]->sync->state;
        for (size_t k = 0; k < s->n_lost; k++) {
            size_t cause = k < IPS_LOST_COUNT ? k : OTHER;
            lost[cause] = ips_add_sat(lost[cause], s->lost[k]);
        }
        lost[DAMAGED] = ips_add_sat(lost[DAMAGED], s->torn);
    }
    c->msg.lost = arena_alloc(a, CAUSES * sizeof(Ips__Count *));
    for (size_t k = 0; k < CAUSES && c->msg.lost; k++)
        if (lost[k])
            append_lost_count_and_gap(a, c, k, lost[k]);
}

static void fill_present_and_missing_machines(const struct query *q,
                                              struct arena *a,
                                              struct certificate *c)
{
    size_t cap = q->machine_count + q->excluded_count + 1;
    c->msg.machines = arena_alloc(a, cap * sizeof(char *));
    c->msg.missing_machines = arena_alloc(a, cap * sizeof(char *));
    if (!c->msg.machines || !c->msg.missing_machines)
        return;
    for (uint32_t i = 0; i < q->machine_count; i++) {
        const struct machine_share *p = &q->machines[i];
        char *name = arena_printf(a, "%s", p->machine);
        if (p->state == MACHINE_ACTIVE) {
            c->msg.machines[c->msg.n_machines++] = name;
            continue;
        }
        if (!p->expected)
            continue;
        c->msg.missing_machines[c->msg.n_missing_machines++] = name;
        certificate_add_gap_and_mark_incomplete(
            a, c,
            p->state == MACHINE_FAILED
                ? arena_printf(a, "machine %s: %s", p->machine, p->why)
                : arena_printf(a, "machine %s is missing", p->machine));
    }
}

/* The last entry of the list of unrecorded activity: these kinds never leave a
 * record, in any run. */
static const char never_seen[] =
    "raw futexes and runtimes with schedulers of their own; io_uring, kernel "
    "AIO and shared memory of processes that lived less than a second";

static void add_unrecorded_text_once(struct arena *a, struct certificate *c,
                                     size_t *cap, const char *text)
{
    for (size_t i = 0; i < c->msg.n_unseen; i++) {
        if (strcmp(c->msg.unseen[i], text) == 0)
            return;
    }
    if (arena_reserve_array_slot(a, &c->msg.unseen, c->msg.n_unseen, cap,
                                 sizeof(char *)))
        c->msg.unseen[c->msg.n_unseen++] = arena_printf(a, "%s", text);
}

static void add_untraced(struct arena *a, struct certificate *c,
                         const struct machine_share *p)
{
    const Ips__SyncAnswer *s = p->sync;
    for (size_t i = 0; i < s->n_untraced; i++) {
        const Ips__Untraced *from = s->untraced[i];
        Ips__Untraced *row = arena_alloc(a, sizeof(*row));
        if (!row || !arena_reserve_array_slot(
                        a, &c->msg.untraced, c->msg.n_untraced,
                        &c->untraced_cap, sizeof(Ips__Untraced *)))
            return;
        ips__untraced__init(row);
        row->machine = arena_printf(a, "%s", p->machine);
        row->cause = arena_printf(a, "%s", from->cause);
        row->program = arena_printf(a, "%s", from->program);
        row->count = from->count;
        row->pid = from->pid;
        c->msg.untraced[c->msg.n_untraced++] = row;
    }
}

/* Returns the overhead of recording in millionths of the program's own CPU
 * time; UINT64_MAX: the program has none. */
static uint64_t recording_overhead_ppm(uint64_t overhead_ns, uint64_t cpu_ns)
{
    uint64_t own = ips_sub_sat(cpu_ns, overhead_ns);
    if (own == 0)
        return UINT64_MAX;
    ips_u128 ppm = (ips_u128)overhead_ns * 1000000 / own;
    return ppm < UINT64_MAX ? (uint64_t)ppm : UINT64_MAX;
}

static void add_graph_file_use_detail(struct arena *a, struct certificate *c,
                                      const struct machine_share *p)
{
    const Ips__SyncAnswer *s = p->sync;
    if (s->file_bytes == 0)
        return;
    certificate_add_detail(
        a, c,
        arena_printf(a,
                     "machine %s: its graph was built in %" PRIu64
                     " MB of memory and %" PRIu64
                     " MB of files, which is slower (ips-slave --memory)",
                     p->machine, s->memory_bytes >> 20, s->file_bytes >> 20));
}

static void append_load_of_machine(struct arena *a, struct certificate *c,
                                   const struct machine_share *p)
{
    const Ips__SyncAnswer *s = p->sync;
    Ips__MachineLoad *row =
        s->load_samples ? arena_alloc(a, sizeof(*row)) : NULL;
    if (!row ||
        !arena_reserve_array_slot(a, &c->msg.loads, c->msg.n_loads,
                                  &c->load_cap, sizeof(Ips__MachineLoad *)))
        return;
    ips__machine_load__init(row);
    row->machine = arena_printf(a, "%s", p->machine);
    row->milli = s->load_milli;
    row->own_milli = machine_share_run_load_milli(p);
    row->samples = s->load_samples;
    c->msg.loads[c->msg.n_loads++] = row;
}

static void add_machine_to_certificate(const struct machine_share *p,
                                       struct arena *a, struct certificate *c,
                                       size_t *unseen_cap)
{
    const Ips__SyncAnswer *s = p->sync;
    Ips__Certificate *m = &c->msg;
    m->events += s->state->events;
    m->records_read += s->records_read;
    m->ambiguous += s->ambiguous;
    m->any += s->any;
    m->any_unmatched += s->any_unmatched;
    m->spin_ns = ips_add_sat(m->spin_ns, s->spin_ns);
    m->untraced_processes += s->state->untraced;
    m->unattributed_cpu_ns += s->unattributed_cpu_ns;
    m->probe_ns = ips_max_u64(m->probe_ns, s->probe_ns);
    m->overhead_ns = ips_add_sat(m->overhead_ns, s->overhead_ns);
    m->probe_arc_ns = ips_add_sat(m->probe_arc_ns, s->probe_arc_ns);
    m->cpu_ns = ips_add_sat(m->cpu_ns, s->cpu_ns);
    m->guessed_cpu_ns = ips_add_sat(m->guessed_cpu_ns, s->guessed_cpu_ns);
    m->guesses_settled = ips_add_sat(m->guesses_settled, s->guesses_settled);
    m->guess_off_ns = ips_add_sat(m->guess_off_ns, s->guess_off_ns);
    m->guess_off_max_ns = ips_max_u64(m->guess_off_max_ns, s->guess_off_max_ns);
    if (p->peers) { /* counted after the join with the ends of other machines */
        m->unmatched += p->peers->unmatched;
        m->pending += p->peers->pending;
        m->external += p->peers->external;
        m->idle += p->peers->idle;
    } else { /* the ends were not joined across machines, so none is pending */
        m->unmatched += s->unmatched;
        m->external += s->external;
        m->idle += s->idle;
    }
    for (size_t i = 0; i < s->n_unseen; i++)
        add_unrecorded_text_once(a, c, unseen_cap, s->unseen[i]);
    add_untraced(a, c, p);
    add_graph_file_use_detail(a, c, p);
    append_load_of_machine(a, c, p);
}

/* Marks the answer incomplete, with the reason, for each kind of data that the
 * run produced but that is not in the archives. */
static void fill_gaps(const struct query *q, struct arena *a,
                      struct certificate *c)
{
    bool unrecorded = false;
    for (uint32_t i = 0; i < q->gather.count; i++) {
        const struct machine_share *p = q->gather.active[i];
        unrecorded |= p->sync->unrecorded != 0;
        if (*p->sync->state->trouble)
            certificate_add_gap_and_mark_incomplete(
                a, c,
                arena_printf(a, "machine %s %s", p->machine,
                             p->sync->state->trouble));
    }
    if (certificate_has_live_process(q))
        certificate_add_gap_and_mark_incomplete(a, c, "the run goes on");
    uint64_t n = c->msg.untraced_processes;
    if (n)
        certificate_add_gap_and_mark_incomplete(
            a, c,
            arena_printf(a, "%" PRIu64 " process%s%s", n, n == 1 ? "" : "es",
                         IPS_GAP_UNRECORDED));
    if (unrecorded)
        certificate_add_gap_and_mark_incomplete(a, c,
                                                "some calls left no record");
}

void certificate_fill(const struct query *q, struct arena *a,
                      struct certificate *c)
{
    size_t unseen_cap = 0;
    memset(c, 0, sizeof(*c));
    ips__certificate__init(&c->msg);
    c->msg.complete = true;
    c->msg.clock = ips_unconst_text("none used");
    c->msg.run_delay_unknown_ns = c->msg.unended_ns = UINT64_MAX;
    fill_lost(q, a, c);
    fill_present_and_missing_machines(q, a, c);
    for (uint32_t i = 0; i < q->gather.count; i++)
        add_machine_to_certificate(q->gather.active[i], a, c, &unseen_cap);
    add_unrecorded_text_once(a, c, &unseen_cap, never_seen);
    fill_gaps(q, a, c);
    c->msg.dilation_ppm =
        recording_overhead_ppm(c->msg.overhead_ns, c->msg.cpu_ns);
    c->msg.ambiguous += q->gather.ambiguous;
    if (c->msg.pending > 0)
        certificate_add_note(
            a, c,
            arena_printf(a,
                         "%" PRIu64 " receives of channels that are still "
                         "open, or whose other machine is missing, have no "
                         "sender yet",
                         c->msg.pending));
}

/* Unended waits below a 100th of the path, or below UNENDED_NS, are only a
 * note. Less than 1% of the path does not change any displayed share. And a
 * call during which other threads had the CPU for a time slice looks like a
 * wait without a known waker. */
#define UNENDED_PARTS 100
#define UNENDED_NS 10000000u

void certificate_report_waits_with_unknown_waker(struct arena *a,
                                                 struct certificate *c,
                                                 uint64_t ns, uint64_t path_ns,
                                                 bool in_path)
{
    const char *text = arena_printf(
        a,
        in_path
            ? "%.3f ms of the path are waits, and what ended them is not known"
            : "the path may be too short by up to %.3f ms: what ended some "
              "waits is not known",
        (double)ns / 1e6);
    c->msg.unended_ns = ns;
    if (ns >= ips_max_u64(path_ns / UNENDED_PARTS, UNENDED_NS))
        certificate_add_gap_and_mark_incomplete(a, c, text);
    else if (ns > 0)
        certificate_add_note(a, c, text);
}
