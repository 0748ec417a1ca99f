//! Brings a fault about, starts what died again by whoever needs it, and waits for what has to be
//! back before the next fault.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use crate::faults::{Kind, Victims, Way};
use crate::fleet::{Ambush, Attempt, Fleet};
use crate::processes::{Process, Shim, started};
use crate::script::{Script, parse};
use crate::session::Session;
use crate::{Result, TIMEOUT, pause, wait_until};

/// How long a place may take to be come by; then it is an ordinary kill.
const REACH: Duration = Duration::from_millis(1500);
/// A kernel's tick lasts no longer.
const TICK: Duration = Duration::from_millis(10);
/// A random instant lies within this after calls were sent.
const INSTANT_MS: u64 = 120;

/// How a shim died that was told to.
struct Death {
    /// Where it was told to.
    on_the_spot: bool,
    /// The daemon held on to its process by then: nothing may be lost.
    was_held: bool,
}

impl Fleet {
    /// Brings a fault about. Returns whether it was what it was to be.
    pub fn inject(&mut self, kind: Kind) -> Result<bool> {
        match kind {
            Kind::Kill(victims) => self.kill(victims),
            Kind::Daemon(way, places) => self.daemon_dies_at(way, places),
            Kind::Shim(way, places) => self.shim_dies_at(way, places),
            Kind::Rescuer(places) => self.rescuer_dies_at(places),
            // That of a home to come.
            Kind::Migration => self.finish().map(|()| true),
        }
    }

    fn kill(&mut self, victims: Victims) -> Result<bool> {
        let with_shim = matches!(victims, Victims::Shim | Victims::DaemonAndShim | Victims::All);
        let with_daemon = !matches!(victims, Victims::Shim | Victims::Bridge);
        let with_bridge =
            matches!(victims, Victims::Bridge | Victims::DaemonAndBridge | Victims::All);
        let shim = if with_shim { self.some_shim()? } else { None };
        let daemon = if with_daemon { self.scratch.daemon() } else { None };
        self.act()?;
        pause(Duration::from_millis(self.rng.u64(..INSTANT_MS)));
        // At once, as far as there is such a thing.
        if let Some(daemon) = daemon {
            daemon.kill();
        }
        if let Some(shim) = &shim {
            shim.process.kill();
        }
        if with_bridge {
            self.session.kill_bridge()?;
        }
        if let (Some(shim), true) = (&shim, with_daemon) {
            self.may_be_lost(&shim.process_id);
        }
        self.finish()?;
        if let (Some(shim), false) = (&shim, with_daemon) {
            self.is_rescued(shim)?;
        }
        Ok(shim.is_some() == with_shim && daemon.is_some() == with_daemon)
    }

    fn daemon_dies_at(&mut self, way: Way, places: &[&str]) -> Result<bool> {
        self.finish()?;
        let mut finishing = match way {
            Way::Finish(end) => self.prepare_finish(end)?,
            _ => None,
        };
        let mut preparing = if way == Way::Setup { Some(self.prepare_setup()?) } else { None };
        let place = self.some_place(places, if way == Way::Any { 3 } else { 1 });
        let mut daemon = self.scratch.start_to_die_at(&place)?;
        let shim = if way == Way::Rescue { self.some_shim()? } else { None };
        self.act()?;
        self.lead_to(way)?;
        if let Some(finishing) = &mut finishing {
            self.ask_finish(finishing)?;
        }
        if let Some(preparing) = &mut preparing {
            self.ask_setup(preparing)?;
        }
        if let Some(shim) = &shim {
            self.may_be_lost(&shim.process_id);
            shim.process.kill();
        }
        let asked = finishing.as_ref().and_then(|it| it.key);
        // What is finished comes by the place before the answer, however slow the machine is.
        let timeout = match way {
            Way::Finish(_) => TIMEOUT,
            Way::Setup => REACH * 3,
            _ => REACH,
        };
        let deadline = Instant::now() + timeout;
        let is_open = |session: &Session| asked.is_none_or(|key| !session.is_answered(key));
        let mut is_reached = false;
        while !is_reached && is_open(&self.session) && Instant::now() < deadline {
            self.session.listen(&self.scratch, Duration::from_millis(10))?;
            self.advance()?;
            pause(Duration::from_millis(1));
            is_reached = daemon.try_wait()?.is_some();
        }
        let _ = daemon.kill();
        daemon.wait()?;
        self.finish()?;
        if let Some(finishing) = &finishing {
            self.judge_finish(finishing)?;
        }
        if let Some(preparing) = &preparing {
            self.judge_setup(preparing)?;
        }
        Ok(is_reached)
    }

