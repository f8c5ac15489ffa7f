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
    uint8_t kind;  /* a value of enum ips_segment_kind */
    uint8_t xkind; /* a value of enum ips_xkind */
    /* set only with a window, for messages and waits that end outside it:
     * `messages` and `resources` of struct shares do not count them */
    bool elsewhere;
    struct path_thread at; /* thread of the node `to` */
    /* the piece leads from node `from` to node `to`; `from` IPS_NO_NODE: it
     * starts before the chain's first node */
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

/* Values of share_row.b in the list SHARE_OUTSIDE: an external wait, an idle
 * wait. */
#define SHARE_EXTERNAL UINT64_MAX
#define SHARE_IDLE (UINT64_MAX - 1)
/* Value of share_row.b for machines and processes; for threads `b` is the
 * tid. */
#define SHARE_NONE 0

struct share_row {
    /* key of the row. `a`: index of the machine << 32, plus that of the process
     * (except in SHARE_MACHINE); `b` depends on the list */
    uint64_t a, b;
    uint64_t ns, count;
    uint32_t rank;
    /* shares_rank_and_check_sum() initialises the members below;
     * shares_update_stability_by_scenarios() updates them. */
    bool stable;
    uint64_t ns_low, ns_high;
};
struct shares {
    struct share_row *row[SHARE_LISTS]; /* rows of each list, largest first */
    size_t count[SHARE_LISTS];
    uint64_t messages; /* number of messages (DATA arcs) on the path */
    uint64_t
        resources; /* number of RESOURCE arcs on the path: locks and the like */
    /* The members below are used only while pieces are added. */
    /* the thread in which the last piece ended; before the first piece: the
     * thread in which the path starts */
    struct path_thread at;
    size_t capacity[SHARE_LISTS];
};

/* Adds `count` pieces like `p` with `p->ns` in total; before each of them the
 * path was in thread `before`. Either all of them have a weight or none. The
 * calls may come in any order. O(1). */
int shares_add_pieces(struct shares *s, const struct path_piece *p,
                      struct path_thread before, uint64_t count,
                      struct ips_err *err) IPS_MUST_USE;
/* Adds the next piece of the path. Before the first piece the caller sets only
 * s->at. O(1). */
int shares_add_next_piece(struct shares *s, const struct path_piece *p,
                          struct ips_err *err) IPS_MUST_USE;
/* To be called after the last piece: makes the lists; on failure releases them.
 * IPS_E_CORRUPT: the sums are not t_max, which is a bug in IPS. */
int shares_rank_and_check_sum(struct shares *s, uint64_t t_max,
                              struct ips_err *err) IPS_MUST_USE;
void shares_release(struct shares *s);

/* Computes the ranges and the stability of `main` over the scenarios (`main`
 * need not be one of them). same_order[i]: every list has the same order in
 * scenario i as in `main`. */
void shares_update_stability_by_scenarios(struct shares *main,
                                          struct shares *const *scenarios,
                                          size_t scenario_count,
                                          bool *same_order);

#endif
