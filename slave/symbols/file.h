/*
 * Opens an ELF file of a measured program, and its separate debug file. The
 * debug file is found by build id in DEBUG_ROOT/.build-id/xx/yyy.debug, else by
 * its name in .gnu_debuglink: in the directory DIR of the ELF file, in
 * DIR/.debug, or in DEBUG_ROOT/DIR. For symbols/elf.c; runs only in the helper
 * process.
 */
#ifndef IPS_SLAVE_SYMBOLS_FILE_H
#define IPS_SLAVE_SYMBOLS_FILE_H

#include <elfutils/libdw.h>
#include <gelf.h>
#include <sys/stat.h>

#include "slave/symbols/symbols.h"

/* an opened ELF file; not open: fd is -1 and elf is NULL */
struct symbol_file {
    int fd;
    Elf *elf;
    Dwarf *dwarf;
    struct stat st;
};

/* Opens the module's own file ("[vdso]": this process's vdso). Fails if it is
 * not the file that was mapped. */
int symbol_file_open_if_unchanged(struct symbol_file *o,
                                  const struct slave_symbol_ask *a,
                                  struct ips_err *err) IPS_MUST_USE;
void symbol_file_close(struct symbol_file *o);

/* Opens the debug file of `o`. `debug` stays closed if there is none. `why` is
 * set if debug files were found, but all of them are too large to read. */
void symbol_file_open_debug(const struct symbol_file *o,
                            const struct slave_symbol_ask *a,
                            struct symbol_file *debug, struct ips_err *why);

/* Returns the section called `name` and copies its header; NULL if it does not
 * exist or has no bytes in the file. `header` may be NULL. */
Elf_Scn *symbol_file_find_section(const struct symbol_file *o, const char *name,
                                  GElf_Shdr *header);

#endif
