/* Finds names for all code locations of a map: in the database, else by the
 * helper. */
#include "slave/symbols/symbols.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "common/paths.h"
#include "common/types.h"
#include "slave/drain/drain.h"
#include "slave/store/store.h"

/* After this many seconds slave_symbols_fill_names() does not begin to read
 * another file; the code in the files left stays without names. */
#define FILL_MAX_S 60
/* If reading a file reached a limit, the file is not tried again for
 * LIMIT_AGAIN_S. Another failure (file missing, I/O error) may be temporary and
 * costs little to retry, so it is tried after AGAIN_S. */
#define LIMIT_AGAIN_S 3600
#define AGAIN_S 60
#define FAILURES_MAX 1024u
/* maximum time spent on the files of one user within LIMIT_AGAIN_S */
#define USER_MOST_NS (120 * SLAVE_SECOND_NS)

/* ---- texts ---- */

static bool parse_symbol_field(const char **at, char end, const char **field,
                               uint32_t *len)
{
    size_t n = strcspn(*at, "\t\n");
    if ((*at)[n] != end || n > SLAVE_SYMBOL_NAME_MAX)
        return false;
    *field = *at;
    *len = (uint32_t)n;
    *at += n + 1;
    return true;
}

static bool parse_symbol_number(const char **at, char end, uint32_t *number)
{
    const char *field;
    uint32_t len;
    uint64_t n = 0;
    if (!parse_symbol_field(at, end, &field, &len) || len == 0 || len > 10)
        return false;
    for (uint32_t i = 0; i < len; i++) {
        if (field[i] < '0' || field[i] > '9')
            return false;
        n = n * 10 + (uint64_t)(field[i] - '0');
    }
    *number = n > UINT32_MAX ? 0 : (uint32_t)n;
    return true;
}

bool slave_symbol_parse_frame(const char **at, struct slave_symbol_frame *f)
{
    return **at && parse_symbol_field(at, '\t', &f->name, &f->name_len) &&
           f->name_len > 0 &&
           parse_symbol_field(at, '\t', &f->file, &f->file_len) &&
           parse_symbol_number(at, '\t', &f->source_line) &&
           parse_symbol_field(at, '\t', &f->at_file, &f->at_file_len) &&
           parse_symbol_number(at, '\n', &f->at_line);
}

/* ---- locations of one module ---- */

struct batch { /* the code locations of one module that have no name yet */
    uint32_t *location;
    uint64_t *address;
    struct slave_symbol *symbol;
    uint32_t count;
};

static void batch_release(struct batch *b)
{
    for (uint32_t i = 0; b->symbol && i < b->count; i++)
        free(b->symbol[i].text);
    free(b->location);
    free(b->address);
    free(b->symbol);
}

/* Makes the key under which the database stores a module's names: its build id;
 * without one, run and path, which are valid for this run only. Root's slave
 * prefixes the user, because names that one user's file gives for a build id
 * must not be used for others. */
static void make_module_key(const struct ips_code_module *m, const char *run,
                            char *out, size_t room)
{
    size_t n = 0;
    out[0] = '\0';
    if (geteuid() == 0 && m->uid != 0)
        n = (size_t)snprintf(out, room, "user %u ", (unsigned)m->uid);
    if (m->build_id_bytes == 0)
        snprintf(out + n, room - n, "%s:%s", run, m->path);
    for (uint32_t i = 0; i < m->build_id_bytes && n + 2 < room; i++)
        n += (size_t)snprintf(out + n, room - n, "%02x", m->build_id[i]);
}

/* ---- files that could not be read ---- */

struct slave_symbol_failure {
    char *key;      /* the module's key and its path */
    time_t retry_s; /* the file is not tried again before this time */
    /* hash of the last error message, so that the same one is not logged
     * again */
    uint64_t why;
};

void slave_symbol_failures_release(struct slave_symbol_failures *f)
{
    for (uint32_t i = 0; i < f->count; i++)
        free(f->of[i].key);
    free(f->of);
    *f = (struct slave_symbol_failures){0};
}

static struct slave_symbol_failure *
find_failure_of_file(const struct slave_symbol_failures *f, const char *key)
{
    for (uint32_t i = 0; f && i < f->count; i++)
        if (strcmp(f->of[i].key, key) == 0)
            return &f->of[i];
    return NULL;
}

