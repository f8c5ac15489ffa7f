/*
 * service READY CLIENTS INSIDE OWN BYTES: a thread for each of so many clients,
 * which answers a question of ten bytes with so many; each takes INSIDE us of
 * CPU time under one mutex of all threads, and OWN us before it. READY appears
 * with the port in it. service READY ask COUNT BYTES HOST: such a client, COUNT
 * questions one after another.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS_MAX 256
#define ASKED 10
#define BYTES_MAX (1 << 20)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned inside_us, own_us, bytes;

static void must(int fine, const char *what)
{
    if (!fine) {
        perror(what);
        exit(1);
    }
}

static unsigned long cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (unsigned long)t.tv_sec * 1000000 + (unsigned long)t.tv_nsec / 1000;
}

static void burn(unsigned us)
{
    unsigned long end = cpu_us() + us;
    while (cpu_us() < end) {
    }
}

static void *serve(void *arg)
{
    int fd = *(int *)arg;
    char data[ASKED], *answer = calloc(1, bytes + 1u);
    must(answer != NULL, "memory");
    while (recv(fd, data, sizeof(data), MSG_WAITALL) == sizeof(data)) {
        burn(own_us);
        pthread_mutex_lock(&lock);
        burn(inside_us);
        pthread_mutex_unlock(&lock);
        must(send(fd, answer, bytes, 0) == (ssize_t)bytes, "send");
    }
    close(fd);
    free(answer);
    return NULL;
}

static void tell(const char *ready, int port)
{
    char name[4096];
    snprintf(name, sizeof(name), "%s.new", ready);
    FILE *f = fopen(name, "w");
    must(f && fprintf(f, "%d\n", port) > 0 && fclose(f) == 0, name);
    must(rename(name, ready) == 0, ready);
}

static int server(const char *ready, unsigned clients)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t len = sizeof(at);
    pthread_t thread[CLIENTS_MAX];
    int fd[CLIENTS_MAX], listener = socket(AF_INET, SOCK_STREAM, 0);
    must(clients <= CLIENTS_MAX, "too many clients");
    must(bind(listener, (struct sockaddr *)&at, len) == 0, "bind");
    must(listen(listener, CLIENTS_MAX) == 0, "listen");
    must(getsockname(listener, (struct sockaddr *)&at, &len) == 0, "name");
    tell(ready, ntohs(at.sin_port));
    for (unsigned i = 0; i < clients; i++) {
        must((fd[i] = accept(listener, NULL, NULL)) >= 0, "accept");
        must(pthread_create(&thread[i], NULL, serve, &fd[i]) == 0, "thread");
    }
    for (unsigned i = 0; i < clients; i++)
        pthread_join(thread[i], NULL);
    return 0;
}

static int ask(const char *ready, unsigned count, const char *host)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    char text[16] = "", data[ASKED] = {0}, *answer = calloc(1, bytes + 1u);
    must(answer && inet_pton(AF_INET, host, &at.sin_addr) == 1, host);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    FILE *f = fopen(ready, "r");
    must(f && fgets(text, sizeof(text), f), ready);
    fclose(f);
    at.sin_port = htons((uint16_t)atoi(text));
    must(connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0, "connect");
    for (unsigned i = 0; i < count; i++) {
        must(send(fd, data, sizeof(data), 0) == sizeof(data), "send");
        must(recv(fd, answer, bytes, MSG_WAITALL) == (ssize_t)bytes, "recv");
    }
    free(answer);
    close(fd);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: service READY CLIENTS INSIDE_US OWN_US BYTES\n"
                        "       service READY ask COUNT BYTES HOST\n");
        return 2;
    }
    bool asks = strcmp(argv[2], "ask") == 0;
    bytes = (unsigned)atoi(argv[asks ? 4 : 5]);
    must(bytes > 0 && bytes <= BYTES_MAX, "BYTES");
    if (asks)
        return ask(argv[1], (unsigned)atoi(argv[3]), argv[5]);
    inside_us = (unsigned)atoi(argv[3]);
    own_us = (unsigned)atoi(argv[4]);
    return server(argv[1], (unsigned)atoi(argv[2]));
}
