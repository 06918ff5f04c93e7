//! Secrets with the real binary: stored, referred to, used, and never printed.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Child, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use haft::{
    CallEventKind, CallRequest, Context, Gate, Mode, Policy, Programs, Redactor, Registry, Vault,
    Workspace,
    commands::Executor,
    files::Disk,
    policy::{Action, Layer, LayerKind, Rule, Source},
    store::{Existing, StoreVault},
};
use serde_json::json;

use crate::{
    fixture::{Fixture, Ran, Screen},
    mcp_stdio::{Client, TIMEOUT},
    shell::{ask, text, wait_until},
    web_server::WebServer,
};

const VALUE: &str = "tok-hunter22-abcdef";
const BASE64: &str = "dG9rLWh1bnRlcjIyLWFiY2RlZg";

/// Returns a fixture with the secret KEY and these rules.
fn fixture(rules: &str) -> Fixture {
    let fixture = Fixture::new().user_config(rules);
    set(&fixture, &["KEY"], VALUE);
    fixture
}

#[track_caller]
fn set(fixture: &Fixture, arguments: &[&str], value: &str) {
    let arguments: Vec<&str> = ["secret", "set"].iter().chain(arguments).copied().collect();
    let ran = fixture.run_with_stdin(&arguments, format!("{value}\n").as_bytes());
    assert_eq!(ran.code, 0, "{ran:?}");
    check_silent(&ran);
}

/// Checks that no output has the value in any form.
#[track_caller]
fn check_silent(ran: &Ran) {
    check_without_value(&ran.whole());
}

#[track_caller]
fn check_without_value(said: &str) {
    assert!(!said.contains("hunter22") && !said.contains(BASE64), "{said}");
}

/// Checks that no file below a folder has the value. The store compresses some parts, but not its
/// texts.
#[track_caller]
fn check_files(folder: &Path) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            check_files(&path);
        } else if let Ok(bytes) = fs::read(&path) {
            for form in [VALUE, BASE64, "746f6b2d68756e7465723232"] {
                let is_there = bytes.windows(form.len()).any(|part| part == form.as_bytes());
                assert!(!is_there, "{form} in {}", path.display());
            }
        }
    }
}

fn with_key(command: &str) -> [String; 4] {
    ["bash", "--env", "K=secret:KEY", command].map(str::to_owned)
}

fn run_with_key(fixture: &Fixture, command: &str) -> Ran {
    let arguments = with_key(command);
    let ran = fixture.run_without_terminal(&arguments.each_ref().map(String::as_str));
    check_silent(&ran);
    ran
}

#[test]
fn secrets_are_set_listed_and_removed_and_never_shown() {
    let fixture = fixture("");
    set(&fixture, &["API", "--host", "API.example.org", "--host", "*.example.com"], VALUE);
    let listed = fixture.run(&["secret", "list", "--json"]);
    check_silent(&listed);
    let all = listed.json();
    assert_eq!(all["secrets"][0]["name"], "API");
    assert_eq!(all["secrets"][0]["hosts"], json!(["api.example.org", "*.example.com"]));
    assert_eq!(all["secrets"][1]["name"], "KEY");
    assert!(all["secrets"][1]["set"].as_str().is_some_and(|at| at.starts_with("20")));
    let listed = fixture.run(&["secret", "list"]);
    assert!(listed.out.contains("KEY  everywhere  (file, its key beside it, set 20"), "{listed:?}");
    assert_eq!(fixture.run(&["secret", "remove", "API"]).code, 0);
    assert_eq!(fixture.run(&["secret", "remove", "KEY"]).code, 0);
    let listed = fixture.run(&["secret", "list"]);
    assert_eq!(listed.out, "no secrets; `haft secret set NAME` stores one");
    check_files(&fixture.path("home"));
}

