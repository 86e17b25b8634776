//! Where an actor's time goes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use telemetry::spans::{SPANS, nanoseconds};
use tracing::{Span, trace_span};

use super::traced;

/// What an actor is doing. At any instant it does exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Its own work.
    Busy,
    /// Waiting for input.
    Starved,
    /// Waiting for room in its output queue.
    Blocked,
}

/// Items whose costs are kept: the newest.
const COSTS: usize = 1024;

/// An actor's three clocks, its item count and the fill of the queue that it writes to.
///
/// The clocks are behind one lock, because a reading must add up and three atomics read one after another need not.
/// It is taken a few times per item (a batch, a part), so it costs nothing that can be measured.
#[derive(Debug)]
pub struct Meter {
    name: String,
    /// Of all meters and of all that is handed over.
    number: u64,
    capacity: usize,
    queued: AtomicUsize,
    /// Whether a thread is this actor and nothing else.
    is_adopted: AtomicBool,
    /// The kernel's number of the thread that finishes its items; 0 before the first.
    thread: AtomicU32,
    /// What its items hold: bytes, tokens.
    held: [AtomicU64; 2],
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    now: Option<Activity>,
    /// When it began to do that, or finished an item last.
    changed: Instant,
    since: Instant,
    spent: [Duration; 3],
    items: u64,
    /// Time at work when the newest item was finished, and what each of the newest ones took of it, in seconds.
    worked: Duration,
    costs: VecDeque<f32>,
    /// What it does now, for who records a trace.
    span: Span,
}

/// A snapshot of a [`Meter`]: `busy + starved + blocked == wall`, exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The thread's name.
    pub name: String,
    /// Time at work.
    pub busy: Duration,
    /// Time waiting for input.
    pub starved: Duration,
    /// Time waiting for room downstream.
    pub blocked: Duration,
    /// Time since the actor began, up to its end.
    pub wall: Duration,
    /// What it does now; nothing if it has ended.
    pub doing: Option<Activity>,
    /// Since it began to do that, or finished an item last.
    pub age: Duration,
    /// Items finished.
    pub items: u64,
    /// Bytes that they hold; 0 where nobody says.
    pub bytes: u64,
    /// Tokens that they hold; 0 where nobody says.
    pub tokens: u64,
    /// Items in its output queue now.
    pub queued: usize,
    /// Items that its output queue can hold; 0 for the last actor of a chain.
    pub capacity: usize,
    /// The kernel's number of its thread, once it has finished an item.
    pub thread: Option<u32>,
}

impl Meter {
    /// A meter that starts now, busy. `capacity` is that of the queue that the actor writes to.
    #[must_use]
    pub fn new(name: impl Into<String>, capacity: usize) -> Arc<Self> {
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
        let meter = Self {
            name: name.into(),
            number: traced::number(),
            capacity,
            queued: AtomicUsize::new(0),
            is_adopted: AtomicBool::new(false),
            thread: AtomicU32::new(0),
            held: Default::default(),
            state: Mutex::new(state),
        };
        meter.switch(Some(Activity::Busy), 0);
        Arc::new(meter)
    }

    /// Switches to `clock`; returns the one that ran until now.
    pub fn enter(&self, clock: Activity) -> Option<Activity> {
        self.switch(Some(clock), 0)
    }

    /// Counts one finished item.
    pub fn finish_item(&self) {
        if self.thread.load(Ordering::Relaxed) == 0 {
            self.thread.store(this_thread().unwrap_or(0), Ordering::Relaxed);
        }
        let now = self.lock().now;
        self.switch(now, 1);
    }

    /// Stops all clocks: the actor has ended.
    pub fn end(&self) {
        self.switch(None, 0);
    }

    /// The clocks up to this instant.
    #[must_use]
    pub fn read(&self) -> Reading {
        let (spent, items, doing, age) = {
            let mut state = self.lock();
            state.charge();
            (state.spent, state.items, state.now, state.changed.elapsed())
        };
        let [busy, starved, blocked] = spent;
        // A blocked sender has counted the item in its hands as well.
        let queued = self.queued.load(Ordering::Relaxed).min(self.capacity);
        let wall = spent.iter().sum();
        let (name, capacity) = (self.name.clone(), self.capacity);
        let thread = Some(self.thread.load(Ordering::Relaxed)).filter(|thread| *thread != 0);
        let [bytes, tokens] = self.held.each_ref().map(|held| held.load(Ordering::Relaxed));
        Reading { name, busy, starved, blocked, wall, doing, age, items, bytes, tokens, queued, capacity, thread }
    }

    /// What each of the newest items took of its time at work, in seconds; of the oldest first.
    #[must_use]
    pub fn costs(&self) -> Vec<f32> {
        self.lock().costs.iter().copied().collect()
    }

    /// Items in its output queue now, and how many it can hold: for who looks so often that a [`Reading`] is too much.
    #[must_use]
    pub fn queue_now(&self) -> (usize, usize) {
        (self.queued.load(Ordering::Relaxed).min(self.capacity), self.capacity)
    }

    /// Its number, of all meters.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Counts an item that is about to wait behind it.
    pub(super) fn puts(&self) {
        let before = self.queued.fetch_add(1, Ordering::Relaxed);
        self.tell_fill(before + 1);
    }

