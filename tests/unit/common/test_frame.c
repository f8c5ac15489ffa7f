/* Frames: what is refused before memory is taken, and that whatever arrives
 * is either a message or a clear error. Catches a length trusted too early, a
 * frame that unpacks to far more than it is, and a decoder that reads past its
 * input (under the sanitizers). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/frame.h"
#include "proto/message.h"

static void put_length(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static void encode_request(uint8_t **data, size_t *len)
{
    Ips__RunsAsk ask = IPS__RUNS_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    request.id = 7;
    request.run = ips_unconst_text("tsp");
    request.ask_case = IPS__REQUEST__ASK_RUNS;
    request.runs = &ask;
    Ips__Envelope env = IPS__ENVELOPE__INIT;
    env.body_case = IPS__ENVELOPE__BODY_REQUEST;
    env.request = &request;
    assert_int_equal(ips_frame_encode(&env, data, len, NULL), 0);
}

static void test_frame__round_trip(void **state)
{
    (void)state;
    uint8_t *data;
    size_t len;
    encode_request(&data, &len);
    assert_int_equal(
        ips_frame_length_if_complete(data, len, IPS_FRAME_MAX_BYTES, NULL),
        (int64_t)len);
    Ips__Envelope *env = ips_frame_decode(data, len, NULL);
    assert_non_null(env);
    assert_int_equal(env->body_case, IPS__ENVELOPE__BODY_REQUEST);
    assert_int_equal(env->request->id, 7);
    assert_string_equal(env->request->run, "tsp");
    assert_int_equal(env->request->ask_case, IPS__REQUEST__ASK_RUNS);
    ips__envelope__free_unpacked(env, NULL);
    free(data);
}

static void test_frame__every_truncation_waits_or_is_refused(void **state)
{
    (void)state;
    uint8_t *data;
    size_t len;
    struct ips_err err = {0};
    encode_request(&data, &len);
    for (size_t cut = 0; cut < len; cut++) {
        /* A copy of exactly that size: reading past it is an ASan error. */
        uint8_t *part = malloc(cut + 1);
        assert_non_null(part);
        memcpy(part, data, cut);
        assert_int_equal(ips_frame_length_if_complete(part, cut, 4096, &err),
                         0);
        assert_null(ips_frame_decode(part, cut, &err));
        /* The length says it is whole, the body is cut. */
        if (cut > 4) {
            put_length(part, (uint32_t)(cut - 4));
            Ips__Envelope *env = ips_frame_decode(part, cut, &err);
            if (env)
                ips__envelope__free_unpacked(env, NULL);
        }
        free(part);
    }
    free(data);
}

static void test_frame__length_is_checked_before_memory(void **state)
{
    (void)state;
    struct ips_err err = {0};
    uint8_t head[4];
    put_length(head, UINT32_MAX);
    assert_int_equal(ips_frame_length_if_complete(head, sizeof(head),
                                                  IPS_FRAME_MAX_BYTES, &err),
                     IPS_E_LIMIT);
    assert_non_null(strstr(err.msg, "4294967299"));
    put_length(head, IPS_HELLO_MAX_BYTES - 4);
    assert_int_equal(ips_frame_length_if_complete(head, sizeof(head),
                                                  IPS_HELLO_MAX_BYTES, &err),
                     0);
    put_length(head, IPS_HELLO_MAX_BYTES - 3);
    assert_int_equal(ips_frame_length_if_complete(head, sizeof(head),
                                                  IPS_HELLO_MAX_BYTES, &err),
                     IPS_E_LIMIT);
}

static void test_frame__no_body_is_refused(void **state)
{
    (void)state;
    struct ips_err err = {0};
    uint8_t empty[4] = {0};
    assert_null(ips_frame_decode(empty, sizeof(empty), &err));
    assert_int_equal(err.code, IPS_E_PROTOCOL);
}

