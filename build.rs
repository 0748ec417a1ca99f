//! Two settings that no file of Cargo's has a place for.
fn main() {
    // A new migration needs a new build: the macro that embeds migrations tracks only
    // the files that it has seen.
    println!("cargo:rerun-if-changed=migrations");
    // A program at a fixed address needs no relocation at its start. Relocation would be
    // four fifths of a shim's private memory, and there may be a thousand shims.
    if std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu") {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
