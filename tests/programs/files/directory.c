/* The directory manager: which block of the disk is a file's. See files.h. */
#include "files.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char usage[] =
    "usage: files-directory --listen ADDR:PORT [--work N]\n"
    "Serves one files-requests and ends with it.\n";

struct directory {
    uint32_t used;
    uint32_t block[FILES_MAX_CLIENTS][FILES_MAX_BLOCKS]; /* + 1; 0: none yet */
};

static uint32_t where(struct directory *d, uint32_t file, uint32_t block)
{
    if (file >= FILES_MAX_CLIENTS || block >= FILES_MAX_BLOCKS)
        net_die("block %u of file %u", block, file);
    if (!d->block[file][block]) {
        if (d->used == FILES_MAX_BLOCKS)
            net_die("the disk is full");
        d->block[file][block] = ++d->used;
    }
    return d->block[file][block] - 1;
}

int main(int argc, char **argv)
{
    static struct directory d;
    char *listen = NULL;
    uint32_t work = 30, file, block;
    uint64_t worked = 0;
    const struct net_option options[] = {
        {.name = "--listen", .text = &listen},
        {.name = "--work", .number = &work, .max = 10000000},
        {0}};
    net_options(usage, options, argc, argv);
    if (!listen) {
        fputs(usage, stderr);
        return 2;
    }
    int listener = net_listen(listen);
    net_announce(listener);
    int fd = net_accept(listener);
    close(listener);
    struct net_head head;
    uint8_t data[8];
    while (net_get(fd, &head, data, sizeof(data))) {
        if (head.kind != FILES_WHERE || head.bytes != sizeof(data))
            net_die("a request of kind %u, %u bytes", head.kind, head.bytes);
        net_get_u32(net_get_u32(data, &file), &block);
        worked += net_work(block, work);
        net_put_u32(data, where(&d, file, block));
        net_put(fd, FILES_DONE, head.id, data, 4);
    }
    close(fd);
    return worked == 1;
}
