/*
 * Reads one file's symbol table and debug information. elfutils (libelf, libdw)
 * reads the formats, libiberty demangles C++ and Rust names. binutils and perf
 * use them, too, every distribution has them, and neither loads plugins or uses
 * the network (libdwfl's debuginfod is not used).
 *
 * Runs only in the helper process, because a malicious file may crash it.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <gelf.h>
#include <libiberty/demangle.h>
#include <stdlib.h>
#include <string.h>

#include "common/paths.h"
#include "slave/symbols/file.h"

#define SYMBOLS_MAX 20000000u
#define RANGES_MAX 20000000u
#define TEXT_MAX 65536u

struct symbol {
    /* `size`: bytes; if the ELF symbol has none, the bytes up to the end of its
     * section */
    uint64_t start, size;
    const char *name;
    /* of several symbols at one address, the one with the greatest rank is
     * used */
    uint8_t rank;
    bool open; /* the symbol has no size: it ends where the next one starts */
};

struct range { /* one address range of a compilation unit's code */
    uint64_t start, end;
    Dwarf_Die die;
};

struct reader {
    const struct slave_symbol_ask *ask;
    struct symbol_file main, debug;
    struct symbol *symbols;
    size_t symbol_count, symbol_capacity;
    struct range *ranges;
    size_t range_count, range_capacity;
    Dwarf_CFI *cfi;
    const uint8_t *starts; /* table of .eh_frame_hdr: pairs of 32-bit offsets */
    size_t start_count;
    uint64_t starts_base; /* address to which the offsets are relative */
};

/* ---- symbol tables ---- */

static int compare_symbols_by_start(const void *va, const void *vb)
{
    const struct symbol *a = va, *b = vb;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return strcmp(b->name, a->name);
}

static bool array_reserve(void *list, size_t count, size_t *room, size_t item,
                          size_t max)
{
    void **v = list;
    if (count < *room)
        return true;
    size_t want = *room ? *room * 2 : 1024;
    void *grown = count < max ? realloc(*v, want * item) : NULL;
    if (!grown)
        return false;
    *v = grown;
    *room = want;
    return true;
}

/* Returns the number of bytes from address `at` to the end of section number
 * `section`; 0: `at` is not in that section. */
static uint64_t bytes_to_section_end(Elf *elf, size_t section, uint64_t at)
{
    GElf_Shdr h;
    Elf_Scn *scn = elf_getscn(elf, section);
    if (!scn || !gelf_getshdr(scn, &h) || at < h.sh_addr ||
        at - h.sh_addr >= h.sh_size)
        return 0;
    return h.sh_size - (at - h.sh_addr);
}

static void append_function_symbols(struct reader *r, Elf *elf, Elf_Scn *scn,
                                    const GElf_Shdr *h)
{
    Elf_Data *data = elf_getdata(scn, NULL);
    size_t count = data && h->sh_entsize ? data->d_size / h->sh_entsize : 0;
    for (size_t i = 0; i < count && i < INT32_MAX; i++) {
        GElf_Sym s;
        if (!gelf_getsym(data, (int)i, &s) || s.st_shndx == SHN_UNDEF)
            continue;
        int type = GELF_ST_TYPE(s.st_info), bind = GELF_ST_BIND(s.st_info);
        if (type != STT_FUNC && type != STT_GNU_IFUNC)
            continue;
        const char *name = elf_strptr(elf, h->sh_link, s.st_name);
        if (!name || !*name ||
            !array_reserve(&r->symbols, r->symbol_count, &r->symbol_capacity,
                           sizeof(*r->symbols), SYMBOLS_MAX))
            continue;
        uint8_t rank = bind == STB_GLOBAL ? 3 : bind == STB_WEAK ? 2 : 1;
        r->symbols[r->symbol_count++] = (struct symbol){
            .start = s.st_value,
            .size = s.st_size
                        ? s.st_size
                        : bytes_to_section_end(elf, s.st_shndx, s.st_value),
            .name = name,
            .rank = (uint8_t)(rank + (s.st_size ? 4 : 0) - (name[0] == '_')),
            .open = s.st_size == 0};
    }
}

