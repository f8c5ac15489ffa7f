/* Which end is whose peer: TCP, Unix sockets, datagrams, ends on other
 * machines. Each case says what it would catch. */
#include "agent/pool/ready.h"
#include "rec_ends.h"

/* Would catch: an accept without its connect; bytes sent before the end was
 * named shifting all matches. */
static void test_build_peer__tcp_connect_accept_and_anchor(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = process(r, 10), c = process(r, 20);
    rec_inet(c, 1, 3, IPS_CHAN_TCP, 2, LOOPBACK, 4000, LOOPBACK, 80)->flags =
        IPS_CHAN_CONNECTED;
    struct ips_rec_io *io = rec_io(c, IPS_REC_SEND, 1, 3, 8, 40, 60, 0);
    io->op = IPS_OP_CONNECT;
    rec_inet(s, 1, 9, IPS_CHAN_TCP, 1, LOOPBACK, 80, LOOPBACK, 4000)->flags =
        IPS_CHAN_ACCEPTED;
    rec_recv(s, 1, 1, 10, 5, 0)->op = IPS_OP_ACCEPT;
    struct ips_rec_chan *x =
        rec_inet(s, 2, 20, IPS_CHAN_TCP, 3, LOOPBACK, 80, LOOPBACK, 4001);
    x->recv_before = 100;
    rec_recv(s, 2, 21, 40, 6, 20);
    x = rec_inet(c, 2, 20, IPS_CHAN_TCP, 4, LOOPBACK, 4001, LOOPBACK, 80);
    x->sent_before = 80;
    rec_send(c, 2, 30, 70, 30); /* to 110; the receive is of 101 to 120 */
    rec_send(c, 2, 31, 71, 40);
    struct ips_built *b = rec_build(r);
    assert_arc(b, RECV(b, 10, 0), SEND(b, 20, 0), IPS_X_DATA);
    assert_int_equal(b->g.xlen[RECV(b, 10, 0)], 0);
    assert_int_equal(rec_coord(b, SEND(b, 20, 0)), 40);
    assert_arc(b, RECV(b, 10, 1), SEND(b, 20, 2), IPS_X_DATA);
    uint32_t end = b->g.site[SEND(b, 20, 1)];
    assert_int_equal(b->ends[end].sent_bytes, 150);
    assert_string_equal(b->ends[end].name, "tcp 127.0.0.1:4001-127.0.0.1:80");
    rec_free(r);
}

/* Would catch: a build without the run's control that reads it nevertheless,
 * for the key of a loopback end or for the locks. */
static void test_build_peer__tcp_without_control(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = process(r, 10), c = process(r, 20);
    r->no_control = true;
    rec_inet(c, 1, 3, IPS_CHAN_TCP, 2, LOOPBACK, 4000, LOOPBACK, 80);
    rec_inet(s, 1, 4, IPS_CHAN_TCP, 1, LOOPBACK, 80, LOOPBACK, 4000);
    rec_send(c, 1, 10, 10, 30);
    rec_recv(s, 1, 5, 40, 5, 30);
    struct ips_built *b = rec_build(r);
    assert_arc(b, RECV(b, 10, 0), SEND(b, 20, 0), IPS_X_DATA);
    assert_int_equal(b->ends[b->g.site[SEND(b, 20, 0)]].key_len,
                     IPS_KEY_LOOPBACK);
    rec_free(r);
}

/* Would catch: a 4-tuple that is used again joined to the connection before;
 * equal addresses of two network namespaces joined. */
