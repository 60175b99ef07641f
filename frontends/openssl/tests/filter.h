/* A filter for the system calls of a program (seccomp). */

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "must.h"

/* Further calls that a filter allows. */
enum {
    /* The C library makes these when a thread starts, and the module asks once for the bounds of its stack. */
    OF_THREADS = 1,
    /* AWS-LC and OpenSSL seed their random numbers; OpenSSL compares the process with that of the seed. */
    OF_RANDOM = 2,
};

/* Allows memory, clocks, locks, output, and the calls of `more`. Any other has the result `otherwise`. */
static void filter(unsigned otherwise, int more)
{
    static const struct {
        int call, of;
    } calls[] = {
        { SYS_brk, 0 }, { SYS_clock_gettime, 0 }, { SYS_exit_group, 0 }, { SYS_futex, 0 },
        { SYS_madvise, 0 }, { SYS_mmap, 0 }, { SYS_mprotect, 0 }, { SYS_mremap, 0 }, { SYS_munmap, 0 }, { SYS_write, 0 },
        { SYS_clone, OF_THREADS }, { SYS_clone3, OF_THREADS }, { SYS_exit, OF_THREADS }, { SYS_rseq, OF_THREADS },
        { SYS_rt_sigaction, OF_THREADS }, { SYS_rt_sigprocmask, OF_THREADS }, { SYS_set_robust_list, OF_THREADS },
        { SYS_sched_getaffinity, OF_THREADS },
        { SYS_getrandom, OF_RANDOM }, { SYS_newfstatat, OF_RANDOM }, { SYS_getpid, OF_RANDOM },
    };
    enum { CALLS = sizeof calls / sizeof *calls };
    struct sock_filter steps[2 * CALLS + 2] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)) };
    int count = 1;
    for (int i = 0; i < CALLS; i++)
        if (!(calls[i].of & ~more)) {
            steps[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].call, 0, 1);
            steps[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        }
    steps[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
    struct sock_fprog program = { count, steps };
    must(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "filter");
}
