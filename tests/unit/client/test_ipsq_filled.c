/*
 * Every command of ipsq in every format, against a master whose answers have
 * something else in every field: what is asked and what is printed, to the
 * byte, is in tests/unit/client/filled/COMMAND.txt. Would catch: a field that
 * is printed in the place of another, not at all, with another unit or another
 * title; an option that does not reach the master; "not measured", none or one
 * printed as if it was another figure; memory that is not given back.
 *
 * With IPS_FREEZE=1 the files are written anew: read what git then shows.
 */
#include "message_text.h"
#include "scripted_master.h"

#include <math.h>

#include "tests/support/live_blocks.h"

/* What the answers have: */
enum filling {
    FULL,       /* every field another value, lists of two */
    ONE,        /* numbers are 1, lists of one */
    UNMEASURED, /* numbers and texts are not measured, lists of one */
    BARE,       /* no field is set */
    REVERSED,   /* as FULL, but later numbers are smaller */
    LONG,       /* as FULL, lists longer than what tables show of them */
    FILLINGS
};
static const char *const filling_name[] = {"full", "one",      "unmeasured",
                                           "bare", "reversed", "long"};

/* ---- filling messages -----------------------------------------------------
 */

static uint64_t counter; /* of values; the next is another */
static enum filling filling;

static bool is_full(void)
{
    return filling == FULL || filling == REVERSED || filling == LONG;
}

/* Texts by which ipsq decides: of each field one after the other. */
static const struct {
    const char *message, *field, *text[5];
} words[] = {
    {"RunRow", "run", {"newer", "older"}},
    {"ObjectRow", "level", {"run", "machine", "process", "thread"}},
    {"MetricsRow", "level", {"run", "machine", "process", "thread"}},
    {"GraphNode", "xkind", {"none", "data"}},
    {"WhyAnswer", "shape", {"service"}},
    {"PredictFound", "end", {"all", "settled"}},
    {"SlackRow", "kind", {"machine", "machine", "process"}},
    {"BlameRow", "kind", {"waiting", "", "computing"}},
    {"PathAnswer", "weighting", {"cpu"}},
    /* of two runs one finding is the same */
    {"WhyRow", "kind", {"lock", "procedure", "phase"}},
    {"WhyRow", "object", {"/m1/a.3", "/m1/b.4", "/m1/c.5"}},
    {"WhyRow", "procedure", {"f", "g", "h"}},
};
static unsigned word_count[sizeof(words) / sizeof(*words)];

static char *new_text(const ProtobufCMessage *m,
                      const ProtobufCFieldDescriptor *f)
{
    char text[80];
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        size_t n = 0;
        if (strcmp(m->descriptor->short_name, words[i].message) != 0 ||
            strcmp(f->name, words[i].field) != 0)
            continue;
        while (n < 5 && words[i].text[n])
            n++;
        return strdup(words[i].text[word_count[i]++ % n]);
    }
    snprintf(text, sizeof(text), "%s%llu", f->name,
             (unsigned long long)++counter);
    return strdup(filling == UNMEASURED ? "" : text);
}

static ProtobufCMessage *new_message(const ProtobufCMessageDescriptor *of);

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    return n >= k && strcmp(name + n - k, end) == 0;
}

/* Times are much larger than counts, so that means are not all 0 or 1. */
static uint64_t next_number(const char *name)
{
    uint64_t n = ++counter;
    if (filling == REVERSED)
        n = 3000 - n;
    return ends_in(name, "ns")    ? n * 10000019
           : ends_in(name, "ppm") ? n * 1009
                                  : n;
}

static void put_value(const ProtobufCMessage *m,
                      const ProtobufCFieldDescriptor *f, void *at)
{
    uint64_t n = is_full()        ? next_number(f->name)
                 : filling == ONE ? 1
                                  : UINT64_MAX;
    uint32_t n32 = (uint32_t)n;
    double real = filling == UNMEASURED ? (double)NAN : (double)n / 16;
    protobuf_c_boolean yes = is_full();
    ProtobufCMessage *inner;
    char *text;
    if (f->type == PROTOBUF_C_TYPE_STRING) {
        text = new_text(m, f);
        memcpy(at, &text, sizeof(text));
    } else if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        inner = new_message(f->descriptor);
        memcpy(at, &inner, sizeof(inner));
    } else if (f->type == PROTOBUF_C_TYPE_BOOL) {
        memcpy(at, &yes, sizeof(yes));
    } else if (f->type == PROTOBUF_C_TYPE_DOUBLE) {
        memcpy(at, &real, sizeof(real));
    } else if (f->type == PROTOBUF_C_TYPE_UINT32) {
        memcpy(at, &n32, sizeof(n32));
    } else {
        memcpy(at, &n, sizeof(n));
        assert_true(f->type == PROTOBUF_C_TYPE_UINT64 ||
                    f->type == PROTOBUF_C_TYPE_INT64 ||
                    f->type == PROTOBUF_C_TYPE_SINT64);
    }
}

