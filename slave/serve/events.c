/* Answers EventsAsk: sends the raw events of a run, as IPS-2 defines them,
 * stream by stream, in the order of each stream. A record of an interval
 * becomes two events, its start and end: a receive becomes receive-call and
 * receive, a wait becomes block and resume. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/pool/pool.h"
#include "proto/message.h"
#include "slave/build/chain_index.h"
#include "slave/build/proc_line.h"
#include "slave/profile/event_sites.h"
#include "slave/serve/slave.h"
#include "slave/symbols/event_text.h"

#define PIECE_ROWS 4096u
/* rows with call sites or stacks are longer, so a reply has fewer of them */
#define PIECE_ROWS_SITES 2048u
#define PIECE_ROWS_STACKS 128u
#define STACK_NS 50000u /* the agent records stacks only of longer calls */

struct event_row {
    Ips__EventRow row;
    char channel[160];
    char detail[600];
};

struct stream_entry {
    uint32_t stream; /* index of the stream in the snapshot */
    uint32_t chain;  /* chain of the stream; UINT32_MAX: none */
    uint64_t stamp_ns;
};
struct channel_entry {
    /* first stream of the program image (from exec to exec) with the channel */
    uint32_t image;
    uint32_t id;
    const struct ips_rec_chan *rec; /* the channel's CHAN record, in `in` */
};

struct events_job {
    struct slave_job job;
    struct slave_snapshot *snap;
    struct slave_graph *graph;
    char machine[64], object[256];
    uint64_t from_ns, to_ns, limit, sent;
    struct slave_input in; /* the run's records; released with the job */
    struct stream_entry *stream_entry; /* streams in output order */
    struct channel_entry *channels;
    size_t channel_count;
    /* [streams] index of the first stream of the same program image */
    uint32_t *image_of;
    bool begun;
    uint32_t at_entry, at_chunk;
    /* state to expand the abbreviated records of the current stream */
    struct slave_record_expander proc_line;
    size_t at_byte;
    struct event_row *rows;
    Ips__EventRow **ptrs;
    uint32_t row_count, piece_rows;
    struct slave_sites sites;
    /* row of the preceding record; NULL: that record has no row */
    struct event_row *last;
    uint64_t last_t; /* time stamp `t` of the preceding record */
    /* arrival time of the datagram that is received next; 0: unknown */
    uint64_t arrived_ns;
    Ips__EventsAnswer answer;
};

static struct events_job *events_job_of(struct slave_job *job)
{
    return (struct events_job *)(void *)job;
}

static void release_events(struct slave_job *job, struct slave_graphs *graphs)
{
    struct events_job *j = events_job_of(job);
    if (j->graph)
        slave_graphs_release_graph_and_evict(graphs, j->graph);
    slave_snapshot_free(j->snap);
    slave_sites_release(&j->sites);
    slave_input_release(graphs, &j->in);
    free(j->stream_entry);
    free(j->channels);
    free(j->image_of);
    free(j->rows);
    free(j->ptrs);
}

/* ---- names of channels ---- */

static int compare_channels_by_image_and_id(const void *a, const void *b)
{
    const struct channel_entry *x = a, *y = b;
    if (x->image != y->image)
        return x->image < y->image ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void format_channel_name(const struct events_job *j, uint32_t stream,
                                uint32_t id, char *out, size_t len)
{
    const struct channel_entry key = {.image = j->image_of[stream], .id = id};
    out[0] = '\0';
    if (id == 0 || !j->channel_count)
        return;
    const struct channel_entry *c =
        bsearch(&key, j->channels, j->channel_count, sizeof(key),
                compare_channels_by_image_and_id);
    if (c)
        slave_channel_format_text(out, len, c->rec);
    else
        snprintf(out, len, "#%u", id);
}

/* ---- index of streams and channels ---- */

static int compare_streams_by_chain(const void *a, const void *b)
{
    const struct stream_entry *x = a, *y = b;
    if (x->chain != y->chain)
        return x->chain < y->chain ? -1 : 1;
    if (x->stamp_ns != y->stamp_ns)
        return x->stamp_ns < y->stamp_ns ? -1 : 1;
    return x->stream < y->stream ? -1 : x->stream > y->stream;
}

static int compare_images(const struct ips_segment_header *x,
                          const struct ips_segment_header *y)
{
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->pidns != y->pidns)
        return x->pidns < y->pidns ? -1 : 1;
    return (x->image_stamp > y->image_stamp) -
           (x->image_stamp < y->image_stamp);
}

