/*
 * Distributed computations that cannot end: two machines of which each receives
 * before it sends what the other waits for. The master counts what was sent and
 * taken until it is sure. Would catch: a question that waits for ever, an
 * answer in spite of it, a reason that leaves a machine out, a round of
 * counting that is begun while the one before is not complete.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "master/path/engine_cm.h"
#include "master/query/query.h"
#include "tests/support/cluster.h"
#include "tests/support/cut_graph.h"

static struct cluster c;

/* START, RECV, SEND, END on each machine; each receives what the other sends.
 */
static void make_cycle(struct ips_graph *whole, struct cut *cut)
{
    static const uint32_t of[] = {0, 1};
    assert_int_equal(ips_graph_alloc(whole, 8, 2, NULL), 0);
    for (uint32_t k = 0; k < 2; k++) {
        whole->chains[k] = (struct ips_chain){
            .first = 4 * k, .count = 4, .pid = k + 7, .tid = k + 7};
        whole->kind[4 * k + 1] = IPS_NODE_RECV;
        whole->kind[4 * k + 2] = IPS_NODE_SEND;
        whole->kind[4 * k + 3] = IPS_NODE_END;
        whole->w[4 * k + 2] = 5;
        whole->xkind[4 * k + 1] = IPS_X_DATA;
        whole->xpred[4 * k + 1] = 4 * (1 - k) + 2;
        whole->xlen[4 * k + 1] = 3;
    }
    cut_make(whole, of, 2, cut);
}

static struct cm_run *running(void)
{
    struct query *q = c.master.queries;
    struct path_data *d = q && !q->over ? q->data : NULL;
    return d ? d->cm : NULL;
}

/* Asks until the last reply; time does not pass but for the master's rounds of
 * counting, of which the number is returned. */
static unsigned ask(const char *engine, struct answer *got)
{
    Ips__Lane lane = IPS__LANE__INIT;
    Ips__PathAsk path = IPS__PATH_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    unsigned rounds = 0;
    path.engine = ips_unconst_text(engine);
    path.lane = &lane;
    request.run = ips_unconst_text("r");
    request.ask_case = IPS__REQUEST__ASK_PATH;
    request.path = &path;
    cluster_begin(&c, &request, got);
    for (unsigned ms = 0; !got->done && !got->closed; ms++) {
        assert_true(ms < CLUSTER_PATIENCE_MS);
        cluster_turn(&c, 1);
        struct cm_run *r = running();
        if (!r || r->scenario == 0 || r->over || r->asked)
            continue;
        r->progress_ns -= CM_TELL_NS;
        query_tick(&c.master);
        rounds += r->asked == 2;
        uint64_t now = r->progress_ns;
        query_tick(&c.master); /* not so soon again */
        assert_int_equal(r->progress_ns, now);
    }
    return rounds;
}

static void test_stalled__a_cycle(void **state)
{
    static const char *const names[] = {"m1", "m2"};
    struct ips_graph whole;
    struct answer got;
    struct cut cut;
    (void)state;
    make_cycle(&whole, &cut);
    cluster_start(&c);
    for (uint32_t m = 0; m < 2; m++)
        cluster_add(&c, names[m], "r", cut.part[m].g, cut.part[m].peer,
                    cut.part[m].end_count);
    cluster_settle(&c);
    unsigned rounds = ask("cm-sync", &got);
    const Ips__Reply *last = answer_last(&got);
    assert_int_equal(last->error, IPS_E_STALLED);
    if (!strstr(last->message,
                "the graph of this run is damaged: machine m1: ") ||
        !strstr(last->message, "; machine m2: "))
        fail_msg("%s", last->message);
    assert_in_range(rounds, 2, 3); /* twice the same */
    answer_release(&got);
    cluster_stop(&c);
    cut_release(&cut);
    ips_graph_release(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stalled__a_cycle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
