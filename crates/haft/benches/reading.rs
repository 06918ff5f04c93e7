//! Measures the analysis of a command for the policy. Goals: a median of at most 50 us for everyday
//! commands; at most 5 ms for a short text that triggers the worst case of the second parser's
//! repair; at most one second for the longest text that is analysed.
//!
//!     cargo bench -p haft --bench reading

use haft_shell::read;

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

/// Found by random tests: our parser accepts these texts, and the other parser tries to repair
/// them.
const HARD_TO_REPAIR: &[&str] = &[
    "echo ${x:-{a,b}} [ ] } ${y#(} ; [[ a = b ]] ; case x in (a|b) ls;; esac; ls }{ ]] ((1))",
    "ls [ \"$a\" \"$b\" ] { [ \"$a\" \"$b\" ] { [ \"$c\" \"$d\" ] } { [ \"$a\" \"$b\" ] } ] [ } {",
];

/// Pieces that are repeated to the maximum length.
const PIECES: &[&str] = &["ls;", "a|", ">a ", "$x;", "x=1;", "a b ", "f(){ ls;};", "cat 'x y' | "];

#[divan::bench(args = COMMANDS)]
fn reading(command: &str) -> usize {
    read(divan::black_box(command)).commands.len()
}

#[divan::bench(args = HARD_TO_REPAIR)]
fn repairing(command: &str) -> usize {
    read(divan::black_box(command)).commands.len()
}

#[divan::bench(args = PIECES, sample_count = 5)]
fn the_longest(piece: &str) -> usize {
    let mut text: String = (0..(64 << 10) / (piece.len() + 3))
        .map(|number| piece.replace('a', &format!("a{:x}", number % 4096)))
        .collect();
    text.push_str("ls");
    read(divan::black_box(&text)).commands.len()
}
