/* What slaves sent about the arcs of a path. Would catch: a piece without arcs
 * that counts as CPU time because its column says that it is in the window; too
 * many callers reported as a lack of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "master/path/arc_profile.h"
#include "master/path/profile.h"

/* A piece of 10 ns with arcs, and one of 5 ns without, in a window. */
static void test_path_profile__no_arcs_are_no_cpu(void **state)
{
    (void)state;
    uint32_t piece[] = {0, 1}, from[] = {1, 3}, to[] = {2, 3};
    uint64_t ns[] = {10, 1}, weight_ns[] = {10, 5}, whole_ns[] = {30};
    struct path_piece pieces[] = {{.kind = IPS_SEG_COMPUTE,
                                   .at = {0, 0, 7},
                                   .from = 1,
                                   .to = 2,
                                   .ns = 10},
                                  {.kind = IPS_SEG_COMPUTE,
                                   .at = {0, 0, 7},
                                   .from = IPS_NO_NODE,
                                   .to = 3,
                                   .ns = 5}};
    struct profile_columns path = {.piece = piece,
                                   .from = from,
                                   .to = to,
                                   .ns = ns,
                                   .weight_ns = weight_ns,
                                   .count = 2};
    struct profile_columns whole = {.ns = whole_ns, .count = 1};
    struct path_profile pp = {
        .machine_count = 1,
        .face = {[PROFILE_PATH] = &path, [PROFILE_WHOLE] = &whole},
        .windowed = true};
    struct path_data *d = calloc(1, sizeof(*d));
    Ips__ThreadRow row = IPS__THREAD_ROW__INIT, *threads[] = {&row};
    struct machine_share machine = {.t = {.threads = threads}};
    struct machine_share *active[] = {&machine};
    Ips__PathAsk ask = IPS__PATH_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    struct query q = {.data = d, .gather = {.active = active, .count = 1}};
    assert_non_null(d);
    row.tid = 7;
    ask.whole = true;
    request.path = &ask;
    q.request = &request;
    d->pieces = pieces;
    d->piece_count = 2;
    d->scenarios[SCENARIO_MAIN].begin = pieces[0].at;
    d->profile = &pp;
    assert_int_equal(path_profile_make(&q, NULL), 0);
    assert_int_equal(pp.window_ns, 15);
    assert_int_equal(pp.on_cpu_ns, 10);
    assert_int_equal(pp.whole_ns, 30);
    for (int list = 0; list < 3; list++) {
        assert_int_equal(pp.whole_count[list], 1);
        assert_int_equal(pp.whole[list][0].path_ns, 10);
        free(pp.whole[list]);
    }
    shares_release(&pp.shares);
    free(pp.pieces);
    free(d);
}

static void test_path_profile__too_many_callers(void **state)
{
    (void)state;
    uint32_t zero = 0;
    uint64_t ns = 1;
    Ips__SyncAnswer sync = IPS__SYNC_ANSWER__INIT;
    Ips__PortionsAnswer a = IPS__PORTIONS_ANSWER__INIT;
    Ips__Reply reply = IPS__REPLY__INIT;
    struct machine_share machine = {.sync = &sync};
    struct query q = {.data = NULL};
    /* the limit is reached */
    struct arc_profile w = {.symbol_count = 1, .callers = 1u << 23};
    a.caller_leaf = a.caller = &zero;
    a.caller_ns = a.caller_steps = &ns;
    a.n_caller_leaf = a.n_caller = a.n_caller_ns = a.n_caller_steps = 1;
    reply.answer_case = IPS__REPLY__ANSWER_PORTIONS;
    reply.portions = &a;
    reply.last = true;
    assert_int_equal(arc_profile_append_reply(&q, &machine, &w, &reply, NULL),
                     IPS_E_LIMIT);
    w.callers = 0;
    assert_int_equal(arc_profile_append_reply(&q, &machine, &w, &reply, NULL),
                     0);
    assert_int_equal(w.callers, 1);
    arc_profile_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_path_profile__no_arcs_are_no_cpu),
        cmocka_unit_test(test_path_profile__too_many_callers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
