//! The baselines: the same work done directly, which is the minimum that any tool needs, measured
//! in the same run.

use std::{
    fs,
    io::{self, Read, Write},
    path::Path,
    process::{Command, Stdio},
};

/// Counts newlines up to a line.
pub(super) fn count_lines(path: &Path, line: u64) -> io::Result<()> {
    let mut file = fs::File::open(path)?;
    let mut buffer = vec![0; 1 << 19];
    let mut lines = 0;
    while lines < line {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        lines += memchr::memchr_iter(b'\n', &buffer[..read]).count() as u64;
    }
    std::hint::black_box(lines);
    Ok(())
}

/// Replaces a file safely: write a new file next to it, sync, rename, sync the directory.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("by-hand");
    let mut file = fs::File::create(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// Reads, finds, replaces, writes.
pub(super) fn edit(path: &Path, old: &str, new: &str) -> io::Result<()> {
    let text = fs::read_to_string(path)?;
    let (before, after) = text.split_once(old).ok_or_else(|| io::Error::other("no such text"))?;
    replace(path, format!("{before}{new}{after}").as_bytes())
}

/// Lists names and kinds of a directory's entries, sorted.
pub(super) fn entries(path: &Path) -> io::Result<()> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        entries.push((entry.file_name(), entry.file_type()?.is_dir()));
    }
    entries.sort();
    std::hint::black_box(entries);
    Ok(())
}

/// Lists all files below a folder with sizes and times.
pub(super) fn stat_all(folder: &Path) -> io::Result<()> {
    let mut ahead = vec![folder.to_owned()];
    let mut bytes = 0;
    while let Some(folder) = ahead.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                ahead.push(entry.path());
            } else {
                bytes += entry.metadata()?.len();
            }
        }
    }
    std::hint::black_box(bytes);
    Ok(())
}

/// Runs a program and reads its output.
pub(super) fn program(name: &str, arguments: &[&str], folder: &Path) -> io::Result<()> {
    let output = Command::new(name)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    std::hint::black_box(output.stdout.len());
    Ok(())
}

/// Returns true when a program is installed.
pub(super) fn has(name: &str) -> bool {
    let mut probe = Command::new(name);
    probe.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}
