//! Measures running commands through haft against running them directly.

use std::{
    fs, io,
    process::{Command, Stdio},
    sync::Arc,
};

use haft_core::{CallRequest, Context, WriteFiles, files::Disk};
use haft_exec::{ProcessSettings, Workspace};
use serde_json::json;

use super::{Bench, BenchError, GateSetup, Goal, RowGoal, floors, megabytes, memory, ratio};

/// Number of concurrent commands.
const AT_ONCE: usize = 64;
/// The whole file system, read-only, in separate namespaces.
const BUBBLEWRAP: &[&str] = &[
    "--ro-bind",
    "/",
    "/",
    "--dev",
    "/dev",
    "--proc",
    "/proc",
    "--unshare-all",
    "--die-with-parent",
    "/bin/true",
];
/// Number of processes in a process tree.
const PROCESS_TREE: usize = 50;

/// A container started directly; removed on drop.
struct PlainContainer<'a> {
    engine: &'a str,
    name: String,
}

impl<'a> PlainContainer<'a> {
    fn start(engine: &'a str, image: &str) -> io::Result<Self> {
        let other = Self { engine, name: format!("haft-bench-{}", std::process::id()) };
        let words = ["run", "--detach", "--rm", "--pull", "never", "--network", "none", "--name"];
        let end = ["--entrypoint", "sh", image, "-c", "sleep 600"];
        let status = Command::new(engine).args(words).arg(&other.name).args(end).output()?.status;
        if status.success() {
            Ok(other)
        } else {
            Err(io::Error::other("no container to compare with"))
        }
    }
}

impl Drop for PlainContainer<'_> {
    fn drop(&mut self) {
        let _ = Command::new(self.engine).args(["rm", "--force", &self.name]).output();
    }
}

impl Bench {
    /// In a small workspace: the cost of inspecting many files has its own row.
    pub(super) fn running(&mut self) -> Result<(), BenchError> {
        let folder = self.corpus.folder.join("commands");
        fs::create_dir_all(&folder)?;
        let setup = GateSetup { folder: folder.clone(), ..self.setup() };
        let gate = setup.open()?;
        self.quick(
            ratio("bash, true", "fork and exec of `bash -c true`", 1.3),
            &mut || gate.call("bash", &json!({"command": "true"})),
            Some(&mut || Ok(floors::program("bash", &["-c", "true"], &folder)?)),
        )?;
        self.slow(
            ratio("bash, true, 64 at once", "fork and exec of as many", 1.3),
            &mut || {
                let call = || {
                    let input = json!({"command": "true"});
                    let request = CallRequest::new("bash", input, Context::new("bench"));
                    let gate = gate.gate.clone();
                    async move { gate.call(request).await }
                };
                let all: Vec<_> = (0..AT_ONCE).map(|_| gate.runtime.spawn(call())).collect();
                gate.runtime.block_on(async {
                    for one in all {
                        let _ = one.await;
                    }
                });
                Ok(())
            },
            Some(&mut || {
                let start =
                    |_| Command::new("bash").args(["-c", "true"]).stdin(Stdio::null()).spawn();
                let all: Result<Vec<_>, _> = (0..AT_ONCE).map(start).collect();
                for mut one in all? {
                    one.wait()?;
                }
                Ok(())
            }),
        )?;
        self.sandboxes(&setup)?;
        self.containers(&setup)?;
        self.communication(&setup)?;
        self.ending(&setup)?;
        self.surveying()
    }

    /// In each sandbox that works here, against bubblewrap alone.
    fn sandboxes(&mut self, setup: &GateSetup) -> Result<(), BenchError> {
        const ALONE: &str = "bubblewrap alone around `true`";
        let rows = [
            (ProcessSettings::Landlock, ratio("bash, true, behind Landlock", ALONE, 0.5)),
            (ProcessSettings::Bubblewrap, ratio("bash, true, in bubblewrap", ALONE, 1.3)),
        ];
        for (sandbox, aim) in rows {
            if !aim.what.contains(&self.extent.only) || !sandbox.works() {
                continue;
            }
            let gate =
                GateSetup { sandbox, folder: setup.folder.clone(), ..self.setup() }.open()?;
            let mut alone = || Ok(floors::program("bwrap", BUBBLEWRAP, &setup.folder)?);
            self.quick(
                aim,
                &mut || gate.call("bash", &json!({"command": "true"})),
                floors::has("bwrap").then_some(&mut alone as _),
            )?;
        }
        self.in_fresh_process(setup)
    }

