//! `haft init`: its changes to the files of clients, byte for byte, and their undo.

use std::{
    fs,
    io::Write,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use crate::fixture::{Fixture, Screen};

const HAFT: &str = env!("CARGO_BIN_EXE_haft");

/// A fixture with `haft` on the PATH, so that the entries are the same on every machine.
struct Home {
    fixture: Fixture,
}

struct InitResult {
    code: i32,
    out: String,
    err: String,
}

impl Home {
    fn new() -> Self {
        let home = Self { fixture: Fixture::new() };
        fs::create_dir(home.fixture.path("bin")).expect("a folder");
        symlink(HAFT, home.fixture.path("bin/haft")).expect("a link");
        home
    }

    /// Writes a file.
    fn with(self, path: &str, text: &str) -> Self {
        let place = self.fixture.path(path);
        fs::create_dir_all(place.parent().expect("in the fixture")).expect("a folder");
        fs::write(place, text).expect("written");
        self
    }

    fn with_environment(&self, mut command: Command) -> Command {
        let own = self.fixture.path("bin").display().to_string();
        command.env("PATH", format!("{own}:/usr/local/bin:/usr/bin:/bin"));
        for unwanted in ["XDG_STATE_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"] {
            command.env_remove(unwanted);
        }
        command
    }

    fn told(&self, output: &Output) -> InitResult {
        let fixture = self.fixture.path("").display().to_string();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&fixture, "<root>/");
        let code = output.status.code().expect("it was not killed");
        InitResult { code, out: text(&output.stdout), err: text(&output.stderr) }
    }

    fn init(&self, words: &str) -> InitResult {
        let words: Vec<&str> = ["init"].into_iter().chain(words.split_whitespace()).collect();
        let mut command = self.with_environment(self.fixture.haft_without_terminal(&words));
        self.told(&command.output().expect("haft runs"))
    }

    /// Runs `haft init` and requires success.
    #[track_caller]
    fn done(&self, words: &str) -> String {
        let told = self.init(words);
        assert_eq!(told.code, 0, "{}{}", told.out, told.err);
        told.out
    }

    #[track_caller]
    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.fixture.path(path))
            .unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn is_there(&self, path: &str) -> bool {
        self.fixture.path(path).exists()
    }

    /// Returns the backups in a folder, sorted by name.
    fn backups(&self, folder: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.fixture.path(folder)).expect("the folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let mut backups: Vec<PathBuf> =
            paths.filter(|path| path.display().to_string().contains("haft-backup")).collect();
        backups.sort();
        backups
    }
}

#[track_caller]
fn check_fresh(words: &str, file: &str, expected: &str) {
    let home = Home::new();
    let out = home.done(&format!("{words} --yes"));
    assert!(out.contains(&format!("haft was added to <root>/{file}\nnext: ")), "{out}");
    assert_eq!(home.text(file), expected, "{words}");
    let again = home.init(&format!("{words} --yes"));
    assert_eq!(again.out, format!("haft is already in <root>/{file}\n"), "{}", again.err);
    assert_eq!(home.done(words), again.out, "and that needs no approval");
}

#[test]
fn each_client_gets_a_file_in_the_project() {
    let servers = |key: &str| {
        format!(
            "{{\n  \"{key}\": {{\n    \"haft\": {{\n      \"command\": \"haft\",\n      \"args\": [\"mcp\"]\n    }}\n  }}\n}}\n"
        )
    };
    check_fresh("claude", "project/.mcp.json", &servers("mcpServers"));
    check_fresh("gemini", "project/.gemini/settings.json", &servers("mcpServers"));
    check_fresh("zed", "project/.zed/settings.json", &servers("context_servers"));
    check_fresh(
        "codex",
        "project/.codex/config.toml",
        "[mcp_servers.haft]\ncommand = \"haft\"\nargs = [\"mcp\"]\n",
    );
    check_fresh(
        "vscode",
        "project/.vscode/mcp.json",
        "{\n  \"servers\": {\n    \"haft\": {\n      \"type\": \"stdio\",\n      \"command\": \"haft\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}\n",
    );
    check_fresh(
        "cursor",
        "project/.cursor/mcp.json",
        "{\n  \"mcpServers\": {\n    \"haft\": {\n      \"command\": \"haft\",\n      \"args\": [\"mcp\", \"--workspace\", \"${workspaceFolder}\"]\n    }\n  }\n}\n",
    );
    check_fresh(
        "opencode",
        "project/opencode.json",
        "{\n  \"$schema\": \"https://opencode.ai/config.json\",\n  \"mcp\": {\n    \"haft\": {\n      \"type\": \"local\",\n      \"command\": [\"haft\", \"mcp\"],\n      \"enabled\": true\n    }\n  }\n}\n",
    );
}

