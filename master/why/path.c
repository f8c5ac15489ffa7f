/* Computes the columns of the merged graph (why/facts.h), the quiet graph, and
 * the messages on the path, by pair of processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/query/machine_share.h"
#include "master/why/facts.h"

static int set_why_no_memory_error(struct why_solving *y)
{
    return ips_err_set(y->s.err, IPS_E_NO_MEMORY, "no memory to find out why");
}

/* ---- columns of the merged graph ---------------------------------------- */

/* If an unrecorded child or writer ended the sleep at the end of the chain arc
 * into node i, returns the ns of that sleep, else 0. (At a send, a sleep
 * without a cross arc is preemption, not a wait; at a lock, such a sleep counts
 * as unmatched.) */
static uint64_t sleep_ns_ended_by_unrecorded(const struct ips_graph *g,
                                             uint32_t i)
{
    bool can = g->kind[i] == IPS_NODE_RECV || g->kind[i] == IPS_NODE_JOIN ||
               g->kind[i] == IPS_NODE_POLL;
    return can && g->xkind[i] == IPS_X_NONE && g->wait ? g->wait[i] : 0;
}

static void copy_arc_times_of_machine(struct why_solving *y, uint32_t part)
{
    const struct ips_graph *raw =
        &engine_data_of_machine(y->s.q->gather.active[part])->g;
    const uint64_t *len = raw->bytes ? raw->bytes : raw->xlen;
    uint32_t base = y->d->w.path.node_base[part];
    for (uint32_t i = 0; i < raw->node_count; i++) {
        uint32_t to = base + i;
        bool resource = raw->xkind[i] == IPS_X_RESOURCE;
        y->cpu[to] = raw->w[i];
        y->delay[to] = raw->delay ? raw->delay[i] : 0;
        y->bytes[to] = raw->xkind[i] == IPS_X_DATA ? len[i] : 0;
        y->outside[to] = sleep_ns_ended_by_unrecorded(raw, i);
        if (resource && raw->xlen[i] <= IPS_THING_LAST)
            y->resource_kind[to] = (uint8_t)raw->xlen[i];
    }
    for (uint32_t c = 0; c < raw->chain_count; c++) {
        uint32_t first = base + raw->chains[c].first;
        /* no chain arc leads to a chain's first node */
        y->cpu[first] = y->delay[first] = y->outside[first] = 0;
    }
}

static int make_graph_columns(struct why_solving *y)
{
    const struct ips_graph *g = y->s.g;
    uint32_t parts = y->s.q->gather.count;
    size_t nodes = (size_t)g->node_count + 1, chains = g->chain_count + 1u;
    y->resource_kind = calloc(nodes, sizeof(*y->resource_kind));
    y->cpu = calloc(nodes, sizeof(*y->cpu));
    y->delay = calloc(nodes, sizeof(*y->delay));
    y->bytes = calloc(nodes, sizeof(*y->bytes));
    y->outside = calloc(nodes, sizeof(*y->outside));
    y->unknown = calloc(nodes, sizeof(*y->unknown));
    y->process_of = calloc(chains, sizeof(*y->process_of));
    y->process_base = calloc((size_t)parts + 1, sizeof(*y->process_base));
    if (!y->resource_kind || !y->cpu || !y->delay || !y->bytes || !y->outside ||
        !y->unknown || !y->process_of || !y->process_base)
        return set_why_no_memory_error(y);
    for (uint32_t i = 0; i < parts; i++) {
        y->process_base[i] = y->processes;
        y->processes += y->s.q->gather.active[i]->t.proc_count;
        copy_arc_times_of_machine(y, i);
    }
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const struct machine_share *p =
            y->s.q->gather.active[g->chains[c].machine];
        if (g->chains[c].process >= p->t.proc_count)
            return ips_err_set(y->s.err, IPS_E_CORRUPT,
                               "a thread of a process that is not there");
        y->process_of[c] =
            y->process_base[g->chains[c].machine] + g->chains[c].process;
    }
    return 0;
}

/* ---- the wall path, and the quiet graph ---------------------------------- */

