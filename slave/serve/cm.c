#include "slave/serve/cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/distributed/cm.h"
#include "common/log.h"
#include "slave/serve/cm_box.h"
#include "slave/serve/graph.h"

#define WIRE_BACKLOG_BYTES (16u << 20)
#define STRANGER_NS (10 * SLAVE_SECOND_NS)
#define STRANGERS_MAX 1024u

enum link_state {
    /* no message for that machine yet, or that machine has to connect (it has
     * the lower number)
     */
    LINK_IDLE,
    LINK_CALLING, /* this slave is connecting to the other one */
    LINK_DIRECT,  /* letters go over a connection between the two slaves */
    LINK_RELAY,   /* letters go through the master */
};

struct wire { /* a connection with another slave */
    struct wire *next;
    struct slave_serve *v;
    struct ips_peer *peer;
    /* the computation that uses the connection; NULL: the other slave has not
     * named it yet, or it is not known here */
    struct slave_cm_computation *comp;
    uint32_t machine;
    bool called; /* this slave opened the connection */
    bool linked; /* a LINK message was received, which names the computation
                    `key` */
    uint8_t key[SLAVE_CM_KEY_BYTES];
    uint64_t since_ns;
};

struct link { /* state of the link to one other machine of a computation */
    enum link_state state;
    struct wire *wire;
    struct slave_letters held_letters;
};

struct slave_cm_computation {
    struct slave_cm_computation *next;
    struct slave_serve *v;
    struct slave_job *job;
    struct slave_mailbox *box;
    const Ips__CmAsk *ask; /* the request; owned by the job */
    uint8_t key[SLAVE_CM_KEY_BYTES];
    uint32_t self, count;
    struct link *link; /* [count] links to the other machines */
};

struct slave_cm_net {
    struct slave_cm_computation *comps;
    struct wire *wires;
    struct ips_listener *listener;
};

static struct slave_cm_computation *
find_computation_by_key(const struct slave_serve *v, const uint8_t *key,
                        size_t len)
{
    struct slave_cm_computation *c = v->cm ? v->cm->comps : NULL;
    if (len != SLAVE_CM_KEY_BYTES)
        return NULL;
    while (c && memcmp(c->key, key, len) != 0)
        c = c->next;
    return c;
}

static struct slave_cm_computation *
find_computation_of_job(const struct slave_serve *v,
                        const struct slave_job *job)
{
    struct slave_cm_computation *c = v->cm ? v->cm->comps : NULL;
    while (c && c->job != job)
        c = c->next;
    return c;
}

unsigned slave_cm_count_computations(const struct slave_serve *v)
{
    unsigned n = 0;
    for (const struct slave_cm_computation *c = v->cm ? v->cm->comps : NULL; c;
         c = c->next)
        n++;
    return n;
}

/* ---- delivering letters to the worker
 * ------------------------------------------------------- */

static void deliver_letter_and_continue_job(struct slave_cm_computation *c,
                                            struct slave_letter *letter)
{
    slave_mailbox_append_received_letter(c->box, letter);
    slave_serve_enqueue_job_if_waiting(c->v, c->job);
}

static void deliver_failure_letter(struct slave_cm_computation *c,
                                   const char *why)
{
    deliver_letter_and_continue_job(
        c,
        slave_letter_new(SLAVE_LETTER_FAILED, IPS_CM_ROOT, why, strlen(why)));
}

static void deliver_message_as_letter(struct slave_cm_computation *c,
                                      const Ips__CmMessage *m)
{
    struct slave_letter *l =
        slave_letter_new(m->kind, m->from, m->data.data, m->data.len);
    if (l) {
        l->scenario = m->lane;
        l->count = m->count;
        l->of_machine = m->part;
        l->more = m->more;
        l->async = m->async;
        l->weights = slave_scenario_from_wire(m->weights);
    }
    deliver_letter_and_continue_job(c, l);
}

/* ---- sending letters to other machines
 * -------------------------------------------------- */

