use proptest::prelude::*;

use super::*;

/// What may stand between `<` and `>`, links and lists that begin elsewhere apart.
const TAGS: &[&str] = &[
    "p",
    "p class=\"heading\"",
    "p class=\"subheading\"",
    "p class=\"cut\"",
    "span class=\"ctl\"",
    "blockquote",
    "pre",
    "pre class=\"code\"",
    "code",
    "ul",
    "ol",
    "li",
    "em",
    "strong",
    "del",
    "br",
    "hr",
    "div class=\"table\"",
    "table",
    "thead",
    "tr",
    "th",
    "td",
    "th class=\"centre\"",
    "th class=\"right\"",
    "td class=\"centre\"",
    "td class=\"right\"",
];

const LINK: &str = "a rel=\"noopener noreferrer nofollow\" href=\"";

/// Reads markup as strictly as can be: tags of the subset only, each closed in order, and no
/// `<`, `>` or `&` besides.
fn require_subset(markup: &str) -> Result<(), String> {
    let mut open = Vec::new();
    let mut rest = markup;
    while let Some(at) = rest.find(['<', '>', '&']) {
        rest = &rest[at..];
        if rest.starts_with('&') {
            let entity =
                ["&lt;", "&gt;", "&amp;", "&quot;"].iter().find(|it| rest.starts_with(**it));
            rest = &rest[entity.ok_or("a bare &")?.len()..];
            continue;
        }
        let tag = rest.strip_prefix('<').ok_or("a bare >")?;
        let (tag, after) = tag.split_once('>').ok_or("an open tag")?;
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            let last: Option<String> = open.pop();
            if last.as_deref() != Some(name) {
                return Err(format!("</{name}> closes {last:?}"));
            }
            continue;
        }
        let link = tag.strip_prefix(LINK).and_then(|it| it.strip_suffix('"'));
        let start = tag.strip_prefix("ol start=\"").and_then(|it| it.strip_suffix('"'));
        let is_known = match (link, start) {
            (Some(target), _) => {
                let target = target.to_lowercase();
                let is_in_link = open.iter().any(|name| name == "a");
                !is_in_link
                    && !target.contains('"')
                    && SCHEMES.iter().any(|it| target.starts_with(it))
            }
            (_, Some(number)) => number.bytes().all(|byte| byte.is_ascii_digit()),
            _ => TAGS.contains(&tag),
        };
        if !is_known {
            return Err(format!("<{tag}>"));
        }
        if tag != "br" && tag != "hr" {
            open.push(tag.split(' ').next().unwrap_or_default().to_owned());
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("open: {open:?}")) }
}

fn rendered(text: &str) -> String {
    let markup = render(text).into_string();
    require_subset(&markup).unwrap_or_else(|error| panic!("{error}: {markup:.2000}"));
    markup
}

#[test]
fn the_subset_of_a_message() {
    let text = "# Done\n\nI *fixed* **it** ~~twice~~ in `a<b>`:\n\n- [x] one\n- [ ] two\n\n\
                3. three\n4. four\n\n> quoted\n\n```rust,ignore\nlet x = \"<script>\";\n```\n\n\
                | a | b |\n|:-:|--:|\n| 1 | 2 |\n\n---\n\n[docs](https://example.org/?a=1&b=\"2\") \
                and [file](src/main.rs) and ![shot](http://example.org/x.png)\n\
                <mailto:a@example.org>  \nend";
    insta::assert_snapshot!(rendered(text));
}

#[test]
fn nothing_of_an_attack_becomes_markup() {
    for attack in [
        "<script>alert(1)</script>",
        "a <img src=x onerror=alert(1)> b",
        "<svg onload=alert(1)><animate/></svg>",
        "<div style=\"position:fixed\">\n\n*x*\n\n</div>",
        "<!-- --><iframe srcdoc='<script>1</script>'>",
        "<![CDATA[<script>]]>",
        "<?php <script> ?>",
        "```\"><script>alert(1)</script>\nx\n```",
        "``` onclick=alert(1)\nx\n```",
        "`</code><script>`",
        "| <b onmouseover=1> |\n|-|\n| <script> |",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "&#60;script&#62;",
        "[a](https://example.org/\"onmouseover=\"alert(1))",
        "[a](<https://example.org/ onmouseover=alert(1)>)",
        "[a](https://example.org \"\\\"><script>\")",
        "[a][r]\n\n[r]: https://example.org/'\"><script>",
        "# <script>\n<style>*{}</style>",
        "\u{0}<scr\u{0}ipt>",
        "- <script>\n  - </ul><script>",
    ] {
        let markup = rendered(attack);
        assert!(!markup.contains("<script") && !markup.contains(" on=\""), "{markup}");
    }
}

