/* Shared by the test programs. */
#include <gantry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define must(what) ((what) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what), exit(1)))

/* Converts hexadecimal digits to bytes. */
static size_t hex(const char *digits, unsigned char *bytes)
{
    size_t len = strlen(digits) / 2;
    for (size_t i = 0; i < len; i++) {
        unsigned byte;
        must(sscanf(digits + 2 * i, "%2x", &byte) == 1);
        bytes[i] = (unsigned char)byte;
    }
    return len;
}

static int is(const unsigned char *bytes, const char *digits)
{
    unsigned char expected[256];
    size_t len = hex(digits, expected);
    return memcmp(bytes, expected, len) == 0;
}

static gantry *opened(const char *configuration)
{
    gantry *devices = NULL;
    char message[300];
    if (gantry_open(configuration, &devices, message, sizeof message) != GANTRY_OK) {
        fprintf(stderr, "%s\n", message);
        exit(1);
    }
    return devices;
}

static gantry_params params_of(const char *algorithm, const void *key, size_t key_len)
{
    gantry_params params;
    memset(&params, 0, sizeof params);
    params.size = sizeof params;
    params.algorithm = algorithm;
    params.key = key;
    params.key_len = key_len;
    return params;
}

static gantry_session *session_of(gantry *devices, const char *algorithm, const void *key, size_t key_len)
{
    gantry_params params = params_of(algorithm, key, key_len);
    gantry_session *session = NULL;
    must(gantry_session_open(devices, &params, &session) == GANTRY_OK);
    return session;
}

static gantry_request request_of(uint32_t operation, const void *in, size_t in_len, void *out, size_t out_len)
{
    gantry_request request;
    memset(&request, 0, sizeof request);
    request.size = sizeof request;
    request.operation = operation;
    request.result = -1000;
    request.in = in;
    request.in_len = in_len;
    request.out = out;
    request.out_len = out_len;
    return request;
}

#define SHA256_OF_ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
