//! Scores over the vocabulary, a few rows at a time.
//!
//! # What
//! The cross-entropy of a target at each of `n` positions, `−ln q(y)` for `q = softmax(h Eᵀ + c)`, with its gradient.
//!
//! # Why
//! Scores, their logarithms and their gradient, float32 each, are 12 to 16 bytes for each of `n · v` numbers: more than
//! all layers of a network together where every token is predicted. Here a block of rows is scored, looked at and turned
//! into its gradient before the next one, and the gradient is kept in the type of products: 2 bytes in bfloat16.
//!
//! # Definition
//! The gradient of `−ln q(y)` by the scores is `u = q − [v = y]`, known as soon as the scores are. With `u` held fixed,
//! `s = Σ_v u_v (h · e_v + c_v)` has the same gradient by `h`, `E` and `c`, whatever it is multiplied by later. So the
//! value is computed without a graph, and `s − s`, which is 0, brings the graph along: `(u E) · h + u · c`, one product
//! forwards and one backwards, as many as without.
//!
//! Axes: `n` positions, `c` those of one block, `d` embedding, `v` ids.

use tch::{Tensor, no_grad};

use super::heads::{Decoder, TokenHead};
use crate::device::native;
use crate::device::precision::Cast as _;

/// Scores in one block.
pub(crate) const BLOCK: i64 = trainer_plan::memory::SCORES_AT_ONCE;

/// What is known of the scores of each position.
#[derive(Debug)]
pub(crate) struct Scored {
    /// `−ln q(y)` in nats, `[n]`, float32 or float64, with gradient.
    pub nll_n: Tensor,
    /// The highest score, `[n]`, without gradient.
    pub best_n: Tensor,
    /// Whose it is, `[n]`, int64.
    pub best_id_n: Tensor,
}

/// A block of positions and its scores: float32 or float64, without gradient, padding rows of the table among them (−∞).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a> {
    /// The first of them.
    pub first: i64,
    /// `[c, v]`.
    pub logits_cv: &'a Tensor,
}

impl Block<'_> {
    /// What belongs to its positions of something `[n, …]`.
    pub(crate) fn of(&self, all: &Tensor) -> Tensor {
        all.narrow(0, self.first, self.logits_cv.size()[0])
    }

    /// The scores of one id each of `ids_n`, `[n]`: those of the block, `[c]`.
    pub(crate) fn at(&self, ids_n: &Tensor) -> Tensor {
        self.logits_cv.gather(1, &self.of(ids_n).unsqueeze(1), false).squeeze_dim(1)
    }
}

