#include "client/shell/shell.h"

#include <editline/readline.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/base/terminal.h"
#include "common/nearest.h"

#define HISTORY_LINES 1000

const char *const ipsq_shell_words[] = {"zoom",   "up",      "run",  "focus",
                                        "format", "history", "quit", NULL};

static const char words_help[] =
    "at this prompt:\n"
    "  zoom OBJECT        apply the commands to /machine, /machine/process or\n"
    "                     /machine/process/thread; also a name below the "
    "focus\n"
    "  zoom FROM..TO      restrict them to a window: 1s..2s, 250ms..\n"
    "  zoom phase N       restrict them to a phase, as 'phases' numbers them\n"
    "  up                 widen the focus: the time, then the object, then the "
    "run\n"
    "  run [RUN]          apply the commands to this run; without one, the "
    "newest\n"
    "  focus              print the focus\n"
    "  format F           table, tsv or json\n"
    "  history            print the lines typed so far\n"
    "  quit               leave (end of file does as well)\n"
    "\n";

/* ---- running a command -------------------------------------------------- */

/* Returns the command of the pager, or NULL to print without a pager. */
static const char *find_pager(const struct ipsq_shell *s)
{
    const char *own = getenv("PAGER");
    if (!s->terminal || (own && (!*own || strcmp(own, "cat") == 0)))
        return NULL;
    return own ? own : "less";
}

static pid_t start_pager(const char *command, const int pipes[2])
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    signal(SIGINT, SIG_DFL);
    /* F: makes `less` exit at once if the text fits the screen */
    setenv("LESS", "FRX", 0);
    if (dup2(pipes[0], STDIN_FILENO) < 0)
        _exit(127);
    close(pipes[0]);
    close(pipes[1]);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

static int wait_for_child_status(pid_t pid)
{
    int status = 0;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    /* A command that ends with SIGPIPE because the user left the pager did not
     * fail. An interrupt is reported. */
    return WTERMSIG(status) == SIGPIPE ? IPSQ_OK : 128 + WTERMSIG(status);
}

/* Runs a command line in a child process, through the pager if there is one.
 * Returns the exit status of the child. */
static int run_argv_in_child(const struct ipsq_shell *s, int argc, char **argv)
{
    int pipes[2];
    const char *page = find_pager(s);
    fflush(stdout);
    if (page && pipe(pipes) < 0)
        page = NULL;
    pid_t reader = page ? start_pager(page, pipes) : 0;
    if (reader < 0) { /* print without a pager */
        close(pipes[0]);
        close(pipes[1]);
        page = NULL;
    }
    pid_t child = fork();
    if (child == 0) {
        signal(SIGINT, SIG_DFL);
        if (page)
            ipsq_set_terminal_width(ipsq_terminal_width(stdout));
        if (page && dup2(pipes[1], STDOUT_FILENO) < 0)
            _exit(IPSQ_FAILED);
        if (page) {
            close(pipes[0]);
            close(pipes[1]);
        }
        exit(ipsq_run_command_line(argc, argv));
    }
    if (child < 0)
        fprintf(stderr, "ipsq: fork: %s\n", strerror(errno));
    if (page) {
        close(pipes[0]);
        close(pipes[1]);
    }
    int status = child < 0 ? IPSQ_FAILED : wait_for_child_status(child);
    (void)wait_for_child_status(reader);
    return status;
}

/* Whether the command lacks the shell's output format. The shell does not pass
 * --format to such commands. */
static bool does_command_lack_shell_format(const struct ipsq_shell *s,
                                           const struct ipsq_words *words)
{
    const struct ipsq_command *c =
        words->count ? ipsq_command_find(words->word[0]) : NULL;
    return c && !(c->formats & 1u << s->session.format);
}

