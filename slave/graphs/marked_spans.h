/*
 * Stretches of a thread's time that the program itself told of: its requests.
 *
 *   marks  ips_mark("begin NAME ...") up to ips_mark("end NAME ...") in the
 * same thread; NAME is one word, what follows it is for people. Where NAME is
 * asked for, a mark "NAME ..." begins one as well, and ends the one before.
 *   tasks  each chain of the API (ips_task_start) of that name, from its START
 *          to its END.
 *
 * What was begun and never ended is counted. Of names within names each is told
 * by itself; one begun again within itself counts from the later begin.
 *
 * A moment is told as a node of its chain, the last that was passed by then,
 * and the ns since. Pure. Source: IPS-13.
 */
#ifndef IPS_SLAVE_GRAPHS_MARKED_SPANS_H
#define IPS_SLAVE_GRAPHS_MARKED_SPANS_H

#include "slave/build/build.h"

#define SLAVE_BRACKET_NAMES 256u
#define SLAVE_BRACKET_NAME_BYTES 128u

enum slave_marked_span_by { SLAVE_BY_MARK, SLAVE_BY_TASK };

struct slave_marked_span {
    uint32_t name; /* of slave_marked_spans.name */
    uint32_t first, last;
    uint64_t first_ns, last_ns; /* since */
};
struct slave_marked_spans { /* by chain, then by the end */
    char name[SLAVE_BRACKET_NAMES][SLAVE_BRACKET_NAME_BYTES];
    uint32_t name_count;
    struct slave_marked_span *row; /* free() */
    uint32_t count;
    uint64_t unended;
};

/* `b` is the build of `in`, with `at`. name "": all. IPS_E_LIMIT: too many
 * names. O(records). */
int slave_marked_spans_make(const struct ips_build_input *in,
                            const struct ips_built *b,
                            enum slave_marked_span_by by, const char *name,
                            struct slave_marked_spans *out,
                            struct ips_err *err) IPS_MUST_USE;
void slave_marked_spans_release(struct slave_marked_spans *r);

#endif
