/* A program whose descriptor table somebody watches.
 *
 *   i_table CASE DIR     one of `cases` below; files are made in DIR
 *
 * Prints "library LOW HIGH" of libips-preload.so, where it is loaded, when an
 * image has begun; what comes after that line is the case's. Exit status 0: the
 * program found its descriptors, files and locks as it had left them. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what)                                                            \
    do {                                                                       \
        if (!(what)) {                                                         \
            fprintf(stderr, "i_table: %s: %s\n", #what, strerror(errno));      \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

static const char *dir;
static int pipe_fd[2];

static void say_library(void)
{
    char line[512];
    unsigned long low, high;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps);
    while (fgets(line, sizeof(line), maps))
        if (strstr(line, "libips-preload.so") && strstr(line, "r-xp") &&
            sscanf(line, "%lx-%lx", &low, &high) == 2)
            printf("library %lx %lx\n", low, high);
    fclose(maps);
    fflush(stdout);
}

/* A byte to and fro, and some time off the core and on it. */
static void some_work(void)
{
    char c = 'x';
    const struct timespec nap = {.tv_nsec = 2000000};
    volatile unsigned long sum = 0;
    CHECK(write(pipe_fd[1], &c, 1) == 1);
    CHECK(read(pipe_fd[0], &c, 1) == 1);
    for (int i = 0; i < 6; i++) {
        nanosleep(&nap, NULL);
        for (unsigned long n = 0; n < 2000000; n++)
            sum += n;
    }
}

static void *one_thread(void *unused)
{
    some_work();
    return unused;
}

static int threads(void)
{
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&t[i], NULL, one_thread, NULL) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
    return 0;
}

static void fork_tree(int depth)
{
    some_work();
    for (int i = 0; depth > 0 && i < 2; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            fork_tree(depth - 1);
            _exit(0);
        }
    }
    int status;
    while (wait(&status) > 0)
        CHECK(status == 0);
}

static int forks(void)
{
    fork_tree(2);
    return 0;
}

static int user(void)
{
    if (geteuid() == 0)
        CHECK(setgid(65534) == 0 && setuid(65534) == 0);
    threads();
    return forks();
}

static int range(void)
{
    for (int i = 0; i < 8; i++) {
        char name[300] = {0};
        pthread_t t;
        CHECK(pthread_create(&t, NULL, one_thread, NULL) == 0);
        CHECK(close_range(10, ~0u, 0) == 0);
        snprintf(name, sizeof(name), "%s/file%d", dir, i);
        int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        int lowest = dup(fd);
        CHECK(fd >= 0 && lowest == fd + 1);
        CHECK(write(fd, name, 200) == 200);
        CHECK(pthread_join(t, NULL) == 0);
        CHECK(lseek(fd, 0, SEEK_END) == 200);
        CHECK(close(lowest) == 0 && close(fd) == 0);
    }
    return 0;
}

/* Closes each number twice, while threads begin: the second close finds nothing
 * of anybody's, and the file that gets the number stays as it is. */
static int twice(void)
{
    for (int i = 0; i < 8; i++) {
        char name[300] = {0};
        pthread_t t;
        CHECK(pthread_create(&t, NULL, one_thread, NULL) == 0);
        for (int k = 0; k < 2000; k++) {
            int fd = dup(pipe_fd[0]);
            CHECK(fd >= 0 && close(fd) == 0);
            CHECK(close(fd) == -1 && errno == EBADF);
        }
        snprintf(name, sizeof(name), "%s/file%d", dir, i);
        int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        CHECK(fd >= 0 && write(fd, name, 200) == 200);
        CHECK(pthread_join(t, NULL) == 0);
        CHECK(lseek(fd, 0, SEEK_END) == 200 && close(fd) == 0);
    }
    return 0;
}

static void *connect_to(void *arg)
{
    for (int i = 0; i < 5; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK(connect(fd, arg, sizeof(struct sockaddr_un)) == 0);
        CHECK(write(fd, "x", 1) == 1);
        close(fd);
    }
    return NULL;
}

static int accepts(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof(at.sun_path), "%s/socket", dir);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(listener, (struct sockaddr *)&at, sizeof(at)) == 0);
    CHECK(listen(listener, 8) == 0);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, connect_to, &at) == 0);
    for (int i = 0; i < 5; i++) {
        char c;
        int fd = accept(listener, NULL, NULL);
        CHECK(read(fd, &c, 1) == 1 && read(fd, &c, 1) == 0);
        close(fd);
    }
    CHECK(pthread_join(t, NULL) == 0);
    return 0;
}

