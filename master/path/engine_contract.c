/*
 * The contracting engine. A scenario takes four steps:
 *  - ReduceAsk: every slave sends its joins (analysis/distributed/joins.h).
 *  - solve: the worker solves all joins together; the result is the path as a
 *    list of visits to machines.
 *  - FinishAsk: every slave gets the values of its remote receives and returns
 *    its latest END. The maximum over all slaves must be t_max.
 *  - ExpandAsk: every slave sends the pieces of the path that are on its
 *    machine. Their lengths must be those that the joins gave.
 * So the master stores neither the nodes nor the names of objects inside a
 * machine.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/graph/varint.h"
#include "common/large.h"
#include "master/path/weighting.h"

/* maximum size of the values in one FinishAsk, in bytes */
#define VALUES_BYTES ((size_t)1 << 20)

static void fetch_joins_of_scenario(struct query *q, enum scenario_id id);

static void start_next_scenario_or_answer(struct query *q)
{
    struct path_data *d = path_data_of(q);
    if (d->now == SCENARIO_MAIN)
        engine_mark_or_count_traffic(q, false);
    if (d->err.code) {
        engine_exclude_blamed_machine_or_fail(q);
        return;
    }
    engine_release_graphs(q);
    enum scenario_id next = engine_find_next_wanted_scenario(d, d->now);
    if (next != SCENARIOS) {
        fetch_joins_of_scenario(q, next);
        return;
    }
    engine_release_path_piece_buffers(q);
    path_start_answer(q);
}

static bool assemble_path(struct query *q);
static bool add_messages_and_check_sums(struct query *q);

/* Returns true if the slaves are asked only for sums of the pieces: only the
 * pieces of the main scenario are shown to the user. */
static bool wants_only_sums(const struct path_data *d)
{
    return d->now != SCENARIO_MAIN;
}

static void assemble_path_and_finish_scenario(struct query *q)
{
    struct path_data *d = path_data_of(q);
    if (d->visit_count == 0 ||
        (wants_only_sums(d) ? add_messages_and_check_sums(q)
                            : assemble_path(q)))
        (void)engine_finish_shares_and_pieces(
            d); /* on failure the reason is in d->err */
}

/* To be called when all data for the path of this scenario was received: lets
 * the worker assemble the path and sum its shares. */
static void submit_scenario_assembly(struct query *q)
{
    struct ips_err err = {0};
    if (query_submit_work(q, assemble_path_and_finish_scenario,
                          start_next_scenario_or_answer, &err) < 0)
        query_fail(q, &err);
}

/* ---- assembling the path from pieces ------------------------------------- */

static bool is_expansion_valid(const struct machine_share *p,
                               const Ips__ExpandAnswer *a, bool sums)
{
    size_t n = a->n_kind, pairs = a->n_pair_from;
    size_t pieces = sums ? 0 : n, summed = sums ? n : 0;
    uint64_t nodes = p->sync->nodes;
    if (a->n_xkind != n || a->n_chain != n || a->n_ns != n ||
        a->n_from != pieces || a->n_to != pieces || a->n_part != pieces ||
        a->n_before != summed || a->n_count != summed ||
        a->n_pair_from_chain != pairs || a->n_pair_to != pairs ||
        a->n_pair_to_chain != pairs)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (a->kind[i] > IPS_SEG_EXTERNAL || a->xkind[i] > IPS_X_LAST ||
            a->chain[i] >= p->t.thread_count)
            return false;
        if (sums ? a->before[i] >= p->t.thread_count
                 : a->to[i] >= nodes ||
                       (a->from[i] >= nodes && a->from[i] != IPS_NO_NODE))
            return false;
    }
    for (size_t i = 0; i < pairs; i++) {
        if (a->pair_from_chain[i] >= p->t.thread_count ||
            a->pair_to_chain[i] >= p->t.thread_count)
            return false;
    }
    return true;
}

static struct path_thread thread_of_chain(const struct machine_share *p,
                                          uint32_t chain)
{
    const Ips__ThreadRow *t = p->t.threads[chain];
    return (struct path_thread){
        .machine = p->number, .process = t->process, .tid = t->tid};
}

