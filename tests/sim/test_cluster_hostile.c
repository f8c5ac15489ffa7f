/* Messages between the master and its slaves in which one field is another than
 * was sent: what a faulty or hostile one of them could send. The question ends,
 * nobody dies or reads what is not there (the sanitizers see it), and the same
 * question asked again is answered as before. Would catch: an index, a length
 * or a list of a message that is taken for what it says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/sim/real_questions.h"
#include "tests/support/random_graph.h"

#define PATIENCE_MS 1000

/* ---- one field changed -----------------------------------------------------
 */

static struct {
    bool armed, replies;
    unsigned left;      /* questions without an end */
    uint64_t own_id;    /* the client's question: left alone */
    unsigned seen, nth; /* messages of the kind so far; the one to change */
    uint64_t rng;
    ProtobufCAllocator *allocator;
    char what[200]; /* was changed */
} hostile;

/* The fields of all messages below `m`, in order; `pick` is the one to change.
 */
struct walk {
    size_t seen, pick;
};

static uint64_t extreme(uint64_t old)
{
    const uint64_t values[] = {0,
                               1,
                               old + 1,
                               old - 1,
                               old / 2,
                               old * 2,
                               UINT32_MAX,
                               UINT64_MAX,
                               0x7fffffff,
                               UINT64_C(1) << 40,
                               (uint64_t)1 << 63};
    return values[rg_random(&hostile.rng) % (sizeof(values) / sizeof(*values))];
}

static bool is_wide(ProtobufCType type)
{
    return type == PROTOBUF_C_TYPE_UINT64 || type == PROTOBUF_C_TYPE_INT64 ||
           type == PROTOBUF_C_TYPE_SINT64 || type == PROTOBUF_C_TYPE_FIXED64 ||
           type == PROTOBUF_C_TYPE_SFIXED64 || type == PROTOBUF_C_TYPE_DOUBLE;
}

static size_t size_of(ProtobufCType type)
{
    if (type == PROTOBUF_C_TYPE_STRING || type == PROTOBUF_C_TYPE_MESSAGE)
        return sizeof(void *);
    if (type == PROTOBUF_C_TYPE_BYTES)
        return sizeof(ProtobufCBinaryData);
    return is_wide(type) ? 8 : 4;
}

static void change_text(char *text)
{
    if (*text)
        text[rg_random(&hostile.rng) % strlen(text)] =
            rg_random(&hostile.rng) % 2 ? '\0' : '/';
}

static void change_bytes(ProtobufCBinaryData *bytes)
{
    if (!bytes->len)
        return;
    size_t at = rg_random(&hostile.rng) % bytes->len;
    if (rg_random(&hostile.rng) % 2)
        bytes->data[at] ^= (uint8_t)(1u << rg_random(&hostile.rng) % 8);
    else
        bytes->len = at;
}

static void change_value(ProtobufCType type, void *at)
{
    if (type == PROTOBUF_C_TYPE_STRING)
        change_text(*(char **)at);
    else if (type == PROTOBUF_C_TYPE_BYTES)
        change_bytes(at);
    else if (type == PROTOBUF_C_TYPE_BOOL)
        *(protobuf_c_boolean *)at = !*(protobuf_c_boolean *)at;
    else if (is_wide(type))
        *(uint64_t *)at = extreme(*(uint64_t *)at);
    else if (type != PROTOBUF_C_TYPE_MESSAGE)
        *(uint32_t *)at = (uint32_t)extreme(*(uint32_t *)at);
}

/* A list loses its last element, two change places, or one has another value.
 */
static void change_list(ProtobufCType type, size_t *count, char *list)
{
    size_t which = rg_random(&hostile.rng) % *count;
    bool texts =
        type == PROTOBUF_C_TYPE_STRING || type == PROTOBUF_C_TYPE_BYTES;
    if (type != PROTOBUF_C_TYPE_MESSAGE &&
        (texts || rg_random(&hostile.rng) % 2)) {
        change_value(type, list + which * size_of(type));
    } else if (type != PROTOBUF_C_TYPE_MESSAGE) {
        --*count;
    } else {
        ProtobufCMessage **m = (ProtobufCMessage **)(void *)list,
                         *last = m[*count - 1];
        m[*count - 1] = m[which];
        m[which] = last;
        if (rg_random(&hostile.rng) % 2)
            protobuf_c_message_free_unpacked(m[--*count], hostile.allocator);
    }
}

/* Identifies what is answered; without it there is no conversation. */
static bool is_address(const ProtobufCMessageDescriptor *d, const char *name)
{
    return (d == &ips__request__descriptor || d == &ips__reply__descriptor) &&
           (strcmp(name, "id") == 0 || strcmp(name, "run") == 0 ||
            strcmp(name, "last") == 0);
}

