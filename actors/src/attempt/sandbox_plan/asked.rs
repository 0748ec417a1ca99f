//! What concerns the sandboxes of all executors together: the sandbox around a program that Provost asks
//! about itself (its version, its login), outside of any attempt; and the programs that an agent in a
//! sandbox could replace, which therefore must not run outside of one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use super::{SandboxPlan, of_all, variables};
use crate::sandbox::places::{Person, meets, of_program, real};
use crate::sandbox::{self, Access, Level, Rule, Sandbox, Wanted};

/// How many links lead to a file at most (`path_resolution(7)`).
const LINKS_MAX: usize = 40;
/// How many programs run a program at most: the interpreter of a script may be a script (execve(2)).
const INTERPRETERS_MAX: usize = 4;
/// How many bytes of a script are read for its interpreter: as many as the kernel reads.
const FIRST_LINE_MAX: u64 = 256;

/// The machine and the configuration, as far as the sandboxes of different executors have to know of each
/// other.
#[derive(Debug, Default)]
pub struct Machine {
    /// The daemon's own environment: where the person's home is, and what `PATH` has.
    pub environment: BTreeMap<String, String>,
    /// The folders of Provost's home, which no sandbox may open.
    pub private: Vec<PathBuf>,
    /// The folders of Provost's home in which agents and setups write.
    pub written: Vec<PathBuf>,
    /// The names of executors, and the paths that their sandboxes may write.
    pub writes: Vec<(String, Vec<String>)>,
}

impl Machine {
    /// The sandbox around a program of an executor that is asked about itself. It may only read what a
    /// turn may write, and write its temporary folder alone.
    ///
    /// # Errors
    /// A sentence: the machine has no sandbox, or the paths of the configuration don't fit.
    pub fn around(
        &self,
        wanted: &Wanted,
        program: &Path,
        temporary: &Path,
    ) -> Result<SandboxPlan, String> {
        if let Some(obstacle) = sandbox::obstacle() {
            return Err(obstacle);
        }
        let person = Person::of(&self.environment);
        let others: Vec<String> = self.writes.iter().flat_map(|(_, paths)| paths.clone()).collect();
        let mut rules = of_all(&person, &self.private, wanted, &others, Access::Read)?;
        let env = variables(&person, &rules, temporary);
        let state = wanted.state.iter().filter_map(|it| person.path(&it.from).ok().and_then(real));
        let state = state.filter(|path| !meets(path, &self.private));
        rules.extend(state.map(|path| Rule { path, access: Access::Read }));
        rules.extend(of_program(program, &person, &self.private));
        rules.push(Rule { path: temporary.to_owned(), access: Access::Write });
        let level = Level::Workspace;
        let abi = sandbox::abi();
        let sandbox = Sandbox { level, abi, rules, ..Sandbox::default() };
        Ok(SandboxPlan { sandbox, env, agent_notice: None, state: None })
    }

    /// Why a program must not run outside of a sandbox, in a sentence without its full stop: an agent
    /// could have replaced the program, a folder or link on the way to it, or its interpreter. `None`: it
    /// may run.
    pub fn replaceable(&self, program: &Path) -> Option<String> {
        let written = self.all_written();
        let mut program = program.to_owned();
        for _ in 0..INTERPRETERS_MAX {
            let way = way_to(&program);
            let is_below = |(folder, _): &&(PathBuf, Option<&str>)| {
                way.iter().any(|place| place.starts_with(folder))
            };
            if let Some((folder, executor)) = written.iter().find(is_below) {
                return Some(refused(&program, folder, *executor));
            }
            program = self.interpreter(&program)?;
        }
        None
    }

    /// The folders of a search path that an agent could write: a program that is planted there would run
    /// outside of a sandbox.
    pub fn replaceable_folders(&self, search: &str) -> Vec<PathBuf> {
        let written = self.all_written();
        let is_below = |folder: &PathBuf| {
            let way = way_to(folder);
            way.iter().any(|place| written.iter().any(|(outer, _)| place.starts_with(outer)))
        };
        std::env::split_paths(search).filter(|it| it.is_absolute()).filter(is_below).collect()
    }

    /// Where agents write, without links, and of which executor they are; `None`: of any.
    fn all_written(&self) -> Vec<(PathBuf, Option<&str>)> {
        let person = Person::of(&self.environment);
        let mut all: Vec<_> = self.written.iter().map(|it| (resolved(it), None)).collect();
        for (executor, texts) in &self.writes {
            let paths = texts.iter().filter_map(|text| person.path(text).ok());
            all.extend(paths.map(|path| (resolved(&path), Some(executor.as_str()))));
        }
        all
    }

    /// The program that runs a script, also behind `env`; `None`: it is no script, or can't be read.
    fn interpreter(&self, script: &Path) -> Option<PathBuf> {
        let mut text = Vec::new();
        File::open(script).ok()?.take(FIRST_LINE_MAX).read_to_end(&mut text).ok()?;
        let text = String::from_utf8_lossy(text.strip_prefix(b"#!")?).into_owned();
        let mut words = text.lines().next()?.split_whitespace();
        let interpreter = Path::new(words.next()?);
        if !interpreter.ends_with("env") {
            return Some(interpreter.to_owned());
        }
        let name = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
        let search = self.environment.get("PATH")?;
        std::env::split_paths(search).map(|folder| folder.join(name)).find(|it| it.is_file())
    }
}

