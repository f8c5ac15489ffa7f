/* i_requests COUNT: as many reads by POSIX AIO, of one byte each, are done
 * before the first of them is asked for its result. */
#include <aio.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST 4000
static struct aiocb requests[MOST];
static char sent[MOST], got[MOST];

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 0, p[2];
    if (count < 1 || count > MOST || pipe(p) ||
        write(p[1], sent, (size_t)count) != count)
        return 1;
    for (int i = 0; i < count; i++) {
        requests[i].aio_fildes = p[0];
        requests[i].aio_buf = got + i;
        requests[i].aio_nbytes = 1;
        if (aio_read(&requests[i]))
            return 2;
    }
    for (int i = 0; i < count; i++)
        while (aio_error(&requests[i]) == EINPROGRESS)
            sched_yield();
    for (int i = 0; i < count; i++)
        if (aio_return(&requests[i]) != 1)
            return 3;
    return 0;
}
