//! Builds a gate. Every part has a default: the in-memory version, or none. Without an approval
//! handler, calls that need approval are refused.

use std::{path::PathBuf, sync::Arc, time::Duration};

use super::{Gate, GateInner, ReplaySource};
use crate::{
    ApprovalHandler, Approvals, Events, Ledger, LexicalPaths, MemoryApprovals, MemoryLedger,
    MemoryOutputs, MemoryRules, Outputs, Policy, Redactor, Registry, ResolvePath, SavedRules,
    WorkspaceInfo, access::CommandReader, call::Services, queue::PathQueue,
};

/// The sizes and times that bound every call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum length of an input, in bytes.
    pub input_bytes: usize,
    /// Maximum nesting depth of an input.
    pub input_depth: usize,
    /// Maximum length of the content a model sees, in bytes.
    pub content_bytes: usize,
    /// Maximum number of lines a model sees.
    pub content_lines: usize,
    /// Maximum size of the typed output, in bytes of JSON.
    pub data_bytes: usize,
    /// Maximum size of all attachments of a call together, in bytes of base64.
    pub attachment_bytes: usize,
    /// How long a request waits for a decision while an approver is present.
    pub approval_wait: Duration,
    /// How long a request waits for a decision in unattended sessions.
    pub unattended_wait: Duration,
    /// How long a tool that listens for cancellation may take to finish.
    pub grace: Duration,
    /// Maximum depth of tools that call tools.
    pub nesting: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            input_bytes: 16 << 20,
            input_depth: 128,
            content_bytes: 50 << 10,
            // 2,000 lines of a file, and 20 for the text around them.
            content_lines: 2_020,
            data_bytes: 256 << 10,
            attachment_bytes: 20 << 20,
            approval_wait: Duration::from_secs(10 * 60),
            unattended_wait: Duration::from_secs(72 * 3600),
            grace: Duration::from_secs(1),
            nesting: 8,
        }
    }
}

/// Builds a [`Gate`].
pub struct GateBuilder {
    inner: GateInner,
    paths: Option<Arc<dyn ResolvePath>>,
}

impl GateBuilder {
    pub(super) fn new(registry: Registry) -> Self {
        let inner = GateInner {
            registry,
            policy: Arc::new(Policy::default()),
            paths: Arc::new(LexicalPaths { workspace: PathBuf::new() }),
            workspace_info: WorkspaceInfo::default(),
            services: Services::default(),
            events: Events::default(),
            approvals: Arc::new(MemoryApprovals::default()),
            handlers: Vec::new(),
            is_decided_externally: false,
            no_approver_hint: None,
            saved_rules: Arc::new(MemoryRules::default()),
            outputs: Arc::new(MemoryOutputs::default()),
            ledger: Arc::new(MemoryLedger::default()),
            redactor: Redactor::default(),
            queue: PathQueue::default(),
            limits: Limits::default(),
            reader: None,
            starts_in_place: false,
            repeats: None,
            replay: None,
        };
        Self { inner, paths: None }
    }

    /// Sets the policy. The default has the built-in rules and mode `contained`.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.inner.policy = Arc::new(policy);
        self
    }

    /// Sets the parser for scripts that tools run, so that policy judges each command and file.
    /// Without it a script is judged as a whole.
    #[must_use]
    pub fn command_reader(mut self, reader: CommandReader) -> Self {
        self.inner.reader = Some(reader);
        self
    }

    /// Sets the workspace that descriptions and path rules refer to.
    #[must_use]
    pub fn workspace_info(mut self, workspace_info: WorkspaceInfo) -> Self {
        self.inner.workspace_info = workspace_info;
        self
    }

    /// Sets how paths are resolved before rules see them. The default compares them as text.
    #[must_use]
    pub fn paths(mut self, paths: Arc<dyn ResolvePath>) -> Self {
        self.paths = Some(paths);
        self
    }

    /// Adds a service that capabilities need, by its type.
    #[must_use]
    pub fn service<T: ?Sized + Send + Sync + 'static>(mut self, service: Arc<T>) -> Self {
        self.inner.services.insert(service);
        self
    }

    /// Adds an approval handler. With several, the first decision wins.
    #[must_use]
    pub fn handler(mut self, handler: Arc<dyn ApprovalHandler>) -> Self {
        self.inner.handlers.push(handler);
        self
    }

    /// Declares that requests are also decided outside the handlers, through [`Gate::approvals`] or
    /// its database, so that waiting makes sense without a handler.
    #[must_use]
    pub fn decided_externally(mut self) -> Self {
        self.inner.is_decided_externally = true;
        self
    }

    /// Sets a hint on how to make an approver available, for callers that need approval when no
    /// approver can be asked.
    #[must_use]
    pub fn no_approver_hint(mut self, advice: impl Into<String>) -> Self {
        self.inner.no_approver_hint = Some(advice.into());
        self
    }

    /// Sets the store of approval requests.
    #[must_use]
    pub fn approvals(mut self, approvals: Arc<dyn Approvals>) -> Self {
        self.inner.approvals = approvals;
        self
    }

    /// Sets the store of the rules that approvals save.
    #[must_use]
    pub fn saved_rules(mut self, saved_rules: Arc<dyn SavedRules>) -> Self {
        self.inner.saved_rules = saved_rules;
        self
    }

    /// Sets the store of full outputs.
    #[must_use]
    pub fn outputs(mut self, outputs: Arc<dyn Outputs>) -> Self {
        self.inner.outputs = outputs;
        self
    }

    /// Answers every call from a recording: no call is judged, approved, run or recorded.
    #[must_use]
    pub fn replay_from(mut self, replay: Arc<dyn ReplaySource>) -> Self {
        self.inner.replay = Some(replay);
        self
    }

    /// Sets the store of ledger entries.
    #[must_use]
    pub fn ledger(mut self, ledger: Arc<dyn Ledger>) -> Self {
        self.inner.ledger = ledger;
        self
    }

    /// Sets the redactor for everything that is returned.
    #[must_use]
    pub fn redactor(mut self, redactor: Redactor) -> Self {
        self.inner.redactor = redactor;
        self
    }

    /// Sets the limits of every call.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.inner.limits = limits;
        self
    }

    /// Runs a tool on its caller's thread until it first waits, instead of in a task from the
    /// start, which saves a task switch for small calls. Only for programs that watch that thread:
    /// a tool that blocks it delays the answer beyond any deadline.
    #[must_use]
    pub fn start_in_place(mut self) -> Self {
        self.inner.starts_in_place = true;
        self
    }

    /// Replaces repeated results by a pointer: if a read-only call returns the same long text that
    /// the same agent session received a moment ago, it gets one line that says so. Repeating the
    /// call returns the full text.
    #[must_use]
    pub fn omit_repeats(mut self) -> Self {
        self.inner.repeats = Some(Default::default());
        self
    }

    /// Builds the gate.
    pub fn build(self) -> Gate {
        let Self { mut inner, paths } = self;
        let workspace = inner.workspace_info.workspace.clone();
        let policy = Arc::make_mut(&mut inner.policy);
        policy.roots.workspace.clone_from(&workspace);
        inner.registry.add_to_profiles(&mut policy.profiles);
        inner.paths = paths.unwrap_or_else(|| Arc::new(LexicalPaths { workspace }));
        // Tools may read the outputs that the gate stores.
        inner.services.insert::<dyn Outputs>(inner.outputs.clone());
        Gate(Arc::new(inner))
    }
}
