/* Known answers through every call. The argument is the text of a gantry.toml, or nothing. */
#include "must.h"

/* RFC 4231, 4.2. */
#define HI_THERE "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
/* NIST SP 800-38A, F.2.1: key, IV, two blocks of plaintext and of ciphertext. */
#define CBC_KEY "2b7e151628aed2a6abf7158809cf4f3c"
#define CBC_IV "000102030405060708090a0b0c0d0e0f"
#define CBC_TEXT "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
#define CBC_CIPHER "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2"
/* McGrew and Viega, The Galois/Counter Mode of Operation, test case 4. */
#define GCM_KEY "feffe9928665731c6d6a8f9467308308"
#define GCM_IV "cafebabefacedbaddecaf888"
#define GCM_AAD "feedfacedeadbeeffeedfacedeadbeefabaddad2"
#define GCM_TEXT                                                                                                                      \
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
#define GCM_CIPHER                                                                                                                    \
    "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091"
#define GCM_TAG "5bc94fbc3221a5db94fae95ae7121a47"

static gantry *devices;

static void digests(void)
{
    gantry_session *sha256 = session_of(devices, "sha256", NULL, 0);
    unsigned char key[20];
    memset(key, 0x0b, sizeof key);
    gantry_session *hmac = session_of(devices, "hmac-sha256", key, sizeof key);
    memset(key, 0, sizeof key); /* the session has a copy */
    must(gantry_session_tag_len(sha256) == 32 && gantry_session_tag_len(hmac) == 32);

    /* A batch of one session, whose requests read the same bytes. */
    unsigned char out[3][32];
    gantry_request requests[3];
    for (int i = 0; i < 3; i++)
        requests[i] = request_of(GANTRY_DIGEST, "abc", 3, out[i], 32);
    requests[1].in_len = 0;
    must(gantry_run(sha256, requests, 3) == GANTRY_OK);
    must(is(out[0], SHA256_OF_ABC) && is(out[2], SHA256_OF_ABC));
    must(is(out[1], "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
    must(requests[0].result == GANTRY_DONE && requests[1].result == GANTRY_DONE && requests[2].result == GANTRY_DONE);

    gantry_request mac = request_of(GANTRY_MAC, "Hi There", 8, out[0], 32);
    must(gantry_run(hmac, &mac, 1) == GANTRY_OK && is(out[0], HI_THERE));

    /* More messages than one batch holds, of different lengths. Single requests and columns give equal results. */
    enum { COUNT = 1500 };
    static unsigned char text[COUNT], many[COUNT][32], column_out[COUNT][32];
    static gantry_message messages[COUNT];
    static int32_t narrow[COUNT + 1];
    static int64_t wide[COUNT + 1];
    static unsigned char values[COUNT * COUNT / 2];
    static uint8_t validity[(COUNT + 3) / 8 + 1];
    for (int i = 0; i < COUNT; i++) {
        text[i] = (unsigned char)(i * 7);
        messages[i].data = text;
        messages[i].len = (size_t)i;
        messages[i].out = many[i];
        memcpy(values + narrow[i], text, (size_t)i);
        narrow[i + 1] = narrow[i] + i;
        wide[i + 1] = wide[i] + i;
        if (i % 5)
            validity[(i + 3) / 8] |= (uint8_t)(1 << (i + 3) % 8);
    }
    gantry_session *both[] = {sha256, hmac};
    for (int which = 0; which < 2; which++) {
        must(gantry_digest_many(both[which], messages, COUNT, 32) == GANTRY_OK);
        for (int i = 0; i < COUNT; i += 97) {
            gantry_request one = request_of(which ? GANTRY_MAC : GANTRY_DIGEST, text, (size_t)i, out[0], 32);
            must(gantry_run(both[which], &one, 1) == GANTRY_OK && memcmp(out[0], many[i], 32) == 0);
        }
        for (int bits = 32; bits <= 64; bits += 32) {
            gantry_column column;
            memset(&column, 0, sizeof column);
            column.size = sizeof column;
            column.count = COUNT;
            column.values = values;
            column.values_len = sizeof values;
            column.offsets = bits == 32 ? (const void *)narrow : (const void *)wide;
            column.offset_bits = (uint32_t)bits;
            must(gantry_digest_column(both[which], &column, column_out, sizeof column_out) == GANTRY_OK);
            must(memcmp(column_out, many, sizeof many) == 0);
            column.validity = validity;
            column.validity_offset = 3;
            must(gantry_digest_column(both[which], &column, column_out, sizeof column_out) == GANTRY_OK);
            static const unsigned char zeros[32];
            for (int i = 0; i < COUNT; i++)
                must(memcmp(column_out[i], i % 5 ? many[i] : zeros, 32) == 0);
            column.count = 0;
            must(gantry_digest_column(both[which], &column, NULL, 0) == GANTRY_OK);
        }
    }
    must(gantry_digest_many(sha256, NULL, 0, 32) == GANTRY_OK && gantry_run(sha256, NULL, 0) == GANTRY_OK);
    gantry_session_close(hmac);
    gantry_session_close(sha256);
}

static void streams(void)
{
    gantry_session *session = session_of(devices, "sha256", NULL, 0);
    gantry_stream *streams[4], *copy;
    for (int i = 0; i < 4; i++)
        must(gantry_stream_open(session, 4, &streams[i]) == GANTRY_OK);
    gantry_session_close(session); /* the streams go on */
    unsigned char out[32];
    gantry_piece pieces[4];
    for (int i = 0; i < 4; i++) {
        pieces[i].stream = streams[i];
        pieces[i].data = "ab";
        pieces[i].len = 2;
    }
    must(gantry_stream_update_many(pieces, 4) == GANTRY_OK && gantry_stream_update_many(NULL, 0) == GANTRY_OK);
    must(gantry_stream_copy(streams[3], &copy) == GANTRY_OK);
    for (int i = 0; i < 4; i++) {
        must(gantry_stream_update(streams[i], "c", 1) == GANTRY_OK && gantry_stream_update(streams[i], NULL, 0) == GANTRY_OK);
        must(gantry_stream_final(streams[i], out, 32) == GANTRY_OK && is(out, SHA256_OF_ABC));
        /* The next message. */
        must(gantry_stream_update(streams[i], "abc", 3) == GANTRY_OK);
        must(gantry_stream_final(streams[i], out, 32) == GANTRY_OK && is(out, SHA256_OF_ABC));
    }
    must(gantry_stream_update(copy, "c", 1) == GANTRY_OK);
    must(gantry_stream_final(copy, out, 32) == GANTRY_OK && is(out, SHA256_OF_ABC));
    pieces[1].stream = streams[0];
    must(gantry_stream_update_many(pieces, 2) == GANTRY_E_BUSY);
    must(gantry_stream_final(streams[0], out, 31) == GANTRY_E_LENGTH);
    for (int i = 0; i < 4; i++)
        gantry_stream_close(streams[i]);
    gantry_stream_close(copy);
}

static void ciphers(void)
{
    enum { COUNT = 20 };
    unsigned char key[16], iv[16], text[32], out[COUNT][32];
    gantry_session *session = session_of(devices, "aes-128-cbc", key, hex(CBC_KEY, key));
    gantry_request requests[COUNT];
    hex(CBC_IV, iv);
    hex(CBC_TEXT, text);
    /* Every second request is in place. */
    for (int i = 0; i < COUNT; i++) {
        memcpy(out[i], text, 32);
        requests[i] = request_of(GANTRY_ENCRYPT, i % 2 ? text : out[i], 32, out[i], 32);
        requests[i].iv = iv;
        requests[i].iv_len = 16;
    }
    must(gantry_session_tag_len(session) == 0);
    must(gantry_run(session, requests, COUNT) == GANTRY_OK);
    for (int i = 0; i < COUNT; i++) {
        must(requests[i].result == GANTRY_DONE && is(out[i], CBC_CIPHER));
        requests[i].operation = GANTRY_DECRYPT;
        requests[i].in = out[i];
    }
    /* A length that is not a multiple of the block fails this request alone; the others run. */
    requests[7].in_len = requests[7].out_len = 31;
    must(gantry_run(session, requests, COUNT) == GANTRY_OK);
    for (int i = 0; i < COUNT; i++) {
        must(requests[i].result == (i == 7 ? GANTRY_BAD_LENGTH : GANTRY_DONE));
        must(i == 7 ? is(out[i], CBC_CIPHER) : is(out[i], CBC_TEXT));
    }
    gantry_session_close(session);
}

static void aeads(void)
{
    enum { COUNT = 20, LEN = 60 };
    unsigned char key[16], iv[12], aad[20], text[LEN], out[COUNT][LEN], opened_to[COUNT][LEN], tags[COUNT][16];
    gantry_session *session = session_of(devices, "aes-128-gcm", key, hex(GCM_KEY, key));
    gantry_request requests[COUNT];
    hex(GCM_IV, iv);
    hex(GCM_AAD, aad);
    must(hex(GCM_TEXT, text) == LEN);
    for (int i = 0; i < COUNT; i++) {
        requests[i] = request_of(GANTRY_SEAL, text, LEN, out[i], LEN);
        requests[i].iv = iv;
        requests[i].iv_len = sizeof iv;
        requests[i].aad = aad;
        requests[i].aad_len = sizeof aad;
        requests[i].tag = tags[i];
        requests[i].tag_len = 16;
    }
    must(gantry_run(session, requests, COUNT) == GANTRY_OK);
    for (int i = 0; i < COUNT; i++) {
        must(requests[i].result == GANTRY_DONE && is(out[i], GCM_CIPHER) && is(tags[i], GCM_TAG));
        requests[i].operation = GANTRY_OPEN;
        requests[i].in = out[i];
        requests[i].out = i % 2 ? out[i] : opened_to[i];
        if (i % 3 == 0)
            tags[i][i % 16] ^= 1 << i % 8;
    }
    memset(opened_to, 0xee, sizeof opened_to);
    /* A truncated tag is a bad tag. */
    requests[4].tag_len = 8;
    must(gantry_run(session, requests, COUNT) == GANTRY_OK);
    for (int i = 0; i < COUNT; i++) {
        unsigned char *result = i % 2 ? out[i] : opened_to[i];
        if (i % 3 != 0 && i != 4) {
            must(requests[i].result == GANTRY_DONE && is(result, GCM_TEXT));
            continue;
        }
        must(requests[i].result == GANTRY_BAD_TAG);
        for (int at = 0; at < LEN; at++)
            must(result[at] != text[at] || result[at] == 0);
    }
    gantry_session_close(session);
}

int main(int count, char **arguments)
{
    devices = opened(count > 1 ? arguments[1] : NULL);
    digests();
    streams();
    ciphers();
    aeads();
    must(strcmp(gantry_version(), VERSION) == 0);
    must(gantry_tags_equal("abcd", "abcd", 4) == 1 && gantry_tags_equal("abcd", "abce", 4) == 0);
    must(gantry_tags_equal(NULL, "abcd", 4) == 0 && gantry_tags_equal(NULL, NULL, 0) == 1);
    gantry_close(devices);
    return 0;
}
