//! What a content has that another one has not. An agent changes a file again and again, a few lines each time: the file is kept
//! once, and then only what differs from that. Which contents belong together is decided in `bases.rs`.

use std::ops::Range;

use memchr::memmem;

/// What is shorter is packed as quickly as it is compared.
pub(super) const SHORTEST: usize = 4 << 10;
/// So much of a content may be its own; with more it is better kept whole, for the next ones to differ from.
const LARGEST_SHARE: usize = 4;
/// So many stretches are named at most: who changed more than that in a file has changed the file.
const MOST_STRETCHES: usize = 64;
/// A stretch is looked for by so many bytes of it. Fewer would be found where they do not belong.
const PROBE: usize = 32;
/// Where in a gap it is looked, in parts of 64, until something is found: a look may hit a change itself.
const LOOKS: [usize; 5] = [32, 19, 45, 9, 55];
/// Shorter gaps are not searched: to name a stretch takes 12 bytes, and there would have to be two more ends of it.
const SHORTEST_GAP: usize = 128;
/// How far from where it is looked for a stretch may be: nearly always it is quite near, and what is found there is the nearest.
const LEEWAYS: [usize; 2] = [256, 4 << 10];
/// What is compared in one go: many bytes at a time as long as they are the same.
const STEPS: [usize; 3] = [4 << 10, 64, 1];

/// Bytes that stand in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    in_base: usize,
    in_content: usize,
    length: usize,
}

/// A content, told by another.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// Where the stretches are that both have, as it is kept.
    pub(super) head: Vec<u8>,
    /// What is between them.
    pub(super) own: Vec<u8>,
}

impl Difference {
    /// How `content` differs from `base`, if that is little.
    pub(super) fn between(base: &[u8], content: &[u8]) -> Option<Self> {
        let is_worth_it = SHORTEST <= content.len() && is_nameable(base) && is_nameable(content);
        let stretches = is_worth_it.then(|| stretches(base, content))?;
        let common: usize = stretches.iter().map(|stretch| stretch.length).sum();
        if (content.len() - common) * LARGEST_SHARE > content.len() {
            return None;
        }
        Some(Self { head: head(&stretches), own: own(content, &stretches) })
    }
}

fn is_nameable(content: &[u8]) -> bool {
    u32::try_from(content.len()).is_ok()
}

/// The number of stretches, then for each how much of the content's own comes before it, where it begins in the base, and how
/// long it is.
fn head(stretches: &[Stretch]) -> Vec<u8> {
    let mut words = vec![stretches.len()];
    let mut end = 0;
    for stretch in stretches {
        words.extend([stretch.in_content - end, stretch.in_base, stretch.length]);
        end = stretch.in_content + stretch.length;
    }
    let word = |word: usize| u32::try_from(word).expect("contents are shorter").to_le_bytes();
    words.into_iter().flat_map(word).collect()
}

fn own(content: &[u8], stretches: &[Stretch]) -> Vec<u8> {
    let mut own = Vec::new();
    let mut end = 0;
    for stretch in stretches {
        own.extend_from_slice(&content[end..stretch.in_content]);
        end = stretch.in_content + stretch.length;
    }
    own.extend_from_slice(&content[end..]);
    own
}

/// What both have, in the order of the content.
fn stretches(base: &[u8], content: &[u8]) -> Vec<Stretch> {
    let beginning = common_beginning(base, content);
    let end = common_end(&base[beginning..], &content[beginning..]);
    let (base_end, content_end) = (base.len() - end, content.len() - end);
    let mut search = Search { base, content, found: Vec::new() };
    search.add(Stretch { in_base: 0, in_content: 0, length: beginning });
    search.gap(beginning..base_end, beginning..content_end);
    search.add(Stretch { in_base: base_end, in_content: content_end, length: end });
    search.found
}

struct Search<'a> {
    base: &'a [u8],
    content: &'a [u8],
    found: Vec<Stretch>,
}