#[test]
fn each_client_has_a_place_for_a_persons_own() {
    for (client, file) in [
        ("claude", "home/.claude.json"),
        ("codex", "home/.codex/config.toml"),
        ("opencode", "home/.config/opencode/opencode.json"),
        ("gemini", "home/.gemini/settings.json"),
        ("zed", "home/.config/zed/settings.json"),
        ("vscode", "home/.config/Code/User/mcp.json"),
        ("cursor", "home/.cursor/mcp.json"),
    ] {
        let home = Home::new();
        home.done(&format!("{client} --scope user --yes"));
        let text = home.text(file);
        let printed = home.done(&format!("{client} --print"));
        assert_eq!(text, printed, "{client}");
        assert!(!text.contains("project"), "no folder is fixed: {text}");
    }
}

#[test]
fn homes_that_variables_name_are_used() {
    let home = Home::new();
    for (client, variable, file) in [
        ("codex", "CODEX_HOME", "elsewhere/config.toml"),
        ("claude", "CLAUDE_CONFIG_DIR", "elsewhere/.claude.json"),
    ] {
        let words = ["init", client, "--scope", "user", "--yes"];
        let mut command = home.with_environment(home.fixture.haft(&words));
        let output = command.env(variable, home.fixture.path("elsewhere")).output();
        assert_eq!(home.told(&output.expect("haft runs")).code, 0);
        assert!(home.is_there(file), "{client}");
    }
}

#[track_caller]
fn check_edit(client: &str, file: &str, before: &str, after: &str) {
    let home = Home::new().with(file, before);
    let out = home.done(&format!("{client} --yes"));
    assert_eq!(home.text(file), after);
    assert!(out.contains("backup of the old file: <root>/"), "{out}");
    let folder = file.rsplit_once('/').expect("in a folder").0;
    let backups = home.backups(folder);
    assert_eq!(fs::read_to_string(&backups[0]).expect("the backup"), before);
    home.done(&format!("{client} --yes"));
    assert_eq!((home.text(file).as_str(), home.backups(folder).len()), (after, 1));
    let out = home.done(&format!("{client} --undo --yes"));
    assert!(out.contains("was restored to its previous content"), "{out}");
    assert_eq!(home.text(file), before);
    assert_eq!(home.backups(folder), Vec::<PathBuf>::new(), "what is back needs no copy");
}

