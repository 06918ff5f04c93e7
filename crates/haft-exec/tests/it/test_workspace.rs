//! A workspace with a directory outside it, and common operations on both.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use haft_core::{
    ErrorKind, ReadFiles, ToolError, WriteFiles,
    files::{Disk, Opened, PlannedChange},
};
use haft_exec::Workspace;
use tempfile::TempDir;

pub(crate) const SECRET: &str = "the secret outside";

pub(crate) struct TestWorkspace {
    #[expect(dead_code, reason = "dropping it removes the directory")]
    directory: TempDir,
    pub(crate) root: PathBuf,
    pub(crate) outside: PathBuf,
    pub(crate) disk: Arc<dyn Disk>,
}

impl TestWorkspace {
    /// `inside` is the workspace; `outside` beside it contains `secret`.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let base = directory.path().canonicalize().expect("just made");
        let (root, outside) = (base.join("inside"), base.join("outside"));
        fs::create_dir(&root).expect("new");
        fs::create_dir(&outside).expect("new");
        fs::write(outside.join("secret"), SECRET).expect("new");
        let disk = open(&root);
        Self { directory, root, outside, disk }
    }

    /// Opens a workspace that another process created.
    pub(crate) fn at(root: &Path) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let outside = directory.path().to_owned();
        Self { directory, root: root.to_owned(), outside, disk: open(root) }
    }

    /// The same workspace through another disk.
    pub(crate) fn with(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = disk;
        self
    }

    pub(crate) fn files(&self) -> ReadFiles {
        ReadFiles::unchecked(self.disk.clone())
    }

    pub(crate) fn writes(&self) -> WriteFiles {
        WriteFiles::unchecked(self.disk.clone())
    }

    /// Creates a file directly, with its parent directories.
    pub(crate) fn file(&self, path: &str, content: &str) -> PathBuf {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("made");
        fs::write(&path, content).expect("written");
        path
    }

    pub(crate) fn link(&self, path: &str, target: impl AsRef<Path>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("made");
        std::os::unix::fs::symlink(target, path).expect("a new link");
    }

    pub(crate) fn read(&self, path: impl AsRef<Path>) -> Result<String, ToolError> {
        let bytes = self.files().open_file(path.as_ref())?.read_whole()?;
        Ok(String::from_utf8(bytes).expect("text"))
    }

    pub(crate) fn content(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).expect("a file")
    }

    /// Writes a file.
    pub(crate) fn put(&self, path: impl AsRef<Path>, content: &str) -> Result<(), ToolError> {
        put(&self.writes(), path.as_ref(), content)
    }

    /// Writes several files at once; `meanwhile` runs when the plan is made.
    pub(crate) fn put_all(
        &self,
        files: &[(&str, &str)],
        meanwhile: impl Fn(),
    ) -> Result<(), ToolError> {
        let paths: Vec<PathBuf> = files.iter().map(|(path, _)| path.into()).collect();
        self.writes().change(&paths, &mut |_| {
            meanwhile();
            Ok(files
                .iter()
                .enumerate()
                .map(|(target, (_, text))| new_content(target, text))
                .collect())
        })
    }

    /// Returns everything in the workspace and outside it, with attributes and contents, to show
    /// that nothing changed. haft's own files are left out, but must be empty.
    pub(crate) fn snapshot(&self) -> BTreeMap<PathBuf, String> {
        self.assert_clean();
        let mut snapshot = BTreeMap::new();
        for top in [&self.root, &self.outside] {
            add_to_snapshot(top, &mut snapshot);
        }
        snapshot.retain(|path, _| !path.starts_with(self.root.join(".haft")) && path != &self.root);
        snapshot
    }

    /// Checks that no unfinished file is left anywhere.
    #[track_caller]
    pub(crate) fn assert_clean(&self) {
        let mut snapshot = BTreeMap::new();
        add_to_snapshot(&self.root, &mut snapshot);
        let area = self.root.join(".haft/tmp");
        let left: Vec<_> = snapshot
            .keys()
            .filter(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                path.parent() == Some(&*area) || name.starts_with(".haft-")
            })
            .collect();
        assert!(left.is_empty(), "left over: {left:?}");
    }
}

