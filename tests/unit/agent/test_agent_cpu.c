/* Thread CPU time without a system call, against the clock it stands for.
 *
 * How an error is measured: clock, ours, clock. The clock never runs backwards,
 * so what it would have said at our moment lies between its two answers, and
 * only what is outside of them is an error: whatever else the machine does, no
 * time enters. Every case runs in a child that records.
 *
 * What a noisy machine does - time stolen by the hypervisor, long interrupts -
 * makes errors that nothing in the thread can avoid, so one batch may be spoilt
 * by it; a defect spoils all of them. A case passes with the first batch that
 * is good, and fails if none of BATCHES is. */
#include "tests/unit/help/core_help.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/record/cpu.h"

enum { SAMPLES = 8000, TRIES = 4 * SAMPLES, P99_NS = 1000, BATCHES = 6 };

static struct found {
    uint64_t error[SAMPLES];
    uint64_t count, tries, fast, backwards, stolen;
    uint64_t blocked, unseen_blocks, calls, guesses;
    uint64_t brief;     /* blocked, and short enough to be guessed */
    int64_t settled_ns; /* ours - clock after the last reading */
    bool marks;
} * found; /* shared with the child */

static uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static __thread uint64_t before;

static void monotone(uint64_t cpu)
{
    if (cpu < before)
        found->backwards++;
    before = cpu;
}

static uint64_t outside(uint64_t low, uint64_t x, uint64_t high)
{
    return x < low ? low - x : x > high ? x - high : 0;
}

static uint64_t switches(void)
{
    struct rusage ru;
    getrusage(RUSAGE_THREAD, &ru);
    return (uint64_t)(ru.ru_nvcsw + ru.ru_nivcsw);
}

/* Time that the hypervisor stole, or an interrupt took, is not the thread's to
 * the kernel and no switch either: nothing in the thread can tell before the
 * clock is read. Such a difference has no switch since the last reading. */
static bool stolen(uint64_t error, bool read)
{
    static __thread uint64_t at_reading;
    if (read)
        at_reading = switches();
    return error > P99_NS && switches() == at_reading;
}

static void sample(void)
{
    uint64_t low = clock_ns();
    uint32_t read = ips_me.cpu_next;
    struct ips_moment m = ips_moment_now();
    read = ips_me.cpu_next - read;
    found->tries++;
    found->fast += read == 0;
    uint64_t high = clock_ns(), error = outside(low, m.cpu, high);
    monotone(m.cpu);
    if (stolen(error, read))
        found->stolen++;
    else if (found->count < SAMPLES)
        found->error[found->count++] = error;
}

/* As many undisturbed ones as are wanted, or as can be had. */
static bool enough(void)
{
    return found->count >= SAMPLES || found->tries >= TRIES;
}

static void work(unsigned rounds)
{
    for (volatile unsigned i = 0; i < rounds; i++)
        continue;
}

