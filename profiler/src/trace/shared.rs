//! The trace that is recorded now, and the buffer of each thread in it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::buffer::{Buffer, Room, Text};

/// Texts that a trace keeps; of those that come after, none is told from another.
const TEXTS: usize = 1 << 16;
const OTHER: &str = "…";

/// What all threads of a trace share.
#[derive(Debug)]
pub(super) struct Shared {
    number: u64,
    pub(super) room: Arc<Room>,
    pub(super) texts: Texts,
    buffers: Mutex<Vec<Arc<Mutex<Buffer>>>>,
}

/// The number of the trace that is recorded; 0 for none.
static LISTENING: AtomicU64 = AtomicU64::new(0);

/// The trace that is recorded.
static CURRENT: RwLock<Option<Arc<Shared>>> = RwLock::new(None);

/// A trace, and this thread's buffer in it.
type Mine = (Arc<Shared>, Arc<Mutex<Buffer>>);

thread_local! {
    static MINE: RefCell<Option<Mine>> = const { RefCell::new(None) };
}

/// Whether anybody records.
pub(super) fn is_on() -> bool {
    LISTENING.load(Ordering::Relaxed) != 0
}

/// Records from now on, unless somebody does already.
pub(super) fn begin(entries: u64) -> Option<Arc<Shared>> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut current = CURRENT.write().unwrap_or_else(PoisonError::into_inner);
    if current.is_some() {
        return None;
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let shared = Arc::new(Shared {
        number,
        room: Arc::new(Room::of(entries)),
        texts: Texts::default(),
        buffers: Mutex::default(),
    });
    *current = Some(Arc::clone(&shared));
    LISTENING.store(number, Ordering::Relaxed);
    Some(shared)
}

/// Records no more.
pub(super) fn end() {
    LISTENING.store(0, Ordering::Relaxed);
    CURRENT.write().unwrap_or_else(PoisonError::into_inner).take();
}

/// Lets this thread's buffer hear something; nothing where nobody records.
pub(super) fn heard(then: impl FnOnce(&Shared, &mut Buffer)) {
    let number = LISTENING.load(Ordering::Relaxed);
    if number == 0 {
        return;
    }
    // A thread that is about to end has none any more.
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

/// A buffer for this thread in the trace that is recorded.
fn joined() -> Option<Mine> {
    let shared = CURRENT.read().unwrap_or_else(PoisonError::into_inner).clone()?;
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("thread").to_owned();
    let buffer = Arc::new(Mutex::new(Buffer::new(name, Arc::clone(&shared.room))));
    shared.lock_buffers().push(Arc::clone(&buffer));
    Some((shared, buffer))
}

impl Shared {
    /// Whether it is this one that is recorded.
    pub(super) fn is_current(&self) -> bool {
        LISTENING.load(Ordering::Relaxed) == self.number
    }

    /// The buffers of all threads.
    pub(super) fn buffers(&self) -> Vec<Arc<Mutex<Buffer>>> {
        self.lock_buffers().clone()
    }

    fn lock_buffers(&self) -> MutexGuard<'_, Vec<Arc<Mutex<Buffer>>>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits at the most for who looks at stacks.
pub(super) fn lock(buffer: &Mutex<Buffer>) -> MutexGuard<'_, Buffer> {
    buffer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Texts by number, each once.
#[derive(Debug, Default)]
pub(super) struct Texts {
    known: RwLock<BTreeMap<String, Text>>,
}

impl Texts {
    /// The number of a text.
    pub(super) fn number(&self, text: &str) -> Text {
        if let Some(number) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(text) {
            return *number;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let text = if known.len() < TEXTS { text } else { OTHER };
        let next = Text::try_from(known.len()).expect("texts are bounded");
        *known.entry(text.to_owned()).or_insert(next)
    }

    /// All texts, by number.
    pub(super) fn all(&self) -> Vec<String> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut texts = vec![String::new(); known.len()];
        for (text, number) in &*known {
            texts[*number as usize].clone_from(text);
        }
        texts
    }
}
