/* `ipsq calibrate`: measures and shows message times between machines; see
 * docs/calibrate.md. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/base/command.h"

/* size limit of a file of message times in bytes: with the rest of the request
 * it fits into one frame (8 MiB) */
#define FILE_MAX ((8u << 20) - 1024)

/* ---- printing the answer ------------------------------------------------ */

static const struct ipsq_column pair_columns[] = {
    {"from", "FROM", IPSQ_TEXT},
    {"to", "TO", IPSQ_TEXT},
    {"over", "OVER", IPSQ_TEXT},
    {"alpha_ns", "ALPHA", IPSQ_NS},
    {"beta_ns_a_byte", "NS A BYTE", IPSQ_REAL},
    {"points", "LENGTHS", IPSQ_COUNT},
    {"measured", "MEASURED", IPSQ_TEXT},
    {"by", NULL, IPSQ_TEXT},
    {"doubt", "DOUBT", IPSQ_TEXT},
};

static const struct ipsq_column wake_columns[] = {
    {"machine", "MACHINE", IPSQ_TEXT},
    {"ns", "WAKE", IPSQ_NS},
    {"measured", "MEASURED", IPSQ_TEXT},
    {"by", NULL, IPSQ_TEXT},
};

static const struct ipsq_column point_columns[] = {
    {"from", "FROM", IPSQ_TEXT},      {"to", "TO", IPSQ_TEXT},
    {"over", "OVER", IPSQ_TEXT},      {"bytes", "BYTES", IPSQ_COUNT},
    {"ns", "TIME", IPSQ_NS},          {"low_ns", "LOW", IPSQ_NS},
    {"high_ns", "HIGH", IPSQ_NS},     {"used_ns", "USED", IPSQ_NS},
    {"rounds", "ROUNDS", IPSQ_COUNT}, {"cpu_ns", "CPU", IPSQ_NS},
};

static void put_pairs(struct ipsq_out *out, const Ips__CalibrateAnswer *a)
{
    struct ipsq_table t;
    ipsq_table_init(&t, "pairs", pair_columns, IPSQ_COUNT_OF(pair_columns));
    for (size_t i = 0; i < a->n_rows; i++) {
        const Ips__MessageTimeRow *r = a->rows[i];
        struct ipsq_cell *cell = ipsq_table_add_row(&t);
        *cell++ = ipsq_text_cell(r->from);
        *cell++ = ipsq_text_cell(r->to);
        *cell++ = ipsq_text_cell(r->over);
        *cell++ = ipsq_count_cell(r->alpha_ns);
        *cell++ = ipsq_real_cell(r->beta_ns);
        *cell++ = ipsq_count_cell(r->n_points);
        *cell++ = ipsq_text_cell(r->measured);
        *cell++ = ipsq_text_cell(r->by);
        *cell++ = ipsq_text_cell(r->doubt);
    }
    ipsq_out_write_table(out, &t, "message times: ALPHA + bytes x NS A BYTE");
    ipsq_table_release(&t);
}

static void put_points(struct ipsq_out *out, const Ips__CalibrateAnswer *a)
{
    struct ipsq_table t;
    ipsq_table_init(&t, "points", point_columns, IPSQ_COUNT_OF(point_columns));
    for (size_t i = 0; i < a->n_rows; i++) {
        for (size_t k = 0; k < a->rows[i]->n_points; k++) {
            const Ips__MessageTimePoint *p = a->rows[i]->points[k];
            struct ipsq_cell *cell = ipsq_table_add_row(&t);
            *cell++ = ipsq_text_cell(a->rows[i]->from);
            *cell++ = ipsq_text_cell(a->rows[i]->to);
            *cell++ = ipsq_text_cell(a->rows[i]->over);
            *cell++ = ipsq_count_cell(p->bytes);
            *cell++ = ipsq_count_cell(p->ns);
            *cell++ = ipsq_count_cell(p->low_ns);
            *cell++ = ipsq_count_cell(p->high_ns);
            *cell++ = ipsq_count_cell(p->curve_ns);
            *cell++ = ipsq_count_cell(p->rounds ? p->rounds : IPS_UNMEASURED);
            *cell++ = ipsq_count_cell(p->cpu_ns ? p->cpu_ns : IPS_UNMEASURED);
        }
    }
    ipsq_out_write_table(
        out, &t,
        "\nby length: a tenth of the rounds below LOW, a tenth above "
        "HIGH; USED is what answers take; CPU of both ends, of a message");
    ipsq_table_release(&t);
}

