/* Connections: the first Hello tells a client from a slave. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "master/base/master.h"
#include "master/path/engine.h"
#include "master/query/query.h"
#include "master/tables/refresh.h"

/* Closes the connection after sending what is queued for the peer; ignores
 * everything that it sends from now on. */
static void dismiss_peer(struct ips_peer *peer, const char *why)
{
    ips_log_info("%s: %s", ips_peer_name(peer), why);
    ips_peer_set_ops(peer, NULL, NULL);
    ips_peer_set_on_drain(peer, NULL);
    ips_peer_close_after_send(peer, why);
}

static void answer_hello_or_refuse_peer(struct ips_peer *peer,
                                        const char *error)
{
    Ips__Hello hello = ips_make_hello(IPS__HELLO__ROLE__MASTER);
    hello.error = ips_unconst_text(error);
    ips_send_hello(peer, &hello);
    if (*error)
        dismiss_peer(peer, error);
}

/* ---- clients ---------------------------------------------------------- */

static void client_drop(struct master *m, struct ips_peer *peer)
{
    for (struct client **at = &m->clients; *at; at = &(*at)->next) {
        struct client *c = *at;
        if (c->peer == peer) {
            *at = c->next;
            m->client_count--;
            free(c);
            break;
        }
    }
    query_on_client_gone(m, peer);
}

static void start_or_stop_query_of_client(struct ips_peer *peer,
                                          const Ips__Envelope *env, void *arg)
{
    struct master *m = arg;
    if (env->body_case != IPS__ENVELOPE__BODY_REQUEST) {
        client_drop(m, peer);
        dismiss_peer(peer, "a client only asks");
    } else if (env->request->ask_case == IPS__REQUEST__ASK_MORE) {
        query_stop_if_zero_replies(m, peer, env->request->id,
                                   env->request->more->replies);
    } else {
        query_accept_from_client(m, peer, ips_peer_take_current_message(peer));
    }
}

static void remove_closed_client(struct ips_peer *peer, const char *why,
                                 void *arg)
{
    struct master *m = arg;
    ips_log_debug("%s: %s", ips_peer_name(peer), why);
    client_drop(m, peer);
}

static void resume_streams_of_drained_client(struct ips_peer *peer, void *arg)
{
    query_on_client_drain(arg, peer);
}

static const struct ips_peer_ops client_ops = {start_or_stop_query_of_client,
                                               remove_closed_client};

static void client_admit_or_refuse(struct master *m, struct ips_peer *peer)
{
    bool many = m->client_count >= MASTER_MAX_CLIENTS;
    struct client *c = many ? NULL : calloc(1, sizeof(*c));
    if (!c) {
        answer_hello_or_refuse_peer(
            peer, many ? "too many clients are connected: try again later"
                       : "the master is out of memory: try again later");
        return;
    }
    c->peer = peer;
    c->next = m->clients;
    m->clients = c;
    m->client_count++;
    ips_peer_set_ops(peer, &client_ops, m);
    ips_peer_set_on_drain(peer, resume_streams_of_drained_client);
    answer_hello_or_refuse_peer(peer, "");
}

/* ---- slaves ----------------------------------------------------------- */

static void mark_slave_lost_and_notify_queries(struct master *m,
                                               struct slave *s, const char *why)
{
    ips_log_info("machine %s: slave disconnected: %s", s->machine, why);
    roster_mark_disconnected(s);
    query_fail_machines_of_lost_slave(m, s, why);
}

static void store_slave_report(struct master *m, struct slave *s,
                               const Ips__Report *report)
{
    struct ips_err err = {0};
    roster_store_report(s, report, master_now_ns());
    if (catalogue_store_changed_runs(m->catalogue, s->machine, report->runs,
                                     report->n_runs, &err) < 0)
        ips_log_warn("%s", err.msg);
    refresh_add_open_runs_of_report(m, report);
}

static void dispatch_slave_message(struct ips_peer *peer,
                                   const Ips__Envelope *env, void *arg)
{
    struct master *m = arg;
    struct slave *s = roster_find_by_peer(&m->roster, peer);
    if (!s)
        return;
    switch (env->body_case) {
    case IPS__ENVELOPE__BODY_REPORT:
        store_slave_report(m, s, env->report);
        return;
    case IPS__ENVELOPE__BODY_REPLY:
        s->seen_ns = master_now_ns();
        query_on_reply(m, s, env->reply);
        return;
    case IPS__ENVELOPE__BODY_CM:
        s->seen_ns = master_now_ns();
        engine_cm_relay_message(m, s, env->cm);
        return;
    case IPS__ENVELOPE__BODY_HELLO:
    case IPS__ENVELOPE__BODY_REQUEST:
    case IPS__ENVELOPE__BODY__NOT_SET:
    case _IPS__ENVELOPE__BODY__CASE_IS_INT_SIZE:
        break;
    }
    mark_slave_lost_and_notify_queries(m, s, "sent what no slave sends");
    dismiss_peer(peer, "a slave only reports and answers");
}

