/*
 * Memory of one answer: rows and names are made by the thousand and let go
 * together. An allocation that fails returns NULL and sets `failed`, so makers
 * check once at the end.
 */
#ifndef IPS_MASTER_BASE_ARENA_H
#define IPS_MASTER_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct arena_block;
struct arena {
    struct arena_block *blocks;
    size_t left; /* in the newest block */
    bool failed;
};

/* Zeroed, aligned for everything. */
void *arena_alloc(struct arena *a, size_t size);
/* Never NULL: "" where memory is short. */
char *arena_printf(struct arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void arena_release(struct arena *a);

/* A list that grows by doubling: `*list` has room for *count + 1 afterwards
 * (old places stay in the arena). False: no memory. */
bool arena_reserve(struct arena *a, void *list, size_t count, size_t *cap,
                   size_t item);

#endif
