//! The calls and their workspace.

use std::{
    fs,
    path::Path,
    process::Command,
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};

use haft::{
    ErrorKind, Mode, OutputSource, Outputs,
    store::{OutputRetention, StoreAddress, StoreLocation, StoreOutputs},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Builder;

use crate::{
    fixture::Fixture,
    web_server::{self, WebServer},
};

pub(super) struct CorpusCall {
    pub(super) tool: &'static str,
    pub(super) input: Value,
    /// The expected error kind; `None` for success.
    pub(super) ends: Option<ErrorKind>,
    pub(super) typed: Typed,
    /// The approval mode.
    pub(super) mode: Mode,
}

/// How a command line expresses the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    Same,
    /// The command line parser rejects it first: only the error kind is the same.
    InItsWords,
    /// It arrives correctly, so nothing is repaired. Everything else is the same.
    Unmended,
    /// A command line cannot express it.
    Unsayable,
}

impl CorpusCall {
    fn typed(mut self, typed: Typed) -> Self {
        self.typed = typed;
        self
    }

    /// A call that needs no approval.
    fn unasked(mut self) -> Self {
        self.mode = Mode::All;
        self
    }
}

fn works(tool: &'static str, input: Value) -> CorpusCall {
    CorpusCall { tool, input, ends: None, typed: Typed::Same, mode: Mode::Contained }
}

fn fails(tool: &'static str, kind: ErrorKind, input: Value) -> CorpusCall {
    CorpusCall { tool, input, ends: Some(kind), typed: Typed::Same, mode: Mode::Contained }
}

/// The version of `src/main.rs`. Calls with another version are refused, so a wrong value is
/// detected.
const MAIN_VERSION: &str = "c3616474450e8b2f0";
const OTHER_VERSION: &str = "c0000000000000000";
const MAIN: &str = "fn main() {\n    println!(\"TODO: run\");\n}\n";

/// One white pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\x0aIDAT\
    \x78\x9c\x63\0\x01\0\0\x05\0\x01\x0d\x0a\x2d\xb4\0\0\0\0IEND\xae\x42\x60\x82";

/// Placeholder for the id of the kept output, which differs in each workspace.
pub(super) const KEPT: &str = "out_kept";

/// Returns the fixture of a call, and its input with the real id.
pub(super) fn fixture_of(call: &CorpusCall) -> (Fixture, Value) {
    let fixture = fixture();
    if !call.input.to_string().contains(KEPT) {
        return (fixture, call.input.clone());
    }
    let outputs = outputs(&fixture);
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let text: String = (1..=3_000).map(|number| format!("line {number}\n")).collect();
    let made_by =
        OutputSource { session: "s".into(), call_id: "call_1".into(), tool: "bash".into() };
    let id = runtime.block_on(outputs.keep(text, made_by)).expect("kept").id;
    fs::write(fixture.path("kept"), &id).expect("written");
    let input = call.input.to_string().replace(KEPT, &id);
    (fixture, serde_json::from_str(&input).expect("it was JSON before"))
}

/// Opens the fixture's store like haft does.
pub(super) fn place(fixture: &Fixture) -> Arc<StoreLocation> {
    StoreLocation::new(StoreAddress::Sqlite(fixture.path("project/.haft/haft.db")))
}

pub(super) fn outputs(fixture: &Fixture) -> StoreOutputs {
    StoreOutputs::new(place(fixture), &fixture.path("project"), OutputRetention::default())
}

