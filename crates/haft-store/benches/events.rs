//! Measures how long after its commit an event arrives in another process, and what happens when
//! two processes with 16 writers each write as fast as they can. The other processes are real: this
//! program starts itself again.
//!
//!     cargo bench -p haft-store --bench events
//!
//! Goals: a median of at most 10 ms on SQLite and 5 ms on PostgreSQL; of 100,000 writes none lost,
//! none refused. With `HAFT_TEST_POSTGRES` set to the address of a server, PostgreSQL is measured
//! too.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use haft_core::feed::{Feed, FeedItem};
use haft_store::{Announcement, EventRetention, StoreAddress, StoreFeed, StoreLocation};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

const EVENTS: usize = 200;
const WRITERS: u64 = 16;
const WRITES: u64 = 100_000;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tell", address] => announce_lines(&runtime, address),
        ["write", address, name, count] => write(&runtime, address, name, count.parse()?),
        _ => measure(&runtime),
    }
}

fn measure(runtime: &Runtime) -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let mut out = std::io::stdout().lock();
    let mut stores = vec![("sqlite", folder.path().join("haft.db").display().to_string())];
    stores.extend(postgres().map(|url| ("postgres", url)));
    for (name, address) in &stores {
        for (when, pause) in
            [("busy", 2), ("after 3 s of quiet", 3_000), ("after 31 s of quiet", 31_000)]
        {
            let count = if pause > 1_000 { 5 } else { EVENTS };
            let mut late = measure_delays(runtime, address, count, Duration::from_millis(pause))?;
            late.sort_unstable();
            let (median, worst) = (late[late.len() / 2], late[late.len() - 1]);
            writeln!(
                out,
                "{name:<9} commit to another process, {when:<20} median {median:>6.1?}  longest {worst:>6.1?}"
            )?;
        }
        writeln!(
            out,
            "{name:<9} processor time of a subscriber that hears nothing: {:.2} % after 2 s, {:.2} % after 35 s",
            idle(runtime, address, Duration::ZERO)?,
            idle(runtime, address, Duration::from_secs(35))?
        )?;
        let (took, newest) = contend(runtime, address)?;
        let rate = WRITES as f64 / took.as_secs_f64();
        writeln!(
            out,
            "{name:<9} {WRITES} writes of 2 processes with {WRITERS} writers each: {took:.1?}, {rate:.0}/s, {newest} counted"
        )?;
    }
    Ok(())
}

fn events(address: &str) -> Outcome<StoreFeed> {
    let address = StoreAddress::parse(address, Path::new("/"))?;
    let retention = EventRetention { max_events: 10 * WRITES, ..EventRetention::default() };
    Ok(StoreFeed::new(StoreLocation::with_retention(address, retention)))
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// The child process: announces one event per line, and prints the time of its commit.
fn announce_lines(runtime: &Runtime, address: &str) -> Outcome<()> {
    let events = events(address)?;
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        line?;
        let body = json!({});
        runtime.block_on(events.announce(&Announcement::of("bench", "x", &body)))?;
        writeln!(out, "{}", now_us())?;
    }
    Ok(())
}

struct ChildProcess {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

fn child_process(arguments: &[&str]) -> Outcome<ChildProcess> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let input = child.stdin.take().ok_or("piped")?;
    let output = BufReader::new(child.stdout.take().ok_or("piped")?);
    Ok(ChildProcess { child, input, output })
}

