/* Sends of an end by the thousand, and receives that take them. Each case says
 * what it would catch. */
#include "recorder.h"

#define SENDS 5000u
#define READ_BYTES 3u
#define LAST_NS (20000000000u + 1000000u)

static rs process(struct recorder *r, uint32_t pid)
{
    rs s = rec_stream(r, pid, pid, pid * 100);
    rec_start(s, IPS_START_IMAGE, 1, 0);
    return s;
}

/* Send k, of those that two threads made by turns. */
static uint64_t bytes_of(uint32_t k)
{
    return 1 + k % 7;
}
static uint32_t node_of(const uint32_t first[2], uint32_t k)
{
    return first[k % 2] + k / 2;
}

static void put_sends(rs writers[2])
{
    for (int i = 0; i < 2; i++)
        rec_pipe(writers[i], 1, 2, IPS_SIDE_WRITE, 5);
    for (uint32_t k = 0; k < SENDS; k++)
        rec_send(writers[k % 2], 1, 100 + 20ULL * k, 1 + 10ULL * k,
                 (int64_t)bytes_of(k));
}

/* Every receive up to `count` hangs on the send that wrote its last byte. */
static void check_reads(const struct ips_built *b, uint32_t tid, uint32_t count,
                        const uint32_t first[2])
{
    uint32_t node = rec_kind(b, tid, IPS_NODE_RECV, 0), k = 0;
    uint64_t sent = bytes_of(0);
    for (uint32_t i = 0; i < count; i++) {
        while (sent < READ_BYTES * (i + 1ULL))
            sent += bytes_of(++k);
        assert_arc(b, node + i, node_of(first, k), IPS_X_DATA);
        assert_int_equal(b->g.xlen[node + i], READ_BYTES);
    }
}

/* Would catch: a send lost, doubled or out of order where an end's sends fill
 * more than one block and have to be put in order of return; receives of one
 * thread that are matched otherwise than in their order. */
static void test_build_sends__two_writers_many_blocks(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs writers[2] = {process(r, 10), process(r, 20)}, p = process(r, 30);
    uint64_t t = 1000000, all = 0;
    put_sends(writers);
    rec_pipe(p, 1, 2, IPS_SIDE_READ, 5);
    for (uint32_t k = 0; k < SENDS; k++)
        all += bytes_of(k);
    uint32_t reads = (uint32_t)(all / READ_BYTES);
    for (uint32_t i = 0; i < reads; i++)
        rec_recv(p, 1, t + 10ULL * i, t + 10ULL * i + 1, 1 + i, READ_BYTES);
    struct ips_built *b = rec_build(r);
    const uint32_t first[2] = {rec_kind(b, 10, IPS_NODE_SEND, 0),
                               rec_kind(b, 20, IPS_NODE_SEND, 0)};
    check_reads(b, 30, reads, first);
    assert_int_equal(b->counts.unmatched + b->counts.pending, 0);
    assert_int_equal(b->counts.ambiguous, 0);
    rec_free(r);
}

/* Would catch: the call of a receive that took longer than 32 bits of ns say:
 * two threads read at once, and so it is a guess who got what. */
static void test_build_sends__a_receive_of_twenty_seconds(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs writers[2] = {process(r, 10), process(r, 20)};
    rs p = process(r, 30), q = process(r, 40);
    put_sends(writers);
    rec_pipe(p, 1, 2, IPS_SIDE_READ, 5);
    rec_pipe(q, 1, 2, IPS_SIDE_READ, 5);
    for (uint32_t i = 0; i < 100; i++)
        rec_recv(p, 1, 1000000 + 10ULL * i, 1000001 + 10ULL * i, 1 + i,
                 READ_BYTES);
    rec_recv(q, 1, 1000000, LAST_NS, 1, 50);
    struct ips_built *b = rec_build(r);
    const uint32_t first[2] = {rec_kind(b, 10, IPS_NODE_SEND, 0),
                               rec_kind(b, 20, IPS_NODE_SEND, 0)};
    check_reads(b, 30, 100, first);
    uint32_t k = 0, node = rec_kind(b, 40, IPS_NODE_RECV, 0);
    for (uint64_t sent = bytes_of(0); sent < 100 * READ_BYTES + 50;)
        sent += bytes_of(++k);
    assert_arc(b, node, node_of(first, k), IPS_X_DATA);
    assert_int_equal(b->counts.ambiguous, 1);
    rec_free(r);
}

