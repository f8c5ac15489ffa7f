/*
 * Messages that TCP held back. If a program sends twice without an answer in
 * between, Nagle's algorithm keeps the second piece until the first is
 * acknowledged, and the receiver delays its acknowledgement: 40 to 200 ms on
 * Linux (TCP_DELACK_MIN, TCP_DELACK_MAX; counted in ticks, so up to a tick
 * less). This delay is elapsed time by the system's clock on any machine;
 * neither the CPU nor the message's length changes it.
 *
 * Therefore a message of at most PREDICT_HELD_BYTES is replayed with a wait
 * (IDLE) after its receive, if it took PREDICT_HELD_NS to PREDICT_HELD_MOST
 * longer than MTIME and its receiver slept for it all that time. The wait has
 * the length of the excess. The clocks of two machines are compared as in
 * `wall`; if messages between them went in one direction only, the fastest is
 * assumed to have taken no time.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "analysis/graph/clock_align.h"
#include "common/types.h"
#include "master/predict/query.h"
#include "master/query/machine_share.h"

struct delayed_messages {
    const struct ips_graph *g;
    const struct ips_graph **raw; /* [n] each machine's own graph */
    const uint32_t *base;         /* [n] first node of each machine in `g` */
    uint32_t n;
    /* [n * n] converts the clock of machine i (A) to that of k; only entries
     * with i < k are used */
    struct ips_clock_fit *fit;
    bool *fitted; /* [n * n] whether the pair's clocks were fitted */
};

static uint32_t machine_of_node(const struct delayed_messages *h, uint32_t node)
{
    return h->g->chains[ips_chain_of(h->g, node)].machine;
}

static uint64_t node_clock_ns(const struct delayed_messages *h, uint32_t m,
                              uint32_t node)
{
    return h->raw[m]->at[node - h->base[m]];
}

static bool is_data_arc(const struct ips_graph *g, uint32_t i)
{
    return g->xkind[i] == IPS_X_DATA && g->xpred[i] != IPS_NO_NODE;
}

/* Fits the clocks of machines a and b, a < b, by the messages between them. */
static int fit_clocks_of_pair(struct delayed_messages *h, uint32_t a,
                              uint32_t b, struct ips_err *err)
{
    size_t count = 0, most = 0;
    size_t pair = (size_t)a * h->n + b;
    const uint32_t of[] = {a, b};
    for (int k = 0; k < 2; k++)
        most += h->raw[of[k]]->node_count;
    struct ips_clock_point *p = malloc((most + 1) * sizeof(*p));
    if (!p)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory to align clocks");
    for (int k = 0; k < 2; k++) {
        uint32_t m = of[k], from = of[1 - k];
        for (uint32_t i = h->base[m]; i < h->base[m] + h->raw[m]->node_count;
             i++) {
            if (!is_data_arc(h->g, i) ||
                machine_of_node(h, h->g->xpred[i]) != from)
                continue;
            uint64_t sent = node_clock_ns(h, from, h->g->xpred[i]);
            uint64_t came = node_clock_ns(h, m, i);
            p[count++] = k ? (struct ips_clock_point){sent, came, true}
                           : (struct ips_clock_point){came, sent, false};
        }
    }
    int rc =
        ips_clock_compute_fit(p, count, IPS_CLOCK_BETWEEN, &h->fit[pair], err);
    free(p);
    h->fitted[pair] = rc == 0;
    return rc;
}

/* Converts a time of the clock A of the fit to its clock B (ns). */
static uint64_t convert_to_clock_b(const struct ips_clock_fit *f, uint64_t a)
{
    ips_i128 t =
        (ips_i128)a + f->offset_ns +
        ((ips_i128)a - (ips_i128)f->from) * f->drift_q40 / ((ips_i128)1 << 40);
    return t < 0 ? 0 : (uint64_t)t;
}

