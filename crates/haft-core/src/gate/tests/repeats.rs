//! When a client is pointed at what it was given already, and when it gets the whole again.

use super::*;

/// Returns the text of its `path`, many times.
fn looks(name: &str, effect: Effect) -> Probe {
    let probe = Probe::new(name, |call| async move {
        let word = call.raw_input()["path"].as_str().unwrap_or("none").to_owned();
        Ok(Reply::text(format!("{word} is what stands here\n").repeat(400)))
    });
    probe.with(move |spec| spec.effect = effect)
}

fn gate() -> Gate {
    let probes = [looks("look", Effect::Read), looks("change", Effect::Write)];
    builder(probes).omit_repeats().build()
}

fn asked(tool: &str, session: &str, word: &str) -> CallRequest {
    CallRequest::new(tool, json!({ "path": word }), Context::new(session).agent("mcp"))
}

async fn is_whole(gate: &Gate, request: CallRequest) -> bool {
    let content = gate.call(request).await.content;
    let is_pointer = content.starts_with("[unchanged: ");
    assert!(is_pointer || content.len() > 4_096, "{content}");
    !is_pointer
}

#[tokio::test]
async fn the_same_again_is_pointed_at_and_given_whole_when_asked_once_more() {
    let gate = gate();
    let whole = gate.call(asked("look", "s", "a")).await;
    let pointer = gate.call(asked("look", "s", "a")).await;
    assert!(pointer.content.starts_with("[unchanged: the same 400 lines ("), "{}", pointer.content);
    assert!(pointer.content.len() < 400 && pointer.error.is_none());
    let id = pointer.output_id.expect("kept");
    assert!(pointer.content.ends_with(&format!("output_read shows them as {id}]")));
    assert_eq!(&*gate.outputs().read(&id).await.expect("kept"), whole.content);
    assert_eq!(gate.call(asked("look", "s", "a")).await.content, whole.content);
    let again = gate.call(asked("look", "s", "a")).await;
    assert_eq!(again.output_id.as_ref(), Some(&id), "kept once");
}

#[tokio::test]
async fn other_sessions_people_changes_and_other_texts_get_the_whole() {
    let gate = gate();
    assert!(is_whole(&gate, asked("look", "s", "a")).await);
    assert!(is_whole(&gate, asked("look", "other", "a")).await);
    assert!(is_whole(&gate, asked("look", "s", "b")).await);
    for _ in 0..2 {
        assert!(is_whole(&gate, asked("change", "s", "c")).await);
        let person = CallRequest::new("look", json!({"path": "d"}), Context::new("cli"));
        assert!(is_whole(&gate, person).await);
    }
    let without = builder([looks("look", Effect::Read)]).build();
    for _ in 0..2 {
        assert!(is_whole(&without, asked("look", "s", "a")).await);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_long_ago_is_given_again() {
    let gate = gate();
    assert!(is_whole(&gate, asked("look", "s", "a")).await);
    tokio::time::advance(Duration::from_secs(601)).await;
    assert!(is_whole(&gate, asked("look", "s", "a")).await);
    tokio::time::advance(Duration::from_secs(599)).await;
    assert!(!is_whole(&gate, asked("look", "s", "a")).await);
}

#[tokio::test]
async fn after_much_else_it_is_given_again() {
    let gate = gate();
    assert!(is_whole(&gate, asked("look", "s", "a")).await);
    for number in 0..25 {
        assert!(is_whole(&gate, asked("look", "s", &format!("other {number}"))).await);
    }
    assert!(is_whole(&gate, asked("look", "s", "a")).await);
    assert!(!is_whole(&gate, asked("look", "s", "other 24")).await);
}
