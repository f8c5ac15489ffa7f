/* Asks the slaves, in several rounds, which procedures spent the time of the
 * path's pieces. */
#include "master/path/query_profile.h"

#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/path/profile.h"
#include "master/path/weighting.h"
#include "master/query/machine_share.h"

/* One round of requests about one side (the path or the whole graph): fetches
 * rows by procedure or by line (`list`), or no rows (`rows` false). The first
 * round of a side also fetches the sum of each piece, and the rows in order of
 * time if sequences were asked for. */
struct profile_round {
    enum profile_side side;
    enum profile_list list;
    bool rows, first;
};

bool path_profile_asks_shares_by(const Ips__PathAsk *ask, const char *what)
{
    for (size_t i = 0; i < ask->n_by; i++)
        if (strcmp(ask->by[i], what) == 0)
            return true;
    return false;
}

int path_profile_check_by_words(const Ips__PathAsk *ask, struct ips_err *err)
{
    static const char *const known[] = {"machine",   "process", "thread",
                                        "procedure", "line",    "message",
                                        "external"};
    for (size_t i = 0; i < ask->n_by; i++) {
        bool found = false;
        for (size_t k = 0; k < sizeof(known) / sizeof(*known); k++)
            found = found || strcmp(ask->by[i], known[k]) == 0;
        if (!found)
            return ips_err_set(err, IPS_E_USAGE,
                               "by %.80s: machine, process, thread, procedure, "
                               "line, message or external",
                               ask->by[i]);
    }
    return 0;
}

bool path_profile_wanted(const struct query *q)
{
    const struct path_data *d = q->data;
    const Ips__PathAsk *ask = q->request->path;
    return ask->sequences || ask->whole || d->window.is_set ||
           path_profile_asks_shares_by(ask, "procedure") ||
           path_profile_asks_shares_by(ask, "line");
}

/* Plans the rounds of requests for a question. Returns their number, at most
 * 4. */
static unsigned plan_rounds(const Ips__PathAsk *ask,
                            struct profile_round out[4])
{
    const bool lists[PROFILE_LISTS] = {
        path_profile_asks_shares_by(ask, "procedure"),
        path_profile_asks_shares_by(ask, "line")};
    unsigned n = 0;
    for (int side = 0; side < PROFILE_SIDES; side++) {
        bool first = true;
        if (side == PROFILE_WHOLE && !ask->whole)
            continue;
        for (int list = 0; list < PROFILE_LISTS; list++)
            if (lists[list]) {
                out[n++] = (struct profile_round){(enum profile_side)side,
                                                  (enum profile_list)list, true,
                                                  first};
                first = false;
            }
        if (first)
            out[n++] = (struct profile_round){(enum profile_side)side,
                                              PROFILE_PROCEDURE, false, true};
    }
    return n;
}

static struct profile_round current_profile_round(const struct query *q,
                                                  unsigned *count)
{
    struct profile_round rounds[4] = {{0}};
    *count = plan_rounds(q->request->path, rounds);
    unsigned at = path_profile_of(q)->round;
    return rounds[at < 4 ? at : 3];
}

static void fail_no_memory(struct query *q)
{
    struct ips_err err = {0};
    ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
    query_fail(q, &err);
}

/* ---- replies of the slaves ---- */

static bool append_steps(struct profile_columns *f, const Ips__ProfileAnswer *a)
{
    size_t n = a->n_step_ns;
    if (f->step_capacity - f->step_count < n) {
        size_t room = f->step_capacity * 2 + n;
        void *more = realloc(f->steps, room * sizeof(*f->steps));
        if (!more)
            return false;
        f->steps = more;
        f->step_capacity = room;
    }
    for (size_t i = 0; i < n; i++)
        f->steps[f->step_count++] = (struct profile_step){
            a->step_piece[i], a->step_code[i], a->step_ns[i]};
    return true;
}

static bool are_steps_valid(const struct profile_columns *f,
                            const Ips__ProfileAnswer *a)
{
    if (a->n_step_piece != a->n_step_ns || a->n_step_code != a->n_step_ns)
        return false;
    for (size_t i = 0; i < a->n_step_ns; i++)
        if (a->step_piece[i] >= f->count || a->step_code[i] > f->code_count ||
            (f->step_count + i > 0 &&
             a->step_piece[i] < (i ? a->step_piece[i - 1]
                                   : f->steps[f->step_count - 1].piece)))
            return false;
    return true;
}

