/*
 * Measures message times. First the master asks every machine how busy it is
 * and what a wake-up costs on it. Then it measures one pair of machines at a
 * time, so that pairs do not disturb each other: the receiving slave echoes
 * messages, and the sending slave measures the round trips, one message length
 * after the other.
 *
 * A pair that cannot be measured, or whose times are in doubt
 * (message_times_doubt.h), is reported as failed, and the measurement goes on
 * with the next pair. With `force` a doubtful pair is kept and marked. Each
 * pair is saved as soon as it is measured, so an interruption loses no result.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "common/log.h"
#include "common/types.h"
#include "master/base/message_times_doubt.h"
#include "master/calibrate/calibrate.h"
#include "master/query/machine_share.h"

#define KEY_BYTES 16u
#define ECHO_SECONDS 30u
#define ROUNDS 200u
#define WAKE_ROUNDS 200u
#define ROUNDS_MAX 100000u
#define LENGTHS_MAX 32u
#define LENGTH_MAX (16u << 20)
/* measuring time for each message length of a pair */
#define LENGTH_NS 200000000ULL

static const uint64_t usual_lengths[] = {1,    16,    64,    256,    1024,
                                         4096, 16384, 65536, 262144, 1048576};

struct job { /* one pair of machines to be measured, in one direction */
    struct machine_share *from, *to;
    enum message_time_transport over;
    bool back; /* measures the opposite direction of the previous job */
};

struct calibration { /* stored in query.data */
    struct job *job;
    uint32_t job_count, at;
    /* [machine_count] the machines to be measured, which are first asked
     * whether they are idle */
    struct machine_share **machine;
    uint32_t machine_count, machine_at;
    uint64_t wake_ns; /* wake-up cost, in ns, of machine[machine_at] */
    /* [q->machine_count] for each machine, why it is not idle; "": it is
     * idle */
    char (*busy)[160];
    bool force;
    uint64_t lengths[LENGTHS_MAX];
    uint32_t length_count;
    uint32_t rounds;
    uint8_t key[KEY_BYTES];
    struct message_time_pair now; /* result of job[at] */
    struct message_time_trip trip[LENGTHS_MAX];
    /* `there`: result of the previous job, as saved; `older`: the table entry
     * that it replaced. count 0: none */
    struct message_time_pair there, older;
    char **failed; /* one text per failed pair, "m1 -> m2: why" */
    uint32_t failed_count, done;
};

static struct calibration *calibration_of(struct query *q)
{
    return q->data;
}

static void fail_calibration(struct query *q, int code, const char *why)
{
    struct ips_err err = {0};
    ips_err_set(&err, code, "%s", why);
    query_fail(q, &err);
}

static void report_progress(struct query *q, uint64_t bytes)
{
    const struct calibration *c = calibration_of(q);
    const struct job *j = &c->job[c->at];
    char doing[200];
    Ips__CalibrateAnswer out = IPS__CALIBRATE_ANSWER__INIT;
    Ips__Reply reply = IPS__REPLY__INIT;
    snprintf(doing, sizeof(doing), "%s -> %s (%s), %llu B", j->from->machine,
             j->to->machine, message_time_transport_name(j->over),
             (unsigned long long)bytes);
    out.doing = doing;
    out.done = c->done;
    out.of = c->job_count * c->length_count;
    reply.answer_case = IPS__REPLY__ANSWER_CALIBRATE;
    reply.calibrate = &out;
    query_send_partial_reply(q, &reply);
}

/* ---- measuring the pairs ------------------------------------------------ */

static void start_next_pair_or_send_answer(struct query *q);

static void record_failure_of_current_pair(struct query *q, const char *why)
{
    struct calibration *c = calibration_of(q);
    const struct job *j = &c->job[c->at];
    char *text = NULL;
    if (asprintf(&text, "%s -> %s (%s): %s", j->from->machine, j->to->machine,
                 message_time_transport_name(j->over), why) >= 0)
        c->failed[c->failed_count++] = text;
    ips_log_info("calibrate: %s -> %s: %s", j->from->machine, j->to->machine,
                 why);
}

