/* Message times in the slaves of cluster.h: told by the master, measured by
 * nobody. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/fake_slave.h"

/* No end here is of a pipe or a Unix socket. */
void fake_slave_peers(struct fake_slave *s, const Ips__PeersAsk *ask)
{
    struct ips_message_time_map *m = &s->message_times;
    if (ask->n_message_times > 0 || !ask->more)
        ips_message_time_map_release(m);
    if (ask->n_message_times == 0)
        return;
    m->curve = calloc(ask->n_message_times, sizeof(*m->curve));
    m->which = malloc((s->end_count + 1) * sizeof(*m->which));
    assert_true(m->curve && m->which);
    m->curve_count = (uint32_t)ask->n_message_times;
    m->end_count = s->end_count;
    for (uint32_t k = 0; k < m->curve_count; k++) {
        const Ips__MessageTimeCurve *c = ask->message_times[k];
        assert_int_equal(ips_curve_build_from_points(c->bytes, c->ns,
                                                     (uint32_t)c->n_bytes,
                                                     &m->curve[k], NULL),
                         0);
        if (c->inside && !c->local)
            m->other = k;
    }
    for (uint32_t e = 0; e < m->end_count; e++)
        m->which[e] = m->other;
    for (size_t i = 0; i < ask->n_peers; i++) {
        for (uint32_t k = 0; k < m->curve_count; k++) {
            if (!ask->message_times[k]->inside &&
                ask->message_times[k]->part == ask->peers[i]->part)
                m->which[ask->peers[i]->end] = k;
        }
    }
}

static void answer_error(struct fake_slave *s, uint64_t id)
{
    Ips__Reply reply = IPS__REPLY__INIT;
    reply.error = IPS_E_UNREACHABLE;
    reply.message = ips_unconst_text("as the test wants it");
    fake_slave_answer(s, id, &reply, true);
}

void fake_slave_echo(struct fake_slave *s, const Ips__Request *r)
{
    Ips__Reply reply = IPS__REPLY__INIT;
    Ips__EchoAnswer a = IPS__ECHO_ANSWER__INIT;
    char *address = s->machine;
    if (s->echo_fails) {
        answer_error(s, r->id);
        return;
    }
    a.addresses = &address;
    a.n_addresses = 1;
    reply.answer_case = IPS__REPLY__ANSWER_ECHO;
    reply.echo = &a;
    fake_slave_answer(s, r->id, &reply, true);
}

void fake_slave_ready(struct fake_slave *s, const Ips__Request *r)
{
    Ips__Reply reply = IPS__REPLY__INIT;
    Ips__ReadyAnswer a = IPS__READY_ANSWER__INIT;
    a.wake_ns = s->wake_ns;
    a.load_milli = s->load_milli;
    a.processors = 2;
    reply.answer_case = IPS__REPLY__ANSWER_READY;
    reply.ready = &a;
    fake_slave_answer(s, r->id, &reply, true);
}

/* Times name both sides: the address is the other's machine. */
void fake_slave_trip(struct fake_slave *s, const Ips__Request *r)
{
    const Ips__TripAsk *ask = r->trip;
    assert_int_equal(ask->key.len, 16);
    assert_int_equal(ask->n_addresses, 1);
    if (s->trip_fails) {
        answer_error(s, r->id);
        return;
    }
    s->trip_id = r->id;
    for (size_t i = 0; i < (s->trip_waits ? 1 : ask->n_lengths); i++) {
        Ips__Reply reply = IPS__REPLY__INIT;
        Ips__TripAnswer a = IPS__TRIP_ANSWER__INIT;
        a.bytes = ask->lengths[i];
        a.rounds = ask->rounds;
        a.ns = 1000000u + s->trip_ns +
               100000u * (uint64_t)(ask->addresses[0][1] - '0') +
               ask->lengths[i];
        a.low_ns = a.ns - 1;
        a.high_ns = a.ns + 1 + s->trip_spread_ns;
        a.trip_ns = 2 * a.ns;
        a.all_ns = a.rounds * a.trip_ns;
        a.delay_ns = s->trip_late ? a.all_ns / 4 : 0;
        reply.answer_case = IPS__REPLY__ANSWER_TRIP;
        reply.trip = &a;
        fake_slave_answer(s, r->id, &reply, i + 1 == ask->n_lengths);
    }
}
