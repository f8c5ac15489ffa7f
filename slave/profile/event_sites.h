/*
 * Names of the code locations from which events were called, for EventsAsk. The
 * addresses of one reply's rows are collected first and named together, because
 * names may have to be read from files. Runs on the worker thread.
 */
#ifndef IPS_SLAVE_PROFILE_EVENT_SITES_H
#define IPS_SLAVE_PROFILE_EVENT_SITES_H

#include "proto/frame.h"
#include "slave/graphs/graphs.h"

/* maximum number of frames kept of a stack, the innermost ones */
#define SLAVE_SITE_FRAMES 32u
/* maximum number of stacks kept of one stream; a further one replaces the
 * oldest */
#define SLAVE_SITES_KEPT 512u

struct slave_noted_row;
struct slave_recent_stack;
/* State of collecting and naming; must be zeroed before use. `sites`, `stacks`:
 * what the request asks for; if both are false, nothing is collected. */
struct slave_sites {
    bool sites, stacks;
    bool begun;
    struct ips_codemap map;
    struct slave_symbols names;
    struct slave_noted_row *noted;
    uint32_t noted_count, noted_capacity;
    uint32_t *locations;
    uint32_t location_count, location_capacity;
    /* The last recorded stack of each call site, of one stream. A later wait at
     * that site that has no STACK record gets this stack. */
    struct slave_recent_stack *recent;
    uint32_t recent_count, recent_next, recent_stream;
};

/* Makes the map from addresses to code for a run's records, if sites or stacks
 * are wanted. */
int slave_sites_prepare_code_map(struct slave_sites *s,
                                 const struct ips_build_input *in,
                                 struct ips_err *err) IPS_MUST_USE;
void slave_sites_release(struct slave_sites *s);

/* Remembers the row's call site, so that slave_sites_set_code_texts_of_rows()
 * names it. `address`: a return address; 0: unknown, nothing is noted. */
int slave_sites_add_call_site_to_row(struct slave_sites *s, Ips__EventRow *row,
                                     const struct ips_segment_header *head,
                                     uint64_t address, uint64_t t_ns,
                                     struct ips_err *err) IPS_MUST_USE;
/* Handles a STACK record of `len` bytes in stream number `stream`: remembers
 * its stack for `row`, the row of the record before it (NULL: that record is
 * not shown). */
int slave_sites_keep_stack_and_note_for_row(
    struct slave_sites *s, Ips__EventRow *row, uint32_t stream,
    const struct ips_segment_header *head, const uint8_t *record, uint32_t len,
    uint64_t t_ns, struct ips_err *err) IPS_MUST_USE;
/* Remembers, for the row of a wait at `site`, the last stack of that call site
 * in the stream. A later slave_sites_keep_stack_and_note_for_row for the same
 * row replaces it. */
int slave_sites_add_last_stack_to_row(struct slave_sites *s, Ips__EventRow *row,
                                      uint32_t stream, uint64_t site,
                                      struct ips_err *err) IPS_MUST_USE;
/* Names the call sites and stacks of all rows remembered since
 * slave_sites_clear. The rows' texts are valid until the next
 * slave_sites_clear. */
int slave_sites_set_code_texts_of_rows(struct slave_sites *s,
                                       struct slave_graphs *gs,
                                       const struct slave_graph *g,
                                       struct ips_err *err) IPS_MUST_USE;
void slave_sites_drop_remembered_rows(struct slave_sites *s);

/* Returns the text of a code location: "procedure (file.c:12)", "procedure
 * (module)" or "module+0x1f"; malloc'd. */
char *slave_location_format_text(const struct ips_codemap *map,
                                 const struct slave_symbols *names,
                                 uint32_t place);

#endif
