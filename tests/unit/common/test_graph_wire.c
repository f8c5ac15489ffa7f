/* Subgraphs in pieces: what is sent is what arrives, across piece borders, and
 * hostile pieces are refused. Catches an off-by-one at a border, a lost last
 * item, parallel arrays trusted to be equal, and an unlimited answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/graph_wire.h"

static uint32_t *numbers(uint32_t n, uint32_t seed)
{
    uint32_t *a = malloc((n + 1) * sizeof(*a));
    assert_non_null(a);
    for (uint32_t i = 0; i < n; i++)
        a[i] = (seed + i) * 2654435761u;
    return a;
}

static uint64_t *wide(uint32_t n, uint64_t seed)
{
    uint64_t *a = malloc((n + 1) * sizeof(*a));
    assert_non_null(a);
    for (uint32_t i = 0; i < n; i++)
        a[i] = (seed + i) * 0x9e3779b97f4a7c15ULL;
    return a;
}

static void make(struct ips_wire_graph *g, uint32_t nodes, uint32_t chains,
                 uint32_t ins, uint32_t outs)
{
    memset(g, 0, sizeof(*g));
    g->node_count = nodes;
    g->chain_count = chains;
    g->in_count = ins;
    g->out_count = outs;
    g->chain_nodes = numbers(chains, 1);
    g->chain_process = numbers(chains, 2);
    g->chain_pid = numbers(chains, 3);
    g->chain_tid = numbers(chains, 4);
    g->chain_thread = numbers(chains, 5);
    g->kind = malloc(nodes + 1);
    g->xkind = malloc(nodes + 1);
    assert_non_null(g->kind);
    assert_non_null(g->xkind);
    for (uint32_t i = 0; i < nodes; i++) {
        g->kind[i] = (uint8_t)i;
        g->xkind[i] = (uint8_t)(i * 7);
    }
    g->w = wide(nodes, 6);
    g->xlen = wide(nodes, 7);
    g->t_ns = wide(nodes, 8);
    g->xpred = numbers(nodes, 9);
    g->site = numbers(nodes, 10);
    g->probe = numbers(nodes, 19);
    g->unended = wide(nodes, 20);
    if (nodes > 2)
        g->xpred[nodes - 1] = g->site[nodes - 2] = IPS_WIRE_NO_NODE;
    g->in_node = numbers(ins, 12);
    g->in_end = numbers(ins, 13);
    g->in_pos = wide(ins, 14);
    g->out_node = numbers(outs, 15);
    g->out_end = numbers(outs, 16);
    g->out_len = numbers(outs, 17);
    g->out_pos = wide(outs, 18);
    g->total_cpu_ns = 99;
    g->end_count = 5;
}

static void drop(struct ips_wire_graph *g)
{
    struct ips_wire_receiver t = {.g = *g};
    ips_wire_receiver_release(&t);
}

static void same(const void *a, const void *b, size_t n)
{
    if (n > 0)
        assert_memory_equal(a, b, n);
}

static void check_round_trip(uint32_t nodes, uint32_t chains, uint32_t ins,
                             uint32_t outs)
{
    struct ips_wire_graph g;
    struct ips_wire_receiver t;
    struct ips_wire_cursor at = {0};
    struct ips_wire_piece piece = {0};
    bool last = false;
    make(&g, nodes, chains, ins, outs);
    ips_wire_receiver_init(&t, 1u << 20, true);
    while (!last) {
        assert_int_equal(ips_wire_fill_next_piece(&g, &at, &piece, &last, NULL),
                         0);
        assert_true(ips__subgraph__get_packed_size(&piece.msg) <
                    IPS_FRAME_MAX_BYTES - 64);
        assert_int_equal(ips_wire_append_received_piece(&t, &piece.msg, NULL),
                         0);
    }
    assert_int_equal(t.g.node_count, nodes);
    assert_int_equal(t.g.chain_count, chains);
    assert_int_equal(t.g.in_count, ins);
    assert_int_equal(t.g.out_count, outs);
    assert_int_equal(t.g.total_cpu_ns, 99);
    assert_int_equal(t.g.end_count, 5);
    same(t.g.kind, g.kind, nodes);
    same(t.g.xkind, g.xkind, nodes);
    same(t.g.w, g.w, nodes * sizeof(uint64_t));
    same(t.g.xlen, g.xlen, nodes * sizeof(uint64_t));
    same(t.g.t_ns, g.t_ns, nodes * sizeof(uint64_t));
    same(t.g.xpred, g.xpred, nodes * sizeof(uint32_t));
    same(t.g.site, g.site, nodes * sizeof(uint32_t));
    same(t.g.probe, g.probe, nodes * sizeof(uint32_t));
    same(t.g.unended, g.unended, nodes * sizeof(uint64_t));
    same(t.g.chain_nodes, g.chain_nodes, chains * sizeof(uint32_t));
    same(t.g.chain_thread, g.chain_thread, chains * sizeof(uint32_t));
    same(t.g.in_node, g.in_node, ins * sizeof(uint32_t));
    same(t.g.in_pos, g.in_pos, ins * sizeof(uint64_t));
    same(t.g.out_len, g.out_len, outs * sizeof(uint32_t));
    same(t.g.out_pos, g.out_pos, outs * sizeof(uint64_t));
    ips_wire_piece_release(&piece);
    ips_wire_receiver_release(&t);
    drop(&g);
}

static void test_graph_wire__round_trip(void **state)
{
    (void)state;
    check_round_trip(0, 0, 0, 0);
    check_round_trip(1, 1, 0, 0);
    check_round_trip(100, 3, 5, 7);
    check_round_trip(IPS_PIECE_ITEMS, 10, IPS_PIECE_ITEMS - 1, 1);
    check_round_trip(IPS_PIECE_ITEMS + 1, IPS_PIECE_ITEMS * 2 + 3,
                     IPS_PIECE_ITEMS + 9, IPS_PIECE_ITEMS * 3);
}

static void test_graph_wire__unequal_arrays_are_refused(void **state)
{
    (void)state;
    struct ips_wire_graph g;
    make(&g, 10, 2, 3, 4);
    for (int which = 0; which < 8; which++) {
        struct ips_wire_receiver t;
        struct ips_wire_cursor at = {0};
        struct ips_wire_piece piece = {0};
        struct ips_err err = {0};
        bool last;
        ips_wire_receiver_init(&t, 1000, which != 5);
        assert_int_equal(ips_wire_fill_next_piece(&g, &at, &piece, &last, NULL),
                         0);
        if (which == 0)
            piece.msg.n_w--;
        else if (which == 1)
            piece.msg.xkind.len--;
        else if (which == 2)
            piece.msg.n_chain_tid--;
        else if (which == 3)
            piece.msg.n_in_pos--;
        else if (which == 4)
            piece.msg.n_out_len--;
        else if (which == 6)
            piece.msg.n_probe--;
        else if (which == 7)
            piece.msg.n_unended--;
        assert_int_equal(ips_wire_append_received_piece(&t, &piece.msg, &err),
                         IPS_E_PROTOCOL);
        ips_wire_piece_release(&piece);
        ips_wire_receiver_release(&t);
    }
    drop(&g);
}

static int take_columns(struct ips_wire_receiver *t, uint32_t nodes,
                        bool with_times, bool with_delay)
{
    struct ips_wire_graph g;
    struct ips_wire_cursor at = {0};
    struct ips_wire_piece piece = {0};
    struct ips_err err;
    bool last;
    make(&g, nodes, 1, 0, nodes);
    if (with_times) {
        g.at = wide(nodes, 21);
        g.wait = wide(nodes, 22);
        g.out_ns = wide(nodes, 23);
    }
    if (with_delay)
        g.delay = wide(nodes, 24);
    assert_int_equal(ips_wire_fill_next_piece(&g, &at, &piece, &last, NULL), 0);
    int rc = ips_wire_append_received_piece(t, &piece.msg, &err);
    ips_wire_piece_release(&piece);
    drop(&g);
    return rc;
}

/* Catches: an array that is allocated and never filled because no piece has it,
 * or only some have; an array that the first nodes bring after a piece that has
 * none, written without memory. */