    /// One command of a new process each time: settings, store, sandbox and all. Earlier processes
    /// remember which sandboxes work.
    fn in_fresh_process(&mut self, setup: &GateSetup) -> Result<(), BenchError> {
        let haft = env!("CARGO_BIN_EXE_haft");
        let mut alone = || Ok(floors::program("bwrap", BUBBLEWRAP, &setup.folder)?);
        self.quick(
            ratio("bash, true, from a fresh process", "bubblewrap alone around `true`", 4.0),
            &mut || Ok(floors::program(haft, &["bash", "true"], &setup.folder)?),
            floors::has("bwrap").then_some(&mut alone as _),
        )
    }

    /// In a running container, against the engine's own `exec`. Skipped without `--container`.
    fn containers(&mut self, setup: &GateSetup) -> Result<(), BenchError> {
        const AIM: RowGoal =
            ratio("bash, true, in a warm container", "`podman exec` of `true`", 1.5);
        let Some(container) = self.extent.container.clone() else { return Ok(()) };
        if !AIM.what.contains(&self.extent.only) {
            return Ok(());
        }
        let sandbox = ProcessSettings::Container(container.clone());
        let gate = GateSetup { sandbox, folder: setup.folder.clone(), ..self.setup() }.open()?;
        let engine = container.engine.as_deref().unwrap_or("podman");
        let other = PlainContainer::start(engine, &container.image)?;
        self.slow(
            AIM,
            &mut || gate.call("bash", &json!({"command": "true"})),
            Some(&mut || {
                Ok(floors::program(engine, &["exec", &other.name, "true"], &setup.folder)?)
            }),
        )
    }

    fn communication(&mut self, setup: &GateSetup) -> Result<(), BenchError> {
        let gate = setup.open()?;
        let file = setup.folder.join("by-hand");
        let command = format!("yes | head -c 2G > {}", file.display());
        let talk = json!({"command": "yes | head -c 2G"});
        if "bash, 2 GB of output".contains(&self.extent.only) {
            let before = memory();
            gate.call("bash", &talk)?;
            self.hold("bash, 2 GB of output", memory().saturating_sub(before), megabytes(16));
        }
        self.slow(
            ratio("bash, 2 GB of output", "the same into a file", 1.3),
            &mut || gate.call("bash", &talk),
            Some(&mut || Ok(floors::program("bash", &["-c", &command], &setup.folder)?)),
        )?;
        let _ = fs::remove_file(&file);
        Ok(())
    }

    fn ending(&mut self, setup: &GateSetup) -> Result<(), BenchError> {
        let gate = setup.open()?;
        let goal = Goal::Microseconds(300_000.0);
        let aim =
            RowGoal { what: "bash, the end of 50 processes", against: "300 milliseconds", goal };
        let command =
            format!("for i in $(seq {PROCESS_TREE}); do setsid sleep 600 & done; echo up; wait");
        let mut started = Vec::new();
        for _ in 0..=self.extent.rounds {
            let input = json!({"command": command, "background": true});
            let id = gate.answer("bash", &input)?.data.unwrap_or_default()["id"].clone();
            gate.call("process", &json!({"action": "wait", "id": id, "pattern": "up"}))?;
            started.push(id);
        }
        self.slow(
            aim,
            &mut || {
                let id = started.pop().unwrap_or_default();
                gate.call("process", &json!({"action": "kill", "id": id}))
            },
            None,
        )
    }

    fn surveying(&mut self) -> Result<(), BenchError> {
        let folder = self.corpus.folder.join("tree");
        let disk: Arc<dyn Disk> = Arc::new(Workspace::open(&folder)?);
        let files = WriteFiles::unchecked(disk);
        self.slow(
            ratio("bash, a look at 40,000 files", "walking and asking for each by hand", 1.3),
            &mut || {
                files
                    .scan(usize::MAX, &|| false)
                    .map(drop)
                    .map_err(|error| BenchError::Tool(Box::new(error)))
            },
            Some(&mut || Ok(floors::stat_all(&folder)?)),
        )
    }
}