static int store_profile_reply(struct query *q, struct machine_share *p,
                               const Ips__Reply *reply, struct ips_err *err)
{
    struct path_profile *pp = path_profile_of(q);
    unsigned rounds;
    struct profile_round r = current_profile_round(q, &rounds);
    struct profile_columns *f = &pp->face[r.side][p->number];
    if (reply->answer_case != IPS__REPLY__ANSWER_PROFILE ||
        (reply->last && !reply->profile->totals))
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to ProfileAsk");
    const Ips__ProfileAnswer *a = reply->profile;
    struct profile_rows *rows = &pp->rows[r.side][r.list];
    bool fine = true;
    if ((a->n_rows || a->n_codes) && !query_keep_message(q, p))
        return ips_err_set(err, IPS_E_LIMIT, "its procedures are too many");
    fine = machine_share_append_rows(&rows->rows, &rows->count,
                                     (void *const *)a->rows, a->n_rows);
    if (fine && r.first) {
        fine = machine_share_append_rows(&f->codes, &f->code_count,
                                         (void *const *)a->codes, a->n_codes);
        if (a->n_piece_ns > f->count - f->got || !are_steps_valid(f, a))
            return ips_err_set(err, IPS_E_PROTOCOL,
                               "its profile is not of what was asked");
        if (a->n_piece_weight_ns != (pp->windowed ? a->n_piece_ns : 0))
            return ips_err_set(err, IPS_E_PROTOCOL,
                               "it does not weigh the pieces of the window");
        if (a->n_piece_ns)
            memcpy(f->ns + f->got, a->piece_ns, a->n_piece_ns * sizeof(*f->ns));
        if (a->n_piece_weight_ns)
            memcpy(f->weight_ns + f->got, a->piece_weight_ns,
                   a->n_piece_ns * sizeof(*f->weight_ns));
        f->got += (uint32_t)a->n_piece_ns;
        fine = fine && append_steps(f, a);
    }
    if (!fine)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    if (reply->last) {
        f->totals[r.list] = *a->totals;
        f->alike_ns = a->alike_ns;
        f->delay_ns = a->delay_ns;
        if (r.first && f->got != f->count)
            return ips_err_set(err, IPS_E_PROTOCOL,
                               "its profile is of %u pieces of %u", f->got,
                               f->count);
    }
    return 0;
}

/* ---- requests to the slaves ---- */

/* Asks about the pieces that were not requested yet, as many as the connection
 * accepts now. */
static void ask_profile_of_machine(struct query *q, struct machine_share *p,
                                   const struct profile_round *r)
{
    const Ips__PathAsk *asked = q->request->path;
    const struct path_data *d = q->data;
    const struct path_profile *pp = path_profile_of(q);
    struct profile_columns *f = &pp->face[r->side][p->number];
    Ips__Lane scenario;
    weighting_write_scenario(q, p, &d->scenarios[SCENARIO_MAIN].scenario,
                             &scenario);
    do {
        Ips__ProfileAsk ask = IPS__PROFILE_ASK__INIT;
        Ips__Request request = IPS__REQUEST__INIT;
        uint32_t at = f->asked;
        uint32_t n = (uint32_t)ips_min_u64(f->count - at, IPS_PIECE_ITEMS);
        ask.generation = p->sync->generation;
        ask.by = ips_unconst_text(!r->rows                       ? ""
                                  : r->list == PROFILE_PROCEDURE ? "procedure"
                                                                 : "line");
        ask.whole = r->side == PROFILE_WHOLE;
        if (!ask.whole) {
            ask.from = f->from + at;
            ask.to = f->to + at;
            ask.n_from = ask.n_to = n;
            ask.n_most = pp->cpu && !pp->windowed ? 0 : n;
            ask.most = ask.n_most ? f->most + at : NULL;
        }
        ask.steps =
            asked->sequences && r->first && !(ask.whole && pp->no_whole_steps);
        ask.lane = pp->windowed ? &scenario : NULL;
        ask.from_ns = d->window.from_ns;
        ask.to_ns = d->window.to_ns;
        /* In `wall` the window is already given on the common time scale. */
        if (d->scenarios[SCENARIO_MAIN].scenario.weighting != IPS_WEIGH_WALL)
            query_get_machine_window(q, p, &ask.from_ns, &ask.to_ns);
        f->asked += n;
        ask.more = !ask.whole && f->asked < f->count;
        request.ask_case = IPS__REQUEST__ASK_PROFILE;
        request.profile = &ask;
        query_send_request_to_slave(q, p, &request, at == 0);
        if (!ask.more)
            return;
    } while (p->slave && !query_is_slave_backlogged(p));
}

