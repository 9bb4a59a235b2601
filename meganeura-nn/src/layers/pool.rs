//! Pooling.

use meganeura_core::compose::PoolOptions;
use meganeura_core::ir::Value;

/// The largest element of each window of images `[n, c, height, width]`; see [`Value::max_pool`].
#[derive(Clone, Debug, PartialEq)]
pub struct MaxPool2d {
    options: PoolOptions,
}

/// The mean of each window of images `[n, c, height, width]`; see [`Value::avg_pool`].
#[derive(Clone, Debug, PartialEq)]
pub struct AvgPool2d {
    options: PoolOptions,
}

macro_rules! pools {
    ($($layer:ident $method:ident;)*) => {
        $(
            impl $layer {
                /// Square windows of that side, next to each other.
                pub fn new(size: usize) -> $layer {
                    $layer { options: PoolOptions::new([size]) }
                }

                /// The same with other windows.
                #[must_use]
                pub fn with_options(self, options: PoolOptions) -> $layer {
                    $layer { options }
                }

                /// The same with that stride.
                #[must_use]
                pub fn stride(self, stride: usize) -> $layer {
                    $layer { options: self.options.stride(stride) }
                }

                /// The same with that border on every side.
                #[must_use]
                pub fn padding(self, padding: usize) -> $layer {
                    $layer { options: self.options.padding(padding) }
                }

                /// Applies it to `x`, `[n, c, height, width]`.
                #[track_caller]
                pub fn forward<'g>(&self, x: Value<'g>) -> Value<'g> {
                    x.$method(&self.options)
                }
            }
        )*
    };
}

pools! {
    MaxPool2d max_pool;
    AvgPool2d avg_pool;
}
