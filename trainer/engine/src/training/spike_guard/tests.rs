use telemetry::training::SpikeMetric;
use trainer_plan::config::SpikeAction;

use super::spike_detector::LEAST;
use super::*;
use crate::device::tensors::HostTensor;

fn config() -> SpikeGuardConfig {
    SpikeGuardConfig { loss_sigmas: 5.0, norm_sigmas: 5.0, window: 40, ..SpikeGuardConfig::default() }
}

fn guard() -> Guard {
    Guard::new(&config(), 4, Device::Cpu)
}

/// Loss that varies by ±0.1 around 3, and norm of 1.
fn normal(step: usize) -> Observed {
    Observed { loss: 3.0 + 0.1 * (step % 3) as f64 - 0.1, norm: 1.0 }
}

fn steps(count: usize) -> Vec<Observed> {
    (0..count).map(normal).collect()
}

#[test]
fn a_spike_is_measured_in_robust_sigmas() {
    let mut guard = guard();
    assert_eq!(guard.find_spikes(&steps(33)), []);
    // 2.9, 3.0 and 3.1 are equally frequent: the median is 3.0, and the median distance from it is 0.1.
    let found = guard.find_spikes(&[Observed { loss: 4.0, norm: 1.0 }]);
    let [(0, spike)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((spike.figure, spike.value), (SpikeMetric::Loss, 4.0));
    assert!((spike.median - 3.0).abs() < 1e-12 && (spike.sigmas - 1.0 / 0.148_26).abs() < 1e-9, "{spike:?}");
    assert_eq!(guard.find_spikes(&[Observed { loss: 3.7, norm: 1.0 }]), [], "4.7 sigmas");
    assert_eq!(guard.find_spikes(&[Observed { loss: 0.1, norm: 1.0 }]), [], "a falling loss is no spike");
    // All norms are equal: sigma is its minimum, a thousandth of the median.
    let found = guard.find_spikes(&[Observed { loss: 3.0, norm: 1.004 }, Observed { loss: 3.0, norm: 1.006 }]);
    assert!(matches!(found.as_slice(), [(1, Spike { figure: SpikeMetric::GradNorm, .. })]), "{found:?}");
}

#[test]
fn no_step_is_compared_before_there_are_enough_values() {
    let wild = Observed { loss: 1e9, norm: 1e9 };
    let mut early = guard();
    early.find_spikes(&steps(LEAST - 1));
    assert_eq!(early.find_spikes(&[wild]), []);
    let mut ready = guard();
    ready.find_spikes(&steps(LEAST));
    assert_eq!(ready.find_spikes(&[wild]).len(), 1);
}

#[test]
fn a_value_that_is_not_finite_is_neither_compared_nor_recorded() {
    let mut guard = guard();
    guard.find_spikes(&steps(LEAST - 1));
    assert_eq!(guard.find_spikes(&[Observed { loss: f64::NAN, norm: f64::INFINITY }; 50]), []);
    let (losses, norms) = guard.detector.remembered();
    assert_eq!((losses.len(), norms.len()), (LEAST - 1, LEAST - 1));
}

#[test]
fn the_median_follows_a_lasting_level() {
    let mut guard = guard();
    guard.find_spikes(&steps(40));
    let higher: Vec<_> = steps(80).into_iter().map(|step| Observed { loss: step.loss + 1.0, ..step }).collect();
    let spike_step = guard.find_spikes(&higher).len();
    assert!((10..=30).contains(&spike_step), "{spike_step} of 80: about half a window");
}

#[test]
fn action_off_and_zero_sigmas_detect_nothing() {
    for config in [
        SpikeGuardConfig { action: SpikeAction::Off, ..config() },
        SpikeGuardConfig { loss_sigmas: 0.0, norm_sigmas: 0.0, ..config() },
    ] {
        let mut guard = Guard::new(&config, 4, Device::Cpu);
        guard.find_spikes(&steps(40));
        assert_eq!(guard.find_spikes(&[Observed { loss: 1e9, norm: 1e9 }]), []);
    }
}

/// Report intervals may be longer or shorter than in the saved run.
#[test]
fn a_guard_resumes_from_its_saved_state() {
    for every_steps in [1, 4, 9] {
        let mut guard = guard();
        guard.find_spikes(&steps(LEAST + 3));
        for step in 0..3 {
            let _ = guard.ring.loss().fill_(normal(step).loss);
            let _ = guard.ring.norm().fill_(normal(step).norm);
            guard.ring.advance();
        }
        let (tensors, saved) = guard.save();
        let kept = |(name, tensor)| (name, HostTensor::copy_of(tensor).expect("float64"));
        let tensors: HostTensors = tensors.into_iter().map(kept).collect();
        let json = serde_json::to_string(&saved).expect("plain data");
        let saved: SavedGuard = serde_json::from_str(&json).expect("as written");
        let mut other = Guard::new(&config(), every_steps, Device::Cpu);
        other.load(&tensors, &saved, Device::Cpu).expect("complete");
        let read = Vec::<f64>::try_from(&other.ring.unread()).expect("float64");
        assert_eq!(Observed::all(&read), steps(3));
        assert_eq!(other.detector.remembered(), guard.detector.remembered());
        assert!(!other.ring.is_full(), "there is room for the next step");
        other.ring.advance();
        assert_eq!((other.ring.filled(), other.ring.is_full()), (4, every_steps < 5));
        let saved = SavedGuard { unread: 5, ..saved };
        let problem = other.load(&tensors, &saved, Device::Cpu).expect_err("the ring has four");
        assert!(problem.contains("`guard.ring` has 5 rows, one of them spare, but the state says that 5"), "{problem}");
    }
}
