/* Sends the answer of `ipsq waits`: first the groups, in several replies, then
 * one reply with everything else. */
#include <inttypes.h>
#include <string.h>

#include "common/types.h"
#include "master/path/weighting.h"
#include "master/query/certificate.h"
#include "master/query/gather.h"
#include "master/query/machine_share.h"
#include "master/query/self_check.h"
#include "master/tables/procs.h"
#include "master/waits/query.h"

#define GROUPS_A_REPLY 256u
/* at most this many causes per group; one more row has the remainder */
#define BLAME_ROWS 16u

static const char *const kinds[IPS_BLAME_KINDS] = {
#define X(name, text) [IPS_BLAME_##name] = (text),
    IPS_BLAMES(X)
#undef X
};

struct filling {
    struct query *q;
    struct waits_data *d;
    struct arena *a;
    struct certificate *c;
};

/* ---- names of objects --------------------------------------------------- */

static char *process_object_name(const struct filling *f, uint32_t process)
{
    const struct waits *w = &f->d->w;
    uint32_t part = 0;
    char object[OBJECT_BYTES];
    if (process == WAITS_NONE)
        return ips_unconst_text("");
    while (process >= w->process_base[part + 1])
        part++;
    machine_share_write_process_object_name(
        f->q->gather.active[part], process - w->process_base[part], object);
    return arena_printf(f->a, "%s", object);
}

static char *waiter_name(const struct filling *f,
                         const struct waits_make_groups *g)
{
    char *process = process_object_name(f, g->process);
    if (g->chain == WAITS_NONE)
        return process;
    return arena_printf(f->a, "%s/%u", process,
                        f->d->w.g->chains[g->chain].tid);
}

static char *cause_name(const struct waits *w, uint32_t cause)
{
    return ips_unconst_text(cause < w->cause_count ? w->cause[cause] : "");
}

/* ---- rows of the groups ------------------------------------------------- */

static void fill_blame(const struct filling *f, const struct waits_blame *b,
                       Ips__BlameRow *to)
{
    const struct waits *w = &f->d->w;
    ips__blame_row__init(to);
    to->kind = ips_unconst_text(kinds[b->kind]);
    to->object = process_object_name(f, b->process);
    to->ns = b->ns;
    if (b->kind == IPS_BLAME_COMPUTE && b->what < w->symbol_count) {
        to->procedure = ips_unconst_text(w->symbol[b->what].name);
        to->module = ips_unconst_text(w->symbol[b->what].module);
    }
    if (b->kind == IPS_BLAME_WAITED)
        to->cause = cause_name(w, b->what);
}

static void fill_blames(const struct filling *f,
                        const struct waits_make_groups *g, Ips__WaitGroup *to)
{
    const struct waits_blame *b = &f->d->groups.blame[g->first];
    uint32_t n = g->blame_count < BLAME_ROWS ? g->blame_count : BLAME_ROWS;
    Ips__BlameRow *rows = arena_alloc(f->a, (n + 1) * sizeof(*rows));
    to->blame = arena_alloc(f->a, (n + 1) * sizeof(*to->blame));
    if (!rows || !to->blame)
        return;
    for (uint32_t i = 0; i < n; i++) {
        fill_blame(f, &b[i], &rows[i]);
        to->blame[to->n_blame++] = &rows[i];
    }
    if (n == g->blame_count)
        return;
    ips__blame_row__init(&rows[n]);
    for (uint32_t i = n; i < g->blame_count; i++)
        rows[n].ns += b[i].ns;
    to->blame[to->n_blame++] = &rows[n];
}

/* Adds the call stack of the group's longest wait, from the slave's table. */
static void fill_stack_of_longest_wait(const struct filling *f,
                                       const struct waits_make_groups *g,
                                       Ips__WaitGroup *to)
{
    const struct waits *w = &f->d->w;
    uint64_t number = g->longest_wait;
    uint32_t part = 0;
    while (part + 1 < w->machine_count && number >= w->machine[part].count)
        number -= w->machine[part++].count;
    const struct waits_rows *r = &w->machine[part];
    const Ips__WaitPlace *p = r->call_site[r->of[number]];
    to->stack = p->stack;
    to->n_stack = p->n_stack;
}

