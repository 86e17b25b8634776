mod frozen;
mod global_batch;
mod ranks;

use trainer_plan::objectives::Normalize;
use trainer_plan::request::TrainRequest;

use super::*;
use crate::testing;

fn plan() -> TrainRequest {
    let mut plan = testing::request();
    // The sums of plain masked language modelling do not depend on the division into micro-batches.
    plan.loss.retain(|name, _| name == "masked_lm");
    plan.encoder.dropout = 0.0;
    plan
}

fn gradients(plan: &TrainRequest, batches: &[Batch]) -> Vec<Option<Tensor>> {
    let mut trainer = testing::trainer(plan);
    trainer.accumulate(batches).expect("good batches");
    let weights: Vec<&Tensor> = trainer.parameters.iter().map(|(_, weight)| &weight.tensor).collect();
    native::take_gradients(&weights).expect("weights")
}

fn largest_difference(one: &[Option<Tensor>], other: &[Option<Tensor>]) -> f64 {
    let of = |(one, other): (&Option<Tensor>, &Option<Tensor>)| match (one, other) {
        (Some(one), Some(other)) => f64::try_from((one - other).abs().max()).expect("one number"),
        (None, None) => 0.0,
        _ => f64::INFINITY,
    };
    one.iter().zip(other).map(of).fold(0.0, f64::max)
}

#[test]
fn gradients_do_not_depend_on_micro_batches() {
    let _alone = testing::generator();
    let mut plan = plan();
    let batch = testing::batch(0);
    // Rows have unequal numbers of masked tokens: a mean of means would differ.
    let cut = [batch.slice(0, 3), batch.slice(3, 1)];
    let whole = gradients(&plan, std::slice::from_ref(&batch));
    assert!(largest_difference(&whole, &gradients(&plan, &cut)) < 1e-6);
    plan.train.normalize = Normalize::MicroBatch;
    assert!(largest_difference(&whole, &gradients(&plan, &cut)) > 1e-4, "the mean of means of the released code");
}

#[test]
fn padding_rows_of_the_word_table_stay_zero() {
    let _alone = testing::generator();
    let mut trainer = testing::trainer(&plan());
    for index in 0..3 {
        trainer.step(&[testing::batch(index)]).expect("good batches");
    }
    let word = trainer.parameters.get("encoder.embeddings.word.weight").expect("every encoder has one");
    let padding = word.narrow(0, i64::from(testing::WORDS), 4);
    assert_eq!(word.size()[0], 64);
    assert!(f64::try_from(padding.abs().max()).expect("one number") < f64::MIN_POSITIVE);
}

#[test]
fn an_objective_of_weight_zero_is_reported_without_gradient() {
    let _alone = testing::generator();
    let mut both = testing::request();
    both.encoder.dropout = 0.0;
    // The objective has no weights, so both lists of gradients refer to the same weights.
    let quiet = "token_contrastive".to_owned();
    both.loss = [("masked_lm".to_owned(), 1.0), (quiet.clone(), 0.0)].into();
    let batches = [testing::batch(0)];
    let encoder = |plan: &TrainRequest| -> Vec<Option<Tensor>> { gradients(plan, &batches).into_iter().collect() };
    assert!(largest_difference(&encoder(&plan()), &encoder(&both)) < f64::MIN_POSITIVE);

    let mut trainer = testing::trainer(&both);
    trainer.step(&batches).expect("good batches");
    let figures = trainer.figures().expect("finite").figures;
    assert!(figures.terms[&quiet] > 0.0 && (figures.loss - figures.terms["masked_lm"]).abs() < 1e-12);
}

#[test]
fn a_loss_falls_on_rows_that_repeat() {
    let _alone = testing::generator();
    let mut trainer = testing::trainer(&plan());
    let mut losses = Vec::new();
    for _ in 0..12 {
        trainer.step(&[testing::batch(0), testing::batch(1)]).expect("good batches");
        losses.push(trainer.figures().expect("finite").figures.loss);
    }
    assert!((losses[0] - f64::from(testing::WORDS).ln()).abs() < 0.2, "the first loss is ln V: {losses:?}");
    assert!(losses[11] < 0.8 * losses[0], "{losses:?}");
}

