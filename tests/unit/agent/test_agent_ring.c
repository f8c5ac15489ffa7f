/* What a ring's digest keeps of the records that it replaces: channels that are
 * open, and their bytes as sums in their last records. */
#include "tests/unit/help/core_help.h"
#include "tests/unit/help/emulated.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define KIB 1024u
#define CHANNELS 16
#define LAP 6000 /* so many records go round a ring of four segments */

enum { STREAM = 1, DGRAMS, AFTER, SHUT, CONNECTED, SINGLE, FAILED, HALF };

/* What is left of a channel. */
struct channel {
    unsigned named, closed;       /* CHAN and CLOSE records */
    unsigned sends, receives;     /* records */
    int64_t sent, received;       /* bytes in them */
    unsigned sent_sum, recvd_sum; /* records that say they are sums */
};

static struct channel found[CHANNELS];
static unsigned in_segment, digests, empty; /* records; segments */

static void see(const struct pool_segment *seg, const void *rec, size_t len,
                void *arg)
{
    const struct ips_rec_head *h = rec;
    const struct ips_rec_io *io = rec;
    struct channel *c = &found[h->a % CHANNELS];
    bool sum = ips_rec_flags(h) & IPS_REC_F_SUM;
    (void)seg;
    (void)len;
    (void)arg;
    in_segment++;
    switch (ips_rec_type(h)) {
    case IPS_REC_CHAN:
        c->named++;
        break;
    case IPS_REC_CLOSE:
        c->closed++;
        break;
    case IPS_REC_SEND:
        c->sends++;
        c->sent += io->result;
        c->sent_sum += sum;
        break;
    case IPS_REC_RECV:
        c->receives++;
        c->received += io->result;
        c->recvd_sum += sum;
        break;
    default:
        break;
    }
}

/* What is empty belongs to nobody: a reader would take its header for one of a
 * segment that was read. The digest is complete. */
static void see_end(const struct pool_segment *seg, void *arg)
{
    uint32_t state = atomic_load(&seg->head.state);
    (void)arg;
    assert_int_equal(seg->torn, 0);
    if (in_segment == 0) {
        assert_int_equal(state, IPS_SEGMENT_DRAINED);
        empty++;
    } else if (seg->head.flags & IPS_SEGMENT_DIGEST) {
        assert_int_equal(state, IPS_SEGMENT_CLOSED);
        digests++;
    }
    in_segment = 0;
}

static void *record(uint32_t type, uint32_t bytes, uint32_t channel)
{
    struct ips_rec_head *h = ips_rec_begin(type, bytes);
    if (!h)
        _exit(92);
    uint32_t word = h->word;
    memset(h + 1, 0, bytes - sizeof(*h));
    h->word = word;
    h->a = channel;
    return h;
}

static void move(uint32_t type, uint32_t channel, int64_t bytes, uint16_t op)
{
    struct ips_rec_io *r = record(type, sizeof(*r), channel);
    r->result = bytes;
    r->op = op;
    ips_rec_publish(r);
}

static void send_bytes(uint32_t channel, int64_t bytes)
{
    move(IPS_REC_SEND, channel, bytes, IPS_OP_DATA);
}

static void receive_bytes(uint32_t channel, int64_t bytes)
{
    move(IPS_REC_RECV, channel, bytes, IPS_OP_DATA);
}

static void name_channel(uint32_t channel, uint8_t kind)
{
    struct ips_rec_chan *r = record(IPS_REC_CHAN, sizeof(*r), channel);
    r->kind = kind;
    r->side = IPS_SIDE_BOTH;
    ips_rec_publish(r);
}

static void send_datagram(uint32_t channel, int64_t bytes)
{
    ips_rec_publish(
        record(IPS_REC_DGRAM, sizeof(struct ips_rec_dgram), channel));
    send_bytes(channel, bytes);
}

static void close_channel(uint32_t channel, uint32_t how)
{
    struct ips_rec_close *r = record(IPS_REC_CLOSE, sizeof(*r), channel);
    r->how = how;
    ips_rec_publish(r);
}

static void go_round(void)
{
    static uint64_t number;
    for (unsigned i = 0; i < LAP; i++)
        if (!write_one(0, number++))
            _exit(93);
}

/* Reads what `body` leaves in a ring of four segments that goes round. */
static void run(void (*body)(void *))
{
    struct pool_dir p;
    memset(found, 0, sizeof(found));
    in_segment = digests = empty = 0;
    pool_help_make(&p, NULL);
    struct ips_control *control = pool_help_control(&p);
    control->on_full = IPS_ON_FULL_RING;
    control->segment_bytes = 64u * KIB;
    control->quota_bytes = 1024u * KIB;
    int status = in_child(&p, body, NULL);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pool_help_read(&p, see, see_end, NULL);
    assert_int_equal(digests, 1);
    assert_true(empty > 0);
    munmap(control, sizeof(*control));
    pool_help_remove(&p);
}

