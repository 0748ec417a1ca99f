use super::*;
use crate::http::page::patch;

const CSS: &str = include_str!("../../assets/colours.css");

fn later() -> Instant {
    Instant::now() + Duration::from_mins(10)
}

fn parts<'l>(path: &str, lines: &[&'l str]) -> Vec<Vec<(&'static str, &'l str)>> {
    let coloured = of_syntax(by_path(path).unwrap(), lines, later());
    let of = |(line, text): (&Line, &&'l str)| {
        line.iter().map(|it| (it.class, &text[it.range.clone()])).collect()
    };
    coloured.iter().zip(lines).map(of).collect()
}

#[test]
fn code_has_classes_over_several_lines() {
    let found = parts("app/src/main.rs", &["fn größe() { // x", "/* a", "b */ let s = \"<é>\";"]);
    assert!(found[0].contains(&("hl-function", "größe")), "{found:?}");
    assert!(found[0].contains(&("hl-comment", "// x")), "{found:?}");
    assert_eq!(found[1], [("hl-comment", "/* a")]);
    assert_eq!(found[2][0], ("hl-comment", "b */"));
    assert!(found[2].contains(&("hl-string", "\"<é>\"")), "{found:?}");
    for path in ["x.ts", "a/Cargo.toml", "Dockerfile", "x.PY", "b.go", "c.tsx", "x.yml", "Makefile"]
    {
        assert!(by_path(path).is_some(), "{path}");
    }
    assert!(by_path("notes.txt").is_none());
}

#[test]
fn a_row_of_a_patch_is_read_on_its_own_side() {
    let text = "diff --git a/x.rs b/x.rs\n--- a/x.rs\n+++ b/x.rs\n@@ -1,2 +1,2 @@\n-/* open\n+let a = 1;\n let b = 2;\n";
    let file = patch::parse(text).remove(0);
    let colours = patch(&file, later());
    let classes = |row| colours.row(0, row).iter().map(|it| it.class).collect::<Vec<_>>();
    assert_eq!(classes(0), ["hl-comment"]);
    assert_eq!(classes(1)[0], "hl-keyword");
    assert_eq!(classes(2)[0], "hl-keyword");
    assert!(colours.row(0, 9).is_empty() && colours.row(7, 0).is_empty());
}

#[test]
fn what_is_long_stays_plain() {
    let long = format!("let a = \"{}\";", "x".repeat(LINE_MAX));
    let found = parts("x.rs", &[&long, "let b = 1;"]);
    assert!(found[0].is_empty() && !found[1].is_empty());
    assert!(!fits(&vec![""; LINES_MAX + 1]) && !fits(&[&"x".repeat(BYTES_MAX)]) && fits(&["x"]));
    let before = Instant::now();
    while Instant::now() <= before {}
    let none = of_syntax(by_path("x.rs").unwrap(), &["let a = 1;"], before);
    assert!(none.is_empty());
}

#[test]
fn each_class_has_its_rule() {
    for (_, class) in CLASSES.iter().filter(|(_, class)| !class.is_empty()) {
        assert!(CSS.contains(&format!(".{class} {{ color: var(--{class});")), "{class}");
    }
    assert_eq!(SCOPES.len(), CLASSES.len());
}

/// The contrast of WCAG 2: of the relative luminances of two colours.
fn contrast(one: &str, other: &str) -> f64 {
    let luminance = |colour: &str| {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    };
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn every_colour_has_contrast_on_every_background() {
    assert!((contrast("#ffffff", "#000000") - 21.0).abs() < 1e-9);
    let (light, dark) = CSS.split_once("@media").unwrap();
    for scheme in [light, dark] {
        let colours: HashMap<&str, &str> = scheme
            .split("--")
            .filter_map(|rest| rest.split_once(": #"))
            .filter_map(|(name, rest)| Some((name, scheme_colour(scheme, rest.get(..6)?)?)))
            .collect();
        let is_text =
            |name: &str| name.starts_with("hl-") || name == "code-text" || name == "code-dim";
        let (texts, grounds): (Vec<_>, Vec<_>) =
            colours.iter().partition(|(name, _)| is_text(name));
        assert!(texts.len() == 8 && grounds.len() == 6, "{colours:?}");
        for (text, colour) in &texts {
            for (ground, behind) in &grounds {
                let contrast = contrast(colour, behind);
                assert!(contrast >= 4.5, "{text} on {ground}: {contrast:.2}");
            }
        }
    }
}

/// The colour with its `#`.
fn scheme_colour<'c>(scheme: &'c str, digits: &str) -> Option<&'c str> {
    let at = scheme.find(&format!("#{digits}"))?;
    scheme.get(at..at + 7)
}
