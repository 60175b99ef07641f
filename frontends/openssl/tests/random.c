// Draws random numbers of a provider other than the default one:
//
//     random CONFIGURATION
//
// The configuration names its generator, FAKE.

#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <openssl/rand.h>
#include <string.h>

#include "must.h"

static void *newctx(void *provider, void *parent, const OSSL_DISPATCH *calls)
{
    static int context;
    (void)provider, (void)parent, (void)calls;
    return &context;
}

static void freectx(void *context)
{
    (void)context;
}

static int instantiate(void *context, unsigned int strength, int resistance, const unsigned char *string, size_t length,
    const OSSL_PARAM params[])
{
    (void)context, (void)strength, (void)resistance, (void)string, (void)length, (void)params;
    return 1;
}

static int uninstantiate(void *context)
{
    (void)context;
    return 1;
}

static int generate(void *context, unsigned char *out, size_t length, unsigned int strength, int resistance, const unsigned char *more,
    size_t more_length)
{
    (void)context, (void)strength, (void)resistance, (void)more, (void)more_length;
    memset(out, 0x42, length);
    return 1;
}

static int enable_locking(void *context)
{
    (void)context;
    return 1;
}

static int get_ctx_params(void *context, OSSL_PARAM params[])
{
    OSSL_PARAM *param;
    (void)context;
    return ((param = OSSL_PARAM_locate(params, OSSL_RAND_PARAM_STATE)) == NULL || OSSL_PARAM_set_int(param, EVP_RAND_STATE_READY))
        && ((param = OSSL_PARAM_locate(params, OSSL_RAND_PARAM_STRENGTH)) == NULL || OSSL_PARAM_set_int(param, 256))
        && ((param = OSSL_PARAM_locate(params, OSSL_RAND_PARAM_MAX_REQUEST)) == NULL || OSSL_PARAM_set_size_t(param, 65536));
}

static const OSSL_ALGORITHM *query(void *provider, int operation, int *no_cache)
{
    static const OSSL_DISPATCH functions[] = {
        { OSSL_FUNC_RAND_NEWCTX, (void (*)(void))newctx },
        { OSSL_FUNC_RAND_FREECTX, (void (*)(void))freectx },
        { OSSL_FUNC_RAND_INSTANTIATE, (void (*)(void))instantiate },
        { OSSL_FUNC_RAND_UNINSTANTIATE, (void (*)(void))uninstantiate },
        { OSSL_FUNC_RAND_GENERATE, (void (*)(void))generate },
        { OSSL_FUNC_RAND_ENABLE_LOCKING, (void (*)(void))enable_locking },
        { OSSL_FUNC_RAND_GET_CTX_PARAMS, (void (*)(void))get_ctx_params },
        { 0, NULL },
    };
    static const OSSL_ALGORITHM generators[] = { { "FAKE", "provider=fake", functions, NULL }, { NULL, NULL, NULL, NULL } };
    (void)provider;
    *no_cache = 0;
    return operation == OSSL_OP_RAND ? generators : NULL;
}

static int init(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *in, const OSSL_DISPATCH **out, void **provider)
{
    static const OSSL_DISPATCH functions[] = { { OSSL_FUNC_PROVIDER_QUERY_OPERATION, (void (*)(void))query }, { 0, NULL } };
    (void)in;
    *out = functions;
    *provider = (void *)handle;
    return 1;
}

int main(int count, char **words)
{
    unsigned char bytes[32], all[32];
    OSSL_LIB_CTX *library = OSSL_LIB_CTX_new();
    memset(all, 0x42, sizeof all);
    must(count == 2 && OSSL_PROVIDER_add_builtin(library, "fake", init) && OSSL_PROVIDER_load(library, "fake"), "a provider");
    must(OSSL_LIB_CTX_load_config(library, words[1]), "configuration");
    must(RAND_bytes_ex(library, bytes, sizeof bytes, 0) == 1 && memcmp(bytes, all, sizeof bytes) == 0, "random numbers");
    OSSL_LIB_CTX_free(library);
    printf("its own\n");
    return 0;
}