static void record_refusal_of_current_pair(struct query *q, const char *doubt)
{
    char why[320];
    snprintf(why, sizeof(why),
             "%.200s; not kept: repeat it on an idle machine, or use "
             "--force",
             doubt);
    record_failure_of_current_pair(q, why);
}

/* If the requests to this slave failed: adds the current pair to the failed
 * ones, makes the slave usable for the next pair, and returns true. */
static bool reset_machine_and_record_failure_if_failed(struct query *q,
                                                       struct machine_share *p)
{
    if (p->state == MACHINE_ACTIVE)
        return false;
    record_failure_of_current_pair(q, *p->why ? p->why : "its slave went away");
    p->state = MACHINE_ACTIVE;
    p->why[0] = '\0';
    return true;
}

static void format_current_time(char measured[static 32])
{
    time_t now = time(NULL);
    struct tm tm;
    if (!gmtime_r(&now, &tm) ||
        strftime(measured, 32, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        snprintf(measured, 32, "unknown");
}

static const char *text_of_calibrate_command(const struct calibration *c)
{
    return c->force ? "ipsq calibrate --force" : "ipsq calibrate";
}

/* Puts the pair or the wake row (either may be NULL) into the current table and
 * saves it. On an error it fails the question. */
static int
reload_table_and_save_pair_or_wake(struct query *q,
                                   const struct message_time_pair *pair,
                                   const struct message_time_wake *wake)
{
    struct message_times *t = &q->m->message_times;
    struct ips_err err = {0};
    /* read the file again, because the user may have edited it meanwhile */
    int rc = message_times_reload_if_changed(t, &err);
    if (rc == 0 && pair)
        rc = message_times_insert_or_replace_pair(t, pair, &err);
    if (rc == 0 && wake)
        rc = message_times_insert_or_replace_wake(t, wake, &err);
    if (rc == 0)
        rc = message_times_save(t, &err);
    if (rc < 0)
        query_fail(q, &err);
    return rc;
}

/* Checks the result of the previous job, already saved, against the opposite
 * direction, now measured. If it is in doubt, marks it (with `force`), or
 * restores or removes its entry in the table. */
static void mark_or_undo_pair_if_directions_differ(struct query *q)
{
    struct calibration *c = calibration_of(q);
    struct message_times *t = &q->m->message_times;
    struct ips_err err = {0};
    if (!message_times_write_doubt_if_ways_differ(
            &c->there, &c->now, c->there.doubt, sizeof(c->there.doubt)))
        return;
    if (c->force || c->older.count) {
        (void)reload_table_and_save_pair_or_wake(
            q, c->force ? &c->there : &c->older, NULL);
    } else if (message_times_reload_if_changed(t, &err) < 0 ||
               (message_times_remove_pair(t, c->there.from, c->there.to,
                                          c->there.over) &&
                message_times_save(t, &err) < 0)) {
        query_fail(q, &err);
    }
    if (q->over || c->force)
        return;
    c->at--;
    record_refusal_of_current_pair(q, c->there.doubt);
    c->at++;
}

/* Returns why one of the job's two machines was not idle; "": both were idle.
 */
static const char *busy_text_of_job_machines(const struct query *q,
                                             const struct job *j)
{
    const struct calibration *c = q->data;
    const char *busy = c->busy[j->from - q->machines];
    return *busy ? busy : c->busy[j->to - q->machines];
}

/* Stores the result of job[at] or, if it is in doubt and `force` is not set,
 * notes why it is not kept. Rechecks the result of the previous job if that
 * measured the opposite direction. */
static void store_or_refuse_pair(struct query *q)
{
    struct calibration *c = calibration_of(q);
    const struct job *j = &c->job[c->at];
    struct message_time_pair *p = &c->now;
    const char *busy = busy_text_of_job_machines(q, j);
    if (*busy)
        snprintf(p->doubt, sizeof(p->doubt), "%s", busy);
    else if (!message_times_check_trips_and_write_doubt(p, c->trip, p->doubt,
                                                        sizeof(p->doubt)) &&
             j->back && c->there.count)
        (void)message_times_write_doubt_if_ways_differ(p, &c->there, p->doubt,
                                                       sizeof(p->doubt));
    if (j->back && c->there.count)
        mark_or_undo_pair_if_directions_differ(q);
    if (q->over)
        return;
    if (*p->doubt && !c->force) {
        record_refusal_of_current_pair(q, p->doubt);
        return;
    }
    const struct message_time_pair *old =
        message_times_find_pair(&q->m->message_times, p->from, p->to, p->over);
    c->older.count = 0;
    if (old)
        c->older = *old;
    if (reload_table_and_save_pair_or_wake(q, p, NULL) == 0 && !j->back)
        c->there = *p;
}

static void date_and_store_or_refuse_pair(struct query *q)
{
    struct calibration *c = calibration_of(q);
    if (c->now.count == 0)
        return;
    format_current_time(c->now.measured);
    snprintf(c->now.by, sizeof(c->now.by), "%s", text_of_calibrate_command(c));
    store_or_refuse_pair(q);
}

static int handle_trip_reply(struct query *q, struct machine_share *p,
                             const Ips__Reply *reply, struct ips_err *err)
{
    struct calibration *c = calibration_of(q);
    const Ips__TripAnswer *a = reply->trip;
    (void)p;
    if (reply->answer_case != IPS__REPLY__ANSWER_TRIP)
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to TripAsk");
    if (c->now.count >= c->length_count ||
        a->bytes != c->lengths[c->now.count] || a->ns > IPS_CURVE_MAX_NS ||
        a->cpu_ns > IPS_CURVE_MAX_NS)
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "it measured what it was not asked for");
    c->trip[c->now.count] = (struct message_time_trip){
        .trip_ns = a->trip_ns, .delay_ns = a->delay_ns, .all_ns = a->all_ns};
    c->now.point[c->now.count++] =
        (struct message_time_point){.bytes = a->bytes,
                                    .ns = a->ns,
                                    .low_ns = a->low_ns,
                                    .high_ns = a->high_ns,
                                    .rounds = a->rounds,
                                    .cpu_ns = a->cpu_ns};
    c->done++;
    report_progress(q, a->bytes);
    return 0;
}

static void finish_pair_and_measure_next(struct query *q)
{
    struct calibration *c = calibration_of(q);
    struct job *j = &c->job[c->at];
    if (!reset_machine_and_record_failure_if_failed(q, j->from))
        date_and_store_or_refuse_pair(q);
    if (q->over)
        return;
    c->at++;
    c->done = c->at * c->length_count;
    start_next_pair_or_send_answer(q);
}

static void ask_to_measure_trips(struct query *q, char **addresses,
                                 size_t count)
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
    query_open_round(q, handle_trip_reply, finish_pair_and_measure_next);
    query_send_request_to_slave(q, j->from, &request, true);
}

