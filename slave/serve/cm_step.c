/*
 * CmAsk on the worker: runs the state machines of
 * analysis/distributed/cm_async.h and cm_sync.h, driven by received letters,
 * and answers the root (the master). A step of the job handles received letters
 * until one needs an answer, runs the computation, and puts the letters to send
 * into the mailbox. All state belongs to the job and ends with it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/distributed/cm_async.h"
#include "analysis/distributed/cm_sync.h"
#include "common/large.h"
#include "slave/graphs/calibrate_map.h"
#include "slave/serve/cm_private.h"

#define PARTS_MAX 65536u

bool slave_cm_allocate_state(struct slave_graph_ask *j)
{
    j->cm = calloc(1, sizeof(*j->cm));
    if (!j->cm)
        return false;
    slave_mailbox_init(&j->cm->box);
    slave_letter_list_init(&j->cm->mail);
    j->cm->blamed = IPS_CM_NONE;
    j->job.box = &j->cm->box;
    return true;
}

static void free_engine_state(struct slave_cm *c)
{
    ips_cm_sync_free(c->sync);
    ips_cm_async_free(c->async);
    c->sync = NULL;
    c->async = NULL;
    ips_view_release(&c->view);
}

void slave_cm_release(struct slave_graph_ask *j)
{
    struct slave_cm *c = j->cm;
    if (!c)
        return;
    free_engine_state(c);
    for (uint32_t p = 0; c->letter_parts && p < c->links.peer_count; p++)
        ips_cm_bytes_release(&c->letter_parts[p]);
    free(c->letter_parts);
    if (c->has_links)
        ips_cm_links_release(&c->links);
    free(c->joined);
    ips_free_large(c->linked.out_ns);
    if (c->has_path)
        ips_path_release(&c->path);
    slave_letters_free(&c->mail);
    slave_mailbox_release(&c->box);
    free(c);
    j->cm = NULL;
}

/* ---- sending letters
 * --------------------------------------------------------- */

static int post_data_to_peer_as_letters(struct slave_graph_ask *j,
                                        uint32_t kind, uint32_t peer,
                                        uint64_t count, const uint8_t *data,
                                        size_t len)
{
    struct slave_cm *c = j->cm;
    do {
        size_t n = len < SLAVE_LETTER_BYTES ? len : SLAVE_LETTER_BYTES;
        struct slave_letter *l =
            slave_letter_new(kind, c->links.peer[peer].machine, data, n);
        if (!l)
            return ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
        l->count = count;
        l->scenario = c->scenario_number;
        len -= n;
        data = n ? data + n : data;
        l->more = len > 0;
        slave_mailbox_append_outgoing_letter(&c->box, l);
    } while (len > 0);
    return 0;
}

static int init_links_and_post_awaited_positions(struct slave_graph_ask *j)
{
    const Ips__CmAsk *ask = slave_graph_get_request(j)->cm;
    struct slave_cm *c = j->cm;
    const struct slave_graph *g = j->graph;
    if (!g->joined || ask->n_machines > PARTS_MAX ||
        ask->self >= ask->n_machines)
        return ips_err_set(&j->job.err, IPS_E_PROTOCOL,
                           "no machine of this computation, or PeersAsk did "
                           "not come first");
    int rc = 0;
    size_t joined = ((size_t)g->b.end_count + 1) * sizeof(*c->joined);
    c->joined = malloc(joined);
    if (!c->joined)
        return ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
    memcpy(c->joined, g->joined, joined);
    c->linked = g->b.g; /* borrows the arrays, except out_ns */
    if (ask->calibrated && !g->b.g.message_times)
        rc = ips_err_set(&j->job.err, IPS_E_PROTOCOL,
                         "message times are asked for that PeersAsk did not "
                         "bring");
    else if (ask->calibrated)
        rc = ips_compute_message_times_of_remote_sends(
            &g->b.g, &c->linked.out_ns, &j->job.err);
    if (rc == 0)
        rc = ips_cm_links_init(&c->links, &c->linked, ask->self,
                               (uint32_t)ask->n_machines, c->joined,
                               g->b.end_count, &j->job.err);
    if (rc < 0)
        return rc;
    c->has_links = true;
    c->letter_parts =
        calloc((size_t)c->links.peer_count + 1, sizeof(*c->letter_parts));
    if (!c->letter_parts)
        return ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
    for (uint32_t p = 0; p < c->links.peer_count && rc == 0; p++) {
        struct ips_cm_bytes wants = {0};
        rc = ips_cm_write_awaited_positions(&c->links, p, &wants, &j->job.err);
        if (rc == 0)
            rc = post_data_to_peer_as_letters(j, IPS__CM_MESSAGE__KIND__WANTS,
                                              p, 0, wants.data, wants.len);
        c->match_bytes += wants.len;
        ips_cm_bytes_release(&wants);
    }
    return rc;
}

