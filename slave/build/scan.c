/* Pass `scan`, the first reading of every record: fills the streams and
 * collects the rare records (build/internal.h). */
#include <errno.h>

#include "slave/build/plain.h"

const uint16_t b_rec_min[256] = {
#define X(name, code, record, text) [code] = sizeof(struct record),
#include "agent/pool/events.def"
#undef X
};

struct scan {
    struct build *b;
    struct b_stream *s;
    uint32_t index;
    bool polled; /* a poll slept at poll_t, and the receive that it waited for
                    has not come yet */
    uint64_t poll_t;
    bool nested; /* the last poll waited for a nested epoll; the next poll shows
                    what ended it */
    uint64_t t;  /* time of the current record, ns */
    uint64_t call_t; /* start of the last call that has a record, ns */
    uint32_t word;
};

static void extend_stream_times(struct b_stream *s, uint64_t t, uint64_t t_ret)
{
    if (s->empty) {
        s->empty = false;
        s->first_ns = t;
        s->last_ns = t_ret;
    }
    s->first_ns = ips_min_u64(s->first_ns, t);
    s->last_ns = ips_max_u64(s->last_ns, t_ret);
}

static void extend_cpu_range_of_stream(struct b_stream *s, uint64_t cpu)
{
    if (s->first_cpu == IPS_CPU_UNKNOWN)
        s->first_cpu = cpu;
    s->last_cpu = ips_max_u64(s->last_cpu, cpu);
}

/* Updates `polled` and `nested`: whether a poll that slept still waits for the
 * record that shows its cause, which may be an eventfd (docs/design/build.md).
 */
static void update_pending_poll(struct scan *c, uint32_t type,
                                const struct ips_rec_io *r, uint64_t t_ret)
{
    if (type == IPS_REC_SEND)
        return;
    bool poll =
        type == IPS_REC_BLOCK && r->op >= IPS_OP_POLL && r->op <= IPS_OP_EPOLL;
    bool slept = b_blocked_ns(c->t, t_ret, r->cpu, r->cpu_ret) >= B_BLOCKED_NS;
    if (type == IPS_REC_BLOCK && r->op == IPS_OP_SPIN) {
        c->poll_t = c->t; /* spinning counts as waiting */
        c->polled = c->b->spun = true;
        return;
    }
    if (poll && r->result > 0 && (c->nested || (!slept && c->polled))) {
        c->polled = true;
        c->nested = false;
        return;
    }
    c->polled = poll && slept && r->result > 0 && !r->ready;
    c->nested = poll && slept && r->result > 0 && r->ready == IPS_READY_EPOLL;
    c->poll_t = c->t;
}

/* Adds a b_sync for a poll that slept until an eventfd was written, or until a
 * queue got a message or space. The poll waited for that event, whether or not
 * a read follows. Also handles a poll of a nested epoll, and a poll that was
 * repeated in a spin. */
static int add_sync_if_object_ended_poll(struct scan *c,
                                         const struct ips_rec_io *r,
                                         uint64_t t_ret)
{
    bool slept = b_blocked_ns(c->t, t_ret, r->cpu, r->cpu_ret) >= B_BLOCKED_NS;
    bool queue = ips_ready_is_message_queue(r->ready);
    if (!b_is_poll_ended_by_object(r) || (!slept && !c->polled))
        return 0;
    int rc = B_MORE(c->b->syncs, c->b->err);
    if (rc == 0)
        c->b->syncs.v[c->b->syncs.n++] = (struct b_sync){
            .t = c->polled ? c->poll_t : c->t,
            .t_ret = ips_max_u64(t_ret, c->t),
            .cpu = r->cpu_ret,
            .ino = IPS_READY_NUMBER(r->ready),
            .object = queue && r->h.a == IPS_READY_OUT ? IPS_SYNC_OF_SPACE : 0,
            .stream = c->index,
            .value = 1,
            .kind = queue ? IPS_SYNC_SEMAPHORE : IPS_SYNC_EVENTFD,
            .polled = true};
    c->polled = false;
    return rc;
}

/* Adds an entry to takings[] for a poll that slept for a signalfd. If a read of
 * the signalfd follows, removes this entry again, because the SIGNAL records of
 * the read have the senders. */
