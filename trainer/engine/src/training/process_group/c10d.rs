//! Process group of several processes, over libtorch's c10d.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use schemas::RankShard;
use tch::{Device, Kind, Tensor};
use trainer_plan::Error;
use trainer_plan::launch::Launch;

use super::device_operations::DeviceOperations;
use super::failure::{Cause, error, reason};
use super::frame::{self, Exchange, Frame};
use super::grid::Connections;
use super::link::{Link, Operation};
use super::measured::MeasuredGroup;
use super::monitor::{EndGuard, Monitor};
use super::rendezvous::{self, Joined};
use super::shared::{Limits, Shared};
use super::{HostShare, PendingReduction, ProcessGroup, SingleProcess};
use crate::device::native::CheckStatus as _;
use crate::device::native::c10d::{GlooGroup, Work};
use crate::device::native::nccl::{DeviceWork, NcclGroup, NcclId};

/// Connects the ranks of a run. `limit` is the time for joining, and within which every rank ends if one of them fails
/// or does not answer; `None`: no limit.
///
/// # Errors
/// Names the ranks that did not join, or the reason why this one cannot.
pub fn connect(launch: &Launch, limit: Option<Duration>) -> Result<Arc<dyn ProcessGroup>, Error> {
    match launch.world_size {
        1 => Ok(Arc::new(SingleProcess)),
        _ => Ok(Arc::new(MeasuredGroup::new(C10dGroup::join(launch, limit)?))),
    }
}

/// Connected rank.
#[derive(Debug)]
pub(super) struct C10dGroup {
    share: RankShard,
    host_share: HostShare,
    world_size: u32,
    link: Link,
    // Its drop waits for operations that have started, so it is not dropped after a failure.
    connections: Option<Connections>,
    has_finished: AtomicBool,
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
            let (store, connections) = match rendezvous::join(&of_thread, limits) {
                Ok(Joined { store, connections }) => (store, connections),
                Err(problem) => return drop(sender.send(Err(problem))),
            };
            // Without a receiver, the group has ended.
            if sender.send(Ok(connections)).is_ok() {
                Monitor::new(shared, store, &of_thread, limits).watch();
            }
        });
        thread.map_err(|problem| error(format!("{}: {problem}", launch.share())))?;
        let joined = match limits.total {
            Some(limit) => receiver.recv_timeout(limit + limits.grace),
            None => receiver.recv().map_err(RecvTimeoutError::from),
        };
        let silent = |_| error(format!("{} cannot join the others: {} does not answer", launch.share(), link.store));
        let connections = Some(joined.map_err(silent)??);
        let has_finished = AtomicBool::new(false);
        let host_share = HostShare { rank: launch.local_rank, ranks: launch.local_world_size.unwrap_or(1).max(1) };
        Ok(Self { share: launch.share(), host_share, world_size: launch.world_size, link, connections, has_finished })
    }

    /// Returns the operations of the CUDA device. The first call connects the devices of all ranks by NCCL, and sums a
    /// number, because NCCL allocates the rest of its memory in the first operation.
    fn device_operations(&self, device: Device) -> Result<&DeviceOperations, Error> {
        if let Some(operations) = self.link.shared.device.get() {
            return Ok(operations);
        }
        let own = if self.share.is_first() { NcclId::new()?.bytes().to_vec() } else { Vec::new() };
        let id = NcclId::from_bytes(&self.broadcast("the id of NCCL", &own)?);
        let id = id.ok_or_else(|| error("the id of NCCL of rank 0 has a wrong length"))?;
        let operation = self.link.start("the connection of the devices".to_owned())?;
        let (sender, receiver) = sync_channel(1);
        let rank = self.link.rank;
        let world_size = self.world_size;
        // NCCL waits without a limit.
        let connect = move || {
            let connected = NcclGroup::connect(&id, rank, world_size, device);
            drop(sender.send(connected.and_then(|group| group.all_reduce_one(device).map(|()| group))));
        };
        runtime::spawn("nccl", connect).map_err(|problem| error(format!("{}: {problem}", self.share)))?;
        let group = self.link.wait_for(&operation, |limit| match receiver.recv_timeout(limit) {
            Ok(connected) => connected.map(Some).map_err(|problem| explained(&problem)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(error("the thread that connects the device has panicked")),
        })?;
        Ok(self.link.shared.device.get_or_init(|| DeviceOperations::new(group)))
    }

    fn connections(&self) -> &Connections {
        self.connections.as_ref().expect("only the drop takes it")
    }

    fn group(&self) -> &GlooGroup {
        &self.connections().all
    }

    /// Exchanges the contents of all ranks, as far as they fit into frames. Returns the frames.
    fn frames(&self, exchange: Exchange, what: &str, contents: &[u8]) -> Result<(Operation, Vec<u8>), Error> {
        if contents.len() > frame::MAX_LENGTH {
            let most = frame::MAX_LENGTH;
            return Err(error(format!("{what} have {} bytes, but an exchange takes at most {most}", contents.len())));
        }
        let operation = self.link.start(exchange.of(what))?;
        let own = frame::encode(operation.number, exchange, what, contents);
        let frames = self.connections().all_gather(&own, &self.link, &operation)?;
        Ok((operation, frames))
    }
}