static int numbered(void) /* descriptors that only /proc can tell apart */
{
    uint64_t value = 1;
    int event = eventfd(0, 0);
    CHECK(write(event, &value, sizeof(value)) == sizeof(value));
    CHECK(read(event, &value, sizeof(value)) == sizeof(value));
    pid_t pid = fork();
    if (pid == 0) {
        some_work();
        _exit(0);
    }
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    CHECK(fd >= 0 && syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) == 0);
    CHECK(poll(&p, 1, -1) == 1 && waitpid(pid, NULL, 0) == pid);
    return 0;
}

static int shared(void)
{
    struct {
        pthread_mutex_t lock;
        _Atomic int held;
    } *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&s->lock, &a);
    pid_t pid = fork();
    if (pid == 0) {
        pthread_mutex_lock(&s->lock);
        s->held = 1;
        some_work();
        pthread_mutex_unlock(&s->lock);
        _exit(0);
    }
    while (!s->held)
        sched_yield();
    pthread_mutex_lock(&s->lock);
    pthread_mutex_unlock(&s->lock);
    CHECK(waitpid(pid, NULL, 0) == pid);
    return 0;
}

/* Whether this process still has its lock of that type on the file. */
static bool has_lock(int fd, short type)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        _exit(fcntl(fd, F_GETLK, &l) == 0 && l.l_type == type ? 0 : 1);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    return status == 0;
}

static int nothing(void)
{
    return 0;
}

/* The process keeps its locks: on a file of its own while threads begin, and on
 * the file of the program that it starts, at which we look. */
static int locks(void)
{
    char name[300], self[] = "/proc/self/exe", path[4096] = "";
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    snprintf(name, sizeof(name), "%s/lock", dir);
    int fd = open(name, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && fcntl(fd, F_SETLK, &l) == 0);
    threads();
    CHECK(has_lock(fd, F_WRLCK));
    CHECK(readlink(self, path, sizeof(path) - 1) > 0);
    int program = open(path, O_RDONLY);
    l.l_type = F_RDLCK;
    CHECK(program >= 0 && fcntl(program, F_SETLK, &l) == 0);
    for (int i = 0; i < 3; i++) {
        char *argv[] = {path, (char[]){"nothing"}, (char[]){"-"}, NULL};
        pid_t pid;
        int status;
        CHECK(posix_spawn(&pid, path, NULL, NULL, argv, environ) == 0);
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        CHECK(has_lock(program, F_RDLCK));
    }
    return 0;
}

static int much(void) /* more than a segment */
{
    char c = 'x';
    int end[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, end) == 0);
    for (int i = 0; i < 40000; i++)
        CHECK(send(end[0], &c, 1, 0) == 1 && recv(end[1], &c, 1, 0) == 1);
    return 0;
}

static int execs(void)
{
    for (volatile int i = 0; i < 3; i++) {
        static char programs[][16] = {"/sbin/ldconfig", "/bin/true",
                                      "/nonexistent"};
        char *argv[] = {programs[i], (char[]){"--version"}, NULL};
        pid_t pid = i == 1 ? vfork() : fork();
        if (pid == 0) {
            execv(argv[0], argv);
            _exit(127);
        }
        CHECK(waitpid(pid, NULL, 0) == pid);
    }
    return 0;
}

/* It has one thread, and no child has cost it anything: an unshare() that a
 * process with threads may not do. */
static int alone(void)
{
    struct rusage children;
    for (int i = 0; i < 60; i++) {
        int fd = eventfd(1, 0);
        uint64_t value;
        CHECK(fd >= 0 && read(fd, &value, sizeof(value)) == sizeof(value));
        CHECK(unshare(CLONE_THREAD) == 0);
        CHECK(close(fd) == 0);
    }
    CHECK(getrusage(RUSAGE_CHILDREN, &children) == 0);
    CHECK(children.ru_maxrss == 0 && children.ru_minflt == 0);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(void);
} cases[] = {{"threads", threads}, {"forks", forks},     {"user", user},
             {"range", range},     {"accepts", accepts}, {"numbered", numbered},
             {"shared", shared},   {"locks", locks},     {"much", much},
             {"execs", execs},     {"alone", alone},     {"twice", twice},
             {"nothing", nothing}};

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    dir = argv[2];
    CHECK(pipe(pipe_fd) == 0);
    say_library();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (strcmp(argv[1], cases[i].name) == 0)
            return cases[i].run();
    fprintf(stderr, "i_table: %s: no such case\n", argv[1]);
    return 2;
}
