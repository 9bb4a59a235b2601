//! The text form of a kernel, for people and dumps.

use super::{Access, Body, Bound, Expr, Kernel, Role, Stream};
use std::fmt;

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Parallel => "parallel",
            Role::Row => "row",
            Role::Col => "col",
            Role::Reduce => "reduce",
            Role::Depth => "depth",
        })
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::ReadWrite => "update",
        })
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0 <= {} < {}", self.index, self.extent)
    }
}

/// Writes `prefix` and the bounds, joined by "and", if there are any.
struct Mask<'a>(&'a str, &'a [Bound]);

impl fmt::Display for Mask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, bound) in self.1.iter().enumerate() {
            write!(f, "{}{bound}", if at == 0 { self.0 } else { " and " })?;
        }
        Ok(())
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Const(scalar) => write!(f, "const {scalar}"),
            Expr::Load { arg, index, mask } => write!(f, "load a{arg}[{index}]{}", Mask(" where ", mask)),
            Expr::Index(index) => write!(f, "index {index}"),
            Expr::Within(mask) => write!(f, "within {}", Mask("", mask)),
            Expr::Unary(function, a) => write!(f, "{function} %{}", a.0),
            Expr::Binary(function, a, b) => write!(f, "{function} %{} %{}", a.0, b.0),
            Expr::Compare(relation, a, b) => write!(f, "{relation} %{} %{}", a.0, b.0),
            Expr::Select(condition, a, b) => write!(f, "select %{} %{} %{}", condition.0, a.0, b.0),
            Expr::Cast(a, dtype) => write!(f, "cast %{} to {dtype}", a.0),
            Expr::Bitcast(a, dtype) => write!(f, "bitcast %{} to {dtype}", a.0),
            Expr::Random { key: [seed, step], stream, counter } => {
                write!(f, "random key %{} %{} stream {stream} counter {counter}", seed.0, step.0)
            }
            Expr::Reduce(monoid, a) => write!(f, "reduce {monoid} %{}", a.0),
            Expr::Acc => f.write_str("acc"),
            Expr::Score(at) => write!(f, "score {at}"),
            Expr::Peak => f.write_str("peak"),
            Expr::Total(at) => write!(f, "total {at}"),
        }
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, high] = self.band.map(|bound| bound.map_or(String::new(), |bound| bound.to_string()));
        writeln!(f, "  elements from {low} to {high} behind the row")?;
        if let Some(length) = self.length {
            writeln!(f, "  elements below %{}", length.0)?;
        }
        for (at, score) in self.scores.iter().enumerate() {
            writeln!(f, "  score {at} = sum over i{} of %{} * %{}", score.depth, score.lhs.0, score.rhs.0)?;
        }
        if let Some(peak) = self.peak {
            writeln!(f, "  peak = largest of %{}", peak.0)?;
        }
        for (at, total) in self.totals.iter().enumerate() {
            let value = total.value.map_or(String::new(), |value| format!(" * %{}", value.0));
            writeln!(f, "  total {at} = sum of %{}{value}", total.weight.0)?;
        }
        Ok(())
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "kernel {{")?;
        for (at, axis) in self.axes.iter().enumerate() {
            writeln!(f, "  i{at}: {} {}", axis.role, axis.extent)?;
        }
        for (at, arg) in self.args.iter().enumerate() {
            writeln!(f, "  a{at}: {} {}[{}]", arg.access, arg.dtype, arg.elements)?;
        }
        for (at, (expr, dtype)) in self.exprs.iter().zip(&self.dtypes).enumerate() {
            writeln!(f, "  %{at}: {dtype} = {expr}")?;
        }
        if let Body::Contract { lhs, rhs, accumulate } = self.body {
            writeln!(f, "  acc: {accumulate} = sum of %{} * %{}", lhs.0, rhs.0)?;
        }
        if let Some(stream) = self.stream() {
            write!(f, "{stream}")?;
        }
        for store in &self.stores {
            let times = if store.per_element { "each element" } else { "once" };
            writeln!(f, "  store a{}[{}] = %{} {times}", store.arg, store.index, store.value.0)?;
        }
        writeln!(f, "}}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Arg, Axis, ExprId, Store};
    use super::*;
    use crate::dtype::DType;
    use crate::index::Index;
    use crate::scalar::Monoid;

    #[test]
    fn a_windowed_row_sum() {
        let (row, element) = (Index::axis(0), Index::axis(1).shifted(-1));
        let kernel = Kernel {
            axes: vec![Axis { extent: 2, role: Role::Parallel }, Axis { extent: 5, role: Role::Reduce }],
            args: vec![
                Arg { dtype: DType::F32, elements: 6, access: Access::Read },
                Arg { dtype: DType::F32, elements: 2, access: Access::Write },
            ],
            exprs: vec![
                Expr::Load {
                    arg: 0,
                    index: row.times(3).plus(&element),
                    mask: vec![Bound { index: element, extent: 3 }],
                },
                Expr::Reduce(Monoid::Sum, ExprId(0)),
            ],
            dtypes: vec![DType::F32; 2],
            body: Body::Loop,
            stores: vec![Store { arg: 1, index: row, value: ExprId(1), per_element: false }],
        };
        let expected = "\
kernel {
  i0: parallel 2
  i1: reduce 5
  a0: read f32[6]
  a1: write f32[2]
  %0: f32 = load a0[i0*3 + i1 + -1] where 0 <= i1 + -1 < 3
  %1: f32 = reduce sum %0
  store a1[i0] = %1 once
}
";
        assert_eq!(kernel.to_string(), expected);
    }
}