static Ips__CmMessage make_message_to_machine(struct slave_cm_computation *c,
                                              uint32_t part,
                                              Ips__CmMessage__Kind kind)
{
    Ips__CmMessage m = IPS__CM_MESSAGE__INIT;
    m.key = (ProtobufCBinaryData){SLAVE_CM_KEY_BYTES, c->key};
    m.kind = kind;
    m.from = c->self;
    m.to = part;
    return m;
}

static void send_held_letters(struct slave_serve *v,
                              struct slave_cm_computation *c, uint32_t part)
{
    struct link *k = &c->link[part];
    /* A link that lost its connection stays LINK_DIRECT, without a wire, until
     * its job ends; the job has received SLAVE_LETTER_FAILED. */
    struct ips_peer *peer = k->state == LINK_RELAY               ? v->peer
                            : k->state == LINK_DIRECT && k->wire ? k->wire->peer
                                                                 : NULL;
    struct slave_letter *l;
    while (peer && ips_peer_backlog(peer) < WIRE_BACKLOG_BYTES &&
           (l = slave_letters_remove_first(&k->held_letters))) {
        Ips__CmMessage m =
            make_message_to_machine(c, part, (Ips__CmMessage__Kind)l->kind);
        m.lane = l->scenario;
        m.count = l->count;
        m.more = l->more;
        m.data = (ProtobufCBinaryData){l->len, l->data};
        ips_send_chandy_misra_message(peer, &m);
        free(l);
    }
}

static void switch_link_to_relay(struct slave_serve *v,
                                 struct slave_cm_computation *c, uint32_t part,
                                 const char *why)
{
    struct link *k = &c->link[part];
    k->state = LINK_RELAY;
    pthread_mutex_lock(&c->box->lock);
    if (c->box->relayed++ == 0)
        snprintf(c->box->relayed_why, sizeof(c->box->relayed_why), "%s", why);
    pthread_mutex_unlock(&c->box->lock);
    if (v->peer) {
        Ips__CmMessage m =
            make_message_to_machine(c, part, IPS__CM_MESSAGE__KIND__RELAY);
        ips_send_chandy_misra_message(v->peer, &m);
    }
    send_held_letters(v, c, part);
}

/* ---- connections --------------------------------------------------------- */

static void wire_unlink_and_free(struct wire *w)
{
    struct wire **at = &w->v->cm->wires;
    while (*at && *at != w)
        at = &(*at)->next;
    if (*at)
        *at = w->next;
    if (w->comp && w->comp->link[w->machine].wire == w)
        w->comp->link[w->machine].wire = NULL;
    free(w);
}

static void wire_close_and_free(struct wire *w)
{
    ips_peer_close_and_free_later(w->peer);
    wire_unlink_and_free(w);
}

/* Frees a connection that failed or was closed. If this slave was still
 * connecting, the letters for that machine go through the master; if letters
 * went over the connection already, the computation fails. */
static void free_lost_wire_and_relay_or_fail(struct wire *w, const char *why)
{
    struct slave_cm_computation *c = w->comp;
    uint32_t part = w->machine;
    bool called = w->called;
    char text[400];
    wire_unlink_and_free(w);
    if (!c)
        return;
    struct link *k = &c->link[part];
    snprintf(text, sizeof(text), "machine %s at %s: %s", c->ask->machines[part],
             *c->ask->peers[part] ? c->ask->peers[part] : "(no address)", why);
    if (called && k->state == LINK_CALLING) {
        ips_log_info("%s: talking through the master instead", text);
        switch_link_to_relay(c->v, c, part, text);
    } else if (k->state == LINK_DIRECT) {
        deliver_failure_letter(c, text);
    }
}

/* Lets the computation `c`, which the connection's LINK message names, use this
 * incoming connection. */
static void attach_wire_to_computation_or_drop(struct slave_serve *v,
                                               struct wire *w,
                                               struct slave_cm_computation *c)
{
    struct link *k = w->machine < c->count ? &c->link[w->machine] : NULL;
    if (!k || w->machine >= c->self || k->state != LINK_IDLE) {
        ips_log_warn("%s: a slave links out of turn", ips_peer_name(w->peer));
        wire_close_and_free(w);
        return;
    }
    w->comp = c;
    k->wire = w;
    k->state = LINK_DIRECT;
    Ips__CmMessage m =
        make_message_to_machine(c, w->machine, IPS__CM_MESSAGE__KIND__LINKED);
    ips_send_chandy_misra_message(w->peer, &m);
    send_held_letters(v, c, w->machine);
}

