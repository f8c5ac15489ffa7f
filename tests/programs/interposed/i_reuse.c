/* i_reuse serve ROUNDS | i_reuse ask PORT ROUNDS: the same two addresses and
 * ports, connection after connection. The client is bound to one port and
 * resets what it closes, so that no TIME_WAIT keeps it; every connection moves
 * other lengths, so that bytes of one taken for another's show. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char buf[100000];

static void check(const char *what, int failed)
{
    if (!failed)
        return;
    perror(what);
    exit(1);
}

static int bound(uint16_t port, struct sockaddr_in *at)
{
    const int one = 1;
    socklen_t len = sizeof(*at);
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
    at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    check("option",
          setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
    check("bind", bind(fd, (struct sockaddr *)at, len));
    check("name", getsockname(fd, (struct sockaddr *)at, &len));
    return fd;
}

static void take(int fd, size_t left)
{
    while (left > 0) {
        ssize_t n = read(fd, buf, left);
        check("read", n <= 0);
        left -= (size_t)n;
    }
}

static void serve(size_t rounds)
{
    struct sockaddr_in at;
    int listener = bound(0, &at);
    check("listen", listen(listener, 5));
    printf("%u\n", ntohs(at.sin_port));
    fflush(stdout);
    for (size_t i = 0; i < rounds; i++) {
        int fd = accept(listener, NULL, NULL);
        check("accept", fd < 0);
        take(fd, 100 + i);
        check("answer", write(fd, buf, 1000 + i) != (ssize_t)(1000 + i));
        while (read(fd, buf, 1) > 0)
            ;
        close(fd);
    }
}

static void ask(uint16_t port, size_t rounds)
{
    const struct linger reset = {.l_onoff = 1};
    struct sockaddr_in own, at;
    uint16_t mine = 0;
    for (size_t i = 0; i < rounds; i++) {
        int fd = bound(mine, &own);
        mine = ntohs(own.sin_port);
        at = own;
        at.sin_port = htons(port);
        check("connect", connect(fd, (struct sockaddr *)&at, sizeof(at)));
        check("ask", write(fd, buf, 100 + i) != (ssize_t)(100 + i));
        take(fd, 1000 + i);
        check("linger",
              setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)));
        close(fd);
    }
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "serve") == 0)
        serve(strtoul(argv[2], NULL, 10));
    else if (argc == 4 && strcmp(argv[1], "ask") == 0)
        ask((uint16_t)strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10));
    else
        return 2;
    return 0;
}
