//! The fence that needs no program: rules, a seccomp program, and a room of its session's.

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
    layout::{self, Layout},
    notices, probe,
    rooms::{Inside, Rooms},
    rules,
    scratch::Scratches,
    syscalls::{self, Calls, Internet, Namespaces},
};
use crate::processes::{
    fence::{Fence, Recipe, Site, Walls},
    local,
};

pub(crate) struct Landlock {
    scratches: Scratches,
    rooms: Rooms,
    /// Whether mounts of its own can be had; tried once.
    mounts: OnceLock<bool>,
}

impl Landlock {
    /// Private directories of sessions are made below this one.
    pub(crate) fn in_directory(temporary: &Path) -> Self {
        let scratches = Scratches::in_directory(temporary);
        Self { scratches, rooms: Rooms::default(), mounts: OnceLock::new() }
    }

    /// As [`Landlock::in_directory`], for a machine that is known to let (or not to let) a program make mounts.
    pub(crate) fn knowing(temporary: &Path, has_mounts: bool) -> Self {
        Self { mounts: has_mounts.into(), ..Self::in_directory(temporary) }
    }

    fn with_mounts(&self, launch: &Launch, site: &Site) -> Result<Recipe, ToolError> {
        let scratch = self.scratches.of_session(&launch.session)?;
        let layout = Layout::of(site, launch.confinement.writes, &scratch)?;
        let rules = || rules::of(&layout, rules::Secrets::Covered).map(Some);
        let network = launch.confinement.network;
        let room = self.rooms.room(&launch.session, (&layout, &scratch), network, rules)?;
        // Without the network it is in one of its own, where it reaches the session's other programs and nobody else.
        let calls = Calls {
            internet: Internet::Allowed,
            unix: true,
            namespaces: Namespaces::Denied,
            attributes: true,
        };
        let walls = Walls {
            landlock: room.rules.clone(),
            inside: Some(Inside::of(room, &site.path)?),
            ..walls(calls)?
        };
        let mut recipe = recipe(launch, site, layout.tmp(), walls)?;
        report(&mut recipe, layout, Internet::of(network), &syscalls::program(calls)?);
        Ok(recipe)
    }

    /// Nothing is changed, so nothing has to be protected from change; and who has no sockets reaches nobody's.
    fn without_mounts(&self, launch: &Launch, site: &Site) -> Result<Recipe, ToolError> {
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
        let rules = rules::of(&layout, rules::Secrets::Bare)?;
        let walls = Walls {
            landlock: Some(Arc::new(rules)),
            inside: Some(Inside::nothing()),
            ..walls(calls)?
        };
        let mut recipe = recipe(launch, site, &scratch.tmp(), walls)?;
        let has_network = internet == Internet::Allowed;
        let internet = if has_network { internet } else { Internet::DeniedByReport };
        report(&mut recipe, layout, internet, &syscalls::program(Calls { internet, ..calls })?);
        Ok(recipe)
    }
}

impl Fence for Landlock {
    fn forget(&self, session: &str) {
        self.rooms.forget(session);
        self.scratches.forget(session);
    }

    fn place(&self) -> ExecutorKind {
        ExecutorKind::Sandbox
    }

    fn recipe(&self, launch: &Launch, site: &Site) -> Result<Recipe, ToolError> {
        let has_mounts = *self.mounts.get_or_init(|| probe::mounts().works);
        if has_mounts { self.with_mounts(launch, site) } else { self.without_mounts(launch, site) }
    }
}

fn walls(calls: Calls) -> Result<Walls, ToolError> {
    Ok(Walls {
        landlock: None,
        // Who reports keeps programs from the sockets of others. Where nobody can, there are none.
        seccomp: Some(syscalls::program(Calls { unix: false, ..calls })?),
        no_new_privileges: true,
        inside: None,
        reporter: None,
    })
}

/// Has it told what will be refused.
fn report(recipe: &mut Recipe, layout: Layout, internet: Internet, denying: &[sock_filter]) {
    let arranged = notices::arrange(Arc::new(layout), internet, None, denying);
    (recipe.walls.reporter, recipe.listening) = arranged.unzip();
}

fn recipe(launch: &Launch, site: &Site, tmp: &Path, walls: Walls) -> Result<Recipe, ToolError> {
    let command = local::command(&launch.program, site)?;
    let environment = layout::environment(site, tmp);
    Ok(Recipe { command, environment, walls, listening: None, interior: None })
}
