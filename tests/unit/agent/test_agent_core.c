/* The recording core in real processes: threads, forks, signal handlers,
 * SIGKILL. Every case forks the writer and reads its pool. */
#include "agent/record/thread.h"
#include "tests/unit/help/core_help.h"
#include "tests/unit/help/emulated.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* --- threads and forks --------------------------------------------- */

enum { THREADS = 4 };

static void threads_and_forks(void *arg)
{
    (void)arg;
    pthread_t t[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, core_thread_body, (void *)(i + 1));
    uint64_t image = ips_core_image_stamp();
    uint64_t seq = ips_core_prepare_fork_and_get_seq();
    uint32_t parent = (uint32_t)getpid();
    pid_t pid = fork();
    if (pid == 0) {
        ips_core_reset_and_start_in_fork_child(seq, parent, parent, image);
        for (uint64_t i = 0; i < CORE_EACH; i++)
            write_one(10, i);
        ips_core_record_process_end(IPS_END_EXIT, 3);
        _exit(3);
    }
    for (uint64_t i = 0; i < CORE_EACH; i++)
        write_one(0, i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    waitpid(pid, NULL, 0);
    ips_core_record_process_end(IPS_END_PROVISIONAL, 0);
    write_one(0, CORE_EACH); /* stdio's flush at exit still counts */
}

/* ThreadSanitizer's runtime and an emulator have a thread of their own in each
 * process, which the agent speaks for at the end. */
#ifdef __SANITIZE_THREAD__
#define RUNTIME_THREADS 2
#else
#define RUNTIME_THREADS (emulated() ? 2 : 0)
#endif

/* Would catch: two writers in one segment, a record lost or doubled at a
 * change of segments, a fork child that goes on in its parent's stream. */
static void test_agent_core__threads_and_forks_have_streams(void **state)
{
    (void)state;
    struct pool_dir p;
    pool_help_make(&p, NULL);
    small_segments(&p);
    assert_int_equal(in_child(&p, threads_and_forks, NULL), 0);
    struct seen s = read_all(&p, true);
    assert_int_equal(s.count[0], CORE_EACH + 1);
    for (int i = 1; i <= THREADS; i++)
        assert_int_equal(s.count[i], CORE_EACH);
    assert_int_equal(s.count[10], CORE_EACH);
    assert_int_equal(s.torn, 0);
    assert_int_equal(s.starts[IPS_START_IMAGE], 1);
    assert_int_equal(s.starts[IPS_START_THREAD], THREADS + RUNTIME_THREADS);
    assert_int_equal(s.starts[IPS_START_FORK], 1);
    assert_int_equal(s.ends[IPS_END_THREAD], THREADS + RUNTIME_THREADS);
    assert_int_equal(s.ends[IPS_END_EXIT], 1);
    assert_int_equal(s.ends[IPS_END_PROVISIONAL], 1);
    pool_help_remove(&p);
}

/* --- death at any moment ------------------------------------------- */

static _Atomic uint64_t *progress; /* shared: what the writer published */

static void *endless_body(void *arg)
{
    uint32_t source = (uint32_t)(uintptr_t)arg;
    if (source)
        ips_core_begin_thread_stream(source, 1);
    for (uint64_t i = 0;; i++)
        if (write_one(source, i))
            progress[source] = i + 1;
        else
            _exit(92);
    return NULL;
}

static void endless(void *arg)
{
    (void)arg;
    pthread_t t;
    pthread_create(&t, NULL, endless_body, (void *)1);
    endless_body(NULL);
}

/* Would catch: publishing before the record is whole, a record published and
 * not found after SIGKILL, a reader stopped by a torn reservation. */
static void test_agent_core__killed_writer_loses_nothing(void **state)
{
    (void)state;
    progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned seed = (unsigned)time(NULL);
    uint64_t records = 0;
    for (int round = 0; round < 40; round++) {
        struct pool_dir p;
        pool_help_make(&p, NULL);
        small_segments(&p);
        progress[0] = progress[1] = 0;
        pid_t pid = fork();
        if (pid == 0) {
            record_here(&p);
            endless(NULL);
        }
        usleep((500 + (unsigned)rand_r(&seed) % 4000) * (emulated() ? 20 : 1));
        kill(pid, SIGKILL);
        int status;
        waitpid(pid, &status, 0);
        assert_true(WIFSIGNALED(status));
        struct seen s = read_all(&p, true);
        for (int i = 0; i < 2; i++) {
            /* One may be published and not yet counted by the writer. */
            assert_in_range(s.count[i], progress[i], progress[i] + 1);
            records += s.count[i];
        }
        assert_in_range(s.torn, 0, 2);
        pool_help_remove(&p);
    }
    assert_true(records > 1000);
    munmap((void *)(uintptr_t)progress, 4096);
}

/* --- signal handlers ----------------------------------------------- */

static volatile uint64_t from_handler;
static sigjmp_buf back;
static volatile bool jump;

static void on_signal(int sig)
{
    (void)sig;
    for (int i = 0; i < 50; i++)
        if (write_one(1, from_handler))
            from_handler++;
    if (jump)
        siglongjmp(back, 1);
}

static void start_timer(void)
{
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &sa, NULL);
    struct itimerval every = {{0, 150}, {0, 150}};
    setitimer(ITIMER_REAL, &every, NULL);
}

