//! The backend that needs no other program: Landlock rules, a seccomp program, and the namespace
//! set of the session.

use std::{
    path::Path,
    sync::{Arc, OnceLock},
};

use haft_core::{
    ToolError,
    commands::{ExecutorKind, Launch},
};

use seccompiler::sock_filter;

use super::{
    landlock_rules,
    layout::{self, Layout},
    namespace_set::{NamespaceEntry, NamespaceSets},
    notifications, probe,
    scratch::Scratches,
    syscalls::{self, Internet, Namespaces, SyscallPolicy},
};
use crate::processes::{
    backend::{ChildRestrictions, LaunchBackend, LaunchContext, Recipe},
    local,
};

pub(crate) struct Landlock {
    scratches: Scratches,
    namespace_sets: NamespaceSets,
    /// True when a child can create mounts; tried once.
    mounts: OnceLock<bool>,
}

impl Landlock {
    /// Creates the backend. Private directories of sessions are created below this one.
    pub(crate) fn in_directory(temporary: &Path) -> Self {
        let scratches = Scratches::in_directory(temporary);
        Self { scratches, namespace_sets: NamespaceSets::default(), mounts: OnceLock::new() }
    }

    /// Like [`Landlock::in_directory`], for a machine that is known to allow, or not to allow,
    /// mounts.
    pub(crate) fn knowing(temporary: &Path, has_mounts: bool) -> Self {
        Self { mounts: has_mounts.into(), ..Self::in_directory(temporary) }
    }

    fn with_mounts(&self, launch: &Launch, context: &LaunchContext) -> Result<Recipe, ToolError> {
        let scratch = self.scratches.of_session(&launch.session)?;
        let layout = Layout::of(context, launch.confinement.writes, &scratch)?;
        let rules = || landlock_rules::of(&layout, landlock_rules::SecretCover::Covered).map(Some);
        let network = launch.confinement.network;
        let namespace_set = self.namespace_sets.namespace_set(
            &launch.session,
            (&layout, &scratch),
            network,
            rules,
        )?;
        // Without the network it has its own, where it reaches only the other programs of the
        // session.
        let calls = SyscallPolicy {
            internet: Internet::Allowed,
            unix: true,
            namespaces: Namespaces::Denied,
            attributes: true,
        };
        let restrictions = ChildRestrictions {
            landlock: namespace_set.rules.clone(),
            namespaces: Some(NamespaceEntry::of(namespace_set, &context.path)?),
            ..restrictions(calls)?
        };
        let mut recipe = recipe(launch, context, layout.tmp(), restrictions)?;
        report(&mut recipe, layout, Internet::of(network), &syscalls::program(calls)?);
        Ok(recipe)
    }

    /// Changes nothing, so nothing needs protection; and without sockets it reaches no sockets of
    /// other programs.
    fn without_mounts(
        &self,
        launch: &Launch,
        context: &LaunchContext,
    ) -> Result<Recipe, ToolError> {
        if launch.confinement.writes {
            let verdict = probe::mounts();
            let message = "without private mounts a program that may write could change `.git/hooks`, `.git/config` and `.haft`";
            let hint = verdict
                .advice
                .as_deref()
                .unwrap_or("install bubblewrap, or run the command without writing");
            return Err(ToolError::unavailable(message).hint(hint));
        }
        let scratch = self.scratches.of_session(&launch.session)?;
        let layout = Layout::of(context, false, &scratch)?;
        let internet = Internet::of(launch.confinement.network);
        let calls = SyscallPolicy {
            internet,
            unix: false,
            namespaces: Namespaces::Denied,
            attributes: false,
        };
        let rules = landlock_rules::of(&layout, landlock_rules::SecretCover::Bare)?;
        let restrictions = ChildRestrictions {
            landlock: Some(Arc::new(rules)),
            namespaces: Some(NamespaceEntry::nothing()),
            ..restrictions(calls)?
        };
        let mut recipe = recipe(launch, context, &scratch.tmp(), restrictions)?;
        let has_network = internet == Internet::Allowed;
        let internet = if has_network { internet } else { Internet::DeniedByReport };
        report(
            &mut recipe,
            layout,
            internet,
            &syscalls::program(SyscallPolicy { internet, ..calls })?,
        );
        Ok(recipe)
    }
}

impl LaunchBackend for Landlock {
    fn forget(&self, session: &str) {
        self.namespace_sets.forget(session);
        self.scratches.forget(session);
    }

    fn kind(&self) -> ExecutorKind {
        ExecutorKind::Sandbox
    }

    fn recipe(&self, launch: &Launch, context: &LaunchContext) -> Result<Recipe, ToolError> {
        let has_mounts = *self.mounts.get_or_init(|| probe::mounts().works);
        if has_mounts {
            self.with_mounts(launch, context)
        } else {
            self.without_mounts(launch, context)
        }
    }
}

fn restrictions(calls: SyscallPolicy) -> Result<ChildRestrictions, ToolError> {
    Ok(ChildRestrictions {
        landlock: None,
        // The reporting filter blocks sockets of other programs. Without it all unix sockets are
        // denied.
        seccomp: Some(syscalls::program(SyscallPolicy { unix: false, ..calls })?),
        no_new_privileges: true,
        namespaces: None,
        reporter: None,
    })
}

/// Reports the denied calls.
fn report(recipe: &mut Recipe, layout: Layout, internet: Internet, denying: &[sock_filter]) {
    let arranged = notifications::prepare_reporting(Arc::new(layout), internet, None, denying);
    (recipe.restrictions.reporter, recipe.listening) = arranged.unzip();
}

fn recipe(
    launch: &Launch,
    context: &LaunchContext,
    tmp: &Path,
    restrictions: ChildRestrictions,
) -> Result<Recipe, ToolError> {
    let command = local::command(&launch.program, context)?;
    let environment = layout::environment(context, tmp);
    Ok(Recipe { command, environment, restrictions, listening: None, isolated: None })
}
