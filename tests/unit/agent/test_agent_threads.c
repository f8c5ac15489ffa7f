/* The known threads of a process (agent/record/threads.c), and those that never
 * recorded, from lists of the test's own. Catches: a thread that is forgotten
 * or counted twice, CPU time of another one, a slot behind the last. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last of these */
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/record/own_table.h"
#include "agent/record/stream.h"
#include "agent/record/sys.h"

#define MOST 2000
static struct {
    uint32_t tid[MOST];
    uint64_t cpu[MOST];
    unsigned count;
} said, silent;
static union {
    struct ips_rec_cpu cpu;
    struct ips_rec_end end;
} record;
static bool no_room, no_memory;
static unsigned maps, resets, ends;
static nlink_t links;
static uint32_t own, dead;
static char directory[] = "/tmp/ips-threads-XXXXXX";

/* A thread's CPU clock says 1000 for each of its number, or nothing. */
static uint64_t fake_clock(int clock)
{
    uint32_t tid = ~(uint32_t)(clock >> 3);
    assert_int_equal(clock & 7, 6);
    return tid == 77 ? 0 : tid * (uint64_t)1000;
}
static void *fake_begin(enum ips_rec_type type, size_t bytes)
{
    assert_int_equal(type, IPS_REC_THREADCPU);
    assert_int_equal(bytes, sizeof(record.cpu));
    return no_room ? NULL : &record;
}
static void *fake_begin_stream(struct ips_stream *s, enum ips_rec_type type,
                               size_t bytes, uint64_t stamp)
{
    assert_int_equal(type, IPS_REC_END);
    assert_int_equal(bytes, sizeof(record.end));
    assert_int_equal(stamp, 99);
    assert_true(s->stamp == 99 && s->start_t == 99);
    assert_int_equal(s->start_kind, IPS_START_THREAD);
    assert_int_equal(s->ppid, 50);
    assert_int_equal(s->parent_image, 4711);
    assert_int_equal(s->generation, ips_core.generation);
    silent.tid[silent.count] = s->tid;
    return no_room ? NULL : &record;
}
static void fake_publish(const void *rec)
{
    assert_ptr_equal(rec, &record);
    said.tid[said.count] = record.cpu.h.a;
    said.cpu[said.count++] = record.cpu.cpu;
}
static void fake_end(struct ips_stream *s)
{
    assert_int_equal(s->tid, silent.tid[silent.count]);
    silent.count++;
    ends++;
}
static uint64_t real_map(uint64_t at, size_t bytes, int prot, int flags, int fd)
{
    return ips_sys_mmap(at, bytes, prot, flags, fd);
}
static uint64_t fake_map(uint64_t at, size_t bytes, int prot, int flags, int fd)
{
    maps++;
    return no_memory ? (uint64_t)-ENOMEM : real_map(at, bytes, prot, flags, fd);
}
static int fake_stat(const char *path, struct stat *st)
{
    assert_string_equal(path, "/proc/self/task");
    st->st_nlink = links;
    return links ? 0 : -ENOENT;
}
static bool fake_path(char *out, size_t bytes, const char *link,
                      const char *after)
{
    assert_string_equal(link, "self");
    assert_string_equal(after, "/task");
    snprintf(out, bytes, "%s", directory);
    return true;
}
static bool fake_own(uint32_t tid)
{
    return tid == own;
}
static void fake_reset(void)
{
    resets++;
}
static long real_sys3(long n, long a, long b, long c)
{
    return ips_sys3(n, a, b, c);
}
static long fake_sys3(long n, long a, long b, long c)
{
    if (n != SYS_tgkill)
        return real_sys3(n, a, b, c);
    assert_int_equal(a, 50);
    assert_int_equal(c, 0);
    return b == dead ? -ESRCH : 0;
}

#define ips_sys_clock_ns fake_clock
#define ips_rec_begin fake_begin
#define ips_rec_publish fake_publish
#define ips_stream_begin_record fake_begin_stream
#define ips_stream_close_segments_and_mark_ended fake_end
#define ips_sys_mmap fake_map
#define ips_sys_stat fake_stat
#define ips_build_proc_path_resolving_link fake_path
#define ips_own_fd_table_is_helper_tid fake_own
#define ips_own_fd_table_reset_after_fork fake_reset
#define ips_sys3 fake_sys3
#define ips_core_stamp_now() ((uint64_t)99)
#define ips_threads_add add
#define ips_threads_move_to_ended leave
#define ips_threads_clear_lists_after_fork reset
#define ips_threads_record_cpu_of_others record_all
#define ips_threads_record_silent_threads_at_end record_silent
void add(uint32_t tid);
void leave(uint32_t tid);
void reset(void);
void record_all(uint32_t except);
void record_silent(void);
#include "agent/record/threads.c"
#undef ips_sys3

static int begin(void **state)
{
    (void)state;
    reset();
    memset(&said, 0, sizeof(said));
    memset(&silent, 0, sizeof(silent));
    no_room = no_memory = false;
    resets = ends = maps = 0;
    own = dead = 0;
    links = 9;
    ips_core.pid = 50;
    ips_core.image_stamp = 4711;
    ips_own_table_on = false;
    if (&__libc_single_threaded)
        __libc_single_threaded = 0;
    return 0;
}

