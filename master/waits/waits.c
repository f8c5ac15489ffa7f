#include "master/waits/waits.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/types.h"
#include "master/query/machine_share.h"

#define MAX_PLACES (1u << 22) /* limit of call sites per machine */
/* limit for the number of threads of a machine that were in a blocking call at
 * the end */
#define MAX_BLOCKED (1u << 12)
/* Limit of wait rows per machine: ROWS_A_NODE for each node, and ROWS_FREE more
 * for small graphs. */
#define ROWS_A_NODE 4u
#define ROWS_FREE (1u << 20)
/* Limit of lock rows per record with ipsrun --locks=all. The record of a writer
 * has the most: READERS_MAX + 2 of slave/build/locks.c. */
#define LOCKS_A_RECORD 66u
#define LOCK_UNITS_MAX (1u << 30)

void waits_release(struct waits *w)
{
    for (uint32_t i = 0; i < w->machine_count; i++) {
        if (w->machine) {
            struct waits_rows *r = &w->machine[i];
            free(r->call_site);
            free(r->blocked);
            free(r->node);
            free(r->of);
            free(r->why);
            free(r->giver);
            free(r->of_node);
            free(r->ns);
            free(r->end_ns);
            free(r->unended_ns);
            free(r->lock_row);
        }
        if (w->arc_profile)
            arc_profile_release(&w->arc_profile[i]);
        if (w->call_site_number)
            free(w->call_site_number[i]);
        if (w->symbol_number)
            free(w->symbol_number[i]);
    }
    free(w->machine);
    free(w->arc_profile);
    free(w->call_site_number);
    free(w->symbol_number);
    free(w->wait);
    free(w->call_site_of);
    free(w->call_site);
    free(w->symbol);
    free(w->process_base);
    ips_waits_release(&w->laid);
    memset(w, 0, sizeof(*w));
}

/* ---- storing wait rows -------------------------------------------------- */

static bool reserve_array(void *array, uint64_t cap, size_t item)
{
    void *old;
    memcpy(&old, array, sizeof(old));
    void *more = realloc(old, cap * item);
    if (more)
        memcpy(array, &more, sizeof(more));
    return more != NULL; /* cppcheck-suppress memleak ; *array has it */
}

static bool reserve_rows(struct waits_rows *r, uint64_t more)
{
    if (r->count + more <= r->cap)
        return true;
    uint64_t cap = r->cap * 2 > r->count + more ? r->cap * 2 : r->count + more;
    bool fine = reserve_array(&r->node, cap, sizeof(*r->node)) &&
                reserve_array(&r->of, cap, sizeof(*r->of)) &&
                reserve_array(&r->giver, cap, sizeof(*r->giver)) &&
                reserve_array(&r->why, cap, 1) &&
                reserve_array(&r->of_node, cap, 1) &&
                reserve_array(&r->ns, cap, sizeof(*r->ns)) &&
                reserve_array(&r->end_ns, cap, sizeof(*r->end_ns)) &&
                reserve_array(&r->unended_ns, cap, sizeof(*r->unended_ns));
    if (fine)
        r->cap = cap;
    return fine;
}

/* Sets r->cause, which maps the slave's numbers of wait causes to indices in
 * w->cause. Adds new causes to w->cause. */
static int store_causes(struct waits *w, struct waits_rows *r,
                        const Ips__WaitRowsAnswer *a, struct ips_err *err)
{
    if (a->n_causes == 0)
        return 0;
    if (r->cause_count || a->n_causes > WAITS_CAUSES)
        return ips_err_set(err, IPS_E_PROTOCOL, "its causes of waits");
    for (size_t i = 0; i < a->n_causes; i++) {
        uint32_t k = 0;
        while (k < w->cause_count && strcmp(w->cause[k], a->causes[i]) != 0)
            k++;
        if (k == WAITS_CAUSES)
            return ips_err_set(err, IPS_E_LIMIT, "too many causes of waits");
        if (k == w->cause_count)
            w->cause[w->cause_count++] = a->causes[i];
        r->cause[i] = (uint8_t)k;
    }
    r->cause_count = (uint32_t)a->n_causes;
    return 0;
}