static void test_graph_wire__all_pieces_have_the_same_arrays(void **state)
{
    (void)state;
    for (int first = 0; first < 4; first++)
        for (int next = 0; next < 4; next++) {
            struct ips_wire_receiver t;
            bool times = first & 1, delay = first & 2;
            ips_wire_receiver_init(&t, 1000, true);
            assert_int_equal(take_columns(&t, 0, false, false), 0);
            assert_int_equal(take_columns(&t, 1, times, delay),
                             delay && !times ? IPS_E_PROTOCOL : 0);
            assert_true(!t.g.at == !t.g.wait && !t.g.at == !t.g.out_ns);
            if (!delay || times) {
                assert_true(!t.g.at == !times && !t.g.delay == !delay);
                assert_int_equal(take_columns(&t, 5, next & 1, next & 2),
                                 first == next ? 0 : IPS_E_PROTOCOL);
            }
            ips_wire_receiver_release(&t);
        }
}

static void test_graph_wire__an_answer_has_a_limit(void **state)
{
    (void)state;
    struct ips_wire_graph g;
    struct ips_wire_receiver t;
    struct ips_wire_cursor at = {0};
    struct ips_wire_piece piece = {0};
    struct ips_err err = {0};
    bool last;
    make(&g, 600, 2, 3, 4);
    ips_wire_receiver_init(&t, 1000, true);
    assert_int_equal(ips_wire_fill_next_piece(&g, &at, &piece, &last, NULL), 0);
    assert_int_equal(ips_wire_append_received_piece(&t, &piece.msg, &err), 0);
    assert_int_equal(ips_wire_append_received_piece(&t, &piece.msg, &err),
                     IPS_E_LIMIT);
    ips_wire_piece_release(&piece);
    ips_wire_receiver_release(&t);
    drop(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graph_wire__round_trip),
        cmocka_unit_test(test_graph_wire__unequal_arrays_are_refused),
        cmocka_unit_test(test_graph_wire__all_pieces_have_the_same_arrays),
        cmocka_unit_test(test_graph_wire__an_answer_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
