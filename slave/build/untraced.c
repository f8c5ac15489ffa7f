/* Lists processes that were never traced, or not any more after an exec. The
 * agent reports most of them in UNSEEN records ("untraced PID CAUSE PROGRAM",
 * agent/record/exec_target.h). Others show only by missing records: a FORK
 * whose child recorded nothing, or an EXEC without a later record. */
#include "slave/build/internal.h"

#include <stdio.h>

#define ROWS_MAX 64u

struct untraced { /* a parsed UNSEEN record */
    uint32_t pid;
    char cause[24], program[200];
};

/* Copies the text up to the next blank, or to the end, to `out`; returns the
 * text after the blank. */
static const char *copy_next_word(const char *p, char *out, size_t size)
{
    size_t n = strcspn(p, " ");
    snprintf(out, size, "%.*s", (int)ips_min_u64(n, size - 1), p);
    return p[n] ? p + n + 1 : p + n;
}

static bool parse_untraced_process_text(const struct b_unrecorded *u,
                                        struct untraced *out)
{
    static const char head[] = "untraced ";
    char text[512], pid[16];
    snprintf(text, sizeof(text), "%.*s", (int)ips_min_u64(u->len, 511),
             (const char *)u->text);
    if (strncmp(text, head, sizeof(head) - 1) != 0)
        return false;
    const char *p = copy_next_word(text + sizeof(head) - 1, pid, sizeof(pid));
    out->pid = (uint32_t)strtoul(pid, NULL, 10);
    p = copy_next_word(p, out->cause, sizeof(out->cause));
    snprintf(out->program, sizeof(out->program), "%s", p);
    return true;
}

static struct ips_untraced *find_or_add_untraced_cause_row(struct ips_built *o,
                                                           const char *cause,
                                                           const char *program)
{
    for (uint32_t i = 0; i < o->untraced_count; i++)
        if (strcmp(o->untraced[i].cause, cause) == 0 &&
            strcmp(o->untraced[i].program, program) == 0)
            return &o->untraced[i];
    /* the last row counts all other causes */
    if (o->untraced_count == ROWS_MAX) {
        struct ips_untraced *last = &o->untraced[ROWS_MAX - 1];
        snprintf(last->cause, sizeof(last->cause), "various");
        last->program[0] = '\0';
        return last;
    }
    struct ips_untraced *r = &o->untraced[o->untraced_count++];
    snprintf(r->cause, sizeof(r->cause), "%s", cause);
    snprintf(r->program, sizeof(r->program), "%s", program);
    return r;
}

static void count_untraced_process(struct build *b, const char *cause,
                                   const char *program, uint32_t pid)
{
    struct ips_untraced *r =
        find_or_add_untraced_cause_row(b->out, cause, program);
    if (r->count++ == 0)
        r->pid = pid;
    b->out->counts.untraced++;
}

/* Whether the process of this stream continues in another image after its
 * EXEC. */
static bool process_continues_in_image_after_exec(const struct build *b,
                                                  const struct b_stream *s)
{
    return s->image + 1 < b->image_count && b->images[s->image + 1].continues;
}

/* Whether the program of report `u` is traced after all. `spoke`: a later
 * record of the process exists. If the cause is "set-user-id", that record
 * decides, because the agent cannot know whether the kernel really gives the
 * program other rights. With other causes, it means that the untraced program
 * executed a traced one. */
static bool is_traced_after_all(const struct untraced *u, bool spoke)
{
    return spoke && strcmp(u->cause, "set-user-id") == 0;
}

static void count_untraced_process_of_report(struct build *b,
                                             const struct b_unrecorded *u)
{
    struct untraced t;
    struct b_stream *s = &b->streams[u->stream];
    if (!parse_untraced_process_text(u, &t))
        return;
    if (t.pid == s->in->head.pid) {
        if (!s->exec_last || u->t > s->exec_ns || s->named_exec ||
            is_traced_after_all(&t,
                                process_continues_in_image_after_exec(b, s)))
            return;
        s->named_exec = true;
    } else {
        struct b_fork *f = u->fork == IPS_NONE ? NULL : &b->forks.v[u->fork];
        if (!f || f->pid != t.pid || f->named || f->failed ||
            is_traced_after_all(&t, f->child != IPS_NONE))
            return;
        f->named = true;
    }
    count_untraced_process(b, t.cause, t.program, t.pid);
}

/* Counts a process that has ended if its last record is an EXEC that no UNSEEN
 * record explains. */
static void count_unexplained_exec(struct build *b, const struct b_stream *s)
{
    if (!s->exec_last || s->named_exec ||
        process_continues_in_image_after_exec(b, s) ||
        b->out->procs[b->images[s->image].proc].open)
        return;
    char program[200];
    snprintf(program, sizeof(program), "%s",
             s->exec ? (const char *)s->exec : "");
    count_untraced_process(b, "unknown", program, s->in->head.pid);
}

/* Adds a row for an UNSEEN record other than "untraced", or for a runtime: the
 * process does something that the agent does not record. */