static void body_sums(void *arg)
{
    (void)arg;
    name_channel(STREAM, IPS_CHAN_TCP);
    name_channel(SINGLE, IPS_CHAN_PIPE);
    send_bytes(STREAM, 100);
    send_bytes(STREAM, 20);
    receive_bytes(STREAM, 7);
    send_bytes(STREAM, -1);
    receive_bytes(STREAM, 11);
    send_bytes(STREAM, 3);
    receive_bytes(STREAM, 0);
    receive_bytes(SINGLE, 5);
    go_round();
    send_bytes(STREAM, 1000);
    go_round();
}

/* Would catch: one of several calls in a row whose bytes are not in the sum,
 * sums that begin anew with each digest, sent bytes among the received ones, a
 * single record that says it is several. */
static void test_agent_ring__sums(void **state)
{
    (void)state;
    SKIP_IF_EMULATED("MADV_POPULATE_WRITE");
    run(body_sums);
    const struct channel *c = &found[STREAM];
    assert_int_equal(c->named, 1);
    assert_int_equal(c->sends, 1);
    assert_int_equal(c->sent, 1123);
    assert_int_equal(c->sent_sum, 1);
    assert_int_equal(c->receives, 1);
    assert_int_equal(c->received, 18);
    assert_int_equal(c->recvd_sum, 1);
    c = &found[SINGLE];
    assert_int_equal(c->receives, 1);
    assert_int_equal(c->received, 5);
    assert_int_equal(c->recvd_sum, 0);
}

static void body_datagrams(void *arg)
{
    (void)arg;
    name_channel(DGRAMS, IPS_CHAN_UDP);
    name_channel(AFTER, IPS_CHAN_TCP);
    send_datagram(DGRAMS, 500);
    send_bytes(AFTER, 40);
    send_datagram(DGRAMS, 600);
    /* of a datagram, whose SEND is elsewhere */
    ips_rec_publish(
        record(IPS_REC_DGRAM, sizeof(struct ips_rec_dgram), DGRAMS));
    send_bytes(AFTER, 2);
    go_round();
}

/* Would catch: datagrams that move the position in a stream of bytes, and the
 * bytes of another channel that are taken for a datagram's. */
static void test_agent_ring__datagrams(void **state)
{
    (void)state;
    SKIP_IF_EMULATED("MADV_POPULATE_WRITE");
    run(body_datagrams);
    assert_int_equal(found[DGRAMS].named, 1);
    assert_int_equal(found[DGRAMS].sends, 0);
    assert_int_equal(found[AFTER].sends, 1);
    assert_int_equal(found[AFTER].sent, 42);
}

static void body_closed(void *arg)
{
    (void)arg;
    name_channel(SHUT, IPS_CHAN_TCP);
    name_channel(HALF, IPS_CHAN_TCP);
    send_bytes(SHUT, 9);
    receive_bytes(SHUT, 8);
    send_bytes(HALF, 9);
    close_channel(SHUT, IPS_CLOSE_FD);
    close_channel(HALF, IPS_CLOSE_SHUT_WR);
    go_round();
    go_round();
}

/* Would catch: channels that fill the digest long after they were closed, and
 * one that is forgotten while it can be read still. */
static void test_agent_ring__closed(void **state)
{
    const struct channel none = {0};
    (void)state;
    SKIP_IF_EMULATED("MADV_POPULATE_WRITE");
    run(body_closed);
    assert_memory_equal(&found[SHUT], &none, sizeof(none));
    assert_int_equal(found[HALF].named, 1);
    assert_int_equal(found[HALF].closed, 1);
    assert_int_equal(found[HALF].sent, 9);
}

static void body_connected(void *arg)
{
    (void)arg;
    name_channel(CONNECTED, IPS_CHAN_TCP);
    name_channel(FAILED, IPS_CHAN_TCP);
    move(IPS_REC_SEND, CONNECTED, 0, IPS_OP_CONNECT);
    move(IPS_REC_RECV, CONNECTED, 0, IPS_OP_ACCEPT);
    send_bytes(FAILED, -1);
    receive_bytes(FAILED, 0);
    go_round();
    go_round();
}

/* Would catch: a connection whose beginning is lost, so that its two ends are
 * not found; calls that moved nothing and fill the digest. */
static void test_agent_ring__connected(void **state)
{
    (void)state;
    SKIP_IF_EMULATED("MADV_POPULATE_WRITE");
    run(body_connected);
    assert_int_equal(found[CONNECTED].sends, 1);
    assert_int_equal(found[CONNECTED].receives, 1);
    assert_int_equal(found[FAILED].named, 1);
    assert_int_equal(found[FAILED].sends, 0);
    assert_int_equal(found[FAILED].receives, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agent_ring__sums),
        cmocka_unit_test(test_agent_ring__datagrams),
        cmocka_unit_test(test_agent_ring__closed),
        cmocka_unit_test(test_agent_ring__connected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
