//! Requests about many objects or files: in parallel if each of them waits for a network.

use runtime::{OrderedPool, PoolOptions};

use crate::Result;

/// Threads of requests that wait for a network.
const REMOTE: PoolOptions = PoolOptions { name: "requests", item: "object", workers: 64, queue_depth: 2 };

/// Applies a function to all items: in this thread, or in many if the items are remote. Returns the results in order.
pub(crate) fn request_all<I, T>(
    items: Vec<I>,
    are_remote: bool,
    apply: impl Fn(&I) -> Result<T> + Send + Sync + 'static,
) -> Box<dyn Iterator<Item = Result<T>>>
where
    I: Send + Sync + 'static,
    T: Send + 'static,
{
    if !are_remote || items.len() < 2 {
        return Box::new(items.into_iter().map(move |item| apply(&item)));
    }
    let options = PoolOptions { workers: REMOTE.workers.min(items.len()), ..REMOTE };
    Box::new(OrderedPool::new(0..items.len() as u64, options, move |index| {
        apply(&items[usize::try_from(index).expect("items are in memory")])
    }))
}
