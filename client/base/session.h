/*
 * Talks to the master: one connection, one request at a time. If --master was
 * not given and no master answers at the default address, a private master and
 * slave are started. They end by themselves when they are no longer needed.
 */
#ifndef IPS_CLIENT_BASE_SESSION_H
#define IPS_CLIENT_BASE_SESSION_H

#include <stdio.h>

#include "client/base/options.h"
#include "proto/message.h"

struct ipsq_session {
    struct ips_client *client;
    uint64_t next_id;
    char address[IPS_PATH_BYTES];
    char state[IPS_PATH_BYTES];
    /* replies of finished requests, kept until the session is closed */
    Ips__Envelope **replies;
    size_t reply_count, reply_capacity;
    bool slaveless; /* no slave is connected to the master, although ipsq tried
                       to start one */
};

/* Connects to --master, else to the default master. ipsq_session_close may be
 * called even after an error. */
int ipsq_session_connect(struct ipsq_session *s, const struct ipsq_options *o,
                         struct ips_err *err) IPS_MUST_USE;
/* Connects like ipsq_session_connect, but starts the default master and its
 * slave if they do not run. */
int ipsq_session_open(struct ipsq_session *s, const struct ipsq_options *o,
                      struct ips_err *err) IPS_MUST_USE;
void ipsq_session_close(struct ipsq_session *s);
/* Called after a failed request: prints a hint to `f` if the slave that was
 * started did not connect. */
void ipsq_session_print_slave_hint(const struct ipsq_session *s, FILE *f);

typedef int ipsq_reply_fn(const Ips__Reply *reply, void *arg,
                          struct ips_err *err);
/* Sends `rq` (its id is set here) and reads replies up to the last. `on_piece`,
 * if not NULL, is called with each reply. Replies are kept until the session is
 * closed, so tables may borrow from them; with `drop` each reply is freed after
 * on_piece returns. *last is the final reply (NULL with `drop`). An error reply
 * of the master becomes the return value. */
int ipsq_session_ask(struct ipsq_session *s, Ips__Request *rq, bool drop,
                     ipsq_reply_fn *on_piece, void *arg,
                     const Ips__Reply **last, struct ips_err *err) IPS_MUST_USE;

/* Rows of several replies as one list; the rows still belong to the replies.
 * Zero it to start; free it with ipsq_rows_release. */
struct ipsq_rows {
    void **row;
    size_t count, capacity;
};
int ipsq_rows_append_array(struct ipsq_rows *rows, void *more, size_t count,
                           struct ips_err *err) IPS_MUST_USE;
void ipsq_rows_release(struct ipsq_rows *rows);

/* Fetches the newest runs, newest first. *left_out: number of older ones not
 * listed. The array is malloc'd; its rows belong to the session. */
int ipsq_session_fetch_runs(struct ipsq_session *s, Ips__RunRow ***rows,
                            size_t *count, uint64_t *left_out,
                            struct ips_err *err) IPS_MUST_USE;

/* Finds the run that `word` names, by its name or a unique beginning of it.
 * `word` NULL: the newest run. *run belongs to the session. */
int ipsq_session_find_run(struct ipsq_session *s, const char *word,
                          const char **run, struct ips_err *err) IPS_MUST_USE;

/* Finds the run that `word` names among `rows`, which are sorted newest first,
 * like ipsq_session_find_run. Pure. */
int ipsq_find_run_in_rows(Ips__RunRow *const *rows, size_t count,
                          const char *word, const char **run,
                          struct ips_err *err) IPS_MUST_USE;

/* These functions (client/base/start.c) start a detached daemon, which inherits
 * no file descriptor and logs to STATE/NAME.log. The master listens at the
 * default address of the state directory. */
int ipsq_start_master(const char *state, struct ips_err *err) IPS_MUST_USE;
int ipsq_start_slave(const char *state, struct ips_err *err) IPS_MUST_USE;

/* The progress line (client/base/progress.c): if the answer takes longer than
 * half a second and standard error is a terminal, a line there shows what the
 * master is doing and for how many seconds. */
void ipsq_progress_start_on_terminal(void);
void ipsq_progress_stop_and_erase_line(void);
/* Whether the progress line will be shown if the answer takes long. */
bool ipsq_progress_wanted(void);
#define IPSQ_WAITING "waiting for the answer"
/* Sets the text of the progress line. It is IPSQ_WAITING until the master
 * reports progress. */
void ipsq_progress_set_text(const char *doing);
/* Ends the progress line and prints `text` in its place, if standard error is a
 * terminal. */
void ipsq_progress_replace_line(const char *text);

#endif