static void test_build_peer__tcp_reuse_and_namespaces(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = process(r, 10), c = process(r, 20);
    for (uint32_t k = 0; k < 3; k++) {
        uint64_t t = 100 * (k + 1);
        uint32_t id = k + 1;
        rec_inet(c, id, t, IPS_CHAN_TCP, 2 * k + 1, LOOPBACK, 4000, LOOPBACK,
                 80);
        rec_inet(s, id, t + 1, IPS_CHAN_TCP, 2 * k + 2, LOOPBACK, 80, LOOPBACK,
                 4000);
        rec_send(c, id, t + 2, t, 10);
        rec_recv(s, id, t + 2, t + 3, t, 10);
        rec_close(c, id, t + 4, t + 4, IPS_CLOSE_FD);
    }
    struct ips_built *b = rec_alone(r);
    for (uint32_t k = 0; k < 3; k++)
        assert_arc(b, RECV(b, 10, k), SEND(b, 20, k), IPS_X_DATA);
    assert_int_equal(b->end_count, 6);
    uint32_t third = b->g.site[SEND(b, 20, 2)];
    assert_int_equal(b->ends[third].ordinal, 2);
    rec_inet(c, 9, 900, IPS_CHAN_TCP, 30, LOOPBACK, 5000, LOOPBACK, 80)->netns =
        2;
    rec_inet(s, 9, 901, IPS_CHAN_TCP, 31, LOOPBACK, 80, LOOPBACK, 5000);
    rec_send(c, 9, 902, 900, 10);
    rec_recv(s, 9, 902, 903, 900, 10);
    b = rec_alone(r);
    assert_no_arc(b, RECV(b, 10, 3));
    assert_int_equal(b->ends[b->g.site[SEND(b, 20, 3)]].peer,
                     IPS_PEER_UNTRACED);
    rec_free(r);
}

/* Would catch: equal addresses of pairs of namespaces joined as they come,
 * though nobody can tell which is whose; those that can be told left apart; an
 * address of the machine itself looked for in other namespaces. */
static void test_build_peer__same_addresses_between_namespaces(void **state)
{
    (void)state;
    const uint32_t left = 0x0a000001, right = 0x0a000002;
    for (uint32_t k = 0; k < 3; k++) {
        struct recorder *r = rec_new();
        rs c = process(r, 20), s = process(r, 10);
        uint32_t to = k == 2 ? left : right;
        for (uint32_t i = 0; i < 2; i++) {
            uint64_t t = 10 + 100 * i, at = k == 0 ? 300 - 10 * i : t + 1;
            rec_inet(c, i + 1, t, IPS_CHAN_TCP, 1 + i, left, 4000, to, 80)
                ->netns = 5 + i;
            rec_send(c, i + 1, t + 2, t, 10 + i);
            rec_inet(s, i + 1, at, IPS_CHAN_TCP, 3 + i, to, 80, left, 4000)
                ->netns = k == 2 ? 5 + i : 7 + i;
        }
        for (uint32_t i = 0; i < 2; i++)
            rec_recv(s, i + 1, 400 + i, 400 + i, 1 + i, 10 + i);
        struct ips_built *b = rec_build(r);
        for (uint32_t i = 0; i < 2; i++) {
            if (k) {
                assert_arc(b, RECV(b, 10, i), SEND(b, 20, i), IPS_X_DATA);
                continue;
            }
            assert_no_arc(b, RECV(b, 10, i));
            assert_int_equal(b->ends[b->g.site[SEND(b, 20, i)]].peer,
                             IPS_PEER_UNTRACED);
        }
        assert_int_equal(b->counts.ambiguous, k == 0 ? 2 : 0);
        rec_free(r);
    }
}

/* Would catch: a client whose server was not traced taken for the client of
 * the next connection with these addresses. */
static void test_build_peer__tcp_alone(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = process(r, 10), c = process(r, 20);
    rec_inet(c, 1, 100, IPS_CHAN_TCP, 1, LOOPBACK, 4000, LOOPBACK, 80);
    rec_send(c, 1, 101, 1, 10);
    rec_close(c, 1, 102, 2, IPS_CLOSE_FD);
    rec_inet(c, 2, 200, IPS_CHAN_TCP, 2, LOOPBACK, 4000, LOOPBACK, 80);
    rec_inet(s, 1, 201, IPS_CHAN_TCP, 3, LOOPBACK, 80, LOOPBACK, 4000);
    rec_send(c, 2, 202, 3, 10);
    rec_recv(s, 1, 202, 203, 4, 10);
    rec_inet(c, 3, 300, IPS_CHAN_TCP, 4, LOOPBACK, 4001, LOOPBACK + 4, 80);
    rec_send(c, 3, 301, 5, 10);
    struct ips_built *b = rec_alone(r);
    assert_arc(b, RECV(b, 10, 0), SEND(b, 20, 1), IPS_X_DATA);
    assert_int_equal(b->ends[b->g.site[SEND(b, 20, 2)]].peer,
                     IPS_PEER_UNTRACED);
    /* The master compares these: swapped, they are the other end's. */
    const struct ips_end *e = &b->ends[b->g.site[SEND(b, 20, 2)]];
    assert_int_equal(e->key_len, IPS_KEY_LOOPBACK);
    assert_memory_equal(e->key_local + IPS_KEY_INET,
                        e->key_remote + IPS_KEY_INET, 16);
    rec_free(r);
}

