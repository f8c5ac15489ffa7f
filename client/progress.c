/* A timer signal writes the line, so that no wait has to be cut into pieces
 * for it. The handler only formats by hand and calls write(). */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "client/session.h"

static volatile sig_atomic_t ticks; /* half seconds */
static volatile sig_atomic_t shown;

static void on_tick(int signal)
{
    int saved = errno;
    char line[] = "\ripsq: waiting for the answer ...      s ";
    (void)signal;
    ticks++;
    if (ticks == 1 || ticks % 2 == 0) {
        int seconds = ticks / 2;
        char *at = line + sizeof(line) - 4;
        do {
            *--at = (char)('0' + seconds % 10);
            seconds /= 10;
        } while (seconds && at > line + 34);
        shown = write(STDERR_FILENO, line, sizeof(line) - 1) > 0;
    }
    errno = saved;
}

static void set_timer(long every_us)
{
    struct itimerval t = {{0, every_us}, {0, every_us}};
    setitimer(ITIMER_REAL, &t, NULL);
}

void ipsq_progress_begin(void)
{
    const char *term = getenv("TERM");
    struct sigaction act;
    if (!isatty(STDERR_FILENO) || (term && strcmp(term, "dumb") == 0))
        return;
    memset(&act, 0, sizeof(act));
    act.sa_handler = on_tick;
    act.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &act, NULL);
    set_timer(500000);
}

void ipsq_progress_end(void)
{
    set_timer(0);
    if (shown && write(STDERR_FILENO, "\r\033[K", 4) < 0)
        return;
    shown = 0;
}

void ipsq_progress_say(const char *text)
{
    if (!isatty(STDERR_FILENO))
        return;
    ipsq_progress_end();
    shown = dprintf(STDERR_FILENO, "\r%s\033[K", text) > 0;
}
