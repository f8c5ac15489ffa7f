/* Addresses, answers of the kernel, closes and datagrams as the agent records
 * them (agent/preload/io/chan_name.c), byte by byte. Catches: another address
 * or hash, a count of bytes that is off, an answer read behind its end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include "tests/unit/help/chan_machine.h"

static void test_chan_records__addresses(void **state)
{
    (void)state;
    struct ips_addr a;
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(513)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6,
                               .sin6_port = htons(515)};
    static const uint8_t mapped[16] = {0, 0, 0,    0,    0,  0, 0, 0,
                                       0, 0, 0xff, 0xff, 10, 1, 2, 3};
    const struct ips_addr none = {0};
    inet_pton(AF_INET, "10.1.2.3", &in.sin_addr);
    inet_pton(AF_INET6, "fd00::1:2", &in6.sin6_addr);
    memset(&a, 7, sizeof(a));
    convert_socket_address(&a, &in, sizeof(in));
    assert_int_equal(a.family, AF_INET6);
    assert_int_equal(a.port, 513);
    assert_memory_equal(a.addr, mapped, 16);
    convert_socket_address(&a, &in, sizeof(in) - 1);
    assert_memory_equal(&a, &none, sizeof(a));
    convert_socket_address(&a, &in6, 24); /* as older callers */
    assert_int_equal(a.family, AF_INET6);
    assert_int_equal(a.port, 515);
    assert_memory_equal(a.addr, &in6.sin6_addr, 16);
    convert_socket_address(&a, &in6, 23);
    assert_memory_equal(&a, &none, sizeof(a));
    convert_socket_address(&a, NULL, 28);
    assert_memory_equal(&a, &none, sizeof(a));
    in.sin_family = AF_UNIX;
    convert_socket_address(&a, &in, sizeof(in));
    assert_memory_equal(&a, &none, sizeof(a));
    in.sin_family = AF_INET;
    convert_socket_address(&a, &in, 1);
    assert_memory_equal(&a, &none, sizeof(a));
}

static void test_chan_records__paths(void **state)
{
    (void)state;
    struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "/a/b"};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    uint64_t netns = 0;
    socklen_t len = sizeof(netns);
    struct ips_listen_name_of_socket n;
    assert_int_equal(hash_unix_socket_name(fd, &un, sizeof(un)),
                     fnv("/a/b", 4));
    assert_int_equal(hash_unix_socket_name(fd, &un, 2 + 4), fnv("/a/b", 4));
    assert_int_equal(hash_unix_socket_name(fd, &un, 2 + 3), fnv("/a/", 3));
    assert_int_equal(hash_unix_socket_name(fd, &un, 3), fnv("/", 1));
    assert_int_equal(hash_unix_socket_name(fd, &un, 2), 0);
    assert_int_equal(hash_unix_socket_name(fd, NULL, 9), 0);
    if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &netns, &len) == 0) {
        assert_int_equal(netns_of_socket(fd), netns);
        char abstract[11] = "\0a\0b";
        memcpy(abstract + 3, &netns, 8);
        memcpy(un.sun_path, abstract, 3);
        assert_int_equal(hash_unix_socket_name(fd, &un, 2 + 3),
                         fnv(abstract, 11));
        assert_true(
            ips_listen_name_of_address(fd, (struct sockaddr *)&un, 5, &n));
        assert_int_equal(n.dev, netns);
        assert_int_equal(n.ino, fnv(abstract, 11));
        assert_int_equal(n.object, AF_UNIX);
    }
    un.sun_family = AF_INET;
    assert_int_equal(hash_unix_socket_name(fd, &un, 5), 0);
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(513)};
    assert_true(
        ips_listen_name_of_address(fd, (struct sockaddr *)&in, sizeof(in), &n));
    assert_int_equal(n.dev, netns_of_socket(fd));
    assert_int_equal(n.ino, 513);
    assert_int_equal(n.object, AF_INET);
    in.sin_port = 0;
    assert_false(
        ips_listen_name_of_address(fd, (struct sockaddr *)&in, sizeof(in), &n));
    assert_false(ips_listen_name_of_socket(fd, true, &n));
    assert_false(ips_listen_name_of_socket(fd, false, &n)); /* not bound */
    close(fd);
}

/* ---- what the kernel answers ---- */