/* Sets *ns to the transfer time of the message into node i of machine `to`. */
static int compute_transfer_ns(struct delayed_messages *h, uint32_t i,
                               uint32_t to, uint64_t *ns, struct ips_err *err)
{
    uint32_t x = h->g->xpred[i], from = machine_of_node(h, x);
    uint64_t sent = node_clock_ns(h, from, x), came = node_clock_ns(h, to, i);
    uint64_t late = h->raw[to]->delay[i - h->base[to]];
    uint32_t a = ips_min_u32(from, to), b = ips_max_u32(from, to);
    const struct ips_clock_fit *f = &h->fit[(size_t)a * h->n + b];
    int rc = from == to || h->fitted[(size_t)a * h->n + b]
                 ? 0
                 : fit_clocks_of_pair(h, a, b, err);
    if (rc < 0)
        return rc;
    if (from < to)
        sent = convert_to_clock_b(f, sent);
    else if (from > to)
        came = convert_to_clock_b(f, came);
    *ns = ips_sub_sat(came, ips_add_sat(sent, late));
    return 0;
}

static uint64_t expected_message_ns(const struct predict_run *run,
                                    const struct message_times *times,
                                    uint32_t from, uint32_t to, uint64_t bytes)
{
    const struct message_time_pair *p = message_times_find_pair_or_substitute(
        times, run->own[from].name, run->own[to].name, MTIME_TCP);
    return p ? ips_curve_compute_message_ns(&p->curve, bytes)
             : ips_message_time_compute_message_ns(&run->scenario.message_time,
                                                   bytes);
}

static int add_delays_of_held_messages(struct delayed_messages *h,
                                       const struct message_times *times,
                                       struct predict_run *run, uint64_t *idle,
                                       struct ips_err *err)
{
    const struct ips_graph *g = h->g;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t first = g->chains[c].first, to = g->chains[c].machine;
        uint32_t end = first + g->chains[c].count;
        for (uint32_t i = first; i + 1 < end; i++) {
            uint64_t slept = h->raw[to]->wait[i - h->base[to]], way = 0;
            if (slept < PREDICT_HELD_NS || !is_data_arc(g, i) ||
                g->xlen[i] > PREDICT_HELD_BYTES)
                continue;
            int rc = compute_transfer_ns(h, i, to, &way, err);
            if (rc < 0)
                return rc;
            way = ips_sub_sat(
                ips_min_u64(way, slept),
                expected_message_ns(run, times, machine_of_node(h, g->xpred[i]),
                                    to, g->xlen[i]));
            if (way < PREDICT_HELD_NS || way > PREDICT_HELD_MOST)
                continue;
            idle[i + 1] = ips_add_sat(idle[i + 1], way);
            run->held_back_ns = ips_add_sat(run->held_back_ns, way);
            run->held_back_count++;
        }
    }
    return 0;
}

int predict_add_held_back_delays(struct query *q,
                                 const struct whatif_solving *s,
                                 struct predict_run *run, uint64_t *idle)
{
    size_t n = q->gather.count;
    struct delayed_messages h = {.g = s->g,
                                 .raw = calloc(n + 1, sizeof(*h.raw)),
                                 .base = s->d->path.node_base,
                                 .n = (uint32_t)n,
                                 .fit = calloc(n * n + 1, sizeof(*h.fit)),
                                 .fitted =
                                     calloc(n * n + 1, sizeof(*h.fitted))};
    int rc = h.raw && h.fit && h.fitted
                 ? 0
                 : ips_err_set(s->err, IPS_E_NO_MEMORY, "%zu machines", n);
    for (size_t p = 0; p < n && rc == 0; p++)
        h.raw[p] = &engine_data_of_machine(q->gather.active[p])->g;
    if (rc == 0)
        rc = add_delays_of_held_messages(&h, &predict_query_of(q)->times, run,
                                         idle, s->err);
    free(h.raw);
    free(h.fit);
    free(h.fitted);
    return rc;
}