static int add_or_drop_signal_taken_by_poll(struct scan *c,
                                            const struct ips_rec_io *r,
                                            uint64_t t_ret)
{
    struct build *b = c->b;
    struct b_signal_taken *last = b->takings.n > c->s->first_taking
                                      ? &b->takings.v[b->takings.n - 1]
                                      : NULL;
    if (r->op == IPS_OP_SIGNALFD && r->result > 0 && last && last->polled &&
        last->stream == c->index)
        b->takings.n--;
    bool slept = b_blocked_ns(c->t, t_ret, r->cpu, r->cpu_ret) >= B_BLOCKED_NS;
    if (!b_is_poll_with_result(r) || !ips_ready_is_signalfd(r->ready) || !slept)
        return 0;
    int rc = B_MORE(b->takings, b->err);
    if (rc == 0)
        b->takings.v[b->takings.n++] = (struct b_signal_taken){
            .t = ips_max_u64(t_ret, c->t),
            .asked = c->t,
            .cpu = r->cpu_ret,
            .stream = c->index,
            .node = IPS_NO_NODE,
            .sig = r->ready & (IPS_READY_SIGNALFD_BIT - 1),
            .kill = IPS_NONE,
            .child = IPS_NONE,
            .polled = true};
    return rc;
}

static int scan_io(struct scan *c, uint32_t type, const uint8_t *p)
{
    struct ips_rec_io r;
    memcpy(&r, p, sizeof(r));
    uint64_t t_ret = b_stamp_to_ns(&c->s->clock, c->word, r.t_ret);
    extend_stream_times(c->s, c->t, t_ret);
    extend_cpu_range_of_stream(c->s, ips_min_u64(r.cpu, r.cpu_ret));
    extend_cpu_range_of_stream(c->s, r.cpu_ret);
    c->call_t = c->t;
    int rc = b_scan_retry_record(c->b, c->s, type, &r, c->t, t_ret);
    if (rc < 0)
        return rc;
    if (type != IPS_REC_BLOCK || !b_is_retry_record(r.op))
        update_pending_poll(c, type, &r, t_ret);
    c->s->node_capacity +=
        type == IPS_REC_SEND || type == IPS_REC_BLOCK ? 2 : 1;
    c->b->send_capacity += type == IPS_REC_SEND;
    if (type == IPS_REC_SEND || type == IPS_REC_RECV)
        b_plain_mark_used(c->b->used, &c->b->used_top, r.h.a,
                          type == IPS_REC_RECV);
    if (type != IPS_REC_BLOCK)
        return 0;
    rc = add_or_drop_signal_taken_by_poll(c, &r, t_ret);
    return rc == 0 ? add_sync_if_object_ended_poll(c, &r, t_ret) : rc;
}

static void scan_start_record(struct scan *c, const uint8_t *p)
{
    struct ips_rec_start r;
    struct b_stream *s = c->s;
    memcpy(&r, p, sizeof(r));
    extend_stream_times(s, c->t, c->t);
    extend_cpu_range_of_stream(s, r.cpu);
    if (r.h.a == IPS_START_KNOWN && !s->fork_seq)
        s->fork_seq = r.fork_seq;
    if (s->start_kind || r.h.a == IPS_START_KNOWN)
        return; /* only the first START counts */
    s->start_kind =
        r.h.a >= IPS_START_ROOT && r.h.a <= IPS_START_TASK ? (uint8_t)r.h.a : 0;
    s->ppid = r.ppid;
    s->start_ns = c->t;
    s->start_cpu = r.cpu;
    s->fork_seq = r.fork_seq;
    s->parent_image = r.parent_image;
}

