/* The time that messages between the machines of a setup take, and the media
 * that they share. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "master/predict/predict.h"

#define SCALE_MAX 1000000u
#define UNMEASURED_MAX 64u

static int check_network_option(const Ips__PredictNet *n, struct ips_err *err)
{
    if (n->scale_num > SCALE_MAX || n->scale_den > SCALE_MAX)
        return ips_err_set(err, IPS_E_USAGE,
                           "messages %.80s>%.80s: scaled by %u/%u", n->from,
                           n->to, n->scale_num, n->scale_den);
    if (!n->given && !n->scale_den && !*n->medium)
        return ips_err_set(err, IPS_E_USAGE,
                           "messages %.80s>%.80s: no time is given for them",
                           n->from, n->to);
    return 0;
}

/* Allocates the message times of all pairs of machines, unless they exist. */
static int allocate_message_times_of_pairs(const struct predict_run *run,
                                           struct predict_setup *s,
                                           struct ips_err *err)
{
    size_t pairs = (size_t)s->machine_count * s->machine_count;
    if (s->message_time)
        return 0;
    s->message_time = calloc(pairs + 1, sizeof(*s->message_time));
    s->curve = calloc(pairs + 1, sizeof(*s->curve));
    if (!s->message_time || !s->curve)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%zu pairs of machines",
                           pairs);
    for (size_t p = 0; p < pairs; p++)
        s->message_time[p] = run->scenario_then.message_time;
    return 0;
}

static int allocate_media(struct predict_setup *s, size_t nets,
                          struct ips_err *err)
{
    size_t pairs = (size_t)s->machine_count * s->machine_count;
    s->medium = malloc((pairs + 1) * sizeof(*s->medium));
    s->medium_name = calloc(nets + 1, sizeof(*s->medium_name));
    s->wire_made = calloc(pairs + 1, sizeof(*s->wire_made));
    s->wire = calloc(pairs + 1, sizeof(*s->wire));
    s->burst_ns = calloc(nets + 1, sizeof(*s->burst_ns));
    if (!s->medium || !s->medium_name || !s->wire_made || !s->wire ||
        !s->burst_ns)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%zu pairs of machines",
                           pairs);
    for (size_t p = 0; p < pairs; p++)
        s->medium[p] = IPS_REPLAY_NO_MEDIUM;
    return 0;
}

/* ---- measured message times ------------------------------------------- */

/* A group of pairs of machines without measurements of their own, which all use
 * the times of the same other pair, or none. One sentence reports each group.
 */
struct unmeasured {
    /* the pair whose times are used; NULL: messages take no time */
    const struct message_time_pair *as;
    char pairs[240]; /* text "a>b, c>d": as many pairs as fit */
    uint32_t left;   /* number of pairs that did not fit */
};
struct unmeasured_groups {
    struct unmeasured kind[UNMEASURED_MAX];
    uint32_t count;
};

static void record_pair_if_unmeasured(struct unmeasured_groups *s,
                                      const char *from, const char *to,
                                      const struct message_time_pair *as)
{
    uint32_t k = 0;
    if (as && message_time_pair_is_between(as, from, to))
        return;
    while (k < s->count && s->kind[k].as != as)
        k++;
    if (k == UNMEASURED_MAX)
        return; /* enough groups are reported already */
    struct unmeasured *u = &s->kind[k];
    if (k == s->count) {
        *u = (struct unmeasured){.as = as};
        s->count++;
    }
    size_t at = strlen(u->pairs), room = sizeof(u->pairs) - at;
    int n = snprintf(u->pairs + at, room, "%s%.60s>%.60s", at ? ", " : "", from,
                     to);
    if (u->left || n < 0 || (size_t)n >= room) {
        u->pairs[at] = '\0';
        u->left++;
    }
}

static void add_unmeasured_assumptions(const struct unmeasured_groups *s,
                                       struct predict_assumptions *said)
{
    for (uint32_t k = 0; k < s->count; k++) {
        const struct unmeasured *u = &s->kind[k];
        char more[32] = "";
        if (u->left)
            snprintf(more, sizeof(more), " and %u more", u->left);
        if (u->as)
            predict_add_assumption(
                said,
                "messages %s%s take the times measured from %.80s to "
                "%.80s: their own were neither measured (ipsq calibrate) "
                "nor given (--network)",
                u->pairs, more, u->as->from, u->as->to);
        else
            predict_add_assumption(
                said,
                "messages %s%s take no time except the CPU time of their "
                "ends: no similar ones were measured (ipsq calibrate) or "
                "given (--network)",
                u->pairs, more);
    }
}

/* Whether a thread is placed on machine m, or moves there. */
static bool machine_has_or_receives_threads(const struct predict_run *run,
                                            const struct predict_setup *s,
                                            uint32_t m)
{
    for (uint32_t c = 0; c < run->whole->chain_count; c++)
        if (s->map[c] == m)
            return true;
    for (uint32_t k = 0; k < s->move_count; k++)
        if (s->move[k].machine == m)
            return true;
    return false;
}

int predict_set_measured_message_times(const struct predict_run *run,
                                       struct predict_assumptions *said,
                                       struct predict_setup *out,
                                       struct ips_err *err)
{
    uint32_t n = out->machine_count;
    struct unmeasured_groups saying = {.count = 0};
    int rc = run->times ? allocate_message_times_of_pairs(run, out, err) : 0;
    for (uint32_t f = 0; f < n && rc == 0 && run->times; f++) {
        bool from_used = said && machine_has_or_receives_threads(run, out, f);
        for (uint32_t t = 0; t < n; t++) {
            const char *from = out->machine[f].name, *to = out->machine[t].name;
            /* Most channels within a machine are pipes, so use the times over
             * Unix sockets rather than those over TCP. */
            const struct message_time_pair *pair =
                message_times_find_pair_or_substitute(
                    run->times, from, to, f == t ? MTIME_UNIX : MTIME_TCP);
            size_t at = (size_t)f * n + t;
            out->message_time[at] = (struct ips_message_time){0, 0, 1, 1};
            out->curve[at] = pair ? &pair->curve : NULL;
            if (from_used && machine_has_or_receives_threads(run, out, t))
                record_pair_if_unmeasured(&saying, from, to, pair);
        }
    }
    if (said)
        add_unmeasured_assumptions(&saying, said);
    return rc;
}