    fn shim_dies_at(&mut self, way: Way, places: &[&str]) -> Result<bool> {
        self.finish()?;
        let place = self.some_place(places, 1);
        // What waited to be started is started before the daemon listens; times of
        // files lag behind by a tick of the kernel's.
        let from = SystemTime::now() - TICK;
        let mut daemon = self.scratch.start_to_die_at(&format!("shim:{place}"))?;
        let wanted = match way {
            Way::Flood => Script::is_loud,
            // Stays for long enough to be stopped.
            Way::Stop => |script: &Script| script.duration() > REACH,
            _ => |script: &Script| script.duration() < REACH / 2,
        };
        self.start(wanted)?;
        self.act()?;
        self.finish()?;
        if way == Way::Stop {
            self.stop_armed()?;
        }
        let timeout = if way == Way::Exit { REACH * 3 } else { REACH };
        let death = self.armed_shim_dies(timeout)?;
        if !death.was_held {
            self.ambushes.push(Ambush { from, until: SystemTime::now() });
        }
        let _ = daemon.kill();
        daemon.wait()?;
        self.finish()?;
        Ok(death.on_the_spot)
    }

    /// Asks for the stop of the attempt whose shim was told to die.
    fn stop_armed(&mut self) -> Result<()> {
        let armed = self.armed_shim(Instant::now() + REACH);
        if let Some(shim) = armed {
            self.wait_until_held(&shim)?;
            let seed = self.seed_of(&shim.process_id);
            let is_its =
                |attempt: &Attempt| attempt.turns.iter().any(|turn| Some(turn.script.seed) == seed);
            if let Some(which) = self.attempts.iter().position(is_its) {
                self.stop(which)?;
            }
        }
        Ok(())
    }

    fn rescuer_dies_at(&mut self, places: &[&str]) -> Result<bool> {
        self.finish()?;
        let place = self.some_place(places, 1);
        let mut daemon = self.scratch.start_to_die_at(&format!("rescue:{place}"))?;
        self.act()?;
        let victim = self.some_shim()?;
        if let Some(shim) = &victim {
            shim.process.kill();
        }
        self.finish()?;
        let death = self.armed_shim_dies(REACH)?;
        if let Some(shim) = &victim {
            self.is_rescued(shim)?;
        }
        let _ = daemon.kill();
        daemon.wait()?;
        Ok(death.on_the_spot && victim.is_some())
    }

    fn armed_shim(&self, deadline: Instant) -> Option<Shim> {
        while Instant::now() < deadline {
            let armed = self.scratch.census().shims.into_iter().find(|shim| shim.is_armed);
            if armed.is_some() {
                return armed;
            }
            pause(Duration::from_millis(5));
        }
        None
    }

    /// Waits for the shim that was told to die; if it lives on it is killed, so
    /// that it does not do it when nobody expects it.
    fn armed_shim_dies(&mut self, timeout: Duration) -> Result<Death> {
        let deadline = Instant::now() + timeout;
        let mut death = Death { on_the_spot: true, was_held: false };
        // One that is not seen has died already, or nothing was started.
        let Some(shim) = self.armed_shim(Instant::now() + REACH / 5) else { return Ok(death) };
        while shim.process.is_alive() && Instant::now() < deadline {
            death.was_held |= self.is_held(&shim)? == Some(true) && shim.process.is_alive();
            self.session.listen(&self.scratch, Duration::from_millis(5))?;
            pause(Duration::from_millis(1));
        }
        if shim.process.is_alive() {
            self.wait_until_held(&shim)?;
            shim.process.kill_and_wait()?;
            death = Death { on_the_spot: false, was_held: true };
        }
        self.is_rescued(&shim)?;
        Ok(death)
    }

