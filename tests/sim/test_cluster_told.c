/*
 * What slaves answer is checked where it arrives: of each kind of answer one
 * that is none, one of which a list is shorter than the lists beside it, and
 * ones with a number that nothing has. The question then says of which machine
 * and what is wrong, and does without that machine. Would catch: a check that
 * is gone, turned round or off by one; a list whose length is not looked at; a
 * refusal that blames nobody, or is answered as if nothing was wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/sim/told.h"

#define TEXT(t) ips_unconst_text(t)

enum what {
    CONTRACT,
    CENTRAL,
    CM,
    WALL,
    PROFILE,
    WINDOW,
    WHATIF,
    WAITS,
    PHASES,
    MARKS,
    EVENTS,
    SQL,
    PROCEDURES,
    METRICS,
    ESTIMATE,
    REQUESTS
};

static char procedure[] = "procedure", *by[] = {procedure};

static void ask_path(Ips__Request *request, enum what what)
{
    static Ips__PathAsk path;
    ips__path_ask__init(&path);
    request->ask_case = IPS__REQUEST__ASK_PATH;
    request->path = &path;
    path.engine = TEXT(what == CENTRAL ? "central"
                       : what == CM    ? "cm-sync"
                                       : "contract");
    path.weighting = TEXT(what == WALL || what == WINDOW ? "wall" : "cpu");
    path.segments = true;
    path.by = by;
    path.n_by = what == PROFILE || what == WINDOW;
    path.to_ns = what == WINDOW ? 1000000000 : 0;
}

static void set_question(Ips__Request *request, enum what what)
{
    static Ips__WhatifAsk whatif = IPS__WHATIF_ASK__INIT;
    static Ips__WaitsAsk waits = IPS__WAITS_ASK__INIT;
    static Ips__PhasesAsk phases = IPS__PHASES_ASK__INIT;
    static Ips__RequestsAsk requests, marks = IPS__REQUESTS_ASK__INIT;
    static Ips__EventsAsk events = IPS__EVENTS_ASK__INIT;
    static Ips__SqlAsk sql = IPS__SQL_ASK__INIT;
    static Ips__ProceduresAsk procedures = IPS__PROCEDURES_ASK__INIT;
    static Ips__MetricsAsk metrics = IPS__METRICS_ASK__INIT;
    static Ips__EstimateAsk estimate = IPS__ESTIMATE_ASK__INIT;
    ips__requests_ask__init(&requests);
    marks.by = TEXT("mark");
    whatif.rank = true;
    whatif.rank_ppm = 500000;
    metrics.to_ns = 1000000000; /* of a window: the master keeps no such */
    sql.text = TEXT("SELECT * FROM threads");
#define OF(WHAT, NAME, name)                                                   \
    else if (what == WHAT) request->ask_case = IPS__REQUEST__ASK_##NAME,       \
                           request->name = &name
    if (what <= WINDOW)
        ask_path(request, what);
    OF(WHATIF, WHATIF, whatif);
    OF(WAITS, WAITS, waits);
    OF(PHASES, PHASES, phases);
    OF(EVENTS, EVENTS, events);
    OF(SQL, SQL, sql);
    OF(PROCEDURES, PROCEDURES, procedures);
    OF(METRICS, METRICS, metrics);
    OF(ESTIMATE, ESTIMATE, estimate);
    OF(REQUESTS, REQUESTS, requests);
    else request->ask_case = IPS__REQUEST__ASK_REQUESTS,
         request->requests = &marks;
}

static void ask_told(enum what what, Ips__Reply__AnswerCase of,
                     told_change *how)
{
    Ips__Request request = IPS__REQUEST__INIT;
    set_question(&request, what);
    told_ask(&request, of, how);
}

/* ---- an answer that is none ---------------------------------------------- */

