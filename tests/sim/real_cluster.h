/*
 * A master and two slaves, all three as they are, in one process and one event
 * loop, with a run that was recorded and is closed; a client that takes any
 * answer. Header only; each test program includes it once.
 */
#ifndef IPS_TESTS_REAL_CLUSTER_H
#define IPS_TESTS_REAL_CLUSTER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>
#include <sys/stat.h>

#include "common/log.h"
#include "tests/bench/native/synth.h"
#include "tests/support/cluster.h"
#include "tests/support/fault.h"
#include "tests/support/real_slave.h"

#define REAL_SLAVES 2
#define REAL_PATIENCE_MS 60000u

struct real_cluster {
    struct cluster c; /* its master; no slaves of its own */
    struct real_slave *slave[REAL_SLAVES];
};

/* What a client got: every reply packed, behind each other, without what is
 * another at each question. */
struct real_answer {
    uint8_t *data;
    size_t len;
    unsigned replies;
    int error;
    char message[600];
    bool done, closed;
    bool incomplete;  /* its certificate says so ... */
    unsigned missing; /* ... and names so many machines */
};

static inline bool real_closed(struct real_cluster *r)
{
    for (int i = 0; i < REAL_SLAVES; i++)
        if (!real_slave_run_closed(r->slave[i], "r"))
            return false;
    return true;
}

/* Nothing is in hand anywhere, and all slaves are connected. */
static inline bool real_at_rest(struct real_cluster *r)
{
    struct master *m = &r->c.master;
    if (m->queries || m->client_count || m->clients)
        return false;
    for (int i = 0; i < REAL_SLAVES; i++) {
        const struct real_slave *s = r->slave[i];
        char machine[16];
        snprintf(machine, sizeof(machine), "m%d", i);
        const struct slave *known = roster_find(&m->roster, machine);
        if (!real_slave_at_rest(s) || !real_slave_connected(s) || !known ||
            !known->peer || known->runs == 0)
            return false;
    }
    return true;
}

static inline void real_settle(struct real_cluster *r)
{
    for (unsigned ms = 0; !real_at_rest(r) || !real_closed(r); ms++) {
        if (ms > REAL_PATIENCE_MS)
            fail_msg("the cluster does not come to rest");
        for (int i = 0; i < REAL_SLAVES; i++)
            real_slave_hurry(r->slave[i]);
        cluster_turn(&r->c, 1);
    }
}

/* Makes the run "r" of a slave in its pool. */
typedef int real_pool(const void *arg, uint32_t slave, const char *pool,
                      struct ips_err *err);

static inline int real_synth_pool(const void *arg, uint32_t slave,
                                  const char *pool, struct ips_err *err)
{
    return synth_pool(arg, slave, pool, "r", err);
}

/* `master`: where the slaves find it. */
static inline void real_slaves_start_with(struct real_cluster *r,
                                          real_pool *make_pool, const void *arg,
                                          const char *master)
{
    char pool[200];
    for (uint32_t i = 0; i < REAL_SLAVES; i++) {
        char machine[16];
        struct ips_err err = {0};
        snprintf(machine, sizeof(machine), "m%u", i);
        snprintf(pool, sizeof(pool), "%s/pool-%s", r->c.dir, machine);
        assert_int_equal(mkdir(pool, 0700), 0);
        if (make_pool(arg, i, pool, &err) < 0)
            fail_msg("%s", err.msg);
        r->slave[i] = real_slave_start(r->c.base, r->c.dir, machine, master);
    }
    real_settle(r);
}

static inline void real_slaves_start(struct real_cluster *r,
                                     const struct synth_options *o,
                                     const char *master)
{
    real_slaves_start_with(r, real_synth_pool, o, master);
}

static inline void real_start(struct real_cluster *r,
                              const struct synth_options *o)
{
    cluster_start(&r->c);
    real_slaves_start(r, o, r->c.master.address);
}

static inline void real_stop(struct real_cluster *r)
{
    for (int i = 0; i < REAL_SLAVES; i++)
        real_slave_stop(r->slave[i]);
    cluster_stop(&r->c);
}

/* ---- the client ---------------------------------------------------------- */

/* What differs from question to question: times, how an answer was come by,
 * and what the computation sent, in which numbers of questions are. */
