/* Reads and writes the table of message times as text; message_times.h has the
 * format. */
#include "master/base/message_times.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/message.h"

#define HEAD "ips-message-times 1"

/* ---- reading the text --------------------------------------------------- */

struct reader {
    struct message_times *t;
    const char *name;
    unsigned line_number;
    struct message_time_pair now;
    /* a `pair` line was read into `now`; `point` lines for it may follow */
    bool open;
    /* line number of the `pair` line that was read into `now` */
    unsigned open_line;
    bool headed;
};

static int set_syntax_error(const struct reader *r, struct ips_err *err,
                            const char *what, const char *cure)
{
    return ips_err_set(err, IPS_E_USAGE, "%.300s: line %u: %.200s; %.200s",
                       r->name, r->line_number, what, cure);
}

static int store_open_pair(struct reader *r, struct ips_err *err)
{
    struct ips_err why = {0};
    if (!r->open)
        return 0;
    r->open = false;
    if (message_times_insert_or_replace_pair(r->t, &r->now, &why) == 0)
        return 0;
    r->line_number = r->open_line;
    return set_syntax_error(
        r, err, why.msg,
        "give the pair points with lengths of their own, or remove "
        "it");
}

static int parse_pair_line(struct reader *r, char *words, struct ips_err *err)
{
    static const char form[] = "write `pair FROM TO tcp|unix DATE`, as in "
                               "`pair m1 m2 tcp 2026-11-22T07:30:00Z`";
    struct message_time_pair *p = &r->now;
    char *save, *from = strtok_r(words, " \t", &save);
    char *to = strtok_r(NULL, " \t", &save);
    char *over = strtok_r(NULL, " \t", &save);
    char *date = strtok_r(NULL, " \t", &save);
    char *by = strtok_r(NULL, "", &save);
    memset(p, 0, sizeof(*p));
    if (!date)
        return set_syntax_error(r, err, "a pair with too few words", form);
    if (!roster_is_valid_machine_name(from) ||
        !roster_is_valid_machine_name(to))
        return set_syntax_error(r, err, "not a valid machine name", form);
    while (p->over < 2 &&
           strcmp(over, message_time_transport_name(p->over)) != 0)
        p->over++;
    if (p->over == 2)
        return set_syntax_error(
            r, err, "a transport that is neither tcp nor unix", form);
    if (p->over == MTIME_UNIX && strcmp(from, to) != 0)
        return set_syntax_error(r, err, "unix between two machines",
                                "only inside a machine there is unix");
    if (strlen(date) >= sizeof(p->measured))
        return set_syntax_error(r, err, "a date that is too long", form);
    snprintf(p->from, sizeof(p->from), "%s", from);
    snprintf(p->to, sizeof(p->to), "%s", to);
    snprintf(p->measured, sizeof(p->measured), "%s", date);
    snprintf(p->by, sizeof(p->by), "%.63s", by ? by : "");
    if (message_times_find_pair(r->t, p->from, p->to, p->over))
        return set_syntax_error(r, err, "this pair occurs twice",
                                "remove one of the two");
    r->open = true;
    r->open_line = r->line_number;
    return 0;
}

/* Reads `doubt WORDS`, which belongs to the open pair. */
static int parse_doubt_line(struct reader *r, const char *words,
                            struct ips_err *err)
{
    if (!r->open)
        return set_syntax_error(r, err, "a doubt before any pair",
                                "put `pair FROM TO tcp DATE` before it");
    if (!*words || strlen(words) >= sizeof(r->now.doubt))
        return set_syntax_error(r, err,
                                "a doubt without words, or with too many",
                                "say in a few words why the pair is doubtful");
    snprintf(r->now.doubt, sizeof(r->now.doubt), "%s", words);
    return 0;
}

