/*
 * Two processes that pass a byte to and fro over a socket pair, COUNT times,
 * with PAUSE microseconds of thinking in between (computed, not slept, so that
 * every event is a message):
 *
 *     chatter COUNT [PAUSE]
 *     chatter --kill COUNT     the parent kills the child after COUNT bytes
 *
 * What was said is known exactly, which is what the tests of lost and doubled
 * data need: COUNT sends and receives each way, one byte each.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void think(long pause_us)
{
    struct timespec begin, now;
    long spent;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
        spent = (now.tv_sec - begin.tv_sec) * 1000000 +
                (now.tv_nsec - begin.tv_nsec) / 1000;
    } while (spent < pause_us);
}

static int child(int fd)
{
    char byte;
    while (read(fd, &byte, 1) == 1)
        if (write(fd, &byte, 1) != 1)
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    int killing = argc > 2 && strcmp(argv[1], "--kill") == 0;
    int pair[2], status;
    if (argc < 2) {
        fprintf(stderr, "usage: chatter [--kill] COUNT [PAUSE_US]\n");
        return 2;
    }
    long count = atol(argv[1 + killing]);
    long pause_us = !killing && argc > 2 ? atol(argv[2]) : 0;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0) {
        perror("chatter: socketpair");
        return 1;
    }
    pid_t pid = fork();
    if (pid < 0) {
        perror("chatter: fork");
        return 1;
    }
    if (pid == 0) {
        close(pair[0]);
        return child(pair[1]);
    }
    close(pair[1]);
    char byte = 'x';
    for (long i = 0; i < count; i++) {
        if (write(pair[0], &byte, 1) != 1 || read(pair[0], &byte, 1) != 1) {
            fprintf(stderr, "chatter: the child is gone\n");
            return 1;
        }
        think(pause_us);
    }
    if (killing) {
        think(20000); /* the child is in its next read by now */
        kill(pid, SIGKILL);
    } else {
        close(pair[0]);
    }
    if (waitpid(pid, &status, 0) != pid)
        return 1;
    printf("%ld bytes each way, child %s %d\n", count,
           WIFSIGNALED(status) ? "signal" : "exit",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return 0;
}
