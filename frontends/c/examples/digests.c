/* Computes SHA-256 of many strings in one call: of an array, and of a column as in tables. */
#include <gantry.h>
#include <stdio.h>
#include <string.h>

static int fails(const char *what, int error)
{
    if (error < 0)
        fprintf(stderr, "%s: %s\n", what, gantry_strerror(error));
    return error < 0;
}

static void print(const unsigned char *digest, size_t len)
{
    for (size_t i = 0; i < len; i++)
        printf("%02x", digest[i]);
    printf("\n");
}

int main(void)
{
    gantry *devices;
    char message[200];
    if (fails("gantry_open", gantry_open(NULL, &devices, message, sizeof message))) {
        fprintf(stderr, "%s\n", message);
        return 1;
    }
    gantry_params params = {0};
    params.size = sizeof params;
    params.algorithm = "sha256";
    gantry_session *session;
    if (fails("gantry_session_open", gantry_session_open(devices, &params, &session)))
        return 1;

    const char *texts[] = {"alice@example.org", "bob@example.org"};
    unsigned char digests[2][32];
    gantry_message messages[2];
    for (int i = 0; i < 2; i++) {
        messages[i].data = texts[i];
        messages[i].len = strlen(texts[i]);
        messages[i].out = digests[i];
    }
    if (fails("gantry_digest_many", gantry_digest_many(session, messages, 2, sizeof digests[0])))
        return 1;
    print(digests[0], sizeof digests[0]);
    print(digests[1], sizeof digests[1]);

    /* The same two values, and a missing one between them. */
    static const int32_t offsets[] = {0, 17, 17, 32};
    static const uint8_t validity[] = {5};
    gantry_column column = {0};
    column.size = sizeof column;
    column.count = 3;
    column.values = "alice@example.orgbob@example.org";
    column.values_len = 32;
    column.offsets = offsets;
    column.offset_bits = 32;
    column.validity = validity;
    unsigned char hashed[3 * 32];
    if (fails("gantry_digest_column", gantry_digest_column(session, &column, hashed, sizeof hashed)))
        return 1;
    for (int i = 0; i < 3; i++)
        print(hashed + 32 * i, 32);

    gantry_session_close(session);
    gantry_close(devices);
    return 0;
}