static void sum_wall_path_by_kind_of_time(struct why_solving *y,
                                          const struct ips_est *e,
                                          uint64_t *delayed)
{
    const struct ips_graph *g = y->s.g;
    struct why_facts *f = &y->d->facts;
    uint32_t i = e->end, c = ips_chain_of(g, i);
    bool present;
    while (e->crossed[i] || i != g->chains[c].first) {
        if (e->crossed[i]) {
            uint64_t ns = why_ns_in_window(
                y, e->est[i],
                ips_cross_arc_weight(g, i, &y->s.scenario, &present));
            if (g->xkind[i] == IPS_X_EXTERNAL)
                f->path_outside_ns += ns;
            else
                f->path_message_ns += ns;
            i = g->xpred[i];
            c = ips_chain_of(g, i);
            continue;
        }
        bool idle = g->xkind[i] == IPS_X_IDLE || y->outside[i];
        /* the arc's weight in the window: its time ends at est[i - 1] + w */
        uint64_t all = why_ns_in_window(y, e->est[i - 1] + g->w[i], g->w[i]);
        uint64_t left = ips_sub_sat(all, y->cpu[i]);
        uint64_t delay = ips_min_u64(y->delay[i], left);
        uint64_t slept =
            idle ? g->wait[i] : why_arc_sleep_ns_for_outside_events(y, i);
        slept = ips_min_u64(slept, left - delay);
        if (!idle)
            y->outside[i] = slept;
        uint64_t untraced =
            idle ? 0 : why_sleep_ns_for_signal_child_or_spin(y, i);
        untraced = ips_min_u64(untraced, left - delay - slept);
        f->path_cpu_ns += all - left;
        if (g->probe)
            f->overhead_ns += ips_min_u64(g->probe[i], all - left);
        f->path_delay_ns += delay;
        f->path_outside_ns += slept + untraced;
        y->unknown[i] = left - delay - slept - untraced;
        f->path_other_ns += y->unknown[i];
        f->unended_ns = ips_add_sat(
            f->unended_ns,
            ips_min_u64(why_sleep_ns_with_unexplained_end(y, i), left));
        delayed[y->process_of[c]] += delay;
        i--;
    }
    f->path_before_ns = why_ns_in_window(y, e->est[i], g->w[i]);
}

/* Returns the transit time of the message into node i. A message from another
 * machine lasts until the receive returns, so its time contains the receiver's
 * wait for a CPU. The next arc contains that wait too, so it is subtracted
 * here. */
static uint64_t transit_ns(const struct why_solving *y,
                           const struct ips_graph *g, uint32_t i)
{
    uint32_t x = g->xpred[i], c = ips_chain_of(g, i);
    bool last = i + 1 == g->chains[c].first + g->chains[c].count;
    if (x == IPS_NO_NODE || last ||
        g->chains[ips_chain_of(g, x)].machine == g->chains[c].machine)
        return g->xlen[i];
    return ips_sub_sat(g->xlen[i], y->delay[i + 1]);
}

static void remove_run_delays_from_merged_graph(struct why_solving *y,
                                                struct ips_graph *g)
{
    for (uint32_t i = 0; i < y->s.q->gather.count; i++) {
        const struct ips_graph *raw =
            &engine_data_of_machine(y->s.q->gather.active[i])->g;
        uint32_t base = y->d->w.path.node_base[i];
        for (uint32_t k = 0; k < raw->node_count; k++) {
            bool outside = g->xkind[base + k] == IPS_X_EXTERNAL ||
                           g->xkind[base + k] == IPS_X_IDLE;
            g->w[base + k] =
                ips_add_sat(y->cpu[base + k], y->outside[base + k]);
            uint64_t ns = outside ? raw->xlen[k]
                          : g->xkind[base + k] == IPS_X_DATA
                              ? transit_ns(y, g, base + k)
                              : 0;
            /* An external wait begins at the node before, and may extend into
             * the time that `wall` counts as run delay; a message ends at the
             * node. */
            uint64_t end =
                outside && g->xpred[base + k] != IPS_NO_NODE
                    ? ips_add_sat(y->wall.est[g->xpred[base + k]], ns)
                    : y->wall.est[base + k];
            g->xlen[base + k] = why_ns_in_window(y, end, ns);
        }
    }
    /* `xlen` of a message is now in ns, so a "byte" takes 1 ns. */
    y->s.scenario.weighting = IPS_WEIGH_CPU;
    y->s.scenario.external = IPS_EXTERNAL_ALL;
    y->s.scenario.message_time = (struct ips_message_time){0, 1ULL << 32, 1, 1};
}

int why_make_quiet_graph_and_path_sums(struct whatif_solving *s)
{
    struct why_solving *y = (struct why_solving *)s;
    struct ips_graph *g = &y->d->w.path.merged;
    struct why_facts *f = &y->d->facts;
    struct ips_est wall = {0};
    int rc = make_graph_columns(y);
    if (rc == 0)
        rc =
            ips_longest_path_compute_ests(g, &s->scenario, NULL, &wall, s->err);
    uint64_t **delayed = &y->votes[WHY_F_DELAY].process;
    *delayed = calloc((size_t)y->processes + 1, sizeof(**delayed));
    if (rc == 0 && !*delayed)
        rc = set_why_no_memory_error(y);
    y->wall = wall;
    if (rc == 0 && y->d->w.path.window.is_set)
        rc = why_cut_arcs_and_waits_to_window(y);
    if (rc == 0 && wall.end != IPS_NO_NODE) {
        f->overhead_ns = g->probe ? 0 : UINT64_MAX;
        sum_wall_path_by_kind_of_time(y, &wall, *delayed);
        f->t_max_wall_ns = wall.t_max;
        if (y->d->w.path.window.is_set)
            rc = why_set_window_sums(y);
        remove_run_delays_from_merged_graph(y, g);
    }
    return rc;
}

