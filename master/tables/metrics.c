#include "master/tables/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/object.h"
#include "common/types.h"
#include "master/query/machine_share.h"
#include "master/tables/metrics_private.h"
#include "master/tables/pop_efficiencies.h"

#define MAX_CAUSES 32

/* Sums over the threads of an object of any level. */
struct sums {
    uint64_t started, alive_max, machines;
    uint64_t elapsed_ns; /* elapsed time; IPS_UNMEASURED: not known */
    uint64_t cpu_ns, wait_ns, lifetimes_ns;
    uint64_t delay_ns, blocked_ns, unknown_ns;
    uint64_t rusage_ns, rusage_own_ns, rusage_processes;
    uint64_t messages_out, bytes_out, messages_in, bytes_in;
    uint64_t cores_ns; /* sum over machines of usable cores x elapsed time */
    struct {
        const char *name;
        uint64_t ns, count;
    } cause[MAX_CAUSES];
    uint32_t causes;
};

enum object_level {
    LEVEL_RUN,
    LEVEL_MACHINE,
    LEVEL_PROCESS,
    LEVEL_THREAD,
    LEVELS = METRICS_LEVELS
};
static const char *const level_names[LEVELS] = {"run", "machine", "process",
                                                "thread"};

/* ---- sums over threads ------------------------------------------------ */

static void add_wait_of_cause_to_sums(struct sums *s, const char *name,
                                      uint64_t ns, uint64_t count)
{
    uint32_t i = 0;
    while (i < s->causes && strcmp(s->cause[i].name, name) != 0)
        i++;
    if (i == MAX_CAUSES)
        i--; /* table full, never with a real slave: add to the last cause */
    if (i == s->causes)
        s->cause[s->causes++].name = name;
    s->cause[i].ns = ips_add_sat(s->cause[i].ns, ns);
    s->cause[i].count = ips_add_sat(s->cause[i].count, count);
}

/* Returns the last recorded time of a machine. It is taken as the end of
 * processes that are still open. */
static uint64_t last_recorded_ns(const struct machine_share *p)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < p->t.proc_count; i++)
        if (!p->t.procs[i]->outside)
            last = ips_max_u64(last, ips_max_u64(p->t.procs[i]->start_ns,
                                                 p->t.procs[i]->end_ns));
    for (uint32_t i = 0; i < p->t.thread_count; i++)
        if (!p->t.threads[i]->outside)
            last = ips_max_u64(last, ips_max_u64(p->t.threads[i]->start_ns,
                                                 p->t.threads[i]->end_ns));
    return last;
}

static uint64_t compute_lifetime_or_until_last_ns(uint64_t start, uint64_t end,
                                                  uint64_t last)
{
    return ips_sub_sat(end ? end : last, start);
}

static void add_thread_to_sums(struct sums *s, const Ips__ThreadRow *t,
                               uint64_t last)
{
    s->cpu_ns = ips_add_sat(s->cpu_ns, t->cpu_ns);
    s->wait_ns = ips_add_sat(s->wait_ns, t->wait_ns);
    s->delay_ns = ips_add_sat(s->delay_ns, t->delay_ns);
    s->blocked_ns =
        ips_add_sat(s->blocked_ns, ips_sub_sat(t->wait_ns, t->woken_ns));
    s->unknown_ns = ips_add_sat(s->unknown_ns, t->unknown_ns);
    s->lifetimes_ns = ips_add_sat(
        s->lifetimes_ns,
        compute_lifetime_or_until_last_ns(t->start_ns, t->end_ns, last));
    for (size_t i = 0; i < t->n_waits; i++)
        add_wait_of_cause_to_sums(s, t->waits[i]->cause, t->waits[i]->ns,
                                  t->waits[i]->count);
}

