/*
 * POSIX AIO. Threads of the C library do the I/O, and we record nothing in
 * them. Therefore, for reads from streams, aio_suspend is recorded as a poll
 * that reports the first finished request, and aio_return as the receive of the
 * bytes. lio_listio waits for all of its requests, so it is recorded as one
 * receive for each; the first of these contains the wait.
 *
 * A wait for requests on files only is recorded as a wait for the disk, any
 * other as a wait whose cause is unknown.
 */
#include "agent/preload/wrap.h"

#include "agent/pool/ready.h"
#include "agent/preload/sample/sample.h"

/* The channels of reads that were started and whose result the program has not
 * fetched yet: a hash table. A read may use one of PROBES slots. If all of them
 * are taken, the new read replaces another one, which then leaves no record and
 * counts as lost. */
#define REQUESTS 1024u
#define PROBES 8u
#define BEING_FILLED 1u /* value of `at` while a thread fills the slot */
static struct request {
    _Atomic uint64_t at;   /* address of the aiocb; 0: the slot is free */
    _Atomic uint64_t chan; /* channel id | generation of the process << 32 */
} requests[REQUESTS] IPS_TABLE;

static struct request *request_slot_at_probe(const struct aiocb *a,
                                             unsigned probe)
{
    uint64_t hash = (uint64_t)(uintptr_t)a * 0x9e3779b97f4a7c15ull;
    return &requests[((hash >> 32) + probe) & (REQUESTS - 1)];
}

/* Returns the slot of the request `a`, NULL: it has none. */
static struct request *find_request_slot(const struct aiocb *a)
{
    for (unsigned i = 0; i < PROBES; i++)
        if (atomic_load(&request_slot_at_probe(a, i)->at) ==
            (uint64_t)(uintptr_t)a)
            return request_slot_at_probe(a, i);
    return NULL;
}

static bool is_slot_of_this_process(const struct request *slot)
{
    return atomic_load(&slot->chan) >> 32 == ips_core.generation;
}

/* Claims a slot for the request `a`: one that is free or that a request of the
 * parent process occupies (after fork), else any slot that no other thread is
 * filling. NULL: other threads are filling all of them. */
static struct request *claim_request_slot(const struct aiocb *a)
{
    for (unsigned i = 0; i < 2 * PROBES; i++) {
        struct request *slot = request_slot_at_probe(a, i % PROBES);
        uint64_t old = atomic_load(&slot->at);
        bool lost = old && is_slot_of_this_process(slot);
        if (old == BEING_FILLED || (lost && i < PROBES) ||
            !atomic_compare_exchange_strong(&slot->at, &old, BEING_FILLED))
            continue;
        if (lost)
            ips_core_count_and_write_lost(IPS_LOST_NO_CHANNEL, 1);
        return slot;
    }
    return NULL;
}

static bool is_request_in_progress(const struct aiocb *a)
{
    return __atomic_load_n(&a->__error_code, __ATOMIC_ACQUIRE) == EINPROGRESS;
}

static void remove_stored_aio_read(const struct aiocb *a)
{
    uint64_t at = (uint64_t)(uintptr_t)a;
    struct request *slot = find_request_slot(a);
    if (slot)
        atomic_compare_exchange_strong(&slot->at, &at, 0);
}

/* Returns the channel that the request `a` reads from; 0: none, or unknown. */
static uint32_t find_channel_of_stored_aio_read(const struct aiocb *a)
{
    const struct request *slot = find_request_slot(a);
    /* the program may have reused the aiocb for a write; the C library stores
     * the operation in it */
    if (!slot || a->aio_lio_opcode != LIO_READ ||
        !is_slot_of_this_process(slot))
        return 0;
    uint32_t chan = (uint32_t)atomic_load(&slot->chan);
    return atomic_load(&slot->at) == (uint64_t)(uintptr_t)a ? chan : 0;
}

/* Notes the channel of a read before the read starts, because the descriptor
 * may be closed before the read is done. */
static void store_channel_of_aio_read(const struct aiocb *a)
{
    int saved = errno;
    uint64_t word = ips_fd_get_or_identify(a->aio_fildes);
    bool stream = ips_fd_class(word) == IPS_FD_STREAM && a->aio_nbytes;
    errno = saved;
    /* the program never asked for the result of its last read with `a` */
    if (find_channel_of_stored_aio_read(a))
        ips_core_count_and_write_lost(IPS_LOST_NO_CHANNEL, 1);
    remove_stored_aio_read(a);
    struct request *slot = stream ? claim_request_slot(a) : NULL;
    if (slot) {
        atomic_store(&slot->chan, ips_fd_channel_id(word) |
                                      (uint64_t)ips_core.generation << 32);
        atomic_store(&slot->at, (uint64_t)(uintptr_t)a);
    } else if (stream) {
        ips_core_count_and_write_lost(IPS_LOST_NO_CHANNEL, 1);
    }
}

/* The numbers of requests that a call waits for, by kind. */
struct request_counts {
    /* reads that have channels and did not fail; requests for files; others */
    unsigned reads, files, others;
};