static void handlers(void *arg)
{
    (void)arg;
    start_timer();
    uint64_t i = 0;
    for (; from_handler < 100000; i++)
        if (!write_one(0, i))
            _exit(92);
    signal(SIGALRM, SIG_IGN);
    progress[0] = i;
    progress[1] = from_handler;
}

static void handlers_that_jump(void *arg)
{
    (void)arg;
    static volatile uint64_t i;
    jump = true;
    if (sigsetjmp(back, 1) == 0)
        start_timer();
    i++; /* the interrupted one is torn, or was published */
    while (from_handler < 20000) {
        if (!write_one(0, i))
            _exit(92);
        i++;
    }
    signal(SIGALRM, SIG_IGN);
    progress[0] = i;
    progress[1] = from_handler;
}

/* Would catch: a reservation that is not one instruction, a handler's change
 * of segments under a half-made reservation. */
static void test_agent_core__handlers_record_in_between(void **state)
{
    (void)state;
    struct pool_dir p;
    progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pool_help_make(&p, NULL);
    small_segments(&p);
    assert_int_equal(in_child(&p, handlers, NULL), 0);
    struct seen s = read_all(&p, true);
    assert_int_equal(s.count[0], progress[0]);
    assert_int_equal(s.count[1], progress[1]);
    /* A reservation that did not fit, and a handler before it was given back:
     * an empty place is left, which counts as torn. An emulator delivers
     * signals right there. */
    assert_in_range(s.torn, 0, emulated() ? 8 : 0);
    pool_help_remove(&p);

    pool_help_make(&p, NULL);
    small_segments(&p);
    assert_int_equal(in_child(&p, handlers_that_jump, NULL), 0);
    s = read_all(&p, false);
    assert_int_equal(s.count[1], progress[1]);
    assert_true(s.count[0] + s.torn <= progress[0]);
    pool_help_remove(&p);
    munmap((void *)(uintptr_t)progress, 4096);
}

/* --- processes ----------------------------------------------------- */

static void raw_fork(void *arg)
{
    (void)arg;
    write_one(0, 0);
    int pid = (int)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        write_one(1, 0);
        write_one(1, 1);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    if (status)
        _exit(96);
    write_one(0, 1);
    ips_me.in_vfork = true;
    if (write_one(0, 2))
        _exit(97);
    ips_me.in_vfork = false;
    write_one(0, 2);
}

