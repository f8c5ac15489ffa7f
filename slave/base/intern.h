/*
 * Interning: gives equal items the same number, 0, 1, 2 ... in order of first
 * appearance. The caller keeps the items; the table keeps only their hashes.
 * Open addressing; grows by doubling. Header only.
 */
#ifndef IPS_SLAVE_BASE_INTERN_H
#define IPS_SLAVE_BASE_INTERN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct slave_intern { /* interning table; must be zeroed before use */
    uint32_t *slot;   /* the hash table: number of an item + 1; 0: empty slot */
    uint64_t *hash;   /* hash of each item, by its number */
    uint32_t capacity; /* number of slots, a power of two */
    uint32_t count;
};

static inline void slave_intern_release(struct slave_intern *t)
{
    free(t->slot);
    free(t->hash);
    *t = (struct slave_intern){0};
}

static inline bool slave_intern_double_capacity(struct slave_intern *t)
{
    uint32_t room = t->capacity ? t->capacity * 2 : 256;
    if (room > UINT32_MAX / 4)
        return false;
    uint32_t *slot = calloc(room, sizeof(*slot));
    uint64_t *hash = realloc(t->hash, (size_t)room * sizeof(*hash));
    if (hash)
        t->hash = hash;
    if (!slot || !hash) {
        free(slot);
        return false;
    }
    for (uint32_t i = 0; i < t->count; i++) {
        uint32_t at = (uint32_t)hash[i] & (room - 1);
        while (slot[at])
            at = (at + 1) & (room - 1);
        slot[at] = i + 1;
    }
    free(t->slot);
    t->slot = slot;
    t->capacity = room;
    return true;
}

/* Returns the number of the item with `hash` for which same(arg, number) is
 * true. If there is none, sets *fresh and returns a new number, under which the
 * caller then stores the item. UINT32_MAX: out of memory. */
static inline uint32_t
slave_intern_find_or_add(struct slave_intern *t, uint64_t hash,
                         bool (*same)(const void *arg, uint32_t number),
                         const void *arg, bool *fresh)
{
    *fresh = false;
    if (t->count >= t->capacity / 2 && !slave_intern_double_capacity(t))
        return UINT32_MAX;
    uint32_t at = (uint32_t)hash & (t->capacity - 1);
    for (; t->slot[at]; at = (at + 1) & (t->capacity - 1)) {
        uint32_t number = t->slot[at] - 1;
        if (t->hash[number] == hash && same(arg, number))
            return number;
    }
    *fresh = true;
    t->hash[t->count] = hash;
    t->slot[at] = ++t->count;
    return t->count - 1;
}

#endif