impl ProcessGroup for C10dGroup {
    fn share(&self) -> RankShard {
        self.share
    }

    fn host_share(&self) -> HostShare {
        self.host_share
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
        let all = self.connections().all_gather(&padded, &self.link, &operation)?;
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
        let refused = || error(format!("{what}: no all-reduce of {:?} on {:?}", tensor.kind(), tensor.device()));
        let name = format!("the all-reduce of {what}");
        match tensor.device() {
            _ if !is_fit => Err(refused()),
            Device::Cpu => {
                let operation = self.link.start(name)?;
                let work = self.group().all_reduce(tensor)?;
                Ok(Box::new(Reduction { link: self.link.clone(), work, operation }))
            }
            device @ Device::Cuda(_) => {
                let operations = self.device_operations(device)?;
                let operation = self.link.start(name)?;
                let started = operations.all_reduce(tensor, operation.number, &operation.name);
                let work = started.map_err(|problem| self.link.fail(&operation, reason(&problem)))?;
                Ok(Box::new(DeviceReduction { link: self.link.clone(), work }))
            }
            _ => Err(refused()),
        }
    }

    fn connect_device(&self, device: Device) -> Result<(), Error> {
        if device.is_cuda() { self.device_operations(device).map(drop) } else { Ok(()) }
    }

    fn abort(&self, reason: &str) {
        let limit = self.link.limits.verdict();
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
            std::mem::forget(self.connections.take());
            self.link.shared.device.get().into_iter().for_each(DeviceOperations::abort);
        }
        self.link.shared.close(grace);
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

/// All-reduce of a tensor on a CUDA device.
#[derive(Debug)]
struct DeviceReduction {
    link: Link,
    work: Arc<DeviceWork>,
}

impl PendingReduction for DeviceReduction {
    fn wait(self: Box<Self>) -> Result<(), Error> {
        match self.link.shared.verdict() {
            Some(verdict) => Err(verdict),
            None => self.work.order(),
        }
    }
}

/// Error of a connection, with its usual cause: NCCL reports a shortage of device memory as any other error of CUDA.
pub(super) fn explained(problem: &Error) -> Error {
    let message = reason(problem);
    if !message.contains("unhandled cuda error") {
        return error(message);
    }
    error(format!(
        "{message}; the usual cause is too little free memory of a device: `nvidia-smi` lists its processes, `NCCL_DEBUG=WARN` \
         names the call that failed"
    ))
}

fn decoded(frames: &[u8]) -> Result<Vec<Frame<'_>>, Error> {
    let frames: Vec<Frame<'_>> = frames.chunks(frame::FRAME).map(frame::decode).collect::<Result<_, _>>()?;
    frame::check_same(&frames)?;
    Ok(frames)
}

fn bytes_of(tensor: &Tensor) -> Result<Vec<u8>, Error> {
    Vec::<u8>::try_from(tensor).checked()
}
