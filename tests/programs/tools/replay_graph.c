/*
 * Prints random activity graphs with random machines to replay them on, and the
 * C replay's answer, one JSON object a line, for tests/oracle/replay_oracle.py:
 *
 *   seed, external ("reply", "all", "off"), order_dependent_off
 *   chains    [[[w, xkind, xpred or -1, xlen], a node each], a chain each]
 *   machines  [[cores, speed num, den, load num, den, turn_ns], ...]
 *   map       [machine, a chain each]
 *   moves     [[node, machine], ...]
 *   loads     [[at_ns, machine, num, den], ...]
 *   message_time     [[base_ns, per_byte_q32], from * machines + to]
 *   curves    [null or [slope_q32, [bytes, ns], ...], a pair each] or []: of
 *             which message_time has only the scale, 1
 *   media     how many are shared; medium [its number or -1, a pair each]; not
 *             with moves
 *   wires     as curves: for how long a message takes its medium; bursts [ns
 *             that a medium saves, each] or []
 *   locks     [units free at the begin, a lock each]; takes and gives [[node,
 *             lock], ...]; kept, taken (struct ips_replay); giver [node or -1,
 * a node each] or [] waits     [ns behind the work of the arc into each node]
 * or [], and contracted [reach or -1, a node each]: of the graph made of it for
 * a replay (analysis/replay/graph.h) with these waits; not with moves or locks
 *   bits, makespan, reach [a node each], weight [same], account [[start, end,
 * run, queued, blocked], a chain each], idle [a machine and medium each]
 *
 * Usage: replay_graph FIRST COUNT [LIMIT=NUMBER]...
 *
 * LIMIT is the most that is drawn of it: steps, chains, weight (of an arc),
 * machines, cores, moves, loads, locks, turns; of a seed with a limit another
 * graph is drawn. tests/bench/replay-graphs makes what fails smaller so.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/replay/graph.h"
#include "analysis/replay/replay.h"
#include "tests/support/random_graph.h"

#define MACHINES 4
#define MOVES 8
#define LOADS 6
#define MEDIA 2
#define LOCKS 3

static struct {
    const char *name;
    uint32_t most;
} limits[] = {{"steps", UINT32_MAX},
              {"chains", UINT32_MAX},
              {"weight", UINT32_MAX},
              {"machines", MACHINES},
              {"cores", UINT32_MAX},
              {"moves", MOVES},
              {"loads", LOADS},
              {"media", MEDIA},
              {"waits", 1},
              {"locks", LOCKS},
              {"turns", 1}};
enum {
    STEPS,
    CHAINS,
    WEIGHT,
    PLACES,
    CORES,
    MOVED,
    LOADED,
    SHARED,
    WAITED,
    LOCKED,
    TURNS
};

static uint32_t limited(uint32_t value, int by)
{
    return value < limits[by].most ? value : limits[by].most;
}

struct drawn {
    struct ips_replay_machine machine[MACHINES];
    struct ips_replay_move move[MOVES];
    struct ips_replay_load load[LOADS];
    struct ips_message_time message_time[MACHINES * MACHINES];
    struct ips_curve made[MACHINES * MACHINES];
    const struct ips_curve *curve[MACHINES * MACHINES];
    uint32_t medium[MACHINES * MACHINES];
    struct ips_curve wire_made[MACHINES * MACHINES];
    const struct ips_curve *wire[MACHINES * MACHINES];
    uint64_t burst[MEDIA];
    uint32_t *map;
    uint64_t *waits; /* NULL: none */
    uint32_t units[LOCKS];
    struct ips_replay_lock_event *event;
    struct ips_replay_locks locks;
    struct ips_replay_ask ask;
};

static struct ips_ratio draw_load(uint64_t *s)
{
    static const struct ips_ratio some[] = {{0, 0}, {0, 1},     {1, 1},
                                            {1, 2}, {327, 100}, {2, 3}};
    return some[rg_below(s, 6)];
}

/* Simple machines (speed 1, no load) half of the time. */
static void draw_machine(uint64_t *s, struct ips_replay_machine *m)
{
    static const struct ips_ratio speeds[] = {{0, 0}, {2, 1},  {1, 2},
                                              {3, 2}, {7, 10}, {1375, 1000}};
    *m = (struct ips_replay_machine){.cores =
                                         limited(1 + rg_below(s, 3), CORES)};
    if (rg_below(s, 2)) {
        m->speed = speeds[rg_below(s, 6)];
        m->load = draw_load(s);
    }
}

