/* sha256sum with files side by side, each in chunks, so that many small files and some large ones fill the lanes.
 *
 *     files FILE... */
#include <gantry.h>
#include <stdio.h>
#include <stdlib.h>

enum { AT_A_TIME = 16, PIECE = 64 << 10 };

struct file {
    const char *name;
    FILE *handle;
    gantry_stream *stream;
    unsigned char piece[PIECE];
};

static struct file files[AT_A_TIME];

/* Returns 0 if all files were read and hashed. */
static int hash(gantry_session *session, char **names, int count)
{
    int open = 0, failed = 0;
    for (int i = 0; i < count; i++) {
        struct file *file = &files[open];
        file->name = names[i];
        file->handle = fopen(file->name, "rb");
        if (!file->handle || gantry_stream_open(session, (size_t)count, &file->stream) < 0) {
            perror(file->name);
            failed = 1;
            continue;
        }
        open++;
    }
    for (int rest = open; rest > 0;) {
        gantry_piece pieces[AT_A_TIME];
        size_t fed = 0;
        for (int i = 0; i < open; i++) {
            struct file *file = &files[i];
            size_t len = file->handle ? fread(file->piece, 1, PIECE, file->handle) : 0;
            if (len > 0) {
                pieces[fed].stream = file->stream;
                pieces[fed].data = file->piece;
                pieces[fed++].len = len;
            } else if (file->handle) {
                if (ferror(file->handle)) {
                    fprintf(stderr, "%s: cannot be read\n", file->name);
                    file->name = NULL;
                    failed = 1;
                }
                fclose(file->handle);
                file->handle = NULL;
                rest--;
            }
        }
        int error = gantry_stream_update_many(pieces, fed);
        if (error < 0) {
            fprintf(stderr, "%s\n", gantry_strerror(error));
            exit(1);
        }
    }
    for (int i = 0; i < open; i++) {
        unsigned char digest[32];
        if (gantry_stream_final(files[i].stream, digest, sizeof digest) < 0)
            exit(1);
        gantry_stream_close(files[i].stream);
        if (!files[i].name)
            continue;
        for (size_t j = 0; j < sizeof digest; j++)
            printf("%02x", digest[j]);
        printf("  %s\n", files[i].name);
    }
    return failed;
}

int main(int count, char **names)
{
    gantry *devices;
    gantry_session *session;
    gantry_params params = {0};
    params.size = sizeof params;
    params.algorithm = "sha256";
    if (gantry_open(NULL, &devices, NULL, 0) < 0 || gantry_session_open(devices, &params, &session) < 0)
        return 1;
    int failed = 0;
    for (int i = 1; i < count; i += AT_A_TIME)
        failed |= hash(session, names + i, count - i < AT_A_TIME ? count - i : AT_A_TIME);
    gantry_session_close(session);
    gantry_close(devices);
    return failed;
}
