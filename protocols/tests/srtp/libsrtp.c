/*
 * libsrtp2 as the other end of SRTP:
 *
 *     libsrtp SUITE KEY MKI both|authentication <packets >answers
 *
 * SUITE is a name of IANA's, KEY the master key followed by the salt. MKI is empty if there is no MKI. "authentication" leaves packets of
 * RTCP unencrypted. A line of input is "seal" or "open", "rtp" or "rtcp", and a packet. A line of output is a packet, or "refused" and
 * libsrtp's status. All bytes are hexadecimal.
 */
#include <srtp2/srtp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 4096

static const struct {
    const char *name;
    void (*media)(srtp_crypto_policy_t *);
    void (*control)(srtp_crypto_policy_t *);
} suites[] = {
    {"AES_CM_128_HMAC_SHA1_80", srtp_crypto_policy_set_rtp_default, srtp_crypto_policy_set_rtcp_default},
    {"AES_CM_128_HMAC_SHA1_32", srtp_crypto_policy_set_aes_cm_128_hmac_sha1_32, srtp_crypto_policy_set_rtcp_default},
    {"AES_256_CM_HMAC_SHA1_80", srtp_crypto_policy_set_aes_cm_256_hmac_sha1_80, srtp_crypto_policy_set_aes_cm_256_hmac_sha1_80},
    {"AES_256_CM_HMAC_SHA1_32", srtp_crypto_policy_set_aes_cm_256_hmac_sha1_32, srtp_crypto_policy_set_aes_cm_256_hmac_sha1_80},
    {"AEAD_AES_128_GCM", srtp_crypto_policy_set_aes_gcm_128_16_auth, srtp_crypto_policy_set_aes_gcm_128_16_auth},
    {"AEAD_AES_256_GCM", srtp_crypto_policy_set_aes_gcm_256_16_auth, srtp_crypto_policy_set_aes_gcm_256_16_auth},
};

static int unhex(const char *text, unsigned char *bytes)
{
    int length = 0;
    unsigned int byte;
    while (length < MOST && sscanf(text + 2 * length, "%2x", &byte) == 1)
        bytes[length++] = (unsigned char)byte;
    return length;
}

static srtp_t session(srtp_policy_t *policy, srtp_ssrc_type_t direction)
{
    srtp_t made;
    policy->ssrc.type = direction;
    srtp_err_status_t status = srtp_create(&made, policy);
    if (status != srtp_err_status_ok) {
        fprintf(stderr, "libsrtp: no session: %d\n", status);
        exit(1);
    }
    return made;
}

int main(int count, char **words)
{
    static unsigned char key[MOST], mki[MOST];
    static char line[3 * MOST];
    /* libsrtp2 reads words of 32 bits. */
    static union {
        unsigned char bytes[MOST + SRTP_MAX_TRAILER_LEN + 4];
        unsigned int aligned;
    } packet;
    srtp_policy_t policy;
    srtp_master_key_t master;
    srtp_master_key_t *masters[] = {&master};
    size_t at = 0;

    while (count == 5 && at < sizeof suites / sizeof *suites && strcmp(suites[at].name, words[1]) != 0)
        at++;
    if (count != 5 || at == sizeof suites / sizeof *suites || srtp_init() != srtp_err_status_ok)
        return 2;
    memset(&policy, 0, sizeof policy);
    suites[at].media(&policy.rtp);
    suites[at].control(&policy.rtcp);
    if (strcmp(words[4], "authentication") == 0)
        policy.rtcp.sec_serv = sec_serv_auth;
    unhex(words[2], key);
    master.key = key;
    master.mki_id = mki;
    master.mki_size = (unsigned int)unhex(words[3], mki);
    policy.window_size = 128;
    if (master.mki_size > 0) {
        policy.keys = masters;
        policy.num_master_keys = 1;
    } else {
        policy.key = key;
    }
    int has_mki = master.mki_size > 0;
    srtp_t out = session(&policy, ssrc_any_outbound), in = session(&policy, ssrc_any_inbound);

    while (fgets(line, sizeof line, stdin)) {
        int seals = strncmp(line, "seal", 4) == 0, is_control = strncmp(line + 5, "rtcp", 4) == 0;
        int length = unhex(line + (is_control ? 10 : 9), packet.bytes);
        srtp_err_status_t status;
        if (seals)
            status = is_control ? srtp_protect_rtcp_mki(out, packet.bytes, &length, has_mki, 0)
                                : srtp_protect_mki(out, packet.bytes, &length, has_mki, 0);
        else
            status = is_control ? srtp_unprotect_rtcp_mki(in, packet.bytes, &length, has_mki)
                                : srtp_unprotect_mki(in, packet.bytes, &length, has_mki);
        if (status != srtp_err_status_ok) {
            printf("refused %d\n", status);
            continue;
        }
        for (int byte = 0; byte < length; byte++)
            printf("%02x", packet.bytes[byte]);
        printf("\n");
    }
    return 0;
}
