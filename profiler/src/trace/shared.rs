//! Current trace, and the buffer of each thread in it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::buffer::{Buffer, BufferSpace, Text};

/// Largest number of distinct texts of a trace. Later texts are all stored as `…`.
const TEXTS: usize = 1 << 16;
const OTHER: &str = "…";

/// State that all threads of a trace share.
#[derive(Debug)]
pub(super) struct Shared {
    number: u64,
    pub(super) room: Arc<BufferSpace>,
    pub(super) texts: Texts,
    buffers: Mutex<Vec<Arc<Mutex<Buffer>>>>,
}

/// Number of the current trace; 0 if there is none.
static LISTENING: AtomicU64 = AtomicU64::new(0);

/// Current trace.
static CURRENT: RwLock<Option<Arc<Shared>>> = RwLock::new(None);

/// Trace, and this thread's buffer in it.
type ThreadBuffer = (Arc<Shared>, Arc<Mutex<Buffer>>);

thread_local! {
    static MINE: RefCell<Option<ThreadBuffer>> = const { RefCell::new(None) };
}

/// Returns whether a trace is being recorded.
pub(super) fn is_on() -> bool {
    LISTENING.load(Ordering::Relaxed) != 0
}

/// Starts a trace. Returns `None` if one is being recorded already.
pub(super) fn begin(entries: u64) -> Option<Arc<Shared>> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut current = CURRENT.write().unwrap_or_else(PoisonError::into_inner);
    if current.is_some() {
        return None;
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let shared = Arc::new(Shared {
        number,
        room: Arc::new(BufferSpace::new(entries)),
        texts: Texts::default(),
        buffers: Mutex::default(),
    });
    *current = Some(Arc::clone(&shared));
    LISTENING.store(number, Ordering::Relaxed);
    Some(shared)
}

/// Stops recording.
pub(super) fn end() {
    LISTENING.store(0, Ordering::Relaxed);
    CURRENT.write().unwrap_or_else(PoisonError::into_inner).take();
}

/// Calls `then` with this thread's buffer. Does nothing if no trace is recorded.
pub(super) fn with_buffer(then: impl FnOnce(&Shared, &mut Buffer)) {
    let number = LISTENING.load(Ordering::Relaxed);
    if number == 0 {
        return;
    }
    // The thread-local of an ending thread is gone.
    let _ = MINE.try_with(|mine| {
        let Ok(mut mine) = mine.try_borrow_mut() else { return };
        if mine.as_ref().is_none_or(|(shared, _)| shared.number != number) {
            *mine = joined();
        }
        if let Some((shared, buffer)) = mine.as_ref() {
            then(shared, &mut lock(buffer));
        }
    });
}

/// Registers a buffer for this thread in the current trace.
fn joined() -> Option<ThreadBuffer> {
    let shared = CURRENT.read().unwrap_or_else(PoisonError::into_inner).clone()?;
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("thread").to_owned();
    let buffer = Arc::new(Mutex::new(Buffer::new(name, Arc::clone(&shared.room))));
    shared.lock_buffers().push(Arc::clone(&buffer));
    Some((shared, buffer))
}

impl Shared {
    /// Returns whether this is the current trace.
    pub(super) fn is_current(&self) -> bool {
        LISTENING.load(Ordering::Relaxed) == self.number
    }

    /// Returns the buffers of all threads.
    pub(super) fn buffers(&self) -> Vec<Arc<Mutex<Buffer>>> {
        self.lock_buffers().clone()
    }

    fn lock_buffers(&self) -> MutexGuard<'_, Vec<Arc<Mutex<Buffer>>>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks a buffer. Only the stack sampler contends for it.
pub(super) fn lock(buffer: &Mutex<Buffer>) -> MutexGuard<'_, Buffer> {
    buffer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Interned texts by number.
#[derive(Debug, Default)]
pub(super) struct Texts {
    known: RwLock<BTreeMap<String, Text>>,
}

impl Texts {
    /// Returns the number of a text.
    pub(super) fn number(&self, text: &str) -> Text {
        if let Some(number) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(text) {
            return *number;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let text = if known.len() < TEXTS { text } else { OTHER };
        let next = Text::try_from(known.len()).expect("texts are bounded");
        *known.entry(text.to_owned()).or_insert(next)
    }

    /// Returns all texts, ordered by number.
    pub(super) fn all(&self) -> Vec<String> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut texts = vec![String::new(); known.len()];
        for (text, number) in &*known {
            texts[*number as usize].clone_from(text);
        }
        texts
    }
}