/* The bound that is found is one of the three. */
static void choose_bound(ProtobufCMessage *m)
{
    Ips__PredictFound *f = (void *)m;
    if (m->descriptor == &ips__predict_found__descriptor && filling == REVERSED)
        f->bound_ns = f->capacity_bound_ns;
}

/* One of the fields that exclude each other: the next at each message. */
static bool is_chosen(const ProtobufCMessageDescriptor *of, unsigned i)
{
    static unsigned turn;
    static const ProtobufCMessageDescriptor *last;
    if (i == 0 || last != of)
        turn++;
    last = of;
    return turn % of->n_fields == i;
}

static unsigned depth; /* of the message that is filled, from 1 */

static size_t list_length(void)
{
    if (filling == LONG)
        return depth == 1 ? 23 : depth == 2 ? 6 : 1;
    return is_full() ? 2 : 1;
}

static ProtobufCMessage *new_message(const ProtobufCMessageDescriptor *of)
{
    ProtobufCMessage *m = calloc(1, of->sizeof_message);
    protobuf_c_message_init(of, m);
    depth++;
    for (unsigned i = 0; i < of->n_fields && filling != BARE; i++) {
        const ProtobufCFieldDescriptor *f = &of->fields[i];
        uint8_t *base = (uint8_t *)m, *list;
        size_t n = list_length(), size = answer_size(f);
        if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
            if (!is_chosen(of, i))
                continue;
            memcpy(base + f->quantifier_offset, &f->id, sizeof(f->id));
        }
        if (f->label != PROTOBUF_C_LABEL_REPEATED) {
            put_value(m, f, base + f->offset);
            continue;
        }
        list = calloc(n, size);
        for (size_t k = 0; k < n; k++)
            put_value(m, f, list + k * size);
        memcpy(base + f->quantifier_offset, &n, sizeof(n));
        memcpy(base + f->offset, &list, sizeof(list));
    }
    choose_bound(m);
    depth--;
    return m;
}

/* test_ipsq_certificate.c looks at certificates. */
static void shorten_certificate(ProtobufCMessage *answer)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(answer->descriptor,
                                                        "certificate");
    Ips__Certificate *c = f ? calloc(1, sizeof(*c)) : NULL;
    if (!f)
        return;
    ips__certificate__init(c);
    c->complete = filling != UNMEASURED;
    c->events = 99;
    memcpy((uint8_t *)answer + f->offset, &c, sizeof(c));
}

/* ---- the master -----------------------------------------------------------
 */

static int asked_fd; /* where it says what it was asked */

