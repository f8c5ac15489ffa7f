/*
 * Implements tasks, each with its own stream (marks: api/mark.c).
 *
 * How tasks are identified in the pool: their segments have the pid, pidns and
 * image_stamp of the process (those of the preload library if it is loaded), so
 * all tasks belong to that image. tid is the task's number, 1, 2, ... within
 * the image, and the flags contain IPS_SEGMENT_TASK. START (kind TASK) has the
 * FORK's fork_seq and ptid = number of the parent task, both 0 for a root; FORK
 * and JOIN (kind TASK) have a = number of the child and its fork_seq.
 *
 * Each (task, channel, direction) has one CHAN record: kind USER, name_hash =
 * FNV-1a of the name, side WRITE for sends and READ for receives. Bit 31 of the
 * channel id is set, because the interposer numbers its own channels from 1 in
 * the same image.
 */
#include <stdatomic.h>
#include <string.h>

#include "agent/api/api.h"
#include "agent/api/text.h"
#include "agent/record/cpu.h"
#include "agent/record/fast.h"
#include "agent/record/sys.h"
#include "common/types.h"

#define CHANNEL_ID_BIT 0x80000000u

struct channel { /* entry of a hash table; id 0 = free */
    uint64_t name_hash;
    uint32_t side;
    uint32_t id;
};

struct ips_task {
    struct ips_stream stream;
    uint64_t start_thread_cpu_ns; /* for IPS_NOW: thread CPU ns when the task
                                     started */
    uint64_t fork_seq;
    bool ended;
    struct channel *channels;  /* hash table, open addressing */
    uint32_t channel_capacity; /* a power of two */
    uint32_t channel_count;
};

static _Atomic uint32_t task_number;
static _Atomic uint32_t channel_number;

/* A time stamp as a record stores it. */
struct moment {
    uint64_t t;
    uint64_t cpu;
    uint32_t flags;
};

static struct moment
task_moment_from_stamp_or_clocks(const struct ips_task *task,
                                 const struct ips_stamp *at)
{
    if (at)
        return (struct moment){at->t_ns, at->cpu_ns, IPS_REC_F_NS};
    struct ips_moment now = ips_moment_now();
    return (struct moment){now.t,
                           ips_sub_sat(now.cpu, task->start_thread_cpu_ns), 0};
}

/* Computes the stamps of a call and its return: both as the program passed
 * them, or both read from the clocks. If the program passed only one, it is
 * used for both. */
static void fill_moments_from_call_and_return_stamps(
    const struct ips_task *task, const struct ips_stamp *call,
    const struct ips_stamp *ret, struct moment *m_call, struct moment *m_ret)
{
    *m_call = task_moment_from_stamp_or_clocks(task, call ? call : ret);
    *m_ret = call || ret
                 ? task_moment_from_stamp_or_clocks(task, ret ? ret : call)
                 : *m_call;
}

static uint64_t map_pages(uint64_t bytes)
{
    uint64_t at = ips_sys_mmap(0, bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1);
    return ips_sys_is_error(at) ? 0 : at;
}

/* May records be written for `task`? Not after its end, in a fork child or in a
 * vfork child. */
static bool may_write_task_records(const struct ips_task *task)
{
    return task && !task->ended && !ips_me.in_vfork &&
           task->stream.generation == ips_core.generation;
}

static void *begin_task_record(struct ips_task *task, enum ips_rec_type type,
                               size_t bytes, const struct moment *m)
{
    void *rec = ips_stream_begin_record(&task->stream, type, bytes, m->t);
    if (rec && m->flags)
        ips_rec_add_flags(rec, m->flags);
    return rec;
}

/* --- channels ------------------------------------------------------ */

static struct channel *find_channel_or_free_slot(struct channel *table,
                                                 uint32_t room, uint64_t hash,
                                                 uint32_t side)
{
    uint32_t i = (uint32_t)(hash ^ hash >> 32) + side;
    for (;; i++) {
        struct channel *c = &table[i & (room - 1)];
        if (!c->id || (c->name_hash == hash && c->side == side))
            return c;
    }
}