static int run_command_with_focus(const struct ipsq_shell *s,
                                  const struct ipsq_words *words)
{
    char *argv[IPSQ_ARGV_MAX + 1];
    char *before[sizeof(s->before) / sizeof(*s->before)];
    unsigned unused;
    size_t n = 0;
    while (s->before[n] && (s->before[n] != s->format ||
                            !does_command_lack_shell_format(s, words))) {
        before[n] = s->before[n];
        n++;
    }
    before[n] = NULL; /* --format is the last option in before[] */
    int argc = ipsq_focus_build_argv(&s->focus, before, words, argv, &unused);
    if (unused)
        fprintf(stderr,
                "ipsq: %s cannot be restricted to %s: this answer covers "
                "the whole run\n",
                words->word[0],
                unused & IPSQ_UNUSED_OBJECT ? s->focus.object : "a window");
    return run_argv_in_child(s, argc, argv);
}

/* ---- the shell's own words ---------------------------------------------- */

static int print_usage_error(const char *what, const char *word)
{
    fprintf(stderr, "ipsq: %s%s\n", what, word ? word : "");
    return IPSQ_USAGE;
}

struct ipsq_name_source ipsq_shell_get_name_source(const struct ipsq_shell *s)
{
    return (struct ipsq_name_source){
        .session = &s->session, .run = s->focus.run, .start = true};
}

typedef void name_lister(const struct ipsq_name_source *from, const char *text,
                         struct ipsq_names *out);

/* Prints that the name `text` does not exist, and suggests the most similar
 * name. */
static void print_unknown_name(const struct ipsq_shell *s, name_lister *list,
                               const char *text, const char *what)
{
    struct ipsq_name_source from = ipsq_shell_get_name_source(s);
    struct ipsq_names all = {0};
    struct ips_nearest near;
    list(&from, "", &all);
    ips_nearest_start_search(&near, text);
    for (size_t i = 0; i < all.count; i++)
        ips_nearest_consider_candidate(&near, all.name[i]);
    fprintf(stderr, "ipsq: no %s '%s'%s\n", what, text,
            ips_nearest_format_suggestion(&near));
    ipsq_names_release(&all);
}

/* Returns the first name that is neither `first` nor below it (as /m1/a is
 * below /m1), or NULL. */
static const char *find_name_outside_subtree(const struct ipsq_names *names,
                                             const char *first)
{
    size_t len = strlen(first);
    for (size_t i = 0; i < names->count; i++) {
        const char *other = names->name[i];
        if (strncmp(other, first, len) != 0 ||
            (other[len] != '/' && other[len] != '\0'))
            return other;
    }
    return NULL;
}

/* Stores in `out` the name that is equal to `text` or, if there is none, the
 * only one that begins with it; names below that one do not count. Otherwise
 * prints why no name is chosen, and returns false. */
static bool resolve_unique_name(const struct ipsq_shell *s, name_lister *list,
                                const char *text, const char *what, char *out,
                                size_t room)
{
    struct ipsq_name_source from = ipsq_shell_get_name_source(s);
    struct ipsq_names names = {0};
    const char *found = NULL, *other = NULL;
    list(&from, text, &names);
    for (size_t i = 0; i < names.count && !found; i++)
        if (strcmp(names.name[i], text) == 0)
            found = names.name[i];
    if (!found && names.count) {
        found = names.name[0];
        other = find_name_outside_subtree(&names, found);
    }
    if (!found)
        print_unknown_name(s, list, text, what);
    else if (other)
        fprintf(stderr, "ipsq: more than one %s begins with '%s': %s, %s%s\n",
                what, text, found, other, names.count > 2 ? ", ..." : "");
    else
        snprintf(out, room, "%s", found);
    ipsq_names_release(&names);
    return found && !other;
}

static int set_focus_from_word(struct ipsq_shell *s, const char *word,
                               const char *more)
{
    char object[IPSQ_FOCUS_BYTES];
    struct ips_err err;
    if (!word)
        return print_usage_error(
            "zoom needs an object (/m1), a window (1s..2s) or a "
            "phase (phase 2)",
            NULL);
    if (strcmp(word, "phase") == 0 && more)
        return ipsq_focus_set_phase(&s->focus, more, &err) < 0
                   ? print_usage_error(err.msg, NULL)
                   : IPSQ_OK;
    if (ipsq_focus_set_window_if_word_is_one(&s->focus, word, &err))
        return err.code ? print_usage_error(err.msg, NULL) : IPSQ_OK;
    if (!ipsq_focus_write_full_object_name(&s->focus, word, object))
        return print_usage_error("name too long: ", word);
    if (!*object) {
        *s->focus.object = '\0';
        return IPSQ_OK;
    }
    return resolve_unique_name(s, ipsq_list_objects_beginning_with, object,
                               "object", s->focus.object,
                               sizeof(s->focus.object))
               ? IPSQ_OK
               : IPSQ_FAILED;
}

