//! Which requests pass: by the host name that they ask for, the origin that the browser names, and
//! their token or cookie. Pure.
//!
//! A page of another site can make a browser send requests here, and another site's host name can be
//! made to resolve to this machine (DNS rebinding). Such requests have a foreign `Host`, `Origin` or
//! `Sec-Fetch-Site` (Fetch Metadata, <https://www.w3.org/TR/fetch-metadata/>), which a page can't
//! set itself.
//!
//! ```text
//!  Host foreign, or twice ─────────────────────────────▸ Refused::Host       (not on the Unix socket)
//!  Origin foreign ─────────────────────────────────────▸ Refused::Origin     (not on the Unix socket)
//!  Sec-Fetch-Site foreign, and no followed link ───────▸ Refused::Origin
//!  Authorization ──────────────────────────────────────▸ a token, or no proof for another scheme
//!  our cookie: a change that names no own origin ──────▸ Refused::Origin
//!              else ───────────────────────────────────▸ a cookie
//!  none of them ───────────────────────────────────────▸ no proof
//! ```

use std::net::Ipv4Addr;

use axum::http::{HeaderMap, Method, header};

/// The name of the login cookie. Cookies do not depend on the port (RFC 6265 §8.5), so the name has
/// it: several homes on one machine have different cookies.
pub fn cookie_name(port: u16) -> String {
    format!("provost-{port}")
}

/// The names under which the TCP listener can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The port that is bound, also where the configuration says 0.
    pub port: u16,
    /// Names beside the loopback's: those of `http.names`, and what the daemon adds. They match with
    /// any port.
    pub further: Vec<String>,
}

impl Names {
    /// Whether a `Host` header names this server. A host without a port has the scheme's default.
    fn is_ours(&self, host: &str) -> bool {
        let default = if self.scheme == "https" { 443 } else { 80 };
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()),
            _ => (host, Some(default)),
        };
        let is_loopback = ["localhost", "[::1]"].contains(&name)
            || name.parse::<Ipv4Addr>().is_ok_and(|it| it.is_loopback());
        let is_further = self.further.iter().any(|it| it.eq_ignore_ascii_case(name));
        // A configured name may belong to a proxy in front, whose port differs from ours.
        is_further || (is_loopback && port == Some(self.port))
    }
}

/// What a request offers as proof of its user. The guard does not check it: `Standing` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A program's token.
    Token(String),
    /// A browser's cookie.
    Cookie(String),
}

/// Why a request does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The name that it asks for is not one of ours.
    Host,
    /// It comes from a page of another site, or it is a change by cookie that names no origin.
    Origin,
}

/// Judges a request by its headers. `Ok(None)`: it passes, and offers no proof. `authority` is the
/// host in the request's URI, if it has one. `names` is `None` for a request on the Unix socket, which
/// no browser reaches.
pub fn judge(
    method: &Method,
    headers: &HeaderMap,
    authority: Option<&str>,
    names: Option<&Names>,
) -> Result<Option<Proof>, Refused> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if let Some(names) = names {
        let host = text(header::HOST).or(authority).unwrap_or_default();
        let is_alone = headers.get_all(header::HOST).iter().count() <= 1;
        if !is_alone || !names.is_ours(host) || authority.is_some_and(|it| !names.is_ours(it)) {
            return Err(Refused::Host);
        }
        let own = format!("{}://{host}", names.scheme);
        if text(header::ORIGIN).is_some_and(|origin| !origin.eq_ignore_ascii_case(&own)) {
            return Err(Refused::Origin);
        }
    }
    let site = text(header::HeaderName::from_static("sec-fetch-site"));
    if site.is_some_and(|site| site != "same-origin" && site != "none") && !is_navigation(headers) {
        return Err(Refused::Origin);
    }
    if let Some(given) = text(header::AUTHORIZATION) {
        let token = given.split_once(' ').filter(|(kind, _)| kind.eq_ignore_ascii_case("bearer"));
        return Ok(token.map(|(_, token)| Proof::Token(token.trim().to_owned())));
    }
    let Some(cookie) = names.and_then(|names| cookie(headers, &cookie_name(names.port))) else {
        return Ok(None);
    };
    // Every supported browser names the origin of a change. A change by cookie without one is refused.
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    let is_same = site == Some("same-origin") || headers.contains_key(header::ORIGIN);
    if !is_read && !is_same { Err(Refused::Origin) } else { Ok(Some(Proof::Cookie(cookie))) }
}

