/* The buffer manager: keeps the blocks used last, fetches the others from the
 * disk and writes back what was changed. See files.h. */
#include "files.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: files-buffer --listen ADDR:PORT --disk ADDR:PORT [--work N]\n"
    "                    [--buffers N]\n"
    "Serves one files-requests and ends with it.\n"
    "  --buffers N  blocks kept (64)\n";

#define NONE UINT32_MAX

struct buffer {
    uint32_t block; /* of the disk, or NONE */
    bool changed, fetching;
    uint64_t used; /* when, in accesses */
    uint8_t data[FILES_BLOCK];
};

struct manager {
    int requests, disk;
    uint32_t buffers, work;
    uint64_t now, worked;
    struct buffer *buffer;
};

static struct buffer *find(struct manager *m, uint32_t block)
{
    for (uint32_t i = 0; i < m->buffers; i++)
        if (m->buffer[i].block == block)
            return &m->buffer[i];
    return NULL;
}

static void write_back(struct manager *m, struct buffer *b)
{
    uint8_t data[4 + FILES_BLOCK];
    net_put_u32(data, b->block);
    memcpy(data + 4, b->data, FILES_BLOCK);
    net_put(m->disk, FILES_WRITE, 0, data, sizeof(data));
    b->changed = false;
}

/* The buffer used longest ago; there are more of them than clients, each of
 * whom has one access under way. */
static struct buffer *replace(struct manager *m, uint32_t block)
{
    struct buffer *oldest = NULL;
    for (uint32_t i = 0; i < m->buffers; i++)
        if (!m->buffer[i].fetching &&
            (!oldest || m->buffer[i].used < oldest->used))
            oldest = &m->buffer[i];
    if (!oldest)
        net_die("no buffer is free");
    if (oldest->changed)
        write_back(m, oldest);
    oldest->block = block;
    return oldest;
}

static void answer(struct manager *m, uint32_t id, const struct buffer *b)
{
    net_put(m->requests, FILES_DONE, id, b ? b->data : NULL,
            b ? FILES_BLOCK : 0);
}

/* False at the end of the service. */
static bool on_request(struct manager *m)
{
    struct net_head head;
    uint8_t data[4 + FILES_BLOCK];
    uint32_t block;
    if (!net_get(m->requests, &head, data, sizeof(data)))
        return false;
    if (head.bytes < 4)
        net_die("a request of %u bytes", head.bytes);
    net_get_u32(data, &block);
    m->worked += net_work(block, m->work);
    struct buffer *b = find(m, block);
    bool there = b != NULL;
    if (!there)
        b = replace(m, block);
    b->used = ++m->now;
    if (head.kind == FILES_WRITE && head.bytes == sizeof(data)) {
        memcpy(b->data, data + 4, FILES_BLOCK);
        b->changed = true;
        answer(m, head.id, NULL);
    } else if (there) {
        answer(m, head.id, b);
    } else {
        b->fetching = true;
        net_put(m->disk, FILES_READ, head.id, data, 4);
    }
    return true;
}

static void on_disk(struct manager *m)
{
    struct net_head head;
    uint8_t data[4 + FILES_BLOCK];
    uint32_t block;
    net_want(m->disk, FILES_DONE, &head, data, sizeof(data));
    net_get_u32(data, &block);
    struct buffer *b = find(m, block);
    if (!b || !b->fetching || head.bytes != sizeof(data))
        net_die("the disk sent a block that was not asked for");
    memcpy(b->data, data + 4, FILES_BLOCK);
    b->fetching = false;
    answer(m, head.id, b);
}

static void serve(struct manager *m)
{
    struct pollfd fd[2] = {{.fd = m->requests, .events = POLLIN},
                           {.fd = m->disk, .events = POLLIN}};
    for (;;) {
        if (poll(fd, 2, -1) < 0 && errno != EINTR)
            net_die("poll: %s", strerror(errno));
        if (fd[1].revents)
            on_disk(m);
        if (fd[0].revents && !on_request(m))
            break;
    }
    for (uint32_t i = 0; i < m->buffers; i++)
        if (m->buffer[i].changed)
            write_back(m, &m->buffer[i]);
}

int main(int argc, char **argv)
{
    struct manager m = {.work = 40, .buffers = 64};
    char *listen = NULL, *disk = NULL;
    const struct net_option options[] = {
        {.name = "--listen", .text = &listen},
        {.name = "--disk", .text = &disk},
        {.name = "--buffers",
         .number = &m.buffers,
         .min = FILES_MAX_CLIENTS + 1,
         .max = FILES_MAX_BLOCKS},
        {.name = "--work", .number = &m.work, .max = 10000000},
        {0}};
    net_options(usage, options, argc, argv);
    if (!listen || !disk) {
        fputs(usage, stderr);
        return 2;
    }
    m.buffer = net_memory(m.buffers * sizeof(*m.buffer));
    for (uint32_t i = 0; i < m.buffers; i++)
        m.buffer[i].block = NONE;
    int listener = net_listen(listen);
    net_announce(listener);
    m.disk = net_connect(disk);
    m.requests = net_accept(listener);
    close(listener);
    serve(&m);
    close(m.requests);
    close(m.disk);
    free(m.buffer);
    return m.worked == 1;
}
