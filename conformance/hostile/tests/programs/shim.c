/* A library that creates the file MARKER when it is loaded. */

#include <fcntl.h>
#include <unistd.h>

__attribute__((constructor)) static void loaded(void)
{
    int file = open(MARKER, O_WRONLY | O_CREAT, 0600);
    if (file >= 0)
        close(file);
}
