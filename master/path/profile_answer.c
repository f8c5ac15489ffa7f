/* Sends procedures, sequences and the whole graph in the answer. */
#include <inttypes.h>
#include <string.h>

#include "common/types.h"
#include "master/path/profile.h"
#include "master/query/machine_share.h"

#define ROWS_A_REPLY 1024u /* rows of at most 2.6 KB each */
/* maximum number of rows in each list of machines, processes, threads */
#define WHOLE_ROWS 10000u

const struct shares *path_profile_shares(const struct query *q, uint64_t *ns)
{
    const struct path_data *d = q->data;
    const struct path_profile *pp = path_profile_of(q);
    bool windowed = pp && pp->windowed;
    *ns = windowed ? pp->window_ns : d->scenarios[SCENARIO_MAIN].t_max;
    return windowed ? &pp->shares : &d->scenarios[SCENARIO_MAIN].shares;
}

const struct path_piece *path_profile_pieces(const struct query *q,
                                             uint64_t *count)
{
    const struct path_data *d = q->data;
    const struct path_profile *pp = path_profile_of(q);
    bool windowed = pp && pp->windowed;
    *count = windowed ? pp->piece_count : d->piece_count;
    return windowed ? pp->pieces : d->pieces;
}

void path_profile_fill_cpu_time_split(const struct query *q,
                                      Ips__PathAnswer *out)
{
    const struct path_data *d = q->data;
    const struct path_profile *pp = path_profile_of(q);
    bool windowed = pp && pp->windowed && !pp->cpu;
    out->on_cpu_ns = windowed ? pp->on_cpu_ns : d->on_cpu_ns;
    out->run_delay_ns = windowed ? pp->delay_ns : d->run_delay_ns;
    out->other_ns = windowed ? pp->off_cpu_ns - pp->delay_ns : d->other_ns;
}

/* ---- sending rows in batches ---- */

static void send_profile_rows(struct query *q, enum profile_side side,
                              enum profile_list list, Ips__ProcedureRow **rows,
                              size_t count)
{
    Ips__PathAnswer answer = IPS__PATH_ANSWER__INIT;
    Ips__WholeGraph whole = IPS__WHOLE_GRAPH__INIT;
    Ips__Reply reply = IPS__REPLY__INIT;
    if (side == PROFILE_WHOLE) {
        answer.whole = &whole;
        *(list == PROFILE_LINE ? &whole.by_line : &whole.by_procedure) = rows;
        *(list == PROFILE_LINE ? &whole.n_by_line : &whole.n_by_procedure) =
            count;
    } else {
        *(list == PROFILE_LINE ? &answer.by_line : &answer.by_procedure) = rows;
        *(list == PROFILE_LINE ? &answer.n_by_line : &answer.n_by_procedure) =
            count;
    }
    reply.answer_case = IPS__REPLY__ANSWER_PATH;
    reply.path = &answer;
    query_send_partial_reply(q, &reply);
}

bool path_profile_send_rows_until_backlog(struct query *q)
{
    struct path_profile *pp = path_profile_of(q);
    for (int side = 0; pp && side < PROFILE_SIDES; side++)
        for (int list = 0; list < PROFILE_LISTS; list++) {
            struct profile_rows *r = &pp->rows[side][list];
            while (r->sent < r->count) {
                size_t n = ips_min_u64(r->count - r->sent, ROWS_A_REPLY);
                if (query_is_client_backlogged(q))
                    return false;
                send_profile_rows(q, (enum profile_side)side,
                                  (enum profile_list)list, r->rows + r->sent,
                                  n);
                r->sent += n;
                if (q->over)
                    return false;
            }
        }
    return true;
}

/* ---- the last reply ---- */

static Ips__Share **fill_whole_graph_shares(const struct query *q,
                                            struct arena *a,
                                            enum share_list list, size_t *count,
                                            struct certificate *c)
{
    static const char *const names[] = {"machine", "process", "thread"};
    const struct path_profile *pp = path_profile_of(q);
    size_t all = pp->whole_count[list];
    size_t n = all < WHOLE_ROWS ? all : WHOLE_ROWS;
    Ips__Share **out = arena_alloc(a, (n + 1) * sizeof(*out));
    if (n < all)
        certificate_add_detail(
            a, c,
            arena_printf(a,
                         "%zu smaller shares of all work by %s are "
                         "left out",
                         all - n, names[list]));
    *count = 0;
    for (size_t i = 0; i < n && out; i++) {
        const struct profile_chain_sum *row = &pp->whole[list][i];
        const struct machine_share *p = q->gather.active[row->a >> 32];
        const char *process = machine_share_process_name(p, (uint32_t)row->a);
        Ips__Share *share = arena_alloc(a, sizeof(*share));
        if (!share)
            break;
        ips__share__init(share);
        share->object = list == SHARE_MACHINE
                            ? arena_printf(a, "/%s", p->machine)
                        : list == SHARE_PROCESS
                            ? arena_printf(a, "/%s/%s", p->machine, process)
                            : arena_printf(a, "/%s/%s/%" PRIu64, p->machine,
                                           process, row->b);
        share->ns = row->ns;
        share->count = row->count;
        share->ns_low = share->ns_high = IPS_UNMEASURED;
        share->path_ns = row->path_ns;
        out[(*count)++] = share;
    }
    return out;
}

