//! Time account of a worker: busy, starved, blocked.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::{Span, trace_span};

use crate::spans::{SPANS, nanoseconds, queue_fill, unique_number};
use crate::thread_stats::this_thread;

/// State of a worker. A worker is in exactly one state at any instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Computing an item.
    Busy,
    /// Waiting for input.
    Starved,
    /// Waiting for a free slot in its output queue.
    Blocked,
}

/// Number of newest items for which the cost is kept.
const COSTS: usize = 1024;

/// Three clocks of a worker, its item count and the fill level of its output queue.
///
/// One lock guards the clocks, because three separate atomics may not add up. The lock is taken a few times per item (a
/// batch or a part), which has no measurable cost.
#[derive(Debug)]
pub(crate) struct TimeAccount {
    name: String,
    /// Number of the account in trace spans.
    number: u64,
    capacity: usize,
    queued: AtomicUsize,
    /// Whether a thread is bound to this account.
    is_adopted: AtomicBool,
    /// Kernel number of the thread that finishes the items; 0 before the first.
    thread: AtomicU32,
    /// Bytes and tokens of the finished items.
    held: [AtomicU64; 2],
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    now: Option<Activity>,
    /// Start of the state, or end of the newest item.
    changed: Instant,
    since: Instant,
    spent: [Duration; 3],
    items: u64,
    /// Busy time when the newest item was finished, and busy seconds of each of the newest items.
    worked: Duration,
    costs: VecDeque<f32>,
    /// Span of the state, for trace recorders.
    span: Span,
}

/// Snapshot of a `TimeAccount`: `busy + starved + blocked == wall`, exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerStats {
    /// Name of the thread.
    pub name: String,
    /// Time computing items.
    pub busy: Duration,
    /// Time waiting for input.
    pub starved: Duration,
    /// Time waiting for a free slot in the output queue.
    pub blocked: Duration,
    /// Time from the worker's start to its end, or to now.
    pub wall: Duration,
    /// Current state; `None` if the worker has ended.
    pub doing: Option<Activity>,
    /// Time since the state began or the newest item was finished.
    pub age: Duration,
    /// Items finished.
    pub items: u64,
    /// Bytes in the finished items; 0 if the work does not report them.
    pub bytes: u64,
    /// Tokens in the finished items; 0 if the work does not report them.
    pub tokens: u64,
    /// Items in the output queue.
    pub queued: usize,
    /// Capacity of the output queue; 0 for the last worker of a chain.
    pub capacity: usize,
    /// Kernel number of the thread, after its first finished item.
    pub thread: Option<u32>,
}

impl TimeAccount {
    /// Creates an account that starts now, busy. `capacity` is that of the worker's output queue.
    #[must_use]
    pub(crate) fn new(name: impl Into<String>, capacity: usize) -> Arc<Self> {
        let now = Instant::now();
        let state = State {
            now: Some(Activity::Busy),
            changed: now,
            since: now,
            spent: [Duration::ZERO; 3],
            items: 0,
            worked: Duration::ZERO,
            costs: VecDeque::with_capacity(COSTS),
            span: Span::none(),
        };
        let account = Self {
            name: name.into(),
            number: unique_number(),
            capacity,
            queued: AtomicUsize::new(0),
            is_adopted: AtomicBool::new(false),
            thread: AtomicU32::new(0),
            held: Default::default(),
            state: Mutex::new(state),
        };
        account.switch(Some(Activity::Busy), 0);
        Arc::new(account)
    }

    /// Switches to `activity`; returns the previous one.
    pub(crate) fn begin(&self, activity: Activity) -> Option<Activity> {
        self.switch(Some(activity), 0)
    }

    /// Counts one finished item.
    pub(crate) fn finish_item(&self) {
        if self.thread.load(Ordering::Relaxed) == 0 {
            self.thread.store(this_thread().unwrap_or(0), Ordering::Relaxed);
        }
        let now = self.lock().now;
        self.switch(now, 1);
    }

