//! The file tools through a whole gate, each case with a fresh workspace, a folder next to it that
//! nothing may access, and a policy. No process is started; other tests cover the command line.

mod approval;
mod confinement;
mod edit;
mod edit_lines;
mod media;
mod parallel;
mod patch;
mod paths;
mod properties;
mod read;
mod search;
mod secrets;
mod undo;
mod words;
mod write;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

use haft::{
    ApprovalDecision, ApprovalHandler, ApprovalRequest, BoxFuture, CallRequest, Context, ErrorKind,
    Gate, Journal, Mode, Outcome, OutcomeError, Policy, Registry, Workspace, WorkspaceInfo,
    files::Disk,
    policy::{Action, Layer, LayerKind, Rule, Source},
    store::{JournalRetention, StoreAddress, StoreJournal, StoreLocation},
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// Content of the folder next to the workspace. No outcome may contain it.
const OUTSIDE: &str = "OUTSIDE-THE-WORKSPACE";

/// The files of a folder with modes, and their contents or link targets.
type Tree = BTreeMap<String, (u32, Vec<u8>)>;

struct Setup {
    folder: TempDir,
    gate: Gate,
    runtime: Runtime,
}

impl Setup {
    fn new() -> Self {
        Self::with(Mode::All, &[])
    }

    fn with(mode: Mode, rules: &[(Action, &str)]) -> Self {
        let folder = folder();
        let gate = gate(folder.path(), mode, rules, None);
        Self { folder, gate, runtime: current_thread() }
    }

    /// An approver is asked before every change.
    fn asking(person: &Arc<TestApprover>) -> Self {
        let folder = folder();
        *person.folder.lock() = folder.path().join("workspace");
        let gate = gate(folder.path(), Mode::Safe, &[], Some(person.clone()));
        Self { folder, gate, runtime: current_thread() }
    }

    /// Does the same on a runtime with several threads, where short blocking work runs differently.
    fn on_several_threads(mut self) -> Self {
        self.runtime =
            Builder::new_multi_thread().worker_threads(4).enable_all().build().expect("a runtime");
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("workspace").join(name)
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("below the workspace")).expect("a folder");
        fs::write(path, content).expect("written");
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).expect("UTF-8")
    }

    fn has(&self, name: &str) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.path(name)).expect("it is there").permissions().mode() & 0o7777
    }

    fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).expect("set");
    }

    fn link(&self, name: &str, target: impl AsRef<Path>) {
        std::os::unix::fs::symlink(target, self.path(name)).expect("a link");
    }

    fn call(&self, tool: &str, input: Value) -> Outcome {
        let request = CallRequest::new(tool, input, Context::new("files"));
        self.runtime.block_on(self.gate.call(request))
    }

    #[track_caller]
    fn ok(&self, tool: &str, input: Value) -> Outcome {
        let outcome = self.call(tool, input);
        assert!(outcome.is_ok(), "{}", outcome.content);
        outcome
    }

    /// Checks for an error of this kind that names the path and a next step.
    #[track_caller]
    fn refused(&self, tool: &str, input: Value, kind: ErrorKind) -> OutcomeError {
        let path = input["path"].as_str().map(str::to_owned);
        let outcome = self.call(tool, input);
        let error = outcome.error.unwrap_or_else(|| panic!("it worked: {}", outcome.content));
        assert_eq!(error.kind, kind, "{}", outcome.content);
        assert!(!error.hint.is_empty(), "no next step: {}", error.message);
        if let Some(path) = path {
            assert!(error.message.contains(&path), "{path} is not named: {}", error.message);
        }
        error
    }

    #[track_caller]
    fn version(&self, path: &str) -> String {
        let outcome = self.ok("read", serde_json::json!({"path": path, "limit": 1}));
        data(&outcome)["version"].as_str().expect("a version").to_owned()
    }

    fn tree(&self) -> Tree {
        tree(&self.path(""))
    }

    fn outside(&self) -> Tree {
        tree(&self.folder.path().join("outside"))
    }
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["workspace", "outside/directory"] {
        fs::create_dir_all(folder.path().join(name)).expect("a folder");
    }
    fs::write(folder.path().join("outside/x"), OUTSIDE).expect("written");
    folder
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Next to the workspace, so that it is in no listing.
fn journal(folder: &Path) -> Arc<StoreJournal> {
    let place = StoreLocation::new(StoreAddress::Sqlite(folder.join("store/haft.db")));
    Arc::new(StoreJournal::new(place, JournalRetention::DEFAULT))
}