static int set_focus_to_named_or_newest_run(struct ipsq_shell *s,
                                            const char *word)
{
    struct ipsq_focus next = {0};
    if (word && !resolve_unique_name(s, ipsq_list_runs_beginning_with, word,
                                     "run", next.run, sizeof(next.run)))
        return IPSQ_FAILED;
    s->focus = next;
    return IPSQ_OK;
}

/* Collects the options passed to every command. The format is left out if it is
 * table, which is the default. */
static void collect_common_options(struct ipsq_shell *s)
{
    static char master[] = "--master", state[] = "--state";
    char **to = s->before;
    if (s->session.master) {
        *to++ = master;
        *to++ = (char *)(uintptr_t)s->session.master;
    }
    if (s->session.state) {
        *to++ = state;
        *to++ = (char *)(uintptr_t)s->session.state;
    }
    if (strcmp(s->format, "--format=table") != 0)
        *to++ = s->format;
    *to = NULL;
}

static int set_shell_format(struct ipsq_shell *s, const char *word)
{
    const char *const *formats = ipsq_option_values(IPSQ_OPT_FORMAT);
    struct ips_nearest near;
    ips_nearest_start_search(&near, word ? word : "");
    for (int i = 0; i <= IPSQ_JSON; i++) {
        ips_nearest_consider_candidate(&near, formats[i]);
        if (!word || strcmp(word, formats[i]) != 0)
            continue;
        snprintf(s->format, sizeof(s->format), "--format=%s", word);
        s->session.format = (enum ipsq_format)i;
        collect_common_options(s);
        return IPSQ_OK;
    }
    return print_usage_error("the formats are table, tsv and json",
                             ips_nearest_format_suggestion(&near));
}

static int show_history(void)
{
    for (int i = 0; i < history_length; i++) {
        const HIST_ENTRY *e = history_get(history_base + i);
        if (e)
            printf("%5d  %s\n", i + 1, e->line);
    }
    return IPSQ_OK;
}

static int show_focus(const struct ipsq_shell *s)
{
    char text[IPSQ_LINE_BYTES];
    ipsq_focus_prompt_text(&s->focus, text, sizeof(text));
    puts(strcmp(text, "ipsq") == 0 ? "the newest run" : text + 5);
    return IPSQ_OK;
}

static int run_line(struct ipsq_shell *s, const char *text)
{
    struct ipsq_words words;
    struct ips_err err;
    if (ipsq_words_split(text, &words, &err) < 0)
        return print_usage_error(err.msg, NULL);
    if (words.count == 0)
        return s->status;
    const char *word = words.word[0];
    if (strcmp(word, "zoom") == 0)
        return set_focus_from_word(s, words.word[1],
                                   words.count > 1 ? words.word[2] : NULL);
    if (strcmp(word, "up") == 0)
        return ipsq_focus_widen(&s->focus)
                   ? IPSQ_OK
                   : print_usage_error("the focus is already the newest run",
                                       NULL);
    if (strcmp(word, "run") == 0)
        return set_focus_to_named_or_newest_run(s, words.word[1]);
    if (strcmp(word, "focus") == 0)
        return show_focus(s);
    if (strcmp(word, "format") == 0)
        return set_shell_format(s, words.word[1]);
    if (strcmp(word, "history") == 0)
        return show_history();
    if (strcmp(word, "shell") == 0)
        return print_usage_error("already in the shell", NULL);
    if (strcmp(word, "quit") == 0 || strcmp(word, "exit") == 0) {
        s->leave = true;
        return s->status;
    }
    if (strcmp(word, "help") == 0 && words.count == 1)
        fputs(words_help, stdout);
    if (*word != '-' && !ipsq_command_find(word)) {
        ipsq_set_unknown_command_error(word, ipsq_shell_words, &err);
        fprintf(stderr, "ipsq: %s\ntry: help\n", err.msg);
        return IPSQ_USAGE;
    }
    return run_command_with_focus(s, &words);
}