static void draw(uint64_t *s, const struct ips_graph *g, uint32_t weight_max,
                 struct drawn *d)
{
    uint32_t n = limited(1 + rg_below(s, MACHINES), PLACES);
    uint32_t moves = 0, loads = 0;
    for (uint32_t m = 0; m < n; m++)
        draw_machine(s, &d->machine[m]);
    for (uint32_t p = 0; p < n * n; p++)
        d->message_time[p] = (struct ips_message_time){
            rg_below(s, 2) * (uint64_t)rg_below(s, weight_max + 1),
            (uint64_t)rg_below(s, 2) * rg_below(s, UINT32_MAX), 1, 1};
    for (uint32_t c = 0; c < g->chain_count; c++)
        d->map[c] = rg_below(s, n);
    uint64_t at = 0;
    while (loads < limits[LOADED].most && rg_below(s, 3) == 0) {
        at += rg_below(s, weight_max) * 3ULL;
        d->load[loads++] =
            (struct ips_replay_load){at, rg_below(s, n), draw_load(s)};
    }
    for (uint32_t i = 0; i < g->node_count && moves < limits[MOVED].most; i++)
        if (rg_below(s, 40) == 0)
            d->move[moves++] = (struct ips_replay_move){i, rg_below(s, n)};
    d->ask = (struct ips_replay_ask){.machine_count = n,
                                     .machine = d->machine,
                                     .map = d->map,
                                     .move_count = rg_below(s, 2) ? moves : 0,
                                     .move = d->move,
                                     .load_count = loads,
                                     .load = d->load,
                                     .message_time = d->message_time,
                                     .relabel = true};
}

/* Media and waits: not with moves, whose moment would decide. */
static void draw_more(uint64_t *s, const struct ips_graph *g,
                      uint32_t weight_max, struct drawn *d)
{
    uint32_t n = d->ask.machine_count, media = rg_below(s, MEDIA + 2);
    media = limited(media > MEDIA ? 0 : media, SHARED);
    bool waits = rg_below(s, 2) && limits[WAITED].most;
    if (d->ask.move_count)
        return;
    for (uint32_t p = 0; p < n * n && media; p++) {
        uint32_t m = rg_below(s, media + 1);
        d->medium[p] = m == media ? IPS_REPLAY_NO_MEDIUM : m;
    }
    d->ask.medium_count = media;
    d->ask.medium = d->medium;
    if (!waits)
        return;
    d->waits = calloc(g->node_count, sizeof(*d->waits));
    if (!d->waits)
        abort();
    for (uint32_t c = 0; c < g->chain_count; c++)
        for (uint32_t k = 1; k < g->chains[c].count; k++)
            if (rg_below(s, 4) == 0)
                d->waits[g->chains[c].first + k] = rg_below(s, weight_max + 1);
}

/* Turns: of a fiftieth of an arc's work to ten times it. Work is made
 * finer, so that few things end at one moment by chance, which rounded times
 * would have one after the other. */
static void draw_turns(uint64_t *s, const struct ips_graph *g,
                       uint32_t weight_max, struct drawn *d)
{
    static const uint32_t parts[] = {20, 100, 1000, 10000};
    if (rg_below(s, 2) || !limits[TURNS].most)
        return;
    for (uint32_t i = 0; i < g->node_count; i++)
        if (g->w[i])
            ((uint64_t *)g->w)[i] = g->w[i] * 1000 + rg_below(s, 1000);
    for (uint32_t m = 0; m < d->ask.machine_count; m++) {
        uint64_t turn = 1 + weight_max * (uint64_t)parts[rg_below(s, 4)] +
                        rg_below(s, 1000);
        if (rg_below(s, 4))
            d->machine[m].turn_ns =
                turn < IPS_REPLAY_TURN_MAX ? turn : IPS_REPLAY_TURN_MAX;
    }
}

/* Of some pairs; lengths of messages are small. */
static void draw_some_curves(uint64_t *s, uint32_t weight_max, uint32_t pairs,
                             struct ips_curve *made,
                             const struct ips_curve **out)
{
    for (uint32_t p = 0; p < pairs; p++) {
        uint64_t bytes[4], ns[4];
        uint32_t count = 1 + rg_below(s, 4);
        for (uint32_t k = 0; k < count; k++) {
            bytes[k] = 30 * k + rg_below(s, 30);
            ns[k] = rg_below(s, weight_max + 1);
        }
        if (rg_below(s, 3) == 0)
            continue;
        if (ips_curve_build_from_points(bytes, ns, count, &made[p], NULL) < 0)
            abort();
        out[p] = &made[p];
    }
}

