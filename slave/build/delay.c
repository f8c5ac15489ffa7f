/*
 * Run delay: the time that a thread was runnable but did not run. The kernel
 * has one sum per thread, which the agent reads now and then (RUNDELAY). This
 * pass distributes the sum over the times at which the delay can have been.
 * Between two readings the thread was off the CPU
 *
 *   between calls    taken off the CPU, so it was runnable: filled first. A
 * send that did not wait for space counts as such (match.c) asleep in calls the
 * end of a sleep is the delay after the wake-up, which cannot have begun before
 * the event that woke the thread
 *
 * The delay between two readings (a window) is divided over the gaps of that
 * window in proportion to their length. So the sum of each window is exact,
 * and the positions are as precise as windows are short (IPS_DELAY_EVERY_NS).
 * The delay after a wake-up is subtracted from the wait and becomes part of
 * the arc after the node. Without a reading, the time off the CPU between
 * calls is counted as `unknown`.
 */
#include "slave/build/internal.h"

/* Returns the time off the CPU, in ns, between node i and the one before,
 * outside of calls that slept. */
static uint64_t off_cpu_gap_ns(const struct build *b, uint32_t i,
                               uint32_t first)
{
    const struct ips_graph *g = &b->out->g;
    if (i == first)
        return 0;
    return b_off_cpu_between_calls_ns(g->t_ns[i], g->t_ns[i - 1], b->cpu_at[i],
                                      b->cpu_at[i - 1], b->off[i]);
}

/* Returns how much of the node's own sleep can be delay after the wake-up, ns.
 */
static uint64_t max_wake_delay_of_node_ns(const struct build *b, uint32_t i,
                                          uint32_t first)
{
    const struct ips_graph *g = &b->out->g;
    uint32_t x = g->xpred[i];
    bool caused = x != IPS_NO_NODE && g->xkind[i] != IPS_X_EXTERNAL &&
                  g->xkind[i] != IPS_X_IDLE;
    uint64_t since = caused ? ips_sub_sat(g->t_ns[i], g->t_ns[x]) : 0;
    if (i == first)
        return since; /* the new thread was runnable, but did not run yet */
    return caused ? ips_min_u64(b->out->g.wait[i], since) : b->out->g.wait[i];
}

/* Returns how long the thread slept, before node i, in calls without a node,
 * ns: all of it can be delay after wake-ups. */
static uint64_t max_delay_in_calls_without_node_ns(const struct build *b,
                                                   uint32_t i)
{
    return ips_sub_sat(b->off[i], b->out->g.wait[i]);
}

static uint64_t proportional_share(uint64_t ns, uint64_t share, uint64_t all)
{
    return all ? (uint64_t)((ips_u128)ns * share / all) : 0;
}

/* Distributes `ns` of run delay over nodes [from, to) of chain `c`, which are
 * the nodes of one window. Returns the rest for which the gaps and sleeps of
 * these nodes were too short. */
static uint64_t distribute_delay(struct build *b, uint32_t c, uint32_t from,
                                 uint32_t to, uint64_t ns)
{
    struct ips_graph *g = &b->out->g;
    struct ips_thread_row *row = &b->out->threads[c];
    uint32_t first = g->chains[c].first;
    uint64_t gaps = 0, sleeps = 0;
    for (uint32_t i = from; i < to; i++) {
        gaps = ips_add_sat(gaps, off_cpu_gap_ns(b, i, first));
        sleeps = ips_add_sat(sleeps, max_wake_delay_of_node_ns(b, i, first));
        sleeps = ips_add_sat(sleeps, max_delay_in_calls_without_node_ns(b, i));
    }
    uint64_t early = ips_min_u64(ns, gaps);
    uint64_t late = ips_min_u64(ns - early, sleeps), born = 0;
    for (uint32_t i = from; i < to; i++) {
        uint64_t wake = proportional_share(
            late, max_wake_delay_of_node_ns(b, i, first), sleeps);
        g->delay[i] =
            proportional_share(early, off_cpu_gap_ns(b, i, first), gaps) +
            proportional_share(late, max_delay_in_calls_without_node_ns(b, i),
                               sleeps);
        if (!b_may_peer_be_remote(b, i)) { /* the send may be on another
                                     machine: its time is not known here */
            g->at[i] = ips_sub_sat(g->at[i], wake);
            g->wait[i] = ips_sub_sat(g->wait[i], wake);
        }
        /* distribute_delays_of_chain() adds this delay to the next arc; from
         * here on, `off` is used for nothing else */
        b->off[i] = wake;
        if (i == first)
            born = wake; /* delay before the thread first ran */
    }
    b->out->counts.delay_ns =
        ips_add_sat(b->out->counts.delay_ns, early + late);
    row->delay_ns = ips_add_sat(row->delay_ns, early + late - born);
    row->woken_ns = ips_add_sat(row->woken_ns, late - born);
    return ns - early - late;
}

static void add_unknown_delay(struct build *b, uint32_t c, uint64_t ns)
{
    uint64_t *sum = &b->out->counts.delay_unknown_ns;
    struct ips_thread_row *row = &b->out->threads[c];
    *sum = ips_add_sat(*sum, ns);
    row->unknown_ns = ips_add_sat(row->unknown_ns, ns);
}

static void add_off_cpu_gaps_as_unknown_delay(struct build *b, uint32_t c,
                                              uint32_t from, uint32_t to)
{
    uint32_t first = b->out->g.chains[c].first;
    for (uint32_t i = from; i < to; i++) {
        add_unknown_delay(b, c, off_cpu_gap_ns(b, i, first));
        b->off[i] = 0;
    }
}

