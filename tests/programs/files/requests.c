/* The request interpreter: takes the clients' requests, asks the directory
 * where the block is, then the buffer manager for it. See files.h. */
#include "files.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: files-requests --listen ADDR:PORT --directory ADDR:PORT\n"
    "                      --buffer ADDR:PORT --clients N [--work N]\n"
    "Serves N clients, which it waits for, and ends with them.\n";

/* What a client waits for. */
struct access {
    uint32_t kind;
    uint8_t data[4 + FILES_BLOCK]; /* block of its file or disk, contents */
    uint32_t bytes;
};

struct service {
    int directory, buffer;
    uint32_t clients, left, work;
    uint64_t worked;
    struct access access[FILES_MAX_CLIENTS];
    struct pollfd fd[FILES_MAX_CLIENTS + 2];
};

static struct access *access_of(struct service *s, uint32_t id)
{
    if (id >= s->clients)
        net_die("an answer to client %u", id);
    return &s->access[id];
}

static void on_client(struct service *s, uint32_t id)
{
    struct access *a = &s->access[id];
    struct net_head head;
    uint8_t where[8];
    if (!net_get(s->fd[id].fd, &head, a->data, sizeof(a->data))) {
        close(s->fd[id].fd);
        s->fd[id].fd = -1;
        s->left--;
        return;
    }
    if ((head.kind != FILES_READ || head.bytes != 4) &&
        (head.kind != FILES_WRITE || head.bytes != sizeof(a->data)))
        net_die("a request of kind %u, %u bytes", head.kind, head.bytes);
    a->kind = head.kind;
    a->bytes = head.bytes;
    s->worked += net_work(id, s->work);
    net_put_u32(where, id);
    memcpy(where + 4, a->data, 4);
    net_put(s->directory, FILES_WHERE, id, where, sizeof(where));
}

static void on_directory(struct service *s)
{
    struct net_head head;
    uint8_t block[4];
    net_want(s->directory, FILES_DONE, &head, block, sizeof(block));
    struct access *a = access_of(s, head.id);
    memcpy(a->data, block, sizeof(block));
    net_put(s->buffer, a->kind, head.id, a->data, a->bytes);
}

static void on_buffer(struct service *s)
{
    struct net_head head;
    uint8_t data[FILES_BLOCK];
    net_want(s->buffer, FILES_DONE, &head, data, sizeof(data));
    access_of(s, head.id);
    net_put(s->fd[head.id].fd, FILES_DONE, head.id, data, head.bytes);
}

static void serve(struct service *s)
{
    while (s->left) {
        if (poll(s->fd, s->clients + 2, -1) < 0 && errno != EINTR)
            net_die("poll: %s", strerror(errno));
        if (s->fd[s->clients].revents)
            on_directory(s);
        if (s->fd[s->clients + 1].revents)
            on_buffer(s);
        for (uint32_t i = 0; i < s->clients; i++)
            if (s->fd[i].fd >= 0 && s->fd[i].revents)
                on_client(s, i);
    }
}

/* Each says its number, so that files belong to the same client always. */
static void welcome(struct service *s, int listener)
{
    for (uint32_t i = 0; i < s->clients; i++) {
        struct net_head head;
        int fd = net_accept(listener);
        net_want(fd, FILES_DONE, &head, NULL, 0);
        if (head.id >= s->clients || s->fd[head.id].fd >= 0)
            net_die("client %u of %u", head.id, s->clients);
        s->fd[head.id] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
}

int main(int argc, char **argv)
{
    static struct service s = {.work = 20};
    char *listen = NULL, *directory = NULL, *buffer = NULL;
    const struct net_option options[] = {
        {.name = "--listen", .text = &listen},
        {.name = "--directory", .text = &directory},
        {.name = "--buffer", .text = &buffer},
        {.name = "--clients",
         .number = &s.clients,
         .min = 1,
         .max = FILES_MAX_CLIENTS},
        {.name = "--work", .number = &s.work, .max = 10000000},
        {0}};
    net_options(usage, options, argc, argv);
    if (!listen || !directory || !buffer || !s.clients) {
        fputs(usage, stderr);
        return 2;
    }
    int listener = net_listen(listen);
    net_announce(listener);
    s.directory = net_connect(directory);
    s.buffer = net_connect(buffer);
    for (uint32_t i = 0; i < s.clients; i++)
        s.fd[i].fd = -1;
    welcome(&s, listener);
    s.left = s.clients;
    s.fd[s.clients] = (struct pollfd){.fd = s.directory, .events = POLLIN};
    s.fd[s.clients + 1] = (struct pollfd){.fd = s.buffer, .events = POLLIN};
    serve(&s);
    close(s.directory);
    close(s.buffer);
    close(listener);
    return s.worked == 1; /* never: a product of odd numbers, summed */
}