static int store_wait_row(const struct machine_share *p, struct waits_rows *r,
                          const Ips__WaitRowsAnswer *a, size_t i,
                          struct ips_err *err)
{
    uint32_t before = r->count ? r->node[r->count - 1] : 0;
    if (a->node[i] >= p->sync->nodes || a->node[i] < before ||
        a->cause[i] >= r->cause_count || a->place[i] >= r->call_site_count ||
        a->giver[i] >= r->call_site_count)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "wait %" PRIu64 " is out of order", r->count);
    r->node[r->count] = a->node[i];
    r->of[r->count] = a->place[i];
    r->giver[r->count] = a->giver[i];
    r->why[r->count] = r->cause[a->cause[i]];
    r->of_node[r->count] = a->of_node[i] != 0;
    r->ns[r->count] = a->ns[i];
    r->end_ns[r->count] = a->end_ns[i];
    r->unended_ns[r->count] = a->unended_ns[i];
    r->count++;
    return 0;
}

static int check_and_store_lock_rows(const struct machine_share *p,
                                     struct waits_rows *r,
                                     const Ips__WaitRowsAnswer *a,
                                     struct ips_err *err)
{
    size_t n = a->n_lock;
    if (a->n_lock_node != n || a->n_lock_after != n || a->n_lock_does != n ||
        a->n_lock_at_ns != n)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "locks: arrays differ in length");
    uint64_t most =
        p->sync->nodes * ROWS_A_NODE + ROWS_FREE +
        (p->sync->state ? p->sync->state->events : 0) * LOCKS_A_RECORD;
    if (n > most - r->lock_count)
        return ips_err_set(err, IPS_E_LIMIT, "it has too many waits for locks");
    if (r->lock_count + n > r->lock_cap) {
        uint64_t cap = 2 * (r->lock_count + n);
        if (!reserve_array(&r->lock_row, cap, sizeof(*r->lock_row)))
            return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for locks");
        r->lock_cap = cap;
    }
    for (size_t i = 0; i < n; i++) {
        struct waits_lock_row *to = &r->lock_row[r->lock_count];
        const struct waits_lock_row *before = r->lock_count ? to - 1 : NULL;
        if (a->lock_node[i] >= p->sync->nodes || a->lock[i] >= most ||
            a->lock_does[i] > LOCK_UNITS_MAX * 2 + 1 ||
            (before && before->node > a->lock_node[i]))
            return ips_err_set(err, IPS_E_PROTOCOL,
                               "row %" PRIu64 " of a lock is out of order",
                               r->lock_count);
        *to = (struct waits_lock_row){.after = a->lock_after[i],
                                      .at_ns = a->lock_at_ns[i],
                                      .lock = a->lock[i],
                                      .node = a->lock_node[i],
                                      .gives = (a->lock_does[i] & 1) != 0,
                                      .units = a->lock_does[i] >> 1};
        r->lock_count++;
    }
    return 0;
}

static int store_wait_rows(struct query *q, struct waits *w,
                           struct machine_share *p, const Ips__Reply *reply,
                           struct ips_err *err)
{
    struct waits_rows *r = &w->machine[p->number];
    const Ips__WaitRowsAnswer *a = reply->wait_rows;
    size_t n = a->n_node;
    if (a->n_cause != n || a->n_place != n || a->n_giver != n ||
        a->n_of_node != n || a->n_ns != n || a->n_end_ns != n ||
        a->n_unended_ns != n)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "waits: arrays differ in length");
    r->now_ns = ips_max_u64(r->now_ns, a->now_ns);
    if (a->n_places > MAX_PLACES - r->call_site_count ||
        a->n_blocked > MAX_BLOCKED - r->blocked_count ||
        n > p->sync->nodes * ROWS_A_NODE + ROWS_FREE - r->count)
        return ips_err_set(err, IPS_E_LIMIT, "it has too many waits");
    /* Strings of call sites, causes and blocked calls are borrowed from the
     * message, so it must be kept; all else is copied. */
    if ((a->n_places || a->n_causes || a->n_blocked) &&
        !query_keep_message(q, p))
        return ips_err_set(err, IPS_E_LIMIT, "its tables are too large");
    int rc = store_causes(w, r, a, err);
    if (rc < 0)
        return rc;
    if (!machine_share_append_rows(&r->call_site, &r->call_site_count,
                                   (void *const *)a->places, a->n_places) ||
        !machine_share_append_rows(&r->blocked, &r->blocked_count,
                                   (void *const *)a->blocked, a->n_blocked) ||
        !reserve_rows(r, n))
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for waits");
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = store_wait_row(p, r, a, i, err);
    if (rc == 0 && a->n_lock)
        rc = check_and_store_lock_rows(p, r, a, err);
    if (rc == 0 && !reply->last)
        query_widen_reply_window(q, p);
    return rc;
}

