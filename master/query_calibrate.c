/*
 * Message times: measuring them, showing, taking, giving and forgetting the
 * table of them (mtimes.h).
 *
 * To measure, pair after pair - an otherwise idle network carries one exchange
 * at a time: the receiving slave is asked to echo, then the sending one to
 * measure against it, length by length. A pair that cannot be measured is
 * named, and the others go on; what was measured is saved after every pair, so
 * stopping in the middle loses none of it. Category 1 of IPS-9, but for the
 * measuring.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "common/log.h"
#include "common/types.h"
#include "master/arena.h"
#include "master/part.h"

#define KEY_BYTES 16u
#define ECHO_SECONDS 30u
#define ROUNDS 200u
#define ROUNDS_MAX 100000u
#define LENGTHS_MAX 32u
#define LENGTH_MAX (16u << 20)
#define LENGTH_NS 200000000ULL /* of one length of one pair, if it can be */

static const uint64_t usual_lengths[] = {1,    16,    64,    256,    1024,
                                         4096, 16384, 65536, 262144, 1048576};

struct job { /* one pair */
    struct part *from, *to;
    enum mtime_over over;
};

struct calibration { /* query.data */
    struct job *job;
    uint32_t job_count, at;
    uint64_t lengths[LENGTHS_MAX];
    uint32_t length_count;
    uint32_t rounds;
    uint8_t key[KEY_BYTES];
    struct mtime_pair now; /* of job[at] */
    char **failed;         /* "m1 -> m2: why" */
    uint32_t failed_count, done;
};

static struct calibration *calibration_of(struct query *q)
{
    return q->data;
}

static void fail(struct query *q, int code, const char *why)
{
    struct ips_err err = {0};
    ips_err_set(&err, code, "%s", why);
    query_fail(q, &err);
}

/* ---- answers ------------------------------------------------------------ */

static void fill_row(struct arena *a, const struct mtime_pair *p,
                     Ips__MtimeRow *row)
{
    ips__mtime_row__init(row);
    row->from = arena_printf(a, "%s", p->from);
    row->to = arena_printf(a, "%s", p->to);
    row->over = ips_wire_text(mtime_over_name(p->over));
    row->measured = arena_printf(a, "%s", p->measured);
    row->by = arena_printf(a, "%s", p->by);
    row->alpha_ns = p->curve.alpha_ns;
    row->beta_ns = (double)p->curve.beta_q32 / 4294967296.0;
    Ips__MtimePoint *points = arena_alloc(a, p->count * sizeof(*points));
    row->points = arena_alloc(a, p->count * sizeof(*row->points));
    for (uint32_t i = 0; i < p->count && points && row->points; i++) {
        ips__mtime_point__init(&points[i]);
        points[i].bytes = p->point[i].bytes;
        points[i].ns = p->point[i].ns;
        points[i].low_ns = p->point[i].low_ns;
        points[i].high_ns = p->point[i].high_ns;
        points[i].rounds = p->point[i].rounds;
        points[i].curve_ns = ips_curve_ns(&p->curve, p->point[i].bytes);
        row->points[row->n_points++] = &points[i];
    }
}

static void answer(struct query *q, bool with_rows, char *text)
{
    const struct mtimes *t = &q->m->mtimes;
    const struct calibration *c = calibration_of(q);
    struct arena a = {0};
    Ips__CalibrateAnswer out = IPS__CALIBRATE_ANSWER__INIT;
    Ips__MtimeRow *rows = arena_alloc(&a, t->count * sizeof(*rows) + 1);
    out.rows = arena_alloc(&a, t->count * sizeof(*out.rows) + 1);
    for (uint32_t i = 0; with_rows && i < t->count && rows && out.rows; i++) {
        fill_row(&a, t->pair[i], &rows[i]);
        out.rows[out.n_rows++] = &rows[i];
    }
    if (text)
        out.text = text;
    out.file = arena_printf(&a, "%s", t->path);
    if (c) {
        out.failed = c->failed;
        out.n_failed = c->failed_count;
        out.done = c->done;
        out.of = c->job_count * c->length_count;
    }
    if (a.failed) {
        fail(q, IPS_E_NO_MEMORY, "no memory for the answer");
    } else {
        Ips__Reply reply = IPS__REPLY__INIT;
        reply.answer_case = IPS__REPLY__ANSWER_CALIBRATE;
        reply.calibrate = &out;
        query_answer(q, &reply);
    }
    arena_release(&a);
}