static void send_rest_of_profile_request_if_any(struct query *q,
                                                struct machine_share *p)
{
    unsigned rounds;
    struct profile_round r = current_profile_round(q, &rounds);
    const struct profile_columns *f =
        &path_profile_of(q)->face[r.side][p->number];
    if (r.side == PROFILE_PATH && f->asked > 0 && f->asked < f->count)
        ask_profile_of_machine(q, p, &r);
}

static void compute_profile(struct query *q)
{
    struct path_data *d = path_data_of(q);
    d->err = (struct ips_err){0};
    if (path_profile_make(q, &d->err) == 0)
        d->err.code = 0;
}

static void call_after_profile_or_fail(struct query *q)
{
    struct path_data *d = path_data_of(q);
    if (d->err.code)
        query_fail(q, &d->err);
    else
        path_profile_of(q)->after(q);
}

static void start_profile_round_or_computation(struct query *q);

static void advance_to_next_profile_round(struct query *q)
{
    path_profile_of(q)->round++;
    start_profile_round_or_computation(q);
}

static void start_profile_round_or_computation(struct query *q)
{
    unsigned rounds;
    struct ips_err err = {0};
    struct profile_round r = current_profile_round(q, &rounds);
    if (path_profile_of(q)->round == rounds) {
        if (query_submit_work(q, compute_profile, call_after_profile_or_fail,
                              &err) < 0)
            query_fail(q, &err);
        return;
    }
    query_open_round(q, store_profile_reply, advance_to_next_profile_round);
    q->ask_more = send_rest_of_profile_request_if_any;
    for (uint32_t i = 0; i < q->gather.count; i++) {
        struct machine_share *p = q->gather.active[i];
        path_profile_of(q)->face[r.side][i].asked = 0;
        /* Skip a machine without pieces of the path if only the path is asked
         * for. */
        if (r.side == PROFILE_WHOLE ||
            path_profile_of(q)->face[r.side][i].count)
            ask_profile_of_machine(q, p, &r);
    }
    query_close_round(q);
}

/* ---- pieces of the path by machine ---- */

/* Allocates the columns of `f` for `count` pieces; columns that the question
 * does not need stay empty. */
static bool allocate_profile_columns(const struct path_profile *pp,
                                     struct profile_columns *f, uint32_t count)
{
    size_t window = pp->windowed ? count : 0;
    size_t most = pp->cpu ? window : count;
    f->piece = calloc((size_t)count + 1, sizeof(*f->piece));
    f->from = calloc((size_t)count + 1, sizeof(*f->from));
    f->to = calloc((size_t)count + 1, sizeof(*f->to));
    f->ns = calloc((size_t)count + 1, sizeof(*f->ns));
    f->weight_ns = calloc(window + 1, sizeof(*f->weight_ns));
    f->most = calloc(most + 1, sizeof(*f->most));
    for (int i = 0; i < PROFILE_LISTS; i++)
        ips__procedure_totals__init(&f->totals[i]);
    return f->piece && f->from && f->to && f->ns && f->weight_ns && f->most;
}

/* Returns true if the piece consists of arcs of one chain. A message, a wait,
 * or the time before a chain's first node (in `wall`) has no such arcs. */
static bool piece_consists_of_chain_arcs(const struct path_piece *p)
{
    return p->kind == IPS_SEG_COMPUTE && p->from != IPS_NO_NODE;
}

