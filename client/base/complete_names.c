/* Collects the candidates that may complete a word, among them the runs,
 * objects and machines that the master knows. */
#include <stdlib.h>
#include <string.h>

#include "client/base/complete.h"

#define WORD_BYTES 512
#define OBJECTS_MAX 100000u

void ipsq_names_add(struct ipsq_names *names, const char *name,
                    const char *about)
{
    char *line = NULL;
    bool more = names->described && about && *about;
    if (names->count % 64 ==
        0) { /* make room for 64 more names and the NULL at the end */
        char **grown =
            realloc(names->name, (names->count + 65) * sizeof(*grown));
        if (!grown)
            return;
        names->name = grown;
        names->name[names->count] = NULL;
    }
    if (asprintf(&line, "%s%s%s", name, more ? "\t" : "", more ? about : "") <
        0)
        return;
    for (char *p = line + strlen(name); *p; p++)
        if (*p == '\n')
            *p = ' ';
    names->name[names->count++] = line;
    names->name[names->count] = NULL;
}

void ipsq_names_release(struct ipsq_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->name[i]);
    free(names->name);
    names->name = NULL;
    names->count = 0;
}

void ipsq_add_completion_if_it_fits_word(const struct ipsq_word *w,
                                         const char *name, const char *about)
{
    char line[WORD_BYTES];
    const char *text = w->whole + w->kept_bytes;
    if (strncmp(name, text, strlen(text)) != 0)
        return;
    if (w->kept_bytes == 0) {
        ipsq_names_add(w->out, name, about);
        return;
    }
    int n = snprintf(line, sizeof(line), "%.*s%s", (int)w->kept_bytes, w->whole,
                     name);
    if (n > 0 && n < (int)sizeof(line))
        ipsq_names_add(w->out, line, about);
}

void ipsq_add_completions_that_fit_word(const struct ipsq_word *w,
                                        const char *const *values)
{
    for (; values && *values; values++)
        ipsq_add_completion_if_it_fits_word(w, *values, NULL);
}

void ipsq_add_listed_names_that_fit_word(const struct ipsq_word *w,
                                         const struct ipsq_name_source *from,
                                         ipsq_name_lister *list)
{
    struct ipsq_names names = {0};
    list(from, w->whole + w->kept_bytes, &names);
    for (size_t i = 0; i < names.count; i++)
        ipsq_add_completion_if_it_fits_word(w, names.name[i], NULL);
    ipsq_names_release(&names);
}

static void add_if_begins(struct ipsq_names *names, const char *name,
                          const char *text)
{
    if (strncmp(name, text, strlen(text)) == 0)
        ipsq_names_add(names, name, NULL);
}

static int
open_session_and_start_if_allowed(struct ipsq_session *s,
                                  const struct ipsq_name_source *from)
{
    struct ips_err ignored;
    return from->start ? ipsq_session_open(s, from->session, &ignored)
                       : ipsq_session_connect(s, from->session, &ignored);
}

void ipsq_list_runs_beginning_with(const struct ipsq_name_source *from,
                                   const char *text, struct ipsq_names *out)
{
    struct ipsq_session session;
    struct ips_err ignored;
    Ips__RunRow **rows = NULL;
    size_t count = 0;
    uint64_t left_out;
    if (open_session_and_start_if_allowed(&session, from) == 0 &&
        ipsq_session_fetch_runs(&session, &rows, &count, &left_out, &ignored) ==
            0) {
        for (size_t i = 0; i < count; i++)
            add_if_begins(out, rows[i]->run, text);
    }
    free(rows);
    ipsq_session_close(&session);
}

struct beginning {
    const char *text;
    struct ipsq_names *out;
};

static int add_objects(const Ips__Reply *reply, void *arg, struct ips_err *err)
{
    struct beginning *b = arg;
    (void)err;
    if (reply->answer_case != IPS__REPLY__ANSWER_LS)
        return 0;
    for (size_t i = 0; i < reply->ls->n_rows && b->out->count < OBJECTS_MAX;
         i++) {
        const char *object = reply->ls->rows[i]->object;
        if (object[0] == '/' && object[1])
            add_if_begins(b->out, object, b->text);
    }
    return 0;
}

void ipsq_list_objects_beginning_with(const struct ipsq_name_source *from,
                                      const char *text, struct ipsq_names *out)
{
    static char everything[] = "/";
    struct ipsq_session session;
    struct ips_err ignored;
    struct beginning b = {text, out};
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__LsAsk ask = IPS__LS_ASK__INIT;
    const char *run;
    rq.ask_case = IPS__REQUEST__ASK_LS;
    rq.ls = &ask;
    ask.object = everything;
    int rc = open_session_and_start_if_allowed(&session, from);
    if (rc == 0)
        rc = ipsq_session_find_run(&session,
                                   from->run && *from->run ? from->run : NULL,
                                   &run, &ignored);
    if (rc == 0) {
        rq.run = ips_unconst_text(run);
        /* Offer the objects that were received before an error. */
        (void)!ipsq_session_ask(&session, &rq, true, add_objects, &b, NULL,
                                &ignored);
    }
    ipsq_session_close(&session);
}

void ipsq_list_machines_beginning_with(const struct ipsq_name_source *from,
                                       const char *text, struct ipsq_names *out)
{
    struct ipsq_session session;
    struct ips_err ignored;
    Ips__Request rq = IPS__REQUEST__INIT;
    Ips__StatusAsk ask = IPS__STATUS_ASK__INIT;
    const Ips__Reply *last = NULL;
    rq.ask_case = IPS__REQUEST__ASK_STATUS;
    rq.status = &ask;
    int rc = open_session_and_start_if_allowed(&session, from);
    if (rc == 0)
        rc =
            ipsq_session_ask(&session, &rq, false, NULL, NULL, &last, &ignored);
    if (rc == 0 && last->answer_case == IPS__REPLY__ANSWER_STATUS)
        for (size_t i = 0; i < last->status->n_slaves; i++)
            add_if_begins(out, last->status->slaves[i]->machine, text);
    ipsq_session_close(&session);
}
