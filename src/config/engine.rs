//! The URL of the board's server, which may contain a password. Pure.

/// True if a text is empty or begins like the URL of a PostgreSQL database. The rest is checked when the
/// board is opened.
pub fn is_engine(text: &str) -> bool {
    text.is_empty() || ["postgres://", "postgresql://"].iter().any(|it| text.starts_with(it))
}

/// A database's URL as it may be shown: without the password before `@`, and with `***` for one in the
/// query.
pub fn without_password(url: &str) -> String {
    // The query begins after the last `@`, because a password may contain a question mark.
    let host = url.rfind('@').unwrap_or(0);
    let query = url[host..].find('?').map(|at| host + at);
    let (url, query) = query.map_or((url, None), |at| (&url[..at], Some(&url[at + 1..])));
    let mut shown = match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((before, host))) => {
            let user = before[scheme.len() + 3..].split(':').next().unwrap_or_default();
            format!("{scheme}://{user}@{host}")
        }
        _ => url.to_owned(),
    };
    for option in query.into_iter().flat_map(|query| query.split('&')) {
        let is_open = !option.starts_with("password=");
        shown.push(if shown.contains('?') { '&' } else { '?' });
        shown.push_str(if is_open { option } else { "password=***" });
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_shown_without_its_password() {
        for (url, shown) in [
            ("", ""),
            ("postgres://db/board", "postgres://db/board"),
            (
                "postgres://ann@db:1/board?sslmode=require",
                "postgres://ann@db:1/board?sslmode=require",
            ),
            ("postgres://ann:se@cret@db/board", "postgres://ann@db/board"),
            ("postgres://ann:se?cret@db/board?a=b", "postgres://ann@db/board?a=b"),
            (
                "postgres:///board?host=/run&password=x&a=b",
                "postgres:///board?host=/run&password=***&a=b",
            ),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}
