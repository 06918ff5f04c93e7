//! Parses one file section of a unified diff: its headers and its hunks.

use super::{DiffReader, hunk::hunk};
use crate::text::patch::{
    FilePatch, Hunk, PatchAction, PatchError, Side,
    file_names::{DiffFileName, DiffFileNames, git_names, name, path},
    shown,
    wrapping::PatchLine,
};

#[derive(Default)]
struct Headers {
    names: DiffFileNames,
    is_new: bool,
    is_deleted: bool,
    old_mode: Option<String>,
    new_mode: Option<String>,
}

pub(super) fn section(reader: &mut DiffReader<'_, '_>) -> Result<FilePatch, PatchError> {
    let number = reader.number();
    let headers = headers(reader)?;
    let (old, new) = headers.names.resolve();
    let Some(path) = old.clone().or_else(|| new.clone()) else {
        return Err(PatchError::new(
            format!("line {number} of the patch begins a file without a name"),
            "write `--- a/path` and `+++ b/path`",
        ));
    };
    check_mode(&headers, &path)?;
    let mut hunks = Vec::new();
    reader.skip_empty_lines();
    while reader.peek().is_some_and(|line| line.text.starts_with("@@")) {
        hunks.push(hunk(reader, &path, hunks.len() + 1)?);
        reader.skip_empty_lines();
    }
    let notes = notes(&headers, &path);
    Ok(match kind(&headers, old, new, &hunks) {
        (None, Some(path)) => FilePatch { action: added(&headers, &path, hunks)?, path, notes },
        (Some(path), None) => FilePatch { action: deleted(&headers, &path, hunks)?, path, notes },
        (old, new) => {
            let old = old.unwrap_or(path);
            let (path, action) =
                updated(&headers, &old, &new.unwrap_or_else(|| old.clone()), hunks)?;
            FilePatch { path, action, notes }
        }
    })
}

/// Returns the paths of both sides, without those that `new file`, `deleted file` or a timestamp 0
/// mark as missing.
fn kind(
    headers: &Headers,
    old: Option<String>,
    new: Option<String>,
    hunks: &[Hunk],
) -> (Option<String>, Option<String>) {
    let at_zero =
        |name: &Option<DiffFileName>| name.as_ref().is_some_and(DiffFileName::is_at_time_zero);
    let none_of = |side: Side| {
        !hunks.is_empty() && hunks.iter().flat_map(|hunk| &hunk.lines).all(|line| line.side == side)
    };
    if headers.is_new || at_zero(&headers.names.old) && none_of(Side::Added) {
        return (None, new.or(old));
    }
    if headers.is_deleted || at_zero(&headers.names.new) && none_of(Side::Removed) {
        return (old.or(new), None);
    }
    (old, new)
}

fn headers(reader: &mut DiffReader<'_, '_>) -> Result<Headers, PatchError> {
    let mut headers = Headers::default();
    let first = reader.next;
    while let Some(line) = reader.peek() {
        let at_names = reader.is_name_pair(reader.next);
        // A file section that follows without a hunk, such as after a rename.
        let is_next_file = line.text.starts_with("diff ") || at_names && headers.is_complete();
        if reader.next > first && is_next_file || line.text.starts_with("@@") {
            break;
        }
        if at_names {
            headers.names.old = Some(read_name(&line, "--- ")?);
            reader.next += 1;
            let line = reader.peek().expect("a pair has two lines");
            headers.names.new = Some(read_name(&line, "+++ ")?);
        } else if !headers.read(&line)? {
            break;
        }
        reader.next += 1;
    }
    Ok(headers)
}

fn read_name(line: &PatchLine<'_>, marker: &str) -> Result<DiffFileName, PatchError> {
    line.trimmed_return().strip_prefix(marker).and_then(name).ok_or_else(|| unreadable(line))
}

fn unreadable(line: &PatchLine<'_>) -> PatchError {
    PatchError::new(
        format!("the name in line {} of the patch, {}, is invalid", line.number, shown(line.text)),
        "write the path unquoted, or in double quotes with C escapes and UTF-8 bytes",
    )
}

impl Headers {
    /// Returns true if both names are known. A rename may come without them.
    fn is_complete(&self) -> bool {
        self.names.new.is_some()
    }

    /// Reads one extended header of git. Returns false if the line is not one.
    fn read(&mut self, line: &PatchLine<'_>) -> Result<bool, PatchError> {
        check_not_binary(line, self.names.git.as_ref().map(|(_, new)| new.as_str()))?;
        let text = line.trimmed_return();
        let rest = |start: &str| text.strip_prefix(start);
        let readable = |field: &str| path(field).ok_or_else(|| unreadable(line));
        if let Some(field) = rest("diff --git ") {
            self.names.git = git_names(field);
        } else if let Some(field) = rest("rename from ") {
            self.names.rename_from = Some(readable(field)?);
        } else if let Some(field) = rest("rename to ") {
            self.names.rename_to = Some(readable(field)?);
        } else if let Some(mode) = rest("new file mode ") {
            self.is_new = true;
            self.new_mode = Some(mode.to_owned());
        } else if let Some(mode) = rest("deleted file mode ") {
            self.is_deleted = true;
            self.old_mode = Some(mode.to_owned());
        } else if let Some(mode) = rest("old mode ") {
            self.old_mode = Some(mode.to_owned());
        } else if let Some(mode) = rest("new mode ") {
            self.new_mode = Some(mode.to_owned());
        } else if let Some(hashes) = rest("index ") {
            if let Some((_, mode)) = hashes.split_once(' ') {
                self.old_mode = Some(mode.to_owned());
                self.new_mode = Some(mode.to_owned());
            }
        } else {
            check_supported(line)?;
            return Ok(rest("similarity index ").or(rest("dissimilarity index ")).is_some());
        }
        Ok(true)
    }
}

