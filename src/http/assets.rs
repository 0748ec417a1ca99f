//! The files of the page, which are part of the binary. Each file's address carries a hash of its
//! content, so that a browser may keep it forever and never shows an outdated one. Pure.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// A browser may keep a file for a year without asking for it again: new content has a new address.
const FOR_GOOD: &str = "public, max-age=31536000, immutable";

struct Asset {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
    /// `<hash>-<name>`, as in its address.
    file: String,
}

macro_rules! assets {
    ($($name:literal $kind:literal;)*) => {
        [$(Asset::new($name, $kind, include_bytes!(concat!("assets/", $name)))),*]
    };
}

static ASSETS: LazyLock<[Asset; 8]> = LazyLock::new(|| {
    assets! {
        "attempt.css" "text/css; charset=utf-8";
        "attempt.js" "text/javascript; charset=utf-8";
        "colours.css" "text/css; charset=utf-8";
        "htmx.min.js" "text/javascript; charset=utf-8";
        "provost.css" "text/css; charset=utf-8";
        "provost.js" "text/javascript; charset=utf-8";
        "provost.svg" "image/svg+xml";
        "start.js" "text/javascript; charset=utf-8";
    }
});

impl Asset {
    fn new(name: &'static str, kind: &'static str, bytes: &'static [u8]) -> Self {
        let hash = URL_SAFE_NO_PAD.encode(&Sha256::digest(bytes)[..9]);
        Self { name, kind, bytes, file: format!("{hash}-{name}") }
    }
}

/// The address of a file by its plain name. An unknown name is a fault of the page: it panics in
/// debug builds and gives an address that answers 404 in others.
pub fn path(name: &str) -> String {
    let found = ASSETS.iter().find(|asset| asset.name == name);
    debug_assert!(found.is_some(), "{name} is no file of the page");
    format!("/assets/{}", found.map_or(name, |asset| asset.file.as_str()))
}

/// Serves a file by its hashed name; 404 also for a hash of another build.
pub async fn serve(Path(file): Path<String>) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.file == file) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let headers = [(header::CONTENT_TYPE, asset.kind), (header::CACHE_CONTROL, FOR_GOOD)];
    (headers, asset.bytes).into_response()
}