/* Would catch: Unix sockets whose inode could not be asked left apart. */
static void test_build_peer__unix_by_name_and_order(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = process(r, 10), c = process(r, 20);
    for (uint32_t k = 1; k <= 2; k++) {
        struct ips_rec_chan *x =
            rec_chan(c, k, 10 * k, IPS_CHAN_UNIX, IPS_SIDE_BOTH, 70 + k);
        x->cookie = k;
        x->name_hash = 99;
        x->peer_pid = 10;
        x->flags = IPS_CHAN_CONNECTED;
        rec_io(c, IPS_REC_SEND, k, 10 * k, 10 * k, k, k, 0)->op =
            IPS_OP_CONNECT;
    }
    for (uint32_t k = 1; k <= 2; k++) {
        struct ips_rec_chan *x =
            rec_chan(s, k, 30 + k, IPS_CHAN_UNIX, IPS_SIDE_BOTH, 80 + k);
        x->cookie = 10 + k;
        x->name_hash = 99;
        x->peer_pid = 20;
        x->flags = IPS_CHAN_ACCEPTED;
        rec_recv(s, k, 30 + k, 30 + k, k, 0)->op = IPS_OP_ACCEPT;
    }
    struct ips_built *b = rec_build(r);
    for (uint32_t k = 0; k < 2; k++)
        assert_arc(b, RECV(b, 10, k), SEND(b, 20, k), IPS_X_DATA);
    rec_free(r);
}

/* Would catch: datagrams matched by order where one was lost or overtaken;
 * two clients of one server mixed up. */
static void test_build_peer__datagrams(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = process(r, 10), c = process(r, 20), d = process(r, 21);
    struct ips_addr server = rec_addr(LOOPBACK, 53), any = rec_addr(0, 53),
                    c_at = rec_addr(LOOPBACK, 4000),
                    d_at = rec_addr(LOOPBACK, 4001);
    rec_inet(s, 1, 2, IPS_CHAN_UDP, 1, 0, 53, 0, 0);
    rec_inet(c, 1, 2, IPS_CHAN_UDP, 2, LOOPBACK, 4000, 0, 0);
    rec_inet(d, 1, 2, IPS_CHAN_UDP, 3, LOOPBACK, 4001, 0, 0);
    for (uint32_t k = 0; k < 3; k++) { /* c: hashes 7, 8, 9; 8 is lost */
        rec_dgram(c, 1, 10 + k, 7 + k, c_at, server);
        rec_send(c, 1, 10 + k, 10 + k, 100);
    }
    rec_dgram(d, 1, 20, 7, d_at, server);
    rec_send(d, 1, 20, 10, 100);
    rec_dgram(s, 1, 30, 9, any, c_at); /* overtook */
    rec_recv(s, 1, 30, 30, 1, 100);
    rec_dgram(s, 1, 31, 7, any, d_at);
    rec_recv(s, 1, 31, 31, 2, 100);
    rec_dgram(s, 1, 32, 7, any, c_at);
    rec_recv(s, 1, 32, 32, 3, 100);
    rec_dgram(s, 1, 33, 66, any, c_at); /* never sent */
    rec_recv(s, 1, 33, 33, 4, 100);
    rec_dgram(c, 1, 50, 66, c_at, server); /* or only later */
    rec_send(c, 1, 50, 50, 100);
    struct ips_built *b = rec_build(r);
    assert_arc(b, RECV(b, 10, 0), SEND(b, 20, 2), IPS_X_DATA);
    assert_arc(b, RECV(b, 10, 1), SEND(b, 21, 0), IPS_X_DATA);
    assert_arc(b, RECV(b, 10, 2), SEND(b, 20, 0), IPS_X_DATA);
    assert_no_arc(b, RECV(b, 10, 3));
    assert_int_equal(b->counts.unmatched, 1);
    /* One flow for each client. */
    assert_int_not_equal(b->g.site[RECV(b, 10, 0)], b->g.site[RECV(b, 10, 1)]);
    assert_int_equal(b->g.site[RECV(b, 10, 0)], b->g.site[RECV(b, 10, 2)]);
    rec_free(r);
}

