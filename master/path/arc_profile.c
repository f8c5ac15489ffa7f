#include "master/path/arc_profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "master/path/engine.h"
#include "master/path/weighting.h"

#define MAX_SYMBOLS (1u << 22) /* of one machine */
#define MAX_CALLERS (1u << 23)
/* Of one machine: so many a node on average, beyond those of small graphs. */
#define PORTIONS_A_NODE 64u
#define PORTIONS_FREE (1u << 20)

/* Bytes that programs may still take, UINT64_MAX where nobody says. */
static uint64_t memory_available(void)
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

int query_check_memory(const struct query *q, uint64_t bytes,
                       struct ips_err *err)
{
    uint64_t there = memory_available();
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

static bool grow_portions(struct portions *w, uint64_t more)
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

static bool take_symbols(struct portions *w, const Ips__PortionsAnswer *a)
{
    if (a->n_symbols > w->symbol_cap - w->symbol_count) {
        size_t cap = (size_t)w->symbol_cap * 2 + a->n_symbols;
        struct thing_symbol *more = realloc(w->symbol, cap * sizeof(*more));
        if (cap > UINT32_MAX || !more)
            return false;
        w->symbol = more;
        w->symbol_cap = (uint32_t)cap;
    }
    for (size_t i = 0; i < a->n_symbols; i++)
        w->symbol[w->symbol_count++] =
            (struct thing_symbol){a->symbols[i]->name, a->symbols[i]->module,
                                  a->symbols[i]->file, a->symbols[i]->line};
    return true;
}

static bool take_stands(struct portions *w, const Ips__PortionsAnswer *a)
{
    uint64_t want = w->stands_count + a->n_stands_node;
    if (want > w->stands_cap) {
        uint64_t cap = want > w->stands_cap * 2 ? want : w->stands_cap * 2;
        uint32_t *stands = realloc(w->stands, cap * sizeof(*stands));
        if (stands)
            w->stands = stands;
        uint64_t *past = realloc(w->past, cap * sizeof(*past));
        if (past)
            w->past = past;
        uint64_t *since = realloc(w->since, cap * sizeof(*since));
        if (since)
            w->since = since;
        if (!stands || !past || !since)
            return false;
        w->stands_cap = cap;
    }
    for (size_t i = 0; i < a->n_stands_node; i++) {
        w->stands[w->stands_count] = a->stands_node[i];
        w->past[w->stands_count] = a->past_ns[i];
        w->since[w->stands_count++] = a->since_ns[i];
    }
    return true;
}

static bool room_for_callers(struct portions *w, uint64_t more)
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

static int take_callers(struct portions *w, const Ips__PortionsAnswer *a,
                        struct ips_err *err)
{
    if (a->n_caller != a->n_caller_leaf || a->n_caller != a->n_caller_ns ||
        a->n_caller != a->n_caller_steps)
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to PortionsAsk");
    if (a->n_caller > MAX_CALLERS - w->callers ||
        !room_for_callers(w, a->n_caller))
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

int portions_take(struct query *q, struct part *p, struct portions *w,
                  const Ips__Reply *reply, struct ips_err *err)
{
    if (reply->answer_case != IPS__REPLY__ANSWER_PORTIONS ||
        reply->portions->n_node != reply->portions->n_symbol ||
        reply->portions->n_node != reply->portions->n_ns ||
        reply->portions->n_stands_node != reply->portions->n_past_ns ||
        reply->portions->n_stands_node != reply->portions->n_since_ns)
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to PortionsAsk");
    const Ips__PortionsAnswer *a = reply->portions;
    if (a->n_symbols > MAX_SYMBOLS - w->symbol_count ||
        a->n_stands_node > p->sync->nodes - w->stands_count ||
        a->n_node > p->sync->nodes * PORTIONS_A_NODE + PORTIONS_FREE - w->count)
        return ips_err_set(err, IPS_E_LIMIT,
                           "its arcs have too many procedures");
    /* Only symbols are kept as they came: texts are borrowed. */
    if (a->n_symbols && !query_keep(q, p))
        return ips_err_set(err, IPS_E_LIMIT, "its tables are too large");
    if (!take_symbols(w, a) || !grow_portions(w, a->n_node))
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for procedures");
    for (size_t i = 0; i < a->n_node; i++) {
        w->node[w->count + i] = a->node[i];
        w->of[w->count + i] = a->symbol[i];
        w->ns[w->count + i] = a->ns[i];
    }
    w->count += a->n_node;
    if (!take_stands(w, a))
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory for a window");
    int rc = take_callers(w, a, err);
    if (rc == 0 && !reply->last)
        query_widen(q, p);
    return rc;
}

static void ask(struct query *q, struct part *p,
                const struct path_window *window, const struct ips_lane *main,
                bool cpu, bool callers)
{
    Ips__Lane lane;
    Ips__PortionsAsk what = IPS__PORTIONS_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    what.generation = p->sync->generation;
    what.window = ENGINE_WINDOW;
    what.cpu = cpu;
    what.callers = callers;
    if (window) {
        weighting_lane(q, p, main, &lane);
        what.lane = &lane;
        what.from_ns = window->from_ns;
        what.to_ns = window->to_ns;
        /* In `wall` the machines' clocks are mapped already. */
        if (main->weighting != IPS_WEIGH_WALL)
            query_window_of(q, p, &what.from_ns, &what.to_ns);
    }
    request.ask_case = IPS__REQUEST__ASK_PORTIONS;
    request.portions = &what;
    query_ask(q, p, &request, true);
    p->window = ENGINE_WINDOW;
}

void portions_ask(struct query *q, struct part *p,
                  const struct path_window *window)
{
    ask(q, p, window, &path_of(q)->lanes[LANE_MAIN].lane, false, false);
}

void portions_ask_callers(struct query *q, struct part *p)
{
    ask(q, p, NULL, NULL, false, true);
}

void portions_ask_cpu(struct query *q, struct part *p,
                      const struct path_window *window)
{
    struct ips_lane wall = path_of(q)->lanes[LANE_MAIN].lane;
    wall.weighting = IPS_WEIGH_WALL;
    ask(q, p, window, &wall, true, true);
}

void portions_release(struct portions *w)
{
    free(w->symbol);
    free(w->node);
    free(w->of);
    free(w->ns);
    free(w->stands);
    free(w->past);
    free(w->since);
    free(w->leaf);
    free(w->caller);
    free(w->caller_ns);
    free(w->caller_steps);
    memset(w, 0, sizeof(*w));
}
