//! Approvals, asked of the person behind the client. The question shows what the call would do and the change or command
//! itself; whatever is not a clear yes is a no.

use std::sync::Arc;

use haft_core::{
    ApprovalRequest, ApprovalState, CancellationToken, Gate, Preview, Remember, Scope, ToolError,
    Verdict,
};
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, InputRequest,
    InputRequests,
};
use serde_json::{Value, json};

use crate::{client::Link, quirks::Quirks};

/// The name of the question.
pub(crate) const KEY: &str = "approval";

/// A person reads this in a dialog; what is longer helps nobody decide.
const LONGEST_PREVIEW: usize = 4_000;

/// Asks a client of the earlier era and settles the request with what it says, unless somebody else is faster.
pub(crate) async fn decide(
    gate: &Gate,
    link: &Link,
    by: &str,
    request: &Arc<ApprovalRequest>,
    question: InputRequest,
    cancel: &CancellationToken,
) -> Result<(), ToolError> {
    let lapse = request.expires_ms.saturating_sub(request.created_ms);
    let lapse = tokio::time::sleep(std::time::Duration::from_millis(lapse));
    let (state, verdict) = tokio::select! {
        // In this order: a yes that comes with the news that the call was called off is too late.
        biased;
        () = cancel.cancelled() => (ApprovalState::Cancelled, None),
        _ = gate.approvals().settled(&request.id) => return Ok(()),
        () = lapse => (ApprovalState::Expired, None),
        answer = link.request(question) => match answer {
            Ok(answer) => decision(request, by, &answer),
            // It could not ask after all, which is nobody's no.
            Err(_) => (ApprovalState::Cancelled, None),
        },
    };
    settle(gate, request, state, verdict).await
}

/// Settles a request with what came back in a later round.
pub(crate) async fn decided(
    gate: &Gate,
    by: &str,
    id: &str,
    answer: &Value,
) -> Result<(), ToolError> {
    let Some(record) = gate.approvals().get(id).await? else { return Ok(()) };
    if record.state != ApprovalState::Pending {
        return Ok(());
    }
    let (state, verdict) = decision(&record.request, by, answer);
    settle(gate, &record.request, state, verdict).await
}

async fn settle(
    gate: &Gate,
    request: &ApprovalRequest,
    state: ApprovalState,
    verdict: Option<Verdict>,
) -> Result<(), ToolError> {
    match gate.approvals().settle(&request.id, state, verdict).await {
        // Somebody else was faster, and theirs is the decision.
        Err(error) if error.kind() == haft_core::ErrorKind::Conflict => Ok(()),
        other => other.map(|_| ()),
    }
}

/// What an answer comes to. A question that was put away unanswered is no decision: clients without a person in front of
/// them do that.
fn decision(
    request: &ApprovalRequest,
    by: &str,
    answer: &Value,
) -> (ApprovalState, Option<Verdict>) {
    if answer.get("action").and_then(Value::as_str) == Some("cancel") {
        return (ApprovalState::Cancelled, None);
    }
    let verdict = verdict(request, by, answer);
    let state = if verdict.approved { ApprovalState::Approved } else { ApprovalState::Denied };
    (state, Some(verdict))
}

pub(crate) fn questions(request: &ApprovalRequest, asked: Asked) -> InputRequests {
    InputRequests::from([(KEY.to_owned(), question(request, asked))])
}

/// Whom a question is for.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) client: Quirks,
    /// Whether a rule would last longer than this call.
    pub(crate) remembers: bool,
}

pub(crate) fn question(request: &ApprovalRequest, asked: Asked) -> InputRequest {
    let params = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: words(request),
        requested_schema: serde_json::from_value(form(request, asked))
            .expect("the form has the shape that the protocol allows"),
    };
    InputRequest::Elicitation(ElicitRequest::new(params))
}

fn words(request: &ApprovalRequest) -> String {
    let ApprovalRequest { confirmation, reason, preview, .. } = request;
    let what = match preview {
        Preview::Command(_) => "The command",
        Preview::Diff(_) => "The change",
        _ => "The arguments",
    };
    let text = preview.text();
    let end = text.floor_char_boundary(LONGEST_PREVIEW);
    let (shown, rest) = text.split_at(end);
    let cut =
        if rest.is_empty() { String::new() } else { format!("\n[{} more bytes]", rest.len()) };
    // What would be done stands first: some clients show two lines.
    format!("{}\n{what}:\n{shown}{cut}\n\n({reason})", confirmation.message)
}