static int store_visit_pieces(struct machine_share *p,
                              const Ips__ExpandAnswer *a, struct ips_err *err)
{
    struct engine_reported_pieces *told = &engine_data_of_machine(p)->reported;
    uint64_t base = engine_data_of_machine(p)->base,
             need = told->piece_count + a->n_ns;
    if (need > p->sync->nodes * 2 + 2)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "its pieces of the path are more than its graph's");
    if (need > told->cap) {
        uint64_t cap = need + told->cap;
        void *more = realloc(told->piece, cap * sizeof(*told->piece));
        if (!more)
            return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for the path");
        told->piece = more;
        told->cap = cap;
    }
    for (size_t i = 0; i < a->n_ns; i++) {
        if (a->part[i] >= told->pair_count)
            return ips_err_set(err, IPS_E_PROTOCOL,
                               "a piece of a visit that it did not tell");
        struct engine_visit_pieces *pair = &told->pair[a->part[i]];
        if (pair->pieces == 0)
            pair->piece = told->piece_count;
        if (pair->piece + pair->pieces++ != told->piece_count)
            return ips_err_set(err, IPS_E_PROTOCOL,
                               "its pieces of the path are not in order");
        told->piece[told->piece_count++] = (struct path_piece){
            .kind = (uint8_t)a->kind[i],
            .xkind = (uint8_t)a->xkind[i],
            .at = thread_of_chain(p, a->chain[i]),
            .from = a->from[i] == IPS_NO_NODE ? IPS_NO_NODE
                                              : (uint32_t)(base + a->from[i]),
            .to = (uint32_t)(base + a->to[i]),
            .ns = a->ns[i]};
    }
    return 0;
}

static int add_sums_to_shares(struct path_data *d, struct machine_share *p,
                              const Ips__ExpandAnswer *a, struct ips_err *err)
{
    uint64_t *sum_ns = &engine_data_of_machine(p)->reported.sum_ns;
    int rc = 0;
    for (size_t i = 0; i < a->n_ns && rc == 0; i++) {
        const struct path_piece piece = {.kind = (uint8_t)a->kind[i],
                                         .xkind = (uint8_t)a->xkind[i],
                                         .at = thread_of_chain(p, a->chain[i]),
                                         .ns = a->ns[i]};
        rc = shares_add_pieces(&d->scenarios[d->now].shares, &piece,
                               thread_of_chain(p, a->before[i]), a->count[i],
                               err);
        *sum_ns = ips_add_sat(*sum_ns, a->ns[i]);
    }
    return rc;
}

static int store_visits_and_pieces_of_reply(struct query *q,
                                            struct machine_share *p,
                                            const Ips__Reply *reply,
                                            struct ips_err *err)
{
    struct engine_reported_pieces *told = &engine_data_of_machine(p)->reported;
    struct path_data *d = path_data_of(q);
    bool sums = wants_only_sums(d);
    if (reply->answer_case != IPS__REPLY__ANSWER_EXPAND ||
        !is_expansion_valid(p, reply->expand, sums))
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to ExpandAsk");
    const Ips__ExpandAnswer *a = reply->expand;
    if (a->n_pair_from > told->pairs - told->pair_count ||
        (reply->last && a->n_pair_from != told->pairs - told->pair_count))
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "it sent other visits than were asked for");
    for (size_t i = 0; i < a->n_pair_from; i++)
        told->pair[told->pair_count++] =
            (struct engine_visit_pieces){.from = a->pair_from[i],
                                         .from_chain = a->pair_from_chain[i],
                                         .to = a->pair_to[i],
                                         .to_chain = a->pair_to_chain[i]};
    return sums ? add_sums_to_shares(d, p, a, err)
                : store_visit_pieces(p, a, err);
}

/* Returns the piece for the message between two machines that leads from the
 * end of the previous visit (`before`) to `visit`. */
static struct path_piece
make_message_piece(struct query *q, const struct ips_path_section *visit,
                   const struct engine_visit_pieces *pair,
                   const struct engine_visit_pieces *before)
{
    const struct machine_share *p = q->gather.active[visit->machine];
    const struct machine_share *from = q->gather.active[visit[-1].machine];
    return (struct path_piece){
        .kind = IPS_SEG_MESSAGE,
        .xkind = visit->xkind,
        .at = thread_of_chain(p, pair->from_chain),
        .from = (uint32_t)(engine_data_of_machine(from)->base + before->to),
        .to = (uint32_t)(engine_data_of_machine(p)->base + pair->from),
        .ns = visit->from_ns - visit[-1].to_ns};
}

/* Appends the pieces of one visit, as reported by its slave, and checks that
 * they have the ns and the end that the joins gave. */