static void pin(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((unsigned)core, &set);
    sched_setaffinity(0, sizeof(set), &set);
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static uint64_t permille(unsigned part)
{
    return found->error[found->count * part / 1000];
}

/* Runs `body` and returns false where marks cannot be used here. */
static bool run(void (*body)(void *), enum ips_cpu_mode mode)
{
    struct pool_dir p;
    pool_help_make(&p, NULL);
    struct ips_control *c = pool_help_control(&p);
    c->cpu_mode = mode;
    munmap(c, sizeof(*c));
    memset(found, 0, sizeof(*found));
    int status = in_child(&p, body, NULL);
    assert_int_equal(status, 0);
    pool_help_remove(&p);
    assert_int_equal(found->backwards, 0);
    qsort(found->error, found->count, sizeof(found->error[0]), by_value);
    if (found->count)
        printf("n %lu, without a system call %lu; error p50 %lu p99 %lu max "
               "%lu ns, stolen %lu\n",
               (unsigned long)found->count, (unsigned long)found->fast,
               (unsigned long)permille(500), (unsigned long)permille(990),
               (unsigned long)found->error[found->count - 1],
               (unsigned long)found->stolen);
    if (!found->marks)
        printf("no marks here: the clock is read each time\n");
    return found->marks;
}

/* One batch of them is `good`. */
static void run_batches(void (*body)(void *), enum ips_cpu_mode mode,
                        bool (*good)(void))
{
    bool told = false; /* a batch had samples to judge by */
    for (int i = 0; i < BATCHES; i++) {
        run(body, mode);
        if (found->count && good())
            return;
        told = told || 2 * found->count >= found->tries;
    }
    if (!told) {
        printf("machine too noisy to tell: skipped\n");
        skip();
    }
    fail_msg("no batch was good");
}

static bool p99(void)
{
    return permille(990) <= P99_NS;
}

static bool p99_and_mostly_fast(void)
{
    return p99() && (!found->marks || found->fast > found->tries / 2);
}

/* --- one case a way to be switched out ------------------------------ */

static void spinning(void *arg)
{
    (void)arg;
    found->marks = ips_core.cpu_marks;
    for (int i = 0; !enough(); i++) {
        sample();
        work((unsigned)i % 3000);
    }
}

/* Would catch: a counter converted at the wrong rate, a line that is never
 * drawn anew, a mark that is never used at all. */
static void test_agent_cpu__spinning(void **state)
{
    (void)state;
    run_batches(spinning, IPS_CPU_FAST, p99_and_mostly_fast);
}

static void migrating(void *arg)
{
    (void)arg;
    found->marks = ips_core.cpu_marks;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    for (int i = 0; !enough(); i++) {
        if (i % 5 == 0)
            pin(i / 5 % (int)cores);
        work(300);
        sample();
    }
}

/* Would catch: a mark that outlives a change of cores (the wait for the other
 * core taken for CPU time). */
static void test_agent_cpu__migration(void **state)
{
    (void)state;
    run_batches(migrating, IPS_CPU_FAST, p99);
}

/* fork that nobody is told of; aarch64 has no SYS_fork. */
static pid_t bare_fork(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static void preempted(void *arg)
{
    (void)arg;
    found->marks = ips_core.cpu_marks;
    pin(0);
    pid_t hog[2];
    for (int i = 0; i < 2; i++) {
        hog[i] = bare_fork(); /* nothing of it is recorded */
        if (hog[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                work(1000);
        }
    }
    struct rusage ru;
    do {
        for (int i = 0; i < 500; i++) {
            sample();
            work(200);
        }
        getrusage(RUSAGE_THREAD, &ru);
    } while (ru.ru_nivcsw < 12 || !enough());
    for (int i = 0; i < 2; i++) {
        kill(hog[i], SIGKILL);
        waitpid(hog[i], NULL, 0);
    }
}

/* A switch between the reading and the mark would be in the latter alone. */
static bool p99_and_p999(void)
{
    return p99() && permille(999) <= 100 * P99_NS;
}

/* Would catch: the time other programs had the core taken for ours - some
 * milliseconds at each of the switches, far beyond the bound. */
static void test_agent_cpu__preemption(void **state)
{
    (void)state;
    run_batches(preempted, IPS_CPU_FAST, p99_and_p999);
}

static void sleeping(void *arg)
{
    (void)arg;
    found->marks = ips_core.cpu_marks;
    for (int i = 0; !enough(); i++) {
        if (i % 4 == 0)
            usleep(20);
        sample();
    }
}

/* Would catch: a kernel that keeps the mark over a sleep nobody wrapped. */
static void test_agent_cpu__sleep(void **state)
{
    (void)state;
    run_batches(sleeping, IPS_CPU_FAST, p99);
}

static void unprivileged(void *arg)
{
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
        _exit(93);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    spinning(arg);
}

/* Would catch: a method that needs a right. */
static void test_agent_cpu__another_user(void **state)
{
    (void)state;
    run_batches(unprivileged, IPS_CPU_FAST, p99_and_mostly_fast);
}

static void *thread_body(void *arg)
{
    ips_core_begin_thread_stream(0, 0);
    spinning(arg);
    ips_core_end_thread_stream();
    return NULL;
}

static void in_a_thread(void *arg)
{
    pthread_t t;
    work(3000000); /* the process has CPU time that is not the thread's */
    pthread_create(&t, NULL, thread_body, arg);
    pthread_join(t, NULL);
}

/* Would catch: one thread's line used by another. */
static void test_agent_cpu__thread(void **state)
{
    (void)state;
    run_batches(in_a_thread, IPS_CPU_FAST, p99);
}

static void in_a_fork_child(void *arg)
{
    work(30000000);
    ips_moment_now();
    pid_t pid = fork();
    if (pid == 0) {
        ips_core_reset_and_start_in_fork_child(1, 1, 1, 1);
        spinning(arg);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

/* Would catch: a child that goes on at its parent's CPU time. */
static void test_agent_cpu__fork_child(void **state)
{
    (void)state;
    run_batches(in_a_fork_child, IPS_CPU_FAST, p99);
}

static volatile unsigned long handled;

static void on_alarm(int sig)
{
    (void)sig;
    for (unsigned long i = 0; i <= handled % 9; i++)
        ips_cpu_read_clock_and_end_guesses();
    handled++;
}

static void signalled(void *arg)
{
    (void)arg;
    found->marks = ips_core.cpu_marks;
    struct sigaction sa = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &sa, NULL);
    struct itimerval every = {{0, 200}, {0, 200}}, off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &every, NULL);
    while (!enough() || handled < 200)
        sample();
    setitimer(ITIMER_REAL, &off, NULL);
}

/* Would catch: a handler's reading mixed with what it interrupted. (Where a
 * handler comes between our stamp and the look at `before`, it is later by
 * right; samples are taken outside of handlers only.) */
static void test_agent_cpu__handlers(void **state)
{
    (void)state;
    run_batches(signalled, IPS_CPU_FAST, p99);
}

/* What a handler, or some, may do: until the mark is in the same place. */
static void go_round(uint64_t mark)
{
    for (int i = 0; i < 1000 && *ips_cpu_mark_address() != mark; i++)
        ips_cpu_read_clock_and_end_guesses();
}

static void gone_round(void *arg)
{
    (void)arg;
    found->marks = ips_core.cpu_marks;
    for (int i = 0; i < 40; i++) {
        struct ips_moment call = ips_moment_now();
        usleep(5000);
        go_round(call.mark);
        struct ips_moment ret = ips_moment_of_return(&call);
        found->error[found->count++] = outside(0, ret.cpu, clock_ns());
        monotone(ret.cpu);
        monotone(ips_core_thread_cpu_ns());
    }
}

static bool p50_below_the_sleep(void)
{
    return permille(500) < 2500000;
}

/* Would catch: a mark taken for the one of before, because it is in the same
 * slot: the sleep counts as CPU time. */
static void test_agent_cpu__slots_come_round(void **state)
{
    (void)state;
    run_batches(gone_round, IPS_CPU_FAST, p50_below_the_sleep);
}

/* --- calls that block ----------------------------------------------- */

static int there[2], back[2];

/* Answers each byte: with both on one core every read of ours blocks, for some
 * microseconds. */
static pid_t start_echo(void)
{
    char byte;
    pin(0);
    if (pipe(there) < 0 || pipe(back) < 0)
        _exit(95);
    pid_t pid = bare_fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(there[1]);
        while (read(there[0], &byte, 1) == 1)
            if (write(back[1], &byte, 1) != 1)
                break;
        syscall(SYS_exit_group, 0);
    }
    return pid;
}

static void block(int i)
{
    char byte = 1;
    if (i % 8 == 1)
        syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0,
                &(struct timespec){0, 1000 + i % 7 * 3000}, NULL);
    else if (i % 8 && read(back[0], &byte, 1) != 1)
        _exit(96);
}

static void blocking(void *arg)
{
    (void)arg;
    found->marks = ips_core.cpu_marks;
    pid_t echo = start_echo();
    for (int i = 0; i < SAMPLES / 4; i++) {
        if (i % 8 > 1 && write(there[1], "x", 1) != 1)
            _exit(97);
        struct ips_moment call = ips_moment_now();
        uint64_t low = clock_ns(), before_call = switches();
        uint64_t t = ips_core_stamp_now(), reading = ips_me.cpu.read_t;
        block(i);
        bool out = switches() != before_call; /* else it was stolen */
        uint64_t stamps = ips_core_stamp_now() - t, high = clock_ns();
        struct ips_moment ret = ips_moment_of_return(&call);
        monotone(call.cpu);
        monotone(ret.cpu);
        found->guesses += out && reading == ips_me.cpu.read_t;
        uint64_t lasted = ips_stamps_to_ns(ret.t - call.t);
        bool is = lasted >= ret.cpu - call.cpu + IPS_BLOCKED_NS;
        /* By the clock, with room for what lies between the readings. */
        bool surely =
            ips_stamps_to_ns(stamps) > high - low + 20 * IPS_BLOCKED_NS;
        found->calls++;
        found->brief += out && lasted < 15000;
        found->blocked += is;
        found->unseen_blocks += surely && out && !is;
        /* Too much was handed out, by theft too: it stands still. */
        bool held = (call.mark & IPS_MARK_NOT) && ips_core.cpu_marks;
        if (found->count < SAMPLES && !held)
            found->error[found->count++] = outside(low, ret.cpu, clock_ns());
        work(200);
    }
    uint64_t low = clock_ns(), ours = ips_cpu_read_clock_and_end_guesses(),
             high = clock_ns();
    found->settled_ns = (int64_t)outside(low, ours, high);
    kill(echo, SIGKILL);
    waitpid(echo, NULL, 0);
}

static bool guessed_and_settled(void)
{
    assert_int_equal(found->unseen_blocks, 0);
    assert_true(found->blocked > 0);
    /* The first of a thread are read; so are those on a very slow machine. */
    bool guessed = !found->marks || found->guesses > 0 || found->brief < 100;
    /* In the order of the time between two readings. */
    return guessed && permille(990) <= 200000 && found->settled_ns <= 1000000;
}

/* Would catch: a guess that takes a blocked call for one that was not, guesses
 * that add up (the totals of a long run would drift), a reading that sends the
 * thread's time backwards. */
static void test_agent_cpu__guesses_settle(void **state)
{
    (void)state;
    run_batches(blocking, IPS_CPU_FAST, guessed_and_settled);
}

static bool never_guessed(void)
{
    assert_int_equal(found->unseen_blocks, 0);
    assert_true(!found->marks || found->guesses == 0);
    return p99() && found->settled_ns <= 1000000;
}

/* Would catch: --cpu=exact that guesses. */
static void test_agent_cpu__exact_reads_after_each_block(void **state)
{
    (void)state;
    run_batches(blocking, IPS_CPU_EXACT, never_guessed);
}

/* Would catch: a machine without marks where calls are not told apart, or a
 * mark used although it was said not to work. */
static void test_agent_cpu__by_the_clock(void **state)
{
    (void)state;
    /* One in a thousand may be back before 2 us are over, not each time. */
    uint64_t unseen = 1;
    for (int i = 0; i < 3 && unseen; i++) {
        assert_false(run(blocking, IPS_CPU_CLOCK));
        unseen = found->unseen_blocks;
    }
    assert_int_equal(unseen, 0);
    /* The clock itself: between its two answers. */
    run_batches(spinning, IPS_CPU_CLOCK, p99);
    assert_false(found->marks);
}

/* --- others in the rseq area ---------------------------------------- */

static void shared_area(void *arg)
{
    (void)arg;
    found->marks = ips_core.cpu_marks;
    /* A good description that is not of this thread's slots; the kernel may
     * come to look at it. */
    static struct ips_cpu_slot foreign;
    ips_moment_now();
    foreign = ips_me.slot[(ips_me.cpu_next - 1) % IPS_CPU_SLOTS];
    foreign.t0 = foreign.cpu0 = 0;
    uint64_t theirs = (uint64_t)(uintptr_t)&foreign;
    for (int i = 0; !enough(); i++) {
        /* As tcmalloc leaves it behind. */
        if (i % 3 == 0 && found->marks)
            *ips_cpu_mark_address() = theirs;
        struct ips_moment m = ips_moment_now();
        if (found->marks && *ips_cpu_mark_address() == theirs)
            _exit(94);
        (void)m;
        sample();
    }
}

/* Would catch: a foreign pointer taken for our mark. */
static void test_agent_cpu__foreign_pointer(void **state)
{
    (void)state;
    run_batches(shared_area, IPS_CPU_FAST, p99);
}

int main(void)
{
    found = mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agent_cpu__spinning),
        cmocka_unit_test(test_agent_cpu__migration),
        cmocka_unit_test(test_agent_cpu__preemption),
        cmocka_unit_test(test_agent_cpu__sleep),
        cmocka_unit_test(test_agent_cpu__another_user),
        cmocka_unit_test(test_agent_cpu__thread),
        cmocka_unit_test(test_agent_cpu__fork_child),
        cmocka_unit_test(test_agent_cpu__handlers),
        cmocka_unit_test(test_agent_cpu__slots_come_round),
        cmocka_unit_test(test_agent_cpu__guesses_settle),
        cmocka_unit_test(test_agent_cpu__exact_reads_after_each_block),
        cmocka_unit_test(test_agent_cpu__by_the_clock),
        cmocka_unit_test(test_agent_cpu__foreign_pointer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