#[test]
fn what_others_wrote_stays_as_it_is() {
    check_edit(
        "claude",
        "project/.mcp.json",
        "{\n    \"mcpServers\": {\n        \"git\": { \"command\": \"git-mcp\" }\n    },\n    \"other\": [1,2,  3]\n}",
        "{\n    \"mcpServers\": {\n        \"git\": { \"command\": \"git-mcp\" },\n        \"haft\": {\n            \"command\": \"haft\",\n            \
         \"args\": [\"mcp\"]\n        }\n    },\n    \"other\": [1,2,  3]\n}",
    );
    check_edit(
        "zed",
        "project/.zed/settings.json",
        "// Zed settings\n{\n  \"theme\": \"One\", // dark\n  \"context_servers\": {\n    \"git\": {\n      \"command\": \"git-mcp\",\n    }, // git\n  },\n}\n",
        "// Zed settings\n{\n  \"theme\": \"One\", // dark\n  \"context_servers\": {\n    \"git\": {\n      \"command\": \"git-mcp\",\n    }, // git\n    \
         \"haft\": {\n      \"command\": \"haft\",\n      \"args\": [\"mcp\"]\n    },\n  },\n}\n",
    );
    check_edit(
        "vscode",
        "project/.vscode/mcp.json",
        "\u{feff}{\r\n\t\"inputs\": [],\r\n\t\"servers\": {}\r\n}\r\n",
        "\u{feff}{\r\n\t\"inputs\": [],\r\n\t\"servers\": {\r\n\t\t\"haft\": {\r\n\t\t\t\"type\": \"stdio\",\r\n\t\t\t\"command\": \"haft\",\r\n\t\t\t\
         \"args\": [\"mcp\"]\r\n\t\t}\r\n\t}\r\n}\r\n",
    );
    check_edit(
        "codex",
        "project/.codex/config.toml",
        "model = \"x\" # mine\r\n\r\n[mcp_servers.git]\r\ncommand = \"git-mcp\"\r\n# the end\r\n",
        "model = \"x\" # mine\r\n\r\n[mcp_servers.git]\r\ncommand = \"git-mcp\"\r\n# the end\r\n\r\n[mcp_servers.haft]\r\n\
         command = \"haft\"\r\nargs = [\"mcp\"]\r\n",
    );
    check_edit(
        "gemini",
        "project/.gemini/settings.json",
        "{}\n",
        "{\n  \"mcpServers\": {\n    \"haft\": {\n      \"command\": \"haft\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}\n",
    );
    check_edit(
        "cursor",
        "project/.cursor/mcp.json",
        "{\"mcpServers\":{\"haft\":{\"url\":\"http://x\"}}}",
        "{\"mcpServers\":{\"haft\":{\"command\": \"haft\", \"args\": [\"mcp\", \"--workspace\", \"${workspaceFolder}\"]}}}",
    );
}

#[test]
fn opencode_is_edited_where_its_list_is() {
    check_edit(
        "opencode",
        "project/opencode.jsonc",
        "{\n  // mine\n  \"mcp\": {}\n}\n",
        "{\n  // mine\n  \"mcp\": {\n    \"haft\": {\n      \"type\": \"local\",\n      \"command\": [\"haft\", \"mcp\"],\n      \"enabled\": true\n    }\n  }\n}\n",
    );
    check_edit(
        "opencode",
        "project/.opencode/opencode.json",
        "{\n  \"mcp\": {\n    \"servers\": {\n      \"git\": {}\n    }\n  }\n}\n",
        "{\n  \"mcp\": {\n    \"servers\": {\n      \"git\": {},\n      \"haft\": {\n        \"type\": \"local\",\n        \"command\": [\"haft\", \"mcp\"]\n      }\n    }\n  }\n}\n",
    );
    let home = Home::new()
        .with("project/opencode.json", "{}")
        .with("project/opencode.jsonc", "{\"mcp\": {\"haft\": {\"type\": \"local\"}}}");
    home.done("opencode --yes");
    assert_eq!(home.text("project/opencode.json"), "{}", "the entry is in the other file");
    assert!(home.text("project/opencode.jsonc").contains("\"enabled\": true"));
}

#[test]
fn options_are_handed_on_and_paths_written_out() {
    let home = Home::new();
    let words =
        "claude --print --profile reviewer --approve safe --agent bot --config ../home/c.toml";
    let home = home.with("home/c.toml", "");
    let printed: serde_json::Value = serde_json::from_str(&home.done(words)).expect("JSON");
    let expected = [
        "mcp",
        "--profile",
        "reviewer",
        "--agent",
        "bot",
        "--approve",
        "safe",
        "--config",
        "<root>/home/c.toml",
    ];
    assert_eq!(printed["mcpServers"]["haft"]["args"], serde_json::json!(expected));
    assert!(!home.is_there("project/.mcp.json"), "printing touches nothing");

    let printed = home.done("cursor --print --workspace .");
    let expected = "[\"mcp\", \"--workspace\", \"<root>/project\"]";
    assert!(printed.contains(expected), "{printed}");

    let told = home.init("zed --scope user --yes --workspace .");
    assert_eq!(told.code, 0);
    assert!(
        told.err.contains("haft will work in <root>/project whatever project zed has open"),
        "{}",
        told.err
    );

    assert_eq!(
        home.init("claude --yes --profile no_such").code,
        2,
        "what would not start is not written"
    );
    assert!(!home.is_there("project/.mcp.json"));
}

