/* i_stdio CASE: what the C library reads and writes by its own calls. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <wchar.h>

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "flush-at-exit")) { /* nothing but exit writes it */
        for (int i = 0; i < 1000; i++)
            printf("line %d\n", i);
        return 3;
    }
    if (!strcmp(what, "quick-exit")) { /* what was flushed, and no more */
        printf("flushed\n");
        fflush(stdout);
        printf("never seen\n");
        quick_exit(4);
    }
    if (!strcmp(what, "getline")) {
        char *line = NULL;
        size_t size = 0, lines = 0, bytes = 0;
        ssize_t n;
        while ((n = getline(&line, &size, stdin)) > 0) {
            lines++;
            bytes += (size_t)n;
        }
        free(line);
        printf("%zu lines %zu bytes\n", lines, bytes);
        return 0;
    }
    if (!strcmp(what, "fread")) {
        char buf[100000];
        size_t n, bytes = 0;
        while ((n = fread(buf, 1, sizeof(buf), stdin)) > 0)
            bytes += n;
        printf("%zu bytes\n", bytes);
        return 0;
    }
    if (!strcmp(what, "wide")) {
        fwide(stdout, 1);
        wprintf(L"wide %d\n", 7);
        return 0;
    }
    if (!strcmp(what, "dprintf")) {
        dprintf(1, "number %d\n", 9);
        return 0;
    }
    if (!strcmp(what, "fdopen")) { /* a stream over a socket, closed by it */
        int fds[2];
        char back[100] = "";
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
            return 1;
        FILE *f = fdopen(fds[0], "r+");
        fprintf(f, "%s", "through a stream");
        fclose(f);
        ssize_t n = read(fds[1], back, sizeof(back) - 1);
        ssize_t end = read(fds[1], back + n, 1);
        printf("%zd %s %zd\n", n, back, end);
        return 0;
    }
    if (!strcmp(what, "error")) { /* a full write that fails */
        int fds[2];
        if (pipe(fds))
            return 1;
        FILE *f = fdopen(fds[1], "w");
        close(fds[0]);
        if (signal(SIGPIPE, SIG_IGN) == SIG_ERR)
            return 1;
        fprintf(f, "to nobody");
        int r = fclose(f);
        printf("%d %s\n", r, strerror(errno));
        return 0;
    }
    fprintf(stderr, "i_stdio: no case '%s'\n", what);
    return 2;
}
