//! A new migration must lead to a new build: the macro that embeds them sees
//! only the files that were there before.
fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