static void read_link_message_and_attach_wire(struct slave_serve *v,
                                              struct wire *w,
                                              const Ips__CmMessage *m)
{
    if (m->kind != IPS__CM_MESSAGE__KIND__LINK ||
        m->key.len != SLAVE_CM_KEY_BYTES || w->linked) {
        wire_close_and_free(w);
        return;
    }
    memcpy(w->key, m->key.data, SLAVE_CM_KEY_BYTES);
    w->linked = true;
    w->machine = m->from;
    struct slave_cm_computation *c =
        find_computation_by_key(v, w->key, SLAVE_CM_KEY_BYTES);
    if (c)
        attach_wire_to_computation_or_drop(v, w, c);
}

static void deliver_cm_message_of_wire(struct slave_serve *v, struct wire *w,
                                       const Ips__CmMessage *m)
{
    struct slave_cm_computation *c = w->comp;
    if (!c) {
        read_link_message_and_attach_wire(v, w, m);
        return;
    }
    bool ours = m->key.len == SLAVE_CM_KEY_BYTES && m->from == w->machine &&
                memcmp(m->key.data, c->key, SLAVE_CM_KEY_BYTES) == 0;
    struct link *k = &c->link[w->machine];
    if (ours && k->state == LINK_CALLING &&
        m->kind == IPS__CM_MESSAGE__KIND__LINKED) {
        k->state = LINK_DIRECT;
        send_held_letters(v, c, w->machine);
    } else if (ours && k->state == LINK_DIRECT &&
               m->kind >= IPS__CM_MESSAGE__KIND__WANTS &&
               m->kind <= IPS__CM_MESSAGE__KIND__ACK) {
        deliver_message_as_letter(c, m);
    } else {
        deliver_failure_letter(c, "another slave says what it should not");
    }
}

static void on_wire_hello(struct slave_serve *v, struct wire *w,
                          const Ips__Hello *hello)
{
    if (hello->role != IPS__HELLO__ROLE__SLAVE) {
        ips_peer_refuse(w->peer, w->called
                                     ? "is no slave"
                                     : "this is a slave: at this address it "
                                       "speaks with other slaves only");
        return;
    }
    if (!w->called) {
        Ips__Hello mine = ips_make_hello(IPS__HELLO__ROLE__SLAVE);
        mine.machine = v->s->opt.machine;
        ips_send_hello(w->peer, &mine);
        return;
    }
    if (strcmp(hello->machine, w->comp->ask->machines[w->machine]) != 0) {
        ips_peer_close_after_send(w->peer, "is another machine");
        return;
    }
    Ips__CmMessage m = make_message_to_machine(w->comp, w->machine,
                                               IPS__CM_MESSAGE__KIND__LINK);
    ips_send_chandy_misra_message(w->peer, &m);
}

static void dispatch_message_of_wire(struct ips_peer *peer,
                                     const Ips__Envelope *env, void *arg)
{
    struct wire *w = arg;
    if (env->body_case == IPS__ENVELOPE__BODY_HELLO)
        on_wire_hello(w->v, w, env->hello);
    else if (env->body_case == IPS__ENVELOPE__BODY_CM)
        deliver_cm_message_of_wire(w->v, w, env->cm);
    else
        ips_peer_close_after_send(peer, "slaves do not ask each other");
}

static void on_wire_close(struct ips_peer *peer, const char *why, void *arg)
{
    (void)peer;
    free_lost_wire_and_relay_or_fail(arg, why);
}

static void send_held_letters_of_drained_wire(struct ips_peer *peer, void *arg)
{
    struct wire *w = arg;
    (void)peer;
    if (w->comp)
        send_held_letters(w->v, w->comp, w->machine);
}

static const struct ips_peer_ops wire_ops = {dispatch_message_of_wire,
                                             on_wire_close};

