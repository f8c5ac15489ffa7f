#include "master/query/message_times_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "master/query/join.h"

/* ---- which pairs are needed ------------------------------------------- */

/* Returns a malloc'd array indexed by machine_share.number: whether `p`
 * exchanges messages with that machine. NULL: no memory. */
static bool *find_message_partners_of_machine(const struct query *q,
                                              const struct machine_share *p)
{
    bool *to = calloc((size_t)q->gather.count + 1, sizeof(*to));
    for (uint32_t i = 0; to && i < p->peer_count; i++) {
        if (p->peer[i].machine != JOIN_NONE)
            to[p->peer[i].machine] = true;
    }
    return to;
}

/* ---- description for the certificate ------------------------------------- */

struct message_times_description {
    uint32_t measured, assumed, none, doubted;
    char first[32], last[32]; /* earliest and latest time of measurement */
    char list[400], doubts[300];
    char why[340]; /* why the first doubted pair is in doubt */
    bool too_many;
};

static void append_list_item(char *text, size_t room, bool *too_many,
                             const char *more)
{
    size_t at = strlen(text);
    if (*too_many || at + strlen(more) + 8 > room) {
        *too_many = true;
        return;
    }
    snprintf(text + at, room - at, "%s%s", at ? ", " : "", more);
}

static void format_pair_direction(char *out, size_t room, const char *from,
                                  const char *to)
{
    if (strcmp(from, to) == 0)
        snprintf(out, room, "inside %s", from);
    else
        snprintf(out, room, "%s -> %s", from, to);
}

static void
add_pair_to_message_times_description(struct message_times_description *w,
                                      const char *from, const char *to,
                                      const struct message_time_pair *p)
{
    char name[160], like[160], both[340];
    format_pair_direction(name, sizeof(name), from, to);
    if (p && *p->doubt && w->doubted++ == 0) {
        format_pair_direction(like, sizeof(like), p->from, p->to);
        snprintf(w->why, sizeof(w->why), "%s: %s", like, p->doubt);
    }
    if (!p) {
        w->none++;
        snprintf(both, sizeof(both), "%s 0", name);
        append_list_item(w->doubts, sizeof(w->doubts), &w->too_many, both);
    } else if (!message_time_pair_is_between(p, from, to)) {
        w->assumed++;
        format_pair_direction(like, sizeof(like), p->from, p->to);
        snprintf(both, sizeof(both), "%s as %s", name, like);
        append_list_item(w->doubts, sizeof(w->doubts), &w->too_many, both);
    } else {
        w->measured++;
        append_list_item(w->list, sizeof(w->list), &w->too_many, name);
        if (!*w->first || strcmp(p->measured, w->first) < 0)
            snprintf(w->first, sizeof(w->first), "%s", p->measured);
        if (strcmp(p->measured, w->last) > 0)
            snprintf(w->last, sizeof(w->last), "%s", p->measured);
    }
}

static void
write_message_times_description(const struct message_times_description *w,
                                char *out, size_t room)
{
    char doubts[340] = "", more[400] = "";
    bool same = strcmp(w->first, w->last) == 0;
    if (w->too_many)
        snprintf(doubts, sizeof(doubts),
                 "; %u pairs assumed, %u taken as 0 (ipsq calibrate --show)",
                 w->assumed, w->none);
    else if (*w->doubts)
        snprintf(doubts, sizeof(doubts), "; assumed: %s", w->doubts);
    if (w->doubted > 1)
        snprintf(more, sizeof(more), "; in doubt: %u pairs, as %s", w->doubted,
                 w->why);
    else if (w->doubted)
        snprintf(more, sizeof(more), "; in doubt: %s", w->why);
    snprintf(out, room, "as measured %s%s%s (%s)%s%s", w->first,
             same ? "" : " to ", same ? "" : w->last,
             w->too_many ? "many pairs" : w->list, doubts, more);
}

/* ---- choosing the curves ------------------------------------------------- */

