//! The living processes of an attempt, for a person to see: which started which, and what each uses. What
//! `/proc` shows may be out of date when the caller gets it, so it must not lead to a signal.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::identity::Process;
use super::proc::{self, Stat};

/// The most processes that [`of`] returns. Further ones are left out.
const MOST: usize = 500;

/// One living process, as a person sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub pid: i32,
    /// Its depth in the tree: 0 for a leader, and for an orphan whose parent is now the shim.
    pub depth: usize,
    /// The program's name, at most 15 bytes. Arguments may hold secrets, so they are not shown.
    pub name: String,
    /// One letter, as in proc_pid_stat(5).
    pub state: char,
    /// Processor time of its own and of the children it has waited for.
    pub cpu: Duration,
    /// Bytes of private memory; 0 if unknown.
    pub memory: u64,
    /// Time since its start, in whole seconds.
    pub age: Duration,
}

/// The processes below the shim of each living leader, every process after its parent. A dead leader is left
/// out together with what it left behind. An orphan is a child of the shim, so it has depth 0. If a leader's
/// parent is no shim (it has died), only what is below the leader is found.
pub fn of(leaders: &[Process]) -> Vec<Member> {
    let mut members = Vec::new();
    for leader in leaders.iter().filter(|leader| leader.is_alive()) {
        let parent = Stat::of(leader.pid).map(|stat| stat.ppid).filter(|pid| proc::is_shim(*pid));
        // A stack of pids and depths: the last one is shown next.
        let mut open = match parent {
            Some(shim) => placed(proc::children(shim), 0),
            None => vec![(leader.pid, 0)],
        };
        while let Some((pid, depth)) = open.pop() {
            if members.len() == MOST {
                return members;
            }
            let Some(stat) = Stat::of(pid).filter(|stat| !stat.is_dead()) else { continue };
            members.push(member(pid, depth, stat));
            open.extend(placed(proc::children(pid), depth + 1));
        }
    }
    members
}

/// Pids with a depth, the largest first: the caller takes them from the end, so the smallest is shown first.
fn placed(mut pids: Vec<i32>, depth: usize) -> Vec<(i32, usize)> {
    pids.sort_unstable_by(|one, other| other.cmp(one));
    pids.into_iter().map(|pid| (pid, depth)).collect()
}

fn member(pid: i32, depth: usize, stat: Stat) -> Member {
    Member {
        pid,
        depth,
        name: proc::command_name(pid),
        state: char::from(stat.state),
        cpu: stat.cpu,
        memory: proc::private_memory(pid).unwrap_or_default(),
        age: proc::age(stat.start_time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test needs a real child")]
    fn a_leader_comes_before_its_children_and_a_dead_one_not_at_all() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let own = Process::of(std::process::id().cast_signed()).unwrap();
        let pid = child.id().cast_signed();
        let members = of(&[own]);
        let at = |pid| members.iter().position(|it| it.pid == pid);
        let (first, second) = (at(own.pid), at(pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(first, Some(0));
        assert_eq!(members[second.unwrap()].depth, 1);
        let other = Process { start_time: own.start_time + 1, ..own };
        assert!(of(&[other]).is_empty());
    }
}
