/*
 * Finds the procedures, files and lines of code at (module, address).
 *
 * A symbol is a text with one line a procedure, the innermost first. There are
 * several lines if the compiler inlined one procedure into another. A line is
 *
 *   name TAB file TAB line TAB at_file TAB at_line
 *
 * `file:line` is the declaration; `at_*` is the statement of the address (for
 * an outer procedure: the call that was inlined); "" and 0 if unknown. An empty
 * text means that nothing covers the address.
 *
 * The files are those that the measured program had mapped, so they may be
 * malicious. A helper (`ips-slave --symbolise`) reads them, with limits of
 * size, CPU, memory and time; root's helper takes the rights of the user whose
 * records name the file. Its output is checked. The helper may crash, hang or
 * return false names; the slave then uses "module+0xoffset". A file that could
 * not be read is not tried again for a while, and the log says why.
 *
 * Files: symbols/file.c finds and symbols/elf.c reads files (in the helper),
 * symbols/ask.c runs the helper, symbols.c stores known names in SQLite, so
 * that later answers do not need the binary. Runs on the worker thread.
 */
#ifndef IPS_SLAVE_SYMBOLS_SYMBOLS_H
#define IPS_SLAVE_SYMBOLS_SYMBOLS_H

#include <stdio.h>

#include "slave/symbols/codemap.h"

struct slave_store;

#define SLAVE_SYMBOL_NAME_MAX 1024u
#define SLAVE_SYMBOL_FRAMES_MAX 64u
#define SLAVE_DEBUG_ROOT "/usr/lib/debug"

/* ---- one file (symbols/elf.c, in the helper) ---- */

struct slave_symbol_ask {
    const char *path;
    const uint8_t *build_id;
    size_t build_id_bytes; /* 0: no build id; then the file's age is checked */
    /* user with whose rights root's helper reads the file */
    uint32_t uid;
    /* without a build id: a file modified after this time (ns since 1970) is
     * not the one that was mapped; 0: do not check */
    uint64_t not_after_real_ns;
    const char *debug_root;
    const uint64_t *addresses; /* addresses in the file's symbol table */
    size_t count;
};
enum slave_symbol_grade {
    SLAVE_SYMBOL_NONE = 0,
    /* the name is from a symbol table or the unwind table */
    SLAVE_SYMBOL_TABLE = 1,
    SLAVE_SYMBOL_DEBUG = 2, /* the name is from debug information */
};
/* Reads the ELF file and calls `put` for each address about which something is
 * known: at most twice for an address, and the second text is the better one.
 * IPS_E_NOT_FOUND: no such file, or not the one that was mapped; IPS_E_REFUSED:
 * no permission to read it, or not a regular file; IPS_E_LIMIT: too large.
 * Returns 0 with `err` set to IPS_E_INCOMPLETE if its debug file is too large
 * to be read. */
int slave_symbols_read_elf_file(const struct slave_symbol_ask *ask,
                                void (*put)(void *arg, size_t index,
                                            const char *text,
                                            enum slave_symbol_grade grade),
                                void *arg, struct ips_err *err) IPS_MUST_USE;

/* The helper's main: reads a request from `in`, writes answers to `out`.
 * Returns its exit status. */
int slave_symbols_helper_main(FILE *in, FILE *out);

/* ---- the helper (symbols/ask.c) ---- */

struct slave_symbol {
    char *text; /* lines of the symbol; NULL: unknown */
    enum slave_symbol_grade grade;
};
/* Runs the program `helper` to get the names of ask->addresses. Fills
 * out[ask->count], which must be zeroed. If the helper fails, the addresses
 * that it had not answered stay empty; that is no error, and `why` (zeroed
 * before) says what happened (IPS_E_LIMIT: it reached a limit). */
int slave_symbols_ask_helper(const char *helper,
                             const struct slave_symbol_ask *ask,
                             struct slave_symbol *out, struct ips_err *why,
                             struct ips_err *err) IPS_MUST_USE;

/* ---- all code locations of a map (symbols.c) ---- */

/* symbols of the code locations [0 .. count) of one map */
struct slave_symbols {
    struct slave_symbol *of;
    uint32_t count;
    uint64_t asked; /* number of helpers run so far */
};
/* Files that could not be read; they are neither retried nor logged at each
 * question. If the files of one user take root's slave too long within an hour,
 * no more of them are read until the hour ends. Zeroed: none. */
struct slave_symbol_failures {
    struct slave_symbol_failure *of;
    uint32_t count;
    /* root's slave only: time spent on the files of each user */
    struct slave_symbol_user {
        uint32_t uid;
        uint64_t since_ns; /* start of the hour, monotonic; 0: unused entry */
        uint64_t spent_ns;
    } users[64];
};
void slave_symbol_failures_release(struct slave_symbol_failures *f);

struct slave_symbol_source {
    /* path of the helper program; "": never read files */
    const char *helper;
    /* database for names; NULL: store none */
    struct slave_store *store;
    /* files that could not be read; NULL: remember none */
    struct slave_symbol_failures *failures;
    const char *run;
    /* start time of the run, on CLOCK_MONOTONIC_RAW and on CLOCK_REALTIME */
    uint64_t created_raw_ns, created_real_ns;
};
/* Finds names for the code locations that have none yet; may be called again
 * after the map has grown. Every location gets a text: if there is no name,
 * "module+0x1f00" or "[no module]". */
int slave_symbols_fill_names(struct slave_symbols *s,
                             const struct ips_codemap *m,
                             const struct slave_symbol_source *from,
                             struct ips_err *err) IPS_MUST_USE;
void slave_symbols_release(struct slave_symbols *s);

/* ---- texts ---- */

struct slave_symbol_frame {
    const char *name, *file, *at_file;
    uint32_t name_len, file_len, at_file_len;
    uint32_t source_line, at_line;
};
/* Parses the frame at *at and moves *at past it. Returns false at the end, or
 * if the text is malformed. */
bool slave_symbol_parse_frame(const char **at, struct slave_symbol_frame *out);

#endif
