/* The synthetic runs that benches are made with. Would catch: a graph that is
 * none (a message without its sender, a remote in out of order), a path other
 * than the one the walk itself found, a run that is not the same twice, and
 * records that do not build into the graph they are said to be: then a figure
 * measured on one form would say nothing of the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/graph/path.h"
#include "slave/build/build.h"
#include "tests/bench/native/synth_streams.h"

static const struct ips_scenario plain = {.message_time = {0, 0, 1, 1}};

static struct synth_options options_of(uint32_t k)
{
    struct synth_options o =
        synth_default((enum synth_pattern)(k % SYNTH_PATTERN_COUNT));
    o.seed = k;
    o.nodes = 3000;
    o.threads = 2 + k * 7 % 23;
    o.slaves = 1 + k % (o.threads < 5 ? o.threads : 5);
    o.cyclic = k / SYNTH_PATTERN_COUNT % 2;
    return o;
}

static void make(const struct synth_options *o, struct synth *s)
{
    struct ips_err err;
    if (synth_graphs(o, true, s, &err) < 0)
        fail_msg("%s", err.msg);
}

static void test_synth__graphs_are_graphs(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < 70; k++) {
        struct synth_options o = options_of(k);
        struct ips_err err;
        struct ips_est e, deque;
        struct synth s;
        make(&o, &s);
        for (uint32_t m = 0; m < s.slaves; m++)
            assert_int_equal(ips_graph_check_invariants(&s.part[m], &err), 0);
        assert_int_equal(ips_graph_check_invariants(&s.whole, &err), 0);
        assert_true(s.whole.node_count >= o.nodes);
        assert_int_equal(
            ips_longest_path_compute_ests(&s.whole, &plain, NULL, &e, &err), 0);
        assert_int_equal(e.t_max, s.t_max);
        assert_int_equal(ips_longest_path_by_label_correcting(&s.whole, &plain,
                                                              &deque, &err),
                         0);
        assert_int_equal(deque.t_max, s.t_max);
        assert_int_equal(deque.end, e.end);
        ips_est_release(&e);
        ips_est_release(&deque);
        synth_release(&s);
    }
}

static void test_synth__seed_decides(void **state)
{
    (void)state;
    struct synth a, b, c;
    struct synth_options o = options_of(3), other = o;
    other.seed++;
    make(&o, &a);
    make(&o, &b);
    make(&other, &c);
    size_t n = a.whole.node_count * sizeof(*a.whole.w);
    assert_int_equal(a.whole.node_count, b.whole.node_count);
    assert_memory_equal(a.whole.w, b.whole.w, n);
    assert_int_not_equal(a.t_max, c.t_max);
    synth_release(&a);
    synth_release(&b);
    synth_release(&c);
}

/* ---- records ----------------------------------------------------------- */

static void expect_graph(const struct ips_graph *got,
                         const struct ips_graph *want)
{
    size_t n = want->node_count;
    assert_int_equal(got->node_count, n);
    assert_int_equal(got->chain_count, want->chain_count);
    for (uint32_t c = 0; c < want->chain_count; c++)
        assert_int_equal(got->chains[c].tid, want->chains[c].tid);
    assert_memory_equal(got->kind, want->kind, n);
    assert_memory_equal(got->w, want->w, n * sizeof(*want->w));
    assert_memory_equal(got->xpred, want->xpred, n * sizeof(*want->xpred));
    assert_memory_equal(got->xkind, want->xkind, n);
    assert_memory_equal(got->t_ns, want->t_ns, n * sizeof(*want->t_ns));
    assert_int_equal(got->in_count, want->in_count);
    for (uint32_t i = 0; i < want->in_count; i++) {
        assert_int_equal(got->in[i].node, want->in[i].node);
        assert_int_equal(got->in[i].pos, want->in[i].pos);
    }
    /* The process's end closes its sockets: outs that the walk has not. */
    uint32_t outs = 0;
    for (uint32_t i = 0; i < got->out_count; i++) {
        if (got->out[i].pos == IPS_POS_EOF)
            continue;
        assert_true(outs < want->out_count);
        assert_int_equal(got->out[i].node, want->out[outs].node);
        assert_int_equal(got->out[i].pos, want->out[outs].pos);
        assert_int_equal(got->out[i].len, want->out[outs].len);
        outs++;
    }
    assert_int_equal(outs, want->out_count);
    for (uint32_t i = 0; i < n; i++)
        if (want->xpred[i] != IPS_NO_NODE)
            assert_int_equal(got->xlen[i], want->xlen[i]);
}

/* Every end that is not local has its peer on another slave. */
static void set_peers(struct ips_built *b)
{
    struct ips_err err;
    struct ips_peer_row *rows = calloc(b->end_count + 1, sizeof(*rows));
    uint32_t n = 0;
    assert_non_null(rows);
    for (uint32_t i = 0; i < b->end_count; i++)
        if (b->ends[i].peer == IPS_PEER_UNKNOWN)
            rows[n++] =
                (struct ips_peer_row){.end = i,
                                      .traced = true,
                                      .peer_sent_bytes = b->ends[i].recv_bytes,
                                      .peer_closed = true};
    assert_int_equal(ips_built_set_peers_and_remake_arcs(b, rows, n, &err), 0);
    free(rows);
}

static void test_synth__records_build_the_graph(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < 42; k++) {
        struct synth_options o = options_of(k);
        struct synth s;
        struct ips_err err;
        make(&o, &s);
        for (uint32_t m = 0; m < s.slaves; m++) {
            struct synth_streams *c = synth_streams(&o, m, 16384, &err);
            struct ips_built b;
            assert_non_null(c);
            struct ips_build_input in = {.streams = c->in,
                                         .stream_count = c->count};
            if (ips_build(&in, &b, &err) < 0)
                fail_msg("%s", err.msg);
            set_peers(&b);
            assert_int_equal(b.counts.unmatched + b.counts.ambiguous, 0);
            expect_graph(&b.g, &s.part[m]);
            ips_built_release(&b);
            synth_streams_free(c);
        }
        synth_release(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_synth__graphs_are_graphs),
        cmocka_unit_test(test_synth__seed_decides),
        cmocka_unit_test(test_synth__records_build_the_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
