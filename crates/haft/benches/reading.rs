//! What reading a command for policy costs. Goal: the median of everyday commands is at most 50 us.
//!
//!     cargo bench -p haft --bench reading

use haft_tools::reading::read;

fn main() {
    divan::main();
}

const COMMANDS: &[&str] = &[
    "ls -la",
    "git log --oneline -n 20 | head -5",
    "grep -rn 'fn main' src",
    "cd crates && cargo test -p haft-core 2>&1 | tail -20",
    "find . -name '*.rs' -not -path './target/*' | xargs wc -l",
    "for f in a b c; do echo \"$f\"; done > out.txt",
];

#[divan::bench(args = COMMANDS)]
fn reading(command: &str) -> usize {
    read(divan::black_box(command)).commands.len()
}
