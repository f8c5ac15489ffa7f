/* The recording core in real processes: threads, forks, signal handlers,
 * SIGKILL, no room. Every case forks the writer and reads its pool. */
#include "tests/unit/pool_help.h"

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

#include "agent/core.h"

/* --- records that know whether they are whole ----------------------------- */

static uint64_t mix(uint64_t source, uint64_t number, unsigned field)
{
    uint64_t x = (source << 40 ^ number) + field * 0x9e3779b97f4a7c15ULL;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
    return x ^ x >> 27;
}

/* false: refused, counted as lost. ThreadSanitizer does not see the agent's own
 * mmap and munmap: two threads whose segments came to lie at one address, one
 * after the other, would be a race to it. */
__attribute__((no_sanitize("thread"))) static bool write_one(uint32_t source,
                                                             uint64_t number)
{
    struct ips_rec_io *r = ips_rec_begin(IPS_REC_BLOCK, sizeof(*r));
    if (!r)
        return false;
    r->h.a = source;
    r->site = number;
    r->t_ret = mix(source, number, 1);
    r->cpu = mix(source, number, 2);
    r->cpu_ret = mix(source, number, 3);
    r->result = (int64_t)mix(source, number, 4);
    ips_rec_publish(r);
    return true;
}

#define SOURCES 64
struct seen {
    uint64_t next[SOURCES]; /* expected number of each source */
    uint64_t count[SOURCES];
    uint64_t starts[8], ends[8];
    uint64_t lost_said, lost_counted[IPS_LOST_COUNT];
    uint64_t thread_cpu;
    unsigned torn, corrupt, exact; /* exact: numbers have no gaps */
};

static void see(const struct pool_segment *seg, const void *rec, size_t len,
                void *arg)
{
    struct seen *s = arg;
    const struct ips_rec_head *h = rec;
    uint32_t type = ips_rec_type(h);
    if (type == IPS_REC_BLOCK) {
        const struct ips_rec_io *r = rec;
        assert_int_equal(len, sizeof(*r));
        assert_in_range(h->a, 0, SOURCES - 1);
        assert_int_equal(r->t_ret, mix(h->a, r->site, 1));
        assert_int_equal(r->cpu, mix(h->a, r->site, 2));
        assert_int_equal(r->cpu_ret, mix(h->a, r->site, 3));
        assert_int_equal((uint64_t)r->result, mix(h->a, r->site, 4));
        if (s->exact)
            assert_int_equal(r->site, s->next[h->a]);
        else
            assert_true(r->site >= s->next[h->a]);
        s->next[h->a] = r->site + 1;
        s->count[h->a]++;
    } else if (type == IPS_REC_START) {
        s->starts[h->a]++;
    } else if (type == IPS_REC_END) {
        s->ends[h->a]++;
    } else if (type == IPS_REC_LOST) {
        s->lost_said += ((const struct ips_rec_lost *)rec)->count;
    } else if (type == IPS_REC_THREADCPU) {
        s->thread_cpu += ((const struct ips_rec_cpu *)rec)->cpu;
    }
    (void)seg;
}

static void see_end(const struct pool_segment *seg, void *arg)
{
    struct seen *s = arg;
    s->torn += seg->torn;
    s->corrupt += seg->end == IPS_CURSOR_CORRUPT;
    for (int i = 0; i < IPS_LOST_COUNT; i++)
        s->lost_counted[i] += seg->head.lost[i];
}

static struct seen read_all(const struct pool_dir *p, bool exact)
{
    struct seen s = {.exact = exact};
    pool_help_read(p, see, see_end, &s);
    assert_int_equal(s.corrupt, 0);
    return s;
}

/* In a child: dies with the test, also where that fails. */
static void record_here(const struct pool_dir *p)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pool_help_enter(p);
    if (!ips_core_init(IPS_START_IMAGE))
        _exit(90);
}

