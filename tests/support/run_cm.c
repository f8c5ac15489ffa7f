#include "tests/support/run_cm.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/graph/view.h"
#include "tests/support/random_graph.h"

enum kind { WANTS, MATCHES, BATCH, ACK, LEN_ROOT };

struct mail {
    struct mail *next;
    enum kind kind;
    uint32_t from; /* part, or IPS_CM_ROOT */
    uint64_t count;
    size_t len;
    uint8_t data[];
};
struct queue { /* from one to one */
    struct mail *head, **tail;
    uint32_t from, to;
    uint32_t listed; /* place in `busy` + 1 */
};
struct machine {
    struct ips_cm_links links;
    bool made, dirty, gone;
    struct ips_scenario lane;
    struct ips_view view;
    struct ips_cm_sync *sync;
    struct ips_cm_async *async;
};
struct cluster {
    const struct cm_options *opt;
    const struct ips_scenario *lane;
    uint64_t rng;
    uint32_t n;
    struct machine *m;
    struct queue *queue;        /* [n * (n + 1)]: row n is the root's */
    uint32_t *busy, busy_count; /* queues with mail */
    uint32_t *dirty, dirty_count;
    bool running;     /* the engines are made */
    uint32_t crossed; /* messages between slaves so far */
    uint64_t root_unacked;
    struct ips_cm_tally tally;
    uint32_t polled;
    bool over;
    struct cm_answer *out;
    struct ips_err *err;
};

static void *need(void *p)
{
    if (!p)
        abort();
    return p;
}

/* ---- the network --------------------------------------------------------- */

static void put(struct cluster *c, uint32_t from, uint32_t to, enum kind kind,
                uint64_t count, const uint8_t *data, size_t len)
{
    uint32_t row = from == IPS_CM_ROOT ? c->n : from;
    struct queue *q = &c->queue[(size_t)row * c->n + to];
    struct mail *m = need(malloc(sizeof(*m) + len));
    *m = (struct mail){.kind = kind, .from = from, .count = count, .len = len};
    if (len)
        memcpy(m->data, data, len);
    *q->tail = m;
    q->tail = &m->next;
    if (!q->listed) {
        c->busy[c->busy_count++] = (uint32_t)(q - c->queue);
        q->listed = c->busy_count;
    }
}

static struct mail *get(struct cluster *c, uint32_t which, uint32_t *to)
{
    struct queue *q = &c->queue[c->busy[which]];
    struct mail *m = q->head;
    *to = q->to;
    q->head = m->next;
    if (!q->head) {
        q->tail = &q->head;
        q->listed = 0;
        c->busy[which] = c->busy[--c->busy_count];
        if (which < c->busy_count)
            c->queue[c->busy[which]].listed = which + 1;
    }
    return m;
}

/* Between slaves: here faults happen. */
static void send(struct cluster *c, uint32_t from, uint32_t to, enum kind kind,
                 uint64_t count, const uint8_t *data, size_t len)
{
    bool hit = c->opt->fault && c->crossed++ == c->opt->fault_at;
    if (!hit) {
        put(c, from, to, kind, count, data, len);
        return;
    }
    uint8_t *copy = need(malloc(len + 1));
    memcpy(copy, data ? data : (const uint8_t *)"", len);
    c->out->fault_met = true;
    switch (c->opt->fault) {
    case CM_FAULT_CORRUPT:
        if (len)
            copy[rg_below(&c->rng, (uint32_t)len)] ^=
                (uint8_t)(1 + rg_below(&c->rng, 255));
        else
            count += 1 + rg_below(&c->rng, 9);
        put(c, from, to, kind, count, copy, len);
        break;
    case CM_FAULT_CUT:
        if (len == 0)
            c->out->fault_met = false;
        put(c, from, to, kind, count, copy,
            len ? rg_below(&c->rng, (uint32_t)len) : 0);
        break;
    case CM_FAULT_DUPLICATE:
        put(c, from, to, kind, count, copy, len);
        put(c, from, to, kind, count, copy, len);
        break;
    case CM_FAULT_STRAY: {
        uint32_t other = (from + 1) % c->n;
        put(c, other == to ? (other + 1) % c->n : other, to, kind, count, copy,
            len);
        break;
    }
    case CM_FAULT_LOSE:
        c->m[to].gone = true;
        break;
    case CM_FAULT_NONE:
    case CM_FAULT_DROP:
    case CM_FAULTS:
        break;
    }
    free(copy);
}

