//! Process group of several processes, over libtorch's c10d.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use schemas::RankShard;
use tch::{Device, Kind, Tensor};
use trainer_plan::Error;
use trainer_plan::launch::Launch;

use super::failure::{Cause, error};
use super::frame::{self, Exchange, Frame};
use super::monitor::{EndGuard, Limits, Monitor, Shared};
use super::rendezvous::{self, Joined};
use super::{PendingReduction, ProcessGroup, SingleProcess};
use crate::device::native::CheckStatus as _;
use crate::device::native::c10d::{GlooGroup, Work};

/// Interval of looks for a failure of another rank, while this one waits.
const LOOK: Duration = Duration::from_millis(100);

/// Connects the ranks of a run. `limit` is the time for joining, and within which every rank ends if one of them fails or
/// does not answer; `None`: no limit.
///
/// # Errors
/// Names the ranks that did not join, or the reason why this one cannot.
pub fn connect(launch: &Launch, limit: Option<Duration>) -> Result<Box<dyn ProcessGroup>, Error> {
    match launch.world_size {
        1 => Ok(Box::new(SingleProcess)),
        _ => Ok(Box::new(C10dGroup::join(launch, limit)?)),
    }
}

/// Connected rank.
#[derive(Debug)]
pub(super) struct C10dGroup {
    share: RankShard,
    world_size: u32,
    link: Link,
    // Its drop waits for operations that have started, so it is not dropped after a failure.
    group: Option<GlooGroup>,
    has_finished: AtomicBool,
}

/// Wait for operations, and their failures.
#[derive(Clone, Debug)]
struct Link {
    shared: Arc<Shared>,
    limits: Limits,
    rank: u32,
    store: String,
}

/// Operation that has started.
#[derive(Debug)]
struct Operation {
    number: u64,
    name: String,
}

impl C10dGroup {
    /// Joins the other ranks.
    pub(super) fn join(launch: &Launch, limit: Option<Duration>) -> Result<Self, Error> {
        let limits = Limits::new(limit);
        let shared = Shared::new(launch.rank);
        let link = Link { shared: Arc::clone(&shared), limits, rank: launch.rank, store: rendezvous::place(launch) };
        let (sender, receiver) = sync_channel(1);
        let of_thread = launch.clone();
        let thread = runtime::spawn("process-group", move || {
            let _end = EndGuard(Arc::clone(&shared));
            let store = match rendezvous::join(&of_thread, limits.total) {
                Ok(Joined { store, group }) => sender.send(Ok(group)).map(|()| store),
                Err(problem) => return drop(sender.send(Err(problem))),
            };
            // Without a receiver, the group has ended.
            let Ok(store) = store else { return };
            if let Err(problem) = Monitor::new(shared, store, &of_thread, limits).watch() {
                tracing::debug!(%problem, "process group: the store does not answer");
            }
        });
        thread.map_err(|problem| error(format!("{}: {problem}", launch.share())))?;
        let joined = match limits.total {
            Some(limit) => receiver.recv_timeout(limit + limits.grace),
            None => receiver.recv().map_err(RecvTimeoutError::from),
        };
        let silent = |_| error(format!("{} cannot join the others: {} does not answer", launch.share(), link.store));
        let group = Some(joined.map_err(silent)??);
        let has_finished = AtomicBool::new(false);
        Ok(Self { share: launch.share(), world_size: launch.world_size, link, group, has_finished })
    }

    fn group(&self) -> &GlooGroup {
        self.group.as_ref().expect("only the drop takes it")
    }

    /// Exchanges the contents of all ranks, as far as they fit into frames. Returns the frames.
    fn frames(&self, exchange: Exchange, what: &str, contents: &[u8]) -> Result<(Operation, Vec<u8>), Error> {
        if contents.len() > frame::MAX_LENGTH {
            let most = frame::MAX_LENGTH;
            return Err(error(format!("{what} have {} bytes, but an exchange takes at most {most}", contents.len())));
        }
        let operation = self.link.start(exchange.of(what))?;
        let own = frame::encode(operation.number, exchange, what, contents);
        let (work, frames) = self.group().all_gather(&own, self.world_size)?;
        self.link.wait(&work, &operation)?;
        Ok((operation, bytes_of(&frames)?))
    }
}

impl ProcessGroup for C10dGroup {
    fn share(&self) -> RankShard {
        self.share
    }

    fn gather(&self, what: &'static str, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let (operation, frames) = self.frames(Exchange::Gather, what, own)?;
        let frames = decoded(&frames)?;
        let longest = frames.iter().map(|frame| frame.length).max().unwrap_or(0);
        if longest <= frame::INLINE {
            return Ok(frames.iter().map(|frame| frame.inline.to_vec()).collect());
        }
        let mut padded = own.to_vec();
        padded.resize(longest, 0);
        let (work, all) = self.group().all_gather(&padded, self.world_size)?;
        self.link.wait(&work, &operation)?;
        let all = bytes_of(&all)?;
        Ok(all.chunks(longest).zip(&frames).map(|(bytes, frame)| bytes[..frame.length].to_vec()).collect())
    }

