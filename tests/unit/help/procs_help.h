/*
 * Samples, entries, exits and modules written by hand, and the costs made from
 * them, for tests of what code CPU went to. Header only.
 */
#ifndef IPS_TESTS_UNIT_HELP_PROCS_HELP_H
#define IPS_TESTS_UNIT_HELP_PROCS_HELP_H

#include "tests/unit/help/recorder.h"

#include "slave/profile/proc_table.h"

#define MS 1000000u

static inline struct ips_rec_module *module(rs s, uint64_t t, uint64_t start,
                                            uint64_t end, uint64_t bias,
                                            const char *path, bool gone)
{
    size_t len = strlen(path);
    struct ips_rec_module *r =
        rec_put(s, IPS_REC_MODULE, sizeof(*r) + len + 1, (uint32_t)len, t);
    r->start = start;
    r->end = end;
    r->bias = bias;
    r->gone = gone;
    r->build_id_bytes = 4;
    memcpy(r->build_id, "abcd", 4);
    memcpy(r->path, path, len + 1);
    return r;
}

static inline struct ips_rec_sample *sample(rs s, uint64_t t, uint64_t cpu,
                                            int frames, ...)
{
    struct ips_rec_sample *r =
        rec_put(s, IPS_REC_SAMPLE, sizeof(*r) + 8 * (size_t)frames,
                (uint32_t)frames, t);
    va_list ap;
    r->cpu = cpu;
    r->period_ns = 10 * MS;
    va_start(ap, frames);
    for (int i = 0; i < frames; i++)
        r->frames[i] = va_arg(ap, uint64_t);
    va_end(ap);
    return r;
}

static inline void proc(rs s, enum ips_rec_type type, uint64_t t, uint64_t cpu,
                        uint64_t procedure)
{
    struct ips_rec_proc *r = rec_put(s, type, sizeof(*r), 0, t);
    r->cpu = cpu;
    r->procedure = procedure;
}
#define ENTER(s, cpu, p) proc(s, IPS_REC_ENTER, 1000 + (cpu), cpu, p)
#define EXIT(s, cpu, p) proc(s, IPS_REC_EXIT, 1000 + (cpu), cpu, p)

static inline void count(rs s, uint64_t t, uint64_t procedure, uint64_t calls)
{
    struct ips_rec_count *r = rec_put(s, IPS_REC_COUNT, sizeof(*r), 0, t);
    r->procedure = procedure;
    r->calls = calls;
}

/* The costs of what was recorded; names are made up: "module+0xaddress" unless
 * the test gives one. */
struct costs {
    struct recorder *r;
    struct slave_profile_cache c;
    struct slave_proc_table t;
    bool have_table;
};

static inline void costs_make(struct costs *k, struct recorder *r)
{
    struct ips_stream_in in[REC_STREAMS];
    struct ips_err err = {0};
    memset(k, 0, sizeof(*k));
    memset(in, 0, sizeof(in));
    k->r = r;
    rec_build(r);
    for (uint32_t i = 0; i < r->count; i++) {
        memcpy(&in[i].head, &r->s[i].head, sizeof(in[i].head));
        in[i].chunks = &r->s[i].chunk;
        in[i].chunk_count = 1;
    }
    const struct ips_build_input input = {
        .control = &r->control, .streams = in, .stream_count = r->count};
    if (ips_procs_make_profile_by_code_location(&input, &r->built, &k->c.p,
                                                &err) < 0)
        fail_msg("%s", err.msg);
    const struct slave_symbol_source nobody = {.helper = "", .run = "r"};
    if (slave_symbols_fill_names(&k->c.names, &k->c.p.map, &nobody, &err) < 0)
        fail_msg("%s", err.msg);
}

static inline void costs_free(struct costs *k)
{
    if (k->have_table)
        slave_proc_table_release(&k->t);
    ips_procs_release(&k->c.p);
    slave_symbols_release(&k->c.names);
    rec_free(k->r);
}

/* Gives the place at `address` of its file the names in `text`. */
static inline void name(struct costs *k, uint64_t address, const char *text)
{
    for (uint32_t i = 0; i < k->c.p.map.location_count; i++)
        if (k->c.p.map.locations[i].address == address) {
            free(k->c.names.of[i].text);
            k->c.names.of[i].text = strdup(text);
            assert_non_null(k->c.names.of[i].text);
            return;
        }
    fail_msg("no place 0x%llx", (unsigned long long)address);
}

static inline void table(struct costs *k, const char *object,
                         enum slave_proc_by by)
{
    struct ips_err err = {0};
    if (k->have_table)
        slave_proc_table_release(&k->t);
    k->have_table = true;
    if (slave_proc_table_make(&k->c, &k->r->built, "m", object, by, &k->t,
                              &err) < 0)
        fail_msg("%s", err.msg);
}

static inline const struct slave_proc_row *row(struct costs *k,
                                               const char *what)
{
    if (!k->have_table)
        table(k, "", SLAVE_BY_PROCEDURE);
    for (uint32_t i = 0; i < k->t.row_count; i++) {
        const struct slave_proc_symbol *s =
            &k->t.names.symbols[k->t.rows[i].symbol];
        if (s->name_len == strlen(what) &&
            memcmp(s->name, what, s->name_len) == 0)
            return &k->t.rows[i];
    }
    fail_msg("no row %s", what);
    return NULL;
}

static inline struct recorder *one(rs *s)
{
    struct recorder *r = rec_new();
    *s = rec_stream(r, 10, 10, 100);
    rec_start(*s, IPS_START_ROOT, 1000, 0);
    module(*s, 1000, 0x10000, 0x20000, 0x10000, "/bin/a", false);
    return r;
}

#endif
