/*
 * Finds the code (module and address in its file) that was mapped at an address
 * of a program image at a given time. (A process has a new image after each
 * fork and exec.) The map has the modules of every image of a run over time,
 * and numbers the code locations (module, address in its file). Pure.
 *
 * Rules:
 *  - an image's modules are those of its MODULE records, from the record's time
 *    until a record with `gone` set, or until another module is loaded at the
 *    same start address. If several cover an address, the newest counts.
 *  - a fork child also has the modules that its parent had at the fork.
 *  - an address that no module covers at the time belongs to the first module
 *    loaded there later: constructors run before dlopen returns and its record
 *    is written.
 *  - a return address is looked up one byte earlier, inside the call
 *    instruction, which may be the last one of its procedure.
 *
 * The map copies what it needs: it has no pointers into the records.
 */
#ifndef IPS_SLAVE_SYMBOLS_CODEMAP_H
#define IPS_SLAVE_SYMBOLS_CODEMAP_H

#include "slave/base/intern.h"
#include "slave/build/build.h"

struct ips_code_module {
    char *path; /* path of the module's file, as in the record; or "[vdso]" */
    uint8_t build_id[20];
    uint8_t build_id_bytes; /* length of the build id; 0: none */
    /* the module is IPS's own code, loaded into the program */
    bool recording;
    /* id of the user whose process mapped the module; see symbols.h */
    uint32_t uid;
    uint64_t loaded_ns; /* time of its last loading, on CLOCK_MONOTONIC_RAW */
};
struct ips_code_location {
    uint32_t module; /* IPS_NONE: no module covered the address */
    /* address in the file's symbol table; 0 without a module */
    uint64_t address;
};

struct code_image;
struct code_span;
struct code_memo;
struct ips_codemap {
    struct ips_code_module *modules;
    uint32_t module_count, module_capacity;
    struct ips_code_location *locations;
    uint32_t location_count, location_capacity;
    struct code_image *images; /* sorted by pidns, pid, stamp */
    uint32_t image_count;
    struct code_span *spans; /* sorted by image, start */
    uint32_t span_count, span_capacity;
    struct slave_intern module_index, location_index;
    struct code_memo *memo;
};

/* Makes the map from the records MODULE (a library was loaded or unloaded) and
 * START (a thread's first record). O(records). */
int ips_codemap_make(const struct ips_build_input *in, struct ips_codemap *out,
                     struct ips_err *err) IPS_MUST_USE;
void ips_codemap_release(struct ips_codemap *m);

/* Returns the index of a stream's image, or IPS_NONE. */
uint32_t
ips_codemap_find_image_of_stream(const struct ips_codemap *m,
                                 const struct ips_segment_header *head);

/* Sets *place to the number of the code location that was at `address` of the
 * image at t_ns (on this machine's CLOCK_MONOTONIC_RAW); adds the location if
 * it is new. `ret`: `address` is a return address. */
int ips_codemap_find_or_add_location(struct ips_codemap *m, uint32_t image,
                                     uint64_t address, uint64_t t_ns, bool ret,
                                     uint32_t *place,
                                     struct ips_err *err) IPS_MUST_USE;

/* Returns true if the code location is in IPS's own code. */
static inline bool ips_code_belongs_to_ips(const struct ips_codemap *m,
                                           uint32_t place)
{
    uint32_t module = m->locations[place].module;
    return module != IPS_NONE && m->modules[module].recording;
}

/* Returns the file name in a path: "libc.so.6" of "/lib/libc.so.6". */
const char *ips_code_path_base_name(const char *path);

#endif
