//! Machines: network namespaces that hang on a bridge. A machine can be cut off, and everything that
//! runs in it can be killed.

use std::ffi::OsStr;
use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Result, command, run, wait_until};

const BRIDGE: &str = "hub";
/// The number of the board's address, which moves with its server.
pub const BOARD: u8 = 5;

/// The bridge that all machines hang on; this process can reach them.
pub fn make_bridge() -> Result<()> {
    ip(&["link", "set", "lo", "up"])?;
    ip(&["link", "add", BRIDGE, "type", "bridge"])?;
    ip(&["addr", "add", &format!("{}/24", address(1)), "dev", BRIDGE])?;
    ip(&["link", "set", BRIDGE, "up"])
}

/// The address of a machine, by its number from 2 on.
pub fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, number)
}

/// A machine. What runs in it ends with this process.
pub struct Machine {
    /// Holds the namespace.
    holder: Child,
    /// Names its link.
    number: u8,
    /// The last part of its address.
    at: u8,
}

impl Machine {
    pub fn make(number: u8) -> Result<Self> {
        let mut holder = command("unshare");
        holder.args(["--net", "--", "sleep", "infinity"]).stdin(Stdio::null());
        let machine = Self { holder: holder.spawn()?, number, at: number };
        let own = fs::read_link("/proc/self/ns/net")?;
        let namespace = machine.namespace();
        wait_until("a machine has a network of its own", || {
            Ok(fs::read_link(&namespace).is_ok_and(|it| it != own))
        })?;
        let (outside, pid) = (machine.link(), machine.holder.id().to_string());
        ip(&["link", "add", &outside, "type", "veth", "peer", "name", "eth0", "netns", &pid])?;
        ip(&["link", "set", &outside, "master", BRIDGE])?;
        ip(&["link", "set", &outside, "up"])?;
        machine.ip(&["link", "set", "lo", "up"])?;
        machine.has_address(address(number), true)?;
        machine.ip(&["link", "set", "eth0", "up"])?;
        Ok(machine)
    }

    fn namespace(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.holder.id()))
    }

    fn link(&self) -> String {
        format!("m{}", self.number)
    }

    /// A program that is to run in it.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut entered = command("nsenter");
        entered.arg(format!("--net={}", self.namespace().display())).arg("--").arg(program);
        entered.stdin(Stdio::null());
        entered
    }

    fn ip(&self, args: &[&str]) -> Result<()> {
        run(self.command("ip").args(args))
    }

    /// Gives it a further address, or takes one away.
    pub fn has_address(&self, address: Ipv4Addr, has_it: bool) -> Result<()> {
        let change = if has_it { "add" } else { "del" };
        self.ip(&["addr", change, &format!("{address}/24"), "dev", "eth0"])
    }

    /// Gives it another address. What was connected from the former one carries nothing any more, and neither end
    /// learns of it.
    pub fn change_address(&mut self) -> Result<()> {
        self.has_address(address(self.at), false)?;
        self.at ^= 0x80;
        self.has_address(address(self.at), true)
    }

    /// Forgets which machine has which address.
    pub fn forget_neighbours(&self) -> Result<()> {
        self.ip(&["neigh", "flush", "all"])
    }

    /// Cuts it off: its packets are lost, and no connection is closed.
    pub fn cut(&self) -> Result<()> {
        ip(&["link", "set", &self.link(), "down"])
    }

    pub fn heal(&self) -> Result<()> {
        ip(&["link", "set", &self.link(), "up"])
    }

    /// What runs in it.
    pub fn processes(&self) -> Vec<Pid> {
        let Ok(own) = fs::read_link(self.namespace()) else { return Vec::new() };
        let is_here = |pid: &i32| {
            pid.cast_unsigned() != self.holder.id()
                && fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|it| it == own)
        };
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        all.filter(is_here).map(Pid::from_raw).collect()
    }

    /// Kills all of it at once: halted first, so that nothing sees the other end.
    pub fn kill_all(&self) -> Result<()> {
        for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
            for process in self.processes() {
                let _ = kill(process, signal);
            }
        }
        wait_until("nothing runs on a killed machine", || {
            for process in self.processes() {
                let _ = kill(process, Signal::SIGKILL);
            }
            Ok(self.processes().is_empty())
        })
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.kill_all();
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

pub fn forget_neighbours() -> Result<()> {
    ip(&["neigh", "flush", "all"])
}

fn ip(args: &[&str]) -> Result<()> {
    run(command("ip").args(args))
}
