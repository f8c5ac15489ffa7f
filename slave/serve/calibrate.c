#include "slave/serve/calibrate.h"

#include <stdlib.h>
#include <string.h>

#include "slave/calibrate/net.h"
#include "slave/calibrate/ready.h"

#define ECHO_SECONDS_MAX 120u
#define LENGTHS_MAX 64u

struct calibrate_job {
    struct slave_job job;
    Ips__Request *ask; /* our own copy of the request */
    struct slave_echo_at at;
    char *addresses[SLAVE_ECHO_ADDRESSES];
    struct slave_trip trip;
    bool open;
    /* index in the request of the message length to measure next */
    size_t length;
    union {
        Ips__EchoAnswer echo;
        Ips__TripAnswer trip;
        Ips__ReadyAnswer ready;
    } answer;
};

static struct calibrate_job *cast_to_calibrate_job(struct slave_job *job)
{
    return (struct calibrate_job *)(void *)job;
}

static void release_calibrate_job(struct slave_job *job,
                                  struct slave_graphs *graphs)
{
    struct calibrate_job *m = cast_to_calibrate_job(job);
    (void)graphs;
    if (m->open)
        slave_trip_close(&m->trip);
    ips__request__free_unpacked(m->ask, NULL);
}

static void start_echo_server_and_answer(struct slave_job *job,
                                         struct slave_graphs *graphs)
{
    struct calibrate_job *m = cast_to_calibrate_job(job);
    const Ips__EchoAsk *ask = m->ask->echo;
    Ips__EchoAnswer *a = &m->answer.echo;
    int rc = 0;
    (void)graphs;
    if (ask->key.len != SLAVE_ECHO_KEY_BYTES || ask->seconds == 0 ||
        ask->seconds > ECHO_SECONDS_MAX)
        rc = ips_err_set(&job->err, IPS_E_PROTOCOL,
                         "a key of %zu bytes, for %u s", ask->key.len,
                         ask->seconds);
    if (rc == 0)
        rc = slave_echo_start(ask->key.data, strcmp(ask->over, "unix") == 0,
                              ask->inside, ask->seconds, &m->at, &job->err);
    if (rc < 0) {
        slave_job_fail(job);
        return;
    }
    ips__echo_answer__init(a);
    for (uint32_t i = 0; i < m->at.count; i++)
        m->addresses[i] = m->at.address[i];
    a->addresses = m->addresses;
    a->n_addresses = m->at.count;
    job->reply.answer_case = IPS__REPLY__ANSWER_ECHO;
    job->reply.echo = a;
    job->finished = true;
}

static int connect_to_echo_server_unless_open(struct calibrate_job *m,
                                              const Ips__TripAsk *ask)
{
    if (m->open)
        return 0;
    if (ask->key.len != SLAVE_ECHO_KEY_BYTES || ask->n_lengths == 0 ||
        ask->n_lengths > LENGTHS_MAX)
        return ips_err_set(&m->job.err, IPS_E_PROTOCOL,
                           "a key of %zu bytes, %zu lengths", ask->key.len,
                           ask->n_lengths);
    int rc = slave_trip_connect(&m->trip, ask->key.data,
                                (const char *const *)ask->addresses,
                                ask->n_addresses, &m->job.stop, &m->job.err);
    m->open = rc == 0;
    return rc;
}

static void measure_trips_of_next_length_and_answer(struct slave_job *job,
                                                    struct slave_graphs *graphs)
{
    struct calibrate_job *m = cast_to_calibrate_job(job);
    const Ips__TripAsk *ask = m->ask->trip;
    Ips__TripAnswer *a = &m->answer.trip;
    struct slave_trip_result found = {0};
    int rc = connect_to_echo_server_unless_open(m, ask);
    (void)graphs;
    ips__trip_answer__init(a);
    if (rc == 0)
        rc = slave_trip_measure(&m->trip, ask->lengths[m->length], ask->rounds,
                                ask->length_ns, &found, &job->err);
    if (rc < 0) {
        slave_job_fail(job);
        return;
    }
    a->bytes = ask->lengths[m->length++];
    a->rounds = found.half.rounds;
    a->ns = found.half.median_ns;
    a->low_ns = found.half.low_ns;
    a->high_ns = found.half.high_ns;
    a->trip_ns = found.trip_ns;
    a->cpu_ns = found.cpu_ns;
    a->delay_ns = found.delay_ns;
    a->all_ns = found.all_ns;
    job->reply.answer_case = IPS__REPLY__ANSWER_TRIP;
    job->reply.trip = a;
    job->finished = m->length == ask->n_lengths;
}

static void measure_machine_and_answer(struct slave_job *job,
                                       struct slave_graphs *graphs)
{
    struct calibrate_job *m = cast_to_calibrate_job(job);
    Ips__ReadyAnswer *a = &m->answer.ready;
    struct slave_ready ready;
    (void)graphs;
    if (slave_ready_measure_load_and_wake_cost(
            m->ask->ready->rounds, &job->stop, &ready, &job->err) < 0) {
        slave_job_fail(job);
        return;
    }
    ips__ready_answer__init(a);
    a->wake_ns = ready.wake_ns;
    a->load_milli = ready.load_milli;
    a->processors = ready.processors;
    job->reply.answer_case = IPS__REPLY__ANSWER_READY;
    job->reply.ready = a;
    job->finished = true;
}

struct slave_job *slave_calibrate_make_job(const Ips__Request *q)
{
    struct calibrate_job *m = calloc(1, sizeof(*m));
    if (m)
        m->ask = slave_serve_copy_request(q);
    if (!m || !m->ask) {
        free(m);
        return NULL;
    }
    m->job.id = q->id;
    m->job.step = q->ask_case == IPS__REQUEST__ASK_ECHO
                      ? start_echo_server_and_answer
                  : q->ask_case == IPS__REQUEST__ASK_READY
                      ? measure_machine_and_answer
                      : measure_trips_of_next_length_and_answer;
    m->job.release = release_calibrate_job;
    m->job.credit = UINT64_MAX;
    ips__reply__init(&m->job.reply);
    return &m->job;
}
