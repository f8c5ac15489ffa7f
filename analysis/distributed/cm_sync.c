/*
 * The algorithm of path.c in a form that can pause: a chain that needs a value
 * from another machine waits until the value has arrived. As in path.c, a node
 * without a value stores the list of its waiting chains in its EST.
 */
#include "analysis/distributed/cm_sync.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/graph/kernel.h"
#include "common/large.h"

/* EST of a node that has no value yet and for which no chain waits */
#define UNKNOWN UINT64_MAX
#define WAITER_BIT (1ULL << 63)
#define NO_CHAIN UINT32_MAX
/* entry of in_value: the value was not received yet */
#define IN_UNKNOWN (UINT64_MAX - 1)
#define STALL_NAMED 10

struct cursor {
    /* next node to compute; one past the chain's last node */
    uint32_t pos, end;
    /* index in g->in of the chain's next remote receive; index in outs.at of
     * its next link to a peer */
    uint32_t in, out;
    uint32_t next; /* next chain waiting on the same node */
};

struct traffic {    /* state of one peer */
    uint32_t *link; /* [out_count] links whose values are known, in the order in
                       which they became known */
    uint32_t known, sent;
    uint8_t *received; /* [in_count] 1: the link's value has arrived */
    /* numbers of the next batches from and to the peer */
    uint64_t next_in, next_out;
};

struct ips_cm_sync {
    const struct ips_cm_links *l;
    const struct ips_graph *g;
    struct ips_scenario scenario;
    struct ips_cross_arc_weighting arcs;
    uint64_t *est;
    uint8_t *crossed;
    struct cursor *cur;
    /* stack of chains that can run; each is in it at most once */
    uint32_t *ready;
    uint32_t ready_count, unfinished;
    /* [in_count] value that each remote receive delivers, the arc's weight
     * included; or IPS_IN_ABSENT or IN_UNKNOWN */
    uint64_t *in_value;
    uint32_t *in_waiter; /* [in_count] chain that waits for the value of each
                            remote receive, or NO_CHAIN */
    struct ips_cm_outgoing_links outs;
    struct traffic *traffic; /* [peer_count] state of each peer */
    struct ips_cm_bytes bytes;
    struct ips_cm_counts counts;
    uint32_t batch_values;
    bool failed;
};

void ips_cm_sync_free(struct ips_cm_sync *s)
{
    if (!s)
        return;
    for (uint32_t p = 0; s->traffic && p < s->l->peer_count; p++) {
        free(s->traffic[p].link);
        free(s->traffic[p].received);
    }
    free(s->traffic);
    ips_free_large(s->est);
    ips_free_large(s->crossed);
    free(s->cur);
    free(s->ready);
    free(s->in_value);
    free(s->in_waiter);
    free(s->outs.at);
    ips_cm_bytes_release(&s->bytes);
    free(s);
}

static int alloc_all(struct ips_cm_sync *s, struct ips_err *err)
{
    const struct ips_graph *g = s->g;
    struct ips_est e;
    int rc = ips_est_alloc(&e, g->node_count, err);
    if (rc < 0)
        return rc;
    s->est = e.est;
    s->crossed = e.crossed;
    s->cur = malloc(((size_t)g->chain_count + 1) * sizeof(*s->cur));
    s->ready = malloc(((size_t)g->chain_count + 1) * sizeof(*s->ready));
    s->in_value = malloc(((size_t)g->in_count + 1) * sizeof(*s->in_value));
    s->in_waiter = malloc(((size_t)g->in_count + 1) * sizeof(*s->in_waiter));
    s->traffic = calloc((size_t)s->l->peer_count + 1, sizeof(*s->traffic));
    bool fine = s->cur && s->ready && s->in_value && s->in_waiter && s->traffic;
    for (uint32_t p = 0; fine && p < s->l->peer_count; p++) {
        const struct ips_cm_peer *to = &s->l->peer[p];
        struct traffic *t = &s->traffic[p];
        t->link = malloc(((size_t)to->out_count + 1) * sizeof(*t->link));
        t->received = calloc((size_t)to->in_count + 1, 1);
        fine = t->link && t->received;
    }
    if (!fine)
        return ips_err_set(err, IPS_E_NO_MEMORY, "values of %u nodes",
                           g->node_count);
    return ips_cm_list_outgoing_links_by_node(s->l, &s->outs, err);
}

