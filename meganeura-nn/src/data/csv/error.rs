//! What can be wrong with a table.

/// A table could not be read. Lines are counted from 1, the header's included.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CsvError {
    /// There are no rows.
    #[error("has no rows")]
    Empty,
    /// Two columns have one name.
    #[error("two columns are called {name:?}")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A column that was asked for is not there.
    #[error("has no column {name:?}; there are: {}", known.join(", "))]
    NoColumn {
        /// The name.
        name: String,
        /// The columns that it has.
        known: Vec<String>,
    },
    /// A field has no columns, as all others take them.
    #[error("no column is left for {field:?}")]
    NoneLeft {
        /// The field.
        field: String,
    },
    /// A row has more or fewer values than the first.
    #[error("line {line}: {found} values, expected {expected} as in the first line")]
    Length {
        /// The line.
        line: u64,
        /// Columns.
        expected: u64,
        /// Values of the row.
        found: u64,
    },
    /// A row is no UTF-8.
    #[error("line {line}: no UTF-8 text")]
    Encoding {
        /// The line.
        line: u64,
    },
    /// A value is not of its column's type.
    #[error("line {line}: {column:?} is {found:?}, expected {expected}")]
    Value {
        /// The line.
        line: u64,
        /// Name of the column.
        column: String,
        /// What is accepted.
        expected: &'static str,
        /// The beginning of the value.
        found: String,
    },
    /// Anything else that the parser refuses.
    #[error("cannot be parsed: {0}")]
    Syntax(#[source] csv::Error),
}

impl From<csv::Error> for CsvError {
    fn from(error: csv::Error) -> CsvError {
        let at = |position: &Option<csv::Position>| position.as_ref().map_or(0, csv::Position::line);
        match error.kind() {
            csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
                CsvError::Length { line: at(pos), expected: *expected_len, found: *len }
            }
            csv::ErrorKind::Utf8 { pos, .. } => CsvError::Encoding { line: at(pos) },
            _ => CsvError::Syntax(error),
        }
    }
}
