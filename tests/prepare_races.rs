//! Several processes that prepare one folder at once, also where file locks do not work.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use testkit::{Home, Outcome, Running, skip};

use crate::prepare_faults::{
    FINALIZE, PLAN, RUN_INDEX, RUN_LEASE, args, assert_equals_whole, assert_kept, finish, prepared, records,
};

const SHARED: &str = "prepare.folder=shared";

/// Delay of a process that must still be at work when another one ends. The first commit comes soon.
const SLOW: [&str; 2] = ["--slow", "writer=2000"];

/// Delay of a process that commits nothing within a test.
const STUCK: [&str; 2] = ["--slow", "writer=600000"];

/// Timeout of a wait for a commit.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// Waits until the folder of the phases has what a test waits for.
fn wait_until(home: &Home, is_reached: impl Fn(&Path) -> bool) {
    let began = Instant::now();
    while !is_reached(&home.join("shared")) {
        assert!(began.elapsed() < WAIT_MAX, "no progress");
        thread::yield_now();
    }
}

fn has_commit(folder: &Path) -> bool {
    !records(folder).is_empty()
}

#[test]
fn a_second_plain_preparation_is_refused_and_disturbs_nothing() {
    let home = prepared(30);
    let first = home.watch(&args(&[&["prepare"][..], &SLOW].concat(), SHARED));
    wait_until(&home, has_commit);
    let before = records(&home.join("shared"));
    let holder = format!("locked by pid {} on", first.pid());
    home.run(&args(&["prepare"], SHARED)).assert_fails(1, &["shared/lock", &holder, "wait for it"]);
    home.run(&args(FINALIZE, SHARED)).assert_fails(1, &["shared/lock", &holder, "wait for it"]);
    first.kill();
    assert_kept(&home.join("shared"), &before);
    home.run_ok(&args(&["prepare"], SHARED));
    assert_equals_whole(&home, "shared");
}

#[test]
fn a_plain_preparation_is_refused_while_shares_are_made() {
    let home = prepared(30);
    home.run_ok(&args(PLAN, SHARED));
    for (share, lease) in [(RUN_INDEX, "leases/share-0-of-1"), (RUN_LEASE, "leases/part-")] {
        let is_leased = |folder: &Path| {
            let leases = std::fs::read_dir(folder.join("leases")).into_iter().flatten().flatten();
            let mut names = leases.map(|entry| format!("leases/{}", entry.file_name().to_string_lossy()));
            names.any(|name| name.starts_with(lease))
        };
        let worker = home.watch(&args(&[share, &STUCK].concat(), SHARED));
        wait_until(&home, is_leased);
        let holder = format!("locked by pid {} on", worker.pid());
        for command in [&["prepare"], PLAN] {
            home.run(&args(command, SHARED)).assert_fails(1, &[lease, &holder, "wait for it"]);
        }
        home.run(&args(FINALIZE, SHARED)).assert_fails(1, &["parts are missing", "cloze prepare run"]);
        worker.kill();
    }
    home.run_ok(&args(&["prepare"], SHARED));
    assert_equals_whole(&home, "shared");
}

/// Both make all parts. Parts that are made twice have the same bytes.
#[test]
fn a_share_that_runs_during_a_plain_preparation_makes_the_same_bytes() {
    let home = prepared(30);
    let plain = home.watch(&args(&[&["prepare"][..], &SLOW].concat(), SHARED));
    wait_until(&home, has_commit);
    home.run_ok(&args(RUN_INDEX, SHARED));
    let before = records(&home.join("shared"));
    assert_eq!(before.len(), records(&home.join("whole")).len(), "the share is complete");
    plain.kill();
    assert_kept(&home.join("shared"), &before);
    finish(&home, SHARED);
}

/// Starts the same command twice at once. Both must succeed.
fn run_twice(command: impl Fn() -> Command) {
    let start = || command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    for child in [start(), start()] {
        let outcome = Outcome::new(child.wait_with_output().expect("it ended"));
        assert_eq!(outcome.code, Some(0), "{outcome}");
    }
}

