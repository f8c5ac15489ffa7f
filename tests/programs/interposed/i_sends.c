/*
 * i_sends: TCP connections that are made by their first send, and urgent data.
 *
 * i_sends CASE: this process sends, a child receives and prints for each of its
 * receives, its accept included, "PID N": it has to hang on the Nth send of
 * this process, its connect included.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 10

static int answers[2];

static void need(int good, const char *what)
{
    if (!good) {
        perror(what);
        _exit(2);
    }
}

static void got(int n)
{
    printf("%d %d\n", (int)getpid(), n);
    fflush(stdout);
    need(write(answers[1], "a", 1) == 1, "write");
}

static void receive(int listener, bool urgent, bool inside)
{
    char buf[BYTES], c;
    int one = 1, fd = accept(listener, NULL, NULL), n = 2;
    need(fd >= 0, "accept");
    if (inside)
        setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &one, sizeof(one));
    got(1);
    for (int i = 0; i < 4; i++) {
        need(recv(fd, buf, BYTES, MSG_WAITALL) == BYTES, "recv");
        got(n++);
        if (!urgent)
            continue;
        while (!inside && recv(fd, &c, 1, MSG_OOB) != 1)
            usleep(1000);
        if (inside)
            need(read(fd, &c, 1) == 1, "read");
        got(n++);
    }
    _exit(0);
}

static void await(void)
{
    char c;
    need(read(answers[0], &c, 1) == 1, "read");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    bool urgent = !strncmp(what, "urgent", 6),
         message = !strcmp(what, "message");
    char buf[BYTES] = {0};
    int listener = socket(AF_INET, SOCK_STREAM, 0), queue = 5, status;
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof(at);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    need(bind(listener, (struct sockaddr *)&at, len) == 0, "bind");
    getsockname(listener, (struct sockaddr *)&at, &len);
    setsockopt(listener, IPPROTO_TCP, TCP_FASTOPEN, &queue, sizeof(queue));
    need(listen(listener, 5) == 0 && pipe(answers) == 0, "listen");
    pid_t pid = fork();
    if (pid == 0)
        receive(listener, urgent, !strcmp(what, "urgent-inside"));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct iovec iov = {buf, BYTES};
    struct msghdr m = {
        .msg_name = &at, .msg_namelen = len, .msg_iov = &iov, .msg_iovlen = 1};
    if (urgent)
        need(connect(fd, (struct sockaddr *)&at, len) == 0, "connect");
    else if (message)
        need(sendmsg(fd, &m, MSG_FASTOPEN) == BYTES, "sendmsg");
    else
        need(sendto(fd, buf, BYTES, MSG_FASTOPEN, (struct sockaddr *)&at,
                    len) == BYTES,
             "sendto");
    await();
    for (int i = 0; i < 4; i++) {
        if (i || urgent)
            need(send(fd, buf, BYTES, 0) == BYTES, "send");
        await();
        if (!urgent)
            continue;
        need(send(fd, "!", 1, MSG_OOB) == 1, "send");
        await();
    }
    need(waitpid(pid, &status, 0) == pid, "waitpid");
    return status != 0;
}