static void load_symbols(struct reader *r)
{
    Elf *const elfs[] = {r->main.elf, r->debug.elf};
    static const uint32_t types[] = {SHT_SYMTAB, SHT_DYNSYM};
    for (int t = 0; t < 2 && r->symbol_count == 0; t++)
        for (int i = 0; i < 2 && r->symbol_count == 0; i++)
            for (Elf_Scn *s = NULL; elfs[i] && (s = elf_nextscn(elfs[i], s));) {
                GElf_Shdr h;
                if (gelf_getshdr(s, &h) && h.sh_type == types[t])
                    append_function_symbols(r, elfs[i], s, &h);
            }
    if (r->symbol_count)
        qsort(r->symbols, r->symbol_count, sizeof(*r->symbols),
              compare_symbols_by_start);
}

/* Returns the symbol that covers the address, or NULL. A symbol without a size
 * (assembler) extends to the next one. */
static const struct symbol *find_symbol(const struct reader *r, uint64_t at)
{
    size_t low = 0, high = r->symbol_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (r->symbols[mid].start <= at)
            low = mid + 1;
        else
            high = mid;
    }
    for (int i = 0; low > 0 && i < 64; i++) {
        const struct symbol *s = &r->symbols[--low];
        if (at - s->start < s->size && (!s->open || i == 0))
            return s;
    }
    return NULL;
}

/* ---- the unwind table ---- */

/* Loads the sorted table of .eh_frame_hdr, if it has the usual encoding. */
static void load_procedure_starts(struct reader *r)
{
    GElf_Shdr h;
    uint32_t count;
    Elf_Scn *scn = symbol_file_find_section(&r->main, ".eh_frame_hdr", &h);
    Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL;
    const uint8_t *p = data ? data->d_buf : NULL;
    if (!p || data->d_size < 12 || p[0] != 1 || p[2] != DW_EH_PE_udata4 ||
        p[3] != (DW_EH_PE_datarel | DW_EH_PE_sdata4))
        return;
    memcpy(&count, p + 8, sizeof(count));
    if (count > (data->d_size - 12) / 8)
        return;
    r->starts = p + 12;
    r->start_count = count;
    r->starts_base = h.sh_addr;
}

static uint64_t unwind_entry_start(const struct reader *r, size_t i)
{
    int32_t offset;
    memcpy(&offset, r->starts + i * 8, sizeof(offset));
    return r->starts_base + (uint64_t)(int64_t)offset;
}

/* Finds the start of the procedure that contains `at`. Returns false if no
 * procedure does. */
static bool find_procedure_start(const struct reader *r, uint64_t at,
                                 uint64_t *start)
{
    size_t low = 0, high = r->start_count;
    Dwarf_Frame *frame = NULL;
    if (!r->cfi || dwarf_cfi_addrframe(r->cfi, at, &frame) != 0)
        return false; /* the address is not inside a procedure */
    free(frame);
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (unwind_entry_start(r, mid) <= at)
            low = mid + 1;
        else
            high = mid;
    }
    if (low > 0)
        *start = unwind_entry_start(r, low - 1);
    return low > 0;
}

/* ---- texts ---- */

struct text {
    char buf[TEXT_MAX];
    size_t len;
    unsigned frames;
};

/* Appends a field and the character `end`. Characters of the field that would
 * break lines or fields become '?'. */
static void append_field(struct text *t, const char *s, char end)
{
    for (size_t i = 0; s && s[i] && i < SLAVE_SYMBOL_NAME_MAX; i++) {
        unsigned char c = (unsigned char)s[i];
        if (t->len + 2 < sizeof(t->buf))
            t->buf[t->len++] = c < 0x20 || c == 0x7f ? '?' : s[i];
    }
    if (t->len + 1 < sizeof(t->buf))
        t->buf[t->len++] = end;
    t->buf[t->len] = '\0';
}

static void append_number_field(struct text *t, int n, char end)
{
    char digits[16];
    snprintf(digits, sizeof(digits), "%d", n > 0 ? n : 0);
    append_field(t, digits, end);
}

/* Appends a name without the suffixes that compilers give to parts of a
 * procedure: "f" for "f.constprop.0" and "f.cold". */
static void append_name_without_suffixes(struct text *t, const char *name)
{
    static const char *const parts[] = {".cold",  ".part.",     ".constprop.",
                                        ".isra.", ".lto_priv.", ".llvm.",
                                        "@"};
    char cut[SLAVE_SYMBOL_NAME_MAX + 1];
    snprintf(cut, sizeof(cut), "%s", name);
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        char *at = strstr(cut, parts[i]);
        if (at && at > cut)
            *at = '\0';
    }
    append_field(t, cut, '\t');
}

static void append_demangled_name(struct text *t, const char *name)
{
    char *plain = name && strlen(name) < 16384
                      ? cplus_demangle(name, DMGL_ANSI | DMGL_AUTO)
                      : NULL;
    if (plain)
        append_field(t, plain, '\t');
    else
        append_name_without_suffixes(t, name ? name : "");
    free(plain);
}