static void put_wake_costs(struct ipsq_out *out, const Ips__CalibrateAnswer *a)
{
    struct ipsq_table t;
    ipsq_table_init(&t, "wakes", wake_columns, IPSQ_COUNT_OF(wake_columns));
    for (size_t i = 0; i < a->n_wakes; i++) {
        struct ipsq_cell *cell = ipsq_table_add_row(&t);
        *cell++ = ipsq_text_cell(a->wakes[i]->machine);
        *cell++ = ipsq_count_cell(a->wakes[i]->ns);
        *cell++ = ipsq_text_cell(a->wakes[i]->measured);
        *cell++ = ipsq_text_cell(a->wakes[i]->by);
    }
    if (a->n_wakes || out->format != IPSQ_TABLE)
        ipsq_out_write_table(
            out, &t,
            "\nCPU that a send costs more where it wakes a peer on "
            "another processor");
    ipsq_table_release(&t);
}

static void put_failed_measurements(struct ipsq_out *out,
                                    const Ips__CalibrateAnswer *a)
{
    static const struct ipsq_column columns[] = {
        {"failed", "NOT MEASURED", IPSQ_TEXT}};
    struct ipsq_table t;
    ipsq_table_init(&t, "failed", columns, 1);
    for (size_t i = 0; i < a->n_failed; i++)
        *ipsq_table_add_row(&t) = ipsq_text_cell(a->failed[i]);
    if (a->n_failed || out->format != IPSQ_TABLE)
        ipsq_out_write_table(out, &t, "");
    ipsq_table_release(&t);
}

static int print_calibration(const struct ipsq_options *o,
                             const Ips__CalibrateAnswer *a, struct ips_err *err)
{
    struct ipsq_out out;
    ipsq_progress_stop_and_erase_line();
    ipsq_out_begin(&out, stdout, o->format, true);
    ipsq_out_write_or_collect_value(&out, IPSQ_TEXT, "file", "file",
                                    ipsq_text_cell(a->file));
    if (a->n_rows == 0)
        ipsq_out_write_line_if_table(
            &out, "no message times are known here: `ipsq calibrate` "
                  "measures them");
    if (a->n_rows || o->format != IPSQ_TABLE) {
        put_pairs(&out, a);
        put_points(&out, a);
    }
    put_wake_costs(&out, a);
    put_failed_measurements(&out, a);
    int rc = ipsq_out_end(&out, err);
    if (rc < 0)
        return rc;
    return a->n_failed ? IPSQ_INCOMPLETE : IPSQ_OK;
}

/* ---- printing the progress ---------------------------------------------- */

/* Shows the progress of a measurement, which the master reports before the
 * answer. */
static int show_calibrate_progress(const Ips__Reply *reply, void *arg,
                                   struct ips_err *err)
{
    (void)arg;
    (void)err;
    const char *term = getenv("TERM");
    if (reply->last || reply->answer_case != IPS__REPLY__ANSWER_CALIBRATE ||
        !isatty(STDERR_FILENO) || (term && strcmp(term, "dumb") == 0))
        return 0;
    ipsq_progress_stop_and_erase_line(); /* the line printed below replaces the
                                            progress line */
    const Ips__CalibrateAnswer *a = reply->calibrate;
    fprintf(stderr, "\r\033[Kipsq: %u of %u: %.60s", a->done, a->of, a->doing);
    if (a->done == a->of)
        fputs("\r\033[K", stderr);
    return 0;
}

/* ---- reading and writing files ------------------------------------------ */

/* Reads the whole file into *out, malloc'd. */
static int read_file(const char *name, char **out, struct ips_err *err)
{
    bool standard = strcmp(name, "-") == 0;
    FILE *f = standard ? stdin : fopen(name, "re");
    char *text = NULL;
    size_t len = 0, n = 1;
    int rc = f ? 0 : ips_err_errno(err, "%s", name);
    if (rc == 0 && !(text = malloc(FILE_MAX + 1)))
        rc = ips_err_set(err, IPS_E_NO_MEMORY, "out of memory");
    while (rc == 0 && n > 0 && len <= FILE_MAX) {
        n = fread(text + len, 1, FILE_MAX + 1 - len, f);
        len += n;
    }
    if (rc == 0 && ferror(f))
        rc = ips_err_errno(err, "%s", name);
    else if (rc == 0 && len > FILE_MAX)
        rc = ips_err_set(err, IPS_E_USAGE, "%s: more than %u bytes", name,
                         FILE_MAX);
    else if (rc == 0 && memchr(text, '\0', len))
        rc = ips_err_set(err, IPS_E_USAGE,
                         "%s is not a text file: it contains zero bytes", name);
    if (f && !standard)
        fclose(f);
    if (rc < 0) {
        free(text);
        return rc;
    }
    text[len] = '\0';
    *out = text;
    return 0;
}

static int write_file(const char *name, const char *text, struct ips_err *err)
{
    bool standard = strcmp(name, "-") == 0;
    FILE *f = standard ? stdout : fopen(name, "we");
    if (!f)
        return ips_err_errno(err, "%s", name);
    bool failed = fputs(text, f) < 0 || fflush(f) != 0;
    int rc = failed ? ips_err_errno(err, "%s", name) : 0;
    if (!standard && fclose(f) != 0 && rc == 0)
        rc = ips_err_errno(err, "%s", name);
    return rc;
}

