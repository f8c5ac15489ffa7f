/* Descriptors that agent/preload/io/chan_name.c names: what it records is kept
 * here, and a TCP socket says what the test wants. It includes chan_name.c, for
 * tests that include cmocka.h before. */
#ifndef IPS_TESTS_UNIT_HELP_CHAN_MACHINE_H
#define IPS_TESTS_UNIT_HELP_CHAN_MACHINE_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <mqueue.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "agent/pool/ready.h"
#include "agent/preload/chan_name.h"
#include "agent/preload/sample/sample.h"
#include "agent/record/core.h"
#include "agent/record/cpu.h"
#include "agent/record/own_table.h"
#include "agent/record/sys.h"
#include "agent/unwind/modules.h"

/* ---- what is recorded ---- */

#define RECORDS 4
static union {
    struct ips_rec_chan chan;
    struct ips_rec_close close;
    struct ips_rec_dgram dgram;
    uint64_t words[256];
} records[RECORDS];
static enum ips_rec_type types[RECORDS];
static size_t sizes[RECORDS];
static unsigned begun, published, lost, released, options_noted;
static uint64_t stamps[RECORDS];
static bool no_room;
static struct ips_control shared;

static void *fake_begin_at(enum ips_rec_type type, size_t bytes, uint64_t stamp)
{
    assert_true(begun < RECORDS && bytes <= IPS_REC_MAX_BYTES);
    if (no_room)
        return NULL;
    memset(&records[begun], 0x5a, sizeof(records[begun]));
    types[begun] = type;
    sizes[begun] = bytes;
    stamps[begun] = stamp;
    return &records[begun++];
}
static void *fake_begin(enum ips_rec_type type, size_t bytes)
{
    return fake_begin_at(type, bytes, 4711);
}
static void fake_publish(const void *rec)
{
    assert_ptr_equal(rec, &records[published++]);
}
static void fake_lost(enum ips_lost_cause cause, uint64_t count)
{
    assert_int_equal(cause, IPS_LOST_NO_CHANNEL);
    lost += (unsigned)count;
}
void ips_record_file_lock_releases_of_fd(int fd)
{
    (void)fd;
    released++;
}
void ips_note_if_fd_has_udp_segment_options(int fd)
{
    (void)fd;
    options_noted++;
}
void ips_module_record_once_slow(uint64_t pc)
{
    (void)pc;
}
uint64_t ips_call_site_outside_libc(void)
{
    return 0x1234;
}

/* ---- a TCP socket that says what the test wants ---- */

static struct {
    bool on, refuses, no_unread;
    struct tcp_info info;
    socklen_t len;
    int unread;
} tcp;

static long real_sys3(long n, long a, long b, long c)
{
    return ips_sys3(n, a, b, c);
}
static long real_sys6(long n, long a, long b, long c, long d, long e, long f)
{
    return ips_sys6(n, a, b, c, d, e, f);
}
static long fake_sys3(long n, long a, long b, long c)
{
    if (tcp.on && n == SYS_ioctl && b == FIONREAD) {
        *(int *)c = tcp.unread;
        return tcp.no_unread ? -EINVAL : 0;
    }
    return real_sys3(n, a, b, c);
}
static long fake_sys6(long n, long a, long b, long c, long d, long e, long f)
{
    if (tcp.on && n == SYS_getsockopt && b == IPPROTO_TCP) {
        assert_int_equal(c, TCP_INFO);
        assert_int_equal(*(socklen_t *)e, sizeof(struct tcp_info));
        memcpy((void *)d, &tcp.info, tcp.len);
        *(socklen_t *)e = tcp.len;
        return tcp.refuses ? -EOPNOTSUPP : 0;
    }
    return real_sys6(n, a, b, c, d, e, f);
}

#undef IPS_APART
#define IPS_APART (void)0
#define ips_rec_begin fake_begin
#define ips_rec_begin_at fake_begin_at
#define ips_rec_publish fake_publish
#define ips_core_count_and_write_lost fake_lost
#define ips_core_stamp_now() ((uint64_t)99)
#define ips_core_thread_cpu_ns() ((uint64_t)55)
#define ips_get_or_map_shared_control() (&shared)
#define ips_sys3 fake_sys3
#define ips_sys6 fake_sys6
#include "agent/preload/io/chan_name.c"
#undef ips_sys3
#undef ips_sys6

static int begin(void **state)
{
    (void)state;
    begun = published = lost = released = options_noted = 0;
    no_room = false;
    memset(&tcp, 0, sizeof(tcp));
    return 0;
}

/* Names a descriptor that is not known; its word is in the table. */
static inline uint64_t name(int fd, const struct ips_chan_hint *hint)
{
    begun = published = 0;
    ips_fd_clear(fd);
    uint64_t seen = ips_fd_get(fd);
    uint64_t word = ips_chan_identify_and_record(fd, seen, hint);
    assert_int_equal(begun, published);
    if (word != IPS_FD_NOT_A_CHANNEL)
        assert_int_equal(ips_fd_get(fd), word);
    assert_int_equal(begun, ips_fd_channel_id(word) ? 1 : 0);
    if (begun) {
        const struct ips_rec_chan *c = &records[0].chan;
        struct stat st;
        assert_int_equal(types[0], IPS_REC_CHAN);
        assert_int_equal(sizes[0], sizeof(*c));
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(c->h.a, ips_fd_channel_id(word));
        assert_int_equal(c->fd, fd);
        assert_int_equal(c->dev, st.st_dev);
        assert_int_equal(c->ino, st.st_ino);
    }
    return word;
}

static inline const struct ips_rec_chan *chan(void)
{
    return &records[0].chan;
}

static inline ino_t inode(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    return st.st_ino;
}

static inline uint64_t fnv(const char *text, size_t n)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (uint8_t)text[i]) * 0x100000001b3;
    return hash;
}

static inline int bound(int type, struct sockaddr_in *at)
{
    socklen_t len = sizeof(*at);
    int s = socket(AF_INET, type, 0);
    *at = (struct sockaddr_in){.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(bind(s, (struct sockaddr *)at, sizeof(*at)), 0);
    assert_int_equal(getsockname(s, (struct sockaddr *)at, &len), 0);
    return s;
}

#endif
