//! Class of `transformers` that a network of a run is exported as.
//!
//! `cloze plan`, `cloze export` and `checkpoints.export` all decide with [`choose`].

use super::heads::{HeadPlace, HeadRole};
use super::target::Target;
use crate::config::ModelFamily;
use crate::encoder::{EncoderConfig, Gelu, RelativeForm, RelativePositions};
use crate::error::Error;
use crate::networks::MAIN;
use crate::request::ActiveObjective;
use crate::train_plan::TrainPlan;

/// Class of `transformers`, with the heads of a run that it holds.
struct Class {
    family: ModelFamily,
    name: &'static str,
    heads: &'static [HeadRole],
}

const fn class(family: ModelFamily, name: &'static str, heads: &'static [HeadRole]) -> Class {
    Class { family, name, heads }
}

/// All exported classes, the preferred ones first: classes that keep the heads, then classes of `transformers` itself.
const CLASSES: &[Class] = {
    use HeadRole::{
        Classify, Copy, Decode, Detect, DetectLinear, LabelRow, LabelSpan, LabelTokens, Pool, Predict, PredictUntied,
    };
    use ModelFamily::{Bert, Cloze, Electra, Mpnet, Roberta};
    &[
        class(Bert, "BertForPreTraining", &[Predict, Pool, Classify]),
        class(Bert, "BertForMaskedLM", &[Predict]),
        class(Bert, "BertForMaskedLM", &[PredictUntied]),
        class(Electra, "ElectraForPreTraining", &[Detect]),
        class(Electra, "ElectraForMaskedLM", &[Predict]),
        class(Mpnet, "MPNetForMaskedLM", &[Predict]),
        class(Cloze, "ClozeForMaskedLM", &[Decode, Copy]),
        class(Cloze, "ClozeForMaskedLM", &[Decode]),
        class(Cloze, "ClozeForMaskedLM", &[Predict]),
        class(Bert, "BertForSequenceClassification", &[LabelRow]),
        class(Bert, "BertForTokenClassification", &[LabelTokens]),
        class(Bert, "BertForQuestionAnswering", &[LabelSpan]),
        class(Electra, "ElectraForSequenceClassification", &[LabelRow]),
        class(Electra, "ElectraForTokenClassification", &[LabelTokens]),
        class(Electra, "ElectraForQuestionAnswering", &[LabelSpan]),
        class(Mpnet, "MPNetForSequenceClassification", &[LabelRow]),
        class(Mpnet, "MPNetForTokenClassification", &[LabelTokens]),
        class(Mpnet, "MPNetForQuestionAnswering", &[LabelSpan]),
        class(Cloze, "ClozeForSequenceClassification", &[LabelRow]),
        class(Cloze, "ClozeForTokenClassification", &[LabelTokens]),
        class(Cloze, "ClozeForQuestionAnswering", &[LabelSpan]),
        class(Roberta, "RobertaForSequenceClassification", &[LabelRow]),
        class(Roberta, "RobertaForTokenClassification", &[LabelTokens]),
        class(Roberta, "RobertaForQuestionAnswering", &[LabelSpan]),
        class(Mpnet, "MPNetModel", &[]),
        class(Cloze, "ClozeForPreTraining", &[Detect]),
        class(Cloze, "ClozeForPreTraining", &[DetectLinear]),
        class(Roberta, "RobertaForMaskedLM", &[Predict]),
    ]
};

/// Class that a network is exported as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportChoice {
    /// Class of `transformers`, or of the file that is written next to the weights.
    pub class: &'static str,
    /// Model family of the class.
    pub family: ModelFamily,
    /// Exported network.
    pub network: String,
    /// Heads that are written, in the order of the class.
    pub heads: Vec<HeadPlace>,
    /// Names of the classes of a head for labelled examples; empty if they have none.
    pub labels: Vec<String>,
}

impl ExportChoice {
    /// Whether it has a head that detects replaced tokens.
    pub(super) fn detects(&self) -> bool {
        self.heads.iter().any(|head| head.form.detects())
    }

    /// Returns the class that loads the model: `class`, or an automatic class for our own code.
    #[must_use]
    pub fn loader(&self) -> String {
        match self.class.strip_prefix("Cloze") {
            Some(task) => format!("AutoModel{task}"),
            None => self.class.to_owned(),
        }
    }

