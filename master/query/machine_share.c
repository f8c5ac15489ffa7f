#include "master/query/machine_share.h"

#include "common/object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/peer.h"

struct newest {
    char *run;
    bool found;
};

static void on_newest(const struct catalogue_row *row, void *arg)
{
    struct newest *n = arg;
    if (!n->found)
        snprintf(n->run, QUERY_RUN_BYTES, "%s", row->run);
    n->found = true;
}

static bool needs_run(const struct query *q)
{
    return q->kind != &query_runs && q->kind != &query_status &&
           q->kind != &query_calibrate;
}

int parts_choose_run(struct query *q, struct ips_err *err)
{
    struct newest n = {.run = q->run};
    if (!needs_run(q) || *q->run)
        return 0;
    int rc = catalogue_each(q->m->catalogue, NULL, on_newest, &n, err);
    if (rc == 0 && !n.found)
        rc = ips_err_set(err, IPS_E_NOT_FOUND,
                         "the master knows no run yet: record one with ipsrun");
    return rc;
}

/* ---- kept messages ---------------------------------------------------- */

static void part_release(struct part *p)
{
    for (uint32_t i = 0; i < p->kept_count; i++)
        ips__envelope__free_unpacked(p->kept[i], NULL);
    free(p->kept);
    if (p->borrows)
        return;
    free(p->t.procs);
    free(p->t.threads);
    free(p->t.channels);
    free(p->t.ends);
    free(p->peer);
}

void parts_release(struct query *q)
{
    for (uint32_t i = 0; i < q->part_count; i++)
        part_release(&q->parts[i]);
    free(q->parts);
    q->parts = NULL;
    q->part_count = 0;
    if (q->let_go)
        q->let_go(q);
}

bool query_keep(struct query *q, struct part *p)
{
    (void)q;
    if (p->kept_count == p->kept_cap) {
        uint32_t cap = p->kept_cap * 2 + 4;
        Ips__Envelope **more = realloc(p->kept, cap * sizeof(*more));
        if (!more)
            return false;
        p->kept = more;
        p->kept_cap = cap;
    }
    Ips__Envelope *env = ips_peer_take(p->slave->peer);
    if (!env)
        return false;
    p->kept[p->kept_count++] = env;
    /* Wire size: what it takes in memory is a small multiple of it. */
    p->kept_bytes += ips__envelope__get_packed_size(env);
    return p->kept_bytes <= PART_KEPT_BYTES;
}

bool part_append(void *table, uint32_t *count, void *const *rows, size_t n)
{
    void **old;
    if (n == 0)
        return true;
    if (n > UINT32_MAX - *count)
        return false;
    memcpy(&old, table, sizeof(old));
    void **more = realloc(old, (*count + n) * sizeof(*more));
    if (!more)
        return false;
    memcpy(more + *count, rows, n * sizeof(*more));
    *count += (uint32_t)n;
    memcpy(table, &more, sizeof(more));
    /* cppcheck-suppress memleak ; *table has it */
    return true;
}

/* ---- making ----------------------------------------------------------- */

static struct part *find_part(struct query *q, const char *machine)
{
    for (uint32_t i = 0; i < q->part_count; i++) {
        if (strcmp(q->parts[i].machine, machine) == 0)
            return &q->parts[i];
    }
    return NULL;
}

/* Parts are reserved for all slaves and rows beforehand. */
static struct part *add_part(struct query *q, const char *machine)
{
    struct part *p = find_part(q, machine);
    if (p)
        return p;
    struct part *more =
        realloc(q->parts, (q->part_count + 1) * sizeof(*q->parts));
    if (!more)
        return NULL;
    q->parts = more;
    uint32_t at = q->part_count++;
    while (at > 0 && strcmp(q->parts[at - 1].machine, machine) > 0) {
        q->parts[at] = q->parts[at - 1];
        at--;
    }
    memset(&q->parts[at], 0, sizeof(q->parts[at]));
    snprintf(q->parts[at].machine, ROSTER_NAME_BYTES, "%s", machine);
    return &q->parts[at];
}

static void on_machine(const struct catalogue_row *row, void *arg)
{
    struct query *q = arg;
    struct part *p = add_part(q, row->machine);
    if (p)
        p->expected = true;
}