/* Adds an entry for a file that could not be read. Returns NULL if out of
 * memory. */
static struct slave_symbol_failure *add_failure(struct slave_symbol_failures *f,
                                                const char *key)
{
    struct slave_symbol_failure fresh = {.key = strdup(key)};
    /* the table is full: replace the entry that is due first */
    if (f->count == FAILURES_MAX) {
        uint32_t first = 0;
        for (uint32_t i = 1; i < f->count; i++)
            if (f->of[i].retry_s < f->of[first].retry_s)
                first = i;
        free(f->of[first].key);
        f->of[first] = f->of[--f->count];
    }
    void *grown =
        fresh.key ? realloc(f->of, (f->count + 1) * sizeof(*f->of)) : NULL;
    if (!grown) {
        free(fresh.key);
        return NULL;
    }
    f->of = grown;
    f->of[f->count] = fresh;
    return &f->of[f->count++];
}

/* Remembers when the file may be tried again. Logs why the helper could not
 * read the file, unless the reason is the same as last time. */
static void log_and_remember_failure(struct slave_symbol_failures *f,
                                     const char *key, const char *path,
                                     const struct ips_err *why)
{
    struct slave_symbol_failure *old = find_failure_of_file(f, key);
    uint64_t hash = ips_fnv1a(IPS_FNV_SEED, why->msg, strlen(why->msg));
    bool harmless = why->code == IPS_E_NOT_FOUND || why->code == IPS_E_IO;
    int wait_s = why->code == IPS_E_LIMIT        ? LIMIT_AGAIN_S
                 : why->code == IPS_E_INCOMPLETE ? 0
                                                 : AGAIN_S;
    char when[80] = "";
    if (wait_s)
        snprintf(when, sizeof(when),
                 "; it is read again in %d s at the earliest", wait_s);
    if (!old || old->why != hash)
        ips_log(harmless ? IPS_LOG_INFO : IPS_LOG_WARN,
                "symbols of %s: %s; addresses without a name are shown as "
                "%.80s+0x...%s",
                path, why->msg, ips_code_path_base_name(path), when);
    if (!old && f)
        old = add_failure(f, key);
    if (!old)
        return;
    old->why = hash;
    old->retry_s = time(NULL) + wait_s;
}

/* Returns the record of the time that root's slave has spent on the files of
 * user `uid` in this hour; begins a new one if needed. Returns NULL for root's
 * own files, and if this slave is not root's. */
static struct slave_symbol_user *
find_or_start_time_account_of_user(struct slave_symbol_failures *f,
                                   uint32_t uid)
{
    if (!f || geteuid() != 0 || uid == 0)
        return NULL;
    uint64_t now = slave_now_ns();
    struct slave_symbol_user *u = &f->users[0], *end = u + 64;
    for (struct slave_symbol_user *at = u; at < end; at++) {
        if (at->since_ns && at->uid == uid) {
            u = at;
            break;
        }
        if (at->since_ns < u->since_ns)
            u = at;
    }
    if (u->uid != uid || now - u->since_ns > LIMIT_AGAIN_S * SLAVE_SECOND_NS)
        *u = (struct slave_symbol_user){.uid = uid, .since_ns = now};
    return u;
}

static void charge_read_time_to_uid(struct slave_symbol_failures *f,
                                    uint32_t uid, uint64_t ns)
{
    struct slave_symbol_user *u = find_or_start_time_account_of_user(f, uid);
    if (!u)
        return;
    bool had = u->spent_ns < USER_MOST_NS;
    u->spent_ns += ns;
    if (had && u->spent_ns >= USER_MOST_NS)
        ips_log_warn("symbols: reading the files of user %u took %llu s in the "
                     "last hour: no more are read until the hour ends",
                     (unsigned)uid,
                     (unsigned long long)(u->spent_ns / SLAVE_SECOND_NS));
}

static void read_names_from_store(struct batch *b, const char *key,
                                  struct slave_store *store)
{
    struct ips_err err = {0};
    for (uint32_t i = 0; i < b->count; i++) {
        int grade = 0;
        if (slave_store_get_symbol(store, key, b->address[i],
                                   &b->symbol[i].text, &grade, &err) < 0) {
            ips_log_warn("%s", err.msg);
            return;
        }
        b->symbol[i].grade = (enum slave_symbol_grade)grade;
    }
}

