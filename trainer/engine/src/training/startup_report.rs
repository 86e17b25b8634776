//! What a run on a CUDA device says of it before its first step: how it is used, and by which kernels.
//!
//! Which kernel computes attention decides how fast a run is and how much memory it takes, and libtorch chooses it silently,
//! by shape, type, mask and dropout. So it is asked.

use std::collections::BTreeMap;

use tch::Device;
use trainer_plan::Error;
use trainer_plan::TrainPlan;
use trainer_plan::encoder::{Attend, RelativeForm};

use crate::device::choice;
use crate::device::native::facts::{self, AttentionShape, Told};
use crate::device::precision::Precision;

/// Rows so wide have so many pairs that it matters how they are computed.
const WIDE: u32 = 128;

/// How attention is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    Math,
    Flash,
    MemoryEfficient,
    Other(i64),
}

impl Kernel {
    /// By its number in `at::SDPBackend`.
    fn of(number: i64) -> Self {
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

/// A network over rows of one width, and each way in which its attention is told about pairs, with its kernel.
type Kernels = BTreeMap<(String, u32), Vec<(Told, Kernel)>>;

/// Says how the device is used; on the CPU nothing.
pub(super) fn say(plan: &TrainPlan, device: Device) -> Result<(), Error> {
    let Device::Cuda(index) = device else { return Ok(()) };
    let products = if plan.train.tf32 { "tf32" } else { plan.train.precision.name() };
    let (name, allocator) = (choice::name(device).unwrap_or_default(), facts::allocator_settings()?);
    tracing::info!(device = format!("cuda:{index}"), name, products, allocator, "computing on a GPU");
    for ((network, width), kernels) in attention(plan, device)? {
        let words: Vec<String> =
            kernels.iter().map(|(told, kernel)| format!("{} {}", kernel.name(), when(*told))).collect();
        tracing::info!(network, width, "attention is {}", words.join(", "));
        if width >= WIDE && kernels.iter().any(|(_, kernel)| *kernel == Kernel::Math) {
            tracing::warn!(
                network,
                width,
                "attention by `math` keeps every pair of positions: it takes several times the memory and the time \
                 (heads as wide as a multiple of 8 have a kernel of their own)"
            );
        }
    }
    Ok(())
}

fn when(told: Told) -> &'static str {
    match told {
        Told::Nothing => "where no row is padded",
        Told::Valid => "where rows are padded",
        Told::Added => "with numbers for pairs of positions",
    }
}

/// The kernels that libtorch takes for every network that is run, as large as it is run.
fn attention(plan: &TrainPlan, device: Device) -> Result<Kernels, Error> {
    let mut found = Kernels::new();
    for pass in plan.passes().into_keys() {
        let Some(shape) = plan.shape(&pass.network) else { continue };
        let width = plan.view_width(&pass.view);
        let ways: &[Told] = match (shape.relative_positions.kind, shape.attention_scope) {
            (RelativeForm::None, Attend::Row) => &[Told::Nothing, Told::Valid],
            _ => &[Told::Added],
        };
        let kernel = |&told: &Told| {
            let asked = AttentionShape {
                is_half: plan.train.precision != Precision::F32,
                rows: i64::try_from(plan.train.micro_batch_size).unwrap_or(i64::MAX),
                width: i64::from(width),
                heads: i64::from(shape.heads),
                head_width: i64::from(shape.hidden / shape.heads),
                told,
                dropout: if plan.learns(&pass.network) { shape.dropout } else { 0.0 },
            };
            Ok(facts::attention_kernel(device, asked)?.map(|number| (told, Kernel::of(number))))
        };
        let kernels: Vec<Option<(Told, Kernel)>> = ways.iter().map(kernel).collect::<Result<_, Error>>()?;
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

    /// What the main network takes.
    fn taken(change: impl Fn(&mut TrainRequest)) -> Vec<(Told, Kernel)> {
        let mut request = testing::request();
        request.train.device = DeviceChoice::Cuda(0);
        change(&mut request);
        let found = attention(&testing::checked(request), Device::Cuda(0)).expect("it answers");
        let main = found.into_iter().find(|((network, _), _)| network == MAIN);
        main.expect("it is run").1
    }

    #[test]
    fn the_kernel_is_the_one_that_libtorch_takes_for_that_type_and_mask() {
        if !pretend_cuda::is_here(module_path!(), "the_kernel_is_the_one_that_libtorch_takes_for_that_type_and_mask") {
            return;
        }
        // As a run does: cuDNN's kernels come first otherwise.
        native::configure(false, false).expect("switches");
        let (efficient, flash) = (Kernel::MemoryEfficient, Kernel::Flash);
        assert_eq!(taken(|_| {}), [(Told::Nothing, efficient), (Told::Valid, efficient)]);
        let half = |request: &mut TrainRequest| request.train.precision = Precision::Bf16;
        assert_eq!(taken(half), [(Told::Nothing, flash), (Told::Valid, efficient)]);
        let biased = |request: &mut TrainRequest| {
            half(request);
            request.encoder.relative_positions.kind = RelativeForm::T5;
        };
        assert_eq!(taken(biased), [(Told::Added, efficient)]);
        // Three numbers a head: no kernel loads so few.
        let narrow = |request: &mut TrainRequest| request.encoder.hidden = 6;
        assert_eq!(taken(narrow), [(Told::Nothing, Kernel::Math), (Told::Valid, Kernel::Math)]);
    }

    #[test]
    fn nothing_is_said_of_the_cpu() {
        assert!(attention(&testing::plan(), Device::Cpu).expect("nothing is asked").values().all(Vec::is_empty));
        say(&testing::plan(), Device::Cpu).expect("nothing is asked");
    }
}
