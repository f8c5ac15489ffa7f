/* The rules: decides which facts become findings, and in which order
 * (why.h). */
#include "master/why/why.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"

const char *why_kind_name(enum why_kind kind)
{
    static const char *const names[] = {
#define X(name, text) [WHY_##name] = (text),
        WHY_KINDS(X)
#undef X
    };
    return names[kind];
}

const char *why_confidence_name(enum why_confidence sure)
{
    static const char *const names[] = {"low", "fair", "high"};
    return names[sure];
}

uint32_t why_share_ppm(uint64_t ns, uint64_t whole)
{
    if (whole == 0)
        return 0;
    return ns >= whole ? 1000000u : (uint32_t)((ips_u128)ns * 1000000 / whole);
}

uint64_t why_time_without_other_programs_ns(const struct why_facts *f)
{
    /* Oversubscription is an estimate, so it is limited: without other programs
     * the run would not have taken longer. */
    uint64_t beyond = ips_sub_sat(f->t_max_wall_ns, f->quiet_ns);
    return ips_add_sat(f->quiet_ns,
                       ips_min_u64(f->oversubscription_ns, beyond));
}

uint64_t why_limit_ns_to_path_in_window(const struct why_facts *f, uint64_t ns)
{
    return f->windowed ? ips_min_u64(ns, f->t_max_wall_ns) : ns;
}

/* Returns the gain by which findings are chosen and ranked. The gain is
 * relative to the time without other programs, so that their load does not make
 * the program's own causes look smaller. */
static uint32_t gain_ppm(const struct why_facts *f, enum why_kind kind,
                         const struct why_amount *a)
{
    return why_share_ppm(
        a->gain_ns, kind == WHY_BUSY ? f->t_max_wall_ns
                                     : why_time_without_other_programs_ns(f));
}

/* ---- the rules ---------------------------------------------------------- */

static bool is_same_text(const char *a, const char *b)
{
    return a && b && *a && strcmp(a, b) == 0;
}

static uint64_t mean_ns(uint64_t sum, uint64_t count)
{
    return count ? sum / count : 0;
}

static bool is_chatty(const struct why_facts *f)
{
    const struct why_amount *a = &f->amount[WHY_CHATTY];
    return a->count >= WHY_CHATTY_COUNT &&
           mean_ns(a->bytes, a->count) <= WHY_CHATTY_BYTES &&
           mean_ns(f->chatty_path_ns, a->count) <= WHY_CHATTY_HOP_NS;
}

/* Whether the phase has a large share of the path, and phases with clearly more
 * busy cores have a considerable share too. */
static bool is_phase_worth_a_finding(const struct why_facts *f,
                                     const struct why_phase *p)
{
    uint64_t own = why_time_without_other_programs_ns(f);
    return why_share_ppm(p->amount.ns, own) >= WHY_PHASE_PPM &&
           why_share_ppm(p->others_ns, own) >= WHY_PHASE_REST_PPM &&
           why_share_ppm(p->busy_ppm, p->others_ppm) <= WHY_PHASE_BUSY_PPM;
}

/* Whether an amount of this kind may become a finding, apart from its gain. */
static bool may_kind_be_finding_apart_from_gain(const struct why_facts *f,
                                                enum why_kind kind, bool chatty)
{
    const struct why_amount *a = &f->amount[kind];
    switch (kind) {
    case WHY_LOCK:
    case WHY_CORES:
    case WHY_BUSY:
    case WHY_OUTSIDE:
    case WHY_SERIAL:
    case WHY_QUEUE:
    case WHY_IMBALANCE:
    case WHY_LATE:
        return true;

    case WHY_CHATTY:
        return chatty;
    case WHY_TRANSIT:
        return !chatty || !a->chatty;
    /* choose_findings() and why_apply_rules() decide about the following
     * kinds */
    case WHY_HANG:
    case WHY_PHASE:
    case WHY_PROCEDURE:
    case WHY_SPREAD:
    case WHY_KIND_COUNT:
        break;
    }
    return false;
}

/* Whether each request is expensive and at least half of the path's computing
 * is in one procedure and its callees. */
