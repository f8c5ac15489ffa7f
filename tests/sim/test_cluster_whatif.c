/*
 * Slack, next paths and what-if over whole clusters of slaves that answer late
 * and in any order: the answer must be that of the kernel on the uncut graph.
 * Catches portions that go to another machine's nodes, edits of the wrong
 * features, a fault of a slave that becomes a wrong answer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/whatif/tail.h"
#include "tests/support/cluster.h"
#include "tests/support/random_graph.h"

static const char *const machines[] = {"m1", "m2", "m3", "m4"};
static const struct ips_scenario plain = {.message_time = {0, 0, 1, 1}};

/* What fake_slave_portions says of `even`, of the whole graph. */
static uint64_t without_even(const struct rg *r, uint64_t *share)
{
    struct ips_est e;
    uint64_t *old = calloc(r->whole.node_count + 1, sizeof(*old));
    assert_non_null(old);
    *share = 0;
    for (uint32_t m = 0; m < r->machines; m++) {
        for (uint32_t i = 0; i < r->part[m].node_count; i++) {
            uint32_t at = r->base[m] + i;
            old[at] = r->whole.w[at];
            if (i % 3 == 0 && old[at] >= 2) {
                *share += old[at] - 1;
                r->whole.w[at] = 1;
            }
        }
    }
    assert_int_equal(
        0, ips_longest_path_compute_ests(&r->whole, &plain, NULL, &e, NULL));
    for (uint32_t i = 0; i < r->whole.node_count; i++)
        r->whole.w[i] = old[i];
    uint64_t t_max = e.t_max;
    ips_est_release(&e);
    free(old);
    return t_max;
}

static void ask(struct cluster *c, struct answer *out)
{
    Ips__WhatifAsk ask = IPS__WHATIF_ASK__INIT;
    Ips__WhatifEdit edit = IPS__WHATIF_EDIT__INIT, *edits = &edit;
    Ips__Request request = IPS__REQUEST__INIT;
    edit.procedure = ips_unconst_text("ev*");
    edit.ppm = 1000000;
    ask.n_edits = 1;
    ask.edits = &edits;
    ask.rank = true;
    ask.rank_ppm = 500000;
    ask.slack = true;
    ask.next = 3;
    request.run = ips_unconst_text("r");
    request.ask_case = IPS__REQUEST__ASK_WHATIF;
    request.whatif = &ask;
    cluster_ask(c, &request, out);
}

static void check(const struct rg *r, const Ips__WhatifAnswer *a)
{
    struct ips_est e;
    uint64_t share;
    assert_int_equal(
        0, ips_longest_path_compute_ests(&r->whole, &plain, NULL, &e, NULL));
    assert_int_equal(a->t_max_ns, e.t_max);
    assert_int_equal(a->all->t_max_ns, without_even(r, &share));
    assert_int_equal(a->all->gain_ns, e.t_max - a->all->t_max_ns);
    assert_int_equal(a->all->total_ns, share);
    assert_int_equal(a->next[0]->ns, e.t_max);
    uint64_t total = 0;
    for (size_t i = 0; i < a->n_slacks; i++) {
        if (strcmp(a->slacks[i]->kind, "process") == 0)
            total += a->slacks[i]->total_ns;
    }
    assert_int_equal(total, e.total);
    for (size_t i = 0; i < a->n_ranking; i++) {
        assert_true(a->ranking[i]->gain_ns <= a->ranking[i]->bound_ns);
        assert_true(i == 0 ||
                    a->ranking[i]->gain_ns <= a->ranking[i - 1]->gain_ns);
    }
    ips_est_release(&e);
}

static void begin(struct cluster *c, struct rg *r, uint64_t seed)
{
    struct rg_options o = rg_options_of(seed);
    o.weight_max = 1000;
    rg_make(&o, r);
    cluster_start(c);
    for (uint32_t m = 0; m < r->machines; m++) {
        struct fake_slave *s = cluster_add(c, machines[m], "r", &r->part[m],
                                           r->peer[m], r->end_count[m]);
        s->delay_ms = seed % 2 ? 3 : 0;
    }
    cluster_settle(c);
}

static bool has_even(const struct rg *r)
{
    uint64_t share;
    (void)without_even(r, &share);
    return share > 0;
}

static void test_cluster_whatif__as_the_kernel(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 15; seed++) {
        struct cluster c;
        struct rg r;
        struct answer got;
        begin(&c, &r, seed);
        ask(&c, &got);
        const Ips__Reply *reply = answer_last(&got);
        if (!has_even(&r)) {
            assert_true(reply->error == IPS_E_NOT_FOUND ||
                        reply->error == IPS_E_INCOMPLETE);
        } else if (reply->error) {
            fail_msg("seed %llu: %s", (unsigned long long)seed, reply->message);
        } else {
            check(&r, reply->whatif);
        }
        answer_release(&got);
        cluster_stop(&c);
        rg_release(&r);
    }
}

/* A slave that fails at any of its asks, in every way: an answer that is right,
 * or one that names what is missing, or an error; never a wrong one. */
static void test_cluster_whatif__faults(void **state)
{
    (void)state;
    static const enum fault faults[] = {FAULT_CLOSE, FAULT_ERROR, FAULT_BUSY,
                                        FAULT_TYPE, FAULT_CORRUPT};
    for (uint32_t at = 1; at <= 6; at++) {
        for (size_t f = 0; f < sizeof(faults) / sizeof(*faults); f++) {
            struct cluster c;
            struct rg r;
            struct answer got;
            begin(&c, &r, 3);
            assert_true(r.machines > 1);
            c.slave[1].fault = faults[f];
            c.slave[1].fault_at = at;
            ask(&c, &got);
            const Ips__Reply *reply = answer_last(&got);
            if (!reply->error) {
                const Ips__WhatifAnswer *a = reply->whatif;
                if (a->certificate->complete)
                    check(&r, a);
                else
                    assert_true(a->certificate->n_missing_machines > 0);
            }
            answer_release(&got);
            cluster_stop(&c);
            rg_release(&r);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cluster_whatif__as_the_kernel),
        cmocka_unit_test(test_cluster_whatif__faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
