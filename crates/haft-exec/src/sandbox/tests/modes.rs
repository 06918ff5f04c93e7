//! No command leaves a file with a set-id bit behind, whichever call it uses.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use super::{TestMachine, WRITES, WRITING};

const SET_ID: u32 = 0o6000;

/// Returns the files below a folder that have such a bit.
fn with_set_id(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("there").flatten() {
            let metadata = entry.metadata().expect("there");
            if metadata.permissions().mode() & SET_ID != 0 {
                found.push(entry.path());
            }
            if metadata.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    found
}

/// Creates an archive of a file with both bits.
fn archive(machine: &TestMachine) {
    let file = machine.at("outside/packed");
    fs::write(&file, "x").expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o6755)).expect("set");
    let mut tar = Command::new("tar");
    tar.arg("-cf").arg(machine.at("workspace/a.tar")).arg("-C").arg(machine.at("outside"));
    let status = tar.arg("packed").status();
    assert!(status.expect("tar is there").success());
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("set");
}

#[test]
fn no_command_leaves_a_set_id_bit_behind() {
    let machine = TestMachine::new();
    archive(&machine);
    let flags = libc::O_CREAT | libc::O_WRONLY;
    let temporary = libc::O_TMPFILE | libc::O_WRONLY;
    // Perl accepts these strings from variables only.
    let perl = |code: &str| {
        format!(
            "touch f; perl -e '($f, $g, $none, $here) = (\"f\", \"g\", \"\", \".\"); {code}'; ls -l"
        )
    };
    let scripts = [
        "touch f; chmod 6755 f".to_owned(),
        "touch f; chmod u+s f; chmod g+s f; chmod 2755 .; chmod +s f".to_owned(),
        "mkdir d; chmod g+s d; mkdir -m 2755 e".to_owned(),
        "install -m 4755 /bin/true t".to_owned(),
        "cp -p /usr/bin/passwd p; cp -a /usr/bin/su s; cp --preserve=mode /bin/mount m".to_owned(),
        "tar -xpf a.tar; mkdir x; tar -C x --same-permissions -xf a.tar".to_owned(),
        perl("chmod 04755, $f; syscall(90, $f, 04755)"),
        perl("open F, $f; syscall(91, fileno F, 04755)"),
        perl("syscall(268, -100, $f, 06755); syscall(452, -100, $f, 06755, 0)"),
        perl("open F, $f; syscall(452, fileno F, $none, 04755, 0x1000)"),
        perl("syscall(133, $g, 0104755, 0); $g = \"h\"; syscall(259, -100, $g, 0102755, 0)"),
        perl(&format!(
            "syscall(2, $g, {flags}, 04755); $g = \"h\"; syscall(257, -100, $g, {flags}, 04755)"
        )),
        perl("syscall(85, $g, 04755)"),
        perl(&format!("$how = pack(\"QQQ\", {flags}, 04755, 0); syscall(437, -100, $g, $how, 24)")),
        perl(&format!(
            "$d = syscall(257, -100, $here, {temporary}, 04755); $d = \"/proc/self/fd/$d\"; syscall(265, -100, $d, -100, $g, 0x400)"
        )),
        perl("syscall(83, $g, 02755); $g = \"h\"; syscall(258, -100, $g, 06755)"),
        format!("umask 0; {}", perl("syscall(2, $g, 0101, 06777)")),
        "python3 -c 'import os; open(\"f\", \"w\"); os.chmod(\"f\", 0o4755)'".to_owned(),
    ];
    for script in &scripts {
        for which in WRITING {
            let outcome =
                machine.shell(*which, WRITES, &format!("mkdir w; cd w; cp ../a.tar .; {script}"));
            let found = with_set_id(&machine.at("workspace"));
            assert_eq!(found, Vec::<PathBuf>::new(), "{which:?} `{script}`: {outcome:?}");
            fs::remove_dir_all(machine.at("workspace/w")).expect("made");
        }
    }
}

#[test]
fn a_plain_mode_is_changed_as_ever() {
    let machine = TestMachine::new();
    for which in WRITING {
        let script = "touch f; chmod 750 f; install -m 755 /bin/true t; stat -c %a f t; rm f t";
        let outcome = machine.shell(*which, WRITES, script);
        assert_eq!((outcome.code, outcome.output.trim()), (Some(0), "750\n755"), "{which:?}");
    }
}

#[test]
fn no_command_gives_a_program_rights() {
    let machine = TestMachine::new();
    // `security.capability` with CAP_SYS_ADMIN, permitted and effective.
    let code = "($f, $n) = (\"f\", \"security.capability\"); $v = pack(\"L*\", 0x02000001, 1 << 21, 1 << 21, 0, 0); \
                exit(syscall(188, $f, $n, $v, length $v, 0) == 0 ? 0 : 1)";
    for which in WRITING {
        let outcome = machine.shell(*which, WRITES, &format!("touch f; perl -e '{code}'"));
        assert_eq!(outcome.code, Some(1), "{which:?}: {outcome:?}");
        let capability =
            rustix::fs::getxattr(machine.at("workspace/f"), "security.capability", &mut [0_u8; 64]);
        assert!(capability.is_err(), "{which:?}");
    }
}
