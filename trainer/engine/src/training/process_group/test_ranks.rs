//! Ranks on threads, for tests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use schemas::RankShard;
use tch::{Device, Tensor};
use trainer_plan::Error;
use trainer_plan::launch::Launch;
use trainer_plan::stop_request::StopRequest;

use super::c10d::C10dGroup;
use super::measured::MeasuredGroup;
use super::{PendingReduction, ProcessGroup};
use crate::device::native::c10d::{KeyStore, StoreAddress};

/// Process group that records its calls, changes sums and delays all-reduces; all else is that of another group.
#[derive(Debug)]
pub(crate) struct AlteredGroup {
    /// The other group.
    pub(crate) group: Arc<dyn ProcessGroup>,
    /// Changes the sums that this rank gets.
    pub(crate) alter_sums: fn(&mut [f64]),
    /// Changes the tensors that this rank gets, by the names of their operations.
    pub(crate) alter_tensors: fn(&str, &Tensor),
    /// Delay of this rank before each all-reduce.
    pub(crate) delay: Duration,
    /// Called before and after each broadcast, with the rank and the name of the broadcast.
    pub(crate) around_broadcasts: [fn(u64, &str); 2],
    /// Number of calls of `stop`.
    pub(crate) stops: AtomicUsize,
    /// Names of the broadcasts and all-reduces, and `devices` for their connection.
    pub(crate) calls: Mutex<Vec<&'static str>>,
}

impl AlteredGroup {
    /// Group that is not altered.
    pub(crate) fn new(group: Arc<dyn ProcessGroup>) -> Self {
        Self {
            group,
            alter_sums: |_| (),
            alter_tensors: |_, _| (),
            delay: Duration::ZERO,
            around_broadcasts: [|_, _| (); 2],
            stops: AtomicUsize::new(0),
            calls: Mutex::default(),
        }
    }

    fn record(&self, call: &'static str) {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }

    /// Number of calls of this name.
    pub(crate) fn count(&self, call: &str) -> usize {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).iter().filter(|it| **it == call).count()
    }
}

impl ProcessGroup for AlteredGroup {
    fn share(&self) -> RankShard {
        self.group.share()
    }

    fn gather(&self, what: &'static str, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.group.gather(what, own)
    }

    fn broadcast(&self, what: &'static str, own: &[u8]) -> Result<Vec<u8>, Error> {
        let rank = self.share().in_stream(0);
        self.record(what);
        self.around_broadcasts[0](rank, what);
        let sent = self.group.broadcast(what, own);
        self.around_broadcasts[1](rank, what);
        sent
    }

    fn all_reduce(&self, what: &'static str, tensor: &Tensor) -> Result<Box<dyn PendingReduction>, Error> {
        self.record(what);
        std::thread::sleep(self.delay);
        let sum = self.group.all_reduce(what, tensor)?;
        Ok(Box::new(AlteredReduction { sum, what, tensor: tensor.shallow_clone(), alter: self.alter_tensors }))
    }

    fn connect_device(&self, device: Device) -> Result<(), Error> {
        self.record("devices");
        self.group.connect_device(device)
    }

    fn waited(&self) -> Duration {
        self.group.waited()
    }

    fn abort(&self, reason: &str) {
        self.group.abort(reason);
    }

    fn finish(&self) -> Result<(), Error> {
        self.group.finish()
    }

    fn sum(&self, counts: &mut [f64]) -> Result<(), Error> {
        self.group.sum(counts)?;
        (self.alter_sums)(counts);
        Ok(())
    }

    fn stop(&self, own: Option<StopRequest>) -> Result<Option<StopRequest>, Error> {
        self.stops.fetch_add(1, Ordering::SeqCst);
        self.group.stop(own)
    }
}

/// Sum that is changed.
#[derive(Debug)]
struct AlteredReduction {
    sum: Box<dyn PendingReduction>,
    what: &'static str,
    tensor: Tensor,
    alter: fn(&str, &Tensor),
}

impl PendingReduction for AlteredReduction {
    fn wait(self: Box<Self>) -> Result<(), Error> {
        self.sum.wait()?;
        (self.alter)(self.what, &self.tensor);
        Ok(())
    }
}

/// Limit of tests that must not reach it.
pub(crate) const NO_LIMIT: Option<Duration> = None;
pub(super) const LOOPBACK: &str = "127.0.0.1";

/// Serves a store as torchrun does.
pub(super) fn serve() -> KeyStore {
    let address = StoreAddress { host: LOOPBACK, port: 0, prefix: "server" };
    KeyStore::open(address, true, Duration::from_secs(60)).expect("a free port")
}

pub(super) fn launch(rank: u32, world_size: u32, store: &KeyStore) -> Launch {
    Launch {
        rank,
        world_size,
        local_rank: rank,
        local_world_size: Some(world_size),
        master_addr: LOOPBACK.to_owned(),
        master_port: store.port(),
        is_agent_store: true,
        key_prefix: "run/0".to_owned(),
        variables: vec!["RANK", "WORLD_SIZE"],
    }
}

/// Runs `body` as every rank, each on a thread, and returns the results in the order of the ranks.
pub(super) fn on_ranks<T: Send + 'static>(
    world_size: u32,
    limit: Option<Duration>,
    body: impl Fn(u64, &dyn ProcessGroup) -> T + Clone + Send + 'static,
) -> Vec<T> {
    on_shared_ranks(world_size, limit, move |rank, group| body(rank, &*group))
}

/// Same as [`on_ranks`], but `body` may keep the group.
pub(crate) fn on_shared_ranks<T: Send + 'static>(
    world_size: u32,
    limit: Option<Duration>,
    body: impl Fn(u64, Arc<dyn ProcessGroup>) -> T + Clone + Send + 'static,
) -> Vec<T> {
    let store = serve();
    let start = |rank: u32| {
        let launch = launch(rank, world_size, &store);
        let body = body.clone();
        let join = move || MeasuredGroup::new(C10dGroup::join(&launch, limit).expect("all ranks join"));
        let run = move || body(u64::from(rank), Arc::new(join()));
        runtime::spawn(format!("rank {rank}"), run).expect("a thread")
    };
    let threads: Vec<_> = (0..world_size).map(start).collect();
    threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
}
