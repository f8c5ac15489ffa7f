/*
 * Runs a plan of tests/oracle/random_program.py and keeps a log of what really
 * happened, for the comparison with what IPS says happened.
 *
 *   random_program PLAN LOGS THREAD OP
 *
 * PLAN is text: "threads channels shared queues", a kind for each channel, then
 * one line "thread code a b c d" an operation, in each thread's order. THREAD
 * is the one that this image's main thread is, OP where it goes on. LOGS is a
 * directory: T<thread> is that thread's log, a header and entries (below),
 * mapped shared.
 *
 * What is not the plan's must not be recorded: the log is written by stores,
 * and all else is done by system calls of our own (raw below). So a thread can
 * wait, unseen, until another one sleeps in an operation (await), and the plan
 * knows who waited for whom.
 *
 * Any failure is a message and status 3: the plan cannot be run here.
 */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *plan_path;
static char *self_path;
static int thread_count, queue_count;
static struct op *ops[MAX_THREADS];
static int op_count[MAX_THREADS];
static struct op all_ops[MAX_OPS];

/* In a file that all images map, if the plan says so. */
struct shared {
    sem_t semaphore[MAX_OBJECTS];
    pthread_mutex_t mutex[MAX_OBJECTS];
};
static struct shared *shared;
static int wants_shared;

static pthread_t handle[MAX_THREADS];
static _Atomic int has_handle[MAX_THREADS];
static pthread_mutex_t mutex[MAX_OBJECTS];
static pthread_cond_t condition[MAX_OBJECTS];
static pthread_rwlock_t rwlock[MAX_OBJECTS];
static pthread_barrier_t barrier[MAX_OBJECTS];
static sem_t semaphore[MAX_OBJECTS];
static volatile sig_atomic_t handled_from;

/* --- processes, threads -------------------------------------------------- */

static void run(int from);

static void *thread_main(void *arg)
{
    be((int)(intptr_t)arg);
    run(0);
    return NULL;
}

static void do_create(long t)
{
    struct entry *e = begin(CALL_OP);
    finish(e,
           -pthread_create(&handle[t], NULL, thread_main, (void *)(intptr_t)t),
           "pthread_create");
    has_handle[t] = 1;
}

static void do_join(long t)
{
    while (!has_handle[t])
        hidden_sleep(200);
    struct entry *e = begin(CALL_OP);
    finish(e, -pthread_join(handle[t], NULL), "pthread_join");
}

static void do_fork(long t)
{
    struct entry *e = begin(CALL_OP);
    pid_t child = fork();
    if (child == 0) {
        be((int)t);
        run(0);
        _exit(0);
    }
    finish(e, child, "fork");
}

static void image_words(char *words[6], char text[2][24], long t, long op)
{
    union {
        const char *in;
        char *out;
    } plan = {plan_path}, logs = {log_path};
    snprintf(text[0], 24, "%ld", t);
    snprintf(text[1], 24, "%ld", op);
    char *list[] = {self_path, plan.out, logs.out, text[0], text[1], NULL};
    memcpy(words, list, sizeof(list));
}

static void do_spawn(long t)
{
    extern char **environ;
    char text[2][24], *words[6];
    pid_t child;
    image_words(words, text, t, 0);
    struct entry *e = begin(CALL_OP);
    int r = posix_spawn(&child, self_path, NULL, NULL, words, environ);
    finish(e, r ? -1 : child, "posix_spawn");
}

static void do_exec(void)
{
    char text[2][24], *words[6];
    image_words(words, text, my_thread, my_op + 1);
    begin(CALL_OP);
    execv(self_path, words);
    die("execv", errno);
}

static void do_wait(long t)
{
    pid_t child = (pid_t)hidden_header((int)t).pid;
    int status;
    struct entry *e = begin(CALL_OP);
    finish(e, waitpid(child, &status, 0), "waitpid");
    if (status)
        die("child failed", status);
}

/* --- signals ------------------------------------------------------------- */

static void on_signal(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)context;
    handled_from = info->si_pid;
}

