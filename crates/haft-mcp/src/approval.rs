//! Approvals, asked of the person behind the client. The question shows what the call would do and the change or command
//! itself; whatever is not a clear yes is a no.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use haft_core::{
    ApprovalDecision, ApprovalRequest, ApprovalState, CancellationToken, Gate, Preview, Remember,
    Scope, ToolError,
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
    asked: Asked,
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
        answer = link.request(question(request, asked)) => match answer {
            Ok(answer) => decision(request, asked.scopes, by, &answer),
            // It could not ask after all, which is nobody's no.
            Err(_) => (ApprovalState::Cancelled, None),
        },
    };
    settle(gate, request, state, verdict).await
}

/// Settles a request with what came back in a later round.
pub(crate) async fn decided(
    gate: &Gate,
    scopes: Scopes,
    by: &str,
    id: &str,
    answer: &Value,
) -> Result<(), ToolError> {
    let Some(record) = gate.approvals().get(id).await? else { return Ok(()) };
    if record.state != ApprovalState::Pending {
        return Ok(());
    }
    let (state, verdict) = decision(&record.request, scopes, by, answer);
    settle(gate, &record.request, state, verdict).await
}

async fn settle(
    gate: &Gate,
    request: &ApprovalRequest,
    state: ApprovalState,
    verdict: Option<ApprovalDecision>,
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
    scopes: Scopes,
    by: &str,
    answer: &Value,
) -> (ApprovalState, Option<ApprovalDecision>) {
    if answer.get("action").and_then(Value::as_str) == Some("cancel") {
        return (ApprovalState::Cancelled, None);
    }
    let verdict = verdict(request, scopes, by, answer);
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
    /// For how long a rule may be kept.
    pub(crate) scopes: Scopes,
}

/// For how long rules may be kept here.
#[derive(Clone, Copy)]
pub(crate) struct Scopes {
    /// What the store can keep.
    pub(crate) kept: &'static [Scope],
    /// Whether a session lasts longer than a call.
    pub(crate) has_session: bool,
}

impl Scopes {
    fn iter(self) -> impl Iterator<Item = Scope> {
        let lasts = move |scope: &Scope| self.has_session || *scope != Scope::Session;
        self.kept.iter().copied().filter(lasts)
    }
}

/// The rules that a form offers, from the narrow end: dialogs are small.
const MOST_OFFERED: usize = 2;
/// When a rule may lapse, in words and in milliseconds.
const LAPSES: [(&str, &str, u64); 3] = [
    ("1h", "After an hour", 3_600_000),
    ("1d", "After a day", 86_400_000),
    ("30d", "After 30 days", 30 * 86_400_000),
];

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
    let mut choices = vec![("once".to_owned(), "Yes, this once".to_owned())];
    for (number, offer) in request.suggestions.iter().take(MOST_OFFERED).enumerate() {
        let rules: Vec<String> = offer.rules.iter().map(|rule| format!("`{rule}`")).collect();
        let past = offer.past.map(|past| format!(" ({past})")).unwrap_or_default();
        for scope in asked.scopes.iter() {
            let how_long = how_long(scope);
            let title = format!("Yes, and {} {how_long}{past}", rules.join(" and "));
            choices.push((format!("{scope}-{number}"), title));
        }
    }
    let is_kept = choices.len() > 1;
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
        if is_kept {
            let (values, titles): (Vec<&str>, Vec<&str>) =
                LAPSES.iter().map(|(value, title, _)| (*value, *title)).unzip();
            form["properties"]["lapses"] = json!({
                "type": "string",
                "title": "When a rule that is kept lapses",
                "description": "Left empty: never",
                "enum": values,
                "enumNames": titles,
            });
        }
    }
    form
}

fn how_long(scope: Scope) -> &'static str {
    match scope {
        Scope::Session => "until this session ends",
        Scope::Project => "in this project from now on",
        Scope::User => "everywhere from now on",
    }
}

fn verdict(
    request: &ApprovalRequest,
    scopes: Scopes,
    by: &str,
    answer: &Value,
) -> ApprovalDecision {
    let Ok(answer) = serde_json::from_value::<ElicitResult>(answer.clone()) else {
        return ApprovalDecision::deny(by, "mcp", Some("the answer could not be read".to_owned()));
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
        return ApprovalDecision::approve(by, "mcp");
    }
    let remember = remembered(request, scopes, decision, text("lapses"));
    match remember {
        Some(remember) => {
            ApprovalDecision { remember: Some(remember), ..ApprovalDecision::approve(by, "mcp") }
        }
        None => ApprovalDecision::deny(by, "mcp", note),
    }
}