static void append_frame_positions(struct text *t, const char *file, int line,
                                   const char *at_file, int at_line)
{
    append_field(t, file, '\t');
    append_number_field(t, line, '\t');
    append_field(t, at_file, '\t');
    append_number_field(t, at_line, '\n');
    t->frames++;
}

static bool format_frame_from_symbols_or_unwind_table(struct reader *r,
                                                      uint64_t at,
                                                      struct text *t)
{
    const struct symbol *s = find_symbol(r, at);
    t->len = t->frames = 0;
    if (s) {
        append_demangled_name(t, s->name);
        append_frame_positions(t, "", 0, "", 0);
        return true;
    }
    /* Without a symbol, the unwind table still knows where the procedure
     * starts. */
    uint64_t start;
    char name[IPS_PATH_BYTES];
    if (!find_procedure_start(r, at, &start))
        return false;
    snprintf(name, sizeof(name), "%s+0x%llx",
             ips_code_path_base_name(r->ask->path), (unsigned long long)start);
    append_field(t, name, '\t');
    append_frame_positions(t, "", 0, "", 0);
    return true;
}

/* ---- debug information ---- */

static int compare_ranges_by_start(const void *va, const void *vb)
{
    const struct range *a = va, *b = vb;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return a->end < b->end ? 1 : a->end > b->end ? -1 : 0;
}

/* Loads the address ranges of all compilation units. Reads the units
 * themselves, because not every file has .debug_aranges. */
static void load_unit_ranges(struct reader *r, Dwarf *dwarf)
{
    Dwarf_CU *cu = NULL;
    Dwarf_Die die, sub;
    uint8_t type;
    while (dwarf_get_units(dwarf, cu, &cu, NULL, &type, &die, &sub) == 0) {
        Dwarf_Addr base, start, end;
        ptrdiff_t at = 0;
        if (type == DW_UT_type || type == DW_UT_split_type)
            continue;
        while ((at = dwarf_ranges(&die, at, &base, &start, &end)) > 0) {
            if (start >= end)
                continue;
            if (!array_reserve(&r->ranges, r->range_count, &r->range_capacity,
                               sizeof(*r->ranges), RANGES_MAX))
                return;
            r->ranges[r->range_count++] =
                (struct range){.start = start,
                               .end = end,
                               .die = type == DW_UT_skeleton &&
                                              dwarf_tag(&sub) != DW_TAG_invalid
                                          ? sub
                                          : die};
        }
    }
    if (r->range_count)
        qsort(r->ranges, r->range_count, sizeof(*r->ranges),
              compare_ranges_by_start);
}

static Dwarf_Die *find_compilation_unit(struct reader *r, uint64_t at)
{
    size_t low = 0, high = r->range_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (r->ranges[mid].start <= at)
            low = mid + 1;
        else
            high = mid;
    }
    for (int i = 0; low > 0 && i < 16; i++)
        if (at < r->ranges[--low].end)
            return &r->ranges[low].die;
    return NULL;
}

static const char *find_linkage_name(Dwarf_Die *die)
{
    Dwarf_Attribute attr;
    return dwarf_attr_integrate(die, DW_AT_linkage_name, &attr) ||
                   dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attr)
               ? dwarf_formstring(&attr)
               : NULL;
}

/* Replaces the debug entry (DIE) of a procedure's instance, inlined or not, by
 * that of its declaration. Returns false if a reference is invalid or there are
 * too many of them. */
static bool follow_to_declaration(Dwarf_Die *die)
{
    for (int i = 0; i < 4; i++) {
        Dwarf_Attribute attr;
        Dwarf_Die of;
        if (!dwarf_attr(die, DW_AT_abstract_origin, &attr) &&
            !dwarf_attr(die, DW_AT_specification, &attr))
            return true;
        if (!dwarf_formref_die(&attr, &of))
            return false;
        *die = of;
    }
    return false;
}

static bool is_cplusplus(Dwarf_Die *unit)
{
    switch (dwarf_srclang(unit)) {
    case DW_LANG_C_plus_plus:
    case DW_LANG_C_plus_plus_03:
    case DW_LANG_C_plus_plus_11:
    case DW_LANG_C_plus_plus_14:
    case 0x2b: /* C++17 */
    case 0x2c: /* C++20 */
        return true;
    default:
        return false;
    }
}

