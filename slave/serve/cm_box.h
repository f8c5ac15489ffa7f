/*
 * The mailbox of a job that talks with other slaves: the loop puts in what
 * came for it and takes out what is to be sent; the worker does the reverse.
 * A letter belongs to the list it is in.
 *
 * Threads: both; every function takes the lock.
 */
#ifndef IPS_SLAVE_SERVE_CM_BOX_H
#define IPS_SLAVE_SERVE_CM_BOX_H

#include <pthread.h>

#include "analysis/graph/graph.h"
#include "proto/message.h"

/* Letters unread of one job; more is an error of who sends them. */
#define SLAVE_BOX_BYTES (512u << 20)
/* Of one letter; longer data goes in several (`more`). */
#define SLAVE_LETTER_BYTES (4u << 20)
/* A letter of the loop itself: the computation has failed, `data` says why. */
#define SLAVE_LETTER_FAILED 1000u

struct slave_letter {
    struct slave_letter *next;
    uint32_t kind;    /* Ips__CmMessage__Kind, or SLAVE_LETTER_FAILED */
    uint32_t machine; /* from or to; IPS_CM_ROOT the master */
    uint32_t scenario;
    uint64_t count;
    uint32_t of_machine; /* WALK */
    bool more, async;
    struct ips_scenario weights;
    size_t len;
    uint8_t data[];
};
struct slave_letters {
    struct slave_letter *head, **tail;
};

struct slave_box {
    pthread_mutex_t lock;
    struct slave_letters in, out;
    size_t in_bytes;
    bool overflow;
    /* What the loop knows of the connections, for the worker's answer. */
    uint32_t relayed;
    char relayed_why[200];
};

void slave_box_init(struct slave_box *b);
void slave_box_release(struct slave_box *b);
/* NULL: out of memory. Copies `data`. */
struct slave_letter *slave_letter_new(uint32_t kind, uint32_t part,
                                      const void *data, size_t len);
void slave_letters_init(struct slave_letters *l);
void slave_letters_put(struct slave_letters *l, struct slave_letter *letter);
struct slave_letter *slave_letters_get(struct slave_letters *l);
void slave_letters_free(struct slave_letters *l);

/* The loop's: */
void slave_box_deliver(struct slave_box *b, struct slave_letter *letter);
bool slave_box_has_mail(struct slave_box *b);
/* Moves all that is to be sent behind `to`. */
void slave_box_collect(struct slave_box *b, struct slave_letters *to);
/* The worker's: */
/* False: more came than SLAVE_BOX_BYTES, and some of it is lost. */
bool slave_box_read(struct slave_box *b, struct slave_letters *to);
void slave_box_send(struct slave_box *b, struct slave_letter *letter);

#endif