/// What is to be kept, when the answer is one that was offered.
fn remembered(
    request: &ApprovalRequest,
    scopes: Scopes,
    decision: &str,
    lapses: Option<&str>,
) -> Option<Remember> {
    let (scope, number) = decision.rsplit_once('-')?;
    let scope = scopes.iter().find(|known| known.name() == scope)?;
    let place = number.parse::<usize>().ok().filter(|place| *place < MOST_OFFERED)?;
    let rules = request.suggestions.get(place)?.rules.clone();
    let expires_ms = match lapses {
        None => None,
        // Another word than those that were offered is no clear yes.
        Some(word) => {
            let (_, _, span) = LAPSES.iter().find(|(value, _, _)| *value == word)?;
            Some(now_ms().saturating_add(*span))
        }
    };
    Some(Remember { rules, scope, expires_ms })
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
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

    const ALL: Scopes =
        Scopes { kept: &[Scope::Session, Scope::Project, Scope::User], has_session: true };
    const SESSION: Scopes = Scopes { kept: &[Scope::Session], has_session: true };
    const NOTHING: Scopes = Scopes { kept: &[Scope::Session], has_session: false };

    /// The values of the choice, and the other fields.
    fn fields(client: &str, scopes: Scopes) -> (Vec<String>, Vec<String>) {
        let form = form(&request(), Asked { client: Quirks::of(client), scopes });
        let values = form["properties"]["decision"]["enum"].as_array().cloned().unwrap_or_default();
        let values = values.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let fields = form["properties"].as_object().cloned().unwrap_or_default();
        (values, fields.into_iter().map(|(name, _)| name).skip(1).collect())
    }

    #[track_caller]
    fn check_form(client: &str, scopes: Scopes, choices: &[&str], others: &[&str]) {
        let (values, fields) = fields(client, scopes);
        assert_eq!(
            (values, fields),
            (
                choices.iter().map(ToString::to_string).collect(),
                others.iter().map(ToString::to_string).collect()
            )
        );
    }

    #[test]
    fn the_form_offers_what_this_client_can_use_and_this_store_can_keep() {
        let session = ["once", "session-0", "session-1", "no"];
        check_form("some-client", SESSION, &session, &["note", "lapses"]);
        // An empty field blocks its form.
        check_form("codex-mcp-client", SESSION, &session, &[]);
        // Nothing is promised that does not last.
        check_form("some-client", NOTHING, &["once", "no"], &["note"]);
        let all =
            ["once", "session-0", "project-0", "user-0", "session-1", "project-1", "user-1", "no"];
        check_form("some-client", ALL, &all, &["note", "lapses"]);
    }

    #[test]
    fn a_choice_says_what_is_kept_for_how_long_and_what_it_would_have_spared() {
        let mut request = request();
        request.suggestions[0].past = Some(haft_core::PromptsAvoided { spared: 2, asked: 9 });
        request.suggestions[1].rules.push("bash(make)".to_owned());
        let form = form(&request, Asked { client: Quirks::of("x"), scopes: ALL });
        let titles = form["properties"]["decision"]["enumNames"].clone();
        assert_eq!(
            titles[1],
            "Yes, and `write(a)` until this session ends (would have avoided 2 of the last 9 prompts)"
        );
        assert_eq!(titles[6], "Yes, and `write(**)` and `bash(make)` everywhere from now on");
    }

    #[test]
    fn the_question_shows_the_change_before_the_reason() {
        let words = words(&request());
        assert_eq!(words, "Delete: write a\nThe change:\n-gone\n\n\n(mode `safe` asks)");
    }

    #[test]
    fn only_a_clear_yes_is_one() {
        let decide = |answer: Value| {
            let (state, verdict) = decision(&request(), SESSION, "Ada", &answer);
            let rules = verdict.as_ref().and_then(|verdict| verdict.remember.clone());
            (state, rules.map(|remember| remember.rules), verdict.and_then(|verdict| verdict.note))
        };
        let accept = |content: Value| decide(json!({"action": "accept", "content": content}));
        let no = |note: Option<&str>| (ApprovalState::Denied, None, note.map(str::to_owned));
        assert_eq!(accept(json!({"decision": "once"})), (ApprovalState::Approved, None, None));
        let second = (ApprovalState::Approved, Some(vec!["write(**)".to_owned()]), None);
        assert_eq!(accept(json!({"decision": "session-1"})), second);
        assert_eq!(accept(json!({"decision": "no", "note": "keep it"})), no(Some("keep it")));
        for unclear in [
            json!({}),
            json!({"decision": "yes"}),
            json!({"decision": "session-9"}),
            // It is there, but was not offered.
            json!({"decision": "session-2"}),
            json!({"decision": "user-0"}),
            json!({"decision": "session-0", "lapses": "soon"}),
            json!(1),
        ] {
            assert_eq!(accept(unclear), no(None));
        }
        assert_eq!(decide(json!({"action": "decline"})), no(None));
        assert_eq!(decide(json!({"action": "cancel"})), (ApprovalState::Cancelled, None, None));
        assert!(matches!(decide(json!("nonsense")), (ApprovalState::Denied, None, Some(_))));
    }

    #[test]
    fn scope_and_lapse_are_kept_as_they_were_chosen() {
        let kept = |scopes: Scopes, content: Value| {
            let answer = json!({"action": "accept", "content": content});
            let (_, verdict) = decision(&request(), scopes, "Ada", &answer);
            let remember = verdict.and_then(|verdict| verdict.remember)?;
            let span =
                remember.expires_ms.map(|at| at.saturating_sub(now_ms()).div_ceil(3_600_000));
            Some((remember.scope, span))
        };
        assert_eq!(kept(ALL, json!({"decision": "project-0"})), Some((Scope::Project, None)));
        assert_eq!(
            kept(ALL, json!({"decision": "user-1", "lapses": "1d"})),
            Some((Scope::User, Some(24)))
        );
        assert_eq!(
            kept(ALL, json!({"decision": "user-1", "lapses": ""})),
            Some((Scope::User, None))
        );
        assert_eq!(kept(NOTHING, json!({"decision": "session-0"})), None);
    }
}