    /// Returns the Python expression with which `class` reads `folder`. Our own code also affects `AutoTokenizer`,
    /// which reads the model's configuration.
    #[must_use]
    pub fn load_expression(&self, class: &str, folder: &str) -> String {
        let trust = if self.family.has_own_code() { ", trust_remote_code=True" } else { "" };
        format!("{class}.from_pretrained(\"{folder}\"{trust})")
    }

    /// Returns the target of the weights.
    ///
    /// # Errors
    /// [`Error::Config`] if the plan is that of another run.
    pub fn target<'a>(&self, plan: &'a TrainPlan) -> Result<Target<'a>, Error> {
        target_of(plan, &self.network)
    }
}

/// Chooses the class of a network: the first that has its heads and supports its encoder.
///
/// `family` is the choice of the user. `two_segments` names a view whose rows have two segments, if there is one.
///
/// # Errors
/// [`Error::Config`] if no class has the heads of the network, or if the family does not support the run.
pub fn choose(
    plan: &TrainPlan,
    network: &str,
    family: Option<ModelFamily>,
    two_segments: Option<&str>,
) -> Result<ExportChoice, Error> {
    let target = target_of(plan, network)?;
    if let Some((name, layer)) = probe(plan).filter(|_| network == MAIN) {
        return Err(Error::Config(format!(
            "`objectives.{name}` reads layer {layer}: a model of `transformers` has no head for an earlier layer, so this run \
             cannot be exported"
        )));
    }
    let find = |form: HeadRole| target.heads.iter().find(|head| head.form == form).cloned();
    let mut classes: Vec<&Class> = CLASSES
        .iter()
        .filter(|class| family.map_or(class.family != ModelFamily::Roberta, |family| class.family == family))
        .collect();
    // Generators are known as ELECTRA models, even where BERT fits.
    classes.sort_by_key(|class| network != MAIN && class.family != ModelFamily::Electra);
    let mut problem = None;
    for class in classes {
        let Some(heads) = class.heads.iter().map(|form| find(*form)).collect::<Option<Vec<_>>>() else { continue };
        match refusal(class, &heads, &target.encoder, two_segments) {
            None => {
                return Ok(ExportChoice {
                    class: class.name,
                    family: class.family,
                    network: network.to_owned(),
                    heads,
                    labels: Vec::new(),
                });
            }
            // Without a choice, a class without heads explains nothing.
            Some(_) if family.is_none() && heads.is_empty() => {}
            Some(reason) => {
                problem.get_or_insert(format!("this run cannot be exported as `{}`: {reason}", class.name));
            }
        }
    }
    Err(Error::Config(problem.unwrap_or_else(|| no_head(plan, family.unwrap_or(ModelFamily::Bert), &target.heads))))
}

/// Returns the objective that predicts the targets of labelled examples from an earlier layer, with that layer.
fn probe(plan: &TrainPlan) -> Option<(&str, u32)> {
    plan.active().filter(|active| active.objective.label_outputs().is_some()).find_map(|active| {
        let layer = active.objective.reads().passes.iter().find_map(|pass| pass.layers)?;
        (layer < plan.encoder.layers).then_some((active.name, layer))
    })
}

/// Returns the main network or a generator, with its heads.
fn target_of<'a>(plan: &'a TrainPlan, network: &str) -> Result<Target<'a>, Error> {
    if network == MAIN {
        let weights = plan.weight_shapes();
        return Ok(Target::main(plan, weights.keys().map(String::as_str)));
    }
    let used = plan.used_networks();
    if !used.contains_key(network) {
        let names: Vec<String> = std::iter::once(MAIN).chain(used.keys().map(String::as_str)).map(quoted).collect();
        return Err(Error::Config(format!(
            "this run trains no network `{network}`; its networks are {}",
            names.join(", ")
        )));
    }
    Target::next_to(plan, network).ok_or_else(|| {
        Error::Config(format!("network `{network}` has no head that predicts tokens, so it cannot be exported"))
    })
}

fn quoted(name: &str) -> String {
    format!("`{name}`")
}

