//! Commits as git tells them: the format asked for, and how it is read.

use schemars::JsonSchema;
use serde::Serialize;

use super::words;

/// The fields of a commit, each ended by a zero byte: no message can hold one.
const SHORT: &str = "--format=%H%x00%h%x00%P%x00%an%x00%ae%x00%aI%x00%D%x00%s%x00";
/// The same with the rest of the message.
const FULL: &str = "--format=%H%x00%h%x00%P%x00%an%x00%ae%x00%aI%x00%D%x00%s%x00%b";
const FIELDS: usize = 9;

/// A subject is a line for people; somebody's whole change log as one is cut.
const LONGEST_SUBJECT: usize = 500;
/// And a message has its end, too.
const LONGEST_BODY: usize = 10_000;

/// One commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Commit {
    /// Its whole hash.
    pub hash: String,
    /// As much of the hash as tells it from others.
    pub short: String,
    /// The commits it follows; two or more for a merge, none for the first of all.
    pub parents: Vec<String>,
    /// Who wrote it.
    pub author: Author,
    /// When it was written, with the author's offset from UTC.
    pub date: String,
    /// Branches and tags that point at it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<String>,
    /// The first paragraph of its message, on one line.
    pub subject: String,
    /// The rest of its message, when it was asked for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub body: String,
}

/// Who wrote a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Author {
    /// The name.
    pub name: String,
    /// The address.
    pub email: String,
}

impl Commit {
    /// On one line.
    pub(crate) fn line(&self) -> String {
        let Self { short, subject, .. } = self;
        let refs = match self.refs.as_slice() {
            [] => String::new(),
            refs => format!(" ({})", refs.join(", ")),
        };
        let (author, day) = (&self.author.name, self.day());
        words::name(&format!("{short} {day} {author}{refs}: {subject}"))
    }

    /// The line, and the rest of the message below it.
    pub(crate) fn paragraph(&self) -> String {
        let body = words::visible(&self.body);
        let indented = body.trim_end().lines().map(|line| match line {
            "" => "\n".to_owned(),
            line => format!("\n    {line}"),
        });
        format!("{}{}", self.line(), indented.collect::<String>())
    }

    /// The branch it is the tip of, if that is the one at hand.
    pub(crate) fn current_branch(&self) -> Option<String> {
        self.refs.iter().find_map(|name| name.strip_prefix("HEAD -> ").map(str::to_owned))
    }

    fn day(&self) -> &str {
        self.date.split('T').next().unwrap_or_default()
    }
}

/// The options under which `git log` says what [`parse`] reads.
pub(crate) fn format(with_body: bool) -> [&'static str; 6] {
    let format = if with_body { FULL } else { SHORT };
    ["-z", format, "--encoding=UTF-8", "--no-show-signature", "--no-color", "--no-notes"]
}

/// Reads as many whole commits as there are.
pub(crate) fn parse(output: &[u8]) -> Vec<Commit> {
    let text = String::from_utf8_lossy(output);
    let mut fields: Vec<&str> = text.split('\0').collect();
    // The last one is ended by a zero byte as well; what comes after it is nothing, or was cut off.
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
        subject: words::cut(subject, LONGEST_SUBJECT),
        body: words::cut(body.trim_end(), LONGEST_BODY),
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
    fn a_commit_that_was_cut_off_is_left_out() {
        let cut = TWO.as_bytes().split_last_chunk::<8>().expect("longer").0;
        assert_eq!(parse(cut).len(), 1);
        assert_eq!(parse(b"").len(), 0);
    }

    #[test]
    fn endless_messages_are_cut() {
        let (subject, body) = ("s".repeat(1_000), "b".repeat(100_000));
        let output = format!("a\0a\0\0\0\0\0\0{subject}\0{body}\0");
        let commits = parse(output.as_bytes());
        assert_eq!(commits[0].subject.chars().count(), LONGEST_SUBJECT + 1);
        assert_eq!(commits[0].body.chars().count(), LONGEST_BODY + 1);
    }

    #[test]
    fn a_subject_cannot_look_like_two_commits() {
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
