/*
 * Prints random programs with a work queue, machines, and what a replay that
 * settles the queue says of the graph that such a program would have left, for
 * tests/oracle/queue_oracle.py; one JSON object a line:
 *
 *   seed, workers, window, stops, dispatcher (its thread), connect [a thread
 *   each], ready, end, stop_bytes
 *   pieces    [[work, behind, taking, taken, receives, bytes, result_bytes]]
 *   turns     [[after, rest], ...]: as struct rq of
 * tests/support/random_queue.h machines  [[cores, speed num, den, load num,
 * den], ...] map       [machine, a thread each]; message_time [[base_ns,
 * per_byte_q32], from * machines + to] took      [[piece, when its result was
 * taken], a turn each], ends [a thread each], makespan
 *
 * Usage: queue_graph FIRST COUNT
 */
#include <inttypes.h>
#include <stdio.h>

#include "analysis/replay/replay.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_queue.h"

#define MACHINES 3u
#define WEIGHT 1000000u

static void print_program(const struct rq *q)
{
    printf(
        "\"workers\": %u, \"window\": %u, \"stops\": %s, \"dispatcher\": %u, "
        "\"ready\": %" PRIu64 ", \"end\": %" PRIu64
        ", \"stop_bytes\": %u, \"connect\": [",
        q->workers, q->window, q->stops ? "true" : "false", q->dispatcher,
        q->ready, q->end, q->stop_bytes);
    for (uint32_t c = 0; c <= q->workers; c++)
        printf("%s%" PRIu64, c ? ", " : "", q->connect[c]);
    printf("], \"pieces\": [");
    for (uint32_t p = 0; p < q->pieces; p++) {
        const struct rq_piece *is = &q->piece[p];
        printf("%s[%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
               ", %u, %u, %u]",
               p ? ", " : "", is->work, is->behind, is->taking, is->taken,
               is->receives, is->bytes, is->result_bytes);
    }
    printf("], \"turns\": [");
    for (uint32_t t = 0; t < q->pieces; t++)
        printf("%s[%" PRIu64 ", %" PRIu64 "]", t ? ", " : "", q->turn[t].after,
               q->turn[t].rest);
    printf("], ");
}

struct places {
    struct ips_replay_machine machine[MACHINES];
    uint32_t map[RQ_WORKERS + 1];
    struct ips_message_time message_time[MACHINES * MACHINES];
};

static void draw_places(uint64_t *s, const struct rq *q, struct places *p,
                        struct ips_replay_ask *ask)
{
    uint32_t n = 1 + rg_below(s, MACHINES);
    for (uint32_t m = 0; m < n; m++)
        p->machine[m] = (struct ips_replay_machine){
            .cores = 1 + rg_below(s, 3),
            .speed = {1 + rg_below(s, 4), 1 + rg_below(s, 3)},
            .load = {rg_below(s, 4), 1 + rg_below(s, 2)}};
    for (uint32_t k = 0; k < n * n; k++)
        p->message_time[k] = (struct ips_message_time){
            rg_below(s, WEIGHT / 4), (uint64_t)rg_below(s, 1000) << 30, 1, 1};
    for (uint32_t c = 0; c <= q->workers; c++)
        p->map[c] = rg_below(s, n);
    *ask = (struct ips_replay_ask){.machine_count = n,
                                   .machine = p->machine,
                                   .map = p->map,
                                   .message_time = p->message_time};
}

static void print_places(const struct rq *q, const struct ips_replay_ask *ask)
{
    uint32_t n = ask->machine_count;
    printf("\"machines\": [");
    for (uint32_t m = 0; m < n; m++) {
        const struct ips_replay_machine *x = &ask->machine[m];
        printf("%s[%u, %u, %u, %u, %u]", m ? ", " : "", x->cores, x->speed.num,
               x->speed.den, x->load.num, x->load.den);
    }
    printf("], \"map\": [");
    for (uint32_t c = 0; c <= q->workers; c++)
        printf("%s%u", c ? ", " : "", ask->map[c]);
    printf("], \"mtime\": [");
    for (uint32_t k = 0; k < n * n; k++)
        printf("%s[%" PRIu64 ", %" PRIu64 "]", k ? ", " : "",
               ask->message_time[k].base_ns, ask->message_time[k].per_byte_q32);
    printf("], ");
}

static int one(uint64_t seed, struct ips_err *err)
{
    static const struct ips_scenario lane = {.message_time = {0, 0, 1, 1}};
    uint64_t s = ~seed;
    struct rq q;
    struct places places;
    struct ips_replay_ask ask;
    struct ips_queues found;
    struct ips_replay r = {0};
    rq_make(seed, WEIGHT, &q);
    draw_places(&s, &q, &places, &ask);
    int rc = ips_queues_find(&q.g, q.any, &found, err);
    ask.queues = &found;
    if (rc == 0)
        rc = ips_replay(&q.g, &lane, &ask, &r, err);
    if (rc == 0) {
        printf("{\"seed\": %" PRIu64 ", ", seed);
        print_program(&q);
        print_places(&q, &ask);
        printf("\"took\": [");
        for (uint32_t t = 0; t < found.turn_count; t++) {
            uint32_t p = rq_piece_of(&q, &found.block[r.taken_block[t]]);
            printf("%s[%u, %" PRIu64 "]", t ? ", " : "", p,
                   r.reach[q.asked[p]]);
        }
        printf("], ");
        rg_print_ends(&r, q.workers + 1);
    }
    ips_replay_release(&r);
    ips_queues_release(&found);
    rq_release(&q);
    return rc;
}

int main(int argc, char **argv)
{
    return rg_main(argc, argv, "queue_graph", one);
}