/* ---- rounds of requests to the slaves ----------------------------------- */

static int receive_wait_rows_reply(struct query *q, struct machine_share *p,
                                   const Ips__Reply *reply, struct ips_err *err)
{
    if (reply->answer_case != IPS__REPLY__ANSWER_WAIT_ROWS)
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to WaitRowsAsk");
    return store_wait_rows(q, path_data_of(q)->waits, p, reply, err);
}

static int receive_arc_profile_reply(struct query *q, struct machine_share *p,
                                     const Ips__Reply *reply,
                                     struct ips_err *err)
{
    return arc_profile_append_reply(
        q, p, &path_data_of(q)->waits->arc_profile[p->number], reply, err);
}

static void ask_arc_profile(struct query *q)
{
    query_open_round(q, receive_arc_profile_reply,
                     path_data_of(q)->after_waits);
    for (uint32_t i = 0; i < q->gather.count; i++)
        if (path_data_of(q)->waits->callers && !path_data_of(q)->waits->cut)
            arc_profile_ask_callers(q, q->gather.active[i]);
        else if (path_data_of(q)->waits->cut)
            arc_profile_ask_cpu_and_callers(q, q->gather.active[i],
                                            &path_data_of(q)->window);
        else
            arc_profile_ask(q, q->gather.active[i], NULL);
    query_close_round(q);
}

void waits_fetch_rows_and_arc_profiles(struct query *q, struct waits *w,
                                       void (*after)(struct query *q))
{
    struct ips_err err = {0};
    uint32_t n = q->gather.count;
    bool cut = w->cut && path_data_of(q)->window.is_set;
    bool callers = w->callers;
    waits_release(w);
    w->cut = cut;
    w->callers = callers;
    w->machine_count = n;
    w->machine = calloc((size_t)n + 1, sizeof(*w->machine));
    w->arc_profile = calloc((size_t)n + 1, sizeof(*w->arc_profile));
    if (!w->machine || !w->arc_profile) {
        ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
        query_fail(q, &err);
        return;
    }
    path_data_of(q)->waits = w;
    path_data_of(q)->after_waits = after;
    query_open_round(q, receive_wait_rows_reply, ask_arc_profile);
    for (uint32_t i = 0; i < n; i++) {
        struct machine_share *p = q->gather.active[i];
        Ips__WaitRowsAsk ask = IPS__WAIT_ROWS_ASK__INIT;
        Ips__Request request = IPS__REQUEST__INIT;
        ask.generation = p->sync->generation;
        ask.window = ENGINE_WINDOW;
        request.ask_case = IPS__REQUEST__ASK_WAIT_ROWS;
        request.wait_rows = &ask;
        query_send_request_to_slave(q, p, &request, true);
        p->window = ENGINE_WINDOW;
    }
    query_close_round(q);
}

/* ---- numbering equal call sites and symbols --------------------------- */

struct named {
    struct waits_call_site p;
    uint32_t *number;
};

static int compare_call_sites_by_name(const void *va, const void *vb)
{
    const struct waits_call_site *a = &((const struct named *)va)->p,
                                 *b = &((const struct named *)vb)->p;
    int order = strcmp(a->procedure, b->procedure);
    if (order == 0)
        order = strcmp(a->module, b->module);
    if (order == 0)
        order = strcmp(a->file, b->file);
    return order ? order
                 : (a->source_line > b->source_line) -
                       (a->source_line < b->source_line);
}

