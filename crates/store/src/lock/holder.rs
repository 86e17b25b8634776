//! Holder of a lock, and the check whether it is still running.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::ErrorKind;
use std::process;

use serde::{Deserialize, Serialize};

/// Identity of a process. Unknown fields are `None` and then decide nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Display text: "pid 123 on host".
    words: String,
    host: Option<String>,
    /// Kernel id of this boot.
    boot: Option<String>,
    /// Pid namespace: equal numbers in two containers are two processes.
    namespace: Option<String>,
    pid: u32,
    /// Start of the process in ticks since boot: pids are reused, start times are not.
    started: Option<u64>,
    /// Distinguishes two claims of one process.
    nonce: String,
}

impl Holder {
    /// Returns this process as a holder with a unique nonce.
    pub fn this_process() -> Self {
        let text = |path| fs::read_to_string(path).ok().map(|text: String| text.trim().to_owned());
        let host = text("/proc/sys/kernel/hostname");
        let pid = process::id();
        // Each `RandomState` has its own key, drawn from the operating system's randomness.
        let nonce = [(); 2].map(|()| format!("{:016x}", RandomState::new().build_hasher().finish())).concat();
        Self {
            words: format!("pid {pid} on {}", host.as_deref().unwrap_or("an unknown host")),
            host,
            boot: text("/proc/sys/kernel/random/boot_id"),
            namespace: fs::read_link("/proc/self/ns/pid").ok().map(|link| link.to_string_lossy().into_owned()),
            pid,
            // A `/proc` of another namespace has other pids.
            started: fs::read_link("/proc/self")
                .is_ok_and(|link| link.as_os_str() == &*pid.to_string())
                .then(|| started(pid))
                .flatten(),
            nonce,
        }
    }

    /// Returns the holder of a lock that this program cannot read.
    pub(super) fn unknown() -> Self {
        let words = "an unknown process".to_owned();
        Self { words, host: None, boot: None, namespace: None, pid: 0, started: None, nonce: String::new() }
    }

    /// Returns true if both are the same claim of the same process.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.nonce == other.nonce
    }

    /// Returns true if this process can tell that `other` is gone. `other` must be of the same boot and namespace.
    /// Unknown means false.
    pub(super) fn sees_gone(&self, other: &Self) -> bool {
        let shared = |ours: &Option<String>, theirs: &Option<String>| ours.is_some() && ours == theirs;
        let near = shared(&self.host, &other.host)
            && shared(&self.boot, &other.boot)
            && shared(&self.namespace, &other.namespace)
            && self.started.is_some()
            && other.started.is_some();
        // If pid 1 is hidden, `/proc` hides the processes of other users (`hidepid`).
        if !near || started(1).is_none() {
            return false;
        }
        match fs::metadata(format!("/proc/{}", other.pid)) {
            Ok(_) => started(other.pid).is_some_and(|started| Some(started) != other.started),
            Err(error) => error.kind() == ErrorKind::NotFound,
        }
    }
}

impl Display for Holder {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

/// Returns the start of a process in ticks since boot: field 22 of its `stat`. Field 2 is in parentheses and may
/// contain any character.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
impl Holder {
    /// Returns a process of this boot that is gone.
    pub(super) fn gone() -> Self {
        let mut child = process::Command::new("true").spawn().expect("started");
        let pid = child.id();
        child.wait().expect("ended");
        Self { pid, words: format!("pid {pid}, which is gone"), ..Self::this_process() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_near_process_that_is_gone_is_seen_to_be_gone() {
        let here = Holder::this_process();
        assert!(here.started.is_some(), "tests need their own /proc");
        assert!(!here.sees_gone(&Holder::this_process()), "it lives");
        let gone = Holder::gone();
        assert!(here.sees_gone(&gone));
        let reused = Holder { started: here.started.map(|started| started - 1), ..Holder::this_process() };
        assert!(here.sees_gone(&reused), "a pid that came back is another process");
        let elsewhere = || Some("elsewhere".to_owned());
        for undecided in [
            Holder { host: elsewhere(), ..gone.clone() },
            Holder { host: None, ..gone.clone() },
            Holder { boot: elsewhere(), ..gone.clone() },
            Holder { boot: None, ..gone.clone() },
            Holder { namespace: elsewhere(), ..gone.clone() },
            Holder { namespace: None, ..gone.clone() },
            Holder { started: None, ..gone.clone() },
            Holder::unknown(),
        ] {
            assert!(!here.sees_gone(&undecided), "{undecided:?}");
        }
        for blind in [Holder { started: None, ..here.clone() }, Holder { boot: None, ..here.clone() }] {
            assert!(!blind.sees_gone(&gone), "{blind:?}");
        }
    }

    #[test]
    fn claims_of_one_process_differ() {
        assert!(!Holder::this_process().is_same(&Holder::this_process()));
    }
}
