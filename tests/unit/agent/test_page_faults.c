/* Page faults that a thread slept for (agent/record/page_faults.c), and the
 * options of UDP sockets (agent/preload/io/segments.c), on counts and answers
 * of the test's own. Catches: sleeps for other things called page faults, a
 * fault counted twice, an option that is not seen, control data of a program
 * read behind its end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include <string.h>
#include <sys/resource.h>

#include "agent/preload/at.h"
#include "agent/record/cpu.h"
#include "agent/record/fast.h"
#include "agent/record/sys.h"

/* ---- page faults ---- */

static struct rusage counted;
static bool refused;
static unsigned asked, records;
static struct ips_rec_cpu record;
static bool no_room;

static long fake_usage(long n, long who, long out, long zero)
{
    assert_int_equal(n, SYS_getrusage);
    assert_int_equal(who, RUSAGE_THREAD);
    assert_int_equal(zero, 0);
    asked++;
    *(struct rusage *)out = counted;
    return refused ? -EPERM : 0;
}
static void *fake_begin(enum ips_rec_type type, size_t bytes, uint64_t stamp)
{
    assert_int_equal(type, IPS_REC_PAGEFAULT);
    assert_int_equal(bytes, sizeof(record));
    assert_int_equal(stamp, 4711);
    return no_room ? NULL : &record;
}
static void fake_publish(const void *rec)
{
    assert_ptr_equal(rec, &record);
    records++;
}

/* ---- options of sockets ---- */

static int segment, joined; /* UDP_SEGMENT, UDP_GRO; < 0: refused */
static unsigned lingers, set;

static long fake_option(long n, long fd, long level, long name, long out,
                        long len, long zero)
{
    assert_int_equal(n, SYS_getsockopt);
    assert_int_equal(fd, 9);
    assert_int_equal(level, 17);
    assert_true(name == 103 || name == 104);
    assert_int_equal(*(socklen_t *)len, 4);
    assert_int_equal(zero, 0);
    asked++;
    int value = name == 103 ? segment : joined;
    *(int *)out = value;
    return value == -2 ? -ENOPROTOOPT : 0;
}
void ips_store_linger_option_used(void)
{
    lingers++;
}
struct ips_real ips_real;
void ips_sample_stop_timer_before_call(uint64_t real)
{
    (void)real;
}
void ips_wrap_initialize_agent(void)
{
    fail(); /* it is on */
}
static int real_setsockopt(int fd, int level, int name, const void *value,
                           socklen_t len)
{
    (void)level;
    (void)name;
    (void)value;
    (void)len;
    set++;
    return fd == 9 ? 0 : -1;
}

#define ips_sys3 fake_usage
#define ips_rec_begin_at fake_begin
#define ips_rec_publish fake_publish
#define ips_page_faults_skip_earlier faults_begin
#define ips_page_faults_store_seen_counts faults_note
#define ips_page_faults_write_if_new_in_counts faults_write
#define ips_page_faults_write_if_any faults_write_if_any
void faults_begin(void);
void faults_note(const struct rusage *ru);
void faults_write(const struct rusage *ru, uint64_t t, uint64_t cpu);
void faults_write_if_any(uint64_t t, uint64_t cpu);
#include "agent/record/page_faults.c"
#undef ips_sys3
#define ips_sys6 fake_option
#include "agent/preload/io/segments.c"
#undef ips_sys6

static const uint64_t alive = IPS_ALIVE, dead = 0;
static struct ips_control control;

static int begin(void **state)
{
    (void)state;
    memset(&counted, 0, sizeof(counted));
    memset(&ips_me.cpu, 0, sizeof(ips_me.cpu));
    refused = no_room = false;
    asked = records = lingers = set = 0;
    control.delays = 1;
    ips_core.control = &control;
    ips_core.main_stream = true;
    ips_core.alive = &alive;
    ips_core.wrap_state = IPS_WRAP_ON;
    ips_me.in_vfork = ips_me.own_table = false;
    ips_me.stream.state = IPS_STREAM_BEGUN;
    ips_me.stream.generation = ips_core.generation;
    ips_sys_quiet = false;
    segment = joined = 0;
    atomic_store(&sends_cut, false);
    atomic_store(&receives_joined, false);
    ips_real.setsockopt = real_setsockopt;
    return 0;
}

