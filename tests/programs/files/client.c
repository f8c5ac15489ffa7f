/* A client of the file service, of one of two classes. See files.h. */
#include "files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: files-client --number I --service ADDR:PORT [options]\n"
    "       files-client --number I --known [options]\n"
    "Uses a file and checks what it reads. --known prints what the file will\n"
    "add to the disk's sum.\n"
    "  --random    accesses of both kinds anywhere in the file; without it, "
    "the\n"
    "              whole file is written, then read, from begin to end\n"
    "  --blocks N  of the file (20)\n"
    "  --rounds N  sequential: times that it is written and read; random: "
    "that\n"
    "              many times twice the blocks are the accesses (3)\n"
    "  --work N    between two accesses, in microseconds or so (200)\n";

struct client {
    uint32_t number, blocks, rounds, work;
    bool random, known;
    int fd;
    uint32_t *version; /* of each block, 0: not written yet */
    uint64_t worked;
};

static void write_block(struct client *c, uint32_t block)
{
    uint8_t data[4 + FILES_BLOCK];
    struct net_head head;
    c->version[block]++;
    if (c->known)
        return;
    net_put_u32(data, block);
    files_content(data + 4, c->number, block, c->version[block]);
    net_put(c->fd, FILES_WRITE, c->number, data, sizeof(data));
    net_want(c->fd, FILES_DONE, &head, NULL, 0);
}

static void read_block(struct client *c, uint32_t block)
{
    uint8_t data[FILES_BLOCK], want[FILES_BLOCK];
    struct net_head head;
    if (c->known)
        return;
    net_put_u32(data, block);
    net_put(c->fd, FILES_READ, c->number, data, 4);
    net_want(c->fd, FILES_DONE, &head, data, sizeof(data));
    files_content(want, c->number, block, c->version[block]);
    if (head.bytes != sizeof(data) || memcmp(data, want, sizeof(data)) != 0)
        net_die("block %u is not what was written there", block);
}

static void think(struct client *c)
{
    if (!c->known)
        c->worked += net_work(c->number, c->work);
}

static void sequential(struct client *c)
{
    for (uint32_t round = 0; round < c->rounds; round++) {
        for (uint32_t i = 0; i < c->blocks; i++) {
            think(c);
            write_block(c, i);
        }
        for (uint32_t i = 0; i < c->blocks; i++) {
            think(c);
            read_block(c, i);
        }
    }
}

static void anywhere(struct client *c)
{
    uint64_t state = c->number + 1;
    for (uint32_t i = 0; i < 2 * c->blocks * c->rounds; i++) {
        uint32_t block = net_random(&state) % c->blocks;
        think(c);
        if (net_random(&state) % 2)
            write_block(c, block);
        else
            read_block(c, block);
    }
}

int main(int argc, char **argv)
{
    struct client c = {
        .number = UINT32_MAX, .blocks = 20, .rounds = 3, .work = 200, .fd = -1};
    char *service = NULL;
    const struct net_option options[] = {
        {.name = "--number", .number = &c.number, .max = FILES_MAX_CLIENTS - 1},
        {.name = "--service", .text = &service},
        {.name = "--blocks",
         .number = &c.blocks,
         .min = 1,
         .max = FILES_MAX_BLOCKS},
        {.name = "--rounds", .number = &c.rounds, .min = 1, .max = 1000000},
        {.name = "--work", .number = &c.work, .max = 10000000},
        {.name = "--random", .flag = &c.random},
        {.name = "--known", .flag = &c.known},
        {0}};
    net_options(usage, options, argc, argv);
    if (c.number == UINT32_MAX || !service == !c.known) {
        fputs(usage, stderr);
        return 2;
    }
    c.version = net_memory(c.blocks * sizeof(*c.version));
    if (!c.known) {
        c.fd = net_connect(service);
        net_put(c.fd, FILES_DONE, c.number, NULL, 0); /* it is me */
    }
    (c.random ? anywhere : sequential)(&c);
    uint64_t sum = 0;
    uint8_t data[FILES_BLOCK];
    for (uint32_t i = 0; i < c.blocks && c.known; i++) {
        files_content(data, c.number, i, c.version[i]);
        sum += files_sum(data);
    }
    if (c.known)
        printf("sum %016" PRIx64 "\n", sum);
    else
        printf("client %u: all as written\n", c.number);
    if (c.fd >= 0)
        close(c.fd);
    free(c.version);
    return c.worked == 1;
}