#[test]
fn variables_are_listed_beside_what_is_kept() {
    let fixture = fixture("[credentials.OWN]\nvariable = \"MY_OWN\"\nhosts = [\"a.example\"]\n");
    let mut list = fixture.haft(&["secret", "list", "--json"]);
    list.env("HAFT_SECRET_V", VALUE).env("MY_OWN", VALUE);
    let out = list.output().expect("haft runs").stdout;
    let out = String::from_utf8(out).expect("text");
    check_without_value(&out);
    let all: serde_json::Value = serde_json::from_str(&out).expect("json");
    let places: Vec<&str> = all["secrets"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|secret| secret["place"].as_str())
        .collect();
    assert_eq!(places, ["file, its key beside it", "variable MY_OWN", "variable HAFT_SECRET_V"]);
}

#[test]
fn wrong_inputs_are_told_apart_by_their_codes() {
    let fixture = fixture("");
    let code = |arguments: &[&str], value: &[u8]| {
        let ran = fixture.run_with_stdin(arguments, value);
        check_silent(&ran);
        assert!(ran.err.contains("next:") || [0, 2].contains(&ran.code), "{ran:?}");
        ran.code
    };
    assert_eq!(code(&["secret", "set", "A"], b""), 2, "empty");
    assert_eq!(code(&["secret", "set", "A"], b"12345\n"), 2, "too short");
    assert_eq!(code(&["secret", "set", "A"], b"line one\nline two\n"), 2, "line breaks");
    assert_eq!(code(&["secret", "set", "A"], b"\xff\xfe\xfd\xfc\xfb\xfa"), 2, "no text");
    assert_eq!(code(&["secret", "set", "a-b"], VALUE.as_bytes()), 2, "no name");
    assert_eq!(
        code(&["secret", "set", "A", "--host", "https://x"], VALUE.as_bytes()),
        2,
        "no host"
    );
    assert_eq!(code(&["secret", "set", "A", "value-as-an-argument"], b""), 2, "never an argument");
    assert_eq!(code(&["secret", "set", "KEY"], b"another-value"), 4, "it is there");
    assert_eq!(code(&["secret", "set", "KEY", "--force"], b"another-value"), 0);
    assert_eq!(code(&["secret", "remove", "NONE"], b""), 3, "unknown");
    let key = fixture.path("home/.local/state/haft/secrets.key");
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("ours");
    assert_eq!(code(&["secret", "set", "B"], VALUE.as_bytes()), 5, "a key that others can read");
    fs::write(fixture.path("home/.local/state/haft/secrets.json"), "{}").expect("written");
    assert_eq!(code(&["secret", "set", "B"], VALUE.as_bytes()), 10, "damaged");
    assert_eq!(code(&["secret", "list"], b""), 10, "damaged");
}

#[test]
fn a_value_is_typed_without_being_shown() {
    let fixture = Fixture::new();
    let screen = Screen::haft(&fixture, &["secret", "set", "KEY"]);
    screen.wait_for("Value of KEY (not shown):");
    screen.press(&["wrong", "C-u", VALUE, "x", "BSpace", "Enter"]);
    let shown = screen.wait_for("set KEY");
    assert!(!shown.contains("hunter") && !shown.contains("wrong"), "{shown}");
    assert_eq!(screen.exit_code(), 0);
    let screen = Screen::haft(&fixture, &["secret", "set", "KEY"]);
    screen.wait_for("Replace it? [y/N]");
    screen.press(&["n", "Enter"]);
    assert_eq!(screen.exit_code(), 130);
    let haft = env!("CARGO_BIN_EXE_haft");
    let line = format!("{haft} secret set OTHER; echo \"[exit $?]\"; stty -a");
    let screen = Screen::start(&fixture, &line);
    screen.wait_for("Value of OTHER (not shown):");
    screen.press(&["C-c"]);
    assert_eq!(screen.exit_code(), 130);
    // The terminal echoes input and handles its keys again.
    screen.wait_for("isig icanon iexten echo ");
    let names = fixture.run(&["secret", "list", "--json"]).json();
    assert_eq!(names["secrets"].as_array().map(Vec::len), Some(1), "{names}");
    let vault = StoreVault::new(&fixture.path("home/.local/state/haft"), Vec::new);
    let kept = vault.find("KEY").expect("whole").expect("there");
    assert_eq!(kept.value, VALUE);
}

