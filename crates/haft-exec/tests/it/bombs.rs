//! Programs that consume resources endlessly: they hit a limit, the denial is reported, and nothing
//! of them is left.

use std::{path::Path, sync::Arc};

use haft_core::{
    Shell,
    commands::{KillReason, Process, Stream},
};
use haft_exec::{Allowance, LimitBackend, ProcessSettings, Programs, Workspace};

use crate::{
    programs::{count, environment, over, said, shell, wait},
    test_workspace::TestWorkspace,
};

const ALLOWANCE: Allowance = Allowance { processes: 100, memory: 256 << 20 };

/// Everything ends when its starter is dropped, so it is returned too.
fn start(
    process_settings: ProcessSettings,
    place: &TestWorkspace,
    text: &str,
) -> (Shell, Arc<dyn Process>) {
    let workspace = Arc::new(Workspace::open(&place.root).expect("a directory"));
    let programs =
        Programs::new(process_settings, workspace, environment, &place.root).limited(ALLOWANCE);
    let power = Shell::unchecked(Arc::new(programs));
    let process = power.start(power.launch(shell(text), Path::new("."))).expect("it starts");
    (power, process)
}

#[track_caller]
fn check_reported(process: &dyn Process, what: &str) {
    let told = process.denials();
    // Only a control group reports denials; limits of single processes do not.
    if ALLOWANCE.mechanism() == LimitBackend::Group {
        assert!(told.iter().any(|refusal| refusal.what == what), "{told:?}");
    }
}

async fn a_bomb_of_processes_is_bounded_and_goes(process_settings: ProcessSettings) {
    let held = ALLOWANCE.mechanism();
    assert_ne!(
        held,
        LimitBackend::MemoryOnly,
        "root has no limits here: test as another user, or with control groups"
    );
    let place = TestWorkspace::new();
    let word = format!("bomb_{}_{process_settings:?}", std::process::id());
    let text = format!("{word}() {{ {word} | {word} & }}; {word}; echo lit; sleep 600");
    let (_power, process) = start(process_settings, &place, &text);
    wait(&*process, |_| said(&*process, Stream::Out).contains("retry")).await;
    // A group allows exactly this many; limits of the user's processes include those of all other
    // programs.
    let most = if held == LimitBackend::Group { 100 } else { 2_000 };
    assert!(count(&word) <= most, "{} of them", count(&word));
    check_reported(&*process, "start a process");
    process.kill(KillReason::OnRequest).await;
    assert_eq!(count(&word), 0);
}

async fn a_bomb_of_memory_is_bounded(process_settings: ProcessSettings) {
    let place = TestWorkspace::new();
    let (_power, process) = start(
        process_settings.clone(),
        &place,
        "head -c 2G /dev/zero | tail | wc -c; exit ${PIPESTATUS[1]}",
    );
    let status = over(&*process).await;
    assert!(status.exit_code.is_some_and(|code| code != 0), "{status:?}");
    check_reported(&*process, "more memory");
    // Other programs have memory again.
    let (_power, process) = start(process_settings, &place, "head -c 20M /dev/zero | tail | wc -c");
    assert_eq!(over(&*process).await.exit_code, Some(0));
    assert_eq!(said(&*process, Stream::Out).trim(), "20971520");
}

macro_rules! suites {
    ($($suite:ident: $process_settings:expr;)*) => { $(
        mod $suite {
            use haft_exec::ProcessSettings;

            #[tokio::test]
            async fn a_bomb_of_processes_is_bounded_and_goes() {
                super::a_bomb_of_processes_is_bounded_and_goes($process_settings).await;
            }

            #[tokio::test]
            async fn a_bomb_of_memory_is_bounded() {
                super::a_bomb_of_memory_is_bounded($process_settings).await;
            }
        }
    )* };
}

suites! {
    local: ProcessSettings::Nothing;
    landlock: ProcessSettings::Landlock;
    bubblewrap: ProcessSettings::Bubblewrap;
}