static int compare_streams_by_image(const void *a, const void *b, void *arg)
{
    const struct slave_snapshot *s = arg;
    const uint32_t *x = a, *y = b;
    int c = compare_images(&s->streams[*x].head, &s->streams[*y].head);
    return c ? c : (*x > *y) - (*x < *y);
}

/* Sets j->image_of of each stream to the first stream of the same image. */
static int group_streams_by_image(struct events_job *j)
{
    const struct slave_snapshot *s = j->graph->snap;
    uint32_t first = 0, *order = calloc(s->stream_count + 1u, sizeof(*order));
    if (!order)
        return ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < s->stream_count; i++)
        order[i] = i;
    qsort_r(order, s->stream_count, sizeof(*order), compare_streams_by_image,
            (void *)(uintptr_t)s);
    for (uint32_t k = 0; k < s->stream_count; k++) {
        if (k == 0 || compare_images(&s->streams[order[k]].head,
                                     &s->streams[first].head) != 0)
            first = order[k];
        j->image_of[order[k]] = first;
    }
    free(order);
    return 0;
}

static int add_channel_entry(struct events_job *j, uint32_t stream,
                             const struct ips_rec_chan *c, size_t *cap)
{
    if (j->channel_count == *cap) {
        size_t more = *cap ? *cap * 2 : 256;
        void *fresh = realloc(j->channels, more * sizeof(*j->channels));
        if (!fresh)
            return ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
        j->channels = fresh;
        *cap = more;
    }
    j->channels[j->channel_count++] =
        (struct channel_entry){j->image_of[stream], c->h.a, c};
    return 0;
}

/* Adds the CHAN records of a stream to j->channels. The lengths of records were
 * checked when they were unpacked. */
static int index_channels_of_stream(struct events_job *j, uint32_t stream,
                                    size_t *cap)
{
    const struct ips_stream_in *in = &j->in.streams[stream];
    int rc = 0;
    if (in->types && !(in->types[IPS_REC_CHAN / 64] >> IPS_REC_CHAN % 64 & 1))
        return 0;
    for (uint32_t k = 0; rc == 0 && k < in->chunk_count; k++) {
        const uint8_t *p = in->chunks[k].data;
        for (size_t at = 0; rc == 0 && at < in->chunks[k].len;) {
            const struct ips_rec_chan *c =
                (const struct ips_rec_chan *)(const void *)(p + at);
            if (ips_rec_type(&c->h) == IPS_REC_CHAN)
                rc = add_channel_entry(j, stream, c, cap);
            at += (c->h.word >> 8 & 0xffu) * 8;
        }
    }
    return rc;
}

static int prepare_events(struct events_job *j, struct slave_graphs *gs)
{
    struct slave_snapshot *snap = j->snap;
    j->snap = NULL;
    j->begun = true;
    int rc = slave_graphs_get_or_build(gs, snap, &j->graph, &j->job.err);
    if (rc < 0)
        return rc;
    const struct slave_snapshot *s = j->graph->snap;
    size_t cap = 0;
    uint32_t *chains = slave_list_chains_sorted_by_thread(&j->graph->b);
    j->stream_entry =
        calloc((size_t)s->stream_count + 1, sizeof(*j->stream_entry));
    j->image_of = calloc((size_t)s->stream_count + 1, sizeof(*j->image_of));
    j->rows = calloc(PIECE_ROWS + 2, sizeof(*j->rows));
    j->ptrs = calloc(PIECE_ROWS + 2, sizeof(*j->ptrs));
    if (!chains || !j->stream_entry || !j->image_of || !j->rows || !j->ptrs)
        rc = ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; rc == 0 && i < s->stream_count; i++) {
        const struct ips_segment_header *h = &s->streams[i].head;
        struct stream_entry *p = &j->stream_entry[i];
        p->stream = i;
        p->stamp_ns = ips_clock_convert_stamp_to_ns(&h->clock, h->stream_stamp);
        p->chain = slave_chain_of_stream(&j->graph->b, chains, h, p->stamp_ns);
    }
    free(chains);
    if (rc == 0)
        rc = group_streams_by_image(j);
    if (rc == 0)
        rc = slave_input_fill_from_snapshot(gs, s, &j->in, &j->job.err);
    for (uint32_t i = 0; rc == 0 && i < s->stream_count; i++)
        rc = index_channels_of_stream(j, i, &cap);
    if (rc < 0)
        return rc;
    if (s->stream_count)
        qsort(j->stream_entry, s->stream_count, sizeof(*j->stream_entry),
              compare_streams_by_chain);
    if (j->channel_count)
        qsort(j->channels, j->channel_count, sizeof(*j->channels),
              compare_channels_by_image_and_id);
    return slave_sites_prepare_code_map(&j->sites, &j->in.in, &j->job.err);
}

