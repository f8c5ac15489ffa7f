/* Writes MODULE records, and keeps a table of the modules that have one. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/unwind/modules.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "agent/record/core.h"
#include "agent/record/cpu.h"
#include "agent/record/sys.h"
#include "agent/unwind/unwind.h"

#define MODULES 1024u

static struct known_module {
    _Atomic uint64_t start; /* 0: free slot */
    uint64_t end, bias;
} modules[MODULES] IPS_TABLE;
static _Atomic unsigned used; /* modules[used] and later were never used */
#define PAGES 256u
/* Pages of code (address >> 12) whose module has a MODULE record. */
static _Atomic uint64_t pages[PAGES] IPS_TABLE;

#ifdef DLFO_STRUCT_HAS_EH_DBASE
extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));
#endif

struct module {
    uint64_t start, end, bias;
    const ElfW(Phdr) * phdr;
    uint32_t phnum;
    const char *path; /* "" = the program itself */
};

/* --- the record ------------------------------------------------------- */

/* Reads the ELF notes of a mapped segment into *rec: the build id, and whether
 * one is a note of Go's linker. */
static void read_notes(const uint8_t *at, uint64_t bytes, uint64_t align,
                       struct ips_rec_module *rec)
{
    align = align == 8 ? 8 : 4;
    while (bytes >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) note;
        memcpy(&note, at, sizeof(note));
        uint64_t name = (note.n_namesz + align - 1) & ~(align - 1);
        uint64_t desc = (note.n_descsz + align - 1) & ~(align - 1);
        uint64_t all = sizeof(note) + name + desc;
        if (name > bytes || desc > bytes || all > bytes)
            return;
        const uint8_t *owner = at + sizeof(note);
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            memcmp(owner, "GNU", 4) == 0 && !rec->build_id_bytes) {
            uint32_t n = note.n_descsz < 20 ? note.n_descsz : 20;
            memcpy(rec->build_id, owner + name, n);
            rec->build_id_bytes = (uint8_t)n;
        }
        rec->go |= note.n_namesz == 4 && memcmp(owner, "Go\0", 4) == 0;
        at += all;
        bytes -= all;
    }
}

static void parse_elf_notes_of_module(const struct module *m,
                                      struct ips_rec_module *rec)
{
    for (uint32_t i = 0; i < m->phnum; i++) {
        const ElfW(Phdr) *ph = &m->phdr[i];
        uint64_t at = m->bias + ph->p_vaddr;
        if (ph->p_type == PT_NOTE && at >= m->start && at < m->end &&
            ph->p_memsz <= m->end - at)
            read_notes((const uint8_t *)at, ph->p_memsz, ph->p_align, rec);
    }
}

static void write_module_record(const struct module *m, bool gone)
{
    char own[512];
    const char *path = m->path ? m->path : "";
    size_t n = strnlen(path, sizeof(own) - 1);
    if (!n && !gone) {
        long got = ips_sys6(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe",
                            (long)own, sizeof(own) - 1, 0, 0);
        n = got > 0 ? (size_t)got : 0;
        path = own;
        /* Without /proc (after chroot), use getauxval. Only then, because to
         * bind that function the loader uses 3 KB of the stack, which may be a
         * coroutine's small stack. */
        const char *given = n ? NULL : (const char *)getauxval(AT_EXECFN);
        if (given && *given == '/') {
            path = given;
            n = strnlen(given, sizeof(own) - 1);
        }
    }
    struct ips_rec_module *rec = (struct ips_rec_module *)ips_rec_begin(
        IPS_REC_MODULE, sizeof(*rec) + ((n + 8) & ~(size_t)7));
    if (!rec)
        return;
    rec->h.a = (uint32_t)n;
    rec->start = m->start;
    rec->end = m->end;
    rec->bias = m->bias;
    memset(rec->build_id, 0, sizeof(rec->build_id));
    rec->build_id_bytes = rec->go = rec->reserved = 0;
    rec->gone = gone;
    if (!gone)
        parse_elf_notes_of_module(m, rec);
    memcpy(rec->path, path, n);
    memset(rec->path + n, 0, 8 - n % 8);
    ips_rec_publish(rec);
}

/* --- the table ---------------------------------------------------------- */

static void remove_module_and_record_unload(struct known_module *k,
                                            uint64_t start)
{
    struct module m = {.start = start, .end = k->end, .bias = k->bias};
    if (!atomic_compare_exchange_strong(&k->start, &start, 0))
        return;
    for (unsigned i = 0; i < PAGES; i++)
        atomic_store_explicit(&pages[i], 0, memory_order_relaxed);
    atomic_fetch_add(&ips_core.modules_era, IPS_MODULES_ERA);
    ips_unwind_clear_rules();
    write_module_record(&m, true);
}

