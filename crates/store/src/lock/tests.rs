//! Lock tests on a simulated clock that advances only on waits, so that no test takes real time.

use std::fmt::{self, Formatter};
use std::io::{ErrorKind, Write};
use std::sync::Mutex;
use std::thread;

use super::lease::Clock;
use super::*;
use crate::backend::Created;
use crate::fault_config::FaultConfig;
use crate::memory::MemoryBackend;

const SECOND: Duration = Duration::from_secs(1);

/// Simulated clock that advances when its owner waits, or when the test advances it.
struct Hand {
    now: Mutex<Duration>,
    /// Callback for the actions of other processes meanwhile.
    meanwhile: Box<dyn Fn(Duration) + Send + Sync>,
}

impl fmt::Debug for Hand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.now())
    }
}

impl Hand {
    fn new() -> Arc<Self> {
        Self::with(|_| ())
    }

    fn with(meanwhile: impl Fn(Duration) + Send + Sync + 'static) -> Arc<Self> {
        // Monotonic clocks start at an arbitrary value.
        Arc::new(Self { now: Mutex::new(SECOND * 1000), meanwhile: Box::new(meanwhile) })
    }

    fn passed(&self) -> Duration {
        self.now().checked_sub(SECOND * 1000).expect("it only goes forward")
    }
}

impl Clock for Hand {
    fn now(&self) -> Duration {
        *self.now.lock().expect("no holder of this lock panics")
    }

    fn pause(&self, duration: Duration) {
        let now = {
            let mut now = self.now.lock().expect("no holder of this lock panics");
            *now += duration;
            *now
        };
        (self.meanwhile)(now);
    }
}

fn take(store: &Store, holder: Holder, clock: &Arc<Hand>) -> Result<LeaseClaim, LockError> {
    LeaseClaim::acquire(store, "lock", holder, LeaseConfig::default(), Arc::clone(clock) as Arc<dyn Clock>)
}

/// Takes a free lock.
fn hold(store: &Store, clock: &Arc<Hand>) -> LeaseClaim {
    take(store, Holder::this_process(), clock).expect("free")
}

/// Runs `law` over every storage backend. The fault rates make faults frequent, but too rare to distort the timing.
fn over_every_kind(law: impl Fn(&Store)) {
    let home = tempfile::tempdir().expect("a temporary folder");
    law(&Store::folder(home.path()).expect("made"));
    law(&Store::in_memory(FaultConfig::none()));
    law(&Store::in_memory(FaultConfig { seed: 3, failures: 0.2, lost: 0.2, ..FaultConfig::none() }));
}

fn content(store: &Store) -> serde_json::Value {
    serde_json::from_slice(&store.get("lock").expect("there")).expect("JSON")
}

#[test]
fn a_lock_that_was_released_is_free() {
    over_every_kind(|store| {
        let clock = Hand::new();
        for _ in 0..3 {
            let claim = hold(store, &clock);
            claim.check().expect("ours");
            assert_eq!(content(store)["released"], false);
            claim.release().expect("released");
            assert_eq!(content(store)["released"], true);
            let error = claim.check().expect_err("a thread that outlives the lock must not write");
            assert!(error.to_string().contains("has released the lock"), "{error}");
            claim.renew().expect_err("it is no longer ours");
            assert_eq!(content(store)["released"], true);
        }
        assert_eq!(clock.passed(), Duration::ZERO, "a free lock needs no wait");
    });
}

#[test]
fn held_lock_is_refused_within_one_heartbeat_with_the_holder() {
    over_every_kind(|store| {
        let holder = Arc::new(hold(store, &Hand::new()));
        let beating = Arc::clone(&holder);
        let clock = Hand::with(move |now| {
            if now.subsec_nanos() == 0 {
                beating.renew().expect("it beats every second");
            }
        });
        let Err(LockError::Held { holder: found, .. }) = take(store, Holder::this_process(), &clock) else {
            panic!("it is held")
        };
        assert!(found.is_same(holder.holder()));
        assert_eq!(clock.passed(), SECOND);
        holder.check().expect("still ours");
    });
}

#[test]
fn a_lock_that_stands_still_is_taken_over_and_its_late_holder_notices() {
    over_every_kind(|store| {
        let late = hold(store, &Hand::new());
        let clock = Hand::new();
        let next = take(store, Holder::this_process(), &clock).expect("it stands still");
        assert_eq!(clock.passed(), SECOND * 10, "the takeover delay is neither cut short nor drawn out");
        next.check().expect("ours");
        // The clock of the late process stopped with it, so that its last heartbeat appears recent.
        let error = late.check().expect_err("it is no longer its own");
        assert_eq!(error.kind(), ErrorKind::ResourceBusy);
        assert!(error.to_string().contains(&format!("{} has it", next.holder())), "{error}");
        late.renew().expect_err("a lost lock stays lost");
        assert!(late.is_lost());
        late.release().expect("it has nothing to release");
        assert_eq!(content(store)["released"], false, "only its holder releases a lock");
        next.renew().expect("ours");
        next.check().expect("ours");
    });
}