static bool answer_nothing(Ips__Reply *r)
{
    ProtobufCMessage *m = (ProtobufCMessage *)r->path;
    r->path = NULL;
    r->answer_case = IPS__REPLY__ANSWER__NOT_SET;
    protobuf_c_message_free_unpacked(m, told.allocator);
    return true;
}

#define KINDS(X)                                                               \
    X(CONTRACT, SYNC, "no answer to SyncAsk")                                  \
    X(CONTRACT, TABLE, "no answer to TableAsk")                                \
    X(CONTRACT, ENDS, "no answer to EndsAsk")                                  \
    X(CONTRACT, PEERS, "no answer to PeersAsk")                                \
    X(CONTRACT, JOINS, "no joins in its answer")                               \
    X(CONTRACT, FINISH, "no answer to FinishAsk")                              \
    X(CONTRACT, EXPAND, "no answer to ExpandAsk")                              \
    X(CENTRAL, SUBGRAPH, "no subgraph in its answer")                          \
    X(CM, CM, "no answer to CmAsk")                                            \
    X(WALL, SPLIT, "no answer to SplitAsk")                                    \
    X(PROFILE, PROFILE, "no answer to ProfileAsk")                             \
    X(WHATIF, PORTIONS, "no answer to PortionsAsk")                            \
    X(WAITS, WAIT_ROWS, "no answer to WaitRowsAsk")                            \
    X(PHASES, SERIES, "no answer to SeriesAsk")                                \
    X(SQL, SQL, "no answer to SqlAsk")                                         \
    X(EVENTS, EVENTS, "no answer to EventsAsk")

static void test_told__nothing(void **state)
{
    (void)state;
#define X(what, KIND, why)                                                     \
    ask_told(what, IPS__REPLY__ANSWER_##KIND, answer_nothing);                 \
    told_check_blame(why);
    KINDS(X)
#undef X
}

/* ---- a list that is shorter than the others ------------------------------ */

/* Takes the last element of the list number told.field, of those that are not
 * empty. */
static bool shorten(Ips__Reply *r)
{
    const ProtobufCMessage *m = (const ProtobufCMessage *)r->path;
    size_t seen = 0;
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        size_t *n =
            (size_t *)(void *)((char *)(uintptr_t)m + f->quantifier_offset);
        if (f->label != PROTOBUF_C_LABEL_REPEATED ||
            f->type == PROTOBUF_C_TYPE_STRING ||
            f->type == PROTOBUF_C_TYPE_MESSAGE || *n == 0 ||
            seen++ != told.field)
            continue;
        --*n;
        snprintf(told.name, sizeof(told.name), "%s of %s", f->name,
                 m->descriptor->short_name);
        return true;
    }
    return false;
}

/* Each list of that answer in turn. */
static void shorten_each(enum what what, Ips__Reply__AnswerCase of,
                         size_t least)
{
    for (told.field = 0;; told.field++) {
        ask_told(what, of, shorten);
        if (told.struck == 0)
            break;
        if (told.complete || !strstr(told.heard, "machine m"))
            fail_msg("question %d, one less %s: \"%s\"", (int)what, told.name,
                     told.heard);
    }
    assert_true(told.field >= least);
}

static void test_told__shorter_lists(void **state)
{
    (void)state;
    shorten_each(CONTRACT, IPS__REPLY__ANSWER_EXPAND, 8);
    shorten_each(CENTRAL, IPS__REPLY__ANSWER_SUBGRAPH, 10);
    shorten_each(WINDOW, IPS__REPLY__ANSWER_PROFILE, 2);
    shorten_each(WHATIF, IPS__REPLY__ANSWER_PORTIONS, 0);
    shorten_each(WAITS, IPS__REPLY__ANSWER_WAIT_ROWS, 8);
    shorten_each(PHASES, IPS__REPLY__ANSWER_SERIES, 4);
}

/* ---- tables -------------------------------------------------------------- */

