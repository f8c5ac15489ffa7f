/* Converts a question to a setup: machines by name, threads by pattern. */
#include <ctype.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/nearest.h"
#include "common/types.h"
#include "master/predict/predict.h"
#include "master/query/machine_share.h"

#define NAME_BYTES 1024

void predict_add_assumption(struct predict_assumptions *s, const char *fmt, ...)
{
    char text[NAME_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (s->count >= PREDICT_ASSUMED_MAX ||
        !arena_reserve_array_slot(s->a, &s->text, s->count, &s->cap,
                                  sizeof(*s->text)))
        return;
    s->text[s->count++] = arena_printf(s->a, "%s", text);
}

void predict_setup_release(struct predict_setup *s)
{
    free(s->machine);
    free(s->map);
    free(s->placed);
    free(s->message_time);
    free(s->curve);
    free(s->move);
    free(s->medium);
    free(s->medium_name);
    free(s->wire_made);
    free(s->wire);
    free(s->burst_ns);
    memset(s, 0, sizeof(*s));
}

/* ---- machines --------------------------------------------------------- */

static int make_setup_of_own_machines(const struct predict_run *run,
                                      size_t more, struct predict_setup *out,
                                      struct ips_err *err)
{
    size_t chains = run->whole->chain_count;
    memset(out, 0, sizeof(*out));
    out->machine = calloc(run->own_count + more + 1, sizeof(*out->machine));
    out->map = calloc(chains + 1, sizeof(*out->map));
    out->placed = calloc(chains + 1, sizeof(*out->placed));
    if (!out->machine || !out->map || !out->placed)
        return ips_err_set(err, IPS_E_NO_MEMORY, "map of %zu threads", chains);
    for (uint32_t m = 0; m < run->own_count; m++)
        out->machine[m] = (struct predict_machine){
            .name = run->own[m].name,
            .is = {.cores = run->own[m].cores ? run->own[m].cores : 1},
            .unknown = !run->own[m].cores,
            .recorded = true};
    out->machine_count = run->own_count;
    out->chain_count = (uint32_t)chains;
    for (uint32_t c = 0; c < chains; c++)
        out->map[c] = run->whole->chains[c].machine;
    return 0;
}

int predict_make_own_setup(const struct predict_run *run,
                           struct predict_setup *out, struct ips_err *err)
{
    int rc = make_setup_of_own_machines(run, 0, out, err);
    if (rc == 0)
        rc = predict_set_measured_message_times(run, NULL, out, err);
    if (rc < 0)
        predict_setup_release(out);
    return rc;
}

static uint32_t find_machine(const struct predict_setup *s, const char *name)
{
    for (uint32_t m = 0; m < s->machine_count; m++)
        if (strcmp(s->machine[m].name, name) == 0)
            return m;
    return PREDICT_NOWHERE;
}

static int check_machine(const Ips__PredictMachine *from, struct ips_err *err)
{
    if (!*from->name)
        return ips_err_set(err, IPS_E_USAGE, "a machine without a name");
    if (from->cores > IPS_REPLAY_CORES_MAX)
        return ips_err_set(err, IPS_E_USAGE,
                           "machine %.80s: %u cores, at "
                           "most %u",
                           from->name, from->cores, IPS_REPLAY_CORES_MAX);
    if ((from->speed_den && !from->speed_num) ||
        from->speed_num > IPS_REPLAY_RATIO_MAX ||
        from->speed_den > IPS_REPLAY_RATIO_MAX)
        return ips_err_set(
            err, IPS_E_USAGE,
            "machine %.80s: the speed must be above 0 and at most %u, "
            "with at most four digits",
            from->name, IPS_REPLAY_RATIO_MAX);
    if (from->load_num > IPS_REPLAY_RATIO_MAX ||
        from->load_den > IPS_REPLAY_RATIO_MAX)
        return ips_err_set(
            err, IPS_E_USAGE,
            "machine %.80s: the load must be at most %u, with at most "
            "four digits",
            from->name, IPS_REPLAY_RATIO_MAX);
    if (from->taken_den > IPS_REPLAY_RATIO_MAX ||
        (from->taken_den && from->taken_num >= from->taken_den))
        return ips_err_set(
            err, IPS_E_USAGE,
            "machine %.80s: a load in percent must be below 100%%", from->name);
    if (from->turn_ns > IPS_REPLAY_TURN_MAX)
        return ips_err_set(err, IPS_E_USAGE,
                           "machine %.80s: the turn must be at most %llu s",
                           from->name, IPS_REPLAY_TURN_MAX / 1000000000ull);
    return 0;
}

/* Sets the load of other programs from the load average during the run. If
 * that was not recorded, uses the load that explains the run delays of its
 * threads. */
static void
set_recorded_or_fitted_load(const struct predict_recorded_machine *run,
                            const struct predict_machine *fitted,
                            struct predict_machine *to,
                            struct predict_assumptions *said)
{
    if (run->load_samples == 0) {
        to->is.load = fitted->is.load;
        predict_add_assumption(
            said,
            "the load of %.80s is %.2f: with it the threads wait for "
            "cores as long as the kernel recorded (the load average "
            "was not recorded)",
            run->name, (double)to->is.load.num / to->is.load.den);
        return;
    }
    uint64_t hundredths = (run->load_milli + 5) / 10;
    to->is.load = hundredths <= IPS_REPLAY_RATIO_MAX
                      ? (struct ips_ratio){(uint32_t)hundredths, 100}
                      : (struct ips_ratio){IPS_REPLAY_RATIO_MAX, 1};
    if (hundredths > IPS_REPLAY_RATIO_MAX &&
        hundredths / 100 < IPS_REPLAY_RATIO_MAX)
        to->is.load.num = (uint32_t)(hundredths / 100);
    predict_add_assumption(
        said,
        "the load of %.80s is %.2f: its load average while the run was "
        "on (%" PRIu64 " samples) less that of the run's own threads",
        run->name, (double)to->is.load.num / to->is.load.den,
        run->load_samples);
}

static int add_or_change_machine(const struct predict_run *run,
                                 const Ips__PredictMachine *from,
                                 const struct predict_setup *own,
                                 struct predict_setup *s,
                                 struct predict_assumptions *said,
                                 struct ips_err *err)
{
    int rc = check_machine(from, err);
    if (rc < 0)
        return rc;
    uint32_t m = find_machine(s, from->name);
    if (m == PREDICT_NOWHERE) {
        m = s->machine_count++;
        s->machine[m] = (struct predict_machine){.name = from->name,
                                                 .one_core = !from->cores};
        s->machine[m].is.cores = 1;
    }
    struct predict_machine *to = &s->machine[m];
    to->named = true;
    if (from->cores) {
        to->is.cores = from->cores;
        to->unknown = false;
    }
    to->is.speed = (struct ips_ratio){from->speed_num, from->speed_den};
    to->is.load = (struct ips_ratio){from->load_num, from->load_den};
    to->is.turn_ns = from->turn_said ? from->turn_ns : PREDICT_TURN_NS;
    to->load = (struct ips_ratio){from->taken_num, from->taken_den};
    if (!from->load_recorded)
        return 0;
    if (!to->recorded)
        return ips_err_set(
            err, IPS_E_USAGE,
            "machine %.80s: load=recorded applies only to machines of "
            "the run",
            from->name);
    set_recorded_or_fitted_load(&run->own[m], &own->machine[m], to, said);
    return 0;
}

static int add_or_change_machines(const struct predict_run *run,
                                  const Ips__PredictAsk *ask,
                                  const struct predict_setup *own,
                                  struct predict_setup *s,
                                  struct predict_assumptions *said,
                                  struct ips_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < ask->n_machines && rc == 0; i++) {
        for (size_t k = 0; k < i && rc == 0; k++)
            if (strcmp(ask->machines[k]->name, ask->machines[i]->name) == 0)
                rc = ips_err_set(err, IPS_E_USAGE,
                                 "machine %.80s is given twice",
                                 ask->machines[i]->name);
        if (rc == 0)
            rc =
                add_or_change_machine(run, ask->machines[i], own, s, said, err);
    }
    return rc;
}

