//! Whether each mechanism works here, found out by using it: a program is started behind it that must fail at what is
//! forbidden and succeed at what is not.

use std::{
    fs, io,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, OnceLock},
    time::Duration,
};

use haft_core::{
    ToolError,
    commands::{Confinement, Launch, Program, Stdin, Streams},
    files::FileGrant,
};

use super::{
    Bubblewrap, Landlock, bubblewrap,
    layout::Layout,
    remembered,
    rooms::{Inside, Rooms},
    rules,
    scratch::{Scratch, Scratches},
    syscalls::{self, Calls, Internet, Namespaces},
    trial,
};
use crate::{
    Workspace,
    processes::{
        fence::{Fence, Recipe, Site, Walls},
        limits::{Allowance, LimitBackend},
    },
};

/// How it stands with one mechanism on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeResult {
    /// What was tried.
    pub mechanism: &'static str,
    /// Whether it does what it has to.
    pub works: bool,
    /// What was found.
    pub detail: String,
    /// What to do about it, if something can be done.
    pub advice: Option<String>,
}

const LIMIT: Duration = Duration::from_secs(2);
const TEMPORARY: &str = "/tmp";
const INSTALL_BUBBLEWRAP: &str = "install the package `bubblewrap` (0.8 or later)";
const ALLOW_NAMESPACES: &str = "allow user namespaces (sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns=0)";

/// Tries each sandbox mechanism, whatever earlier processes found, and says what it is worth for this workspace.
pub fn verdicts(workspace: &Workspace) -> Vec<ProbeResult> {
    let mounts = try_mounts();
    let mut all = vec![try_landlock(mounts.works), seccomp(), mounts, try_bubblewrap(), limits()];
    remembered::replace(&all);
    let is_everything = workspace.roots.iter().any(|root| root.path.parent().is_none());
    if is_everything {
        all.push(ProbeResult {
            mechanism: "workspace",
            works: false,
            detail: "it is `/`, and no sandbox goes around a whole machine".to_owned(),
            advice: Some("start haft in the folder of a project".to_owned()),
        });
    }
    all
}

/// What keeps commands from taking all there is.
fn limits() -> ProbeResult {
    let (works, detail, advice) = match Allowance::default().held() {
        LimitBackend::Group => (true, "a control group holds all commands together", None),
        LimitBackend::Each => (
            true,
            "each process has limits of its own: no control group can be made",
            Some(
                "start haft where control groups are delegated (`systemd-run --user --scope haft …`)",
            ),
        ),
        LimitBackend::MemoryOnly => (
            false,
            "nothing holds the number of processes: root without control groups",
            Some("do not run haft as root, or let it make control groups"),
        ),
    };
    ProbeResult {
        mechanism: "limits",
        works,
        detail: detail.to_owned(),
        advice: advice.map(str::to_owned),
    }
}

const LANDLOCK: &str = "landlock";
const MOUNTS: &str = "user namespaces";
const BUBBLEWRAP: &str = "bubblewrap";

/// The sandbox that needs no program. Like the next two: tried once in the life of this process, unless an earlier one did.
pub(crate) fn landlock() -> &'static ProbeResult {
    static FOUND: OnceLock<ProbeResult> = OnceLock::new();
    FOUND.get_or_init(|| remembered::or_try(LANDLOCK, || try_landlock(mounts().works)))
}

/// Whether a child can make its own mounts.
pub(crate) fn mounts() -> &'static ProbeResult {
    static FOUND: OnceLock<ProbeResult> = OnceLock::new();
    FOUND.get_or_init(|| remembered::or_try(MOUNTS, try_mounts))
}

/// The sandbox that bubblewrap builds.
pub(crate) fn bubblewrap() -> &'static ProbeResult {
    static FOUND: OnceLock<ProbeResult> = OnceLock::new();
    FOUND.get_or_init(|| remembered::or_try(BUBBLEWRAP, try_bubblewrap))
}

fn try_landlock(has_mounts: bool) -> ProbeResult {
    let version = rules::version();
    let advice = "use Linux 6.12 or later with `landlock` among its security modules (lsm=…), or install bubblewrap";
    if version < rules::NEEDED {
        let detail = match version {
            0 => "the kernel has no Landlock, or it is off".to_owned(),
            version => {
                format!("version {version}; version {} keeps signals and sockets in", rules::NEEDED)
            }
        };
        let advice = Some(advice.to_owned());
        return ProbeResult { mechanism: LANDLOCK, works: false, detail, advice };
    }
    let fence = Landlock::knowing(Path::new(TEMPORARY), has_mounts);
    let tried = Ground::make()
        .and_then(|ground| ground.hold(has_mounts, |launch, site| fence.recipe(launch, site)));
    let detail = if has_mounts {
        format!("version {version}")
    } else {
        format!("version {version}; without mounts only for commands that change nothing")
    };
    verdict(LANDLOCK, tried, detail, advice)
}

