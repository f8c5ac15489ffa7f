/* Computes the facts from the graph, in the worker's thread (why/facts.h). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/graph/view.h"
#include "common/paths.h"
#include "common/types.h"
#include "master/path/weighting.h"
#include "master/query/machine_share.h"
#include "master/why/facts.h"

static int set_why_no_memory_error(struct why_solving *y)
{
    return ips_err_set(y->s.err, IPS_E_NO_MEMORY, "no memory to find out why");
}

/* ---- counting votes for locations --------------------------------------- */

static int allocate_votes_of_features(struct why_solving *y)
{
    y->procedures = y->d->w.t.procedure_count;
    for (int k = 0; k < WHY_FEATURES; k++) {
        struct why_votes *v = &y->votes[k];
        if (!v->process) /* why_make_quiet_graph_and_path_sums() has allocated
                            that of WHY_F_DELAY */
            v->process = calloc((size_t)y->processes + 1, sizeof(*v->process));
        v->waiter = calloc((size_t)y->processes + 1, sizeof(*v->waiter));
        v->procedure = calloc((size_t)y->procedures + 1, sizeof(*v->procedure));
        if (!v->process || !v->waiter || !v->procedure)
            return set_why_no_memory_error(y);
    }
    return 0;
}

void why_vote_procedures(const struct why_solving *y, uint32_t node,
                         uint64_t ns, uint64_t *procedure)
{
    const struct entities *t = &y->d->w.t;
    uint64_t count, w = y->s.g->w[node];
    const struct ips_arc_share *p =
        ips_feature_shares_of_chain_arc(&t->f, node, &count);
    for (uint64_t k = 0; k < count && w; k++) {
        const struct entity_feature *x = &t->feature[p[k].feature];
        if (x->kind == ENTITY_PROCEDURE)
            procedure[x->procedure] +=
                (uint64_t)((ips_u128)p[k].ns * ips_min_u64(ns, w) / w);
    }
}

uint32_t why_index_of_most_votes(const uint64_t *votes, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++)
        best = votes[i] > votes[best] ? i : best;
    return best;
}

const char *why_process_name(struct why_solving *y, uint32_t process)
{
    const struct entities *t = &y->d->w.t;
    const struct entity_feature *x = &t->feature[process];
    return arena_printf(&y->d->a, "/%s/%s", t->machine[x->machine].machine,
                        t->machine[x->machine].process[x->number]);
}

void why_set_procedure_location(struct why_solving *y, uint32_t procedure,
                                uint64_t ns, struct why_location *out)
{
    const struct entity_symbol *s = &y->d->w.t.procedure[procedure];
    out->procedure = s->name;
    out->module = s->module;
    out->file = s->file;
    out->source_line = s->source_line;
    out->procedure_ns = ns;
}

bool why_is_recording_library(const struct why_solving *y, uint32_t procedure)
{
    return strcmp(y->d->w.t.procedure[procedure].name, IPS_RECORDING) == 0;
}

/* Returns the procedure with the most votes among those that occur in `process`
 * (UINT32_MAX: in any). Votes are summed over all processes. Returns UINT32_MAX
 * if none has votes. */
static uint32_t most_voted_procedure(const struct why_solving *y,
                                     const struct why_votes *v,
                                     uint32_t process)
{
    const struct entities *t = &y->d->w.t;
    uint32_t best = UINT32_MAX;
    uint64_t best_votes = 0;
    for (uint32_t k = 0; k < t->f.count; k++) {
        const struct entity_feature *x = &t->feature[k];
        if (x->kind != ENTITY_PROCEDURE ||
            (process != UINT32_MAX && x->process != process) ||
            why_is_recording_library(y, x->procedure))
            continue;
        uint64_t votes = v->procedure[x->procedure];
        if (votes > best_votes ||
            (votes && votes == best_votes && x->procedure < best)) {
            best = x->procedure;
            best_votes = votes;
        }
    }
    return best;
}