static int scan_fork(struct scan *c, const uint8_t *p)
{
    struct ips_rec_fork r;
    memcpy(&r, p, sizeof(r));
    uint64_t t_ret = b_stamp_to_ns(&c->s->clock, c->word, r.t_ret);
    extend_stream_times(c->s, c->t, t_ret);
    extend_cpu_range_of_stream(c->s, r.cpu_ret);
    c->s->node_capacity += 2;
    int rc = B_MORE(c->b->forks, c->b->err);
    if (rc < 0)
        return rc;
    struct b_fork *f = &c->b->forks.v[c->b->forks.n++];
    *f = (struct b_fork){.t = c->t,
                         .t_ret = ips_max_u64(t_ret, c->t),
                         .cpu = r.cpu,
                         .cpu_ret = ips_max_u64(r.cpu_ret, r.cpu),
                         .seq = r.fork_seq,
                         .done_ns = UINT64_MAX,
                         .pid = r.h.a,
                         .stream = c->index,
                         .child = IPS_NONE,
                         .child_proc = IPS_NONE,
                         .node = IPS_NO_NODE,
                         .failed = r.err != 0};
    if (r.kind >= IPS_FORK_FORK && r.kind <= IPS_FORK_TASK)
        f->kind = (uint8_t)r.kind;
    else
        f->failed = true;
    return 0;
}

/* Whether `status`, as wait() returned it, means that the child ended;
 * otherwise the child was stopped or continued. */
static bool is_status_of_ended_child(uint32_t status)
{
    return (status & 0x7fu) != 0x7fu;
}

static int scan_join(struct scan *c, const uint8_t *p)
{
    struct ips_rec_join r;
    memcpy(&r, p, sizeof(r));
    b_link_retry_to_next_join(c->b, c->s, c->t);
    uint64_t t_ret = b_stamp_to_ns(&c->s->clock, c->word, r.t_ret);
    extend_stream_times(c->s, c->t, t_ret);
    extend_cpu_range_of_stream(c->s, r.cpu_ret);
    c->s->node_capacity++;
    int rc = B_MORE(c->b->joins, c->b->err);
    if (rc < 0)
        return rc;
    c->b->joins.v[c->b->joins.n++] = (struct b_join){
        .t_ret = ips_max_u64(t_ret, c->t),
        .seq = r.seq,
        .child_cpu = r.child_cpu_ns,
        .pid = r.h.a,
        .status = r.status,
        .stream = c->index,
        .child = IPS_NONE,
        .child_proc = IPS_NONE,
        .nap_ret_ns = c->s->nap_ret_ns,
        .node = IPS_NO_NODE,
        .kind = r.kind >= IPS_JOIN_WAIT && r.kind <= IPS_JOIN_GONE
                    ? (uint8_t)r.kind
                    : 0,
        .ended = r.kind != IPS_JOIN_WAIT || is_status_of_ended_child(r.status),
    };
    return 0;
}

static int scan_chan(struct scan *c, const uint8_t *p)
{
    struct ips_rec_head h;
    memcpy(&h, p, sizeof(h));
    extend_stream_times(c->s, c->t, c->t);
    int rc = B_MORE(c->b->chans, c->b->err);
    if (rc < 0)
        return rc;
    c->b->chans.v[c->b->chans.n++] = (struct b_chan){
        .t = c->t,
        .rec = p,
        .id = h.a,
        .stream = c->index,
        .end_recv = IPS_NONE,
        .end_send = IPS_NONE,
    };
    return 0;
}

/* Adds a b_sync for a signal of mq_notify: the thread waited for a message, but
 * did not take it. */
static int append_sync_of_mq_notify_signal(struct scan *c,
                                           const struct ips_rec_signal *r)
{
    int rc = B_MORE(c->b->syncs, c->b->err);
    if (rc == 0)
        c->b->syncs.v[c->b->syncs.n++] =
            (struct b_sync){.t = c->call_t,
                            .t_ret = c->t,
                            .cpu = r->cpu,
                            .ino = r->value,
                            .stream = c->index,
                            .kind = IPS_SYNC_SEMAPHORE,
                            .notified = true};
    return rc;
}

