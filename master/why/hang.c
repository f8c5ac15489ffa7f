/*
 * Finds a wait that never ends. The input is the list of threads that were in a
 * blocking call when their process was killed, or are in one when the question
 * is asked (WaitRowsAnswer.blocked). There are two cases:
 *
 *  - Deadlock: each thread waits for something that the next thread holds, or
 *    for the next thread to end; the last one waits for the first. They wait
 *    for ever, whatever the rest of the program does.
 *  - Every thread that had not ended waits for other recorded threads. No
 *    thread is left to end a wait; only a time limit could.
 *
 * A server whose threads wait for connections, a poll or a signal may continue
 * at any moment, so this is no hang.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/query/machine_share.h"
#include "master/why/facts.h"

#define LEAST_NS 20000000u /* shortest wait that counts as a deadlock */
/* least share of the elapsed time that counts as a hang if all threads wait,
 * but not in a cycle */
#define STILL_PPM 200000u
/* least duration of such a hang (no cycle) in a run that has not ended */
#define STILL_LIVE_NS 500000000u
#define NAMED 4u /* number of threads named in the text */

struct blocked {
    const struct machine_share *p;
    const Ips__BlockedCall *call;
    const Ips__ThreadRow *thread;
    const Ips__ProcessRow *process;
    const Ips__WaitPlace *call_site;
    /* by the machine's own clock: start of the run, end of the wait */
    uint64_t start_ns, end_ns;
    /* index of the blocked thread that this one waits for; its own index if
     * there is none */
    size_t next;
    bool has_next;
    uint32_t seen; /* number of the last search for a circle that visited this
                      thread */
};
struct hang {
    struct query *q;
    struct why_data *d;
    struct blocked *v;
    size_t n, cap;
    uint64_t going_on; /* number of threads that had not ended */
};

/* Whether the process was still running at the end, or was killed. */
static bool was_process_running_or_killed(const Ips__ProcessRow *p)
{
    return p->open || strncmp(p->end, "signal", 6) == 0 ||
           strcmp(p->end, "unknown") == 0;
}

static const Ips__ThreadRow *
find_thread_row_of_chain(const struct machine_share *p, uint32_t chain)
{
    for (uint32_t i = 0; i < p->t.thread_count; i++)
        if (p->t.threads[i]->chain == chain)
            return p->t.threads[i];
    return NULL;
}

static uint64_t run_start_on_machine(const struct machine_share *p)
{
    uint64_t start = UINT64_MAX;
    for (uint32_t i = 0; i < p->t.proc_count; i++)
        start = ips_min_u64(start, p->t.procs[i]->start_ns);
    return start;
}

static void add_blocked_thread(struct hang *h, const struct machine_share *p,
                               const struct waits_rows *rows,
                               const Ips__BlockedCall *c)
{
    const Ips__ThreadRow *t = find_thread_row_of_chain(p, c->chain);
    if (!t || t->process >= p->t.proc_count ||
        c->place >= rows->call_site_count)
        return;
    const Ips__ProcessRow *r = p->t.procs[t->process];
    if (!was_process_running_or_killed(r) ||
        !arena_reserve_array_slot(&h->d->a, &h->v, h->n, &h->cap,
                                  sizeof(*h->v)))
        return;
    uint64_t end = r->open ? rows->now_ns : r->end_ns;
    h->v[h->n] = (struct blocked){.p = p,
                                  .call = c,
                                  .thread = t,
                                  .process = r,
                                  .call_site = rows->call_site[c->place],
                                  .start_ns = run_start_on_machine(p),
                                  .end_ns = ips_max_u64(end, c->since_ns),
                                  .next = h->n};
    h->n++;
}

static void count_unended_threads(struct hang *h, const struct machine_share *p)
{
    for (uint32_t i = 0; i < p->t.thread_count; i++) {
        const Ips__ThreadRow *t = p->t.threads[i];
        if (t->process >= p->t.proc_count)
            continue;
        const Ips__ProcessRow *r = p->t.procs[t->process];
        h->going_on += was_process_running_or_killed(r) && !t->ended;
    }
}

static void link_waits_to_awaited_threads(struct hang *h)
{
    for (size_t i = 0; i < h->n; i++)
        for (size_t k = 0; h->v[i].call->by && k < h->n; k++)
            if (h->v[k].p == h->v[i].p &&
                h->v[k].call->chain + 1 == h->v[i].call->by) {
                h->v[i].next = k;
                h->v[i].has_next = true;
            }
}

/* Finds a thread in a circle of waits. Returns false if there is no circle. */
static bool find_wait_cycle(struct hang *h, size_t *out)
{
    for (size_t i = 0; i < h->n; i++) {
        size_t at = i;
        while (h->v[at].has_next && !h->v[at].seen) {
            h->v[at].seen = (uint32_t)i + 1;
            at = h->v[at].next;
        }
        *out = at;
        if (h->v[at].has_next && h->v[at].seen == (uint32_t)i + 1)
            return true;
    }
    return false;
}

/* ---- describing a hang in words ----------------------------------------- */

static const char *blocked_thread_name(struct hang *h, const struct blocked *b)
{
    return arena_printf(&h->d->a, "/%s/%s/%u", b->p->machine, b->process->name,
                        b->thread->tid);
}

static const char *call_site_text(struct hang *h, const struct blocked *b)
{
    const Ips__WaitPlace *w = b->call_site;
    if (!*w->procedure)
        return "";
    return *w->file && w->line ? arena_printf(&h->d->a, " in %s (%s:%u)",
                                              w->procedure, w->file, w->line)
                               : arena_printf(&h->d->a, " in %s", w->procedure);
}