#[test]
fn a_command_gets_a_secret_and_whatever_it_prints_of_it_is_taken_out() {
    let fixture = fixture("allow = [\"secret(KEY)\"]");
    let ran =
        run_with_key(&fixture, "test ${#K} = 19 && echo \"it is $K\"; printf %s \"$K\" | base64");
    assert_eq!(ran.out, "it is [secret:KEY]\n[secret:KEY]", "{ran:?}");
    // After a user name, as in `Basic` authorization, only the encoding of the value alone can be
    // recognised.
    let ran = run_with_key(
        &fixture,
        "printf me:%s \"$K\" | base64; printf %s \"$K\" | od -An -tx1 | tr -d ' \\n'",
    );
    assert!(ran.out.contains("[secret:KEY]") && ran.out.ends_with("[secret:KEY]"), "{ran:?}");
    let ran = run_with_key(
        &fixture,
        "printf tok-hun; printf ter22- >&2; printf 'abcdef\\n'; env; exit 3",
    );
    assert!(ran.out.starts_with("[secret:KEY]\n") && ran.out.contains("K=[secret:KEY]"), "{ran:?}");
    let ran = run_with_key(&fixture, "echo \"$K\" > made.txt; cat made.txt; ls \"$K\"");
    assert!(ran.out.contains("[secret:KEY]"), "{ran:?}");
    let ran = fixture.run(&["read", "made.txt"]);
    check_silent(&ran);
    fs::remove_file(fixture.path("project/made.txt")).expect("made by the command");
    let ledger = fixture.run(&["ledger", "show", "--json"]);
    check_silent(&ledger);
    assert!(ledger.out.contains("secret:KEY"), "{ledger:?}");
    check_files(&fixture.path("project"));
    check_files(&fixture.path("home"));
}

#[test]
fn a_command_gets_a_secret_only_by_a_rule_that_names_it_or_by_a_yes() {
    for rules in [
        "",
        "allow = [\"bash\", \"bash(*)\", \"*\"]",
        "approve = \"all\"",
        "allow = [\"secret(OTHER)\"]",
    ] {
        let fixture = fixture(rules);
        let ran = run_with_key(&fixture, "true $K");
        assert_eq!(ran.code, 5, "{rules}: {ran:?}");
        assert!(ran.err.contains("give the secret KEY to true $K"), "{ran:?}");
        assert!(ran.err.contains("add `allow = [\"secret(KEY: true $K)\"]`"), "{ran:?}");
    }
    let fixture = fixture("allow = [\"secret(KEY: true $K)\"]");
    assert_eq!(run_with_key(&fixture, "true $K").code, 0);
    assert_eq!(run_with_key(&fixture, "true $K; true").code, 5);
    let denied = self::fixture("allow = [\"secret(KEY)\"]\ndeny = [\"secret(*)\"]");
    assert_eq!(run_with_key(&denied, "true $K").code, 5);
}

#[test]
fn a_person_is_asked_about_the_secret_and_may_save_a_rule_that_names_it() {
    let fixture = fixture("");
    let arguments = with_key("echo is $K");
    let screen = Screen::haft(&fixture, &arguments.each_ref().map(String::as_str));
    let shown = screen.wait_for("[y] yes, once");
    assert!(shown.contains("give the secret KEY to echo is $K"), "{shown}");
    assert!(shown.contains("secret(KEY: echo is $K)"), "{shown}");
    screen.press(&["y"]);
    let shown = screen.wait_for("is [secret:KEY]");
    assert!(!shown.contains("hunter"), "{shown}");
    assert_eq!(screen.exit_code(), 0);
}

#[test]
fn what_is_for_hosts_or_unknown_or_no_reference_reaches_no_command() {
    let fixture = fixture("allow = [\"secret(KEY)\", \"secret(API)\", \"secret(NONE)\"]");
    set(&fixture, &["API", "--host", "api.example.org"], VALUE);
    let run = |env: &str| {
        let ran = fixture.run_without_terminal(&["bash", "--env", env, "true"]);
        check_silent(&ran);
        ran
    };
    let ran = run("K=secret:API");
    assert_eq!(ran.code, 5, "{ran:?}");
    assert!(
        ran.err.contains("is not for commands, only for requests to api.example.org"),
        "{ran:?}"
    );
    assert_eq!(run("K=secret:NONE").code, 3);
    for env in ["K=plain", "K=Bearer secret:KEY", "A B=secret:KEY", "=secret:KEY"] {
        assert_eq!(run(env).code, 2, "{env}");
    }
    for env in ["LD_PRELOAD=secret:KEY", "HOME=secret:KEY", "PATH=secret:KEY"] {
        assert_eq!(run(env).code, 5, "{env}");
    }
}