/* ---- message times that the question gives ---------------------------- */

static uint32_t find_or_add_medium(struct predict_setup *s, const char *name)
{
    for (uint32_t k = 0; k < s->medium_count; k++)
        if (strcmp(s->medium_name[k], name) == 0)
            return k;
    s->medium_name[s->medium_count] = name;
    return s->medium_count++;
}

static void set_network_of_pair(struct predict_setup *s, size_t pair,
                                const Ips__PredictNet *n)
{
    struct ips_message_time *m = &s->message_time[pair];
    if (n->given) {
        *m = (struct ips_message_time){n->base_ns, n->per_byte_q32, 1, 1};
        s->curve[pair] = NULL;
    }
    if (n->scale_den) {
        m->scale_num = n->scale_num;
        m->scale_den = n->scale_den;
    }
    if (*n->medium)
        s->medium[pair] = find_or_add_medium(s, n->medium);
}

static bool matches_pattern(const char *pattern, const char *name)
{
    return fnmatch(pattern, name, 0) == 0;
}

static int apply_network_option(struct predict_setup *s,
                                const Ips__PredictNet *n, struct ips_err *err)
{
    bool some = false;
    for (uint32_t f = 0; f < s->machine_count; f++) {
        for (uint32_t t = 0; t < s->machine_count; t++) {
            const char *from = s->machine[f].name, *to = s->machine[t].name;
            bool there =
                matches_pattern(n->from, from) && matches_pattern(n->to, to);
            bool back = n->both && matches_pattern(n->from, to) &&
                        matches_pattern(n->to, from);
            if (!there && !back)
                continue;
            some = true;
            set_network_of_pair(s, (size_t)f * s->machine_count + t, n);
        }
    }
    if (some)
        return 0;
    return ips_err_set(err, IPS_E_NOT_FOUND,
                       "--network %.80s>%.80s: no such machines", n->from,
                       n->to);
}

/* ---- time that messages occupy a medium ------------------------------- */

/* Sets how long messages of a pair occupy its medium. Returns false if the pair
 * has no medium, or if its times were given by the question or not measured
 * well enough. */
static bool set_wire_time_of_pair_if_measured(const struct predict_run *run,
                                              struct predict_setup *s,
                                              uint32_t f, uint32_t t)
{
    size_t p = (size_t)f * s->machine_count + t;
    if (s->medium[p] == IPS_REPLAY_NO_MEDIUM || !s->curve[p])
        return false;
    const struct message_time_pair *pair =
        message_times_find_pair_or_substitute(run->times, s->machine[f].name,
                                              s->machine[t].name,
                                              f == t ? MTIME_UNIX : MTIME_TCP);
    if (!pair || !message_time_wire_compute(pair, &s->wire_made[p]))
        return false;
    s->wire[p] = &s->wire_made[p].curve;
    return true;
}

static void add_medium_assumption(const struct predict_setup *s, uint32_t m,
                                  const struct message_time_wire *w,
                                  struct predict_assumptions *said)
{
    if (!said)
        return;
    predict_add_assumption(
        said,
        "messages occupy %.80s for %.1f ns per byte including "
        "packet headers, as measured; after a pause %.0f us of "
        "that pass at once",
        s->medium_name[m],
        (double)ips_curve_compute_message_ns(&w->curve, MTIME_WIRE_DATA) /
            (MTIME_WIRE_DATA + MTIME_WIRE_HEAD),
        (double)s->burst_ns[m] / 1e3);
}

static void set_medium_wire_times(const struct predict_run *run,
                                  struct predict_setup *s,
                                  struct predict_assumptions *said)
{
    for (uint32_t m = 0; m < s->medium_count; m++) {
        const struct message_time_wire *one = NULL;
        for (uint32_t f = 0; f < s->machine_count; f++) {
            for (uint32_t t = 0; t < s->machine_count; t++) {
                size_t p = (size_t)f * s->machine_count + t;
                if (s->medium[p] != m ||
                    !set_wire_time_of_pair_if_measured(run, s, f, t))
                    continue;
                uint64_t burst = s->wire_made[p].burst_ns;
                if (!one || burst < s->burst_ns[m]) {
                    one = &s->wire_made[p];
                    s->burst_ns[m] = burst;
                }
            }
        }
        if (one)
            add_medium_assumption(s, m, one, said);
    }
}

int predict_set_message_times_and_networks(const struct predict_run *run,
                                           const Ips__PredictAsk *ask,
                                           struct predict_assumptions *said,
                                           struct predict_setup *out,
                                           struct ips_err *err)
{
    int rc = predict_set_measured_message_times(run, said, out, err);
    if (ask->n_nets == 0 || rc < 0)
        return rc;
    rc = allocate_message_times_of_pairs(run, out, err);
    if (rc == 0)
        rc = allocate_media(out, ask->n_nets, err);
    for (size_t i = 0; i < ask->n_nets && rc == 0; i++) {
        rc = check_network_option(ask->nets[i], err);
        if (rc == 0)
            rc = apply_network_option(out, ask->nets[i], err);
    }
    if (rc == 0)
        set_medium_wire_times(run, out, said);
    return rc;
}
