/*
 * The real functions, found in the libraries behind us.
 *
 * dlsym(RTLD_NEXT) would do, at 0.2 us a name: with 150 names that was a fifth
 * of what we add to the start of a short program. So the libraries that the
 * loader brought in after us, in its own order, are searched here by their GNU
 * hash tables; nothing is locked or allocated. What does not look as it should
 * (no such table, an indirect function) is left to dlsym.
 */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include "agent/wrap.h"

struct module {
    const Elf64_Sym *symbols;
    const char *names;
    const uint16_t *versions; /* NULL: it has none */
    const uint32_t *hash;     /* DT_GNU_HASH */
};

extern const ElfW(Dyn) ours[] __asm__("_DYNAMIC") IPS_HIDDEN;

static bool all_known = true; /* no library behind us without the table */

/* glibc relocates these addresses in place, except where it cannot write. */
static uint64_t address(const struct link_map *l, uint64_t value)
{
    return value && value < l->l_addr ? value + l->l_addr : value;
}

static bool module_of(const struct link_map *l, struct module *m)
{
    uint64_t symbols = 0, names = 0, versions = 0, hash = 0;
    for (const ElfW(Dyn) *d = l->l_ld; d && d->d_tag != DT_NULL; d++) {
        uint64_t at = address(l, d->d_un.d_ptr);
        if (d->d_tag == DT_SYMTAB)
            symbols = at;
        else if (d->d_tag == DT_STRTAB)
            names = at;
        else if (d->d_tag == DT_VERSYM)
            versions = at;
        else if (d->d_tag == DT_GNU_HASH)
            hash = at;
    }
    *m = (struct module){(const Elf64_Sym *)symbols, (const char *)names,
                         (const uint16_t *)versions, (const uint32_t *)hash};
    return symbols && names && hash;
}

/* The default version of `name` in one library, or NULL. */
static const Elf64_Sym *find_in(const struct module *m, const char *name,
                                uint32_t hash)
{
    uint32_t buckets = m->hash[0], first = m->hash[1], words = m->hash[2],
             shift = m->hash[3];
    const uint64_t *bloom = (const uint64_t *)(const void *)(m->hash + 4);
    const uint32_t *bucket = (const uint32_t *)(bloom + words);
    const uint32_t *chain = bucket + buckets;
    uint64_t word = bloom[hash / 64 & (words - 1)];
    if (!buckets || !(word >> hash % 64 & word >> (hash >> shift) % 64 & 1))
        return NULL;
    uint32_t i = bucket[hash % buckets];
    for (; i >= first; i++) {
        uint32_t h = chain[i - first];
        const Elf64_Sym *s = &m->symbols[i];
        if ((h | 1) == (hash | 1) && s->st_shndx != SHN_UNDEF && s->st_value &&
            !(m->versions && m->versions[i] & 0x8000) &&
            strcmp(m->names + s->st_name, name) == 0)
            return s;
        if (h & 1)
            break;
    }
    return NULL;
}

void *ips_find(const char *name)
{
    uint32_t hash = 5381;
    struct module m;
    const struct link_map *l = _r_debug.r_map;
    for (const char *c = name; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    while (l && l->l_ld != ours)
        l = l->l_next;
    for (l = l && all_known ? l->l_next : NULL; l; l = l->l_next) {
        if (!module_of(l, &m)) {
            all_known = false;
            break;
        }
        const Elf64_Sym *s = find_in(&m, name, hash);
        if (!s)
            continue;
        uint8_t type = ELF64_ST_TYPE(s->st_info);
        if (type != STT_FUNC && type != STT_OBJECT)
            break;
        return (void *)(uintptr_t)(l->l_addr + s->st_value);
    }
    return dlsym(RTLD_NEXT, name);
}