    /// Counts an item that waits no longer.
    pub(super) fn is_relieved(&self) {
        let before = self.queued.fetch_sub(1, Ordering::Relaxed);
        self.tell_fill(before.saturating_sub(1));
    }

    fn tell_fill(&self, queued: usize) {
        // A blocked sender has counted the item in its hands as well.
        traced::fill(self.number, queued.min(self.capacity), self.capacity);
    }

    fn switch(&self, clock: Option<Activity>, items: u64) -> Option<Activity> {
        let mut state = self.lock();
        state.charge();
        state.items += items;
        if items > 0 || state.now != clock {
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
        // Of each item anew: whoever begins to listen in the middle knows soon.
        state.span = match clock {
            Some(clock) => {
                span_of(clock, (&self.name, self.number, self.is_adopted.load(Ordering::Relaxed)), state.since)
            }
            None => Span::none(),
        };
        std::mem::replace(&mut state.now, clock)
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

/// What an actor (name, number, and whether this thread is it) does from `at` on, until this is dropped for the next.
fn span_of(clock: Activity, (actor, id, own): (&str, u64, bool), at: Instant) -> Span {
    match clock {
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

/// The kernel's number of this thread.
pub(super) fn this_thread() -> Option<u32> {
    // A link to `PID/task/THREAD`.
    std::fs::read_link("/proc/thread-self").ok()?.file_name()?.to_str()?.parse().ok()
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Meter>>> = const { RefCell::new(None) };
}

/// Makes `meter` the one that [`starved`] charges on this thread.
pub(super) fn adopt(meter: &Arc<Meter>) {
    meter.is_adopted.store(true, Ordering::Relaxed);
    meter.enter(Activity::Busy);
    CURRENT.with(|current| *current.borrow_mut() = Some(Arc::clone(meter)));
}

/// Says what the item that this thread's actor is making holds; a thread without a meter tells nobody. Two additions without
/// a lock, once an item.
pub(crate) fn holds(bytes: u64, tokens: u64) {
    CURRENT.with_borrow(|meter| {
        for (held, more) in meter.iter().flat_map(|meter| meter.held.iter().zip([bytes, tokens])) {
            held.fetch_add(more, Ordering::Relaxed);
        }
    });
}

/// Runs `wait`, charging its time to this thread's actor as waiting for input. A thread without a meter just runs it.
pub fn starved<T>(wait: impl FnOnce() -> T) -> T {
    let meter = CURRENT.with(|current| current.borrow().clone());
    let before = meter.as_ref().and_then(|meter| meter.enter(Activity::Starved));
    let value = wait();
    if let (Some(meter), Some(clock)) = (meter, before) {
        meter.enter(clock);
    }
    value
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;

    #[test]
    fn clocks_add_up_to_wall_time_and_are_told_apart() {
        let began = Instant::now();
        let meter = Meter::new("x", 1);
        sleep(Duration::from_millis(20));
        meter.enter(Activity::Starved);
        sleep(Duration::from_millis(40));
        meter.enter(Activity::Blocked);
        sleep(Duration::from_millis(60));
        let live = meter.read();
        meter.end();
        let elapsed = began.elapsed();
        sleep(Duration::from_millis(5));
        let ended = meter.read();
        assert_eq!(ended.busy + ended.starved + ended.blocked, ended.wall);
        assert!(live.wall <= ended.wall && ended.wall <= elapsed, "an ended meter stands still");
        assert!(ended.wall >= Duration::from_millis(120));
        for (clock, least) in [(ended.busy, 20), (ended.starved, 40), (ended.blocked, 60)] {
            assert!(clock >= Duration::from_millis(least), "{ended:?}");
        }
    }

    #[test]
    fn an_item_costs_the_work_that_it_took_and_no_wait() {
        let meter = Meter::new("x", 1);
        for ms in [5, 20] {
            sleep(Duration::from_millis(ms));
            meter.enter(Activity::Blocked);
            sleep(Duration::from_millis(30));
            meter.enter(Activity::Busy);
            meter.finish_item();
        }
        let costs = meter.costs();
        assert!(
            costs.len() == 2 && costs[0] >= 0.005 && costs[0] < 0.03 && costs[1] >= 0.02 && costs[1] < 0.05,
            "{costs:?}"
        );
        let thread = meter.read().thread.expect("it has finished an item");
        assert!(std::path::Path::new(&format!("/proc/self/task/{thread}")).exists());
        (0..2 * COSTS).for_each(|_| meter.finish_item());
        assert_eq!(meter.costs().len(), COSTS);
    }

    #[test]
    fn what_items_hold_is_added_to_the_thread_that_makes_them() {
        holds(1, 1);
        let meter = Meter::new("x", 1);
        adopt(&meter);
        holds(300, 20);
        holds(200, 0);
        let reading = meter.read();
        assert_eq!((reading.bytes, reading.tokens), (500, 20));
    }

    #[test]
    fn a_wait_is_charged_to_the_thread_that_waits() {
        let meter = Meter::new("x", 1);
        adopt(&meter);
        starved(|| sleep(Duration::from_millis(30)));
        let reading = meter.read();
        assert!(reading.starved >= Duration::from_millis(30) && reading.busy < reading.starved, "{reading:?}");
    }
}
