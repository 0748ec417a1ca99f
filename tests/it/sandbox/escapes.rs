//! What an agent might try to get out of its box: shell commands, each of which ends with 0 only
//! if it has worked. `{out}` is a folder outside, of this run alone, and `{who}` its name.

/// A way out.
pub struct Escape {
    pub name: &'static str,
    pub command: &'static str,
    /// It takes root, or a machine that allows it: without a box it need not work everywhere.
    pub privileged: bool,
}

const fn any(name: &'static str, command: &'static str) -> Escape {
    Escape { name, command, privileged: false }
}

const fn root(name: &'static str, command: &'static str) -> Escape {
    Escape { name, command, privileged: true }
}

pub const ESCAPES: &[Escape] = &[
    // Files.
    any("write a new file outside", "echo x > {out}/new"),
    any("append to a file outside", "echo x >> {out}/file"),
    any("make a folder outside", "mkdir {out}/folder"),
    any("delete outside", "rm {out}/victim"),
    any("truncate outside", "python3 -c 'import os; os.truncate(\"{out}/long\", 0)'"),
    any("read a key", "cat {person}/.ssh/id"),
    any("list the home", "ls {person}"),
    any("read cloud credentials", "cat {person}/.aws/credentials"),
    any("write into a folder of the search path", "echo x > {tools}/{who}"),
    any("write the shell's start-up file", "echo x >> {person}/.profile"),
    any("read what others have in /tmp", "cat {out}/file"),
    any("write through a link", "ln -s {out}/file w && echo x >> w"),
    any("read through a link", "ln -s {person}/.ssh/id k && cat k"),
    any("read through /proc/self/root", "cat /proc/self/root{person}/.ssh/id"),
    any("move a file out", "echo x > m && mv m {out}/moved"),
    any("move a file in", "mv {out}/movable n"),
    any(
        "exchange a file",
        "python3 -c 'import os; open(\"e\",\"w\"); os.replace(\"e\",\"{out}/file2\")'",
    ),
    any("link a file in", "ln {out}/file h && echo x >> h"),
    any("link a file out", "echo x > l && ln l {out}/linked"),
    any("make a socket outside", "python3 -c 'import socket; socket.socket(1).bind(\"{out}/s\")'"),
    // The repository.
    any("write a hook", "echo x > {repo}/.git/hooks/post-{who}"),
    any("configure the repository", "git config --file {repo}/.git/config escape.{who} x"),
    any(
        "give the own repository a hook",
        "d=$(git rev-parse --git-common-dir) && mkdir $d/hooks && rmdir $d/hooks",
    ),
    any("move the target branch", "git rev-parse HEAD > {repo}/.git/refs/heads/main"),
    any("write the log of a branch", "echo x >> {repo}/.git/logs/refs/heads/main"),
    any(
        "make an object",
        "echo {who} | GIT_OBJECT_DIRECTORY={repo}/.git/objects git hash-object -w --stdin",
    ),
    any("put a file among the packs", "echo x > {repo}/.git/objects/pack/{who}"),
    any(
        "lend the repository objects",
        "mkdir -p {repo}/.git/objects/info && echo /none > {repo}/.git/objects/info/{who}",
    ),
    any("read the repository's configuration", "cat {repo}/.git/config"),
    any("write another reference", "git rev-parse HEAD > {repo}/.git/refs/heads/raw-{who}"),
    any(
        "make a tag",
        "mkdir -p {repo}/.git/refs/tags && git rev-parse HEAD > {repo}/.git/refs/tags/{who}",
    ),
    any("write the stash", "git rev-parse HEAD > {repo}/.git/refs/stash"),
    any(
        "write attributes of the repository",
        "mkdir -p {repo}/.git/info && echo x > {repo}/.git/info/{who}",
    ),
    any(
        "write packed references",
        "touch {repo}/.git/packed-refs && printf '' >> {repo}/.git/packed-refs",
    ),
    any("write the main checkout", "echo x > {repo}/{who}"),
    any("read the main checkout", "cat {repo}/README.md"),
    any(
        "write another attempt's git",
        "echo x > {home}/attempts/{attempt}/git/app/common/worktrees/tree/{who}",
    ),
    any(
        "write another attempt's objects",
        "echo x > {home}/attempts/{attempt}/git/app/common/objects/{who}",
    ),
    any(
        "write Provost's view of the own repository",
        "echo x > {home}/attempts/$PROVOST_ATTEMPT_ID/git/app/kept/{who}",
    ),
    any("move another attempt's branch", "git rev-parse HEAD > {repo}/.git/refs/heads/{branch}"),
    // Other attempts, and Provost.
    any("read another worktree", "cat {other}/secret"),
    any("write another worktree", "echo x > {other}/{who}"),
    any("read another attempt's log", "ls {home}/attempts/{attempt}"),
    any(
        "read the own manifest",
        "cat {home}/attempts/$PROVOST_ATTEMPT_ID/$PROVOST_PROCESS_ID/manifest.json",
    ),
    any("write the own log", "echo x > {home}/attempts/$PROVOST_ATTEMPT_ID/{who}"),
    any("read the database", "cat {home}/provost.db"),
    any("write the database", "echo -n '' >> {home}/provost.db"),
    any("read the configuration", "cat {home}/config.toml"),
    any("write the configuration", "echo >> {home}/config.toml"),
    any("read the token of the page", "cat {home}/http-token"),
    any("list the home of Provost", "ls {home}"),
    any(
        "put a file beside Provost's program",
        "echo x > {programs}/escape-{who} && rm {programs}/escape-{who}",
    ),
    any("enter another worktree", "cd {other} && cat secret"),
    any("list the sockets of Provost", "ls {home}/run"),
    any("put another worktree in a link's place", "ln -s {other} o && ls o"),
    any("read a key by a hard link's other name", "ln {person}/.ssh/id key && cat key"),
    any(
        "map a file outside",
        "python3 -c 'import mmap; f=open(\"{out}/file\",\"r+b\"); mmap.mmap(f.fileno(),0)[0:1]=b\"a\"'",
    ),
    any(
        "give a file outside another name",
        "mv {out}/file2 {out}/file3 && mv {out}/file3 {out}/file2",
    ),
    any("put a file beside the daemon's socket", "echo x > {home}/run/{who}"),
    // Processes.
    any("signal the daemon", "kill -0 {daemon}"),
    any("signal the shim", "kill -0 $(awk '/^PPid/{print $2}' /proc/$PPID/status)"),
    any("signal another attempt", "kill -0 {leader}"),
    any("read the daemon's environment", "grep -q PATH /proc/{daemon}/environ"),
    any("go through the daemon's root", "cat /proc/{daemon}/root{person}/.ssh/id"),
    any("go through the daemon's working folder", "ls /proc/{daemon}/cwd/"),
    any("see the daemon's files", "ls -l /proc/{daemon}/fd/"),
    any(
        "a grandchild in a session of its own",
        "setsid -f sh -c 'cat {person}/.ssh/id > g 2>&1; echo $? > c'; until [ -s c ]; do sleep 0.02; done; cat g; exit $(cat c)",
    ),
    any(
        "a program in memory",
        "python3 -c 'import os,shutil; f=os.memfd_create(\"x\"); os.write(f,open(shutil.which(\"cat\"),\"rb\").read()); os.execv(f\"/proc/self/fd/{f}\",[\"cat\",\"{person}/.ssh/id\"])'",
    ),
    any(
        "programs that gain privileges",
        "grep -q 'NoNewPrivs:.*0' /proc/self/status || { echo not permitted; false; }",
    ),
    root(
        "a disk",
        "for d in /dev/vda /dev/sda /dev/xvda /dev/nvme0n1; do [ -b $d ] && dd if=$d of=/dev/null count=1 && exit 0; done; exit 1",
    ),
    any(
        "an abstract socket",
        "python3 -c 'import socket; socket.socket(1).connect(\"\\0{abstract}\")'",
    ),
    any("limit the daemon", "prlimit --pid {daemon} --nproc"),
    // Each sets what is set already: it does no harm where it works.
    any(
        "the daemon's priority",
        "python3 -c 'import os; os.setpriority(0, {daemon}, os.getpriority(0, {daemon}))'",
    ),
    any(
        "the priority of a group",
        "python3 -c 'import os; os.setpriority(1, 0, os.getpriority(1, 0))'",
    ),
    any(
        "the daemon's scheduler",
        "python3 -c 'import os; os.sched_setscheduler({daemon}, os.SCHED_OTHER, os.sched_param(0))'",
    ),
    any(
        "the parameters of the daemon's scheduler",
        "python3 -c 'import os; os.sched_setparam({daemon}, os.sched_param(0))'",
    ),
    any(
        "the attributes of the daemon's scheduler",
        "python3 -c '{call}; a=ctypes.create_string_buffer(48); call(315,275,{daemon},a,48,0); call(314,274,{daemon},a,0)'",
    ),
    any(
        "the daemon's processors",
        "python3 -c 'import os; os.sched_setaffinity({daemon}, os.sched_getaffinity({daemon}))'",
    ),
    any("the daemon's place at the disk", "ionice -c 2 -n 4 -p {daemon}"),
    any(
        "a group's place at the disk",
        "ionice -c 2 -n 4 -P $(python3 -c 'import os; print(os.getpgrp())')",
    ),
    root(
        "read the daemon's memory",
        "python3 -c 'a=int(open(\"/proc/{daemon}/maps\").readline().split(\"-\")[0],16); f=open(\"/proc/{daemon}/mem\",\"rb\"); f.seek(a); f.read(4)'",
    ),
    root("trace the daemon", "python3 -c '{call}; call(101,117,0x4206,{daemon},0,0)'"),
    root(
        "read the daemon's memory by a call",
        "python3 -c '{call}; b=ctypes.create_string_buffer(4); a=int(open(\"/proc/{daemon}/maps\").readline().split(\"-\")[0],16); v=(ctypes.c_size_t*2)(ctypes.addressof(b),4); w=(ctypes.c_size_t*2)(a,4); call(310,270,{daemon},v,1,w,1,0)'",
    ),
    // The kernel.
    any("a key of the session", "python3 -c '{call}; call(248,217,b\"user\",b\"x\",b\"y\",1,-2)'"),
    any("look at keyrings", "python3 -c '{call}; call(250,219,0,-2,1)'"),
    root("a user namespace", "unshare -U true"),
    root("a mount namespace", "unshare -m true"),
    root(
        "a namespace by clone",
        "python3 -c '{call}; p=call(56,220,0x10000011,0,0,0,0); p or os._exit(0); os.waitpid(p,0)'",
    ),
    root("a mount", "mkdir -p t && mount -t tmpfs none t && umount t"),
    root(
        "a program of the kernel's",
        "python3 -c '{call}; a=ctypes.create_string_buffer((2).to_bytes(4,\"little\")+(4).to_bytes(4,\"little\")+(4).to_bytes(4,\"little\")+(1).to_bytes(4,\"little\"),128); call(321,280,0,a,72)'",
    ),
    root(
        "open by a handle",
        "python3 -c '{call}; h=ctypes.create_string_buffer((128).to_bytes(4,\"little\"),140); m=ctypes.c_int(); call(303,264,-100,b\"{person}/.ssh/id\",h,ctypes.byref(m),0); d=os.open(\".\",0); f=call(304,265,d,h,0); print(os.read(f,9))'",
    ),
    root(
        "measure the kernel",
        "python3 -c '{call}; a=ctypes.create_string_buffer((1).to_bytes(4,\"little\")+(112).to_bytes(4,\"little\"),112); call(298,241,a,0,-1,-1,0)'",
    ),
    root("handle page faults", "python3 -c '{call}; call(323,282,0)'"),
    root(
        "a ring of calls",
        "python3 -c '{call}; call(425,425,1,ctypes.create_string_buffer(120))'",
    ),
    root("change the root", "chroot / true"),
    root(
        "a setting of the kernel",
        "v=$(cat /proc/sys/vm/swappiness) && echo $v > /proc/sys/vm/swappiness",
    ),
    root("a device of one's own", "mknod dev-{who} c 1 3"),
    root("the kernel's messages", "dd if=/dev/kmsg of=/dev/null bs=8192 count=1"),
    root(
        "a setuid program",
        "cp $(which id) id && chown 65534 id && chmod 4755 id && [ $(./id -u) = 65534 ] || { echo not permitted; false; }",
    ),
    root(
        "a capability of root's",
        "python3 -c 'e=int([l for l in open(\"/proc/self/status\") if l.startswith(\"CapEff\")][0].split()[1],16); exit(0 if e & 1<<21 else \"not permitted\")'",
    ),
];

/// What the escapes are made with: it works in the box too.
pub const TOOLS: &[&str] = &[
    "python3 -c '{call}; import socket,shutil; print(ctypes, os)'",
    "unshare --version && prlimit --version && setsid --version && mount --version",
    "git rev-parse HEAD && awk 'BEGIN{exit 0}' && chroot --version && which id",
    "cat call.py > copy && cp copy copied && mkdir f && ls f",
    "nice -n 1 true && ionice -c 3 true && python3 -c 'import os; os.sched_setaffinity(0, os.sched_getaffinity(0))'",
];

/// Makes a system call by its number on x86-64, or else on others; fails as it does.
pub const CALL: &str = r#"import ctypes, os, platform
c = ctypes.CDLL(None, use_errno=True)
def call(x, o, *a):
    a = [ctypes.c_long(i) if isinstance(i, int) else i for i in a]
    r = c.syscall(x if platform.machine() == "x86_64" else o, *a)
    if r < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return r
"#;
