/*
 * A small hash map with chaining. The caller embeds a struct slave_link in each
 * entry and owns the entries; the map owns only its buckets. The map compares
 * hashes; the caller compares keys. Not thread-safe.
 */
#ifndef IPS_SLAVE_BASE_HASHMAP_H
#define IPS_SLAVE_BASE_HASHMAP_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct slave_link {
    struct slave_link *next;
    uint64_t hash;
};
struct slave_hashmap {
    struct slave_link **bucket;
    /* number of buckets: a power of two; 0 before the first put */
    size_t buckets;
    size_t count;
};

/* Doubles the number of buckets, if there is memory. */
static inline void slave_hashmap_reserve(struct slave_hashmap *m)
{
    size_t n = m->buckets ? m->buckets * 2 : 64;
    struct slave_link **fresh = calloc(n, sizeof(*fresh));
    if (!fresh)
        return; /* out of memory: keep the small table, with longer chains */
    for (size_t i = 0; i < m->buckets; i++) {
        struct slave_link *l = m->bucket[i];
        while (l) {
            struct slave_link *next = l->next;
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
                                    struct slave_link *l, uint64_t hash)
{
    if (m->count >= m->buckets)
        slave_hashmap_reserve(m);
    if (!m->buckets)
        return -1;
    l->hash = hash;
    l->next = m->bucket[hash & (m->buckets - 1)];
    m->bucket[hash & (m->buckets - 1)] = l;
    m->count++;
    return 0;
}

/* Returns the first entry with this hash in the chain that starts at `l`, or
 * NULL. */
static inline struct slave_link *slave_hashmap_skip(struct slave_link *l,
                                                    uint64_t hash)
{
    while (l && l->hash != hash)
        l = l->next;
    return l;
}

/* Returns the first entry with this hash, or NULL; slave_hashmap_skip(l->next,
 * hash) gives the next one. */
static inline struct slave_link *
slave_hashmap_first(const struct slave_hashmap *m, uint64_t hash)
{
    if (!m->buckets)
        return NULL;
    return slave_hashmap_skip(m->bucket[hash & (m->buckets - 1)], hash);
}

static inline void slave_hashmap_del(struct slave_hashmap *m,
                                     struct slave_link *l)
{
    struct slave_link **p = &m->bucket[l->hash & (m->buckets - 1)];
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