static int store_echo_reply_of_machine(struct query *q, struct machine_share *p,
                                       const Ips__Reply *reply,
                                       struct ips_err *err)
{
    if (reply->answer_case != IPS__REPLY__ANSWER_ECHO ||
        reply->echo->n_addresses == 0)
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to EchoAsk");
    if (!query_keep_message(q, p))
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    p->own = reply->echo;
    return 0;
}

static void request_trips_or_skip_pair(struct query *q)
{
    struct calibration *c = calibration_of(q);
    struct job *j = &c->job[c->at];
    const Ips__EchoAnswer *echo = j->to->own;
    j->to->own = NULL;
    if (reset_machine_and_record_failure_if_failed(q, j->to) || !echo) {
        c->at++;
        c->done = c->at * c->length_count;
        start_next_pair_or_send_answer(q);
        return;
    }
    ask_to_measure_trips(q, echo->addresses, echo->n_addresses);
    query_close_round(q);
}

static void start_next_pair_or_send_answer(struct query *q)
{
    struct calibration *c = calibration_of(q);
    for (; c->at < c->job_count; c->at++) {
        const struct job *j = &c->job[c->at];
        const char *busy = busy_text_of_job_machines(q, j);
        if (!j->from->slave || !j->to->slave)
            record_failure_of_current_pair(
                q, "its slave is not connected any more");
        else if (*busy && !c->force)
            record_refusal_of_current_pair(q, busy);
        else
            break;
        if (!j->back)
            c->there.count = 0;
    }
    if (c->at == c->job_count) {
        calibrate_send_answer(q, true, NULL);
        return;
    }
    if (!c->job[c->at].back)
        c->there.count = 0;
    struct job *j = &c->job[c->at];
    memset(&c->now, 0, sizeof(c->now));
    snprintf(c->now.from, sizeof(c->now.from), "%s", j->from->machine);
    snprintf(c->now.to, sizeof(c->now.to), "%s", j->to->machine);
    c->now.over = j->over;
    if (getrandom(c->key, KEY_BYTES, 0) != (ssize_t)KEY_BYTES) {
        fail_calibration(q, IPS_E_IO, "no random numbers for a key");
        return;
    }
    Ips__EchoAsk ask = IPS__ECHO_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    ask.key = (ProtobufCBinaryData){KEY_BYTES, c->key};
    ask.over = ips_unconst_text(message_time_transport_name(j->over));
    ask.seconds = ECHO_SECONDS;
    ask.inside = j->from == j->to;
    request.ask_case = IPS__REQUEST__ASK_ECHO;
    request.echo = &ask;
    j->to->own = NULL;
    query_open_round(q, store_echo_reply_of_machine,
                     request_trips_or_skip_pair);
    query_send_request_to_slave(q, j->to, &request, true);
    query_close_round(q);
}

