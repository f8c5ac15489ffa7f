/*
 * The archive of a run is packed again when the run has come to rest, and the
 * run speaks once more meanwhile. Would catch: an archive of small blocks that
 * is kept as it is, since the attempt that was too early counts as one in vain.
 * EVIDENCE-OF: IPS-2
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include "slave/drain/drain.h"
#include "tests/unit/help/pool_maker.h"

#define RUN "again"
#define TEXT_BYTES 400u
#define MARKS 500u /* a block each; more bytes than one step packs again */

static struct maker maker;
static uint64_t seed = 1;

/* A mark whose text does not become shorter by packing. */
static void noise(struct maker_segment *s)
{
    union {
        struct ips_rec_text rec;
        char bytes[sizeof(struct ips_rec_text) + TEXT_BYTES];
    } r = {.bytes = {0}};
    for (size_t i = sizeof(r.rec); i < sizeof(r) - 1; i++) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        r.bytes[i] = (char)(33 + (seed >> 33) % 94);
    }
    r.rec.h.a = TEXT_BYTES - 1;
    r.rec.h.t = maker_raw_ns();
    r.rec.h.word = IPS_REC_MARK | (uint32_t)sizeof(r) / 8 << 8;
    maker_raw(s, &r, sizeof(r));
}

/* One mark in a segment of its own, by a process that is still there. */
static void speak(struct slave_drain *d, uint32_t tid)
{
    struct maker_segment s;
    maker_segment(&s, &maker, RUN, maker.child, tid, 0);
    noise(&s);
    maker_state(&s, IPS_SEGMENT_CLOSED);
    close(s.fd);
    d->scan_now = true;
}

static struct slave_run *turn(struct slave_drain *d)
{
    (void)slave_drain_turn(d, slave_now_ns());
    usleep(1000);
    return slave_drain_find_run(d, RUN);
}

static void test_ingest_repack__grows_meanwhile(void **state)
{
    (void)state;
    struct slave_drain d;
    struct ips_err err = {0};
    struct slave_run *r = NULL;
    maker_open(&maker);
    const struct slave_drain_options opt = {.pool = maker.pool,
                                            .state = maker.state};
    if (slave_drain_open(&d, &opt, &err) < 0)
        fail_msg("%s", err.msg);
    maker_run(&maker, RUN);
    for (uint32_t n = 0; n < MARKS; n++) {
        speak(&d, 1 + n);
        while (!(r = turn(&d)) || r->row.events <= n)
            ;
    }
    uint64_t small = r->row.archive_bytes;
    maker_kill(&maker.child);
    while (!(r = turn(&d))->repack)
        assert_false(r->row.closed);
    maker.child = maker_process();
    speak(&d, MARKS + 1);
    while ((r = turn(&d))->row.events <= MARKS)
        ;
    assert_true(r->row.archive_bytes > small);
    maker_kill(&maker.child);
    while (!(r = turn(&d))->row.closed)
        ;
    assert_int_equal(r->row.events, MARKS + 1);
    assert_true(r->row.archive_bytes < small - small / 20);
    slave_drain_close(&d);
    maker_close(&maker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ingest_repack__grows_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