static int scan_kill_or_signal(struct scan *c, uint32_t type, const uint8_t *p)
{
    struct ips_rec_signal r;
    memcpy(&r, p, sizeof(r));
    extend_stream_times(c->s, c->t, c->t);
    extend_cpu_range_of_stream(c->s, r.cpu);
    c->s->node_capacity++;
    bool kill = type == IPS_REC_KILL;
    int rc = kill ? B_MORE(c->b->kills, c->b->err)
                  : B_MORE(c->b->takings, c->b->err);
    if (rc < 0)
        return rc;
    if (kill)
        c->b->kills.v[c->b->kills.n++] =
            (struct b_kill){.t = c->t,
                            .cpu = r.cpu,
                            .value = r.value,
                            .stream = c->index,
                            .node = IPS_NO_NODE,
                            .pid = r.pid > 0 ? (uint32_t)r.pid : 0,
                            .tid = r.tid > 0 ? (uint32_t)r.tid : 0,
                            .sig = r.h.a,
                            .group = r.pid < -1 ? 0u - (uint32_t)r.pid : 0,
                            .to_group = r.pid <= 0};
    else
        c->b->takings.v[c->b->takings.n++] =
            (struct b_signal_taken){.t = c->t,
                                    .cpu = r.cpu,
                                    .value = r.value,
                                    .stream = c->index,
                                    .node = IPS_NO_NODE,
                                    .from = r.pid > 0 ? (uint32_t)r.pid : 0,
                                    .sig = r.h.a,
                                    .code = r.code,
                                    .kill = IPS_NONE,
                                    .child = IPS_NONE};
    return !kill && b_is_mq_notify_signal(r.code, r.value)
               ? append_sync_of_mq_notify_signal(c, &r)
               : 0;
}

/* Completes the b_sync of a read of an eventfd or of an inotify watch. If a
 * poll waited for the event, the wait starts at the poll; if nothing waited,
 * the b_sync is `ready`. */
static void complete_sync_by_earlier_poll(struct scan *c,
                                          const struct ips_rec_sync *r,
                                          uint64_t t_ret)
{
    struct b_sync *s = &c->b->syncs.v[c->b->syncs.n - 1];
    bool slept = b_blocked_ns(c->t, t_ret, r->cpu, r->cpu_ret) >= B_BLOCKED_NS;
    if (c->polled)
        s->t = ips_min_u64(s->t, c->poll_t);
    s->ready = !slept && !c->polled;
    c->polled = false;
}

static int scan_sync(struct scan *c, uint32_t type, const uint8_t *p,
                     uint32_t len)
{
    struct ips_rec_sync r;
    memcpy(&r, p, sizeof(r));
    uint64_t t_ret = b_stamp_to_ns(&c->s->clock, c->word, r.t_ret);
    extend_stream_times(c->s, c->t, t_ret);
    extend_cpu_range_of_stream(c->s, ips_min_u64(r.cpu, r.cpu_ret));
    extend_cpu_range_of_stream(c->s, r.cpu_ret);
    c->call_t = c->t;
    c->s->node_capacity += type == IPS_REC_ACQUIRE ? 2 : 1;
    if (type == IPS_REC_RELEASE && b_is_release_mostly_without_waiter(r.h.a) &&
        c->b->nodes)
        return 0; /* no wait of an incremental build ends here */
    int rc =
        type == IPS_REC_ACQUIRE
            ? b_link_or_append_retry_of_acquire(c->b, c->s, &r, c->t, t_ret)
            : 0;
    if (rc < 0)
        return rc;
    rc = B_MORE(c->b->syncs, c->b->err);
    if (rc < 0)
        return rc;
    c->b->syncs.v[c->b->syncs.n++] = (struct b_sync){
        .t = c->t,
        .t_ret = ips_max_u64(t_ret, c->t),
        .cpu = type == IPS_REC_RELEASE ? r.cpu : r.cpu_ret,
        .dev = r.dev,
        .ino = r.ino,
        .object = r.object,
        .length = b_locked_length(p, len),
        .stream = c->index,
        .value = r.value,
        .err = r.err,
        .kind = r.h.a <= UINT8_MAX ? (uint8_t)r.h.a : 0,
        .release = type == IPS_REC_RELEASE,
        .ready = type == IPS_REC_ACQUIRE && r.value == B_SYNC_WAS_FREE,
    };
    if (type == IPS_REC_ACQUIRE && b_is_event_object(r.h.a) &&
        !b_is_connect_or_file_test_after_tries(r.h.a, r.value))
        complete_sync_by_earlier_poll(c, &r, t_ret);
    return 0;
}