static void walk_fields(ProtobufCMessage *m, struct walk *w)
{
    const ProtobufCMessageDescriptor *d = m->descriptor;
    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        char *at = (char *)m + f->offset;
        size_t *count = (size_t *)(void *)((char *)m + f->quantifier_offset);
        bool many = f->label == PROTOBUF_C_LABEL_REPEATED;
        if (is_address(d, f->name) || (many && *count == 0))
            continue;
        if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF &&
            *(uint32_t *)(void *)((char *)m + f->quantifier_offset) != f->id)
            continue;
        if (w->seen++ == w->pick) {
            snprintf(hostile.what, sizeof(hostile.what), "%s.%s", d->name,
                     f->name);
            if (many)
                change_list(f->type, count, *(char **)(void *)at);
            else
                change_value(f->type, at);
        }
        if (f->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        ProtobufCMessage **list = many ? *(ProtobufCMessage ***)(void *)at
                                       : (ProtobufCMessage **)(void *)at;
        for (size_t k = 0; list[0] && k < (many ? *count : 1); k++)
            walk_fields(list[k], w);
    }
}

static void change_one(ProtobufCMessage *m)
{
    struct walk w = {.pick = SIZE_MAX};
    walk_fields(m, &w);
    if (w.seen == 0)
        return;
    w = (struct walk){.pick = rg_random(&hostile.rng) % w.seen};
    walk_fields(m, &w);
}

Ips__Envelope *__real_ips__envelope__unpack(ProtobufCAllocator *allocator,
                                            size_t len, const uint8_t *data);
Ips__Envelope *__wrap_ips__envelope__unpack(ProtobufCAllocator *allocator,
                                            size_t len, const uint8_t *data);
Ips__Envelope *__wrap_ips__envelope__unpack(ProtobufCAllocator *allocator,
                                            size_t len, const uint8_t *data)
{
    Ips__Envelope *e = __real_ips__envelope__unpack(allocator, len, data);
    hostile.allocator = allocator;
    if (!hostile.armed || !e)
        return e;
    if (!hostile.replies && e->body_case == IPS__ENVELOPE__BODY_REQUEST &&
        e->request->id != hostile.own_id && hostile.seen++ == hostile.nth)
        change_one(&e->request->base);
    if (hostile.replies && e->body_case == IPS__ENVELOPE__BODY_REPLY &&
        e->reply->id != hostile.own_id && hostile.seen++ == hostile.nth)
        change_one(&e->reply->base);
    return e;
}

/* ---- questions
 * --------------------------------------------------------------- */

/* With the nth message of its kind changed (UINT32_MAX: none). How many there
 * were. Where a change makes one side wait for what the other never sends, the
 * client leaves. */
static unsigned ask_hostile(Ips__Request *request, bool replies, unsigned nth,
                            uint64_t seed)
{
    struct real_answer got;
    forget_all();
    hostile.replies = replies;
    hostile.seen = 0;
    hostile.nth = nth;
    snprintf(hostile.what, sizeof(hostile.what), "nothing");
    hostile.rng = seed;
    struct ips_peer *client =
        real_begin(&real, real.c.master.address, request, &got);
    hostile.own_id = request->id;
    hostile.armed = true;
    for (unsigned ms = 0; !got.done && !got.closed && ms < PATIENCE_MS; ms++)
        cluster_turn(&real.c, 1);
    hostile.armed = false;
    if (!got.done && !got.closed) {
        hostile.left++;
        print_message("waited for ever: %s\n", hostile.what);
        ips_peer_close_and_free_later(client);
    }
    free(got.data);
    return hostile.seen;
}

static void try_kind(const char *what, Ips__Request *request, bool replies,
                     const struct real_answer *want, unsigned tries)
{
    struct real_answer got;
    unsigned messages = ask_hostile(request, replies, UINT32_MAX, 0),
             changed = 0;
    if (messages == 0)
        return; /* the master knows the answer */
    for (unsigned i = 0; i < tries; i++) {
        ask_hostile(request, replies, i * messages / tries, i + 1);
        changed += strcmp(hostile.what, "nothing") != 0;
        forget_all();
        real_ask(&real, request, &got);
        if (got.error || got.closed || got.len != want->len)
            print_message("%s, %s %u: %s\n", what,
                          replies ? "reply" : "request", i, hostile.what);
        real_check_same(&got, want, what, i);
        free(got.data);
    }
    assert_true(changed > tries / 2);
}

/* Of each question and direction. */
static unsigned tries(void)
{
    return getenv("IPS_TEST_EVERY_FAULT") ? 400 : 4;
}

static void try_question(const char *what, Ips__Request *request)
{
    struct real_answer want;
    forget_all();
    real_ask(&real, request, &want);
    if (want.error || want.closed)
        fail_msg("%s: %s", what, want.message);
    try_kind(what, request, false, &want, tries());
    try_kind(what, request, true, &want, tries());
    free(want.data);
}

QUESTIONS_MAIN
