/*
 * Some names of our wrappers are used by a library of the program for its own
 * functions or variables: `splice` of audio buffers, `tee`, `listen`, `sync`.
 * We give up such a name: our symbol table marks it as undefined, so that the
 * loader binds it as if our library were not there, and references that were
 * bound before are bound again. So no call of such a function passes through a
 * wrapper, its parameters do not matter, and other calls cost no more than
 * before.
 *
 * The loader binds a reference with a symbol version to the definition of that
 * version, even if it comes after the C library. So a name is also given up if
 * any reference asks for the version of it that a library of the program
 * defines. Calls of the C library's function of that name are then not
 * recorded. Only the library itself can make such calls, by an address from
 * dlsym; so libraries that use dlsym are named in an UNSEEN record.
 *
 * A library defines such a name as a variant of the C library's function if it
 * belongs to the C library, if it was preloaded (no other library needs it), or
 * if it is a sanitizer's runtime (__interceptor_NAME). Its names are not given
 * up. Any other library is one of the program.
 *
 * All this runs while the loader relocates us: single-threaded, before any code
 * of the program. Libraries that the loader relocated before us are bound
 * already if they bind at load time; the others are bound later.
 */
#include "agent/preload/find.h"

#include "agent/preload/wrap.h"
#include "agent/record/sys.h"

#define GIVEN 320u

static struct foreign_name {
    const char *name;
    /* symbol version of its definition; NULL: matches any reference */
    const char *version;
    /* no earlier library defines the name, so that a reference without a
     * version binds to this one */
    bool first;
    uint32_t symbol; /* index of the name in our symbol table */
    uint64_t ours, theirs;
} given[GIVEN] IPS_TABLE;
static uint32_t given_count;
/* passed_on: the first noted name whose function may pass its calls on to the C
 * library's function; passed_by: file of the library that defines it */
static const char *passed_on, *passed_by;
static uint32_t passed_names;

static const struct link_map *own_link_map(void)
{
    const struct link_map *l = _r_debug.r_map;
    while (l->l_ld != ips_dynamic)
        l = l->l_next;
    return l;
}

/* --- versions of symbols ------------------------------------------------ */

const char *ips_module_version_name(const struct ips_module *m, uint32_t index)
{
    const Elf64_Verdef *d = m->defined;
    while (d) {
        const char *at = (const char *)d;
        const Elf64_Verdaux *aux = (const void *)(at + d->vd_aux);
        if (!(d->vd_flags & VER_FLG_BASE) && (!index || d->vd_ndx == index))
            return m->names + aux->vda_name;
        d = d->vd_next ? (const void *)(at + d->vd_next) : NULL;
    }
    return NULL;
}

static const char *needed_version_name(const struct ips_module *m,
                                       const Elf64_Verneed *needed,
                                       uint32_t index)
{
    while (needed) {
        const char *at = (const char *)needed;
        const Elf64_Vernaux *aux = (const void *)(at + needed->vn_aux);
        for (uint32_t i = 0; i < needed->vn_cnt; i++) {
            if ((aux->vna_other & 0x7fff) == index)
                return m->names + aux->vna_name;
            aux = (const void *)((const char *)aux + aux->vna_next);
        }
        needed = needed->vn_next ? (const void *)(at + needed->vn_next) : NULL;
    }
    return NULL;
}

static uint32_t symbol_version_index(const struct ips_module *m,
                                     uint32_t symbol)
{
    return m->versions ? m->versions[symbol] & 0x7fff : 0;
}

/* --- kinds of libraries --------------------------------------------------- */

bool ips_module_is_libc(const struct ips_module *m)
{
    const char *first = ips_module_version_name(m, 0);
    return first && strncmp(first, "GLIBC_", 6) == 0;
}

static const char *file_name_of_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static const char *dynamic_string_of(const struct link_map *l,
                                     const struct ips_module *m, int64_t tag)
{
    for (const ElfW(Dyn) *d = l->l_ld; d->d_tag != DT_NULL; d++)
        if (d->d_tag == tag)
            return m->names + d->d_un.d_val;
    return "";
}

static bool needs_library(const struct link_map *x, const char *soname,
                          const char *file)
{
    struct ips_module m;
    (void)ips_module_read_tables(x, &m);
    for (const ElfW(Dyn) *d = x->l_ld; m.names && d->d_tag != DT_NULL; d++) {
        const char *name = m.names + d->d_un.d_val;
        if (d->d_tag == DT_NEEDED &&
            (strcmp(name, soname) == 0 ||
             strcmp(file_name_of_path(name), file) == 0))
            return true;
    }
    return false;
}

