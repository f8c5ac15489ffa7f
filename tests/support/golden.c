#include "tests/support/golden.h"

#include <stdlib.h>

/* clang-format off */
#define N(kind, w) {IPS_NODE_##kind, w, IPS_X_NONE, IPS_NO_NODE, 0}
#define X(kind, w, xkind, xpred, xlen) \
    {IPS_NODE_##kind, w, IPS_X_##xkind, xpred, xlen}

const struct golden golden[GOLDEN_COUNT] = {
    {"G1", 4, 34, 38, 30, 6, {
        N(START, 0), N(SEND, 10), N(END, 5),
        N(START, 0), X(RECV, 3, DATA, 1, 7), N(END, 20)}},
    {"G2", 5, 23, 15, 13, 8, {
        N(START, 0), N(SEND, 2), X(RECV, 0, DATA, 6, 7), N(END, 3),
        N(START, 0), X(RECV, 1, DATA, 1, 7), N(SEND, 8), N(END, 1)}},
    {"G3", 2, 43, 36, 43, 8, {
        N(START, 0), N(SEND, 4), X(RECV, 1, EXTERNAL, 1, 30),
        X(RECV, 6, DATA, 6, 7), N(END, 3),
        N(START, 0), N(SEND, 20), N(END, 2)}},
    {"G4", 3, 22, 34, 22, 10, {
        N(START, 0), N(FORK, 5), N(FORK, 1), X(JOIN, 2, LIFETIME, 7, 0),
        X(JOIN, 0, LIFETIME, 9, 0), N(END, 4),
        X(START, 0, LIFETIME, 1, 0), N(END, 10),
        X(START, 0, LIFETIME, 2, 0), N(END, 12)}},
    {"G5", 5, 17, 18, 12, 6, {
        N(START, 0), N(SEND, 6), N(END, 4),
        N(START, 0), X(RECV, 2, DATA, 1, 7), N(END, 6)}},
    {"G6", 2, 15, 22, 13, 12, {
        N(START, 0), N(SEND, 1), N(SEND, 1), N(END, 1),
        N(START, 0), X(RECV, 5, DATA, 1, 7), N(SEND, 1), N(END, 1),
        N(START, 0), X(RECV, 1, DATA, 2, 7), X(RECV, 10, DATA, 6, 7),
        N(END, 1)}},
    /* Two kinds of message time: a 2, b 1; so per byte 1, base 0. */
    {"G7", 0, 17, 22, 16, 10, {
        N(START, 0), N(SEND, 3), N(END, 1),
        N(START, 0), X(RECV, 5, DATA, 1, 2), N(SEND, 4), N(END, 0),
        N(START, 0), X(RECV, 2, DATA, 5, 1), N(END, 7)}},
};
/* clang-format on */

void golden_make(const struct golden *from, struct ips_graph *g)
{
    uint32_t chains = 0;
    if (ips_graph_alloc(g, from->node_count, from->node_count, NULL) < 0)
        abort();
    for (uint32_t i = 0; i < from->node_count; i++) {
        const struct golden_node *n = &from->node[i];
        if (n->kind == IPS_NODE_START) {
            g->chains[chains] = (struct ips_chain){
                .first = i, .process = chains, .pid = chains + 1};
            chains++;
        }
        g->chains[chains - 1].count++;
        g->kind[i] = (uint8_t)n->kind;
        g->w[i] = n->w;
        g->xkind[i] = (uint8_t)n->xkind;
        g->xpred[i] = n->xpred;
        g->xlen[i] = n->xlen;
    }
    g->chain_count = chains;
}

struct ips_scenario golden_lane(const struct golden *from)
{
    uint64_t per_byte = from->message_time_ns ? 0 : 1;
    return (struct ips_scenario){
        .message_time = {from->message_time_ns, per_byte << 32, 1, 1},
        .external = IPS_EXTERNAL_REPLY,
        .order_dependent_off = false};
}
