#include "master/base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)64 << 10)

struct arena_block {
    struct arena_block *next;
    size_t size;
    max_align_t data[];
};

void *arena_alloc(struct arena *a, size_t size)
{
    const size_t align = _Alignof(max_align_t);
    if (size > SIZE_MAX / 2) {
        a->failed = true;
        return NULL;
    }
    size = (size + align - 1) / align * align;
    if (size > a->left) {
        size_t room = size > BLOCK_BYTES ? size : BLOCK_BYTES;
        struct arena_block *b = calloc(1, sizeof(*b) + room);
        if (!b) {
            a->failed = true;
            return NULL;
        }
        b->size = room;
        b->next = a->blocks;
        a->blocks = b;
        a->left = room;
    }
    uint8_t *end = (uint8_t *)a->blocks->data + a->blocks->size;
    void *p = end - a->left;
    a->left -= size;
    return p;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    static char nothing[1];
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    size_t len = n < 0 ? 0 : (size_t)n;
    if (len >= sizeof(text))
        len = sizeof(text) - 1;
    char *out = arena_alloc(a, len + 1);
    if (!out)
        return nothing;
    memcpy(out, text, len);
    return out;
}

bool arena_reserve_array_slot(struct arena *a, void *list, size_t count,
                              size_t *cap, size_t item)
{
    if (count < *cap)
        return true;
    size_t more = *cap ? *cap * 2 : 8;
    void *old, *bigger = arena_alloc(a, more * item);
    if (!bigger)
        return false;
    memcpy(&old, list, sizeof(old));
    if (count > 0)
        memcpy(bigger, old, count * item);
    memcpy(list, &bigger, sizeof(bigger));
    *cap = more;
    return true;
}

void arena_release(struct arena *a)
{
    while (a->blocks) {
        struct arena_block *b = a->blocks;
        a->blocks = b->next;
        free(b);
    }
    memset(a, 0, sizeof(*a));
}
