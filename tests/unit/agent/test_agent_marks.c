/* Marks of the API, written short where they can be: what the slave reads is
 * every text in its order, and short ones are used. */
#include "tests/unit/help/core_help.h"

#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/api/mark.c"
#include "slave/build/proc_line.h"

static struct pool_dir pool;

static int setup(void **state)
{
    (void)state;
    pool_help_make(&pool, NULL);
    small_segments(&pool);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pool_help_remove(&pool);
    return 0;
}

#define LONG_TEXT "a text of forty bytes or more is never a short one"
static const char *const texts[] = {
    "a", "eight ch", "a text of thirty-nine bytes and no more",
    "",  LONG_TEXT,  "phase"};
#define TEXTS 6u
#define ROUNDS 20000u

/* What the program says at its i-th mark; a buffer that it writes over, too. */
static const char *said(uint32_t i, char buffer[64])
{
    static const char *const names[] = {"turn a", "turn b", "turn", ""};
    if (i % 3)
        return texts[i * 7 / 3 % TEXTS];
    return strcpy(buffer, names[i / 30 % 4]);
}

struct heard {
    struct slave_record_expander line;
    uint32_t seq, marks, handlers, shorts;
    uint64_t cpu;
    bool wrong;
    bool nested; /* a handler's comes before the one that has its moment */
};

static void see(const struct pool_segment *seg, const void *rec, size_t len,
                void *arg)
{
    struct heard *s = arg;
    char buffer[64];
    uint32_t type = ips_rec_type(rec), bytes = (uint32_t)len;
    if (s->seq != seg->head.seq) /* what a short one refers to is in this one */
        slave_reset_expander(&s->line);
    s->seq = seg->head.seq;
    s->shorts += type == IPS_REC_MARK_SHORT;
    const struct ips_rec_text *r =
        (const struct ips_rec_text *)(const void *)slave_expand_record_if_short(
            &s->line, &seg->head.clock, rec, &type, &bytes);
    if (!r) {
        s->wrong = true;
        return;
    }
    if (type != IPS_REC_MARK)
        return;
    s->wrong |= (r->cpu < s->cpu && !s->nested) || r->h.a != strlen(r->text) ||
                bytes != (sizeof(*r) + r->h.a + 8) / 8 * 8;
    s->cpu = r->cpu;
    if (strncmp(r->text, "handler", 7) == 0) {
        s->handlers++;
        return;
    }
    const char *want = said(s->marks++, buffer);
    if (strcmp(r->text, want) != 0) {
        print_message("mark %u: '%s', not '%s'\n", s->marks - 1, r->text, want);
        s->wrong = true;
    }
}

static struct heard run(void (*body)(void *))
{
    struct heard s = {0};
    int status = in_child(&pool, body, NULL);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pool_help_read(&pool, see, NULL, &s);
    assert_false(s.wrong);
    return s;
}

static void all_marks(void)
{
    char buffer[64];
    for (uint32_t i = 0; i < ROUNDS; i++)
        ips_record_mark(said(i, buffer));
}

static bool is_short_again(const char *text)
{
    const struct ips_stream *s = &ips_me.stream;
    ips_record_mark(text);
    for (int tries = 0; tries < 100; tries++) {
        ips_record_mark(text);
        uint64_t at = s->cur;
        ips_record_mark(text);
        if (s->cur - at == sizeof(struct ips_rec_head))
            return true;
    }
    return false;
}

static void body_plain(void *arg)
{
    (void)arg;
    all_marks();
    if (!ips_core.cpu_marks)
        return;
    /* a text that is said again is short: one of a word, and one of several */
    if (!is_short_again("handler") || !is_short_again("handler of many words"))
        _exit(1);
}

/* Catches: a text that is another one's or was written over since, the last
 * byte of a long one, a short mark with no long one in its segment, CPU that
 * runs backwards; short ones never made. */
static void test_agent_marks__every_text_in_its_order(void **state)
{
    (void)state;
    struct heard s = run(body_plain);
    assert_int_equal(s.marks, ROUNDS);
    assert_true(s.seq > 0);
}

static volatile sig_atomic_t handled;
static void on_signal(int sig)
{
    (void)sig;
    ips_record_mark("handler");
    handled++;
}