#[test]
fn a_server_that_echoes_a_secret_shows_none() {
    let site = WebServer::start(|request| {
        ("200 OK\r\nContent-Type: text/plain", request.as_bytes().to_vec())
    });
    let rules = format!(
        "allow = [\"web_fetch(127.0.0.1)\", \"secret(KEY: 127.0.0.1)\"]\n[network]\nallow = [\"{}\"]\n",
        site.address
    );
    let fixture = fixture(&rules);
    let headers = r#"{"Authorization": "Bearer secret:KEY"}"#;
    let ran = fixture.run(&["http_request", "--headers", headers, &site.url("/?k=secret:KEY")]);
    check_silent(&ran);
    assert!(ran.out.contains("Bearer [secret:KEY]"), "{ran:?}");
    let request = site.requests().join("\n");
    assert!(
        request.contains(&format!("Bearer {VALUE}")) && request.contains(&format!("k={VALUE}")),
        "{request}"
    );
    set(&fixture, &["HOSTED", "--host", "api.example.org"], VALUE);
    let ran = fixture.run(&["http_request", &site.url("/?k=secret:HOSTED")]);
    assert_eq!((ran.code, site.requests().len()), (5, 1), "{ran:?}");
    check_files(&fixture.path("project"));
}

/// Requests with the secret KEY, one for each position where it is allowed.
fn requests_with_key(site: &WebServer) -> [serde_json::Value; 5] {
    let url = site.url("/");
    [
        json!({"url": url, "headers": {"Authorization": "Bearer secret:KEY"}}),
        json!({"url": site.url("/?a=1&k=secret:KEY")}),
        json!({"url": url, "method": "POST", "body": "k=secret:KEY"}),
        json!({"url": url, "method": "POST", "json_body": {"a": [{"k": "x secret:KEY"}]}}),
        json!({"url": url, "method": "POST", "json_body": {"secret:KEY": 1}}),
    ]
}

fn fixture_for(site: &WebServer, rules: &str) -> Fixture {
    let network = format!("[network]\nallow = [\"{}\"]\n", site.address);
    fixture(&format!("{rules}\n{network}"))
}

#[test]
fn a_secret_that_is_for_no_host_goes_to_none_unasked() {
    let site = WebServer::start(|_| ("200 OK\r\nContent-Type: text/plain", b"ok".to_vec()));
    for rules in [
        "allow = [\"web_fetch(127.0.0.1)\"]",
        "allow = [\"web_fetch(*)\", \"http_request\", \"http_request(*)\", \"*\"]",
        "allow = [\"web_fetch(127.0.0.1)\", \"secret(KEY: other.example)\", \"secret(OTHER)\"]",
    ] {
        let fixture = fixture_for(&site, rules);
        for request in requests_with_key(&site) {
            let request = request.to_string();
            let arguments = ["call", "http_request", &request, "--approve", "all"];
            let ran = fixture.run_without_terminal(&arguments);
            check_silent(&ran);
            assert_eq!(ran.code, 5, "{rules}: {request}: {ran:?}");
            assert!(ran.err.contains("send the secret KEY to 127.0.0.1"), "{ran:?}");
            assert!(ran.err.contains("secret(KEY: 127.0.0.1)"), "what would allow it: {ran:?}");
        }
    }
    assert_eq!(site.requests(), [""; 0], "nothing was sent");
    // Other spellings are not references, and no secret is sent for them.
    let fixture = fixture_for(&site, "allow = [\"web_fetch(127.0.0.1)\"]");
    let input = json!({"url": site.url("/"), "headers": {"X": "Secret:KEY", "Y": "my_secret:KEY"}});
    let ran = fixture.run_without_terminal(&["call", "http_request", &input.to_string()]);
    assert_eq!(ran.code, 0, "{ran:?}");
    check_without_value(&site.requests().concat());
}

