/* Opens an XFRM socket. The program is linked with the library for XFRM, as if root had preloaded it. */

#include <linux/netlink.h>
#include <sys/socket.h>

int main(void)
{
    socket(AF_NETLINK, SOCK_RAW, NETLINK_XFRM);
    return 0;
}