/* Runs `body` in a child that records into `p`; returns its wait status. */
static int in_child(const struct pool_dir *p, void (*body)(void *), void *arg)
{
    pid_t pid = fork();
    if (pid == 0) {
        record_here(p);
        body(arg);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void small_segments(const struct pool_dir *p)
{
    struct ips_control *c = pool_help_control(p);
    c->segment_bytes = 64u << 10;
    munmap(c, sizeof(*c));
}

/* --- threads and forks ------------------------------------------------------
 */

enum { THREADS = 4, EACH = 5000 };

static void *thread_body(void *arg)
{
    uint32_t source = (uint32_t)(uintptr_t)arg;
    ips_core_thread_start(source, 1);
    for (uint64_t i = 0; i < EACH; i++)
        write_one(source, i);
    ips_core_thread_end();
    if (write_one(source, EACH)) /* after its end: refused */
        _exit(91);
    return NULL;
}

static void threads_and_forks(void *arg)
{
    (void)arg;
    pthread_t t[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, thread_body, (void *)(i + 1));
    uint64_t image = ips_core_image_stamp();
    uint64_t seq = ips_core_fork_before();
    uint32_t parent = (uint32_t)getpid();
    pid_t pid = fork();
    if (pid == 0) {
        ips_core_fork_child(seq, parent, parent, image);
        for (uint64_t i = 0; i < EACH; i++)
            write_one(10, i);
        ips_core_process_end(IPS_END_EXIT, 3);
        _exit(3);
    }
    for (uint64_t i = 0; i < EACH; i++)
        write_one(0, i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    waitpid(pid, NULL, 0);
    ips_core_process_end(IPS_END_PROVISIONAL, 0);
    write_one(0, EACH); /* stdio's flush at exit still counts */
}

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
    assert_int_equal(s.count[0], EACH + 1);
    for (int i = 1; i <= THREADS; i++)
        assert_int_equal(s.count[i], EACH);
    assert_int_equal(s.count[10], EACH);
    assert_int_equal(s.torn, 0);
    assert_int_equal(s.starts[IPS_START_IMAGE], 1);
    assert_int_equal(s.starts[IPS_START_THREAD], THREADS);
    assert_int_equal(s.starts[IPS_START_FORK], 1);
    assert_int_equal(s.ends[IPS_END_THREAD], THREADS);
    assert_int_equal(s.ends[IPS_END_EXIT], 1);
    assert_int_equal(s.ends[IPS_END_PROVISIONAL], 1);
    pool_help_remove(&p);
}

/* --- death at any moment ----------------------------------------------------
 */

static _Atomic uint64_t *progress; /* shared: what the writer published */

static void *endless_body(void *arg)
{
    uint32_t source = (uint32_t)(uintptr_t)arg;
    if (source)
        ips_core_thread_start(source, 1);
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
        usleep(500 + (unsigned)rand_r(&seed) % 4000);
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

/* --- signal handlers ---------------------------------------------------------
 */

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
    assert_int_equal(s.torn, 0);
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

/* --- no room
 * ------------------------------------------------------------------ */

struct attempts {
    struct ips_control *control;
    const char *filler;
    uint64_t tried, refused;
};

static void write_past_the_end(struct attempts *a, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        a->refused += !write_one(0, a->tried++);
}

static void pause_ms(long ms)
{
    struct timespec ts = {0, ms * 1000000};
    nanosleep(&ts, NULL);
}

static void over_quota(void *arg)
{
    struct attempts *a = arg;
    write_past_the_end(a, 10000);
    if (a->refused == 0 || a->refused == a->tried)
        _exit(93);
    a->control->released_bytes += 1u << 20; /* the slave freed some */
    pause_ms(3);
    uint64_t before = a->refused;
    write_past_the_end(a, 100);
    _exit(a->refused == before ? 0 : 94);
}

static struct attempts *shared_attempts(void)
{
    void *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(m != MAP_FAILED);
    return m;
}

static void check_losses(const struct pool_dir *p, const struct attempts *a,
                         enum ips_lost_cause cause)
{
    struct seen s = read_all(p, false);
    assert_int_equal(s.count[0] + a->refused, a->tried);
    assert_int_equal(s.lost_counted[cause], a->refused);
    assert_int_equal(s.lost_said, a->refused);
    assert_int_equal(s.torn, 0);
}

/* Would catch: losses not counted, counted twice, not said in the stream, or
 * recording that does not go on when there is room again. */
static void test_agent_core__quota_refuses_and_counts(void **state)
{
    (void)state;
    struct pool_dir p;
    pool_help_make(&p, NULL);
    struct attempts *a = shared_attempts();
    a->control = pool_help_control(&p);
    a->control->quota_bytes = 256u << 10;
    assert_int_equal(in_child(&p, over_quota, a), 0);
    check_losses(&p, a, IPS_LOST_QUOTA);
    assert_true(a->control->used_bytes <=
                a->control->quota_bytes + a->control->released_bytes);
    munmap(a->control, sizeof(*a->control));
    munmap(a, 4096);
    pool_help_remove(&p);
}

static void fill_tmpfs(void *arg)
{
    struct attempts *a = arg;
    write_past_the_end(a, 10000);
    if (a->refused == 0 || a->refused == a->tried)
        _exit(93);
    unlink(a->filler);
    pause_ms(3);
    uint64_t before = a->refused;
    write_past_the_end(a, 100);
    _exit(a->refused == before ? 0 : 94);
}

/* A process of its own, since it changes its mount namespace, and a test of its
 * own there, since assertions do not cross a fork. */
static void in_small_tmpfs(void **state)
{
    struct pool_dir p;
    const char *mount_point = *state;
    char filler[64];
    pool_help_make(&p, mount_point);
    struct attempts *a = shared_attempts();
    a->control = pool_help_control(&p);
    a->control->quota_bytes = 1u << 30; /* the file system is the limit */
    snprintf(filler, sizeof(filler), "%s/filler", mount_point);
    a->filler = filler;
    int fd = open(filler, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(posix_fallocate(fd, 0, 640 << 10), 0);
    close(fd);
    assert_int_equal(in_child(&p, fill_tmpfs, a), 0);
    check_losses(&p, a, IPS_LOST_POOL_FULL);
}

static int small_tmpfs_main(void)
{
    char mount_point[] = "/tmp/ips-test-XXXXXX";
    if (!mkdtemp(mount_point))
        return 1;
    if (unshare(CLONE_NEWNS) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", mount_point, "tmpfs", 0, "size=1024k") < 0) {
        rmdir(mount_point);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(in_small_tmpfs, mount_point)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    umount2(mount_point, MNT_DETACH);
    rmdir(mount_point);
    return failed;
}

/* Would catch: SIGBUS (the child's status), a growth step believed though it
 * was refused. */
static void test_agent_core__full_tmpfs_is_no_sigbus(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/proc/self/exe", "test_agent_core", "tmpfs", (char *)NULL);
        _exit(1);
    }
    int status;
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("not permitted to mount a tmpfs: skipped\n");
        skip();
    }
    assert_int_equal(status, 0);
}

static void no_directory(void *arg)
{
    struct attempts *a = arg;
    pthread_t t;
    char gone[700];
    snprintf(gone, sizeof(gone), "%s.gone", a->filler);
    if (rename(a->filler, gone) < 0)
        _exit(95);
    pthread_create(&t, NULL, thread_body, (void *)1);
    pthread_join(t, NULL);
    rename(gone, a->filler);
}

/* As in a chroot: no file can be made. Would catch: a crash, losses nobody
 * counts. */
static void test_agent_core__without_directory_counts_in_control(void **state)
{
    (void)state;
    struct pool_dir p;
    pool_help_make(&p, NULL);
    struct attempts *a = shared_attempts();
    a->control = pool_help_control(&p);
    a->filler = p.dir;
    assert_int_equal(in_child(&p, no_directory, a), 0);
    struct seen s = read_all(&p, true);
    assert_int_equal(s.count[1], 0);
    assert_true(a->control->lost[IPS_LOST_NO_SEGMENT] >= EACH);
    munmap(a->control, sizeof(*a->control));
    munmap(a, 4096);
    pool_help_remove(&p);
}

static void small_files(void *arg)
{
    (void)arg;
    struct rlimit limit = {100000, 100000};
    setrlimit(RLIMIT_FSIZE, &limit);
    pthread_t t;
    pthread_create(&t, NULL, thread_body, (void *)1);
    pthread_join(t, NULL);
    limit.rlim_cur = 1000;
    setrlimit(RLIMIT_FSIZE, &limit);
    pthread_create(&t, NULL, thread_body, (void *)2);
    pthread_join(t, NULL);
}

/* Would catch: SIGXFSZ (it ends the program), segments longer than allowed. */
static void test_agent_core__file_size_limit_is_no_signal(void **state)
{
    (void)state;
    struct pool_dir p;
    pool_help_make(&p, NULL);
    assert_int_equal(in_child(&p, small_files, NULL), 0);
    struct seen s = read_all(&p, true);
    assert_int_equal(s.count[1], EACH);
    assert_int_equal(s.count[2], 0);
    pool_help_remove(&p);
}

/* --- processes --------------------------------------------------------------
 */

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
    ips_in_vfork = true;
    if (write_one(0, 2))
        _exit(97);
    ips_in_vfork = false;
    write_one(0, 2);
}

/* Would catch: a child of a raw clone that writes into its parent's segment
 * (or into memory it has not), a record made in a vfork child. */
static void test_agent_core__unannounced_fork_is_noticed(void **state)
{
    (void)state;
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
    uint64_t image = ips_core_image_stamp(), seq = ips_core_fork_before();
    uint32_t pid = (uint32_t)getpid();
    pid_t child = fork();
    if (child == 0)
        ips_core_fork_child(seq, pid, pid, image);
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
    ips_core_thread_start(1, 1);
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
    ips_core_process_end(IPS_END_EXIT, 0);
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

static void other_user(void *arg)
{
    (void)arg;
    if (setuid(65534) < 0)
        _exit(95);
    pthread_t t;
    pthread_create(&t, NULL, thread_body, (void *)1);
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
    chmod(p.root, 0711); /* as ips_pool_make_run makes it for root */
    assert_int_equal(in_child(&p, other_user, NULL), 0);
    assert_int_equal(read_all(&p, true).count[1], EACH);
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
    assert_int_equal(ips_segment_set_drained(fd, &err), 0);
    close(fd);
}

static void nothing(const struct pool_segment *seg, const void *rec, size_t len,
                    void *arg)
{
    (void)seg, (void)rec, (void)len, (void)arg;
}

static void in_step(void *arg)
{
    int *fds = arg;
    char c;
    uint64_t i = 0;
    for (int round = 0; round < 20; round++) {
        for (int k = 0; k < 1000; k++)
            write_one(0, i++);
        if (write(fds[1], "w", 1) != 1 || read(fds[2], &c, 1) != 1)
            _exit(99);
    }
}

/* Would catch: a drained segment that is not used again (the pool would grow
 * for ever), stale records in it. */
static void test_agent_core__drained_segments_are_used_again(void **state)
{
    (void)state;
    struct pool_dir p;
    pool_help_make(&p, NULL);
    small_segments(&p);
    int there[2], back_[2];
    assert_int_equal(pipe(there), 0);
    assert_int_equal(pipe(back_), 0);
    int fds[3] = {-1, there[1], back_[0]};
    pid_t pid = fork();
    if (pid == 0) {
        record_here(&p);
        in_step(fds);
        _exit(0);
    }
    char c;
    unsigned files = 0;
    for (int round = 0; round < 20; round++) {
        assert_int_equal(read(there[0], &c, 1), 1);
        files = pool_help_read(&p, nothing, drain_closed, &p);
        assert_int_equal(write(back_[1], "r", 1), 1);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    /* 20 * 1000 records of 64 bytes are 20 segments' worth. */
    assert_in_range(files, 2, 4);
    struct seen s = read_all(&p, false);
    assert_in_range(s.next[0], 20000, 20000);
    for (int i = 0; i < 2; i++) {
        close(there[i]);
        close(back_[i]);
    }
    pool_help_remove(&p);
}

static void errno_kept(void *arg)
{
    (void)arg;
    errno = 4711;
    for (uint64_t i = 0; i < 3000; i++)
        write_one(0, i);
    ips_core_lost(IPS_LOST_NO_CHANNEL, 2);
    ips_core_process_end(IPS_END_EXIT, 0);
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

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "tmpfs") == 0)
        return small_tmpfs_main();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agent_core__threads_and_forks_have_streams),
        cmocka_unit_test(test_agent_core__killed_writer_loses_nothing),
        cmocka_unit_test(test_agent_core__handlers_record_in_between),
        cmocka_unit_test(test_agent_core__quota_refuses_and_counts),
        cmocka_unit_test(test_agent_core__full_tmpfs_is_no_sigbus),
        cmocka_unit_test(test_agent_core__without_directory_counts_in_control),
        cmocka_unit_test(test_agent_core__file_size_limit_is_no_signal),
        cmocka_unit_test(test_agent_core__unannounced_fork_is_noticed),
        cmocka_unit_test(test_agent_core__fork_inside_a_record),
        cmocka_unit_test(test_agent_core__cpu_of_other_threads_at_the_end),
        cmocka_unit_test(test_agent_core__follows_a_change_of_user),
        cmocka_unit_test(test_agent_core__drained_segments_are_used_again),
        cmocka_unit_test(test_agent_core__errno_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
