/* Handles naps of a thread that itself triggered what let its last try succeed:
 * it forked the process that caused the success, sent that process a signal or
 * a message, closed a channel to it, or ended a wait of it. Before this
 * trigger, no process worked on what the thread waited for. So the naps before
 * it count as sleeps, as in a program that acts by the clock and tests in
 * between. Only the naps after it count as a wait.
 *
 * Runs after the causes of tries are known, before nodes are made. Reads the
 * records of streams that have such tries once more. */
#include "slave/build/node.h"

/* limit of the ancestors that are looked at */
#define ANCESTORS 64u

struct try_walk {
    struct build *b;
    uint32_t stream;
    /* indexes of the next FORK and KILL in forks and kills */
    uint32_t next_fork, next_kill;
    /* range in retries: the stream's tries that may not be over yet */
    uint32_t first, end;
    /* arguments and result of the last call of may_channel_reach_process() */
    uint32_t asked_id, asked_proc;
    bool leads;
};

/* Whether `proc` is the process `of` or a descendant of it. */
static bool descends_from(const struct build *b, uint32_t proc, uint32_t of)
{
    for (uint32_t n = 0; n < ANCESTORS && proc != IPS_NONE; n++) {
        if (proc == of)
            return true;
        proc = b->out->procs[proc].parent;
    }
    return false;
}

static bool does_process_use_channel_end(const struct build *b, uint32_t proc,
                                         uint32_t end)
{
    const struct b_proc *p = &b->procs[proc];
    for (uint32_t k = 0; k < p->image_count && end != IPS_NONE; k++) {
        const struct b_image *im = &b->images[p->first_image + k];
        for (uint32_t i = 0; i < im->chan_count; i++) {
            const struct b_chan *c = &b->chans.v[im->first_chan + i];
            if (c->end_recv == end || c->end_send == end)
                return true;
        }
    }
    return false;
}

/* Whether a send to, or a close of, channel `id` may reach the process. */
static bool may_channel_reach_process(struct try_walk *x, uint32_t id,
                                      uint32_t proc)
{
    const struct build *b = x->b;
    if (id == x->asked_id && proc == x->asked_proc)
        return x->leads;
    const struct b_chan *c = b_find_chan(b, b->streams[x->stream].image, id);
    x->asked_id = id;
    x->asked_proc = proc;
    x->leads = c && ((c->end_send != IPS_NONE &&
                      does_process_use_channel_end(
                          b, proc, b->out->ends[c->end_send].peer_end)) ||
                     (c->end_recv != IPS_NONE &&
                      does_process_use_channel_end(
                          b, proc, b->out->ends[c->end_recv].peer_end)));
    return x->leads;
}

static bool may_kill_reach_process_or_ancestor(const struct build *b,
                                               const struct b_kill *k,
                                               uint32_t proc)
{
    for (uint32_t n = 0; n < ANCESTORS && proc != IPS_NONE; n++) {
        if (k->to_group || k->pid == b->out->procs[proc].pid)
            return true;
        proc = b->out->procs[proc].parent;
    }
    return false;
}

/* Whether a record of the thread may be what triggered the success of the tries
 * `y`. `fork`, `kill`: the entry of a FORK or KILL record, else NULL; `id`:
 * channel of a SEND or CLOSE. */
static bool is_record_possible_trigger_of_success(struct try_walk *x,
                                                  const struct b_retry *y,
                                                  uint32_t type, uint32_t id,
                                                  const struct b_fork *fork,
                                                  const struct b_kill *kill)
{
    const struct build *b = x->b;
    uint32_t cause = b_find_process_that_ended_retry(b, y);
    if (type == IPS_REC_SEND && y->chan == id)
        return !y->asked; /* the receive that succeeded answers the thread's
                             first send */
    if (cause == IPS_NONE)
        return false;
    /* the child is a thread, or not recorded */
    if (fork && fork->child_proc == IPS_NONE)
        return fork->child != IPS_NONE &&
               cause == b->images[b->streams[x->stream].image].proc;
    if (fork)
        return descends_from(b, cause, fork->child_proc);
    if (kill)
        return may_kill_reach_process_or_ancestor(b, kill, cause);
    return may_channel_reach_process(x, id, cause);
}

