#include "slave/graphs/series.h"

#include "common/large.h"
#include "slave/build/chain_index.h"
#include "slave/build/internal.h"

struct series_builder {
    const struct ips_built *b;
    const struct slave_series_ask *ask;
    struct slave_series *out;
    struct point *last; /* [chains] latest reading of the CPU clock */
    const struct ips_clock *clock;
    uint64_t *cpu, *messages, *bytes, *wait; /* bins of the current row */
    uint32_t chain;
    /* bin that find_time_bin() returned last: the next one is often the same */
    uint32_t bin;
};
struct point {
    uint64_t t, cpu;
};

/* ---- bins ---- */

/* Returns the bin of t; requires edges[0] <= t < edges[bins]. */
static uint32_t find_time_bin(struct series_builder *m, uint64_t t)
{
    const uint64_t *e = m->ask->edges;
    uint32_t low = 0, high = m->ask->bins;
    if (e[m->bin] <= t) {
        if (t < e[m->bin + 1])
            return m->bin;
        low = m->bin;
    }
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (e[mid] <= t)
            low = mid;
        else
            high = mid;
    }
    return m->bin = low;
}

static bool is_time_in_bins(const struct series_builder *m, uint64_t t)
{
    return t >= m->ask->edges[0] && t < m->ask->edges[m->ask->bins];
}

/* Spreads `ns` evenly over the time from t0 to t1, and adds the share of each
 * bin. Rounding keeps the sum of the shares exact. */
static void spread_ns_over_bins(struct series_builder *m, uint64_t *bins,
                                uint64_t t0, uint64_t t1, uint64_t ns)
{
    const uint64_t *e = m->ask->edges;
    uint32_t n = m->ask->bins;
    if (ns == 0 || t1 < e[0] || t0 >= e[n])
        return;
    if (t1 == t0) {
        if (is_time_in_bins(m, t1))
            bins[find_time_bin(m, t1)] += ns;
        return;
    }
    uint64_t from = ips_max_u64(t0, e[0]), length = t1 - t0;
    uint64_t gone = (uint64_t)((ips_u128)ns * (from - t0) / length);
    for (uint32_t i = find_time_bin(m, from); i < n; i++) {
        uint64_t to = ips_min_u64(t1, e[i + 1]);
        uint64_t up_to = (uint64_t)((ips_u128)ns * (to - t0) / length);
        bins[i] += up_to - gone;
        gone = up_to;
        if (to == t1)
            break;
    }
}

/* ---- readings ---- */

/* Handles a reading `cpu` of the thread's CPU clock at time `t`: spreads the
 * CPU time since the last reading over the bins. A reading that runs backwards
 * (damaged records, or an older reading) is ignored. */
static void add_cpu_clock_reading(struct series_builder *m, uint64_t t,
                                  uint64_t cpu)
{
    struct point *last = &m->last[m->chain];
    if (t < last->t || cpu < last->cpu)
        return;
    spread_ns_over_bins(m, m->cpu, last->t, t, cpu - last->cpu);
    *last = (struct point){t, cpu};
}

static void add_cpu_and_wait_of_interval(struct series_builder *m,
                                         uint32_t word, uint64_t t,
                                         uint64_t t_ret, uint64_t cpu,
                                         uint64_t cpu_ret)
{
    uint64_t to = b_stamp_to_ns(m->clock, word, t_ret);
    uint64_t from = ips_min_u64(b_stamp_to_ns(m->clock, word, t), to);
    uint64_t blocked = b_blocked_ns(from, to, cpu, cpu_ret);
    add_cpu_clock_reading(m, from, cpu);
    add_cpu_clock_reading(m, to, ips_max_u64(cpu, cpu_ret));
    if (blocked >= B_BLOCKED_NS)
        spread_ns_over_bins(m, m->wait, from, to, blocked);
}

