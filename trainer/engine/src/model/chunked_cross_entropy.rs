//! Cross-entropy over the vocabulary, computed in blocks of rows.
//!
//! # What
//! The cross-entropy of a target at each of `n` positions, `−ln q(y)` for `q = softmax(h Eᵀ + c)`, with its gradient.
//!
//! # Why
//! Scores, their logarithms and their gradient, float32 each, take 12 to 16 bytes for each of `n · v` numbers. If every
//! token is predicted, that exceeds the memory of all layers of a network. Here each block of rows is scored, read and
//! turned into its gradient before the next one. The gradient is kept in the type of the products: 2 bytes in bfloat16.
//!
//! # Definition
//! The gradient of `−ln q(y)` with respect to the scores is `u = q − [v = y]`, known as soon as the scores are. With
//! `u` held fixed, `s = Σ_v u_v (h · e_v + c_v)` has the same gradient with respect to `h`, `E` and `c`, for any later
//! factor. So the value is computed without a graph, and `s − s.detach()`, which is 0, attaches the graph: `(u E) · h +
//! u · c`. This takes one product in the forward pass and one in the backward pass, as many as without blocks.
//!
//! Axes: `n` positions, `c` positions of one block, `d` embedding, `v` ids.

use tch::{Tensor, no_grad};

use super::heads::{Decoder, TokenHead};
use crate::device::native;
use crate::device::precision::PrecisionCast as _;

/// Number of scores in one block.
pub(crate) const BLOCK: i64 = trainer_plan::memory::SCORES_AT_ONCE;

/// Statistics of the scores at each position.
#[derive(Debug)]
pub(crate) struct CrossEntropyOutput {
    /// `−ln q(y)` in nats, `[n]`, float32 or float64, with gradient.
    pub nll_n: Tensor,
    /// Highest score, `[n]`, without gradient.
    pub best_n: Tensor,
    /// Id with the highest score, `[n]`, int64.
    pub best_id_n: Tensor,
}

/// Block of positions with its scores: float32 or float64, without gradient. Padding rows of the table are included
/// (−∞).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a> {
    /// First position of the block.
    pub first: i64,
    /// Scores, `[c, v]`.
    pub logits_cv: &'a Tensor,
}

impl Block<'_> {
    /// Returns the part of `all`, `[n, …]`, that belongs to this block.
    pub(crate) fn rows_of(&self, all: &Tensor) -> Tensor {
        all.narrow(0, self.first, self.logits_cv.size()[0])
    }

    /// Returns the score of one id per position, `[c]`; `ids_n`, `[n]`, holds the ids of all positions.
    pub(crate) fn at(&self, ids_n: &Tensor) -> Tensor {
        self.logits_cv.gather(1, &self.rows_of(ids_n).unsqueeze(1), false).squeeze_dim(1)
    }
}

