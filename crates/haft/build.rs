//! How the program is linked, for a quick start. Each saves a tenth of a millisecond or two of every command, and `true` takes six.
//!
//! - At a fixed address, as Go does. A program that may lie anywhere has every table of pointers rewritten when it starts, a
//!   page fault for each page of them. Heap, stack and libraries are at random addresses all the same; whoever wants the image
//!   there too builds with `--features pie`.
//! - With the functions that a start runs side by side (`start.ld`), so that few pages of the program are touched.
//! - With the unwinder of the C compiler in it, instead of a shared library that is opened and wired up at every start.
#![expect(
    clippy::disallowed_methods,
    reason = "cargo speaks to build scripts by variables, and compilers are asked by running them"
)]

use std::{env, fs, path::Path, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |variable: &str, value: &str| env::var(variable).is_ok_and(|it| it == value);
    if !is("CARGO_CFG_TARGET_OS", "linux") {
        return;
    }
    if env::var("CARGO_FEATURE_PIE").is_err() {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
    if is("PROFILE", "release") && has_usual_linker() {
        lay_out();
    }
    if is("CARGO_CFG_TARGET_ENV", "gnu") && has_static_unwinder() {
        link_unwinder();
    }
}

/// The linkers that rustc uses by itself, LLVM's and GNU's, know such scripts. Who has chosen another is left alone.
fn has_usual_linker() -> bool {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    env::var("RUSTC_LINKER").is_err() && !flags.contains("link")
}

fn lay_out() {
    println!("cargo::rerun-if-changed=start.ld");
    if let Ok(folder) = env::var("CARGO_MANIFEST_DIR") {
        println!("cargo::rustc-link-arg-bins=-T{folder}/start.ld");
    }
}

/// Asked of the compiler that links. Where it has none, or is not asked like this, the shared one is used as ever.
fn has_static_unwinder() -> bool {
    let is_native = env::var("HOST") == env::var("TARGET");
    let linker = env::var("RUSTC_LINKER").unwrap_or_else(|_| "cc".to_owned());
    let answer = Command::new(linker).arg("-print-file-name=libgcc_eh.a").output();
    let path = answer.map(|answer| String::from_utf8_lossy(&answer.stdout).into_owned());
    is_native && path.is_ok_and(|path| Path::new(path.trim()).is_file())
}

/// rustc asks for `libgcc_s` by name; what the linker finds under that name first is a note that says where the same is.
fn link_unwinder() {
    let Ok(folder) = env::var("OUT_DIR") else { return };
    let note = Path::new(&folder).join("libgcc_s.so");
    if fs::write(note, "GROUP ( -lgcc_eh -lgcc )\n").is_ok() {
        println!("cargo::rustc-link-search=native={folder}");
    }
}