fn form(request: &ApprovalRequest, asked: Asked) -> Value {
    let offered = if asked.remembers { 2 } else { 0 };
    let mut choices = vec![("once".to_owned(), "Yes, this once".to_owned())];
    for (number, rule) in request.suggestions.iter().take(offered).enumerate() {
        choices.push((
            format!("session-{number}"),
            format!("Yes, and `{rule}` until this session ends"),
        ));
    }
    choices.push(("no".to_owned(), "No".to_owned()));
    let (values, titles): (Vec<String>, Vec<String>) = choices.into_iter().unzip();
    let mut form = json!({
        "type": "object",
        "properties": {
            "decision": {
                "type": "string",
                "title": "May it run?",
                "enum": values,
                "enumNames": titles,
            },
        },
        "required": ["decision"],
    });
    if !asked.client.fills_every_field {
        form["properties"]["note"] = json!({
            "type": "string",
            "title": "Words for the model",
            "description": "With a no: what to do instead",
        });
    }
    form
}

fn verdict(request: &ApprovalRequest, by: &str, answer: &Value) -> Verdict {
    let Ok(answer) = serde_json::from_value::<ElicitResult>(answer.clone()) else {
        return Verdict::deny(by, "mcp", Some("the answer could not be read".to_owned()));
    };
    let content = answer.content.unwrap_or_default();
    let text =
        |name: &str| content.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let note = text("note").map(str::to_owned);
    let decision = match answer.action {
        ElicitationAction::Accept => text("decision").unwrap_or_default(),
        _ => "no",
    };
    if decision == "once" {
        return Verdict::approve(by, "mcp");
    }
    let number = decision.strip_prefix("session-").and_then(|number| number.parse::<usize>().ok());
    match number.and_then(|number| request.suggestions.get(number)) {
        Some(rule) => {
            let remember =
                Remember { rules: vec![rule.clone()], scope: Scope::Session, expires_ms: None };
            Verdict { remember: Some(remember), ..Verdict::approve(by, "mcp") }
        }
        None => Verdict::deny(by, "mcp", note),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> ApprovalRequest {
        serde_json::from_value(json!({
            "id": "ask_1",
            "call_id": "call_1",
            "session": "s",
            "agents": [],
            "profile": null,
            "tool": "delete",
            "title": "Delete",
            "input": {"path": "a"},
            "confirmation": {"required": true, "message": "Delete: write a", "type": "destructive"},
            "accesses": [],
            "preview": {"kind": "diff", "text": "-gone\n"},
            "reason": "mode `safe` asks",
            "suggestions": ["write(a)", "write(**)", "*"],
            "created_ms": 0,
            "expires_ms": 1,
        }))
        .expect("a request")
    }

    fn choices(client: &str, remembers: bool) -> (Vec<String>, bool) {
        let form = form(&request(), Asked { client: Quirks::of(client), remembers });
        let values = form["properties"]["decision"]["enum"].as_array().cloned().unwrap_or_default();
        let values = values.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        (values, form["properties"].get("note").is_some())
    }

    #[test]
    fn the_form_offers_what_this_client_can_use() {
        let all = ["once", "session-0", "session-1", "no"].map(str::to_owned).to_vec();
        assert_eq!(choices("some-client", true), (all.clone(), true));
        assert_eq!(
            choices("codex-mcp-client", true),
            (all, false),
            "an empty note blocks its form"
        );
        let once = ["once", "no"].map(str::to_owned).to_vec();
        assert_eq!(
            choices("some-client", false),
            (once, true),
            "nothing is promised that does not last"
        );
    }

    #[test]
    fn the_question_shows_the_change_before_the_reason() {
        let words = words(&request());
        assert_eq!(words, "Delete: write a\nThe change:\n-gone\n\n\n(mode `safe` asks)");
    }

    #[test]
    fn only_a_clear_yes_is_one() {
        let decide = |answer: Value| {
            let (state, verdict) = decision(&request(), "Ada", &answer);
            let rules = verdict.as_ref().and_then(|verdict| verdict.remember.clone());
            (state, rules.map(|remember| remember.rules), verdict.and_then(|verdict| verdict.note))
        };
        let accept = |content: Value| decide(json!({"action": "accept", "content": content}));
        let no = |note: Option<&str>| (ApprovalState::Denied, None, note.map(str::to_owned));
        assert_eq!(accept(json!({"decision": "once"})), (ApprovalState::Approved, None, None));
        let second = (ApprovalState::Approved, Some(vec!["write(**)".to_owned()]), None);
        assert_eq!(accept(json!({"decision": "session-1"})), second);
        assert_eq!(accept(json!({"decision": "no", "note": "keep it"})), no(Some("keep it")));
        for unclear in
            [json!({}), json!({"decision": "yes"}), json!({"decision": "session-9"}), json!(1)]
        {
            assert_eq!(accept(unclear), no(None));
        }
        assert_eq!(decide(json!({"action": "decline"})), no(None));
        assert_eq!(decide(json!({"action": "cancel"})), (ApprovalState::Cancelled, None, None));
        assert!(matches!(decide(json!("nonsense")), (ApprovalState::Denied, None, Some(_))));
    }
}
