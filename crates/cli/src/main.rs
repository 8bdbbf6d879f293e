//! The one binary, `isorb`.
fn main() {}
