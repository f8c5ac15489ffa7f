#include "slave/serve/cm_box.h"

#include <stdlib.h>
#include <string.h>

void slave_letters_init(struct slave_letters *l)
{
    l->head = NULL;
    l->tail = &l->head;
}

void slave_letters_put(struct slave_letters *l, struct slave_letter *letter)
{
    letter->next = NULL;
    *l->tail = letter;
    l->tail = &letter->next;
}

struct slave_letter *slave_letters_get(struct slave_letters *l)
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
    while ((letter = slave_letters_get(l)))
        free(letter);
}

static void append_all_letters(struct slave_letters *from,
                               struct slave_letters *to)
{
    if (!from->head)
        return;
    *to->tail = from->head;
    to->tail = from->tail;
    slave_letters_init(from);
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
    slave_letters_init(&b->in);
    slave_letters_init(&b->out);
}

void slave_mailbox_release(struct slave_mailbox *b)
{
    slave_letters_free(&b->in);
    slave_letters_free(&b->out);
    pthread_mutex_destroy(&b->lock);
}

void slave_mailbox_deliver(struct slave_mailbox *b, struct slave_letter *letter)
{
    size_t bytes = letter ? sizeof(*letter) + letter->len : 0;
    pthread_mutex_lock(&b->lock);
    if (!letter || b->in_bytes + bytes > SLAVE_BOX_BYTES) {
        b->lost = letter ? IPS_E_LIMIT : IPS_E_NO_MEMORY;
        free(letter);
    } else {
        b->in_bytes += bytes;
        slave_letters_put(&b->in, letter);
    }
    pthread_mutex_unlock(&b->lock);
}

bool slave_mailbox_has_mail(struct slave_mailbox *b)
{
    pthread_mutex_lock(&b->lock);
    bool any = b->in.head != NULL || b->lost != 0;
    pthread_mutex_unlock(&b->lock);
    return any;
}

void slave_mailbox_take_outgoing(struct slave_mailbox *b,
                                 struct slave_letters *to)
{
    pthread_mutex_lock(&b->lock);
    append_all_letters(&b->out, to);
    pthread_mutex_unlock(&b->lock);
}

int slave_mailbox_take_received(struct slave_mailbox *b,
                                struct slave_letters *to)
{
    pthread_mutex_lock(&b->lock);
    append_all_letters(&b->in, to);
    b->in_bytes = 0;
    int lost = b->lost;
    b->lost = 0;
    pthread_mutex_unlock(&b->lock);
    return lost;
}

void slave_mailbox_put_outgoing(struct slave_mailbox *b,
                                struct slave_letter *letter)
{
    pthread_mutex_lock(&b->lock);
    slave_letters_put(&b->out, letter);
    pthread_mutex_unlock(&b->lock);
}
