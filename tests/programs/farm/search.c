/* Places of a pattern in a text file, which is sent in chunks to workers that
 * ask for them (DRO-6: experiments 1). */
#include "farm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_PATTERN 256
#define MAX_CHUNK (1u << 20)

/* A piece: bytes of the pattern, rounds, pattern, text. A round is one
 * search, letter by letter: a text of a known size can be as much work as is
 * wanted. The result: places, and the sum of where in the piece they are. */
static uint32_t work(const uint8_t *piece, uint32_t bytes, uint8_t *result)
{
    uint32_t len, rounds;
    uint64_t count = 0, sum = 0;
    if (bytes < 8)
        net_die("a piece of %u bytes", bytes);
    const uint8_t *pattern = net_get_u32(net_get_u32(piece, &len), &rounds);
    if (!len || len > MAX_PATTERN || len > bytes - 8)
        net_die("a pattern of %u bytes", len);
    const uint8_t *text = pattern + len;
    uint32_t letters = bytes - 8 - len;
    for (uint32_t round = 0; round < rounds; round++) {
        count = sum = 0;
        for (uint32_t i = 0; i + len <= letters; i++) {
            uint32_t same = 0;
            while (same < len && text[i + same] == pattern[same])
                same++;
            count += same == len;
            sum += same == len ? i : 0;
        }
        __asm__ volatile("" ::: "memory"); /* do search again */
    }
    net_put_u64(net_put_u64(result, count), sum);
    return 16;
}

struct search {
    const char *pattern;
    uint8_t *text;
    size_t bytes;
    uint32_t chunk, rounds, len;
    uint64_t count, sum;
};

static uint32_t piece(void *context, uint32_t id, uint8_t *out)
{
    const struct search *s = context;
    size_t at = (size_t)id * s->chunk;
    if (at >= s->bytes)
        return 0;
    /* what begins in the chunk may end in the next */
    size_t bytes = s->chunk + s->len - 1;
    if (bytes > s->bytes - at)
        bytes = s->bytes - at;
    uint8_t *to = net_put_u32(net_put_u32(out, s->len), s->rounds);
    memcpy(to, s->pattern, s->len);
    memcpy(to + s->len, s->text + at, bytes);
    return (uint32_t)(8 + s->len + bytes);
}

static void take(void *context, uint32_t id, const uint8_t *result,
                 uint32_t bytes)
{
    struct search *s = context;
    uint64_t count, sum;
    if (bytes != 16)
        net_die("a result of %u bytes", bytes);
    net_get_u64(net_get_u64(result, &count), &sum);
    s->count += count;
    s->sum += sum + count * id * s->chunk;
}

static const struct farm farm = {.name = "search",
                                 .max_piece = MAX_CHUNK + 2 * MAX_PATTERN + 8,
                                 .max_result = 16,
                                 .piece = piece,
                                 .take = take,
                                 .work = work};

#ifdef WORKER
int main(int argc, char **argv)
{
    return farm_worker_main(&farm, argc, argv);
}
#else
static const char usage[] =
    "usage: search-master --file FILE --pattern TEXT [--workers "
    "ADDR:PORT,...]\n"
    "                     [options]\n"
    "Counts the places of a text in a file; without workers all by itself.\n"
    "  --chunk N   bytes in a piece, at most 1048576 (65536)\n"
    "  --rounds N  searches of each piece (1)\n"
    "  --window N  pieces with a worker at a time (1)\n";

static void read_text(struct search *s, const char *name)
{
    struct stat st;
    FILE *f = fopen(name, "r");
    if (!f || fstat(fileno(f), &st) < 0)
        net_die("%s: cannot be read", name);
    s->bytes = (size_t)st.st_size;
    s->text = net_memory(s->bytes);
    if (fread(s->text, 1, s->bytes, f) != s->bytes)
        net_die("%s: cannot be read", name);
    fclose(f);
}

int main(int argc, char **argv)
{
    struct search s = {.chunk = 65536, .rounds = 1};
    char *workers = NULL, *file = NULL, *pattern = NULL;
    uint32_t window = 1;
    const struct net_option options[] = {
        {.name = "--workers", .text = &workers},
        {.name = "--file", .text = &file},
        {.name = "--pattern", .text = &pattern},
        {.name = "--chunk", .number = &s.chunk, .min = 1, .max = MAX_CHUNK},
        {.name = "--rounds", .number = &s.rounds, .min = 1, .max = 1000000},
        {.name = "--window", .number = &window, .min = 1, .max = 16},
        {0}};
    net_options(usage, options, argc, argv);
    if (!file || !pattern || !*pattern || strlen(pattern) > MAX_PATTERN) {
        fputs(usage, stderr);
        return 2;
    }
    s.pattern = pattern;
    s.len = (uint32_t)strlen(pattern);
    read_text(&s, file);
    farm_master(&farm, &s, workers, window);
    printf("places %" PRIu64 " sum %" PRIu64 "\n", s.count, s.sum);
    free(s.text);
    return 0;
}
#endif
