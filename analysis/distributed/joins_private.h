/* The format that joins.c writes and joins_read.c and joins_solve.c read. */
#ifndef IPS_ANALYSIS_DISTRIBUTED_JOINS_PRIVATE_H
#define IPS_ANALYSIS_DISTRIBUTED_JOINS_PRIVATE_H

#include "analysis/distributed/joins.h"

/* Two special values for the source of an arc; every other value is the number
 * of a join. IPS_JOIN_ZERO: the source depends on no join, so its D (see
 * joins.h) is 0. */
#define IPS_JOIN_ZERO 0xfffffffeu
/* special source: the chain's next remote receive */
#define IPS_JOIN_IN 0xfffffffdu

/* top bit of in_kind (struct ips_joined): the remote receive has no arc */
#define IPS_JOIN_ABSENT 0x80u

enum {
    /* flag: remote sends are encoded with `at`, remote receives with `at` and
       `wait` */
    IPS_JOINS_WALL = 1,
    /* flag: remote sends are encoded with message times in ns (calibrated
       scenario) */
    IPS_JOINS_NS = 2,
    /* flag: only remote sends and receives are encoded, with t_ns */
    IPS_JOINS_MOMENTS = 4,
};

struct ips_joins_head {
    unsigned flags;
    uint64_t total;
    uint32_t ends, chains, joins, ins, outs, candidates;
};

/* The numbers of the remote send encoded last; those of the next send are
 * encoded as differences from them. */
struct ips_joins_last {
    uint32_t end, join;
    uint64_t pos, p, at;
};

/* The numbers of the arc encoded last in each slot (see joins.h) of a chain;
 * those of the slot's next arc are encoded as differences from them. */
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

int ips_joins_overflow_error(struct ips_err *err);

/* ---- reading the joins -------------------------------------------------- */

struct ips_joined_machine {
    struct ips_joins_head head;
    /* number, over all parts, of this part's first chain, join, remote receive
     * and remote send */
    uint32_t chain, join, in, out;
    const uint8_t *at, *end; /* next byte to read, end of the bytes */
    const uint8_t *candidates;
    uint32_t *out_end; /* [ends + 1] first remote send of each channel end,
                          numbered within the part */
    uint32_t *next; /* [ends] for each channel end the remote send found last,
                       numbered within the part */
};

/* Columns of the remote sends that are needed only until all remote receives
 * have found their sends. */
struct ips_joined_outs {
    uint64_t *pos, *xlen, *at;
    uint32_t *len;
};

struct ips_joined_chain { /* a chain's entry in the head of the encoded joins */
    uint64_t bytes;
    uint32_t joins, ins, pid, tid;
};

struct ips_joins_reader {
    const struct ips_machine_joins *machines;
    const struct ips_scenario *scenario;
    struct ips_joined *j;
    struct ips_joined_chain *chain; /* [chain_count] entries of all parts'
                                       chains */
    struct ips_joined_outs outs;
    bool moments; /* true: reads the output of
                     ips_joins_encode_send_receive_times(); false: that of
                     ips_joins_compute_and_encode() */
    ips_message_times_fn *fn;
    void *arg;
    uint32_t *blame;
};

/* Reads everything except the arcs. IPS_E_PROTOCOL, with *blame set, if
 * something is inconsistent. */
int ips_joins_read_except_arcs(struct ips_joins_reader *r, struct ips_err *err);
void ips_joins_reader_release(struct ips_joins_reader *r);
int ips_joins_set_error_and_blame_machine(struct ips_joins_reader *r,
                                          uint32_t part, const char *what,
                                          struct ips_err *err);

#endif
