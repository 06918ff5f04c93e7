//! `stat`: shows facts about a path.

use std::path::PathBuf;

use haft_core::{
    Access, Cancel, Output, ReadFiles, ToolError,
    files::{FileKind, FileMetadata, MAX_HASHED_BYTES, OpenFile, Opened, Version},
    spawn_blocking,
};
use haft_macros::tool;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::media;
use crate::text::encoding::{SAMPLE, Text, TextEncoding};

/// The path to describe.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "path": "Cargo.toml" }))]
pub struct Stat {
    /// A file, directory or link, relative to the workspace.
    #[schemars(extend("x-aliases" = ["file_path", "filePath", "filename"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub path: PathBuf,
}

/// Facts about a path.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PathFacts {
    /// The path, relative to the workspace. If it is a link, the link is not followed.
    pub path: String,
    /// `file`, `directory`, `link`, `named pipe`, `socket` or `device`.
    pub kind: String,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits in octal, as in `0644`.
    pub mode: String,
    /// Permission bits in letters, as in `rw-r--r--`.
    pub permissions: String,
    /// User id and group id of the owner.
    pub owner: (u32, u32),
    /// Time of the last change of the content.
    pub modified: String,
    /// Creation time, if the file system has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// Media type of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
    /// Encoding of a text file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// Number of lines of a text file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// Version tag of a file, for `expected_version`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Target of a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_target: Option<String>,
}

impl Output for PathFacts {
    fn text(&self) -> String {
        let Self { path, kind, size, mode, permissions, owner: (user, group), .. } = self;
        let mut lines = vec![
            format!("{path}: {kind}, {size} bytes"),
            format!("mode {mode} ({permissions}), owner {user}:{group}"),
            format!("modified {}", self.modified),
        ];
        let more = [
            ("created ", self.created.clone()),
            ("type ", self.mime.clone()),
            ("encoding ", self.encoding.clone()),
            ("lines ", self.lines.map(|lines| lines.to_string())),
            ("version ", self.version.clone()),
            ("points to ", self.link_target.clone()),
        ];
        let set = more.into_iter().filter_map(|(name, value)| Some(format!("{name}{}", value?)));
        lines.extend(set);
        lines.join("\n")
    }

    fn title(&self) -> Option<String> {
        Some(format!("Stat {}", self.path))
    }
}

/// Shows facts about a path.
#[tool(
    idempotent,
    keeps_links,
    deadline = "60s",
    access = |input| vec![Access::Read(input.path.clone())],
    profiles(researcher, reviewer)
)]
pub async fn stat(input: Stat, files: ReadFiles, cancel: Cancel) -> Result<PathFacts, ToolError> {
    let facts = files.metadata(&input.path)?;
    let mut answer = path_facts(&facts);
    if facts.kind != FileKind::File {
        return Ok(answer);
    }
    let Opened::File(file) = files.open(&input.path)? else { return Ok(answer) };
    if facts.size <= MAX_HASHED_BYTES {
        add_content_facts(&*file, &mut answer, &|| false)?;
        return Ok(answer);
    }
    spawn_blocking(move || {
        add_content_facts(&*file, &mut answer, &|| cancel.is_cancelled())?;
        Ok(answer)
    })
    .await
}

fn path_facts(facts: &FileMetadata) -> PathFacts {
    PathFacts {
        path: facts.path.display().to_string(),
        kind: facts.kind.name().to_owned(),
        size: facts.size,
        mode: format!("{:04o}", facts.mode),
        permissions: letters(facts.mode),
        owner: facts.owner,
        modified: time(facts.modified_ns),
        created: facts.created_ns.map(time),
        mime: None,
        encoding: None,
        lines: None,
        version: None,
        link_target: facts.link_target.as_ref().map(|target| target.display().to_string()),
    }
}

fn letters(mode: u32) -> String {
    let bits = "rwxrwxrwx".chars().enumerate();
    bits.map(|(place, letter)| if mode & (0o400 >> place) == 0 { '-' } else { letter }).collect()
}

fn time(nanoseconds: i128) -> String {
    Timestamp::from_nanosecond(nanoseconds)
        .map_or_else(|_| "unknown".to_owned(), |time| format!("{time:.0}"))
}

/// Adds the facts that depend on the content.
fn add_content_facts(
    file: &dyn OpenFile,
    answer: &mut PathFacts,
    stop: &dyn Fn() -> bool,
) -> Result<(), ToolError> {
    if answer.size <= MAX_HASHED_BYTES {
        let bytes = file.read_whole()?;
        let text = Text::decode(&bytes);
        answer.version = Some(Version::of_content(&bytes).to_string());
        answer.mime = Some(media::mime(&bytes, text.is_some()).to_owned());
        answer.encoding = text.as_ref().map(|text| text.form.name());
        answer.lines = text.map(|text| text.text.split_inclusive('\n').count() as u64);
        return Ok(());
    }
    let mut block = vec![0; MAX_HASHED_BYTES as usize / 8];
    let (mut offset, mut ends, mut last) = (0, 0, b'\n');
    let mut form = None;
    while !stop() {
        let read = file.read_at(&mut block, offset)?;
        let Some(part) = block.get(..read).filter(|part| !part.is_empty()) else { break };
        if offset == 0 {
            let head = part.get(..SAMPLE).unwrap_or(part);
            form = TextEncoding::sniff(head, false);
            answer.mime = Some(media::mime(head, form.is_some()).to_owned());
        }
        if form.is_none_or(|form| !form.has_byte_lines()) {
            break;
        }
        ends += memchr::memchr_iter(b'\n', part).count() as u64;
        last = part.last().copied().unwrap_or(last);
        offset += read as u64;
    }
    answer.version = Some(Version::of_state(file.metadata()).to_string());
    answer.encoding = form.map(|form| form.name());
    answer.lines =
        form.filter(TextEncoding::has_byte_lines).map(|_| ends + u64::from(last != b'\n'));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_shown_in_letters() {
        for (mode, letters_of) in [(0o644, "rw-r--r--"), (0o755, "rwxr-xr-x"), (0, "---------")] {
            assert_eq!(letters(mode), letters_of);
        }
    }

    #[test]
    fn times_are_shown_in_full() {
        assert_eq!(time(1_700_000_000_123_456_789), "2023-11-14T22:13:20Z");
        assert_eq!(time(i128::MAX), "unknown");
    }
}
