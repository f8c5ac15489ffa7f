/*
 * Threads that wait for good, each in a call of its own. Prints of each "wait
 * CALL TID", then the names and numbers of what they wait for, "ready", and
 * waits itself until it is killed.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int empty[2], full[2], pair[2], full_pair[2], listener, epoll_fd;
static int others[2]; /* of the file whose lock is taken */
static int event_fd, timer_fd, signal_fd, lock_fd, semaphores, queue;
static FILE *stream;
static pid_t child;
static pthread_t first;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t free_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t sem;
static uint32_t word;
static char fifo[64], bytes[128];
static struct iovec iov = {bytes, sizeof(bytes)};
static struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
static struct mmsghdr mmsg;
static struct pollfd one;
static const struct timespec long_time = {1000, 0};
static sigset_t usr1, none;
static struct msgbuf_ {
    long type;
    char text[8];
} message = {1, ""};

#define WAIT(name, call)                                                       \
    static __attribute__((noinline)) void w_##name(void)                       \
    {                                                                          \
        (void)!(call);                                                         \
        __asm__ volatile("" ::: "memory");                                     \
    }
#define WAITS(X)                                                               \
    X(read, read(empty[0], bytes, 1))                                          \
    X(readv, readv(empty[0], &iov, 1))                                         \
    X(recv, recv(pair[0], bytes, 1, 0))                                        \
    X(recvfrom, recvfrom(pair[0], bytes, 1, 0, NULL, NULL))                    \
    X(recvmsg, recvmsg(pair[0], &msg, 0))                                      \
    X(recvmmsg, recvmmsg(pair[0], &mmsg, 1, 0, NULL))                          \
    X(write, write(full[1], bytes, 1))                                         \
    X(writev, writev(full[1], &iov, 1))                                        \
    X(send, send(full_pair[0], bytes, 1, 0))                                   \
    X(sendto, sendto(full_pair[0], bytes, 1, 0, NULL, 0))                      \
    X(sendmsg, sendmsg(full_pair[0], &msg, 0))                                 \
    X(sendmmsg, sendmmsg(full_pair[0], &mmsg, 1, 0))                           \
    X(fgetc, fgetc(stream))                                                    \
    X(accept, accept(listener, NULL, NULL))                                    \
    X(accept4, accept4(listener, NULL, NULL, 0))                               \
    X(eventfd, read(event_fd, bytes, 8))                                       \
    X(timerfd, read(timer_fd, bytes, 8))                                       \
    X(signalfd, read(signal_fd, bytes, sizeof(struct signalfd_siginfo)))       \
    X(poll, poll(&one, 1, -1))                                                 \
    X(ppoll, ppoll(&one, 1, &long_time, NULL))                                 \
    X(select, select(0, NULL, NULL, NULL, NULL))                               \
    X(pselect, pselect(0, NULL, NULL, NULL, &long_time, NULL))                 \
    X(epoll_wait, epoll_wait(epoll_fd, &(struct epoll_event){0}, 1, -1))       \
    X(epoll_pwait,                                                             \
      epoll_pwait(epoll_fd, &(struct epoll_event){0}, 1, -1, NULL))            \
    X(nanosleep, nanosleep(&long_time, NULL))                                  \
    X(clock_nanosleep, clock_nanosleep(CLOCK_MONOTONIC, 0, &long_time, NULL))  \
    X(usleep, usleep(900000000))                                               \
    X(sleep, (int)sleep(1000))                                                 \
    X(pause, pause())                                                          \
    X(sigwait, sigwait(&usr1, &(int){0}))                                      \
    X(sigwaitinfo, sigwaitinfo(&usr1, NULL))                                   \
    X(sigtimedwait, sigtimedwait(&usr1, NULL, &long_time))                     \
    X(sigsuspend, sigsuspend(&usr1))                                           \
    X(mutex, pthread_mutex_lock(&mutex))                                       \
    X(timedlock, pthread_mutex_timedlock(&mutex, &until))                      \
    X(rdlock, pthread_rwlock_rdlock(&rwlock))                                  \
    X(wrlock, pthread_rwlock_wrlock(&rwlock))                                  \
    X(cond, (pthread_mutex_lock(&free_mutex),                                  \
             pthread_cond_wait(&cond, &free_mutex)))                           \
    X(sem, sem_wait(&sem))                                                     \
    X(sem_timed, sem_timedwait(&sem, &until))                                  \
    X(barrier, pthread_barrier_wait(&barrier))                                 \
    X(flockfile, (flockfile(stdout), 0))                                       \
    X(flock, flock(others[0], LOCK_EX))                                        \
    X(ofd_lock, fcntl(others[1], F_OFD_SETLKW,                                 \
                      &(struct flock){.l_type = F_WRLCK, .l_len = 1}))         \
    X(semop, semop(semaphores, &(struct sembuf){.sem_op = -1}, 1))             \
    X(semtimedop,                                                              \
      semtimedop(semaphores, &(struct sembuf){.sem_op = -1}, 1, &long_time))   \
    X(msgrcv, (int)msgrcv(queue, &message, 8, 2, 0))                           \
    X(msgsnd, msgsnd(queue, &message, 8, 0))                                   \
    X(futex, (int)syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0))     \
    X(open_fifo, open(fifo, O_RDONLY))                                         \
    X(fopen_fifo, (fopen(fifo, "r"), 0))                                       \
    X(waitpid, waitpid(child, NULL, 0))                                        \
    X(wait4, wait4(child, NULL, 0, NULL))                                      \
    X(waitid, waitid(P_PID, (id_t)child, NULL, WEXITED))                       \
    X(wait_any, wait(NULL))                                                    \
    X(join, pthread_join(first, NULL))                                         \
    X(syscall_read, (int)syscall(SYS_read, empty[0], bytes, 1))