/// Returns a fixture with the workspace of all calls.
pub(super) fn fixture() -> Fixture {
    // Without a sandbox: sandboxes have their own tests, and a remote is a local folder here.
    let fixture = Fixture::new().user_config(&format!(
        "sandbox = \"off\"\n[network]\nallow = [\"{}\"]\n[search]\nengine = \"searxng\"\nurl = \"{}\"\n",
        site().address,
        site().url("/searx")
    ));
    let project = fixture.path("project");
    let put = |path: &str, content: &[u8]| {
        let path = project.join(path);
        fs::create_dir_all(path.parent().expect("in the project")).expect("a folder");
        fs::write(path, content).expect("written");
    };
    put("README.md", b"# Equal\n\nOne call, one outcome.\n");
    put("src/main.rs", MAIN.as_bytes());
    put("src/lib.rs", b"pub fn run() {}\n\n// TODO: walk\n");
    put("notes/\u{fc}ber.md", "Gr\u{fc}\u{df}e, \u{4e16}\u{754c} \u{1f30d}\n".as_bytes());
    put("empty.txt", b"");
    put("bytes.bin", b"\0\x01\x02\xff");
    put("picture.png", PNG);
    put(".env", b"KEY=x\n");
    // Joined here, so that secret scanners do not report this file.
    put("token.txt", format!("token: {}{}\n", "ghp_", "a1B2".repeat(9)).as_bytes());
    let line = |number: usize| format!("{number:04} {}\n", "long ".repeat(28));
    put("long.txt", (0..2_400).map(line).collect::<String>().as_bytes());
    std::os::unix::fs::symlink("src/main.rs", project.join("link.rs")).expect("a link");
    make_old(&project);
    copy_repositories(&project);
    fixture
}

/// Returns a repository with one commit and a remote. Created once, because git takes longer than
/// most calls.
fn copy_repositories(project: &Path) {
    static MADE: OnceLock<TempDir> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let folder = TempDir::new().expect("a folder");
        let script = "git init -q --bare remote.git && git init -q -b topic repo && cd repo \
            && git config user.name Ada && git config user.email ada@example.org \
            && git remote add origin ../remote.git && git config push.default current \
            && echo one > file.txt && git add . && git commit -q -m First && echo two >> file.txt";
        let date = "1700000000 +0000";
        let made = Command::new("sh")
            .args(["-c", script])
            .current_dir(folder.path())
            .env("GIT_AUTHOR_DATE", date)
            .env("GIT_COMMITTER_DATE", date)
            .env("HOME", folder.path())
            .status();
        assert!(made.expect("sh runs").success());
        folder
    });
    for name in ["repo", "remote.git"] {
        let (from, to) = (made.path().join(name), project.join(name));
        let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
        assert!(copied.expect("cp runs").success());
    }
}

/// Set equal times: `stat` prints them, and `glob` sorts by them.
fn make_old(folder: &Path) {
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let facts = path.symlink_metadata().expect("it is there");
        if facts.is_dir() {
            make_old(&path);
        } else if facts.is_file() {
            fs::File::open(&path).and_then(|file| file.set_modified(then)).expect("its own file");
        }
    }
    fs::File::open(folder).and_then(|file| file.set_modified(then)).expect("its own folder");
}

/// The web server for these calls.
pub(super) fn site() -> &'static WebServer {
    static SITE: OnceLock<WebServer> = OnceLock::new();
    SITE.get_or_init(|| {
        WebServer::start(|request| match web_server::path(request) {
            "/page" => (
                "200 OK\r\nContent-Type: text/html",
                b"<title>A page</title><nav>menu</nav><main><h1>A page</h1><p>With <a href=x>a link</a>.</main>".to_vec(),
            ),
            "/picture" => ("200 OK\r\nContent-Type: image/png", PNG.to_vec()),
            "/json" => ("200 OK\r\nContent-Type: application/json\r\nSet-Cookie: a=b", b"{\"a\": [1]}".to_vec()),
            "/bytes" => ("200 OK", b"\0\x01\x02".to_vec()),
            path if path.starts_with("/searx/search") => (
                "200 OK\r\nContent-Type: application/json",
                br#"{"results": [{"url": "https://a.test/", "title": "A <b>hit</b>", "content": "words"}]}"#.to_vec(),
            ),
            _ => ("404 Not Found\r\nContent-Type: text/html", b"<h1>Nothing here</h1>".to_vec()),
        })
    })
}

/// Returns all calls.
pub(super) fn calls() -> Vec<CorpusCall> {
    let files = [reading(), finding(), looking(), writing(), editing(), arranging()];
    let groups = files.into_iter().chain([running(), web(), versions(), keeping(), greeting()]);
    groups.flatten().chain(nothing_of_that_name()).collect()
}

