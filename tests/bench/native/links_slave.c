/* One slave of bench_links: answers the master until it says BYE. */
#include "tests/bench/native/links.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct slave {
    struct links_net *n;
    const struct synth *s;
    const struct ips_graph *g;
    uint32_t self;
    struct ips_err err;
    struct ips_est est;
    /* cm */
    struct ips_cm_links links;
    struct ips_cm_sync *sync;
    struct ips_cm_async *async;
    bool opened, dirty;
    struct links_told told;
    struct early { /* of slaves that began before we were told to */
        struct early *next;
        uint32_t from;
        enum links_kind kind;
        uint64_t a;
        size_t len;
        uint8_t data[];
    } * early, **early_end;
};

static void must(struct slave *v, int rc)
{
    if (rc < 0)
        links_die(v->err.msg);
}

static void tell(struct slave *v, enum links_kind kind, uint64_t a,
                 const void *data, size_t len)
{
    links_send(v->n, v->n->count - 1, kind, a, data, len);
}

/* ---- contract ------------------------------------------------------------ */

static void reduce(struct slave *v)
{
    struct ips_joins j;
    must(v, ips_joins_compute_and_encode(v->g, &links_lane, &j, &v->err));
    tell(v, LINKS_PIECE, 0, j.head.data, j.head.len);
    tell(v, LINKS_PIECE, 1, j.arcs.data, j.arcs.len);
    ips_joins_release(&j);
}

static void values(struct slave *v, const struct links_frame *f)
{
    uint64_t *value;
    must(v, ips_joins_decode_receive_values(f->data, f->len, v->g->in_count,
                                            &value, &v->err));
    must(v, ips_longest_path_compute_ests(v->g, &links_lane, value, &v->est,
                                          &v->err));
    free(value);
    const struct links_done d = {.t_max = v->est.t_max};
    tell(v, LINKS_DONE, 0, &d, sizeof(d));
}

/* ---- paths --------------------------------------------------------------- */

static void tell_path(struct slave *v, const struct ips_path *p,
                      const struct links_walked *w)
{
    struct ips_cm_bytes b = {0};
    uint8_t *all;
    for (uint64_t i = 0; i < p->count; i++) {
        ips_cm_append_varint(&b,
                             (uint64_t)p->seg[i].kind << 4 | p->seg[i].xkind);
        ips_cm_append_varint(&b, p->seg[i].chain);
        ips_cm_append_varint(&b, p->seg[i].from);
        ips_cm_append_varint(&b, p->seg[i].to);
        ips_cm_append_varint(&b, p->seg[i].ns);
    }
    all = malloc(sizeof(*w) + b.len);
    if (!all || b.failed)
        links_die("memory");
    memcpy(all, w, sizeof(*w));
    if (b.len)
        memcpy(all + sizeof(*w), b.data, b.len);
    tell(v, LINKS_WALKED, p->count, all, sizeof(*w) + b.len);
    free(all);
    ips_cm_bytes_release(&b);
}

static void expand(struct slave *v, const struct links_frame *f)
{
    const struct links_walked w = {0};
    struct ips_cm_reader r = {f->data, f->data + f->len, false};
    struct ips_path all = {0};
    while (r.at < r.end) {
        uint64_t from = ips_cm_read_varint(&r), in = ips_cm_read_varint(&r);
        uint64_t to = ips_cm_read_varint(&r), out = ips_cm_read_varint(&r);
        struct ips_path p;
        if (in)
            from = v->g->in[in - 1].node;
        if (out)
            to = v->g->out[out - 1].node;
        must(v,
             ips_path_find_between(v->g, &links_lane, &v->est, (uint32_t)from,
                                   (uint32_t)to, &p, &v->err));
        for (uint64_t i = 0; i < p.count; i++)
            must(v, ips_path_append_or_merge_segment(&all, &p.seg[i], &v->err));
        ips_path_release(&p);
    }
    tell_path(v, &all, &w);
    ips_path_release(&all);
}