static void make_dirty(struct cluster *c, uint32_t m)
{
    if (!c->m[m].dirty)
        c->dirty[c->dirty_count++] = m;
    c->m[m].dirty = true;
}

/* ---- a slave ------------------------------------------------------------- */

static int deliver_links(struct cluster *c, const struct mail *mail,
                         uint32_t to, uint32_t p)
{
    struct machine *m = &c->m[to];
    c->out->match_bytes += mail->len;
    if (mail->kind == MATCHES)
        return ips_cm_read_matches_and_store_links(&m->links, p, mail->data,
                                                   mail->len, c->err);
    struct ips_cm_bytes matches = {0};
    int rc = ips_cm_read_awaited_and_write_matches(&m->links, p, mail->data,
                                                   mail->len, &matches, c->err);
    if (rc == 0)
        send(c, to, mail->from, MATCHES, 0, matches.data, matches.len);
    ips_cm_bytes_release(&matches);
    return rc;
}

static int deliver(struct cluster *c, const struct mail *mail, uint32_t to)
{
    struct machine *m = &c->m[to];
    uint32_t p = IPS_CM_ROOT;
    if (m->gone)
        return ips_err_set(c->err, IPS_E_UNREACHABLE, "machine %u is gone", to);
    if (mail->from != IPS_CM_ROOT) {
        p = ips_cm_find_peer_index_of_machine(&m->links, mail->from);
        if (p == IPS_CM_NONE)
            return ips_err_set(c->err, IPS_E_PROTOCOL,
                               "no channel joins machine %u to it", mail->from);
    }
    if (mail->kind == WANTS || mail->kind == MATCHES)
        return deliver_links(c, mail, to, p);
    if (!c->running)
        return ips_err_set(c->err, IPS_E_PROTOCOL, "values before the links");
    make_dirty(c, to);
    if (mail->kind == ACK)
        return ips_cm_async_receive_ack(m->async, p, mail->count, c->err);
    if (m->async)
        return ips_cm_async_store_values_and_owe_ack(m->async, p, mail->data,
                                                     mail->len, c->err);
    return ips_cm_sync_receive_batch(m->sync, p, mail->data, mail->len, c->err);
}

static int step(struct cluster *c, uint32_t at)
{
    struct machine *m = &c->m[at];
    struct ips_cm_message msg;
    int rc = m->async ? ips_cm_async_propagate_improved_values(m->async, c->err)
                      : ips_cm_sync_compute_ready_chains(m->sync, c->err);
    while (rc == 0) {
        rc = m->async ? ips_cm_async_make_next_message(m->async, &msg, c->err)
                      : ips_cm_sync_make_next_batch(m->sync, &msg, c->err);
        if (rc <= 0)
            break;
        rc = 0;
        if (msg.to == IPS_CM_ROOT) {
            c->out->root_messages++;
            if (msg.count > c->root_unacked)
                return ips_err_set(c->err, IPS_E_PROTOCOL, "too many acks");
            c->root_unacked -= msg.count;
        } else {
            send(c, at, m->links.peer[msg.to].machine,
                 msg.kind == IPS_CM_ACK ? ACK : BATCH, msg.count, msg.data,
                 msg.len);
        }
    }
    return rc;
}

/* ---- the root ------------------------------------------------------------ */

static int make_engines(struct cluster *c)
{
    uint64_t links = 0;
    int rc = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (!ips_cm_is_link_exchange_complete(&c->m[i].links))
            return ips_err_set(c->err, IPS_E_UNREACHABLE,
                               "machine %u was not told its links", i);
        links += ips_cm_count_incoming_links(&c->m[i].links);
        c->out->unmatched += ips_cm_count_unmatched_receives(&c->m[i].links);
    }
    c->out->links = links;
    c->running = true;
    for (uint32_t i = 0; i < c->n && rc == 0; i++) {
        struct machine *m = &c->m[i];
        m->lane = c->opt->lanes ? c->opt->lanes[i] : *c->lane;
        rc = ips_graph_make_view(m->links.g, &m->lane, &m->view, c->err);
        if (rc == 0 && c->opt->async)
            rc = ips_cm_async_new(&m->links, &m->view.g, &m->lane, links,
                                  c->opt->batch_values, &m->async, c->err);
        else if (rc == 0)
            rc = ips_cm_sync_new(&m->links, &m->view.g, &m->lane,
                                 c->opt->batch_values, &m->sync, c->err);
        if (rc == 0 && c->opt->async) {
            put(c, IPS_CM_ROOT, i, LEN_ROOT, 0, NULL, 0);
            c->root_unacked++;
            c->out->root_messages++;
        } else if (rc == 0) {
            make_dirty(c, i);
        }
    }
    ips_cm_tally_init(&c->tally, c->n);
    return rc;
}

