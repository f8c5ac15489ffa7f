/* i_stream CASE: bytes over pipes and sockets by every call. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char buf[100000];

static void expect(const char *what, ssize_t n)
{
    printf("%s %zd%s%s\n", what, n, n < 0 ? " " : "",
           n < 0 ? strerror(errno) : "");
}

/* Every call that moves bytes, 10 each, from fds[0] to fds[1]. */
static void calls(const int *fds)
{
    struct iovec iov[2] = {{buf, 4}, {buf + 4, 6}};
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};
    struct mmsghdr mm = {.msg_hdr = m};
    int socks = send(fds[1], buf, 0, 0) == 0;
    expect("write", write(fds[1], buf, 10));
    expect("writev", writev(fds[1], iov, 2));
    expect("pwritev2", pwritev2(fds[1], iov, 2, -1, 0));
    expect("SYS_write", syscall(SYS_write, fds[1], buf, 10));
    expect("read", read(fds[0], buf, 10));
    expect("readv", readv(fds[0], iov, 2));
    expect("preadv2", preadv2(fds[0], iov, 2, -1, 0));
    expect("SYS_read", syscall(SYS_read, fds[0], buf, 10));
    expect("nothing", read(fds[0], buf, 0));
    if (!socks)
        return;
    expect("send", send(fds[1], buf, 10, 0));
    expect("sendto", sendto(fds[1], buf, 10, 0, NULL, 0));
    expect("sendmsg", sendmsg(fds[1], &m, 0));
    expect("sendmmsg", sendmmsg(fds[1], &mm, 1, 0));
    expect("peek", recv(fds[0], buf, 10, MSG_PEEK));
    expect("recv", recv(fds[0], buf, 10, 0));
    expect("recvfrom", recvfrom(fds[0], buf, 10, 0, NULL, NULL));
    expect("recvmsg", recvmsg(fds[0], &m, 0));
    expect("recvmmsg", recvmmsg(fds[0], &mm, 1, 0, NULL));
    expect("EAGAIN", recv(fds[0], buf, 10, MSG_DONTWAIT));
}

static void kernel(void) /* from descriptor to descriptor */
{
    int a[2], b[2], s[2];
    char name[] = "/tmp/i_stream-XXXXXX";
    int file = mkstemp(name);
    unlink(name);
    if (pipe(a) || pipe(b) || socketpair(AF_UNIX, SOCK_STREAM, 0, s) ||
        write(file, buf, 5000) != 5000)
        exit(1);
    off_t at = 0;
    expect("sendfile", sendfile(s[0], file, &at, 1000));
    expect("splice in", splice(file, &at, a[1], NULL, 2000, 0));
    expect("tee", tee(a[0], b[1], 500, 0));
    expect("splice out", splice(a[0], NULL, s[0], NULL, 2000, 0));
    struct iovec iov = {buf, 300};
    expect("vmsplice", vmsplice(b[1], &iov, 1, 0));
    size_t got = 0;
    while (got < 3000) {
        ssize_t n = read(s[1], buf, sizeof(buf));
        if (n <= 0)
            exit(1);
        got += (size_t)n;
    }
    expect("read", read(b[0], buf, sizeof(buf)));
    if (write(b[1], buf, 7) != 7)
        exit(1);
    expect("vmsplice out", vmsplice(b[0], &iov, 1, 0));
    expect("copy_file_range", copy_file_range(file, &at, b[1], NULL, 10, 0));
    expect("copy_file_range", copy_file_range(file, &at, s[0], NULL, 10, 0));
}

static void ends(void) /* end-of-file, EPIPE, shutdown */
{
    int p[2], s[2];
    signal(SIGPIPE, SIG_IGN);
    if (pipe(p) || socketpair(AF_UNIX, SOCK_STREAM, 0, s))
        exit(1);
    close(p[1]);
    expect("end of pipe", read(p[0], buf, 10));
    shutdown(s[0], SHUT_WR);
    expect("end of socket", read(s[1], buf, 10));
    expect("other way", write(s[1], buf, 10));
    expect("after shutdown", write(s[0], buf, 10));
    close(s[0]);
    expect("to nobody", send(s[1], buf, 10, MSG_NOSIGNAL));
    close(p[0]);
    expect("closed", close(p[0]));
}

static void talk(int fd, int served)
{
    if (served) {
        ssize_t n = read(fd, buf, sizeof(buf));
        expect("request", n);
        if (write(fd, buf, 2 * (size_t)n) < 0)
            exit(1);
        close(fd);
        return;
    }
    size_t got = 0;
    ssize_t n;
    if (write(fd, buf, 50) != 50)
        exit(1);
    while ((n = read(fd, buf, sizeof(buf))) > 0)
        got += (size_t)n;
    printf("answer %zu, end %zd\n", got, n);
}

static void server(int family) /* the child serves, the parent asks */
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct sockaddr *at = (struct sockaddr *)&in;
    socklen_t len = sizeof(in);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (family == AF_UNIX) {
        at = (struct sockaddr *)&un;
        len = sizeof(un);
        snprintf(un.sun_path, sizeof(un.sun_path), "/tmp/i_stream-%d",
                 (int)getpid());
    }
    int listener = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (bind(listener, at, len) || listen(listener, 5) ||
        getsockname(listener, at, &len))
        exit(1);
    expect("too early", accept(listener, NULL, NULL));
    fcntl(listener, F_SETFL, 0);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        talk(accept(listener, NULL, NULL), 1);
        talk(accept4(listener, NULL, NULL, SOCK_CLOEXEC), 1);
        exit(0);
    }
    for (int i = 0; i < 2; i++) {
        int fd = socket(family, SOCK_STREAM | (i ? SOCK_NONBLOCK : 0), 0);
        if (connect(fd, at, len) && errno != EINPROGRESS)
            exit(1);
        fcntl(fd, F_SETFL, 0);
        talk(fd, 0);
        close(fd);
    }
    waitpid(pid, NULL, 0);
    close(listener);
    if (family == AF_UNIX)
        unlink(un.sun_path);
    int fd = socket(family, SOCK_STREAM, 0);
    expect("refused", connect(fd, at, len));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int fds[2];
    if (!strcmp(what, "pipe")) {
        if (pipe2(fds, O_CLOEXEC))
            return 1;
        calls(fds);
    } else if (!strcmp(what, "socketpair")) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
            return 1;
        calls(fds);
    } else if (!strcmp(what, "kernel")) {
        kernel();
    } else if (!strcmp(what, "ends")) {
        ends();
    } else if (!strcmp(what, "tcp")) {
        server(AF_INET);
    } else if (!strcmp(what, "unix")) {
        server(AF_UNIX);
    } else {
        return 2;
    }
    return 0;
}
