//! What representations show of context, without any fine-tuning.
//!
//! # Reference
//! Fu, Zhou, Zhang, Zhou & Huang 2022 (TACO), figures 3b, 4, 6a and table 9.

use tch::{Kind, Tensor};

/// How alike positions of one row are, and of different rows, by one measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Similarity {
    /// `cosine`, `dot`, `l1`, `l2` or `l10`.
    pub measure: &'static str,
    /// Mean over pairs within a row.
    pub intra: f64,
    /// Mean over pairs across rows.
    pub inter: f64,
}

/// The contextual score's parts: for each token one partner of its own row and one of another, both by flat index
/// into `hidden_md`. The first entry is the cosine; its `intra − inter` is *the* score.
///
/// `cosine` and `dot` grow with likeness; the distances `L_p = (Σ |a − b|^p)^(1/p)` shrink. Means over no token are
/// not a number.
#[must_use]
pub fn contextual_score(hidden_md: &Tensor, token_n: &Tensor, intra_n: &Tensor, inter_n: &Tensor) -> [Similarity; 5] {
    let rows = |index_n: &Tensor| hidden_md.index_select(0, index_n);
    let (token_nd, intra_nd, inter_nd) = (rows(token_n), rows(intra_n), rows(inter_n));
    let by = |measure, each: &dyn Fn(&Tensor, &Tensor) -> Tensor| Similarity {
        measure,
        intra: mean(&each(&token_nd, &intra_nd)),
        inter: mean(&each(&token_nd, &inter_nd)),
    };
    [
        by("cosine", &cosines),
        by("dot", &dots),
        by("l1", &|a, b| distances(a, b, 1)),
        by("l2", &|a, b| distances(a, b, 2)),
        by("l10", &|a, b| distances(a, b, 10)),
    ]
}

fn dots(a_nd: &Tensor, b_nd: &Tensor) -> Tensor {
    (a_nd * b_nd).sum_dim_intlist(-1, false, a_nd.kind())
}

fn cosines(a_nd: &Tensor, b_nd: &Tensor) -> Tensor {
    let unit = |rows: &Tensor| rows / rows.norm_scalaropt_dim(2, [-1], true).clamp_min(1e-12);
    dots(&unit(a_nd), &unit(b_nd))
}

/// The largest difference is taken out first: tenth powers of small float32 numbers would vanish.
fn distances(a_nd: &Tensor, b_nd: &Tensor, p: i64) -> Tensor {
    let gap_nd = (a_nd - b_nd).abs();
    let largest_n1 = gap_nd.amax(-1, true);
    let scaled_nd = gap_nd / largest_n1.clamp_min(f64::from(f32::MIN_POSITIVE));
    scaled_nd.norm_scalaropt_dim(p, [-1], false) * largest_n1.squeeze_dim(-1)
}

fn mean(each_n: &Tensor) -> f64 {
    f64::try_from(each_n.mean(Kind::Double)).expect("a mean is one number")
}
