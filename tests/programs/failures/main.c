#include "failures.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

char buf[70000];
int empty[2], pair[2], full[2], full_socket[2], broken, broken_sock;
static int marks[2];

void must(bool good)
{
    if (!good) {
        perror("i_failures");
        exit(1);
    }
}

static void mark(size_t bytes)
{
    char seen[2];
    must(write(marks[1], "xx", bytes) == (ssize_t)bytes);
    must(read(marks[0], seen, sizeof(seen)) == (ssize_t)bytes);
}

void call_begins(void)
{
    fflush(stdout);
    mark(1);
}

void call_ends(long result, int error)
{
    mark(2);
    printf("%ld %s\n", result,
           error == UNTOUCHED ? "-" : strerrorname_np(error));
}

void name_end(const char *name, int fd, const char *side)
{
    struct stat st;
    must(fstat(fd, &st) == 0);
    printf("end %s %lu %s\n", name, (unsigned long)st.st_ino, side);
}

void no_wait(int fd)
{
    must(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0);
}

void fill(int fd)
{
    no_wait(fd);
    while (write(fd, buf, sizeof(buf)) > 0)
        continue;
    must(errno == EAGAIN);
    while (write(fd, buf, 1) > 0)
        continue;
    must(errno == EAGAIN);
}

static void on_alarm(int sig)
{
    (void)sig;
}

void alarms_begin(void)
{
    struct sigaction act = {.sa_handler = on_alarm};
    struct itimerval every = {{0, 20000}, {0, 20000}};
    must(sigaction(SIGALRM, &act, NULL) == 0);
    must(setitimer(ITIMER_REAL, &every, NULL) == 0);
}

void alarms_end(void)
{
    const struct itimerval none = {{0, 0}, {0, 0}};
    must(setitimer(ITIMER_REAL, &none, NULL) == 0);
    signal(SIGALRM, SIG_IGN);
}

struct timespec from_now(clockid_t clock, long ms)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    ts.tv_nsec += ms * 1000000;
    ts.tv_sec += ts.tv_nsec / 1000000000;
    ts.tv_nsec %= 1000000000;
    return ts;
}

static void make_ends(void)
{
    int p[2];
    must(pipe(marks) == 0 && pipe(empty) == 0 && pipe(full) == 0 &&
         pipe(p) == 0);
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 &&
         socketpair(AF_UNIX, SOCK_STREAM, 0, full_socket) == 0);
    name_end("marks", marks[1], "write");
    name_end("marks.r", marks[0], "read");
    name_end("empty.r", empty[0], "read");
    name_end("empty.w", empty[1], "write");
    name_end("full.r", full[0], "read");
    name_end("full.w", full[1], "write");
    name_end("pair.0", pair[0], "both");
    name_end("pair.1", pair[1], "both");
    name_end("full.s", full_socket[0], "both");
    no_wait(empty[0]);
    no_wait(pair[0]);
    fill(full[1]);
    fill(full_socket[0]);
    close(p[0]);
    broken = p[1];
    name_end("broken.w", broken, "write");
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, p) == 0);
    close(p[1]);
    broken_sock = p[0];
    name_end("broken.s", broken_sock, "both");
}

/* i_failures GROUP: one file's cases, so that groups can run side by side. */
int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        const struct one_case *cases;
    } groups[] = {
        {"bytes", bytes_cases},       {"descriptors", descriptor_cases},
        {"waits", wait_cases},        {"locks", lock_cases},
        {"processes", process_cases}, {"together", together_cases},
        {"paths", path_cases},        {"numbers", number_cases},
        {"rare", rare_cases},         {"notices", notice_cases},
        {"left", left_cases},         {"execs", exec_cases},
        {"memory", memory_cases}};
    const struct one_case *c = NULL;
    if (argc == 2 && strcmp(argv[1], "environment") == 0)
        return show_environment();
    for (size_t i = 0; argc == 2 && i < sizeof(groups) / sizeof(groups[0]); i++)
        if (strcmp(argv[1], groups[i].name) == 0)
            c = groups[i].cases;
    if (!c)
        return 2;
    signal(SIGPIPE, SIG_IGN);
    make_ends();
    for (; c->name; c++) {
        printf("case %s: ", c->name);
        c->fn();
    }
    return 0;
}
