//! `provost shell` and `provost open --editor`: a person's own programs in a worktree. They replace this
//! process (execve(2)), so their exit codes and signals are its own.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::path::{self, PathArgs};
use super::prelude::*;

/// The shell where `SHELL` is not set.
const SHELL: &str = "/bin/sh";

#[derive(clap::Args, Debug)]
pub struct ShellArgs {
    #[command(flatten)]
    worktree: PathArgs,
    /// A command for the shell to run instead of reading from the terminal
    #[arg(short, value_name = "COMMAND")]
    command: Option<String>,
}

/// `provost shell`: runs `$SHELL` with the attempt's variables; with `--json` it only prints these.
pub async fn shell(context: &mut Context, args: &ShellArgs) -> Result<Exit, Failure> {
    let (attempt, path) = path::find(context, &args.worktree).await?;
    let environment = context.call::<Environment>(json!({"attempt_id": attempt})).await?;
    let variables = &environment.variables;
    let json = json!({"attempt_id": attempt, "path": path, "variables": variables});
    if context.out.as_json(&json)? {
        return Ok(Exit::Done);
    }
    quiet(context, attempt).await?;
    let shell = variable("SHELL").unwrap_or_else(|| SHELL.to_owned());
    let mut command = program(&shell);
    command.args(args.command.iter().flat_map(|line| ["-c", line.as_str()]));
    run(context, command, &path, variables)
}

/// `provost open --editor`: opens the worktree in the person's editor. `file_not_found` if there is no
/// program for it.
pub async fn edit(context: &mut Context, args: &PathArgs) -> Result<Exit, Failure> {
    let (attempt, path) = path::find(context, args).await?;
    let Some(opener) = opener(variable, is_program) else {
        let nothing = "there is no program that could open the worktree";
        let hint = format!(
            "Set VISUAL or EDITOR to a program that takes a folder, or install xdg-open on a \
             desktop; `cd \"$(provost path {})\"` goes there.",
            attempt.short()
        );
        let refusal = Refusal::new(Code::FileNotFound, nothing).hint(hint);
        return Err(Failure::Refused(Box::new(refusal)));
    };
    let environment = context.call::<Environment>(json!({"attempt_id": attempt})).await?;
    quiet(context, attempt).await?;
    context.out.as_json(&json!({"attempt_id": attempt, "path": path, "opened_with": opener}))?;
    // As git does (git-var(1)): an editor may be a command with arguments, so a shell reads it.
    let mut command = program(SHELL);
    command.args(["-c", &format!("{opener} \"$@\""), &opener, &path]);
    run(context, command, &path, &environment.variables)
}

/// Ends the sandboxed processes that earlier turns left in the worktree, and says on standard error what
/// could still change it.
async fn quiet(context: &mut Context, attempt: AttemptId) -> Result<(), Failure> {
    let quieted = context.call::<Quieted>(json!({"attempt_id": attempt})).await?;
    for notice in &quieted.notices {
        anstream::eprintln!("{}", harmless(notice));
    }
    Ok(())
}

/// The program that opens a link: `BROWSER`, else `xdg-open` on a desktop. `None`: there is no desktop.
pub fn desktop_opener() -> Option<String> {
    variable("BROWSER")
        .or_else(|| opener(|name| variable(name).filter(|_| name.ends_with("DISPLAY")), is_program))
}

/// The command that opens a folder: `VISUAL`, `EDITOR`, else `xdg-open` on a desktop.
fn opener(
    variable: impl Fn(&str) -> Option<String>,
    is_program: impl Fn(&str) -> bool,
) -> Option<String> {
    let own = ["VISUAL", "EDITOR"].into_iter().find_map(&variable);
    own.or_else(|| {
        let has_desktop =
            ["DISPLAY", "WAYLAND_DISPLAY"].into_iter().any(|it| variable(it).is_some());
        (has_desktop && is_program("xdg-open")).then(|| "xdg-open".to_owned())
    })
}

/// The value of a variable; `None` if it is not set or blank.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

#[expect(clippy::disallowed_methods, reason = "a person's own program, in place of this one")]
fn program(name: &str) -> Command {
    Command::new(name)
}

/// Replaces this process with the program. It returns only if the program can't be run.
fn run(
    context: &mut Context,
    mut command: Command,
    path: &str,
    variables: &BTreeMap<String, String>,
) -> Result<Exit, Failure> {
    context.out.flush()?;
    let program = Path::new(command.get_program()).display().to_string();
    // A shell takes PWD for its folder's path if it leads to that folder. Otherwise it prints the
    // path with all symbolic links resolved.
    let error = command.current_dir(path).env("PWD", OsStr::new(path)).envs(variables).exec();
    Err(Failure::Fault(format!("{program} can't be run: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_persons_editor_comes_before_that_of_the_desktop() {
        let with = |set: &[(&str, &str)], has_xdg: bool| {
            let set: BTreeMap<String, String> =
                set.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            opener(|name| set.get(name).cloned(), |_| has_xdg)
        };
        let editors = [("EDITOR", "vi"), ("VISUAL", "code --wait"), ("DISPLAY", ":0")];
        assert_eq!(with(&editors, true).as_deref(), Some("code --wait"));
        assert_eq!(with(&editors[..1], true).as_deref(), Some("vi"));
        assert_eq!(with(&editors[2..], true).as_deref(), Some("xdg-open"));
        assert_eq!(with(&editors[2..], false), None);
        assert_eq!(with(&[], true), None, "no desktop");
    }
}
