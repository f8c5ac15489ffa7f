/* Stops where it is told, so that questions can be asked of a run that goes on.
 *
 *   i_live                   parent and child over two pipes
 *   i_live alone             the same, the child answers itself, without locks
 *   i_live serve             the child's part, on a port of 127.0.0.1 that it
 *                            prints ("port N")
 *   i_live call PORT         the parent's part, there
 *
 * The parent reads a line of its standard input, a number: so many turns, then
 * it prints "done TURNS" with all turns so far and reads the next; the end of
 * input ends both. In a turn it asks (one message), works, and takes the
 * answer; the child hands each question to a thread of its own under a mutex
 * and a condition. When "done" was printed, nobody does anything any more. */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile uint64_t sink;

static void work(unsigned n)
{
    for (unsigned i = 0; i < n * 1000; i++)
        sink += i;
}

static void need(int ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    _exit(1);
}

/* ---- the child ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int asked, answered; /* questions handed over, and done */
    int over;
} box = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0};

static void *helper(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&box.lock);
    for (;;) {
        while (box.answered == box.asked && !box.over)
            pthread_cond_wait(&box.changed, &box.lock);
        if (box.answered == box.asked)
            break;
        work(20);
        box.answered++;
        pthread_cond_broadcast(&box.changed);
    }
    pthread_mutex_unlock(&box.lock);
    return NULL;
}

static int serve_alone(int in, int out)
{
    char question[64];
    while (read(in, question, sizeof(question)) == sizeof(question)) {
        work(10);
        need(write(out, question, 32) == 32, "answer");
    }
    return 0;
}

static int serve(int in, int out)
{
    pthread_t thread;
    char question[64];
    need(pthread_create(&thread, NULL, helper, NULL) == 0, "thread");
    while (read(in, question, sizeof(question)) == sizeof(question)) {
        pthread_mutex_lock(&box.lock);
        box.asked++;
        pthread_cond_broadcast(&box.changed);
        while (box.answered < box.asked)
            pthread_cond_wait(&box.changed, &box.lock);
        pthread_mutex_unlock(&box.lock);
        work(10);
        need(write(out, question, 32) == 32, "answer");
    }
    pthread_mutex_lock(&box.lock);
    box.over = 1;
    pthread_cond_broadcast(&box.changed);
    pthread_mutex_unlock(&box.lock);
    pthread_join(thread, NULL);
    close(out);
    return 0;
}

static int serve_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int l = socket(AF_INET, SOCK_STREAM, 0);
    need(l >= 0 && bind(l, (struct sockaddr *)&a, len) == 0 &&
             listen(l, 1) == 0 &&
             getsockname(l, (struct sockaddr *)&a, &len) == 0,
         "listen");
    printf("port %d\n", ntohs(a.sin_port));
    fflush(stdout);
    int s = accept(l, NULL, NULL);
    need(s >= 0, "accept");
    return serve(s, s);
}

/* ---- the parent ---- */

static void ask(int in, int out)
{
    char line[32], message[64] = "question";
    size_t n = 0;
    unsigned done = 0;
    while (n < sizeof(line) - 1 && read(0, line + n, 1) == 1) {
        if (line[n++] != '\n')
            continue;
        line[n] = '\0';
        n = 0;
        for (int turns = atoi(line); turns > 0; turns--, done++) {
            need(write(out, message, 64) == 64, "question");
            work(30);
            need(read(in, message, 32) == 32, "answer");
            work(5);
        }
        char text[32];
        int len = snprintf(text, sizeof(text), "done %u\n", done);
        need(write(1, text, (size_t)len) == len, "done");
    }
}

static int call(const char *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)atoi(port)),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int s = socket(AF_INET, SOCK_STREAM, 0);
    need(s >= 0 && connect(s, (struct sockaddr *)&a, sizeof(a)) == 0,
         "connect");
    ask(s, s);
    close(s);
    return 0;
}

static int both(int (*serve_it)(int, int))
{
    int there[2], back[2];
    need(pipe(there) == 0 && pipe(back) == 0, "pipe");
    pid_t child = fork();
    need(child >= 0, "fork");
    if (child == 0) {
        close(there[1]);
        close(back[0]);
        exit(serve_it(there[0], back[1]));
    }
    close(there[0]);
    close(back[1]);
    ask(back[0], there[1]);
    close(there[1]);
    need(waitpid(child, NULL, 0) == child, "wait");
    return 0;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc == 2 && strcmp(argv[1], "serve") == 0)
        return serve_port();
    if (argc == 3 && strcmp(argv[1], "call") == 0)
        return call(argv[2]);
    if (argc == 2 && strcmp(argv[1], "alone") == 0)
        return both(serve_alone);
    return argc == 1 ? both(serve) : 2;
}