static uint32_t share_of_most_voted_process_ppm(const struct why_solving *y,
                                                const struct why_votes *v)
{
    uint64_t all = 0, most = 0;
    for (uint32_t p = 0; p < y->processes; p++) {
        all = ips_add_sat(all, v->process[p]);
        most = ips_max_u64(most, v->process[p]);
    }
    return why_share_ppm(most, all);
}

void why_set_most_voted_location(struct why_solving *y,
                                 const struct why_votes *v,
                                 struct why_location *out)
{
    uint32_t process =
        y->processes ? why_index_of_most_votes(v->process, y->processes) : 0;
    if (!y->processes || !v->process[process])
        process = UINT32_MAX;
    else
        out->object = why_process_name(y, process);
    uint32_t p = most_voted_procedure(y, v, process);
    if (p != UINT32_MAX)
        why_set_procedure_location(y, p, v->procedure[p], out);
}

int why_compute_gain(struct why_solving *y, const struct ips_whatif_base *base,
                     const struct ips_edit *edit, uint32_t count,
                     uint64_t *gain, uint64_t *bound)
{
    const struct ips_change change = {edit, count};
    struct ips_whatif out = {0};
    if (count == 0)
        return 0;
    int rc = ips_whatif(base, &change, 1, &out, y->s.err);
    *gain = out.gain;
    *bound = out.bound;
    return rc;
}

/* ---- features of why ----------------------------------------------------- */

static int find_concurrent_activity(struct why_solving *y)
{
    uint32_t n = y->s.q->gather.count;
    uint32_t *cores = calloc((size_t)n + 1, sizeof(*cores));
    if (!cores)
        return set_why_no_memory_error(y);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t c = y->s.q->gather.active[i]->sync->cores;
        cores[i] = c && c < UINT32_MAX / 2 ? (uint32_t)c : 1;
    }
    const struct ips_concurrent_ask ask = {.g = y->s.g,
                                           .est = &y->d->w.path.est,
                                           .scenario = &y->s.scenario,
                                           .resource_kind = y->resource_kind,
                                           .outside = y->outside,
                                           .role = y->role,
                                           .role_count = y->role_count,
                                           .worker = y->worker,
                                           .serves = y->serves,
                                           .cores = cores,
                                           .machine_count = n};
    int rc =
        ips_classify_core_underuse_along_path(&ask, &y->concurrent, y->s.err);
    struct why_amount *a = &y->d->facts.amount[WHY_CORES];
    a->threads = y->concurrent.peak;
    a->cores = n ? cores[y->concurrent.peak_machine] : 0;
    y->d->facts.oversubscription_ns = y->concurrent.oversubscription_ns;
    free(cores);
    return rc;
}

struct filling { /* progress of filling y->arc_share, in the order of nodes */
    struct why_solving *y;
    uint64_t count, cap;
    bool failed;
};

static void append_feature_share(struct filling *f, enum why_feature of,
                                 uint64_t ns)
{
    struct why_solving *y = f->y;
    if (ns == 0 || f->failed)
        return;
    if (f->count == f->cap) {
        uint64_t cap = f->cap * 2 + 1024;
        struct ips_arc_share *more = realloc(y->arc_share, cap * sizeof(*more));
        if (!more) {
            f->failed = true;
            return;
        }
        y->arc_share = more;
        f->cap = cap;
    }
    y->arc_share[f->count++] = (struct ips_arc_share){(uint32_t)of, ns};
}

static int compare_shares_by_node(const void *a, const void *b)
{
    const struct ips_concurrent_share *p = a, *q = b;
    if (p->node != q->node)
        return p->node < q->node ? -1 : 1;
    return (p->of > q->of) - (p->of < q->of);
}

static void append_feature_shares_of_arc(struct filling *f, uint32_t i,
                                         size_t *at)
{
    struct why_solving *y = f->y;
    const struct ips_concurrent_activity *b = &y->concurrent;
    uint64_t left = y->s.g->w[i] - y->outside[i];
    for (; *at < b->count && b->share[*at].node == i; ++*at) {
        uint64_t ns = ips_min_u64(b->share[*at].ns, left);
        append_feature_share(f, (enum why_feature)b->share[*at].of, ns);
        left -= ns;
    }
    append_feature_share(f, WHY_F_OUTSIDE, y->outside[i]);
}