int parts_make(struct query *q, struct ips_err *err)
{
    parts_release(q);
    if (!needs_run(q))
        return 0;
    int rc = catalogue_each(q->m->catalogue, q->run, on_machine, q, err);
    if (rc < 0)
        return rc;
    uint64_t now = master_now_ns();
    for (struct slave *s = q->m->roster.first; s; s = s->next) {
        struct part *p = find_part(q, s->machine);
        if (!p && roster_alive(s, now))
            p = add_part(q, s->machine);
        if (p && s->peer)
            p->slave = s;
    }
    for (uint32_t i = 0; i < q->part_count; i++) {
        struct part *p = &q->parts[i];
        p->state = p->slave ? PART_ACTIVE : PART_MISSING;
        for (uint32_t k = 0; k < q->excluded_count; k++) {
            if (strcmp(q->excluded[k].machine, p->machine) != 0)
                continue;
            p->state = PART_FAILED;
            p->expected = true;
            snprintf(p->why, sizeof(p->why), "%s", q->excluded[k].why);
        }
    }
    return 0;
}

int parts_make_all(struct query *q, struct ips_err *err)
{
    parts_release(q);
    for (struct slave *s = q->m->roster.first; s; s = s->next) {
        if (!s->peer)
            continue;
        struct part *p = add_part(q, s->machine);
        if (!p)
            return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
        p->slave = s;
        p->state = PART_ACTIVE;
    }
    return 0;
}

uint32_t query_active(const struct query *q)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < q->part_count; i++)
        count += q->parts[i].state == PART_ACTIVE;
    return count;
}

bool query_asks_why_requests(const Ips__Request *r)
{
    return r->ask_case == IPS__REQUEST__ASK_WHY &&
           (strcmp(r->why->answer, "requests") == 0 ||
            strcmp(r->why->answer, "latency") == 0 ||
            strcmp(r->why->answer, "throughput") == 0);
}

bool query_incomplete(const struct query *q)
{
    for (uint32_t i = 0; i < q->part_count; i++) {
        if (q->parts[i].state == PART_MISSING ||
            (q->parts[i].state == PART_FAILED && q->parts[i].expected))
            return true;
    }
    return false;
}

/* ---- objects ---------------------------------------------------------- */

size_t part_program_len(const char *process)
{
    const char *dot = strrchr(process, '.');
    return dot ? (size_t)(dot - process) : strlen(process);
}

bool part_same_program(const char *process, const char *other)
{
    size_t len = part_program_len(process);
    return part_program_len(other) == len && strncmp(process, other, len) == 0;
}

const char *part_process_name(const struct part *p, uint32_t process)
{
    if (process < p->t.proc_count && p->t.procs[process])
        return p->t.procs[process]->name;
    return "?";
}

uint64_t part_own_load_milli(const struct part *p)
{
    const Ips__SyncAnswer *s = p->sync;
    uint64_t elapsed = ips_sub_sat(s->last_ns, s->first_ns);
    ips_u128 wanted = (ips_u128)s->cpu_ns + s->delay_ns;
    return elapsed ? (uint64_t)(wanted * 1000 / elapsed) : 0;
}

void part_process_object(const struct part *p, uint32_t process,
                         char out[OBJECT_BYTES])
{
    snprintf(out, OBJECT_BYTES, "/%s/%.255s", p->machine,
             part_process_name(p, process));
}

/* A counting sort, stable by chain. */
uint32_t *part_threads_by_process(const struct part *p)
{
    uint32_t *order = calloc((size_t)p->t.thread_count + 1, sizeof(*order));
    uint32_t *start = calloc((size_t)p->t.proc_count + 2, sizeof(*start));
    if (order && start) {
        for (uint32_t i = 0; i < p->t.thread_count; i++)
            start[p->t.threads[i]->process + 1]++;
        for (uint32_t i = 0; i < p->t.proc_count; i++)
            start[i + 1] += start[i];
        for (uint32_t i = 0; i < p->t.thread_count; i++)
            order[start[p->t.threads[i]->process]++] = i;
    } else {
        free(order);
        order = NULL;
    }
    free(start);
    return order;
}

bool part_concerned(const char *machine, const char *object)
{
    return ips_object_machine(object, machine);
}
