/*
 * Two runs, whose threads have equal pids and tids, are ingested by one slave
 * in turns, while their writers go on, fill segments and begin new ones. After
 * every few turns it is looked at, as a question does, what is committed. Would
 * catch: a record that is archived twice, not at all, out of order or in the
 * other run; rows of streams and runs that do not count what the archive holds
 * at that moment; a turn for one run that leaves the other one behind.
 * EVIDENCE-OF: IPS-2
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include "agent/pool/pool.h"
#include "slave/drain/drain.h"
#include "tests/unit/help/pool_maker.h"

#define RUNS 2u
#define WRITERS 3u
#define FULL (MAKER_SEGMENT_BYTES - 64u)

struct writer {
    struct maker_segment segment;
    uint32_t seq;
    uint64_t image;
    uint64_t records, bytes;
};
struct look { /* at one run */
    uint64_t records[WRITERS], bytes[WRITERS];
    uint64_t stored[WRITERS], stored_bytes[WRITERS];
    uint64_t last[WRITERS]; /* + 1 */
    uint64_t events;
};

static struct maker maker;
static struct writer writer[RUNS][WRITERS];
static struct slave_drain drain;
static uint64_t seed;
static const char *const name[RUNS] = {"one", "two"};

static uint32_t pick(uint32_t n)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(seed >> 33) % n;
}

static void begin_segment(uint32_t run, uint32_t k)
{
    struct writer *w = &writer[run][k];
    maker_segment(&w->segment, &maker, name[run], maker.child,
                  (uint32_t)maker.child + k, w->seq++);
    if (!w->image)
        w->image = w->segment.head.image_stamp;
    w->segment.head.image_stamp = w->image;
    maker_put_header(&w->segment);
}

/* Marks are numbered in each stream; the last digits say whose they are. */
static void write_some(uint32_t run, uint32_t k)
{
    struct writer *w = &writer[run][k];
    for (uint32_t n = pick(400); n > 0; n--) {
        if (w->segment.at > FULL) {
            maker_state(&w->segment, IPS_SEGMENT_CLOSED);
            maker_abandon(&w->segment);
            close(w->segment.fd);
            begin_segment(run, k);
        }
        w->bytes +=
            maker_mark(&w->segment, w->records++ * 100 + run * 10 + k, 1);
    }
}

static int add_row(const struct slave_stream_row *row, void *arg)
{
    struct look *l = arg;
    uint32_t k = row->head.tid - (uint32_t)maker.child;
    assert_true(k < WRITERS);
    l->stored[k] += row->records;
    l->stored_bytes[k] += row->bytes;
    return 0;
}

static void see_frame(struct look *l, uint32_t run, const struct slave_frame *f)
{
    const uint8_t *p = (const uint8_t *)(f + 1);
    uint32_t k = WRITERS;
    uint64_t n = 0;
    for (size_t i = 0, len; i < f->bytes; i += len, n++) {
        const struct ips_rec_text *rec =
            (const struct ips_rec_text *)(const void *)(p + i);
        len = ips_rec_check_and_get_length(p + i, f->bytes - i);
        assert_true(len > 0);
        uint64_t number = strtoull(rec->text, NULL, 10);
        assert_int_equal(number / 10 % 10, run);
        if (k == WRITERS)
            k = (uint32_t)(number % 10);
        assert_int_equal(number % 10, k);
        assert_int_equal(number / 100, l->last[k]); /* none twice, none left */
        l->last[k]++;
    }
    assert_int_equal(f->records, n);
    l->records[k] += n;
    l->bytes[k] += f->bytes;
    l->events += n;
}

/* What is committed of a run: its archive, and what the database says of it. */
static uint64_t look_at(uint32_t run)
{
    struct slave_unpacked_archive map;
    struct look l = {.events = 0};
    struct ips_err err = {0};
    const struct slave_frame *f;
    size_t at = 0;
    struct slave_run *r = slave_drain_find_run(&drain, name[run]);
    if (!r || !r->row.id)
        return 0;
    if (slave_archive_unpack(r->dir, -1, r->row.archive_bytes, &map, &err) < 0)
        fail_msg("%s", err.msg);
    while ((f = slave_archive_next_frame(&map, &at)))
        see_frame(&l, run, f);
    slave_archive_free_unpacked(&map);
    assert_int_equal(
        slave_store_for_each_stream(drain.store, r->row.id, add_row, &l, &err),
        0);
    assert_int_equal(l.events, r->row.events);
    for (uint32_t k = 0; k < WRITERS; k++) {
        assert_int_equal(l.records[k], l.stored[k]);
        assert_int_equal(l.bytes[k], l.stored_bytes[k]);
        assert_true(l.records[k] <= writer[run][k].records);
    }
    return l.events;
}

static uint64_t written(uint32_t run)
{
    uint64_t n = 0;
    for (uint32_t k = 0; k < WRITERS; k++)
        n += writer[run][k].records;
    return n;
}

static void turns_until_all(void)
{
    uint64_t end = slave_now_ns() + 120 * SLAVE_SECOND_NS;
    for (uint32_t run = 0; run < RUNS; run++) {
        struct slave_run *r;
        while (!(r = slave_drain_find_run(&drain, name[run])) ||
               r->row.events < written(run)) {
            assert_true(slave_now_ns() < end);
            drain.scan_now = true;
            (void)slave_drain_turn(&drain, slave_now_ns());
            usleep(2000);
        }
    }
}

static void test_ingest_two__runs_in_turns(void **state)
{
    (void)state;
    struct ips_err err = {0};
    uint64_t partly = 0;
    maker_open(&maker);
    const struct slave_drain_options opt = {.pool = maker.pool,
                                            .state = maker.state};
    if (slave_drain_open(&drain, &opt, &err) < 0)
        fail_msg("%s", err.msg);
    for (uint32_t run = 0; run < RUNS; run++) {
        maker_run(&maker, name[run]);
        for (uint32_t k = 0; k < WRITERS; k++)
            begin_segment(run, k);
    }
    for (uint32_t n = 0; n < 150; n++) {
        for (uint32_t some = 1 + pick(4); some > 0; some--)
            write_some(pick(RUNS), pick(WRITERS));
        for (uint32_t some = pick(3); some > 0; some--)
            (void)slave_drain_turn(&drain, slave_now_ns());
        usleep(pick(3000));
        for (uint32_t run = 0; run < RUNS && n % 3 == 0; run++) {
            uint64_t seen = look_at(run);
            partly += seen > 0 && seen < written(run);
        }
        if (n % 50 == 49)
            turns_until_all();
    }
    turns_until_all();
    for (uint32_t run = 0; run < RUNS; run++) {
        assert_int_equal(look_at(run), written(run));
        assert_true(written(run) > 10000 && writer[run][0].seq > 2);
    }
    assert_true(partly > 5); /* it was looked at while it went on */
    for (uint32_t run = 0; run < RUNS; run++)
        for (uint32_t k = 0; k < WRITERS; k++)
            close(writer[run][k].segment.fd);
    slave_drain_close(&drain);
    maker_close(&maker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ingest_two__runs_in_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
