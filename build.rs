//! Two things that Cargo can't be told elsewhere.
fn main() {
    // A new migration must lead to a new build: the macro that embeds them sees
    // only the files that were there before.
    println!("cargo:rerun-if-changed=migrations");
    // At a fixed address nothing has to be relocated when a shim is started: that
    // is four fifths of the memory of its own, and there may be a thousand shims.
    if std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu") {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