static bool is_each_request_expensive(const struct why_facts *f)
{
    const struct why_common *c = &f->common;
    return c->amount.ns > 0 && !f->windowed && f->asked > 0 &&
           c->of_ns / f->asked >= WHY_REQUEST_NS &&
           why_share_ppm(c->low_ns, c->of_ns) >= WHY_COMMON_PPM &&
           why_share_ppm(c->amount.named_ns, c->amount.ns) < WHY_NAMED_PPM &&
           why_share_ppm(c->amount.ns, why_time_without_other_programs_ns(f)) >=
               WHY_HOT_PPM;
}

static bool is_time_spread_over_procedures(const struct why_facts *f)
{
    uint64_t first = 0, own = why_time_without_other_programs_ns(f);
    for (size_t i = 0; i < f->procedures; i++)
        first = ips_max_u64(first, f->procedure[i].ns);
    return f->sampled &&
           why_share_ppm(f->sampled_ns, own) >= WHY_SPREAD_CPU_PPM &&
           why_share_ppm(first, own) < WHY_SPREAD_PPM &&
           f->top_ns < f->sampled_ns / 2;
}

/* ---- the list of findings ----------------------------------------------- */

struct list {
    const struct why_facts *f;
    struct arena *a;
    struct why_findings *out;
    struct candidate {
        enum why_kind kind;
        uint32_t gain_ppm;
        const struct why_amount *amount;
    } * item;
    size_t count, cap;
};

static struct candidate make_candidate(const struct why_facts *f,
                                       enum why_kind kind,
                                       const struct why_amount *amount)
{
    return (struct candidate){kind, gain_ppm(f, kind, amount), amount};
}

static void add_candidate(struct list *l, enum why_kind kind,
                          const struct why_amount *amount)
{
    if (arena_reserve_array_slot(l->a, &l->item, l->count, &l->cap,
                                 sizeof(*l->item)))
        l->item[l->count++] = make_candidate(l->f, kind, amount);
}

/* Sorts candidates by gain, greatest first. */
static int compare_candidates_by_gain(const void *a, const void *b)
{
    const struct candidate *p = a, *q = b;
    if (p->gain_ppm != q->gain_ppm)
        return p->gain_ppm > q->gain_ppm ? -1 : 1;
    if (p->kind != q->kind)
        return p->kind < q->kind ? -1 : 1;
    return (p->amount > q->amount) - (p->amount < q->amount);
}

/* Whether findings of this kind say why other threads wait for a procedure. */
static bool is_reason_to_wait(enum why_kind kind)
{
    return kind == WHY_LOCK || kind == WHY_IMBALANCE || kind == WHY_SERIAL;
}

/* Whether the candidate explains why threads wait for the procedure of the
 * candidate before it in the list, and may gain as much. */
static bool explains_wait_for_previous_procedure(const struct candidate *c)
{
    const struct candidate *p = c - 1;
    return is_reason_to_wait(c->kind) && p->kind == WHY_PROCEDURE &&
           why_share_ppm(p->amount->named_ns, p->amount->ns) >= WHY_NAMED_PPM &&
           c->gain_ppm >= p->gain_ppm - p->gain_ppm / WHY_SAME_PARTS;
}

/* A procedure for which other threads wait, and the finding that says why they
 * do, may have gains that differ only by chance. Then the finding with the
 * reason comes first. */
static void move_reasons_before_procedures(struct list *l)
{
    for (size_t i = 1; i < l->count; i++)
        for (size_t k = i;
             k > 0 && explains_wait_for_previous_procedure(&l->item[k]); k--) {
            const struct candidate c = l->item[k];
            l->item[k] = l->item[k - 1];
            l->item[k - 1] = c;
        }
}

/* Whether a finding of another kind already names this procedure. */
static bool other_finding_names_procedure(const struct list *l,
                                          const struct why_amount *a)
{
    for (size_t i = 0; i < l->count; i++) {
        const struct why_location *p = &l->item[i].amount->location;
        const struct why_phase *in = l->item[i].amount->phase;
        uint64_t ns = in ? a->phase_ns[in - l->f->phase] : a->named_ns;
        if (l->item[i].kind != WHY_PROCEDURE &&
            why_share_ppm(ns, a->ns) >= WHY_NAMED_PPM &&
            is_same_text(p->procedure, a->location.procedure) &&
            is_same_text(p->module, a->location.module))
            return true;
    }
    return false;
}

