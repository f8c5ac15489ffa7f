/* i_stdio CASE: what the C library reads and writes by its own calls. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
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
    if (!strcmp(what, "freopen") && argc > 2) { /* one end of a FIFO in the
                                                  place of a pipe's */
        int fds[2];
        char back[100] = "";
        if (pipe(fds) || mkfifo(argv[2], 0600))
            return 1;
        FILE *f = fdopen(fds[1], "w");
        fprintf(f, "%s", "before");
        if (fork() == 0) {
            close(fds[0]);
            f = freopen(argv[2], "r", f);
            _exit(f && fgets(back, sizeof(back), f) ? 0 : 1);
        }
        usleep(20000);
        FILE *same = freopen(argv[2], "w", f);
        ssize_t n = 0, r;
        while ((r = read(fds[0], back + n, sizeof(back) - 1 - (size_t)n)) > 0)
            n += r;
        fputs("after it\n", f);
        fclose(f);
        int status = -1;
        wait(&status);
        printf("%zd %s %d\n", n, back, same == f ? status : -1);
        f = freopen("/no/such/file", "r", stdin);
        printf("%d %s\n", !f, strerror(errno));
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
