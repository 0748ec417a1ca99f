use proptest::prelude::*;

use super::*;

fn passages(format: Format, text: &str) -> Vec<(String, Passage)> {
    let sections = sections(format, text).unwrap().into_iter();
    sections
        .flat_map(|section| {
            let place = section.breadcrumb;
            section.passages.into_iter().map(move |passage| (place.clone(), passage))
        })
        .collect()
}

fn find<'a>(passages: &'a [(String, Passage)], text: &str) -> &'a (String, Passage) {
    let found =
        passages.iter().find(|(_, passage)| !passage.is_whole && passage.text.contains(text));
    found.unwrap_or_else(|| panic!("nothing says {text:?}: {passages:#?}"))
}

/// A quote is what stands at its lines, or a piece of it.
fn holds(text: &str, passage: &Passage) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let (first, last) = (passage.first_line, passage.last_line);
    let there = first >= 1 && first <= last && last <= lines.len();
    there && {
        let stands = lines[first - 1..last].join("\n");
        stands == passage.quote
            || (stands.contains(&passage.quote) && stands.len() > lines::QUOTE_MAX)
    }
}

#[test]
fn markdown_comes_apart_by_headings_sentences_items_and_rows() {
    let text = "intro text here.\n\n# A\n\n## B\n\nOne says this. Two says\nthat, e.g. more.\n\nThe limits are:\n\n- ten\n  lines\n- five\n\n| Who | May |\n|-----|-----|\n| owner | all |\n| guest | none |\n\n```sh\nrun it\n```\n";
    let all = passages(Format::Markdown, text);
    let (place, one) = find(&all, "One says");
    assert_eq!((place.as_str(), one.first_line, one.last_line), ("A > B", 7, 7));
    let (_, two) = find(&all, "Two says");
    assert_eq!(two.quote, "One says this. Two says\nthat, e.g. more.");
    let (_, ten) = find(&all, "ten lines");
    assert_eq!((ten.quote.as_str(), ten.lead.as_str()), ("- ten\n  lines", "The limits are:"));
    let (_, owner) = find(&all, "Who: owner, May: all");
    assert_eq!((owner.first_line, owner.quote.as_str()), (18, "| owner | all |"));
    let (_, code) = find(&all, "run it");
    assert_eq!(code.code.as_deref(), Some("sh"));
    assert_eq!(all[0].0, "", "what stands before the first heading");
    let whole =
        all.iter().find(|(_, passage)| passage.is_whole && passage.quote.starts_with("The limits"));
    assert_eq!(whole.unwrap().1.last_line, 14);
    assert!(
        all.iter().all(|(_, passage)| !passage.quote.starts_with('#')),
        "a heading says nothing"
    );
}

#[test]
fn json_comes_apart_by_paths_with_the_lines_of_each_value() {
    let text = "{\n  \"designChoices\": {\n    \"navigationStyle\":\n      \"Sidebar collapses on mobile\",\n    \"sizes\": [8, 16],\n    \"pages\": [\n      {\"name\": \"home\", \"title\": \"Start of it all\"}\n    ]\n  },\n  \"strict\": true,\n  \"none\": null\n}\n";
    let all = passages(Format::Json, text);
    let (_, style) = find(&all, "Sidebar collapses");
    assert_eq!(style.path.as_deref(), Some("designChoices.navigationStyle"));
    assert_eq!((style.first_line, style.last_line), (3, 4));
    assert_eq!(style.asked.as_deref(), Some("navigation Style: Sidebar collapses on mobile"));
    assert_eq!(find(&all, "sizes: 8, 16").1.path.as_deref(), Some("designChoices.sizes"));
    let (place, title) = find(&all, "Start of it all");
    assert_eq!(title.path.as_deref(), Some("designChoices.pages[0].title"));
    assert_eq!(place, "designChoices.pages[0]");
    assert_eq!(find(&all, "strict: true").1.first_line, 10);
    assert!(!all.iter().any(|(_, passage)| passage.text.contains("none")));
}

#[test]
fn text_comes_apart_by_paragraphs_under_headings_that_look_like_some() {
    let text = "Decisions\n\nThe launch is in May. It is public.\n\nPRICING\n- Starter: 49\n- Fleet: 199\n";
    let all = passages(Format::Text, text);
    let (place, launch) = find(&all, "The launch");
    assert_eq!((place.as_str(), launch.first_line), ("Decisions", 3));
    let (place, fleet) = find(&all, "Fleet");
    assert_eq!((place.as_str(), fleet.quote.as_str()), ("PRICING", "- Fleet: 199"));
}

#[test]
fn odd_documents_are_taken_and_bad_ones_reported() {
    for format in [Format::Markdown, Format::Json, Format::Text] {
        for nothing in ["", "\n\n", "  \r\n"] {
            assert_eq!(sections(format, nothing).unwrap(), []);
        }
    }
    assert_eq!(decode(b"ab\xffc".to_vec()), Err(ParseError::NotUtf8(2)));
    assert_eq!(decode("\u{feff}# A".into()).unwrap(), "# A");
    assert!(matches!(sections(Format::Json, "{\"a\": }"), Err(ParseError::NotJson(_))));
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    assert!(!sections(Format::Json, &deep).unwrap().is_empty());
    let long = format!("# A\n\n{}. The end is here.\n", "word ".repeat(50_000));
    let all = passages(Format::Markdown, &long);
    assert!(holds(&long, &find(&all, "The end is here").1));
}

