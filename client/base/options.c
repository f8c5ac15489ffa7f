#include "client/base/options.h"

#include <getopt.h>
#include <string.h>

#include "client/base/units.h"
#include "common/address.h"
#include "common/nearest.h"
#include "proto/tls.h"

/* greater than all values that getopt itself returns (letters, 1) */
#define LONG_BASE 256

static const struct option longs[] = {
#define X(name, text, value, help)                                             \
    {text, (value) ? required_argument : no_argument, NULL,                    \
     LONG_BASE + IPSQ_OPT_##name},
    IPSQ_OPTIONS(X)
#undef X
        {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

const struct ipsq_option_row ipsq_option_table[IPSQ_OPT_COUNT] = {
#define X(name, text, value, help) {text, value, help},
    IPSQ_OPTIONS(X)
#undef X
};

enum ipsq_option ipsq_option_find(const char *name, size_t len)
{
    for (unsigned i = 0; i < IPSQ_OPT_COUNT; i++) {
        const char *known = ipsq_option_table[i].name;
        if (strncmp(known, name, len) == 0 && known[len] == '\0')
            return (enum ipsq_option)i;
    }
    return IPSQ_OPT_COUNT;
}

static const char *const bys[] = {
#define X(name, word) word,
    IPSQ_BYS(X)
#undef X
        NULL};

const char *const *ipsq_option_values(enum ipsq_option option)
{
    static const char *const formats[] = {"table", "tsv", "json", "jsonl",
                                          NULL};
    static const char *const engines[] = {"auto",     "contract", "central",
                                          "cm-async", "cm-sync",  NULL};
    static const char *const levels[] = {"run",    "machine",   "process",
                                         "thread", "procedure", NULL};
    static const char *const weightings[] = {"cpu", "sched", "wall", NULL};
    static const char *const externals[] = {"reply", "all", "off", NULL};
    static const char *const pers[] = {"machine", NULL};
    static const char *const answers[] = {"turnaround", "latency", "throughput",
                                          NULL};
    static const char *const *const values[IPSQ_OPT_COUNT] = {
        [IPSQ_OPT_FORMAT] = formats,     [IPSQ_OPT_ENGINE] = engines,
        [IPSQ_OPT_LEVEL] = levels,       [IPSQ_OPT_WEIGHTING] = weightings,
        [IPSQ_OPT_EXTERNAL] = externals, [IPSQ_OPT_PER] = pers,
        [IPSQ_OPT_FOR] = answers,        [IPSQ_OPT_BY] = bys,
    };
    return values[option];
}

/* Stores the index of `text` among the values of `option`. IPS_E_USAGE: it is
 * none of them. */
static int parse_option_choice(enum ipsq_option option, const char *text,
                               uint32_t *index, struct ips_err *err)
{
    const char *const *words = ipsq_option_values(option);
    struct ips_nearest near;
    char all[128] = "";
    ips_nearest_start_search(&near, text);
    for (uint32_t i = 0; words[i]; i++) {
        size_t at = strlen(all);
        if (strcmp(text, words[i]) == 0) {
            *index = i;
            return 0;
        }
        snprintf(all + at, sizeof(all) - at, "%s%s", i ? ", " : "", words[i]);
        ips_nearest_consider_candidate(&near, words[i]);
    }
    return ips_err_set(err, IPS_E_USAGE, "--%s '%.40s' is not one of %s%s",
                       ipsq_option_table[option].name, text, all,
                       ips_nearest_format_suggestion(&near));
}

/* Stores the value of an option that names what becomes faster (--procedure,
 * --process, --message, --object). Adds the name to the last edit, or starts a
 * new edit if the last one already has a name of this kind or a speed. */
static int add_name_to_last_or_new_edit(struct ipsq_options *o,
                                        enum ipsq_option option,
                                        const char *text, struct ips_err *err)
{
    struct ipsq_edit *e = o->edit_count ? &o->edit[o->edit_count - 1] : NULL;
    for (int again = 0; again < 2; again++) {
        const char **place = NULL;
        if (e && option == IPSQ_OPT_PROCEDURE)
            place = &e->procedure;
        else if (e && option == IPSQ_OPT_PROCESS)
            place = &e->process;
        else if (e && option == IPSQ_OPT_MESSAGE)
            place = &e->message;
        else if (e)
            place = &e->object;
        if (place && !*place && !e->ppm) {
            *place = text;
            return 0;
        }
        if (o->edit_count == IPSQ_EDITS_MAX)
            break;
        e = &o->edit[o->edit_count++];
        memset(e, 0, sizeof(*e));
    }
    return ips_err_set(err, IPS_E_USAGE, "more than %d edits", IPSQ_EDITS_MAX);
}

/* Applies --faster or --gone to all edits that have no such value yet. */
static void set_missing_edit_speeds(struct ipsq_options *o, uint32_t ppm)
{
    for (unsigned i = o->edit_count; i > 0 && !o->edit[i - 1].ppm; i--)
        o->edit[i - 1].ppm = ppm;
    o->faster_ppm = ppm;
}

static int parse_number_of_next_paths(struct ipsq_options *o, const char *text,
                                      struct ips_err *err)
{
    uint64_t k = 0;
    int rc = ipsq_parse_positive_count(text, &k, err);
    if (rc == 0 && (k == 0 || k > 1000))
        rc = ips_err_set(err, IPS_E_USAGE, "--next %.40s: 1 to 1000", text);
    o->next = (uint32_t)k;
    return rc;
}

/* Parses the values of --by, which are separated by commas. The option may be
 * given several times. */
static int parse_by_values(struct ipsq_options *o, const char *text,
                           struct ips_err *err)
{
    o->by = text;
    for (const char *at = text;;) {
        char word[32];
        uint32_t which = 0;
        size_t len = strcspn(at, ","), n = strcspn(at, ",:");
        /* in mark:NAME and task:NAME the value of --by is mark or task */
        bool named =
            strncmp(at, "mark:", 5) == 0 || strncmp(at, "task:", 5) == 0;
        n = named ? n : len;
        snprintf(word, sizeof(word), "%.*s", (int)(n < 31 ? n : 31), at);
        int rc = parse_option_choice(IPSQ_OPT_BY, word, &which, err);
        if (rc < 0)
            return rc;
        o->by_mask |= 1u << which;
        if (!at[len])
            return 0;
        at += len + 1;
    }
}

static int parse_phase_number(struct ipsq_options *o, const char *text,
                              struct ips_err *err)
{
    uint64_t n;
    int rc = ipsq_parse_positive_count(text, &n, err);
    if (rc == 0 && n > UINT32_MAX)
        rc =
            ips_err_set(err, IPS_E_USAGE, "--phase %.40s: no such phase", text);
    if (rc == 0)
        o->phase = (uint32_t)n;
    return rc;
}

static int append_spec(const char **list, unsigned *count, const char *text,
                       struct ips_err *err)
{
    if (*count == IPSQ_SPECS_MAX)
        return ips_err_set(err, IPS_E_USAGE,
                           "given more than %d times: '%.80s'", IPSQ_SPECS_MAX,
                           text);
    list[(*count)++] = text;
    return 0;
}

static int parse_message_lengths(struct ipsq_options *o, const char *text,
                                 struct ips_err *err)
{
    char word[24];
    o->length_count = 0;
    for (const char *at = text;;) {
        size_t len = strcspn(at, ",");
        if (o->length_count == IPSQ_LENGTHS_MAX)
            return ips_err_set(err, IPS_E_USAGE, "--lengths: more than %d",
                               IPSQ_LENGTHS_MAX);
        snprintf(word, sizeof(word), "%.*s", (int)(len < 23 ? len : 23), at);
        int rc = ipsq_parse_bytes(word, &o->lengths[o->length_count++], err);
        if (rc < 0)
            return ips_err_wrap(err, rc, "--lengths");
        if (!at[len])
            return 0;
        at += len + 1;
    }
}

/* Parses a number that may be 0. */
static int parse_count_that_may_be_zero(uint64_t *n, const char *text,
                                        struct ips_err *err)
{
    *n = 0;
    return strcmp(text, "0") == 0 ? 0 : ipsq_parse_positive_count(text, n, err);
}

static int apply_option(struct ipsq_options *o, enum ipsq_option option,
                        const char *text, struct ips_err *err)
{
    uint32_t which = 0;
    int rc = 0;
    o->options_set |= UINT64_C(1) << option;
    switch (option) {
    case IPSQ_OPT_MASTER:
        o->master = text;
        return 0;
    case IPSQ_OPT_TLS:
        return ips_tls_load_keys(text, err);
    case IPSQ_OPT_INSECURE:
        ips_address_allow_insecure(true);
        return 0;
    case IPSQ_OPT_STATE:
        o->state = text;
        return 0;
    case IPSQ_OPT_FORMAT:
        rc = parse_option_choice(option, text, &which, err);
        o->format = (enum ipsq_format)which;
        return rc;
    case IPSQ_OPT_WIDE:
        o->wide = true;
        return 0;
    case IPSQ_OPT_JSON:
        o->format = IPSQ_JSON;
        return 0;
    case IPSQ_OPT_TSV:
        o->format = IPSQ_TSV;
        return 0;
    case IPSQ_OPT_VERBOSE:
        o->verbose = true;
        return 0;
    case IPSQ_OPT_TOP:
        return ipsq_parse_positive_count(text, &o->top, err);
    case IPSQ_OPT_GOAL:
        o->goal = text;
        if (*text != '/')
            rc = ips_err_set(err, IPS_E_USAGE,
                             "'%.80s' is not of the form /machine/process or "
                             "/machine/process/thread (`ipsq ls` lists them)",
                             text);
        return rc;
    case IPSQ_OPT_OBJECT:
        o->object = text;
        if (*text != '/')
            return ips_err_set(
                err, IPS_E_USAGE,
                "'%.80s' is not of the form /machine, /machine/process or "
                "/machine/process/thread (`ipsq ls` lists them)",
                text);
        return add_name_to_last_or_new_edit(o, option, text, err);
    case IPSQ_OPT_LEVEL:
        o->level = text;
        return parse_option_choice(option, text, &which, err);
    case IPSQ_OPT_ENGINE:
        o->engine = text;
        return parse_option_choice(option, text, &which, err);
    case IPSQ_OPT_FOR:
        o->answer = text;
        return parse_option_choice(option, text, &which, err);
    case IPSQ_OPT_WEIGHTING:
        o->weighting = text;
        return parse_option_choice(option, text, &which, err);
    case IPSQ_OPT_MTIME:
        return ipsq_parse_message_time(text, &o->message_time_base_ns,
                                       &o->message_time_per_byte_q32, err);
    case IPSQ_OPT_EXTERNAL:
        return parse_option_choice(option, text, &o->external, err);
    case IPSQ_OPT_FROM:
        return ipsq_parse_duration(text, &o->from_ns, err);
    case IPSQ_OPT_TO:
        rc = ipsq_parse_duration(text, &o->to_ns, err);
        if (rc == 0 && o->to_ns == 0)
            rc = ips_err_set(err, IPS_E_USAGE,
                             "--to 0: a window must end after it begins");
        return rc;
    case IPSQ_OPT_PHASE:
        return parse_phase_number(o, text, err);
    case IPSQ_OPT_BY:
        return parse_by_values(o, text, err);
    case IPSQ_OPT_SITES:
        o->sites = true;
        return 0;
    case IPSQ_OPT_STACKS:
        o->stacks = true;
        return 0;
    case IPSQ_OPT_PROCEDURE:
    case IPSQ_OPT_PROCESS:
    case IPSQ_OPT_MESSAGE:
        return add_name_to_last_or_new_edit(o, option, text, err);
    case IPSQ_OPT_FASTER:
        rc = ipsq_parse_speedup_as_saved_share(text, &which, err);
        if (rc == 0)
            set_missing_edit_speeds(o, which);
        return rc;
    case IPSQ_OPT_GONE:
        set_missing_edit_speeds(o, IPSQ_GONE);
        return 0;
    case IPSQ_OPT_RANK:
        o->rank = true;
        return 0;
    case IPSQ_OPT_SLACK:
        o->slack = true;
        return 0;
    case IPSQ_OPT_NEXT:
        return parse_number_of_next_paths(o, text, err);
    case IPSQ_OPT_FRESH:
        o->fresh = true;
        return 0;
    case IPSQ_OPT_SEQUENCES:
        o->sequences = true;
        return 0;
    case IPSQ_OPT_WHOLE:
        o->whole = true;
        return 0;
    case IPSQ_OPT_SORT:
        o->sort = text;
        return 0;
    case IPSQ_OPT_PER:
        o->per_machine = true;
        return parse_option_choice(option, text, &which, err);
    case IPSQ_OPT_MAX_WALL:
        return ipsq_parse_duration(text, &o->max_wall_ns, err);
    case IPSQ_OPT_MAX_CPU:
        return ipsq_parse_duration(text, &o->max_cpu_ns, err);
    case IPSQ_OPT_MAX_PATH:
        return ipsq_parse_duration(text, &o->max_path_ns, err);
    case IPSQ_OPT_MAX_LOST:
        return parse_count_that_may_be_zero(&o->max_lost, text, err);
    case IPSQ_OPT_POP:
        o->pop_efficiencies = true;
        return 0;
    case IPSQ_OPT_MACHINES:
        return append_spec(o->machines, &o->machines_count, text, err);
    case IPSQ_OPT_MAP:
        return append_spec(o->map, &o->map_count, text, err);
    case IPSQ_OPT_SEARCH:
        o->search = true;
        return 0;
    case IPSQ_OPT_TRIES:
        return ipsq_parse_positive_count(text, &o->tries, err);
    case IPSQ_OPT_SEED:
        return parse_count_that_may_be_zero(&o->seed, text, err);
    case IPSQ_OPT_SHOW:
        o->show = true;
        return 0;
    case IPSQ_OPT_EXPORT:
        o->export_file = text;
        return 0;
    case IPSQ_OPT_IMPORT:
        o->import_file = text;
        return 0;
    case IPSQ_OPT_FORCE:
        o->force = true;
        return 0;
    case IPSQ_OPT_REPLACE:
        o->replace = true;
        return 0;
    case IPSQ_OPT_FORGET:
        o->forget = true;
        return 0;
    case IPSQ_OPT_LENGTHS:
        return parse_message_lengths(o, text, err);
    case IPSQ_OPT_ROUNDS:
        return ipsq_parse_positive_count(text, &o->rounds, err);
    case IPSQ_OPT_SHARED_MEDIUM:
        o->shared_medium = true;
        return 0;
    case IPSQ_OPT_SYSTEM_SHARE:
        return ipsq_parse_share(text, &o->system_ppm, err);
    case IPSQ_OPT_NETWORK:
        return append_spec(o->network, &o->network_count, text, err);
    case IPSQ_OPT_MOVE:
        return append_spec(o->move, &o->move_count, text, err);
    case IPSQ_OPT_COUNT:
        break;
    }
    return ips_err_set(err, IPS_E_USAGE, "unknown option");
}

/* Stores the value of an option, and adds the option's name to errors about the
 * value. */
static int apply_option_and_prefix_error(struct ipsq_options *o,
                                         enum ipsq_option option,
                                         const char *text, struct ips_err *err)
{
    int rc = apply_option(o, option, text, err);
    return rc < 0 && err && strncmp(err->msg, "--", 2) != 0
               ? ips_err_wrap(err, rc, "--%s", longs[option].name)
               : rc;
}

static int store_command_or_argument(struct ipsq_options *o, const char *word,
                                     struct ips_err *err)
{
    if (!o->command) {
        o->command = word;
        return 0;
    }
    if (o->arg_count == IPSQ_ARGS_MAX)
        return ips_err_set(err, IPS_E_USAGE, "too many words: '%.80s'", word);
    o->args[o->arg_count++] = word;
    return 0;
}

/* Sets the error for an unknown option. `word`: the option as the user typed
 * it, such as "--objcet=/m1" or a letter. */
static int set_unknown_option_error(const char *word, struct ips_err *err)
{
    struct ips_nearest near;
    char typed[64], name[64];
    snprintf(typed, sizeof(typed), "%.*s", (int)strcspn(word, "="), word);
    ips_nearest_start_search(&near, typed);
    for (const struct option *o = longs; o->name; o++) {
        snprintf(name, sizeof(name), "--%s", o->name);
        if (strlen(typed) > 2)
            ips_nearest_consider_candidate(&near, name);
    }
    return ips_err_set(err, IPS_E_USAGE, "no such option: '%.80s'%s", word,
                       ips_nearest_format_suggestion(&near));
}

int ipsq_options_parse(struct ipsq_options *o, int argc, char **argv,
                       struct ips_err *err)
{
    memset(o, 0, sizeof(*o));
    o->engine = "auto";
    o->weighting = "cpu";
    opterr = 0;
    optind = 0;
    for (;;) {
        int word = optind ? optind : 1;
        /* In the short options, '-' makes getopt return words in order, as
         * option 1, and ':' makes it distinguish a missing value from an
         * unknown option. */
        int c = getopt_long(argc, argv, "-:hVv", longs, NULL);
        int rc = 0;
        if (c == -1)
            break;
        if (c == 'h')
            o->help = true;
        else if (c == 'V')
            o->version = true;
        else if (c == 'v')
            rc = apply_option_and_prefix_error(o, IPSQ_OPT_VERBOSE, NULL, err);
        else if (c == 1)
            rc = store_command_or_argument(o, optarg, err);
        else if (c == ':')
            rc = ips_err_set(err, IPS_E_USAGE, "'%.80s' needs a value",
                             argv[word]);
        else if (c == '?')
            rc = set_unknown_option_error(argv[word], err);
        else
            rc = apply_option_and_prefix_error(
                o, (enum ipsq_option)(c - LONG_BASE), optarg, err);
        if (rc < 0)
            return rc;
    }
    for (int rc = 0; optind < argc; optind++) { /* the words after "--" */
        rc = store_command_or_argument(o, argv[optind], err);
        if (rc < 0)
            return rc;
    }
    if (o->to_ns && o->from_ns >= o->to_ns)
        return ips_err_set(err, IPS_E_USAGE, "--from must be before --to");
    if (o->phase && (o->from_ns || o->to_ns))
        return ips_err_set(err, IPS_E_USAGE,
                           "--phase cannot be combined with --from or --to");
    return 0;
}

void ipsq_options_print(FILE *f, uint64_t mask)
{
    for (unsigned i = 0; i < IPSQ_OPT_COUNT; i++) {
        const struct ipsq_option_row *row = &ipsq_option_table[i];
        char head[32];
        if (!(mask & UINT64_C(1) << i))
            continue;
        snprintf(head, sizeof(head), "--%s %s", row->name,
                 row->value ? row->value : "");
        fprintf(f, "  %-18s ", head);
        for (const char *p = row->help; *p; p++) {
            fputc(*p, f);
            if (*p == '\n')
                fprintf(f, "%21s", "");
        }
        fputc('\n', f);
    }
}
