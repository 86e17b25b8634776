//! A writer over a store whose puts are held or fail.

use std::io::ErrorKind;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use store::{
    Created, Entry, FaultConfig, Lines, LogConfig, MemoryBackend, Replaced, Stat, Store, StoreBackend, Upload, Version,
};

use super::*;

/// Puts each line, in one segment.
const EAGER: LogConfig =
    LogConfig { put_every: Duration::ZERO, segment_bytes: 1 << 20, full_disk_timeout: Duration::from_secs(60) };

/// Puts the first line, and the others on a flush.
const LAZY: LogConfig = LogConfig { put_every: Duration::MAX, ..EAGER };

/// Store in memory. Its next commit can be held, and commits can fail.
#[derive(Clone, Debug)]
struct GatedBackend {
    memory: MemoryBackend,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    held: Mutex<Option<(SyncSender<()>, Receiver<()>)>>,
    fails: AtomicBool,
}

#[derive(Debug)]
struct GatedUpload {
    upload: Box<dyn Upload>,
    gate: Arc<Gate>,
}

impl GatedBackend {
    fn new() -> Self {
        Self { memory: MemoryBackend::new(FaultConfig::none()), gate: Arc::default() }
    }

    fn writer(&self, config: LogConfig) -> LogWriter {
        let store = Store::new(Arc::new(self.clone()));
        LogWriter::start(Log::open_with(&store, "log", config).expect("in memory")).expect("a thread")
    }

    /// Holds the next commit. The first end is notified when it begins; the second lets it continue.
    fn hold(&self) -> (Receiver<()>, SyncSender<()>) {
        let (reached, is_reached) = sync_channel(1);
        let (open, opened) = sync_channel(1);
        *self.gate.held.lock().expect("no panic") = Some((reached, opened));
        (is_reached, open)
    }

    fn lines(&self) -> Vec<String> {
        let lines = Lines::new(&Store::from_memory(&self.memory), "log").expect("in memory");
        lines.map(|line| String::from_utf8(line.expect("in memory")).expect("text")).collect()
    }
}

impl StoreBackend for GatedBackend {
    fn get(&self, name: &str) -> io::Result<Option<(Vec<u8>, Stat)>> {
        self.memory.get(name)
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.memory.get_range(name, range)
    }

    fn head(&self, name: &str) -> io::Result<Option<Stat>> {
        self.memory.head(name)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        self.memory.list(folder)
    }

    fn begin_upload(&self, name: &str) -> io::Result<Box<dyn Upload>> {
        Ok(Box::new(GatedUpload { upload: self.memory.begin_upload(name)?, gate: Arc::clone(&self.gate) }))
    }

    fn put_if_absent(&self, name: &str, bytes: &[u8]) -> io::Result<Created> {
        self.memory.put_if_absent(name, bytes)
    }

    fn put_if_version(&self, name: &str, bytes: &[u8], expected: &Version) -> io::Result<Replaced> {
        self.memory.put_if_version(name, bytes, expected)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.memory.delete(name)
    }

    fn sweep(&self, folder: &str) -> io::Result<Vec<String>> {
        self.memory.sweep(folder)
    }

    fn display_path(&self, name: &str) -> String {
        self.memory.display_path(name)
    }

    fn local(&self, folder: &str) -> Option<PathBuf> {
        self.memory.local(folder)
    }
}

impl Upload for GatedUpload {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.upload.write_at(offset, bytes)
    }

    fn commit(&mut self) -> io::Result<Stat> {
        let held = self.gate.held.lock().expect("no panic").take();
        if let Some((reached, opened)) = held {
            reached.send(()).expect("the test waits");
            opened.recv().expect("the test lets it continue");
        }
        if self.gate.fails.load(Ordering::SeqCst) {
            return Err(io::Error::from(ErrorKind::PermissionDenied));
        }
        self.upload.commit()
    }
}

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|line| line.to_string()).collect()
}