/* A reply of `rows` empty event rows: 2 bytes each on the wire. */
static uint8_t *bomb(uint32_t rows, size_t *len)
{
    Ips__EventRow row = IPS__EVENT_ROW__INIT;
    Ips__EventRow **list = malloc(rows * sizeof(Ips__EventRow *));
    assert_non_null(list);
    for (uint32_t i = 0; i < rows; i++)
        list[i] = &row;
    Ips__EventsAnswer answer = IPS__EVENTS_ANSWER__INIT;
    answer.n_events = rows;
    answer.events = list;
    Ips__Reply reply = IPS__REPLY__INIT;
    reply.answer_case = IPS__REPLY__ANSWER_EVENTS;
    reply.events = &answer;
    Ips__Envelope env = IPS__ENVELOPE__INIT;
    env.body_case = IPS__ENVELOPE__BODY_REPLY;
    env.reply = &reply;
    uint8_t *data;
    assert_int_equal(ips_frame_encode(&env, &data, len, NULL), 0);
    free(list);
    return data;
}

static void test_frame__unpacking_has_a_budget(void **state)
{
    (void)state;
    struct ips_err err = {0};
    size_t len;
    uint8_t *data = bomb(4000000, &len);
    assert_true(len < IPS_FRAME_MAX_BYTES + 4);
    assert_null(ips_frame_decode(data, len, &err));
    assert_int_equal(err.code, IPS_E_PROTOCOL);
    free(data);
    data = bomb(IPS_PIECE_ITEMS, &len);
    Ips__Envelope *env = ips_frame_decode(data, len, &err);
    assert_non_null(env);
    assert_int_equal(env->reply->events->n_events, IPS_PIECE_ITEMS);
    ips__envelope__free_unpacked(env, NULL);
    free(data);
}

static void test_frame__oversize_message_is_not_encoded(void **state)
{
    (void)state;
    char *text = malloc(IPS_FRAME_MAX_BYTES + 1);
    assert_non_null(text);
    memset(text, 'x', IPS_FRAME_MAX_BYTES);
    text[IPS_FRAME_MAX_BYTES] = '\0';
    Ips__Hello hello = ips_make_hello(IPS__HELLO__ROLE__SLAVE);
    hello.machine = text;
    Ips__Envelope env = IPS__ENVELOPE__INIT;
    env.body_case = IPS__ENVELOPE__BODY_HELLO;
    env.hello = &hello;
    uint8_t *data;
    size_t len;
    struct ips_err err = {0};
    assert_int_equal(ips_frame_encode(&env, &data, &len, &err), IPS_E_LIMIT);
    assert_null(data);
    free(text);
}

static uint64_t next_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

/* Random bytes, and a good frame with random bytes changed. */
static void test_frame__random_input_never_kills(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252ULL;
    uint8_t *good;
    size_t good_len;
    uint32_t decoded = 0;
    encode_request(&good, &good_len);
    for (int round = 0; round < 20000; round++) {
        uint8_t data[256];
        size_t len;
        if (round % 2) {
            len = good_len;
            memcpy(data, good, len);
            for (uint64_t n = next_random(&seed) % 4; n > 0; n--)
                data[4 + next_random(&seed) % (len - 4)] =
                    (uint8_t)next_random(&seed);
        } else {
            len = 5 + next_random(&seed) % 200;
            for (size_t i = 0; i < len; i++)
                data[i] = (uint8_t)next_random(&seed);
            put_length(data, (uint32_t)(len - 4));
        }
        struct ips_err err = {0};
        Ips__Envelope *env = ips_frame_decode(data, len, &err);
        if (env) {
            decoded++;
            ips__envelope__free_unpacked(env, NULL);
        } else {
            assert_true(err.code < 0);
            assert_true(err.msg[0] != '\0');
        }
    }
    assert_true(decoded > 0);
    free(good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frame__round_trip),
        cmocka_unit_test(test_frame__every_truncation_waits_or_is_refused),
        cmocka_unit_test(test_frame__length_is_checked_before_memory),
        cmocka_unit_test(test_frame__no_body_is_refused),
        cmocka_unit_test(test_frame__unpacking_has_a_budget),
        cmocka_unit_test(test_frame__oversize_message_is_not_encoded),
        cmocka_unit_test(test_frame__random_input_never_kills),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