/* ---- rows ---- */

static struct event_row *add_row_within_limits(struct events_job *j,
                                               const struct stream_entry *p,
                                               const char *type, uint64_t t_ns,
                                               uint64_t cpu_ns)
{
    const struct ips_built *b = &j->graph->b;
    uint64_t since = ips_sub_sat(t_ns, b->first_ns);
    if (since < j->from_ns || (j->to_ns && since >= j->to_ns) ||
        (j->limit && j->sent >= j->limit))
        return NULL;
    const struct ips_segment_header *h =
        &j->graph->snap->streams[p->stream].head;
    struct event_row *r = &j->rows[j->row_count];
    j->ptrs[j->row_count++] = &r->row;
    j->sent++;
    ips__event_row__init(&r->row);
    r->channel[0] = r->detail[0] = '\0';
    r->row.machine = j->machine;
    r->row.pid = h->pid;
    r->row.tid = h->tid;
    r->row.type = ips_unconst_text(type);
    r->row.t_ns = t_ns;
    r->row.cpu_ns = cpu_ns;
    r->row.channel = r->channel;
    r->row.detail = r->detail;
    r->row.process =
        p->chain == UINT32_MAX
            ? ips_unconst_text("")
            : j->graph->b.procs[b->g.chains[p->chain].process].name;
    return r;
}

static uint64_t stamp_ns(const struct ips_segment_header *h,
                         const struct ips_rec_head *rec, uint64_t stamp)
{
    return ips_rec_flags(rec) & IPS_REC_F_NS
               ? stamp
               : ips_clock_convert_stamp_to_ns(&h->clock, stamp);
}

/* Adds the call site to the row `r`. `ns`: how long the call took, if this row
 * is its end; else 0. */
static void add_call_site_to_row(struct events_job *j, struct event_row *r,
                                 const struct stream_entry *p, uint64_t site,
                                 uint64_t t_ns, uint64_t ns)
{
    const struct ips_segment_header *h =
        &j->graph->snap->streams[p->stream].head;
    struct ips_err *err = &j->job.err;
    if (slave_sites_add_call_site_to_row(&j->sites, &r->row, h, site, t_ns,
                                         err) == 0)
        j->last = r;
    if (ns > STACK_NS && slave_sites_add_last_stack_to_row(
                             &j->sites, &r->row, p->stream, site, err) < 0)
        j->last = NULL;
}