static int scan_short_lock_record(struct scan *c, uint32_t type,
                                  const uint8_t *p)
{
    struct ips_rec_lock r;
    memcpy(&r, p, sizeof(r));
    bool release = type == IPS_REC_RELEASE_SHORT;
    extend_stream_times(c->s, c->t, c->t);
    extend_cpu_range_of_stream(c->s, r.cpu);
    c->s->node_capacity += release;
    int rc = B_MORE(c->b->syncs, c->b->err);
    if (rc < 0)
        return rc;
    c->b->syncs.v[c->b->syncs.n++] = (struct b_sync){
        .t = c->t,
        .t_ret = c->t,
        .cpu = r.cpu,
        .object = r.object,
        .stream = c->index,
        .value = release ? 1 : B_SYNC_WAS_FREE,
        .kind = r.h.a <= UINT8_MAX ? (uint8_t)r.h.a : 0,
        .release = release,
        .ready = !release,
        .is_short = true,
    };
    return 0;
}

static int scan_cpu_time_of_other_thread(struct scan *c, const uint8_t *p)
{
    struct ips_rec_cpu r;
    memcpy(&r, p, sizeof(r));
    int rc = B_MORE(c->b->cpus, c->b->err);
    if (rc < 0)
        return rc;
    c->b->cpus.v[c->b->cpus.n++] = (struct b_cpu){
        .t = c->t, .cpu = r.cpu, .stream = c->index, .tid = r.h.a};
    return 0;
}

static int scan_run_delay(struct scan *c, const uint8_t *p)
{
    struct ips_rec_delay r;
    memcpy(&r, p, sizeof(r));
    int rc = B_MORE(c->b->delays, c->b->err);
    if (rc < 0)
        return rc;
    c->b->delays.v[c->b->delays.n++] =
        (struct b_delay){.t = c->t, .ns = r.delay_ns};
    c->s->delay_count++;
    c->s->paged = false;
    return 0;
}

/* Each GUESSED record has the totals so far, so the last one is kept. */
static void store_totals_of_guessed_cpu(struct scan *c, const uint8_t *p)
{
    memcpy(&c->s->guessed, p, sizeof(c->s->guessed));
}

static void scan_end(struct scan *c, const uint8_t *p)
{
    struct ips_rec_end r;
    struct b_stream *s = c->s;
    memcpy(&r, p, sizeof(r));
    extend_stream_times(s, c->t, c->t);
    extend_cpu_range_of_stream(s, r.cpu);
    if (r.h.a < IPS_END_THREAD || r.h.a > IPS_END_TASK)
        return;
    s->end_kind = (uint8_t)r.h.a;
    s->end_ns = c->t;
    s->end_status = r.status;
}

/* Scans records that have the CPU time after the head: CLOSE, MARK, NAME, EXEC,
 * EXECFAIL, SAMPLE, ENTER, EXIT, PAGEFAULT. */
static void scan_record_with_cpu_time(struct scan *c, uint32_t type,
                                      const uint8_t *p, uint32_t len)
{
    uint64_t cpu;
    struct b_stream *s = c->s;
    memcpy(&cpu, p + sizeof(struct ips_rec_head), sizeof(cpu));
    extend_stream_times(s, c->t, c->t);
    extend_cpu_range_of_stream(s, cpu);
    if (type == IPS_REC_NAME) {
        s->name = p + sizeof(struct ips_rec_text);
        s->name_len = (uint32_t)strnlen((const char *)s->name,
                                        len - sizeof(struct ips_rec_text));
    } else if (type == IPS_REC_EXEC) {
        s->exec_ns = c->t;
        const uint8_t *path = p + sizeof(struct ips_rec_exec);
        s->exec =
            memchr(path, 0, len - sizeof(struct ips_rec_exec)) ? path : NULL;
        s->node_capacity++;
    } else if (type == IPS_REC_CLOSE) {
        s->node_capacity++;
    }
}