static void draw_curves(uint64_t *s, uint32_t weight_max, struct drawn *d)
{
    uint32_t pairs = d->ask.machine_count * d->ask.machine_count;
    if (rg_below(s, 3) == 0) {
        draw_some_curves(s, weight_max, pairs, d->made, d->curve);
        d->ask.curve = d->curve;
    }
    if (d->ask.medium_count == 0)
        return;
    if (rg_below(s, 2)) {
        draw_some_curves(s, weight_max, pairs, d->wire_made, d->wire);
        d->ask.wire = d->wire;
    }
    if (rg_below(s, 2))
        return;
    for (uint32_t m = 0; m < d->ask.medium_count; m++)
        d->burst[m] = rg_below(s, 2) * (uint64_t)rg_below(s, 3 * weight_max);
    d->ask.burst_ns = d->burst;
}

/* Node i of a chain that has `held` (LOCKS: none), the chain's last or not.
 * `left`: units that there are, were all chains one after the other. */
static void draw_event(uint64_t *s, const struct ips_graph *g, uint32_t i,
                       bool last, uint32_t *held, int *left, struct drawn *d)
{
    bool may_take = g->xkind[i] == IPS_X_NONE || g->xkind[i] == IPS_X_RESOURCE;
    uint32_t k = rg_below(s, d->locks.lock_count);
    bool mutex = d->units[k] == 1, gives;
    if (*held < LOCKS && (last || rg_below(s, 2))) {
        k = *held;
        *held = LOCKS;
        gives = true;
    } else if (may_take && !last && left[k] > 0 &&
               rg_below(s, *held < LOCKS ? 30 : 2) == 0) {
        *held = mutex ? k : *held;
        gives = false;
    } else if (!mutex && rg_below(s, 3) == 0) {
        gives = true;
    } else {
        return;
    }
    left[k] += gives ? 1 : -1;
    d->event[d->locks.event_count++] =
        (struct ips_replay_lock_event){i, k, gives};
}

/* Locks of one unit, which a chain takes and gives back; and others, of which
 * some take and to which some give. */
static void draw_locks(uint64_t *s, const struct ips_graph *g, struct drawn *d)
{
    uint32_t n = rg_below(s, 2) ? limited(1 + rg_below(s, LOCKS), LOCKED) : 0;
    int left[LOCKS];
    if (n == 0)
        return;
    for (uint32_t k = 0; k < n; k++) {
        d->units[k] = rg_below(s, 4) ? 1 : 2 * rg_below(s, 2);
        left[k] = (int)d->units[k];
    }
    d->event = calloc(g->node_count + 1, sizeof(*d->event));
    if (!d->event)
        abort();
    d->locks.lock_count = n;
    d->locks.units = d->units;
    d->locks.event = d->event;
    d->ask.locks = &d->locks;
    for (uint32_t c = 0; c < g->chain_count; c++) {
        uint32_t first = g->chains[c].first, held = LOCKS;
        uint32_t end = first + g->chains[c].count;
        for (uint32_t i = first + 1; i < end; i++)
            draw_event(s, g, i, i + 1 == end, &held, left, d);
    }
}

static void print_graph(const struct ips_graph *g)
{
    printf("\"chains\": [");
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const struct ips_chain *ch = &g->chains[c];
        printf("%s[", c ? ", " : "");
        for (uint32_t i = ch->first; i < ch->first + ch->count; i++)
            printf("%s[%" PRIu64 ", %u, %d, %" PRIu64 "]",
                   i > ch->first ? ", " : "", g->w[i], g->xkind[i],
                   (int)g->xpred[i], g->xlen[i]);
        printf("]");
    }
    printf("], ");
}

static void print_curves(const char *name, const struct ips_curve *const *of,
                         uint32_t pairs)
{
    printf("], \"%s\": [", name);
    for (uint32_t p = 0; p < pairs && of; p++) {
        const struct ips_curve *c = of[p];
        fputs(p ? ", " : "", stdout);
        if (c)
            printf("[%" PRIu64, c->beta_q32);
        for (uint32_t k = 0; c && k < c->count; k++)
            printf(", [%" PRIu64 ", %" PRIu64 "]", c->bytes[k], c->ns[k]);
        fputs(c ? "]" : "null", stdout);
    }
}

