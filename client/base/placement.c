#include "client/base/placement.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/units.h"

#define MAP_FILE_BYTES (16u << 20)

void ipsq_placing_release(struct ipsq_placing *p)
{
    for (size_t i = 0; i < p->machine_count; i++) {
        free(p->machine[i]->name);
        free(p->machine[i]);
    }
    for (size_t i = 0; i < p->placement_count; i++) {
        free(p->placement[i]->what);
        free(p->placement[i]->machine);
        free(p->placement[i]);
    }
    for (size_t i = 0; i < p->net_count; i++) {
        free(p->net[i]->from);
        free(p->net[i]->to);
        if (*p->net[i]->medium)
            free(p->net[i]->medium);
        free(p->net[i]);
    }
    for (size_t i = 0; i < p->move_count; i++) {
        free(p->move[i]->what);
        free(p->move[i]->machine);
        free(p->move[i]);
    }
    free(p->machine);
    free(p->placement);
    free(p->net);
    free(p->move);
    memset(p, 0, sizeof(*p));
}

static int set_no_memory_error(struct ips_err *err)
{
    return ips_err_set(err, IPS_E_NO_MEMORY, "no memory");
}

/* Returns a malloc'd copy of the text without surrounding blanks. */
static char *trim_copy(const char *text, size_t len)
{
    while (len && (*text == ' ' || *text == '\t' || *text == '\r')) {
        text++;
        len--;
    }
    while (len && strchr(" \t\r", text[len - 1]))
        len--;
    return strndup(text, len);
}

/* Appends `item` to the array of pointers *list. If that fails, the caller
 * still owns `item`. */
static int append_to_list(void *list, size_t *count, void *item,
                          struct ips_err *err)
{
    void ***items = list;
    void **more = realloc(*items, (*count + 1) * sizeof(*more));
    if (!more)
        return set_no_memory_error(err);
    *items = more;
    more[(*count)++] = item;
    return 0;
}

/* ---- machines ------------------------------------------------------------ */

static int parse_cores(Ips__PredictMachine *m, const char *value,
                       struct ips_err *err)
{
    uint64_t n;
    int rc = ipsq_parse_positive_count(value, &n, err);
    if (rc == 0 && n > UINT32_MAX)
        rc = ips_err_set(err, IPS_E_USAGE, "%.40s cores", value);
    if (rc == 0)
        m->cores = (uint32_t)n;
    return rc;
}

/* Parses a load. "0.5": other programs want half a core; "25%": they use that
 * share of all cycles; "recorded": as in the recorded run. */
static int parse_load(Ips__PredictMachine *m, const char *value,
                      struct ips_err *err)
{
    size_t len = strlen(value);
    char number[64];
    if (strcmp(value, "recorded") == 0) {
        m->load_recorded = true;
        return 0;
    }
    if (!len || value[len - 1] != '%' || len >= sizeof(number))
        return ipsq_parse_decimal_as_fraction(value, &m->load_num, &m->load_den,
                                              err);
    memcpy(number, value, len - 1);
    number[len - 1] = '\0';
    uint32_t num = 0, den = 1;
    int rc = ipsq_parse_decimal_as_fraction(number, &num, &den, err);
    if (rc == 0 && num >= den * 100)
        rc = ips_err_set(err, IPS_E_USAGE, "must be below 100%%");
    m->taken_num = num * 100 / den;
    m->taken_den = 10000;
    return rc;
}

static int parse_machine_setting(Ips__PredictMachine *m, const char *word,
                                 struct ips_err *err)
{
    if (strncmp(word, "cores=", 6) == 0)
        return parse_cores(m, word + 6, err);
    if (strncmp(word, "speed=", 6) == 0)
        return ipsq_parse_decimal_as_fraction(word + 6, &m->speed_num,
                                              &m->speed_den, err);
    if (strncmp(word, "load=", 5) == 0)
        return parse_load(m, word + 5, err);
    if (strncmp(word, "turn=", 5) == 0) {
        m->turn_said = true;
        return ipsq_parse_duration(word + 5, &m->turn_ns, err);
    }
    return ips_err_set(err, IPS_E_USAGE,
                       "not one of cores=N, speed=X, load=B, load=P%%, "
                       "load=recorded, turn=TIME");
}

static int parse_setting_and_prefix_error(Ips__PredictMachine *m,
                                          const char *word, struct ips_err *err)
{
    int rc = parse_machine_setting(m, word, err);
    if (rc == IPS_E_USAGE)
        return ips_err_wrap(err, rc, "machine %.80s: %.80s", m->name, word);
    return rc;
}

static int parse_machine_settings(Ips__PredictMachine *m, const char *text,
                                  size_t len, struct ips_err *err)
{
    int rc = 0;
    for (size_t at = 0; at < len && rc == 0;) {
        size_t n = 0;
        while (at + n < len && text[at + n] != ',')
            n++;
        char *word = trim_copy(text + at, n);
        if (!word)
            rc = set_no_memory_error(err);
        else if (*word)
            rc = parse_setting_and_prefix_error(m, word, err);
        free(word);
        at += n + 1;
    }
    return rc;
}

