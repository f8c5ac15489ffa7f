#include "slave/graphs/marked_spans.h"

#include <stdlib.h>
#include <string.h>

#include "slave/build/chain_index.h"
#include "slave/build/internal.h"

#define NOT_BEGUN UINT64_MAX

struct spans_builder {
    const struct ips_built *b;
    enum slave_marked_span_by by;
    const char *only; /* name that was asked for; "": all names */
    struct slave_marked_spans *out;
    uint32_t capacity;
    /* start time of each name's span that has begun and not ended in the
     * current chain; NOT_BEGUN: none */
    uint64_t begun[SLAVE_MARKED_SPAN_NAMES];
    uint32_t chain;
    struct ips_err *err;
};

/* ---- rows ---------------------------------------------------------------- */

/* Returns the last node of the current chain that was passed by time `t`;
 * *since: ns from that node to t. */
static uint32_t last_node_before_time(const struct spans_builder *m, uint64_t t,
                                      uint64_t *since)
{
    const struct ips_graph *g = &m->b->g;
    const struct ips_chain *c = &g->chains[m->chain];
    uint32_t low = c->first, high = c->first + c->count;
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (g->at[mid] <= t)
            low = mid;
        else
            high = mid;
    }
    *since = ips_sub_sat(t, g->at[low]);
    return low;
}

static int add_span(struct spans_builder *m, uint32_t name, uint64_t from,
                    uint64_t to)
{
    struct slave_marked_spans *out = m->out;
    if (out->count == m->capacity) {
        m->capacity = m->capacity * 2 + 256;
        struct slave_marked_span *more =
            realloc(out->row, m->capacity * sizeof(*more));
        if (!more)
            return ips_err_set(m->err, IPS_E_NO_MEMORY, "out of memory");
        out->row = more;
    }
    struct slave_marked_span *r = &out->row[out->count++];
    r->name = name;
    r->first = last_node_before_time(m, from, &r->first_ns);
    r->last = last_node_before_time(m, to, &r->last_ns);
    return 0;
}

/* ---- names --------------------------------------------------------------- */

/* Finds the number of the name `text`, or adds the name. *name UINT32_MAX: this
 * name was not asked for. Returns < 0 if there are too many names. */
static int find_or_add_name_if_requested(struct spans_builder *m,
                                         const char *text, size_t len,
                                         uint32_t *name)
{
    struct slave_marked_spans *out = m->out;
    char word[SLAVE_MARKED_SPAN_NAME_BYTES];
    if (len >= sizeof(word))
        len = sizeof(word) - 1;
    memcpy(word, text, len);
    word[len] = '\0';
    *name = UINT32_MAX;
    if (len == 0 || (*m->only && strcmp(m->only, word) != 0))
        return 0;
    for (uint32_t i = 0; i < out->name_count; i++) {
        if (strcmp(out->name[i], word) == 0) {
            *name = i;
            return 0;
        }
    }
    if (out->name_count == SLAVE_MARKED_SPAN_NAMES)
        return ips_err_set(
            m->err, IPS_E_LIMIT,
            "requests have more than %u names: choose one with --by "
            "mark:NAME",
            SLAVE_MARKED_SPAN_NAMES);
    memcpy(out->name[out->name_count], word, len + 1);
    *name = out->name_count++;
    return 0;
}

/* ---- marks --------------------------------------------------------------- */

enum edge { BEGIN, END, NEXT };

/* If the first word of `text` is `word`, returns the text after that word and
 * the blanks; else returns NULL. */
static const char *skip_leading_word_if_it_matches(const char *text,
                                                   const char *word)
{
    size_t n = strlen(word);
    if (strncmp(text, word, n) != 0 || text[n] != ' ')
        return NULL;
    return text + n + strspn(text + n, " ");
}

static int begin_or_end_span_at_mark(struct spans_builder *m, const char *text,
                                     uint64_t t)
{
    const char *rest = skip_leading_word_if_it_matches(text, "begin");
    enum edge edge = rest ? BEGIN : NEXT;
    uint32_t name;
    if (!rest && (rest = skip_leading_word_if_it_matches(text, "end")))
        edge = END;
    if (edge == NEXT && !*m->only)
        return 0;
    if (!rest)
        rest = text;
    int rc = find_or_add_name_if_requested(m, rest, strcspn(rest, " "), &name);
    if (rc < 0 || name == UINT32_MAX)
        return rc;
    uint64_t begun = m->begun[name];
    m->begun[name] = edge == END ? NOT_BEGUN : t;
    if (begun == NOT_BEGUN)
        return 0;
    if (edge == BEGIN) {
        m->out->unended++;
        return 0;
    }
    return add_span(m, name, begun, ips_max_u64(begun, t));
}

