//! Links the program at a fixed address, as Go does. A program that may lie anywhere has every table of pointers
//! rewritten when it starts, a page fault for each page of them: about 0.2 ms, the difference between 1.6 and 2.0 times
//! `true` for `haft --version`. Heap, stack and libraries are at random addresses all the same; whoever wants the image
//! there too builds with `--features pie`.

#[expect(clippy::disallowed_methods, reason = "cargo speaks to build scripts by variables")]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_linux = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    let wants_pie = std::env::var("CARGO_FEATURE_PIE").is_ok();
    if is_linux && !wants_pie {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