static void add_sums(struct sums *s, const struct sums *more)
{
    s->started += more->started;
    s->cpu_ns = ips_add_sat(s->cpu_ns, more->cpu_ns);
    s->wait_ns = ips_add_sat(s->wait_ns, more->wait_ns);
    s->delay_ns = ips_add_sat(s->delay_ns, more->delay_ns);
    s->blocked_ns = ips_add_sat(s->blocked_ns, more->blocked_ns);
    s->unknown_ns = ips_add_sat(s->unknown_ns, more->unknown_ns);
    s->rusage_ns = ips_add_sat(s->rusage_ns, more->rusage_ns);
    s->rusage_own_ns = ips_add_sat(s->rusage_own_ns, more->rusage_own_ns);
    s->rusage_processes += more->rusage_processes;
    s->lifetimes_ns = ips_add_sat(s->lifetimes_ns, more->lifetimes_ns);
    s->cores_ns = ips_add_sat(s->cores_ns, more->cores_ns);
    for (uint32_t i = 0; i < more->causes; i++)
        add_wait_of_cause_to_sums(s, more->cause[i].name, more->cause[i].ns,
                                  more->cause[i].count);
}

/* Adds the traffic of process or machine `who`, that is its row and its column
 * of the matrix `t`. */
static void add_traffic(struct sums *s, const struct metrics_traffic *t,
                        uint64_t who)
{
    for (size_t i = matrix_find_first_cell(&t->by_from, who, false);
         i < t->by_from.count && t->by_from.cells[i].from == who; i++) {
        s->messages_out += t->by_from.cells[i].messages;
        s->bytes_out += t->by_from.cells[i].bytes;
    }
    for (size_t i = matrix_find_first_cell(&t->by_to, who, true);
         i < t->by_to.count && t->by_to.cells[i].to == who; i++) {
        s->messages_in += t->by_to.cells[i].messages;
        s->bytes_in += t->by_to.cells[i].bytes;
    }
}

struct moment {
    uint64_t t;
    int step;
};

static int compare_moments(const void *left, const void *right)
{
    const struct moment *a = left, *b = right;
    if (a->t != b->t)
        return a->t < b->t ? -1 : 1;
    return a->step - b->step; /* at equal times an end comes before a start */
}

/* Returns the greatest number of processes that were alive at once, or
 * IPS_UNMEASURED if there is no memory. */
static uint64_t max_alive_processes(const struct machine_share *p,
                                    uint64_t last)
{
    uint32_t n = p->t.proc_count;
    struct moment *m = calloc((size_t)n * 2 + 1, sizeof(*m));
    uint64_t most = 0;
    uint32_t at = 0;
    int64_t alive = 0;
    if (!m)
        return IPS_UNMEASURED;
    for (uint32_t i = 0; i < n; i++) {
        const Ips__ProcessRow *row = p->t.procs[i];
        if (row->outside)
            continue;
        uint64_t end = row->end_ns ? row->end_ns : last + 1;
        m[at++] = (struct moment){row->start_ns, 1};
        m[at++] = (struct moment){ips_max_u64(end, row->start_ns + 1), -1};
    }
    qsort(m, at, sizeof(*m), compare_moments);
    for (uint32_t i = 0; i < at; i++) {
        alive += m[i].step;
        if (alive > 0)
            most = ips_max_u64(most, (uint64_t)alive);
    }
    free(m);
    return most;
}

/* ---- filling the rows ------------------------------------------------- */

char *metrics_process_name(struct metrics_maker *k,
                           const struct machine_share *p, uint32_t i)
{
    char object[OBJECT_BYTES];
    char **own = NULL;
    if (!k->names)
        k->names = arena_alloc(k->a, (k->count + 1) * sizeof(*k->names));
    if (k->names && !k->names[p->number])
        k->names[p->number] =
            arena_alloc(k->a, ((size_t)p->t.proc_count + 1) * sizeof(char *));
    if (k->names && i < p->t.proc_count)
        own = k->names[p->number];
    if (own && own[i])
        return own[i];
    machine_share_write_process_object_name(p, i, object);
    char *name = arena_printf(k->a, "%s", object);
    if (own)
        own[i] = name;
    return name;
}