/* Computes as far as possible, and puts the resulting letters to peers into the
 * mailbox. */
static int compute_and_post_resulting_letters(struct slave_graph_ask *j)
{
    struct slave_cm *c = j->cm;
    struct ips_err *err = &j->job.err;
    struct ips_cm_message m;
    int rc = 0;
    if (c->async)
        rc = ips_cm_async_propagate_improved_values(c->async, err);
    else if (c->sync)
        rc = ips_cm_sync_compute_ready_chains(c->sync, err);
    while (rc == 0 && (c->async || c->sync)) {
        rc = c->async ? ips_cm_async_make_next_message(c->async, &m, err)
                      : ips_cm_sync_make_next_batch(c->sync, &m, err);
        if (rc <= 0)
            break;
        rc = 0;
        if (m.to == IPS_CM_ROOT)
            c->root_acks += m.count;
        else
            rc = post_data_to_peer_as_letters(
                j,
                m.kind == IPS_CM_ACK ? IPS__CM_MESSAGE__KIND__ACK
                                     : IPS__CM_MESSAGE__KIND__BATCH,
                m.to, m.count, m.data, m.len);
    }
    return rc;
}

/* ---- answers ------------------------------------------------------------- */

Ips__CmAnswer *slave_cm_init_answer_of_job(struct slave_graph_ask *j,
                                           Ips__CmAnswer__Kind kind)
{
    Ips__CmAnswer *a = &j->answer.cm;
    ips__cm_answer__init(a);
    a->kind = kind;
    a->lane = j->cm->scenario_number;
    j->job.reply.answer_case = IPS__REPLY__ANSWER_CM;
    j->job.reply.cm = a;
    return a;
}

static void fill_opened_answer(struct slave_graph_ask *j)
{
    struct slave_cm *c = j->cm;
    Ips__CmAnswer *a =
        slave_cm_init_answer_of_job(j, IPS__CM_ANSWER__KIND__OPENED);
    c->opened = true;
    a->links_in = ips_cm_count_incoming_links(&c->links);
    a->unmatched = ips_cm_count_unmatched_receives(&c->links);
    a->match_bytes = c->match_bytes;
    pthread_mutex_lock(&c->box.lock);
    a->relayed = c->box.relayed;
    memcpy(c->relayed_why, c->box.relayed_why, sizeof(c->relayed_why));
    pthread_mutex_unlock(&c->box.lock);
    a->relayed_why = c->relayed_why;
}

static void fill_progress_answer(struct slave_graph_ask *j)
{
    struct slave_cm *c = j->cm;
    Ips__CmAnswer *a =
        slave_cm_init_answer_of_job(j, IPS__CM_ANSWER__KIND__TOLD);
    const struct ips_cm_counts *n = c->async
                                        ? ips_cm_async_get_counters(c->async)
                                    : c->sync ? ips_cm_sync_counts(c->sync)
                                              : NULL;
    a->acks = c->root_acks;
    c->root_acks = 0;
    a->sent = n ? n->batches : 0;
    a->taken = n ? n->received : 0;
    if (c->sync) {
        struct ips_err why = {0};
        a->unfinished = ips_cm_sync_count_unfinished_chains(c->sync);
        if (a->unfinished && ips_cm_sync_stall_error(c->sync, &why) < 0)
            snprintf(c->stalled, sizeof(c->stalled), "%.*s",
                     (int)sizeof(c->stalled) - 1, why.msg);
        a->stalled = a->unfinished ? c->stalled : ips_unconst_text("");
        c->reported = a->unfinished == 0;
        c->reported_batches = a->taken;
    }
}

/* Reports that the computation failed because another machine, c->blamed, sent
 * an invalid message. */