/* Appends the name of one enclosing scope to the qualified name in `out`.
 * Returns true if the scope is the class of a lambda. */
static bool append_scope_name(Dwarf_Die *scope, char *out, size_t size)
{
    const char *name = dwarf_diename(scope), *linkage;
    char *plain = NULL, closure[32];
    int line = 0;
    bool lambda = false;
    switch (dwarf_tag(scope)) {
    case DW_TAG_namespace:
        name = name ? name : "(anonymous namespace)";
        break;
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
        lambda = !name;
        if (dwarf_decl_line(scope, &line) < 0)
            line = 0;
        snprintf(closure, sizeof(closure), "{lambda:%d}", line);
        name = name ? name : closure;
        break;
    case DW_TAG_subprogram:
        linkage = find_linkage_name(scope);
        if (linkage && strlen(linkage) < 16384)
            plain = cplus_demangle(linkage, DMGL_ANSI | DMGL_AUTO);
        if (plain)
            *out = '\0'; /* the demangled name contains all enclosing scopes */
        break;
    default:
        return false;
    }
    size_t at = strlen(out);
    snprintf(out + at, size - at, "%s%s", at ? "::" : "",
             plain ? plain : (name ? name : "?"));
    free(plain);
    return lambda;
}

/* Builds the name of a procedure without a linkage name: a lambda, or a member
 * of a local class. `out` is "" if there is no such name. *at is set to the DIE
 * that has the declaration line: for a lambda, the DIE of its class. */
static void build_qualified_name_of_procedure(Dwarf_Die *unit, Dwarf_Die *die,
                                              char *out, size_t size,
                                              Dwarf_Die *at)
{
    Dwarf_Die own = *die, *scopes = NULL;
    *out = '\0';
    *at = *die;
    if (!is_cplusplus(unit) || !follow_to_declaration(&own) ||
        !dwarf_diename(&own))
        return;
    int count = dwarf_getscopes_die(&own, &scopes);
    bool closure = false;
    for (int i = count; i > 1; i--)
        closure = append_scope_name(&scopes[i - 1], out, size);
    if (closure && strcmp(dwarf_diename(&own), "operator()") == 0)
        *at = scopes[1];
    else if (*out)
        append_scope_name(&own, out, size);
    free(scopes);
}

/* Finds the file and line from which an inlined procedure was called. */
static void find_inline_call_site(Dwarf_Die *unit, Dwarf_Die *die,
                                  const char **file, int *line)
{
    Dwarf_Attribute attr;
    Dwarf_Word n;
    Dwarf_Files *files;
    size_t count;
    *file = "";
    *line = 0;
    if (dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &attr), &n) == 0 &&
        n < INT32_MAX)
        *line = (int)n;
    if (dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &attr), &n) == 0 &&
        dwarf_getsrcfiles(unit, &files, &count) == 0 && n < count)
        *file = dwarf_filesrc(files, n, NULL, NULL);
}

/* Finds the innermost scope below `die` that contains the address `at`; returns
 * false if there is none. Unlike libdw, also finds procedures within types
 * within procedures. */
static bool find_innermost_scope(Dwarf_Die *die, uint64_t at, unsigned depth,
                                 Dwarf_Die *out)
{
    Dwarf_Die child;
    if (depth == 0 || dwarf_child(die, &child) != 0)
        return false;
    do {
        switch (dwarf_tag(&child)) {
        case DW_TAG_subprogram:
        case DW_TAG_inlined_subroutine:
        case DW_TAG_lexical_block:
            if (dwarf_haspc(&child, at) > 0) {
                *out = child;
                (void)find_innermost_scope(&child, at, depth - 1, out);
                return true;
            }
            break;
        case DW_TAG_namespace:
        case DW_TAG_class_type:
        case DW_TAG_structure_type:
        case DW_TAG_union_type:
            break;
        default:
            continue;
        }
        if (find_innermost_scope(&child, at, depth - 1, out))
            return true;
    } while (dwarf_siblingof(&child, &child) == 0);
    return false;
}

/* Sets *own to the scopes that contain the code at `at`, the innermost first;
 * free() it. Returns their number; < 0: an error. */