/// Returns the reason why a class does not support an encoder or rows of two segments; `None` if it does.
fn refusal(class: &Class, heads: &[HeadPlace], encoder: &EncoderConfig, two_segments: Option<&str>) -> Option<String> {
    const MPNET: &str = "32 buckets of kind `t5` up to distance 128";
    let family = class.family;
    let relative = encoder.relative_positions;
    let is_mpnet = relative == RelativePositions::MPNET;
    let is_narrow = encoder.embedding_width() != i64::from(encoder.hidden);
    let activation = heads.iter().find_map(|head| head.activation);
    let other_activation = activation.zip(family.row_activation()).is_some_and(|(ours, theirs)| ours != theirs);
    let is_fixed = class.heads.iter().any(|form| family.has_fixed_gelu(*form));
    let problem = match family {
        ModelFamily::Mpnet if relative.kind == RelativeForm::None => {
            format!("MPNet has relative positions, {MPNET}, and this run has none; export it as `bert`")
        }
        ModelFamily::Mpnet if !is_mpnet => {
            format!("the relative positions of MPNet are {MPNET}; export it as `cloze`")
        }
        ModelFamily::Bert | ModelFamily::Roberta | ModelFamily::Electra if relative.kind != RelativeForm::None => {
            let other = if is_mpnet { "`mpnet`" } else { "`cloze`" };
            format!("the architecture has no relative positions; export it as {other}")
        }
        ModelFamily::Bert | ModelFamily::Roberta | ModelFamily::Mpnet if is_narrow => {
            let other = if family == ModelFamily::Mpnet { "`cloze`" } else { "`electra`" };
            format!("its embedding tables are not as wide as its hidden states; export it as {other}")
        }
        ModelFamily::Roberta | ModelFamily::Mpnet if two_segments.is_some() => {
            let view = two_segments.unwrap_or_default();
            let other = if family == ModelFamily::Mpnet { "`cloze`" } else { "`bert`" };
            format!("rows of view `{view}` have two segments, and the architecture supports one; export it as {other}")
        }
        _ if other_activation => {
            format!("the activation of its head is another one in `{}`; export it as `cloze`", class.name)
        }
        _ if is_fixed && encoder.gelu == Gelu::Tanh => {
            let other = if relative.kind == RelativeForm::None { "`bert`" } else { "`cloze`" };
            format!("the gelu of its head is `tanh`, that of the architecture is always `erf`; export it as {other}")
        }
        _ => return None,
    };
    Some(problem)
}

/// Lists the objectives of a run, with the network of those that are not of the main one.
fn objectives(plan: &TrainPlan) -> String {
    let text = |it: ActiveObjective<'_>| {
        let reads = it.objective.reads();
        let other = reads.passes.iter().map(|pass| &pass.network).find(|network| *network != MAIN);
        let is_of_other = reads.passes.iter().all(|pass| pass.network != MAIN);
        let of = other.filter(|_| is_of_other).map_or(String::new(), |network| format!(" of network `{network}`"));
        format!("`{}`{of}", it.objective.kind())
    };
    plan.active().map(text).collect::<Vec<_>>().join(", ")
}

/// Returns the reason why no head of a run can be exported as the family, with the ways out.
fn no_head(plan: &TrainPlan, family: ModelFamily, heads: &[HeadPlace]) -> String {
    let has_form = |form: HeadRole| heads.iter().any(|head| head.form == form);
    let has = format!("this run has the objectives {}", objectives(plan));
    let needs = match family {
        ModelFamily::Bert | ModelFamily::Roberta if has_form(HeadRole::Detect) => {
            return format!("{has}, and no `masked_lm` of its main network: export it with `--as electra`");
        }
        ModelFamily::Bert | ModelFamily::Roberta if has_form(HeadRole::Decode) || has_form(HeadRole::DetectLinear) => {
            return format!("{has}, and no `masked_lm` of its main network: export it with `--as cloze`");
        }
        ModelFamily::Electra if has_form(HeadRole::Predict) || has_form(HeadRole::PredictUntied) => {
            return format!("{has}, and no head of an ELECTRA model: export it with `--as bert`");
        }
        ModelFamily::Electra if has_form(HeadRole::DetectLinear) => {
            return format!("{has}, and its detection head has no dense layer: export it with `--as cloze`");
        }
        ModelFamily::Bert => "a head of `masked_lm` on the main network",
        ModelFamily::Roberta | ModelFamily::Mpnet => "a head of `masked_lm` with `tied = true` on the main network",
        ModelFamily::Electra => "a head of `replaced_token` with `head = \"dense_gelu\"`, or of `masked_lm`",
        ModelFamily::Cloze => "a head of `masked_lm` with `tied = true`, `corrective_lm` or `replaced_token`",
    };
    format!("{has}; a model of this family needs {needs}, so it cannot be exported")
}