#[test]
fn what_is_denied_by_name_is_sent_nowhere() {
    let site = WebServer::start(|_| ("200 OK\r\nContent-Type: text/plain", b"ok".to_vec()));
    for deny in ["secret(KEY)", "secret(K*)", "secret(*)", "secret(*: 127.0.0.1)"] {
        let rules =
            format!("allow = [\"web_fetch(127.0.0.1)\", \"secret(KEY)\"]\ndeny = [\"{deny}\"]");
        let fixture = fixture_for(&site, &rules);
        for request in requests_with_key(&site) {
            let request = request.to_string();
            let arguments = ["call", "http_request", &request, "--approve", "all"];
            let ran = fixture.run_without_terminal(&arguments);
            assert!(ran.code == 5 && ran.err.contains("denied"), "{deny}: {request}: {ran:?}");
            assert!(ran.err.contains(deny), "{ran:?}");
        }
        // A secret that is bound to this host is not an exception.
        set(&fixture, &["KEY", "--force", "--host", "127.0.0.1"], VALUE);
        let request = requests_with_key(&site)[0].to_string();
        let ran =
            fixture.run_without_terminal(&["call", "http_request", &request, "--approve", "all"]);
        assert_eq!(ran.code, 5, "{ran:?}");
    }
    assert_eq!(site.requests(), [""; 0], "nothing was sent");
}

#[test]
fn a_secret_that_is_for_a_host_goes_there_as_far_as_the_address_is_allowed() {
    let site = WebServer::start(|_| ("200 OK\r\nContent-Type: text/plain", b"ok".to_vec()));
    let fixture = fixture_for(&site, "allow = [\"web_fetch(127.0.0.1)\"]");
    set(&fixture, &["KEY", "--force", "--host", "127.0.0.1"], VALUE);
    for request in requests_with_key(&site) {
        let ran = fixture.run_without_terminal(&["call", "http_request", &request.to_string()]);
        assert_eq!(ran.code, 0, "{request}: {ran:?}");
    }
    assert_eq!(site.requests().iter().filter(|request| request.contains(VALUE)).count(), 5);
    // A variable of that name takes precedence over the vault, whose hosts do not apply then.
    let request = requests_with_key(&site)[0].to_string();
    let mut command = fixture.haft_without_terminal(&["call", "http_request", &request]);
    let output = command.env("HAFT_SECRET_KEY", VALUE).output().expect("haft runs");
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert_eq!(site.requests().len(), 5);
}

#[test]
fn a_person_is_shown_which_secret_goes_where() {
    let site = WebServer::start(|_| ("200 OK\r\nContent-Type: text/plain", b"ok".to_vec()));
    let fixture =
        fixture_for(&site, "allow = [\"web_fetch(127.0.0.1)\"]\n[approvals]\nelsewhere = true");
    let mut client = Client::introduced(&fixture, json!({}));
    client.call(1, "http_request", requests_with_key(&site)[0].clone());
    let began = Instant::now();
    let id = loop {
        let list = fixture.run(&["approvals", "list", "--json"]).json();
        if let Some(id) = list[0]["request"]["id"].as_str() {
            break id.to_owned();
        }
        assert!(began.elapsed() < TIMEOUT, "nobody asks");
    };
    let shown = fixture.run(&["approvals", "show", &id]);
    assert!(shown.out.contains("send the secret KEY to 127.0.0.1"), "{shown:?}");
    assert_eq!(site.requests(), [""; 0]);
    assert_eq!(fixture.run(&["approvals", "approve", &id]).code, 0);
    let answer = client.next();
    assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
    assert!(site.requests().concat().contains(VALUE));
    check_without_value(&answer.to_string());
}

