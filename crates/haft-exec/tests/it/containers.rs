//! Containers, made for real with podman: what holds in them, and that nothing of them is left.

use std::{path::Path, sync::Arc};

use haft_exec::{Around, ContainerSettings};

/// With the engine and the image that `cargo xtask setup` makes. None where they are not, and then a case says so; in CI it
/// fails.
pub(crate) fn settings() -> Option<ContainerSettings> {
    let engine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/containers/podman");
    let Ok(engine) = engine.canonicalize() else {
        let in_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
        assert!(!in_ci, "no container engine; `cargo xtask setup` makes one");
        println!("skipped: no container engine; `cargo xtask setup` makes one");
        return None;
    };
    let engine = Some(engine.display().to_string());
    Some(ContainerSettings { engine, image: "haft-test".to_owned(), ..Default::default() })
}

pub(crate) fn around() -> Option<Around> {
    settings().map(|settings| Around::Container(Arc::new(settings)))
}
