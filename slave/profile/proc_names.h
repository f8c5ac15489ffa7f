/*
 * The procedures (or lines) that the places of a code map stand for, as
 * numbers. A place has several where the compiler inlined one procedure into
 * another: innermost first. Pure; texts are borrowed from the costs.
 */
#ifndef IPS_SLAVE_PROFILE_PROC_NAMES_H
#define IPS_SLAVE_PROFILE_PROC_NAMES_H

#include "slave/graphs/graphs.h"

enum slave_proc_by { SLAVE_BY_PROCEDURE, SLAVE_BY_LINE };

struct slave_proc_symbol {
    const char *name, *file, *module;
    uint32_t name_len, file_len, source_line;
};
struct slave_proc_names {
    struct slave_proc_symbol *symbols; /* no two equal */
    uint32_t symbol_count, symbol_capacity;
    uint32_t *first; /* [places + 1]: of its symbols in `of` */
    uint32_t *of;    /* innermost first */
    uint32_t of_count, of_capacity;
};

/* The costs must outlive the names. O(places). */
int slave_proc_names_make(const struct slave_profile_cache *costs,
                          enum slave_proc_by by, struct slave_proc_names *out,
                          struct ips_err *err) IPS_MUST_USE;
void slave_proc_names_release(struct slave_proc_names *n);

/* Whose own time is it that was seen at this place; that was entered there (an
 * entry's address is its procedure's own, not one inlined at its start).
 * IPS_NONE: nobody's. */
static inline uint32_t slave_proc_seen(const struct slave_proc_names *n,
                                       uint32_t place)
{
    uint32_t first = n->first[place];
    return first < n->first[place + 1] ? n->of[first] : IPS_NONE;
}
static inline uint32_t slave_proc_entered(const struct slave_proc_names *n,
                                          uint32_t place)
{
    uint32_t end = n->first[place + 1];
    return n->first[place] < end ? n->of[end - 1] : IPS_NONE;
}

#endif
