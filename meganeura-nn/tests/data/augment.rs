//! Random changes of images.

use meganeura_core::dtype::DType;
use meganeura_core::tensor::Tensor;
use meganeura_nn::data::{
    Augment, AugmentError, Augmented, Batch, Dataset, Field, ItemError, Loader, LoaderOptions, Partial,
};
use meganeura_nn::random::Random;
use std::collections::HashSet;

/// Images of 2 × 3 × 4 pixels, each another number, with the item as label.
#[derive(Clone, Debug)]
struct Images;

impl Dataset for Images {
    fn len(&self) -> usize {
        50
    }

    fn fields(&self) -> Vec<Field> {
        vec![Field::new("labels", DType::U32, []), Field::new("images", DType::F32, [2, 3, 4])]
    }

    fn item(&self, index: usize, _random: &mut Random) -> Result<Vec<Tensor>, ItemError> {
        let pixels = (1..=24).map(|pixel| pixel as f32).collect();
        Ok(vec![Tensor::from_u32([], vec![index as u32])?, Tensor::from_f32([2, 3, 4], pixels)?])
    }
}

fn augmented(steps: Vec<Augment>) -> Augmented<Images> {
    Augmented::new(Images, "images", steps).unwrap()
}

/// All pixels of an epoch's images, by item.
fn images(set: &Augmented<Images>, seed: u64) -> Vec<Vec<u32>> {
    let image = |index| {
        let item = set.item(index, &mut Random::new(seed, &format!("{index}"))).unwrap();
        item[1].as_f32().unwrap().iter().map(|&pixel| pixel as u32).collect()
    };
    (0..set.len()).map(image).collect()
}

#[test]
fn crops_are_all_moves_and_nothing_else() {
    let mut expected = HashSet::new();
    for (down, right) in (0..9).map(|at| (at / 3 - 1, at % 3 - 1)) {
        let pixel = |at: i32| {
            let (channel, row, column) = (at / 12, at / 4 % 3 - down, at % 4 - right);
            if (0..3).contains(&row) && (0..4).contains(&column) {
                (channel * 12 + row * 4 + column + 1) as u32
            } else {
                0
            }
        };
        expected.insert((0..24).map(pixel).collect::<Vec<u32>>());
    }
    let set = augmented(vec![Augment::Crop { padding: 1 }]);
    let found: HashSet<_> = (0..4).flat_map(|seed| images(&set, seed)).collect();
    assert_eq!(found, expected);
    let unmoved = augmented(vec![Augment::Crop { padding: 0 }]);
    assert!(images(&unmoved, 0).iter().all(|image| image.iter().copied().eq(1..=24)));
}

#[test]
fn half_of_the_images_are_flipped() {
    let flipped = [4, 3, 2, 1, 8, 7, 6, 5, 12, 11, 10, 9, 16, 15, 14, 13, 20, 19, 18, 17, 24, 23, 22, 21];
    let all = images(&augmented(vec![Augment::Flip { probability: 0.5 }]), 0);
    let count = all.iter().filter(|image| **image == flipped).count();
    assert!((10..40).contains(&count), "{count}");
    assert_eq!(all.iter().filter(|image| image.iter().copied().eq(1..=24)).count(), 50 - count);
    assert!(images(&augmented(vec![Augment::Flip { probability: 1.0 }]), 0).iter().all(|image| *image == flipped));
}

#[test]
fn channels_are_normalised_each() {
    let set = augmented(vec![Augment::Normalize { mean: vec![1.0, 13.0], std: vec![1.0, 0.5] }]);
    let item = set.item(3, &mut Random::new(0, "")).unwrap();
    assert_eq!(item[0].as_u32().unwrap(), [3]);
    let pixels = item[1].as_f32().unwrap();
    assert_eq!((pixels[0], pixels[11], pixels[12], pixels[23]), (0.0, 11.0, 0.0, 22.0));
}

#[test]
fn what_is_random_depends_on_neither_threads_nor_interruptions() {
    let steps = || vec![Augment::Crop { padding: 2 }, Augment::Flip { probability: 0.5 }];
    let loader = |workers| {
        let options = LoaderOptions { batch: 8, seed: 11, workers, partial: Partial::Pad, ..LoaderOptions::default() };
        Loader::new(augmented(steps()), options).unwrap()
    };
    let batches = |loader: &mut Loader, count: usize| -> Vec<Option<Batch>> {
        (0..count).map(|_| loader.next_batch().unwrap()).collect()
    };
    let expected = batches(&mut loader(0), 20);
    assert_eq!(batches(&mut loader(3), 20), expected);
    let mut stopped = loader(2);
    batches(&mut stopped, 11);
    let mut resumed = loader(1);
    resumed.restore(stopped.state()).unwrap();
    assert_eq!(batches(&mut resumed, 9), expected[11..]);
    let images = |at: usize| expected[at].as_ref().unwrap().tensor("images").unwrap().clone();
    assert_ne!(images(0), images(8), "another epoch");
}

#[test]
fn steps_that_do_not_fit_are_refused() {
    let refused = |field, step| Augmented::new(Images, field, vec![step]).unwrap_err();
    let crop = Augment::Crop { padding: 1 };
    assert_eq!(refused("image", crop.clone()).to_string(), "there is no field \"image\"; there are: labels, images");
    assert!(matches!(refused("labels", crop), AugmentError::NoImages { .. }));
    let error = refused("images", Augment::Flip { probability: 1.5 }).to_string();
    assert_eq!(error, "the probability of a flip is 1.5, expected a number from 0 to 1");
    let error = refused("images", Augment::Normalize { mean: vec![0.5; 3], std: vec![1.0; 2] }).to_string();
    assert_eq!(error, "3 values of mean, expected one for each of the 2 channels");
    let zero = refused("images", Augment::Normalize { mean: vec![0.0; 2], std: vec![1.0, 0.0] });
    assert!(matches!(zero, AugmentError::Value { .. }), "{zero}");
}
