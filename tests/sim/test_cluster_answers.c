/*
 * Answers that the master keeps (master/query/answer_cache.h). Catches: a kept
 * answer that is not what the computed one said; one given although the run has
 * more events, is open, a machine is not connected or message times are others;
 * one never given, so that every question asks the slaves again; memory that
 * grows with every question; a client that waits for what nobody asked for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "master/query/answer_cache.h"
#include "tests/support/fake_slave.h"
#include "tests/support/random_graph.h"

struct fixture {
    struct cluster c;
    struct rg r;
};

static const char *const machines[] = {"m1", "m2", "m3"};

static void begin(struct fixture *f)
{
    const struct rg_options o = {
        .seed = 5, .machines = 3, .chains = 6, .steps = 400, .weight_max = 9};
    memset(f, 0, sizeof(*f));
    rg_make(&o, &f->r);
    cluster_start(&f->c);
    f->c.keeps = true;
    for (uint32_t m = 0; m < 3; m++)
        cluster_add(&f->c, machines[m], "r", &f->r.part[m], f->r.peer[m],
                    f->r.end_count[m]);
    cluster_settle(&f->c);
}

static void end(struct fixture *f)
{
    cluster_stop(&f->c);
    rg_release(&f->r);
}

/* Asks for the path; true: no slave was asked. The sums are in `out`. */
static bool kept(struct fixture *f, const char *engine, uint64_t top,
                 struct answer *out)
{
    Ips__Lane lane = IPS__LANE__INIT;
    Ips__PathAsk ask = IPS__PATH_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    lane.calibrated = true;
    lane.scale_num = lane.scale_den = 1;
    ask.engine = ips_unconst_text(engine);
    ask.lane = &lane;
    ask.segments = true;
    ask.top = top;
    request.run = ips_unconst_text("r");
    request.ask_case = IPS__REQUEST__ASK_PATH;
    request.path = &ask;
    uint32_t asks = 0;
    for (uint32_t m = 0; m < 3; m++)
        asks += f->c.slave[m].asks;
    cluster_ask(&f->c, &request, out);
    assert_int_equal(answer_last(out)->error, 0);
    for (uint32_t m = 0; m < 3; m++)
        asks -= f->c.slave[m].asks;
    return asks == 0;
}

struct known {
    uint64_t events;
    bool open;
};

static void on_row(const struct catalogue_row *row, void *arg)
{
    struct known *k = arg;
    k->events += row->events;
    k->open = k->open || row->open;
}

/* The slave tells what it has now, and the master has heard it. */
static void report(struct fixture *f, struct fake_slave *s)
{
    struct known k;
    struct ips_err err = {0};
    uint64_t events = 0;
    for (uint32_t m = 0; m < 3; m++)
        events += f->r.part[m].node_count + f->c.slave[m].more_events;
    fake_slave_report(s);
    do {
        cluster_turn(&f->c, 1);
        k = (struct known){0};
        assert_int_equal(catalogue_for_each_row(f->c.master.catalogue, "r",
                                                on_row, &k, &err),
                         0);
    } while (k.events != events || k.open != s->open);
}

static bool kept_again(struct fixture *f)
{
    struct answer got;
    bool was = kept(f, "contract", 0, &got);
    answer_release(&got);
    return was;
}

/* All but how it came about is the same. */
static void test_same_answer(void **state)
{
    struct fixture f;
    struct answer first, second;
    (void)state;
    begin(&f);
    assert_false(kept(&f, "contract", 0, &first));
    assert_true(kept(&f, "contract", 0, &second));
    assert_int_equal(first.count, second.count);
    for (uint32_t i = 0; i < first.count; i++) {
        Ips__Reply *a = first.env[i]->reply, *b = second.env[i]->reply;
        if (a->path->certificate) {
            assert_non_null(strstr(b->path->certificate->plan, "kept"));
            assert_null(strstr(a->path->certificate->plan, "kept"));
            free(b->path->certificate->plan);
            b->path->certificate->plan = strdup(a->path->certificate->plan);
            b->path->certificate->took_ns = a->path->certificate->took_ns;
        }
        b->id = a->id;
        size_t len = ips__reply__get_packed_size(a);
        assert_int_equal(len, ips__reply__get_packed_size(b));
        uint8_t *x = malloc(2 * len + 1);
        assert_non_null(x);
        ips__reply__pack(a, x);
        ips__reply__pack(b, x + len);
        assert_memory_equal(x, x + len, len);
        free(x);
    }
    answer_release(&first);
    answer_release(&second);
    /* Another question is another answer. */
    assert_false(kept(&f, "central", 0, &first));
    answer_release(&first);
    assert_int_equal(answer_cache_count(&f.c.master), 2);
    f.c.keeps = false; /* fresh */
    assert_false(kept_again(&f));
    assert_int_equal(answer_cache_count(&f.c.master), 2);
    f.c.keeps = true;
    assert_true(kept_again(&f));
    end(&f);
}