/* Whether `l` was preloaded: no library needs it. That is reliable because
 * dlopen has not been called yet. */
static bool is_preloaded(const struct link_map *l, const struct ips_module *m)
{
    const char *soname = dynamic_string_of(l, m, DT_SONAME),
               *file = file_name_of_path(l->l_name);
    for (const struct link_map *x = _r_debug.r_map; x; x = x->l_next)
        if (x != l && x->l_ld && needs_library(x, soname, file))
            return false;
    return true;
}

static bool is_sanitizer_runtime(const struct ips_module *m, const char *name)
{
    static const char head[] = "__interceptor_";
    char text[64];
    size_t n = strlen(name) + 1;
    if (sizeof(head) + n > sizeof(text))
        return false;
    memcpy(text, head, sizeof(head) - 1);
    memcpy(text + sizeof(head) - 1, name, n);
    return ips_module_find_symbol(m, text, ips_symbol_hash(text)) != NULL;
}

/* --- references to symbols ------------------------------------------------ */

struct object {
    const struct link_map *l;
    struct ips_module m;
    const Elf64_Verneed *needed;
    /* [0]: relocations of data; [1]: of calls. `bytes`: their sizes */
    const Elf64_Rela *relocations[2];
    uint64_t bytes[2];
};

static bool read_object_relocations(const struct link_map *l, struct object *o)
{
    memset(o, 0, sizeof(*o));
    o->l = l;
    for (const ElfW(Dyn) *d = l->l_ld; d && d->d_tag != DT_NULL; d++) {
        uint64_t value = d->d_un.d_val;
        const void *at =
            (const void *)(uintptr_t)ips_module_dynamic_address(l, value);
        /* such a library has relocations in its code: it is left alone */
        if (d->d_tag == DT_TEXTREL)
            return false;
        if (d->d_tag == DT_RELA)
            o->relocations[0] = at;
        else if (d->d_tag == DT_RELASZ)
            o->bytes[0] = value;
        else if (d->d_tag == DT_JMPREL)
            o->relocations[1] = at;
        else if (d->d_tag == DT_PLTRELSZ)
            o->bytes[1] = value;
        else if (d->d_tag == DT_VERNEED)
            o->needed = at;
    }
    return ips_module_read_tables(l, &o->m) && l->l_ld != ips_dynamic;
}

/* Returns the symbol version that object `o` asks for in its reference
 * `symbol`; NULL: no particular one. */
static const char *requested_symbol_version(const struct object *o,
                                            uint32_t symbol)
{
    uint32_t index = symbol_version_index(&o->m, symbol);
    if (index <= 1)
        return NULL;
    const char *version = needed_version_name(&o->m, o->needed, index);
    return version ? version : ips_module_version_name(&o->m, index);
}

static bool has_symbol_name(const struct object *o, uint32_t symbol,
                            const char *name)
{
    return strcmp(o->m.names + o->m.symbols[symbol].st_name, name) == 0;
}

/* Whether `o` refers to `name` in this version. Searches only the symbols
 * before those in the hash table, because references (undefined symbols) are
 * there. */
static bool refers_to_version(const struct object *o, const char *name,
                              const char *version)
{
    uint32_t end = o->m.hash ? o->m.hash[1] : o->m.old_hash[1];
    for (uint32_t i = 1; i < end; i++) {
        const char *asked = NULL;
        if (o->m.symbols[i].st_shndx == SHN_UNDEF &&
            has_symbol_name(o, i, name))
            asked = requested_symbol_version(o, i);
        if (asked && strcmp(asked, version) == 0)
            return true;
    }
    return false;
}

static bool is_version_referenced(const char *name, const char *version)
{
    struct object o;
    for (const struct link_map *l = _r_debug.r_map; l; l = l->l_next)
        if (read_object_relocations(l, &o) &&
            refers_to_version(&o, name, version))
            return true;
    return false;
}

/* --- finding names of wrappers in libraries ------------------------------- */

/* Whether the name was noted already for another library, or for the same
 * version of our symbol. */
static bool is_foreign_name_stored(const struct foreign_name *g)
{
    for (uint32_t i = 0; i < given_count; i++)
        if (strcmp(given[i].name, g->name) == 0 &&
            (given[i].theirs != g->theirs || given[i].symbol == g->symbol))
            return true;
    return false;
}

static bool uses_dlsym(const struct ips_module *m)
{
    uint32_t end = m->hash ? m->hash[1] : m->old_hash[1];
    for (uint32_t i = 1; i < end; i++)
        if (m->symbols[i].st_shndx == SHN_UNDEF &&
            (strcmp(m->names + m->symbols[i].st_name, "dlsym") == 0 ||
             strcmp(m->names + m->symbols[i].st_name, "dlvsym") == 0))
            return true;
    return false;
}