fn gate(
    folder: &Path,
    mode: Mode,
    rules: &[(Action, &str)],
    person: Option<Arc<TestApprover>>,
) -> Gate {
    let journal = journal(folder);
    let folder = folder.join("workspace").canonicalize().expect("it is there");
    let workspace = Arc::new(Workspace::open(&folder).expect("it opens"));
    let registry = Registry::default();
    registry.register_all(haft::catalogue::all()).expect("every name once");
    let workspace_info =
        WorkspaceInfo { workspace: folder.clone(), directory: folder, ..WorkspaceInfo::default() };
    let mut layer = Layer::new(LayerKind::Session, "test");
    layer.mode = Some(mode);
    let rule = |(action, text): &(Action, &str)| {
        Rule::parse(*action, text, Source::named("test")).expect("a rule")
    };
    layer.rules = rules.iter().map(rule).collect();
    let builder = Gate::builder(registry)
        .policy(Policy::new([layer]))
        .workspace_info(workspace_info)
        .paths(workspace.clone())
        .service::<dyn Disk>(workspace)
        .service::<dyn Journal>(journal);
    match person {
        Some(person) => builder.handler(person).build(),
        None => builder.build(),
    }
}

/// Decides as configured, and records the requests and the state of the workspace at that time.
struct TestApprover {
    says_yes: bool,
    folder: Mutex<PathBuf>,
    asked: Mutex<Vec<(ApprovalRequest, Tree)>>,
}

impl TestApprover {
    fn who_says(yes: bool) -> Arc<Self> {
        Arc::new(Self { says_yes: yes, folder: Mutex::default(), asked: Mutex::default() })
    }

    fn last(&self) -> (ApprovalRequest, Tree) {
        let asked = self.asked.lock();
        asked.last().expect("an approver was asked").clone()
    }
}

impl ApprovalHandler for TestApprover {
    fn decide<'a>(
        &'a self,
        request: &'a ApprovalRequest,
    ) -> BoxFuture<'a, Option<ApprovalDecision>> {
        let folder = self.folder.lock().clone();
        let mut asked = self.asked.lock();
        asked.push((request.clone(), tree(&folder)));
        let verdict = match self.says_yes {
            true => ApprovalDecision::approve("ada", "test"),
            false => ApprovalDecision::deny("ada", "test", None),
        };
        Box::pin(async move { Some(verdict) })
    }
}

/// Returns everything below a folder except haft's temporary folder.
fn tree(folder: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        for entry in fs::read_dir(&path).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(folder).expect("below it").display().to_string();
            let facts = path.symlink_metadata().expect("it is there");
            let content = if facts.is_symlink() {
                fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes()
            } else if facts.is_dir() {
                waiting.push(path);
                Vec::new()
            } else {
                fs::read(&path).expect("readable")
            };
            if name != ".haft" && name != ".haft/tmp" {
                tree.insert(name, (facts.mode(), content));
            }
        }
    }
    tree
}

fn data(outcome: &Outcome) -> &Value {
    outcome.data.as_ref().unwrap_or_else(|| panic!("no data: {}", outcome.content))
}

/// Returns the lines of a result of `read`, without line numbers and without the last line, which
/// describes the file.
fn shown(outcome: &Outcome) -> Vec<String> {
    let mut lines: Vec<&str> = outcome.content.split('\n').collect();
    let footer = lines.pop().expect("a last line");
    assert!(footer.starts_with('[') && footer.ends_with(']'), "{footer}");
    let text = |line: &&str| line.split_once('\t').expect("a number and a tab").1.to_owned();
    lines.iter().map(text).collect()
}

fn footer(outcome: &Outcome) -> &str {
    outcome.content.rsplit('\n').next().expect("a last line")
}