impl Search<'_> {
    fn add(&mut self, stretch: Stretch) {
        if stretch.length > 0 {
            self.found.push(stretch);
        }
    }

    /// Looks for a stretch in the middle of a gap, and then in the gaps before and after it. Changes are short and far apart
    /// for the most part, so that the first look finds one, and it reaches from change to change.
    fn gap(&mut self, in_base: Range<usize>, in_content: Range<usize>) {
        if in_base.len().min(in_content.len()) < SHORTEST_GAP || self.found.len() >= MOST_STRETCHES
        {
            return;
        }
        let Some(Stretch { in_base: at, in_content: to, length }) =
            self.in_gap(&in_base, &in_content)
        else {
            return;
        };
        self.gap(in_base.start..at, in_content.start..to);
        self.add(Stretch { in_base: at, in_content: to, length });
        self.gap(at + length..in_base.end, to + length..in_content.end);
    }

    fn in_gap(&self, in_base: &Range<usize>, in_content: &Range<usize>) -> Option<Stretch> {
        LOOKS.into_iter().find_map(|part| {
            let to = in_content.start + (in_content.len() - PROBE) / 64 * part;
            let at = self.probe(in_base, in_content, to)?;
            let before =
                common_end(&self.base[in_base.start..at], &self.content[in_content.start..to]);
            let after =
                common_beginning(&self.base[at..in_base.end], &self.content[to..in_content.end]);
            let (in_base, in_content) = (at - before, to - before);
            Some(Stretch { in_base, in_content, length: before + after })
        })
    }

    /// Where in the base the bytes at a place of the content are: where they would be if nothing but what is after them, or
    /// before them, had changed its length, or else as near to that as can be. Texts repeat themselves.
    fn probe(&self, in_base: &Range<usize>, in_content: &Range<usize>, to: usize) -> Option<usize> {
        let finder = memmem::Finder::new(&self.content[to..to + PROBE]);
        let by_start = in_base.start + (to - in_content.start);
        let by_end = (in_base.end + to).saturating_sub(in_content.end);
        let base = &self.base[in_base.clone()];
        LEEWAYS.into_iter().find_map(|leeway| {
            let near = |at: usize| near(base, &finder, at.checked_sub(in_base.start)?, leeway);
            let found = [near(by_start), near(by_end)].into_iter().flatten();
            found.min_by_key(|(away, _)| *away).map(|(_, at)| in_base.start + at)
        })
    }
}

/// How far away from a place some bytes are, and where. Looked for forwards only: that goes many bytes at a time.
fn near(
    base: &[u8],
    finder: &memmem::Finder<'_>,
    place: usize,
    leeway: usize,
) -> Option<(usize, usize)> {
    let first = place.saturating_sub(leeway);
    let window = base.get(first..(place + PROBE + leeway).min(base.len()))?;
    let found = finder.find_iter(window).map(|at| first + at);
    found.map(|at| (place.abs_diff(at), at)).min()
}

fn common_beginning(a: &[u8], b: &[u8]) -> usize {
    STEPS.into_iter().fold(0, |done, step| {
        let pairs = a[done..].chunks_exact(step).zip(b[done..].chunks_exact(step));
        done + step * pairs.take_while(|(a, b)| a == b).count()
    })
}

fn common_end(a: &[u8], b: &[u8]) -> usize {
    STEPS.into_iter().fold(0, |done, step| {
        let (a, b) = (&a[..a.len() - done], &b[..b.len() - done]);
        let pairs = a.rchunks_exact(step).zip(b.rchunks_exact(step));
        done + step * pairs.take_while(|(a, b)| a == b).count()
    })
}

/// The head of a difference as it is kept, and what is behind it. Somebody else may have put anything there.
pub(super) fn split(kept: &[u8]) -> Option<(&[u8], &[u8])> {
    let (count, _) = kept.split_first_chunk::<4>()?;
    let words = usize::try_from(u32::from_le_bytes(*count)).ok()?.checked_mul(3)?.checked_add(1)?;
    kept.split_at_checked(words.checked_mul(4)?)
}

