#include "analysis/distributed/cm_async.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/graph/kernel.h"
#include "common/large.h"

/* The best path known to a node or a link: its length and, among paths of that
 * length, the greatest number of machine changes. */
struct label {
    uint64_t est;
    uint32_t hops;
};

struct traffic {     /* state of one peer */
    uint32_t *link;  /* [out_count] links whose values improved since they were
                        last sent */
    uint8_t *listed; /* [out_count] 1: the link is in the list `link` */
    uint32_t count;
    /* numbers of the next batches from and to the peer */
    uint64_t next_in, next_out;
    uint64_t unacked; /* our messages that the peer has not acknowledged */
    uint64_t owed;    /* the peer's messages that we have not acknowledged */
};

struct ips_cm_async {
    const struct ips_cm_links *l;
    const struct ips_graph *g;
    struct ips_scenario scenario;
    struct ips_cross_arc_weighting arcs;
    uint64_t *est; /* [node_count] longest path to each node so far, ns */
    uint32_t *
        hops; /* [node_count] machine changes of the path that `est` measures */
    uint8_t *first; /* [node_count + 1] 1: the node is the first of its chain;
                       the entry after the last node is 1 */
    /* [in_count] best value received for each remote receive, the arc's weight
     * included; IPS_IN_ABSENT: none yet */
    uint64_t *in_value;
    uint32_t *in_hops;
    uint32_t *succ_start; /* [node_count + 1] index of each node's first local
                             cross successor in `succ` */
    uint32_t *succ;
    struct ips_cm_outgoing_links outs;
    /* ring buffer of nodes to recompute, each in it at most once */
    uint32_t *queue;
    uint8_t *queued;
    uint32_t head, waiting, ring;
    struct traffic *traffic;
    uint32_t parent; /* the parent (cm_async.h): a peer, IPS_CM_ROOT, or
                        IPS_CM_NONE */
    bool begun;      /* the values that depend on no peer have been listed for
                        sending to the peers */
    uint64_t unacked, root_owed;
    uint64_t hop_limit;
    struct ips_cm_bytes bytes;
    struct ips_cm_counts counts;
    uint32_t batch_values;
    bool failed;
};

void ips_cm_async_free(struct ips_cm_async *a)
{
    if (!a)
        return;
    for (uint32_t p = 0; a->traffic && p < a->l->peer_count; p++) {
        free(a->traffic[p].link);
        free(a->traffic[p].listed);
    }
    free(a->traffic);
    ips_free_large(a->est);
    free(a->hops);
    free(a->first);
    free(a->in_value);
    free(a->in_hops);
    free(a->succ_start);
    free(a->succ);
    free(a->outs.at);
    free(a->queue);
    free(a->queued);
    ips_cm_bytes_release(&a->bytes);
    free(a);
}

/* ---- initialisation ----------------------------------------------------- */

static int alloc_async_arrays(struct ips_cm_async *a, struct ips_err *err)
{
    size_t n = (size_t)a->g->node_count + 1, in = (size_t)a->g->in_count + 1;
    a->hops = calloc(n, sizeof(*a->hops));
    a->first = calloc(n, 1);
    a->in_value = malloc(in * sizeof(*a->in_value));
    a->in_hops = calloc(in, sizeof(*a->in_hops));
    a->succ_start = calloc(n + 1, sizeof(*a->succ_start));
    a->succ = malloc(n * sizeof(*a->succ));
    a->queue = malloc(n * sizeof(*a->queue));
    a->queued = calloc(n, 1);
    a->traffic = calloc((size_t)a->l->peer_count + 1, sizeof(*a->traffic));
    bool fine = a->hops && a->first && a->in_value && a->in_hops &&
                a->succ_start && a->succ && a->queue && a->queued && a->traffic;
    for (uint32_t p = 0; fine && p < a->l->peer_count; p++) {
        size_t out = (size_t)a->l->peer[p].out_count + 1;
        a->traffic[p].link = malloc(out * sizeof(*a->traffic[p].link));
        a->traffic[p].listed = calloc(out, 1);
        fine = a->traffic[p].link && a->traffic[p].listed;
    }
    if (!fine)
        return ips_err_set(err, IPS_E_NO_MEMORY, "values of %u nodes",
                           a->g->node_count);
    return 0;
}