/* Processes the nodes after the last reading, which was at t. `left`, the delay
 * that is not distributed yet, belongs to the gap that contains the reading;
 * the delay after the reading is not known. */
static void distribute_delay_after_last_reading(struct build *b, uint32_t c,
                                                uint32_t from, uint32_t end,
                                                uint64_t t, uint64_t left)
{
    uint32_t first = b->out->g.chains[c].first;
    if (from == end || left == 0) {
        add_off_cpu_gaps_as_unknown_delay(b, c, from, end);
        return;
    }
    uint64_t gap = off_cpu_gap_ns(b, from, first);
    uint64_t later = ips_sub_sat(b->out->g.t_ns[from], t);
    uint64_t rest = distribute_delay(b, c, from, from + 1, left);
    add_unknown_delay(b, c, ips_min_u64(later, ips_sub_sat(gap, left - rest)));
    add_off_cpu_gaps_as_unknown_delay(b, c, from + 1, end);
}

/* Returns the next reading of the chain, or NULL, and moves *w after it. Only
 * the last stream of a chain may still get records. */
static const struct b_delay *next_delay_reading(const struct build *b,
                                                struct b_delay_span *w)
{
    for (;;) {
        const struct b_stream *s = &b->streams[w->stream];
        if (!s->task && w->next < s->delay_count)
            return &b->delays.v[s->first_delay + w->next++];
        if (s->next == IPS_NONE)
            return NULL;
        w->stream = s->next;
        w->next = 0;
    }
}

/* Whether the kernel's sum of run delay was zero when the chain began, because
 * the thread was new. */
static bool is_delay_sum_zero_at_start(const struct build *b, uint32_t c)
{
    uint8_t kind = b->streams[b->chains[c].first_stream].start_kind;
    return b->chains[c].fork != IPS_NONE || kind == IPS_START_FORK ||
           kind == IPS_START_THREAD;
}

struct b_delay_span b_make_first_delay_window_of_chain(const struct build *b,
                                                       uint32_t c)
{
    return (struct b_delay_span){.node = b->out->g.chains[c].first,
                                 .stream = b->chains[c].first_stream,
                                 .has_base = is_delay_sum_zero_at_start(b, c)};
}

/* Returns the first window of a chain that is still to be processed. In an
 * incremental build, first restores the sums that the earlier windows added. */
static struct b_delay_span restore_first_open_delay_window(struct build *b,
                                                           uint32_t c)
{
    if (!b->from)
        return b_make_first_delay_window_of_chain(b, c);
    struct b_delay_span w = b->from[c].window;
    struct ips_thread_row *row = &b->out->threads[c];
    row->delay_ns = w.delay_ns;
    row->woken_ns = w.woken_ns;
    row->unknown_ns = w.unknown_ns;
    b->out->counts.delay_ns = ips_add_sat(b->out->counts.delay_ns, w.dealt_ns);
    b->out->counts.delay_unknown_ns =
        ips_add_sat(b->out->counts.delay_unknown_ns, w.unknown_ns);
    return w;
}

/* Saves the sums at the start of window `w`, after the earlier windows were
 * processed. */
static void save_sums_and_append_delay_window(struct build *b, uint32_t c,
                                              struct b_delay_span *w,
                                              uint64_t dealt)
{
    const struct ips_thread_row *row = &b->out->threads[c];
    w->delay_ns = row->delay_ns;
    w->woken_ns = row->woken_ns;
    w->unknown_ns = row->unknown_ns;
    w->dealt_ns = ips_add_sat(w->dealt_ns, dealt);
    b_incremental_add_delay_window(b, c, w);
}

static void distribute_delays_of_chain(struct build *b, uint32_t c)
{
    const struct ips_graph *g = &b->out->g;
    uint32_t first = g->chains[c].first, end = first + g->chains[c].count;
    struct b_delay_span w = restore_first_open_delay_window(b, c);
    const struct b_delay *d = next_delay_reading(b, &w);
    uint32_t i = w.node;
    b->chains[c].read_delays = d || w.read;
    if (!d && !w.read) {
        add_unknown_delay(b, c, b->chains[c].unknown_ns);
        return;
    }
    /* the first reading of a chain changes all its nodes */
    b->broken |= w.node != b_first_open_node(b, c);
    for (; d; d = next_delay_reading(b, &w)) {
        uint64_t before = b->out->counts.delay_ns;
        uint32_t to = i;
        while (to < end && g->t_ns[to] <= d->t)
            to++;
        if (w.has_base && d->ns >= w.known)
            w.left = distribute_delay(b, c, i, to,
                                      ips_add_sat(w.left, d->ns - w.known));
        else
            add_off_cpu_gaps_as_unknown_delay(b, c, i, to);
        w.has_base = w.read = true;
        w.known = d->ns;
        w.last_t = d->t;
        w.node = i = to;
        if (b->incremental)
            save_sums_and_append_delay_window(b, c, &w,
                                              b->out->counts.delay_ns - before);
    }
    uint64_t before = b->out->counts.delay_ns;
    distribute_delay_after_last_reading(b, c, i, end, w.last_t, w.left);
    w.node = end; /* an ended chain gets no more readings */
    w.left = 0;
    if (b->incremental)
        save_sums_and_append_delay_window(b, c, &w,
                                          b->out->counts.delay_ns - before);
    for (i = ips_max_u32(first + 1, b_first_open_node(b, c)); i < end; i++)
        g->delay[i] = ips_add_sat(g->delay[i], b->off[i - 1]);
}

void b_distribute_run_delays(struct build *b)
{
    for (uint32_t c = 0; c < b->out->g.chain_count; c++)
        distribute_delays_of_chain(b, c);
}
