//! A home directory and a project in a temporary folder, and functions to run haft in them: with
//! pipes, without a terminal, and on a real terminal screen.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use tempfile::TempDir;

const HAFT: &str = env!("CARGO_BIN_EXE_haft");
/// Much longer than any step takes. Only a failing test waits this long.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct Fixture {
    root: TempDir,
}

/// The result of a run. Paths in the fixture start with `<root>`, so that texts can be compared.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let fixture = Self { root: tempfile::tempdir().expect("a temporary folder") };
        for folder in ["home/.config/haft", "project/.haft"] {
            std::fs::create_dir_all(fixture.path(folder)).expect("a folder");
        }
        fixture
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.path().canonicalize().expect("the fixture stands").join(path)
    }

    fn write(self, path: &str, text: &str) -> Self {
        std::fs::write(self.path(path), text).expect("written");
        self
    }

    pub(crate) fn user_config(self, text: &str) -> Self {
        self.write("home/.config/haft/config.toml", text)
    }

    pub(crate) fn project_config(self, text: &str) -> Self {
        self.write("project/.haft/config.toml", text)
    }

    pub(crate) fn admin_config(self, text: &str) -> Self {
        self.write("admin.toml", text)
    }

    /// Returns haft as a user in the project would start it.
    pub(crate) fn haft(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(HAFT);
        self.prepare(&mut command);
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// Does the same without a terminal, wherever the tests run.
    pub(crate) fn haft_without_terminal(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("setsid");
        self.prepare(&mut command);
        command.arg("--wait").arg(HAFT).args(arguments).stdin(Stdio::null());
        command
    }

    /// Sets the folder and the environment of a command.
    pub(crate) fn prepare(&self, command: &mut Command) {
        let admin = self.path("admin.toml");
        command.current_dir(self.path("project")).env("HOME", self.path("home"));
        command.env("XDG_CONFIG_HOME", self.path("home/.config")).env("USER", "ada");
        for unwanted in [
            "CLICOLOR",
            "CLICOLOR_FORCE",
            "COLUMNS",
            "DBUS_SESSION_BUS_ADDRESS",
            "HAFT_ADMIN_CONFIG",
            "HAFT_COMPLETE",
            "HAFT_PASSPHRASE",
            "NO_COLOR",
            "RUST_BACKTRACE",
            "TMUX",
            "XDG_STATE_HOME",
        ] {
            command.env_remove(unwanted);
        }
        if admin.exists() {
            command.env("HAFT_ADMIN_CONFIG", admin);
        }
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.ran(&self.haft(arguments).output().expect("haft runs"))
    }

    pub(crate) fn run_without_terminal(&self, arguments: &[&str]) -> Ran {
        self.ran(&self.haft_without_terminal(arguments).output().expect("haft runs"))
    }

    pub(crate) fn run_with_stdin(&self, arguments: &[&str], text: &[u8]) -> Ran {
        let mut command = self.haft(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("haft runs");
        let mut stdin = child.stdin.take().expect("piped");
        // haft may close stdin early; the test checks the exit code.
        let _ = stdin.write_all(text);
        drop(stdin);
        self.ran(&child.wait_with_output().expect("haft ends"))
    }

    fn ran(&self, output: &Output) -> Ran {
        let text = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            text.replace(&self.path("").display().to_string(), "<root>/").trim_end().to_owned()
        };
        Ran {
            code: output.status.code().expect("it was not killed"),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }
}

impl Ran {
    /// Returns both outputs and the exit code, to compare all of them.
    pub(crate) fn whole(&self) -> String {
        format!("{}\n--- stderr\n{}\n--- exit {}", self.out, self.err, self.code)
    }

    /// Returns the outcome that `--json` printed.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// haft on a terminal screen, driven by keys.
pub(crate) struct Screen {
    socket: PathBuf,
}

impl Screen {
    /// Runs a shell command in its own terminal.
    pub(crate) fn start(fixture: &Fixture, line: &str) -> Self {
        let settings = fixture.path("tmux.conf");
        std::fs::write(&settings, "set -g remain-on-exit on\nset -g default-terminal screen\n")
            .expect("written");
        // Each has its own socket, because the server of an earlier screen may take a moment to
        // exit.
        static SCREENS: AtomicUsize = AtomicUsize::new(0);
        let number = SCREENS.fetch_add(1, Ordering::Relaxed);
        let screen = Self { socket: fixture.path(&format!("tmux-{number}.socket")) };
        let mut command = screen.tmux(&[]);
        fixture.prepare(&mut command);
        command.arg("-f").arg(&settings).args(["new-session", "-d", "-x", "120", "-y", "40"]);
        let status = command.arg(line).status().expect("tmux is installed");
        assert!(status.success(), "tmux starts");
        screen
    }

    /// Runs haft and then prints its exit code.
    pub(crate) fn haft(fixture: &Fixture, arguments: &[&str]) -> Self {
        let quoted: Vec<String> =
            arguments.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
        // The shell must survive an interrupt to print the exit code. haft does not inherit the
        // trap.
        Self::start(
            fixture,
            &format!("trap : INT TERM; {HAFT} {}; echo \"[exit $?]\"", quoted.join(" ")),
        )
    }

    /// Presses keys, named as in tmux: `y`, `Enter`, `C-c`.
    pub(crate) fn press(&self, keys: &[&str]) {
        let status = self.tmux(&["send-keys"]).args(keys).status().expect("tmux is installed");
        assert!(status.success(), "keys reach the terminal");
    }

    /// Waits until a text is on the screen, and returns the screen.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) -> String {
        let begin = Instant::now();
        loop {
            let shown = self.tmux_output(&["capture-pane", "-p", "-S", "-200"]);
            if shown.contains(text) {
                return shown;
            }
            assert!(begin.elapsed() < TIMEOUT, "no {text:?} on the screen:\n{shown}");
        }
    }

    /// Waits until haft exits, and returns its exit code.
    /// Waits until a text is on the screen `count` times.
    #[track_caller]
    pub(crate) fn wait_for_count(&self, text: &str, count: usize) {
        let begin = Instant::now();
        loop {
            let shown = self.wait_for(text);
            if shown.matches(text).count() == count {
                return;
            }
            assert!(begin.elapsed() < TIMEOUT, "{text:?} is not {count} times on:\n{shown}");
        }
    }

    /// Waits until haft is over, and returns its exit code.
    #[track_caller]
    pub(crate) fn exit_code(&self) -> i32 {
        let begin = Instant::now();
        loop {
            let shown = self.wait_for("[exit ");
            let (_, code) = shown.rsplit_once("[exit ").expect("it is shown");
            // The screen may have been captured while the line was being written.
            if let Some((code, _)) = code.split_once(']') {
                return code.parse().expect("a number");
            }
            assert!(begin.elapsed() < TIMEOUT, "half an exit code on the screen:\n{shown}");
        }
    }

    /// Sends a signal to haft.
    pub(crate) fn signal(&self, name: &str) {
        let shell = self.tmux_output(&["display-message", "-p", "#{pane_pid}"]);
        let status = Command::new("pkill").args([name, "-P", shell.trim()]).status();
        assert!(status.is_ok_and(|status| status.success()), "the signal reaches haft");
    }

    fn tmux_output(&self, arguments: &[&str]) -> String {
        let output = self.tmux(arguments).output().expect("tmux is installed");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn tmux(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-S").arg::<&Path>(&self.socket).args(arguments);
        command
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]).output();
    }
}
