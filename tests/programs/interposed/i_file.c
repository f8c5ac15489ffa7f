/* i_file CASE: waits that files, terminals, eventfds and spinning make. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "asleep.h"

static int go[2];
static char name[] = "i_file.XXXXXX";

static void tell(void)
{
    char c = 1;
    if (write(go[1], &c, 1) != 1)
        _exit(9);
}
static void await(void)
{
    char c;
    while (read(go[0], &c, 1) != 1)
        ;
}
static pid_t child(void)
{
    fflush(NULL);
    return fork();
}
static int open_it(void)
{
    return open(name, O_RDWR);
}

/* --- locks: a child holds, the parent waits ---------------------------------
 */

static int lock_by(int how, int fd, int lock)
{
    struct flock l = {
        .l_type = lock ? F_WRLCK : F_UNLCK, .l_start = 100, .l_len = 10};
    if (how == 0)
        return flock(fd, lock ? LOCK_EX : LOCK_UN);
    if (how == 1)
        return fcntl(fd, F_SETLKW, &l);
    if (how == 2)
        return fcntl(fd, lock ? F_OFD_SETLKW : F_OFD_SETLK, &l);
    lseek(fd, 200, SEEK_SET);
    return lockf(fd, lock ? F_LOCK : F_ULOCK, 50);
}

static void locks(void)
{
    for (int how = 0; how < 6; how++) { /* 4: close; 5: exit */
        int kind = how < 4 ? how : 0;
        pid_t pid = child();
        if (pid == 0) {
            int fd = open_it();
            if (lock_by(kind, fd, 1))
                _exit(1);
            tell();
            until_asleep(getppid());
            usleep(20000);
            if (how < 4)
                _exit(lock_by(kind, fd, 0));
            if (how == 4) {
                close(fd);
                usleep(20000);
            }
            exit(0);
        }
        int fd = open_it(), status;
        await();
        printf("lock %d: %d", how, lock_by(kind, fd, 1));
        printf(" unlock %d\n", lock_by(kind, fd, 0));
        close(fd);
        waitpid(pid, &status, 0);
        printf("child %d\n", status);
    }
    int fd = open_it();
    printf("try %d", flock(fd, LOCK_EX | LOCK_NB));
    printf(" %d", flock(open_it(), LOCK_EX | LOCK_NB));
    printf(" errno %d\n", errno);
    printf("bad %d", flock(-1, LOCK_EX));
    printf(" errno %d\n", errno);
    printf("bad %d", fcntl(fd, F_SETLKW, (void *)(uintptr_t)1));
    printf(" errno %d\n", errno);
}

static int lock_range(int how, int fd, int type, const int range[2])
{
    struct flock l = {
        .l_type = (short)type, .l_start = range[0], .l_len = range[1]};
    if (how == 0)
        return fcntl(fd, F_SETLKW, &l);
    if (how == 1)
        return fcntl(fd, type == F_UNLCK ? F_OFD_SETLK : F_OFD_SETLKW, &l);
    /* from its end backwards */
    lseek(fd, range[0] + range[1], SEEK_SET);
    return lockf(fd, type == F_UNLCK ? F_ULOCK : F_LOCK, -range[1]);
}

/* A child unlocks other bytes than those for which the parent waits. */
static void ranges(void)
{
    static const int cases[][3][2] = {{{0, 100}, {50, 10}, {0, 100}},
                                      {{50, 10}, {0, 100}, {50, 10}},
                                      {{50, 10}, {50, 10}, {0, 0}},
                                      {{50, 10}, {55, 10}, {45, 20}}};
    for (int i = 0; i < 12; i++) {
        const int how = i / 4, (*r)[2] = cases[i % 4];
        pid_t pid = child();
        if (pid == 0) {
            int fd = open_it();
            if (lock_range(how, fd, F_WRLCK, r[0]))
                _exit(1);
            tell();
            until_asleep(getppid());
            usleep(20000);
            _exit(lock_range(how, fd, F_UNLCK, r[2]));
        }
        int fd = open_it(), status;
        await();
        printf("range %d: %d\n", i, lock_range(how, fd, F_WRLCK, r[1]));
        close(fd);
        waitpid(pid, &status, 0);
        printf("child %d\n", status);
    }
}

/* --- eventfd -------------------------------------------------------------- */

static void events(void)
{
    uint64_t value = 0;
    for (int how = 0; how < 3; how++) { /* read, poll then read, ready */
        int e = eventfd(0, how == 1 ? EFD_NONBLOCK : 0);
        pid_t pid = child();
        if (pid == 0) {
            if (how == 2) {
                eventfd_write(e, 5);
                _exit(0);
            }
            await();
            until_asleep(getppid());
            usleep(20000);
            value = 7;
            _exit(write(e, &value, 8) != 8);
        }
        if (how == 2) {
            waitpid(pid, NULL, 0);
            printf("read %d", eventfd_read(e, &value));
            printf(" %d\n", (int)value);
            continue;
        }
        tell();
        struct pollfd p = {e, POLLIN, 0};
        if (how == 1)
            printf("poll %d\n", poll(&p, 1, -1));
        printf("read %zd", read(e, &value, 8));
        printf(" %d\n", (int)value);
        waitpid(pid, NULL, 0);
        if (how == 1)
            printf("again %zd %d\n", read(e, &value, 8), errno == EAGAIN);
        close(e);
    }
}

/* --- a terminal
 * ------------------------------------------------------------------
 */

/* A child writes `text` to `fd` when the parent sleeps. */
static pid_t writer(int fd, const char *text)
{
    pid_t pid = child();
    if (pid)
        return pid;
    await();
    until_asleep(getppid());
    usleep(20000);
    _exit(write(fd, text, strlen(text)) != (ssize_t)strlen(text));
}

