/*
 * Prints random programs whose threads take pieces of work under a lock
 * (tests/support/random_crew.h), machines, and what a replay that settles who
 * takes them says of the graph that such a program would have left, for
 * tests/oracle/crew_oracle.py; one JSON object a line:
 *
 *   seed, workers, none, fork, connect, end [a worker each]
 *   pieces    [[inside, work, shares, shared, behind], ...]
 *   machines  [[cores, speed num, den, load num, den], ...]
 *   map       [machine, a thread each]
 *   had       [[worker, when it took it], a piece each]
 *   ends      [a thread each], makespan
 *
 * Usage: crew_graph FIRST COUNT
 */
#include <inttypes.h>
#include <stdio.h>

#include "tests/support/random_crew.h"
#include "tests/support/random_graph.h"

#define MACHINES 2u
#define WEIGHT 1000000u

static void print_list(const char *name, const uint64_t *x, uint32_t n)
{
    printf("\"%s\": [", name);
    for (uint32_t k = 0; k < n; k++)
        printf("%s%" PRIu64, k ? ", " : "", x[k]);
    printf("], ");
}

static void print_program(const struct rcrew *p)
{
    printf("\"workers\": %u, \"none\": %" PRIu64 ", ", p->workers, p->none);
    print_list("fork", p->fork, p->workers);
    print_list("connect", p->connect, p->workers);
    print_list("end", p->end, p->workers);
    printf("\"pieces\": [");
    for (uint32_t k = 0; k < p->pieces; k++) {
        const struct rcrew_piece *is = &p->piece[k];
        printf("%s[%" PRIu64 ", %" PRIu64 ", %d, %" PRIu64 ", %" PRIu64 "]",
               k ? ", " : "", is->inside, is->work, is->shares, is->shared,
               is->behind);
    }
    printf("], ");
}

static void draw_places(uint64_t *s, const struct rcrew *p,
                        struct ips_replay_machine *machine, uint32_t *map)
{
    printf("\"machines\": [");
    for (uint32_t m = 0; m < MACHINES; m++) {
        struct ips_replay_machine *x = &machine[m];
        *x = (struct ips_replay_machine){
            .cores = 1 + rg_below(s, 3),
            .speed = {1 + rg_below(s, 4), 1 + rg_below(s, 3)},
            .load = {rg_below(s, 4), 1 + rg_below(s, 2)}};
        printf("%s[%u, %u, %u, %u, %u]", m ? ", " : "", x->cores, x->speed.num,
               x->speed.den, x->load.num, x->load.den);
    }
    printf("], \"map\": [");
    for (uint32_t c = 0; c <= p->workers; c++) {
        map[c] = rg_below(s, MACHINES);
        printf("%s%u", c ? ", " : "", map[c]);
    }
    printf("], ");
}

static int one(uint64_t seed, struct ips_err *err)
{
    static const struct ips_scenario lane = {.message_time = {0, 0, 1, 1}};
    struct ips_replay_machine machine[MACHINES];
    uint32_t map[RCREW_WORKERS + 1];
    uint64_t s = ~seed;
    struct rcrew p;
    struct ips_queues found = {0};
    struct ips_replay r = {0};
    rcrew_make(seed, WEIGHT, RCREW_GOOD, &p);
    printf("{\"seed\": %" PRIu64 ", ", seed);
    print_program(&p);
    draw_places(&s, &p, machine, map);
    struct ips_replay_ask ask = {.machine_count = MACHINES,
                                 .machine = machine,
                                 .map = map,
                                 .locks = &p.locks,
                                 .queues = &found};
    int rc = ips_lock_queues_find(&p.g, &p.locks, p.when, NULL,
                                  &found.lock_queues, err);
    if (rc == 0)
        rc = ips_replay(&p.g, &lane, &ask, &r, err);
    if (rc == 0) {
        printf("\"had\": [");
        for (uint32_t k = 0; k < found.lock_queues.piece_count; k++)
            printf("%s[%u, %" PRIu64 "]", k ? ", " : "", r.piece_worker[k],
                   r.reach[found.lock_queues.piece[k].first]);
        printf("], ");
        rg_print_ends(&r, p.workers + 1);
    }
    ips_replay_release(&r);
    ips_queues_release(&found);
    rcrew_release(&p);
    return rc;
}

int main(int argc, char **argv)
{
    return rg_main(argc, argv, "crew_graph", one);
}