static int find_scopes_containing_address(struct reader *r, Dwarf_Die *unit,
                                          uint64_t at, Dwarf_Die **own)
{
    Dwarf_Die *scopes = NULL, local;
    /* Use only the innermost scope of dwarf_getscopes, and then the scopes that
     * physically contain it: after an inlined scope, dwarf_getscopes continues
     * with the scopes of its declaration. */
    int count = dwarf_getscopes(unit, at, &scopes);
    const struct symbol *s = count > 0 ? NULL : find_symbol(r, at);
    if (count > 0)
        count = dwarf_getscopes_die(&scopes[0], own);
    /* "_ZZ" begins the mangled name of a procedure inside another procedure */
    else if (s && strncmp(s->name, "_ZZ", 3) == 0 &&
             find_innermost_scope(unit, at, 64, &local))
        count = dwarf_getscopes_die(&local, own);
    free(scopes);
    return count;
}

static bool format_frames_from_debug_info(struct reader *r, uint64_t at,
                                          struct text *t)
{
    Dwarf_Die *unit = find_compilation_unit(r, at), *own = NULL;
    const char *at_file = "";
    int at_line = 0, count;
    t->len = t->frames = 0;
    if (!unit)
        return false;
    Dwarf_Line *line = dwarf_getsrc_die(unit, at);
    if (line) {
        at_file = dwarf_linesrc(line, NULL, NULL);
        if (dwarf_lineno(line, &at_line) < 0)
            at_line = 0;
    }
    count = find_scopes_containing_address(r, unit, at, &own);
    for (int i = 0; i < count && t->frames < SLAVE_SYMBOL_FRAMES_MAX; i++) {
        int tag = dwarf_tag(&own[i]), decl = 0;
        if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram)
            continue;
        const char *name = find_linkage_name(&own[i]);
        char scoped[SLAVE_SYMBOL_NAME_MAX + 1] = "";
        Dwarf_Die place = own[i];
        if (!name)
            build_qualified_name_of_procedure(unit, &own[i], scoped,
                                              sizeof(scoped), &place);
        if (!name && !*scoped)
            name = dwarf_diename(&own[i]);
        if (!name && !*scoped)
            break;
        if (dwarf_decl_line(&place, &decl) < 0)
            decl = 0;
        if (name)
            append_demangled_name(t, name);
        else
            append_field(t, scoped, '\t');
        append_frame_positions(t, dwarf_decl_file(&place), decl, at_file,
                               at_line);
        if (tag == DW_TAG_subprogram)
            break;
        find_inline_call_site(unit, &own[i], &at_file, &at_line);
    }
    free(own);
    if (t->frames > 0)
        return true;
    /* If there are only line numbers (assembler with -g), take the name from
     * the symbol table. */
    const struct symbol *s = at_line ? find_symbol(r, at) : NULL;
    if (s) {
        append_demangled_name(t, s->name);
        append_frame_positions(t, "", 0, at_file, at_line);
    }
    return s != NULL;
}

/* ---- all ---- */

int slave_symbols_read_elf_file(const struct slave_symbol_ask *ask,
                                void (*put)(void *arg, size_t index,
                                            const char *text,
                                            enum slave_symbol_grade grade),
                                void *arg, struct ips_err *err)
{
    struct reader r = {.ask = ask, .main = {.fd = -1}, .debug = {.fd = -1}};
    struct text *t = malloc(sizeof(*t));
    (void)elf_version(EV_CURRENT);
    int rc = t ? symbol_file_open_if_unchanged(&r.main, ask, err)
               : ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    if (rc == 0) {
        if (!symbol_file_find_section(&r.main, ".debug_info", NULL))
            symbol_file_open_debug(&r.main, ask, &r.debug, err);
        if (err && err->code)
            err->code = IPS_E_INCOMPLETE;
        load_procedure_starts(&r);
        r.cfi = dwarf_getcfi_elf(r.main.elf);
        load_symbols(&r);
        for (size_t i = 0; i < ask->count; i++)
            if (format_frame_from_symbols_or_unwind_table(&r, ask->addresses[i],
                                                          t))
                put(arg, i, t->buf, SLAVE_SYMBOL_TABLE);
        struct symbol_file *o = r.debug.elf ? &r.debug : &r.main;
        o->dwarf = dwarf_begin_elf(o->elf, DWARF_C_READ, NULL);
        if (o->dwarf)
            load_unit_ranges(&r, o->dwarf);
        for (size_t i = 0; o->dwarf && i < ask->count; i++)
            if (format_frames_from_debug_info(&r, ask->addresses[i], t))
                put(arg, i, t->buf, SLAVE_SYMBOL_DEBUG);
    }
    if (r.cfi)
        (void)dwarf_cfi_end(r.cfi);
    symbol_file_close(&r.main);
    symbol_file_close(&r.debug);
    free(r.symbols);
    free(r.ranges);
    free(t);
    return rc;
}