/* Would catch: a child of a raw clone that writes into its parent's segment
 * (or into memory it has not), a record made in a vfork child. */
static void test_agent_core__unannounced_fork_is_noticed(void **state)
{
    (void)state;
    SKIP_IF_EMULATED("MADV_WIPEONFORK");
    struct pool_dir p;
    pool_help_make(&p, NULL);
    assert_int_equal(in_child(&p, raw_fork, NULL), 0);
    struct seen s = read_all(&p, true);
    assert_int_equal(s.count[0], 3);
    assert_int_equal(s.count[1], 2);
    assert_int_equal(s.starts[IPS_START_FORK], 1);
    assert_int_equal(s.torn, 0);
    pool_help_remove(&p);
}

static void fork_in_handler_frame(void *arg)
{
    (void)arg;
    /* As a handler would that interrupts between reserve and publish. */
    struct ips_rec_io *r = ips_rec_begin(IPS_REC_BLOCK, sizeof(*r));
    uint64_t image = ips_core_image_stamp(),
             seq = ips_core_prepare_fork_and_get_seq();
    uint32_t pid = (uint32_t)getpid();
    pid_t child = fork();
    if (child == 0)
        ips_core_reset_and_start_in_fork_child(seq, pid, pid, image);
    write_one(child ? 1 : 2, 0);
    if (r->h.word == 0)
        _exit(97); /* something else lies there now */
    r->t_ret = mix(0, 0, 1);
    r->cpu = mix(0, 0, 2);
    r->cpu_ret = mix(0, 0, 3);
    r->result = (int64_t)mix(0, 0, 4);
    ips_rec_publish(r);
    int status = 0;
    if (child)
        waitpid(child, &status, 0);
    _exit(status ? 98 : 0);
}

/* Would catch: a child that faults when it comes back to a record its parent
 * had begun. */
static void test_agent_core__fork_inside_a_record(void **state)
{
    (void)state;
    struct pool_dir p;
    pool_help_make(&p, NULL);
    assert_int_equal(in_child(&p, fork_in_handler_frame, NULL), 0);
    struct seen s = read_all(&p, true);
    assert_int_equal(s.count[0], 1);
    assert_int_equal(s.count[1], 1);
    assert_int_equal(s.count[2], 1);
    pool_help_remove(&p);
}

static _Atomic bool go_on;

static void *burning_body(void *arg)
{
    ips_core_begin_thread_stream(1, 1);
    struct timespec ts;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    while (ts.tv_nsec < 20000000);
    go_on = true;
    pause();
    return arg;
}

static void burning(void *arg)
{
    (void)arg;
    pthread_t t;
    pthread_create(&t, NULL, burning_body, NULL);
    while (!go_on)
        pause_ms(1);
    ips_core_record_process_end(IPS_END_EXIT, 0);
}

/* Would catch: a wrong clock id, threads that are not known at the end. */
static void test_agent_core__cpu_of_other_threads_at_the_end(void **state)
{
    (void)state;
    struct pool_dir p;
    pool_help_make(&p, NULL);
    assert_int_equal(in_child(&p, burning, NULL), 0);
    struct seen s = read_all(&p, true);
    assert_in_range(s.thread_cpu, 20000000, 1000000000);
    pool_help_remove(&p);
}

static void *begun_body(void *arg)
{
    if (!write_one(1, 0)) /* as a handler of a signal that pended */
        _exit(91);
    ips_core_begin_thread_stream(77, 1);
    ips_core_begin_thread_stream(77, 1); /* another announcement */
    ips_core_end_thread_stream();
    return arg;
}

static void begun_before(void *arg)
{
    (void)arg;
    pthread_t t;
    pthread_create(&t, NULL, begun_body, NULL);
    pthread_join(t, NULL);
}

/* Would catch: a thread that a handler has begun to record beginning anew, with
 * a stream whose first segment is its second; its maker never said. */
