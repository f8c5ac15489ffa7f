/* Collects requests whose list does not fit into one frame. Such a list comes
 * in several requests with the same id, all but the last marked `more`. This
 * module joins them into one request. */
#include <stdlib.h>
#include <string.h>

#include "slave/serve/private.h"

/* limit of the memory of all incomplete lists together, in bytes */
#define PARTIAL_BYTES (1u << 29)

static size_t total_partial_bytes(const struct slave_serve *v)
{
    size_t sum = 0;
    for (const struct partial_request *p = v->partials; p; p = p->next)
        sum += p->bytes;
    return sum;
}

static bool will_more_requests_follow(const Ips__Request *q)
{
    return (q->ask_case == IPS__REQUEST__ASK_PEERS && q->peers->more) ||
           (q->ask_case == IPS__REQUEST__ASK_FINISH && q->finish->more) ||
           (q->ask_case == IPS__REQUEST__ASK_EXPAND && q->expand->more) ||
           (q->ask_case == IPS__REQUEST__ASK_PROFILE && q->profile->more) ||
           (q->ask_case == IPS__REQUEST__ASK_SPLIT && q->split->more);
}

/* Estimates the memory that a request takes, in bytes: a value of one byte on
 * the wire may take eight in memory. */
static size_t estimate_request_bytes(const Ips__Request *q)
{
    size_t bytes = ips__request__get_packed_size(q);
    if (q->ask_case == IPS__REQUEST__ASK_PEERS)
        bytes += q->peers->n_peers * (sizeof(Ips__Peer) + sizeof(Ips__Peer *));
    else if (q->ask_case == IPS__REQUEST__ASK_FINISH)
        bytes += q->finish->values.len;
    else if (q->ask_case == IPS__REQUEST__ASK_EXPAND)
        bytes += (q->expand->n_from + q->expand->n_to + q->expand->n_in +
                  q->expand->n_out) *
                 sizeof(uint32_t);
    else if (q->ask_case == IPS__REQUEST__ASK_PROFILE)
        bytes += (q->profile->n_from + q->profile->n_to) * sizeof(uint32_t) +
                 q->profile->n_most * sizeof(uint64_t);
    else if (q->ask_case == IPS__REQUEST__ASK_SPLIT)
        bytes += (q->split->n_from + q->split->n_to) * sizeof(uint32_t);
    return bytes;
}

/* Appends the list `from` to the list `into`. The elements then belong to
 * `into`: the caller must not free those of `from`. */
static bool append_list(void *into, size_t *n, const void *from, size_t more,
                        size_t size)
{
    void **list = into;
    void *grown = realloc(*list, (*n + more + 1) * size);
    if (!grown)
        return false;
    *list = grown;
    if (more)
        memcpy((char *)grown + *n * size, from, more * size);
    *n += more;
    return true;
}

/* Appends the lists of `from` to those of `into`; returns false if they differ
 * in kind or memory is short. */
static bool append_lists_of_request(Ips__Request *into, Ips__Request *from)
{
    if (into->ask_case != from->ask_case)
        return false;
    if (into->ask_case == IPS__REQUEST__ASK_PEERS) {
        Ips__PeersAsk *a = into->peers, *b = from->peers;
        if (!append_list(&a->peers, &a->n_peers, b->peers, b->n_peers,
                         sizeof(*a->peers)))
            return false;
        b->n_peers = 0; /* the elements belong to `into` now */
        a->more = b->more;
        return true;
    }
    if (into->ask_case == IPS__REQUEST__ASK_PROFILE) {
        Ips__ProfileAsk *a = into->profile, *b = from->profile;
        a->more = b->more;
        return append_list(&a->from, &a->n_from, b->from, b->n_from,
                           sizeof(*a->from)) &&
               append_list(&a->to, &a->n_to, b->to, b->n_to, sizeof(*a->to)) &&
               append_list(&a->most, &a->n_most, b->most, b->n_most,
                           sizeof(*a->most));
    }
    if (into->ask_case == IPS__REQUEST__ASK_SPLIT) {
        Ips__SplitAsk *a = into->split, *b = from->split;
        a->more = b->more;
        return append_list(&a->from, &a->n_from, b->from, b->n_from,
                           sizeof(*a->from)) &&
               append_list(&a->to, &a->n_to, b->to, b->n_to, sizeof(*a->to));
    }
    if (into->ask_case == IPS__REQUEST__ASK_EXPAND) {
        Ips__ExpandAsk *a = into->expand, *b = from->expand;
        a->more = b->more;
        return append_list(&a->from, &a->n_from, b->from, b->n_from,
                           sizeof(*a->from)) &&
               append_list(&a->to, &a->n_to, b->to, b->n_to, sizeof(*a->to)) &&
               append_list(&a->in, &a->n_in, b->in, b->n_in, sizeof(*a->in)) &&
               append_list(&a->out, &a->n_out, b->out, b->n_out,
                           sizeof(*a->out));
    }
    Ips__FinishAsk *a = into->finish, *b = from->finish;
    a->more = b->more;
    return append_list(&a->values.data, &a->values.len, b->values.data,
                       b->values.len, 1);
}

static void partial_request_unlink_and_free(struct slave_serve *v,
                                            struct partial_request *gone)
{
    struct partial_request **p = &v->partials;
    while (*p != gone)
        p = &(*p)->next;
    *p = gone->next;
    ips__request__free_unpacked(gone->request, NULL);
    free(gone);
}

bool slave_serve_collect_partial_and_start_if_whole(struct slave_serve *v,
                                                    const Ips__Request *q)
{
    struct partial_request *part = v->partials;
    while (part && part->request->id != q->id)
        part = part->next;
    if (!part && !will_more_requests_follow(q))
        return false;
    size_t bytes = estimate_request_bytes(q);
    Ips__Request *copy = slave_serve_copy_request(q);
    if (!part) {
        part = calloc(1, sizeof(*part));
        if (!part || !copy || total_partial_bytes(v) + bytes > PARTIAL_BYTES) {
            free(part);
            if (copy)
                ips__request__free_unpacked(copy, NULL);
            slave_serve_send_error(v, q->id, IPS_E_NO_MEMORY, q->run,
                                   "no room for a list in several requests");
            return true;
        }
        part->request = copy;
        part->bytes = bytes;
        part->next = v->partials;
        v->partials = part;
        return true;
    }
    bool fine = copy && total_partial_bytes(v) + bytes < PARTIAL_BYTES &&
                append_lists_of_request(part->request, copy);
    part->bytes += bytes;
    if (copy)
        ips__request__free_unpacked(copy, NULL);
    if (!fine)
        slave_serve_send_error(
            v, q->id, IPS_E_LIMIT, q->run,
            "a list in several requests cannot be put together");
    else if (!will_more_requests_follow(part->request))
        slave_serve_start_job_for_request(v, part->request);
    else
        return true;
    partial_request_unlink_and_free(v, part);
    return true;
}

void slave_serve_drop_partial_request(struct slave_serve *v, uint64_t id)
{
    for (struct partial_request *p = v->partials, *next; p; p = next) {
        next = p->next;
        if (p->request->id == id)
            partial_request_unlink_and_free(v, p);
    }
}

void slave_serve_free_partial_requests(struct slave_serve *v)
{
    while (v->partials)
        partial_request_unlink_and_free(v, v->partials);
}
