//! What running commands costs, against running them by hand.

use std::{
    fs, io,
    process::{Command, Stdio},
    sync::Arc,
};

use haft_core::{CallRequest, Context, WriteFiles, files::Disk};
use haft_exec::{ProcessSettings, Workspace};
use serde_json::json;

use super::{Aim, Bench, Desk, Failure, Goal, floors, megabytes, memory, ratio};

/// Commands that run at once.
const AT_ONCE: usize = 64;
/// All of the machine, read-only, in namespaces of its own.
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
/// A process and those below it.
const FAMILY: usize = 50;

/// A container made by hand; it goes with this.
struct Other<'a> {
    engine: &'a str,
    name: String,
}

impl<'a> Other<'a> {
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

impl Drop for Other<'_> {
    fn drop(&mut self) {
        let _ = Command::new(self.engine).args(["rm", "--force", &self.name]).output();
    }
}

impl Bench {
    /// In a small workspace: what a look at many files costs has a row of its own.
    pub(super) fn running(&mut self) -> Result<(), Failure> {
        let folder = self.corpus.folder.join("commands");
        fs::create_dir_all(&folder)?;
        let desk = Desk { folder: folder.clone(), ..self.desk() };
        let gate = desk.open()?;
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
        self.fencing(&desk)?;
        self.containing(&desk)?;
        self.talking(&desk)?;
        self.ending(&desk)?;
        self.surveying()
    }

    /// Behind each fence that works here, against bubblewrap around nothing but `true`.
    fn fencing(&mut self, desk: &Desk) -> Result<(), Failure> {
        const ALONE: &str = "bubblewrap alone around `true`";
        let rows = [
            (ProcessSettings::Landlock, ratio("bash, true, behind Landlock", ALONE, 0.5)),
            (ProcessSettings::Bubblewrap, ratio("bash, true, in bubblewrap", ALONE, 1.3)),
        ];
        for (around, aim) in rows {
            if !aim.what.contains(&self.extent.only) || !around.works() {
                continue;
            }
            let gate = Desk { around, folder: desk.folder.clone(), ..self.desk() }.open()?;
            let mut alone = || Ok(floors::program("bwrap", BUBBLEWRAP, &desk.folder)?);
            self.quick(
                aim,
                &mut || gate.call("bash", &json!({"command": "true"})),
                floors::has("bwrap").then_some(&mut alone as _),
            )?;
        }
        Ok(())
    }

    /// In a container that is there already, against the engine's own way to run something in one. Left out without
    /// `--container`.
    fn containing(&mut self, desk: &Desk) -> Result<(), Failure> {
        const AIM: Aim = ratio("bash, true, in a warm container", "`podman exec` of `true`", 1.5);
        let Some(container) = self.extent.container.clone() else { return Ok(()) };
        if !AIM.what.contains(&self.extent.only) {
            return Ok(());
        }
        let around = ProcessSettings::Container(container.clone());
        let gate = Desk { around, folder: desk.folder.clone(), ..self.desk() }.open()?;
        let engine = container.engine.as_deref().unwrap_or("podman");
        let other = Other::start(engine, &container.image)?;
        self.slow(
            AIM,
            &mut || gate.call("bash", &json!({"command": "true"})),
            Some(&mut || {
                Ok(floors::program(engine, &["exec", &other.name, "true"], &desk.folder)?)
            }),
        )
    }

    fn talking(&mut self, desk: &Desk) -> Result<(), Failure> {
        let gate = desk.open()?;
        let file = desk.folder.join("by-hand");
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
            Some(&mut || Ok(floors::program("bash", &["-c", &command], &desk.folder)?)),
        )?;
        let _ = fs::remove_file(&file);
        Ok(())
    }

    fn ending(&mut self, desk: &Desk) -> Result<(), Failure> {
        let gate = desk.open()?;
        let goal = Goal::Microseconds(300_000.0);
        let aim = Aim { what: "bash, the end of 50 processes", against: "300 milliseconds", goal };
        let command =
            format!("for i in $(seq {FAMILY}); do setsid sleep 600 & done; echo up; wait");
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

    fn surveying(&mut self) -> Result<(), Failure> {
        let folder = self.corpus.folder.join("tree");
        let disk: Arc<dyn Disk> = Arc::new(Workspace::open(&folder)?);
        let files = WriteFiles::unchecked(disk);
        self.slow(
            ratio("bash, a look at 40,000 files", "walking and asking for each by hand", 1.3),
            &mut || {
                files
                    .scan(usize::MAX, &|| false)
                    .map(drop)
                    .map_err(|error| Failure::Tool(Box::new(error)))
            },
            Some(&mut || Ok(floors::stat_all(&folder)?)),
        )
    }
}
