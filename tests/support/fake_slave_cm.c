/* cm-async and cm-sync in a slave of cluster.h: the real slave's steps on the
 * worker's side, without worker, pool or connections to other slaves: all
 * letters go through the master. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/distributed/cm.h"
#include "slave/base/work.h"
#include "slave/graphs/graphs.h"
#include "slave/serve/cm_box.h"
#include "slave/serve/job.h"
#include "tests/support/fake_slave.h"

struct fake_cm {
    struct fake_slave *s;
    struct slave_graphs graphs;
    struct slave_graph graph;
    struct slave_snapshot snap;
    struct slave_job *job;
    uint8_t key[16];
    size_t key_len;
    uint32_t self;
    bool open[CLUSTER_SLAVES]; /* that slave knows that we go this way */
    struct slave_letters held[CLUSTER_SLAVES];
    bool corrupt; /* the next values that it sends */
};

void fake_slave_cm_end(struct fake_slave *s)
{
    struct fake_cm *c = s->cm;
    if (!c)
        return;
    s->cm = NULL;
    c->job->release(c->job, &c->graphs);
    free(c->job);
    for (uint32_t p = 0; p < CLUSTER_SLAVES; p++)
        slave_letters_free(&c->held[p]);
    ips_view_release(&c->graph.view);
    if (c->graph.has_est)
        ips_est_release(&c->graph.est);
    free(c->graph.joined);
    free(c);
}

static void send_letter(struct fake_cm *c, const struct slave_letter *l)
{
    Ips__CmMessage m = IPS__CM_MESSAGE__INIT;
    uint8_t *copy = malloc(l->len + 1);
    assert_non_null(copy);
    memcpy(copy, l->data, l->len);
    if (c->corrupt && l->kind == IPS__CM_MESSAGE__KIND__BATCH && l->len) {
        copy[l->len / 2] ^= 0x20;
        c->corrupt = false;
    }
    m.key = (ProtobufCBinaryData){c->key_len, c->key};
    m.kind = (Ips__CmMessage__Kind)l->kind;
    m.from = c->self;
    m.to = l->machine;
    m.lane = l->scenario;
    m.count = l->count;
    m.more = l->more;
    m.data = (ProtobufCBinaryData){l->len, copy};
    ips_send_chandy_misra_message(c->s->peer, &m);
    free(copy);
}

static void flush(struct fake_cm *c)
{
    struct slave_letters out;
    struct slave_letter *l;
    slave_letter_list_init(&out);
    slave_mailbox_move_outgoing_letters(c->job->box, &out);
    while ((l = slave_letters_remove_first(&out)))
        slave_letters_append(&c->held[l->machine], l);
    for (uint32_t p = 0; p < CLUSTER_SLAVES; p++) {
        if (c->held[p].head && !c->open[p] && p > c->self) {
            struct slave_letter say = {.kind = IPS__CM_MESSAGE__KIND__RELAY,
                                       .machine = p};
            send_letter(c, &say);
            c->open[p] = true;
        }
        while (c->open[p] && (l = slave_letters_remove_first(&c->held[p]))) {
            send_letter(c, l);
            free(l);
        }
    }
}

/* Steps until it waits for mail. */
static void pump(struct fake_slave *s)
{
    while (s->cm && s->peer) {
        struct fake_cm *c = s->cm;
        struct slave_job *job = c->job;
        job->err = (struct ips_err){0};
        job->silent = false;
        job->step(job, &c->graphs);
        flush(c);
        if (job->silent)
            return;
        uint64_t id = job->id;
        fake_slave_answer(s, id, &job->reply, job->finished);
        if (job->finished)
            fake_slave_cm_end(s);
    }
}

void fake_slave_cm_begin(struct fake_slave *s, const Ips__Request *r,
                         bool corrupt)
{
    fake_slave_cm_end(s);
    struct fake_cm *c = calloc(1, sizeof(*c));
    assert_non_null(c);
    s->cm = c;
    c->s = s;
    c->corrupt = corrupt; /* the first values that it sends */
    c->key_len = r->cm->key.len;
    assert_int_equal(c->key_len, sizeof(c->key));
    memcpy(c->key, r->cm->key.data, c->key_len);
    c->self = r->cm->self;
    for (uint32_t p = 0; p < CLUSTER_SLAVES; p++)
        slave_letter_list_init(&c->held[p]);
    snprintf(c->snap.run, sizeof(c->snap.run), "%s", s->run);
    c->graph.snap = &c->snap;
    c->graph.refs = 1000;
    c->graph.generation = r->cm->generation;
    c->graph.b.g = *s->g; /* lent */
    c->graph.b.g.message_times =
        s->message_times.curve_count ? &s->message_times : NULL;
    c->graph.b.end_count = s->end_count;
    c->graph.joined =
        calloc((size_t)s->end_count + 1, sizeof(*c->graph.joined));
    assert_non_null(c->graph.joined);
    /* Numbers of machines in this question: by name, of those that answer. */
    for (uint32_t e = 0; e < s->end_count; e++) {
        struct ips_peer_end to = s->peer_end[e];
        c->graph.joined[e] = (struct ips_peer_end){UINT32_MAX, 0};
        for (uint32_t k = 0; k < r->cm->n_machines; k++) {
            if (to.machine < CLUSTER_SLAVES &&
                strcmp(r->cm->machines[k], s->c->slave[to.machine].machine) ==
                    0)
                c->graph.joined[e] = (struct ips_peer_end){k, to.end};
        }
    }
    c->graphs.list = &c->graph;
    c->job = slave_graph_make_job(r, NULL, NULL);
    assert_non_null(c->job);
    pump(s);
}

uint64_t fake_slave_cm_id(const struct fake_slave *s)
{
    return s->cm ? s->cm->job->id : 0;
}

void fake_slave_cm_message(struct fake_slave *s, const Ips__CmMessage *m,
                           bool corrupt)
{
    struct fake_cm *c = s->cm;
    if (!c || m->key.len != c->key_len ||
        memcmp(m->key.data, c->key, c->key_len) != 0)
        return;
    c->corrupt = c->corrupt || corrupt;
    if (m->kind == IPS__CM_MESSAGE__KIND__RELAY) {
        assert_true(m->from < c->self);
        c->open[m->from] = true;
        flush(c);
        return;
    }
    struct slave_letter *l =
        slave_letter_new(m->kind, m->from, m->data.data, m->data.len);
    assert_non_null(l);
    l->scenario = m->lane;
    l->count = m->count;
    l->of_machine = m->part;
    l->more = m->more;
    l->async = m->async;
    l->weights = slave_scenario_from_wire(m->weights);
    slave_mailbox_append_received_letter(c->job->box, l);
    pump(s);
}