static void progress(struct query *q, uint64_t bytes)
{
    const struct calibration *c = calibration_of(q);
    const struct job *j = &c->job[c->at];
    char doing[200];
    Ips__CalibrateAnswer out = IPS__CALIBRATE_ANSWER__INIT;
    Ips__Reply reply = IPS__REPLY__INIT;
    snprintf(doing, sizeof(doing), "%s -> %s (%s), %llu B", j->from->machine,
             j->to->machine, mtime_over_name(j->over),
             (unsigned long long)bytes);
    out.doing = doing;
    out.done = c->done;
    out.of = c->job_count * c->length_count;
    reply.answer_case = IPS__REPLY__ANSWER_CALIBRATE;
    reply.calibrate = &out;
    query_send(q, &reply);
}

/* ---- measuring ---------------------------------------------------------- */

static void next_job(struct query *q);

static void note_failed(struct query *q, const char *why)
{
    struct calibration *c = calibration_of(q);
    const struct job *j = &c->job[c->at];
    char *text = NULL;
    if (asprintf(&text, "%s -> %s (%s): %s", j->from->machine, j->to->machine,
                 mtime_over_name(j->over), why) >= 0)
        c->failed[c->failed_count++] = text;
    ips_log_info("calibrate: %s -> %s: %s", j->from->machine, j->to->machine,
                 why);
}

/* Did a round with it go wrong? A slave that is there may do the next. */
static bool went_wrong(struct query *q, struct part *p)
{
    if (p->state == PART_ACTIVE)
        return false;
    note_failed(q, *p->why ? p->why : "its slave went away");
    p->state = PART_ACTIVE;
    p->why[0] = '\0';
    return true;
}

static void save_pair(struct query *q)
{
    struct calibration *c = calibration_of(q);
    struct ips_err err = {0};
    time_t now = time(NULL);
    struct tm tm;
    if (!gmtime_r(&now, &tm) ||
        strftime(c->now.measured, sizeof(c->now.measured), "%Y-%m-%dT%H:%M:%SZ",
                 &tm) == 0)
        snprintf(c->now.measured, sizeof(c->now.measured), "unknown");
    snprintf(c->now.by, sizeof(c->now.by), "ipsq calibrate");
    if (c->now.count == 0)
        return;
    int rc = mtimes_load(&q->m->mtimes, &err); /* edited meanwhile? */
    if (rc == 0)
        rc = mtimes_put(&q->m->mtimes, &c->now, &err);
    if (rc == 0)
        rc = mtimes_save(&q->m->mtimes, &err);
    if (rc < 0)
        query_fail(q, &err);
}

static int take_trip(struct query *q, struct part *p, const Ips__Reply *reply,
                     struct ips_err *err)
{
    struct calibration *c = calibration_of(q);
    const Ips__TripAnswer *a = reply->trip;
    (void)p;
    if (reply->answer_case != IPS__REPLY__ANSWER_TRIP)
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to TripAsk");
    if (c->now.count >= c->length_count ||
        a->bytes != c->lengths[c->now.count] || a->ns > IPS_CURVE_MAX_NS)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "it measured what it was not asked for");
    c->now.point[c->now.count++] = (struct mtime_point){.bytes = a->bytes,
                                                        .ns = a->ns,
                                                        .low_ns = a->low_ns,
                                                        .high_ns = a->high_ns,
                                                        .rounds = a->rounds};
    c->done++;
    progress(q, a->bytes);
    return 0;
}

static void tripped(struct query *q)
{
    struct calibration *c = calibration_of(q);
    struct job *j = &c->job[c->at];
    if (!went_wrong(q, j->from))
        save_pair(q);
    if (q->over)
        return;
    c->at++;
    c->done = c->at * c->length_count;
    next_job(q);
}

static void ask_trip(struct query *q, char **addresses, size_t count)
{
    struct calibration *c = calibration_of(q);
    struct job *j = &c->job[c->at];
    Ips__TripAsk ask = IPS__TRIP_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    ask.key = (ProtobufCBinaryData){KEY_BYTES, c->key};
    ask.addresses = addresses;
    ask.n_addresses = count;
    ask.lengths = c->lengths;
    ask.n_lengths = c->length_count;
    ask.rounds = c->rounds;
    ask.length_ns = LENGTH_NS;
    request.ask_case = IPS__REQUEST__ASK_TRIP;
    request.trip = &ask;
    query_round(q, take_trip, tripped);
    query_ask(q, j->from, &request, true);
}

static int take_echo(struct query *q, struct part *p, const Ips__Reply *reply,
                     struct ips_err *err)
{
    if (reply->answer_case != IPS__REPLY__ANSWER_ECHO ||
        reply->echo->n_addresses == 0)
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to EchoAsk");
    if (!query_keep(q, p))
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    p->own = reply->echo;
    return 0;
}