fn check_supported(line: &PatchLine<'_>) -> Result<(), PatchError> {
    if line.text.starts_with("copy from ") || line.text.starts_with("copy to ") {
        return Err(PatchError::new(
            format!(
                "line {} of the patch, {}, asks for a copy, which is not supported",
                line.number,
                shown(line.text)
            ),
            "create the diff with `git diff --no-renames`, which shows copies as new files",
        ));
    }
    if line.text.starts_with("diff --cc ") || line.text.starts_with("diff --combined ") {
        return Err(PatchError::new(
            format!(
                "line {} of the patch, {}, begins a combined diff of a merge",
                line.number,
                shown(line.text)
            ),
            "create it against one parent, for example with `git diff HEAD^1`",
        ));
    }
    Ok(())
}

/// Refuses changes of binary files.
pub(super) fn check_not_binary(line: &PatchLine<'_>, path: Option<&str>) -> Result<(), PatchError> {
    let text = line.trimmed();
    let differ = text.starts_with("Binary files ") && text.ends_with(" differ");
    if text != "GIT binary patch" && !differ {
        return Ok(());
    }
    let name = path.map(|path| format!("{path}: ")).unwrap_or_default();
    Err(PatchError::new(
        format!(
            "{name}line {} of the patch, {}, is a change of a binary file, which is not supported",
            line.number,
            shown(text)
        ),
        "remove the binary file from the patch and copy it instead",
    ))
}

/// Refuses symbolic links and submodules, whose content in a diff is not the text of a file.
fn check_mode(headers: &Headers, path: &str) -> Result<(), PatchError> {
    let modes = [&headers.old_mode, &headers.new_mode];
    let what = modes.into_iter().flatten().find_map(|mode| match mode.trim() {
        "120000" => Some("a symbolic link"),
        "160000" => Some("a submodule"),
        _ => None,
    });
    let Some(what) = what else { return Ok(()) };
    Err(PatchError::new(
        format!("{path}: the patch changes {what}, which is not supported"),
        format!("remove {path} from the patch"),
    ))
}

fn notes(headers: &Headers, path: &str) -> Vec<String> {
    match (&headers.old_mode, &headers.new_mode) {
        (Some(old), Some(new)) if old != new => {
            vec![format!("{path}: the change of its mode from {old} to {new} was not applied")]
        }
        (None, Some(mode)) if mode != "100644" => {
            vec![format!("{path}: its mode {mode} was not applied")]
        }
        _ => Vec::new(),
    }
}

fn added(headers: &Headers, path: &str, hunks: Vec<Hunk>) -> Result<PatchAction, PatchError> {
    let lines: Vec<_> = hunks.iter().flat_map(|hunk| &hunk.lines).collect();
    let empty_is_meant = headers.is_new && hunks.is_empty();
    if !empty_is_meant && (hunks.len() != 1 || lines.iter().any(|line| line.side != Side::Added)) {
        return Err(PatchError::new(
            format!(
                "{path}: the patch marks it as new, but does not have exactly one hunk of added lines"
            ),
            "give a new file one hunk with `+` lines only, or name the old file in the `---` line",
        ));
    }
    let mut content = String::new();
    for line in lines {
        content.push_str(&line.text);
        content.push_str(match (line.no_newline, line.carriage_return) {
            (true, _) => "",
            (false, true) => "\r\n",
            (false, false) => "\n",
        });
    }
    Ok(PatchAction::Add { content })
}

fn deleted(headers: &Headers, path: &str, hunks: Vec<Hunk>) -> Result<PatchAction, PatchError> {
    let all_removed =
        hunks.iter().flat_map(|hunk| &hunk.lines).all(|line| line.side == Side::Removed);
    if hunks.is_empty() && !headers.is_deleted || !all_removed {
        return Err(PatchError::new(
            format!("{path}: the patch deletes it, but does not have only removed lines"),
            "give a deleted file its lines with `-` only, or name the new file in the `+++` line",
        ));
    }
    Ok(PatchAction::Delete { hunks })
}

fn updated(
    headers: &Headers,
    old: &str,
    new: &str,
    hunks: Vec<Hunk>,
) -> Result<(String, PatchAction), PatchError> {
    let is_rename = headers.names.rename_from.is_some() && headers.names.rename_to.is_some();
    if hunks.is_empty() && !is_rename {
        let what =
            if headers.new_mode.is_some() { "changes only its mode" } else { "has no hunk for it" };
        return Err(PatchError::new(
            format!("{old}: the patch {what}"),
            format!("add the hunks of {old}, or remove it from the patch"),
        ));
    }
    if is_rename {
        return Ok((old.to_owned(), PatchAction::Update { move_to: Some(new.to_owned()), hunks }));
    }
    // `diff -u x.orig x` is how people show their changes of x.
    let is_backup =
        old.strip_prefix(new).is_some_and(|end| [".orig", ".old", ".bak", "~"].contains(&end));
    if old != new && !is_backup {
        return Err(PatchError::new(
            format!("the patch names two files, {old} and {new}, without marking a rename"),
            "write the same path after `--- a/` and `+++ b/`, or `rename from` and `rename to` lines",
        ));
    }
    Ok((new.to_owned(), PatchAction::Update { move_to: None, hunks }))
}