#[test]
fn a_link_with_another_scheme_is_text_in_every_disguise() {
    for target in [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "java&#115;cript:alert(1)",
        "java&Tab;script:alert(1)",
        "&#x6A;avascript:alert(1)",
        "&#0000106avascript:alert(1)",
        "javascript&colon;alert(1)",
        "<java\tscript:alert(1)>",
        "\\javascript:alert(1)",
        "javascript://https://example.org/%0aalert(1)",
        "data:text/html;base64,PHNjcmlwdD4=",
        "data:image/svg+xml,<svg/onload=alert(1)>",
        "vbscript:msgbox(1)",
        "file:///etc/passwd",
        "blob:https://example.org/1",
        "view-source:https://example.org",
        "//example.org/x",
        "/do/stop_attempt",
        "?x=1",
        "#top",
        "",
        "https:example.org",
        "http:/\\example.org",
        "<https://example.org/\u{1}>",
    ] {
        for text in
            [format!("[a]({target})"), format!("![a]({target})"), format!("[a]\n\n[a]: {target}")]
        {
            let markup = rendered(&text);
            assert!(!markup.contains("href"), "{target}: {markup}");
        }
        let auto = rendered(&format!("<{target}>"));
        assert!(!auto.contains("href=\"j") && !auto.contains("href=\"d"), "{auto}");
    }
    let https = rendered("[a](HTTPS://example.org) [![b](https://c.example)](https://d.example)");
    assert_eq!(https.matches("href").count(), 2);
}

#[test]
fn size_and_nesting_are_bounded() {
    let many = 1024 * 1024;
    for unit in
        ["[", "![", "(", ">", "> ", "*", "_", "`", "<", "&", "- ", "1. ", "#", "|", "~", "[a]("]
    {
        let markup = rendered(&unit.repeat(many / unit.len()));
        assert!(markup.len() < MARKUP_MAX + 64 * 1024, "{unit}: {}", markup.len());
        assert!(markup.ends_with("is shown here.</p>"), "{unit}");
    }
    let wide = format!("|{}\n|{}\n{}", "a|".repeat(8000), "-|".repeat(8000), "|b\n".repeat(8000));
    assert!(rendered(&wide).len() < MARKUP_MAX + 64 * 1024);
    let deep = rendered(&format!("{}x", "> ".repeat(1000)));
    assert_eq!(deep.matches("<blockquote>").count(), DEPTH_MAX);
    assert!(deep.contains('x'));
    let long = format!("{}ä", "a".repeat(TEXT_MAX - 1));
    assert!(!rendered(&long).contains('ä'));
}

fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "<",
            ">",
            "\"",
            "'",
            "&",
            "&lt;",
            "[",
            "](",
            ")",
            "![",
            "`",
            "```",
            "\n",
            "\n\n",
            "- ",
            "> ",
            "1. ",
            "| ",
            "|-|\n",
            "*",
            "**",
            "~~",
            "# ",
            "<script>",
            "</",
            "<!--",
            "-->",
            "javascript:",
            "https://x.example/",
            "mailto:",
            "data:",
            "\\",
            "    ",
            "\t",
            "&#x6a;",
            "<a href=",
            "[x]: ",
            "[x]",
            "\u{0}",
            "\u{202e}",
            "<https://x.example>",
            " onclick=1",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,8}",
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn all_markup_is_of_the_subset(text in pieces()) {
        let markup = render(&text).into_string();
        prop_assert_eq!(require_subset(&markup), Ok(()), "{}", markup);
    }
}