static bool change_run(Ips__Reply *r)
{
    return r->sync->state->run[0]++ != 0;
}
static bool change_process_index(Ips__Reply *r)
{
    return r->table->n_processes && (r->table->processes[0]->index = 7);
}
static bool change_chain(Ips__Reply *r)
{
    return r->table->n_threads && (r->table->threads[1]->chain = 9);
}

static uint32_t processes; /* of the table that is being changed */

static bool change_thread_process(Ips__Reply *r)
{
    processes += (uint32_t)r->table->n_processes;
    if (r->table->n_threads)
        r->table->threads[0]->process = processes;
    return r->table->n_threads > 0;
}
static bool change_channel_process(Ips__Reply *r)
{
    processes += (uint32_t)r->table->n_processes;
    if (r->table->n_channels)
        r->table->channels[0]->process = processes;
    return r->table->n_channels > 0;
}
static bool change_channel_peer(Ips__Reply *r)
{
    processes += (uint32_t)r->table->n_processes;
    if (r->table->n_channels)
        r->table->channels[0]->peer_process = processes;
    return r->table->n_channels > 0;
}

static void test_told__tables(void **state)
{
    char text[100];
    (void)state;
    ask_told(CONTRACT, IPS__REPLY__ANSWER_SYNC, change_run);
    told_check_blame("answers about another run");
    ask_told(CONTRACT, IPS__REPLY__ANSWER_TABLE, change_process_index);
    told_check_blame("process row 0 says it is 7");
    ask_told(CONTRACT, IPS__REPLY__ANSWER_TABLE, change_chain);
    told_check_blame("thread row 1 is of chain 9, process 0");
    processes = 0;
    ask_told(CONTRACT, IPS__REPLY__ANSWER_TABLE, change_thread_process);
    snprintf(text, sizeof(text), "thread row 0 is of chain 0, process %u",
             processes);
    told_check_blame(text);
    processes = 0;
    ask_told(METRICS, IPS__REPLY__ANSWER_TABLE, change_channel_process);
    told_check_blame("channel row 0 names no process");
    processes = 0;
    ask_told(METRICS, IPS__REPLY__ANSWER_TABLE, change_channel_peer);
    told_check_blame("channel row 0 names no process");
}

static bool change_end(Ips__Reply *r)
{
    return r->ends->n_ends && (r->ends->ends[0]->index = 1u << 22);
}
static bool double_end(Ips__Reply *r)
{
    if (r->ends->n_ends < 2)
        return false;
    r->ends->ends[1]->index = r->ends->ends[0]->index = 3;
    return true;
}
static bool change_generation(Ips__Reply *r)
{
    return r->ends->generation++ > 0;
}

static void test_told__ends(void **state)
{
    (void)state;
    ask_told(CONTRACT, IPS__REPLY__ANSWER_ENDS, change_end);
    told_check_error(IPS_E_PROTOCOL,
                     "end 4194304 is named twice or beyond 4194304");
    ask_told(CONTRACT, IPS__REPLY__ANSWER_ENDS, double_end);
    told_check_error(IPS_E_PROTOCOL, "end 3 is named twice or beyond 4194304");
    /* A newer graph is no fault: the question begins anew. */
    ask_told(CONTRACT, IPS__REPLY__ANSWER_ENDS, change_generation);
    assert_int_equal(told.struck, 1);
    assert_int_equal(told.code, 0);
    assert_true(told.complete);
}

/* ---- how many nodes ------------------------------------------------------ */

static uint64_t nodes_all; /* of both machines, by turns */

static bool change_nodes(Ips__Reply *r)
{
    r->sync->nodes = told.struck % 2 == 0 && nodes_all ? nodes_all - 1
                     : nodes_all                       ? 1
                                                       : 0;
    return true;
}

