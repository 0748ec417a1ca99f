//! `provost executors`: which executors are installed, and how to install the rest.

use serde_json::{Value, json};

use super::context::{Context, text};
use super::exit::{Exit, Failure};
use super::run::FAKE;
use super::table::{whole, wrapped};

pub async fn executors(context: &mut Context) -> Result<Exit, Failure> {
    let listed = context.read("list_executors", &json!({})).await?;
    if context.out.is_json() {
        context.out.json(&listed)?;
        return Ok(Exit::Done);
    }
    let executors = listed["executors"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<Vec<String>> = executors.iter().map(row).collect();
    let out = &mut context.out;
    let columns = [
        wrapped("EXECUTOR"),
        whole("PROTOCOL"),
        whole("VERSION"),
        wrapped("VARIANTS"),
        whole("CAN"),
    ];
    out.table(&columns, &rows)?;
    let noted = executors.iter().filter(|one| one["note"].is_string());
    let notes: Vec<Vec<String>> =
        noted.map(|one| vec![name(one), text(one, "note").to_owned()]).collect();
    if !notes.is_empty() {
        out.line("")?;
        out.table(&[whole("EXECUTOR"), wrapped("NOTE")], &notes)?;
    }
    let missing: Vec<Vec<String>> =
        executors.iter().filter(|one| one["available"] == false).map(missing).collect();
    if !missing.is_empty() {
        out.line("")?;
        out.table(&[whole("MISSING"), wrapped("WHY"), whole("INSTALL")], &missing)?;
        out.line("")?;
        out.line("The daemon keeps the PATH that it was started with. After an installation, run")?;
        out.line("`provost shutdown`; agents keep running, and the next command starts another.")?;
    }
    Ok(Exit::Done)
}

fn row(executor: &Value) -> Vec<String> {
    let version = match text(executor, "version") {
        _ if executor["available"] == false => "missing",
        "" => "-",
        version => version,
    };
    vec![
        name(executor),
        text(executor, "protocol").to_owned(),
        version.to_owned(),
        variants(executor),
        abilities(executor),
    ]
}

/// Its name, with a mark if it only stands in for an agent.
fn name(executor: &Value) -> String {
    let name = text(executor, "executor");
    let is_stand_in = executor["stand_in"] == true || name == FAKE;
    if is_stand_in { format!("{name} (stand-in)") } else { name.to_owned() }
}

/// Its variants, with a star at the default one.
fn variants(executor: &Value) -> String {
    let variants = executor["variants"].as_array().into_iter().flatten();
    let mark = |variant: &Value| {
        let star = if *variant == executor["default_variant"] { "*" } else { "" };
        format!("{}{star}", variant.as_str().unwrap_or_default())
    };
    variants.map(mark).collect::<Vec<_>>().join(" ")
}

fn abilities(executor: &Value) -> String {
    let all = [
        ("mcp", "supports_mcp"),
        ("resume", "supports_resume"),
        ("interrupt", "supports_interrupt"),
        ("approvals", "supports_approvals"),
    ];
    let has = all.into_iter().filter(|(_, key)| executor[*key] == true);
    has.map(|(word, _)| word).collect::<Vec<_>>().join(" ")
}

fn missing(executor: &Value) -> Vec<String> {
    let name = text(executor, "executor").to_owned();
    let why = text(executor, "unavailable_reason").to_owned();
    vec![name, why, text(executor, "install").to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_tells_the_variants_and_abilities_that_it_has() {
        let executor = json!({"executor": "codex", "protocol": "codex", "version": "0.169.0",
            "available": true, "variants": ["ask", "auto"], "default_variant": "auto",
            "supports_mcp": true, "supports_resume": true, "supports_interrupt": false});
        assert_eq!(row(&executor), ["codex", "codex", "0.169.0", "ask auto*", "mcp resume"]);
        let absent = json!({"executor": "codex", "available": false, "version": null});
        assert_eq!(row(&absent)[2], "missing");
        let fake = json!({"executor": "fake", "stand_in": true});
        assert_eq!(row(&fake)[0], "fake (stand-in)");
    }
}