static void move_start_of_tries_to_trigger_record(struct try_walk *x,
                                                  uint32_t type,
                                                  const uint8_t *p)
{
    struct build *b = x->b;
    struct ips_rec_head h;
    memcpy(&h, p, sizeof(h));
    const struct b_fork *fork = NULL;
    const struct b_kill *kill = NULL;
    if (type == IPS_REC_FORK && x->next_fork < b->forks.n)
        fork = &b->forks.v[x->next_fork++];
    else if (type == IPS_REC_KILL && x->next_kill < b->kills.n)
        kill = &b->kills.v[x->next_kill++];
    else if (type != IPS_REC_SEND && type != IPS_REC_CLOSE)
        return;
    uint64_t t = b_stamp_to_ns(&b->streams[x->stream].clock, h.word, h.t);
    while (x->first < x->end && b->retries.v[x->first].to < t)
        x->first++;
    for (uint32_t i = x->first; i < x->end && i < x->first + B_TURNS; i++) {
        struct b_retry *y = &b->retries.v[i];
        if (!y->whole && y->from <= t && t < y->to &&
            is_record_possible_trigger_of_success(x, y, type, h.a, fork,
                                                  kill)) {
            y->from = t;
            y->asked |= type == IPS_REC_SEND;
        }
    }
}

/* At `t`, the thread of `stream` let a thread of process `acquirer` continue.
 * Tries of `stream` under way at `t` that this may have made succeed now begin
 * at `t`. */
static void move_start_of_tries_to_own_release(struct build *b, uint32_t stream,
                                               uint64_t t, uint32_t acquirer)
{
    uint32_t low = b->streams[stream].first_retry;
    uint32_t end = stream + 1 < b->in->stream_count
                       ? b->streams[stream + 1].first_retry
                       : b->retries.n;
    const uint32_t own = b->images[b->streams[stream].image].proc;
    for (uint32_t high = end; low < high;) {
        uint32_t mid = low + (high - low) / 2;
        if (b->retries.v[mid].to < t)
            low = mid + 1;
        else
            high = mid;
    }
    for (uint32_t i = low; i < end && i < low + B_TURNS; i++) {
        struct b_retry *y = &b->retries.v[i];
        uint32_t cause = b_find_process_that_ended_retry(b, y);
        if (!y->whole && cause != IPS_NONE && y->from <= t && t < y->to &&
            (acquirer == cause ||
             (acquirer != own && descends_from(b, cause, acquirer))))
            y->from = t;
    }
}

static uint32_t process_of_stream(const struct build *b, uint32_t stream)
{
    return b->images[b->streams[stream].image].proc;
}

/* Calls move_start_of_tries_to_own_release() for all events that let another
 * thread continue: releases that ended a wait, and files that a thread waited
 * for. */
static void set_start_of_tries_for_each_release(struct build *b)
{
    for (uint32_t i = 0; i < b->syncs.n; i++) {
        const struct b_sync *a = &b->syncs.v[i];
        if (a->release || a->cause == IPS_NONE)
            continue;
        const struct b_sync *r = &b->syncs.v[a->cause];
        move_start_of_tries_to_own_release(b, r->stream, r->t,
                                           process_of_stream(b, a->stream));
    }
    for (uint32_t i = 0; i < b->retries.n; i++) {
        const struct b_retry *y = &b->retries.v[i];
        if (y->made != IPS_NONE)
            move_start_of_tries_to_own_release(b, b->mades.v[y->made].stream,
                                               b->mades.v[y->made].t,
                                               process_of_stream(b, y->stream));
    }
}

void b_exclude_naps_before_own_trigger(struct build *b)
{
    if (b->retries.n == 0)
        return;
    set_start_of_tries_for_each_release(b);
    for (uint32_t i = 0; i < b->in->stream_count; i++) {
        const struct b_stream *s = &b->streams[i];
        struct try_walk x = {.b = b,
                             .stream = i,
                             .next_fork = s->first_fork,
                             .next_kill = s->first_kill,
                             .asked_id = IPS_NONE,
                             .asked_proc = IPS_NONE,
                             .first = s->first_retry};
        x.end = i + 1 < b->in->stream_count ? b->streams[i + 1].first_retry
                                            : b->retries.n;
        if (x.first == x.end)
            continue;
        struct b_walk walk = {.in = s->in};
        uint32_t type, len;
        for (const uint8_t *p; (p = b_next_record(&walk, &type, &len));)
            move_start_of_tries_to_trigger_record(&x, type, p);
    }
}
