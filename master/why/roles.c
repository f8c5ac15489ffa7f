/* Finds threads that are alike (have the same role), threads that pass work on
 * to a thread of their role, and processes that start one child after the other
 * (why/facts.h). */
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

/* ---- roles --------------------------------------------------------------- */

#define ROLE_BYTES 256
#define ROLE_DEPTH 6
#define ROLE_STAGES 100u
/* If a role has a smaller share of all CPU time, its threads are not
 * workers. */
#define WORKER_PPM 20000u
/* A thread with less than 1/25 of the largest CPU time in its role is not a
 * worker either: it may have the same name but a different purpose. */
#define HELPER 25u

struct role {
    char text[ROLE_BYTES];
    uint32_t chain;
};

static int compare_roles_by_text(const void *a, const void *b)
{
    const struct role *p = a, *q = b;
    int c = strcmp(p->text, q->text);
    return c ? c : (p->chain > q->chain) - (p->chain < q->chain);
}

/* Appends the name and a slash. `cut`: only the program, so "cc.812" becomes
 * "cc". */
static void append_process_or_program_name(char *out, size_t room,
                                           const char *name, bool cut)
{
    size_t at = strlen(out);
    snprintf(out + at, room - at, "%.*s/",
             (int)(cut ? machine_share_program_len(name) : strlen(name)), name);
}

/* Returns for each process the process with the same program name that writes
 * to the pipe from which it reads, or -1. A process that reads from such a pipe
 * is the next stage of a pipeline and does different work (`gzip -9 | gzip
 * -d`). Returns NULL if memory runs out. */
static int64_t *find_previous_pipeline_stages(const struct machine_share *p)
{
    int64_t *before = calloc((size_t)p->t.proc_count + 1, sizeof(*before));
    for (uint32_t i = 0; before && i < p->t.proc_count; i++)
        before[i] = -1;
    for (uint32_t i = 0; before && i < p->t.channel_count; i++) {
        const Ips__ChannelRow *c = p->t.channels[i];
        int64_t from = c->peer_process;
        if (strncmp(c->name, "pipe ", 5) == 0 && c->recv_messages &&
            c->process < p->t.proc_count && from >= 0 &&
            from < p->t.proc_count && from != c->process &&
            machine_share_same_program(p->t.procs[from]->name,
                                       p->t.procs[c->process]->name))
            before[c->process] = from;
    }
    return before;
}

/* Returns the number of pipeline stages before the process. Two processes that
 * answer each other are not a pipeline. */
static unsigned pipeline_stage_of_process(const int64_t *before,
                                          int64_t process)
{
    unsigned n = 0;
    while (before[process] >= 0 && before[before[process]] != process &&
           n < ROLE_STAGES) {
        process = before[process];
        n++;
    }
    return n;
}

/* Writes the text of a role. Threads have the same role if the names of their
 * process and its ancestors are equal (for the topmost ancestor the whole
 * command), and the threads match too: a main thread matches main threads,
 * other threads match by name. */
static void write_role_text(const struct machine_share *p,
                            const Ips__ThreadRow *t, bool main, unsigned stage,
                            char out[ROLE_BYTES])
{
    int64_t k = t->process;
    /* The thread and the stage come first, because the text may be
     * truncated. */
    snprintf(out, ROLE_BYTES, "%s%.30s/%u/", main ? "" : "thread ",
             main ? "" : t->name, stage);
    for (int i = 0; i < ROLE_DEPTH && k >= 0 && k < p->t.proc_count; i++) {
        const Ips__ProcessRow *row = p->t.procs[k];
        bool first = row->parent < 0 && *row->command;
        append_process_or_program_name(
            out, ROLE_BYTES, first ? row->command : row->name, !first);
        k = p->t.procs[k]->parent == k ? -1 : p->t.procs[k]->parent;
    }
}

