/* Processes, threads, signals, locks. */
#include "fields.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <mqueue.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

static unsigned long cpu_of(const struct rusage *ru)
{
    return ((unsigned long)ru->ru_utime.tv_sec +
            (unsigned long)ru->ru_stime.tv_sec) *
               1000000000u +
           ((unsigned long)ru->ru_utime.tv_usec +
            (unsigned long)ru->ru_stime.tv_usec) *
               1000u;
}

void use_fork(void)
{
    struct rusage ru;
    int p[2], status;
    char byte;
    must(pipe(p) == 0);
    for (int i = 0; i < 2; i++)
        want_chan(p[i], 1, 1 + (unsigned)i, 0, PIPE);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        next_chan = 0; /* its own image, its own ids */
        want("START a=2 fork_seq=@fork ppid=%d ptid=%d parent_image=@image "
             "parent_t=0",
             (int)parent, (int)parent);
        want_chan(2, 1, 2, 8, PIPE);
        must(write(p[1], "x", 1) == 1);
        want_chan(p[1], 1, 2, 0, PIPE);
        want_io("SEND", 2, 1, 0, "use_fork");
        want("END a=3 status=-3");
        say_times("end");
        _exit(-3);
    }
    must(read(p[0], &byte, 1) == 1);
    want("FORK a=%d fork_seq=@fork kind=1 err=0 in=use_fork", (int)pid);
    want_io("RECV", next_chan - 1, 1, 0, "use_fork");
    must(wait4(pid, &status, 0, &ru) == pid);
    want("JOIN a=%d seq=0 child_cpu_ns=%lu status=%d kind=1 in=use_fork",
         (int)pid, cpu_of(&ru), status);
    must(status == 253 << 8);
    printf("child %d %lu\n", (int)pid, cpu_of(&ru));
}

void use_spawn(void)
{
    static char name[] = "/proc/self/exe", word[] = "two words";
    char *argv[] = {name, word, NULL};
    pid_t pid;
    struct rusage before, after;
    siginfo_t info;
    struct stat st;
    must(close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) == 0);
    must(posix_spawn(&pid, name, NULL, NULL, argv, environ) == 0);
    want("FORK a=%d fork_seq=@spawn kind=3 err=0 in=use_spawn", (int)pid);
    getrusage(RUSAGE_CHILDREN, &before);
    must(waitid(P_PID, (id_t)pid, &info, WEXITED) == 0);
    getrusage(RUSAGE_CHILDREN, &after);
    want("JOIN a=%d seq=0 child_cpu_ns=~%lu status=2304 kind=1 in=use_spawn",
         (int)pid, cpu_of(&after) - cpu_of(&before));
    printf("want %d %d START a=3 fork_seq=0 ppid=%d ptid=0 parent_image=0 "
           "parent_t=0\n",
           (int)pid, (int)pid, (int)getpid());
    printf("want %d %d NAME a=24 text=\"/proc/self/exe two words\"\n", (int)pid,
           (int)pid);
    must(fstat(2, &st) == 0);
    printf("want %d %d CHAN a=1 fd=2 kind=1 side=2 flags=8 reserved=0 dev=%lu "
           "ino=%lu reserved2=0 " PIPE "\n",
           (int)pid, (int)pid, (unsigned long)st.st_dev,
           (unsigned long)st.st_ino);
    printf("want %d %d END a=3 status=9\n", (int)pid, (int)pid);
    before = after;
    must(system("exit 5") == 5 << 8);
    getrusage(RUSAGE_CHILDREN, &after);
    want("FORK a=0 fork_seq=@system kind=5 err=0 in=use_spawn");
    want("JOIN a=0 seq=@system child_cpu_ns=<%lu status=1280 kind=3 "
         "in=use_spawn",
         cpu_of(&after) - cpu_of(&before));
}