fn reading() -> Vec<CorpusCall> {
    vec![
        works("read", json!({"path": "README.md"})),
        works("read", json!({"path": "src/main.rs", "offset": 2, "limit": 1})),
        works("read", json!({"path": "notes/\u{fc}ber.md", "plain": true})),
        works("read", json!({"path": "src"})),
        works("read", json!({"path": "link.rs"})),
        works("read", json!({"path": "empty.txt"})),
        // A page is as long as the limit for a model, and names the next offset.
        works("read", json!({"path": "long.txt"})),
        works("read", json!({"path": "picture.png"})),
        works("read", json!({"path": "token.txt"})),
        works("read", json!({"path": "src/main.rs", "limit": "2"})).typed(Typed::Unmended),
        works("read", json!({"file_path": "src/main.rs", "line": 2})).typed(Typed::Unsayable),
        fails("read", ErrorKind::NotFound, json!({"path": 7, "offset": 1.0}))
            .typed(Typed::Unsayable),
        fails("read", ErrorKind::Input, json!({"path": "README.md", "limit": 0})),
        fails("read", ErrorKind::Input, json!({"path": "README.md", "offset": 0, "limit": 5_000})),
        fails("read", ErrorKind::Input, json!({"path": "README.md", "offset": 99})),
        fails("read", ErrorKind::Input, json!({})).typed(Typed::InItsWords),
        fails("read", ErrorKind::Input, json!({"path": "README.md", "ofset": 3}))
            .typed(Typed::InItsWords),
        fails("read", ErrorKind::Input, json!({"path": "README.md", "limit": "many"}))
            .typed(Typed::InItsWords),
        fails("read", ErrorKind::Input, json!({"path": ["README.md"]})).typed(Typed::Unsayable),
        fails("read", ErrorKind::NotFound, json!({"path": "src/mian.rs"})),
        fails("read", ErrorKind::NotFound, json!({"path": "\u{4e16}\u{754c}\u{202e}.txt"})),
        fails("read", ErrorKind::Unsupported, json!({"path": "bytes.bin"})),
        fails("read", ErrorKind::Denied, json!({"path": ".env"})),
        fails("read", ErrorKind::Denied, json!({"path": "../outside.txt"})),
        fails("read", ErrorKind::Denied, json!({"path": "/etc/passwd"})),
    ]
}

fn keeping() -> Vec<CorpusCall> {
    let todo = |content: &str, status: &str| json!({"content": content, "status": status});
    vec![
        works("output_read", json!({"id": KEPT, "start_line": 1499, "end_line": 1501})),
        works("output_read", json!({"id": KEPT, "page": 1})),
        fails("output_read", ErrorKind::Input, json!({"id": KEPT, "page": 9})),
        fails("output_read", ErrorKind::Input, json!({"id": KEPT, "page": 1, "end_line": 2})),
        fails("output_read", ErrorKind::NotFound, json!({"id": "out_x"})),
        works("output_search", json!({"id": KEPT, "pattern": "line 299[0-2]", "context": 1})),
        works(
            "output_search",
            json!({"id": KEPT, "pattern": "LINE 3000", "case_insensitive": true}),
        ),
        fails("output_search", ErrorKind::Input, json!({"id": KEPT, "pattern": "("})),
        fails("output_search", ErrorKind::NotFound, json!({"id": "out_x", "pattern": "a"})),
        works(
            "todo_write",
            json!({"todos": [todo("One", "completed"), todo("Two", "in_progress")]}),
        ),
        works("todo_write", json!({"todos": [], "expected_version": 0})).typed(Typed::Unsayable),
        fails("todo_write", ErrorKind::Input, json!({"todos": [todo(" ", "pending")]})),
        fails(
            "todo_write",
            ErrorKind::Conflict,
            json!({"todos": [todo("x", "pending")], "expected_version": 7}),
        ),
        works("todo_read", json!({})),
        works("todo_read", json!({"session_id": "other"})),
        fails("todo_read", ErrorKind::Input, json!({"session_id": ""})),
        fails("todo_read", ErrorKind::Input, json!({"sesion": "x", "what": 1}))
            .typed(Typed::InItsWords),
        works("session", json!({"operation": "list"})),
        works("session", json!({"operation": "list", "filter": "x", "limit": 3, "archived": true})),
        fails(
            "session",
            ErrorKind::NotFound,
            json!({"operation": "history", "session_id": "mcp-0"}),
        ),
        fails(
            "session",
            ErrorKind::NotFound,
            json!({"operation": "send", "session_id": "mcp-0", "message": "a"}),
        ),
        fails("session", ErrorKind::Input, json!({"operation": "send", "session_id": "mcp-0"})),
        fails("session", ErrorKind::Input, json!({"operation": "patch"})),
    ]
}