static void do_kill(long t, long sig, long how)
{
    struct log to = hidden_header((int)t);
    struct entry *e = begin(CALL_OP);
    if (how == 0)
        finish(e, kill((pid_t)to.pid, (int)sig), "kill");
    else if (how == 1)
        finish(e, tgkill((pid_t)to.pid, (pid_t)to.tid, (int)sig), "tgkill");
    else
        finish(e,
               sigqueue((pid_t)to.pid, (int)sig,
                        (union sigval){.sival_int = my_op}),
               "sigqueue");
}

static void do_pidfd_poll(long t, long how)
{
    int fd = (int)syscall(SYS_pidfd_open, hidden_header((int)t).pid, 0);
    if (fd < 0)
        die("pidfd_open", errno);
    look(fd, 1 + how);
    close(fd);
}

static void do_stop(void)
{
    struct entry *e = begin(CALL_OP);
    finish(e, raise(SIGSTOP), "raise");
}

static void do_go_on(long t)
{
    struct log to = hidden_header((int)t);
    await_stopped(&to);
    struct entry *e = begin(CALL_OP);
    finish(e, kill((pid_t)to.pid, SIGCONT), "kill");
}

static void do_fifo_open(long number, long side)
{
    char path[400];
    snprintf(path, sizeof(path), "%s/fifo%ld", log_path, number);
    raw(SYS_mknodat, AT_FDCWD, (long)path, S_IFIFO | 0600, 0, 0, 0);
    struct entry *e = begin(CALL_OP);
    finish(e, open(path, (side ? O_WRONLY : O_RDONLY) | O_CLOEXEC), "open");
}

static void do_sigwait(long sig)
{
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, (int)sig);
    struct entry *e = begin(CALL_OP);
    finish(e, sigwaitinfo(&set, &info), "sigwaitinfo");
    e->extra = info.si_pid;
}

static void do_sigsuspend(long sig)
{
    struct sigaction act = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    sigset_t set;
    if (sigaction((int)sig, &act, NULL) < 0 ||
        pthread_sigmask(SIG_SETMASK, NULL, &set))
        die("sigaction", errno);
    sigdelset(&set, (int)sig);
    struct entry *e = begin(CALL_OP);
    sigsuspend(&set);
    finish(e, 0, NULL);
    e->extra = handled_from;
}

static void never_called(int sig)
{
    die("a blocked signal was delivered", sig);
}

static void block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGPIPE);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    for (int sig = SIGRTMIN; sig <= SIGRTMAX; sig++)
        sigaddset(&set, sig);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    /* Of no child that is stopped. Not SIG_DFL: that discards one that pends
     * since before an exec. */
    struct sigaction ends = {.sa_handler = never_called,
                             .sa_flags = SA_NOCLDSTOP};
    sigaction(SIGCHLD, &ends, NULL);
}

/* --- operations ---------------------------------------------------------- */

static void do_eventfd(long c, int write_it)
{
    uint64_t one = 1;
    struct entry *e = begin(CALL_OP);
    finish(e,
           write_it ? write(fd_of(c, 0), &one, 8) : read(fd_of(c, 0), &one, 8),
           "eventfd");
}

/* Whole files, by a description of each lock's own or by the process. */
static void do_file_lock(long object, long how, int lock)
{
    static int fd[MAX_THREADS][MAX_OBJECTS];
    int *mine = &fd[my_thread][object];
    char path[400];
    snprintf(path, sizeof(path), "%s/f%ld", log_path, object);
    if (!*mine)
        *mine = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct flock whole = {.l_type = lock ? F_WRLCK : F_UNLCK};
    struct entry *e = begin(CALL_OP);
    finish(e,
           how ? fcntl(*mine, F_SETLKW, &whole)
               : flock(*mine, lock ? LOCK_EX : LOCK_UN),
           "file lock");
}

/* Nameless as soon as they are made; children inherit them. */
static void make_queues(void)
{
    struct mq_attr one = {.mq_maxmsg = 1, .mq_msgsize = 8};
    char name[64];
    for (int q = 0; q < queue_count; q++) {
        snprintf(name, sizeof(name), "/ips-random-%d-%d", (int)getpid(), q);
        mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &one);
        mq_unlink(name);
        if (queue < 0 || dup2(queue, FIRST_QUEUE + q) < 0)
            die("mq_open", errno);
        mq_close(queue);
    }
}

