//! Pages of long lists: how much of one is shown at once, and how the next one is asked for.

/// Text of one page. Below what the gate shows of a result, so that no page is cut again.
pub(super) const PAGE_BYTES: usize = 48 << 10;

/// Default of `offset`.
pub(super) fn first() -> usize {
    1
}

/// `entries 501-1000`, or `entry 7`.
pub(super) fn range(noun: &str, plural: &str, offset: usize, shown: usize) -> String {
    match shown {
        1 => format!("{noun} {offset}"),
        _ => format!("{plural} {offset}-{}", (offset + shown).saturating_sub(1)),
    }
}

/// Says how the next page is asked for.
pub(super) fn next(offset: usize) -> String {
    format!("next: offset={offset}")
}

#[cfg(test)]
mod tests {
    use haft_core::Limits;

    use super::*;

    #[test]
    fn a_page_with_the_words_around_it_is_shown_whole() {
        assert!(PAGE_BYTES + (1 << 10) < Limits::default().content_bytes);
    }

    #[test]
    fn a_range_is_told_by_its_ends() {
        assert_eq!(range("entry", "entries", 501, 500), "entries 501-1000");
        assert_eq!(range("file", "files", 7, 1), "file 7");
    }
}