static inline bool real_volatile(const ProtobufCMessageDescriptor *d,
                                 const char *name)
{
    static const char *const names[] = {"took_ns",   "records_read", "plan",
                                        "uptime_ns", "last_seen_ns", "id",
                                        "category"};
    if (d == &ips__engine_cost__descriptor)
        return true;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Without what says how an answer was come by; a check that could not be made
 * is said so. */
static inline void real_scrub_notes(char **note, size_t *count)
{
    static const char *const how[] = {"not checked by label correcting",
                                      "slaves that cannot reach each other",
                                      "a slave or its data changed"};
    for (size_t k = 0; k < sizeof(how) / sizeof(*how); k++)
        for (size_t i = 0; i < *count; i++)
            if (strncmp(note[i], how[k], strlen(how[k])) == 0) {
                free(note[i]);
                note[i--] = note[--*count];
            }
}

static inline void real_certificate(Ips__Certificate *c, struct real_answer *a)
{
    a->incomplete |= !c->complete;
    a->missing += (unsigned)c->n_missing_machines;
    real_scrub_notes(c->notes, &c->n_notes);
    real_scrub_notes(c->details, &c->n_details);
}

static inline void real_scrub(ProtobufCMessage *m, struct real_answer *a)
{
    const ProtobufCMessageDescriptor *d = m->descriptor;
    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        char *at = (char *)m + f->offset;
        if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF &&
            *(uint32_t *)(void *)((char *)m + f->quantifier_offset) != f->id)
            continue;
        if (f->label != PROTOBUF_C_LABEL_REPEATED &&
            real_volatile(d, f->name)) {
            if (f->type == PROTOBUF_C_TYPE_UINT64)
                *(uint64_t *)(void *)at = 0;
            else if (f->type == PROTOBUF_C_TYPE_UINT32)
                *(uint32_t *)(void *)at = 0;
            else if (f->type == PROTOBUF_C_TYPE_STRING && **(char **)(void *)at)
                **(char **)(void *)at = '\0';
        }
        if (f->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        bool many = f->label == PROTOBUF_C_LABEL_REPEATED;
        size_t n = many ? *(size_t *)(void *)((char *)m + f->quantifier_offset)
                        : *(ProtobufCMessage **)(void *)at != NULL;
        ProtobufCMessage **list = many ? *(ProtobufCMessage ***)(void *)at
                                       : (ProtobufCMessage **)(void *)at;
        for (size_t k = 0; k < n; k++)
            real_scrub(list[k], a);
    }
    if (d == &ips__certificate__descriptor)
        real_certificate((Ips__Certificate *)(void *)m, a);
}

static inline void real_on_message(struct ips_peer *peer,
                                   const Ips__Envelope *env, void *arg)
{
    struct real_answer *a = arg;
    if (env->body_case != IPS__ENVELOPE__BODY_REPLY)
        return;
    fault_pause++;
    Ips__Envelope *own = ips_peer_take_current_message(peer);
    Ips__Reply *reply = own->reply;
    assert_false(a->done);
    real_scrub(&reply->base, a);
    size_t n = ips__reply__get_packed_size(reply);
    a->data = realloc(a->data, a->len + n + 1);
    assert_non_null(a->data);
    a->len += ips__reply__pack(reply, a->data + a->len);
    a->replies++;
    a->done = reply->last;
    a->error = reply->error;
    snprintf(a->message, sizeof(a->message), "%s",
             reply->message ? reply->message : "");
    if (a->done)
        ips_peer_close_and_free_later(peer);
    ips__envelope__free_unpacked(own, NULL);
    fault_pause--;
}

static inline void real_on_close(struct ips_peer *peer, const char *why,
                                 void *arg)
{
    struct real_answer *a = arg;
    (void)peer;
    a->closed = true;
    snprintf(a->message, sizeof(a->message), "%s", why);
}

/* Asks at an address of the master; the client's own sending never fails. The
 * connection is freed with the last reply. */
static inline struct ips_peer *real_begin(struct real_cluster *r,
                                          const char *address,
                                          Ips__Request *request,
                                          struct real_answer *out)
{
    static const struct ips_peer_ops ops = {real_on_message, real_on_close};
    /* No ask of the master to a slave has such a number. */
    static uint64_t next_id = UINT64_C(1) << 40;
    struct ips_peer *peer;
    struct ips_err err = {0};
    memset(out, 0, sizeof(*out));
    fault_pause++;
    request->id = ++next_id;
    request->fresh = !r->c.keeps;
    if (ips_peer_connect(r->c.base, address, &peer, &err) < 0)
        fail_msg("%s", err.msg);
    ips_peer_set_ops(peer, &ops, out);
    Ips__Hello hello = ips_make_hello(IPS__HELLO__ROLE__CLIENT);
    ips_send_hello(peer, &hello);
    ips_send_request(peer, request);
    fault_pause--;
    return peer;
}

/* Turns until the last reply. Release with free(a->data). */
static inline void real_wait(struct real_cluster *r, struct real_answer *a)
{
    for (unsigned ms = 0; !a->done && !a->closed; ms++) {
        if (ms > REAL_PATIENCE_MS)
            fail_msg("no last reply came");
        cluster_turn(&r->c, 1);
    }
}

static inline void real_ask(struct real_cluster *r, Ips__Request *request,
                            struct real_answer *out)
{
    real_begin(r, r->c.master.address, request, out);
    real_wait(r, out);
}

static inline void real_check_same(const struct real_answer *got,
                                   const struct real_answer *want,
                                   const char *what, uint64_t nth)
{
    if (got->error || got->closed)
        fail_msg("%s, failure %llu: %s", what, (unsigned long long)nth,
                 got->message);
    size_t at = 0;
    while (at < got->len && at < want->len && got->data[at] == want->data[at])
        at++;
    if (at < got->len || at < want->len)
        fail_msg("%s, failure %llu: another answer (%u replies): byte %zu of "
                 "%zu, in place of %zu: \"%.80s\"",
                 what, (unsigned long long)nth, got->replies, at, got->len,
                 want->len, at < got->len ? (char *)got->data + at : "");
}

/* An error in words, an answer that names the machine it lacks, or the whole
 * one. */
static inline void real_check_honest(const struct real_answer *got,
                                     const struct real_answer *want,
                                     const char *what, uint64_t nth)
{
    if (got->closed || got->error) {
        /* Nobody asked wrongly. */
        if (strlen(got->message) < 5 || strstr(got->message, "no message of") ||
            strstr(got->message, "no question for") ||
            strstr(got->message, "too many"))
            fail_msg("%s, failure %llu: the reason is '%s'", what,
                     (unsigned long long)nth, got->message);
    } else if (!(got->incomplete && got->missing)) {
        real_check_same(got, want, what, nth);
    }
}

#endif