static void fill_answer_blaming_peer_and_free_engine(struct slave_graph_ask *j)
{
    struct slave_cm *c = j->cm;
    Ips__CmAnswer *a =
        slave_cm_init_answer_of_job(j, IPS__CM_ANSWER__KIND__BLAMED);
    snprintf(c->stalled, sizeof(c->stalled), "%.*s",
             (int)sizeof(c->stalled) - 1, j->job.err.msg);
    a->part = c->blamed;
    a->stalled = c->stalled;
    c->gave_up = true;
    free_engine_state(c);
}

/* Stores the computed values in the graph, as FinishAsk does; the answers to
 * WALK letters (walks back along the path) then use them. */
static int store_final_values_and_fill_answer(struct slave_graph_ask *j)
{
    struct slave_cm *c = j->cm;
    struct slave_graph *g = j->graph;
    struct ips_est est;
    if (!c->sync && !c->async)
        return ips_err_set(&j->job.err, IPS_E_PROTOCOL,
                           "values are final that were never computed");
    int rc = c->async ? ips_cm_async_recompute_and_check_result(c->async, &est,
                                                                &j->job.err)
                      : ips_cm_sync_move_result_out(c->sync, &est, &j->job.err);
    if (rc < 0)
        return rc;
    const struct ips_cm_counts *n = c->async
                                        ? ips_cm_async_get_counters(c->async)
                                        : ips_cm_sync_counts(c->sync);
    if (g->has_est)
        ips_est_release(&g->est);
    g->est = est;
    g->scenario = c->scenario;
    g->has_est = true;
    ips_view_release(&g->view);
    /* answers to WALK letters and later requests use this view */
    g->view = c->view;
    memset(&c->view, 0, sizeof(c->view));
    Ips__CmAnswer *a =
        slave_cm_init_answer_of_job(j, IPS__CM_ANSWER__KIND__FINISHED);
    a->t_max_ns = est.t_max;
    a->end = est.end == IPS_NO_NODE ? 0 : (uint64_t)est.end + 1;
    a->total_ns = est.total;
    a->values = n->values;
    a->messages = n->batches + n->acks;
    a->bytes = n->bytes;
    a->passes = n->passes;
    a->computed = n->computed;
    free_engine_state(c);
    return 0;
}

/* ---- handling received letters
 * ---------------------------------------------------------- */

static int start_scenario(struct slave_graph_ask *j,
                          const struct slave_letter *l)
{
    struct slave_cm *c = j->cm;
    if (!c->opened || l->scenario <= c->scenario_number)
        return ips_err_set(&j->job.err, IPS_E_PROTOCOL,
                           "asked to compute before the links are agreed on");
    free_engine_state(c);
    c->scenario_number = l->scenario;
    c->scenario = l->weights;
    c->reported = false;
    c->root_acks = 0;
    int rc = slave_graph_make_scenario_view(j->graph, &c->scenario, &c->view,
                                            &j->job.err);
    if (rc < 0)
        return rc;
    if (!l->async)
        return ips_cm_sync_new(&c->links, &c->view.g, &c->scenario, 0, &c->sync,
                               &j->job.err);
    rc = ips_cm_async_new(&c->links, &c->view.g, &c->scenario, l->count, 0,
                          &c->async, &j->job.err);
    if (rc == 0)
        rc = ips_cm_async_store_values_and_owe_ack(c->async, IPS_CM_ROOT, NULL,
                                                   0, &j->job.err);
    return rc;
}

/* Appends a letter to the list that peer `p` sends in parts. Returns true if
 * the list is complete (sets *whole to it), or if it is too long or memory is
 * short (*whole stays empty). */
static bool append_letter_to_list_of_peer(struct slave_graph_ask *j, uint32_t p,
                                          const struct slave_letter *l,
                                          struct ips_cm_bytes *whole)
{
    struct ips_cm_bytes *b = &j->cm->letter_parts[p];
    size_t need = b->len + l->len;
    j->cm->match_bytes += l->len;
    if (need > SLAVE_BOX_BYTES || b->failed) {
        b->failed = true;
        return true;
    }
    uint8_t *more = realloc(b->data, need + 1);
    if (!more) {
        b->failed = true;
        return true;
    }
    memcpy(more + b->len, l->data, l->len);
    b->data = more;
    b->len = b->cap = need;
    if (l->more)
        return false;
    *whole = *b;
    memset(b, 0, sizeof(*b));
    return true;
}

