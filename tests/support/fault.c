#include "tests/support/fault.h"

#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/types.h"

#define WATCH_MAX 400000u
#define DEPTH 10

enum mode { OFF, WATCHING, ARMED };

_Atomic unsigned fault_pause;

static struct {
    _Atomic unsigned mode;
    unsigned kinds;
    _Atomic uint64_t calls;
    uint64_t nth;
    const char *wanted; /* by its name; NULL: by nth */
    _Atomic bool struck;
    const char *name;
    _Atomic uint64_t clock_ns;
    uint64_t place[WATCH_MAX]; /* of each call that was watched */
} fault;

static _Thread_local bool inside; /* of our own doing */

/* Noted at the first return addresses: what they call is the same. */
static uint64_t place(void)
{
    void *at[DEPTH + 2];
    inside = true;
    int n = backtrace(at, DEPTH + 2);
    inside = false;
    return n > 2
               ? ips_fnv1a(IPS_FNV_SEED, at + 2, (size_t)(n - 2) * sizeof(*at))
               : 0;
}

/* true: this call has to fail. */
static bool strikes(unsigned kind, const char *name)
{
    unsigned mode = atomic_load(&fault.mode);
    if (mode == OFF || inside || !(fault.kinds & kind) ||
        atomic_load(&fault_pause) > 0 ||
        (fault.wanted && strcmp(fault.wanted, name) != 0))
        return false;
    uint64_t number = atomic_fetch_add(&fault.calls, 1) + 1;
    if (mode == WATCHING && number <= WATCH_MAX)
        fault.place[number - 1] = place();
    if (mode != ARMED || number != fault.nth)
        return false;
    fault.name = name;
    atomic_store(&fault.struck, true);
    return true;
}

static void begin(enum mode mode, unsigned kinds, uint64_t nth)
{
    void *at[2];
    (void)backtrace(at, 2); /* it allocates the first time */
    fault.kinds = kinds;
    fault.nth = nth;
    fault.wanted = NULL;
    atomic_store(&fault.calls, 0);
    atomic_store(&fault.struck, false);
    atomic_store(&fault.mode, mode);
}

void fault_watch(unsigned kinds)
{
    begin(WATCHING, kinds, 0);
}

void fault_arm(unsigned kinds, uint64_t nth)
{
    begin(ARMED, kinds, nth);
}

void fault_arm_name(const char *name)
{
    begin(OFF, FAULT_CALL, 1);
    fault.wanted = name;
    atomic_store(&fault.mode, ARMED);
}

uint64_t fault_end(void)
{
    unsigned mode = atomic_exchange(&fault.mode, OFF);
    return mode == WATCHING ? atomic_load(&fault.calls)
                            : atomic_load(&fault.struck);
}

bool fault_struck(void)
{
    return atomic_load(&fault.struck);
}

const char *fault_last(void)
{
    return fault.name ? fault.name : "nothing";
}

struct chosen {
    uint64_t place, number;
};