int ips_cm_sync_new(const struct ips_cm_links *links, const struct ips_graph *g,
                    const struct ips_scenario *scenario, uint32_t batch_values,
                    struct ips_cm_sync **out, struct ips_err *err)
{
    int rc = ips_cm_check_wall_graph_has_times(g, scenario, err);
    struct ips_cm_sync *s = rc == 0 ? calloc(1, sizeof(*s)) : NULL;
    if (rc < 0)
        return rc;
    if (!s)
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    s->l = links;
    s->g = g;
    s->batch_values = batch_values ? batch_values : IPS_CM_BATCH_VALUES;
    s->scenario = *scenario;
    ips_cross_arc_weighting_init(&s->arcs, scenario);
    rc = alloc_all(s, err);
    if (rc < 0) {
        ips_cm_sync_free(s);
        return rc;
    }
    memset(s->est, 0xff, (size_t)g->node_count * sizeof(*s->est));
    for (uint32_t k = 0; k < g->in_count; k++) {
        bool absent = links->in_peer[k] == IPS_CM_NONE ||
                      s->arcs.mode[g->xkind[g->in[k].node]] == IPS_ARC_ABSENT;
        s->in_value[k] = absent ? IPS_IN_ABSENT : IN_UNKNOWN;
        s->in_waiter[k] = NO_CHAIN;
    }
    for (uint32_t c = 0, in = 0, o = 0; c < g->chain_count; c++) {
        uint32_t first = g->chains[c].first;
        while (in < g->in_count && g->in[in].node < first)
            in++;
        while (o < s->outs.count && s->outs.at[o].node < first)
            o++;
        s->cur[c] =
            (struct cursor){first, first + g->chains[c].count, in, o, NO_CHAIN};
        s->ready[g->chain_count - 1 - c] = c;
    }
    s->ready_count = s->unfinished = g->chain_count;
    *out = s;
    return 0;
}

/* ---- running chains ----------------------------------------------------- */

static int mark_failed_if_error(struct ips_cm_sync *s, int rc)
{
    s->failed = s->failed || rc < 0;
    return rc;
}

static int set_already_failed_error(struct ips_err *err)
{
    return ips_err_set(err, IPS_E_PROTOCOL,
                       "this computation has failed already");
}

static void insert_chain_into_waiters_of_node(struct ips_cm_sync *s, uint32_t c,
                                              uint32_t node)
{
    uint64_t list = s->est[node];
    s->cur[c].next = list == UNKNOWN ? NO_CHAIN : (uint32_t)list;
    s->est[node] = WAITER_BIT | c;
}

static void wake_waiters(struct ips_cm_sync *s, uint64_t list)
{
    for (uint32_t c = (uint32_t)list; c != NO_CHAIN; c = s->cur[c].next)
        s->ready[s->ready_count++] = c;
}

/* Adds the links that `node` sends to their peers' lists of links to send. */
static void append_links_of_node_to_send_lists(struct ips_cm_sync *s,
                                               struct cursor *cur,
                                               uint32_t node)
{
    for (; cur->out < s->outs.count && s->outs.at[cur->out].node == node;
         cur->out++) {
        const struct ips_cm_out *o = &s->outs.at[cur->out];
        struct traffic *t = &s->traffic[o->peer];
        t->link[t->known++] = o->link;
    }
}

/* Raises *a, the EST of node i by its chain arc, to the EST by its cross arc if
 * that is greater. Returns false if chain c has to wait for a value. */
static bool raise_est_by_arc_or_make_chain_wait(struct ips_cm_sync *s,
                                                uint32_t c, uint32_t i,
                                                uint64_t *a, uint8_t *won)
{
    const struct ips_graph *g = s->g;
    struct cursor *cur = &s->cur[c];
    uint32_t x = g->xpred[i];
    if (x != IPS_NO_NODE) {
        uint8_t mode = s->arcs.mode[g->xkind[i]];
        if (mode == IPS_ARC_ABSENT)
            return true;
        /* x has no value yet (UNKNOWN has this bit too) */
        if (s->est[x] & WAITER_BIT) {
            insert_chain_into_waiters_of_node(s, c, x);
            return false;
        }
        uint64_t b = s->est[x] +
                     ips_cross_arc_weight_by_mode(&s->arcs, mode, g->xlen, i);
        *won = b > *a; /* with equal times the chain arc wins */
        *a = *won ? b : *a;
    } else if (cur->in < g->in_count && g->in[cur->in].node == i) {
        uint64_t v = s->in_value[cur->in];
        if (v == IN_UNKNOWN) {
            s->in_waiter[cur->in] = c;
            return false;
        }
        cur->in++;
        *won = v != IPS_IN_ABSENT && v > *a;
        *a = *won ? ips_min_u64(v, IPS_TIME_LIMIT) : *a;
    }
    return true;
}