impl TokenHead {
    /// As [`Decoder::score`] of hidden states `[n, d]`.
    pub(crate) fn score(&self, hidden_nd: &Tensor, targets_n: &Tensor, look: impl FnMut(Block<'_>)) -> Scored {
        self.decoder.score(&self.transformed(hidden_nd), targets_n, look)
    }

    /// As [`Decoder::look`] at the scores of hidden states `[n, d]`.
    pub(crate) fn look(&self, hidden_nd: &Tensor, look: impl FnMut(Block<'_>)) {
        no_grad(|| self.decoder.look(&self.transformed(hidden_nd), look));
    }
}

impl Decoder {
    /// Scores the ids `targets_n`, int64, at `hidden_nd`, and shows each block of scores to `look`.
    pub(crate) fn score(&self, hidden_nd: &Tensor, targets_n: &Tensor, mut look: impl FnMut(Block<'_>)) -> Scored {
        let learns = [hidden_nd, &self.words_vd, &self.bias_v].into_iter().any(native::is_recorded);
        let (positions, rows) = (hidden_nd.size()[0], self.words_vd.size()[0]);
        let grad_nv = learns.then(|| Tensor::empty([positions, rows], (self.words_vd.kind(), hidden_nd.device())));
        let (mut surprise, mut best, mut best_id) = (Vec::new(), Vec::new(), Vec::new());
        self.look(hidden_nd, |block| {
            look(block);
            let (best_c, best_id_c) = block.logits_cv.max_dim(-1, false);
            best.push(best_c);
            best_id.push(best_id_c);
            let log_q_cv = block.logits_cv.log_softmax(-1, block.logits_cv.kind());
            let targets_c1 = block.of(targets_n).unsqueeze(1);
            surprise.push(-log_q_cv.gather(1, &targets_c1, false).squeeze_dim(1));
            if let Some(grad_nv) = &grad_nv {
                let slope_cv = { log_q_cv }.exp_().scatter_value_reduce_(1, &targets_c1, -1.0, "add");
                block.of(grad_nv).copy_(&slope_cv);
            }
        });
        let none = || Tensor::zeros([0], (self.precision.widen(hidden_nd).kind(), hidden_nd.device()));
        let nll_n = joined(surprise).unwrap_or_else(none);
        let nll_n = match grad_nv {
            None => nll_n,
            Some(grad_nv) => {
                let zero_n = self.bound(hidden_nd, &grad_nv);
                nll_n + (&zero_n - zero_n.detach())
            }
        };
        let best_n = joined(best).unwrap_or_else(none);
        Scored { nll_n, best_n, best_id_n: joined(best_id).unwrap_or_else(|| targets_n.shallow_clone()) }
    }

    /// Shows all scores at `hidden_nd` to `look`, block by block, without gradient.
    pub(crate) fn look(&self, hidden_nd: &Tensor, mut look: impl FnMut(Block<'_>)) {
        let _guard = tch::no_grad_guard();
        let (positions, rows) = (hidden_nd.size()[0], self.words_vd.size()[0]);
        let (at_once, dense) = ((BLOCK / rows).max(1), self.dense());
        let mut first = 0;
        while first < positions {
            let count = at_once.min(positions - first);
            let logits_cv = self.scores(&dense, &hidden_nd.narrow(0, first, count));
            look(Block { first, logits_cv: &logits_cv });
            first += count;
        }
    }

    /// `s`, `[n]`, for `u`.
    fn bound(&self, hidden_nd: &Tensor, grad_nv: &Tensor) -> Tensor {
        // One of the two factors is wide, and so is what comes back: the loss divides by counts, which bfloat16 rounds.
        let by_words_nd = grad_nv.matmul(&self.words_vd) * self.precision.widen(hidden_nd);
        let by_words_n = by_words_nd.sum_dim_intlist(-1, false, by_words_nd.kind());
        // Padding rows have no bias. What comes back to it is rounded, alike for all ids.
        let by_bias_n = grad_nv.narrow(1, 0, self.bias_v.size()[0]).matmul(&self.bias_v);
        by_words_n + by_bias_n
    }
}

/// What was made block by block, as a whole; `None` where there was no block.
pub(crate) fn joined(mut parts: Vec<Tensor>) -> Option<Tensor> {
    if parts.len() > 1 { Some(Tensor::cat(&parts, 0)) } else { parts.pop() }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "what is tested is looked at")]
mod tests {
    use tch::{Device, Kind, Reduction};

    use super::*;
    use crate::device::precision::{MASTER, Precision};

    const WIDE: (Kind, Device) = (Kind::Double, Device::Cpu);

    /// Seven positions over five ids and one row of padding.
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
        let (words_vd, bias_v) = (wave(&[6, 3], 1.3), wave(&[5], 0.7));
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
        // Something that depends on the value too: what is multiplied by is not known before.
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
        // A table so long that a block has two positions.
        let words_vd = Tensor::zeros([1, 1], (MASTER, Device::Cpu)).expand([BLOCK / 2, 1], false);
        let bias_v = Tensor::zeros([1], (MASTER, Device::Cpu)).expand([BLOCK / 2], false);
        let decoder = Decoder { words_vd, bias_v, precision: Precision::F32 };
        let mut seen = Vec::new();
        decoder.look(&Tensor::zeros([5, 1], (MASTER, Device::Cpu)), |block| {
            seen.push((block.first, block.logits_cv.size()[0]));
        });
        assert_eq!(seen, [(0, 2), (2, 2), (4, 1)]);
    }

    #[test]
    fn without_a_graph_there_is_no_slope_and_without_positions_a_gradient_of_0() {
        let it = example();
        let still = no_grad(|| it.decoder.score(&it.hidden_nd, &it.targets_n, |_| {}));
        assert!(!still.nll_n.requires_grad());
        let none = it.hidden_nd.narrow(0, 0, 0);
        let nothing = it.decoder.score(&none, &it.targets_n.narrow(0, 0, 0), |_| panic!("there is no block"));
        let gradients = it.gradients(&nothing.nll_n.sum(Kind::Double));
        assert!(gradients.iter().all(|slope| slope.abs().max() == Tensor::from(0.0)), "{gradients:?}");
    }
}