bool predict_write_machine_names(const struct predict_setup *s,
                                 bool (*fits)(const struct predict_setup *s,
                                              uint32_t m),
                                 char out[PREDICT_NAMES_BYTES])
{
    size_t at = 0;
    out[0] = '\0';
    for (uint32_t m = 0; m < s->machine_count; m++) {
        if (!fits(s, m) || at >= PREDICT_NAMES_BYTES - 1)
            continue;
        snprintf(out + at, PREDICT_NAMES_BYTES - at, "%s%.60s", at ? ", " : "",
                 s->machine[m].name);
        at = strlen(out);
    }
    return at > 0;
}

static bool accept_every_machine(const struct predict_setup *s, uint32_t m)
{
    (void)s;
    (void)m;
    return true;
}

/* Writes the names of all machines: "m1, m2, m3". */
static const char *machine_names(const struct predict_setup *s,
                                 char out[PREDICT_NAMES_BYTES])
{
    (void)predict_write_machine_names(s, accept_every_machine, out);
    return out;
}

/* ---- placement of threads --------------------------------------------- */

static bool matches_pattern(const char *pattern, const char *text)
{
    return fnmatch(pattern, text, 0) == 0;
}

static bool is_number(const char *text)
{
    const char *p = text;
    while (isdigit((unsigned char)*p))
        p++;
    return p > text && !*p;
}