/* ---- messages on the path ----------------------------------------------- */

struct pair { /* messages between two processes, in either direction */
    uint32_t a, b;
    uint64_t count, bytes, ns;
};

static int compare_process_pairs(const void *va, const void *vb)
{
    const struct pair *p = va, *q = vb;
    if (p->a != q->a)
        return p->a < q->a ? -1 : 1;
    return (p->b > q->b) - (p->b < q->b);
}

static struct pair process_pair_of_message(const struct why_solving *y,
                                           uint32_t i)
{
    const struct ips_graph *g = y->s.g;
    bool present;
    uint32_t x = g->xpred[i];
    uint32_t from = y->process_of[ips_chain_of(g, x)];
    uint32_t to = y->process_of[ips_chain_of(g, i)];
    return (struct pair){
        .a = from < to ? from : to,
        .b = from < to ? to : from,
        .count = 1,
        .bytes = y->bytes[i],
        .ns = ips_cross_arc_weight(g, i, &y->s.scenario, &present)};
}

/* Returns the node before i on the path, or IPS_NO_NODE; updates *chain. */
static uint32_t previous_node_on_path(const struct why_solving *y, uint32_t i,
                                      uint32_t *chain)
{
    const struct ips_graph *g = y->s.g;
    if (y->d->w.path.est.crossed[i]) {
        *chain = ips_chain_of(g, g->xpred[i]);
        return g->xpred[i];
    }
    return i == g->chains[*chain].first ? IPS_NO_NODE : i - 1;
}

static size_t merge_pairs(struct pair *pair, size_t count)
{
    size_t kept = 0;
    qsort(pair, count, sizeof(*pair), compare_process_pairs);
    for (size_t i = 0; i < count; i++) {
        if (kept && compare_process_pairs(&pair[kept - 1], &pair[i]) == 0) {
            pair[kept - 1].count += pair[i].count;
            pair[kept - 1].bytes += pair[i].bytes;
            pair[kept - 1].ns += pair[i].ns;
        } else {
            pair[kept++] = pair[i];
        }
    }
    return kept;
}

bool why_is_io_function(const char *name)
{
    static const char *const calls[] = {
        "read",     "write",      "readv",      "writev",  "send",
        "recv",     "sendto",     "recvfrom",   "sendmsg", "recvmsg",
        "sendmmsg", "recvmmsg",   "poll",       "ppoll",   "select",
        "pselect",  "epoll_wait", "epoll_pwait"};
    static const char *const before[] = {"__GI___libc_", "__libc_", "__GI___",
                                         "__GI_", "__"};
    for (size_t i = 0; i < sizeof(before) / sizeof(*before); i++) {
        size_t n = strlen(before[i]);
        if (strncmp(name, before[i], n) == 0) {
            name += n;
            break;
        }
    }
    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
        if (strcmp(name, calls[i]) == 0)
            return true;
    }
    return false;
}

static int fill_transit_amount(struct why_solving *y, const struct pair *p)
{
    const struct entities *t = &y->d->w.t;
    struct why_amount *a = &y->d->facts.amount[WHY_TRANSIT];
    struct ips_edit *edit = calloc((size_t)t->f.count + 1, sizeof(*edit));
    uint32_t n = 0;
    if (!edit)
        return set_why_no_memory_error(y);
    for (uint32_t f = 0; f < t->f.count; f++) {
        const struct entity_feature *x = &t->feature[f];
        if (x->kind != ENTITY_MESSAGE ||
            !((x->process == p->a && x->to == p->b) ||
              (x->process == p->b && x->to == p->a)))
            continue;
        edit[n++] = (struct ips_edit){f, WHY_HALF_PPM};
        a->ns = ips_add_sat(a->ns, y->s.share[f]);
    }
    int rc =
        why_compute_gain(y, &y->s.base, edit, n, &a->gain_ns, &a->bound_ns);
    free(edit);
    a->count = p->count;
    a->bytes = p->bytes;
    a->location.object = why_process_name(y, p->a);
    a->other = why_process_name(y, p->b);
    a->chatty = y->chatty[p->a] && y->chatty[p->b];
    return rc;
}

/* Fills the amount CHATTY: the cost of messages among processes that exchange
 * small ones, which is the transit of the messages and the calls that send and
 * receive them. Also sums the time of the whole path in these processes. */