static void echoing(struct query *q)
{
    struct calibration *c = calibration_of(q);
    struct job *j = &c->job[c->at];
    const Ips__EchoAnswer *echo = j->to->own;
    j->to->own = NULL;
    if (went_wrong(q, j->to) || !echo) {
        c->at++;
        c->done = c->at * c->length_count;
        next_job(q);
        return;
    }
    ask_trip(q, echo->addresses, echo->n_addresses);
    query_await(q);
}

static void next_job(struct query *q)
{
    struct calibration *c = calibration_of(q);
    while (c->at < c->job_count &&
           (!c->job[c->at].from->slave || !c->job[c->at].to->slave)) {
        note_failed(q, "its slave is not connected any more");
        c->at++;
    }
    if (c->at == c->job_count) {
        answer(q, true, NULL);
        return;
    }
    struct job *j = &c->job[c->at];
    memset(&c->now, 0, sizeof(c->now));
    snprintf(c->now.from, sizeof(c->now.from), "%s", j->from->machine);
    snprintf(c->now.to, sizeof(c->now.to), "%s", j->to->machine);
    c->now.over = j->over;
    if (getrandom(c->key, KEY_BYTES, 0) != (ssize_t)KEY_BYTES) {
        fail(q, IPS_E_IO, "no random numbers for a key");
        return;
    }
    Ips__EchoAsk ask = IPS__ECHO_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    ask.key = (ProtobufCBinaryData){KEY_BYTES, c->key};
    ask.over = ips_wire_text(mtime_over_name(j->over));
    ask.seconds = ECHO_SECONDS;
    ask.inside = j->from == j->to;
    request.ask_case = IPS__REQUEST__ASK_ECHO;
    request.echo = &ask;
    j->to->own = NULL;
    query_round(q, take_echo, echoing);
    query_ask(q, j->to, &request, true);
    query_await(q);
}

/* ---- the question ------------------------------------------------------- */

static bool named(const Ips__CalibrateAsk *ask, const char *machine)
{
    for (size_t i = 0; i < ask->n_machines; i++) {
        if (strcmp(ask->machines[i], machine) == 0)
            return true;
    }
    return ask->n_machines == 0;
}

static int check(const Ips__CalibrateAsk *ask, struct calibration *c,
                 struct ips_err *err)
{
    const uint64_t *from = ask->n_lengths ? ask->lengths : usual_lengths;
    size_t n = ask->n_lengths ? ask->n_lengths
                              : sizeof(usual_lengths) / sizeof(*usual_lengths);
    if (ask->rounds > ROUNDS_MAX)
        return ips_err_set(err, IPS_E_USAGE, "%u rounds: at most %u",
                           ask->rounds, ROUNDS_MAX);
    c->rounds = ask->rounds ? ask->rounds : ROUNDS;
    if (n > LENGTHS_MAX)
        return ips_err_set(err, IPS_E_USAGE, "%zu lengths: at most %u", n,
                           LENGTHS_MAX);
    for (size_t i = 0; i < n; i++) {
        if (from[i] == 0 || from[i] > LENGTH_MAX ||
            (i > 0 && from[i] <= from[i - 1]))
            return ips_err_set(err, IPS_E_USAGE,
                               "length %llu: from 1 to %u bytes, each greater "
                               "than the one before",
                               (unsigned long long)from[i], LENGTH_MAX);
        c->lengths[c->length_count++] = from[i];
    }
    return 0;
}

static int plan(struct query *q, struct ips_err *err)
{
    const Ips__CalibrateAsk *ask = q->request->calibrate;
    struct calibration *c = calibration_of(q);
    size_t n = q->part_count, most = n * n + n;
    for (size_t i = 0; i < ask->n_machines; i++) {
        bool found = false;
        for (uint32_t k = 0; k < q->part_count; k++)
            found = found || strcmp(q->parts[k].machine, ask->machines[i]) == 0;
        if (!found)
            return ips_err_set(err, IPS_E_NOT_FOUND,
                               "machine %.80s: no slave of that name is "
                               "connected; `ipsq status` lists them",
                               ask->machines[i]);
    }
    if (n == 0)
        return ips_err_set(err, IPS_E_NOT_FOUND,
                           "no slave is connected: start ips-slave on each "
                           "machine first");
    c->job = calloc(most + 1, sizeof(*c->job));
    c->failed = calloc(most + 1, sizeof(*c->failed));
    if (!c->job || !c->failed)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    for (uint32_t i = 0; i < n; i++) {
        struct part *a = &q->parts[i];
        a->expected = true;
        if (!named(ask, a->machine))
            continue;
        c->job[c->job_count++] = (struct job){a, a, MTIME_TCP};
        c->job[c->job_count++] = (struct job){a, a, MTIME_UNIX};
        for (uint32_t k = 0; k < n; k++) {
            if (k != i && named(ask, q->parts[k].machine))
                c->job[c->job_count++] =
                    (struct job){a, &q->parts[k], MTIME_TCP};
        }
    }
    return 0;
}