/* One slave tells its counts, at rest. */
static int poll_one(struct cluster *c)
{
    const struct ips_cm_sync *s = c->m[c->polled].sync;
    if (c->m[c->polled].dirty)
        return 0;
    const struct ips_cm_counts *n = ips_cm_sync_counts(s);
    c->polled = (c->polled + 1) % c->n;
    c->out->root_messages++;
    enum ips_cm_state state = ips_cm_tally_add_report_and_get_state(
        &c->tally, n->batches, n->received,
        ips_cm_sync_count_unfinished_chains(s));
    if (state == IPS_CM_OVER)
        c->over = true;
    if (state != IPS_CM_STALLED)
        return 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (ips_cm_sync_count_unfinished_chains(c->m[i].sync))
            return ips_cm_sync_stall_error(c->m[i].sync, c->err);
    }
    return ips_err_set(c->err, IPS_E_CORRUPT, "stalled, and nothing is");
}

/* Nothing is on its way and nobody has work. */
static int at_rest(struct cluster *c)
{
    int rc = 0;
    for (uint32_t i = 0; !c->opt->async && rc == 0 && i < 4 * c->n && !c->over;
         i++)
        rc = poll_one(c);
    if (rc == 0 && !c->over)
        rc = ips_err_set(c->err, IPS_E_UNREACHABLE, "a message was lost");
    return rc;
}

static int turn_by_chance(struct cluster *c)
{
    uint32_t n = c->busy_count + c->dirty_count, to;
    uint32_t which = rg_below(&c->rng, n);
    if (c->running && !c->opt->async && rg_below(&c->rng, 8) == 0) {
        int rc = poll_one(c);
        if (rc < 0 || c->over)
            return rc;
    }
    if (which >= c->busy_count) {
        which -= c->busy_count;
        uint32_t at = c->dirty[which];
        c->dirty[which] = c->dirty[--c->dirty_count];
        c->m[at].dirty = false;
        return step(c, at);
    }
    struct mail *mail = get(c, which, &to);
    int rc = deliver(c, mail, to);
    c->out->rounds++;
    free(mail);
    return rc;
}

static int turn_round(struct cluster *c)
{
    int rc = 0;
    c->out->rounds += c->dirty_count > 0;
    for (uint32_t i = 0; i < c->dirty_count && rc == 0; i++) {
        c->m[c->dirty[i]].dirty = false;
        rc = step(c, c->dirty[i]);
    }
    c->dirty_count = 0;
    while (c->busy_count && rc == 0) {
        uint32_t to;
        struct mail *mail = get(c, c->busy_count - 1, &to);
        rc = deliver(c, mail, to);
        free(mail);
    }
    return rc;
}

static int turns(struct cluster *c)
{
    int rc = 0;
    while (rc == 0 && !c->over && (c->busy_count || c->dirty_count)) {
        rc = c->opt->lockstep ? turn_round(c) : turn_by_chance(c);
        if (c->running && c->opt->async && c->root_unacked == 0)
            c->over = true;
    }
    return rc;
}

/* ---- the answer ---------------------------------------------------------- */

static void add_counts(struct ips_cm_counts *to, const struct ips_cm_counts *n)
{
    to->values += n->values;
    to->batches += n->batches;
    to->received += n->received;
    to->acks += n->acks;
    to->bytes += n->bytes;
    to->passes += n->passes;
    to->computed += n->computed;
}

static int finish(struct cluster *c)
{
    struct cm_answer *a = c->out;
    int rc = 0;
    if (c->busy_count)
        return ips_err_set(c->err, IPS_E_CORRUPT, "over with mail on its way");
    for (uint32_t i = 0; i < c->n && rc == 0; i++) {
        struct machine *m = &c->m[i];
        add_counts(&a->counts, m->async ? ips_cm_async_get_counters(m->async)
                                        : ips_cm_sync_counts(m->sync));
        rc = m->async
                 ? ips_cm_async_recompute_and_check_result(m->async, &a->est[i],
                                                           c->err)
                 : ips_cm_sync_move_result_out(m->sync, &a->est[i], c->err);
        if (rc < 0)
            break;
        const struct ips_est *e = &a->est[i];
        a->total += e->total;
        if (e->end != IPS_NO_NODE &&
            (a->end == IPS_NO_NODE || e->t_max > a->t_max)) {
            a->t_max = e->t_max;
            a->end = a->node_base[i] + e->end;
        }
    }
    return rc;
}

