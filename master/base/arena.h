/*
 * Memory of one answer. An answer allocates thousands of rows and names and
 * releases them together. A failed allocation returns NULL and sets `failed`,
 * so code that fills an answer needs to check only once, at the end.
 */
#ifndef IPS_MASTER_BASE_ARENA_H
#define IPS_MASTER_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct arena_block;
struct arena {
    struct arena_block *blocks;
    size_t left; /* free bytes in the newest block */
    bool failed;
};

/* Returns zeroed memory, aligned for any type. */
void *arena_alloc(struct arena *a, size_t size);
/* Formats like printf, at most 2047 characters; the rest is cut off. Never
 * returns NULL: without memory it returns "" (and sets `failed`). */
char *arena_printf(struct arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void arena_release(struct arena *a);

/* Makes sure that the array `*list` can hold count + 1 items of `item` bytes;
 * `*cap` is its capacity in items. The capacity doubles when it must grow, and
 * the old copy stays in the arena until the end. Returns false if there is no
 * memory. */
bool arena_reserve_array_slot(struct arena *a, void *list, size_t count,
                              size_t *cap, size_t item);

#endif
