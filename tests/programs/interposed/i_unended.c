/* i_unended WHAT: the main thread waits for 100 ms of a child's computing, of
 * which nothing says afterwards whose doing it was; then it computes for 50 ms
 * itself. `read`: the same with a byte that is read. `outside`: nobody in the
 * program ends the wait, but a SIGUSR1 that the test sends does. `stream`: a
 * thread computes instead of the child. `file`: nobody has to end the wait.
 * `words`: two commands of wordexp compute, one after the other. `condition`,
 * `semaphore`, `futex`: a thread computes and then sets a flag, which the main
 * thread tests between waits that reach their time limit. `backlog`: the child
 * accepts. */
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <wordexp.h>

#include "asleep.h"
#include "compute.h"

static int p[2];
static char dir[] = "/tmp/i_unended.XXXXXX", block[4096];

static void nothing(int sig)
{
    (void)sig;
}

/* A signal that does not say who sent it: what is in its siginfo is the
 * sender's affair. */
static int nameless_signal(void)
{
    siginfo_t info = {.si_signo = SIGUSR1, .si_code = SI_QUEUE};
    return (int)syscall(SYS_rt_sigqueueinfo, getppid(), SIGUSR1, &info);
}

/* What ends the wait; the child's last deed. */
static int child(const char *what)
{
    compute(100);
    if (strcmp(what, "read") == 0 || strcmp(what, "list") == 0)
        return write(p[1], "x", 1) != 1;
    if (strcmp(what, "write") == 0)
        return read(p[0], block, sizeof(block)) <= 0;
    if (strcmp(what, "signalfd") == 0)
        return kill(getppid(), SIGUSR2);
    if (strcmp(what, "handler") == 0)
        return (int)unseen_call(SYS_kill, getppid(), SIGUSR1, 0, 0);
    if (strcmp(what, "nameless") == 0)
        return nameless_signal();
    if (strcmp(what, "backlog") == 0)
        return accept(p[0], NULL, NULL) < 0 || accept(p[0], NULL, NULL) < 0;
    return rmdir(dir);
}

/* Another thread's fputs has the lock of a stream, and no unlock says when it
 * is through: that is the C library's own. It waits until a third thread, which
 * computes, reads. */
static FILE *stream;
static atomic_int printer, waiter;

static void *print(void *unused)
{
    atomic_store(&printer, (int)syscall(SYS_gettid));
    fputs("text", stream);
    return unused;
}

static void *make_room(void *unused)
{
    while (!atomic_load(&waiter))
        sched_yield();
    until_asleep(waiter);
    compute(100);
    (void)!read(p[0], block, sizeof(block));
    return unused;
}

static int wait_for_stream(void)
{
    pthread_t threads[2];
    stream = fdopen(p[1], "w");
    setvbuf(stream, NULL, _IONBF, 0);
    if (pthread_create(&threads[0], NULL, print, NULL) ||
        pthread_create(&threads[1], NULL, make_room, NULL))
        return 1;
    while (!atomic_load(&printer))
        sched_yield();
    until_asleep(printer);
    atomic_store(&waiter, getpid());
    flockfile(stream);
    funlockfile(stream);
    return 0;
}

/* The child makes room for what AIO writes. */
static int wait_for_write(void)
{
    struct aiocb one = {.aio_fildes = p[1], .aio_buf = block, .aio_nbytes = 1};
    const struct aiocb *const list[] = {&one};
    return aio_write(&one) || aio_suspend(list, 1, NULL) ||
           aio_return(&one) != 1;
}

/* A file alone: the wait is one for the disk. */
static int wait_for_file(void)
{
    static char text[100];
    struct aiocb one = {.aio_fildes = open("/proc/self/exe", O_RDONLY),
                        .aio_buf = text,
                        .aio_nbytes = sizeof(text)};
    const struct aiocb *const list[] = {&one};
    return aio_read(&one) || aio_suspend(list, 1, NULL) ||
           aio_return(&one) != sizeof(text);
}

/* One wait for a byte and for a file: which of them came last? */
static int wait_for_list(void)
{
    static char byte, text[100];
    struct aiocb reads[] = {{.aio_fildes = p[0],
                             .aio_buf = &byte,
                             .aio_nbytes = 1,
                             .aio_lio_opcode = LIO_READ},
                            {.aio_fildes = open("/proc/self/exe", O_RDONLY),
                             .aio_buf = text,
                             .aio_nbytes = sizeof(text),
                             .aio_lio_opcode = LIO_READ}};
    struct aiocb *list[] = {&reads[0], &reads[1]};
    return lio_listio(LIO_WAIT, list, 2, NULL) || byte != 'x';
}

