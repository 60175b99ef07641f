// Makes the first connection of a process, between a client and a server in one thread:
//
//     first CONFIGURATION CIPHERSUITE
//
// A server that has sealed its flight waits for the client's; libssl then looks at the error queue.

#include "must.h"
#include <openssl/ssl.h>
#include <string.h>

// Makes a step of a handshake. Returns 1 if it is complete.
static int step(SSL *ssl, const char *who)
{
    int result = SSL_do_handshake(ssl);
    int error = SSL_get_error(ssl, result);
    must(error == SSL_ERROR_NONE || error == SSL_ERROR_WANT_READ, who);
    return result == 1;
}

static SSL *side(OSSL_LIB_CTX *library, const SSL_METHOD *method, const char *suite, int server)
{
    SSL_CTX *ctx = SSL_CTX_new_ex(library, NULL, method);
    must(ctx != NULL && SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) && SSL_CTX_set_ciphersuites(ctx, suite), suite);
    SSL_CTX_set_security_level(ctx, 0);
    must(!server || SSL_CTX_use_certificate_file(ctx, "cert.pem", SSL_FILETYPE_PEM) == 1, "certificate");
    must(!server || SSL_CTX_use_PrivateKey_file(ctx, "key.pem", SSL_FILETYPE_PEM) == 1, "key");
    SSL *ssl = SSL_new(ctx);
    SSL_CTX_free(ctx);
    return ssl;
}

int main(int count, char **words)
{
    char text[8192] = { 0 }, got[8192];
    BIO *one, *other;
    OSSL_LIB_CTX *library = OSSL_LIB_CTX_new();
    must(count == 3 && OSSL_LIB_CTX_load_config(library, words[1]), "configuration");
    SSL *server = side(library, TLS_server_method(), words[2], 1), *client = side(library, TLS_client_method(), words[2], 0);
    SSL_set_accept_state(server);
    SSL_set_connect_state(client);
    must(BIO_new_bio_pair(&one, 65536, &other, 65536), "pair");
    SSL_set_bio(server, one, one);
    SSL_set_bio(client, other, other);
    int server_is_done = 0, client_is_done = 0;
    for (int round = 0; round < 8 && !(server_is_done && client_is_done); round++) {
        client_is_done = step(client, "client");
        server_is_done = step(server, "server");
    }
    must(server_is_done && client_is_done, "handshake");
    must(SSL_write(server, text, sizeof text) == sizeof text && SSL_read(client, got, sizeof got) == sizeof got, "data");
    must(memcmp(text, got, sizeof got) == 0, "other data");
    printf("%s\n", SSL_get_cipher_name(client));
    SSL_free(server);
    SSL_free(client);
    OSSL_LIB_CTX_free(library);
    return 0;
}
