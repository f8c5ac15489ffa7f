/*
 * Adapts the CPU time that messages cost their ends to other machines. A
 * thread's recorded CPU time includes what it cost, on the recorded machines,
 * to send to a peer and to be woken by it. Between two processors, one must
 * wake the other, which may sleep; between two machines, the network code
 * runs. `ipsq calibrate` measures this together with the times of each pair:
 * half of the CPU time of both ends in a round, in which the receivers always
 * sleep.
 *
 * Consider a message whose receiver slept until it came, and whose ends are a
 * different pair of machines in the setup. Each end gets half of the
 * difference in the arc after the send or receive, where the CPU time of the
 * calls is recorded. No arc becomes negative. A message whose receiver did not
 * sleep woke no thread and stays unchanged; so do messages between pairs
 * without measured CPU time. Ends that --move moves count as being where they
 * started.
 */
#include <inttypes.h>
#include <string.h>

#include "common/types.h"
#include "master/predict/predict.h"

/* Returns the measured CPU cost of messages between two machines, or NULL.
 * Between machines they use TCP; within one machine, the transport `inside`. */
static const struct ips_curve *
message_cpu_curve(const struct message_times *t, const char *from,
                  const char *to, enum message_time_transport inside)
{
    const struct message_time_pair *p = message_times_find_pair_or_substitute(
        t, from, to, strcmp(from, to) == 0 ? inside : MTIME_TCP);
    return p && p->cpu.count ? &p->cpu : NULL;
}

struct arc_weight_changes {
    struct ips_graph *g;
    uint64_t less, more; /* total ns by which arcs became shorter, and longer */
};

/* Adds `ns`, which may be negative, to the arc after node i of its chain; for
 * the chain's last node, to the arc into it. Counts the change. */
static void change_arc_after_node(struct arc_weight_changes *c, uint32_t chain,
                                  uint32_t i, int64_t ns)
{
    const struct ips_chain *of = &c->g->chains[chain];
    uint64_t *w = &c->g->w[i + 1 < of->first + of->count ? i + 1 : i];
    uint64_t before = *w;
    *w = ns < 0 ? ips_sub_sat(before, (uint64_t)-ns)
                : ips_add_sat(before, (uint64_t)ns);
    c->less += ips_sub_sat(before, *w);
    c->more += ips_sub_sat(*w, before);
}

/* Sets *ns to the increase of both ends' CPU time, in the setup, for a message
 * of `bytes` from chain a to chain b. Returns false if it is not known or if
 * the pair of machines is the same. */
static bool message_cpu_increase(const struct predict_run *run,
                                 const struct predict_setup *s, uint32_t a,
                                 uint32_t b, uint64_t bytes, int64_t *ns)
{
    const char *from = run->own[run->thread[a].own].name;
    const char *to = run->own[run->thread[b].own].name;
    const char *from_then = s->machine[s->map[a]].name;
    const char *to_then = s->machine[s->map[b]].name;
    bool inside = run->thread[a].own == run->thread[b].own;
    if (strcmp(from, from_then) == 0 && strcmp(to, to_then) == 0)
        return false;
    const struct ips_curve *was =
        message_cpu_curve(run->times, from, to, MTIME_UNIX);
    const struct ips_curve *is = message_cpu_curve(
        run->times, from_then, to_then, inside ? MTIME_UNIX : MTIME_TCP);
    if (!was || !is)
        return false;
    *ns = (int64_t)ips_curve_compute_message_ns(is, bytes) -
          (int64_t)ips_curve_compute_message_ns(was, bytes);
    return true;
}

void predict_adapt_message_cpu_unless_kept(struct predict_run *run,
                                           const struct predict_setup *s,
                                           bool keep,
                                           struct predict_assumptions *said)
{
    struct arc_weight_changes c = {.g = &run->replay.g};
    uint64_t count = 0;
    if (!run->slept || !run->times)
        return;
    for (uint32_t b = 0; b < c.g->chain_count; b++) {
        const struct ips_chain *of = &c.g->chains[b];
        for (uint32_t i = of->first; i < of->first + of->count; i++) {
            int64_t ns;
            if (!run->slept[i])
                continue;
            uint32_t x = c.g->xpred[i], a = ips_chain_of(c.g, x);
            if (!message_cpu_increase(run, s, a, b, c.g->xlen[i], &ns))
                continue;
            count++;
            if (keep)
                continue;
            change_arc_after_node(&c, a, x, ns / 2);
            change_arc_after_node(&c, b, i, ns - ns / 2);
        }
    }
    if (count && keep)
        predict_add_assumption(
            said,
            "%" PRIu64 " messages that a thread slept for go between other "
            "machines but keep the CPU cost of the recording, by which "
            "the search compares placements",
            count);
    else if (count)
        predict_add_assumption(
            said,
            "%" PRIu64 " messages that a thread slept for go between other "
            "machines, which costs their ends %.1f ms of CPU time less "
            "and %.1f ms more, by the measured pairs (ipsq calibrate)",
            count, (double)c.less / 1e6, (double)c.more / 1e6);
}
