//! Programs that take without end: they meet a wall, it is told, and nothing of them is left.

use std::{path::Path, sync::Arc};

use haft_core::{
    Shell,
    commands::{KillReason, Process, Stream},
};
use haft_exec::{Allowance, LimitBackend, ProcessSettings, Programs, Workspace};

use crate::{
    place::Place,
    programs::{count, environment, over, said, shell, wait},
};

const ALLOWANCE: Allowance = Allowance { processes: 100, memory: 256 << 20 };

/// Everything ends with what has started it, so that comes along.
fn start(around: ProcessSettings, place: &Place, text: &str) -> (Shell, Arc<dyn Process>) {
    let workspace = Arc::new(Workspace::open(&place.root).expect("a directory"));
    let programs = Programs::new(around, workspace, environment, &place.root).limited(ALLOWANCE);
    let power = Shell::unchecked(Arc::new(programs));
    let process = power.start(power.launch(shell(text), Path::new("."))).expect("it starts");
    (power, process)
}

#[track_caller]
fn check_told(process: &dyn Process, what: &str) {
    let told = process.denials();
    // Only a group tells; limits of single processes do not.
    if ALLOWANCE.held() == LimitBackend::Group {
        assert!(told.iter().any(|refusal| refusal.what == what), "{told:?}");
    }
}

async fn a_bomb_of_processes_is_bounded_and_goes(around: ProcessSettings) {
    let held = ALLOWANCE.held();
    assert_ne!(
        held,
        LimitBackend::MemoryOnly,
        "nothing holds root here: test as somebody else, or with control groups"
    );
    let place = Place::new();
    let word = format!("bomb_{}_{around:?}", std::process::id());
    let text = format!("{word}() {{ {word} | {word} & }}; {word}; echo lit; sleep 600");
    let (_power, process) = start(around, &place, &text);
    wait(&*process, |_| said(&*process, Stream::Out).contains("retry")).await;
    // A group holds exactly so many; of a person's own processes those of all others are given on top.
    let most = if held == LimitBackend::Group { 100 } else { 2_000 };
    assert!(count(&word) <= most, "{} of them", count(&word));
    check_told(&*process, "start a process");
    process.kill(KillReason::OnRequest).await;
    assert_eq!(count(&word), 0);
}

async fn a_bomb_of_memory_is_bounded(around: ProcessSettings) {
    let place = Place::new();
    let (_power, process) =
        start(around.clone(), &place, "head -c 2G /dev/zero | tail | wc -c; exit ${PIPESTATUS[1]}");
    let status = over(&*process).await;
    assert!(status.exit_code.is_some_and(|code| code != 0), "{status:?}");
    check_told(&*process, "more memory");
    // Others have what they need again.
    let (_power, process) = start(around, &place, "head -c 20M /dev/zero | tail | wc -c");
    assert_eq!(over(&*process).await.exit_code, Some(0));
    assert_eq!(said(&*process, Stream::Out).trim(), "20971520");
}

macro_rules! suites {
    ($($suite:ident: $around:expr;)*) => { $(
        mod $suite {
            use haft_exec::ProcessSettings;

            #[tokio::test]
            async fn a_bomb_of_processes_is_bounded_and_goes() {
                super::a_bomb_of_processes_is_bounded_and_goes($around).await;
            }

            #[tokio::test]
            async fn a_bomb_of_memory_is_bounded() {
                super::a_bomb_of_memory_is_bounded($around).await;
            }
        }
    )* };
}

suites! {
    local: ProcessSettings::Nothing;
    landlock: ProcessSettings::Landlock;
    bubblewrap: ProcessSettings::Bubblewrap;
}
