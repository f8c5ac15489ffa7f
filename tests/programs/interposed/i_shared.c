/*
 * i_shared: several processes write one stream, several read it, in turns that
 * the command line gives; some of them may be of a program that is not
 * recorded.
 *
 * i_shared KIND OTHER TURN...: KIND is pipe, fifo, pair (socketpair) or packets
 * (SOCK_SEQPACKET). OTHER is this program, or one that is not recorded, by
 * path. A TURN is a writer and a reader, `r` of this program, `o` the other,
 * `_` none: the reader sleeps in its read before the writer writes, unless the
 * turn has only one of them. Prints the recorded writer's and reader's pids.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 10

struct helper {
    pid_t pid;
    int order, answer;
};

static void need(int good, const char *what)
{
    if (!good) {
        perror(what);
        exit(2);
    }
}

/* HELPER: does what it is told; says so before a read, and after either. */
static int help(int order, int answer, int data)
{
    char c, buf[BYTES] = {0};
    while (read(order, &c, 1) == 1) {
        if (c == 'r')
            need(write(answer, "b", 1) == 1, "answer");
        if (c == 'r')
            need(read(data, buf, BYTES) == BYTES, "read");
        else
            need(write(data, buf, BYTES) == BYTES, "write");
        need(write(answer, "d", 1) == 1, "answer");
    }
    return 0;
}

static struct helper start(const char *program, int data, const int *end)
{
    int order[2], answer[2];
    char text[3][12];
    need(pipe(order) == 0 && pipe(answer) == 0, "pipe");
    fcntl(order[1], F_SETFD, FD_CLOEXEC); /* or others keep it from its end */
    fcntl(answer[0], F_SETFD, FD_CLOEXEC);
    pid_t pid = fork();
    need(pid >= 0, "fork");
    if (pid == 0) {
        snprintf(text[0], sizeof(text[0]), "%d", order[0]);
        snprintf(text[1], sizeof(text[1]), "%d", answer[1]);
        snprintf(text[2], sizeof(text[2]), "%d", data);
        close(end[data == end[0]]);
        execl(program, program, "helper", text[0], text[1], text[2],
              (char *)NULL);
        _exit(3);
    }
    close(order[0]);
    close(answer[1]);
    return (struct helper){pid, order[1], answer[0]};
}

static void await(const struct helper *h, char what)
{
    char c;
    need(read(h->answer, &c, 1) == 1 && c == what, "answer");
}

static void await_sleep(const struct helper *h)
{
    char path[40], text[200], *at;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)h->pid);
    for (;; usleep(1000)) {
        int fd = open(path, O_RDONLY);
        ssize_t n = read(fd, text, sizeof(text) - 1);
        close(fd);
        need(n > 0, "stat");
        text[n] = '\0';
        at = strrchr(text, ')');
        if (at && at[2] == 'S')
            return;
    }
}

static void open_stream(const char *kind, int end[2])
{
    char path[60];
    if (!strcmp(kind, "pipe"))
        need(pipe(end) == 0, "pipe");
    else if (!strcmp(kind, "pair"))
        need(socketpair(AF_UNIX, SOCK_STREAM, 0, end) == 0, "socketpair");
    else if (!strcmp(kind, "packets"))
        need(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, end) == 0, "socketpair");
    else {
        snprintf(path, sizeof(path), "/tmp/i_shared-%d", (int)getpid());
        need(mkfifo(path, 0600) == 0, "mkfifo");
        end[0] = open(path, O_RDONLY | O_NONBLOCK);
        end[1] = open(path, O_WRONLY);
        unlink(path);
        need(end[0] >= 0 && end[1] >= 0 && fcntl(end[0], F_SETFL, 0) == 0,
             "open");
    }
}

static struct helper *of(struct helper h[2], char who)
{
    return who == '_' ? NULL : &h[who == 'o'];
}

int main(int argc, char **argv)
{
    struct helper writer[2], reader[2];
    int end[2], status, bad = 0;
    if (argc == 5 && !strcmp(argv[1], "helper"))
        return help(atoi(argv[2]), atoi(argv[3]), atoi(argv[4]));
    if (argc < 4)
        return 2;
    open_stream(argv[1], end);
    for (int i = 0; i < 2; i++) {
        const char *program = i ? argv[2] : "/proc/self/exe";
        writer[i] = start(program, end[1], end);
        reader[i] = start(program, end[0], end);
    }
    printf("%d %d\n", (int)writer[0].pid, (int)reader[0].pid);
    close(end[0]);
    close(end[1]);
    for (int i = 3; i < argc; i++) {
        struct helper *w = of(writer, argv[i][0]), *r = of(reader, argv[i][1]);
        if (r) {
            need(write(r->order, "r", 1) == 1, "order");
            await(r, 'b');
        }
        if (r && w)
            await_sleep(r);
        if (w) {
            need(write(w->order, "w", 1) == 1, "order");
            await(w, 'd');
        }
        if (r)
            await(r, 'd');
    }
    for (int i = 0; i < 2; i++) {
        close(writer[i].order);
        close(reader[i].order);
    }
    while (wait(&status) > 0)
        bad |= status;
    return bad != 0;
}
