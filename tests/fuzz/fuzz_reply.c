/*
 * Fuzz target: whatever a master answers, every command of ipsq prints it or
 * says what is wrong. The bytes choose a command and make a reply of the kind
 * that it asks for, by the descriptions of protobuf-c: lists of any lengths,
 * numbers at their limits, texts of all kinds, messages that are there or not.
 * ipsq runs as a whole; only its connection is not one. libFuzzer where it is
 * linked; else main() replays files, or without any makes inputs from a fixed
 * seed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/command.h"
#include "proto/peer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const lines[] = {
    "status",
    "runs",
    "why r",
    "why r --for latency",
    "why r s",
    "ls r",
    "metrics r --level thread",
    "path r",
    "path r --whole --slack",
    "path r --by process,message,external",
    "path r --by procedure --next 3",
    "path r --weighting wall --sequences",
    "whatif r --process x --faster 50%",
    "whatif r --rank",
    "predict r --search",
    "predict r",
    "waits r",
    "waits r --by place",
    "waits r --stacks",
    "procedures r",
    "procedures r --by line",
    "events r",
    "events r --stacks",
    "events r --sites",
    "phases r",
    "phases r --phase 1",
    "diff r s",
    "diff r s --by procedure",
    "graph r",
    "requests r",
    "bottleneck r",
    "estimate r",
    "calibrate",
    "sql r select",
    "check r --max-path 1s --max-lost 0",
};
static const char *const formats[] = {"table", "tsv", "json", "jsonl"};
#define COUNT_OF(array) (sizeof(array) / sizeof(*(array)))

/* ---- entropy ---------------------------------------------------------------
 */

static struct {
    const uint8_t *at, *end;
    uint64_t state;
    unsigned values; /* in the message at hand */
} in;

static uint8_t byte(void)
{
    if (in.at < in.end)
        return *in.at++;
    in.state ^= in.state << 13;
    in.state ^= in.state >> 7;
    in.state ^= in.state << 17;
    return (uint8_t)(in.state >> 24);
}

static uint64_t number(void)
{
    static const uint64_t some[] = {0,          1,          2,
                                    7,          1000,       1u << 20,
                                    UINT32_MAX, 1ull << 32, INT64_MAX,
                                    1ull << 63, UINT64_MAX, UINT64_MAX - 1};
    uint8_t b = byte();
    if (b < 200)
        return some[b % COUNT_OF(some)];
    return (uint64_t)byte() << (b % 8 * 8) | byte();
}

/* ---- a message -------------------------------------------------------------
 */

static void *made[1u << 16]; /* to be freed */
static size_t made_count;

static void *take(size_t size)
{
    void *p = calloc(1, size + 1);
    if (!p || made_count == COUNT_OF(made))
        exit(1);
    made[made_count++] = p;
    return p;
}

static char *text(void)
{
    static const char *const some[] = {
        "",          "r",      "/",           "/m1",  "/m1/p.7",
        "/m1/p.7/7", "x\ty\n", "\x1b[2J\x7f", "f",    "\xff\xfe",
        "p.c",       "1s",     "m1",          "%s%n", "a/../b"};
    uint8_t b = byte();
    const char *from = some[b % COUNT_OF(some)];
    size_t n = b > 250 ? 3000 : strlen(from);
    char *out = take(n);
    memset(out, 'w', n);
    if (b <= 250)
        memcpy(out, from, n);
    return out;
}

static void fill(ProtobufCMessage *m, unsigned depth);

static size_t size_of(const ProtobufCFieldDescriptor *f)
{
    static const ProtobufCType of_four[] = {
        PROTOBUF_C_TYPE_INT32,  PROTOBUF_C_TYPE_SINT32,
        PROTOBUF_C_TYPE_UINT32, PROTOBUF_C_TYPE_SFIXED32,
        PROTOBUF_C_TYPE_FLOAT,  PROTOBUF_C_TYPE_FIXED32,
        PROTOBUF_C_TYPE_ENUM};
    if (f->type == PROTOBUF_C_TYPE_BOOL)
        return sizeof(protobuf_c_boolean);
    if (f->type == PROTOBUF_C_TYPE_BYTES)
        return sizeof(ProtobufCBinaryData);
    for (size_t i = 0; i < COUNT_OF(of_four); i++)
        if (f->type == of_four[i])
            return 4;
    return 8;
}

