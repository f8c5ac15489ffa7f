/* main() of ipsq, which asks the master and prints the answer.
 * client/shell/command_line.c does the work. */
#include <signal.h>

#include "client/base/command.h"

int main(int argc, char **argv)
{
    /* When writing to a closed pipe (`ipsq why | head`), end at once without a
     * message, even if our parent ignores SIGPIPE. Writes to the master never
     * raise the signal. */
    signal(SIGPIPE, SIG_DFL);
    return ipsq_run_command_line(argc, argv);
}
