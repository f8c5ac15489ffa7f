#include "slave/serve/cm_box.h"

#include <stdlib.h>
#include <string.h>

void slave_letter_list_init(struct slave_letters *l)
{
    l->head = NULL;
    l->tail = &l->head;
}

void slave_letters_append(struct slave_letters *l, struct slave_letter *letter)
{
    letter->next = NULL;
    *l->tail = letter;
    l->tail = &letter->next;
}

struct slave_letter *slave_letters_remove_first(struct slave_letters *l)
{
    struct slave_letter *letter = l->head;
    if (!letter)
        return NULL;
    l->head = letter->next;
    if (!l->head)
        l->tail = &l->head;
    letter->next = NULL;
    return letter;
}

void slave_letters_free(struct slave_letters *l)
{
    struct slave_letter *letter;
    while ((letter = slave_letters_remove_first(l)))
        free(letter);
}

static void move_letters_to_end_of_list(struct slave_letters *from,
                                        struct slave_letters *to)
{
    if (!from->head)
        return;
    *to->tail = from->head;
    to->tail = from->tail;
    slave_letter_list_init(from);
}

struct slave_letter *slave_letter_new(uint32_t kind, uint32_t part,
                                      const void *data, size_t len)
{
    struct slave_letter *letter = calloc(1, sizeof(*letter) + len);
    if (!letter)
        return NULL;
    letter->kind = kind;
    letter->machine = part;
    letter->len = len;
    if (len)
        memcpy(letter->data, data, len);
    return letter;
}

void slave_mailbox_init(struct slave_mailbox *b)
{
    memset(b, 0, sizeof(*b));
    pthread_mutex_init(&b->lock, NULL);
    slave_letter_list_init(&b->in);
    slave_letter_list_init(&b->out);
}

void slave_mailbox_release(struct slave_mailbox *b)
{
    slave_letters_free(&b->in);
    slave_letters_free(&b->out);
    pthread_mutex_destroy(&b->lock);
}

void slave_mailbox_append_received_letter(struct slave_mailbox *b,
                                          struct slave_letter *letter)
{
    size_t bytes = letter ? sizeof(*letter) + letter->len : 0;
    pthread_mutex_lock(&b->lock);
    if (!letter || b->in_bytes + bytes > SLAVE_BOX_BYTES) {
        b->lost = letter ? IPS_E_LIMIT : IPS_E_NO_MEMORY;
        free(letter);
    } else {
        b->in_bytes += bytes;
        slave_letters_append(&b->in, letter);
    }
    pthread_mutex_unlock(&b->lock);
}

bool slave_mailbox_has_mail_or_lost_mail(struct slave_mailbox *b)
{
    pthread_mutex_lock(&b->lock);
    bool any = b->in.head != NULL || b->lost != 0;
    pthread_mutex_unlock(&b->lock);
    return any;
}

void slave_mailbox_move_outgoing_letters(struct slave_mailbox *b,
                                         struct slave_letters *to)
{
    pthread_mutex_lock(&b->lock);
    move_letters_to_end_of_list(&b->out, to);
    pthread_mutex_unlock(&b->lock);
}

int slave_mailbox_move_received_letters(struct slave_mailbox *b,
                                        struct slave_letters *to)
{
    pthread_mutex_lock(&b->lock);
    move_letters_to_end_of_list(&b->in, to);
    b->in_bytes = 0;
    int lost = b->lost;
    b->lost = 0;
    pthread_mutex_unlock(&b->lock);
    return lost;
}

void slave_mailbox_append_outgoing_letter(struct slave_mailbox *b,
                                          struct slave_letter *letter)
{
    pthread_mutex_lock(&b->lock);
    slave_letters_append(&b->out, letter);
    pthread_mutex_unlock(&b->lock);
}