#[test]
fn a_program_that_is_not_on_the_path_is_named_by_its_path() {
    let home = Home::new();
    fs::remove_file(home.fixture.path("bin/haft")).expect("removed");
    let told = home.init("claude --yes");
    let program = PathBuf::from(HAFT).canonicalize().expect("it runs").display().to_string();
    assert!(home.text("project/.mcp.json").contains(&format!("\"command\": \"{program}\"")));
    assert!(told.err.contains("which other machines may not have"), "{}", told.err);

    let other = home.with("bin/haft", "#!/bin/sh\n");
    fs::set_permissions(other.fixture.path("bin/haft"), fs::Permissions::from_mode(0o755))
        .expect("set");
    let printed = other.done("claude --print");
    assert!(printed.contains(&program), "another file of that name is not this program: {printed}");
}

#[test]
fn what_is_written_starts_a_server() {
    let home = Home::new();
    home.done("claude --yes --profile reviewer");
    let written: serde_json::Value =
        serde_json::from_str(&home.text("project/.mcp.json")).expect("JSON");
    let entry = &written["mcpServers"]["haft"];
    let words = entry["args"].as_array().expect("a list").iter().filter_map(|word| word.as_str());
    let words: Vec<&str> = words.collect();
    let mut command = home.with_environment(Command::new("sh"));
    let line = format!("{} {}", entry["command"].as_str().expect("a text"), words.join(" "));
    command.args(["-c", &line]).current_dir(home.fixture.path("project"));
    command.env("HOME", home.fixture.path("home")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = command.spawn().expect("it starts");
    let request = br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let mut stdin = server.stdin.take().expect("piped");
    stdin.write_all(request).and_then(|()| stdin.write_all(b"\n")).expect("it reads");
    drop(stdin);
    let output = server.wait_with_output().expect("it ends");
    let answer = home.told(&output).out;
    assert!(answer.contains("\"serverInfo\""), "{answer}");
}

#[test]
fn without_a_terminal_nothing_is_written() {
    let home = Home::new();
    let told = home.init("claude");
    assert_eq!((told.code, told.out.as_str()), (5, ""));
    assert_eq!(
        told.err,
        "error: <root>/project/.mcp.json was not changed: no terminal is available to ask\n  \
         next: add `--yes` to write it without asking, or `--print` to see what to add by hand\n"
    );
    assert!(!home.is_there("project/.mcp.json"));
    let dry = home.done("claude --dry-run");
    assert!(
        dry.contains("+++ <root>/project/.mcp.json\n") && dry.contains("would be added"),
        "{dry}"
    );
    assert!(!home.is_there("project/.mcp.json"));
}

#[test]
fn an_approved_change_is_written_and_a_denied_one_is_not() {
    let home = Home::new().with("project/.mcp.json", "{\n  \"mcpServers\": {}\n}\n");
    let before = home.text("project/.mcp.json");
    let screen = Screen::haft(&home.fixture, &["init", "claude"]);
    let question = screen.wait_for("[y] yes   [n] no");
    assert!(question.contains("(claude, project):"), "{question}");
    assert!(question.contains("  | -  \"mcpServers\": {}"), "{question}");
    assert!(question.contains("  | +    \"haft\": {"), "{question}");
    screen.press(&["perhaps", "Enter"]);
    screen.press(&["n", "Enter"]);
    assert_eq!(screen.exit_code(), 5);
    let shown = screen.wait_for("was not changed: you answered no");
    assert_eq!(shown.matches("[y] yes").count(), 2, "an unclear answer is asked again: {shown}");
    assert_eq!(home.text("project/.mcp.json"), before);

    let screen = Screen::haft(&home.fixture, &["init", "claude"]);
    screen.wait_for("[y] yes   [n] no");
    screen.press(&["y", "Enter"]);
    assert_eq!(screen.exit_code(), 0);
    screen.wait_for("haft was added to");
    assert!(home.text("project/.mcp.json").contains("\"haft\": {"));
}

#[test]
fn a_file_that_changes_during_the_prompt_is_not_written() {
    let home = Home::new().with("project/.mcp.json", "{}");
    let screen = Screen::haft(&home.fixture, &["init", "claude"]);
    screen.wait_for("[y] yes   [n] no");
    fs::write(home.fixture.path("project/.mcp.json"), "{\"a\": 1}").expect("written");
    screen.press(&["y", "Enter"]);
    assert_eq!(screen.exit_code(), 4);
    screen.wait_for("was changed by another process");
    assert_eq!(home.text("project/.mcp.json"), "{\"a\": 1}");
}

#[test]
fn what_haft_made_is_removed_again() {
    let home = Home::new();
    home.done("vscode --yes");
    let out = home.done("vscode --undo --yes");
    assert!(out.contains("mcp.json was removed; haft had created it"), "{out}");
    assert!(!home.is_there("project/.vscode"), "the folder that was made goes with it");
    let told = home.init("vscode --undo --yes");
    assert_eq!(told.code, 3);
    assert!(
        told.err.contains("haft has not changed the configuration of vscode here"),
        "{}",
        told.err
    );

    home.done("vscode --yes");
    let home = home.with("project/.vscode/tasks.json", "{}");
    home.done("vscode --undo --yes");
    assert!(
        home.is_there("project/.vscode/tasks.json") && !home.is_there("project/.vscode/mcp.json")
    );
}

#[test]
fn of_a_file_that_was_changed_since_only_the_entry_goes() {
    let home = Home::new().with("project/.mcp.json", "{\n  \"a\": 1\n}\n");
    home.done("claude --yes");
    let edited = home.text("project/.mcp.json").replace("\"a\": 1", "\"a\": 2");
    let home = home.with("project/.mcp.json", &edited);
    let out = home.done("claude --undo --yes");
    assert!(out.contains("has changed since, so only haft's entry was removed"), "{out}");
    assert!(out.contains("backup of the old file: <root>/project/.mcp.json.haft-backup-"), "{out}");
    assert_eq!(home.text("project/.mcp.json"), "{\n  \"a\": 2,\n  \"mcpServers\": {\n  }\n}\n");
    assert_eq!(home.backups("project").len(), 1);

    let home = Home::new().with("project/.codex/config.toml", "a = 1\n");
    home.done("codex --yes");
    let edited =
        format!("{}[mcp_servers.b]\ncommand = \"b\"\n", home.text("project/.codex/config.toml"));
    let home = home.with("project/.codex/config.toml", &edited);
    home.done("codex --undo --yes");
    assert_eq!(
        home.text("project/.codex/config.toml"),
        "a = 1\n[mcp_servers.b]\ncommand = \"b\"\n"
    );
}

#[test]
fn a_backup_that_was_changed_is_not_restored() {
    let home = Home::new().with("project/.mcp.json", "{\n  \"a\": 1\n}\n");
    home.done("claude --yes");
    fs::write(&home.backups("project")[0], "{ \"planted\": true }").expect("written");
    let out = home.done("claude --undo --yes");
    assert!(out.contains("only haft's entry was removed"), "{out}");
    assert!(!home.text("project/.mcp.json").contains("planted"));
}

#[test]
fn a_change_that_is_gone_needs_no_undo() {
    let home = Home::new();
    home.done("claude --yes");
    fs::remove_file(home.fixture.path("project/.mcp.json")).expect("removed");
    let out = home.done("claude --undo");
    assert!(out.contains("is already undone"), "{out}");
    assert_eq!(home.init("claude --undo").code, 3, "it is forgotten");
}

#[test]
fn changes_are_undone_one_by_one_in_reverse_order() {
    let home = Home::new().with("project/.mcp.json", "{}");
    home.done("claude --yes");
    let first = home.text("project/.mcp.json");
    home.done("claude --scope user --yes");
    home.done("claude --yes --approve safe");
    assert_eq!(home.backups("project").len(), 2, "no copy is written over");
    home.done("claude --undo --yes");
    assert_eq!(home.text("project/.mcp.json"), first);
    home.done("claude --undo --yes --scope project");
    assert_eq!(home.text("project/.mcp.json"), "{}");
    assert!(home.is_there("home/.claude.json"));
    home.done("claude --undo --yes");
    assert!(!home.is_there("home/.claude.json"));
}

#[test]
fn another_projects_change_is_not_undone_from_here() {
    let home = Home::new().with("other/.git/HEAD", "");
    home.done("claude --yes --workspace ../other");
    let told = home.init("claude --undo --yes");
    assert_eq!(told.code, 3);
    assert!(told.err.contains("the last change was to <root>/other/.mcp.json"), "{}", told.err);
    assert!(home.is_there("other/.mcp.json"));
}

#[test]
fn a_broken_file_is_reported_with_its_position_and_not_changed() {
    for (client, file, text, told) in [
        (
            "claude",
            ".mcp.json",
            "{\n  \"a\": 1\n  \"b\": 2\n}",
            ":3:3: expected `,` or `}`, found `\"`",
        ),
        (
            "zed",
            ".zed/settings.json",
            "\u{feff}[",
            ":1:2: expected a value, found the end of the file",
        ),
        ("codex", ".codex/config.toml", "a = 1\nb = [", ":2:6: unclosed array"),
        (
            "vscode",
            ".vscode/mcp.json",
            "{\"servers\": 3}",
            ":1:13: `servers` must be an object in braces",
        ),
        (
            "codex",
            ".codex/config.toml",
            "mcp_servers = { }\n",
            ":1:15: `mcp_servers` is written in a form",
        ),
    ] {
        let file = format!("project/{file}");
        let home = Home::new().with(&file, text);
        let ran = home.init(&format!("{client} --yes"));
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains(&format!("<root>/{file}{told}")), "{}", ran.err);
        assert!(ran.err.contains("`--print` shows it"), "{}", ran.err);
        assert_eq!(home.text(&file), text);
        let printed = home.init(&format!("{client} --print"));
        assert_eq!(printed.code, 0, "the entry to add by hand is still printed");
    }
}

