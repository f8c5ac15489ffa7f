/*
 * The words of a plan: kinds of channels and operations. The generator
 * (tests/oracle/random_program.py) reads them from here, so a name is written
 * once. One a line, in this order.
 */
#pragma once

#include <stdint.h>

enum channel_kind {
    PIPE,
    UNIX_PAIR,
    UNIX_STREAM, /* by name: connect, accept */
    TCP,
    UDP,
    UNIX_DGRAM,
    EVENTFD
};

/* Side 0 of a channel reads, side 1 writes. */
enum operation {
    SETUP,         /* makes all channels */
    COMPUTE,       /* us */
    SLEEP,         /* us */
    HIDE,          /* us: a sleep that nobody sees */
    AWAIT,         /* thread, its operation: until it sleeps in it */
    AFTER,         /* thread, its operation: until that is over; unseen too */
    SEND,          /* channel, bytes, by send instead of write */
    RECEIVE,       /* channel, bytes or 0, bytes a call, 0-3: nothing, poll,
                    * epoll, select before */
    RECEIVE_BOTH,  /* channel, bytes, channel, bytes: as they come, by poll */
    SEND_BROKEN,   /* channel: until nobody is left that reads */
    SEND_DATAGRAM, /* channel, bytes */
    CLOSE,         /* channel, side */
    SHUTDOWN,      /* channel */
    CONNECT,       /* channel */
    ACCEPT,        /* channel */
    TRIM,          /* bits of the ends to keep: 48, 48 */
    CREATE,        /* thread */
    JOIN,          /* thread */
    FORK,          /* thread: main one of the child */
    SPAWN,         /* thread: main one of a new image */
    EXEC,          /* the same thread goes on in a new image */
    WAIT,          /* thread: main one of a child */
    KILL,          /* thread, signal, 0-2: process, thread, with a value */
    SIGWAIT,       /* signal */
    SIGSUSPEND,    /* signal: a handler takes it */
    EVENTFD_WRITE, /* channel */
    EVENTFD_READ,  /* channel */
    LOCK,          /* object, here and below */
    UNLOCK,
    READ_LOCK,
    WRITE_LOCK,
    RW_UNLOCK,
    COND_WAIT, /* condition, mutex */
    COND_SIGNAL,
    COND_BROADCAST,
    SEM_WAIT,
    SEM_POST,
    SHARED_WAIT, /* a semaphore of all processes, here and below */
    SHARED_POST,
    SHARED_LOCK, /* a mutex of all processes */
    SHARED_UNLOCK,
    FILE_LOCK, /* object, 0-1: flock, fcntl */
    FILE_UNLOCK,
    PIDFD_POLL,  /* thread: main one of a child; 0-2: poll, epoll, select */
    FIFO_OPEN,   /* number of a FIFO, side; it is not closed */
    STOP,        /* this process stops itself */
    GO_ON,       /* thread: main one of a process, once that is stopped */
    MESSAGE_PUT, /* queue, which holds one message, here and below */
    MESSAGE_TAKE,
    BARRIER_INIT, /* object, threads */
    BARRIER_WAIT
};