fn measure_delays(
    runtime: &Runtime,
    address: &str,
    count: usize,
    pause: Duration,
) -> Outcome<Vec<Duration>> {
    let mut child_process = child_process(&["tell", address])?;
    let events = events(address)?;
    let newest = runtime.block_on(events.newest())?;
    let mut subscription = events.subscribe(newest);
    let mut late = Vec::new();
    for round in 0..=count {
        // Subscribed while nothing happens.
        let quiet = async { tokio::time::timeout(pause, subscription.next()).await };
        if let Ok(news) = runtime.block_on(quiet) {
            return Err(format!("nothing was announced: {news:?}").into());
        }
        child_process.input.write_all(b"\n")?;
        let heard = runtime.block_on(subscription.next())?;
        let heard_us = now_us();
        let mut line = String::new();
        child_process.output.read_line(&mut line)?;
        // The first one creates the store.
        if round > 0 && matches!(heard, FeedItem::Event(_)) {
            // An event that arrives before the other process prints its time counts as immediate.
            late.push(Duration::from_micros(heard_us.saturating_sub(line.trim().parse()?)));
        }
    }
    drop(child_process.input);
    child_process.child.wait()?;
    Ok(late)
}

/// Processor use of an idle subscriber, in percent of one processor.
fn idle(runtime: &Runtime, address: &str, before: Duration) -> Outcome<f64> {
    let mut subscription = events(address)?.subscribe(runtime.block_on(events(address)?.newest())?);
    let mut quiet = |span| {
        runtime.block_on(async { tokio::time::timeout(span, subscription.next()).await.is_err() })
    };
    quiet(before + Duration::from_secs(2));
    let (span, began) = (Duration::from_secs(4), ticks()?);
    quiet(span);
    Ok((ticks()? - began) as f64 / span.as_secs_f64())
}

/// The processor time of this process, in hundredths of a second.
fn ticks() -> Outcome<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let facts = stat.rsplit_once(')').ok_or("no name in brackets")?.1.split_whitespace();
    Ok(facts.skip(11).take(2).filter_map(|it| it.parse::<u64>().ok()).sum())
}

/// The child process: announces events with several concurrent writers.
fn write(runtime: &Runtime, address: &str, name: &str, count: u64) -> Outcome<()> {
    let events = Arc::new(events(address)?);
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for writer in 0..WRITERS {
            let (events, subject) = (events.clone(), format!("{name}-{writer}"));
            tasks.spawn(async move {
                for number in 0..count / WRITERS {
                    let body = json!({ "number": number });
                    if let Err(error) =
                        events.announce(&Announcement::of("bench", &subject, &body)).await
                    {
                        return Err(format!("{subject} {number}: {error}"));
                    }
                }
                Ok(())
            });
        }
        tasks.join_all().await.into_iter().collect::<Result<Vec<()>, String>>()
    })?;
    Ok(())
}

/// Runs both writers, then checks that every event exists, in order, with numbers without gaps.
fn contend(runtime: &Runtime, address: &str) -> Outcome<(Duration, u64)> {
    let events = events(address)?;
    let first = runtime.block_on(events.newest())?;
    let half = (WRITES / 2).to_string();
    let began = Instant::now();
    let children = [
        child_process(&["write", address, "a", &half])?,
        child_process(&["write", address, "b", &half])?,
    ];
    for mut child in children {
        if !child.child.wait()?.success() {
            return Err("a writer was refused".into());
        }
    }
    let took = began.elapsed();
    let newest = runtime.block_on(events.newest())?;
    let mut next = std::collections::HashMap::new();
    let mut after = first;
    while after < newest {
        for event in runtime.block_on(events.since(after, 1_000))? {
            if event.seq != after + 1 {
                return Err(format!("{} comes after {after}", event.seq).into());
            }
            after = event.seq;
            let expected = next.entry(event.subject).or_insert(0);
            if event.body["number"] != json!(*expected) {
                return Err(format!("{} instead of {expected}", event.body).into());
            }
            *expected += 1;
        }
    }
    if newest - first != WRITES {
        return Err(format!("{} of {WRITES} writes are there", newest - first).into());
    }
    Ok((took, newest - first))
}

#[expect(clippy::disallowed_methods, reason = "the only access of this bench to the environment")]
fn postgres() -> Option<String> {
    std::env::var("HAFT_TEST_POSTGRES").ok().filter(|url| !url.is_empty())
}
