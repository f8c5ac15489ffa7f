/*
 * A hash map from keys to numbers, or a set of keys, with open addressing. It
 * doubles its capacity when half full. A key is any number but UINT64_MAX. A
 * map takes 24 to 48 bytes a key, a set 16 to 32, so that it can hold a key for
 * each node of a graph.
 */
#ifndef IPS_ANALYSIS_GRAPH_IDMAP_H
#define IPS_ANALYSIS_GRAPH_IDMAP_H

#include <stdbool.h>
#include <stdint.h>

struct ips_idmap {
    uint64_t *key;
    uint32_t *value; /* NULL if this is a set */
    uint64_t count, cap;
    /* true: the map is a set, so keys have no values; the owner sets this
     * flag before the first key */
    bool set;
};
void ips_idmap_release(struct ips_idmap *m);

/* Makes room for one more key. Returns false if out of memory. */
bool ips_idmap_reserve_one_key(struct ips_idmap *m);
/* Returns how many bytes the next ips_idmap_reserve_one_key() would allocate: 0
 * unless the map has to grow. */
uint64_t ips_idmap_bytes_to_reserve(const struct ips_idmap *m);
/* Returns the slot of a key, or the empty slot where the key belongs. Call
 * ips_idmap_reserve_one_key() at least once before. */
uint64_t ips_idmap_find_slot(const struct ips_idmap *m, uint64_t key);
static inline bool ips_idmap_slot_is_used(const struct ips_idmap *m,
                                          uint64_t place)
{
    return m->key[place] != UINT64_MAX;
}
/* Fills an empty slot; call ips_idmap_reserve_one_key() before. */
static inline void ips_idmap_fill_slot(struct ips_idmap *m, uint64_t place,
                                       uint64_t key, uint32_t value)
{
    m->key[place] = key;
    if (!m->set)
        m->value[place] = value;
    m->count++;
}

#endif