/* Whether the pattern (without its first slash) matches the thread as "m1",
 * "m1/a.3", "m1/a.3/TID" or "m1/a.3/NAME". */
static bool thread_matches_object_path(const struct predict_run *run,
                                       const struct predict_thread *t,
                                       const char *pattern)
{
    char name[NAME_BYTES];
    unsigned parts = 1;
    for (const char *p = pattern; *p; p++)
        parts += *p == '/';
    const char *own = run->own[t->own].name;
    if (parts == 1)
        return matches_pattern(pattern, own);
    snprintf(name, sizeof(name), "%s/%s/%u", own, t->process, t->tid);
    if (parts == 2)
        *strrchr(name, '/') = '\0';
    if (matches_pattern(pattern, name))
        return true;
    if (parts != 3 || !*t->name)
        return false;
    snprintf(name, sizeof(name), "%s/%s/%s", own, t->process, t->name);
    return matches_pattern(pattern, name);
}

bool predict_thread_matches(const struct predict_run *run,
                            const struct predict_thread *t, const char *pattern)
{
    char base[NAME_BYTES];
    if (strchr(pattern, '/'))
        return thread_matches_object_path(run, t, pattern + (*pattern == '/'));
    if (is_number(pattern))
        return t->pid == strtoul(pattern, NULL, 10);
    if (matches_pattern(pattern, t->process))
        return true;
    snprintf(base, sizeof(base), "%.*s",
             (int)machine_share_program_len(t->process), t->process);
    return matches_pattern(pattern, base);
}

int predict_set_no_process_error(const struct predict_run *run,
                                 const char *option, const char *what,
                                 const char *rest, struct ips_err *err)
{
    struct ips_nearest near;
    ips_nearest_start_search(&near, what);
    entities_offer_process_names(run->t, what, &near);
    return ips_err_set(err, IPS_E_NOT_FOUND,
                       "%s %.80s%s: the run has no such process%s; `ipsq ls` "
                       "lists them",
                       option, what, rest,
                       ips_nearest_format_suggestion(&near));
}

/* Returns "; did you mean 'm1'?", or "" if no name is similar. */
static const char *nearest_machine_text(const struct predict_setup *s,
                                        const char *word,
                                        struct ips_nearest *near)
{
    ips_nearest_start_search(near, word);
    for (uint32_t m = 0; m < s->machine_count; m++)
        ips_nearest_consider_candidate(near, s->machine[m].name);
    return ips_nearest_format_suggestion(near);
}

static int place_matching_processes(const struct predict_run *run,
                                    const Ips__PredictPlace *p,
                                    struct predict_setup *s,
                                    struct ips_err *err)
{
    char all[PREDICT_NAMES_BYTES];
    uint32_t m = find_machine(s, p->machine), count = 0;
    struct ips_nearest near;
    if (m == PREDICT_NOWHERE)
        return ips_err_set(
            err, IPS_E_NOT_FOUND,
            "--map %.80s=%.80s: no such machine; there are %s%s; "
            "--machines '%.80s:cores=N' adds it",
            p->what, p->machine, machine_names(s, all),
            nearest_machine_text(s, p->machine, &near), p->machine);
    for (uint32_t c = 0; c < run->whole->chain_count; c++) {
        if (!predict_thread_matches(run, &run->thread[c], p->what))
            continue;
        s->map[c] = m;
        s->placed[c] = true;
        count++;
    }
    if (count)
        return 0;
    snprintf(all, sizeof(all), "=%.80s", p->machine);
    return predict_set_no_process_error(run, "--map", p->what, all, err);
}

static int make_replay_moves_from_cuts(const struct predict_run *run,
                                       const Ips__PredictAsk *ask,
                                       struct predict_setup *s,
                                       struct ips_err *err)
{
    char all[PREDICT_NAMES_BYTES];
    struct ips_nearest near;
    s->move = calloc(run->cut_count + 1, sizeof(*s->move));
    if (!s->move)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%zu moves", run->cut_count);
    for (size_t i = 0; i < ask->n_moves; i++) {
        if (find_machine(s, ask->moves[i]->machine) == PREDICT_NOWHERE)
            return ips_err_set(
                err, IPS_E_NOT_FOUND,
                "--move %.80s@...=%.80s: no such machine; "
                "there are %s%s",
                ask->moves[i]->what, ask->moves[i]->machine,
                machine_names(s, all),
                nearest_machine_text(s, ask->moves[i]->machine, &near));
    }
    for (size_t k = 0; k < run->cut_count; k++) {
        const struct predict_cut *cut = &run->cut[k];
        uint32_t m = find_machine(s, ask->moves[cut->which]->machine);
        /* Among several moves at the same arc the last one counts. */
        if (!s->move_count || s->move[s->move_count - 1].node != cut->node)
            s->move_count++;
        s->move[s->move_count - 1] = (struct ips_replay_move){cut->node, m};
    }
    return 0;
}