static int compute_chain_until_wait(struct ips_cm_sync *s, uint32_t c,
                                    struct ips_err *err)
{
    const struct ips_graph *g = s->g;
    struct cursor *cur = &s->cur[c];
    uint32_t i = cur->pos;
    uint64_t e = i == g->chains[c].first ? 0 : s->est[i - 1];
    for (; i < cur->end; i++) {
        uint64_t a = e + g->w[i];
        uint8_t won = 0;
        if ((g->w[i] | a) >= IPS_TIME_LIMIT)
            a = IPS_TIME_LIMIT;
        if (!raise_est_by_arc_or_make_chain_wait(s, c, i, &a, &won))
            break;
        if (a >= IPS_TIME_LIMIT)
            return ips_err_set(err, IPS_E_LIMIT,
                               "times add up to more than 2^62 ns: damaged "
                               "weights");
        uint64_t waiters = s->est[i];
        s->est[i] = e = a;
        s->crossed[i] = won;
        if (waiters != UNKNOWN)
            wake_waiters(s, waiters);
        if (cur->out < s->outs.count && s->outs.at[cur->out].node == i)
            append_links_of_node_to_send_lists(s, cur, i);
    }
    s->counts.computed += i - cur->pos;
    cur->pos = i;
    s->unfinished -= i == cur->end;
    return 0;
}

int ips_cm_sync_compute_ready_chains(struct ips_cm_sync *s, struct ips_err *err)
{
    int rc = s->failed ? set_already_failed_error(err) : 0;
    s->counts.passes += s->ready_count > 0;
    while (rc == 0 && s->ready_count)
        rc = compute_chain_until_wait(s, s->ready[--s->ready_count], err);
    return mark_failed_if_error(s, rc);
}

/* ---- receiving and sending batches -------------------------------------- */

static int compare_numbers_of_links(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

int ips_cm_sync_make_next_batch(struct ips_cm_sync *s,
                                struct ips_cm_message *out, struct ips_err *err)
{
    uint32_t p = 0;
    if (s->failed)
        return set_already_failed_error(err);
    while (p < s->l->peer_count && s->traffic[p].sent == s->traffic[p].known)
        p++;
    if (p == s->l->peer_count)
        return 0;
    struct traffic *t = &s->traffic[p];
    uint32_t n = t->known - t->sent, link = 0;
    uint64_t est = 0;
    if (n > s->batch_values)
        n = s->batch_values;
    uint32_t *list = t->link + t->sent;
    qsort(list, n, sizeof(*list), compare_numbers_of_links);
    s->bytes.len = 0;
    ips_cm_append_varint(&s->bytes, t->next_out++);
    ips_cm_append_varint(&s->bytes, n);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t next = s->est[s->l->peer[p].out_node[list[i]]];
        ips_cm_append_varint(&s->bytes, list[i] - link);
        ips_cm_append_signed_difference(&s->bytes, est, next);
        ips_cm_append_node_time_if_wall(&s->bytes, s->g, &s->scenario,
                                        s->l->peer[p].out_node[list[i]], next);
        link = list[i] + 1;
        est = next;
    }
    if (ips_cm_append_checksum(&s->bytes, err) < 0)
        return mark_failed_if_error(s, IPS_E_NO_MEMORY);
    t->sent += n;
    s->counts.batches++;
    s->counts.values += n;
    s->counts.bytes += s->bytes.len;
    *out = (struct ips_cm_message){.kind = IPS_CM_BATCH,
                                   .to = p,
                                   .data = s->bytes.data,
                                   .len = s->bytes.len};
    return 1;
}

static int store_received_est_and_ready_chains(struct ips_cm_sync *s,
                                               uint32_t p, uint32_t link,
                                               uint64_t est, uint64_t at,
                                               struct ips_err *err)
{
    const struct ips_cm_peer *from = &s->l->peer[p];
    if (est >= IPS_TIME_LIMIT)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "the value of message %u is out of range", link);
    if (s->traffic[p].received[link])
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "the value of message %u came twice", link);
    s->traffic[p].received[link] = 1;
    for (uint32_t i = 0; i < from->in_served[link]; i++) {
        uint32_t k = from->want[from->in_first[link] + i];
        uint8_t mode = s->arcs.mode[s->g->xkind[s->g->in[k].node]];
        if (mode == IPS_ARC_ABSENT)
            continue;
        s->in_value[k] =
            est + ips_cm_cross_arc_weight(s->g, k, &s->scenario, &s->arcs,
                                          from->in_len[link], at);
        if (s->in_waiter[k] != NO_CHAIN)
            s->ready[s->ready_count++] = s->in_waiter[k];
        s->in_waiter[k] = NO_CHAIN;
    }
    return 0;
}

