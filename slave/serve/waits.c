/* Answers WaitRowsAsk: sends all waits of a graph. The replies have first the
 * call sites, then the waits, then the lock operations. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "slave/graphs/waits.h"
#include "slave/profile/event_sites.h"
#include "slave/serve/blocked.h"
#include "slave/serve/graph.h"
#include "slave/serve/procs.h"

/* maximum number of call sites in a reply; a site has at most 32 frames of 600
 * bytes each */
#define PIECE_CALL_SITES 128u
#define BLOCKED_MOST 1024u /* maximum number of blocked threads in a reply */

struct wait_rows {
    uint32_t sent_sites, sent, sent_locks;
    char *causes[IPS_WAIT_COUNT];
    /* texts of the current page, freed when the next page is made */
    char **text;
    uint32_t text_count, text_capacity;
    /* [IPS_PIECE_ITEMS] columns of a page of waits */
    uint32_t *node, *cause, *code_location, *release_site;
    protobuf_c_boolean *of_node;
    uint64_t *ns, *end_ns, *unended_ns;
    /* [IPS_PIECE_ITEMS] columns of a page of lock operations */
    uint32_t *lock, *lock_node, *lock_does;
    uint64_t *lock_after, *lock_at_ns;
    Ips__BlockedCall *blocked, **blocked_at;
};

static void free_texts_of_page(struct wait_rows *w)
{
    for (uint32_t i = 0; i < w->text_count; i++)
        free(w->text[i]);
    w->text_count = 0;
}

void slave_wait_rows_release(struct slave_graph_ask *j)
{
    struct wait_rows *w = j->wait_rows;
    if (!w)
        return;
    free_texts_of_page(w);
    free(w->text);
    free(w->node);
    free(w->cause);
    free(w->code_location);
    free(w->release_site);
    free(w->of_node);
    free(w->ns);
    free(w->end_ns);
    free(w->unended_ns);
    free(w->lock);
    free(w->lock_node);
    free(w->lock_does);
    free(w->lock_after);
    free(w->lock_at_ns);
    free(w->blocked);
    free(w->blocked_at);
    free(w);
    j->wait_rows = NULL;
}

static int set_out_of_memory_error(struct slave_graph_ask *j)
{
    return ips_err_set(&j->job.err, IPS_E_NO_MEMORY, "out of memory");
}

static int prepare_wait_rows_answer(struct slave_graph_ask *j,
                                    struct slave_graphs *gs)
{
    int rc = slave_graph_rebuild_for_missing_waits(gs, j->graph, &j->job.err);
    if (rc < 0)
        return rc;
    struct wait_rows *w = j->wait_rows = calloc(1, sizeof(*w));
    if (!w)
        return set_out_of_memory_error(j);
    w->node = calloc(IPS_PIECE_ITEMS, sizeof(*w->node));
    w->cause = calloc(IPS_PIECE_ITEMS, sizeof(*w->cause));
    w->code_location = calloc(IPS_PIECE_ITEMS, sizeof(*w->code_location));
    w->release_site = calloc(IPS_PIECE_ITEMS, sizeof(*w->release_site));
    w->of_node = calloc(IPS_PIECE_ITEMS, sizeof(*w->of_node));
    w->ns = calloc(IPS_PIECE_ITEMS, sizeof(*w->ns));
    w->end_ns = calloc(IPS_PIECE_ITEMS, sizeof(*w->end_ns));
    w->unended_ns = calloc(IPS_PIECE_ITEMS, sizeof(*w->unended_ns));
    w->text_capacity = PIECE_CALL_SITES * (IPS_WAIT_FRAMES + 4) + BLOCKED_MOST;
    w->text = calloc(w->text_capacity, sizeof(*w->text));
    w->lock = calloc(IPS_PIECE_ITEMS, sizeof(*w->lock));
    w->lock_node = calloc(IPS_PIECE_ITEMS, sizeof(*w->lock_node));
    w->lock_does = calloc(IPS_PIECE_ITEMS, sizeof(*w->lock_does));
    w->lock_after = calloc(IPS_PIECE_ITEMS, sizeof(*w->lock_after));
    w->lock_at_ns = calloc(IPS_PIECE_ITEMS, sizeof(*w->lock_at_ns));
    bool fine = w->node && w->cause && w->code_location && w->release_site &&
                w->of_node && w->ns && w->end_ns && w->unended_ns && w->text &&
                w->lock && w->lock_node && w->lock_does && w->lock_after &&
                w->lock_at_ns;
    return fine ? 0 : set_out_of_memory_error(j);
}

