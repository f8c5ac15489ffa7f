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

const char *entities_write_feature_name(const struct entities *t,
                                        uint32_t feature,
                                        char out[ENTITY_NAME_BYTES])
{
    const struct entity_feature *f = &t->feature[feature];
    const char *machine = machine_name(t, f->process);
    const char *process = process_name(t, f->process);
    switch (f->kind) {
    case ENTITY_MACHINE: /* no feature has this kind */
    case ENTITY_KINDS:
    case ENTITY_PROCESS:
        snprintf(out, ENTITY_NAME_BYTES, "/%s/%s", machine, process);
        break;
    case ENTITY_PROCEDURE:
        snprintf(out, ENTITY_NAME_BYTES, "/%s/%s %s", machine, process,
                 t->procedure[f->procedure].name);
        break;
    case ENTITY_MESSAGE:
        if (f->to == ENTITY_EXTERNAL || f->to == ENTITY_IDLE)
            snprintf(out, ENTITY_NAME_BYTES, "%s/%s -> %s", machine, process,
                     f->to == ENTITY_IDLE ? "idle" : "external");
        else
            snprintf(out, ENTITY_NAME_BYTES, "%s/%s -> %s/%s", machine, process,
                     machine_name(t, f->to), process_name(t, f->to));
        break;
    }
    return out;
}

const struct entity_symbol *
entities_procedure_symbol(const struct entities *t, const struct entity *thing)
{
    if (thing->kind != ENTITY_PROCEDURE)
        return NULL;
    return &t->procedure[t->feature[t->member[thing->first]].procedure];
}

const char *entities_write_name(const struct entities *t,
                                const struct entity *thing,
                                char out[ENTITY_NAME_BYTES])
{
    uint32_t feature = t->member[thing->first];
    switch (thing->kind) {
    case ENTITY_MACHINE:
        snprintf(out, ENTITY_NAME_BYTES, "/%s", machine_name(t, feature));
        return out;
    case ENTITY_PROCEDURE:
        snprintf(out, ENTITY_NAME_BYTES, "%s",
                 entities_procedure_symbol(t, thing)->name);
        return out;
    /* use the feature of the process itself: the entity's first member may be a
     * procedure */
    case ENTITY_PROCESS:
        return entities_write_feature_name(t, t->feature[feature].process, out);
    case ENTITY_MESSAGE:
    case ENTITY_KINDS:
        break;
    }
    return entities_write_feature_name(t, feature, out);
}

/* ---- finding features by name ------------------------------------------- */

static bool matches_pattern(const char *pattern, const char *text)
{
    return fnmatch(pattern, text, 0) == 0;
}

/* Returns true if the pattern matches the process's name "a.3" or program "a"
 * or, if the pattern has a /, "/m1/a.3" or "m1/a.3". */
static bool process_matches_pattern(const struct entities *t,
                                    const char *pattern, uint32_t feature)
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

static bool message_matches_patterns(const struct entities *t, const char *from,
                                     const char *to,
                                     const struct entity_feature *f)
{
    if (!process_matches_pattern(t, from, f->process))
        return false;
    if (f->to == ENTITY_EXTERNAL || f->to == ENTITY_IDLE)
        return matches_pattern(to, f->to == ENTITY_IDLE ? "idle" : "external");
    return process_matches_pattern(t, to, f->to);
}

static bool feature_is_within_object(const struct entities *t,
                                     const char *object,
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

static bool is_nonempty_text(const char *text)
{
    return text && *text;
}

/* Returns true if the feature matches all given patterns. With a message
 * pattern only message features match; without one no message feature does. */
static bool feature_matches_selector(const struct entities *t,
                                     const struct entity_selector *s,
                                     const char *from, const char *to,
                                     const struct entity_feature *f)
{
    if (is_nonempty_text(s->message) != (f->kind == ENTITY_MESSAGE))
        return false;
    if (is_nonempty_text(s->message) &&
        !message_matches_patterns(t, from, to, f))
        return false;
    if (is_nonempty_text(s->procedure) &&
        (f->kind != ENTITY_PROCEDURE ||
         !matches_pattern(s->procedure, t->procedure[f->procedure].name)))
        return false;
    if (is_nonempty_text(s->process) &&
        !process_matches_pattern(t, s->process, f->process))
        return false;
    return !is_nonempty_text(s->object) ||
           feature_is_within_object(t, s->object, f);
}

/* Splits a pattern "FROM -> TO"; spaces around the arrow are optional. */
static int split_message_selector(const char *message, char from[NAME_BYTES],
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

int entities_select_features(const struct entities *t,
                             const struct entity_selector *s,
                             uint32_t **feature, uint32_t *count,
                             struct ips_err *err)
{
    char from[NAME_BYTES] = "", to[NAME_BYTES] = "";
    *count = 0;
    if (is_nonempty_text(s->message)) {
        int rc = split_message_selector(s->message, from, to, err);
        if (rc < 0)
            return rc;
    }
    uint32_t *list = malloc(((size_t)t->f.count + 1) * sizeof(*list));
    if (!list)
        return ips_err_set(err, IPS_E_NO_MEMORY, "%u features", t->f.count);
    for (uint32_t i = 0; i < t->f.count; i++) {
        if (feature_matches_selector(t, s, from, to, &t->feature[i]))
            list[(*count)++] = i;
    }
    *feature = list;
    return 0;
}

/* ---- names to suggest after a typo -------------------------------------- */

static void consider_process_name_candidates(const struct machine_entities *p,
                                             const char *process,
                                             const char *word,
                                             struct ips_nearest *near)
{
    char name[NAME_BYTES];
    if (strchr(word, '/')) {
        snprintf(name, sizeof(name), "%s%s/%s", *word == '/' ? "/" : "",
                 p->machine, process);
        ips_nearest_consider_candidate(near, name);
        return;
    }
    snprintf(name, sizeof(name), "%.*s",
             (int)machine_share_program_len(process), process);
    ips_nearest_consider_candidate(near, name);
    ips_nearest_consider_candidate(near, process);
}

void entities_offer_process_names(const struct entities *t, const char *word,
                                  struct ips_nearest *near)
{
    for (uint32_t i = 0; i < t->machine_count; i++) {
        for (uint32_t k = 0; k < t->machine[i].process_count; k++)
            consider_process_name_candidates(
                &t->machine[i], t->machine[i].process[k], word, near);
    }
}

void entities_offer_procedure_names(const struct entities *t,
                                    struct ips_nearest *near)
{
    for (uint32_t i = 0; i < t->procedure_count; i++)
        ips_nearest_consider_candidate(near, t->procedure[i].name);
}