/* ---- reading lines ------------------------------------------------------ */

static sigjmp_buf to_prompt;
static volatile sig_atomic_t at_prompt;

/* An interrupt at the prompt starts a new line. While a command runs, only the
 * command is interrupted. */
static void return_to_prompt_on_interrupt(int sig)
{
    (void)sig;
    if (at_prompt) {
        at_prompt = 0;
        siglongjmp(to_prompt, 1);
    }
}

static char *read_line_with_editing(const struct ipsq_shell *s)
{
    char prompt[IPSQ_LINE_BYTES];
    ipsq_focus_prompt_text(&s->focus, prompt, sizeof(prompt) - 3);
    strcat(prompt, "> ");
    if (sigsetjmp(to_prompt, 1))
        fputc('\n', stdout);
    fflush(stdout);
    at_prompt = 1;
    char *text = readline(prompt);
    at_prompt = 0;
    if (text && *text)
        add_history(text);
    return text;
}

static char *read_line_without_editing(void)
{
    char *text = NULL;
    size_t room = 0;
    if (getline(&text, &room, stdin) >= 0)
        return text;
    free(text);
    return NULL;
}

/* Stores the path of the history file, and makes its directory. "": no history
 * file can be used. */
static void make_history_dir_and_get_path(const struct ipsq_shell *s,
                                          char out[IPS_PATH_BYTES])
{
    char state[IPS_PATH_BYTES];
    struct ips_err ignored;
    *out = '\0';
    if (s->session.state)
        snprintf(state, sizeof(state), "%s", s->session.state);
    else if (ips_path_default_state_directory(state, &ignored) < 0)
        return;
    if (ips_path_make_directories(state, 0700, &ignored) == 0 &&
        snprintf(out, IPS_PATH_BYTES, "%s/history", state) >= IPS_PATH_BYTES)
        *out = '\0';
}

static void init_shell_from_options(struct ipsq_shell *s,
                                    const struct ipsq_options *o)
{
    static const char *const formats[] = {"table", "tsv", "json", "table"};
    memset(s, 0, sizeof(*s));
    s->terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    s->session.master = o->master;
    s->session.state = o->state;
    s->session.format = o->format;
    snprintf(s->format, sizeof(s->format), "--format=%s", formats[o->format]);
    collect_common_options(s);
}

int ipsq_shell(const struct ipsq_options *o)
{
    char past[IPS_PATH_BYTES] = "";
    struct ipsq_shell s;
    init_shell_from_options(&s, o);
    /* Commands run in child processes that share the file offset of standard
     * input. At exit a child moves the offset back by the unread bytes in its
     * copy of the buffer. So the shell must not read ahead and reads without a
     * buffer. A command may read the lines that follow it. */
    if (!s.terminal)
        setvbuf(stdin, NULL, _IONBF, 0);
    using_history();
    if (s.terminal) {
        struct sigaction act = {.sa_handler = return_to_prompt_on_interrupt};
        sigaction(SIGINT, &act, NULL);
        make_history_dir_and_get_path(&s, past);
        stifle_history(HISTORY_LINES);
        if (*past)
            (void)read_history(past);
        ipsq_install_completion(&s);
        puts("'help' lists the commands, 'quit' leaves.");
    }
    while (!s.leave) {
        char *text = s.terminal ? read_line_with_editing(&s)
                                : read_line_without_editing();
        if (!text)
            break;
        s.status = run_line(&s, text);
        free(text);
    }
    if (s.terminal && !s.leave)
        fputc('\n', stdout);
    mode_t mask = umask(077);
    if (*past)
        (void)write_history(past);
    umask(mask);
    return s.status;
}
