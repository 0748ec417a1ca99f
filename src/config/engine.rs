//! The URL of the board's server, which may hold a password. Pure.

/// Whether a text is a database of PostgreSQL, or none.
pub fn is_engine(text: &str) -> bool {
    text.is_empty() || ["postgres://", "postgresql://"].iter().any(|it| text.starts_with(it))
}

/// A database's URL without its password.
pub fn without_password(url: &str) -> String {
    let (url, query) = url.split_once('?').map_or((url, None), |(url, query)| (url, Some(query)));
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
            (
                "postgres:///board?host=/run&password=x&a=b",
                "postgres:///board?host=/run&password=***&a=b",
            ),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}
