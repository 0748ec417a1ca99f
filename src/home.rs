//! The folders of a home. With `PROVOST_HOME`, all of them are in one folder; without it, they follow the
//! XDG base directory specification. All folders have the mode 0700, and every process of a home finds
//! the same paths, whatever its working directory is.

mod modes;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use etcetera::base_strategy::{BaseStrategy, Xdg};
use modes::{failed, private_folder, private_folder_in_shared};
use provost_actors::attempt::Machine;
use provost_actors::world::Folders;

use crate::secret::TOKEN_FILE;

/// The environment variable that names a home.
pub const HOME_VARIABLE: &str = "PROVOST_HOME";

/// The longest path of a socket: `sun_path` is 108 bytes with its NUL (unix(7)).
const SUN_PATH_MAX: usize = 107;

const SOCKET: &str = "daemon.sock";
const DATABASE: &str = "provost.db";
/// The file that says where the board is, if a server has it.
const ENGINE: &str = "provost.engine";
const CONFIG: &str = "config.toml";
/// The file with the port of the page, which the next daemon takes again.
pub const PORT_FILE: &str = "http-port";

/// Names that a folder may contain and still become a home: remains of an earlier home without its
/// database, and what new file systems contain (`lost+found`).
const BEFORE_A_DATABASE: [&str; 16] = [
    CONFIG,
    "attempts",
    crate::audit::FILE,
    "cache",
    "checks",
    "daemon.log",
    "host-secret",
    PORT_FILE,
    TOKEN_FILE,
    "lost+found",
    "mirrors",
    ENGINE,
    "run",
    "scratch",
    "trash",
    "worktrees",
];

/// Why a home can't be used: a sentence for a person. The command line ends with exit code 3 then.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HomeError(String);

/// The paths of a home. The folders exist once the home is open, and not necessarily in one from
/// [`unopened`](Self::unopened).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// The `PROVOST_HOME` of child processes; `None` when the XDG variables decide.
    pub root: Option<PathBuf>,
    config_dir: PathBuf,
    /// Holds everything that must be kept.
    pub data_dir: PathBuf,
    run_dir: PathBuf,
    /// The lock that the daemon of this home holds.
    pub lock: PathBuf,
    /// The log of a daemon in the background.
    pub log_file: PathBuf,
    /// The daemon's socket; always short enough for `sun_path`.
    pub socket: PathBuf,
}

impl Home {
    /// Opens the home that the environment names, and creates what is missing. Fails if the folder
    /// contains something else, or belongs to another user.
    pub fn from_environment() -> Result<Self, HomeError> {
        Self::named()?.open()
    }

    /// The paths of the home that the environment names, without creating, changing or checking anything:
    /// for the doctor.
    pub fn unopened() -> Result<Self, HomeError> {
        let mut home = Self::named()?;
        if let Some(root) = home.root.take() {
            home = Self::in_one(real(&root));
        }
        for dir in [&mut home.config_dir, &mut home.data_dir, &mut home.run_dir] {
            *dir = real(dir);
        }
        home.socket = socket_path(&home.run_dir);
        Ok(home)
    }

    /// Opens the home in one folder. A relative `root` starts at the working directory; symbolic links
    /// are resolved, so that two names of a folder are the same home.
    pub fn at(root: impl AsRef<OsStr>) -> Result<Self, HomeError> {
        Self::under(Path::new(&root))?.open()
    }

    /// The paths by `PROVOST_HOME`, else by the XDG variables. Nothing is touched. An empty variable
    /// counts as unset.
    fn named() -> Result<Self, HomeError> {
        match std::env::var_os(HOME_VARIABLE).filter(|value| !value.is_empty()) {
            Some(root) => Self::under(Path::new(&root)),
            None => Xdg::new().map(|dirs| Self::over_xdg(&dirs)).map_err(|error| {
                let what = "is not set and there is no home directory";
                HomeError(format!("{HOME_VARIABLE} {what}: {error}"))
            }),
        }
    }

    fn under(root: &Path) -> Result<Self, HomeError> {
        let unknown = |error| HomeError(format!("the working directory can't be read: {error}"));
        Ok(Self::in_one(std::path::absolute(root).map_err(unknown)?))
    }

    /// The paths of a home in one folder. The socket's path follows once links are resolved.
    fn in_one(root: PathBuf) -> Self {
        let run_dir = root.join("run");
        Self {
            config_dir: root.clone(),
            data_dir: root.clone(),
            lock: run_dir.join("daemon.lock"),
            log_file: root.join("daemon.log"),
            socket: PathBuf::new(),
            run_dir,
            root: Some(root),
        }
    }

