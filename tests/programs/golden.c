/*
 * The golden graphs G1-G7 as tasks of the agent's API with explicit
 * stamps: hand-computed answers that the whole chain - API, pool, slave,
 * master - must give exactly. One unit is a second by default, so what the
 * program itself burns (milliseconds) is never on the path.
 *
 *     golden G1 [--only AC] [--unit NS] [--clock NS] [--drift PPM]
 *
 * --only makes these chains alone; the others are made elsewhere, by a golden
 * of the same run on another machine, whose clock --clock and --drift set
 * apart. Numbers are units. Expected answers:
 * tests/system/answers/test_golden.py.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/ips.h"

#define MAX_CHAINS 3
#define MAX_STEPS 16

enum act { SEND, RECV, FORK, JOIN, END };

/* A chain burns `cpu` and then acts. `arrives` (receives and joins) is the
 * moment at which the wait is over, 0 = at once. */
struct step {
    char chain;
    unsigned cpu;
    enum act act;
    const char *with; /* channel, or chain forked or joined */
    unsigned bytes;
    unsigned arrives;
};

struct graph {
    const char *name;
    const char *chains; /* a letter each; lower case: made by a FORK */
    unsigned from;      /* clock at the start */
    struct step step[MAX_STEPS];
};

/* Sizes such that a message time of one unit a byte gives the graph's MTIME. */
static const struct graph graphs[] = {
    {"G1",
     "AB",
     0,
     {{'A', 10, SEND, "m", 4, 0},
      {'A', 5, END, 0, 0, 0},
      {'B', 3, RECV, "m", 4, 14},
      {'B', 20, END, 0, 0, 0}}},
    {"G2",
     "CS",
     0,
     {{'C', 2, SEND, "q", 5, 0},
      {'C', 0, RECV, "r", 5, 20},
      {'C', 3, END, 0, 0, 0},
      {'S', 1, RECV, "q", 5, 7},
      {'S', 8, SEND, "r", 5, 0},
      {'S', 1, END, 0, 0, 0}}},
    {"G3",
     "AB",
     96,
     {{'A', 4, SEND, "ext", 7, 0}, /* at 100; nobody traced answers */
      {'A', 1, RECV, "ext", 9, 130},
      {'A', 6, RECV, "m", 2, 0},
      {'A', 3, END, 0, 0, 0},
      {'B', 20, SEND, "m", 2, 0},
      {'B', 2, END, 0, 0, 0}}},
    {"G4",
     "Pcd",
     0,
     {{'P', 5, FORK, "c", 0, 0},
      {'P', 1, FORK, "d", 0, 0},
      {'c', 10, END, 0, 0, 0},
      {'d', 12, END, 0, 0, 0},
      {'P', 2, JOIN, "c", 0, 15},
      {'P', 0, JOIN, "d", 0, 18},
      {'P', 4, END, 0, 0, 0}}},
    {"G5",
     "AB",
     0,
     {{'A', 6, SEND, "m", 5, 0},
      {'A', 4, END, 0, 0, 0},
      {'B', 2, RECV, "m", 5, 11},
      {'B', 6, END, 0, 0, 0}}},
    {"G6",
     "ABC",
     0,
     {{'A', 1, SEND, "a", 2, 0},
      {'A', 1, SEND, "b", 2, 0},
      {'A', 1, END, 0, 0, 0},
      {'B', 5, RECV, "a", 2, 0},
      {'B', 1, SEND, "c", 2, 0},
      {'B', 1, END, 0, 0, 0},
      {'C', 1, RECV, "b", 2, 4},
      {'C', 10, RECV, "c", 2, 0},
      {'C', 1, END, 0, 0, 0}}},
    {"G7",
     "ABC",
     0,
     {{'A', 3, SEND, "a", 2, 0},
      {'A', 1, END, 0, 0, 0},
      {'B', 5, RECV, "a", 2, 0},
      {'B', 4, SEND, "b", 1, 0},
      {'B', 0, END, 0, 0, 0},
      {'C', 2, RECV, "b", 1, 10},
      {'C', 7, END, 0, 0, 0}}},
};

