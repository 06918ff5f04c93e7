//! The live list: events refresh it, keys decide. Its text and its keys are in `view`.

mod view;

use std::{io, process::ExitCode, time::Duration};

use haft_core::{
    ApprovalDecision, ApprovalState, CallResult, InboxEntry, RequesterStatus, ToolError,
};
use jiff::Zoned;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::{MissedTickBehavior, interval},
};

use self::view::{KeyAction, View};
use super::ApprovalsCommand;
use crate::{
    report,
    stop::Stop,
    terminal::{Label, Screen, Tty},
};

/// How often ages are drawn again, and processes that have ended are noticed.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// Why the view ends.
enum End {
    Quit,
    /// A call has to run here.
    Run(Box<InboxEntry>),
}

impl ApprovalsCommand<'_> {
    pub(super) fn live(&self) -> Result<ExitCode, Stop> {
        let colours = self.cli.terminal.result_colours();
        let mut view = View::new(&self.person, colours);
        loop {
            match self.cli.runtime.block_on(self.watch(&mut view))? {
                End::Quit => return Ok(ExitCode::SUCCESS),
                End::Run(entry) => self.run_in_front(&entry)?,
            }
        }
    }

    async fn watch(&self, view: &mut View) -> Result<End, Stop> {
        let newest = self.feed.newest().await?;
        view.refresh(self.inbox.entries().await?);
        let mut screen = Screen::take()?;
        let mut news = self.feed.subscribe(newest);
        let mut ticks = interval(REFRESH_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut signals = Signals::new()?;
        loop {
            if let Some(entry) = view.abandoned() {
                return Ok(End::Run(Box::new(entry)));
            }
            screen.draw(&view.lines(screen.size(), Zoned::now().timestamp()));
            let action = tokio::select! {
                key = screen.key() => key.map_or(KeyAction::Quit, |key| view.press(key)),
                event = news.next() => {
                    self.refresh(view, event.err()).await;
                    KeyAction::Nothing
                }
                _ = ticks.tick() => {
                    self.refresh(view, None).await;
                    KeyAction::Nothing
                }
                is_over = signals.next() => if is_over { KeyAction::Quit } else { KeyAction::Nothing },
            };
            match action {
                KeyAction::Nothing => {}
                KeyAction::Quit => return Ok(End::Quit),
                KeyAction::Decide(entry, verdict) => self.settle(view, *entry, verdict).await?,
            }
        }
    }

    /// Reads the list again. An error of the store is shown at the foot of the screen, and the list
    /// stays as it was.
    async fn refresh(&self, view: &mut View, trouble: Option<ToolError>) {
        match (trouble, self.inbox.entries().await) {
            (None, Ok(entries)) => view.refresh(entries),
            (Some(error), _) | (None, Err(error)) => view.say(error.message()),
        }
    }

    async fn settle(
        &self,
        view: &mut View,
        entry: InboxEntry,
        verdict: ApprovalDecision,
    ) -> Result<(), Stop> {
        let id = entry.record.request.id.clone();
        let is_yes = verdict.approved;
        if entry.record.state == ApprovalState::Pending {
            let state = if is_yes { ApprovalState::Approved } else { ApprovalState::Denied };
            match self.inbox.decide(&id, state, verdict).await {
                Ok(_) if is_yes => view.say("approved; the process that asked runs the call"),
                Ok(_) => view.say("denied; the call does not run"),
                Err(error) => view.say(error.message()),
            }
        }
        if is_yes {
            // It runs here if no other process takes it.
            view.expect_run_of(&id);
        }
        view.refresh(self.inbox.entries().await?);
        Ok(())
    }

    /// Runs a call on the normal screen, where its output stays.
    fn run_in_front(&self, entry: &InboxEntry) -> Result<(), Stop> {
        let id = &entry.record.request.id;
        let message = format!("the process that asked is gone; the call of {id} runs here");
        self.cli.terminal.tell(Label::Note, &message);
        match self.run(entry) {
            Ok(outcome) => {
                report::outcome(self.cli.terminal, self.globals.format, &outcome)?;
            }
            Err(error) => self.cli.terminal.tell(Label::Error, &error.to_string()),
        }
        let Ok(tty) = Tty::open() else { return Ok(()) };
        tty.write("[Enter] back to the list\n");
        self.cli.runtime.block_on(tty.line());
        Ok(())
    }
}

/// Reports whether an approved call has no process that would run it.
fn is_left(entry: &InboxEntry) -> bool {
    entry.record.state == ApprovalState::Approved
        && entry.result == CallResult::NotRun
        && entry.requester == RequesterStatus::Gone
}

/// The signals that the view handles.
struct Signals {
    resized: Signal,
    ended: Signal,
    hung_up: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            resized: signal(SignalKind::window_change())?,
            ended: signal(SignalKind::terminate())?,
            hung_up: signal(SignalKind::hangup())?,
        })
    }

    /// Reports whether the signal ends the view.
    async fn next(&mut self) -> bool {
        tokio::select! {
            _ = self.resized.recv() => false,
            _ = self.ended.recv() => true,
            _ = self.hung_up.recv() => true,
        }
    }
}
