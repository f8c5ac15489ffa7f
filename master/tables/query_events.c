/*
 * Sends the raw events from the slaves as they arrive. The machines follow each
 * other in order of name: a slave is asked only when the previous one has
 * finished. A client that reads slowly slows down the slave, because the master
 * allows the slave more replies only while few bytes are unsent to the client.
 * Category 3 of IPS-9.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/object.h"
#include "common/types.h"
#include "master/query/gather.h"
#include "master/query/machine_share.h"

#define EVENTS_WINDOW 16u

struct relay {
    uint32_t at;   /* index in gather.active of the machine being asked */
    uint64_t sent; /* number of events sent */
    /* the slave must wait to be allowed more replies, because too many bytes
     * are unsent to the client */
    bool waiting;
};

static void ask_next_machine_or_send_last_reply(struct query *q);

static void events_fail_for_machine(struct query *q,
                                    const struct machine_share *p,
                                    const char *why)
{
    struct ips_err err = {0};
    ips_err_set(&err, IPS_E_INCOMPLETE, "machine %s: %s", p->machine, why);
    query_fail(q, &err);
}

static int relay_events_reply(struct query *q, struct machine_share *p,
                              const Ips__Reply *reply, struct ips_err *err)
{
    struct relay *r = q->data;
    if (reply->answer_case != IPS__REPLY__ANSWER_EVENTS)
        return ips_err_set(err, IPS_E_PROTOCOL, "no answer to EventsAsk");
    r->sent += reply->events->n_events;
    if (reply->events->n_events > 0) {
        Ips__Reply onward = IPS__REPLY__INIT;
        onward.answer_case = IPS__REPLY__ANSWER_EVENTS;
        onward.events = reply->events;
        query_send_partial_reply(q, &onward);
    }
    r->waiting = !reply->last && query_is_client_backlogged(q);
    if (!reply->last && !r->waiting)
        query_widen_reply_window(q, p);
    return 0;
}

static void on_machine_relayed(struct query *q)
{
    struct relay *r = q->data;
    const struct machine_share *p = q->gather.active[r->at];
    if (p->state == MACHINE_FAILED) {
        events_fail_for_machine(q, p, p->why);
        return;
    }
    r->at++;
    ask_next_machine_or_send_last_reply(q);
}

static void ask_events_of_machine(struct query *q, struct machine_share *p,
                                  uint64_t left)
{
    const Ips__EventsAsk *asked = q->request->events;
    if (!p->slave || !p->slave->peer) {
        events_fail_for_machine(q, p, "its slave went away");
        return;
    }
    Ips__EventsAsk ask = IPS__EVENTS_ASK__INIT;
    Ips__Request request = IPS__REQUEST__INIT;
    ask.object = asked->object;
    ask.from_ns = asked->from_ns;
    ask.to_ns = asked->to_ns;
    query_get_machine_window(q, p, &ask.from_ns, &ask.to_ns);
    ask.limit = left;
    ask.window = EVENTS_WINDOW;
    ask.sites = asked->sites;
    ask.stacks = asked->stacks;
    request.ask_case = IPS__REQUEST__ASK_EVENTS;
    request.events = &ask;
    query_open_round(q, relay_events_reply, on_machine_relayed);
    query_send_request_to_slave(q, p, &request, true);
    p->window = EVENTS_WINDOW;
    query_close_round(q);
}

static void send_last_events_reply_or_fail(struct query *q)
{
    struct ips_err err = {0};
    char missing[800];
    const char *object = q->request->events->object;
    gather_write_missing_machines(q, missing, sizeof(missing));
    if (*missing && machine_share_machine_matches_object("", object)) {
        ips_err_set(&err, IPS_E_INCOMPLETE,
                    "events of these machines are missing: %s", missing);
        query_fail(q, &err);
    } else {
        Ips__EventsAnswer answer = IPS__EVENTS_ANSWER__INIT;
        Ips__Reply reply = IPS__REPLY__INIT;
        reply.answer_case = IPS__REPLY__ANSWER_EVENTS;
        reply.events = &answer;
        query_answer(q, &reply);
    }
}

static void ask_next_machine_or_send_last_reply(struct query *q)
{
    struct relay *r = q->data;
    const Ips__EventsAsk *asked = q->request->events;
    while (r->at < q->gather.count &&
           !machine_share_machine_matches_object(
               q->gather.active[r->at]->machine, asked->object))
        r->at++;
    if (r->at == q->gather.count ||
        (asked->limit > 0 && r->sent >= asked->limit))
        send_last_events_reply_or_fail(q);
    else
        ask_events_of_machine(q, q->gather.active[r->at],
                              asked->limit ? asked->limit - r->sent : 0);
}

static void start_relay_or_fail_without_object(struct query *q)
{
    const char *object = q->request->events->object;
    struct ips_err err = {0};
    /* no restart: events that were sent cannot be taken back */
    q->in_graph = false;
    q->streaming = q->released_run = true;
    if (gather_has_object(q, object)) {
        ask_next_machine_or_send_last_reply(q);
        return;
    }
    gather_set_no_object_error(q, object, &err);
    query_fail(q, &err);
}

static void events_continue_relay(struct query *q)
{
    struct relay *r = q->data;
    if (!r->waiting || r->at >= q->gather.count)
        return;
    struct machine_share *p = q->gather.active[r->at];
    r->waiting = false;
    p->heard_ns = master_now_ns();
    query_widen_reply_window(q, p);
}

static void events_start(struct query *q)
{
    struct relay *r = calloc(1, sizeof(*r));
    if (!r) {
        struct ips_err err = {0};
        ips_err_set(&err, IPS_E_NO_MEMORY, "no memory");
        query_fail(q, &err);
        return;
    }
    q->data = r;
    bool below = ips_object_count_components(q->request->events->object) > 1;
    gather_start(q, below ? GATHER_TABLE : 0,
                 start_relay_or_fail_without_object);
}

static void events_release(struct query *q)
{
    free(q->data);
    q->data = NULL;
    gather_release(q);
}

const struct query_kind query_events = {.name = "events",
                                        .exclusive = true,
                                        .start = events_start,
                                        .release = events_release,
                                        .pump = events_continue_relay};
