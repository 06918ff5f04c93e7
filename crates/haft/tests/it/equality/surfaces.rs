//! The ways to make a call, each in a workspace of its own and under the same rules: agent `mcp`, profile `developer`.

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
    corpus::{self, Call},
    heard::Heard,
    typing,
};
use crate::{house::House, mcp_stdio::Client};

/// The workspace of a call. Only those who look back need something to look back at.
fn house(call: &Call) -> (House, Value) {
    let (house, input) = corpus::house_of(call);
    if ["undo", "redo", "changes"].contains(&call.tool) {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let gate = gate(&house, call);
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
    (house, input)
}

/// A program that embeds haft, with the gate that the binary would build.
pub(super) fn library(call: &Call) -> Heard {
    let (house, input) = house(call);
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut context = Context::new("library");
    context.agents = vec!["mcp".to_owned()];
    context.profile = Some("developer".to_owned());
    let request = CallRequest::new(call.tool, input, context);
    let outcome = runtime.block_on(gate(&house, call).call(request));
    Heard::of_outcome(&serde_json::to_value(outcome).expect("JSON"), &house)
}

fn variables() -> Variables {
    vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())]
}

fn gate(house: &House, call: &Call) -> Gate {
    let registry = Registry::default();
    registry.register_all(haft::catalogue::all()).expect("every name once");
    let folder = house.path("project");
    let workspace = Arc::new(Workspace::open(&folder).expect("it opens"));
    let workspace_info =
        WorkspaceInfo { workspace: folder.clone(), directory: folder, ..WorkspaceInfo::default() };
    let (place, project) = (corpus::place(house), house.path("project"));
    let own_file = house.path("home/.config/haft/config.toml").display().to_string();
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
        .service::<dyn Executor>(Arc::new(Programs::local(workspace, variables, &house.path(""))))
        .service::<dyn network::NetworkClient>(Arc::new(client()))
        // As the server has it.
        .no_approver_hint("or set `elsewhere = true` under `[approvals]` in your config.toml, and it waits for `haft approvals`")
        .service::<dyn Journal>(Arc::new(journal(house)))
        .outputs(Arc::new(corpus::outputs(house)))
        .service::<dyn Sessions>(Arc::new(StoreSessions::new(place.clone(), &project)))
        .service::<dyn Todos>(Arc::new(StoreTodos::new(place, &project)))
        .build()
}

/// Where the other surfaces have theirs.
fn journal(house: &House) -> StoreJournal {
    let place = StoreLocation::new(StoreAddress::Sqlite(house.path("project/.haft/haft.db")));
    StoreJournal::new(place, JournalRetention::DEFAULT)
}

/// As the house's config has it.
fn client() -> Network {
    let mut settings = NetworkSettings::default();
    settings.allow = vec![corpus::site().address.to_string().parse().expect("an entry")];
    settings.search.kind = EngineKind::SearXng;
    settings.search.url = Some(corpus::site().url("/searx"));
    Network::new(settings)
}

/// `haft call NAME JSON`
pub(super) fn haft_call(call: &Call) -> Heard {
    printed(call, |input| vec!["call".to_owned(), call.tool.to_owned(), input.to_string()])
}

/// `haft NAME …`
pub(super) fn flags(call: &Call) -> Heard {
    printed(call, |input| typing::words(call.tool, input))
}

/// Where nobody can be asked: a terminal that the tests were started from would be.
fn printed(call: &Call, words: impl Fn(&Value) -> Vec<String>) -> Heard {
    let (house, input) = house(call);
    let mut command = house.haft_without_terminal(&["--json"]);
    command.args(["--agent", "mcp", "--profile", "developer"]).args(mode(call)).args(words(&input));
    let output = command.output().expect("haft runs");
    let outcome: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {command:?}: {output:?}"));
    Heard::of_outcome(&outcome, &house)
}

fn mode(call: &Call) -> [String; 2] {
    ["--approve".to_owned(), call.mode.to_string()]
}

/// `haft mcp`
pub(super) fn mcp_stdio(call: &Call) -> Heard {
    let (house, input) = house(call);
    let [approve, mode] = mode(call);
    let mut client = Client::start(&house, &["--structured", "always", &approve, &mode]);
    client.listen();
    client.introduce(json!({}));
    client.call(1, call.tool, input);
    let answer = client.next();
    assert_eq!(answer["id"], 1, "{answer}");
    Heard::of_answer(&answer, &house)
}

/// `haft mcp --http`
pub(super) fn mcp_http(call: &Call) -> Heard {
    let (house, input) = house(call);
    let mut command = mcp(&house);
    command.args(mode(call)).args(["--http", "127.0.0.1:0"]);
    let mut http = Http::start(command);
    let params = json!({"name": call.tool, "arguments": input});
    Heard::of_answer(&http.request("tools/call", &params), &house)
}

/// What `tools/list` answers over HTTP.
pub(super) fn listed_over_http(house: &House) -> Value {
    let mut command = mcp(house);
    command.args(["--http", "127.0.0.1:0"]);
    Http::start(command).request("tools/list", &json!({}))
}

/// `haft mcp` as every client here has it.
fn mcp(house: &House) -> Command {
    let project = house.path("project").display().to_string();
    house.haft(&[
        "mcp",
        "--workspace",
        &project,
        "--profile",
        "developer",
        "--structured",
        "always",
    ])
}