static void mark_closed_slave_lost(struct ips_peer *peer, const char *why,
                                   void *arg)
{
    struct master *m = arg;
    struct slave *s = roster_find_by_peer(&m->roster, peer);
    if (s)
        mark_slave_lost_and_notify_queries(m, s, why);
}

static void on_slave_output_drained(struct ips_peer *peer, void *arg)
{
    query_send_rest_of_requests_to_slave(arg, peer);
}

static const struct ips_peer_ops slave_ops = {dispatch_slave_message,
                                              mark_closed_slave_lost};

/* A restarted slave may send Hello before the master has noticed that its old
 * connection ended. If the other side has closed the old connection, closes it
 * here too, so that the master does not refuse the new one. */
static void drop_old_slave_connection_if_closed(struct master *m,
                                                const char *machine)
{
    struct slave *s = roster_find(&m->roster, machine);
    struct ips_peer *old = s ? s->peer : NULL;
    if (!old || !ips_peer_other_side_closed(old))
        return;
    ips_peer_close_and_free_later(old);
    mark_slave_lost_and_notify_queries(m, s, "closed by the other side");
}

static void slave_admit_or_refuse(struct master *m, struct ips_peer *peer,
                                  const Ips__Hello *hello)
{
    struct ips_peer *old;
    struct slave *s;
    struct ips_err err = {0};
    char name[ROSTER_NAME_BYTES + 8];
    drop_old_slave_connection_if_closed(m, hello->machine);
    if (roster_admit(&m->roster, hello, peer, master_now_ns(), &old, &s, &err) <
        0) {
        ips_log_warn("slave refused: %s", err.msg);
        answer_hello_or_refuse_peer(peer, err.msg);
        return;
    }
    if (old) {
        query_fail_machines_of_lost_slave(m, s,
                                          "replaced by a newer connection");
        ips_peer_close_and_free_later(old);
    }
    snprintf(name, sizeof(name), "slave %s", s->machine);
    ips_peer_set_name(peer, name);
    ips_peer_set_ops(peer, &slave_ops, m);
    ips_peer_set_on_drain(peer, on_slave_output_drained);
    ips_log_info("machine %s: slave connected (%s, %u cores)", s->machine,
                 s->version, s->cores);
    answer_hello_or_refuse_peer(peer, "");
}

/* ---- connections before their Hello ----------------------------------- */

static void admit_peer_by_hello_role(struct ips_peer *peer,
                                     const Ips__Envelope *env, void *arg)
{
    struct master *m = arg;
    switch (env->hello->role) {
    case IPS__HELLO__ROLE__CLIENT:
        client_admit_or_refuse(m, peer);
        return;
    case IPS__HELLO__ROLE__SLAVE:
        slave_admit_or_refuse(m, peer, env->hello);
        return;
    case IPS__HELLO__ROLE__UNKNOWN:
    case IPS__HELLO__ROLE__MASTER:
    case _IPS__HELLO__ROLE_IS_INT_SIZE:
        break;
    }
    ips_peer_refuse(peer,
                    "this is a master: it speaks with clients and slaves");
}

static void log_close_before_hello(struct ips_peer *peer, const char *why,
                                   void *arg)
{
    (void)arg;
    ips_log_debug("%s: %s", ips_peer_name(peer), why);
}

static const struct ips_peer_ops first_ops = {admit_peer_by_hello_role,
                                              log_close_before_hello};

void session_await_hello_of_peer(struct ips_peer *peer, void *arg)
{
    ips_peer_set_ops(peer, &first_ops, arg);
}

void session_close_clients_and_slaves(struct master *m)
{
    while (m->clients) {
        struct client *c = m->clients;
        m->clients = c->next;
        ips_peer_close_and_free_later(c->peer);
        free(c);
    }
    m->client_count = 0;
    for (struct slave *s = m->roster.first; s; s = s->next) {
        if (s->peer)
            ips_peer_close_and_free_later(s->peer);
        s->peer = NULL;
    }
}