/// The content that a difference tells, if there is one of this size.
pub(super) fn join(base: &[u8], head: &[u8], own: &[u8], size: usize) -> Option<Vec<u8>> {
    let (_, stretches) = head.split_first_chunk::<4>()?;
    let mut content = Vec::with_capacity(size.min(base.len().saturating_add(own.len())));
    let mut own = own;
    for stretch in stretches.chunks_exact(12) {
        let word = |number: usize| {
            let word = stretch.get(number * 4..)?.first_chunk::<4>()?;
            usize::try_from(u32::from_le_bytes(*word)).ok()
        };
        let (before, rest) = own.split_at_checked(word(0)?)?;
        let common = base.get(word(1)?..)?.get(..word(2)?)?;
        if content.len().checked_add(before.len())?.checked_add(common.len())? > size {
            return None;
        }
        content.extend_from_slice(before);
        content.extend_from_slice(common);
        own = rest;
    }
    content.extend_from_slice(own);
    (content.len() == size).then_some(content)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Lines that are all different.
    fn lines(count: u64) -> Vec<u8> {
        let line = |number: u64| {
            format!("let value_{number} = {};\n", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        };
        (0..count).map(line).collect::<String>().into_bytes()
    }

    #[track_caller]
    fn check(base: &[u8], content: &[u8]) -> Option<(usize, usize)> {
        let Difference { head, own } = Difference::between(base, content)?;
        let kept = [&*head, b"rest"].concat();
        assert_eq!(split(&kept), Some((&*head, &b"rest"[..])));
        assert_eq!(join(base, &head, &own, content.len()).as_deref(), Some(content));
        assert_eq!(join(base, &head, &own, content.len() - 1), None);
        assert_eq!(join(base, &head, &own, content.len() + 1), None);
        Some((head.len() / 12, own.len()))
    }

    #[test]
    fn one_change_is_what_is_between_two_stretches() {
        let base = lines(1_000);
        let with =
            |at: usize, gone: usize, new: &[u8]| [&base[..at], new, &base[at + gone..]].concat();
        assert_eq!(check(&base, &base), Some((1, 0)));
        assert_eq!(check(&base, &with(20_000, 10, b"#")), Some((2, 1)));
        assert_eq!(check(&base, &with(0, 10, b"####")), Some((1, 4)));
        assert_eq!(check(&base, &with(base.len(), 0, b"####")), Some((1, 4)));
        assert_eq!(check(&base, &with(500, 9_000, b"")), Some((2, 0)));
    }

    #[test]
    fn changes_all_over_a_file_are_found_one_by_one() {
        let base = lines(5_000);
        let mut content = base.clone();
        for number in (0..20).rev() {
            let at = number * base.len() / 20 + 100;
            content.splice(at..at + number, vec![b'#'; 2 * number + 1]);
        }
        assert_eq!(check(&base, &content), Some((21, (0..20).map(|number| 2 * number + 1).sum())));
    }

    #[test]
    fn what_has_little_in_common_or_is_short_is_no_difference() {
        let base = lines(1_000);
        assert_eq!(check(&base, &base[..SHORTEST - 1]), None);
        assert_eq!(check(b"", &base), None);
        assert_eq!(check(&base, &[&*base, &vec![b'#'; base.len() / 2]].concat()), None);
        let every_third: Vec<u8> = base
            .iter()
            .enumerate()
            .map(|(at, byte)| if at % 3 == 0 { b'#' } else { *byte })
            .collect();
        assert_eq!(check(&base, &every_third), None);
    }

    /// A text that is nearly the same everywhere, where stretches are found at wrong places.
    #[test]
    fn the_same_line_again_and_again_is_joined_as_it_was() {
        let base = b"    let number = compute(&input);\n".repeat(500);
        let mut content = base.clone();
        for at in [40, 7_000, 7_100, 16_000] {
            content.splice(at..at + 3, *b"#####");
        }
        assert!(check(&base, &content).is_some_and(|(_, own)| own < 500));
    }

    #[test]
    fn a_head_that_names_the_base_again_and_again_fills_no_memory() {
        let (base, times) = (vec![b'x'; 1 << 20], 100_000_u32);
        let whole = Stretch { in_base: 0, in_content: 0, length: base.len() };
        let again = head(&[whole])[4..].repeat(times as usize);
        let head = [&times.to_le_bytes()[..], &again].concat();
        assert_eq!(split(&head), Some((&*head, &b""[..])));
        assert_eq!(join(&base, &head, b"", 9 << 20), None);
    }

    fn changed() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let change = (
            any::<prop::sample::Index>(),
            0..200_usize,
            prop::collection::vec(any::<u8>(), 0..200),
        );
        let base = prop_oneof![
            (200..400_u64).prop_map(lines),
            prop::collection::vec(0..3_u8, 4_000..9_000),
        ];
        (base, prop::collection::vec(change, 0..8)).prop_map(|(base, changes)| {
            let mut content = base.clone();
            for (at, gone, new) in changes {
                let at = at.index(content.len());
                content.splice(at..(at + gone).min(content.len()), new);
            }
            (base, content)
        })
    }

    proptest! {
        #[test]
        fn whatever_was_changed_comes_back((base, content) in changed()) {
            check(&base, &content);
        }

        #[test]
        fn any_bytes_are_no_difference_or_one_of_the_right_size(
            base in prop::collection::vec(any::<u8>(), 0..300),
            words in prop::collection::vec(prop_oneof![0..40_u32, any::<u32>()], 0..12),
            own in prop::collection::vec(any::<u8>(), 0..60),
            size in prop_oneof![0..400_usize, Just(usize::MAX)],
        ) {
            let kept: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).chain(own.iter().copied()).collect();
            if let Some((head, own)) = split(&kept)
                && let Some(content) = join(&base, head, own, size)
            {
                prop_assert_eq!(content.len(), size);
            }
        }
    }
}