static void add_io_row(struct events_job *j, const struct stream_entry *p,
                       const struct ips_rec_io *io, const char *type,
                       bool second, uint64_t t_ns)
{
    struct event_row *r =
        add_row_within_limits(j, p, type, t_ns, second ? io->cpu_ret : io->cpu);
    if (!r)
        return;
    bool poll = io->op >= IPS_OP_POLL && io->op <= IPS_OP_EPOLL;
    bool found = poll && second && io->result > 0;
    uint32_t ready =
        IPS_READY_KIND(io->ready) == IPS_READY_CHANNEL ? io->ready : 0;
    format_channel_name(j, p->stream,
                        !poll   ? io->h.a
                        : found ? ready
                                : 0,
                        r->channel, sizeof(r->channel));
    r->row.bytes =
        second || ips_rec_type(&io->h) == IPS_REC_SEND ? io->result : 0;
    if (io->err && (second || ips_rec_type(&io->h) != IPS_REC_RECV))
        snprintf(r->detail, sizeof(r->detail), "%s: %s", slave_op_text(io->op),
                 strerrorname_np(io->err) ? strerrorname_np(io->err) : "?");
    else
        snprintf(r->detail, sizeof(r->detail), "%s%s%s%s%s%s",
                 slave_op_text(io->op),
                 ips_rec_flags(&io->h) & IPS_REC_F_SUM
                     ? ", with those before that were overwritten"
                     : "",
                 found && io->h.a & IPS_READY_IN ? ", readable" : "",
                 found && io->h.a & IPS_READY_OUT ? ", writable" : "",
                 found && io->h.a & IPS_READY_HUP ? ", hung up" : "",
                 found && io->h.a & IPS_READY_ERR ? ", error" : "");
    const struct ips_segment_header *h =
        &j->graph->snap->streams[p->stream].head;
    if (second && j->arrived_ns) {
        size_t n = strlen(r->detail);
        snprintf(r->detail + n, sizeof(r->detail) - n, ", unread %llu ns",
                 (unsigned long long)ips_sub_sat(stamp_ns(h, &io->h, io->h.t),
                                                 j->arrived_ns));
    }
    uint32_t kind = ips_rec_type(&io->h);
    bool end = second || kind == IPS_REC_SEND || kind == IPS_REC_RECVCALL;
    add_call_site_to_row(j, r, p, io->site, t_ns,
                         end ? ips_sub_sat(stamp_ns(h, &io->h, io->t_ret),
                                           stamp_ns(h, &io->h, io->h.t))
                             : 0);
}

static void add_rows_of_io_call(struct events_job *j,
                                const struct stream_entry *p,
                                const struct ips_segment_header *h,
                                const struct ips_rec_io *io, const char *first,
                                const char *second)
{
    add_io_row(j, p, io, first, false, stamp_ns(h, &io->h, io->h.t));
    if (second)
        add_io_row(j, p, io, second, true, stamp_ns(h, &io->h, io->t_ret));
}

static struct event_row *add_text_row(struct events_job *j,
                                      const struct stream_entry *p,
                                      const char *type, uint64_t t_ns,
                                      uint64_t cpu_ns, uint32_t channel,
                                      const char *detail)
{
    struct event_row *r = add_row_within_limits(j, p, type, t_ns, cpu_ns);
    if (!r)
        return NULL;
    format_channel_name(j, p->stream, channel, r->channel, sizeof(r->channel));
    snprintf(r->detail, sizeof(r->detail), "%s", detail);
    j->last = r;
    return r;
}

/* Adds a row like add_text_row, for a record of `own` bytes
 * that is followed by its call site; `ns`: how long the call took. */
static void append_event_row_with_call_site(
    struct events_job *j, const struct stream_entry *p,
    const struct ips_rec_head *rec, size_t own, const char *type, uint64_t t_ns,
    uint64_t ns, uint64_t cpu_ns, uint32_t channel, const char *detail)
{
    struct event_row *r =
        add_text_row(j, p, type, t_ns, cpu_ns, channel, detail);
    if (r)
        add_call_site_to_row(j, r, p, ips_rec_site(rec, own), t_ns, ns);
}

#define AS(type) ((const struct type *)(const void *)rec)

/* Adds a row for a lock operation. Its channel text is "mutex
 * DEVICE:INODE+OFFSET", or "mutex 0x7f..." if the lock is in memory private to
 * the process. */
static void add_sync_row(struct events_job *j, const struct stream_entry *p,
                         const struct ips_rec_sync *s, const char *type,
                         bool ret, uint64_t t_ns)
{
    const char *name = slave_sync_kind_text(s->h.a);
    struct event_row *r =
        add_row_within_limits(j, p, type, t_ns, ret ? s->cpu_ret : s->cpu);
    if (!r)
        return;
    if (s->dev || s->ino)
        snprintf(r->channel, sizeof(r->channel), "%s %llu:%llu+%llu", name,
                 (unsigned long long)s->dev, (unsigned long long)s->ino,
                 (unsigned long long)s->object);
    else
        snprintf(r->channel, sizeof(r->channel), "%s 0x%llx", name,
                 (unsigned long long)s->object);
    const char *err = s->err ? strerrorname_np((int)s->err) : NULL;
    snprintf(r->detail, sizeof(r->detail), "%s%s%s", name, s->err ? ": " : "",
             s->err ? (err ? err : "?") : "");
    const struct ips_segment_header *h =
        &j->graph->snap->streams[p->stream].head;
    add_call_site_to_row(j, r, p, s->site, t_ns,
                         ret ? ips_sub_sat(t_ns, stamp_ns(h, &s->h, s->h.t))
                             : 0);
}