#[test]
fn what_is_struck_out_says_nothing_and_stays_in_the_quote() {
    let text = "# A\n\n~~It is green.~~ It is purple. It ~~was~~ is old.\n\n- ~~one~~\n- two\n\n\
                | A | B |\n|---|---|\n| ~~x~~ | y |\n\n## ~~B~~\n\nIt is said.\n";
    let all = passages(Format::Markdown, text);
    let said: Vec<&str> = all.iter().map(|(_, passage)| passage.text.as_str()).collect();
    assert!(said.iter().all(|said| !said.contains("green") && !said.contains("one")), "{said:?}");
    let (_, purple) = find(&all, "It is purple.");
    assert_eq!(purple.text, "It is purple.");
    assert_eq!(purple.quote, "~~It is green.~~ It is purple. It ~~was~~ is old.");
    assert!(said.contains(&"It is old.") && said.contains(&"two") && said.contains(&"B: y"));
    assert_eq!(find(&all, "It is said").0, "A > ~~B~~");
}

#[test]
fn two_things_under_one_name_are_refused_with_their_line() {
    for (text, line) in
        [("{\n\"a\": 1,\n\"a\": 2}", 3), ("[[{\"b\": {\"a\": 1,\n\n\"a\":\n{}}}]]", 3)]
    {
        let refused = sections(Format::Json, text);
        assert_eq!(refused, Err(ParseError::SameName { name: "a".to_owned(), line }), "{text}");
    }
    assert!(sections(Format::Json, "[{\"a\": 1}, {\"a\": 2, \"b\": {\"a\": 3}}]").is_ok());
}

#[test]
fn a_lone_carriage_return_ends_a_line_where_nothing_else_does() {
    let text = decode(b"# A\r\rOne is.\rTwo is.\r".to_vec()).unwrap();
    let all = passages(Format::Markdown, &text);
    assert_eq!(find(&all, "Two is").1.first_line, 4);
    assert_eq!(find(&all, "Two is").1.quote, "Two is.");
    assert_eq!(decode(b"a\rb\nc".to_vec()).unwrap(), "a\rb\nc");
}

/// A document's passages as they are kept, in bytes.
fn kept(format: Format, text: &str) -> usize {
    let sections = sections(format, text).unwrap();
    sections.iter().map(|section| pack(&section.passages).len()).sum()
}

/// A document of sentences, by how many there are.
type Shape = fn(&str, usize) -> String;

#[test]
fn what_is_kept_grows_as_the_document_does() {
    let sentence = "The berth of a ship is booked by its agent. ";
    let shapes: [(Format, Shape); 7] = [
        (Format::Markdown, |sentence, times| sentence.repeat(times)),
        (Format::Markdown, |sentence, times| sentence.replace(". ", ".\n").repeat(times)),
        (Format::Markdown, |sentence, times| {
            format!("{}:\n\n{}", sentence.repeat(times), format!("- {sentence}\n").repeat(times))
        }),
        (Format::Markdown, |sentence, times| {
            let head =
                format!("|{sentence}|b|\n|---|---|\n").replace(sentence, &sentence.repeat(times));
            format!("{head}{}", format!("|{sentence}||\n").repeat(times))
        }),
        (Format::Text, |sentence, times| sentence.repeat(times)),
        (Format::Json, |sentence, times| serde_json::json!([sentence.repeat(times)]).to_string()),
        (Format::Json, |sentence, times| serde_json::json!(vec![sentence; times]).to_string()),
    ];
    for (at, (format, shape)) in shapes.into_iter().enumerate() {
        for times in [40, 400] {
            let text = shape(sentence, times);
            let kept = kept(format, &text);
            assert!(kept < 12 * text.len(), "shape {at}: {kept} bytes of {}", text.len());
        }
    }
}

#[test]
fn windows_line_ends_are_no_part_of_a_quote() {
    let all = passages(Format::Markdown, "# A\r\n\r\nOne\r\ntwo.\r\n");
    assert_eq!(find(&all, "One two.").1.quote, "One\ntwo.");
}

/// Words, marks and breaks, in any order and script.
fn document() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "# ",
        "## ",
        "- ",
        "1. ",
        "| ",
        " |",
        "|---|",
        "```",
        "\n",
        "\n\n",
        "\r\n",
        "    ",
        "> ",
        ". ",
        ": ",
        "word",
        "Übergröße",
        "日本語。",
        "🦀",
        "a\u{301}",
        "&amp;",
        "\\*",
        "**b**",
        "~~",
        "`c`",
        "[l](u)",
        "<b>",
        "\t",
        "---\n",
    ]);
    prop::collection::vec(piece, 0..80).prop_map(|pieces| pieces.concat())
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i32>().prop_map(Into::into),
        "[ -~äß\\n\"\\\\🦀]{0,30}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::btree_map("[a-zA-Zé\"_]{1,8}", inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

#[test]
fn an_empty_item_and_an_empty_heading_are_quoted_verbatim() {
    let text = "1. \r\n# ";
    for format in [Format::Markdown, Format::Text] {
        assert!(passages(format, text).iter().all(|(_, passage)| holds(text, passage)));
    }
}

proptest! {
    #[test]
    fn a_quote_is_verbatim_at_its_lines(text in document()) {
        for format in [Format::Markdown, Format::Text] {
            for (_, passage) in passages(format, &text) {
                prop_assert!(holds(&text, &passage), "{format:?} {passage:?} in {text:?}");
                prop_assert!(!passage.quote.trim().is_empty());
            }
            for section in sections(format, &text).unwrap() {
                let packed = pack(&section.passages);
                prop_assert_eq!(unpack(&packed).unwrap(), section.passages);
            }
        }
    }

    #[test]
    fn a_quote_of_json_is_verbatim_at_its_lines(value in json(), is_pretty in any::<bool>()) {
        let text = if is_pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let text = text.unwrap();
        for (_, passage) in passages(Format::Json, &text) {
            prop_assert!(holds(&text, &passage), "{passage:?} in {text}");
        }
    }
}
