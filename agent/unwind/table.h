/*
 * Unwind tables of a module (agent/unwind/unwind.h): finds the FDE of a pc. For
 * unwind.c only. Every pointer is checked against the module's mapping. A
 * reader that would read past its end becomes `bad` and returns zeros.
 */
#ifndef IPS_AGENT_UNWIND_TABLE_H
#define IPS_AGENT_UNWIND_TABLE_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(DLFO_STRUCT_HAS_EH_DBASE)
#define IPS_UNWIND_TABLES 1
#else
#define IPS_UNWIND_TABLES 0
#endif

/* The FDE of one pc and its CIE: how to unwind the frame. All pointers are in
 * [lo, hi), the module's mapping. */
struct fde {
    const uint8_t *lo, *hi;
    const uint8_t *cie_at, *cie_end; /* CFI instructions of the CIE */
    const uint8_t *at, *end;         /* CFI instructions of the FDE */
    uint64_t pc_begin, pc_end;
    uint64_t code_align;
    int64_t data_align;
    uint8_t pointer; /* encoding of pointers */
    bool augmented;
    bool signal_frame;
};

struct table_reader {
    const uint8_t *p, *end;
    bool bad;
};

/* Reads an integer of `bytes` bytes, at most 8. Always inlined: `bytes` is a
 * constant, so this becomes one load. */
static inline __attribute__((always_inline)) uint64_t
read_int_of_bytes(struct table_reader *r, unsigned bytes)
{
    uint64_t v = 0;
    if (r->bad || (size_t)(r->end - r->p) < bytes) {
        r->bad = true;
        return 0;
    }
    memcpy(&v, r->p, bytes);
    r->p += bytes;
    return v;
}

static inline uint64_t read_uleb128(struct table_reader *r)
{
    uint64_t v = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint64_t byte = read_int_of_bytes(r, 1);
        if (r->bad || shift > 56) {
            r->bad = true;
            return 0;
        }
        v |= (byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return v;
    }
}

static inline int64_t read_sleb128(struct table_reader *r)
{
    uint64_t v = 0;
    for (unsigned shift = 0;;) {
        uint64_t byte = read_int_of_bytes(r, 1);
        if (r->bad || shift > 56) {
            r->bad = true;
            return 0;
        }
        v |= (byte & 0x7f) << shift;
        shift += 7;
        if (!(byte & 0x80)) {
            if (byte & 0x40)
                v |= ~(uint64_t)0 << shift;
            return (int64_t)v;
        }
    }
}

/* Reads a pointer in encoding `how` (DW_EH_PE_*). `relative`: resolves a
 * pointer that is relative to its own address; else returns the stored value,
 * as for a length. */
static inline uint64_t read_encoded_pointer(struct table_reader *r, uint8_t how,
                                            bool relative)
{
    uint64_t at = (uint64_t)(uintptr_t)r->p, v = 0;
    switch (how & 0xf) {
    case 0x0:
    case 0x4:
    case 0xc:
        v = read_int_of_bytes(r, 8);
        break;
    case 0x3:
        v = read_int_of_bytes(r, 4);
        break;
    case 0xb:
        v = (uint64_t)(int64_t)(int32_t)read_int_of_bytes(r, 4);
        break;
    default:
        r->bad = true;
    }
    if (!relative)
        return v;
    if ((how & 0x70) == 0x10)
        return v + at;
    if (how & 0x70)
        r->bad = true;
    return v;
}

/* Finds the FDE of `pc` and fills *f. Returns false if there is none or its
 * format is not supported. */
bool ips_unwind_find_fde(struct fde *f, uint64_t pc);

#endif
