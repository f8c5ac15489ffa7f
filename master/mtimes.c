#include "master/mtimes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/message.h"

#define HEAD "ips-message-times 1"

static const char *const overs[] = {"tcp", "unix"};

const char *mtime_over_name(enum mtime_over over)
{
    return overs[over];
}

/* ---- the table ---------------------------------------------------------- */

static void clear(struct mtimes *t)
{
    for (uint32_t i = 0; i < t->count; i++)
        free(t->pair[i]);
    free(t->pair);
    t->pair = NULL;
    t->count = 0;
}

void mtimes_release(struct mtimes *t)
{
    clear(t);
    memset(t, 0, sizeof(*t));
}

static int compare(const struct mtime_pair *a, const char *from, const char *to,
                   enum mtime_over over)
{
    int by = strcmp(a->from, from);
    if (by == 0)
        by = strcmp(a->to, to);
    return by ? by : (int)a->over - (int)over;
}

/* Where such a pair is, or would be. */
static uint32_t place(const struct mtimes *t, const char *from, const char *to,
                      enum mtime_over over)
{
    uint32_t low = 0, high = t->count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (compare(t->pair[mid], from, to, over) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct mtime_pair *mtimes_find(const struct mtimes *t, const char *from,
                               const char *to, enum mtime_over over)
{
    uint32_t at = place(t, from, to, over);
    if (at < t->count && compare(t->pair[at], from, to, over) == 0)
        return t->pair[at];
    return NULL;
}

static int make_curve(struct mtime_pair *p, struct ips_err *err)
{
    uint64_t bytes[IPS_CURVE_POINTS], ns[IPS_CURVE_POINTS];
    for (uint32_t i = 0; i < p->count && i < IPS_CURVE_POINTS; i++) {
        bytes[i] = p->point[i].bytes;
        ns[i] = p->point[i].ns;
    }
    return ips_curve_make(bytes, ns, p->count, &p->curve, err);
}

int mtimes_put(struct mtimes *t, const struct mtime_pair *pair,
               struct ips_err *err)
{
    struct mtime_pair *copy = malloc(sizeof(*copy));
    if (!copy)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    *copy = *pair;
    int rc = make_curve(copy, err);
    uint32_t at = place(t, pair->from, pair->to, pair->over);
    if (rc == 0 && at < t->count &&
        compare(t->pair[at], pair->from, pair->to, pair->over) == 0) {
        free(t->pair[at]);
        t->pair[at] = copy;
        return 0;
    }
    struct mtime_pair **more = NULL;
    if (rc == 0 && t->count >= MTIMES_PAIRS_MAX)
        rc = ips_err_set(err, IPS_E_LIMIT, "more than %u pairs",
                         MTIMES_PAIRS_MAX);
    if (rc == 0 &&
        !(more = realloc(t->pair, ((size_t)t->count + 1) * sizeof(*more))))
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    if (rc < 0) {
        free(copy);
        return rc;
    }
    t->pair = more;
    memmove(more + at + 1, more + at, (t->count - at) * sizeof(*more));
    more[at] = copy;
    t->count++;
    return 0;
}

uint32_t mtimes_forget(struct mtimes *t, const char *machine)
{
    uint32_t kept = 0, all = t->count;
    for (uint32_t i = 0; i < all; i++) {
        struct mtime_pair *p = t->pair[i];
        if (!machine || strcmp(p->from, machine) == 0 ||
            strcmp(p->to, machine) == 0)
            free(p);
        else
            t->pair[kept++] = p;
    }
    t->count = kept;
    return all - kept;
}

const struct mtime_pair *mtimes_choose(const struct mtimes *t, const char *from,
                                       const char *to, enum mtime_over over)
{
    bool inside = strcmp(from, to) == 0;
    const struct mtime_pair *p = mtimes_find(t, from, to, over);
    if (!p)
        p = mtimes_find(t, to, from, over);
    /* Of a machine's two kinds the other is nearer than another machine. */
    if (!p && inside)
        p = mtimes_find(t, from, to,
                        over == MTIME_TCP ? MTIME_UNIX : MTIME_TCP);
    for (uint32_t i = 0; i < t->count && !p; i++) {
        const struct mtime_pair *o = t->pair[i];
        if (o->over == over && mtime_pair_is(o, o->from, o->from) == inside)
            p = o;
    }
    return p;
}

/* ---- text --------------------------------------------------------------- */

struct reader {
    struct mtimes *t;
    const char *name;
    unsigned line;
    struct mtime_pair now;
    bool open; /* `now` has a `pair` line, which was: */
    unsigned open_line;
    bool headed;
};

static int wrong(const struct reader *r, struct ips_err *err, const char *what,
                 const char *cure)
{
    return ips_err_set(err, IPS_E_USAGE, "%.300s: line %u: %.200s; %.200s",
                       r->name, r->line, what, cure);
}

static int close_pair(struct reader *r, struct ips_err *err)
{
    struct ips_err why = {0};
    if (!r->open)
        return 0;
    r->open = false;
    if (mtimes_put(r->t, &r->now, &why) == 0)
        return 0;
    r->line = r->open_line;
    return wrong(r, err, why.msg,
                 "give the pair points with lengths of their own, or remove "
                 "it");
}

static int read_pair(struct reader *r, char *words, struct ips_err *err)
{
    static const char form[] = "write `pair FROM TO tcp|unix DATE`, as in "
                               "`pair m1 m2 tcp 2026-11-22T07:30:00Z`";
    struct mtime_pair *p = &r->now;
    char *save, *from = strtok_r(words, " \t", &save);
    char *to = strtok_r(NULL, " \t", &save);
    char *over = strtok_r(NULL, " \t", &save);
    char *date = strtok_r(NULL, " \t", &save);
    char *by = strtok_r(NULL, "", &save);
    memset(p, 0, sizeof(*p));
    if (!date)
        return wrong(r, err, "a pair with too few words", form);
    if (!roster_name_ok(from) || !roster_name_ok(to))
        return wrong(r, err, "that is no machine's name", form);
    while (p->over < 2 && strcmp(over, overs[p->over]) != 0)
        p->over++;
    if (p->over == 2)
        return wrong(r, err, "a way of messages that is neither tcp nor unix",
                     form);
    if (p->over == MTIME_UNIX && strcmp(from, to) != 0)
        return wrong(r, err, "unix between two machines",
                     "only inside a machine there is unix");
    if (strlen(date) >= sizeof(p->measured))
        return wrong(r, err, "a date that is too long", form);
    snprintf(p->from, sizeof(p->from), "%s", from);
    snprintf(p->to, sizeof(p->to), "%s", to);
    snprintf(p->measured, sizeof(p->measured), "%s", date);
    snprintf(p->by, sizeof(p->by), "%.63s", by ? by : "");
    if (mtimes_find(r->t, p->from, p->to, p->over))
        return wrong(r, err, "this pair comes twice", "remove one of the two");
    r->open = true;
    r->open_line = r->line;
    return 0;
}

static bool number(char **words, uint64_t *out)
{
    char *text = strtok_r(NULL, " \t", words), *end = NULL;
    *out = IPS_UNMEASURED;
    if (!text)
        return true; /* the caller knows which must be there */
    errno = 0;
    if (*text < '0' || *text > '9')
        return strcmp(text, "-") == 0;
    unsigned long long n = strtoull(text, &end, 10);
    *out = n;
    return !*end && errno == 0 && n < IPS_UNMEASURED;
}

static int read_point(struct reader *r, char *words, struct ips_err *err)
{
    static const char form[] =
        "write `point BYTES NS` in whole bytes and nanoseconds, and if you "
        "like LOW HIGH ROUNDS behind";
    struct mtime_pair *p = &r->now;
    struct mtime_point point;
    uint64_t rounds;
    char *save = words;
    words[strcspn(words, "#")] = '\0';
    bool fine = number(&save, &point.bytes) && number(&save, &point.ns) &&
                number(&save, &point.low_ns) && number(&save, &point.high_ns) &&
                number(&save, &rounds);
    if (!r->open)
        return wrong(r, err, "a point before any pair",
                     "put `pair FROM TO tcp DATE` before it");
    if (!fine || point.bytes == IPS_UNMEASURED || point.ns == IPS_UNMEASURED ||
        strtok_r(NULL, " \t", &save))
        return wrong(r, err, "a point that is not two to five numbers", form);
    if (p->count == IPS_CURVE_POINTS)
        return wrong(r, err, "a pair of more than 64 points",
                     "remove some of them");
    point.rounds = rounds < UINT32_MAX ? (uint32_t)rounds : 0;
    p->point[p->count++] = point;
    return 0;
}

static int read_line(struct reader *r, char *line, struct ips_err *err)
{
    line[strcspn(line, "\r")] = '\0';
    size_t skip = strspn(line, " \t");
    char *word = line + skip, *rest = word + strcspn(word, " \t");
    if (!*word || *word == '#')
        return 0;
    if (!r->headed) {
        size_t len = strlen(word);
        while (len && (word[len - 1] == ' ' || word[len - 1] == '\t'))
            word[--len] = '\0';
        r->headed = strcmp(word, HEAD) == 0;
        return r->headed ? 0
                         : wrong(r, err, "no table of message times",
                                 "begin it with the line `" HEAD "`");
    }
    if (*rest)
        *rest++ = '\0';
    int rc = 0;
    if (strcmp(word, "point") == 0)
        return read_point(r, rest, err);
    rc = close_pair(r, err);
    if (rc < 0)
        return rc;
    if (strcmp(word, "pair") == 0)
        return read_pair(r, rest, err);
    return wrong(r, err, "neither `pair` nor `point`",
                 "put # before what is a remark");
}

/* All of `from`'s pairs into `t`, which has room for them or is as it was. */
static int adopt(struct mtimes *t, struct mtimes *from, struct ips_err *err)
{
    size_t most = (size_t)t->count + from->count + 1;
    struct mtime_pair **room = realloc(t->pair, most * sizeof(*room));
    if (!room)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    t->pair = room;
    for (uint32_t i = 0; i < from->count; i++) {
        struct mtime_pair *p = from->pair[i];
        uint32_t at = place(t, p->from, p->to, p->over);
        if (at < t->count &&
            compare(t->pair[at], p->from, p->to, p->over) == 0) {
            free(t->pair[at]);
        } else {
            memmove(room + at + 1, room + at, (t->count - at) * sizeof(*room));
            t->count++;
        }
        room[at] = p;
    }
    from->count = 0;
    return 0;
}

int mtimes_parse(struct mtimes *t, const char *name, const char *text,
                 struct ips_err *err)
{
    struct mtimes fresh = {0};
    struct reader r = {.t = &fresh, .name = name};
    int rc = 0;
    while (*text && rc == 0) {
        char line[512];
        size_t len = strcspn(text, "\n");
        r.line++;
        if (len >= sizeof(line)) {
            rc = wrong(&r, err, "a line of more than 511 characters",
                       "shorten it");
            break;
        }
        memcpy(line, text, len);
        line[len] = '\0';
        text += len + (text[len] == '\n');
        rc = read_line(&r, line, err);
    }
    if (rc == 0)
        rc = close_pair(&r, err);
    if (rc == 0 && !r.headed)
        rc = wrong(&r, err, "an empty file",
                   "begin it with the line `" HEAD "`");
    if (rc == 0)
        rc = adopt(t, &fresh, err);
    clear(&fresh);
    return rc;
}

static void put_number(FILE *f, uint64_t n)
{
    if (n == IPS_UNMEASURED)
        fputs(" -", f);
    else
        fprintf(f, " %" PRIu64, n);
}

char *mtimes_text(const struct mtimes *t)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    if (!f)
        return NULL;
    fputs(HEAD "\n"
               "# How long messages take: half round trips less the CPU of "
               "both ends.\n"
               "# pair FROM TO tcp|unix MEASURED BY\n"
               "# point BYTES NS LOW HIGH ROUNDS   (a tenth of the rounds took "
               "less than LOW,\n"
               "#                                   a tenth more than HIGH)\n",
          f);
    for (uint32_t i = 0; i < t->count; i++) {
        const struct mtime_pair *p = t->pair[i];
        fprintf(f, "\npair %s %s %s %s%s%s\n", p->from, p->to, overs[p->over],
                p->measured, *p->by ? " " : "", p->by);
        for (uint32_t k = 0; k < p->count; k++) {
            fprintf(f, "point %" PRIu64 " %" PRIu64, p->point[k].bytes,
                    p->point[k].ns);
            put_number(f, p->point[k].low_ns);
            put_number(f, p->point[k].high_ns);
            if (p->point[k].rounds)
                fprintf(f, " %u", p->point[k].rounds);
            fputc('\n', f);
        }
    }
    bool failed = ferror(f) != 0;
    if (fclose(f) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- the file ----------------------------------------------------------- */

void mtimes_open(struct mtimes *t, const char *dir)
{
    memset(t, 0, sizeof(*t));
    snprintf(t->path, sizeof(t->path), "%s/message-times", dir);
}

static void remember(struct mtimes *t, const struct stat *st)
{
    t->seen = st->st_mtim;
    t->seen_bytes = st->st_size;
    t->seen_inode = (long long)st->st_ino;
}

static int read_all(int fd, char **out, struct ips_err *err)
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

int mtimes_load(struct mtimes *t, struct ips_err *err)
{
    struct stat st;
    int fd = open(t->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0) {
        clear(t);
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
        clear(t);
        memset(&t->broken, 0, sizeof(t->broken));
        remember(t, &st);
        int rc = read_all(fd, &text, &t->broken);
        if (rc == 0)
            rc = mtimes_parse(t, t->path, text, &t->broken);
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

static int write_all(int fd, const char *text, struct ips_err *err)
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

int mtimes_save(struct mtimes *t, struct ips_err *err)
{
    char fresh[sizeof(t->path) + 8];
    struct stat st;
    char *text = mtimes_text(t);
    if (!text)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    snprintf(fresh, sizeof(fresh), "%s.new", t->path);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int rc = fd < 0 ? ips_err_errno(err, "open") : write_all(fd, text, err);
    if (rc == 0 && fstat(fd, &st) == 0)
        remember(t, &st);
    if (fd >= 0)
        close(fd);
    if (rc == 0 && rename(fresh, t->path) < 0)
        rc = ips_err_errno(err, "rename");
    if (rc == 0)
        memset(&t->broken, 0, sizeof(t->broken));
    else
        ips_err_wrap(err, "%s", t->path);
    free(text);
    return rc;
}
