/*
 * Numbers for keys, or only whether a key was met: open addressing, doubled
 * when half full. Keys are any but UINT64_MAX. For graphs' worth of keys: 24
 * to 48 bytes each with values, else 16 to 32.
 */
#ifndef IPS_ANALYSIS_GRAPH_IDMAP_H
#define IPS_ANALYSIS_GRAPH_IDMAP_H

#include <stdbool.h>
#include <stdint.h>

struct ips_idmap {
    uint64_t *key;
    uint32_t *value; /* NULL: a set */
    uint64_t count, cap;
    bool set; /* to be set by the owner before the first key */
};
void ips_idmap_release(struct ips_idmap *m);

/* Room for one key more. False: no memory. */
bool ips_idmap_reserve(struct ips_idmap *m);
/* The bytes that the next ips_idmap_reserve() would take, 0 mostly. */
uint64_t ips_idmap_next_bytes(const struct ips_idmap *m);
/* Where a key is or belongs; needs a first ips_idmap_reserve(). */
uint64_t ips_idmap_place(const struct ips_idmap *m, uint64_t key);
static inline bool ips_idmap_has(const struct ips_idmap *m, uint64_t place)
{
    return m->key[place] != UINT64_MAX;
}
/* At an empty place, with room made before. */
static inline void ips_idmap_put(struct ips_idmap *m, uint64_t place,
                                 uint64_t key, uint32_t value)
{
    m->key[place] = key;
    if (!m->set)
        m->value[place] = value;
    m->count++;
}

#endif