fn finding() -> Vec<CorpusCall> {
    vec![
        works("grep", json!({"pattern": "TODO"})),
        works(
            "grep",
            json!({"pattern": "todo", "case_insensitive": true, "path": "src", "context": 1}),
        ),
        works("grep", json!({"pattern": "(", "literal": true, "include": "*.rs"})),
        works("grep", json!({"pattern": "\u{4e16}.", "max_results": 1})),
        works("grep", json!({"pattern": "nowhere at all"})),
        // Truncated content, and data beyond its limit.
        works("grep", json!({"pattern": "long", "max_results": 2_000})),
        works("grep", json!({"query": "TODO", "glob": "*.rs", "max_results": "5"}))
            .typed(Typed::Unsayable),
        fails("grep", ErrorKind::Input, json!({"pattern": "TODO", "context": 21})),
        fails("grep", ErrorKind::Input, json!({"pattern": ""})),
        fails("grep", ErrorKind::Input, json!({"pattern": "a(b"})),
        fails("grep", ErrorKind::NotFound, json!({"pattern": "x", "path": "nowhere"})),
        fails("grep", ErrorKind::Denied, json!({"pattern": "KEY", "path": ".env"})),
        works("glob", json!({"pattern": "**/*.rs"})),
        works("glob", json!({"pattern": "*.md", "path": "notes", "limit": 1})),
        works("glob", json!({"pattern": "*.none"})),
        fails("glob", ErrorKind::Input, json!({"pattern": "*", "limit": 0})),
        fails("glob", ErrorKind::Input, json!({"pattern": "a[", "ignored": true})),
        fails("glob", ErrorKind::NotFound, json!({"pattern": "*", "path": "nowhere"})),
        works("list", json!({})),
        works("list", json!({"path": "src", "depth": 1})),
        works("list", json!({"limit": 2, "ignored": true})),
        fails("list", ErrorKind::Input, json!({"depth": 0})),
        fails("list", ErrorKind::Input, json!({"path": "README.md"})),
        fails("list", ErrorKind::NotFound, json!({"path": "nowhere"})),
    ]
}

fn looking() -> Vec<CorpusCall> {
    vec![
        works("stat", json!({"path": "README.md"})),
        works("stat", json!({"path": "src"})),
        works("stat", json!({"path": "long.txt"})),
        works("stat", json!({"path": "picture.png"})),
        fails("stat", ErrorKind::Input, json!({"path": "README.md", "depth": 1}))
            .typed(Typed::InItsWords),
        fails("stat", ErrorKind::NotFound, json!({"path": "READ.md"})),
        fails("stat", ErrorKind::Denied, json!({"path": ".env"})),
    ]
}

fn writing() -> Vec<CorpusCall> {
    vec![
        works("write", json!({"path": "new/a.txt", "content": "one\ntwo\n"})),
        works("write", json!({"path": "README.md", "content": "Gr\u{fc}\u{df}e \u{1f30d}"})),
        works("write", json!({"path": "src/main.rs", "content": MAIN})),
        works("write", json!({"path": "a.txt", "contents": "x"})).typed(Typed::Unsayable),
        fails("write", ErrorKind::Input, json!({"path": "a.txt"})).typed(Typed::InItsWords),
        fails("write", ErrorKind::Input, json!({"path": "a", "content": "", "on_conflict": "ask"}))
            .typed(Typed::InItsWords),
        fails(
            "write",
            ErrorKind::Conflict,
            json!({"path": "README.md", "content": "", "on_conflict": "error"}),
        ),
        fails(
            "write",
            ErrorKind::Conflict,
            json!({"path": "README.md", "content": "", "expected_version": OTHER_VERSION}),
        ),
        fails("write", ErrorKind::Input, json!({"path": "src", "content": "x"})),
        fails("write", ErrorKind::Denied, json!({"path": ".env", "content": "KEY=y"})),
        fails(
            "write",
            ErrorKind::ApprovalUnavailable,
            json!({"path": ".git/hooks/pre-commit", "content": "x"}),
        ),
        works("make_directory", json!({"path": "one/two"})),
        works("make_directory", json!({"path": "src"})),
        fails("make_directory", ErrorKind::Input, json!({"path": "a", "mode": "0700"}))
            .typed(Typed::InItsWords),
        fails("make_directory", ErrorKind::Conflict, json!({"path": "README.md"})),
        fails("make_directory", ErrorKind::Denied, json!({"path": "../a"})),
        // Two files were written before, and the second change was undone: see `surfaces`.
        works("changes", json!({})),
        works("changes", json!({"change": 1})),
        works("undo", json!({"changes": [1]})),
        works("undo", json!({"call_id": "first", "preview": true})),
        works("redo", json!({"session": "earlier"})),
        works("changes", json!({"since": "2h", "path": "src", "limit": 3})),
        fails("changes", ErrorKind::Input, json!({"since": "soon"})),
        fails("changes", ErrorKind::NotFound, json!({"change": 7})),
        fails("undo", ErrorKind::NotFound, json!({})),
        fails("undo", ErrorKind::NotFound, json!({"changes": [2], "preview": true})),
        fails("undo", ErrorKind::Input, json!({"since": "yesterday"})),
        fails("redo", ErrorKind::NotFound, json!({})),
        fails("redo", ErrorKind::NotFound, json!({"session": "all", "path": "README.md"})),
    ]
}