static void test_chan_records__peers(void **state)
{
    (void)state;
    struct unix_diag_query d;
    const size_t at = sizeof(struct nlmsghdr) + sizeof(struct unix_diag_msg);
    memset(&d, 0, sizeof(d));
    d.answer.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    struct nlattr other = {.nla_len = 4 + 3, .nla_type = UNIX_DIAG_NAME},
                  peer = {.nla_len = 4 + 4, .nla_type = UNIX_DIAG_PEER};
    const uint32_t ino = 4711;
    memcpy(d.answer.bytes + at, &other, 4);
    memcpy(d.answer.bytes + at + 8, &peer, 4);
    memcpy(d.answer.bytes + at + 12, &ino, 4);
    assert_int_equal(parse_unix_peer_inode(&d, (long)at + 16), 4711);
    assert_int_equal(parse_unix_peer_inode(&d, (long)at + 15), 0);
    assert_int_equal(parse_unix_peer_inode(&d, (long)at + 8), 0);
    assert_int_equal(parse_unix_peer_inode(&d, (long)at - 1), 0);
    assert_int_equal(parse_unix_peer_inode(&d, -EPERM), 0);
    peer.nla_len = 7; /* too short for a number, and then its end */
    memcpy(d.answer.bytes + at + 8, &peer, 4);
    assert_int_equal(parse_unix_peer_inode(&d, (long)at + 16), 0);
    other.nla_len = 3; /* shorter than its own head: no loop */
    memcpy(d.answer.bytes + at, &other, 4);
    assert_int_equal(parse_unix_peer_inode(&d, (long)at + 16), 0);
    other.nla_len = 4; /* nothing in it */
    peer.nla_len = 8;
    memcpy(d.answer.bytes + at, &other, 4);
    memcpy(d.answer.bytes + at + 4, &peer, 4);
    memcpy(d.answer.bytes + at + 8, &ino, 4);
    assert_int_equal(parse_unix_peer_inode(&d, (long)at + 12), 4711);
    d.answer.head.nlmsg_type = NLMSG_ERROR;
    assert_int_equal(parse_unix_peer_inode(&d, (long)at + 12), 0);
}

static void test_chan_records__totals(void **state)
{
    (void)state;
    uint64_t sent, recv;
    const socklen_t least = offsetof(struct tcp_info, tcpi_bytes_retrans) + 8;
    tcp.on = true;
    tcp.info.tcpi_bytes_sent = 1000;
    tcp.info.tcpi_bytes_retrans = 30;
    tcp.info.tcpi_notsent_bytes = 7;
    tcp.info.tcpi_bytes_received = 500;
    tcp.unread = 11;
    tcp.len = sizeof(tcp.info);
    for (uint8_t s = 1; s <= 12; s++) { /* TCP_ESTABLISHED ... */
        tcp.info.tcpi_state = s;
        bool fin = s == 8 || s == 9 || s == 11;
        assert_int_equal(read_tcp_byte_totals(3, &sent, &recv), s != 7);
        if (s == 7)
            continue;
        assert_int_equal(sent, 977);
        assert_int_equal(recv, fin ? 488 : 489);
    }
    tcp.info.tcpi_state = 1;
    tcp.len = least;
    assert_true(read_tcp_byte_totals(3, &sent, &recv));
    tcp.len = least - 1;
    assert_false(read_tcp_byte_totals(3, &sent, &recv));
    tcp.len = sizeof(tcp.info);
    tcp.no_unread = true;
    assert_true(read_tcp_byte_totals(3, &sent, &recv));
    assert_int_equal(recv, 500);
    tcp.no_unread = false;
    tcp.unread = 501;
    tcp.info.tcpi_bytes_retrans = 1001;
    assert_true(read_tcp_byte_totals(3, &sent, &recv));
    assert_int_equal(recv, 0);
    assert_int_equal(sent, 7);
    tcp.refuses = true;
    assert_false(read_tcp_byte_totals(3, &sent, &recv));
}

static void test_chan_records__fdinfo(void **state)
{
    (void)state;
    char path[40];
    uint64_t value = 9;
    join_directory_and_fd(path, "/fd/", 0);
    assert_string_equal(path, "/fd/0");
    join_directory_and_fd(path, "/fd/", 2147483647);
    assert_string_equal(path, "/fd/2147483647");
    join_directory_and_fd(path, "/fd/", 109);
    assert_string_equal(path, "/fd/109");
    int fd = open("/proc/self/exe", O_RDONLY);
    assert_int_equal(lseek(fd, 1209, SEEK_SET), 1209);
    assert_true(ips_read_fdinfo_number(fd, "pos:", &value));
    assert_int_equal(value, 1209);
    assert_true(ips_read_fdinfo_number(fd, "os:", &value));
    assert_false(ips_read_fdinfo_number(fd, "none:", &value));
    assert_false(
        ips_read_fdinfo_number(fd, "po", &value)); /* no number behind it */
    assert_false(ips_read_fdinfo_number(-1, "pos:", &value));
    close(fd);
    assert_false(ips_read_fdinfo_number(fd, "pos:", &value));
    fd = open("/", O_RDONLY);
    assert_true(ips_read_fdinfo_number(fd, "pos:", &value));
    assert_int_equal(value, 0);
    close(fd);
}

