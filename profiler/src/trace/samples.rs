//! What every actor is doing, looked at again and again: for flame graphs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use runtime::NamedThread;

use super::buffer::{Buffer, Current, Text};
use super::shared::{Shared, lock};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// Different stacks that are counted; what comes after is counted as one.
const STACKS: usize = 1 << 14;

/// How often each stack was seen: whose it is, then its frames from the outermost on.
pub(super) type Stacks = BTreeMap<Vec<Text>, u64>;

/// A thread that looks.
pub(super) struct Sampler {
    is_over: Arc<AtomicBool>,
    thread: NamedThread<Stacks>,
}

impl Sampler {
    pub(super) fn over(shared: Arc<Shared>) -> anyhow::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&is_over);
        let thread = runtime::spawn("trace-looks", move || {
            let mut stacks = Stacks::new();
            while !asked.load(Ordering::Relaxed) {
                look(&shared, &mut stacks);
                sleep(LOOK);
            }
            stacks
        })?;
        Ok(Self { is_over, thread })
    }

    /// What it saw.
    pub(super) fn end(self) -> Stacks {
        self.is_over.store(true, Ordering::Relaxed);
        // It does nothing that panics; if it did, there would be nothing to show.
        self.thread.join().unwrap_or_default()
    }
}

/// Looks once at all threads.
fn look(shared: &Shared, stacks: &mut Stacks) {
    // Of an actor that two threads know, the newer knows better.
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

/// Whether the thread is an actor and nothing else.
pub(super) fn is_actor(buffer: &Buffer) -> bool {
    buffer.actors.values().any(|known| known.own)
}

/// Stacks as `flamegraph.pl`, inferno and speedscope read them: frames with semicolons between them, a space, the count.
pub(super) fn folded(stacks: &Stacks, name: impl Fn(Text) -> String) -> String {
    let mut text = String::new();
    for (stack, count) in stacks {
        // Semicolons and line ends would make other stacks of it.
        let frames: Vec<String> = stack.iter().map(|frame| name(*frame).replace([';', '\n', '\r'], ",")).collect();
        writeln!(text, "{} {count}", frames.join(";")).expect("a string takes all");
    }
    text
}
