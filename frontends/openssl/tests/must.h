/* Checks for steps of a test that must succeed. */

#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>

/* Unless `good`, prints `what` and OpenSSL's errors to stdout, and ends the test. */
static void must(int good, const char *what)
{
    if (good)
        return;
    printf("%s\n", what);
    ERR_print_errors_fp(stdout);
    exit(1);
}
