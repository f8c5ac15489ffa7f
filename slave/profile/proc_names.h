/*
 * Gives numbers to the procedures (or source lines) at the code locations of a
 * run. A location has several, innermost first, if the compiler inlined one
 * procedure into another. Pure; texts are borrowed from the profile cache.
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
    /* procedures (or lines); no two are equal */
    struct slave_proc_symbol *symbols;
    uint32_t symbol_count, symbol_capacity;
    /* [locations + 1] start of each location's symbols in `of` */
    uint32_t *first;
    uint32_t *of; /* symbol numbers of all locations, innermost first */
    uint32_t of_count, of_capacity;
};

/* Gives numbers to the procedures, or source lines, of the code locations in
 * `costs`, which must outlive *out. O(locations). */
int slave_proc_names_number_procedures(const struct slave_profile_cache *costs,
                                       enum slave_proc_by by,
                                       struct slave_proc_names *out,
                                       struct ips_err *err) IPS_MUST_USE;
void slave_proc_names_release(struct slave_proc_names *n);

/* slave_proc_of_sampled_location: the procedure whose self time includes a
 * sample at this location. slave_proc_of_entered_location: the procedure that
 * was entered at this location; an entry's address is that of the outermost
 * procedure, not of one inlined at its start. IPS_NONE: none. */
static inline uint32_t
slave_proc_of_sampled_location(const struct slave_proc_names *n, uint32_t place)
{
    uint32_t first = n->first[place];
    return first < n->first[place + 1] ? n->of[first] : IPS_NONE;
}
static inline uint32_t
slave_proc_of_entered_location(const struct slave_proc_names *n, uint32_t place)
{
    uint32_t end = n->first[place + 1];
    return n->first[place] < end ? n->of[end - 1] : IPS_NONE;
}

#endif
