//! Contract of the backends of this package: a folder, and memory with and without faults; prefixes of each.

use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::thread;
use std::time::Duration;

use store::{FaultConfig, MemoryBackend, Replaced, Retries, Store};
use testkit::check_contract;

/// Three calls of ten fail, and some that report an error have had their effect.
const FAILING: FaultConfig = FaultConfig { seed: 7, latency: Duration::ZERO, failures: 0.2, lost: 0.1 };
/// Three acknowledgements of ten are lost.
const FORGETFUL: FaultConfig = FaultConfig { seed: 8, latency: Duration::ZERO, failures: 0.1, lost: 0.2 };

#[test]
fn a_folder_keeps_every_law() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let count = Cell::new(0);
    let empty = || {
        count.set(count.get() + 1);
        Store::folder(home.path().join(format!("{}/a", count.get()))).expect("made with its parents")
    };
    check_contract(empty);
    check_contract(|| empty().prefixed("b/c"));
}

#[test]
fn memory_keeps_every_law() {
    check_contract(|| Store::in_memory(FaultConfig::none()));
    check_contract(|| Store::in_memory(FaultConfig::none()).prefixed("b/c"));
}

#[test]
fn faults_keep_the_contract_in_memory() {
    for faults in [FAILING, FORGETFUL] {
        let stores = RefCell::new(Vec::new());
        check_contract(|| {
            let memory = MemoryBackend::new(faults);
            stores.borrow_mut().push(memory.clone());
            Store::from_memory(&memory)
        });
        let tallies = || stores.borrow().iter().map(MemoryBackend::tally).collect::<Vec<_>>().into_iter();
        let (failed, lost): (u64, u64) =
            (tallies().map(|tally| tally.failed).sum(), tallies().map(|tally| tally.lost).sum());
        assert!(failed > 50 && lost > 50, "{failed} failures and {lost} lost acknowledgements are too few");
    }
}

/// Calls of a folder fail at random, before or after their effect. Six failures in a row would end a call.
#[test]
fn faults_keep_the_contract_of_a_folder() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let count = Cell::new(0);
    check_contract(|| {
        count.set(count.get() + 1);
        let faults = FaultConfig { seed: count.get(), failures: 0.01, lost: 0.1, ..FaultConfig::none() };
        let store = Store::folder(home.path().join(count.get().to_string())).expect("made");
        let pause = std::time::Duration::ZERO;
        store.with_faults(faults).with_retries(Retries { pause, pause_max: pause, ..Retries::default() })
    });
}

/// A version that comes back could hide a change. Servers that derive versions from the content cannot keep this.
#[test]
fn versions_of_equal_content_differ_too() {
    let home = tempfile::tempdir().expect("a temporary folder");
    for store in [Store::folder(home.path()).expect("made"), Store::in_memory(FaultConfig::none())] {
        for content in [vec![1], vec![1; 1 << 17]] {
            let [first, second] = [(); 2].map(|()| store.put("x", &content).expect("put"));
            assert_ne!(first.version, second.version);
            assert_eq!(store.head("x").expect("answered"), Some(second.clone()));
            assert_eq!(store.list("").expect("listed")[0].stat, second, "the times are equal too");
        }
    }
}

#[test]
fn a_store_that_never_answers_is_given_up_with_its_place() {
    for (failures, lost) in [(1.0, 0.0), (0.0, 1.0)] {
        let memory = MemoryBackend::new(FaultConfig { failures, lost, ..FaultConfig::none() });
        let store = Store::from_memory(&memory);
        let retries = Retries { attempts_max: 5, ..store.retries() };
        let error = store.with_retries(retries).put("x", b"1").expect_err("it never answers");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(error.to_string().contains("memory:x") && error.to_string().contains("5 times"), "{error}");
        assert_eq!(memory.tally().calls, 5);
    }
}

/// Without lost acknowledgements, the number of successes is the number of changes.
#[test]
fn every_success_is_one_change() {
    let home = tempfile::tempdir().expect("a temporary folder");
    for store in [Store::folder(home.path()).expect("made"), Store::in_memory(FaultConfig::none())] {
        store.put_if_absent("sum", b"0").expect("created");
        let store = &store;
        let sum = || String::from_utf8(store.get("sum").expect("there")).expect("digits");
        let add = move |who: usize| {
            let mut successes = 0;
            for time in 0..40 {
                let (text, stat) = store.get_with_stat("sum").expect("answered").expect("there");
                let text = String::from_utf8(text).expect("digits");
                let count: u64 = text.split(' ').next().expect("a number").parse().expect("a number");
                let next = format!("{} {who} {time}", count + 1);
                let made = matches!(store.put_if_version("sum", next.as_bytes(), &stat.version), Ok(Replaced::Made(_)));
                successes += u64::from(made);
            }
            successes
        };
        let successes: u64 = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|who| scope.spawn(move || add(who))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert!(successes >= 40, "one replacement always succeeds");
        assert_eq!(sum().split(' ').next(), Some(&*successes.to_string()));
    }
}

/// Over a network, a read waits for its request.
#[test]
fn a_large_object_is_hashed_in_few_reads() {
    let memory = MemoryBackend::new(FaultConfig::none());
    let store = Store::from_memory(&memory);
    for (bytes, reads) in [((8 << 20) - 1, 1), (8 << 20, 1), ((8 << 20) + 1, 2), (20 << 20, 3)] {
        let content: Vec<u8> = (0..=250).cycle().take(bytes).collect();
        store.put("x", &content).expect("put");
        let before = memory.tally().calls;
        assert_eq!(store.hash("x", bytes as u64).expect("there"), blake3::hash(&content), "{bytes} bytes");
        assert_eq!(memory.tally().calls - before, reads, "{bytes} bytes");
    }
}