static bool push_and_check_visit_pieces(struct query *q,
                                        const struct ips_path_section *visit,
                                        const struct engine_visit_pieces *pair)
{
    struct path_data *d = path_data_of(q);
    struct machine_share *p = q->gather.active[visit->machine];
    const struct engine_reported_pieces *told =
        &engine_data_of_machine(p)->reported;
    uint64_t base = engine_data_of_machine(p)->base, sum = 0;
    uint64_t end =
        visit->in == IPS_NO_NODE ? IPS_UNMEASURED : pair->from + base;
    for (uint64_t i = 0; i < pair->pieces; i++) {
        const struct path_piece *piece = &told->piece[pair->piece + i];
        sum = ips_add_sat(sum, piece->ns);
        end = piece->to;
        if (!engine_append_or_merge_piece(d, piece->at, piece))
            return false;
    }
    bool there = visit->out != IPS_NO_NODE || pair->to == d->joined.end_node;
    if (sum == visit->to_ns - visit->from_ns && there &&
        (end == base + pair->to || end == IPS_UNMEASURED))
        return true;
    ips_err_set(&d->err, IPS_E_PROTOCOL,
                "its piece of the path has %" PRIu64 " ns, not %" PRIu64, sum,
                visit->to_ns - visit->from_ns);
    d->blame = p;
    return false;
}

/* In the worker: assembles the path in d->work, from the pieces of all visits
 * and the messages between them. */
static bool assemble_path(struct query *q)
{
    struct path_data *d = path_data_of(q);
    const struct engine_visit_pieces *before = NULL;
    for (uint64_t i = 0; i < d->visit_count; i++) {
        const struct ips_path_section *visit = &d->visit[i];
        struct engine_reported_pieces *told =
            &engine_data_of_machine(q->gather.active[visit->machine])->reported;
        const struct engine_visit_pieces *pair = &told->pair[told->next++];
        if (before) {
            struct path_piece message =
                make_message_piece(q, visit, pair, before);
            const struct machine_share *from =
                q->gather.active[visit[-1].machine];
            if (!engine_append_or_merge_piece(
                    d, thread_of_chain(from, before->to_chain), &message))
                return false;
        }
        if (!push_and_check_visit_pieces(q, visit, pair))
            return false;
        before = pair;
    }
    return true;
}

/* Adds the message from the previous visit to `visit` to the shares. */
static bool add_message_to_shares(struct query *q,
                                  const struct ips_path_section *visit,
                                  const struct engine_visit_pieces *pair,
                                  const struct engine_visit_pieces *before)
{
    struct path_data *d = path_data_of(q);
    const struct path_piece message =
        make_message_piece(q, visit, pair, before);
    const struct machine_share *from = q->gather.active[visit[-1].machine];
    return shares_add_pieces(&d->scenarios[d->now].shares, &message,
                             thread_of_chain(from, before->to_chain), 1,
                             &d->err) == 0;
}

/* In the worker: the slaves reported sums of their pieces. Adds the messages
 * between machines and checks each slave's sum. */
static bool add_messages_and_check_sums(struct query *q)
{
    struct path_data *d = path_data_of(q);
    const struct engine_visit_pieces *before = NULL;
    uint64_t *left = calloc((size_t)q->gather.count + 1, sizeof(*left));
    bool fine = left != NULL;
    if (!left)
        ips_err_set(&d->err, IPS_E_NO_MEMORY, "no memory for the path");
    for (uint32_t i = 0; i < q->gather.count && fine; i++)
        left[i] = engine_data_of_machine(q->gather.active[i])->reported.sum_ns;
    for (uint64_t i = 0; i < d->visit_count && fine; i++) {
        const struct ips_path_section *visit = &d->visit[i];
        struct engine_reported_pieces *told =
            &engine_data_of_machine(q->gather.active[visit->machine])->reported;
        const struct engine_visit_pieces *pair = &told->pair[told->next++];
        fine = !before || add_message_to_shares(q, visit, pair, before);
        left[visit->machine] -= visit->to_ns - visit->from_ns;
        before = pair;
    }
    for (uint32_t i = 0; i < q->gather.count && fine; i++)
        if (left[i] != 0) {
            ips_err_set(&d->err, IPS_E_PROTOCOL,
                        "its pieces of the path do not have the ns that they "
                        "should have");
            d->blame = q->gather.active[i];
            fine = false;
        }
    free(left);
    return fine;
}

/* ---- requests for the pieces ------------------------------------------ */

/* The four columns of one ExpandAsk; each row is a visit of the path to the
 * machine. */
