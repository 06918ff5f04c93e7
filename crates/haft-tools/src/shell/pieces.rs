//! Lines that were begun in what was written to a shell and not ended: what is written next is read with them, so that
//! policy cannot judge it by itself.

use std::{collections::HashMap, sync::LazyLock};

use parking_lot::{Mutex, MutexGuard};

use haft_core::commands::Process;

/// A longer beginning stays one: nothing ends it any more.
const MAX_BYTES: usize = 64 << 10;

/// By the ids of processes. Sessions number their own, so that one may be asked about a line of another; only that there is
/// one shows.
static BEGUN: LazyLock<Mutex<HashMap<String, String>>> = LazyLock::new(Mutex::default);

fn begun() -> MutexGuard<'static, HashMap<String, String>> {
    BEGUN.lock()
}

/// Whether a line was begun and not ended.
pub(super) fn is_open(id: &str) -> bool {
    begun().contains_key(id)
}

/// Remembers what is written, as far as a shell still waits for its end.
pub(super) fn note(process: &dyn Process, text: &str) {
    if haft_shell::starts_shell(process.command()) {
        add(process.id(), text);
    }
}

fn add(id: &str, text: &str) {
    let mut begun = begun();
    let mut line = begun.remove(id).unwrap_or_default();
    if line.len() <= MAX_BYTES {
        line.push_str(text);
    }
    if !line.is_empty() && !haft_shell::is_complete(&line) {
        begun.insert(id.to_owned(), line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pieces: &[&str], expected: bool) {
        let id = pieces.concat();
        for piece in pieces {
            add(&id, piece);
        }
        assert_eq!(is_open(&id), expected, "{pieces:?}");
    }

    #[test]
    fn a_line_is_open_until_the_shell_runs_it() {
        check(&["tou"], true);
        check(&["tou", "ch m\n"], false);
        check(&["ls\n"], false);
        check(&["echo \"a\n"], true);
        check(&["echo \"a\n", "b\"\n"], false);
        check(&["cat <<E\n", "text\n"], true);
        check(&["cat <<E\n", "text\n", "E\n"], false);
        check(&["tou\\\n"], true);
        check(&["tou\\\n", "ch m\n"], false);
        check(&["echo \\\\\n"], false);
        check(&["if true\n", "then\n"], true);
        check(&["if true\n", "then\n", "ls; fi\n"], false);
        check(&["f() {\n"], true);
        check(&["ls |\n"], true);
        check(&["ls &&\n"], true);
        check(&["echo $(\n"], true);
        check(&["echo `\n"], true);
        check(&["case x in\n"], true);
        check(&["", ""], false);
        check(&[&"'".repeat(MAX_BYTES + 1), "'", "\n", "ls\n"], true);
    }
}
