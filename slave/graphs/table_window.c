#include "slave/graphs/table_window.h"

#include <stdlib.h>

#include "common/types.h"

struct window {
    uint64_t from, to;
};

static bool contains_time(const struct window *w, uint64_t t)
{
    return t >= w->from && t < w->to;
}

/* Spreads `ns` evenly over the time from t0 to t1, and returns the share of the
 * time before t. */
static uint64_t share_of_ns_before_time(uint64_t ns, uint64_t t0, uint64_t t1,
                                        uint64_t t)
{
    if (t <= t0)
        return 0;
    if (t >= t1)
        return ns;
    return (uint64_t)((ips_u128)ns * (t - t0) / (t1 - t0));
}

static uint64_t share_of_ns_in_window(const struct window *w, uint64_t ns,
                                      uint64_t t0, uint64_t t1)
{
    if (t1 <= t0)
        return contains_time(w, t1) ? ns : 0;
    return share_of_ns_before_time(ns, t0, t1, w->to) -
           share_of_ns_before_time(ns, t0, t1, w->from);
}

/* Cuts a lifetime to the window. Returns false if it is outside the window. */
static bool clip_lifetime_to_window(const struct window *w, uint64_t start,
                                    uint64_t end, uint64_t *from, uint64_t *to)
{
    if (start >= w->to || end < w->from)
        return false;
    *from = ips_max_u64(start, w->from);
    *to = ips_max_u64(*from, ips_min_u64(end, w->to));
    return true;
}

static uint64_t cpu_ns_in_window(const struct ips_built *b,
                                 const struct window *w, uint32_t i)
{
    const struct ips_chain *c = &b->g.chains[i];
    const struct ips_thread_row *t = &b->threads[i];
    uint64_t left = t->cpu_ns, sum = 0, last = t->start_ns;
    for (uint32_t n = c->first + 1; n < c->first + c->count; n++) {
        uint64_t ns = ips_min_u64(b->g.w[n], left);
        uint64_t at = ips_max_u64(last, b->g.t_ns[n]);
        sum += share_of_ns_in_window(w, ns, last, at);
        left -= ns;
        last = at;
    }
    return sum +
           share_of_ns_in_window(w, left, last, ips_max_u64(last, t->end_ns));
}

static void add_wait_times_in_window(const struct ips_built *b,
                                     const struct window *w,
                                     const struct ips_wait_row *waits,
                                     uint32_t count,
                                     struct slave_window_thread *threads)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct ips_wait_row *r = &waits[i];
        struct slave_window_thread *t = &threads[ips_chain_of(&b->g, r->arc)];
        if (r->cause >= IPS_WAIT_COUNT)
            continue;
        t->wait_ns[r->cause] += share_of_ns_in_window(
            w, r->ns, ips_sub_sat(r->end_ns, r->ns), r->end_ns);
        t->wait_count[r->cause] += contains_time(w, r->end_ns);
    }
}

static void make_window_processes(const struct ips_built *b,
                                  const struct window *w, uint64_t last,
                                  struct slave_table_window *out)
{
    for (uint32_t i = 0; i < b->proc_count; i++) {
        const struct ips_proc *p = &b->procs[i];
        struct slave_window_process *r = &out->processes[i];
        r->earlier = p->start_ns < w->from;
        r->outside = !clip_lifetime_to_window(w, p->start_ns,
                                              p->end_ns ? p->end_ns : last,
                                              &r->start_ns, &r->end_ns);
    }
    for (uint32_t i = 0; i < b->g.chain_count; i++) {
        struct slave_window_process *r = &out->processes[b->threads[i].process];
        r->cpu_ns = ips_add_sat(r->cpu_ns, out->threads[i].cpu_ns);
    }
}

int slave_table_window_make(const struct ips_built *b,
                            const struct ips_wait_row *waits,
                            uint32_t wait_count, uint64_t from, uint64_t to,
                            struct slave_table_window *out, struct ips_err *err)
{
    const struct window w = {from, to};
    uint64_t last = ips_find_latest_start_or_end_ns(b);
    out->threads = calloc((size_t)b->g.chain_count + 1, sizeof(*out->threads));
    out->processes = calloc((size_t)b->proc_count + 1, sizeof(*out->processes));
    if (!out->threads || !out->processes) {
        slave_table_window_release(out);
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    }
    for (uint32_t i = 0; i < b->g.chain_count; i++) {
        const struct ips_thread_row *t = &b->threads[i];
        struct slave_window_thread *r = &out->threads[i];
        r->outside = !clip_lifetime_to_window(&w, t->start_ns,
                                              t->end_ns ? t->end_ns : last,
                                              &r->start_ns, &r->end_ns);
        r->cpu_ns = cpu_ns_in_window(b, &w, i);
    }
    add_wait_times_in_window(b, &w, waits, wait_count, out->threads);
    make_window_processes(b, &w, last, out);
    return 0;
}

void slave_table_window_release(struct slave_table_window *w)
{
    free(w->threads);
    free(w->processes);
    w->threads = NULL;
    w->processes = NULL;
}