static void count_function_that_may_call_libc(const struct link_map *l,
                                              const struct ips_module *m,
                                              const char *name)
{
    if (passed_by != l->l_name && !uses_dlsym(m))
        return;
    if (passed_names++ == 0) {
        passed_on = name;
        passed_by = l->l_name;
    }
}

void ips_report_foreign_names_calling_libc(void)
{
    static const char and[] = " and others", by[] = " by ";
    char text[60];
    if (!passed_names)
        return;
    const char *library = file_name_of_path(passed_by);
    size_t a = strnlen(passed_on, 20), b = strnlen(library, 20), n = a;
    memcpy(text, passed_on, a);
    if (passed_names > 1) {
        memcpy(text + n, and, sizeof(and) - 1);
        n += sizeof(and) - 1;
    }
    memcpy(text + n, by, sizeof(by) - 1);
    n += sizeof(by) - 1;
    memcpy(text + n, library, b);
    text[n + b] = '\0';
    ips_report_unrecorded_activity(text);
}

/* Notes `name` if the library `l` defines it and is one of the program; then
 * sets *foreign. Returns false if `l` is not one of the program (preloaded, or
 * a sanitizer), so that none of its names matters. */
static bool store_foreign_name_if_in_program(const struct link_map *l,
                                             const struct ips_module *m,
                                             const char *name, uint32_t symbol,
                                             bool *foreign)
{
    uint32_t hash = ips_symbol_hash(name);
    const Elf64_Sym *s = ips_module_find_symbol(m, name, hash);
    if (!s || ELF64_ST_TYPE(s->st_info) > STT_FUNC ||
        strncmp(name, "ips_", 4) == 0)
        return true;
    if (!*foreign && (is_sanitizer_runtime(m, name) || is_preloaded(l, m)))
        return false;
    *foreign = true;
    uint32_t index = symbol_version_index(m, (uint32_t)(s - m->symbols));
    struct foreign_name g = {
        .name = name,
        .version = index > 1 ? ips_module_version_name(m, index) : NULL,
        .first = !ips_is_defined_in_listed_libraries(name, hash),
        .symbol = symbol,
        .theirs = l->l_addr + s->st_value,
    };
    if (given_count < GIVEN && !is_foreign_name_stored(&g) &&
        (g.first || (g.version && is_version_referenced(name, g.version)))) {
        given[given_count++] = g;
        if (ELF64_ST_TYPE(s->st_info) == STT_FUNC)
            count_function_that_may_call_libc(l, m, name);
    }
    return true;
}

/* Returns the number of symbols that our library defines: those in its hash
 * table. */
static uint32_t count_own_symbols(const struct ips_module *own,
                                  const uint32_t *chain)
{
    const uint32_t *bucket = own->hash + 4 + 2 * own->hash[2];
    uint32_t last = own->hash[0];
    while (last && !bucket[last - 1])
        last--;
    uint32_t i = last ? bucket[last - 1] - own->hash[1] : 0;
    while (last && !(chain[i] & 1))
        i++;
    return i + (last != 0);
}

/* This must be cheap: each start of a program does it for each of its
 * libraries. So the hashes of our names are first looked up in the library's
 * Bloom filter; few names are left to be compared. The hashes come from our own
 * hash table, which does not store their lowest bit. */
bool ips_store_foreign_names_of_library(const struct link_map *l,
                                        const struct ips_module *m)
{
    static const uint32_t any[4 + 2] = {0, 0, 1, 0, ~0u, ~0u};
    struct ips_module own;
    bool foreign = false;
    if (ips_module_is_libc(m) || !ips_module_read_tables(own_link_map(), &own))
        return false;
    const uint32_t *chain = own.hash + 4 + 2 * own.hash[2] + own.hash[0];
    const uint32_t end = count_own_symbols(&own, chain);
    const uint32_t *theirs = m->hash ? m->hash : any;
    const uint32_t mask = theirs[2] - 1, shift = theirs[3];
    const uint32_t *bloom = theirs + 4;
    for (uint32_t i = 0; i < end; i++) {
        uint32_t hash = chain[i];
        uint64_t word;
        memcpy(&word, bloom + 2 * (hash / 64 & mask), sizeof(word));
        if (word >> (hash & 62) & 3 && word >> (hash >> shift) % 64 & 1) {
            uint32_t symbol = own.hash[1] + i;
            const char *name = own.names + own.symbols[symbol].st_name;
            if (!store_foreign_name_if_in_program(l, m, name, symbol, &foreign))
                return false;
        }
    }
    return foreign;
}