struct expand_columns {
    uint32_t *from, *to, *in, *out;
    size_t n;
};

static void send_expand_columns(struct query *q, struct machine_share *p,
                                struct expand_columns *c, bool first, bool more)
{
    Ips__ExpandAsk ask = IPS__EXPAND_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    ask.generation = p->sync->generation;
    ask.n_from = ask.n_to = ask.n_in = ask.n_out = c->n;
    ask.from = c->from;
    ask.to = c->to;
    ask.in = c->in;
    ask.out = c->out;
    ask.more = more;
    ask.sums = wants_only_sums(path_data_of(q));
    request.ask_case = IPS__REQUEST__ASK_EXPAND;
    request.expand = &ask;
    query_send_request_to_slave(q, p, &request, first);
    c->n = 0;
}

static void send_expand_requests(struct query *q, struct machine_share *p,
                                 struct expand_columns *c)
{
    const struct path_data *d = path_data_of(q);
    uint64_t left = engine_data_of_machine(p)->reported.pairs;
    bool first = true;
    for (uint64_t i = 0; left > 0; i++) {
        const struct ips_path_section *v = &d->visit[i];
        if (v->machine != p->number)
            continue;
        bool begins = v->in == IPS_NO_NODE, ends = v->out == IPS_NO_NODE;
        c->from[c->n] = begins ? IPS_NO_NODE : 0;
        c->in[c->n] = begins ? 0 : v->in + 1;
        c->to[c->n] = ends ? d->joined.end_node : 0;
        c->out[c->n++] = ends ? 0 : v->out + 1;
        if (--left == 0 || c->n == IPS_PIECE_ITEMS) {
            send_expand_columns(q, p, c, first, left > 0);
            first = false;
        }
    }
}

static int allocate_visit_pieces_of_machines(struct query *q,
                                             struct ips_err *err)
{
    struct path_data *d = path_data_of(q);
    for (uint64_t i = 0; i < d->visit_count; i++)
        engine_data_of_machine(q->gather.active[d->visit[i].machine])
            ->reported.pairs++;
    for (uint32_t i = 0; i < q->gather.count; i++) {
        struct engine_reported_pieces *told =
            &engine_data_of_machine(q->gather.active[i])->reported;
        told->pair = calloc(told->pairs + 1, sizeof(*told->pair));
        if (!told->pair)
            return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for the path");
    }
    return 0;
}

static void start_expand_round(struct query *q)
{
    struct path_data *d = path_data_of(q);
    struct ips_err err = {0};
    uint32_t *all = malloc(4 * IPS_PIECE_ITEMS * sizeof(*all));
    struct expand_columns c = {.from = all};
    int rc = all ? allocate_visit_pieces_of_machines(q, &err)
                 : ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
    if (rc < 0) {
        free(all);
        query_fail(q, &err);
        return;
    }
    c.to = all + IPS_PIECE_ITEMS;
    c.in = c.to + IPS_PIECE_ITEMS;
    c.out = c.in + IPS_PIECE_ITEMS;
    d->cost.rounds += d->now == SCENARIO_MAIN;
    query_open_round(q, store_visits_and_pieces_of_reply,
                     submit_scenario_assembly);
    for (uint32_t i = 0; i < q->gather.count; i++)
        send_expand_requests(q, q->gather.active[i], &c);
    free(all);
    query_close_round(q);
}

/* ---- sending values to the slaves ------------------------------------- */

static int store_t_max_of_finish_reply(struct query *q, struct machine_share *p,
                                       const Ips__Reply *reply,
                                       struct ips_err *err)
{
    (void)q;
    if (reply->answer_case != IPS__REPLY__ANSWER_FINISH)
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to FinishAsk");
    engine_data_of_machine(p)->finished_t_max = reply->finish->t_max_ns;
    return 0;
}

static void check_t_max_and_request_pieces(struct query *q)
{
    struct path_data *d = path_data_of(q);
    uint64_t greatest = 0;
    for (uint32_t i = 0; i < q->gather.count; i++)
        greatest = ips_max_u64(
            greatest,
            engine_data_of_machine(q->gather.active[i])->finished_t_max);
    if (greatest != d->scenarios[d->now].t_max) {
        ips_err_set(&d->err, IPS_E_CORRUPT,
                    "the slaves' longest path has %" PRIu64
                    " ns, the master's %" PRIu64
                    ": a bug in IPS, so no answer is given",
                    greatest, d->scenarios[d->now].t_max);
        engine_exclude_blamed_machine_or_fail(q);
        return;
    }
    start_expand_round(q);
}

