/*
 * Finds the real functions in the libraries that come after ours in the search
 * order.
 *
 * dlsym(RTLD_NEXT) would find them, but takes 0.2 us a name. For all 230 names
 * that is a fifth of what we add to the start of a short program, which calls
 * three of them. So each function is found at its first call; until then its
 * slot holds a stub (preload/start/stub.S). The first call may be in a signal
 * handler, in a vfork child or inside malloc. Therefore we search the hash
 * tables of the libraries ourselves, in the loader's order, without locking or
 * allocating. If a library has no such table, dlsym finds all names, at our
 * start.
 *
 * The list of libraries is made while the loader relocates ours, before any
 * code of the program runs. It leaves out libraries that use names of our
 * wrappers for their own functions (preload/start/foreign.c). It includes
 * objects of the C library that come before ours, because the program may be
 * libc.so.6 itself.
 */
#include "agent/preload/find.h"

#include <assert.h>
#include <dlfcn.h>

#include "agent/preload/sync.h"
#include "agent/preload/wrap.h"

#undef p_type /* a macro of resolv.h that would break the table */

_Alignas(64) struct ips_real ips_real;
struct ips_sync_real ips_sync_real;

/* The libraries that come after ours, as of our start. Libraries that are
 * loaded later are left out, since they may be unloaded. */
#define LIBRARIES 256u
static const struct link_map *libraries[LIBRARIES] IPS_TABLE;
/* The first FEW entries of that list, on a page that every process uses anyway.
 */
#define FEW 16u
static const struct link_map *few_libraries[FEW];
static inline const struct link_map **library_list_entry(unsigned i)
{
    return i < FEW ? &few_libraries[i] : &libraries[i - FEW];
}
/* The symbol tables of the first libraries of the list. The C library is nearly
 * always one of them. */
#define KNOWN 3u
static struct ips_module known_modules[KNOWN];
static unsigned library_count;
/* true: `libraries` lists every library loaded after ours, and each has the
 * symbol tables that a search needs */
static bool all_known;

bool ips_module_read_tables(const struct link_map *l, struct ips_module *m)
{
    uint64_t symbols = 0, names = 0, versions = 0, hash = 0, defined = 0;
    uint64_t old_hash = 0;
    for (const ElfW(Dyn) *d = l->l_ld; d && d->d_tag != DT_NULL; d++) {
        uint64_t at = ips_module_dynamic_address(l, d->d_un.d_ptr);
        if (d->d_tag == DT_SYMTAB)
            symbols = at;
        else if (d->d_tag == DT_STRTAB)
            names = at;
        else if (d->d_tag == DT_VERSYM)
            versions = at;
        else if (d->d_tag == DT_GNU_HASH)
            hash = at;
        else if (d->d_tag == DT_HASH)
            old_hash = at;
        else if (d->d_tag == DT_VERDEF)
            defined = at;
    }
    *m = (struct ips_module){
        (const Elf64_Sym *)symbols, (const char *)names,
        (const uint16_t *)versions, (const uint32_t *)hash,
        (const uint32_t *)old_hash, (const Elf64_Verdef *)defined};
    return symbols && names && (hash || old_hash);
}

/* Selects the version of a function: the default one, or the old one to which
 * programs linked long ago are bound. */
enum version {
    DEFAULT = 0,
    OLD = 0x8000 /* the bit "hidden" in a symbol's version */
};

/* Whether the symbol is the oldest version of its function. Other old versions
 * do the same as the present one. */
static bool is_oldest_version(const struct ips_module *m, uint32_t symbol)
{
    const char *name =
        ips_module_version_name(m, m->versions[symbol] & (OLD - 1));
    return name && strcmp(name, IPS_OLD_VERSION) == 0;
}

static bool symbol_matches_name_and_version(const struct ips_module *m,
                                            uint32_t symbol, const char *name,
                                            enum version v)
{
    const Elf64_Sym *s = &m->symbols[symbol];
    return s->st_shndx != SHN_UNDEF && s->st_value &&
           (m->versions ? m->versions[symbol] & OLD : DEFAULT) == (int)v &&
           strcmp(m->names + s->st_name, name) == 0 &&
           (v == DEFAULT || is_oldest_version(m, symbol));
}

static const Elf64_Sym *find_symbol_by_sysv_hash(const struct ips_module *m,
                                                 const char *name,
                                                 enum version v)
{
    uint32_t hash = 0;
    for (const char *c = name; *c; c++) {
        hash = (hash << 4) + (unsigned char)*c;
        hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
    }
    uint32_t buckets = m->old_hash[0];
    const uint32_t *bucket = m->old_hash + 2, *chain = bucket + buckets;
    for (uint32_t i = buckets ? bucket[hash % buckets] : 0; i; i = chain[i])
        if (symbol_matches_name_and_version(m, i, name, v))
            return &m->symbols[i];
    return NULL;
}

