#include "client/base/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

static unsigned of_all; /* width set by ipsq_set_terminal_width; 0: not set */

unsigned ipsq_terminal_width(FILE *file)
{
    struct winsize size = {0};
    if (of_all)
        return of_all;
    return ioctl(fileno(file), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void ipsq_set_terminal_width(unsigned columns)
{
    of_all = columns;
}

bool ipsq_has_color(FILE *file)
{
    const char *refused = getenv("NO_COLOR"), *term = getenv("TERM");
    return !(refused && *refused) && term && strcmp(term, "dumb") != 0 &&
           isatty(fileno(file));
}

bool ipsq_is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        const char *value = getenv(names[i]);
        if (!value || !*value)
            continue; /* not set: the next variable decides */
        const char *set = strchr(value, '.');
        return set && (strncasecmp(set, ".utf-8", 6) == 0 ||
                       strncasecmp(set, ".utf8", 5) == 0);
    }
    return false;
}
