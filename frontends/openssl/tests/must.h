/* What has to succeed. */

#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the test, with what failed and OpenSSL's errors on stdout. */
static void must(int good, const char *what)
{
    if (good)
        return;
    printf("%s\n", what);
    ERR_print_errors_fp(stdout);
    exit(1);
}
