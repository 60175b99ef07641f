/* A program that is linked with the library for XFRM, as root could preload it, opens a socket. */

#include <linux/netlink.h>
#include <sys/socket.h>

int main(void)
{
    socket(AF_NETLINK, SOCK_RAW, NETLINK_XFRM);
    return 0;
}
