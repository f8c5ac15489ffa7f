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

/* No process is known to be unrecorded, but the clock shows that somebody wrote
 * (bytes were received before they were sent). Would catch: an arc back in
 * time, and an answer that contradicts itself, because bytes of a system call
 * that was not recorded count as those of the next send. */
static void test_build_shared__received_before_it_was_sent(void **state)
{
    (void)state;
    struct shared s = begin(false);
    receives(&s, 10, 20);
    sends(&s, 20);
    receives(&s, 21, 30); /* somebody else's */
    receives(&s, 31, 40);
    sends(&s, 40);
    receives(&s, 41, 50);
    sends(&s, 50);
    const uint32_t of[] = {0, NO_SEND, 1, 2};
    struct ips_built *b = end(&s, 60);
    assert_sends(b, of, 4);
    assert_int_equal(ips_unended_ns(b, RECV(b, 10, 0), RECV(b, 10, 1)), AT(9));
    rec_free(s.r);
}

/* Times in units of 1 ms. */
#define MS(t) ((uint64_t)(t)*1000000)

/* The bytes lie in the pipe when the reader begins to wait for 40 ms, in which
 * it queues for a core for `queued` ms. */
static struct ips_built *waits_for_bytes_that_are_there(struct shared *s,
                                                        int queued)
{
    rec_io(s->w, IPS_REC_SEND, 1, MS(10), MS(10) + 100, 10, 100, 10);
    rec_delay(s->v, MS(15), 0);
    rec_io(s->v, IPS_REC_RECV, 1, MS(20), MS(60), MS(20), MS(20) + 100, 10);
    if (queued >= 0)
        rec_delay(s->v, MS(61), MS(queued));
    rec_close(s->w, 1, MS(70), 5000, IPS_CLOSE_FD);
    rec_end(s->w, IPS_END_EXIT, MS(70), 5000, 0);
    rec_end(s->v, IPS_END_EXIT, MS(70), MS(30), 0);
    return rec_build(s->r);
}

/* Would catch: a wait that is taken as explained by a send that was over before
 * the wait began; a reader that only waited for a core called a sleeper. */
static void test_build_shared__sent_before_the_wait(void **state)
{
    (void)state;
    /* the rest of the 40 ms is too short, or nobody read the delay */
    const int explained[] = {40, 36, -1};
    for (size_t i = 0; i < 3; i++) {
        struct shared s = begin(false);
        struct ips_built *b = waits_for_bytes_that_are_there(&s, explained[i]);
        assert_arc(b, RECV(b, 10, 0), SEND(b, 20, 0), IPS_X_DATA);
        assert_int_equal(b->counts.unmatched, 0);
        assert_int_equal(b->unended_count, 0);
        rec_free(s.r);
    }
    struct shared s = begin(false);
    struct ips_built *b = waits_for_bytes_that_are_there(&s, 10);
    uint32_t v = RECV(b, 10, 0);
    assert_no_arc(b, v);
    assert_int_equal(b->counts.unmatched, 1);
    assert_int_equal(b->g.xlen[v], 10);
    assert_in_range(ips_unended_ns(b, v - 1, v), MS(29), MS(30));
    rec_free(s.r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_shared__writer_in_turns),
        cmocka_unit_test(test_build_shared__reader_in_turns),
        cmocka_unit_test(test_build_shared__nothing_is_guessed),
        cmocka_unit_test(test_build_shared__positions_stay),
        cmocka_unit_test(test_build_shared__received_before_it_was_sent),
        cmocka_unit_test(test_build_shared__sent_before_the_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
