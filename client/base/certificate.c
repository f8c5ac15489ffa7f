/*
 * The certificate in JSON, where the set of keys is always the same, and in
 * TSV. certificate_text.c writes it for people.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/out.h"
#include "client/base/units.h"
#include "proto/message.h"

static void write_json_count_member(struct ipsq_json *j, const char *key,
                                    uint64_t n)
{
    ipsq_json_write_key(j, key);
    ipsq_json_write_count_or_null(j, n);
}

static void write_json_text_member(struct ipsq_json *j, const char *key,
                                   const char *text)
{
    ipsq_json_write_key(j, key);
    ipsq_json_write_text_or_null(j, text);
}

static void put_list(struct ipsq_json *j, const char *key, char **item,
                     size_t count)
{
    struct ipsq_cell cell = ipsq_list_cell(item, count);
    ipsq_json_write_key(j, key);
    ipsq_json_write_cell(j, IPSQ_LIST, &cell);
}

static void put_notes(struct ipsq_json *j, const Ips__Certificate *c)
{
    ipsq_json_write_key(j, "notes");
    ipsq_json_open_container(j, '[');
    for (size_t i = 0; i < c->n_notes; i++)
        ipsq_json_write_text_or_null(j, c->notes[i]);
    for (size_t i = 0; i < c->n_details; i++)
        ipsq_json_write_text_or_null(j, c->details[i]);
    ipsq_json_close_container(j, ']');
}

/* Makes the cell of the recording overhead, as a fraction of the CPU time of
 * the program itself. */
static struct ipsq_cell recording_overhead_cell(const Ips__Certificate *c)
{
    return ipsq_real_cell(c->dilation_ppm == UINT64_MAX
                              ? IPS_UNMEASURED_REAL
                              : (double)c->dilation_ppm / 1e6);
}

static void put_lost_events(struct ipsq_json *j, const Ips__Certificate *c)
{
    ipsq_json_write_key(j, "lost");
    ipsq_json_open_container(j, '[');
    for (size_t i = 0; i < c->n_lost; i++) {
        ipsq_json_open_container(j, '{');
        write_json_text_member(j, "cause", c->lost[i]->name);
        write_json_count_member(j, "count", c->lost[i]->count);
        ipsq_json_close_container(j, '}');
    }
    ipsq_json_close_container(j, ']');
}

static void put_scenarios(struct ipsq_json *j, const Ips__Certificate *c)
{
    ipsq_json_write_key(j, "lanes");
    ipsq_json_open_container(j, '[');
    for (size_t i = 0; i < c->n_lanes; i++) {
        ipsq_json_open_container(j, '{');
        write_json_text_member(j, "lane", c->lanes[i]->lane);
        write_json_count_member(j, "t_max_ns", c->lanes[i]->t_max_ns);
        ipsq_json_write_key(j, "same_order");
        ipsq_json_write_bool(j, c->lanes[i]->same_order);
        ipsq_json_close_container(j, '}');
    }
    ipsq_json_close_container(j, ']');
}

static void put_untraced_processes(struct ipsq_json *j,
                                   const Ips__Certificate *c)
{
    ipsq_json_write_key(j, "untraced");
    ipsq_json_open_container(j, '[');
    for (size_t i = 0; i < c->n_untraced; i++) {
        const Ips__Untraced *u = c->untraced[i];
        ipsq_json_open_container(j, '{');
        write_json_text_member(j, "machine", u->machine);
        write_json_text_member(j, "cause", u->cause);
        write_json_text_member(j, "program", u->program);
        write_json_count_member(j, "count", u->count);
        write_json_count_member(j, "pid", u->pid);
        ipsq_json_close_container(j, '}');
    }
    ipsq_json_close_container(j, ']');
}

/* Writes how much CPU time was estimated, and how wrong the estimates were. */
static void put_cpu_estimates(struct ipsq_json *j, const Ips__Certificate *c)
{
    write_json_count_member(j, "cpu_ns", c->cpu_ns);
    write_json_count_member(j, "guessed_cpu_ns", c->guessed_cpu_ns);
    write_json_count_member(j, "guesses_settled", c->guesses_settled);
    write_json_count_member(j, "guess_off_ns", c->guess_off_ns);
    write_json_count_member(j, "guess_off_max_ns", c->guess_off_max_ns);
}

static void put_machine_loads(struct ipsq_json *j, const Ips__Certificate *c)
{
    ipsq_json_write_key(j, "loads");
    ipsq_json_open_container(j, '[');
    for (size_t i = 0; i < c->n_loads; i++) {
        const Ips__MachineLoad *l = c->loads[i];
        struct ipsq_cell load = ipsq_real_cell((double)l->milli / 1e3);
        struct ipsq_cell own = ipsq_real_cell((double)l->own_milli / 1e3);
        ipsq_json_open_container(j, '{');
        write_json_text_member(j, "machine", l->machine);
        ipsq_json_write_key(j, "load");
        ipsq_json_write_cell(j, IPSQ_REAL, &load);
        ipsq_json_write_key(j, "own_load");
        ipsq_json_write_cell(j, IPSQ_REAL, &own);
        write_json_count_member(j, "samples", l->samples);
        ipsq_json_close_container(j, '}');
    }
    ipsq_json_close_container(j, ']');
}