/* Would catch: a table of flows that does not grow (the build never ended), or
 * that loses flows as it grows. */
static void test_build_peer__a_socket_with_many_clients(void **state)
{
    (void)state;
    enum { CLIENTS = 600 };
    struct recorder *r = rec_new();
    rs s = process(r, 10), c = process(r, 20);
    struct ips_addr server = rec_addr(LOOPBACK, 53), any = rec_addr(0, 53);
    rec_inet(s, 1, 2, IPS_CHAN_UDP, 1, 0, 53, 0, 0);
    for (uint32_t k = 0; k < CLIENTS; k++) {
        struct ips_addr at = rec_addr(LOOPBACK, (uint16_t)(4000 + k));
        rec_inet(c, 1 + k, 2, IPS_CHAN_UDP, 2 + k, LOOPBACK,
                 (uint16_t)(4000 + k), 0, 0);
        rec_dgram(c, 1 + k, 10 + k, 7, at, server);
        rec_send(c, 1 + k, 10 + k, 10 + k, 100);
    }
    for (uint32_t k = 0; k < CLIENTS; k++) {
        struct ips_addr at = rec_addr(LOOPBACK, (uint16_t)(4000 + k));
        rec_dgram(s, 1, 5000 + k, 7, any, at);
        rec_recv(s, 1, 5000 + k, 5000 + k, 1 + k, 100);
    }
    struct ips_built *b = rec_build(r);
    for (uint32_t i = 0; i < CLIENTS; i++)
        assert_arc(b, RECV(b, 10, i), SEND(b, 20, i), IPS_X_DATA);
    rec_free(r);
}

/* Equal datagrams of one client: three that were sent before the server was
 * there, one while it sleeps in a receive, one before a receive that does not
 * sleep. */
static struct ips_built *receive_equal_datagrams(struct recorder *r,
                                                 uint32_t lost)
{
    rs s = process(r, 10), c = process(r, 20);
    struct ips_addr server = rec_addr(LOOPBACK, 53), at = rec_addr(LOOPBACK, 9);
    const uint64_t sent[] = {10, 11, 12, 900000, 1100000};
    rec_inet(s, 1, 3, IPS_CHAN_UDP, 1, LOOPBACK, 53, 0, 0);
    rec_inet(c, 1, 3, IPS_CHAN_UDP, 2, LOOPBACK, 9, 0, 0);
    for (uint32_t k = 3 - lost; k < 5; k++) {
        rec_dgram(c, 1, sent[k], 7, at, server);
        rec_send(c, 1, sent[k], sent[k], 4);
    }
    rec_dgram(s, 1, 100000, 7, server, at);
    rec_recv(s, 1, 100000, 1000000, 1, 4);
    rec_dgram(s, 1, 1200000, 7, server, at);
    rec_recv(s, 1, 1200000, 1200000, 2, 4);
    return rec_build(r);
}

/* Would catch: a receive that slept matched with an equal datagram that was
 * lost before (the sender's work was then missing on the path); the receive
 * after it matched with one, too. */
static void test_build_peer__equal_datagrams_were_lost(void **state)
{
    (void)state;
    for (uint32_t lost = 0; lost <= 3; lost += 3) {
        struct recorder *r = rec_new();
        struct ips_built *b = receive_equal_datagrams(r, lost);
        for (uint32_t i = 0; i < 2; i++)
            assert_arc(b, RECV(b, 10, i), SEND(b, 20, lost + i), IPS_X_DATA);
        rec_free(r);
    }
}

