/*
 * A recorder's run (recorder.h) as a slave has it on disk, and asks of the
 * master answered as the worker does, without a loop, a connection or a thread.
 */
#ifndef IPS_TESTS_UNIT_HELP_ANSWER_HELP_H
#define IPS_TESTS_UNIT_HELP_ANSWER_HELP_H

#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "message_text.h"
#include "recorder.h"
#include "slave/serve/job.h"
#include "slave/store/store.h"

#define ANSWER_REPLIES 64u

/* A run that was ingested and committed, all of it in one turn. */
struct archived {
    struct recorder *r;
    char name[32], dir[96];
    int64_t id;
    uint64_t bytes;
    bool closed;
    struct slave_unrecorded_row unseen[4];
    uint32_t unseen_count;
    struct slave_load_row load;
};

/* One slave: its graphs and its database. */
struct answerer {
    char top[64], db[80];
    struct slave_graphs gs;
};

struct answer {
    Ips__Reply *reply[ANSWER_REPLIES];
    uint32_t count;
};

static inline void answerer_begin(struct answerer *a)
{
    slave_graphs_init(&a->gs, a->db, "");
}
static inline void answerer_open(struct answerer *a)
{
    memset(a, 0, sizeof(*a));
    snprintf(a->top, sizeof(a->top), "/dev/shm/answer-XXXXXX");
    assert_non_null(mkdtemp(a->top));
    snprintf(a->db, sizeof(a->db), "%s/slave.db", a->top);
    answerer_begin(a);
}
static inline void answerer_close(struct answerer *a)
{
    char command[100];
    slave_graphs_release(&a->gs);
    snprintf(command, sizeof(command), "rm -r %s", a->top);
    assert_int_equal(system(command), 0);
}

static inline size_t archived_records(const struct rec_stream *s)
{
    size_t n = 0;
    for (size_t at = 0; at < s->len; n++) {
        struct ips_rec_head h;
        memcpy(&h, s->data + at, sizeof(h));
        at += (size_t)(h.word >> 8 & 0xffu) * 8;
    }
    return n;
}

/* Packs all streams of `r`, a frame each. The run has an id of the database. */
static inline void archived_make(struct archived *v, struct answerer *a,
                                 struct recorder *r, const char *name)
{
    static uint8_t frames[SLAVE_FRAMES_BYTES];
    struct slave_archive archive;
    struct slave_run_row row = {.closed = true};
    struct ips_err err = {0};
    uint64_t missing;
    size_t used = 0;
    *v = (struct archived){.r = r, .closed = true};
    snprintf(v->name, sizeof(v->name), "%s", name);
    snprintf(v->dir, sizeof(v->dir), "%s/%s", a->top, name);
    assert_int_equal(mkdir(v->dir, 0700), 0);
    snprintf(row.name, sizeof(row.name), "%s", name);
    struct slave_store *store = slave_graphs_get_or_open_store(&a->gs, &err);
    assert_non_null(store);
    assert_int_equal(slave_store_insert_or_update_run(store, &row, &err), 0);
    v->id = row.id;
    for (uint32_t i = 0; i < r->count; i++) {
        struct slave_frame f = {.stream = i,
                                .bytes = (uint32_t)r->s[i].len,
                                .records =
                                    (uint32_t)archived_records(&r->s[i])};
        assert_true(used + sizeof(f) + f.bytes <= sizeof(frames));
        memcpy(frames + used, &f, sizeof(f));
        memcpy(frames + used + sizeof(f), r->s[i].data, f.bytes);
        used += sizeof(f) + f.bytes;
    }
    struct slave_pack *pack = slave_pack_new();
    assert_non_null(pack);
    assert_int_equal(slave_archive_open_and_cut_to_committed(&archive, v->dir,
                                                             0, &missing, &err),
                     0);
    assert_int_equal(slave_archive_pack_and_stage_frames(
                         &archive, pack, 1ULL << 32, frames, used, &err),
                     0);
    slave_archive_accept_staged_bytes(&archive);
    v->bytes = archive.length;
    slave_archive_close(&archive);
    slave_pack_free(pack);
}

static inline struct slave_snapshot *archived_snapshot(const struct archived *v)
{
    struct slave_snapshot *s = calloc(1, sizeof(*s));
    assert_non_null(s);
    snprintf(s->run, sizeof(s->run), "%s", v->name);
    snprintf(s->dir, sizeof(s->dir), "%s", v->dir);
    s->run_id = v->id;
    s->closed = v->closed;
    memcpy(&s->control, &v->r->control, sizeof(s->control));
    s->archive_bytes = v->bytes;
    s->archive_fd = slave_archive_open_for_reading(v->dir);
    s->streams = calloc(v->r->count + 1, sizeof(*s->streams));
    assert_non_null(s->streams);
    for (uint32_t i = 0; i < v->r->count; i++) {
        const struct rec_stream *from = &v->r->s[i];
        struct slave_stream_row *to = &s->streams[s->stream_count++];
        to->number = i;
        memcpy(&to->head, &from->head, sizeof(to->head));
        to->head.clock.mult_q32 = 1ULL << 32; /* stamps are ns */
        to->records = archived_records(from);
        to->dead = from->dead;
        to->dead_t_ns = from->dead_t_ns;
        to->dead_status = from->dead_status;
        memcpy(to->lost, from->lost, sizeof(from->lost));
    }
    s->unrecorded = calloc(v->unseen_count + 1, sizeof(*s->unrecorded));
    assert_non_null(s->unrecorded);
    memcpy(s->unrecorded, v->unseen, v->unseen_count * sizeof(*s->unrecorded));
    s->unrecorded_count = v->unseen_count;
    s->load = v->load;
    s->key = slave_snapshot_compute_key(s);
    return s;
}

/* All replies to `q`, deep copies. */
static inline struct answer
answerer_ask(struct answerer *a, const struct archived *v, Ips__Request *q)
{
    struct answer out = {0};
    Ips__RunState state = IPS__RUN_STATE__INIT;
    char name[32];
    snprintf(name, sizeof(name), "%s", v->name);
    q->id = 7;
    q->run = state.run = name;
    struct slave_job *job =
        q->ask_case == IPS__REQUEST__ASK_EVENTS
            ? slave_events_make_job(q, archived_snapshot(v), "m1")
            : slave_graph_make_job(
                  q, archived_snapshot(v),
                  q->ask_case == IPS__REQUEST__ASK_SYNC ? &state : NULL);
    assert_non_null(job);
    while (!job->finished) {
        job->err = (struct ips_err){0};
        job->step(job, &a->gs);
        job->reply.id = job->id;
        job->reply.last = job->finished;
        assert_true(out.count < ANSWER_REPLIES);
        size_t len = ips__reply__get_packed_size(&job->reply);
        uint8_t *data = malloc(len + 1);
        assert_non_null(data);
        ips__reply__pack(&job->reply, data);
        out.reply[out.count] = ips__reply__unpack(NULL, len, data);
        assert_non_null(out.reply[out.count]);
        free(data);
        out.count++;
    }
    job->release(job, &a->gs);
    free(job);
    return out;
}

static inline void answer_free(struct answer *x)
{
    for (uint32_t i = 0; i < x->count; i++)
        ips__reply__free_unpacked(x->reply[i], NULL);
    *x = (struct answer){0};
}

#endif