static int send_remote_values_to_slave(struct query *q, struct machine_share *p,
                                       struct ips_err *err)
{
    struct path_data *d = path_data_of(q);
    uint32_t total =
                 ips_joined_count_receives_of_machine(&d->joined, p->number),
             done = 0;
    uint64_t last = 0;
    uint8_t *bytes = malloc(VALUES_BYTES);
    Ips__Lane scenario;
    bool first = true;
    if (!bytes)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    weighting_write_scenario(q, p, &d->scenarios[d->now].scenario, &scenario);
    do {
        Ips__FinishAsk ask = IPS__FINISH_ASK__INIT;
        Ips__Request request = IPS__REQUEST__INIT;
        ask.generation = p->sync->generation;
        ask.lane = &scenario;
        ask.values.data = bytes;
        ask.values.len = ips_joined_encode_receive_values(
            &d->joined, p->number, &done, &last, bytes, VALUES_BYTES);
        ask.value_count = total;
        ask.more = done < total;
        request.ask_case = IPS__REQUEST__ASK_FINISH;
        request.finish = &ask;
        query_send_request_to_slave(q, p, &request, first);
        first = false;
    } while (done < total);
    free(bytes);
    return 0;
}

static void send_solved_values_or_assemble_scenario(struct query *q)
{
    struct path_data *d = path_data_of(q);
    struct ips_err err = {0};
    int rc = 0;
    if (d->err.code) {
        engine_exclude_blamed_machine_or_fail(q);
        return;
    }
    if (!d->scenarios[d->now].with_shares) {
        submit_scenario_assembly(q);
        return;
    }
    query_open_round(q, store_t_max_of_finish_reply,
                     check_t_max_and_request_pieces);
    for (uint32_t i = 0; i < q->gather.count && rc == 0; i++) {
        if (d->now == SCENARIO_MAIN)
            d->cost.values +=
                ips_joined_count_receives_of_machine(&d->joined, i);
        rc = send_remote_values_to_slave(q, q->gather.active[i], &err);
    }
    if (rc < 0)
        query_fail(q, &err);
    else
        query_close_round(q);
}

/* ---- solving the joins, in the worker ----------------------------------- */

static void solve_scenario_joins(struct query *q)
{
    struct path_data *d = path_data_of(q);
    struct scenario_result *r = &d->scenarios[d->now];
    struct ips_machine_joins *parts = engine_list_received_joins(q);
    uint32_t blame, n = q->gather.count;
    if (!parts)
        return;
    int rc = ips_joined_decode_and_solve(parts, n, &r->scenario, &d->joined,
                                         &blame, &d->err);
    free(parts);
    for (uint32_t i = 0; i < n; i++) {
        struct engine_joins_buffer *b =
            &engine_data_of_machine(q->gather.active[i])->joins;
        ips_free_large(b->data);
        *b = (struct engine_joins_buffer){0};
    }
    if (rc < 0) {
        d->blame = blame < n ? q->gather.active[blame] : NULL;
        return;
    }
    r->t_max = d->joined.t_max;
    d->unmatched = d->joined.unmatched;
    if (d->now == SCENARIO_MAIN)
        d->total_cpu_ns = d->joined.total;
    if (d->joined.end_machine == IPS_NO_NODE)
        ips_err_set(&d->err, IPS_E_INCOMPLETE,
                    "no thread of this run has ended yet: nothing to show");
    else if (r->with_shares &&
             ips_joined_list_path_sections(&d->joined, &d->visit,
                                           &d->visit_count, &d->err) < 0)
        return;
}

static void submit_solving_joins_to_worker(struct query *q)
{
    struct ips_err err = {0};
    if (query_submit_work(q, solve_scenario_joins,
                          send_solved_values_or_assemble_scenario, &err) < 0)
        query_fail(q, &err);
}

static void fetch_joins_of_scenario(struct query *q, enum scenario_id id)
{
    struct path_data *d = path_data_of(q);
    d->now = id;
    d->work_count = 0;
    engine_fetch_joins(q, &d->scenarios[id].scenario, false,
                       submit_solving_joins_to_worker);
}

void engine_start_contraction(struct query *q)
{
    engine_mark_or_count_traffic(q, true);
    path_data_of(q)->cost.rounds = 2;
    fetch_joins_of_scenario(q, SCENARIO_MAIN);
}
