//! No path in any field of any file tool reaches outside the workspace.

use std::sync::atomic::{AtomicBool, Ordering};

use haft::{ErrorKind, Outcome, Tool};
use serde_json::{Value, json};

use super::{OUTSIDE, Setup};

/// All ways to pass a path to a tool. Add new tools here.
fn calls(tool: &str, path: &str) -> Vec<Value> {
    let envelope =
        |sections: &str| json!({"patch": format!("*** Begin Patch\n{sections}*** End Patch\n")});
    match tool {
        "read" | "stat" | "list" | "make_directory" => vec![json!({"path": path})],
        "delete" => vec![json!({"path": path}), json!({"path": path, "recursive": true})],
        "write" => vec![json!({"path": path, "content": "intruder"})],
        "edit" => vec![json!({"path": path, "old_string": OUTSIDE, "new_string": "intruder"})],
        "edit_lines" => {
            let patches = json!([{"start_line": 1, "end_line": 1, "content": "intruder"}]);
            vec![json!({"path": path, "patches": patches, "expected_version": "c0123456789abcdef"})]
        }
        "move" => vec![
            json!({"from": path, "to": "taken"}),
            json!({"from": "own", "to": path}),
            json!({"from": "own", "to": path, "on_conflict": "overwrite"}),
        ],
        "patch" => vec![
            envelope(&format!("*** Add File: {path}\n+intruder\n")),
            envelope(&format!("*** Update File: {path}\n@@\n-{OUTSIDE}\n+intruder\n")),
            envelope(&format!("*** Delete File: {path}\n")),
            envelope(&format!("*** Update File: own\n*** Move to: {path}\n@@\n-own\n+intruder\n")),
            json!({"patch": format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{OUTSIDE}\n+intruder\n")}),
        ],
        "glob" => vec![
            json!({"pattern": "**", "path": path}),
            json!({"pattern": path}),
            json!({"pattern": format!("{path}/**")}),
        ],
        "grep" => vec![
            json!({"pattern": "OUTSIDE", "path": path}),
            json!({"pattern": "OUTSIDE", "include": path}),
        ],
        // Their path only filters journal entries; see `undo.rs` for the files that they change.
        "undo" | "redo" | "changes" => Vec::new(),
        other => panic!("say how `{other}` takes a path"),
    }
}

fn setup() -> Setup {
    let setup = Setup::new();
    setup.put("own", "own\n");
    setup.put("a/b", "b\n");
    setup.link("file_link", "../outside/x");
    setup.link("folder_link", "../outside");
    setup.link("a/deep_link", "../../outside/directory");
    setup.link("chain", "folder_link");
    setup.link("absolute_link", "/etc");
    setup
}

fn check(setup: &Setup, tool: &str, path: &str, input: &Value) -> Outcome {
    let before = setup.outside();
    let outcome = setup.call(tool, input.clone());
    let whole = serde_json::to_string(&outcome).expect("JSON");
    let asked: &str = &input.to_string();
    let content = whole.replace(asked, "");
    let leaks = tool != "edit" && tool != "patch" && content.contains(OUTSIDE);
    assert!(!leaks && !content.contains("root:x:"), "{tool} {path:?} tells: {whole}");
    assert!(before == setup.outside(), "{tool} {path:?} changed something outside");
    outcome
}

#[test]
fn no_hostile_path_reaches_outside_through_any_tool() {
    let long = "x/".repeat(2_500);
    let hostile = [
        "../x",
        "../outside/x",
        "/etc/passwd",
        "a/../../x",
        "a/../../outside/x",
        "./../outside/x",
        "file_link",
        "folder_link/x",
        "folder_link/new",
        "a/deep_link/new",
        "a/deep_link/new/deeper/file",
        "chain/x",
        "chain/directory/new/file",
        "absolute_link/passwd",
        "/",
        "..",
        "a\0b",
        "\0",
        &long,
        "/proc/self/environ",
        "folder_link/../outside/x",
        "/proc/self/root/etc/passwd",
    ];
    for tool in haft::catalogue::files::TOOLS {
        let setup = setup();
        for path in hostile {
            for input in calls(tool.name(), path) {
                // These act on the link itself, which is inside; its target stays unchanged.
                if tool.spec().keeps_links && path == "file_link" {
                    check(&self::setup(), tool.name(), path, &input);
                    continue;
                }
                let outcome = check(&setup, tool.name(), path, &input);
                // A glob without matches is not an error, because it is not a path.
                let is_pattern =
                    input.get("path").is_none() && ["glob", "grep"].contains(&tool.name());
                let Some(error) = &outcome.error else {
                    assert!(is_pattern, "{} {input} worked: {}", tool.name(), outcome.content);
                    continue;
                };
                let fits = matches!(
                    error.kind,
                    ErrorKind::Denied | ErrorKind::Input | ErrorKind::NotFound
                );
                assert!(fits && !error.hint.is_empty(), "{} {input}: {error:?}", tool.name());
                assert_eq!(setup.text("own"), "own\n", "{} {input}", tool.name());
            }
        }
    }
}

#[test]
fn the_workspace_itself_and_nothing_are_no_way_out_either() {
    for tool in haft::catalogue::files::TOOLS {
        for path in
            ["", ".", "./", "a/..", "~/x", "~", "$HOME/x", "%2e%2e/x", "..\\x", "...", "a//b"]
        {
            let setup = setup();
            for input in calls(tool.name(), path) {
                check(&setup, tool.name(), path, &input);
                assert!(setup.has("a") && setup.path("").is_dir(), "{} {input}", tool.name());
            }
        }
    }
}

#[test]
fn an_absolute_path_inside_is_the_same_as_a_relative_one() {
    let setup = setup();
    let absolute = setup.path("").canonicalize().expect("there").join("a/b").display().to_string();
    let outcome = setup.ok("read", json!({"path": absolute}));
    assert!(outcome.content.starts_with("1\tb\n[a/b: "), "{}", outcome.content);
}

#[test]
fn a_link_that_is_swapped_while_files_are_written_leads_nowhere() {
    let setup = setup().on_several_threads();
    let before = setup.outside();
    std::fs::create_dir(setup.path("real")).expect("a folder");
    let done = AtomicBool::new(false);
    let mut told = Vec::new();
    let targets = [setup.path("real"), setup.folder.path().join("outside")];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for target in &targets {
                    let _ = std::os::unix::fs::symlink(target, setup.path("swapped"));
                    let _ = std::fs::remove_file(setup.path("swapped"));
                }
            }
        });
        for number in 0..200 {
            setup.call("write", json!({"path": format!("swapped/{number}"), "content": "x"}));
            told.push(setup.call("read", json!({"path": "swapped/x"})).content);
            // A directory created by the write would invalidate the next check.
            if setup.path("swapped").symlink_metadata().is_ok_and(|facts| facts.is_dir()) {
                let _ = std::fs::remove_dir_all(setup.path("swapped"));
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(before == setup.outside(), "something was written outside");
    assert!(!told.concat().contains(OUTSIDE), "something outside was read");
}