/* How a child ended, by each call that tells. */
void use_waits(void)
{
    static const int signals[] = {0, SIGTERM, SIGQUIT};
    for (int i = 0; i < 6; i++) {
        int sig = signals[i % 3], status = 0;
        pid_t pid = fork();
        if (pid == 0) {
            if (sig == 0)
                _exit(200 + i);
            pause();
        }
        want("FORK a=%d fork_seq=@wait%d kind=1 err=0 in=use_waits", (int)pid,
             i);
        if (sig) {
            must(kill(pid, sig) == 0);
            want("KILL a=%d pid=%d tid=0 code=0 how=1 value=0 in=use_waits",
                 sig, (int)pid);
        }
        if (i < 3) {
            must(waitpid(pid, &status, 0) == pid);
            must(sig ? WTERMSIG(status) == sig : WEXITSTATUS(status) == 200);
        } else {
            siginfo_t info;
            must(waitid(P_PID, (id_t)pid, &info, WEXITED) == 0);
            status = info.si_code == CLD_EXITED   ? info.si_status << 8
                     : info.si_code == CLD_DUMPED ? info.si_status | 0x80
                                                  : info.si_status;
        }
        want("JOIN a=%d seq=0 child_cpu_ns=@cpu%d status=%d kind=1 "
             "in=use_waits",
             (int)pid, i, status);
    }
}

void use_exec(void)
{
    static char name[] = "/nonexistent/program";
    char *argv[] = {name, NULL};
    must(execv(name, argv) == -1 && errno == ENOENT);
    want("EXEC a=20 path=\"%s\"", name);
    want("EXECFAIL a=%d", ENOENT);
}

/* --- signals --- */
static volatile int handled;
static void handler(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)info;
    (void)context;
    handled++;
}

void use_signals(void)
{
    struct sigaction act = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    struct signalfd_siginfo read_info;
    siginfo_t info;
    sigset_t set, before;
    int self = (int)getpid();
    must(sigaction(SIGUSR1, &act, NULL) == 0);
    must(sigqueue(self, SIGUSR1, (union sigval){.sival_int = 4711}) == 0);
    want("KILL a=10 pid=%d tid=0 code=0 how=2 value=4711 in=use_signals", self);
    want("SIGNAL a=10 pid=%d tid=0 code=-1 how=16 value=4711", self);
    must(pthread_kill(pthread_self(), SIGUSR1) == 0);
    want("KILL a=10 pid=%d tid=%d code=0 how=3 value=0 in=use_signals", self,
         (int)tid());
    want("SIGNAL a=10 pid=%d tid=0 code=-6 how=16 value=0", self);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    must(sigprocmask(SIG_BLOCK, &set, &before) == 0);
    must(kill(self, SIGUSR2) == 0 && sigwaitinfo(&set, &info) == SIGUSR2);
    want("KILL a=12 pid=%d tid=0 code=0 how=1 value=0 in=use_signals", self);
    want("BLOCK a=0 result=12 op=20 err=0 ready=0 in=use_signals");
    want("SIGNAL a=12 pid=%d tid=0 code=0 how=17 value=0", self);
    int fd = signalfd(-1, &set, 0);
    must(raise(SIGUSR2) == 0);
    must(read(fd, &read_info, sizeof(read_info)) == sizeof(read_info));
    want("KILL a=12 pid=%d tid=%d code=0 how=3 value=0 in=use_signals", self,
         self);
    want("BLOCK a=0 result=128 op=23 err=0 ready=0 in=use_signals");
    want("SIGNAL a=12 pid=%d tid=0 code=-6 how=18 value=0", self);
    must(handled == 2);
}

/* --- threads --- */
static pid_t thread_tid;

static void *body(void *arg)
{
    thread_tid = tid();
    must(prctl(PR_SET_NAME, "renamed") == 0);
    want("START a=4 fork_seq=@thread ppid=%d ptid=%d parent_image=@image "
         "parent_t=0",
         (int)getpid(), (int)getpid());
    want("END a=1 status=0");
    say_times("end");
    return arg;
}

void use_thread(void)
{
    pthread_t t;
    must(pthread_create(&t, NULL, body, NULL) == 0);
    want("FORK a=0 fork_seq=@thread kind=6 err=0 in=use_thread");
    must(pthread_join(t, NULL) == 0);
    want("JOIN a=0 seq=@thread child_cpu_ns=18446744073709551615 status=0 "
         "kind=2 in=use_thread");
}

