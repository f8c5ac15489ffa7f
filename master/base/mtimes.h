/*
 * The message times that `ipsq calibrate` measured, by ordered pair of machine
 * names (inside a machine: twice the same), in a text file of the state
 * directory that a person can read and edit (STATE/master/message-times,
 * docs/calibrate.md). It is read again whenever it has changed, and written
 * whole: to a file beside it, then renamed.
 *
 *     ips-message-times 1
 *     # anything
 *     pair FROM TO tcp|unix MEASURED [BY...]
 *     doubt WHY                          the pair is not to be trusted
 *     point BYTES NS [LOW HIGH [ROUNDS [CPU]]]
 *     wake MACHINE NS MEASURED [BY...]   see analysis/graph/mtime.h,
 * ips_wake_ns()
 *
 * A file that is not so is an error that names the line and what to do; nothing
 * is taken from it.
 *
 * Thread: the loop's. Source: DPM-3, DRO-2.
 */
#ifndef IPS_MASTER_BASE_MTIMES_H
#define IPS_MASTER_BASE_MTIMES_H

#include <string.h>
#include <time.h>

#include "analysis/graph/mtime.h"
#include "common/paths.h"
#include "master/base/roster.h"

#define MTIMES_PAIRS_MAX 65536u
#define MTIMES_TEXT_MAX (8u << 20)

enum mtime_over {
    MTIME_TCP = 0, /* loopback, inside a machine */
    MTIME_UNIX,    /* inside a machine: pipes and Unix sockets */
};
const char *mtime_over_name(enum mtime_over over);

struct mtime_point {
    uint64_t bytes, ns;
    uint64_t low_ns, high_ns; /* IPS_UNMEASURED: not known */
    uint32_t rounds;          /* 0: not known */
    uint64_t cpu_ns;          /* of both ends, of a message; 0: not known */
};
struct mtime_pair {
    char from[ROSTER_NAME_BYTES], to[ROSTER_NAME_BYTES];
    enum mtime_over over;
    char measured[32]; /* "2026-11-22T07:30:00Z", or as a file says */
    char by[64];
    char doubt[160]; /* "": none */
    uint32_t count;
    struct mtime_point point[IPS_CURVE_POINTS];
    struct ips_curve curve; /* of the points */
    struct ips_curve cpu;   /* of those whose CPU is known; count 0: none */
};

/* What a send costs its CPU more where it wakes a peer on another processor of
 * the machine. None of a machine of one processor. */
struct mtime_wake {
    char machine[ROSTER_NAME_BYTES];
    uint64_t ns;
    char measured[32], by[64];
};

struct mtimes {
    struct mtime_pair **pair; /* [count] by from, to, over */
    uint32_t count;
    struct mtime_wake *wake; /* [wake_count] by machine */
    uint32_t wake_count;
    /* of the file, mtimes_open */
    char path[IPS_PATH_BYTES + 32];
    struct timespec seen; /* as it was when it was read */
    long long seen_bytes, seen_inode;
    struct ips_err broken; /* .code 0: it is fine */
};

void mtimes_release(struct mtimes *t);
struct mtime_pair *mtimes_find(const struct mtimes *t, const char *from,
                               const char *to, enum mtime_over over);
/* Adds a copy; replaces the pair of the same key. Makes its curve. */
int mtimes_put(struct mtimes *t, const struct mtime_pair *pair,
               struct ips_err *err) IPS_MUST_USE;
bool mtimes_remove(struct mtimes *t, const char *from, const char *to,
                   enum mtime_over over); /* true: it was there */
/* Of that machine; NULL: not known, or one processor. */
const struct mtime_wake *mtimes_wake(const struct mtimes *t,
                                     const char *machine);
/* Adds it, or replaces the machine's. */
int mtimes_put_wake(struct mtimes *t, const struct mtime_wake *wake,
                    struct ips_err *err) IPS_MUST_USE;
/* Moves all of `from` there, or nothing. */
int mtimes_adopt(struct mtimes *t, struct mtimes *from,
                 struct ips_err *err) IPS_MUST_USE;
/* Pairs whose from and to are both `machine`, or one of them, and its wake;
 * NULL: all. How many were removed. */
uint32_t mtimes_remove_machine(struct mtimes *t, const char *machine);

/* Adds what a file's text says; `name` is for messages. On an error `t` is as
 * it was. */
int mtimes_parse(struct mtimes *t, const char *name, const char *text,
                 struct ips_err *err) IPS_MUST_USE;
/* malloc'd; NULL: no memory. */
char *mtimes_text(const struct mtimes *t);

/* `t` is of that directory from now on; nothing is read yet. */
void mtimes_open(struct mtimes *t, const char *dir);
/* Reads the file where it has changed since. The error of a damaged file stays
 * until it is mended or replaced; a file that is not there is an empty table.
 */
int mtimes_load(struct mtimes *t, struct ips_err *err) IPS_MUST_USE;
int mtimes_save(struct mtimes *t, struct ips_err *err) IPS_MUST_USE;

/* The curve for messages between two machines, and of which pair it is taken:
 * its own, else the other way round, else some other pair of that kind; NULL:
 * nothing like it was measured. */
const struct mtime_pair *mtimes_choose(const struct mtimes *t, const char *from,
                                       const char *to, enum mtime_over over);
static inline bool mtime_pair_is(const struct mtime_pair *p, const char *from,
                                 const char *to)
{
    return strcmp(p->from, from) == 0 && strcmp(p->to, to) == 0;
}

#endif
