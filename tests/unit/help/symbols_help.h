/*
 * For tests of names of code: a program that the test compiles in a directory
 * of its own, and what is said of places in it.
 */
#ifndef IPS_TESTS_UNIT_HELP_SYMBOLS_HELP_H
#define IPS_TESTS_UNIT_HELP_SYMBOLS_HELP_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/log.h"
#include "slave/drain/drain.h"
#include "slave/store/store.h"
#include "slave/symbols/symbols.h"
#include "tests/unit/help/emulated.h"

static char dir[64];

static inline void run(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));
static inline void run(const char *fmt, ...)
{
    char command[2048];
    va_list ap;
    int n = snprintf(command, sizeof(command), "cd %s && ", dir);
    va_start(ap, fmt);
    vsnprintf(command + n, sizeof(command) - (size_t)n, fmt, ap);
    va_end(ap);
    if (system(command) != 0)
        fail_msg("%s", command);
}

static const char source[] =
    "volatile double sink;\n"                               /* 1 */
    "static inline __attribute__((always_inline)) double\n" /* 2 */
    "kernel(double x)\n"                                    /* 3 */
    "{\n"                                                   /* 4 */
    "    for (int i = 0; i < 99; i++)\n"                    /* 5 */
    "        x = x * 1.01 + 0.5;\n"                         /* 6 */
    "    return x;\n"                                       /* 7 */
    "}\n"                                                   /* 8 */
    "__attribute__((noinline)) double heavy(long n)\n"      /* 9 */
    "{\n"                                                   /* 10 */
    "    double s = 0;\n"                                   /* 11 */
    "    while (n--)\n"                                     /* 12 */
    "        s = kernel(s);\n"                              /* 13 */
    "    return sink = s;\n"                                /* 14 */
    "}\n"                                                   /* 15 */
    "void rusty(void) __asm__(\n"
    "    \"_ZN4core3ptr8do_thing17h0123456789abcdefE\");\n"
    "void rusty(void) { sink = 1; }\n"
    "void rusty0(void) __asm__(\"_RNvC6_123foo3bar\");\n"
    "void rusty0(void) { sink = 2; }\n"
    "#ifdef MAIN\n"
    "#include <stdio.h>\n"
    "int main(int argc, char **argv)\n"
    "{\n"
    "    (void)argv;\n"
    "    char room[200];\n"
    "    snprintf(room, sizeof(room), \"%d\", argc);\n"
    "    heavy(room[0]);\n"
    "    return 0;\n"
    "}\n"
    "#endif\n";

static inline int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/ips-symbols-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    char path[100];
    snprintf(path, sizeof(path), "%s/a.c", dir);
    FILE *f = fopen(path, "w");
    if (!f)
        return -1;
    fputs(source, f);
    fclose(f);
    run("mkdir debug");
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    run("rm -rf %s", dir);
    return 0;
}

/* ---- one file ---- */

#define ADDRESSES 4096

struct found {
    struct slave_symbol symbol[ADDRESSES];
    uint64_t address[ADDRESSES];
    size_t count;
    int rc;
    char why[1024];
};

static inline void put(void *arg, size_t index, const char *text,
                       enum slave_symbol_grade grade)
{
    struct found *f = arg;
    assert_true(index < f->count);
    free(f->symbol[index].text);
    f->symbol[index].text = strdup(text);
    f->symbol[index].grade = grade;
}

static inline void found_free(struct found *f)
{
    for (size_t i = 0; i < f->count; i++)
        free(f->symbol[i].text);
    free(f);
}

/* Start and length of a symbol in `file`, by nm. */
static inline void extent(const char *file, const char *symbol, uint64_t *start,
                          uint64_t *size)
{
    *start = *size = 0;
    char command[256], line[256], name[128];
    unsigned long long a, n;
    snprintf(command, sizeof(command), "nm -S %s/%s", dir, file);
    FILE *f = popen(command, "r");
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "%llx %llx %*c %127s", &a, &n, name) == 3 &&
            strcmp(name, symbol) == 0) {
            *start = a;
            *size = n;
        }
    if (!f || pclose(f) != 0 || *size == 0)
        fail_msg("no %s in %s", symbol, file);
}

static inline size_t build_id_of(const char *file, uint8_t id[20])
{
    char command[300], hex[64] = "";
    snprintf(command, sizeof(command),
             "readelf -n %s/%s | sed -n 's/.*Build ID: //p'", dir, file);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    if (!fgets(hex, sizeof(hex), f))
        hex[0] = '\0';
    pclose(f);
    size_t n = 0;
    unsigned byte;
    while (n < 20 && sscanf(hex + 2 * n, "%2x", &byte) == 1)
        id[n++] = (uint8_t)byte;
    return n;
}

/* What is known of every address of [start, start + size) of a file. */
static inline struct found *look(const char *file, uint64_t start,
                                 uint64_t size, const uint8_t *id,
                                 size_t id_bytes, uint64_t not_after)
{
    char path[200], debug[200];
    struct ips_err err = {0};
    struct found *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->count = size < ADDRESSES ? size : ADDRESSES;
    for (size_t i = 0; i < f->count; i++)
        f->address[i] = start + i;
    snprintf(path, sizeof(path), "%s%s%s", file[0] == '/' ? "" : dir,
             file[0] == '/' || file[0] == '[' ? "" : "/", file);
    if (file[0] == '[')
        snprintf(path, sizeof(path), "%s", file);
    snprintf(debug, sizeof(debug), "%s/debug", dir);
    const struct slave_symbol_ask ask = {.path = path,
                                         .build_id = id,
                                         .build_id_bytes = id_bytes,
                                         .not_after_real_ns = not_after,
                                         .debug_root = debug,
                                         .addresses = f->address,
                                         .count = f->count};
    f->rc = slave_symbols_read_elf_file(&ask, put, f, &err);
    snprintf(f->why, sizeof(f->why), "%s", err.msg);
    return f;
}

static inline struct found *look_at(const char *file, const char *with_symbols,
                                    const char *symbol)
{
    uint64_t start = 0, size = 0;
    uint8_t id[20];
    size_t n = build_id_of(file, id);
    extent(with_symbols, symbol, &start, &size);
    return look(file, start, size, id, n, 0);
}

/* The frames of a symbol as "name@file:line" joined by " < ", files by their
 * last part. */
static inline const char *frames(const struct slave_symbol *s)
{
    static char out[1024];
    const char *at = s->text ? s->text : "";
    struct slave_symbol_frame f;
    size_t n = 0;
    out[0] = '\0';
    while (slave_symbol_parse_frame(&at, &f)) {
        char file[256];
        snprintf(file, sizeof(file), "%.*s", (int)f.file_len, f.file);
        n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%.*s@%s:%u",
                              n ? " < " : "", (int)f.name_len, f.name,
                              ips_code_path_base_name(file), f.source_line);
    }
    assert_int_equal(*at, 0);
    return out;
}

static inline unsigned count_of(const struct found *f, const char *what)
{
    unsigned n = 0;
    for (size_t i = 0; i < f->count; i++)
        n += strcmp(frames(&f->symbol[i]), what) == 0;
    return n;
}

#endif