int ips_cm_sync_receive_batch(struct ips_cm_sync *s, uint32_t p,
                              const uint8_t *data, size_t len,
                              struct ips_err *err)
{
    struct ips_cm_reader r;
    uint32_t links = s->l->peer[p].in_count, n = 0, link = 0;
    uint64_t est = 0, at = 0;
    int rc = s->failed
                 ? set_already_failed_error(err)
                 : ips_cm_verify_checksum_and_init_reader(&r, data, len, err);
    if (rc == 0)
        rc = ips_cm_read_batch_head_and_check_order(&r, &s->traffic[p].next_in,
                                                    links, &n, err);
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        rc = ips_cm_read_link_number_of_next_value(&r, links, &link, err);
        est = ips_cm_read_and_add_signed_difference(&r, est);
        if (rc == 0)
            rc = ips_cm_read_node_time_if_wall(&r, &s->scenario, est, &at, err);
        if (rc == 0 && !r.bad)
            rc = store_received_est_and_ready_chains(s, p, link - 1, est, at,
                                                     err);
    }
    if (rc == 0)
        rc = ips_cm_check_all_bytes_read(&r, err);
    s->counts.received++;
    return mark_failed_if_error(s, rc);
}

/* ---- results ------------------------------------------------------------ */

uint32_t ips_cm_sync_count_unfinished_chains(const struct ips_cm_sync *s)
{
    return s->unfinished;
}

const struct ips_cm_counts *ips_cm_sync_counts(const struct ips_cm_sync *s)
{
    return &s->counts;
}

static void describe_what_chain_awaits(const struct ips_cm_sync *s, uint32_t c,
                                       char *text, size_t cap)
{
    const struct cursor *cur = &s->cur[c];
    const struct ips_graph *g = s->g;
    const struct ips_chain *ch = &g->chains[c];
    if (g->xpred[cur->pos] != IPS_NO_NODE) {
        snprintf(text, cap, "node %u of %u.%u awaits node %u", cur->pos,
                 ch->pid, ch->tid, g->xpred[cur->pos]);
        return;
    }
    const struct ips_remote_in *in = &g->in[cur->in];
    snprintf(text, cap,
             "node %u of %u.%u awaits position %llu of channel end %u",
             cur->pos, ch->pid, ch->tid, (unsigned long long)in->pos, in->end);
}

int ips_cm_sync_stall_error(const struct ips_cm_sync *s, struct ips_err *err)
{
    char named[900] = "";
    uint32_t stalled = 0;
    for (uint32_t c = 0; c < s->g->chain_count; c++) {
        char one[160];
        if (s->cur[c].pos == s->cur[c].end)
            continue;
        size_t at = strlen(named);
        if (stalled++ >= STALL_NAMED)
            continue;
        describe_what_chain_awaits(s, c, one, sizeof(one));
        snprintf(named + at, sizeof(named) - at, "%s %s", at ? "," : "", one);
    }
    return ips_err_set(err, IPS_E_STALLED,
                       "a cycle or a missing send holds up %u of %u "
                       "chains:%s%s",
                       stalled, s->g->chain_count, named,
                       stalled > STALL_NAMED ? ", ..." : "");
}

int ips_cm_sync_move_result_out(struct ips_cm_sync *s, struct ips_est *out,
                                struct ips_err *err)
{
    memset(out, 0, sizeof(*out));
    out->end = IPS_NO_NODE;
    if (s->failed || !s->est)
        return set_already_failed_error(err);
    if (s->unfinished)
        return ips_cm_sync_stall_error(s, err);
    out->est = s->est;
    out->crossed = s->crossed;
    s->est = NULL;
    s->crossed = NULL;
    s->failed = true; /* no further call may use the state */
    for (uint32_t c = 0; c < s->g->chain_count; c++)
        ips_est_update_path_end_from_chain(out, s->g, &s->scenario, c);
    out->total = ips_graph_sum_chain_arcs(s->g);
    return 0;
}

/* ---- the root: detecting the end ---------------------------------------- */

void ips_cm_tally_init(struct ips_cm_tally *t, uint32_t parts)
{
    *t = (struct ips_cm_tally){.machines = parts};
}

enum ips_cm_state ips_cm_tally_add_report_and_get_state(struct ips_cm_tally *t,
                                                        uint64_t sent,
                                                        uint64_t taken,
                                                        uint64_t unfinished)
{
    t->sent += sent;
    t->received += taken;
    t->unfinished += unfinished;
    if (++t->reported < t->machines)
        return IPS_CM_GOES_ON;
    bool quiet = t->sent == t->received;
    bool same =
        t->has_last && t->last_sent == t->sent && t->last_taken == t->received;
    enum ips_cm_state state = IPS_CM_ASK_AGAIN;
    if (quiet && t->unfinished == 0)
        state = IPS_CM_OVER; /* final, because a slave without unfinished chains
                                sends no more batches */
    else if (quiet && same)
        state = IPS_CM_STALLED;
    t->rounds++;
    t->has_last = true;
    t->last_sent = t->sent;
    t->last_taken = t->received;
    t->sent = t->received = t->unfinished = 0;
    t->reported = 0;
    return state;
}