static void print_ask(const struct ips_graph *g, const struct drawn *d)
{
    printf("\"machines\": [");
    for (uint32_t m = 0; m < d->ask.machine_count; m++) {
        const struct ips_replay_machine *x = &d->machine[m];
        bool speed = x->speed.den != 0, load = x->load.den != 0;
        printf("%s[%u, %u, %u, %u, %u, %" PRIu64 "]", m ? ", " : "", x->cores,
               speed ? x->speed.num : 1, speed ? x->speed.den : 1,
               load ? x->load.num : 0, load ? x->load.den : 1, x->turn_ns);
    }
    printf("], \"map\": [");
    for (uint32_t c = 0; c < g->chain_count; c++)
        printf("%s%u", c ? ", " : "", d->map[c]);
    printf("], \"moves\": [");
    for (uint32_t k = 0; k < d->ask.move_count; k++)
        printf("%s[%u, %u]", k ? ", " : "", d->move[k].node,
               d->move[k].machine);
    printf("], \"loads\": [");
    for (uint32_t k = 0; k < d->ask.load_count; k++)
        printf("%s[%" PRIu64 ", %u, %u, %u]", k ? ", " : "", d->load[k].at_ns,
               d->load[k].machine, d->load[k].load.num,
               d->load[k].load.den ? d->load[k].load.den : 1);
    printf("], \"mtime\": [");
    for (uint32_t p = 0; p < d->ask.machine_count * d->ask.machine_count; p++)
        printf("%s[%" PRIu64 ", %" PRIu64 "]", p ? ", " : "",
               d->message_time[p].base_ns, d->message_time[p].per_byte_q32);
    uint32_t pairs = d->ask.machine_count * d->ask.machine_count;
    print_curves("curves", d->ask.curve, pairs);
    print_curves("wires", d->ask.wire, pairs);
    printf("], \"bursts\": [");
    for (uint32_t m = 0; m < d->ask.medium_count && d->ask.burst_ns; m++)
        printf("%s%" PRIu64, m ? ", " : "", d->burst[m]);
    printf("], \"media\": %u, \"medium\": [", d->ask.medium_count);
    for (uint32_t p = 0; p < pairs && d->ask.medium_count; p++)
        printf("%s%d", p ? ", " : "", (int)d->medium[p]);
    printf("], \"locks\": [");
    for (uint32_t k = 0; k < d->locks.lock_count; k++)
        printf("%s%u", k ? ", " : "", d->units[k]);
    for (int gives = 0; gives < 2; gives++) {
        const char *comma = "";
        printf("], \"%s\": [", gives ? "gives" : "takes");
        for (uint32_t k = 0; k < d->locks.event_count; k++) {
            if (d->event[k].gives != (gives != 0))
                continue;
            printf("%s[%u, %u]", comma, d->event[k].node, d->event[k].lock);
            comma = ", ";
        }
    }
    printf("], ");
}

static void print_many(const char *name, const uint64_t *v, uint32_t count)
{
    printf("\"%s\": [", name);
    for (uint32_t i = 0; i < count; i++)
        printf("%s%" PRIu64, i ? ", " : "", v[i]);
    printf("], ");
}

/* The same question of the graph made for a replay. */
static int print_contracted(const struct ips_graph *g,
                            const struct ips_scenario *lane,
                            const struct drawn *d, struct ips_err *err)
{
    struct ips_replay_graph made;
    struct ips_replay r;
    if (d->ask.move_count || d->ask.locks)
        return 0;
    int rc = ips_replay_graph_make_reduced(g, d->waits, NULL, 0, &made, err);
    if (rc < 0)
        return rc;
    rc = ips_replay(&made.g, lane, &d->ask, &r, err);
    if (rc == 0) {
        if (d->waits)
            print_many("waits", d->waits, g->node_count);
        printf("\"contracted\": [");
        for (uint32_t i = 0; i < g->node_count; i++)
            printf("%s%" PRId64, i ? ", " : "",
                   made.to[i] == IPS_NO_NODE ? -1
                                             : (int64_t)r.reach[made.to[i]]);
        printf("], ");
    }
    ips_replay_release(&r);
    ips_replay_graph_release(&made);
    return rc;
}

