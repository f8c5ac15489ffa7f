/*
 * Replays a time-independent trace, as SimGrid's SMPI writes and replays them,
 * by ours: tests/bench/paper/simgrid gives the same trace to both.
 *
 * Usage: bench_ti_replay LIST PLACES CORES BASE_NS NS_PER_BYTE INSIDE_BASE_NS
 *                        INSIDE_NS_PER_BYTE BUS REPEAT
 *
 * LIST names a file a rank, in the order of ranks; PLACES the machine of each
 * ("0,0,1"), CORES those of each machine ("1,2"). Messages between machines
 * take BASE_NS + bytes * NS_PER_BYTE, inside one the other two; BUS 1: what
 * bytes take between machines is shared. A flop takes a nanosecond. Known
 * actions: init, finalize, compute, send, isend, recv, irecv, wait, waitall; a
 * send does not block. A receive takes the messages of its sender and tag in
 * their order.
 *
 * One line of JSON: makespan_ns, actions (but init and finalize), nodes,
 * read_ns (the trace becomes a graph), replay_ns (thread CPU, the least of
 * REPEAT).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/replay/replay.h"
#include "common/types.h"

struct action { /* a node in the making */
    uint64_t w;
    uint32_t peer, tag; /* of a send or receive */
    uint64_t bytes;
    enum ips_node_kind kind;
};
struct rank {
    struct action *at;
    uint32_t count, room, first; /* node */
    uint64_t flops;              /* since the last */
    struct action *posted;       /* receives that nobody has waited for */
    uint32_t posted_count, posted_room;
};
struct message { /* a send, to be sorted and met by its receive */
    uint32_t from, to, tag, node;
    bool send;
};

static struct rank *ranks;
static uint32_t rank_count;
static uint64_t action_count;