static double compute_ratio(uint64_t a, uint64_t b)
{
    if (a == IPS_UNMEASURED || b == IPS_UNMEASURED || b == 0)
        return IPS_UNMEASURED_REAL;
    return (double)a / (double)b;
}

static void fill_waits(struct metrics_maker *k, Ips__MetricsRow *row,
                       const struct sums *s)
{
    row->waits = arena_alloc(k->a, (s->causes + 1) * sizeof(*row->waits));
    for (uint32_t i = 0; i < s->causes && row->waits; i++) {
        Ips__WaitCause *w = arena_alloc(k->a, sizeof(*w));
        if (!w)
            return;
        ips__wait_cause__init(w);
        w->cause = ips_unconst_text(s->cause[i].name);
        w->ns = s->cause[i].ns;
        w->count = s->cause[i].count;
        row->waits[row->n_waits++] = w;
    }
}

/* Returns the kernel's run delay, or IPS_UNMEASURED if the kernel reported none
 * while threads were off the CPU for unknown reasons. */
static uint64_t measured_run_delay(const struct sums *s)
{
    return s->delay_ns == 0 && s->unknown_ns > 0 ? IPS_UNMEASURED : s->delay_ns;
}

/* Fills in how the threads' lifetimes divide into CPU time, waits and the rest.
 */
static void fill_lifetime_parts(Ips__MetricsRow *row, const struct sums *s,
                                enum object_level level)
{
    row->wait_cpu_ns = measured_run_delay(s);
    row->wait_cpu_unknown_ns = s->unknown_ns;
    row->blocked_ns = s->blocked_ns;
    row->other_ns =
        (int64_t)(s->lifetimes_ns - s->cpu_ns - row->blocked_ns - s->delay_ns);
    bool measured = s->rusage_processes > 0;
    row->rusage_cpu_ns = measured ? s->rusage_ns : IPS_UNMEASURED;
    row->rusage_own_cpu_ns = measured ? s->rusage_own_ns : IPS_UNMEASURED;
    row->rusage_processes =
        level == LEVEL_THREAD ? IPS_UNMEASURED : s->rusage_processes;
}

static void fill_ratios(Ips__MetricsRow *row, const struct sums *s,
                        enum object_level level)
{
    uint64_t t = s->elapsed_ns;
    uint64_t delay = measured_run_delay(s);
    bool run = level == LEVEL_RUN;
    row->response =
        compute_ratio(level == LEVEL_THREAD ? t : s->lifetimes_ns, s->cpu_ns);
    row->load = compute_ratio(
        delay == IPS_UNMEASURED ? delay : ips_add_sat(s->cpu_ns, delay),
        s->cpu_ns);
    row->parallelism = run ? compute_ratio(s->cpu_ns, t) : IPS_UNMEASURED_REAL;
    row->rho = compute_ratio(s->cpu_ns, s->cores_ns);
    row->rho_dpm = compute_ratio(s->cpu_ns, t);
    if (run && s->machines > 0)
        row->rho_dpm /= (double)s->machines;
    row->progress_ratio = compute_ratio(s->cpu_ns, s->wait_ns);
    /* Averages per second over the elapsed time, not current rates. */
    row->message_rate = compute_ratio(s->messages_out, t) * 1e9;
    row->byte_rate = compute_ratio(s->bytes_out, t) * 1e9;
    row->message_bytes_mean =
        s->messages_out ? s->bytes_out / s->messages_out : IPS_UNMEASURED;
}

/* Adds an empty row. NULL: there is no memory or, counted in k->cut, no room
 * for more rows. */
static Ips__MetricsRow *append_empty_row_or_count_cut(struct metrics_maker *k)
{
    Ips__MetricsAnswer *out = k->out;
    if (out->n_rows == METRICS_MAX_ROWS && !k->all) {
        k->cut++;
        return NULL;
    }
    if (!arena_reserve_array_slot(k->a, &out->rows, out->n_rows, &k->row_cap,
                                  sizeof(*out->rows)))
        return NULL;
    Ips__MetricsRow *row = arena_alloc(k->a, sizeof(*row));
    if (!row)
        return NULL;
    ips__metrics_row__init(row);
    out->rows[out->n_rows++] = row;
    return row;
}