/* Adds a row for a lock that was taken or released while no thread waited. */
static void add_uncontended_lock_row(struct events_job *j,
                                     const struct stream_entry *p,
                                     const struct ips_rec_lock *l,
                                     const char *type, uint64_t t_ns)
{
    const char *name = slave_sync_kind_text(l->h.a);
    struct event_row *r = add_row_within_limits(j, p, type, t_ns, l->cpu);
    if (!r)
        return;
    snprintf(r->channel, sizeof(r->channel), "%s 0x%llx", name,
             (unsigned long long)l->object);
    snprintf(r->detail, sizeof(r->detail), "%s: no thread waited", name);
}

static void add_rows_of_process_record(struct events_job *j,
                                       const struct stream_entry *p,
                                       const struct ips_segment_header *h,
                                       const struct ips_rec_head *rec)
{
    char detail[320] = "";
    uint64_t t = stamp_ns(h, rec, rec->t), ret;
    switch (ips_rec_type(rec)) {
    case IPS_REC_START:
        snprintf(detail, sizeof(detail), "kind %u, parent %u", rec->a,
                 AS(ips_rec_start)->ppid);
        add_text_row(j, p, "start", t, AS(ips_rec_start)->cpu, 0, detail);
        break;
    case IPS_REC_END:
        snprintf(detail, sizeof(detail), "kind %u, status %llu", rec->a,
                 (unsigned long long)AS(ips_rec_end)->status);
        add_text_row(j, p, "end", t, AS(ips_rec_end)->cpu, 0, detail);
        break;
    case IPS_REC_FORK:
        snprintf(detail, sizeof(detail), "kind %u, child %u, sequence %llu",
                 AS(ips_rec_fork)->kind, rec->a,
                 (unsigned long long)AS(ips_rec_fork)->fork_seq);
        append_event_row_with_call_site(j, p, rec, sizeof(struct ips_rec_fork),
                                        "fork", t, 0, AS(ips_rec_fork)->cpu, 0,
                                        detail);
        break;
    case IPS_REC_JOIN:
        snprintf(detail, sizeof(detail), "kind %u, child %u, status %u",
                 AS(ips_rec_join)->kind, rec->a, AS(ips_rec_join)->status);
        ret = stamp_ns(h, rec, AS(ips_rec_join)->t_ret);
        append_event_row_with_call_site(j, p, rec, sizeof(struct ips_rec_join),
                                        "join", ret, ips_sub_sat(ret, t),
                                        AS(ips_rec_join)->cpu_ret, 0, detail);
        break;
    case IPS_REC_EXEC:
        add_text_row(j, p, "exec", t, AS(ips_rec_exec)->cpu, 0,
                     AS(ips_rec_exec)->path);
        break;
    case IPS_REC_EXECFAIL:
        snprintf(detail, sizeof(detail), "errno %u", rec->a);
        add_text_row(j, p, "exec-failed", t, AS(ips_rec_exec)->cpu, 0, detail);
        break;
    case IPS_REC_PAGEFAULT:
        snprintf(detail, sizeof(detail), "%u major", rec->a);
        add_text_row(j, p, "page-fault", t, AS(ips_rec_cpu)->cpu, 0, detail);
        break;
    case IPS_REC_THREADCPU:
        snprintf(detail, sizeof(detail), "thread %u", rec->a);
        add_text_row(j, p, "thread-cpu", t, AS(ips_rec_cpu)->cpu, 0, detail);
        break;
    /* types that append_rows_or_stack_of_record handles, or that a later
     * version defines */
    default:
        break;
    }
}

