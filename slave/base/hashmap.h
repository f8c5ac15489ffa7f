/*
 * A small hash map; entries whose hashes share a bucket form a linked list. The
 * caller embeds a struct slave_hashmap_entry in each entry and owns the
 * entries; the map owns only its buckets. The map compares hashes; the caller
 * compares keys. Not thread-safe.
 */
#ifndef IPS_SLAVE_BASE_HASHMAP_H
#define IPS_SLAVE_BASE_HASHMAP_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct slave_hashmap_entry {
    struct slave_hashmap_entry *next;
    uint64_t hash;
};
struct slave_hashmap {
    struct slave_hashmap_entry **bucket;
    /* number of buckets: a power of two; 0 before the first put */
    size_t buckets;
    size_t count;
};

/* Doubles the number of buckets, if there is memory. */
static inline void slave_hashmap_double_buckets(struct slave_hashmap *m)
{
    size_t n = m->buckets ? m->buckets * 2 : 64;
    struct slave_hashmap_entry **fresh = calloc(n, sizeof(*fresh));
    if (!fresh)
        return; /* out of memory: keep the small table, with longer lists */
    for (size_t i = 0; i < m->buckets; i++) {
        struct slave_hashmap_entry *l = m->bucket[i];
        while (l) {
            struct slave_hashmap_entry *next = l->next;
            l->next = fresh[l->hash & (n - 1)];
            fresh[l->hash & (n - 1)] = l;
            l = next;
        }
    }
    free(m->bucket);
    m->bucket = fresh;
    m->buckets = n;
}

/* Adds `l` with this hash. Returns 0, or -1 if there is no memory for the first
 * buckets. */
static inline int slave_hashmap_put(struct slave_hashmap *m,
                                    struct slave_hashmap_entry *l,
                                    uint64_t hash)
{
    if (m->count >= m->buckets)
        slave_hashmap_double_buckets(m);
    if (!m->buckets)
        return -1;
    l->hash = hash;
    l->next = m->bucket[hash & (m->buckets - 1)];
    m->bucket[hash & (m->buckets - 1)] = l;
    m->count++;
    return 0;
}

/* Returns the first entry with this hash in a bucket's list from `l` on, or
 * NULL. */
static inline struct slave_hashmap_entry *
slave_hashmap_next_match(struct slave_hashmap_entry *l, uint64_t hash)
{
    while (l && l->hash != hash)
        l = l->next;
    return l;
}

/* Returns the first entry with this hash, or NULL;
 * slave_hashmap_next_match(l->next, hash) gives the next one. */
static inline struct slave_hashmap_entry *
slave_hashmap_find_first(const struct slave_hashmap *m, uint64_t hash)
{
    if (!m->buckets)
        return NULL;
    return slave_hashmap_next_match(m->bucket[hash & (m->buckets - 1)], hash);
}

static inline void slave_hashmap_remove(struct slave_hashmap *m,
                                        struct slave_hashmap_entry *l)
{
    struct slave_hashmap_entry **p = &m->bucket[l->hash & (m->buckets - 1)];
    while (*p && *p != l)
        p = &(*p)->next;
    if (*p) {
        *p = l->next;
        m->count--;
    }
}

static inline void slave_hashmap_release(struct slave_hashmap *m)
{
    free(m->bucket);
    *m = (struct slave_hashmap){0};
}

#endif