static int make_features(struct why_solving *y)
{
    const struct ips_graph *g = y->s.g;
    struct filling f = {.y = y};
    size_t nodes = (size_t)g->node_count + 1, at = 0;
    y->first = calloc(nodes, sizeof(*y->first));
    y->cross = malloc(nodes * sizeof(*y->cross));
    y->chain_none = malloc(((size_t)g->chain_count + 1) * sizeof(uint32_t));
    if (!y->first || !y->cross || !y->chain_none)
        return set_why_no_memory_error(y);
    for (uint32_t c = 0; c < g->chain_count; c++)
        y->chain_none[c] = IPS_NO_FEATURE;
    if (y->concurrent.count)
        qsort(y->concurrent.share, y->concurrent.count,
              sizeof(*y->concurrent.share), compare_shares_by_node);
    uint32_t c = 0;
    for (uint32_t i = 0; i < g->node_count; i++) {
        while (i >= g->chains[c].first + g->chains[c].count)
            c++;
        y->first[i] = f.count;
        y->cross[i] = g->xkind[i] == IPS_X_EXTERNAL || g->xkind[i] == IPS_X_IDLE
                          ? WHY_F_OUTSIDE
                          : IPS_NO_FEATURE;
        if (i != g->chains[c].first)
            append_feature_shares_of_arc(&f, i, &at);
        else
            while (at < y->concurrent.count &&
                   y->concurrent.share[at].node == i)
                at++;
    }
    y->first[g->node_count] = f.count;
    if (f.failed)
        return set_why_no_memory_error(y);
    y->f = (struct ips_features){.count = WHY_FEATURES,
                                 .chain = y->chain_none,
                                 .first = y->first,
                                 .arc_share = y->arc_share,
                                 .cross = y->cross};
    return ips_features_check(g, &y->f, y->s.err);
}

/* ---- waits and messages on the path ------------------------------------- */

/* Returns how many ns thread (chain) c computes between `from` and `to`, which
 * are times on the quiet path. */
static uint64_t thread_computing_ns_between(const struct why_solving *y,
                                            uint32_t c, uint64_t from,
                                            uint64_t to)
{
    const struct ips_graph *g = y->s.g;
    const uint64_t *est = y->d->w.path.est.est;
    uint32_t end = g->chains[c].first + g->chains[c].count;
    uint32_t low = g->chains[c].first + 1, high = end;
    uint64_t ns = 0;
    while (low < high) { /* finds the first node after `from` */
        uint32_t mid = low + (high - low) / 2;
        if (est[mid] > from)
            high = mid;
        else
            low = mid + 1;
    }
    for (uint32_t i = low; i < end && est[i - 1] < to; i++) {
        uint64_t done = est[i - 1] + ips_sub_sat(g->w[i], y->outside[i]);
        ns += ips_sub_sat(ips_min_u64(done, to), ips_max_u64(est[i - 1], from));
    }
    return ns;
}

/* Only waits of at least this share of the path are examined. */
#define LONG_WAIT_PPM 10000u
/* For other_threads_compute_during_wait(): least share of a wait in which other
 * threads compute. On a loaded machine they compute for longer than the quiet
 * graph shows, so less than the whole wait is enough. */
#define MEANWHILE_PPM 250000u

/* Whether other threads of the same process compute, in sum, for a quarter of
 * the `ns` that chain c waits up to node i. Such a wait seldom determines alone
 * how long the program takes. */
static bool other_threads_compute_during_wait(const struct why_solving *y,
                                              uint32_t c, uint32_t i,
                                              uint64_t ns)
{
    const struct ips_est *e = &y->d->w.path.est;
    uint64_t to = e->est[i], from = ips_sub_sat(to, ns);
    if (why_share_ppm(ns, e->t_max) < LONG_WAIT_PPM)
        return false;
    uint64_t computed = 0;
    for (uint32_t k = 0; k < y->s.g->chain_count; k++) {
        if (k != c && y->process_of[k] == y->process_of[c])
            computed = ips_add_sat(computed,
                                   thread_computing_ns_between(y, k, from, to));
    }
    return why_share_ppm(computed, ns) >= MEANWHILE_PPM;
}