static void check_nodes(enum what what, const char *none)
{
    char text[200];
    told.all = true;
    nodes_all = 0;
    ask_told(what, IPS__REPLY__ANSWER_SYNC, change_nodes);
    snprintf(text, sizeof(text), "run r has recorded nothing yet: %s", none);
    told_check_error(IPS_E_INCOMPLETE, text);
    nodes_all = IPS_NO_NODE;
    ask_told(what, IPS__REPLY__ANSWER_SYNC, change_nodes);
    told_check_error(IPS_E_LIMIT,
                     "run r has more nodes than one graph may have");
    nodes_all = UINT64_MAX; /* nor does the sum wrap */
    ask_told(what, IPS__REPLY__ANSWER_SYNC, change_nodes);
    told_check_error(IPS_E_LIMIT,
                     "run r has more nodes than one graph may have");
    told.all = false;
}

static void test_told__nodes(void **state)
{
    (void)state;
    check_nodes(CONTRACT, "no path\n");
    check_nodes(ESTIMATE, "no estimate\n");
    check_nodes(WHATIF, "no path\n");
    check_nodes(WAITS, "no waits\n");
    check_nodes(REQUESTS, "no requests\n");
}

/* ---- rows ---------------------------------------------------------------- */

/* One of a list is the count of what it is a number of, or the one before is
 * greater. */
static bool change_wait_node(Ips__Reply *r)
{
    Ips__WaitRowsAnswer *a = r->wait_rows;
    if (a->n_node < 2)
        return false;
    a->node[0] = a->node[1] + 1;
    return true;
}
static uint32_t causes, places; /* of the machine, which come first */

static bool after_names(const Ips__WaitRowsAnswer *a)
{
    causes += (uint32_t)a->n_causes;
    places += (uint32_t)a->n_places;
    return a->n_node > 0;
}
static bool change_wait_cause(Ips__Reply *r)
{
    if (after_names(r->wait_rows))
        r->wait_rows->cause[0] = causes;
    return r->wait_rows->n_node > 0;
}
static bool change_wait_place(Ips__Reply *r)
{
    if (after_names(r->wait_rows))
        r->wait_rows->place[0] = places;
    return r->wait_rows->n_node > 0;
}
static bool change_wait_giver(Ips__Reply *r)
{
    if (after_names(r->wait_rows))
        r->wait_rows->giver[0] = places;
    return r->wait_rows->n_node > 0;
}

static void test_told__waits(void **state)
{
    (void)state;
    ask_told(WAITS, IPS__REPLY__ANSWER_WAIT_ROWS, change_wait_node);
    told_check_blame("wait 1 is out of order");
    causes = places = 0;
    ask_told(WAITS, IPS__REPLY__ANSWER_WAIT_ROWS, change_wait_cause);
    told_check_blame("wait 0 is out of order");
    causes = places = 0;
    ask_told(WAITS, IPS__REPLY__ANSWER_WAIT_ROWS, change_wait_place);
    told_check_blame("wait 0 is out of order");
    causes = places = 0;
    ask_told(WAITS, IPS__REPLY__ANSWER_WAIT_ROWS, change_wait_giver);
    told_check_blame("wait 0 is out of order");
}

/* ---- requests ------------------------------------------------------------ */

static struct {
    uint32_t name, first, last;
    bool shorter; /* one list than the others */
} marked;

static void *one_of(size_t size, uint64_t value)
{
    void *list = calloc(1, size);
    assert_non_null(list);
    memcpy(list, &value, size);
    return list;
}

/* One request "order" of each machine, where none was marked. */
static bool put_request(Ips__Reply *r)
{
    static const char name[] = "order";
    Ips__BracketsAnswer *a = r->brackets;
    assert_int_equal(a->n_names + a->n_name, 0);
    a->names = malloc(sizeof(*a->names));
    assert_non_null(a->names);
    a->names[0] = malloc(sizeof(name));
    assert_non_null(a->names[0]);
    memcpy(a->names[0], name, sizeof(name));
    a->name = one_of(sizeof(*a->name), marked.name);
    a->first = one_of(sizeof(*a->first), marked.first);
    a->last = one_of(sizeof(*a->last), marked.last);
    a->first_ns = one_of(sizeof(*a->first_ns), 0);
    a->last_ns = one_of(sizeof(*a->last_ns), 0);
    a->n_names = a->n_name = a->n_first = a->n_last = a->n_first_ns = 1;
    a->n_last_ns = marked.shorter ? 0 : 1;
    return true;
}