static void measure(struct query *q)
{
    struct ips_err err = {0};
    struct calibration *c = calloc(1, sizeof(*c));
    q->data = c;
    int rc = c ? check(q->request->calibrate, c, &err)
               : ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
    if (rc == 0)
        rc = parts_make_all(q, &err);
    if (rc == 0)
        rc = plan(q, &err);
    if (rc == 0) /* a damaged file is not written over */
        rc = mtimes_load(&q->m->mtimes, &err);
    if (rc < 0)
        query_fail(q, &err);
    else
        next_job(q);
}

/* The table was changed and is saved, or it is what the file says. */
static void settle(struct query *q, int rc, const struct ips_err *err)
{
    if (rc == 0) {
        answer(q, true, NULL);
        return;
    }
    q->m->mtimes.seen_inode = 0;
    query_fail(q, err);
}

static void import(struct query *q)
{
    const Ips__CalibrateAsk *ask = q->request->calibrate;
    struct mtimes *t = &q->m->mtimes, fresh = {0};
    struct ips_err err = {0};
    int rc = ask->replace ? 0 : mtimes_load(t, &err);
    if (rc == 0) /* judged before anything is changed */
        rc = mtimes_parse(&fresh, "what is imported", ask->text, &err);
    if (rc == 0 && ask->replace)
        (void)mtimes_forget(t, NULL);
    if (rc == 0)
        rc = mtimes_parse(t, "what is imported", ask->text, &err);
    if (rc == 0)
        rc = mtimes_save(t, &err);
    mtimes_release(&fresh);
    settle(q, rc, &err);
}

static void forget(struct query *q)
{
    const Ips__CalibrateAsk *ask = q->request->calibrate;
    struct mtimes *t = &q->m->mtimes;
    struct ips_err err = {0};
    int rc = 0;
    if (ask->n_machines == 0) {
        (void)mtimes_forget(t, NULL); /* a damaged file, too */
    } else {
        rc = mtimes_load(t, &err);
    }
    for (size_t i = 0; rc == 0 && i < ask->n_machines; i++) {
        if (mtimes_forget(t, ask->machines[i]) == 0)
            rc = ips_err_set(&err, IPS_E_NOT_FOUND,
                             "machine %.80s: nothing was measured of it",
                             ask->machines[i]);
    }
    if (rc == 0)
        rc = mtimes_save(t, &err);
    settle(q, rc, &err);
}

static void show(struct query *q, bool as_text)
{
    struct ips_err err = {0};
    char *text = NULL;
    int rc = mtimes_load(&q->m->mtimes, &err);
    if (rc == 0 && as_text && !(text = mtimes_text(&q->m->mtimes)))
        rc = ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
    if (rc < 0)
        query_fail(q, &err);
    else
        answer(q, !as_text, text);
    free(text);
}

static void start(struct query *q)
{
    switch (q->request->calibrate->what) {
    case IPS__CALIBRATE_ASK__WHAT__SHOW:
        show(q, false);
        return;
    case IPS__CALIBRATE_ASK__WHAT__EXPORT:
        show(q, true);
        return;
    case IPS__CALIBRATE_ASK__WHAT__MEASURE:
        measure(q);
        return;
    case IPS__CALIBRATE_ASK__WHAT__IMPORT:
        import(q);
        return;
    case IPS__CALIBRATE_ASK__WHAT__FORGET:
        forget(q);
        return;
    case _IPS__CALIBRATE_ASK__WHAT_IS_INT_SIZE:
        break;
    }
    fail(q, IPS_E_USAGE, "calibrate: nothing that is known here");
}

static void release(struct query *q)
{
    struct calibration *c = calibration_of(q);
    if (!c)
        return;
    for (uint32_t i = 0; i < c->failed_count; i++)
        free(c->failed[i]);
    free(c->failed);
    free(c->job);
    free(c);
    q->data = NULL;
    for (uint32_t i = 0; i < q->part_count; i++)
        q->parts[i].own = NULL; /* kept messages */
}

const struct query_kind query_calibrate = {
    .name = "calibrate", .exclusive = true, .start = start, .release = release};