/* Counts the waits for unrecorded causes on the quiet path by process, call
 * site and cause. */
static int vote_for_external_waits(struct why_solving *y)
{
    struct why_amount *a = &y->d->facts.amount[WHY_OUTSIDE];
    struct why_ballot ballot = {0};
    int rc = 0;
    const struct ips_graph *g = y->s.g;
    const struct ips_est *e = &y->d->w.path.est;
    uint64_t *votes = y->votes[WHY_F_OUTSIDE].process;
    uint32_t i = e->end, c = ips_chain_of(g, i);
    uint64_t all = 0, meanwhile = 0;
    bool present;
    while (rc == 0 && (e->crossed[i] || i != g->chains[c].first)) {
        uint64_t ns = 0;
        if (!e->crossed[i])
            ns = y->outside[i];
        else if (y->cross[i] == WHY_F_OUTSIDE)
            ns = ips_cross_arc_weight(g, i, &y->s.scenario, &present);
        votes[y->process_of[c]] += ns;
        all += ns;
        meanwhile += other_threads_compute_during_wait(y, c, i, ns) ? ns : 0;
        if (ns)
            rc = why_vote_for_wait_call_site(y, &ballot, i, ns);
        i = e->crossed[i] ? g->xpred[i] : i - 1;
        c = ips_chain_of(g, i);
    }
    a->computes_meanwhile = meanwhile > all / 2;
    a->cause = why_set_most_voted_wait(y, &ballot, &a->wait_at);
    free(ballot.wait);
    return rc;
}

/* Drops waits between processes that exchange small messages: the CHATTY
 * finding explains them. */
static void drop_chatty_waits(struct why_solving *y)
{
    size_t kept = 0;
    for (size_t i = 0; i < y->concurrent.count; i++) {
        const struct ips_concurrent_share *p = &y->concurrent.share[i];
        bool theirs = y->chats && p->of != IPS_BESIDE_LOCK &&
                      p->waiter != UINT32_MAX &&
                      y->chatty[y->process_of[p->chain]] &&
                      y->chatty[y->process_of[p->waiter]];
        if (!theirs)
            y->concurrent.share[kept++] = *p;
    }
    y->concurrent.count = kept;
}

static void add_votes_for_concurrent_code(struct why_solving *y)
{
    for (size_t i = 0; i < y->concurrent.count; i++) {
        const struct ips_concurrent_share *p = &y->concurrent.share[i];
        struct why_votes *v = &y->votes[p->of];
        v->process[y->process_of[p->chain]] += p->ns;
        why_vote_procedures(y, p->node, p->ns, v->procedure);
    }
}

/* Whether `p` is time in which process `busy` works while a thread waits for
 * the cause `of`. `direct`: only if the thread waits for the one that works. */
static bool is_wait_for_cause_while_process_works(
    const struct why_solving *y, const struct ips_concurrent_share *p,
    enum why_feature of, uint32_t busy, bool direct)
{
    return (enum why_feature)p->of == of && y->process_of[p->chain] == busy &&
           p->waiter != UINT32_MAX && (!direct || p->direct);
}

/* Adds up, by waiting process, the ns of waits for the cause `of` while process
 * `busy` works. Returns their sum. */
static uint64_t sum_waits_by_waiting_process(struct why_solving *y,
                                             enum why_feature of, uint32_t busy,
                                             bool direct)
{
    uint64_t *votes = y->votes[of].waiter, sum = 0;
    memset(votes, 0, y->processes * sizeof(*votes));
    for (size_t i = 0; i < y->concurrent.count; i++) {
        const struct ips_concurrent_share *p = &y->concurrent.share[i];
        if (!is_wait_for_cause_while_process_works(y, p, of, busy, direct))
            continue;
        votes[y->process_of[p->waiter]] += p->ns;
        sum += p->ns;
    }
    return sum;
}

/* Sets a->other to the process that waits longest while process `busy` works,
 * so that both names belong to the same waits. */
