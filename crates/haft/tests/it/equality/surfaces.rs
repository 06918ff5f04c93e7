//! The surfaces to make a call with, each in its own workspace and under the same rules: agent
//! `mcp`, profile `developer`.

pub(crate) mod http;

use std::{process::Command, sync::Arc};

use haft::{
    CallRequest, Context, Gate, Journal, Network, NetworkSettings, Policy, Programs, Registry,
    Sessions, Todos, Variables, Workspace, WorkspaceInfo,
    commands::Executor,
    files::Disk,
    network::{self, EngineKind},
    policy::{Layer, LayerKind},
    store::{
        JournalRetention, StoreAddress, StoreJournal, StoreLocation, StoreSessions, StoreTodos,
    },
};
use serde_json::{Value, json};
use tokio::runtime::Builder;

use self::http::Http;
use super::{
    corpus::{self, CorpusCall},
    surface_result::SurfaceResult,
    typing,
};
use crate::{fixture::Fixture, mcp_stdio::Client};

/// Returns the workspace of a call. Only calls that read the history get one.
fn fixture(call: &CorpusCall) -> (Fixture, Value) {
    let (fixture, input) = corpus::fixture_of(call);
    if ["undo", "redo", "changes"].contains(&call.tool) {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let gate = gate(&fixture, call);
        for (tool, id, input) in [
            ("write", "first", json!({"path": "earlier/one.txt", "content": "one\n"})),
            ("write", "second", json!({"path": "earlier/two.txt", "content": "two\n"})),
            ("undo", "third", json!({})),
        ] {
            let mut context = Context::new("earlier");
            context.call_id = Some(id.to_owned());
            let outcome = runtime.block_on(gate.call(CallRequest::new(tool, input, context)));
            assert!(outcome.is_ok(), "{}", outcome.content);
        }
    }
    (fixture, input)
}

/// An embedding program, with the gate that the binary would build.
pub(super) fn library(call: &CorpusCall) -> SurfaceResult {
    let (fixture, input) = fixture(call);
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut context = Context::new("library");
    context.agents = vec!["mcp".to_owned()];
    context.profile = Some("developer".to_owned());
    let request = CallRequest::new(call.tool, input, context);
    let outcome = runtime.block_on(gate(&fixture, call).call(request));
    SurfaceResult::of_outcome(&serde_json::to_value(outcome).expect("JSON"), &fixture)
}

fn variables() -> Variables {
    vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())]
}

fn gate(fixture: &Fixture, call: &CorpusCall) -> Gate {
    let registry = Registry::default();
    registry.register_all(haft::catalogue::all()).expect("every name once");
    let folder = fixture.path("project");
    let workspace = Arc::new(Workspace::open(&folder).expect("it opens"));
    let workspace_info =
        WorkspaceInfo { workspace: folder.clone(), directory: folder, ..WorkspaceInfo::default() };
    let (place, project) = (corpus::place(fixture), fixture.path("project"));
    let own_file = fixture.path("home/.config/haft/config.toml").display().to_string();
    let mut session = Layer::new(LayerKind::Session, "the command line");
    session.mode = Some(call.mode);
    let mut policy = Policy::new([Layer::new(LayerKind::User, &own_file), session]);
    policy.sandbox = haft::policy::SandboxCheck::switched_off();
    Gate::builder(registry)
        .policy(policy)
        .workspace_info(workspace_info)
        .command_reader(Arc::new(|text| haft_shell::accesses(text, None)))
        .paths(workspace.clone())
        .service::<dyn Disk>(workspace.clone())
        .service::<dyn Executor>(Arc::new(Programs::local(workspace, variables, &fixture.path(""))))
        .service::<dyn network::NetworkClient>(Arc::new(client()))
        // As in the server.
        .no_approver_hint("or set `elsewhere = true` under `[approvals]` in your config.toml to let calls wait for `haft approvals`")
        .service::<dyn Journal>(Arc::new(journal(fixture)))
        .outputs(Arc::new(corpus::outputs(fixture)))
        .service::<dyn Sessions>(Arc::new(StoreSessions::new(place.clone(), &project)))
        .service::<dyn Todos>(Arc::new(StoreTodos::new(place, &project)))
        .build()
}

/// At the same path as on the other surfaces.
fn journal(fixture: &Fixture) -> StoreJournal {
    let place = StoreLocation::new(StoreAddress::Sqlite(fixture.path("project/.haft/haft.db")));
    StoreJournal::new(place, JournalRetention::DEFAULT)
}

/// As in the fixture's config.
fn client() -> Network {
    let mut settings = NetworkSettings::default();
    settings.allow = vec![corpus::site().address.to_string().parse().expect("an entry")];
    settings.search.kind = EngineKind::SearXng;
    settings.search.url = Some(corpus::site().url("/searx"));
    Network::new(settings)
}

/// `haft call NAME JSON`
pub(super) fn haft_call(call: &CorpusCall) -> SurfaceResult {
    printed(call, |input| vec!["call".to_owned(), call.tool.to_owned(), input.to_string()])
}

/// `haft NAME …`
pub(super) fn flags(call: &CorpusCall) -> SurfaceResult {
    printed(call, |input| typing::words(call.tool, input))
}

/// Run without a terminal, or haft would ask at the terminal that the tests were started from.
fn printed(call: &CorpusCall, words: impl Fn(&Value) -> Vec<String>) -> SurfaceResult {
    let (fixture, input) = fixture(call);
    let mut command = fixture.haft_without_terminal(&["--json"]);
    command.args(["--agent", "mcp", "--profile", "developer"]).args(mode(call)).args(words(&input));
    let output = command.output().expect("haft runs");
    let outcome: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {command:?}: {output:?}"));
    SurfaceResult::of_outcome(&outcome, &fixture)
}

fn mode(call: &CorpusCall) -> [String; 2] {
    ["--approve".to_owned(), call.mode.to_string()]
}

/// `haft mcp`
pub(super) fn mcp_stdio(call: &CorpusCall) -> SurfaceResult {
    let (fixture, input) = fixture(call);
    let [approve, mode] = mode(call);
    let mut client = Client::start(&fixture, &["--structured", "always", &approve, &mode]);
    client.listen();
    client.introduce(json!({}));
    client.call(1, call.tool, input);
    let answer = client.next();
    assert_eq!(answer["id"], 1, "{answer}");
    SurfaceResult::of_answer(&answer, &fixture)
}

/// `haft mcp --http`
pub(super) fn mcp_http(call: &CorpusCall) -> SurfaceResult {
    let (fixture, input) = fixture(call);
    let mut command = mcp(&fixture);
    command.args(mode(call)).args(["--http", "127.0.0.1:0"]);
    let mut http = Http::start(command);
    let params = json!({"name": call.tool, "arguments": input});
    SurfaceResult::of_answer(&http.request("tools/call", &params), &fixture)
}

/// Returns the answer to `tools/list` over HTTP.
pub(super) fn listed_over_http(fixture: &Fixture) -> Value {
    let mut command = mcp(fixture);
    command.args(["--http", "127.0.0.1:0"]);
    Http::start(command).request("tools/list", &json!({}))
}

/// Returns `haft mcp` with the options of all clients here.
fn mcp(fixture: &Fixture) -> Command {
    let project = fixture.path("project").display().to_string();
    fixture.haft(&[
        "mcp",
        "--workspace",
        &project,
        "--profile",
        "developer",
        "--structured",
        "always",
    ])
}
