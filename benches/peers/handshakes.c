/*
 * Full handshakes of TLS 1.3, over a socket of this machine.
 *
 *     handshakes server SOCKET GROUP CERTIFICATE KEY      until SIGTERM; prints a line when it is ready, and figures as JSON at the end
 *     handshakes client SOCKET GROUP CERTIFICATE COUNT    COUNT connections, one after the other
 *
 * The server's figures omit its first WARM handshakes, in which a provider may still measure. Memory is that of the resident pages.
 *
 * Built by benches/peers/handshakes.py with: cc -O2 handshakes.c -lssl -lcrypto
 */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PEER "handshakes"
#include "peer.h"

enum { WARM = 1000 };

static int listener = -1;

static void must(int good, const char *what)
{
    if (good)
        return;
    ERR_print_errors_fp(stderr);
    fail(what);
}

static double cpu_seconds(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static long resident_kib(void)
{
    long all, resident = 0;
    FILE *pages = fopen("/proc/self/statm", "r");
    must(pages && fscanf(pages, "%ld %ld", &all, &resident) == 2, "/proc/self/statm");
    fclose(pages);
    return resident * sysconf(_SC_PAGESIZE) / 1024;
}

/* Makes accept() fail. */
static void stop(int number)
{
    (void)number;
    shutdown(listener, SHUT_RDWR);
}

static void serve(SSL_CTX *context)
{
    unsigned long count = 0;
    uint64_t begun = 0, last = 0;
    double cpu = 0;
    long resident = 0;

    signal(SIGTERM, stop);
    for (;; count++) {
        if (count == WARM) {
            begun = nanoseconds(CLOCK_MONOTONIC);
            cpu = cpu_seconds();
            resident = resident_kib();
        }
        const int connection = accept(listener, NULL, NULL);
        if (connection < 0)
            break;
        SSL *tls = SSL_new(context);
        must(tls && SSL_set_fd(tls, connection) && SSL_accept(tls) == 1, "a handshake");
        SSL_free(tls);
        close(connection);
        last = nanoseconds(CLOCK_MONOTONIC);
    }
    if (count <= WARM)
        fail("too few handshakes");
    printf("{\"library\":\"%s\",\"count\":%lu,\"wall_s\":%.6f,\"cpu_s\":%.6f,\"first_kib\":%ld,\"last_kib\":%ld}\n",
           OpenSSL_version(OPENSSL_VERSION_STRING), count - WARM, (double)(last - begun) / 1e9, cpu_seconds() - cpu, resident,
           resident_kib());
}

int main(int argc, char **argv)
{
    must(argc == 6, "usage: handshakes server|client SOCKET GROUP CERTIFICATE KEY|COUNT");
    const int serves = strcmp(argv[1], "server") == 0;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    must(strlen(argv[2]) < sizeof(address.sun_path), "a shorter path");
    strcpy(address.sun_path, argv[2]);

    signal(SIGPIPE, SIG_IGN);
    SSL_CTX *context = SSL_CTX_new(serves ? TLS_server_method() : TLS_client_method());
    must(context && SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION), "a context");
    must(SSL_CTX_set1_groups_list(context, argv[3]), "the group");
    if (serves) {
        must(SSL_CTX_use_certificate_chain_file(context, argv[4]) && SSL_CTX_use_PrivateKey_file(context, argv[5], SSL_FILETYPE_PEM),
             "the certificate");
        must(SSL_CTX_set_num_tickets(context, 0), "no tickets");
        listener = socket(AF_UNIX, SOCK_STREAM, 0);
        must(bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(listener, 64) == 0, "the socket");
        must(puts("ready") >= 0 && fflush(stdout) == 0, "output");
        serve(context);
        return 0;
    }
    must(SSL_CTX_load_verify_locations(context, argv[4], NULL), "the certificate");
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    for (unsigned long left = strtoul(argv[5], NULL, 10); left; left--) {
        const int connection = socket(AF_UNIX, SOCK_STREAM, 0);
        must(connect(connection, (struct sockaddr *)&address, sizeof(address)) == 0, "a connection");
        SSL *tls = SSL_new(context);
        must(tls && SSL_set_fd(tls, connection) && SSL_connect(tls) == 1, "a handshake");
        SSL_free(tls);
        close(connection);
    }
    return 0;
}