    /// Whether the daemon holds what it needs to do without this shim; `None` once
    /// the executor has ended.
    fn is_held(&self, shim: &Shim) -> Result<Option<bool>> {
        let pipe = self.leader(&shim.process_id)?.and_then(Process::stdout);
        let daemon = self.scratch.daemon();
        Ok(pipe.map(|pipe| daemon.is_some_and(|daemon| daemon.holds().contains(&pipe))))
    }

    fn wait_until_held(&self, shim: &Shim) -> Result<()> {
        wait_until("the daemon holds on to a process", || Ok(self.is_held(shim)? != Some(false)))
    }

    /// Waits until another shim has gone on, or nothing is left to go on with.
    fn is_rescued(&self, dead: &Shim) -> Result<()> {
        wait_until("another shim goes on", || {
            let census = self.scratch.census();
            let shim = census.shim_of(&dead.process_id).map(|shim| shim.process);
            let is_marked = census.marked.iter().any(|it| it.process_id == dead.process_id);
            let leader = self.leader(&dead.process_id)?;
            let Some(pipe) = leader.and_then(Process::stdout) else {
                let has_ended = self.folder_of(&dead.process_id).join("exit.json").exists();
                return Ok(has_ended && (shim.is_some() || !is_marked));
            };
            let daemon = self.scratch.daemon();
            let hold = |it: Option<Process>| it.is_some_and(|it| it.holds().contains(&pipe));
            Ok(hold(shim) && hold(daemon))
        })
    }

    /// The shim of some process that the daemon holds on to: it can do without.
    fn some_shim(&mut self) -> Result<Option<Shim>> {
        let deadline = Instant::now() + REACH;
        while let Some(daemon) = self.scratch.daemon()
            && Instant::now() < deadline
        {
            let held = daemon.holds();
            let mut shims = self.scratch.census().shims;
            self.rng.shuffle(&mut shims);
            for shim in shims {
                let pipe = self.leader(&shim.process_id)?.and_then(Process::stdout);
                if pipe.is_some_and(|pipe| held.contains(&pipe)) {
                    return Ok(Some(shim));
                }
            }
            pause(Duration::from_millis(5));
        }
        Ok(None)
    }

    fn folder_of(&self, process_id: &str) -> PathBuf {
        let attempts = fs::read_dir(self.scratch.home().join("attempts"));
        let folders = attempts.into_iter().flatten().flatten();
        let mut folders = folders.map(|attempt| attempt.path().join(process_id));
        folders.find(|folder| folder.exists()).unwrap_or_default()
    }

    fn seed_of(&self, process_id: &str) -> Option<u64> {
        parse(&fs::read_to_string(self.folder_of(process_id).join("stdin")).ok()?)
    }

    /// Nobody may see the end of this process.
    fn may_be_lost(&mut self, process_id: &str) {
        let seed = self.seed_of(process_id);
        let turns = self.attempts.iter_mut().flat_map(|attempt| &mut attempt.turns);
        for turn in turns.filter(|turn| Some(turn.script.seed) == seed) {
            turn.may_be_lost = true;
        }
    }

    /// The living executor of an execution process.
    fn leader(&self, process_id: &str) -> Result<Option<Process>> {
        let started = started(&self.folder_of(process_id))?;
        Ok(started.filter(|process| process.is_alive()))
    }

    /// One of some places, come by for the first time or a later one.
    fn some_place(&mut self, places: &[&str], times: u32) -> String {
        let place = places[self.rng.usize(..places.len())];
        if place.contains('@') {
            return place.to_owned();
        }
        format!("{place}@{}", self.rng.u32(1..=times))
    }

    fn lead_to(&mut self, way: Way) -> Result<()> {
        for _ in 0..3 {
            let which = self.rng.usize(..self.attempts.len());
            match way {
                Way::Stop => self.stop(which)?,
                Way::FollowUp => self.follow_up(which)?,
                Way::Any | Way::Rescue | Way::Flood | Way::Exit | Way::Setup | Way::Finish(_) => {}
            }
        }
        Ok(())
    }
}
