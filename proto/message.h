/*
 * Builds the messages that slave, master and client all send: Hello, requests
 * and replies in their envelope, errors.
 */
#ifndef IPS_PROTO_MESSAGE_H
#define IPS_PROTO_MESSAGE_H

#include <math.h>

#include "proto/peer.h"

/* Values on the wire that mean "not measured" (proto/ips.proto). */
#define IPS_UNMEASURED UINT64_MAX
#define IPS_UNMEASURED_REAL ((double)NAN)

/* In an answer's certificate, the reason for incompleteness that counts
 * unrecorded processes ends with these words. */
#define IPS_GAP_UNRECORDED " ran unrecorded"

/* Returns a Hello of this build. Its strings are borrowed; a slave sets machine
 * and boot_id before it sends the Hello. */
Ips__Hello ips_make_hello(Ips__Hello__Role role);
void ips_send_hello(struct ips_peer *peer, const Ips__Hello *hello);

/* These functions put a message into an envelope and send it. The message is
 * packed at once, so the caller may free it. */
void ips_send_request(struct ips_peer *peer, const Ips__Request *request);
void ips_send_reply(struct ips_peer *peer, const Ips__Reply *reply);
void ips_send_report(struct ips_peer *peer, const Ips__Report *report);
void ips_send_chandy_misra_message(struct ips_peer *peer,
                                   const Ips__CmMessage *message);

/* Sends the error `why` as the last reply to request `id`. Its code is an
 * ips_errcode. */
void ips_send_error(struct ips_peer *peer, uint64_t id,
                    const struct ips_err *why);

/* Returns 0, or the error that the reply carries, which is also stored in err.
 * An unknown code becomes IPS_E_PROTOCOL. */
int ips_reply_get_error(const Ips__Reply *reply,
                        struct ips_err *err) IPS_MUST_USE;

/* Returns `text` without const, or "" for NULL: protobuf-c takes char * even
 * where it only reads. */
char *ips_unconst_text(const char *text);

#endif
