//! Compile errors for misuse of `#[tool]`: only haft's own messages. `TRYBUILD=overwrite` rewrites
//! them.

// The message for a missing file comes from the operating system.
#[cfg(unix)]
#[test]
fn misuse_is_explained_at_its_place() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
