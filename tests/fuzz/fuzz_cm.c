/*
 * Fuzz target: whatever a peer sends, cm-async and cm-sync answer or refuse.
 * The first byte says what the rest is: wants, matches, a batch or LEN of
 * either engine, in `cpu` or `wall`; the checksum is made to fit, so that what
 * is behind it is reached. libFuzzer where it is linked; else main() replays
 * the files named, or with none, changes bytes of real messages from a fixed
 * seed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/distributed/cm_async.h"
#include "analysis/distributed/cm_sync.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TALKS 6

/* Two machines that send each other TALKS messages in turns. */
static void make(struct ips_graph *g, bool first)
{
    uint32_t n = 2 * TALKS + 2;
    if (ips_graph_alloc(g, n, 1, NULL) < 0 ||
        ips_graph_alloc_times(g, NULL) < 0)
        abort();
    g->chains[0] = (struct ips_chain){.count = n, .pid = 1, .tid = 1};
    g->in = calloc(TALKS, sizeof(*g->in));
    g->out = calloc(TALKS, sizeof(*g->out));
    if (!g->in || !g->out)
        abort();
    g->kind[n - 1] = IPS_NODE_END;
    for (uint32_t i = 1; i < n - 1; i++) {
        g->w[i] = g->wait[i] = i;
        g->at[i] = 10 * i;
        if ((i % 2 == 1) == first) {
            g->kind[i] = IPS_NODE_SEND;
            g->out[g->out_count] = (struct ips_remote_out){
                .node = i, .pos = 5 * (g->out_count + 1), .len = 5};
            g->out_count++;
        } else {
            g->kind[i] = IPS_NODE_RECV;
            g->xkind[i] = IPS_X_DATA;
            g->in[g->in_count] =
                (struct ips_remote_in){.node = i, .pos = 5 * g->in_count + 3};
            g->in_count++;
        }
    }
}

static struct {
    struct ips_graph g[2];
    struct ips_peer_end end[2];
    struct ips_cm_bytes wants[2], matches[2];
} two;

/* `agreed`: both have what the other sent. */
static void make_links(struct ips_cm_links *l, uint32_t self, bool agreed)
{
    if (ips_cm_links_init(l, &two.g[self], self, 2, &two.end[self], 1, NULL))
        abort();
    if (!agreed)
        return;
    struct ips_cm_bytes scratch = {0};
    if (ips_cm_read_awaited_and_write_matches(l, 0, two.wants[1 - self].data,
                                              two.wants[1 - self].len, &scratch,
                                              NULL) < 0 ||
        ips_cm_read_matches_and_store_links(l, 0, two.matches[1 - self].data,
                                            two.matches[1 - self].len,
                                            NULL) < 0)
        abort();
    ips_cm_bytes_release(&scratch);
}

static void make_two(void)
{
    if (two.g[0].node_count)
        return;
    for (uint32_t m = 0; m < 2; m++) {
        struct ips_cm_links l;
        make(&two.g[m], m == 0);
        two.end[m] = (struct ips_peer_end){.machine = 1 - m};
        make_links(&l, m, false);
        if (ips_cm_write_awaited_positions(&l, 0, &two.wants[m], NULL) < 0)
            abort();
        ips_cm_links_release(&l);
    }
    for (uint32_t m = 0; m < 2; m++) {
        struct ips_cm_links l;
        make_links(&l, m, false);
        if (ips_cm_read_awaited_and_write_matches(&l, 0, two.wants[1 - m].data,
                                                  two.wants[1 - m].len,
                                                  &two.matches[m], NULL) < 0)
            abort();
        ips_cm_links_release(&l);
    }
}

static struct ips_scenario lane = {
    .message_time = {.scale_num = 1, .scale_den = 1}};