static const Elf64_Sym *find_symbol_with_version(const struct ips_module *m,
                                                 const char *name,
                                                 uint32_t hash, enum version v)
{
    if (!m->hash)
        return find_symbol_by_sysv_hash(m, name, v);
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
        if ((h | 1) == (hash | 1) &&
            symbol_matches_name_and_version(m, i, name, v))
            return &m->symbols[i];
        if (h & 1)
            break;
    }
    return NULL;
}

const Elf64_Sym *ips_module_find_symbol(const struct ips_module *m,
                                        const char *name, uint32_t hash)
{
    return find_symbol_with_version(m, name, hash, DEFAULT);
}

/* Fills `m` with the symbol tables of library number `i` of the list. False: it
 * has none. */
static bool read_listed_module(unsigned i, struct ips_module *m)
{
    if (i >= KNOWN)
        return ips_module_read_tables(*library_list_entry(i), m);
    *m = known_modules[i];
    return true;
}

static bool append_to_library_list(const struct link_map *l,
                                   const struct ips_module *m)
{
    if (library_count == LIBRARIES)
        return false;
    if (library_count < KNOWN)
        known_modules[library_count] = *m;
    *library_list_entry(library_count++) = l;
    return true;
}

/* Fills the list of libraries. True: a library of the program uses names of our
 * wrappers for its own functions. */
static bool list_libraries_and_store_foreign_names(void)
{
    struct ips_module m;
    const struct link_map *l = _r_debug.r_map;
    while (l && l->l_ld != ips_dynamic)
        l = l->l_next;
    bool good = l != NULL, foreign = false;
    for (l = l ? l->l_next : NULL; l && good; l = l->l_next) {
        good = ips_module_read_tables(l, &m);
        if (good && ips_store_foreign_names_of_library(l, &m))
            foreign = true;
        else if (good)
            good = append_to_library_list(l, &m);
    }
    for (l = _r_debug.r_map; l && good && l->l_ld != ips_dynamic; l = l->l_next)
        if (ips_module_read_tables(l, &m) && ips_module_is_libc(&m))
            good = append_to_library_list(l, &m);
    all_known = good;
    return foreign;
}

static void do_nothing(void)
{
}
/* The loader calls at_relocation() to resolve force_relocation_hook() while it
 * relocates our library, before any code of the program runs. */
static void (*at_relocation(void))(void)
{
    if (list_libraries_and_store_foreign_names())
        ips_rebind_foreign_names_to_program();
    return do_nothing;
}
static void force_relocation_hook(void) __attribute__((ifunc("at_relocation")));

