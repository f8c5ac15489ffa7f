/*
 * What a client hears while its answer is late. Catches: a client that hears
 * nothing although it asked for that, or hears it although it did not; a part
 * of a graph that is said of another machine; progress that stands in the kept
 * answer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/cluster.h"
#include "tests/support/random_graph.h"

#define LATE_NS 3000000000ull

struct fixture {
    struct cluster c;
    struct rg r;
};

static void begin(struct fixture *f)
{
    static const char *const machines[] = {"m1", "m2", "m3"};
    const struct rg_options o = {
        .seed = 3, .machines = 3, .chains = 6, .steps = 50, .weight_max = 9};
    memset(f, 0, sizeof(*f));
    rg_make(&o, &f->r);
    f->c.keeps = true;
    cluster_start(&f->c);
    for (uint32_t m = 0; m < 3; m++)
        cluster_add(&f->c, machines[m], "r", &f->r.part[m], f->r.peer[m],
                    f->r.end_count[m]);
    cluster_settle(&f->c);
}

/* How many replies tell progress; the first text of it in *doing. */
static uint32_t ask(struct fixture *f, bool progress, struct answer *got,
                    const char **doing)
{
    Ips__Request request = IPS__REQUEST__INIT;
    Ips__Lane lane = IPS__LANE__INIT;
    Ips__PathAsk path = IPS__PATH_ASK__INIT;
    uint32_t count = 0;
    path.lane = &lane;
    request.run = ips_unconst_text("r");
    request.progress = progress;
    request.ask_case = IPS__REQUEST__ASK_PATH;
    request.path = &path;
    cluster_ask(&f->c, &request, got);
    *doing = "";
    for (uint32_t i = 0; i < got->count; i++) {
        const Ips__Reply *reply = got->env[i]->reply;
        if (reply->answer_case != IPS__REPLY__ANSWER_PROGRESS)
            continue;
        assert_false(reply->last);
        if (count++ == 0)
            *doing = reply->progress->doing;
    }
    assert_int_equal(answer_last(got)->error, 0);
    return count;
}

static void test_cluster_progress__of_a_late_machine(void **state)
{
    (void)state;
    struct fixture f;
    struct answer got;
    const char *doing;
    begin(&f);
    f.c.master.limit_ns = LATE_NS;
    for (int wanted = 1; wanted >= 0; wanted--) {
        f.c.slave[2].asks = 0;
        f.c.slave[2].fault = FAULT_SILENT;
        f.c.slave[2].fault_at = 1;
        f.c.slave[2].built_permille = 459;
        uint32_t count = ask(&f, wanted, &got, &doing);
        if (wanted) {
            assert_in_range(count, 1, 4);
            assert_string_equal(doing,
                                "2 of 3 machines have answered; m3 has read "
                                "45% of its events");
        } else {
            assert_int_equal(count, 0);
        }
        answer_release(&got);
    }
    cluster_stop(&f.c);
    rg_release(&f.r);
}

/* One that is answered at once, or from what is kept, tells nothing. */
static void test_cluster_progress__none_at_once(void **state)
{
    (void)state;
    struct fixture f;
    struct answer got;
    const char *doing;
    begin(&f);
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(ask(&f, true, &got, &doing), 0);
        answer_release(&got);
    }
    cluster_stop(&f.c);
    rg_release(&f.r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cluster_progress__of_a_late_machine),
        cmocka_unit_test(test_cluster_progress__none_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
