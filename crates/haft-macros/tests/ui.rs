//! What people read when they misuse `#[tool]`: only messages that are ours. `TRYBUILD=overwrite` writes them anew.

// The words for a missing file are the operating system's.
#[cfg(unix)]
#[test]
fn misuse_is_explained_where_it_stands() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