static void mark_chain_starts_and_index_successors(struct ips_cm_async *a)
{
    const struct ips_graph *g = a->g;
    for (uint32_t c = 0; c < g->chain_count; c++)
        a->first[g->chains[c].first] = 1;
    a->first[g->node_count] = 1;
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (ips_has_local_cross_arc(g, &a->arcs, i))
            a->succ_start[g->xpred[i] + 2]++;
    }
    for (uint32_t i = 0; i < g->node_count; i++)
        a->succ_start[i + 1] += a->succ_start[i];
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (ips_has_local_cross_arc(g, &a->arcs, i))
            a->succ[a->succ_start[g->xpred[i] + 1]++] = i;
    }
}

/* Computes the values that hold without other machines: remote receives without
 * a value yet count as absent. Returns IPS_E_STALLED if the subgraph itself has
 * a cycle, with which recomputing would never end. */
static int compute_local_values(struct ips_cm_async *a, struct ips_err *err)
{
    struct ips_est e;
    for (uint32_t k = 0; k < a->g->in_count; k++)
        a->in_value[k] = IPS_IN_ABSENT;
    int rc =
        ips_longest_path_compute_ests(a->g, &a->scenario, a->in_value, &e, err);
    if (rc < 0)
        return rc;
    a->est = e.est;
    e.est = NULL;
    ips_est_release(&e);
    a->counts.computed += a->g->node_count;
    return 0;
}

int ips_cm_async_new(const struct ips_cm_links *links,
                     const struct ips_graph *g,
                     const struct ips_scenario *scenario, uint64_t links_in_all,
                     uint32_t batch_values, struct ips_cm_async **out,
                     struct ips_err *err)
{
    int rc = ips_cm_check_wall_graph_has_times(g, scenario, err);
    struct ips_cm_async *a = rc == 0 ? calloc(1, sizeof(*a)) : NULL;
    if (rc < 0)
        return rc;
    if (!a)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    a->l = links;
    a->g = g;
    a->scenario = *scenario;
    a->parent = IPS_CM_NONE;
    a->hop_limit = links_in_all;
    a->ring = g->node_count + 1;
    a->batch_values = batch_values ? batch_values : IPS_CM_BATCH_VALUES;
    ips_cross_arc_weighting_init(&a->arcs, scenario);
    rc = alloc_async_arrays(a, err);
    if (rc == 0)
        rc = ips_cm_list_outgoing_links_by_node(links, &a->outs, err);
    if (rc == 0)
        rc = compute_local_values(a, err);
    if (rc < 0) {
        ips_cm_async_free(a);
        return rc;
    }
    mark_chain_starts_and_index_successors(a);
    *out = a;
    return 0;
}

/* ---- relaxing nodes ----------------------------------------------------- */

static int mark_failed_if_error(struct ips_cm_async *a, int rc)
{
    a->failed = a->failed || rc < 0;
    return rc;
}

static int set_already_failed_error(struct ips_err *err)
{
    return ips_err_set(err, IPS_E_PROTOCOL,
                       "this computation has failed already");
}

static bool is_label_better(struct label x, struct label than)
{
    return x.est > than.est || (x.est == than.est && x.hops > than.hops);
}

static void enqueue_node_unless_queued(struct ips_cm_async *a, uint32_t node)
{
    if (a->queued[node])
        return;
    a->queued[node] = 1;
    uint32_t at = a->head + a->waiting++;
    a->queue[at >= a->ring ? at - a->ring : at] = node;
}

static uint32_t dequeue_node(struct ips_cm_async *a)
{
    uint32_t node = a->queue[a->head];
    a->head = a->head + 1 == a->ring ? 0 : a->head + 1;
    a->waiting--;
    a->queued[node] = 0;
    return node;
}

/* Returns the index in g->in of node i, or g->in_count if i is no remote
 * receive. */
