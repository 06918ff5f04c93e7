//! What a gate keeps on disk, wired to its places: the ledger, the journal, outputs, sessions, todos, questions and saved rules. Nothing is opened here; the first call
//! does that.

use std::{
    path::PathBuf,
    sync::{Arc, Once},
    thread,
};

use haft_core::{
    BoxFuture, GateBuilder, Journal, Ledger, LedgerEntry, Scope, Sessions, Todos, ToolError,
};
use haft_store::{
    Answering, Place, StoreApprovals, StoreJournal, StoreLedger, StoreOutputs, StoreRules,
    StoreSessions, StoreTodos,
};
use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
};

use crate::{
    config::Settings,
    environment::Environment,
    stop::leave,
    terminal::{Label, Terminal, Tty},
};

/// Where the store of the person lies.
pub(crate) fn state(environment: &Environment) -> Option<PathBuf> {
    environment.state_home.as_ref().map(|folder| folder.join("haft"))
}

/// The scopes that a person at a terminal may choose from. Not the session: every command is of the session `cli`, so a rule
/// of that session would be one for the project by another name.
pub(crate) fn scopes_at_terminal(environment: &Environment) -> Vec<Scope> {
    if state(environment).is_some() { vec![Scope::Project, Scope::User] } else { Vec::new() }
}

/// How the process ends, and so how long an entry may be on its way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// After one call.
    WithTheCall,
    /// It calls [`flush`] at its end, and is told by itself when a signal says so.
    Flushed,
    /// The same, but a signal would end it there and then.
    BySignal,
}

/// Gives a gate its ledger and everything else that is kept.
pub(crate) fn furnish(
    mut gate: GateBuilder,
    environment: &Environment,
    settings: &Settings,
    ending: Ending,
) -> GateBuilder {
    let place = place(settings);
    let sessions = Arc::new(StoreSessions::new(place.clone(), &settings.workspace));
    if settings.store.records {
        // Who wants no record of calls wants no copies of their results either: then they stay in memory.
        let retention = settings.outputs.retention.clone();
        let outputs = StoreOutputs::new(place.clone(), &settings.workspace, retention);
        gate = match ending {
            Ending::WithTheCall => gate.outputs(Arc::new(outputs.nowhere_else())),
            Ending::Flushed | Ending::BySignal => gate.outputs(Arc::new(outputs)),
        };
        let ledger = ledger(place.clone(), settings, ending);
        gate = match ending {
            // Every command is of the session `cli`, which nobody has to be told of.
            Ending::WithTheCall => gate.ledger(Arc::new(ledger)),
            Ending::Flushed => gate.ledger(Arc::new(Noting(ledger, sessions.clone()))),
            Ending::BySignal => gate.ledger(Arc::new(Noting(Heedful(ledger), sessions.clone()))),
        };
    }
    if let Some(keep) = settings.journal {
        let journal = StoreJournal::new(place.clone(), keep);
        gate = gate.service::<dyn Journal>(Arc::new(journal));
    }
    // What somebody writes by name is kept whether calls are recorded or not.
    let todos = StoreTodos::new(place.clone(), &settings.workspace);
    gate = gate.service::<dyn Sessions>(sessions).service::<dyn Todos>(Arc::new(todos));
    // Without a home there is no key to seal rules with: then they last as long as the process.
    if let Some(state) = state(environment) {
        let workspace = &settings.workspace;
        gate = gate.saved_rules(Arc::new(StoreRules::new(place.clone(), workspace, &state)));
        let approvals = StoreApprovals::new(place, workspace, &state);
        gate = ask_elsewhere(gate, approvals, settings.store.asks_elsewhere, ending);
    }
    gate
}

fn ledger(place: Arc<Place>, settings: &Settings, ending: Ending) -> StoreLedger {
    let answering = match ending {
        Ending::WithTheCall => Answering::AfterCommit,
        Ending::Flushed | Ending::BySignal => Answering::Early,
    };
    if !settings.store.keeps_results {
        return StoreLedger::new(place, answering);
    }
    let retention = settings.outputs.retention.clone();
    StoreLedger::keeping_results(place, answering, &settings.workspace, retention)
}

/// The place of a workspace's store.
pub(crate) fn place(settings: &Settings) -> Arc<Place> {
    Place::keeping(settings.store.address.clone(), settings.store.retention)
}

/// Questions are seen by `haft approvals` too, and wait for it where that is wanted.
fn ask_elsewhere(
    gate: GateBuilder,
    approvals: StoreApprovals,
    is_wanted: bool,
    ending: Ending,
) -> GateBuilder {
    match (is_wanted, ending) {
        (true, _) => gate.approvals(Arc::new(approvals)).decided_elsewhere(),
        // Refused at once without a terminal: nobody would see it.
        (false, Ending::WithTheCall) => {
            gate.approvals(Arc::new(approvals.only_when(|| Tty::open().is_ok())))
        }
        (false, _) => gate.approvals(Arc::new(approvals)).asking_advice(ADVICE),
    }
}