/* Takes over a malloc'd text, which is freed when the next page is made, and
 * returns it. If `text` is NULL (out of memory), returns NULL. */
static char *keep_text_until_next_page(struct wait_rows *w, char *text)
{
    if (text && w->text_count < w->text_capacity)
        w->text[w->text_count++] = text;
    return text;
}

static bool fill_call_site(struct wait_rows *p, const struct slave_waits *w,
                           const struct slave_wait_site *from,
                           Ips__WaitPlace *to, char **stack)
{
    struct slave_symbol_frame f;
    ips__wait_place__init(to);
    if (from->code_location == IPS_NONE)
        return true;
    if (from->code_location == SLAVE_PAGE_FAULTS)
        return (to->procedure = keep_text_until_next_page(
                    p, strdup(IPS_PAGE_FAULTS))) != NULL;
    const char *at = w->names.of[from->code_location].text;
    uint32_t module = w->map.locations[from->code_location].module;
    if (module != IPS_NONE)
        to->module = w->map.modules[module].path;
    bool named = at && slave_symbol_parse_frame(&at, &f);
    to->procedure = keep_text_until_next_page(
        p, named ? strndup(f.name, f.name_len) : strdup("?"));
    if (named && f.at_file_len) {
        to->file =
            keep_text_until_next_page(p, strndup(f.at_file, f.at_file_len));
        to->line = f.at_line;
    }
    to->stack = stack;
    for (uint32_t i = 0; i < from->count; i++) {
        char *text = keep_text_until_next_page(
            p, slave_location_format_text(&w->map, &w->names,
                                          w->frame[from->first + i]));
        if (!text)
            return false;
        stack[to->n_stack++] = text;
    }
    return to->procedure && to->file;
}

static int fill_blocked_calls(struct slave_graph_ask *j, Ips__WaitRowsAnswer *a)
{
    struct wait_rows *p = j->wait_rows;
    const struct slave_waits *w = j->graph->waits;
    const uint32_t n =
        w->blocked_count < BLOCKED_MOST ? w->blocked_count : BLOCKED_MOST;
    struct timespec now;
    if (n == 0)
        return 0;
    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    a->now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    p->blocked = calloc((size_t)n + 1, sizeof(*p->blocked));
    p->blocked_at = calloc((size_t)n + 1, sizeof(*p->blocked_at));
    if (!p->blocked || !p->blocked_at)
        return set_out_of_memory_error(j);
    for (uint32_t i = 0; i < n; i++) {
        const struct ips_blocked_row *r = &w->blocked[i];
        Ips__BlockedCall *to = p->blocked_at[i] = &p->blocked[i];
        ips__blocked_call__init(to);
        to->chain = r->chain;
        to->since_ns = r->since_ns;
        to->by = r->by == IPS_NONE ? 0 : r->by + 1;
        to->place = w->blocked_site[i];
        to->within = slave_blocked_needs_recorded_waker(&j->graph->b, r);
        to->what = keep_text_until_next_page(
            p, slave_blocked_describe_wait(&j->graph->b, r));
        if (!to->what)
            return set_out_of_memory_error(j);
    }
    a->blocked = p->blocked_at;
    a->n_blocked = n;
    return 0;
}

static int fill_call_sites_page(struct slave_graph_ask *j,
                                Ips__WaitRowsAnswer *a)
{
    struct wait_rows *p = j->wait_rows;
    const struct slave_waits *w = j->graph->waits;
    uint32_t left = w->site_count - p->sent_sites;
    uint32_t n = left < PIECE_CALL_SITES ? left : PIECE_CALL_SITES;
    struct row {
        Ips__WaitPlace call_site;
        char *stack[IPS_WAIT_FRAMES];
    } *rows = slave_graph_reallocate_answer_rows(j, n, sizeof(*rows));
    free_texts_of_page(p);
    if (!rows)
        return IPS_E_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        if (!fill_call_site(p, w, &w->site[p->sent_sites + i],
                            &rows[i].call_site, rows[i].stack))
            return set_out_of_memory_error(j);
    if (p->sent_sites == 0) {
        for (int c = 0; c < IPS_WAIT_COUNT; c++)
            p->causes[c] =
                ips_unconst_text(ips_wait_name((enum ips_wait_cause)c));
        a->causes = p->causes;
        a->n_causes = IPS_WAIT_COUNT;
        int rc = fill_blocked_calls(j, a);
        if (rc < 0)
            return rc;
    }
    a->places = (Ips__WaitPlace **)(void *)j->ptrs;
    a->n_places = n;
    p->sent_sites += n;
    return 0;
}

