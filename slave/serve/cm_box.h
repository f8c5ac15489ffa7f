/*
 * The mailbox of a job that exchanges messages ("letters") with other slaves.
 * The event loop puts received letters in and takes out the letters to send;
 * the worker does the reverse. A list owns the letters in it.
 *
 * Threads: both. slave_mailbox_append_received_letter, _has_mail,
 * _take_outgoing, _take_received and _put_outgoing take the lock.
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
/* Kind of a letter that the event loop itself delivers: the computation has
 * failed; `data` has the reason. */
#define SLAVE_LETTER_FAILED 1000u

struct slave_letter {
    struct slave_letter *next;
    /* kind of message: Ips__CmMessage__Kind, or SLAVE_LETTER_FAILED */
    uint32_t kind;
    uint32_t machine; /* the sender or receiver; IPS_CM_ROOT: the master */
    uint32_t scenario;
    uint64_t count;
    /* only for kind WALK: the walk back along the path begins at the send of
     * message number `count` to this machine; UINT32_MAX: at node `count` */
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
    /* why a received letter was lost: IPS_E_LIMIT or IPS_E_NO_MEMORY; 0: none
     * was */
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
void slave_letter_list_init(struct slave_letters *l);
void slave_letters_append(struct slave_letters *l, struct slave_letter *letter);
struct slave_letter *slave_letters_remove_first(struct slave_letters *l);
void slave_letters_free(struct slave_letters *l);

/* Functions that the event loop calls: */
/* Puts a received letter into the mailbox, which then owns it. `letter` NULL:
 * there was no memory for it; the mailbox notes that a letter was lost. */
void slave_mailbox_append_received_letter(struct slave_mailbox *b,
                                          struct slave_letter *letter);
/* Whether there is something for slave_mailbox_move_received_letters to report.
 */
bool slave_mailbox_has_mail_or_lost_mail(struct slave_mailbox *b);
/* Moves all letters that are to be sent to the end of `to`. */
void slave_mailbox_move_outgoing_letters(struct slave_mailbox *b,
                                         struct slave_letters *to);
/* Functions that the worker calls: */
/* Moves all received letters to the end of `to`. If letters were lost, returns
 * IPS_E_LIMIT (more than SLAVE_BOX_BYTES came) or IPS_E_NO_MEMORY; else 0. */
int slave_mailbox_move_received_letters(struct slave_mailbox *b,
                                        struct slave_letters *to);
void slave_mailbox_append_outgoing_letter(struct slave_mailbox *b,
                                          struct slave_letter *letter);

#endif