fn editing() -> Vec<CorpusCall> {
    let patch = |start: usize, end: usize| json!([{"start_line": start, "end_line": end, "content": "    run();"}]);
    let update = |path: &str, old: &str| {
        let text = format!(
            "*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n+    run();\n*** End Patch\n"
        );
        json!({"patch": text})
    };
    vec![
        works("edit", json!({"path": "src/main.rs", "old_string": "TODO", "new_string": "DONE"})),
        works(
            "edit",
            json!({"path": "src/main.rs", "old_string": "n", "new_string": "\u{f1}", "replace_all": true}),
        ),
        works(
            "edit",
            json!({"path": "src/main.rs", "old_string": "println!(\u{201c}TODO: run\u{201d});", "new_string": "run();"}),
        ),
        fails(
            "edit",
            ErrorKind::Input,
            json!({"path": "src/main.rs", "old_string": "", "new_string": "x"}),
        ),
        fails(
            "edit",
            ErrorKind::NotFound,
            json!({"path": "src/main.rs", "old_string": "fn mian() {", "new_string": "x"}),
        ),
        fails(
            "edit",
            ErrorKind::Conflict,
            json!({"path": "src/main.rs", "old_string": "n", "new_string": "x"}),
        ),
        fails(
            "edit",
            ErrorKind::Conflict,
            json!({"path": "src/main.rs", "old_string": "n", "new_string": "x", "expected_version": OTHER_VERSION}),
        ),
        works(
            "edit_lines",
            json!({"path": "src/main.rs", "patches": patch(2, 2), "expected_version": MAIN_VERSION}),
        ),
        works(
            "edit_lines",
            json!({"path": "src/main.rs", "edits": patch(1, 0), "version": MAIN_VERSION}),
        )
        .typed(Typed::Unsayable),
        fails(
            "edit_lines",
            ErrorKind::Input,
            json!({"path": "src/main.rs", "patches": patch(0, 2), "expected_version": MAIN_VERSION}),
        ),
        fails(
            "edit_lines",
            ErrorKind::Input,
            json!({"path": "src/main.rs", "patches": patch(7, 9), "expected_version": MAIN_VERSION}),
        ),
        fails(
            "edit_lines",
            ErrorKind::Conflict,
            json!({"path": "src/main.rs", "patches": patch(2, 2), "expected_version": OTHER_VERSION}),
        ),
        works("patch", update("src/main.rs", "    println!(\"TODO: run\");")),
        fails("patch", ErrorKind::Input, json!({"patch": "no patch"})),
        fails("patch", ErrorKind::Input, json!({"patch": ""})),
        fails("patch", ErrorKind::Input, update("src/main.rs", "    walk();")),
        fails("patch", ErrorKind::NotFound, update("src/nowhere.rs", "    walk();")),
    ]
}

