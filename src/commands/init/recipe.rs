//! Views, networks, objectives and usual values of the methods that `cloze init` writes.

use std::fmt::Write as _;

use trainer_plan::encoder::EncoderConfig;

use crate::cli::Method;

/// Settings of a method in addition to those of the corpus and the encoder.
pub(super) struct Recipe {
    /// Title of the method with its source.
    pub(super) title: &'static str,
    /// Packing of the corpus, if it is not that of blocks, with the reason.
    pub(super) packing: Option<(&'static str, &'static str)>,
    /// Lines of `[data]`.
    pub(super) data: &'static str,
    /// Lines of `[encoder]`.
    pub(super) encoder: &'static str,
    /// Sections of networks, views, objectives and the loss.
    pub(super) sections: String,
    /// Learning rate of a base model from scratch, with its source.
    pub(super) base_lr: (&'static str, &'static str),
    /// Lines of `[optimizer]` in addition to the learning rate.
    pub(super) optimizer: &'static str,
    /// Type of matrix products on a GPU, with the reason.
    pub(super) precision: (&'static str, &'static str),
    /// Forward passes of a step, in passes of masked language modelling: limits the micro-batch.
    pub(super) passes: u64,
}

const MLM: &str = r#"[views.masked]            # 15 % of the tokens, 80/10/10, drawn again in every epoch (Devlin et al. 2019)
kind = "mask"

[objectives.mlm]
kind = "masked_lm"
view = "masked"
"#;

/// Packing for views of segments.
const SENTENCES: (&str, &str) = ("sentences", "segments need sentences; a row is of one document");

const HIDDEN: (&str, &str) = ("bf16_hidden", "on a GPU: the fastest type");
const PRODUCTS: (&str, &str) = ("bf16", "on a GPU: the contrast compares hidden states closely");

/// Returns the recipe of a method for an encoder.
///
/// The generator of a run that continues a model has a comment on its start weights.
pub(super) fn recipe(method: Method, encoder: &EncoderConfig, has_model: bool) -> Recipe {
    let plain = Recipe {
        title: "masked language modelling (Devlin et al. 2019)",
        packing: None,
        data: "",
        encoder: "",
        sections: format!("{MLM}\n[loss]                    # L = mlm\nmlm = 1.0\n"),
        base_lr: ("1e-4", "BERT"),
        optimizer: "",
        precision: HIDDEN,
        passes: 1,
    };
    match method {
        Method::Mlm => plain,
        Method::FeMlm => Recipe {
            title: "fully-explored masked language modelling (Zheng et al. 2020)",
            data: "copies_per_sample = 4     # masks of a sample, which do not overlap (K in the paper)\n",
            sections: FE_MLM.to_owned(),
            ..plain
        },
        Method::Taco => Recipe {
            title: "TACO (Fu et al., ACL 2022): masked language modelling and a contrast of nearby tokens",
            sections: format!("{MLM}{TACO}"),
            precision: PRODUCTS,
            ..plain
        },
        Method::Tacl => Recipe {
            title: "TaCL (Su et al., NAACL 2022): a trained model continues with a contrast against its frozen copy",
            packing: Some(SENTENCES),
            sections: TACL.to_owned(),
            precision: PRODUCTS,
            passes: 2,
            ..plain
        },
        Method::Electra => Recipe {
            title: "ELECTRA (Clark et al., ICLR 2020): detect the tokens that a small generator replaced",
            packing: Some(SENTENCES),
            sections: electra(encoder, has_model),
            base_lr: ("2e-4", "ELECTRA-base"),
            optimizer: "eps = 1e-6\nbias_correction = false   # as in the released code\n",
            passes: 2,
            ..plain
        },
        Method::CocoLm => Recipe {
            title: "COCO-LM (Meng et al., NeurIPS 2021): correct replaced tokens, and match a row with its cropped copy",
            encoder: "layer_norm_eps = 1e-5      # fairseq, as in the released code\nrelative_positions = { kind = \"cocolm\", num_buckets = 32, max_distance = 128 }\n",
            sections: coco_lm(encoder, has_model),
            base_lr: ("5e-4", "COCO-LM base"),
            optimizer: "betas = [0.9, 0.98]\neps = 1e-6\nmax_grad_norm = 2.0\n",
            passes: 3,
            ..plain
        },
    }
}

const FE_MLM: &str = r#"[views.masked]            # 15 % of the tokens, 80/10/10; the masks of the copies of a sample do not overlap
kind = "mask"
count = "exact"
disjoint = true

[objectives.mlm]
kind = "masked_lm"
view = "masked"

[loss]                    # L = mlm
mlm = 1.0
"#;