static int fill_chatty_amount(struct why_solving *y)
{
    const struct entities *t = &y->d->w.t;
    struct why_amount *a = &y->d->facts.amount[WHY_CHATTY];
    struct ips_edit *edit = calloc((size_t)t->f.count + 1, sizeof(*edit));
    uint32_t n = 0;
    if (!edit)
        return set_why_no_memory_error(y);
    for (uint32_t f = 0; f < t->f.count; f++) {
        const struct entity_feature *x = &t->feature[f];
        bool message = x->kind == ENTITY_MESSAGE;
        if (!y->chatty[x->process] ||
            (message && (x->to >= ENTITY_IDLE || !y->chatty[x->to])))
            continue;
        uint64_t *path = &y->d->facts.chatty_path_ns;
        *path = ips_add_sat(*path, y->s.share[f]);
        if (!message && (x->kind != ENTITY_PROCEDURE ||
                         !why_is_io_function(t->procedure[x->procedure].name)))
            continue;
        edit[n++] = (struct ips_edit){f, WHY_BATCH_PPM};
        a->ns = ips_add_sat(a->ns, y->s.share[f]);
    }
    int rc =
        why_compute_gain(y, &y->s.base, edit, n, &a->gain_ns, &a->bound_ns);
    free(edit);
    return rc;
}

/* Returns the pair of processes whose messages take the longest. Another
 * finding reports pairs that exchange small messages, so such a pair is chosen
 * only if there is no other. */
static const struct pair *slowest_pair(const struct why_solving *y,
                                       const struct pair *pair, size_t count)
{
    const struct pair *found[2] = {NULL, NULL};
    for (size_t i = 0; i < count; i++) {
        bool said = y->chats && y->chatty[pair[i].a] && y->chatty[pair[i].b];
        if (pair[i].a != pair[i].b &&
            (!found[said] || pair[i].ns > found[said]->ns))
            found[said] = &pair[i];
    }
    return found[0] ? found[0] : found[1];
}

static int find_chatty_pairs_and_fill_amount(struct why_solving *y,
                                             const struct pair *pair,
                                             size_t count)
{
    struct why_facts *f = &y->d->facts;
    struct why_amount *chat = &f->amount[WHY_CHATTY];
    const struct pair *most = NULL;
    int rc = 0;
    y->chatty = calloc((size_t)y->processes + 1, sizeof(*y->chatty));
    if (!y->chatty)
        return set_why_no_memory_error(y);
    for (size_t i = 0; i < count; i++) {
        if (pair[i].a == pair[i].b)
            continue;
        if (pair[i].count < WHY_CHATTY_COUNT ||
            pair[i].bytes / pair[i].count > WHY_CHATTY_BYTES)
            continue;
        if (!most || pair[i].count > most->count)
            most = &pair[i];
        y->chatty[pair[i].a] = y->chatty[pair[i].b] = true;
        chat->count += pair[i].count;
        chat->bytes += pair[i].bytes;
        chat->other_ns = ips_add_sat(chat->other_ns, pair[i].ns);
    }
    if (most) {
        chat->location.object = why_process_name(y, most->a);
        chat->other = why_process_name(y, most->b);
        rc = fill_chatty_amount(y);
        y->chats = f->chatty_path_ns / chat->count <= WHY_CHATTY_HOP_NS &&
                   why_share_ppm(chat->gain_ns, y->d->w.path.est.t_max) >=
                       WHY_CHATTY_PPM;
    }
    const struct pair *slow = slowest_pair(y, pair, count);
    return rc == 0 && slow ? fill_transit_amount(y, slow) : rc;
}

int why_fill_message_amounts_of_path(struct why_solving *y)
{
    const struct ips_graph *g = y->s.g;
    const struct ips_est *e = &y->d->w.path.est;
    struct pair *pair = NULL;
    size_t count = 0, room = 0;
    int rc = 0;
    uint32_t chain = ips_chain_of(g, e->end);
    for (uint32_t i = e->end; i != IPS_NO_NODE && rc == 0;
         i = previous_node_on_path(y, i, &chain)) {
        if (!e->crossed[i] || g->xkind[i] != IPS_X_DATA ||
            !why_is_in_window(y, y->wall.est[i]))
            continue;
        if (count == room) {
            count = count ? merge_pairs(pair, count) : 0;
            if (count * 2 >= room) {
                room = room * 2 + 1024;
                struct pair *more = realloc(pair, room * sizeof(*more));
                if (!more) {
                    rc = set_why_no_memory_error(y);
                    break;
                }
                pair = more;
            }
        }
        pair[count++] = process_pair_of_message(y, i);
    }
    if (rc == 0 && count)
        rc = find_chatty_pairs_and_fill_amount(y, pair,
                                               merge_pairs(pair, count));
    free(pair);
    return rc;
}