const Ips__Certificate *
ipsq_certificate_or_placeholder(const Ips__Certificate *c)
{
    static Ips__Certificate none = IPS__CERTIFICATE__INIT;
    static char note[] = "the answer came without a certificate";
    static char *gaps[] = {note};
    if (c)
        return c;
    none.gaps = gaps;
    none.n_gaps = 1;
    none.events = none.unmatched = none.ambiguous = none.pending = UINT64_MAX;
    none.external = none.idle = none.untraced_processes = UINT64_MAX;
    none.any = none.any_on_path = none.any_unmatched = UINT64_MAX;
    none.spin_ns = none.run_delay_unknown_ns = none.unended_ns = UINT64_MAX;
    none.probe_ns = none.overhead_ns = none.unattributed_cpu_ns = UINT64_MAX;
    none.probe_arc_ns = UINT64_MAX;
    none.dilation_ppm = none.cpu_ns = UINT64_MAX;
    none.guessed_cpu_ns = none.guesses_settled = UINT64_MAX;
    none.guess_off_ns = none.guess_off_max_ns = UINT64_MAX;
    none.records_read = UINT64_MAX;
    return &none;
}

void ipsq_certificate_write_json(struct ipsq_json *j,
                                 const Ips__Certificate *cert)
{
    const Ips__Certificate *c = ipsq_certificate_or_placeholder(cert);
    ipsq_json_open_container(j, '{');
    ipsq_json_write_key(j, "complete");
    ipsq_json_write_bool(j, c->complete);
    put_list(j, "gaps", c->gaps, c->n_gaps);
    write_json_count_member(j, "events", c->events);
    write_json_count_member(j, "records_read", c->records_read);
    put_lost_events(j, c);
    write_json_count_member(j, "unmatched", c->unmatched);
    write_json_count_member(j, "ambiguous", c->ambiguous);
    write_json_count_member(j, "pending", c->pending);
    write_json_count_member(j, "external", c->external);
    write_json_count_member(j, "idle", c->idle);
    write_json_count_member(j, "any", c->any);
    write_json_count_member(j, "any_on_path", c->any_on_path);
    write_json_count_member(j, "any_unmatched", c->any_unmatched);
    write_json_count_member(j, "spin_ns", c->spin_ns);
    write_json_count_member(j, "run_delay_unknown_ns", c->run_delay_unknown_ns);
    write_json_count_member(j, "unended_ns", c->unended_ns);
    put_list(j, "machines", c->machines, c->n_machines);
    put_list(j, "missing_machines", c->missing_machines, c->n_missing_machines);
    write_json_count_member(j, "untraced_processes", c->untraced_processes);
    put_untraced_processes(j, c);
    put_list(j, "unseen", c->unseen, c->n_unseen);
    write_json_text_member(j, "clock", c->clock);
    write_json_text_member(j, "engine", c->engine);
    write_json_count_member(j, "probe_ns", c->probe_ns);
    write_json_count_member(j, "overhead_ns", c->overhead_ns);
    write_json_count_member(j, "probe_arc_ns", c->probe_arc_ns);
    struct ipsq_cell share = recording_overhead_cell(c);
    ipsq_json_write_key(j, "dilation");
    ipsq_json_write_cell(j, IPSQ_SHARE, &share);
    put_cpu_estimates(j, c);
    put_machine_loads(j, c);
    write_json_text_member(j, "message_times", c->message_times);
    put_scenarios(j, c);
    write_json_count_member(j, "unattributed_cpu_ns", c->unattributed_cpu_ns);
    write_json_count_member(j, "category",
                            c->category ? c->category : UINT64_MAX);
    write_json_text_member(j, "plan", c->plan);
    write_json_count_member(j, "took_ns",
                            c->category ? c->took_ns : UINT64_MAX);
    put_notes(j, c);
    ipsq_json_close_container(j, '}');
}

const char *ipsq_describe_untraced_cause(const char *cause)
{
    static const char *const why[][2] = {
        {"static", "linked statically"},
        {"32-bit", "a 32-bit program"},
        {"other-machine", "for another kind of processor"},
        {"other-C-library", "its C library is not the GNU one"},
        {"set-user-id", "its file gives it other rights"},
        {"library-out-of-reach", "it cannot read the library that records"},
        {"loader", "called to list or check what a program loads"},
        {"AddressSanitizer",
         "AddressSanitizer must be loaded before any other library"},
        {"not-examined", "no thread could be created to examine its file"},
        {"unknown", "not known why"},
        {"various", "for several reasons"},
    };
    for (size_t i = 0; i < sizeof(why) / sizeof(*why); i++) {
        if (strcmp(cause, why[i][0]) == 0)
            return why[i][1];
    }
    return cause;
}