static int set_longest_waiting_process(struct why_solving *y,
                                       enum why_feature of, uint32_t busy,
                                       struct why_amount *a)
{
    struct why_ballot ballot = {0};
    uint64_t space = 0, all = sum_waits_by_waiting_process(y, of, busy, false);
    bool direct = sum_waits_by_waiting_process(y, of, busy, true) >= all / 2;
    if (!direct)
        (void)sum_waits_by_waiting_process(y, of, busy, false);
    uint32_t w = why_index_of_most_votes(y->votes[of].waiter, y->processes);
    int rc = 0;
    a->other_ns = y->votes[of].waiter[w];
    if (a->other_ns == 0)
        return 0;
    a->other = why_process_name(y, w);
    a->hands_on = of == WHY_F_ALIKE && w == busy && direct;
    if (of != WHY_F_PEER)
        return 0;
    for (size_t i = 0; rc == 0 && i < y->concurrent.count; i++) {
        const struct ips_concurrent_share *p = &y->concurrent.share[i];
        if (!is_wait_for_cause_while_process_works(y, p, of, busy, direct) ||
            y->process_of[p->waiter] != w)
            continue;
        space += p->awaits_space ? p->ns : 0;
        /* If the waiting thread is in the busy process itself, the process does
         * not say which thread waits: the call site of the wait does. */
        if (w == busy && p->wait_node != IPS_NO_NODE)
            rc = why_vote_for_wait_call_site(y, &ballot, p->wait_node, p->ns);
    }
    a->awaits_space = space > a->other_ns / 2;
    a->awaits_others = !direct;
    if (rc == 0)
        (void)why_set_most_voted_wait(y, &ballot, &a->wait_at);
    free(ballot.wait);
    return rc;
}

/* Fills `a` for a feature. The gain is the effect of removing `ppm` of the
 * feature's time. */
static int fill_amount_of_feature(struct why_solving *y,
                                  const struct ips_whatif_base *b,
                                  enum why_feature of, struct why_amount *a,
                                  uint32_t ppm)
{
    const struct ips_edit edit = {(uint32_t)of, ppm};
    a->ns = y->ns[of];
    if (a->ns == 0)
        return 0;
    why_set_most_voted_location(y, &y->votes[of], &a->location);
    a->object_ppm = share_of_most_voted_process_ppm(y, &y->votes[of]);
    uint32_t busy = y->processes ? why_index_of_most_votes(y->votes[of].process,
                                                           y->processes)
                                 : 0;
    int rc = y->processes ? set_longest_waiting_process(y, of, busy, a) : 0;
    return rc < 0 ? rc
                  : why_compute_gain(y, b, &edit, 1, &a->gain_ns, &a->bound_ns);
}

/* Returns the share, in ppm, of a feature's time that would be saved if its
 * work were spread over all threads that wait. */
static uint32_t time_saved_by_spreading_ppm(const struct why_solving *y,
                                            enum why_feature of)
{
    uint64_t ns = 0, spread = 0;
    for (size_t i = 0; i < y->concurrent.count; i++) {
        if ((enum why_feature)y->concurrent.share[i].of != of)
            continue;
        ns += y->concurrent.share[i].ns;
        spread += y->concurrent.share[i].spread_ns;
    }
    return ns ? (uint32_t)((ips_u128)spread * IPS_WHATIF_GONE / ns) : 0;
}

static int fill_amount_of_sequential_children(struct why_solving *y,
                                              const struct ips_whatif_base *b,
                                              uint32_t ppm)
{
    struct why_amount *a = &y->d->facts.one_by_one;
    int rc = fill_amount_of_feature(y, b, WHY_F_ALONE, a, ppm);
    if (a->ns && y->begins != UINT32_MAX) {
        a->other = why_process_name(y, y->begins);
        a->location.object = why_process_name(y, y->begun);
        a->count = y->children;
    }
    return rc;
}

