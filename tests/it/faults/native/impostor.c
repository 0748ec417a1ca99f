/* impostor PID: a process with that very pid (clone3(2), set_tid), which leads a
 * session of its own, says so and waits to be killed. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **arguments) {
    if (count != 2) return 2;
    pid_t pid = atoi(arguments[1]);
    struct clone_args how = {0};
    how.exit_signal = SIGCHLD;
    how.set_tid = (uintptr_t)&pid;
    how.set_tid_size = 1;
    long child = syscall(SYS_clone3, &how, sizeof how);
    if (child < 0) {
        fprintf(stderr, "clone3: %s\n", strerror(errno));
        return 1;
    }
    if (child == 0) {
        setsid();
        printf("here\n");
        fflush(stdout);
        for (;;) pause();
    }
    int status;
    waitpid((pid_t)child, &status, 0);
    return 0;
}