#define UNTRACED_BYTES 512
/* Formats "m1: 2 static: /usr/bin/x (pid 77)"; returns `out`. */
static char *format_untraced_processes_for_tsv(char out[UNTRACED_BYTES],
                                               const Ips__Untraced *u)
{
    size_t n =
        (size_t)snprintf(out, UNTRACED_BYTES, "%.100s: %" PRIu64 " %.32s",
                         u->machine, u->count, u->cause);
    if (*u->program)
        n += (size_t)snprintf(out + n, UNTRACED_BYTES - n, ": %.250s",
                              u->program);
    if (u->pid)
        snprintf(out + n, UNTRACED_BYTES - n, " (pid %" PRIu32 ")", u->pid);
    return out;
}

static void write_certificate_tsv_line(FILE *f, const char *key,
                                       enum ipsq_kind kind,
                                       struct ipsq_cell cell)
{
    fprintf(f, "#certificate\t%s\t", key);
    ipsq_tsv_write_cell(f, kind, &cell);
    fputc('\n', f);
}

void ipsq_certificate_write_tsv(FILE *f, const Ips__Certificate *cert)
{
    const Ips__Certificate *c = ipsq_certificate_or_placeholder(cert);
    uint64_t lost = 0;
    for (size_t i = 0; i < c->n_lost; i++)
        lost += c->lost[i]->count;
    write_certificate_tsv_line(f, "complete", IPSQ_BOOL,
                               ipsq_bool_cell(c->complete));
    for (size_t i = 0; i < c->n_gaps; i++)
        write_certificate_tsv_line(f, "gap", IPSQ_TEXT,
                                   ipsq_text_cell(c->gaps[i]));
    write_certificate_tsv_line(f, "events", IPSQ_COUNT,
                               ipsq_count_cell(c->events));
    write_certificate_tsv_line(f, "lost", IPSQ_COUNT, ipsq_count_cell(lost));
    write_certificate_tsv_line(f, "unmatched", IPSQ_COUNT,
                               ipsq_count_cell(c->unmatched));
    write_certificate_tsv_line(f, "ambiguous", IPSQ_COUNT,
                               ipsq_count_cell(c->ambiguous));
    write_certificate_tsv_line(f, "pending", IPSQ_COUNT,
                               ipsq_count_cell(c->pending));
    write_certificate_tsv_line(f, "external", IPSQ_COUNT,
                               ipsq_count_cell(c->external));
    write_certificate_tsv_line(f, "idle", IPSQ_COUNT, ipsq_count_cell(c->idle));
    write_certificate_tsv_line(f, "any", IPSQ_COUNT, ipsq_count_cell(c->any));
    write_certificate_tsv_line(f, "any_on_path", IPSQ_COUNT,
                               ipsq_count_cell(c->any_on_path));
    write_certificate_tsv_line(f, "any_unmatched", IPSQ_COUNT,
                               ipsq_count_cell(c->any_unmatched));
    write_certificate_tsv_line(f, "machines", IPSQ_LIST,
                               ipsq_list_cell(c->machines, c->n_machines));
    write_certificate_tsv_line(
        f, "missing_machines", IPSQ_LIST,
        ipsq_list_cell(c->missing_machines, c->n_missing_machines));
    write_certificate_tsv_line(f, "untraced_processes", IPSQ_COUNT,
                               ipsq_count_cell(c->untraced_processes));
    for (size_t i = 0; i < c->n_untraced; i++) {
        char text[UNTRACED_BYTES];
        write_certificate_tsv_line(
            f, "untraced", IPSQ_TEXT,
            ipsq_text_cell(
                format_untraced_processes_for_tsv(text, c->untraced[i])));
    }
    if (c->category) {
        write_certificate_tsv_line(f, "category", IPSQ_COUNT,
                                   ipsq_count_cell(c->category));
        write_certificate_tsv_line(f, "plan", IPSQ_TEXT,
                                   ipsq_text_cell(c->plan));
        write_certificate_tsv_line(f, "took_ns", IPSQ_COUNT,
                                   ipsq_count_cell(c->took_ns));
    }
    write_certificate_tsv_line(f, "message_times", IPSQ_TEXT,
                               ipsq_text_cell(c->message_times));
    write_certificate_tsv_line(f, "overhead_ns", IPSQ_COUNT,
                               ipsq_count_cell(c->overhead_ns));
    write_certificate_tsv_line(f, "probe_arc_ns", IPSQ_COUNT,
                               ipsq_count_cell(c->probe_arc_ns));
    write_certificate_tsv_line(f, "dilation", IPSQ_SHARE,
                               recording_overhead_cell(c));
    write_certificate_tsv_line(f, "cpu_ns", IPSQ_COUNT,
                               ipsq_count_cell(c->cpu_ns));
    write_certificate_tsv_line(f, "guessed_cpu_ns", IPSQ_COUNT,
                               ipsq_count_cell(c->guessed_cpu_ns));
    write_certificate_tsv_line(f, "guess_off_max_ns", IPSQ_COUNT,
                               ipsq_count_cell(c->guess_off_max_ns));
}
