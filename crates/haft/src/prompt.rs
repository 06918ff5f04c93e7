//! Asks the person at the terminal. It speaks to the terminal itself, so that pipes on standard input and output do
//! not stand in the way; where there is no terminal this way to decide is closed. What is said is in `conversation`.

mod conversation;
mod shown;

use std::{sync::Arc, time::Duration};

use haft_core::{ApprovalDecision, ApprovalHandler, ApprovalRequest, BoxFuture, Scope};
use tokio::sync::Mutex;

pub(crate) use self::{
    conversation::{Conversation, Reaction},
    shown::{lapse, summary},
};
use crate::{
    environment::Colours,
    terminal::{Label, Terminal, Tty},
};

/// The terminal as a way to decide.
pub(crate) struct TerminalPrompt {
    terminal: Arc<Terminal>,
    person: String,
    colours: Colours,
    /// For how long a yes may be remembered; nothing is offered that ends with this process anyway.
    scopes: Vec<Scope>,
    /// One question at a time.
    turn: Mutex<()>,
    /// Whether a question that cannot be asked here waits for an answer from elsewhere.
    waits_elsewhere: bool,
}

impl TerminalPrompt {
    pub(crate) fn new(
        terminal: Arc<Terminal>,
        person: Option<String>,
        colours: Colours,
        scopes: Vec<Scope>,
    ) -> Self {
        let person = person.unwrap_or_else(|| "you".to_owned());
        let (turn, waits_elsewhere) = (Mutex::new(()), false);
        Self { terminal, person, colours, scopes, turn, waits_elsewhere }
    }

    /// Where nobody is here to ask, it is said that somebody may answer elsewhere.
    pub(crate) fn or_elsewhere(mut self) -> Self {
        self.waits_elsewhere = true;
        self
    }

    fn nobody_here(&self, request: &ApprovalRequest) {
        if self.waits_elsewhere {
            let message = format!("this waits for a yes: haft approvals show {}", request.id);
            self.terminal.tell(Label::Note, &message);
        }
    }

    /// Waits until no question is on the screen any more. One that was called off is taken away by another thread,
    /// and the process must not end before that.
    pub(crate) async fn put_away(&self) {
        // Taking a question away is quick; a terminal that does not take the words must not keep us.
        let _ = tokio::time::timeout(Duration::from_millis(500), self.turn.lock()).await;
    }
}

impl ApprovalHandler for TerminalPrompt {
    fn decide<'a>(
        &'a self,
        request: &'a ApprovalRequest,
    ) -> BoxFuture<'a, Option<ApprovalDecision>> {
        Box::pin(async move {
            let _turn = self.turn.lock().await;
            let Ok(tty) = Tty::open() else {
                self.nobody_here(request);
                return None;
            };
            let _hold = self.terminal.hold();
            let mut open = OpenQuestion { tty: &tty, is_answered: false };
            let mut talk = Conversation::new(request, &self.scopes, &self.person, self.colours);
            tty.forget_typed_ahead();
            tty.write(&talk.opening());
            loop {
                match talk.hear(&tty.line().await?) {
                    Reaction::Say(text) => tty.write(&text),
                    Reaction::Decide(verdict) => {
                        open.is_answered = true;
                        return Some(verdict);
                    }
                }
            }
        })
    }
}

/// A question on the screen. Dropped unanswered (called off, lapsed, decided elsewhere) it says that it is void, so
/// that nobody types an answer into their shell.
struct OpenQuestion<'a> {
    tty: &'a Tty,
    is_answered: bool,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.tty.write("\nhaft no longer waits for an answer\n");
        }
    }
}