static int add_spans_of_stream(struct spans_builder *m,
                               const struct ips_stream_in *in)
{
    struct b_walk walk = {.in = in};
    char text[513];
    uint32_t type, len;
    const uint8_t *data;
    int rc = 0;
    while (rc == 0 && (data = b_next_record(&walk, &type, &len))) {
        struct ips_rec_text r;
        if (type != IPS_REC_MARK || len < sizeof(r))
            continue;
        memcpy(&r, data, sizeof(r));
        size_t bytes = len - sizeof(r);
        if (bytes >= sizeof(text))
            bytes = sizeof(text) - 1;
        memcpy(text, data + sizeof(r), bytes);
        text[bytes] = '\0';
        rc = begin_or_end_span_at_mark(
            m, text, b_stamp_to_ns(&in->head.clock, r.h.word, r.h.t));
    }
    return rc;
}

static void reset_open_spans(struct spans_builder *m, uint32_t chain)
{
    m->chain = chain;
    for (uint32_t i = 0; i < SLAVE_MARKED_SPAN_NAMES; i++)
        m->begun[i] = NOT_BEGUN;
}

static void count_unended_spans(struct spans_builder *m)
{
    for (uint32_t i = 0; i < m->out->name_count; i++)
        m->out->unended += m->begun[i] != NOT_BEGUN;
}

static int add_mark_spans(struct spans_builder *m,
                          const struct ips_build_input *in)
{
    struct slave_stream_with_chain *place =
        slave_list_streams_sorted_by_chain(in, m->b, m->err);
    int rc = place ? 0 : IPS_E_NO_MEMORY;
    uint32_t chain = IPS_NONE;
    for (uint32_t i = 0; rc == 0 && i < in->stream_count; i++) {
        if (place[i].chain == IPS_NONE)
            continue;
        if (place[i].chain != chain) {
            if (chain != IPS_NONE)
                count_unended_spans(m);
            reset_open_spans(m, chain = place[i].chain);
        }
        rc = add_spans_of_stream(m, &in->streams[place[i].stream]);
    }
    if (rc == 0 && chain != IPS_NONE)
        count_unended_spans(m);
    ips_free_large(place);
    return rc;
}

/* ---- tasks --------------------------------------------------------------- */

static int add_task_spans(struct spans_builder *m,
                          const struct ips_build_input *in)
{
    struct slave_stream_with_chain *place =
        slave_list_streams_sorted_by_chain(in, m->b, m->err);
    int rc = place ? 0 : IPS_E_NO_MEMORY;
    uint32_t chain = IPS_NONE;
    for (uint32_t i = 0; rc == 0 && i < in->stream_count; i++) {
        const struct ips_segment_header *h = &in->streams[place[i].stream].head;
        uint32_t name;
        if (!(h->flags & IPS_SEGMENT_TASK) || place[i].chain == chain ||
            place[i].chain == IPS_NONE)
            continue;
        reset_open_spans(m, chain = place[i].chain);
        const struct ips_thread_row *t = &m->b->threads[chain];
        rc = find_or_add_name_if_requested(m, t->name, strcspn(t->name, " "),
                                           &name);
        if (rc < 0 || name == UINT32_MAX)
            continue;
        if (t->open)
            m->out->unended++;
        else
            rc = add_span(m, name, t->start_ns, t->end_ns);
    }
    ips_free_large(place);
    return rc;
}

int slave_marked_spans_make(const struct ips_build_input *in,
                            const struct ips_built *b,
                            enum slave_marked_span_by by, const char *name,
                            struct slave_marked_spans *out, struct ips_err *err)
{
    struct spans_builder m = {
        .b = b, .by = by, .only = name, .out = out, .err = err};
    memset(out, 0, sizeof(*out));
    int rc =
        by == SLAVE_BY_TASK ? add_task_spans(&m, in) : add_mark_spans(&m, in);
    if (rc < 0)
        slave_marked_spans_release(out);
    return rc;
}

void slave_marked_spans_release(struct slave_marked_spans *r)
{
    free(r->row);
    r->row = NULL;
    r->count = 0;
}
