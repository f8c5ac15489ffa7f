/* Turns samples, counters, entries and exits into costs; rules in procs.h. */
#include "slave/symbols/procs.h"

#include "agent/pool/pool.h"
#include "slave/base/wordhash.h"
#include "slave/build/chain_index.h"
#include "slave/build/internal.h"

/* maximum weight of a sample that is assigned to an arc */
#define WEIGHT_MAX_NS ((uint64_t)1 << 40)
/* maximum depth of nested calls; deeper ones are not timed */
#define DEPTH_MAX 100000u

/* a recorded call that has not returned yet; `exact`: its row in p->exact */
struct active_call {
    uint32_t exact;
    uint64_t enter_cpu;
};

struct entered_procedure {
    /* number of calls of the procedure in procs_builder.calls (recursion) */
    uint32_t active;
    uint32_t arc; /* `*last` for slave_arc_add_exact_interval_to_arcs() */
};

struct procs_builder {
    struct ips_procs *p;
    const struct ips_built *b;
    struct ips_err *err;
    /* the chains sorted by thread, from slave_list_chains_sorted_by_thread */
    const uint32_t *index;
    struct slave_intern stack_index, sampled_index, exact_index;
    B_ARRAY(struct active_call) calls;
    B_ARRAY(struct entered_procedure)
    entered; /* one entry for each row of p->exact */
    struct slave_arc_walk walk;
    /* State of the current stream: */
    const struct ips_stream_in *in;
    uint32_t image, chain;
    bool begun; /* `cpu` is known */
    /* thread's CPU clock, in ns, at the last sample or at its START record */
    uint64_t cpu;
    /* CPU time of this thread that was attributed to recorded calls so far */
    uint64_t exact_ns;
    /* CPU clock, in ns, at the last entry or exit: the CPU time before it is
     * attributed to calls */
    uint64_t last_cpu;
    /* CPU clock, in ns, when the sampling timers started, and at the thread's
     * last sample, END or EXEC record */
    uint64_t timers_cpu, end_cpu;
    bool timers;
};

/* ---- interning ---- */

struct intern_probe {
    const struct ips_procs *p;
    const uint32_t *frames;
    uint32_t count, chain, what;
    bool spins;
};

static bool same_stack(const void *arg, uint32_t number)
{
    const struct intern_probe *q = arg;
    const struct ips_stack *s = &q->p->stacks[number];
    return s->count == q->count && s->spins == q->spins &&
           memcmp(q->p->frames + s->first, q->frames,
                  q->count * sizeof(*q->frames)) == 0;
}

static bool is_same_sampled_row(const void *arg, uint32_t number)
{
    const struct intern_probe *q = arg;
    return q->p->sampled[number].chain == q->chain &&
           q->p->sampled[number].stack == q->what;
}

static bool is_same_exact_row(const void *arg, uint32_t number)
{
    const struct intern_probe *q = arg;
    return q->p->exact[number].chain == q->chain &&
           q->p->exact[number].code_location == q->what;
}

#define ROOM(array, count, room, err)                                          \
    ((count) < (room) ? 0                                                      \
                      : b_array_reserve((void **)&(array), (count), &(room),   \
                                        sizeof(*(array)), (err)))

static int set_procs_out_of_memory_error(struct procs_builder *m)
{
    return ips_err_set(m->err, IPS_E_NO_MEMORY, "procedures");
}

static int intern_stack(struct procs_builder *m, const uint32_t *frames,
                        uint32_t count, bool spins, uint32_t *number)
{
    struct ips_procs *p = m->p;
    const struct intern_probe q = {
        .p = p, .frames = frames, .count = count, .spins = spins};
    bool fresh;
    int rc = ROOM(p->stacks, p->stack_count, p->stack_capacity, m->err);
    while (rc == 0 && p->frame_capacity - p->frame_count < count)
        rc = b_array_reserve((void **)&p->frames, p->frame_capacity,
                             &p->frame_capacity, sizeof(*p->frames), m->err);
    if (rc < 0)
        return rc;
    *number = slave_intern_find_or_add(
        &m->stack_index, slave_hash_bytes(3, frames, count * sizeof(*frames)),
        same_stack, &q, &fresh);
    if (*number == UINT32_MAX)
        return set_procs_out_of_memory_error(m);
    if (fresh) {
        p->stacks[p->stack_count++] =
            (struct ips_stack){p->frame_count, count, spins};
        memcpy(p->frames + p->frame_count, frames, count * sizeof(*frames));
        p->frame_count += count;
    }
    return 0;
}

