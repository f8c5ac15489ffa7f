#include "client/base/path_more.h"

#include <stdlib.h>
#include <string.h>

#include "client/base/units.h"
#include "common/types.h"

/* greatest slack that counts as near, in ppm of the path */
#define NEAR_PPM 10000u
/* space for the list of the objects on a path, bytes */
#define WHO_BYTES 200

static const struct ipsq_column slack_columns[] = {
    {"kind", "KIND", IPSQ_TEXT},     {"slack_ns", "SLACK", IPSQ_NS},
    {"path_ns", "ON PATH", IPSQ_NS}, {"near_ns", "NEAR", IPSQ_NS},
    {"total_ns", "TOTAL", IPSQ_NS},  {"module", NULL, IPSQ_TEXT},
    {"object", "OBJECT", IPSQ_TEXT},
};
static const struct ipsq_column next_columns[] = {
    {"ns", "LENGTH", IPSQ_NS},           {"share", "OF PATH", IPSQ_SHARE},
    {"short_ns", "SHORTER BY", IPSQ_NS}, {"messages", "MESSAGES", IPSQ_COUNT},
    {"any", "LOCKS", IPSQ_COUNT},        {"objects", NULL, IPSQ_LIST},
    {"who", "THROUGH", IPSQ_TEXT}, /* this column is in the table format only */
};

int ipsq_ask_slacks_and_next_paths(struct ipsq_session *s,
                                   const struct ipsq_options *o,
                                   const Ips__Lane *scenario, char *run,
                                   const Ips__WhatifAnswer **answer,
                                   struct ips_err *err)
{
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__WhatifAsk ask = IPS__WHATIF_ASK__INIT;
    Ips__Lane copy = *scenario;
    const Ips__Reply *last = NULL;
    ask.lane = &copy;
    ask.slack = o->slack;
    ask.near_ppm = NEAR_PPM;
    ask.next = o->next;
    ask.by_procedure = o->by_mask & IPSQ_IS_BY(PROCEDURE);
    ask.top = o->top;
    ask.weighting = ips_unconst_text(o->weighting);
    ask.goal = ips_unconst_text(o->goal ? o->goal : "");
    rq.run = run;
    rq.ask_case = IPS__REQUEST__ASK_WHATIF;
    rq.whatif = &ask;
    int rc = ipsq_session_ask(s, &rq, false, NULL, NULL, &last, err);
    if (rc == 0)
        rc = ipsq_check_answer_kind(last, IPS__REPLY__ANSWER_WHATIF, err);
    if (rc == 0)
        *answer = last->whatif;
    return rc;
}

static void put_slacks(struct ipsq_out *out, const Ips__WhatifAnswer *a,
                       uint64_t top)
{
    struct ipsq_table t;
    char near[IPSQ_UNIT_BYTES], heading[160];
    const char *kind = "";
    uint64_t shown = 0;
    ipsq_table_init(&t, "slacks", slack_columns, IPSQ_COUNT_OF(slack_columns));
    for (size_t i = 0; i < a->n_slacks; i++) {
        const Ips__SlackRow *r = a->slacks[i];
        shown = strcmp(kind, r->kind) ? 0 : shown + 1;
        kind = r->kind;
        if (top && shown >= top)
            continue;
        struct ipsq_cell *cell = ipsq_table_add_row(&t);
        *cell++ = ipsq_text_cell(r->kind);
        *cell++ = ipsq_count_cell(r->slack_ns);
        *cell++ = ipsq_count_cell(r->path_ns);
        *cell++ = ipsq_count_cell(r->near_ns);
        *cell++ = ipsq_count_cell(r->total_ns);
        *cell++ = ipsq_text_cell(r->place);
        *cell++ = ipsq_text_cell(r->object);
    }
    ipsq_format_ns(a->near_ns, near);
    snprintf(heading, sizeof(heading),
             "how far from critical (NEAR: time with a slack of at most %s)",
             near);
    ipsq_out_write_table(out, &t, heading);
    ipsq_table_release(&t);
}

/* Lists the objects on a path in `text`, such as "/m1/a.3, /m1/b.7", truncated
 * to WHO_BYTES. */
static const char *list_objects_on_path(const Ips__NextPath *p, char *text)
{
    size_t at = 0;
    *text = '\0';
    for (size_t i = 0; i < p->n_objects && at < WHO_BYTES - 1; i++)
        at += (size_t)snprintf(text + at, WHO_BYTES - at, "%s%s", i ? ", " : "",
                               p->objects[i]);
    if (at >= WHO_BYTES)
        memcpy(text + WHO_BYTES - 4, "...", 4);
    return text;
}

static void put_next_paths(struct ipsq_out *out, const Ips__WhatifAnswer *a)
{
    struct ipsq_table t;
    bool table = out->format == IPSQ_TABLE;
    char *texts = calloc(a->n_next + 1, WHO_BYTES);
    ipsq_table_init(&t, "next", next_columns,
                    IPSQ_COUNT_OF(next_columns) - !table);
    for (size_t i = 0; i < a->n_next && texts; i++) {
        const Ips__NextPath *p = a->next[i];
        struct ipsq_cell *cell = ipsq_table_add_row(&t);
        *cell++ = ipsq_count_cell(p->ns);
        *cell++ =
            ipsq_real_cell(a->t_max_ns ? (double)p->ns / (double)a->t_max_ns
                                       : IPS_UNMEASURED_REAL);
        *cell++ = ipsq_count_cell(ips_sub_sat(a->t_max_ns, p->ns));
        *cell++ = ipsq_count_cell(p->messages);
        *cell++ = ipsq_count_cell(p->any);
        *cell++ = ipsq_list_cell(p->objects, p->n_objects);
        if (table)
            *cell++ =
                ipsq_text_cell(list_objects_on_path(p, texts + i * WHO_BYTES));
    }
    ipsq_out_write_table(out, &t, "the longest paths, by who is on them");
    ipsq_table_release(&t);
    free(texts);
}

void ipsq_put_slacks_and_next_paths(struct ipsq_out *out,
                                    const struct ipsq_options *o,
                                    const Ips__WhatifAnswer *a, uint64_t top)
{
    if (o->slack)
        put_slacks(out, a, top);
    if (!o->next)
        return;
    ipsq_out_write_or_collect_value(out, IPSQ_BOOL, "next_complete", NULL,
                                    ipsq_bool_cell(a->next_complete));
    put_next_paths(out, a);
    if (!a->next_complete)
        ipsq_out_write_line_if_table(
            out, "the search reached its memory limit: there may be more "
                 "paths");
}
