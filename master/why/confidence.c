/* Rates the confidence of findings: collects what makes each doubtful (why.h).
 */
#include <inttypes.h>

#include "common/types.h"
#include "master/tables/procs.h"
#include "master/why/why.h"

struct doubt {
    struct arena *a;
    enum why_confidence sure;
    const char *text;
};

static void lower_confidence_with_doubt(struct doubt *d,
                                        enum why_confidence at_most,
                                        const char *text)
{
    d->sure = at_most < d->sure ? at_most : d->sure;
    d->text = *d->text ? arena_printf(d->a, "%s; %s", d->text, text) : text;
}

/* Returns by how much recording made the path longer, in ppm. Only recording on
 * the path counts: a program that hardly computes may spend half of its CPU
 * time on recording without getting slower. */
static uint64_t path_slowdown_by_recording_ppm(const struct why_facts *f)
{
    if (f->overhead_ns == UINT64_MAX)
        return 0;
    uint64_t own = ips_sub_sat(f->t_max_wall_ns, f->overhead_ns);
    return why_share_ppm(f->overhead_ns, ips_max_u64(own, 1));
}

/* Adds a doubt if procedures were not measured, so that the findings may miss a
 * hot one. If most of the path is sleep, no procedure can be hot, so there is
 * no doubt. */
static void add_doubt_if_procedures_not_measured(const struct why_facts *f,
                                                 struct doubt *d)
{
    char none[PROCS_NONE_BYTES];
    if (f->sampled ||
        (f->sample_ns &&
         why_share_ppm(f->path_cpu_ns, f->t_max_wall_ns) < WHY_HOT_PPM))
        return;
    procs_explain_missing_procedures(f->sample_ns, none);
    lower_confidence_with_doubt(d, WHY_FAIR, arena_printf(d->a, "%s", none));
}

/* Adds the doubts that apply to all findings of a run. */
static void add_doubts_of_run(const struct why_facts *f, struct doubt *d)
{
    if (f->missing_machines)
        lower_confidence_with_doubt(d, WHY_LOW, "machines are missing");
    if (f->open)
        lower_confidence_with_doubt(d, WHY_FAIR, "the run is still going on");
    if (f->lost)
        lower_confidence_with_doubt(
            d, f->lost > f->events / 100 ? WHY_LOW : WHY_FAIR,
            arena_printf(d->a, "%" PRIu64 " event%s lost%s", f->lost,
                         f->lost == 1 ? " was" : "s were",
                         f->lost_for_space
                             ? " (record with ipsrun --on-full=block)"
                             : ""));
    if (f->t_max_wall_ns < WHY_SURE_NS)
        lower_confidence_with_doubt(d, WHY_LOW,
                                    f->windowed
                                        ? "the window is shorter than 100 ms"
                                        : "the run is shorter than 100 ms");
    uint64_t slower = path_slowdown_by_recording_ppm(f);
    if (slower > WHY_OVERHEAD_PPM)
        lower_confidence_with_doubt(
            d, WHY_FAIR,
            arena_printf(d->a, "recording made the path %.0f%% longer",
                         (double)slower / 1e4));
    if (f->untraced)
        lower_confidence_with_doubt(
            d, WHY_FAIR,
            arena_printf(d->a, "%" PRIu64 " process%s not recorded",
                         f->untraced, f->untraced == 1 ? " was" : "es were"));
}

/* Whether some thread spins: then more cores may not end its wait sooner. */
static bool has_spinning_thread(const struct why_facts *f)
{
    for (size_t i = 0; i < f->procedures; i++)
        if (f->procedure[i].yields || f->procedure[i].reads_memory)
            return true;
    return f->spinning.ns > 0;
}

static bool is_found_by_samples(enum why_kind kind)
{
    return kind == WHY_PROCEDURE || kind == WHY_SPREAD;
}

enum why_confidence why_rate_confidence(const struct why_facts *f,
                                        struct arena *a,
                                        const struct why_finding *x,
                                        const struct why_amount *amount,
                                        const char **because)
{
    struct doubt d = {a, WHY_HIGH, ""};
    if (x && x->kind == WHY_HANG) {
        if (!f->hang.circle)
            lower_confidence_with_doubt(
                &d, WHY_FAIR, "a time limit may end one of the waits");
        *because = d.text;
        return d.sure;
    }
    add_doubts_of_run(f, &d);
    uint64_t unknown_ns = ips_max_u64(f->path_other_ns, f->unended_ns);
    if (!x &&
        why_share_ppm(unknown_ns, f->t_max_wall_ns) >= WHY_UNEXPLAINED_PPM)
        lower_confidence_with_doubt(
            &d, WHY_FAIR,
            arena_printf(a,
                         "%s of the path are unattributed: what ended these "
                         "waits was not recorded",
                         why_format_ns(a, unknown_ns)));
    if (!x)
        add_doubt_if_procedures_not_measured(f, &d);
    bool sampled = x && (is_found_by_samples(x->kind) ||
                         (x->kind == WHY_LOCK && amount->samples > 0));
    if (sampled && !f->exact && amount->samples < WHY_SURE_SAMPLES)
        lower_confidence_with_doubt(
            &d, WHY_LOW,
            arena_printf(a, "only about %" PRIu64 " samples", amount->samples));
    if (x && f->clock_bound_ns > x->gain_ns / 2)
        lower_confidence_with_doubt(
            &d, WHY_LOW, "the error of the machines' clocks is as large");
    if (x && f->unended_ns > x->gain_ns / 2)
        lower_confidence_with_doubt(
            &d, WHY_FAIR,
            arena_printf(a,
                         "what ended %s of waits on the path was not recorded",
                         why_format_ns(a, f->unended_ns)));
    if (x && (x->kind == WHY_CORES || x->kind == WHY_BUSY) &&
        f->delay_unknown_ns > x->ns)
        lower_confidence_with_doubt(
            &d, WHY_FAIR,
            "threads were off the CPU for longer without a known reason");
    if (x && (x->kind == WHY_CORES || x->kind == WHY_BUSY) &&
        has_spinning_thread(f))
        lower_confidence_with_doubt(&d, WHY_FAIR,
                                    "a thread spins, and what it waits for may "
                                    "come no sooner with a core for it");
    if (amount && (amount->yields || amount->reads_memory))
        lower_confidence_with_doubt(&d, WHY_FAIR,
                                    "what it waits for is not recorded");
    if (amount && amount->hands_on)
        lower_confidence_with_doubt(
            &d, WHY_FAIR,
            "one thread waits for the other, so they may do different "
            "work");
    if (amount && amount->computes_meanwhile)
        lower_confidence_with_doubt(
            &d, WHY_FAIR, "other threads of the process compute meanwhile");
    if (x && x->kind == WHY_LOCK)
        lower_confidence_with_doubt(
            &d, WHY_FAIR, "threads may take the lock in another order");
    *because = d.text;
    return d.sure;
}