#[test]
fn a_redirect_carries_no_secret_to_another_host() {
    let other = WebServer::start(|_| ("200 OK\r\nContent-Type: text/plain", b"ok".to_vec()));
    let place = format!("http://localhost:{}/", other.address.port());
    let head: &'static str = format!("302 Found\r\nLocation: {place}").leak();
    let first = WebServer::start(move |_| (head, Vec::new()));
    let rules = format!(
        "allow = [\"web_fetch(127.0.0.1)\", \"web_fetch(localhost)\", \"secret(KEY)\"]\n\
         [network]\nallow = [\"{}\", \"localhost:{}\"]\n",
        first.address,
        other.address.port()
    );
    let fixture = fixture(&rules);
    for request in requests_with_key(&first).into_iter().take(2) {
        let ran = fixture.run_without_terminal(&["call", "http_request", &request.to_string()]);
        check_silent(&ran);
    }
    assert!(first.requests().iter().all(|request| request.contains(VALUE)));
    check_without_value(&other.requests().concat());
    assert!(!other.requests().is_empty(), "it was followed");
}

#[test]
fn a_server_takes_new_secrets_without_a_restart_and_shows_none_of_them() {
    let fixture = Fixture::new().user_config("allow = [\"secret(KEY)\"]");
    let mut client = Client::start(&fixture, &["--approve", "all", "--structured", "always"]);
    client.listen();
    client.introduce(json!({}));
    let call = json!({"command": "echo is $K", "env": ["K=secret:KEY"]});
    let result = ask(&mut client, 10, "bash", call.clone());
    assert!(text(&result).contains("there is no secret `KEY`"), "{result}");
    set(&fixture, &["KEY"], VALUE);
    let result = ask(&mut client, 11, "bash", call.clone());
    assert!(text(&result).contains("is [secret:KEY]"), "{result}");
    set(&fixture, &["KEY", "--force"], "another-hunter33");
    let result = ask(&mut client, 12, "bash", call);
    assert!(text(&result).contains("is [secret:KEY]"), "{result}");
    // The previous value is still secret.
    let command = "printf tok-hunter; printf '22-abcdef another-hunter%s' 33";
    let result = ask(&mut client, 13, "bash", json!({"command": command}));
    assert!(text(&result).contains("[secret:KEY] [secret:KEY]"), "{result}");
    check_without_value(&result.to_string());
}

#[test]
fn a_secret_stands_in_no_command_line() {
    let fixture = fixture("allow = [\"secret(KEY)\"]");
    let mut client = Client::start(&fixture, &["--approve", "all", "--structured", "always"]);
    client.listen();
    client.introduce(json!({}));
    let command = "until [ -e go ]; do sleep 0.01; done; echo ${#K}";
    client.call(10, "bash", json!({"command": command, "env": ["K=secret:KEY"]}));
    let lines = || {
        let processes = fs::read_dir("/proc").expect("a table").flatten();
        let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        lines.map(|line| String::from_utf8_lossy(&line).into_owned()).collect::<Vec<_>>()
    };
    wait_until(|| lines().iter().any(|line| line.contains("until [ -e go ]")));
    assert!(lines().iter().all(|line| !line.contains("hunter22")));
    fs::write(fixture.path("project/go"), "").expect("written");
    let result = crate::shell::answer(&mut client, 10);
    assert!(text(&result).starts_with("19"), "{result}");
}

/// In a D-Bus session with an open keyring: set, list, use, and the error when the session is gone.
const WITH_A_KEYRING: &str = r#"
printf 'a password' | gnome-keyring-daemon --unlock --components=secrets >/dev/null
bus="--session --print-reply=literal --dest=org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus"
n=0; until dbus-send $bus.NameHasOwner string:org.freedesktop.secrets | grep -q true || [ $n -ge 1000 ]; do n=$((n+1)); done
haft() { "$HAFT" --workspace "$PROJECT" "$@" </dev/null; }
printf '%s' "$VALUE" | "$HAFT" secret set KEY && haft secret list
printf 'another-value' | "$HAFT" secret set OTHER --key keyring
ls "$XDG_STATE_HOME/haft"
haft --approve all --config "$HOME/rules.toml" bash 'echo ${#KEY}; echo $KEY' --env KEY=secret:KEY
env -u DBUS_SESSION_BUS_ADDRESS "$HAFT" --workspace "$PROJECT" --approve all --config "$HOME/rules.toml" bash 'echo $KEY' --env KEY=secret:KEY </dev/null
echo "exit $?"
"#;

