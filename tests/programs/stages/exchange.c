/* All to all: in each round every process works, sends a block to every other
 * and gets one from each. Pairs meet in a fixed order, so the order of
 * messages is fixed. */
#include "net.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char usage[] =
    "usage: exchange --rank R --peers ADDR:PORT,... [options]\n"
    "       exchange --known N [options]\n"
    "A process of an all-to-all; it listens at the R-th address. Their number "
    "is\n"
    "a power of two. The first prints the sum; --known prints what it will be\n"
    "for N processes.\n"
    "  --rounds N  (10)\n"
    "  --bytes N   of a block, 8 at least (1000)\n"
    "  --work N    before each round, in microseconds or so (1000); the odd\n"
    "              ranks' is half as much again\n";

enum { HELLO = 1, BLOCK, SUM };
#define MAX_PEERS 32
#define MAX_BYTES (1u << 20)

struct exchange {
    uint32_t rank, peers, rounds, bytes, work;
    int fd[MAX_PEERS];
    uint8_t *block;
};

static uint64_t worked(const struct exchange *e, uint32_t rank, uint64_t value)
{
    return net_work(value, e->work + rank % 2 * e->work / 2);
}

static void print_sum(const struct exchange *e, const uint64_t *value)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < e->peers; i++)
        sum += value[i] * (i + 1);
    printf("peers %u sum %016" PRIx64 "\n", e->peers, sum);
}

/* Lower ranks are called, higher ones call. */
static void meet(struct exchange *e, const char *const *address)
{
    int listener = net_listen(address[e->rank]);
    struct net_head head;
    net_announce(listener);
    for (uint32_t i = 0; i < e->rank; i++) {
        e->fd[i] = net_connect(address[i]);
        net_put(e->fd[i], HELLO, e->rank, NULL, 0);
    }
    for (uint32_t i = e->rank + 1; i < e->peers; i++) {
        int fd = net_accept(listener);
        net_want(fd, HELLO, &head, NULL, 0);
        if (head.id <= e->rank || head.id >= e->peers)
            net_die("rank %u called", head.id);
        e->fd[head.id] = fd;
    }
    close(listener);
}

static uint64_t get_value(struct exchange *e, uint32_t from, uint32_t kind)
{
    struct net_head head;
    uint64_t value;
    net_want(e->fd[from], kind, &head, e->block, MAX_BYTES);
    if (head.bytes < 8)
        net_die("a block of %u bytes", head.bytes);
    net_get_u64(e->block, &value);
    return value;
}

static void put_value(struct exchange *e, uint32_t to, uint32_t kind,
                      uint64_t value)
{
    net_put_u64(e->block, value);
    net_put(e->fd[to], kind, 0, e->block, e->bytes);
}

static uint64_t run(struct exchange *e)
{
    uint64_t value = e->rank;
    for (uint32_t round = 0; round < e->rounds; round++) {
        const uint64_t mine = worked(e, e->rank, value);
        value = mine;
        for (uint32_t k = 1; k < e->peers; k++) {
            uint32_t other = e->rank ^ k;
            if (e->rank < other)
                put_value(e, other, BLOCK, mine);
            value += get_value(e, other, BLOCK);
            if (e->rank > other)
                put_value(e, other, BLOCK, mine);
        }
    }
    return value;
}

static void known(const struct exchange *e)
{
    uint64_t value[MAX_PEERS], mine[MAX_PEERS], sum;
    for (uint32_t i = 0; i < e->peers; i++)
        value[i] = i;
    for (uint32_t round = 0; round < e->rounds; round++) {
        sum = 0;
        for (uint32_t i = 0; i < e->peers; i++)
            sum += mine[i] = worked(e, i, value[i]);
        for (uint32_t i = 0; i < e->peers; i++)
            value[i] = sum; /* its own and all others' */
    }
    print_sum(e, value);
}

int main(int argc, char **argv)
{
    static struct exchange e = {.rounds = 10, .bytes = 1000, .work = 1000};
    char *peers = NULL;
    uint32_t wanted = 0;
    uint64_t value[MAX_PEERS];
    const char *address[MAX_PEERS];
    const struct net_option options[] = {
        {.name = "--rank", .number = &e.rank, .max = MAX_PEERS - 1},
        {.name = "--peers", .text = &peers},
        {.name = "--known", .number = &wanted, .min = 1, .max = MAX_PEERS},
        {.name = "--rounds", .number = &e.rounds, .min = 1, .max = 1000000},
        {.name = "--bytes", .number = &e.bytes, .min = 8, .max = MAX_BYTES},
        {.name = "--work", .number = &e.work, .max = 10000000},
        {0}};
    net_options(usage, options, argc, argv);
    e.peers = peers ? net_addresses(peers, address, MAX_PEERS) : wanted;
    if (!e.peers || e.peers & (e.peers - 1) || e.rank >= e.peers) {
        fputs(usage, stderr);
        return 2;
    }
    if (wanted) {
        known(&e);
        return 0;
    }
    e.block = net_memory(MAX_BYTES);
    meet(&e, address);
    value[e.rank] = run(&e);
    for (uint32_t i = 1; i < e.peers && e.rank == 0; i++)
        value[i] = get_value(&e, i, SUM);
    if (e.rank == 0)
        print_sum(&e, value);
    else
        put_value(&e, 0, SUM, value[e.rank]);
    for (uint32_t i = 0; i < e.peers; i++)
        if (i != e.rank)
            close(e.fd[i]);
    free(e.block);
    return 0;
}
