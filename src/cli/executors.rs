//! `provost executors`: which executors are installed, and how to install the rest.

use super::prelude::*;
use super::run::is_stand_in;
use super::try_executor::try_executor;

const AFTER_AN_INSTALLATION: [&str; 2] = [
    "The daemon keeps the PATH that it was started with. After an installation, run",
    "`provost shutdown`; agents keep running, and the next command starts another.",
];

#[derive(clap::Args, Debug)]
pub struct ExecutorsArgs {
    /// Run "say hello" with this executor in a repository made for it, and show what it offers
    #[arg(long = "try", value_name = "NAME")]
    tried: Option<String>,
}

/// `provost executors`: a table of all, then notes, then how to install those that are missing.
pub async fn executors(context: &mut Context, args: ExecutorsArgs) -> Result<Exit, Failure> {
    if let Some(executor) = args.tried {
        return try_executor(context, &executor).await;
    }
    let listed = context.call::<ListExecutorsOutput>(json!({})).await?;
    context.show(&listed, |out, listed| {
        let columns = [
            Wrapped("EXECUTOR"),
            Whole("PROTOCOL"),
            Whole("VERSION"),
            Wrapped("VARIANTS"),
            Whole("CAN"),
        ];
        out.table(&columns, listed.executors.iter().map(row))?;
        let note = |it: &ExecutorSummary| Some(vec![name(it), it.note.clone()?]);
        let notes: Vec<Vec<String>> = listed.executors.iter().filter_map(note).collect();
        if !notes.is_empty() {
            out.line("")?;
            out.table(&[Whole("EXECUTOR"), Wrapped("NOTE")], notes)?;
        }
        let missing = listed.executors.iter().filter(|it| !it.available).map(|it| {
            let why = it.unavailable_reason.clone().unwrap_or_default();
            vec![it.executor.clone(), why, it.install.clone().unwrap_or_default()]
        });
        let missing: Vec<_> = missing.collect();
        if !missing.is_empty() {
            out.line("")?;
            out.table(&[Whole("MISSING"), Wrapped("WHY"), Whole("INSTALL")], missing)?;
            out.line("")?;
            AFTER_AN_INSTALLATION.iter().try_for_each(|line| out.line(line))?;
        }
        Ok(())
    })
}

/// A row of the table; `*` marks the default variant.
fn row(executor: &ExecutorSummary) -> Vec<String> {
    let version = match &executor.version {
        _ if !executor.available => "missing",
        None => "-",
        Some(version) => version,
    };
    let star = |variant: &String| {
        let is_default = executor.default_variant.as_ref() == Some(variant);
        format!("{variant}{}", if is_default { "*" } else { "" })
    };
    let abilities = [
        ("mcp", executor.supports_mcp),
        ("resume", executor.supports_resume),
        ("interrupt", executor.supports_interrupt),
        ("approvals", executor.supports_approvals),
    ];
    let abilities = abilities.into_iter().filter_map(|(word, has)| has.then_some(word));
    vec![
        name(executor),
        executor.protocol.clone(),
        version.to_owned(),
        executor.variants.iter().map(star).collect::<Vec<_>>().join(" "),
        abilities.collect::<Vec<_>>().join(" "),
    ]
}

/// The executor's name, with a mark on one that only imitates an agent.
fn name(executor: &ExecutorSummary) -> String {
    let mark = if is_stand_in(executor) { " (stand-in)" } else { "" };
    format!("{}{mark}", executor.executor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::tests::executor;

    #[test]
    fn a_row_shows_the_variants_and_abilities_that_it_has() {
        let codex = ExecutorSummary {
            version: Some("0.169.0".to_owned()),
            variants: vec!["ask".to_owned(), "auto".to_owned()],
            default_variant: Some("auto".to_owned()),
            supports_mcp: true,
            supports_resume: true,
            ..executor("codex", true)
        };
        assert_eq!(row(&codex), ["codex", "codex", "0.169.0", "ask auto*", "mcp resume"]);
        assert_eq!(row(&executor("codex", false))[2], "missing");
        assert_eq!(row(&executor("fake", true))[0], "fake (stand-in)");
    }
}