static void fill_waits_page(struct slave_graph_ask *j, Ips__WaitRowsAnswer *a)
{
    struct wait_rows *p = j->wait_rows;
    const struct slave_waits *w = j->graph->waits;
    size_t n = 0;
    for (; n < IPS_PIECE_ITEMS && p->sent < w->count; n++, p->sent++) {
        const struct ips_wait_row *r = &w->row[p->sent];
        p->node[n] = r->arc;
        p->cause[n] = r->cause;
        p->code_location[n] = r->stack;
        p->release_site[n] = w->giver[p->sent];
        p->of_node[n] = r->of_node;
        p->ns[n] = r->ns;
        p->end_ns[n] = r->end_ns;
        bool first = p->sent == 0 || r[-1].arc != r->arc;
        p->unended_ns[n] = first && r->arc > 0
                               ? ips_sum_ns_without_recorded_waker(
                                     &j->graph->b, r->arc - 1, r->arc)
                               : 0;
    }
    a->n_node = a->n_cause = a->n_place = a->n_giver = n;
    a->giver = p->release_site;
    a->n_of_node = a->n_ns = a->n_end_ns = a->n_unended_ns = n;
    a->unended_ns = p->unended_ns;
    a->node = p->node;
    a->cause = p->cause;
    a->place = p->code_location;
    a->of_node = p->of_node;
    a->ns = p->ns;
    a->end_ns = p->end_ns;
}

static void fill_lock_operations_page(struct slave_graph_ask *j,
                                      Ips__WaitRowsAnswer *a)
{
    struct wait_rows *p = j->wait_rows;
    const struct slave_waits *w = j->graph->waits;
    size_t n = 0;
    for (; n < IPS_PIECE_ITEMS && p->sent_locks < w->lock_count;
         n++, p->sent_locks++) {
        const struct ips_lock_row *r = &w->lock[p->sent_locks];
        p->lock[n] = r->lock;
        p->lock_node[n] = r->node;
        /* send `w` plus 1, so that IPS_LOCK_AT_NODE, the greatest value,
         * becomes 0 */
        p->lock_after[n] = r->w + 1;
        p->lock_at_ns[n] = r->t;
        p->lock_does[n] = (r->gives ? 1u : 0u) + r->units * 2u;
    }
    a->n_lock = a->n_lock_node = a->n_lock_after = n;
    a->n_lock_does = a->n_lock_at_ns = n;
    a->lock = p->lock;
    a->lock_node = p->lock_node;
    a->lock_after = p->lock_after;
    a->lock_at_ns = p->lock_at_ns;
    a->lock_does = p->lock_does;
}

void slave_answer_wait_rows_request(struct slave_job *job,
                                    struct slave_graphs *gs)
{
    struct slave_graph_ask *j = slave_graph_ask_of_job(job);
    Ips__WaitRowsAnswer *a = &j->answer.wait_rows;
    int rc = slave_graph_use_generation_and_verify(
        j, gs, slave_graph_get_request(j)->wait_rows->generation);
    if (rc == 0 && !j->wait_rows)
        rc = prepare_wait_rows_answer(j, gs);
    ips__wait_rows_answer__init(a);
    if (rc == 0 && j->wait_rows->sent_sites < j->graph->waits->site_count)
        rc = fill_call_sites_page(j, a);
    else if (rc == 0 && j->wait_rows->sent < j->graph->waits->count)
        fill_waits_page(j, a);
    else if (rc == 0)
        fill_lock_operations_page(j, a);
    if (rc < 0) {
        slave_job_fail(job);
        return;
    }
    const struct slave_waits *w = j->graph->waits;
    job->finished = j->wait_rows->sent_sites == w->site_count &&
                    j->wait_rows->sent == w->count &&
                    j->wait_rows->sent_locks == w->lock_count;
    job->reply.answer_case = IPS__REPLY__ANSWER_WAIT_ROWS;
    job->reply.wait_rows = a;
}