static int add_machine_from_spec(struct ipsq_placing *p, const char *text,
                                 size_t len, struct ips_err *err)
{
    const char *colon = memchr(text, ':', len);
    size_t named = colon ? (size_t)(colon - text) : len;
    char *name = trim_copy(text, named);
    Ips__PredictMachine *m = malloc(sizeof(*m));
    if (!name || !m) {
        free(name);
        free(m);
        return set_no_memory_error(err);
    }
    ips__predict_machine__init(m);
    m->name = name;
    int rc = 0;
    if (!*name)
        rc = ips_err_set(err, IPS_E_USAGE,
                         "--machines: a machine without a name; the form is "
                         "'one:cores=2,speed=1.5,load=0;two:cores=4'");
    else if (p->machine_count == IPSQ_MACHINES_MAX)
        rc = ips_err_set(err, IPS_E_USAGE, "more than %u machines",
                         IPSQ_MACHINES_MAX);
    if (rc == 0 && colon)
        rc = parse_machine_settings(m, colon + 1, len - named - 1, err);
    if (rc == 0)
        rc = append_to_list(&p->machine, &p->machine_count, m, err);
    if (rc < 0) {
        free(name);
        free(m);
    }
    return rc;
}

static bool is_blank(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!strchr(" \t\r", text[i]))
            return false;
    return true;
}

int ipsq_placing_parse_machines(struct ipsq_placing *p, const char *spec,
                                struct ips_err *err)
{
    int rc = 0;
    for (const char *at = spec; rc == 0;) {
        size_t len = strcspn(at, ";\n");
        if (!is_blank(at, len))
            rc = add_machine_from_spec(p, at, len, err);
        if (!at[len])
            break;
        at += len + 1;
    }
    return rc;
}

/* ---- map ----------------------------------------------------------------- */

static int add_map_entry(struct ipsq_placing *p, const char *text, size_t len,
                         struct ips_err *err)
{
    const char *equals = memchr(text, '=', len);
    if (!equals || is_blank(text, (size_t)(equals - text)) ||
        is_blank(equals + 1, len - (size_t)(equals - text) - 1))
        return ips_err_set(err, IPS_E_USAGE,
                           "--map: '%.*s' is not of the form PROCESS=MACHINE",
                           (int)(len < 80 ? len : 80), text);
    if (p->placement_count == IPSQ_PLACES_MAX)
        return ips_err_set(err, IPS_E_USAGE, "the map has more than %u entries",
                           IPSQ_PLACES_MAX);
    Ips__PredictPlace *to = malloc(sizeof(*to));
    if (!to)
        return set_no_memory_error(err);
    ips__predict_place__init(to);
    to->what = trim_copy(text, (size_t)(equals - text));
    to->machine = trim_copy(equals + 1, len - (size_t)(equals - text) - 1);
    int rc = to->what && to->machine ? 0 : set_no_memory_error(err);
    if (rc == 0)
        rc = append_to_list(&p->placement, &p->placement_count, to, err);
    if (rc < 0) {
        free(to->what);
        free(to->machine);
        free(to);
    }
    return rc;
}

/* Parses the entries of a map, which are separated by commas or line ends.
 * Lines that start with # are ignored. */
static int parse_map_and_add_entries(struct ipsq_placing *p, const char *text,
                                     struct ips_err *err)
{
    int rc = 0;
    bool begins = true;
    while (rc == 0 && *text) {
        size_t len = strcspn(text, ",\n");
        if (begins && *text == '#')
            len = strcspn(text, "\n");
        else if (!is_blank(text, len))
            rc = add_map_entry(p, text, len, err);
        begins = text[len] == '\n';
        text += len + (text[len] != '\0');
    }
    return rc;
}

static int add_map_file_entries(struct ipsq_placing *p, const char *path,
                                struct ips_err *err)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return ips_err_errno(
            err,
            "--map '%.200s' is neither PROCESS=MACHINE nor a readable "
            "file",
            path);
    char *text = malloc(MAP_FILE_BYTES + 1);
    size_t n = text ? fread(text, 1, MAP_FILE_BYTES + 1, f) : 0;
    int rc = 0;
    if (!text)
        rc = set_no_memory_error(err);
    else if (ferror(f))
        rc = ips_err_errno(err, "--map %.200s", path);
    else if (n > MAP_FILE_BYTES)
        rc = ips_err_set(err, IPS_E_USAGE, "--map %.200s: longer than %u bytes",
                         path, MAP_FILE_BYTES);
    fclose(f);
    if (rc == 0) {
        text[n] = '\0';
        rc = parse_map_and_add_entries(p, text, err);
    }
    free(text);
    return rc;
}

int ipsq_placing_parse_map(struct ipsq_placing *p, const char *spec,
                           struct ips_err *err)
{
    return strchr(spec, '=') ? parse_map_and_add_entries(p, spec, err)
                             : add_map_file_entries(p, spec, err);
}

/* ---- network ------------------------------------------------------------- */

