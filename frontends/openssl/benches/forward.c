/* The cheapest possible provider in front of the default provider: its contexts hold the default provider's contexts, and each function
 * only calls the default provider's function. It keeps no key and serves no request itself. In place of gantry
 * (`frontends/openssl/benches/run -f`) it shows the overhead that any provider in front of the default provider has.
 *
 * Ciphers only, through the functions of openssl/core_dispatch.h. */
#include <openssl/core_dispatch.h>
#include <stdlib.h>
#include <string.h>

/* Upper bounds for the functions of an operation, and for the default provider's algorithms. */
enum { FUNCTIONS = 32, SLOTS = 256 };
typedef void function(void);

struct context {
    void *default_ctx;
    function *const *functions;
};

static OSSL_FUNC_provider_register_child_cb_fn *register_child;
static OSSL_FUNC_provider_name_fn *name_of;
static OSSL_FUNC_provider_get0_provider_ctx_fn *context_of;
static OSSL_FUNC_provider_get0_dispatch_fn *dispatch_of;
static OSSL_FUNC_provider_query_operation_fn *query_default;
static void *default_provctx;

/* The default provider's functions by algorithm, then by id. */
static function *functions[SLOTS][FUNCTIONS];
static int slots;

static void *wrapped(void *inner, function *const *theirs)
{
    struct context *context = inner ? malloc(sizeof *context) : NULL;
    if (context)
        *context = (struct context){ inner, theirs };
    return context;
}