/// Whether the kernel can be told to deny system calls.
fn seccomp() -> ProbeResult {
    let advice = "use a kernel with CONFIG_SECCOMP_FILTER";
    verdict("seccomp", denied_calls(), "calls are denied".to_owned(), advice)
}

fn try_mounts() -> ProbeResult {
    let tried = Ground::make().and_then(|ground| ground.mount());
    let advice = format!("{ALLOW_NAMESPACES}, or {INSTALL_BUBBLEWRAP}");
    verdict(MOUNTS, tried, "a program can have its own mounts".to_owned(), &advice)
}

fn try_bubblewrap() -> ProbeResult {
    let Some(program) = bubblewrap::installed() else {
        return ProbeResult {
            mechanism: BUBBLEWRAP,
            works: false,
            detail: "not installed".to_owned(),
            advice: Some(INSTALL_BUBBLEWRAP.to_owned()),
        };
    };
    let tried = Ground::make().and_then(|ground| {
        let fence = Bubblewrap::find(Path::new(TEMPORARY))?;
        ground.hold(true, |launch, site| fence.recipe(launch, site))
    });
    let advice = format!("{INSTALL_BUBBLEWRAP}; {ALLOW_NAMESPACES}");
    verdict(BUBBLEWRAP, tried, program.display().to_string(), &advice)
}

fn verdict(
    mechanism: &'static str,
    tried: Result<(), ToolError>,
    detail: String,
    advice: &str,
) -> ProbeResult {
    match tried {
        Ok(()) => ProbeResult { mechanism, works: true, detail, advice: None },
        Err(error) => {
            let cause = std::error::Error::source(&error)
                .map(|cause| format!(": {cause}"))
                .unwrap_or_default();
            let detail = format!("{}{cause}", error.message());
            ProbeResult { mechanism, works: false, detail, advice: Some(advice.to_owned()) }
        }
    }
}

/// A workspace, a home and a file outside to try things on.
struct Ground {
    scratch: Arc<Scratch>,
    scratches: Scratches,
    site: Site,
}

/// Each number that it can end with is something that was not as it must be.
const SCRIPT: &str = r#"
echo x > .git/hooks/pre-commit && exit 20
echo x >> .git/config && exit 21
echo x > .haft/x && exit 22
echo x > "$OUTSIDE"
cat "$HOME/.ssh/id" && exit 24
kill -0 "$HAFT" && exit 25
echo x > /proc/sys/kernel/ostype && exit 26
unshare -U true && exit 27
echo x > /dev/null || exit 10
file=$(mktemp) && echo x > "$file" || exit 11
[ "$(cat readable | cat)" = yes ] || exit 12
[ "$WRITES" = no ] && exit 0
echo x > made && [ -s made ] || exit 13
"#;

fn meaning(code: i32) -> &'static str {
    match code {
        10 => "`/dev/null` cannot be used",
        11 => "no temporary file can be made",
        12 => "the workspace cannot be read",
        13 => "the workspace cannot be written",
        20 => "a hook of git can be written",
        21 => "the settings of git can be written",
        22 => "`.haft` can be written",
        24 => "a secret can be read",
        25 => "a process outside can be signalled",
        26 => "a setting of the kernel can be written",
        27 => "a user namespace can be made",
        _ => "a shell does not run as it should",
    }
}

impl Ground {
    fn make() -> Result<Self, ToolError> {
        let scratches = Scratches::in_directory(Path::new(TEMPORARY));
        let scratch = scratches.of_session("ground")?;
        let site = Self::prepare(&scratch.tmp()).map_err(not_tried)?;
        Ok(Self { scratch, scratches, site })
    }

    fn prepare(at: &Path) -> io::Result<Site> {
        let at = at.canonicalize()?;
        let path = at.join("workspace");
        for folder in [path.join(".git/hooks"), at.join("home/.ssh")] {
            fs::create_dir_all(folder)?;
        }
        for (file, text) in
            [("workspace/.git/config", ""), ("workspace/readable", "yes"), ("home/.ssh/id", "key")]
        {
            fs::write(at.join(file), text)?;
        }
        let directory = OwnedFd::from(fs::File::open(&path)?);
        let environment = [
            (
                "PATH",
                PathBuf::from(
                    "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/run/current-system/sw/bin",
                ),
            ),
            ("HOME", at.join("home")),
            ("OUTSIDE", at.join("outside")),
            ("HAFT", std::process::id().to_string().into()),
        ];
        let environment = environment.map(|(name, value)| (name.into(), value.into())).into();
        let workspace = Arc::new(Workspace::open(&path)?);
        Ok(Site {
            workspace,
            directory,
            path,
            environment,
            closed: Arc::default(),
            private: Arc::default(),
            shown: Arc::default(),
        })
    }

