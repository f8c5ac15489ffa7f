/* Calls that a handler leaves for good while they wait: the record says that
 * each waited and was interrupted. The handler comes once the call sleeps. */
#include "failures.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "../asleep.h"
#include "old_numbers.h"

static sigjmp_buf back;
static pid_t main_tid;
static pthread_t main_thread, other;
static int own[2];

static void leave(int sig)
{
    (void)sig;
    siglongjmp(back, 1);
}
static void *second(void *arg)
{
    until_asleep(main_tid);
    must(pthread_kill(main_thread, SIGUSR1) == 0);
    return arg;
}
static void *sleeper(void *arg)
{
    for (;;)
        pause();
    return arg;
}
static void start_thread(pthread_t *t, void *(*body)(void *))
{
    sigset_t all, before;
    sigfillset(&all);
    must(pthread_sigmask(SIG_SETMASK, &all, &before) == 0 &&
         pthread_create(t, NULL, body, NULL) == 0 &&
         pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
}

#define LEFT(name, call)                                                       \
    static void case_##name(void)                                              \
    {                                                                          \
        pthread_t t;                                                           \
        start_thread(&t, second);                                              \
        call_begins();                                                         \
        if (sigsetjmp(back, 1) == 0) {                                         \
            (void)(call);                                                      \
            must(false);                                                       \
        }                                                                      \
        call_ends(0, UNTOUCHED);                                               \
        must(pthread_join(t, NULL) == 0);                                      \
    }
static ssize_t moved;
static struct iovec iov = {buf, 10};
static struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
static struct mmsghdr many = {.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1}};

static int fd = -1;
static void make_listener(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    must(bind(fd, (struct sockaddr *)&in, sizeof(in)) == 0 &&
         listen(fd, 5) == 0);
    name_end("listener", fd, "both");
}

static void case_begin(void)
{
    struct sigaction act = {.sa_handler = leave};
    main_tid = (pid_t)syscall(SYS_gettid);
    main_thread = pthread_self();
    must(sigaction(SIGUSR1, &act, NULL) == 0 && pipe(own) == 0);
    must(fcntl(full[1], F_SETFL, O_WRONLY) == 0 &&
         fcntl(full_socket[0], F_SETFL, O_RDWR) == 0);
    name_end("own.r", own[0], "read");
    name_end("own.w", own[1], "write");
    make_listener();
    CALL(write(own[1], "x", 1));
    must(read(own[0], buf, 10) == 1);
}
LEFT(read, moved = read(own[0], buf, 10))
LEFT(readv, moved = readv(own[0], &iov, 1))
LEFT(write, moved = write(full[1], buf, 10))
LEFT(writev, moved = writev(full[1], &iov, 1))
LEFT(send, send(full_socket[0], buf, 10, 0))
LEFT(sendmsg, sendmsg(full_socket[0], &msg, 0))
LEFT(recv, recv(pair[1], buf, 10, 0))
LEFT(recvfrom, recvfrom(pair[1], buf, 10, 0, NULL, NULL))
LEFT(recvmsg, recvmsg(pair[1], &msg, 0))
LEFT(recvmmsg, recvmmsg(pair[1], &many, 1, 0, NULL))
LEFT(splice, splice(own[0], NULL, pair[0], NULL, 10, 0))

LEFT(accept, accept(fd, NULL, NULL))
LEFT(accept4, accept4(fd, NULL, NULL, SOCK_CLOEXEC))
LEFT(eventfd, moved = read(fd = eventfd(0, 0), buf, 8))
LEFT(timerfd, moved = read(fd = timerfd_create(CLOCK_MONOTONIC, 0), buf, 8))
static sigset_t usr2;
LEFT(signalfd, moved = read(fd = signalfd(-1, &usr2, 0), buf, 128))

static struct pollfd asks = {.events = POLLIN};
static fd_set set;
static struct epoll_event event = {.events = EPOLLIN};
static const struct timespec long_time = {100000, 0};
LEFT(poll, (asks.fd = own[0], poll(&asks, 1, -1)))
LEFT(ppoll, ppoll(&asks, 1, &long_time, NULL))
LEFT(select, select(0, NULL, NULL, NULL, NULL))
LEFT(pselect,
     (FD_SET(own[0], &set), pselect(own[0] + 1, &set, NULL, NULL, NULL, NULL)))
LEFT(epoll, epoll_wait(fd = epoll_create1(0), &event, 1, -1))
LEFT(nanosleep, nanosleep(&long_time, NULL))
LEFT(clock_sleep, clock_nanosleep(CLOCK_MONOTONIC, 0, &long_time, NULL))
LEFT(pause, pause())
LEFT(sigwait, sigwaitinfo(&usr2, NULL))
LEFT(by_number, OLD_POLL(&asks, 1, -1))