/* --- giving the names up -------------------------------------------------- */

/* Returns the page size, found without the C library, which may not be bound
 * yet: mprotect of 0 bytes fails only if the address is not the start of a
 * page. */
static uint64_t find_page_size(void)
{
    const uint64_t begin = own_link_map()->l_addr;
    uint64_t page = 4096;
    while (page < 65536 &&
           ips_sys3(SYS_mprotect, (long)(begin + page), 0, PROT_READ) != 0)
        page *= 4;
    return page;
}

static bool set_page_protection(uint64_t from, uint64_t to, int how)
{
    const uint64_t page = find_page_size();
    from &= ~(page - 1);
    to = (to + page - 1) & ~(page - 1);
    return ips_sys3(SYS_mprotect, (long)from, (long)(to - from), how) == 0;
}

/* Whether the loader would have bound this reference to the definition `g` if
 * our library were not there. */
static bool refers_to_foreign_name(const struct object *o, uint32_t symbol,
                                   const struct foreign_name *g)
{
    if (!has_symbol_name(o, symbol, g->name))
        return false;
    const char *version = requested_symbol_version(o, symbol);
    if (!version || !g->version)
        return g->first;
    return strcmp(version, g->version) == 0;
}

/* Stores `value` at `at`, which the loader may have write-protected, and
 * restores the protection. */
static void store_through_write_protection(const struct object *o, uint64_t at,
                                           uint64_t value)
{
    if (!set_page_protection(at, at + sizeof(value), PROT_READ | PROT_WRITE))
        return;
    memcpy((void *)(uintptr_t)at, &value, sizeof(value));
    if (ips_module_protected_end(o->l, &o->m, at))
        (void)set_page_protection(at, at + sizeof(value), PROT_READ);
}

static bool is_address_relocation(uint64_t type)
{
#if defined(__x86_64__)
    return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT ||
           type == R_X86_64_64;
#elif defined(__aarch64__)
    return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT ||
           type == R_AARCH64_ABS64;
#endif
}

static void rebind_reference_if_to_foreign_name(const struct object *o,
                                                const Elf64_Rela *r)
{
    uint64_t at = o->l->l_addr + r->r_offset, value;
    uint32_t symbol = (uint32_t)ELF64_R_SYM(r->r_info);
    if (!symbol || !is_address_relocation(ELF64_R_TYPE(r->r_info)))
        return;
    memcpy(&value, (const void *)(uintptr_t)at, sizeof(value));
    value -= (uint64_t)r->r_addend;
    for (uint32_t i = 0; i < given_count; i++)
        if (value == given[i].ours &&
            refers_to_foreign_name(o, symbol, &given[i]))
            store_through_write_protection(
                o, at, given[i].theirs + (uint64_t)r->r_addend);
}

/* Makes the noted names undefined in our symbol table: the loader skips a
 * symbol whose value is 0. */
static bool undefine_given_up_symbols(void)
{
    const struct link_map *l = own_link_map();
    struct ips_module m;
    if (!ips_module_read_tables(l, &m))
        return false;
    uint64_t from = UINT64_MAX, to = 0;
    for (uint32_t i = 0; i < given_count; i++) {
        uint64_t at = (uint64_t)(uintptr_t)&m.symbols[given[i].symbol];
        from = ips_min_u64(from, at);
        to = at + sizeof(*m.symbols) > to ? at + sizeof(*m.symbols) : to;
    }
    /* The code that runs here is on other pages than the symbols, unless pages
     * are large. */
    const int code = find_page_size() == 4096 ? 0 : PROT_EXEC;
    if (!set_page_protection(from, to, PROT_READ | PROT_WRITE | code))
        return false;
    for (uint32_t i = 0; i < given_count; i++) {
        const Elf64_Sym *ours = &m.symbols[given[i].symbol];
        Elf64_Sym none = *ours;
        given[i].ours = l->l_addr + none.st_value;
        none.st_value = 0;
        memcpy((void *)(uintptr_t)ours, &none, sizeof(none));
    }
    (void)set_page_protection(from, to, PROT_READ | code);
    return true;
}

void ips_rebind_foreign_names_to_program(void)
{
    struct object o;
    if (!given_count || !undefine_given_up_symbols())
        return;
    for (const struct link_map *l = _r_debug.r_map; l; l = l->l_next)
        for (int t = 0; read_object_relocations(l, &o) && t < 2; t++)
            for (uint64_t i = 0; i < o.bytes[t] / sizeof(Elf64_Rela); i++)
                rebind_reference_if_to_foreign_name(&o, &o.relocations[t][i]);
}
