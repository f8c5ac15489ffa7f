/*
 * The words that ipsrun's options take as values: ipsrun parses them, ipsq
 * completes them. Each list is in the order of its enum in agent/pool/format.h;
 * agent/ipsrun/options.c asserts that.
 */
#ifndef IPS_COMMON_IPSRUN_VALUES_H
#define IPS_COMMON_IPSRUN_VALUES_H

#include <stddef.h>
#include <string.h>

/* Returns the values of `option` (its name without "--"), ending with NULL.
 * Returns NULL if the option has no fixed set of values. */
static inline const char *const *ipsrun_values_of_option(const char *option)
{
    static const char *const procedures[] = {"off", "sample", "exact", NULL};
    static const char *const on_full[] = {"drop", "block", "ring", NULL};
    static const char *const cpu[] = {"fast", "exact", "clock", NULL};
    static const char *const locks[] = {"contended", "all", NULL};
    static const char *const run_delay[] = {"on", "off", NULL};
    static const struct {
        const char *option;
        const char *const *values;
    } table[] = {{"procedures", procedures},
                 {"on-full", on_full},
                 {"cpu", cpu},
                 {"locks", locks},
                 {"run-delay", run_delay}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strcmp(option, table[i].option) == 0)
            return table[i].values;
    return NULL;
}

#endif
