//! Who holds a lock, and whether it is still there.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::ErrorKind;
use std::process;

use serde::{Deserialize, Serialize};

/// A process, as far as it can be told from others. What is not known is left out, and then decides nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Who it is, for people: "pid 123 on host".
    words: String,
    host: Option<String>,
    /// The kernel's id of this boot.
    boot: Option<String>,
    /// The pid namespace: equal numbers in two containers are two processes.
    namespace: Option<String>,
    pid: u32,
    /// When the process began, in ticks since boot: pids come back, this does not.
    started: Option<u64>,
    /// Tells two takings of one process apart.
    nonce: String,
}

impl Holder {
    /// This process, as a holder like no other.
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
            // A `/proc` of another namespace counts otherwise.
            started: fs::read_link("/proc/self")
                .is_ok_and(|link| link.as_os_str() == &*pid.to_string())
                .then(|| started(pid))
                .flatten(),
            nonce,
        }
    }

    /// Whoever wrote a lock that this program cannot read.
    pub(super) fn unknown() -> Self {
        let words = "somebody whom this program does not know".to_owned();
        Self { words, host: None, boot: None, namespace: None, pid: 0, started: None, nonce: String::new() }
    }

    /// Whether both are the same taking of the same process.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.nonce == other.nonce
    }

    /// Whether this process, the observer, can tell that `other` is gone: it must have been one of the same boot and
    /// namespace. Not to know is to say no.
    pub(super) fn sees_gone(&self, other: &Self) -> bool {
        let shared = |ours: &Option<String>, theirs: &Option<String>| ours.is_some() && ours == theirs;
        let near = shared(&self.host, &other.host)
            && shared(&self.boot, &other.boot)
            && shared(&self.namespace, &other.namespace)
            && self.started.is_some()
            && other.started.is_some();
        // Where the first process cannot be seen, `/proc` hides those of other users (`hidepid`).
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

/// When a process began, in ticks since boot: the 22nd word of its `stat`, whose second is in parentheses and may hold
/// anything.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
impl Holder {
    /// A process that was here and is gone.
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
        assert!(here.started.is_some(), "tests need a /proc of their own");
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
    fn takings_of_one_process_differ() {
        assert!(!Holder::this_process().is_same(&Holder::this_process()));
    }
}
