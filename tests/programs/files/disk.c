/* The disk interface: the blocks, one access at a time. See files.h. */
#include "files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: files-disk --listen ADDR:PORT [--work N]\n"
    "Serves one files-buffer, ends with it and prints the sum of its blocks.\n";

int main(int argc, char **argv)
{
    static uint8_t disk[FILES_MAX_BLOCKS][FILES_BLOCK];
    char *listen = NULL;
    uint32_t work = 80, block;
    uint64_t worked = 0, sum = 0;
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
    uint8_t data[4 + FILES_BLOCK];
    while (net_get(fd, &head, data, sizeof(data))) {
        if (head.bytes < 4)
            net_die("a request of %u bytes", head.bytes);
        net_get_u32(data, &block);
        if (block >= FILES_MAX_BLOCKS)
            net_die("block %u", block);
        worked += net_work(block, work);
        if (head.kind == FILES_WRITE && head.bytes == sizeof(data)) {
            memcpy(disk[block], data + 4, FILES_BLOCK);
        } else {
            memcpy(data + 4, disk[block], FILES_BLOCK);
            net_put(fd, FILES_DONE, head.id, data, sizeof(data));
        }
    }
    close(fd);
    for (block = 0; block < FILES_MAX_BLOCKS; block++)
        sum += files_sum(disk[block]);
    printf("disk sum %016" PRIx64 "\n", sum);
    return worked == 1;
}
