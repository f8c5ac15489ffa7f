#include "proto/message.h"

#include <string.h>

char *ips_unconst_text(const char *text)
{
    union {
        const char *in;
        char *out;
    } u = {.in = text ? text : ""};
    return u.out;
}

Ips__Hello ips_make_hello(Ips__Hello__Role role)
{
    Ips__Hello hello = IPS__HELLO__INIT;
    hello.protocol = IPS_PROTOCOL;
    hello.version = ips_unconst_text(IPS_VERSION);
    hello.role = role;
    return hello;
}

void ips_send_hello(struct ips_peer *peer, const Ips__Hello *hello)
{
    /* The copy only drops const: packing does not change it. */
    Ips__Hello copy = *hello;
    Ips__Envelope env = IPS__ENVELOPE__INIT;
    env.body_case = IPS__ENVELOPE__BODY_HELLO;
    env.hello = &copy;
    ips_peer_send(peer, &env);
}

void ips_send_request(struct ips_peer *peer, const Ips__Request *request)
{
    /* The copy only drops const: packing does not change it. */
    Ips__Request copy = *request;
    Ips__Envelope env = IPS__ENVELOPE__INIT;
    env.body_case = IPS__ENVELOPE__BODY_REQUEST;
    env.request = &copy;
    ips_peer_send(peer, &env);
}

void ips_send_reply(struct ips_peer *peer, const Ips__Reply *reply)
{
    /* The copy only drops const: packing does not change it. */
    Ips__Reply copy = *reply;
    Ips__Envelope env = IPS__ENVELOPE__INIT;
    env.body_case = IPS__ENVELOPE__BODY_REPLY;
    env.reply = &copy;
    ips_peer_send(peer, &env);
}

void ips_send_report(struct ips_peer *peer, const Ips__Report *report)
{
    /* The copy only drops const: packing does not change it. */
    Ips__Report copy = *report;
    Ips__Envelope env = IPS__ENVELOPE__INIT;
    env.body_case = IPS__ENVELOPE__BODY_REPORT;
    env.report = &copy;
    ips_peer_send(peer, &env);
}

void ips_send_chandy_misra_message(struct ips_peer *peer,
                                   const Ips__CmMessage *message)
{
    /* The copy only drops const: packing does not change it. */
    Ips__CmMessage copy = *message;
    Ips__Envelope env = IPS__ENVELOPE__INIT;
    env.body_case = IPS__ENVELOPE__BODY_CM;
    env.cm = &copy;
    ips_peer_send(peer, &env);
}

void ips_send_error(struct ips_peer *peer, uint64_t id,
                    const struct ips_err *why)
{
    Ips__Reply reply = IPS__REPLY__INIT;
    reply.id = id;
    reply.last = true;
    reply.error = why->code ? why->code : IPS_E_IO;
    reply.message = ips_unconst_text(why->msg);
    ips_send_reply(peer, &reply);
}

int ips_reply_get_error(const Ips__Reply *reply, struct ips_err *err)
{
    if (reply->error == 0)
        return 0;
    int code = reply->error;
    if (strcmp(ips_err_text_of_code(code), ips_err_text_of_code(1)) == 0)
        code = IPS_E_PROTOCOL;
    return ips_err_set(err, code, "%s",
                       reply->message && *reply->message
                           ? reply->message
                           : ips_err_text_of_code(code));
}
