//! The git tools through a whole gate, with the real git, each case in a fresh repository without
//! user configuration. The gate grants only the declared commands, so every case also checks that
//! tools run what they declare.

mod changes;
mod failures;
mod hostile;
mod looks;
mod push;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use haft::{
    CallRequest, Context, ErrorKind, Gate, Mode, Outcome, OutcomeError, Policy, Registry,
    Workspace, WorkspaceInfo,
    commands::Executor,
    files::Disk,
    policy::{Action, Layer, LayerKind, Rule, Source},
};
use haft_exec::{Programs, Variables};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

fn with_git() -> Variables {
    [("PATH", PATH), ("HOME", "/nonexistent")]
        .map(|(name, value)| (name.into(), value.into()))
        .into()
}

fn without_git() -> Variables {
    vec![("PATH".into(), "/nonexistent".into())]
}

/// A workspace and its gate.
struct Setup {
    folder: TempDir,
    gate: Gate,
    runtime: Runtime,
}

impl Setup {
    /// Creates a workspace that is not a repository.
    fn bare() -> Self {
        Self::below("", with_git, &[])
    }

    /// Creates an empty repository.
    fn empty() -> Self {
        let setup = Self::bare();
        setup.init("");
        setup
    }

    /// Creates a repository with one commit of `a.txt` and `b.txt`.
    fn new() -> Self {
        let setup = Self::empty();
        setup.put("a.txt", "one\ntwo\nthree\n");
        setup.put("b.txt", "b\n");
        setup.commit("first");
        setup
    }

    /// Creates a gate for a subfolder of the repository.
    fn below(folder: &str, environment: fn() -> Variables, rules: &[(Action, &str)]) -> Self {
        let root = tempfile::tempdir().expect("a temporary folder");
        let workspace = root.path().join("workspace").join(folder);
        fs::create_dir_all(&workspace).expect("a folder");
        let gate = gate(root.path(), &workspace, environment, rules);
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { folder: root, gate, runtime }
    }

    /// Creates a repository in a folder, with a configured committer.
    fn init(&self, folder: &str) {
        self.git_in(folder, &["init", "--quiet", "--initial-branch=main"]);
        self.git_in(folder, &["config", "user.name", "Ada"]);
        self.git_in(folder, &["config", "user.email", "ada@example.org"]);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("workspace").join(name)
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("below the workspace")).expect("a folder");
        fs::write(path, content).expect("written");
    }

    fn has(&self, name: &str) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }

    /// Creates a program that leaves a file when it runs.
    fn trap(&self, name: &str) -> String {
        let script = self.folder.path().join(name);
        let text = format!("#!/bin/sh\ntouch '{}/marker'\ncat\n", self.folder.path().display());
        write_program(&script, &text);
        script.display().to_string()
    }

    fn is_trapped(&self) -> bool {
        self.folder.path().join("marker").exists()
    }

    fn hook(&self, name: &str, script: &str) {
        let path = self.path(".git/hooks").join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        write_program(&path, &format!("#!/bin/sh\n{script}\n"));
    }

    /// Runs git for the test itself in the workspace.
    #[track_caller]
    fn git(&self, arguments: &[&str]) -> String {
        self.git_in("", arguments)
    }

    #[track_caller]
    fn git_in(&self, folder: &str, arguments: &[&str]) -> String {
        let output = self.try_git(folder, arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {said}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    fn try_git(&self, folder: &str, arguments: &[&str]) -> std::process::Output {
        Command::new("git")
            .args(arguments)
            .current_dir(self.path(folder))
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", "/nonexistent")
            .output()
            .expect("git is there")
    }

    #[track_caller]
    fn commit(&self, message: &str) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", message]);
    }

    /// Creates a merge conflict in `a.txt`.
    fn with_conflict(self) -> Self {
        self.git(&["switch", "--quiet", "--create", "other"]);
        self.put("a.txt", "theirs\n");
        self.commit("theirs");
        self.git(&["switch", "--quiet", "main"]);
        self.put("a.txt", "ours\n");
        self.commit("ours");
        assert!(!self.try_git("", &["merge", "other"]).status.success());
        self
    }

    /// Creates a repository next to the workspace as the remote `origin`.
    fn with_remote(self) -> Self {
        let remote = self.folder.path().join("remote.git").display().to_string();
        self.git(&["init", "--quiet", "--bare", "--initial-branch=main", &remote]);
        self.git(&["remote", "add", "origin", &remote]);
        self
    }

    fn call(&self, tool: &str, input: Value) -> Outcome {
        self.call_for(tool, input, None)
    }

    fn call_for(&self, tool: &str, input: Value, deadline: Option<Duration>) -> Outcome {
        let mut context = Context::new("git");
        context.deadline = deadline;
        self.runtime.block_on(self.gate.call(CallRequest::new(tool, input, context)))
    }

    /// Returns the text of a successful call.
    #[track_caller]
    fn text(&self, tool: &str, input: Value) -> String {
        let outcome = self.call(tool, input);
        assert!(outcome.is_ok(), "{}", outcome.content);
        outcome.content
    }

    #[track_caller]
    fn data(&self, tool: &str, input: Value) -> Value {
        let outcome = self.call(tool, input);
        assert!(outcome.is_ok(), "{}", outcome.content);
        outcome.data.expect("typed")
    }

    /// Checks for an error of this kind with a next step.
    #[track_caller]
    fn refused(&self, tool: &str, input: Value, kind: ErrorKind) -> OutcomeError {
        let outcome = self.call(tool, input);
        let error = outcome.error.unwrap_or_else(|| panic!("it worked: {}", outcome.content));
        assert_eq!(error.kind, kind, "{}", outcome.content);
        assert!(!error.hint.is_empty(), "no next step: {}", error.message);
        error
    }
}

fn write_program(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, text).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("executable");
}

fn gate(
    root: &Path,
    workspace: &Path,
    environment: fn() -> Variables,
    rules: &[(Action, &str)],
) -> Gate {
    let folder = workspace.canonicalize().expect("it is there");
    let disk = Arc::new(Workspace::open(&folder).expect("it opens"));
    let programs = Programs::local(disk.clone(), environment, root);
    let registry = Registry::default();
    registry.register_all(haft::catalogue::all()).expect("every name once");
    let mut layer = Layer::new(LayerKind::Session, "test");
    layer.mode = Some(Mode::All);
    let rule = |(action, text): &(Action, &str)| {
        Rule::parse(*action, text, Source::named("test")).expect("a rule")
    };
    layer.rules = rules.iter().map(rule).collect();
    let workspace_info =
        WorkspaceInfo { workspace: folder.clone(), directory: folder, ..WorkspaceInfo::default() };
    Gate::builder(registry)
        .policy(Policy::new([layer]))
        .workspace_info(workspace_info)
        .paths(disk.clone())
        .service::<dyn Disk>(disk)
        .service::<dyn Executor>(Arc::new(programs))
        .build()
}

/// Returns the values of one field of a list.
fn each(list: &Value, field: &str) -> Vec<String> {
    let entries = list.as_array().expect("a list");
    entries.iter().map(|entry| entry[field].as_str().unwrap_or_default().to_owned()).collect()
}
