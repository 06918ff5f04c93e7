//! The fence that needs no program: rules, a seccomp program, and mounts that the child makes for itself.

use std::{
    path::Path,
    sync::{Arc, OnceLock},
};

use haft_core::{
    ToolError,
    commands::{ExecutorPlace, Launch},
};

use super::{
    layout::{self, Layout},
    mounts::Mounts,
    notices, probe, rules,
    scratch::Scratches,
    syscalls::{self, Calls, Internet, Namespaces},
};
use crate::programs::{
    fence::{Fence, Recipe, Site, Walls},
    local,
};

pub(crate) struct Landlock {
    scratches: Scratches,
    /// Whether mounts of its own can be had; tried once.
    mounts: OnceLock<bool>,
}

/// A recipe, and what the child has to do about its mounts and rights before the walls go up.
pub(crate) struct Prepared {
    pub(crate) recipe: Recipe,
    pub(crate) mounts: Option<Arc<Mounts>>,
}

impl Landlock {
    /// Private directories of sessions are made below this one.
    pub(crate) fn in_directory(temporary: &Path) -> Self {
        Self { scratches: Scratches::in_directory(temporary), mounts: OnceLock::new() }
    }

    /// As [`Landlock::in_directory`], for a machine that is known to let (or not to let) a program make mounts.
    pub(crate) fn knowing(temporary: &Path, has_mounts: bool) -> Self {
        Self { mounts: has_mounts.into(), ..Self::in_directory(temporary) }
    }

    /// # Errors
    /// As [`Fence::recipe`].
    pub(crate) fn prepare(&self, launch: &Launch, site: &Site) -> Result<Prepared, ToolError> {
        let has_mounts = *self.mounts.get_or_init(|| probe::mounts().works);
        if has_mounts { self.with_mounts(launch, site) } else { self.without_mounts(launch, site) }
    }

    fn with_mounts(&self, launch: &Launch, site: &Site) -> Result<Prepared, ToolError> {
        let scratch = self.scratches.of_session(&launch.session)?;
        let layout = Layout::of(site, launch.confinement.writes, &scratch)?;
        let internet = Internet::of(launch.confinement.network);
        let calls =
            Calls { internet, unix: true, namespaces: Namespaces::Denied, attributes: true };
        let walls = walls(rules::of(&layout, rules::Secrets::Covered)?, calls)?;
        let mounts = Mounts::of(&layout, &scratch, &site.path)?;
        let mut recipe = recipe(launch, site, layout.tmp(), walls)?;
        report(&mut recipe, layout, calls)?;
        Ok(Prepared { recipe, mounts: Some(Arc::new(mounts)) })
    }

    /// Nothing is changed, so nothing has to be protected from change; and who has no sockets reaches nobody's.
    fn without_mounts(&self, launch: &Launch, site: &Site) -> Result<Prepared, ToolError> {
        if launch.confinement.writes {
            let verdict = probe::mounts();
            let message = "without mounts of its own a program that may write could change `.git/hooks`, `.git/config` and `.haft`";
            let hint = verdict
                .advice
                .as_deref()
                .unwrap_or("install bubblewrap, or run the command without writing");
            return Err(ToolError::unavailable(message).hint(hint));
        }
        let scratch = self.scratches.of_session(&launch.session)?;
        let layout = Layout::of(site, false, &scratch)?;
        let internet = Internet::of(launch.confinement.network);
        let calls =
            Calls { internet, unix: false, namespaces: Namespaces::Denied, attributes: false };
        let walls = walls(rules::of(&layout, rules::Secrets::Bare)?, calls)?;
        let mut recipe = recipe(launch, site, &scratch.tmp(), walls)?;
        report(&mut recipe, layout, calls)?;
        Ok(Prepared { recipe, mounts: Some(Arc::new(Mounts::none())) })
    }
}

impl Fence for Landlock {
    fn forget(&self, session: &str) {
        self.scratches.forget(session);
    }

    fn place(&self) -> ExecutorPlace {
        ExecutorPlace::Sandbox
    }

    fn recipe(&self, launch: &Launch, site: &Site) -> Result<Recipe, ToolError> {
        let Prepared { mut recipe, mounts } = self.prepare(launch, site)?;
        recipe.walls.mounts = mounts;
        Ok(recipe)
    }
}

fn walls(rules: std::os::fd::OwnedFd, calls: Calls) -> Result<Walls, ToolError> {
    Ok(Walls {
        landlock: Some(rules),
        seccomp: Some(syscalls::program(calls)?),
        no_new_privileges: true,
        mounts: None,
        reporter: None,
    })
}

/// Has it told what will be refused.
fn report(recipe: &mut Recipe, layout: Layout, calls: Calls) -> Result<(), ToolError> {
    let has_network = calls.internet == Internet::Allowed;
    let internet = if has_network { calls.internet } else { Internet::DeniedByReport };
    let behind = syscalls::program(Calls { internet, ..calls })?;
    let arranged = notices::arrange(Arc::new(layout), internet, None, behind);
    (recipe.walls.reporter, recipe.listening) = arranged.unzip();
    Ok(())
}

fn recipe(launch: &Launch, site: &Site, tmp: &Path, walls: Walls) -> Result<Recipe, ToolError> {
    let command = local::command(&launch.program, site)?;
    let environment = layout::environment(site, tmp);
    Ok(Recipe { command, environment, walls, is_whole: false, listening: None, interior: None })
}