/* ---- closes and datagrams ---- */

static void test_chan_records__closes(void **state)
{
    (void)state;
    int p[2];
    const uint64_t word = (uint64_t)IPS_FD_STREAM << 32 | 17;
    ips_chan_record_close(8, word, IPS_CLOSE_FD, 1234, 0x77);
    const struct ips_rec_close *c = &records[0].close;
    assert_int_equal(types[0], IPS_REC_CLOSE);
    assert_int_equal(sizes[0], sizeof(*c) + 8);
    assert_int_equal(stamps[0], 1234);
    assert_int_equal(c->h.a, 17);
    assert_int_equal(c->cpu, 55);
    assert_int_equal(c->fd, 8);
    assert_int_equal(c->how, IPS_CLOSE_FD);
    assert_true(c->sent == UINT64_MAX && c->recv == UINT64_MAX);
    assert_int_equal(records[0].words[sizeof(*c) / 8], 0x77);
    /* totals: of a TCP socket that is closed, not of one that is shut down */
    tcp.on = true;
    tcp.len = sizeof(tcp.info);
    tcp.info.tcpi_bytes_sent = 5;
    tcp.info.tcpi_bytes_received = 6;
    begin(NULL);
    tcp.on = true;
    tcp.len = sizeof(tcp.info);
    tcp.info.tcpi_bytes_sent = 5;
    tcp.info.tcpi_bytes_received = 6;
    ips_chan_record_close(8, word | IPS_FD_TCP, IPS_CLOSE_FD, 1,
                          IPS_SITE_LATER);
    assert_true(c->sent == 5 && c->recv == 6);
    assert_int_equal(records[0].words[sizeof(*c) / 8], 0x1234);
    ips_chan_record_close(8, word | IPS_FD_TCP, IPS_CLOSE_SHUT_WR, 1, 0);
    c = &records[1].close;
    assert_true(c->sent == UINT64_MAX && c->recv == UINT64_MAX);
    assert_int_equal(c->how, IPS_CLOSE_SHUT_WR);
    tcp.refuses = true;
    ips_chan_record_close(8, word | IPS_FD_TCP, IPS_CLOSE_FD, 1, 0);
    c = &records[2].close;
    assert_true(c->sent == UINT64_MAX && c->recv == UINT64_MAX);
    no_room = true;
    ips_chan_record_close(8, word, IPS_CLOSE_FD, 1, 0);
    assert_int_equal(published, 3);
    begin(NULL);
    /* named first, where it was not known */
    assert_int_equal(pipe(p), 0);
    ips_fd_clear(p[0]);
    ips_chan_record_close_and_clear(p[0], 5);
    assert_int_equal(published, 2);
    assert_true(types[0] == IPS_REC_CHAN && types[1] == IPS_REC_CLOSE);
    assert_int_equal(stamps[1], 99);
    assert_int_equal(records[1].close.h.a, records[0].chan.h.a);
    assert_int_equal(ips_fd_class(ips_fd_get(p[0])), IPS_FD_UNKNOWN);
    assert_int_equal(released, 0);
    ips_fd_store_if_unchanged(p[0], ips_fd_get(p[0]), IPS_FD_FILE, 3,
                              IPS_FD_FLOCKED);
    ips_chan_record_close_and_clear(p[0], 5);
    assert_int_equal(published, 2); /* a file is no channel */
    assert_int_equal(released, 1);
    assert_int_equal(ips_fd_class(ips_fd_get(p[0])), IPS_FD_UNKNOWN);
    ips_chan_record_close_and_clear(IPS_FD_MAX, 5);
    ips_chan_record_close_and_clear(-1, 5);
    assert_int_equal(published + lost, 2);
    close(p[0]);
    close(p[1]);
}

/* The hash of a datagram: its first 256 bytes, and its length. */
static uint64_t hash_of(const char *bytes, uint64_t len)
{
    uint64_t hash = fnv(bytes, len < 256 ? len : 256);
    for (int i = 0; i < 8; i++)
        hash = (hash ^ (uint8_t)(len >> 8 * i)) * 0x100000001b3;
    return hash;
}

