/*
 * Fuzz target: whatever bytes arrive, the frame parser and the piece taker
 * answer or refuse. libFuzzer where it is linked; else main() replays the
 * files named, or with none, generates random frames from a fixed seed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/graph_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take(const Ips__Subgraph *piece)
{
    for (int flags = 0; flags < 2; flags++) {
        struct ips_wire_receiver t;
        ips_wire_receiver_init(&t, 1u << 16, flags);
        for (int i = 0; i < 2; i++) {
            if (ips_wire_append_received_piece(&t, piece, NULL) < 0)
                break;
        }
        ips_wire_receiver_release(&t);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ips_err err = {0};
    int64_t whole =
        ips_frame_length_if_complete(data, size, IPS_FRAME_MAX_BYTES, &err);
    if (whole <= 0)
        return 0;
    Ips__Envelope *env = ips_frame_decode(data, (size_t)whole, &err);
    if (!env)
        return 0;
    if (env->body_case == IPS__ENVELOPE__BODY_REPLY &&
        env->reply->answer_case == IPS__REPLY__ANSWER_SUBGRAPH)
        take(env->reply->subgraph);
    uint8_t *again;
    size_t len;
    if (ips_frame_encode(env, &again, &len, &err) == 0)
        free(again);
    ips__envelope__free_unpacked(env, NULL);
    return 0;
}

#ifndef IPS_LIBFUZZER
#include "tests/fuzz/replay.h"

static uint64_t next_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

/* A reply with a subgraph of few nodes, then bytes of it changed: random
 * bytes alone seldom get past the first field. */
static size_t seeded(uint8_t *out, size_t cap, uint64_t *seed)
{
    uint64_t w[4] = {1, 2, 3, 4}, xp[4] = {0, 1, 0, 5}, xl[4] = {0};
    uint8_t kinds[4] = {0, 1, 2, 5};
    uint32_t chain[2] = {2, 2};
    Ips__Subgraph g = IPS__SUBGRAPH__INIT;
    g.n_chain_count = g.n_chain_process = g.n_chain_pid = g.n_chain_tid =
        g.n_chain_thread = 2;
    g.chain_count = g.chain_process = g.chain_pid = g.chain_tid =
        g.chain_thread = chain;
    g.kind = g.xkind = (ProtobufCBinaryData){.len = 4, .data = kinds};
    g.n_w = g.n_xpred = g.n_xlen = 4;
    g.w = w;
    g.xpred = xp;
    g.xlen = xl;
    Ips__Reply reply = IPS__REPLY__INIT;
    reply.answer_case = IPS__REPLY__ANSWER_SUBGRAPH;
    reply.subgraph = &g;
    Ips__Envelope env = IPS__ENVELOPE__INIT;
    env.body_case = IPS__ENVELOPE__BODY_REPLY;
    env.reply = &reply;
    uint8_t *data;
    size_t len;
    if (ips_frame_encode(&env, &data, &len, NULL) < 0 || len > cap)
        abort();
    memcpy(out, data, len);
    free(data);
    for (uint64_t n = next_random(seed) % 5; n > 0; n--)
        out[4 + next_random(seed) % (len - 4)] = (uint8_t)next_random(seed);
    return len;
}

int main(int argc, char **argv)
{
    uint8_t data[512];
    uint64_t seed = 0x2545f4914f6cdd1dULL;
    int status = fuzz_replay(argc, argv);
    for (int round = 0; argc == 1 && round < 100000; round++) {
        size_t len = 4 + next_random(&seed) % (sizeof(data) - 4);
        if (round % 2) {
            len = seeded(data, sizeof(data), &seed);
        } else {
            for (size_t i = 0; i < len; i++)
                data[i] = (uint8_t)next_random(&seed);
            data[0] = (uint8_t)(len - 4);
            data[1] = (uint8_t)((len - 4) >> 8);
            data[2] = data[3] = 0;
        }
        LLVMFuzzerTestOneInput(data, len);
    }
    return status;
}
#endif
