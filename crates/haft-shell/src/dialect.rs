//! Checks whether shells other than bash read a text as bash does.

use super::parse::ParseProblem;

/// Returns why a shell of this name may read the text differently, if it may. Our parser reads
/// everything as bash does.
pub(super) fn difference(shell: &str, text: &str) -> Option<ParseProblem> {
    let is_same = match shell {
        "bash" | "rbash" | "eval" | "trap" => true,
        // csh and fish are other languages; zsh has patterns that run commands.
        "zsh" | "ksh" | "mksh" | "fish" => text.chars().all(is_plain),
        _ => is_posix(text),
    };
    (!is_same).then_some("another shell may read this text differently")
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || " ./_-:;|&>'\",+@%".contains(c)
}

/// Rejects every sequence that only bash interprets, even in quotes: an expansion may take it out
/// of them.
fn is_posix(text: &str) -> bool {
    const OF_BASH: &[&str] = &[
        "$'", "$\"", "<(", ">(", "[[", "((", "&>", ">&", "<<<", "|&", "function", "coproc",
        "select", "time", "=(", "+=", ";&", "<\\(", "@", "~", "source", "\\\n",
    ];
    let dropped = text.replace("2>&1", "").replace(">&2", "").replace("\"$@\"", "");
    let has_list = text.contains('{') && (text.contains(',') || text.contains(".."));
    !has_list && !OF_BASH.iter().any(|sign| dropped.contains(sign))
}