static pid_t pid;
static int status;
static siginfo_t info;
/* Inlined in every build: the call is in its case. */
static inline __attribute__((always_inline)) pid_t a_child(void)
{
    pid = fork();
    if (pid == 0)
        _exit(read(own[0], buf, 1) == 1 ? 0 : 1);
    printf("[child %d]\n", (int)pid);
    return pid;
}
static void case_child(void)
{
    CALL(a_child() > 0);
}
LEFT(waitpid, waitpid(pid, &status, 0))
LEFT(waitid, waitid(P_PID, (id_t)pid, &info, WEXITED))
LEFT(wait_any, wait(&status))
static void case_child_ends(void)
{
    must(write(own[1], "x", 1) == 1);
    while (state_of(pid) != 'Z')
        unseen_call(SYS_sched_yield, 0, 0, 0, 0);
    CALL(waitpid(pid, &status, 0) == pid);
    start_thread(&other, sleeper);
}
LEFT(join, pthread_join(other, NULL))

/* --- locks, which a lasting thread or descriptor has --- */
static sem_t sem;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER,
                        read_lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static int file = -1, sems = -1, queue = -1;
static struct sembuf down = {0, -1, 0};
static struct {
    long type;
    char text[8];
} message;

static void case_locks(void)
{
    char name[] = "/tmp/i_failures-XXXXXX";
    sems = semget(IPC_PRIVATE, 1, 0600);
    queue = msgget(IPC_PRIVATE, 0600);
    file = mkstemp(name);
    fd = open(name, O_RDWR);
    must(sem_init(&sem, 0, 0) == 0 && pthread_mutex_lock(&mutex) == 0 &&
         pthread_rwlock_wrlock(&rwlock) == 0 &&
         pthread_rwlock_rdlock(&read_lock) == 0 &&
         pthread_barrier_init(&barrier, NULL, 2) == 0 && unlink(name) == 0 &&
         flock(fd, LOCK_EX) == 0 && sems >= 0 && queue >= 0 &&
         semctl(sems, 0, SETVAL, 0) == 0);
    printf("[sem %p] [mutex %p] [cond %p] [rwlock %p] [readlock %p] "
           "[barrier %p] [sems %d] [queue %d] [file %#x] ",
           (void *)&sem, (void *)&mutex, (void *)&cond, (void *)&rwlock,
           (void *)&read_lock, (void *)&barrier, sems, queue, (unsigned)file);
    CALL(0);
}
LEFT(sem_wait, sem_wait(&sem))
LEFT(sem_timedwait, sem_timedwait(&sem, &(struct timespec){.tv_sec = 1l << 40}))
LEFT(mutex, pthread_mutex_lock(&mutex))
LEFT(read_write,
     pthread_rwlock_timedwrlock(&read_lock,
                                &(struct timespec){.tv_sec = 1l << 40}))
LEFT(barrier, pthread_barrier_wait(&barrier))
LEFT(flock, flock(file, LOCK_SH))
LEFT(semop, semop(sems, &down, 1))
LEFT(msgrcv, msgrcv(queue, &message, 8, 0, 0))
LEFT(cond, pthread_cond_wait(&cond, &mutex))
static void case_end(void)
{
    must(semctl(sems, 0, IPC_RMID) == 0 && msgctl(queue, IPC_RMID, NULL) == 0);
    CALL(write(own[1], "y", 1));
}

const struct one_case left_cases[] = {
    CASE(begin),    CASE(read),       CASE(readv),     CASE(write),
    CASE(writev),   CASE(send),       CASE(sendmsg),   CASE(recv),
    CASE(recvfrom), CASE(recvmsg),    CASE(recvmmsg),  CASE(splice),
    CASE(accept),   CASE(accept4),    CASE(eventfd),   CASE(timerfd),
    CASE(signalfd), CASE(poll),       CASE(ppoll),     CASE(select),
    CASE(pselect),  CASE(epoll),      CASE(nanosleep), CASE(clock_sleep),
    CASE(pause),    CASE(sigwait),    CASE(by_number), CASE(child),
    CASE(waitpid),  CASE(waitid),     CASE(wait_any),  CASE(child_ends),
    CASE(join),     CASE(locks),      CASE(sem_wait),  CASE(sem_timedwait),
    CASE(mutex),    CASE(read_write), CASE(barrier),   CASE(flock),
    CASE(semop),    CASE(msgrcv),     CASE(cond),      CASE(end),
    {NULL, NULL}};