    /// The home spread over the XDG base directories.
    fn over_xdg(dirs: &Xdg) -> Self {
        let data_dir = dirs.data_dir().join("provost");
        let state_dir = dirs.state_dir().unwrap_or_else(|| dirs.data_dir()).join("provost");
        Self {
            root: None,
            config_dir: dirs.config_dir().join("provost"),
            run_dir: dirs
                .runtime_dir()
                .or_else(user_runtime_dir)
                .map_or_else(|| data_dir.join("run"), |dir| dir.join("provost")),
            // The lock is beside the database and not in the runtime directory, which may differ between
            // logins and cron jobs: two daemons would then use one database.
            lock: data_dir.join("daemon.lock"),
            log_file: state_dir.join("daemon.log"),
            socket: PathBuf::new(),
            data_dir,
        }
    }

    // The order matters: foreign content is refused before any mode is changed.
    fn open(mut self) -> Result<Self, HomeError> {
        if let Some(root) = self.root.take() {
            refuse_foreign_content(&root)?;
            self = Self::in_one(private_folder(&root)?);
        } else {
            if let Some(state_dir) = self.log_file.parent() {
                private_folder(state_dir)?;
            }
            for dir in [&mut self.config_dir, &mut self.data_dir] {
                *dir = private_folder(dir)?;
            }
        }
        self.run_dir = private_folder(&self.run_dir)?;
        private_folder(&self.attempts())?;
        private_folder(&self.worktrees())?;
        self.socket = socket_path(&self.run_dir);
        self.make_socket_folder()?;
        self.put_right();
        Ok(self)
    }

    /// The folder for the socket alone, if the home's own path is too long for a socket.
    fn short_folder(&self) -> Option<&Path> {
        self.socket.parent().filter(|folder| *folder != self.run_dir)
    }

    /// Creates the folder of the socket, which an earlier daemon may have removed.
    pub fn make_socket_folder(&self) -> Result<(), HomeError> {
        self.short_folder().map_or(Ok(()), private_folder_in_shared)
    }

    /// Removes the socket, and the folder that was made for it alone. Only the holder of the lock may
    /// call this.
    pub fn remove_socket(&self) {
        let _ = fs::remove_file(&self.socket);
        if let Some(folder) = self.short_folder() {
            // Fails on purpose if something else is in the folder.
            let _ = fs::remove_dir(folder);
        }
    }

    /// The folders that must be private, outermost first, each once.
    pub fn folders(&self) -> Vec<PathBuf> {
        let mut folders = vec![self.config_dir.clone(), self.data_dir.clone()];
        folders.extend([self.run_dir.clone(), self.attempts(), self.worktrees()]);
        folders.dedup();
        folders
    }

    /// The folders that the actors write to.
    pub fn for_actors(&self) -> Folders {
        Folders {
            attempts: self.attempts(),
            worktrees: self.worktrees(),
            trash: self.trash(),
            checks: self.checks(),
            scratch: self.scratch(),
            private: self.folders(),
        }
    }

    /// The folders that agents, scripts and checks write to.
    pub fn written(&self) -> Vec<PathBuf> {
        vec![self.attempts(), self.worktrees(), self.checks(), self.cache(), self.trash()]
    }

    /// What executors need to know of this machine and home. `environment` is that of the daemon.
    pub fn machine(&self, environment: BTreeMap<String, String>) -> Machine {
        let (private, written) = (self.folders(), self.written());
        Machine { environment, private, written, writes: vec![] }
    }

    /// The file with the token by which the owner's own programs use the HTTP API.
    pub fn token_file(&self) -> PathBuf {
        self.data_dir.join(TOKEN_FILE)
    }

    /// `config.toml`. It need not exist: all settings have defaults.
    pub fn config_file(&self) -> PathBuf {
        self.config_dir.join(CONFIG)
    }

    /// The socket of the HTTP API, beside the daemon's own socket.
    pub fn http_socket(&self) -> PathBuf {
        self.socket.with_file_name("http.sock")
    }

    /// The SQLite file. It does not exist if a server has the board.
    pub fn database(&self) -> PathBuf {
        self.data_dir.join(DATABASE)
    }

    /// The file with the secret that proves that a registration as a host comes from this home.
    pub fn host_secret(&self) -> PathBuf {
        self.data_dir.join("host-secret")
    }

    /// The file that says until when the processes of this home may run, on a board that hosts share.
    /// Shims read it.
    pub fn lease(&self) -> PathBuf {
        self.data_dir.join("lease")
    }

    /// The file that says where the board is, if a server has it.
    pub fn engine_file(&self) -> PathBuf {
        self.data_dir.join(ENGINE)
    }

    /// Where the board is, without a password. `None`: it is in the home's SQLite file.
    pub fn engine(&self) -> Option<String> {
        let noted = fs::read_to_string(self.engine_file()).ok()?;
        Some(noted.lines().next()?.trim().to_owned())
    }