/* Asks the helper about the addresses of the batch that have no name, or only
 * one from a symbol table, because debug information may have been installed
 * since. Stores new names in the batch and in the database. */
static void ask_helper_and_store_names(struct batch *b,
                                       const struct ips_code_module *m,
                                       const char *key, const char *file,
                                       const struct slave_symbol_source *from,
                                       struct slave_symbols *s)
{
    struct ips_err err = {0}, why = {0};
    uint32_t n = 0;
    uint32_t *which = calloc((size_t)b->count + 1, sizeof(*which));
    uint64_t *address = calloc((size_t)b->count + 1, sizeof(*address));
    struct slave_symbol *fresh = calloc((size_t)b->count + 1, sizeof(*fresh));
    for (uint32_t i = 0; which && address && i < b->count; i++)
        if (b->symbol[i].grade < SLAVE_SYMBOL_DEBUG) {
            which[n] = i;
            address[n++] = b->address[i];
        }
    const struct slave_symbol_ask ask = {
        .path = m->path,
        .build_id = m->build_id,
        .build_id_bytes = m->build_id_bytes,
        .uid = m->uid,
        .not_after_real_ns =
            ips_add_sat(from->created_real_ns,
                        ips_sub_sat(m->loaded_ns, from->created_raw_ns)),
        .debug_root = SLAVE_DEBUG_ROOT,
        .addresses = address,
        .count = n};
    if (n > 0 && fresh) {
        uint64_t began_ns = slave_now_ns();
        s->asked++;
        if (slave_symbols_ask_helper(from->helper, &ask, fresh, &why, &err) < 0)
            ips_log_warn("symbols of %s: %s", m->path, err.msg);
        charge_read_time_to_uid(from->failures, m->uid,
                                slave_now_ns() - began_ns);
        if (why.code)
            log_and_remember_failure(from->failures, file, m->path, &why);
    }
    bool keep =
        n > 0 && from->store && slave_store_begin(from->store, &err) == 0;
    for (uint32_t k = 0; fresh && k < n; k++) {
        struct slave_symbol *old = &b->symbol[which[k]];
        if (!fresh[k].text || fresh[k].grade < old->grade) {
            free(fresh[k].text);
            continue;
        }
        free(old->text);
        *old = fresh[k];
        keep = keep && slave_store_put_symbol_and_trim_oldest(
                           from->store, key, address[k], old->text,
                           (int)old->grade, &err) == 0;
    }
    if (keep)
        keep = slave_store_commit(from->store, &err) == 0;
    if (n > 0 && from->store && !keep) {
        ips_log_warn("cannot keep symbols: %s", err.msg);
        slave_store_rollback(from->store);
    }
    free(which);
    free(address);
    free(fresh);
}

static void find_names_of_batch(struct batch *b,
                                const struct ips_code_module *m,
                                const struct slave_symbol_source *from,
                                bool late, struct slave_symbols *s)
{
    char key[IPS_REC_MAX_BYTES + 80], file[2 * IPS_REC_MAX_BYTES + 100];
    make_module_key(m, from->run, key, sizeof(key));
    if (from->store)
        read_names_from_store(b, key, from->store);
    bool all = true;
    for (uint32_t i = 0; i < b->count; i++)
        all = all && b->symbol[i].grade == SLAVE_SYMBOL_DEBUG;
    if (all || late || !from->helper[0])
        return;
    snprintf(file, sizeof(file), "%s %s", key, m->path);
    const struct slave_symbol_failure *f =
        find_failure_of_file(from->failures, file);
    const struct slave_symbol_user *u =
        find_or_start_time_account_of_user(from->failures, m->uid);
    if ((!f || time(NULL) >= f->retry_s) && (!u || u->spent_ns < USER_MOST_NS))
        ask_helper_and_store_names(b, m, key, file, from, s);
}

/* ---- all ---- */