static int handle_awaited_or_matches_list_letter(struct slave_graph_ask *j,
                                                 uint32_t p,
                                                 const struct slave_letter *l)
{
    struct slave_cm *c = j->cm;
    struct ips_cm_bytes list = {0}, matches = {0};
    int rc = 0;
    if (!append_letter_to_list_of_peer(j, p, l, &list))
        return 0;
    if (!list.data)
        rc = ips_err_set(&j->job.err, IPS_E_LIMIT,
                         "a list of messages is too long");
    else if (l->kind == IPS__CM_MESSAGE__KIND__MATCHES)
        rc = ips_cm_read_matches_and_store_links(&c->links, p, list.data,
                                                 list.len, &j->job.err);
    else
        rc = ips_cm_read_awaited_and_write_matches(
            &c->links, p, list.data, list.len, &matches, &j->job.err);
    if (rc == 0 && l->kind == IPS__CM_MESSAGE__KIND__WANTS)
        rc = post_data_to_peer_as_letters(j, IPS__CM_MESSAGE__KIND__MATCHES, p,
                                          0, matches.data, matches.len);
    ips_cm_bytes_release(&list);
    ips_cm_bytes_release(&matches);
    return rc;
}

/* Handles a letter from another slave. */
static int dispatch_letter_of_peer(struct slave_graph_ask *j,
                                   const struct slave_letter *l)
{
    struct slave_cm *c = j->cm;
    struct ips_err *err = &j->job.err;
    uint32_t p = ips_cm_find_peer_index_of_machine(&c->links, l->machine);
    if (p == IPS_CM_NONE)
        return ips_err_set(err, IPS_E_PROTOCOL, "no channel joins us to it");
    if (l->kind == IPS__CM_MESSAGE__KIND__WANTS ||
        l->kind == IPS__CM_MESSAGE__KIND__MATCHES)
        return handle_awaited_or_matches_list_letter(j, p, l);
    if (l->kind == IPS__CM_MESSAGE__KIND__BATCH && c->async)
        return ips_cm_async_store_values_and_owe_ack(c->async, p, l->data,
                                                     l->len, err);
    if (l->kind == IPS__CM_MESSAGE__KIND__BATCH && c->sync)
        return ips_cm_sync_receive_batch(c->sync, p, l->data, l->len, err);
    if (l->kind == IPS__CM_MESSAGE__KIND__ACK && c->async)
        return ips_cm_async_receive_ack(c->async, p, l->count, err);
    return ips_err_set(err, IPS_E_PROTOCOL, "an unexpected message of kind %u",
                       l->kind);
}

/* Handles a letter from the root (the master). Returns 1 if j's answer must be
 * sent now, 0 if not, and < 0 on error. */
static int dispatch_letter_of_root(struct slave_graph_ask *j,
                                   const struct slave_letter *l)
{
    int rc;
    if (l->kind == IPS__CM_MESSAGE__KIND__LANE)
        return start_scenario(j, l);
    if (l->scenario != j->cm->scenario_number)
        return ips_err_set(&j->job.err, IPS_E_PROTOCOL,
                           "the master sent a message of scenario %u, but "
                           "this slave computes scenario %u",
                           l->scenario, j->cm->scenario_number);
    if (l->kind == IPS__CM_MESSAGE__KIND__OVER) {
        rc = store_final_values_and_fill_answer(j);
    } else if (l->kind == IPS__CM_MESSAGE__KIND__WALK) {
        rc = slave_cm_walk_back_and_answer(j, l);
    } else if (l->kind == IPS__CM_MESSAGE__KIND__TELL) {
        /* compute first, so that the reported counts include all letters
         * received so far */
        rc = compute_and_post_resulting_letters(j);
        fill_progress_answer(j);
        j->answer.cm.asked = true;
    } else {
        rc = ips_err_set(&j->job.err, IPS_E_PROTOCOL,
                         "the root says what it never says");
    }
    return rc < 0 ? rc : 1;
}

/* A peer may have started the next scenario already: letters about it must wait
 * until the root has started that scenario on this slave. */
static bool is_for_later_scenario(const struct slave_cm *c,
                                  const struct slave_letter *l)
{
    return l->machine != IPS_CM_ROOT && l->scenario > c->scenario_number;
}

