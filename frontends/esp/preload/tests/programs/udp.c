// Binds a UDP socket as an IKE daemon does, and prints the results. Usage: udp FAMILY PORT [taken]. With `taken`
// another socket has the port.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/udp.h>
#include <linux/xfrm.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int get(int fd, int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    getsockopt(fd, level, name, &value, &length);
    return value;
}

static const char *outcome(int result) { return result < 0 ? strerrorname_np(errno) : "done"; }

int main(int count, char **arguments) {
    int six = count > 1 && arguments[1][0] == '6', port = atoi(arguments[2]), type = six ? AF_INET6 : AF_INET, one = 1;
    int fd = socket(type, SOCK_DGRAM, IPPROTO_UDP), espinudp = UDP_ENCAP_ESPINUDP;
    struct sockaddr_in6 address6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_loopback};
    struct sockaddr_in address4 = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    if (count > 3)
        syscall(SYS_bind, socket(AF_INET, SOCK_DGRAM, 0), &address4, sizeof address4);
    printf("bind %s\n", outcome(six ? bind(fd, (void *)&address6, sizeof address6) : bind(fd, (void *)&address4, sizeof address4)));
    printf("reuseport %d\n", get(fd, SOL_SOCKET, SO_REUSEPORT));
    printf("encap %s", outcome(setsockopt(fd, IPPROTO_UDP, UDP_ENCAP, &espinudp, sizeof espinudp)));
    printf(" %d\n", get(fd, IPPROTO_UDP, UDP_ENCAP));
    printf("gro %s", outcome(setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof one)));
    printf(" %d\n", get(fd, IPPROTO_UDP, UDP_GRO));
    struct xfrm_userpolicy_info policy = {.sel.family = type, .dir = XFRM_POLICY_OUT, .action = XFRM_POLICY_BLOCK};
    int level = six ? IPPROTO_IPV6 : IPPROTO_IP, option = six ? IPV6_XFRM_POLICY : IP_XFRM_POLICY;
    printf("block %s", outcome(setsockopt(fd, level, option, &policy, sizeof policy)));
    printf(" %#x\n", get(fd, SOL_SOCKET, SO_MARK));
    policy.action = XFRM_POLICY_ALLOW;
    printf("allow %s", outcome(setsockopt(fd, level, option, &policy, sizeof policy)));
    printf(" %#x\n", get(fd, SOL_SOCKET, SO_MARK));
    return 0;
}