/* Which part of the wait was for which command, nobody says. */
static int wait_for_words(void)
{
    char words[2 * PATH_MAX], self[PATH_MAX] = "";
    wordexp_t found;
    (void)!readlink("/proc/self/exe", self, sizeof(self) - 1);
    snprintf(words, sizeof(words), "$('%s' command) $('%s' command)", self,
             self);
    return wordexp(words, &found, 0);
}

static atomic_int flag;

static void *set_flag(void *unused)
{
    compute(100);
    atomic_store(&flag, 1);
    return unused;
}

static bool tries_flag(const char *what)
{
    return strcmp(what, "condition") == 0 || strcmp(what, "semaphore") == 0 ||
           strcmp(what, "futex") == 0;
}

/* Waits again and again for at most 1 ms, until the flag is set. Nothing else
 * ends these waits. */
static int try_flag(const char *what)
{
    static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    const struct timespec limit = {0, 1000000};
    struct timespec until;
    pthread_t thread;
    sem_t sem;
    int word = 0;
    if (sem_init(&sem, 0, 0) || pthread_create(&thread, NULL, set_flag, NULL))
        return 1;
    pthread_mutex_lock(&mutex);
    while (!atomic_load(&flag)) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (what[0] == 'c')
            pthread_cond_timedwait(&cond, &mutex, &until);
        else if (what[0] == 's')
            sem_timedwait(&sem, &until);
        else
            syscall(SYS_futex, &word, FUTEX_WAIT, 0, &limit, NULL, 0);
    }
    pthread_mutex_unlock(&mutex);
    return 0;
}

/* A listening socket without room for a second connection. */
static int make_listener(struct sockaddr_un *name)
{
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "i_unended.%d",
             (int)getpid());
    p[0] = socket(AF_UNIX, SOCK_STREAM, 0);
    return bind(p[0], (const struct sockaddr *)name, sizeof(*name)) ||
           listen(p[0], 0);
}

/* The second one waits until the child accepts the first. */
static int connect_twice(const struct sockaddr_un *name)
{
    for (int i = 0; i < 2; i++)
        if (connect(socket(AF_UNIX, SOCK_STREAM, 0),
                    (const struct sockaddr *)name, sizeof(*name)))
            return 1;
    return 0;
}

static struct sockaddr_un listener;

static int wait_for_it(const char *what, int fd)
{
    if (strcmp(what, "backlog") == 0)
        return connect_twice(&listener);
    if (tries_flag(what))
        return try_flag(what);
    if (strcmp(what, "words") == 0)
        return wait_for_words();
    if (strcmp(what, "list") == 0)
        return wait_for_list();
    if (strcmp(what, "stream") == 0)
        return wait_for_stream();
    if (strcmp(what, "file") == 0)
        return wait_for_file();
    if (strcmp(what, "write") == 0)
        return wait_for_write();
    struct pollfd f = {.fd = fd, .events = POLLIN};
    char c;
    if (strcmp(what, "handler") == 0 || strcmp(what, "outside") == 0 ||
        strcmp(what, "nameless") == 0)
        return read(p[0], &c, 1) >= 0 || errno != EINTR;
    if (poll(&f, 1, -1) != 1)
        return 1;
    return strcmp(what, "read") == 0 && read(p[0], &c, 1) != 1;
}

static void fill(void)
{
    fcntl(p[1], F_SETFL, O_NONBLOCK);
    while (write(p[1], block, sizeof(block)) > 0)
        ;
    fcntl(p[1], F_SETFL, 0);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    struct sigaction sa = {.sa_handler = nothing};
    sigset_t usr2;
    if (strcmp(what, "command") == 0)
        return compute(50), 0;
    if (pipe(p))
        return 1;
    int fd = p[0];
    if (strcmp(what, "backlog") == 0 && make_listener(&listener))
        return 1;
    sigaction(SIGUSR1, &sa, NULL);
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    sigprocmask(SIG_BLOCK, &usr2, NULL);
    if (strcmp(what, "signalfd") == 0)
        fd = signalfd(-1, &usr2, 0);
    if (strcmp(what, "inotify") == 0) {
        if (!mkdtemp(dir))
            return 1;
        fd = inotify_init();
        inotify_add_watch(fd, dir, IN_DELETE_SELF);
    }
    if (strcmp(what, "stream") == 0 || strcmp(what, "write") == 0)
        fill();
    if (strcmp(what, "outside") == 0) {
        puts("ready");
        fflush(stdout);
    } else if (strcmp(what, "stream") != 0 && strcmp(what, "file") != 0 &&
               strcmp(what, "words") != 0 && !tries_flag(what) && fork() == 0) {
        _exit(child(what));
    }
    int r = wait_for_it(what, fd);
    compute(50);
    return r;
}
