//! What a run and a preparation are seen by from elsewhere: who answers for them.

#[cfg(feature = "train")]
mod beside;
pub(crate) mod preparing;
mod settings;
#[cfg(feature = "train")]
mod training;

use serve::{About, Kind};

pub(crate) use self::settings::settings;
#[cfg(feature = "train")]
pub(crate) use self::training::Sight;

/// What there is to say of a run or a preparation in that folder before it has said anything.
pub(crate) fn about(kind: Kind, folder: &std::path::Path, steps: Option<u64>) -> About {
    let name =
        folder.file_name().map_or_else(|| folder.display().to_string(), |name| name.to_string_lossy().into_owned());
    let program = concat!("cloze ", env!("CARGO_PKG_VERSION")).to_owned();
    About { kind, name, place: folder.display().to_string(), program, steps }
}

/// Resident bytes of this process, where the system says so.
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_has_some_memory() {
        let bytes = super::resident_bytes().expect("Linux says so");
        assert!((1 << 20..1 << 40).contains(&bytes), "{bytes}");
    }
}
