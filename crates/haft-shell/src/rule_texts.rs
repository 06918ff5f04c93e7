//! The rules that a person may save for a command: the command itself, and the command with other
//! arguments.

use super::{Certainty, Command, Risk, Word, is_one_of};

/// Number of words that name the operation, without flags. The longest matching prefix applies.
static ARITY: &[(&str, usize)] = &[
    ("apt", 2),
    ("apt-get", 2),
    ("aws", 3),
    ("az", 3),
    ("brew", 2),
    ("bun", 2),
    ("bun run", 3),
    ("bundle", 2),
    ("bundle exec", 3),
    ("cargo", 2),
    ("cargo nextest", 3),
    ("cargo xtask", 3),
    ("cargo run", 2),
    ("composer", 2),
    ("conda", 2),
    ("deno", 2),
    ("deno task", 3),
    ("docker", 2),
    ("docker compose", 3),
    ("docker container", 3),
    ("docker image", 3),
    ("docker network", 3),
    ("docker volume", 3),
    ("docker buildx", 3),
    ("docker-compose", 2),
    ("dotnet", 2),
    ("flutter", 2),
    ("gcloud", 3),
    ("gh", 3),
    ("git", 2),
    ("git bisect", 3),
    ("git config", 3),
    ("git notes", 3),
    ("git remote", 3),
    ("git stash", 3),
    ("git submodule", 3),
    ("git worktree", 3),
    ("go", 2),
    ("go mod", 3),
    ("go tool", 3),
    ("gradle", 2),
    ("helm", 2),
    ("just", 2),
    ("kubectl", 2),
    ("kubectl config", 3),
    ("kubectl rollout", 3),
    ("make", 2),
    ("mix", 2),
    ("mvn", 2),
    ("npm", 2),
    ("npm exec", 3),
    ("npm run", 3),
    ("npx", 2),
    ("nx", 2),
    ("php artisan", 3),
    ("pip", 2),
    ("pip3", 2),
    ("pnpm", 2),
    ("pnpm exec", 3),
    ("pnpm run", 3),
    ("podman", 2),
    ("podman compose", 3),
    ("poetry", 2),
    ("poetry run", 3),
    ("rails", 2),
    ("rake", 2),
    ("rustup", 2),
    ("rustup target", 3),
    ("rustup toolchain", 3),
    ("swift", 2),
    ("systemctl", 2),
    ("terraform", 2),
    ("turbo", 2),
    ("uv", 2),
    ("uv pip", 3),
    ("uv run", 3),
    ("yarn", 2),
    ("yarn run", 3),
    ("yarn workspace", 4),
    ("zig", 2),
    ("./gradlew", 2),
    ("./mvnw", 2),
];

/// Options before the sub-command that take the next word as their value.
static GLOBAL_VALUES: &[(&str, &str)] = &[
    ("git", "-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source"),
    ("docker", "-H --host -c --context --config -l --log-level --tlscacert --tlscert --tlskey"),
    ("podman", "-c --connection --url --root --runroot --log-level --identity"),
    (
        "kubectl",
        "-n --namespace --context --kubeconfig --cluster --user -s --server --token --as -v",
    ),
    ("cargo", "--manifest-path -Z --color"),
    ("npm", "--prefix -w --workspace"),
    ("pnpm", "--filter -F -C --dir"),
    ("yarn", "--cwd"),
    ("make", "-C -f -j"),
    ("gh", "-R --repo"),
    ("helm", "-n --namespace"),
];

/// Programs that do whatever their arguments say, so that "with any arguments" would allow
/// anything.
const TOO_WIDE: &str = "bash sh zsh dash ksh fish ash python python2 python3 node perl ruby php lua deno bun \
     osascript tclsh Rscript java awk gawk sed xargs env eval exec source . command builtin sudo \
     doas su ssh scp rsync rm mv cp dd ln chmod chown find fd tee curl wget nc ncat socat kill \
     killall pkill tar unzip install timeout nice nohup time watch parallel busybox vim vi nvim \
     emacs ed tmux screen crontab at docker podman kubectl psql mysql sqlite3 truncate shred \
     mount strace script flock chroot unshare trap set export declare alias shopt npx bunx uvx \
     entr gdb expect systemd-run pwsh powershell csh tcsh mksh yash rbash nu elvish xonsh pypy \
     ipython julia R octave groovy scala jshell elixir iex erl ghci runghc luajit tsx ts-node \
     mawk nawk m4 rg man less more most view ex nano fzf sftp ftp telnet mosh sshpass zip cpio \
     bsdtar 7z sort split tcpdump setsid ionice chrt taskset stdbuf unbuffer runuser setpriv \
     capsh nsenter bwrap firejail fakeroot proot xvfb-run dbus-run-session ltrace perf valgrind \
     hyperfine ld.so ld-linux-x86-64.so.2 ld-linux-aarch64.so.1";