/* Sorts `all` by name, copies each distinct call site to `out`, and stores its
 * index there through the `number` of each entry. */
static void assign_distinct_call_site_numbers(struct named *all, size_t n,
                                              struct waits_call_site *out,
                                              uint32_t *count)
{
    if (n > 0)
        qsort(all, n, sizeof(*all), compare_call_sites_by_name);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || compare_call_sites_by_name(&all[i - 1], &all[i]) != 0)
            out[(*count)++] = all[i].p;
        *all[i].number = *count - 1;
    }
}

static bool number_call_sites_of_all_machines(struct waits *w)
{
    size_t total = 0, n = 0;
    w->call_site_number =
        calloc((size_t)w->machine_count + 1, sizeof(uint32_t *));
    for (uint32_t i = 0; i < w->machine_count; i++)
        total += w->machine[i].call_site_count;
    struct named *all = malloc((total + 1) * sizeof(*all));
    w->call_site = malloc((total + 1) * sizeof(*w->call_site));
    bool fine = w->call_site_number && all && w->call_site;
    for (uint32_t i = 0; i < w->machine_count && fine; i++) {
        const struct waits_rows *r = &w->machine[i];
        w->call_site_number[i] =
            malloc(((size_t)r->call_site_count + 1) * sizeof(uint32_t));
        fine = w->call_site_number[i] != NULL;
        for (uint32_t k = 0; k < r->call_site_count && fine; k++)
            all[n++] = (struct named){
                {r->call_site[k]->procedure, r->call_site[k]->module,
                 r->call_site[k]->file, r->call_site[k]->line},
                &w->call_site_number[i][k]};
    }
    if (fine)
        assign_distinct_call_site_numbers(all, n, w->call_site,
                                          &w->call_site_count);
    free(all);
    return fine;
}

static bool number_symbols_of_all_machines(struct waits *w)
{
    size_t total = 0, n = 0;
    w->symbol_number = calloc((size_t)w->machine_count + 1, sizeof(uint32_t *));
    for (uint32_t i = 0; i < w->machine_count; i++)
        total += w->arc_profile[i].symbol_count;
    struct named *all = malloc((total + 1) * sizeof(*all));
    struct waits_call_site *names = malloc((total + 1) * sizeof(*names));
    w->symbol = malloc((total + 1) * sizeof(*w->symbol));
    bool fine = w->symbol_number && all && names && w->symbol;
    for (uint32_t i = 0; i < w->machine_count && fine; i++) {
        const struct arc_profile *p = &w->arc_profile[i];
        w->symbol_number[i] =
            malloc(((size_t)p->symbol_count + 1) * sizeof(uint32_t));
        fine = w->symbol_number[i] != NULL;
        for (uint32_t k = 0; k < p->symbol_count && fine; k++)
            all[n++] = (struct named){
                {p->symbol[k].name, p->symbol[k].module, p->symbol[k].file, 0},
                &w->symbol_number[i][k]};
    }
    if (fine)
        assign_distinct_call_site_numbers(all, n, names, &w->symbol_count);
    for (uint32_t i = 0; fine && i < w->symbol_count; i++)
        w->symbol[i] = (struct entity_symbol){
            names[i].procedure, names[i].module, names[i].file, 0};
    free(names);
    free(all);
    return fine;
}

/* ---- one time scale for all machines ------------------------------------ */

/* Returns the time of a machine's first event relative to the run's origin;
 * negative if the machine started earlier. */
static int64_t first_event_on_run_scale(const struct machine_share *p)
{
    const struct ips_clock_map *m = &engine_data_of_machine(p)->clock;
    ips_i128 x = (ips_i128)p->sync->first_ns - (ips_i128)m->from;
    ips_i128 y = x + x * m->drift_q40 / ((ips_i128)1 << 40) + m->shift_ns;
    return y < -(ips_i128)(1ll << 61) ? -(1ll << 61) : (int64_t)y;
}

