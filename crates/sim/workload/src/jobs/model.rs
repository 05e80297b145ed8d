//! Machine-learning models, described by the number of parameters of each of their tensors, in the order of the forward
//! pass.
//!
//! | model | source | parameters |
//! |---|---|---|
//! | ResNet-18, ResNet-50 | He et al., CVPR 2016, table 1, as built by torchvision for CIFAR-10 | 11,181,642 and 23,528,522 |
//! | TinyStories-33M | Eldan and Li, 2023: configuration of the published checkpoint | 68,514,048 |
//!
//! The ResNets have the 10 classes of CIFAR-10 as outputs. The checkpoint of TinyStories-33M is a GPT-Neo with 4
//! layers, hidden size 768, 50,257 words and 2,048 positions. The name TinyStories-33M states fewer parameters than the
//! checkpoint has, because 38.6 M of its 68.5 M parameters are word embeddings.

use unrack_rack::jobs::TrainingModel;

/// Number of classes in the data set CIFAR-10.
const CLASSES: u64 = 10;

/// Returns the number of parameters of each tensor for which gradients are sent.
pub fn tensors(model: TrainingModel) -> Vec<u64> {
    match model {
        TrainingModel::ResNet18 => resnet(Block::Basic, [2, 2, 2, 2], CLASSES),
        TrainingModel::ResNet50 => resnet(Block::Bottleneck, [3, 4, 6, 3], CLASSES),
        TrainingModel::TinyStories33M => gpt_neo(4, 768, 50_257, 2_048),
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Block {
    /// Two convolutions with kernels of 3 x 3.
    Basic,
    /// Three convolutions with kernels of 1 x 1, 3 x 3, and 1 x 1. The last one has four times as many channels.
    Bottleneck,
}

fn resnet(block: Block, blocks: [u64; 4], classes: u64) -> Vec<u64> {
    let mut tensors = Vec::new();
    // A convolution has no bias; its batch normalization has a weight and a bias for each channel.
    let mut convolution = |from: u64, to: u64, side: u64| tensors.extend([from * to * side * side, to, to]);
    convolution(3, 64, 7);
    let mut from = 64;
    for (stage, blocks) in blocks.into_iter().enumerate() {
        let width = 64 << stage;
        let to = if block == Block::Bottleneck { 4 * width } else { width };
        for first in (0..blocks).map(|number| number == 0) {
            match block {
                Block::Basic => {
                    convolution(from, width, 3);
                    convolution(width, width, 3);
                }
                Block::Bottleneck => {
                    convolution(from, width, 1);
                    convolution(width, width, 3);
                    convolution(width, to, 1);
                }
            }
            if first && from != to {
                convolution(from, to, 1);
            }
            from = to;
        }
    }
    tensors.extend([from * classes, classes]);
    tensors
}

/// Returns the number of parameters of each tensor of GPT-Neo. Its queries, keys and values have no bias, and its
/// output layer shares the parameters of the word embeddings.
fn gpt_neo(layers: u64, hidden: u64, words: u64, positions: u64) -> Vec<u64> {
    let normalization = [hidden, hidden];
    let attention = [hidden * hidden, hidden * hidden, hidden * hidden, hidden * hidden, hidden];
    let inner = 4 * hidden;
    let feed_forward = [hidden * inner, inner, inner * hidden, hidden];
    let mut tensors = vec![words * hidden, positions * hidden];
    for _ in 0..layers {
        tensors.extend(normalization);
        tensors.extend(attention);
        tensors.extend(normalization);
        tensors.extend(feed_forward);
    }
    tensors.extend(normalization);
    tensors
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of parameters are equal to those of torchvision's weights (`num_params`) with the classes of
    /// ImageNet.
    #[test]
    fn as_many_parameters_as_published() {
        let sum = |tensors: Vec<u64>| tensors.into_iter().sum::<u64>();
        assert_eq!(sum(resnet(Block::Basic, [2, 2, 2, 2], 1000)), 11_689_512);
        assert_eq!(sum(resnet(Block::Bottleneck, [3, 4, 6, 3], 1000)), 25_557_032);
        // GPT-Neo 125M: 12 layers, 125,198,592 parameters.
        assert_eq!(sum(gpt_neo(12, 768, 50_257, 2_048)), 125_198_592);
    }

    #[test]
    fn as_many_as_the_table_above_says() {
        let of = |model| tensors(model).into_iter().sum::<u64>();
        let all = [TrainingModel::ResNet18, TrainingModel::ResNet50, TrainingModel::TinyStories33M].map(of);
        assert_eq!(all, [11_181_642, 23_528_522, 68_514_048]);
    }
}