static void walk(struct slave *v, const struct links_frame *f)
{
    uint32_t node = (uint32_t)f->a, stop;
    struct ips_path p;
    if (f->len) {
        uint32_t peer =
            ips_cm_find_peer_index_of_machine(&v->links, f->data[0]);
        node = v->links.peer[peer].out_node[f->a];
    }
    must(v, ips_path_walk_back_and_store(v->g, &links_lane, &v->est, node, &p,
                                         &stop, &v->err));
    struct links_walked w = {.est = v->est.est[node]};
    if (stop != IPS_NO_NODE) {
        struct ips_cm_sender hop;
        must(v,
             ips_cm_find_peer_and_link_of_node(&v->links, stop, &hop, &v->err));
        w.crosses = 1;
        w.part = v->links.peer[hop.peer].machine;
        w.link = hop.link;
    }
    tell_path(v, &p, &w);
    ips_path_release(&p);
}

/* ---- cm ------------------------------------------------------------------ */

static void open_links(struct slave *v)
{
    must(v, ips_cm_links_init(&v->links, v->g, v->self, v->s->slaves,
                              v->s->peer[v->self], v->s->end_count[v->self],
                              &v->err));
    for (uint32_t p = 0; p < v->links.peer_count; p++) {
        struct ips_cm_bytes b = {0};
        must(v, ips_cm_write_awaited_positions(&v->links, p, &b, &v->err));
        links_send(v->n, v->links.peer[p].machine, LINKS_WANTS, 0, b.data,
                   b.len);
        ips_cm_bytes_release(&b);
    }
}

static void take_list(struct slave *v, const struct links_frame *f)
{
    uint32_t p = ips_cm_find_peer_index_of_machine(&v->links, f->from);
    struct ips_cm_bytes b = {0};
    if (f->kind == LINKS_MATCHES) {
        must(v, ips_cm_read_matches_and_store_links(&v->links, p, f->data,
                                                    f->len, &v->err));
    } else {
        must(v, ips_cm_read_awaited_and_write_matches(&v->links, p, f->data,
                                                      f->len, &b, &v->err));
        links_send(v->n, f->from, LINKS_MATCHES, 0, b.data, b.len);
    }
    ips_cm_bytes_release(&b);
}

static void take_peer(struct slave *v, const struct links_frame *f)
{
    uint32_t p = ips_cm_find_peer_index_of_machine(&v->links, f->from);
    v->dirty = true;
    if (f->kind == LINKS_ACK)
        must(v, ips_cm_async_receive_ack(v->async, p, f->a, &v->err));
    else if (v->async)
        must(v, ips_cm_async_store_values_and_owe_ack(v->async, p, f->data,
                                                      f->len, &v->err));
    else
        must(v,
             ips_cm_sync_receive_batch(v->sync, p, f->data, f->len, &v->err));
}

static void keep(struct slave *v, const struct links_frame *f)
{
    struct early *e = malloc(sizeof(*e) + f->len);
    if (!e)
        links_die("memory");
    *e = (struct early){
        .from = f->from, .kind = f->kind, .a = f->a, .len = f->len};
    memcpy(e->data, f->data, f->len);
    *v->early_end = e;
    v->early_end = &e->next;
}

static void replay(struct slave *v)
{
    while (v->early) {
        struct early *e = v->early;
        const struct links_frame f = {e->from, e->kind, e->a, e->data, e->len};
        v->early = e->next;
        if (v->links.g && !(v->sync || v->async))
            take_list(v, &f);
        else
            take_peer(v, &f);
        free(e);
    }
    v->early_end = &v->early;
}

static void begin_lane(struct slave *v, const struct links_frame *f)
{
    v->dirty = true;
    if (!f->data[0]) {
        must(v, ips_cm_sync_new(&v->links, v->g, &links_lane, 0, &v->sync,
                                &v->err));
    } else {
        must(v, ips_cm_async_new(&v->links, v->g, &links_lane, f->a, 0,
                                 &v->async, &v->err));
        must(v, ips_cm_async_store_values_and_owe_ack(v->async, IPS_CM_ROOT,
                                                      NULL, 0, &v->err));
    }
    replay(v);
}

