#include "slave/profile/code_window.h"

#include "slave/build/internal.h"

/* ---- top procedures of each bin ---- */

static uint32_t find_bin_of_time(const uint64_t *edges, uint32_t bins,
                                 uint64_t t)
{
    uint32_t low = 0, high = bins;
    if (bins == 0 || t < edges[0] || t >= edges[bins])
        return IPS_NONE;
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (edges[mid] <= t)
            low = mid;
        else
            high = mid;
    }
    return low;
}

static int compare_tops_by_bin_and_symbol(const void *va, const void *vb)
{
    const struct slave_top_procedure *a = va, *b = vb;
    CMP3(a->bin, b->bin);
    CMP3(a->symbol, b->symbol);
    return 0;
}

static int compare_tops_by_bin_and_ns(const void *va, const void *vb)
{
    const struct slave_top_procedure *a = va, *b = vb;
    CMP3(a->bin, b->bin);
    CMP3(b->ns, a->ns);
    CMP3(a->symbol, b->symbol);
    return 0;
}

static uint32_t
merge_rows_of_same_bin_and_procedure(struct slave_top_procedure *v, uint32_t n)
{
    uint32_t kept = 0;
    if (n)
        qsort(v, n, sizeof(*v), compare_tops_by_bin_and_symbol);
    for (uint32_t i = 0; i < n; i++) {
        if (kept && compare_tops_by_bin_and_symbol(&v[kept - 1], &v[i]) == 0)
            v[kept - 1].ns = ips_add_sat(v[kept - 1].ns, v[i].ns);
        else
            v[kept++] = v[i];
    }
    return kept;
}

static uint32_t keep_top_procedures_of_each_bin(struct slave_top_procedure *v,
                                                uint32_t n, uint32_t most)
{
    uint32_t kept = 0, bin = IPS_NONE, of_bin = 0;
    if (n)
        qsort(v, n, sizeof(*v), compare_tops_by_bin_and_ns);
    for (uint32_t i = 0; i < n; i++) {
        of_bin = v[i].bin == bin ? of_bin + 1 : 0;
        bin = v[i].bin;
        if (of_bin < most)
            v[kept++] = v[i];
    }
    return kept;
}

int slave_window_find_top_procedures_of_bins(
    const struct slave_profile_cache *costs, const struct ips_built *b,
    const struct slave_proc_names *names, const uint64_t *edges, uint32_t bins,
    uint32_t most, struct slave_top_procedure **out, uint32_t *count,
    struct ips_err *err)
{
    const struct ips_procs *p = &costs->p;
    const struct slave_arcs *a = &p->arcs;
    uint32_t n = 0;
    size_t room = (size_t)a->sample_count + a->exact_count;
    struct slave_top_procedure *v = b_calloc(room, sizeof(*v), err);
    if (!v)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < a->sample_count; i++) {
        const struct slave_arc_sample *s = &a->samples[i];
        uint32_t place = p->frames[p->stacks[s->stack].first];
        v[n].bin = find_bin_of_time(edges, bins, s->t_ns);
        v[n].symbol = slave_proc_of_sampled_location(names, place);
        v[n].ns = s->ns;
        n += v[n].bin != IPS_NONE && v[n].symbol != IPS_NONE;
    }
    for (uint32_t i = 0; i < a->exact_count; i++) {
        const struct slave_arc_exact *e = &a->exacts[i];
        v[n].bin = find_bin_of_time(edges, bins, b->g.t_ns[e->node]);
        v[n].symbol = slave_proc_of_entered_location(names, e->code_location);
        v[n].ns = e->ns;
        n += v[n].bin != IPS_NONE && v[n].symbol != IPS_NONE;
    }
    *count = keep_top_procedures_of_each_bin(
        v, merge_rows_of_same_bin_and_procedure(v, n), most);
    *out = v;
    return 0;
}

/* ---- one window ---- */

/* Sets each thread's samples and times to those in the window. */
static void sum_thread_costs_of_window(struct slave_profile_cache *c,
                                       const struct ips_thread_cost *whole)
{
    for (uint32_t i = 0; i < c->p.sampled_count; i++) {
        const struct ips_sampled *s = &c->p.sampled[i];
        struct ips_thread_cost *t = &c->p.threads[s->chain];
        t->samples += s->samples;
        t->sampled_ns = ips_add_sat(t->sampled_ns, s->ns);
    }
    for (uint32_t i = 0; i < c->p.thread_count; i++) {
        struct ips_thread_cost *t = &c->p.threads[i];
        if (t->samples)
            t->asked_ns = whole[i].asked_ns / whole[i].samples * t->samples;
    }
    for (uint32_t i = 0; i < c->p.exact_count; i++) {
        const struct ips_exact *e = &c->p.exact[i];
        struct ips_thread_cost *t = &c->p.threads[e->chain];
        t->exact = true;
        t->sampled_ns = ips_add_sat(t->sampled_ns, e->self_ns);
    }
}

int slave_make_profile_of_time_window(const struct slave_profile_cache *costs,
                                      const struct ips_built *b,
                                      uint64_t from_ns, uint64_t to_ns,
                                      struct slave_profile_cache *out,
                                      struct ips_err *err)
{
    const struct slave_arcs *a = &costs->p.arcs;
    struct slave_arc_sum s;
    int rc = slave_arc_sum_init(&s, costs, b, err);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < a->sample_count; i++) {
        uint64_t t = a->samples[i].t_ns;
        if (t >= from_ns && t < to_ns)
            s.stood[i] = a->samples[i].ns;
    }
    for (uint32_t i = 0; i < a->exact_count; i++) {
        uint64_t t = b->g.t_ns[a->exacts[i].node];
        if (t >= from_ns && t < to_ns)
            s.exact[i] = a->exacts[i].ns;
    }
    rc = slave_arc_sum_make_profile(&s, out, err);
    if (rc == 0) {
        out->p.of_window = true;
        sum_thread_costs_of_window(out, costs->p.threads);
    }
    slave_arc_sum_release(&s);
    return rc;
}