/* Collects the pieces of the path by machine, as ranges of nodes. A piece
 * without arcs is collected only with a window, as the node at which it ends.
 * For the whole graph, reserves an entry for each chain. */
static bool collect_pieces_by_machine(struct query *q)
{
    const struct path_data *d = path_data_of(q);
    struct path_profile *pp = path_profile_of(q);
    uint32_t *count = calloc((size_t)pp->machine_count + 1, sizeof(*count));
    bool fine = count != NULL;
    for (uint64_t i = 0; fine && i < d->piece_count; i++)
        if (piece_consists_of_chain_arcs(&d->pieces[i]) || pp->windowed)
            count[d->pieces[i].at.machine]++;
    for (uint32_t i = 0; fine && i < pp->machine_count; i++)
        fine =
            allocate_profile_columns(pp, &pp->face[PROFILE_PATH][i], count[i]);
    for (uint64_t i = 0; fine && i < d->piece_count; i++) {
        const struct path_piece *x = &d->pieces[i];
        struct profile_columns *f = &pp->face[PROFILE_PATH][x->at.machine];
        uint64_t base =
            engine_data_of_machine(q->gather.active[x->at.machine])->base;
        if (!piece_consists_of_chain_arcs(x) && !pp->windowed)
            continue;
        f->piece[f->count] = (uint32_t)i;
        f->to[f->count] = (uint32_t)(x->to - base);
        f->from[f->count] = piece_consists_of_chain_arcs(x)
                                ? (uint32_t)(x->from - base)
                                : f->to[f->count];
        if (!pp->cpu || pp->windowed)
            f->most[f->count] = x->ns;
        f->count++;
    }
    for (uint32_t i = 0;
         fine && q->request->path->whole && i < pp->machine_count; i++) {
        struct profile_columns *f = &pp->face[PROFILE_WHOLE][i];
        uint32_t chains = q->gather.active[i]->t.thread_count;
        fine = allocate_profile_columns(pp, f, chains);
        f->count = chains;
    }
    free(count);
    return fine;
}

void path_profile_start(struct query *q, void (*after)(struct query *q))
{
    struct path_data *d = path_data_of(q);
    struct path_profile *pp = calloc(1, sizeof(*pp));
    if (!pp) {
        fail_no_memory(q);
        return;
    }
    path_profile_release(q);
    d->profile = pp;
    pp->after = after;
    pp->machine_count = q->gather.count;
    pp->windowed = d->window.is_set;
    pp->cpu = d->scenarios[SCENARIO_MAIN].scenario.weighting == IPS_WEIGH_CPU;
    pp->no_whole_steps = d->nodes > PROFILE_WHOLE_NODES;
    for (int side = 0; side < PROFILE_SIDES; side++)
        pp->face[side] =
            calloc((size_t)pp->machine_count + 1, sizeof(*pp->face[side]));
    if (pp->face[PROFILE_PATH] && pp->face[PROFILE_WHOLE] &&
        collect_pieces_by_machine(q))
        start_profile_round_or_computation(q);
    else
        fail_no_memory(q);
}

static void profile_columns_release(struct profile_columns *f)
{
    free(f->piece);
    free(f->from);
    free(f->to);
    free(f->ns);
    free(f->weight_ns);
    free(f->most);
    free(f->steps);
    free(f->codes);
}

void path_profile_release(struct query *q)
{
    struct path_data *d = path_data_of(q);
    struct path_profile *pp = path_profile_of(q);
    if (!pp)
        return;
    for (int side = 0; side < PROFILE_SIDES; side++) {
        for (uint32_t i = 0; pp->face[side] && i < pp->machine_count; i++)
            profile_columns_release(&pp->face[side][i]);
        free(pp->face[side]);
        for (int list = 0; list < PROFILE_LISTS; list++)
            free(pp->rows[side][list].rows);
    }
    for (int i = 0; i < 3; i++)
        free(pp->whole[i]);
    for (int side = 0; side < PROFILE_SIDES; side++) {
        free(pp->sequences[side].steps);
        free(pp->sequences[side].whats);
    }
    shares_release(&pp->shares);
    free(pp->pieces);
    free(pp);
    d->profile = NULL;
}
