//! The ledger entry of a call is the same on every surface: decision and rule, approver, accesses,
//! error and result, without secrets.

use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use haft::{
    Access, BoxFuture, Call, CallRequest, Capability, Context, Effect, Gate, LedgerEntry, Mode,
    Policy, Power, Registry, Reply, Schema, Tool, ToolError, ToolSpec, Tools, Workspace,
    files::Disk,
    policy::{Action, Layer, LayerKind, Reason},
    store::{ReplyTiming, StoreAddress, StoreLedger, StoreLocation},
};
use serde_json::{Value, json};

use super::{recorded, usual};
use crate::{
    equality::surfaces::http::Http,
    fixture::Fixture,
    mcp_stdio::{Client, TIMEOUT},
};

/// In two parts, so that secret scanners do not report this file.
fn token() -> String {
    format!("{}{}", "ghp_", "a1B2".repeat(9))
}

const CONFIG: &str = "allow = [\"write(a*.txt)\"]\nask = [\"write(asked*.txt)\"]\n\
                      deny = [\"write(denied.txt)\"]\n[approvals]\nelsewhere = true\n";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Surface {
    HaftCall,
    Flags,
    Stdio,
    Http,
}

const SURFACES: [Surface; 4] = [Surface::HaftCall, Surface::Flags, Surface::Stdio, Surface::Http];

/// Writes a file on this surface and returns the result.
fn write(surface: Surface, fixture: &Fixture, path: &str, content: &str) -> String {
    let input = json!({"path": path, "content": content});
    let printed = |words: &[&str]| {
        let output = fixture.haft_without_terminal(words).output().expect("haft runs");
        let outcome: Value = serde_json::from_slice(&output.stdout).expect("an outcome");
        outcome["content"].as_str().expect("a text").to_owned()
    };
    let answered = |answer: Value| {
        let text = answer["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{answer}")).to_owned()
    };
    match surface {
        Surface::HaftCall => printed(&["call", "write", &input.to_string(), "--json", "--wait"]),
        Surface::Flags => printed(&["write", path, content, "--json", "--wait"]),
        Surface::Stdio => {
            let mut client = Client::introduced(fixture, json!({}));
            client.call(1, "write", input);
            answered(client.next())
        }
        Surface::Http => {
            let project = fixture.path("project").display().to_string();
            let words = ["mcp", "--workspace", &project, "--profile", "developer"];
            let mut command = fixture.haft(&words);
            command.args(["--http", "127.0.0.1:0"]);
            let mut http = Http::start(command);
            answered(http.request("tools/call", &json!({"name": "write", "arguments": input})))
        }
    }
}

/// Does the same with a decision from another process.
fn write_decided(surface: Surface, fixture: &Fixture, path: &str, words: &[&str]) -> String {
    thread::scope(|scope| {
        let call = scope.spawn(|| write(surface, fixture, path, &format!("x {}", token())));
        let began = Instant::now();
        let id = loop {
            let listed = fixture.run(&["approvals", "list", "--json"]).json();
            let pending =
                listed.as_array().and_then(|all| all.iter().find(|it| it["state"] == "pending"));
            if let Some(row) = pending {
                break row["request"]["id"].as_str().expect("an id").to_owned();
            }
            assert!(began.elapsed() < TIMEOUT, "{surface:?}: nothing waits");
        };
        let ran = fixture.run(&[&["approvals", words[0], &id], &words[1..]].concat());
        assert_eq!(ran.code, 0, "{surface:?}: {ran:?}");
        call.join().expect("it ends")
    })
}

fn sha256(text: &str) -> String {
    let mut sum = Command::new("sha256sum");
    let mut sum = sum.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    sum.stdin.take().expect("piped").write_all(text.as_bytes()).expect("it reads");
    let told = sum.wait_with_output().expect("it ends").stdout;
    String::from_utf8_lossy(&told).split(' ').next().unwrap_or_default().to_owned()
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("soon")
}

/// The fields of every entry.
#[track_caller]
fn check(entry: &LedgerEntry, surface: Surface, path: &str, returned: &str, since_ms: u64) {
    let LedgerEntry { tool, effect, input, accesses, session, agents, .. } = entry;
    assert_eq!((&**tool, *effect, entry.parent.as_deref()), ("write", Effect::Write, None));
    assert!(accesses.contains(&Access::Write(path.into())), "{surface:?}: {accesses:?}");
    assert_eq!(input["path"], path);
    let content = input["content"].as_str().expect("a text");
    assert!(content.contains("[redacted:github-token]"), "{surface:?}: {content}");
    assert_eq!(entry.output_sha256, sha256(returned), "{surface:?}: {returned}");
    let elapsed = now_ms() - since_ms;
    assert!(entry.began_ms >= since_ms && entry.ms <= elapsed, "{surface:?}: {entry:?}");
    let is_mcp = matches!(surface, Surface::Stdio | Surface::Http);
    assert_eq!((session.starts_with("mcp"), agents.is_empty()), (is_mcp, !is_mcp), "{surface:?}");
}