static struct timespec until;
WAITS(WAIT)

static const struct {
    const char *name;
    void (*wait)(void);
} waits[] = {
#define ROW(name, call) {#name, w_##name},
    WAITS(ROW)};
#define COUNT (sizeof(waits) / sizeof(waits[0]))
static _Atomic int tids[COUNT];

static void *thread_main(void *arg)
{
    size_t i = (size_t)(uintptr_t)arg;
    pthread_sigmask(SIG_SETMASK, &usr1, NULL);
    tids[i] = (int)syscall(SYS_gettid);
    waits[i].wait();
    return NULL;
}

static void fill(int fd)
{
    static char zeros[65536];
    fcntl(fd, F_SETFL, O_NONBLOCK);
    while (write(fd, zeros, sizeof(zeros)) > 0 || write(fd, zeros, 1) > 0)
        ;
    fcntl(fd, F_SETFL, 0);
}

static void say_end(const char *name, int fd)
{
    struct stat st;
    fstat(fd, &st);
    dprintf(1, "end %s %lu\n", name, (unsigned long)st.st_ino);
}
static void say(const char *name, uint64_t number)
{
    dprintf(1, "number %s %lu\n", name, (unsigned long)number);
}

static int make_all(const char *directory)
{
    char path[128];
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    sigemptyset(&none);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1000;
    mmsg.msg_hdr = msg;
    snprintf(fifo, sizeof(fifo), "%s/fifo", directory);
    snprintf(path, sizeof(path), "%s/lock", directory);
    lock_fd = open(path, O_RDWR | O_CREAT, 0600);
    for (int i = 0; i < 2; i++)
        others[i] = open(path, O_RDWR);
    snprintf(un.sun_path, sizeof(un.sun_path), "%s/socket", directory);
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&un, sizeof(un)) ||
        listen(listener, 1) || mkfifo(fifo, 0600) || pipe(empty) ||
        pipe(full) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) ||
        socketpair(AF_UNIX, SOCK_STREAM, 0, full_pair) ||
        pthread_barrier_init(&barrier, NULL, 2) || sem_init(&sem, 0, 0) ||
        flock(lock_fd, LOCK_EX) ||
        fcntl(lock_fd, F_OFD_SETLK,
              &(struct flock){.l_type = F_WRLCK, .l_len = 1}))
        return 1;
    fill(full[1]);
    fill(full_pair[0]);
    one = (struct pollfd){.fd = empty[0], .events = POLLIN};
    stream = fdopen(dup(empty[0]), "r");
    epoll_fd = epoll_create1(0);
    event_fd = eventfd(0, 0);
    timer_fd = timerfd_create(CLOCK_MONOTONIC, 0);
    signal_fd = signalfd(-1, &usr1, 0);
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    queue = msgget(IPC_PRIVATE, 0600);
    /* what is full takes no message: none is of type 2 */
    struct msqid_ds limits;
    if (semaphores < 0 || queue < 0 || msgctl(queue, IPC_STAT, &limits))
        return 1;
    limits.msg_qbytes = 8;
    if (msgctl(queue, IPC_SET, &limits) || msgsnd(queue, &message, 8, 0))
        return 1;
    child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    return pthread_mutex_lock(&mutex) || pthread_rwlock_wrlock(&rwlock) ||
           child < 0;
}

int main(int argc, char **argv)
{
    pthread_attr_t attr;
    pthread_t thread;
    if (argc != 2 || make_all(argv[1]))
        return 1;
    flockfile(stdout);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 << 10);
    for (size_t i = 0; i < COUNT; i++) {
        if (pthread_create(&thread, &attr, thread_main, (void *)i))
            return 1;
        if (i == 0)
            first = thread;
        while (!tids[i])
            sched_yield();
        dprintf(1, "wait %s %d\n", waits[i].name, tids[i]);
    }
    say_end("empty", empty[0]);
    say_end("full", full[1]);
    say_end("pair", pair[0]);
    say_end("full_pair", full_pair[0]);
    say_end("listener", listener);
    say("w_read", (uint64_t)(uintptr_t)w_read);
    say("main", (uint64_t)getpid());
    say("child", (uint64_t)child);
    say("mutex", (uint64_t)(uintptr_t)&mutex);
    say("rwlock", (uint64_t)(uintptr_t)&rwlock);
    say("cond", (uint64_t)(uintptr_t)&cond);
    say("sem", (uint64_t)(uintptr_t)&sem);
    say("barrier", (uint64_t)(uintptr_t)&barrier);
    say("stdout", (uint64_t)(uintptr_t)stdout->_lock);
    say("flock", (uint64_t)others[0]);
    say("ofd_lock", (uint64_t)others[1]);
    say("semaphores", (uint64_t)semaphores);
    say("queue", (uint64_t)queue);
    say("word", (uint64_t)(uintptr_t)&word);
    dprintf(1, "ready\n");
    char end;
    (void)!read(0, &end, 1);
    kill(child, SIGKILL);
    semctl(semaphores, 0, IPC_RMID);
    msgctl(queue, IPC_RMID, NULL);
    _exit(0);
}