static bool list_has_lock_finding(const struct list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        if (l->item[i].kind == WHY_LOCK)
            return true;
    }
    return false;
}

/* Whether other findings already explain most of the phase's time. */
static bool is_phase_explained(const struct list *l, const struct why_phase *p)
{
    uint64_t ns = 0;
    for (size_t i = 0; i < l->count; i++) {
        bool again = i && l->item[i].kind == l->item[i - 1].kind;
        ns = ips_add_sat(ns, again ? 0 : p->named_ns[l->item[i].kind]);
    }
    return why_share_ppm(ns, p->amount.ns) >= WHY_NAMED_PPM;
}

static struct why_finding finding_of_candidate(const struct list *l,
                                               const struct candidate *c)
{
    const struct why_amount *a = c->amount;
    uint64_t gain_ns = why_limit_ns_to_path_in_window(l->f, a->gain_ns);
    uint64_t bound_ns = why_limit_ns_to_path_in_window(l->f, a->bound_ns);
    struct why_finding x = {.kind = c->kind,
                            .location = a->location,
                            .wait_at = a->wait_at,
                            .other = a->other,
                            .awaits_space = a->awaits_space,
                            .ns = why_limit_ns_to_path_in_window(l->f, a->ns),
                            .gain_ns = gain_ns,
                            .bound_ns = ips_max_u64(bound_ns, gain_ns),
                            .gain_ppm =
                                why_share_ppm(gain_ns, l->f->t_max_wall_ns)};
    if (a->phase) {
        x.phase = a->phase->number;
        x.from_ns = a->phase->from_ns;
        x.to_ns = a->phase->to_ns;
    }
    why_write_texts_of_one_finding(l->f, l->a, &x, a);
    x.sure = why_rate_confidence(l->f, l->a, &x, a, &x.sure_why);
    return x;
}

static void keep_candidate_with_larger_gain(struct candidate *nearest,
                                            struct candidate c)
{
    if (!nearest->amount || c.gain_ppm > nearest->gain_ppm)
        *nearest = c;
}

static void add_candidate_or_nearest(struct list *l, enum why_kind k,
                                     const struct why_amount *a,
                                     struct candidate *nearest)
{
    uint32_t least = k == WHY_IMBALANCE ? WHY_UNEVEN_PPM : WHY_LEAST_PPM;
    if (gain_ppm(l->f, k, a) >= least)
        add_candidate(l, k, a);
    else
        keep_candidate_with_larger_gain(nearest, make_candidate(l->f, k, a));
}

static void choose_procedures(struct list *l, bool chatty,
                              struct candidate *nearest)
{
    const struct why_facts *f = l->f;
    bool hot = false;
    for (size_t i = 0; i < f->procedures; i++) {
        const struct why_amount *a = &f->procedure[i];
        hot = hot ||
              why_share_ppm(a->ns, why_time_without_other_programs_ns(f)) >=
                  WHY_HOT_PPM;
        if ((chatty && a->call) || (a->lock_code && list_has_lock_finding(l)) ||
            other_finding_names_procedure(l, a))
            continue;
        if (gain_ppm(f, WHY_PROCEDURE, a) >= WHY_LEAST_PPM &&
            why_share_ppm(a->ns, why_time_without_other_programs_ns(f)) >=
                WHY_HOT_PPM)
            add_candidate(l, WHY_PROCEDURE, a);
        else
            keep_candidate_with_larger_gain(
                nearest, make_candidate(f, WHY_PROCEDURE, a));
    }
    if (!hot && !is_time_spread_over_procedures(f) &&
        is_each_request_expensive(f))
        add_candidate_or_nearest(l, WHY_PROCEDURE, &f->common.amount, nearest);
}

