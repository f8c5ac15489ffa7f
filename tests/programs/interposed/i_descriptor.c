/* i_descriptor CASE: one end under many numbers, and in other hands. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char buf[1000];

static void expect(const char *what, ssize_t n)
{
    printf("%s %zd%s%s\n", what, n, n < 0 ? " " : "",
           n < 0 ? strerror(errno) : "");
}

static void copies(void)
{
    int p[2];
    if (pipe(p))
        exit(1);
    int a = dup(p[1]), b = dup2(p[1], 50), c = dup3(p[1], 51, O_CLOEXEC),
        d = fcntl(p[1], F_DUPFD, 60), e = fcntl(p[1], F_DUPFD_CLOEXEC, 61);
    const int fds[] = {p[1], a, b, c, d, e};
    for (int i = 0; i < 6; i++)
        expect("write", write(fds[i], buf, 10));
    expect("read", read(p[0], buf, sizeof(buf)));
    for (int i = 0; i < 6; i++)
        close(fds[i]);
    expect("end", read(p[0], buf, sizeof(buf)));
    /* the number is another thing now */
    int file = open("/dev/null", O_WRONLY);
    printf("same number %d\n", file == p[1]);
    expect("file", write(file, buf, 100));
    close(file);
    int s[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, s))
        exit(1);
    expect("socket", write(s[0], buf, 20));
    expect("socket", read(s[1], buf, sizeof(buf)));
}

static void pass(void) /* a pipe's end goes to a child that never had it */
{
    int s[2], p[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, s))
        exit(1);
    pid_t pid = fork();
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    char byte = 'x';
    struct iovec iov = {&byte, 1};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof(control)};
    memset(&control, 0, sizeof(control));
    if (pid == 0) {
        if (recvmsg(s[1], &m, 0) != 1)
            exit(1);
        int fd;
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
        exit(write(fd, buf, 123) == 123 ? 0 : 1);
    }
    if (pipe(p))
        exit(1);
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &p[1], sizeof(int));
    expect("sendmsg", sendmsg(s[0], &m, 0));
    close(p[1]);
    expect("from the child", read(p[0], buf, sizeof(buf)));
    expect("end", read(p[0], buf, sizeof(buf)));
    int status;
    wait(&status);
    printf("status %d\n", status);
}

static void all(void) /* a program that closes everything it does not know */
{
    int p[2];
    if (pipe(p) || dup2(p[0], 100) < 0)
        exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        closefrom(3);
        expect("closed", write(p[1], buf, 1));
        exit(0);
    }
    waitpid(pid, NULL, 0);
    expect("mine", write(p[1], buf, 5));
    close_range(100, 100, 0);
    expect("gone", read(100, buf, 5));
    expect("still", read(p[0], buf, 5));
    for (int fd = 3; fd < 300; fd++)
        close(fd);
    expect("none", read(p[0], buf, 5));
    printf("next %d\n", open("/dev/null", O_RDONLY));
}

static void confined(void) /* no /proc, no pool, nobody's rights */
{
    char dir[] = "/tmp/i_descriptor-XXXXXX";
    int p[2];
    if (pipe(p) || !mkdtemp(dir))
        exit(1);
    printf("chroot %d\n", chroot(dir));
    printf("chdir %d\n", chdir("/"));
    printf("setgid %d\n", setgid(65534));
    printf("setuid %d\n", setuid(65534));
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        expect("write", write(p[1], buf, 77));
        exit(0);
    }
    waitpid(pid, NULL, 0);
    expect("read", read(p[0], buf, sizeof(buf)));
}

static void fifo(void)
{
    char dir[] = "/tmp/i_descriptor-XXXXXX", path[100];
    if (!mkdtemp(dir))
        exit(1);
    snprintf(path, sizeof(path), "%s/fifo", dir);
    if (mkfifo(path, 0600))
        exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        int out = open(path, O_WRONLY);
        exit(write(out, buf, 321) == 321 ? 0 : 1);
    }
    FILE *in = fopen(path, "r");
    size_t n = fread(buf, 1, sizeof(buf), in);
    fclose(in);
    waitpid(pid, NULL, 0);
    printf("fifo %zu\n", n);
    unlink(path);
    rmdir(dir);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(what, "copies"))
        copies();
    else if (!strcmp(what, "pass"))
        pass();
    else if (!strcmp(what, "all"))
        all();
    else if (!strcmp(what, "confined"))
        confined();
    else if (!strcmp(what, "fifo"))
        fifo();
    else
        return 2;
    return 0;
}