    /// Stops all clocks: the worker has ended.
    pub(crate) fn end(&self) {
        self.switch(None, 0);
    }

    /// Returns the clocks up to this instant.
    #[must_use]
    pub(crate) fn read(&self) -> WorkerStats {
        let (spent, items, doing, age) = {
            let mut state = self.lock();
            state.charge();
            (state.spent, state.items, state.now, state.changed.elapsed())
        };
        let [busy, starved, blocked] = spent;
        // A blocked sender has already counted its unsent item.
        let queued = self.queued.load(Ordering::Relaxed).min(self.capacity);
        let wall = spent.iter().sum();
        let name = self.name.clone();
        let capacity = self.capacity;
        let thread = Some(self.thread.load(Ordering::Relaxed)).filter(|thread| *thread != 0);
        let [bytes, tokens] = self.held.each_ref().map(|held| held.load(Ordering::Relaxed));
        WorkerStats { name, busy, starved, blocked, wall, doing, age, items, bytes, tokens, queued, capacity, thread }
    }

    /// Returns the busy seconds of each of the newest items, the oldest first.
    #[must_use]
    pub(crate) fn costs(&self) -> Vec<f32> {
        self.lock().costs.iter().copied().collect()
    }

    /// Returns the items in the output queue and its capacity. Cheaper than [`read`](Self::read), for frequent
    /// sampling.
    #[must_use]
    pub(crate) fn queue(&self) -> (usize, usize) {
        (self.queued.load(Ordering::Relaxed).min(self.capacity), self.capacity)
    }

    /// Number of the account in trace spans.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Counts an item that enters the output queue.
    pub(crate) fn item_queued(&self) {
        let before = self.queued.fetch_add(1, Ordering::Relaxed);
        self.report_fill(before + 1);
    }

    /// Counts an item that left the output queue.
    pub(crate) fn item_taken(&self) {
        let before = self.queued.fetch_sub(1, Ordering::Relaxed);
        self.report_fill(before.saturating_sub(1));
    }

    fn report_fill(&self, queued: usize) {
        // A blocked sender has already counted its unsent item.
        queue_fill(self.number, queued.min(self.capacity), self.capacity);
    }

    fn switch(&self, activity: Option<Activity>, items: u64) -> Option<Activity> {
        let mut state = self.lock();
        state.charge();
        state.items += items;
        if items > 0 || state.now != activity {
            state.changed = state.since;
        }
        if items > 0 {
            let worked = state.spent[Activity::Busy as usize];
            let cost = worked.saturating_sub(std::mem::replace(&mut state.worked, worked)).as_secs_f32();
            if state.costs.len() == COSTS {
                state.costs.pop_front();
            }
            state.costs.push_back(cost);
        }
        // A span for each item, so that a recorder that starts later soon knows the state.
        state.span = activity.map_or_else(Span::none, |activity| self.state_span(activity, state.since));
        std::mem::replace(&mut state.now, activity)
    }