/// The sentence of [`Machine::replaceable`].
fn refused(program: &Path, folder: &Path, executor: Option<&str>) -> String {
    let (program, folder) = (program.display(), folder.display());
    match executor {
        Some(executor) => format!(
            "agents of executor {executor} could replace {program}, for their sandbox lets them \
             write {folder}: install it elsewhere, or name narrower paths in sandbox_write of \
             executor {executor}"
        ),
        None => format!(
            "agents could replace {program}, for they write in {folder}, a folder of Provost's \
             home: install it elsewhere"
        ),
    }
}

/// Each path that the kernel passes on its way to a file: folders, links, and where the links lead.
fn way_to(file: &Path) -> Vec<PathBuf> {
    let parts = |path: &Path| {
        let parts = path.components().map(|part| part.as_os_str().to_owned());
        parts.rev().collect::<Vec<OsString>>()
    };
    let (mut here, mut rest) = (PathBuf::from("/"), parts(file));
    let (mut passed, mut links) = (Vec::new(), 0);
    while let Some(part) = rest.pop() {
        match Path::new(&part).components().next() {
            Some(Component::RootDir) => here = PathBuf::from("/"),
            Some(Component::ParentDir) => drop(here.pop()),
            Some(Component::Normal(name)) => {
                here.push(name);
                passed.push(here.clone());
                if let Ok(target) = fs::read_link(&here)
                    && links < LINKS_MAX
                {
                    links += 1;
                    here.pop();
                    rest.extend(parts(&target));
                }
            }
            _ => {}
        }
    }
    passed
}

/// A path with its links resolved, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|above| Some((above, real(above)?)));
    there.map_or_else(
        || path.to_owned(),
        |(above, real)| path.strip_prefix(above).map_or(real.clone(), |rest| real.join(rest)),
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn machine(home: &Path, search: &str) -> Machine {
        let environment = [("HOME", home.to_str().unwrap()), ("PATH", search)];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Machine {
            environment: environment.into(),
            private: vec![home.join("provost")],
            written: vec![home.join("provost/worktrees")],
            writes: vec![("a".to_owned(), vec!["~/.a/".to_owned(), "~/gone/x/".to_owned()])],
        }
    }

    #[test]
    fn a_program_that_an_agent_could_replace_is_known_by_its_whole_way() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        for folder in [".a/bin", "bin", "provost/worktrees/w"] {
            fs::create_dir_all(home.join(folder)).unwrap();
        }
        let script = |path: &str, text: &str| fs::write(home.join(path), text).unwrap();
        for path in ["bin/own", ".a/bin/in", "provost/worktrees/w/x"] {
            script(path, "\x7fELF");
        }
        script("bin/by", &format!("#!{}/.a/bin/in -x\n", home.display()));
        script("bin/found", "#!/usr/bin/env -S in --flag\n");
        script("bin/by-by", &format!("#! {}/bin/found\n", home.display()));
        let link = |to: &str, at: &str| symlink(to, home.join(at)).unwrap();
        link("../.a/bin/in", "bin/link");
        link("../bin/own", ".a/back");
        link("../.a/back", "bin/there-and-back");
        link(".a", "a");
        symlink(home.join("gone/x/y"), home.join("bin/dangling")).unwrap();
        let search = format!("{0}/bin:{0}/a/bin:/usr/bin", home.display());
        let machine = machine(&home, &search);
        for path in [
            ".a/bin/in",
            "a/bin/in",
            "bin/link",
            "bin/there-and-back",
            "bin/../.a/back",
            "bin/by",
            "bin/found",
            "bin/by-by",
            "bin/dangling",
            "provost/worktrees/w/x",
        ] {
            assert!(machine.replaceable(&home.join(path)).is_some(), "{path}");
        }
        assert_eq!(machine.replaceable(&home.join("bin/own")), None);
        assert_eq!(machine.replaceable(Path::new("/usr/bin/env")), None);
        let reason = machine.replaceable(&home.join("bin/link")).unwrap();
        assert!(
            reason.contains("executor a") && reason.contains("install it elsewhere"),
            "{reason}"
        );
        assert_eq!(machine.replaceable_folders(&search), [home.join("a/bin")]);
    }

    #[test]
    fn a_program_that_is_asked_writes_its_temporary_folder_alone() {
        if sandbox::obstacle().is_some() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        for folder in [".a", "tmp"] {
            fs::create_dir(home.join(folder)).unwrap();
        }
        let machine = machine(&home, "/usr/bin");
        let write = vec!["~/.a/".to_owned(), "~/gone/x/".to_owned()];
        let wanted = Wanted { write, ..Wanted::default() };
        let temporary = home.join("tmp");
        let boxed = machine.around(&wanted, Path::new("/usr/bin/env"), &temporary).unwrap();
        let of = |access: Access| {
            let rules = boxed.sandbox.rules.iter().filter(move |rule| rule.access == access);
            rules.map(|rule| rule.path.clone()).collect::<Vec<_>>()
        };
        assert_eq!(of(Access::Write), [temporary]);
        assert!(of(Access::Read).contains(&home.join(".a")));
        assert!(!home.join("gone").exists(), "nothing is made for it");
    }
}