static void test_page_faults__of_sleeps(void **state)
{
    (void)state;
    static const struct {
        int faults, sleeps;
        bool are;
    } cases[] = {{0, 0, false}, {1, 1, true},  {1, 2, false}, {3, 4, false},
                 {4, 5, true},  {4, 6, false}, {8, 10, true}, {8, 11, false},
                 {2, 0, true},  {0, 5, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        begin(NULL);
        counted.ru_majflt = 70;
        counted.ru_nvcsw = 900;
        faults_begin();
        counted.ru_majflt += cases[i].faults;
        counted.ru_nvcsw += cases[i].sleeps;
        for (int again = 0; again < 2; again++) /* each is said once */
            faults_write_if_any(4711, 55);
        assert_int_equal(records, cases[i].are);
        if (cases[i].are) {
            assert_int_equal(record.h.a, cases[i].faults);
            assert_int_equal(record.cpu, 55);
        }
        assert_int_equal(ips_me.cpu.faults_seen, 70 + cases[i].faults);
        assert_int_equal(ips_me.cpu.guess.switches, 900 + cases[i].sleeps);
    }
    /* a handler has looked meanwhile, and knows of more */
    struct rusage before = counted;
    before.ru_majflt -= 1;
    faults_write(&before, 4711, 55);
    assert_int_equal(ips_me.cpu.faults_seen, counted.ru_majflt);
    no_room = true;
    records = 0;
    counted.ru_majflt++;
    faults_write_if_any(4711, 55);
    assert_int_equal(records, 0);
}

static void test_page_faults__wanted(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        begin(NULL);
        counted.ru_majflt = 1;
        ips_core.main_stream = i != 1;
        ips_core.alive = i == 2 ? &dead : &alive;
        ips_me.in_vfork = i == 3;
        ips_me.own_table = i == 4;
        ips_me.stream.state = i == 5 ? IPS_STREAM_NEW : IPS_STREAM_BEGUN;
        ips_me.stream.generation = ips_core.generation + (i == 6);
        control.delays = i != 7;
        ips_sys_quiet = i == 8;
        refused = i == 9;
        faults_write_if_any(4711, 55);
        assert_int_equal(records, i == 0);
        assert_int_equal(asked, i == 0 || i == 9);
    }
    begin(NULL);
    counted.ru_majflt = 6;
    refused = true;
    faults_begin();
    ips_sys_quiet = true;
    faults_begin();
    assert_int_equal(asked, 1);
    assert_int_equal(ips_me.cpu.faults_seen, 0);
}

static void test_page_faults__options_of_sockets(void **state)
{
    (void)state;
    struct ips_io io = {.fd = 9};
    segment = 100;
    joined = 1;
    /* nobody asks in a process that has seen none of them */
    assert_int_equal(ips_sent_segment_bytes(&io), 0);
    assert_false(ips_must_ask_segment_size(&io));
    assert_int_equal(asked, 0);
    joined = 0;
    ips_note_if_fd_has_udp_segment_options(9);
    assert_int_equal(asked, 2);
    assert_int_equal(ips_sent_segment_bytes(&io), 100);
    assert_false(ips_must_ask_segment_size(&io));
    asked = 0;
    joined = 1;
    ips_note_if_fd_has_udp_segment_options(
        9); /* the one that is known is not asked for */
    assert_int_equal(asked, 1);
    assert_true(ips_must_ask_segment_size(&io));
    asked = 0;
    ips_note_if_fd_has_udp_segment_options(9);
    assert_int_equal(asked, 0);
    ips_sys_quiet = true;
    assert_false(ips_must_ask_segment_size(&io));
    ips_sys_quiet = false;
    joined = 0;
    assert_false(ips_must_ask_segment_size(&io));
    segment = joined = -1;
    assert_int_equal(ips_sent_segment_bytes(&io), 0);
    assert_false(ips_must_ask_segment_size(&io));
    segment = -2;
    assert_int_equal(ips_sent_segment_bytes(&io), 0);
    io.segment = 30; /* of this call */
    assert_int_equal(ips_sent_segment_bytes(&io), 30);
}