/* Writes a MODULE record of `m` unless it is in the table. Two threads may both
 * write one at the same time. */
static void record_module_once(const struct module *m)
{
    unsigned n = atomic_load(&used);
    for (unsigned i = 0; i < n; i++) {
        struct known_module *k = &modules[i];
        uint64_t has = atomic_load(&k->start);
        if (has != m->start)
            continue;
        if (k->end == m->end && k->bias == m->bias)
            return;
        remove_module_and_record_unload(k,
                                        has); /* another module is there now */
    }
    for (unsigned i = 0; i < MODULES; i++) {
        struct known_module *k = &modules[i];
        uint64_t none = 0;
        if (atomic_load(&k->start) != 0 ||
            !atomic_compare_exchange_strong(&k->start, &none, 1))
            continue;
        k->end = m->end;
        k->bias = m->bias;
        while (n <= i && !atomic_compare_exchange_weak(&used, &n, i + 1))
            ;
        atomic_store(&k->start, m->start);
        write_module_record(m, false);
        return;
    }
}

static int record_module_of_dl_info(struct dl_phdr_info *info, size_t size,
                                    void *unused)
{
    (void)size;
    (void)unused;
    struct module m = {.start = ~(uint64_t)0,
                       .bias = info->dlpi_addr,
                       .phdr = info->dlpi_phdr,
                       .phnum = info->dlpi_phnum,
                       .path = info->dlpi_name};
    for (uint32_t i = 0; i < m.phnum; i++) {
        const ElfW(Phdr) *ph = &m.phdr[i];
        uint64_t from = m.bias + ph->p_vaddr, to = from + ph->p_memsz;
        if (ph->p_type != PT_LOAD)
            continue;
        if ((from & ~(uint64_t)4095) < m.start)
            m.start = from & ~(uint64_t)4095;
        if (to > m.end)
            m.end = to;
    }
    if (m.start < m.end)
        record_module_once(&m);
    return 0;
}

void ips_modules_record_at_start_if_old_glibc(void)
{
#ifdef DLFO_STRUCT_HAS_EH_DBASE
    if (_dl_find_object)
        return;
#endif
    dl_iterate_phdr(record_module_of_dl_info, NULL);
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
static bool find_module_of_pc(uint64_t pc, struct dl_find_object *found)
{
    return _dl_find_object && _dl_find_object((void *)pc, found) == 0 &&
           found->dlfo_link_map;
}

static bool record_module_of_pc(uint64_t pc)
{
    IPS_APART;
    struct dl_find_object found;
    if (!find_module_of_pc(pc, &found))
        return false; /* code generated at run time */
    struct module m = {.start = (uint64_t)found.dlfo_map_start,
                       .end = (uint64_t)found.dlfo_map_end,
                       .bias = found.dlfo_link_map->l_addr,
                       .path = found.dlfo_link_map->l_name};
    const ElfW(Ehdr) *elf = (const ElfW(Ehdr) *)found.dlfo_map_start;
    if (memcmp(elf->e_ident, ELFMAG, SELFMAG) == 0 &&
        elf->e_phentsize == sizeof(ElfW(Phdr)) &&
        elf->e_phoff + elf->e_phnum * sizeof(ElfW(Phdr)) <= 4096) {
        m.phdr = (const ElfW(Phdr) *)(const void *)((const char *)elf +
                                                    elf->e_phoff);
        m.phnum = elf->e_phnum;
    }
    record_module_once(&m);
    return true;
}

void ips_module_record_once_slow(uint64_t pc)
{
    /* Read the page, with its era, before the lookup: if a module is unloaded
     * meanwhile, the page does not count as known. */
    uint64_t page = ips_module_page_key(pc);
    _Atomic uint64_t *seen = &pages[pc >> 12 & (PAGES - 1)];
    /* Adds 0 instead of a plain load: a load from memory that was never written
     * maps the zero page, and the store below would then cause a second page
     * fault. */
    if (atomic_fetch_add_explicit(seen, 0, memory_order_relaxed) != pc >> 12) {
        if (!record_module_of_pc(pc))
            return;
        atomic_store_explicit(seen, pc >> 12, memory_order_relaxed);
    }
    ips_me.site_page = page;
}

void ips_modules_find_and_record_unloaded(void)
{
    ips_unwind_clear_rules();
    for (unsigned i = 0, n = atomic_load(&used); i < n; i++) {
        struct dl_find_object found;
        uint64_t start = atomic_load(&modules[i].start);
        if (start > 1 && (!find_module_of_pc(start, &found) ||
                          (uint64_t)found.dlfo_map_start != start))
            remove_module_and_record_unload(&modules[i], start);
    }
}
#else
void ips_module_record_once_slow(uint64_t pc)
{
    (void)pc;
}
void ips_modules_find_and_record_unloaded(void)
{
}
#endif