#[test]
fn the_key_is_in_the_keyring_of_the_desktop_where_there_is_one() {
    let fixture = Fixture::new();
    let rules = "allow = [\"secret(KEY: echo ${#KEY}; echo $KEY)\", \"secret(KEY: echo $KEY)\"]\n";
    fs::write(fixture.path("home/rules.toml"), rules).expect("written");
    fs::create_dir_all(fixture.path("home/run")).expect("a folder");
    let mut session = std::process::Command::new("dbus-run-session");
    session.args(["--", "sh", "-c", WITH_A_KEYRING]);
    session.env("HAFT", env!("CARGO_BIN_EXE_haft")).env("VALUE", VALUE);
    session.env("PROJECT", fixture.path("project")).env("HOME", fixture.path("home"));
    session.env("XDG_STATE_HOME", fixture.path("home/.local/state"));
    session.env("XDG_RUNTIME_DIR", fixture.path("home/run")).env_remove("XDG_CONFIG_HOME");
    let out = session.output().expect("cargo xtask setup installs dbus and gnome-keyring");
    let shown = String::from_utf8_lossy(&out.stdout);
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(shown.contains("its key in the keyring"), "{shown} {told}");
    assert!(!shown.contains("secrets.key"), "no key lies beside the file: {shown}");
    let length = VALUE.len().to_string();
    assert!(shown.lines().any(|line| line == length), "{shown} {told}");
    assert!(shown.contains("[secret:KEY]") && !shown.contains(VALUE), "{shown}");
    assert!(told.contains("no keyring is available"), "{told}");
    assert!(shown.contains("exit 10"), "{shown}");
}

#[test]
fn who_works_in_a_folder_that_holds_the_secrets_has_commands_that_do_not_see_them() {
    let fixture = Fixture::new();
    let home = fixture.path("home");
    let haft = |words: &[&str]| {
        let mut command = fixture.haft(words);
        command.env("XDG_STATE_HOME", home.join(".local/state")).stdin(Stdio::piped());
        command
    };
    let mut child = haft(&["secret", "set", "KEY"]).spawn().expect("haft runs");
    child.stdin.take().expect("piped").write_all(VALUE.as_bytes()).expect("read");
    assert!(child.wait().expect("ends").success());
    assert!(home.join(".local/state/haft/secrets.key").exists());
    let workspace = home.display().to_string();
    let look = "x=.local; cat $x/state/haft/secrets.* | wc -c; echo in ${#x}";
    let out = haft(&["--workspace", &workspace, "--approve", "all", "bash", look]).output();
    let out = out.expect("haft runs");
    let (shown, told) =
        (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(shown.contains("in 6"), "{shown} {told}");
    assert!(shown.lines().any(|line| line.trim() == "0"), "{shown}");
}

#[test]
fn commands_see_neither_file_nor_key_wherever_they_are() {
    let fixture = Fixture::new();
    let state = fixture.path("home/elsewhere");
    let mut set = fixture.haft(&["secret", "set", "KEY"]);
    set.env("XDG_STATE_HOME", &state).stdin(Stdio::piped());
    let mut child = set.spawn().expect("haft runs");
    child.stdin.take().expect("piped").write_all(VALUE.as_bytes()).expect("read");
    assert!(child.wait().expect("ends").success());
    assert!(state.join("haft/secrets.key").exists());
    let command = "x=elsewhere; cat ~/$x/haft/secrets.* | wc -c; echo in ${#x}";
    let mut look = fixture.haft(&["--approve", "all", "bash", command]);
    let out = look.env("XDG_STATE_HOME", &state).output().expect("haft runs");
    let out = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.contains("in 9"), "{out}");
    assert!(out.lines().any(|line| line.trim() == "0"), "{out}");
}

