/*
 * What the peers of `gantry speed` have in common.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Those of `gantry speed`: buffers are used in turn, as a program that does more than one thing would, larger than a first-level
 * cache and smaller than a second-level one. */
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