static void append_rows_or_stack_of_record(struct events_job *j,
                                           const struct stream_entry *p,
                                           const struct ips_rec_head *rec)
{
    const struct ips_segment_header *h =
        &j->graph->snap->streams[p->stream].head;
    char detail[128] = "";
    uint64_t t = stamp_ns(h, rec, rec->t);
    if (ips_rec_type(rec) == IPS_REC_STACK) {
        bool follows = j->last && j->last_t == rec->t;
        if (slave_sites_keep_stack_and_note_for_row(
                &j->sites, follows ? &j->last->row : NULL, p->stream, h,
                (const uint8_t *)rec, (rec->word >> 8 & 0xffu) * 8, t,
                &j->job.err) < 0)
            j->last = NULL;
        return;
    }
    /* A MODULE record may come between a record and its STACK: keep j->last. */
    if (ips_rec_type(rec) == IPS_REC_MODULE)
        return;
    j->last = NULL;
    j->last_t = rec->t;
    switch (ips_rec_type(rec)) {
    case IPS_REC_SEND:
        add_rows_of_io_call(j, p, h, AS(ips_rec_io), "send", NULL);
        break;
    case IPS_REC_RECV:
        add_rows_of_io_call(j, p, h, AS(ips_rec_io), "receive-call", "receive");
        j->arrived_ns = 0;
        break;
    case IPS_REC_QUEUE:
        add_text_row(j, p, "queue", t, 0, rec->a, "");
        j->arrived_ns = t;
        break;
    case IPS_REC_RECVCALL:
        add_rows_of_io_call(j, p, h, AS(ips_rec_io), "receive-call", NULL);
        break;
    case IPS_REC_BLOCK:
        add_rows_of_io_call(j, p, h, AS(ips_rec_io), "block", "resume");
        break;
    case IPS_REC_MARK:
        add_text_row(j, p, "mark", t, AS(ips_rec_text)->cpu, 0,
                     AS(ips_rec_text)->text);
        break;
    case IPS_REC_NAME:
        add_text_row(j, p, "name", t, AS(ips_rec_text)->cpu, 0,
                     AS(ips_rec_text)->text);
        break;
    case IPS_REC_LOST:
        snprintf(detail, sizeof(detail), "%llu: %s",
                 (unsigned long long)AS(ips_rec_lost)->count,
                 slave_lost_cause_text(rec->a));
        add_text_row(j, p, "lost", t, 0, 0, detail);
        break;
    case IPS_REC_CHAN:
        snprintf(detail, sizeof(detail), "descriptor %u", AS(ips_rec_chan)->fd);
        add_text_row(j, p, "channel", t, 0, rec->a, detail);
        break;
    case IPS_REC_CLOSE:
        snprintf(detail, sizeof(detail), "descriptor %u, how %u",
                 AS(ips_rec_close)->fd, AS(ips_rec_close)->how);
        append_event_row_with_call_site(j, p, rec, sizeof(struct ips_rec_close),
                                        "close", t, 0, AS(ips_rec_close)->cpu,
                                        rec->a, detail);
        break;
    case IPS_REC_ENTER:
    case IPS_REC_EXIT:
        snprintf(detail, sizeof(detail), "0x%llx",
                 (unsigned long long)AS(ips_rec_proc)->procedure);
        add_text_row(j, p,
                     ips_rec_type(rec) == IPS_REC_ENTER ? "enter" : "exit", t,
                     AS(ips_rec_proc)->cpu, 0, detail);
        break;
    case IPS_REC_ACQUIRE:
        add_sync_row(j, p, AS(ips_rec_sync), "acquire-call", false, t);
        add_sync_row(j, p, AS(ips_rec_sync), "acquire", true,
                     stamp_ns(h, rec, AS(ips_rec_sync)->t_ret));
        break;
    case IPS_REC_KILL:
    case IPS_REC_SIGNAL:
        snprintf(detail, sizeof(detail), "signal %u %s %d", rec->a,
                 ips_rec_type(rec) == IPS_REC_KILL ? "to" : "from",
                 AS(ips_rec_signal)->tid ? AS(ips_rec_signal)->tid
                                         : AS(ips_rec_signal)->pid);
        if (ips_rec_type(rec) == IPS_REC_KILL)
            append_event_row_with_call_site(
                j, p, rec, sizeof(struct ips_rec_signal), "kill", t, 0,
                AS(ips_rec_signal)->cpu, 0, detail);
        else
            add_text_row(j, p, "signal", t, AS(ips_rec_signal)->cpu, 0, detail);
        break;
    case IPS_REC_RELEASE:
        add_sync_row(j, p, AS(ips_rec_sync), "release", false, t);
        break;
    case IPS_REC_ACQUIRE_SHORT:
        add_uncontended_lock_row(j, p, AS(ips_rec_lock), "acquire", t);
        break;
    case IPS_REC_RELEASE_SHORT:
        add_uncontended_lock_row(j, p, AS(ips_rec_lock), "release", t);
        break;
    /* all other types; types that only a later version defines are ignored */
    default:
        add_rows_of_process_record(j, p, h, rec);
    }
}