static int fill_amounts_of_all_features(struct why_solving *y)
{
    struct ips_whatif_base b = y->s.base;
    b.f = &y->f;
    b.share = y->ns;
    (void)ips_sum_path_time_by_feature(y->s.g, &y->s.scenario,
                                       &y->d->w.path.est, &y->f, y->ns);
    uint32_t alike = time_saved_by_spreading_ppm(y, WHY_F_ALIKE);
    uint32_t other = time_saved_by_spreading_ppm(y, WHY_F_OTHER);
    uint32_t alone = time_saved_by_spreading_ppm(y, WHY_F_ALONE);
    uint32_t locks = time_saved_by_spreading_ppm(y, WHY_F_LOCK);
    uint32_t queue = time_saved_by_spreading_ppm(y, WHY_F_QUEUE);
    struct why_amount *kind = y->d->facts.amount;
    int rc = locks ? fill_amount_of_feature(y, &b, WHY_F_LOCK, &kind[WHY_LOCK],
                                            locks)
                   : 0;
    if (rc == 0 && alike)
        rc = fill_amount_of_feature(y, &b, WHY_F_ALIKE, &kind[WHY_IMBALANCE],
                                    alike);
    if (rc == 0 && other)
        rc = fill_amount_of_feature(y, &b, WHY_F_OTHER, &kind[WHY_SERIAL],
                                    other);
    if (rc == 0 && alone)
        rc = fill_amount_of_sequential_children(y, &b, alone);
    if (rc == 0 && queue)
        rc =
            fill_amount_of_feature(y, &b, WHY_F_QUEUE, &kind[WHY_QUEUE], queue);
    if (rc == 0)
        rc = fill_amount_of_feature(y, &b, WHY_F_PEER, &kind[WHY_LATE],
                                    WHY_HALF_PPM);
    if (rc == 0)
        rc = fill_amount_of_feature(y, &b, WHY_F_OUTSIDE, &kind[WHY_OUTSIDE],
                                    IPS_WHATIF_GONE);
    return rc;
}

/* ---- oversubscription and other programs -------------------------------- */

/* Divides the time by which the run exceeds the quiet path into
 * oversubscription by its own threads (CORES) and the rest of the run delay,
 * which other programs caused (BUSY). */
static void split_cpu_delay_by_own_and_other_programs(struct why_solving *y)
{
    struct why_facts *f = &y->d->facts;
    struct why_amount *own = &f->amount[WHY_CORES];
    struct why_amount *others = &f->amount[WHY_BUSY];
    uint64_t beyond = ips_sub_sat(f->t_max_wall_ns, y->d->w.path.est.t_max);
    uint64_t queued = ips_min_u64(f->path_delay_ns, beyond);
    struct why_votes *v = &y->votes[WHY_F_DELAY];
    uint64_t *delayed = v->process;
    /* reused as an array of zeros: DELAY has no waiters */
    v->process = v->waiter;
    for (uint32_t c = 0; c < y->s.g->chain_count; c++)
        v->process[y->process_of[c]] += y->concurrent.oversubscription[c];
    why_set_most_voted_location(y, v, &own->location);
    for (uint32_t p = 0; p < y->processes; p++)
        v->process[p] = ips_sub_sat(delayed[p], v->process[p]);
    why_set_most_voted_location(y, v, &others->location);
    others->object_ppm = share_of_most_voted_process_ppm(y, v);
    v->process = delayed;
    others->threads = own->threads;
    others->cores = own->cores;
    own->gain_ns = ips_min_u64(y->concurrent.oversubscription_ns, beyond);
    others->gain_ns = ips_sub_sat(queued, own->gain_ns);
    own->ns = own->bound_ns = own->gain_ns;
    others->ns = others->bound_ns = others->gain_ns;
    own->other_ns = others->other_ns = f->path_delay_ns;
}

/* ---- computing all facts ------------------------------------------------ */

/* Returns by how much the quiet path may seem longer than the run took by the
 * clocks' error: each message on it may seem to be in transit for longer by
 * that error, and the run, which begins and ends on two machines, shorter. */