static void do_message(long q, int put)
{
    mqd_t queue = (mqd_t)(FIRST_QUEUE + q);
    char text[8] = "m";
    struct entry *e = begin(CALL_OP);
    finish(e,
           put ? mq_send(queue, text, 1, 0)
               : mq_receive(queue, text, sizeof(text), NULL),
           "message");
}

static void map_shared(int first)
{
    char path[400];
    snprintf(path, sizeof(path), "%s/shared", log_path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(struct shared)) < 0)
        die(path, errno);
    shared = (struct shared *)mmap(NULL, sizeof(struct shared),
                                   PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    for (int i = 0; first && i < MAX_OBJECTS; i++) {
        sem_init(&shared->semaphore[i], 1, 0);
        pthread_mutex_init(&shared->mutex[i], &attr);
    }
}

static void do_sync(const struct op *o)
{
    struct entry *e = begin(CALL_OP);
    long r = 0;
    switch (o->code) {
    case LOCK:
        r = pthread_mutex_lock(&mutex[o->a]);
        break;
    case UNLOCK:
        r = pthread_mutex_unlock(&mutex[o->a]);
        break;
    case READ_LOCK:
        r = pthread_rwlock_rdlock(&rwlock[o->a]);
        break;
    case WRITE_LOCK:
        r = pthread_rwlock_wrlock(&rwlock[o->a]);
        break;
    case RW_UNLOCK:
        r = pthread_rwlock_unlock(&rwlock[o->a]);
        break;
    case COND_WAIT:
        r = pthread_cond_wait(&condition[o->a], &mutex[o->b]);
        break;
    case COND_SIGNAL:
        r = pthread_cond_signal(&condition[o->a]);
        break;
    case COND_BROADCAST:
        r = pthread_cond_broadcast(&condition[o->a]);
        break;
    case SEM_WAIT:
        r = sem_wait(&semaphore[o->a]);
        break;
    case SEM_POST:
        r = sem_post(&semaphore[o->a]);
        break;
    case SHARED_WAIT:
        r = sem_wait(&shared->semaphore[o->a]);
        break;
    case SHARED_POST:
        r = sem_post(&shared->semaphore[o->a]);
        break;
    case SHARED_LOCK:
        r = pthread_mutex_lock(&shared->mutex[o->a]);
        break;
    case SHARED_UNLOCK:
        r = pthread_mutex_unlock(&shared->mutex[o->a]);
        break;
    case BARRIER_WAIT:
        r = pthread_barrier_wait(&barrier[o->a]);
        r = r == PTHREAD_BARRIER_SERIAL_THREAD ? 0 : r;
        break;
    default:
        die("code", o->code);
    }
    finish(e, r > 0 ? -r : r, "sync");
}