static bool grow_channel_table(struct ips_task *task)
{
    uint32_t room = task->channel_capacity ? task->channel_capacity * 2 : 256;
    struct channel *table =
        (struct channel *)map_pages(room * sizeof(struct channel));
    if (!table)
        return false;
    for (uint32_t i = 0; i < task->channel_capacity; i++) {
        const struct channel *c = &task->channels[i];
        if (c->id)
            *find_channel_or_free_slot(table, room, c->name_hash, c->side) = *c;
    }
    if (task->channels)
        ips_sys_munmap((uint64_t)task->channels,
                       task->channel_capacity * sizeof(struct channel));
    task->channels = table;
    task->channel_capacity = room;
    return true;
}

/* Returns the id of the channel `name` in this task, or 0 if the channel cannot
 * be recorded. Writes a CHAN record at the first use of the channel. */
static uint32_t find_or_record_channel(struct ips_task *task, const char *name,
                                       uint32_t side, const struct moment *m)
{
    uint64_t hash = ips_fnv1a(IPS_FNV_SEED, name, strlen(name));
    if (task->channel_count * 2 >= task->channel_capacity &&
        !grow_channel_table(task)) {
        ips_stream_count_and_write_lost(&task->stream, IPS_LOST_NO_CHANNEL, 1);
        return 0;
    }
    struct channel *c = find_channel_or_free_slot(
        task->channels, task->channel_capacity, hash, side);
    if (c->id)
        return c->id;
    struct ips_rec_chan *rec =
        begin_task_record(task, IPS_REC_CHAN, sizeof(*rec), m);
    if (!rec)
        return 0;
    *c = (struct channel){hash, side,
                          CHANNEL_ID_BIT |
                              (1 + atomic_fetch_add(&channel_number, 1))};
    task->channel_count++;
    rec->h.a = c->id;
    rec->kind = IPS_CHAN_USER;
    rec->side = (uint8_t)side;
    rec->name_hash = hash;
    ips_rec_publish(rec);
    return c->id;
}

static void record_task_send_or_receive(struct ips_task *task,
                                        enum ips_rec_type type,
                                        const char *channel, uint64_t bytes,
                                        const struct moment *call,
                                        const struct moment *ret)
{
    uint32_t side = type == IPS_REC_SEND ? IPS_SIDE_WRITE : IPS_SIDE_READ;
    uint32_t id = find_or_record_channel(task, channel, side, call);
    if (!id)
        return;
    struct ips_rec_io *rec = begin_task_record(task, type, sizeof(*rec), call);
    if (!rec)
        return;
    rec->h.a = id;
    rec->t_ret = ret->t;
    rec->cpu = call->cpu;
    rec->cpu_ret = ret->cpu;
    rec->result = (int64_t)bytes;
    rec->op = IPS_OP_DATA;
    ips_rec_publish(rec);
}

/* --- the API's functions ------------------------------------------- */

static int attach_once_and_check_recording(void)
{
    return ips_core_attach_to_run_once() && !ips_me.in_vfork;
}

#ifndef IPS_PRELOAD
/* Marks go into the streams of threads. Without the preload library there are
 * none. */
static void ignore_mark(const char *text)
{
    (void)text;
}
#endif

static void write_fork_record_of_parent(struct ips_task *parent,
                                        const struct moment *m,
                                        const struct ips_task *child)
{
    struct ips_rec_fork *rec =
        begin_task_record(parent, IPS_REC_FORK, sizeof(*rec), m);
    if (!rec)
        return;
    rec->h.a = child->stream.tid;
    rec->t_ret = m->t;
    rec->cpu = rec->cpu_ret = m->cpu;
    rec->fork_seq = child->fork_seq;
    rec->kind = IPS_FORK_TASK;
    ips_rec_publish(rec);
}