static void test_not_kept(void **state)
{
    struct fixture f;
    (void)state;
    begin(&f);
    struct fake_slave *s = &f.c.slave[1];
    assert_false(kept_again(&f));
    assert_true(kept_again(&f));
    /* The run has more than it had. */
    s->more_events = 7;
    report(&f, s);
    assert_false(kept_again(&f));
    assert_true(kept_again(&f));
    /* It goes on: neither given nor kept. */
    s->open = true;
    report(&f, s);
    assert_false(kept_again(&f));
    assert_false(kept_again(&f));
    s->open = false;
    report(&f, s);
    (void)kept_again(&f);
    assert_true(kept_again(&f));
    /* A machine is away: the answer has to say so, and is not kept. */
    cluster_disconnect(s);
    while (roster_find(&f.c.master.roster, "m2")->peer)
        cluster_turn(&f.c, 1);
    assert_false(kept_again(&f));
    assert_false(kept_again(&f));
    cluster_connect(s);
    cluster_settle(&f.c);
    assert_true(kept_again(&f));
    end(&f);
}

static void test_other_message_times(void **state)
{
    struct fixture f;
    struct ips_err err = {0};
    (void)state;
    begin(&f);
    assert_false(kept_again(&f));
    assert_true(kept_again(&f));
    struct message_time_pair pair = {.over = MTIME_TCP, .count = 1};
    snprintf(pair.from, sizeof(pair.from), "m1");
    snprintf(pair.to, sizeof(pair.to), "m2");
    snprintf(pair.measured, sizeof(pair.measured), "today");
    pair.point[0] = (struct message_time_point){.bytes = 1, .ns = 5000};
    assert_int_equal(message_times_insert_or_replace_pair(
                         &f.c.master.message_times, &pair, &err),
                     0);
    assert_int_equal(message_times_save(&f.c.master.message_times, &err), 0);
    assert_false(kept_again(&f));
    assert_true(kept_again(&f));
    end(&f);
}

/* Only so many of the segments, the longest, in their order. */
static void test_top(void **state)
{
    struct fixture f;
    struct answer all, few;
    (void)state;
    begin(&f);
    (void)kept(&f, "contract", 0, &all);
    uint64_t count = answer_last(&all)->path->segment_count, taken = 0;
    assert_true(count > 5);
    for (uint64_t top = 1; top <= count + 1; top += top < 4 ? 1 : count / 4) {
        assert_false(kept(&f, "contract", top, &few));
        assert_int_equal(answer_last(&few)->path->segment_count, count);
        uint64_t least = UINT64_MAX, got = 0, more = 0;
        for (uint32_t i = 0; i < few.count; i++) {
            const Ips__PathAnswer *a = few.env[i]->reply->path;
            for (size_t k = 0; k < a->n_segments; k++, got++) {
                least = a->segments[k]->ns < least ? a->segments[k]->ns : least;
            }
        }
        assert_int_equal(got, top < count ? top : count);
        for (uint32_t i = 0; i < all.count; i++) {
            const Ips__PathAnswer *a = all.env[i]->reply->path;
            for (size_t k = 0; k < a->n_segments; k++)
                more += a->segments[k]->ns > least;
        }
        assert_true(more < got || got == count);
        taken += got;
        answer_release(&few);
    }
    assert_true(taken > count);
    answer_release(&all);
    end(&f);
}