#[test]
fn a_late_beat_is_a_lost_lock() {
    over_every_kind(|store| {
        let late = hold(store, &Hand::new());
        let next = take(store, Holder::this_process(), &Hand::new()).expect("it stands still");
        next.release().expect("released");
        let error = late.renew().expect_err("it was taken over");
        assert!(late.is_lost() && error.to_string().contains("released it"), "{error}");
    });
}

#[test]
fn longer_timeout_applies() {
    let store = Store::in_memory(FaultConfig::none());
    let terms = LeaseConfig { takeover_delay: SECOND * 100, ..LeaseConfig::default() };
    LeaseClaim::acquire(&store, "lock", Holder::this_process(), terms, Hand::new()).expect("free");
    let clock = Hand::new();
    take(&store, Holder::this_process(), &clock).expect("it stands still");
    assert_eq!(clock.passed(), SECOND * 100);
}

#[test]
fn a_lock_with_an_endless_timeout_is_taken_over_after_an_hour() {
    let store = Store::in_memory(FaultConfig::none());
    drop(take(&store, Holder::this_process(), &Hand::new()).expect("free"));
    let text = String::from_utf8(store.get("lock").expect("there")).expect("JSON");
    let text = text.replace("\"takeover_delay_ms\": 10000", &format!("\"takeover_delay_ms\": {}", u64::MAX));
    assert!(text.contains(&u64::MAX.to_string()), "{text}");
    store.put("lock", text.as_bytes()).expect("put");
    let clock = Hand::new();
    take(&store, Holder::this_process(), &clock).expect("it stands still");
    assert_eq!(clock.passed(), SECOND * 3600);
}

#[test]
fn the_lock_of_a_process_that_is_gone_is_taken_at_once() {
    over_every_kind(|store| {
        let late = take(store, Holder::gone(), &Hand::new()).expect("free");
        let clock = Hand::new();
        take(store, Holder::this_process(), &clock).expect("its holder is gone");
        assert_eq!(clock.passed(), Duration::ZERO);
        late.check().expect_err("taken over");
    });
}

#[test]
fn unreadable_stale_lock_is_taken_over() {
    over_every_kind(|store| {
        let Created::Made(_) = store.put_if_absent("lock", b"pid 12 on host\n").expect("answered") else {
            panic!("free")
        };
        let clock = Hand::new();
        take(store, Holder::this_process(), &clock).expect("it stands still");
        assert_eq!(clock.passed(), SECOND * 10);
    });
}

#[test]
fn a_removed_lock_is_lost() {
    over_every_kind(|store| {
        let claim = hold(store, &Hand::new());
        store.delete("lock").expect("removed");
        let error = claim.check().expect_err("it is not there");
        assert!(error.to_string().contains("removed"), "{error}");
        let other = hold(store, &Hand::new());
        claim.release().expect("nothing to release");
        other.check().expect("ours");
    });
}

#[test]
fn check_renews_a_lock_older_than_a_third_of_the_timeout() {
    let store = Store::in_memory(FaultConfig::none());
    let clock = Hand::new();
    let claim = hold(&store, &clock);
    let counter = || content(&store)["counter"].as_u64().expect("a number");
    clock.pause(Duration::from_millis(3333));
    claim.check().expect("ours");
    assert_eq!(counter(), 0);
    clock.pause(Duration::from_millis(1));
    claim.check().expect("ours");
    assert_eq!(counter(), 1);
    claim.check().expect("ours");
    assert_eq!(counter(), 1, "it is fresh again");
}

/// A failed heartbeat does not count. A heartbeat whose acknowledgement was lost counts, as other processes saw it.
#[test]
fn a_store_that_does_not_answer_for_a_while_costs_no_lock() {
    let memory = MemoryBackend::new(FaultConfig::none());
    for (failures, lost, arrived) in [(1.0, 0.0, 0), (0.0, 1.0, 1)] {
        let reliable = Store::from_memory(&memory);
        let clock = Hand::new();
        let mut claim = hold(&reliable, &clock);
        claim.store = Store::from_memory(&memory.with_faults(FaultConfig { failures, lost, ..FaultConfig::none() }));
        clock.pause(SECOND * 4);
        assert_eq!(claim.renew().expect_err("no answer").kind(), ErrorKind::TimedOut);
        assert_eq!(claim.check().expect_err("not known to be ours").kind(), ErrorKind::TimedOut);
        assert!(!claim.is_lost());
        claim.store = reliable.clone();
        let before = content(&reliable)["counter"].as_u64();
        assert_eq!(before, Some(arrived), "a heartbeat_interval arrived if its answer was lost");
        claim.check().expect("ours");
        assert_eq!(
            content(&reliable)["counter"].as_u64(),
            before.map(|counter| counter + 1),
            "an old heartbeat_interval is renewed"
        );
        claim.release().expect("released");
    }
}

