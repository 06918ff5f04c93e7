//! File metadata, and the version tag that identifies one state of a file's content.

use std::{fmt, path::PathBuf, str::FromStr};

use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline};

use crate::{ContentHash, ToolError};

/// The kind of a file system entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A regular file: the only kind that is opened.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character or block device.
    Device,
}

impl FileKind {
    /// The name for people and models.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Link => "link",
            Self::Fifo => "named pipe",
            Self::Socket => "socket",
            Self::Device => "device",
        }
    }
}

/// The metadata of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMetadata {
    /// Relative to the workspace, links resolved.
    pub path: PathBuf,
    /// The kind of the entry.
    pub kind: FileKind,
    /// In bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// User and group.
    pub owner: (u32, u32),
    /// Hard links.
    pub links: u64,
    /// Modification time in nanoseconds since 1970.
    pub modified_ns: i128,
    /// Change time, of content or attributes, in nanoseconds since 1970.
    pub changed_ns: i128,
    /// Creation time, if the file system records it.
    pub created_ns: Option<i128>,
    /// The device of the file system.
    pub device: u64,
    /// The inode number on the device.
    pub inode: u64,
    /// The target of a link, as written in the link.
    pub link_target: Option<PathBuf>,
}

impl FileMetadata {
    /// Returns true if both describe the same, unchanged content.
    pub fn is_same_state(&self, other: &Self) -> bool {
        let state = |metadata: &Self| {
            (
                metadata.device,
                metadata.inode,
                metadata.size,
                metadata.modified_ns,
                metadata.changed_ns,
            )
        };
        state(self) == state(other)
    }
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name in the directory.
    pub name: String,
    /// The kind of the entry; see `is_directory` for a link to a directory of the workspace.
    pub kind: FileKind,
    /// True for a directory or a link to one.
    pub is_directory: bool,
}

/// The entries of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The directory, links resolved.
    pub path: PathBuf,
    /// Sorted by name.
    pub entries: Vec<DirectoryEntry>,
    /// Number of entries that are omitted because a rule or secret path closes them.
    pub closed: usize,
}

/// Maximum size for which `read` makes version tags from the content; for larger files, hashing
/// would cost more than the read.
pub const MAX_HASHED_BYTES: u64 = 4 << 20;
/// Maximum size of contents that are tagged without the journal's hash.
const MAX_QUICK_HASHED_BYTES: usize = 8 << 10;
/// A letter and sixteen digits.
const TAG_BYTES: usize = 17;

/// The version tag of a file's content. Made from the content itself, or, for large files, from
/// size, times and identity.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Version([u8; TAG_BYTES]);

impl Version {
    /// The version of a file with this content.
    pub fn of_content(bytes: &[u8]) -> Self {
        Self::of_hashed(bytes, || ContentHash::of(bytes))
    }

    /// The same for callers that may already have the hash. A short content is tagged by a fast
    /// hash that does not resist forgery: a process that could forge a content could write the file
    /// anyway. For a long content the journal's hash serves both purposes.
    pub(crate) fn of_hashed(bytes: &[u8], hash: impl FnOnce() -> ContentHash) -> Self {
        if bytes.len() <= MAX_QUICK_HASHED_BYTES {
            return Self::tag(b'c', quick_hash(bytes));
        }
        let ContentHash([a, b, c, d, e, f, g, h, ..]) = hash();
        Self::tag(b'c', u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }

    /// The version of a file that is too large to hash when only a part of it is read.
    pub fn of_state(metadata: &FileMetadata) -> Self {
        let FileMetadata { device, inode, size, modified_ns, changed_ns, .. } = metadata;
        let numbers = format!("{device} {inode} {size} {modified_ns} {changed_ns}");
        Self::tag(b's', quick_hash(numbers.as_bytes()))
    }

    /// Returns true if a file has this version, however the tag was made.
    pub fn fits(&self, metadata: &FileMetadata, bytes: &[u8]) -> bool {
        let is_of_state = self.0.starts_with(b"s");
        *self == if is_of_state { Self::of_state(metadata) } else { Self::of_content(bytes) }
    }

    fn tag(way: u8, hash: u64) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut tag = [way; TAG_BYTES];
        let (pairs, _) = tag[1..].as_chunks_mut();
        for (pair, byte) in pairs.iter_mut().zip(hash.to_be_bytes()) {
            *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
        }
        Self(tag)
    }

    /// The tag as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("a letter and digits")
    }
}

fn quick_hash(bytes: &[u8]) -> u64 {
    const SECRETS: RapidSecrets = RapidSecrets::seed_cpp(0);
    // The last parameter turns on protection: otherwise eight certain bytes would hide those beside
    // them.
    rapidhash_v3_inline::<true, false, true>(bytes, &SECRETS)
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Version").field(&self.as_str()).finish()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Version {
    type Err = ToolError;

    fn from_str(text: &str) -> Result<Self, ToolError> {
        let digits = text.strip_prefix(['c', 's']).unwrap_or_default();
        let are_digits = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        if !digits.is_empty()
            && are_digits
            && let Ok(tag) = text.as_bytes().try_into()
        {
            return Ok(Self(tag));
        }
        Err(ToolError::input(format!("`{text}` is not a version tag"))
            .hint("use the version from the result of `read`, `stat` or the last change"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn metadata(size: u64, modified_ns: i128) -> FileMetadata {
        FileMetadata {
            path: "a".into(),
            kind: FileKind::File,
            size,
            mode: 0o644,
            owner: (0, 0),
            links: 1,
            modified_ns,
            changed_ns: modified_ns,
            created_ns: None,
            device: 1,
            inode: 2,
            link_target: None,
        }
    }

    #[test]
    fn a_tag_fits_its_own_state_only() {
        let content = Version::of_content(b"a\n");
        assert!(content.fits(&metadata(2, 1), b"a\n") && content.fits(&metadata(2, 9), b"a\n"));
        assert!(!content.fits(&metadata(2, 1), b"b\n"));
        let state = Version::of_state(&metadata(2, 1));
        assert!(state.fits(&metadata(2, 1), b"") && !state.fits(&metadata(2, 2), b""));
    }

    #[test]
    fn a_content_has_the_same_tag_for_ever() {
        // Models keep tags across updates of haft.
        let tag = |bytes: &[u8]| Version::of_content(bytes).to_string();
        assert_eq!(tag(b""), "c26d860c75d036ef7");
        assert_eq!(tag(b"a\n"), "c8df11d701075e76a");
        assert_eq!(tag(&[7; 5_000]), "c76d9b0c2ec93c71b");
        let long = [7; MAX_QUICK_HASHED_BYTES + 1];
        let hash = blake3::hash(&long).to_hex();
        assert_eq!(tag(&long).get(1..), hash.get(..TAG_BYTES - 1));
    }

    proptest! {
        #[test]
        fn whatever_is_changed_the_tag_changes(
            content in prop::collection::vec(any::<u8>(), 1..600),
            place in any::<prop::sample::Index>(),
            other in any::<u8>(),
        ) {
            let mut changed = content.clone();
            *place.get_mut(&mut changed) = other;
            let are_same = Version::of_content(&content) == Version::of_content(&changed);
            prop_assert_eq!(are_same, content == changed);
        }
    }

    #[test]
    fn tags_are_read_back_and_other_text_is_refused() {
        let tag = Version::of_content(b"x");
        assert_eq!(tag.as_str().parse::<Version>().expect("a tag"), tag);
        for wrong in ["", "c", "x0123456789abcdef", "c0123", "c0123456789abcdeg", "ä"] {
            assert!(wrong.parse::<Version>().is_err(), "{wrong}");
        }
    }
}
