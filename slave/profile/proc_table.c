/* Combines costs and names into rows; see proc_table.h. */
#include "slave/profile/proc_table.h"

#include "slave/base/wordhash.h"
#include "slave/build/chain_index.h"
#include "slave/build/internal.h"

struct proc_table_builder {
    struct slave_proc_table *t;
    const struct slave_profile_cache *c;
    const struct ips_built *b;
    struct ips_err *err;
    struct slave_intern row_index;
    /* CPU of the table's threads, including time spent spinning */
    uint64_t cpu_ns;
    /* `seen` [symbols]: `serial` of the last stack that has the symbol, so that
     * recursion counts once */
    uint32_t *seen, serial;
    bool *in; /* [chains] whether the thread belongs to the object */
};

static bool same_row(const void *arg, uint32_t number)
{
    const struct slave_proc_row *const *pair = arg;
    const struct slave_proc_row *a = pair[0], *b = &pair[1][number];
    return a->process == b->process && a->symbol == b->symbol;
}

static int find_or_add_row(struct proc_table_builder *m, uint32_t chain,
                           uint32_t symbol, struct slave_proc_row **row)
{
    struct slave_proc_table *t = m->t;
    const struct slave_proc_row key = {.process = m->b->g.chains[chain].process,
                                       .symbol = symbol,
                                       .calls = IPS_CPU_UNKNOWN};
    const uint64_t word = (uint64_t)key.process << 32 | symbol;
    bool fresh;
    if (t->row_count == t->row_capacity) {
        int rc = b_array_reserve((void **)&t->rows, t->row_count,
                                 &t->row_capacity, sizeof(*t->rows), m->err);
        if (rc < 0)
            return rc;
    }
    const struct slave_proc_row *const pair[2] = {&key, t->rows};
    uint32_t number = slave_intern_find_or_add(
        &m->row_index, slave_hash_bytes(5, &word, sizeof(word)), same_row, pair,
        &fresh);
    if (number == UINT32_MAX)
        return ips_err_set(m->err, IPS_E_NO_MEMORY, "procedures");
    if (fresh)
        t->rows[t->row_count++] = key;
    *row = &t->rows[number];
    return 0;
}

static int add_sampled_stack_to_rows(struct proc_table_builder *m,
                                     const struct ips_sampled *s)
{
    const struct ips_stack *stack = &m->c->p.stacks[s->stack];
    const struct slave_proc_names *n = &m->t->names;
    struct slave_proc_row *row;
    bool innermost = true;
    m->serial++;
    for (uint32_t i = 0; i < stack->count; i++) {
        uint32_t place = m->c->p.frames[stack->first + i];
        for (uint32_t k = n->first[place]; k < n->first[place + 1]; k++) {
            uint32_t symbol = n->of[k];
            if (m->seen[symbol] == m->serial)
                continue;
            m->seen[symbol] = m->serial;
            int rc = find_or_add_row(m, s->chain, symbol, &row);
            if (rc < 0)
                return rc;
            row->total_ns = ips_add_sat(row->total_ns, s->ns);
            row->sampled_total_ns = ips_add_sat(row->sampled_total_ns, s->ns);
            if (innermost) {
                row->self_ns = ips_add_sat(row->self_ns, s->ns);
                row->sampled_self_ns = ips_add_sat(row->sampled_self_ns, s->ns);
                row->samples += s->samples;
            }
            innermost = false;
        }
    }
    m->t->totals.squares += s->squares;
    return 0;
}

static int add_exact_times_to_row(struct proc_table_builder *m,
                                  const struct ips_exact *e)
{
    struct slave_proc_row *row;
    uint32_t symbol =
        slave_proc_of_entered_location(&m->t->names, e->code_location);
    if (symbol == IPS_NONE)
        return 0;
    int rc = find_or_add_row(m, e->chain, symbol, &row);
    if (rc < 0)
        return rc;
    row->calls =
        ips_add_sat(row->calls == IPS_CPU_UNKNOWN ? 0 : row->calls, e->calls);
    row->self_ns = ips_add_sat(row->self_ns, e->self_ns);
    row->total_ns = ips_add_sat(row->total_ns, e->total_ns);
    row->exact = row->exact || e->timed;
    if (e->counted_from_ns &&
        (!row->counted_from_ns || e->counted_from_ns < row->counted_from_ns))
        row->counted_from_ns = e->counted_from_ns;
    return 0;
}

static void add_thread_to_totals(struct proc_table_builder *m, uint32_t chain)
{
    const struct ips_thread_cost *c = &m->c->p.threads[chain];
    struct slave_proc_totals *t = &m->t->totals;
    t->threads++;
    m->cpu_ns = ips_add_sat(m->cpu_ns, c->cpu_ns);
    t->cpu_ns = ips_add_sat(t->cpu_ns, m->b->threads[chain].cpu_ns);
    t->sampled_ns = ips_add_sat(t->sampled_ns, c->sampled_ns);
    t->unsampled_ns = ips_add_sat(t->unsampled_ns, c->unsampled_ns);
    t->samples += c->samples;
    t->asked_ns = ips_add_sat(t->asked_ns, c->asked_ns);
    if (c->exact) {
        t->exact_threads++;
        t->exact_ns = ips_add_sat(t->exact_ns, c->sampled_ns);
    }
}