static void test_agent_core__thread_begun_by_a_handler(void **state)
{
    (void)state;
    struct pool_dir p;
    pool_help_make(&p, NULL);
    assert_int_equal(in_child(&p, begun_before, NULL), 0);
    struct seen s = read_all(&p, true);
    assert_int_equal(s.count[1], 1);
    assert_int_equal(s.starts[IPS_START_THREAD], 1);
    assert_int_equal(s.starts[IPS_START_KNOWN], 1);
    assert_int_equal(s.ends[IPS_END_THREAD], 1);
    pool_help_remove(&p);
}

static void other_user(void *arg)
{
    (void)arg;
    if (setuid(65534) < 0)
        _exit(95);
    pthread_t t;
    pthread_create(&t, NULL, core_thread_body, (void *)1);
    pthread_join(t, NULL);
}

/* Would catch: a program that changes its user and is traced no longer. */
static void test_agent_core__follows_a_change_of_user(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("only root changes user: skipped\n");
        skip();
    }
    struct pool_dir p;
    pool_help_make(&p, NULL);
    chmod(p.root, 0711); /* as ips_pool_make_or_join_run makes it for root */
    assert_int_equal(in_child(&p, other_user, NULL), 0);
    assert_int_equal(read_all(&p, true).count[1], CORE_EACH);
    pool_help_remove(&p);
}

/* A segment full of CLOSED records is given back while the writer goes on. */
struct drain {
    struct seen seen;
    unsigned drained;
};

static void drain_closed(const struct pool_segment *seg, void *arg)
{
    const struct pool_dir *p = arg;
    char path[900];
    if (atomic_load(&seg->head.state) != IPS_SEGMENT_CLOSED)
        return;
    snprintf(path, sizeof(path), "%s/%s", p->dir, seg->file);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct ips_err err = {0};
    assert_int_equal(ips_segment_zero_and_set_drained(fd, 0, &err), 0);
    close(fd);
}

static void nothing(const struct pool_segment *seg, const void *rec, size_t len,
                    void *arg)
{
    (void)seg, (void)rec, (void)len, (void)arg;
}

/* The segments' order by name is not that of their records any more. */
static void count_block(const struct pool_segment *seg, const void *rec,
                        size_t len, void *arg)
{
    uint64_t *count = arg;
    (void)seg, (void)len;
    *count += ips_rec_type(rec) == IPS_REC_BLOCK;
}
static void no_end(const struct pool_segment *seg, void *arg)
{
    (void)seg, (void)arg;
}
static uint64_t not_drained(const struct pool_dir *p)
{
    uint64_t count = 0;
    pool_help_read(p, count_block, no_end, &count);
    return count;
}

static void in_step(void *arg)
{
    int *fds = arg;
    char c;
    uint64_t i = 0;
    for (int round = 0; round < 20; round++) {
        for (int k = 0; k < fds[3]; k++)
            write_one(0, i++);
        if (write(fds[1], "w", 1) != 1 || read(fds[2], &c, 1) != 1)
            _exit(99);
    }
}