/* Returns a text such as "/m/a.12/13 in debit (a.c:3) waits for the mutex at
 * 0x40, which thread 14 has, since 1.30 s". Times are since the run's start. */
static const char *wait_text(struct hang *h, const struct blocked *b)
{
    struct arena *a = &h->d->a;
    const Ips__ThreadRow *by =
        b->call->by ? find_thread_row_of_chain(b->p, b->call->by - 1) : NULL;
    const bool lock = strncmp(b->call->what, "the end", 7) != 0;
    const char *of = "";
    if (by == b->thread)
        of = ", which it has itself,";
    else if (by && lock)
        of = arena_printf(a, ", which thread %u has,", by->tid);
    else if (by && by->process == b->thread->process)
        of = arena_printf(a, ", %u,", by->tid);
    else if (by)
        of = arena_printf(a, " (%s)",
                          machine_share_process_name(b->p, by->process));
    return arena_printf(
        a, "%s%s waits for %s%s since %s", blocked_thread_name(h, b),
        call_site_text(h, b), b->call->what, of,
        why_format_ns(a, ips_sub_sat(b->call->since_ns, b->start_ns)));
}

static const char *join_blocked_thread_texts(struct hang *h,
                                             const size_t *which, size_t n)
{
    const char *all = "";
    for (size_t i = 0; i < n && i < NAMED; i++)
        all = arena_printf(&h->d->a, "%s%s%s", all, i ? "; " : "",
                           wait_text(h, &h->v[which[i]]));
    return n <= NAMED
               ? all
               : arena_printf(&h->d->a, "%s; and %zu more", all, n - NAMED);
}

static void set_hang_facts(struct hang *h, const size_t *which, size_t n,
                           bool circle)
{
    struct why_facts *f = &h->d->facts;
    struct why_hang *x = &f->hang;
    const struct blocked *first = &h->v[which[0]];
    uint64_t since = 0, end = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        const struct blocked *b = &h->v[which[i]];
        since = ips_max_u64(since, ips_sub_sat(b->call->since_ns, b->start_ns));
        end = ips_min_u64(end, ips_sub_sat(b->end_ns, b->start_ns));
    }
    *x = (struct why_hang){
        .ns = ips_sub_sat(end, since),
        .since_ns = since,
        .threads = (uint32_t)n,
        .circle = circle,
        .alive = first->process->open,
        .waits = join_blocked_thread_texts(h, which, n),
        .location = {.object =
                         arena_printf(&h->d->a, "/%s/%s", first->p->machine,
                                      first->process->name),
                     .procedure = first->call_site->procedure,
                     .module = first->call_site->module,
                     .file = first->call_site->file,
                     .source_line = first->call_site->line},
        .other = n > 1 ? blocked_thread_name(h, &h->v[which[1]])
                       : blocked_thread_name(h, first)};
    const bool is_long =
        circle ? x->ns >= LEAST_NS
               : why_share_ppm(x->ns, f->elapsed_ns) >= STILL_PPM &&
                     (!x->alive || x->ns >= STILL_LIVE_NS);
    if (!is_long)
        x->ns = 0;
}

/* ---- the two kinds of hang ---------------------------------------------- */

static void set_hang_facts_of_wait_cycle(struct hang *h, size_t first)
{
    size_t *which = arena_alloc(&h->d->a, h->n * sizeof(*which));
    size_t n = 0, at = first;
    if (!which)
        return;
    do {
        which[n++] = at;
        at = h->v[at].next;
    } while (at != first && n < h->n);
    set_hang_facts(h, which, n, true);
}

/* Whether the thread waits for a signal while a child of its process runs. Like
 * timeout(1), such a thread only waits for the child. */
static bool only_waits_for_child(const struct blocked *b)
{
    if (strcmp(b->call->what, "a signal") != 0)
        return false;
    for (uint32_t i = 0; i < b->p->t.proc_count; i++)
        if (b->p->t.procs[i]->parent == (int64_t)b->process->index &&
            was_process_running_or_killed(b->p->t.procs[i]))
            return true;
    return false;
}

static void set_hang_facts_if_all_threads_wait(struct hang *h)
{
    size_t *which = arena_alloc(&h->d->a, h->n * sizeof(*which));
    size_t n = 0;
    if (!which || h->n < h->going_on)
        return; /* some thread is working, or its state is not known */
    for (size_t i = 0; i < h->n; i++) {
        const struct blocked *b = &h->v[i];
        const bool joins =
            b->call->within && strncmp(b->call->what, "the end", 7) == 0;
        if (joins || only_waits_for_child(b))
            continue;
        if (!b->call->within)
            return;
        which[n++] = i;
    }
    if (n)
        set_hang_facts(h, which, n, false);
}

void why_find_hang(struct query *q)
{
    struct hang h = {.q = q, .d = why_data_of(q)};
    const struct waits *w = &h.d->waits;
    size_t first;
    for (uint32_t i = 0; i < q->gather.count && i < w->machine_count; i++) {
        const struct waits_rows *rows = &w->machine[i];
        const struct machine_share *p = q->gather.active[i];
        count_unended_threads(&h, p);
        for (uint32_t k = 0; k < rows->blocked_count; k++)
            add_blocked_thread(&h, p, rows, rows->blocked[k]);
    }
    if (h.n == 0 || h.d->a.failed)
        return;
    link_waits_to_awaited_threads(&h);
    if (find_wait_cycle(&h, &first))
        set_hang_facts_of_wait_cycle(&h, first);
    if (h.d->facts.hang.ns == 0)
        set_hang_facts_if_all_threads_wait(&h);
}