impl TokenHead {
    /// Applies the transform to hidden states `[n, d]`, then [`Decoder::score`].
    pub(crate) fn score(
        &self,
        hidden_nd: &Tensor,
        targets_n: &Tensor,
        visit: impl FnMut(Block<'_>),
    ) -> CrossEntropyOutput {
        self.decoder.score(&self.transformed(hidden_nd), targets_n, visit)
    }

    /// Applies the transform to hidden states `[n, d]`, then [`Decoder::for_each_block`].
    pub(crate) fn look(&self, hidden_nd: &Tensor, visit: impl FnMut(Block<'_>)) {
        no_grad(|| self.decoder.for_each_block(&self.transformed(hidden_nd), visit));
    }
}

impl Decoder {
    /// Computes `−ln q` of the ids `targets_n`, int64, at `hidden_nd`. Calls `visit` with each block of scores.
    pub(crate) fn score(
        &self,
        hidden_nd: &Tensor,
        targets_n: &Tensor,
        mut visit: impl FnMut(Block<'_>),
    ) -> CrossEntropyOutput {
        let is_recorded = [hidden_nd, &self.words_vd, &self.bias_v].into_iter().any(native::is_recorded);
        let positions = hidden_nd.size()[0];
        let rows = self.words_vd.size()[0];
        let grad_nv = is_recorded.then(|| Tensor::empty([positions, rows], (self.words_vd.kind(), hidden_nd.device())));
        let mut nll = Vec::new();
        let mut best = Vec::new();
        let mut best_id = Vec::new();
        self.for_each_block(hidden_nd, |block| {
            visit(block);
            let (best_c, best_id_c) = block.logits_cv.max_dim(-1, false);
            best.push(best_c);
            best_id.push(best_id_c);
            let log_q_cv = block.logits_cv.log_softmax(-1, block.logits_cv.kind());
            let targets_c1 = block.rows_of(targets_n).unsqueeze(1);
            nll.push(-log_q_cv.gather(1, &targets_c1, false).squeeze_dim(1));
            if let Some(grad_nv) = &grad_nv {
                let grad_cv = { log_q_cv }.exp_().scatter_value_reduce_(1, &targets_c1, -1.0, "add");
                block.rows_of(grad_nv).copy_(&grad_cv);
            }
        });
        let none = || Tensor::zeros([0], (self.precision.upcast(hidden_nd).kind(), hidden_nd.device()));
        let nll_n = joined(nll).unwrap_or_else(none);
        let nll_n = match grad_nv {
            None => nll_n,
            Some(grad_nv) => {
                let zero_n = self.gradient_term(hidden_nd, &grad_nv);
                nll_n + (&zero_n - zero_n.detach())
            }
        };
        let best_n = joined(best).unwrap_or_else(none);
        CrossEntropyOutput { nll_n, best_n, best_id_n: joined(best_id).unwrap_or_else(|| targets_n.shallow_clone()) }
    }

    /// Calls `visit` with each block of scores at `hidden_nd`, without gradient.
    pub(crate) fn for_each_block(&self, hidden_nd: &Tensor, mut visit: impl FnMut(Block<'_>)) {
        let _guard = tch::no_grad_guard();
        let positions = hidden_nd.size()[0];
        let rows = self.words_vd.size()[0];
        let at_once = (BLOCK / rows).max(1);
        let dense = self.dense();
        let mut first = 0;
        while first < positions {
            let count = at_once.min(positions - first);
            let logits_cv = self.scores(&dense, &hidden_nd.narrow(0, first, count));
            visit(Block { first, logits_cv: &logits_cv });
            first += count;
        }
    }

    /// Computes `s`, `[n]`, for `u`.
    fn gradient_term(&self, hidden_nd: &Tensor, grad_nv: &Tensor) -> Tensor {
        // The second factor is widened, and so is its gradient: the loss divides by counts, which bfloat16 would round.
        let by_words_nd = grad_nv.matmul(&self.words_vd) * self.precision.upcast(hidden_nd);
        let by_words_n = by_words_nd.sum_dim_intlist(-1, false, by_words_nd.kind());
        // Padding rows have no bias. The gradient of the bias is rounded in the same way for all ids.
        let by_bias_n = grad_nv.narrow(1, 0, self.bias_v.size()[0]).matmul(&self.bias_v);
        by_words_n + by_bias_n
    }
}

/// Concatenates the parts of all blocks. Returns `None` if there is no block.
pub(crate) fn joined(mut parts: Vec<Tensor>) -> Option<Tensor> {
    if parts.len() > 1 { Some(Tensor::cat(&parts, 0)) } else { parts.pop() }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests read values back to the host")]
mod tests {
    use tch::{Device, Kind, Reduction};

    use super::*;
    use crate::device::precision::{MASTER, Precision};

    const WIDE: (Kind, Device) = (Kind::Double, Device::Cpu);

    /// Seven positions, five ids and one padding row of the table.
    struct Example {
        hidden_nd: Tensor,
        decoder: Decoder,
        targets_n: Tensor,
        weights_n: Tensor,
    }

    fn example() -> Example {
        let wave = |shape: &[i64], step: f64| {
            let count = shape.iter().product::<i64>();
            (Tensor::arange(count, WIDE) * step).sin().view(shape).set_requires_grad(true)
        };
        let words_vd = wave(&[6, 3], 1.3);
        let bias_v = wave(&[5], 0.7);
        Example {
            hidden_nd: wave(&[7, 3], 2.1),
            decoder: Decoder { words_vd, bias_v, precision: Precision::F32 },
            targets_n: Tensor::from_slice(&[0_i64, 4, 2, 2, 1, 3, 0]),
            weights_n: Tensor::from_slice(&[1.0, 0.0, 2.0, -1.0, 0.5, 3.0, 1.0]),
        }
    }

    impl Example {
        fn gradients(&self, loss: &Tensor) -> Vec<Tensor> {
            let leaves = [&self.hidden_nd, &self.decoder.words_vd, &self.decoder.bias_v];
            Tensor::run_backward(&[loss], &leaves, false, false)
        }
    }

    #[test]
    fn value_and_gradient_are_those_of_all_scores_at_once() {
        let it = example();
        let logits_nv = it.decoder.logits(&it.hidden_nd);
        let each_n = logits_nv.cross_entropy_loss::<&Tensor>(&it.targets_n, None, Reduction::None, -100, 0.0);
        // The loss depends on the value, so the factor of the gradient is not known in advance.
        let loss_of = |nll_n: &Tensor| (nll_n.square() * &it.weights_n).sum(Kind::Double);
        let expected = it.gradients(&loss_of(&each_n));
        let mut seen = Vec::new();
        let scored = it.decoder.score(&it.hidden_nd, &it.targets_n, |block| seen.push(block.logits_cv.copy()));
        assert!(Tensor::cat(&seen, 0).allclose(&logits_nv, 0.0, 1e-12, false));
        assert!(scored.nll_n.allclose(&each_n, 0.0, 1e-12, false), "{:?}", scored.nll_n);
        assert_eq!(scored.best_id_n, logits_nv.argmax(-1, false));
        assert!(scored.best_n.allclose(&logits_nv.amax(-1, false), 0.0, 1e-12, false));
        for (found, expected) in it.gradients(&loss_of(&scored.nll_n)).iter().zip(&expected) {
            assert!(found.allclose(expected, 0.0, 1e-12, false), "{found:?} is not {expected:?}");
        }
    }

    #[test]
    fn blocks_cover_all_positions_in_order() {
        // Table size at which a block has two positions.
        let words_vd = Tensor::zeros([1, 1], (MASTER, Device::Cpu)).expand([BLOCK / 2, 1], false);
        let bias_v = Tensor::zeros([1], (MASTER, Device::Cpu)).expand([BLOCK / 2], false);
        let decoder = Decoder { words_vd, bias_v, precision: Precision::F32 };
        let mut seen = Vec::new();
        decoder.for_each_block(&Tensor::zeros([5, 1], (MASTER, Device::Cpu)), |block| {
            seen.push((block.first, block.logits_cv.size()[0]));
        });
        assert_eq!(seen, [(0, 2), (2, 2), (4, 1)]);
    }

    #[test]
    fn no_graph_gives_no_gradient_and_no_positions_give_gradient_0() {
        let it = example();
        let still = no_grad(|| it.decoder.score(&it.hidden_nd, &it.targets_n, |_| {}));
        assert!(!still.nll_n.requires_grad());
        let none = it.hidden_nd.narrow(0, 0, 0);
        let nothing = it.decoder.score(&none, &it.targets_n.narrow(0, 0, 0), |_| panic!("there is no block"));
        let gradients = it.gradients(&nothing.nll_n.sum(Kind::Double));
        assert!(gradients.iter().all(|gradient| gradient.abs().max() == Tensor::from(0.0)), "{gradients:?}");
    }
}