static sem_t begun;
static _Noreturn void *stays(void *arg)
{
    thread_tid = tid();
    want("START a=4 fork_seq=@stays ppid=%d ptid=%d parent_image=@image "
         "parent_t=0",
         (int)getpid(), (int)getpid());
    sigset_t all;
    sigfillset(&all);
    must(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
    say_times("stays");
    thread_tid = tid();
    __atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
    for (;;)
        pause();
}

/* It lives when its process ends, which says what CPU it had. */
void leave_thread(void)
{
    static int there;
    pthread_t t;
    must(pthread_create(&t, NULL, stays, &there) == 0);
    want("FORK a=0 fork_seq=@stays kind=6 err=0 in=leave_thread");
    while (!__atomic_load_n(&there, __ATOMIC_ACQUIRE))
        must(sched_yield() == 0);
    want("THREADCPU a=%d", (int)thread_tid);
}

/* --- what --locks=all says of locks in shared memory, and of others --- */
void use_locks(void)
{
    char name[] = "/dev/shm/i_fields-XXXXXX";
    int fd = mkstemp(name);
    struct stat st, in;
    must(fd >= 0 && unlink(name) == 0 && ftruncate(fd, 16384) == 0 &&
         fstat(fd, &st) == 0 && stat("/dev/shm", &in) == 0);
    const uint64_t directory[] = {in.st_dev, in.st_ino};
    const char *base = strrchr(name, '/') + 1;
    for (int i = 0; i < 2; i++) { /* made, and removed */
        want("RELEASE a=15 dev=0 ino=%lu object=%lu value=%d err=0 "
             "in=use_locks",
             (unsigned long)(fnv(FNV, base, strlen(base)) | 1),
             (unsigned long)(fnv(FNV, directory, sizeof(directory)) | 1),
             i + 1);
        if (i == 0)
            want("BLOCK a=%lu result=%lu op=14 err=0 ready=0 in=use_locks",
                 (unsigned long)st.st_dev, (unsigned long)st.st_ino);
    }
    char *at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 8192);
    must(at != MAP_FAILED);
    sem_t *shared = (sem_t *)(void *)(at + 4096 + 64);
    must(sem_init(shared, 1, 0) == 0 && sem_init(&begun, 0, 0) == 0);
    const unsigned long object = 8192 + 4096 + 64;
    must(sem_post(shared) == 0 && sem_wait(shared) == 0);
    want("RELEASE a=6 dev=%lu ino=%lu object=%lu value=1 err=0 site=0",
         (unsigned long)st.st_dev, (unsigned long)st.st_ino, object);
    want("ACQUIRE a=6 dev=%lu ino=%lu object=%lu value=3 err=0 site=0",
         (unsigned long)st.st_dev, (unsigned long)st.st_ino, object);
    must(sem_post(&begun) == 0 && sem_trywait(&begun) == 0);
    want("RELEASE_SHORT a=6 object=%lu", (unsigned long)&begun);
    want("ACQUIRE_SHORT a=6 object=%lu", (unsigned long)&begun);
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    must(pthread_rwlock_rdlock(&lock) == 0 &&
         pthread_rwlock_unlock(&lock) == 0 &&
         pthread_rwlock_wrlock(&lock) == 0 &&
         pthread_rwlock_unlock(&lock) == 0);
    for (unsigned kind = 2; kind <= 3; kind++) {
        want("ACQUIRE_SHORT a=%u object=%lu", kind, (unsigned long)&lock);
        want("RELEASE_SHORT a=%u object=%lu", kind, (unsigned long)&lock);
    }
    pthread_barrier_t barrier;
    must(pthread_barrier_init(&barrier, NULL, 1) == 0 &&
         pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD);
    want("ACQUIRE a=5 dev=0 ino=0 object=%lu value=1 err=0 in=use_locks",
         (unsigned long)&barrier);
}

void use_queue(void)
{
    struct mq_attr attr = {.mq_maxmsg = 2, .mq_msgsize = 8};
    char name[40], out[8];
    struct stat st;
    snprintf(name, sizeof(name), "/ips-fields-%d", (int)getpid());
    mqd_t q = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attr);
    must(q >= 0 && mq_unlink(name) == 0 && fstat(q, &st) == 0);
    const unsigned long number = 1ul << 29 | (st.st_ino & ((1ul << 29) - 1));
    must(mq_send(q, "message", 8, 0) == 0 && mq_receive(q, out, 8, NULL) == 8);
    want("RELEASE a=6 dev=0 ino=%lu object=0 value=1 err=0 in=use_queue",
         number);
    want("ACQUIRE a=6 dev=0 ino=%lu object=0 value=3 err=0 in=use_queue",
         number);
    want("RELEASE a=6 dev=0 ino=%lu object=4294967296 value=1 err=0 "
         "in=use_queue",
         number);
}
