#include "master/path/arc_profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "master/path/engine.h"
#include "master/path/weighting.h"

/* maximum number of procedures of one machine */
#define MAX_SYMBOLS (1u << 22)
#define MAX_CALLERS (1u << 23)
/* Maximum number of arc shares that a machine may send: PORTIONS_FREE, plus
 * PORTIONS_A_NODE for each of its nodes. */
#define PORTIONS_A_NODE 64u
#define PORTIONS_FREE (1u << 20)

/* Returns the bytes of memory available; UINT64_MAX if the kernel does not
 * report it. */
static uint64_t available_memory_bytes(void)
{
    char line[128];
    unsigned long long kib = 0;
    bool found = false;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && !found && fgets(line, sizeof(line), f))
        found = sscanf(line, "MemAvailable: %llu kB", &kib) == 1;
    if (f)
        fclose(f);
    return found ? (uint64_t)kib * 1024u : UINT64_MAX;
}

int path_check_master_memory(const struct query *q, uint64_t bytes,
                             struct ips_err *err)
{
    uint64_t there = available_memory_bytes();
    if (bytes <= there)
        return 0;
    return ips_err_set(
        err, IPS_E_LIMIT,
        "run %s: the graph of all machines takes about %" PRIu64
        " MB at the master, which has %" PRIu64
        " MB available: free some memory, or run the master on a "
        "machine with more (ips-master, ipsq --master)",
        q->run, bytes >> 20, there >> 20);
}

static bool reserve_shares(struct arc_profile *w, uint64_t more)
{
    if (w->count + more <= w->cap)
        return true;
    uint64_t cap = w->cap * 2 > w->count + more ? w->cap * 2 : w->count + more;
    uint32_t *node = realloc(w->node, cap * sizeof(*node));
    if (node)
        w->node = node;
    uint32_t *of = realloc(w->of, cap * sizeof(*of));
    if (of)
        w->of = of;
    uint64_t *ns = realloc(w->ns, cap * sizeof(*ns));
    if (ns)
        w->ns = ns;
    if (node && of && ns)
        w->cap = cap;
    return node && of && ns;
}

static bool append_symbols(struct arc_profile *w, const Ips__PortionsAnswer *a)
{
    if (a->n_symbols > w->symbol_cap - w->symbol_count) {
        size_t cap = (size_t)w->symbol_cap * 2 + a->n_symbols;
        struct entity_symbol *more = realloc(w->symbol, cap * sizeof(*more));
        if (cap > UINT32_MAX || !more)
            return false;
        w->symbol = more;
        w->symbol_cap = (uint32_t)cap;
    }
    for (size_t i = 0; i < a->n_symbols; i++)
        w->symbol[w->symbol_count++] =
            (struct entity_symbol){a->symbols[i]->name, a->symbols[i]->module,
                                   a->symbols[i]->file, a->symbols[i]->line};
    return true;
}

static bool append_window_nodes(struct arc_profile *w,
                                const Ips__PortionsAnswer *a)
{
    uint64_t want = w->window_node_count + a->n_stands_node;
    if (want > w->window_node_cap) {
        uint64_t cap =
            want > w->window_node_cap * 2 ? want : w->window_node_cap * 2;
        uint32_t *stands = realloc(w->window_node, cap * sizeof(*stands));
        if (stands)
            w->window_node = stands;
        uint64_t *past = realloc(w->ns_after_window_end, cap * sizeof(*past));
        if (past)
            w->ns_after_window_end = past;
        uint64_t *since =
            realloc(w->ns_after_window_start, cap * sizeof(*since));
        if (since)
            w->ns_after_window_start = since;
        if (!stands || !past || !since)
            return false;
        w->window_node_cap = cap;
    }
    for (size_t i = 0; i < a->n_stands_node; i++) {
        w->window_node[w->window_node_count] = a->stands_node[i];
        w->ns_after_window_end[w->window_node_count] = a->past_ns[i];
        w->ns_after_window_start[w->window_node_count++] = a->since_ns[i];
    }
    return true;
}

static bool reserve_callers(struct arc_profile *w, uint64_t more)
{
    uint64_t want = w->callers + more, cap = w->callers_cap;
    if (want <= cap)
        return true;
    cap = want > cap * 2 ? want : cap * 2;
    uint32_t *leaf = realloc(w->leaf, cap * sizeof(*leaf));
    w->leaf = leaf ? leaf : w->leaf;
    uint32_t *caller = realloc(w->caller, cap * sizeof(*caller));
    w->caller = caller ? caller : w->caller;
    uint64_t *ns = realloc(w->caller_ns, cap * sizeof(*ns));
    w->caller_ns = ns ? ns : w->caller_ns;
    uint64_t *steps = realloc(w->caller_steps, cap * sizeof(*steps));
    w->caller_steps = steps ? steps : w->caller_steps;
    if (!leaf || !caller || !ns || !steps)
        return false;
    w->callers_cap = cap;
    return true;
}

static int append_callers(struct arc_profile *w, const Ips__PortionsAnswer *a,
                          struct ips_err *err)
{
    if (a->n_caller != a->n_caller_leaf || a->n_caller != a->n_caller_ns ||
        a->n_caller != a->n_caller_steps)
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to PortionsAsk");
    if (a->n_caller > MAX_CALLERS - w->callers)
        return ips_err_set(err, IPS_E_LIMIT, "its arcs have too many callers");
    if (!reserve_callers(w, a->n_caller))
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for callers");
    for (size_t i = 0; i < a->n_caller; i++) {
        if (a->caller_leaf[i] >= w->symbol_count ||
            a->caller[i] >= w->symbol_count)
            return ips_err_set(err, IPS_E_PROTOCOL,
                               "a caller that it did not name");
        w->leaf[w->callers] = a->caller_leaf[i];
        w->caller[w->callers] = a->caller[i];
        w->caller_ns[w->callers] = a->caller_ns[i];
        w->caller_steps[w->callers++] = a->caller_steps[i];
    }
    return 0;
}