static uint64_t pair_hash(uint32_t a, uint32_t b)
{
    const uint64_t word = (uint64_t)a << 32 | b;
    return slave_hash_bytes(4, &word, sizeof(word));
}

static int intern_sampled_stack_row(struct procs_builder *m, uint32_t stack,
                                    uint32_t *number)
{
    struct ips_procs *p = m->p;
    const struct intern_probe q = {.p = p, .chain = m->chain, .what = stack};
    bool fresh;
    int rc = ROOM(p->sampled, p->sampled_count, p->sampled_capacity, m->err);
    if (rc < 0)
        return rc;
    *number =
        slave_intern_find_or_add(&m->sampled_index, pair_hash(m->chain, stack),
                                 is_same_sampled_row, &q, &fresh);
    if (*number == UINT32_MAX)
        return set_procs_out_of_memory_error(m);
    if (fresh)
        p->sampled[p->sampled_count++] =
            (struct ips_sampled){.chain = m->chain, .stack = stack};
    return 0;
}

static int intern_exact_row(struct procs_builder *m, uint32_t place,
                            uint32_t *number)
{
    struct ips_procs *p = m->p;
    const struct intern_probe q = {.p = p, .chain = m->chain, .what = place};
    bool fresh;
    int rc = ROOM(p->exact, p->exact_count, p->exact_capacity, m->err);
    if (rc == 0)
        rc = B_MORE(m->entered, m->err);
    if (rc < 0)
        return rc;
    *number =
        slave_intern_find_or_add(&m->exact_index, pair_hash(m->chain, place),
                                 is_same_exact_row, &q, &fresh);
    if (*number == UINT32_MAX)
        return set_procs_out_of_memory_error(m);
    if (fresh) {
        p->exact[p->exact_count++] =
            (struct ips_exact){.chain = m->chain, .code_location = place};
        m->entered.v[m->entered.n++] = (struct entered_procedure){0};
    }
    return 0;
}

/* ---- samples ---- */

/* Returns the weight of a sample, in ns (procs.h has the rule); m->cpu is the
 * CPU clock at the preceding sample. */
static uint64_t compute_sample_weight(const struct procs_builder *m,
                                      const struct ips_rec_sample *r)
{
    uint64_t gap = ips_sub_sat(r->cpu, m->cpu), period = r->period_ns;
    if (period == 0 || !m->begun)
        return period;
    return gap / period < 3 ? period : gap / period * period;
}

static int add_sample_record(struct procs_builder *m, const uint8_t *data,
                             uint32_t len, uint64_t t)
{
    struct ips_rec_sample r;
    uint32_t places[IPS_REC_MAX_BYTES / 8], kept = 0, stack = 0, row = 0;
    struct ips_thread_cost *cost = &m->p->threads[m->chain];
    memcpy(&r, data, sizeof(r));
    const uint32_t flags = ips_rec_flags(&r.h);
    uint32_t room = (len - (uint32_t)sizeof(r)) / 8;
    uint32_t count = r.h.a < room ? r.h.a : room;
    if (r.h.a == 0 && !m->timers) {
        m->timers = cost->timers = true;
        m->timers_cpu = r.cpu;
    }
    m->end_cpu = ips_max_u64(m->end_cpu, r.cpu);
    if (cost->exact || count == 0)
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t address;
        memcpy(&address, data + sizeof(r) + 8 * (size_t)i, sizeof(address));
        int rc = ips_codemap_find_or_add_location(
            &m->p->map, m->image, address, t, i > 0, &places[kept], m->err);
        if (rc < 0)
            return rc;
        /* Skip the agent's own frames: its wrappers are between the program and
         * libc. */
        if (i == 0 || !ips_code_belongs_to_ips(&m->p->map, places[kept]))
            kept++;
    }
    int rc = intern_stack(m, places, kept, flags & IPS_REC_F_SPINS, &stack);
    if (rc == 0)
        rc = intern_sampled_stack_row(m, stack, &row);
    if (rc < 0)
        return rc;
    uint64_t weight = compute_sample_weight(m, &r);
    m->begun = true;
    m->cpu = ips_max_u64(m->cpu, r.cpu);
    struct ips_sampled *s = &m->p->sampled[row];
    double square = (double)weight * (double)weight;
    s->ns = ips_add_sat(s->ns, weight);
    s->samples++;
    s->squares += flags & IPS_REC_F_LATE ? square * IPS_LATE_SQUARES : square;
    cost->samples++;
    cost->sampled_ns = ips_add_sat(cost->sampled_ns, weight);
    cost->asked_ns = ips_add_sat(cost->asked_ns, r.period_ns);
    return slave_arc_add_sample(&m->p->arcs, &m->walk, m->cpu, t, stack,
                                ips_min_u64(weight, WEIGHT_MAX_NS), m->err);
}

