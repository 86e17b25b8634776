//! Report on a process before its first step: program, device, number format, and attention kernels.
//!
//! The attention kernel determines the speed and the memory of a run. libtorch selects it by shape, type, mask and
//! dropout without a message. The report therefore queries libtorch for the selected kernel.

use std::collections::BTreeMap;

use tch::Device;
use telemetry::training::EnvironmentReport;
use trainer_plan::Error;
use trainer_plan::TrainPlan;
use trainer_plan::encoder::{Attend, RelativeForm};

use crate::device::choice;
use crate::device::native::facts::{self, AttentionMask, AttentionShape};
use crate::device::precision::Precision;

/// Minimum row width for the warning: from here on, pairs of positions dominate memory and time.
const WIDE: u32 = 128;

/// Attention kernel of libtorch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    Math,
    Flash,
    MemoryEfficient,
    Other(i64),
}

impl Kernel {
    /// Converts the number of `at::SDPBackend`.
    fn from_i64(number: i64) -> Self {
        match number {
            0 => Self::Math,
            1 => Self::Flash,
            2 => Self::MemoryEfficient,
            other => Self::Other(other),
        }
    }

    fn name(self) -> String {
        match self {
            Self::Math => "math".to_owned(),
            Self::Flash => "flash".to_owned(),
            Self::MemoryEfficient => "memory-efficient".to_owned(),
            Self::Other(number) => format!("number {number}"),
        }
    }
}

/// Kernels of each network and row width, one for each kind of mask that its attention gets.
type Kernels = BTreeMap<(String, u32), Vec<(AttentionMask, Kernel)>>;

/// Reports the device settings and the attention kernels, and logs those of a GPU.
pub(super) fn report(plan: &TrainPlan, device: Device, threads: usize) -> Result<EnvironmentReport, Error> {
    let mut report = EnvironmentReport {
        program: env!("CARGO_PKG_VERSION").to_owned(),
        device: "cpu".to_owned(),
        gpu: None,
        products: plan.train.precision.name().to_owned(),
        threads: threads as u64,
        allocator: None,
        attention: BTreeMap::new(),
    };
    let Device::Cuda(index) = device else { return Ok(report) };
    if plan.train.tf32 {
        "tf32".clone_into(&mut report.products);
    }
    let name = choice::name(device).unwrap_or_default();
    let allocator = facts::allocator_settings()?;
    let products = &report.products;
    report.device = format!("cuda:{index}");
    tracing::info!(device = report.device, name, products, allocator, "computing on a GPU");
    (report.gpu, report.allocator) = (Some(name), Some(allocator));
    for ((network, width), kernels) in attention(plan, device)? {
        let names: Vec<String> =
            kernels.iter().map(|(told, kernel)| format!("{} {}", kernel.name(), when(*told))).collect();
        let names = names.join(", ");
        tracing::info!(network, width, "attention is {names}");
        report.attention.insert(format!("{network} {width}"), names);
        if width >= WIDE && kernels.iter().any(|(_, kernel)| *kernel == Kernel::Math) {
            tracing::warn!(
                network,
                width,
                "attention uses the `math` kernel, which stores every pair of positions and needs several times the \
                 memory and time; set `hidden` and `heads` of this network so that the head width is a multiple of 8"
            );
        }
    }
    Ok(report)
}

fn when(told: AttentionMask) -> &'static str {
    match told {
        AttentionMask::Nothing => "where no row is padded",
        AttentionMask::Valid => "where rows are padded",
        AttentionMask::Added => "with a bias for pairs of positions",
    }
}

/// Queries the kernel that libtorch selects for every pass of the plan, at its actual shape.
fn attention(plan: &TrainPlan, device: Device) -> Result<Kernels, Error> {
    let mut found = Kernels::new();
    for pass in plan.passes().into_keys() {
        let Some(shape) = plan.shape(&pass.network) else { continue };
        let width = plan.view_width(&pass.view);
        let ways: &[AttentionMask] = match (shape.relative_positions.kind, shape.attention_scope) {
            (RelativeForm::None, Attend::Row) => &[AttentionMask::Nothing, AttentionMask::Valid],
            _ => &[AttentionMask::Added],
        };
        let kernel = |&told: &AttentionMask| {
            let query = AttentionShape {
                is_half: plan.train.precision != Precision::F32,
                rows: i64::try_from(plan.train.micro_batch_size).unwrap_or(i64::MAX),
                width: i64::from(width),
                heads: i64::from(shape.heads),
                head_width: i64::from(shape.hidden / shape.heads),
                told,
                dropout: if plan.is_trained(&pass.network) { shape.dropout } else { 0.0 },
            };
            Ok(facts::attention_kernel(device, query)?.map(|number| (told, Kernel::from_i64(number))))
        };
        let kernels: Vec<Option<(AttentionMask, Kernel)>> = ways.iter().map(kernel).collect::<Result<_, Error>>()?;
        found.insert((pass.network, width), kernels.into_iter().flatten().collect());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use trainer_plan::device::DeviceChoice;
    use trainer_plan::networks::MAIN;
    use trainer_plan::request::TrainRequest;

    use super::*;
    use crate::device::native;
    use crate::testing;

    /// Kernels of the main network.
    fn main_kernels(change: impl Fn(&mut TrainRequest)) -> Vec<(AttentionMask, Kernel)> {
        let mut request = testing::request();
        request.train.device = DeviceChoice::Cuda(0);
        change(&mut request);
        let found = attention(&testing::checked(request), Device::Cuda(0)).expect("libtorch answers");
        let main = found.into_iter().find(|((network, _), _)| network == MAIN);
        main.expect("the main network has a pass").1
    }

    #[test]
    fn libtorch_selects_the_expected_kernel_by_type_and_mask() {
        if !pretend_cuda::is_here(module_path!(), "libtorch_selects_the_expected_kernel_by_type_and_mask") {
            return;
        }
        // Same switches as a run; otherwise cuDNN kernels have priority.
        native::configure(false, false).expect("switches");
        let efficient = Kernel::MemoryEfficient;
        let flash = Kernel::Flash;
        assert_eq!(main_kernels(|_| {}), [(AttentionMask::Nothing, efficient), (AttentionMask::Valid, efficient)]);
        let half = |request: &mut TrainRequest| request.train.precision = Precision::Bf16;
        assert_eq!(main_kernels(half), [(AttentionMask::Nothing, flash), (AttentionMask::Valid, efficient)]);
        let biased = |request: &mut TrainRequest| {
            half(request);
            request.encoder.relative_positions.kind = RelativeForm::T5;
        };
        assert_eq!(main_kernels(biased), [(AttentionMask::Added, efficient)]);
        // A head width of 3: no fused kernel supports it.
        let narrow = |request: &mut TrainRequest| request.encoder.hidden = 6;
        assert_eq!(
            main_kernels(narrow),
            [(AttentionMask::Nothing, Kernel::Math), (AttentionMask::Valid, Kernel::Math)]
        );
    }

    #[test]
    fn no_kernel_is_queried_for_the_cpu() {
        assert!(attention(&testing::plan(), Device::Cpu).expect("no query").values().all(Vec::is_empty));
        let report = report(&testing::plan(), Device::Cpu, 3).expect("no query");
        assert_eq!((report.device.as_str(), report.gpu, report.attention.len()), ("cpu", None, 0));
        assert_eq!(report.threads, 3);
    }
}
