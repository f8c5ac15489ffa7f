/* ipsq asks the master and prints the answer: client/command_line.c. */
#include "client/command.h"

int main(int argc, char **argv)
{
    return ipsq_command_line(argc, argv);
}