static int set_network_form_error(const char *text, struct ips_err *err)
{
    return ips_err_set(err, IPS_E_USAGE,
                       "--network: '%.80s' is not of the form FROM>TO=TIME, "
                       "FROM<>TO=TIME; TIME is BASE+PER_BYTE or xN, optionally "
                       "followed by @MEDIUM",
                       text);
}

/* Parses the time of a --network entry: "100us+8ns@bus", "x0.5", "@bus". */
static int parse_network_time_and_medium(Ips__PredictNet *n, char *text,
                                         struct ips_err *err)
{
    char *at = strchr(text, '@');
    if (at) {
        *at = '\0';
        if (!at[1])
            return ips_err_set(err, IPS_E_USAGE,
                               "--network: a medium without a name");
        char *medium = strdup(at + 1);
        if (!medium)
            return set_no_memory_error(err);
        n->medium = medium;
    }
    if (!*text)
        return at ? 0 : set_network_form_error(text, err);
    if (*text == 'x')
        return ipsq_parse_decimal_as_fraction(text + 1, &n->scale_num,
                                              &n->scale_den, err);
    n->given = true;
    return ipsq_parse_message_time(text, &n->base_ns, &n->per_byte_q32, err);
}

static int parse_network_entry(Ips__PredictNet *n, const char *text,
                               struct ips_err *err)
{
    const char *equals = strchr(text, '=');
    const char *arrow = strchr(text, '>');
    if (!equals || !arrow || arrow > equals || arrow == text)
        return set_network_form_error(text, err);
    n->both = arrow[-1] == '<';
    n->from = trim_copy(text, (size_t)(arrow - text) - (n->both ? 1 : 0));
    n->to = trim_copy(arrow + 1, (size_t)(equals - arrow) - 1);
    char *time = trim_copy(equals + 1, strlen(equals + 1));
    int rc = n->from && n->to && time ? 0 : set_no_memory_error(err);
    if (rc == 0)
        rc = *n->from && *n->to ? parse_network_time_and_medium(n, time, err)
                                : set_network_form_error(text, err);
    free(time);
    return rc;
}

static int add_network_entry(struct ipsq_placing *p, const char *text,
                             size_t len, struct ips_err *err)
{
    Ips__PredictNet *n = malloc(sizeof(*n));
    if (!n)
        return set_no_memory_error(err);
    ips__predict_net__init(n);
    n->from = n->to = NULL;
    int rc = append_to_list(&p->net, &p->net_count, n, err);
    if (rc < 0) {
        free(n);
        return rc;
    }
    char *copy = trim_copy(text, len);
    rc = copy ? parse_network_entry(n, copy, err) : set_no_memory_error(err);
    free(copy);
    return rc;
}

int ipsq_placing_parse_network(struct ipsq_placing *p, const char *spec,
                               struct ips_err *err)
{
    int rc = 0;
    for (const char *at = spec; rc == 0;) {
        size_t len = strcspn(at, ";\n");
        if (!is_blank(at, len))
            rc = add_network_entry(p, at, len, err);
        if (!at[len])
            break;
        at += len + 1;
    }
    return rc;
}

/* ---- moves --------------------------------------------------------------- */

static int parse_move_entry(Ips__PredictMove *m, const char *text,
                            struct ips_err *err)
{
    const char *equals = strchr(text, '=');
    const char *at = equals ? memchr(text, '@', (size_t)(equals - text)) : NULL;
    if (!at || at == text || !equals[1])
        return ips_err_set(err, IPS_E_USAGE,
                           "--move: '%.80s' is not of the form "
                           "PROCESS@TIME=MACHINE",
                           text);
    m->what = trim_copy(text, (size_t)(at - text));
    m->machine = trim_copy(equals + 1, strlen(equals + 1));
    char *time = trim_copy(at + 1, (size_t)(equals - at) - 1);
    int rc = m->what && m->machine && time ? 0 : set_no_memory_error(err);
    if (rc == 0)
        rc = ipsq_parse_duration(time, &m->at_ns, err);
    free(time);
    return rc;
}

static int parse_and_append_move(struct ipsq_placing *p, const char *text,
                                 size_t len, struct ips_err *err)
{
    Ips__PredictMove *m = malloc(sizeof(*m));
    if (!m)
        return set_no_memory_error(err);
    ips__predict_move__init(m);
    m->what = m->machine = NULL;
    int rc = append_to_list(&p->move, &p->move_count, m, err);
    if (rc < 0) {
        free(m);
        return rc;
    }
    char *copy = trim_copy(text, len);
    rc = copy ? parse_move_entry(m, copy, err) : set_no_memory_error(err);
    free(copy);
    return rc;
}

int ipsq_placing_parse_moves(struct ipsq_placing *p, const char *spec,
                             struct ips_err *err)
{
    int rc = 0;
    for (const char *at = spec; rc == 0;) {
        size_t len = strcspn(at, ",\n");
        if (!is_blank(at, len))
            rc = parse_and_append_move(p, at, len, err);
        if (!at[len])
            break;
        at += len + 1;
    }
    return rc;
}