/* Reports moves that move nothing, because the threads had ended before. */
static void report_ineffective_moves(const Ips__PredictAsk *ask,
                                     const struct predict_run *run,
                                     struct predict_assumptions *said)
{
    for (size_t i = 0; i < ask->n_moves; i++) {
        bool moves = false;
        for (size_t k = 0; k < run->cut_count && !moves; k++)
            moves = run->cut[k].which == i;
        if (!moves)
            predict_add_assumption(
                said,
                "nothing moves to %.80s %.3f s after the start: %.80s had "
                "ended by then",
                ask->moves[i]->machine, (double)ask->moves[i]->at_ns / 1e9,
                ask->moves[i]->what);
    }
}

/* Drops time slices: the bound of a search assumes that machines are shared
 * evenly. */
static void drop_time_slices_of_machines(struct predict_setup *s,
                                         struct predict_assumptions *said)
{
    for (uint32_t m = 0; m < s->machine_count; m++) {
        if (s->machine[m].is.turn_ns && s->machine[m].is.load.num)
            predict_add_assumption(
                said,
                "threads and load of %.80s share its cores evenly: a "
                "search ignores turn=",
                s->machine[m].name);
        s->machine[m].is.turn_ns = 0;
    }
}

/* Reports the new machines that have no process. If the question neither maps
 * nor moves processes, the first of them is an error. */
static int report_or_refuse_new_machines_without_process(
    const Ips__PredictAsk *ask, const struct predict_run *run,
    const struct predict_setup *s, struct predict_assumptions *said,
    struct ips_err *err)
{
    bool *used = calloc((size_t)s->machine_count + 1, sizeof(*used));
    int rc = used ? 0 : ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
    for (uint32_t c = 0; used && c < run->whole->chain_count; c++)
        used[s->map[c]] = true;
    for (uint32_t k = 0; used && k < s->move_count; k++)
        used[s->move[k].machine] = true;
    for (uint32_t m = 0; m < s->machine_count && rc == 0; m++) {
        if (used[m] || s->machine[m].recorded)
            continue;
        if (ask->n_map == 0 && ask->n_moves == 0)
            rc = ips_err_set(
                err, IPS_E_USAGE,
                "no process is on machine %.80s: name some with --map, as "
                "in --map '*=%.80s'",
                s->machine[m].name, s->machine[m].name);
        else
            predict_add_assumption(said, "no process is on machine %.80s",
                                   s->machine[m].name);
    }
    free(used);
    return rc;
}

static bool is_core_count_assumed(const struct predict_setup *s, uint32_t m)
{
    return s->machine[m].one_core;
}

static bool is_core_count_unrecorded(const struct predict_setup *s, uint32_t m)
{
    return s->machine[m].recorded && s->machine[m].unknown;
}

static void report_assumed_core_counts(const struct predict_setup *s,
                                       struct predict_assumptions *said)
{
    char names[PREDICT_NAMES_BYTES];
    if (predict_write_machine_names(s, is_core_count_unrecorded, names))
        predict_add_assumption(
            said, "one core each: %s (neither recorded nor given)", names);
    if (predict_write_machine_names(s, is_core_count_assumed, names))
        predict_add_assumption(said, "one core each: %s (cores= was not given)",
                               names);
}

int predict_setup_make(const struct predict_run *run,
                       const struct predict_setup *own,
                       const Ips__PredictAsk *ask,
                       struct predict_assumptions *said,
                       struct predict_setup *out, struct ips_err *err)
{
    int rc = make_setup_of_own_machines(run, ask->n_machines, out, err);
    if (rc == 0)
        rc = add_or_change_machines(run, ask, own, out, said, err);
    if (rc == 0 && ask->search)
        drop_time_slices_of_machines(out, said);
    for (size_t i = 0; i < ask->n_map && rc == 0; i++)
        rc = place_matching_processes(run, ask->map[i], out, err);
    if (rc == 0)
        report_assumed_core_counts(out, said);
    if (rc == 0)
        rc = make_replay_moves_from_cuts(run, ask, out, err);
    if (rc == 0)
        report_ineffective_moves(ask, run, said);
    if (rc == 0)
        rc = predict_set_message_times_and_networks(run, ask, said, out, err);
    if (rc == 0 && !ask->search)
        rc = report_or_refuse_new_machines_without_process(ask, run, out, said,
                                                           err);
    if (rc < 0)
        predict_setup_release(out);
    return rc;
}
