//! MCP and `haft tools --format mcp` list the same tools.

use serde_json::{Value, json};

use super::{corpus, surfaces};
use crate::mcp_stdio::Client;

#[test]
fn both_transports_list_what_the_format_prints() {
    let fixture = corpus::fixture();
    let printed = fixture.run(&["tools", "--format", "mcp", "--profile", "developer"]);
    let printed = printed.json();
    let printed = printed.as_array().expect("a list");
    assert_eq!(printed.len(), haft::catalogue::all().count());
    let mut client = Client::introduced(&fixture, json!({}));
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
    let over_stdio = client.next();
    let over_http = surfaces::listed_over_http(&fixture);
    for answer in [over_stdio, over_http] {
        let listed = answer["result"]["tools"].as_array().expect("a list").clone();
        assert_eq!(listed.len(), printed.len());
        for (listed, printed) in listed.iter().zip(printed) {
            check(listed, printed);
        }
    }
}

#[track_caller]
fn check(listed: &Value, printed: &Value) {
    for part in ["name", "title", "description", "inputSchema", "annotations"] {
        assert_eq!(listed[part], printed[part], "{part} of {}", printed["name"]);
    }
    let spec = haft::catalogue::all().find(|tool| printed["name"] == haft::Tool::name(*tool));
    let output = haft::Tool::spec(spec.expect("a tool of ours")).output.clone();
    let beside = output.as_ref().map(|schema| schema.structured_schema());
    assert_eq!(listed.get("outputSchema"), beside.as_ref(), "{}", printed["name"]);
}