fn arranging() -> Vec<CorpusCall> {
    vec![
        works("move", json!({"from": "README.md", "to": "docs/README.md"})),
        works("move", json!({"from": "README.md", "to": "empty.txt", "on_conflict": "overwrite"})),
        fails(
            "move",
            ErrorKind::Input,
            json!({"from": "README.md", "to": "a", "on_conflict": "ask"}),
        )
        .typed(Typed::InItsWords),
        fails("move", ErrorKind::NotFound, json!({"from": "nowhere", "to": "a"})),
        fails("move", ErrorKind::Conflict, json!({"from": "README.md", "to": "src/lib.rs"})),
        works("delete", json!({"path": "README.md"})).unasked(),
        works("delete", json!({"path": "src", "recursive": true})).unasked(),
        fails("delete", ErrorKind::Conflict, json!({"path": "src"})).unasked(),
        fails("delete", ErrorKind::NotFound, json!({"path": "nowhere"})).unasked(),
        fails("delete", ErrorKind::ApprovalUnavailable, json!({"path": "README.md"})),
        fails("delete", ErrorKind::Input, json!({"path": "README.md", "force": true}))
            .typed(Typed::InItsWords),
        fails("delete", ErrorKind::Denied, json!({"path": "../project/../x"})),
    ]
}

fn running() -> Vec<CorpusCall> {
    vec![
        works("bash", json!({"command": "echo one; echo two >&2"})).unasked(),
        works("bash", json!({"command": "ls; exit 3", "workdir": "src", "description": "Look"}))
            .unasked(),
        works("bash", json!({"command": "kill -9 $$"})).unasked(),
        works("bash", json!({"command": "printf '\\033[31mred\\033[0m\\377\\n'", "cwd": "src"}))
            .typed(Typed::Unmended)
            .unasked(),
        fails("bash", ErrorKind::ApprovalUnavailable, json!({"command": "make"})),
        fails("bash", ErrorKind::ApprovalUnavailable, json!({"command": "true", "network": true})),
        fails(
            "bash",
            ErrorKind::ApprovalUnavailable,
            json!({"command": "true", "env": ["K=secret:KEY"]}),
        ),
        fails("bash", ErrorKind::Input, json!({"command": "true", "env": ["K=plain"]})).unasked(),
        fails("bash", ErrorKind::Timeout, json!({"command": "sleep 600", "timeout_ms": 1}))
            .unasked(),
        fails("bash", ErrorKind::NotFound, json!({"command": "true", "workdir": "srx"})).unasked(),
        fails("bash", ErrorKind::Denied, json!({"command": "true", "workdir": "/"})).unasked(),
        fails("bash", ErrorKind::Input, json!({"command": "true", "timeout_ms": 600_001})),
        fails("bash", ErrorKind::Input, json!({"command": ""})),
        works("process", json!({"action": "list"})),
        fails("process", ErrorKind::NotFound, json!({"action": "poll", "id": "p9"})),
        fails("process", ErrorKind::Input, json!({"action": "kill"})),
        fails("process", ErrorKind::Input, json!({"action": "stop"})).typed(Typed::InItsWords),
    ]
}

fn versions() -> Vec<CorpusCall> {
    let there = |tool: &'static str, more: Value| {
        let mut input = json!({"directory": "repo"});
        input.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
        works(tool, input).unasked()
    };
    // The project itself is not a repository.
    let nowhere =
        |tool: &'static str, input: Value| fails(tool, ErrorKind::NotFound, input).unasked();
    vec![
        there("git_status", json!({})),
        there("git_diff", json!({})),
        there("git_log", json!({"limit": 5})),
        there("git_show", json!({"revision": "HEAD"})),
        there("git_blame", json!({"path": "repo/file.txt"})),
        there("git_commit", json!({"message": "Second", "all": true})),
        there("git_branch", json!({"action": "list"})),
        there("git_worktree", json!({"action": "list"})),
        there("git_push", json!({"remote": "origin", "branch": "topic"})),
        fails("git_commit", ErrorKind::ApprovalUnavailable, json!({"message": "x", "all": true})),
        nowhere("git_status", json!({"directory": "missing"})),
        nowhere("git_diff", json!({"directory": "missing"})),
        nowhere("git_log", json!({"directory": "missing"})),
        nowhere("git_show", json!({"revision": "no-such", "directory": "repo"})),
        nowhere("git_blame", json!({"path": "repo/missing.txt", "directory": "repo"})),
        fails("git_commit", ErrorKind::Input, json!({"message": " ", "directory": "repo"}))
            .unasked(),
        fails(
            "git_branch",
            ErrorKind::Input,
            json!({"action": "create", "name": "-x", "directory": "repo"}),
        )
        .unasked(),
        nowhere("git_worktree", json!({"action": "list", "directory": "missing"})),
        fails("git_push", ErrorKind::Denied, json!({"branch": "main", "directory": "repo"}))
            .unasked(),
        nowhere("git_status", json!({})),
        nowhere("git_diff", json!({})),
        nowhere("git_log", json!({})),
        nowhere("git_show", json!({"revision": "HEAD"})),
        nowhere("git_blame", json!({"path": "README.md"})),
        nowhere("git_commit", json!({"message": "x", "all": true})),
        nowhere("git_branch", json!({"action": "list"})),
        nowhere("git_worktree", json!({"action": "list"})),
        nowhere("git_push", json!({"remote": "origin", "branch": "topic"})),
    ]
}