/* Nothing more has come for now. */
static void run(struct slave *v)
{
    struct ips_cm_message m;
    int rc = 0;
    if (v->links.g && !v->opened &&
        ips_cm_is_link_exchange_complete(&v->links)) {
        v->opened = true;
        tell(v, LINKS_OPENED, ips_cm_count_incoming_links(&v->links), NULL, 0);
    }
    if (!v->dirty)
        return;
    v->dirty = false;
    must(v, v->async ? ips_cm_async_propagate_improved_values(v->async, &v->err)
                     : ips_cm_sync_compute_ready_chains(v->sync, &v->err));
    while ((rc = v->async
                     ? ips_cm_async_make_next_message(v->async, &m, &v->err)
                     : ips_cm_sync_make_next_batch(v->sync, &m, &v->err)) > 0) {
        bool ack = m.kind == IPS_CM_ACK;
        links_send(
            v->n,
            m.to == IPS_CM_ROOT ? v->n->count - 1 : v->links.peer[m.to].machine,
            ack ? LINKS_ACK : LINKS_BATCH, m.count, m.data, ack ? 0 : m.len);
    }
    must(v, rc);
    if (!v->sync || ips_cm_sync_count_unfinished_chains(v->sync))
        return;
    const struct ips_cm_counts *c = ips_cm_sync_counts(v->sync);
    const struct links_told told = {c->batches, c->received, 0};
    tell(v, LINKS_TOLD, 0, &told, sizeof(told));
}

static void over(struct slave *v)
{
    const struct ips_cm_counts c =
        *(v->async ? ips_cm_async_get_counters(v->async)
                   : ips_cm_sync_counts(v->sync));
    must(v, v->async ? ips_cm_async_recompute_and_check_result(v->async,
                                                               &v->est, &v->err)
                     : ips_cm_sync_move_result_out(v->sync, &v->est, &v->err));
    const struct links_done d = {
        .t_max = v->est.t_max,
        .end = v->est.end == IPS_NO_NODE ? 0 : (uint64_t)v->est.end + 1,
        .values = c.values,
        .passes = c.passes,
        .computed = c.computed};
    tell(v, LINKS_DONE, 0, &d, sizeof(d));
}

/* ---- all ----------------------------------------------------------------- */

static void bye(struct slave *v)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    const struct links_sent sent = {v->n->messages, v->n->bytes,
                                    (uint64_t)t.tv_sec * 1000000000u +
                                        (uint64_t)t.tv_nsec};
    tell(v, LINKS_SENT, 0, &sent, sizeof(sent));
    links_flush(v->n);
}

static void take(struct slave *v, const struct links_frame *f)
{
    switch (f->kind) {
    case LINKS_SEND:
        links_send_graph(v->n, v->g, v->s->end_count[v->self]);
        break;
    case LINKS_REDUCE:
        reduce(v);
        break;
    case LINKS_VALUES:
        values(v, f);
        break;
    case LINKS_EXPAND:
        expand(v, f);
        break;
    case LINKS_OPEN:
        open_links(v);
        replay(v);
        break;
    case LINKS_WANTS:
    case LINKS_MATCHES:
        if (v->links.g)
            take_list(v, f);
        else
            keep(v, f);
        break;
    case LINKS_LANE:
        begin_lane(v, f);
        break;
    case LINKS_BATCH:
    case LINKS_ACK:
        if (v->sync || v->async)
            take_peer(v, f);
        else
            keep(v, f);
        break;
    case LINKS_OVER:
        over(v);
        break;
    case LINKS_WALK:
        walk(v, f);
        break;
    case LINKS_READY:
        tell(v, LINKS_READY, 0, NULL, 0);
        break;
    case LINKS_BYE:
    case LINKS_PIECE:
    case LINKS_OPENED:
    case LINKS_TOLD:
    case LINKS_DONE:
    case LINKS_WALKED:
    case LINKS_SENT:
        break;
    }
}

void links_slave(struct links_net *n, const struct synth *s)
{
    struct slave v = {.n = n, .s = s, .g = &s->part[n->self], .self = n->self};
    struct links_frame f;
    v.early_end = &v.early;
    tell(&v, LINKS_READY, 0, NULL, 0);
    do {
        if (links_next(n, false, &f)) {
            take(&v, &f);
            continue;
        }
        run(&v);
        (void)links_next(n, true, &f);
        take(&v, &f);
    } while (f.kind != LINKS_BYE);
    bye(&v);
}