/* Forwards a call to the default provider's function, with the default provider's context. */
#define FORWARD(result, name, index, parameters, ...) \
    static result name parameters \
    { \
        struct context *at = context; \
        return ((OSSL_FUNC_##name##_fn *)at->functions[index])(at->default_ctx, __VA_ARGS__); \
    }
#define COPY_AND_FREE(name, copy, end) \
    static void *name##_dupctx(void *context) \
    { \
        struct context *at = context; \
        return wrapped(((OSSL_FUNC_##name##_dupctx_fn *)at->functions[copy])(at->default_ctx), at->functions); \
    } \
    static void name##_freectx(void *context) \
    { \
        struct context *at = context; \
        if (at) \
            ((OSSL_FUNC_##name##_freectx_fn *)at->functions[end])(at->default_ctx); \
        free(at); \
    }

FORWARD(int, cipher_encrypt_init, OSSL_FUNC_CIPHER_ENCRYPT_INIT,
    (void *context, const unsigned char *key, size_t size, const unsigned char *iv, size_t length, const OSSL_PARAM *params),
    key, size, iv, length, params)
FORWARD(int, cipher_decrypt_init, OSSL_FUNC_CIPHER_DECRYPT_INIT,
    (void *context, const unsigned char *key, size_t size, const unsigned char *iv, size_t length, const OSSL_PARAM *params),
    key, size, iv, length, params)
FORWARD(int, cipher_update, OSSL_FUNC_CIPHER_UPDATE,
    (void *context, unsigned char *out, size_t *written, size_t room, const unsigned char *in, size_t length),
    out, written, room, in, length)
FORWARD(int, cipher_cipher, OSSL_FUNC_CIPHER_CIPHER,
    (void *context, unsigned char *out, size_t *written, size_t room, const unsigned char *in, size_t length),
    out, written, room, in, length)
FORWARD(int, cipher_final, OSSL_FUNC_CIPHER_FINAL,
    (void *context, unsigned char *out, size_t *written, size_t room), out, written, room)
FORWARD(int, cipher_get_ctx_params, OSSL_FUNC_CIPHER_GET_CTX_PARAMS, (void *context, OSSL_PARAM *params), params)
FORWARD(int, cipher_set_ctx_params, OSSL_FUNC_CIPHER_SET_CTX_PARAMS, (void *context, const OSSL_PARAM *params), params)
COPY_AND_FREE(cipher, OSSL_FUNC_CIPHER_DUPCTX, OSSL_FUNC_CIPHER_FREECTX)

/* `newctx` does not receive the algorithm, so each algorithm has its own `newctx`. The id of `newctx` is 1 in every operation. */
enum { NEW_CONTEXT = 1 };
static void *new_in(int slot)
{
    return wrapped(((void *(*)(void *))functions[slot][NEW_CONTEXT])(default_provctx), functions[slot]);
}
#define NEW(n) static void *new_##n(void *provider) { (void)provider; return new_in(0x##n); }
#define ITS(n) (function *)new_##n,
#define EACH4(with, n) with(n##0) with(n##1) with(n##2) with(n##3)
#define EACH8(with, n) EACH4(with, n) with(n##4) with(n##5) with(n##6) with(n##7)
#define EACH16(with, n) EACH8(with, n) with(n##8) with(n##9) with(n##a) with(n##b) with(n##c) with(n##d) with(n##e) with(n##f)
#define EACH(with) \
    EACH16(with, 0) EACH16(with, 1) EACH16(with, 2) EACH16(with, 3) EACH16(with, 4) EACH16(with, 5) EACH16(with, 6) \
    EACH16(with, 7) EACH16(with, 8) EACH16(with, 9) EACH16(with, a) EACH16(with, b) EACH16(with, c) EACH16(with, d) \
    EACH16(with, e) EACH16(with, f)
EACH(NEW)
static function *const new_contexts[SLOTS] = { EACH(ITS) };

#define OURS(index, name) [OSSL_FUNC_##index] = (function *)name
#define ALONE(index) 1u << OSSL_FUNC_##index
static const struct operation {
    int id;
    function *ours[FUNCTIONS];
    /* Functions without a context, which are the default provider's own. */
    unsigned alone;
} operations[] = {
    { OSSL_OP_CIPHER,
        { OURS(CIPHER_ENCRYPT_INIT, cipher_encrypt_init), OURS(CIPHER_DECRYPT_INIT, cipher_decrypt_init),
            OURS(CIPHER_UPDATE, cipher_update), OURS(CIPHER_FINAL, cipher_final), OURS(CIPHER_CIPHER, cipher_cipher),
            OURS(CIPHER_FREECTX, cipher_freectx), OURS(CIPHER_DUPCTX, cipher_dupctx),
            OURS(CIPHER_GET_CTX_PARAMS, cipher_get_ctx_params), OURS(CIPHER_SET_CTX_PARAMS, cipher_set_ctx_params) },
        ALONE(CIPHER_GET_PARAMS) | ALONE(CIPHER_GETTABLE_PARAMS) | ALONE(CIPHER_GETTABLE_CTX_PARAMS)
            | ALONE(CIPHER_SETTABLE_CTX_PARAMS) },
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static const OSSL_DISPATCH *forwarded(const struct operation *operation, const OSSL_DISPATCH *theirs)
{
    OSSL_DISPATCH *ours = calloc(FUNCTIONS, sizeof *ours), *next = ours;
    if (!ours || slots == SLOTS)
        return NULL;
    for (; theirs->function_id; theirs++) {
        int index = theirs->function_id;
        if (index >= FUNCTIONS)
            continue;
        functions[slots][index] = theirs->function;
        function *function = index == NEW_CONTEXT ? new_contexts[slots] : operation->ours[index];
        if (operation->alone >> index & 1)
            function = theirs->function;
        if (function)
            *next++ = (OSSL_DISPATCH){ index, function };
    }
    slots++;
    return ours;
}

/* Called once per operation, by a benchmark with one thread. */
static const OSSL_ALGORITHM *query(void *provider, int id, int *no_cache)
{
    static const OSSL_ALGORITHM *known[OPERATIONS];
    (void)provider;
    *no_cache = 0;
    for (int i = 0; i < OPERATIONS; i++) {
        if (operations[i].id != id)
            continue;
        int count = 0, ignored;
        const OSSL_ALGORITHM *theirs = known[i] ? NULL : query_default(default_provctx, id, &ignored);
        while (theirs && theirs[count].algorithm_names)
            count++;
        OSSL_ALGORITHM *ours = count ? calloc(count + 1, sizeof *ours) : NULL;
        for (int at = 0; ours && at < count; at++) {
            ours[at] = theirs[at];
            ours[at].property_definition = "provider=gantry";
            ours[at].implementation = forwarded(&operations[i], theirs[at].implementation);
            if (!ours[at].implementation)
                return NULL;
        }
        if (ours)
            known[i] = ours;
        return known[i];
    }
    return NULL;
}

static int created(const OSSL_CORE_HANDLE *provider, void *ours)
{
    (void)ours;
    if (strcmp(name_of(provider), "default"))
        return 1;
    default_provctx = context_of(provider);
    for (const OSSL_DISPATCH *at = dispatch_of(provider); at->function_id; at++)
        if (at->function_id == OSSL_FUNC_PROVIDER_QUERY_OPERATION)
            query_default = OSSL_FUNC_provider_query_operation(at);
    return 1;
}

static int removed(const OSSL_CORE_HANDLE *provider, void *ours)
{
    (void)provider, (void)ours;
    return 1;
}

static int properties(const char *text, void *ours)
{
    (void)text, (void)ours;
    return 1;
}

int OSSL_provider_init(const OSSL_CORE_HANDLE *core, const OSSL_DISPATCH *in, const OSSL_DISPATCH **out, void **context)
{
    static const OSSL_DISPATCH table[] = { { OSSL_FUNC_PROVIDER_QUERY_OPERATION, (function *)query }, { 0, NULL } };
    for (; in->function_id; in++) {
        switch (in->function_id) {
        case OSSL_FUNC_PROVIDER_REGISTER_CHILD_CB:
            register_child = OSSL_FUNC_provider_register_child_cb(in);
            break;
        case OSSL_FUNC_PROVIDER_NAME:
            name_of = OSSL_FUNC_provider_name(in);
            break;
        case OSSL_FUNC_PROVIDER_GET0_PROVIDER_CTX:
            context_of = OSSL_FUNC_provider_get0_provider_ctx(in);
            break;
        case OSSL_FUNC_PROVIDER_GET0_DISPATCH:
            dispatch_of = OSSL_FUNC_provider_get0_dispatch(in);
            break;
        }
    }
    *out = table;
    *context = (void *)table;
    return register_child && name_of && context_of && dispatch_of
        && register_child(core, created, removed, properties, NULL) && query_default;
}