/* ---- is each machine idle? ----------------------------------------------- */

static void ask_next_machine_if_ready(struct query *q);

static int store_busy_text_and_wake_cost(struct query *q,
                                         struct machine_share *p,
                                         const Ips__Reply *reply,
                                         struct ips_err *err)
{
    struct calibration *c = calibration_of(q);
    const Ips__ReadyAnswer *a = reply->ready;
    if (reply->answer_case != IPS__REPLY__ANSWER_READY)
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to ReadyAsk");
    bool busy = message_times_check_busy_and_write_reason(
        p->machine, a->load_milli, a->processors, c->busy[p - q->machines],
        sizeof(*c->busy));
    if (!busy || c->force)
        c->wake_ns = a->wake_ns;
    return 0;
}

static void save_wake_cost_and_check_next_machine(struct query *q)
{
    struct calibration *c = calibration_of(q);
    struct machine_share *p = c->machine[c->machine_at];
    struct message_time_wake wake = {.ns = c->wake_ns};
    if (c->wake_ns <= IPS_CURVE_MAX_NS) {
        snprintf(wake.machine, sizeof(wake.machine), "%s", p->machine);
        format_current_time(wake.measured);
        snprintf(wake.by, sizeof(wake.by), "%s", text_of_calibrate_command(c));
        if (reload_table_and_save_pair_or_wake(q, NULL, &wake) < 0)
            return;
    }
    /* If the slave could not measure the wake-up cost, this is not an error
     * here: the jobs of its pairs will fail, too, and report the reason. */
    p->state = MACHINE_ACTIVE;
    p->why[0] = '\0';
    c->machine_at++;
    ask_next_machine_if_ready(q);
}

static void ask_next_machine_if_ready(struct query *q)
{
    struct calibration *c = calibration_of(q);
    Ips__ReadyAsk ask = IPS__READY_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    while (c->machine_at < c->machine_count &&
           !c->machine[c->machine_at]->slave)
        c->machine_at++;
    if (c->machine_at == c->machine_count) {
        start_next_pair_or_send_answer(q);
        return;
    }
    c->wake_ns = IPS_UNMEASURED;
    ask.rounds = WAKE_ROUNDS;
    request.ask_case = IPS__REQUEST__ASK_READY;
    request.ready = &ask;
    query_open_round(q, store_busy_text_and_wake_cost,
                     save_wake_cost_and_check_next_machine);
    query_send_request_to_slave(q, c->machine[c->machine_at], &request, true);
    query_close_round(q);
}

