//! Requests about many objects of a store.

use store::Store;

use crate::{Result, requests};

/// Applies a function to all items, in parallel if the store is remote. Returns the results in order, or the first error.
///
/// # Errors
/// Those of `apply`.
pub(super) fn request_all<I, T>(
    store: &Store,
    items: Vec<I>,
    apply: impl Fn(&Store, &I) -> Result<T> + Send + Sync + 'static,
) -> Result<Vec<T>>
where
    I: Send + Sync + 'static,
    T: Send + 'static,
{
    let are_remote = store.local().is_none();
    let store = store.clone();
    requests::request_all(items, are_remote, move |item| apply(&store, item)).collect()
}

#[cfg(test)]
mod tests {
    use store::FaultConfig;

    use super::*;
    use crate::Error;

    #[test]
    fn results_are_in_order_and_the_first_error_wins() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let local = Store::folder(home.path()).expect("a folder");
        for store in [local, Store::in_memory(FaultConfig::none())] {
            let doubled = request_all(&store, (0..1000).collect(), |_, item: &u64| Ok(2 * item)).expect("no error");
            assert!(doubled.into_iter().eq((0..1000).map(|item| 2 * item)));
            let failing =
                |_: &Store, item: &u64| if item % 7 == 6 { Err(Error::Config(item.to_string())) } else { Ok(()) };
            let error = request_all(&store, (0..1000).collect(), failing).expect_err("some fail");
            assert_eq!(error.to_string(), "6");
        }
    }
}
