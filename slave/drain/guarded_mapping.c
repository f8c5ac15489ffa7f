/* Mappings that survive a truncated file; see drain/guarded_mapping.h. */
#include "slave/drain/guarded_mapping.h"

#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* where on_sigbus() jumps to; NULL: this thread is not accessing a mapping */
static _Thread_local sigjmp_buf *volatile way_out;
static _Thread_local const struct slave_guarded_mapping *volatile looked_at;
static struct sigaction before;
static _Atomic unsigned views;

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
    (void)context;
    const struct slave_guarded_mapping *v = looked_at;
    uintptr_t at = (uintptr_t)info->si_addr;
    if (way_out && at - (uintptr_t)v->data < v->len)
        siglongjmp(*way_out, 1);
    /* Not our mapping: restore the earlier handler; the instruction faults
     * again and that handler gets the signal. */
    (void)sigaction(sig, &before, NULL);
}

/* Installs the SIGBUS handler if it is not installed. Called for each new
 * mapping, because a library may have replaced the handler since. */
static bool install_sigbus_handler(void)
{
    struct sigaction now;
    const struct sigaction a = {.sa_sigaction = on_sigbus,
                                /* SA_NODEFER: siglongjmp leaves the handler, so
                                 * nothing would unblock SIGBUS */
                                .sa_flags = SA_SIGINFO | SA_NODEFER};
    if (sigaction(SIGBUS, NULL, &now) < 0)
        return false;
    if (now.sa_sigaction == on_sigbus)
        return true;
    before = now;
    return sigaction(SIGBUS, &a, NULL) == 0;
}

bool slave_guarded_open(struct slave_guarded_mapping *v, int fd, size_t len)
{
    void *p = MAP_FAILED;
    *v = (struct slave_guarded_mapping){0};
    if (len == 0 || !install_sigbus_handler())
        return false;
    if (atomic_fetch_add(&views, 1) < SLAVE_VIEWS_MAX)
        p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        atomic_fetch_sub(&views, 1);
        return false;
    }
    *v = (struct slave_guarded_mapping){.data = p, .len = len};
    return true;
}

void slave_guarded_close(struct slave_guarded_mapping *v)
{
    if (v->data) {
        (void)munmap(v->data, v->len);
        atomic_fetch_sub(&views, 1);
    }
    *v = (struct slave_guarded_mapping){0};
}

size_t slave_guarded_allocated_end(struct slave_guarded_mapping *v, int fd,
                                   size_t at, size_t upto)
{
    if (v->whole < upto && v->whole < v->len) {
        off_t hole = lseek(fd, (off_t)at, SEEK_HOLE);
        if (hole > (off_t)v->whole)
            v->whole = (size_t)hole < v->len ? (size_t)hole : v->len;
    }
    return v->whole;
}

bool slave_guarded_call(const struct slave_guarded_mapping *v,
                        void (*look)(void *), void *arg)
{
    sigjmp_buf here;
    if (sigsetjmp(here, 0) != 0) {
        way_out = NULL;
        return false;
    }
    looked_at = v;
    way_out = &here;
    atomic_signal_fence(memory_order_seq_cst);
    look(arg);
    atomic_signal_fence(memory_order_seq_cst);
    way_out = NULL;
    return true;
}

struct bytes {
    void *to;
    const void *from; /* source; NULL: fill with zeroes */
    size_t len;
};

static void copy_or_zero_bytes(void *arg)
{
    const struct bytes *b = arg;
    if (b->from)
        memcpy(b->to, b->from, b->len);
    else
        memset(b->to, 0, b->len);
}

bool slave_guarded_copy(const struct slave_guarded_mapping *v, size_t at,
                        void *out, size_t len)
{
    struct bytes b = {out, v->data + at, len};
    return at <= v->len && len <= v->len - at &&
           slave_guarded_call(v, copy_or_zero_bytes, &b);
}

bool slave_guarded_zero_bytes(const struct slave_guarded_mapping *v,
                              size_t from, size_t to)
{
    struct bytes b = {v->data + from, NULL, to - from};
    return from <= to && to <= v->len &&
           slave_guarded_call(v, copy_or_zero_bytes, &b);
}