static void fill_group(const struct filling *f,
                       const struct waits_make_groups *g, Ips__WaitGroup *to)
{
    const struct waits *w = &f->d->w;
    ips__wait_group__init(to);
    to->object = waiter_name(f, g);
    if (g->call_site != WAITS_NONE) {
        const struct waits_call_site *p = &w->call_site[g->call_site];
        to->procedure = ips_unconst_text(p->procedure);
        to->module = ips_unconst_text(p->module);
        to->file = ips_unconst_text(p->file);
        to->line = p->source_line;
    }
    to->cause = cause_name(w, g->cause);
    to->peer = process_object_name(f, g->peer);
    to->late = ips_unconst_text(g->late == IPS_LATE_SENDER     ? "sender"
                                : g->late == IPS_LATE_RECEIVER ? "receiver"
                                                               : "");
    to->count = g->count;
    to->total_ns = g->total_ns;
    to->longest_ns = g->longest_ns;
    fill_blames(f, g, to);
    if (f->q->request->waits->stacks && g->call_site != WAITS_NONE)
        fill_stack_of_longest_wait(f, g, to);
}

/* ---- the last reply ----------------------------------------------------- */

/* Lists the causes with a value above 0 and returns their number; `count` may
 * be NULL. */
static size_t fill_causes(const struct filling *f, const uint64_t *ns,
                          const uint64_t *count, Ips__WaitCause ***list)
{
    const struct waits *w = &f->d->w;
    Ips__WaitCause *rows = arena_alloc(f->a, IPS_IDLE_CAUSES * sizeof(*rows));
    size_t n = 0;
    *list = arena_alloc(f->a, IPS_IDLE_CAUSES * sizeof(**list));
    for (uint32_t i = 0; rows && *list && i < IPS_IDLE_CAUSES; i++) {
        if (!ns[i] && !(count && count[i]))
            continue;
        ips__wait_cause__init(&rows[n]);
        rows[n].cause = i < w->cause_count ? cause_name(w, i)
                                           : ips_unconst_text("not known");
        rows[n].ns = ns[i];
        rows[n].count = count ? count[i] : 0;
        (*list)[n] = &rows[n];
        n++;
    }
    return n;
}

static void fill_core_time_rows(const struct filling *f, Ips__WaitsAnswer *out)
{
    uint32_t n = f->q->gather.count;
    Ips__IdleRow *rows = arena_alloc(f->a, (n + 1) * sizeof(*rows));
    out->idle = arena_alloc(f->a, (n + 1) * sizeof(*out->idle));
    for (uint32_t i = 0; rows && out->idle && i < n; i++) {
        const struct machine_share *p = f->q->gather.active[i];
        const struct ips_idle *from = &f->d->idle[i];
        Ips__IdleRow *to = &rows[i];
        ips__idle_row__init(to);
        to->machine = ips_unconst_text(p->machine);
        to->cores = ips_min_u64(p->sync->cores, 1u << 20);
        to->elapsed_ns = f->d->w.finish - f->d->w.begin;
        to->running_ns = from->running;
        to->spun_ns = from->spun;
        to->others_ns = from->others;
        to->unknown_ns = from->unknown;
        to->nobody_ns = from->nobody;
        to->before_ns = from->before;
        to->after_ns = from->after;
        to->over_ns = from->over;
        to->n_waiting = fill_causes(f, from->cause, NULL, &to->waiting);
        out->idle[out->n_idle++] = to;
    }
}

static void fill_totals(const struct filling *f, size_t shown,
                        Ips__WaitsAnswer *out)
{
    const struct waits_data *d = f->d;
    const struct waits_groups *g = &d->groups;
    out->group_count = g->count;
    out->waits = g->waits;
    out->total_ns = g->total_ns;
    for (size_t i = shown; i < g->count; i++)
        out->left_out_ns += g->group[d->order[i]].total_ns;
    out->n_causes = fill_causes(f, g->cause_ns, g->cause_count, &out->causes);
    out->late_sender_ns = g->late_sender_ns;
    out->late_receiver_ns = g->late_receiver_ns;
    out->cut_ns = g->cut_ns;
    fill_core_time_rows(f, out);
}