    /// The id of the board on the server. `None`: no daemon has opened it yet.
    pub fn board(&self) -> Option<String> {
        let noted = fs::read_to_string(self.engine_file()).ok()?;
        Some(noted.lines().nth(1)?.trim().to_owned())
    }

    /// Holds one folder per attempt, named by its id.
    pub fn attempts(&self) -> PathBuf {
        self.data_dir.join("attempts")
    }

    /// Holds `<attempt short id>-<slug>/<repo name>`.
    pub fn worktrees(&self) -> PathBuf {
        self.data_dir.join("worktrees")
    }

    /// Holds one folder per run of checks, named by its id.
    pub fn checks(&self) -> PathBuf {
        self.data_dir.join("checks")
    }

    /// Holds collected worktrees, and files that were in the way of new ones.
    pub fn trash(&self) -> PathBuf {
        self.data_dir.join("trash")
    }

    /// Holds bare repositories, named by the repository's id, that this host does not have at their
    /// paths.
    pub fn mirrors(&self) -> PathBuf {
        self.data_dir.join("mirrors")
    }

    /// Holds the cached results of setups, by repository and key.
    pub fn cache(&self) -> PathBuf {
        self.data_dir.join("cache")
    }

    /// Holds files that one call needs. A daemon empties it at its start.
    pub fn scratch(&self) -> PathBuf {
        self.data_dir.join("scratch")
    }
}

/// `<run dir>/daemon.sock`. If that is too long for `sun_path`, the socket is in a folder below `/tmp`
/// whose name is a hash of the run folder: every process of the home computes the same name, without a
/// file to look it up.
fn socket_path(run_dir: &Path) -> PathBuf {
    let plain = run_dir.join(SOCKET);
    if plain.as_os_str().len() <= SUN_PATH_MAX {
        return plain;
    }
    let user = nix::unistd::geteuid();
    let hash = fnv1a(run_dir.as_os_str().as_bytes());
    PathBuf::from(format!("/tmp/provost-{user}-{hash:016x}")).join(SOCKET)
}

/// FNV-1a, 64 bits. The hasher of std is no option: its result may change between builds.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// systemd's `/run/user/<uid>`, for processes without `XDG_RUNTIME_DIR`, such as cron jobs. `None` if the
/// folder does not belong to this user.
fn user_runtime_dir() -> Option<PathBuf> {
    let user = nix::unistd::geteuid();
    let dir = PathBuf::from(format!("/run/user/{user}"));
    let owner = fs::symlink_metadata(&dir).ok().filter(fs::Metadata::is_dir)?.uid();
    (owner == user.as_raw()).then_some(dir)
}

/// The path with its symbolic links resolved; unchanged if it does not exist.
fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Refuses a folder with foreign content. A home's folder gets the mode 0700, so it must be new, empty or
/// already a home: else this would close somebody's folder to others.
fn refuse_foreign_content(path: &Path) -> Result<(), HomeError> {
    // Problems with the path are reported when the folder is created.
    let Ok(entries) = fs::read_dir(path) else { return Ok(()) };
    for entry in entries {
        let name = entry.map_err(failed(path))?.file_name();
        let is_known = BEFORE_A_DATABASE.iter().any(|known| name == *known);
        if is_known || crate::audit::is_full_log(&name.to_string_lossy()) {
            continue;
        }
        // The database is looked for after a foreign name was found: another process may make this folder
        // a home while it is read.
        if [DATABASE, ENGINE].iter().any(|name| path.join(name).is_file()) {
            break;
        }
        return Err(HomeError(format!(
            "the folder {} holds `{}`, which is not Provost's, so it was left unchanged: set \
             {HOME_VARIABLE} to a new or empty folder",
            path.display(),
            name.display()
        )));
    }
    Ok(())
}

/// The variables that executors get of their attempt. A daemon must not inherit them, and every executor
/// that it starts would have them.
pub const ATTEMPT_VARIABLES: [&str; 9] = [
    "PROVOST_ATTEMPT_ID",
    "PROVOST_PROCESS_ID",
    "PROVOST_SESSION_ID",
    "PROVOST_TASK_ID",
    "PROVOST_PROJECT_ID",
    "PROVOST_PROJECT_NAME",
    "PROVOST_BRANCH",
    "PROVOST_PROMPT",
    "PROVOST_EXECUTOR_SESSION_ID",
];

/// May contain the password of the board's server, which only the daemon needs.
const ENGINE_VARIABLE: &str = "PROVOST_ENGINE_URL";