static void check_request(const char *why)
{
    char text[100];
    ask_told(MARKS, IPS__REPLY__ANSWER_BRACKETS, put_request);
    for (int m = 0; m < REAL_SLAVES; m++) {
        snprintf(text, sizeof(text), "m%d (%s)", m, why);
        if (told.code != IPS_E_INCOMPLETE || !strstr(told.heard, text))
            fail_msg("%d %s", told.code, told.heard);
    }
}

static void test_told__requests(void **state)
{
    (void)state;
    told.all = true;
    marked.name = 1;
    check_request("request 0 has no name or no node");
    marked.name = 0;
    marked.first = IPS_NO_NODE;
    check_request("request 0 has no name or no node");
    marked.first = 0;
    marked.last = IPS_NO_NODE;
    check_request("request 0 has no name or no node");
    marked.last = 1;
    marked.shorter = true;
    check_request("requests: arrays differ in length");
    marked.shorter = false;
    ask_told(MARKS, IPS__REPLY__ANSWER_BRACKETS, put_request);
    assert_int_equal(told.code, 0);
    assert_true(told.complete && told.struck == REAL_SLAVES);
    ask_told(MARKS, IPS__REPLY__ANSWER_BRACKETS, answer_nothing);
    assert_non_null(strstr(told.heard, "m0 (no answer to BracketsAsk)"));
    told.all = false;
}

/* ---- SQL ----------------------------------------------------------------- */

static bool rename_column(Ips__Reply *r)
{
    return r->sql->n_columns && r->sql->columns[1][0]++;
}
static bool drop_value(Ips__Reply *r)
{
    if (!r->sql->n_rows)
        return false;
    Ips__SqlRow *row = r->sql->rows[0];
    protobuf_c_message_free_unpacked(&row->values[--row->n_values]->base,
                                     told.allocator);
    return true;
}
static bool set_text(char **text)
{
    static const char is[] = "as the test wants it";
    char *own = malloc(sizeof(is));
    assert_non_null(own);
    memcpy(own, is, sizeof(is));
    *text = own; /* in the place of "" */
    return true;
}
static bool refuse_sql(Ips__Reply *r)
{
    return !*r->sql->error && set_text(&r->sql->error);
}
static bool cut_sql(Ips__Reply *r)
{
    return r->last && !*r->sql->cut && set_text(&r->sql->cut);
}

static void test_told__sql(void **state)
{
    (void)state;
    ask_told(SQL, IPS__REPLY__ANSWER_SQL, rename_column);
    told_check_error(
        IPS_E_PROTOCOL,
        "machines answer with different columns: do their slaves have "
        "the same version?\n");
    ask_told(SQL, IPS__REPLY__ANSWER_SQL, refuse_sql);
    told_check_error(IPS_E_USAGE, "as the test wants it\n");
    ask_told(SQL, IPS__REPLY__ANSWER_SQL, drop_value);
    assert_non_null(strstr(told.heard, ": a row has "));
    assert_false(told.complete);
    ask_told(SQL, IPS__REPLY__ANSWER_SQL, cut_sql);
    told_check_blame("rows are missing: as the test wants it");
    assert_int_equal(told.code, 0);
}

#define CASE(name) cmocka_unit_test(test_told__##name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(nothing), CASE(shorter_lists), CASE(tables),   CASE(ends),
        CASE(nodes),   CASE(waits),         CASE(requests), CASE(sql),
    };
    return cmocka_run_group_tests(tests, questions_setup, questions_teardown);
}
