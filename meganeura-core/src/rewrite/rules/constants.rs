//! Constants.

use crate::dtype::DType;
use crate::ops::{Constant, Op};
use crate::rewrite::engine::{Rewrite, Site};
use crate::scalar::Scalar;

/// A function of constants is a constant, rounded to its type.
pub(super) fn fold(site: &Site<'_>) -> Option<Rewrite> {
    let scalar = |at: usize| site.constant(at).map(Scalar::value);
    let dtype = site.ty.dtype;
    let value = match site.op {
        Op::Unary(function) => function.0.eval(dtype, scalar(0)?),
        Op::Binary(function) => function.0.eval(dtype, scalar(0)?, scalar(1)?),
        Op::Compare(relation) => f64::from(u8::from(relation.0.eval(scalar(0)?, scalar(1)?))),
        Op::Cast(_) => scalar(0)?,
        _ => return None,
    };
    constant(site, Scalar::new(dtype, value))
}

/// A view of a constant is a constant of another shape.
pub(super) fn view(site: &Site<'_>) -> Option<Rewrite> {
    match site.op {
        Op::Reshape(_) | Op::Permute(_) | Op::Broadcast(_) | Op::Slice(_) | Op::StopGradient(_) => {
            constant(site, site.constant(0)?)
        }
        Op::Pad(pad) if site.constant(0) == Some(pad.fill) => constant(site, pad.fill),
        _ => None,
    }
}

fn constant(site: &Site<'_>, value: Scalar) -> Option<Rewrite> {
    // f16 arithmetic may round differently on each device; leave it to them.
    (value.dtype() != DType::F16)
        .then(|| Rewrite::Node(Op::Constant(Constant { value, shape: site.ty.shape.clone() }), Vec::new()))
}
