#include "slave/profile/lock_code.h"

#include <string.h>

#include "slave/profile/proc_names.h"

#define TEXT_AND_LENGTH(text) text, sizeof(text) - 1

static const char *base_name_of(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path ? path : "";
}

static bool begins_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

bool slave_module_is_c_library(const char *module)
{
    const char *file = base_name_of(module);
    return begins_with(file, "libc.so.") || begins_with(file, "libc-") ||
           begins_with(file, "libpthread") || begins_with(file, "ld-linux");
}

bool slave_module_is_recorder(const char *module)
{
    return begins_with(base_name_of(module), "libips");
}

struct known_lock_procedure {
    const char *name;
    size_t len;
    enum slave_lock_procedure_class code;
    bool prefix; /* true: matches all names that start with `name` */
};

/* Names of procedures, without the prefixes that strip_prefixes() removes. The
 * first match counts. */
static const struct known_lock_procedure known[] = {
    {TEXT_AND_LENGTH("lll_lock_wait"), SLAVE_LOCK_SLEEPS, true},
    {TEXT_AND_LENGTH("lll_lock_wake"), SLAVE_LOCK_WAKES, true},
    {TEXT_AND_LENGTH("lll_timedlock_wait"), SLAVE_LOCK_SLEEPS, true},
    {TEXT_AND_LENGTH("lll_clocklock_wait"), SLAVE_LOCK_SLEEPS, true},
    {TEXT_AND_LENGTH("lll_mutex_unlock"), SLAVE_LOCK_RELEASES, true},
    {TEXT_AND_LENGTH("lll_unlock"), SLAVE_LOCK_RELEASES, true},
    {TEXT_AND_LENGTH("lll_"), SLAVE_LOCK_TAKES, true},
    {TEXT_AND_LENGTH("futex_"), SLAVE_LOCK_FUTEX, true},
    {TEXT_AND_LENGTH("pthread_cond_"), SLAVE_LOCK_COND, true},
    {TEXT_AND_LENGTH("pthread_mutex_cond_lock"), SLAVE_LOCK_TAKES, true},
    {TEXT_AND_LENGTH("pthread_mutex_unlock"), SLAVE_LOCK_RELEASES, true},
    {TEXT_AND_LENGTH("pthread_mutex_lock"), SLAVE_LOCK_TAKES, true},
    {TEXT_AND_LENGTH("pthread_mutex_trylock"), SLAVE_LOCK_TAKES, false},
    {TEXT_AND_LENGTH("pthread_mutex_timedlock"), SLAVE_LOCK_TAKES, false},
    {TEXT_AND_LENGTH("pthread_mutex_clocklock"), SLAVE_LOCK_TAKES, true},
    /* The agent calls this function only after an attempt to take the spin lock
     * has failed. */
    {TEXT_AND_LENGTH("pthread_spin_lock"), SLAVE_LOCK_SLEEPS, false},
    {TEXT_AND_LENGTH("sched_yield"), SLAVE_LOCK_YIELDS, false},
    {TEXT_AND_LENGTH("mtx_lock"), SLAVE_LOCK_TAKES, false},
    {TEXT_AND_LENGTH("mtx_unlock"), SLAVE_LOCK_RELEASES, false},
    {TEXT_AND_LENGTH("pthread_rwlock_unlock"), SLAVE_LOCK_RELEASES, true},
    {TEXT_AND_LENGTH("pthread_rwlock_rdunlock"), SLAVE_LOCK_RELEASES, true},
    {TEXT_AND_LENGTH("pthread_rwlock_wrunlock"), SLAVE_LOCK_RELEASES, true},
    {TEXT_AND_LENGTH("pthread_rwlock_"), SLAVE_LOCK_TAKES, true},
    {TEXT_AND_LENGTH("IO_lock_lock"), SLAVE_LOCK_TAKES, true},
    {TEXT_AND_LENGTH("IO_lock_unlock"), SLAVE_LOCK_RELEASES, true},
};

/* Strips leading "_", "GI_" and "libc_": "__GI___lll_lock_wake" becomes
 * "lll_lock_wake". */
static void strip_prefixes(const char **name, size_t *len)
{
    static const char *const before[] = {"_", "GI_", "libc_"};
    for (size_t i = 0; i < sizeof(before) / sizeof(*before);) {
        size_t n = strlen(before[i]);
        if (*len > n && memcmp(*name, before[i], n) == 0) {
            *name += n;
            *len -= n;
            i = 0;
        } else {
            i++;
        }
    }
}

enum slave_lock_procedure_class
slave_lock_procedure_class(const char *name, size_t len, const char *module)
{
    if (!slave_module_is_c_library(module))
        return SLAVE_LOCK_NONE;
    strip_prefixes(&name, &len);
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        const struct known_lock_procedure *k = &known[i];
        if ((len == k->len || (len > k->len && k->prefix)) &&
            memcmp(name, k->name, k->len) == 0)
            return k->code;
    }
    return SLAVE_LOCK_NONE;
}

bool slave_lock_find_use_in_stack(const struct slave_proc_names *names,
                                  const uint32_t *symbols, uint32_t count,
                                  struct slave_lock_use *out)
{
    bool lock = false, futex = false;
    uint32_t i = 0;
    memset(out, 0, sizeof(*out));
    for (; i < count; i++) {
        const struct slave_proc_symbol *s = &names->symbols[symbols[i]];
        enum slave_lock_procedure_class code =
            slave_lock_procedure_class(s->name, s->name_len, s->module);
        if (code == SLAVE_LOCK_NONE)
            break;
        futex = futex || code == SLAVE_LOCK_FUTEX;
        out->yields = out->yields || code == SLAVE_LOCK_YIELDS;
        lock = lock || (code != SLAVE_LOCK_FUTEX && code != SLAVE_LOCK_COND);
        out->gives = out->gives || code == SLAVE_LOCK_RELEASES ||
                     code == SLAVE_LOCK_WAKES;
        out->contended = out->contended || code == SLAVE_LOCK_SLEEPS ||
                         code == SLAVE_LOCK_WAKES;
    }
    /* Conditions and semaphores also sleep on futexes, so a futex alone does
     * not show a lock. */
    if (!lock)
        return false;
    out->contended = out->contended || (futex && !out->yields);
    while (i < count &&
           slave_module_is_recorder(names->symbols[symbols[i]].module))
        i++;
    if (i == count)
        return false;
    out->library = slave_module_is_c_library(names->symbols[symbols[i]].module);
    while (out->library && i + 1 < count &&
           slave_module_is_c_library(names->symbols[symbols[i + 1]].module))
        i++;
    out->site = out->caller = symbols[i];
    for (i++; out->library && i < count; i++) {
        if (slave_module_is_recorder(names->symbols[symbols[i]].module))
            continue;
        out->caller = symbols[i];
        break;
    }
    return true;
}