uint32_t ips_symbol_hash(const char *name)
{
    uint32_t hash = 5381;
    for (const char *c = name; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    return hash;
}

static const Elf64_Sym *
find_symbol_in_listed_libraries(const char *name, uint32_t hash,
                                const struct link_map **where)
{
    struct ips_module m;
    for (unsigned i = 0; i < library_count; i++) {
        const Elf64_Sym *s = read_listed_module(i, &m)
                                 ? ips_module_find_symbol(&m, name, hash)
                                 : NULL;
        *where = *library_list_entry(i);
        if (s)
            return s;
    }
    return NULL;
}

bool ips_is_defined_in_listed_libraries(const char *name, uint32_t hash)
{
    const struct link_map *l;
    return find_symbol_in_listed_libraries(name, hash, &l) != NULL;
}

/* Returns the address of `name` in the listed libraries; NULL: not found.
 * *unsure: the caller must ask dlsym. */
static void *find_symbol_address(const char *name, bool *unsure)
{
    const struct link_map *l;
    *unsure = !all_known;
    const Elf64_Sym *s =
        all_known
            ? find_symbol_in_listed_libraries(name, ips_symbol_hash(name), &l)
            : NULL;
    if (!s)
        return NULL;
    uint8_t type = ELF64_ST_TYPE(s->st_info);
    if (type == STT_FUNC || type == STT_OBJECT)
        return (void *)(uintptr_t)(l->l_addr + s->st_value);
    *unsure = true;
    return NULL;
}

void *ips_find_real(const char *name)
{
    bool unsure;
    void *found = find_symbol_address(name, &unsure);
    return found || !unsure ? found : dlsym(RTLD_NEXT, name);
}

void *ips_find_old_version(const char *name)
{
    struct ips_module m;
    for (unsigned i = 0; i < library_count && all_known; i++) {
        const Elf64_Sym *s = NULL;
        if (read_listed_module(i, &m))
            s = find_symbol_with_version(&m, name, ips_symbol_hash(name), OLD);
        if (s)
            return (void *)(uintptr_t)((*library_list_entry(i))->l_addr +
                                       s->st_value);
    }
    void *found = dlvsym(RTLD_NEXT, name, IPS_OLD_VERSION);
    return found ? found : ips_find_real(name);
}

bool ips_resolves_to_libc(const char *name)
{
    struct ips_module m;
    const struct link_map *l;
    return !all_known ||
           !find_symbol_in_listed_libraries(name, ips_symbol_hash(name), &l) ||
           (ips_module_read_tables(l, &m) && ips_module_is_libc(&m));
}

/* In a usual library, the tables that the loader relocates and then
 * write-protects are within NEAR bytes of the dynamic section, and the hash
 * table is within NEAR bytes of the headers on the first page. The headers of
 * other libraries are not read. */
#define NEAR 65536u
uint64_t ips_module_protected_end(const struct link_map *l,
                                  const struct ips_module *m, uint64_t at)
{
    if (at + NEAR - (uint64_t)(uintptr_t)l->l_ld >= 2 * NEAR || !l->l_addr ||
        (uint64_t)(uintptr_t)(m->hash ? m->hash : m->old_hash) - l->l_addr >=
            NEAR)
        return 0;
    const ElfW(Ehdr) *elf = (const ElfW(Ehdr) *)(uintptr_t)l->l_addr;
    if (memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 ||
        elf->e_phentsize != sizeof(ElfW(Phdr)) || elf->e_phoff > 4096 ||
        elf->e_phoff % _Alignof(ElfW(Phdr)) != 0 ||
        elf->e_phnum * sizeof(ElfW(Phdr)) > 4096 - elf->e_phoff)
        return 0;
    const ElfW(Phdr) *part =
        (const ElfW(Phdr) *)(uintptr_t)(l->l_addr + elf->e_phoff);
    for (uint32_t i = 0; i < elf->e_phnum; i++, part++) {
        uint64_t from = l->l_addr + part->p_vaddr;
        if (part->p_type == PT_GNU_RELRO && at >= from &&
            at - from < part->p_memsz)
            return from + part->p_memsz;
    }
    return 0;
}

uint64_t ips_find_relro_end(const void *at)
{
    uint64_t end = 0;
    struct ips_module m;
    for (unsigned i = 0; i < library_count && all_known && !end; i++)
        if (read_listed_module(i, &m))
            end = ips_module_protected_end(*library_list_entry(i), &m,
                                           (uint64_t)(uintptr_t)at);
    return end;
}

/* --- tables of real functions --------------------------------------------- */

/* Stands in for a real function that no library after ours has. Only a program
 * that got our wrapper from dlsym can cause its call. */
static long fail_with_enosys(void)
{
    errno = ENOSYS;
    return -1;
}
static int return_enosys(void)
{
    return ENOSYS;
}

/* The names of all real functions in one struct of arrays, and the offset of
 * each name: pointers would need relocations. */
static const struct names {
#define X(type, name, parameters) char n_##name[sizeof(#name)];
#include "agent/preload/real.def"
#include "agent/preload/sync.def"
#undef X
} names = {
#define X(type, name, parameters) #name,
#include "agent/preload/real.def"
#include "agent/preload/sync.def"
#undef X
};
static const uint16_t name_at[] = {
#define X(type, name, parameters) offsetof(struct names, n_##name),
#include "agent/preload/real.def"
#include "agent/preload/sync.def"
#undef X
};
#define REALS (sizeof(struct ips_real) / sizeof(void *))
#define SYNCS (sizeof(struct ips_sync_real) / sizeof(void *))
#define NAMES (sizeof(name_at) / sizeof(name_at[0]))
static_assert(REALS + SYNCS == NAMES, "one place a name");
static_assert(NAMES <= IPS_STUBS, "more names than stubs");

static void **slot_of_real_function(uint32_t index)
{
    char *at = index < REALS
                   ? (char *)&ips_real + index * sizeof(void *)
                   : (char *)&ips_sync_real + (index - REALS) * sizeof(void *);
    return (void **)(void *)at;
}

/* Calls ips_find_real and reports its time as separate overhead: the symbol
 * tables are not in the caches, and a new image makes many first calls. */
static void *find_real_and_count_overhead(const char *name)
{
    IPS_APART;
    return ips_find_real(name);
}

/* Called by stub number `index`: finds its real function, stores it in the
 * stub's slot, and returns it. Two threads at once store the same value. */
void *ips_find_and_store_real_of_stub(uint32_t index)
{
    int saved = errno;
    const char *name = (const char *)&names + name_at[index];
    bool on = ips_core.wrap_state == IPS_WRAP_ON;
    void *found = on ? find_real_and_count_overhead(name) : ips_find_real(name);
    if (!found)
        found = index < REALS ? (void *)(uintptr_t)fail_with_enosys
                              : (void *)(uintptr_t)return_enosys;
    __atomic_store_n(slot_of_real_function(index), found, __ATOMIC_RELEASE);
    errno = saved;
    return found;
}

/* Stores a stub for each real function. If the list of libraries is incomplete,
 * then finds all real functions at once. A failed dlsym calls the program's
 * malloc, which may lock a mutex and so call a stub; the lookup of that stub's
 * name succeeds. */
void ips_install_real_function_stubs(void)
{
    extern const char ips_stubs[] IPS_HIDDEN;
    if (ips_real.read)
        return;
    force_relocation_hook();
    /* `read` is the first entry and stored last: it shows that all are filled
     */
    for (uint32_t i = NAMES; i-- > 0;)
        __atomic_store_n(slot_of_real_function(i),
                         (void *)(uintptr_t)(ips_stubs + 8 * i),
                         __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < NAMES && !all_known; i++)
        ips_find_and_store_real_of_stub(i);
}
