/*
 * Questions to a real cluster (real_questions.h) while one reply of a slave is
 * another than it sent, and what the client is told then. Header only; each
 * test program includes it once and leads ips__envelope__unpack here (--wrap).
 */
#ifndef IPS_TESTS_TOLD_H
#define IPS_TESTS_TOLD_H

#include "tests/sim/real_questions.h"

/* Changes a reply that a slave sent; false: there is nothing to change in it.
 */
typedef bool told_change(Ips__Reply *r);

static struct {
    told_change *change;
    Ips__Reply__AnswerCase of;
    bool all;        /* not only the first one */
    bool any;        /* of whichever machine has something to change first */
    unsigned struck; /* replies that were changed */
    uint64_t ask;    /* they answer this: of one machine, unless `any` */
    uint64_t own_id; /* the client's question */
    void (*listen)(
        const Ips__Reply *r); /* to what the client is told, or NULL */
    size_t field;             /* that shorten() makes shorter */
    char name[80];            /* of it */
    ProtobufCAllocator *allocator;
    char heard[2000]; /* error or gaps */
    int code;
    bool complete;
} told;

/* ---- listening ----------------------------------------------------------- */

static inline const void *told_field(const ProtobufCMessage *m,
                                     const char *name)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(m->descriptor, name);
    return f ? (const char *)m + f->offset : NULL;
}

/* What the client is told. */
static inline void told_hear(const Ips__Reply *r)
{
    size_t at = strlen(told.heard);
    if (told.listen)
        told.listen(r);
    if (r->error) {
        told.code = r->error;
        snprintf(told.heard + at, sizeof(told.heard) - at, "%s\n", r->message);
    }
    if (r->error || r->answer_case == IPS__REPLY__ANSWER__NOT_SET)
        return;
    /* All answers are in one place. */
    const Ips__Certificate *const *has =
        told_field((const ProtobufCMessage *)r->path, "certificate");
    const Ips__Certificate *c = has ? *has : NULL;
    told.complete = c && c->complete;
    for (size_t i = 0; c && i < c->n_gaps; i++) {
        at = strlen(told.heard);
        snprintf(told.heard + at, sizeof(told.heard) - at, "%s\n", c->gaps[i]);
    }
}

static inline bool told_may_change(uint64_t id)
{
    if (told.ask == 0)
        told.ask = id;
    return told.all || (told.struck == 0 && (told.any || told.ask == id));
}

Ips__Envelope *__real_ips__envelope__unpack(ProtobufCAllocator *allocator,
                                            size_t len, const uint8_t *data);
Ips__Envelope *__wrap_ips__envelope__unpack(ProtobufCAllocator *allocator,
                                            size_t len, const uint8_t *data);
Ips__Envelope *__wrap_ips__envelope__unpack(ProtobufCAllocator *allocator,
                                            size_t len, const uint8_t *data)
{
    Ips__Envelope *e = __real_ips__envelope__unpack(allocator, len, data);
    if (!e || e->body_case != IPS__ENVELOPE__BODY_REPLY)
        return e;
    told.allocator = allocator;
    if (e->reply->id == told.own_id)
        told_hear(e->reply);
    else if (told.change && e->reply->answer_case == told.of &&
             !e->reply->error && told_may_change(e->reply->id))
        told.struck += told.change(e->reply);
    return e;
}

/* Asks while replies of that kind are changed. */
static inline void told_ask(Ips__Request *request, Ips__Reply__AnswerCase of,
                            told_change *how)
{
    struct real_answer got;
    request->run = ips_unconst_text("r");
    real_settle(&real);
    told.heard[0] = '\0';
    told.struck = 0;
    told.ask = 0;
    told.code = 0;
    told.complete = false;
    told.of = of;
    real_begin(&real, real.c.master.address, request, &got);
    told.own_id = request->id;
    told.change = how;
    real_wait(&real, &got);
    told.change = NULL;
    assert_false(got.closed);
    free(got.data);
}

/* The answer names a machine and that reason. */
static inline void told_check_blame(const char *why)
{
    char text[300];
    if (told.struck == 0)
        fail_msg("no reply with \"%s\"", why);
    for (int m = 0; m < REAL_SLAVES; m++) {
        snprintf(text, sizeof(text), "machine m%d: %s\n", m, why);
        if (strstr(told.heard, text) && !told.complete)
            return;
    }
    fail_msg("\"%s\" in place of \"%s\"", told.heard, why);
}

/* The error is that, whichever machine it comes from. */
static inline void told_check_error(int code, const char *text)
{
    if (told.struck == 0 || told.code != code ||
        strncmp(told.heard, text, strlen(text)) != 0)
        fail_msg("%u changed: %d, \"%s\" in place of \"%s\"", told.struck,
                 told.code, told.heard, text);
}

#endif