static struct ips_task *
create_task_and_record_fork(struct ips_task *parent,
                            const struct ips_stamp *parent_at, const char *name,
                            const struct ips_stamp *at)
{
    if (!attach_once_and_check_recording())
        return NULL;
    struct ips_task *task = (struct ips_task *)map_pages(sizeof(*task));
    if (!task)
        return NULL;
    task->start_thread_cpu_ns = ips_core_thread_cpu_ns();
    struct moment m = task_moment_from_stamp_or_clocks(task, at);
    struct ips_stream *s = &task->stream;
    s->generation = ips_core.generation;
    s->tid = 1 + atomic_fetch_add(&task_number, 1);
    s->flags = IPS_SEGMENT_TASK;
    s->stamp = ips_core_stamp_now();
    s->start_kind = IPS_START_TASK;
    s->start_t = m.t;
    s->start_cpu = m.cpu;
    s->start_flags = (uint8_t)m.flags;
    s->ppid = ips_core.pid;
    s->parent_image = ips_core.image_stamp;
    if (may_write_task_records(parent)) {
        struct moment pm = task_moment_from_stamp_or_clocks(parent, parent_at);
        task->fork_seq = s->fork_seq =
            1 + atomic_fetch_add_explicit(&ips_core.fork_seq, 1,
                                          memory_order_relaxed);
        s->ptid = parent->stream.tid;
        write_fork_record_of_parent(parent, &pm, task);
    }
    /* Beginning the first record of a stream also writes START before that
     * record. */
    size_t len = ips_text_truncated_length(name ? name : "");
    struct ips_rec_text *rec =
        begin_task_record(task, IPS_REC_NAME, sizeof(*rec) + len + 1, &m);
    if (rec)
        ips_text_fill_and_publish(rec, name ? name : "", len, m.cpu);
    return task;
}

static void record_task_send(struct ips_task *task, const char *channel,
                             uint64_t bytes, const struct ips_stamp *at)
{
    if (!channel || !may_write_task_records(task))
        return;
    struct moment m = task_moment_from_stamp_or_clocks(task, at);
    record_task_send_or_receive(task, IPS_REC_SEND, channel, bytes, &m, &m);
}

static void record_task_recv(struct ips_task *task, const char *channel,
                             uint64_t bytes, const struct ips_stamp *call,
                             const struct ips_stamp *ret)
{
    if (!channel || !may_write_task_records(task))
        return;
    struct moment m_call, m_ret;
    fill_moments_from_call_and_return_stamps(task, call, ret, &m_call, &m_ret);
    record_task_send_or_receive(task, IPS_REC_RECV, channel, bytes, &m_call,
                                &m_ret);
}

static void record_task_join(struct ips_task *task, struct ips_task *child,
                             const struct ips_stamp *call,
                             const struct ips_stamp *ret)
{
    if (!child || !may_write_task_records(task))
        return;
    struct moment m_call, m_ret;
    fill_moments_from_call_and_return_stamps(task, call, ret, &m_call, &m_ret);
    struct ips_rec_join *rec =
        begin_task_record(task, IPS_REC_JOIN, sizeof(*rec), &m_call);
    if (!rec)
        return;
    rec->h.a = child->stream.tid;
    rec->t_ret = m_ret.t;
    rec->cpu = m_call.cpu;
    rec->cpu_ret = m_ret.cpu;
    rec->seq = child->fork_seq;
    rec->child_cpu_ns = UINT64_MAX;
    rec->kind = IPS_JOIN_TASK;
    ips_rec_publish(rec);
}

static void record_task_end_and_end_stream(struct ips_task *task,
                                           const struct ips_stamp *at)
{
    if (!may_write_task_records(task))
        return;
    struct moment m = task_moment_from_stamp_or_clocks(task, at);
    struct ips_rec_end *rec =
        begin_task_record(task, IPS_REC_END, sizeof(*rec), &m);
    if (rec) {
        rec->h.a = IPS_END_TASK;
        rec->cpu = m.cpu;
        ips_rec_publish(rec);
    }
    ips_stream_close_segments_and_mark_ended(&task->stream);
    task->ended = true;
}

static void free_task(struct ips_task *task)
{
    if (!task || ips_me.in_vfork)
        return;
    if (!task->ended)
        ips_stream_close_segments_and_mark_ended(&task->stream);
    if (task->channels)
        ips_sys_munmap((uint64_t)task->channels,
                       task->channel_capacity * sizeof(struct channel));
    ips_sys_munmap((uint64_t)task, sizeof(*task));
}

const struct ips_api ips_api_own = {
    .version = IPS_API_VERSION,
    .active = attach_once_and_check_recording,
#ifdef IPS_PRELOAD
    .mark = ips_record_mark,
#else
    .mark = ignore_mark,
#endif
    .task_fork = create_task_and_record_fork,
    .task_send = record_task_send,
    .task_recv = record_task_recv,
    .task_join = record_task_join,
    .task_end = record_task_end_and_end_stream,
    .task_free = free_task,
};