#[test]
fn what_is_no_text_file_is_left_alone() {
    let home = Home::new();
    fs::write(home.fixture.path("project/.mcp.json"), b"{\"a\": \"\xff\"}").expect("written");
    let told = home.init("claude --yes");
    assert_eq!(told.code, 7);
    assert!(told.err.contains("is not UTF-8: byte 7"), "{}", told.err);
    fs::create_dir_all(home.fixture.path("project/.gemini/settings.json")).expect("a folder");
    let told = home.init("gemini --yes");
    assert_eq!(told.code, 7);
    assert!(told.err.contains("is not a regular file"), "{}", told.err);
}

#[test]
fn an_unwritable_folder_is_reported_and_nothing_is_left_behind() {
    let home = Home::new();
    // Not even root can create files there.
    symlink("/sys/kernel", home.fixture.path("project/.cursor")).expect("a link");
    let told = home.init("cursor --yes");
    assert_eq!(told.code, 5, "{}", told.err);
    assert!(told.err.contains("/sys/kernel/mcp.json cannot be written"), "{}", told.err);
    assert_eq!(home.init("cursor --undo --yes").code, 3, "nothing is remembered that was not done");

    let home = home.with("project/.zed", "a file in the folder's place");
    let told = home.init("zed --yes");
    assert_eq!(told.code, 10, "{}", told.err);
    assert_eq!(home.text("project/.zed"), "a file in the folder's place");
}