static void fill_row(struct metrics_maker *k, Ips__MetricsRow *row,
                     const char *object, enum object_level level,
                     const struct sums *s)
{
    row->object = level == LEVEL_PROCESS ? ips_unconst_text(object)
                                         : arena_printf(k->a, "%s", object);
    row->level = ips_unconst_text(level_names[level]);
    row->processes_started = s->started;
    row->processes_alive_max = s->alive_max;
    row->machines = s->machines;
    row->elapsed_ns = s->elapsed_ns;
    row->cpu_ns = s->cpu_ns;
    row->wait_ns = s->wait_ns;
    row->lifetimes_ns = s->lifetimes_ns;
    row->messages_out = s->messages_out;
    row->bytes_out = s->bytes_out;
    row->messages_in = s->messages_in;
    row->bytes_in = s->bytes_in;
    fill_waits(k, row, s);
    fill_lifetime_parts(row, s, level);
    row->pop_parallel = row->pop_load_balance = IPS_UNMEASURED_REAL;
    row->pop_communication = IPS_UNMEASURED_REAL;
    row->pop_cpu_max_ns = IPS_UNMEASURED;
    fill_ratios(row, s, level);
}

static void add_row(struct metrics_maker *k, const char *object,
                    enum object_level level, const struct sums *s)
{
    Ips__MetricsRow *row = append_empty_row_or_count_cut(k);
    if (row)
        fill_row(k, row, object, level, s);
}

/* ---- the tree of objects ---------------------------------------------- */

/* Whether `object` is the requested object or below it. If so, remembers that
 * the requested object exists. */
static bool mark_found_if_within_requested_object(struct metrics_maker *k,
                                                  const char *object)
{
    bool in = ips_object_matches_pattern(k->object, object);
    k->is_found = k->is_found || in;
    return in;
}

static bool is_row_requested(struct metrics_maker *k, const char *object,
                             enum object_level level)
{
    return mark_found_if_within_requested_object(k, object) &&
           k->at_level[level];
}

static void append_thread_row_if_requested(struct metrics_maker *k,
                                           const struct machine_share *p,
                                           const Ips__ThreadRow *t,
                                           uint64_t last, const char *process)
{
    char object[OBJECT_BYTES + 16];
    struct sums s = {.started = IPS_UNMEASURED,
                     .alive_max = IPS_UNMEASURED,
                     .machines = IPS_UNMEASURED};
    snprintf(object, sizeof(object), "%s/%u", process, t->tid);
    if (t->outside || !is_row_requested(k, object, LEVEL_THREAD))
        return;
    add_thread_to_sums(&s, t, last);
    s.elapsed_ns =
        compute_lifetime_or_until_last_ns(t->start_ns, t->end_ns, last);
    s.cores_ns = s.elapsed_ns * p->sync->cores;
    s.messages_out = t->messages_out;
    s.bytes_out = t->bytes_out;
    s.messages_in = t->messages_in;
    s.bytes_in = t->bytes_in;
    add_row(k, object, LEVEL_THREAD, &s);
}

/* Returns the sums over process `i`, and adds its row and those of its threads
 * as far as they are wanted. `by_process` lists the machine's threads ordered
 * by process, so those of a process are adjacent; *at advances past them. */
