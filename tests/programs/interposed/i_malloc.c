/* A program with a malloc of its own, which makes calls that a guest may stand
 * in front of - the first before main, from the loader's own work - and is
 * itself called within them. */
#include <errno.h>
#include <pthread.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static alignas(16) char arena[4 << 20];
static size_t used;
static int p[2];
static volatile long calls; /* the compiler thinks it knows malloc */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void *malloc(size_t n);
void free(void *old);
void *calloc(size_t n, size_t each);
void *realloc(void *old, size_t n);

void *malloc(size_t n)
{
    char c = 'm';
    pthread_mutex_lock(&lock);
    if (!p[1] && pipe(p))
        _exit(98);
    if (write(p[1], &c, 1) != 1 || read(p[0], &c, 1) != 1)
        _exit(97);
    calls++;
    size_t bytes = (n + 31) / 16 * 16;
    if (used + bytes > sizeof(arena)) {
        pthread_mutex_unlock(&lock);
        errno = ENOMEM;
        return NULL;
    }
    char *block = arena + used;
    used += bytes;
    memcpy(block, &n, sizeof(n));
    pthread_mutex_unlock(&lock);
    return block + 16;
}
void free(void *old)
{
    (void)old;
}
void *calloc(size_t n, size_t each)
{
    return malloc(n * each); /* never used before: zero */
}
void *realloc(void *old, size_t n)
{
    void *fresh = malloc(n);
    size_t had = 0;
    if (old)
        memcpy(&had, (char *)old - 16, sizeof(had));
    if (fresh && old)
        memcpy(fresh, old, had < n ? had : n);
    return fresh;
}

static void *body(void *arg)
{
    char *text = malloc(100);
    snprintf(text, 100, "thread %ld", (long)arg);
    return text;
}

int main(void)
{
    for (long i = 0; i < 10; i++) {
        pthread_t t;
        void *text;
        if (pthread_create(&t, NULL, body, (void *)i) || pthread_join(t, &text))
            return 1;
        puts(text);
    }
    printf("called %d\n", calls >= 10);
    return 0;
}