/* Stores the CPU times in lock functions, all of which a machine sends in one
 * reply. */
static int store_lock_times(struct arc_profile *w, const Ips__PortionsAnswer *a,
                            struct ips_err *err)
{
    const size_t n = a->n_lock_leaf;
    if (n != a->n_lock_site || n != a->n_lock_caller || n != a->n_lock_how ||
        n != a->n_lock_ns || (n && w->lock))
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to PortionsAsk");
    if (n == 0)
        return 0;
    w->lock = calloc(n, sizeof(*w->lock));
    if (!w->lock)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for callers");
    for (size_t i = 0; i < n; i++) {
        if (a->lock_leaf[i] >= w->symbol_count ||
            a->lock_site[i] >= w->symbol_count ||
            a->lock_caller[i] >= w->symbol_count)
            return ips_err_set(err, IPS_E_PROTOCOL,
                               "a caller that it did not name");
        w->lock[w->locks++] = (struct arc_lock_time){
            a->lock_leaf[i], a->lock_site[i], a->lock_caller[i], a->lock_how[i],
            a->lock_ns[i]};
    }
    return 0;
}

int arc_profile_append_reply(struct query *q, struct machine_share *p,
                             struct arc_profile *w, const Ips__Reply *reply,
                             struct ips_err *err)
{
    if (reply->answer_case != IPS__REPLY__ANSWER_PORTIONS ||
        reply->portions->n_node != reply->portions->n_symbol ||
        reply->portions->n_node != reply->portions->n_ns ||
        reply->portions->n_stands_node != reply->portions->n_past_ns ||
        reply->portions->n_stands_node != reply->portions->n_since_ns)
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to PortionsAsk");
    const Ips__PortionsAnswer *a = reply->portions;
    if (a->n_symbols > MAX_SYMBOLS - w->symbol_count ||
        a->n_stands_node > p->sync->nodes - w->window_node_count ||
        a->n_node > p->sync->nodes * PORTIONS_A_NODE + PORTIONS_FREE - w->count)
        return ips_err_set(err, IPS_E_LIMIT,
                           "its arcs have too many procedures");
    /* Keep the message if it has symbols: their texts are borrowed from it. */
    if (a->n_symbols && !query_keep_message(q, p))
        return ips_err_set(err, IPS_E_LIMIT, "its tables are too large");
    if (!append_symbols(w, a) || !reserve_shares(w, a->n_node))
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for procedures");
    for (size_t i = 0; i < a->n_node; i++) {
        w->node[w->count + i] = a->node[i];
        w->of[w->count + i] = a->symbol[i];
        w->ns[w->count + i] = a->ns[i];
    }
    w->count += a->n_node;
    if (!append_window_nodes(w, a))
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for a window");
    int rc = append_callers(w, a, err);
    if (rc == 0)
        rc = store_lock_times(w, a, err);
    if (rc == 0 && !reply->last)
        query_widen_reply_window(q, p);
    return rc;
}

static void send_arc_profile_request(struct query *q, struct machine_share *p,
                                     const struct path_window *window,
                                     const struct ips_scenario *main, bool cpu,
                                     bool callers)
{
    Ips__Lane scenario;
    Ips__PortionsAsk what = IPS__PORTIONS_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    what.generation = p->sync->generation;
    what.window = ENGINE_WINDOW;
    what.cpu = cpu;
    what.callers = callers;
    if (window) {
        weighting_write_scenario(q, p, main, &scenario);
        what.lane = &scenario;
        what.from_ns = window->from_ns;
        what.to_ns = window->to_ns;
        /* In `wall` the window is already on the scale that all clocks are
         * mapped to. */
        if (main->weighting != IPS_WEIGH_WALL)
            query_get_machine_window(q, p, &what.from_ns, &what.to_ns);
    }
    request.ask_case = IPS__REQUEST__ASK_PORTIONS;
    request.portions = &what;
    query_send_request_to_slave(q, p, &request, true);
    p->window = ENGINE_WINDOW;
}

void arc_profile_ask(struct query *q, struct machine_share *p,
                     const struct path_window *window)
{
    send_arc_profile_request(
        q, p, window, &path_data_of(q)->scenarios[SCENARIO_MAIN].scenario,
        false, false);
}

void arc_profile_ask_callers(struct query *q, struct machine_share *p)
{
    send_arc_profile_request(q, p, NULL, NULL, false, true);
}

void arc_profile_ask_cpu_and_callers(struct query *q, struct machine_share *p,
                                     const struct path_window *window)
{
    struct ips_scenario wall =
        path_data_of(q)->scenarios[SCENARIO_MAIN].scenario;
    wall.weighting = IPS_WEIGH_WALL;
    send_arc_profile_request(q, p, window, &wall, true, true);
}

void arc_profile_release(struct arc_profile *w)
{
    free(w->symbol);
    free(w->node);
    free(w->of);
    free(w->ns);
    free(w->window_node);
    free(w->ns_after_window_end);
    free(w->ns_after_window_start);
    free(w->leaf);
    free(w->caller);
    free(w->caller_ns);
    free(w->caller_steps);
    free(w->lock);
    memset(w, 0, sizeof(*w));
}