/* ---- entries and exits ---- */

/* Attributes the CPU time since the last entry or exit to the innermost active
 * call. */
static int charge_time_to_innermost_call(struct procs_builder *m, uint64_t cpu)
{
    uint64_t from = m->last_cpu, passed = ips_sub_sat(cpu, from);
    m->last_cpu = ips_max_u64(m->last_cpu, cpu);
    if (m->calls.n == 0 || passed == 0)
        return 0;
    uint32_t row = m->calls.v[m->calls.n - 1].exact;
    struct ips_exact *e = &m->p->exact[row];
    e->self_ns = ips_add_sat(e->self_ns, passed);
    m->exact_ns = ips_add_sat(m->exact_ns, passed);
    return slave_arc_add_exact_interval_to_arcs(&m->p->arcs, &m->walk, from,
                                                m->last_cpu, e->code_location,
                                                &m->entered.v[row].arc, m->err);
}

/* Ends the innermost active call, and adds its time to the procedure's total
 * unless an outer call of the same procedure is still active (recursion). */
static void end_innermost_call(struct procs_builder *m)
{
    const struct active_call *c = &m->calls.v[--m->calls.n];
    struct ips_exact *e = &m->p->exact[c->exact];
    if (--m->entered.v[c->exact].active == 0)
        e->total_ns =
            ips_add_sat(e->total_ns, ips_sub_sat(m->last_cpu, c->enter_cpu));
}

static int add_enter_or_exit_record(struct procs_builder *m, uint32_t type,
                                    const uint8_t *data, uint64_t t)
{
    struct ips_rec_proc r;
    uint32_t place = 0, row = 0;
    memcpy(&r, data, sizeof(r));
    int rc = ips_codemap_find_or_add_location(&m->p->map, m->image, r.procedure,
                                              t, false, &place, m->err);
    if (rc == 0)
        rc = intern_exact_row(m, place, &row);
    if (rc == 0)
        rc = B_MORE(m->calls, m->err);
    if (rc < 0)
        return rc;
    if (!m->begun)
        m->last_cpu = r.cpu;
    m->begun = true;
    rc = charge_time_to_innermost_call(m, r.cpu);
    if (rc < 0)
        return rc;
    struct ips_exact *e = &m->p->exact[row];
    if (type == IPS_REC_ENTER) {
        e->calls++;
        e->timed = true;
        if (m->calls.n >= DEPTH_MAX)
            return 0;
        m->calls.v[m->calls.n++] = (struct active_call){row, m->last_cpu};
        m->entered.v[row].active++;
    } else if (m->entered.v[row].active > 0) {
        while (m->calls.v[m->calls.n - 1].exact != row)
            end_innermost_call(m);
        end_innermost_call(m);
    }
    return 0;
}

/* Returns the chain that thread `tid` of the current image had at time `t`, for
 * a COUNT record. `tid` 0 is the thread of the current stream. */
static uint32_t find_chain_of_thread_at_time(const struct procs_builder *m,
                                             uint32_t tid, uint64_t t)
{
    struct ips_segment_header head = m->in->head;
    if (tid == 0 || tid == head.tid)
        return m->chain;
    head.tid = tid;
    return slave_chain_of_stream(m->b, m->index, &head, t);
}

static int add_count_record(struct procs_builder *m, const uint8_t *data,
                            uint64_t t)
{
    struct ips_rec_count r;
    uint32_t place = 0, row = 0, own = m->chain;
    memcpy(&r, data, sizeof(r));
    m->chain = find_chain_of_thread_at_time(m, r.h.a, t);
    int rc = m->chain == IPS_NONE
                 ? 0
                 : ips_codemap_find_or_add_location(&m->p->map, m->image,
                                                    r.procedure, t, false,
                                                    &place, m->err);
    bool known = m->chain != IPS_NONE;
    if (rc == 0 && known)
        rc = intern_exact_row(m, place, &row);
    m->chain = own;
    if (rc < 0 || !known)
        return rc;
    struct ips_exact *e = &m->p->exact[row];
    e->calls = ips_add_sat(e->calls, r.calls);
    if (r.calls == 0 && !e->counted_from_ns)
        e->counted_from_ns = t;
    return 0;
}