static struct sums sum_process_and_add_rows_if_requested(
    struct metrics_maker *k, const struct machine_share *p, uint32_t i,
    const uint32_t *by_process, uint32_t *at, uint64_t last)
{
    const char *object = metrics_process_name(k, p, i);
    const Ips__ProcessRow *row = p->t.procs[i];
    struct sums s = {.started = !row->earlier, .alive_max = 1, .machines = 1};
    uint32_t first = *at;
    s.elapsed_ns =
        compute_lifetime_or_until_last_ns(row->start_ns, row->end_ns, last);
    s.cores_ns = s.elapsed_ns * p->sync->cores;
    for (;
         *at < p->t.thread_count && p->t.threads[by_process[*at]]->process == i;
         ++*at)
        if (!p->t.threads[by_process[*at]]->outside)
            add_thread_to_sums(&s, p->t.threads[by_process[*at]], last);
    if (row->outside)
        return (struct sums){0};
    add_traffic(&s, &k->processes, matrix_process_key(p->number, i));
    if (row->rusage_cpu_ns != UINT64_MAX) {
        s.rusage_ns = row->rusage_cpu_ns;
        s.rusage_own_ns = s.cpu_ns;
        s.rusage_processes = 1;
    }
    if (is_row_requested(k, object, LEVEL_PROCESS)) {
        struct sums shown = s;
        shown.alive_max = shown.machines = IPS_UNMEASURED;
        add_row(k, object, LEVEL_PROCESS, &shown);
    }
    if (k->at_level[LEVEL_THREAD] || !k->is_found) {
        for (uint32_t t = first; t < *at; t++)
            append_thread_row_if_requested(k, p, p->t.threads[by_process[t]],
                                           last, object);
    }
    return s;
}

static int add_rows_of_machine_and_its_objects(struct metrics_maker *k,
                                               const struct machine_share *p,
                                               struct sums *s,
                                               struct ips_err *err)
{
    char object[ROSTER_NAME_BYTES + 2];
    uint64_t last = last_recorded_ns(p), first = UINT64_MAX;
    uint32_t at = 0, *order = machine_share_sort_threads_by_process(p);
    if (!order)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    memset(s, 0, sizeof(*s));
    snprintf(object, sizeof(object), "/%s", p->machine);
    /* The machine's row comes before those of its processes but is filled in
     * later. */
    Ips__MetricsRow *row = is_row_requested(k, object, LEVEL_MACHINE)
                               ? append_empty_row_or_count_cut(k)
                               : NULL;
    for (uint32_t i = 0; i < p->t.proc_count; i++) {
        struct sums one =
            sum_process_and_add_rows_if_requested(k, p, i, order, &at, last);
        add_sums(s, &one);
        if (p->t.procs[i]->outside)
            continue;
        first = ips_min_u64(first, p->t.procs[i]->start_ns);
    }
    free(order);
    s->alive_max = max_alive_processes(p, last);
    if (s->alive_max == IPS_UNMEASURED)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    s->machines = 1;
    s->elapsed_ns = ips_sub_sat(last, ips_min_u64(first, last));
    s->cores_ns = s->elapsed_ns * p->sync->cores;
    add_traffic(s, &k->machines, matrix_process_key(p->number, 0));
    if (row)
        fill_row(k, row, object, LEVEL_MACHINE, s);
    return 0;
}

/* Returns the elapsed time of the run's command. If it is not known, returns
 * the elapsed time of the machine on which the command ran, or of the only
 * machine; else IPS_UNMEASURED. */
static uint64_t run_elapsed(const struct metrics_maker *k,
                            const struct sums *machine)
{
    for (uint32_t i = 0; i < k->count; i++) {
        const Ips__SyncAnswer *s = k->shares[i]->sync;
        if (s->state->has_root)
            return s->goal_elapsed_ns ? s->goal_elapsed_ns
                                      : machine[i].elapsed_ns;
    }
    return k->count == 1 ? machine[0].elapsed_ns : IPS_UNMEASURED;
}

