/* What joins.c writes and joins_read.c and joins_solve.c read. */
#ifndef IPS_ANALYSIS_DISTRIBUTED_JOINS_PRIVATE_H
#define IPS_ANALYSIS_DISTRIBUTED_JOINS_PRIVATE_H

#include "analysis/distributed/joins.h"

/* Whose D: */
#define IPS_JOIN_ZERO 0xfffffffeu /* a constant: its D is 0 */
#define IPS_JOIN_IN 0xfffffffdu   /* the chain's next remote in */

#define IPS_JOIN_ABSENT 0x80u /* in in_kind */

enum {
    IPS_JOINS_WALL = 1,    /* `at` of outs, `at` and `wait` of ins */
    IPS_JOINS_NS = 2,      /* of a calibrated scenario: outs say their ns */
    IPS_JOINS_MOMENTS = 4, /* t_ns of outs and ins, nothing else */
};

struct ips_joins_head {
    unsigned flags;
    uint64_t total;
    uint32_t ends, chains, joins, ins, outs, candidates;
};

/* What the next one is a step from. */
struct ips_joins_last {
    uint32_t end, join;
    uint64_t pos, p, at;
};

/* Of a chain whose first join has that number. */
struct ips_join_slots {
    uint64_t add[IPS_JOIN_SLOTS];
    uint32_t source[IPS_JOIN_SLOTS];
};
static inline void ips_join_slots_init(struct ips_join_slots *s,
                                       uint32_t number)
{
    for (uint32_t k = 0; k < IPS_JOIN_SLOTS; k++) {
        s->add[k] = 0;
        s->source[k] = number;
    }
}

int ips_joins_overflow(struct ips_err *err);

/* ---- reading ------------------------------------------------------------- */

struct ips_joined_machine {
    struct ips_joins_head head;
    uint32_t chain, join, in, out; /* the first of this part's */
    const uint8_t *at, *end;       /* what is read next, behind the last */
    const uint8_t *candidates;
    uint32_t *out_end; /* [ends + 1] first out of each end, of the part */
    uint32_t *next;    /* [ends] out that was found last, of the part */
};

/* What is needed of outs only until ins have found them. */
struct ips_joined_outs {
    uint64_t *pos, *xlen, *at;
    uint32_t *len;
};

struct ips_joined_chain { /* as it is told */
    uint64_t bytes;
    uint32_t joins, ins, pid, tid;
};

struct ips_joins_reader {
    const struct ips_machine_joins *machines;
    const struct ips_scenario *scenario;
    struct ips_joined *j;
    struct ips_joined_chain *chain; /* [chain_count] */
    struct ips_joined_outs outs;
    bool moments; /* else joins */
    ips_moment_fn *fn;
    void *arg;
    uint32_t *blame;
};

/* Reads all but the arcs; IPS_E_PROTOCOL, and *blame, for what does not fit. */
int ips_joins_read(struct ips_joins_reader *r, struct ips_err *err);
void ips_joins_reader_release(struct ips_joins_reader *r);
int ips_joins_bad(struct ips_joins_reader *r, uint32_t part, const char *what,
                  struct ips_err *err);

#endif
