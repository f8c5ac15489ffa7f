/* i_fortified: the calls that -D_FORTIFY_SOURCE gives other names. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void expect(const char *what, ssize_t n, ssize_t right)
{
    if (n == right)
        return;
    fprintf(stderr, "%s %zd\n", what, n);
    exit(1);
}

/* n is 10 and several 2, which the compiler does not know. */
static void streams(const int *s, size_t n)
{
    char buf[100];
    expect("dprintf", dprintf(s[0], "number %zu\n", n), 10);
    FILE *in = fdopen(s[1], "r"), *out = fdopen(s[0], "w");
    if (!in || !out || !fgets(buf, (int)(5 * n), in))
        exit(1);
    expect("fgets", (ssize_t)strlen(buf), 10);
    expect("fprintf", fprintf(out, "%zu and more\n", n), 12);
    fflush(out);
    expect("fread", (ssize_t)fread(buf, 1, n + 2, in), 12);
    printf("%.11s\n", buf);
}

int main(int argc, char **argv)
{
    (void)argv;
    char buf[100] = "";
    struct pollfd wait[2];
    struct timespec ts = {0, 10000000};
    size_t n = 9 + (size_t)argc;
    int s[2], p[2];
    if (pipe(p) || socketpair(AF_UNIX, SOCK_STREAM, 0, s))
        return 1;
    expect("write", write(p[1], buf, 2 * n), 20);
    expect("read", read(p[0], buf, 2 * n), 20);
    expect("send", send(s[0], buf, 75, 0), 75);
    expect("recv", recv(s[1], buf, 3 * n, 0), 30);
    expect("recvfrom", recvfrom(s[1], buf, 4 * n + 5, 0, NULL, NULL), 45);
    for (int i = 0; i < 2; i++)
        wait[i] = (struct pollfd){.fd = s[i], .events = POLLIN};
    expect("poll", poll(wait, n - 8, 10), 0);
    expect("ppoll", ppoll(wait, n - 8, &ts, NULL), 0);
    streams(s, n);
    return 0;
}
