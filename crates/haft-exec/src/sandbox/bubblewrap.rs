//! The fence that bubblewrap builds: processes of their own, and, where it is not started in a room, the layout as mounts and
//! an empty network when there is to be none. The seccomp program and the scopes of Landlock go up before bubblewrap starts, so they leave it what it needs.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use haft_core::{
    ToolError,
    commands::{ExecutorKind, Launch, Stdin},
};

use seccompiler::BpfProgram;

use super::{
    layout::{self, Access, Layout, Part},
    notices, probe,
    rooms::{Inside, Rooms},
    rules,
    scratch::{Scratch, Scratches},
    syscalls::{self, Calls, Internet, Namespaces},
};
use crate::processes::{
    fence::{Fence, Recipe, Site, Walls},
    local,
};

pub(crate) struct Bubblewrap {
    program: PathBuf,
    scratches: Scratches,
    rooms: Rooms,
    /// Whether it is started in a room; tried once.
    has_rooms: OnceLock<bool>,
    /// Without it bubblewrap needs a user namespace.
    is_root: bool,
    has_scopes: bool,
}

/// Not the path of anybody's environment: what builds a wall must not come from who stands behind it.
const PLACES: &[&str] =
    &["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap"];

/// Of root's rights those over files, so that it can work in folders of others.
const KEPT_RIGHTS: &[&str] = &["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID"];

/// What programs look for in `/sys`. All of it would be twenty mounts to make read-only, one by one.
const OF_SYS: &[&str] = &["/sys/devices/system", "/sys/kernel/mm"];

/// Where the program is, if it is installed.
pub(crate) fn installed() -> Option<PathBuf> {
    PLACES.iter().map(PathBuf::from).find(|path| path.is_file())
}

impl Bubblewrap {
    /// # Errors
    /// Of kind `unavailable` when it is not installed.
    pub(crate) fn find(temporary: &Path) -> Result<Self, ToolError> {
        let program = installed().ok_or_else(|| {
            ToolError::unavailable("bubblewrap is not installed")
                .hint("install the package `bubblewrap`")
        })?;
        Ok(Self {
            program,
            scratches: Scratches::in_directory(temporary),
            rooms: Rooms::default(),
            has_rooms: OnceLock::new(),
            is_root: rustix::process::geteuid().is_root(),
            has_scopes: rules::version() >= rules::NEEDED,
        })
    }

    /// The walls, and what is denied where calls can be reported.
    fn walls(&self, launch: &Launch) -> Result<(Walls, Arc<BpfProgram>), ToolError> {
        let namespaces = if self.is_root { Namespaces::WithRights } else { Namespaces::WithUser };
        // In a network of its own there are no abstract sockets of others; in the machine's only the scopes keep them away.
        let unix = self.has_scopes || !launch.confinement.network;
        let landlock = if self.has_scopes { Some(Arc::new(rules::scopes_only()?)) } else { None };
        let calls = Calls { internet: Internet::Allowed, unix, namespaces, attributes: true };
        let walls = Walls {
            landlock,
            // Who reports keeps programs from the sockets of others. Where nobody can, there are none.
            seccomp: Some(syscalls::program(Calls { unix: false, ..calls })?),
            no_new_privileges: true,
            inside: None,
            reporter: None,
        };
        Ok((walls, syscalls::program(calls)?))
    }

    /// Builds all of it.
    fn builds_all(&self, launch: &Launch, (layout, scratch): (&Layout, &Scratch)) -> Vec<OsString> {
        let mut words = self.spaces(launch);
        words.add(["--unshare-ipc"]);
        if !launch.confinement.network {
            words.add(["--unshare-net"]);
        }
        words.0.extend(places(layout, scratch));
        words.0
    }

    /// Started in a room, where there is all but processes of its own.
    fn builds_the_rest(&self, launch: &Launch) -> Vec<OsString> {
        let mut words = self.spaces(launch);
        words.add(["--dev-bind", "/", "/", "--proc", "/proc", "--remount-ro", "/proc"]);
        words.0
    }