static void add_io_record(struct series_builder *m, uint32_t type,
                          const uint8_t *data)
{
    struct ips_rec_io r;
    memcpy(&r, data, sizeof(r));
    add_cpu_and_wait_of_interval(m, r.h.word, r.h.t, r.t_ret, r.cpu, r.cpu_ret);
    uint64_t t = b_stamp_to_ns(m->clock, r.h.word, r.h.t);
    if (type != IPS_REC_SEND || r.op == IPS_OP_CONNECT || r.err ||
        r.result <= 0 || !is_time_in_bins(m, t))
        return;
    uint32_t bin = find_time_bin(m, t);
    m->messages[bin]++;
    m->bytes[bin] = ips_add_sat(m->bytes[bin], (uint64_t)r.result);
}

/* Handles a record without a duration, whose head is followed by a reading of
 * the CPU clock. */
static void add_cpu_reading_of_instant_record(struct series_builder *m,
                                              const uint8_t *data)
{
    struct {
        struct ips_rec_head h;
        uint64_t cpu;
    } r;
    memcpy(&r, data, sizeof(r));
    add_cpu_clock_reading(m, b_stamp_to_ns(m->clock, r.h.word, r.h.t), r.cpu);
}

/* Handles a FORK, JOIN, ACQUIRE or RELEASE record; all of these have the
 * members of `r` at their start. */
