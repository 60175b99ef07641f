/* Prints the names of the TLS groups that the module reports to a core whose default provider lacks a key type or a curve:
 *
 *     curveless MODULE [EC|X25519|P-384] */
#include <dlfcn.h>
#include <openssl/core.h>
#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <string.h>

#include "must.h"

enum { MOST = 300 };

static struct provider {
    const char *name;
} gantry = {"gantry"}, default_provider = {"default"};

static OSSL_PROVIDER *real;
static const char *lacking;
static OSSL_FUNC_keymgmt_import_fn *real_import;

static int core_get_params(const OSSL_CORE_HANDLE *prov, OSSL_PARAM *params)
{
    OSSL_PARAM *param = OSSL_PARAM_locate(params, "openssl-version");
    must(prov == (const OSSL_CORE_HANDLE *)&gantry, "the handle of another provider");
    return param == NULL || OSSL_PARAM_set_utf8_ptr(param, "3.0.0");
}

static int core_register(const OSSL_CORE_HANDLE *prov, int (*create)(const OSSL_CORE_HANDLE *, void *),
    int (*removed)(const OSSL_CORE_HANDLE *, void *), int (*props)(const char *, void *), void *arg)
{
    (void)prov, (void)removed, (void)props;
    return create((const OSSL_CORE_HANDLE *)&default_provider, arg);
}

static void core_deregister(const OSSL_CORE_HANDLE *prov)
{
    (void)prov;
}

static const char *core_name(const OSSL_CORE_HANDLE *prov)
{
    return ((const struct provider *)prov)->name;
}

static void *core_context(const OSSL_CORE_HANDLE *prov)
{
    (void)prov;
    return OSSL_PROVIDER_get0_provider_ctx(real);
}

/* Refuses the curve that is lacking. */
static int import(void *key, int selection, const OSSL_PARAM params[])
{
    const char *group = NULL;
    const OSSL_PARAM *param = OSSL_PARAM_locate_const(params, "group");
    if (param != NULL && OSSL_PARAM_get_utf8_string_ptr(param, &group) && strcmp(group, lacking) == 0)
        return 0;
    return real_import(key, selection, params);
}

static const OSSL_ALGORITHM *query(void *context, int operation, int *no_cache)
{
    static OSSL_ALGORITHM rows[2][MOST];
    static OSSL_DISPATCH table[60];
    OSSL_ALGORITHM *to = rows[operation == OSSL_OP_KEYMGMT];
    (void)context;
    for (const OSSL_ALGORITHM *row = OSSL_PROVIDER_query_operation(real, operation, no_cache); row && row->algorithm_names; row++) {
        int is_ec = strncmp(row->algorithm_names, "EC:", 3) == 0 || strncmp(row->algorithm_names, "ECDH", 4) == 0;
        if ((is_ec && strcmp(lacking, "EC") == 0) || strncmp(row->algorithm_names, lacking, strlen(lacking) + !*lacking) == 0)
            continue;
        *to = *row;
        if (operation == OSSL_OP_KEYMGMT && is_ec) {
            for (int i = 0; i == 0 || table[i - 1].function_id != 0; i++) {
                table[i] = row->implementation[i];
                if (table[i].function_id == OSSL_FUNC_KEYMGMT_IMPORT) {
                    real_import = OSSL_FUNC_keymgmt_import(&table[i]);
                    table[i].function = (void (*)(void))import;
                }
            }
            to->implementation = table;
        }
        to++;
    }
    to->algorithm_names = NULL;
    return rows[operation == OSSL_OP_KEYMGMT];
}

static const OSSL_DISPATCH *core_dispatch(const OSSL_CORE_HANDLE *prov)
{
    static const OSSL_DISPATCH table[] = {{OSSL_FUNC_PROVIDER_QUERY_OPERATION, (void (*)(void))query}, {0, NULL}};
    (void)prov;
    return table;
}

static const OSSL_DISPATCH upcalls[] = {
    {OSSL_FUNC_CORE_GET_PARAMS, (void (*)(void))core_get_params},
    {OSSL_FUNC_PROVIDER_REGISTER_CHILD_CB, (void (*)(void))core_register},
    {OSSL_FUNC_PROVIDER_DEREGISTER_CHILD_CB, (void (*)(void))core_deregister},
    {OSSL_FUNC_PROVIDER_NAME, (void (*)(void))core_name},
    {OSSL_FUNC_PROVIDER_GET0_PROVIDER_CTX, (void (*)(void))core_context},
    {OSSL_FUNC_PROVIDER_GET0_DISPATCH, (void (*)(void))core_dispatch},
    {0, NULL},
};

static int print(const OSSL_PARAM params[], void *arg)
{
    const char *name;
    (void)arg;
    must(OSSL_PARAM_get_utf8_string_ptr(OSSL_PARAM_locate_const(params, "tls-group-name"), &name), "a name");
    printf("%s\n", name);
    return 1;
}

int main(int count, char **words)
{
    const OSSL_DISPATCH *table;
    void *context, *module = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
    OSSL_provider_init_fn *init = module ? (OSSL_provider_init_fn *)dlsym(module, "OSSL_provider_init") : NULL;
    lacking = count > 2 ? words[2] : "";
    real = OSSL_PROVIDER_load(NULL, "default");
    must(real && init && init((const OSSL_CORE_HANDLE *)&gantry, upcalls, &table, &context) == 1, "init");
    for (; table->function_id != 0; table++)
        if (table->function_id == OSSL_FUNC_PROVIDER_GET_CAPABILITIES)
            must(OSSL_FUNC_provider_get_capabilities(table)(context, "TLS-GROUP", print, NULL), "the groups");
    must(ERR_peek_error() == 0, "errors of questions that no program asked");
    return 0;
}