static bool read_optional_number(char **words, uint64_t *out)
{
    char *text = strtok_r(NULL, " \t", words), *end = NULL;
    *out = IPS_UNMEASURED;
    if (!text)
        /* no number is left on the line; the caller knows which are required */
        return true;
    errno = 0;
    if (*text < '0' || *text > '9')
        return strcmp(text, "-") == 0;
    unsigned long long n = strtoull(text, &end, 10);
    *out = n;
    return !*end && errno == 0 && n < IPS_UNMEASURED;
}

static int parse_point_line(struct reader *r, char *words, struct ips_err *err)
{
    static const char form[] =
        "write `point BYTES NS` in whole bytes and nanoseconds, and if you "
        "like LOW HIGH ROUNDS CPU behind";
    struct message_time_pair *p = &r->now;
    struct message_time_point point;
    uint64_t rounds;
    char *save = words;
    words[strcspn(words, "#")] = '\0';
    bool fine = read_optional_number(&save, &point.bytes) &&
                read_optional_number(&save, &point.ns) &&
                read_optional_number(&save, &point.low_ns) &&
                read_optional_number(&save, &point.high_ns) &&
                read_optional_number(&save, &rounds) &&
                read_optional_number(&save, &point.cpu_ns);
    if (!r->open)
        return set_syntax_error(r, err, "a point before any pair",
                                "put `pair FROM TO tcp DATE` before it");
    if (!fine || point.bytes == IPS_UNMEASURED || point.ns == IPS_UNMEASURED ||
        strtok_r(NULL, " \t", &save))
        return set_syntax_error(r, err,
                                "a point that is not two to six numbers", form);
    if (p->count == IPS_CURVE_POINTS)
        return set_syntax_error(r, err, "a pair of more than 64 points",
                                "remove some of them");
    point.rounds = rounds < UINT32_MAX ? (uint32_t)rounds : 0;
    if (point.cpu_ns == IPS_UNMEASURED)
        point.cpu_ns = 0;
    p->point[p->count++] = point;
    return 0;
}

static int parse_wake_line_and_store(struct reader *r, char *words,
                                     struct ips_err *err)
{
    static const char form[] = "write `wake MACHINE NS DATE`, as in `wake m1 "
                               "2400 2026-11-22T07:30:00Z`";
    struct message_time_wake w = {.ns = IPS_UNMEASURED};
    char *save, *machine = strtok_r(words, " \t", &save);
    if (!machine || !roster_is_valid_machine_name(machine))
        return set_syntax_error(r, err, "not a valid machine name", form);
    bool fine = read_optional_number(&save, &w.ns) && w.ns <= IPS_CURVE_MAX_NS;
    char *date = strtok_r(NULL, " \t", &save);
    char *by = strtok_r(NULL, "", &save);
    if (!fine || !date || strlen(date) >= sizeof(w.measured))
        return set_syntax_error(r, err, "a wake without its time and date",
                                form);
    if (message_times_find_wake(r->t, machine))
        return set_syntax_error(r, err, "this machine has two wakes",
                                "remove one of the two");
    snprintf(w.machine, sizeof(w.machine), "%s", machine);
    snprintf(w.measured, sizeof(w.measured), "%s", date);
    snprintf(w.by, sizeof(w.by), "%.63s", by ? by : "");
    return message_times_insert_or_replace_wake(r->t, &w, err);
}

static int parse_table_line(struct reader *r, char *line, struct ips_err *err)
{
    line[strcspn(line, "\r")] = '\0';
    size_t skip = strspn(line, " \t");
    char *word = line + skip, *rest = word + strcspn(word, " \t");
    if (!*word || *word == '#')
        return 0;
    if (!r->headed) {
        size_t len = strlen(word);
        while (len && (word[len - 1] == ' ' || word[len - 1] == '\t'))
            word[--len] = '\0';
        r->headed = strcmp(word, HEAD) == 0;
        return r->headed
                   ? 0
                   : set_syntax_error(r, err, "no table of message times",
                                      "begin it with the line `" HEAD "`");
    }
    if (*rest)
        *rest++ = '\0';
    int rc = 0;
    if (strcmp(word, "point") == 0)
        return parse_point_line(r, rest, err);
    if (strcmp(word, "doubt") == 0)
        return parse_doubt_line(r, rest, err);
    rc = store_open_pair(r, err);
    if (rc < 0)
        return rc;
    if (strcmp(word, "pair") == 0)
        return parse_pair_line(r, rest, err);
    if (strcmp(word, "wake") == 0)
        return parse_wake_line_and_store(r, rest, err);
    return set_syntax_error(r, err,
                            "neither `pair` nor `point`, `doubt` or `wake`",
                            "put # before a comment");
}