/* ---- streams ---- */

static bool may_have_procedure_entries(const struct ips_stream_in *in)
{
    return b_may_hold_type(in, IPS_REC_ENTER) ||
           b_may_hold_type(in, IPS_REC_EXIT) ||
           b_may_hold_type(in, IPS_REC_ENTER_SHORT) ||
           b_may_hold_type(in, IPS_REC_EXIT_SHORT);
}

/* Returns false if the stream certainly has no samples, entries or counts. Then
 * its START and END do not matter, either. */
static bool may_have_profile_records(const struct ips_stream_in *in)
{
    return may_have_procedure_entries(in) ||
           b_may_hold_type(in, IPS_REC_SAMPLE) ||
           b_may_hold_type(in, IPS_REC_COUNT);
}

/* Returns true if the stream has entries or exits. Then the thread's samples
 * are not used, because they would count the same CPU time twice. */
static bool has_procedure_entries(const struct ips_stream_in *in)
{
    struct b_walk walk = {.in = in};
    uint32_t type, len;
    if (!may_have_procedure_entries(in))
        return false;
    while (b_next_record(&walk, &type, &len))
        if (type == IPS_REC_ENTER || type == IPS_REC_EXIT)
            return true;
    return false;
}

static int add_profile_records_of_stream(struct procs_builder *m)
{
    struct b_walk walk = {.in = m->in};
    uint32_t type, len;
    const uint8_t *data;
    if (!may_have_profile_records(m->in))
        return 0;
    while ((data = b_next_record(&walk, &type, &len))) {
        struct ips_rec_head h;
        int rc = 0;
        memcpy(&h, data, sizeof(h));
        uint64_t t = b_stamp_to_ns(&m->in->head.clock, h.word, h.t);
        if (type == IPS_REC_START && !m->begun) {
            struct ips_rec_start r;
            memcpy(&r, data, sizeof(r));
            m->cpu = m->last_cpu = ips_max_u64(m->cpu, r.cpu);
            /* With --on-full=ring, records between START and the first sample
             * may be overwritten: then the CPU time between these two does not
             * give the weight of the sample. */
            m->begun = !m->in->lost[IPS_LOST_OVERWRITTEN];
        } else if (type == IPS_REC_SAMPLE) {
            rc = add_sample_record(m, data, len, t);
        } else if (type == IPS_REC_ENTER || type == IPS_REC_EXIT) {
            rc = add_enter_or_exit_record(m, type, data, t);
        } else if (type == IPS_REC_COUNT) {
            rc = add_count_record(m, data, t);
        } else if (type == IPS_REC_LOST) {
            /* the lost records may include samples, so the CPU time since the
             * preceding sample is unknown */
            m->begun = false;
        } else if (type == IPS_REC_END) {
            struct ips_rec_end r;
            memcpy(&r, data, sizeof(r));
            m->end_cpu = ips_max_u64(m->end_cpu, r.cpu);
            rc = charge_time_to_innermost_call(m, r.cpu);
        } else if (type == IPS_REC_EXEC) {
            struct ips_rec_exec r;
            memcpy(&r, data, sizeof(r));
            m->end_cpu = ips_max_u64(m->end_cpu, r.cpu);
        }
        if (rc < 0)
            return rc;
    }
    while (m->calls.n > 0)
        end_innermost_call(m);
    struct ips_thread_cost *cost = &m->p->threads[m->chain];
    if (m->timers)
        cost->timed_ns =
            ips_add_sat(cost->timed_ns, ips_sub_sat(m->end_cpu, m->timers_cpu));
    if (cost->exact)
        cost->sampled_ns = ips_add_sat(cost->sampled_ns, m->exact_ns);
    return 0;
}