const ADVICE: &str = "or set `elsewhere = true` under `[approvals]` in your config.toml, and it waits for `haft approvals`";

/// The last chance for entries on their way to the ledger.
pub(crate) fn flush(terminal: &Terminal) {
    if let Err(error) = haft_store::flush_everything() {
        let message = format!("the last calls are not in the ledger: {error}");
        terminal.tell(Label::Warning, &message);
    }
}

/// A ledger that has sessions noted when they record something: an idle connection is no session, and the start of a server
/// waits for no store.
struct Noting<L>(L, Arc<StoreSessions>);

impl<L: Ledger> Ledger for Noting<L> {
    fn record(&self, entry: LedgerEntry) -> BoxFuture<'_, Result<(), ToolError>> {
        let Self(ledger, sessions) = self;
        if sessions.is_noted(&entry.session) {
            return ledger.record(entry);
        }
        let (session, agents) = (entry.session.clone(), entry.agents.clone());
        noted(ledger.record(entry), sessions, session, agents)
    }

    fn record_unhashed(
        &self,
        entry: LedgerEntry,
        output: &str,
    ) -> BoxFuture<'_, Result<(), ToolError>> {
        let Self(ledger, sessions) = self;
        if sessions.is_noted(&entry.session) {
            return ledger.record_unhashed(entry, output);
        }
        let (session, agents) = (entry.session.clone(), entry.agents.clone());
        noted(ledger.record_unhashed(entry, output), sessions, session, agents)
    }

    fn keeps_results(&self) -> bool {
        self.0.keeps_results()
    }

    fn record_with(
        &self,
        entry: LedgerEntry,
        outcome: Vec<u8>,
    ) -> BoxFuture<'_, Result<(), ToolError>> {
        let Self(ledger, sessions) = self;
        if sessions.is_noted(&entry.session) {
            return ledger.record_with(entry, outcome);
        }
        let (session, agents) = (entry.session.clone(), entry.agents.clone());
        noted(ledger.record_with(entry, outcome), sessions, session, agents)
    }

    fn newest(&self, most: usize) -> BoxFuture<'_, Result<Vec<LedgerEntry>, ToolError>> {
        self.0.newest(most)
    }
}

fn noted<'a>(
    recorded: BoxFuture<'a, Result<(), ToolError>>,
    sessions: &'a StoreSessions,
    session: String,
    agents: Vec<String>,
) -> BoxFuture<'a, Result<(), ToolError>> {
    Box::pin(async move {
        recorded.await?;
        // The call is recorded, which is what was asked for; the next one tries again.
        let _ = sessions.saw(&session, &agents).await;
        Ok(())
    })
}

/// A ledger whose process writes down what is left before a signal ends it.
struct Heedful(StoreLedger);

impl Ledger for Heedful {
    fn record(&self, entry: LedgerEntry) -> BoxFuture<'_, Result<(), ToolError>> {
        heed_signals_from_now_on();
        self.0.record(entry)
    }

    fn record_unhashed(
        &self,
        entry: LedgerEntry,
        output: &str,
    ) -> BoxFuture<'_, Result<(), ToolError>> {
        heed_signals_from_now_on();
        self.0.record_unhashed(entry, output)
    }

    fn keeps_results(&self) -> bool {
        self.0.keeps_results()
    }

    fn record_with(
        &self,
        entry: LedgerEntry,
        outcome: Vec<u8>,
    ) -> BoxFuture<'_, Result<(), ToolError>> {
        heed_signals_from_now_on();
        self.0.record_with(entry, outcome)
    }

    fn newest(&self, most: usize) -> BoxFuture<'_, Result<Vec<LedgerEntry>, ToolError>> {
        self.0.newest(most)
    }
}

/// Not before the first call: a server has to be there at once, and has nothing to lose until then.
fn heed_signals_from_now_on() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(heed_signals);
}

/// Without a thread for it, a signal ends the process as it always does.
fn heed_signals() {
    let _ = thread::Builder::new().name("haft-signals".to_owned()).spawn(|| {
        let Ok(runtime) = Builder::new_current_thread().enable_io().build() else { return };
        let Some(number) = runtime.block_on(told_to_end()) else { return };
        // Nobody is left to be told of a failure.
        let _ = haft_store::flush_everything();
        leave(128 + number)
    });
}

/// The number of the signal; none when they cannot be caught.
async fn told_to_end() -> Option<u8> {
    let mut hangup = signal(SignalKind::hangup()).ok()?;
    let mut interrupt = signal(SignalKind::interrupt()).ok()?;
    let mut terminate = signal(SignalKind::terminate()).ok()?;
    tokio::select! {
        _ = hangup.recv() => Some(1),
        _ = interrupt.recv() => Some(2),
        _ = terminate.recv() => Some(15),
    }
}