#[test]
fn many_processes_that_set_at_once_lose_nothing() {
    let fixture = Fixture::new();
    let start = |number: usize| -> Child {
        let mut command = fixture.haft(&["secret", "set", &format!("S{number}")]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("haft runs")
    };
    let mut all: Vec<Child> = (0..6).map(start).collect();
    for child in &mut all {
        child.stdin.take().expect("piped").write_all(VALUE.as_bytes()).expect("read");
    }
    assert!(all.iter_mut().all(|child| child.wait().expect("ends").success()));
    let names = fixture.run(&["secret", "list", "--json"]).json();
    assert_eq!(names["secrets"].as_array().map(Vec::len), Some(6), "{names}");
}

#[test]
fn who_is_killed_leaves_the_old_file_or_the_new_one() {
    let fixture = fixture("");
    for round in 0..12_u64 {
        let name = format!("S{round}");
        let mut command = fixture.haft(&["secret", "set", &name]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("haft runs");
        child.stdin.take().expect("piped").write_all(VALUE.as_bytes()).expect("read");
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(700 * round) {
            thread::yield_now();
        }
        child.kill().expect("ours");
        child.wait().expect("ends");
        let vault = StoreVault::new(&fixture.path("home/.local/state/haft"), Vec::new);
        assert_eq!(vault.find("KEY").expect("whole").expect("there").value, VALUE);
        let value = vault.find(&name).expect("whole").map(|secret| secret.value);
        assert!(value.is_none_or(|value| value == VALUE));
    }
    set(&fixture, &["LAST"], VALUE);
    let left = fs::read_dir(fixture.path("home/.local/state/haft")).expect("a folder").flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("new-")), "{left:?}");
}

fn variables() -> haft::Variables {
    vec![("PATH".into(), "/usr/bin:/bin".into())]
}

/// Builds a gate with a vault, where a rule gives KEY to every command.
fn gate(fixture: &Fixture) -> Gate {
    let vault = StoreVault::new(&fixture.path("state"), Vec::new);
    vault.set("KEY", VALUE, &[], Existing::Keep).expect("set");
    let vault: Arc<dyn Vault> = vault;
    let registry = Registry::default();
    registry.register_all(haft::catalogue::all()).expect("every name once");
    let mut layer = Layer::new(LayerKind::User, "config.toml");
    layer.mode = Some(Mode::All);
    let rule = Rule::parse(Action::Allow, "secret(KEY)", Source::named("config.toml"));
    layer.rules = vec![rule.expect("a rule")];
    let workspace = Arc::new(Workspace::open(&fixture.path("project")).expect("a workspace"));
    let programs = Programs::local(workspace.clone(), variables, &fixture.path(""));
    let programs = programs.with_secrets(Vec::new(), Some(vault.clone()));
    Gate::builder(registry)
        .policy(Policy::new([layer]))
        .paths(workspace.clone())
        .service::<dyn Disk>(workspace)
        .service::<dyn Executor>(Arc::new(programs))
        .redactor(Redactor::default().with_vault(vault))
        .build()
}

#[tokio::test(flavor = "multi_thread")]
async fn live_output_has_no_secret_in_it_also_when_it_comes_in_pieces() {
    let fixture = Fixture::new();
    let gate = gate(&fixture);
    let mut events = gate.events().subscribe();
    // The first half is held back, and the text before it is not.
    let command =
        "printf 'begin tok-hun'; until [ -e go ]; do sleep 0.01; done; printf 'ter22-abcdef end t'";
    let input = json!({"command": command, "env": ["K=secret:KEY"]});
    let call = tokio::spawn({
        let gate = gate.clone();
        async move { gate.call(CallRequest::new("bash", input, Context::new("test"))).await }
    });
    let mut shown = String::new();
    let watching = async {
        while let Some(event) = events.next().await {
            match event.kind {
                CallEventKind::Output { text } => shown += &text,
                CallEventKind::Finished(_) => break,
                _ => {}
            }
            if shown == "begin " {
                fs::write(fixture.path("project/go"), "").expect("written");
            }
        }
    };
    tokio::time::timeout(TIMEOUT, watching).await.expect("it ends");
    assert_eq!(shown, "begin [secret:KEY] end t");
    let outcome = call.await.expect("no panic");
    assert!(outcome.content.starts_with("begin [secret:KEY] end t"), "{}", outcome.content);
}