static void add_readings_and_wait_of_interval_record(struct series_builder *m,
                                                     const uint8_t *data)
{
    struct {
        struct ips_rec_head h;
        uint64_t t_ret, cpu, cpu_ret;
    } r;
    memcpy(&r, data, sizeof(r));
    add_cpu_and_wait_of_interval(m, r.h.word, r.h.t, r.t_ret, r.cpu, r.cpu_ret);
}
#define BEGINS_LIKE(record)                                                    \
    _Static_assert(offsetof(struct record, t_ret) == 16 &&                     \
                       offsetof(struct record, cpu) == 24 &&                   \
                       offsetof(struct record, cpu_ret) == 32,                 \
                   #record)
BEGINS_LIKE(ips_rec_fork);
BEGINS_LIKE(ips_rec_join);
BEGINS_LIKE(ips_rec_sync);
#define CPU_BEHIND_HEAD(record)                                                \
    _Static_assert(offsetof(struct record, cpu) == 16, #record)
CPU_BEHIND_HEAD(ips_rec_start);
CPU_BEHIND_HEAD(ips_rec_end);
CPU_BEHIND_HEAD(ips_rec_proc);
CPU_BEHIND_HEAD(ips_rec_exec);
CPU_BEHIND_HEAD(ips_rec_sample);
CPU_BEHIND_HEAD(ips_rec_text);
CPU_BEHIND_HEAD(ips_rec_signal);
CPU_BEHIND_HEAD(ips_rec_lock);

static void add_cpu_waits_and_messages_of_stream(struct series_builder *m,
                                                 const struct ips_stream_in *in)
{
    struct b_walk walk = {.in = in};
    uint32_t type, len;
    const uint8_t *data;
    m->clock = &in->head.clock;
    while ((data = b_next_record(&walk, &type, &len))) {
        switch (type) {
        case IPS_REC_SEND:
        case IPS_REC_RECV:
        case IPS_REC_RECVCALL:
        case IPS_REC_BLOCK:
            add_io_record(m, type, data);
            break;
        case IPS_REC_FORK:
        case IPS_REC_JOIN:
        case IPS_REC_ACQUIRE:
        case IPS_REC_RELEASE:
            add_readings_and_wait_of_interval_record(m, data);
            break;
        case IPS_REC_START:
        case IPS_REC_END:
        case IPS_REC_ENTER:
        case IPS_REC_EXIT:
        case IPS_REC_EXEC:
        case IPS_REC_SAMPLE:
        case IPS_REC_MARK:
        case IPS_REC_KILL:
        case IPS_REC_SIGNAL:
        case IPS_REC_ACQUIRE_SHORT:
        case IPS_REC_RELEASE_SHORT:
            add_cpu_reading_of_instant_record(m, data);
            break;
        default: /* the other record types have no reading of the CPU clock */
            break;
        }
    }
}

/* ---- chains ---- */

static void set_first_readings(struct series_builder *m)
{
    for (uint32_t c = 0; c < m->b->g.chain_count; c++) {
        const struct ips_thread_row *t = &m->b->threads[c];
        m->last[c] = (struct point){t->start_ns, t->base_cpu_ns};
    }
}

/* Selects the row of this chain; false: the chain is left out. */
static bool make_row_of_chain_current(struct series_builder *m, uint32_t chain)
{
    uint32_t row = m->ask->row ? m->ask->row[chain] : 0;
    if (row >= m->ask->rows)
        return false;
    size_t at = (size_t)row * m->ask->bins;
    m->chain = chain;
    m->cpu = m->out->cpu_ns + at;
    m->messages = m->out->messages + at;
    m->bytes = m->out->bytes + at;
    m->wait = m->out->wait_ns + at;
    return true;
}

/* Adds the CPU time of each thread after the last reading of its CPU clock. */
static void add_cpu_after_last_reading(struct series_builder *m)
{
    const struct ips_built *b = m->b;
    uint32_t spun = 0;
    for (uint32_t c = 0; c < b->g.chain_count; c++) {
        const struct ips_thread_row *t = &b->threads[c];
        const struct ips_chain *chain = &b->g.chains[c];
        uint64_t cpu = ips_add_sat(t->base_cpu_ns, t->cpu_ns);
        for (; spun < b->spun_count &&
               b->spun[spun].node < (uint64_t)chain->first + chain->count;
             spun++)
            cpu = ips_add_sat(cpu, b->spun[spun].ns);
        if (make_row_of_chain_current(m, c))
            add_cpu_clock_reading(m, ips_max_u64(t->end_ns, m->last[c].t), cpu);
    }
}

static int allocate_series(struct series_builder *m, struct ips_err *err)
{
    struct slave_series *s = m->out;
    size_t n = (size_t)s->rows * s->bins;
    s->cpu_ns = b_calloc(n, sizeof(*s->cpu_ns), err);
    s->messages = b_calloc(n, sizeof(*s->messages), err);
    s->bytes = b_calloc(n, sizeof(*s->bytes), err);
    s->wait_ns = b_calloc(n, sizeof(*s->wait_ns), err);
    m->last = b_calloc(m->b->g.chain_count, sizeof(*m->last), err);
    bool all =
        s->cpu_ns && s->messages && s->bytes && s->wait_ns && m->last != NULL;
    return all ? 0 : IPS_E_NO_MEMORY;
}

int slave_series_make(const struct ips_build_input *in,
                      const struct ips_built *b,
                      const struct slave_series_ask *ask,
                      struct slave_series *out, struct ips_err *err)
{
    struct series_builder m = {.b = b, .ask = ask, .out = out};
    *out = (struct slave_series){.bins = ask->bins, .rows = ask->rows};
    struct slave_stream_with_chain *places = NULL;
    int rc = allocate_series(&m, err);
    if (rc == 0 && !(places = slave_list_streams_sorted_by_chain(in, b, err)))
        rc = IPS_E_NO_MEMORY;
    if (rc == 0 && ask->bins > 0) {
        set_first_readings(&m);
        for (uint32_t i = 0; i < in->stream_count; i++)
            if (places[i].chain != IPS_NONE &&
                make_row_of_chain_current(&m, places[i].chain))
                add_cpu_waits_and_messages_of_stream(
                    &m, &in->streams[places[i].stream]);
        add_cpu_after_last_reading(&m);
    }
    ips_free_large(places);
    ips_free_large(m.last);
    if (rc < 0)
        slave_series_release(out);
    return rc;
}

void slave_series_release(struct slave_series *s)
{
    ips_free_large(s->cpu_ns);
    ips_free_large(s->messages);
    ips_free_large(s->bytes);
    ips_free_large(s->wait_ns);
    *s = (struct slave_series){0};
}

uint64_t slave_last_event_ns(const struct ips_built *b)
{
    uint64_t last = b->first_ns;
    for (uint32_t i = 0; i < b->proc_count; i++)
        last = ips_max_u64(last, b->procs[i].end_ns);
    for (uint32_t c = 0; c < b->g.chain_count; c++) {
        const struct ips_chain *chain = &b->g.chains[c];
        uint32_t end = chain->first + chain->count - 1;
        last = ips_max_u64(last, b->threads[c].end_ns);
        last = ips_max_u64(last, b->g.t_ns[end]);
    }
    return last;
}