    fn broadcast(&self, what: &'static str, own: &[u8]) -> Result<Vec<u8>, Error> {
        let own = if self.share.is_first() { own } else { &[] };
        let (operation, frames) = self.frames(Exchange::Broadcast, what, own)?;
        let first = decoded(&frames)?.swap_remove(0);
        if first.length <= frame::INLINE {
            return Ok(first.inline.to_vec());
        }
        let mut contents = own.to_vec();
        contents.resize(first.length, 0);
        let contents = Tensor::from_slice(&contents);
        self.link.wait(&self.group().broadcast(&contents)?, &operation)?;
        bytes_of(&contents)
    }

    fn all_reduce(&self, what: &'static str, tensor: &Tensor) -> Result<Box<dyn PendingReduction>, Error> {
        let is_fit = matches!(tensor.kind(), Kind::Float | Kind::BFloat16 | Kind::Double | Kind::Int64);
        if !is_fit || tensor.device() != Device::Cpu {
            return Err(error(format!("{what}: no all-reduce of {:?} on {:?}", tensor.kind(), tensor.device())));
        }
        let operation = self.link.start(format!("the all-reduce of {what}"))?;
        let work = self.group().all_reduce(tensor)?;
        Ok(Box::new(Reduction { link: self.link.clone(), work, operation }))
    }

    fn abort(&self, reason: &str) {
        let limit = 2 * self.link.limits.grace;
        self.link.shared.report(Cause::End { message: reason.to_owned() }, limit);
    }

    fn finish(&self) -> Result<(), Error> {
        self.barrier("the end of the run")?;
        self.has_finished.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for C10dGroup {
    fn drop(&mut self) {
        let grace = self.link.limits.grace;
        if !self.has_finished.load(Ordering::Relaxed) {
            if self.link.shared.verdict().is_none() {
                self.abort("it stopped before the end of the run; the cause is in its log");
            }
            std::mem::forget(self.group.take());
        }
        self.link.shared.close(grace);
    }
}

impl Link {
    /// Begins an operation, unless a rank has failed.
    fn start(&self, name: String) -> Result<Operation, Error> {
        match self.shared.verdict() {
            Some(verdict) => Err(verdict),
            None => Ok(Operation { number: self.shared.start(&name), name }),
        }
    }

    /// Waits for the end of an operation.
    fn wait(&self, work: &Work, operation: &Operation) -> Result<(), Error> {
        self.shared.set_waiting(true);
        let begun = Instant::now();
        let limit = self.limits.operation();
        loop {
            match work.wait(LOOK) {
                Ok(true) => break,
                Ok(false) => {}
                Err(problem) => return Err(self.fail(operation, reason(&problem))),
            }
            if let Some(verdict) = self.shared.verdict() {
                return Err(verdict);
            }
            if let Some(limit) = limit.filter(|limit| begun.elapsed() >= *limit) {
                return Err(self.fail(operation, format!("no answer for {} s", limit.as_secs_f64())));
            }
        }
        self.shared.set_waiting(false);
        Ok(())
    }

    /// Reports a failed operation, and returns the error that names the rank which caused the failure.
    fn fail(&self, operation: &Operation, message: String) -> Error {
        let Operation { number, name } = operation;
        let alone = format!(
            "rank {} waited in operation {number}, {name}: {message}; {} does not answer either: its process has ended or is \
             stopped, or there is no connection to its host",
            self.rank, self.store
        );
        let cause = Cause::Operation { number: *number, operation: name.clone(), message };
        self.shared.report(cause, 2 * self.limits.grace).unwrap_or_else(|| error(alone))
    }
}

/// All-reduce of a tensor in host memory.
#[derive(Debug)]
struct Reduction {
    link: Link,
    work: Work,
    operation: Operation,
}

impl PendingReduction for Reduction {
    fn wait(self: Box<Self>) -> Result<(), Error> {
        self.link.wait(&self.work, &self.operation)
    }
}

/// Returns the message of an operation without Gloo's place in its source.
fn reason(problem: &Error) -> String {
    let message = match problem {
        Error::Native(message) => message.clone(),
        other => other.to_string(),
    };
    match message.strip_prefix("[/").and_then(|message| message.split_once("] ")) {
        Some((_, message)) => message.to_owned(),
        None => message,
    }
}

fn decoded(frames: &[u8]) -> Result<Vec<Frame<'_>>, Error> {
    let frames: Vec<Frame<'_>> = frames.chunks(frame::FRAME).map(frame::decode).collect::<Result<_, _>>()?;
    frame::check_same(&frames)?;
    Ok(frames)
}

fn bytes_of(tensor: &Tensor) -> Result<Vec<u8>, Error> {
    Vec::<u8>::try_from(tensor).checked()
}
