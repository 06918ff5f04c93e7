//! Approval requests, shown to the user of the client. The form shows what the call would do, and
//! the change or command itself. Anything but a clear approval denies the call.

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

/// The key of the elicitation.
pub(crate) const APPROVAL_KEY: &str = "approval";

/// Maximum size of the preview in a dialog. A longer one does not help to decide.
const MAX_PREVIEW_BYTES: usize = 4_000;

/// Asks a client of the earlier era and settles the request with its answer, unless another process
/// decides first.
pub(crate) async fn decide(
    gate: &Gate,
    link: &Link,
    by: &str,
    request: &Arc<ApprovalRequest>,
    options: FormOptions,
    cancel: &CancellationToken,
) -> Result<(), ToolError> {
    let expiry = request.expires_ms.saturating_sub(request.created_ms);
    let expiry = tokio::time::sleep(std::time::Duration::from_millis(expiry));
    let (state, verdict) = tokio::select! {
        // In this order: an approval that arrives together with a cancellation is too late.
        biased;
        () = cancel.cancelled() => (ApprovalState::Cancelled, None),
        _ = gate.approvals().settled(&request.id) => return Ok(()),
        () = expiry => (ApprovalState::Expired, None),
        answer = link.request(elicitation(request, options)) => match answer {
            Ok(answer) => decision(request, options.scopes, by, &answer),
            // The client could not ask, which does not deny the call.
            Err(_) => (ApprovalState::Cancelled, None),
        },
    };
    settle(gate, request, state, verdict).await
}

/// Settles a request with an answer that came in a later round.
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
        // Another process was faster, and its decision counts.
        Err(error) if error.kind() == haft_core::ErrorKind::Conflict => Ok(()),
        other => other.map(|_| ()),
    }
}

/// Evaluates an answer. A form that was dismissed without an answer is not a decision: clients
/// without a user do that.
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

pub(crate) fn elicitation_requests(
    request: &ApprovalRequest,
    options: FormOptions,
) -> InputRequests {
    InputRequests::from([(APPROVAL_KEY.to_owned(), elicitation(request, options))])
}

/// Options of an approval form.
#[derive(Clone, Copy)]
pub(crate) struct FormOptions {
    pub(crate) client: Quirks,
    /// Lifetimes that a saved rule may have.
    pub(crate) scopes: Scopes,
}

/// Lifetimes that saved rules may have.
#[derive(Clone, Copy)]
pub(crate) struct Scopes {
    /// Scopes that the store supports.
    pub(crate) kept: &'static [Scope],
    /// True if a session lasts longer than a call.
    pub(crate) has_session: bool,
}

impl Scopes {
    fn iter(self) -> impl Iterator<Item = Scope> {
        let lasts = move |scope: &Scope| self.has_session || *scope != Scope::Session;
        self.kept.iter().copied().filter(lasts)
    }
}

/// Maximum number of rules that a form offers, the narrowest first: dialogs are small.
const MAX_OFFERED: usize = 2;
/// Choices for the expiry of a rule: value, title and milliseconds.
const EXPIRIES: [(&str, &str, u64); 3] = [
    ("1h", "After an hour", 3_600_000),
    ("1d", "After a day", 86_400_000),
    ("30d", "After 30 days", 30 * 86_400_000),
];

pub(crate) fn elicitation(request: &ApprovalRequest, options: FormOptions) -> InputRequest {
    let params = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message(request),
        requested_schema: serde_json::from_value(form(request, options))
            .expect("the form has the shape that the protocol allows"),
    };
    InputRequest::Elicitation(ElicitRequest::new(params))
}

fn message(request: &ApprovalRequest) -> String {
    let ApprovalRequest { confirmation, reason, preview, .. } = request;
    let what = match preview {
        Preview::Command(_) => "The command",
        Preview::Diff(_) => "The change",
        _ => "The arguments",
    };
    let text = preview.text();
    let end = text.floor_char_boundary(MAX_PREVIEW_BYTES);
    let (shown, rest) = text.split_at(end);
    let omitted =
        if rest.is_empty() { String::new() } else { format!("\n[{} more bytes]", rest.len()) };
    // The action comes first: some clients show two lines.
    format!("{}\n{what}:\n{shown}{omitted}\n\n({reason})", confirmation.message)
}