static int add_rows_of_run_and_all_objects(struct metrics_maker *k,
                                           struct ips_err *err)
{
    struct sums all = {0};
    struct sums *machine = calloc(k->count + 1, sizeof(*machine));
    if (!machine)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    int rc = 0;
    Ips__MetricsRow *row = is_row_requested(k, "", LEVEL_RUN)
                               ? append_empty_row_or_count_cut(k)
                               : NULL;
    for (uint32_t i = 0; i < k->count && rc == 0; i++) {
        rc = add_rows_of_machine_and_its_objects(k, k->shares[i], &machine[i],
                                                 err);
        add_sums(&all, &machine[i]);
        all.messages_out += machine[i].messages_out;
        all.bytes_out += machine[i].bytes_out;
        all.messages_in += machine[i].messages_in;
        all.bytes_in += machine[i].bytes_in;
    }
    all.machines = k->count;
    /* The maximum over several machines would need aligned clocks. */
    all.alive_max = k->count == 1 ? machine[0].alive_max : IPS_UNMEASURED;
    all.elapsed_ns = run_elapsed(k, machine);
    if (row && rc == 0) {
        fill_row(k, row, "/", LEVEL_RUN, &all);
        pop_fill_efficiencies(k->shares, k->count, all.elapsed_ns, row);
    }
    free(machine);
    return rc;
}

/* ---- levels and the whole answer -------------------------------------- */

static enum object_level level_of_object(const char *object)
{
    unsigned parts = ips_object_count_components(object);
    return parts < LEVELS ? (enum object_level)parts : LEVEL_THREAD;
}

int metrics_parse_levels(const char *object, const char *level,
                         bool at_level[METRICS_LEVELS], struct ips_err *err)
{
    memset(at_level, 0, METRICS_LEVELS * sizeof(*at_level));
    if (*level == '\0') {
        enum object_level own = level_of_object(object);
        at_level[own] = true;
        if (own + 1 < LEVELS)
            at_level[own + 1] = true;
        return 0;
    }
    for (int i = 0; i < LEVELS; i++) {
        if (strcmp(level, level_names[i]) == 0) {
            at_level[i] = true;
            return 0;
        }
    }
    return ips_err_set(err, IPS_E_USAGE,
                       "level %s: run, machine, process or thread", level);
}

int metrics_make_rows_and_matrices(struct machine_share *const *parts,
                                   uint32_t count, bool pending,
                                   const char *object, const char *level,
                                   struct arena *a, Ips__MetricsAnswer *out,
                                   uint64_t *cut, struct ips_err *err)
{
    struct metrics_maker k = {
        .shares = parts, .count = count, .a = a, .out = out};
    int rc = 0;
    k.object = strcmp(object, "/") == 0 ? "" : object;
    k.all = !cut;
    if (level)
        rc = metrics_parse_levels(k.object, level, k.at_level, err);
    else
        memset(k.at_level, true, sizeof(k.at_level));
    if (rc == 0)
        rc = matrix_make(parts, count, pending, &k.processes.by_from, err);
    if (rc == 0)
        rc = matrix_sum_by_machine(&k.processes.by_from, &k.machines.by_from,
                                   err);
    if (rc == 0)
        rc = matrix_copy_sorted_by_receiver(&k.processes.by_from,
                                            &k.processes.by_to, err);
    if (rc == 0)
        rc = matrix_copy_sorted_by_receiver(&k.machines.by_from,
                                            &k.machines.by_to, err);
    if (rc == 0)
        rc = add_rows_of_run_and_all_objects(&k, err);
    if (rc == 0 && !k.is_found)
        rc = ips_err_set(err, IPS_E_NOT_FOUND, "no object %s in this run",
                         object);
    if (rc == 0) {
        metrics_add_matrix(&k, &k.machines.by_from, true, &out->machine_matrix,
                           &out->n_machine_matrix);
        metrics_add_matrix(&k, &k.processes.by_from, false,
                           &out->process_matrix, &out->n_process_matrix);
        metrics_add_matrix_totals(&k, &k.machines, true, &out->machine_totals,
                                  &out->n_machine_totals);
        metrics_add_matrix_totals(&k, &k.processes, false, &out->process_totals,
                                  &out->n_process_totals);
    }
    if (rc == 0 && a->failed)
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    if (cut)
        *cut = k.cut;
    matrix_release(&k.processes.by_from);
    matrix_release(&k.processes.by_to);
    matrix_release(&k.machines.by_from);
    matrix_release(&k.machines.by_to);
    return rc;
}
