/*
 * Spans of a thread's time that the program itself marked: its requests.
 *
 *   marks  ips_mark("begin NAME ...") up to ips_mark("end NAME ...") in the
 *          same thread. NAME is one word; the rest is free text. If a NAME was
 *          asked for, a mark "NAME ..." also ends the current span and begins
 *          a new one.
 *   tasks each task of that name that the program began with ips_task_start(),
 *   from its START to its END record.
 *
 * Spans that never ended are counted. Nested spans of different names are
 * independent; if a name begins again before it ended, the later beginning
 * counts.
 *
 * Start and end of a span are given as the thread's last graph node before that
 * time, plus the ns since that node. Pure (no side effects). Source: IPS-13.
 */
#ifndef IPS_SLAVE_GRAPHS_MARKED_SPANS_H
#define IPS_SLAVE_GRAPHS_MARKED_SPANS_H

#include "slave/build/build.h"

#define SLAVE_MARKED_SPAN_NAMES 256u
#define SLAVE_MARKED_SPAN_NAME_BYTES 128u

enum slave_marked_span_by { SLAVE_BY_MARK, SLAVE_BY_TASK };

struct slave_marked_span {
    uint32_t name; /* name of the span: index into slave_marked_spans.name */
    uint32_t first, last;
    /* ns from the nodes `first` and `last` to the start and end of the span */
    uint64_t first_ns, last_ns;
};
struct slave_marked_spans { /* rows are sorted by chain, then by end */
    char name[SLAVE_MARKED_SPAN_NAMES][SLAVE_MARKED_SPAN_NAME_BYTES];
    uint32_t name_count;
    struct slave_marked_span *row; /* the spans; release with free() */
    uint32_t count;
    uint64_t unended;
};

/* Makes the spans. `b` is the build of `in`; b->g.at must be set. `name` "":
 * all names. IPS_E_LIMIT: too many names. O(records). */
int slave_marked_spans_make(const struct ips_build_input *in,
                            const struct ips_built *b,
                            enum slave_marked_span_by by, const char *name,
                            struct slave_marked_spans *out,
                            struct ips_err *err) IPS_MUST_USE;
void slave_marked_spans_release(struct slave_marked_spans *r);

#endif