/* ---- the request -------------------------------------------------------- */

static int choose_calibrate_action(const struct ipsq_options *o,
                                   Ips__CalibrateAsk__What *what,
                                   struct ips_err *err)
{
    int named = o->show + o->forget + (o->export_file != NULL) +
                (o->import_file != NULL);
    if (named > 1)
        return ips_err_set(
            err, IPS_E_USAGE,
            "give only one of --show, --export, --import and --forget");
    if (named && (o->length_count || o->rounds))
        return ips_err_set(err, IPS_E_USAGE,
                           "--lengths and --rounds apply only when measuring");
    if (named && o->force)
        return ips_err_set(err, IPS_E_USAGE,
                           "--force applies only when measuring");
    if (o->replace && !o->import_file)
        return ips_err_set(err, IPS_E_USAGE, "--replace needs --import");
    if (o->arg_count && (o->show || o->export_file || o->import_file))
        return ips_err_set(
            err, IPS_E_USAGE,
            "machine names apply only when measuring and with --forget");
    *what = o->show          ? IPS__CALIBRATE_ASK__WHAT__SHOW
            : o->forget      ? IPS__CALIBRATE_ASK__WHAT__FORGET
            : o->export_file ? IPS__CALIBRATE_ASK__WHAT__EXPORT
            : o->import_file ? IPS__CALIBRATE_ASK__WHAT__IMPORT
                             : IPS__CALIBRATE_ASK__WHAT__MEASURE;
    return 0;
}

static int run_calibrate(const struct ipsq_command *self,
                         const struct ipsq_options *o, struct ipsq_session *s,
                         struct ips_err *err)
{
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__CalibrateAsk ask = IPS__CALIBRATE_ASK__INIT;
    const Ips__Reply *last = NULL;
    char *text = NULL, *machines[IPSQ_ARGS_MAX];
    (void)self;
    int rc = choose_calibrate_action(o, &ask.what, err);
    if (rc == 0 && o->rounds > UINT32_MAX)
        rc = ips_err_set(err, IPS_E_USAGE, "--rounds: too many");
    if (rc == 0 && o->import_file)
        rc = read_file(o->import_file, &text, err);
    if (rc < 0)
        return rc;
    for (int i = 0; i < o->arg_count; i++)
        machines[i] = ips_unconst_text(o->args[i]);
    ask.machines = machines;
    ask.n_machines = (size_t)o->arg_count;
    ask.lengths = (uint64_t *)(uintptr_t)o->lengths;
    ask.n_lengths = o->length_count;
    ask.rounds = (uint32_t)o->rounds;
    ask.replace = o->replace;
    ask.force = o->force;
    if (text)
        ask.text = text;
    rq.ask_case = IPS__REQUEST__ASK_CALIBRATE;
    rq.calibrate = &ask;
    rc = ipsq_session_ask(s, &rq, false, show_calibrate_progress, NULL, &last,
                          err);
    free(text);
    if (rc == 0)
        rc = ipsq_check_answer_kind(last, IPS__REPLY__ANSWER_CALIBRATE, err);
    if (rc < 0)
        return rc;
    if (!o->export_file)
        return print_calibration(o, last->calibrate, err);
    ipsq_progress_stop_and_erase_line();
    return write_file(o->export_file, last->calibrate->text, err);
}

const struct ipsq_command ipsq_cmd_calibrate = {
    .name = "calibrate",
    .usage = "[MACHINE...] [--lengths LIST] [--rounds N] [--force] |\n"
             "                      --show | --export FILE | --import FILE "
             "[--replace] |\n"
             "                      --forget [MACHINE...]",
    .summary = "measure message times between the machines",
    .group = IPSQ_PREDICT,
    .examples = "  ipsq calibrate\n"
                "  ipsq calibrate --show\n",
    .help = "Every slave exchanges messages with every other one and within "
            "its own machine, one pair at a time; nothing else should run "
            "meanwhile. A message time is half a round trip less the CPU time "
            "of both ends, which the graph already contains; the median of all "
            "rounds is kept. Times from a machine that is not idle, that vary "
            "widely or that differ by direction are dropped; --force keeps and "
            "marks them. Later answers use the table unless --mtime is given, "
            "and their certificates say so. The table is an editable text file "
            "(docs/calibrate.md).\n",
    .options = IPSQ_HAS(SHOW) | IPSQ_HAS(EXPORT) | IPSQ_HAS(IMPORT) |
               IPSQ_HAS(REPLACE) | IPSQ_HAS(FORGET) | IPSQ_HAS(LENGTHS) |
               IPSQ_HAS(ROUNDS) | IPSQ_HAS(FORCE),
    .formats = IPSQ_FORMATS_USUAL,
    .max_args = IPSQ_ARGS_MAX,
    .run = run_calibrate,
};
