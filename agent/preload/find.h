/*
 * The symbol tables of the loaded libraries, read without the loader
 * (preload/start/find.c, preload/start/foreign.c). Nothing is locked or
 * allocated.
 */
#ifndef IPS_AGENT_PRELOAD_FIND_H
#define IPS_AGENT_PRELOAD_FIND_H

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>

struct ips_module {
    const Elf64_Sym *symbols;
    const char *names;
    const uint16_t *versions; /* DT_VERSYM; NULL: the library has no versions */
    const uint32_t *hash;     /* hash table DT_GNU_HASH; NULL: none */
    /* hash table DT_HASH; used only without DT_GNU_HASH */
    const uint32_t *old_hash;
    const Elf64_Verdef *defined; /* defined versions, DT_VERDEF; NULL: none */
};

/* Our own dynamic section, by which we recognise our library in the loader's
 * list. */
extern const ElfW(Dyn) ips_dynamic[] __asm__("_DYNAMIC")
    __attribute__((visibility("hidden")));

/* Fills `m` with the symbol tables of the library `l`. False: `l` lacks a table
 * that a search needs. */
bool ips_module_read_tables(const struct link_map *l, struct ips_module *m);
/* Converts an entry of the dynamic section to an address. glibc relocates such
 * entries in place, except where the section is read-only. */
static inline uint64_t ips_module_dynamic_address(const struct link_map *l,
                                                  uint64_t value)
{
    return value && value < l->l_addr ? value + l->l_addr : value;
}
/* Returns the hash that a DT_GNU_HASH table has for `name`. */
uint32_t ips_symbol_hash(const char *name);
/* Finds the default version of `name` in the library `m`; `hash` is
 * ips_symbol_hash(name). NULL: not defined there. */
const Elf64_Sym *ips_module_find_symbol(const struct ips_module *m,
                                        const char *name, uint32_t hash);
/* Returns the name of the symbol version `index` that `m` defines; with `index`
 * 0, of the first version that it defines. NULL: there is none
 * (preload/start/foreign.c). */
const char *ips_module_version_name(const struct ips_module *m, uint32_t index);
/* Whether one of the libraries listed so far (preload/start/find.c) defines
 * `name`; `hash` is ips_symbol_hash(name). */
bool ips_is_defined_in_listed_libraries(const char *name, uint32_t hash);

/* Returns the end of the memory of `l` that contains `at` and that the loader
 * write-protected (RELRO); 0: unknown. */
uint64_t ips_module_protected_end(const struct link_map *l,
                                  const struct ips_module *m, uint64_t at);

/* Whether the module is one of the C library's own objects (libc, libm ...). */
bool ips_module_is_libc(const struct ips_module *m);
/* Returns whether `l`, which comes after ours in the search order, is a library
 * of the program that uses names of our wrappers for its own functions. If so,
 * notes those of the names that the loader would bind to `l` if our library
 * were not there (preload/start/foreign.c). */
bool ips_store_foreign_names_of_library(const struct link_map *l,
                                        const struct ips_module *m);
/* Makes the names noted so far resolve to the libraries of the program that
 * define them, as if our library did not define them. */
void ips_rebind_foreign_names_to_program(void);
/* Writes an UNSEEN record if a library's function with a noted name may pass
 * its calls on to the C library's function of that name, because such calls are
 * not recorded. The thread must be able to write records already. */
void ips_report_foreign_names_calling_libc(void);

#endif