/* Pieces come last first; each piece from its beginning. */
static int walk(struct cluster *c)
{
    struct cm_answer *a = c->out;
    struct ips_path *piece = need(calloc(1, sizeof(*piece)));
    struct ips_path all = {0};
    uint32_t part = c->n - 1, node, stop, pieces = 0;
    int rc = 0;
    if (a->end == IPS_NO_NODE) {
        free(piece);
        return 0;
    }
    while (a->node_base[part] > a->end || c->m[part].links.g->node_count == 0)
        part--;
    node = a->end - a->node_base[part];
    struct ips_path_segment cross = {0};
    bool crossed = false;
    for (;;) {
        const struct ips_graph *g = &c->m[part].view.g;
        piece = need(realloc(piece, (pieces + 1) * sizeof(*piece)));
        rc = ips_path_walk_back_and_store(g, c->lane, &a->est[part], node,
                                          &piece[pieces], &stop, c->err);
        if (rc < 0)
            break;
        struct ips_path *p = &piece[pieces++];
        for (uint64_t k = 0; k < p->count; k++) {
            if (p->seg[k].from != IPS_NO_NODE)
                p->seg[k].from += a->node_base[part];
            p->seg[k].to += a->node_base[part];
            p->seg[k].chain += a->chain_base[part];
        }
        if (crossed)
            rc = ips_path_append_or_merge_segment(p, &cross, c->err);
        if (rc < 0 || stop == IPS_NO_NODE)
            break;
        struct ips_cm_sender hop;
        rc = ips_cm_find_peer_and_link_of_node(&c->m[part].links, stop, &hop,
                                               c->err);
        if (rc < 0)
            break;
        uint32_t to = part, chain = 0;
        while (g->chains[chain].first + g->chains[chain].count <= stop)
            chain++;
        uint64_t est = a->est[part].est[stop];
        uint32_t me = part;
        part = c->m[me].links.peer[hop.peer].machine;
        const struct ips_cm_links *l = &c->m[part].links;
        node = l->peer[ips_cm_find_peer_index_of_machine(l, me)]
                   .out_node[hop.link];
        cross = (struct ips_path_segment){.kind = IPS_SEG_MESSAGE,
                                          .xkind = g->xkind[stop],
                                          .chain = chain + a->chain_base[to],
                                          .from = node + a->node_base[part],
                                          .to = stop + a->node_base[to],
                                          .ns = est - a->est[part].est[node]};
        crossed = true;
        a->hops++;
    }
    for (uint32_t i = pieces; i-- > 0;) {
        for (uint64_t k = 0; k < piece[i].count && rc == 0; k++)
            rc = ips_path_append_or_merge_segment(&all, &piece[i].seg[k],
                                                  c->err);
        ips_path_release(&piece[i]);
    }
    free(piece);
    a->path = all;
    return rc;
}

static int begin(struct cluster *c, const struct ips_machine_graph *parts)
{
    int rc = 0;
    uint32_t nodes = 0, chains = 0;
    for (uint32_t i = 0; i < c->n && rc == 0; i++) {
        c->out->node_base[i] = nodes;
        c->out->chain_base[i] = chains;
        nodes += parts[i].g->node_count;
        chains += parts[i].g->chain_count;
        rc = ips_cm_links_init(&c->m[i].links, parts[i].g, i, c->n,
                               parts[i].peer, parts[i].end_count, c->err);
        c->m[i].made = rc == 0;
    }
    c->out->node_base[c->n] = nodes;
    for (uint32_t i = 0; i < c->n && rc == 0; i++) {
        const struct ips_cm_links *l = &c->m[i].links;
        for (uint32_t p = 0; p < l->peer_count && rc == 0; p++) {
            struct ips_cm_bytes wants = {0};
            rc = ips_cm_write_awaited_positions(l, p, &wants, c->err);
            if (rc == 0)
                send(c, i, l->peer[p].machine, WANTS, 0, wants.data, wants.len);
            ips_cm_bytes_release(&wants);
        }
    }
    return rc;
}

static void release(struct cluster *c)
{
    while (c->busy_count) {
        uint32_t to;
        free(get(c, c->busy_count - 1, &to));
    }
    for (uint32_t i = 0; i < c->n; i++) {
        ips_cm_sync_free(c->m[i].sync);
        ips_cm_async_free(c->m[i].async);
        ips_view_release(&c->m[i].view);
        if (c->m[i].made)
            ips_cm_links_release(&c->m[i].links);
    }
    free(c->m);
    free(c->queue);
    free(c->busy);
    free(c->dirty);
}

