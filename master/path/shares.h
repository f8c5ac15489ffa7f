/*
 * Whose the path is: its pieces summed by machine, process and thread, by
 * message pair and by who waited for what is outside, and whether the order of
 * the sums holds in every scenario. Pure.
 *
 * The first three count what is computed, the others what lies between: each of
 * the three + messages + outside = t_max, exactly.
 * Source: ALGORITHMS 4 "Shares", DESIGN "The certificate".
 */
#ifndef IPS_MASTER_PATH_SHARES_H
#define IPS_MASTER_PATH_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct path_thread {  /* a thread */
    uint32_t machine; /* machine, in order of name */
    uint32_t process; /* index of the part's tables */
    uint32_t tid;
};

/* A piece of the path; it begins where the piece before it ends. Nodes are
 * numbered through all machines. A path may have as many pieces as a run has
 * events, so this is small. */
struct path_piece {
    uint8_t kind;   /* enum ips_segment_kind */
    uint8_t xkind;  /* enum ips_xkind */
    bool elsewhere; /* of a window: it arrives after it, and counts there */
    struct path_thread at; /* of `to` */
    uint32_t from, to;     /* `from` IPS_NO_NODE: it came before the chain */
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

/* `b` of an outside share: nobody traced is on the other side. */
#define SHARE_EXTERNAL UINT64_MAX
#define SHARE_IDLE (UINT64_MAX - 1)
/* `b` of machine and process shares; of threads it is the tid. */
#define SHARE_NONE 0

struct share_row {
    uint64_t a, b; /* part << 32 | process; machines: part << 32 */
    uint64_t ns, count;
    uint32_t rank;
    /* set by shares_compare */
    bool stable;
    uint64_t ns_low, ns_high;
};
struct shares {
    struct share_row *row[SHARE_LISTS]; /* greatest first */
    size_t count[SHARE_LISTS];
    uint64_t messages;  /* DATA arcs */
    uint64_t resources; /* arcs by locks and their like that it crosses */
    /* while pieces are added */
    struct path_thread
        at; /* where the last one ended; first, where the path begins */
    size_t capacity[SHARE_LISTS];
};

/* Adds `count` pieces that follow one that ended at `before`, `p->ns` together;
 * either all of them weigh something or none. In any order. O(1). */
int shares_add_sum(struct shares *s, const struct path_piece *p,
                   struct path_thread before, uint64_t count,
                   struct ips_err *err) IPS_MUST_USE;
/* Adds the next piece of the path to `s`, in which only `at` is set before the
 * first one. O(1). */
int shares_add(struct shares *s, const struct path_piece *p,
               struct ips_err *err) IPS_MUST_USE;
/* All pieces are there: makes the lists, and releases them if it fails.
 * IPS_E_CORRUPT where the sums are not t_max: a bug, said loudly. */
int shares_finish(struct shares *s, uint64_t t_max,
                  struct ips_err *err) IPS_MUST_USE;
void shares_release(struct shares *s);

/* Ranges and stability of `main` over the other scenarios (of which main need
 * not be one); same_order[i]: every list has main's order in scenario i. */
void shares_compare(struct shares *main, struct shares *const *scenarios,
                    size_t scenario_count, bool *same_order);

#endif