static uint64_t clock_error_of_quiet_path_ns(const struct why_solving *y)
{
    const struct ips_graph *g = y->s.g;
    const struct ips_est *e = &y->d->w.path.est;
    uint64_t times = 1;
    if (e->end == IPS_NO_NODE || !y->d->w.path.clock_bound_ns)
        return 0;
    for (uint32_t i = e->end, c = ips_chain_of(g, i);
         e->crossed[i] || i != g->chains[c].first; c = ips_chain_of(g, i)) {
        times += e->crossed[i] && g->xkind[i] == IPS_X_DATA;
        i = e->crossed[i] ? g->xpred[i] : i - 1;
    }
    ips_u128 ns = (ips_u128)times * y->d->w.path.clock_bound_ns;
    return ns > UINT64_MAX ? UINT64_MAX : (uint64_t)ns;
}

/* The quiet path is no longer than the run took: an excess that is within the
 * clocks' error, or a thousandth (the CPU clock is read a little before or
 * after the time), is none. A larger one stays, and the answer says that it
 * contradicts itself. */
static void set_length_of_quiet_path(struct why_solving *y)
{
    struct why_facts *f = &y->d->facts;
    f->quiet_ns = why_limit_ns_to_path_in_window(f, y->d->w.t_max_ns);
    uint64_t beyond = ips_sub_sat(f->quiet_ns, f->t_max_wall_ns);
    if (beyond && beyond <= ips_max_u64(clock_error_of_quiet_path_ns(y),
                                        f->t_max_wall_ns / 1000))
        f->quiet_ns = f->t_max_wall_ns;
}

static void release_votes(struct why_votes *v)
{
    free(v->process);
    free(v->waiter);
    free(v->procedure);
}

static void release_solving(struct why_solving *y)
{
    for (int k = 0; k < WHY_FEATURES; k++)
        release_votes(&y->votes[k]);
    for (size_t i = 0; i < WHY_PHASES; i++)
        release_votes(&y->phase[i]);
    ips_concurrent_release(&y->concurrent);
    free(y->resource_kind);
    free(y->cpu);
    free(y->all_cpu);
    free(y->delay);
    free(y->bytes);
    free(y->outside);
    free(y->unknown);
    free(y->lock_ppm);
    free(y->yields);
    free(y->reads_memory);
    free(y->spins);
    free(y->lock_cpu);
    ips_est_release(&y->wall);
    free(y->chatty);
    free(y->process_base);
    free(y->process_of);
    free(y->role);
    free(y->worker);
    free(y->serves);
    free(y->first);
    free(y->arc_share);
    free(y->chain_none);
    free(y->cross);
    whatif_release_solving(&y->s);
}

void why_compute_facts(struct query *q)
{
    struct why_solving y = {.d = why_data_of(q)};
    y.d->w.remake = why_make_quiet_graph_and_path_sums;
    y.d->facts.t_max_cpu_ns = y.d->facts.t_max_sched_ns = UINT64_MAX;
    int rc = whatif_prepare_graph_and_shares(q, &y.s);
    if (rc == 0)
        rc = allocate_votes_of_features(&y);
    if (rc == 0)
        rc = why_find_roles_and_workers(&y);
    if (rc == 0)
        why_mark_waits_within_role_as_locks(&y);
    if (rc == 0)
        rc = why_fill_message_amounts_of_path(&y);
    if (rc == 0)
        rc = find_concurrent_activity(&y);
    if (rc == 0) {
        drop_chatty_waits(&y);
        rc = why_find_serial_children_and_filter_shares(&y);
    }
    if (rc == 0)
        rc = make_features(&y);
    if (rc == 0) {
        add_votes_for_concurrent_code(&y);
        rc = vote_for_external_waits(&y);
    }
    if (rc == 0) {
        rc = fill_amounts_of_all_features(&y);
    }
    if (rc == 0) {
        set_length_of_quiet_path(&y);
        split_cpu_delay_by_own_and_other_programs(&y);
        rc = why_find_least_parallel_phases(&y);
    }
    if (rc == 0)
        rc = why_estimate_lock_cost_and_spinning(&y);
    if (rc == 0)
        rc = why_find_procedures(&y);
    if (rc == 0)
        rc = why_find_common_caller(&y);
    if (rc == 0)
        rc = why_fill_lock_amount(&y);
    if (rc == 0)
        rc = why_compute_lengths_in_other_weightings(&y);
    release_solving(&y);
    (void)rc; /* not needed: the query reports path.err */
}
