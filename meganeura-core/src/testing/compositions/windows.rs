//! Convolutions, pooling, borders, other sizes.

use super::Composition;
use crate::compose::{Border, ConvOptions, PoolOptions, Resize};
use crate::dtype::DType;
use crate::ops::{Fill, SampleOperand};
use crate::shape::Shape;

/// Without two equal elements.
fn distinct(shape: impl Into<Shape>) -> SampleOperand {
    SampleOperand::of(DType::F32, shape, Fill::Spaced(-2.0, 2.0))
}

fn options() -> ConvOptions {
    ConvOptions::default()
}

pub(super) fn table() -> Vec<Composition> {
    [convolutions(), pools(), borders(), sizes()].concat()
}

/// Sizes beyond one tile of any device, with depth split where it is long.
fn convolutions() -> Vec<Composition> {
    let float = |shape: &[usize]| SampleOperand::float(shape);
    vec![
        Composition::new("conv 3 × 3", [float(&[2, 16, 13, 12]), float(&[20, 16, 3, 3])], |x| {
            x[0].conv(x[1], &options().padding(1))
        }),
        Composition::new("conv stem", [float(&[1, 3, 18, 17]), float(&[8, 3, 7, 7])], |x| {
            x[0].conv(x[1], &options().padding(3).stride(2))
        }),
        Composition::new("conv 1 × 1", [float(&[2, 33, 7, 5]), float(&[17, 33, 1, 1])], |x| {
            x[0].conv(x[1], &options())
        }),
        Composition::new("conv 1 × 1, stride 2", [float(&[1, 8, 8, 8]), float(&[12, 8, 1, 1])], |x| {
            x[0].conv(x[1], &options().stride(2))
        }),
        Composition::new("conv, stride 2", [float(&[2, 8, 10, 12]), float(&[12, 8, 3, 3])], |x| {
            x[0].conv(x[1], &options().stride(2).padding(1))
        }),
        Composition::new("conv, groups", [float(&[1, 12, 9, 9]), float(&[18, 4, 3, 3])], |x| {
            x[0].conv(x[1], &options().groups(3).padding(1))
        }),
        Composition::new("conv, depthwise", [float(&[2, 17, 9, 8]), float(&[17, 1, 5, 5])], |x| {
            x[0].conv(x[1], &options().groups(17).padding(2))
        }),
        Composition::new(
            "conv with epilogue",
            [float(&[2, 8, 65]), float(&[5, 8, 3]), float(&[5, 1]), float(&[2, 5, 65])],
            |x| (x[0].conv(x[1], &options().padding(1)) + x[2]).tanh() + x[3],
        ),
        Composition::new("conv of a border", [float(&[1, 4, 7, 6]), float(&[3, 4, 3, 3])], |x| {
            x[0].pad_border([0, 0, 1, 1], [0, 0, 1, 1], Border::Reflect).conv(x[1], &options())
        }),
        Composition::new("conv transposed", [float(&[2, 6, 5, 4]), float(&[6, 4, 4, 4])], |x| {
            x[0].conv_transpose(x[1], &options().stride(2).padding(1), &[0])
        }),
        Composition::new("conv transposed, groups", [float(&[1, 6, 7]), float(&[6, 2, 3])], |x| {
            x[0].conv_transpose(x[1], &options().stride(3).groups(2).dilation(2), &[1])
        }),
    ]
}

fn pools() -> Vec<Composition> {
    vec![
        Composition::new("max_pool", [distinct([2, 3, 8, 9])], |x| {
            x[0].max_pool(&PoolOptions::new([3]).stride(2).padding(1))
        }),
        Composition::new("max_pool with border", [distinct([1, 2, 17])], |x| {
            x[0].max_pool(&PoolOptions { dilation: vec![2], partial: true, ..PoolOptions::new([3]).padding(1) })
        }),
        Composition::new("max_pool of an activation", [distinct([1, 4, 8, 8])], |x| {
            x[0].relu().max_pool(&PoolOptions::new([2]))
        }),
        Composition::new("avg_pool", [distinct([2, 3, 8, 9])], |x| x[0].avg_pool(&PoolOptions::new([2, 3]))),
        Composition::new("avg_pool with border", [distinct([1, 2, 7, 5])], |x| {
            x[0].avg_pool(&PoolOptions::new([3]).stride(2).padding(1))
        }),
        Composition::new("avg_pool without border", [distinct([1, 2, 7, 6])], |x| {
            x[0].avg_pool(&PoolOptions {
                count_padding: false,
                partial: true,
                ..PoolOptions::new([3]).stride(2).padding(1)
            })
        }),
        Composition::new("global_avg_pool", [distinct([2, 5, 7, 3])], |x| x[0].global_avg_pool()),
        Composition::new("adaptive_avg_pool", [distinct([2, 3, 7, 8])], |x| x[0].adaptive_avg_pool([3, 4])),
        Composition::new("adaptive_avg_pool up", [distinct([1, 2, 5])], |x| x[0].adaptive_avg_pool([7])),
        Composition::new("adaptive_max_pool", [distinct([2, 3, 7, 8])], |x| x[0].adaptive_max_pool([3, 4])),
    ]
}

fn borders() -> Vec<Composition> {
    macro_rules! borders {
        ($($name:literal $border:ident;)*) => {
            vec![
                $(
                    Composition::new($name, [distinct([2, 3, 5, 4])], |x| {
                        x[0].pad_border([1, 0, 2, 1], [0, 1, 1, 2], Border::$border)
                    }),
                    Composition::jumping(
                        concat!($name, " of integers"),
                        [SampleOperand::of(DType::I32, [5, 17], Fill::Bits)],
                        |x| x[0].pad_border([4, 0], [2, 7], Border::$border),
                    ),
                    Composition::jumping(
                        concat!($name, " of truth values"),
                        [SampleOperand::of(DType::Bool, [7], Fill::Bool)],
                        |x| x[0].pad_border([2], [3], Border::$border),
                    ),
                )*
            ]
        };
    }
    borders! {
        "reflected border" Reflect;
        "replicated border" Replicate;
        "circular border" Circular;
    }
}

fn sizes() -> Vec<Composition> {
    vec![
        Composition::new("resize nearest, twice", [distinct([1, 3, 4, 5])], |x| x[0].resize([8, 15], Resize::Nearest)),
        Composition::new("resize nearest, other", [distinct([2, 2, 6, 7])], |x| x[0].resize([3, 5], Resize::Nearest)),
        Composition::new("resize linear, twice", [distinct([1, 3, 4, 5])], |x| {
            x[0].resize([8, 15], Resize::Linear { align_corners: false })
        }),
        Composition::new("resize linear, other", [distinct([2, 2, 6, 7])], |x| {
            x[0].resize([4, 9], Resize::Linear { align_corners: false })
        }),
        Composition::new("resize linear, corners", [distinct([1, 2, 5, 4])], |x| {
            x[0].resize([9, 1], Resize::Linear { align_corners: true })
        }),
        Composition::new("resize linear, one element", [distinct([1, 2, 1])], |x| {
            x[0].resize([3], Resize::Linear { align_corners: false })
        }),
    ]
}
