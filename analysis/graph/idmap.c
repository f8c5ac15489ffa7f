#include "analysis/graph/idmap.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAP 64u

void ips_idmap_release(struct ips_idmap *m)
{
    free(m->key);
    free(m->value);
    m->key = NULL;
    m->value = NULL;
    m->count = m->cap = 0;
}

uint64_t ips_idmap_find_slot(const struct ips_idmap *m, uint64_t key)
{
    uint64_t h = (key ^ key >> 31) * 0x9e3779b97f4a7c15ULL;
    uint64_t at = (h ^ h >> 29) & (m->cap - 1);
    while (m->key[at] != UINT64_MAX && m->key[at] != key)
        at = (at + 1) & (m->cap - 1);
    return at;
}

uint64_t ips_idmap_bytes_to_reserve(const struct ips_idmap *m)
{
    uint64_t each = sizeof(*m->key) + (m->set ? 0 : sizeof(*m->value));
    if (m->count * 2 < m->cap)
        return 0;
    return (m->cap ? m->cap : FIRST_CAP) * each;
}

bool ips_idmap_reserve_one_key(struct ips_idmap *m)
{
    struct ips_idmap old = *m, new = {.count = m->count, .set = m->set};
    if (m->count * 2 < m->cap)
        return true;
    new.cap = old.cap ? old.cap * 2 : FIRST_CAP;
    new.key = malloc(new.cap * sizeof(*new.key));
    new.value = new.set ? NULL : malloc(new.cap * sizeof(*new.value));
    if (!new.key || (!new.set && !new.value)) {
        ips_idmap_release(&new);
        return false;
    }
    memset(new.key, 0xff, new.cap * sizeof(*new.key));
    for (uint64_t i = 0; i < old.cap; i++) {
        if (old.key[i] == UINT64_MAX)
            continue;
        uint64_t at = ips_idmap_find_slot(&new, old.key[i]);
        new.key[at] = old.key[i];
        if (!new.set)
            new.value[at] = old.value[i];
    }
    ips_idmap_release(&old);
    *m = new;
    return true;
}
