/* A timer signal writes the progress line, so that ipsq can wait for the answer
 * in one blocking call. A signal handler may not call printf, so this one
 * formats by hand and calls only write(). */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "client/base/out.h"
#include "client/base/session.h"

#define NOTE_BYTES 60 /* short enough that the line fits 80 columns */

/* number of half seconds since the wait started */
static volatile sig_atomic_t ticks;
/* true: the progress line is on the terminal */
static volatile sig_atomic_t shown;
static volatile sig_atomic_t counting; /* true: the timer runs */
static char note[NOTE_BYTES] = IPSQ_WAITING;

static size_t append_text_to_line(char *line, size_t at, const char *text)
{
    size_t len = strlen(text);
    memcpy(line + at, text, len);
    return at + len;
}

static void write_progress_line_on_timer(int signal)
{
    int saved = errno;
    char line[NOTE_BYTES + 40], digits[12] = "";
    (void)signal;
    ticks++;
    if (ticks == 1 || ticks % 2 == 0) {
        int seconds = ticks / 2;
        char *from = digits + sizeof(digits) - 1;
        do {
            *--from = (char)('0' + seconds % 10);
            seconds /= 10;
        } while (seconds && from > digits);
        size_t at = append_text_to_line(line, 0, "\r\033[Kipsq: ");
        at = append_text_to_line(line, at, note);
        at = append_text_to_line(line, at, " ... ");
        at = append_text_to_line(line, at, from);
        at = append_text_to_line(line, at, " s ");
        shown = write(STDERR_FILENO, line, at) > 0;
    }
    errno = saved;
}

static void set_timer(long every_us)
{
    struct itimerval t = {{0, every_us}, {0, every_us}};
    counting = every_us > 0;
    setitimer(ITIMER_REAL, &t, NULL);
}

void ipsq_progress_start_on_terminal(void)
{
    const char *term = getenv("TERM");
    struct sigaction act;
    if (!isatty(STDERR_FILENO) || (term && strcmp(term, "dumb") == 0))
        return;
    memset(&act, 0, sizeof(act));
    act.sa_handler = write_progress_line_on_timer;
    act.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &act, NULL);
    set_timer(500000);
}

void ipsq_progress_stop_and_erase_line(void)
{
    set_timer(0);
    if (shown && write(STDERR_FILENO, "\r\033[K", 4) < 0)
        return;
    shown = 0;
}

bool ipsq_progress_wanted(void)
{
    return counting;
}

void ipsq_progress_set_text(const char *doing)
{
    struct ipsq_cell cell = {.text = doing};
    char *clean = ipsq_cell_text(IPSQ_TEXT, &cell);
    sigset_t alarm, was;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarm, &was);
    snprintf(note, sizeof(note), "%s", clean);
    sigprocmask(SIG_SETMASK, &was, NULL);
    free(clean);
}

void ipsq_progress_replace_line(const char *text)
{
    if (!isatty(STDERR_FILENO))
        return;
    ipsq_progress_stop_and_erase_line();
    shown = dprintf(STDERR_FILENO, "\r%s\033[K", text) > 0;
}
