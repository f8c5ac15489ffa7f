/*
 * `why` for a window of a run: cuts the merged graph so that everything outside
 * the window has no weight. All later steps (roles, concurrent activity, gains)
 * then work as for a whole run. So each finding is about the time that the
 * window would take in a run in which everything else takes no time. Only the
 * set of threads that could work comes from the whole run: a thread that waits
 * throughout the window needs a core too.
 *
 * The time of a chain arc is placed as follows. The arc's work begins when the
 * previous node was passed. Its CPU time is placed where the slave's samples
 * are (arc profile of the window); its run delay is spread evenly. Sleep before
 * the node is at the end of the arc. The time of an arc from another thread is
 * just before the node that it reaches (slave/profile/window.h).
 */
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/query/machine_share.h"
#include "master/why/facts.h"

static int set_why_no_memory_error(struct why_solving *y)
{
    return ips_err_set(y->s.err, IPS_E_NO_MEMORY, "no memory for a window");
}

static const struct path_window *window_of(const struct why_solving *y)
{
    return &y->d->w.path.window;
}

/* Returns how many of the `ns` that end at `end` are inside the window. */
static uint64_t ns_within(const struct path_window *w, uint64_t end,
                          uint64_t ns)
{
    uint64_t past = w->to_ns ? ips_sub_sat(end, w->to_ns) : 0;
    /* If the window has no start, it begins before all of `ns`, even if `ns` is
     * longer than the time since the run's start. */
    uint64_t since = w->from_ns ? ips_sub_sat(end, w->from_ns) : UINT64_MAX;
    return ips_sub_sat(ns, ips_min_u64(past, since)) - ips_sub_sat(ns, since);
}

uint64_t why_ns_in_window(const struct why_solving *y, uint64_t end,
                          uint64_t ns)
{
    return window_of(y)->is_set ? ns_within(window_of(y), end, ns) : ns;
}

bool why_is_in_window(const struct why_solving *y, uint64_t at)
{
    const struct path_window *w = window_of(y);
    return !w->is_set || (at > w->from_ns && (!w->to_ns || at <= w->to_ns));
}

void why_clip_to_window(const struct why_solving *y, uint64_t *from,
                        uint64_t *to)
{
    const struct path_window *w = window_of(y);
    if (!w->is_set)
        return;
    *from = ips_max_u64(*from, w->from_ns);
    if (w->to_ns)
        *to = ips_min_u64(*to, w->to_ns);
}

/* Spreads `ns` evenly over [from, to], and returns the part of it inside the
 * window. */
static uint64_t spread_ns_in_window(const struct path_window *w, uint64_t ns,
                                    uint64_t from, uint64_t to)
{
    uint64_t all = ips_sub_sat(to, from), in = ns_within(w, to, all);
    return in == all ? ns : all ? (uint64_t)((ips_u128)ns * in / all) : 0;
}

/* Adds to in[] the CPU time inside the window that the slave of machine `part`
 * reports for the arc into each node. */
static int add_reported_cpu_inside_window(struct why_solving *y, uint32_t part,
                                          uint64_t *in)
{
    const struct arc_profile *p = &y->d->w.arc_profile[part];
    uint32_t base = y->d->w.path.node_base[part];
    const struct machine_share *of = y->s.q->gather.active[part];
    uint32_t count = engine_data_of_machine(of)->g.node_count;
    for (uint64_t k = 0; k < p->count; k++) {
        if (p->node[k] >= count)
            return ips_err_set(y->s.err, IPS_E_PROTOCOL,
                               "a portion of node %u of %u", p->node[k], count);
        in[base + p->node[k]] = ips_add_sat(in[base + p->node[k]], p->ns[k]);
    }
    return 0;
}

static void cut_arc_to_window(struct why_solving *y, uint32_t i, uint64_t in)
{
    const struct path_window *w = window_of(y);
    struct ips_graph *g = &y->d->w.path.merged;
    uint64_t begin = y->wall.est[i - 1], end = y->wall.est[i];
    uint64_t done = ips_min_u64(ips_add_sat(begin, g->w[i]), end);
    uint64_t work = ips_sub_sat(done, ips_min_u64(y->outside[i], done - begin));
    bool whole = ns_within(w, end, end - begin) == end - begin &&
                 (end > begin || why_is_in_window(y, end));
    if (whole)
        return;
    y->cpu[i] = ips_min_u64(y->cpu[i], in);
    y->delay[i] = spread_ns_in_window(w, y->delay[i], begin, work);
    y->outside[i] = ns_within(w, done, y->outside[i]);
}

int why_cut_arcs_and_waits_to_window(struct why_solving *y)
{
    struct ips_graph *g = &y->d->w.path.merged;
    size_t n = (size_t)g->node_count + 1;
    uint64_t *in = calloc(n, sizeof(*in));
    y->all_cpu = malloc(n * sizeof(*y->all_cpu));
    int rc = in && y->all_cpu ? 0 : set_why_no_memory_error(y);
    if (rc == 0)
        memcpy(y->all_cpu, y->cpu, n * sizeof(*y->cpu));
    for (uint32_t i = 0; rc == 0 && i < y->s.q->gather.count; i++) {
        rc = add_reported_cpu_inside_window(y, i, in);
        if (rc < 0)
            y->d->w.path.blame = y->s.q->gather.active[i];
    }
    for (uint32_t c = 0; rc == 0 && c < g->chain_count; c++) {
        uint32_t first = g->chains[c].first;
        for (uint32_t i = first; i < first + g->chains[c].count; i++) {
            if (i > first)
                cut_arc_to_window(y, i, in[i]);
            if (g->wait)
                g->wait[i] =
                    ns_within(window_of(y), y->wall.est[i], g->wait[i]);
        }
    }
    free(in);
    return rc;
}

int why_set_window_sums(struct why_solving *y)
{
    const struct ips_graph *g = y->s.g;
    struct why_facts *f = &y->d->facts;
    f->windowed = true;
    f->t_max_wall_ns = f->path_cpu_ns + f->path_delay_ns + f->path_outside_ns +
                       f->path_message_ns + f->path_other_ns +
                       f->path_before_ns;
    f->total_cpu_ns = 0;
    for (uint32_t i = 0; i < g->node_count; i++)
        f->total_cpu_ns = ips_add_sat(f->total_cpu_ns, y->cpu[i]);
    if (f->t_max_wall_ns)
        return 0;
    return ips_err_set(y->s.err, IPS_E_NOT_FOUND,
                       "the path of run %s has nothing in that window: `ipsq "
                       "phases` shows what the run did when",
                       y->s.q->run);
}