#[test]
fn the_same_share_twice_at_once_makes_the_same_bytes() {
    let home = prepared(120);
    home.run_ok(&args(PLAN, SHARED));
    run_twice(|| home.command(&args(RUN_INDEX, SHARED)));
    home.run_ok(&args(FINALIZE, SHARED));
    assert_equals_whole(&home, "shared");
}

/// Denies file locks (`flock`, `fcntl`) with ENOLCK, as a network file system without a lock service does. The start of
/// the program fails if the kernel allows no such filter, or if the filter does not work.
fn without_file_locks(mut command: Command) -> Command {
    let number = |call: libc::c_long| u32::try_from(call).expect("a small number");
    let code = |parts: [u32; 3]| u16::try_from(parts[0] | parts[1] | parts[2]).expect("a small number");
    let load =
        |offset| libc::sock_filter { code: code([libc::BPF_LD, libc::BPF_W, libc::BPF_ABS]), jt: 0, jf: 0, k: offset };
    let jump = |k, jt, jf| libc::sock_filter { code: code([libc::BPF_JMP, libc::BPF_JEQ, libc::BPF_K]), jt, jf, k };
    let end = |k| libc::sock_filter { code: code([libc::BPF_RET, libc::BPF_K, 0]), jt: 0, jf: 0, k };
    let lock = |kind: libc::c_int| kind.unsigned_abs();
    // The number of the call is at 0, the lower half of its second argument at 24.
    let mut filter = [
        load(0),
        jump(number(libc::SYS_flock), 7, 0),
        jump(number(libc::SYS_fcntl), 0, 5),
        load(24),
        jump(lock(libc::F_SETLK), 4, 0),
        jump(lock(libc::F_SETLKW), 3, 0),
        jump(lock(libc::F_OFD_SETLK), 2, 0),
        jump(lock(libc::F_OFD_SETLKW), 1, 0),
        end(libc::SECCOMP_RET_ALLOW),
        end(libc::SECCOMP_RET_ERRNO | libc::ENOLCK.unsigned_abs()),
    ];
    // SAFETY: prctl and flock are async-signal-safe and touch only the child; the filter outlives the calls.
    #[expect(unsafe_code, reason = "the filter is set between fork and exec")]
    unsafe {
        command.pre_exec(move || {
            let len = u16::try_from(filter.len()).expect("a short filter");
            let program = libc::sock_fprog { len, filter: filter.as_mut_ptr() };
            let is_set = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0;
            let is_denied = is_set && libc::flock(0, libc::LOCK_SH) == -1;
            let error = std::io::Error::last_os_error();
            if is_denied && error.raw_os_error() == Some(libc::ENOLCK) { Ok(()) } else { Err(error) }
        });
    }
    command
}

#[test]
fn processes_without_file_locks_make_the_same_bytes_and_refuse_a_held_folder() {
    let home = prepared(120);
    let command = |words: &[&str]| without_file_locks(home.command(&args(words, SHARED)));
    let Ok(output) = command(PLAN).output() else {
        return skip("a preparation without file locks: the kernel allows no system call filter here");
    };
    let planned = Outcome::new(output);
    assert_eq!(planned.code, Some(0), "{planned}");
    run_twice(|| command(RUN_LEASE));
    let finalized = Outcome::new(command(FINALIZE).output().expect("the program starts"));
    assert_eq!(finalized.code, Some(0), "{finalized}");
    assert_equals_whole(&home, "shared");
    std::fs::remove_dir_all(home.join("shared")).expect("made");
    let mut first = command(&[&["prepare"][..], &SLOW].concat());
    let first = first.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let first = Running::new(first);
    wait_until(&home, has_commit);
    let second = Outcome::new(command(&["prepare"]).output().expect("the program starts"));
    second.assert_fails(1, &["shared/lock", &format!("locked by pid {} on", first.pid())]);
    first.kill();
}
