//! How a conversation begins.

use serde_json::{Value, json};

use super::{
    by_hand::{Hand, introduction},
    echo, gate,
};

fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

#[test]
fn who_says_everything_in_one_breath_is_answered_in_turn() {
    let list = request(2, "tools/list", &json!({}));
    let call = request(3, "tools/call", &json!({"name": "echo"}));
    let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    for breath in [[&told, &list, &call].as_slice(), &[&list, &call], &[&call, &list], &[&call]] {
        let mut hand = Hand::silent(gate([echo()]));
        let lines: String = breath.iter().map(|message| format!("{message}\n")).collect();
        hand.write(&format!("{}\n{lines}", introduction(1)));
        assert_eq!(hand.next()["result"]["protocolVersion"], "2025-11-25");
        for asked in breath.iter().filter(|message| message["id"].is_u64()) {
            let answer = hand.next();
            assert_eq!(answer["id"], asked["id"], "{answer}");
            assert!(answer["result"].is_object(), "{answer}");
        }
        hand.check_alive();
        assert!(hand.end().is_empty());
    }
}

#[test]
fn who_goes_before_it_has_said_anything_ends_the_conversation() {
    assert!(Hand::silent(gate([echo()])).end().is_empty());
    Hand::silent(gate([echo()])).die();
}

#[test]
fn what_is_said_before_an_introduction_is_answered_too() {
    let mut hand = Hand::silent(gate([echo()]));
    hand.send(&request(1, "ping", &json!({})));
    assert_eq!(hand.next(), json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    hand.send(&request(2, "tools/list", &json!({})));
    assert!(hand.next()["error"].is_object());
    hand.write("nonsense\n");
    assert!(hand.next()["error"].is_object());
    hand.send(&introduction(3));
    assert_eq!(hand.next()["id"], 3);
    hand.check_alive();
    assert!(hand.end().is_empty());
}