static void count_request_by_kind(struct request_counts *w,
                                  const struct aiocb *a)
{
    if (!a->__error_code && find_channel_of_stored_aio_read(a))
        w->reads++;
    else if (ips_fd_class(ips_fd_get_or_identify(a->aio_fildes)) == IPS_FD_FILE)
        w->files++;
    else
        w->others++;
}

/* Records a wait for requests that are not all reads from streams. */
static void record_wait_for_other_requests(const struct request_counts *w,
                                           struct ips_moment call, int r,
                                           int err, uint64_t site)
{
    if (w->files && !w->reads && !w->others)
        ips_record_wait_if_blocked_or_ready(IPS_OP_DISK, call, 0, 0, site, 0);
    else
        ips_record_wait_if_blocked_or_ready(IPS_OP_OTHER, call, r, err, site,
                                            0);
}

/* Records the read `a`, which returned `r`, unless that was done before. */
static void record_aio_read_once(const struct aiocb *a, ssize_t r,
                                 struct ips_moment call, struct ips_moment ret,
                                 uint64_t site)
{
    uint32_t chan = find_channel_of_stored_aio_read(a);
    if (!chan)
        return;
    remove_stored_aio_read(a);
    if (r >= 0)
        ips_record_io_call(IPS_REC_RECV, chan, IPS_OP_DATA, call, ret, r, 0,
                           site, 0);
}

/* --- starting requests and fetching results ------------------------------- */

IPS_EXPORT int aio_read(struct aiocb *a)
{
    if (!ips_wrap_start_library_and_check_recording())
        return REAL(aio_read)(a);
    store_channel_of_aio_read(a);
    int r = REAL(aio_read)(a);
    if (r < 0)
        remove_stored_aio_read(a);
    return r;
}
int aio_read64(struct aiocb64 *);
IPS_EXPORT int aio_read64(struct aiocb64 *a)
{
    return aio_read((struct aiocb *)a);
}

static ssize_t call_aio_return_and_record(struct aiocb *a, uint64_t site)
{
    if (is_request_in_progress(a) || !find_channel_of_stored_aio_read(a))
        return REAL(aio_return)(a);
    struct ips_moment call = ips_take_call_moment();
    ssize_t r = REAL(aio_return)(a);
    int saved = errno;
    record_aio_read_once(a, r, call, ips_return_moment(&call), site);
    errno = saved;
    return r;
}

IPS_EXPORT ssize_t aio_return(struct aiocb *a)
{
    return ips_wrap_start_library_and_check_recording()
               ? call_aio_return_and_record(a, IPS_SITE)
               : REAL(aio_return)(a);
}
ssize_t aio_return64(struct aiocb64 *);
IPS_EXPORT ssize_t aio_return64(struct aiocb64 *a)
{
    struct aiocb *plain = (struct aiocb *)a;
    return ips_wrap_start_library_and_check_recording()
               ? call_aio_return_and_record(plain, IPS_SITE)
               : REAL(aio_return)(plain);
}

/* --- waiting for requests ------------------------------------------------- */

/* Returns why a poll of the request's descriptor would have returned (enum
 * ips_ready_why). */
static uint32_t readiness_of_done_request(const struct aiocb *a)
{
    return a->__return_value == 0 ? IPS_READY_IN | IPS_READY_HUP : IPS_READY_IN;
}

static int call_aio_suspend_and_record(const struct aiocb *const list[], int n,
                                       const struct timespec *ts, uint64_t site)
{
    const struct timespec *asked = ts;
    struct timespec room;
    struct request_counts w = {0};
    IPS_WAIT_MARK;
    struct ips_moment call = ips_take_call_moment();
    IPS_CALL_BEGINS(IPS_BEGUN(IPS_REC_BLOCK, IPS_OP_OTHER, 0), site, call);
    int r;
    IPS_REPEAT_AFTER_SAMPLE(r, REAL(aio_suspend)(list, n, ts), r == -1, errno,
                            ts = ips_timeout_left(asked, &call, &room));
    int saved = errno;
    const struct aiocb *done = NULL;
    for (int i = 0; r == 0 && i < n && !done; i++)
        done = list[i] && !is_request_in_progress(list[i]) ? list[i] : NULL;
    if (done)
        count_request_by_kind(&w, done);
    if (w.reads)
        ips_record_poll_or_count_failed_poll(
            IPS_OP_POLL, call, 1, 0, site,
            ips_pack_ready_object_and_events(
                find_channel_of_stored_aio_read(done),
                readiness_of_done_request(done)),
            false);
    else
        record_wait_for_other_requests(&w, call, r, saved, site);
    errno = saved;
    return r;
}

IPS_EXPORT int aio_suspend(const struct aiocb *const list[], int n,
                           const struct timespec *ts)
{
    return ips_wrap_start_library_and_check_recording()
               ? call_aio_suspend_and_record(list, n, ts, IPS_SITE)
               : REAL(aio_suspend)(list, n, ts);
}
int aio_suspend64(const struct aiocb64 *const[], int, const struct timespec *);
IPS_EXPORT int aio_suspend64(const struct aiocb64 *const list[], int n,
                             const struct timespec *ts)
{
    const struct aiocb *const *plain = (const struct aiocb *const *)list;
    return ips_wrap_start_library_and_check_recording()
               ? call_aio_suspend_and_record(plain, n, ts, IPS_SITE)
               : REAL(aio_suspend)(plain, n, ts);
}

