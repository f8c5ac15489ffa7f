/* `ipsq summary`: a run in one line, which ipsrun prints when its command has
 * ended. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/command.h"
#include "client/base/units.h"

/* Number of processes and number of threads of the run. */
struct counts {
    uint64_t processes, threads;
};

static int ask_process_and_thread_counts(struct ipsq_session *s,
                                         Ips__Request *rq, struct counts *n,
                                         const Ips__LsAnswer **answer,
                                         struct ips_err *err)
{
    static char everything[] = "/";
    /* indexes of the levels in left_out->rows */
    enum { PROCESS = 2, THREAD = 3 };
    Ips__LsAsk ask = IPS__LS_ASK__INIT;
    Ips__Select select = IPS__SELECT__INIT;
    const Ips__Reply *last = NULL;
    rq->ask_case = IPS__REQUEST__ASK_LS;
    rq->ls = &ask;
    ask.object = everything;
    ask.select = &select;
    select.top = 1;
    select.per_level = true;
    int rc = ipsq_session_ask(s, rq, false, NULL, NULL, &last, err);
    if (rc == 0)
        rc = ipsq_check_answer_kind(last, IPS__REPLY__ANSWER_LS, err);
    if (rc < 0)
        return rc;
    const Ips__LsAnswer *a = *answer = last->ls;
    for (size_t i = 0; i < a->n_rows; i++) {
        n->processes += strcmp(a->rows[i]->level, "process") == 0;
        n->threads += strcmp(a->rows[i]->level, "thread") == 0;
    }
    if (a->left_out && a->left_out->n_rows > THREAD) {
        n->processes += a->left_out->rows[PROCESS];
        n->threads += a->left_out->rows[THREAD];
    }
    return 0;
}

static void print_count(uint64_t n, const char *one, const char *more)
{
    char text[IPSQ_UNIT_BYTES];
    ipsq_format_with_commas(n, text);
    printf("%s %s", text, n == 1 ? one : more);
}

/* Prints "; 3 processes not recorded (busybox: linked statically)", if any. */
static void print_unrecorded_process_count(const Ips__Certificate *c)
{
    uint64_t n = 0;
    const Ips__Untraced *most = NULL;
    for (size_t i = 0; i < c->n_untraced; i++) {
        const Ips__Untraced *u = c->untraced[i];
        n += u->count;
        most = !most || u->count > most->count ? u : most;
    }
    if (!most)
        return;
    fputs("; ", stdout);
    print_count(n, "process", "processes");
    const char *slash = strrchr(most->program, '/');
    struct ipsq_cell program =
        ipsq_text_cell(slash ? slash + 1 : most->program);
    char *name = ipsq_cell_text(IPSQ_TEXT, &program);
    printf(" not recorded (%s%s%s%s)", *program.text ? name : "",
           *program.text ? ": " : "", ipsq_describe_untraced_cause(most->cause),
           c->n_untraced > 1 ? ", ..." : "");
    free(name);
}

/* Whether this gap (a reason for incompleteness) says how many processes were
 * not recorded. */
static bool is_gap_about_unrecorded_processes(const char *gap)
{
    size_t len = strlen(gap), end = strlen(IPS_GAP_UNRECORDED);
    return len > end && strcmp(gap + len - end, IPS_GAP_UNRECORDED) == 0;
}

/* Prints the reasons for incompleteness (gaps), except the one that
 * print_unrecorded_process_count() has printed. */
static void print_other_incompleteness_reasons(const Ips__Certificate *c)
{
    char **left = calloc(c->n_gaps + 1, sizeof(*left));
    size_t count = 0;
    for (size_t i = 0; left && i < c->n_gaps; i++)
        if (c->n_untraced == 0 ||
            !is_gap_about_unrecorded_processes(c->gaps[i]))
            left[count++] = c->gaps[i];
    if (count > 0) {
        struct ipsq_cell gaps = ipsq_list_cell(left, count);
        char *text = ipsq_cell_text(IPSQ_LIST, &gaps);
        printf(": %s", text);
        free(text);
    }
    free(left);
}

static void print_summary_line(const struct counts *n,
                               const Ips__Certificate *c)
{
    char overhead[IPSQ_OVERHEAD_BYTES];
    print_count(n->processes, "process", "processes");
    if (c->n_machines > 1)
        printf(" on %zu machines", c->n_machines);
    if (ipsq_format_overhead_text(overhead, c))
        printf(", %s", overhead);
    print_unrecorded_process_count(c);
    if (!c->complete)
        fputs("; INCOMPLETE", stdout);
    print_other_incompleteness_reasons(c);
    putchar('\n');
}

static int run_summary(const struct ipsq_command *self,
                       const struct ipsq_options *o, struct ipsq_session *s,
                       struct ips_err *err)
{
    Ips__Request rq = IPS__REQUEST__INIT;
    struct counts n = {0};
    const Ips__LsAnswer *a = NULL;
    (void)self;
    int rc = ipsq_find_and_set_run_of_request(s, o, &rq, err);
    if (rc == 0)
        rc = ask_process_and_thread_counts(s, &rq, &n, &a, err);
    if (rc < 0)
        return rc;
    const Ips__Certificate *c = ipsq_certificate_or_placeholder(a->certificate);
    ipsq_progress_stop_and_erase_line();
    if (o->format == IPSQ_TABLE) {
        print_summary_line(&n, c);
        return ipsq_certificate_exit_status(c);
    }
    struct ipsq_out out;
    ipsq_out_begin(&out, stdout, o->format, false);
    ipsq_out_set_certificate_write_limitations(&out, c, o->verbose);
    ipsq_out_write_or_collect_value(&out, IPSQ_TEXT, "run", NULL,
                                    ipsq_text_cell(rq.run));
    ipsq_out_write_or_collect_value(&out, IPSQ_COUNT, "processes", NULL,
                                    ipsq_count_cell(n.processes));
    ipsq_out_write_or_collect_value(&out, IPSQ_COUNT, "threads", NULL,
                                    ipsq_count_cell(n.threads));
    rc = ipsq_out_end(&out, err);
    return rc < 0 ? rc : ipsq_certificate_exit_status(c);
}

const struct ipsq_command ipsq_cmd_summary = {
    .name = "summary",
    .usage = "[RUN]",
    .summary = "a run in one line",
    .group = IPSQ_ASK,
    .examples = "  ipsq summary\n"
                "  ipsq summary run3 --format json\n",
    .help = "How many processes were recorded and how many were not, what "
            "recording cost, and what is incomplete.\n",
    .formats = IPSQ_FORMAT_BIT(TABLE) | IPSQ_FORMAT_BIT(JSON),
    .max_args = 1,
    .run = run_summary,
};