/* A process was killed within a write of 7 bytes. `reader` is the process that
 * reads; a number below the writer's puts its nodes first. */
static struct recorder *killed_in_write(uint32_t reader, int64_t received)
{
    struct recorder *r = rec_new();
    rs w = process(r, 10), p = process(r, reader);
    rec_pipe(w, 1, 2, IPS_SIDE_WRITE, 5);
    rec_pipe(p, 1, 2, IPS_SIDE_READ, 5);
    rec_send(w, 1, 1000, 100, 10);
    rec_recv(p, 1, 1100, 1200, 50, 10);
    if (received)
        rec_recv(p, 1, 1300, 9000, 60, received);
    w->begun = (struct ips_current_call){
        .t = 8000, .cpu = 300, .what = IPS_BEGUN(IPS_REC_SEND, IPS_OP_DATA, 1)};
    w->dead = true;
    w->dead_t_ns = 50000;
    return r;
}

/* Would catch: a receive without its send because the writer was killed before
 * it could record the write. */
static void test_build_sends__killed_in_a_write(void **state)
{
    (void)state;
    for (uint32_t reader = 5; reader < 20; reader += 10) {
        struct recorder *r = killed_in_write(reader, 7);
        struct ips_built *b = rec_build(r);
        uint32_t send = rec_kind(b, 10, IPS_NODE_SEND, 1),
                 receive = rec_kind(b, reader, IPS_NODE_RECV, 1);
        assert_arc(b, receive, send, IPS_X_DATA);
        assert_int_equal(b->g.t_ns[send], 8000);
        assert_int_equal(b->g.xlen[receive], 7);
        assert_int_equal(b->counts.unmatched + b->counts.pending, 0);
        rec_free(r);
    }
}

/* Would catch: bytes given to a write that need not have sent them: another
 * process was killed in a write to the same pipe, some process is not recorded,
 * or the process still runs; a send of bytes that nobody received. */
static void test_build_sends__perhaps_not_in_that_write(void **state)
{
    (void)state;
    enum { OTHER, UNRECORDED, RUNNING, NOTHING, CASES };
    for (int k = 0; k < CASES; k++) {
        struct recorder *r = killed_in_write(20, k == NOTHING ? 0 : 7);
        if (k == OTHER) {
            rs o = process(r, 30);
            rec_pipe(o, 1, 2, IPS_SIDE_WRITE, 5);
            o->begun = r->s[0].begun;
            o->dead = true;
            o->dead_t_ns = 50000;
        }
        if (k == UNRECORDED)
            rec_fork(&r->s[1], IPS_FORK_SPAWN, 9100, 9110, 70, 70, 99, 1);
        if (k == RUNNING)
            r->s[0].dead = false;
        struct ips_built *b = rec_build(r);
        const uint32_t last = rec_last(b, 10); /* END */
        for (uint32_t i = rec_kind(b, 10, IPS_NODE_SEND, 0) + 1; i <= last; i++)
            assert_int_not_equal(b->g.kind[i], IPS_NODE_SEND);
        assert_int_equal(b->counts.unmatched + b->counts.pending, k != NOTHING);
        rec_free(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_sends__two_writers_many_blocks),
        cmocka_unit_test(test_build_sends__a_receive_of_twenty_seconds),
        cmocka_unit_test(test_build_sends__killed_in_a_write),
        cmocka_unit_test(test_build_sends__perhaps_not_in_that_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