static struct wire *wire_new(struct slave_serve *v, struct ips_peer *peer)
{
    struct wire *w = calloc(1, sizeof(*w));
    if (!w)
        return NULL;
    w->v = v;
    w->peer = peer;
    w->since_ns = slave_now_ns();
    w->next = v->cm->wires;
    v->cm->wires = w;
    ips_peer_set_ops(peer, &wire_ops, w);
    ips_peer_set_on_drain(peer, send_held_letters_of_drained_wire);
    return w;
}

static void add_wire_of_accepted_peer_or_close(struct ips_peer *peer, void *arg)
{
    struct slave_serve *v = arg;
    unsigned strangers = 0;
    for (const struct wire *w = v->cm->wires; w; w = w->next)
        strangers += !w->comp;
    if (strangers >= STRANGERS_MAX || !wire_new(v, peer))
        ips_peer_close_and_free_later(peer);
}

/* ---- computations -------------------------------------------------------- */

/* Called for the first letter to a machine: connects to it, or chooses the
 * master as relay. */
static void connect_to_machine_or_use_relay(struct slave_serve *v,
                                            struct slave_cm_computation *c,
                                            uint32_t part)
{
    struct link *k = &c->link[part];
    const char *address = c->ask->peers[part];
    struct ips_peer *peer = NULL;
    struct ips_err err = {0};
    if (!*address) {
        switch_link_to_relay(v, c, part, "no addresses of slaves are given");
        return;
    }
    struct wire *w = NULL;
    if (ips_peer_connect(v->s->base, address, &peer, &err) < 0 ||
        !(w = wire_new(v, peer))) {
        ips_peer_close_and_free_later(peer);
        switch_link_to_relay(v, c, part, err.msg);
        return;
    }
    w->called = true;
    w->comp = c;
    w->machine = part;
    k->wire = w;
    k->state = LINK_CALLING;
    Ips__Hello hello = ips_make_hello(IPS__HELLO__ROLE__SLAVE);
    hello.machine = v->s->opt.machine;
    ips_send_hello(peer, &hello);
}

static void send_letters(struct slave_serve *v, struct slave_cm_computation *c)
{
    struct slave_letters out;
    struct slave_letter *l;
    slave_letter_list_init(&out);
    slave_mailbox_move_outgoing_letters(c->box, &out);
    while ((l = slave_letters_remove_first(&out))) {
        uint32_t part = l->machine;
        if (part >= c->count || part == c->self) {
            free(l);
            continue;
        }
        struct link *k = &c->link[part];
        slave_letters_append(&k->held_letters, l);
        if (k->state == LINK_IDLE && part > c->self)
            connect_to_machine_or_use_relay(v, c, part);
        else
            send_held_letters(v, c, part);
    }
}

void slave_cm_send_outgoing_letters_of_job(struct slave_serve *v,
                                           const struct slave_job *job)
{
    struct slave_cm_computation *c = find_computation_of_job(v, job);
    if (c)
        send_letters(v, c);
}

void slave_cm_send_letters_held_for_relay(struct slave_serve *v)
{
    for (struct slave_cm_computation *c = v->cm ? v->cm->comps : NULL; c;
         c = c->next) {
        for (uint32_t p = 0; p < c->count; p++) {
            if (c->link[p].state == LINK_RELAY)
                send_held_letters(v, c, p);
        }
    }
}

void slave_cm_deliver_message_from_master(struct slave_serve *v,
                                          const Ips__CmMessage *m)
{
    struct slave_cm_computation *c =
        find_computation_by_key(v, m->key.data, m->key.len);
    if (!c)
        return; /* the computation has already ended here */
    if (m->from == IPS_CM_ROOT) {
        deliver_message_as_letter(c, m);
        return;
    }
    struct link *k = m->from < c->count ? &c->link[m->from] : NULL;
    if (k && m->kind == IPS__CM_MESSAGE__KIND__RELAY && k->state == LINK_IDLE &&
        m->from < c->self) {
        k->state = LINK_RELAY;
        send_held_letters(v, c, m->from);
    } else if (k && k->state == LINK_RELAY &&
               m->kind >= IPS__CM_MESSAGE__KIND__WANTS &&
               m->kind <= IPS__CM_MESSAGE__KIND__ACK) {
        deliver_message_as_letter(c, m);
    } else {
        deliver_failure_letter(c, "received an unexpected relayed message");
    }
}

