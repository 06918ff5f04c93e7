//! Asks the person at the terminal for approval. It opens the terminal itself, so that it works
//! with pipes on standard input and output; without a terminal it has no answer. The texts and the
//! keys are in `conversation`.

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
    terminal::{Keys, Label, Terminal, Tty},
};

const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// The terminal as an approver.
pub(crate) struct TerminalPrompt {
    terminal: Arc<Terminal>,
    person: String,
    colours: Colours,
    /// The scopes of rules that may be saved; no rule is offered that ends with this process.
    scopes: Vec<Scope>,
    /// Held while a prompt is on the screen: there is one at a time.
    screen: Mutex<()>,
    /// Whether a request that cannot be asked here waits for an approver elsewhere.
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
        let (screen, waits_elsewhere) = (Mutex::new(()), false);
        Self { terminal, person, colours, scopes, screen, waits_elsewhere }
    }

    /// Prints how to answer elsewhere when there is no terminal.
    pub(crate) fn or_elsewhere(mut self) -> Self {
        self.waits_elsewhere = true;
        self
    }

    fn point_elsewhere(&self, request: &ApprovalRequest) {
        if self.waits_elsewhere {
            let message = format!("waiting for approval: haft approvals show {}", request.id);
            self.terminal.tell(Label::Note, &message);
        }
    }

    /// Waits until no prompt is on the screen. Another thread removes the prompt of a cancelled
    /// call, and the process must not end before that.
    pub(crate) async fn closed(&self) {
        // Removing a prompt is quick; a terminal that accepts no output must not block the process.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.screen.lock()).await;
    }
}

impl ApprovalHandler for TerminalPrompt {
    fn decide<'a>(
        &'a self,
        request: &'a ApprovalRequest,
    ) -> BoxFuture<'a, Option<ApprovalDecision>> {
        Box::pin(async move {
            let _screen = self.screen.lock().await;
            let opened = Tty::open().and_then(|tty| Ok((tty.read_keys()?, tty)));
            let Ok((_key_mode, tty)) = opened else {
                self.point_elsewhere(request);
                return None;
            };
            let _hold = self.terminal.hold();
            let mut open = OpenPrompt { tty: &tty, is_answered: false };
            let mut talk = Conversation::new(request, &self.scopes, &self.person, self.colours);
            tty.write(&talk.opening());
            // Keys that were pressed before the choices could be seen do not count.
            tty.forget_typed_ahead();
            tty.write(&talk.choices());
            let mut keys = Keys::default();
            loop {
                match talk.press(&keys.read(&tty.bytes().await?)) {
                    Reaction::Say(text) => tty.write(&text),
                    Reaction::Decide(decision) => {
                        tty.write(if decision.approved { "yes\n" } else { "no\n" });
                        open.is_answered = true;
                        return Some(decision);
                    }
                    Reaction::End => return None,
                }
            }
        })
    }
}

/// A prompt on the screen. Dropped without an answer (cancelled, expired, decided elsewhere), it
/// says that it is closed, so that the person does not type an answer into their shell.
struct OpenPrompt<'a> {
    tty: &'a Tty,
    is_answered: bool,
}

impl Drop for OpenPrompt<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.tty.write("\nhaft no longer waits for an answer\n");
        }
    }
}
