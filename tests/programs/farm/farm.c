/* Master and workers. See farm.h. */
#include "farm.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 1, RESULT };

static void alone(const struct farm *f, void *context, uint8_t *piece,
                  uint8_t *result)
{
    uint32_t bytes;
    for (uint32_t id = 0; (bytes = f->piece(context, id, piece)) != 0; id++)
        f->take(context, id, result, f->work(piece, bytes, result));
}

void farm_master(const struct farm *f, void *context, char *workers,
                 uint32_t window)
{
    const char *address[FARM_MAX_WORKERS];
    struct pollfd fd[FARM_MAX_WORKERS];
    uint8_t *piece = net_memory(f->max_piece);
    uint8_t *result = net_memory(f->max_result);
    uint32_t next = 0, away = 0, bytes = 1;

    if (!workers) {
        alone(f, context, piece, result);
        goto out;
    }
    unsigned count = net_addresses(workers, address, FARM_MAX_WORKERS);
    for (unsigned i = 0; i < count; i++)
        fd[i] =
            (struct pollfd){.fd = net_connect(address[i]), .events = POLLIN};
    for (unsigned i = 0; i < count * window && bytes; i++)
        if ((bytes = f->piece(context, next, piece)) != 0) {
            net_put(fd[i % count].fd, PIECE, next++, piece, bytes);
            away++;
        }
    while (away) {
        if (poll(fd, count, -1) < 0 && errno != EINTR)
            net_die("poll: %s", strerror(errno));
        for (unsigned i = 0; i < count; i++) {
            struct net_head head;
            if (!fd[i].revents)
                continue;
            net_want(fd[i].fd, RESULT, &head, result, f->max_result);
            away--;
            /* the worker gets its next piece before its result is looked at */
            if (bytes && (bytes = f->piece(context, next, piece)) != 0) {
                net_put(fd[i].fd, PIECE, next++, piece, bytes);
                away++;
            }
            f->take(context, head.id, result, head.bytes);
        }
    }
    for (unsigned i = 0; i < count; i++)
        close(fd[i].fd);
out:
    free(piece);
    free(result);
}

void farm_worker(const struct farm *f, const char *listen)
{
    int listener = net_listen(listen);
    net_announce(listener);
    int fd = net_accept(listener);
    close(listener);
    uint8_t *piece = net_memory(f->max_piece);
    uint8_t *result = net_memory(f->max_result);
    struct net_head head;
    while (net_get(fd, &head, piece, f->max_piece)) {
        if (head.kind != PIECE)
            net_die("a message of kind %u", head.kind);
        net_put(fd, RESULT, head.id, result,
                f->work(piece, head.bytes, result));
    }
    close(fd);
    free(piece);
    free(result);
}

int farm_worker_main(const struct farm *f, int argc, char **argv)
{
    char usage[200];
    char *listen = NULL;
    const struct net_option options[] = {{.name = "--listen", .text = &listen},
                                         {0}};
    snprintf(usage, sizeof(usage),
             "usage: %s-worker --listen ADDR:PORT\n"
             "Works for one %s-master, and ends when that does.\n",
             f->name, f->name);
    net_options(usage, options, argc, argv);
    if (!listen) {
        fputs(usage, stderr);
        return 2;
    }
    farm_worker(f, listen);
    return 0;
}