static uint32_t find_remote_receive_of_node(const struct ips_graph *g,
                                            uint32_t i)
{
    uint32_t low = 0, high = g->in_count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (g->in[mid].node < i)
            low = mid + 1;
        else
            high = mid;
    }
    return low < g->in_count && g->in[low].node == i ? low : g->in_count;
}

static struct label compute_label_of_node(const struct ips_cm_async *a,
                                          uint32_t i)
{
    const struct ips_graph *g = a->g;
    struct label l = {g->w[i], 0}, b = {0, 0};
    if (!a->first[i])
        l = (struct label){a->est[i - 1] + g->w[i], a->hops[i - 1]};
    if (ips_has_local_cross_arc(g, &a->arcs, i)) {
        uint32_t x = g->xpred[i];
        uint8_t mode = a->arcs.mode[g->xkind[i]];
        b = (struct label){a->est[x] + ips_cross_arc_weight_by_mode(
                                           &a->arcs, mode, g->xlen, i),
                           a->hops[x]};
    } else if (g->xpred[i] == IPS_NO_NODE && g->xkind[i] != IPS_X_NONE) {
        uint32_t k = find_remote_receive_of_node(g, i);
        if (k < g->in_count && a->in_value[k] != IPS_IN_ABSENT)
            b = (struct label){a->in_value[k], a->in_hops[k]};
    }
    return is_label_better(b, l) ? b : l;
}

static void enqueue_unlisted_links_of_node(struct ips_cm_async *a,
                                           uint32_t node)
{
    uint32_t low = 0, high = a->outs.count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (a->outs.at[mid].node < node)
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < a->outs.count && a->outs.at[low].node == node; low++) {
        const struct ips_cm_out *o = &a->outs.at[low];
        struct traffic *t = &a->traffic[o->peer];
        if (t->listed[o->link])
            continue;
        t->listed[o->link] = 1;
        t->link[t->count++] = o->link;
    }
}

/* Recomputes node i, and then the next nodes of its chain as long as values
 * improve. */
static int relax_chain(struct ips_cm_async *a, uint32_t i, struct ips_err *err)
{
    do {
        struct label l = compute_label_of_node(a, i);
        a->counts.computed++;
        if (!is_label_better(l, (struct label){a->est[i], a->hops[i]}))
            return 0;
        if (l.est >= IPS_TIME_LIMIT)
            return ips_err_set(err, IPS_E_LIMIT,
                               "times add up to more than 2^62 ns: damaged "
                               "weights");
        a->est[i] = l.est;
        a->hops[i] = l.hops;
        enqueue_unlisted_links_of_node(a, i);
        for (uint32_t k = a->succ_start[i]; k < a->succ_start[i + 1]; k++)
            enqueue_node_unless_queued(a, a->succ[k]);
        i++;
    } while (!a->first[i]);
    return 0;
}

int ips_cm_async_propagate_improved_values(struct ips_cm_async *a,
                                           struct ips_err *err)
{
    int rc = a->failed ? set_already_failed_error(err) : 0;
    if (rc == 0 && a->parent != IPS_CM_NONE && !a->begun) {
        for (uint32_t k = 0; k < a->outs.count; k++)
            enqueue_unlisted_links_of_node(a, a->outs.at[k].node);
        a->begun = true;
    }
    a->counts.passes += a->waiting > 0;
    while (rc == 0 && a->waiting)
        rc = relax_chain(a, dequeue_node(a), err);
    return mark_failed_if_error(a, rc);
}

/* ---- receiving and sending messages ------------------------------------- */