/// The variables of this process, without those that are not UTF-8 and without the daemon's own secret.
pub fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter(|(name, _)| name != ENGINE_VARIABLE)
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// The id of the attempt that this process runs in, by its environment. `None`: outside of all attempts,
/// as far as the environment says.
pub fn surrounding_attempt() -> Option<String> {
    let id: OsString = std::env::var_os("PROVOST_ATTEMPT_ID").filter(|value| !value.is_empty())?;
    id.into_string().ok()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_home_has_its_folders_and_they_are_private() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("new/home");
        let home = Home::at(&root).unwrap();
        for folder in [root.clone(), root.join("run"), home.attempts(), home.worktrees()] {
            let mode = fs::metadata(&folder).unwrap().mode() & 0o777;
            assert_eq!(mode, 0o700, "{}", folder.display());
        }
        let root = fs::canonicalize(root).unwrap();
        assert_eq!(home.root.as_ref(), Some(&root));
        assert_eq!(home.socket, root.join("run/daemon.sock"));
        assert_eq!(home.lock, root.join("run/daemon.lock"));
        assert_eq!(home.config_file(), root.join("config.toml"));
        assert_eq!(home.database(), root.join("provost.db"));
    }

    #[test]
    fn an_open_folder_is_closed_to_others() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        Home::at(dir.path()).unwrap();
        assert_eq!(fs::metadata(dir.path()).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_folder_with_other_files_is_refused_and_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("somebody's"), "").unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        let refused = Home::at(dir.path()).unwrap_err().to_string();
        assert!(refused.contains("somebody's") && refused.contains(HOME_VARIABLE), "{refused}");
        assert_eq!(fs::metadata(dir.path()).unwrap().mode() & 0o777, 0o777);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_configuration_alone_and_a_home_with_other_files_are_homes() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(CONFIG), "").unwrap();
        assert!(Home::at(dir.path()).is_ok());
        fs::write(dir.path().join("notes"), "").unwrap();
        assert!(Home::at(dir.path()).is_err());
        fs::write(dir.path().join(DATABASE), "").unwrap();
        assert!(Home::at(dir.path()).is_ok());
    }

    #[test]
    fn a_folder_that_becomes_a_home_meanwhile_is_one() {
        for _ in 0..2000 {
            let dir = tempfile::tempdir().unwrap();
            std::thread::scope(|scope| {
                // SQLite creates its other files after the database.
                scope.spawn(|| {
                    fs::write(dir.path().join(DATABASE), "").unwrap();
                    fs::write(dir.path().join("provost.db-wal"), "").unwrap();
                });
                Home::at(dir.path()).unwrap();
            });
        }
    }

    #[test]
    fn two_names_of_a_folder_are_one_home() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real");
        fs::create_dir(&real).unwrap();
        symlink(&real, dir.path().join("link")).unwrap();
        let roundabout = dir.path().join("link/../real/");
        assert_eq!(Home::at(&real).unwrap(), Home::at(dir.path().join("link")).unwrap());
        assert_eq!(Home::at(&real).unwrap(), Home::at(roundabout).unwrap());
    }

    #[test]
    fn a_home_too_deep_for_a_socket_gets_a_short_one() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("d".repeat(120));
        let home = Home::at(&root).unwrap();
        let folder = home.socket.parent().unwrap().to_owned();
        let listening = UnixListener::bind(&home.socket);
        let again = Home::at(&root).unwrap();
        let other = Home::at(dir.path().join("e".repeat(120))).unwrap();
        let mode = fs::metadata(&folder).unwrap().mode() & 0o777;
        home.remove_socket();
        let is_gone = !folder.exists();
        again.make_socket_folder().unwrap();
        let is_back = folder.exists();
        again.remove_socket();
        other.remove_socket();

        assert!(listening.is_ok());
        assert!(is_gone && is_back && !other.socket.parent().unwrap().exists());
        assert_eq!(mode, 0o700);
        assert_eq!(again.socket, home.socket);
        assert_ne!(other.socket, home.socket);
    }

    #[test]
    fn a_symbolic_link_is_no_short_runtime_folder() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        symlink(dir.path(), &link).unwrap();
        let refused = private_folder_in_shared(&link).unwrap_err().to_string();
        assert!(refused.ends_with("is not a folder"), "{refused}");
    }

    #[test]
    fn a_home_that_is_a_file_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let refused = |path: &Path| Home::at(path).unwrap_err().to_string();
        assert!(refused(file.path()).ends_with("is not a folder"));
        assert!(refused(&file.path().join("x")).contains("can't be created or read"));
    }

    proptest! {
        #[test]
        fn a_socket_path_always_fits(run_dir in "(/[a-zà-ü]{1,40}){1,8}") {
            let socket = socket_path(Path::new(&run_dir));
            prop_assert!(socket.as_os_str().len() <= SUN_PATH_MAX);
            prop_assert_eq!(socket_path(Path::new(&run_dir)), socket);
        }
    }
}