static int scan_record(struct scan *c, uint32_t type, const uint8_t *p,
                       uint32_t len)
{
    struct b_stream *s = c->s;
    if (type != IPS_REC_LOST && type != IPS_REC_NAME &&
        type != IPS_REC_THREADCPU && type != IPS_REC_SAMPLE &&
        type != IPS_REC_STACK && type != IPS_REC_MODULE &&
        type != IPS_REC_COUNT && type != IPS_REC_RUNDELAY &&
        type != IPS_REC_GUESSED && type != IPS_REC_CALLS &&
        type != IPS_REC_PAGEFAULT)
        s->exec_last = type == IPS_REC_EXEC;
    if (type == IPS_REC_BLOCK || type == IPS_REC_ACQUIRE || s->naps.count) {
        int rc = b_update_nap_run_with_record(c->b, s, type, p);
        if (rc < 0)
            return rc;
    }
    switch (type) {
    case IPS_REC_SEND:
    case IPS_REC_RECV:
    case IPS_REC_RECVCALL:
    case IPS_REC_BLOCK:
        return scan_io(c, type, p);
    case IPS_REC_START:
        scan_start_record(c, p);
        return 0;
    case IPS_REC_END:
        scan_end(c, p);
        return 0;
    case IPS_REC_FORK:
        return scan_fork(c, p);
    case IPS_REC_JOIN:
        return scan_join(c, p);
    case IPS_REC_CHAN:
        return scan_chan(c, p);
    case IPS_REC_KILL:
    case IPS_REC_SIGNAL:
        return scan_kill_or_signal(c, type, p);
    case IPS_REC_THREADCPU:
        return scan_cpu_time_of_other_thread(c, p);
    case IPS_REC_ACQUIRE:
    case IPS_REC_RELEASE:
        return scan_sync(c, type, p, len);
    case IPS_REC_ACQUIRE_SHORT:
    case IPS_REC_RELEASE_SHORT:
        return scan_short_lock_record(c, type, p);
    case IPS_REC_PAGEFAULT:
        c->s->paged = true;
        c->s->node_capacity += 2;
        scan_record_with_cpu_time(c, type, p, len);
        return 0;
    case IPS_REC_RUNDELAY:
        return scan_run_delay(c, p);
    case IPS_REC_GUESSED:
        store_totals_of_guessed_cpu(c, p);
        return 0;
    case IPS_REC_UNSEEN:
        extend_stream_times(c->s, c->t, c->t);
        return b_scan_unrecorded(c->b, c->index, c->t, p, len);
    case IPS_REC_MODULE:
        return b_scan_runtime_module(c->b, c->index, c->t, p, len);
    case IPS_REC_COUNT:
        c->b->out->counts.code++;
        return 0;
    case IPS_REC_SAMPLE:
    case IPS_REC_ENTER:
    case IPS_REC_EXIT:
        c->b->out->counts.code++;
        scan_record_with_cpu_time(c, type, p, len);
        return 0;
    case IPS_REC_CLOSE:
    case IPS_REC_MARK:
    case IPS_REC_NAME:
    case IPS_REC_EXEC:
    case IPS_REC_EXECFAIL:
        scan_record_with_cpu_time(c, type, p, len);
        return 0;
    default: /* DGRAM, LOST, reserved and unknown types */
        return 0;
    }
}

static int scan_stream(struct build *b, uint32_t index)
{
    struct b_stream *s = &b->streams[index];
    struct scan c = {.b = b, .s = s, .index = index};
    struct b_walk walk = {.in = s->in};
    uint32_t type, len;
    const uint8_t *p;
    s->first_fork = b->forks.n;
    s->first_join = b->joins.n;
    s->first_kill = b->kills.n;
    s->first_taking = b->takings.n;
    s->first_sync = b->syncs.n;
    s->first_retry = b->retries.n;
    s->first_made = b->mades.n;
    s->first_nap_run = b->nap_runs.n;
    s->first_delay = b->delays.n;
    s->empty = true;
    s->first_cpu = IPS_CPU_UNKNOWN;
    /* room for the nodes of START, of the start of the image, of a send that
     * never returned, of the signal that ended that call, and of END */
    s->node_capacity = 5;
    for (;;) {
        bool received = false;
        if (!b->in->general && !s->napped_count &&
            b_scan_plain_records(b, s, &walk, &received)) {
            s->try_count = 0;
            s->naps.count = 0;
            s->exec_last = false;
            c.polled &= !received;
        }
        p = b_next_record(&walk, &type, &len);
        if (!p)
            break;
        struct ips_rec_head h;
        memcpy(&h, p, sizeof(h));
        c.word = h.word;
        c.t = b_stamp_to_ns(&s->clock, c.word, h.t);
        s->events++;
        int rc = scan_record(&c, type, p, len);
        if (rc < 0)
            return rc;
    }
    if (s->empty)
        s->first_ns = s->last_ns = s->stream_ns;
    if (s->first_cpu == IPS_CPU_UNKNOWN)
        s->first_cpu = 0;
    b->node_capacity += s->node_capacity;
    b->out->counts.events += s->events;
    return b_collect_channel_uses(b, index);
}