/// Programs that run the program named by their arguments, so that every pattern that begins with
/// one is too wide.
const RUNNERS: &str = "env sudo doas su xargs parallel timeout nice nohup time watch strace ltrace flock chroot \
     unshare nsenter setsid ionice chrt taskset stdbuf runuser setpriv bwrap eval exec command \
     builtin busybox systemd-run entr ssh";

/// Pairs of words that run the program named by the third.
static RUNNING_PAIRS: &[&str] = &[
    "npm exec",
    "pnpm exec",
    "pnpm dlx",
    "yarn exec",
    "yarn dlx",
    "uv run",
    "poetry run",
    "bundle exec",
    "docker run",
    "docker exec",
    "podman run",
    "podman exec",
    "kubectl exec",
];

/// Three words that run whatever follows.
static TOO_WIDE_TRIPLES: &[&str] = &[
    "git bisect run",
    "git submodule foreach",
    "docker compose run",
    "docker compose exec",
    "docker container run",
    "docker container exec",
    "podman compose run",
    "podman compose exec",
    "uv tool run",
];

/// Two words that run whatever follows.
static TOO_WIDE_PAIRS: &[&str] = &[
    "npm run",
    "npm exec",
    "pnpm run",
    "pnpm exec",
    "yarn run",
    "bun run",
    "uv run",
    "poetry run",
    "bundle exec",
    "docker run",
    "docker exec",
    "docker compose",
    "podman run",
    "podman exec",
    "kubectl exec",
    "kubectl delete",
    "git config",
    "git push",
    "git filter-branch",
    "git bisect",
    "git submodule",
    "git rebase",
    "go run",
    "go tool",
    "deno run",
    "deno eval",
    "cargo xtask",
    "make SHELL",
    "gh api",
    "cargo publish",
    "npm publish",
    "deno task",
    "git -c",
    "git difftool",
    "cargo run",
    "git mergetool",
    "git grep",
    "go generate",
    "go vet",
    "pnpm dlx",
    "yarn dlx",
    "yarn exec",
    "apt install",
    "apt-get install",
];

/// Returns rules that would allow this command, the narrowest first: the command as it is, with
/// other arguments, and with the fewest words that name the operation. Rules that would allow too
/// much are left out, so some commands get one or none.
pub fn rule_texts(command: &Command) -> Vec<String> {
    let mut found = Vec::new();
    // A `*` would match more than itself, and a variable may have another value next time.
    let is_certain = command.words.iter().all(|word| word.certainty == Certainty::Exact);
    if is_certain
        && !command.more
        && !command.text.contains('*')
        && !depends_on_input(&command.words)
    {
        found.push(command.text.clone());
    }
    let is_own_text = command.text == super::words::line(&command.words);
    if matches!(command.risk, Risk::Dangerous(_)) || !is_own_text {
        return found;
    }
    let least = least_words(&command.words);
    if let Some(least) = least {
        let flags = flagged_words(&command.words, least);
        for count in [flags, least] {
            let pattern =
                command.words.get(..count).map(|words| format!("{} *", super::words::line(words)));
            found.extend(pattern.filter(|pattern| {
                !found.contains(pattern) && !pattern.trim_end_matches(" *").contains('*')
            }));
        }
    }
    found
}

/// Returns true when a pattern would allow programs that do whatever their arguments say. Such a
/// pattern is never offered.
pub fn is_too_wide(pattern: &str) -> bool {
    let Some((head, _)) = pattern.split_once('*') else { return false };
    let words: Vec<&str> = head.split_whitespace().filter(|word| !word.starts_with('-')).collect();
    match words[..] {
        [] => true,
        [program] => arity(named(program)) > 1 || is_interpreter(program),
        [program, ..] if is_one_of(RUNNERS, named(program)) => true,
        [program, second] => {
            TOO_WIDE_PAIRS.contains(&format!("{} {second}", named(program)).as_str())
        }
        [program, second, third, ..] => is_wide_triple(named(program), second, third),
    }
}

