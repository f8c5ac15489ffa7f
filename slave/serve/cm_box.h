/*
 * The mailbox of a job that exchanges messages with other slaves. The loop puts
 * received letters in and takes letters to send out; the worker does the
 * reverse. A letter belongs to the list that it is in.
 *
 * Threads: both. slave_mailbox_deliver, _has_mail, _take_outgoing, _read and
 * _send take the lock.
 */
#ifndef IPS_SLAVE_SERVE_CM_BOX_H
#define IPS_SLAVE_SERVE_CM_BOX_H

#include <pthread.h>

#include "analysis/graph/graph.h"
#include "proto/message.h"

/* Maximum bytes of received letters that wait for the job to read them. Letters
 * beyond the limit are lost, and the job fails. */
#define SLAVE_BOX_BYTES (512u << 20)
/* Maximum bytes of data in one letter. Longer data is sent in several letters,
 * all but the last marked `more`. */
#define SLAVE_LETTER_BYTES (4u << 20)
/* A letter from the loop itself: the computation has failed; `data` has the
 * reason. */
#define SLAVE_LETTER_FAILED 1000u

struct slave_letter {
    struct slave_letter *next;
    /* kind of message: Ips__CmMessage__Kind, or SLAVE_LETTER_FAILED */
    uint32_t kind;
    uint32_t machine; /* the sender or receiver; IPS_CM_ROOT: the master */
    uint32_t scenario;
    uint64_t count;
    /* only for WALK: the walk begins at the send of message number `count` to
     * this machine; UINT32_MAX: at node number `count` */
    uint32_t of_machine;
    bool more, async;
    struct ips_scenario weights;
    size_t len;
    uint8_t data[];
};
struct slave_letters {
    struct slave_letter *head, **tail;
};

struct slave_mailbox {
    pthread_mutex_t lock;
    struct slave_letters in, out;
    size_t in_bytes;
    /* IPS_E_LIMIT or IPS_E_NO_MEMORY: a received letter was lost; 0: none */
    int lost;
    /* Number of links that this slave has switched to relaying through the
     * master, and the reason for the first one. The event loop sets both, for
     * the worker's answer. */
    uint32_t relayed;
    char relayed_why[200];
};

void slave_mailbox_init(struct slave_mailbox *b);
void slave_mailbox_release(struct slave_mailbox *b);
/* Makes a letter with a copy of `data`. NULL: out of memory. */
struct slave_letter *slave_letter_new(uint32_t kind, uint32_t part,
                                      const void *data, size_t len);
void slave_letters_init(struct slave_letters *l);
void slave_letters_put(struct slave_letters *l, struct slave_letter *letter);
struct slave_letter *slave_letters_get(struct slave_letters *l);
void slave_letters_free(struct slave_letters *l);

/* Functions that the loop calls: */
/* Puts a received letter into the mailbox; takes ownership of it. NULL: there
 * was no memory for the letter, which is lost. */
void slave_mailbox_deliver(struct slave_mailbox *b,
                           struct slave_letter *letter);
/* Whether there is something for slave_mailbox_take_received to report. */
bool slave_mailbox_has_mail(struct slave_mailbox *b);
/* Moves all letters to send to the end of `to`. */
void slave_mailbox_take_outgoing(struct slave_mailbox *b,
                                 struct slave_letters *to);
/* Functions that the worker calls: */
/* Moves all received letters to the end of `to`. Returns IPS_E_LIMIT if more
 * than SLAVE_BOX_BYTES came, and IPS_E_NO_MEMORY if there was no memory for a
 * letter: letters were lost then. */
int slave_mailbox_take_received(struct slave_mailbox *b,
                                struct slave_letters *to);
void slave_mailbox_put_outgoing(struct slave_mailbox *b,
                                struct slave_letter *letter);

#endif
