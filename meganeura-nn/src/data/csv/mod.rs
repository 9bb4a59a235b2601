//! Tables of values separated by commas (RFC 4180), or by another character.

mod column;
mod error;

pub use column::ColumnType;
pub use error::CsvError;

use super::{DataError, Dataset, Field, ItemError, source};
use crate::random::Random;
use column::Values;
use meganeura_core::shape::Shape;
use meganeura_core::tensor::Tensor;
use std::collections::HashSet;
use std::path::Path;

/// Characters of a wrong value that a message shows.
const SHOWN: usize = 40;

/// Which columns of a table make which tensors.
///
/// ```no_run
/// use meganeura_nn::data::{ColumnType, CsvOptions};
///
/// // `features`, f32 of all other columns, and `labels`, the number of the species.
/// let irises = CsvOptions::default()
///     .scalar("labels", "species", ColumnType::Category)
///     .rest("features")
///     .read("irises.csv".as_ref())?;
/// println!("{:?}", irises.classes("labels"));
/// # Ok::<(), meganeura_nn::data::DataError>(())
/// ```
///
/// Spaces around values are ignored. Columns that no field names are skipped, whatever they hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvOptions {
    header: bool,
    delimiter: u8,
    limit: u64,
    fields: Vec<Wanted>,
}

/// A field that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    name: String,
    columns: Columns,
    ty: ColumnType,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Columns {
    One(String),
    These(Vec<String>),
    Rest,
}

impl Default for CsvOptions {
    /// Values separated by commas, names of the columns in the first line, at most 1 GiB, and no fields yet.
    fn default() -> CsvOptions {
        CsvOptions { header: true, delimiter: b',', limit: 1 << 30, fields: Vec::new() }
    }
}

impl CsvOptions {
    /// A table whose first line holds values already; its columns are called `0`, `1`, ….
    #[must_use]
    pub fn without_header(self) -> CsvOptions {
        CsvOptions { header: false, ..self }
    }

    /// Values separated by that character, such as `b';'` or `b'\t'`.
    #[must_use]
    pub fn delimiter(self, delimiter: u8) -> CsvOptions {
        CsvOptions { delimiter, ..self }
    }

    /// At most that many bytes, of the file and of what it unpacks to.
    #[must_use]
    pub fn limit(self, limit: u64) -> CsvOptions {
        CsvOptions { limit, ..self }
    }

    /// A field of some columns of one type, `[columns]`.
    #[must_use]
    pub fn field(self, name: &str, columns: &[&str], ty: ColumnType) -> CsvOptions {
        self.and(name, Columns::These(columns.iter().map(|&column| column.to_owned()).collect()), ty)
    }

    /// A field of one column, of rank 0, as labels are.
    #[must_use]
    pub fn scalar(self, name: &str, column: &str, ty: ColumnType) -> CsvOptions {
        self.and(name, Columns::One(column.to_owned()), ty)
    }

    /// A field of all columns that no other field names, in their order, as `f32[columns]`.
    #[must_use]
    pub fn rest(self, name: &str) -> CsvOptions {
        self.and(name, Columns::Rest, ColumnType::F32)
    }

    fn and(mut self, name: &str, columns: Columns, ty: ColumnType) -> CsvOptions {
        self.fields.push(Wanted { name: name.to_owned(), columns, ty });
        self
    }

    /// Reads a file, raw or gzip (told by its first bytes).
    ///
    /// # Errors
    /// [`DataError::Csv`] if it is no such table, and other [`DataError`]s if it cannot be read or is too long.
    pub fn read(&self, path: &Path) -> Result<CsvTable, DataError> {
        let bytes = source::read(path, self.limit)?;
        self.parse(&bytes).map_err(|source| DataError::Csv { path: path.into(), source })
    }

    /// Reads an uncompressed table that is in memory.
    ///
    /// # Errors
    /// [`CsvError`] if it is no such table.
    pub fn parse(&self, bytes: &[u8]) -> Result<CsvTable, CsvError> {
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(self.header)
            .delimiter(self.delimiter)
            .trim(csv::Trim::All)
            .from_reader(bytes);
        let names = self.names(&mut reader)?;
        let mut columns = self.columns(&names)?;
        let mut rows = 0;
        for record in reader.records() {
            let record = record?;
            columns.iter_mut().try_for_each(|column| column.push(&record, &names))?;
            rows += 1;
        }
        if rows == 0 {
            return Err(CsvError::Empty);
        }
        columns.iter_mut().for_each(|column| column.values.finish());
        Ok(CsvTable { rows, columns })
    }
}