static void compute_unsampled_time(const struct procs_builder *m)
{
    const struct ips_procs *p = m->p;
    /* longest mean sampling period of a thread, in ns; used for all threads */
    uint64_t period = 0;
    /* true: the records say when the sampling timers started (those of older
     * agents do not) */
    bool timers = false;
    for (uint32_t i = 0; i < p->thread_count; i++) {
        const struct ips_thread_cost *t = &p->threads[i];
        timers = timers || t->timers;
        if (t->samples)
            period = ips_max_u64(period, t->asked_ns / t->samples);
    }
    for (uint32_t i = 0; i < p->thread_count; i++)
        p->threads[i].cpu_ns = m->b->threads[i].cpu_ns;
    for (uint32_t i = 0; i < m->b->spun_count; i++) {
        const struct ips_spun *s = &m->b->spun[i];
        uint32_t chain = ips_chain_of(&m->b->g, (uint32_t)s->node);
        p->threads[chain].cpu_ns = ips_add_sat(p->threads[chain].cpu_ns, s->ns);
    }
    for (uint32_t i = 0; i < p->thread_count; i++) {
        struct ips_thread_cost *t = &p->threads[i];
        uint64_t cpu = t->cpu_ns;
        uint64_t timed = timers ? ips_min_u64(t->timed_ns, cpu) : cpu;
        uint64_t chance = ips_add_sat(t->sampled_ns, period);
        t->unsampled_ns = t->exact ? ips_sub_sat(cpu, t->sampled_ns)
                                   : cpu - timed + ips_sub_sat(timed, chance);
    }
}

static int add_profile_records_of_streams(struct procs_builder *m,
                                          const struct ips_build_input *in,
                                          const uint32_t *chains)
{
    for (uint32_t i = 0; i < in->stream_count; i++)
        if (chains[i] != IPS_NONE && has_procedure_entries(&in->streams[i]))
            m->p->threads[chains[i]].exact = true;
    for (uint32_t i = 0; i < in->stream_count; i++) {
        if (chains[i] == IPS_NONE)
            continue;
        m->in = &in->streams[i];
        m->chain = chains[i];
        m->image = ips_codemap_find_image_of_stream(&m->p->map, &m->in->head);
        m->cpu = m->last_cpu = m->exact_ns = m->end_cpu = 0;
        m->begun = m->timers = false;
        slave_arc_walk_init_at_chain(&m->walk, m->b, m->chain);
        int rc = add_profile_records_of_stream(m);
        if (rc < 0)
            return rc;
    }
    compute_unsampled_time(m);
    return 0;
}

static int make_pools_of_similar_arcs(struct procs_builder *m)
{
    uint32_t n = m->p->thread_count;
    bool *exact = b_calloc(n, sizeof(*exact), m->err);
    if (!exact)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        exact[i] = m->p->threads[i].exact;
    int rc = slave_arcs_sort_samples_and_make_pools(&m->p->arcs, m->b, exact,
                                                    m->err);
    ips_free_large(exact);
    return rc;
}

int ips_procs_make_profile_by_code_location(const struct ips_build_input *in,
                                            const struct ips_built *b,
                                            struct ips_procs *out,
                                            struct ips_err *err)
{
    struct procs_builder m = {.p = out, .b = b, .err = err};
    uint32_t *index = NULL, *chains = NULL;
    memset(out, 0, sizeof(*out));
    out->thread_count = b->g.chain_count;
    out->threads = b_calloc(out->thread_count, sizeof(*out->threads), err);
    chains = b_calloc(in->stream_count, sizeof(*chains), err);
    index = slave_list_chains_sorted_by_thread(b);
    m.index = index;
    int rc =
        out->threads && chains && index ? 0 : set_procs_out_of_memory_error(&m);
    for (uint32_t i = 0; rc == 0 && i < in->stream_count; i++) {
        const struct ips_segment_header *h = &in->streams[i].head;
        chains[i] = slave_chain_of_stream(
            b, index, h, b_ticks_to_ns(&h->clock, h->stream_stamp));
    }
    if (rc == 0)
        rc = ips_codemap_make(in, &out->map, err);
    if (rc == 0)
        rc = add_profile_records_of_streams(&m, in, chains);
    if (rc == 0)
        rc = make_pools_of_similar_arcs(&m);
    ips_free_large(chains);
    ips_free_large(index);
    ips_free_large(m.calls.v);
    ips_free_large(m.entered.v);
    slave_intern_release(&m.stack_index);
    slave_intern_release(&m.sampled_index);
    slave_intern_release(&m.exact_index);
    if (rc < 0)
        ips_procs_release(out);
    return rc;
}

void ips_procs_release(struct ips_procs *p)
{
    ips_codemap_release(&p->map);
    slave_arcs_release(&p->arcs);
    ips_free_large(p->frames);
    ips_free_large(p->stacks);
    ips_free_large(p->sampled);
    ips_free_large(p->exact);
    ips_free_large(p->threads);
    memset(p, 0, sizeof(*p));
}
