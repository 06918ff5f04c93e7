//! Checks whether each mechanism works here, by using it: a sandboxed program must fail at what is
//! forbidden and succeed at what is allowed.

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
    Bubblewrap, Landlock, bubblewrap, landlock_rules,
    layout::Layout,
    namespace_set::{NamespaceEntry, NamespaceSets},
    remembered,
    scratch::{Scratch, Scratches},
    syscalls::{self, Internet, Namespaces, SyscallPolicy},
    trial,
};
use crate::{
    Workspace,
    processes::{
        backend::{ChildRestrictions, LaunchBackend, LaunchContext, Recipe},
        limits::{Allowance, LimitBackend},
    },
};

/// The result for one mechanism on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeResult {
    /// The name of the mechanism.
    pub mechanism: &'static str,
    /// True when it works as required.
    pub works: bool,
    /// The finding in words.
    pub detail: String,
    /// How to fix it, if that is possible.
    pub advice: Option<String>,
}

const TIMEOUT: Duration = Duration::from_secs(2);
const TEMPORARY: &str = "/tmp";
const INSTALL_BUBBLEWRAP: &str = "install the package `bubblewrap` (0.8 or later)";
const ALLOW_NAMESPACES: &str = "allow user namespaces (sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns=0)";

/// Tries each sandbox mechanism, without results of earlier processes, and reports how it works for
/// this workspace.
pub fn verdicts(workspace: &Workspace) -> Vec<ProbeResult> {
    let mounts = try_mounts();
    let mut all = vec![try_landlock(mounts.works), seccomp(), mounts, try_bubblewrap(), limits()];
    remembered::replace(&all);
    let is_everything = workspace.roots.iter().any(|root| root.path.parent().is_none());
    if is_everything {
        all.push(ProbeResult {
            mechanism: "workspace",
            works: false,
            detail: "it is `/`, and a sandbox cannot contain the whole machine".to_owned(),
            advice: Some("start haft in the folder of a project".to_owned()),
        });
    }
    all
}

