// Runs the module under a core of our own, which enforces the rules of provider-base(7) for callbacks and for the end of a provider:
//
//     children MODULE
//
// Callbacks come from any thread and make no upcall. The provider unregisters the callbacks before its teardown, and no callback may
// follow.

#include <dlfcn.h>
#include <openssl/core.h>
#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/params.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "must.h"

enum { ROUNDS = 2000 };

// Providers of the library context. Only the core looks inside.
struct provider {
    const char *name;
};
static struct provider gantry = { "gantry" }, default_provider = { "default" }, other = { "legacy" };

typedef int child_cb(const OSSL_CORE_HANDLE *, void *);

// The registered callbacks, under the lock of the store.
static pthread_rwlock_t store = PTHREAD_RWLOCK_INITIALIZER;
static child_cb *create, *remove_;
static void *data;
static atomic_int registered, deregistered, stop;
static _Thread_local int in_callback;

static const OSSL_CORE_HANDLE *handle(struct provider *provider)
{
    return (const OSSL_CORE_HANDLE *)provider;
}

static void upcall(const char *name)
{
    must(!in_callback, name);
}

// Reports a provider as the core does: under the lock, and only while callbacks are registered.
static void tell(child_cb **callback, struct provider *provider)
{
    pthread_rwlock_rdlock(&store);
    if (registered) {
        in_callback = 1;
        must((*callback)(handle(provider), data), "callback");
        in_callback = 0;
    }
    pthread_rwlock_unlock(&store);
}

static int core_get_params(const OSSL_CORE_HANDLE *prov, OSSL_PARAM *params)
{
    upcall("core_get_params");
    must(prov == handle(&gantry), "the handle of another provider");
    OSSL_PARAM *param = OSSL_PARAM_locate(params, "CIPHERS");
    if (param != NULL)
        return OSSL_PARAM_set_utf8_ptr(param, "AES-128-CBC");
    param = OSSL_PARAM_locate(params, "openssl-version");
    return param == NULL || OSSL_PARAM_set_utf8_ptr(param, "3.0.0");
}

static int core_register(const OSSL_CORE_HANDLE *prov, child_cb *created, child_cb *removed, int (*props)(const char *, void *), void *arg)
{
    upcall("provider_register_child_cb");
    must(prov == handle(&gantry) && props("", arg), "properties");
    pthread_rwlock_wrlock(&store);
    create = created;
    remove_ = removed;
    data = arg;
    in_callback = 1;
    must(create(handle(&default_provider), data) && create(handle(&gantry), data), "callback");
    in_callback = 0;
    registered = 1;
    pthread_rwlock_unlock(&store);
    // OpenSSL returns the number of reported providers.
    return 2;
}

static void core_deregister(const OSSL_CORE_HANDLE *prov)
{
    upcall("provider_deregister_child_cb");
    must(prov == handle(&gantry), "the handle of another provider");
    // Threads that hold the lock already may still call.
    tell(&remove_, &default_provider);
    tell(&create, &default_provider);
    pthread_rwlock_wrlock(&store);
    registered = 0;
    deregistered++;
    pthread_rwlock_unlock(&store);
}

static const char *core_name(const OSSL_CORE_HANDLE *prov)
{
    upcall("provider_name");
    return ((const struct provider *)prov)->name;
}

static const OSSL_ALGORITHM *default_query(void *context, int operation, int *no_cache)
{
    static const OSSL_DISPATCH none[] = { { 0, NULL } };
    static const OSSL_ALGORITHM ciphers[] = { { "AES-128-CBC", "provider=default", none, NULL }, { NULL, NULL, NULL, NULL } };
    must(context == &default_provider, "the context of another provider");
    *no_cache = 0;
    return operation == OSSL_OP_CIPHER ? ciphers : NULL;
}

static void *core_context(const OSSL_CORE_HANDLE *prov)
{
    upcall("provider_get0_provider_ctx");
    return (void *)prov;
}

static const OSSL_DISPATCH *core_dispatch(const OSSL_CORE_HANDLE *prov)
{
    static const OSSL_DISPATCH table[] = { { OSSL_FUNC_PROVIDER_QUERY_OPERATION, (void (*)(void))default_query }, { 0, NULL } };
    upcall("provider_get0_dispatch");
    must(prov == handle(&default_provider), "the dispatch table of another provider");
    return table;
}

static const OSSL_DISPATCH upcalls[] = {
    { OSSL_FUNC_CORE_GET_PARAMS, (void (*)(void))core_get_params },
    { OSSL_FUNC_PROVIDER_REGISTER_CHILD_CB, (void (*)(void))core_register },
    { OSSL_FUNC_PROVIDER_DEREGISTER_CHILD_CB, (void (*)(void))core_deregister },
    { OSSL_FUNC_PROVIDER_NAME, (void (*)(void))core_name },
    { OSSL_FUNC_PROVIDER_GET0_PROVIDER_CTX, (void (*)(void))core_context },
    { OSSL_FUNC_PROVIDER_GET0_DISPATCH, (void (*)(void))core_dispatch },
    { 0, NULL },
};

static void *come_and_go(void *arg)
{
    while (!stop) {
        tell(&create, arg);
        sched_yield();
        tell(&remove_, arg);
    }
    return NULL;
}

int main(int count, char **words)
{
    void *module = count == 2 ? dlopen(words[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    OSSL_provider_init_fn *init = module != NULL ? (OSSL_provider_init_fn *)dlsym(module, "OSSL_provider_init") : NULL;
    must(init != NULL, "module");
    pthread_t threads[2];
    must(pthread_create(&threads[0], NULL, come_and_go, &other) == 0 && pthread_create(&threads[1], NULL, come_and_go, &other) == 0,
        "threads");
    for (int round = 0; round < ROUNDS; round++) {
        const OSSL_DISPATCH *table;
        void *context;
        OSSL_FUNC_provider_query_operation_fn *query = NULL;
        OSSL_FUNC_provider_teardown_fn *teardown = NULL;
        int no_cache;
        must(init(handle(&gantry), upcalls, &table, &context) == 1 && registered, "init");
        for (; table->function_id != 0; table++) {
            if (table->function_id == OSSL_FUNC_PROVIDER_QUERY_OPERATION)
                query = OSSL_FUNC_provider_query_operation(table);
            if (table->function_id == OSSL_FUNC_PROVIDER_TEARDOWN)
                teardown = OSSL_FUNC_provider_teardown(table);
        }
        must(query(context, OSSL_OP_CIPHER, &no_cache) != NULL && !no_cache, "ciphers");
        tell(&remove_, &default_provider);
        must(query(context, OSSL_OP_CIPHER, &no_cache) == NULL && no_cache, "ciphers without a default provider");
        tell(&create, &default_provider);
        must(query(context, OSSL_OP_CIPHER, &no_cache) != NULL && !no_cache, "ciphers again");
        teardown(context);
        must(!registered && deregistered == round + 1, "callbacks after the end");
    }
    stop = 1;
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    printf("as it should\n");
    return 0;
}
