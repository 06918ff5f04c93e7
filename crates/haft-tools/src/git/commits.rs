//! Commits from `git log`: the output format, and its parser.

use schemars::JsonSchema;
use serde::Serialize;

use super::display;

/// The fields of a commit, each followed by a zero byte, which no message can contain.
const SHORT: &str = "--format=%H%x00%h%x00%P%x00%an%x00%ae%x00%aI%x00%D%x00%s%x00";
/// The same with the rest of the message.
const FULL: &str = "--format=%H%x00%h%x00%P%x00%an%x00%ae%x00%aI%x00%D%x00%s%x00%b";
const FIELDS: usize = 9;

/// Maximum length of a subject, which is meant to be one line.
const MAX_SUBJECT_CHARS: usize = 500;
/// Maximum length of the rest of a message.
const MAX_BODY_CHARS: usize = 10_000;

/// One commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Commit {
    /// Full hash.
    pub hash: String,
    /// Abbreviated hash, long enough to be unique.
    pub short: String,
    /// Parent commits; two or more for a merge, none for the first commit.
    pub parents: Vec<String>,
    /// Author of the commit.
    pub author: Author,
    /// Author date, with the author's offset from UTC.
    pub date: String,
    /// Branches and tags that point at the commit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<String>,
    /// First paragraph of the message, on one line.
    pub subject: String,
    /// Rest of the message, if requested.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub body: String,
}

/// The author of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Author {
    /// Name of the author.
    pub name: String,
    /// Email address of the author.
    pub email: String,
}

impl Commit {
    /// Formats the commit on one line.
    pub(crate) fn line(&self) -> String {
        let Self { short, subject, .. } = self;
        let refs = match self.refs.as_slice() {
            [] => String::new(),
            refs => format!(" ({})", refs.join(", ")),
        };
        let (author, day) = (&self.author.name, self.day());
        display::one_line(&format!("{short} {day} {author}{refs}: {subject}"))
    }

    /// Formats the commit on one line, with the rest of the message below.
    pub(crate) fn paragraph(&self) -> String {
        let body = display::printable(&self.body);
        let indented = body.trim_end().lines().map(|line| match line {
            "" => "\n".to_owned(),
            line => format!("\n    {line}"),
        });
        format!("{}{}", self.line(), indented.collect::<String>())
    }

    /// Returns the current branch, if the commit is its tip.
    pub(crate) fn current_branch(&self) -> Option<String> {
        self.refs.iter().find_map(|name| name.strip_prefix("HEAD -> ").map(str::to_owned))
    }

    fn day(&self) -> &str {
        self.date.split('T').next().unwrap_or_default()
    }
}

/// Returns the options of `git log` for output that [`parse`] can read.
pub(crate) fn format(with_body: bool) -> [&'static str; 6] {
    let format = if with_body { FULL } else { SHORT };
    ["-z", format, "--encoding=UTF-8", "--no-show-signature", "--no-color", "--no-notes"]
}

/// Parses all complete commits.
pub(crate) fn parse(output: &[u8]) -> Vec<Commit> {
    let text = String::from_utf8_lossy(output);
    let mut fields: Vec<&str> = text.split('\0').collect();
    // The last field ends with a zero byte too; text after it is empty or truncated.
    fields.pop();
    fields.chunks_exact(FIELDS).filter_map(commit).collect()
}

fn commit(fields: &[&str]) -> Option<Commit> {
    let [hash, short, parents, name, email, date, refs, subject, body] = fields else {
        return None;
    };
    Some(Commit {
        hash: (*hash).to_owned(),
        short: (*short).to_owned(),
        parents: parents.split_whitespace().map(str::to_owned).collect(),
        author: Author { name: (*name).to_owned(), email: (*email).to_owned() },
        date: (*date).to_owned(),
        refs: refs.split(", ").filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        subject: display::truncated(subject, MAX_SUBJECT_CHARS),
        body: display::truncated(body.trim_end(), MAX_BODY_CHARS),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TWO: &str = "aaaa\0aa\0bbbb cccc\0Ada\0a@b\x002026-11-16T06:00:00+01:00\0HEAD -> main, tag: v1\0merge\0why\n\nso\n\0\
                       bbbb\0bb\0\0Ben\0b@b\x002026-11-15T06:00:00Z\0\0first\0\0";

    #[test]
    fn commits_are_read_field_by_field() {
        let commits = parse(TWO.as_bytes());
        let [merge, first] = commits.as_slice() else { panic!("{commits:?}") };
        assert_eq!(merge.parents, ["bbbb", "cccc"]);
        assert_eq!(merge.refs, ["HEAD -> main", "tag: v1"]);
        assert_eq!(merge.current_branch().as_deref(), Some("main"));
        let expected = "aa 2026-11-16 Ada (HEAD -> main, tag: v1): merge\n    why\n\n    so";
        assert_eq!(merge.paragraph(), expected);
        assert_eq!(first.line(), "bb 2026-11-15 Ben: first");
        assert_eq!(
            (first.parents.len(), first.body.as_str(), first.current_branch()),
            (0, "", None)
        );
    }

    #[test]
    fn a_truncated_commit_is_left_out() {
        let cut = TWO.as_bytes().split_last_chunk::<8>().expect("longer").0;
        assert_eq!(parse(cut).len(), 1);
        assert_eq!(parse(b"").len(), 0);
    }

    #[test]
    fn very_long_messages_are_truncated() {
        let (subject, body) = ("s".repeat(1_000), "b".repeat(100_000));
        let output = format!("a\0a\0\0\0\0\0\0{subject}\0{body}\0");
        let commits = parse(output.as_bytes());
        assert_eq!(commits[0].subject.chars().count(), MAX_SUBJECT_CHARS + 1);
        assert_eq!(commits[0].body.chars().count(), MAX_BODY_CHARS + 1);
    }

    #[test]
    fn a_subject_cannot_look_like_a_second_commit() {
        let mut commits = parse(TWO.as_bytes());
        commits[0].subject = "x\nbb 2026 Eve: y\u{1b}[2J".to_owned();
        assert_eq!(commits[0].line().lines().count(), 1);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let zeros = bytes.iter().filter(|byte| **byte == 0).count();
            let commits = parse(&bytes);
            prop_assert!(commits.len() <= zeros / FIELDS);
            commits.iter().for_each(|commit| drop(commit.paragraph()));
        }
    }
}
