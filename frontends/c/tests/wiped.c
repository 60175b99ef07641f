/* Checks that no key is left in memory after its session is closed. Keys are kept with each bit inverted. The stack is excluded: drivers
 * overwrite their remains on the stack, but unoptimised code leaves further copies. */
#include "must.h"

enum { KEY = 32, LEN = 4096, COUNT = 32 };

static unsigned char turned[KEY], data[COUNT][LEN], iv[16], tags[COUNT][32];

/* Returns the number of copies of the key in writable pages. */
static int found(void)
{
    static struct { unsigned char *from, *to; } pages[4096];
    char line[512], access[5];
    int count = 0, places = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    must(maps);
    while (count < 4096 && fgets(line, sizeof line, maps)) {
        void *from, *to;
        if (sscanf(line, "%p-%p %4s", &from, &to, access) == 3 && strncmp(access, "rw", 2) == 0 && !strstr(line, "[stack]")) {
            pages[count].from = (unsigned char *)from;
            pages[count++].to = (unsigned char *)to;
        }
    }
    fclose(maps);
    for (int i = 0; i < count; i++)
        for (const unsigned char *at = pages[i].from; at + KEY <= pages[i].to; at++) {
            size_t same = 0;
            while (same < KEY && (unsigned char)~at[same] == turned[same])
                same++;
            places += same == KEY;
        }
    return places;
}

/* Uses a session in a batch, a stream, a column and a queue, and closes it if `closed`. */
static gantry_session *use(gantry *devices, const char *algorithm, uint32_t operation, int closed)
{
    unsigned char key[KEY];
    for (int i = 0; i < KEY; i++)
        key[i] = (unsigned char)~turned[i];
    gantry_session *session = session_of(devices, algorithm, key, KEY);
    memset(key, 0, KEY);
    __asm__ volatile("" : : "r"(key) : "memory");
    static gantry_request requests[COUNT];
    for (int i = 0; i < COUNT; i++) {
        int is_mac = operation == GANTRY_MAC;
        requests[i] = request_of(operation, data[i], LEN, is_mac ? tags[i] : data[i], is_mac ? 32 : LEN);
        requests[i].iv = is_mac ? NULL : iv;
        requests[i].iv_len = is_mac ? 0 : operation == GANTRY_SEAL ? 12 : 16;
        requests[i].tag = operation == GANTRY_SEAL ? tags[i] : NULL;
        requests[i].tag_len = operation == GANTRY_SEAL ? 16 : 0;
    }
    must(gantry_run(session, requests, COUNT) == GANTRY_OK);
    if (operation == GANTRY_MAC) {
        gantry_stream *stream;
        must(gantry_stream_open(session, 1, &stream) == GANTRY_OK && gantry_stream_update(stream, data, LEN) == GANTRY_OK);
        must(gantry_stream_final(stream, tags[0], 32) == GANTRY_OK);
        gantry_stream_close(stream);
        static const int32_t offsets[] = {0, 9, 99};
        gantry_column column;
        memset(&column, 0, sizeof column);
        column.size = sizeof column;
        column.count = 2;
        column.values = data;
        column.values_len = LEN;
        column.offsets = offsets;
        column.offset_bits = 32;
        must(gantry_digest_column(session, &column, tags, 64) == GANTRY_OK);
    }
    gantry_queue *queue;
    must(gantry_queue_open(devices, COUNT, &queue) == GANTRY_OK);
    for (int i = 0; i < COUNT; i++)
        must(gantry_queue_submit(queue, session, &requests[i], 0) == GANTRY_OK);
    gantry_queue_close(queue);
    if (!closed)
        return session;
    gantry_session_close(session);
    return NULL;
}

int main(int count, char **arguments)
{
    gantry *devices = opened(count > 1 ? arguments[1] : NULL);
    FILE *random = fopen("/dev/urandom", "rb");
    must(random && fread(turned, 1, KEY, random) == KEY);
    fclose(random);
    static const struct { const char *name; uint32_t operation; } all[] = {
        {"hmac-sha256", GANTRY_MAC}, {"aes-256-cbc", GANTRY_ENCRYPT}, {"aes-256-gcm", GANTRY_SEAL}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        gantry_session *session = use(devices, all[i].name, all[i].operation, 0);
        must(found() > 0); /* the search works */
        gantry_session_close(session);
        use(devices, all[i].name, all[i].operation, 1);
        int left = found();
        if (left > 0)
            fprintf(stderr, "%s: %d\n", all[i].name, left);
        must(left == 0);
    }
    gantry_close(devices);
    return 0;
}
