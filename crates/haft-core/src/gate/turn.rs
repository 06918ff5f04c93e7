//! A model's turn: several calls at once. Tools that end the turn run last, after all others are
//! done and recorded.

use super::{CallRequest, Gate};
use crate::{Outcome, ToolError, gate::finish};

impl Gate {
    /// Runs the calls of one turn concurrently and returns their outcomes in request order. A
    /// terminal tool waits for the other calls. If there are several, only the first runs and the
    /// others fail with `conflict`.
    pub async fn run_turn(&self, requests: Vec<CallRequest>) -> Vec<Outcome> {
        let mut outcomes: Vec<Option<Outcome>> = requests.iter().map(|_| None).collect();
        let mut running = tokio::task::JoinSet::new();
        let mut terminal = Vec::new();
        for (index, request) in requests.into_iter().enumerate() {
            if self.is_terminal(&request.tool).await {
                terminal.push((index, request));
            } else {
                let gate = self.clone();
                running.spawn(async move { (index, gate.call(request).await) });
            }
        }
        while let Some(finished) = running.join_next().await {
            if let Ok((index, outcome)) = finished {
                outcomes[index] = Some(outcome);
            }
        }
        let mut ended_by: Option<String> = None;
        for (index, request) in terminal {
            let outcome = match &ended_by {
                None => self.call(request).await,
                Some(first) => Outcome::failed(&request.tool, &too_late(&request.tool, first)),
            };
            if outcome.is_ok() && ended_by.is_none() {
                ended_by = Some(outcome.tool.clone());
            }
            outcomes[index] = Some(outcome);
        }
        let missing = || finish::crashed("turn", "the call's task was lost");
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(missing)).collect()
    }

    async fn is_terminal(&self, name: &str) -> bool {
        let name = self.registry().same_but_for_spelling(name).unwrap_or_else(|| name.to_owned());
        self.registry().get(&name).await.is_some_and(|tool| tool.spec().terminal)
    }
}

fn too_late(tool: &str, first: &str) -> ToolError {
    ToolError::conflict(format!("`{tool}` did not run: `{first}` has already ended this turn"))
        .hint("end a turn with one call only")
}