static void test_chan_records__datagrams(void **state)
{
    (void)state;
    static char text[2000];
    struct sockaddr_in at, to = {.sin_family = AF_INET, .sin_port = htons(99)};
    int u = bound(SOCK_DGRAM, &at);
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)(i * 7 + i / 256);
    struct iovec all = {text, sizeof(text)};
    static const uint64_t lengths[] = {0, 1, 255, 256, 257, 1000};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        begin(NULL);
        ips_record_dgram(u, 6, 77, &all, 1, lengths[i], 0,
                         (struct sockaddr *)&to, sizeof(to));
        const struct ips_rec_dgram *r = &records[0].dgram;
        assert_int_equal(published, 1);
        assert_int_equal(types[0], IPS_REC_DGRAM);
        assert_int_equal(sizes[0], sizeof(*r));
        assert_int_equal(stamps[0], 77);
        assert_int_equal(r->h.a, 6);
        assert_int_equal(r->hash, hash_of(text, lengths[i]));
        assert_int_equal(r->path_hash, 0);
        assert_int_equal(r->local.port, ntohs(at.sin_port));
        assert_int_equal(r->remote.port, 99);
    }
    /* of pieces, some of them empty, the same as of one */
    struct iovec pieces[] = {{text, 0},         {text, 100},
                             {text + 100, 156}, {text + 256, 0},
                             {text + 256, 1},   {text + 257, 743}};
    begin(NULL);
    ips_record_dgram(u, 6, 77, pieces, 6, 1000, 1000, (struct sockaddr *)&to,
                     sizeof(to));
    assert_int_equal(records[0].dgram.hash, hash_of(text, 1000));
    assert_int_equal(sizes[0], sizeof(struct ips_rec_dgram));
    /* several in one call: 300, 300, 300, 100 */
    begin(NULL);
    ips_record_dgram(u, 6, 77, pieces, 6, 1000, 300, (struct sockaddr *)&to,
                     sizeof(to));
    const uint64_t *behind = (const uint64_t *)(&records[0].dgram + 1);
    assert_int_equal(published, 1);
    assert_int_equal(sizes[0], sizeof(struct ips_rec_dgram) + 8 + 3 * 8);
    assert_int_equal(records[0].dgram.hash, hash_of(text, 300));
    assert_int_equal(behind[0], 300);
    assert_int_equal(behind[1], hash_of(text + 300, 300));
    assert_int_equal(behind[2], hash_of(text + 600, 300));
    assert_int_equal(behind[3], hash_of(text + 900, 100));
    begin(NULL); /* one byte is left for the last */
    ips_record_dgram(u, 6, 77, &all, 1, 301, 300, (struct sockaddr *)&to,
                     sizeof(to));
    assert_int_equal(sizes[0], sizeof(struct ips_rec_dgram) + 8 + 8);
    assert_int_equal(behind[1], hash_of(text + 300, 1));
    /* more than a record has room for: two */
    begin(NULL);
    const uint64_t most = HASHES_BEHIND + 1;
    ips_record_dgram(u, 6, 77, &all, 1, most * 10 + 5, 10,
                     (struct sockaddr *)&to, sizeof(to));
    assert_int_equal(published, 2);
    assert_int_equal(sizes[0], sizeof(struct ips_rec_dgram) + 8 * most);
    assert_int_equal(sizes[1], sizeof(struct ips_rec_dgram) + 8);
    assert_int_equal(records[1].dgram.hash, hash_of(text + most * 10, 5));
    begin(NULL);
    ips_record_dgram(u, 6, 77, &all, 1, most * 10, 10, (struct sockaddr *)&to,
                     sizeof(to));
    assert_int_equal(published, 1);
    no_room = true;
    ips_record_dgram(u, 6, 77, &all, 1, 1000, 0, NULL, 0);
    /* connected: the peer is the kernel's to say */
    begin(NULL);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(u, (struct sockaddr *)&to, sizeof(to)), 0);
    ips_record_dgram(u, 6, 77, &all, 1, 5, 0, NULL, 0);
    assert_int_equal(records[0].dgram.remote.port, 99);
    close(u);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_chan_records__addresses), TEST(test_chan_records__paths),
        TEST(test_chan_records__peers),     TEST(test_chan_records__totals),
        TEST(test_chan_records__fdinfo),    TEST(test_chan_records__closes),
        TEST(test_chan_records__datagrams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
