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

#include "tests/sim/real_questions.h"

#define TEXT(t) ips_unconst_text(t)

/* Changes a reply that a slave sent; false: there is nothing to change in it.
 */
typedef bool change(Ips__Reply *r);

static struct {
    change *change;
    Ips__Reply__AnswerCase of;
    bool all;        /* not only the first one */
    unsigned struck; /* replies that were changed */
    uint64_t ask;    /* they answer this: of one machine, unless `all` */
    uint64_t own_id; /* the client's question */
    size_t field;    /* that shorten() makes shorter */
    char name[80];   /* of it */
    ProtobufCAllocator *allocator;
    char heard[2000]; /* error or gaps */
    int code;
    bool complete;
} told;

/* ---- listening ----------------------------------------------------------- */

static const void *field_of(const ProtobufCMessage *m, const char *name)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(m->descriptor, name);
    return f ? (const char *)m + f->offset : NULL;
}

/* What the client is told. */
static void hear(const Ips__Reply *r)
{
    size_t at = strlen(told.heard);
    if (r->error) {
        told.code = r->error;
        snprintf(told.heard + at, sizeof(told.heard) - at, "%s\n", r->message);
    }
    if (r->error || r->answer_case == IPS__REPLY__ANSWER__NOT_SET)
        return;
    /* All answers are in one place. */
    const Ips__Certificate *const *has =
        field_of((const ProtobufCMessage *)r->path, "certificate");
    const Ips__Certificate *c = has ? *has : NULL;
    told.complete = c && c->complete;
    for (size_t i = 0; c && i < c->n_gaps; i++) {
        at = strlen(told.heard);
        snprintf(told.heard + at, sizeof(told.heard) - at, "%s\n", c->gaps[i]);
    }
}

static bool may_change(uint64_t id)
{
    if (told.ask == 0)
        told.ask = id;
    return told.all || (told.struck == 0 && told.ask == id);
}

Ips__Envelope *__real_ips__envelope__unpack(ProtobufCAllocator *allocator,
                                            size_t len, const uint8_t *data);
Ips__Envelope *__wrap_ips__envelope__unpack(ProtobufCAllocator *allocator,
                                            size_t len, const uint8_t *data);
Ips__Envelope *__wrap_ips__envelope__unpack(ProtobufCAllocator *allocator,
                                            size_t len, const uint8_t *data)
{
    Ips__Envelope *e = __real_ips__envelope__unpack(allocator, len, data);
    if (!e || e->body_case != IPS__ENVELOPE__BODY_REPLY)
        return e;
    told.allocator = allocator;
    if (e->reply->id == told.own_id)
        hear(e->reply);
    else if (told.change && e->reply->answer_case == told.of &&
             !e->reply->error && may_change(e->reply->id))
        told.struck += told.change(e->reply);
    return e;
}

/* ---- asking -------------------------------------------------------------- */

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

/* Asks while replies of that kind are changed. */
static void ask_told(enum what what, Ips__Reply__AnswerCase of, change *how)
{
    struct real_answer got;
    Ips__Request request = IPS__REQUEST__INIT;
    set_question(&request, what);
    request.run = TEXT("r");
    real_settle(&real);
    told.heard[0] = '\0';
    told.struck = 0;
    told.ask = 0;
    told.code = 0;
    told.complete = false;
    told.of = of;
    real_begin(&real, real.c.master.address, &request, &got);
    told.own_id = request.id;
    told.change = how;
    real_wait(&real, &got);
    told.change = NULL;
    assert_false(got.closed);
    free(got.data);
}

/* The answer names a machine and that reason. */
static void check_blame(const char *why, enum what what)
{
    char text[300];
    if (told.struck == 0)
        fail_msg("question %d: no reply with \"%s\"", (int)what, why);
    for (int m = 0; m < REAL_SLAVES; m++) {
        snprintf(text, sizeof(text), "machine m%d: %s\n", m, why);
        if (strstr(told.heard, text) && !told.complete)
            return;
    }
    fail_msg("question %d: \"%s\" in place of \"%s\"", (int)what, told.heard,
             why);
}

