//! Gives a gate its stores: the ledger, the journal, outputs, sessions, todos, approval requests
//! and saved rules. The stores open at the first call.

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

/// Returns the folder for data of the user rather than the workspace: keys and secrets. `None` when
/// there is no home directory.
pub fn state_folder(environment: &Environment) -> Option<PathBuf> {
    environment.state_home.as_ref().map(|folder| folder.join("haft"))
}

/// How the process ends. It decides how long a ledger entry may wait to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shutdown {
    /// The process ends after one call.
    AfterOneCall,
    /// The program calls [`flush`] when it ends, and handles signals itself.
    #[default]
    CallerFlushes,
    /// The program calls [`flush`] when it ends, but handles no signals: after the first call haft
    /// catches them and flushes.
    OnSignal,
}

/// Attaches the stores to a gate. `is_attended` returns true when a user at a terminal can be
/// asked.
pub(super) fn attach(
    mut gate: GateBuilder,
    environment: &Environment,
    settings: &Settings,
    shutdown: Shutdown,
    is_attended: fn() -> bool,
) -> GateBuilder {
    let location = store_location(settings);
    let sessions = Arc::new(StoreSessions::new(location.clone(), &settings.workspace));
    if settings.store.records {
        // Without a record of calls, copies of their results are not stored either: they stay in
        // memory.
        let retention = settings.outputs.retention.clone();
        let outputs = StoreOutputs::new(location.clone(), &settings.workspace, retention);
        gate = match shutdown {
            Shutdown::AfterOneCall => gate.outputs(Arc::new(outputs.without_memory())),
            Shutdown::CallerFlushes | Shutdown::OnSignal => gate.outputs(Arc::new(outputs)),
        };
        let ledger = ledger(location.clone(), settings, shutdown);
        let ledger = match shutdown {
            // Each command line call belongs to the session `cli`, which is not listed.
            Shutdown::AfterOneCall => ledger,
            Shutdown::CallerFlushes => ledger.noting(sessions.clone()),
            Shutdown::OnSignal => ledger.noting(sessions.clone()).before_writing(flush_on_signal),
        };
        gate = gate.ledger(Arc::new(ledger));
    }
    if let Some(keep) = settings.journal {
        let journal = StoreJournal::new(location.clone(), keep);
        gate = gate.service::<dyn Journal>(Arc::new(journal));
    }
    // Named sessions and todo lists are stored even when calls are not recorded.
    let todos = StoreTodos::new(location.clone(), &settings.workspace);
    gate = gate.service::<dyn Sessions>(sessions).service::<dyn Todos>(Arc::new(todos));
    // Without a home directory there is no key to seal rules with. Saved rules then last as long as
    // the process.
    if let Some(state) = state_folder(environment) {
        let workspace = &settings.workspace;
        gate = gate.saved_rules(Arc::new(StoreRules::new(location.clone(), workspace, &state)));
        let approvals = StoreApprovals::new(location, workspace, &state);
        let is_wanted = settings.store.asks_elsewhere;
        gate = publish_approvals(gate, approvals, is_wanted, shutdown, is_attended);
    }
    gate
}

fn ledger(location: Arc<StoreLocation>, settings: &Settings, shutdown: Shutdown) -> StoreLedger {
    let reply_timing = match shutdown {
        Shutdown::AfterOneCall => ReplyTiming::AfterCommit,
        Shutdown::CallerFlushes | Shutdown::OnSignal => ReplyTiming::Early,
    };
    let kept = settings.store.ledger;
    if !settings.store.keeps_results {
        return StoreLedger::new(location, reply_timing).retaining(kept);
    }
    let retention = settings.outputs.retention.clone();
    StoreLedger::keeping_results(location, reply_timing, &settings.workspace, retention)
        .retaining(kept)
}

/// Returns the location of the workspace's store.
pub fn store_location(settings: &Settings) -> Arc<StoreLocation> {
    StoreLocation::with_retention(settings.store.address.clone(), settings.store.retention)
}

/// Returns the approval requests of all of the user's processes, or `None` when there is no home
/// directory.
pub fn inbox(environment: &Environment, settings: &Settings) -> Option<Arc<dyn Inbox>> {
    let state = state_folder(environment)?;
    Some(Arc::new(StoreApprovals::new(store_location(settings), &settings.workspace, &state)))
}

/// Returns the numbered events of the store.
pub fn feed(settings: &Settings) -> Arc<dyn Feed> {
    Arc::new(StoreFeed::new(store_location(settings)))
}

/// Returns the leases of the store.
pub fn leases(settings: &Settings) -> Arc<dyn Leases> {
    Arc::new(StoreLeases::new(store_location(settings)))
}

/// Publishes approval requests for `haft approvals`. With `is_wanted`, calls without an approver
/// here wait for it.
fn publish_approvals(
    gate: GateBuilder,
    approvals: StoreApprovals,
    is_wanted: bool,
    shutdown: Shutdown,
    is_attended: fn() -> bool,
) -> GateBuilder {
    match (is_wanted, shutdown) {
        (true, _) => gate.approvals(Arc::new(approvals)).decided_externally(),
        // Without a terminal the call is refused at once, so its request is not published.
        (false, Shutdown::AfterOneCall) => {
            gate.approvals(Arc::new(approvals.only_when(is_attended)))
        }
        (false, _) => gate.approvals(Arc::new(approvals)).no_approver_hint(ADVICE),
    }
}

const ADVICE: &str = "or set `elsewhere = true` under `[approvals]` in your config.toml to let \
    calls wait for `haft approvals`";

/// Writes the pending ledger entries. Call it before the process ends.
///
/// # Errors
/// When the store cannot be written.
pub fn flush() -> Result<(), ToolError> {
    haft_store::flush_everything()
}

/// Starts the signal thread once. It runs at the first call rather than at startup, because a
/// server must start fast and has nothing to lose before.
fn flush_on_signal() {
    static STARTED: Once = Once::new();
    STARTED.call_once(spawn_signal_thread);
}

/// Spawns the thread that flushes on a signal. If that fails, signals end the process without a
/// flush.
fn spawn_signal_thread() {
    let _ = thread::Builder::new().name("haft-signals".to_owned()).spawn(|| {
        let Ok(runtime) = Builder::new_current_thread().enable_io().build() else { return };
        let Some(number) = runtime.block_on(termination_signal()) else { return };
        // No caller is left to receive an error.
        let _ = haft_store::flush_everything();
        end_process(128 + number)
    });
}

/// Waits for a signal and returns its number, or `None` when signals cannot be caught.
async fn termination_signal() -> Option<u8> {
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
    reason = "a tool that does not return may block the main thread, so main cannot end the process"
)]
fn end_process(code: u8) -> ! {
    std::process::exit(code.into())
}