/* A question whose words alone take so many bytes. */
static bool kept_large(struct fixture *f, uint64_t top, size_t bytes)
{
    static char word[] = "machine";
    Ips__Lane lane = IPS__LANE__INIT;
    Ips__PathAsk ask = IPS__PATH_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    struct answer got;
    uint32_t asks = f->c.slave[0].asks;
    size_t n = bytes / (sizeof(word) + 2); /* and three bytes before it */
    char **by = calloc(n + 1, sizeof(*by));
    assert_non_null(by);
    for (size_t i = 0; i < n; i++)
        by[i] = word;
    lane.calibrated = true;
    lane.scale_num = lane.scale_den = 1;
    ask.engine = ips_unconst_text("contract");
    ask.lane = &lane;
    ask.top = top;
    ask.n_by = n;
    ask.by = by;
    request.run = ips_unconst_text("r");
    request.ask_case = IPS__REQUEST__ASK_PATH;
    request.path = &ask;
    cluster_ask(&f->c, &request, &got);
    assert_int_equal(answer_last(&got)->error, 0);
    answer_release(&got);
    free(by);
    return asks == f->c.slave[0].asks;
}

#define LARGE 1800000u
#define FIT (ANSWERS_BYTES_MOST / LARGE)

/* The one used least recently goes, and none but it; what is too large by
 * itself is not kept and pushes nothing out. */
static void test_make_room(void **state)
{
    struct fixture f;
    (void)state;
    begin(&f);
    assert_false(kept_again(&f));
    for (uint64_t top = 1; top <= FIT; top++)
        assert_false(kept_large(&f, top, LARGE));
    assert_int_equal(answer_cache_count(&f.c.master), FIT + 1);
    assert_true(kept_again(&f));           /* used: it is not the oldest now */
    assert_true(kept_large(&f, 1, LARGE)); /* nor is the first of these */
    assert_false(kept_large(&f, FIT + 1, LARGE));
    assert_int_equal(answer_cache_count(&f.c.master), FIT + 1);
    assert_true(kept_again(&f));
    assert_true(kept_large(&f, 1, LARGE));
    assert_true(kept_large(&f, FIT + 1, LARGE));
    assert_false(kept_large(&f, 100, ANSWER_BYTES_MOST));
    assert_false(kept_large(&f, 100, ANSWER_BYTES_MOST));
    assert_int_equal(answer_cache_count(&f.c.master), FIT + 1);
    assert_false(kept_large(&f, 2, LARGE)); /* it had gone */
    for (uint64_t top = 3; top <= FIT + 1; top++)
        (void)kept_large(&f, top, LARGE);
    assert_false(kept_again(&f)); /* now it was the oldest */
    end(&f);
}

static bool ahead_goes_on(const struct fixture *f)
{
    for (const struct query *q = f->c.master.queries; q; q = q->next) {
        if (!q->client && !q->over)
            return true;
    }
    return false;
}

/* The question put ahead has asked, and a slave does not answer it: a client
 * with another question does not wait, and nothing is kept of the first. */
static void test_gives_way(void **state)
{
    struct fixture f;
    struct fake_slave *s;
    (void)state;
    begin(&f);
    s = &f.c.slave[1];
    s->fault = FAULT_SILENT;
    s->fault_at = s->asks + 1;
    answer_cache_start_path_precomputation(&f.c.master, "r");
    while (s->asks < s->fault_at)
        cluster_turn(&f.c, 1);
    assert_true(ahead_goes_on(&f));
    s->fault = FAULT_NONE;
    assert_false(kept_again(&f));
    assert_false(ahead_goes_on(&f));
    assert_int_equal(answer_cache_count(&f.c.master), 1);
    assert_true(kept_again(&f));
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_answer),
        cmocka_unit_test(test_not_kept),
        cmocka_unit_test(test_other_message_times),
        cmocka_unit_test(test_top),
        cmocka_unit_test(test_make_room),
        cmocka_unit_test(test_gives_way),
    };
    return cmocka_run_group_tests_name("test_cluster_answers", tests, NULL,
                                       NULL);
}