static int by_place(const void *a, const void *b)
{
    const struct chosen *x = a, *y = b;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

uint64_t *fault_pick(size_t most, size_t *count)
{
    size_t n = ips_min_u64(atomic_load(&fault.calls), WATCH_MAX), k = 0;
    struct chosen *c = calloc(n + 1, sizeof(*c));
    uint64_t *out = calloc(n + 1, sizeof(*out));
    size_t firsts = 0;
    *count = 0;
    if (getenv("IPS_TEST_EVERY_FAULT"))
        most = n;
    if (c && out) {
        for (size_t i = 0; i < n; i++)
            c[i] = (struct chosen){fault.place[i], i + 1};
        qsort(c, n, sizeof(*c), by_place);
        for (size_t i = 0; i < n; i++)
            if (i == 0 || c[i].place != c[i - 1].place)
                out[k++] = c[i].number;
        firsts = k;
        for (size_t i = 1; i < n; i++)
            if (c[i].place == c[i - 1].place &&
                (i + 1 == n || c[i].place != c[i + 1].place))
                out[k++] = c[i].number;
        k = k <= most ? k : firsts;
        qsort(out, k, sizeof(*out), by_number);
        for (size_t i = 0; i < k && k > most && i < most; i++)
            out[i] = out[i * k / most];
        *count = k < most ? k : most;
    }
    free(c);
    return out;
}

void fault_clock(uint64_t ns)
{
    atomic_store(&fault.clock_ns, ns);
}

/* ---- what the linker leads here ---------------------------------------- */

#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wmissing-declarations"

/* WRAP(result, name, parameters, arguments, kind, failed): `failed` is an
 * expression that says how it fails. */
#define WRAP(type, name, params, args, kind, failed)                           \
    type __real_##name params;                                                 \
    type __wrap_##name params;                                                 \
    type __wrap_##name params                                                  \
    {                                                                          \
        return strikes(kind, #name) ? (type)(failed) : __real_##name args;     \
    }

#define ERR(number) (errno = (number), -1)
#define NOTHING (errno = ENOMEM, NULL)

WRAP(void *, malloc, (size_t n), (n), FAULT_ALLOC, NOTHING)
WRAP(void *, calloc, (size_t n, size_t m), (n, m), FAULT_ALLOC, NOTHING)
WRAP(void *, realloc, (void *p, size_t n), (p, n), FAULT_ALLOC, NOTHING)
WRAP(char *, strdup, (const char *s), (s), FAULT_ALLOC, NOTHING)
WRAP(int, ftruncate, (int fd, off_t n), (fd, n), FAULT_CALL, ERR(EIO))
WRAP(int, rename, (const char *a, const char *b), (a, b), FAULT_CALL, ERR(EIO))
WRAP(int, renameat2,
     (int d, const char *a, int e, const char *b, unsigned flags),
     (d, a, e, b, flags), FAULT_CALL, ERR(EIO))
WRAP(int, fsync, (int fd), (fd), FAULT_CALL, ERR(EIO))
WRAP(int, fdatasync, (int fd), (fd), FAULT_CALL, ERR(EIO))
WRAP(int, dup, (int fd), (fd), FAULT_CALL, ERR(EMFILE))
WRAP(int, unlinkat, (int d, const char *a, int flags), (d, a, flags),
     FAULT_CALL, ERR(EBUSY))
WRAP(DIR *, opendir, (const char *a), (a), FAULT_CALL, (errno = EMFILE, NULL))
WRAP(DIR *, fdopendir, (int fd), (fd), FAULT_CALL, NOTHING)
WRAP(int, inotify_add_watch, (int fd, const char *a, uint32_t mask),
     (fd, a, mask), FAULT_CALL, ERR(ENOSPC))

int __real_open(const char *a, int flags, mode_t mode);
int __wrap_open(const char *a, int flags, ...);
int __real_openat(int d, const char *a, int flags, mode_t mode);
int __wrap_openat(int d, const char *a, int flags, ...);

#define MODE(flags)                                                            \
    mode_t mode = 0;                                                           \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {                                   \
        va_list args;                                                          \
        va_start(args, flags);                                                 \
        mode = va_arg(args, mode_t);                                           \
        va_end(args);                                                          \
    }

int __wrap_open(const char *a, int flags, ...)
{
    MODE(flags)
    return strikes(FAULT_CALL, "open") ? ERR(EMFILE)
                                       : __real_open(a, flags, mode);
}

int __wrap_openat(int d, const char *a, int flags, ...)
{
    MODE(flags)
    return strikes(FAULT_CALL, "openat") ? ERR(EMFILE)
                                         : __real_openat(d, a, flags, mode);
}

ssize_t __real_pwrite(int fd, const void *p, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *p, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *p, size_t n, off_t at)
{
    if (strikes(FAULT_CALL, "pwrite"))
        return ERR(ENOSPC);
    bool half = n > 1 && strikes(FAULT_SHORT, "pwrite, short");
    return __real_pwrite(fd, p, half ? n / 2 : n, at);
}

ssize_t __real_write(int fd, const void *p, size_t n);
ssize_t __wrap_write(int fd, const void *p, size_t n);
ssize_t __wrap_write(int fd, const void *p, size_t n)
{
    if (strikes(FAULT_CALL, "write"))
        return ERR(ENOSPC);
    bool half = n > 1 && strikes(FAULT_SHORT, "write, short");
    return __real_write(fd, p, half ? n / 2 : n);
}

void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
    if (strikes(fd < 0 ? FAULT_ALLOC : FAULT_CALL, "mmap")) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return __real_mmap(at, n, prot, flags, fd, off);
}

int __real_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
    uint64_t ns = atomic_load(&fault.clock_ns);
    if (id != CLOCK_MONOTONIC || !ns)
        return __real_clock_gettime(id, ts);
    ts->tv_sec = (time_t)(ns / 1000000000u);
    ts->tv_nsec = (long)(ns % 1000000000u);
    return 0;
}

/* ---- SQLite ------------------------------------------------------------- */

static int db_fails(sqlite3 *db)
{
    static const int codes[] = {SQLITE_BUSY, SQLITE_FULL, SQLITE_IOERR};
    int code = codes[fault.nth % 3];
    inside = true;
    if (db && code != SQLITE_BUSY && !sqlite3_get_autocommit(db))
        (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    inside = false;
    return code;
}

WRAP(int, sqlite3_step, (sqlite3_stmt * q), (q), FAULT_DB,
     db_fails(sqlite3_db_handle(q)))
WRAP(int, sqlite3_prepare_v2,
     (sqlite3 * db, const char *sql, int n, sqlite3_stmt **q, const char **end),
     (db, sql, n, q, end), FAULT_DB, (*q = NULL, db_fails(db)))
WRAP(int, sqlite3_prepare_v3,
     (sqlite3 * db, const char *sql, int n, unsigned flags, sqlite3_stmt **q,
      const char **end),
     (db, sql, n, flags, q, end), FAULT_DB, (*q = NULL, db_fails(db)))
WRAP(int, sqlite3_exec,
     (sqlite3 * db, const char *sql, int (*f)(void *, int, char **, char **),
      void *arg, char **message),
     (db, sql, f, arg, message), FAULT_DB,
     (message ? *message = NULL : NULL, db_fails(db)))
