/* ipsq asks the master and prints the answer: client/shell/command_line.c. */
#include <signal.h>

#include "client/base/command.h"

int main(int argc, char **argv)
{
    /* Into a pipe that is closed (`ipsq why | head`) we end at once and say
     * nothing, also where who started us ignores the signal. What is written to
     * the master raises none. */
    signal(SIGPIPE, SIG_DFL);
    return ipsq_command_line(argc, argv);
}