static void choose_findings(struct list *l, struct candidate *nearest)
{
    const struct why_facts *f = l->f;
    if (f->hang.ns) {
        add_candidate(l, WHY_HANG, &f->amount[WHY_HANG]);
        if (l->count)
            l->item[0].gain_ppm = UINT32_MAX; /* makes the hang rank first */
    }
    bool chatty =
        is_chatty(f) &&
        gain_ppm(f, WHY_CHATTY, &f->amount[WHY_CHATTY]) >= WHY_CHATTY_PPM;
    for (int i = 0; i < WHY_KIND_COUNT; i++) {
        enum why_kind k = (enum why_kind)i;
        if (may_kind_be_finding_apart_from_gain(f, k, chatty))
            add_candidate_or_nearest(l, k, &f->amount[k], nearest);
        if (k == WHY_SERIAL)
            add_candidate_or_nearest(l, k, &f->one_by_one, nearest);
    }
    for (size_t i = 0; i < f->phases; i++) {
        if (is_phase_worth_a_finding(f, &f->phase[i]) &&
            !is_phase_explained(l, &f->phase[i]))
            add_candidate_or_nearest(l, WHY_PHASE, &f->phase[i].amount,
                                     nearest);
    }
    choose_procedures(l, chatty, nearest);
}

bool why_is_service(const struct why_facts *f)
{
    return f->asked_outside >= WHY_SERVICE_ASKED &&
           why_share_ppm(f->asked_outside, f->asked) >= WHY_SERVICE_ASKED_PPM;
}

static void set_service_flag_and_shape_text(const struct why_facts *f,
                                            struct arena *a,
                                            struct why_findings *out)
{
    static const char ask[] = "--for latency shows what single requests wait "
                              "for, --for throughput what limits their rate";
    const char *elapsed = why_format_ns(a, f->t_max_wall_ns);
    out->service = why_is_service(f) ||
                   (f->accepted > 0 &&
                    why_share_ppm(f->path_outside_ns, f->t_max_wall_ns) >=
                        WHY_SERVICE_IDLE_PPM);
    if (f->windowed)
        out->shape_text = arena_printf(
            a,
            "turnaround: where %s of this window went, with the rest of the "
            "run taking no time (%s)",
            elapsed, why_window_text(f, a));
    else if (why_is_service(f))
        out->shape_text = arena_printf(
            a,
            "turnaround: where %s up to the goal went. This is a service "
            "(%" PRIu64 " messages came from unrecorded clients): %s",
            elapsed, f->asked_outside, ask);
    else if (out->service)
        out->shape_text = arena_printf(
            a,
            "turnaround: where %s up to the goal went. This looks like a "
            "service (connections accepted: %u; %s spent waiting for something "
            "not recorded): %s",
            elapsed, f->accepted, why_format_ns(a, f->path_outside_ns), ask);
    else if (f->accepted)
        out->shape_text = arena_printf(
            a,
            "turnaround: where the elapsed time of %s went (a batch program: "
            "connections accepted: %u, all from its own processes)",
            elapsed, f->accepted);
    else
        out->shape_text = arena_printf(
            a,
            "turnaround: where the elapsed time of %s went (a batch program: "
            "it accepted no connections)",
            elapsed);
}

bool why_apply_rules(const struct why_facts *f, struct arena *a,
                     struct why_findings *out)
{
    struct list l = {.f = f, .a = a, .out = out};
    struct candidate nearest = {0};
    memset(out, 0, sizeof(*out));
    choose_findings(&l, &nearest);
    if (!l.count && gain_ppm(f, WHY_PROCEDURE, &f->spinning) >= WHY_LEAST_PPM)
        add_candidate(&l, WHY_PROCEDURE, &f->spinning);
    if (l.count)
        qsort(l.item, l.count, sizeof(*l.item), compare_candidates_by_gain);
    move_reasons_before_procedures(&l);
    if (is_time_spread_over_procedures(f))
        add_candidate(&l, WHY_SPREAD, &f->amount[WHY_SPREAD]);
    for (size_t i = 0; i < l.count && i < WHY_TOP; i++)
        out->finding[out->count++] = finding_of_candidate(&l, &l.item[i]);
    out->left_out = l.count - out->count;
    if (nearest.amount && nearest.amount->gain_ns) {
        out->nearest = finding_of_candidate(&l, &nearest);
        out->has_nearest = true;
    }
    out->sure = why_rate_confidence(f, a, NULL, NULL, &out->sure_why);
    set_service_flag_and_shape_text(f, a, out);
    return !a->failed;
}