fn form(request: &ApprovalRequest, options: FormOptions) -> Value {
    let mut choices = vec![("once".to_owned(), "Yes, this once".to_owned())];
    for (number, offer) in request.suggestions.iter().take(MAX_OFFERED).enumerate() {
        let rules: Vec<String> = offer.rules.iter().map(|rule| format!("`{rule}`")).collect();
        let past = offer.past.map(|past| format!(" ({past})")).unwrap_or_default();
        for scope in options.scopes.iter() {
            let lifetime = lifetime(scope);
            let title = format!("Yes, and {} {lifetime}{past}", rules.join(" and "));
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
    if !options.client.fills_every_field {
        form["properties"]["note"] = json!({
            "type": "string",
            "title": "Note for the model",
            "description": "If you say no: what to do instead",
        });
        if is_kept {
            let (values, titles): (Vec<&str>, Vec<&str>) =
                EXPIRIES.iter().map(|(value, title, _)| (*value, *title)).unzip();
            form["properties"]["lapses"] = json!({
                "type": "string",
                "title": "When the saved rule expires",
                "description": "Empty: never",
                "enum": values,
                "enumNames": titles,
            });
        }
    }
    form
}

fn lifetime(scope: Scope) -> &'static str {
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
    let remember = rule_to_save(request, scopes, decision, text("lapses"));
    match remember {
        Some(remember) => {
            ApprovalDecision { remember: Some(remember), ..ApprovalDecision::approve(by, "mcp") }
        }
        None => ApprovalDecision::deny(by, "mcp", note),
    }
}

/// Returns the rule to save if the answer is one that was offered.
fn rule_to_save(
    request: &ApprovalRequest,
    scopes: Scopes,
    decision: &str,
    lapses: Option<&str>,
) -> Option<Remember> {
    let (scope, number) = decision.rsplit_once('-')?;
    let scope = scopes.iter().find(|known| known.name() == scope)?;
    let index = number.parse::<usize>().ok().filter(|index| *index < MAX_OFFERED)?;
    let rules = request.suggestions.get(index)?.rules.clone();
    let expires_ms = match lapses {
        None => None,
        // A value that was not offered is not a clear approval.
        Some(word) => {
            let (_, _, span) = EXPIRIES.iter().find(|(value, _, _)| *value == word)?;
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

    /// Returns the values of the choice, and the other fields.
    fn fields(client: &str, scopes: Scopes) -> (Vec<String>, Vec<String>) {
        let form = form(&request(), FormOptions { client: Quirks::of(client), scopes });
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
        // An empty field would block the form of this client.
        check_form("codex-mcp-client", SESSION, &session, &[]);
        // Does not offer a session scope that would not last.
        check_form("some-client", NOTHING, &["once", "no"], &["note"]);
        let all =
            ["once", "session-0", "project-0", "user-0", "session-1", "project-1", "user-1", "no"];
        check_form("some-client", ALL, &all, &["note", "lapses"]);
    }

    #[test]
    fn a_choice_shows_the_rule_its_lifetime_and_the_prompts_it_would_have_avoided() {
        let mut request = request();
        request.suggestions[0].past = Some(haft_core::PromptsAvoided { spared: 2, asked: 9 });
        request.suggestions[1].rules.push("bash(make)".to_owned());
        let form = form(&request, FormOptions { client: Quirks::of("x"), scopes: ALL });
        let titles = form["properties"]["decision"]["enumNames"].clone();
        assert_eq!(
            titles[1],
            "Yes, and `write(a)` until this session ends (would have avoided 2 of the last 9 prompts)"
        );
        assert_eq!(titles[6], "Yes, and `write(**)` and `bash(make)` everywhere from now on");
    }

    #[test]
    fn the_question_shows_the_change_before_the_reason() {
        let message = message(&request());
        assert_eq!(message, "Delete: write a\nThe change:\n-gone\n\n\n(mode `safe` asks)");
    }

    #[test]
    fn only_a_clear_approval_counts() {
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
            // This rule exists, but was not offered.
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
    fn scope_and_expiry_are_saved_as_chosen() {
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