#[test]
fn a_broken_step_is_skipped_and_named() {
    let _alone = testing::generator();
    let mut plan = plan();
    plan.train.max_skipped_steps = 1;
    let mut trainer = testing::trainer(&plan);
    trainer.step(&[testing::batch(0)]).expect("good batches");
    let before = trainer.weights().expect("copied");
    trainer.members[0].weight = f64::MAX;
    trainer.step(&[testing::batch(1)]).expect("the step itself does not check");
    assert_eq!(trainer.weights().expect("copied"), before, "a broken step changes no weight");
    assert_eq!(trainer.figures().expect("one is allowed").figures.skipped, 1);
    trainer.step(&[testing::batch(2)]).expect("the step itself does not check");
    let error = trainer.figures().expect_err("two are not");
    assert!(matches!(error, Error::NonFinite { step: Step(2), batch: BatchIndex(2), skipped: 2, .. }), "{error}");
    assert!(!error.is_usage() && error.to_string().contains("the gradient of step 2 "), "{error}");
}

/// The scores are NaN, so no ids can be sampled from them.
#[test]
fn a_diverging_generator_skips_the_step_without_a_crash() {
    let _alone = testing::generator();
    for draw in ["inverse_cdf", "gumbel", "multinomial"] {
        let mut plan = testing::request();
        let text = format!(
            "generator = {{ kind = 'generator', layers = 1, hidden = 8, heads = 1, feed_forward = 16, sampling_method = '{draw}' }}\n\
             teacher = {{ kind = 'teacher' }}"
        );
        plan.networks = toml::from_str(&text).expect("two networks");
        // Only a generator that is trained can diverge.
        let own = toml::from_str("kind = 'masked_lm'\nnetwork = 'generator'").expect("its loss");
        plan.objectives.insert("generator".to_owned(), own);
        plan.loss.insert("generator".to_owned(), 1.0);
        let mut trainer = testing::trainer(&plan);
        let name = "generator.encoder.layers.0.feed_forward.output.weight";
        let mut weight = trainer.parameters.get(name).expect("a generator has one").shallow_clone();
        let _ = tch::no_grad(|| weight.fill_(f64::NAN));
        trainer.step(&[testing::batch(0), testing::batch(1)]).expect("the step itself does not check");
        let error = trainer.figures().expect_err("nothing is finite");
        assert!(matches!(error, Error::NonFinite { step: Step(1), .. }), "{draw}: {error}");
        assert!(
            error.to_string().contains("nor is the loss of") && error.to_string().contains("`generator`"),
            "{error}"
        );
    }
}

/// If the host reads a number, it waits until the device has finished its queue.
#[test]
fn a_step_brings_nothing_to_the_host() {
    if !pretend_cuda::is_here(module_path!(), "a_step_brings_nothing_to_the_host") {
        return;
    }
    let mut request = testing::request();
    request.train.device = trainer_plan::device::DeviceChoice::Cuda(0);
    for precision in [Precision::F32, Precision::Bf16] {
        request.train.precision = precision;
        let mut trainer = testing::trainer(&request);
        trainer.step(&[testing::batch(0), testing::batch(1)]).expect("good batches");
        pretend_cuda::Counts::start();
        trainer.step(&[testing::batch(2), testing::batch(3)]).expect("good batches");
        let Some(counts) = pretend_cuda::Counts::read() else {
            return testkit::skip("downloads of a step on CUDA: this device does not count");
        };
        assert!(counts.kernels > 0 && counts.uploads == 2, "one copy for each micro-batch, {precision:?}: {counts:?}");
        assert!(counts.downloads == 0 && counts.waits == 0, "{precision:?}: {counts:?}");
    }
}

/// Every objective and network, dropout, two micro-batches of unequal rows, several steps.
fn assert_checkpointing_changes_nothing(request: &TrainRequest) {
    let learn = |activation_checkpointing: bool| {
        let mut request = request.clone();
        request.train.activation_checkpointing = activation_checkpointing;
        let mut trainer = testing::trainer(&request);
        for index in 0..3 {
            let batch = testing::batch(index);
            trainer.step(&[batch.slice(0, 2), batch.slice(2, 2)]).expect("good batches");
        }
        trainer.weights().expect("copied")
    };
    let stored = learn(false);
    let recomputed = learn(true);
    let different: Vec<&String> = stored.keys().filter(|name| stored[*name] != recomputed[*name]).collect();
    assert!(different.is_empty(), "{:?}: {different:?}", request.train.precision);
}

#[test]
fn activation_checkpointing_changes_no_bit() {
    let _alone = testing::generator();
    let mut request = testing::request();
    assert!(request.encoder.dropout > 0.0);
    assert_checkpointing_changes_nothing(&request);
    request.encoder.relative_positions.kind = trainer_plan::encoder::RelativeForm::CocoLm;
    assert_checkpointing_changes_nothing(&request);
}

