/*
 * Addresses as users write them. Catches: an address that reaches another host
 * or port, one of another machine that is taken without TLS, a message that
 * does not name what is wrong.
 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/address.h"

static void test_address__inet(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host;
        int family, port, tls, insecure;
    } cases[] = {
        {"tcp:127.0.0.1:0", "127.0.0.1", AF_INET, 0, 0, 0},
        {"tcp:127.255.0.9:65535", "127.255.0.9", AF_INET, 65535, 0, 0},
        {"tcp:localhost:7070", "127.0.0.1", AF_INET, 7070, 0, 0},
        {"tls:localhost:7070", "127.0.0.1", AF_INET, 7070, 1, 0},
        {"tcp:[::1]:70", "::1", AF_INET6, 70, 0, 0},
        {"tcp:::1:70", "::1", AF_INET6, 70, 0, 0},
        {"tls:10.0.0.5:70", "10.0.0.5", AF_INET, 70, 1, 0},
        {"tls:[fd00::5]:70", "fd00::5", AF_INET6, 70, 1, 0},
        {"tcp:10.0.0.5:70", "10.0.0.5", AF_INET, 70, 0, 1},
        {"tcp:126.0.0.1:70", "126.0.0.1", AF_INET, 70, 0, 1},
        {"tcp:128.0.0.1:70", "128.0.0.1", AF_INET, 70, 0, 1},
        {"tcp:[fd00::5]:70", "fd00::5", AF_INET6, 70, 0, 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct ips_address a;
        struct ips_err err = {0};
        char text[400], host[INET6_ADDRSTRLEN];
        if (cases[i].insecure) {
            assert_int_equal(ips_address_parse(cases[i].text, &a, &err),
                             IPS_E_REFUSED);
            snprintf(text, sizeof(text),
                     "address %s is not loopback: without TLS others on the "
                     "network could read and change everything.",
                     cases[i].text);
            assert_int_equal(strncmp(err.msg, text, strlen(text)), 0);
            ips_address_allow_insecure(true);
        }
        memset(&a, 0xa5, sizeof(a));
        assert_int_equal(ips_address_parse(cases[i].text, &a, &err), 0);
        assert_int_equal(ips_address_check(cases[i].text, &err), 0);
        ips_address_allow_insecure(false);
        assert_string_equal(a.host, cases[i].host);
        assert_string_equal(a.path, "");
        assert_int_equal(a.addr.ss_family, cases[i].family);
        assert_int_equal(a.tls, cases[i].tls);
        assert_int_equal(a.insecure, cases[i].insecure);
        assert_false(a.is_unix);
        const struct sockaddr_in *in = (const void *)&a.addr;
        const struct sockaddr_in6 *in6 = (const void *)&a.addr;
        bool six = cases[i].family == AF_INET6;
        assert_int_equal(a.len, six ? sizeof(*in6) : sizeof(*in));
        assert_int_equal(ntohs(six ? in6->sin6_port : in->sin_port),
                         cases[i].port);
        assert_non_null(inet_ntop(cases[i].family,
                                  six ? (const void *)&in6->sin6_addr
                                      : (const void *)&in->sin_addr,
                                  host, sizeof(host)));
        assert_string_equal(host, cases[i].host);
    }
}

static void test_address__unix(void **state)
{
    (void)state;
    struct ips_address a;
    struct ips_err err = {0};
    char text[200], want[400];
    const struct sockaddr_un *sun = (const void *)&a.addr;
    size_t most = sizeof(sun->sun_path) - 1;
    memcpy(text, "unix:", 5);
    memset(text + 5, 'p', most + 1);
    text[5 + most] = '\0';
    memset(&a, 0xa5, sizeof(a));
    assert_int_equal(ips_address_parse(text, &a, &err), 0);
    assert_string_equal(a.path, text + 5);
    assert_string_equal(sun->sun_path, text + 5);
    assert_int_equal(a.addr.ss_family, AF_UNIX);
    assert_int_equal(a.len, sizeof(*sun));
    assert_true(a.is_unix && !a.tls && !a.insecure && !*a.host);
    text[5 + most] = 'p';
    text[6 + most] = '\0';
    assert_int_equal(ips_address_parse(text, &a, &err), IPS_E_USAGE);
    snprintf(want, sizeof(want),
             "the socket path has 108 bytes, more than the 107 that the kernel "
             "allows: %s: choose a shorter state directory (--state DIR or "
             "IPS_STATE)",
             text + 5);
    assert_string_equal(err.msg, want);
}

static void test_address__refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"unix:", "address \"unix:\" has no socket path"},
        {"host:70", "address host:70: expected unix:PATH, tcp:HOST:PORT or "
                    "tls:HOST:PORT"},
        {"", "address : expected unix:PATH, tcp:HOST:PORT or tls:HOST:PORT"},
        {"tcp:70", "address tcp:70: expected tcp:HOST:PORT"},
        {"tls::70", "address tls::70: expected tls:HOST:PORT"},
        {"tcp:127.0.0.1:", "address tcp:127.0.0.1:: the port must be a number "
                           "up to 65535"},
        {"tcp:127.0.0.1:65536", "address tcp:127.0.0.1:65536: the port must be "
                                "a number up to 65535"},
        {"tcp:127.0.0.1:7x", "address tcp:127.0.0.1:7x: the port must be a "
                             "number up to 65535"},
        {"tcp:127.0.0.1:-1", "address tcp:127.0.0.1:-1: the port must be a "
                             "number up to 65535"},
        {"tcp:127.0.0.1::", "address tcp:127.0.0.1::: the port must be a "
                            "number up to 65535"},
        {"tcp:127.0.0.1:/", "address tcp:127.0.0.1:/: the port must be a "
                            "number up to 65535"},
        {"tls:name:70", "address tls:name:70: HOST must be a numeric address "
                        "such as 10.0.0.5 or [fd00::5]; names are not looked "
                        "up"},
        {"tls:[]:70", "address tls:[]:70: HOST must be a numeric address such "
                      "as 10.0.0.5 or [fd00::5]; names are not looked up"},
        {"tls:[::1:70", "address tls:[::1:70: HOST must be a numeric address "
                        "such as 10.0.0.5 or [fd00::5]; names are not looked "
                        "up"},
        {"tls:::1]:70", "address tls:::1]:70: HOST must be a numeric address "
                        "such as 10.0.0.5 or [fd00::5]; names are not looked "
                        "up"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct ips_err err = {0};
        assert_int_equal(ips_address_check(cases[i].text, &err), IPS_E_USAGE);
        assert_string_equal(err.msg, cases[i].why);
    }
    /* the longest host that is looked at, and one byte more */
    for (size_t len = 255; len <= 256; len++) {
        char text[300], want[600];
        struct ips_err err = {0};
        snprintf(text, sizeof(text), "tcp:%0*d:70", (int)len, 0);
        snprintf(want, sizeof(want), "address %s: %s", text,
                 len < 256 ? "HOST must be a numeric address such as 10.0.0.5 "
                             "or [fd00::5]; names are not looked up"
                           : "expected tcp:HOST:PORT");
        assert_int_equal(ips_address_check(text, &err), IPS_E_USAGE);
        assert_string_equal(err.msg, want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_address__inet),
        cmocka_unit_test(test_address__unix),
        cmocka_unit_test(test_address__refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
