// Uses XFRM sockets as programs do. Each argument is an action; all actions share a socket. Results are printed.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/xfrm.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int fd = -1;
static unsigned sequence;

static void outcome(const char *what, long result) {
    if (result < 0)
        printf("%s %s\n", what, strerrorname_np(errno));
    else
        printf("%s %ld\n", what, result);
    fflush(stdout);
}

// Sends GETSADINFO, which is always answered.
static void request(void) {
    struct {
        struct nlmsghdr header;
        unsigned flags;
    } message = {{sizeof message, XFRM_MSG_GETSADINFO, NLM_F_REQUEST, ++sequence, 0}, 0};
    outcome("write", write(fd, &message, sizeof message));
}

static void answer(int flags, size_t room) {
    static char buffer[4096];
    struct sockaddr_nl from = {.nl_pid = 99};
    socklen_t length = sizeof from;
    long received = recvfrom(fd, buffer, room, flags, (void *)&from, &length);
    if (received <= 0) {
        outcome("recvfrom", received);
        return;
    }
    struct nlmsghdr *header = (void *)buffer;
    printf("recvfrom %ld: family %d port %u of %u, type %#x sequence %u", received, from.nl_family, from.nl_pid, length, header->nlmsg_type,
           header->nlmsg_seq);
    if (header->nlmsg_type == NLMSG_ERROR && room >= 36)
        printf(" error %s", strerrorname_np(-((struct nlmsgerr *)NLMSG_DATA(header))->error));
    printf("\n");
    fflush(stdout);
}

int main(int count, char **actions) {
    for (int i = 1; i < count; i++) {
        const char *action = actions[i];
        if (!strcmp(action, "open") || !strcmp(action, "open-nonblocking")) {
            fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | (action[4] ? SOCK_NONBLOCK : 0), NETLINK_XFRM);
            if (fd < 0)
                outcome("socket", fd);
        } else if (!strcmp(action, "flags")) {
            printf("cloexec %d nonblocking %d\n", fcntl(fd, F_GETFD) & FD_CLOEXEC, !!(fcntl(fd, F_GETFL) & O_NONBLOCK));
        } else if (!strcmp(action, "bind")) {
            struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = XFRMGRP_ACQUIRE | XFRMGRP_EXPIRE};
            outcome("bind", bind(fd, (void *)&address, sizeof address));
        } else if (!strcmp(action, "join")) {
            int group = XFRMNLGRP_MAPPING;
            outcome("join", setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group));
        } else if (!strcmp(action, "leave")) {
            int group = XFRMNLGRP_MAPPING;
            outcome("leave", setsockopt(fd, SOL_NETLINK, NETLINK_DROP_MEMBERSHIP, &group, sizeof group));
        } else if (!strcmp(action, "name")) {
            struct sockaddr_nl name;
            socklen_t length = sizeof name;
            outcome("getsockname", getsockname(fd, (void *)&name, &length));
            printf("family %d port %s groups %#x of %u\n", name.nl_family, name.nl_pid == (unsigned)getpid() ? "own" : "other", name.nl_groups,
                   length);
        } else if (!strcmp(action, "request")) {
            request();
        } else if (!strcmp(action, "answer")) {
            answer(0, 4096);
        } else if (!strcmp(action, "peek")) {
            answer(MSG_PEEK | MSG_TRUNC, 16);
        } else if (!strcmp(action, "answer-now")) {
            answer(MSG_DONTWAIT, 4096);
        } else if (!strcmp(action, "poll")) {
            struct pollfd wanted = {.fd = fd, .events = POLLIN};
            int ready = poll(&wanted, 1, 200);
            printf("poll %d%s%s\n", ready, wanted.revents & POLLIN ? " in" : "", wanted.revents & POLLHUP ? " hangup" : "");
            fflush(stdout);
        } else if (!strcmp(action, "line")) {
            // Lets the test act, and waits for a line.
            printf("ready\n");
            fflush(stdout);
            char line[16];
            if (!fgets(line, sizeof line, stdin))
                return 1;
        } else if (!strcmp(action, "reuse")) {
            // Closes the descriptor without the library's knowledge, and reuses its number for a file.
            syscall(SYS_close, fd);
            int file = open("/proc/self/comm", O_RDONLY);
            char name[16] = "";
            long length = read(file, name, sizeof name - 1);
            printf("same %d length %ld name %s", file == fd, length, name);
            struct sockaddr_nl address;
            socklen_t size = sizeof address;
            outcome("getsockname", getsockname(fd, (void *)&address, &size));
        } else if (!strcmp(action, "many")) {
            int opened = 0;
            while (socket(AF_NETLINK, SOCK_RAW, NETLINK_XFRM) >= 0)
                opened++;
            printf("opened %d, then %s\n", opened, strerrorname_np(errno));
        } else if (!strcmp(action, "again")) {
            // Opens more sockets than the table has, one after the other.
            int opened = 0;
            for (int n = 0; n < 200; n++) {
                int other = socket(AF_NETLINK, SOCK_RAW, NETLINK_XFRM);
                opened += other >= 0;
                close(other);
            }
            printf("opened %d\n", opened);
        } else if (!strcmp(action, "fork")) {
            fflush(stdout);
            if (fork() == 0) {
                request();
                answer(0, 4096);
                return 0;
            }
            wait(NULL);
        }
    }
    return 0;
}
