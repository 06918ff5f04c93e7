//! Environment variables that change what programs load, run or read.

use super::is_one_of;

/// Before a command these change nothing but its output format.
const HARMLESS: &str = "LANG TZ TERM COLUMNS LINES NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE CI RUST_BACKTRACE \
     RUST_LOG CARGO_TERM_COLOR NODE_ENV DEBUG VERBOSE GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS \
     PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE RUST_TEST_THREADS CARGO_TERM_PROGRESS_WHEN \
     PROPTEST_CASES INSTA_UPDATE DEBIAN_FRONTEND";

/// Returns true when a program does the same with this variable as without it.
pub(super) fn is_harmless(name: &str) -> bool {
    is_one_of(HARMLESS, name) || name.starts_with("LC_")
}

/// Returns true when it selects the character encoding.
pub(super) fn is_locale(name: &str) -> bool {
    name.starts_with("LC_") || matches!(name, "LANG" | "LANGUAGE")
}

/// Returns true when setting this variable, exported or not, changes what a shell or the programs
/// it starts do.
pub(super) fn is_risky(name: &str) -> bool {
    const EXACT: &str = "PATH IFS ENV SHELL SHELLOPTS BASHOPTS POSIXLY_CORRECT CDPATH GLOBIGNORE EXECIGNORE PS0 \
         PS1 PS2 PS4 PROMPT_COMMAND HOME PWD OLDPWD TMPDIR EDITOR VISUAL PAGER BROWSER MANPAGER \
         MANPATH LESSOPEN LESSCLOSE LESS GCONV_PATH NLSPATH LOCPATH HOSTALIASES RES_OPTIONS \
         TAR_OPTIONS GREP_OPTIONS GZIP MAKEFLAGS RUSTFLAGS RUSTC RUSTC_WRAPPER CC CXX LD AR \
         CFLAGS JAVA_TOOL_OPTIONS _JAVA_OPTIONS DOCKER_HOST KUBECONFIG RIPGREP_CONFIG_PATH \
         SSLKEYLOGFILE TEXTDOMAIN TEXTDOMAINDIR HISTFILE TMOUT FUNCNEST DIRSTACK FIGNORE";
    const BEGIN: &[&str] = &[
        "LD_", "DYLD_", "BASH", "GIT_", "PYTHON", "PERL", "RUBY", "NODE_", "NPM_", "npm_",
        "CARGO_", "RUSTUP_", "XDG_", "SSH_", "LUA_", "GOFLAGS", "GOPROXY", "JAVA_", "SSL_",
        "CURL_", "AWS_", "GLIBC_", "MALLOC_", "COMP_", "READLINE",
    ];
    const END: &[&str] = &["_proxy", "_PROXY", "_PAGER", "_EDITOR"];
    !is_harmless(name)
        && (is_one_of(EXACT, name)
            || BEGIN.iter().any(|begin| name.starts_with(begin))
            || END.iter().any(|end| name.ends_with(end)))
}
