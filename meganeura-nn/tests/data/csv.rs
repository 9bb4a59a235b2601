//! Tables, good and hostile ones.

use crate::folder::Folder;
use flate2::{Compression, write::GzEncoder};
use meganeura_core::dtype::DType;
use meganeura_nn::data::{ColumnType, CsvError, CsvOptions, DataError, Dataset, Field, Loader, LoaderOptions};
use meganeura_nn::random::Random;
use std::io::Write;

const IRISES: &str =
    "id,sepal,petal,species\n1, 5.1 ,1.4,setosa\n2,7,-4.7e0,virginica\n3,6.3,6,\"setosa\"\n4,5.8,5.1,ver\n";

fn species() -> CsvOptions {
    CsvOptions::default().scalar("labels", "species", ColumnType::Category)
}

/// The message for a table with a header, of which `x` is read as a number and `kind` as a name.
fn refused(table: &str) -> String {
    let options = CsvOptions::default().scalar("x", "x", ColumnType::F32).scalar("kind", "kind", ColumnType::Category);
    options.parse(table.as_bytes()).unwrap_err().to_string()
}

#[test]
fn columns_are_typed_and_classes_numbered_by_name() {
    let options = species().field("id", &["id"], ColumnType::I32).rest("features");
    let table = options.parse(IRISES.as_bytes()).unwrap();
    assert_eq!(table.len(), 4);
    let fields = [Field::new("labels", DType::U32, []), Field::new("id", DType::I32, [1])];
    assert_eq!(table.fields()[..2], fields);
    assert_eq!(table.fields()[2], Field::new("features", DType::F32, [2]));
    assert_eq!(table.classes("labels"), ["setosa", "ver", "virginica"]);
    assert!(table.classes("features").is_empty());
    let random = &mut Random::new(0, "");
    let rows: Vec<_> = (0..4).map(|row| table.item(row, random).unwrap()).collect();
    assert_eq!([0, 1, 2, 3].map(|row| rows[row][0].as_u32().unwrap()[0]), [0, 2, 0, 1]);
    assert_eq!(rows[2][1].as_i32().unwrap(), [3]);
    assert_eq!([rows[0][2].as_f32().unwrap(), rows[1][2].as_f32().unwrap()], [[5.1, 1.4], [7.0, -4.7]]);
    assert!(table.item(4, random).is_err());
}

#[test]
fn other_separators_line_ends_and_no_header() {
    let plain = CsvOptions::default().without_header().delimiter(b';').scalar("y", "2", ColumnType::U32).rest("x");
    let table = plain.parse(b"1;2;3\r\n4;5;6\r\n\r\n").unwrap();
    let item = table.item(1, &mut Random::new(0, "")).unwrap();
    assert_eq!((table.len(), item[0].as_u32().unwrap(), item[1].as_f32().unwrap()), (2, &[6][..], &[4.0, 5.0][..]));
    // A byte-order mark, quotes, a comma and a line's end within a value, and no line's end at the end.
    let marked = "\u{feff}x,kind\n1,\"a, \"\"b\"\"\nc\"\n2,d".as_bytes();
    let table = CsvOptions::default().scalar("kind", "kind", ColumnType::Category).rest("x").parse(marked).unwrap();
    assert_eq!(table.classes("kind"), ["a, \"b\"\nc", "d"]);
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    assert_eq!(refused("x,kind\n1,a\n2\n"), "line 3: 1 values, expected 2 as in the first line");
    assert_eq!(refused("x,kind\n1,a,b\n"), "line 2: 3 values, expected 2 as in the first line");
    assert_eq!(refused("x,kind\n1,\"a\nb\"\n1e,a\n"), "line 4: \"x\" is \"1e\", expected a finite number");
    for value in ["", "nan", "-inf", "1e39", "1,5"] {
        let table = format!("x,kind\n\"{value}\",a\n");
        assert_eq!(refused(&table), format!("line 2: \"x\" is {value:?}, expected a finite number"));
    }
    assert_eq!(refused("x,kind\n1,\n"), "line 2: \"kind\" is \"\", expected a name");
    assert_eq!(refused("x,sort\n1,a\n"), "has no column \"kind\"; there are: x, sort");
    assert_eq!(refused("x,kind,x\n1,a,2\n"), "two columns are called \"x\"");
    for empty in ["", "\n\n", "x,kind\n", "x,kind"] {
        assert_eq!(refused(empty), "has no rows", "{empty:?}");
    }
    let whole = |ty| CsvOptions::default().scalar("x", "x", ty).parse(b"x\n-1\n4294967296\n").unwrap_err().to_string();
    assert_eq!(whole(ColumnType::U32), "line 2: \"x\" is \"-1\", expected a whole number from 0 to 4294967295");
    assert!(whole(ColumnType::I32).starts_with("line 3: \"x\" is \"4294967296\""));
    let taken = CsvOptions::default().scalar("x", "x", ColumnType::F32).rest("others").parse(b"x\n1\n");
    assert_eq!(taken.unwrap_err().to_string(), "no column is left for \"others\"");
    let latin = CsvOptions::default().rest("x").parse(b"x\n1\n\xe0\n");
    assert!(matches!(latin, Err(CsvError::Encoding { line: 3 })), "{latin:?}");
    let long = refused(&format!("x,kind\n{},a\n", "y".repeat(1 << 20)));
    assert!(long.len() < 120, "{} characters", long.len());
}

#[test]
fn files_are_raw_or_compressed_and_bounded() {
    let folder = Folder::new("csv");
    let gzip = |text: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    };
    let raw = species().read(&folder.write("irises.csv", IRISES.as_bytes())).unwrap();
    assert_eq!(species().read(&folder.write("irises.csv.gz", &gzip(IRISES.as_bytes()))).unwrap(), raw);
    let bomb = folder.write("bomb.csv", &gzip(&vec![b'\n'; 32 << 20]));
    assert!(matches!(species().limit(1 << 20).read(&bomb), Err(DataError::TooLong { .. })));
    let bad = species().read(&folder.write("bad.csv", b"species\na\nb,c\n")).unwrap_err().to_string();
    assert!(bad.ends_with("bad.csv: line 3: 2 values, expected 1 as in the first line"), "{bad}");
}

#[test]
fn a_loader_stacks_rows() {
    let table = species().rest("features").parse(IRISES.as_bytes()).unwrap();
    let options = LoaderOptions { batch: 2, shuffle: false, ..LoaderOptions::default() };
    let mut loader = Loader::new(table, options).unwrap();
    let batch = loader.next_batch().unwrap().unwrap();
    assert_eq!(batch.tensor("features").unwrap().shape().to_vec(), [2, 3]);
    assert_eq!(batch.tensor("labels").unwrap().as_u32().unwrap(), [0, 2]);
}
