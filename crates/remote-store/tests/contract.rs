//! Contract of a store, over HTTP: a server in memory, with and without faults, and servers that a variable names.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use remote_store::{open, open_with};
use store::draws;
use testkit::check_contract;

use crate::options::options;
use testkit::servers::http::Delivery;
use testkit::servers::s3::{Fault, S3};

/// URL of an empty prefix on a real server; `make test-stores` sets it.
const PLACE: &str = "CLOZE_TEST_STORE";

#[test]
fn a_bucket_keeps_every_law() {
    let server = S3::start();
    let count = Cell::new(0);
    let empty = || {
        count.set(count.get() + 1);
        let location = format!("s3://bucket/runs/{}", count.get());
        open_with(&location, &options(&server.address)).expect("opened")
    };
    check_contract(empty);
    check_contract(|| empty().prefixed("b/c"));
    check_contract(|| {
        server.state().objects.clear();
        open_with("s3://bucket", &options(&server.address)).expect("opened")
    });
    assert!(server.state().uploads.is_empty(), "an upload is left");
}

/// Fault rates: of ten requests, one fails, one is lost after its effect, and the answer of one is cut.
#[test]
fn faults_keep_the_contract_of_a_bucket() {
    let server = S3::start();
    let struck = Arc::new(AtomicUsize::new(0));
    let mut count = 0;
    let counter = Arc::clone(&struck);
    server.set_faults(move |request| {
        count += 1;
        let [draw, _] = draws(&format!("fault {count}"));
        // An unsuccessful delete of many objects is reported as one.
        let fault = match () {
            () if draw < 0.1 => Fault::Status([503, 429, 500, 408][count % 4]),
            () if draw < 0.2 => Fault::Deliver(Delivery::Lost),
            () if draw < 0.3 && request.method == "GET" => Fault::Deliver(Delivery::Cut(3)),
            () => return None,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        Some(fault)
    });
    let count = Cell::new(0);
    check_contract(|| {
        count.set(count.get() + 1);
        open_with(&format!("s3://bucket/runs/{}", count.get()), &options(&server.address)).expect("opened")
    });
    let struck = struck.load(Ordering::Relaxed);
    assert!(struck > 100, "{struck} faults are too few");
}

#[test]
fn a_real_server_keeps_every_law() {
    let Ok(place) = std::env::var(PLACE) else {
        return testkit::skip("the contract on real servers: CLOZE_TEST_STORE is not set (make test-stores)");
    };
    let run = std::process::id();
    let count = Cell::new(0);
    let empty = || {
        count.set(count.get() + 1);
        open(&format!("{place}/{run}/{}", count.get())).expect("opened")
    };
    check_contract(empty);
    check_contract(|| empty().prefixed("b/c"));
    crate::large::objects_around_the_size_of_a_part_arrive(&empty());
    crate::faults::a_lock_passes_on_after_its_holder_stops(&empty(), std::time::Duration::from_millis(200));
}