/* Adds rows until the page is full. Returns false if these are the last rows:
 * at the end of all streams, or when j->limit rows were sent. */
static bool fill_events_page(struct events_job *j)
{
    uint32_t places = j->graph->snap->stream_count;
    while (j->at_entry < places) {
        const struct stream_entry *p = &j->stream_entry[j->at_entry];
        const struct ips_stream_in *in = &j->in.streams[p->stream];
        if (j->at_chunk >= in->chunk_count ||
            !slave_is_chain_of_object(&j->graph->b, j->machine, j->object,
                                      p->chain)) {
            j->at_entry++;
            j->at_chunk = 0;
            j->at_byte = 0;
            slave_reset_expander(&j->proc_line);
            continue;
        }
        const struct ips_chunk *c = &in->chunks[j->at_chunk];
        while (j->at_byte < c->len) {
            const struct ips_rec_head *rec =
                (const struct ips_rec_head *)(const void *)(c->data +
                                                            j->at_byte);
            /* a STACK record belongs to the row before it: handle it even if
             * the page is full */
            if (ips_rec_type(rec) != IPS_REC_STACK) {
                if (j->row_count >= j->piece_rows)
                    return true;
                if (j->limit && j->sent >= j->limit)
                    return false;
            }
            uint32_t type = ips_rec_type(rec),
                     len = (rec->word >> 8 & 0xffu) * 8;
            j->at_byte += len;
            const uint8_t *whole = slave_expand_record_if_short(
                &j->proc_line, &j->graph->snap->streams[p->stream].head.clock,
                (const uint8_t *)rec, &type, &len);
            if (whole)
                append_rows_or_stack_of_record(
                    j, p, (const struct ips_rec_head *)(const void *)whole);
        }
        j->at_chunk++;
        j->at_byte = 0;
    }
    return false;
}

static void answer_events(struct slave_job *job, struct slave_graphs *gs)
{
    struct events_job *j = events_job_of(job);
    if (!j->begun && prepare_events(j, gs) < 0) {
        slave_job_fail(job);
        return;
    }
    j->row_count = 0;
    j->last = NULL;
    slave_sites_drop_remembered_rows(&j->sites);
    job->finished = !fill_events_page(j);
    if (job->err.code || slave_sites_set_code_texts_of_rows(
                             &j->sites, gs, j->graph, &job->err) < 0) {
        slave_job_fail(job);
        return;
    }
    ips__events_answer__init(&j->answer);
    j->answer.events = j->ptrs;
    j->answer.n_events = j->row_count;
    job->reply.answer_case = IPS__REPLY__ANSWER_EVENTS;
    job->reply.events = &j->answer;
}

struct slave_job *slave_events_make_job(const Ips__Request *request,
                                        struct slave_snapshot *snap,
                                        const char *machine)
{
    const Ips__EventsAsk *ask = request->events;
    struct events_job *j = calloc(1, sizeof(*j));
    if (!j) {
        slave_snapshot_free(snap);
        return NULL;
    }
    snprintf(j->machine, sizeof(j->machine), "%s", machine);
    snprintf(j->object, sizeof(j->object), "%s", ask->object);
    j->snap = snap;
    j->from_ns = ask->from_ns;
    j->to_ns = ask->to_ns;
    j->limit = ask->limit;
    j->sites.sites = ask->sites;
    j->sites.stacks = ask->stacks;
    j->piece_rows = ask->stacks  ? PIECE_ROWS_STACKS
                    : ask->sites ? PIECE_ROWS_SITES
                                 : PIECE_ROWS;
    j->job.id = request->id;
    j->job.credit = ask->window ? ask->window : UINT64_MAX;
    j->job.step = answer_events;
    j->job.release = release_events;
    ips__reply__init(&j->job.reply);
    return &j->job;
}
