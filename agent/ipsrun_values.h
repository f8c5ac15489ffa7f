/*
 * The words that options of ipsrun take as values: ipsrun parses them, ipsq
 * completes them. Each list has the order of its enum in agent/format.h.
 */
#ifndef IPS_AGENT_IPSRUN_VALUES_H
#define IPS_AGENT_IPSRUN_VALUES_H

#include <stddef.h>
#include <string.h>

#include "agent/format.h"

/* The values of `option`, named without "--"; NULL at the end. NULL: the option
 * has no fixed set of values. */
static inline const char *const *ipsrun_values(const char *option)
{
    static const char *const procedures[] = {[IPS_PROCEDURES_OFF] = "off",
                                             [IPS_PROCEDURES_SAMPLE] = "sample",
                                             [IPS_PROCEDURES_EXACT] = "exact",
                                             NULL};
    static const char *const on_full[] = {[IPS_ON_FULL_DROP] = "drop",
                                          [IPS_ON_FULL_BLOCK] = "block",
                                          [IPS_ON_FULL_RING] = "ring",
                                          NULL};
    static const char *const cpu[] = {[IPS_CPU_FAST] = "fast",
                                      [IPS_CPU_EXACT] = "exact",
                                      [IPS_CPU_CLOCK] = "clock",
                                      NULL};
    static const char *const locks[] = {
        [IPS_LOCKS_CONTENDED] = "contended", [IPS_LOCKS_ALL] = "all", NULL};
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
