/* Opens Gantry with the configuration from files and variables, and hashes until the costs of devices are known. */

#include <gantry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES 4096
#define ROUNDS 400000

int main(void)
{
    char message[1024];
    unsigned char out[32];
    gantry *handle;
    gantry_session *session;
    unsigned char *data = calloc(1, BYTES);
    int error = gantry_open(NULL, &handle, message, sizeof message);
    if (error) {
        printf("error: %s\n", message);
        return 0;
    }
    gantry_params params = {.size = sizeof params, .algorithm = "sha256"};
    if (!data || gantry_session_open(handle, &params, &session))
        return 1;
    gantry_message one = {.data = data, .len = BYTES, .out = out};
    for (int round = 0; round < ROUNDS; round++) {
        if (gantry_digest_many(session, &one, 1, sizeof out))
            return 1;
    }
    gantry_session_close(session);
    gantry_close(handle);
    puts("opened");
    return 0;
}
