/*
 * The shares of the path: its pieces summed by machine, by process, by thread,
 * by message pair, and by the thread that waited for something not recorded;
 * also whether these sums keep their order in every scenario. Pure.
 *
 * The first three lists (machine, process, thread) count the computing on the
 * path, the last two (message, outside) the pieces between the computing. The
 * sum of any of the first three plus the sums of the last two is t_max,
 * exactly. Source: ALGORITHMS 4 "Shares", DESIGN "The certificate".
 */
#ifndef IPS_MASTER_PATH_SHARES_H
#define IPS_MASTER_PATH_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct path_thread {  /* identifies a thread */
    uint32_t machine; /* index of the machine in order of names */
    uint32_t process; /* index in the machine's table of processes */
    uint32_t tid;
};

/* A piece of the path; it starts where the previous piece ends. Node numbers
 * run through all machines. A path may have as many pieces as the run has
 * events, so this struct is small. */
struct path_piece {
    uint8_t kind;  /* values of enum ips_segment_kind */
    uint8_t xkind; /* values of enum ips_xkind */
    /* set with a window, for pieces without arcs that end outside the window:
     * `messages` and `resources` do not count them */
    bool elsewhere;
    struct path_thread at; /* thread of the node `to` */
    /* `from` IPS_NO_NODE: the piece starts before the chain's first node */
    uint32_t from, to;
    uint64_t ns;
};

enum share_list {
    SHARE_MACHINE,
    SHARE_PROCESS,
    SHARE_THREAD,
    SHARE_MESSAGE,
    SHARE_OUTSIDE,
    SHARE_LISTS
};

/* `b` of an outside share: the other side was not recorded. */
#define SHARE_EXTERNAL UINT64_MAX
#define SHARE_IDLE (UINT64_MAX - 1)
/* `b` of machine and process shares; for threads `b` is the tid. */
#define SHARE_NONE 0

struct share_row {
    /* keys; a: machine index << 32, plus the process except for machines */
    uint64_t a, b;
    uint64_t ns, count;
    uint32_t rank;
    /* The members below are set by shares_compare(). */
    bool stable;
    uint64_t ns_low, ns_high;
};
struct shares {
    struct share_row *row[SHARE_LISTS]; /* rows of each list, largest first */
    size_t count[SHARE_LISTS];
    uint64_t messages; /* number of DATA arcs on the path */
    uint64_t
        resources; /* number of RESOURCE arcs on the path: locks and the like */
    /* The members below are used only while pieces are added. */
    /* the thread in which the last piece ended; before the first piece: the
     * thread in which the path starts */
    struct path_thread at;
    size_t capacity[SHARE_LISTS];
};

/* Adds `count` pieces with `p->ns` in total, which follow a piece that ended in
 * thread `before`. Either all of them have a weight or none. The calls may come
 * in any order. O(1). */
int shares_add_pieces(struct shares *s, const struct path_piece *p,
                      struct path_thread before, uint64_t count,
                      struct ips_err *err) IPS_MUST_USE;
/* Adds the next piece of the path. Before the first piece the caller sets only
 * s->at. O(1). */
int shares_add_next_piece(struct shares *s, const struct path_piece *p,
                          struct ips_err *err) IPS_MUST_USE;
/* To be called after the last piece: makes the lists; on failure releases them.
 * IPS_E_CORRUPT: the sums are not t_max, which is a bug in IPS. */
int shares_finish(struct shares *s, uint64_t t_max,
                  struct ips_err *err) IPS_MUST_USE;
void shares_release(struct shares *s);

/* Computes the ranges and the stability of `main` over the scenarios (`main`
 * need not be one of them). same_order[i]: every list has the same order in
 * scenario i as in `main`. */
void shares_compare(struct shares *main, struct shares *const *scenarios,
                    size_t scenario_count, bool *same_order);

#endif