/// Reports how the resources of commands are limited.
fn limits() -> ProbeResult {
    let (works, detail, advice) = match Allowance::default().mechanism() {
        LimitBackend::Group => (true, "a control group limits all commands together", None),
        LimitBackend::Each => (
            true,
            "each process has its own limits: no control group can be created",
            Some(
                "start haft where control groups are delegated (`systemd-run --user --scope haft …`)",
            ),
        ),
        LimitBackend::MemoryOnly => (
            false,
            "the number of processes is unlimited: root without control groups",
            Some("do not run haft as root, or let it create control groups"),
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

/// The sandbox that needs no other program. Like the next two: tried once per process, unless an
/// earlier process did.
pub(crate) fn landlock() -> &'static ProbeResult {
    static FOUND: OnceLock<ProbeResult> = OnceLock::new();
    FOUND.get_or_init(|| remembered::or_try(LANDLOCK, || try_landlock(mounts().works)))
}

/// Returns whether a child can create mounts.
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
    let version = landlock_rules::version();
    let advice = "use Linux 6.12 or later with `landlock` among its security modules (lsm=…), or install bubblewrap";
    if version < landlock_rules::NEEDED {
        let detail = match version {
            0 => "the kernel has no Landlock, or it is off".to_owned(),
            version => {
                format!(
                    "version {version}; version {} is needed to restrict signals and sockets",
                    landlock_rules::NEEDED
                )
            }
        };
        let advice = Some(advice.to_owned());
        return ProbeResult { mechanism: LANDLOCK, works: false, detail, advice };
    }
    let backend = Landlock::knowing(Path::new(TEMPORARY), has_mounts);
    let tried = ProbeWorkspace::make().and_then(|workspace| {
        workspace.hold(has_mounts, |launch, context| backend.recipe(launch, context))
    });
    let detail = if has_mounts {
        format!("version {version}")
    } else {
        format!("version {version}; without mounts only for commands that change nothing")
    };
    verdict(LANDLOCK, tried, detail, advice)
}

/// Checks that the kernel can deny system calls.
fn seccomp() -> ProbeResult {
    let advice = "use a kernel with CONFIG_SECCOMP_FILTER";
    verdict("seccomp", denied_calls(), "calls are denied".to_owned(), advice)
}

fn try_mounts() -> ProbeResult {
    let tried = ProbeWorkspace::make().and_then(|workspace| workspace.mount());
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
    let tried = ProbeWorkspace::make().and_then(|workspace| {
        let backend = Bubblewrap::find(Path::new(TEMPORARY))?;
        workspace.hold(true, |launch, context| backend.recipe(launch, context))
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

/// A workspace, a home directory and a file outside, for a probe.
struct ProbeWorkspace {
    scratch: Arc<Scratch>,
    scratches: Scratches,
    context: LaunchContext,
}

/// Each exit code stands for something that should not be possible, or should be.
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
        _ => "a shell does not work",
    }
}

impl ProbeWorkspace {
    fn make() -> Result<Self, ToolError> {
        let scratches = Scratches::in_directory(Path::new(TEMPORARY));
        let scratch = scratches.of_session("workspace")?;
        let context = Self::prepare(&scratch.tmp()).map_err(not_tried)?;
        Ok(Self { scratch, scratches, context })
    }

    fn prepare(at: &Path) -> io::Result<LaunchContext> {
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
        Ok(LaunchContext {
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
        prepare: impl FnOnce(&Launch, &LaunchContext) -> Result<Recipe, ToolError>,
    ) -> Result<(), ToolError> {
        self.context.environment.push(("WRITES".into(), if writes { "yes" } else { "no" }.into()));
        let launch = launch(SCRIPT, writes);
        let recipe = prepare(&launch, &self.context)?;
        self.end(recipe)
    }

    /// Tries mounts without other restrictions.
    fn mount(self) -> Result<(), ToolError> {
        let scratch = self.scratches.of_session("mounts")?;
        let layout = Layout::of(&self.context, true, &scratch)?;
        let namespace_set =
            NamespaceSets::default()
                .namespace_set("mounts", (&layout, &scratch), false, || Ok(None))?;
        let shell =
            self.context.find("sh").ok_or_else(|| ToolError::unavailable("there is no `sh`"))?;
        let script = "echo x > .git/hooks/pre-commit && exit 20; echo x > made";
        let command = vec![shell.into(), "-c".into(), script.into()];
        let environment = self.context.environment.clone();
        let recipe = Recipe {
            command,
            environment,
            restrictions: ChildRestrictions {
                namespaces: Some(NamespaceEntry::of(namespace_set, &self.context.path)?),
                ..ChildRestrictions::default()
            },

            listening: None,
            isolated: None,
        };
        self.end(recipe)
    }

    fn end(self, recipe: Recipe) -> Result<(), ToolError> {
        let outcome = trial::run(recipe, &self.context.path, TIMEOUT).map_err(not_tried)?;
        // A program may write to that path in a private directory.
        if self.scratch.tmp().join("outside").exists() {
            return Err(ToolError::unavailable("a file outside can be written"));
        }
        match (outcome.code, outcome.signal) {
            (Some(0), _) => Ok(()),
            (Some(code), _) => {
                let last_line: String =
                    outcome.output.lines().last().unwrap_or_default().chars().take(200).collect();
                let last = if code < 20 || meaning(code) == meaning(1) {
                    format!(" ({last_line})")
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

/// A child with the restrictions tries what they forbid, and what they allow.
fn denied_calls() -> Result<(), ToolError> {
    let calls = SyscallPolicy {
        internet: Internet::Denied,
        unix: true,
        namespaces: Namespaces::Denied,
        attributes: true,
    };
    let seccomp = Some(syscalls::program(calls)?);
    let mut command = Command::new("/proc/self/exe");
    trial::apply(
        &mut command,
        ChildRestrictions { seccomp, no_new_privileges: true, ..ChildRestrictions::default() },
    );
    let tries = || {
        let is_denied = |family: i32| {
            #[expect(unsafe_code, reason = "a plain call, between fork and exec")]
            // SAFETY: takes and returns numbers.
            let handle = unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
            handle < 0
        };
        let is_right = is_denied(libc::AF_INET) && !is_denied(libc::AF_UNIX);
        // The program is never started: the result is in the error.
        Err(io::Error::from_raw_os_error(if is_right { libc::ECANCELED } else { libc::EPROTO }))
    };
    #[expect(unsafe_code, reason = "only pre_exec runs code between fork and exec")]
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