static void append_unrecorded_action_if_new(struct build *b,
                                            const struct b_unrecorded *u)
{
    struct ips_built *o = b->out;
    uint32_t proc = b->images[b->streams[u->stream].image].proc;
    if (u->len >= 9 && memcmp(u->text, "untraced ", 9) == 0)
        return;
    if (u->of_threads && o->procs[proc].chain_count < 2)
        return;
    struct ips_unrecorded new = {.process = proc, .runtime = u->runtime};
    snprintf(new.what, sizeof(new.what), "%.*s",
             (int)ips_min_u64(u->len, sizeof(new.what) - 1),
             (const char *)u->text);
    for (char *c = new.what; *c; c++)
        if (*c < 0x20 || *c == 0x7f)
            *c = '?';
    for (uint32_t i = 0; i < o->unrecorded_count; i++)
        if (o->unrecorded[i].process == proc &&
            strcmp(o->unrecorded[i].what, new.what) == 0)
            return;
    if (o->unrecorded_count < ROWS_MAX)
        o->unrecorded[o->unrecorded_count++] = new;
}

/* Whether a thread may have been unable to write its START because the pool was
 * full. Such a thread had no segment, so the sums of the run count its records
 * as lost. */
static bool may_start_records_be_lost(const struct build *b)
{
    const struct ips_control *c = b->in->control;
    return c && (c->lost[IPS_LOST_QUOTA] || c->lost[IPS_LOST_POOL_FULL] ||
                 c->lost[IPS_LOST_NO_SEGMENT]);
}

/* Counts the threads that were joined, so they have ended, but that have no
 * stream. Leaves out processes that still run, because the slave may not have
 * found all their segments yet. */
static void count_missing_threads(struct build *b)
{
    if (may_start_records_be_lost(b))
        return;
    for (uint32_t j = 0; j < b->joins.n; j++) {
        const struct b_join *join = &b->joins.v[j];
        uint32_t image = b->streams[join->stream].image;
        b->out->counts.missing_threads +=
            join->kind == IPS_JOIN_THREAD && join->unrecorded &&
            !b->out->procs[b->images[image].proc].open;
    }
}

int b_list_unrecorded_processes(struct build *b)
{
    b->out->untraced = b_calloc(ROWS_MAX, sizeof(*b->out->untraced), b->err);
    b->out->unrecorded =
        b_calloc(ROWS_MAX, sizeof(*b->out->unrecorded), b->err);
    if (!b->out->untraced || !b->out->unrecorded)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < b->unseens.n; i++)
        append_unrecorded_action_if_new(b, &b->unseens.v[i]);
    /* backwards, because the last "untraced" record of a stream belongs to the
     * stream's exec */
    for (uint32_t i = b->unseens.n; i > 0; i--)
        count_untraced_process_of_report(b, &b->unseens.v[i - 1]);
    for (uint32_t f = 0; f < b->forks.n; f++) {
        const struct b_fork *fork = &b->forks.v[f];
        if (!fork->failed && !fork->named && fork->child == IPS_NONE &&
            fork->kind != IPS_FORK_THREAD && fork->kind != IPS_FORK_TASK)
            count_untraced_process(b, "unknown", "", fork->pid);
    }
    for (uint32_t i = 0; i < b->in->stream_count; i++)
        count_unexplained_exec(b, &b->streams[i]);
    count_missing_threads(b);
    return 0;
}

/* ---- runtimes ---- */

const char *ips_find_runtime_of_library(const char *path, size_t len)
{
    static const struct {
        const char *file, *what;
    } known[] = {{"libgomp", "OpenMP (libgomp)"},
                 {"libomp", "OpenMP (libomp)"},
                 {"libiomp5", "OpenMP (libiomp5)"}};
    const char *name = memrchr(path, '/', len);
    size_t left = name ? (size_t)(path + len - ++name) : 0;
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        size_t n = strlen(known[i].file);
        if (left > n && memcmp(name, known[i].file, n) == 0 &&
            (name[n] == '.' || name[n] == '-'))
            return known[i].what;
    }
    return NULL;
}

const char *b_runtime_of_module(const uint8_t *p, uint32_t len)
{
    struct ips_rec_module r;
    memcpy(&r, p, sizeof(r));
    const char *path = (const char *)p + sizeof(r);
    return r.gone ? NULL
           : r.go ? IPS_GO_RUNTIME
                  : ips_find_runtime_of_library(path,
                                                strnlen(path, len - sizeof(r)));
}

/* ---- scan of UNSEEN and MODULE records ---- */

int b_scan_unrecorded(struct build *b, uint32_t stream, uint64_t t,
                      const uint8_t *p, uint32_t len)
{
    int rc = B_MORE(b->unseens, b->err);
    if (rc < 0)
        return rc;
    uint32_t n = b->forks.n;
    const uint8_t *text = p + sizeof(struct ips_rec_text);
    b->unseens.v[b->unseens.n++] = (struct b_unrecorded){
        .t = t,
        .text = text,
        .len = (uint32_t)strnlen((const char *)text,
                                 len - sizeof(struct ips_rec_text)),
        .stream = stream,
        .fork = n > b->streams[stream].first_fork ? n - 1 : IPS_NONE};
    return 0;
}

int b_scan_runtime_module(struct build *b, uint32_t stream, uint64_t t,
                          const uint8_t *p, uint32_t len)
{
    const char *what = b_runtime_of_module(p, len);
    int rc = what ? B_MORE(b->unseens, b->err) : 0;
    if (what && rc == 0)
        b->unseens.v[b->unseens.n++] = (struct b_unrecorded){
            .runtime = true,
            .of_threads = strcmp(what, IPS_GO_RUNTIME) != 0,
            .t = t,
            .text = (const uint8_t *)what,
            .len = (uint32_t)strlen(what),
            .stream = stream,
            .fork = IPS_NONE};
    return rc;
}