fn web() -> Vec<CorpusCall> {
    let at = |path: &str| site().url(path);
    vec![
        works("web_fetch", json!({"url": at("/page")})).unasked(),
        works("web_fetch", json!({"url": at("/page"), "format": "text", "timeout_secs": 60}))
            .unasked(),
        works("web_fetch", json!({"url": at("/page"), "format": "html"})).unasked(),
        works("web_fetch", json!({"url": at("/picture")})).unasked(),
        fails("web_fetch", ErrorKind::ApprovalUnavailable, json!({"url": at("/page")})),
        fails("web_fetch", ErrorKind::NotFound, json!({"url": at("/missing")})).unasked(),
        fails("web_fetch", ErrorKind::Unsupported, json!({"url": at("/bytes")})).unasked(),
        fails("web_fetch", ErrorKind::Denied, json!({"url": "http://127.0.0.1:1/"})).unasked(),
        fails("web_fetch", ErrorKind::Input, json!({"url": "file:///etc/passwd"})),
        fails("web_fetch", ErrorKind::Input, json!({"url": at("/page"), "timeout_secs": 121}))
            .unasked(),
        works("http_request", json!({"url": at("/json")})).unasked(),
        works("http_request", json!({"url": at("/missing"), "method": "DELETE"})).unasked(),
        works(
            "http_request",
            json!({"url": at("/bytes"), "method": "POST", "headers": {"X-A": "b"}, "body": "text"}),
        )
        .unasked(),
        works("http_request", json!({"url": at("/json"), "method": "PUT", "json_body": {"a": 1}}))
            .unasked(),
        fails("http_request", ErrorKind::ApprovalUnavailable, json!({"url": at("/json")})),
        fails(
            "http_request",
            ErrorKind::ApprovalUnavailable,
            json!({"url": at("/?k=secret:NONE")}),
        ),
        fails("http_request", ErrorKind::Input, json!({"url": at("/"), "headers": {"Host": "x"}}))
            .unasked(),
        works("web_search", json!({"query": "a hit"})).unasked(),
        works("web_search", json!({"query": "a hit", "limit": 3, "domains": ["b.test"]})).unasked(),
        fails("web_search", ErrorKind::ApprovalUnavailable, json!({"query": "a hit"})),
        fails("web_search", ErrorKind::Input, json!({"query": "a hit", "limit": 21})),
        fails("web_search", ErrorKind::Input, json!({"query": ""})),
    ]
}

fn greeting() -> Vec<CorpusCall> {
    vec![
        works("hello", json!({"name": "Ada"})),
        works(
            "hello",
            json!({"name": "\u{4e16}\u{754c}", "language": "german", "times": 3, "shout": true}),
        ),
        works("Hello", json!({"name": "Ada", "times": "2"})).typed(Typed::Unsayable),
        fails("hello", ErrorKind::Input, json!({"name": "Ada", "times": 101})),
        fails("hello", ErrorKind::Input, json!({"name": "Ada", "language": "klingon"}))
            .typed(Typed::InItsWords),
        fails("hello", ErrorKind::Input, json!({"name": "  "})),
    ]
}

fn nothing_of_that_name() -> Vec<CorpusCall> {
    vec![
        fails("raed", ErrorKind::NotFound, json!({"path": "a"})).typed(Typed::InItsWords),
        fails("frobnicate", ErrorKind::NotFound, json!({})).typed(Typed::InItsWords),
    ]
}
