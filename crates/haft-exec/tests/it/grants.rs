//! Rules and secrets are checked for the path that is really accessed: a gate runs a probe with
//! real grants.

use std::{path::Path, sync::Arc};

use haft_core::{
    __macro::Value,
    Access, BoxFuture, Call, CallRequest, Capability, Context, Effect, ErrorKind, Gate, Power,
    ReadFiles, Registry, Reply, ResolvePath, Schema, Tool, ToolError, ToolSpec, WriteFiles,
    policy::{Action, Layer, LayerKind, Mode, Policy, Rule, Source},
};
use haft_exec::Workspace;

use crate::test_workspace::{TestWorkspace, assert_kind, open, put};

type Body = dyn Fn(ReadFiles, WriteFiles) + Send + Sync;

/// Runs the function of a test with the capabilities of a call.
struct Probe {
    spec: ToolSpec,
    accesses: Vec<Access>,
    body: Arc<Body>,
}

impl Tool for Probe {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _: &Value) -> Result<Vec<Access>, ToolError> {
        Ok(self.accesses.clone())
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, ToolError>> {
        Box::pin(async move {
            (self.body)(ReadFiles::from_call(&call)?, WriteFiles::from_call(&call)?);
            Ok(Reply::text("done"))
        })
    }
}

/// A rule denies `secret/**`, and writing `kept/*.txt`; `.env` is secret by default.
fn with_rules(
    place: &TestWorkspace,
    accesses: Vec<Access>,
    body: impl Fn(ReadFiles, WriteFiles) + Send + Sync + 'static,
) {
    let schema = r#"{"type": "object", "properties": {}}"#.parse().expect("json");
    let schema = Schema::from_value(schema).expect("a schema");
    let mut spec = ToolSpec::declared("test", "probe", "a probe", schema);
    spec.effect = Effect::Write;
    let registry = Registry::default();
    registry.register_all([Probe { spec, accesses, body: Arc::new(body) }]).expect("a new name");
    let mut layer = Layer::new(LayerKind::User, "user.toml");
    layer.mode = Some(Mode::All);
    layer.rules = ["read(secret/**)", "write(secret/**)", "write(kept/*.txt)"]
        .iter()
        .map(|text| Rule::parse(Action::Deny, text, Source::named("user.toml")).expect("a rule"))
        .collect();
    let paths: Arc<dyn ResolvePath> = Arc::new(Workspace::open(&place.root).expect("there"));
    let gate = Gate::builder(registry)
        .policy(Policy::new([layer]))
        .paths(paths)
        .service(open(&place.root))
        .build();
    let call = CallRequest::new("probe", "{}".to_owned(), Context::new("s1"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = runtime.expect("a runtime").block_on(gate.call(call));
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
}

fn everything() -> Vec<Access> {
    vec![Access::Any(Power::ReadFiles), Access::Any(Power::WriteFiles)]
}

fn planted() -> TestWorkspace {
    let place = TestWorkspace::new();
    for path in ["secret/one", "dir/.env", "dir/file", "top/secret/one", "plain"] {
        place.file(path, "x");
    }
    place.link("to_secret", "secret/one");
    place.link("to_directory", "secret");
    place.link("dir/to_env", ".env");
    place
}

#[test]
fn what_is_closed_is_not_opened_under_any_name() {
    let place = planted();
    let before = place.snapshot();
    with_rules(&place, everything(), |files, writes| {
        for path in [
            "secret/one",
            "to_secret",
            "to_directory/one",
            "dir/../secret/one",
            "dir/.env",
            "dir/to_env",
            "secret/missing",
        ] {
            let path = Path::new(path);
            assert_kind(files.open(path), ErrorKind::Denied, "");
            assert_kind(put(&writes, path, "y"), ErrorKind::Denied, "");
            assert_kind(writes.make_directory(&path.join("x")), ErrorKind::Denied, "");
        }
        for path in ["secret/one", "to_directory/one", "dir/.env"] {
            let path = Path::new(path);
            assert_kind(files.metadata(path), ErrorKind::Denied, "");
            assert_kind(writes.remove(path, false), ErrorKind::Denied, "");
            assert_kind(writes.rename(path, Path::new("free"), false), ErrorKind::Denied, "");
            assert_kind(writes.rename(Path::new("plain"), path, true), ErrorKind::Denied, "");
        }
    });
    assert_eq!(place.snapshot(), before);
}

#[test]
fn a_directory_does_not_move_or_go_with_what_is_closed_in_it() {
    let place = planted();
    place.file("open/sub/.env.example", "x");
    let before = place.snapshot();
    with_rules(&place, everything(), |_, writes| {
        for path in ["dir", "secret"] {
            let path = Path::new(path);
            assert_kind(writes.remove(path, true), ErrorKind::Denied, "");
            assert_kind(writes.rename(path, Path::new("free"), false), ErrorKind::Denied, "");
        }
    });
    assert_eq!(place.snapshot(), before);
    with_rules(&place, everything(), |_, writes| {
        writes.remove(Path::new("top"), true).expect("`secret` at the top only is closed");
        writes.rename(Path::new("open"), Path::new("opened"), false).expect("nothing is closed");
    });
}

#[test]
fn a_directory_does_not_become_a_closed_one() {
    let place = TestWorkspace::new();
    place.file("dir/one.txt", "x");
    let before = place.snapshot();
    with_rules(&place, everything(), |_, writes| {
        for to in ["secret", "kept"] {
            let moved = writes.rename(Path::new("dir"), Path::new(to), false);
            assert_kind(moved, ErrorKind::Denied, to);
        }
    });
    assert_eq!(place.snapshot(), before);
}

#[test]
fn closed_names_are_neither_listed_nor_suggested() {
    let place = planted();
    with_rules(&place, everything(), |files, _| {
        let listing = files.entries(Path::new("dir")).expect("open");
        let names: Vec<_> = listing.entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!((names, listing.closed), (vec!["file", "to_env"], 1));
        let error = files.open(Path::new("dir/.emv")).err().expect("not there");
        assert!(!error.next_step().contains(".env"), "{}", error.next_step());
        assert_kind(files.entries(Path::new("to_directory/x")), ErrorKind::Denied, "");
    });
}

#[test]
fn a_call_that_was_granted_one_path_has_that_path_only() {
    let place = planted();
    let one = vec![Access::Read("dir/flie".into()), Access::Write("dir/new".into())];
    with_rules(&place, one, |files, writes| {
        let error = files.open(Path::new("dir/flie")).err().expect("not there");
        assert!(error.next_step().contains("`dir/file`"), "{}", error.next_step());
        assert_kind(files.open(Path::new("dir/file")), ErrorKind::Denied, "dir/file");
        assert_kind(put(&writes, Path::new("plain"), "y"), ErrorKind::Denied, "plain");
        put(&writes, Path::new("dir/new"), "y").expect("granted");
        put(&writes, Path::new("dir/new"), "z").expect("granted, though the area was not");
    });
    assert_eq!(place.content("dir/new"), "z");
}

fn make_pipe(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).expect("new");
}

#[test]
fn what_takes_the_place_of_a_file_that_the_gate_saw_is_judged_anew() {
    type Swap = fn(&Path);
    let swaps: [(Swap, ErrorKind); 3] = [
        (|file| std::os::unix::fs::symlink("secret/one", file).expect("a link"), ErrorKind::Denied),
        (make_pipe, ErrorKind::Unsupported),
        (|_| (), ErrorKind::NotFound),
    ];
    for (swap, kind) in swaps {
        let place = planted();
        let file = place.root.join("plain");
        with_rules(&place, vec![Access::Read("plain".into())], move |files, _| {
            files.open(Path::new("plain")).expect("as the gate saw it");
            std::fs::remove_file(&file).expect("it is there");
            swap(&file);
            assert_kind(files.open(Path::new("plain")), kind, "");
        });
    }
    let place = planted();
    let file = place.root.join("plain");
    with_rules(&place, vec![Access::Read("plain".into())], move |files, _| {
        std::fs::remove_file(&file).expect("it is there");
        std::fs::create_dir(&file).expect("free");
        let opened = files.open(Path::new("plain")).expect("a directory");
        assert!(matches!(opened, haft_core::files::Opened::Directory(_)));
    });
}
