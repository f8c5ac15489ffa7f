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
    const uint16_t *versions; /* NULL: it has none */
    const uint32_t *hash;     /* DT_GNU_HASH; NULL: none */
    const uint32_t *old_hash; /* DT_HASH; looked at where it is the only one */
    const Elf64_Verdef *defined; /* DT_VERDEF; NULL: none */
};

/* Our own dynamic section: tells us from the others. */
extern const ElfW(Dyn) ips_dynamic[] __asm__("_DYNAMIC")
    __attribute__((visibility("hidden")));

/* false: it lacks one of the tables that we search. */
bool ips_module_of(const struct link_map *l, struct ips_module *m);
/* An address of the dynamic section: glibc relocates them in place, except
 * where it cannot write. */
static inline uint64_t ips_module_address(const struct link_map *l,
                                          uint64_t value)
{
    return value && value < l->l_addr ? value + l->l_addr : value;
}
uint32_t ips_symbol_hash(const char *name);
/* The default version of `name` in one library, or NULL. */
const Elf64_Sym *ips_module_find(const struct ips_module *m, const char *name,
                                 uint32_t hash);
/* The same in all libraries noted so far. */
bool ips_find_defined(const char *name, uint32_t hash);

/* Where the memory ends that the loader write-protected in `l` and that has
 * `at` in it; 0 where that is not known. */
uint64_t ips_module_protected_end(const struct link_map *l,
                                  const struct ips_module *m, uint64_t at);

/* Is it one of the C library's own objects? */
bool ips_module_is_libc(const struct ips_module *m);
/* Library `l`, behind us, is the program's own and defines functions or
 * variables with names of ours. Notes those that no library before it has. */
bool ips_foreign_library(const struct link_map *l, const struct ips_module *m);
/* Gives the noted names to those libraries, as if we did not define them. */
void ips_foreign_give(void);
/* Says which of them may pass calls on to the C library's function: those calls
 * are not recorded. Once the image has begun. */
void ips_foreign_say(void);

#endif
