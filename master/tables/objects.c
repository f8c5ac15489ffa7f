/* The tree of machines, processes and threads, as rows. */
#include <stdio.h>
#include <stdlib.h>

#include "common/types.h"
#include "master/query/certificate.h"
#include "master/query/machine_share.h"
#include "master/tables/tables.h"

struct tree {
    const struct query *q;
    struct arena *a;
    Ips__ObjectRow **rows;
    size_t count, cap;
};

static Ips__ObjectRow *add_object(struct tree *t, const char *object,
                                  const char *level)
{
    if (!arena_reserve_array_slot(t->a, &t->rows, t->count, &t->cap,
                                  sizeof(*t->rows)))
        return NULL;
    Ips__ObjectRow *row = arena_alloc(t->a, sizeof(*row));
    if (!row)
        return NULL;
    ips__object_row__init(row);
    row->object = arena_printf(t->a, "%s", *object ? object : "/");
    row->level = ips_unconst_text(level);
    t->rows[t->count++] = row;
    return row;
}

static uint64_t lifetime_ns(uint64_t start, uint64_t end, uint64_t last)
{
    return ips_sub_sat(end ? end : last, start);
}

struct extent { /* times of one machine, by its own clock */
    uint64_t first, last;
    uint64_t origin; /* time 0 of the answer, by this clock */
    uint32_t processes;
};

static struct extent
compute_time_extent_of_machine(const struct machine_share *p, bool windowed)
{
    struct extent e = {.first = UINT64_MAX};
    for (uint32_t i = 0; i < p->t.proc_count; i++) {
        if (p->t.procs[i]->outside)
            continue;
        e.processes++;
        e.first = ips_min_u64(e.first, p->t.procs[i]->start_ns);
        e.last = ips_max_u64(e.last, ips_max_u64(p->t.procs[i]->start_ns,
                                                 p->t.procs[i]->end_ns));
    }
    for (uint32_t i = 0; i < p->t.thread_count; i++)
        if (!p->t.threads[i]->outside)
            e.last = ips_max_u64(e.last, ips_max_u64(p->t.threads[i]->start_ns,
                                                     p->t.threads[i]->end_ns));
    e.origin = windowed ? p->sync->first_ns : e.first;
    return e;
}

static Ips__ObjectRow *add_process(struct tree *t,
                                   const struct machine_share *p, uint32_t i,
                                   struct extent e)
{
    char object[OBJECT_BYTES];
    const Ips__ProcessRow *r = p->t.procs[i];
    if (r->outside)
        return NULL;
    machine_share_write_process_object_name(p, i, object);
    Ips__ObjectRow *row = add_object(t, object, "process");
    if (!row)
        return NULL;
    row->name = ips_unconst_text(r->command);
    row->pid = r->pid;
    if (r->parent >= 0 && r->parent < (int64_t)p->t.proc_count)
        row->parent_pid = p->t.procs[r->parent]->pid;
    row->start_ns = ips_sub_sat(r->start_ns, e.origin);
    row->elapsed_ns = lifetime_ns(r->start_ns, r->end_ns, e.last);
    row->cpu_ns = r->cpu_ns;
    row->open = r->open;
    row->end = ips_unconst_text(r->end);
    return row;
}

static void add_thread(struct tree *t, const struct machine_share *p,
                       uint32_t i, struct extent e)
{
    char process[OBJECT_BYTES], object[OBJECT_BYTES + 16];
    const Ips__ThreadRow *r = p->t.threads[i];
    if (r->outside)
        return;
    machine_share_write_process_object_name(p, r->process, process);
    snprintf(object, sizeof(object), "%s/%u", process, r->tid);
    Ips__ObjectRow *row = add_object(t, object, "thread");
    if (!row)
        return;
    row->name = ips_unconst_text(r->name);
    row->pid = p->t.procs[r->process]->pid;
    row->tid = r->tid;
    row->start_ns = ips_sub_sat(r->start_ns, e.origin);
    row->elapsed_ns = lifetime_ns(r->start_ns, r->end_ns, e.last);
    row->cpu_ns = r->cpu_ns;
    row->open = r->open;
}

/* Adds a machine, then each of its processes followed by its threads. Returns
 * the machine's CPU time. */
static uint64_t
add_machine_with_processes_and_threads(struct tree *t,
                                       const struct machine_share *p)
{
    char object[ROSTER_NAME_BYTES + 2];
    struct extent e =
        compute_time_extent_of_machine(p, query_wants_windowed_tables(t->q));
    uint64_t cpu = 0;
    uint32_t at = 0, *order = machine_share_sort_threads_by_process(p);
    if (!order) {
        t->a->failed = true;
        return 0;
    }
    for (uint32_t i = 0; i < p->t.proc_count; i++)
        cpu = ips_add_sat(cpu, p->t.procs[i]->cpu_ns);
    snprintf(object, sizeof(object), "/%s", p->machine);
    Ips__ObjectRow *row = add_object(t, object, "machine");
    if (row) {
        /* a copy, because the row outlives the machine_share */
        row->name = arena_printf(t->a, "%s", p->machine);
        row->children = e.processes;
        row->elapsed_ns = ips_sub_sat(e.last, ips_min_u64(e.first, e.last));
        row->cpu_ns = cpu;
        row->open = p->sync->state->open;
    }
    for (uint32_t i = 0; i < p->t.proc_count; i++) {
        Ips__ObjectRow *process = add_process(t, p, i, e);
        for (; at < p->t.thread_count && p->t.threads[order[at]]->process == i;
             at++) {
            add_thread(t, p, order[at], e);
            if (process && !p->t.threads[order[at]]->outside)
                process->children++;
        }
    }
    free(order);
    return cpu;
}

static void add_all_objects(struct tree *t)
{
    const struct gather *g = &t->q->gather;
    Ips__ObjectRow *top = add_object(t, "", "run");
    uint64_t cpu = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        const struct machine_share *p = g->active[i];
        uint64_t one = add_machine_with_processes_and_threads(t, p);
        cpu = ips_add_sat(cpu, one);
        if (top && (p->sync->state->has_root || i == 0)) {
            top->name = ips_unconst_text(p->sync->state->command);
            top->elapsed_ns = p->sync->state->has_root
                                  ? p->sync->goal_elapsed_ns
                                  : IPS_UNMEASURED;
        }
    }
    if (top) {
        top->children = g->count;
        top->cpu_ns = cpu;
        top->open = certificate_run_is_open(t->q);
    }
}

int tables_make_objects(struct tables *t, const struct query *q,
                        struct ips_err *err)
{
    struct tree tree = {.q = q, .a = &t->a};
    if (t->objects)
        return 0;
    add_all_objects(&tree);
    if (t->a.failed)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    t->objects = tree.rows;
    t->object_count = tree.count;
    return 0;
}
