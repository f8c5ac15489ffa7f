/*
 * Frames: u32 length (little endian), then a packed ips.Envelope. Decoding is
 * a pure step over a byte buffer, so the fuzzer and the tests need no socket.
 * Source: docs/protocol.md.
 */
#ifndef IPS_PROTO_FRAME_H
#define IPS_PROTO_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "proto/ips.pb-c.h"

#define IPS_PROTOCOL 1
#define IPS_FRAME_MAX_BYTES (8u << 20)    /* one frame */
#define IPS_HELLO_MAX_BYTES 4096u         /* until the peer said Hello */
#define IPS_HELLO_WAIT_S 10               /* and no longer than this */
#define IPS_DECODE_MAX_BYTES (256u << 20) /* one message, unpacked */
#define IPS_PIECE_ITEMS 65536u            /* nodes or rows in one piece */
#define IPS_OUT_BUFFER_BYTES                                                   \
    (64u << 20) /* unsent, then the peer is dropped                            \
                 */

/* Length of the frame at the head of `len` bytes, header included: > 0 whole
 * frame present; 0 more bytes needed; < 0 the frame is refused (longer than
 * `max`): checked before anything is allocated. */
int64_t ips_frame_length(const uint8_t *data, size_t len, size_t max,
                         struct ips_err *err) IPS_MUST_USE;

/* Unpacks a whole frame. NULL with err set where it is no Envelope with a
 * body. Free with ips__envelope__free_unpacked. */
Ips__Envelope *ips_frame_decode(const uint8_t *data, size_t len,
                                struct ips_err *err) IPS_MUST_USE;

/* Packs into malloc'd memory (owned by the caller), header included. */
int ips_frame_encode(const Ips__Envelope *env, uint8_t **data, size_t *len,
                     struct ips_err *err) IPS_MUST_USE;

#endif