static int dispatch_letter_by_sender(struct slave_graph_ask *j,
                                     const struct slave_letter *l)
{
    if (l->kind == SLAVE_LETTER_FAILED)
        return ips_err_set(&j->job.err, IPS_E_UNREACHABLE, "%.*s", (int)l->len,
                           (const char *)l->data);
    if (l->machine == IPS_CM_ROOT)
        return dispatch_letter_of_root(j, l);
    if (l->scenario < j->cm->scenario_number)
        return ips_err_set(&j->job.err, IPS_E_PROTOCOL,
                           "received a message of a scenario that has ended");
    int rc = dispatch_letter_of_peer(j, l);
    if (rc == IPS_E_PROTOCOL)
        j->cm->blamed = l->machine;
    return rc;
}

/* Handles received letters until none is left (returns 0) or an answer to the
 * root is ready (returns 1). */
static int dispatch_received_letters(struct slave_graph_ask *j)
{
    struct slave_cm *c = j->cm;
    struct slave_letters early;
    struct slave_letter *l;
    int rc = 0;
    slave_letter_list_init(&early);
    int lost = slave_mailbox_move_received_letters(&c->box, &c->mail);
    if (lost) /* check this first: with a letter missing, the others may look
                 invalid */
        return ips_err_set(&j->job.err, lost,
                           lost == IPS_E_LIMIT
                               ? "other slaves send faster than this one "
                                 "computes"
                               : "out of memory");
    while (rc == 0 && (l = slave_letters_remove_first(&c->mail))) {
        if (is_for_later_scenario(c, l)) {
            slave_letters_append(&early, l);
            continue;
        }
        uint32_t scenario = c->scenario_number;
        rc = dispatch_letter_by_sender(j, l);
        free(l);
        /* a new scenario has started: handle the letters that were too early
         * for the last one, then the rest */
        if (c->scenario_number != scenario) {
            while ((l = slave_letters_remove_first(&c->mail)))
                slave_letters_append(&early, l);
            c->mail = early;
            if (!c->mail.head)
                slave_letter_list_init(&c->mail);
            slave_letter_list_init(&early);
        }
    }
    /* put the early letters back before the unhandled ones, to keep the order
     */
    if (early.head) {
        while ((l = slave_letters_remove_first(&c->mail)))
            slave_letters_append(&early, l);
        c->mail = early;
    }
    return rc;
}

/* Whether there is progress to report to the root without being asked. */
static bool has_unreported_progress(const struct slave_cm *c)
{
    if (c->async)
        return c->root_acks > 0;
    return c->sync && ips_cm_sync_count_unfinished_chains(c->sync) == 0 &&
           (!c->reported ||
            c->reported_batches != ips_cm_sync_counts(c->sync)->received);
}

void slave_cm_handle_mail_and_compute(struct slave_job *job,
                                      struct slave_graphs *gs)
{
    struct slave_graph_ask *j = slave_graph_ask_of_job(job);
    struct slave_cm *c = j->cm;
    int rc = slave_graph_use_generation_and_verify(
        j, gs, slave_graph_get_request(j)->cm->generation);
    if (rc == 0 && c->gave_up) {
        slave_mailbox_move_received_letters(&c->box, &c->mail);
        slave_letters_free(&c->mail);
        job->silent = true;
        return;
    }
    if (rc == 0 && c->has_path) {
        rc = slave_cm_fill_next_path_segments(
            j, slave_cm_init_answer_of_job(j, IPS__CM_ANSWER__KIND__WALKED));
        if (rc < 0)
            slave_job_fail(job);
        return;
    }
    if (rc == 0 && !c->begun)
        rc = init_links_and_post_awaited_positions(j);
    c->begun = true;
    if (rc == 0)
        rc = dispatch_received_letters(j);
    if (rc == 0)
        rc = compute_and_post_resulting_letters(j);
    if (rc < 0 && c->blamed != IPS_CM_NONE) {
        fill_answer_blaming_peer_and_free_engine(j);
        return;
    }
    if (rc < 0) {
        slave_job_fail(job);
        return;
    }
    if (rc > 0)
        return; /* an answer to the root is ready */
    if (!c->opened && ips_cm_is_link_exchange_complete(&c->links))
        fill_opened_answer(j);
    else if (has_unreported_progress(c))
        fill_progress_answer(j);
    else
        job->silent = true;
}
