/*
 * A number for a procedure as rows of several machines are put together by:
 * name, file, module and line. Two procedures have the same one by chance
 * alone; who relies on it finds that out (master/procs_first.h). Pure.
 */
#ifndef IPS_COMMON_PROCEDURE_KEY_H
#define IPS_COMMON_PROCEDURE_KEY_H

#include <string.h>

#include "common/types.h"

static inline uint64_t ips_procedure_key(const char *name, size_t name_len,
                                         const char *file, size_t file_len,
                                         const char *module, uint32_t line)
{
    uint64_t h = ips_fnv1a(IPS_FNV_SEED, name, name_len);
    h = ips_fnv1a(h, "", 1);
    h = ips_fnv1a(h, file, file_len);
    h = ips_fnv1a(h, "", 1);
    h = ips_fnv1a(h, module, strlen(module) + 1);
    return ips_fnv1a(h, &line, sizeof(line));
}

#endif
