/*
 * A message of protobuf-c as text: "name=value " of each field that is not 0,
 * in the order of the message, so that an expectation by hand watches them all.
 */
#ifndef IPS_TESTS_UNIT_HELP_MESSAGE_TEXT_H
#define IPS_TESTS_UNIT_HELP_MESSAGE_TEXT_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <protobuf-c/protobuf-c.h>

#define ANSWER_BYTES (1u << 20)

struct answer_text {
    char v[ANSWER_BYTES];
    size_t len;
};
static inline void answer_add(struct answer_text *to, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static inline void answer_add(struct answer_text *to, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(to->v + to->len, sizeof(to->v) - to->len, format, args);
    va_end(args);
    assert_true(n >= 0 && to->len + (size_t)n < sizeof(to->v));
    to->len += (size_t)n;
}

static inline void answer_dump(struct answer_text *to,
                               const ProtobufCMessage *m, const char *skip);

/* Bytes of one value in a structure or a list. */
static inline size_t answer_size(const ProtobufCFieldDescriptor *f)
{
    if (f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_MESSAGE)
        return sizeof(void *);
    if (f->type == PROTOBUF_C_TYPE_BYTES)
        return sizeof(ProtobufCBinaryData);
    return f->type == PROTOBUF_C_TYPE_UINT64 ||
                   f->type == PROTOBUF_C_TYPE_INT64 ||
                   f->type == PROTOBUF_C_TYPE_SINT64 ||
                   f->type == PROTOBUF_C_TYPE_DOUBLE
               ? 8
               : 4;
}

static inline void answer_value(struct answer_text *to,
                                const ProtobufCFieldDescriptor *f,
                                const uint8_t *at, const char *skip)
{
    const ProtobufCBinaryData *b = (const void *)at;
    const ProtobufCMessage *inner;
    const char *text;
    uint64_t v = 0;
    double real;
    if (f->type == PROTOBUF_C_TYPE_STRING) {
        memcpy(&text, at, sizeof(text));
        if (*text)
            answer_add(to, "%s='%s' ", f->name, text);
    } else if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        memcpy(&inner, at, sizeof(inner));
        if (!inner)
            return;
        answer_add(to, "%s{", f->name);
        answer_dump(to, inner, skip);
        answer_add(to, "} ");
    } else if (f->type == PROTOBUF_C_TYPE_BYTES) {
        answer_add(to, "%s%s", b->len ? f->name : "", b->len ? "=" : "");
        for (size_t i = 0; i < b->len; i++)
            answer_add(to, "%02x%s", b->data[i], i + 1 < b->len ? "" : " ");
    } else if (f->type == PROTOBUF_C_TYPE_DOUBLE) {
        memcpy(&real, at, sizeof(real));
        if (!(real >= 0 && real <= 0)) /* not measured, too */
            answer_add(to, "%s=%.12g ", f->name, real);
    } else {
        memcpy(&v, at, answer_size(f));
        if (v)
            answer_add(to, "%s=%" PRId64 " ", f->name, (int64_t)v);
    }
}

/* Fields named in `skip` (" a b ") are left out. */
static inline void answer_dump(struct answer_text *to,
                               const ProtobufCMessage *m, const char *skip)
{
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        const uint8_t *base = (const uint8_t *)m, *list;
        char word[80];
        size_t n;
        uint32_t which;
        snprintf(word, sizeof(word), " %s ", f->name);
        if (strstr(skip, word))
            continue;
        if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
            memcpy(&which, base + f->quantifier_offset, sizeof(which));
            if (which != f->id)
                continue;
        }
        if (f->label != PROTOBUF_C_LABEL_REPEATED) {
            answer_value(to, f, base + f->offset, skip);
            continue;
        }
        memcpy(&n, base + f->quantifier_offset, sizeof(n));
        memcpy(&list, base + f->offset, sizeof(list));
        for (size_t k = 0; k < n; k++)
            answer_value(to, f, list + k * answer_size(f), skip);
    }
}

#endif