impl CsvOptions {
    /// Names of the table's columns.
    fn names(&self, reader: &mut csv::Reader<&[u8]>) -> Result<Vec<String>, CsvError> {
        let first = reader.headers()?;
        if first.is_empty() {
            return Err(CsvError::Empty);
        }
        if !self.header {
            return Ok((0..first.len()).map(|at| at.to_string()).collect());
        }
        let mut seen = HashSet::new();
        match first.iter().find(|name| !seen.insert(*name)) {
            Some(name) => Err(CsvError::Duplicate { name: name.to_owned() }),
            None => Ok(first.iter().map(str::to_owned).collect()),
        }
    }

    /// The fields, with the places of their columns.
    fn columns(&self, names: &[String]) -> Result<Vec<Column>, CsvError> {
        let place = |name: &String| {
            let unknown = || CsvError::NoColumn { name: name.clone(), known: names.to_vec() };
            names.iter().position(|known| known == name).ok_or_else(unknown)
        };
        let named = self.fields.iter().flat_map(|wanted| match &wanted.columns {
            Columns::One(name) => std::slice::from_ref(name),
            Columns::These(names) => names,
            Columns::Rest => &[],
        });
        let named = named.map(place).collect::<Result<HashSet<usize>, CsvError>>()?;
        let column = |wanted: &Wanted| {
            let (at, shape) = match &wanted.columns {
                Columns::One(name) => (vec![place(name)?], Shape::scalar()),
                Columns::These(names) => {
                    (names.iter().map(place).collect::<Result<_, _>>()?, Shape::new([names.len()]))
                }
                Columns::Rest => {
                    let rest: Vec<usize> = (0..names.len()).filter(|at| !named.contains(at)).collect();
                    let width = rest.len();
                    (rest, Shape::new([width]))
                }
            };
            if at.is_empty() {
                return Err(CsvError::NoneLeft { field: wanted.name.clone() });
            }
            let field = Field::new(wanted.name.clone(), wanted.ty.dtype(), shape);
            Ok(Column { field, at, ty: wanted.ty, values: Values::new(wanted.ty) })
        };
        self.fields.iter().map(column).collect()
    }
}

/// A field, where its columns are, and their values so far.
#[derive(Clone, Debug, PartialEq)]
struct Column {
    field: Field,
    at: Vec<usize>,
    ty: ColumnType,
    values: Values,
}

impl Column {
    /// Adds a row's values.
    fn push(&mut self, record: &csv::StringRecord, names: &[String]) -> Result<(), CsvError> {
        for &at in &self.at {
            let text = record.get(at).unwrap_or_default();
            self.values.push(text).ok_or_else(|| CsvError::Value {
                line: record.position().map_or(0, csv::Position::line),
                column: names[at].clone(),
                expected: self.ty.expected(),
                found: text.chars().take(SHOWN).collect(),
            })?;
        }
        Ok(())
    }
}

/// The rows of a table, whose fields are those that were asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct CsvTable {
    rows: usize,
    columns: Vec<Column>,
}

impl CsvTable {
    /// The names of a field's classes, in the order of their numbers; none unless it is of
    /// [`ColumnType::Category`].
    pub fn classes(&self, field: &str) -> &[String] {
        let column = self.columns.iter().find(|column| column.field.name == field);
        column.map_or(&[], |column| &column.values.classes)
    }
}

impl Dataset for CsvTable {
    fn len(&self) -> usize {
        self.rows
    }

    fn fields(&self) -> Vec<Field> {
        self.columns.iter().map(|column| column.field.clone()).collect()
    }

    fn item(&self, index: usize, _random: &mut Random) -> Result<Vec<Tensor>, ItemError> {
        self.columns.iter().map(|column| Ok(column.values.row(index, &column.field.ty.shape)?)).collect()
    }
}
