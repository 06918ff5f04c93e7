//! A small file system.

use std::{fs, path::PathBuf, process::Command};

use crate::fixture::Fixture;

/// A small tmpfs, which only root can mount. `CI=true` requires it.
pub(crate) struct SmallDisk(pub(crate) PathBuf);

impl SmallDisk {
    pub(crate) fn new(fixture: &Fixture, size: &str) -> Option<Self> {
        let place = fixture.path("small");
        fs::create_dir(&place).expect("made");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(&place);
        let is_there = mount.output().is_ok_and(|output| output.status.success());
        assert!(
            is_there || !is_ci(),
            "CI has to run this as root: a small tmpfs cannot be mounted"
        );
        is_there.then_some(Self(place))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[expect(clippy::disallowed_methods, reason = "only CI may not leave this out")]
fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}