#[test]
fn an_unreadable_record_file_stops_the_change() {
    let home = Home::new().with("home/.local/state/haft/init.json", "not JSON");
    let told = home.init("claude --yes");
    assert_eq!(told.code, 2);
    assert!(
        told.err.contains("cannot read <root>/home/.local/state/haft/init.json"),
        "{}",
        told.err
    );
    assert!(!home.is_there("project/.mcp.json"));
}

#[test]
fn a_link_is_followed_and_stays_a_link() {
    let home = Home::new().with("dotfiles/claude.json", "{}");
    let (real, link) =
        (home.fixture.path("dotfiles/claude.json"), home.fixture.path("home/.claude.json"));
    symlink("../dotfiles/claude.json", &link).expect("a link");
    // The first mode is narrower than a usual umask, the second wider.
    for mode in [0o600, 0o664] {
        fs::set_permissions(&real, fs::Permissions::from_mode(mode)).expect("set");
        check_followed(&home, &link, mode);
    }

    fs::remove_file(&real).expect("removed");
    let told = home.init("claude --scope user --yes");
    assert_eq!(told.code, 3);
    assert!(told.err.contains("is a broken symbolic link"), "{}", told.err);
}

#[track_caller]
fn check_followed(home: &Home, link: &Path, mode: u32) {
    home.done("claude --scope user --yes");
    assert!(link.symlink_metadata().expect("it is there").is_symlink());
    assert!(home.text("dotfiles/claude.json").contains("haft"));
    for file in [home.fixture.path("dotfiles/claude.json"), home.backups("dotfiles")[0].clone()] {
        let found = file.metadata().expect("it is there").permissions().mode() & 0o777;
        assert_eq!(found, mode, "{}", file.display());
    }
    home.done("claude --scope user --undo --yes");
    assert_eq!(home.text("dotfiles/claude.json"), "{}");
    assert!(link.symlink_metadata().expect("it is there").is_symlink());
}

