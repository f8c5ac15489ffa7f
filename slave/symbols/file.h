/*
 * One ELF file of a measured program and its separate debug file: found by
 * build id in DEBUG_ROOT/.build-id/xx/yyy.debug, else by .gnu_debuglink beside
 * the file, in .debug beside it and in DEBUG_ROOT/its directory. For
 * symbols/elf.c, in the helper process alone.
 */
#ifndef IPS_SLAVE_SYMBOLS_FILE_H
#define IPS_SLAVE_SYMBOLS_FILE_H

#include <elfutils/libdw.h>
#include <gelf.h>
#include <sys/stat.h>

#include "slave/symbols/symbols.h"

struct symbol_file { /* fd -1, elf NULL: not open */
    int fd;
    Elf *elf;
    Dwarf *dwarf;
    struct stat st;
};

/* The module's own file ("[vdso]": this process's), if it is the one that was
 * mapped. */
int symbol_file_open(struct symbol_file *o, const struct slave_symbol_ask *a,
                     struct ips_err *err) IPS_MUST_USE;
void symbol_file_close(struct symbol_file *o);

/* Its debug file; `debug` stays closed where there is none, and `why` says so
 * where there is one that may not be read. */
void symbol_file_debug(const struct symbol_file *o,
                       const struct slave_symbol_ask *a,
                       struct symbol_file *debug, struct ips_err *why);

/* The section of that name that has bytes, or NULL. `header` may be NULL. */
Elf_Scn *symbol_file_section(const struct symbol_file *o, const char *name,
                             GElf_Shdr *header);

#endif