/* Where a chain stands. */
struct chain {
    struct ips_task *task;
    uint64_t clock, cpu; /* units */
};

struct maker {
    const struct graph *graph;
    struct chain chain[MAX_CHAINS];
    uint64_t unit_ns, clock_ns, drift_ppm;
};

static struct chain *find(struct maker *m, char letter)
{
    return &m->chain[strchr(m->graph->chains, letter) - m->graph->chains];
}

static struct ips_stamp stamp(const struct maker *m, const struct chain *c)
{
    uint64_t t_ns = c->clock * m->unit_ns;
    return (struct ips_stamp){.t_ns = m->clock_ns + t_ns +
                                      t_ns / 1000000 * m->drift_ppm,
                              .cpu_ns = c->cpu * m->unit_ns};
}

static void do_step(struct maker *m, const struct step *s)
{
    struct chain *c = find(m, s->chain);
    if (!c->task)
        return; /* made elsewhere */
    c->clock += s->cpu;
    c->cpu += s->cpu;
    const struct ips_stamp call = stamp(m, c);
    if (s->arrives > c->clock)
        c->clock = s->arrives;
    const struct ips_stamp ret = stamp(m, c);
    struct chain *other = NULL;
    if (s->act == FORK || s->act == JOIN)
        other = find(m, s->with[0]);
    switch (s->act) {
    case SEND:
        ips_task_send(c->task, s->with, s->bytes, &call);
        break;
    case RECV:
        ips_task_recv(c->task, s->with, s->bytes, &call, &ret);
        break;
    case FORK:
        *other = (struct chain){.clock = c->clock};
        const struct ips_stamp start = stamp(m, other);
        other->task = ips_task_fork(c->task, &call, s->with, &start);
        break;
    case JOIN:
        ips_task_join(c->task, other->task, &call, &ret);
        break;
    case END:
        ips_task_end(c->task, &call);
        break;
    }
}

static void make(struct maker *m, const char *only)
{
    const struct graph *g = m->graph;
    for (const char *p = g->chains; *p; p++) {
        struct chain *c = find(m, *p);
        char name[2] = {*p, '\0'};
        bool forked = *p >= 'a';
        if (forked || (only && !strchr(only, *p)))
            continue;
        c->clock = g->from;
        const struct ips_stamp start = stamp(m, c);
        c->task = ips_task_start(name, &start);
    }
    for (const struct step *s = g->step; s->chain; s++)
        do_step(m, s);
    for (const char *p = g->chains; *p; p++)
        ips_task_free(find(m, *p)->task);
}

int main(int argc, char **argv)
{
    struct maker m = {.unit_ns = 1000000000};
    const char *only = NULL;
    bool ok = argc % 2 == 0;
    for (int i = 2; ok && i + 1 < argc; i += 2)
        if (strcmp(argv[i], "--only") == 0)
            only = argv[i + 1];
        else if (strcmp(argv[i], "--unit") == 0)
            m.unit_ns = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--clock") == 0)
            m.clock_ns = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--drift") == 0)
            m.drift_ppm = strtoull(argv[i + 1], NULL, 10);
        else
            ok = false;
    for (size_t i = 0; ok && i < sizeof(graphs) / sizeof(*graphs); i++)
        if (strcmp(argv[1], graphs[i].name) == 0)
            m.graph = &graphs[i];
    if (!m.graph) {
        fprintf(stderr, "usage: golden G1|G2|G3|G4|G5|G6|G7 [--only CHAINS]"
                        " [--unit NS] [--clock NS] [--drift PPM]\n");
        return 2;
    }
    if (!ips_active()) {
        fprintf(stderr, "golden: nothing is being recorded: run it under "
                        "ipsrun\n");
        return 1;
    }
    make(&m, only);
    return 0;
}