int cm_cluster_run(const struct ips_machine_graph *parts, uint32_t count,
                   const struct ips_scenario *lane,
                   const struct cm_options *opt, struct cm_answer *out,
                   struct ips_err *err)
{
    size_t pairs = (size_t)count * (count + 1);
    struct cluster c = {.opt = opt,
                        .lane = lane,
                        .rng = opt->seed * 3 + 1,
                        .n = count,
                        .out = out,
                        .err = err};
    memset(out, 0, sizeof(*out));
    out->parts = count;
    out->end = IPS_NO_NODE;
    out->est = need(calloc(count + 1, sizeof(*out->est)));
    out->node_base = need(calloc(count + 1, sizeof(*out->node_base)));
    out->chain_base = need(calloc(count + 1, sizeof(*out->chain_base)));
    c.m = need(calloc(count + 1, sizeof(*c.m)));
    c.queue = need(calloc(pairs + 1, sizeof(*c.queue)));
    c.busy = need(calloc(pairs + 1, sizeof(*c.busy)));
    c.dirty = need(calloc(count + 1, sizeof(*c.dirty)));
    for (size_t i = 0; i < pairs; i++) {
        c.queue[i].tail = &c.queue[i].head;
        c.queue[i].from = (uint32_t)(i / count);
        c.queue[i].to = (uint32_t)(i % count);
    }
    int rc = begin(&c, parts);
    if (rc == 0)
        rc = turns(&c);
    if (rc == 0)
        rc = make_engines(&c);
    if (rc == 0)
        rc = turns(&c);
    if (rc == 0 && !c.over)
        rc = at_rest(&c);
    if (rc == 0)
        rc = finish(&c);
    if (rc == 0)
        rc = walk(&c);
    release(&c);
    bool met = out->fault_met;
    if (rc < 0)
        cm_answer_release(out);
    out->fault_met = met;
    return rc;
}

void cm_answer_release(struct cm_answer *a)
{
    for (uint32_t i = 0; i < a->parts; i++)
        ips_est_release(&a->est[i]);
    free(a->est);
    free(a->node_base);
    free(a->chain_base);
    ips_path_release(&a->path);
    memset(a, 0, sizeof(*a));
}

/* ---- against the kernel -------------------------------------------------- */

static const char *compare_values(const struct cm_answer *a,
                                  const struct ips_est *e)
{
    for (uint32_t p = 0; p < a->parts; p++) {
        uint32_t base = a->node_base[p], n = a->node_base[p + 1] - base;
        if (n == 0)
            continue;
        if (memcmp(a->est[p].est, e->est + base, n * sizeof(*e->est)) != 0)
            return "an EST";
        if (memcmp(a->est[p].crossed, e->crossed + base, n) != 0)
            return "a won bit";
    }
    return NULL;
}

static const char *compare_path(const struct cm_answer *a,
                                const struct ips_path *p)
{
    uint64_t sum = 0;
    if (a->path.count != p->count)
        return "the number of pieces of the path";
    for (uint64_t k = 0; k < p->count; k++) {
        const struct ips_path_segment *x = &a->path.seg[k], *y = &p->seg[k];
        if (x->kind != y->kind || x->xkind != y->xkind || x->from != y->from ||
            x->to != y->to || x->ns != y->ns || x->chain != y->chain)
            return "a piece of the path";
        sum += x->ns;
    }
    return sum == a->t_max ? NULL : "the sum of the path";
}

const char *cm_answer_differs(const struct cm_answer *a,
                              const struct ips_graph *merged,
                              const struct ips_scenario *lane,
                              uint64_t unmatched)
{
    struct ips_est e;
    struct ips_path path = {0};
    uint32_t stop;
    const char *what = NULL;
    if (ips_longest_path_compute_ests(merged, lane, NULL, &e, NULL) < 0)
        return "the kernel gives no answer";
    if (e.end != IPS_NO_NODE &&
        ips_path_walk_back_and_store(merged, lane, &e, e.end, &path, &stop,
                                     NULL) < 0)
        what = "the kernel gives no path";
    if (!what && (a->t_max != e.t_max || a->end != e.end))
        what = "t_max or its END";
    if (!what && a->total != e.total)
        what = "the total";
    if (!what && a->unmatched != unmatched)
        what = "what is unmatched";
    if (!what)
        what = compare_values(a, &e);
    if (!what)
        what = compare_path(a, &path);
    ips_path_release(&path);
    ips_est_release(&e);
    return what;
}