/* Those of whom CPU time is said are these, each once. */
static void assert_said(uint32_t first, uint32_t last, uint32_t without)
{
    char seen[MOST + 1] = {0};
    said.count = 0;
    record_all(without);
    for (unsigned i = 0; i < said.count; i++) {
        uint32_t tid = said.tid[i];
        assert_true(tid >= first && tid <= last && tid != without);
        assert_int_equal(seen[tid]++, 0);
        assert_int_equal(said.cpu[i], tid * 1000);
    }
    int none = (without >= first && without <= last) +
               (77 >= first && 77 <= last && without != 77);
    assert_int_equal(said.count, (int)(last - first) + 1 - none);
}

static void test_agent_threads__known(void **state)
{
    (void)state;
    for (uint32_t tid = 1; tid <= 16; tid++)
        add(tid);
    assert_int_equal(maps, 0); /* they fit what is there */
    assert_said(1, 16, 0);
    assert_said(1, 16, 5);
    for (uint32_t tid = 17; tid <= 16 + 1024; tid++)
        add(tid);
    assert_int_equal(maps, 1);
    for (uint32_t tid = 1; tid <= 16 + 1024; tid++)
        add(tid); /* again */
    assert_said(1, 1040, 0);
    no_memory = true;
    add(1041); /* no room for it: it has no slot */
    assert_int_equal(maps, 2);
    assert_false(is_thread_in_list(1041));
    no_memory = false;
    add(1041);
    assert_said(1, 1041, 0);
    leave(1);
    leave(1041);
    assert_said(2, 1040, 0);
    assert_true(has_thread_ended_recently(1) &&
                has_thread_ended_recently(1041) &&
                !has_thread_ended_recently(2));
    add(1); /* a number that is used again takes the free place */
    assert_said(1, 1040, 0);
    leave(4999); /* not known, but ended */
    assert_true(has_thread_ended_recently(4999));
    reset();
    assert_int_equal(resets, 1);
    said.count = 0;
    record_all(0);
    assert_int_equal(said.count, 0);
    assert_false(has_thread_ended_recently(1) ||
                 has_thread_ended_recently(4999));
    assert_int_equal(maps, 3); /* blocks stay */
}

static void test_agent_threads__ended(void **state)
{
    (void)state;
    for (uint32_t tid = 1000; tid < 1000 + ENDED; tid++)
        leave(tid);
    for (uint32_t tid = 1000; tid < 1000 + ENDED; tid++)
        assert_true(has_thread_ended_recently(tid));
    leave(5000);
    assert_true(has_thread_ended_recently(5000));
    unsigned left = 0;
    for (uint32_t tid = 1000; tid < 1000 + ENDED; tid++)
        left += has_thread_ended_recently(tid);
    assert_int_equal(left, ENDED - 1); /* the oldest has gone */
    no_room = true;
    add(3);
    record_all(0);
    assert_int_equal(said.count, 0);
    reset();
    for (uint32_t tid = 1000; tid < 1000 + ENDED; tid++)
        assert_false(has_thread_ended_recently(tid));
}

static void test_agent_threads__numbers(void **state)
{
    (void)state;
    assert_int_equal(parse_tid("0"), 0);
    assert_int_equal(parse_tid("9"), 9);
    assert_int_equal(parse_tid("4194304"), 4194304);
    assert_int_equal(parse_tid("12x"), 0);
    assert_int_equal(parse_tid("."), 0);
    assert_int_equal(parse_tid("1/"), 0);
    assert_int_equal(parse_tid("1:"), 0);
    assert_int_equal(thread_cpu_clock_id(1), -10); /* as the kernel makes it */
}

static void test_agent_threads__silent(void **state)
{
    (void)state;
    static const char *const names[] = {"50", "51", "52", "53", "54",
                                        "55", "56", "x",  "57x"};
    char path[100];
    assert_non_null(mkdtemp(directory));
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
        close(open(path, O_CREAT | O_WRONLY, 0600));
    }
    add(51);
    leave(52);
    own = 53;
    dead = 54;
    int before = dup(0);
    record_silent(); /* 50 is the process: 55 and 56 */
    int after = dup(0);
    assert_int_equal(after, before + 1);
    close(before);
    close(after);
    assert_int_equal(silent.count, 2);
    assert_int_equal(silent.tid[0] + silent.tid[1], 55 + 56);
    assert_int_equal(ends, 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(said.tid[i], IPS_END_THREAD);
        assert_int_equal(said.cpu[i], silent.tid[i] * 1000);
    }
    no_room = true; /* its stream ends all the same */
    silent.count = 0;
    record_silent();
    assert_int_equal(ends, 4);
    assert_int_equal(said.count, 2);
    silent.count = 0;
    links = 3; /* one thread: nothing is listed */
    record_silent();
    links = 0;
    record_silent();
    links = 9;
    if (&__libc_single_threaded) {
        __libc_single_threaded = 1;
        record_silent();
        __libc_single_threaded = 0;
    }
    assert_int_equal(silent.count, 0);
    links = 4;
    record_silent();
    assert_int_equal(silent.count, 2);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
        unlink(path);
    }
    rmdir(directory);
    silent.count = 0;
    record_silent(); /* not there */
    assert_int_equal(silent.count, 0);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_agent_threads__known),
        TEST(test_agent_threads__ended),
        TEST(test_agent_threads__numbers),
        TEST(test_agent_threads__silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