/* Would catch: a receive that was only preempted left without its datagram,
 * which had been sent before, although none was lost. */
static void test_build_peer__a_preempted_receive(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = process(r, 10), c = process(r, 20);
    struct ips_addr server = rec_addr(LOOPBACK, 53), at = rec_addr(LOOPBACK, 9);
    rec_inet(s, 1, 3, IPS_CHAN_UDP, 1, LOOPBACK, 53, 0, 0);
    rec_inet(c, 1, 3, IPS_CHAN_UDP, 2, LOOPBACK, 9, 0, 0);
    for (uint32_t k = 0; k < 2; k++) {
        rec_dgram(c, 1, 10 + 500000 * k, 7, at, server);
        rec_send(c, 1, 10 + 500000 * k, 10 + 500000 * k, 4);
        rec_dgram(s, 1, 100000 + 1000000 * k, 7, server, at);
        rec_recv(s, 1, 100000 + 1000000 * k, 1000000 + 1000000 * k, 1 + k, 4);
    }
    struct ips_built *b = rec_build(r);
    for (uint32_t i = 0; i < 2; i++)
        assert_arc(b, RECV(b, 10, i), SEND(b, 20, i), IPS_X_DATA);
    rec_free(r);
}

/* A DGRAM of `n` datagrams, all but the last of `segment` bytes. */
static void dgrams(rs s, uint64_t t, struct ips_addr local,
                   struct ips_addr remote, uint64_t segment,
                   const uint64_t *hashes, uint32_t n)
{
    struct ips_rec_dgram *r =
        rec_put(s, IPS_REC_DGRAM, sizeof(*r) + 8 + 8 * (n - 1), 1, t);
    uint64_t *behind = (uint64_t *)(void *)(r + 1);
    r->hash = hashes[0];
    r->local = local;
    r->remote = remote;
    behind[0] = segment;
    memcpy(behind + 1, hashes + 1, 8 * (n - 1));
}

/* Would catch: a send of several datagrams (UDP_SEGMENT) of which no receive,
 * or only the first, hangs on it; a receive of several (UDP_GRO) that hangs on
 * another than the last, or that leaves the others to be received again. */
static void test_build_peer__one_send_of_several_datagrams(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = process(r, 10), c = process(r, 20);
    struct ips_addr server = rec_addr(LOOPBACK, 53), at = rec_addr(LOOPBACK, 9);
    rec_inet(s, 1, 3, IPS_CHAN_UDP, 1, LOOPBACK, 53, 0, 0);
    rec_inet(c, 1, 3, IPS_CHAN_UDP, 2, LOOPBACK, 9, 0, 0);
    const uint64_t first[] = {1, 2, 3}, again[] = {3, 3}, all[] = {3, 3};
    dgrams(c, 10, at, server, 100, first, 3); /* 100, 100, 50 */
    rec_send(c, 1, 10, 10, 250);
    dgrams(c, 11, at, server, 50, again, 2); /* 50, 50 */
    rec_send(c, 1, 11, 11, 100);
    rec_dgram(s, 1, 30, 2, server, at);
    rec_recv(s, 1, 30, 30, 1, 100);
    rec_dgram(s, 1, 31, 1, server, at);
    rec_recv(s, 1, 31, 31, 2, 100);
    rec_dgram(s, 1, 32, 3, server, at);
    rec_recv(s, 1, 32, 32, 3, 50);
    dgrams(s, 33, server, at, 50, all, 2);
    rec_recv(s, 1, 33, 33, 4, 100);
    rec_dgram(s, 1, 34, 3, server, at); /* no more of them */
    rec_recv(s, 1, 34, 34, 5, 50);
    struct ips_built *b = rec_build(r);
    for (uint32_t i = 0; i < 3; i++)
        assert_arc(b, RECV(b, 10, i), SEND(b, 20, 0), IPS_X_DATA);
    assert_arc(b, RECV(b, 10, 3), SEND(b, 20, 1), IPS_X_DATA);
    assert_int_equal(b->g.xlen[RECV(b, 10, 3)], 100);
    assert_no_arc(b, RECV(b, 10, 4));
    assert_int_equal(b->counts.unmatched, 1);
    rec_free(r);
}

