mod store;
fn main() {}
