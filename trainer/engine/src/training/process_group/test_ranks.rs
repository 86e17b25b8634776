//! Ranks on threads, for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use schemas::RankShard;
use tch::Tensor;
use trainer_plan::Error;
use trainer_plan::launch::Launch;
use trainer_plan::stop_request::StopRequest;

use super::c10d::C10dGroup;
use super::measured::MeasuredGroup;
use super::{PendingReduction, ProcessGroup};
use crate::device::native::c10d::{KeyStore, StoreAddress};

/// Process group that counts the calls of `stop`, changes sums and delays all-reduces; all else is that of another
/// group.
#[derive(Debug)]
pub(crate) struct AlteredGroup {
    /// The other group.
    pub(crate) group: Arc<dyn ProcessGroup>,
    /// Changes the sums that this rank gets.
    pub(crate) alter_sums: fn(&mut [f64]),
    /// Delay of this rank before each all-reduce.
    pub(crate) delay: Duration,
    /// Number of calls of `stop`.
    pub(crate) stops: AtomicUsize,
}

impl AlteredGroup {
    /// Group that is not altered.
    pub(crate) fn new(group: Arc<dyn ProcessGroup>) -> Self {
        Self { group, alter_sums: |_| (), delay: Duration::ZERO, stops: AtomicUsize::new(0) }
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
        self.group.broadcast(what, own)
    }

    fn all_reduce(&self, what: &'static str, tensor: &Tensor) -> Result<Box<dyn PendingReduction>, Error> {
        std::thread::sleep(self.delay);
        self.group.all_reduce(what, tensor)
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