static Ips__Sequence *fill_sequence(const struct query *q, struct arena *a,
                                    enum profile_side side,
                                    const struct ips_sequence *from)
{
    const struct path_profile *pp = path_profile_of(q);
    const struct profile_sequences *s = &pp->sequences[side];
    Ips__Sequence *out = arena_alloc(a, sizeof(*out));
    char **texts = arena_alloc(a, 2 * from->length * sizeof(*texts));
    if (!out || !texts)
        return NULL;
    ips__sequence__init(out);
    out->objects = texts;
    out->procedures = texts + from->length;
    out->n_objects = out->n_procedures = from->length;
    out->ns = from->ns;
    out->count = from->count;
    for (uint32_t i = 0; i < from->length; i++) {
        const struct profile_step_key *w =
            &s->whats[s->steps[from->first + i].what];
        const struct profile_columns *f = &pp->face[side][w->machine];
        char object[OBJECT_BYTES];
        machine_share_write_process_object_name(q->gather.active[w->machine],
                                                w->process, object);
        out->objects[i] = arena_printf(a, "%s", object);
        out->procedures[i] = w->code ? f->codes[w->code - 1]->procedure
                                     : ips_unconst_text("[unsampled]");
    }
    return out;
}

static Ips__Sequence **fill_sequences(const struct query *q, struct arena *a,
                                      enum profile_side side, size_t *count)
{
    const struct profile_sequences *s = &path_profile_of(q)->sequences[side];
    Ips__Sequence **out = arena_alloc(a, (s->count + 1) * sizeof(*out));
    for (uint32_t i = 0; out && i < s->count; i++) {
        Ips__Sequence *one = fill_sequence(q, a, side, &s->result[i]);
        if (!one)
            break;
        out[(*count)++] = one;
    }
    return out;
}

static void fill_whole_graph(struct query *q, struct arena *a,
                             struct certificate *c, Ips__PathAnswer *out)
{
    struct path_profile *pp = path_profile_of(q);
    Ips__WholeGraph *w = arena_alloc(a, sizeof(*w));
    if (!w)
        return;
    ips__whole_graph__init(w);
    w->total_ns = pp->whole_ns;
    w->by_machine =
        fill_whole_graph_shares(q, a, SHARE_MACHINE, &w->n_by_machine, c);
    w->by_process =
        fill_whole_graph_shares(q, a, SHARE_PROCESS, &w->n_by_process, c);
    w->by_thread =
        fill_whole_graph_shares(q, a, SHARE_THREAD, &w->n_by_thread, c);
    bool lines = !path_profile_asks_shares_by(q->request->path, "procedure") &&
                 path_profile_asks_shares_by(q->request->path, "line");
    w->totals =
        &pp->rows[PROFILE_WHOLE][lines ? PROFILE_LINE : PROFILE_PROCEDURE]
             .totals;
    if (q->request->path->sequences && !pp->no_whole_steps)
        w->sequences = fill_sequences(q, a, PROFILE_WHOLE, &w->n_sequences);
    else if (q->request->path->sequences)
        certificate_add_note(a, c,
                             arena_printf(a,
                                          "sequences cover only the path: the "
                                          "whole graph has more than %u nodes",
                                          PROFILE_WHOLE_NODES));
    out->whole = w;
}

static void add_profile_notes_to_certificate(const struct path_profile *pp,
                                             struct arena *a,
                                             struct certificate *c,
                                             const Ips__ProcedureTotals *t)
{
    if (t->cpu_ns && t->unsampled_ns)
        certificate_add_detail(
            a, c,
            arena_printf(
                a, "%.1f%% of the path's CPU time has no sample: [unsampled]",
                100.0 * (double)t->unsampled_ns / (double)t->cpu_ns));
    if (t->cpu_ns && pp->alike_ns)
        certificate_add_detail(
            a, c,
            arena_printf(
                a,
                "%.1f%% of the path's CPU time is in intervals too short for a "
                "sample; samples of similar intervals stand for them",
                100.0 * (double)pp->alike_ns / (double)t->cpu_ns));
    if (pp->windowed)
        certificate_add_detail(
            a, c,
            "shares are those of the window; whether they are "
            "stable is known only of the whole path");
}

void path_profile_fill_last_reply(struct query *q, struct arena *a,
                                  struct certificate *c, Ips__PathAnswer *out)
{
    struct path_profile *pp = path_profile_of(q);
    const Ips__PathAsk *ask = q->request->path;
    if (!pp)
        return;
    bool procedures = path_profile_asks_shares_by(ask, "procedure");
    if (procedures || path_profile_asks_shares_by(ask, "line")) {
        out->procedure_totals =
            &pp->rows[PROFILE_PATH]
                     [procedures ? PROFILE_PROCEDURE : PROFILE_LINE]
                         .totals;
        out->alike_ns = pp->alike_ns;
        out->off_cpu_ns = pp->off_cpu_ns;
        add_profile_notes_to_certificate(pp, a, c, out->procedure_totals);
    }
    if (ask->whole)
        fill_whole_graph(q, a, c, out);
    if (ask->sequences)
        out->sequences = fill_sequences(q, a, PROFILE_PATH, &out->n_sequences);
}