int slave_cm_register_computation(struct slave_serve *v, struct slave_job *job,
                                  const Ips__CmAsk *ask, struct ips_err *err)
{
    if (!v->cm || ask->key.len != SLAVE_CM_KEY_BYTES ||
        ask->n_peers != ask->n_machines || ask->self >= ask->n_machines ||
        find_computation_by_key(v, ask->key.data, ask->key.len))
        return ips_err_set(err, IPS_E_PROTOCOL,
                           "no computation that a slave can take part in");
    struct slave_cm_computation *c = calloc(1, sizeof(*c));
    if (c)
        c->link = calloc(ask->n_machines, sizeof(*c->link));
    if (!c || !c->link) {
        free(c);
        return ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    }
    c->v = v;
    c->job = job;
    c->box = job->box;
    c->ask = ask;
    memcpy(c->key, ask->key.data, SLAVE_CM_KEY_BYTES);
    c->self = ask->self;
    c->count = (uint32_t)ask->n_machines;
    for (uint32_t p = 0; p < c->count; p++)
        slave_letter_list_init(&c->link[p].held_letters);
    c->next = v->cm->comps;
    v->cm->comps = c;
    for (struct wire *w = v->cm->wires, *next; w; w = next) {
        next = w->next;
        if (!w->comp && w->linked &&
            memcmp(w->key, c->key, SLAVE_CM_KEY_BYTES) == 0)
            attach_wire_to_computation_or_drop(v, w, c);
    }
    return 0;
}

void slave_cm_remove_computation(struct slave_serve *v,
                                 const struct slave_job *job)
{
    struct slave_cm_computation **at = v->cm ? &v->cm->comps : NULL;
    while (at && *at && (*at)->job != job)
        at = &(*at)->next;
    if (!at || !*at)
        return;
    struct slave_cm_computation *c = *at;
    *at = c->next;
    for (uint32_t p = 0; p < c->count; p++) {
        if (c->link[p].wire)
            wire_close_and_free(c->link[p].wire);
        slave_letters_free(&c->link[p].held_letters);
    }
    free(c->link);
    free(c);
}

void slave_cm_drop_stale_unattached_wires(struct slave_serve *v,
                                          uint64_t now_ns)
{
    for (struct wire *w = v->cm ? v->cm->wires : NULL, *next; w; w = next) {
        next = w->next;
        if (!w->comp && ips_sub_sat(now_ns, w->since_ns) > STRANGER_NS)
            wire_close_and_free(w);
    }
}

/* ---- start and end ------------------------------------------------------- */

const char *slave_cm_get_listen_address(const struct slave_serve *v)
{
    return v->cm && v->cm->listener ? ips_listener_address(v->cm->listener)
                                    : "";
}

void slave_cm_start_listening(struct slave_serve *v)
{
    const struct slave_options *o = &v->s->opt;
    struct ips_err err = {0};
    v->cm = calloc(1, sizeof(*v->cm));
    if (!v->cm || strcmp(o->listen, "none") == 0)
        return;
    if (ips_listener_new(v->s->base, o->listen,
                         add_wire_of_accepted_peer_or_close, v,
                         &v->cm->listener, &err) < 0) {
        v->cm->listener = NULL;
        ips_log_warn("--listen: %s; talking through the master to other slaves",
                     err.msg);
    }
}

void slave_cm_close(struct slave_serve *v)
{
    if (!v->cm)
        return;
    while (v->cm->comps)
        slave_cm_remove_computation(v, v->cm->comps->job);
    for (struct wire *w = v->cm->wires, *next; w; w = next) {
        next = w->next;
        wire_close_and_free(w);
    }
    ips_listener_free(v->cm->listener);
    free(v->cm);
    v->cm = NULL;
}