/* Would catch: what was sent to a group or by broadcast taken by one receiver
 * alone, or twice by one; what was sent to one taken by two. */
static void test_build_peer__one_datagram_for_many(void **state)
{
    (void)state;
    static const uint32_t to[] = {0xef010203, 0x7fffffff, LOOPBACK};
    for (uint32_t k = 0; k < 3; k++) {
        struct recorder *r = rec_new();
        rs c = process(r, 20), s[] = {process(r, 10), process(r, 30)};
        struct ips_addr any = rec_addr(0, 53), at = rec_addr(LOOPBACK, 9);
        rec_inet(c, 1, 3, IPS_CHAN_UDP, 2, LOOPBACK, 9, 0, 0);
        for (uint64_t t = 10; t < 12; t++) { /* alike */
            rec_dgram(c, 1, t, 7, at, rec_addr(to[k], 53));
            rec_send(c, 1, t, t, 20);
        }
        for (uint32_t i = 0; i < 2; i++) {
            rec_inet(s[i], 1, 3, IPS_CHAN_UDP, 5 + i, 0, 53, 0, 0);
            for (uint64_t t = 20; t < 22; t++) {
                rec_dgram(s[i], 1, t, 7, any, at);
                rec_recv(s[i], 1, t, t, t, 20);
            }
        }
        struct ips_built *b = rec_build(r);
        uint32_t of[2] = {0, 0};
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t v = RECV(b, i / 2 ? 30 : 10, i % 2);
            if (k < 2)
                assert_arc(b, v, SEND(b, 20, i % 2), IPS_X_DATA);
            for (uint32_t n = 0; n < 2; n++)
                of[n] += b->g.xpred[v] == SEND(b, 20, n);
        }
        assert_int_equal(of[0], k < 2 ? 2 : 1);
        assert_int_equal(of[1], k < 2 ? 2 : 1);
        rec_free(r);
    }
}

/* Would catch: a datagram longer than its receiver's buffer that stays without
 * its send; one that is taken for another, of another length or beginning. */
static void test_build_peer__cut_datagrams(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = process(r, 10), c = process(r, 20);
    struct ips_addr server = rec_addr(LOOPBACK, 53), at = rec_addr(LOOPBACK, 9);
    rec_inet(s, 1, 3, IPS_CHAN_UDP, 1, LOOPBACK, 53, 0, 0);
    rec_inet(c, 1, 3, IPS_CHAN_UDP, 2, LOOPBACK, 9, 0, 0);
    static char text[256];
    const uint64_t sent[] = {8, 300, 500, 400};
    for (uint64_t i = 0; i < 4; i++) {
        memset(text, i == 2 ? 'x' : 'y', sizeof(text));
        uint64_t hash = ips_fnv1a(IPS_FNV_SEED, text, 256);
        rec_dgram(c, 1, 10 + i, ips_fnv1a(hash, &sent[i], 8), at, server);
        rec_send(c, 1, 10 + i, 10 + i, (int64_t)sent[i]);
    }
    memset(text, 'x', sizeof(text));
    const uint64_t got[] = {256, 10, 400, 600};
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t hash = ips_fnv1a(IPS_FNV_SEED, text, 256);
        rec_dgram(s, 1, 20 + i, ips_fnv1a(hash, &got[i], 8), server, at);
        struct ips_rec_io *x = rec_io(s, IPS_REC_RECV, 1, 20 + i, 20 + i, 1 + i,
                                      1 + i, (int64_t)got[i]);
        x->ready = i == 2 ? IPS_CUT_KNOWN : IPS_CUT_MAYBE;
    }
    struct ips_built *b = rec_build(r);
    assert_arc(b, RECV(b, 10, 0), SEND(b, 20, 2), IPS_X_DATA);
    assert_arc(b, RECV(b, 10, 1), SEND(b, 20, 1), IPS_X_DATA);
    assert_arc(b, RECV(b, 10, 2), SEND(b, 20, 3), IPS_X_DATA);
    assert_no_arc(b, RECV(b, 10, 3));
    rec_free(r);
}