fn decided(entry: &LedgerEntry) -> (Action, String) {
    let decision = entry.decision.as_ref().expect("policy was asked");
    match &decision.reason {
        Reason::Rule(rule) => (decision.action, rule.to_string()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_surface_records_decision_rule_approver_accesses_and_output_and_no_secret() {
    for surface in SURFACES {
        let fixture = Fixture::new().user_config(CONFIG);
        let since = now_ms();
        let content = format!("key = {}\n", token());
        let note = format!("not with {}", token());
        let (yes, no) = (["approve"], ["deny", "--note", &*note]);
        let returned = [
            ("a.txt", write(surface, &fixture, "a.txt", &content)),
            ("denied.txt", write(surface, &fixture, "denied.txt", &content)),
            ("asked.txt", write_decided(surface, &fixture, "asked.txt", &yes)),
            ("asked2.txt", write_decided(surface, &fixture, "asked2.txt", &no)),
        ];
        assert_eq!(fs::read_to_string(fixture.path("project/a.txt")).expect("there"), content);
        let entries = recorded(&usual(&fixture));
        assert_eq!(entries.len(), 4, "{surface:?}: {entries:?}");
        for (entry, (path, returned)) in entries.iter().zip(&returned) {
            check(entry, surface, path, returned, since);
        }
        let [allowed, denied, approved, refused] = &entries[..] else { panic!("four") };
        for (entry, action, rule, error) in [
            (allowed, Action::Allow, "write(a*.txt)", None),
            (denied, Action::Deny, "write(denied.txt)", Some("denied")),
            (approved, Action::Ask, "write(asked*.txt)", None),
            (refused, Action::Ask, "write(asked*.txt)", Some("approval_denied")),
        ] {
            let (decided, by) = decided(entry);
            assert_eq!(decided, action, "{surface:?}");
            assert!(by.contains(rule) && by.contains("config.toml"), "{surface:?}: {by}");
            assert_eq!(entry.error.map(|kind| kind.name()), error, "{surface:?}");
        }
        assert_eq!((&allowed.verdict, &denied.verdict), (&None, &None));
        let verdict = approved.verdict.as_ref().expect("it was approved");
        assert_eq!((verdict.approved, &*verdict.by, &*verdict.via), (true, "ada", "approvals"));
        let verdict = refused.verdict.as_ref().expect("it was denied");
        assert_eq!((verdict.approved, &*verdict.by), (false, "ada"));
        assert_eq!(verdict.note.as_deref(), Some("not with [redacted:github-token]"));
        check_no_secret(&fixture);
    }
}

/// Not in a column, not in an event, and not in compressed or sealed data.
fn check_no_secret(fixture: &Fixture) {
    for end in ["", "-wal"] {
        let bytes = fs::read(format!("{}{end}", usual(fixture).display())).unwrap_or_default();
        let token = token();
        let is_there = bytes.windows(token.len()).any(|window| window == token.as_bytes());
        assert!(!is_there, "the secret is in haft.db{end}");
    }
}

/// A tool that writes two files through the gate.
struct WriteTwice(ToolSpec);

impl Tool for WriteTwice {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn access(&self, _input: &Value) -> Result<Vec<Access>, ToolError> {
        Ok(vec![Access::Any(Power::Tools)])
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, ToolError>> {
        Box::pin(async move {
            let tools = Tools::from_call(&call)?;
            let content = format!("key = {}", token());
            let mut kinds = Vec::new();
            for path in ["a.txt", "denied.txt", &token()] {
                let input = json!({"path": path, "content": content});
                let outcome = tools.call("write", input).await;
                kinds.push(outcome.error.map_or("ok", |error| error.kind.name()));
            }
            Ok(Reply::text(kinds.join(" ")))
        })
    }
}

#[test]
fn a_call_made_by_another_call_is_recorded_under_it_with_its_own_decision() {
    let fixture = Fixture::new();
    let registry = Registry::default();
    registry.register_all(haft::catalogue::all()).expect("every name once");
    let schema = Schema::from_value(json!({"type": "object", "additionalProperties": false}));
    let spec = ToolSpec::declared("a test", "twice", "Writes twice.", schema.expect("a schema"));
    registry.register(WriteTwice(spec.needs([Power::Tools]))).expect("a new name");
    let mut layer = Layer::new(LayerKind::User, "config.toml");
    layer.mode = Some(Mode::All);
    let rule = haft::policy::Rule::parse(
        Action::Deny,
        "write(denied.txt)",
        haft::policy::Source::named("config.toml"),
    );
    layer.rules = vec![rule.expect("a rule")];
    let place = StoreLocation::new(StoreAddress::Sqlite(usual(&fixture)));
    let ledger = Arc::new(StoreLedger::new(place, ReplyTiming::AfterCommit));
    let workspace = Arc::new(Workspace::open(&fixture.path("project")).expect("it opens"));
    let gate = Gate::builder(registry)
        .policy(Policy::new([layer]))
        .paths(workspace.clone())
        .service::<dyn Disk>(workspace)
        .ledger(ledger)
        .build();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let context = Context::new("s").agent("coder");
    let outcome = runtime.block_on(gate.call(CallRequest::new("twice", json!({}), context)));
    assert_eq!(outcome.content, "ok denied ok");
    let entries = recorded(&usual(&fixture));
    let [first, second, third, outer] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((&*outer.tool, &outer.parent), ("twice", &None));
    for (entry, action, error) in
        [(first, Action::Allow, None), (second, Action::Deny, Some("denied"))]
    {
        assert_eq!((&*entry.tool, entry.parent.as_ref()), ("write", Some(&outer.call_id)));
        assert_eq!(entry.decision.as_ref().map(|decision| decision.action), Some(action));
        assert_eq!(entry.error.map(|kind| kind.name()), error);
        assert_eq!((&entry.session, &entry.agents), (&outer.session, &outer.agents));
        assert_eq!(entry.input["content"], "key = [redacted:github-token]");
        assert!(!entry.output_sha256.is_empty());
    }
    assert!(decided(second).1.contains("write(denied.txt)"));
    assert!(third.accesses.contains(&Access::Write("[redacted:github-token]".into())), "{third:?}");
    check_no_secret(&fixture);
}
