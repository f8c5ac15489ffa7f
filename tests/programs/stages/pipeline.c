/* A pipeline: a source, stages that each work on every item, the last of which
 * prints the sum. Items come in order, so the order of messages is fixed. */
#include "net.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char usage[] =
    "usage: pipeline-source --next ADDR:PORT [--items N] [--bytes N]\n"
    "       pipeline-stage --listen ADDR:PORT [--next ADDR:PORT] [--work N]\n"
    "A stage without --next is the last and prints the sum.\n"
    "  --items N  (100)\n"
    "  --bytes N  of an item, 8 at least (64)\n"
    "  --work N   of the stage on an item, in microseconds or so (100)\n"
    "  --known    source: print the sum for stages of work A,B,... (see\n"
    "             --works) instead\n"
    "  --works A,B,...\n";

enum { ITEM = 1 };
#define MAX_BYTES (1u << 20)
#define MAX_STAGES 64

static uint64_t first_value(uint32_t id)
{
    return id * 2654435761u + 1;
}

static void source(const char *next, uint32_t items, uint32_t bytes)
{
    uint8_t *item = net_memory(bytes);
    int out = net_connect(next);
    for (uint32_t id = 0; id < items; id++) {
        net_put_u64(item, first_value(id));
        net_put(out, ITEM, id, item, bytes);
    }
    close(out);
    free(item);
}

static void print_sum(uint32_t items, uint64_t sum)
{
    printf("items %u sum %016" PRIx64 "\n", items, sum);
}

/* What the last of stages of this work prints. */
static void known(char *works, uint32_t items)
{
    const char *text[MAX_STAGES];
    uint32_t work[MAX_STAGES] = {0};
    unsigned stages = net_addresses(works, text, MAX_STAGES);
    for (unsigned i = 0; i < stages; i++)
        if (!net_number(text[i], 0, UINT32_MAX, &work[i]))
            net_die("not a number: %s", text[i]);
    uint64_t sum = 0;
    for (uint32_t id = 0; id < items; id++) {
        uint64_t value = first_value(id);
        for (unsigned i = 0; i < stages; i++)
            value = net_work(value, work[i]);
        sum += value * (id + 1);
    }
    print_sum(items, sum);
}

static void stage(const char *listen, const char *next, uint32_t work)
{
    uint8_t *item = net_memory(MAX_BYTES);
    int listener = net_listen(listen);
    net_announce(listener);
    int out = next ? net_connect(next) : -1;
    int in = net_accept(listener);
    uint64_t sum = 0, value;
    uint32_t items = 0;
    struct net_head head;
    while (net_get(in, &head, item, MAX_BYTES)) {
        if (head.kind != ITEM || head.bytes < 8)
            net_die("an item of kind %u, %u bytes", head.kind, head.bytes);
        net_get_u64(item, &value);
        value = net_work(value, work);
        net_put_u64(item, value);
        if (out >= 0)
            net_put(out, ITEM, head.id, item, head.bytes);
        sum += value * (head.id + 1);
        items++;
    }
    if (out >= 0)
        close(out);
    else
        print_sum(items, sum);
    close(in);
    close(listener);
    free(item);
}

int main(int argc, char **argv)
{
    char *listen = NULL, *next = NULL, *works = NULL;
    uint32_t items = 100, bytes = 64, work = 100;
    bool wanted = false;
    const struct net_option options[] = {
        {.name = "--listen", .text = &listen},
        {.name = "--next", .text = &next},
        {.name = "--items", .number = &items, .min = 1, .max = 10000000},
        {.name = "--bytes", .number = &bytes, .min = 8, .max = MAX_BYTES},
        {.name = "--work", .number = &work, .max = 10000000},
        {.name = "--known", .flag = &wanted},
        {.name = "--works", .text = &works},
        {0}};
    net_options(usage, options, argc, argv);
    if (wanted && works)
        known(works, items);
    else if (listen)
        stage(listen, next, work);
    else if (next)
        source(next, items, bytes);
    else {
        fputs(usage, stderr);
        return 2;
    }
    return 0;
}
