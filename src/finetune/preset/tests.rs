//! Values of the presets, as the papers state them.

use clap::ValueEnum as _;

use super::*;

/// Values of a task: learning rates, batch sizes, epochs, and warm-ups as text.
fn values(name: PresetName, task: &str, examples: u64) -> String {
    let group = Preset::named(name).group(task, examples);
    format!("{:?} {:?} {:?} {:?}", group.lr, group.batch_size, group.epochs, group.warmup)
}

fn optimizer(name: PresetName) -> (Option<[f64; 2]>, Option<f64>, Option<f64>, Option<f64>) {
    let OptimizerValues { betas, eps, weight_decay, max_grad_norm, .. } = Preset::named(name).optimizer;
    (betas, eps, weight_decay, max_grad_norm)
}

#[test]
fn every_name_has_one_preset() {
    for name in PresetName::value_variants() {
        assert_eq!(Preset::named(*name).name, *name);
        assert_eq!(name.to_possible_value().expect("a name").get_name(), name.name());
        assert_eq!(Preset::named(*name).groups.last().map(|group| group.min_examples), Some(0));
    }
    assert_eq!(PRESETS.len(), PresetName::value_variants().len());
}

#[test]
fn taco_has_its_stated_values() {
    use PresetName::{TacoBase, TacoSmall};
    assert_eq!(values(TacoSmall, "mnli", 392_702), "[5e-5] [64] [6] [2000]");
    assert_eq!(values(TacoSmall, "qqp", 363_846), "[5e-5] [64] [6] [2000]");
    assert_eq!(values(TacoSmall, "qnli", 104_743), "[5e-5] [64] [4] [200]");
    assert_eq!(values(TacoSmall, "sst2", 67_349), "[5e-5] [64] [4] [200]");
    assert_eq!(values(TacoSmall, "cola", 8551), "[5e-5] [32] [4] [100]");
    assert_eq!(values(TacoSmall, "rte", 2490), "[5e-5] [32] [4] [100]");
    assert_eq!(optimizer(TacoSmall), (Some([0.9, 0.999]), Some(1e-8), Some(0.0), Some(1.0)));
    let preset = Preset::named(TacoSmall);
    assert_eq!((preset.max_seq_len, preset.seeds, preset.statistic), (Some(128), Some(4), Some(Statistic::Mean)));
    let base = "[5e-5, 3e-5, 2e-5, 1e-5] [32, 16, 64] [4, 5, 6, 7, 8] [100, 150, 200]";
    assert_eq!(values(TacoBase, "mrpc", 3668), base);
    let base = "[5e-5, 3e-5, 2e-5, 1e-5] [64, 32, 128] [4, 5, 6, 7, 8] [1000, 1500, 2000]";
    assert_eq!(values(TacoBase, "mnli", 392_702), base);
    let preset = Preset::named(TacoBase);
    assert_eq!((preset.draws, preset.statistic), (Some(6), Some(Statistic::OverallMean)));
}

#[test]
fn coco_lm_has_its_stated_values() {
    use PresetName::{CocoLmBase, CocoLmLarge};
    let small = "[3e-5, 1e-5, 2e-5, 4e-5, 5e-5] [32, 16] [10, 2, 3, 5] [0.06, 0.1]";
    assert_eq!(values(CocoLmBase, "stsb", 5749), small);
    assert_eq!(values(CocoLmBase, "sst2", 67_349), "[3e-5, 1e-5, 2e-5, 4e-5, 5e-5] [32] [3, 2, 5] [0.06]");
    let lr = Preset::named(CocoLmLarge).group("mnli", 392_702).lr;
    assert!(lr.iter().all(|lr| (0.5e-5..=3e-5).contains(lr)) && lr.contains(&5e-6) && lr.contains(&3e-5));
    for name in [CocoLmBase, CocoLmLarge] {
        assert_eq!(optimizer(name), (Some([0.9, 0.98]), Some(1e-6), Some(0.01), Some(0.0)));
        let preset = Preset::named(name);
        assert_eq!((preset.max_seq_len, preset.dropout, preset.seeds), (Some(512), Some(0.1), Some(5)));
        assert_eq!(preset.statistic, Some(Statistic::Median));
        assert_eq!(preset.choice, Some(CheckpointChoice { validations_per_epoch: 2, patience: None }));
    }
}

#[test]
fn tacl_electra_and_dapt_have_their_stated_values() {
    use PresetName::{Dapt, Electra, ElectraLarge, TaclSquad};
    assert_eq!(values(TaclSquad, "squad", 87_599), "[3e-5] [12] [2] [0]");
    assert_eq!(Preset::named(TaclSquad).max_seq_len, Some(384));
    for (task, epochs) in [("rte", 10), ("stsb", 10), ("mrpc", 3), ("mnli", 3), ("squad", 2), ("squad_v2", 2)] {
        assert_eq!(values(Electra, task, 3000), format!("[0.0001] [32] [{epochs}] [0.1]"));
        assert_eq!(values(ElectraLarge, task, 3000), format!("[5e-5] [32] [{epochs}] [0.1]"));
    }
    assert_eq!([Electra, ElectraLarge].map(|name| Preset::named(name).layer_decay), [Some(0.8), Some(0.9)]);
    assert_eq!(values(Dapt, "citation_intent", 1688), "[2e-5] [16] [10] [0.06]");
    assert_eq!(values(Dapt, "hyperpartisan_news", 515), "[2e-5] [8] [10] [0.06]");
    assert_eq!(values(Dapt, "ag_news", 1150), "[2e-5] [16] [3] [0.06]");
    assert_eq!(optimizer(Dapt), (Some([0.9, 0.98]), Some(1e-6), Some(0.1), Some(1.0)));
    let preset = Preset::named(Dapt);
    assert_eq!((preset.max_seq_len, preset.seeds, preset.statistic), (Some(512), Some(5), Some(Statistic::Mean)));
    assert_eq!(preset.choice, Some(CheckpointChoice { validations_per_epoch: 1, patience: Some(3) }));
}

#[test]
fn lm_bff_has_its_stated_values() {
    use PresetName::{LmBff, LmBffCocoLm};
    assert_eq!(values(LmBff, "sst2", 32), "[1e-5, 2e-5, 5e-5] [2, 4, 8] [1] [0]");
    assert_eq!(values(LmBffCocoLm, "mnli", 48), "[3e-6, 4e-6, 5e-6] [2, 4, 8] [1] [0]");
    for name in [LmBff, LmBffCocoLm] {
        assert_eq!(optimizer(name), (Some([0.9, 0.999]), Some(1e-8), Some(0.0), Some(1.0)));
        let preset = Preset::named(name);
        assert_eq!((preset.steps, preset.seeds, preset.statistic), (Some(1000), Some(5), Some(Statistic::Mean)));
    }
}