    fn hold(
        mut self,
        writes: bool,
        prepare: impl FnOnce(&Launch, &Site) -> Result<Recipe, ToolError>,
    ) -> Result<(), ToolError> {
        self.site.environment.push(("WRITES".into(), if writes { "yes" } else { "no" }.into()));
        let launch = launch(SCRIPT, writes);
        let recipe = prepare(&launch, &self.site)?;
        self.end(recipe)
    }

    /// Mounts and nothing else.
    fn mount(self) -> Result<(), ToolError> {
        let scratch = self.scratches.of_session("mounts")?;
        let layout = Layout::of(&self.site, true, &scratch)?;
        let room = Rooms::default().room("mounts", (&layout, &scratch), false, || Ok(None))?;
        let shell =
            self.site.find("sh").ok_or_else(|| ToolError::unavailable("there is no `sh`"))?;
        let script = "echo x > .git/hooks/pre-commit && exit 20; echo x > made";
        let command = vec![shell.into(), "-c".into(), script.into()];
        let environment = self.site.environment.clone();
        let recipe = Recipe {
            command,
            environment,
            walls: Walls { inside: Some(Inside::of(room, &self.site.path)?), ..Walls::default() },

            listening: None,
            interior: None,
        };
        self.end(recipe)
    }

    fn end(self, recipe: Recipe) -> Result<(), ToolError> {
        let outcome = trial::run(recipe, &self.site.path, LIMIT).map_err(not_tried)?;
        // A program may well write to that path, in a place of its own.
        if self.scratch.tmp().join("outside").exists() {
            return Err(ToolError::unavailable("a file outside can be written"));
        }
        match (outcome.code, outcome.signal) {
            (Some(0), _) => Ok(()),
            (Some(code), _) => {
                let said: String =
                    outcome.output.lines().last().unwrap_or_default().chars().take(200).collect();
                let last = if code < 20 || meaning(code) == meaning(1) {
                    format!(" ({said})")
                } else {
                    String::new()
                };
                Err(ToolError::unavailable(format!("{}{last}", meaning(code))))
            }
            (None, _) => Err(ToolError::unavailable("the trial did not end within two seconds")),
        }
    }
}

fn not_tried(error: io::Error) -> ToolError {
    ToolError::unavailable("the trial could not be started").caused_by(error)
}

fn launch(script: &str, writes: bool) -> Launch {
    Launch {
        session: "probe".to_owned(),
        program: Program::Shell(script.to_owned()),
        directory: PathBuf::from("."),
        environment: Vec::new(),
        secrets: Vec::new(),
        confinement: Confinement { network: false, writes },
        input: Stdin::Closed,
        streams: Streams::Joined,
        grant: FileGrant::none(),
    }
}

/// A child that has put the wall up tries what it forbids, and what it does not.
fn denied_calls() -> Result<(), ToolError> {
    let calls = Calls {
        internet: Internet::Denied,
        unix: true,
        namespaces: Namespaces::Denied,
        attributes: true,
    };
    let seccomp = Some(syscalls::program(calls)?);
    let mut command = Command::new("/proc/self/exe");
    trial::put_up(&mut command, Walls { seccomp, no_new_privileges: true, ..Walls::default() });
    let tries = || {
        let is_denied = |family: i32| {
            #[expect(unsafe_code, reason = "a plain call, between fork and exec")]
            // SAFETY: takes and gives numbers.
            let handle = unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
            handle < 0
        };
        let is_right = is_denied(libc::AF_INET) && !is_denied(libc::AF_UNIX);
        // The program is never started: the answer is in the error.
        Err(io::Error::from_raw_os_error(if is_right { libc::ECANCELED } else { libc::EPROTO }))
    };
    #[expect(unsafe_code, reason = "std has no other door between fork and exec")]
    // SAFETY: as in `trial.rs`; the closure makes two calls and allocates nothing.
    unsafe {
        command.pre_exec(tries);
    }
    match command.spawn().map(drop) {
        Err(error) if error.raw_os_error() == Some(libc::ECANCELED) => Ok(()),
        Err(error) => Err(ToolError::unavailable("calls are not denied").caused_by(error)),
        Ok(()) => Err(ToolError::unavailable("calls are not denied")),
    }
}
