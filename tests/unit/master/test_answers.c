/*
 * A slave's answers do not depend on what it was asked before. Some runs are
 * asked about in any order, with refused and impossible questions in between,
 * while their graphs come from records, from memory and from files, and are
 * dropped because there are too many of them, or too little memory. Each answer
 * must be, byte for byte, that of a slave that was just started.
 *
 * Would catch: a refused question that changes what comes after it, or that is
 * answered as if it were none; a graph from a file that is another one; an
 * answer about a graph that is gone; a graph that is dropped while a question
 * needs it, or never.
 */
#include <sys/syscall.h>
#include <time.h>

#include "ask_help.h"

#define RUNS 11u /* more than SLAVE_GRAPHS_MAX */
/* The clock that graphs are kept by. */
static uint64_t later_ns;
int clock_gettime(clockid_t id, struct timespec *t);
int clock_gettime(clockid_t id, struct timespec *t)
{
    int rc = (int)syscall(SYS_clock_gettime, id, t);
    if (rc == 0 && id == CLOCK_MONOTONIC)
        t->tv_sec += (time_t)(later_ns / 1000000000u);
    return rc;
}
/* The code that it is refused with. */
static int make_bad(struct ask *k, const struct run *r, enum what what,
                    uint32_t which)
{
    static const enum what with_generation[] = {
        REDUCE,   FINISH, EXPAND, SUBGRAPH, SPLIT,
        PORTIONS, SERIES, WAITS,  PROFILE,  PROCEDURES};
    if (what == STALE) {
        make_good(k, r, with_generation[which % 10]);
        return IPS_E_BUSY;
    }
    if (what == EMPTY_WINDOW) {
        make_good(k, r, WINDOW);
        k->table.from_ns = k->table.to_ns;
    } else if (what == NO_END) {
        TAKE(peers, PEERS);
        ips__peer__init(&k->peer[0]);
        k->peer_at[0] = &k->peer[0];
        k->peer[0].end = 100000;
        k->peers.peers = k->peer_at;
        k->peers.n_peers = 1;
    } else if (what == NO_VALUES) {
        make_good(k, r, FINISH);
        k->finish.value_count = 3;
    } else if (what == NO_NODE) {
        make_good(k, r, EXPAND);
        k->to[0] = r->nodes;
    } else if (what == NO_ARC) {
        make_good(k, r, SPLIT);
        k->to[0] = r->nodes;
    } else if (what == NO_PIECE) {
        make_good(k, r, PROFILE);
        k->from[0] = r->nodes - 1;
        k->to[0] = 1;
    } else if (what == NO_BINS) {
        make_good(k, r, SERIES);
        k->edge[1] = k->edge[2];
    } else if (what == NO_TIME) {
        make_good(k, r, PROCEDURES);
        k->procedures.from_ns = k->procedures.to_ns = 7;
    } else {
        make_good(k, r, SQL);
        snprintf(k->text, sizeof(k->text), "SELECT x FROM nowhere");
        return 0;
    }
    return IPS_E_PROTOCOL;
}

/* ---- asking ---- */

/* Asked as the master does: again from the start, where the graph is gone. */
static unsigned good(struct answerer *a, struct run *r, enum what what,
                     struct answer_text *t)
{
    unsigned again = 0;
    for (;;) {
        struct ask k;
        if (!r->known)
            get_known(a, r);
        t->len = 0;
        int error = 0;
        if (what == EXPAND) { /* of what the last FINISH found */
            begin_ask(&k);
            make_good(&k, r, FINISH);
            set_generation(&k, r->generation);
            error = put_ask(a, r, &k, NULL);
        }
        begin_ask(&k);
        make_good(&k, r, what);
        set_generation(&k, r->generation);
        error = error ? error : put_ask(a, r, &k, t);
        if (!error)
            return again;
        if (error != IPS_E_BUSY || again++)
            fail_msg("question %d: error %d: %s", what, error, t->v);
        r->known = false;
    }
}

static void bad(struct answerer *a, struct run *r, enum what what,
                uint32_t which)
{
    struct answer_text *t = calloc(1, sizeof(*t));
    struct ask k;
    assert_non_null(t);
    if (!r->known)
        get_known(a, r);
    begin_ask(&k);
    int want = make_bad(&k, r, what, which);
    set_generation(&k, r->generation + (what == STALE ? 1000000 : 0));
    int error = put_ask(a, r, &k, t);
    if (error != want && error != IPS_E_BUSY)
        fail_msg("question %d (%u): error %d, not %d", what, which, error,
                 want);
    if (what == NO_SQL)
        if (!strstr(t->v, "nowhere"))
            fail_msg("error %d: %s", error, t->v);
    free(t);
    if (error == IPS_E_BUSY && what != STALE)
        r->known = false;
}

/* ---- runs ---- */

struct scene {
    struct answerer a;
    struct run run[RUNS];
    struct recorder *r[RUNS];
    char *want[RUNS][GOOD];
    struct answer_text text;
};