static void add_certificate_notes_if_incomplete(const struct filling *f,
                                                struct certificate *c)
{
    const struct waits_data *d = f->d;
    bool procedures = false;
    for (uint32_t i = 0; i < d->w.machine_count; i++)
        procedures |= d->w.arc_profile[i].count > 0;
    if (!procedures) {
        char none[PROCS_NONE_BYTES];
        procs_explain_missing_procedures(gather_max_sample_period_ns(f->q),
                                         none);
        certificate_add_note(
            f->a, c,
            arena_printf(
                f->a,
                "the computing of other threads during the waits is not "
                "split: %s",
                none));
    }
    if (d->groups.cut_ns)
        certificate_add_note(
            f->a, c,
            "too many chains of waits to follow: ask about less "
            "(--object, --from, --to)");
}

/* Sends the groups, in replies of their own. */
static void send_groups(const struct filling *f, size_t shown)
{
    Ips__WaitGroup *rows =
        arena_alloc(f->a, (size_t)GROUPS_A_REPLY * sizeof(*rows));
    Ips__WaitGroup **list =
        arena_alloc(f->a, (size_t)GROUPS_A_REPLY * sizeof(*list));
    for (size_t at = 0; rows && list && at < shown;) {
        Ips__WaitsAnswer piece = IPS__WAITS_ANSWER__INIT;
        Ips__Reply reply = IPS__REPLY__INIT;
        for (; at < shown && piece.n_groups < GROUPS_A_REPLY; at++) {
            Ips__WaitGroup *row = &rows[piece.n_groups];
            fill_group(f, &f->d->groups.group[f->d->order[at]], row);
            if (!f->a->failed)
                self_check_wait_group(f->a, f->c, row);
            list[piece.n_groups++] = row;
        }
        piece.groups = list;
        reply.answer_case = IPS__REPLY__ANSWER_WAITS;
        reply.waits = &piece;
        if (f->a->failed)
            break;
        query_send_partial_reply(f->q, &reply);
    }
}

void waits_send_answer(struct query *q)
{
    struct waits_data *d = waits_data_of(q);
    const Ips__WaitsAsk *ask = q->request->waits;
    struct arena a = {0};
    struct certificate c;
    struct ips_err err = {0};
    struct filling f = {q, d, &a, &c};
    Ips__WaitsAnswer answer = IPS__WAITS_ANSWER__INIT;
    size_t shown = ask->top && ask->top < d->groups.count ? (size_t)ask->top
                                                          : d->groups.count;
    certificate_fill(q, &a, &c);
    c.msg.unmatched += d->path.unmatched;
    c.msg.engine =
        ips_unconst_text("central (waits: all events at the master)");
    if (weighting_clock_alignment_text(&d->path))
        c.msg.clock =
            ips_unconst_text(weighting_clock_alignment_text(&d->path));
    add_certificate_notes_if_incomplete(&f, &c);
    fill_totals(&f, shown, &answer);
    if (!a.failed)
        self_check_waits(&a, &c, &answer);
    send_groups(&f, shown);
    answer.clock = ips_unconst_text(d->path.clock_text);
    answer.category = ips_unconst_text("3");
    answer.open = certificate_run_is_open(q);
    answer.certificate = &c.msg;
    certificate_set_category_and_source(q, &a, &c, 3,
                                        "the slaves' graphs and waits");
    answer.took_ns = c.msg.took_ns;
    if (a.failed) {
        ips_err_set(&err, IPS_E_NO_MEMORY, "no memory for the answer");
        query_fail(q, &err);
    } else {
        Ips__Reply reply = IPS__REPLY__INIT;
        reply.answer_case = IPS__REPLY__ANSWER_WAITS;
        reply.waits = &answer;
        query_answer(q, &reply);
    }
    arena_release(&a);
}
