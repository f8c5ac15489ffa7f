/* Finds and reads an FDE and its CIE in .eh_frame; unwind.c names the
 * standards. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/unwind/table.h"

#include "agent/unwind/unwind.h"

#if IPS_UNWIND_TABLES

/* _dl_find_object exists in glibc 2.35 and later; without it only frame
 * pointers are used. */
extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));

static bool read_cie(struct fde *f, const uint8_t *at)
{
    struct table_reader r = {at, f->hi, at < f->lo || at >= f->hi};
    uint64_t length = read_int_of_bytes(&r, 4);
    if (r.bad || length < 4 || length > (uint64_t)(r.end - r.p))
        return false;
    r.end = r.p + length;
    f->cie_end = r.end;
    if (read_int_of_bytes(&r, 4) != 0)
        return false;
    uint64_t version = read_int_of_bytes(&r, 1);
    const char *augmentation = (const char *)r.p;
    while (!r.bad && read_int_of_bytes(&r, 1))
        ;
    f->code_align = read_uleb128(&r);
    f->data_align = read_sleb128(&r);
    uint64_t ra = version == 1 ? read_int_of_bytes(&r, 1) : read_uleb128(&r);
    if (r.bad || (version != 1 && version != 3) || ra != IPS_REG_PC)
        return false;
    f->cie_at = r.p;
    if (*augmentation == '\0')
        return true;
    if (*augmentation++ != 'z')
        return false;
    f->augmented = true;
    uint64_t bytes = read_uleb128(&r);
    if (r.bad || bytes > (uint64_t)(r.end - r.p))
        return false;
    f->cie_at = r.p + bytes;
    for (; *augmentation; augmentation++)
        if (*augmentation == 'R')
            f->pointer = (uint8_t)read_int_of_bytes(&r, 1);
        else if (*augmentation == 'P')
            read_encoded_pointer(&r, (uint8_t)read_int_of_bytes(&r, 1), false);
        else if (*augmentation == 'L')
            read_int_of_bytes(&r, 1);
        else if (*augmentation == 'S')
            f->signal_frame = true;
        else
            return false;
    return !r.bad;
}

static bool read_fde_and_check_pc(struct fde *f, const uint8_t *at, uint64_t pc)
{
    struct table_reader r = {at, f->hi, at < f->lo || at >= f->hi};
    uint64_t length = read_int_of_bytes(&r, 4);
    if (r.bad || length < 8 || length > (uint64_t)(r.end - r.p))
        return false;
    r.end = r.p + length;
    f->end = r.end;
    const uint8_t *here = r.p;
    uint64_t back = read_int_of_bytes(&r, 4);
    if (!back || back > (uint64_t)(here - f->lo) || !read_cie(f, here - back))
        return false;
    f->pc_begin = read_encoded_pointer(&r, f->pointer, true);
    f->pc_end = f->pc_begin + read_encoded_pointer(&r, f->pointer, false);
    if (f->augmented) {
        uint64_t bytes = read_uleb128(&r);
        if (r.bad || bytes > (uint64_t)(r.end - r.p))
            return false;
        r.p += bytes;
    }
    f->at = r.p;
    return !r.bad && pc >= f->pc_begin && pc < f->pc_end;
}

struct fde_table_entry { /* entry of the search table: a function and its FDE,
                            as offsets from the header */
    int32_t pc, fde;
};

bool ips_unwind_find_fde(struct fde *f, uint64_t pc)
{
    struct dl_find_object found;
    if (!_dl_find_object || _dl_find_object((void *)pc, &found) != 0 ||
        !found.dlfo_eh_frame)
        return false;
    *f = (struct fde){.lo = found.dlfo_map_start, .hi = found.dlfo_map_end};
    const uint8_t *header = found.dlfo_eh_frame;
    /* The encodings that every linker writes: version 1; pointer sdata4 pcrel,
     * count udata4, table sdata4 datarel. */
    static const uint8_t usual[4] = {1, 0x1b, 0x03, 0x3b};
    if (header < f->lo || f->hi - header < 12 || memcmp(header, usual, 4) != 0)
        return false;
    uint32_t count;
    memcpy(&count, header + 8, sizeof(count));
    const struct fde_table_entry *table =
        (const struct fde_table_entry *)(const void *)(header + 12);
    if (!count || count > (size_t)(f->hi - (header + 12)) / sizeof(*table))
        return false;
    int64_t key = (int64_t)(pc - (uint64_t)(uintptr_t)header);
    /* Invariant: table[low].pc <= key, if any entry has pc <= key. */
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (table[middle].pc <= key)
            low = middle;
        else
            high = middle;
    }
    return table[low].pc <= key &&
           read_fde_and_check_pc(f, header + table[low].fde, pc);
}
#endif