static int store_received_label_if_better(struct ips_cm_async *a, uint32_t p,
                                          uint32_t link, struct label l,
                                          uint64_t at, struct ips_err *err)
{
    const struct ips_cm_peer *from = &a->l->peer[p];
    if (l.est >= IPS_TIME_LIMIT)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "the value of message %u is out of range", link);
    l.hops++;
    if (l.hops > a->hop_limit)
        return ips_err_set(err, IPS_E_STALLED,
                           "a path crosses between machines more often than "
                           "there are messages: a cycle through node %u",
                           a->g->in[from->want[from->in_first[link]]].node);
    for (uint32_t i = 0; i < from->in_served[link]; i++) {
        uint32_t k = from->want[from->in_first[link] + i];
        uint8_t mode = a->arcs.mode[a->g->xkind[a->g->in[k].node]];
        if (mode == IPS_ARC_ABSENT)
            continue;
        struct label old = {a->in_value[k], a->in_hops[k]};
        struct label new = {
            l.est + ips_cm_cross_arc_weight(a->g, k, &a->scenario, &a->arcs,
                                            from->in_len[link], at),
            l.hops};
        if (old.est != IPS_IN_ABSENT && !is_label_better(new, old))
            continue;
        a->in_value[k] = new.est;
        a->in_hops[k] = new.hops;
        enqueue_node_unless_queued(a, a->g->in[k].node);
    }
    return 0;
}

static int read_batch_and_store_better_labels(struct ips_cm_async *a,
                                              uint32_t p, const uint8_t *data,
                                              size_t len, struct ips_err *err)
{
    struct ips_cm_reader r;
    uint32_t links = a->l->peer[p].in_count, n = 0, link = 0;
    uint64_t est = 0, at = 0;
    int rc = ips_cm_verify_checksum_and_init_reader(&r, data, len, err);
    if (rc == 0)
        rc = ips_cm_read_batch_head_and_check_order(&r, &a->traffic[p].next_in,
                                                    links, &n, err);
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        rc = ips_cm_read_link_number_of_next_value(&r, links, &link, err);
        est = ips_cm_read_and_add_signed_difference(&r, est);
        if (rc == 0)
            rc = ips_cm_read_node_time_if_wall(&r, &a->scenario, est, &at, err);
        uint64_t hops = ips_cm_read_varint(&r);
        if (rc == 0 && hops >= UINT32_MAX)
            rc = ips_err_set(err, IPS_E_PROTOCOL,
                             "a batch of values is damaged: %llu machine "
                             "changes",
                             (unsigned long long)hops);
        if (rc == 0 && !r.bad)
            rc = store_received_label_if_better(
                a, p, link - 1, (struct label){est, (uint32_t)hops}, at, err);
    }
    if (rc == 0)
        rc = ips_cm_check_all_bytes_read(&r, err);
    a->counts.received++;
    return rc;
}

int ips_cm_async_store_values_and_owe_ack(struct ips_cm_async *a, uint32_t from,
                                          const uint8_t *data, size_t len,
                                          struct ips_err *err)
{
    int rc = a->failed ? set_already_failed_error(err) : 0;
    if (rc == 0 && from == IPS_CM_ROOT && len)
        rc = ips_err_set(err, IPS_E_PROTOCOL, "the root sends no values");
    if (rc == 0 && from != IPS_CM_ROOT)
        rc = read_batch_and_store_better_labels(a, from, data, len, err);
    if (rc < 0)
        return mark_failed_if_error(a, rc);
    /* The first sender becomes the parent. Its message is acknowledged only
     * when all messages that it caused have been acknowledged. */
    if (a->parent == IPS_CM_NONE)
        a->parent = from;
    else if (from == IPS_CM_ROOT)
        a->root_owed++;
    else
        a->traffic[from].owed++;
    return 0;
}

int ips_cm_async_receive_ack(struct ips_cm_async *a, uint32_t from,
                             uint64_t count, struct ips_err *err)
{
    if (a->failed)
        return set_already_failed_error(err);
    struct traffic *t = &a->traffic[from];
    if (count == 0 || count > t->unacked)
        return mark_failed_if_error(
            a, ips_err_set(err, IPS_E_PROTOCOL,
                           "it acknowledges %llu messages, and %llu "
                           "are on the way to it",
                           (unsigned long long)count,
                           (unsigned long long)t->unacked));
    t->unacked -= count;
    a->unacked -= count;
    return 0;
}

