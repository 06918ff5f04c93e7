//! A home and a project in a temporary folder, and ways to run haft in them: with pipes, without a terminal, and on the
//! screen of a real one.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use tempfile::TempDir;

const HAFT: &str = env!("CARGO_BIN_EXE_haft");
/// Far longer than anything here takes; only a test that fails waits for it.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct House {
    root: TempDir,
}

/// What became of a run. Paths below the house begin with `<house>`, so that texts can be compared.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl House {
    pub(crate) fn new() -> Self {
        let house = Self { root: tempfile::tempdir().expect("a temporary folder") };
        for folder in ["home/.config/haft", "project/.haft"] {
            std::fs::create_dir_all(house.path(folder)).expect("a folder");
        }
        house
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.path().canonicalize().expect("the house stands").join(path)
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

    /// haft as a person in the project would start it.
    pub(crate) fn haft(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(HAFT);
        self.prepare(&mut command);
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// The same where there is no terminal to ask at, wherever the tests themselves were started.
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
        // Who has read enough closes early; that is for the test to judge by the exit code.
        let _ = stdin.write_all(text);
        drop(stdin);
        self.ran(&child.wait_with_output().expect("haft ends"))
    }

    fn ran(&self, output: &Output) -> Ran {
        let text = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            text.replace(&self.path("").display().to_string(), "<house>/").trim_end().to_owned()
        };
        Ran {
            code: output.status.code().expect("it was not killed"),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }
}

impl Ran {
    /// Both texts and the code, for comparing all at once.
    pub(crate) fn whole(&self) -> String {
        format!("{}\n--- stderr\n{}\n--- exit {}", self.out, self.err, self.code)
    }

    /// The outcome that `--json` printed.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// haft on the screen of a terminal, driven by keys.
pub(crate) struct Screen {
    socket: PathBuf,
}

impl Screen {
    /// Runs a line of shell in a terminal of its own.
    pub(crate) fn start(house: &House, line: &str) -> Self {
        let settings = house.path("tmux.conf");
        std::fs::write(&settings, "set -g remain-on-exit on\nset -g default-terminal screen\n")
            .expect("written");
        // Each at a socket of its own: the server of an earlier screen may take a moment to go.
        static SCREENS: AtomicUsize = AtomicUsize::new(0);
        let number = SCREENS.fetch_add(1, Ordering::Relaxed);
        let screen = Self { socket: house.path(&format!("tmux-{number}.socket")) };
        let mut command = screen.tmux(&[]);
        house.prepare(&mut command);
        command.arg("-f").arg(&settings).args(["new-session", "-d", "-x", "120", "-y", "40"]);
        let status = command.arg(line).status().expect("tmux is installed");
        assert!(status.success(), "tmux starts");
        screen
    }

    /// haft, and after it its exit code.
    pub(crate) fn haft(house: &House, arguments: &[&str]) -> Self {
        let quoted: Vec<String> =
            arguments.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
        // The shell must outlive an interrupt to tell the code; the trap is not handed down.
        Self::start(
            house,
            &format!("trap : INT TERM; {HAFT} {}; echo \"[exit $?]\"", quoted.join(" ")),
        )
    }

    /// Types words and keys as tmux names them: `y`, `Enter`, `C-c`.
    pub(crate) fn press(&self, keys: &[&str]) {
        let status = self.tmux(&["send-keys"]).args(keys).status().expect("tmux is installed");
        assert!(status.success(), "keys reach the terminal");
    }

    /// Waits until a text is on the screen, and returns all that is.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) -> String {
        let begin = Instant::now();
        loop {
            let shown = self.told(&["capture-pane", "-p", "-S", "-200"]);
            if shown.contains(text) {
                return shown;
            }
            assert!(begin.elapsed() < PATIENCE, "no {text:?} on the screen:\n{shown}");
        }
    }

    /// Waits until a text is on the screen so many times.
    #[track_caller]
    pub(crate) fn wait_for_count(&self, text: &str, count: usize) {
        let begin = Instant::now();
        loop {
            let shown = self.wait_for(text);
            if shown.matches(text).count() == count {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{text:?} is not {count} times on:\n{shown}");
        }
    }

    /// Waits until haft is over, and returns its exit code.
    #[track_caller]
    pub(crate) fn exit_code(&self) -> i32 {
        let begin = Instant::now();
        loop {
            let shown = self.wait_for("[exit ");
            let (_, code) = shown.rsplit_once("[exit ").expect("it is shown");
            // The screen may have been looked at while the line was being written.
            if let Some((code, _)) = code.split_once(']') {
                return code.parse().expect("a number");
            }
            assert!(begin.elapsed() < PATIENCE, "half an exit code on the screen:\n{shown}");
        }
    }

    /// Sends a signal to haft.
    pub(crate) fn signal(&self, name: &str) {
        let shell = self.told(&["display-message", "-p", "#{pane_pid}"]);
        let status = Command::new("pkill").args([name, "-P", shell.trim()]).status();
        assert!(status.is_ok_and(|status| status.success()), "the signal reaches haft");
    }

    fn told(&self, arguments: &[&str]) -> String {
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
