//! Puts a gate together. Whatever is not given is the version in memory, or its absence: no handler means that what
//! must be asked for is refused.

use std::{path::PathBuf, sync::Arc, time::Duration};

use super::{Gate, Inner, ReplaySource};
use crate::{
    ApprovalHandler, Approvals, Events, Ledger, LexicalPaths, MemoryApprovals, MemoryLedger,
    MemoryOutputs, MemoryRules, Outputs, Policy, Redactor, Registry, ResolvePath, SavedRules,
    WorkspaceInfo, access::CommandReader, call::Services, queue::PathQueue,
};

/// The sizes and times that bound every call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The longest input, in bytes.
    pub input_bytes: usize,
    /// The deepest nesting of an input.
    pub input_depth: usize,
    /// The longest content a model is shown, in bytes.
    pub content_bytes: usize,
    /// The most lines a model is shown.
    pub content_lines: usize,
    /// The largest typed output, in bytes of JSON.
    pub data_bytes: usize,
    /// The largest attachments of a call together, in bytes of base64.
    pub attachment_bytes: usize,
    /// How long an approval waits while somebody is there.
    pub approval_wait: Duration,
    /// How long an approval waits when nobody is.
    pub unattended_wait: Duration,
    /// How long a tool that listens may take to end after it was called off.
    pub grace: Duration,
    /// How deep tools may call tools.
    pub nesting: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            input_bytes: 16 << 20,
            input_depth: 128,
            content_bytes: 50 << 10,
            // 2,000 lines of a file and the words around them.
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

/// A gate in the making.
pub struct GateBuilder {
    inner: Inner,
    paths: Option<Arc<dyn ResolvePath>>,
}

impl GateBuilder {
    pub(super) fn new(registry: Registry) -> Self {
        let inner = Inner {
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
            answers: None,
        };
        Self { inner, paths: None }
    }

    /// The rules. Without them the built-in ones hold, in mode `contained`.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.inner.policy = Arc::new(policy);
        self
    }

    /// What reads the texts that tools run, so that policy judges their commands and files one by one. Without it such a
    /// text is judged as a whole.
    #[must_use]
    pub fn command_reader(mut self, reader: CommandReader) -> Self {
        self.inner.reader = Some(reader);
        self
    }

    /// Where the gate works; descriptions and path rules speak of it.
    #[must_use]
    pub fn workspace_info(mut self, workspace_info: WorkspaceInfo) -> Self {
        self.inner.workspace_info = workspace_info;
        self
    }

    /// How paths are resolved before rules see them. Without it: by their letters alone.
    #[must_use]
    pub fn paths(mut self, paths: Arc<dyn ResolvePath>) -> Self {
        self.paths = Some(paths);
        self
    }

    /// Something that capabilities need, by its type.
    #[must_use]
    pub fn service<T: ?Sized + Send + Sync + 'static>(mut self, service: Arc<T>) -> Self {
        self.inner.services.insert(service);
        self
    }

    /// A way to decide. With several, the first decision wins.
    #[must_use]
    pub fn handler(mut self, handler: Arc<dyn ApprovalHandler>) -> Self {
        self.inner.handlers.push(handler);
        self
    }

    /// Requests are also settled by others, through [`Gate::approvals`] or the database behind it: waiting makes
    /// sense without a handler.
    #[must_use]
    pub fn decided_externally(mut self) -> Self {
        self.inner.is_decided_externally = true;
        self
    }

    /// What a caller is told who needs a yes where nobody can be asked: how somebody would be.
    #[must_use]
    pub fn no_approver_hint(mut self, advice: impl Into<String>) -> Self {
        self.inner.no_approver_hint = Some(advice.into());
        self
    }

    /// Where requests are kept.
    #[must_use]
    pub fn approvals(mut self, approvals: Arc<dyn Approvals>) -> Self {
        self.inner.approvals = approvals;
        self
    }

    /// Where the rules of earlier approvals are kept.
    #[must_use]
    pub fn saved_rules(mut self, saved_rules: Arc<dyn SavedRules>) -> Self {
        self.inner.saved_rules = saved_rules;
        self
    }

    /// Where whole outputs are kept.
    #[must_use]
    pub fn outputs(mut self, outputs: Arc<dyn Outputs>) -> Self {
        self.inner.outputs = outputs;
        self
    }

    /// Who answers every call in place of its tool: nothing is judged, asked, run or recorded then.
    #[must_use]
    pub fn replay_from(mut self, answers: Arc<dyn ReplaySource>) -> Self {
        self.inner.answers = Some(answers);
        self
    }

    /// Where calls are recorded.
    #[must_use]
    pub fn ledger(mut self, ledger: Arc<dyn Ledger>) -> Self {
        self.inner.ledger = ledger;
        self
    }

    /// What must never be shown.
    #[must_use]
    pub fn redactor(mut self, redactor: Redactor) -> Self {
        self.inner.redactor = redactor;
        self
    }

    /// The sizes and times that bound every call.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.inner.limits = limits;
        self
    }

    /// A tool runs on its caller's thread until it first waits, instead of in a task from the start: small calls then
    /// cost no switch between tasks. Only for programs that watch that thread, since a tool that blocks it holds up the
    /// answer, deadline or not.
    #[must_use]
    pub fn start_in_place(mut self) -> Self {
        self.inner.starts_in_place = true;
        self
    }

    /// When a call that only looks returns the same long text that the same session of an agent was given a moment ago, it
    /// gets a line that says so. The same call once more gives the whole again.
    #[must_use]
    pub fn omit_repeats(mut self) -> Self {
        self.inner.repeats = Some(Default::default());
        self
    }

    /// The gate.
    pub fn build(self) -> Gate {
        let Self { mut inner, paths } = self;
        let workspace = inner.workspace_info.workspace.clone();
        let policy = Arc::make_mut(&mut inner.policy);
        policy.roots.workspace.clone_from(&workspace);
        inner.registry.add_to_profiles(&mut policy.profiles);
        inner.paths = paths.unwrap_or_else(|| Arc::new(LexicalPaths { workspace }));
        // What the gate keeps, tools may read.
        inner.services.insert::<dyn Outputs>(inner.outputs.clone());
        Gate(Arc::new(inner))
    }
}