static void body_handler(void *arg)
{
    (void)arg;
    struct itimerval every = {{0, 100}, {0, 100}};
    struct sigaction act = {.sa_handler = on_signal};
    sigaction(SIGALRM, &act, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    do
        all_marks();
    while (handled < 20);
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
}

static unsigned turns; /* of all marks */
static void see_turns(const struct pool_segment *seg, const void *rec,
                      size_t len, void *arg)
{
    struct heard *s = arg;
    see(seg, rec, len, arg);
    if (s->marks == ROUNDS) {
        s->marks = 0;
        turns++;
    }
}

/* Catches: a mark whose text or place a handler changed in between. */
static void test_agent_marks__handlers_that_mark(void **state)
{
    (void)state;
    struct heard s = {.nested = true};
    int status = in_child(&pool, body_handler, NULL);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pool_help_read(&pool, see_turns, NULL, &s);
    assert_false(s.wrong);
    assert_int_equal(s.marks, 0);
    assert_true(turns > 0);
    assert_in_range(s.handlers, 20, UINT32_MAX);
}

static void body_nested(void *arg)
{
    char buffer[64];
    (void)arg;
    ips_record_mark(said(0, buffer));
    struct ips_stream *s = &ips_me.stream;
    /* Below a record that is never published. */
    struct ips_rec_text *open = ips_rec_begin(IPS_REC_MARK, sizeof(*open) + 8);
    uint64_t at = s->cur;
    for (int i = 0; i < 10; i++)
        ips_record_mark("handler");
    if (!open || s->cur - at != 10 * (sizeof(struct ips_rec_text) + 8))
        _exit(1);
}

/* Catches: a short mark on one that a crash may leave torn. */
static void test_agent_marks__none_short_below_an_open_record(void **state)
{
    (void)state;
    struct heard s = run(body_nested);
    assert_int_equal(s.handlers, 10);
    assert_int_equal(s.shorts, 0);
}

static const uint8_t *whole(struct slave_record_expander *line, uint32_t type,
                            uint32_t a, uint32_t flags, const char *text)
{
    static const struct ips_clock clock = {.kind = IPS_CLOCK_RAW};
    static uint64_t t = 100;
    static union {
        struct ips_rec_text r;
        uint8_t bytes[128];
    } rec;
    uint32_t len = sizeof(struct ips_rec_head);
    memset(&rec, 0, sizeof(rec));
    if (text) {
        len = (uint32_t)(sizeof(rec.r) + strlen(text) + 8) / 8 * 8;
        strcpy(rec.r.text, text);
    }
    rec.r.h = (struct ips_rec_head){
        .word = type | len / 8 << 8 | flags << 16, .a = a, .t = t += 10};
    rec.r.cpu = 7;
    return slave_expand_record_if_short(line, &clock, rec.bytes, &type, &len);
}

/* Catches: a reader that believes a short mark which refers to nothing, or
 * leaves its tables for a place that is not there. */
static void test_agent_marks__hostile_places(void **state)
{
    (void)state;
    struct slave_record_expander line = {0};
    assert_null(whole(&line, IPS_REC_MARK_SHORT, 1, 0, NULL));
    (void)whole(&line, IPS_REC_MARK, 1, 9 << IPS_REC_F_PLACE, "x");
    (void)whole(&line, IPS_REC_MARK, 1, 63 << IPS_REC_F_PLACE, "x");
    assert_null(whole(&line, IPS_REC_MARK_SHORT, 9, 0, NULL));
    (void)whole(&line, IPS_REC_MARK, 1, 2 << IPS_REC_F_PLACE, LONG_TEXT);
    assert_null(whole(&line, IPS_REC_MARK_SHORT, 2, 0, NULL));
    (void)whole(&line, IPS_REC_MARK, 1, 3 << IPS_REC_F_PLACE, "good");
    const struct ips_rec_text *r =
        (const void *)whole(&line, IPS_REC_MARK_SHORT, 3, 0, NULL);
    assert_non_null(r);
    assert_string_equal(r->text, "good");
    assert_int_equal(r->h.a, 4);
    assert_int_equal(r->cpu, 7 + 10);
    assert_null(whole(&line, IPS_REC_MARK_SHORT, 0, 0, NULL));
    assert_null(whole(&line, IPS_REC_MARK_SHORT, 0x80000003u, 0, NULL));
    slave_reset_expander(&line);
    assert_null(whole(&line, IPS_REC_MARK_SHORT, 3, 0, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_agent_marks__every_text_in_its_order),
        T(test_agent_marks__handlers_that_mark),
        T(test_agent_marks__none_short_below_an_open_record),
        T(test_agent_marks__hostile_places),
#undef T
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
