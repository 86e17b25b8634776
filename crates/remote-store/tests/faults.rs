//! Faults of a network: which are repeated, what they say, and what two writers see.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use remote_store::{StoreOptions, open_with};
use store::{Created, Holder, LeaseConfig, Lock, LockError, Replaced, Store};

use crate::options::options;
use testkit::servers::http::Delivery;
use testkit::servers::s3::{Fault, S3};

fn opened(server: &S3) -> Store {
    open_with("s3://bucket/runs", &options(&server.address)).expect("opened")
}

/// Counts the requests that a fault strikes.
fn strike(server: &S3, fault: Fault) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    server.set_faults(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        Some(fault)
    });
    count
}

#[test]
fn only_what_passes_is_repeated() {
    let server = S3::start();
    let store = opened(&server);
    store.put("x", &[7; 1000]).expect("put");
    let cases = [
        (Fault::Status(408), ErrorKind::TimedOut, 20),
        (Fault::Status(429), ErrorKind::WouldBlock, 20),
        (Fault::Status(500), ErrorKind::WouldBlock, 20),
        (Fault::Status(503), ErrorKind::WouldBlock, 20),
        (Fault::Status(504), ErrorKind::TimedOut, 20),
        (Fault::Deliver(Delivery::Lost), ErrorKind::ConnectionReset, 20),
        (Fault::Deliver(Delivery::Cut(500)), ErrorKind::ConnectionReset, 20),
        (Fault::Status(400), ErrorKind::Other, 1),
        (Fault::Status(401), ErrorKind::PermissionDenied, 1),
        (Fault::Status(403), ErrorKind::PermissionDenied, 1),
        (Fault::Status(404), ErrorKind::NotFound, 1),
        (Fault::Status(501), ErrorKind::Unsupported, 1),
        (Fault::Status(507), ErrorKind::StorageFull, 1),
    ];
    for (fault, kind, calls) in cases {
        let count = strike(&server, fault);
        let error = store.get_range("x", 0..900).expect_err("every answer is a fault");
        assert_eq!((error.kind(), count.load(Ordering::Relaxed)), (kind, calls), "{fault:?}: {error}");
        assert!(error.to_string().starts_with("s3://bucket/runs/x: "), "{error}");
        assert_eq!(calls > 1, error.to_string().contains("(20 times in a row)"), "{error}");
    }
    let error = {
        strike(&server, Fault::Status(503));
        store.put("x", b"1").expect_err("every answer is a fault").to_string()
    };
    assert!(error.contains("503 (SlowDown)"), "{error}");
}

#[test]
fn a_refused_connection_is_reported_at_once() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").expect("bound").local_addr().expect("bound").to_string();
    let store = open_with("s3://bucket/runs", &options(&address)).expect("opened");
    let error = store.get("x").expect_err("the port is closed");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    assert!(error.to_string().contains("check the address, the endpoint"), "{error}");
}

/// The limit is between two bytes, so only a stall ends the request.
#[test]
fn a_stall_ends_the_request() {
    let server = S3::start();
    let stall_timeout = Duration::from_millis(200);
    let options = StoreOptions { stall_timeout, ..options(&server.address) };
    let store = open_with("s3://bucket/runs", &options).expect("opened");
    store.put("x", &vec![7; 100_000]).expect("put");
    let mut stalls = 3;
    server.set_faults(move |_| {
        stalls -= 1;
        (stalls >= 0).then_some(Fault::Deliver(Delivery::Stall(50_000)))
    });
    let begun = Instant::now();
    assert_eq!(store.get("x").expect("the fourth answer is whole"), vec![7; 100_000]);
    assert!(begun.elapsed() >= 3 * stall_timeout, "three requests stalled");

    strike(&server, Fault::Deliver(Delivery::Stall(0)));
    let error = store.with_retries(store::Retries { attempts_max: 2, ..options.retries }).get("x").expect_err("stalls");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(error.to_string().contains("no progress for 0.2 s"), "{error}");
}

/// Writers of two clients meet. Of each round one wins, and its bytes stay.
#[test]
fn of_two_writers_one_wins() {
    let server = S3::start();
    let stores = [(); 2].map(|()| opened(&server));
    for round in 0..20 {
        let name = format!("x/{round}");
        let meet = Barrier::new(2);
        let together = |write: &(dyn Fn(&Store, &[u8]) -> bool + Sync)| -> Vec<u8> {
            let wins: Vec<bool> = thread::scope(|scope| {
                let writers = stores.iter().zip([b"first ", b"second"]).map(|(store, bytes)| {
                    let meet = &meet;
                    scope.spawn(move || {
                        meet.wait();
                        write(store, bytes)
                    })
                });
                writers.collect::<Vec<_>>().into_iter().map(|writer| writer.join().expect("no panic")).collect()
            });
            assert_eq!(wins.iter().filter(|wins| **wins).count(), 1, "round {round}");
            let winner: &[u8] = if wins[0] { b"first " } else { b"second" };
            assert_eq!(stores[0].get(&name).expect("there"), winner);
            winner.to_vec()
        };
        together(&|store, bytes| matches!(store.put_if_absent(&name, bytes).expect("answered"), Created::Made(_)));
        let version = stores[0].put(&name, b"base").expect("put").version;
        together(&|store, bytes| {
            matches!(store.put_if_version(&name, bytes, &version).expect("answered"), Replaced::Made(_))
        });
    }
}

/// A second contender is refused; after the holder stopped, the lock expires and passes on.
pub(crate) fn a_lock_passes_on_after_its_holder_stops(store: &Store, heartbeat_interval: Duration) {
    let terms = LeaseConfig { heartbeat_interval, takeover_delay: heartbeat_interval * 8 };
    let lock = Lock::acquire(store, "lock", Holder::this_process(), terms).expect("free");
    lock.check().expect("ours");
    let refused = Lock::acquire(store, "lock", Holder::this_process(), terms);
    assert!(matches!(refused, Err(LockError::Held { .. })), "{refused:?}");
    let held = store.get("lock").expect("there");
    drop(lock);

    // The object of a holder that writes no heartbeats any more.
    store.put("lock", &held).expect("put");
    let lock = Lock::acquire(store, "lock", Holder::this_process(), terms).expect("it stands still");
    lock.check().expect("ours");
}

/// Two writers of a server that ignores a condition would not notice each other.
#[test]
fn a_server_that_ignores_conditions_is_refused_before_a_write() {
    for (ignored, accepted) in [("if-none-match", "`If-None-Match`"), ("if-match", "`If-Match`")] {
        let server = S3::start();
        server.state().ignored = ignored;
        let lock = Lock::acquire(&opened(&server), "lock", Holder::this_process(), LeaseConfig::default());
        let Err(LockError::Io(error)) = lock else { panic!("{lock:?}") };
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(accepted), "{error}");
    }
}

#[test]
fn a_lock_excludes_and_passes_on() {
    let server = S3::start();
    a_lock_passes_on_after_its_holder_stops(&opened(&server), Duration::from_millis(50));
}