static struct scene *begin_scene(void)
{
    struct scene *s = calloc(1, sizeof(*s));
    struct world *w = malloc(sizeof(*w));
    struct answerer fresh;
    char name[16];
    assert_true(s && w);
    answerer_open(&s->a);
    for (uint32_t i = 0; i < RUNS; i++) {
        struct run alone = {.known = false};
        s->r[i] = make_run(w, 100 + i);
        snprintf(name, sizeof(name), "run%u", i);
        answerer_open(&fresh);
        archived_make(&alone.v, &fresh, s->r[i], name);
        for (int k = 0; k < GOOD; k++) {
            (void)good(&fresh, &alone, (enum what)k, &s->text);
            if (s->text.len <= 20) /* it says nothing */
                fail_msg("question %d: %s", k, s->text.v);
            s->want[i][k] = strdup(s->text.v);
        }
        answerer_close(&fresh);
        archived_make(&s->run[i].v, &s->a, s->r[i], name);
    }
    free(w);
    return s;
}

static void end_scene(struct scene *s)
{
    answerer_close(&s->a);
    for (uint32_t i = 0; i < RUNS; i++) {
        rec_free(s->r[i]);
        for (int k = 0; k < GOOD; k++)
            free(s->want[i][k]);
    }
    free(s);
}

static unsigned check_good(struct scene *s, uint32_t run, enum what what)
{
    unsigned again = good(&s->a, &s->run[run], what, &s->text);
    if (strcmp(s->text.v, s->want[run][what]) != 0)
        fail_msg("run %u, question %d:\n%.500s\nbut alone\n%.500s", run, what,
                 s->text.v, s->want[run][what]);
    return again;
}

/* Questions in any order, refused ones among them. */
static void test_answers__any_order(void **state)
{
    (void)state;
    struct scene *s = begin_scene();
    uint64_t seed = 1, builds = 0;
    unsigned gone = 0, refused = 0;
    for (uint32_t n = 0; n < 900; n++) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        uint32_t x = (uint32_t)(seed >> 33), run = x / 64 % RUNS;
        if (n < 300) /* few runs: nothing is dropped */
            run %= 3;
        if (x % 3 == 0) {
            bad(&s->a, &s->run[run],
                (enum what)(GOOD + x / 1024 % (ALL - GOOD)), x / 65536);
            refused++;
        } else {
            gone += check_good(s, run, (enum what)(x / 1024 % GOOD));
        }
        if (n == 299)
            builds = s->a.gs.builds;
        later_ns += n > 300 ? 1000000000u : 0;
    }
    assert_true(refused > 200 && gone > 20);
    /* Of closed runs whose peers are known: three and the others, once each. */
    assert_int_equal(builds, 3);
    assert_int_equal(s->a.gs.builds, RUNS);
    end_scene(s);
}

static bool is_here(struct scene *s, uint32_t run)
{
    struct slave_graph *g;
    if (slave_graphs_acquire_by_generation(
            &s->a.gs, s->run[run].v.name, s->run[run].generation, &g, NULL) < 0)
        return false;
    g->refs--; /* as it was, but used last */
    return true;
}

/* Too little memory for any: the three used last stay for 20 s, and only then,
 * and what a question has in its hands stays as long as it has it. */
static void test_answers__little_memory(void **state)
{
    (void)state;
    struct scene *s = begin_scene();
    struct slave_graph *mine;
    ips_large_set_limit_and_file_directory(4u << 20, s->a.top);
    void *in_memory = ips_calloc_large(3, 1u << 20);
    void *in_file = ips_calloc_large(3, 1u << 20);
    assert_true(ips_large_get_use().memory && ips_large_get_use().files);
    later_ns += 100 * 1000000000ull;
    for (uint32_t i = 0; i < 4; i++)
        (void)check_good(s, i, SYNC);
    assert_false(is_here(s, 0));
    for (uint32_t i = 1; i < 4; i++)
        assert_true(is_here(s, i));
    assert_int_equal(slave_graphs_acquire_by_generation(
                         &s->a.gs, "run1", s->run[1].generation, &mine, NULL),
                     0);
    later_ns += 21 * 1000000000ull;
    (void)check_good(s, 4, SYNC);
    assert_false(is_here(s, 2) || is_here(s, 3)); /* run 3 is the third */
    (void)check_good(s, 5, SYNC);
    assert_true(is_here(s, 1) && is_here(s, 4) && is_here(s, 5));
    slave_graphs_release_graph_and_evict(&s->a.gs, mine);
    for (uint32_t n = 0; n < 100; n++)
        (void)check_good(s, n % 7, (enum what)(n % GOOD));
    ips_free_large(in_memory);
    ips_free_large(in_file);
    ips_large_set_limit_and_file_directory(UINT64_MAX, s->a.top);
    end_scene(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers__any_order),
        cmocka_unit_test(test_answers__little_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