int b_scan_new_records(struct build *b, uint32_t index, struct b_walk *walk)
{
    struct b_stream *s = &b->streams[index];
    struct scan c = {.b = b, .s = s, .index = index};
    uint64_t events = s->events, first_ns = s->first_ns;
    bool goes_on = !s->end_kind && !s->exec_last && !s->in->dead;
    uint32_t type, len;
    /* New tries would turn earlier sleeps into naps. Those sleeps have nodes
     * already, so then the whole run must be built again. */
    uint32_t retries = b->retries.n, nap_runs = b->nap_runs.n;
    const uint8_t *p;
    s->first_fresh = b->delays.n;
    bool plain = goes_on && !s->empty && !b->in->general, received;
    while (!b->broken) {
        struct ips_rec_head h;
        if (plain && !s->napped_count &&
            b_scan_plain_records(b, s, walk, &received))
            s->try_count = s->naps.count = 0;
        p = b_next_record(walk, &type, &len);
        if (!p)
            break;
        s->events++;
        if (b->tables && goes_on && b_scan_if_common_call(s, type, p))
            continue;
        memcpy(&h, p, sizeof(h));
        c.word = h.word;
        c.t = b_stamp_to_ns(&s->clock, c.word, h.t);
        /* A reading of the run delay shortens the sleeps of the page faults
         * before it, whose nodes are made already. */
        b->broken |= type == IPS_REC_RUNDELAY && s->paged;
        b->broken |= !b_can_add_incrementally(type, p, len) || s->end_kind ||
                     s->exec_last || s->empty || s->in->dead;
        int rc = b->broken ? 0 : scan_record(&c, type, p, len);
        if (rc < 0)
            return rc;
    }
    b->broken |= s->first_ns != first_ns || b->retries.n > retries ||
                 b->nap_runs.n > nap_runs;
    b->out->counts.events += s->events - events;
    return 0;
}

/* Orders streams by image. Within an image, the main thread's stream comes
 * first and tasks come last. */
static int compare_streams_by_image_and_thread(const void *va, const void *vb)
{
    const struct b_stream *a = va, *b = vb;
    const struct ips_segment_header *x = &a->in->head, *y = &b->in->head;
    CMP3(x->pidns, y->pidns);
    CMP3(x->pid, y->pid);
    CMP3(a->image_ns, b->image_ns);
    CMP3(x->image_stamp, y->image_stamp);
    CMP3(a->task, b->task);
    CMP3(x->tid != x->pid, y->tid != y->pid);
    CMP3(a->stream_ns, b->stream_ns);
    CMP3(x->tid, y->tid);
    CMP3(x->seq, y->seq);
    return a->in < b->in ? -1 : a->in > b->in;
}

int b_scan_all_streams(struct build *b)
{
    uint32_t n = b->in->stream_count;
    b->streams = b_calloc(n, sizeof(*b->streams), b->err);
    b->used = b_calloc(B_USED_IDS, 2, b->err);
    if (!b->streams || !b->used)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        struct b_stream *s = &b->streams[i];
        s->in = &b->in->streams[i];
        s->clock = s->in->head.clock;
        s->task = s->in->head.flags & IPS_SEGMENT_TASK;
        b->out->counts.tasks += s->task;
        s->image_ns = b_ticks_to_ns(&s->clock, s->in->head.image_stamp);
        s->stream_ns = b_ticks_to_ns(&s->clock, s->in->head.stream_stamp);
        s->next = IPS_NONE;
        s->chain = IPS_NONE;
    }
    qsort(b->streams, n, sizeof(*b->streams),
          compare_streams_by_image_and_thread);
    for (uint32_t i = 0; i < n; i++) {
        int rc = scan_stream(b, i);
        if (rc < 0)
            return rc;
    }
    b_sum_guesses_and_lost_records(b);
    return 0;
}
