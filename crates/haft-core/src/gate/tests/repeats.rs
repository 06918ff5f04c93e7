//! Tests of when a client gets a pointer to an earlier result, and when it gets the full result
//! again.

use super::*;

/// Returns the text of its `path`, many times.
fn read_only_probe(name: &str, effect: Effect) -> Probe {
    let probe = Probe::new(name, |call| async move {
        let word = call.raw_input()["path"].as_str().unwrap_or("none").to_owned();
        Ok(Reply::text(format!("{word} is what stands here\n").repeat(400)))
    });
    probe.with(move |spec| spec.effect = effect)
}

fn gate() -> Gate {
    let probes = [read_only_probe("look", Effect::Read), read_only_probe("change", Effect::Write)];
    builder(probes).omit_repeats().build()
}

fn asked(tool: &str, session: &str, word: &str) -> CallRequest {
    CallRequest::new(tool, json!({ "path": word }), Context::new(session).agent("mcp"))
}

async fn is_full(gate: &Gate, request: CallRequest) -> bool {
    let content = gate.call(request).await.content;
    let is_pointer = content.starts_with("[unchanged: ");
    assert!(is_pointer || content.len() > 4_096, "{content}");
    !is_pointer
}

#[tokio::test]
async fn a_repeated_result_is_a_pointer_and_the_next_repetition_is_full() {
    let gate = gate();
    let whole = gate.call(asked("look", "s", "a")).await;
    let pointer = gate.call(asked("look", "s", "a")).await;
    assert!(pointer.content.starts_with("[unchanged: the same 400 lines ("), "{}", pointer.content);
    assert!(pointer.content.len() < 400 && pointer.error.is_none());
    let id = pointer.output_id.expect("kept");
    assert!(pointer.content.ends_with(&format!("or read output {id} with output_read]")));
    assert_eq!(&*gate.outputs().read(&id).await.expect("kept"), whole.content);
    assert_eq!(gate.call(asked("look", "s", "a")).await.content, whole.content);
    let again = gate.call(asked("look", "s", "a")).await;
    assert_eq!(again.output_id.as_ref(), Some(&id), "kept once");
}

#[tokio::test]
async fn other_sessions_people_changes_and_other_texts_get_the_full_result() {
    let gate = gate();
    assert!(is_full(&gate, asked("look", "s", "a")).await);
    assert!(is_full(&gate, asked("look", "other", "a")).await);
    assert!(is_full(&gate, asked("look", "s", "b")).await);
    for _ in 0..2 {
        assert!(is_full(&gate, asked("change", "s", "c")).await);
        let person = CallRequest::new("look", json!({"path": "d"}), Context::new("cli"));
        assert!(is_full(&gate, person).await);
    }
    let without = builder([read_only_probe("look", Effect::Read)]).build();
    for _ in 0..2 {
        assert!(is_full(&without, asked("look", "s", "a")).await);
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_long_time_the_full_result_is_returned() {
    let gate = gate();
    assert!(is_full(&gate, asked("look", "s", "a")).await);
    tokio::time::advance(Duration::from_secs(601)).await;
    assert!(is_full(&gate, asked("look", "s", "a")).await);
    tokio::time::advance(Duration::from_secs(599)).await;
    assert!(!is_full(&gate, asked("look", "s", "a")).await);
}

#[tokio::test]
async fn after_much_traffic_the_full_result_is_returned() {
    let gate = gate();
    assert!(is_full(&gate, asked("look", "s", "a")).await);
    for number in 0..25 {
        assert!(is_full(&gate, asked("look", "s", &format!("other {number}"))).await);
    }
    assert!(is_full(&gate, asked("look", "s", "a")).await);
    assert!(!is_full(&gate, asked("look", "s", "other 24")).await);
}