static void convert_times_to_one_scale(struct query *q, struct waits *w,
                                       struct ips_graph *g)
{
    int64_t least = 0;
    for (uint32_t i = 0; i < w->machine_count; i++) {
        int64_t first = first_event_on_run_scale(q->gather.active[i]);
        least = first < least ? first : least;
    }
    w->scale_ns = (uint64_t)-least;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const struct ips_chain *ch = &g->chains[c];
        struct ips_clock_map m =
            engine_data_of_machine(q->gather.active[ch->machine])->clock;
        m.shift_ns += (int64_t)w->scale_ns;
        for (uint32_t i = ch->first; i < ch->first + ch->count; i++)
            g->at[i] = ips_clock_map_ns(&m, g->at[i]);
    }
}

static bool merge_rows_of_machines(struct query *q, struct waits *w)
{
    for (uint32_t i = 0; i < w->machine_count; i++)
        w->count += w->machine[i].count;
    w->wait = malloc((w->count + 1) * sizeof(*w->wait));
    w->call_site_of = malloc((w->count + 1) * sizeof(*w->call_site_of));
    if (!w->wait || !w->call_site_of)
        return false;
    uint64_t n = 0;
    for (uint32_t i = 0; i < w->machine_count; i++) {
        const struct waits_rows *r = &w->machine[i];
        struct ips_clock_map m =
            engine_data_of_machine(q->gather.active[i])->clock;
        m.shift_ns += (int64_t)w->scale_ns;
        for (uint64_t k = 0; k < r->count; k++, n++) {
            w->wait[n] =
                (struct ips_wait){.arc = w->node_base[i] + r->node[k],
                                  .cause = r->why[k],
                                  .of_node = r->of_node[k],
                                  .ns = r->ns[k],
                                  .end_ns = ips_clock_map_ns(&m, r->end_ns[k])};
            w->call_site_of[n] = w->call_site_number[i][r->of[k]];
        }
    }
    return true;
}

static bool compute_process_bases(const struct query *q, struct waits *w)
{
    w->process_base =
        calloc((size_t)w->machine_count + 1, sizeof(*w->process_base));
    for (uint32_t i = 0; w->process_base && i < w->machine_count; i++)
        w->process_base[i + 1] =
            w->process_base[i] + q->gather.active[i]->t.proc_count;
    return w->process_base != NULL;
}

static int check_processes_of_chains(struct query *q, const struct waits *w,
                                     struct ips_err *err)
{
    for (uint32_t c = 0; c < w->g->chain_count; c++) {
        const struct ips_chain *ch = &w->g->chains[c];
        struct machine_share *p = q->gather.active[ch->machine];
        if (ch->process < p->t.proc_count)
            continue;
        path_data_of(q)->blame = p;
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "thread %u.%u is of none of its processes", ch->pid,
                           ch->tid);
    }
    return 0;
}

int waits_place_on_graph(struct query *q, struct waits *w, struct ips_err *err)
{
    struct path_data *d = path_data_of(q);
    struct ips_graph *g = &d->merged;
    w->g = g;
    w->node_base = d->node_base;
    int rc = check_processes_of_chains(q, w, err);
    if (rc == 0 && g->node_count && !g->at)
        rc = ips_err_set(err, IPS_E_PROTOCOL,
                         "run %s: a slave sent a graph without times", q->run);
    if (rc < 0)
        return rc;
    convert_times_to_one_scale(q, w, g);
    if (!number_call_sites_of_all_machines(w) ||
        !number_symbols_of_all_machines(w) || !compute_process_bases(q, w) ||
        !merge_rows_of_machines(q, w))
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for waits");
    rc = ips_waits_set_begin_and_end_times(g, w->wait, w->count, &w->laid, err);
    if (rc < 0)
        return rc;
    w->begin = UINT64_MAX;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t first = g->chains[c].first;
        uint32_t last = first + g->chains[c].count - 1;
        w->begin = ips_min_u64(w->begin, w->laid.at[first]);
        w->finish = ips_max_u64(w->finish, w->laid.at[last]);
    }
    w->begin = ips_min_u64(w->begin, w->finish);
    return 0;
}