static void test_page_faults__options_that_are_set(void **state)
{
    (void)state;
    struct linger l = {1, 5};
    int one = 1;
    static const struct {
        int fd, level, name;
        bool on, cut, join;
    } cases[] = {{9, IPPROTO_UDP, 103, true, true, false},
                 {9, IPPROTO_UDP, 104, true, false, true},
                 {9, IPPROTO_UDP, 105, true, false, false},
                 {8, IPPROTO_UDP, 103, true, false, false},
                 {9, IPPROTO_TCP, 103, true, false, false},
                 {9, IPPROTO_UDP, 103, false, false, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        begin(NULL);
        ips_core.wrap_state = cases[i].on ? IPS_WRAP_ON : IPS_WRAP_OFF;
        assert_int_equal(
            setsockopt(cases[i].fd, cases[i].level, cases[i].name, &one, 4),
            cases[i].fd == 9 ? 0 : -1);
        assert_int_equal(set, 1);
        assert_int_equal(atomic_load(&sends_cut), cases[i].cut);
        assert_int_equal(atomic_load(&receives_joined), cases[i].join);
    }
    begin(NULL);
    setsockopt(9, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
    assert_int_equal(lingers, 1);
    setsockopt(9, SOL_SOCKET, SO_LINGER, &l, sizeof(l) - 1);
    setsockopt(8, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
    setsockopt(9, IPPROTO_UDP, SO_LINGER, &l, sizeof(l));
    setsockopt(9, SOL_SOCKET, SO_KEEPALIVE, &l, sizeof(l));
    ips_core.wrap_state = IPS_WRAP_OFF;
    setsockopt(9, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
    ips_core.wrap_state = IPS_WRAP_ON;
    l.l_linger = 0;
    setsockopt(9, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
    l = (struct linger){0, 5};
    setsockopt(9, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
    assert_int_equal(lingers, 1);
    l = (struct linger){1, 1};
    setsockopt(9, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
    assert_int_equal(lingers, 2);
}

/* One piece of control data; returns its bytes, padded. */
static size_t put(char *at, int level, int type, const void *value, size_t n)
{
    struct cmsghdr c = {
        .cmsg_len = CMSG_LEN(n), .cmsg_level = level, .cmsg_type = type};
    memcpy(at, &c, sizeof(c));
    memcpy(at + CMSG_LEN(0), value, n);
    return CMSG_SPACE(n);
}

static void test_page_faults__control_data(void **state)
{
    (void)state;
    char data[200] = {0};
    struct msghdr msg = {.msg_control = data};
    const int value = 70000, zero = 0, below = -1;
    const uint16_t half = 1200;
    const char byte = 5;
    size_t first = put(data, SOL_SOCKET, 103, &value, 4);
    size_t all = first + put(data + first, IPPROTO_UDP, 103, &half, 2);
    assert_int_equal(ips_segment_bytes_in_control(&msg, 103), 0);
    msg.msg_controllen = all;
    assert_int_equal(ips_segment_bytes_in_control(&msg, 103), 1200);
    assert_int_equal(ips_segment_bytes_in_control(&msg, 104), 0);
    msg.msg_controllen = first + CMSG_LEN(2); /* not padded at its end */
    assert_int_equal(ips_segment_bytes_in_control(&msg, 103), 1200);
    msg.msg_controllen = first + CMSG_LEN(2) - 1; /* cut */
    assert_int_equal(ips_segment_bytes_in_control(&msg, 103), 0);
    msg.msg_controllen = first;
    assert_int_equal(ips_segment_bytes_in_control(&msg, 103), 0);
    msg.msg_control = NULL;
    assert_int_equal(ips_segment_bytes_in_control(&msg, 103), 0);
    msg.msg_control = data;
    static const size_t sizes[] = {4, 2, 1};
    const void *values[] = {&value, &half, &byte};
    static const uint32_t bytes[] = {70000, 1200, UINT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        msg.msg_controllen = put(data, IPPROTO_UDP, 104, values[i], sizes[i]);
        assert_int_equal(ips_segment_bytes_in_control(&msg, 104), bytes[i]);
    }
    /* one datagram, whatever the socket's option is */
    put(data, IPPROTO_UDP, 104, &zero, 4);
    assert_int_equal(ips_segment_bytes_in_control(&msg, 104), UINT32_MAX);
    put(data, IPPROTO_UDP, 104, &below, 4);
    assert_int_equal(ips_segment_bytes_in_control(&msg, 104), UINT32_MAX);
    /* shorter than its own head: no loop */
    ((struct cmsghdr *)(void *)data)->cmsg_len = sizeof(struct cmsghdr) - 1;
    msg.msg_controllen = sizeof(data);
    assert_int_equal(ips_segment_bytes_in_control(&msg, 104), 0);
    ((struct cmsghdr *)(void *)data)->cmsg_len = 0;
    assert_int_equal(ips_segment_bytes_in_control(&msg, 104), 0);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_page_faults__of_sleeps),
        TEST(test_page_faults__wanted),
        TEST(test_page_faults__options_of_sockets),
        TEST(test_page_faults__options_that_are_set),
        TEST(test_page_faults__control_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