static void print_answer(const struct ips_graph *g, uint32_t machines,
                         const struct ips_replay *r)
{
    print_many("reach", r->reach, g->node_count);
    print_many("weight", r->weight, g->node_count);
    print_many("idle", r->idle_ns, machines);
    printf("\"kept\": %u, \"taken\": %" PRIu64 ", \"giver\": [", r->kept_count,
           r->units_taken);
    for (uint32_t i = 0; r->giver && i < g->node_count; i++)
        printf("%s%d", i ? ", " : "", (int)r->giver[i]);
    printf("], \"account\": [");
    for (uint32_t c = 0; c < g->chain_count; c++) {
        const struct ips_replay_chain *of = &r->chain[c];
        printf("%s[%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
               "]",
               c ? ", " : "", of->start_ns, of->end_ns, of->run_ns,
               of->queued_ns, of->blocked_ns);
    }
    printf("], \"bits\": %u, \"makespan\": %" PRIu64 "}\n", r->bits,
           r->makespan_ns);
}

static int one(uint64_t seed, struct ips_err *err)
{
    static const char *const externals[] = {"reply", "all", "off"};
    uint64_t s = seed;
    struct rg_options opt = rg_options_of(seed);
    struct ips_scenario lane = {.external = (enum ips_external)rg_below(&s, 3),
                                .order_dependent_off = rg_below(&s, 2)};
    struct rg graph;
    struct drawn d = {0};
    struct ips_replay r;
    if (rg_below(&s, 8)) /* the oracle is slow, and small ones are many */
        opt.steps = 5 + opt.steps / 6;
    opt.steps = limited(opt.steps, STEPS);
    opt.chains = limited(opt.chains, CHAINS);
    opt.machines = opt.machines < opt.chains ? opt.machines : opt.chains;
    opt.weight_max = limited(opt.weight_max, WEIGHT);
    rg_make(&opt, &graph);
    const struct ips_graph *g = &graph.whole;
    d.map = calloc(g->chain_count, sizeof(*d.map));
    if (!d.map)
        abort();
    draw(&s, g, opt.weight_max, &d);
    draw_turns(&s, g, opt.weight_max, &d);
    draw_more(&s, g, opt.weight_max, &d);
    if (limits[LOCKED].most)
        draw_locks(&s, g, &d);
    draw_curves(&s, opt.weight_max, &d);
    int rc = ips_replay(g, &lane, &d.ask, &r, err);
    if (rc == 0) {
        printf("{\"seed\": %" PRIu64
               ", \"external\": \"%s\", \"any_off\": %s, ",
               seed, externals[lane.external],
               lane.order_dependent_off ? "true" : "false");
        print_graph(g);
        print_ask(g, &d);
        rc = print_contracted(g, &lane, &d, err);
        print_answer(g, d.ask.machine_count + d.ask.medium_count, &r);
    }
    ips_replay_release(&r);
    free(d.map);
    free(d.waits);
    free(d.event);
    rg_release(&graph);
    return rc;
}

/* False: no such limit, or none that leaves a graph. */
static bool set_limit(const char *word)
{
    const char *is = strchr(word, '=');
    for (size_t k = 0; is && k < sizeof(limits) / sizeof(*limits); k++) {
        if (strlen(limits[k].name) != (size_t)(is - word) ||
            strncmp(word, limits[k].name, (size_t)(is - word)) != 0)
            continue;
        uint32_t most = (uint32_t)strtoul(is + 1, NULL, 10);
        bool may_be_none = k == STEPS || k >= MOVED;
        if (most < limits[k].most)
            limits[k].most = most;
        return most > 0 || may_be_none;
    }
    return false;
}

int main(int argc, char **argv)
{
    bool usage = argc < 3;
    for (int k = 3; k < argc; k++)
        usage |= !set_limit(argv[k]);
    if (usage) {
        fprintf(stderr, "usage: replay_graph FIRST COUNT [LIMIT=NUMBER]...\n");
        return 2;
    }
    uint64_t first = strtoull(argv[1], NULL, 10);
    uint64_t count = strtoull(argv[2], NULL, 10);
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct ips_err err;
        if (one(seed, &err) < 0) {
            fprintf(stderr, "replay_graph: seed %" PRIu64 ": %s\n", seed,
                    err.msg);
            return 1;
        }
    }
    return 0;
}
