//! Reading MNIST's files, good and hostile ones.

use crate::folder::Folder;
use flate2::{Compression, write::GzEncoder};
use meganeura_nn::data::{DataError, Mnist, idx::Idx};
use std::io::Write;
use std::path::Path;

const LIMIT: u64 = 800_000_000;

fn header(rank: u8, extents: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, rank];
    extents.iter().for_each(|extent| bytes.extend(extent.to_be_bytes()));
    bytes
}

fn idx(extents: &[u32], data: &[u8]) -> Vec<u8> {
    [header(extents.len() as u8, extents), data.to_vec()].concat()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The four files of a set with 3 and 2 images, which a test then spoils.
fn with_set(folder: Folder) -> Folder {
    folder.write("train-images-idx3-ubyte", &idx(&[3, 28, 28], &[7; 3 * 784]));
    folder.write("train-labels-idx1-ubyte.gz", &gzip(&idx(&[3], &[0, 9, 5])));
    folder.write("t10k-images-idx3-ubyte.gz", &gzip(&idx(&[2, 28, 28], &[255; 2 * 784])));
    folder.write("t10k-labels-idx1-ubyte", &idx(&[2], &[1, 2]));
    folder
}

fn read(bytes: &[u8]) -> Result<Idx<1>, DataError> {
    Idx::decode(bytes, Path::new("labels"), LIMIT)
}

#[test]
fn the_files_of_this_repository_are_mnist() {
    let mnist = Mnist::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/mnist")).unwrap();
    assert_eq!((mnist.train.len(), mnist.test.len()), (60_000, 10_000));
    assert_eq!(mnist.train.labels()[..5], [5, 0, 4, 1, 9]);
    let count = |labels: &[u8], class| labels.iter().filter(|&&label| label == class).count();
    assert_eq!((count(mnist.train.labels(), 1), count(mnist.test.labels(), 0)), (6742, 980));
    let (pixels, labels) = mnist.test.batch(&[9_999, 0]);
    assert_eq!((pixels.len(), labels), (2 * 784, vec![6, 7]));
    assert!(pixels.iter().all(|pixel| (0.0..=1.0).contains(pixel)));
}

#[test]
fn raw_and_compressed_files_are_told_by_their_first_bytes() {
    let folder = with_set(Folder::new("mixed"));
    // A compressed file without `.gz` and a raw one with it.
    folder.write("t10k-labels-idx1-ubyte", &gzip(&idx(&[2], &[1, 2])));
    std::fs::remove_file(folder.0.join("train-images-idx3-ubyte")).unwrap();
    folder.write("train-images-idx3-ubyte.gz", &idx(&[3, 28, 28], &[7; 3 * 784]));
    let mnist = Mnist::load(&folder.0).unwrap();
    assert_eq!(mnist.train.labels(), [0, 9, 5]);
    assert_eq!(mnist.test.labels(), [1, 2]);
    assert_eq!(mnist.test.image(1), [255; 784]);
    assert!(mnist.test.image(2).is_empty());
}

#[test]
fn short_and_long_files_are_refused() {
    let whole = idx(&[4], &[1, 2, 3, 4]);
    assert_eq!(read(&whole).unwrap().bytes, [1, 2, 3, 4]);
    for length in 0..whole.len() {
        let error = read(&whole[..length]).unwrap_err();
        assert!(matches!(error, DataError::Truncated { .. }), "{length} bytes: {error}");
    }
    let long = read(&[whole, vec![0]].concat()).unwrap_err();
    assert_eq!(long.to_string(), "labels: goes on after the 4 bytes of data that its header announces");
}

#[test]
fn other_formats_are_refused() {
    for bytes in [*b"PK\x03\x04aaaa", [0, 0, 8, 3, 0, 0, 0, 0], [0, 0, 13, 1, 0, 0, 0, 0]] {
        assert!(matches!(read(&bytes), Err(DataError::Magic { expected: [0, 0, 8, 1], .. })));
    }
}

#[test]
fn claims_cost_no_memory() {
    let claims = [[u32::MAX; 3], [u32::MAX, 28, 28], [1_020_409, 28, 28]];
    for claim in claims {
        let error = Idx::<3>::decode(header(3, &claim).as_slice(), Path::new("images"), LIMIT).unwrap_err();
        assert!(matches!(error, DataError::TooLarge { limit: LIMIT, .. }), "{error}");
    }
    let short = read(&idx(&[LIMIT as u32], &[0; 9])).unwrap_err();
    assert!(matches!(short, DataError::Truncated { expected: LIMIT, found: 9, .. }), "{short}");
}

#[test]
fn a_stream_that_unpacks_to_more_than_it_announces_is_left() {
    let folder = Folder::new("bomb");
    let bomb = folder.write("labels", &gzip(&idx(&[5], &vec![0; 64 << 20])));
    assert!(std::fs::metadata(&bomb).unwrap().len() < 100_000);
    assert!(matches!(Idx::<1>::read(&bomb, LIMIT), Err(DataError::Trailing { expected: 5, .. })));
}

#[test]
fn damaged_compression_is_refused() {
    let folder = Folder::new("damaged");
    let whole = gzip(&idx(&[5], &[1, 2, 3, 4, 5]));
    for length in 2..whole.len() {
        let error = Idx::<1>::read(&folder.write("labels", &whole[..length]), LIMIT).unwrap_err();
        assert!(matches!(error, DataError::Truncated { .. } | DataError::Read { .. }), "{length} bytes: {error}");
    }
    let mut wrong_sum = whole.clone();
    wrong_sum[whole.len() - 6] ^= 1;
    assert!(matches!(Idx::<1>::read(&folder.write("labels", &wrong_sum), LIMIT), Err(DataError::Read { .. })));
}

#[test]
fn files_that_do_not_fit_each_other_are_refused() {
    let folder = with_set(Folder::new("misfit"));
    let labels = "train-labels-idx1-ubyte.gz";
    folder.write(labels, &idx(&[2], &[1, 2]));
    assert!(matches!(Mnist::load(&folder.0), Err(DataError::Count { expected: 3, found: 2, .. })));
    folder.write(labels, &idx(&[3], &[1, 10, 2]));
    assert!(matches!(Mnist::load(&folder.0), Err(DataError::Label { index: 1, found: 10, classes: 10, .. })));
    folder.write(labels, &idx(&[3], &[1, 2, 3]));
    assert!(Mnist::load(&folder.0).is_ok());
    folder.write("t10k-images-idx3-ubyte.gz", &idx(&[2, 28, 27], &[0; 2 * 28 * 27]));
    assert!(matches!(Mnist::load(&folder.0), Err(DataError::Extent { dimension: "columns", found: 27, .. })));
    folder.write("t10k-images-idx3-ubyte.gz", &idx(&[0, 28, 28], &[]));
    assert!(matches!(Mnist::load(&folder.0), Err(DataError::Empty { .. })));
}

#[test]
fn what_is_missing_is_named() {
    let folder = with_set(Folder::new("missing"));
    std::fs::remove_file(folder.0.join("t10k-labels-idx1-ubyte")).unwrap();
    let error = Mnist::load(&folder.0).unwrap_err().to_string();
    assert!(error.ends_with("there is no file `t10k-labels-idx1-ubyte` or `t10k-labels-idx1-ubyte.gz`"), "{error}");
    assert!(matches!(Mnist::load(Path::new("/nonexistent")), Err(DataError::Missing { .. })));
    // A folder of the file's name opens but cannot be read.
    std::fs::create_dir(folder.0.join("t10k-labels-idx1-ubyte")).unwrap();
    assert!(matches!(Mnist::load(&folder.0), Err(DataError::Read { .. })));
}