static char *format_text_of_unnamed_location(const struct ips_code_module *m,
                                             uint64_t address)
{
    char *text = NULL;
    /* all of the agent's code gets one name, so tables have one row for it */
    if (m && m->recording)
        return strdup(IPS_RECORDING "\t\t0\t\t0\n");
    int n = m ? asprintf(&text, "%.512s+0x%" PRIx64 "\t\t0\t\t0\n",
                         ips_code_path_base_name(m->path), address)
              : asprintf(&text, "[no module]\t\t0\t\t0\n");
    if (n < 0)
        return NULL;
    for (char *p = text; m && *p && p < text + n - 8; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
    return text;
}

static int group_unnamed_locations_by_module(const struct slave_symbols *s,
                                             const struct ips_codemap *m,
                                             uint32_t **first, uint32_t **order,
                                             struct ips_err *err)
{
    *first = calloc((size_t)m->module_count + 2, sizeof(**first));
    *order = calloc((size_t)m->location_count + 1, sizeof(**order));
    if (!*first || !*order)
        return ips_err_set(err, IPS_E_NO_MEMORY, "symbols");
    for (uint32_t i = 0; i < m->location_count; i++)
        if (!s->of[i].text && m->locations[i].module != IPS_NONE)
            (*first)[m->locations[i].module + 2]++;
    for (uint32_t i = 2; i < m->module_count + 2; i++)
        (*first)[i] += (*first)[i - 1];
    for (uint32_t i = 0; i < m->location_count; i++)
        if (!s->of[i].text && m->locations[i].module != IPS_NONE)
            (*order)[(*first)[m->locations[i].module + 1]++] = i;
    return 0;
}

static int name_locations_of_module(struct slave_symbols *s,
                                    const struct ips_codemap *m,
                                    uint32_t module, const uint32_t *order,
                                    uint32_t count,
                                    const struct slave_symbol_source *from,
                                    bool late, struct ips_err *err)
{
    struct batch b = {.location = malloc(count * sizeof(*b.location)),
                      .address = malloc(count * sizeof(*b.address)),
                      .symbol = calloc(count, sizeof(*b.symbol)),
                      .count = count};
    if (!b.location || !b.address || !b.symbol) {
        batch_release(&b);
        return ips_err_set(err, IPS_E_NO_MEMORY, "symbols");
    }
    for (uint32_t i = 0; i < count; i++) {
        b.location[i] = order[i];
        b.address[i] = m->locations[order[i]].address;
    }
    find_names_of_batch(&b, &m->modules[module], from, late, s);
    for (uint32_t i = 0; i < count; i++) {
        s->of[b.location[i]] = b.symbol[i];
        b.symbol[i].text = NULL;
    }
    batch_release(&b);
    return 0;
}

int slave_symbols_fill_names(struct slave_symbols *s,
                             const struct ips_codemap *m,
                             const struct slave_symbol_source *from,
                             struct ips_err *err)
{
    uint32_t *first = NULL, *order = NULL;
    time_t until = time(NULL) + FILL_MAX_S;
    void *grown =
        realloc(s->of, ((size_t)m->location_count + 1) * sizeof(*s->of));
    if (!grown)
        return ips_err_set(err, IPS_E_NO_MEMORY, "symbols");
    s->of = grown;
    for (; s->count < m->location_count; s->count++)
        s->of[s->count] = (struct slave_symbol){0};
    int rc = group_unnamed_locations_by_module(s, m, &first, &order, err);
    uint32_t late = 0;
    for (uint32_t i = 0; rc == 0 && i < m->module_count; i++) {
        if (first[i + 1] == first[i] || m->modules[i].recording)
            continue;
        late += time(NULL) >= until;
        rc = name_locations_of_module(s, m, i, order + first[i],
                                      first[i + 1] - first[i], from, late > 0,
                                      err);
    }
    if (late)
        ips_log_warn("run %s: reading symbols took more than %d s: %u files "
                     "were not read; ask again for their names",
                     from->run, FILL_MAX_S, late);
    for (uint32_t i = 0; rc == 0 && i < s->count; i++) {
        const struct ips_code_location *p = &m->locations[i];
        if (s->of[i].text)
            continue;
        s->of[i].text = format_text_of_unnamed_location(
            p->module == IPS_NONE ? NULL : &m->modules[p->module], p->address);
        if (!s->of[i].text)
            rc = ips_err_set(err, IPS_E_NO_MEMORY, "symbols");
    }
    free(first);
    free(order);
    return rc;
}

void slave_symbols_release(struct slave_symbols *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        free(s->of[i].text);
    free(s->of);
    *s = (struct slave_symbols){0};
}
