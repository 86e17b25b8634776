//! Throughput of a store: puts and gets of 32 MiB objects, with one thread and with eight.
//!
//! `cargo run -p cloze-remote-store --example throughput -- URL`

use std::io::{self, Write};
use std::thread;
use std::time::Instant;

use store::Store;

const OBJECT_BYTES: usize = 32 << 20;
const OBJECTS: usize = 16;

fn main() -> io::Result<()> {
    let usage = || io::Error::new(io::ErrorKind::InvalidInput, "usage: throughput URL");
    let location = std::env::args().nth(1).ok_or_else(usage)?;
    let store = remote_store::open(&location)?.prefixed(&format!("throughput-{}", std::process::id()));
    let content: Vec<u8> = (0..=250).cycle().take(OBJECT_BYTES).collect();
    for threads in [1, 8] {
        let put = measure(threads, |at| store.put(&at.to_string(), &content).map(drop))?;
        let get = measure(threads, |at| read(&store, at))?;
        writeln!(io::stdout(), "{threads} threads: put {put:.0} MB/s, get {get:.0} MB/s")?;
    }
    store.delete_all("")
}

fn read(store: &Store, at: usize) -> io::Result<()> {
    let bytes = store.get(&at.to_string())?.len();
    if bytes == OBJECT_BYTES { Ok(()) } else { Err(io::Error::other(format!("{bytes} bytes came back"))) }
}

/// Returns megabytes per second of one call for each object.
fn measure(threads: usize, call: impl Fn(usize) -> io::Result<()> + Sync) -> io::Result<f64> {
    let begun = Instant::now();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                let call = &call;
                scope.spawn(move || (worker..OBJECTS).step_by(threads).try_for_each(call))
            })
            .collect();
        let outcomes = workers.into_iter().map(|worker| worker.join().expect("no panic"));
        outcomes.collect::<io::Result<()>>()
    })?;
    Ok((OBJECTS * OBJECT_BYTES) as f64 / 1e6 / begun.elapsed().as_secs_f64())
}
