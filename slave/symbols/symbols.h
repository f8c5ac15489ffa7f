/*
 * Names of code: (module, address) -> procedures, files and lines.
 *
 * A symbol is a text, one line a procedure, the innermost first: several where
 * the compiler inlined one into the other. A line is
 *
 *   name TAB file TAB line TAB at_file TAB at_line
 *
 * `file:line` where it is declared, `at_*` the statement the address is in (of
 * an outer one: the call that was inlined); "" and 0 where not known. An empty
 * text: nothing covers the address.
 *
 * The files are whatever the measured program had mapped, so a hostile user's:
 * they are read by a helper (`ips-slave --symbolise`) with limits of size, CPU,
 * memory and time, where we are root with the rights of the user whose records
 * name the file, and what it says is checked. It may crash, hang or lie about
 * names; the slave goes on with "module+0xoffset". A file that could not be
 * read is not tried again for a while, and the log says why.
 *
 * Files: symbols/file.c finds and symbols/elf.c reads files (in the helper),
 * symbols/ask.c runs the helper, symbols.c keeps what is known in SQLite, so
 * that a later answer needs the binary no more. Thread: the worker's.
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
    size_t build_id_bytes; /* 0: told by the file's age */
    uint32_t uid;          /* root's helper reads with this user's rights */
    uint64_t not_after_real_ns; /* a file without a build id that is younger is
                                   another one; 0: any */
    const char *debug_root;
    const uint64_t *addresses; /* in the file's symbol table */
    size_t count;
};
enum slave_symbol_grade {
    SLAVE_SYMBOL_NONE = 0,
    SLAVE_SYMBOL_TABLE = 1, /* from a symbol table or the unwind table */
    SLAVE_SYMBOL_DEBUG = 2, /* from debug information */
};
/* Calls `put` for each address that something is known of, at most twice: the
 * second is better. IPS_E_NOT_FOUND: no such file, or another one;
 * IPS_E_REFUSED: one that may not be read; IPS_E_LIMIT: too large. Returns 0
 * with `err` set to IPS_E_INCOMPLETE where its debug file may not be read. */
int slave_symbols_read(const struct slave_symbol_ask *ask,
                       void (*put)(void *arg, size_t index, const char *text,
                                   enum slave_symbol_grade grade),
                       void *arg, struct ips_err *err) IPS_MUST_USE;

/* The helper's main: an ask on `in`, answers on `out`. Returns its exit
 * status. */
int slave_symbols_main(FILE *in, FILE *out);

/* ---- the helper (symbols/ask.c) ---- */

struct slave_symbol {
    char *text; /* NULL: nothing is known */
    enum slave_symbol_grade grade;
};
/* Fills out[count], zeroed before. `helper` is the program to run. A helper
 * that fails leaves what it had not answered: no error, `why` says what it was
 * (zeroed before; IPS_E_LIMIT: it met a limit). */
int slave_symbols_ask(const char *helper, const struct slave_symbol_ask *ask,
                      struct slave_symbol *out, struct ips_err *why,
                      struct ips_err *err) IPS_MUST_USE;

/* ---- all places of a map (symbols.c) ---- */

struct slave_symbols { /* of places[0 .. count) of one map */
    struct slave_symbol *of;
    uint32_t count;
    uint64_t asked; /* helpers run */
};
/* Files that could not be read: not tried again at each question, nor
 * complained of. A user whose files take root's slave too long in an hour has
 * none read for the rest of it. Zeroed: none. */
struct slave_symbol_failures {
    struct slave_symbol_failure *of;
    uint32_t count;
    /* root's slave: what reading a user's files has taken, by user */
    struct slave_symbol_user {
        uint32_t uid;
        uint64_t since_ns; /* monotonic; 0: this is nobody's */
        uint64_t spent_ns;
    } users[64];
};
void slave_symbol_failures_release(struct slave_symbol_failures *f);

struct slave_symbol_source {
    const char *helper;                     /* "": files are never read */
    struct slave_store *store;              /* NULL: nothing is kept */
    struct slave_symbol_failures *failures; /* NULL: none is remembered */
    const char *run;
    uint64_t created_raw_ns, created_real_ns; /* of the run */
};
/* Names of the places that have none yet; may be called again when the map has
 * grown. Every place gets a text: without a name "module+0x1f00" or
 * "[no module]". */
int slave_symbols_fill(struct slave_symbols *s, const struct ips_codemap *m,
                       const struct slave_symbol_source *from,
                       struct ips_err *err) IPS_MUST_USE;
void slave_symbols_release(struct slave_symbols *s);

/* ---- texts ---- */

struct slave_frame_name {
    const char *name, *file, *at_file;
    uint32_t name_len, file_len, at_file_len;
    uint32_t source_line, at_line;
};
/* The frame at *at; moves *at behind it. False: the end, or no frame. */
bool slave_symbol_next(const char **at, struct slave_frame_name *out);

#endif