    /// Span of the state that begins at `at`; it lasts until it is dropped.
    fn state_span(&self, activity: Activity, at: Instant) -> Span {
        let actor = self.name.as_str();
        let id = self.number;
        let own = self.is_adopted.load(Ordering::Relaxed);
        // The fields are evaluated only if a recorder is active.
        match activity {
            Activity::Busy => {
                trace_span!(target: SPANS, parent: None, "busy", actor, id, own, at_ns = nanoseconds(at))
            }
            Activity::Starved => {
                trace_span!(target: SPANS, parent: None, "starved", actor, id, own, at_ns = nanoseconds(at))
            }
            Activity::Blocked => {
                trace_span!(target: SPANS, parent: None, "blocked", actor, id, own, at_ns = nanoseconds(at))
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // A panic cannot leave durations half-written.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn charge(&mut self) {
        let now = Instant::now();
        if let Some(clock) = self.now {
            self.spent[clock as usize] += now - self.since;
        }
        self.since = now;
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<TimeAccount>>> = const { RefCell::new(None) };
}

/// Binds `account` to this thread, so that [`starved`] and [`add_held`] charge it.
pub(crate) fn adopt(account: &Arc<TimeAccount>) {
    account.is_adopted.store(true, Ordering::Relaxed);
    account.begin(Activity::Busy);
    CURRENT.with(|current| *current.borrow_mut() = Some(Arc::clone(account)));
}

/// Adds the bytes and tokens of an item to this thread's account. Does nothing on a thread without an account. Costs
/// two atomic additions per item.
pub fn add_held(bytes: u64, tokens: u64) {
    CURRENT.with_borrow(|account| {
        for (held, more) in account.iter().flat_map(|account| account.held.iter().zip([bytes, tokens])) {
            held.fetch_add(more, Ordering::Relaxed);
        }
    });
}

/// Runs `wait` and charges its time to this thread's account as starved. Without an account it only runs `wait`.
pub fn starved<T>(wait: impl FnOnce() -> T) -> T {
    let account = CURRENT.with(|current| current.borrow().clone());
    let before = account.as_ref().and_then(|account| account.begin(Activity::Starved));
    let value = wait();
    if let (Some(account), Some(before)) = (account, before) {
        account.begin(before);
    }
    value
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;

    #[test]
    fn clocks_are_separate_and_add_up_to_wall_time() {
        let began = Instant::now();
        let account = TimeAccount::new("x", 1);
        sleep(Duration::from_millis(20));
        account.begin(Activity::Starved);
        sleep(Duration::from_millis(40));
        account.begin(Activity::Blocked);
        sleep(Duration::from_millis(60));
        let live = account.read();
        account.end();
        let elapsed = began.elapsed();
        sleep(Duration::from_millis(5));
        let ended = account.read();
        assert_eq!(ended.busy + ended.starved + ended.blocked, ended.wall);
        assert!(live.wall <= ended.wall && ended.wall <= elapsed, "an ended account does not change");
        assert!(ended.wall >= Duration::from_millis(120));
        for (clock, least) in [(ended.busy, 20), (ended.starved, 40), (ended.blocked, 60)] {
            assert!(clock >= Duration::from_millis(least), "{ended:?}");
        }
    }

    #[test]
    fn the_cost_of_an_item_excludes_waits() {
        let account = TimeAccount::new("x", 1);
        for ms in [5, 20] {
            sleep(Duration::from_millis(ms));
            account.begin(Activity::Blocked);
            sleep(Duration::from_millis(30));
            account.begin(Activity::Busy);
            account.finish_item();
        }
        let costs = account.costs();
        assert!(
            costs.len() == 2 && costs[0] >= 0.005 && costs[0] < 0.03 && costs[1] >= 0.02 && costs[1] < 0.05,
            "{costs:?}"
        );
        let thread = account.read().thread.expect("it has finished an item");
        assert!(std::path::Path::new(&format!("/proc/self/task/{thread}")).exists());
        (0..2 * COSTS).for_each(|_| account.finish_item());
        assert_eq!(account.costs().len(), COSTS);
    }

    #[test]
    fn bytes_and_tokens_are_added_to_the_account_of_the_thread() {
        add_held(1, 1);
        let account = TimeAccount::new("x", 1);
        adopt(&account);
        add_held(300, 20);
        add_held(200, 0);
        let reading = account.read();
        assert_eq!((reading.bytes, reading.tokens), (500, 20));
    }

    #[test]
    fn a_wait_is_charged_to_the_thread_that_waits() {
        let account = TimeAccount::new("x", 1);
        adopt(&account);
        starved(|| sleep(Duration::from_millis(30)));
        let reading = account.read();
        assert!(reading.starved >= Duration::from_millis(30) && reading.busy < reading.starved, "{reading:?}");
    }
}
