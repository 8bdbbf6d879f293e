//! Every way out of a scope must be a compile error: `escapes/*.rs` must not compile, for the
//! reason that stands beside each.

#[test]
fn nothing_escapes() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/escapes/*.rs");
}