static bool is_not_nop_request(const struct aiocb *a)
{
    return a && a->aio_lio_opcode != LIO_NOP;
}

typedef int lio_listio_fn(int, struct aiocb *const[], int, struct sigevent *);

static int call_lio_listio_and_record(lio_listio_fn *real, int mode,
                                      struct aiocb *const list[], int n,
                                      struct sigevent *event, uint64_t site)
{
    for (int i = 0; i < n; i++)
        if (list[i] && list[i]->aio_lio_opcode == LIO_READ)
            store_channel_of_aio_read(list[i]);
    if (mode != LIO_WAIT)
        return real(mode, list, n, event);
    struct request_counts w = {0};
    IPS_WAIT_MARK;
    struct ips_moment call = ips_take_call_moment();
    IPS_CALL_BEGINS(IPS_BEGUN(IPS_REC_BLOCK, IPS_OP_OTHER, 0), site, call);
    /* not repeated after a sampling signal: that would start all requests again
     */
    int r = real(mode, list, n, event);
    int saved = errno;
    bool done = r == 0 || saved == EIO;
    for (int i = 0; done && i < n; i++)
        if (is_not_nop_request(list[i]))
            count_request_by_kind(&w, list[i]);
    bool all_reads = w.reads && !w.files && !w.others;
    if (!all_reads)
        record_wait_for_other_requests(&w, call, r, saved, site);
    struct ips_moment ret = ips_return_moment(&call),
                      from = all_reads ? call : ret;
    for (int i = 0; done && i < n; i++)
        if (is_not_nop_request(list[i]) && !is_request_in_progress(list[i]) &&
            find_channel_of_stored_aio_read(list[i])) {
            record_aio_read_once(
                list[i], list[i]->__error_code ? -1 : list[i]->__return_value,
                from, ret, site);
            from = ret;
        }
    errno = saved;
    return r;
}

static int call_lio_listio_and_record_if_on(lio_listio_fn *real, int mode,
                                            struct aiocb *const list[], int n,
                                            struct sigevent *event,
                                            uint64_t site)
{
    bool on = ips_wrap_start_library_and_check_recording() && n > 0;
    ips_sample_pause_timer((uint64_t)(uintptr_t)real);
    return on ? call_lio_listio_and_record(real, mode, list, n, event, site)
              : real(mode, list, n, event);
}

IPS_EXPORT int lio_listio(int mode, struct aiocb *const list[], int n,
                          struct sigevent *event)
{
    ips_wrap_start_library_and_check_recording();
    return call_lio_listio_and_record_if_on(ips_real.lio_listio, mode, list, n,
                                            event, IPS_SITE);
}
int lio_listio64(int, struct aiocb64 *const[], int, struct sigevent *);
IPS_EXPORT int lio_listio64(int mode, struct aiocb64 *const list[], int n,
                            struct sigevent *event)
{
    ips_wrap_start_library_and_check_recording();
    return call_lio_listio_and_record_if_on(
        ips_real.lio_listio, mode, (struct aiocb *const *)(const void *)list, n,
        event, IPS_SITE);
}

#if defined(__x86_64__)
/* The old versions of lio_listio: GLIBC_2.2.5 has its own implementation,
 * GLIBC_2.4 the present one. They are functions and not aliases, since with
 * aliases the linker would leave out the present name. */
#define OLD_LIST(suffix, type, version, real_function)                         \
    int ips_old_lio_listio##suffix(int, type *const[], int,                    \
                                   struct sigevent *);                         \
    IPS_EXPORT int ips_old_lio_listio##suffix(int mode, type *const list[],    \
                                              int n, struct sigevent *event)   \
    {                                                                          \
        ips_wrap_start_library_and_check_recording();                          \
        return call_lio_listio_and_record_if_on(                               \
            real_function, mode, (struct aiocb *const *)(const void *)list, n, \
            event, IPS_SITE);                                                  \
    }                                                                          \
    __asm__(".symver ips_old_lio_listio" #suffix "," version)

static lio_listio_fn *find_old_lio_listio(void)
{
    static lio_listio_fn *_Atomic real;
    if (unlikely(!real))
        real = (lio_listio_fn *)(uintptr_t)ips_find_old_version("lio_listio");
    return real;
}

OLD_LIST(, struct aiocb, "lio_listio@GLIBC_2.2.5", find_old_lio_listio());
OLD_LIST(64, struct aiocb64, "lio_listio64@GLIBC_2.2.5", find_old_lio_listio());
OLD_LIST(_4, struct aiocb, "lio_listio@GLIBC_2.4", ips_real.lio_listio);
OLD_LIST(64_4, struct aiocb64, "lio_listio64@GLIBC_2.4", ips_real.lio_listio);
#endif
