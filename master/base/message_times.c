#include "master/base/message_times.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/message.h"

static const char *const overs[] = {"tcp", "unix"};

const char *message_time_transport_name(enum message_time_transport over)
{
    return overs[over];
}

/* ---- the table in memory ------------------------------------------------ */

static void clear_table(struct message_times *t)
{
    for (uint32_t i = 0; i < t->count; i++)
        free(t->pair[i]);
    free(t->pair);
    free(t->wake);
    t->pair = NULL;
    t->wake = NULL;
    t->count = t->wake_count = 0;
}

void message_times_release(struct message_times *t)
{
    clear_table(t);
    memset(t, 0, sizeof(*t));
}

static int compare_pair_with_key(const struct message_time_pair *a,
                                 const char *from, const char *to,
                                 enum message_time_transport over)
{
    int by = strcmp(a->from, from);
    if (by == 0)
        by = strcmp(a->to, to);
    return by ? by : (int)a->over - (int)over;
}

/* The index of the pair with this key, or where it would be inserted. */
static uint32_t find_position_of_pair(const struct message_times *t,
                                      const char *from, const char *to,
                                      enum message_time_transport over)
{
    uint32_t low = 0, high = t->count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (compare_pair_with_key(t->pair[mid], from, to, over) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct message_time_pair *
message_times_find_pair(const struct message_times *t, const char *from,
                        const char *to, enum message_time_transport over)
{
    uint32_t at = find_position_of_pair(t, from, to, over);
    if (at < t->count &&
        compare_pair_with_key(t->pair[at], from, to, over) == 0)
        return t->pair[at];
    return NULL;
}

static int make_pair_curves(struct message_time_pair *p, struct ips_err *err)
{
    uint64_t bytes[IPS_CURVE_POINTS], ns[IPS_CURVE_POINTS];
    for (uint32_t i = 0; i < p->count && i < IPS_CURVE_POINTS; i++) {
        bytes[i] = p->point[i].bytes;
        ns[i] = p->point[i].ns;
    }
    int rc = ips_curve_build_from_points(bytes, ns, p->count, &p->curve, err);
    uint32_t known = 0;
    for (uint32_t i = 0; i < p->count && i < IPS_CURVE_POINTS; i++) {
        if (p->point[i].cpu_ns == 0)
            continue;
        bytes[known] = p->point[i].bytes;
        ns[known++] = p->point[i].cpu_ns;
    }
    p->cpu = (struct ips_curve){.count = 0};
    return rc == 0 && known
               ? ips_curve_build_from_points(bytes, ns, known, &p->cpu, err)
               : rc;
}

/* Inserts `p`, or replaces the pair with the same key. Capacity must be
 * reserved (reserve_message_time_rows); the table takes ownership. */
static void insert_or_replace_pair(struct message_times *t,
                                   struct message_time_pair *p)
{
    uint32_t at = find_position_of_pair(t, p->from, p->to, p->over);
    if (at < t->count &&
        compare_pair_with_key(t->pair[at], p->from, p->to, p->over) == 0) {
        free(t->pair[at]);
    } else {
        memmove(t->pair + at + 1, t->pair + at,
                (t->count - at) * sizeof(struct message_time_pair *));
        t->count++;
    }
    t->pair[at] = p;
}

static void insert_or_replace_wake(struct message_times *t,
                                   const struct message_time_wake *w)
{
    uint32_t at = 0;
    while (at < t->wake_count && strcmp(t->wake[at].machine, w->machine) < 0)
        at++;
    if (at == t->wake_count || strcmp(t->wake[at].machine, w->machine) != 0) {
        memmove(t->wake + at + 1, t->wake + at,
                (t->wake_count - at) * sizeof(*t->wake));
        t->wake_count++;
    }
    t->wake[at] = *w;
}

/* Reserves capacity for `pairs` more pairs and `wakes` more wake rows. */
static int reserve_message_time_rows(struct message_times *t, uint32_t pairs,
                                     uint32_t wakes, struct ips_err *err)
{
    void *room =
        realloc(t->pair, ((size_t)t->count + pairs + 1) * sizeof(*t->pair));
    if (room)
        t->pair = room;
    void *more = realloc(t->wake, ((size_t)t->wake_count + wakes + 1) *
                                      sizeof(*t->wake));
    if (more)
        t->wake = more;
    return room && more ? 0 : ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
}

int message_times_insert_or_replace_pair(struct message_times *t,
                                         const struct message_time_pair *pair,
                                         struct ips_err *err)
{
    struct message_time_pair *copy = malloc(sizeof(*copy));
    if (!copy)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    *copy = *pair;
    int rc = make_pair_curves(copy, err);
    if (rc == 0 && t->count >= MTIMES_PAIRS_MAX &&
        !message_times_find_pair(t, pair->from, pair->to, pair->over))
        rc = ips_err_set(err, IPS_E_LIMIT, "more than %u pairs",
                         MTIMES_PAIRS_MAX);
    if (rc == 0)
        rc = reserve_message_time_rows(t, 1, 0, err);
    if (rc == 0)
        insert_or_replace_pair(t, copy);
    else
        free(copy);
    return rc;
}

int message_times_insert_or_replace_wake(struct message_times *t,
                                         const struct message_time_wake *wake,
                                         struct ips_err *err)
{
    int rc = reserve_message_time_rows(t, 0, 1, err);
    if (rc == 0)
        insert_or_replace_wake(t, wake);
    return rc;
}

const struct message_time_wake *
message_times_find_wake(const struct message_times *t, const char *machine)
{
    for (uint32_t i = 0; i < t->wake_count; i++) {
        if (strcmp(t->wake[i].machine, machine) == 0)
            return &t->wake[i];
    }
    return NULL;
}

int message_times_move_rows(struct message_times *t, struct message_times *from,
                            struct ips_err *err)
{
    uint64_t count = t->count;
    for (uint32_t i = 0; i < from->count; i++) {
        const struct message_time_pair *p = from->pair[i];
        count += message_times_find_pair(t, p->from, p->to, p->over) == NULL;
    }
    if (count > MTIMES_PAIRS_MAX)
        return ips_err_set(err, IPS_E_LIMIT, "more than %u pairs",
                           MTIMES_PAIRS_MAX);
    if (reserve_message_time_rows(t, from->count, from->wake_count, err) < 0)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < from->count; i++)
        insert_or_replace_pair(t, from->pair[i]);
    from->count = 0;
    for (uint32_t i = 0; i < from->wake_count; i++)
        insert_or_replace_wake(t, &from->wake[i]);
    from->wake_count = 0;
    return 0;
}

bool message_times_remove_pair(struct message_times *t, const char *from,
                               const char *to, enum message_time_transport over)
{
    uint32_t at = find_position_of_pair(t, from, to, over);
    if (at == t->count ||
        compare_pair_with_key(t->pair[at], from, to, over) != 0)
        return false;
    free(t->pair[at]);
    t->count--;
    memmove(t->pair + at, t->pair + at + 1,
            (t->count - at) * sizeof(struct message_time_pair *));
    return true;
}

uint32_t message_times_remove_rows_of_machine_or_all(struct message_times *t,
                                                     const char *machine)
{
    uint32_t kept = 0, all = t->count;
    for (uint32_t i = 0; i < all; i++) {
        struct message_time_pair *p = t->pair[i];
        if (!machine || strcmp(p->from, machine) == 0 ||
            strcmp(p->to, machine) == 0)
            free(p);
        else
            t->pair[kept++] = p;
    }
    t->count = kept;
    uint32_t removed = all - kept;
    kept = 0;
    for (uint32_t i = 0; i < t->wake_count; i++) {
        if (machine && strcmp(t->wake[i].machine, machine) != 0)
            t->wake[kept++] = t->wake[i];
        else
            removed++;
    }
    t->wake_count = kept;
    return removed;
}

const struct message_time_pair *
message_times_find_pair_or_substitute(const struct message_times *t,
                                      const char *from, const char *to,
                                      enum message_time_transport over)
{
    bool inside = strcmp(from, to) == 0;
    const struct message_time_pair *p =
        message_times_find_pair(t, from, to, over);
    if (!p)
        p = message_times_find_pair(t, to, from, over);
    /* Within a machine, its other kind of connection is a better estimate than
     * the times of another machine. */
    if (!p && inside)
        p = message_times_find_pair(t, from, to,
                                    over == MTIME_TCP ? MTIME_UNIX : MTIME_TCP);
    for (uint32_t i = 0; i < t->count && !p; i++) {
        const struct message_time_pair *o = t->pair[i];
        if (o->over == over &&
            message_time_pair_is_between(o, o->from, o->from) == inside)
            p = o;
    }
    return p;
}

/* ---- reading and writing the file --------------------------------------- */

void message_times_init_for_directory(struct message_times *t, const char *dir)
{
    memset(t, 0, sizeof(*t));
    snprintf(t->path, sizeof(t->path), "%s/message-times", dir);
}

static void remember_file_version(struct message_times *t,
                                  const struct stat *st)
{
    t->seen = st->st_mtim;
    t->seen_bytes = st->st_size;
    t->seen_inode = (long long)st->st_ino;
}

static int read_table_file(int fd, char **out, struct ips_err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return ips_err_errno(err, "message times");
    if (st.st_size > MTIMES_TEXT_MAX)
        return ips_err_set(err, IPS_E_LIMIT, "a file of %lld bytes",
                           (long long)st.st_size);
    char *text = malloc((size_t)st.st_size + 1);
    size_t at = 0;
    ssize_t n = 1;
    if (!text)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    while (at < (size_t)st.st_size && n > 0) {
        n = read(fd, text + at, (size_t)st.st_size - at);
        at += n > 0 ? (size_t)n : 0;
    }
    text[at] = '\0';
    *out = text;
    return n < 0 ? ips_err_errno(err, "message times") : 0;
}

int message_times_reload_if_changed(struct message_times *t,
                                    struct ips_err *err)
{
    struct stat st;
    int fd = open(t->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0) {
        clear_table(t);
        memset(&t->broken, 0, sizeof(t->broken));
        t->seen_inode = 0;
        int rc = errno == ENOENT ? 0 : ips_err_errno(err, "%s", t->path);
        if (fd >= 0)
            close(fd);
        return rc;
    }
    bool same = t->seen_inode == (long long)st.st_ino &&
                t->seen_bytes == st.st_size &&
                t->seen.tv_sec == st.st_mtim.tv_sec &&
                t->seen.tv_nsec == st.st_mtim.tv_nsec;
    if (!same) {
        char *text = NULL;
        clear_table(t);
        memset(&t->broken, 0, sizeof(t->broken));
        remember_file_version(t, &st);
        int rc = read_table_file(fd, &text, &t->broken);
        if (rc == 0)
            rc = message_times_parse(t, t->path, text, &t->broken);
        t->broken.code = rc;
        free(text);
    }
    close(fd);
    if (t->broken.code == 0)
        return 0;
    return ips_err_set(err, t->broken.code,
                       "%.700s (or `ipsq calibrate --forget`, or ask with "
                       "--mtime none)",
                       t->broken.msg);
}

static int write_table_text_and_sync(int fd, const char *text,
                                     struct ips_err *err)
{
    size_t left = strlen(text);
    while (left > 0) {
        ssize_t n = write(fd, text, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return ips_err_errno(err, "write");
        text += n;
        left -= (size_t)n;
    }
    return fsync(fd) < 0 ? ips_err_errno(err, "fsync") : 0;
}

int message_times_save(struct message_times *t, struct ips_err *err)
{
    char fresh[sizeof(t->path) + 8];
    struct stat st;
    char *text = message_times_format_text(t);
    if (!text)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    snprintf(fresh, sizeof(fresh), "%s.new", t->path);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int rc = fd < 0 ? ips_err_errno(err, "open")
                    : write_table_text_and_sync(fd, text, err);
    if (rc == 0 && fstat(fd, &st) == 0)
        remember_file_version(t, &st);
    if (fd >= 0)
        close(fd);
    if (rc == 0 && rename(fresh, t->path) < 0)
        rc = ips_err_errno(err, "rename");
    if (rc == 0)
        memset(&t->broken, 0, sizeof(t->broken));
    else
        ips_err_wrap(err, rc, "%s", t->path);
    if (rc < 0 && fd >= 0)
        (void)unlink(fresh);
    free(text);
    return rc;
}