int message_times_plan_describe_and_set_calibrated(struct query *q,
                                                   struct ips_err *err)
{
    struct gather *g = &q->gather;
    const struct message_times *t = &q->m->message_times;
    struct message_times_description *w = NULL;
    int rc = 0;
    g->calibrated = false;
    if (!q->calibrate)
        return 0;
    rc = message_times_reload_if_changed(&q->m->message_times, err);
    if (rc < 0 || t->count == 0)
        return rc;
    w = calloc(1, sizeof(*w));
    if (!w)
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    for (uint32_t i = 0; rc == 0 && i < g->count; i++) {
        const char *from = g->active[i]->machine;
        bool *to = find_message_partners_of_machine(q, g->active[i]);
        if (!to)
            rc = ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
        add_pair_to_message_times_description(
            w, from, from,
            message_times_find_pair_or_substitute(t, from, from, MTIME_TCP));
        for (uint32_t k = 0; to && k < g->count; k++) {
            const char *other = g->active[k]->machine;
            if (to[k] && k != i)
                add_pair_to_message_times_description(
                    w, from, other,
                    message_times_find_pair_or_substitute(t, from, other,
                                                          MTIME_TCP));
        }
        free(to);
    }
    g->calibrated = rc == 0 && w->measured > 0;
    write_message_times_description(w, g->message_times_text,
                                    sizeof(g->message_times_text));
    free(w);
    return rc;
}

static void add_curve(struct message_times_curves *c,
                      const struct message_time_pair *pair, bool inside,
                      uint32_t part, bool local)
{
    if (!pair)
        return;
    Ips__MessageTimeCurve *row = &c->row[c->count];
    ips__message_time_curve__init(row);
    row->inside = inside;
    row->part = part;
    row->local = local;
    row->n_bytes = row->n_ns = pair->curve.count;
    row->bytes = (uint64_t *)(uintptr_t)pair->curve.bytes;
    row->ns = (uint64_t *)(uintptr_t)pair->curve.ns;
    c->list[c->count++] = row;
}

int message_times_plan_make_curves(struct query *q,
                                   const struct machine_share *p,
                                   struct message_times_curves *out,
                                   struct ips_err *err)
{
    const struct message_times *t = &q->m->message_times;
    const struct gather *g = &q->gather;
    size_t most = (size_t)g->count + 3;
    memset(out, 0, sizeof(*out));
    if (!g->calibrated)
        return 0;
    bool *to = find_message_partners_of_machine(q, p);
    out->row = calloc(most, sizeof(*out->row));
    out->list = calloc(most, sizeof(*out->list));
    if (!to || !out->row || !out->list) {
        free(to);
        message_times_curves_release(out);
        return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    }
    add_curve(out,
              message_times_find_pair_or_substitute(t, p->machine, p->machine,
                                                    MTIME_TCP),
              true, 0, false);
    add_curve(out,
              message_times_find_pair_or_substitute(t, p->machine, p->machine,
                                                    MTIME_UNIX),
              true, 0, true);
    for (uint32_t k = 0; k < g->count; k++) {
        if (to[k] && k != p->number)
            add_curve(out,
                      message_times_find_pair_or_substitute(
                          t, p->machine, g->active[k]->machine, MTIME_TCP),
                      false, k, false);
    }
    free(to);
    return 0;
}

void message_times_curves_release(struct message_times_curves *c)
{
    free(c->row);
    free(c->list);
    memset(c, 0, sizeof(*c));
}

void message_times_plan_replace_formula_if_measured(
    const struct query *q, struct ips_scenario *scenario)
{
    scenario->calibrated = scenario->calibrated && q->gather.calibrated;
    if (!scenario->calibrated)
        return;
    struct ips_message_time once = ips_message_time_identity();
    scenario->message_time.base_ns = once.base_ns;
    scenario->message_time.per_byte_q32 = once.per_byte_q32;
}
