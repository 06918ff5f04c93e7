//! Links the program at a fixed address. A program that may lie anywhere has every table of pointers rewritten when it
//! starts, a page fault for each page of them: that is a third of the time of `haft hello`. Heap, stack and libraries
//! are at random addresses all the same.

#[expect(clippy::disallowed_methods, reason = "cargo speaks to build scripts by variables")]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