#[test]
fn pushes_do_not_wait_for_a_put_and_a_flush_is_answered_after_it() {
    let store = GatedBackend::new();
    let mut writer = store.writer(LAZY);
    let (is_held, open) = store.hold();
    let expected = numbered(QUEUE);
    for line in &expected[..QUEUE - 1] {
        writer.push(line.clone());
    }
    is_held.recv().expect("the first line is put");
    let flushed = writer.begin_flush().expect("the thread runs");
    writer.push(expected[QUEUE - 1].clone());
    assert!(store.lines().is_empty() && flushed.0.try_recv().is_err(), "no line is durable");
    open.send(()).expect("it is held");
    flushed.wait().expect("put");
    assert_eq!(store.lines(), expected[..QUEUE - 1]);
    writer.begin_flush().expect("the thread runs").wait().expect("put");
    assert_eq!(store.lines(), expected);
    writer.check().expect("no put failed");
}

#[test]
fn a_push_waits_for_a_full_queue_and_keeps_the_order() {
    let store = GatedBackend::new();
    let mut writer = store.writer(LAZY);
    let (is_held, open) = store.hold();
    let expected = numbered(3 * QUEUE);
    // The thread has the first line, and the queue the others.
    for line in &expected[..=QUEUE] {
        writer.push(line.clone());
    }
    is_held.recv().expect("the first line is put");
    let rest = expected[QUEUE + 1..].to_vec();
    thread::scope(|scope| {
        scope.spawn(|| {
            for line in rest {
                writer.push(line);
            }
        });
        open.send(()).expect("it is held");
    });
    writer.begin_flush().expect("the thread runs").wait().expect("put");
    assert_eq!(store.lines(), expected);
}

#[test]
fn a_failed_put_is_an_error_and_its_lines_are_put_later() {
    let store = GatedBackend::new();
    let mut writer = store.writer(EAGER);
    store.gate.fails.store(true, Ordering::SeqCst);
    writer.push("a".to_owned());
    writer.push("b".to_owned());
    let flushed = writer.begin_flush().expect("the thread runs").wait();
    assert_eq!(flushed.expect_err("the store fails").kind(), ErrorKind::PermissionDenied);
    let error = writer.check().expect_err("the store fails").to_string();
    assert!(error.contains("log/00000000.jsonl"), "{error}");
    writer.check().expect("it is returned once");
    store.gate.fails.store(false, Ordering::SeqCst);
    writer.push("c".to_owned());
    writer.begin_flush().expect("the thread runs").wait().expect("put");
    assert_eq!(store.lines(), ["a", "b", "c"]);
    writer.check().expect("no further put failed");
}

#[test]
fn a_writer_that_was_dropped_discards_its_queue_and_ends_the_put_in_progress() {
    let store = GatedBackend::new();
    let mut writer = store.writer(EAGER);
    let (is_held, open) = store.hold();
    writer.push("a".to_owned());
    is_held.recv().expect("the first line is put");
    writer.push("b".to_owned());
    let flushed = writer.begin_flush().expect("the thread runs");
    // As the drop begins, which then waits for the put.
    writer.discard.cancel();
    open.send(()).expect("it is held");
    drop(writer);
    assert_eq!(store.lines(), ["a"]);
    let error = flushed.wait().expect_err("its lines were discarded").to_string();
    assert!(error.contains("has ended"), "{error}");
}

#[test]
fn a_panic_of_the_thread_is_an_error() {
    let mut writer = GatedBackend::new().writer(EAGER);
    writer.push("a\nb".to_owned());
    let flushed = writer.begin_flush().and_then(PendingFlush::wait).expect_err("the thread has ended");
    writer.push("c".to_owned());
    let pushed = writer.check().expect_err("the thread has ended");
    // The first request that finds the queue closed returns the panic.
    assert!(format!("{flushed} {pushed}").contains("a line ends where it ends"), "{flushed}; {pushed}");
}
