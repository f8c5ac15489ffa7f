/*
 * The message times that `ipsq calibrate` measured, by ordered pair of machine
 * names (both names are equal for messages within one machine). They are kept
 * in a text file of the state directory that a person can read and edit
 * (STATE/master/message-times, docs/calibrate.md). The file is read again
 * whenever it has changed. It is always written as a whole: to a temporary
 * file that is then renamed.
 *
 *   ips-message-times 1
 *   # a comment
 *   pair FROM TO tcp|unix MEASURED [BY...]
 *   doubt WHY        the pair above is not to be trusted
 *   point BYTES NS [LOW HIGH [ROUNDS [CPU]]]
 *   wake MACHINE NS MEASURED [BY...]   see analysis/graph/message_time.h
 *
 * A malformed file is an error that names the line and what to do; no part of
 * such a file is used.
 *
 * Thread: the event loop's. Source: DPM-3, DRO-2.
 */
#ifndef IPS_MASTER_BASE_MTIMES_H
#define IPS_MASTER_BASE_MTIMES_H

#include <string.h>
#include <time.h>

#include "analysis/graph/message_time.h"
#include "common/paths.h"
#include "master/base/roster.h"

#define MTIMES_PAIRS_MAX 65536u
#define MTIMES_TEXT_MAX (8u << 20)

enum message_time_transport {
    MTIME_TCP = 0, /* TCP: between machines, or over loopback within one */
    MTIME_UNIX,    /* pipes and Unix sockets, within one machine */
};
const char *message_time_transport_name(enum message_time_transport over);

struct message_time_point {
    uint64_t bytes, ns;
    /* a tenth of the round trips gave less than low_ns, a tenth more than
     * high_ns; IPS_UNMEASURED: not known */
    uint64_t low_ns, high_ns;
    uint32_t rounds; /* number of round trips measured; 0: not known */
    /* CPU time of one message, sender and receiver together; 0: not known */
    uint64_t cpu_ns;
};
struct message_time_pair {
    char from[ROSTER_NAME_BYTES], to[ROSTER_NAME_BYTES];
    enum message_time_transport over;
    /* the time of the measurement, as "2026-11-22T07:30:00Z", or other text
     * that a person wrote into the file */
    char measured[32];
    char by[64];
    char doubt[160]; /* why the pair is in doubt; "": it is not */
    uint32_t count;
    struct message_time_point point[IPS_CURVE_POINTS];
    struct ips_curve curve; /* curve through all points */
    /* curve of the CPU time per message, through the points at which it was
     * measured; count 0: no curve */
    struct ips_curve cpu;
};

/* The additional CPU time of a send that wakes a peer on another processor of
 * the same machine. A machine with one processor has no such row. */
struct message_time_wake {
    char machine[ROSTER_NAME_BYTES];
    uint64_t ns;
    char measured[32], by[64];
};

struct message_times {
    struct message_time_pair **pair; /* [count] sorted by from, to, over */
    uint32_t count;
    struct message_time_wake *wake; /* [wake_count] sorted by machine */
    uint32_t wake_count;
    /* the path of the file, set by message_times_init_for_directory */
    char path[IPS_PATH_BYTES + 32];
    /* modification time of the file when it was last read */
    struct timespec seen;
    long long seen_bytes, seen_inode;
    struct ips_err broken; /* error of the file; .code 0: the file is good */
};

void message_times_release(struct message_times *t);
struct message_time_pair *
message_times_find_pair(const struct message_times *t, const char *from,
                        const char *to, enum message_time_transport over);
/* Adds a copy of `pair`, or replaces the pair with the same key (from, to,
 * over), and makes its curves. */
int message_times_insert_or_replace_pair(struct message_times *t,
                                         const struct message_time_pair *pair,
                                         struct ips_err *err) IPS_MUST_USE;
bool message_times_remove_pair(
    struct message_times *t, const char *from, const char *to,
    enum message_time_transport over); /* returns true if the pair existed */
/* Returns the wake row of `machine`; NULL: not measured, or the machine has one
 * processor. */
const struct message_time_wake *
message_times_find_wake(const struct message_times *t, const char *machine);
/* Adds the wake row, or replaces that of the same machine. */
int message_times_insert_or_replace_wake(struct message_times *t,
                                         const struct message_time_wake *wake,
                                         struct ips_err *err) IPS_MUST_USE;
/* Moves all rows of `from` into `t`; on an error it moves none. */
int message_times_move_rows(struct message_times *t, struct message_times *from,
                            struct ips_err *err) IPS_MUST_USE;
/* Removes the pairs whose `from` or `to` is `machine`, and the wake row of
 * `machine`; NULL removes everything. Returns how many were removed. */
uint32_t message_times_remove_rows_of_machine_or_all(struct message_times *t,
                                                     const char *machine);

/* Parses the text of a message-times file and adds its rows; `name` is used in
 * error messages. On an error `t` is unchanged. */
int message_times_parse(struct message_times *t, const char *name,
                        const char *text, struct ips_err *err) IPS_MUST_USE;
/* Returns the table as text, malloc'd; NULL: no memory. */
char *message_times_format_text(const struct message_times *t);

/* Binds `t` to the file in directory `dir`; reads nothing yet. */
void message_times_init_for_directory(struct message_times *t, const char *dir);
/* Reads the file if it has changed since the last read. A damaged file keeps
 * returning its error until someone repairs or replaces it; a missing file is
 * an empty table. */
int message_times_reload_if_changed(struct message_times *t,
                                    struct ips_err *err) IPS_MUST_USE;
int message_times_save(struct message_times *t,
                       struct ips_err *err) IPS_MUST_USE;

/* Returns the pair whose curve is used for messages from `from` to `to` (both
 * may be the same machine). Tries in this order, and takes the first that was
 * measured: the pair itself; the opposite direction; within one machine, its
 * other transport; any pair of the same transport that is likewise within one
 * machine, or between two. NULL: none was measured. */
const struct message_time_pair *
message_times_find_pair_or_substitute(const struct message_times *t,
                                      const char *from, const char *to,
                                      enum message_time_transport over);
static inline bool
message_time_pair_is_between(const struct message_time_pair *p,
                             const char *from, const char *to)
{
    return strcmp(p->from, from) == 0 && strcmp(p->to, to) == 0;
}

#endif
