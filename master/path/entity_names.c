/* Writes the names of entities, and finds entities by name. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/nearest.h"
#include "master/path/entities.h"
#include "master/query/machine_share.h"

#define NAME_BYTES 512

static const char *process_name(const struct entities *t, uint32_t feature)
{
    const struct entity_feature *f = &t->feature[feature];
    return t->machine[f->machine].process[f->number];
}

static const char *machine_name(const struct entities *t, uint32_t feature)
{
    return t->machine[t->feature[feature].machine].machine;
}

const char *entities_feature_name(const struct entities *t, uint32_t feature,
                                  char out[THING_BYTES])
{
    const struct entity_feature *f = &t->feature[feature];
    const char *machine = machine_name(t, f->process);
    const char *process = process_name(t, f->process);
    switch (f->kind) {
    case THING_MACHINE: /* no feature has this kind */
    case THING_KINDS:
    case THING_PROCESS:
        snprintf(out, THING_BYTES, "/%s/%s", machine, process);
        break;
    case THING_PROCEDURE:
        snprintf(out, THING_BYTES, "/%s/%s %s", machine, process,
                 t->procedure[f->procedure].name);
        break;
    case THING_MESSAGE:
        if (f->to == THING_EXTERNAL || f->to == THING_IDLE)
            snprintf(out, THING_BYTES, "%s/%s -> %s", machine, process,
                     f->to == THING_IDLE ? "idle" : "external");
        else
            snprintf(out, THING_BYTES, "%s/%s -> %s/%s", machine, process,
                     machine_name(t, f->to), process_name(t, f->to));
        break;
    }
    return out;
}

const struct entity_symbol *entities_symbol(const struct entities *t,
                                            const struct entity *thing)
{
    if (thing->kind != THING_PROCEDURE)
        return NULL;
    return &t->procedure[t->feature[t->member[thing->first]].procedure];
}

const char *entities_name(const struct entities *t, const struct entity *thing,
                          char out[THING_BYTES])
{
    uint32_t feature = t->member[thing->first];
    switch (thing->kind) {
    case THING_MACHINE:
        snprintf(out, THING_BYTES, "/%s", machine_name(t, feature));
        return out;
    case THING_PROCEDURE:
        snprintf(out, THING_BYTES, "%s", entities_symbol(t, thing)->name);
        return out;
    case THING_PROCESS: /* the entity's first member may be a procedure */
        return entities_feature_name(t, t->feature[feature].process, out);
    case THING_MESSAGE:
    case THING_KINDS:
        break;
    }
    return entities_feature_name(t, feature, out);
}

/* ---- finding features by name ------------------------------------------- */

static bool matches_pattern(const char *pattern, const char *text)
{
    return fnmatch(pattern, text, 0) == 0;
}

/* Whether the pattern matches the process: by its name "a.3" or its program "a"
 * or, if the pattern has a /, by "/m1/a.3" or "m1/a.3". */
static bool process_fits(const struct entities *t, const char *pattern,
                         uint32_t feature)
{
    char name[NAME_BYTES];
    const char *process = process_name(t, feature);
    if (strchr(pattern, '/')) {
        bool rooted = *pattern == '/';
        snprintf(name, sizeof(name), "%s%s/%s", rooted ? "/" : "",
                 machine_name(t, feature), process);
        return matches_pattern(pattern, name);
    }
    if (matches_pattern(pattern, process))
        return true;
    snprintf(name, sizeof(name), "%.*s",
             (int)machine_share_program_len(process), process);
    return matches_pattern(pattern, name);
}

static bool message_fits(const struct entities *t, const char *from,
                         const char *to, const struct entity_feature *f)
{
    if (!process_fits(t, from, f->process))
        return false;
    if (f->to == THING_EXTERNAL || f->to == THING_IDLE)
        return matches_pattern(to, f->to == THING_IDLE ? "idle" : "external");
    return process_fits(t, to, f->to);
}

