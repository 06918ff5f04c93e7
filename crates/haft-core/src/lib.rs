//! The words of haft, and the one gate that every call passes. No IO: files, processes, networks and databases come
//! in as capabilities and stores, from the crates above.
//!
//! - A [`Tool`] has a [`ToolSpec`], says what it would touch ([`Access`]) and runs. `#[tool]` makes one from a function.
//! - A [`Registry`] holds tools; a [`Gate`] runs them: see `gate.rs` for the way of a call.
//! - A [`Policy`] decides; [`Approvals`] keep what people are asked; a [`Ledger`] keeps what was done.

#![warn(missing_docs)]

// `#[tool]` writes `::haft_core` paths, in this crate's own tests too.
extern crate self as haft_core;

mod access;
mod areas;
mod blocking;
mod call;
mod capability;
mod clock;
pub mod commands;
mod error;
mod events;
pub mod files;
mod gate;
mod ids;
mod input;
mod nearest;
pub mod network;
mod outcome;
pub mod policy;
mod queue;
mod redactor;
mod registry;
mod reply;
mod schema;
mod tool;
mod variables;
mod vault;
mod visible;

pub use tokio_util::sync::CancellationToken;

pub use self::{
    access::{
        Access, CommandReader, CommandRisk, Effect, LexicalPaths, Need, ParsedCommand,
        ParsedScript, Power, ResolvePath, SearchStep,
    },
    areas::approvals::{
        ApprovalDecision, ApprovalHandler, ApprovalRecord, ApprovalRequest, ApprovalState,
        Approvals, Confirmation, MemoryApprovals, Preview, PromptsAvoided, Suggestion,
        already_settled, no_such_request,
    },
    areas::feed,
    areas::inbox::{CallClaim, CallResult, Inbox, InboxEntry, InboxListing, RequesterStatus},
    areas::journal::{
        ChangeQuery, Content, ContentHash, Journal, JournalChange, JournalEntry, JournalWriter,
        NewChange, NewJournalEntry, OpenChange, PathState, PreImages, ReadJournal,
    },
    areas::leases::{Lease, Leases},
    areas::ledger::{
        Ledger, LedgerEntry, MemoryLedger, PrunedEntries, PrunedRange, RepeatedCalls, sha256_hex,
    },
    areas::outputs::{
        MemoryOutputs, OutputInfo, OutputPiece, OutputPosition, OutputSource, Outputs, ReadOutputs,
        StoredOutput, count_lines, new_output_id, no_such_output,
    },
    areas::rules::{MemoryRules, Remember, SavedRule, SavedRules, Scope, no_such_rule},
    areas::sessions::{
        NewMessage, NewSession, ReadSessions, SessionCall, SessionEvent, SessionHistory,
        SessionInfo, SessionMessage, SessionPatch, SessionQuery, Sessions, WriteSessions,
        no_such_session,
    },
    areas::todos::{
        MemoryTodos, ReadTodos, Todo, TodoList, TodoPriority, TodoStatus, Todos, WriteTodos,
        todos_changed,
    },
    blocking::{block_in_place, spawn_blocking},
    call::{Call, CallInfo, Context, Grants, Listener, Services},
    capability::{Cancel, Capability, Progress, Tools},
    clock::now_ms,
    commands::Shell,
    error::{ErrorKind, ToolError},
    events::{CallEvent, CallEventKind, Events, ProgressUpdate, Subscription},
    files::{ReadFiles, WriteFiles},
    gate::{
        CallRequest, Explanation, Gate, GateBuilder, Input, Limits, RecordedCall, ReplaySource,
        Submission,
    },
    input::PathInput,
    nearest::{did_you_mean, nearest},
    network::Net,
    outcome::{Outcome, OutcomeError},
    policy::{Decision, Mode, Policy},
    redactor::Redactor,
    registry::{AgentView, Definitions, Registry, RegistryError},
    reply::{Attachment, Output, Reply, Return},
    schema::{ALIASES, IN_CONTENT, SHORT, Schema},
    tool::{
        AccessLookup, AccessLookupResult, BoxFuture, DEFAULT_DEADLINE, Origin, StaticTool, Tool,
        ToolSpec, description_of,
    },
    variables::WorkspaceInfo,
    vault::{
        MAX_SECRET_BYTES, MIN_SECRET_CHARS, SECRET_PREFIX, Secret, SecretHosts, Vault,
        invalid_secret_reason, is_secret_name, is_secret_name_char, secret_reference,
        secret_references,
    },
    visible::visible_in_json,
};

/// What the code written by `#[tool]` refers to. Not for people.
#[doc(hidden)]
pub mod __macro {
    pub use serde_json::Value;

    pub use crate::{
        Access, AccessLookupResult, BoxFuture, Call, Capability, Effect, Need, Reply, Return,
        Schema, StaticTool, ToolError,
        input::ToolInput,
        tool::{ToolParts, whole_powers},
    };
}
