// Threads of a test, each with its number.

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 16 };

// Runs `work` in all threads, and prints "the same", unless one of them returns something else.
static int in_threads(void *(*work)(void *))
{
    pthread_t threads[THREADS];
    void *said = "the same", *last = said;
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i) != 0)
            return 1;
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &last);
        if (strcmp(last, "the same") != 0)
            said = last;
    }
    puts(said);
    return 0;
}