#[test]
fn activation_checkpointing_changes_no_bit_on_cuda() {
    if !pretend_cuda::is_here(module_path!(), "activation_checkpointing_changes_no_bit_on_cuda") {
        return;
    }
    let mut request = testing::request();
    request.train.device = trainer_plan::device::DeviceChoice::Cuda(0);
    for precision in [Precision::F32, Precision::Bf16, Precision::Bf16Hidden] {
        request.train.precision = precision;
        assert_checkpointing_changes_nothing(&request);
    }
}

/// Losses and norms of four steps of all objectives on the CPU.
fn trained_in(precision: Precision, activation_checkpointing: bool) -> Vec<(BTreeMap<String, f64>, f64)> {
    let mut request = testing::request();
    (request.train.precision, request.train.activation_checkpointing) = (precision, activation_checkpointing);
    let mut trainer = testing::trainer(&request);
    let step = |index: u64| {
        trainer.step(&[testing::batch(2 * index), testing::batch(2 * index + 1)]).expect("good batches");
        let figures = trainer.figures().expect("finite").figures;
        (figures.terms, figures.grad_norm)
    };
    (0..4).map(step).collect()
}

#[test]
fn losses_in_bfloat16_on_the_cpu_are_near_those_in_float32() {
    if !Precision::has_native_bf16() {
        return testkit::skip("bfloat16 on the CPU: this processor has no products of it");
    }
    let _alone = testing::generator();
    let fine = trained_in(Precision::F32, false);
    for precision in [Precision::Bf16, Precision::Bf16Hidden] {
        let coarse = trained_in(precision, false);
        assert_eq!(coarse, trained_in(precision, true), "{precision:?}: recomputation is bit-identical");
        for (step, ((fine, _), (coarse, _))) in fine.iter().zip(&coarse).enumerate() {
            for (name, fine) in fine {
                // Hidden states in bfloat16 are too coarse for a contrast at a low temperature.
                if precision == Precision::Bf16Hidden && name.starts_with("teacher_contrastive") {
                    continue;
                }
                let coarse = coarse[name];
                let apart = (fine - coarse).abs() / fine.abs().max(0.1);
                assert!(apart < 0.05, "{precision:?}, step {step}: `{name}` is {coarse}, not {fine}");
            }
        }
    }
}

#[test]
fn bfloat16_without_a_gpu_needs_device_cpu() {
    let mut request = testing::request();
    request.train.precision = Precision::Bf16;
    request.train.device = trainer_plan::device::DeviceChoice::Auto;
    if tch::Cuda::is_available() {
        return testkit::skip("bfloat16 without a GPU: there is one");
    }
    let refused = |request: &TrainRequest| {
        let made =
            Trainer::new(&testing::checked(request.clone()), Arc::new(crate::training::process_group::SingleProcess));
        made.err().map(|error| error.to_string())
    };
    let error = refused(&request).expect("there is no GPU");
    assert!(error.contains("`train.precision = \"bf16\"` needs CUDA, but "), "{error}");
    request.train.device = trainer_plan::device::DeviceChoice::Cpu;
    let problem = refused(&request);
    assert_eq!(problem.is_none(), Precision::has_native_bf16(), "{problem:?}");
    if let Some(error) = problem {
        assert!(error.contains("needs a processor") && error.contains("`train.precision = \"f32\"`"), "{error}");
    }
}

/// A step without anything to predict, and a skipped step, have no loss: 0 would move the median of the spike guard.
#[test]
fn steps_without_a_loss_are_not_recorded_by_the_spike_guard() {
    let _alone = testing::generator();
    let mut request = plan();
    request.train.max_skipped_steps = 1;
    request.report.every_steps = 8;
    let mut trainer = testing::trainer(&request);
    trainer.step(&[testing::batch(0)]).expect("a good batch");
    trainer.step(&[testing::empty_batch(1)]).expect("an empty batch");
    trainer.step(&[testing::empty_batch(2), testing::batch(2)]).expect("half a step");
    let word =
        &trainer.parameters.get("encoder.embeddings.word.weight").expect("every encoder has one").shallow_clone();
    tch::no_grad(|| {
        let _ = word.shallow_clone().fill_(f64::NAN);
    });
    trainer.step(&[testing::batch(3)]).expect("skipped");
    let observed = trainer.figures().expect("one skipped step is allowed").observed;
    let is_recorded: Vec<[bool; 2]> =
        observed.iter().map(|step| [step.loss, step.norm].map(|value| value.is_finite() && value > 0.0)).collect();
    assert_eq!(is_recorded, [[true; 2], [false; 2], [true; 2], [false; 2]], "{observed:?}");
    assert!(!observed[1].loss.is_finite() && !observed[1].norm.is_finite() && !observed[3].norm.is_finite());
}