int message_times_parse(struct message_times *t, const char *name,
                        const char *text, struct ips_err *err)
{
    struct message_times fresh = {0};
    struct reader r = {.t = &fresh, .name = name};
    int rc = 0;
    while (*text && rc == 0) {
        char line[512];
        size_t len = strcspn(text, "\n");
        r.line_number++;
        if (len >= sizeof(line)) {
            rc = set_syntax_error(&r, err, "a line of more than 511 characters",
                                  "shorten it");
            break;
        }
        memcpy(line, text, len);
        line[len] = '\0';
        text += len + (text[len] == '\n');
        rc = parse_table_line(&r, line, err);
    }
    if (rc == 0)
        rc = store_open_pair(&r, err);
    if (rc == 0 && !r.headed)
        rc = set_syntax_error(&r, err, "an empty file",
                              "begin it with the line `" HEAD "`");
    if (rc == 0)
        rc = message_times_move_rows(t, &fresh, err);
    message_times_release(&fresh);
    return rc;
}

/* ---- writing the text --------------------------------------------------- */

static void print_number_or_dash(FILE *f, uint64_t n)
{
    if (n == IPS_UNMEASURED)
        fputs(" -", f);
    else
        fprintf(f, " %" PRIu64, n);
}

char *message_times_format_text(const struct message_times *t)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    if (!f)
        return NULL;
    fputs(HEAD
          "\n"
          "# How long messages take: half round trips less the CPU of "
          "both ends.\n"
          "# pair FROM TO tcp|unix MEASURED BY\n"
          "# point BYTES NS LOW HIGH ROUNDS CPU   (a tenth of the rounds took "
          "less than LOW,\n"
          "#                                   a tenth more than HIGH; CPU of "
          "both ends)\n"
          "# doubt WHY                         (that pair is not to be "
          "trusted)\n"
          "# wake MACHINE NS MEASURED BY       (CPU that a send costs more "
          "where it wakes a\n"
          "#                                   peer on another "
          "processor)\n",
          f);
    for (uint32_t i = 0; i < t->wake_count; i++) {
        const struct message_time_wake *w = &t->wake[i];
        fprintf(f, "%swake %s %" PRIu64 " %s%s%s\n", i ? "" : "\n", w->machine,
                w->ns, w->measured, *w->by ? " " : "", w->by);
    }
    for (uint32_t i = 0; i < t->count; i++) {
        const struct message_time_pair *p = t->pair[i];
        fprintf(f, "\npair %s %s %s %s%s%s\n", p->from, p->to,
                message_time_transport_name(p->over), p->measured,
                *p->by ? " " : "", p->by);
        if (*p->doubt)
            fprintf(f, "doubt %s\n", p->doubt);
        for (uint32_t k = 0; k < p->count; k++) {
            fprintf(f, "point %" PRIu64 " %" PRIu64, p->point[k].bytes,
                    p->point[k].ns);
            print_number_or_dash(f, p->point[k].low_ns);
            print_number_or_dash(f, p->point[k].high_ns);
            if (p->point[k].rounds)
                fprintf(f, " %u", p->point[k].rounds);
            else if (p->point[k].cpu_ns)
                fputs(" -", f);
            if (p->point[k].cpu_ns)
                fprintf(f, " %" PRIu64, p->point[k].cpu_ns);
            fputc('\n', f);
        }
    }
    bool failed = ferror(f) != 0;
    if (fclose(f) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}