static struct ips_rec_chan *unix_dgram(rs s, uint32_t id, uint64_t ino)
{
    struct ips_rec_chan *x =
        rec_chan(s, id, 2, IPS_CHAN_UNIX_DGRAM, IPS_SIDE_BOTH, ino);
    x->cookie = ino;
    return x;
}

static void test_build_peer__unix_datagrams(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs s = process(r, 10), c = process(r, 20);
    struct ips_addr none = {0};
    unix_dgram(s, 1, 50)->name_hash = 1234;
    unix_dgram(c, 1, 51);
    unix_dgram(s, 2, 60); /* the sender alone knows its peer */
    unix_dgram(c, 2, 61)->peer_ino = 60;
    rec_dgram(c, 1, 10, 7, none, none);
    ((struct ips_rec_dgram *)(void *)(c->data + c->len -
                                      sizeof(struct ips_rec_dgram)))
        ->path_hash = 1234;
    rec_send(c, 1, 10, 1, 5);
    rec_dgram(c, 2, 11, 7, none, none);
    rec_send(c, 2, 11, 2, 5);
    rec_dgram(s, 2, 20, 7, none, none);
    rec_recv(s, 2, 20, 20, 1, 5);
    rec_dgram(s, 1, 21, 7, none, none);
    rec_recv(s, 1, 21, 21, 2, 5);
    struct ips_built *b = rec_build(r);
    assert_arc(b, RECV(b, 10, 0), SEND(b, 20, 1), IPS_X_DATA);
    assert_arc(b, RECV(b, 10, 1), SEND(b, 20, 0), IPS_X_DATA);
    rec_free(r);
}

/* Would catch: a remote end without its ins and outs, in the wrong order, or
 * with what the peer has not written yet. */
static void test_build_peer__remote_ends(void **state)
{
    (void)state;
    struct recorder *r = rec_new();
    rs c = process(r, 20);
    struct ips_rec_chan *x =
        rec_inet(c, 1, 3, IPS_CHAN_TCP, 2, 0x0a000001, 4000, 0x0a000002, 80);
    x->flags = IPS_CHAN_CONNECTED;
    rec_io(c, IPS_REC_SEND, 1, 3, 8, 40, 60, 0)->op = IPS_OP_CONNECT;
    rec_send(c, 1, 10, 70, 100);
    rec_recv(c, 1, 11, 20, 80, 30);
    rec_send(c, 1, 21, 90, 100);
    rec_recv(c, 1, 22, 30, 100, 30);
    rec_recv(c, 1, 31, 40, 110, 0);
    rec_close(c, 1, 50, 120, IPS_CLOSE_FD);
    struct ips_built *b = rec_build(r);
    assert_int_equal(b->end_count, 1);
    assert_int_equal(b->ends[0].peer, IPS_PEER_UNKNOWN);
    assert_int_equal(b->counts.pending, 3);
    assert_int_equal(b->ends[0].key_len, IPS_KEY_INET);
    assert_int_equal(b->ends[0].key_local[2], 4000 & 0xff);
    assert_true(b->ends[0].closed);
    struct ips_peer_row row = {
        .end = 0, .traced = true, .peer_sent_bytes = 40, .peer_closed = false};
    assert_int_equal(ips_built_set_peers_and_remake_arcs(b, &row, 1, NULL), 0);
    assert_int_equal(b->g.in_count, 1);
    assert_int_equal(b->g.in[0].pos, 30);
    assert_int_equal(b->counts.pending, 2);
    row.peer_closed = true;
    assert_int_equal(ips_built_set_peers_and_remake_arcs(b, &row, 1, NULL), 0);
    assert_int_equal(ips_graph_check_invariants(&b->g, NULL), 0);
    assert_int_equal(b->counts.pending, 0);
    assert_int_equal(b->g.in_count, 3);
    const uint64_t in[] = {30, 60, IPS_POS_EOF};
    for (uint32_t k = 0; k < 3; k++) {
        assert_int_equal(b->g.in[k].node, RECV(b, 20, k));
        assert_int_equal(b->g.in[k].pos, in[k]);
    }
    assert_int_equal(b->g.xkind[RECV(b, 20, 2)], IPS_X_LIFETIME);
    const uint64_t out[] = {IPS_POS_SYN, 100, 200, IPS_POS_EOF};
    assert_int_equal(b->g.out_count, 4);
    for (uint32_t k = 0; k < 4; k++) {
        assert_int_equal(b->g.out[k].pos, out[k]);
        assert_int_equal(b->g.out[k].node,
                         k < 3 ? SEND(b, 20, k) : AUX(b, 20, 0));
    }
    row.end = 1;
    assert_int_equal(ips_built_set_peers_and_remake_arcs(b, &row, 1, NULL),
                     IPS_E_USAGE);
    rec_free(r);
}

