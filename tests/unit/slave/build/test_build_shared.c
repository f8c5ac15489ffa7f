/* Pipes that somebody writes or reads who is not recorded. Each case says what
 * it would catch. */
#include "rec_ends.h"

struct shared {
    struct recorder *r;
    rs w, v; /* writer, reader */
};

/* With a child that was never heard of, if there are `others`. */
static struct shared begin(bool others)
{
    struct shared s = {.r = rec_new()};
    s.w = rec_stream(s.r, 20, 20, 1);
    rec_start(s.w, IPS_START_ROOT, 1, 0);
    s.v = rec_stream(s.r, 10, 10, 1);
    rec_start(s.v, IPS_START_ROOT, 1, 0);
    rec_pipe(s.w, 1, 2, IPS_SIDE_WRITE, 77);
    rec_pipe(s.v, 1, 2, IPS_SIDE_READ, 77);
    if (others)
        rec_fork(s.w, IPS_FORK_SPAWN, 3, 4, 0, 0, 99, 1);
    return s;
}

/* Times in units of 10 us, which no call takes that did not sleep. */
#define AT(t) ((t)*10000ull)

static void sends(struct shared *s, uint64_t t)
{
    rec_io(s->w, IPS_REC_SEND, 1, AT(t), AT(t) + 100, t, t + 100, 10);
}

/* A receive that sleeps from `t` to `t_ret`, or not, if they are the same. */
static void receives(struct shared *s, uint64_t t, uint64_t t_ret)
{
    rec_io(s->v, IPS_REC_RECV, 1, AT(t), AT(t_ret) + 300, t, t + 300, 10);
}

static struct ips_built *end(struct shared *s, uint64_t t)
{
    rec_close(s->w, 1, AT(t), 5000, IPS_CLOSE_FD);
    rec_end(s->w, IPS_END_EXIT, AT(t) + 1, 5000, 0);
    rec_end(s->v, IPS_END_EXIT, AT(t) + 1, 5000, 0);
    return rec_build(s->r);
}

#define NO_SEND IPS_NONE

/* Receive i hangs on send `of[i]`, or on none. */
static void assert_sends(const struct ips_built *b, const uint32_t *of,
                         uint32_t n)
{
    uint32_t alone = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (of[i] != NO_SEND) {
            assert_arc(b, RECV(b, 10, i), SEND(b, 20, of[i]), IPS_X_DATA);
            continue;
        }
        assert_no_arc(b, RECV(b, 10, i));
        alone++;
    }
    assert_int_equal(b->counts.unmatched, alone);
}

/* Would catch: bytes of somebody else counted as those of the next send, so
 * that a receive hangs on what was sent after it; one of the others lost; a
 * send under way while the reader sleeps again put on the wrong side. */
static void test_build_shared__writer_in_turns(void **state)
{
    (void)state;
    struct shared s = begin(true);
    receives(&s, 10, 20); /* somebody else's */
    receives(&s, 21, 30);
    rec_io(s.w, IPS_REC_SEND, 1, AT(30), AT(32), 30, 130, 10);
    receives(&s, 31, 40); /* somebody else's, again */
    receives(&s, 41, 50);
    sends(&s, 50);
    receives(&s, 51, 60);
    sends(&s, 60);
    const uint32_t of[] = {NO_SEND, 0, NO_SEND, 1, 2};
    struct ips_built *b = end(&s, 70);
    assert_sends(b, of, 5);
    assert_int_equal(b->g.xlen[RECV(b, 10, 0)], 10);
    assert_int_equal(b->g.wait[RECV(b, 10, 0)], AT(10));
    rec_free(s.r);
}

/* Would catch: what somebody else took counted as read by the next receive;
 * turns before and behind that lose their arcs. */
static void test_build_shared__reader_in_turns(void **state)
{
    (void)state;
    struct shared s = begin(true);
    receives(&s, 10, 20);
    sends(&s, 20);
    sends(&s, 30); /* taken */
    receives(&s, 40, 50);
    sends(&s, 50);
    receives(&s, 51, 60);
    sends(&s, 60);
    const uint32_t of[] = {0, 2, 3};
    assert_sends(end(&s, 70), of, 3);
    rec_free(s.r);
}

/* Would catch: a guess where what lies in the pipe may be anybody's; or where a
 * receive that slept over two sends may have either. */
static void test_build_shared__nothing_is_guessed(void **state)
{
    (void)state;
    struct shared s = begin(true);
    sends(&s, 10);
    sends(&s, 12);
    for (uint64_t t = 20; t < 23; t++) /* one of them somebody else's */
        receives(&s, t, t);
    receives(&s, 30, 40);
    sends(&s, 40);
    const uint32_t none[] = {NO_SEND, NO_SEND, NO_SEND, 2};
    assert_sends(end(&s, 50), none, 4);
    rec_free(s.r);
    s = begin(true);
    receives(&s, 10, 40);
    sends(&s, 20);
    sends(&s, 40);
    receives(&s, 50, 60);
    sends(&s, 60);
    const uint32_t either[] = {NO_SEND, 2};
    assert_sends(end(&s, 70), either, 2);
    rec_free(s.r);
}

/* Would catch: positions given up where they are right, or where all is
 * recorded: a reader that stops early, a receive that was only preempted. */
static void test_build_shared__positions_stay(void **state)
{
    (void)state;
    for (int others = 0; others < 2; others++) {
        struct shared s = begin(others);
        sends(&s, 10);
        sends(&s, 12);
        receives(&s, 20, 30); /* preempted */
        receives(&s, 31, 31);
        const uint32_t of[] = {0, 1};
        assert_sends(end(&s, 50), of, 2);
        rec_free(s.r);
        s = begin(others);
        receives(&s, 5, 10);
        for (uint64_t t = 10; t < 15; t++)
            sends(&s, t);
        receives(&s, 20, 20);
        assert_sends(end(&s, 50), of, 2);
        rec_free(s.r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_shared__writer_in_turns),
        cmocka_unit_test(test_build_shared__reader_in_turns),
        cmocka_unit_test(test_build_shared__nothing_is_guessed),
        cmocka_unit_test(test_build_shared__positions_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