static ProtobufCMessage *message(const ProtobufCMessageDescriptor *d,
                                 unsigned depth)
{
    ProtobufCMessage *m = take(d->sizeof_message);
    protobuf_c_message_init(d, m);
    fill(m, depth);
    return m;
}

static double real(void)
{
    uint64_t n = number();
    double d = byte() & 1 ? (double)n / 1000 : -(double)n;
    if (byte() > 240)
        memcpy(&d, &n, sizeof(d)); /* no number, perhaps */
    return d;
}

static void put(void *at, const ProtobufCFieldDescriptor *f, unsigned depth)
{
    in.values++;
    if (f->type == PROTOBUF_C_TYPE_STRING) {
        *(char **)at = text();
    } else if (f->type == PROTOBUF_C_TYPE_BYTES) {
        ProtobufCBinaryData *d = at;
        d->len = byte() % 40;
        d->data = take(d->len);
        for (size_t i = 0; i < d->len; i++)
            d->data[i] = byte();
    } else if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        *(ProtobufCMessage **)at = message(f->descriptor, depth + 1);
    } else if (f->type == PROTOBUF_C_TYPE_BOOL) {
        *(protobuf_c_boolean *)at = byte() & 1;
    } else if (f->type == PROTOBUF_C_TYPE_DOUBLE) {
        *(double *)at = real();
    } else {
        uint64_t n = number();
        memcpy(at, &n, size_of(f));
    }
}

static size_t list_length(void)
{
    uint8_t b = byte();
    return in.values > 4000 || made_count > COUNT_OF(made) / 2 ? 0
           : b < 60                                            ? 0
           : b < 250                                           ? b % 5
                                                               : 130;
}

static void fill_field(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
                       unsigned depth)
{
    char *at = (char *)m + f->offset;
    bool message = f->type == PROTOBUF_C_TYPE_MESSAGE;
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return;
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        size_t n = message && depth > 4 ? 0 : list_length(), size = size_of(f);
        char *list = take(n * size);
        for (size_t i = 0; i < n; i++)
            put(list + i * size, f, depth);
        memcpy((char *)m + f->quantifier_offset, &n, sizeof(n));
        memcpy(at, &list, sizeof(list));
    } else if (!message || (depth < 6 && byte() > 40)) {
        put(at, f, depth);
    }
}

static void fill(ProtobufCMessage *m, unsigned depth)
{
    for (unsigned i = 0; i < m->descriptor->n_fields; i++)
        fill_field(m, &m->descriptor->fields[i], depth);
}

/* ---- the connection
 * ----------------------------------------------------------
 */

static struct {
    uint64_t id;
    const char *ask; /* the name of the question's field */
    unsigned replies;
} asked;

int __wrap_ips_client_connect(const char *address, unsigned timeout_ms,
                              struct ips_client **out, struct ips_err *err);
int __wrap_ips_client_send(struct ips_client *c, const Ips__Envelope *env,
                           struct ips_err *err);
int __wrap_ips_client_recv(struct ips_client *c, unsigned timeout_ms,
                           Ips__Envelope **out, struct ips_err *err);
void __wrap_ips_client_free(struct ips_client *c);

int __wrap_ips_client_connect(const char *address, unsigned timeout_ms,
                              struct ips_client **out, struct ips_err *err)
{
    static char here;
    (void)address, (void)timeout_ms, (void)err;
    *out = (struct ips_client *)(void *)&here;
    return 0;
}

void __wrap_ips_client_free(struct ips_client *c)
{
    (void)c;
}