static int make_rows_and_totals_of_object(struct proc_table_builder *m,
                                          const char *machine,
                                          const char *object)
{
    uint32_t n = m->b->g.chain_count;
    int rc = 0;
    m->in = b_calloc(n, sizeof(*m->in), m->err);
    m->seen = b_calloc(m->t->names.symbol_count, sizeof(*m->seen), m->err);
    if (!m->in || !m->seen)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < n && i < m->c->p.thread_count; i++) {
        m->in[i] = slave_is_chain_of_object(m->b, machine, object, i);
        if (m->in[i])
            add_thread_to_totals(m, i);
    }
    for (uint32_t i = 0; rc == 0 && i < m->c->p.sampled_count; i++)
        if (m->in[m->c->p.sampled[i].chain])
            rc = add_sampled_stack_to_rows(m, &m->c->p.sampled[i]);
    for (uint32_t i = 0; rc == 0 && i < m->c->p.exact_count; i++)
        if (m->in[m->c->p.exact[i].chain])
            rc = add_exact_times_to_row(m, &m->c->p.exact[i]);
    return rc;
}

void slave_proc_table_scale_to_cpu(struct slave_proc_table *t, uint64_t cpu_ns)
{
    struct slave_proc_totals *sum = &t->totals;
    uint64_t raw = ips_sub_sat(sum->sampled_ns, sum->exact_ns);
    uint64_t left = ips_sub_sat(cpu_ns, sum->exact_ns);
    if (raw == 0) {
        sum->unsampled_ns = left;
        return;
    }
    sum->unsampled_ns = ips_min_u64(sum->unsampled_ns, left);
    uint64_t covered = left - sum->unsampled_ns;
    double factor = (double)covered / (double)raw;
    struct slave_proportional_split share;
    slave_proportional_split_init(&share, covered, raw, 0);
    for (uint32_t i = 0; i < t->row_count; i++) {
        struct slave_proc_row *r = &t->rows[i];
        uint64_t self =
            slave_proportional_split_compute_share(&share, r->sampled_self_ns);
        /* Round up, so that a procedure's total time is not less than the sum
         * of the self times of the procedures below it. */
        uint64_t total =
            (uint64_t)(((ips_u128)covered * r->sampled_total_ns + raw - 1) /
                       raw);
        total = r->sampled_total_ns == r->sampled_self_ns
                    ? self
                    : ips_min_u64(total, covered);
        r->self_ns = ips_add_sat(r->self_ns - r->sampled_self_ns, self);
        r->total_ns = ips_add_sat(r->total_ns - r->sampled_total_ns, total);
        r->sampled_self_ns = self;
        r->sampled_total_ns = total;
    }
    sum->sampled_ns = ips_add_sat(sum->exact_ns, covered);
    sum->squares *= factor * factor;
}

int slave_proc_table_make(const struct slave_profile_cache *costs,
                          const struct ips_built *b, const char *machine,
                          const char *object, enum slave_proc_by by,
                          struct slave_proc_table *out, struct ips_err *err)
{
    struct proc_table_builder m = {.t = out, .c = costs, .b = b, .err = err};
    memset(out, 0, sizeof(*out));
    int rc = slave_proc_names_number_procedures(costs, by, &out->names, err);
    if (rc == 0)
        rc = make_rows_and_totals_of_object(&m, machine, object);
    if (rc == 0 && !costs->p.of_window)
        slave_proc_table_scale_to_cpu(out, m.cpu_ns);
    ips_free_large(m.seen);
    ips_free_large(m.in);
    slave_intern_release(&m.row_index);
    if (rc < 0)
        slave_proc_table_release(out);
    return rc;
}

static void merge_row_into(struct slave_proc_row *into,
                           const struct slave_proc_row *r)
{
    into->self_ns = ips_add_sat(into->self_ns, r->self_ns);
    into->total_ns = ips_add_sat(into->total_ns, r->total_ns);
    into->samples += r->samples;
    into->sampled_self_ns += r->sampled_self_ns;
    into->sampled_total_ns += r->sampled_total_ns;
    if (into->calls == IPS_CPU_UNKNOWN)
        into->calls = r->calls;
    else if (r->calls != IPS_CPU_UNKNOWN)
        into->calls = ips_add_sat(into->calls, r->calls);
    into->exact = into->exact || r->exact;
    if (r->counted_from_ns &&
        (!into->counted_from_ns || r->counted_from_ns < into->counted_from_ns))
        into->counted_from_ns = r->counted_from_ns;
}

int slave_proc_table_merge_processes(struct slave_proc_table *t,
                                     struct ips_err *err)
{
    uint32_t *place = b_calloc(t->names.symbol_count, sizeof(*place), err);
    uint32_t n = 0;
    if (!place)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < t->row_count; i++) {
        struct slave_proc_row *r = &t->rows[i];
        uint32_t *at = &place[r->symbol]; /* row number + 1; 0: none yet */
        if (*at) {
            merge_row_into(&t->rows[*at - 1], r);
        } else {
            t->rows[n] = *r;
            *at = ++n;
        }
    }
    t->row_count = n;
    ips_free_large(place);
    return 0;
}

void slave_proc_table_release(struct slave_proc_table *t)
{
    ips_free_large(t->rows);
    slave_proc_names_release(&t->names);
    memset(t, 0, sizeof(*t));
}
