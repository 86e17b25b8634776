//! Ranks on threads, for tests.

use std::sync::Arc;
use std::time::Duration;

use trainer_plan::launch::Launch;

use super::ProcessGroup;
use super::c10d::C10dGroup;
use crate::device::native::c10d::{KeyStore, StoreAddress};

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
        let run = move || body(u64::from(rank), Arc::new(C10dGroup::join(&launch, limit).expect("all ranks join")));
        runtime::spawn(format!("rank {rank}"), run).expect("a thread")
    };
    let threads: Vec<_> = (0..world_size).map(start).collect();
    threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
}