pub(crate) fn open(root: &Path) -> Arc<dyn Disk> {
    Arc::new(Workspace::open(root).expect("a directory"))
}

pub(crate) fn new_content(target: usize, text: &str) -> PlannedChange {
    PlannedChange::Put { target, bytes: text.as_bytes().to_vec().into(), like: None }
}

pub(crate) fn put(writes: &WriteFiles, path: &Path, content: &str) -> Result<(), ToolError> {
    writes.change(&[path.to_owned()], &mut |_| Ok(vec![new_content(0, content)]))
}

fn add_to_snapshot(path: &Path, snapshot: &mut BTreeMap<PathBuf, String>) {
    let known = fs::symlink_metadata(path).expect("there");
    let numbers = (known.ino(), known.mode(), known.uid(), known.gid(), known.nlink());
    let mut text = format!("{numbers:?}");
    if known.is_dir() {
        text = format!("{:o}", known.mode());
        for entry in fs::read_dir(path).expect("a directory") {
            add_to_snapshot(&entry.expect("an entry").path(), snapshot);
        }
    } else if known.is_file() {
        text.push_str(&format!(" {:?}", fs::read(path).expect("a file")));
    } else if known.is_symlink() {
        text.push_str(&format!(" {:?}", fs::read_link(path).expect("a link")));
    }
    snapshot.insert(path.to_owned(), text);
}

#[track_caller]
pub(crate) fn assert_kind<T>(result: Result<T, ToolError>, kind: ErrorKind, naming: &str) {
    match result {
        Ok(_) => panic!("it must fail as {kind}, naming {naming}"),
        Err(error) => {
            assert_eq!(error.kind(), kind, "{error:?}");
            assert!(error.to_string().contains(naming), "{error} does not name {naming}");
        }
    }
}

pub(crate) fn is_directory(opened: &Opened) -> bool {
    matches!(opened, Opened::Directory(_))
}

/// Runs one test of this test program again, with a variable set.
pub(crate) fn again(test: &str, variable: &str, value: impl AsRef<Path>) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", test, "--nocapture"]).env(variable, value.as_ref());
    command.stdin(Stdio::null());
    command
}

/// Runs a test of this program in its own mount namespace, so that it can mount file systems. False
/// inside it.
pub(crate) fn is_run_with_own_mounts(test: &str) -> bool {
    const VARIABLE: &str = "HAFT_TEST_OWN_MOUNTS";
    if variable(VARIABLE).is_some() {
        return false;
    }
    let can = Command::new("unshare").args(["-m", "true"]).output();
    if !can.is_ok_and(|tried| tried.status.success()) {
        note("no mount namespace can be made here: this test is passed over");
        return true;
    }
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new("unshare");
    command.arg("-m").arg(program).args(["--exact", test]).env(VARIABLE, "1");
    let done = command.output().expect("unshare was there");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    true
}

pub(crate) fn mount(arguments: &[&str]) {
    let done = Command::new("mount").args(arguments).status().expect("mount is there");
    assert!(done.success(), "mount {arguments:?}");
}

/// Reports that a test, or a part of it, is skipped on this machine. With `CI=true` that is a
/// failure: it would hide what is not tested.
#[track_caller]
pub(crate) fn note(text: &str) {
    use std::io::Write;
    let is_ci = variable("CI").is_some_and(|value| value == Path::new("true"));
    assert!(!is_ci, "CI has to test this: {text}");
    let _ = writeln!(std::io::stderr(), "note: {text}");
}

#[expect(
    clippy::disallowed_methods,
    reason = "the only use: this test program passes itself a task"
)]
pub(crate) fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from)
}
