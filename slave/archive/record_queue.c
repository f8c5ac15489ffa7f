/* Queue of record batches between two threads; see archive/record_queue.h. */
#include "slave/archive/record_queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct slave_record_queue {
    pthread_mutex_t lock; /* protects all other members */
    struct slave_batch *first, *last, *unused;
    unsigned slots, made;
};

struct slave_record_queue *slave_record_queue_new(unsigned rooms)
{
    struct slave_record_queue *h = calloc(1, sizeof(*h));
    if (h && pthread_mutex_init(&h->lock, NULL) != 0) {
        free(h);
        return NULL;
    }
    if (h)
        h->slots = rooms;
    return h;
}

static void free_batches(struct slave_record_queue *h, struct slave_batch *b)
{
    while (b) {
        struct slave_batch *next = b->next;
        free(b->data);
        free(b);
        h->made--;
        b = next;
    }
}

void slave_record_queue_free(struct slave_record_queue *h)
{
    if (!h)
        return;
    slave_record_queue_clear(h);
    (void)pthread_mutex_destroy(&h->lock);
    free(h);
}

static void add_to_unused_batches(struct slave_record_queue *h,
                                  struct slave_batch *b)
{
    b->next = h->unused;
    h->unused = b;
}

/* Removes the first waiting batch. */
static struct slave_batch *remove_first_batch(struct slave_record_queue *h)
{
    struct slave_batch *b = h->first;
    h->first = b->next;
    if (!h->first)
        h->last = NULL;
    b->next = NULL;
    return b;
}

static struct slave_batch *
get_or_make_unused_batch(struct slave_record_queue *h)
{
    struct slave_batch *b = h->unused;
    if (b) {
        h->unused = b->next;
        return b;
    }
    b = h->made < h->slots ? calloc(1, sizeof(*b)) : NULL;
    if (b && !(b->data = malloc(SLAVE_FRAMES_BYTES))) {
        free(b);
        b = NULL;
    }
    h->made += b != NULL;
    return b;
}

void slave_record_queue_append_if_room(struct slave_record_queue *h,
                                       uint8_t **buffer, size_t len,
                                       uint64_t from, uint64_t until)
{
    (void)pthread_mutex_lock(&h->lock);
    struct slave_batch *b = h->last;
    if (b && !b->sealed && b->until == from &&
        len <= SLAVE_FRAMES_BYTES - b->len) {
        memcpy(b->data + b->len, *buffer, len);
        b->len += len;
        b->until = until;
    } else if ((b = get_or_make_unused_batch(h))) {
        uint8_t *mine = b->data;
        *b = (struct slave_batch){
            .from = from, .until = until, .len = len, .data = *buffer};
        *buffer = mine;
        if (h->last)
            h->last->next = b;
        else
            h->first = b;
        h->last = b;
    }
    (void)pthread_mutex_unlock(&h->lock);
}

void slave_record_queue_drop_batches_after_length(struct slave_record_queue *h,
                                                  uint64_t length)
{
    (void)pthread_mutex_lock(&h->lock);
    struct slave_batch **p = &h->first;
    h->last = NULL;
    while (*p && (*p)->until <= length) {
        h->last = *p;
        p = &(*p)->next;
    }
    while (*p) {
        struct slave_batch *b = *p;
        *p = b->next;
        add_to_unused_batches(h, b);
    }
    (void)pthread_mutex_unlock(&h->lock);
}

void slave_record_queue_seal_last_batch(struct slave_record_queue *h)
{
    (void)pthread_mutex_lock(&h->lock);
    if (h->last)
        h->last->sealed = true;
    (void)pthread_mutex_unlock(&h->lock);
}

void slave_record_queue_clear(struct slave_record_queue *h)
{
    (void)pthread_mutex_lock(&h->lock);
    free_batches(h, h->first);
    free_batches(h, h->unused);
    h->first = h->last = h->unused = NULL;
    (void)pthread_mutex_unlock(&h->lock);
}

struct slave_batch *
slave_record_queue_take_batches_of_range(struct slave_record_queue *h,
                                         uint64_t from, uint64_t until)
{
    struct slave_batch *taken = NULL, **end = &taken;
    uint64_t at = from;
    (void)pthread_mutex_lock(&h->lock);
    /* drop the batches that the reader has read from the archive already */
    while (h->first && h->first->until <= from)
        add_to_unused_batches(h, remove_first_batch(h));
    while (h->first && h->first->from < until) {
        struct slave_batch *b = remove_first_batch(h);
        bool fits = b->from == at && b->until <= until;
        at = fits ? b->until : UINT64_MAX;
        *end = b;
        end = &b->next;
    }
    /* some bytes of [from, until) are not queued: return no batch */
    while (at != until && taken) {
        struct slave_batch *next = taken->next;
        add_to_unused_batches(h, taken);
        taken = next;
    }
    (void)pthread_mutex_unlock(&h->lock);
    return taken;
}

void slave_record_queue_recycle_batches(struct slave_record_queue *h,
                                        struct slave_batch *b)
{
    (void)pthread_mutex_lock(&h->lock);
    while (b) {
        struct slave_batch *next = b->next;
        add_to_unused_batches(h, b);
        b = next;
    }
    (void)pthread_mutex_unlock(&h->lock);
}