static bool object_fits(const struct entities *t, const char *object,
                        const struct entity_feature *f)
{
    char name[NAME_BYTES];
    size_t len = strlen(object);
    while (len > 0 && object[len - 1] == '/')
        len--;
    snprintf(name, sizeof(name), "/%s/%s", machine_name(t, f->process),
             process_name(t, f->process));
    return strncmp(name, object, len) == 0 &&
           (name[len] == '\0' || name[len] == '/');
}

static bool is_given(const char *text)
{
    return text && *text;
}

/* If the selector has a message pattern, only messages match; without one no
 * message matches. */
static bool feature_fits(const struct entities *t,
                         const struct entity_selector *s, const char *from,
                         const char *to, const struct entity_feature *f)
{
    if (is_given(s->message) != (f->kind == THING_MESSAGE))
        return false;
    if (is_given(s->message) && !message_fits(t, from, to, f))
        return false;
    if (is_given(s->procedure) &&
        (f->kind != THING_PROCEDURE ||
         !matches_pattern(s->procedure, t->procedure[f->procedure].name)))
        return false;
    if (is_given(s->process) && !process_fits(t, s->process, f->process))
        return false;
    return !is_given(s->object) || object_fits(t, s->object, f);
}

/* Splits "A -> B"; spaces around the arrow are optional. */
static int split_message(const char *message, char from[NAME_BYTES],
                         char to[NAME_BYTES], struct ips_err *err)
{
    const char *arrow = strstr(message, "->");
    if (!arrow || strlen(message) >= NAME_BYTES)
        return ips_err_set(
            err, IPS_E_USAGE,
            "messages '%.80s': not of the form 'FROM -> TO'; each is a "
            "process name or a pattern",
            message);
    const char *end = arrow, *begin = arrow + 2;
    while (end > message && end[-1] == ' ')
        end--;
    while (*begin == ' ')
        begin++;
    size_t len = strlen(begin);
    while (len > 0 && begin[len - 1] == ' ')
        len--;
    while (*message == ' ' && message < end)
        message++;
    snprintf(from, NAME_BYTES, "%.*s", (int)(end - message), message);
    snprintf(to, NAME_BYTES, "%.*s", (int)len, begin);
    return 0;
}

int entities_choose(const struct entities *t, const struct entity_selector *s,
                    uint32_t **feature, uint32_t *count, struct ips_err *err)
{
    char from[NAME_BYTES] = "", to[NAME_BYTES] = "";
    *count = 0;
    if (is_given(s->message)) {
        int rc = split_message(s->message, from, to, err);
        if (rc < 0)
            return rc;
    }
    uint32_t *list = malloc(((size_t)t->f.count + 1) * sizeof(*list));
    if (!list)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u features", t->f.count);
    for (uint32_t i = 0; i < t->f.count; i++) {
        if (feature_fits(t, s, from, to, &t->feature[i]))
            list[(*count)++] = i;
    }
    *feature = list;
    return 0;
}

/* ---- names to suggest after a typo -------------------------------------- */

static void offer_process(const struct machine_entities *p, const char *process,
                          const char *word, struct ips_nearest *near)
{
    char name[NAME_BYTES];
    if (strchr(word, '/')) {
        snprintf(name, sizeof(name), "%s%s/%s", *word == '/' ? "/" : "",
                 p->machine, process);
        ips_nearest_offer(near, name);
        return;
    }
    snprintf(name, sizeof(name), "%.*s",
             (int)machine_share_program_len(process), process);
    ips_nearest_offer(near, name);
    ips_nearest_offer(near, process);
}

void entities_offer_processes(const struct entities *t, const char *word,
                              struct ips_nearest *near)
{
    for (uint32_t i = 0; i < t->machine_count; i++) {
        for (uint32_t k = 0; k < t->machine[i].process_count; k++)
            offer_process(&t->machine[i], t->machine[i].process[k], word, near);
    }
}

void entities_offer_procedures(const struct entities *t,
                               struct ips_nearest *near)
{
    for (uint32_t i = 0; i < t->procedure_count; i++)
        ips_nearest_offer(near, t->procedure[i].name);
}