/* A line that is typed, its echo, and a line that is printed. */
static void terminal(void)
{
    char line[100] = "";
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) || unlockpt(master)) {
        printf("none\n");
        return;
    }
    int tty = open(ptsname(master), O_RDWR | O_NOCTTY);
    pid_t pid = writer(master, "hello\n");
    tell();
    printf("read %zd", read(tty, line, sizeof(line)));
    printf(" %s", line);
    waitpid(pid, NULL, 0);
    printf("echo %zd\n", read(master, line, sizeof(line)));
    pid = writer(tty, "there\n");
    tell();
    printf("read %zd\n", read(master, line, sizeof(line)));
    waitpid(pid, NULL, 0);
}

/* --- disk ----------------------------------------------------------------- */

/* Writes until the disk was waited for, or not (what is no disk). */
static void disk(void)
{
    static char buf[1 << 16];
    int fd = open_it(), bad = 0;
    for (int i = 0; i < 100; i++) {
        bad += pwrite(fd, buf, sizeof(buf), i * 65536) != sizeof(buf);
        bad += i % 2 ? fsync(fd) : fdatasync(fd);
    }
    printf("bad %d\n", bad);
}

/* Much CPU in reads and no wait. */
static void copies(void)
{
    const size_t n = 16 << 20;
    char *buf = malloc(n);
    memset(buf, 1, n);
    int fd = open_it();
    printf("wrote %d\n", write(fd, buf, n) == (ssize_t)n);
    for (int i = 0; i < 10; i++)
        if (pread(fd, buf, n, 0) != (ssize_t)n)
            printf("short\n");
    lseek(fd, 0, SEEK_SET);
    FILE *f = fdopen(fd, "r");
    setvbuf(f, NULL, _IONBF, 0);
    printf("read %d\n", fread(buf, 1, n, f) == n);
    fclose(f);
    free(buf);
}

/* --- spinning
 * --------------------------------------------------------------------
 */

static void work(void) /* 100 us of CPU */
{
    struct timespec from, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - from.tv_sec) * 1000000000 + now.tv_nsec -
               from.tv_nsec <
           100000);
}

/* The child answers a byte some time after it is asked. */
static void answer(int fd)
{
    char c;
    while (read(fd, &c, 1) == 1) {
        usleep(20000);
        if (write(fd, &c, 1) != 1)
            break;
    }
    _exit(0);
}

static void spin(void)
{
    int s[2];
    char c = 'x';
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    pid_t pid = child();
    if (pid == 0) {
        close(s[0]);
        answer(s[1]);
    }
    close(s[1]);
    fcntl(s[0], F_SETFL, O_NONBLOCK);
    struct pollfd p = {s[0], POLLIN, 0};
    for (int how = 0; how < 4; how++) {
        printf("ask %zd\n", write(s[0], &c, 1));
        switch (how) {
        case 0: /* receives */
            while (read(s[0], &c, 1) < 0)
                ;
            break;
        case 1: /* polls */
            while (poll(&p, 1, 0) == 0)
                ;
            break;
        case 2: /* both */
            while (poll(&p, 1, 0) == 0 && recv(s[0], &c, 1, 0) < 0)
                ;
            break;
        default: /* useful work between */
            while (poll(&p, 1, 0) == 0)
                work();
            break;
        }
        if (how == 1 || how == 3)
            printf("got %zd\n", read(s[0], &c, 1));
        else if (how == 2)
            recv(s[0], &c, 1, 0);
    }
    close(s[0]);
    waitpid(pid, NULL, 0);
}

/* --- tokens of a jobserver ------------------------------------------------ */

/* A FIFO is opened both ways by some, twice by others (make itself). */
static void open_fifo(const char *fifo, int once, int t[2])
{
    t[0] = open(fifo, once ? O_RDWR : O_RDONLY);
    t[1] = once ? t[0] : open(fifo, O_WRONLY);
    if (t[0] < 0 || t[1] < 0)
        _exit(1);
}

static void pass_tokens(const char *fifo)
{
    int t[2];
    if (fifo)
        open_fifo(fifo, 1, t);
    if ((!fifo && pipe(t)) || write(t[1], "+", 1) != 1)
        exit(1);
    for (int i = 0; i < 3; i++)
        if (child() == 0) {
            char c;
            if (fifo)
                open_fifo(fifo, i == 0, t);
            for (int k = 0; k < 5; k++) {
                if (read(t[0], &c, 1) != 1)
                    _exit(1);
                usleep(3000);
                if (write(t[1], &c, 1) != 1)
                    _exit(1);
            }
            _exit(0);
        }
    int status, bad = 0;
    while (wait(&status) > 0)
        bad += status;
    printf("bad %d\n", bad);
}

static void tokens(void)
{
    pass_tokens(NULL);
}

static void tokens_fifo(void)
{
    const char *fifo = "i_file.fifo";
    if (mkfifo(fifo, 0600))
        exit(1);
    pass_tokens(fifo);
    unlink(fifo);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"locks", locks}, {"ranges", ranges},     {"events", events},
        {"disk", disk},   {"terminal", terminal}, {"copies", copies},
        {"spin", spin},   {"tokens", tokens},     {"tokens-fifo", tokens_fifo}};
    setvbuf(stdout, NULL, _IOFBF, 65536);
    close(mkstemp(name));
    if (pipe(go))
        return 1;
    int status = 2;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (argc > 1 && !strcmp(argv[1], cases[i].name)) {
            cases[i].run();
            status = 0;
        }
    unlink(name);
    return status;
}