static void answer_filled(int fd, const Ips__Request *rq, int script)
{
    static struct answer_text text;
    Ips__Request copy = *rq;
    Ips__Reply r = IPS__REPLY__INIT;
    const ProtobufCFieldDescriptor *ask = NULL, *of;
    for (unsigned i = 0; i < rq->base.descriptor->n_fields; i++) {
        if (rq->base.descriptor->fields[i].id == (uint32_t)rq->ask_case)
            ask = &rq->base.descriptor->fields[i];
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        word_count[i] = strcmp(words[i].message, "WhyRow") == 0 &&
                        strcmp(rq->run, "newer") == 0;
    text.len = 0;
    answer_add(&text, "asked: ");
    answer_dump(&text, &copy.base, " id ");
    answer_add(&text, "\n");
    if (write(asked_fd, text.v, text.len) != (ssize_t)text.len || !ask)
        _exit(1);
    if (rq->ask_case == IPS__REQUEST__ASK_MORE)
        return;
    filling = rq->ask_case == IPS__REQUEST__ASK_RUNS && script % 16 != FULL
                  ? FULL /* the run must be found */
                  : (enum filling)(script % 16);
    if (script >= 16)
        filling = (enum filling)(script - 16);
    of = protobuf_c_message_descriptor_get_field_by_name(r.base.descriptor,
                                                         ask->name);
    ProtobufCMessage *answer = new_message(of->descriptor);
    shorten_certificate(answer);
    r.answer_case = of->id;
    memcpy((uint8_t *)&r + of->offset, &answer, sizeof(answer));
    reply(fd, rq->id, &r, true);
}

/* ---- what is printed ------------------------------------------------------
 */

static char got[1 << 20];
static size_t got_bytes;

static void add(const char *text)
{
    size_t n = strlen(text);
    assert_true(got_bytes + n < sizeof(got));
    memcpy(got + got_bytes, text, n + 1);
    got_bytes += n;
}

static void add_answer(const char *line, int script, bool checked)
{
    static struct answered a;
    static char asked[1 << 16];
    char head[2000];
    FILE *f = tmpfile();
    assert_non_null(f);
    asked_fd = fileno(f);
    counter = 0;
    ask_scripted(line, answer_filled, script, &a);
    if (checked) {
        long blocks = live_blocks();
        assert_int_equal(ftruncate(asked_fd, 0), 0);
        assert_int_equal(lseek(asked_fd, 0, SEEK_SET), 0);
        ask_scripted(line, answer_filled, script, &a);
        if (live_blocks() != blocks)
            fail_msg("%s keeps %ld blocks", line, live_blocks() - blocks);
    }
    rewind(f);
    asked[fread(asked, 1, sizeof(asked) - 1, f)] = '\0';
    fclose(f);
    snprintf(head, sizeof(head), "==== ipsq %s; %s: %d %s\n", line,
             filling_name[script % 16], a.status,
             a.status < 0 ? a.err.msg : "");
    add(head);
    add(asked);
    for (char *at = a.out; (at = strstr(at, "/tmp/ips-test-"));)
        memset(at += strlen("/tmp/ips-test-"), 'X', 6); /* the socket's */
    add(a.out);
}

/* In every format; reversed and long ones as a table alone. */
static void add_formats(const char *line, unsigned formats, int script)
{
    static const char *const name[] = {
        [IPSQ_TABLE] = "table",
        [IPSQ_TSV] = "tsv",
        [IPSQ_JSON] = "json",
        [IPSQ_JSONL] = "jsonl",
    };
    for (unsigned f = 0; f < sizeof(name) / sizeof(*name); f++) {
        char with[300];
        if (!(formats & 1u << f) || (script % 16 >= REVERSED && f))
            continue;
        snprintf(with, sizeof(with), "%s --format %s", line, name[f]);
        add_answer(with, script, script % 16 == FULL);
    }
}

static void compare(const char *name)
{
    char path[400];
    static char want[sizeof(got)];
    snprintf(path, sizeof(path), FILLED "/%s.txt", name);
    FILE *f = fopen(path, getenv("IPS_FREEZE") ? "we" : "re");
    assert_non_null(f);
    if (getenv("IPS_FREEZE")) {
        assert_int_equal(fwrite(got, 1, got_bytes, f), got_bytes);
        assert_int_equal(fclose(f), 0);
        return;
    }
    size_t n = fread(want, 1, sizeof(want), f), at = 0, line = 1;
    fclose(f);
    while (at < n && at < got_bytes && got[at] == want[at])
        line += got[at++] == '\n';
    if (at == n && at == got_bytes)
        return;
    size_t from = at > 100 ? at - 100 : 0;
    fail_msg("%s.txt, line %zu differs: '%.200s' instead of '%.*s'", name, line,
             got + from, (int)(n - from < 200 ? n - from : 200), want + from);
}

/* ---- the commands -------------------------------------------------------- */

/* Lines of each command. The first is asked with all fillings and
 * formats, the others with full answers, as tables alone. */
static const char *const lines[][16] = {
    {"bottleneck", "bottleneck older --by task --top 1 --fresh --mtime 3us+2"},
    {"calibrate --show", "calibrate m1 m2 --lengths 64,4k --rounds 7 --force",
     "calibrate --forget m1 m2", "calibrate --export -"},
    {"check newer --max-wall 1ns --max-cpu 1s --max-path 2s --max-lost 3",
     "check older --max-wall 10s", "check --max-lost 40028 --max-cpu 1us",
     "check --max-path 9us --from 1us --to 2ms", "check --max-cpu 1 --phase 2"},
    {"diff older newer", "diff older newer --top 1", "diff older older",
     "diff newer older"},
    {"estimate", "estimate older --system-share 5% --goal /m1 --mtime 3us+2",
     "estimate --shared-medium --external all"},
    {"events", "events older --object /m1 --from 1us --to 2ms --top 7 --sites",
     "events --stacks --phase 3", "events --stacks --sites --format json"},
    {"graph", "graph older --from 1us --to 2ms", "graph --phase 2"},
    {"ls", "ls older --object /m1 --top 1 --sort -elapsed_ns --per machine",
     "ls --from 1us --to 2ms", "ls --phase 2"},
    {"metrics", "metrics older --object /m1 --level machine",
     "metrics --level procedure --top 3", "metrics --level procedure --phase 2",
     "metrics --level procedure --from 1us --to 2ms", "metrics --pop",
     "metrics --pop --format json", "metrics --level procedure --format json",

     "metrics --per machine --top 2 --sort -cpu_ns",
     "metrics --from 1us --to 2s", "metrics --phase 4"},
    {"path --by procedure,line,process,machine,thread,message,external",
     "path older --engine central --mtime 3us+2 --external off",
     "path --weighting wall --goal /m1 --from 1us --to 2ms",
     "path --weighting sched --phase 3 --top 5 --sequences --whole",
     "path --slack --next 3",
     "path --slack --next 3 --whole --sequences --format json",
     "path --fresh --verbose", "path --top 1"},
    {"phases", "phases older --from 1us --to 2ms", "phases --phase 2"},
    {"predict --machines m1:cores=2,speed=1.5;m2:load=25%,turn=3ms",
     "predict older --map a=m1 --network m1>m2=7us+3@bus --move a@1s=m2",
     "predict --search --machines m1;m2 --tries 5 --seed 7",
     "predict --mtime 3us --external all --goal /m1 --top 1"},
    {"procedures", "procedures older --by process --top 1 --object /m1",
     "procedures --by process --format json",

     "procedures --by line --sort -self_ns", "procedures --from 1us --to 2ms",
     "procedures --phase 2 --by process --per machine --top 1"},
    {"requests", "requests older --by mark:a --top 1 --external all",
     "requests --from 1us --to 2ms --mtime none", "requests --phase 2"},
    {"runs", "runs --top 1"},
    {"sql newer select", "sql older select --sort columns47 --top 1",
     "sql older select --per machine --top 1"},
    {"status"},
    {"summary"},
    {"waits", "waits older --by cause --sort count --top 1 --object /m1",
     "waits --stacks --from 1us --to 2ms", "waits --phase 2 --by peer",
     "waits --sort nothing", "waits --stacks --format json"},
    {"whatif --procedure a --faster 30%", "whatif --rank --faster 2x --top 3",
     "whatif --rank --format json",

     "whatif older --gone --process a --goal /m1 --message a->b --faster 2x",
     "whatif --process a --from 1us --to 2ms --weighting sched",
     "whatif --process a --phase 2 --mtime 3us+2 --external off"},
    {"why", "why older --for latency --goal /m1 --top 1", "why --mtime none",
     "why --from 1us --to 2ms", "why --phase 2", "why --mtime 1ns",
     "why --mtime 0+1", "why older,newer", "why older,newer --top 1",
     "why older,newer --format json", "why older,newer --format tsv",
     "why older,older", "why older,newer --phase 2 --for latency"},
};

static void test_filled__commands(void **state)
{
    (void)state;
    unsetenv("COLUMNS");
    for (size_t c = 0; c < sizeof(lines) / sizeof(*lines); c++) {
        char name[40];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(lines[c][0], " "),
                 lines[c][0]);
        const struct ipsq_command *command = ipsq_command_find(name);
        int all = strcmp(name, "runs") == 0 ? 16 : 0;
        assert_non_null(command);
        got_bytes = 0;
        for (int f = 0; f < FILLINGS; f++)
            add_formats(lines[c][0], command->formats, f + all);
        for (size_t i = 1; lines[c][i]; i++)
            add_answer(lines[c][i], FULL, true);
        compare(name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filled__commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
