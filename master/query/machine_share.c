#include "master/query/machine_share.h"

#include "common/object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/peer.h"

struct newest {
    char *run;
    bool is_found;
};

static void keep_run_of_first_catalogue_row(const struct catalogue_row *row,
                                            void *arg)
{
    struct newest *n = arg;
    if (!n->is_found)
        snprintf(n->run, QUERY_RUN_BYTES, "%s", row->run);
    n->is_found = true;
}

static bool needs_run(const struct query *q)
{
    return q->kind != &query_runs && q->kind != &query_status &&
           q->kind != &query_calibrate;
}

int machine_shares_default_to_newest_run(struct query *q, struct ips_err *err)
{
    struct newest n = {.run = q->run};
    if (!needs_run(q) || *q->run)
        return 0;
    int rc = catalogue_for_each_row(q->m->catalogue, NULL,
                                    keep_run_of_first_catalogue_row, &n, err);
    if (rc == 0 && !n.is_found)
        rc = ips_err_set(err, IPS_E_NOT_FOUND,
                         "the master knows no run yet: record one with ipsrun");
    return rc;
}

/* ---- kept messages ---------------------------------------------------- */

static void machine_share_release(struct machine_share *p)
{
    for (uint32_t i = 0; i < p->message_count; i++)
        ips__envelope__free_unpacked(p->messages[i], NULL);
    free(p->messages);
    if (p->borrows)
        return;
    free(p->t.procs);
    free(p->t.threads);
    free(p->t.channels);
    free(p->t.ends);
    free(p->peer);
}

void machine_shares_release(struct query *q)
{
    for (uint32_t i = 0; i < q->machine_count; i++)
        machine_share_release(&q->machines[i]);
    free(q->machines);
    q->machines = NULL;
    q->machine_count = 0;
    if (q->let_go)
        q->let_go(q);
}

bool query_keep_message(struct query *q, struct machine_share *p)
{
    (void)q;
    if (p->message_count == p->message_cap) {
        uint32_t cap = p->message_cap * 2 + 4;
        Ips__Envelope **more = realloc(p->messages, cap * sizeof(*more));
        if (!more)
            return false;
        p->messages = more;
        p->message_cap = cap;
    }
    Ips__Envelope *env = ips_peer_take_current_message(p->slave->peer);
    if (!env)
        return false;
    p->messages[p->message_count++] = env;
    /* Size on the wire; in memory a message takes a small multiple of it. */
    p->message_bytes += ips__envelope__get_packed_size(env);
    return p->message_bytes <= PART_KEPT_BYTES;
}

bool machine_share_append_rows(void *table, uint32_t *count, void *const *rows,
                               size_t n)
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

/* ---- the list of machines --------------------------------------------- */

static struct machine_share *find_share_of_machine(struct query *q,
                                                   const char *machine)
{
    for (uint32_t i = 0; i < q->machine_count; i++) {
        if (strcmp(q->machines[i].machine, machine) == 0)
            return &q->machines[i];
    }
    return NULL;
}

/* Returns the machine's share. If the machine has none, adds one in order of
 * names, which may move the other shares. NULL: no memory. */
static struct machine_share *find_or_add_share(struct query *q,
                                               const char *machine)
{
    struct machine_share *p = find_share_of_machine(q, machine);
    if (p)
        return p;
    struct machine_share *more =
        realloc(q->machines, (q->machine_count + 1) * sizeof(*q->machines));
    if (!more)
        return NULL;
    q->machines = more;
    uint32_t at = q->machine_count++;
    while (at > 0 && strcmp(q->machines[at - 1].machine, machine) > 0) {
        q->machines[at] = q->machines[at - 1];
        at--;
    }
    memset(&q->machines[at], 0, sizeof(q->machines[at]));
    snprintf(q->machines[at].machine, ROSTER_NAME_BYTES, "%s", machine);
    return &q->machines[at];
}

static void add_machine_share_as_expected(const struct catalogue_row *row,
                                          void *arg)
{
    struct query *q = arg;
    struct machine_share *p = find_or_add_share(q, row->machine);
    if (p)
        p->expected = true;
}