#[test]
fn of_many_contenders_for_a_dead_lock_one_wins() {
    over_every_kind(|store| {
        let terms = LeaseConfig { heartbeat_interval: SECOND / 50, takeover_delay: SECOND * 3600 };
        take(store, Holder::gone(), &Hand::new()).expect("free");
        let contend = || Lock::acquire(store, "lock", Holder::this_process(), terms);
        let outcomes: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(contend)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let (won, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        let [Ok(lock)] = &won[..] else { panic!("{} hold one lock", won.len()) };
        lock.check().expect("ours");
        for outcome in refused {
            let Err(LockError::Held { holder, .. }) = outcome else { panic!("{outcome:?}") };
            assert!(holder.is_same(lock.holder()));
        }
    });
}

#[test]
fn lock_sends_heartbeats_until_dropped() {
    let store = Store::in_memory(FaultConfig::none());
    let terms = LeaseConfig { heartbeat_interval: Duration::from_millis(1), takeover_delay: SECOND };
    let lock = Lock::acquire(&store, "lock", Holder::this_process(), terms).expect("free");
    let counter = || content(&store)["counter"].as_u64().expect("a number");
    while counter() < 5 {
        thread::yield_now();
    }
    lock.check().expect("ours");
    drop(lock);
    assert_eq!(content(&store)["released"], true);
    let last = counter();
    let _next = hold(&store, &Hand::new());
    assert!(counter() < last, "the next holder begins at 0, undisturbed");
}

#[test]
fn terms_that_cannot_hold_are_refused() {
    let store = Store::in_memory(FaultConfig::none());
    for terms in [
        LeaseConfig { heartbeat_interval: Duration::ZERO, ..LeaseConfig::default() },
        LeaseConfig { heartbeat_interval: SECOND * 3, ..LeaseConfig::default() },
    ] {
        let Err(LockError::Io(error)) = Lock::acquire(&store, "lock", Holder::this_process(), terms) else {
            panic!("{terms:?}")
        };
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn guarded_objects_are_changed_only_by_the_holder() {
    over_every_kind(|store| {
        let terms = LeaseConfig { heartbeat_interval: SECOND / 50, takeover_delay: SECOND * 3600 };
        let lock = Lock::acquire(store, "lock", Holder::this_process(), terms).expect("free");
        let guarded = lock.guard(store).prefixed("run");
        let version = guarded.put("kept", b"kept").expect("ours").version;
        let mut begun = guarded.writer("begun").expect("ours");
        begun.write_all(b"begun").expect("written");
        // Another process finds that the counter does not advance.
        let mut content = content(store);
        content["holder"]["words"] = "pid 7 on elsewhere".into();
        content["holder"]["nonce"] = "another".into();
        store.put("lock", content.to_string().as_bytes()).expect("put");
        let refused = [
            guarded.put("new", b"late").map(|_| ()),
            guarded.put_if_absent("new", b"late").map(|_| ()),
            guarded.put_if_version("kept", b"late", &version).map(|_| ()),
            guarded.delete("kept"),
            guarded.delete_all(""),
            guarded.sweep().map(|_| ()),
            begun.commit().map(|_| ()),
        ];
        for outcome in refused {
            let error = outcome.expect_err("it is no longer ours");
            assert_eq!(error.kind(), ErrorKind::ResourceBusy);
            assert!(error.to_string().contains("pid 7 on elsewhere"), "{error}");
        }
        assert_eq!(guarded.get("kept").expect("readers need no lock"), b"kept");
        let names: Vec<_> = store.list("run").expect("listed").into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["run/kept"]);
    });
}

#[test]
fn observer_sees_a_live_holder() {
    over_every_kind(|store| {
        let clock = Hand::new();
        let mut watch =
            LeaseWatch::with_clock(store, "lock", LeaseConfig::default(), Arc::clone(&clock) as Arc<dyn Clock>);
        assert_eq!(watch.observe().expect("seen"), LeaseStatus::Idle, "no holder yet");
        clock.pause(SECOND * 9);
        assert_eq!(watch.observe().expect("seen"), LeaseStatus::Idle);
        clock.pause(SECOND);
        assert_eq!(watch.observe().expect("seen"), LeaseStatus::Abandoned);

        let claim = hold(store, &Hand::new());
        let held = LeaseStatus::Held(claim.holder().to_string());
        for _ in 0..3 {
            clock.pause(SECOND * 9);
            assert_eq!(watch.observe().expect("seen"), held);
            claim.renew().expect("it beats");
        }
        // The counter does not advance from here on. Within its takeover delay the holder may be alive.
        assert_eq!(watch.observe().expect("seen"), held);
        clock.pause(SECOND * 10);
        assert_eq!(watch.observe().expect("seen"), LeaseStatus::Idle);
        clock.pause(SECOND * 10);
        assert_eq!(watch.observe().expect("seen"), LeaseStatus::Abandoned);
        claim.renew().expect("it beats");
        assert_eq!(watch.observe().expect("seen"), held, "it was alive nevertheless");
        claim.release().expect("released");
        assert_eq!(watch.observe().expect("seen"), LeaseStatus::Idle);
        clock.pause(SECOND * 10);
        assert_eq!(watch.observe().expect("seen"), LeaseStatus::Abandoned);
    });
}

#[test]
fn observer_sees_a_dead_local_holder() {
    over_every_kind(|store| {
        let clock = Hand::new();
        let claim = take(store, Holder::gone(), &clock).expect("free");
        let mut watch =
            LeaseWatch::with_clock(store, "lock", LeaseConfig::default(), Arc::clone(&clock) as Arc<dyn Clock>);
        assert_eq!(watch.observe().expect("seen"), LeaseStatus::Idle);
        drop(claim);
    });
}

#[test]
fn observing_a_lock_does_not_change_it() {
    let store = Store::in_memory(FaultConfig::none());
    let seen = || Lock::seen(&store, "lock").expect("readable").map(|holder| holder.to_string());
    assert_eq!(seen(), None, "there is none");
    let lock = Lock::acquire(&store, "lock", Holder::this_process(), LeaseConfig::default()).expect("free");
    assert_eq!(seen(), Some(lock.holder().to_string()));
    drop(lock);
    assert_eq!(seen(), None, "it was released");
    let gone = Lock::acquire(&store, "lock", Holder::gone(), LeaseConfig::default()).expect("free");
    assert_eq!(seen(), None, "its holder is gone");
    drop(gone);
}

#[test]
fn contender_takes_free_and_expired_locks_without_waiting() {
    over_every_kind(|store| {
        let clock = Hand::new();
        let contender = LeaseContender::with_clock(store, LeaseConfig::default(), Arc::clone(&clock) as Arc<dyn Clock>);
        let alive = hold(store, &clock);
        let first = contender.try_acquire("free").expect("answered").expect("free");
        assert!(contender.try_acquire("free").expect("answered").is_none(), "held by the same process");
        for _ in 0..5 {
            assert!(contender.try_acquire("lock").expect("answered").is_none());
            clock.pause(SECOND * 9);
            alive.renew().expect("it beats");
        }
        // No heartbeat from here on. The takeover delay begins when the contender sees the last one.
        assert!(contender.try_acquire("lock").expect("answered").is_none());
        clock.pause(SECOND * 9);
        assert!(contender.try_acquire("lock").expect("answered").is_none());
        clock.pause(SECOND);
        let taken = contender.try_acquire("lock").expect("answered").expect("expired");
        assert_eq!(alive.renew().expect_err("lost").kind(), ErrorKind::ResourceBusy);
        drop(taken);
        drop(first);
        assert!(contender.try_acquire("free").expect("answered").is_some(), "it was released");
        assert_eq!(clock.passed(), SECOND * 55, "only the test waited");
    });
}

#[test]
fn an_observation_outlasts_an_error_and_ends_when_it_is_forgotten() {
    let memory = MemoryBackend::new(FaultConfig::none());
    let store = Store::from_memory(&memory);
    let clock = Hand::new();
    let _dead = hold(&store, &clock);
    let failing = Store::from_memory(&memory.with_faults(FaultConfig { failures: 1.0, ..FaultConfig::none() }));
    let terms = LeaseConfig::default();
    let mut contender = LeaseContender::with_clock(&store, terms, Arc::clone(&clock) as Arc<dyn Clock>);
    assert!(contender.try_acquire("lock").expect("answered").is_none());
    clock.pause(SECOND * 9);
    contender.store = failing;
    contender.try_acquire("lock").expect_err("the store fails");
    contender.store = store;
    clock.pause(SECOND);
    assert!(contender.try_acquire("lock").expect("answered").is_some(), "ten seconds after the first observation");

    let again = hold(&contender.store, &Hand::new());
    assert!(contender.try_acquire("lock").expect("answered").is_none());
    contender.forget("lock");
    clock.pause(SECOND * 10);
    assert!(contender.try_acquire("lock").expect("answered").is_none(), "it is observed from now on");
    drop(again);
}