#[test]
fn without_a_client_all_are_listed() {
    let home = Home::new()
        .with("project/.gemini/settings.json", "{}")
        .with("project/.vscode/mcp.json", "{")
        .with("home/.cursor/mcp.json", "{\"mcpServers\": {\"haft\": {\"command\": \"else\"}}}");
    home.done("claude --yes");
    let listed = home.done("");
    for line in [
        "client    scope    haft   file",
        "claude    project  yes    .mcp.json",
        "claude    user     -      ~/.claude.json",
        "gemini    project  no     .gemini/settings.json",
        "vscode    project  ?      .vscode/mcp.json",
        "cursor    user     other  ~/.cursor/mcp.json",
    ] {
        assert!(listed.lines().any(|listed| listed == line), "{line}\n{listed}");
    }
    let rows: Vec<serde_json::Value> =
        serde_json::from_str(&home.done("--json --scope project")).expect("JSON");
    assert_eq!(rows.len(), 7);
    assert_eq!(
        (rows[0]["client"].as_str(), rows[0]["haft"].as_str()),
        (Some("claude"), Some("yes"))
    );
    let told = home.init("--undo");
    assert_eq!(told.code, 2);
    assert!(told.err.contains("--undo needs a client"), "{}", told.err);
}

#[test]
fn json_has_the_result_too() {
    let home = Home::new();
    let told: serde_json::Value =
        serde_json::from_str(&home.done("zed --yes --json")).expect("JSON");
    assert_eq!(told["change"], "added");
    assert_eq!(told["backup"], serde_json::Value::Null);
    assert!(told["diff"].as_str().is_some_and(|diff| diff.contains("+    \"haft\": {")), "{told}");
    let told: serde_json::Value =
        serde_json::from_str(&home.done("zed --yes --json")).expect("JSON");
    assert_eq!(told["change"], "already_there");
    let told: serde_json::Value =
        serde_json::from_str(&home.done("zed --undo --yes --json")).expect("JSON");
    assert_eq!(told["change"], "file_removed");
}

#[test]
fn clients_have_aliases_and_misspelt_names_get_a_suggestion() {
    let home = Home::new();
    assert_eq!(home.done("Claude-Code --print"), home.done("claude --print"));
    assert_eq!(home.done("VS-Code --print"), home.done("vscode --print"));
    let told = home.init("cluade --print");
    assert_eq!(told.code, 3);
    assert!(told.err.contains("unknown client `cluade`"), "{}", told.err);
    assert!(told.err.contains("did you mean `claude`?"), "{}", told.err);
    assert!(home.init("emacs").err.contains("the clients are claude, codex,"));
    let help = home.done("--help");
    for answer in
        ["--undo", "--scope", "a backup of the old file", "haft init codex --profile reviewer"]
    {
        assert!(help.contains(answer), "{help}");
    }
}