static uint64_t cpu_ns_of_chain(const struct why_solving *y, uint32_t c)
{
    const struct ips_chain *chain = &y->s.g->chains[c];
    uint64_t ns = 0;
    for (uint32_t i = 1; i < chain->count; i++)
        ns = ips_add_sat(ns,
                         why_arc_cpu_regardless_of_window(y, chain->first + i));
    return ns;
}

static int mark_serving_chains(struct why_solving *y)
{
    const struct ips_graph *g = y->s.g;
    bool *serves = calloc((size_t)y->processes + 1, sizeof(*serves));
    y->serves = calloc((size_t)g->chain_count + 1, sizeof(*y->serves));
    int rc = serves && y->serves ? 0 : set_why_no_memory_error(y);
    for (uint32_t i = 0; rc == 0 && i < y->s.q->gather.count; i++) {
        const struct machine_tables *t = &y->s.q->gather.active[i]->t;
        for (uint32_t k = 0; k < t->channel_count; k++) {
            const Ips__ChannelRow *c = t->channels[k];
            if (c->serves && c->recv_messages)
                serves[y->process_base[i] + c->process] = true;
        }
    }
    for (uint32_t c = 0; rc == 0 && c < g->chain_count; c++)
        y->serves[c] = serves[y->process_of[c]];
    free(serves);
    return rc;
}

static int write_role_texts_of_chains(struct why_solving *y, struct role *role)
{
    const struct ips_graph *g = y->s.g;
    int64_t *before = NULL;
    uint32_t in_part = 0;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const struct ips_chain *chain = &g->chains[c];
        const struct machine_share *p = y->s.q->gather.active[chain->machine];
        if (!before || g->chains[c - 1].machine != chain->machine) {
            in_part = 0;
            free(before);
            before = find_previous_pipeline_stages(p);
            if (!before)
                return set_why_no_memory_error(y);
        }
        role[c].chain = c;
        if (in_part < p->t.thread_count) {
            const Ips__ThreadRow *t = p->t.threads[in_part];
            write_role_text(p, t, chain->thread == 0,
                            t->process < p->t.proc_count
                                ? pipeline_stage_of_process(before, t->process)
                                : 0,
                            role[c].text);
        }
        in_part++;
    }
    free(before);
    return 0;
}

int why_find_roles_and_workers(struct why_solving *y)
{
    const struct ips_graph *g = y->s.g;
    size_t chains = (size_t)g->chain_count + 1;
    struct role *role = calloc(chains, sizeof(*role));
    uint64_t *cpu = calloc(chains, sizeof(*cpu)), total = 0;
    uint64_t *most = calloc(chains, sizeof(*most));
    y->role = calloc(chains, sizeof(*y->role));
    y->worker = calloc(chains, sizeof(*y->worker));
    int rc = role && cpu && most && y->role && y->worker
                 ? 0
                 : set_why_no_memory_error(y);
    if (rc == 0)
        rc = write_role_texts_of_chains(y, role);
    if (rc == 0)
        qsort(role, g->chain_count, sizeof(*role), compare_roles_by_text);
    for (uint32_t i = 0; rc == 0 && i < g->chain_count; i++) {
        if (i && strcmp(role[i].text, role[i - 1].text) != 0)
            y->role_count++;
        y->role[role[i].chain] = y->role_count;
    }
    y->role_count++;
    for (uint32_t c = 0; rc == 0 && c < g->chain_count; c++) {
        uint64_t ns = cpu_ns_of_chain(y, c);
        cpu[y->role[c]] += ns;
        most[y->role[c]] = ips_max_u64(most[y->role[c]], ns);
        total += ns;
    }
    for (uint32_t c = 0; rc == 0 && c < g->chain_count; c++)
        y->worker[c] = cpu[y->role[c]] > ips_scale_by_ppm(total, WORKER_PPM) &&
                       cpu_ns_of_chain(y, c) >= most[y->role[c]] / HELPER;
    free(most);
    if (rc == 0)
        rc = mark_serving_chains(y);
    free(role);
    free(cpu);
    return rc;
}