/* Would catch: two machines that compute different keys for one datagram; a
 * key that a stream position could be. */
static void test_build_peer__remote_datagrams(void **state)
{
    (void)state;
    struct recorder *r[2] = {rec_new(), rec_new()};
    uint64_t pos[2][3];
    for (int m = 0; m < 2; m++) {
        uint32_t own = m ? 0x0a000002 : 0x0a000001,
                 other = m ? 0x0a000001 : 0x0a000002;
        rs s = process(r[m], 20);
        rec_inet(s, 1, 3, IPS_CHAN_UDP, 2, own, 53, other, 53);
        for (uint32_t k = 0; k < 3; k++) {
            rec_dgram(s, 1, 10 + k, k / 2, rec_addr(own, 53),
                      rec_addr(other, 53));
            if (m == 0)
                rec_send(s, 1, 10 + k, 70 + k, 100);
            else
                rec_recv(s, 1, 10 + k, 10 + k, 70 + k, 100);
        }
        struct ips_built *b = rec_build(r[m]);
        struct ips_peer_row row = {.end = 0, .traced = true};
        assert_int_equal(ips_built_set_peers_and_remake_arcs(b, &row, 1, NULL),
                         0);
        assert_int_equal(ips_graph_check_invariants(&b->g, NULL), 0);
        assert_int_equal(m ? b->g.in_count : b->g.out_count, 3);
        for (uint32_t k = 0; k < 3; k++) {
            uint32_t node = m ? b->g.in[k].node : b->g.out[k].node;
            uint32_t nth = node - (m ? RECV(b, 20, 0) : SEND(b, 20, 0));
            assert_true(nth < 3);
            pos[m][nth] = m ? b->g.in[k].pos : b->g.out[k].pos;
        }
    }
    for (uint32_t k = 0; k < 3; k++) {
        assert_int_equal(pos[0][k], pos[1][k]);
        assert_true(pos[0][k] & IPS_POS_EXACT);
        assert_true(pos[0][k] != pos[0][(k + 1) % 3]);
    }
    rec_free(r[0]);
    rec_free(r[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_peer__tcp_connect_accept_and_anchor),
        cmocka_unit_test(test_build_peer__tcp_without_control),
        cmocka_unit_test(test_build_peer__tcp_reuse_and_namespaces),
        cmocka_unit_test(test_build_peer__same_addresses_between_namespaces),
        cmocka_unit_test(test_build_peer__tcp_alone),
        cmocka_unit_test(test_build_peer__unix_by_name_and_order),
        cmocka_unit_test(test_build_peer__datagrams),
        cmocka_unit_test(test_build_peer__a_socket_with_many_clients),
        cmocka_unit_test(test_build_peer__equal_datagrams_were_lost),
        cmocka_unit_test(test_build_peer__a_preempted_receive),
        cmocka_unit_test(test_build_peer__one_send_of_several_datagrams),
        cmocka_unit_test(test_build_peer__one_datagram_for_many),
        cmocka_unit_test(test_build_peer__cut_datagrams),
        cmocka_unit_test(test_build_peer__unix_datagrams),
        cmocka_unit_test(test_build_peer__remote_ends),
        cmocka_unit_test(test_build_peer__remote_datagrams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
