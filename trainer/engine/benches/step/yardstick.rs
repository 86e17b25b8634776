//! Baseline of a step: its matrix products alone, on tensors of the same shapes.
//!
//! One product of each shape is timed after each round of steps, so that load on the machine slows both. The rate of
//! the largest product, rows into the feed-forward block, is the rate of libtorch's `matmul` on this machine. The time
//! of all products is the minimum of a masked language modelling step with `matmul`. On the CPU a step has faster
//! products (`native/linear.cpp`).
//!
//! Axes: `n` tokens, `m` masked ones, `d` hidden, `f` feed-forward, `v` ids, `g` rows times heads, `t` columns, `k` = d
//! / h.

use std::time::Instant;

use tch::{Device, Kind, Tensor};
use trainer_plan::encoder::EncoderConfig;

use crate::common::WORDS;
use crate::median;
use crate::methods::{ROWS, Setting};

/// Product `[batch, n, i] · [batch, i, o]`.
struct Product {
    left: Tensor,
    right: Tensor,
    /// Number of occurrences in a step.
    times: f64,
    operations: f64,
    seconds: Vec<f64>,
}

/// Products of a step.
pub(crate) struct ReferenceProducts {
    products: Vec<Product>,
    /// Index of the largest product of a layer.
    largest: usize,
}

impl ReferenceProducts {
    pub(crate) fn new(setting: Setting) -> Self {
        let EncoderConfig { layers, hidden, heads, feed_forward, .. } = setting.encoder(false);
        let [layers, d, h, f, v] = [layers, hidden, heads, feed_forward, WORDS].map(i64::from);
        let [b, t] = [ROWS, setting.width].map(|count| i64::try_from(count).expect("a step is small"));
        let n = b * t;
        let m = b * t * 3 / 20;
        let k = d / h;
        let kind = match setting.precision {
            trainer_plan::precision::Precision::F32 => Kind::Float,
            _ => Kind::BFloat16,
        };
        let made = |shape: &[i64]| (Tensor::rand(shape, (Kind::Float, Device::Cpu)) - 0.5).to_kind(kind);
        let mut yardstick = Self { products: Vec::new(), largest: 0 };
        // x Wᵀ, then g W and gᵀ x.
        let mut linear = |rows: i64, from: i64, to: i64, times: i64| {
            let x = made(&[rows, from]);
            let w = made(&[to, from]);
            let g = made(&[rows, to]);
            let first = yardstick.products.len();
            for (left, right) in [(&x, &w.tr()), (&g, &w), (&g.tr(), &x)] {
                yardstick.products.push(Product::new(left, right, times));
            }
            first
        };
        linear(n, d, 3 * d, layers);
        linear(n, d, d, layers);
        let largest = linear(n, d, f, layers);
        linear(n, f, d, layers);
        linear(m, d, d, 1);
        linear(m, d, v, 1);
        // Queries times keys, weights times values, and twice as many in the backward pass.
        let q = made(&[b * h, t, k]);
        let w = made(&[b * h, t, t]);
        for (left, right, times) in [(&q, &q.transpose(1, 2), 2), (&w, &q, 2), (&w.transpose(1, 2), &q, 2)] {
            yardstick.products.push(Product::new(left, right, times * layers));
        }
        yardstick.largest = largest;
        yardstick
    }

    /// Times each product once.
    pub(crate) fn measure(&mut self) {
        let _guard = tch::no_grad_guard();
        for product in &mut self.products {
            let begun = Instant::now();
            let made = product.left.matmul(&product.right);
            product.seconds.push(begun.elapsed().as_secs_f64());
            drop(made);
        }
    }

    /// Operations per second of the largest product.
    pub(crate) fn rate(&self) -> f64 {
        let largest = &self.products[self.largest];
        largest.operations / median(largest.seconds.clone())
    }

    /// Operations and seconds of all products of a step of masked language modelling.
    pub(crate) fn all(&self) -> (f64, f64) {
        let each = self
            .products
            .iter()
            .map(|product| (product.times * product.operations, product.times * median(product.seconds.clone())));
        each.fold((0.0, 0.0), |sum, each| (sum.0 + each.0, sum.1 + each.1))
    }
}

impl Product {
    fn new(left: &Tensor, right: &Tensor, times: i64) -> Self {
        let sizes = left.size();
        let columns = *right.size().last().expect("a matrix has columns");
        let operations = 2.0 * sizes.iter().chain([&columns]).map(|&size| size as f64).product::<f64>();
        Self {
            left: left.shallow_clone(),
            right: right.shallow_clone(),
            times: times as f64,
            operations,
            seconds: Vec::new(),
        }
    }
}