/// Whether a person followed a link to this site. From another site that is harmless: the browser
/// sends no `SameSite=Strict` cookie with it.
fn is_navigation(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-mode").is_some_and(|mode| mode == "navigate")
        && headers.get("sec-fetch-dest").is_some_and(|dest| dest == "document")
}

/// The value of the first cookie with this name.
pub fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|text| text.split(';')).filter_map(|it| it.trim().split_once('='));
    pairs.find(|(given, _)| *given == name).map(|(_, value)| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names { scheme: "http", port: 4100, further: vec!["box.lan".to_owned()] }
    }

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        given
            .iter()
            .map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap()))
            .collect()
    }

    fn judged(method: &Method, given: &[(&'static str, &str)]) -> Result<Option<Proof>, Refused> {
        judge(method, &headers(given), None, Some(&names()))
    }

    #[test]
    fn only_our_names_pass_and_a_rebound_name_does_not() {
        for host in [
            "127.0.0.1:4100",
            "127.0.0.2:4100",
            "localhost:4100",
            "[::1]:4100",
            "box.lan",
            "BOX.lan:8443",
        ] {
            assert_eq!(judged(&Method::GET, &[("host", host)]), Ok(None), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:4100",
            "127.0.0.1",
            "127.0.0.1:4101",
            "localhost.evil:4100",
            "127.0.0.1:4100@evil",
            "0.0.0.0:4100",
            "[::2]:4100",
            "127.0.0.1:x",
        ] {
            assert_eq!(judged(&Method::GET, &[("host", host)]), Err(Refused::Host), "{host}");
        }
        assert_eq!(judged(&Method::GET, &[]), Err(Refused::Host));
        let two = [("host", "127.0.0.1:4100"), ("host", "evil")];
        assert_eq!(judged(&Method::GET, &two), Err(Refused::Host));
        let asked = judge(&Method::GET, &headers(&two[..1]), Some("evil"), Some(&names()));
        assert_eq!(asked, Err(Refused::Host));
    }

    #[test]
    fn a_page_of_another_site_does_not_pass_with_any_proof() {
        let host = ("host", "127.0.0.1:4100");
        for proof in [("cookie", "provost-4100=c"), ("authorization", "Bearer t")] {
            for foreign in [
                ("origin", "http://evil.example"),
                ("origin", "null"),
                ("origin", "http://127.0.0.1:4101"),
                ("origin", "https://127.0.0.1:4100"),
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-site", "same-site"),
            ] {
                for method in [Method::GET, Method::POST] {
                    let given = [host, proof, foreign];
                    assert_eq!(judged(&method, &given), Err(Refused::Origin), "{given:?}");
                }
            }
        }
    }

    #[test]
    fn a_cookie_changes_something_only_with_a_word_of_the_browser() {
        let host = ("host", "127.0.0.1:4100");
        let cookie = ("cookie", "other=1; provost-4100=c");
        let proof = Ok(Some(Proof::Cookie("c".to_owned())));
        assert_eq!(judged(&Method::GET, &[host, cookie]), proof);
        assert_eq!(judged(&Method::POST, &[host, cookie]), Err(Refused::Origin));
        let origin = ("origin", "http://127.0.0.1:4100");
        assert_eq!(judged(&Method::POST, &[host, cookie, origin]), proof);
        let fetched = ("sec-fetch-site", "same-origin");
        assert_eq!(judged(&Method::POST, &[host, cookie, fetched]), proof);
        let other = ("cookie", "provost-4101=c");
        assert_eq!(judged(&Method::GET, &[host, other]), Ok(None));
    }

    #[test]
    fn a_token_passes_as_bearer_alone() {
        let host = ("host", "127.0.0.1:4100");
        let token = Ok(Some(Proof::Token("t".to_owned())));
        assert_eq!(judged(&Method::POST, &[host, ("authorization", "bearer  t ")]), token);
        for wrong in ["t", "Basic t", ""] {
            assert_eq!(judged(&Method::POST, &[host, ("authorization", wrong)]), Ok(None));
        }
    }

    #[test]
    fn the_unix_socket_takes_any_name_and_no_cookie() {
        let given = headers(&[("host", "x"), ("cookie", "provost-4100=c")]);
        assert_eq!(judge(&Method::GET, &given, None, None), Ok(None));
    }

    #[test]
    fn a_link_from_elsewhere_may_be_followed() {
        let host = ("host", "127.0.0.1:4100");
        let given = [
            host,
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        assert_eq!(judged(&Method::GET, &given), Ok(None));
    }
}
