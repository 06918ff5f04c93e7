//! The start of a conversation.

use serde_json::{Value, json};

use super::{
    by_hand::{RawClient, introduction},
    echo, gate,
};

fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

#[test]
fn messages_sent_in_one_write_are_answered_in_order() {
    let list = request(2, "tools/list", &json!({}));
    let call = request(3, "tools/call", &json!({"name": "echo"}));
    let sent = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    for messages in [[&sent, &list, &call].as_slice(), &[&list, &call], &[&call, &list], &[&call]] {
        let mut client = RawClient::silent(gate([echo()]));
        let lines: String = messages.iter().map(|message| format!("{message}\n")).collect();
        client.write(&format!("{}\n{lines}", introduction(1)));
        assert_eq!(client.next()["result"]["protocolVersion"], "2025-11-25");
        for asked in messages.iter().filter(|message| message["id"].is_u64()) {
            let answer = client.next();
            assert_eq!(answer["id"], asked["id"], "{answer}");
            assert!(answer["result"].is_object(), "{answer}");
        }
        client.check_alive();
        assert!(client.end().is_empty());
    }
}

#[test]
fn a_client_that_leaves_before_the_handshake_ends_the_conversation() {
    assert!(RawClient::silent(gate([echo()])).end().is_empty());
    RawClient::silent(gate([echo()])).disconnect();
}

#[test]
fn requests_before_the_handshake_are_answered_too() {
    let mut client = RawClient::silent(gate([echo()]));
    client.send(&request(1, "ping", &json!({})));
    assert_eq!(client.next(), json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    client.send(&request(2, "tools/list", &json!({})));
    assert!(client.next()["error"].is_object());
    client.write("nonsense\n");
    assert!(client.next()["error"].is_object());
    client.send(&introduction(3));
    assert_eq!(client.next()["id"], 3);
    client.check_alive();
    assert!(client.end().is_empty());
}