/* The error is that, whichever machine it comes from. */
static void check_error(int code, const char *text)
{
    if (told.struck == 0 || told.code != code ||
        strncmp(told.heard, text, strlen(text)) != 0)
        fail_msg("%u changed: %d, \"%s\" in place of \"%s\"", told.struck,
                 told.code, told.heard, text);
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
    check_blame(why, what);
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
    check_blame("answers about another run", CONTRACT);
    ask_told(CONTRACT, IPS__REPLY__ANSWER_TABLE, change_process_index);
    check_blame("process row 0 says it is 7", CONTRACT);
    ask_told(CONTRACT, IPS__REPLY__ANSWER_TABLE, change_chain);
    check_blame("thread row 1 is of chain 9, process 0", CONTRACT);
    processes = 0;
    ask_told(CONTRACT, IPS__REPLY__ANSWER_TABLE, change_thread_process);
    snprintf(text, sizeof(text), "thread row 0 is of chain 0, process %u",
             processes);
    check_blame(text, CONTRACT);
    processes = 0;
    ask_told(METRICS, IPS__REPLY__ANSWER_TABLE, change_channel_process);
    check_blame("channel row 0 names no process", METRICS);
    processes = 0;
    ask_told(METRICS, IPS__REPLY__ANSWER_TABLE, change_channel_peer);
    check_blame("channel row 0 names no process", METRICS);
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
    check_error(IPS_E_PROTOCOL, "end 4194304 is named twice or beyond 4194304");
    ask_told(CONTRACT, IPS__REPLY__ANSWER_ENDS, double_end);
    check_error(IPS_E_PROTOCOL, "end 3 is named twice or beyond 4194304");
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
    check_error(IPS_E_INCOMPLETE, text);
    nodes_all = IPS_NO_NODE;
    ask_told(what, IPS__REPLY__ANSWER_SYNC, change_nodes);
    check_error(IPS_E_LIMIT, "run r has more nodes than one graph may have");
    nodes_all = UINT64_MAX; /* nor does the sum wrap */
    ask_told(what, IPS__REPLY__ANSWER_SYNC, change_nodes);
    check_error(IPS_E_LIMIT, "run r has more nodes than one graph may have");
    told.all = false;
}

static void test_told__nodes(void **state)
{
    (void)state;
    check_nodes(CONTRACT, "no path\n");
    check_nodes(ESTIMATE, "nothing to estimate\n");
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
    check_blame("wait 1 is out of order", WAITS);
    causes = places = 0;
    ask_told(WAITS, IPS__REPLY__ANSWER_WAIT_ROWS, change_wait_cause);
    check_blame("wait 0 is out of order", WAITS);
    causes = places = 0;
    ask_told(WAITS, IPS__REPLY__ANSWER_WAIT_ROWS, change_wait_place);
    check_blame("wait 0 is out of order", WAITS);
    causes = places = 0;
    ask_told(WAITS, IPS__REPLY__ANSWER_WAIT_ROWS, change_wait_giver);
    check_blame("wait 0 is out of order", WAITS);
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
    check_error(IPS_E_PROTOCOL,
                "machines answer with different columns: do their slaves have "
                "the same version?\n");
    ask_told(SQL, IPS__REPLY__ANSWER_SQL, refuse_sql);
    check_error(IPS_E_USAGE, "as the test wants it\n");
    ask_told(SQL, IPS__REPLY__ANSWER_SQL, drop_value);
    assert_non_null(strstr(told.heard, ": a row has "));
    assert_false(told.complete);
    ask_told(SQL, IPS__REPLY__ANSWER_SQL, cut_sql);
    check_blame("rows are missing: as the test wants it", SQL);
    assert_int_equal(told.code, 0);
}

#define CASE(name) cmocka_unit_test(test_told__##name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(nothing), CASE(shorter_lists), CASE(tables), CASE(ends),
        CASE(nodes),   CASE(waits),         CASE(sql),
    };
    return cmocka_run_group_tests(tests, questions_setup, questions_teardown);
}