/// Returns true when a program does what its arguments say. A version at the end of its name makes
/// no difference: `python3.11`.
fn is_interpreter(program: &str) -> bool {
    let named = named(program);
    let unversioned =
        named.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    let begins = |known: &str| {
        let rest = named.strip_prefix(known).unwrap_or_default();
        known.len() > 2 && rest.starts_with(|c: char| c.is_ascii_digit())
    };
    is_one_of(TOO_WIDE, named)
        || is_one_of(TOO_WIDE, unversioned)
        || TOO_WIDE.split_whitespace().any(begins)
}

fn is_wide_triple(program: &str, second: &str, third: &str) -> bool {
    let pair = format!("{program} {second}");
    TOO_WIDE_TRIPLES.contains(&format!("{pair} {third}").as_str())
        || RUNNING_PAIRS.contains(&pair.as_str()) && is_interpreter(third)
}

/// Returns true when the command does what its input says: `bash` in `curl … | bash` does not show
/// what runs.
fn depends_on_input(words: &[Word]) -> bool {
    let mut texts = words.iter().map(|word| word.text.as_str());
    let program = texts.next().unwrap_or_default();
    is_interpreter(program) && texts.all(|text| text.starts_with('-'))
}

/// The name without the directory of the program: `/bin/sh` is `sh`.
fn named(operation: &str) -> &str {
    let (program, _) = operation.split_once(' ').unwrap_or((operation, ""));
    match program.rfind('/').and_then(|slash| operation.get(slash + 1..)) {
        Some(named) => named,
        None => operation,
    }
}

/// Returns the number of words of the widest rule, if one may be offered.
fn least_words(words: &[Word]) -> Option<usize> {
    let plain = |word: &Word| {
        word.known()
            .filter(|text| text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:@+".contains(c)))
            .map(str::to_owned)
    };
    let program = plain(words.first()?)?;
    let values = global_values(named(&program));
    let mut operation = program.clone();
    let (mut count, mut at) = (1, 1);
    while count < arity(&operation).max(arity(named(&operation))) {
        let text = plain(words.get(at)?)?;
        if text == "-c" && named(&program) == "git" {
            return None;
        }
        if is_one_of(values, &text) {
            at += 1;
        } else if !text.starts_with('-') && !text.starts_with('+') {
            operation = format!("{operation} {text}");
            count += 1;
        }
        at += 1;
    }
    let is_too_wide = (count == 1 && is_interpreter(&program))
        || TOO_WIDE_PAIRS.contains(&named(&operation))
        || is_too_wide(&format!("{operation} *"));
    (!is_too_wide && at <= words.len()).then_some(at)
}

/// The options of a program before its sub-command that take the next word as their value.
pub(super) fn global_values(program: &str) -> &'static str {
    let found = GLOBAL_VALUES.iter().find(|(name, _)| *name == program);
    found.map_or("", |(_, values)| values)
}

pub(super) fn arity(operation: &str) -> usize {
    let fits = |beginning: &str| {
        operation == beginning
            || operation.strip_prefix(beginning).is_some_and(|rest| rest.starts_with(' '))
    };
    let known = ARITY.iter().filter(|(beginning, _)| fits(beginning));
    known.max_by_key(|(beginning, _)| beginning.len()).map_or(1, |(_, arity)| *arity)
}

/// One step narrower: includes the flags that follow immediately and their value.
fn flagged_words(words: &[Word], least: usize) -> usize {
    let is_flag =
        |word: &Word| word.known().is_some_and(|text| text.starts_with('-') && text.len() > 1);
    match words.get(least) {
        Some(word) if is_flag(word) && words.len() > least + 1 => {
            let takes_next =
                words.get(least + 1).is_some_and(|next| next.known().is_some() && !is_flag(next));
            least + 1 + usize::from(takes_next && words.len() > least + 2)
        }
        _ => least,
    }
}

#[cfg(test)]
mod tests {
    use super::is_too_wide;

    #[test]
    fn patterns_that_would_allow_any_program_are_too_wide() {
        for pattern in [
            "python3.11 *",
            "/usr/bin/python3.12 *",
            "lua5.4 *",
            "pwsh *",
            "rg *",
            "man *",
            "less *",
            "git bisect run *",
            "git submodule foreach *",
            "sudo cargo *",
            "env FOO *",
            "uv run python3 *",
            "npm exec node *",
            "docker compose exec *",
            "git *",
            "bash *",
        ] {
            assert!(is_too_wide(pattern), "{pattern}");
        }
        for pattern in
            ["cargo test *", "git status *", "npm run build *", "wc *", "uv run pytest *", "ls"]
        {
            assert!(!is_too_wide(pattern), "{pattern}");
        }
    }
}
