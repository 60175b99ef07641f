/*
 * Shared by the peers of `gantry speed`.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* As in `gantry speed`: programs cycle through buffers that are larger than a first-level cache and smaller than a second-level one,
* like a program that also does other work. */
enum { MAX_REQUESTS = 1024, WORKING_SET = 256 << 10 };

static void fail(const char *what)
{
    fprintf(stderr, PEER ": %s\n", what);
    exit(1);
}

static uint64_t nanoseconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