int machine_shares_list_run_and_live_machines(struct query *q,
                                              struct ips_err *err)
{
    machine_shares_release(q);
    if (!needs_run(q))
        return 0;
    int rc = catalogue_for_each_row(q->m->catalogue, q->run,
                                    add_machine_share_as_expected, q, err);
    if (rc < 0)
        return rc;
    uint64_t now = master_now_ns();
    for (struct slave *s = q->m->roster.first; s; s = s->next) {
        struct machine_share *p = find_share_of_machine(q, s->machine);
        if (!p && roster_is_slave_alive(s, now))
            p = find_or_add_share(q, s->machine);
        if (p && s->peer)
            p->slave = s;
    }
    for (uint32_t i = 0; i < q->machine_count; i++) {
        struct machine_share *p = &q->machines[i];
        p->state = p->slave ? MACHINE_ACTIVE : MACHINE_MISSING;
        for (uint32_t k = 0; k < q->excluded_count; k++) {
            if (strcmp(q->excluded[k].machine, p->machine) != 0)
                continue;
            p->state = MACHINE_FAILED;
            p->expected = true;
            snprintf(p->why, sizeof(p->why), "%s", q->excluded[k].why);
        }
    }
    return 0;
}

int machine_shares_list_connected_machines(struct query *q, struct ips_err *err)
{
    machine_shares_release(q);
    for (struct slave *s = q->m->roster.first; s; s = s->next) {
        if (!s->peer)
            continue;
        struct machine_share *p = find_or_add_share(q, s->machine);
        if (!p)
            return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
        p->slave = s;
        p->state = MACHINE_ACTIVE;
    }
    return 0;
}

uint32_t query_count_active_machines(const struct query *q)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < q->machine_count; i++)
        count += q->machines[i].state == MACHINE_ACTIVE;
    return count;
}

bool query_is_why_about_requests(const Ips__Request *r)
{
    return r->ask_case == IPS__REQUEST__ASK_WHY &&
           (strcmp(r->why->answer, "requests") == 0 ||
            strcmp(r->why->answer, "latency") == 0 ||
            strcmp(r->why->answer, "throughput") == 0);
}

bool query_is_missing_a_machine(const struct query *q)
{
    for (uint32_t i = 0; i < q->machine_count; i++) {
        if (q->machines[i].state == MACHINE_MISSING ||
            (q->machines[i].state == MACHINE_FAILED && q->machines[i].expected))
            return true;
    }
    return false;
}

/* ---- names of objects ------------------------------------------------- */

size_t machine_share_program_len(const char *process)
{
    const char *dot = strrchr(process, '.');
    return dot ? (size_t)(dot - process) : strlen(process);
}

bool machine_share_same_program(const char *process, const char *other)
{
    size_t len = machine_share_program_len(process);
    return machine_share_program_len(other) == len &&
           strncmp(process, other, len) == 0;
}

const char *machine_share_process_name(const struct machine_share *p,
                                       uint32_t process)
{
    if (process < p->t.proc_count && p->t.procs[process])
        return p->t.procs[process]->name;
    return "?";
}

uint64_t machine_share_run_load_milli(const struct machine_share *p)
{
    const Ips__SyncAnswer *s = p->sync;
    uint64_t elapsed = ips_sub_sat(s->last_ns, s->first_ns);
    ips_u128 wanted = (ips_u128)s->cpu_ns + s->delay_ns;
    return elapsed ? (uint64_t)(wanted * 1000 / elapsed) : 0;
}

void machine_share_write_process_object_name(const struct machine_share *p,
                                             uint32_t process,
                                             char out[OBJECT_BYTES])
{
    snprintf(out, OBJECT_BYTES, "/%s/%.255s", p->machine,
             machine_share_process_name(p, process));
}

/* A counting sort by process, which keeps the order of chains. */
uint32_t *machine_share_sort_threads_by_process(const struct machine_share *p)
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

bool machine_share_machine_matches_object(const char *machine,
                                          const char *object)
{
    return ips_object_pattern_matches_machine(object, machine);
}