static void do_op(const struct op *o)
{
    switch (o->code) {
    case SETUP:
        for (long c = 0; c < channel_count; c++)
            make_channel(c);
        make_queues();
        break;
    case COMPUTE: { /* its end may be the last that is known of a process */
        struct entry *e = begin(CALL_OP);
        spin((uint64_t)o->a * 1000);
        finish(e, 0, NULL);
        break;
    }
    case SLEEP: {
        struct timespec t = {0, o->a * 1000};
        struct entry *e = begin(CALL_OP);
        finish(e, nanosleep(&t, NULL), "nanosleep");
        break;
    }
    case HIDE: {
        struct entry *e = begin(CALL_OP);
        hidden_sleep(o->a);
        finish(e, 0, NULL);
        break;
    }
    case AWAIT:
        await((int)o->a, o->b, 0);
        break;
    case AFTER:
        await((int)o->a, o->b, 1);
        break;
    case SEND:
        do_send(o->a, o->b, o->c);
        break;
    case RECEIVE:
        do_receive(o->a, o->b, o->c, o->d);
        break;
    case RECEIVE_BOTH:
        do_receive_both(o);
        break;
    case SEND_BROKEN:
        do_send_broken(o->a);
        break;
    case FILE_LOCK:
        do_file_lock(o->a, o->b, 1);
        break;
    case FILE_UNLOCK:
        do_file_lock(o->a, o->b, 0);
        break;
    case SEND_DATAGRAM:
        do_send_datagram(o->a, o->b);
        break;
    case CLOSE:
        do_close(o->a, o->b);
        break;
    case SHUTDOWN: {
        struct entry *e = begin(CALL_OP);
        finish(e, shutdown(fd_of(o->a, 1), SHUT_WR), "shutdown");
        break;
    }
    case CONNECT:
        do_connect(o->a);
        break;
    case ACCEPT:
        do_accept(o->a);
        break;
    case TRIM:
        do_trim((unsigned long)o->a, (unsigned long)o->b);
        break;
    case CREATE:
        do_create(o->a);
        break;
    case JOIN:
        do_join(o->a);
        break;
    case FORK:
        do_fork(o->a);
        break;
    case SPAWN:
        do_spawn(o->a);
        break;
    case EXEC:
        do_exec();
        break;
    case WAIT:
        do_wait(o->a);
        break;
    case KILL:
        do_kill(o->a, o->b, o->c);
        break;
    case SIGWAIT:
        do_sigwait(o->a);
        break;
    case SIGSUSPEND:
        do_sigsuspend(o->a);
        break;
    case PIDFD_POLL:
        do_pidfd_poll(o->a, o->b);
        break;
    case FIFO_OPEN:
        do_fifo_open(o->a, o->b);
        break;
    case STOP:
        do_stop();
        break;
    case GO_ON:
        do_go_on(o->a);
        break;
    case EVENTFD_WRITE:
        do_eventfd(o->a, 1);
        break;
    case EVENTFD_READ:
        do_eventfd(o->a, 0);
        break;
    case MESSAGE_PUT:
        do_message(o->a, 1);
        break;
    case MESSAGE_TAKE:
        do_message(o->a, 0);
        break;
    case BARRIER_INIT:
        pthread_barrier_init(&barrier[o->a], NULL, (unsigned)o->b);
        break;
    default:
        do_sync(o);
        break;
    }
}

static void run(int from)
{
    int thread = my_thread;
    for (int i = from; i < op_count[thread]; i++) {
        my_op = i;
        over(i);
        do_op(&ops[thread][i]);
    }
    over(op_count[thread]);
}

/* --- the plan ------------------------------------------------------------ */

static long number(const char **at)
{
    char *end;
    long n = strtol(*at, &end, 10);
    if (end == *at)
        die("bad plan", 0);
    *at = end;
    return n;
}

static void read_plan(void)
{
    long fd = raw(SYS_openat, AT_FDCWD, (long)plan_path, O_RDONLY, 0, 0, 0);
    static char text[1 << 17];
    if (fd < 0 || raw(SYS_read, fd, (long)text, sizeof(text) - 1, 0, 0, 0) <= 0)
        die("no plan", fd);
    raw(SYS_close, fd, 0, 0, 0, 0, 0);
    const char *at = text;
    thread_count = (int)number(&at);
    channel_count = (int)number(&at);
    wants_shared = (int)number(&at);
    queue_count = (int)number(&at);
    if (thread_count > MAX_THREADS || channel_count > MAX_CHANNELS ||
        queue_count > MAX_QUEUES)
        die("plan is too large", 0);
    for (int c = 0; c < channel_count; c++)
        channel_kind[c] = (int)number(&at);
    int used = 0;
    for (int t = 0; t < thread_count; t++) {
        op_count[t] = (int)number(&at);
        ops[t] = &all_ops[used];
        for (int i = 0; i < op_count[t]; i++, used++) {
            if (used >= MAX_OPS)
                die("plan is too large", used);
            struct op *o = &all_ops[used];
            o->code = (int)number(&at);
            o->a = number(&at);
            o->b = number(&at);
            o->c = number(&at);
            o->d = number(&at);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 5)
        die("usage: random_program PLAN LOGS THREAD OP", argc);
    self_path = argv[0];
    plan_path = argv[1];
    log_path = argv[2];
    read_plan();
    for (int i = 0; i < MAX_OBJECTS; i++) {
        pthread_mutex_init(&mutex[i], NULL);
        pthread_cond_init(&condition[i], NULL);
        pthread_rwlock_init(&rwlock[i], NULL);
        sem_init(&semaphore[i], 0, 0);
    }
    block_signals();
    if (wants_shared)
        map_shared(atoi(argv[3]) + atoi(argv[4]) == 0);
    be(atoi(argv[3]));
    run(atoi(argv[4]));
    return 0;
}
