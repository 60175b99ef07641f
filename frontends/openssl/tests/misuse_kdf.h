/* Sequences of calls of key derivations, for misuse.c. */

static void step_kdf(void *state, char call, struct results *to)
{
    EVP_KDF_CTX **ctx = state, *copy;
    const int is_hkdf = EVP_KDF_is_a(EVP_KDF_CTX_kdf(*ctx), "HKDF");
    const char *secret = is_hkdf ? "key" : "pass", *word = call == 'd' ? "SHA2-256" : call == 'x' ? "SHAKE256" : "none";
    int number = call == 'i' ? 10 : call == 'm' ? EVP_KDF_HKDF_MODE_EXTRACT_ONLY : 0;
    size_t length = call == 'g' ? 32 : call == 'G' ? 0 : 255 * 32 + 1;
    OSSL_PARAM params[] = {OSSL_PARAM_construct_end(), OSSL_PARAM_construct_end()};
    memset(output, 0xa5, sizeof output);
    switch (call) {
    case 'y':
        copy = EVP_KDF_CTX_dup(*ctx);
        note(to, copy != NULL, 0);
        if (copy != NULL) {
            EVP_KDF_CTX_free(*ctx);
            *ctx = copy;
        }
        return;
    case 'r':
        EVP_KDF_CTX_reset(*ctx);
        note(to, 1, 0);
        return;
    case 'g': case 'G': case 'L': /* a key: of 32 bytes, of none, longer than HKDF's limit */
        note(to, EVP_KDF_derive(*ctx, output, length, NULL), length);
        return;
    case 'q': note(to, EVP_KDF_CTX_get_kdf_size(*ctx) > 0, 0); return;
    case 'k': params[0] = OSSL_PARAM_construct_octet_string(secret, bytes, 30); break;
    case 'e': params[0] = OSSL_PARAM_construct_octet_string(secret, bytes, 0); break;
    case 'w': params[0] = OSSL_PARAM_construct_int(secret, &number); break; /* of a wrong type */
    case 's': params[0] = OSSL_PARAM_construct_octet_string("salt", bytes, 16); break;
    case 'n': params[0] = OSSL_PARAM_construct_octet_string("info", bytes, 16); break;
    case 'd': case 'x': case 'X': params[0] = OSSL_PARAM_construct_utf8_string("digest", (char *)(size_t)word, 0); break;
    case 'i': case '0': params[0] = OSSL_PARAM_construct_int("iter", &number); break;
    case 'c': params[0] = OSSL_PARAM_construct_int("pkcs5", &number); break; /* the bounds of SP 800-132 */
    case 'm': params[0] = OSSL_PARAM_construct_int("mode", &number); break;
    case 'M': params[0] = OSSL_PARAM_construct_utf8_string("mode", (char *)(size_t)word, 0); break;
    default: must(0, "a call of key derivations");
    }
    note(to, EVP_KDF_CTX_set_params(*ctx, params), 0);
}

static void run_kdf(int side, const char *name, const char *calls, struct results *to)
{
    EVP_KDF *kdf = EVP_KDF_fetch(library[side], name, providers[side]);
    EVP_KDF_CTX *ctx = EVP_KDF_CTX_new(kdf);
    must(ctx != NULL, name);
    for (; *calls; calls++)
        step_kdf(&ctx, *calls, to);
    EVP_KDF_CTX_free(ctx);
    EVP_KDF_free(kdf);
}

static void compare_kdf(const char *name, const char *calls)
{
    static const char *const words[] = {"", "kdg", "ksdi", "ksdig", "esdi", "ksdic", "kdm", NULL};
    if (calls)
        compare(run_kdf, name, calls, 1);
    else
        each(run_kdf, name, words, "kewsndxXi0cmMrgGLqy", 2);
}