int __wrap_ips_client_send(struct ips_client *c, const Ips__Envelope *env,
                           struct ips_err *err)
{
    const Ips__Request *rq = env->request;
    (void)c, (void)err;
    if (rq->ask_case == IPS__REQUEST__ASK_MORE)
        return 0;
    asked.id = rq->id;
    asked.replies = 0;
    asked.ask = protobuf_c_message_descriptor_get_field(rq->base.descriptor,
                                                        (unsigned)rq->ask_case)
                    ->name;
    return 0;
}

/* The runs, as a rule: else no other question comes. */
static void fill_runs(Ips__RunsAnswer *a)
{
    static char names[2][2] = {"r", "s"};
    a->n_runs = 2;
    a->runs = take(2 * sizeof(*a->runs));
    for (int i = 0; i < 2; i++) {
        a->runs[i] = take(sizeof(**a->runs));
        ips__run_row__init(a->runs[i]);
        fill(&a->runs[i]->base, 1);
        a->runs[i]->run = names[i];
    }
}

static void make_reply(Ips__Reply *r)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(r->base.descriptor,
                                                        asked.ask);
    if (!f || byte() > 250) /* the wrong kind of answer */
        f = &r->base.descriptor->fields[byte() % r->base.descriptor->n_fields];
    r->id = asked.id;
    r->last = asked.replies++ > 2 || byte() > 60;
    if (f->type != PROTOBUF_C_TYPE_MESSAGE ||
        !(f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF))
        return;
    uint32_t number = f->id;
    put((char *)r + f->offset, f, 0);
    memcpy((char *)r + f->quantifier_offset, &number, sizeof(number));
    if (r->answer_case == IPS__REPLY__ANSWER_RUNS && byte() < 230)
        fill_runs(r->runs);
}

int __wrap_ips_client_recv(struct ips_client *c, unsigned timeout_ms,
                           Ips__Envelope **out, struct ips_err *err)
{
    Ips__Envelope env = IPS__ENVELOPE__INIT;
    Ips__Reply reply = IPS__REPLY__INIT;
    uint8_t *frame;
    size_t len;
    (void)c, (void)timeout_ms;
    in.values = 0;
    make_reply(&reply);
    env.body_case = IPS__ENVELOPE__BODY_REPLY;
    env.reply = &reply;
    int rc = ips_frame_encode(&env, &frame, &len, err);
    if (rc < 0)
        return rc;
    *out = ips_frame_decode(frame, len, err);
    free(frame);
    return *out ? 0 : err->code;
}

/* ---- one input
 * --------------------------------------------------------------- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool quiet;
    char line[128], *argv[16] = {(char[]){"ipsq"}}, *rest = NULL;
    int argc = 1;
    if (!quiet) {
        quiet = freopen("/dev/null", "we", stdout) != NULL;
        setenv("COLUMNS", "100", 1);
    }
    in.at = data;
    in.end = data + size;
    in.state = 88172645463325252ull + size;
    const char *command = lines[byte() % COUNT_OF(lines)];
    bool rows =
        strncmp(command, "events", 6) == 0 || strncmp(command, "graph", 5) == 0;
    snprintf(line, sizeof(line), "%s --master unix:/x --format %s", command,
             formats[byte() % (rows ? 4 : 3)]);
    for (char *w = strtok_r(line, " ", &rest); w;
         w = strtok_r(NULL, " ", &rest))
        argv[argc++] = w;
    (void)ipsq_run_command_line(argc, argv);
    while (made_count)
        free(made[--made_count]);
    return 0;
}

#ifndef IPS_LIBFUZZER
#include "tests/fuzz/replay.h"

int main(int argc, char **argv)
{
    uint8_t data[600];
    uint64_t seed = 1;
    if (argc > 1)
        return fuzz_replay(argc, argv);
    for (unsigned i = 0; i < 3000; i++) {
        for (size_t k = 0; k < sizeof(data); k++) {
            seed = seed * 6364136223846793005ull + 1442695040888963407ull;
            data[k] = (uint8_t)(seed >> 56);
        }
        data[0] = (uint8_t)i;
        data[1] = (uint8_t)(i / COUNT_OF(lines));
        LLVMFuzzerTestOneInput(data, sizeof(data));
    }
    return 0;
}
#endif