/* ---- waits for threads that are alike --------------------------------- */

/* If a thread waits for a signal or a semaphore that a thread of the same role
 * gives, both queue for a shared resource. So the wait counts as a wait for a
 * lock. */
void why_mark_waits_within_role_as_locks(struct why_solving *y)
{
    const struct ips_graph *g = y->s.g;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t end = g->chains[c].first + g->chains[c].count;
        for (uint32_t i = g->chains[c].first + 1; y->worker[c] && i < end;
             i++) {
            bool gives = g->xkind[i] == IPS_X_SIGNAL ||
                         (g->xkind[i] == IPS_X_RESOURCE &&
                          y->resource_kind[i] == IPS_THING_SEMAPHORE);
            if (!gives || g->wait[i] == 0 || g->xpred[i] == IPS_NO_NODE)
                continue;
            uint32_t from = ips_chain_of(g, g->xpred[i]);
            bool dies = g->kind[g->xpred[i]] == IPS_NODE_END;
            if (from != c && !dies && y->role[from] == y->role[c])
                y->resource_kind[i] = IPS_THING_LOCK;
        }
    }
}

/* ---- children one after another --------------------------------------- */

/* How long the path is in a child or its descendants while nothing else
 * works. */
struct sequential_child {
    /* processes are numbered over all machines; `role` is that of the child's
     * first thread */
    uint32_t parent, role, child;
    uint64_t ns;
};

static int compare_children_by_parent(const void *a, const void *b)
{
    const struct sequential_child *p = a, *q = b;
    if (p->parent != q->parent)
        return p->parent < q->parent ? -1 : 1;
    if (p->role != q->role)
        return p->role < q->role ? -1 : 1;
    return (p->child > q->child) - (p->child < q->child);
}

static uint32_t parent_of(const struct why_solving *y, uint32_t process)
{
    uint32_t part = 0;
    while (part + 1 < y->s.q->gather.count &&
           y->process_base[part + 1] <= process)
        part++;
    const struct machine_share *p = y->s.q->gather.active[part];
    int64_t k = p->t.procs[process - y->process_base[part]]->parent;
    bool is = k >= 0 && k < p->t.proc_count &&
              y->process_base[part] + (uint32_t)k != process;
    return is ? y->process_base[part] + (uint32_t)k : UINT32_MAX;
}

/* Makes a row for each process with time in ns[] and for each of its ancestors.
 * Returns the number of rows. If `out` is NULL, only counts them. */
static size_t list_children_with_time(const struct why_solving *y,
                                      const uint64_t *ns, const uint32_t *role,
                                      struct sequential_child *out)
{
    size_t n = 0;
    for (uint32_t p = 0; p < y->processes; p++) {
        uint32_t child = p;
        for (int depth = 0; ns[p] && depth < ROLE_DEPTH; depth++) {
            uint32_t parent = parent_of(y, child);
            if (parent == UINT32_MAX)
                break;
            if (out)
                out[n] = (struct sequential_child){parent, role[child], child,
                                                   ns[p]};
            n++;
            child = parent;
        }
    }
    return n;
}

/* Groups children by parent and role. Returns the group with the most time,
 * among those with at least WHY_SERIAL_CHILDREN children, and sets *children to
 * their number. If there is no such group, .parent is UINT32_MAX. */
static struct sequential_child
find_child_group_with_most_time(struct sequential_child *b, size_t n,
                                uint32_t *children)
{
    struct sequential_child best = {.parent = UINT32_MAX};
    if (n)
        qsort(b, n, sizeof(*b), compare_children_by_parent);
    for (size_t i = 0; i < n;) {
        struct sequential_child sum = {
            .parent = b[i].parent, .role = b[i].role, .child = b[i].child};
        uint32_t count = 0;
        size_t k = i;
        for (; k < n && b[k].parent == sum.parent && b[k].role == sum.role;
             k++) {
            count += k == i || b[k].child != b[k - 1].child;
            sum.ns += b[k].ns;
        }
        if (count >= WHY_SERIAL_CHILDREN && sum.ns > best.ns) {
            best = sum;
            *children = count;
        }
        i = k;
    }
    return best;
}