/* ---- which machines and pairs to measure ------------------------------ */

static bool is_machine_requested(const Ips__CalibrateAsk *ask,
                                 const char *machine)
{
    for (size_t i = 0; i < ask->n_machines; i++) {
        if (strcmp(ask->machines[i], machine) == 0)
            return true;
    }
    return ask->n_machines == 0;
}

static int check_and_read_calibrate_ask(const Ips__CalibrateAsk *ask,
                                        struct calibration *c,
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
            return ips_err_set(
                err, IPS_E_USAGE,
                "length %llu: lengths must be from 1 to %u bytes and "
                "ascending",
                (unsigned long long)from[i], LENGTH_MAX);
        c->lengths[c->length_count++] = from[i];
    }
    return 0;
}

static int plan_pairs(struct query *q, struct ips_err *err)
{
    const Ips__CalibrateAsk *ask = q->request->calibrate;
    struct calibration *c = calibration_of(q);
    size_t n = q->machine_count, most = n * n + n;
    for (size_t i = 0; i < ask->n_machines; i++) {
        bool found = false;
        for (uint32_t k = 0; k < q->machine_count; k++)
            found =
                found || strcmp(q->machines[k].machine, ask->machines[i]) == 0;
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
    c->job = calloc(most, sizeof(*c->job));
    c->failed = calloc(most, sizeof(*c->failed));
    c->machine = calloc(n, sizeof(struct machine_share *));
    c->busy = calloc(n, sizeof(*c->busy));
    c->force = ask->force;
    if (!c->job || !c->failed || !c->machine || !c->busy)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    for (uint32_t i = 0; i < n; i++) {
        struct machine_share *a = &q->machines[i];
        a->expected = true;
        if (!is_machine_requested(ask, a->machine))
            continue;
        c->machine[c->machine_count++] = a;
        c->job[c->job_count++] = (struct job){a, a, MTIME_TCP, false};
        c->job[c->job_count++] = (struct job){a, a, MTIME_UNIX, false};
        for (uint32_t k = i + 1; k < n; k++) {
            struct machine_share *b = &q->machines[k];
            if (!is_machine_requested(ask, b->machine))
                continue;
            c->job[c->job_count++] = (struct job){a, b, MTIME_TCP, false};
            c->job[c->job_count++] = (struct job){b, a, MTIME_TCP, true};
        }
    }
    return 0;
}

void calibrate_measure(struct query *q)
{
    struct ips_err err = {0};
    struct calibration *c = calloc(1, sizeof(*c));
    q->data = c;
    int rc = c ? check_and_read_calibrate_ask(q->request->calibrate, c, &err)
               : ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
    if (rc == 0)
        rc = machine_shares_list_connected_machines(q, &err);
    if (rc == 0)
        rc = plan_pairs(q, &err);
    /* load the table first, because a damaged file must not be overwritten */
    if (rc == 0)
        rc = message_times_reload_if_changed(&q->m->message_times, &err);
    if (rc < 0)
        query_fail(q, &err);
    else
        ask_next_machine_if_ready(q);
}

void calibrate_fill_failures_and_progress(const struct query *q,
                                          Ips__CalibrateAnswer *out)
{
    const struct calibration *c = q->data;
    if (!c)
        return;
    out->failed = c->failed;
    out->n_failed = c->failed_count;
    out->done = c->done;
    out->of = c->job_count * c->length_count;
}

void calibrate_release(struct query *q)
{
    struct calibration *c = calibration_of(q);
    if (!c)
        return;
    for (uint32_t i = 0; i < c->failed_count; i++)
        free(c->failed[i]);
    free(c->failed);
    free(c->machine);
    free(c->busy);
    free(c->job);
    free(c);
    q->data = NULL;
    for (uint32_t i = 0; i < q->machine_count; i++)
        /* `own` points into a kept message, so it is not freed */
        q->machines[i].own = NULL;
}
