//! What a gate keeps on disk, wired to its places: the ledger, the journal, outputs, sessions, todos, approval requests and
//! saved rules. Nothing is opened here; the first call does that.

use std::{
    path::PathBuf,
    sync::{Arc, Once},
    thread,
};

use haft_core::{GateBuilder, Inbox, Journal, Leases, Sessions, Todos, ToolError, feed::Feed};
use haft_store::{
    ReplyTiming, StoreApprovals, StoreFeed, StoreJournal, StoreLeases, StoreLedger, StoreLocation,
    StoreOutputs, StoreRules, StoreSessions, StoreTodos,
};
use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
};

use super::{config::Settings, environment::Environment};

/// The folder of what is the person's and not the workspace's: keys and secrets. None without a home.
pub fn state(environment: &Environment) -> Option<PathBuf> {
    environment.state_home.as_ref().map(|folder| folder.join("haft"))
}

/// How the process ends, and so how long a ledger entry may wait to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// After one call.
    WithTheCall,
    /// It calls [`flush`] at its end, and handles signals itself.
    #[default]
    Flushed,
    /// The same, but it handles no signals: they are caught here once there is something to lose.
    BySignal,
}

/// Gives a gate its ledger and everything else that is kept. `is_attended` says whether a person at a terminal could be asked.
pub(super) fn keep(
    mut gate: GateBuilder,
    environment: &Environment,
    settings: &Settings,
    ending: Ending,
    is_attended: fn() -> bool,
) -> GateBuilder {
    let place = place(settings);
    let sessions = Arc::new(StoreSessions::new(place.clone(), &settings.workspace));
    if settings.store.records {
        // Who wants no record of calls wants no copies of their results either: then they stay in memory.
        let retention = settings.outputs.retention.clone();
        let outputs = StoreOutputs::new(place.clone(), &settings.workspace, retention);
        gate = match ending {
            Ending::WithTheCall => gate.outputs(Arc::new(outputs.without_memory())),
            Ending::Flushed | Ending::BySignal => gate.outputs(Arc::new(outputs)),
        };
        let ledger = ledger(place.clone(), settings, ending);
        let ledger = match ending {
            // Every command is of the session `cli`, which is not worth noting.
            Ending::WithTheCall => ledger,
            Ending::Flushed => ledger.noting(sessions.clone()),
            Ending::BySignal => {
                ledger.noting(sessions.clone()).before_writing(heed_signals_from_now_on)
            }
        };
        gate = gate.ledger(Arc::new(ledger));
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
        let is_wanted = settings.store.asks_elsewhere;
        gate = ask_elsewhere(gate, approvals, is_wanted, ending, is_attended);
    }
    gate
}

fn ledger(place: Arc<StoreLocation>, settings: &Settings, ending: Ending) -> StoreLedger {
    let answering = match ending {
        Ending::WithTheCall => ReplyTiming::AfterCommit,
        Ending::Flushed | Ending::BySignal => ReplyTiming::Early,
    };
    let kept = settings.store.ledger;
    if !settings.store.keeps_results {
        return StoreLedger::new(place, answering).retaining(kept);
    }
    let retention = settings.outputs.retention.clone();
    StoreLedger::keeping_results(place, answering, &settings.workspace, retention).retaining(kept)
}

/// The place of a workspace's store.
pub fn place(settings: &Settings) -> Arc<StoreLocation> {
    StoreLocation::with_retention(settings.store.address.clone(), settings.store.retention)
}

/// The approval requests of all processes of the person. None without a home.
pub fn inbox(environment: &Environment, settings: &Settings) -> Option<Arc<dyn Inbox>> {
    let state = state(environment)?;
    Some(Arc::new(StoreApprovals::new(place(settings), &settings.workspace, &state)))
}

/// The numbered events of the store.
pub fn feed(settings: &Settings) -> Arc<dyn Feed> {
    Arc::new(StoreFeed::new(place(settings)))
}

/// The leases of the store.
pub fn leases(settings: &Settings) -> Arc<dyn Leases> {
    Arc::new(StoreLeases::new(place(settings)))
}

/// Questions are seen by `haft approvals` too, and wait for it where that is wanted.
fn ask_elsewhere(
    gate: GateBuilder,
    approvals: StoreApprovals,
    is_wanted: bool,
    ending: Ending,
    is_attended: fn() -> bool,
) -> GateBuilder {
    match (is_wanted, ending) {
        (true, _) => gate.approvals(Arc::new(approvals)).decided_externally(),
        // Refused at once without a terminal: nobody would see it.
        (false, Ending::WithTheCall) => gate.approvals(Arc::new(approvals.only_when(is_attended))),
        (false, _) => gate.approvals(Arc::new(approvals)).no_approver_hint(ADVICE),
    }
}

const ADVICE: &str = "or set `elsewhere = true` under `[approvals]` in your config.toml, and it waits for `haft approvals`";

/// Writes the ledger entries that still wait. For the end of a process.
///
/// # Errors
/// When the store cannot be written.
pub fn flush() -> Result<(), ToolError> {
    haft_store::flush_everything()
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
        end_process(128 + number)
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

#[expect(
    clippy::disallowed_methods,
    clippy::exit,
    reason = "the main thread may be held by a tool that does not return, so it cannot be asked to end"
)]
fn end_process(code: u8) -> ! {
    std::process::exit(code.into())
}
