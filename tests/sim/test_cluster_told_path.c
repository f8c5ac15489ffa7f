/*
 * What slaves answer about the longest path, as in test_cluster_told.c: pieces,
 * graphs, profiles and messages of a distributed computation in which a number
 * is none that can be. Would catch: a check that is gone, turned round or off
 * by one; a path put together from pieces that do not fit; a sum that nobody
 * compared; a refusal that blames another machine, or nobody.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/sim/told.h"

#define TEXT(t) ips_unconst_text(t)

static Ips__Request request;

static Ips__PathAsk *path(const char *engine, const char *weighting)
{
    static char procedure[] = "procedure", *by[] = {procedure};
    static Ips__PathAsk ask;
    static Ips__Lane lane;
    ips__lane__init(&lane);
    lane.message_time_base_ns = 100000; /* messages are on the path */
    ips__path_ask__init(&ask);
    ask.lane = &lane;
    ips__request__init(&request);
    request.ask_case = IPS__REQUEST__ASK_PATH;
    request.path = &ask;
    ask.engine = ips_unconst_text(engine);
    ask.weighting = ips_unconst_text(weighting);
    ask.segments = true;
    ask.by = by;
    return &ask;
}

#define CHANGED(KIND, how, why)                                                \
    told_ask(&request, IPS__REPLY__ANSWER_##KIND, how);                        \
    told_check_blame(why)

/* ---- pieces of the path -------------------------------------------------- */

#define EXPANSION(name, what)                                                  \
    static bool name(Ips__Reply *r)                                            \
    {                                                                          \
        Ips__ExpandAnswer *a = r->expand;                                      \
        if (a->n_ns < 2)                                                       \
            return false;                                                      \
        what;                                                                  \
        return true;                                                           \
    }

static uint32_t threads; /* of the machine that answers */

static bool count_threads(Ips__Reply *r)
{
    threads += (uint32_t)r->table->n_threads;
    return false;
}

EXPANSION(change_kind, a->kind[1] = IPS_SEG_EXTERNAL + 1)
EXPANSION(change_xkind, a->xkind[1] = IPS_X_LAST + 1)
EXPANSION(change_chain, a->chain[1] = threads)
EXPANSION(change_from, a->from[1] = IPS_NO_NODE - 1)
EXPANSION(change_to, a->to[1] = IPS_NO_NODE)
EXPANSION(change_pair_from, a->pair_from_chain[0] = threads)
EXPANSION(change_pair_to, a->pair_to_chain[0] = threads)
EXPANSION(change_part, a->part[0] = (uint32_t)a->n_pair_from)
EXPANSION(change_order, a->part[0] = (uint32_t)a->n_pair_from - 1)
EXPANSION(fewer_pairs, (a->n_pair_from--, a->n_pair_from_chain--,
                        a->n_pair_to--, a->n_pair_to_chain--))
EXPANSION(longer_piece, a->ns[0]++)

static bool longer_path(Ips__Reply *r)
{
    return r->finish->t_max_ns += 1u << 30;
}

static void test_told_path__pieces(void **state)
{
    (void)state;
    path("contract", "cpu");
    threads = 0;
    told.any = false;
    told_ask(&request, IPS__REPLY__ANSWER_TABLE, count_threads);
    told.any = true; /* all machines have as many */
    assert_true(told.complete && threads > 1);
    CHANGED(EXPAND, change_kind, "no answer to ExpandAsk");
    CHANGED(EXPAND, change_xkind, "no answer to ExpandAsk");
    CHANGED(EXPAND, change_chain, "no answer to ExpandAsk");
    CHANGED(EXPAND, change_from, "no answer to ExpandAsk");
    CHANGED(EXPAND, change_to, "no answer to ExpandAsk");
    CHANGED(EXPAND, change_pair_from, "no answer to ExpandAsk");
    CHANGED(EXPAND, change_pair_to, "no answer to ExpandAsk");
    CHANGED(EXPAND, change_part, "a piece of a visit that it did not tell");
    CHANGED(EXPAND, change_order, "its pieces of the path are not in order");
    CHANGED(EXPAND, fewer_pairs, "it sent other visits than were asked for");
    told_ask(&request, IPS__REPLY__ANSWER_EXPAND, longer_piece);
    assert_non_null(strstr(told.heard, ": its piece of the path has "));
    assert_false(told.complete);
    told_ask(&request, IPS__REPLY__ANSWER_FINISH, longer_path);
    told_check_error(IPS_E_CORRUPT, "the slaves' longest path has ");
    assert_non_null(
        strstr(told.heard, ": a bug in IPS, so no answer is given"));
}

/* ---- graphs -------------------------------------------------------------- */

static bool fewer_nodes(Ips__Reply *r)
{
    return r->sync->nodes--;
}
static bool more_nodes(Ips__Reply *r)
{
    return r->sync->nodes++;
}
static bool longer_chain(Ips__Reply *r)
{
    return r->subgraph->n_chain_count &&
           (r->subgraph->chain_count[0] += 1000000);
}

static void blamed_for_nodes(told_change *how)
{
    told_ask(&request, IPS__REPLY__ANSWER_SYNC, how);
    assert_int_equal(told.struck, 1);
    if (told.complete || !strstr(told.heard, ": promised ") ||
        !strstr(told.heard, " and sent "))
        fail_msg("%s", told.heard);
}

static void test_told_path__graphs(void **state)
{
    Ips__WaitsAsk waits = IPS__WAITS_ASK__INIT;
    Ips__RequestsAsk requests = IPS__REQUESTS_ASK__INIT;
    Ips__WhatifAsk whatif = IPS__WHATIF_ASK__INIT;
    (void)state;
    told.any = true;
    path("central", "cpu");
    blamed_for_nodes(more_nodes);
    blamed_for_nodes(fewer_nodes);
    CHANGED(SUBGRAPH, longer_chain, "its chains have more nodes than it sent");
    request.ask_case = IPS__REQUEST__ASK_WAITS;
    request.waits = &waits;
    blamed_for_nodes(more_nodes);
    request.ask_case = IPS__REQUEST__ASK_REQUESTS;
    request.requests = &requests;
    blamed_for_nodes(more_nodes);
    request.ask_case = IPS__REQUEST__ASK_WHATIF;
    request.whatif = &whatif;
    whatif.slack = true;
    blamed_for_nodes(more_nodes);
}

/* ---- profiles ------------------------------------------------------------ */

static bool no_totals(Ips__Reply *r)
{
    if (!r->last)
        return false;
    ips__procedure_totals__free_unpacked(r->profile->totals, told.allocator);
    r->profile->totals = NULL;
    return true;
}
static bool fewer_pieces(Ips__Reply *r)
{
    return r->profile->n_piece_ns && r->profile->n_piece_ns--;
}
static bool other_bin(Ips__Reply *r)
{
    if (!r->series->n_tops)
        return false;
    r->series->tops[0]->bin = (uint32_t)r->series->n_cpu_ns;
    return true;
}
static bool other_process(Ips__Reply *r)
{
    for (size_t i = 0; i < r->series->n_tops; i++)
        if (r->series->tops[i]->of_process) {
            r->series->tops[i]->process = 1u << 20;
            return true;
        }
    return false;
}

static void test_told_path__profiles(void **state)
{
    Ips__PhasesAsk phases = IPS__PHASES_ASK__INIT;
    (void)state;
    told.any = true;
    path("contract", "cpu")->n_by = 1;
    CHANGED(PROFILE, no_totals, "no answer to ProfileAsk");
    told_ask(&request, IPS__REPLY__ANSWER_PROFILE, fewer_pieces);
    assert_non_null(strstr(told.heard, ": its profile is of "));
    assert_false(told.complete);
    request.ask_case = IPS__REQUEST__ASK_PHASES;
    request.phases = &phases;
    told_ask(&request, IPS__REPLY__ANSWER_SERIES, other_bin);
    assert_non_null(strstr(told.heard, " names no phase or no process"));
    told_ask(&request, IPS__REPLY__ANSWER_SERIES, other_process);
    assert_non_null(strstr(told.heard, " names no phase or no process"));
}

/* ---- distributed computations -------------------------------------------- */

#define COMPUTED(name, is, what)                                               \
    static bool name(Ips__Reply *r)                                            \
    {                                                                          \
        if (r->cm->kind != IPS__CM_ANSWER__KIND__##is)                         \
            return false;                                                      \
        what;                                                                  \
        return true;                                                           \
    }

COMPUTED(of_another_lane, TOLD, r->cm->lane = 7)
COMPUTED(too_many_acks, TOLD, r->cm->acks = 1000)
COMPUTED(opens_twice, TOLD, r->cm->kind = IPS__CM_ANSWER__KIND__OPENED)
COMPUTED(says_nothing, TOLD, r->cm->kind = IPS__CM_ANSWER__KIND__NONE)
COMPUTED(blames_nobody, TOLD,
         (r->cm->kind = IPS__CM_ANSWER__KIND__BLAMED, r->cm->part = 2))
COMPUTED(is_over, TOLD, r->last = true)
COMPUTED(other_end, FINISHED, r->cm->end = IPS_NO_NODE)
COMPUTED(other_piece, WALKED, r->cm->kinds[0] = IPS_SEG_EXTERNAL + 1)
COMPUTED(from_nobody, WALKED, (r->cm->crosses = true, r->cm->part = 2))
COMPUTED(too_late, WALKED, r->cm->est_ns = UINT64_MAX) /* of a crossing */

static void test_told_path__computations(void **state)
{
    (void)state;
    told.any = true;
    path("cm-sync", "cpu");
    CHANGED(CM, of_another_lane, "speaks of lane 7, this is lane 1");
    CHANGED(CM, too_many_acks, "acknowledges what the root never sent");
    CHANGED(CM, opens_twice, "opens twice");
    CHANGED(CM, says_nothing, "no answer to CmAsk");
    CHANGED(CM, blames_nobody, "blames nobody");
    CHANGED(CM, is_over, "no answer to CmAsk");
    CHANGED(CM, other_end, "an end that cannot be");
    CHANGED(CM, other_piece, "its piece of the path cannot be");
    CHANGED(CM, from_nobody, "its piece of the path cannot be");
    told.all = true;
    CHANGED(CM, too_late, "a message arrives before it was sent");
    told.all = false;
}

#define CASE(name) cmocka_unit_test(test_told_path__##name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(pieces),
        CASE(graphs),
        CASE(profiles),
        CASE(computations),
    };
    return cmocka_run_group_tests(tests, questions_setup, questions_teardown);
}