    fn spaces(&self, launch: &Launch) -> Words {
        let mut words = Words(vec![self.program.clone().into()]);
        words.add(["--die-with-parent", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]);
        if !matches!(launch.input, Stdin::Terminal { .. }) {
            words.add(["--new-session"]);
        }
        words.add(["--cap-drop", "ALL"]);
        if self.is_root {
            KEPT_RIGHTS.iter().for_each(|right| words.add(["--cap-add", right]));
        } else {
            words.add(["--unshare-user", "--disable-userns"]);
        }
        words
    }

    fn has_rooms(&self) -> bool {
        *self.has_rooms.get_or_init(|| probe::mounts().works)
    }
}

impl Fence for Bubblewrap {
    fn forget(&self, session: &str) {
        self.rooms.forget(session);
        self.scratches.forget(session);
    }

    fn place(&self) -> ExecutorKind {
        ExecutorKind::Sandbox
    }

    fn recipe(&self, launch: &Launch, site: &Site) -> Result<Recipe, ToolError> {
        let scratch = self.scratches.of_session(&launch.session)?;
        let layout = Layout::of(site, launch.confinement.writes, &scratch)?;
        let (mut walls, denying) = self.walls(launch)?;
        let mut words = if self.has_rooms() {
            let network = launch.confinement.network;
            let whole = (&layout, &*scratch);
            let room = self.rooms.room(&launch.session, whole, network, || Ok(None))?;
            walls.inside = Some(Inside { kept: None, ..Inside::of(room, &site.path)? });
            Words(self.builds_the_rest(launch))
        } else {
            Words(self.builds_all(launch, (&layout, &scratch)))
        };
        words.add(["--chdir".into(), site.path.clone().into_os_string(), "--".into()]);
        words.0.extend(local::command(&launch.program, site)?);
        let environment = layout::environment(site, layout.tmp());
        let internet = Internet::of(launch.confinement.network);
        let builder = Some(self.program.clone());
        let arranged = notices::arrange(Arc::new(layout), internet, builder, &denying);
        let (reporter, listening) = arranged.unzip();
        walls.reporter = reporter;
        let command = words.0;
        Ok(Recipe { command, environment, walls, listening, interior: None })
    }
}

fn places(layout: &Layout, scratch: &Scratch) -> Vec<OsString> {
    let mut words = Words::default();
    // Root needs no right but being the owner to change the machine by files of `/proc`.
    words.add(["--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev"]);
    words.add(["--dir", "/run", "--dir", "/var"]);
    for path in OF_SYS.iter().filter(|path| Path::new(path).exists()) {
        words.add(["--ro-bind", path, path]);
    }
    for part in &layout.parts {
        match part {
            Part::Shown { path, access } => {
                let how = if *access == Access::Write { "--bind" } else { "--ro-bind" };
                words.bind(how, path, path);
            }
            // It makes one by itself.
            Part::Private { at, .. } if at == Path::new(layout::SHARED_MEMORY) => {}
            Part::Private { at, source } => words.bind("--bind", source, at),
            Part::Hidden { path, is_directory } => {
                words.bind("--ro-bind", &scratch.nothing(*is_directory), path)
            }
            Part::Link { at, to } => words.bind("--symlink", to, at),
        }
    }
    words.add(["--remount-ro", "/"]);
    words.0
}

#[derive(Default)]
struct Words(Vec<OsString>);

impl Words {
    fn add<const N: usize>(&mut self, words: [impl Into<OsString>; N]) {
        self.0.extend(words.map(Into::into));
    }

    fn bind(&mut self, how: &str, source: &Path, at: &Path) {
        self.add([how.into(), source.as_os_str().to_owned(), at.as_os_str().to_owned()]);
    }
}