static unsigned files_used(int each_round)
{
    struct pool_dir p;
    pool_help_make(&p, NULL);
    small_segments(&p);
    int there[2], back_[2];
    assert_int_equal(pipe(there), 0);
    assert_int_equal(pipe(back_), 0);
    int fds[] = {-1, there[1], back_[0], each_round};
    pid_t pid = fork();
    if (pid == 0) {
        record_here(&p);
        in_step(fds);
        _exit(0);
    }
    char c;
    unsigned files = 0;
    uint64_t left = 0; /* not drained yet */
    for (int round = 0; round < 20; round++) {
        assert_int_equal(read(there[0], &c, 1), 1);
        assert_int_equal(not_drained(&p), left + (uint64_t)each_round);
        files = pool_help_read(&p, nothing, drain_closed, &p);
        left = not_drained(&p);
        assert_int_equal(write(back_[1], "r", 1), 1);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    struct seen s = read_all(&p, false);
    assert_in_range(s.next[0], 20 * each_round, 20 * each_round);
    for (int i = 0; i < 2; i++) {
        close(there[i]);
        close(back_[i]);
    }
    pool_help_remove(&p);
    return files;
}

/* Would catch: a drained segment that is not used again (the pool would grow
 * for ever), stale records in it. */
static void test_agent_core__drained_segments_are_used_again(void **state)
{
    (void)state;
    /* 20 * 1000 records of 64 bytes are 20 segments' worth. */
    assert_in_range(files_used(1000), 2, 4);
    /* The newest used again is full to a varying part. */
    for (int each = 249; each < 259; each++)
        assert_in_range(files_used(each), 2, 4);
    /* A slave that is five segments behind; 100 of them. */
    assert_in_range(files_used(5000), 5, 9);
}

#if defined(__x86_64__)
#define ONE_PAGE 4096
#else
#define ONE_PAGE 65536 /* the greatest that the architecture runs with */
#endif

static void one_event(void *arg)
{
    (void)arg;
    _exit(write_one(0, 0) ? 0 : 99);
}

static void takes_one_page(const struct pool_segment *seg, void *arg)
{
    const struct pool_dir *p = arg;
    char path[900];
    struct stat st;
    snprintf(path, sizeof(path), "%.600s/%.256s", p->dir, seg->file);
    assert_int_equal(stat(path, &st), 0);
    /* A machine may run with smaller pages than the greatest. */
    assert_in_range(st.st_blocks * 512, 4096, ONE_PAGE);
    assert_int_equal(st.st_mode & 07777, 0600);
}

/* Would catch: more of the pool made for a thread than its first event needs
 * (thousands of short processes would fill it), a page that the quota does not
 * know, a file that its owner cannot open because of his umask. */
static void test_agent_core__first_event_costs_a_page(void **state)
{
    (void)state;
    static const mode_t masks[] = {022, 0777};
    for (int i = 0; i < 2; i++) {
        struct pool_dir p;
        pool_help_make(&p, NULL);
        mode_t before = umask(masks[i]);
        int status = in_child(&p, one_event, NULL);
        umask(before);
        assert_int_equal(status, 0);
        assert_int_equal(pool_help_read(&p, nothing, takes_one_page, &p), 1);
        struct ips_control *c = pool_help_control(&p);
        assert_int_equal(c->used_bytes, ONE_PAGE);
        munmap(c, sizeof(*c));
        pool_help_remove(&p);
    }
}

static void grows(void *arg)
{
    (void)arg;
    for (uint64_t i = 0; i < CORE_EACH; i++)
        write_one(0, i);
    ips_core_record_process_end(IPS_END_EXIT, 0);
    _exit(0);
}

static void sum_beyond(const struct pool_segment *seg, const void *rec,
                       size_t len, void *arg)
{
    const struct ips_rec_head *h = rec;
    uint64_t *sum = arg;
    (void)seg, (void)len;
    *sum += ips_rec_type(rec) == IPS_REC_CALLS ? h->a : 0;
}

/* Would catch: a dilation without what it takes to make the pool's pages, which
 * is in no record's price. */
static void test_agent_core__says_what_the_pool_took(void **state)
{
    (void)state;
    struct pool_dir p;
    uint64_t ns = 0;
    pool_help_make(&p, NULL);
    assert_int_equal(in_child(&p, grows, NULL), 0);
    pool_help_read(&p, sum_beyond, no_end, &ns);
    assert_true(ns > 0);
    pool_help_remove(&p);
}

static void errno_kept(void *arg)
{
    (void)arg;
    errno = 4711;
    for (uint64_t i = 0; i < 3000; i++)
        write_one(0, i);
    ips_core_count_and_write_lost(IPS_LOST_NO_CHANNEL, 2);
    ips_core_record_process_end(IPS_END_EXIT, 0);
    _exit(errno == 4711 ? 0 : 99);
}

static void test_agent_core__errno_is_kept(void **state)
{
    (void)state;
    struct pool_dir p;
    pool_help_make(&p, NULL);
    small_segments(&p);
    assert_int_equal(in_child(&p, errno_kept, NULL), 0);
    struct seen s = read_all(&p, true);
    assert_int_equal(s.lost_counted[IPS_LOST_NO_CHANNEL], 2);
    assert_int_equal(s.lost_said, 2);
    pool_help_remove(&p);
}

static void clocks(void *arg)
{
    struct ips_control *c = arg;
    struct timespec ts;
    uint64_t before = 0, after = 0, read = 0;
    for (int i = 0; i < 3; i++) { /* the narrowest of three */
        clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
        uint64_t a = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
        uint64_t stamp = ips_core_stamp_now();
        clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
        uint64_t b = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
        if (i == 0 || b - a < after - before) {
            before = a;
            after = b;
            read = ips_clock_convert_stamp_to_ns(&c->clock, stamp);
        }
    }
    int64_t since = (int64_t)(before - c->created_raw_ns);
    int64_t off = c->test_offset_ns + since / 1000000 * c->test_drift_ppm;
    if (c->test_step_ns && since >= (int64_t)c->test_step_at_ns)
        off += c->test_step_ns;
    /* Drift of what lies between the readings, and rounding: a few us. */
    int64_t wrong = (int64_t)(read - before) - off;
    if (wrong < -5000 || wrong > (int64_t)(after - before) + 5000)
        _exit(96);
}

/* Would catch: a conversion with the wrong sign or factor, a test clock that
 * does not reach the stamps, either kind of clock. */
static void test_agent_core__stamps_convert_to_the_raw_clock(void **state)
{
    (void)state;
    static const int64_t cases[][4] = {
        {0, 0, 0, 0},
        {3600000000000, 0, 0, 0},
        {-7200000000000, 200, 0, 0},
        {0, -200, 0, 0},
        {5, 0, 1, 1000000000},             /* the step has happened */
        {0, 0, 3600000000000, 1000000000}, /* not yet */
    };
    for (int raw = 0; raw < 2; raw++)
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            struct pool_dir p;
            pool_help_make(&p, NULL);
            struct ips_control *c = pool_help_control(&p);
            c->test_offset_ns = cases[i][0];
            c->test_drift_ppm = cases[i][1];
            c->test_step_at_ns = (uint64_t)cases[i][2];
            c->test_step_ns = cases[i][3];
            if (raw)
                c->clock = (struct ips_clock){IPS_CLOCK_RAW, 0, 77, 77,
                                              (uint64_t)1 << 32};
            assert_int_equal(in_child(&p, clocks, c), 0);
            munmap(c, sizeof(*c));
            pool_help_remove(&p);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agent_core__threads_and_forks_have_streams),
        cmocka_unit_test(test_agent_core__killed_writer_loses_nothing),
        cmocka_unit_test(test_agent_core__handlers_record_in_between),
        cmocka_unit_test(test_agent_core__unannounced_fork_is_noticed),
        cmocka_unit_test(test_agent_core__fork_inside_a_record),
        cmocka_unit_test(test_agent_core__cpu_of_other_threads_at_the_end),
        cmocka_unit_test(test_agent_core__thread_begun_by_a_handler),
        cmocka_unit_test(test_agent_core__follows_a_change_of_user),
        cmocka_unit_test(test_agent_core__drained_segments_are_used_again),
        cmocka_unit_test(test_agent_core__first_event_costs_a_page),
        cmocka_unit_test(test_agent_core__says_what_the_pool_took),
        cmocka_unit_test(test_agent_core__errno_is_kept),
        cmocka_unit_test(test_agent_core__stamps_convert_to_the_raw_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
