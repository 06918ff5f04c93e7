//! A tool call from a client: through the gate, and back as the protocol wants it.

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
    progress::Steps,
    result::{self, Envelope},
    rounds::{Rounds, Subject},
};

/// What a call comes to.
pub(crate) enum End {
    /// What became of it, and the schema of its data if that is to be sent.
    Outcome { outcome: Box<Outcome>, data: Option<Schema>, envelope: Envelope },
    /// Only the later era ends so.
    Asked(InputRequiredResult),
}

impl From<End> for CallToolResponse {
    fn from(end: End) -> Self {
        match end {
            End::Outcome { outcome, data, envelope } => {
                result::of(*outcome, data.as_ref(), envelope).into()
            }
            End::Asked(asked) => asked.into(),
        }
    }
}

pub(crate) async fn call(
    connection: &Connection,
    mut params: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<End, ErrorData> {
    let gate = match connection.gate(&context).await {
        Ok(gate) => gate,
        Err(error) => {
            let outcome = Box::new(Outcome::failed(&params.name, &error));
            return Ok(End::Outcome { outcome, data: None, envelope: Envelope::Sent });
        }
    };
    let quirks = connection.quirks(&context);
    let mut arguments = params.arguments.take().unwrap_or_default();
    quirks.clean(&mut arguments, |field| has_field(&gate, &params.name, field));
    let arguments = Value::Object(arguments);
    let round = Round::open(connection, &context, &params, &arguments)?;
    let link = connection.link(context, round.rounds.clone());
    let context = &link.context;
    let mut call = connection.context(context);
    call.services.insert(link.clone());
    let steps = context.meta.get_progress_token().map(|token| {
        let steps = Arc::new(Steps::default());
        call.services.insert::<dyn Listener>(steps.clone());
        (steps, token)
    });
    let request = CallRequest::new(params.name, arguments, call);
    // Boxed here and below: it stands in two places, and what is rarely needed would be copied with every call.
    let work = Box::pin(run(connection, &gate, request, context, &link));
    let end = match steps {
        Some((steps, token)) => steps.tell(&context.peer, token, work).await,
        None => work.await,
    };
    answer(connection, &gate, end, &round, &link, context).await
}

/// Which request this is a round of; only the later era has rounds.
pub(crate) struct Round {
    subject: Option<Subject>,
    pub(crate) rounds: Rounds,
}

impl Round {
    fn open(
        connection: &Connection,
        context: &RequestContext<RoleServer>,
        params: &CallToolRequestParams,
        arguments: &Value,
    ) -> Result<Self, ErrorData> {
        let CallToolRequestParams { name, input_responses, request_state, .. } = params;
        let subject = || Subject::of("tools/call", name, arguments);
        Self::of(connection, context, subject, request_state.as_deref(), input_responses.clone())
    }

    pub(crate) fn of(
        connection: &Connection,
        context: &RequestContext<RoleServer>,
        subject: impl FnOnce() -> Subject,
        note: Option<&str>,
        answers: Option<rmcp::model::InputResponses>,
    ) -> Result<Self, ErrorData> {
        if connection.era(context) == Era::Stateful {
            return Ok(Self { subject: None, rounds: Rounds::default() });
        }
        let subject = subject();
        let rounds = connection.shared.seal.open(&subject, note, answers)?;
        Ok(Self { subject: Some(subject), rounds })
    }

    /// The questions that end this round, if the work behind the request has any.
    pub(crate) fn unanswered(
        &self,
        connection: &Connection,
        link: &Link,
        approval: Option<String>,
        mut questions: InputRequests,
    ) -> Result<Option<InputRequiredResult>, ErrorData> {
        questions.append(&mut link.wanted());
        let Some(subject) = self.subject.as_ref().filter(|_| !questions.is_empty()) else {
            return Ok(None);
        };
        let kept = link.rounds.lock().kept.clone();
        let mut answers = self.rounds.answers.clone();
        // An answer counts for the request it was given to, never for the one that follows it.
        answers.remove(approval::KEY);
        let rounds = Rounds { approval, answers, kept };
        connection.shared.seal.ask(subject, &rounds, questions).map(Some)
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
    if !link.fills_in_forms() {
        // Nobody can be asked: the mode decides, and a refusal says how to allow it.
        return Ok(Submission::Done(Box::new(gate.call(request).await)));
    }
    let earlier = link.rounds.lock().clone();
    let caller = request.context.clone();
    let mut asked = match earlier.approval {
        Some(id) => {
            if let Some(answer) = earlier.answers.get(approval::KEY) {
                let person = connection.person(context);
                let scopes = connection.asked(gate, context).scopes;
                Box::pin(approval::decided(gate, scopes, &person, &id, answer)).await?;
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
    let person = connection.person(context);
    loop {
        let whom = connection.asked(gate, context);
        Box::pin(approval::decide(gate, link, &person, &asked, whom, &caller.cancel)).await?;
        match Box::pin(gate.resume(&asked.id, caller.clone())).await? {
            // What the call would touch has changed since: the person has to see that first.
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
) -> Result<End, ErrorData> {
    let outcome = match end {
        Ok(Submission::Done(outcome)) => outcome,
        Ok(Submission::Pending(asked)) => {
            let questions = approval::questions(&asked, connection.asked(gate, context));
            let asked = round.unanswered(connection, link, Some(asked.id.clone()), questions)?;
            let asked = asked.ok_or_else(|| ErrorData::internal_error("nobody was asked", None))?;
            return Ok(End::Asked(asked));
        }
        Err(error) => Box::new(Outcome::failed("approval", &error)),
    };
    if let Some(questions) = round.unanswered(connection, link, None, InputRequests::new())? {
        return Ok(End::Asked(questions));
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
        // The protocol counts a wrong name among the client's mistakes, not among the results.
        let message = format!("{}; {}", error.message, error.hint);
        return Err(ErrorData::invalid_params(message, serde_json::to_value(error).ok()));
    }
    let data = connection.data_schema(context, gate, &outcome.tool).await;
    let is_hidden = outcome.error.is_some() && connection.quirks(context).shows_meta;
    let envelope = if is_hidden { Envelope::LeftOut } else { Envelope::Sent };
    Ok(End::Outcome { outcome, data, envelope })
}