const TACO: &str = r#"
[views.neighbors]         # W = 5 in the paper is the total width: offsets of at most 2
kind = "window"
of = "masked"

[objectives.tc]           # K = 50 negatives, τ = 0.07
kind = "token_contrastive"
view = "masked"
positives = "neighbors"
negatives = 50
temperature = 0.07

[loss]                    # L = mlm + tc
mlm = 1.0
tc = 1.0
"#;

const TACL: &str = r#"[networks.teacher]        # a frozen copy of the weights of `train.init_from`
kind = "teacher"

[views.pair]              # two segments of text; in half of the pairs the second is from another document
kind = "pair"

[views.masked]            # 15 % of the tokens, 80/10/10
kind = "mask"
of = "pair"
rate_base = "all"         # as in the released code

[objectives.mlm]
kind = "masked_lm"
view = "masked"

[objectives.nsp]
kind = "next_sentence"
view = "masked"

[objectives.tacl]         # the student reads the masked row, the teacher the clean one; τ = 0.01
kind = "teacher_contrastive"
view = "masked"
clean = "pair"
teacher = "teacher"

[loss]                    # L = mlm + nsp + tacl
mlm = 1.0
nsp = 1.0
tacl = 1.0
"#;

/// Network that replaces tokens.
struct GeneratorShape {
    layers: u32,
    hidden: u32,
    share: &'static str,
    sampling: &'static str,
}

impl GeneratorShape {
    fn section(&self, main: &EncoderConfig, reason: &str, has_model: bool) -> String {
        let Self { layers, hidden, share, sampling } = self;
        // Heads as wide as those of the main network, or one head.
        let width = (main.hidden / main.heads.max(1)).max(1);
        let heads = (hidden / width).max(1);
        let mut text = format!("[networks.generator]      # {reason}\nkind = \"generator\"\n");
        let _ = write!(
            text,
            "input_view = \"masked\"\noutput_view = \"corrupted\"\nlayers = {layers}\nhidden = {hidden}\nheads = {heads}\n\
             feed_forward = {}\nshare = [{share}]\nsampling = \"{sampling}\"\n",
            4 * hidden
        );
        if has_model {
            text.push_str(
                "# `train.init_from` has no weights for the generator: except for shared ones, they start at random.\n\
                 # init_from = \"FOLDER\"    # a generator of this shape: a run, or an ELECTRA or BERT model\n",
            );
        }
        text
    }
}

fn electra(main: &EncoderConfig, has_model: bool) -> String {
    // A third of the width for base, a quarter for other sizes (Clark et al. 2020, tables 6 and 7).
    let part = if main.hidden == 768 { 3 } else { 4 };
    let generator = GeneratorShape {
        layers: main.layers,
        hidden: (main.hidden / part).max(1),
        share: r#""word", "position", "token_type", "embedding_norm""#,
        sampling: "train",
    };
    let section = generator.section(main, "a part of the width of the main network", has_model);
    format!(
        r#"{section}
[views.segments]
kind = "segments"

[views.masked]            # 15 % of the tokens: 85 % [MASK], 15 % unchanged, as in the released code
kind = "mask"
of = "segments"
rate_base = "all"
replacement = [85, 0, 15]

[objectives.generator]
kind = "masked_lm"
network = "generator"
view = "masked"

[objectives.rtd]
kind = "replaced_token"
view = "corrupted"
head = "dense_gelu"       # the head of published models, so that the run can be exported

[loss]                    # L = generator + 50 rtd
generator = 1.0
rtd = 50.0
"#
    )
}

fn coco_lm(main: &EncoderConfig, has_model: bool) -> String {
    let generator = GeneratorShape {
        layers: main.layers.div_ceil(3),
        hidden: main.hidden,
        share: r#""word", "position", "embedding_norm""#,
        sampling: "eval",
    };
    let section = generator.section(main, "width of the main network, a third of its depth", has_model);
    format!(
        r#"{section}
[views.masked]            # every masked token becomes [MASK]
kind = "mask"
count = "stochastic_round"
rate_base = "all"
mask_special_tokens = true
replacement = [100, 0, 0]

[views.cropped]           # nine tenths of the original
kind = "crop"
keep_fraction = 0.9

[objectives.generator]
kind = "masked_lm"
network = "generator"
view = "masked"

[objectives.clm]          # 50 copy + lm
kind = "corrective_lm"
view = "corrupted"
copy_weight = 50.0

[objectives.scl]          # contrasts the rows of a micro-batch: its size is part of the recipe
kind = "sequence_contrastive"
view = "corrupted"
positive = "cropped"
temperature = 1.0

[loss]                    # L = generator + clm + scl
generator = 1.0
clm = 1.0
scl = 1.0
"#
    )
}