static int compare_link_numbers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int make_batch(struct ips_cm_async *a, uint32_t p,
                      struct ips_cm_message *out, struct ips_err *err)
{
    struct traffic *t = &a->traffic[p];
    uint32_t n = t->count < a->batch_values ? t->count : a->batch_values;
    uint32_t *list = t->link + t->count - n, link = 0;
    uint64_t est = 0;
    qsort(list, n, sizeof(*list), compare_link_numbers);
    a->bytes.len = 0;
    ips_cm_append_varint(&a->bytes, t->next_out++);
    ips_cm_append_varint(&a->bytes, n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t node = a->l->peer[p].out_node[list[i]];
        ips_cm_append_varint(&a->bytes, list[i] - link);
        ips_cm_append_signed_difference(&a->bytes, est, a->est[node]);
        ips_cm_append_node_time_if_wall(&a->bytes, a->g, &a->scenario, node,
                                        a->est[node]);
        ips_cm_append_varint(&a->bytes, a->hops[node]);
        link = list[i] + 1;
        est = a->est[node];
        t->listed[list[i]] = 0;
    }
    if (ips_cm_append_checksum(&a->bytes, err) < 0)
        return IPS_E_NO_MEMORY;
    t->count -= n;
    t->unacked++;
    a->unacked++;
    a->counts.batches++;
    a->counts.values += n;
    a->counts.bytes += a->bytes.len;
    *out = (struct ips_cm_message){.kind = IPS_CM_BATCH,
                                   .to = p,
                                   .data = a->bytes.data,
                                   .len = a->bytes.len};
    return 1;
}

static int make_ack(struct ips_cm_async *a, uint32_t to, uint64_t *owed,
                    struct ips_cm_message *out)
{
    *out =
        (struct ips_cm_message){.kind = IPS_CM_ACK, .to = to, .count = *owed};
    *owed = 0;
    a->counts.acks++;
    return 1;
}

int ips_cm_async_make_next_message(struct ips_cm_async *a,
                                   struct ips_cm_message *out,
                                   struct ips_err *err)
{
    if (a->failed)
        return set_already_failed_error(err);
    for (uint32_t p = 0; p < a->l->peer_count; p++) {
        if (a->traffic[p].count)
            return mark_failed_if_error(a, make_batch(a, p, out, err));
    }
    /* Nothing is left to send or relax, and all our messages are acknowledged:
     * acknowledge the parent's message. */
    if (a->parent != IPS_CM_NONE && a->unacked == 0 && a->waiting == 0 &&
        a->begun) {
        if (a->parent == IPS_CM_ROOT)
            a->root_owed++;
        else
            a->traffic[a->parent].owed++;
        a->parent = IPS_CM_NONE;
    }
    if (a->root_owed)
        return make_ack(a, IPS_CM_ROOT, &a->root_owed, out);
    for (uint32_t p = 0; p < a->l->peer_count; p++) {
        if (a->traffic[p].owed)
            return make_ack(a, p, &a->traffic[p].owed, out);
    }
    return 0;
}

const struct ips_cm_counts *
ips_cm_async_get_counters(const struct ips_cm_async *a)
{
    return &a->counts;
}

/* ---- phase II: the final values ----------------------------------------- */

int ips_cm_async_recompute_and_check_result(struct ips_cm_async *a,
                                            struct ips_est *out,
                                            struct ips_err *err)
{
    memset(out, 0, sizeof(*out));
    out->end = IPS_NO_NODE;
    if (a->failed)
        return set_already_failed_error(err);
    if (a->parent != IPS_CM_NONE || a->waiting > 0)
        return mark_failed_if_error(
            a, ips_err_set(err, IPS_E_PROTOCOL,
                           "the values were declared final while this "
                           "machine still computes"));
    a->failed = true; /* no further call may use the state */
    int rc = ips_longest_path_compute_ests(a->g, &a->scenario, a->in_value, out,
                                           err);
    if (rc == 0 && a->g->node_count &&
        memcmp(out->est, a->est, a->g->node_count * sizeof(*a->est)) != 0) {
        ips_est_release(out);
        rc = ips_err_set(err, IPS_E_CORRUPT,
                         "values corrected step by step are not those "
                         "computed at once: a bug of IPS");
    }
    return rc;
}
