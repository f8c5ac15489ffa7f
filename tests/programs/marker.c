/* marker FIRST COUNT [PAUSE_US]: sets COUNT marks numbered from FIRST, with a
 * pause between them, telling each on standard output (unbuffered) after it is
 * set. For tests that count what arrives. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/api/ips.h"

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: marker FIRST COUNT [PAUSE_US]\n");
        return 2;
    }
    unsigned long first = strtoul(argv[1], NULL, 10);
    unsigned long count = strtoul(argv[2], NULL, 10);
    unsigned pause_us = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
    for (unsigned long i = first; i < first + count; i++) {
        char text[32];
        int n = snprintf(text, sizeof(text), "%lu\n", i);
        text[n - 1] = '\0';
        ips_mark(text);
        text[n - 1] = '\n';
        if (write(STDOUT_FILENO, text, (size_t)n) != n)
            return 1;
        if (pause_us)
            usleep(pause_us);
    }
    return 0;
}
