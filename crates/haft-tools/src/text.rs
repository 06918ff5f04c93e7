//! Pure text functions that several tools share: find and replace, line patches, patch files,
//! diffs. Nothing here opens a file.

pub(crate) mod diff;
pub(crate) mod encoding;
pub(crate) mod line_patches;
pub(crate) mod patch;
pub(crate) mod replace;
pub(crate) mod terminal;
pub(crate) mod window;

/// Formats a number with its noun: `1 file`, `2 files`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    match noun.strip_suffix("ry") {
        _ if number == 1 => format!("1 {noun}"),
        Some(stem) => format!("{number} {stem}ries"),
        None if noun.ends_with("ch") => format!("{number} {noun}es"),
        None => format!("{number} {noun}s"),
    }
}
