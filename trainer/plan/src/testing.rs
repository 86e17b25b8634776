//! Shared helpers of the tests of this crate.

mod request;

use std::collections::BTreeMap;

use schemas::Sealed as _;
use schemas::ordinal::Step;
use store::Store;

pub(crate) use self::request::{checked, request};
use crate::checkpoint::SidecarState;
use crate::checkpoint::{
    FOLDER, MAIN_FILE, OPTIMIZER_FILE, STATE_FILE, SavedGuard, SavedMean, State, folder_name, point,
};
use crate::identity::Identity;

/// Writes a checkpoint of that step into a run. Its two tensor files contain no tensors.
pub(crate) fn put_checkpoint(run: &Store, step: u64) {
    let checkpoint = run.prefixed(FOLDER).prefixed(&folder_name(Step(step)));
    let mut files = BTreeMap::new();
    for name in [MAIN_FILE, OPTIMIZER_FILE] {
        let bytes = format!("{name} of step {step}");
        checkpoint.put(name, bytes.as_bytes()).expect("put");
        files.insert(name.to_owned(), blake3::hash(bytes.as_bytes()).to_hex().to_string());
    }
    let state = State { files, ..state(step) };
    checkpoint.put(STATE_FILE, &state.seal()).expect("put");
    point(run, &[]).expect("put");
}

/// Returns the state after that step.
pub(crate) fn state(step: u64) -> State {
    State {
        step: Step(step),
        rows_consumed: 8 * step,
        tokens_consumed: 90 * step,
        validation_pending: false,
        batch_hash: "ab".to_owned(),
        data_content: "cd".to_owned(),
        program: "cloze 1".to_owned(),
        libtorch: "2".to_owned(),
        threads: 2,
        device: "cpu".to_owned(),
        report: vec![SavedMean::Norm { count: 3.0 }],
        skips: Vec::new(),
        guard: SavedGuard::default(),
        detectors: BTreeMap::new(),
        early_stop: None,
        identity: Identity::new([("seed".to_owned(), "1".to_owned())].into()),
        files: BTreeMap::new(),
        changes: Vec::new(),
        trained_s: None,
        sidecars: SidecarState::default(),
    }
}