static void die(const char *what, const char *which)
{
    fprintf(stderr, "bench_ti_replay: %s %s\n", what, which);
    exit(1);
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *more(void *array, uint32_t count, uint32_t *room, size_t size)
{
    if (count < *room)
        return array;
    *room = *room ? 2 * *room : 64;
    array = realloc(array, *room * size);
    if (!array)
        die("no memory", "");
    return array;
}

static void add(struct rank *r, struct action a)
{
    a.w = r->flops;
    r->flops = 0;
    r->at = more(r->at, r->count, &r->room, sizeof(*r->at));
    r->at[r->count++] = a;
}

static void post(struct rank *r, struct action a)
{
    r->posted =
        more(r->posted, r->posted_count, &r->posted_room, sizeof(*r->posted));
    r->posted[r->posted_count++] = a;
}

/* The first posted receive of that peer and tag; none: it was a send's. */
static void wait_one(struct rank *r, uint32_t peer, uint32_t tag)
{
    for (uint32_t i = 0; i < r->posted_count; i++) {
        if (r->posted[i].peer == peer && r->posted[i].tag == tag) {
            add(r, r->posted[i]);
            memmove(&r->posted[i], &r->posted[i + 1],
                    (--r->posted_count - i) * sizeof(*r->posted));
            return;
        }
    }
}

static void wait_all(struct rank *r)
{
    for (uint32_t i = 0; i < r->posted_count; i++)
        add(r, r->posted[i]);
    r->posted_count = 0;
}

static uint64_t number(const char *text)
{
    return text ? strtoull(text, NULL, 10) : 0;
}

/* Of a message's elements: double, int, char, short, long, float, byte. */
static uint64_t element(const char *type)
{
    static const uint8_t bytes[] = {8, 4, 1, 2, 8, 4, 1};
    uint64_t t = type ? number(type) : 6;
    if (t >= sizeof(bytes))
        die("a type of elements that is not known:", type);
    return bytes[t];
}

static void act(struct rank *r, const char *what, char *words[4], uint32_t me)
{
    struct action a = {.peer = (uint32_t)number(words[0]),
                       .tag = (uint32_t)number(words[1]),
                       .kind = IPS_NODE_SEND};
    if (strcmp(what, "init") == 0 || strcmp(what, "finalize") == 0)
        return;
    action_count++;
    if (strstr(what, "send") || strstr(what, "recv"))
        a.bytes = number(words[2]) * element(words[3]);
    if (strcmp(what, "compute") == 0) {
        r->flops += (uint64_t)strtod(words[0], NULL);
    } else if (strcmp(what, "send") == 0 || strcmp(what, "isend") == 0) {
        add(r, a);
    } else if (strcmp(what, "recv") == 0) {
        a.kind = IPS_NODE_RECV;
        add(r, a);
    } else if (strcmp(what, "irecv") == 0) {
        a.kind = IPS_NODE_RECV;
        post(r, a);
    } else if (strcmp(what, "wait") == 0) { /* source, destination, tag */
        if (number(words[1]) == me)
            wait_one(r, (uint32_t)number(words[0]), (uint32_t)number(words[2]));
    } else if (strcmp(what, "waitall") == 0) {
        wait_all(r);
    } else {
        die("an action that is not known:", what);
    }
}

static void read_rank(const char *name)
{
    FILE *f = fopen(name, "re");
    char line[256];
    if (!f)
        die("cannot open", name);
    ranks = realloc(ranks, (rank_count + 1) * sizeof(*ranks));
    if (!ranks)
        die("no memory", "");
    struct rank *r = &ranks[rank_count];
    memset(r, 0, sizeof(*r));
    while (fgets(line, sizeof(line), f)) {
        char *save, *words[4];
        const char *who = strtok_r(line, " \n", &save);
        const char *what = strtok_r(NULL, " \n", &save);
        if (!who || !what || *who == '#')
            continue;
        for (int i = 0; i < 4; i++)
            words[i] = strtok_r(NULL, " \n", &save);
        act(r, what, words, rank_count);
    }
    fclose(f);
    add(r, (struct action){.kind = IPS_NODE_END});
    rank_count++;
}

static void read_list(const char *name)
{
    FILE *f = fopen(name, "re");
    char line[512];
    if (!f)
        die("cannot open", name);
    while (fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = '\0';
        if (*line)
            read_rank(line);
    }
    fclose(f);
}

static int by_channel(const void *a, const void *b)
{
    const struct message *x = a, *y = b;
    uint64_t p = (uint64_t)x->from << 32 | x->to;
    uint64_t q = (uint64_t)y->from << 32 | y->to;
    if (p != q)
        return p < q ? -1 : 1;
    if (x->tag != y->tag)
        return x->tag < y->tag ? -1 : 1;
    if (x->send != y->send)
        return x->send ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* Sends and receives of a channel lie behind each other, each in order. */
static void match(struct ips_graph *g, struct message *m, uint32_t count)
{
    qsort(m, count, sizeof(*m), by_channel);
    for (uint32_t i = 0; i < count;) {
        uint32_t sends = i, receives, end;
        while (i < count && m[i].send && m[i].from == m[sends].from &&
               m[i].to == m[sends].to && m[i].tag == m[sends].tag)
            i++;
        receives = i;
        while (i < count && !m[i].send && m[i].from == m[sends].from &&
               m[i].to == m[sends].to && m[i].tag == m[sends].tag)
            i++;
        end = i;
        if (end - receives > receives - sends)
            die("a receive without a send", "");
        for (uint32_t k = 0; k < end - receives; k++) {
            g->xkind[m[receives + k].node] = IPS_X_DATA;
            g->xpred[m[receives + k].node] = m[sends + k].node;
        }
    }
}

static void make(struct ips_graph *g)
{
    uint32_t nodes = 0, count = 0;
    struct ips_err err;
    for (uint32_t r = 0; r < rank_count; r++) {
        ranks[r].first = nodes;
        nodes += ranks[r].count + 1;
    }
    struct message *m = calloc((size_t)nodes + 1, sizeof(*m));
    if (!m || ips_graph_alloc(g, nodes, rank_count, &err) < 0)
        die("no memory", "");
    for (uint32_t r = 0; r < rank_count; r++) {
        g->chains[r] = (struct ips_chain){.first = ranks[r].first,
                                          .count = ranks[r].count + 1};
        g->kind[ranks[r].first] = IPS_NODE_START;
        for (uint32_t k = 0; k < ranks[r].count; k++) {
            const struct action *a = &ranks[r].at[k];
            uint32_t i = ranks[r].first + 1 + k;
            bool send = a->kind == IPS_NODE_SEND;
            g->kind[i] = (uint8_t)a->kind;
            g->w[i] = a->w;
            g->xlen[i] = send ? 0 : a->bytes;
            if (a->kind != IPS_NODE_END)
                m[count++] = (struct message){.from = send ? r : a->peer,
                                              .to = send ? a->peer : r,
                                              .tag = a->tag,
                                              .node = i,
                                              .send = send};
        }
    }
    match(g, m, count);
    free(m);
    if (ips_graph_check_invariants(g, &err) < 0)
        die("no graph:", err.msg);
}

static uint32_t list_of(char *text, uint32_t *out, uint32_t room)
{
    uint32_t n = 0;
    char *save;
    for (char *w = strtok_r(text, ",", &save); w && n < room;
         w = strtok_r(NULL, ",", &save))
        out[n++] = (uint32_t)number(w);
    return n;
}

static struct ips_message_time compute_time_after_dv(const char *base,
                                                     const char *per_byte)
{
    double q32 = strtod(per_byte, NULL) * 4294967296.0;
    return (struct ips_message_time){number(base), (uint64_t)q32, 1, 1};
}

static void replay(const struct ips_graph *g, char **argv, uint64_t read_ns)
{
    uint32_t *map = calloc(rank_count, sizeof(*map)), cores[256];
    uint32_t machines = list_of(argv[3], cores, 256);
    size_t pairs = (size_t)machines * machines;
    struct ips_replay_machine *machine = calloc(machines, sizeof(*machine));
    struct ips_message_time *message_time =
        calloc(pairs, sizeof(*message_time));
    uint32_t *medium = calloc(pairs, sizeof(*medium));
    const struct ips_scenario lane = {.message_time = {0, 0, 1, 1}};
    uint64_t best = UINT64_MAX, makespan = 0;
    if (!map || !machine || !message_time || !medium)
        die("no memory", "");
    if (list_of(argv[2], map, rank_count) != rank_count)
        die("not a place for each rank:", argv[2]);
    for (uint32_t f = 0; f < machines; f++) {
        machine[f].cores = cores[f];
        for (uint32_t t = 0; t < machines; t++) {
            size_t p = (size_t)f * machines + t;
            message_time[p] = f == t ? compute_time_after_dv(argv[6], argv[7])
                                     : compute_time_after_dv(argv[4], argv[5]);
            medium[p] = f == t ? IPS_REPLAY_NO_MEDIUM : 0;
        }
    }
    const struct ips_replay_ask ask = {.machine_count = machines,
                                       .machine = machine,
                                       .map = map,
                                       .message_time = message_time,
                                       .medium_count = number(argv[8]) ? 1 : 0,
                                       .medium = medium};
    for (uint64_t k = number(argv[9]); k-- > 0;) {
        struct ips_replay r;
        struct ips_err err;
        uint64_t from = cpu_ns();
        if (ips_replay(g, &lane, &ask, &r, &err) < 0)
            die("replay:", err.msg);
        best = ips_min_u64(best, cpu_ns() - from);
        makespan = r.makespan_ns;
        ips_replay_release(&r);
    }
    printf("{\"makespan_ns\": %" PRIu64 ", \"actions\": %" PRIu64
           ", \"nodes\": %u, \"read_ns\": %" PRIu64 ", \"replay_ns\": %" PRIu64
           "}\n",
           makespan, action_count, g->node_count, read_ns, best);
    free(map);
    free(machine);
    free(message_time);
    free(medium);
}

int main(int argc, char **argv)
{
    struct ips_graph g;
    if (argc != 10)
        die("nine words are needed:", "see the source");
    uint64_t from = cpu_ns();
    read_list(argv[1]);
    make(&g);
    replay(&g, argv, cpu_ns() - from);
    ips_graph_release(&g);
    for (uint32_t r = 0; r < rank_count; r++) {
        free(ranks[r].at);
        free(ranks[r].posted);
    }
    free(ranks);
    return 0;
}
