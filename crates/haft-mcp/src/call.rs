//! Runs a tool call of a client through the gate, and returns the result in the protocol's form.

use std::sync::Arc;

use haft_core::{CallRequest, ErrorKind, Gate, Listener, Outcome, Schema, Submission, ToolError};
use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolRequestParams, CallToolResponse, InputRequests, InputRequiredResult},
    service::RequestContext,
};
use serde_json::Value;

use crate::{
    approval,
    client::{Era, Link},
    connection::Connection,
    progress::ProgressSteps,
    request_state::{RequestHash, RequestState},
    result::{self, OutcomeMeta},
};

/// The reply to a call.
pub(crate) enum CallReply {
    /// The outcome, and the schema of its data if the data is sent.
    Outcome { outcome: Box<Outcome>, data: Option<Schema>, outcome_meta: OutcomeMeta },
    /// Questions for the client. Only in the later era.
    Questions(InputRequiredResult),
}

impl From<CallReply> for CallToolResponse {
    fn from(end: CallReply) -> Self {
        match end {
            CallReply::Outcome { outcome, data, outcome_meta } => {
                result::of(*outcome, data.as_ref(), outcome_meta).into()
            }
            CallReply::Questions(asked) => asked.into(),
        }
    }
}

pub(crate) async fn call(
    connection: &Connection,
    mut params: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallReply, ErrorData> {
    let gate = match connection.gate(&context).await {
        Ok(gate) => gate,
        Err(error) => {
            let outcome = Box::new(Outcome::failed(&params.name, &error));
            return Ok(CallReply::Outcome {
                outcome,
                data: None,
                outcome_meta: OutcomeMeta::Include,
            });
        }
    };
    let quirks = connection.quirks(&context);
    let mut arguments = params.arguments.take().unwrap_or_default();
    quirks.clean(&mut arguments, |field| has_field(&gate, &params.name, field));
    let arguments = Value::Object(arguments);
    let round = Round::open(connection, &context, &params, &arguments)?;
    let link = connection.link(context, round.request_state.clone());
    let context = &link.context;
    let mut call = connection.context(context);
    call.services.insert(link.clone());
    let steps = context.meta.get_progress_token().map(|token| {
        let steps = Arc::new(ProgressSteps::default());
        call.services.insert::<dyn Listener>(steps.clone());
        (steps, token)
    });
    let request = CallRequest::new(params.name, arguments, call);
    // Boxed here and below, because rarely needed state would otherwise be copied with every call.
    let work = Box::pin(run(connection, &gate, request, context, &link));
    let end = match steps {
        Some((steps, token)) => steps.forward_while(&context.peer, token, work).await,
        None => work.await,
    };
    answer(connection, &gate, end, &round, &link, context).await
}

/// One round of a request. Only the later era has several rounds.
pub(crate) struct Round {
    request_hash: Option<RequestHash>,
    pub(crate) request_state: RequestState,
}

impl Round {
    fn open(
        connection: &Connection,
        context: &RequestContext<RoleServer>,
        params: &CallToolRequestParams,
        arguments: &Value,
    ) -> Result<Self, ErrorData> {
        let CallToolRequestParams { name, input_responses, request_state, .. } = params;
        let request_hash = || RequestHash::of("tools/call", name, arguments);
        Self::of(
            connection,
            context,
            request_hash,
            request_state.as_deref(),
            input_responses.clone(),
        )
    }

    pub(crate) fn of(
        connection: &Connection,
        context: &RequestContext<RoleServer>,
        request_hash: impl FnOnce() -> RequestHash,
        sealed_state: Option<&str>,
        answers: Option<rmcp::model::InputResponses>,
    ) -> Result<Self, ErrorData> {
        if connection.era(context) == Era::Stateful {
            return Ok(Self { request_hash: None, request_state: RequestState::default() });
        }
        let request_hash = request_hash();
        let request_state = connection.shared.seal.open(&request_hash, sealed_state, answers)?;
        Ok(Self { request_hash: Some(request_hash), request_state })
    }

    /// Returns the questions that end this round, if there are any.
    pub(crate) fn unanswered(
        &self,
        connection: &Connection,
        link: &Link,
        approval: Option<String>,
        mut questions: InputRequests,
    ) -> Result<Option<InputRequiredResult>, ErrorData> {
        questions.append(&mut link.questions());
        let Some(request_hash) = self.request_hash.as_ref().filter(|_| !questions.is_empty())
        else {
            return Ok(None);
        };
        let kept = link.request_state.lock().kept.clone();
        let mut answers = self.request_state.answers.clone();
        // An answer counts for the approval it was given to, never for a following one.
        answers.remove(approval::APPROVAL_KEY);
        let request_state = RequestState { approval, answers, kept };
        connection.shared.seal.ask(request_hash, &request_state, questions).map(Some)
    }
}

fn has_field(gate: &Gate, tool: &str, field: &str) -> bool {
    let tool = gate.registry().ready(tool);
    tool.is_some_and(|tool| tool.spec().input.has_property(field))
}

async fn run(
    connection: &Connection,
    gate: &Gate,
    request: CallRequest,
    context: &RequestContext<RoleServer>,
    link: &Link,
) -> Result<Submission, ToolError> {
    if !link.shows_forms() {
        // The client cannot show forms: the mode decides, and a refusal says how to allow the call.
        return Ok(Submission::Done(Box::new(gate.call(request).await)));
    }
    let earlier = link.request_state.lock().clone();
    let caller = request.context.clone();
    let mut asked = match earlier.approval {
        Some(id) => {
            if let Some(answer) = earlier.answers.get(approval::APPROVAL_KEY) {
                let approver = connection.approver(context);
                let scopes = connection.form_options(gate, context).scopes;
                Box::pin(approval::decided(gate, scopes, &approver, &id, answer)).await?;
            }
            return Box::pin(gate.resume(&id, caller)).await;
        }
        None => match gate.submit(request).await {
            Submission::Pending(asked) => asked,
            done => return Ok(done),
        },
    };
    if link.era == Era::Stateless {
        return Ok(Submission::Pending(asked));
    }
    let approver = connection.approver(context);
    loop {
        let options = connection.form_options(gate, context);
        Box::pin(approval::decide(gate, link, &approver, &asked, options, &caller.cancel)).await?;
        match Box::pin(gate.resume(&asked.id, caller.clone())).await? {
            // The accesses of the call have changed, so the user has to see them first.
            Submission::Pending(again) if again.id != asked.id => asked = again,
            done => return Ok(done),
        }
    }
}

async fn answer(
    connection: &Connection,
    gate: &Gate,
    end: Result<Submission, ToolError>,
    round: &Round,
    link: &Link,
    context: &RequestContext<RoleServer>,
) -> Result<CallReply, ErrorData> {
    let outcome = match end {
        Ok(Submission::Done(outcome)) => outcome,
        Ok(Submission::Pending(asked)) => {
            let questions =
                approval::elicitation_requests(&asked, connection.form_options(gate, context));
            let asked = round.unanswered(connection, link, Some(asked.id.clone()), questions)?;
            let asked =
                asked.ok_or_else(|| ErrorData::internal_error("no question was asked", None))?;
            return Ok(CallReply::Questions(asked));
        }
        Err(error) => Box::new(Outcome::failed("approval", &error)),
    };
    if let Some(questions) = round.unanswered(connection, link, None, InputRequests::new())? {
        return Ok(CallReply::Questions(questions));
    }
    if outcome.error.is_some()
        && let Some(refusal) = link.refusal()
    {
        return Err(refusal);
    }
    if let Some(error) = &outcome.error
        && error.kind == ErrorKind::NotFound
        && !gate.registry().has(&outcome.tool)
    {
        // The protocol reports an unknown tool name as an error of the client, not as a result.
        let message = format!("{}; {}", error.message, error.hint);
        return Err(ErrorData::invalid_params(message, serde_json::to_value(error).ok()));
    }
    let data = connection.data_schema(context, gate, &outcome.tool).await;
    let is_hidden = outcome.error.is_some() && connection.quirks(context).shows_meta;
    let outcome_meta = if is_hidden { OutcomeMeta::Omit } else { OutcomeMeta::Include };
    Ok(CallReply::Outcome { outcome, data, outcome_meta })
}