/* Whether p or one of its ancestors has the parent and role of `of`. */
static bool descends_from_child_of_group(const struct why_solving *y,
                                         const uint32_t *role, uint32_t p,
                                         const struct sequential_child *of)
{
    for (int depth = 0; depth < ROLE_DEPTH; depth++) {
        uint32_t parent = parent_of(y, p);
        if (parent == of->parent && role[p] == of->role)
            return true;
        if (parent == UINT32_MAX)
            return false;
        p = parent;
    }
    return false;
}

/* Returns the time of the path in the children that `of` describes, and in
 * their descendants. */
static uint64_t children_path_ns(const struct why_solving *y,
                                 const uint32_t *role,
                                 const struct sequential_child *of)
{
    const struct ips_graph *g = y->s.g;
    const struct ips_est *e = &y->d->w.path.est;
    uint32_t i = e->end, c = ips_chain_of(g, i), asked = UINT32_MAX;
    uint64_t ns = 0;
    bool in = false;
    while (e->crossed[i] || i != g->chains[c].first) {
        if (e->crossed[i]) {
            i = g->xpred[i];
            c = ips_chain_of(g, i);
            continue;
        }
        if (asked != y->process_of[c]) {
            asked = y->process_of[c];
            in = descends_from_child_of_group(y, role, asked, of);
        }
        ns = ips_add_sat(ns, in ? g->w[i] : 0);
        i--;
    }
    return ns;
}

int why_find_serial_children_and_filter_shares(struct why_solving *y)
{
    const struct ips_graph *g = y->s.g;
    uint64_t *ns = calloc((size_t)y->processes + 1, sizeof(*ns));
    uint32_t *role = calloc((size_t)y->processes + 1, sizeof(*role));
    struct sequential_child *begun = NULL, most = {.parent = UINT32_MAX};
    size_t n = 0, kept = 0;
    int rc = ns && role ? 0 : set_why_no_memory_error(y);
    for (uint32_t c = g->chain_count; rc == 0 && c-- > 0;)
        role[y->process_of[c]] = y->role[c];
    for (size_t i = 0; rc == 0 && i < y->concurrent.count; i++) {
        const struct ips_concurrent_share *p = &y->concurrent.share[i];
        if (p->of == IPS_BESIDE_ALONE)
            ns[y->process_of[p->chain]] += p->ns;
    }
    if (rc == 0) {
        n = list_children_with_time(y, ns, role, NULL);
        begun = calloc(n + 1, sizeof(*begun));
        rc = begun ? 0 : set_why_no_memory_error(y);
    }
    if (rc == 0) {
        (void)list_children_with_time(y, ns, role, begun);
        most = find_child_group_with_most_time(begun, n, &y->children);
        y->begins = most.parent;
        y->begun = most.child;
        /* Below this limit the children usually run in parallel. */
        if (most.parent != UINT32_MAX &&
            why_share_ppm(most.ns, children_path_ns(y, role, &most)) <
                WHY_SERIAL_PPM)
            most.parent = UINT32_MAX;
    }
    for (size_t i = 0; rc == 0 && i < y->concurrent.count; i++) {
        const struct ips_concurrent_share *p = &y->concurrent.share[i];
        if (p->of != IPS_BESIDE_ALONE || /* keep the shares of other classes */
            (most.parent != UINT32_MAX &&
             descends_from_child_of_group(y, role, y->process_of[p->chain],
                                          &most)))
            y->concurrent.share[kept++] = *p;
    }
    if (rc == 0)
        y->concurrent.count = kept;
    free(ns);
    free(role);
    free(begun);
    return rc;
}
