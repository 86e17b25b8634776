//! Stack sampler of all actors, for flame graphs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use runtime::NamedThread;

use super::buffer::{Buffer, Current, Text};
use super::shared::{Shared, lock};

/// Sampling interval.
const LOOK: Duration = Duration::from_millis(1);

/// Largest number of distinct stacks. Later ones are counted together.
const STACKS: usize = 1 << 14;

/// Number of samples of each stack: actor, then frames from the outermost on.
pub(super) type Stacks = BTreeMap<Vec<Text>, u64>;

/// Sampling thread.
pub(super) struct Sampler {
    is_over: Arc<AtomicBool>,
    thread: NamedThread<Stacks>,
}

impl Sampler {
    pub(super) fn start(shared: Arc<Shared>) -> anyhow::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&is_over);
        let thread = runtime::spawn("trace-looks", move || {
            let mut stacks = Stacks::new();
            while !asked.load(Ordering::Relaxed) {
                sample(&shared, &mut stacks);
                sleep(LOOK);
            }
            stacks
        })?;
        Ok(Self { is_over, thread })
    }

    /// Stops the thread and returns its counts.
    pub(super) fn end(self) -> Stacks {
        self.is_over.store(true, Ordering::Relaxed);
        // The thread runs no code that panics. If it does, the counts are empty.
        self.thread.join().unwrap_or_default()
    }
}

/// Samples all threads once.
fn sample(shared: &Shared, stacks: &mut Stacks) {
    // If two threads know an actor, the newer state is correct.
    let mut newest: BTreeMap<u64, (Current, Vec<Text>)> = BTreeMap::new();
    let mut count = |stack: Vec<Text>| {
        if stacks.len() < STACKS || stacks.contains_key(&stack) {
            *stacks.entry(stack).or_default() += 1;
        } else {
            *stacks.entry(vec![shared.texts.number("others")]).or_default() += 1;
        }
    };
    for buffer in shared.buffers() {
        let buffer = lock(&buffer);
        let stack: Vec<Text> = buffer.stack().collect();
        if !is_actor(&buffer) && !stack.is_empty() {
            let thread = shared.texts.number(&buffer.thread);
            count([thread].into_iter().chain(stack.iter().copied()).collect());
        }
        for (actor, known) in &buffer.actors {
            if newest.get(actor).is_none_or(|(before, _)| before.at <= known.at) {
                let within = if known.own { stack.clone() } else { Vec::new() };
                newest.insert(*actor, (*known, within));
            }
        }
    }
    for (known, within) in newest.into_values() {
        if let Some(doing) = known.doing {
            count([known.name, doing].into_iter().chain(within).collect());
        }
    }
}

/// Returns whether the thread is exactly one actor.
pub(super) fn is_actor(buffer: &Buffer) -> bool {
    buffer.actors.values().any(|known| known.own)
}

/// Formats folded stacks for `flamegraph.pl`, inferno and speedscope: frames separated by semicolons, a space, the
/// count.
pub(super) fn folded(stacks: &Stacks, name: impl Fn(Text) -> String) -> String {
    let mut text = String::new();
    for (stack, count) in stacks {
        // Semicolons and line ends would change the stack.
        let frames: Vec<String> = stack.iter().map(|frame| name(*frame).replace([';', '\n', '\r'], ",")).collect();
        writeln!(text, "{} {count}", frames.join(";")).expect("a string takes all");
    }
    text
}