static void feed_sync(const struct ips_cm_links *l,
                      const struct ips_cm_bytes *in)
{
    struct ips_cm_sync *s;
    struct ips_cm_message m;
    struct ips_est e;
    if (ips_cm_sync_new(l, l->g, &lane, 2, &s, NULL) < 0)
        abort();
    int rc = ips_cm_sync_compute_ready_chains(s, NULL);
    if (rc == 0)
        rc = ips_cm_sync_receive_batch(s, 0, in->data, in->len, NULL);
    if (rc == 0)
        rc = ips_cm_sync_compute_ready_chains(s, NULL);
    while (rc == 0 && ips_cm_sync_make_next_batch(s, &m, NULL) > 0)
        ;
    if (ips_cm_sync_move_result_out(s, &e, NULL) == 0)
        ips_est_release(&e);
    ips_cm_sync_free(s);
}

static void feed_async(const struct ips_cm_links *l,
                       const struct ips_cm_bytes *in)
{
    struct ips_cm_async *a;
    struct ips_cm_message m;
    struct ips_est e;
    if (ips_cm_async_new(l, l->g, &lane, 2 * TALKS, 2, &a, NULL) < 0)
        abort();
    int rc =
        ips_cm_async_store_values_and_owe_ack(a, 0, in->data, in->len, NULL);
    if (rc == 0)
        rc = ips_cm_async_store_values_and_owe_ack(a, IPS_CM_ROOT, NULL, 0,
                                                   NULL);
    if (rc == 0)
        rc = ips_cm_async_propagate_improved_values(a, NULL);
    while (rc == 0 && ips_cm_async_make_next_message(a, &m, NULL) > 0) {
        if (m.kind == IPS_CM_BATCH)
            rc = ips_cm_async_receive_ack(a, 0, 1, NULL);
    }
    if (ips_cm_async_recompute_and_check_result(a, &e, NULL) == 0)
        ips_est_release(&e);
    ips_cm_async_free(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ips_cm_bytes in = {0}, out = {0};
    struct ips_cm_links l;
    make_two();
    if (size == 0)
        return 0;
    in.cap = size + 16;
    in.data = malloc(in.cap);
    if (!in.data)
        abort();
    in.len = size - 1;
    memcpy(in.data, data + 1, size - 1);
    if (ips_cm_append_checksum(&in, NULL) < 0)
        abort();
    unsigned what = data[0] % 6;
    lane.weighting = what < 4 ? IPS_WEIGH_CPU : IPS_WEIGH_WALL;
    make_links(&l, 1, what >= 2);
    if (what == 0)
        (void)!ips_cm_read_awaited_and_write_matches(&l, 0, in.data, in.len,
                                                     &out, NULL);
    else if (what == 1)
        (void)!ips_cm_read_matches_and_store_links(&l, 0, in.data, in.len,
                                                   NULL);
    else if (what % 2 == 0)
        feed_sync(&l, &in);
    else
        feed_async(&l, &in);
    ips_cm_links_release(&l);
    ips_cm_bytes_release(&in);
    ips_cm_bytes_release(&out);
    return 0;
}

#ifndef IPS_LIBFUZZER
#include "tests/fuzz/replay.h"

static uint64_t next(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

int main(int argc, char **argv)
{
    uint64_t s = 4711;
    int status = fuzz_replay(argc, argv);
    make_two();
    for (unsigned i = 0; argc == 1 && i < 60000; i++) {
        /* A batch: number 0, two values, links 0 and 1, ESTs and hops. */
        static const uint8_t batch[] = {0, 2, 0, 2, 1, 0, 4, 1};
        uint8_t data[64] = {(uint8_t)(i % 6)};
        const struct ips_cm_bytes *real =
            i % 6 ? &two.matches[0] : &two.wants[0];
        size_t n = i % 6 < 2 ? real->len - 4 : sizeof(batch);
        memcpy(data + 1, i % 6 < 2 ? real->data : batch, n);
        for (uint64_t k = next(&s) % 4; k > 0; k--)
            data[1 + next(&s) % n] = (uint8_t)next(&s);
        LLVMFuzzerTestOneInput(data, 1 + n - next(&s) % (n / 2));
    }
    return status;
}
#endif
